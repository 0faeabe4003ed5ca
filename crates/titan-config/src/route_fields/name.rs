//! The default name of a route without one: made from what it matches, not from its position.
//!
//! | what it matches | its name |
//! |---|---|
//! | everything | `root` |
//! | `prefix: /api/v1` | `api.v1` |
//! | `path: /users/{id}` | `users._id-exact` |
//! | `host: shop.example`, `prefix: /`, `methods: [GET]` | `shop.example-root-get` |
//! | that, and a header | `shop.example-root-get-5c21e0` |
//! | `prefix: /a.b`, beside `prefix: /a/b` | `a.b-9f3c07` |

use super::RouteDraft;
use crate::condition::{CertificatePart, ValueMatch};
use crate::path::{PathEnd, Segment};
use crate::token::Name;
use std::collections::HashMap;
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_64;

/// The longest that a name is before the digits that stand for the rest.
const MOST: usize = 48;

/// Gives routes whose default name another one has as well the digits that stand for all that they match.
pub(crate) fn tell_apart(routes: &mut [Option<RouteDraft>]) {
    let mut counts: HashMap<Name, usize> = HashMap::new();
    for route in routes.iter().flatten() {
        *counts.entry(route.name()).or_default() += 1;
    }
    for route in routes.iter_mut().flatten() {
        route.has_namesake = counts[&route.name()] > 1;
    }
}

impl RouteDraft {
    /// The name in the file, or else one that says what the route matches. Two routes that match the same have the
    /// same one.
    pub(crate) fn name(&self) -> Name {
        self.name.as_ref().map_or_else(|| self.default_name(), |name| name.value.clone())
    }

    fn default_name(&self) -> Name {
        let readable = self.readable();
        let mut name: String = readable.chars().map(plain).collect();
        let is_all = name == readable && name.len() <= MOST && !self.has_conditions();
        let is_all = is_all && !self.has_namesake;
        if !is_all {
            name.truncate(MOST);
            let rest = xxh3_64(self.matched().as_bytes()) & 0xff_ffff;
            let _ = write!(name, "-{rest:06x}");
        }
        Name::of_route(name)
    }

    /// Whether it matches on more than one host, the path and the method.
    fn has_conditions(&self) -> bool {
        let RouteDraft { hosts, headers, query, certificate, .. } = self;
        hosts.len() > 1 || !headers.is_empty() || !query.is_empty() || !certificate.is_empty()
    }

    /// The first host, the path and the methods.
    fn readable(&self) -> String {
        let host = self.hosts.first().map(ToString::to_string);
        let segments = self.path.segments.iter().map(|segment| match segment {
            Segment::Literal(text) => text.clone(),
            Segment::Param(name) => format!("_{name}"),
        });
        let path = match segments.collect::<Vec<_>>().join(".") {
            path if path.is_empty() => "root".to_owned(),
            path => path,
        };
        let end = match self.path.end {
            PathEnd::Exact => Some("exact".to_owned()),
            PathEnd::Rest(_) => Some("rest".to_owned()),
            PathEnd::Prefix => None,
        };
        let methods = self.methods.iter().map(|method| method.as_str().to_ascii_lowercase());
        let parts = host.into_iter().chain([path]).chain(end).chain(methods);
        parts.collect::<Vec<_>>().join("-")
    }

    /// All that it matches, as a text that no two kinds of conditions share.
    pub(crate) fn matched(&self) -> String {
        let mut text = format!("{}\n", self.path);
        let mut add = |line: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{line}");
        };
        self.hosts.iter().for_each(|host| add(format_args!("host {host}")));
        self.methods.iter().for_each(|method| add(format_args!("method {}", method.as_str())));
        for header in &self.headers {
            add(format_args!("header {} {}", header.name.as_str(), wanted(&header.value)));
        }
        for query in &self.query {
            add(format_args!("query {} {}", query.name, wanted(&query.value)));
        }
        for certificate in &self.certificate {
            add(format_args!(
                "certificate {} {}",
                key_of(certificate.part),
                wanted(&certificate.value)
            ));
        }
        text
    }
}

