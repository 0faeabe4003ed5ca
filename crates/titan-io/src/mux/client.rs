//! What a connection whose streams this side opens speaks.

use super::{Mux, Protocol, StreamHandle};
use std::rc::Rc;
use titan_http::RequestHead;
use titan_http::section::Destination;
use titan_http::stream::StreamId;

/// A protocol in which this side sends requests.
pub trait ClientProtocol: Protocol {
    /// Whether the peer takes one more request.
    fn can_open(&mut self) -> bool;

    /// Begins a request on a stream of its own; none where the peer takes no more. With `end` no body follows; `length` is what
    /// `content-length` is to say.
    fn send_request(
        &mut self,
        head: &RequestHead,
        to: Destination<'_>,
        length: Option<u64>,
        end: bool,
    ) -> Option<StreamId>;

    /// How many requests run.
    fn open_streams(&self) -> usize;

    /// How many may, as far as that is known.
    fn most_streams(&self) -> u32;

    /// Asks the peer for a sign of life.
    fn ping(&mut self);

    /// Whether one side has said that it leaves: no request should be begun any more.
    fn is_leaving(&self) -> bool;

    /// Whether nothing more can come.
    fn is_over(&self) -> bool;
}

impl<P: ClientProtocol> Mux<P> {
    /// A stream that this side opens; none when the peer takes no more.
    pub fn open(
        self: &Rc<Self>,
        head: &RequestHead,
        to: Destination<'_>,
        length: Option<u64>,
        end: bool,
    ) -> Option<Rc<StreamHandle<P>>> {
        let stream = self.connection().send_request(head, to, length, end)?;
        Some(self.opened(stream))
    }
}

impl ClientProtocol for titan_h2::Connection {
    fn can_open(&mut self) -> bool {
        titan_h2::Connection::can_open(self)
    }

    fn send_request(
        &mut self,
        head: &RequestHead,
        to: Destination<'_>,
        length: Option<u64>,
        end: bool,
    ) -> Option<StreamId> {
        titan_h2::Connection::send_request(self, head, to, length, end)
    }

    fn open_streams(&self) -> usize {
        titan_h2::Connection::open_streams(self)
    }

    fn most_streams(&self) -> u32 {
        self.peer_streams()
    }

    fn ping(&mut self) {
        titan_h2::Connection::ping(self);
    }

    fn is_leaving(&self) -> bool {
        titan_h2::Connection::is_leaving(self)
    }

    fn is_over(&self) -> bool {
        titan_h2::Connection::is_over(self)
    }
}
