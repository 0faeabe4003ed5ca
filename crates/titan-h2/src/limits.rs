//! Bounds: everything that a peer can make long, or many, has one.

/// The bounds of one connection and of the messages on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams that the peer may have open at the same time (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams: u32,
    /// Bytes of a head: names and values, with 32 for each line (RFC 9113 section 6.5.2). The head of a response that
    /// ends with it may be as long as `trailers` allows, too.
    pub head: usize,
    /// Field lines of a head or a trailer section.
    pub fields: usize,
    /// Bytes of `:path`.
    pub target: usize,
    /// Bytes of a trailer section, counted like those of a head. In the role of a client what is beyond that, or
    /// beyond `fields`, is left out rather than a fault, and a `grpc-status` is kept all the same.
    pub trailers: usize,
    /// Bytes of body that may be on their way, or wait to be used, on one stream.
    pub stream_window: u32,
    /// What the window of a stream may grow to as its data is used; no less than it is to begin with.
    pub grown_window: u32,
    /// The same for all streams together; of a client, only for what is on its way.
    pub connection_window: u32,
    /// Bytes that may wait to be written before bodies are held back. Heads and control frames go beyond it.
    pub output: usize,
    /// What a peer may cost without getting anything done before it is disconnected: see `Floods`. A tenth is
    /// forgiven in a second. Not to be less than `streams`, all of which a client may give up at once.
    pub flood_budget: u32,
}

impl Limits {
    /// The longest list of fields that is taken, be it a head or trailers.
    pub(crate) fn longest_list(&self) -> usize {
        self.head.max(self.trailers)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams: 128,
            head: 16 << 10,
            fields: 100,
            target: 8 << 10,
            trailers: 4 << 10,
            stream_window: 64 << 10,
            grown_window: 0,
            connection_window: 1 << 20,
            output: 64 << 10,
            flood_budget: 200,
        }
    }
}
