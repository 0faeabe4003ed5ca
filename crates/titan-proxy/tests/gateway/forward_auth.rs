//! A service of the operator's decides about requests.

mod decisions;

use crate::tunnels::{CONSENT, WISH};
use std::fmt::Display;
use titan_proxy::BreakerState;
use titan_testkit::h2::Head;
use titan_testkit::{Gateway, Response, gateway, scheme, upstream, waits_until};

/// A gateway to the first of them under that question to the second, with more of a configuration.
fn under(to: &dyn Display, auth: &dyn Display, forward: &str, rest: &str) -> Gateway {
    let text = format!(
        "policies: {{ p: {{ authorise: {{ forward_auth: {{ upstream: auth, {forward} }} }} }} }}\n\
         apply: [p]\nupstreams: {{ u: $0, auth: {{ endpoints: $1 }} }}\n{rest}"
    );
    gateway(&text, &[to, auth])
}

fn asks(gateway: &Gateway, fields: &str) -> Response {
    gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

fn says(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len())
}

// field: forward_auth.upstream, forward_auth.path, forward_auth.request_headers
#[test]
fn a_service_sees_what_it_is_to_decide_about() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), upstream::replies(says("204", "", "")));
    let forward = "path: '/verify?realm=a', request_headers: [Authorization, X-Tenant]";
    let gateway = under(&to, &auth, forward, "");
    let request = "POST /a/../b?c=d HTTP/1.1\r\nHost: shop.example\r\nAuthorization: Bearer 1\r\n\
        X-Tenant: 1\r\nX-Tenant: 2\r\nCookie: s=1\r\nX-Forwarded-Uri: /open\r\n\
        X-Forwarded-For: 192.0.2.1\r\nConnection: X-Tenants\r\nContent-Length: 3\r\n\r\nabc";
    gateway.asks(request).has_status(200).has_body("x");
    let asked = auth.request();
    assert_eq!((asked.method.as_str(), asked.target.as_str()), ("GET", "/verify?realm=a"));
    assert_eq!(asked.field("x-forwarded-method"), Some("POST"));
    assert_eq!(asked.field("x-forwarded-uri"), Some("/b?c=d"));
    assert_eq!(asked.field("x-forwarded-host"), Some("shop.example"));
    assert_eq!(asked.field("x-forwarded-proto"), Some(scheme()));
    assert_eq!(asked.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(asked.field("authorization"), Some("Bearer 1"));
    assert_eq!(asked.all("x-tenant"), ["1", "2"]);
    assert_eq!(asked.field("host"), Some(auth.address().to_string().as_str()));
    for unasked in ["cookie", "content-length", "content-type", "transfer-encoding"] {
        assert_eq!(asked.field(unasked), None, "{unasked}");
    }
    assert!(asked.body.is_empty());
    let sent = to.request();
    assert_eq!((sent.method.as_str(), sent.text().as_str()), ("POST", "abc"));
    assert_eq!(sent.field("x-request-id"), asked.field("x-request-id"), "one request, one id");
    assert!(asked.field("x-request-id").is_some());
}

