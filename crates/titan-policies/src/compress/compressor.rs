//! A body that is compressed while it passes.
//!
//! It buffers input only as long as more is coming: when the source pauses, everything is flushed, so that events are
//! not held back.

use super::encoder::{Encoder, EncoderMemory, Encoders};
use super::{Encoding, without_digests};
use std::rc::Rc;
use titan_http::Fields;
use titan_io::error::{Error, Kind};
use titan_io::relay::Turn;
use titan_io::transform::{BodyTransform, StepResult};

/// Compresses one body.
pub struct Compressor {
    encoding: Encoding,
    encoders: Rc<Encoders>,
    /// From the first byte of the body to its end: the encoder serves others before and after that.
    encoder: Option<Encoder>,
    _room: EncoderMemory,
    /// Whether the encoder has bytes that have not come out.
    is_holding: bool,
}

/// What a byte costs at levels at which that takes long.
const HEAVY: usize = 2;

impl Compressor {
    /// A compressor by `encoding`.
    pub fn new(encoding: Encoding, encoders: &Rc<Encoders>) -> Compressor {
        let _room = EncoderMemory::new(encoding.settings, encoders);
        Compressor {
            encoding,
            encoders: Rc::clone(encoders),
            encoder: None,
            _room,
            is_holding: false,
        }
    }

    fn encoder(&mut self) -> &mut Encoder {
        let Compressor { encoding, encoders, .. } = self;
        self.encoder.get_or_insert_with(|| Encoder::new(encoding.settings, encoders))
    }

    /// Counts bytes that were compressed, and those that came of it.
    fn count(&self, input: usize, output: usize) {
        let compressed = &self.encoding.compressed;
        compressed.input.set(compressed.input.get() + input as u64);
        compressed.output.set(compressed.output.get() + output as u64);
    }
}

impl BodyTransform for Compressor {
    fn take(
        &mut self,
        input: &[u8],
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, Error> {
        let before = out.len();
        let is_heavy = self.encoding.settings.is_heavy();
        let price = if is_heavy { HEAVY } else { 1 };
        let bytes = input.len().min(turn.left().div_ceil(price));
        self.encoder().write(&input[..bytes], out).map_err(|_| Kind::Internal)?;
        self.is_holding = true;
        turn.spend(bytes * price);
        self.count(bytes, out.len() - before);
        if turn.is_over() && is_heavy {
            // What it keeps for later it would work on in one go then, with that of the next turn.
            self.flush(out)?;
        }
        Ok(StepResult { bytes, has_more: false })
    }

    fn end(&mut self, trailers: &Fields, out: &mut Vec<u8>) -> Result<Option<Fields>, Error> {
        let before = out.len();
        self.encoder();
        let encoder = self.encoder.take();
        let finished = encoder.map_or(Ok(()), |encoder| encoder.finish(out));
        finished.map_err(|_| Kind::Internal)?;
        self.is_holding = false;
        self.count(0, out.len() - before);
        Ok(without_digests(trailers))
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_holding) {
            return Ok(());
        }
        let before = out.len();
        let encoder = self.encoder.as_mut();
        encoder.map_or(Ok(()), |encoder| encoder.flush(out)).map_err(|_| Kind::Internal)?;
        self.count(0, out.len() - before);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
