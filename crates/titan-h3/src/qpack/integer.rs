//! Integers and strings of instructions and field lines (RFC 9204 section 4.1).

use titan_http::huffman;

/// Why one cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It has not all come.
    Partial,
    /// It is none, with what is wrong.
    Wrong(&'static str),
}

/// An integer whose first byte has `prefix` bits of it (section 4.1.1): of 62 bits at most, and in no more bytes than such a one needs.
#[inline]
pub(super) fn integer(input: &mut &[u8], prefix: u32) -> Result<u64, Unread> {
    let (&first, mut rest) = input.split_first().ok_or(Unread::Partial)?;
    let most = (1_u64 << prefix) - 1;
    let mut value = u64::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (&byte, behind) = rest.split_first().ok_or(Unread::Partial)?;
            rest = behind;
            value += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
            if shift > 56 {
                return Err(Unread::Wrong(TOO_LARGE));
            }
        }
        if value >= 1 << 62 {
            return Err(Unread::Wrong(TOO_LARGE));
        }
    }
    *input = rest;
    Ok(value)
}

const TOO_LARGE: &str = "an integer is too large (RFC 9204 section 4.1.1)";

/// A string as it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coded<'i> {
    bytes: &'i [u8],
    is_huffman: bool,
}

/// A string whose length has `prefix` bits of the first byte, and the bit above them for Huffman code (section 4.1.2). `most` bytes are
/// read at most.
#[inline]
pub(super) fn string<'i>(
    input: &mut &'i [u8],
    prefix: u32,
    most: usize,
) -> Result<Coded<'i>, Unread> {
    let is_huffman = input.first().ok_or(Unread::Partial)? >> prefix & 1 == 1;
    let mut rest = *input;
    let length = usize::try_from(integer(&mut rest, prefix)?).unwrap_or(usize::MAX);
    if length > most {
        return Err(Unread::Wrong(
            "a string is longer than the table can have it (RFC 9204 section 3.2.2)",
        ));
    }
    let (bytes, rest) = rest.split_at_checked(length).ok_or(Unread::Partial)?;
    *input = rest;
    Ok(Coded { bytes, is_huffman })
}

impl<'i> Coded<'i> {
    /// What it says. One in Huffman code is decoded into `buffer`.
    #[inline]
    pub(super) fn decode<'a>(self, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Unread>
    where
        'i: 'a,
    {
        if !self.is_huffman {
            return Ok(self.bytes);
        }
        let length = huffman::decode(self.bytes, buffer)
            .map_err(|_| Unread::Wrong("a string is no Huffman code (RFC 9204 section 4.1.2)"))?;
        Ok(&buffer[..length])
    }
}

/// Appends an integer behind a pattern that leaves `prefix` bits of its byte.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time, and what is below 128")]
pub(super) fn write_integer(out: &mut Vec<u8>, pattern: u8, prefix: u32, value: u64) {
    let most = (1 << prefix) - 1;
    if value < most {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_come_back(value in 0_u64..1 << 62, shift in 0_u32..62, prefix in 1_u32..=8) {
            let value = value >> shift;
            let mut out = Vec::new();
            write_integer(&mut out, 0, prefix, value);
            let mut input = out.as_slice();
            prop_assert_eq!(integer(&mut input, prefix), Ok(value));
            prop_assert!(input.is_empty());
            for end in 0..out.len() {
                let mut input = &out[..end];
                prop_assert_eq!(integer(&mut input, prefix), Err(Unread::Partial));
                prop_assert_eq!(input.len(), end);
            }
        }
    }

    #[test]
    fn integers_of_more_than_62_bits_are_none() {
        let mut out = Vec::new();
        write_integer(&mut out, 0, 8, 1 << 62);
        assert_eq!(integer(&mut out.as_slice(), 8), Err(Unread::Wrong(TOO_LARGE)));
        let mut long = [0x80; 12];
        long[0] = 0xff;
        assert_eq!(integer(&mut long.as_slice(), 8), Err(Unread::Wrong(TOO_LARGE)));
    }

    #[test]
    fn strings_are_bounded() {
        let mut buffer = Vec::new();
        let mut input = b"\x03abcd".as_slice();
        let coded = string(&mut input, 7, 3).unwrap();
        assert_eq!(coded.decode(&mut buffer), Ok(b"abc".as_slice()));
        assert_eq!(input, b"d");
        let mut input = b"\x04abcd".as_slice();
        assert!(matches!(string(&mut input, 7, 3), Err(Unread::Wrong(_))));
        let mut input = b"\x04abc".as_slice();
        assert!(matches!(string(&mut input, 7, 4), Err(Unread::Partial)));
        assert_eq!(input.len(), 4);
    }
}
