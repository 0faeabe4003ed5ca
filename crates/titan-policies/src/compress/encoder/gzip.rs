//! RFC 1952. The header and the trailer are written here, because padding is a header with a name of random length.

use super::PIECE;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use std::io;

pub(super) struct Gzip {
    deflate: Compress,
    crc: Crc,
    /// The length of the name in the head, which has not gone out yet.
    head: Option<usize>,
}

/// The flag of a head that has a name.
const NAMED: u8 = 1 << 3;
/// Unknown operating system.
const UNKNOWN: u8 = 255;

impl Gzip {
    pub(super) fn new(level: u8) -> Gzip {
        let deflate = Compress::new(Compression::new(level.into()), false);
        Gzip { deflate, crc: Crc::new(), head: None }
    }

    /// Begins another body.
    pub(super) fn begin(&mut self, padding: usize) {
        self.deflate.reset();
        self.crc.reset();
        self.head = Some(padding);
    }

    pub(super) fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.write_head(out);
        self.crc.update(bytes);
        self.run(bytes, FlushCompress::None, out)
    }

    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.run(&[], FlushCompress::Sync, out)
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.write_head(out);
        self.run(&[], FlushCompress::Finish, out)?;
        out.extend_from_slice(&self.crc.sum().to_le_bytes());
        out.extend_from_slice(&self.crc.amount().to_le_bytes());
        Ok(())
    }

    fn write_head(&mut self, out: &mut Vec<u8>) {
        let Some(padding) = self.head.take() else { return };
        let flags = if padding > 0 { NAMED } else { 0 };
        out.extend_from_slice(&[0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, UNKNOWN]);
        if padding > 0 {
            out.resize(out.len() + padding - 1, b'a');
            out.push(0);
        }
    }

    fn run(&mut self, mut bytes: &[u8], how: FlushCompress, out: &mut Vec<u8>) -> io::Result<()> {
        loop {
            out.reserve(PIECE);
            let before = self.deflate.total_in();
            let status = self.deflate.compress_vec(bytes, out, how)?;
            let taken = usize::try_from(self.deflate.total_in() - before).unwrap_or(usize::MAX);
            bytes = &bytes[taken..];
            let is_over = match how {
                FlushCompress::Finish => matches!(status, Status::StreamEnd),
                // Where there is room left, nothing waits any more.
                _ => bytes.is_empty() && out.len() < out.capacity(),
            };
            if is_over {
                return Ok(());
            }
        }
    }
}
