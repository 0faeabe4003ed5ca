//! Requests and responses of the small server, and who is at either end.

use super::Pieces;
use serde::Serialize;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use titan_http::{FieldName, RequestHead, ResponseHead, Status};

/// How much a server holds at most.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at the same moment. For one more, one is closed that waits for its client: of the client that has the most, the
    /// one that has waited for longest. Where none does, the new one waits.
    pub connections: u32,
    /// How many of them one client may have: an IPv4 address, a /64 network of IPv6, or a user over a Unix socket. For one more,
    /// one of its own is closed. As many may wait. Half of these, and half of all connections, may carry responses that come piece by
    /// piece; one more gets 503.
    pub share: u32,
    /// How long a connection without a request is kept.
    pub idle: Duration,
    /// How many requests a connection may bring.
    pub requests: u32,
    /// How long a connection may last, except for the request that it serves then, or the stream.
    pub life: Duration,
    /// Bytes of the bodies of all requests that are received or served at the same moment. One more gets 503.
    pub bodies: usize,
}

/// What responds to requests. It may wait; it must not block: all connections of the server share a thread.
pub trait Handler: Send + Sync + 'static {
    /// Looks at the head of a request before its body is received: how many bytes that may have, or the response to a
    /// request that is refused.
    fn admit(
        &self,
        _head: &RequestHead,
        _peer: &Peer,
    ) -> impl Future<Output = Result<usize, Response>> + Send {
        async { Ok(Request::MAX_BODY) }
    }

    /// Responds to a request that was admitted.
    fn respond(&self, request: Request) -> impl Future<Output = Response> + Send;

    /// Whether the response to a request may go on, one that comes piece by piece. Asked every few seconds: who has begun to read may
    /// have lost the right to.
    fn may_go_on(&self, _head: &RequestHead, _peer: &Peer) -> bool {
        true
    }

    /// Is told of a request that was admitted, and whose body has not been received: of the status of the response, or that it
    /// would have got, and why.
    fn give_up(&self, _head: &RequestHead, _peer: &Peer, _status: Status, _why: &str) {}
}

impl<H: Handler> Handler for Arc<H> {
    fn admit(
        &self,
        head: &RequestHead,
        peer: &Peer,
    ) -> impl Future<Output = Result<usize, Response>> + Send {
        H::admit(self, head, peer)
    }

    fn respond(&self, request: Request) -> impl Future<Output = Response> + Send {
        H::respond(self, request)
    }

    fn may_go_on(&self, head: &RequestHead, peer: &Peer) -> bool {
        H::may_go_on(self, head, peer)
    }

    fn give_up(&self, head: &RequestHead, peer: &Peer, status: Status, why: &str) {
        H::give_up(self, head, peer, status, why);
    }
}

/// Responds at once to everybody.
impl<F: Fn(&Request) -> Response + Send + Sync + 'static> Handler for F {
    async fn respond(&self, request: Request) -> Response {
        self(&request)
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, over a Unix socket, as the kernel knows it.
    Process {
        /// Its effective user.
        uid: u32,
        /// Its number; `None` if it is in another namespace.
        pid: Option<i32>,
    },
    /// A client over TCP.
    Client {
        /// Where it is.
        address: SocketAddr,
        /// Whether it speaks TLS.
        is_secure: bool,
    },
}

impl Peer {
    /// Whether nobody else can read along.
    pub fn is_secure(&self) -> bool {
        match self {
            Peer::Process { .. } => true,
            Peer::Client { is_secure, .. } => *is_secure,
        }
    }
}

/// A complete request.
#[derive(Debug)]
pub struct Request {
    /// Method, target and fields.
    pub head: RequestHead,
    /// At most as many bytes as [`Handler::admit`] has allowed.
    pub body: Vec<u8>,
    /// Who sent it.
    pub peer: Peer,
}

/// A response. The server adds the date and what frames the message.
#[derive(Debug)]
pub struct Response {
    /// Status and fields.
    pub head: ResponseHead,
    /// Not sent in response to HEAD.
    pub body: Vec<u8>,
    /// What follows the body, as it comes. The connection closes behind it.
    pub rest: Option<Pieces>,
    /// Whether the connection is closed at once behind it, whatever the client is sending.
    pub is_last: bool,
}

impl Request {
    /// The largest body that is received unless a handler allows more; a larger one gets 413.
    pub const MAX_BODY: usize = 64 << 10;

    /// Where a handler allows no more than this, the connection may make room for another while the body is received: anybody may
    /// send that.
    pub const SMALL_BODY: usize = 1 << 10;
}

impl Response {
    /// A response with a body of that media type.
    pub fn new(status: Status, media_type: &'static str, body: impl Into<Vec<u8>>) -> Response {
        let response = Response { body: body.into(), ..Response::empty(status) };
        response.with(FieldName::ContentType, media_type)
    }

    /// A response without a body.
    pub fn empty(status: Status) -> Response {
        let head = ResponseHead::with_status(status);
        Response { head, body: Vec::new(), rest: None, is_last: false }
    }

    /// The same, whose body goes on with what comes from that source.
    #[must_use]
    pub fn followed_by(self, rest: Pieces) -> Response {
        Response { rest: Some(rest), ..self }
    }

    /// A response with that as JSON.
    pub fn json(status: Status, document: &impl Serialize) -> Response {
        let text = serde_json::to_string(document).expect("it is made of numbers, texts and times");
        Response::new(status, "application/json", format!("{text}\n"))
    }

    /// A problem document (RFC 9457) of no further type than its status.
    pub fn problem(status: Status, detail: &str) -> Response {
        let document = json!({
            "type": "about:blank",
            "title": status.reason(),
            "status": status.code(),
            "detail": detail,
        });
        Response::new(status, "application/problem+json", format!("{document}\n"))
    }

    /// The same with one more field.
    #[must_use]
    pub fn with(mut self, name: FieldName, value: &str) -> Response {
        let added = self.head.fields.append(name, value.as_bytes());
        added.expect("what this program writes into a field is a text without control bytes");
        self
    }

    /// The same with one more field of any name.
    #[must_use]
    pub fn with_named(mut self, name: &str, value: &str) -> Response {
        let added = self.head.fields.append_named(name.as_bytes(), value.as_bytes());
        added.expect("what this program writes into a field is a text without control bytes");
        self
    }
}

/// The media type of the body behind a head, without its parameters; empty if none is named.
pub(crate) fn media_type(head: &RequestHead) -> &[u8] {
    let value = head.fields.get(FieldName::ContentType).unwrap_or_default();
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}
