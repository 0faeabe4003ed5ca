//! Which pairs of routes can stand together, and what is said about those that cannot.

use titan_config::Config;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Duplicate,
    Unordered,
    Shadowed,
}
use Verdict::*;

/// What the pair shows, the keys of two routes, and what is said about them.
type Pair = (&'static str, &'static str, &'static str, Verdict);

const PAIRS: &[Pair] = &[
    ("other paths", "path: /a", "path: /b", Fine),
    ("exact and prefix", "path: /a", "prefix: /a", Fine),
    ("rest and prefix", "path: \"/a/{*x}\"", "prefix: /a", Fine),
    ("literal and parameter", "path: /a", "path: \"/{a}\"", Fine),
    ("slash at the end", "path: /a", "path: /a/", Fine),
    ("names of parameters", "path: \"/{a}\"", "path: \"/{b}\"", Duplicate),
    ("names of rests", "path: \"/{*a}\"", "path: \"/{*b}\"", Duplicate),
    ("no path and the root prefix", "priority: 0", "prefix: /", Duplicate),
    ("other hosts", "host: a.b", "host: b.b", Fine),
    ("host and wildcard", "host: a.b", "host: \"*.b\"", Fine),
    ("host and any host", "host: a.b", "priority: 0", Fine),
    ("any host first of all", "host: a.b", "priority: 9", Fine),
    ("case of hosts", "host: a.b", "host: A.B.", Duplicate),
    ("one shared host", "host: [a.b, c.d]", "host: [e.f, c.d]", Unordered),
    ("one shared host by priority", "host: [a.b, c.d]", "host: c.d, priority: 1", Fine),
    ("all hosts by priority", "host: c.d", "host: [a.b, c.d], priority: 1", Shadowed),
    ("other listeners", "listeners: a", "listeners: b", Fine),
    ("a listener and any", "listeners: a", "priority: 0", Fine),
    ("any listener first", "listeners: a", "priority: 1", Shadowed),
    ("all listeners and any", "listeners: [a, b]", "priority: 0", Fine),
    ("one shared listener", "listeners: [a, b]", "listeners: b", Unordered),
    ("more listeners first", "listeners: [a, b], priority: 1", "listeners: b", Shadowed),
    ("other methods", "methods: GET", "methods: [POST, PUT]", Fine),
    ("shared methods", "methods: [GET, PUT]", "methods: [POST, PUT]", Unordered),
    ("same methods", "methods: [PUT, POST]", "methods: [POST, PUT]", Duplicate),
    ("methods and any", "methods: GET", "priority: 0", Fine),
    ("GET and HEAD", "methods: GET", "methods: HEAD", Fine),
    ("HEAD below GET", "methods: HEAD", "methods: GET, priority: 1", Shadowed),
    ("GET below HEAD", "methods: GET", "methods: HEAD, priority: 1", Fine),
    ("more conditions", "headers: { A: a }", "priority: 0", Fine),
    ("other values", "headers: { A: a }", "headers: { a: b }", Fine),
    ("same values", "headers: { A: a }", "headers: { a: a }", Duplicate),
    ("other headers", "headers: { A: a }", "headers: { B: a }", Unordered),
    ("header and query", "headers: { A: a }", "query: { A: a }", Unordered),
    ("other parameters", "query: { a: a }", "query: { A: a }", Unordered),
    (
        "present and absent",
        "headers: { A: { present: true } }",
        "headers: { A: { present: false } }",
        Fine,
    ),
    ("present and a value", "headers: { A: { present: true } }", "headers: { A: a }", Unordered),
    ("value and its prefix", "headers: { A: abc }", "headers: { A: { prefix: ab } }", Unordered),
    ("value and other prefix", "headers: { A: abc }", "headers: { A: { prefix: b } }", Fine),
    ("other prefixes", "headers: { A: { prefix: a } }", "headers: { A: { prefix: b } }", Fine),
    (
        "prefix of a prefix",
        "query: { a: { prefix: a } }",
        "query: { a: { prefix: ab } }",
        Unordered,
    ),
    ("expressions", "headers: { A: { regex: a } }", "headers: { A: { regex: b } }", Unordered),
    ("ordered by priority", "headers: { A: a }", "headers: { B: a }, priority: 1", Fine),
    ("below a general one", "headers: { A: a }", "priority: 1", Shadowed),
    (
        "below a prefix of its value",
        "query: { a: ab }",
        "query: { a: { prefix: a } }, priority: 1",
        Shadowed,
    ),
    (
        "below a matching expression",
        "query: { a: ab }",
        "query: { a: { regex: b$ } }, priority: 1",
        Shadowed,
    ),
    (
        "below another expression",
        "query: { a: ab }",
        "query: { a: { regex: c$ } }, priority: 1",
        Fine,
    ),
    ("below a single method", "priority: 0", "methods: GET, priority: 1", Fine),
    ("above", "priority: 1", "headers: { A: a }", Shadowed),
    (
        "other owners",
        "client_certificate: { subject: CN=a }",
        "client_certificate: { subject: CN=b }",
        Fine,
    ),
    ("somebody and nobody", "client_certificate: present", "client_certificate: absent", Fine),
    (
        "a known one and nobody",
        "client_certificate: { dns: a }",
        "client_certificate: absent",
        Fine,
    ),
    (
        "a known one and anybody",
        "client_certificate: { dns: a }",
        "client_certificate: present",
        Fine,
    ),
    (
        "the same owner",
        "client_certificate: { dns: a }",
        "client_certificate: { dns: A }",
        Duplicate,
    ),
    (
        "two names of one owner",
        "client_certificate: { dns: a }",
        "client_certificate: { uri: b }",
        Unordered,
    ),
    (
        "below anybody with a certificate",
        "client_certificate: { dns: a }",
        "client_certificate: present, priority: 1",
        Shadowed,
    ),
];

fn verdict(first: &str, second: &str) -> Verdict {
    let routes = [first, second].map(|fields| format!("{{ {fields}, respond: 204 }}"));
    let tls = "certificates: [{ cert: a, key: b }], client_certificates: { ca: c }";
    let listeners = format!(
        "{{ name: a, address: \":80\", tls: {{ {tls} }} }}, {{ name: b, address: \":81\" }}"
    );
    let file = format!("listeners: [{listeners}]\nroutes: [{}]\n", routes.join(", "));
    let Err(report) = Config::parse("titan.yaml", &file) else { return Fine };
    let [diagnostic] = report.diagnostics() else { panic!("{report}") };
    assert_eq!(diagnostic.also.len(), 1, "both places are shown");
    match diagnostic.message.as_str() {
        message
            if message.contains("is the same as")
                || message.contains("match the same requests") =>
        {
            Duplicate
        }
        message if message.contains("can match the same request") => Unordered,
        message if message.contains("never reached") => Shadowed,
        _ => panic!("{report}"),
    }
}

#[test]
fn pairs_are_judged() {
    for (name, first, second, expected) in PAIRS {
        assert_eq!(verdict(first, second), *expected, "{name}");
    }
}

#[test]
fn the_order_in_the_file_changes_nothing() {
    for (name, first, second, expected) in PAIRS {
        assert_eq!(verdict(second, first), *expected, "{name}");
    }
}
