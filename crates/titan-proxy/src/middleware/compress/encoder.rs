//! The codings behind one face: octets in, octets out, and everything out on demand.

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use titan_config::{Coding, Compress};

/// Makes one body smaller.
pub(crate) struct Encoder(Kind);

enum Kind {
    Gzip(Box<GzEncoder<Vec<u8>>>),
    /// None once it has ended.
    Brotli(Option<Box<CompressorWriter<Vec<u8>>>>, Vec<u8>),
    Zstd(Box<zstd::Encoder<'static, Vec<u8>>>),
}

/// The window of brotli, as a power of two: decoders have to keep so much, and so has this side.
const BROTLI_WINDOW: i32 = 19;
/// The window of zstd.
const ZSTD_WINDOW: u32 = 19;
/// What brotli puts out at a time.
const BROTLI_PIECE: usize = 8 << 10;

impl Encoder {
    /// An encoder for content of that length, where it is known.
    pub(super) fn new(coding: Coding, config: &Compress, length: Option<u64>) -> Encoder {
        Encoder(match coding {
            Coding::Gzip => {
                let level = Compression::new(config.gzip_level.into());
                Kind::Gzip(Box::new(GzEncoder::new(Vec::new(), level)))
            }
            Coding::Brotli => {
                let params = BrotliEncoderParams {
                    quality: config.brotli_level.into(),
                    lgwin: BROTLI_WINDOW,
                    size_hint: length.and_then(|length| length.try_into().ok()).unwrap_or(0),
                    ..BrotliEncoderParams::default()
                };
                let writer = CompressorWriter::with_params(Vec::new(), BROTLI_PIECE, &params);
                Kind::Brotli(Some(Box::new(writer)), Vec::new())
            }
            Coding::Zstd => Kind::Zstd(Box::new(zstd_encoder(config.zstd_level.into(), length))),
        })
    }

    /// Takes octets of the body.
    pub(super) fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Kind::Gzip(encoder) => encoder.write_all(octets),
            Kind::Brotli(Some(encoder), _) => encoder.write_all(octets),
            Kind::Brotli(None, _) => Err(io::ErrorKind::InvalidInput.into()),
            Kind::Zstd(encoder) => encoder.write_all(octets),
        }
    }

    /// Puts out everything that was taken.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Gzip(encoder) => encoder.flush(),
            Kind::Brotli(Some(encoder), _) => encoder.flush(),
            Kind::Brotli(None, _) => Ok(()),
            Kind::Zstd(encoder) => encoder.flush(),
        }
    }

    /// Ends the body.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Gzip(encoder) => encoder.try_finish(),
            Kind::Brotli(encoder, out) => {
                if let Some(encoder) = encoder.take() {
                    *out = encoder.into_inner();
                }
                Ok(())
            }
            Kind::Zstd(encoder) => encoder.do_finish(),
        }
    }

    /// What has come out and was not taken away.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        match &mut self.0 {
            Kind::Gzip(encoder) => encoder.get_mut(),
            Kind::Brotli(Some(encoder), _) => encoder.get_mut(),
            Kind::Brotli(None, out) => out,
            Kind::Zstd(encoder) => encoder.get_mut(),
        }
    }
}

fn zstd_encoder(level: i32, length: Option<u64>) -> zstd::Encoder<'static, Vec<u8>> {
    let build = || {
        let mut encoder = zstd::Encoder::new(Vec::new(), level)?;
        encoder.window_log(ZSTD_WINDOW)?;
        encoder.include_contentsize(length.is_some())?;
        encoder.set_pledged_src_size(length)?;
        io::Result::Ok(encoder)
    };
    build().expect("the level and the window are within zstd's bounds")
}
