//! What a stream is called, and what is kept by that.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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

/// What is kept for each of several streams.
pub type StreamMap<V> = HashMap<StreamId, V, BuildHasherDefault<ByNumber>>;

/// Numbers of streams are as good as hashes already: a peer that chooses them chooses them in order.
#[derive(Default)]
pub struct ByNumber(u64);

impl Hasher for ByNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The high bits choose the group in the table, the low ones the place in it.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
