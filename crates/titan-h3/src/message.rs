//! The stream of a request, in one direction: which frames may follow one another (RFC 9114 sections 4.1, 4.4 and 7.1). What a field
//! section says is not looked at here.

use crate::code::Code;
use crate::control::Peer;
use crate::frame::{FrameHeader, Kind};
use std::ops::Range;

/// A part of a message, by where it lies in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The field section of a head: of a response it may be an interim one, which [`MessageStream::note_interim`] says then.
    Head(Range<usize>),
    /// Bytes of a body; none where a frame has none.
    Data(Range<usize>),
    /// The beginning of a frame with a part of a body, of which nothing has come.
    Begun,
    /// The field section behind the body.
    Trailers(Range<usize>),
    /// The beginning of a field section that is longer than any that is read; with `true` it is that of a head. Nothing behind it can be
    /// read.
    TooLong(bool),
    /// The beginning of a frame without a meaning: it has its cost all the same.
    Nothing,
    /// So many bytes more of such a frame.
    Skipped(usize),
}

/// How far a message has come.
#[derive(Debug)]
pub struct MessageStream {
    peer: Peer,
    stage: Stage,
    /// What is left of the frame that has begun, if it is DATA or one without a meaning.
    begun: Option<(Kind, u64)>,
    /// The longest field section that is read.
    most: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A head has to come.
    Head,
    /// Data may come, or trailers.
    Body,
    /// Of a tunnel data alone may come (section 4.4).
    Tunnel,
    /// Only frames without a meaning may come.
    Done,
}

/// What the end of a stream comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The message is whole, as far as its frames go.
    Whole,
    /// There was no head: H3_REQUEST_INCOMPLETE of a request, and H3_MESSAGE_ERROR of a response.
    WithoutHead,
}

impl MessageStream {
    /// One on which nothing has come, and whose field sections have so many bytes at most.
    pub fn new(peer: Peer, most: usize) -> MessageStream {
        MessageStream { peer, stage: Stage::Head, begun: None, most }
    }

    /// The head was that of an interim response: another one follows.
    pub fn note_interim(&mut self) {
        self.stage = Stage::Head;
    }

    /// What follows is a tunnel's.
    pub fn note_tunnel(&mut self) {
        self.stage = Stage::Tunnel;
    }

    /// Reads the next part. Tells how many bytes of `input` that takes, where its own bytes lie; 0 bytes if more is needed, of which as
    /// many may have to be kept as the longest field section has, and a frame's 16.
    ///
    /// # Errors
    ///
    /// The code that the connection is to be closed with.
    pub fn read(&mut self, input: &[u8]) -> Result<(usize, Part), Code> {
        if input.is_empty() {
            return Ok((0, Part::Nothing));
        }
        if let Some((kind, left)) = self.begun {
            return Ok(self.go_on(kind, left, input, 0));
        }
        let Some((FrameHeader { kind, length }, start)) = FrameHeader::read(input) else {
            return Ok((0, Part::Nothing));
        };
        match kind {
            Kind::Data if matches!(self.stage, Stage::Body | Stage::Tunnel) => {
                Ok(self.go_on(kind, length, input, start))
            }
            Kind::Unknown => Ok(self.go_on(kind, length, input, start)),
            Kind::Headers if matches!(self.stage, Stage::Head | Stage::Body) => {
                Ok(self.section(length, input, start))
            }
            // Nothing was pushed, and nobody may push: MAX_PUSH_ID is never sent (section 7.2.5).
            Kind::PushPromise if self.peer == Peer::Server => Err(Code::Id),
            _ => Err(Code::FrameUnexpected),
        }
    }

    /// As much of a frame as has come.
    fn go_on(&mut self, kind: Kind, left: u64, input: &[u8], start: usize) -> (usize, Part) {
        let count = (input.len() - start).min(usize::try_from(left).unwrap_or(usize::MAX));
        let (end, left) = (start + count, left - count as u64);
        self.begun = (left > 0).then_some((kind, left));
        let part = match kind {
            Kind::Data if count == 0 && left > 0 => Part::Begun,
            Kind::Data => Part::Data(start..end),
            _ if start > 0 => Part::Nothing,
            _ => Part::Skipped(count),
        };
        (end, part)
    }

