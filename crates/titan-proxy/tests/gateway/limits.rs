//! How much a client or an endpoint may send: what is at a limit passes, what is over it is refused.

use crate::{QUIET, between, between_under};
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Gateway, Peer, gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A request under `limits` that gets `status` from the gateway, and one like it, at the limit, that passes.
#[track_caller]
fn is_limited(limits: &str, passes: &str, refused: &str, status: u16, code: &str) {
    let upstream = upstream::replies(ok("passed"));
    let gateway = gateway(&format!("limits: {{ {limits} }}"), &[&upstream]);
    gateway.asks(passes).has_status(200).has_body("passed");
    let mut client = gateway.connects();
    client.sends(refused);
    let response = client.response();
    assert_eq!(response.request_id().len(), 32, "{}", response.text());
    response.has_problem(status, code).has_field("connection", "close");
    client.expects_close();
    assert_eq!(upstream.requests().len(), 1, "{limits}");
}

/// A GET with a head of that many bytes.
fn head_of(bytes: usize) -> String {
    let rest = bytes - "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
    format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(rest))
}

/// A chunked POST with that text from its first chunk on.
fn chunked(rest: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{rest}")
}

// field: file.limits, limits.head
#[test]
fn a_head_has_a_limit() {
    let limits = "head: 1KiB, target: 1KiB";
    is_limited(limits, &head_of(1024), &head_of(1025), 431, "malformed");
}

// field: limits.target
#[test]
fn a_target_has_a_limit() {
    let target =
        |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(bytes - 1));
    is_limited("target: 64B", &target(64), &target(65), 414, "malformed");
}

// field: limits.fields
#[test]
fn the_fields_of_a_request_have_a_limit() {
    let fields =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(count - 1));
    is_limited("fields: 5", &fields(5), &fields(6), 431, "malformed");
}

// field: limits.field_names
#[test]
fn names_of_fields_are_plain_where_they_have_to_be() {
    let upstream = upstream::replies(ok("passed"));
    let strict = gateway("limits: { field_names: strict }", &[&upstream]);
    let asks = |field: &str| {
        let lines =
            format!("GET / HTTP/1.1\r\nHost: a\r\n{field}: 1\r\nConnection: {field}\r\n\r\n");
        strict.asks(&lines)
    };
    asks("X-Plain-2").has_status(200);
    for name in ["X_Odd", "X.Odd", "X~Odd", "_", "X!"] {
        let response = asks(name).has_problem(400, "field-name");
        assert_eq!(response.request_id().len(), 32);
    }
    assert_eq!(upstream.requests().len(), 1);

    let lenient = gateway("", &[&upstream]);
    lenient.asks("GET / HTTP/1.1\r\nHost: a\r\nX_Odd: 1\r\n\r\n").has_status(200);
    assert_eq!(upstream.requests()[1].field("x_odd"), Some("1"));
}

#[test]
fn names_of_fields_are_plain_in_http2_too() {
    let upstream = upstream::replies(ok("passed"));
    let gateway = gateway("limits: { field_names: strict }", &[&upstream]);
    let mut client = gateway.connects_h2();
    let odd = client.asks(&Head::get("/").with("x_odd", "1"));
    client.response(odd).has_problem(400, "field-name");
    let plain = client.asks(&Head::get("/").with("x-plain", "1"));
    client.response(plain).has_status(200);
}

#[test]
fn names_of_trailers_are_plain_where_they_have_to_be() {
    let upstream = upstream::listens();
    let gateway = gateway("limits: { field_names: strict }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(chunked("1\r\nx\r\n0\r\nX_Odd: 1\r\n\r\n"));
    client.response().has_problem(400, "field-name");

    let mut client = gateway.connects_h2();
    let stream = client.starts(&Head::post("/"));
    client.sends_data(stream, "x", false);
    client.sends_trailers(stream, &Head::default().with("x.odd", "1"));
    client.response(stream).has_problem(400, "field-name");
}

// field: limits.body
#[test]
fn a_body_of_known_length_has_a_limit() {
    let body = |bytes: usize| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n{}",
            "x".repeat(bytes)
        )
    };
    is_limited("body: 100B", &body(100), &body(101), 413, "body-too-large");
}

#[test]
fn a_body_that_is_too_long_is_refused_before_an_endpoint_is_chosen() {
    let upstream = upstream::listens();
    let gateway = gateway("limits: { body: 1KiB }", &[&upstream]);
    let mut client = gateway.connects();
    // Nothing of the body has to come for that.
    client.sends(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\nExpect: 100-continue\r\n\r\n",
    );
    client.response().has_problem(413, "body-too-large");
    client.expects_close();
    upstream.expects_no_connection();
}

