//! Values of annotations: what Titan would not take is none, so that it does not hold back all else that an Ingress says.

use crate::objects::AuthService;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use titan_config::HostPattern;
use titan_config::bounds::{
    MAX_NETWORKS, MAX_PATH, MAX_POINTERS, MAX_REGEX, MAX_REGEX_PROGRAM, MAX_TOKEN, MAX_VALUE,
};

/// The longest time of anything, in seconds.
const MAX_SECONDS: u64 = 86_400;
/// The longest time that a cookie is kept, in seconds.
const MAX_AGE: u64 = 366 * 86_400;
/// The most of a share.
const MAX_WEIGHT: u32 = 1_000_000;
/// The largest body.
const MAX_BODY: u64 = 1 << 50;

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
    matches!(HostPattern::parse(text), Ok(HostPattern::Exact(host)) if !host.starts_with('['))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse().is_ok_and(|port: u16| port > 0)
}

/// A regular expression.
pub(super) fn pattern(text: &str) -> Result<String, &'static str> {
    let whole = format!("^(?:{text})$");
    let compiled = regex::bytes::RegexBuilder::new(&whole).size_limit(MAX_REGEX_PROGRAM).build();
    let is_pattern = whole.len() <= MAX_REGEX && compiled.is_ok();
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

/// Whether a switch of nginx or of Go is off.
pub(super) fn is_off(text: &str) -> bool {
    text.eq_ignore_ascii_case("off") || flag(text) == Ok(false)
}

/// Items with commas between them.
pub(super) fn list(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim);
    items.filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// Networks, each once. Bits behind the prefix count for nothing, as in nginx.
pub(super) fn networks(text: &str) -> Option<Value> {
    let networks = list(text).iter().map(|it| network(it)).collect::<Option<BTreeSet<_>>>()?;
    (1..=MAX_NETWORKS).contains(&networks.len()).then(|| json!(networks))
}

fn network(text: &str) -> Option<String> {
    let Some((address, length)) = text.split_once('/') else {
        return text.parse::<IpAddr>().ok().map(|it| it.to_string());
    };
    let is_plain = length.len() <= 3 && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: u32 = length.parse().ok().filter(|_| is_plain)?;
    let network = match address.parse().ok()? {
        IpAddr::V4(address) => {
            let behind = u32::BITS.checked_sub(length)?;
            let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::from(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let behind = u128::BITS.checked_sub(length)?;
            let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::from(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    };
    Some(format!("{network}/{length}"))
}

/// A redirect to a URL, or to a path, without variables of nginx or of Titan.
pub(super) fn redirect(to: &str, status: u16) -> Result<Value, &'static str> {
    let is_whole = ["/", "http://", "https://"].iter().any(|it| to.starts_with(it));
    match to {
        to if to.contains(['{', '}', '$']) => Err("it has variables"),
        to if !is_whole || to.len() > MAX_PATH || !to.bytes().all(|it| it.is_ascii_graphic()) => {
            Err("it is neither a URL nor a path")
        }
        to => Ok(json!({ "redirect": { "to": to, "status": status } })),
    }
}

/// Seconds, as nginx has them.
pub(super) fn seconds(text: &str) -> Result<Value, &'static str> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<u64>();
    let seconds = seconds.ok().filter(|it| (1..=MAX_SECONDS).contains(it));
    seconds.map(|it| format!("{it}s").into()).ok_or("it is no number of seconds")
}

/// How long a client keeps a cookie.
pub(super) fn age(text: &str) -> Result<Value, &'static str> {
    let seconds = text.parse::<u64>().ok().filter(|it| (1..=MAX_AGE).contains(it));
    seconds.map(|it| format!("{it}s").into()).ok_or("it is no number of seconds up to a year")
}

/// Whether a cookie goes with requests that another site caused. Browsers drop one for all that is not for TLS alone.
pub(super) fn same_site(text: &str, is_secure: bool) -> Result<&'static str, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "strict" => Ok("strict"),
        "lax" => Ok("lax"),
        "none" if is_secure => Ok("none"),
        "none" => Err("`None` needs `session-cookie-secure: \"true\"`"),
        _ => Err("it is none of Strict, Lax and None"),
    }
}

/// A size of nginx: `8m`; `0` is any.
pub(super) fn size(text: &str) -> Option<Value> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let (unit, bytes) = match text[digits..].to_ascii_lowercase().as_str() {
        "" => ("B", 1),
        "k" => ("KiB", 1 << 10),
        "m" => ("MiB", 1 << 20),
        "g" => ("GiB", 1 << 30),
        _ => return None,
    };
    number.checked_mul(bytes).filter(|it| *it <= MAX_BODY)?;
    Some(if number == 0 { "unlimited".into() } else { format!("{number}{unit}").into() })
}

