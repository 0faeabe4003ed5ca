//! Fields to sections (RFC 9204 section 4.5), without a dynamic table and without Huffman code: bytes on the wire are cheaper than the
//! time to save them. No section of this side can be blocked, and nothing that this side sends can be lost for another.

use super::error::Corrupt;
use super::integer::{Unread, integer, write_integer};
use super::static_table::{StaticIndex, pseudo};
use titan_http::section::{Encoding, Secrecy};
use titan_http::{FieldName, Method};

/// Appends what a section begins with that refers to no dynamic table (section 4.5.1).
pub fn write_prefix(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// QPACK, as this side writes it.
pub struct Qpack;

impl Encoding for Qpack {
    type Index = StaticIndex;
    const AUTHORITY: StaticIndex = pseudo::AUTHORITY;
    const PATH: StaticIndex = pseudo::PATH;
    const METHOD: StaticIndex = pseudo::METHOD;
    const HTTP: StaticIndex = pseudo::HTTP;
    const HTTPS: StaticIndex = pseudo::HTTPS;
    const STATUS: StaticIndex = pseudo::STATUS;

    #[inline]
    fn of_method(method: Method) -> Option<StaticIndex> {
        StaticIndex::of_line(pseudo::METHOD, method.as_str().as_bytes())
    }

    #[inline]
    fn of_status(code: u16) -> Option<StaticIndex> {
        StaticIndex::of_status(code)
    }

    #[inline]
    fn of_name(id: FieldName, name: &[u8]) -> Option<StaticIndex> {
        StaticIndex::of_name(id, name)
    }

    #[inline]
    fn write_indexed(out: &mut Vec<u8>, line: StaticIndex) {
        write_integer(out, 0xc0, 6, line.0.into());
    }

    #[inline]
    fn write_literal(
        out: &mut Vec<u8>,
        index: Option<StaticIndex>,
        name: &[u8],
        value_len: usize,
        secrecy: Secrecy,
    ) {
        let is_secret = secrecy == Secrecy::Secret;
        match index {
            Some(index) => write_integer(out, 0x50 | u8::from(is_secret) << 5, 4, index.0.into()),
            None => {
                write_integer(out, 0x20 | u8::from(is_secret) << 4, 3, name.len() as u64);
                let start = out.len();
                out.extend_from_slice(name);
                out[start..].make_ascii_lowercase();
            }
        }
        write_integer(out, 0, 7, value_len as u64);
    }
}

/// Reads what the peer's decoder says, as far as it has come whole; tells how many bytes that were. It can have seen no entry, and no
/// section that refers to one; that it gives a stream up is of no interest.
///
/// # Errors
///
/// QPACK_DECODER_STREAM_ERROR.
pub fn read_feedback(input: &[u8]) -> Result<usize, Corrupt> {
    let mut rest = input;
    while let Some(&first) = rest.first() {
        let prefix = if first >= 0x80 { 7 } else { 6 };
        match integer(&mut rest, prefix) {
            Ok(_) if first & 0xc0 == 0x40 => {}
            Ok(_) if first >= 0x80 => return Err(Corrupt::DecoderStream(NOT_SENT)),
            Ok(_) => return Err(Corrupt::DecoderStream(NO_INCREMENT)),
            Err(Unread::Partial) => break,
            Err(Unread::Wrong(what)) => return Err(Corrupt::DecoderStream(what)),
        }
    }
    Ok(input.len() - rest.len())
}

const NOT_SENT: &str = "a section is acknowledged that refers to no entry (RFC 9204 section 4.4.1)";
const NO_INCREMENT: &str = "entries are acknowledged that were not sent (RFC 9204 section 4.4.3)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_decoder_cannot_have_seen_it_cannot_acknowledge() {
        assert_eq!(read_feedback(&[0x44, 0x7f, 0]), Ok(3));
        assert_eq!(read_feedback(&[0x44, 0x7f]), Ok(1));
        assert_eq!(read_feedback(&[]), Ok(0));
        assert_eq!(read_feedback(&[0x44, 0x84]), Err(Corrupt::DecoderStream(NOT_SENT)));
        assert_eq!(read_feedback(&[1]), Err(Corrupt::DecoderStream(NO_INCREMENT)));
        assert_eq!(read_feedback(&[0]), Err(Corrupt::DecoderStream(NO_INCREMENT)));
        assert!(read_feedback(&[0xff; 12]).is_err());
    }
}
