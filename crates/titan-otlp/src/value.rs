//! Attributes, and other values of which each has a type (OpenTelemetry's `AnyValue`).

use std::borrow::Cow;
use titan_io::protobuf::{bytes, double, number, start, varint_len};

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
            double(any::DOUBLE, value, out);
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
}
