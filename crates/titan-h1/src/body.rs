//! Both roles: the body of a message, found within the bytes that arrive.

use crate::chunked::Chunked;
use crate::error::Error;
use crate::framing::Framing;
use crate::limits::Limits;
use crate::lines::Section;
use std::ops::Range;
use titan_http::{FieldName, Fields, may_be_trailer};

/// Finds which of the bytes behind a head are the body, and where the message ends.
///
/// Data is never copied: it stays where the caller received it.
#[derive(Debug)]
pub struct BodyReader {
    limits: Limits,
    state: State,
    /// Bytes of body that the limit still allows.
    budget: u64,
    trailers: Trailers,
}

/// What one call of [`BodyReader::read`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// How many bytes of the input are done with, data included.
    pub consumed: usize,
    /// Where the data lies, within `..consumed`. May be empty.
    pub data: Range<usize>,
    /// Whether the message ends at `consumed`.
    pub done: bool,
}

#[derive(Debug)]
enum State {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Done,
}

#[derive(Debug, Default)]
struct Trailers {
    /// The section as far as it has come; the lines of `fields` are offsets into it until its end.
    text: Vec<u8>,
    section: Section,
    fields: Fields,
    /// Whether there was more than the limits allow, which was dropped.
    is_cut: bool,
}

impl BodyReader {
    /// A reader for the body behind a head.
    pub fn new(framing: Framing, limits: &Limits) -> BodyReader {
        let mut reader = BodyReader {
            limits: *limits,
            state: State::Done,
            budget: limits.body,
            trailers: Trailers::default(),
        };
        reader.reset(framing);
        reader
    }

    /// Makes it the reader of another body; the memory stays.
    pub fn reset(&mut self, framing: Framing) {
        self.state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunked::START),
            Framing::UntilClose => State::UntilClose,
        };
        self.budget = self.limits.body;
        self.trailers.clear();
    }

    /// Limits the body to `bytes` bytes. Fails if the head has declared more.
    pub fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.budget = bytes;
        match self.state {
            State::Length(length) if length > bytes => Err(Error::BodyTooLong),
            _ => Ok(()),
        }
    }

    /// Reads on in `input`: the bytes behind those that earlier calls consumed.
    ///
    /// A call finds at most one run of data. When it consumes nothing and is not done, it needs more
    /// input.
    #[inline]
    pub fn read(&mut self, input: &[u8]) -> Result<Piece, Error> {
        match &mut self.state {
            State::Length(left) => {
                let taken = up_to(*left, input.len());
                *left -= taken as u64;
                if *left == 0 {
                    self.state = State::Done;
                }
                Ok(Piece { consumed: taken, data: 0..taken, done: self.is_done() })
            }
            State::Chunked(_) => self.read_chunked(input),
            State::UntilClose => {
                self.spend(input.len() as u64)?;
                Ok(Piece { consumed: input.len(), data: 0..input.len(), done: false })
            }
            State::Done => Ok(Piece { consumed: 0, data: 0..0, done: true }),
        }
    }

    /// The peer has closed: the end of a body that lasts until then, a fault in any other.
    pub fn end_of_input(&mut self) -> Result<(), Error> {
        match self.state {
            State::UntilClose | State::Done => {
                self.state = State::Done;
                Ok(())
            }
            State::Length(_) | State::Chunked(_) => Err(Error::Truncated),
        }
    }

    /// Whether the whole body has been read.
    #[inline]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether the message was ended within its trailers, because there are more than the limits allow. What comes
    /// then belongs to no message: nothing more can be read from the connection.
    pub fn is_cut(&self) -> bool {
        self.trailers.is_cut
    }

    /// The memory that trailers have taken, used or not.
    pub fn capacity(&self) -> usize {
        self.trailers.text.capacity() + self.trailers.fields.capacity()
    }

    /// How many bytes are still to come, where that is known beforehand.
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            State::Chunked(_) | State::UntilClose => None,
        }
    }

    /// Notes that `count` bytes of the body went past this reader, from kernel to kernel.
    ///
    /// Only for bodies without framing inside. `count` is at most [`BodyReader::remaining`].
    pub fn skip(&mut self, count: u64) -> Result<(), Error> {
        match &mut self.state {
            State::Length(left) => {
                debug_assert!(count <= *left, "more skipped than the body has");
                *left = left.saturating_sub(count);
                if *left == 0 {
                    self.state = State::Done;
                }
                Ok(())
            }
            State::UntilClose => self.spend(count),
            State::Chunked(_) | State::Done => {
                debug_assert_eq!(count, 0, "nothing here can be skipped");
                Ok(())
            }
        }
    }

    /// The trailer fields: complete when the body is done, and not to be looked at before.
    pub fn trailers(&self) -> &Fields {
        &self.trailers.fields
    }

    /// The same, for a proxy that does not pass all of them on.
    pub fn trailers_mut(&mut self) -> &mut Fields {
        &mut self.trailers.fields
    }

    fn read_chunked(&mut self, input: &[u8]) -> Result<Piece, Error> {
        let State::Chunked(chunked) = &mut self.state else { unreachable!("read saw the state") };
        let was_data = matches!(chunked, Chunked::Data(_));
        let framing = chunked.read(input, &self.limits)?;
        let rest = &input[framing..];
        match *chunked {
            Chunked::Data(left) => {
                let taken = up_to(left, rest.len());
                chunked.take(taken as u64);
                if !was_data {
                    self.spend(left)?;
                }
                let end = framing + taken;
                Ok(Piece { consumed: end, data: framing..end, done: false })
            }
            Chunked::Trailers => {
                let (taken, done) = self.trailers.read(rest, &self.limits)?;
                if done {
                    self.state = State::Done;
                }
                let end = framing + taken;
                Ok(Piece { consumed: end, data: end..end, done })
            }
            _ => Ok(Piece { consumed: framing, data: framing..framing, done: false }),
        }
    }

    fn spend(&mut self, count: u64) -> Result<(), Error> {
        self.budget = self.budget.checked_sub(count).ok_or(Error::BodyTooLong)?;
        Ok(())
    }
}

