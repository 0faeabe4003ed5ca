//! One connection of the small server: a whole request in, a whole response out, until it closes.

use super::slots::ConnectionSlots;
use super::socket::Stream;
use super::{Bounds, Request, Response};
use std::io;
use std::time::{Duration, SystemTime};
use titan_h1::{Body, BodyReader, Framing, Limits, RequestReader};
use titan_http::{FieldName, Method, RequestHead, Status, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

/// An accepted connection.
pub(super) struct Connection<'p> {
    stream: Box<dyn Stream>,
    bounds: Bounds,
    slots: &'p ConnectionSlots,
    /// When it has lasted long enough.
    until: Instant,
    /// Requests that were served.
    served: u32,
    /// Received and not understood yet: at most a head, and one read beyond.
    unread: Vec<u8>,
    requests: RequestReader,
    body: BodyReader,
}

/// Why there is no request.
enum Fault {
    /// It breaks HTTP/1.1 or a limit.
    Refused(titan_h1::Error),
    /// It did not arrive in time.
    Late,
    /// The client is gone.
    Gone,
}

/// How the response to a request is to be sent.
#[derive(Clone, Copy)]
struct ResponseOptions {
    method: Method,
    version: Version,
    keep_alive: bool,
}

/// How much is read at once.
const READ: usize = 4 << 10;
/// How long a request may take from its first byte to its last.
const MESSAGE: Duration = Duration::from_secs(10);
/// How long a response may take to be sent.
const WRITE: Duration = Duration::from_secs(30);
/// How long a closed connection is still read, so that a client that is sending sees its response.
const LINGER: Duration = Duration::from_secs(2);
/// How much such a client may still send.
const LINGER_BYTES: u64 = 1 << 20;

impl<'p> Connection<'p> {
    /// A connection that has sent nothing yet.
    pub(super) fn new(
        stream: Box<dyn Stream>,
        bounds: Bounds,
        slots: &'p ConnectionSlots,
    ) -> Connection<'p> {
        let limits = Limits { body: Request::MAX_BODY as u64, ..Limits::default() };
        Connection {
            stream,
            bounds,
            slots,
            until: Instant::now() + bounds.life,
            served: 0,
            unread: Vec::new(),
            requests: RequestReader::new(limits),
            body: BodyReader::new(Framing::None, &limits),
        }
    }

    /// Responds to requests until the connection ends.
    pub(super) async fn serve(mut self, handler: impl Fn(&Request) -> Response) -> io::Result<()> {
        while self.has_news().await? {
            let received = timeout(MESSAGE, self.receive()).await;
            let (response, mut options) = match received.unwrap_or(Err(Fault::Late)) {
                Ok((request, options)) => (handler(&request), options),
                Err(fault) => match fault.response() {
                    Some(response) => (response, ResponseOptions::UNKNOWN),
                    None => return Ok(()),
                },
            };
            self.served = self.served.saturating_add(1);
            options.keep_alive &= self.served < self.bounds.requests && Instant::now() < self.until;
            timeout(WRITE, self.send(response, options)).await??;
            if !options.keep_alive {
                return self.linger().await;
            }
        }
        Ok(())
    }

    /// Waits for a request. False when the connection has been idle or has lasted for too long, has ended,
    /// or has to make room for another.
    async fn has_news(&mut self) -> io::Result<bool> {
        if !self.unread.is_empty() {
            return Ok(true);
        }
        let idle = self.bounds.idle.min(self.until - Instant::now());
        let slots = self.slots;
        tokio::select! {
            // A request that has come at the same moment is served.
            biased;
            news = timeout(idle, self.fill()) => news.unwrap_or(Ok(false)),
            () = slots.is_wanted() => Ok(false),
        }
    }

    async fn fill(&mut self) -> io::Result<bool> {
        self.unread.reserve(READ);
        Ok(self.stream.read_buf(&mut self.unread).await? > 0)
    }

    async fn receive(&mut self) -> Result<(Request, ResponseOptions), Fault> {
        let mut head = RequestHead::default();
        let start = loop {
            if let Some(start) = self.requests.read(&self.unread, &mut head)? {
                break start;
            }
            self.fill_or_fail().await?;
        };
        self.unread.drain(..start.consumed);
        if start.expect_continue {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let body = self.receive_body(start.framing).await?;
        let (method, version) = (head.method, head.version);
        let options = ResponseOptions { method, version, keep_alive: start.keep_alive };
        Ok((Request { head, body }, options))
    }

    async fn receive_body(&mut self, framing: Framing) -> Result<Vec<u8>, Fault> {
        self.body.reset(framing);
        let mut body = Vec::new();
        loop {
            let piece = self.body.read(&self.unread)?;
            body.extend_from_slice(&self.unread[piece.data]);
            self.unread.drain(..piece.consumed);
            if piece.done {
                return Ok(body);
            }
            if piece.consumed == 0 {
                self.fill_or_fail().await?;
            }
        }
    }

    async fn fill_or_fail(&mut self) -> Result<(), Fault> {
        match self.fill().await? {
            true => Ok(()),
            false => Err(Fault::Gone),
        }
    }

    async fn send(&mut self, response: Response, options: ResponseOptions) -> io::Result<()> {
        let Response { mut head, body } = response;
        let ResponseOptions { method, version, keep_alive } = options;
        let date = httpdate::fmt_http_date(SystemTime::now());
        head.fields.append(FieldName::Date, date.as_bytes()).map_err(io::Error::other)?;
        let connection = match (keep_alive, version) {
            (false, _) => titan_h1::Connection::Close,
            (true, Version::Http10) => titan_h1::Connection::KeepAliveExplicit,
            (true, _) => titan_h1::Connection::KeepAlive,
        };
        let mut out = Vec::new();
        titan_h1::write_response(&mut out, &head, Body::Length(body.len() as u64), connection);
        if method != Method::HEAD {
            out.extend_from_slice(&body);
        }
        self.stream.write_all(&out).await
    }

    /// Closes in two steps (RFC 9112 section 9.6): a reset would take the response away from a client
    /// that is still sending.
    async fn linger(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let mut rest = (&mut self.stream).take(LINGER_BYTES);
        let mut dropped = tokio::io::sink();
        timeout(LINGER, tokio::io::copy(&mut rest, &mut dropped)).await?.map(drop)
    }
}

