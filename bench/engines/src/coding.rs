//! The codings that responses may come in, undone to see what is in them. Gzip and zstd are read by implementations
//! that are none of those measured.

use std::io::{self, Read};

use serde::{Deserialize, Serialize};

/// What a client can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

impl Coding {
    /// As in Accept-Encoding and Content-Encoding.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// What was coded; bytes behind its end are an error.
    pub fn decode(self, coded: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        let mut rest = coded;
        match self {
            Self::Gzip => flate2::bufread::GzDecoder::new(&mut rest).read_to_end(&mut plain)?,
            Self::Brotli => {
                brotli_decompressor::Decompressor::new(&mut rest, 4096).read_to_end(&mut plain)?
            }
            Self::Zstd => ruzstd::decoding::StreamingDecoder::new(&mut rest)
                .map_err(io::Error::other)?
                .read_to_end(&mut plain)?,
        };
        if rest.is_empty() { Ok(plain) } else { Err(io::Error::other("bytes behind the end")) }
    }
}
