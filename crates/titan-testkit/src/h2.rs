//! HTTP/2 for tests: clients and endpoints that speak in whole messages, and in frames of any kind.
//!
//! Like the reader of HTTP/1.1 messages it shares no line with the engine under test, and judges nothing:
//! what is sent may break every rule, and what comes is shown as it is.
//!
//! ```
//! use titan_testkit::h2::{Head, reply};
//! use titan_testkit::{gateway, upstream};
//!
//! let upstream = upstream::listens();
//! let gateway = gateway("upstreams: { u: { endpoints: $0, protocol: h2 } }", &[&upstream]);
//! let mut client = gateway.connects_h2();
//! let stream = client.asks(&Head::get("/a"));
//! let mut endpoint = upstream.accepts_h2();
//! let (theirs, request) = endpoint.request();
//! assert_eq!(request.target, "/a");
//! endpoint.responds(theirs, &reply(200), "x");
//! client.response(stream).has_status(200).has_body("x");
//! ```

mod connection;
mod frame;
mod hpack;

pub use connection::Connection;
pub use frame::{Frame, code, setting};
pub use hpack::block;

use crate::message::{Message, Request, Response};
use crate::peer::Peer;
use std::ops::{Deref, DerefMut};

/// How a client begins (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The lines of a head or of trailers, as they are sent: names and values of any bytes, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head(pub Vec<(Vec<u8>, Vec<u8>)>);

/// A client's end of a connection.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    next: u32,
}

/// An endpoint's end of a connection.
#[derive(Debug)]
pub struct Endpoint {
    connection: Connection,
    index: usize,
    /// Bodies of responses that it gives on its own, as far as they have not gone out.
    pending: Vec<Pending>,
}

/// The body of a response on its way, and the trailers behind it.
#[derive(Debug)]
struct Pending {
    stream: u32,
    body: Vec<u8>,
    trailers: Head,
}

/// The head of a response with that status.
pub fn reply(status: u16) -> Head {
    Head::default().with(":status", status.to_string())
}

impl Head {
    /// A GET.
    pub fn get(path: &str) -> Head {
        Head::request("GET", path)
    }

    /// A POST.
    pub fn post(path: &str) -> Head {
        Head::request("POST", path)
    }

    /// A request to the host `a`.
    pub fn request(method: &str, path: &str) -> Head {
        Head::default()
            .with(":method", method)
            .with(":scheme", "http")
            .with(":authority", "a")
            .with(":path", path)
    }

    /// One line more.
    #[must_use]
    pub fn with(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Head {
        self.0.push((name.as_ref().to_vec(), value.as_ref().to_vec()));
        self
    }

    /// One line more, in front of all others.
    #[must_use]
    pub fn with_first(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Head {
        self.0.insert(0, (name.as_ref().to_vec(), value.as_ref().to_vec()));
        self
    }

    /// No line with that name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Head {
        self.0.retain(|(known, _)| known != name.as_bytes());
        self
    }

    /// Another value for the line with that name, in its place.
    #[must_use]
    pub fn but(mut self, name: &str, value: impl AsRef<[u8]>) -> Head {
        let line = self.0.iter_mut().find(|(known, _)| known == name.as_bytes());
        line.expect("the head has such a line").1 = value.as_ref().to_vec();
        self
    }
}

impl Client {
    /// Begins a connection with these settings.
    #[track_caller]
    pub fn begins(mut peer: Peer, settings: &[(u16, u32)]) -> Client {
        peer.offers([PREFACE, &Frame::settings(settings).bytes()].concat());
        Client { connection: Connection::new(peer), next: 1 }
    }

    /// Sends a request without a body; returns its stream.
    #[track_caller]
    pub fn asks(&mut self, head: &Head) -> u32 {
        self.opens(head, true)
    }

    /// Sends a request with that body.
    #[track_caller]
    pub fn asks_with(&mut self, head: &Head, body: impl AsRef<[u8]>) -> u32 {
        let stream = self.opens(head, false);
        self.sends_data(stream, body, true);
        stream
    }

    /// Sends the head of a request whose body is to follow.
    #[track_caller]
    pub fn starts(&mut self, head: &Head) -> u32 {
        self.opens(head, false)
    }

    /// The response to a GET.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Response {
        let stream = self.asks(&Head::get(path));
        self.response(stream)
    }

