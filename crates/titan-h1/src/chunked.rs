//! The chunked coding (RFC 9112 section 7.1): which bytes are data and which are framing.
//!
//! ```text
//!   +-------------------------------------------------------+
//!   v                                                       |
//! Size -> Extension -> SizeLf -> Data -> DataCr -> DataLf --+
//!   |                   ^  |
//!   +-------------------+  +-> Trailers      (size 0)
//! ```

use crate::error::Error;
use crate::extension::Extension;
use crate::limits::Limits;
use titan_http::MAX_LENGTH;

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunked {
    /// The size; `length` bytes of its line have been read.
    Size { size: u64, length: usize },
    /// An extension, at a place of it. They mean nothing here and go no further.
    Extension { size: u64, length: usize, place: Extension },
    /// The LF of the size line.
    SizeLf { size: u64 },
    /// That many bytes of data.
    Data(u64),
    /// The CR behind the data.
    DataCr,
    /// The LF behind the data.
    DataLf,
    /// The trailer section, which another reader reads.
    Trailers,
}

/// The most digits that a size may have, zeros among them.
const MAX_DIGITS: usize = 16;

impl Chunked {
    /// Before the first chunk.
    pub(crate) const START: Chunked = Chunked::Size { size: 0, length: 0 };

    /// Reads framing until data, trailers or the end of `input` is next; returns how much it read.
    #[inline]
    pub(crate) fn read(&mut self, input: &[u8], limits: &Limits) -> Result<usize, Error> {
        for (at, &byte) in input.iter().enumerate() {
            if matches!(self, Chunked::Data(_) | Chunked::Trailers) {
                return Ok(at);
            }
            *self = self.after(byte, limits)?;
        }
        Ok(input.len())
    }

    /// That many bytes of the data have been taken.
    pub(crate) fn take(&mut self, taken: u64) {
        if let Chunked::Data(left) = self {
            *self = match *left - taken {
                0 => Chunked::DataCr,
                left => Chunked::Data(left),
            };
        }
    }

    fn after(self, byte: u8, limits: &Limits) -> Result<Chunked, Error> {
        match self {
            Chunked::Size { size, length } => in_size(byte, size, length, limits),
            Chunked::Extension { size, length, place } => {
                in_extension(byte, size, length, place, limits)
            }
            Chunked::SizeLf { size } => match byte {
                b'\n' if size == 0 => Ok(Chunked::Trailers),
                b'\n' => Ok(Chunked::Data(size)),
                _ => Err(Error::BareCr),
            },
            Chunked::DataCr => match byte {
                b'\r' => Ok(Chunked::DataLf),
                b'\n' => Err(Error::BareLf),
                _ => Err(Error::ChunkEnd),
            },
            Chunked::DataLf => match byte {
                b'\n' => Ok(Chunked::START),
                _ => Err(Error::BareCr),
            },
            Chunked::Data(_) | Chunked::Trailers => Ok(self),
        }
    }
}

fn in_size(byte: u8, size: u64, length: usize, limits: &Limits) -> Result<Chunked, Error> {
    match byte {
        b'\r' if length > 0 => return Ok(Chunked::SizeLf { size }),
        b'\n' => return Err(Error::BareLf),
        _ if length == limits.chunk_line => return Err(Error::ChunkLineTooLong),
        b';' if length > 0 => {
            return Ok(Chunked::Extension { size, length: length + 1, place: Extension::Begin });
        }
        _ => {}
    }
    let digit = char::from(byte).to_digit(16).ok_or(Error::ChunkSize)?;
    if length == MAX_DIGITS || size > MAX_LENGTH >> 4 {
        return Err(Error::ChunkSizeOverflow);
    }
    Ok(Chunked::Size { size: size << 4 | u64::from(digit), length: length + 1 })
}

fn in_extension(
    byte: u8,
    size: u64,
    length: usize,
    place: Extension,
    limits: &Limits,
) -> Result<Chunked, Error> {
    match byte {
        b'\r' if place.may_end() => return Ok(Chunked::SizeLf { size }),
        b'\n' => return Err(Error::BareLf),
        _ => {}
    }
    let place = place.after(byte).ok_or(Error::ChunkExtension)?;
    if length == limits.chunk_line {
        return Err(Error::ChunkLineTooLong);
    }
    Ok(Chunked::Extension { size, length: length + 1, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(line: &str) -> Result<u64, Error> {
        let mut chunked = Chunked::START;
        chunked.read(format!("{line}\r\n").as_bytes(), &Limits::default())?;
        match chunked {
            Chunked::Data(size) => Ok(size),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sizes_are_hex_digits_below_two_to_the_63() {
        assert_eq!(size("5"), Ok(5));
        assert_eq!(size("0Aa;x=\"y\""), Ok(0xaa));
        assert_eq!(size("0000000000000005"), Ok(5));
        assert_eq!(size("7fffffffffffffff"), Ok(MAX_LENGTH));
        for line in ["8000000000000000", "00000000000000005", "ffffffffffffffffff"] {
            assert_eq!(size(line), Err(Error::ChunkSizeOverflow), "{line}");
        }
        for line in ["", ";a", " 5", "5 ", "+5", "0x5", "5_0", "g", "5 ;a"] {
            assert!(size(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_line_is_bounded() {
        assert_eq!(size(&format!("1;{}", "a".repeat(254))), Ok(1));
        assert_eq!(size(&format!("1;{}", "a".repeat(255))), Err(Error::ChunkLineTooLong));
    }
}
