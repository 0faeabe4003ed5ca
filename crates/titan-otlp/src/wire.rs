//! Messages of Protocol Buffers, field by field: written without a tree of them in between, and read where they are short.

use std::borrow::Cow;

/// How the value of a field is written.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// The value of an attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'v> {
    /// Text; what is not UTF-8 in it becomes U+FFFD.
    Text(&'v [u8]),
    /// A list of one text.
    Texts(&'v [u8]),
    Int(i64),
    Double(f64),
    Bool(bool),
}

/// The fields of an `AnyValue`.
mod any {
    pub(super) const TEXT: u64 = 1;
    pub(super) const BOOL: u64 = 2;
    pub(super) const INT: u64 = 3;
    pub(super) const DOUBLE: u64 = 4;
    pub(super) const ARRAY: u64 = 5;
}

pub(crate) fn varint(mut number: u64, out: &mut Vec<u8>) {
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
fn varint_len(number: u64) -> u64 {
    let bits = 64 - u64::from((number | 1).leading_zeros());
    bits.div_ceil(7)
}

fn key(field: u64, how: u64, out: &mut Vec<u8>) {
    varint(field << 3 | how, out);
}

/// A field of bytes: a text, or a message.
pub(crate) fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    start(field, value.len() as u64, out);
    out.extend_from_slice(value);
}

/// The begin of a field of so many bytes, which follow.
pub(crate) fn start(field: u64, length: u64, out: &mut Vec<u8>) {
    key(field, BYTES, out);
    varint(length, out);
}

pub(crate) fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    key(field, VARINT, out);
    varint(value, out);
}

pub(crate) fn fixed64(field: u64, value: u64, out: &mut Vec<u8>) {
    key(field, FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn fixed32(field: u64, value: u32, out: &mut Vec<u8>) {
    key(field, FIXED32, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// An attribute, as a field that may repeat.
pub(crate) fn attribute(field: u64, name: &str, value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Text(text) => {
            let text = utf8(text);
            attribute_of(field, name, text_len(&text), out, |out| {
                bytes(any::TEXT, text.as_bytes(), out);
            });
        }
        Value::Texts(text) => {
            let text = utf8(text);
            let inner = text_len(&text);
            let list = 1 + varint_len(inner) + inner;
            attribute_of(field, name, 1 + varint_len(list) + list, out, |out| {
                start(any::ARRAY, list, out);
                start(1, inner, out);
                bytes(any::TEXT, text.as_bytes(), out);
            });
        }
        Value::Int(value) => {
            let value = value.cast_unsigned();
            attribute_of(field, name, 1 + varint_len(value), out, |out| {
                number(any::INT, value, out);
            });
        }
        Value::Double(value) => attribute_of(field, name, 9, out, |out| {
            fixed64(any::DOUBLE, value.to_bits(), out);
        }),
        Value::Bool(value) => {
            attribute_of(field, name, 2, out, |out| number(any::BOOL, value.into(), out));
        }
    }
}

/// An attribute whose `AnyValue` has that length.
fn attribute_of(
    field: u64,
    name: &str,
    length: u64,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let value = 1 + varint_len(length) + length;
    start(field, text_len(name) + value, out);
    bytes(1, name.as_bytes(), out);
    start(2, length, out);
    write(out);
}

/// How long a text is as a field with a small number.
fn text_len(text: &str) -> u64 {
    let length = text.len() as u64;
    1 + varint_len(length) + length
}

pub(crate) fn utf8(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// The text of an `AnyValue`, as a field.
pub(crate) fn text_value(field: u64, text: &[u8], out: &mut Vec<u8>) {
    let text = utf8(text);
    start(field, text_len(&text), out);
    bytes(any::TEXT, text.as_bytes(), out);
}

/// A field of a message that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read<'m> {
    Number(u64),
    Bytes(&'m [u8]),
    Other,
}

/// The fields of a message, until one is malformed.
pub(crate) fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, Read<'_>)> {
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
pub(crate) fn bytes_of(message: &[u8], wanted: u64) -> Option<&[u8]> {
    fields(message).find_map(|(field, value)| match value {
        Read::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    })
}

/// The number of the first field with that number.
pub(crate) fn number_of(message: &[u8], wanted: u64) -> Option<u64> {
    fields(message).find_map(|(field, value)| match value {
        Read::Number(number) if field == wanted => Some(number),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Wanted;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope};
    use prost::Message;

    #[test]
    fn attributes_are_what_the_definition_of_the_protocol_makes_of_them() {
        let long = "ä".repeat(20_000);
        let texts = ["", "a", "\u{1f980}", &long];
        let mut written = Vec::new();
        let mut wanted = Vec::new();
        let text = |text: &str| Wanted::StringValue(text.to_owned());
        for it in texts {
            attribute(3, "text", Value::Text(it.as_bytes()), &mut written);
            wanted.push(("text", text(it)));
            attribute(3, "list", Value::Texts(it.as_bytes()), &mut written);
            let values = vec![AnyValue { value: Some(text(it)) }];
            wanted.push(("list", Wanted::ArrayValue(ArrayValue { values })));
        }
        for number in [0, 1, -1, 127, 128, i64::MAX, i64::MIN] {
            attribute(3, "number", Value::Int(number), &mut written);
            wanted.push(("number", Wanted::IntValue(number)));
        }
        attribute(3, "double", Value::Double(0.001), &mut written);
        wanted.push(("double", Wanted::DoubleValue(0.001)));
        attribute(3, "true", Value::Bool(true), &mut written);
        wanted.push(("true", Wanted::BoolValue(true)));
        attribute(3, "bad", Value::Text(b"\xff"), &mut written);
        wanted.push(("bad", text("\u{fffd}")));
        let read = InstrumentationScope::decode(&*written).unwrap();
        assert!(read.encode_to_vec() == written, "it is written in another way");
        let read = read.attributes.into_iter().map(|it| (it.key, it.value.unwrap().value.unwrap()));
        let wanted: Vec<_> =
            wanted.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(read.collect::<Vec<_>>(), wanted);
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
