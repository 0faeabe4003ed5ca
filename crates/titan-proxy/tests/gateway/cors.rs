//! Which pages may read responses.

use crate::tunnels::{WISH, connect};
use titan_testkit::h2::Head;
use titan_testkit::{Gateway, Response, gateway, scheme, upstream};

const ONE: &str = "routes: [{ prefix: /, upstream: u, methods: [GET, PUT], apply: [p] }]";

/// A gateway with that policy in front of an upstream that has its own view of pages.
fn under(policy: &str) -> (Gateway, upstream::Upstream) {
    let fields = "Access-Control-Allow-Origin: *\r\nAccess-control-max-age: 5\r\nX-A: 1\r\n";
    let upstream = upstream::replies(upstream::ok_with(fields, "x"));
    let text = format!("{ONE}\npolicies: {{ p: {{ cors: {{ {policy} }} }} }}");
    (gateway(&text, &[&upstream]), upstream)
}

/// What a page of that origin gets.
fn gets(gateway: &Gateway, origin: &str) -> Response {
    gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n\r\n"))
}

/// What a page is told that asks leave.
fn asks(gateway: &Gateway, origin: &str, method: &str, more: &str) -> Response {
    gateway.asks(&format!(
        "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n\
         Access-Control-Request-Method: {method}\r\n{more}\r\n"
    ))
}

// field: file.policies, policy.cors, cors.origins, cors_origin.regex
#[test]
fn pages_of_these_origins_may_read_responses() {
    let origins =
        "origins: [https://a.example, 'https://*.b.example:8443', { regex: 'http://c[0-9]+' }]";
    let (gateway, _upstream) = under(origins);
    for origin in [
        "https://a.example",
        "https://x.b.example:8443",
        "https://y.x.b.example:8443",
        "http://c12",
    ] {
        gets(&gateway, origin)
            .has_field("access-control-allow-origin", origin)
            .has_field("vary", "Origin")
            .has_body("x")
            .has_field("x-a", "1")
            .lacks("access-control-max-age")
            .lacks("access-control-allow-credentials");
    }
    for origin in [
        "https://a.example.evil",
        "http://a.example",
        "https://b.example:8443",
        "https://evil/.b.example:8443",
        "https://x.b.example",
        "http://c1.evil",
        "http://evil/http://c1",
        "null",
    ] {
        gets(&gateway, origin)
            .has_body("x")
            .lacks("access-control-allow-origin")
            .has_field("vary", "Origin");
    }
}

#[test]
fn every_page_may_read_what_is_for_all() {
    let (gateway, _upstream) = under("origins: '*'");
    gets(&gateway, "https://anywhere").has_field("access-control-allow-origin", "*").lacks("vary");
    // A cache may give a page what another client has requested.
    gateway.get("/").has_field("access-control-allow-origin", "*").lacks("vary");
}

// field: cors.methods, cors.headers, cors.max_age
#[test]
fn a_page_may_ask_for_what_the_policy_allows() {
    let (gateway, upstream) =
        under("origins: https://a, methods: [PUT], headers: [X-One, x-two], max_age: 1m");
    let options = "Access-Control-Request-Headers: x-one,X-TWO\r\n";
    asks(&gateway, "https://a", "PUT", options)
        .has_status(204)
        .has_field("access-control-allow-origin", "https://a")
        .has_field("access-control-allow-methods", "PUT")
        .has_field("access-control-allow-headers", "X-One, x-two")
        .has_field("access-control-max-age", "60")
        .has_field("vary", "Origin");
    for (origin, method, more) in [
        ("https://b", "PUT", ""),
        ("https://a", "GET", ""),
        ("https://a", "PUT", "Access-Control-Request-Headers: x-one, x-three\r\n"),
    ] {
        asks(&gateway, origin, method, more).has_problem(403, "cors-refused");
    }
    assert_eq!(upstream.requests(), []);
}

#[test]
fn any_field_may_be_sent_where_the_policy_says_so() {
    let (gateway, _upstream) = under("origins: https://a, headers: '*', credentials: true");
    let options = "Access-Control-Request-Headers: x-any, x-other\r\n";
    asks(&gateway, "https://a", "GET", options)
        .has_status(204)
        .has_field("access-control-allow-headers", "x-any, x-other");
}

#[test]
fn any_method_may_be_used_where_the_policy_says_so() {
    let (gateway, _upstream) = under("origins: https://a, methods: '*', expose: [X-A]");
    for method in ["PUT", "GET"] {
        asks(&gateway, "https://a", method, "")
            .has_status(204)
            .has_field("access-control-allow-methods", method)
            .has_field("access-control-expose-headers", "X-A");
    }
    asks(&gateway, "https://b", "PUT", "").has_problem(403, "cors-refused");
}

// field: cors.expose, cors.credentials, cors.private_network
#[test]
fn responses_say_what_pages_may_do_with_them() {
    let (gateway, _upstream) =
        under("origins: https://a, expose: [X-A, X-B], credentials: true, private_network: true");
    gets(&gateway, "https://a")
        .has_field("access-control-expose-headers", "X-A, X-B")
        .has_field("access-control-allow-credentials", "true");
    let options = "Access-Control-Request-Private-Network: true\r\n";
    asks(&gateway, "https://a", "GET", options)
        .has_field("access-control-allow-private-network", "true")
        .has_field("access-control-allow-credentials", "true");
}

