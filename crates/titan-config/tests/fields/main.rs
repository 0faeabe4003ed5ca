//! Each field of the file changes the checked form, and is what it says.

mod access_log;
mod admin;
#[path = "../around/mod.rs"]
mod around;
mod basic;
mod files;
mod forward_auth;
mod jwt;
mod limits;
mod mirrors;
mod plans;
mod policies;
mod retries;
mod sources;
mod stores;
mod tls;
mod transforms;
mod trust;
mod upstreams;

use around::Around;
use std::collections::BTreeSet;
use titan_config::{Config, Resolved, schema};

/// A section of the schema, one of its keys, a file that sets it, and what the checked form then shows.
type Row = (&'static str, &'static str, &'static str, &'static str);

const ROWS: &[Row] = &[
    ("file", "include", "include: more.yaml", "Name(\"included\")"),
    ("file", "workers", "workers: 3", "threads: Exactly(3)"),
    ("file", "listeners", "listeners: [\":81\"]", "address: Any(81)"),
    ("file", "routes", "routes: [{ prefix: /x, respond: 204 }]", "segments: [Literal(\"x\")]"),
    ("file", "upstreams", "upstreams: { b: b:1 }", "Dns { host: \"b\", port: 1 }"),
    ("file", "limits", "limits: { fields: 7 }", "fields: 7"),
    ("file", "timeouts", "timeouts: { idle: 7s }", "idle: 7s"),
    ("file", "forwarding", "forwarding: { forwarded: true }", ", forwarded: true"),
    ("file", "resolver", "resolver: { timeout: 7s }", "timeout: 7s"),
    ("file", "admin", "admin: off", "admin: None"),
    ("file", "zone", "zone: z\nupstreams: { a: [{ address: a:1, zone: y }] }", "remote: true"),
    ("file", "state", "state: s", "directory: Some(\"s\")"),
    (
        "pressure",
        "stop_keep_alive",
        "pressure: { stop_keep_alive: 7% }",
        "stop_keep_alive: Percent(700)",
    ),
    ("pressure", "shed", "pressure: { shed: 87% }", " shed: Percent(8700)"),
    (
        "pressure",
        "stop_accepting",
        "pressure: { stop_accepting: 98% }",
        "stop_accepting: Percent(9800)",
    ),
    (
        "pressure",
        "max_memory",
        "pressure: { max_memory: 7GiB }",
        "max_memory: Some(ByteSize(7516192768))",
    ),
    ("pressure", "max_lag", "pressure: { max_lag: 7s }", "max_lag: 7s"),
    ("file", "log", "log: debug", "level: Debug"),
    ("log", "level", "log: { level: error }", "level: Error"),
    ("log", "areas", "log: { areas: { tls: debug } }", "(Tls, Debug)"),
    ("log", "format", "log: { format: json }", "format: Json"),
    ("state", "directory", "state: { directory: /var/s }", "directory: Some(\"/var/s\")"),
    ("state", "history", "state: { history: 7 }", "history: 7"),
    ("workers", "threads", "workers: { threads: 256 }", "threads: Exactly(256)"),
    ("workers", "pin", "workers: { pin: true }", "pin: true"),
    ("listener", "name", "listeners: [{ name: in, address: \":1\" }]", "name: \"in\""),
    ("listener", "address", "listeners: [{ address: \"unix:/run/t\" }]", "Unix(\"/run/t\")"),
    (
        "listener",
        "proxy_protocol",
        "listeners: [{ address: \":1\", proxy_protocol: { from: [10.0.0.0/8] } }]",
        "proxy_protocol: Some(",
    ),
    (
        "listener",
        "protocols",
        "listeners: [{ address: \":1\", protocols: [h2] }]",
        "protocols: Protocols { h1: false, h2: true, h3: false }",
    ),
    (
        "proxy_protocol",
        "from",
        "listeners: [{ address: \":1\", proxy_protocol: { from: [\"fd00::/8\", 192.0.2.1] } }]",
        "from: [Cidr { address: fd00::, bits: 8 }, Cidr { address: 192.0.2.1, bits: 32 }]",
    ),
    (
        "upstream",
        "protocol",
        "upstreams: { b: { endpoints: [\"b:1\"], protocol: auto } }",
        "protocol: Auto",
    ),
    (
        "listener",
        "max_connections",
        "listeners: [{ address: \":1\", max_connections: 7 }]",
        "max_connections: 7, max_connections_per_client: Unlimited",
    ),
    (
        "listener",
        "max_connections_per_client",
        "listeners: [{ address: \":1\", max_connections_per_client: 7 }]",
        "max_connections_per_client: AtMost(7)",
    ),
    (
        "respond",
        "template",
        "routes: [{ respond: { template: \"for {client}\" } }]",
        "template: Some(BodyTemplate {",
    ),
    ("route", "name", "routes: [{ name: r, respond: 204 }]", "name: Name(\"r\")"),
    (
        "route",
        "host",
        "routes: [{ host: [A.example, \"*.b.example\"], respond: 204 }]",
        "hosts: [Exact(\"a.example\"), Under(\".b.example\")]",
    ),
    (
        "route",
        "path",
        "routes: [{ path: \"/a/{id}/{*rest}\", respond: 204 }]",
        "segments: [Literal(\"a\"), Param(\"id\")], end: Rest(\"rest\")",
    ),
    (
        "route",
        "prefix",
        "routes: [{ prefix: /a/b, respond: 204 }]",
        "segments: [Literal(\"a\"), Literal(\"b\")], end: Prefix",
    ),
    (
        "route",
        "methods",
        "routes: [{ methods: [GET, PROPFIND], respond: 204 }]",
        "methods: [GET, PROPFIND]",
    ),
    (
        "route",
        "headers",
        "routes: [{ headers: { X-A: 1 }, respond: 204 }]",
        "HeaderMatch { name: HeaderName(\"X-A\"), value: Exact(\"1\") }",
    ),
    (
        "route",
        "query",
        "routes: [{ query: { v: yes }, respond: 204 }]",
        "QueryMatch { name: \"v\", value: Exact(\"yes\") }",
    ),
    ("route", "priority", "routes: [{ priority: -7, respond: 204 }]", "priority: -7"),
    (
        "route",
        "importance",
        "routes: [{ importance: critical, respond: 204 }]",
        "importance: Critical",
    ),
    (
        "route",
        "trace_share",
        "routes: [{ trace_share: 7%, respond: 204 }]",
        "trace_share: Some(Percent(700))",
    ),
    (
        "route",
        "upstream",
        "routes: [{ upstream: { b: 9, a: 1 } }]\nupstreams: { a: a:1, b: b:1 }",
        "Share { upstream: UpstreamId(1), weight: 9 }, Share { upstream: UpstreamId(0), weight: 1 }",
    ),
    ("route", "redirect", "routes: [{ redirect: /x }]", "Redirect(Redirect {"),
    ("route", "respond", "routes: [{ respond: 418 }]", "status: Status(418)"),
    (
        "route",
        "rewrite",
        "routes: [{ upstream: a, rewrite: { prefix: / } }]",
        "rewrite: Some(Prefix(\"\"))",
    ),
    ("route", "send_host", "routes: [{ upstream: a, send_host: endpoint }]", "send_host: Endpoint"),
    ("route", "retries", "routes: [{ upstream: a, retries: 0 }]", "retries: Retries { attempts: 0"),
    (
        "route",
        "timeouts",
        "routes: [{ upstream: a, timeouts: { connect: 7s } }]",
        "RouteTimeouts { body: 30s, write: 30s, connect: 7s, response: 60s, response_body: 60s, tunnel",
    ),
    (
        "route",
        "limits",
        "routes: [{ upstream: a, limits: { body: 7KiB } }]",
        "body_limit: AtMost(ByteSize(7168))",
    ),
    (
        "condition",
        "present",
        "routes: [{ headers: { A: { present: true }, B: { present: false } }, respond: 204 }]",
        "value: Present }, HeaderMatch { name: HeaderName(\"B\"), value: Absent }",
    ),
    (
        "condition",
        "prefix",
        "routes: [{ headers: { A: { prefix: x } }, respond: 204 }]",
        "value: Prefix(\"x\")",
    ),
    (
        "condition",
        "regex",
        "routes: [{ query: { a: { regex: \"^v[0-9]+$\" } }, respond: 204 }]",
        "value: Regex(Pattern(Regex(\"^v[0-9]+$\")))",
    ),
    (
        "redirect",
        "to",
        "routes: [{ path: \"/{id}/{path}\", redirect: \"https://{host}/{id}{query}#{path}\" }]",
        "[Text(\"https://\"), Host, Text(\"/\"), Param(0), Query, Text(\"#\"), Param(1)]",
    ),
    (
        "redirect",
        "status",
        "routes: [{ redirect: { to: \"{path}\", status: 302 } }]",
        "pieces: [Path] }, status: Status(302)",
    ),
    ("respond", "status", "routes: [{ respond: { status: 599 } }]", "status: Status(599)"),
    (
        "respond",
        "body",
        "routes: [{ respond: { body: hello } }]",
        "body: \"hello\", content_type: Some(HeaderValue(\"text/plain; charset=utf-8\"))",
    ),
    (
        "respond",
        "content_type",
        "routes: [{ respond: { body: hello, content_type: text/html } }]",
        "content_type: Some(HeaderValue(\"text/html\"))",
    ),
    (
        "respond",
        "headers",
        "routes: [{ respond: { headers: { X-A: b } } }]",
        "headers: [(HeaderName(\"X-A\"), HeaderValue(\"b\"))]",
    ),
    (
        "rewrite",
        "prefix",
        "routes: [{ prefix: /a, upstream: a, rewrite: { prefix: /b/c } }]",
        "rewrite: Some(Prefix(\"/b/c\"))",
    ),
    (
        "rewrite",
        "path",
        "routes: [{ path: \"/a/{id}\", upstream: a, rewrite: { path: \"/b-{id}\" } }]",
        "rewrite: Some(Path(Template { pieces: [Text(\"/b-\"), Param(0)] }))",
    ),
    (
        "route_timeouts",
        "body",
        "routes: [{ upstream: a, timeouts: { body: 7s } }]",
        "RouteTimeouts { body: 7s",
    ),
    (
        "route_timeouts",
        "write",
        "timeouts: { body: 9s }\nroutes: [{ upstream: a, timeouts: { write: 7s } }]",
        "RouteTimeouts { body: 9s, write: 7s",
    ),
    (
        "route_timeouts",
        "connect",
        "routes: [{ upstream: a, timeouts: { connect: 7ms } }]",
        "connect: 7ms, response: 60s, response_body: 60s, tunnel",
    ),
    (
        "route_timeouts",
        "response",
        "routes: [{ upstream: a, timeouts: { response: 2m } }]",
        "response: 120s, response_body: 60s, tunnel",
    ),
    (
        "route_timeouts",
        "response_body",
        "routes: [{ upstream: a, timeouts: { response_body: 1h } }]",
        "response: 60s, response_body: 3600s, tunnel",
    ),
    (
        "route_timeouts",
        "tunnel",
        "routes: [{ upstream: a, timeouts: { tunnel: 2h } }]",
        "tunnel: 7200s, total: Unlimited",
    ),
    ("route", "grpc_web", "routes: [{ upstream: a, grpc_web: true }]", "grpc_web: true"),
    ("route", "upgrades", "routes: [{ upstream: a, upgrades: [x] }]", "upgrades: [Token(\"x\")]"),
    (
        "route_limits",
        "body",
        "limits: { body: 1KB }\nroutes: [{ upstream: a, limits: { body: unlimited } }]",
        "body_limit: Unlimited",
    ),
    (
        "route_limits",
        "retry_body",
        "limits: { retry_body: 1KB }\nroutes: [{ upstream: a, limits: { retry_body: off } }]",
        "body_limit: AtMost(ByteSize(67108864)), retry_body: None",
    ),
    (
        "balance",
        "consistent_hash",
        "upstreams: { a: { endpoints: a:1, balance: { consistent_hash: client_address } } }",
        "balance: ConsistentHash(ClientAddress)",
    ),
    (
        "balance",
        "sticky_cookie",
        "upstreams: { a: { endpoints: a:1, balance: { sticky_cookie: {} } } }",
        "StickyCookie { name: Token(\"titan_sticky\"), max_age: None, secure: false, http_only: true, same_site: Lax }",
    ),
    (
        "hash_key",
        "header",
        "upstreams: { a: { endpoints: a:1, balance: { consistent_hash: { header: X-A } } } }",
        "ConsistentHash(Header(HeaderName(\"X-A\")))",
    ),
    (
        "hash_key",
        "cookie",
        "upstreams: { a: { endpoints: a:1, balance: { consistent_hash: { cookie: c } } } }",
        "ConsistentHash(Cookie(Token(\"c\")))",
    ),
    (
        "hash_key",
        "query",
        "upstreams: { a: { endpoints: a:1, balance: { consistent_hash: { query: q } } } }",
        "ConsistentHash(Query(\"q\"))",
    ),
    (
        "sticky_cookie",
        "name",
        "upstreams: { a: { endpoints: a:1, balance: { sticky_cookie: { name: s } } } }",
        "StickyCookie { name: Token(\"s\")",
    ),
    (
        "sticky_cookie",
        "max_age",
        "upstreams: { a: { endpoints: a:1, balance: { sticky_cookie: { max_age: 1d } } } }",
        "max_age: Some(86400s)",
    ),
    (
        "sticky_cookie",
        "secure",
        "upstreams: { a: { endpoints: a:1, balance: { sticky_cookie: { secure: true } } } }",
        "secure: true",
    ),
    (
        "sticky_cookie",
        "http_only",
        "upstreams: { a: { endpoints: a:1, balance: { sticky_cookie: { http_only: false } } } }",
        "http_only: false",
    ),
    (
        "sticky_cookie",
        "same_site",
        "upstreams: { a: { endpoints: a:1, balance: { sticky_cookie: { same_site: strict } } } }",
        "same_site: Strict",
    ),
    (
        "queue",
        "length",
        "upstreams: { a: { endpoints: a:1, queue: { length: 7 } } }",
        "Queue { length: 7, timeout: 1s }",
    ),
    (
        "queue",
        "timeout",
        "upstreams: { a: { endpoints: a:1, queue: { timeout: 7s } } }",
        "Queue { length: 1024, timeout: 7s }",
    ),
    ("timeouts", "handshake", "timeouts: { handshake: 7s }", "handshake: 7s"),
    ("timeouts", "head", "timeouts: { head: 7s }", "s, head: 7s"),
    ("timeouts", "idle", "timeouts: { idle: 7s }", "idle: 7s"),
    ("timeouts", "body", "timeouts: { body: 7s }", "body: 7s"),
    ("timeouts", "write", "timeouts: { write: 7s }", "write: 7s"),
    ("timeouts", "connect", "timeouts: { connect: 7s }", "connect: 7s"),
    ("timeouts", "response", "timeouts: { response: 7s }", "response: 7s"),
    ("timeouts", "response_body", "timeouts: { response_body: 7s }", "response_body: 7s"),
    ("timeouts", "tunnel", "timeouts: { tunnel: 7s }", "tunnel: 7s"),
    ("timeouts", "drain", "timeouts: { drain: 7s }", "drain: 7s"),
    ("timeouts", "drain_delay", "timeouts: { drain_delay: 7s }", "drain_delay: 7s"),
    ("timeouts", "upgrade", "timeouts: { upgrade: 7s }", "upgrade: 7s"),
    (
        "forwarding",
        "trusted_proxies",
        "forwarding: { trusted_proxies: [0.0.0.0/0] }",
        "trusted_proxies: [Cidr { address: 0.0.0.0, bits: 0 }]",
    ),
    ("forwarding", "x_forwarded", "forwarding: { x_forwarded: false }", "x_forwarded: false"),
    ("forwarding", "forwarded", "forwarding: { forwarded: true }", ", forwarded: true"),
    ("forwarding", "request_id", "forwarding: { request_id: off }", "request_id: None"),
    ("forwarding", "via", "forwarding: { via: edge-1 }", "via: Some(Token(\"edge-1\"))"),
    (
        "forwarding",
        "server",
        "forwarding: { server: a/1 }",
        "server: Replace(HeaderValue(\"a/1\"))",
    ),
    (
        "resolver",
        "nameservers",
        "resolver: { nameservers: [\"127.0.0.1:53\"] }",
        "nameservers: Some([127.0.0.1:53])",
    ),
    ("resolver", "min_ttl", "resolver: { min_ttl: 7s }", "min_ttl: 7s"),
    ("resolver", "max_ttl", "resolver: { max_ttl: 7s }", "max_ttl: 7s"),
    ("resolver", "timeout", "resolver: { timeout: 7s }", "timeout: 7s"),
];

