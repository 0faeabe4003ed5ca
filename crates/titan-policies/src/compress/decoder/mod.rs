//! Decoders of the codings: bytes of a body in, as many bytes out as there is room for.

mod brotli;

use brotli::Brotli;
use flate2::{Decompress, FlushDecompress, Status};
use titan_http::coding::Coding;
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Decodes a body.
pub(super) enum Decoder {
    /// One member or more (RFC 1952 section 2.2), each by itself.
    Gzip(Members),
    /// With the largest window that it may have.
    Brotli(Box<Brotli>, usize),
    /// One frame or more, each by itself.
    Zstd(DCtx<'static>),
}

/// The members of a body in gzip.
pub(super) struct Members {
    inflate: Decompress,
    /// Whether the member is over, so that what comes next begins another one.
    is_over: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bytes that were taken.
    pub(super) taken: usize,
    /// Bytes that came out.
    pub(super) made: usize,
    /// Whether the body may end here.
    pub(super) is_end: bool,
}

/// Why it cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It is no body in that coding.
    Malformed,
    /// It needs a larger window than it may have.
    Window,
}

/// What zlib calls 32 KiB, the only window that gzip has.
const GZIP_WINDOW: u8 = 15;
/// What a decoder of gzip has, the window among it.
const GZIP_MEMORY: usize = 48 << 10;
/// What one of zstd has besides its window at most: tables, and two blocks of 128 KiB.
const ZSTD_MEMORY: usize = 768 << 10;

impl Decoder {
    /// A decoder for a body in that coding, whose window has that many bytes at most.
    pub(super) fn new(coding: Coding, window: usize) -> Decoder {
        match coding {
            Coding::Gzip => Decoder::Gzip(Members::new()),
            Coding::Brotli => Decoder::Brotli(Box::new(Brotli::new()), window),
            Coding::Zstd => {
                let mut context = DCtx::create();
                let is_set = context.set_parameter(DParameter::WindowLogMax(window.ilog2()));
                is_set.map(drop).expect("the window is within zstd's bounds");
                Decoder::Zstd(context)
            }
        }
    }

    /// Bytes of memory that one for that coding and window has at most.
    pub(super) fn most_memory(coding: Coding, window: usize) -> usize {
        match coding {
            Coding::Gzip => GZIP_MEMORY,
            Coding::Brotli => Brotli::most(window),
            Coding::Zstd => window + ZSTD_MEMORY,
        }
    }

    /// Bytes of memory that it has now.
    pub(super) fn memory(&self) -> usize {
        match self {
            Decoder::Gzip(_) => GZIP_MEMORY,
            Decoder::Brotli(brotli, _) => brotli.memory(),
            Decoder::Zstd(context) => context.sizeof(),
        }
    }

    /// Whether something may follow a place where the body may end.
    pub(super) fn may_go_on(&self) -> bool {
        matches!(self, Decoder::Gzip(_) | Decoder::Zstd(_))
    }

    /// Decodes until the input is used up, the room is, or the body is at an end.
    pub(super) fn decode(&mut self, input: &[u8], room: &mut [u8]) -> Result<Progress, Bad> {
        match self {
            Decoder::Gzip(members) => members.decode(input, room),
            Decoder::Brotli(brotli, window) => brotli.decode(input, room, *window),
            Decoder::Zstd(context) => {
                let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(room));
                let left = context.decompress_stream(&mut to, &mut from).map_err(Bad::of_zstd)?;
                Ok(Progress { taken: from.pos(), made: to.pos(), is_end: left == 0 })
            }
        }
    }
}

impl Members {
    fn new() -> Members {
        Members { inflate: Decompress::new_gzip(GZIP_WINDOW), is_over: false }
    }

    fn decode(&mut self, input: &[u8], room: &mut [u8]) -> Result<Progress, Bad> {
        if self.is_over && !input.is_empty() {
            *self = Members::new();
        }
        let inflate = &mut self.inflate;
        let before = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(input, room, FlushDecompress::None);
        self.is_over = match status.map_err(|_| Bad::Malformed)? {
            Status::StreamEnd => true,
            Status::Ok | Status::BufError => false,
        };
        let since = |now: u64, before: u64| usize::try_from(now - before);
        let taken = since(inflate.total_in(), before.0).map_err(|_| Bad::Malformed)?;
        let made = since(inflate.total_out(), before.1).map_err(|_| Bad::Malformed)?;
        Ok(Progress { taken, made, is_end: self.is_over })
    }
}

impl Bad {
    fn of_zstd(code: usize) -> Bad {
        let window = ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge as usize;
        if code == window.wrapping_neg() { Bad::Window } else { Bad::Malformed }
    }
}