#[test]
fn a_chunked_body_has_a_limit_on_its_way() {
    let body = |bytes: usize| chunked(&format!("{bytes:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(bytes)));
    is_limited("body: 100B", &body(100), &body(101), 413, "body-too-large");
}

// field: route.limits, route_limits.body
#[test]
fn a_route_has_its_own_limit_for_bodies() {
    let upstream = upstream::replies(ok(""));
    let text = "limits: { body: 10B }
routes:
- { path: /small, upstream: u, limits: { body: 5B } }
- { path: /large, upstream: u, limits: { body: unlimited } }
- { path: /usual, upstream: u }";
    let gateway = gateway(text, &[&upstream]);
    for (path, most) in [("/small", 5), ("/usual", 10), ("/large", 100_000)] {
        let post = |bytes: usize| {
            format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n{}",
                "x".repeat(bytes)
            )
        };
        gateway.asks(&post(most)).has_status(200);
        if most <= 10 {
            gateway.asks(&post(most + 1)).has_problem(413, "body-too-large");
        }
    }
}

// field: limits.chunk_line
#[test]
fn the_line_before_a_chunk_has_a_limit() {
    let line = |bytes: usize| chunked(&format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(bytes - 2)));
    is_limited("chunk_line: 16B", &line(16), &line(17), 400, "malformed");
}

// field: limits.trailers
#[test]
fn trailers_have_a_limit() {
    let trailers = |bytes: usize| chunked(&format!("0\r\nX: {}\r\n\r\n", "x".repeat(bytes - 7)));
    is_limited("trailers: 64B", &trailers(64), &trailers(65), 431, "malformed");
}

// field: limits.requests_per_connection
#[test]
fn a_connection_serves_as_many_requests_as_allowed() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("limits: { requests_per_connection: 3 }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(GET.repeat(4));
    client.response().has_body("x").lacks("connection");
    client.response().has_body("x").lacks("connection");
    // The last one says so, and what comes behind it is not served.
    client.response().has_body("x").has_field("connection", "close");
    client.expects_close();
    assert_eq!(upstream.requests().len(), 3);
}

// field: limits.pipeline
#[test]
fn a_read_brings_as_many_pipelined_requests_as_allowed() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("limits: { pipeline: 4 }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(GET.repeat(6));
    for _ in 0..4 {
        client.response().has_body("x").lacks("connection");
    }
    client.response().has_body("x").has_field("connection", "close");
    client.expects_close();
    // As many as one likes may come one after the other.
    let mut client = gateway.connects();
    for _ in 0..10 {
        client.sends(GET).response().has_body("x").lacks("connection");
    }
}

// field: listener.max_connections
#[test]
fn a_listener_accepts_as_many_as_allowed() {
    let upstream = upstream::replies(ok("x"));
    for workers in [1, 2] {
        let listener = "{ address: '127.0.0.1:0', max_connections: 2 }";
        let text = format!("workers: {workers}\nlisteners: [{listener}]");
        let gateway = gateway(&text, &[&upstream]);
        let mut inside: Vec<_> = (0..2).map(|_| gateway.connects()).collect();
        for client in &mut inside {
            client.sends(GET).response().has_body("x");
        }
        gateway.connects().rest();
        assert_eq!(gateway.metrics().sum(|cells| cells.refused.get()), 1, "{workers} workers");
        drop(inside.pop());
        waits_until("a place to become free", || gateway_lets_in(&gateway));
    }
}

#[test]
fn a_client_that_takes_all_connections_leaves_some_to_others() {
    let upstream = upstream::replies(ok("x"));
    let listener = "{ address: '127.0.0.1:0', max_connections: 16 }";
    let lets_in = |gateway: &Gateway, from: &str| {
        let mut client = Peer::connects_from(from, gateway.address());
        client.offers(GET).response_if_any().map(|_| client)
    };
    let gateway = gateway(&format!("listeners: [{listener}]"), &[&upstream]);
    let greedy: Vec<_> = (0..16).map_while(|_| lets_in(&gateway, "127.0.0.1")).collect();
    assert_eq!(greedy.len(), 14);
    // One that is counted together with the first has nothing left: of a thousand clients one is.
    let others = ["127.0.0.2", "127.0.0.3", "127.0.0.4"].map(|from| lets_in(&gateway, from));
    assert_eq!(others.iter().flatten().count(), 2);
    drop((greedy, others));
    waits_until("a place to become free", || gateway_lets_in(&gateway));
}

