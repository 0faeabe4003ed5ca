//! What has gathered goes to the transport.

use super::Connection;
use super::control::UniStream;
use crate::code::Code;
use crate::transport::{Outgoing, Transport};
use titan_http::stream::StreamId;

/// A stream of this side's in one direction, which is open as long as the connection.
#[derive(Debug)]
pub(super) struct OwnStream {
    stream: Option<StreamId>,
    out: Outgoing,
}

/// A stream that ends before its time, in one direction or both.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) stream: StreamId,
    /// What this side sends.
    pub(super) reset: bool,
    /// What the peer sends.
    pub(super) stop: bool,
    pub(super) code: Code,
}

impl OwnStream {
    pub(super) fn beginning_with(bytes: Vec<u8>) -> OwnStream {
        OwnStream { stream: None, out: Outgoing::of(bytes) }
    }

    pub(super) fn is(&self, stream: StreamId) -> bool {
        self.stream == Some(stream)
    }

    pub(super) fn buf(&mut self) -> &mut Vec<u8> {
        &mut self.out.next
    }

    pub(super) fn waiting(&self) -> usize {
        self.out.len()
    }

    fn flush(&mut self, transport: &mut impl Transport) {
        self.stream = self.stream.or_else(|| transport.open());
        if let Some(stream) = self.stream {
            self.out.flush(transport, stream);
        }
    }
}

impl Connection {
    /// Hands to the transport what it takes. To be called after each round of reading and sending, and when a stream is writable again.
    pub fn flush(&mut self, transport: &mut impl Transport) {
        self.reader.decoder.take_output(self.feedback.buf());
        self.control.flush(transport);
        self.feedback.flush(transport);
        for (stream, level) in self.levels.drain(..) {
            transport.prioritize(stream, level);
        }
        for Closing { stream, reset, stop, code } in self.closings.drain(..) {
            if reset {
                transport.reset(stream, code);
            }
            if stop {
                transport.stop(stream, code);
                // Nothing of it comes any more, and perhaps not even its end.
                let is_ignored = matches!(self.unis.get(&stream), Some(UniStream::Ignored));
                is_ignored.then(|| self.unis.remove(&stream));
            }
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for stream in dirty.drain(..) {
            self.flush_stream(stream, transport);
        }
        self.dirty = dirty;
    }

    /// The transport takes more on that stream.
    pub fn writable(&mut self, stream: StreamId) {
        if self.streams.contains_key(&stream) {
            self.note_output(stream);
        }
    }

    /// Whether the transport has everything, apart from what it has refused on streams that are still open.
    pub fn is_flushed(&self) -> bool {
        let feedback = self.reader.decoder.waiting() + self.feedback.waiting();
        let is_told = self.closings.is_empty() && self.levels.is_empty();
        self.dirty.is_empty() && is_told && self.control.out.is_empty() && feedback == 0
    }

    fn flush_stream(&mut self, id: StreamId, transport: &mut impl Transport) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.is_dirty = false;
        let is_flushed = stream.out.flush(transport, id);
        if stream.is_waiting && stream.out.len() <= self.limits.output / 2 {
            stream.is_waiting = false;
            self.unblocked.push_back(id);
        }
        if is_flushed && std::mem::take(&mut stream.ends) {
            transport.finish(id);
            self.end_if_over(id);
        }
    }

    pub(super) fn note_output(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !std::mem::replace(&mut stream.is_dirty, true)
        {
            self.dirty.push(id);
        }
    }
}
