//! Frames (RFC 9113 section 4), right or wrong.

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is: see the constants.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// The stream that it is on.
    pub stream: u32,
    /// What it carries.
    pub payload: Vec<u8>,
}

/// Error codes (RFC 9113 section 7).
#[expect(missing_docs, reason = "they are called as in the RFC")]
pub mod code {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INTERNAL_ERROR: u32 = 2;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const STREAM_CLOSED: u32 = 5;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// Settings (RFC 9113 section 6.5.2).
#[expect(missing_docs, reason = "they are called as in the RFC")]
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
}

#[expect(missing_docs, reason = "they are called as in the RFC")]
impl Frame {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const WITH_PRIORITY: u8 = 0x20;
}

impl Frame {
    /// Any frame.
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Frame {
        Frame { kind, flags, stream, payload: payload.into() }
    }

    /// HEADERS with a whole block.
    pub fn headers(stream: u32, block: impl Into<Vec<u8>>, end: bool) -> Frame {
        let flags = Frame::END_HEADERS | if end { Frame::END_STREAM } else { 0 };
        Frame::new(Frame::HEADERS, flags, stream, block)
    }

    /// CONTINUATION, which may be the last one.
    pub fn continuation(stream: u32, fragment: impl Into<Vec<u8>>, is_last: bool) -> Frame {
        let flags = if is_last { Frame::END_HEADERS } else { 0 };
        Frame::new(Frame::CONTINUATION, flags, stream, fragment)
    }

    /// DATA.
    pub fn data(stream: u32, data: impl Into<Vec<u8>>, end: bool) -> Frame {
        Frame::new(Frame::DATA, if end { Frame::END_STREAM } else { 0 }, stream, data)
    }

    /// `RST_STREAM`.
    pub fn reset(stream: u32, code: u32) -> Frame {
        Frame::new(Frame::RST_STREAM, 0, stream, code.to_be_bytes())
    }

    /// SETTINGS.
    pub fn settings(settings: &[(u16, u32)]) -> Frame {
        let bytes =
            |&(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        Frame::new(Frame::SETTINGS, 0, 0, settings.iter().flat_map(bytes).collect::<Vec<u8>>())
    }

    /// PING.
    pub fn ping(bytes: [u8; 8]) -> Frame {
        Frame::new(Frame::PING, 0, 0, bytes)
    }

    /// `WINDOW_UPDATE` for a stream, or for the connection where that is 0.
    pub fn window_update(stream: u32, increment: u32) -> Frame {
        Frame::new(Frame::WINDOW_UPDATE, 0, stream, increment.to_be_bytes())
    }

    /// GOAWAY.
    pub fn go_away(last: u32, code: u32) -> Frame {
        Frame::new(Frame::GOAWAY, 0, 0, [last.to_be_bytes(), code.to_be_bytes()].concat())
    }

    /// PRIORITY: depends on `on`.
    pub fn priority(stream: u32, on: u32) -> Frame {
        Frame::new(Frame::PRIORITY, 0, stream, [&on.to_be_bytes()[..], &[15]].concat())
    }

    /// As it goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let [_, a, b, c] = u32::try_from(self.payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let head = [a, b, c, self.kind, self.flags];
        [&head[..], &self.stream.to_be_bytes(), &self.payload].concat()
    }

    /// The first frame in `bytes` that is there as a whole, and how many of them it takes.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Frame, usize)> {
        let &[a, b, c, kind, flags, s0, s1, s2, s3, ..] = bytes else { return None };
        let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = bytes.get(9..end)?.to_vec();
        let stream = u32::from_be_bytes([s0, s1, s2, s3]);
        Some((Frame { kind, flags, stream, payload }, end))
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The 32 bits of its payload that begin there.
    #[track_caller]
    pub fn number(&self, at: usize) -> u32 {
        let bytes = self.payload.get(at..at + 4).and_then(<[u8]>::first_chunk);
        u32::from_be_bytes(*bytes.expect("the payload is that long"))
    }
}