/// Else a transform that hides refusals from pages would open the route.
#[test]
fn what_a_service_says_is_for_its_policy_alone() {
    let transform =
        "status: { 403: 200, 200: 404 }, headers: { remove: X-User, set: { X-Role: root } }";
    for cache in ["", ", cache: { ttl: 1h }"] {
        let to = upstream::replies(upstream::ok("x"));
        let refuses = upstream::replies(says("403", "", "denied"));
        let admits = upstream::replies(says("200", "X-User: ann\r\nX-Role: guest\r\n", ""));
        let text = format!(
            "policies:\n  no: {{ authorise: {{ forward_auth: {{ upstream: no {cache} }} }} }}\n  \
               yes: {{ authorise: {{ forward_auth: {{ upstream: yes, upstream_headers: [X-User, X-Role] {cache} }} }} }}\n  \
               t: {{ transform: {{ response: {{ {transform} }} }} }}\n  \
               c: {{ cors: {{ origins: 'https://a.example' }} }}\napply: [t, c]\n\
             upstreams: {{ u: $0, no: {{ endpoints: $1 }}, yes: {{ endpoints: $2 }} }}\n\
             routes: [{{ prefix: /no, upstream: u, apply: no }}, {{ prefix: /yes, upstream: u, apply: yes }}]"
        );
        let gateway = gateway(&text, &[&to, &refuses, &admits]);
        for round in 1..=2 {
            let get = |path: &str| gateway.asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            // What is left of the refusal is what the client gets, through the transform.
            get("/no").has_status(200).has_body("denied");
            get("/yes").has_status(404).has_body("x");
            let sent = to.requests();
            let (last, count) = (sent.last().unwrap(), sent.len());
            assert_eq!((last.target.as_str(), count), ("/yes", round), "no other one was sent on");
            assert_eq!((last.field("x-user"), last.field("x-role")), (Some("ann"), Some("guest")));
        }
    }
}

// field: forward_auth.method
#[test]
fn a_service_is_asked_as_configured() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), upstream::replies(says("200", "", "")));
    let gateway = under(&to, &auth, "path: /", "");
    asks(&gateway, "Cookie: s=1\r\nAuthorization: Basic 1\r\nX-Tenant: 1\r\n").has_status(200);
    for (method, length) in [("HEAD", None), ("POST", Some("0"))] {
        let gateway = under(&to, &auth, &format!("method: {method}"), "");
        asks(&gateway, "").has_status(200);
        let asked = auth.requests().pop().unwrap();
        assert_eq!((asked.method.as_str(), asked.target.as_str()), (method, "/"));
        assert_eq!(asked.field("content-length"), length);
    }
    let asked = &auth.requests()[0];
    assert_eq!((asked.field("cookie"), asked.field("x-tenant")), (Some("s=1"), None));
    assert_eq!(asked.field("authorization"), Some("Basic 1"));
}

#[test]
fn a_trusted_proxy_is_believed_there_too() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), upstream::replies(says("200", "", "")));
    let rest = "forwarding: { trusted_proxies: [127.0.0.1], x_forwarded: false }";
    let gateway = under(&to, &auth, "", rest);
    let way = "X-Forwarded-For: 198.51.100.9, 192.0.2.1\r\nX-Forwarded-Proto: https\r\n\
        X-Forwarded-Host: shop.example\r\nX-Forwarded-Uri: /open\r\nVia: 1.1 edge\r\n";
    asks(&gateway, way).has_status(200);
    let asked = auth.request();
    assert_eq!(asked.field("x-forwarded-for"), Some("192.0.2.1"));
    assert_eq!(asked.field("x-forwarded-proto"), Some("https"));
    assert_eq!(asked.field("x-forwarded-host"), Some("shop.example"));
    assert_eq!(asked.field("x-forwarded-uri"), Some("/"));
    assert_eq!(asked.all("via"), ["1.1 edge", "1.1 titan"]);
    // The service may be behind this gateway.
    let passes = "Via: 1.1 titan\r\n".repeat(9);
    asks(&gateway, &passes).has_problem(502, "loop");
    assert_eq!((auth.requests().len(), to.requests().len()), (1, 1));
}

