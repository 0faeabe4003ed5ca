//! Bodies that are transformed while they pass: compressed, decompressed, translated, counted.
//!
//! A [`BodyTransform`] does no I/O: bytes in, bytes out, and the end. A [`Transformed`] body has a short list of
//! them; each gets the output of the one before it. Bodies without a transform do not go through here.

use crate::body::{BodySource, ClientState, RequestBody};
use crate::error::{Error, Kind};
use crate::relay::Turn;
use std::task::{Context, Poll};
use titan_http::Fields;

/// What makes other bytes of those of a body. What it keeps of them, and what one call puts out, is bounded.
pub trait BodyTransform {
    /// Takes some of `input` and appends the result to `out`. It takes its cost from the turn, and stops when the turn
    /// is over. Either there is input, or it has more; whatever there is, it takes some, puts some out, or fails.
    fn take(
        &mut self,
        input: &[u8],
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, Error>;

    /// Ends the body: everything that came was taken, and nothing more comes but `trailers`. Those that it returns stand
    /// in place of them.
    fn end(&mut self, trailers: &Fields, out: &mut Vec<u8>) -> Result<Option<Fields>, Error>;

    /// Appends to `out` what it holds back, because nothing more may come for long.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let _ = out;
        Ok(())
    }

    /// Limits the output to that many bytes.
    fn set_limit(&mut self, bytes: u64) {
        let _ = bytes;
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepResult {
    /// Bytes of the input that were consumed.
    pub bytes: usize,
    /// Whether more output is ready: it is taken before there is more input.
    pub has_more: bool,
}

/// The transforms of a body, in order. Allocates only if there are any.
#[derive(Default)]
pub struct Transforms<'t>(Vec<Stage<'t>>);

/// A body after its transforms.
pub struct Transformed<'t, S: ?Sized> {
    source: &'t mut S,
    stages: Transforms<'t>,
    /// Bytes that were taken from the source.
    taken: u64,
    turn: Turn,
    /// How the source failed: reported after what came before was consumed.
    broken: Option<Error>,
    /// In place of those of the source.
    trailers: Option<Fields>,
}

/// A transform and its output.
struct Stage<'t> {
    transform: Box<dyn BodyTransform + 't>,
    out: Vec<u8>,
    /// Bytes of `out` that were consumed. `start <= out.len()`
    start: usize,
    /// Whether more output is ready without more input.
    has_more: bool,
    /// Whether it has consumed something since the last flush.
    is_holding: bool,
    has_ended: bool,
}

/// How much is worked on in one turn: of bytes that cost as much as copying them with care.
pub const TURN: usize = 64 << 10;

impl<'t> Transforms<'t> {
    /// Appends a transform: the body passes through it after the present ones.
    pub fn push(&mut self, transform: impl BodyTransform + 't) {
        self.0.push(Stage {
            transform: Box::new(transform),
            out: Vec::new(),
            start: 0,
            has_more: false,
            is_holding: false,
            has_ended: false,
        });
    }

    /// Whether the body stays as it is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'t, S: BodySource + ?Sized> Transformed<'t, S> {
    /// The body of `source` behind those transforms.
    pub fn new(source: &'t mut S, stages: Transforms<'t>) -> Transformed<'t, S> {
        let turn = Turn::of(TURN);
        Transformed { source, stages, taken: 0, turn, broken: None, trailers: None }
    }

    /// What has come out of the first `count` transforms and was not consumed.
    fn unread(&self, count: usize) -> &[u8] {
        match count.checked_sub(1) {
            Some(last) => self.stages.0[last].unread(),
            None => self.source.data(),
        }
    }

    /// Whether nothing more comes out of the first `count` transforms.
    fn is_over(&self, count: usize) -> bool {
        match count.checked_sub(1) {
            Some(last) => self.stages.0[last].is_over(),
            None => self.source.is_done(),
        }
    }

    fn consume_of(&mut self, count: usize, bytes: usize) {
        match count.checked_sub(1) {
            Some(last) => self.stages.0[last].consume(bytes),
            None => {
                self.taken += bytes as u64;
                self.source.consume(bytes);
            }
        }
    }

    /// One move of the last transform that can make one, as all behind it have used up what they had. False where all
    /// of them need more input.
    fn step(&mut self) -> Result<bool, Error> {
        let can_work = |&at: &usize| {
            let stage = &self.stages.0[at];
            !stage.has_ended && (stage.has_more || !self.unread(at).is_empty() || self.is_over(at))
        };
        let Some(at) = (0..self.stages.0.len()).rev().find(can_work) else { return Ok(false) };
        let (before, rest) = self.stages.0.split_at_mut(at);
        let input = before.last().map_or_else(|| self.source.data(), |stage| stage.unread());
        if rest[0].has_more || !input.is_empty() {
            let taken = rest[0].take(input, &mut self.turn)?;
            if taken > 0 {
                self.consume_of(at, taken);
            }
        }
        // At once, so that the end goes out with the last bytes.
        if !self.stages.0[at].has_more && self.is_over(at) {
            let trailers = self.trailers.as_ref().unwrap_or_else(|| self.source.trailers());
            let others = self.stages.0[at].end(trailers)?;
            self.trailers = others.or_else(|| self.trailers.take());
        }
        Ok(true)
    }

    /// Flushes the first transform that holds something; false if none does. What it puts out those behind it get
    /// first.
    fn flush(&mut self) -> Result<bool, Error> {
        let holding = self.stages.0.iter_mut().find(|stage| stage.is_holding);
        let Some(stage) = holding else { return Ok(false) };
        stage.is_holding = false;
        stage.transform.flush(&mut stage.out).map(|()| true)
    }
}

