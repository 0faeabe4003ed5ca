//! Values of annotations: what Titan would not take is none, so that it does not hold back all else that an Ingress says.

use crate::objects::AuthService;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The longest time of anything, in seconds.
const MAX_SECONDS: u64 = 86_400;
/// The most of a share.
const MAX_WEIGHT: u32 = 1_000_000;
/// The longest name.
const MAX_TOKEN: usize = 128;
/// The most memory of a regular expression.
const MAX_PROGRAM: usize = 256 << 10;
/// The longest value of a field, or regular expression.
const MAX_VALUE: usize = 1_024;

/// A share of requests.
pub(super) fn weight(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|it| *it <= MAX_WEIGHT).ok_or("it is no number up to 1000000")
}

/// The name of a field or a cookie (RFC 9110 section 5.6.2).
pub(super) fn token(text: &str) -> Result<String, &'static str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_token = (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(is_part);
    if is_token { Ok(text.to_owned()) } else { Err("it is no name") }
}

/// The value of a field.
pub(super) fn field_value(text: &str) -> Result<String, &'static str> {
    let is_part = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let is_value = (1..=MAX_VALUE).contains(&text.len()) && text.bytes().all(is_part);
    if is_value { Ok(text.to_owned()) } else { Err("it is no value of a header") }
}

/// An origin, as browsers send it, or one with `*.` in front of its domain; `*` is any.
pub(super) fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return text == "*" };
    let (name, port) = host.split_once(':').unwrap_or((host, "1"));
    let is_usual = matches!((scheme, port), ("http", "80") | ("https", "443"));
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_lower = !host.bytes().any(|byte| byte.is_ascii_uppercase());
    is_scheme && is_lower && is_host(name) && is_port(port) && !is_usual
}

/// A method that pages may use; `*` is any.
pub(super) fn is_method(text: &str) -> bool {
    let known = ["*", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.contains(&text)
}

/// A host, or all below a domain.
pub(super) fn is_host(text: &str) -> bool {
    is_host_name(text.strip_prefix("*.").unwrap_or(text))
}

fn is_host_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(is_part)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or(text);
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= 253
        && text.split('.').all(is_label)
        && (!is_number || text.parse::<Ipv4Addr>().is_ok())
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse().is_ok_and(|port: u16| port > 0)
}

/// A regular expression.
pub(super) fn pattern(text: &str) -> Result<String, &'static str> {
    let whole = format!("^(?:{text})$");
    let compiled = regex::bytes::RegexBuilder::new(&whole).size_limit(MAX_PROGRAM).build();
    let is_pattern = whole.len() <= MAX_VALUE && compiled.is_ok();
    if is_pattern { Ok(text.to_owned()) } else { Err("it is no regular expression") }
}

/// A switch, as Go reads it (`strconv.ParseBool`).
pub(super) fn flag(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it is neither `true` nor `false`"),
    }
}

/// Items with commas between them.
pub(super) fn list(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim);
    items.filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

pub(super) fn networks(text: &str) -> Option<Value> {
    let is_network = |it: &String| {
        let (address, length) = it.split_once('/').unwrap_or((it, "0"));
        address.parse::<std::net::IpAddr>().is_ok() && length.parse::<u8>().is_ok()
    };
    let networks = list(text);
    (!networks.is_empty() && networks.iter().all(is_network)).then(|| json!(networks))
}

/// A redirect to a URL, or to a path, without variables of nginx or of Titan.
pub(super) fn redirect(to: &str, status: u16) -> Result<Value, &'static str> {
    match to.contains(['{', '}', '$']) {
        true => Err("it has variables"),
        false => Ok(json!({ "redirect": { "to": to, "status": status } })),
    }
}

/// Seconds, as nginx has them.
pub(super) fn seconds(text: &str) -> Result<Value, &'static str> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<u64>();
    let seconds = seconds.ok().filter(|it| (1..=MAX_SECONDS).contains(it));
    seconds.map(|it| format!("{it}s").into()).ok_or("it is no number of seconds")
}

/// A size of nginx: `8m`; `0` is any.
pub(super) fn size(text: &str) -> Option<Value> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        _ => return None,
    };
    Some(if number == 0 { "unlimited".into() } else { format!("{number}{unit}").into() })
}

/// The service of a URL, which decides about requests.
pub(super) fn auth_service(url: &str, all: &BTreeMap<&str, &str>) -> Option<AuthService> {
    let (scheme, rest) = url.split_once("://")?;
    let has_tls = match scheme {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    // A variable of nginx, or a user.
    if authority.is_empty() || authority.contains(['$', '@']) || path.contains('$') {
        return None;
    }
    let usual = if has_tls { 443 } else { 80 };
    let endpoint = match authority.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
        _ => format!("{authority}:{usual}"),
    };
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut policy = json!({ "path": path });
    if let Some(method) = all.get("auth-method") {
        policy["method"] = (*method).into();
    }
    let told = list(all.get("auth-response-headers").copied().unwrap_or_default());
    if !told.is_empty() {
        policy["upstream_headers"] = json!(told);
    }
    Some(AuthService { endpoint, has_tls, policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("true", Ok(true)),
            ("True", Ok(true)),
            ("T", Ok(true)),
            ("1", Ok(true)),
            ("FALSE", Ok(false)),
            ("f", Ok(false)),
            ("0", Ok(false)),
            ("yes", Err(())),
            ("tRUE", Err(())),
        ] {
            assert_eq!(flag(text).map_err(drop), expected, "{text}");
        }
    }
}