// field: forward_auth.upstream_headers
#[test]
fn what_a_service_says_of_the_client_goes_on() {
    let to = upstream::replies(upstream::ok("x"));
    let fields = "X-User: eve\r\nX-Roles: a\r\nX-Roles: b\r\nAuthorization: Bearer inside\r\n\
        X-Secret: 1\r\nConnection: X-Hop\r\nX-Hop: 1\r\n";
    let auth = upstream::replies(says("200", fields, "a page"));
    let take = "upstream_headers: [X-User, X-Roles, X-Absent, X-Hop, Authorization]";
    let open = "routes: [{ path: /open, upstream: u, without: [authorise] }, { upstream: u }]";
    let gateway = under(&to, &auth, take, open);
    let claims = "X-User: admin\r\nx_roles: root\r\nX-Absent: 1\r\nAuthorization: Bearer mine\r\n";
    asks(&gateway, claims).has_status(200).has_body("x").lacks("x-user").lacks("x-secret");
    let sent = to.request();
    assert_eq!(sent.field("x-user"), Some("eve"));
    assert_eq!(sent.all("x-roles"), ["a", "b"]);
    assert_eq!(sent.field("authorization"), Some("Bearer inside"));
    for absent in ["x_roles", "x-absent", "x-secret", "x-hop"] {
        assert_eq!(sent.field(absent), None, "{absent}");
    }
    gateway.asks(&format!("GET /open HTTP/1.1\r\nHost: a\r\n{claims}\r\n")).has_status(200);
    let sent = to.requests().remove(1);
    assert_eq!((sent.field("x-user"), sent.field("x_roles")), (None, None));
    assert_eq!(sent.field("authorization"), Some("Bearer mine"));
    assert_eq!((auth.requests().len(), auth.connections()), (1, 1));
}