impl Stage<'_> {
    fn unread(&self) -> &[u8] {
        &self.out[self.start..]
    }

    fn is_over(&self) -> bool {
        self.has_ended && self.unread().is_empty()
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.out.len() {
            self.out.clear();
            self.start = 0;
        }
    }

    /// Returns how much of the input was taken.
    fn take(&mut self, input: &[u8], turn: &mut Turn) -> Result<usize, Error> {
        let (before, had_more) = (self.out.len(), self.has_more);
        let StepResult { bytes, has_more } = self.transform.take(input, turn, &mut self.out)?;
        if bytes == 0 && self.out.len() == before && has_more == had_more {
            // It would be called for ever.
            return Err(Kind::Internal.into());
        }
        self.has_more = has_more;
        self.is_holding |= bytes > 0;
        Ok(bytes)
    }

    fn end(&mut self, trailers: &Fields) -> Result<Option<Fields>, Error> {
        (self.has_ended, self.is_holding) = (true, false);
        self.transform.end(trailers, &mut self.out)
    }
}

impl<S: BodySource + ?Sized> BodySource for Transformed<'_, S> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.data().is_empty() && !self.is_done() {
            if self.turn.is_over() {
                return self.turn.pass(cx);
            }
            if self.step()? {
                continue;
            }
            let polled = match self.broken {
                Some(error) => Poll::Ready(Err(error)),
                None => self.source.poll_data(cx),
            };
            match polled {
                Poll::Ready(Ok(())) => continue,
                Poll::Ready(Err(error)) => self.broken = Some(error),
                Poll::Pending => self.turn.renew(),
            }
            // Input that is here must not wait for input that is not.
            if !self.flush()? {
                return polled;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.unread(self.stages.0.len())
    }

    fn consume(&mut self, count: usize) {
        self.consume_of(self.stages.0.len(), count);
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        self.source.set_ahead(is_ahead);
    }

    fn is_done(&self) -> bool {
        self.is_over(self.stages.0.len())
    }

    fn is_last(&self) -> bool {
        match self.stages.0.last() {
            Some(stage) => stage.has_ended && self.trailers().is_empty(),
            None => self.source.is_last(),
        }
    }

    fn trailers(&self) -> &Fields {
        self.trailers.as_ref().unwrap_or_else(|| self.source.trailers())
    }

    /// Until something was taken from the source, nothing can have come out, and `taken` are bytes that lie ahead there.
    fn arrived(&self, taken: u64) -> u64 {
        self.source.arrived(if self.taken == 0 { taken } else { self.taken })
    }
}

impl<B: RequestBody + ?Sized> RequestBody for Transformed<'_, B> {
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        self.source.poll_ahead(cx, wanted)
    }

    fn ahead(&self) -> usize {
        self.source.ahead()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientState> {
        self.source.poll_gone(cx)
    }

    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.source.poll_lost(cx)
    }

    fn is_broken(&self) -> bool {
        self.source.is_broken()
    }

    fn is_abandoned(&self) -> bool {
        self.source.is_abandoned()
    }

    /// Applies to both: what the client sends and what it is turned into.
    fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.stages.0.iter_mut().for_each(|stage| stage.transform.set_limit(bytes));
        self.source.set_limit(bytes)
    }

    fn received(&self) -> u64 {
        self.source.received()
    }
}

#[cfg(test)]
mod tests;
