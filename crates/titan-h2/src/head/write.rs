//! Heads and trailers to blocks.
//!
//! A head is written anew from its parts. What HTTP/2 says by itself is left out, and the length is
//! the caller's: it cannot disagree with what is sent.

use crate::event::Destination;
use crate::hpack::{FieldIndex, Secrecy, pseudo, write_indexed, write_literal, write_size_update};
use titan_http::section::CONNECTION_FIELDS;
use titan_http::{Field, FieldName, FieldSet, Fields, Method, RequestHead, ResponseHead, Status};

/// Writes the heads and trailers of one connection, in the order in which their blocks are sent.
#[derive(Debug, Default)]
pub(crate) struct HeadWriter {
    /// Whether the peer was told that no table is kept.
    has_begun: bool,
}

impl HeadWriter {
    /// Appends the block of a request. `length` is what `content-length` is to say; the fields' own
    /// is left out.
    pub(crate) fn write_request(
        &mut self,
        out: &mut Vec<u8>,
        head: &RequestHead,
        to: &Destination<'_>,
        length: Option<u64>,
    ) {
        self.begin(out, &head.fields);
        write_method(out, head.method);
        if head.method != Method::CONNECT || to.protocol.is_some() {
            write_indexed(out, if to.is_https { pseudo::HTTPS } else { pseudo::HTTP });
            write_path(out, head);
        }
        write_public(out, pseudo::AUTHORITY, to.authority);
        if let Some(protocol) = to.protocol {
            write_literal(out, None, b":protocol", protocol.len(), Secrecy::Public);
            out.extend_from_slice(protocol);
        }
        write_fields(out, &head.fields);
        write_length(out, length);
    }

    /// Appends the block of a response. `length` is what `content-length` is to say; the fields'
    /// own is left out.
    pub(crate) fn write_response(
        &mut self,
        out: &mut Vec<u8>,
        head: &ResponseHead,
        length: Option<u64>,
    ) {
        self.begin(out, &head.fields);
        match FieldIndex::of_status(head.status.code()) {
            Some(index) => write_indexed(out, index),
            None => write_public(out, pseudo::STATUS, &head.status.digits()),
        }
        write_fields(out, &head.fields);
        let may_have_length = !head.status.is_informational() && head.status != Status::NO_CONTENT;
        write_length(out, length.filter(|_| may_have_length));
    }

    /// Appends the block of a trailer section.
    pub(crate) fn write_trailers(&mut self, out: &mut Vec<u8>, fields: &Fields) {
        self.begin(out, fields);
        write_fields(out, fields);
    }

    fn begin(&mut self, out: &mut Vec<u8>, fields: &Fields) {
        out.reserve(room_for(fields));
        if !self.has_begun {
            write_size_update(out);
            self.has_begun = true;
        }
    }
}

fn write_method(out: &mut Vec<u8>, method: Method) {
    match method {
        Method::GET => write_indexed(out, pseudo::GET),
        Method::POST => write_indexed(out, pseudo::POST),
        method => write_public(out, pseudo::METHOD, method.as_str().as_bytes()),
    }
}

fn write_path(out: &mut Vec<u8>, head: &RequestHead) {
    let (path, query) = (head.path(), head.query());
    if path == b"/" && query.is_none() {
        return write_indexed(out, pseudo::ROOT);
    }
    let length = path.len() + query.map_or(0, |query| 1 + query.len());
    write_literal(out, Some(pseudo::PATH), b"", length, Secrecy::Public);
    out.extend_from_slice(path);
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// Writes the lines that are the sender's own, and leaves out those that are the encoder's or have
/// no place in HTTP/2.
fn write_fields(out: &mut Vec<u8>, fields: &Fields) {
    for field in fields.iter() {
        if !LEFT_OUT.has(field.id) && !is_other_te(&field) {
            write_field(out, &field);
        }
    }
}

#[inline]
fn write_field(out: &mut Vec<u8>, field: &Field<'_>) {
    let secrecy = if SECRET.has(field.id) { Secrecy::Secret } else { Secrecy::Public };
    let index = FieldIndex::of_name(field.id, field.name);
    let value = field.value.trim_ascii();
    write_literal(out, index, field.name, value.len(), secrecy);
    out.extend_from_slice(value);
}

fn is_other_te(field: &Field<'_>) -> bool {
    field.id == FieldName::Te && !field.value.eq_ignore_ascii_case(b"trailers")
}

fn write_public(out: &mut Vec<u8>, index: FieldIndex, value: &[u8]) {
    write_literal(out, Some(index), b"", value.len(), Secrecy::Public);
    out.extend_from_slice(value);
}

fn write_length(out: &mut Vec<u8>, length: Option<u64>) {
    let Some(mut rest) = length else { return };
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] += u8::try_from(rest % 10).expect("a digit is below 10");
        rest /= 10;
    }
    let digits = &digits[first..];
    let index = FieldIndex::of_name(FieldName::ContentLength, b"");
    write_literal(out, index, b"", digits.len(), Secrecy::Public);
    out.extend_from_slice(digits);
}

const LEFT_OUT: FieldSet = CONNECTION_FIELDS.with(&[FieldName::Host, FieldName::ContentLength]);

/// Fields whose values no intermediary may index.
const SECRET: FieldSet = FieldSet::of(&[
    FieldName::Authorization,
    FieldName::Cookie,
    FieldName::SetCookie,
    FieldName::ProxyAuthorization,
]);

/// Enough room for a block with these fields, so that the buffer grows at most once.
fn room_for(fields: &Fields) -> usize {
    const LENGTHS_OF_A_LINE: usize = 8;
    const PSEUDO_FIELDS: usize = 160;
    fields.text().len() + fields.len() * LENGTHS_OF_A_LINE + PSEUDO_FIELDS
}
