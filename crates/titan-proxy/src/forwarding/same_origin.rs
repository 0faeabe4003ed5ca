//! Pages of the gateway's own origin (RFC 6454): those whose requests go to the scheme and authority that they came
//! from.

use super::element::value_of;
use super::{Forwarding, x_forwarded_for};
use crate::origin::Origin;
use titan_config::TrustedField;
use titan_http::{FieldName, Fields, RequestHead};

impl Forwarding {
    /// Whether a page asks what it comes from itself: the scheme and the authority of the request that has come from
    /// `origin`, or what a trusted proxy says they were.
    pub(crate) fn is_same_origin(
        &self,
        page: &[u8],
        origin: &Origin,
        request: &RequestHead,
    ) -> bool {
        let (scheme, authority) = self.told(origin, &request.fields);
        let scheme = scheme.unwrap_or(origin.scheme.as_str().as_bytes());
        let authority = authority.or(request.authority());
        authority.is_some_and(|authority| is_origin_of(page, scheme, authority))
    }

    /// How many trusted proxies the request has come through; none where the peer is not one.
    fn trusted_hops(&self, origin: &Origin, fields: &Fields) -> Option<usize> {
        let peer = origin.address.filter(|_| origin.is_trusted())?;
        let (_, hops) = self.behind(peer, x_forwarded_for(fields));
        // The peer is one, although it may not name its client.
        Some(hops.max(1))
    }

    /// The scheme and the authority that the client requested, as far as a trusted proxy says.
    fn told<'f>(
        &self,
        origin: &Origin,
        fields: &'f Fields,
    ) -> (Option<&'f [u8]>, Option<&'f [u8]>) {
        match self.trusted_field {
            TrustedField::XForwardedFor => {
                let Some(hops) = self.trusted_hops(origin, fields) else { return (None, None) };
                let told = |name| member_of_client(fields, name, hops);
                (told(FieldName::XForwardedProto), told(FieldName::XForwardedHost))
            }
            TrustedField::Forwarded => {
                let element = self.element_of_client(origin, fields);
                let told = |name| element.and_then(|element| value_of(element, name));
                (told(b"proto="), told(b"host="))
            }
        }
    }
}

/// The member of a list that the proxy has written which the client is connected to, where each of `hops` trusted proxies
/// has added one. Proxies that put theirs in place of the list, or leave what is there, make it shorter: then it is the
/// first. What stands before it is the client's invention.
fn member_of_client(fields: &Fields, name: FieldName, hops: usize) -> Option<&[u8]> {
    let count = fields.members(name).count();
    fields.members(name).nth(count.saturating_sub(hops))
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
