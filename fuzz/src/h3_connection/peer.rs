//! What the peer makes of what the connection sends. It knows the rules, and panics where one is broken.

use std::collections::{BTreeMap, BTreeSet};
use titan_h3::qpack::{Decoded, Decoder};
use titan_h3::{ControlStream, Ending, MessageStream, Part, Peer, Told, varint};

/// What the connection has said so far.
pub(super) struct Listener {
    /// Who sends that.
    sender: Peer,
    streams: BTreeMap<u64, Heard>,
    /// No fewer than the sections that the connection can have read, by stream.
    pub(super) sections: BTreeMap<u64, usize>,
    cancelled: BTreeSet<u64>,
}

/// One stream.
struct Heard {
    stream: Stream,
    unread: Vec<u8>,
}

enum Stream {
    New,
    Control(ControlStream),
    Decoder,
    Message(MessageStream),
}

/// Longer than anything that is sent here.
const LONGEST: usize = 1 << 20;

impl Listener {
    pub(super) fn new(sender: Peer) -> Listener {
        let (streams, sections) = (BTreeMap::new(), BTreeMap::new());
        Listener { sender, streams, sections, cancelled: BTreeSet::new() }
    }

    /// More has come on a stream.
    pub(super) fn hear(&mut self, id: u64, bytes: &[u8]) {
        let sender = self.sender;
        let heard = self.streams.entry(id).or_insert_with(|| Heard::new(id, sender));
        heard.unread.extend_from_slice(bytes);
        let mut feedback = Vec::new();
        while heard.read(sender, &mut feedback) {}
        feedback.into_iter().for_each(|instruction| self.heed(instruction));
    }

    /// A stream has ended in good order.
    pub(super) fn end(&mut self, id: u64) {
        let heard = self.streams.get(&id).expect("nothing was sent, and that is no message");
        let Stream::Message(message) = &heard.stream else { panic!("{id} has to stay open") };
        assert_eq!(message.finish(heard.unread.len()), Ok(Ending::Whole));
    }

    /// An instruction of the connection's decoder (RFC 9204 section 4.4).
    fn heed(&mut self, (first, number): (u8, u64)) {
        match first {
            0x80.. => {
                assert!(!self.cancelled.contains(&number), "{number} was cancelled");
                let left = self.sections.get_mut(&number).expect("it had a section");
                *left = left.checked_sub(1).expect("it had as many sections");
            }
            0x40.. => assert!(self.cancelled.insert(number), "{number} is cancelled twice"),
            _ => assert!(number > 0, "an increment of nothing"),
        }
    }
}

impl Heard {
    fn new(id: u64, sender: Peer) -> Heard {
        let stream = match id % 4 {
            0 => Stream::Message(MessageStream::new(sender, LONGEST)),
            _ => Stream::New,
        };
        Heard { stream, unread: Vec::new() }
    }

    /// Reads on. Whether there may be more.
    fn read(&mut self, sender: Peer, feedback: &mut Vec<(u8, u64)>) -> bool {
        let input = &self.unread;
        let count = match &mut self.stream {
            Stream::New => {
                let Some((kind, count)) = varint::read(input) else { return false };
                self.stream = match kind {
                    0x0 => Stream::Control(ControlStream::new(sender)),
                    0x3 => Stream::Decoder,
                    _ => panic!("there is no use for a stream of kind {kind}"),
                };
                count
            }
            Stream::Control(control) => {
                let (count, told) = control.read(input).expect("no rule is broken");
                assert!(count == 0 || matches!(told, Told::Settings(_) | Told::GoAway(_)));
                count
            }
            Stream::Decoder => {
                let Some((instruction, count)) = instruction(input) else { return false };
                feedback.push(instruction);
                count
            }
            Stream::Message(message) => {
                let (count, part) = message.read(input).expect("no rule is broken");
                if let Part::Head(section) = &part
                    && is_interim(&input[section.clone()])
                {
                    message.note_interim();
                }
                assert!(count == 0 || !matches!(part, Part::Nothing | Part::Skipped(_)));
                count
            }
        };
        self.unread.drain(..count);
        count > 0
    }
}

/// What an instruction begins with, its number, and how many bytes it has.
fn instruction(input: &[u8]) -> Option<((u8, u64), usize)> {
    let first = *input.first()?;
    let most = if first >= 0x80 { 0x7f } else { 0x3f };
    let mut number = u64::from(first & most);
    if number < u64::from(most) {
        return Some(((first, number), 1));
    }
    for (at, byte) in input.iter().enumerate().skip(1) {
        number += u64::from(byte & 0x7f) << (7 * (at - 1));
        if *byte < 0x80 {
            return Some(((first, number), at + 1));
        }
    }
    None
}

/// Whether a section is that of an interim response; this side refers to no entries.
fn is_interim(section: &[u8]) -> bool {
    let mut is_interim = false;
    let decoded = Decoder::default().decode(0, section, |line| {
        assert_eq!(line.fault, None);
        is_interim |= line.name == b":status" && line.value[0] == b'1';
        Ok(())
    });
    assert_eq!(decoded, Ok(Decoded::Whole));
    is_interim
}
