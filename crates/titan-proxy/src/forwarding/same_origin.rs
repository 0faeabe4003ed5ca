//! Pages of the gateway's own origin (RFC 6454): those that ask the very scheme and authority that they come from.

use super::Origin;
use titan_http::{FieldName, RequestHead};

impl Origin {
    /// Whether a page of that origin asks what it comes from itself: the scheme and the authority of the request, or
    /// what a trusted proxy says they were.
    pub(crate) fn is_same(&self, page: &[u8], request: &RequestHead) -> bool {
        let told = |name| request.fields.members(name).next().filter(|_| self.is_trusted);
        let scheme = told(FieldName::XForwardedProto).unwrap_or(self.scheme.as_str().as_bytes());
        let authority = told(FieldName::XForwardedHost).or(request.authority());
        authority.is_some_and(|authority| is_origin_of(page, scheme, authority))
    }
}

/// Whether an origin as browsers write it, without the usual port, is that of the scheme and the authority.
fn is_origin_of(page: &[u8], scheme: &[u8], authority: &[u8]) -> bool {
    let usual: &[u8] = if scheme.eq_ignore_ascii_case(b"https") { b":443" } else { b":80" };
    let authority = authority.strip_suffix(usual).unwrap_or(authority);
    let page = page.split_at_checked(scheme.len());
    page.filter(|(start, _)| start.eq_ignore_ascii_case(scheme))
        .and_then(|(_, rest)| rest.strip_prefix(b"://"))
        .is_some_and(|host| host.eq_ignore_ascii_case(authority))
}
