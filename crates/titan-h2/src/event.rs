//! What a connection tells its driver.

use crate::code::Code;
use std::ops::Range;
use titan_http::Span;
use titan_http::section::Fault;

/// The number of a stream (RFC 9113 section 5.1.1): odd where the client has opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u32);

/// Something that has happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "what a variant says of itself says what its parts are")]
pub enum Event {
    /// The head of a request is complete; `Connection::take_request` has it.
    Request { stream: StreamId, start: RequestStart },
    /// The head of a request that is to be refused with a response: the stream is open for that alone, and
    /// what else comes on it is dropped. `Connection::take_request` has what could be kept of it.
    Refused { stream: StreamId, fault: Fault },
    /// The head of a response, interim or final, is complete; `Connection::take_response` has it.
    Response { stream: StreamId, start: ResponseStart },
    /// Bytes of a body, which lie in that part of the input. To be given back with `Connection::release`
    /// once they are used. With `end` the message is complete.
    Data { stream: StreamId, data: Range<usize>, end: bool },
    /// The trailers, which end a message; `Connection::take_trailers` has them.
    Trailers { stream: StreamId },
    /// The stream is over before its end: the peer has reset it, or this side had to because the peer broke a
    /// rule (then with the fault). Nothing else will be told of it.
    Reset { stream: StreamId, code: Code, fault: Option<Fault> },
    /// The peer will serve no stream that this side opened after `last`; each of those gets no `Reset`, and
    /// has had no effect: it can be sent again elsewhere.
    GoAway { last: StreamId, code: Code },
    /// The peer's settings have come: how many streams it takes, and whether it knows extended CONNECT.
    Settings,
    /// The peer has answered `Connection::ping`.
    Pong,
}

/// A request, apart from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestStart {
    /// Whether there is no body.
    pub end: bool,
    /// The length of the body, where `content-length` declares it. It is enforced.
    pub length: Option<u64>,
    /// Whether the client waits for 100 (Continue).
    pub expect_continue: bool,
    /// `:protocol` of an extended CONNECT (RFC 8441), in the text of the head's fields.
    pub protocol: Option<Span>,
    /// Whether `:scheme` is `https`.
    pub is_https: bool,
}

/// A response, apart from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseStart {
    /// Whether it is interim (1xx): another one follows.
    pub interim: bool,
    /// Whether there is no body.
    pub end: bool,
    /// The length of the body, where `content-length` declares it. It is enforced, except for responses to HEAD
    /// and with status 304, whose declared length is that of a body that stays away.
    pub length: Option<u64>,
}

impl StreamId {
    /// The number as it stands in frames.
    pub fn number(self) -> u32 {
        self.0
    }
}
