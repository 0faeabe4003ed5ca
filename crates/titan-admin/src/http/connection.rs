//! One connection of the small server: a whole request in, a whole response out, until it closes.

use super::slots::{Slot, What};
use super::stream::Stream;
use super::{Bounds, Handler, Peer, Request, Response};
use std::io;
use std::time::{Duration, SystemTime};
use titan_h1::{Body, BodyReader, Framing, Limits, RequestReader, RequestStart};
use titan_http::{FieldName, Method, RequestHead, Status, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

/// An accepted connection.
pub(super) struct Connection<'p> {
    stream: Box<dyn Stream>,
    peer: Peer,
    bounds: Bounds,
    slot: &'p Slot,
    /// For the bytes of bodies, of all connections.
    room: &'p Semaphore,
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
    /// The bodies of other requests take all the room.
    NoRoom,
    /// The client is gone, or has to go.
    Gone,
}

/// What a request has come to.
enum Received<'p> {
    /// It is complete; its body counts until the response is there.
    Request(Request, SemaphorePermit<'p>),
    /// It was refused, and its body was not received.
    Refused(Response),
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
/// How long a request may take from its first byte to its last, but for what a large body may take beyond.
const MESSAGE: Duration = Duration::from_secs(10);
/// How many bytes of a large body have to arrive in a second, on average.
const BODY_RATE: usize = 64 << 10;
/// How long a response may take to be sent.
const WRITE: Duration = Duration::from_secs(30);
/// How long a closed connection is still read, so that a client that is sending sees its response.
const LINGER: Duration = Duration::from_secs(2);
/// How much such a client may still send.
const LINGER_BYTES: u64 = 1 << 20;

impl<'p> Connection<'p> {
    /// A connection that has sent nothing yet.
    pub(super) fn new(
        (stream, peer): (Box<dyn Stream>, Peer),
        bounds: Bounds,
        slot: &'p Slot,
        room: &'p Semaphore,
    ) -> Connection<'p> {
        let limits = Limits::default();
        Connection {
            stream,
            peer,
            bounds,
            slot,
            room,
            until: Instant::now() + bounds.life,
            served: 0,
            unread: Vec::new(),
            requests: RequestReader::new(limits),
            body: BodyReader::new(Framing::None, &limits),
        }
    }

    /// Responds to requests until the connection ends.
    pub(super) async fn serve(mut self, handler: &impl Handler) -> io::Result<()> {
        while self.has_news().await? {
            let (response, mut options) = match self.receive(handler).await {
                Ok((Received::Request(request, _room), options)) => {
                    (handler.respond(request).await, options)
                }
                Ok((Received::Refused(response), options)) => (response, options),
                Err(fault) => match fault.response() {
                    Some(response) => (response, ResponseOptions::UNKNOWN),
                    None => return Ok(()),
                },
            };
            self.served = self.served.saturating_add(1);
            let is_last = response.is_last;
            options.keep_alive &= !is_last
                && self.served < self.bounds.requests
                && Instant::now() < self.until
                && !self.slot.is_closing();
            let slot = self.slot;
            match slot.waiting(What::GoOn, timeout(WRITE, self.send(response, options))).await {
                Some(sent) => sent??,
                None => return Ok(()),
            }
            if is_last {
                return Ok(());
            }
            if !options.keep_alive {
                return slot.waiting(What::GoOn, self.linger()).await.unwrap_or(Ok(()));
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
        let slot = self.slot;
        let news = slot.waiting(What::Begin, timeout(idle, self.fill())).await;
        news.and_then(Result::ok).unwrap_or(Ok(false))
    }

    async fn fill(&mut self) -> io::Result<bool> {
        self.unread.reserve(READ);
        Ok(self.stream.read_buf(&mut self.unread).await? > 0)
    }

    async fn receive(
        &mut self,
        handler: &impl Handler,
    ) -> Result<(Received<'p>, ResponseOptions), Fault> {
        let deadline = Instant::now() + MESSAGE;
        let mut head = RequestHead::default();
        let slot = self.slot;
        let receiving = timeout_at(deadline, self.receive_head(&mut head));
        let start = slot.waiting(What::GoOn, receiving).await.ok_or(Fault::Gone)???;
        let (method, version) = (head.method, head.version);
        let mut options = ResponseOptions { method, version, keep_alive: start.keep_alive };
        let most = match handler.admit(&head, &self.peer).await {
            Ok(most) => most,
            Err(response) => {
                options.keep_alive &= start.framing.is_empty();
                return Ok((Received::Refused(response), options));
            }
        };
        let deadline = deadline
            + Duration::from_secs((most.saturating_sub(Request::MAX_BODY) / BODY_RATE) as u64);
        let received = self.receive_body(start.framing, most, start.expect_continue);
        let received = timeout_at(deadline, received).await.unwrap_or(Err(Fault::Late));
        let (body, room) = received.inspect_err(|fault| {
            let (status, why) = fault.reason();
            handler.give_up(&head, &self.peer, status, why);
        })?;
        let request = Request { head, body, peer: self.peer.clone() };
        Ok((Received::Request(request, room), options))
    }

    async fn receive_head(&mut self, head: &mut RequestHead) -> Result<RequestStart, Fault> {
        loop {
            if let Some(start) = self.requests.read(&self.unread, head)? {
                self.unread.drain(..start.consumed);
                return Ok(start);
            }
            self.fill_or_fail().await?;
        }
    }

    /// Receives a body of at most so many bytes, once there is room for as many as it may have.
    async fn receive_body(
        &mut self,
        framing: Framing,
        most: usize,
        expect_continue: bool,
    ) -> Result<(Vec<u8>, SemaphorePermit<'p>), Fault> {
        self.body.reset(framing);
        self.body.set_limit(most as u64)?;
        let expected =
            self.body.remaining().map_or(most, |length| usize::try_from(length).unwrap_or(most));
        let needed = u32::try_from(expected).unwrap_or(u32::MAX);
        let room = self.room.try_acquire_many(needed).map_err(|_| Fault::NoRoom)?;
        if expect_continue {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let mut body = Vec::new();
        loop {
            let piece = self.body.read(&self.unread)?;
            body.extend_from_slice(&self.unread[piece.data]);
            self.unread.drain(..piece.consumed);
            if piece.done {
                return Ok((body, room));
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
        let Response { mut head, body, is_last: _ } = response;
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
        let (status, why) = self.reason();
        (!matches!(self, Fault::Gone)).then(|| Response::problem(status, why))
    }

    fn reason(&self) -> (Status, &'static str) {
        match self {
            Fault::Refused(error) => (error.status(), error.as_str()),
            Fault::Late => (Status::REQUEST_TIMEOUT, "the request did not arrive in time"),
            Fault::NoRoom => (
                Status::SERVICE_UNAVAILABLE,
                "the bodies of other requests take all the memory that there is for them; try again",
            ),
            // RFC 9112 section 8.
            Fault::Gone => (Status::BAD_REQUEST, "the client went before its request was complete"),
        }
    }
}

impl From<titan_h1::Error> for Fault {
    fn from(error: titan_h1::Error) -> Fault {
        Fault::Refused(error)
    }
}

impl From<tokio::time::error::Elapsed> for Fault {
    fn from(_: tokio::time::error::Elapsed) -> Fault {
        Fault::Late
    }
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Fault {
        Fault::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::ConnectionSlots;
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::io::{DuplexStream, duplex};
    use tokio::time::Instant;

    const IDLE: Duration = Duration::from_secs(15);
    const LIFE: Duration = Duration::from_secs(40);
    const BOUNDS: Bounds = Bounds {
        connections: 1,
        share: 1,
        idle: IDLE,
        requests: 3,
        life: LIFE,
        bodies: Request::MAX_BODY,
    };

    const PEER: Peer = Peer::Process { uid: 0, pid: None };

    /// Runs `client` against a connection, with time that passes when no task can run. Returns what the client has
    /// received at the end, and when that was.
    fn played(client: impl AsyncFnOnce(&mut DuplexStream)) -> (String, Duration) {
        let handler = |_: &Request| Response::new(Status::OK, "text/plain", "x".repeat(READ));
        played_with(handler, client)
    }

    fn played_with(
        handler: impl Handler,
        client: impl AsyncFnOnce(&mut DuplexStream),
    ) -> (String, Duration) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (mut ours, theirs) = duplex(READ);
            let serving = tokio::spawn(async move {
                let slots = Arc::new(ConnectionSlots::new(1, 1));
                let (slot, room) = (slots.enter(&PEER).unwrap(), Semaphore::new(BOUNDS.bodies));
                let theirs = (Box::new(theirs) as Box<dyn Stream>, PEER);
                Connection::new(theirs, BOUNDS, &slot, &room).serve(&handler).await
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
    fn a_connection_is_closed_at_once_behind_a_response_that_says_so() {
        let last = |_: &Request| {
            let response = Response::new(Status::UNAUTHORIZED, "text/plain", "");
            Response { is_last: true, ..response }
        };
        let (_, took) = played_with(last, async |client| {
            client.write_all(GET).await.unwrap();
            let mut received = String::new();
            client.read_to_string(&mut received).await.unwrap();
            assert!(received.starts_with("HTTP/1.1 401 "), "{received}");
            assert!(received.contains("\r\nConnection: close\r\n"), "{received}");
            assert!(client.write_all(GET).await.is_err(), "nothing more is read");
        });
        assert_eq!(took, Duration::ZERO);
    }

    /// Allows ten seconds more than [`MESSAGE`] for a body, and counts those that have not come in time.
    #[derive(Default)]
    struct Large(AtomicU32);

    impl Handler for Large {
        async fn admit(&self, _: &RequestHead, _: &Peer) -> Result<usize, Response> {
            Ok(Request::MAX_BODY + 10 * BODY_RATE)
        }

        async fn respond(&self, _: Request) -> Response {
            Response::new(Status::OK, "text/plain", "")
        }

        fn give_up(&self, _: &RequestHead, _: &Peer, status: Status, _: &str) {
            assert_eq!(status, Status::REQUEST_TIMEOUT);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_large_body_may_take_longer_but_not_for_ever() {
        let extra = Duration::from_secs(10);
        let large = Arc::new(Large::default());
        let (received, took) = played_with(Arc::clone(&large), async |client| {
            client
                .write_all(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
                .await
                .unwrap();
            tokio::time::sleep(MESSAGE).await;
            client.write_all(b"x").await.unwrap();
        });
        assert!(received.starts_with("HTTP/1.1 408 "), "{received}");
        assert_eq!(took, MESSAGE + extra);
        assert_eq!(large.0.load(Ordering::Relaxed), 1);
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
