//! Hosts: host names, and the patterns by which routes match them.

use crate::bounds::{MAX_ADDRESS, MAX_HOST};
use crate::diagnostic::Diagnostic;
use crate::habits;
use crate::host_name::parse_host_name;
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::{Shape, TextShape};
use crate::token::{HeaderValue, parse_header_value};
use std::cmp::Ordering;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use titan_http::Authority;

/// The hosts that a route serves, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// That host alone: a name, an IPv4 address, or an IPv6 address in brackets.
    Exact(String),
    /// Every host that ends so, with at least one label before it; starts with a dot.
    Under(String),
}

impl HostPattern {
    /// Reads `api.example.com` or `*.example.com`, at most [`MAX_HOST`] bytes, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<HostPattern, String> {
        if text.len() > MAX_HOST {
            return Err(format!("a host has at most {MAX_HOST} bytes"));
        }
        parse_pattern(text).map_err(|problem| problem.reason)
    }

    /// Whether clients can ask for it in TLS: there are no names for addresses (RFC 6066 section 3).
    pub fn is_server_name(&self) -> bool {
        match self {
            HostPattern::Exact(host) => !host.starts_with('[') && host.parse::<Ipv4Addr>().is_err(),
            HostPattern::Under(_) => true,
        }
    }

    /// Orders by precedence: exact before wildcard, a longer wildcard before a shorter one. Any host comes last.
    pub fn precedence(&self, other: &HostPattern) -> Ordering {
        match (self, other) {
            (HostPattern::Exact(_), HostPattern::Exact(_)) => Ordering::Equal,
            (HostPattern::Exact(_), HostPattern::Under(_)) => Ordering::Less,
            (HostPattern::Under(_), HostPattern::Exact(_)) => Ordering::Greater,
            (HostPattern::Under(ours), HostPattern::Under(theirs)) => theirs.len().cmp(&ours.len()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(host) => f.write_str(host),
            HostPattern::Under(suffix) => write!(f, "*{suffix}"),
        }
    }
}

pub(crate) fn host_pattern() -> impl Read<Value = HostPattern> {
    let shape = TextShape {
        what: "a host",
        examples: "`api.example.com` or `\"*.example.com\"`",
        pattern: Some("^(\\*\\.)?[^*/@?#\\s]+$"),
        max: MAX_HOST,
    };
    text(shape, parse_pattern).shaped(Shape::Caseless)
}

/// A name that a client can ask for in TLS. What is read is of no use with an address, which `else_` says.
pub(crate) fn server_name(else_: &'static str) -> impl Read<Value = HostPattern> {
    host_pattern().then(move |pattern, node, to| {
        if pattern.is_server_name() {
            return Some(pattern);
        }
        let error = Diagnostic::error(node.span, "clients ask for names, and not for addresses");
        to.fail(error.label("no connection would come here").help(else_))
    })
}

/// A host with an optional port, for a Host field.
pub(crate) fn authority() -> impl Read<Value = HeaderValue> {
    let shape = TextShape {
        what: "a host with an optional port",
        examples: "`internal.example` or `internal.example:8080`",
        pattern: Some("^[^/@?#\\s]+$"),
        max: MAX_ADDRESS,
    };
    text(shape, |text| {
        if let Some((scheme, rest)) = text.split_once("://") {
            let host = rest.split('/').next().unwrap_or(rest);
            let problem =
                Problem::new("a host does not include a scheme").part(0..scheme.len() + 3);
            return Err(problem.help(format!("did you mean `{host}`?")));
        }
        Authority::parse(text.as_bytes()).map_err(|error| Problem::new(error.to_string()))?;
        parse_header_value(text)
    })
}

fn parse_pattern(text: &str) -> Result<HostPattern, Problem> {
    if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let parsed: Result<Ipv6Addr, _> = address.parse();
        let address =
            parsed.map_err(|_| Problem::new("the brackets do not contain an IPv6 address"))?;
        return Ok(HostPattern::Exact(format!("[{address}]")));
    }
    habits::check_host(text)?;
    if let Some((scheme, rest)) = text.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or(rest);
        let problem = Problem::new("a host does not include a scheme").part(0..scheme.len() + 3);
        return Err(problem.help(format!("did you mean `{host}`?")));
    }
    if let Some((host, port)) = text.split_once(':') {
        let problem = Problem::new("a route does not match the port of a host");
        let problem = problem.help(format!("did you mean `{host}`?"));
        return Err(problem.part(host.len()..host.len() + 1 + port.len()));
    }
    if let Some(suffix) = text.strip_prefix("*.") {
        let shift = |problem: Problem| Problem {
            part: problem.part.map(|part| part.start + 2..part.end + 2),
            ..problem
        };
        let suffix = parse_host_name(suffix).map_err(shift)?;
        return Ok(HostPattern::Under(format!(".{suffix}")));
    }
    if text == "*" {
        let problem = Problem::new("a route without `host` serves every host");
        return Err(problem.help("remove `host`"));
    }
    if let Some(at) = text.find('*') {
        let problem =
            Problem::new("a `*` replaces whole labels at the start of a host").part(at..at + 1);
        return Err(problem.help("write it as \"*.example.com\""));
    }
    parse_host_name(text).map(HostPattern::Exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_in_lower_case() {
        for (text, shown) in [
            ("API.Example.com", "api.example.com"),
            ("*.Example.com", "*.example.com"),
            ("example.com.", "example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::0001]", "[::1]"),
            ("my_service", "my_service"),
        ] {
            assert_eq!(parse_pattern(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "*",
            "a*.b",
            "*.",
            "a..b",
            "a b",
            "http://a",
            "a:80",
            "-a",
            "a-",
            "1.2.3.4.5",
            "é",
            "*.*.a",
            "[::1",
            "a/b",
        ] {
            assert!(parse_pattern(text).is_err(), "{text}");
        }
    }
}
