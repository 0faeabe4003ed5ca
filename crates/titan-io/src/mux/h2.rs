//! HTTP/2 as what a connection speaks.

use super::{Farewell, Mux, Protocol, Shared};
use titan_h2::{Code, Connection, Event, Fatal};
use titan_http::stream::StreamId;
use titan_http::{Fields, ResponseHead};

impl Protocol for Connection {
    fn send_response(
        &mut self,
        stream: StreamId,
        head: &ResponseHead,
        length: Option<u64>,
        end: bool,
    ) -> usize {
        Connection::send_response(self, stream, head, length, end)
    }

    fn send_data(&mut self, stream: StreamId, data: &[u8], end: bool) -> usize {
        Connection::send_data(self, stream, data, end)
    }

    fn send_trailers(&mut self, stream: StreamId, fields: &Fields) -> usize {
        Connection::send_trailers(self, stream, fields)
    }

    fn is_sending(&self, stream: StreamId) -> bool {
        Connection::is_sending(self, stream)
    }

    fn release(&mut self, stream: StreamId, count: usize) {
        Connection::release(self, stream, count);
    }

    fn set_aside(&mut self, stream: StreamId, count: usize) {
        Connection::set_aside(self, stream, count);
    }

    fn reset(&mut self, stream: StreamId, farewell: Farewell) {
        let code = match farewell {
            Farewell::Responded => Code::NoError,
            Farewell::Failed => Code::InternalError,
            Farewell::Cancelled => Code::Cancel,
        };
        Connection::reset(self, stream, code);
    }

    fn forgive_reset(&mut self) {
        Connection::forgive_reset(self);
    }

    fn charge_for_stall(&mut self, stalls: u32) {
        let _ = self.charge(self.limits().flood_budget / stalls + 1);
    }

    fn next_unblocked(&mut self) -> Option<StreamId> {
        Connection::next_unblocked(self)
    }
}

impl Mux<Connection> {
    /// Reads on from `input` and hands what has come to the streams; what concerns the connection goes to
    /// the driver. Tells how much was used; 0 without an event means that more is needed.
    pub fn read(&self, input: &[u8]) -> Result<(usize, Option<Event>), Fatal> {
        let mut shared = self.shared.borrow_mut();
        let (consumed, event) = shared.connection.read(input)?;
        Ok((consumed, event.and_then(|event| shared.deliver(event, input))))
    }
}

impl Shared<Connection> {
    /// Puts what has come where its stream finds it. What opens a stream, or is about all of them, is left
    /// for the driver.
    fn deliver(&mut self, event: Event, input: &[u8]) -> Option<Event> {
        match event {
            Event::Data { stream, data, end } => self.deliver_data(stream, &input[data], end),
            Event::Response { stream, start } => {
                self.deliver_head(stream, start, Connection::take_response);
            }
            Event::Trailers { stream } => {
                let mut fields = Fields::default();
                self.connection.take_trailers(&mut fields);
                self.deliver_trailers(stream, fields);
            }
            Event::Reset { stream, code, fault } if self.has(stream) => {
                self.deliver_loss(stream, fault, code == Code::RefusedStream);
            }
            Event::GoAway { last, .. } => {
                self.lose_from(StreamId::new(last.number() + 1));
                return Some(event);
            }
            event => return Some(event),
        }
        None
    }
}
