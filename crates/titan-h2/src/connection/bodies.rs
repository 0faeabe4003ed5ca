//! Data that comes in (RFC 9113 section 6.1), and the credit that is given back for it.

use super::Connection;
use super::reading::{Frame, Outcome, nothing_for};
use crate::code::Violation;
use crate::event::Event;
use crate::flow::Inflow;
use crate::frame;
use crate::settings::Role;
use crate::stream::{End, number, stream_id};
use titan_http::section::Fault;
use titan_http::stream::{Half, StreamId};

impl Connection {
    /// `count` bytes of the body of `stream` were used: the peer may send as many again. To be called for all
    /// bytes that events have told of, also once the stream is over.
    pub fn release(&mut self, stream: StreamId, count: usize) {
        self.release_with(stream, count, Inflow::release);
    }

    /// The same for data that is unused so far and kept elsewhere, which bounds it: the peer may send as many again,
    /// but the window does not grow.
    pub fn set_aside(&mut self, stream: StreamId, count: usize) {
        self.release_with(stream, count, Inflow::set_aside);
    }

    fn release_with(
        &mut self,
        stream: StreamId,
        count: usize,
        release: fn(&mut Inflow, usize) -> Option<u32>,
    ) {
        self.release_to_connection(count);
        let Some(stream) = self.streams.get_mut(number(stream)) else { return };
        if stream.incoming.half() == Half::Done {
            return;
        }
        if let Some(increment) = release(&mut stream.inflow, count) {
            frame::write_window_update(self.output.buf(), stream.id, increment);
        }
    }

    /// A client has given that back when it came: those whom its requests serve need have nothing to do with
    /// each other, and one that takes no responses must not hold up the rest. Each stream has its own window.
    fn release_to_connection(&mut self, count: usize) {
        if self.role == Role::Server {
            self.give_back(count);
        }
    }

    fn give_back(&mut self, count: usize) {
        if let Some(increment) = self.inflow.release(count) {
            frame::write_window_update(self.output.buf(), 0, increment);
        }
    }

    pub(super) fn on_data(&mut self, frame: Frame<'_>) -> Outcome {
        frame.head.must_be_on_stream()?;
        let (skipped, data) = frame::without_padding(frame.head, frame.payload)?;
        if !self.inflow.take(frame.payload.len()) {
            return Err(Violation::WindowExceeded);
        }
        if self.role == Role::Client {
            self.give_back(frame.payload.len());
        }
        let id = frame.head.stream;
        let end = frame.head.has(frame::END_STREAM);
        self.judge_size(data.len(), end)?;
        let Some(stream) = self.streams.get_mut(id) else {
            return self.on_stray_data(id, frame.payload.len());
        };
        if !stream.inflow.take(frame.payload.len()) {
            return Err(Violation::WindowExceeded);
        }
        if stream.is_refused {
            return self.drop_data(id, frame.payload.len(), end);
        }
        if let Err(fault) = stream.incoming.take(data.len() as u64, end) {
            self.release_to_connection(frame.payload.len());
            return self.fail_stream(id, fault);
        }
        if end {
            self.end_if_complete(id);
        }
        let padding = frame.payload.len() - data.len();
        if padding > 0 {
            self.set_aside(stream_id(id), padding);
        }
        if data.is_empty() && !end {
            return Ok(None);
        }
        let data = frame.range(skipped, data.len());
        Ok(Some(Event::Data { stream: stream_id(id), data, end }))
    }

    /// Small frames cost more than they bring. An upstream that streams token by token is welcome to.
    fn judge_size(&mut self, length: usize, end: bool) -> Result<(), Violation> {
        match (length, self.role) {
            _ if end => Ok(()),
            (0, _) => self.floods.charge(1),
            (_, Role::Server) => self.floods.data(length),
            (_, Role::Client) => Ok(()),
        }?;
        Ok(())
    }

    /// Data of a request whose head was refused.
    fn drop_data(&mut self, id: u32, length: usize, end: bool) -> Outcome {
        self.release(stream_id(id), length);
        if end {
            self.end_refused(id);
        }
        Ok(None)
    }

    /// Data on a stream that is not open.
    fn on_stray_data(&mut self, id: u32, length: usize) -> Outcome {
        self.on_stray(id)?;
        self.release_to_connection(length);
        match self.gone.find(id) {
            Some(End::Complete) => Err(Violation::ClosedStream),
            // It may have been on its way when this side gave the stream up.
            Some(End::ByUs) => nothing_for(self.floods.lost_data(length)),
            _ if id > self.last || self.role == Role::Client => {
                nothing_for(self.floods.lost_data(length))
            }
            _ => self.fail_stream(id, Fault::StreamClosed),
        }
    }
}