#[test]
fn a_trusted_proxy_has_all_connections() {
    let upstream = upstream::replies(ok("x"));
    let text = "listeners: [{ address: '127.0.0.1:0', max_connections: 16 }]\n\
                forwarding: { trusted_proxies: [127.0.0.1] }";
    let gateway = gateway(text, &[&upstream]);
    let mut clients: Vec<_> = (0..16).map(|_| gateway.connects()).collect();
    for client in &mut clients {
        client.sends(GET).response().has_body("x");
    }
}

fn gateway_lets_in(gateway: &Gateway) -> bool {
    gateway.connects().offers(GET).response_if_any().is_some()
}

// field: listener.max_connections_per_client
#[test]
fn a_client_gets_as_many_connections_as_allowed() {
    let upstream = upstream::replies(ok("x"));
    for workers in [1, 2] {
        let text = format!(
            "workers: {workers}\nlisteners: [{{ address: '127.0.0.1:0', max_connections_per_client: 2 }}]"
        );
        let gateway = gateway(&text, &[&upstream]);
        let mut inside: Vec<_> = (0..2).map(|_| gateway.connects()).collect();
        for client in &mut inside {
            client.sends(GET).response().has_body("x");
        }
        gateway.connects().rest();
        assert_eq!(gateway.metrics().sum(|cells| cells.refused.get()), 1);
        // Another client is not concerned.
        let mut other = Peer::connects_from("127.0.0.2", gateway.address());
        other.sends(GET).response().has_body("x");
        drop(inside.pop());
        waits_until("a place to become free", || gateway_lets_in(&gateway));
    }
}

/// A response under `limits` that becomes a 502, and one at the limit that passes.
#[track_caller]
fn response_is_limited(limits: &str, passes: &str, refused: &str) {
    let text = format!("limits: {{ {limits} }}");
    let (_held, mut client, mut endpoint) = between_under(&text, GET);
    endpoint.request();
    endpoint.sends(passes);
    client.response().has_status(200);
    client.sends(GET);
    endpoint.request();
    endpoint.offers(refused);
    client.response().has_problem(502, "malformed");
    endpoint.rest();
}

// field: limits.response_head
#[test]
fn the_head_of_a_response_has_a_limit() {
    let head = |bytes: usize| {
        let rest = bytes - "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: \r\n\r\n".len();
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: {}\r\n\r\n", "x".repeat(rest))
    };
    response_is_limited("response_head: 1KiB", &head(1024), &head(1025));
}

// field: limits.response_fields
#[test]
fn the_fields_of_a_response_have_a_limit() {
    let fields = |count: usize| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{}\r\n", "X: 1\r\n".repeat(count - 1))
    };
    response_is_limited("response_fields: 5", &fields(5), &fields(6));
}

#[test]
fn trailers_of_a_response_may_be_long() {
    let trailer = format!("X-Long: {}\r\n", "x".repeat(5000));
    let (_held, mut client, mut endpoint) = between(GET);
    endpoint.request();
    endpoint.sends(in_chunks(&trailer));
    let response = client.response().has_status(200).has_body("abc");
    assert_eq!(response.trailers, [("x-long".to_owned(), "x".repeat(5000))]);
}

// field: limits.response_trailers
#[test]
fn trailers_of_a_response_beyond_the_limit_are_dropped() {
    // The line that ends the section counts too.
    let fits = format!("X-A: {}\r\n", "x".repeat(100 - 9));
    let text = format!("{QUIET}\nlimits: {{ response_trailers: 100B, response_fields: 3 }}");
    for (trailers, kept) in [
        (fits.clone(), 1),
        (fits.replace("X-A", "X-AB"), 1),
        (fits.replace("X-A", "X-ABCD"), 0),
        ("X-A: 1\r\nX-B: 2\r\n".to_owned() + &"x".repeat(1 << 20), 2),
        ("X-A: 1\r\n".repeat(4), 3),
    ] {
        let (_held, mut client, mut endpoint) = between_under(&text, GET);
        endpoint.request();
        endpoint.offers(in_chunks(&trailers));
        let response = client.response().has_status(200).has_body("abc");
        assert_eq!(response.trailers.len(), kept, "{trailers:.20}");
        // The client's connection goes on, and the endpoint's where its response was read to its end.
        client.sends(GET);
        match trailers == fits {
            true => drop(endpoint.request()),
            false => drop(endpoint.rest()),
        }
    }
}

/// A response in chunks with these trailers.
fn in_chunks(trailers: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n{trailers}\r\n")
}
