//! The codings from the other side: octets of a body in, as many octets out as there is room for.

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress, FlushDecompress, Status};
use titan_config::Coding;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Makes of a body what it was before it was coded.
pub(super) enum Decoder {
    /// One member.
    Gzip(Decompress),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    /// One frame or more, each by itself.
    Zstd(DCtx<'static>),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Octets that were taken.
    pub(super) taken: usize,
    /// Octets that came out.
    pub(super) made: usize,
    /// Whether the body may end here.
    pub(super) is_end: bool,
}

/// It is no body in that coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What zlib calls 32 KiB, the only window that gzip has.
const GZIP_WINDOW: u8 = 15;
/// The largest window of zstd that is used with HTTP, as a power of two (RFC 9659).
const ZSTD_WINDOW: u32 = 23;

impl Decoder {
    pub(super) fn new(coding: Coding) -> Decoder {
        match coding {
            Coding::Gzip => Decoder::Gzip(Decompress::new_gzip(GZIP_WINDOW)),
            Coding::Brotli => {
                let memory = StandardAlloc::default;
                // Strict: no window beyond the 16 MiB of RFC 7932.
                Decoder::Brotli(Box::new(BrotliState::new_strict(memory(), memory(), memory())))
            }
            Coding::Zstd => {
                let mut context = DCtx::create();
                let is_set = context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW));
                is_set.map(drop).expect("the window is within zstd's bounds");
                Decoder::Zstd(context)
            }
        }
    }

    /// Whether something may follow a place where the body may end.
    pub(super) fn may_go_on(&self) -> bool {
        matches!(self, Decoder::Zstd(_))
    }

    /// Decodes until the input is used up, the room is, or the body is at an end.
    pub(super) fn decode(&mut self, input: &[u8], room: &mut [u8]) -> Result<Progress, Malformed> {
        match self {
            Decoder::Gzip(inflate) => {
                let before = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(input, room, FlushDecompress::None);
                let is_end = match status.map_err(|_| Malformed)? {
                    Status::StreamEnd => true,
                    Status::Ok | Status::BufError => false,
                };
                let since = |now: u64, before: u64| usize::try_from(now - before);
                let taken = since(inflate.total_in(), before.0).map_err(|_| Malformed)?;
                let made = since(inflate.total_out(), before.1).map_err(|_| Malformed)?;
                Ok(Progress { taken, made, is_end })
            }
            Decoder::Brotli(state) => {
                let (mut left, mut taken) = (input.len(), 0);
                let (mut free, mut made) = (room.len(), 0);
                let result = BrotliDecompressStream(
                    &mut left, &mut taken, input, &mut free, &mut made, room, &mut 0, state,
                );
                let is_end = match result {
                    BrotliResult::ResultSuccess => true,
                    BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => false,
                    BrotliResult::ResultFailure => return Err(Malformed),
                };
                Ok(Progress { taken, made, is_end })
            }
            Decoder::Zstd(context) => {
                let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(room));
                let left = context.decompress_stream(&mut to, &mut from).map_err(|_| Malformed)?;
                Ok(Progress { taken: from.pos(), made: to.pos(), is_end: left == 0 })
            }
        }
    }
}