// field: authorise.forward_auth, forward_auth.response_headers
#[test]
fn a_refusal_is_what_the_client_gets() {
    let to = upstream::replies(upstream::ok("x"));
    let auth = upstream::responds(|request| {
        let uri = request.field("x-forwarded-uri").unwrap_or_default();
        let fields = "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nLocation: /login\r\nServer: auth\r\n\
            WWW-Authenticate: Basic realm=\"x\"\r\nContent-Type: text/html\r\nX-Why: because\r\n\
            Cache-Control: no-store\r\nConnection: X-Why\r\n";
        says(&uri[1..], fields, "sign in").into_bytes()
    });
    let gateway = under(&to, &auth, "", "forwarding: { server: remove }");
    let mut client = gateway.connects();
    for status in [302, 401, 403, 404, 500] {
        let request = format!("GET /{status} HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.sends(request).response().has_status(status).has_body("sign in");
        let response =
            response.has_field("location", "/login").has_field("content-type", "text/html");
        let response = response.has_field("www-authenticate", "Basic realm=\"x\"");
        let response =
            response.has_field("cache-control", "no-store").lacks("x-why").lacks("server");
        assert_eq!(response.all("set-cookie"), ["a=1", "b=2"]);
    }
    client.sends("HEAD /401 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response_to("HEAD").has_status(401).has_body("").has_field("content-length", "7");
    // The unread rest of the client's body does not delay the response.
    client.sends("POST /403 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    client.response().has_status(403);
    let only = under(&to, &auth, "response_headers: X-Kind", "");
    let response = only.get("/401").has_status(401).lacks("www-authenticate").lacks("set-cookie");
    response.has_field("content-type", "text/html").has_body("sign in");
    assert!(to.requests().is_empty());
}

// field: forward_auth.body_limit
#[test]
fn a_refusal_has_a_body_that_is_not_too_large() {
    let to = upstream::replies(upstream::ok("x"));
    let auth = upstream::replies(says("403", "", "12345"));
    under(&to, &auth, "body_limit: 5", "").get("/").has_status(403).has_body("12345");
    under(&to, &auth, "body_limit: 4", "").get("/").has_problem(503, "auth-service");
    assert!(to.requests().is_empty());
}

// field: forward_auth.timeout
#[test]
fn nothing_goes_on_without_a_response_in_time() {
    let to = upstream::replies(upstream::ok("x"));
    let never = upstream::stalls();
    let gateway = under(&to, &never, "timeout: 100ms", "");
    gateway.get("/").has_problem(503, "auth-service");
    never.waits_for_open(0);
    let failures = gateway.status().upstreams()[1].sum(|cells| cells.failures.get());
    assert_eq!(failures, 1, "its health knows");
    let slow = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
    under(&to, &upstream::replies(slow), "timeout: 100ms", "")
        .get("/")
        .has_problem(503, "auth-service");
    assert!(to.requests().is_empty());
}

#[test]
fn nothing_goes_on_without_a_response_that_is_one() {
    let to = upstream::replies(upstream::ok("x"));
    let nobody = upstream::refuses();
    under(&to, &nobody, "", "").get("/").has_problem(503, "auth-service");
    for response in [
        "",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
        CONSENT,
        "hello\r\n\r\n",
        &format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(100_000)),
        &"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(20),
    ] {
        let auth = upstream::replies(response).then_closes();
        let start: String = response.chars().take(40).collect();
        let response = under(&to, &auth, "", "").get("/");
        assert_eq!(
            (response.status, response.problem().as_str()),
            (503, "auth-service"),
            "{start}"
        );
    }
    assert!(to.requests().is_empty());
}

/// Whatever stands in for the service elsewhere would let everybody pass here.
#[test]
fn nothing_stands_in_for_a_service_whose_circuit_breaker_is_open() {
    let (to, other) = (upstream::replies(upstream::ok("x")), upstream::replies(upstream::ok("y")));
    for fallback in ["off", "{ respond: 200 }", "{ upstream: other }"] {
        let auth = upstream::replies(says("500 No", "", ""));
        let text = format!(
            "policies: {{ p: {{ authorise: {{ forward_auth: {{ upstream: auth }} }} }} }}\n\
             apply: [p]\nroutes: [{{ upstream: u }}]\nupstreams:\n  u: $0\n  other: $2\n  \
             auth: {{ endpoints: $1, circuit_breaker: {{ consecutive_failures: 1, open_time: 1h, \
             max_open_time: 1h, fallback: {fallback} }} }}"
        );
        let gateway = gateway(&text, &[&to, &auth, &other]);
        gateway.get("/").has_status(500);
        waits_until("its breaker to be open", || {
            let auth = gateway.status().upstreams_now().into_iter().find(|it| it.name == "auth");
            let breaker = auth.and_then(|it| it.breaker).expect("it has one");
            breaker.status.state == BreakerState::Open
        });
        gateway.get("/").has_problem(503, "auth-service");
        assert_eq!(auth.requests().len(), 1, "{fallback}");
    }
    assert!(to.requests().is_empty() && other.requests().is_empty());
}

#[test]
fn a_connection_is_used_again_where_its_response_was_read() {
    let to = upstream::replies(upstream::ok("x"));
    let auth = upstream::responds(|request| {
        let length = request.field("x-forwarded-uri").and_then(|uri| uri[1..].parse().ok());
        says("200", "", &"a".repeat(length.unwrap_or_default())).into_bytes()
    });
    let gateway = under(&to, &auth, "", "");
    for length in [0, 1, 60_000, 10] {
        gateway.get(&format!("/{length}")).has_status(200).has_body("x");
    }
    assert_eq!(auth.connections(), 1);
    // More than is read: the request passes all the same, and the rest is dropped.
    gateway.get("/3000000").has_status(200).has_body("x");
    gateway.get("/1").has_status(200).has_body("x");
    assert_eq!((auth.connections(), to.requests().len()), (2, 6));
}

#[test]
fn a_kept_connection_that_has_died_costs_nothing() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), upstream::replies(says("200", "", "")));
    let gateway = under(&to, &auth, "", "");
    gateway.get("/").has_status(200);
    auth.closes_all();
    gateway.get("/").has_status(200);
    assert_eq!(auth.connections(), 2);
}

#[test]
fn a_client_that_leaves_takes_the_question_along() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), upstream::listens());
    let gateway = under(&to, &auth, "timeout: 60s", "");
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut service = auth.accepts();
    service.request();
    client.resets();
    service.expects_close();
    let mut client = gateway.connects_h2();
    client.starts(&Head::get("/"));
    let mut service = auth.accepts();
    service.request();
    client.into_peer().resets();
    service.expects_close();
    assert!(to.requests().is_empty());
}

