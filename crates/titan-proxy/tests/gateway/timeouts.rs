//! Timeouts: a peer that keeps others waiting for too long is disconnected.

use crate::between_under;
use std::time::{Duration, Instant};
use titan_testkit::gateway;
use titan_testkit::upstream::{self, ok};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Runs `wait`, which must take `least` and not much more: a timeout is to be that long, and not one that
/// is there anyway. What starts the gateway's clock has to happen in `wait`, or it may be ahead of this one.
#[track_caller]
pub(super) fn takes<R>(least: Duration, wait: impl FnOnce() -> R) -> R {
    let most = least + Duration::from_secs(6);
    let started = Instant::now();
    let result = wait();
    let took = started.elapsed();
    assert!(took >= least && took < most, "over after {took:?}");
    result
}

const LONG: Duration = Duration::from_millis(300);

// field: file.timeouts, timeouts.head
#[test]
fn a_head_that_does_not_end_gets_a_response() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("timeouts: { head: 300ms }", &[&upstream]);
    let (mut client, response) = takes(LONG, || {
        let mut client = gateway.connects();
        let response = client.sends("GET / HTTP/1.1\r\nHost: a").response();
        (client, response)
    });
    assert_eq!(response.request_id().len(), 32);
    response.has_problem(408, "head-timeout").has_field("connection", "close");
    client.expects_close();
    assert_eq!(upstream.connections(), 0);
}

#[test]
fn a_head_that_comes_in_drops_gets_a_response() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("timeouts: { head: 300ms }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    // Each byte is progress, but not the end: time does not start anew.
    while !client.has_news() {
        client.offers("x");
        gateway.get("/").has_body("x");
    }
    client.response().has_status(408);
}

#[test]
fn a_connection_without_a_request_is_closed_silently() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("timeouts: { idle: 300ms }", &[&upstream]);
    takes(LONG, || gateway.connects().expects_close());
}

// field: timeouts.idle
#[test]
fn a_connection_between_requests_is_closed_silently() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("timeouts: { idle: 300ms }", &[&upstream]);
    takes(LONG, || {
        let mut client = gateway.connects();
        client.sends(GET).response().has_body("x");
        client.expects_close();
    });
}

// field: route_timeouts.body, timeouts.body
#[test]
fn a_request_body_that_pauses_gets_a_response() {
    for text in [
        "timeouts: { body: 300ms }",
        "routes: [{ prefix: /, upstream: u, timeouts: { body: 300ms } }]",
    ] {
        let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc";
        let (_held, mut client, mut endpoint, response) = takes(LONG, || {
            let (held, mut client, endpoint) = between_under(text, request);
            let response = client.response();
            (held, client, endpoint, response)
        });
        assert_eq!(response.request_id().len(), 32);
        response.has_problem(408, "body-timeout").has_field("connection", "close");
        client.expects_close();
        // The endpoint must not take what it has for a request.
        endpoint.rest();
    }
}

// field: route.timeouts, route_timeouts.response, timeouts.response
#[test]
fn an_endpoint_that_does_not_respond_is_a_504() {
    for text in [
        "timeouts: { response: 300ms }",
        "routes: [{ prefix: /, upstream: u, timeouts: { response: 300ms } }]",
    ] {
        for sent in ["", "HTTP/1.1 200 O", "HTTP/1.1 103 Early Hints\r\n\r\n"] {
            takes(LONG, || does_not_respond(text, sent));
        }
    }
}

/// An endpoint that sends no more than that.
fn does_not_respond(text: &str, sent: &str) {
    let (held, mut client, mut endpoint) = between_under(text, GET);
    endpoint.request();
    endpoint.sends(sent);
    if sent.ends_with("\r\n\r\n") {
        assert_eq!(client.response().status, 103);
    }
    let response = client.response();
    assert_eq!(response.request_id().len(), 32);
    response.has_problem(504, "response-timeout").lacks("connection");
    // It may be at work on the request: no other endpoint is tried, and it is not waited for.
    endpoint.rest();
    held.upstream.expects_no_connection();
    client.sends(GET);
    let mut next = held.upstream.accepts();
    next.request();
    next.sends(ok("x"));
    client.response().has_body("x");
}

