//! Heads and trailers to blocks.
//!
//! A head is written anew from its parts. What HTTP/2 and HTTP/3 say by themselves is left out, and the length is the caller's: it cannot
//! disagree with what is sent.

use super::facts::CONNECTION_FIELDS;
use super::line::OVERHEAD;
use crate::field_name::{FieldName, FieldSet};
use crate::fields::{Field, Fields};
use crate::head::{RequestHead, ResponseHead};
use crate::method::Method;
use crate::status::Status;

/// How a compression writes lines: HPACK or QPACK.
pub trait Encoding {
    /// Where a line, or its name, stands in the static table.
    type Index: Copy;
    /// `:authority`, whatever its value.
    const AUTHORITY: Self::Index;
    /// `:path`, and that with the value `/`.
    const PATH: Self::Index;
    /// `:method`, whatever its value.
    const METHOD: Self::Index;
    /// `:scheme` with the value `http`.
    const HTTP: Self::Index;
    /// `:scheme` with the value `https`.
    const HTTPS: Self::Index;
    /// `:status`, whatever its value.
    const STATUS: Self::Index;

    /// The method whose line the table has.
    fn of_method(method: Method) -> Option<Self::Index>;

    /// The status whose line the table has.
    fn of_status(code: u16) -> Option<Self::Index>;

    /// An entry with that name, in any case.
    fn of_name(id: FieldName, name: &[u8]) -> Option<Self::Index>;

    /// Appends a line that the static table has.
    fn write_indexed(out: &mut Vec<u8>, line: Self::Index);

    /// Appends the name of a line and the length of its value, whose bytes have to follow. The name is that of an entry of the static
    /// table, or else `name`, which is put into lower case.
    fn write_literal(
        out: &mut Vec<u8>,
        index: Option<Self::Index>,
        name: &[u8],
        value_len: usize,
        secrecy: Secrecy,
    );
}

/// Whether those on the way may keep a line in their tables (RFC 7541 section 7.1.3, RFC 9204 section 7.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// They may.
    Public,
    /// They must not: its value could be guessed from how well it compresses.
    Secret,
}

/// Where a request goes: what its pseudo-header fields say beside its head.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// `:authority`.
    pub authority: &'a [u8],
    /// Whether `:scheme` is `https`.
    pub is_https: bool,
    /// `:protocol`, which makes CONNECT an extended one (RFC 8441, RFC 9220).
    pub protocol: Option<&'a [u8]>,
}

/// Appends the lines of a request. `length` is what `content-length` is to say; the fields' own is left out.
pub fn write_request<E: Encoding>(
    out: &mut Vec<u8>,
    head: &RequestHead,
    to: &Destination<'_>,
    length: Option<u64>,
) {
    match E::of_method(head.method) {
        Some(index) => E::write_indexed(out, index),
        None => write_public::<E>(out, E::METHOD, head.method.as_str().as_bytes()),
    }
    if head.method != Method::CONNECT || to.protocol.is_some() {
        E::write_indexed(out, if to.is_https { E::HTTPS } else { E::HTTP });
        write_path::<E>(out, head);
    }
    write_public::<E>(out, E::AUTHORITY, to.authority);
    if let Some(protocol) = to.protocol {
        E::write_literal(out, None, b":protocol", protocol.len(), Secrecy::Public);
        out.extend_from_slice(protocol);
    }
    write_fields::<E>(out, &head.fields);
    write_length::<E>(out, length);
}

/// Appends the lines of a response. `length` is what `content-length` is to say; the fields' own is left out.
pub fn write_response<E: Encoding>(out: &mut Vec<u8>, head: &ResponseHead, length: Option<u64>) {
    match E::of_status(head.status.code()) {
        Some(index) => E::write_indexed(out, index),
        None => write_public::<E>(out, E::STATUS, &head.status.digits()),
    }
    write_fields::<E>(out, &head.fields);
    write_length::<E>(out, length.filter(|_| may_have_length(head.status)));
}

/// How long the list of the lines is that [`write_response`] appends, as both protocols count it (RFC 9113 section 6.5.2, RFC 9114 section
/// 4.2.2).
pub fn size_of_response(head: &ResponseHead, length: Option<u64>) -> u64 {
    let digits = |length: u64| length.checked_ilog10().map_or(1, |last| last as usize + 1);
    let length = length.filter(|_| may_have_length(head.status));
    let length = length.map_or(0, |length| size_of("content-length".len(), digits(length)));
    size_of(":status".len(), 3) + size_of_fields(&head.fields) + length
}

/// The same of [`write_fields`].
pub fn size_of_fields(fields: &Fields) -> u64 {
    let sizes = written(fields).map(|it| size_of(it.name.len(), it.value.trim_ascii().len()));
    sizes.sum()
}

fn size_of(name: usize, value: usize) -> u64 {
    (name + value + OVERHEAD) as u64
}

fn may_have_length(status: Status) -> bool {
    !status.is_informational() && status != Status::NO_CONTENT
}

fn write_path<E: Encoding>(out: &mut Vec<u8>, head: &RequestHead) {
    let (path, query) = (head.path(), head.query());
    if path == b"/" && query.is_none() {
        return E::write_indexed(out, E::PATH);
    }
    let length = path.len() + query.map_or(0, |query| 1 + query.len());
    E::write_literal(out, Some(E::PATH), b"", length, Secrecy::Public);
    out.extend_from_slice(path);
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// Appends the lines that are the sender's own, of a head or of trailers, and leaves out those that are the encoder's or have no place in
/// HTTP/2 and HTTP/3.
pub fn write_fields<E: Encoding>(out: &mut Vec<u8>, fields: &Fields) {
    for field in written(fields) {
        write_field::<E>(out, &field);
    }
}

fn written(fields: &Fields) -> impl Iterator<Item = Field<'_>> {
    fields.iter().filter(|field| !LEFT_OUT.has(field.id) && !is_other_te(field))
}

#[inline]
fn write_field<E: Encoding>(out: &mut Vec<u8>, field: &Field<'_>) {
    let secrecy = if SECRET.has(field.id) { Secrecy::Secret } else { Secrecy::Public };
    let index = E::of_name(field.id, field.name);
    let value = field.value.trim_ascii();
    E::write_literal(out, index, field.name, value.len(), secrecy);
    out.extend_from_slice(value);
}

fn is_other_te(field: &Field<'_>) -> bool {
    field.id == FieldName::Te && !field.value.eq_ignore_ascii_case(b"trailers")
}

fn write_public<E: Encoding>(out: &mut Vec<u8>, index: E::Index, value: &[u8]) {
    E::write_literal(out, Some(index), b"", value.len(), Secrecy::Public);
    out.extend_from_slice(value);
}

fn write_length<E: Encoding>(out: &mut Vec<u8>, length: Option<u64>) {
    let Some(mut rest) = length else { return };
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while rest > 0 || first == digits.len() {
        first -= 1;
        digits[first] += u8::try_from(rest % 10).expect("a digit is below 10");
        rest /= 10;
    }
    let digits = &digits[first..];
    let index = E::of_name(FieldName::ContentLength, b"");
    E::write_literal(out, index, b"", digits.len(), Secrecy::Public);
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
pub fn room_for(fields: &Fields) -> usize {
    const LENGTHS_OF_A_LINE: usize = 8;
    const PSEUDO_FIELDS: usize = 160;
    fields.text().len() + fields.len() * LENGTHS_OF_A_LINE + PSEUDO_FIELDS
}
