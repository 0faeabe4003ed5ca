//! Explanations as they are printed.

mod files;
mod policies;
mod upstreams;

use super::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const CONFIG: &str = r#"
listeners:
  - { name: public, address: ":8080" }
  - unix:/run/titan.sock
routes:
  - name: item
    host: [api.example, "*.api.example"]
    path: /items/{id}
    methods: [GET, POST]
    upstream: { stable: 9, canary: 1 }
    rewrite: { path: "/v2/things/{id}" }
    limits: { body: 1KiB, retry_body: 512B }
    timeouts: { response: 5s }
  - name: item-beta
    host: api.example
    path: /items/{id}
    headers: { X-Beta: "yes", X-Debug: { present: false } }
    query: { v: { regex: "^[2-9]$" } }
    upstream: canary
    send_host: endpoint
  - { name: old, prefix: /old, redirect: "https://{host}/new{path}{query}" }
  - { name: split, path: "/to/{host}", redirect: "https://{host}.example/" }
  - name: hello
    path: /hello
    respond: { status: 203, body: "hi\n", headers: { X-Who: titan } }
upstreams:
  stable:
    endpoints: [{ address: "10.0.0.1:80", weight: 3 }, "10.0.0.2:80"]
    balance: { consistent_hash: { header: X-User } }
  canary: canary.internal:8000
"#;

#[track_caller]
fn told(method: &str, url: &str, fields: &[&str]) -> String {
    told_under(CONFIG, method, url, fields)
}

#[track_caller]
fn told_under(config: &str, method: &str, url: &str, fields: &[&str]) -> String {
    told_of(config, method, url, fields, None)
}

/// What is told of a request from that address.
#[track_caller]
fn told_from(from: &str, config: &str, fields: &[&str]) -> String {
    told_of(config, "GET", "http://a/", fields, Some(from.parse().unwrap()))
}

