//! The parameters of a query, in the form of `application/x-www-form-urlencoded`, except for `+`.

use crate::path::decode_hex;
use std::borrow::Cow;

/// The decoded values of every query parameter with that name; case counts, and names compare decoded.
///
/// `+` is a plus sign: that it may stand for a space is an affair of forms, not of URIs. An escape that is not one
/// stands for itself. Only a value with escapes is copied.
pub fn values<'a>(query: Option<&'a [u8]>, name: &'a str) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let pairs = query.unwrap_or_default().split(|&byte| byte == b'&');
    pairs.filter(|pair| !pair.is_empty()).filter_map(move |pair| {
        let end = pair.iter().position(|&byte| byte == b'=');
        let (raw, value) = pair.split_at(end.unwrap_or(pair.len()));
        Decoded(raw).eq(name.bytes()).then(|| decode(value.strip_prefix(b"=").unwrap_or(value)))
    })
}

/// Every parameter of a query, its name and its value decoded in the same way.
pub fn pairs(query: Option<&[u8]>) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    let pairs = query.unwrap_or_default().split(|&byte| byte == b'&');
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let end = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(end);
        (decode(name), decode(value.strip_prefix(b"=").unwrap_or(value)))
    })
}

/// Whether a parameter of a query, as the URL has it, has that name.
pub fn is_parameter(raw: &[u8], name: &str) -> bool {
    let end = raw.iter().position(|&byte| byte == b'=').unwrap_or(raw.len());
    Decoded(&raw[..end]).eq(name.bytes())
}

/// The bytes that a text with percent escapes stands for.
pub fn decode(raw: &[u8]) -> Cow<'_, [u8]> {
    match raw.contains(&b'%') {
        true => Decoded(raw).collect(),
        false => Cow::Borrowed(raw),
    }
}

/// The same, one after the other.
struct Decoded<'a>(&'a [u8]);

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&first, mut rest) = self.0.split_first()?;
        let mut byte = first;
        if let (b'%', &[high, low, ref after @ ..]) = (first, rest)
            && let Some(decoded) = decode_hex(high, low)
        {
            (byte, rest) = (decoded, after);
        }
        self.0 = rest;
        Some(byte)
    }
}
