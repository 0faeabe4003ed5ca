//! What a route requires of a request beside host and path: method, headers, query parameters, listener.

use super::Request;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use titan_config::{CertificateMatch, CertificatePart, HeaderMatch, ListenerSet, QueryMatch};
use titan_http::{FieldName, Fields, Method, query};
use titan_policies::values::{Unmet, certificate_mismatch, unmet};

/// The conditions of one route.
pub(super) struct Conditions {
    /// Empty for any.
    methods: Box<[Method]>,
    /// Whether GET takes HEAD too.
    head: bool,
    headers: Box<[Header]>,
    query: Box<[QueryMatch]>,
    certificate: Box<[CertificateMatch]>,
    listeners: ListenerSet,
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
    /// It came in at a listener that the route is not for.
    Listener,
}

struct Header {
    /// Compared instead of the name where the name is a known one.
    id: FieldName,
    condition: HeaderMatch,
}

impl Conditions {
    pub(super) fn new(
        (methods, head): (&[Method], bool),
        headers: &[HeaderMatch],
        query: &[QueryMatch],
        certificate: &[CertificateMatch],
        listeners: ListenerSet,
    ) -> Conditions {
        let header = |condition: &HeaderMatch| Header {
            id: FieldName::of(condition.name.as_str().as_bytes()),
            condition: condition.clone(),
        };
        Conditions {
            methods: methods.into(),
            head,
            headers: headers.iter().map(header).collect(),
            query: query.into(),
            certificate: certificate.into(),
            listeners,
        }
    }

    /// Whether every request meets them.
    pub(super) fn is_empty(&self) -> bool {
        let Conditions { methods, head: _, headers, query, certificate, listeners } = self;
        let lists =
            [methods.is_empty(), headers.is_empty(), query.is_empty(), certificate.is_empty()];
        lists == [true; 4] && listeners.is_all()
    }

    /// The place among routes with the same host, path and priority; the lowest is tried first.
    pub(super) fn order(&self) -> impl Ord + use<> {
        let listeners = usize::from(!self.listeners.is_all());
        let count = self.headers.len() + self.query.len() + self.certificate.len() + listeners;
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
        if !self.listeners.serves(request.listener) {
            return Some(Mismatch::Listener);
        }
        for header in &self.headers {
            let HeaderMatch { name, value } = &header.condition;
            if let Some(unmet) = unmet(value, header.values(request.fields)) {
                return Some(Mismatch::Header(name.as_str(), unmet));
            }
        }
        for QueryMatch { name, value } in &self.query {
            if let Some(unmet) = unmet(value, query::values(request.query, name)) {
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
        let with_get = || self.head && method == Method::HEAD && lists(Method::GET);
        self.methods.is_empty() || lists(method) || with_get()
    }
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

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Host => f.write_str("the host does not match"),
            Mismatch::Path => f.write_str("the path does not match"),
            Mismatch::Listener => f.write_str("the listener does not match"),
            Mismatch::Method => f.write_str("the method does not match"),
            Mismatch::Header(name, unmet) => write!(f, "the header {name} {unmet}"),
            Mismatch::Certificate(part, unmet) => write!(f, "{} {unmet}", part.words()),
            Mismatch::Query(name, unmet) => write!(f, "the query parameter {name} {unmet}"),
        }
    }
}