#[track_caller]
fn told_of(config: &str, method: &str, url: &str, fields: &[&str], from: Option<IpAddr>) -> String {
    let config = Config::parse("titan.yaml", config).unwrap_or_else(|report| panic!("{report}"));
    let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
    let asking = Asking { method, url, fields: &fields, certificate: None, from };
    let explanation = explain(&config, &Files::default(), &asking).unwrap();
    let text = explanation.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The lines from the response on.
fn response(method: &str, url: &str, fields: &[&str]) -> String {
    let text = told(method, url, fields);
    text.split_once("response ").map_or(text.clone(), |(_, rest)| rest.trim_start().to_owned())
}

#[test]
fn a_connection_that_a_tls_route_takes() {
    let config = "listeners: [{ address: ':443', tls: { certificates: { cert: a, key: b } }, tls_routes: [\
        { names: ['*.example', db.test], mode: passthrough, upstream: { a: 3, b: 1 } }, { names: w.example, mode: https }] },\
        ':80']\nroutes: [{ respond: 204 }]\nupstreams: { a: 'a:1', b: 'b:1' }";
    let told = |url| told_under(config, "GET", url, &[]);
    let taken = told("https://DB.example:443/x");
    let expected = "tls route *.example, db.test, passthrough: to `a`, `b`\nresponse";
    assert!(words(&taken).contains(expected), "{taken}");
    for url in
        ["https://w.example/", "https://other.test/", "https://192.0.2.1/", "http://db.test/"]
    {
        assert!(told(url).contains("204"), "{url}");
    }
}

/// The same with one space between words.
fn words(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_request_to_an_upstream_that_is_limited() {
    let text = told_under(
        "listeners: [':80']\nroutes: [{ upstream: a, importance: critical }]\n\
         upstreams: { a: { endpoints: 'a:1', concurrency: { max: 50 } } }",
        "GET",
        "http://a/",
        &[],
    );
    let line =
        "running   4 to 50 at once, by latency; 200 wait, for 20ms while more come than are served";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_request_of_a_route_that_matters_more_or_less() {
    for (route, pressure, told) in [
        ("upstream: a", "", None),
        ("upstream: a, importance: default", "", None),
        ("upstream: a, importance: critical", "", Some("critical: served before others that wait")),
        ("upstream: b, importance: critical", "", Some("critical, which changes nothing here")),
        (
            "upstream: a, importance: sheddable",
            "pressure: { shed: 85% }",
            Some(
                "sheddable: refused while the gateway is at 85% of its limits; served after others that wait",
            ),
        ),
        (
            "respond: 204, importance: sheddable",
            "",
            Some("sheddable: refused while the gateway is at 90% of its limits"),
        ),
        (
            "respond: 204, importance: sheddable",
            "pressure: off",
            Some("sheddable, which changes nothing here"),
        ),
    ] {
        let config = format!(
            "listeners: [':80']\nroutes: [{{ {route} }}]\n{pressure}\n\
             upstreams: {{ a: {{ endpoints: 'a:1', concurrency: adaptive }}, b: 'b:1' }}"
        );
        let text = told_under(&config, "GET", "http://a/", &[]);
        let line = text.lines().find_map(|line| line.strip_prefix("importance"));
        assert_eq!(line.map(str::trim_start), told, "{route} {pressure}");
    }
}

#[test]
fn a_request_to_an_upstream_that_is_hedged() {
    let told = |retries, hedge| {
        let text = format!(
            "listeners: [':80']\nroutes: [{{ upstream: a, retries: {retries} }}]\n\
             upstreams: {{ a: {{ endpoints: ['a:1', 'b:1'], hedge: {hedge} }} }}"
        );
        let told = told_under(&text, "GET", "http://a/", &[]);
        told.lines().find_map(|line| Some(line.strip_prefix("hedge ")?.trim().to_owned()))
    };
    assert_eq!(
        told(1, "p99.5").as_deref(),
        Some(
            "GET|HEAD|OPTIONS also go to a second endpoint after p99.5 of its latency, at least 10ms"
        )
    );
    assert_eq!(
        told(1, "{ after: 50ms, methods: GET }").as_deref(),
        Some("GET also go to a second endpoint after 50ms")
    );
    assert_eq!(told(0, "p95"), None);
}

/// Compares without the indentation of `expected`.
#[track_caller]
fn shows(text: &str, expected: &str) {
    let indent = expected.len() - expected.trim_start().len();
    let indent = expected.get(1..indent).unwrap_or("");
    let lines = expected.trim().lines();
    let expected: Vec<_> = lines.map(|line| line.strip_prefix(indent).unwrap_or(line)).collect();
    assert_eq!(text, expected.join("\n"));
}

#[test]
fn a_request_that_is_sent_on() {
    let text = told("GET", "http://api.example:8080/a/..//items/%34%32?v=1", &["X-Beta: no"]);
    shows(
        &text,
        r"
    request   GET /a/..//items/%34%32?v=1
    host      api.example:8080
    listener  public: :8080, the port of the URL
              unix:/run/titan.sock
    path      /items/42, the normal form of /a/..//items/%34%32
    tried     1. item-beta: no match: the header X-Beta is `no`; it must be `yes`
              2. item: matches
              3 more routes follow
    route     item, line 6: GET|POST api.example|*.api.example/items/{id}
    captured  id = `42`
    forwards  GET /v2/things/42?v=1
              Host: api.example:8080
    upstream  stable, 9 of 10 requests, consistent_hash of the header X-User
    endpoint  10.0.0.1:80, weight 3
              10.0.0.2:80
    health    no probes; all get requests if fewer than 30% are left
    ejection  after 5 failures in a row, or 50% of 20 requests or more in 10s that failed or got 500, 502-599
    budget    retries for 20% of its requests, and 10 a second
    upstream  canary, 1 of 10 requests, round_robin
    endpoint  canary.internal:8000
    health    no probes; all get requests if fewer than 30% are left
    ejection  after 5 failures in a row, or 50% of 20 requests or more in 10s that failed or got 500, 502-599
    budget    retries for 20% of its requests, and 10 a second
    timeouts  connect 5s, response 5s, response_body 60s, body 30s, write 30s, tunnel 3600s
    limits    body 1KiB, head 16KiB, target 8KiB, 100 fields, retry_body 512B
    retries   1: connect, refused_stream, reset_before_response; pauses from 25ms to 250ms
    upgrades  websocket
    ",
    );
}

#[test]
fn what_keeps_requests_from_an_upstream_that_fails() {
    let told = |breaker: &str| {
        let config = format!(
            "listeners: [':80']\nroutes: [{{ upstream: a }}]\nupstreams:\n  b: b:1\n  \
             a: {{ endpoints: a:1, circuit_breaker: {{ {breaker} }} }}"
        );
        let text = told_under(&config, "GET", "http://a/", &[]);
        let lines = text.lines().skip_while(|line| !line.starts_with("breaker"));
        lines.take(2).map(str::trim_start).collect::<Vec<_>>().join("\n")
    };
    shows(
        &told("slow_share: 80%, fallback: { upstream: b }"),
        r"
    breaker   opens if 50% of at least 20 requests in 10s fail, or 80% of at least 20 requests in 10s take longer than 2s
    then requests go to b, for 5s to 60s; 3 requests at a time try it, 3 close it
    ",
    );
    shows(
        &told("failure_share: off, consecutive_failures: 5, per: endpoint"),
        r"
    breaker   opens for an endpoint if 5 in a row fail
    then clients get 503, for 5s to 60s; 3 requests at a time try it, 3 close it
    ",
    );
}

#[test]
fn a_request_that_is_copied() {
    let config = "{ listeners: [':80'], upstreams: { u: a:1, v: b:1 }, routes: [{ upstream: u,
        mirror: { upstream: v, share: 2.5%, timeout: 3s, compare: { headers: [ETag, Vary], ignore: [/a, /b/*], samples: 5 } } }] }";
    let text = told_under(config, "GET", "http://a/", &[]);
    for line in [
        "mirror    2.5% of the requests are copied to v, with bodies of up to 64KiB, at most 100 at once, each for 3s",
        "          its responses are compared: the status, ETag, Vary, bodies of up to 64KiB without /a, /b/*; \
             5 that differ are shown, without values of members",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_route_with_conditions_that_hold() {
    let text = told("DELETE", "http://API.example/items/7?v=2#top", &["x-beta: yes"]);
    shows(
        &text,
        r"
    request   DELETE /items/7?v=2
    host      API.example
    listener  public: :8080
              unix:/run/titan.sock
    path      /items/7
    tried     1. item-beta: matches
              4 more routes follow
    route     item-beta, line 14: api.example/items/{id}
    captured  id = `7`
    forwards  DELETE /items/7?v=2
              Host: the host of the endpoint
    upstream  canary, round_robin
    endpoint  canary.internal:8000
    health    no probes; all get requests if fewer than 30% are left
    ejection  after 5 failures in a row, or 50% of 20 requests or more in 10s that failed or got 500, 502-599
    budget    retries for 20% of its requests, and 10 a second
    timeouts  connect 5s, response 60s, response_body 60s, body 30s, write 30s, tunnel 3600s
    limits    body 64MiB, head 16KiB, target 8KiB, 100 fields
    retries   1: connect, refused_stream, reset_before_response; pauses from 25ms to 250ms
    upgrades  websocket
    ",
    );
}

#[test]
fn unmet_conditions_are_shown_with_the_given_values() {
    let tried = |fields: &[&str]| {
        let text = told("GET", "http://api.example/items/7?v=1&v=x", fields);
        text.lines().find(|line| line.contains("item-beta")).unwrap_or_default().trim().to_owned()
    };
    let lines = [
        tried(&[]),
        tried(&["X-Beta: no", "X-Beta: maybe"]),
        tried(&["X-Beta: yes", "X-Debug: 1"]),
        tried(&["X-Beta: yes"]),
    ];
    shows(
        &lines.join("\n"),
        r"
    tried     1. item-beta: no match: the header X-Beta is missing; it must be `yes`
    tried     1. item-beta: no match: the header X-Beta is `no` and `maybe`; it must be `yes`
    tried     1. item-beta: no match: the header X-Debug is `1`; it must be absent
    tried     1. item-beta: no match: the query parameter v is `1` and `x`; it must match `^[2-9]$`
    ",
    );
}

#[test]
fn a_method_that_no_route_takes() {
    shows(
        &told("PUT", "/items/7", &["Host: x.api.example"]),
        r"
    request   PUT /items/7
    host      x.api.example
    listener  public: :8080
              unix:/run/titan.sock
    path      /items/7
    tried     1. item-beta: no match: its host is `api.example`
              2. item: no match: its method is `GET` or `POST`
              3. hello: no match: its path is `/hello`
              4. old: no match: its path is `/old/…`
              5. split: no match: its path is `/to/{host}`
    response  405 Method Not Allowed (method-not-allowed)
              This method is not allowed for this path.
              Allow: GET, POST, HEAD
    ",
    );
}

#[test]
fn a_path_that_no_route_takes() {
    shows(
        &response("GET", "http://other.example/items/7", &[]),
        r"
    404 Not Found (no-route)
              No route matches this request.
    ",
    );
}

#[test]
fn a_redirect() {
    shows(
        &response("GET", "http://a.example:81/old/x?y=z", &[]),
        r"
    308 Permanent Redirect
              Location: https://a.example:81/new/old/x?y=z
    ",
    );
}

#[test]
fn a_redirect_that_would_go_elsewhere() {
    shows(
        &response("GET", "http://a.example/to/evil:80", &[]),
        r"
    400 Bad Request (bad-rewrite)
              The rewritten path or redirect target is not valid.
              Here part of the path would become part of the host.
    ",
    );
}

#[test]
fn a_fixed_response() {
    shows(
        &response("GET", "http://a.example/hello", &[]),
        r"
    203
              3 bytes of text/plain; charset=utf-8
              X-Who: titan
    ",
    );
}

#[test]
fn a_body_over_the_limit() {
    let fields = ["Content-Length: 1025"];
    shows(
        &response("POST", "http://api.example/items/7", &fields),
        r"
    413 Content Too Large (body-too-large)
              The request body exceeds the limit.
              The limit of this route is 1KiB.
    ",
    );
}

#[test]
fn a_grpc_call_is_explained_in_its_own_terms() {
    let fields = ["Content-Type: application/grpc"];
    shows(
        &response("POST", "http://nobody.example/nothing", &fields),
        r"
    200 OK, grpc-status 12 Unimplemented (no-route)
              No route matches this request.
    ",
    );
}

#[test]
fn an_http2_upstream_is_shown_with_its_consequences() {
    let config = "listeners: [{ address: ':443', protocols: [h3, h2], tls: { certificates: { cert: a, key: b } } }]\n\
                  routes: [{ upstream: it, grpc_web: true }]\n\
                  upstreams: { it: { endpoints: 'a:1', protocol: h2 } }";
    let config = Config::parse("titan.yaml", config).unwrap();
    let field = "Content-Type: application/grpc-web-text".to_owned();
    let asking =
        Asking { method: "POST", url: "https://a/b", fields: &[field], ..Asking::default() };
    let text = explain(&config, &Files::default(), &asking).unwrap().to_string();
    for line in [
        ":443, TLS, HTTP/3, the port of the URL\n",
        "upstream  it, round_robin, HTTP/2\n",
        "grpc-web  translated to gRPC, and the response back\n",
        "upgrades  none: the upstream uses no HTTP/1.1\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn malformed_requests_are_explained_with_their_response() {
    let first = |method, url, fields: &[&str]| {
        let text = response(method, url, fields);
        text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
    };
    let lines = [
        first("GET", "/hello", &[]),
        first("GET", "/hello", &["Host: a", "Host: b"]),
        first("GET", "http://a/hello", &["Content-Length: 1", "Transfer-Encoding: chunked"]),
        first("GET", "http://a/hello", &["X : y"]),
        first("G(T", "http://a/hello", &[]),
        first("GET", "http://a/hello world", &[]),
        first("GET", "http://a/..", &[]),
        first("CONNECT", "a:443", &[]),
        first("GET", &format!("http://a/{}", "x".repeat(9 << 10)), &[]),
    ];
    shows(
        &lines.join("\n"),
        r"
    400 Bad Request (malformed) The request is malformed: the Host field is missing (RFC 9112 section 3.2).
    400 Bad Request (malformed) The request is malformed: there is more than one Host field (RFC 9112 section 3.2).
    400 Bad Request (malformed) The request is malformed: Content-Length beside Transfer-Encoding (RFC 9112 section 6.3).
    400 Bad Request (malformed) The request is malformed: there is white space before the colon (RFC 9112 section 5.1).
    400 Bad Request (malformed) The request is malformed: the method is not a token (RFC 9112 section 3.1).
    400 Bad Request (malformed) The request is malformed: the version is malformed (RFC 9112 section 2.3).
    400 Bad Request (bad-path) The path is not acceptable: the path leads above the root.
    501 Not Implemented (connect-method) CONNECT is not supported.
    414 URI Too Long (malformed) The request is malformed: the target exceeds its limit (RFC 9112 section 3).
    ",
    );
}

#[test]
fn the_asterisk_is_a_target_of_options() {
    let text = told("OPTIONS", "*", &["Host: a"]);
    assert!(text.contains("path      * (the server as a whole)\n"), "{text}");
}

#[test]
fn a_request_may_go_no_further_than_here() {
    let text =
        told("OPTIONS", "http://api.example/items/1?v=2", &["X-Beta: yes", "Max-Forwards: 0"]);
    assert!(text.contains("because Max-Forwards is 0") && !text.contains("forwards"), "{text}");
}

#[test]
fn what_cannot_be_asked() {
    let config = Config::parse("titan.yaml", CONFIG).unwrap();
    let refused = |url: &str, field: &str| {
        let fields = [field.to_owned()];
        let asking = Asking { method: "GET", url, fields: &fields, ..Asking::default() };
        explain(&config, &Files::default(), &asking).unwrap_err().to_string()
    };
    let lines = [
        refused("hello", "A: b"),
        refused("ftp://a/", "A: b"),
        refused("/", "A b"),
        refused("/", "A: b\r\nC: d"),
    ];
    shows(
        &lines.join("\n"),
        r#"
    `hello` is neither an absolute URL such as `http://host/path` nor a path such as `/path`
    `ftp://a/` is neither an absolute URL such as `http://host/path` nor a path such as `/path`
    `A b` is not a header: write it as `Name: value`
    "A: b\r\nC: d" contains a line break, which no part of a request may contain
    "#,
    );
}

#[test]
fn a_route_of_another_listener() {
    let config = "listeners: [{ name: inside, address: ':81' }, ':80']\nroutes:\n\
                  - { name: own, listeners: inside, respond: 200 }\n\
                  - { name: all, respond: 201 }";
    let tried = |url: &str| {
        let config = Config::parse("titan.yaml", config).unwrap_or_else(|it| panic!("{it}"));
        let asking = Asking { method: "GET", url, ..Asking::default() };
        let text = explain(&config, &Files::default(), &asking).unwrap().to_string();
        text.lines().filter(|line| line.contains("1. ")).map(str::trim).collect::<String>()
    };
    assert_eq!(tried("http://a:81/"), "tried     1. own: matches");
    let other = "tried     1. own: no match: its listener is `inside`";
    assert_eq!(tried("http://a/"), other);
    assert_eq!(tried("http://a:82/"), other);
}

/// The lines about a request to a gateway that asks for certificates, from a client that shows this one.
fn told_about(certificate: Option<&str>, url: &str) -> String {
    const CONFIG: &str = r#"
listeners:
  - { address: ":80", redirect_to_https: 8443 }
  - address: ":8443"
    tls: { certificates: [{ cert: a, key: a }], client_certificates: { ca: a, mode: optional } }
routes:
  - { name: billing, client_certificate: { dns: billing.example }, respond: 200 }
  - { name: known, client_certificate: present, respond: 201 }
  - { name: other, respond: 403 }
"#;
    let config = Config::parse("titan.yaml", CONFIG).unwrap_or_else(|report| panic!("{report}"));
    let certificate = certificate.map(str::as_bytes);
    let asking = Asking { method: "GET", url, certificate, ..Asking::default() };
    let explanation = explain(&config, &Files::default(), &asking);
    let text = explanation.map_or_else(|bad| bad.to_string(), |it| it.to_string());
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Made with openssl: `CN=shop,O=Example`, `DNS:Shop.Example`, `IP:192.0.2.7`.
const SHOP: &str = "\
-----BEGIN CERTIFICATE-----
MIIBuTCCAV6gAwIBAgIUMac056UOLcFCILepcA3Sspock3IwCgYIKoZIzj0EAwIw
ITEQMA4GA1UECgwHRXhhbXBsZTENMAsGA1UEAwwEc2hvcDAgFw0yNjExMjAxNzQ2
NDFaGA8yMTI2MTAyNzE3NDY0MVowITEQMA4GA1UECgwHRXhhbXBsZTENMAsGA1UE
AwwEc2hvcDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABIQPZPtLt72FjZA5f3OP
vAv84uf8lIWz198+9rIEG9v8xL7SjdDgu1VGyR+nALuMPgGLUkkNQ1srfW2dhr9O
mUqjcjBwMB0GA1UdDgQWBBRAXY+HTHfBetRRxMFROYiBXQQzTTAfBgNVHSMEGDAW
gBRAXY+HTHfBetRRxMFROYiBXQQzTTAPBgNVHRMBAf8EBTADAQH/MB0GA1UdEQQW
MBSCDFNob3AuRXhhbXBsZYcEwAACBzAKBggqhkjOPQQDAgNJADBGAiEA7zvQu//c
0u5a16YAFFWs4JUX3C3jPJdXRDAzOzy1xH0CIQDHLcx1EvsJg9/xXLrFEJjAFg2h
g9mXJt1RNDMwDOGLFw==
-----END CERTIFICATE-----
";

#[test]
fn a_certificate_is_looked_at() {
    let text = told_about(Some(SHOP), "https://a.example:8443/");
    for line in [
        "shown     subject: CN=shop,O=Example",
        "          dns: shop.example",
        "          ip: 192.0.2.7",
        "          fingerprint: 8056f95cf3dc1f9c741d8ef06e8989603c2cb66b2b741537049d22f018a1dfa1",
        "1. billing: no match: a DNS name in the client's certificate is `shop.example`; it must be `billing.example`",
        "2. known: matches",
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    let text = told_about(None, "https://a.example:8443/");
    assert!(
        text.contains("billing: no match: the client's certificate is missing; it must be present")
    );
    assert!(text.contains("other: matches"), "{text}");
    let text = told_about(Some("nothing"), "https://a.example:8443/");
    let wanted =
        "the client's certificate cannot be used: it contains no certificate in PEM format";
    assert_eq!(text, wanted);
}

#[test]
fn a_request_without_tls_is_sent_on() {
    let text = told_about(None, "http://a.example/x?y");
    assert!(text.contains("308 Permanent Redirect"), "{text}");
    assert!(text.contains("Location: https://a.example:8443/x?y"), "{text}");
    assert!(!text.contains("tried"), "{text}");
}

#[test]
fn look_alike_paths_are_shown() {
    let under = |paths: &str, path: &str| {
        let config = format!(
            "listeners: [':1']\n{paths}\nroutes:\n  - {{ name: guarded, prefix: /admin, respond: 403 }}\n  \
             - {{ name: open, prefix: /, upstream: a }}\nupstreams: {{ a: a:1 }}"
        );
        told_under(&config, "GET", &format!("http://a{path}"), &[])
    };
    let note = "upstreams may take the path for one of the route guarded: see `paths`";
    for path in ["/ADMIN", "/admin;x", "/admin%2Fx", "/%2Fadmin", "/Admin;x/y"] {
        let text = under("", path);
        assert!(text.contains(note) && text.contains("forwards"), "{text}");
    }
    assert!(!under("", "/other;x%2Fy").contains("upstreams may"));
    let all = "paths: { encoded_slashes: refuse, parameters: refuse, case: refuse }";
    let text = under(all, "/ADMIN");
    assert!(text.contains("400 Bad Request (path-case)") && text.contains(note), "{text}");
    assert!(under(all, "/admin;x").contains("400 Bad Request (path-parameter)"));
    assert!(under(all, "/%2Fother").contains("400 Bad Request (encoded-slash)"));
}
