//! The cookies that a client has sent.

use crate::field_name::FieldName;
use crate::fields::Fields;

/// The value of the first cookie with that name (RFC 6265 section 4.2.1).
pub fn first<'a>(fields: &'a Fields, name: &str) -> Option<&'a [u8]> {
    values(fields, name).next()
}

/// The values of all cookies with that name.
pub fn values<'a>(fields: &'a Fields, name: &str) -> impl Iterator<Item = &'a [u8]> {
    let pairs = fields.all(FieldName::Cookie).flat_map(|line| line.split(|&byte| byte == b';'));
    pairs.map(<[u8]>::trim_ascii).filter_map(move |pair| {
        pair.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    })
}