    fn section(&mut self, length: u64, input: &[u8], start: usize) -> (usize, Part) {
        let length = usize::try_from(length).ok().filter(|length| *length <= self.most);
        let Some(length) = length else {
            return (start, Part::TooLong(self.stage == Stage::Head));
        };
        let end = start + length;
        if input.len() < end {
            return (0, Part::Nothing);
        }
        let part = match self.stage {
            Stage::Head => {
                self.stage = Stage::Body;
                Part::Head(start..end)
            }
            _ => {
                self.stage = Stage::Done;
                Part::Trailers(start..end)
            }
        };
        (end, part)
    }

    /// The stream has ended, and so much of what has come was not used.
    ///
    /// # Errors
    ///
    /// H3_FRAME_ERROR, with which the connection is to be closed: it ends within a frame (section 7.1).
    pub fn finish(&self, unread: usize) -> Result<Ending, Code> {
        match self.stage {
            _ if unread > 0 || self.begun.is_some() => Err(Code::Frame),
            Stage::Head => Ok(Ending::WithoutHead),
            _ => Ok(Ending::Whole),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint;
    use proptest::prelude::*;

    fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        varint::write(&mut out, number);
        varint::write(&mut out, payload.len() as u64);
        out.extend_from_slice(payload);
        out
    }

    /// What those bytes come to, and how the stream ends.
    fn read(peer: Peer, all: &[u8]) -> Result<(String, Ending), Code> {
        let (mut stream, mut at, mut said) = (MessageStream::new(peer, 20), 0, String::new());
        loop {
            let rest = &all[at..];
            let (count, part) = stream.read(rest)?;
            let text =
                |range: &Range<usize>| String::from_utf8_lossy(&rest[range.clone()]).into_owned();
            match part {
                Part::Head(section) => said += &format!("[{}]", text(&section)),
                Part::Data(data) => said += &text(&data),
                Part::Trailers(section) => said += &format!("({})", text(&section)),
                Part::TooLong(is_head) => {
                    said += if is_head { "[...]" } else { "(...)" };
                    return Ok((said, Ending::Whole));
                }
                Part::Begun | Part::Nothing | Part::Skipped(_) => {}
            }
            at += count;
            if count == 0 {
                return Ok((said, stream.finish(rest.len())?));
            }
        }
    }

    #[test]
    fn messages_come_in_frames() {
        let all = [
            frame(0x21, b"skipped"),
            frame(1, b"head"),
            frame(0, b"a body"),
            frame(0x40, &[]),
            frame(0, b""),
            frame(0, b" of two"),
            frame(1, b"trailers"),
            frame(0x21, b"skipped"),
        ];
        let said = "[head]a body of two(trailers)".to_owned();
        assert_eq!(read(Peer::Client, &all.concat()), Ok((said, Ending::Whole)));
        assert_eq!(read(Peer::Client, &[]), Ok((String::new(), Ending::WithoutHead)));
        let skipped = frame(0x21, b"skipped");
        assert_eq!(read(Peer::Client, &skipped), Ok((String::new(), Ending::WithoutHead)));
    }

    #[test]
    fn sections_that_are_too_long_are_not_waited_for() {
        let said = |frames: &[Vec<u8>]| read(Peer::Client, &frames.concat()[..]).map(|it| it.0);
        assert_eq!(said(&[vec![1, 21]]), Ok("[...]".to_owned()));
        assert_eq!(said(&[frame(1, b"head"), vec![1, 21]]), Ok("[head](...)".to_owned()));
    }

    #[test]
    fn each_order_that_is_wrong_has_its_code() {
        use Peer::{Client, Server};
        let (head, data) = (frame(1, b"h"), frame(0, b"d"));
        for (name, peer, frames, code) in [
            ("data first", Client, vec![data.clone()], Code::FrameUnexpected),
            (
                "data behind trailers",
                Client,
                vec![head.clone(), head.clone(), data.clone()],
                Code::FrameUnexpected,
            ),
            (
                "trailers twice",
                Client,
                vec![head.clone(), head.clone(), head.clone()],
                Code::FrameUnexpected,
            ),
            ("SETTINGS", Client, vec![frame(4, &[])], Code::FrameUnexpected),
            ("GOAWAY", Client, vec![head.clone(), frame(7, &[0])], Code::FrameUnexpected),
            ("MAX_PUSH_ID", Client, vec![head.clone(), frame(0xd, &[0])], Code::FrameUnexpected),
            ("CANCEL_PUSH", Client, vec![head.clone(), frame(3, &[0])], Code::FrameUnexpected),
            (
                "PRIORITY_UPDATE",
                Client,
                vec![head.clone(), frame(0xf_0700, &[0])],
                Code::FrameUnexpected,
            ),
            (
                "a push of a client",
                Client,
                vec![head.clone(), frame(5, &[0])],
                Code::FrameUnexpected,
            ),
            ("a push of a server", Server, vec![head.clone(), frame(5, &[0])], Code::Id),
            (
                "WINDOW_UPDATE of HTTP/2",
                Client,
                vec![head.clone(), frame(8, &[0; 4])],
                Code::FrameUnexpected,
            ),
            (
                "CONTINUATION of HTTP/2",
                Client,
                vec![head.clone(), frame(9, b"h")],
                Code::FrameUnexpected,
            ),
            ("half a head", Client, vec![head[..2].to_vec()], Code::Frame),
            ("half a frame's beginning", Client, vec![head.clone(), vec![0]], Code::Frame),
            (
                "half a body",
                Client,
                vec![head.clone(), frame(0, b"body")[..4].to_vec()],
                Code::Frame,
            ),
            (
                "half of what is skipped",
                Client,
                vec![head.clone(), frame(0x21, b"body")[..4].to_vec()],
                Code::Frame,
            ),
        ] {
            assert_eq!(read(peer, &frames.concat()), Err(code), "{name}");
        }
    }

    #[test]
    fn interim_heads_and_tunnels_change_what_follows() {
        let mut stream = MessageStream::new(Peer::Server, 20);
        let head = frame(1, b"h");
        assert_eq!(stream.read(&head), Ok((3, Part::Head(2..3))));
        stream.note_interim();
        assert_eq!(stream.read(&frame(0, b"d")), Err(Code::FrameUnexpected));
        assert_eq!(stream.read(&head), Ok((3, Part::Head(2..3))));
        stream.note_tunnel();
        assert_eq!(stream.read(&frame(0, b"d")), Ok((3, Part::Data(2..3))));
        assert_eq!(stream.read(&head), Err(Code::FrameUnexpected));
        assert_eq!(stream.finish(0), Ok(Ending::Whole));
    }

    proptest! {
        #[test]
        fn a_message_comes_in_any_pieces(body in "[a-z]{0,40}", cuts in prop::collection::vec(0..12_usize, 0..12)) {
            let all = [frame(1, b"head"), frame(0, body.as_bytes()), frame(0x21, b"xyz"), frame(1, b"t")].concat();
            let (mut stream, mut kept, mut said, mut at) =
                (MessageStream::new(Peer::Client, 20), Vec::new(), String::new(), 0);
            for cut in cuts.into_iter().chain([all.len()]) {
                let end = (at + cut).min(all.len());
                kept.extend_from_slice(&all[at..end]);
                at = end;
                loop {
                    let (count, part) = stream.read(&kept).unwrap();
                    if let Part::Head(range) | Part::Data(range) | Part::Trailers(range) = part {
                        said += std::str::from_utf8(&kept[range]).unwrap();
                    }
                    kept.drain(..count);
                    if count == 0 {
                        break;
                    }
                }
            }
            prop_assert_eq!(stream.finish(kept.len()), Ok(Ending::Whole));
            prop_assert_eq!(said, format!("head{body}t"));
        }
    }
}
