//! Changes to a query, parameter by parameter.

use super::Edits;
use super::value::{BuiltValues, Value};
use titan_http::path::escape;
use titan_http::path::is_unreserved;
use titan_http::query::is_parameter;

/// The query with the changes. What is not changed stays as the client wrote it.
pub(super) fn change(query: Option<&[u8]>, edits: &Edits<String>, made: &BuiltValues) -> Vec<u8> {
    let Edits { remove, rename, set, append, set_if_absent } = edits;
    let query = query.unwrap_or_default();
    let pairs = || {
        let pairs = query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
        pairs.filter(|pair| !remove.iter().any(|name| is_parameter(pair, name)))
    };
    // Of these there is something that gets another name.
    let renamed = rename.iter().filter(|(from, _)| pairs().any(|pair| is_parameter(pair, from)));
    let renamed: Vec<_> = renamed.collect();
    let is_set = |name: &[u8]| set.iter().any(|(it, _)| is_parameter(name, it));
    let mut out = Vec::with_capacity(query.len());
    for pair in pairs() {
        match renamed.iter().find(|(from, _)| is_parameter(pair, from)) {
            Some((_, to)) if set.iter().any(|(name, _)| name == to) => {}
            Some((_, to)) => {
                begin(&mut out, to);
                let end = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
                out.extend_from_slice(&pair[end..]);
            }
            None if is_set(pair) || renamed.iter().any(|(_, to)| is_parameter(pair, to)) => {}
            None => {
                separate(&mut out);
                out.extend_from_slice(pair);
            }
        }
    }
    set.iter().chain(append).for_each(|(name, value)| add(&mut out, name, value, made));
    for (name, value) in set_if_absent {
        if !out.split(|&byte| byte == b'&').any(|pair| is_parameter(pair, name)) {
            add(&mut out, name, value, made);
        }
    }
    out
}

fn add(out: &mut Vec<u8>, name: &str, value: &Value, made: &BuiltValues) {
    let value = value.of(Some(made)).unwrap_or_default();
    if !value.is_empty() {
        begin(out, name);
        out.push(b'=');
        out.extend_from_slice(value);
    }
}

fn begin(out: &mut Vec<u8>, name: &str) {
    separate(out);
    escape(name.as_bytes(), is_unreserved, out);
}

fn separate(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b'&');
    }
}
