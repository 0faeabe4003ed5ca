//! The elements of `Forwarded` (RFC 7239 section 4), as far as they are read.

use super::{MAX_HOPS, node_address};
use std::net::IpAddr;
use titan_http::{FieldName, Fields, is_token};

/// The last elements of a list that has to be read from its start.
pub(super) struct LastHops<'f> {
    elements: [&'f [u8]; MAX_HOPS],
    count: usize,
}

impl<'f> LastHops<'f> {
    /// Those of all lines. One that is malformed counts as one element that names no client.
    pub(super) fn of(fields: &'f Fields) -> LastHops<'f> {
        let mut last = LastHops { elements: [b""; MAX_HOPS], count: 0 };
        for line in fields.all(FieldName::Forwarded) {
            match is_well_formed(line) {
                true => split_unquoted(line, b',').for_each(|element| last.push(element)),
                false => last.push(b""),
            }
        }
        last
    }

    /// The elements, the last one first.
    pub(super) fn elements(&self) -> impl Iterator<Item = &'f [u8]> {
        let kept = self.count.min(MAX_HOPS);
        (self.count - kept..self.count).rev().map(|at| self.elements[at % MAX_HOPS])
    }

    /// The addresses that they name; those that name none are hops all the same.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Option<IpAddr>> {
        self.elements().map(|element| value_of(element, b"for=").and_then(node_address))
    }

    fn push(&mut self, element: &'f [u8]) {
        self.elements[self.count % MAX_HOPS] = element;
        self.count += 1;
    }
}

/// The value of the first pair of an element with that name, out of its quotes; `name` ends with `=`. What needs a
/// backslash is no node, host or scheme.
pub(super) fn value_of<'f>(element: &'f [u8], name: &[u8]) -> Option<&'f [u8]> {
    let mut pairs = split_unquoted(element, b';').map(<[u8]>::trim_ascii);
    let value = pairs.find_map(|pair| {
        let (start, value) = pair.split_at_checked(name.len())?;
        start.eq_ignore_ascii_case(name).then_some(value)
    })?;
    let quoted = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    Some(quoted.unwrap_or(value))
}

/// Whether a line consists of elements of pairs, each with a name and a value whose quotes are closed. Nodes are
/// taken without quotes too, although a colon and brackets should have some.
pub(super) fn is_well_formed(line: &[u8]) -> bool {
    let mut pairs = split_unquoted(line, b',').flat_map(|element| split_unquoted(element, b';'));
    pairs.all(|pair| is_pair(pair.trim_ascii()))
}

/// Whether it is a pair, or nothing, which lists may hold.
fn is_pair(pair: &[u8]) -> bool {
    let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { return pair.is_empty() };
    let (name, value) = (&pair[..equals], &pair[equals + 1..]);
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    let is_value = match value.strip_prefix(b"\"") {
        Some(rest) => ends_quoted(rest),
        None => !value.is_empty() && value.iter().all(is_plain),
    };
    is_token(name) && is_value
}

/// Whether what stands behind an opening quote ends with the closing one, and not before.
fn ends_quoted(mut rest: &[u8]) -> bool {
    loop {
        match rest {
            [b'"'] => return true,
            [b'\\', _, after @ ..] => rest = after,
            [] | [b'"' | b'\\', ..] => return false,
            [_, after @ ..] => rest = after,
        }
    }
}

/// Splits at a separator that does not stand in a quoted string (RFC 9110 section 5.6.4).
fn split_unquoted(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |&byte| {
        let is_end = byte == separator && !is_quoted;
        is_quoted ^= byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && is_quoted && !is_escaped;
        is_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_malformed_is_seen() {
        for line in [
            "for=192.0.2.1",
            "For=\"[2001:db8::1]:80\";proto=http , by=_x; host=\"a,b;c\"",
            "for=[2001:db8::1]:80",
            "for=unknown, , ;",
            "for=\"a\\\"b\\\\\"",
            "",
        ] {
            assert!(is_well_formed(line.as_bytes()), "{line}");
        }
        for line in [
            "for=\"192.0.2.1",
            "for=192.0.2.1\"",
            "for=\"a\\\"",
            "for=\"a\"b",
            "for=a, host=\"x",
            "for",
            "for=",
            "=a",
            "for =a",
            "for=a b",
            "for=\\a",
            "192.0.2.1",
        ] {
            assert!(!is_well_formed(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn values_are_found_by_their_names() {
        let element = b" for=\"[::1]\"; HOST=\"a;b\" ;proto=https;for=2.2.2.2";
        assert_eq!(value_of(element, b"for="), Some(b"[::1]".as_slice()));
        assert_eq!(value_of(element, b"host="), Some(b"a;b".as_slice()));
        assert_eq!(value_of(element, b"proto="), Some(b"https".as_slice()));
        assert_eq!(value_of(element, b"by="), None);
    }
}
