//! Fields to blocks (RFC 7541 section 6), without a dynamic table and without Huffman code: bytes
//! on the wire are cheaper than the time to save them.

use super::static_table::{FieldIndex, pseudo};
use titan_http::section::{Encoding, Secrecy};
use titan_http::{FieldName, Method};

/// HPACK, as this side writes it.
pub(crate) struct Hpack;

impl Encoding for Hpack {
    type Index = FieldIndex;
    const AUTHORITY: FieldIndex = pseudo::AUTHORITY;
    const PATH: FieldIndex = pseudo::ROOT;
    const METHOD: FieldIndex = pseudo::METHOD;
    const HTTP: FieldIndex = pseudo::HTTP;
    const HTTPS: FieldIndex = pseudo::HTTPS;
    const STATUS: FieldIndex = pseudo::STATUS;

    #[inline]
    fn of_method(method: Method) -> Option<FieldIndex> {
        match method {
            Method::GET => Some(pseudo::GET),
            Method::POST => Some(pseudo::POST),
            _ => None,
        }
    }

    #[inline]
    fn of_status(code: u16) -> Option<FieldIndex> {
        FieldIndex::of_status(code)
    }

    #[inline]
    fn of_name(id: FieldName, name: &[u8]) -> Option<FieldIndex> {
        FieldIndex::of_name(id, name)
    }

    #[inline]
    fn write_indexed(out: &mut Vec<u8>, line: FieldIndex) {
        out.push(0x80 | line.0);
    }

    #[inline]
    fn write_literal(
        out: &mut Vec<u8>,
        index: Option<FieldIndex>,
        name: &[u8],
        value_len: usize,
        secrecy: Secrecy,
    ) {
        let pattern = match secrecy {
            Secrecy::Public => 0x00,
            Secrecy::Secret => 0x10,
        };
        match index {
            Some(index) => write_integer(out, pattern, 4, index.0.into()),
            None => {
                out.push(pattern);
                write_integer(out, 0, 7, name.len());
                let start = out.len();
                out.extend_from_slice(name);
                out[start..].make_ascii_lowercase();
            }
        }
        write_integer(out, 0, 7, value_len);
    }
}

/// Appends a change of the table's size to zero: this side keeps none.
pub(crate) fn write_size_update(out: &mut Vec<u8>) {
    out.push(0x20);
}

/// Appends an integer behind a pattern that leaves `prefix` bits of its byte (section 5.1).
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time, and what is below 128")]
fn write_integer(out: &mut Vec<u8>, pattern: u8, prefix: u32, value: usize) {
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

    /// RFC 7541 section C.1.
    #[test]
    fn integers_are_those_of_the_appendix() {
        let written = |pattern, prefix, value| {
            let mut out = Vec::new();
            write_integer(&mut out, pattern, prefix, value);
            out
        };
        assert_eq!(written(0, 5, 10), [0b0_1010]);
        assert_eq!(written(0, 5, 1337), [0b1_1111, 0b1001_1010, 0b1010]);
        assert_eq!(written(0, 8, 42), [42]);
        assert_eq!(written(0x10, 4, 15), [0x1f, 0]);
    }
}
