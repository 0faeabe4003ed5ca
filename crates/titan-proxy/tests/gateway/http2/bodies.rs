//! Bodies, trailers and interim responses in every combination of versions, and which side waits for which.

use super::{TO_H2, between, between_h1, between_with, from_h1};
use crate::QUIET;
use titan_testkit::h2::{Frame, Head, block, code, reply, setting};
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{Gateway, Request, gateway};

/// Far more than the kernel and the gateway keep for one connection.
const MUCH: usize = 64 << 20;
/// What they keep at the most.
const KEPT: usize = 16 << 20;

/// A response with the body of the request and its trailers.
fn echo(request: &Request) -> Vec<u8> {
    let mut response = format!("HTTP/1.1 200 OK\r\nX-Method: {}\r\n", request.method).into_bytes();
    let length = request.body.len();
    if request.trailers.is_empty() {
        response.extend(format!("Content-Length: {length}\r\n\r\n").into_bytes());
        response.extend(&request.body);
        return response;
    }
    response.extend(format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n").into_bytes());
    response.extend(&request.body);
    if length > 0 {
        response.extend(b"\r\n0\r\n");
    }
    for (name, value) in &request.trailers {
        response.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    response.extend(b"\r\n");
    response
}

/// A gateway before an endpoint of either version that echoes.
fn echoing(is_h2: bool) -> (Gateway, Upstream) {
    let listening = upstream::listens();
    let upstream = if is_h2 { listening.responds_h2(echo) } else { listening.responds(echo) };
    (gateway(&format!("{QUIET}\n{}", if is_h2 { TO_H2 } else { "" }), &[&upstream]), upstream)
}

fn pattern(length: usize) -> Vec<u8> {
    (b'a'..=b'w').cycle().take(length).collect()
}

const LENGTHS: [usize; 8] = [0, 1, 16_384, 16_385, 65_535, 65_536, 300_000, 3_000_001];

#[test]
fn bodies_pass_in_every_combination() {
    for is_h2 in [false, true] {
        let (gateway, _upstream) = echoing(is_h2);
        let (mut client, mut old) = (gateway.connects_h2(), gateway.connects());
        for length in LENGTHS {
            let body = pattern(length);
            let declared = Head::post("/").with("content-length", length.to_string());
            for head in [declared, Head::post("/")] {
                let stream = client.asks_with(&head, &body);
                client
                    .response(stream)
                    .has_status(200)
                    .has_body(&body)
                    .has_field("x-method", "POST");
            }
            old.sends(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
            old.sends(&body).response().has_body(&body);
            old.sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            if length > 0 {
                old.sends(format!("{length:x}\r\n")).sends(&body).sends("\r\n");
            }
            old.sends("0\r\n\r\n").response().has_body(&body);
        }
    }
}

#[test]
fn trailers_pass_in_every_combination() {
    for is_h2 in [false, true] {
        let (gateway, upstream) = echoing(is_h2);
        let wanted = vec![("x-sum".to_owned(), "1".to_owned()), ("x-b".to_owned(), String::new())];
        let trailers = Head::default().with("x-sum", "1").with("x-b", "");
        for body in ["abc", ""] {
            let mut client = gateway.connects_h2();
            let stream = client.starts(&Head::post("/").with("te", "trailers"));
            if !body.is_empty() {
                client.sends_data(stream, body, false);
            }
            client.sends_trailers(stream, &trailers);
            assert_eq!(client.response(stream).has_body(body).trailers, wanted, "{is_h2}");
        }
        let mut old = gateway.connects();
        old.sends("POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nTransfer-Encoding: chunked\r\n\r\n");
        old.sends("3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-B:\r\n\r\n");
        assert_eq!(old.response().has_body("abc").trailers, wanted, "{is_h2}");
        for request in upstream.requests() {
            assert_eq!(request.trailers, wanted, "{is_h2}");
        }
    }
}

#[test]
fn interim_responses_pass_in_every_combination() {
    let hints = reply(103).with("link", "</a>");
    let head = Head::post("/").with("expect", "100-continue").with("content-length", "3");
    let (_held, mut client, stream, mut endpoint) = between("", &head, false);
    let (theirs, request) = endpoint.request_head();
    assert_eq!(request.field("expect"), Some("100-continue"));
    endpoint.sends_head(theirs, &reply(100), false);
    client.response_head(stream).has_status(100);
    client.sends_data(stream, "abc", true);
    assert_eq!(endpoint.takes_rest(theirs).0, b"abc");
    endpoint.sends_head(theirs, &hints, false);
    client.response_head(stream).has_status(103).has_field("link", "</a>");
    endpoint.responds(theirs, &reply(200), "x");
    client.response(stream).has_status(200).has_body("x");

    let (_held, mut client, stream, mut endpoint) = between_h1("", &head, false);
    endpoint.head();
    endpoint.sends("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    client.response_head(stream).has_status(100);
    client.response_head(stream).has_status(103).has_field("link", "</a>");
    client.sends_data(stream, "abc", true);
    endpoint.expects("abc").sends("HTTP/1.1 204 No Content\r\n\r\n");
    client.response(stream).has_status(204);

    let request = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let (_held, mut client, mut endpoint) = from_h1("", request);
    let (theirs, _) = endpoint.request_head();
    endpoint.sends_head(theirs, &reply(100), false).sends_head(theirs, &hints, false);
    client.response().has_status(100);
    client.response().has_status(103).has_field("link", "</a>");
    client.sends("abc");
    assert_eq!(endpoint.takes_rest(theirs).0, b"abc");
    endpoint.responds(theirs, &reply(204), "");
    client.response().has_status(204);
}

#[test]
fn a_client_without_a_window_stops_an_endpoint_of_http2() {
    let none = [(setting::INITIAL_WINDOW_SIZE, 0)];
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{TO_H2}\nlimits: {{ response_buffer: off }}"), &[&upstream]);
    let mut client = gateway.connects_h2_with(&none);
    let stalled = client.asks(&Head::get("/stalled"));
    let mut endpoint = upstream.accepts_h2();
    let (theirs, _) = endpoint.request();
    endpoint.sends_head(theirs, &reply(200), false);
    let sent = endpoint.sends_until_blocked(theirs, MUCH);
    assert_eq!(sent, 64 << 10);
    client.response_head(stalled).has_status(200);
    assert_eq!(client.body_so_far(stalled), 0);
    // Another stream of the same two connections goes on.
    let other = client.asks(&Head::get("/other"));
    client.gives(other, 1_000_000);
    let (theirs_other, _) = endpoint.request();
    client.gives(0, 1_000_000);
    endpoint.responds(theirs_other, &reply(200), pattern(400_000));
    client.response(other).has_body(pattern(400_000));
    client.gives(stalled, 1_000_000);
    endpoint.sends_data(theirs, "end", true);
    assert_eq!(client.takes_rest(stalled).0.len(), sent + 3);
}

#[test]
fn the_window_of_a_response_grows_as_the_response_is_taken() {
    for most in [100_000, 256 << 10] {
        let upstream = upstream::listens();
        let text = format!("{TO_H2}\nlimits: {{ stream_window: {most}B, response_buffer: off }}");
        let gateway = gateway(&text, &[&upstream]);
        let mut client = gateway.connects_h2_with(&[(setting::INITIAL_WINDOW_SIZE, 0)]);
        client.holds_windows();
        let stream = client.asks(&Head::get("/"));
        let mut endpoint = upstream.accepts_h2();
        let (theirs, _) = endpoint.request();
        endpoint.sends_head(theirs, &reply(200), false);
        let mut sent = 0;
        while sent < 1 << 20 {
            let now = endpoint.sends_until_blocked(theirs, 1 << 20);
            assert!(now > 0);
            sent += now;
            client.gives(0, u32::try_from(now).expect("it is little"));
            client.gives(stream, u32::try_from(now).expect("it is little"));
            client.takes_data(stream, now);
            endpoint.pings();
        }
        // It has not been used to the last byte: what lies about is never more than that.
        let last = endpoint.sends_until_blocked(theirs, MUCH);
        assert!((most / 2..=most).contains(&last), "{last} of {most}");
    }
}

#[test]
fn the_window_of_a_response_does_not_grow_as_the_response_is_read_ahead() {
    const AHEAD: usize = 256 << 10;
    let upstream = upstream::listens();
    let limits = format!("limits: {{ stream_window: 1MiB, response_buffer: {AHEAD}B }}");
    let gateway = gateway(&format!("{TO_H2}\n{limits}"), &[&upstream]);
    let mut client = gateway.connects_h2_with(&[(setting::INITIAL_WINDOW_SIZE, 0)]);
    let stream = client.asks(&Head::get("/"));
    let mut endpoint = upstream.accepts_h2();
    let (theirs, _) = endpoint.request();
    endpoint.sends_head(theirs, &reply(200), false);
    // Half a window at a time is given back: by then all of that has been read ahead but less than half a window.
    endpoint.sends_data(theirs, vec![b'x'; AHEAD + (32 << 10)], false);
    let last = endpoint.pings().sends_until_blocked(theirs, MUCH);
    assert!(last <= 32 << 10, "{last} more");
    client.gives(0, 1 << 20);
    client.gives(stream, 1 << 20);
    endpoint.sends_data(theirs, "end", true);
    assert_eq!(client.takes_rest(stream).0.len(), AHEAD + (32 << 10) + last + 3);
}

#[test]
fn a_client_without_a_window_stops_an_endpoint_of_http1() {
    let none = [(setting::INITIAL_WINDOW_SIZE, 0)];
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects_h2_with(&none);
    let stalled = client.asks(&Head::get("/stalled"));
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n"));
    let sent = endpoint.sends_until_blocked(MUCH);
    assert!(sent < KEPT, "{sent} bytes");
    client.response_head(stalled).has_status(200);
    let other = client.asks(&Head::get("/other"));
    let mut second = upstream.accepts();
    second.request();
    second.sends("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother");
    client.gives(other, 5);
    client.response(other).has_body("other");
    client.gives(stalled, 70_000);
    client.takes_data(stalled, 60_000);
}

#[test]
fn an_endpoint_without_a_window_stops_clients_of_both_versions() {
    let none = [(setting::INITIAL_WINDOW_SIZE, 0)];
    let (held, mut client, stream, mut endpoint) =
        between_with("limits: { stream_window: 100KB }", &Head::post("/"), false, &none);
    assert_eq!(client.sends_until_blocked(stream, MUCH), 100_000);
    let mut old = held.gateway.connects();
    old.sends(format!("POST /old HTTP/1.1\r\nHost: a\r\nContent-Length: {MUCH}\r\n\r\n"));
    let sent = old.sends_until_blocked(MUCH);
    assert!(sent < KEPT, "{sent} bytes");
    // Streams that need no window continue, on both connections.
    let other = client.asks(&Head::get("/other"));
    let (first, _) = endpoint.request_head();
    let (second, _) = endpoint.request_head();
    let (theirs, request) = endpoint.request_head();
    assert_eq!(request.target, "/other");
    endpoint.responds(theirs, &reply(200), "x");
    client.response(other).has_body("x");
    endpoint.gives(first, 100_000).gives(second, 50_000);
    endpoint.takes_data(first, 100_000);
    endpoint.takes_data(second, 50_000);
    // What was passed on is given back to the client.
    let more = client.sends_until_blocked(stream, 1);
    assert_eq!(more, 1);
}

#[test]
fn an_endpoint_of_http1_that_does_not_read_stops_a_client_of_http2() {
    let (held, mut client, stream, mut endpoint) = between_h1("", &Head::post("/"), false);
    endpoint.head();
    let sent = client.sends_until_blocked(stream, MUCH);
    assert!(sent < KEPT, "{sent} bytes");
    let other = client.asks(&Head::get("/other"));
    let mut second = held.upstream.accepts();
    second.request();
    second.sends(ok("x"));
    client.response(other).has_body("x");
}

#[test]
fn clients_that_take_nothing_hold_up_no_other_client() {
    let upstream = upstream::responds_h2(|_| ok(&"x".repeat(600_000)));
    let gateway = gateway(TO_H2, &[&upstream]);
    // They share the connection to the endpoint, and fill the windows of as many streams.
    let mut stalled = gateway.connects_h2_with(&[(setting::INITIAL_WINDOW_SIZE, 0)]);
    for _ in 0..8 {
        let stream = stalled.asks(&Head::get("/"));
        stalled.response_head(stream).has_status(200);
    }
    stalled.pings();
    let mut client = gateway.connects_h2();
    for _ in 0..3 {
        assert_eq!(client.get("/").body.len(), 600_000);
    }
}

#[test]
fn an_early_response_ends_the_request_without_harm() {
    // To an endpoint of HTTP/2, which says that it needs no more.
    let (_held, mut client, stream, mut endpoint) = between("", &Head::post("/"), false);
    client.sends_data(stream, "abc", false);
    let (theirs, _) = endpoint.request_head();
    endpoint.responds(theirs, &reply(403), "no");
    endpoint.resets(theirs, code::NO_ERROR);
    client.response(stream).has_status(403).has_body("no");
    assert_eq!(client.reset_of(stream), code::NO_ERROR);
    let other = client.asks(&Head::get("/"));
    let (theirs, _) = endpoint.request();
    endpoint.responds(theirs, &reply(200), "x");
    client.response(other).has_body("x");

    // To one that says nothing: it is told.
    let (_held, mut client, stream, mut endpoint) = between("", &Head::post("/"), false);
    client.sends_data(stream, "abc", false);
    let (theirs, _) = endpoint.request_head();
    endpoint.responds(theirs, &reply(403), "no");
    client.response(stream).has_status(403).has_body("no");
    assert_eq!(client.reset_of(stream), code::NO_ERROR);
    assert_eq!(endpoint.reset_of(theirs), code::CANCEL);

    // To one of HTTP/1.1: its connection is not used again.
    let (held, mut client, stream, mut endpoint) = between_h1("", &Head::post("/"), false);
    client.sends_data(stream, "abc", false);
    endpoint.head();
    endpoint.sends("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    client.response(stream).has_status(403).has_body("no");
    assert_eq!(client.reset_of(stream), code::NO_ERROR);
    endpoint.rest();
    client.asks(&Head::get("/"));
    held.upstream.accepts();
}

#[test]
fn a_client_may_send_its_body_to_the_end_after_an_early_response() {
    let (_held, mut client, stream, mut endpoint) = between("", &Head::post("/"), false);
    let (theirs, _) = endpoint.request_head();
    endpoint.responds(theirs, &reply(403), "no");
    client.response(stream).has_status(403);
    client.sends_data(stream, pattern(500_000), true).pings();
    assert_eq!(client.has_reset(stream), None);
}

#[test]
fn each_piece_passes_when_it_comes() {
    for is_h2 in [false, true] {
        let upstream = upstream::listens();
        let gateway = gateway(if is_h2 { TO_H2 } else { "" }, &[&upstream]);
        let mut client = gateway.connects_h2();
        let stream = client.starts(&Head::post("/"));
        if is_h2 {
            let mut endpoint = upstream.accepts_h2();
            let (theirs, _) = endpoint.request_head();
            endpoint.sends_head(theirs, &reply(200), false);
            for piece in ["one", "two"] {
                client.sends_data(stream, piece, false);
                assert_eq!(endpoint.takes_data(theirs, 3), piece.as_bytes());
                endpoint.sends_data(theirs, piece, false);
                assert_eq!(client.takes_data(stream, 3), piece.as_bytes());
            }
        } else {
            let mut endpoint = upstream.accepts();
            endpoint.head();
            endpoint.sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for piece in ["one", "two"] {
                client.sends_data(stream, piece, false);
                endpoint.expects(format!("3\r\n{piece}\r\n"));
                endpoint.sends(format!("3\r\n{piece}\r\n"));
                assert_eq!(client.takes_data(stream, 3), piece.as_bytes());
            }
        }
    }
}

#[test]
fn a_body_where_there_is_none_is_a_502() {
    for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304)] {
        let head = Head::request(method, "/");
        let (_held, mut client, stream, mut endpoint) = between("", &head, true);
        let (theirs, _) = endpoint.request();
        // In one piece: nothing of it has been passed on when it shows to be wrong.
        let block = block(&reply(status));
        endpoint.offers(&[Frame::headers(theirs, block, false), Frame::data(theirs, "x", true)]);
        let response = client.response(stream).has_status(502);
        if method != "HEAD" {
            response.has_problem(502, "malformed");
        }
    }
}

/// Some clients end a request without a body only behind its head.
#[test]
fn a_request_whose_end_comes_late_has_no_body() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway(QUIET, &[&upstream]);
    let mut client = gateway.connects_h2();
    let methods = ["GET", "OPTIONS", "DELETE"];
    for method in methods {
        let stream = client.starts(&Head::request(method, "/"));
        client.pings().sends_data(stream, "", true);
        client.response(stream).has_body("x");
    }
    for request in upstream.waits_for_requests(methods.len()) {
        assert_eq!(request.all("transfer-encoding"), [""; 0], "{}", request.first_line);
    }
}

#[test]
fn the_end_of_a_request_is_not_waited_for_long() {
    let (_held, mut client, stream, mut endpoint) = between_h1("", &Head::get("/"), false);
    let head = endpoint.head().to_lowercase();
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    client.sends_data(stream, "late", true);
    endpoint.expects("4\r\nlate\r\n0\r\n\r\n").sends(ok("x"));
    client.response(stream).has_body("x");
}
