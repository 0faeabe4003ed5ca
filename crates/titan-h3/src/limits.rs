//! Bounds: everything that a peer can make long, or many, has one.

use titan_http::section::{OVERSIZE_FACTOR, SectionLimits};

/// The bounds of one connection and of the messages on it. How many streams there may be, and how much may be on its way on them, are
/// the transport's to bound (RFC 9000 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that the peer may have open at the same time: as many as the transport grants.
    pub streams: u32,
    /// Bytes of heads and trailers, their lines, and the length of `:path`. In the role of a client what is beyond that in trailers is left
    /// out rather than a fault, and a `grpc-status` is kept all the same.
    pub sections: SectionLimits,
    /// Bytes of body that wait to be used, at which one stream is not read from. What is read at once goes beyond it, and what the
    /// transport has granted waits there.
    pub stream_window: usize,
    /// In the role of a server the same for all streams together. Of a stream of which nothing waits something is read all the same.
    pub connection_window: usize,
    /// Bytes of a body that may wait to be handed to the transport, for each stream. Heads, trailers and what is in front of a frame go
    /// beyond it.
    pub output: usize,
    /// Field sections that may wait for entries of the dynamic table (SETTINGS_QPACK_BLOCKED_STREAMS).
    pub blocked: usize,
    /// What a peer may cost without getting anything done before it is disconnected: see `titan_http::stream::Floods`. A tenth is
    /// forgiven in a second. Not to be less than `streams`, all of which a client may give up at once.
    pub flood_budget: u32,
}

impl Limits {
    /// Bytes of the longest field section that is read: some way beyond what is allowed, so that it can be told how much that is. A driver
    /// has to keep as much for each stream.
    pub fn longest_section(&self) -> usize {
        self.sections.longest_list().saturating_mul(OVERSIZE_FACTOR)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams: 128,
            sections: SectionLimits {
                head: 16 << 10,
                trailers: 4 << 10,
                fields: 100,
                target: 8 << 10,
            },
            stream_window: 64 << 10,
            connection_window: 1 << 20,
            output: 32 << 10,
            blocked: 16,
            flood_budget: 200,
        }
    }
}
