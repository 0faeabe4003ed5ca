//! One connection of the small server: a whole request in, a response out, until it closes.

mod streaming;

use super::slots::{Slot, What};
use super::stream::Stream;
use super::{Bounds, Handler, Peer, Request, Response};
use std::io;
use std::time::{Duration, SystemTime};
use streaming::Streamed;
use titan_h1::{Body, BodyReader, Framing, Limits, RequestReader, RequestStart};
use titan_http::{FieldName, Method, RequestHead, ResponseHead, Status, Version};
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
            let (head, response, mut options) = match self.receive(handler).await {
                Ok((Received::Request(request, _room), options)) => {
                    let head = request.head.clone();
                    (head, handler.respond(request).await, options)
                }
                Ok((Received::Refused(response), options)) => {
                    (RequestHead::default(), response, options)
                }
                Err(fault) => match fault.response() {
                    Some(response) => (RequestHead::default(), response, ResponseOptions::UNKNOWN),
                    None => return Ok(()),
                },
            };
            let response = match self.stream(response, options, (&head, handler)).await? {
                Streamed::To(_end) => return Ok(()),
                Streamed::Not(response) => response,
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
        let received = timeout_at(deadline, received);
        let received = match most <= Request::SMALL_BODY {
            true => slot.waiting(What::GoOn, received).await.unwrap_or(Ok(Err(Fault::Gone))),
            false => received.await,
        };
        let received = received.unwrap_or(Err(Fault::Late));
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
        let Response { head, body, rest, is_last: _ } = response;
        let framing = match rest {
            // It would be that of the response which the client has.
            _ if head.status == Status::NOT_MODIFIED => Body::None,
            None => Body::Length(body.len() as u64),
            // Only HEAD leaves the pieces out.
            Some(_) => Body::None,
        };
        let mut out = options.written_head(head, framing)?;
        if options.method != Method::HEAD {
            out.extend_from_slice(&body);
        }
        self.write(&out).await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
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

    /// The bytes of a head, with its date.
    fn written_head(self, mut head: ResponseHead, framing: Body) -> io::Result<Vec<u8>> {
        let date = httpdate::fmt_http_date(SystemTime::now());
        head.fields.append(FieldName::Date, date.as_bytes()).map_err(io::Error::other)?;
        let connection = match (self.keep_alive, self.version) {
            (false, _) => titan_h1::Connection::Close,
            (true, Version::Http10) => titan_h1::Connection::KeepAliveExplicit,
            (true, _) => titan_h1::Connection::KeepAlive,
        };
        let mut out = Vec::new();
        titan_h1::write_response(&mut out, &head, framing, connection);
        Ok(out)
    }
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
mod tests;
