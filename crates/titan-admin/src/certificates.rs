//! `/certificates`: those of listeners, and when they expire.

use crate::http::Response;
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};
use titan_http::Status;
use titan_proxy::CertificateStatus;

#[derive(Serialize)]
struct Listing<'c> {
    certificates: Vec<Shown<'c>>,
}

#[derive(Serialize)]
struct Shown<'c> {
    listener: &'c str,
    file: String,
    names: &'c [Box<str>],
    issuer: &'c str,
    /// Unix time.
    not_before: i64,
    not_after: i64,
    /// Whole ones; less than 0 where it has expired.
    days_left: i64,
    /// What there is to say of it; nothing where all is well.
    problem: Option<String>,
}

const DAY: i64 = 86_400;

/// Shows every certificate of every listener.
pub(crate) fn list(certificates: &[CertificateStatus]) -> Response {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let certificates = certificates.iter().map(|it| Shown::of(it, now)).collect();
    Response::json(Status::OK, &Listing { certificates })
}

impl Shown<'_> {
    fn of(CertificateStatus { listener, validity }: &CertificateStatus, now: i64) -> Shown<'_> {
        Shown {
            listener,
            file: validity.file.display().to_string(),
            names: &validity.names,
            issuer: &validity.issuer,
            not_before: validity.begins(),
            not_after: validity.expires(),
            days_left: validity.expires().saturating_sub(now).div_euclid(DAY),
            problem: validity.warning_now(),
        }
    }
}