/// The file with what it must have and does not.
fn complete(text: &str) -> String {
    let mut file = text.to_owned();
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    for (key, addition) in [
        ("listeners:", "\nlisteners: [\":80\"]"),
        ("routes:", "\nroutes: [{ respond: 204 }]"),
        ("upstreams:", "\nupstreams: { a: a:1 }"),
    ] {
        if !has(key) {
            file.push_str(addition);
        }
    }
    file
}

/// The files around those of the rows.
fn around() -> Around {
    Around::files(&[("more.yaml", "upstreams: { included: a:1 }")])
}

/// The checked form of a file; what it must have and does not is added.
fn checked(text: &str) -> String {
    match around().read(&complete(text)) {
        Ok(composed) => format!("{:?}", composed.config),
        Err(report) => panic!("{report}"),
    }
}

fn rows() -> impl Iterator<Item = &'static Row> {
    let all = [
        ROWS,
        access_log::ROWS,
        files::ROWS,
        tls::ROWS,
        trust::ROWS,
        retries::ROWS,
        upstreams::ROWS,
        admin::ROWS,
        policies::ROWS,
        stores::ROWS,
        limits::ROWS,
        mirrors::ROWS,
        transforms::ROWS,
        jwt::ROWS,
        forward_auth::ROWS,
        basic::ROWS,
        sources::ROWS,
    ];
    all.into_iter().flatten()
}