impl ResponseOptions {
    /// For a response to what could not be read: nothing that follows can be understood.
    const UNKNOWN: ResponseOptions =
        ResponseOptions { method: Method::GET, version: Version::Http11, keep_alive: false };
}

impl Fault {
    /// The response to the client, if it is still there.
    fn response(&self) -> Option<Response> {
        match self {
            Fault::Refused(error) => Some(Response::problem(error.status(), error.as_str())),
            Fault::Late => {
                let detail = "the request did not arrive in time";
                Some(Response::problem(Status::REQUEST_TIMEOUT, detail))
            }
            Fault::Gone => None,
        }
    }
}

impl From<titan_h1::Error> for Fault {
    fn from(error: titan_h1::Error) -> Fault {
        Fault::Refused(error)
    }
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Fault {
        Fault::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, duplex};
    use tokio::time::Instant;

    const IDLE: Duration = Duration::from_secs(15);
    const LIFE: Duration = Duration::from_secs(40);
    const BOUNDS: Bounds = Bounds { connections: 1, idle: IDLE, requests: 3, life: LIFE };

    /// Runs `client` against a connection, with time that passes when no task can run. Returns what the client has
    /// received at the end, and when that was.
    fn played(client: impl AsyncFnOnce(&mut DuplexStream)) -> (String, Duration) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (mut ours, theirs) = duplex(READ);
            let handler = |_: &Request| Response::new(Status::OK, "text/plain", "x".repeat(READ));
            let serving = tokio::spawn(async move {
                let slots = ConnectionSlots::new(1);
                Connection::new(Box::new(theirs), BOUNDS, &slots).serve(handler).await
            });
            let started = Instant::now();
            client(&mut ours).await;
            let mut received = String::new();
            ours.read_to_string(&mut received).await.unwrap();
            let took = started.elapsed();
            let _ = serving.await;
            (received, took)
        })
    }

    #[test]
    fn a_connection_without_a_request_is_closed() {
        assert_eq!(played(async |_| {}), (String::new(), IDLE));
    }

    #[test]
    fn a_request_that_comes_slowly_is_refused() {
        let (received, took) = played(async |client| {
            client.write_all(b"GET / HT").await.unwrap();
        });
        assert!(received.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{received}");
        assert_eq!(took, MESSAGE);
    }

    #[test]
    fn a_body_that_comes_slowly_is_refused() {
        let (received, took) = played(async |client| {
            let head = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1";
            client.write_all(head).await.unwrap();
        });
        assert!(received.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{received}");
        assert_eq!(took, MESSAGE);
    }

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// Takes one response. Whether it is the last one of the connection.
    async fn is_last(client: &mut DuplexStream) -> bool {
        let mut received = Vec::new();
        while !received.ends_with(&[b'x'; READ]) {
            assert!(client.read_buf(&mut received).await.unwrap() > 0);
        }
        String::from_utf8(received).unwrap().contains("\r\nConnection: close\r\n")
    }

    #[test]
    fn a_connection_brings_so_many_requests_and_no_more() {
        let (received, _) = played(async |client| {
            for last in [false, false, true] {
                client.write_all(GET).await.unwrap();
                assert_eq!(is_last(client).await, last);
            }
        });
        assert_eq!(received, "");
    }

    #[test]
    fn a_connection_lasts_so_long_and_no_longer() {
        let pause = IDLE - Duration::from_secs(1);
        let (received, took) = played(async |client| {
            for _ in 0..2 {
                tokio::time::sleep(pause).await;
                client.write_all(GET).await.unwrap();
                assert!(!is_last(client).await);
            }
        });
        assert_eq!((received, took), (String::new(), LIFE));
    }

    #[test]
    fn a_client_that_takes_nothing_is_given_up() {
        let (received, took) = played(async |client| {
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            tokio::time::sleep(WRITE + MESSAGE).await;
        });
        assert_eq!(took, WRITE + MESSAGE);
        assert!(received.len() <= READ, "more than what the client's buffer takes was sent");
    }
}
