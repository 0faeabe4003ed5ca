//! The peer's streams in one direction (RFC 9114 section 6.2, RFC 9204 section 4.2).

use super::{Connection, points};
use crate::code::Code;
use crate::control::{ControlStream, Peer, Told};
use crate::event::Event;
use crate::fatal::Fatal;
use crate::frame::StreamKind;
use crate::priority::Priority;
use crate::qpack::read_feedback;
use crate::varint;
use titan_http::stream::{Flood, StreamId};

/// A stream of the peer's in one direction.
#[derive(Debug)]
pub(super) enum UniStream {
    /// It has not said what it is for.
    New,
    Control(ControlStream),
    /// Instructions for the table.
    Encoder,
    /// What the peer says of this side's sections.
    Decoder,
    /// What it is for is not known here.
    Ignored,
}

/// Bytes of instructions, or of the entries that they add, that cost a point: a peer that fills the table anew again and again has
/// responses to show for it.
const INSTRUCTIONS: usize = 4 << 10;
/// Bytes of frames without a meaning that cost a point, beside what each of the frames costs.
const SKIPPED: usize = 16 << 10;
/// What the answers to sections and instructions may come to that the peer does not let this side send; more where there may be so many
/// streams that it takes more to answer to all of them at once.
const MOST_FEEDBACK: usize = 4 << 10;
/// Two for each stream: up to 2^28 its number takes five bytes.
const FEEDBACK_OF_A_STREAM: usize = 10;

impl Connection {
    /// Reads on from a stream in one direction, like [`Connection::read`]. Entries for the table may have come then: see
    /// [`Connection::resume`].
    ///
    /// # Errors
    ///
    /// What the connection is to be closed for.
    pub fn read_uni(
        &mut self,
        stream: StreamId,
        input: &[u8],
        is_last: bool,
    ) -> Result<(usize, Option<Event>), Fatal> {
        self.attempt(|it| {
            let (count, event) = it.read_uni_on(stream, input)?;
            let is_over = is_last && event.is_none();
            if is_over {
                it.end_uni(stream)?;
            }
            Ok((count, event))
        })
    }

    /// The peer has given a stream in one direction up.
    ///
    /// # Errors
    ///
    /// The connection is to be closed if it cannot go on without.
    pub fn uni_reset(&mut self, stream: StreamId) -> Result<(), Fatal> {
        self.attempt(|it| it.end_uni(stream))
    }

    fn end_uni(&mut self, stream: StreamId) -> Result<(), Fatal> {
        match self.unis.remove(&stream) {
            None | Some(UniStream::New | UniStream::Ignored) => Ok(()),
            Some(UniStream::Control(_) | UniStream::Encoder | UniStream::Decoder) => {
                Err(Code::ClosedCriticalStream.into())
            }
        }
    }

