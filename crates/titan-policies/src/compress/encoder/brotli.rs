//! RFC 7932.

use super::PIECE;
use brotli::enc::StandardAlloc;
use brotli::enc::backward_references::BrotliEncoderParams;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderStateStruct};
use std::io;

pub(super) struct Brotli {
    state: BrotliEncoderStateStruct<StandardAlloc>,
    /// Bytes behind the body that mean nothing.
    padding: usize,
}

/// The window, as a power of two: decoders have to keep so much, and so has this side.
const WINDOW: i32 = 19;
/// The window for content that fits into it. With a smaller one brotli takes other ways, which are slower.
const SMALL_WINDOW: i32 = 17;
/// How much is coded at once, as a power of two.
const BLOCK: i32 = 16;

impl Brotli {
    pub(super) fn new(level: u8, length: Option<u64>, padding: usize) -> Brotli {
        let fits = length.is_some_and(|length| length <= 1 << SMALL_WINDOW);
        let params = BrotliEncoderParams {
            quality: level.into(),
            lgwin: if fits { SMALL_WINDOW } else { WINDOW },
            lgblock: if level >= 4 { BLOCK } else { 0 },
            size_hint: length.and_then(|length| length.try_into().ok()).unwrap_or(0),
            ..BrotliEncoderParams::default()
        };
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        state.params = params;
        Brotli { state, padding }
    }

    pub(super) fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.run(bytes, BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, out)
    }

    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(&[], BrotliEncoderOperation::BROTLI_OPERATION_FLUSH, out)
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.padding > 0 {
            // What comes out of that ends with a whole byte.
            self.flush(out)?;
            write_metadata(self.padding, out);
        }
        self.run(&[], BrotliEncoderOperation::BROTLI_OPERATION_FINISH, out)
    }

    fn run(
        &mut self,
        bytes: &[u8],
        how: BrotliEncoderOperation,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let (mut left, mut at) = (bytes.len(), 0);
        loop {
            let start = out.len();
            out.resize(start + PIECE, 0);
            let (mut room, mut written) = (PIECE, 0);
            let went_well = self.state.compress_stream(
                how,
                &mut left,
                bytes,
                &mut at,
                &mut room,
                &mut out[start..],
                &mut written,
                &mut None,
                &mut |_, _, _, _| (),
            );
            out.truncate(start + written);
            if !went_well {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            if left == 0 && !self.state.has_more_output() {
                return Ok(());
            }
        }
    }
}

/// A block that decoders skip (RFC 7932 section 9.2). Not the library's own: what it makes of one cannot be read.
fn write_metadata(length: usize, out: &mut Vec<u8>) {
    // From the lowest bit: not the last block, one of metadata, a reserved bit; then how many bytes its length takes,
    // and the length less one, whose highest byte must not be 0.
    let bytes = if length > 1 << 8 { 2 } else { 1 };
    let head = 0b0110 | bytes << 4 | (length - 1) << 6;
    out.extend_from_slice(&head.to_le_bytes()[..bytes + 1]);
    out.resize(out.len() + length, 0);
}
