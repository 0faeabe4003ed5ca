//! A body that is made smaller while it passes.
//!
//! It keeps what its source has only as long as there is more: where the source pauses, everything is put
//! out, so that events are not held back.

use super::Encoder;
use crate::error::{Error, Kind};
use crate::relay::BodySource;
use std::task::{Context, Poll};
use titan_http::Fields;

/// The body of another source, coded.
pub(crate) struct Squeezed<'s, S> {
    source: &'s mut S,
    encoder: Encoder,
    /// What has come out.
    out: Vec<u8>,
    /// Octets of `out` that were consumed.
    sent: usize,
    /// Octets that were taken from the source.
    taken: u64,
    /// Whether the encoder has octets that have not come out.
    is_holding: bool,
    /// Octets that were coded since others had their turn.
    worked: usize,
    is_finished: bool,
}

/// How much is coded before the other connections of the worker have their turn.
const TURN: usize = 64 << 10;

impl<'s, S: BodySource> Squeezed<'s, S> {
    pub(crate) fn new(source: &'s mut S, encoder: Encoder) -> Squeezed<'s, S> {
        let (out, sent, taken, worked) = (Vec::new(), 0, 0, 0);
        Squeezed {
            source,
            encoder,
            out,
            sent,
            taken,
            is_holding: false,
            worked,
            is_finished: false,
        }
    }

    /// Codes what the source has, or ends the body.
    fn work(&mut self) -> std::io::Result<()> {
        let data = self.source.data();
        if data.is_empty() {
            self.encoder.finish()?;
            self.is_finished = true;
        } else {
            let count = data.len().min(TURN - self.worked);
            self.encoder.write(&data[..count])?;
            self.source.consume(count);
            self.taken += count as u64;
            self.worked += count;
            self.is_holding = true;
        }
        self.collect();
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if std::mem::take(&mut self.is_holding) {
            self.encoder.flush()?;
            self.collect();
        }
        Ok(())
    }

    /// Takes what has come out. Only called once everything before it is consumed.
    fn collect(&mut self) {
        self.out.clear();
        self.sent = 0;
        std::mem::swap(&mut self.out, self.encoder.out());
    }
}

impl<S: BodySource> BodySource for Squeezed<'_, S> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.data().is_empty() && !self.is_finished {
            if self.worked >= TURN {
                self.worked = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.source.data().is_empty() && !self.source.is_done() {
                match self.source.poll_data(cx) {
                    Poll::Ready(result) => result?,
                    Poll::Pending => {
                        self.worked = 0;
                        self.flush().map_err(|_| Kind::Internal)?;
                        if self.data().is_empty() {
                            return Poll::Pending;
                        }
                    }
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

    fn is_done(&self) -> bool {
        self.is_finished && self.data().is_empty()
    }

    fn is_last(&self) -> bool {
        self.is_finished && self.source.trailers().is_empty()
    }

    fn trailers(&self) -> &Fields {
        self.source.trailers()
    }

    fn arrived(&self, _: u64) -> u64 {
        self.source.arrived(self.taken)
    }
}

#[cfg(test)]
mod tests;