    fn read_uni_on(&mut self, id: StreamId, input: &[u8]) -> Result<(usize, Option<Event>), Fatal> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            if rest.is_empty() {
                // Not to begin one that is over.
                return Ok((at, None));
            }
            let stream = self.unis.entry(id).or_insert(UniStream::New);
            let (count, event) = match stream {
                UniStream::New => match varint::read(rest) {
                    Some((number, count)) => {
                        self.begin_uni(id, StreamKind::of(number))?;
                        (count, None)
                    }
                    None => (0, None),
                },
                UniStream::Control(control) => {
                    let (count, told) = control.read(rest)?;
                    (count, if count > 0 { self.on_told(told)? } else { None })
                }
                UniStream::Encoder => (self.follow(rest)?, None),
                UniStream::Decoder => {
                    let count = read_feedback(rest)?;
                    self.floods.charge(points(&mut self.instructed, count, INSTRUCTIONS))?;
                    (count, None)
                }
                UniStream::Ignored => (rest.len(), None),
            };
            at += count;
            if count == 0 || event.is_some() {
                return Ok((at, event));
            }
        }
    }

    fn begin_uni(&mut self, id: StreamId, kind: StreamKind) -> Result<(), Fatal> {
        let stream = match (kind, self.peer) {
            (StreamKind::Control, peer) => UniStream::Control(ControlStream::new(peer)),
            (StreamKind::Encoder, _) => UniStream::Encoder,
            (StreamKind::Decoder, _) => UniStream::Decoder,
            (StreamKind::Push, Peer::Client) => return Err(Code::StreamCreation.into()),
            // It was never allowed any (section 4.6).
            (StreamKind::Push, Peer::Server) => return Err(Code::Id.into()),
            (StreamKind::Unknown, _) => {
                self.floods.charge(1)?;
                self.close(id, false, true, Code::StreamCreation);
                UniStream::Ignored
            }
        };
        let is_second = !matches!(stream, UniStream::Ignored) && self.has_like(&stream);
        if is_second {
            return Err(Code::StreamCreation.into());
        }
        self.unis.insert(id, stream);
        Ok(())
    }

    fn has_like(&self, stream: &UniStream) -> bool {
        let kind = std::mem::discriminant(stream);
        self.unis.values().any(|other| std::mem::discriminant(other) == kind)
    }

    fn on_told(&mut self, told: Told) -> Result<Option<Event>, Fatal> {
        match told {
            Told::Settings(settings) => {
                self.settings = Some(settings);
                return Ok(Some(Event::Settings));
            }
            Told::GoAway(first) => {
                self.floods.charge(1)?;
                if self.peer == Peer::Server {
                    self.peer_serves = Some(first);
                    self.drop_from(first);
                    return Ok(Some(Event::GoAway { first: StreamId::new(first) }));
                }
            }
            Told::Priority(stream, priority) => {
                self.floods.aside()?;
                self.reprioritize(StreamId::new(stream), priority)?;
            }
            Told::Nothing => self.floods.aside()?,
            Told::Skipped(count) => self.skip(count)?,
        }
        Ok(None)
    }

    /// A priority that comes before its request is kept for it (RFC 9218 section 7). One of a request that is over changes nothing.
    fn reprioritize(&mut self, id: StreamId, priority: Priority) -> Result<(), Fatal> {
        if self.streams.contains_key(&id) {
            self.set_level(id, priority);
        }
        if id.number() < self.next {
            return Ok(());
        }
        // More streams than those that are over can make room for (section 7.2).
        if id.number() >= self.next.saturating_add(4 * u64::from(self.limits.streams)) {
            return Err(Code::Id.into());
        }
        match self.early.iter_mut().find(|(stream, _)| *stream == id) {
            Some((_, before)) => *before = priority,
            None => self.early.push((id, priority)),
        }
        Ok(())
    }

    /// The transport is told of it once, however often it changes before.
    pub(super) fn set_level(&mut self, id: StreamId, priority: Priority) {
        let level = priority.level(id);
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.has_priority = true;
        }
        match self.levels.iter_mut().find(|(stream, _)| *stream == id) {
            Some((_, before)) => *before = level,
            None => self.levels.push((id, level)),
        }
    }

    /// More has come of a frame without a meaning.
    pub(super) fn skip(&mut self, bytes: usize) -> Result<(), Flood> {
        self.floods.charge(points(&mut self.skipped, bytes, SKIPPED))
    }

    /// Follows instructions for the table.
    fn follow(&mut self, input: &[u8]) -> Result<usize, Fatal> {
        let decoder = &mut self.reader.decoder;
        let count = decoder.read_instructions(input)?;
        let work = count.max(decoder.take_added());
        self.floods.charge(points(&mut self.instructed, work, INSTRUCTIONS))?;
        Ok(count)
    }

    /// What sections and instructions lead to goes out on a stream that the peer may not read.
    pub(super) fn bound_feedback(&self) -> Result<(), Fatal> {
        let of_streams = FEEDBACK_OF_A_STREAM * self.limits.streams as usize;
        if self.reader.decoder.waiting() + self.feedback.waiting() > MOST_FEEDBACK.max(of_streams) {
            let why = "the peer does not read what its field sections lead to";
            return Err(Fatal { code: Code::ExcessiveLoad, why });
        }
        Ok(())
    }
}
