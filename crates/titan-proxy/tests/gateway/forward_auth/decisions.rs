//! Decisions that are remembered.

use super::{asks, says, under};
use titan_testkit::h2::Head;
use titan_testkit::{Gateway, Upstream, upstream, waits_until};

/// A service that allows every user named `ann`, and says so.
fn service(fields: &'static str) -> Upstream {
    upstream::responds(move |request| match request.field("authorization") {
        Some("ann") => says("200", &format!("X-User: ann\r\n{fields}"), "").into_bytes(),
        _ => says("401", &format!("WWW-Authenticate: x\r\n{fields}"), "sign in").into_bytes(),
    })
}

const ANN: &str = "Authorization: ann\r\n";
const EVE: &str = "Authorization: eve\r\n";

fn counts(gateway: &Gateway) -> (u64, u64) {
    let metrics = gateway.metrics();
    let hits = metrics.of_policies("titan_forward_auth_cache_hits_total", "");
    (hits, metrics.of_policies("titan_forward_auth_cache_misses_total", ""))
}

// field: forward_auth.cache
#[test]
fn a_decision_is_used_again_for_a_while() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), service(""));
    let gateway = under(&to, &auth, "upstream_headers: X-User, cache: { ttl: 1h }", "workers: 1");
    for _ in 0..3 {
        asks(&gateway, &format!("{ANN}X-User: root\r\n")).has_status(200);
        let refused = asks(&gateway, EVE).has_status(401).has_body("sign in");
        refused.has_field("www-authenticate", "x");
    }
    assert_eq!(auth.requests().len(), 2);
    assert_eq!(counts(&gateway), (4, 2));
    let sent = to.requests();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|request| request.all("x-user") == ["ann"]));
    // All that the service sees decides.
    asks(&gateway, &format!("{ANN}Cookie: a=1\r\n")).has_status(200);
    gateway.asks(&format!("GET /other HTTP/1.1\r\nHost: a\r\n{ANN}\r\n")).has_status(200);
    gateway.asks(&format!("GET / HTTP/1.1\r\nHost: b\r\n{ANN}\r\n")).has_status(200);
    gateway
        .asks(&format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n{ANN}\r\n"))
        .has_status(200);
    asks(&gateway, "").has_status(401);
    assert_eq!(auth.requests().len(), 7);
}

// field: auth_cache.ttl
#[test]
fn a_decision_is_forgotten() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), service(""));
    let gateway = under(&to, &auth, "cache: { ttl: 1s }", "workers: 1");
    asks(&gateway, ANN).has_status(200);
    waits_until("it is asked for again", || {
        asks(&gateway, ANN).has_status(200);
        auth.requests().len() == 2
    });
}

// field: auth_cache.key, auth_key.header
#[test]
fn a_decision_depends_on_what_the_policy_says() {
    let alike = |forward: &str, requests: [&str; 2]| {
        let (to, auth) =
            (upstream::replies(upstream::ok("x")), upstream::replies(says("200", "", "")));
        let gateway =
            under(&to, &auth, forward, "workers: 1\nforwarding: { trusted_proxies: [127.0.0.1] }");
        requests.iter().for_each(|request| drop(gateway.asks(request)));
        auth.requests().len() == 1
    };
    let of = |line: &str, fields: &str| format!("{line} HTTP/1.1\r\n{fields}\r\n");
    let first = of(
        "GET /a?b",
        "Host: a\r\nAuthorization: ann\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n",
    );
    let cases = [
        ("method", "GET", "HEAD"),
        ("path", "/a", "/b"),
        ("query", "?b", "?c"),
        ("query", "?b", ""),
        ("host", "Host: a", "Host: b"),
        ("client_address", "192.0.2.1", "192.0.2.2"),
        ("scheme", "Proto: http", "Proto: https"),
        ("{ header: Authorization }", "ann", "eve"),
        ("{ header: Authorization }", "Authorization", "Other"),
    ];
    for (key, part, other) in cases {
        let second = first.replace(part, other);
        // Each field that is sent has to be in the key.
        let with = |key: &str| {
            let send = if key.contains("header") { "[Authorization]" } else { "[]" };
            format!("request_headers: {send}, cache: {{ ttl: 1h, key: [{key}] }}")
        };
        let is_alike = alike(&with(key), [&first, &second]);
        assert!(!is_alike, "{key}: {part} and {other}");
        let rest = if key == "method" { "host" } else { "method" };
        assert!(alike(&with(rest), [&first, &second]), "{rest}: {part} and {other}");
    }
}