#[test]
fn a_preflight_request_gets_its_response_before_the_service_is_asked() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), upstream::replies(says("401", "", "")));
    let text = "policies: { p: { authorise: { forward_auth: { upstream: auth } } }, \
         c: { cors: { origins: https://a } } }\napply: [c, p]\n\
         upstreams: { u: $0, auth: $1 }";
    let gateway = gateway(text, &[&to, &auth]);
    let preflight = "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://a\r\n\
        Access-Control-Request-Method: GET\r\n\r\n";
    gateway.asks(preflight).has_status(204);
    assert!(auth.requests().is_empty());
    let refused = asks(&gateway, "Origin: https://a\r\n").has_status(401);
    refused.has_field("access-control-allow-origin", "https://a");
}

#[test]
fn tunnels_are_opened_with_leave_alone() {
    let (to, auth) = (upstream::listens(), upstream::replies(says("401", "", "no")));
    let gateway = under(&to, &auth, "", "");
    gateway.asks(WISH).has_status(401).has_body("no");
    to.expects_no_connection();
    let auth = upstream::replies(says("200", "", ""));
    let gateway = under(&to, &auth, "", "");
    let mut client = gateway.connects();
    client.sends(WISH);
    let mut endpoint = to.accepts();
    endpoint.head();
    endpoint.sends(CONSENT);
    assert!(client.head().starts_with("HTTP/1.1 101 "));
    client.sends("ping");
    endpoint.expects("ping");
    let asked = auth.request();
    assert_eq!((asked.field("upgrade"), asked.field("connection")), (None, None));
    assert_eq!(asked.field("x-forwarded-uri"), Some("/chat"));
}

#[test]
fn calls_are_refused_in_their_own_form() {
    let to = upstream::replies(upstream::ok("x"));
    let call = Head::post("/a.B/C").with("content-type", "application/grpc").with("te", "trailers");
    for (status, grpc, code) in [
        ("401", "16", "auth-anonymous"),
        ("302", "16", "auth-anonymous"),
        ("403", "7", "auth-refused"),
        ("429", "14", "auth-service"),
        ("500", "14", "auth-service"),
    ] {
        let auth = upstream::replies(says(status, "Location: /login\r\n", "no"));
        let gateway = under(&to, &auth, "", "");
        let mut client = gateway.connects_h2();
        let stream = client.starts(&call);
        let response = client.response_head(stream).has_status(200).has_field("grpc-status", grpc);
        assert!(response.field("grpc-message").unwrap().contains(code), "{status}");
        response.lacks("location");
        let stream = client.asks(&Head::get("/"));
        assert_eq!(client.response(stream).status.to_string(), status);
    }
    assert!(to.requests().is_empty());
}

#[test]
fn a_service_of_http2_is_asked_too() {
    let to = upstream::replies(upstream::ok("x"));
    let auth = upstream::responds_h2(|request| {
        let uri = request.field("x-forwarded-uri").unwrap_or_default();
        says(&uri[1..], "X-User: eve\r\nLocation: /login\r\n", "page").into_bytes()
    });
    let text = "policies: { p: { authorise: { forward_auth: { upstream: auth, upstream_headers: X-User } } } }\n\
         apply: [p]\nupstreams: { u: $0, auth: { endpoints: $1, protocol: h2 } }";
    let gateway = gateway(text, &[&to, &auth]);
    gateway.get("/200").has_status(200).has_body("x");
    gateway.get("/302").has_status(302).has_body("page").has_field("location", "/login");
    gateway.get("/200").has_status(200);
    let sent = to.requests();
    assert!(sent.len() == 2 && sent.iter().all(|it| it.field("x-user") == Some("eve")));
    assert_eq!(auth.connections(), 1);
}

#[test]
fn another_endpoint_is_asked_where_one_is_not_there() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), upstream::replies(says("200", "", "")));
    let gone = upstream::refuses();
    let text = "policies: { p: { authorise: { forward_auth: { upstream: auth } } } }\n\
         apply: [p]\nupstreams: { u: $0, auth: [$1, $2] }";
    let gateway = gateway(text, &[&to, &auth, &gone]);
    for _ in 0..4 {
        gateway.get("/").has_status(200);
    }
    assert_eq!(auth.requests().len(), 4);
}
