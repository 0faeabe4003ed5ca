//! Frames (RFC 9113 section 4): their nine bytes before the payload, read and written.

use crate::code::{Code, Violation};

/// Bytes before the payload of a frame.
pub(crate) const HEAD: usize = 9;

/// The longest payload that is taken and sent: the default of SETTINGS_MAX_FRAME_SIZE, which this crate never raises.
pub(crate) const MAX_PAYLOAD: usize = 16_384;

/// What a client begins with (section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest stream number, and the largest window.
pub(crate) const MAX_31: u32 = (1 << 31) - 1;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Of SETTINGS and PING.
pub(crate) const ACK: u8 = 0x1;
/// Of DATA and HEADERS.
pub(crate) const END_STREAM: u8 = 0x1;
/// Of HEADERS and CONTINUATION.
pub(crate) const END_HEADERS: u8 = 0x4;
/// Of DATA and HEADERS.
pub(crate) const PADDED: u8 = 0x8;
/// Of HEADERS: weight and dependency come first.
pub(crate) const WITH_PRIORITY: u8 = 0x20;

/// What stands before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHead {
    /// Reads the nine bytes; `None` when not all of them are there.
    #[inline]
    pub(crate) fn parse(input: &[u8]) -> Option<FrameHead> {
        let &[a, b, c, kind, flags, s0, s1, s2, s3, ..] = input else { return None };
        Some(FrameHead {
            length: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & MAX_31,
        })
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// A frame of a fixed length.
    pub(crate) fn must_be(self, length: usize) -> Result<(), Violation> {
        if self.length == length { Ok(()) } else { Err(Violation::FrameLength) }
    }

    /// A frame that belongs to the connection.
    pub(crate) fn must_be_on_connection(self) -> Result<(), Violation> {
        if self.stream == 0 { Ok(()) } else { Err(Violation::StreamZero) }
    }

    /// A frame that belongs to a stream.
    pub(crate) fn must_be_on_stream(self) -> Result<(), Violation> {
        if self.stream == 0 { Err(Violation::StreamZero) } else { Ok(()) }
    }
}

/// The part of a payload that is not padding: where it begins, and its bytes.
#[inline]
pub(crate) fn without_padding(
    head: FrameHead,
    payload: &[u8],
) -> Result<(usize, &[u8]), Violation> {
    if !head.has(PADDED) {
        return Ok((0, payload));
    }
    let (&padding, rest) = payload.split_first().ok_or(Violation::FrameLength)?;
    let length = rest.len().checked_sub(usize::from(padding)).ok_or(Violation::Padding)?;
    Ok((1, &rest[..length]))
}

/// The first 31 bits as a number: an increment, a last stream, a dependency.
pub(crate) fn number(payload: &[u8]) -> u32 {
    whole_number(payload) & MAX_31
}

/// The first 32 bits as a number.
pub(crate) fn whole_number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Appends what stands before a payload of that length.
#[inline]
pub(crate) fn write_head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    debug_assert!(length <= MAX_PAYLOAD && stream <= MAX_31);
    let [_, a, b, c] = length_bytes(length);
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, s0, s1, s2, s3]);
}

/// Puts the length into a frame that was begun without knowing it.
pub(crate) fn set_length(out: &mut [u8], at: usize, length: usize) {
    out[at..at + 3].copy_from_slice(&length_bytes(length)[1..]);
}

#[expect(clippy::cast_possible_truncation, reason = "a payload has at most MAX_PAYLOAD bytes")]
fn length_bytes(length: usize) -> [u8; 4] {
    (length as u32).to_be_bytes()
}

pub(crate) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write_head(out, 4, WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

pub(crate) fn write_reset(out: &mut Vec<u8>, stream: u32, code: Code) {
    write_head(out, 4, RST_STREAM, 0, stream);
    out.extend_from_slice(&code.number().to_be_bytes());
}

pub(crate) fn write_ping(out: &mut Vec<u8>, flags: u8, payload: &[u8]) {
    write_head(out, payload.len(), PING, flags, 0);
    out.extend_from_slice(payload);
}

pub(crate) fn write_go_away(out: &mut Vec<u8>, last: u32, code: Code) {
    write_head(out, 8, GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.number().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_as_written() {
        let mut out = Vec::new();
        write_head(&mut out, 0x1234, HEADERS, END_HEADERS | PADDED, 0x7fff_fffe);
        let head = FrameHead::parse(&out).unwrap();
        assert_eq!((head.length, head.kind, head.stream), (0x1234, HEADERS, 0x7fff_fffe));
        assert!(head.has(PADDED) && head.has(END_HEADERS) && !head.has(END_STREAM));
        assert_eq!(FrameHead::parse(&out[..8]), None);
    }

    #[test]
    fn the_reserved_bit_is_ignored() {
        let head = FrameHead::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 1]).unwrap();
        assert_eq!(head.stream, 1);
        assert_eq!(number(&[0x80, 0, 0, 5]), 5);
    }

    #[test]
    fn padding_is_taken_off() {
        let head = FrameHead { length: 0, kind: DATA, flags: PADDED, stream: 1 };
        let plain = FrameHead { flags: 0, ..head };
        assert_eq!(without_padding(plain, b"abc"), Ok((0, b"abc".as_slice())));
        assert_eq!(without_padding(head, b"\x02abc"), Ok((1, b"a".as_slice())));
        assert_eq!(without_padding(head, b"\x03abc"), Ok((1, b"".as_slice())));
        assert_eq!(without_padding(head, b"\x04abc"), Err(Violation::Padding));
        assert_eq!(without_padding(head, b""), Err(Violation::FrameLength));
    }
}