#[test]
fn an_endpoint_that_takes_nothing_of_the_request_is_a_504() {
    let text = "timeouts: { response: 300ms }";
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n";
    let (_held, mut client, _endpoint) = between_under(text, request);
    client.sends_until_blocked(50_000_000);
    client.response().has_problem(504, "response-timeout");
}

// field: route_timeouts.response_body, timeouts.response_body
#[test]
fn a_response_that_pauses_is_cut_short() {
    for text in [
        "timeouts: { response_body: 300ms }",
        "routes: [{ prefix: /, upstream: u, timeouts: { response_body: 300ms } }]",
    ] {
        let (_held, mut client, mut endpoint) = between_under(text, GET);
        endpoint.request();
        takes(LONG, || {
            endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
            client.head();
            client.expects_close_after("abc");
        });
        endpoint.rest();
    }
}

// field: route_timeouts.write, timeouts.write
#[test]
fn a_client_that_takes_nothing_of_its_response_is_disconnected() {
    for text in [
        "timeouts: { write: 300ms }",
        "routes: [{ prefix: /, upstream: u, timeouts: { write: 300ms } }]",
    ] {
        let (_held, mut client, mut endpoint) = between_under(text, GET);
        endpoint.request();
        endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
        endpoint.sends_until_blocked(100_000_000);
        // The endpoint's connection goes with the client's, once no request can use it.
        endpoint.rest();
        client.expects_reset();
    }
}

// field: route_timeouts.connect, timeouts.connect
#[test]
fn an_endpoint_that_does_not_accept_is_a_504() {
    for text in [
        "timeouts: { connect: 300ms }\nroutes: [{ prefix: /, upstream: u, retries: 0 }]",
        "routes: [{ prefix: /, upstream: u, retries: 0, timeouts: { connect: 300ms } }]",
    ] {
        let full = upstream::accepts_nobody();
        let gateway = gateway(text, &[&full]);
        let response = takes(LONG, || gateway.get("/"));
        assert_eq!(response.request_id().len(), 32);
        response.has_problem(504, "connect-timeout");
    }
}

#[test]
fn an_endpoint_that_does_not_accept_sends_any_request_elsewhere() {
    let full = upstream::accepts_nobody();
    let other = upstream::replies(ok("x"));
    let gateway = gateway("timeouts: { connect: 50ms }", &[&full, &other]);
    for _ in 0..2 {
        gateway.asks("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na").has_body("x");
    }
}

/// Time is counted from what was last heard: a body and a response that go on may take as long as they like.
#[test]
fn a_client_that_goes_on_is_not_given_up() {
    let text = "timeouts: { body: 1s, response_body: 1s, idle: 200ms }";
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n";
    let (held, mut client, mut endpoint) = between_under(text, request);
    let pause = || {
        held.gateway.connects().expects_close();
    };
    endpoint.head();
    takes(Duration::from_millis(1400), || {
        for _ in 0..7 {
            client.sends("x");
            endpoint.expects("x");
            pause();
        }
    });
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n");
    client.head();
    for _ in 0..7 {
        endpoint.sends("y");
        client.expects("y");
        pause();
    }
    client.expects_nothing_more();
}

/// The rate is measured over ten seconds, and so this test takes as long.
// field: limits.body_rate
#[test]
fn a_request_body_has_a_minimum_rate() {
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n";
    let (_held, mut slow, mut free, mut endpoint, sent) = takes(Duration::from_secs(10), || {
        let [(held, mut slow, taker), (free_held, mut free, endpoint)] =
            ["body_rate: 1KiB", "body_rate: off"].map(|rate| {
                let text = format!("limits: {{ {rate} }}\ntimeouts: {{ idle: 200ms }}");
                between_under(&text, request)
            });
        let mut sent = 0;
        while !slow.has_news() {
            slow.offers("x");
            free.sends("x");
            sent += 1;
            held.gateway.connects().expects_close();
        }
        ((held, free_held, taker), slow, free, endpoint, sent)
    });
    slow.response().has_problem(408, "body-too-slow").has_field("connection", "close");
    free.sends("x".repeat(5000 - sent));
    endpoint.request();
    endpoint.sends(ok("x"));
    free.response().has_body("x");
}
