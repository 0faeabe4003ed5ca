//! Conditions of a route on headers, query parameters and client certificates.

use crate::bounds::{MAX_CONDITIONS, MAX_TOKEN, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::node::{Kind, Node};
use crate::problem::Problem;
use crate::read::{Read, Reading, optional};
use crate::readers::{Named, boolean, message_mapping, text, words_or};
use crate::section::{section, section_of};
use crate::shape::{Shape, TextShape};
use crate::token::{HEADER_NAME, HeaderName, Pattern, parse_header_name, pattern};
use std::net::IpAddr;

/// A condition on a header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatch {
    /// The field.
    pub name: HeaderName,
    /// What its value must be.
    pub value: ValueMatch,
}

/// A condition on a query parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryMatch {
    /// The parameter, decoded; case counts.
    pub name: String,
    /// What its value must be.
    pub value: ValueMatch,
}

/// A condition on the certificate that a client has presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateMatch {
    /// Which part of it.
    pub part: CertificatePart,
    /// What that must be.
    pub value: ValueMatch,
}

/// What a certificate says of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificatePart {
    /// That there is one at all. Only ever [`ValueMatch::Present`] or [`ValueMatch::Absent`].
    Any,
    /// Its subject, as RFC 2253 writes it.
    Subject,
    /// Its alternative names that are DNS names, in lower case.
    Dns,
    /// Those that are URIs.
    Uri,
    /// Those that are mail addresses.
    Email,
    /// Those that are IP addresses.
    Ip,
    /// The SHA-256 of the whole, 64 digits in lower case.
    Fingerprint,
}

/// What a value must be. Of several values with the same name one is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueMatch {
    /// There is a value, whatever it is.
    Present,
    /// There is none.
    Absent,
    /// Exactly that.
    Exact(String),
    /// It starts so.
    Prefix(String),
    /// The expression matches it.
    Regex(Pattern),
}

section! {
    "condition", "a condition", One;
    /// What a header field or a query parameter must be. A plain string is the exact value; the keys below allow more.
    /// If there are several fields with the same name, one match is enough. Case matters.
    pub(crate) struct ConditionFields {
        /// `true`: it must be there, with any value; `false`: it must not be there.
        pub(crate) present: Option<bool> = optional("", boolean()),
        /// Its value starts with this string.
        pub(crate) prefix: Option<String> = optional("", value_text()),
        /// The expression (syntax of the Rust `regex` crate) matches its value, anywhere unless `^` and `$` anchor it.
        /// Takes time linear in the length of the value, whatever the expression.
        pub(crate) regex: Option<Pattern> = optional("", pattern()),
    }
}

/// Conditions on header fields.
pub(crate) fn header_matches() -> impl Read<Value = Vec<HeaderMatch>> {
    let conditions =
        message_mapping(HEADER_NAME, parse_header_name, value_match(), 0..=MAX_CONDITIONS);
    let conditions = conditions.then(|named, _, to| {
        refuse_same_name(&named, to);
        Some(named)
    });
    conditions.map(|named| {
        let condition = |Named { key, value, .. }| HeaderMatch { name: key, value };
        named.into_iter().map(condition).collect()
    })
}

/// Reports names that differ in case alone: they are the same field.
pub(crate) fn refuse_same_name<T>(named: &[Named<HeaderName, T>], to: &mut Reading<'_>) {
    for (index, Named { key, key_span, .. }) in named.iter().enumerate() {
        if let Some(first) = named[..index].iter().find(|it| it.key == *key) {
            let message = format!("the header `{}` appears twice", key.as_str());
            let error =
                Diagnostic::error(*key_span, message).label("header names are not case-sensitive");
            to.add(error.also(first.key_span, "first here"));
        }
    }
}

/// Conditions on query parameters.
pub(crate) fn query_matches() -> impl Read<Value = Vec<QueryMatch>> {
    let shape = TextShape {
        what: "the name of a parameter",
        examples: "`v`",
        pattern: None,
        max: MAX_TOKEN,
    };
    let parse = |name: &str| match name.is_empty() {
        true => Err(Problem::new("the name is empty")),
        false => Ok(name.to_owned()),
    };
    message_mapping(shape, parse, value_match(), 0..=MAX_CONDITIONS).map(|named| {
        let condition = |Named { key, value, .. }| QueryMatch { name: key, value };
        named.into_iter().map(condition).collect()
    })
}

fn value_text() -> impl Read<Value = String> {
    let shape = TextShape { what: "a value", examples: "`beta`", pattern: None, max: MAX_VALUE };
    text(shape, |text| Ok(text.to_owned()))
}

fn value_match() -> impl Read<Value = ValueMatch> {
    ValueMatchReader
}

struct ValueMatchReader;

