//! Bounds: everything that a peer can make long has one.

/// The bounds of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head: start line, fields and their line ends. Beyond it: 431.
    ///
    /// Values above [`titan_http::Fields::MAX_TEXT`] count as that.
    pub head: usize,
    /// Bytes of a request target. Beyond it: 414.
    pub target: usize,
    /// Field lines of a head or a trailer section. Beyond it: 431.
    pub fields: usize,
    /// Bytes of a chunk-size line with its extensions, without the line end. Beyond it: 400.
    pub chunk_line: usize,
    /// Bytes of a trailer section. Beyond it: 431.
    pub trailers: usize,
    /// Whether trailers beyond their limits are dropped instead: the message ends with those in front of them, and
    /// [`BodyReader::is_cut`](crate::BodyReader::is_cut). For responses, whose status and body are worth more.
    pub drops_trailers: bool,
    /// Bytes of a body after decoding; `u64::MAX` for no limit. Beyond it: 413.
    pub body: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head: 16 << 10,
            target: 8 << 10,
            fields: 100,
            chunk_line: 256,
            trailers: 4 << 10,
            drops_trailers: false,
            body: u64::MAX,
        }
    }
}
