//! A body that is compressed while it passes.
//!
//! It keeps what its source has only as long as there is more: where the source pauses, everything is put
//! out, so that events are not held back.

use super::encoder::{Encoder, Encoders, Room};
use super::{Encoding, without_digests};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_http::Fields;
use titan_io::body::BodySource;
use titan_io::error::{Error, Kind};
use titan_io::relay::Turn;

/// The body of another source, coded.
pub struct CompressedBody<'s, S> {
    source: &'s mut S,
    encoding: Encoding,
    encoders: &'s Rc<Encoders>,
    /// From the first byte of the body to its end: the encoder serves others before and after that.
    encoder: Option<Encoder>,
    _room: Room,
    /// What has come out.
    out: Vec<u8>,
    /// Bytes of `out` that were consumed.
    sent: usize,
    /// Bytes that were taken from the source.
    taken: u64,
    /// Whether the encoder has bytes that have not come out.
    is_holding: bool,
    turn: Turn,
    /// How the source has failed: told once what came before that was consumed.
    broken: Option<Error>,
    is_finished: bool,
    /// In place of those of the source.
    trailers: Option<Fields>,
}

/// How much is coded in one turn.
const TURN: usize = 64 << 10;
/// How much in one turn at levels at which that takes long.
const HEAVY_TURN: usize = 32 << 10;

impl<'s, S: BodySource> CompressedBody<'s, S> {
    /// The body of `source`, made by `encoding`.
    pub fn new(
        source: &'s mut S,
        encoding: Encoding,
        encoders: &'s Rc<Encoders>,
    ) -> CompressedBody<'s, S> {
        let turn = Turn::of(if encoding.is_heavy() { HEAVY_TURN } else { TURN });
        let (out, sent, taken) = (Vec::new(), 0, 0);
        let (is_holding, is_finished) = (false, false);
        let (encoder, _room) = (None, Room::new(encoding, encoders));
        CompressedBody {
            source,
            encoding,
            encoders,
            encoder,
            _room,
            out,
            sent,
            taken,
            is_holding,
            turn,
            broken: None,
            is_finished,
            trailers: None,
        }
    }

    /// Codes what the source has, or ends the body. Only called once everything before it is consumed.
    fn work(&mut self) -> io::Result<()> {
        self.clear();
        let (encoding, encoders) = (self.encoding, self.encoders);
        let new = || Encoder::new(encoding, encoders);
        let data = self.source.data();
        if data.is_empty() {
            let encoder = self.encoder.take().unwrap_or_else(new);
            encoder.finish(&mut self.out)?;
            (self.is_finished, self.is_holding) = (true, false);
            self.trailers = without_digests(self.source.trailers());
        } else {
            let count = data.len().min(self.turn.left());
            self.encoder.get_or_insert_with(new).write(&data[..count], &mut self.out)?;
            self.source.consume(count);
            self.taken += count as u64;
            self.turn.spend(count);
            self.is_holding = true;
            if self.turn.is_over() && encoding.is_heavy() {
                // What it keeps for later it would work on in one go then, with that of the next turn.
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Has the encoder put out what it holds, behind what has come out already.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.encoder {
            Some(encoder) if std::mem::take(&mut self.is_holding) => encoder.flush(&mut self.out),
            _ => Ok(()),
        }
    }

    fn clear(&mut self) {
        self.out.clear();
        self.sent = 0;
    }
}

impl<S: BodySource> BodySource for CompressedBody<'_, S> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.data().is_empty() && !self.is_finished {
            if let Some(error) = self.broken {
                return Poll::Ready(Err(error));
            }
            if self.turn.is_over() {
                return self.turn.pass(cx);
            }
            if self.source.data().is_empty() && !self.source.is_done() {
                let polled = self.source.poll_data(cx);
                match polled {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(error)) => self.broken = Some(error),
                    Poll::Pending => self.turn.renew(),
                }
                self.clear();
                self.flush().map_err(|_| Kind::Internal)?;
                if polled.is_pending() && self.data().is_empty() {
                    return Poll::Pending;
                }
                continue;
            }
            self.work().map_err(|_| Kind::Internal)?;
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    fn consume(&mut self, count: usize) {
        self.sent += count;
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        self.source.set_ahead(is_ahead);
    }

    fn is_done(&self) -> bool {
        self.is_finished && self.data().is_empty()
    }

    fn is_last(&self) -> bool {
        self.is_finished && self.trailers().is_empty()
    }

    fn trailers(&self) -> &Fields {
        self.trailers.as_ref().unwrap_or_else(|| self.source.trailers())
    }

    fn arrived(&self, _: u64) -> u64 {
        self.source.arrived(self.taken)
    }
}

#[cfg(test)]
mod tests;
