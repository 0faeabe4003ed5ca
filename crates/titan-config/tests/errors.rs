//! What is wrong with a file, as it is shown: each message is a snapshot.

use insta::assert_snapshot;
use titan_config::Config;

/// The report on a file that cannot be served, or the warnings about one that can.
fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

/// A file that is right but for the parts given.
fn routes(routes: &str) -> String {
    report(&format!(
        "listeners: [\":8080\"]\nupstreams:\n  api: 10.0.0.1:80\n  web: 10.0.0.2:80\nroutes:\n{routes}"
    ))
}

/// A file that is right but for a section.
fn section(section: &str) -> String {
    report(&format!("{section}\nlisteners: [\":8080\"]\nroutes: [{{ respond: 204 }}]\n"))
}

#[test]
fn everything_is_reported_at_once() {
    assert_snapshot!(report(
        r#"listeners:
  - adress: :8080
  - localhost:80
worker: 3
limits:
  target: 8kib
  fields: 0
timeouts:
  head: 10
  connect:
routes:
  - prefix: /api/
    upstrem: apii
  - path: /users/{id}/x{y}
    upstream: apii
    retries: 9
upstreams:
  api:
    endpoints: ["http://10.0.0.1:8080/", 10.0.0.2]
    balance: round-robin
    queue: { lenght: 3 }
"#
    ));
}

#[test]
fn a_file_that_is_no_yaml() {
    let cases = [
        ("tab", "routes:\n\t- prefix: /\n"),
        ("unclosed list", "listeners: [\":80\"\nroutes:\n  - respond: 204\n"),
        ("unclosed list at the end", "listeners: [\":80\""),
        ("unclosed quote", "listeners: [\":80]\nroutes: x\n"),
        ("unquoted star", "routes:\n  - host: *.example.com\n"),
        ("unquoted braces", "routes:\n  - { path: /users/{id}, respond: 204 }\n"),
        ("second colon", "routes:\n  - respond: a: b\n"),
        ("keys of a word", "access_log:\n  - stdout\n    format: combined\n"),
        ("uneven keys", "routes:\n  - respond: 204\n   prefix: /\n"),
        ("escape", "listeners: [\"\\d\"]\n"),
        ("escaped pair", "{\"listeners\": [\"\\ud83d\\ude00\"]}"),
        ("reserved character", "routes:\n  - prefix: @x\n"),
        ("tag", "routes: !list []\n"),
        ("merge key", "a: &x {b: 1}\nc:\n  <<: *x\n"),
        ("mapping as key", "{a: b}: c\n"),
        ("alias of itself", "a: &x [*x]\n"),
        ("two documents", "a: b\n---\nc: d\n"),
        ("empty", "# nothing\n"),
        ("only a text", "hello"),
    ];
    let shown = cases.map(|(name, text)| format!("### {name}\n{}", report(text)));
    assert_snapshot!(shown.join("\n"));
}

#[test]
fn keys_that_stand_twice() {
    assert_snapshot!(report(
        "listeners: [\":80\"]\nroutes:\n  - respond: 204\n    respond: 200\nlisteners: [\":81\"]\n"
    ));
}

#[test]
fn keys_that_are_unknown() {
    assert_snapshot!(routes(
        "  - location: /x\n    proxy_pass: api\n    drain: 1s\n    colour: red\n    upsteam: apo\n"
    ));
}

#[test]
fn values_that_are_missing() {
    assert_snapshot!(report("listeners: ~\nroutes:\n  -\n  - prefix: /\nupstreams:\n  a:\n"));
}

#[test]
fn upstreams_that_do_not_exist() {
    assert_snapshot!(routes(
        "  - prefix: /a\n    upstream: apo\n  - prefix: /b\n    upstream: { web: 9, canary: 1 }\n"
    ));
}

#[test]
fn upstreams_without_any_traffic() {
    assert_snapshot!(routes("  - upstream: { api: 1, web: 0 }\n"));
    assert_snapshot!(routes("  - upstream: { api: 0 }\n  - upstream: {}\n  - upstream: [api]\n"));
}

#[test]
fn routes_that_are_equal() {
    assert_snapshot!(routes(
        "  - path: /users/{id}\n    host: [a.example.com, b.example.com]\n    upstream: api
  - path: /users/{name}\n    host: [B.example.com, A.example.com]\n    upstream: web\n"
    ));
}

