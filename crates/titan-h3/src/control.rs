//! The control stream of the peer (RFC 9114 sections 6.2.1 and 7.2): frame by frame, as far as they have come.

use crate::code::Code;
use crate::frame::{FrameHeader, Kind};
use crate::priority::{MAX_PRIORITY, Priority};
use crate::settings::{MAX_PAYLOAD, Settings};
use crate::varint;

/// Who a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It asks.
    Client,
    /// It responds.
    Server,
}

/// What a control stream says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// What the peer announces; first, and once.
    Settings(Settings),
    /// The peer serves no request with that number or a greater one; of a client, it takes no push.
    GoAway(u64),
    /// The priority of a request, by the number of its stream.
    Priority(u64, Priority),
    /// A frame that changes nothing here, or the beginning of one: it has its cost all the same.
    Nothing,
    /// So many bytes more of a frame without a meaning.
    Skipped(usize),
}

/// How far the control stream of a peer has come.
#[derive(Debug)]
pub struct ControlStream {
    peer: Peer,
    has_settings: bool,
    /// What the last GOAWAY said.
    going: Option<u64>,
    /// What the last MAX_PUSH_ID said.
    pushes: Option<u64>,
    /// Bytes of a frame without a meaning that are still to be skipped.
    skipped: u64,
}

/// Bytes of a payload that is one integer.
const INTEGER: u64 = 8;
const UPDATE: u64 = INTEGER + MAX_PRIORITY as u64;

impl ControlStream {
    /// One that has said nothing.
    pub fn new(peer: Peer) -> ControlStream {
        ControlStream { peer, has_settings: false, going: None, pushes: None, skipped: 0 }
    }

    /// Reads the next frame, or skips some of one. Tells how many bytes of `input` are used, and what it says; 0 bytes if more is
    /// needed, of which no more than [`MAX_PAYLOAD`] and a frame's 16 have to be kept.
    ///
    /// # Errors
    ///
    /// The code that the connection is to be closed with.
    pub fn read(&mut self, input: &[u8]) -> Result<(usize, Told), Code> {
        if input.is_empty() {
            return Ok((0, Told::Nothing));
        }
        if self.skipped > 0 {
            let count = input.len().min(usize::try_from(self.skipped).unwrap_or(usize::MAX));
            self.skipped -= count as u64;
            return Ok((count, Told::Skipped(count)));
        }
        let Some((FrameHeader { kind, length }, start)) = FrameHeader::read(input) else {
            return Ok((0, Told::Nothing));
        };
        self.admit(kind, length)?;
        if kind == Kind::Unknown {
            self.skipped = length;
            return Ok((start, Told::Nothing));
        }
        let length = usize::try_from(length).map_err(|_| Code::ExcessiveLoad)?;
        let Some(payload) = input[start..].get(..length) else { return Ok((0, Told::Nothing)) };
        Ok((start + length, self.take(kind, payload)?))
    }

    /// Whether a frame may stand there, and have that length.
    fn admit(&mut self, kind: Kind, length: u64) -> Result<(), Code> {
        if !self.has_settings && kind != Kind::Settings {
            return Err(Code::MissingSettings);
        }
        let most = match (kind, self.peer) {
            (Kind::Settings, _) if self.has_settings => return Err(Code::FrameUnexpected),
            (Kind::Settings, _) => MAX_PAYLOAD,
            (Kind::Data | Kind::Headers | Kind::PushPromise | Kind::OfHttp2, _) => {
                return Err(Code::FrameUnexpected);
            }
            // A server is not asked for pushes, and has no say in priorities (RFC 9218 section 7.2).
            (Kind::MaxPushId | Kind::PriorityUpdate | Kind::PushPriorityUpdate, Peer::Server) => {
                return Err(Code::FrameUnexpected);
            }
            (Kind::CancelPush | Kind::GoAway | Kind::MaxPushId, _) => INTEGER,
            (Kind::PriorityUpdate | Kind::PushPriorityUpdate, Peer::Client) => UPDATE,
            (Kind::Unknown, _) => return Ok(()),
        };
        match (length > most, kind) {
            (false, _) => Ok(()),
            // Its integer is followed by something.
            (true, Kind::CancelPush | Kind::GoAway | Kind::MaxPushId) => Err(Code::Frame),
            (true, _) => Err(Code::ExcessiveLoad),
        }
    }

