//! The body of a request that is decoded while it passes, no faster than the upstream takes it.

use super::decoder::{Bad, Decoder, Progress};
use super::without_digests;
use std::task::{Context, Poll, ready};
use titan_http::Fields;
use titan_http::coding::Coding;
use titan_io::body::BodySource;
use titan_io::body::{Gone, RequestBody};
use titan_io::error::{Error, Kind};
use titan_io::memory::Held;
use titan_io::relay::Turn;

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

/// The body of a request, decoded.
pub struct Decoded<'b, B> {
    body: &'b mut B,
    limits: Decoding,
    /// There from the first byte of the body to its end.
    decoder: Option<Decoder>,
    memory: Held<'b>,
    /// Room for what comes out. `sent <= filled <= room.len()`
    room: Vec<u8>,
    filled: usize,
    sent: usize,
    /// Bytes that were taken from the body, and that came out, in all.
    taken: u64,
    made: u64,
    turn: Turn,
    /// Whether the body may end here.
    is_at_end: bool,
    /// In place of those of the body.
    trailers: Option<Fields>,
}

/// How much comes out at a time.
const ROOM: usize = 16 << 10;
/// How many bytes are taken and made in one turn.
const TURN: usize = 64 << 10;
/// What it costs to begin again behind the end of a part, in bytes of a turn: a body may be nothing but ends.
const PART: usize = 1 << 10;
/// From how many bytes on the ratio counts: short bodies may be all alike.
const RATIO_FROM: u64 = 64 << 10;

impl<'b, B: RequestBody> Decoded<'b, B> {
    /// The decoded body of a request.
    pub fn new(body: &'b mut B, limits: Decoding, memory: Held<'b>) -> Decoded<'b, B> {
        let (decoder, room, turn) = (None, Vec::new(), Turn::of(TURN));
        let (filled, sent, taken, made) = (0, 0, 0, 0);
        let (is_at_end, trailers) = (false, None);
        Decoded {
            body,
            limits,
            decoder,
            memory,
            room,
            filled,
            sent,
            taken,
            made,
            turn,
            is_at_end,
            trailers,
        }
    }

    /// Whether there may be more in the decoder: it has stopped for want of room.
    fn is_full(&self) -> bool {
        self.filled > 0 && self.filled == self.room.len() && !self.is_at_end
    }

    /// Decodes some of what has come. Only called once everything before it is consumed.
    fn work(&mut self) -> Result<(), Error> {
        let input = self.body.data();
        // So that the work is bounded too where nothing comes out.
        let input = &input[..input.len().min(ROOM)];
        let Decoding { coding, window, .. } = self.limits;
        // Before it is decoded nobody knows what it needs.
        if !self.memory.grow(ROOM + Decoder::most_memory(coding, window)) {
            return Err(Kind::DecodingMemory.into());
        }
        let decoder = self.decoder.get_or_insert_with(|| Decoder::new(coding, window));
        if self.is_at_end && !input.is_empty() && !decoder.may_go_on() {
            return Err(Kind::BadCoding.into());
        }
        self.room.resize(ROOM, 0);
        let Progress { taken, made, is_end } = decoder.decode(input, &mut self.room)?;
        self.memory.shrink(ROOM + decoder.memory());
        if taken == 0 && made == 0 && !is_end && !input.is_empty() {
            return Err(Kind::BadCoding.into());
        }
        if taken > 0 {
            self.body.consume(taken);
        }
        (self.filled, self.sent) = (made, 0);
        self.is_at_end = is_end;
        self.taken += taken as u64;
        self.made += made as u64;
        self.turn.spend(taken + made + if is_end { PART } else { 0 });
        self.check_size()
    }

    fn check_size(&self) -> Result<(), Error> {
        let Decoding { most, ratio, .. } = self.limits;
        let expands = self.made > RATIO_FROM && self.made > self.taken.saturating_mul(ratio);
        match self.made > most || expands {
            true => Err(Kind::BodyExpands.into()),
            false => Ok(()),
        }
    }
}

impl From<Bad> for Error {
    fn from(bad: Bad) -> Error {
        match bad {
            Bad::Malformed => Kind::BadCoding.into(),
            Bad::Window => Kind::WindowTooLarge.into(),
        }
    }
}

impl<B: RequestBody> BodySource for Decoded<'_, B> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.data().is_empty() && !self.is_done() {
            if self.turn.is_over() {
                return self.turn.pass(cx);
            }
            let is_hungry = self.body.data().is_empty() && !self.is_full();
            if is_hungry && self.body.is_done() {
                return Poll::Ready(Err(Kind::BadCoding.into()));
            }
            if is_hungry {
                let arrived = self.body.poll_data(cx);
                if arrived.is_pending() {
                    self.turn.renew();
                }
                ready!(arrived)?;
                if self.body.data().is_empty() {
                    continue;
                }
            }
            self.work()?;
        }
        if self.is_at_end && self.body.is_done() && self.decoder.take().is_some() {
            self.memory.shrink(ROOM);
            self.trailers = without_digests(self.body.trailers());
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.room[self.sent..self.filled]
    }

    fn consume(&mut self, count: usize) {
        self.sent += count;
    }

    fn is_done(&self) -> bool {
        self.is_at_end && self.data().is_empty() && self.body.is_done()
    }

    fn is_last(&self) -> bool {
        self.is_at_end && self.body.is_done() && self.trailers().is_empty()
    }

    fn trailers(&self) -> &Fields {
        self.trailers.as_ref().unwrap_or_else(|| self.body.trailers())
    }

    fn arrived(&self, _: u64) -> u64 {
        self.body.arrived(self.taken)
    }
}

impl<B: RequestBody> RequestBody for Decoded<'_, B> {
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        self.body.poll_ahead(cx, wanted)
    }

    fn ahead(&self) -> usize {
        self.body.ahead()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        self.body.poll_gone(cx)
    }

    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.body.poll_lost(cx)
    }

    fn is_broken(&self) -> bool {
        self.body.is_broken()
    }

    fn is_abandoned(&self) -> bool {
        self.body.is_abandoned()
    }

    /// Holds for both: what the client sends and what becomes of it.
    fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.limits.most = self.limits.most.min(bytes);
        self.body.set_limit(bytes)
    }

    fn received(&self) -> u64 {
        self.body.received()
    }
}

#[cfg(test)]
mod tests;