#[test]
fn routes_without_an_order() {
    assert_snapshot!(routes(
        "  - prefix: /a\n    headers: { X-A: \"1\" }\n    upstream: api
  - prefix: /a\n    headers: { X-B: \"1\" }\n    upstream: web
  - prefix: /b\n    methods: [GET, PUT]\n    upstream: api
  - name: writes\n    prefix: /b\n    methods: [PUT, POST]\n    upstream: web\n"
    ));
}

#[test]
fn routes_that_are_never_reached() {
    assert_snapshot!(routes(
        "  - prefix: /a\n    headers: { X-A: \"1\" }\n    methods: GET\n    upstream: api
  - name: all\n    prefix: /a\n    priority: 5\n    upstream: web\n"
    ));
}

#[test]
fn names_that_stand_twice() {
    assert_snapshot!(report(
        "listeners: [{ name: a, address: \":80\" }, { name: a, address: \":81\" }]
routes:
  - { name: b, prefix: /a, respond: 204 }
  - { name: b, prefix: /b, respond: 204 }
"
    ));
}

#[test]
fn addresses_that_are_used_twice() {
    assert_snapshot!(report(
        "listeners: [\":80\", \"127.0.0.1:80\", \"unix:/run/t\", \"unix:/run/t\", \"0.0.0.0:91\"]
admin: 127.0.0.1:91
routes: [{ respond: 204 }]
"
    ));
    assert_snapshot!(report("listeners: [\":8484\"]\nroutes: [{ respond: 204 }]\n"));
    assert_snapshot!(report(
        "listeners: [\":80\"]\nadmin: { address: 127.0.0.1:91, probes: \":91\" }\nroutes: [{ respond: 204 }]\n"
    ));
    // Probes are there to be reached from elsewhere.
    assert_eq!(
        report("listeners: [\":80\"]\nadmin: { probes: \":91\" }\nroutes: [{ respond: 204 }]\n"),
        ""
    );
}

#[test]
fn addresses_that_are_none() {
    assert_snapshot!(report(
        "listeners: [\"8080\", \"*:80\", \"1.2.3.4\", \"::1:80\", \"http://a\", \":65536\", \"unix:run\"]
routes: [{ upstream: a }]
upstreams:
  a: [\"a\", \"a:0\", \":80\", \"0.0.0.0:80\", \"10.0.0.256:80\", \"http://a:80/\", \"a b:80\", \"b:80\", \"B:80\"]
"
    ));
}

#[test]
fn hosts_that_are_none() {
    assert_snapshot!(routes(
        "  - host: [\"*\", \"a.*.com\", \"a:80\", \"http://a/\", \"bücher.example\", \"-a\"]\n    upstream: api\n"
    ));
}

#[test]
fn paths_that_are_none() {
    let paths = [
        "a",
        "/a//b",
        "/a/../b",
        "/{id}/{id}",
        "/{*all}/x",
        "/x{id}",
        "/{}",
        "/{a-b}",
        "/ä",
        "/%61",
        "/%c3",
        "/%",
        "/a?b=c",
        "/a b",
    ];
    let all = paths.map(|path| format!("  - path: \"{path}\"\n    upstream: api\n"));
    assert_snapshot!(routes(&all.concat()));
}

#[test]
fn prefixes_that_are_none() {
    assert_snapshot!(routes(
        "  - prefix: /api/\n    upstream: api\n  - prefix: /users/{id}\n    upstream: api\n"
    ));
}

#[test]
fn methods_that_are_none() {
    assert_snapshot!(routes("  - methods: [get, PSOT, \"A B\", PROPFIND]\n    upstream: api\n"));
}

#[test]
fn conditions_that_are_none() {
    assert_snapshot!(routes(
        "  - headers: { X: { regex: \"(\" }, Y: { prefx: a }, Z: { present: true, prefix: a }, \"a b\": c, W: [] }
    upstream: api
  - prefix: /x
    headers: { X-A: 1, x-a: 2 }
    query: { \"\": x, v: { regex: \"(\\\\w{1,100}){1,100}\" } }
    upstream: api\n"
    ));
}

#[test]
fn actions_that_do_not_fit() {
    assert_snapshot!(routes(
        "  - prefix: /a
  - prefix: /b\n    upstream: api\n    redirect: /x
  - prefix: /c\n    respond: 204\n    retries: 2\n    rewrite: { prefix: / }
  - path: /d\n    prefix: /d\n    upstream: api
  - path: /e\n    upstream: api\n    rewrite: { prefix: /x }
  - prefix: /f\n    upstream: api\n    rewrite: { prefix: /x, path: /y }
  - prefix: /g\n    upstream: api\n    rewrite: {}
  - prefix: /h\n    upstream: api\n    send_host: endpont\n"
    ));
}

#[test]
fn templates_that_are_none() {
    assert_snapshot!(routes(
        "  - path: /a/{id}\n    redirect: \"https://{hots}/{ids}/{id}\"
  - prefix: /b\n    redirect: {path}
  - prefix: /c\n    redirect: example.com/x
  - prefix: /d\n    redirect: { to: \"/x{\", status: 300 }
  - path: /e/{id}\n    upstream: api\n    rewrite: { path: \"/x/{host}\" }
  - prefix: /f\n    upstream: api\n    rewrite: { path: \"/x//y\" }
  - prefix: /g\n    redirect: \"/a\\r\\nX: y\"
  - path: /h/{id}\n    redirect: \"https://{id}.good@.example/x\"
  - prefix: /i\n    redirect: \"//ann:secret@host/@\"\n"
    ));
}

#[test]
fn responses_that_are_none() {
    assert_snapshot!(routes(
        "  - prefix: /a\n    respond: 100
  - prefix: /b\n    respond: { status: 204, body: hi }
  - prefix: /c\n    respond: { content_type: text/plain }
  - prefix: /d\n    respond: { headers: { Content-Length: 5, Content-Type: a, X-A: \"a\\nb\" } }\n"
    ));
}

#[test]
fn statuses_without_content_have_no_body() {
    for status in [204, 205, 304] {
        for body in ["body: hi", "template: '{path}'"] {
            let says = routes(&format!("  - respond: {{ status: {status}, {body} }}\n"));
            let message = format!("a response with status {status} cannot have a body");
            assert!(says.contains(&message), "{says}");
        }
        assert!(!routes(&format!("  - respond: {status}\n")).contains("error"), "{status}");
    }
}

#[test]
fn statuses_that_need_a_field_are_not_given_without() {
    for (status, field, value) in [
        (206, "Content-Range", "bytes 0-1/2"),
        (401, "WWW-Authenticate", "Basic realm=staff"),
        (405, "Allow", "GET, HEAD"),
        (407, "Proxy-Authenticate", "Basic realm=staff"),
    ] {
        let wanted = format!("a response with status {status} needs the header {field}");
        let says = routes(&format!("  - respond: {status}\n"));
        assert!(says.contains(&wanted), "{says}");
        // What is to be added can be pasted.
        let added = says.split_once("add `").and_then(|(_, rest)| rest.split_once('`'));
        let (added, _) = added.unwrap_or_else(|| panic!("{says}"));
        let pasted = routes(&format!("  - respond: {{ status: {status}, {added} }}\n"));
        assert!(!pasted.contains("error"), "{pasted}");
        let with = |field: &str| {
            routes(&format!(
                "  - respond: {{ status: {status}, headers: {{ {field}: '{value}' }} }}\n"
            ))
        };
        assert!(with("X-Other").contains(&wanted));
        assert!(!with(&field.to_lowercase()).contains("error"), "{field}");
    }
    let says = routes("  - respond: 426\n");
    assert!(says.contains("choose another status: the gateway sets this header itself"), "{says}");
}

#[test]
fn files_that_nothing_can_be_done_with() {
    for (files, wanted) in [
        ("fallback: /index.html", "the path is relative to `root`: write `index.html`"),
        ("fallback: ../index.html", "it leads outside `root`"),
        ("fallback: a//b", "it is empty"),
        ("error_pages: { 404: /404.html }", "the path is relative to `root`: write `404.html`"),
        ("error_pages: { 502: 502.html }", "a files route never responds with this status"),
        ("cache_rules: { cache_control: a }", "set `name` or `types`"),
        ("cache_rules: { name: '(', cache_control: a }", "a regular expression"),
        ("cache_rules: { types: html, cache_control: a }", "it has no `/`"),
    ] {
        let says = routes(&format!("  - files: {{ root: w, {files} }}\n"));
        assert!(says.contains(wanted), "{files}: {says}");
    }
}

#[test]
fn files_that_are_none() {
    assert_snapshot!(routes(
        "  - prefix: /a\n    files: \"\"
  - path: /b\n    files: { root: b, strip_prefix: true }
  - prefix: /c\n    files: { root: c, index: [a/b], precompressed: [br, br], types: { .css: a/b } }
  - prefix: /d\n    files: { index: a }
  - prefix: /e\n    files: e\n    timeouts: { write: 1s }\n"
    ));
}

#[test]
fn quantities_that_are_none() {
    assert_snapshot!(section(
        "limits: { head: 1TB, target: 8 kib, body: unlimted, trailers: 1.5KiB, chunk_line: 0, body_rate: of, pipeline: \"8\", fields: 1e3 }
timeouts: { head: 10, idle: 1.5m, body: 0s, write: 5 minutes, connect: 99999999999999999999s, response: 2d, drain: off }"
    ));
}

#[test]
fn limits_that_contradict_each_other() {
    assert_snapshot!(section("limits:\n  head: 4KiB\n  target: 8KiB"));
    assert_snapshot!(section("resolver:\n  max_ttl: 1s\n  min_ttl: 5s"));
}

#[test]
fn words_that_are_none() {
    assert_snapshot!(section(
        "workers: { threads: atuo, pin: yes }
forwarding: { server: remov, via: \"a b\", request_id: Host, x_forwarded: \"true\", trusted_proxies: [10.0.0.1/8, 10.0.0.0/33, all] }
resolver: { nameservers: [1.1.1.1, \"a:53\"] }
admin: of"
    ));
}

#[test]
fn balance_that_is_none() {
    assert_snapshot!(report(
        "listeners: [\":80\"]
routes: [{ upstream: { a: 1, b: 1, c: 1, d: 1 } }]
upstreams:
  a: { endpoints: a:1, balance: least_conn }
  b: { endpoints: a:1, balance: { sticky_cookie: { same_site: none, secure: false, name: \"a b\" } } }
  c: { endpoints: a:1, balance: { consistent_hash: client_adress } }
  d: { endpoints: a:1, balance: { consistent_hash: { header: X, cookie: y } } }
"
    ));
}

#[test]
fn what_is_allowed_but_hardly_meant() {
    assert_snapshot!(report(
        "listeners: [\":80\"]
admin: \":91\"
routes: [{ upstream: a }]
upstreams: { a: 127.0.0.1:80, b: b:1 }
"
    ));
}

#[test]
fn upstreams_that_cannot_speak_what_a_route_is_about() {
    assert_snapshot!(report(
        "listeners: [\":80\"]
routes:
  - { prefix: /web, upstream: { old: 1, new: 1 }, grpc_web: true }
  - { prefix: /ws, upstream: new, upgrades: [websocket] }
  - { prefix: /none, upstream: new, upgrades: [] }
upstreams:
  old: { endpoints: \"a:1\", protocol: auto }
  new: { endpoints: \"b:1\", protocol: h2 }
"
    ));
}

#[test]
fn long_lines_and_strange_characters() {
    let many: Vec<String> =
        (0..40).map(|n| format!("{{\"prefix\":\"/{n}\",\"respond\":204}}")).collect();
    let file = format!(
        "{{\"listeners\":[\":80\"],\"routes\":[{},{{\"prefix\":\"/日本/x y\",\"upstream\":\"\u{1b}[31m\u{202e}\"}}]}}",
        many.join(",")
    );
    assert_snapshot!(report(&file));
}

#[test]
fn colors_are_only_added() {
    let report = Config::parse("titan.yaml", "listeners: 5\nrouts: []\n").unwrap_err();
    let colored = report.colored().to_string();
    assert_snapshot!(colored.replace('\x1b', "<esc>"));
    let sequence = regex::Regex::new("\x1b\\[[0-9;]*m").unwrap();
    assert_eq!(sequence.replace_all(&colored, ""), report.to_string());
}

/// The report on a listener with that about TLS beside its certificates, and on what follows.
fn tls(tls: &str, rest: &str) -> String {
    let pair = "certificates: [{ cert: a.pem, key: a.key }]";
    let rest = if rest.contains("routes:") { rest } else { "routes: [{ respond: 204 }]" };
    report(&format!("listeners:\n  - address: \":443\"\n    tls: {{ {pair}, {tls} }}\n{rest}\n"))
}

#[test]
fn what_clients_have_to_show_is_asked_of_somebody() {
    let clients = "client_certificates: { ca: ca.pem }";
    let route = "routes: [{ client_certificate: { subject: CN=a }, respond: 204 }]";
    assert_eq!(tls(clients, route), "");
    let says = tls("min_version: 1.2", route);
    assert!(says.contains("no listener requests client certificates"), "{says}");
    assert!(says.contains("titan.yaml:4:10"), "{says}");
    let forwarding = "forwarding: { client_cert: leaf }\nroutes: [{ respond: 204 }]";
    assert_eq!(tls(clients, forwarding), "");
    let says = tls("min_version: 1.2", forwarding);
    assert!(says.contains("titan.yaml:4:15"), "{says}");
    assert!(says.contains("there is no certificate to tell upstreams about"), "{says}");
}

#[test]
fn what_no_certificate_can_say_is_no_condition() {
    let clients = "client_certificates: { ca: ca.pem }";
    for (condition, wanted) in [
        ("{}", "this condition requires nothing"),
        ("presnt", "did you mean `present`?"),
        ("{ ip: 10.0.0.1:80 }", "this is not an IP address"),
        ("{ fingerprint: 'ab:cd' }", "it has 4 characters, not counting colons, instead of 64"),
        ("{ subjct: CN=a }", "did you mean `subject`?"),
        ("{ uri: { regex: '(' } }", "a regular expression"),
    ] {
        let route = format!("routes: [{{ client_certificate: {condition}, respond: 204 }}]");
        let says = tls(clients, &route);
        assert!(says.contains(wanted), "{condition}: {says}");
    }
}

#[test]
fn settings_of_tls_that_make_no_sense_are_refused() {
    for (setting, wanted) in [
        ("client_certificates: { mode: optional }", "`ca` is missing"),
        (
            "client_certificates: { ca: a, mode: maybe }",
            "expected `required`, `optional` or `ignore_invalid`",
        ),
        ("ciphers: [TLS_RSA_WITH_AES_128_CBC_SHA]", "`TLS_AES_128_GCM_SHA256`"),
        ("ciphers: []", "the list is empty"),
        ("ciphers: [TLS_AES_128_GCM_SHA256]", "the list has no cipher suite for TLS 1.2"),
        (
            "ciphers: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]",
            "the list has no cipher suite for TLS 1.3",
        ),
        (
            "min_version: 1.3, ciphers: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]",
            "have no effect with `min_version: 1.3`",
        ),
        ("hsts: 1", "expected"),
        ("hsts: { max_age: 365d, preload: true }", "browsers' preload lists do not accept this"),
        (
            "hsts: { max_age: 30d, include_subdomains: true, preload: true }",
            "browsers' preload lists do not accept this",
        ),
    ] {
        let says = tls(setting, "");
        assert!(says.contains(wanted), "{setting}: {says}");
    }
    assert_eq!(tls("min_version: 1.3, ciphers: [TLS_AES_128_GCM_SHA256]", ""), "");
}

#[test]
fn https_is_not_redirected_to_itself() {
    let says = report(
        "listeners:\n  - address: \":443\"\n    redirect_to_https: true\n    \
         tls: { certificates: [{ cert: a.pem, key: a.key }] }\nroutes: [{ respond: 204 }]\n",
    );
    assert!(says.contains("titan.yaml:3:5"), "{says}");
    assert!(says.contains("clients of this listener already use HTTPS"), "{says}");
    for (value, wanted) in [
        ("yes", "write `true`, without quotes"),
        ("0", "expected a whole number from 1 to 65535"),
        ("[443]", "expected a whole number from 1 to 65535"),
    ] {
        let says = report(&format!(
            "listeners: [{{ address: \":80\", redirect_to_https: {value} }}]\nroutes: [{{ respond: 204 }}]\n"
        ));
        assert!(says.contains(wanted), "{value}: {says}");
    }
}

#[test]
fn a_jwt_policy_that_would_protect_nothing_or_refuse_everything() {
    let jwt =
        |fields: &str| section(&format!("policies:\n  p: {{ jwt: {{ {fields} }} }}\napply: [p]"));
    let one = "providers: { algorithms: HS256, keys: { secret_file: k } }";
    let cases = [
        ("", "`providers` is missing"),
        ("providers: { algorithms: HS256 }", "`keys` is missing"),
        ("providers: { keys: { secret_file: k } }", "`algorithms` is missing"),
        ("providers: { algorithms: none, keys: { jwks: k } }", "expected"),
        ("providers: { algorithms: hs256, keys: { jwks: k } }", "expected"),
        ("providers: { algorithms: HS256, keys: { pem: k } }", "a shared secret"),
        ("providers: { algorithms: [RS256, HS256], keys: { pem: k } }", "a shared secret"),
        ("providers: { algorithms: [HS256, RS256], keys: { secret_file: k } }", "only with HS256"),
        ("providers: { algorithms: HS256, keys: { jwks_url: https://a } }", "cannot be fetched"),
        ("providers: { algorithms: RS256, keys: { jwks_url: a.example } }", "it has no scheme"),
        ("providers: { algorithms: RS256, keys: { jwks_url: ftp://a } }", "neither `https` nor"),
        ("providers: { algorithms: RS256, keys: { jwks_url: https://u@a/b } }", "malformed"),
        ("providers: { algorithms: RS256, keys: { jwks_url: 'https://a/b c' } }", "be percent"),
        ("providers: { algorithms: RS256, keys: { jwks_url: https://a/b#c } }", "be percent"),
        ("providers: { algorithms: RS256, keys: { jwks_url: http://a/b } }", "without TLS"),
        (
            "providers: { algorithms: RS256, keys: { jwks_url: { url: https://a, refresh: 1d } } }",
            "expire before they are fetched",
        ),
        (
            "providers: { algorithms: RS256, keys: { jwks_url: { url: https://a, max_stale: 10m } } }",
            "expire before they are fetched",
        ),
        ("providers: { algorithms: HS256, keys: { secret: short } }", "at least 32 bytes"),
        (
            "providers: { algorithms: [HS256, HS512], keys: { secret: 0123456789012345678901234567890123 } }",
            "at least 64 bytes",
        ),
        ("providers: { algorithms: RS256, keys: { pem: k, jwks: k } }", "exclude each other"),
        (
            "providers: [{ algorithms: RS256, keys: { jwks: k } }, { issuer: a, algorithms: RS256, keys: { jwks: k } }]",
            "give each an `issuer`",
        ),
        (
            "providers: [{ issuer: a, algorithms: RS256, keys: { jwks: k } }, { issuer: a, algorithms: RS256, keys: { jwks: k } }]",
            "two providers have the issuer `a`",
        ),
        (&format!("{one}, headers: {{ Host: sub }}"), "sets this header itself"),
        (&format!("{one}, headers: {{ transfer-encoding: sub }}"), "sets this header itself"),
        (&format!("{one}, headers: {{ X-Forwarded-For: sub }}"), "has its own key"),
        (&format!("{one}, headers: {{ X_Forwarded_For: sub }}"), "has its own key"),
        (&format!("{one}, headers: {{ X-Real-IP: sub }}"), "has its own key"),
        (&format!("{one}, headers: {{ Client-Cert: sub }}"), "has its own key"),
        (&format!("{one}, headers: {{ X-Request-Id: sub }}"), "has its own key"),
        (&format!("{one}, headers: {{ cookie: sub }}"), "has another meaning"),
        (&format!("{one}, headers: {{ X-A: sub, x-a: iss }}"), "two claims use the same header"),
        (&format!("{one}, headers: {{ X-A: /a~2 }}"), "JSON pointer"),
        (&format!("{one}, realm: 'a\"b'"), "printable ASCII"),
        (&format!("{one}, leeway: 1h"), "expected"),
        (&format!("{one}, token: {{ scheme: a, cookie: b }}"), "exclude each other"),
        (&format!("{one}, token: []"), "the list is empty"),
    ];
    for (fields, message) in cases {
        let report = jwt(fields);
        assert!(report.contains(message) && report.contains("titan.yaml:2:"), "{fields}: {report}");
    }
    assert_eq!(jwt(one), "");
}

#[test]
fn a_secret_is_shown_nowhere() {
    let text = "listeners: [\":80\"]\nroutes: [{ respond: 204, apply: [p] }]\npolicies: { p: { jwt: { providers: \
        { algorithms: HS256, keys: { secret: 0123456789012345678901234567890123 } } } } }";
    let config = Config::parse("titan.yaml", text).unwrap();
    assert!(!format!("{config:?} {}", config.summary()).contains("01234567"), "{config:?}");
}

#[test]
fn an_address_is_no_file() {
    let text = report(
        "listeners: [\":80\"]
routes: [{ respond: 200, apply: [users] }]
policies:
  users:
    jwt: { providers: { algorithms: RS256, keys: { jwks: \"https://id.example/keys\" } } }
",
    );
    assert!(text.contains("expected a file, not a URL"), "{text}");
    assert!(text.contains("download it to a file first"), "{text}");
}
