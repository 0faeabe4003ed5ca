//! Removal of hop-by-hop fields (RFC 9110 section 7.6.1), in one place for all versions and directions.

use crate::field_name::{FieldName, FieldSet};
use crate::fields::Fields;

/// How many further fields a `Connection` list may name. More is an attack, not a peer.
const MAX_NAMED: usize = 32;

/// Removes the fields that are meant for this connection only: the standard ones, and those that the
/// `Connection` field names. Returns `false`, with the fields unchanged, when the list is too long to
/// be honest.
///
/// A list may not remove what says where the message ends or where it goes: those fields are the gateway's own business
/// on either side.
pub fn remove_hop_by_hop(fields: &mut Fields) -> bool {
    if !fields.names().meets(HOP_BY_HOP) {
        return true;
    }
    if fields.all(FieldName::Connection).all(names_no_field) {
        fields.retain(|field| !HOP_BY_HOP.has(field.id));
        return true;
    }
    let named: Vec<Vec<u8>> = fields
        .members(FieldName::Connection)
        .filter(|member| !member.is_empty() && !HOP_BY_HOP.has(FieldName::of(member)))
        .filter(|member| !names_no_field(member))
        .take(MAX_NAMED + 1)
        .map(<[u8]>::to_vec)
        .collect();
    if named.len() > MAX_NAMED {
        return false;
    }
    fields.retain(|field| {
        let listed = named.iter().any(|name| name.eq_ignore_ascii_case(field.name));
        !HOP_BY_HOP.has(field.id) && (!listed || is_essential(field.id))
    });
    true
}

/// Fields that never travel further. `Transfer-Encoding` is written anew by the encoder.
const HOP_BY_HOP: FieldSet = FieldSet::of(&[
    FieldName::Connection,
    FieldName::KeepAlive,
    FieldName::ProxyConnection,
    FieldName::Te,
    FieldName::TransferEncoding,
    FieldName::Upgrade,
    FieldName::ProxyAuthenticate,
    FieldName::ProxyAuthorization,
]);

fn is_essential(name: FieldName) -> bool {
    matches!(name, FieldName::Host | FieldName::ContentLength)
}

/// The two options that make up most lists: they name no field that has to be looked for.
fn names_no_field(option: &[u8]) -> bool {
    option.eq_ignore_ascii_case(b"keep-alive") || option.eq_ignore_ascii_case(b"close")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_removal(lines: &[(&str, &str)]) -> Vec<String> {
        let mut fields = Fields::default();
        for (name, value) in lines {
            fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        assert!(remove_hop_by_hop(&mut fields));
        fields.iter().map(|field| String::from_utf8(field.name.to_vec()).unwrap()).collect()
    }

    #[test]
    fn what_the_list_names_goes_too() {
        let left = after_removal(&[
            ("Host", "a"),
            ("Connection", "close, X-Secret"),
            ("x-secret", "1"),
            ("connection", "keep-alive"),
            ("Keep-Alive", "5"),
            ("TE", "trailers"),
            ("X-Other", "2"),
        ]);
        assert_eq!(left, ["Host", "X-Other"]);
    }

    #[test]
    fn the_list_cannot_remove_framing_or_host() {
        let left = after_removal(&[
            ("Host", "a"),
            ("Content-Length", "3"),
            ("Connection", "host, content-length"),
        ]);
        assert_eq!(left, ["Host", "Content-Length"]);
    }

    #[test]
    fn a_list_beyond_the_bound_is_refused() {
        let list = |members: usize| vec!["x"; members].join(",");
        let mut fields = Fields::default();
        fields.set(FieldName::Connection, list(MAX_NAMED).as_bytes()).unwrap();
        assert!(remove_hop_by_hop(&mut fields.clone()));
        fields.set(FieldName::Connection, list(MAX_NAMED + 1).as_bytes()).unwrap();
        assert!(!remove_hop_by_hop(&mut fields));
    }
}
