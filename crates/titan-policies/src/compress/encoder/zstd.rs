//! RFC 8878.

use super::PIECE;
use std::io;
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, get_error_name};

pub(super) struct Zstd {
    context: CCtx<'static>,
    /// Bytes that follow the body and mean nothing.
    padding: usize,
}

/// The window, as a power of two: decoders have to keep so much, and so has this side.
const WINDOW: u32 = 19;
/// The tables of levels that would have larger ones, as powers of two; of four bytes each.
const TABLES: u32 = 18;
/// The first level that has larger tables.
const LARGE_TABLES: u8 = 5;
/// What a frame begins with that decoders skip.
const SKIPPED: u32 = 0x184D_2A50;

impl Zstd {
    pub(super) fn new(level: u8) -> Zstd {
        let mut context = CCtx::create();
        let mut set = |parameter| {
            let is_set = context.set_parameter(parameter);
            is_set.map(drop).expect("the parameters are within zstd's bounds");
        };
        set(CParameter::CompressionLevel(level.into()));
        set(CParameter::WindowLog(WINDOW));
        if level >= LARGE_TABLES {
            set(CParameter::HashLog(TABLES));
            set(CParameter::ChainLog(TABLES));
        }
        Zstd { context, padding: 0 }
    }

    /// Begins another body.
    pub(super) fn begin(&mut self, length: Option<u64>, padding: usize) {
        let is_reset = self.context.reset(ResetDirective::SessionOnly);
        is_reset.map(drop).expect("a session can always be given up");
        let is_told = self.context.set_pledged_src_size(length);
        is_told.map(drop).expect("nothing of the session has been written");
        self.padding = padding;
    }

    pub(super) fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.run(bytes, ZSTD_EndDirective::ZSTD_e_continue, out)
    }

    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(&[], ZSTD_EndDirective::ZSTD_e_flush, out)
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(&[], ZSTD_EndDirective::ZSTD_e_end, out)?;
        if self.padding > 0 {
            // Behind the body: a decoder that knows of one frame alone has read what it needs by then.
            let length = u32::try_from(self.padding).unwrap_or(u32::MAX);
            out.extend_from_slice(&SKIPPED.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
            out.resize(out.len() + self.padding, 0);
        }
        Ok(())
    }

    fn run(&mut self, bytes: &[u8], how: ZSTD_EndDirective, out: &mut Vec<u8>) -> io::Result<()> {
        let mut from = InBuffer::around(bytes);
        loop {
            out.reserve(PIECE);
            let start = out.len();
            let mut to = OutBuffer::around_pos(out, start);
            let left = self.context.compress_stream2(&mut to, &mut from, how);
            let left = left.map_err(|code| io::Error::other(get_error_name(code)))?;
            let is_over = match how {
                ZSTD_EndDirective::ZSTD_e_continue => from.pos() == bytes.len(),
                _ => left == 0,
            };
            if is_over {
                return Ok(());
            }
        }
    }
}
