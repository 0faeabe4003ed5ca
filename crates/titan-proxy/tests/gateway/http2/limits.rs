//! What is too much or too slow, as clients of HTTP/2 are told.

use super::{TO_H2, between, between_h1};
use crate::timeouts::takes;
use std::time::Duration;
use titan_testkit::gateway;
use titan_testkit::h2::{Head, code, reply};
use titan_testkit::upstream::{self, ok};

/// A request under `limits` that gets `status`, and one like it, at the limit, that passes; the connection
/// goes on after both.
#[track_caller]
fn is_limited(limits: &str, passes: &Head, refused: &Head, status: u16, code: &str) {
    let upstream = upstream::replies(ok("passed"));
    let gateway = gateway(&format!("limits: {{ {limits} }}"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.asks(passes);
    client.response(stream).has_status(200);
    let stream = client.asks(refused);
    let response = client.response(stream);
    assert_eq!(response.request_id().len(), 32, "{}", response.text());
    response.has_problem(status, code);
    let stream = client.asks(passes);
    client.response(stream).has_status(200);
    assert_eq!(upstream.requests().len(), 2, "{limits}");
}

/// A GET whose head counts that many bytes (RFC 9113 section 6.5.2).
fn head_of(bytes: usize) -> Head {
    let head = Head::get("/");
    let size = |head: &Head| -> usize {
        head.0.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    };
    let rest = bytes - size(&head) - 33;
    head.with("x", "x".repeat(rest))
}

#[test]
fn a_head_has_a_limit() {
    is_limited("head: 1KiB, target: 1KiB", &head_of(1024), &head_of(1025), 431, "malformed");
}

#[test]
fn a_long_head_in_several_frames_has_it_too() {
    let limits = "head: 32KiB";
    is_limited(limits, &head_of(32 << 10), &head_of((32 << 10) + 1), 431, "malformed");
}

#[test]
fn a_target_has_a_limit() {
    let target = |bytes: usize| Head::get(&format!("/{}", "x".repeat(bytes - 1)));
    is_limited("target: 64B", &target(64), &target(65), 414, "malformed");
}

#[test]
fn the_fields_have_a_limit() {
    let fields = |count: usize| (0..count).fold(Head::get("/"), |head, _| head.with("x", "1"));
    is_limited("fields: 5", &fields(5), &fields(6), 431, "malformed");
}

#[test]
fn a_declared_body_has_a_limit() {
    let upstream = upstream::listens();
    let gateway = gateway("limits: { body: 100B }", &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.starts(&Head::post("/").with("content-length", "101"));
    client.response(stream).has_problem(413, "body-too-large");
    // The rest is not waited for for long; the stream ends in good order.
    assert_eq!(client.reset_of(stream), code::NO_ERROR);
    upstream.expects_no_connection();
    client.pings();
}

#[test]
fn a_body_of_unknown_length_has_a_limit_on_its_way() {
    for (length, status) in [(100, 200), (101, 413)] {
        let upstream = upstream::replies_h2(ok("x"));
        let gateway = gateway(&format!("{TO_H2}\nlimits: {{ body: 100B }}"), &[&upstream]);
        let mut client = gateway.connects_h2();
        let stream = client.asks_with(&Head::post("/"), "x".repeat(length));
        client.response(stream).has_status(status);
    }
}

#[test]
fn trailers_have_a_limit() {
    // Counted like a head: 32 bytes for the line.
    let trailers = |bytes: usize| Head::default().with("x", "x".repeat(bytes - 33));
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("limits: { trailers: 64B }", &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.starts(&Head::post("/"));
    client.sends_trailers(stream, &trailers(64));
    client.response(stream).has_status(200);
    let stream = client.starts(&Head::post("/"));
    client.sends_trailers(stream, &trailers(65));
    assert_eq!(client.reset_of(stream), code::PROTOCOL_ERROR);
    client.get("/").has_status(200);
}

#[test]
fn a_body_that_pauses_gets_a_response() {
    let (_held, mut client, stream, mut endpoint) =
        between("timeouts: { body: 300ms }", &Head::post("/"), false);
    let (theirs, _) = endpoint.request_head();
    takes(Duration::from_millis(300), || {
        client.sends_data(stream, "abc", false);
        client.response(stream).has_problem(408, "body-timeout");
    });
    assert_eq!(endpoint.reset_of(theirs), code::CANCEL);
    let stream = client.asks(&Head::get("/"));
    let (theirs, _) = endpoint.request();
    endpoint.responds(theirs, &reply(200), "x");
    client.response(stream).has_body("x");

    let (_held, mut client, stream, mut endpoint) =
        between_h1("timeouts: { body: 300ms }", &Head::post("/"), false);
    client.response(stream).has_problem(408, "body-timeout");
    endpoint.rest();
}

#[test]
fn a_connect_request_is_not_served() {
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects_h2();
    let head = Head::default().with(":method", "CONNECT").with(":authority", "a:80");
    let stream = client.starts(&head);
    client.response(stream).has_problem(501, "connect-method");
    upstream.expects_no_connection();
}

#[test]
fn an_unknown_expectation_fails() {
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.asks(&Head::get("/").with("expect", "more"));
    client.response(stream).has_status(417);
    upstream.expects_no_connection();
}
