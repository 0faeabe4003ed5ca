//! Clients that take their responses slowly, and what their endpoints have of that.

use titan_testkit::h2::{Client, Head, setting};
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{Gateway, gateway};

/// A gateway with these limits whose endpoint takes one connection; it responds to `/SIZE` with a body of that size.
fn one_connection(limits: &str) -> (Gateway, Upstream) {
    let upstream = upstream::responds(|request| {
        let size = request.target.trim_start_matches('/').parse().unwrap_or(0);
        ok(&"x".repeat(size))
    });
    let upstreams = "{ u: { endpoints: $0, max_connections: 1, queue: { timeout: 300ms } } }";
    let gateway = gateway(&format!("limits: {{ {limits} }}\nupstreams: {upstreams}"), &[&upstream]);
    (gateway, upstream)
}

/// A client that asks for that much, has the head, and gives its body no window.
fn stalls(gateway: &Gateway, size: usize) -> (Client, u32) {
    let mut client = gateway.connects_h2_with(&[(setting::INITIAL_WINDOW_SIZE, 0)]);
    client.holds_windows();
    let stream = client.asks(&Head::get(&format!("/{size}")));
    client.response_head(stream).has_status(200);
    (client, stream)
}

// field: limits.response_buffer
#[test]
fn a_response_that_fits_is_taken_from_its_endpoint() {
    for (buffer, size, is_free) in
        [("64KiB", 60_000, true), ("64KiB", 70_000, false), ("off", 1, false)]
    {
        let (gateway, _upstream) = one_connection(&format!("response_buffer: {buffer}"));
        let (mut client, stream) = stalls(&gateway, size);
        match is_free {
            true => drop(gateway.get("/1").has_status(200)),
            false => drop(gateway.get("/1").has_problem(503, "queue-timeout")),
        }
        // What was taken is there for the client when it wants it, to the last byte.
        client.gives(0, 100_000);
        client.gives(stream, 100_000);
        assert_eq!(client.takes_rest(stream).0.len(), size);
    }
}

// field: limits.response_memory
#[test]
fn what_is_read_ahead_is_bounded_in_sum() {
    let (gateway, _upstream) = one_connection("response_buffer: 1MiB, response_memory: 1MiB");
    // The second finds no memory left, and keeps the connection.
    let held = stalls(&gateway, 900_000);
    gateway.get("/1").has_status(200);
    let blocked = stalls(&gateway, 900_000);
    gateway.get("/1").has_problem(503, "queue-timeout");
    for (client, stream) in [held, blocked] {
        let mut client = client;
        client.gives(0, 1 << 20);
        client.gives(stream, 1 << 20);
        assert_eq!(client.takes_rest(stream).0.len(), 900_000);
    }
    let _again = stalls(&gateway, 900_000);
    gateway.get("/1").has_status(200);
}

#[test]
fn a_response_over_http1_is_taken_from_its_endpoint_too() {
    let (gateway, upstream) = one_connection("response_buffer: 16MiB");
    let size = 12 << 20;
    let mut client = gateway.connects();
    client.sends(format!("GET /{size} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.head();
    gateway.get("/1").has_status(200);
    assert_eq!(upstream.connections(), 1);
    assert_eq!(client.takes(size).len(), size);
    client.sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").response().has_body("x");
}
