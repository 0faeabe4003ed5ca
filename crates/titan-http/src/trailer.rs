//! Which fields are allowed in a trailer section (RFC 9110 section 6.5.1).

use crate::field_name::{FieldName, FieldSet};

/// Whether a recipient may find that field behind a body. Not so those that frame the message, route it, say
/// who sends it, are its conditions, or tell how to treat and cache it: they are needed before the body.
pub fn may_be_trailer(id: FieldName, name: &[u8]) -> bool {
    !HEAD_ONLY.has(id) && !is_condition(name)
}

const HEAD_ONLY: FieldSet = FieldSet::of(&[
    FieldName::TransferEncoding,
    FieldName::ContentLength,
    FieldName::Host,
    FieldName::Connection,
    FieldName::KeepAlive,
    FieldName::ProxyConnection,
    FieldName::Trailer,
    FieldName::Te,
    FieldName::Upgrade,
    FieldName::Authorization,
    FieldName::ProxyAuthorization,
    FieldName::ProxyAuthenticate,
    FieldName::WwwAuthenticate,
    FieldName::Cookie,
    FieldName::SetCookie,
    FieldName::ContentEncoding,
    FieldName::ContentType,
    FieldName::ContentRange,
    FieldName::CacheControl,
    FieldName::Expect,
    FieldName::Range,
    FieldName::MaxForwards,
    FieldName::Pragma,
    FieldName::Age,
    FieldName::Date,
    FieldName::Location,
    FieldName::RetryAfter,
    FieldName::Vary,
    FieldName::Warning,
]);

/// `If-Match` and its kin.
fn is_condition(name: &[u8]) -> bool {
    name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"if-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_before_the_body_is_no_trailer() {
        let may = |name: &str| may_be_trailer(FieldName::of(name.as_bytes()), name.as_bytes());
        for name in ["Content-Length", "host", "Authorization", "If-Match", "if-range", "Vary"] {
            assert!(!may(name), "{name}");
        }
        for name in ["Grpc-Status", "Server-Timing", "X-Sum", "if", "Via"] {
            assert!(may(name), "{name}");
        }
    }
}
