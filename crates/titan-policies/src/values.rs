//! Conditions on values: of fields, of parameters, of a client's certificate.

use std::borrow::Cow;
use std::fmt;
use titan_config::{CertificateMatch, CertificatePart, ValueMatch};
use titan_io::tls::Identity;

/// How a condition on a value does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// There is no value.
    Missing,
    /// No value is the required one.
    Other,
    /// There is a value where none may be.
    Present,
}

/// The first condition that the certificate of a client does not meet.
pub fn certificate_mismatch(
    conditions: &[CertificateMatch],
    identity: Option<&Identity>,
) -> Option<(CertificatePart, Unmet)> {
    conditions.iter().find_map(|CertificateMatch { part, value }| {
        let values = identity.into_iter().flat_map(|identity| identity.values(*part));
        let unmet = unmet(value, values.map(|text| Cow::Borrowed(text.as_bytes())))?;
        Some((*part, unmet))
    })
}

/// How `values` fail to be what is asked; one that is suffices.
pub fn unmet<'v>(
    asked: &ValueMatch,
    mut values: impl Iterator<Item = Cow<'v, [u8]>>,
) -> Option<Unmet> {
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

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unmet::Missing => "is missing",
            Unmet::Other => "has another value",
            Unmet::Present => "is present",
        })
    }
}
