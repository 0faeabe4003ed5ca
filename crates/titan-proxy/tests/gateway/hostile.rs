//! Endpoints that misbehave: the client is told so or sees it, the connection is not used again, and the
//! next request is served.

use crate::{between, between_under};
use std::thread;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, Response, gateway};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// No second attempt.
const ONCE: &str = "routes: [{ upstream: u, retries: 0 }]\nupstreams: { u: [$0] }";

/// What happens to `response` when an endpoint sends it and keeps the connection open: what the client gets.
/// The next request over the client's connection is served over another one to the endpoint.
#[track_caller]
fn after(response: impl AsRef<[u8]>) -> Response {
    let (held, mut client, mut endpoint) = between_under(ONCE, GET);
    endpoint.request();
    endpoint.offers(response);
    let response = client.response();
    endpoint.rest();
    client.sends(GET);
    let mut next = held.upstream.accepts();
    next.request();
    next.sends(ok("next"));
    client.response().has_status(200).has_body("next");
    response
}

#[test]
fn a_response_that_breaks_the_protocol_becomes_a_502() {
    let long = "x".repeat(40_000);
    let many = "X: 1\r\n".repeat(300);
    let cases = [
        ("no-status-line", "hello\r\n\r\n".to_owned()),
        ("another-protocol", "SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned()),
        ("http-2", "HTTP/2.0 200 OK\r\n\r\n".to_owned()),
        ("two-digits", "HTTP/1.1 20 OK\r\n\r\n".to_owned()),
        ("status-000", "HTTP/1.1 000 OK\r\n\r\n".to_owned()),
        ("status-999", "HTTP/1.1 999 OK\r\n\r\n".to_owned()),
        ("nul-in-reason", "HTTP/1.1 200 O\0K\r\n\r\n".to_owned()),
        ("nul-in-value", "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n".to_owned()),
        ("bare-lf", "HTTP/1.1 200 OK\nContent-Length: 0\n\n".to_owned()),
        ("bare-cr", "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n".to_owned()),
        ("folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n".to_owned()),
        ("space-before-colon", "HTTP/1.1 200 OK\r\nX : a\r\n\r\n".to_owned()),
        (
            "two-lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(),
        ),
        (
            "length-and-chunks",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                .to_owned(),
        ),
        ("negative-length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned()),
        (
            "length-beyond-64-bits",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n".to_owned(),
        ),
        (
            "unknown-coding",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_owned(),
        ),
        ("giant-field", format!("HTTP/1.1 200 OK\r\nX: {long}\r\n\r\n")),
        ("giant-status-line", format!("HTTP/1.1 200 {long}\r\n\r\n")),
        ("many-fields", format!("HTTP/1.1 200 OK\r\n{many}\r\n")),
    ];
    for (name, sent) in cases {
        let response = after(&sent);
        assert_eq!((response.status, response.problem().as_str()), (502, "malformed"), "{name}");
        assert_eq!(response.request_id().len(), 32, "{name}: {}", response.text());
        // The client has done nothing wrong: its connection goes on.
        assert_eq!(response.field("connection"), None, "{name}");
    }
}

#[test]
fn an_interim_response_that_never_becomes_final_is_given_up() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n";
    let (_held, mut client, mut endpoint) = between_under("", GET);
    endpoint.request();
    endpoint.offers(interim.repeat(50));
    let mut response = client.response();
    for _ in 0..16 {
        assert_eq!(response.status, 102);
        response = client.response();
    }
    assert_eq!(response.request_id().len(), 32);
    response.has_problem(502, "too-many-interim");
    endpoint.rest();
}

#[test]
fn an_endpoint_that_closes_before_its_response_is_a_502() {
    let text = "routes: [{ prefix: /, upstream: u, retries: 0 }]";
    for end in [End::Close, End::Reset] {
        let (_held, mut client, mut endpoint) = between_under(text, GET);
        endpoint.request();
        endpoint.ends(end);
        let response = client.response();
        assert_eq!(response.request_id().len(), 32);
        response.has_problem(502, "upstream-closed");
    }
}

#[test]
fn an_endpoint_that_closes_within_its_head_is_a_502() {
    for end in [1, 12, 20, 36] {
        let (held, mut client, mut endpoint) = between(GET);
        endpoint.request();
        endpoint.sends(&"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..end]);
        endpoint.closes();
        // It has begun to respond, so the request had its effect: no other endpoint is asked.
        client.response().has_problem(502, "truncated");
        held.upstream.expects_no_connection();
    }
}

#[test]
fn a_client_sees_that_a_body_is_incomplete() {
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "abc"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "3\r\nabc\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "3\r\nabc\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", "3\r\nabc\r\n"),
    ];
    for (sent, came) in cases {
        let (_held, mut client, mut endpoint) = between(GET);
        endpoint.request();
        endpoint.sends(sent);
        endpoint.closes();
        client.head();
        client.expects_close_after(came);
    }
}

#[test]
fn what_came_of_a_body_that_breaks_off_arrives() {
    const MUCH: usize = 2_000_000;
    let length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 * MUCH);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n";
    let (new, old) = (GET, "GET / HTTP/1.0\r\n\r\n");
    for (request, head, end) in [
        (new, length.as_str(), End::Close),
        (new, chunked, End::Close),
        // To those a close would be the end of the body.
        (old, length.as_str(), End::Reset),
        (old, chunked, End::Reset),
    ] {
        let (_held, mut client, mut endpoint) = between(request);
        endpoint.request();
        endpoint.sends(head);
        let endpoint = thread::spawn(move || {
            endpoint.sends("x".repeat(MUCH));
            endpoint.closes();
        });
        client.head();
        let came = client.rest().into_iter().filter(|&byte| byte == b'x').count();
        assert_eq!(came, MUCH, "{request} {head}");
        match end {
            End::Close => client.expects_close(),
            End::Reset => client.expects_reset(),
        }
        endpoint.join().expect("the endpoint has sent everything");
    }
}