impl Trailers {
    fn clear(&mut self) {
        self.text.clear();
        self.section = Section::default();
        self.fields.clear();
        self.is_cut = false;
    }

    /// Reads on; returns how much was consumed, and whether the section is complete.
    fn read(&mut self, input: &[u8], limits: &Limits) -> Result<(usize, bool), Error> {
        const END: &[u8] = b"\r\n";
        if self.text.is_empty() && input.starts_with(END) && limits.trailers >= END.len() {
            return Ok((END.len(), true));
        }
        let mut consumed = 0;
        for line in input.split_inclusive(|&byte| byte == b'\n') {
            let (taken, is_done) = self.push(line, limits)?;
            consumed += taken;
            if is_done {
                return Ok((consumed, true));
            }
        }
        Ok((consumed, false))
    }

    /// Takes in a line, or what has come of it; returns how much, and whether the section is complete. What lies
    /// beyond the limit is not judged.
    fn push(&mut self, line: &[u8], limits: &Limits) -> Result<(usize, bool), Error> {
        let room = limits.trailers.min(Fields::MAX_TEXT).saturating_sub(self.text.len());
        let taken = line.len().min(room);
        self.text.extend_from_slice(&line[..taken]);
        match self.section.read(&self.text, limits.fields, &mut self.fields, check) {
            Err(Error::TooManyFields) if limits.drops_trailers => self.is_cut = true,
            end => match (end?, line.len() > room) {
                (None, false) => return Ok((taken, false)),
                (None, true) if limits.drops_trailers => self.is_cut = true,
                (None, true) => return Err(Error::TrailersTooLong),
                (Some(_), _) => {}
            },
        }
        self.fields.push_text(&self.text).map_err(|_| Error::TrailersTooLong)?;
        Ok((taken, true))
    }
}

fn up_to(left: u64, available: usize) -> usize {
    usize::try_from(left).map_or(available, |left| left.min(available))
}

