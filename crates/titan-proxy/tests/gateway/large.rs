//! Bodies too large for any buffer: however they travel, their ends are where they were, and a side that
//! stops is noticed.

use crate::{QUIET, between, between_under};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, gateway};

const LARGE: usize = 4 << 20;
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

#[test]
fn large_responses_follow_each_other_on_one_connection() {
    let body = bytes(LARGE);
    let sent =
        [format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").as_bytes(), &body].concat();
    let upstream = upstream::replies(sent);
    let gateway = gateway(QUIET, &[&upstream]);
    let mut client = gateway.connects();
    client.sends(GET.repeat(5));
    for _ in 0..5 {
        client.response().has_status(200).has_body(&body);
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn large_requests_follow_each_other_on_one_connection() {
    let body = bytes(LARGE);
    let upstream =
        upstream::responds(|request| ok(&format!("{} of {}", request.target, request.body.len())));
    let gateway = gateway(QUIET, &[&upstream]);
    let mut client = gateway.connects();
    for index in 0..5 {
        client
            .sends(format!("PUT /{index} HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n"));
        client.sends(&body);
        client.response().has_status(200).has_body(format!("/{index} of {LARGE}"));
    }
    assert!(upstream.requests().iter().all(|request| request.body == body));
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_large_response_that_is_cut_short_does_not_look_complete() {
    for end in [End::Close, End::Reset] {
        let (_held, mut client, mut endpoint) = between(GET);
        endpoint.request();
        endpoint.sends(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
        client.head();
        endpoint.sends(vec![b'x'; LARGE / 2]);
        endpoint.ends(end);
        assert!(client.rest().len() <= LARGE / 2);
        client.expects_close();
    }
}

#[test]
fn a_large_response_that_pauses_is_cut_short() {
    let (_held, mut client, mut endpoint) = between_under("timeouts: { response_body: 1s }", GET);
    endpoint.request();
    endpoint.sends(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
    endpoint.sends(vec![b'x'; LARGE / 2]);
    client.head();
    assert_eq!(client.rest().len(), LARGE / 2);
    client.expects_close();
    endpoint.rest();
}

#[test]
fn a_client_that_leaves_a_large_response_releases_the_endpoint() {
    for end in [End::Close, End::Reset] {
        let (_held, mut client, mut endpoint) = between(GET);
        endpoint.request();
        endpoint.sends(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 64 * LARGE));
        endpoint.sends(vec![b'x'; LARGE / 8]);
        client.head();
        client.takes(LARGE / 16);
        client.ends(end);
        endpoint.offers(vec![b'x'; 16 * LARGE]);
        endpoint.rest();
    }
}

#[test]
fn a_client_that_leaves_a_large_request_releases_the_endpoint() {
    for end in [End::Close, End::Reset] {
        let (held, mut client, mut endpoint) =
            between(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n"));
        endpoint.head();
        client.sends(vec![b'x'; LARGE / 2]);
        endpoint.takes(LARGE / 2);
        client.ends(end);
        assert_eq!(endpoint.rest(), b"");
        held.upstream.expects_no_connection();
    }
}

#[test]
fn a_large_request_that_pauses_gets_a_response() {
    let (_held, mut client, mut endpoint) = between_under(
        "timeouts: { body: 1s }",
        format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n"),
    );
    endpoint.head();
    client.sends(vec![b'x'; LARGE / 2]);
    endpoint.takes(LARGE / 2);
    client.response().has_problem(408, "body-timeout");
    client.expects_close();
    endpoint.rest();
}

#[test]
fn bytes_after_a_large_response_are_dropped() {
    let body = bytes(LARGE);
    let (held, mut client, mut endpoint) = between(GET);
    endpoint.request();
    endpoint.sends(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
    let sending = std::thread::spawn(move || {
        endpoint.sends(bytes(LARGE)).offers("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
        endpoint
    });
    client.response().has_body(&body);
    let mut endpoint = sending.join().expect("an endpoint that sends");
    client.sends(GET);
    let mut other = held.upstream.accepts();
    other.request();
    other.sends(ok("good"));
    client.response().has_body("good");
    endpoint.rest();
}

#[test]
fn an_expectation_that_the_gateway_responds_to_itself_ends_the_connection() {
    let gateway = gateway("routes: [{ path: /a, respond: 204 }]", &[]);
    for (path, status) in [("/a", 204), ("/b", 404)] {
        let mut client = gateway.connects();
        client.sends(format!(
            "PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        ));
        // Whether the body comes all the same is open.
        client.response().has_status(status).has_field("connection", "close");
        client.expects_close();
    }
}

#[test]
fn an_unread_body_is_dropped_if_it_is_short() {
    let gateway = gateway("routes: [{ path: /a, respond: 204 }]", &[]);
    let put =
        |length: usize| format!("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let mut client = gateway.connects();
    client.sends(put(1000)).sends(bytes(1000)).sends("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response().has_status(204).lacks("connection");
    client.response().has_status(204);
    client.sends(put(64 * LARGE));
    client.response().has_status(204).has_field("connection", "close");
    client.offers(bytes(LARGE));
    client.rest();
}
