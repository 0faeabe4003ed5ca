//! What a connection tells its driver.

use crate::code::Code;
use std::ops::Range;
use titan_http::section::Fault;
use titan_http::stream::{RequestStart, ResponseStart, StreamId};

/// Something that has happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "what a variant says of itself says what its parts are")]
pub enum Event {
    /// The head of a request is complete; `Connection::take_request` has it.
    Request { stream: StreamId, start: RequestStart },
    /// The head of a request that is to be refused with a response: the stream is open for that alone, and what else comes on it is
    /// dropped. `Connection::take_request` has what could be kept of it.
    Refused { stream: StreamId, fault: Fault },
    /// The head of a response, interim or final, is complete; `Connection::take_response` has it.
    Response { stream: StreamId, start: ResponseStart },
    /// Bytes of a body, which lie in that part of the input. To be given back with `Connection::release` once they are used. With `end`
    /// the message is complete.
    Data { stream: StreamId, data: Range<usize>, end: bool },
    /// The trailers, which end a message; `Connection::take_trailers` has them.
    Trailers { stream: StreamId },
    /// The stream is over before its end: the peer has given it up, or this side had to because the peer broke a rule (then with the
    /// fault). Nothing else will be told of it.
    Reset { stream: StreamId, code: Code, fault: Option<Fault> },
    /// The peer serves no request whose number is `first` or greater; each of those gets no `Reset`, and has had no effect: it can be sent
    /// again elsewhere.
    GoAway { first: StreamId },
    /// The peer's settings have come.
    Settings,
}