    /// The number of the next stream, which is then taken.
    pub fn next_stream(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    #[track_caller]
    fn opens(&mut self, head: &Head, end: bool) -> u32 {
        let stream = self.next_stream();
        self.sends_head(stream, head, end);
        stream
    }

    /// The connection below, and nothing else of it.
    pub fn into_peer(self) -> Peer {
        self.connection.into_peer()
    }

    /// Waits for the next response on a stream: an interim one, or the whole of the final one.
    #[track_caller]
    pub fn response(&mut self, stream: u32) -> Response {
        let wanted = format!("a response on stream {stream}");
        self.connection.waits(&wanted, |connection| connection.take_response(stream))
    }

    /// Waits for the head of the next response on a stream, and leaves its body where it is.
    #[track_caller]
    pub fn response_head(&mut self, stream: u32) -> Response {
        let wanted = format!("the head of a response on stream {stream}");
        self.connection.waits(&wanted, |connection| connection.take_response_head(stream))
    }
}

impl Endpoint {
    /// Takes part in a connection that the other side has opened, with these settings.
    #[track_caller]
    pub(crate) fn begins(mut peer: Peer, settings: &[(u16, u32)], index: usize) -> Endpoint {
        peer.expects(PREFACE);
        peer.offers(Frame::settings(settings).bytes());
        Endpoint { connection: Connection::new(peer), index, pending: Vec::new() }
    }

    /// The end of a connection that an upstream serves on its own; what it was where that speaks no HTTP/2.
    pub(crate) fn serves(mut peer: Peer, index: usize) -> Result<Endpoint, Peer> {
        if !peer.begins_with(PREFACE) {
            return Err(peer);
        }
        peer.offers(Frame::settings(&[]).bytes());
        Ok(Endpoint { connection: Connection::new(peer), index, pending: Vec::new() })
    }

    /// The connection below, and nothing else of it.
    pub fn into_peer(self) -> Peer {
        self.connection.into_peer()
    }

    /// Waits for the next request as a whole; returns its stream, too.
    #[track_caller]
    pub fn request(&mut self) -> (u32, Request) {
        let index = self.index;
        self.connection.waits("a request", |connection| connection.take_request(index))
    }

    /// The stream of the next request, if that has come as a whole. Does not wait.
    pub fn request_so_far(&mut self) -> Option<u32> {
        self.looks();
        self.connection.take_request(self.index).map(|(stream, _)| stream)
    }

    /// Waits for the head of the next request, and leaves its body where it is.
    #[track_caller]
    pub fn request_head(&mut self) -> (u32, Request) {
        let index = self.index;
        self.connection
            .waits("the head of a request", |connection| connection.take_request_head(index))
    }

    /// Sends a response with that body; with an empty one the head is the end.
    #[track_caller]
    pub fn responds(&mut self, stream: u32, head: &Head, body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        self.sends_head(stream, head, body.is_empty());
        if !body.is_empty() {
            self.sends_data(stream, body, true);
        }
    }

    /// The next request as a whole; `None` when the connection ends before that. Meanwhile bodies go out.
    pub fn next_request(&mut self) -> Option<(u32, Request)> {
        let Endpoint { connection, index, pending } = self;
        connection.looks_for(|connection| {
            pending.retain_mut(|response| !response.goes_out(connection));
            connection.take_request(*index)
        })
    }

    /// Sends bodies until nothing is left of them, or the connection ends.
    pub(crate) fn flushes(&mut self) {
        let Endpoint { connection, pending, .. } = self;
        connection.looks_for(|connection| {
            pending.retain_mut(|response| !response.goes_out(connection));
            pending.is_empty().then_some(())
        });
    }

    /// Sends what an endpoint of HTTP/1.1 would send with these bytes, where they are a response.
    pub(crate) fn translates(&mut self, stream: u32, bytes: &[u8], is_to_head: bool) {
        let mut rest = bytes;
        while let Ok((response, length)) = Response::parse(rest, is_to_head, true) {
            rest = &rest[length..];
            self.sends_response(stream, response);
        }
    }

    fn sends_response(&mut self, stream: u32, response: Response) {
        let connection = ["connection", "transfer-encoding", "keep-alive"];
        let head = |lines: &[(String, String)], head| {
            let kept = lines.iter().filter(|(name, _)| !connection.contains(&&**name));
            kept.fold(head, |head: Head, (name, value)| head.with(name, value))
        };
        let Message { fields, body, trailers, .. } = response.message;
        let ends = body.is_empty() && trailers.is_empty() && response.status >= 200;
        self.sends_head(stream, &head(&fields, reply(response.status)), ends);
        if !ends && response.status >= 200 {
            let trailers = head(&trailers, Head::default());
            self.pending.push(Pending { stream, body, trailers });
        }
    }
}

impl Pending {
    /// Sends as much as the windows allow; whether that was all, or the peer does not want the rest.
    fn goes_out(&mut self, connection: &mut Connection) -> bool {
        let Pending { stream, body, trailers } = self;
        let has_trailers = !trailers.0.is_empty();
        while connection.has_reset(*stream).is_none() {
            let sent = connection.tries_to_send(*stream, body, !has_trailers);
            body.drain(..sent);
            match sent {
                _ if body.is_empty() && has_trailers => {
                    connection.sends_head(*stream, trailers, true);
                    return true;
                }
                _ if body.is_empty() => return true,
                0 => return false,
                _ => {}
            }
        }
        true
    }
}

impl Deref for Client {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Deref for Endpoint {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Endpoint {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