    fn take(&mut self, kind: Kind, payload: &[u8]) -> Result<Told, Code> {
        if kind == Kind::Settings {
            self.has_settings = true;
            return Settings::read(payload).map(Told::Settings);
        }
        let (id, length) = varint::read(payload).ok_or(Code::Frame)?;
        let rest = &payload[length..];
        match kind {
            Kind::PriorityUpdate => {
                // Only requests of clients have one.
                let is_request = id.is_multiple_of(4);
                is_request.then(|| Told::Priority(id, Priority::told(rest))).ok_or(Code::Id)
            }
            // Nothing was pushed, so that no number is one of a push (sections 7.2.3 and 7.2.7).
            Kind::PushPriorityUpdate | Kind::CancelPush => Err(Code::Id),
            _ if !rest.is_empty() => Err(Code::Frame),
            Kind::GoAway => self.go_away(id),
            _ => self.limit_pushes(id),
        }
    }

    /// Section 5.2: its number is that of a request where the peer is a server, and never grows.
    fn go_away(&mut self, id: u64) -> Result<Told, Code> {
        let is_request = self.peer == Peer::Client || id.is_multiple_of(4);
        if !is_request || self.going.is_some_and(|before| id > before) {
            return Err(Code::Id);
        }
        self.going = Some(id);
        Ok(Told::GoAway(id))
    }