/// Services redirect users without a session, with the requested page in the address or in the body.
#[test]
fn a_refusal_is_for_requests_that_the_service_cannot_tell_apart() {
    let auth = upstream::responds(|request| {
        let uri = request.field("x-forwarded-uri").unwrap_or_default();
        match request.field("cookie") {
            Some("s=1") => says("200", "", "").into_bytes(),
            Some(_) => says("401", "", &format!("sign in for {uri}")).into_bytes(),
            None => says("302", &format!("Location: /login?rd={uri}\r\n"), "").into_bytes(),
        }
    });
    let to = upstream::replies(upstream::ok("x"));
    let forward = "request_headers: Cookie, cache: { ttl: 1h, key: [{ header: Cookie }, host] }";
    let gateway = under(&to, &auth, forward, "workers: 1");
    let asks = |path: &str, fields: &str| {
        gateway.asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    for path in ["/reset?token=secret", "/", "/"] {
        let login = format!("/login?rd={path}");
        asks(path, "").has_status(302).has_field("location", &login);
        let page = format!("sign in for {path}");
        asks(path, "Cookie: s=2\r\n").has_status(401).has_body(&page);
        asks(path, "Cookie: s=1\r\n").has_status(200);
    }
    // Two refusals of each kind, and one consent for every page.
    assert_eq!(auth.requests().len(), 5);
}

// field: auth_cache.capacity
#[test]
fn so_many_decisions_are_remembered() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), service(""));
    let gateway = under(&to, &auth, "cache: { ttl: 1h, capacity: 2 }", "workers: 1");
    for path in ["/a", "/b", "/c", "/b", "/c"] {
        gateway.asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{ANN}\r\n")).has_status(200);
    }
    assert_eq!(auth.requests().len(), 3);
    gateway.asks(&format!("GET /a HTTP/1.1\r\nHost: a\r\n{ANN}\r\n")).has_status(200);
    assert_eq!(auth.requests().len(), 4);
}

#[test]
fn what_a_service_does_not_want_remembered_is_not() {
    for (fields, is_kept) in [
        ("Cache-Control: no-store\r\n", false),
        ("Cache-Control: max-age=60\r\nCache-Control: private\r\n", false),
        ("Set-Cookie: csrf=1\r\n", false),
        ("Cache-Control: max-age=60\r\n", true),
    ] {
        let (to, auth) = (upstream::replies(upstream::ok("x")), service(fields));
        let gateway = under(&to, &auth, "response_headers: [], cache: { ttl: 1h }", "workers: 1");
        for _ in 0..2 {
            asks(&gateway, ANN).has_status(200);
            asks(&gateway, EVE).has_status(401);
        }
        assert_eq!(auth.requests().len(), if is_kept { 2 } else { 4 }, "{fields}");
    }
}

/// What has gone wrong decides nothing.
#[test]
fn a_failure_is_not_remembered() {
    let to = upstream::replies(upstream::ok("x"));
    for status in ["500", "503", "429"] {
        let auth = upstream::replies(says(status, "", ""));
        let gateway = under(&to, &auth, "cache: { ttl: 1h }", "workers: 1");
        asks(&gateway, ANN);
        asks(&gateway, ANN);
        assert_eq!(auth.requests().len(), 2, "{status}");
    }
    assert!(to.requests().is_empty());
}

#[test]
fn a_call_is_refused_in_its_own_form_by_what_is_remembered() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), service(""));
    let gateway = under(&to, &auth, "cache: { ttl: 1h }", "workers: 1");
    let call = Head::post("/a.B/C").with("content-type", "application/grpc").with("te", "trailers");
    let mut client = gateway.connects_h2();
    for _ in 0..2 {
        let stream = client.starts(&call);
        client.response_head(stream).has_status(200).has_field("grpc-status", "16");
    }
    assert_eq!(auth.requests().len(), 1);
}