/// A part of a certificate, in a word that stays.
fn key_of(part: CertificatePart) -> &'static str {
    match part {
        CertificatePart::Any => "any",
        CertificatePart::Subject => "subject",
        CertificatePart::Dns => "dns",
        CertificatePart::Uri => "uri",
        CertificatePart::Email => "email",
        CertificatePart::Ip => "ip",
        CertificatePart::Fingerprint => "fingerprint",
    }
}

/// What a value has to be, as a text.
fn wanted(value: &ValueMatch) -> String {
    match value {
        ValueMatch::Present => "present".to_owned(),
        ValueMatch::Absent => "absent".to_owned(),
        ValueMatch::Exact(text) => format!("is {text}"),
        ValueMatch::Prefix(text) => format!("begins with {text}"),
        ValueMatch::Regex(pattern) => format!("matches {}", pattern.as_str()),
    }
}

/// A character as a name may have it.
fn plain(character: char) -> char {
    let is_plain = character.is_ascii_alphanumeric() || "_.-".contains(character);
    if is_plain { character } else { '-' }
}

#[cfg(test)]
mod tests {
    use crate::gateway::Config;

    /// The names of these routes.
    fn names(routes: &[&str]) -> Vec<String> {
        let routes: String =
            routes.iter().map(|it| format!("  - {{ {it}, respond: 204 }}\n")).collect();
        let text = format!("listeners: ['127.0.0.1:0']\nroutes:\n{routes}");
        let config = Config::parse("test", &text).unwrap_or_else(|bad| panic!("{bad}"));
        config.routes.iter().map(|route| route.name.to_string()).collect()
    }

    #[test]
    fn a_name_says_what_its_route_matches() {
        for (route, name) in [
            ("prefix: /", "root"),
            ("path: /", "root-exact"),
            ("prefix: /api/v1", "api.v1"),
            ("path: '/users/{id}'", "users._id-exact"),
            ("path: '/files/{*name}'", "files-rest"),
            ("host: shop.example, prefix: /, methods: [GET, HEAD]", "shop.example-root-get-head"),
            ("name: own, prefix: /a", "own"),
        ] {
            assert_eq!(names(&[route]), [name], "{route}");
        }
    }

    #[test]
    fn what_does_not_fit_into_a_name_tells_routes_apart() {
        let long = format!("prefix: /{}", "a".repeat(80));
        let alike = [
            "prefix: /a, headers: { X-A: '1' }",
            "prefix: /a, headers: { X-A: '2' }",
            "prefix: /a, headers: { X-A: { prefix: '1' } }",
            "prefix: /a, query: { X-A: '1' }",
            "prefix: /a",
            "prefix: '/b~b'",
            "host: [a.example, b.example], prefix: /",
            "host: '*.a.example', prefix: /",
            &long,
        ];
        // Each by itself: some of them clash in one file.
        let mut all: Vec<_> = alike.iter().flat_map(|route| names(&[*route])).collect();
        assert!(all.iter().all(|name| name.len() <= 64), "{all:?}");
        assert_eq!(all[4], "a");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), alike.len());
    }

    #[test]
    fn a_name_that_another_route_has_gets_digits() {
        for (first, second) in [
            ("prefix: /a.b", "prefix: /a/b"),
            ("host: a, prefix: /", "host: a, prefix: /root"),
            ("path: /x", "prefix: /x-exact"),
            ("path: '/users/{id}'", "path: /users/_id"),
            ("prefix: /a, methods: [GET]", "prefix: /a-get"),
        ] {
            let both = names(&[first, second]);
            assert_ne!(both[0], both[1], "{first}, {second}");
            assert!(both.iter().all(|name| name.len() <= 64), "{both:?}");
        }
        // A name in the file is what it is.
        assert_eq!(names(&["name: api, prefix: /v1", "prefix: /api"])[0], "api");
    }

    #[test]
    fn a_name_stays_when_routes_come_and_go() {
        let one = "prefix: /a, headers: { X-A: '1' }";
        assert_eq!(names(&["prefix: /", one])[1], names(&[one, "prefix: /b"])[0]);
        // Dashboards and alerts know it.
        assert_eq!(names(&[one]), ["a-62a6b6"]);
    }
}
