//! Stopping: what runs is finished, what is idle closes, no new connection is accepted.

use crate::{Held, between_under};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn idle_connections_close() {
    let upstream = upstream::replies(ok("x"));
    for workers in [1, 2] {
        let gateway = gateway(&format!("workers: {workers}"), &[&upstream]);
        let mut used = gateway.connects();
        used.sends(GET).response().has_body("x");
        let mut fresh = gateway.connects();
        waits_until("both to be accepted", || gateway.metrics().sum(|it| it.accepted.get()) == 2);
        gateway.drains();
        used.expects_close();
        // Its first request may be on its way, so it is waited for a moment.
        fresh.expects_close();
        gateway.waits_for_end();
    }
    upstream.waits_for_open(0);
}

#[test]
fn a_request_that_runs_is_finished() {
    let (held, mut client, mut endpoint) = between_under("", GET);
    endpoint.request();
    assert!(held.gateway.status().is_ready());
    held.gateway.drains();
    assert!(!held.gateway.status().is_ready());
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no");
    // Too late for the head to say that the connection ends; the end says it.
    client.head();
    endpoint.sends("k");
    client.expects("ok");
    client.expects_close();
    held.gateway.waits_for_end();
}

#[test]
fn a_request_whose_body_is_coming_is_finished() {
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc";
    let (held, mut client, mut endpoint) = between_under("", request);
    endpoint.head();
    held.gateway.drains();
    client.sends("def");
    endpoint.expects("abcdef");
    endpoint.sends(ok("x"));
    client.response().has_body("x");
    client.expects_close();
    held.gateway.waits_for_end();
}

#[test]
fn a_request_that_has_been_sent_still_gets_its_response_and_is_the_last() {
    let (held, mut client, mut endpoint) = between_under("", GET.repeat(3));
    endpoint.request();
    begins(&held);
    endpoint.sends(ok("one"));
    client.response().has_body("one");
    // The next one lies in the gateway's own buffer: it gets its response, and the client is told to go.
    endpoint.request();
    endpoint.sends(ok("two"));
    client.response().has_body("two").has_field("connection", "close");
    client.expects_close();
    held.gateway.waits_for_end();
}

#[test]
fn no_new_connection_is_accepted() {
    let (held, mut client, mut endpoint) = between_under("", GET);
    endpoint.request();
    begins(&held);
    endpoint.sends(ok("x"));
    client.response().has_body("x");
    client.expects_close();
    held.gateway.waits_for_end();
}

#[test]
fn a_client_that_was_accepted_before_is_still_served() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("", &[&upstream]);
    let mut clients: Vec<_> = (0..10).map(|_| gateway.connects()).collect();
    gateway.drains();
    for client in &mut clients {
        client.sends(GET);
    }
    for client in &mut clients {
        client.response().has_body("x");
        client.expects_close();
    }
    gateway.waits_for_end();
}

// field: timeouts.drain
#[test]
fn what_still_runs_when_the_drain_is_over_is_cut_off() {
    let (held, mut client, mut endpoint) = between_under("timeouts: { drain: 300ms }", GET);
    endpoint.request();
    let started = Instant::now();
    held.gateway.drains();
    held.gateway.waits_for_end();
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
    client.rest();
    endpoint.rest();
}

/// Begins to drain, and waits until no connection is accepted.
fn begins(held: &Held) {
    let address = held.gateway.address();
    held.gateway.drains();
    waits_until("connections to be refused", || TcpStream::connect(address).is_err());
}
