//! What the mapping needs of a connection of QUIC to write to it.

use crate::code::Code;
use bytes::Bytes;
use titan_http::stream::StreamId;

/// A connection of QUIC, as far as something is written to it. Nothing that it is asked to do fails in a way that would matter: a stream or
/// a connection that is gone takes everything, and whoever reads learns of it.
pub trait Transport {
    /// Opens a stream in one direction; none where the peer takes no more yet.
    fn open(&mut self) -> Option<StreamId>;

    /// Takes as much of `data` as it can from its beginning. What it leaves it will take once it has said that the stream is writable.
    fn write(&mut self, stream: StreamId, data: &mut Bytes);

    /// Ends a stream behind what was written.
    fn finish(&mut self, stream: StreamId);

    /// Ends a stream at once (RESET_STREAM).
    fn reset(&mut self, stream: StreamId, code: Code);

    /// Asks the peer to send no more on a stream (STOP_SENDING). Nothing that still comes on it is handed over.
    fn stop(&mut self, stream: StreamId, code: Code);

    /// What is written on streams of a greater level goes first; streams of the same level take turns.
    fn prioritize(&mut self, stream: StreamId, level: i32);
}

/// Bytes of a stream that the transport has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// What it has left of what it was given.
    left: Bytes,
    /// What it was not given yet.
    pub(crate) next: Vec<u8>,
}

impl Outgoing {
    /// What a stream begins with.
    pub(crate) fn of(next: Vec<u8>) -> Outgoing {
        Outgoing { left: Bytes::new(), next }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty() && self.next.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.left.len() + self.next.len()
    }

    /// Hands on what the transport takes. Whether that was all.
    pub(crate) fn flush(&mut self, transport: &mut impl Transport, stream: StreamId) -> bool {
        while !self.is_empty() {
            if self.left.is_empty() {
                self.left = Bytes::from(std::mem::take(&mut self.next));
            }
            transport.write(stream, &mut self.left);
            if !self.left.is_empty() {
                return false;
            }
        }
        true
    }
}
