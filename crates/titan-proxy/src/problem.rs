//! The body of the gateway's own errors: a problem document (RFC 9457).

use std::io::Write;
use titan_http::Status;
use titan_io::error::Error;
use titan_policies::findings::Findings;

/// Its media type.
pub(crate) const CONTENT_TYPE: &[u8] = b"application/problem+json";

/// Writes the document for `error` behind what `out` holds. It goes out with `status`, which need not be that of the
/// error (RFC 9457 section 3.1.2). `request_id` ties it to the logs.
pub(crate) fn write(
    out: &mut Vec<u8>,
    error: Error,
    status: Status,
    request_id: Option<&[u8]>,
    findings: &Findings,
) {
    let code = error.kind.code();
    out.extend_from_slice(b"{\"type\":\"urn:titan:problem:");
    out.extend_from_slice(code.as_bytes());
    out.extend_from_slice(b"\",\"title\":");
    let title = match status.reason() {
        // No registered status.
        "" => error.status().reason(),
        reason => reason,
    };
    write_string(out, title.as_bytes());
    let _ = write!(out, ",\"status\":{status},\"detail\":");
    match &findings.detail {
        Some(detail) => write_units(out, detail.encode_utf16()),
        None => write_string(out, error.to_string().as_bytes()),
    }
    for (index, lack) in findings.missing.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b",\"missing\":[" } else { b"," });
        write_units(out, lack.encode_utf16());
    }
    if !findings.missing.is_empty() {
        out.push(b']');
    }
    if let Some(id) = request_id {
        out.extend_from_slice(b",\"request_id\":");
        write_string(out, id);
    }
    out.extend_from_slice(b"}\n");
}

/// Writes a JSON string. Bytes outside ASCII are written as the code points of the same number.
fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    write_units(out, text.iter().copied().map(u16::from));
}

/// Writes a JSON string of these units of UTF-16.
fn write_units(out: &mut Vec<u8>, units: impl Iterator<Item = u16>) {
    out.push(b'"');
    for unit in units {
        match u8::try_from(unit) {
            Ok(byte @ (b'"' | b'\\')) => out.extend_from_slice(&[b'\\', byte]),
            Ok(byte @ 0x20..=0x7e) => out.push(byte),
            _ => {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_io::error::Kind;

    #[test]
    fn the_document_names_the_problem_and_the_request() {
        let mut out = Vec::new();
        let error = Kind::ConnectTimeout.into();
        let missing = vec!["c".into(), "d\u{e9}".into()];
        let findings = Findings { missing, ..Findings::default() };
        write(&mut out, error, Status::GATEWAY_TIMEOUT, Some(b"a\"b\x80"), &findings);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"type\":\"urn:titan:problem:connect-timeout\",\"title\":\"Gateway Timeout\",\
             \"status\":504,\"detail\":\"The upstream did not accept the connection in time.\",\
             \"missing\":[\"c\",\"d\\u00e9\"],\"request_id\":\"a\\\"b\\u0080\"}\n"
        );
    }
    #[test]
    fn a_policy_may_say_why_in_words_of_its_own() {
        let mut out = Vec::new();
        let findings =
            Findings { detail: Some("Back \u{e0} 12:00 \"UTC\".".into()), ..Findings::default() };
        write(&mut out, Kind::Internal.into(), Status::SERVICE_UNAVAILABLE, None, &findings);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"type\":\"urn:titan:problem:internal\",\"title\":\"Service Unavailable\",\
             \"status\":503,\"detail\":\"Back \\u00e0 12:00 \\\"UTC\\\".\"}\n"
        );
    }
}
