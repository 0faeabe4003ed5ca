//! What RFC 9110 requires of responses, by status.

use titan_http::Status;

/// The field that a response of that status must have, where RFC 9110 says that, and an example of it, where the
/// configuration can give it.
pub(crate) fn needed_field(
    status: Status,
) -> Option<(&'static str, &'static str, Option<&'static str>)> {
    match status.code() {
        206 => Some(("Content-Range", "15.3.7", Some("bytes 0-4/10"))),
        401 => Some(("WWW-Authenticate", "15.5.2", Some("Basic realm=\"staff\""))),
        405 => Some(("Allow", "15.5.6", Some("GET, HEAD"))),
        407 => Some(("Proxy-Authenticate", "15.5.8", Some("Basic realm=\"staff\""))),
        426 => Some(("Upgrade", "15.5.22", None)),
        _ => None,
    }
}