/// The service of a URL, which decides about requests.
pub(super) fn auth_service(
    url: &str,
    all: &BTreeMap<&str, &str>,
) -> Result<AuthService, &'static str> {
    let bad = "it is no URL of a service, without variables";
    let (scheme, rest) = url.split_once("://").ok_or(bad)?;
    let (has_tls, usual) = match scheme {
        "http" => (false, "80"),
        "https" => (true, "443"),
        _ => return Err(bad),
    };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let (host, port) = split_port(authority, usual).ok_or(bad)?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let is_part = |byte: u8| byte.is_ascii_graphic() && !b"#$\"<>\\^`{|}".contains(&byte);
    if path.len() > MAX_PATH || !path.bytes().all(is_part) {
        return Err(bad);
    }
    let mut policy = json!({ "path": path });
    match all.get("auth-method") {
        None => {}
        Some(method) if matches!(*method, "GET" | "HEAD" | "POST") => {
            policy["method"] = (*method).into();
        }
        Some(_) => return Err("`auth-method` is none of GET, HEAD and POST"),
    }
    let told = list(all.get("auth-response-headers").copied().unwrap_or_default());
    if told.len() > MAX_POINTERS || !told.iter().all(|name| may_be_told(name)) {
        return Err("`auth-response-headers` names a header that no service may set");
    }
    if !told.is_empty() {
        policy["upstream_headers"] = json!(told);
    }
    Ok(AuthService { endpoint: format!("{host}:{port}"), has_tls, policy })
}

/// The host and the port of an authority without a user.
fn split_port<'a>(authority: &'a str, usual: &'a str) -> Option<(&'a str, &'a str)> {
    let end = authority.find(']').map_or(0, |at| at + 1);
    let at = authority[end..].find(':').map(|at| at + end);
    let (host, port) = at.map_or((authority, usual), |at| (&authority[..at], &authority[at + 1..]));
    let inside = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_host = match inside {
        Some(inside) => inside.parse::<Ipv6Addr>().is_ok_and(|it| !it.is_unspecified()),
        None => is_host_name(host) && host.parse() != Ok(Ipv4Addr::UNSPECIFIED),
    };
    (is_host && is_port(port)).then_some((host, port))
}

/// Whether a service may say what upstreams get in this field: not in those that the gateway writes itself.
fn may_be_told(name: &str) -> bool {
    let folded = name.to_ascii_lowercase().replace('_', "-");
    let is_own = ["x-forwarded-", "sec-websocket-"].iter().any(|it| folded.starts_with(it));
    token(name).is_ok() && !is_own && !OF_GATEWAY.contains(&folded.as_str())
}

/// Fields that the gateway writes.
const OF_GATEWAY: [&str; 20] = [
    "via",
    "x-request-id",
    "forwarded",
    "x-real-ip",
    "client-cert",
    "client-cert-chain",
    "host",
    "expect",
    "max-forwards",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

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

    #[test]
    fn networks_are_what_nginx_takes_for_them() {
        for (text, expected) in [
            ("10.0.0.1/8, 10.0.0.0/8", Some(json!(["10.0.0.0/8"]))),
            ("192.0.2.1", Some(json!(["192.0.2.1"]))),
            ("10.9.8.7/0", Some(json!(["0.0.0.0/0"]))),
            ("10.9.8.7/32", Some(json!(["10.9.8.7/32"]))),
            ("2001:db8::1/32", Some(json!(["2001:db8::/32"]))),
            ("::1/0", Some(json!(["::/0"]))),
            ("10.0.0.0/33", None),
            ("::/129", None),
            ("10.0.0.0/+8", None),
            ("10.0.0.0/8, office", None),
            ("", None),
        ] {
            assert_eq!(networks(text), expected, "{text}");
        }
    }

    #[test]
    fn a_service_is_named_by_a_url() {
        let endpoint = |url: &str| auth_service(url, &BTreeMap::new()).ok().map(|it| it.endpoint);
        for (url, expected) in [
            ("http://sso.auth", Some("sso.auth:80")),
            ("https://sso.auth?a=b", Some("sso.auth:443")),
            ("http://sso:4180/x", Some("sso:4180")),
            ("http://[::1]/x", Some("[::1]:80")),
            ("http://[::1]:81/x", Some("[::1]:81")),
            ("http://sso:70000/", None),
            ("http://sso:0/", None),
            ("http://sso:/", None),
            ("http://a b/", None),
            ("http://user@sso/", None),
            ("http://1.2.3/", None),
            ("http://0.0.0.0/", None),
            ("http://sso/a b", None),
            ("http://sso/$request_uri", None),
            ("ftp://sso/", None),
        ] {
            assert_eq!(endpoint(url).as_deref(), expected, "{url}");
        }
        for (name, value, is_taken) in [
            ("auth-method", "POST", true),
            ("auth-method", "PUT", false),
            ("auth-response-headers", "X-User, Authorization", true),
            ("auth-response-headers", "X User", false),
            ("auth-response-headers", "X_Forwarded_For", false),
        ] {
            let found = auth_service("http://sso/", &BTreeMap::from([(name, value)]));
            assert_eq!(found.is_ok(), is_taken, "{value}");
        }
    }
}