impl Read for ValueMatchReader {
    type Value = ValueMatch;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<ValueMatch> {
        match node.kind {
            Kind::Text(_) => value_text().read(node, to).map(ValueMatch::Exact),
            Kind::Map(_) => section_of::<ConditionFields>().read(node, to).map(choose),
            Kind::Null | Kind::List(_) => to.mismatch(node, self),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Either(vec![value_text().shape(), section_of::<ConditionFields>().shape()])
    }
}

fn choose(fields: ConditionFields) -> ValueMatch {
    match fields {
        ConditionFields { regex: Some(pattern), .. } => ValueMatch::Regex(pattern),
        ConditionFields { prefix: Some(prefix), .. } => ValueMatch::Prefix(prefix),
        ConditionFields { present: Some(false), .. } => ValueMatch::Absent,
        ConditionFields { present: _, .. } => ValueMatch::Present,
    }
}

impl CertificatePart {
    /// What it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            CertificatePart::Any => "the client's certificate",
            CertificatePart::Subject => "the subject of the client's certificate",
            CertificatePart::Dns => "a DNS name in the client's certificate",
            CertificatePart::Uri => "a URI in the client's certificate",
            CertificatePart::Email => "a mail address in the client's certificate",
            CertificatePart::Ip => "an IP address in the client's certificate",
            CertificatePart::Fingerprint => "the fingerprint of the client's certificate",
        }
    }
}

section! {
    "certificate_condition", "a client certificate condition", Any;
    /// What the client's verified certificate must be. All that are given must hold; if there are several names of a
    /// kind, one match is enough. A client that presented no certificate does not match.
    pub(crate) struct CertificateFields {
        /// Its subject in the form of RFC 2253, the most specific part first: `CN=billing,O=Example`.
        pub(crate) subject: Option<ValueMatch> = optional("any", value_match()),
        /// A DNS name among its subject alternative names, in lower case.
        pub(crate) dns: Option<ValueMatch> = optional("any", value_match().then(lower_case)),
        /// A URI among its subject alternative names: `spiffe://example.org/billing`.
        pub(crate) uri: Option<ValueMatch> = optional("any", value_match()),
        /// An email address among its subject alternative names.
        pub(crate) email: Option<ValueMatch> = optional("any", value_match()),
        /// An IP address among its subject alternative names.
        pub(crate) ip: Option<ValueMatch> = optional("any", value_match().then(address)),
        /// The SHA-256 of the certificate: 64 hexadecimal digits, with or without colons.
        pub(crate) fingerprint: Option<ValueMatch> = optional("any", value_match().then(digits)),
    }
}

/// Conditions on the certificate that a client has presented.
pub(crate) fn certificate_matches() -> impl Read<Value = Vec<CertificateMatch>> {
    let only = |value| vec![CertificateMatch { part: CertificatePart::Any, value }];
    let words = [("present", only(ValueMatch::Present)), ("absent", only(ValueMatch::Absent))];
    words_or(&words, section_of::<CertificateFields>().then(certificate_parts))
}

fn certificate_parts(
    fields: CertificateFields,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<Vec<CertificateMatch>> {
    let CertificateFields { subject, dns, uri, email, ip, fingerprint } = fields;
    let parts = [
        (CertificatePart::Subject, subject),
        (CertificatePart::Dns, dns),
        (CertificatePart::Uri, uri),
        (CertificatePart::Email, email),
        (CertificatePart::Ip, ip),
        (CertificatePart::Fingerprint, fingerprint),
    ];
    let given = parts.into_iter().filter_map(|(part, value)| Some((part, value?)));
    let any = (CertificatePart::Any, ValueMatch::Present);
    let all = std::iter::once(any).chain(given);
    let all: Vec<_> = all.map(|(part, value)| CertificateMatch { part, value }).collect();
    if all.len() == 1 {
        let error = Diagnostic::error(node.span, "this condition requires nothing");
        return to
            .fail(error.help("`client_certificate: present` accepts any verified certificate"));
    }
    Some(all)
}

/// Names of hosts have no case.
fn lower_case(value: ValueMatch, _: &Node, _: &mut Reading<'_>) -> Option<ValueMatch> {
    Some(match value {
        ValueMatch::Exact(text) => ValueMatch::Exact(text.to_ascii_lowercase()),
        ValueMatch::Prefix(text) => ValueMatch::Prefix(text.to_ascii_lowercase()),
        other => other,
    })
}

/// An address in the form that those of certificates are compared in.
fn address(value: ValueMatch, node: &Node, to: &mut Reading<'_>) -> Option<ValueMatch> {
    let ValueMatch::Exact(text) = value else { return Some(value) };
    match text.parse::<IpAddr>() {
        Ok(address) => Some(ValueMatch::Exact(address.to_string())),
        Err(_) => {
            let error = Diagnostic::error(node.span, "this is not an IP address");
            to.fail(error.help("write it without port and brackets: `10.0.0.1` or `fd00::1`"))
        }
    }
}

/// A fingerprint in the form that those of certificates are compared in.
fn digits(value: ValueMatch, node: &Node, to: &mut Reading<'_>) -> Option<ValueMatch> {
    let ValueMatch::Exact(text) = value else { return lower_case(value, node, to) };
    let digits: String = text.chars().filter(|&it| it != ':').collect();
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(ValueMatch::Exact(digits.to_ascii_lowercase()));
    }
    let error = Diagnostic::error(node.span, "this is not a SHA-256 fingerprint in hexadecimal");
    let count =
        format!("it has {} characters, not counting colons, instead of 64", digits.chars().count());
    let error = if digits.len() == 64 { error } else { error.label(count) };
    to.fail(error.help("`openssl x509 -in FILE -noout -fingerprint -sha256` prints it"))
}