    /// Section 7.2.7: its number never gets less.
    fn limit_pushes(&mut self, id: u64) -> Result<Told, Code> {
        if self.pushes.is_some_and(|before| id < before) {
            return Err(Code::Id);
        }
        self.pushes = Some(id);
        Ok(Told::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame, whatever its number.
    fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        varint::write(&mut out, number);
        varint::write(&mut out, payload.len() as u64);
        out.extend_from_slice(payload);
        out
    }

    fn integer(number: u64, value: u64) -> Vec<u8> {
        let mut payload = Vec::new();
        varint::write(&mut payload, value);
        frame(number, &payload)
    }

    fn means(told: &Told) -> bool {
        !matches!(told, Told::Nothing | Told::Skipped(_))
    }

    /// What those frames say to the end, or the code at which they end.
    fn told(peer: Peer, frames: &[Vec<u8>]) -> Result<Vec<Told>, Code> {
        let all = frames.concat();
        let (mut stream, mut at, mut said) = (ControlStream::new(peer), 0, Vec::new());
        while at < all.len() {
            let (count, told) = stream.read(&all[at..])?;
            assert!(count > 0, "it is whole");
            at += count;
            said.extend(Some(told).filter(means));
        }
        Ok(said)
    }

    fn settings() -> Vec<u8> {
        frame(4, &[])
    }

    #[test]
    fn what_a_client_says_is_heard() {
        let update = frame(0xf_0700, b"\x04u=1, i");
        let said = told(
            Peer::Client,
            &[
                settings(),
                integer(0xd, 8),
                integer(0xd, 8),
                update,
                frame(0x21, &[7; 300]),
                integer(7, 3),
                integer(7, 3),
            ],
        );
        let priority = Priority { urgency: 1, incremental: true };
        let wanted = [
            Told::Settings(Settings::default()),
            Told::Priority(4, priority),
            Told::GoAway(3),
            Told::GoAway(3),
        ];
        assert_eq!(said, Ok(wanted.to_vec()));
        let said = told(Peer::Server, &[settings(), integer(7, 8), integer(7, 4)]);
        assert_eq!(said.unwrap()[1..], [Told::GoAway(8), Told::GoAway(4)]);
    }

    #[test]
    fn each_rule_that_is_broken_has_its_code() {
        use Peer::{Client, Server};
        for (name, peer, frames, code) in [
            ("GOAWAY first", Client, vec![integer(7, 0)], Code::MissingSettings),
            ("an unknown frame first", Client, vec![frame(0x21, &[])], Code::MissingSettings),
            ("SETTINGS twice", Client, vec![settings(), settings()], Code::FrameUnexpected),
            ("DATA", Client, vec![settings(), frame(0, &[])], Code::FrameUnexpected),
            ("HEADERS", Client, vec![settings(), frame(1, &[])], Code::FrameUnexpected),
            ("PUSH_PROMISE", Client, vec![settings(), frame(5, &[0])], Code::FrameUnexpected),
            ("PING of HTTP/2", Client, vec![settings(), frame(6, &[0; 8])], Code::FrameUnexpected),
            (
                "PRIORITY of HTTP/2",
                Client,
                vec![settings(), frame(2, &[0; 5])],
                Code::FrameUnexpected,
            ),
            (
                "MAX_PUSH_ID of a server",
                Server,
                vec![settings(), integer(0xd, 1)],
                Code::FrameUnexpected,
            ),
            (
                "a priority of a server",
                Server,
                vec![settings(), frame(0xf_0700, &[0])],
                Code::FrameUnexpected,
            ),
            ("wrong settings", Client, vec![frame(4, &[2, 1])], Code::Settings),
            ("long settings", Client, vec![frame(4, &[0x21; 600])], Code::ExcessiveLoad),
            ("GOAWAY that grows", Client, vec![settings(), integer(7, 1), integer(7, 2)], Code::Id),
            ("GOAWAY of no request", Server, vec![settings(), integer(7, 2)], Code::Id),
            (
                "MAX_PUSH_ID that shrinks",
                Client,
                vec![settings(), integer(0xd, 2), integer(0xd, 1)],
                Code::Id,
            ),
            ("CANCEL_PUSH of none", Client, vec![settings(), integer(3, 0)], Code::Id),
            (
                "the priority of no push",
                Client,
                vec![settings(), frame(0xf_0701, b"\0u=1")],
                Code::Id,
            ),
            (
                "the priority of no request",
                Client,
                vec![settings(), frame(0xf_0700, b"\x02u=1")],
                Code::Id,
            ),
            (
                "a long priority",
                Client,
                vec![settings(), frame(0xf_0700, &[0; 300])],
                Code::ExcessiveLoad,
            ),
            ("GOAWAY without a number", Client, vec![settings(), frame(7, &[])], Code::Frame),
            ("GOAWAY with half a number", Client, vec![settings(), frame(7, &[0x40])], Code::Frame),
            ("GOAWAY with more", Client, vec![settings(), frame(7, &[0, 0])], Code::Frame),
            ("GOAWAY with much more", Client, vec![settings(), frame(7, &[0; 9])], Code::Frame),
        ] {
            assert_eq!(told(peer, &frames), Err(code), "{name}");
        }
    }

    proptest! {
        #[test]
        fn frames_come_in_any_pieces(cuts in prop::collection::vec(0..40_usize, 0..6), skipped in 0..60_usize) {
            let frames = [settings(), frame(0x40, &vec![1; skipped]), integer(7, 100), integer(7, 0)];
            let all = frames.concat();
            let (mut stream, mut kept, mut said, mut at) = (ControlStream::new(Peer::Client), Vec::new(), Vec::new(), 0);
            for cut in cuts.into_iter().chain([all.len()]) {
                let end = (at + cut).min(all.len());
                kept.extend_from_slice(&all[at..end]);
                at = end;
                loop {
                    let (count, told) = stream.read(&kept).unwrap();
                    said.extend(Some(told).filter(means));
                    kept.drain(..count);
                    if count == 0 {
                        break;
                    }
                }
            }
            prop_assert!(kept.is_empty());
            prop_assert_eq!(said, [Told::Settings(Settings::default()), Told::GoAway(100), Told::GoAway(0)]);
        }

        #[test]
        fn whatever_comes_little_has_to_be_kept(bytes in prop::collection::vec(any::<u8>(), 700..800)) {
            let mut stream = ControlStream::new(Peer::Client);
            stream.read(&settings()).unwrap();
            let mut rest = bytes.as_slice();
            while rest.len() > 600 {
                match stream.read(rest) {
                    Ok((0, _)) => prop_assert!(false, "it wants more than 600 bytes"),
                    Ok((count, _)) => rest = &rest[count..],
                    Err(_) => break,
                }
            }
        }
    }
}
