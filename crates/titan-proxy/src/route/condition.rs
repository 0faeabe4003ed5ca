//! What a route asks of a request beside host and path: method, header fields, query parameters.

use super::Request;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use titan_config::{CertificateMatch, CertificatePart, HeaderMatch, QueryMatch, ValueMatch};
use titan_http::path::decode_hex;
use titan_http::{FieldName, Fields, Method};
use titan_io::tls::Identity;

/// The conditions of one route.
pub(super) struct Conditions {
    /// Empty for any.
    methods: Box<[Method]>,
    headers: Box<[Header]>,
    query: Box<[QueryMatch]>,
    certificate: Box<[CertificateMatch]>,
}

/// Why a route does not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch<'r> {
    /// The route is for other hosts.
    Host,
    /// The route is for other paths.
    Path,
    /// Everything fits but the method.
    Method,
    /// A condition on the header field with that name does not hold.
    Header(&'r str, Unmet),
    /// A condition on the query parameter with that name does not hold.
    Query(&'r str, Unmet),
    /// A condition on that part of the client's certificate does not hold.
    Certificate(CertificatePart, Unmet),
}

/// How a condition on a value does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// There is no value.
    Missing,
    /// No value is the one asked for.
    Other,
    /// There is a value where none may be.
    Present,
}

struct Header {
    /// Compared instead of the name where the name is a known one.
    id: FieldName,
    condition: HeaderMatch,
}

impl Conditions {
    pub(super) fn new(
        methods: &[Method],
        headers: &[HeaderMatch],
        query: &[QueryMatch],
        certificate: &[CertificateMatch],
    ) -> Conditions {
        let header = |condition: &HeaderMatch| Header {
            id: FieldName::of(condition.name.as_str().as_bytes()),
            condition: condition.clone(),
        };
        Conditions {
            methods: methods.into(),
            headers: headers.iter().map(header).collect(),
            query: query.into(),
            certificate: certificate.into(),
        }
    }

    /// The place among routes with the same host, path and priority; the lowest is tried first.
    pub(super) fn order(&self) -> impl Ord + use<> {
        let count = self.headers.len() + self.query.len() + self.certificate.len();
        (Reverse(count), self.methods.is_empty(), !self.methods.contains(&Method::HEAD))
    }

    /// Every method that is taken; nothing when all are.
    pub(super) fn methods(&self) -> impl Iterator<Item = Method> {
        let head = self.takes(Method::HEAD).then_some(Method::HEAD);
        self.methods.iter().copied().chain(head.filter(|_| !self.methods.is_empty()))
    }

    /// The first condition that `request` does not meet. The method comes last, so that it is only
    /// named where nothing else stands in the way.
    pub(super) fn mismatch(&self, request: &Request<'_>) -> Option<Mismatch<'_>> {
        for header in &self.headers {
            let HeaderMatch { name, value } = &header.condition;
            if let Some(unmet) = unmet(value, header.values(request.fields)) {
                return Some(Mismatch::Header(name.as_str(), unmet));
            }
        }
        for QueryMatch { name, value } in &self.query {
            if let Some(unmet) = unmet(value, query_values(request.query, name)) {
                return Some(Mismatch::Query(name, unmet));
            }
        }
        if let Some((part, unmet)) = certificate_mismatch(&self.certificate, request.identity) {
            return Some(Mismatch::Certificate(part, unmet));
        }
        (!self.takes(request.method)).then_some(Mismatch::Method)
    }

    fn takes(&self, method: Method) -> bool {
        let lists = |method| self.methods.contains(&method);
        self.methods.is_empty() || lists(method) || method == Method::HEAD && lists(Method::GET)
    }
}

/// The first condition that the certificate of a client does not meet.
pub(crate) fn certificate_mismatch(
    conditions: &[CertificateMatch],
    identity: Option<&Identity>,
) -> Option<(CertificatePart, Unmet)> {
    conditions.iter().find_map(|CertificateMatch { part, value }| {
        let values = identity.into_iter().flat_map(|identity| identity.values(*part));
        let unmet = unmet(value, values.map(|text| Cow::Borrowed(text.as_bytes())))?;
        Some((*part, unmet))
    })
}

impl Header {
    fn values<'a>(&'a self, fields: &'a Fields) -> impl Iterator<Item = Cow<'a, [u8]>> {
        let name = self.condition.name.as_str().as_bytes();
        let same = move |id, other: &[u8]| match self.id {
            FieldName::Other => other.eq_ignore_ascii_case(name),
            known => id == known,
        };
        let lines = fields.iter().filter(move |field| same(field.id, field.name));
        lines.map(|field| Cow::Borrowed(field.value))
    }
}

/// The decoded values of every query parameter with that name; case counts, and names compare decoded.
///
/// `+` is a plus sign: that it may stand for a space is an affair of forms, not of URIs. An escape
/// that is none stands for itself. Only a value with escapes is copied.
pub(crate) fn query_values<'a>(
    query: Option<&'a [u8]>,
    name: &'a str,
) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let pairs = query.unwrap_or_default().split(|&octet| octet == b'&');
    pairs.filter(|pair| !pair.is_empty()).filter_map(move |pair| {
        let end = pair.iter().position(|&octet| octet == b'=');
        let (raw, value) = pair.split_at(end.unwrap_or(pair.len()));
        Decoded(raw).eq(name.bytes()).then(|| decode(value.strip_prefix(b"=").unwrap_or(value)))
    })
}