#[test]
fn each_field_is_read() {
    let without = checked("");
    for (section, key, text, shown) in rows() {
        let with = checked(text);
        assert!(with.contains(shown), "{section}.{key}: no {shown} in {with}");
        assert!(!without.contains(shown), "{section}.{key}: {shown} is there by default");
    }
}

#[test]
fn no_field_is_forgotten() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let keys = |name: &str, section: &serde_json::Value| -> Vec<String> {
        let keys = section["properties"].as_object().unwrap().keys();
        keys.map(|key| format!("{name}.{key}")).collect()
    };
    let mut declared = BTreeSet::from_iter(keys("file", &schema));
    for (name, section) in schema["$defs"].as_object().unwrap() {
        declared.extend(keys(name, section));
    }
    let tested: BTreeSet<_> = rows().map(|(section, key, ..)| format!("{section}.{key}")).collect();
    let missing: Vec<_> = declared.difference(&tested).collect();
    let gone: Vec<_> = tested.difference(&declared).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "fields without a row in these tables: {missing:?}; rows of fields that are gone: {gone:?}"
    );
}

#[test]
fn what_is_resolved_is_a_file_that_means_the_same() {
    for (section, key, text, _) in rows() {
        let resolved = Resolved::from(around().read(&complete(text)).unwrap());
        let shown = resolved.to_string();
        if shown.contains("***") {
            continue;
        }
        match Resolved::parse("titan.yaml", &shown) {
            Ok(again) => assert_eq!(again.to_string(), shown, "{section}.{key}"),
            Err(report) => panic!("{section}.{key}: {report}\n{shown}"),
        }
    }
}