#[test]
fn an_older_client_sees_that_a_body_up_to_the_close_is_incomplete() {
    let (_held, mut client, mut endpoint) = between("GET / HTTP/1.0\r\n\r\n");
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.head();
    endpoint.closes();
    client.expects_reset();
}

#[test]
fn a_client_sees_that_a_body_turns_into_garbage() {
    for garbage in
        ["zz\r\n", "3\r\nabcd\r\n", "3 \r\nabc\r\n", "-1\r\n", "0\r\nContent-Length: 3\r\n\r\n"]
    {
        let (_held, mut client, mut endpoint) = between(GET);
        endpoint.request();
        endpoint.sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.head();
        endpoint.offers(garbage);
        let came = client.rest();
        assert!(!came.ends_with(b"0\r\n\r\n"), "{}", came.escape_ascii());
        client.expects_close();
        endpoint.rest();
    }
}

#[test]
fn bytes_after_a_response_are_dropped() {
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    client.response().has_body("ok");
    client.sends(GET);
    let mut other = upstream.accepts();
    other.request();
    other.sends(ok("good"));
    client.response().has_body("good");
    endpoint.rest();
}

/// The same, but it comes while the connection waits for its next request.
#[test]
fn an_unsolicited_response_closes_an_idle_connection() {
    for method in ["GET", "POST"] {
        let upstream = upstream::listens();
        let gateway = gateway("", &[&upstream]);
        let mut client = gateway.connects();
        client.sends(GET);
        let mut endpoint = upstream.accepts();
        endpoint.request();
        endpoint.sends(ok("one"));
        client.response().has_body("one");
        endpoint.sends(ok("evil"));
        client.sends(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        let mut other = upstream.accepts();
        other.request();
        other.sends(ok("two"));
        client.response().has_body("two");
        endpoint.rest();
    }
}

#[test]
fn the_next_request_works_after_every_kind_of_failure() {
    let failures = [
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "\0\0\0\0",
        "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
    ];
    for sent in failures {
        after(sent).has_status(502);
    }
}