/// Refuses what would change the message, its routing or its authority after the fact
/// (RFC 9110 section 6.5.1).
fn check(id: FieldName, name: &[u8], _value: &[u8]) -> Result<(), Error> {
    match may_be_trailer(id, name) {
        true => Ok(()),
        false => Err(Error::TrailerForbidden),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(framing: Framing) -> BodyReader {
        BodyReader::new(framing, &Limits { body: 10, ..Limits::default() })
    }

    #[test]
    fn what_went_past_the_reader_counts() {
        let mut body = reader(Framing::Length(10));
        assert_eq!(body.read(b"abc").map(|piece| piece.data), Ok(0..3));
        assert_eq!((body.skip(6), body.remaining()), (Ok(()), Some(1)));
        let last = Piece { consumed: 1, data: 0..1, done: true };
        assert_eq!(body.read(b"xGET"), Ok(last));

        let mut body = reader(Framing::UntilClose);
        assert_eq!((body.skip(10), body.remaining()), (Ok(()), None));
        assert_eq!(body.skip(1), Err(Error::BodyTooLong));
    }

    #[test]
    fn only_a_body_that_lasts_until_then_may_end_with_the_input() {
        assert_eq!(reader(Framing::None).end_of_input(), Ok(()));
        assert_eq!(reader(Framing::Length(0)).end_of_input(), Ok(()));
        assert_eq!(reader(Framing::Length(1)).end_of_input(), Err(Error::Truncated));
        assert_eq!(reader(Framing::Chunked).end_of_input(), Err(Error::Truncated));
        let mut body = reader(Framing::UntilClose);
        assert_eq!(body.read(b"").map(|piece| piece.done), Ok(false));
        assert_eq!((body.end_of_input(), body.is_done()), (Ok(()), true));
    }

    #[test]
    fn a_call_finds_one_run_of_data() {
        let mut body = reader(Framing::Chunked);
        let input = b"2\r\nab\r\n3\r\ncde\r\n0\r\nX: 1\r\n\r\nGET";
        let piece = |consumed, data, done| Ok(Piece { consumed, data, done });
        assert_eq!(body.read(input), piece(5, 3..5, false));
        assert_eq!(body.read(&input[5..]), piece(8, 5..8, false));
        assert_eq!(body.read(&input[13..]), piece(13, 13..13, true));
        assert_eq!(body.trailers().named(b"x").next(), Some(b"1".as_slice()));
        body.reset(Framing::Chunked);
        assert!(body.trailers().is_empty());
    }

    #[test]
    fn trailers_beyond_the_limit_are_dropped_if_configured() {
        let limits = Limits { trailers: 12, fields: 2, drops_trailers: true, ..Limits::default() };
        let long = b"0\r\nA: 1\r\nB: 22\r\nC: 3\r\n\r\n".as_slice();
        let many = b"0\r\nA:\r\nB:\r\nC:\r\n\r\n".as_slice();
        for (input, names) in [(long, "A"), (many, "AB")] {
            for at in 0..input.len() {
                let mut body = BodyReader::new(Framing::Chunked, &limits);
                let first = body.read(&input[..at]).unwrap();
                let second = body.read(&input[first.consumed..]).unwrap();
                assert_eq!((first.consumed + second.consumed, second.done), (15, true), "{at}");
                let kept: Vec<_> =
                    body.trailers().iter().flat_map(|field| field.name.to_vec()).collect();
                assert_eq!((kept, body.is_cut()), (names.bytes().collect(), true), "{at}");
            }
        }
        let mut body = BodyReader::new(Framing::Chunked, &limits);
        body.read(long).unwrap();
        body.reset(Framing::Chunked);
        assert!(body.read(b"0\r\nA: 1\r\n\r\n").unwrap().done && !body.is_cut());
    }

    #[test]
    fn the_limit_is_met_at_the_size_line() {
        let mut body = reader(Framing::Chunked);
        assert!(body.read(b"a\r\n").is_ok());
        body.reset(Framing::Chunked);
        assert_eq!(body.read(b"b\r\n"), Err(Error::BodyTooLong));
    }
}