#[test]
fn routes_without_a_name_are_called_what_they_match() {
    let config = checked("routes: [{ prefix: /a, respond: 204 }, { prefix: /b, respond: 204 }]");
    assert!(config.contains("Name(\"a\")") && config.contains("Name(\"b\")"));
}

#[test]
fn places_are_those_of_the_file() {
    let config = Config::parse(
        "titan.yaml",
        "listeners:\n  - \":80\"\nroutes:\n  - prefix: /\n    upstream: a\nupstreams:\n  a: [\"b:1\", \"c:1\"]\n",
    );
    let config = config.unwrap();
    assert_eq!(config.listeners[0].location.to_string(), "2:5");
    assert_eq!(config.routes[0].location.to_string(), "4:5");
    assert_eq!(config.upstreams[0].location.to_string(), "7:3");
    assert_eq!(config.upstreams[0].endpoints[1].location.to_string(), "7:14");
    assert_eq!(config.admin.unwrap().location, None);
}

#[test]
fn the_commonest_gateway_has_few_lines() {
    let text = "listeners: [\":8080\"]
routes:
  - prefix: /api
    upstream: api
upstreams:
  api: [\"10.0.0.1:8080\", \"10.0.0.2:8080\"]
";
    let config = Config::parse("titan.yaml", text).unwrap();
    assert!(config.warnings.is_empty() && config.warnings.to_string().is_empty());
    insta::assert_snapshot!(config.summary(), @"
    workers    one for each core
    admin      127.0.0.1:8484
    listeners  1
               :8080
    routes     1
               api: /api/… -> api
    upstreams  1
               api: 10.0.0.1:8080, 10.0.0.2:8080
    ");
}

#[test]
fn authorities_and_no_verification_exclude_each_other() {
    let text = "listeners: [\":80\"]\nroutes: [{ upstream: a }]\n\
        upstreams: { a: { endpoints: \"a:1\", tls: { ca: a.pem, verify: false } } }\n";
    let report = Config::parse("titan.yaml", text).unwrap_err().to_string();
    assert!(report.contains("titan.yaml:3:42 in upstreams.a.tls"), "{report}");
    assert!(report.contains("remove `verify: false`"), "{report}");
}

#[test]
fn tls_is_on_or_off_in_a_word() {
    let config =
        checked("upstreams: { a: { endpoints: a:1, tls: off }, b: { endpoints: b:1, tls: on } }");
    assert!(config.contains("tls: None, protocol") && config.contains("tls: Some(UpstreamTls"));
    let config = checked("listeners: [{ address: \":1\", tls: off }]");
    assert!(config.contains("tls: None"), "{config}");
}

#[test]
fn the_summary_says_where_tls_is_spoken() {
    let text = "listeners:
  - { address: \":80\", redirect_to_https: true }
  - { address: \":443\", tls: { certificates: [{ cert: a, key: b }] }, protocols: [h3, h2] }
  - { address: \":444\", tls: { certificates: [{ cert: a, key: b }], client_certificates: { ca: c } } }
  - { address: \":445\", tls: { certificates: [{ cert: a, key: b }] }, protocols: h3 }
routes: [{ upstream: { a: 1, b: 1, c: 1 } }]
upstreams: { a: a:1, b: { endpoints: b:1, tls: on }, c: { endpoints: c:1, tls: { verify: false } } }
";
    let summary = Config::parse("titan.yaml", text).unwrap().summary();
    insta::assert_snapshot!(summary, @"
    workers    one for each core
    admin      127.0.0.1:8484
    listeners  4
               :80, redirects to HTTPS
               :443, TLS, HTTP/3
               :444, TLS with client certificates
               :445, TLS, HTTP/3 alone
    routes     1
               root: /… -> 1 a : 1 b : 1 c
    upstreams  3
               a: a:1
               b: b:1, TLS
               c: c:1, TLS without verification
    ");
}
