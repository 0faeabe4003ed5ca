//! Connections that go on in another protocol.

use crate::timeouts::takes;
use crate::{QUIET, between, between_under};
use std::time::Duration;
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Peer, gateway, waits_until};

pub(crate) const WISH: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
pub(crate) const CONSENT: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
    Upgrade: WebSocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Both ends of a tunnel that has just been opened.
fn opens(client: &mut Peer, endpoint: &mut Peer) {
    endpoint.head();
    endpoint.sends(CONSENT);
    assert!(client.head().starts_with("HTTP/1.1 101 "));
}

#[test]
fn a_websocket_goes_through() {
    let (_held, mut client, mut endpoint) = between(WISH);
    let asked = endpoint.head();
    assert!(asked.contains("Upgrade: websocket\r\n"), "{asked}");
    assert!(asked.contains("Connection: Upgrade\r\n"), "{asked}");
    assert!(asked.contains("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), "{asked}");
    // What the endpoint sends in the same breath is the tunnel's.
    endpoint.sends([CONSENT, "early"].concat());
    let granted = client.head();
    assert!(granted.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{granted}");
    assert!(granted.contains("Connection: Upgrade\r\n"), "{granted}");
    assert!(granted.contains("Upgrade: websocket\r\n"), "{granted}");
    assert!(granted.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{granted}");
    client.expects("early");
    for _ in 0..3 {
        client.sends("GET / HTTP/1.1\r\n\r\n");
        endpoint.expects("GET / HTTP/1.1\r\n\r\n");
        endpoint.sends("\x01\0\x02");
        client.expects("\x01\0\x02");
    }
    endpoint.finishes();
    client.expects_close();
    client.sends("last words");
    endpoint.expects("last words");
    client.closes();
    endpoint.expects_close();
}

#[test]
fn bytes_sent_with_an_upgrade_request_wait_for_the_consent() {
    let (_held, mut client, mut endpoint) = between([WISH, "early"].concat());
    endpoint.head();
    endpoint.sends(CONSENT);
    endpoint.expects("early");
    client.head();
    client.closes();
    endpoint.expects_close();
}

#[test]
fn a_tunnel_that_breaks_on_one_side_breaks_on_the_other() {
    let (_held, mut client, mut endpoint) = between(WISH);
    opens(&mut client, &mut endpoint);
    endpoint.resets();
    client.rest();
    let (_held, mut client, mut endpoint) = between(WISH);
    opens(&mut client, &mut endpoint);
    client.resets();
    endpoint.rest();
}

#[test]
fn a_side_that_reads_nothing_holds_up_the_other_and_loses_nothing() {
    const LENGTH: usize = 30_000_000;
    let (_held, mut client, mut endpoint) = between(WISH);
    opens(&mut client, &mut endpoint);
    let sent = endpoint.sends_until_blocked(LENGTH);
    assert!(sent < LENGTH, "all of it was taken, and is held somewhere");
    client.sends("meanwhile");
    endpoint.expects("meanwhile");
    client.takes(sent);
    endpoint.sends("the end").finishes();
    client.expects("the end");
}

#[test]
fn a_response_other_than_101_is_a_response() {
    let (_held, mut client, mut endpoint) = between(WISH);
    endpoint.head();
    endpoint.sends(ok("no"));
    client.response().has_body("no");
    client.sends("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    endpoint.request();
    endpoint.sends(ok("yes"));
    client.response().has_body("yes");
}

// field: route.upgrades
#[test]
fn a_route_says_which_protocols_clients_may_switch_to() {
    let upgrades =
        |list: &str| format!("{QUIET}\nroutes: [{{ prefix: /, upstream: u, upgrades: [{list}] }}]");
    for (allowed, is_asked) in
        [("websocket", true), ("x, WebSocket", true), ("x", false), ("", false)]
    {
        let (_held, _client, mut endpoint) = between_under(&upgrades(allowed), WISH);
        assert_eq!(endpoint.head().contains("Upgrade"), is_asked, "{allowed}");
    }
    let options = WISH.replace("websocket", "x");
    let (_held, _client, mut endpoint) = between(&options);
    assert!(!endpoint.head().contains("Upgrade"), "only websocket is allowed by default");
    let (_held, _client, mut endpoint) = between_under(&upgrades("x"), &options);
    assert!(endpoint.head().contains("Upgrade: x\r\n"));
}

#[test]
fn only_the_requested_protocol_is_switched_to() {
    let other = CONSENT.replace(": WebSocket", ": x");
    let both = CONSENT.replace(": WebSocket", ": websocket, x");
    let none = CONSENT.replace("Upgrade: WebSocket\r\n", "");
    for consent in [other, both, none] {
        let (_held, mut client, mut endpoint) = between(WISH);
        endpoint.head();
        endpoint.sends(consent);
        client.response().has_problem(502, "unexpected-upgrade");
    }
    let (_held, mut client, mut endpoint) = between("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    endpoint.head();
    endpoint.sends(CONSENT);
    client.response().has_problem(502, "unexpected-upgrade");
}

#[test]
fn a_request_for_a_tunnel_is_not_a_grpc_call() {
    let options = WISH
        .replace("keep-alive, ", "")
        .replace("\r\n\r\n", "\r\nContent-Type: application/grpc\r\nGrpc-Timeout: 0n\r\n\r\n");
    let (_held, mut client, mut endpoint) = between(options);
    opens(&mut client, &mut endpoint);
    client.sends("x");
    endpoint.expects("x");
}

/// The head of a request of HTTP/2 that asks for a tunnel.
pub(crate) fn connect() -> Head {
    Head::request("CONNECT", "/chat").with(":protocol", "websocket")
}

#[test]
fn a_tunnel_is_not_translated_for_browsers() {
    let upstream = upstream::listens();
    let text = format!("{QUIET}\nroutes: [{{ prefix: /, upstream: u, grpc_web: true }}]");
    let gateway = gateway(&text, &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.starts(&connect().with("content-type", "application/grpc-web"));
    let mut endpoint = upstream.accepts();
    let asked = endpoint.head();
    assert!(asked.contains("Upgrade: websocket\r\n"), "{asked}");
    endpoint.sends(ok("no tunnel"));
    client.response(stream).has_problem(502, "upgrade-ignored");
}

#[test]
fn an_endpoint_has_not_failed_that_knows_no_tunnels() {
    let upstream = upstream::responds(|_| ok("no tunnel"));
    let text = "upstreams: { u: { endpoints: $0, circuit_breaker: { consecutive_failures: 1 } } }";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects_h2();
    for _ in 0..3 {
        let stream = client.starts(&connect());
        client.response(stream).has_problem(502, "upgrade-ignored");
    }
    gateway.get("/").has_status(200);
}

#[test]
fn no_policy_makes_an_open_tunnel_of_a_refusal() {
    let upstream = upstream::listens();
    let text = "routes: [{ prefix: /chat, upstream: u }, { prefix: /, upstream: u, upgrades: [] }]
apply: [p]
policies: { p: { transform: { response: { status: { 404: 200, 501: 200 } } } } }";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.starts(&connect());
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno");
    client.response(stream).has_status(404).has_body("no");
    let stream = client.starts(&connect().but(":path", "/"));
    client.response(stream).has_problem(501, "upgrade-refused");
}

// field: timeouts.tunnel, route_timeouts.tunnel
#[test]
fn a_tunnel_in_which_nothing_moves_is_closed() {
    let wait = Duration::from_millis(300);
    for text in [
        "timeouts: { tunnel: 300ms }",
        "routes: [{ prefix: /, upstream: u, timeouts: { tunnel: 300ms } }]",
    ] {
        let (client, endpoint) = takes(wait, || {
            let (_held, mut client, mut endpoint) = between_under(text, WISH);
            opens(&mut client, &mut endpoint);
            client.expects_close();
            endpoint.expects_close();
            (client, endpoint)
        });
        drop((client, endpoint));
    }
}

#[test]
fn one_direction_is_enough_to_keep_a_tunnel() {
    let text = "timeouts: { tunnel: 2s, response_body: 200ms, body: 200ms, idle: 200ms }";
    let (held, mut client, mut endpoint) = between_under(text, WISH);
    opens(&mut client, &mut endpoint);
    takes(Duration::from_millis(2800), || {
        for _ in 0..14 {
            endpoint.sends("x");
            client.expects("x");
            held.gateway.connects().expects_close();
        }
    });
}

// field: limits.tunnels
#[test]
fn there_are_no_more_tunnels_than_allowed() {
    let upstream = upstream::listens();
    let gateway = gateway("limits: { tunnels: 1 }\nworkers: 2", &[&upstream]);
    let mut first = gateway.connects();
    first.sends(WISH);
    let mut endpoint = upstream.accepts();
    opens(&mut first, &mut endpoint);
    let mut second = gateway.connects();
    second.sends(WISH).response().has_problem(503, "too-many-tunnels");
    first.closes();
    endpoint.expects_close();
    endpoint.closes();
    waits_until("the first tunnel to be over", || {
        gateway.metrics().workers().iter().map(|cells| cells.tunnels_closed.get()).sum::<u64>() == 1
    });
    second.sends(WISH);
    let mut endpoint = upstream.accepts();
    opens(&mut second, &mut endpoint);
}
