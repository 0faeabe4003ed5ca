//! The body of a request that is decompressed while it passes, no faster than the upstream takes it.

use super::decoder::{Bad, Decoder, Progress};
use super::without_digests;
use crate::compress::{BAD_CODING, BODY_EXPANDS, DECODING_MEMORY, WINDOW_TOO_LARGE};
use titan_http::Fields;
use titan_http::coding::Coding;
use titan_io::error::Error;
use titan_io::memory::Reservation;
use titan_io::relay::Turn;
use titan_io::transform::{BodyTransform, StepResult};

/// What a body is decoded by, and how much may become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoding {
    pub(super) coding: Coding,
    /// How many bytes it may have.
    pub(super) most: u64,
    /// How many bytes may become of one.
    pub(super) ratio: u64,
    /// How many bytes its window may have.
    pub(super) window: usize,
}

/// Decodes the body of one request.
pub struct Decompressor<'m> {
    limits: Decoding,
    /// There from the first byte of the body to its end.
    decoder: Option<Decoder>,
    memory: Reservation<'m>,
    /// Bytes that were taken of the body, and that came out, in all.
    taken: u64,
    made: u64,
    /// Whether the decoder has stopped for want of room.
    is_full: bool,
    /// Whether the body may end here.
    is_at_end: bool,
}

/// How much comes out at a time.
const ROOM: usize = 16 << 10;
/// What it costs to begin again behind the end of a part, in bytes of a turn: a body may be nothing but ends.
const PART: usize = 1 << 10;
/// From how many bytes on the ratio counts: short bodies may be all alike.
const RATIO_FROM: u64 = 64 << 10;

impl Decompressor<'_> {
    /// A decompressor within those limits, which has its memory from there.
    pub fn new(limits: Decoding, memory: Reservation<'_>) -> Decompressor<'_> {
        let (taken, made, is_full, is_at_end) = (0, 0, false, false);
        Decompressor { limits, decoder: None, memory, taken, made, is_full, is_at_end }
    }

    fn check_size(&self) -> Result<(), Error> {
        let Decoding { most, ratio, .. } = self.limits;
        let expands = self.made > RATIO_FROM && self.made > self.taken.saturating_mul(ratio);
        match self.made > most || expands {
            true => Err(BODY_EXPANDS.into()),
            false => Ok(()),
        }
    }
}

impl From<Bad> for Error {
    fn from(bad: Bad) -> Error {
        match bad {
            Bad::Malformed => BAD_CODING.into(),
            Bad::Window => WINDOW_TOO_LARGE.into(),
        }
    }
}

impl BodyTransform for Decompressor<'_> {
    fn take(
        &mut self,
        input: &[u8],
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, Error> {
        // So that the work is bounded too where nothing comes out.
        let input = &input[..input.len().min(ROOM)];
        let Decoding { coding, window, .. } = self.limits;
        // What it needs is unknown before it is decoded.
        if !self.memory.grow(ROOM + Decoder::most_memory(coding, window)) {
            return Err(DECODING_MEMORY.into());
        }
        let decoder = self.decoder.get_or_insert_with(|| Decoder::new(coding, window));
        if self.is_at_end && !input.is_empty() && !decoder.may_go_on() {
            return Err(BAD_CODING.into());
        }
        let start = out.len();
        out.resize(start + ROOM, 0);
        let Progress { taken, made, is_end } = decoder.decode(input, &mut out[start..])?;
        out.truncate(start + made);
        self.memory.shrink(ROOM + decoder.memory());
        if taken == 0 && made == 0 && !self.is_full {
            return Err(BAD_CODING.into());
        }
        (self.is_full, self.is_at_end) = (made == ROOM && !is_end, is_end);
        self.taken += taken as u64;
        self.made += made as u64;
        turn.spend(taken + made + if is_end { PART } else { 0 });
        self.check_size()?;
        Ok(StepResult { bytes: taken, has_more: self.is_full })
    }

    fn end(&mut self, trailers: &Fields, _: &mut Vec<u8>) -> Result<Option<Fields>, Error> {
        if !self.is_at_end {
            return Err(BAD_CODING.into());
        }
        self.decoder = None;
        self.memory.shrink(ROOM);
        Ok(without_digests(trailers))
    }

    fn set_limit(&mut self, bytes: u64) {
        self.limits.most = self.limits.most.min(bytes);
    }
}

#[cfg(test)]
mod tests;