/// Every parameter of a query, its name and its value decoded in the same way.
pub(crate) fn query_pairs(
    query: Option<&[u8]>,
) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    let pairs = query.unwrap_or_default().split(|&octet| octet == b'&');
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let end = pair.iter().position(|&octet| octet == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(end);
        (decode(name), decode(value.strip_prefix(b"=").unwrap_or(value)))
    })
}

/// Whether a parameter of a query, as the URL has it, has that name.
pub(crate) fn is_parameter(raw: &[u8], name: &str) -> bool {
    let end = raw.iter().position(|&octet| octet == b'=').unwrap_or(raw.len());
    Decoded(&raw[..end]).eq(name.bytes())
}

/// The octets that a text with percent escapes stands for.
pub(crate) fn decode(raw: &[u8]) -> Cow<'_, [u8]> {
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
        let mut octet = first;
        if let (b'%', &[high, low, ref after @ ..]) = (first, rest)
            && let Some(decoded) = decode_hex(high, low)
        {
            (octet, rest) = (decoded, after);
        }
        self.0 = rest;
        Some(octet)
    }
}

/// How `values` fail to be what is asked; one that is suffices.
fn unmet<'v>(asked: &ValueMatch, mut values: impl Iterator<Item = Cow<'v, [u8]>>) -> Option<Unmet> {
    let Some(first) = values.next() else {
        return (*asked != ValueMatch::Absent).then_some(Unmet::Missing);
    };
    if *asked == ValueMatch::Absent {
        return Some(Unmet::Present);
    }
    let is_met = std::iter::once(first).chain(values).any(|value| accepts(asked, &value));
    (!is_met).then_some(Unmet::Other)
}

fn accepts(asked: &ValueMatch, value: &[u8]) -> bool {
    match asked {
        ValueMatch::Present => true,
        ValueMatch::Absent => false,
        ValueMatch::Exact(text) => value == text.as_bytes(),
        ValueMatch::Prefix(text) => value.starts_with(text.as_bytes()),
        ValueMatch::Regex(pattern) => pattern.is_match(value),
    }
}

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Host => f.write_str("it is for other hosts"),
            Mismatch::Path => f.write_str("it is for other paths"),
            Mismatch::Method => f.write_str("it is for other methods"),
            Mismatch::Header(name, unmet) => write!(f, "the header field {name} {unmet}"),
            Mismatch::Certificate(part, unmet) => write!(f, "{} {unmet}", part.words()),
            Mismatch::Query(name, unmet) => write!(f, "the query parameter {name} {unmet}"),
        }
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unmet::Missing => "is missing",
            Unmet::Other => "has another value",
            Unmet::Present => "is present",
        })
    }
}
