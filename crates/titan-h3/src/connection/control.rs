//! The peer's streams in one direction (RFC 9114 section 6.2, RFC 9204 section 4.2).

use super::Connection;
use crate::code::Code;
use crate::control::{ControlStream, Peer, Told};
use crate::event::Event;
use crate::fatal::Fatal;
use crate::frame::StreamKind;
use crate::priority::Priority;
use crate::qpack::read_feedback;
use crate::varint;
use titan_http::stream::StreamId;

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

/// Bytes of instructions for the table that cost a point: a peer that fills it anew again and again has responses to show for it.
const INSTRUCTIONS: usize = 4 << 10;
/// What the answers to sections and instructions may come to that the peer does not let this side send.
const MOST_FEEDBACK: usize = 4 << 10;

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
        if let Some(fatal) = self.failed {
            return Err(fatal);
        }
        let read = self.read_uni_on(stream, input);
        let checked = read.and_then(|(count, event)| {
            let is_over = is_last && event.is_none();
            if is_over {
                self.end_uni(stream)?;
            }
            Ok((count, event))
        });
        checked.map_err(|fatal| self.fail(fatal))
    }

    /// The peer has given a stream in one direction up.
    ///
    /// # Errors
    ///
    /// The connection is to be closed if it cannot go on without.
    pub fn uni_reset(&mut self, stream: StreamId) -> Result<(), Fatal> {
        self.end_uni(stream).map_err(|fatal| self.fail(fatal))
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
                UniStream::Decoder => (read_feedback(rest)?, None),
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
                self.reprioritize(StreamId::new(stream), priority);
            }
            Told::Nothing => self.floods.aside()?,
        }
        Ok(None)
    }

    /// A priority that comes before its request is kept for it (RFC 9218 section 7), if there could be one.
    fn reprioritize(&mut self, id: StreamId, priority: Priority) {
        if self.streams.contains_key(&id) {
            self.levels.push((id, priority.level(id)));
            return;
        }
        let most = self.next.saturating_add(4 * u64::from(self.limits.streams));
        if !(self.next..most).contains(&id.number()) {
            return;
        }
        match self.early.iter_mut().find(|(stream, _)| *stream == id) {
            Some((_, before)) => *before = priority,
            None => self.early.push((id, priority)),
        }
    }

    /// Follows instructions for the table.
    fn follow(&mut self, input: &[u8]) -> Result<usize, Fatal> {
        let count = self.reader.decoder.read_instructions(input)?;
        self.instructed += count;
        while self.instructed >= INSTRUCTIONS {
            self.instructed -= INSTRUCTIONS;
            self.floods.charge(1)?;
        }
        if self.reader.decoder.waiting() + self.feedback.waiting() > MOST_FEEDBACK {
            let why = "the peer does not read what its field sections lead to";
            return Err(Fatal { code: Code::ExcessiveLoad, why });
        }
        Ok(count)
    }
}
