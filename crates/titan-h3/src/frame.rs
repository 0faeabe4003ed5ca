//! Frames: what is in front of a payload (RFC 9114 section 7.1), and the kinds of streams and of frames there are.

use crate::varint;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of a body.
    Data,
    /// A head, or trailers.
    Headers,
    /// A push is not wanted.
    CancelPush,
    /// What a side announces.
    Settings,
    /// The request of a push.
    PushPromise,
    /// No further requests, or pushes.
    GoAway,
    /// How many pushes are wanted.
    MaxPushId,
    /// The priority of a request changes (RFC 9218 section 7.2).
    PriorityUpdate,
    /// That of a push.
    PushPriorityUpdate,
    /// One that HTTP/2 has, and whose number HTTP/3 does not use (section 7.2.8).
    OfHttp2,
    /// One that means nothing here: its payload is skipped (section 9).
    Unknown,
}

/// What a stream in one direction is for (section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// The peer's control stream.
    Control,
    /// A push.
    Push,
    /// The peer's instructions for the dynamic table.
    Encoder,
    /// What the peer says of this side's.
    Decoder,
    /// Nothing that is known here: it is not read.
    Unknown,
}

/// What is in front of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What the frame is.
    pub kind: Kind,
    /// Bytes of its payload.
    pub length: u64,
}

impl Kind {
    fn of(number: u64) -> Kind {
        match number {
            0x0 => Kind::Data,
            0x1 => Kind::Headers,
            0x3 => Kind::CancelPush,
            0x4 => Kind::Settings,
            0x5 => Kind::PushPromise,
            0x7 => Kind::GoAway,
            0xd => Kind::MaxPushId,
            0xf_0700 => Kind::PriorityUpdate,
            0xf_0701 => Kind::PushPriorityUpdate,
            0x2 | 0x6 | 0x8 | 0x9 => Kind::OfHttp2,
            _ => Kind::Unknown,
        }
    }

    /// Of those that this side sends.
    fn number(self) -> u64 {
        match self {
            Kind::Data => 0x0,
            Kind::Headers => 0x1,
            Kind::CancelPush => 0x3,
            Kind::Settings => 0x4,
            Kind::PushPromise => 0x5,
            Kind::GoAway => 0x7,
            Kind::MaxPushId => 0xd,
            Kind::PriorityUpdate => 0xf_0700,
            Kind::PushPriorityUpdate => 0xf_0701,
            // One of those that mean nothing (section 7.2.8).
            Kind::OfHttp2 | Kind::Unknown => 0x21,
        }
    }
}

impl StreamKind {
    /// The kind with that number, which a stream begins with.
    pub fn of(number: u64) -> StreamKind {
        match number {
            0x0 => StreamKind::Control,
            0x1 => StreamKind::Push,
            0x2 => StreamKind::Encoder,
            0x3 => StreamKind::Decoder,
            _ => StreamKind::Unknown,
        }
    }
}

impl FrameHeader {
    /// Reads one from the beginning of `input`, and tells how many bytes it has, 16 at most; nothing if it has not all come.
    #[inline]
    pub fn read(input: &[u8]) -> Option<(FrameHeader, usize)> {
        let (number, first) = varint::read(input)?;
        let (length, second) = varint::read(&input[first..])?;
        Some((FrameHeader { kind: Kind::of(number), length }, first + second))
    }

    /// Appends it.
    #[inline]
    pub fn write(self, out: &mut Vec<u8>) {
        varint::write(out, self.kind.number());
        varint::write(out, self.length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for number in (0..0x100).chain([0xf_0700, 0xf_0701, 0x21 + 0x1f * 1000]) {
            let kind = Kind::of(number);
            let mut out = Vec::new();
            FrameHeader { kind, length: 16_384 }.write(&mut out);
            let read = FrameHeader::read(&out).unwrap();
            let is_known = !matches!(kind, Kind::OfHttp2 | Kind::Unknown);
            let kind = if is_known { kind } else { Kind::Unknown };
            assert_eq!(read, (FrameHeader { kind, length: 16_384 }, out.len()));
            assert!((0..out.len()).all(|end| FrameHeader::read(&out[..end]).is_none()));
        }
    }

    #[test]
    fn frames_of_http2_are_none_of_http3() {
        let of_http2 = (0..0x40).filter(|number| Kind::of(*number) == Kind::OfHttp2);
        assert_eq!(of_http2.collect::<Vec<_>>(), [2, 6, 8, 9]);
    }
}