#[test]
fn a_page_can_read_why_the_gateway_failed() {
    let text = "routes: [{ prefix: /, upstream: u, apply: [p], retries: 0 }]
policies: { p: { cors: { origins: https://a } } }";
    let closed = upstream::listens();
    let address = closed.address();
    drop(closed);
    let gateway = gateway(text, &[&address]);
    gets(&gateway, "https://a")
        .has_field("access-control-allow-origin", "https://a")
        .has_problem(502, "connect");
}

#[test]
fn an_options_request_that_is_no_preflight_passes() {
    let text = "routes: [{ prefix: /, upstream: u, apply: [p] }]
policies: { p: { cors: { origins: https://a } } }";
    let upstream = upstream::replies(upstream::ok("x"));
    let gateway = gateway(text, &[&upstream]);
    gateway.asks("OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://a\r\n\r\n").has_body("x");
}

// field: file.apply, route.apply, route.without
#[test]
fn routes_choose_their_policies() {
    let text = "policies:
  ours: { cors: { origins: https://ours } }
  theirs: { cors: { origins: https://theirs } }
apply: [ours]
routes:
  - { prefix: /, respond: 204 }
  - { prefix: /theirs, respond: 204, apply: [theirs] }
  - { prefix: /nobody, respond: 204, without: [cors] }";
    let gateway = gateway(text, &[]);
    let may = |path: &str, origin: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n\r\n");
        gateway.asks(&request).field("access-control-allow-origin").is_some()
    };
    assert!(may("/", "https://ours") && !may("/", "https://theirs"));
    assert!(!may("/theirs", "https://ours") && may("/theirs", "https://theirs"));
    assert!(!may("/nobody", "https://ours") && !may("/nobody", "https://theirs"));
}

const NO_TUNNEL: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// Asks for a WebSocket with these fields, over HTTP/1.1 and over HTTP/2: whether the upstream got to see both.
#[track_caller]
fn may_open(gateway: &Gateway, fields: &[(&str, &str)]) -> bool {
    let lines = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let host = format!("Host: a\r\n{}", lines.collect::<String>());
    let head = fields.iter().fold(connect(), |head, (name, value)| head.with(name, value));
    let mut client = gateway.connects_h2();
    let stream = client.starts(&head);
    let responses =
        [gateway.asks(&WISH.replacen("Host: a\r\n", &host, 1)), client.response(stream)];
    let [first, second] = responses.map(|response| match response.status {
        404 => true,
        _ => {
            response.has_problem(403, "origin-refused").lacks("access-control-allow-origin");
            false
        }
    });
    assert_eq!(first, second, "{fields:?}");
    first
}

// field: cors.websockets
#[test]
fn pages_of_other_origins_open_no_websockets() {
    let upstream = upstream::replies(NO_TUNNEL);
    let under = |cors: &str| {
        let text = format!(
            "forwarding: {{ trusted_proxies: [127.0.0.1] }}\napply: [p]\npolicies: {{ p: {{ cors: {{ {cors} }} }} }}"
        );
        gateway(&text, &[&upstream])
    };
    let own = &*format!("{}://a", scheme());
    for cors in ["credentials: true", "websockets: true"] {
        let gateway = under(&format!("origins: https://page.example, {cors}"));
        for origin in ["https://page.example", own] {
            assert!(may_open(&gateway, &[("origin", origin)]), "{origin}");
        }
        assert!(may_open(&gateway, &[]), "no browser");
        for origin in ["https://evil.example", "null", "", "ftp://a", "http://a:81", "https://a:81"]
        {
            assert!(!may_open(&gateway, &[("origin", origin)]), "{origin}");
        }
        let behind_tls = [("x-forwarded-proto", "https"), ("x-forwarded-host", "b:443")];
        let [proto, host] = behind_tls;
        assert!(may_open(&gateway, &[("origin", "https://b"), proto, host]));
        assert!(!may_open(&gateway, &[("origin", "http://b"), proto, host]));
        // Proxies that add to what they get: what its client has written stands first.
        let list = [("x-forwarded-proto", "http, https"), ("x-forwarded-host", "c, b")];
        let [proto, host] = list;
        let (one, two) = ("127.0.0.9, 192.0.2.1", "192.0.2.1, 127.0.0.1");
        let may = |page, via| {
            may_open(&gateway, &[("origin", page), proto, host, ("x-forwarded-for", via)])
        };
        assert!(may("https://b", one) && !may("http://c", one));
        assert!(may("http://c", two) && !may("https://b", two), "one proxy before another");
    }
    for cors in [
        "origins: https://page.example",
        "origins: https://page.example, credentials: true, websockets: false",
        "origins: '*'",
    ] {
        assert!(may_open(&under(cors), &[("origin", "https://evil.example")]), "{cors}");
    }
}

#[test]
fn pages_are_compared_with_what_a_trusted_forwarded_says() {
    let upstream = upstream::replies(NO_TUNNEL);
    let under = |trusted: &str| {
        let text = format!(
            "forwarding: {{ trusted_proxies: {trusted}, trusted_field: forwarded }}\napply: [p]\n\
             policies: {{ p: {{ cors: {{ origins: https://page.example, credentials: true }} }} }}"
        );
        gateway(&text, &[&upstream])
    };
    let own = &*format!("{}://a", scheme());
    let told =
        ("forwarded", "for=1.1.1.1;host=evil.example, for=192.0.2.1;host=\"b:443\";proto=https");
    let trusting = under("[127.0.0.1]");
    assert!(may_open(&trusting, &[("origin", "https://b"), told]));
    assert!(may_open(&trusting, &[("origin", own)]));
    assert!(may_open(
        &trusting,
        &[("origin", "https://b"), ("forwarded", "for=_x;host=b;proto=https")]
    ));
    for page in ["http://b", "https://evil.example", own] {
        assert!(!may_open(&trusting, &[("origin", page), told]), "{page}");
    }
    let other = [("x-forwarded-proto", "https"), ("x-forwarded-host", "evil.example")];
    let [proto, host] = other;
    assert!(!may_open(&trusting, &[("origin", "https://evil.example"), proto, host]));
    assert!(!may_open(&under("[]"), &[("origin", "https://b"), told]));
}

#[test]
fn what_a_stranger_says_of_its_scheme_and_host_makes_no_origin_the_own_one() {
    let upstream = upstream::replies(NO_TUNNEL);
    let text = "apply: [p]\npolicies: { p: { cors: { origins: https://b, credentials: true } } }";
    let gateway = gateway(text, &[&upstream]);
    let told = [("x-forwarded-proto", "https"), ("x-forwarded-host", "evil.example")];
    let [proto, host] = told;
    assert!(!may_open(&gateway, &[("origin", "https://evil.example"), proto, host]));
}

const EVERYWHERE: &str = "limits: { head: 1KiB, target: 1KiB }
apply: [p]
policies:
  p: { cors: { origins: https://a, methods: [GET, PUT], credentials: true } }
  q: { cors: { origins: https://b, methods: [GET, PUT] } }
routes: [{ path: /one, methods: [GET], respond: 200 },
  { path: /guarded, methods: [PUT], headers: { x-b: { present: true } }, respond: 200, apply: [q] }]";

#[test]
fn a_page_can_read_responses_without_a_route() {
    let gateway = gateway(EVERYWHERE, &[]);
    let asks = |request: &str, rest: &str| {
        gateway.asks(&format!("{request} HTTP/1.1\r\nHost: a\r\nOrigin: https://a\r\n{rest}"))
    };
    let readable = |response: Response, status: u16, code: &str| {
        response
            .has_field("access-control-allow-origin", "https://a")
            .has_field("access-control-allow-credentials", "true")
            .has_field("vary", "Origin")
            .has_problem(status, code);
    };
    readable(asks("GET /none", "\r\n"), 404, "no-route");
    readable(asks("PUT /one", "\r\n"), 405, "method-not-allowed");
    readable(asks("GET /a%00b", "\r\n"), 400, "bad-path");
    readable(asks("GET /one", "bad line\r\n\r\n"), 400, "malformed");
    readable(asks("GET /one", "Host: b\r\n\r\n"), 400, "malformed");
    readable(asks("GET /one", &format!("X: {}\r\n\r\n", "x".repeat(1_100))), 431, "malformed");
    let mut client = gateway.connects_h2();
    let page = |method: &str, path: &str| Head::request(method, path).with("origin", "https://a");
    for (head, status, code) in [
        (page("GET", "/none"), 404, "no-route"),
        (page("PUT", "/one"), 405, "method-not-allowed"),
        (page("GET", "/a%00b"), 400, "bad-path"),
        (page("GET", "/one").with("x", "x".repeat(1_100)), 431, "malformed"),
    ] {
        let stream = client.asks(&head);
        readable(client.response(stream), status, code);
    }
    gateway
        .asks("GET /none HTTP/1.1\r\nHost: a\r\nOrigin: https://b\r\n\r\n")
        .lacks("access-control-allow-origin")
        .has_problem(404, "no-route");
}

#[test]
fn a_page_may_ask_for_what_no_route_takes_to_see_that() {
    let gateway = gateway(EVERYWHERE, &[]);
    let asks = |path: &str, origin: &str, method: &str| {
        gateway.asks(&format!(
            "OPTIONS {path} HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: {method}\r\n\r\n"
        ))
    };
    for path in ["/none", "/one"] {
        asks(path, "https://a", "PUT")
            .has_status(204)
            .has_field("access-control-allow-origin", "https://a")
            .has_field("access-control-allow-methods", "GET, PUT");
    }
    asks("/none", "https://a", "DELETE").has_problem(404, "no-route");
    asks("/none", "https://b", "PUT").lacks("access-control-allow-origin").has_status(404);
    // The request that is to come may fulfil the conditions of a route that other pages may ask.
    asks("/guarded", "https://a", "PUT").has_problem(404, "no-route");
}
