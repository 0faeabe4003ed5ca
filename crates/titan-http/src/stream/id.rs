//! What a stream is called.

/// The number of a stream (RFC 9113 section 5.1.1, RFC 9000 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// The stream with that number.
    pub const fn new(number: u64) -> StreamId {
        StreamId(number)
    }

    /// The number as it stands in frames.
    pub const fn number(self) -> u64 {
        self.0
    }
}
