//! Messages of Protocol Buffers, field by field: written without a tree of them in between, and read where they are short.

/// How the value of a field is written.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// A number of as many bytes as it needs.
pub fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(low_byte(number) | 0x80);
        number >>= 7;
    }
    out.push(low_byte(number));
}

fn low_byte(number: u64) -> u8 {
    u8::try_from(number & 0x7f).expect("seven bits")
}

/// How many bytes a varint takes.
pub fn varint_len(number: u64) -> u64 {
    let bits = 64 - u64::from((number | 1).leading_zeros());
    bits.div_ceil(7)
}

fn key(field: u64, how: u64, out: &mut Vec<u8>) {
    varint(field << 3 | how, out);
}

/// A field of bytes: a text, or a message.
pub fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    start(field, value.len() as u64, out);
    out.extend_from_slice(value);
}

/// The begin of a field of so many bytes, which follow.
pub fn start(field: u64, length: u64, out: &mut Vec<u8>) {
    key(field, BYTES, out);
    varint(length, out);
}

/// A field that is a message, of the fields that `write` writes.
pub fn message(field: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    key(field, BYTES, out);
    delimited(out, write);
}

/// A message behind its length.
pub fn delimited(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    delimit(start, out);
}

/// Puts its length before the message that everything from `start` on is.
pub fn delimit(start: usize, out: &mut Vec<u8>) {
    let end = out.len();
    varint((end - start) as u64, out);
    // The length is known behind the message and belongs before it.
    let length = out.len() - end;
    out[start..].rotate_right(length);
}

/// A field of an unsigned number, or of an enumeration.
pub fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    key(field, VARINT, out);
    varint(value, out);
}

/// A field of a `sint32` or a `sint64`, which is short on both sides of zero.
pub fn signed(field: u64, value: i64, out: &mut Vec<u8>) {
    let twice = value.unsigned_abs() << 1;
    number(field, if value < 0 { twice.wrapping_sub(1) } else { twice }, out);
}

/// A field of eight bytes.
pub fn fixed64(field: u64, value: u64, out: &mut Vec<u8>) {
    key(field, FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A field of a `double`.
pub fn double(field: u64, value: f64, out: &mut Vec<u8>) {
    fixed64(field, value.to_bits(), out);
}

/// A field of four bytes.
pub fn fixed32(field: u64, value: u32, out: &mut Vec<u8>) {
    key(field, FIXED32, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A field of a message that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'m> {
    /// A number.
    Number(u64),
    /// A text or a message.
    Bytes(&'m [u8]),
    /// Anything else.
    Other,
}

/// The fields of a message, until one is malformed.
pub fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, Read<'_>)> {
    std::iter::from_fn(move || {
        let key = take_varint(&mut message)?;
        let value = match key & 7 {
            VARINT => Read::Number(take_varint(&mut message)?),
            FIXED64 => take(&mut message, 8).map(|_| Read::Other)?,
            BYTES => {
                let length = usize::try_from(take_varint(&mut message)?).ok()?;
                Read::Bytes(take(&mut message, length)?)
            }
            FIXED32 => take(&mut message, 4).map(|_| Read::Other)?,
            _ => return None,
        };
        Some((key >> 3, value))
    })
}

fn take<'m>(message: &mut &'m [u8], count: usize) -> Option<&'m [u8]> {
    let (taken, rest) = message.split_at_checked(count)?;
    *message = rest;
    Some(taken)
}

fn take_varint(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = *take(message, 1)? else { return None };
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The bytes of the first field with that number.
pub fn bytes_of(message: &[u8], wanted: u64) -> Option<&[u8]> {
    fields(message).find_map(|(field, value)| match value {
        Read::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    })
}

/// The number of the first field with that number.
pub fn number_of(message: &[u8], wanted: u64) -> Option<u64> {
    fields(message).find_map(|(field, value)| match value {
        Read::Number(number) if field == wanted => Some(number),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_stands_before_what_it_is_of() {
        for length in [0, 1, 127, 128, 20_000] {
            let (mut written, mut wanted) = (b"before".to_vec(), b"before".to_vec());
            let text = vec![b'a'; length];
            message(3, &mut written, |out| bytes(1, &text, out));
            let mut inner = Vec::new();
            bytes(1, &text, &mut inner);
            bytes(3, &inner, &mut wanted);
            assert!(written == wanted, "{length}");
            delimited(&mut written, |out| out.extend_from_slice(&text));
            varint(length as u64, &mut wanted);
            assert!(written == [wanted, text].concat(), "{length}");
        }
    }

    #[test]
    fn signed_numbers_alternate() {
        for (value, wanted) in
            [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)]
        {
            let mut written = Vec::new();
            signed(1, value, &mut written);
            assert_eq!(number_of(&written, 1), Some(wanted), "{value}");
        }
    }

    #[test]
    fn what_is_cut_or_malformed_is_read_no_further() {
        let mut message = Vec::new();
        number(1, 300, &mut message);
        bytes(2, b"abc", &mut message);
        fixed64(3, 5, &mut message);
        let all: Vec<_> = fields(&message).collect();
        assert_eq!(all, [(1, Read::Number(300)), (2, Read::Bytes(b"abc")), (3, Read::Other)]);
        for end in 0..message.len() {
            assert!(fields(&message[..end]).count() < 3, "{end}");
        }
        assert_eq!(fields(&[0xff; 40]).count(), 0);
        assert_eq!(bytes_of(&[0x12, 0xff, 0xff, 0xff, 0xff, 0x7f], 2), None);
        assert_eq!(bytes_of(&message, 2), Some(&b"abc"[..]));
        assert_eq!(number_of(&message, 1), Some(300));
    }
}
