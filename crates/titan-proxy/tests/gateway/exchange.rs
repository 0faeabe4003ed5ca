//! One request and its response: bodies, versions, interim responses, what is passed on and what is not.

use crate::{Held, QUIET, between, between_under};
use titan_testkit::upstream::{self, ok, ok_with};
use titan_testkit::{End, Peer, gateway};

// field: file.upstreams
#[test]
fn a_request_arrives_with_its_fields_and_its_response_returns() {
    let (_held, mut client, mut endpoint) =
        between("GET /a?b=c HTTP/1.1\r\nHost: a.example\r\nX-One: 1\r\nx-two: 2\r\n\r\n");
    endpoint.expects("GET /a?b=c HTTP/1.1\r\nHost: a.example\r\nX-One: 1\r\nx-two: 2\r\n\r\n");
    endpoint.sends("HTTP/1.1 200 Fine\r\nDate: x\r\nX-Three: 3\r\nContent-Length: 2\r\n\r\nok");
    client.expects("HTTP/1.1 200 Fine\r\nDate: x\r\nX-Three: 3\r\nContent-Length: 2\r\n\r\nok");
    client.expects_nothing_more();
}

#[test]
fn every_method_is_passed_on_as_it_is() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway("", &[&upstream]);
    let methods =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PURGE", "get"];
    for method in methods {
        gateway.asks(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n")).has_status(200);
    }
    let seen: Vec<_> = upstream.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(seen, methods);
}

#[test]
fn request_bodies_keep_their_framing() {
    let cases = [
        ("Content-Length: 3\r\n\r\nabc", "Content-Length: 3\r\n\r\nabc"),
        ("Content-Length: 0\r\n\r\n", "Content-Length: 0\r\n\r\n"),
        (
            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ),
        // Extensions are for this connection only (RFC 9112 section 7.1.1).
        (
            "Transfer-Encoding: Chunked\r\n\r\n03;x=\"y\"\r\nabc\r\n00\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ),
        // A method that usually has a body says that there is none (RFC 9110 section 8.6).
        ("\r\n", "Content-Length: 0\r\n\r\n"),
    ];
    for (sent, received) in cases {
        let (_held, mut client, mut endpoint) =
            between(format!("POST / HTTP/1.1\r\nHost: a\r\n{sent}"));
        endpoint.expects(format!("POST / HTTP/1.1\r\nHost: a\r\n{received}"));
        endpoint.sends(ok(""));
        client.response().has_status(200);
        client.expects_nothing_more();
    }
}

#[test]
fn response_bodies_keep_their_framing() {
    let cases = [
        ("Content-Length: 3\r\n\r\nabc", "Content-Length: 3\r\n\r\nabc"),
        ("Content-Length: 0\r\n\r\n", "Content-Length: 0\r\n\r\n"),
        (
            "Transfer-Encoding: chunked\r\n\r\n3;e\r\nabc\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ),
    ];
    for (sent, received) in cases {
        let (_held, mut client, mut endpoint) = between("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        endpoint.request();
        endpoint.sends(format!("HTTP/1.1 200 OK\r\nDate: x\r\n{sent}"));
        client.expects(format!("HTTP/1.1 200 OK\r\nDate: x\r\n{received}"));
        client.expects_nothing_more();
    }
}

#[test]
fn trailers_pass_in_both_directions() {
    let (_held, mut client, mut endpoint) = between(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n",
    );
    let request = endpoint.request();
    let trailers =
        |values: [&str; 2]| values.map(|value| ("x-sum".to_owned(), value.to_owned())).to_vec();
    assert_eq!((request.text(), request.trailers.clone()), ("a".to_owned(), trailers(["1", "2"])));
    endpoint.sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\nX-Sum: 3\r\nX-Sum: 4\r\n\r\n");
    let response = client.response();
    assert_eq!((response.text(), &response.trailers), ("b".to_owned(), &trailers(["3", "4"])));
}

#[test]
fn a_response_to_head_has_a_length_and_no_body() {
    let (_held, mut client, mut endpoint) =
        between("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(endpoint.request().method, "HEAD");
    endpoint.sends("HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5000\r\n\r\n");
    client.expects("HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5000\r\n\r\n");
    assert_eq!(endpoint.request().target, "/2");
    endpoint.sends(ok("x"));
    client.response().has_body("x");
}

#[test]
fn some_responses_never_have_a_body() {
    for (head, passed) in [
        (
            "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n",
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nDate: x\r\nETag: \"a\"\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nDate: x\r\nETag: \"a\"\r\n\r\n",
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nDate: x\r\nContent-Length: 7\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nDate: x\r\nContent-Length: 7\r\n\r\n",
        ),
    ] {
        let (_held, mut client, mut endpoint) =
            between("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
        endpoint.request();
        endpoint.sends(head);
        client.expects(passed);
        assert_eq!(endpoint.request().target, "/2");
        endpoint.sends(ok("x"));
        client.response().has_body("x");
    }
}

#[test]
fn interim_responses_pass_in_order() {
    let (_held, mut client, mut endpoint) = between("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    endpoint.request();
    endpoint.sends("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n");
    client.expects("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n");
    endpoint.sends(
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n",
    );
    client.expects(
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n",
    );
    client.expects_nothing_more();
}

#[test]
fn interim_responses_do_not_reach_an_older_client() {
    let (_held, mut client, mut endpoint) = between("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    endpoint.request();
    endpoint.sends("HTTP/1.1 103 Early Hints\r\n\r\n");
    endpoint.sends(ok("x"));
    client.response().has_status(200).has_body("x");
    client.expects_close();
}

#[test]
fn an_expectation_goes_to_the_endpoint_and_its_consent_back() {
    let (_held, mut client, mut endpoint) =
        between("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    endpoint
        .expects("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    endpoint.sends("HTTP/1.1 100 Continue\r\n\r\n");
    client.expects("HTTP/1.1 100 Continue\r\n\r\n");
    client.sends("abc");
    endpoint.expects("abc");
    endpoint.sends(ok(""));
    client.response().has_status(200);
    client.expects_nothing_more();
}

#[test]
fn an_unsolicited_consent_is_dropped() {
    let (_held, mut client, mut endpoint) =
        between("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    endpoint.request();
    endpoint.sends(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n",
    );
    client.expects("HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n");
}

#[test]
fn a_refused_expectation_ends_the_connection() {
    let (_held, mut client, mut endpoint) =
        between("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    endpoint.head();
    endpoint.sends("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    // Whether the body still comes is open: nothing that follows can be told from it.
    client.response().has_status(403).has_field("connection", "close");
    client.expects_close();
    endpoint.expects_close();
}

#[test]
fn the_gateway_responds_to_an_expectation_that_an_older_endpoint_would_not() {
    let upstream = upstream::replies("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway = gateway(QUIET, &[&upstream]);
    gateway.get("/").has_status(200);
    let mut client = gateway.connects();
    client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    client.expects("HTTP/1.1 100 Continue\r\n\r\n");
    client.sends("abc");
    client.response().has_status(200);
    assert_eq!(upstream.requests()[1].field("expect"), None);
}

#[test]
fn an_older_client_gets_its_connection_closed_unless_it_asks() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway(QUIET, &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.0\r\n\r\n");
    client.response().has_field("connection", "close").has_body("x");
    client.expects_close();
    let mut client = gateway.connects();
    for _ in 0..2 {
        client.sends("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        client.response().has_field("connection", "keep-alive").has_body("x");
    }
    // Without a Host of its own the endpoint's stands in.
    let request = &upstream.requests()[0];
    assert_eq!(request.field("host"), Some(upstream.address().to_string().as_str()));
    assert!(request.first_line.ends_with("HTTP/1.1"), "{}", request.first_line);
}

#[test]
fn an_older_client_gets_chunks_as_a_body_up_to_the_close() {
    let (_held, mut client, mut endpoint) =
        between("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nT: 1\r\n\r\n");
    client.expects("HTTP/1.1 200 OK\r\nDate: x\r\nConnection: close\r\n\r\nabc");
    client.expects_close();
}

#[test]
fn a_body_that_runs_to_the_close_reaches_the_client_in_chunks() {
    for version in ["HTTP/1.1", "HTTP/1.0"] {
        let (held, mut client, mut endpoint) = between("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        endpoint.request();
        endpoint.sends(format!("{version} 200 OK\r\n\r\nab"));
        endpoint.closes();
        let response = client.response();
        assert!(response.is_chunked());
        response.has_body("ab");
        client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(held.upstream.accepts().request().target, "/");
    }
}

#[test]
fn an_older_endpoint_s_connection_is_used_once_unless_it_says_otherwise() {
    for (response, connections) in [
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 2),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx", 1),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx", 2),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 1),
    ] {
        let upstream = upstream::replies(response);
        let gateway = gateway(QUIET, &[&upstream]);
        let mut client = gateway.connects();
        for _ in 0..2 {
            client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            // What the endpoint says about its connection is nothing to the client.
            client.response().has_body("x").lacks("connection");
        }
        assert_eq!(upstream.connections(), connections, "{response}");
    }
}

#[test]
fn a_client_that_requests_a_close_gets_its_response_and_the_close() {
    let (held, mut client, mut endpoint) = between(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    endpoint.expects("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    endpoint.sends(ok("x"));
    client.response().has_field("connection", "close").has_body("x");
    client.expects_close();
    // The endpoint's connection has nothing to do with that, and serves others.
    let mut other = held.gateway.connects();
    other.sends("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(endpoint.request().target, "/2");
}

#[test]
fn targets_reach_the_endpoint_in_the_form_that_it_expects() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway(QUIET, &[&upstream]);
    let cases = [
        ("GET http://a.example/b?c HTTP/1.1\r\nHost: a.example", "GET /b?c HTTP/1.1", "a.example"),
        ("GET http://a.example HTTP/1.1\r\nHost: a.example", "GET / HTTP/1.1", "a.example"),
        ("GET http://a.example?c HTTP/1.1\r\nHost: a.example", "GET /?c HTTP/1.1", "a.example"),
        // The target's authority stands above Host (RFC 9112 section 3.2.2).
        ("GET http://a.example:80/ HTTP/1.0", "GET / HTTP/1.1", "a.example:80"),
        ("OPTIONS http://a.example HTTP/1.1\r\nHost: a.example", "OPTIONS * HTTP/1.1", "a.example"),
        ("OPTIONS * HTTP/1.1\r\nHost: a.example", "OPTIONS * HTTP/1.1", "a.example"),
    ];
    for (index, (sent, first_line, host)) in cases.into_iter().enumerate() {
        gateway.asks(&format!("{sent}\r\n\r\n")).has_status(200);
        let request = &upstream.requests()[index];
        assert_eq!(
            (request.first_line.as_str(), request.field("host")),
            (first_line, Some(host)),
            "{sent}"
        );
    }
}

#[test]
fn connect_opens_no_tunnel() {
    let upstream = upstream::listens();
    let gateway = gateway(QUIET, &[&upstream]);
    let mut client = gateway.connects();
    client.sends("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n");
    client.response().has_problem(501, "connect-method");
    client.expects_close();
    upstream.expects_no_connection();
}

#[test]
fn pipelined_requests_get_responses_in_order() {
    let upstream = upstream::responds(|request| ok(&request.target));
    let gateway = gateway(QUIET, &[&upstream]);
    let requests: Vec<_> = (0..200)
        .map(|index| match index % 3 {
            0 => format!("GET /{index} HTTP/1.1\r\nHost: a\r\n\r\n"),
            1 => format!("POST /{index} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n\r\n"),
            _ => format!("PUT /{index} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n"),
        })
        .collect();
    for size in [1, 7, 90, 200] {
        let mut client = gateway.connects();
        for batch in requests.chunks(size) {
            client.sends(batch.concat());
        }
        for index in 0..100 {
            client.response().has_status(200).has_body(format!("/{index}"));
        }
    }
}

#[test]
fn a_request_may_arrive_in_pieces_of_any_size() {
    const REQUEST: &str = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nT: 1\r\n\r\n";
    const RECEIVED: &str = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n";
    let upstream = upstream::replies(ok(""));
    let gateway = gateway(QUIET, &[&upstream]);
    let mut client = gateway.connects();
    for split in 1..REQUEST.len() {
        client.sends(&REQUEST[..split]).sends(&REQUEST[split..]);
        client.response().has_status(200);
    }
    client.sends_slowly(REQUEST);
    client.response().has_status(200);
    let all = upstream.requests();
    assert_eq!((all.len(), upstream.connections()), (REQUEST.len(), 1));
    for request in all {
        assert_eq!((request.text(), request.trailers.len()), ("abc".to_owned(), 1));
        assert!(request.bytes.starts_with(&RECEIVED.as_bytes()[..50]));
    }
}

#[test]
fn a_response_may_arrive_in_pieces_of_any_size() {
    const RESPONSE: &str =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n";
    let (_held, mut client, mut endpoint) = between("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    for split in 1..RESPONSE.len() {
        endpoint.request();
        endpoint.sends(&RESPONSE[..split]).sends(&RESPONSE[split..]);
        let response = client.response();
        assert_eq!(response.trailers.len(), 1);
        response.has_body("abc");
        client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    endpoint.request();
    endpoint.sends_slowly(RESPONSE);
    client.response().has_body("abc");
}

#[test]
fn fields_for_one_connection_stay_on_it() {
    let (_held, mut client, mut endpoint) = between(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: X-Named, keep-alive, Host\r\nX-Named: 1\r\nKeep-Alive: 5\r\n\
        Proxy-Connection: close\r\nTE: trailers\r\nTrailer: X-T\r\nUpgrade: websocket\r\nProxy-Authorization: Basic eA==\r\n\
        X-Kept: 2\r\n\r\n",
    );
    endpoint.expects("GET / HTTP/1.1\r\nHost: a\r\nTrailer: X-T\r\nX-Kept: 2\r\n\r\n");
    endpoint.sends("HTTP/1.1 200 OK\r\nDate: x\r\nConnection: x-named\r\nX-Named: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\n\
        Trailer: X-T\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\nX-Kept: 2\r\nContent-Length: 0\r\n\r\n");
    client.expects(
        "HTTP/1.1 200 OK\r\nDate: x\r\nTrailer: X-T\r\nX-Kept: 2\r\nContent-Length: 0\r\n\r\n",
    );
    client.expects_nothing_more();
}

#[test]
fn a_connection_list_without_end_is_refused() {
    let list = vec!["x"; 40].join(", ");
    let upstream = upstream::replies(ok_with(&format!("Connection: {list}\r\n"), ""));
    let gateway = gateway("", &[&upstream]);
    let response = gateway.asks(&format!(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: {list}\r\nX-Request-Id: mine\r\n\r\n"
    ));
    assert_eq!(response.request_id().len(), 32, "an id of the gateway's own");
    response.has_problem(400, "connection-list");
    assert_eq!(upstream.connections(), 0);
    gateway.get("/").has_problem(502, "connection-list");
    gateway.get("/").has_problem(502, "connection-list");
    assert_eq!(upstream.connections(), 2);
}

#[test]
fn a_client_that_closes_its_sending_side_still_gets_a_fast_response() {
    let (_held, mut client, mut endpoint) = between("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.finishes();
    endpoint.request();
    endpoint.sends(ok("x"));
    client.response().has_body("x");
    client.expects_close();
}

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let (_held, client, mut endpoint) = between("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    endpoint.request();
    client.resets();
    // The response would go nowhere: the endpoint is told by the end of its connection.
    endpoint.expects_close();
}

/// A configuration under which a client that does not finish its head is told so within half a second.
const HEAD_TIMEOUT: &str = "timeouts: { head: 500ms }";

/// Lets time pass: waits for a timeout of the gateway itself.
fn lets_half_a_second_pass(held: &Held) {
    held.gateway.connects().sends("GET").response().has_problem(408, "head-timeout");
}

#[test]
fn a_client_that_leaves_while_it_waits_takes_its_request_along() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let (held, client, mut endpoint) = between_under(HEAD_TIMEOUT, request);
    endpoint.request();
    lets_half_a_second_pass(&held);
    client.resets();
    endpoint.expects_close();
}

#[test]
fn a_slow_request_does_not_delay_others() {
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc";
    let (held, mut client, mut endpoint) = between_under(HEAD_TIMEOUT, request);
    endpoint.head();
    lets_half_a_second_pass(&held);
    client.sends("def");
    endpoint.expects("abcdef");
    endpoint.sends(ok(""));
    client.response().has_status(200);
}

#[test]
fn a_client_that_leaves_in_its_body_takes_its_request_along() {
    for end in [End::Close, End::Reset] {
        let (_held, client, mut endpoint) =
            between("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
        endpoint.head();
        endpoint.expects("abc");
        client.ends(end);
        endpoint.rest();
    }
}

#[test]
fn a_response_may_come_before_the_end_of_the_request() {
    let (_held, mut client, mut endpoint) =
        between("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    endpoint.head();
    endpoint.sends("HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    // The request goes on while the response does.
    client.expects(
        "HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\nx\r\n",
    );
    client.sends("def");
    endpoint.expects("abcdef");
    endpoint.sends("1\r\ny\r\n0\r\n\r\n");
    client.expects("1\r\ny\r\n0\r\n\r\n");
    client.expects_close();
}

#[test]
fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    let (_held, mut client, mut endpoint) =
        between("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n");
    endpoint.head();
    client.sends(vec![b'x'; 200_000]);
    endpoint
        .sends("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    client.response().has_status(413).has_field("connection", "close");
    client.offers(vec![b'x'; 100_000]);
    drop(endpoint);
    client.expects_close();
}

#[test]
fn an_upgrade_that_no_route_allows_is_neither_requested_nor_accepted() {
    let (_held, mut client, mut endpoint) = between(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: other\r\nX-Other: 13\r\n\r\n",
    );
    endpoint.expects("GET / HTTP/1.1\r\nHost: a\r\nX-Other: 13\r\n\r\n");
    endpoint
        .sends("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n");
    client.response().has_problem(502, "unexpected-upgrade");
    endpoint.expects_close();
}

/// Bodies large enough to take every way that bytes can take, in both directions and both framings.
#[test]
fn large_bodies_arrive_byte_for_byte() {
    let body: Vec<u8> =
        (0..3_000_000_u32).map(|at| ((at * 7 + at / 251) % 256).to_le_bytes()[0]).collect();
    let wanted = body.clone();
    let upstream = upstream::responds(move |request| {
        let is_same = request.body == wanted;
        let (head, tail) = match request.is_chunked() {
            false => (format!("Content-Length: {}\r\n\r\n", wanted.len()), ""),
            true => (
                format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", wanted.len()),
                "\r\n0\r\n\r\n",
            ),
        };
        let head = format!("HTTP/1.1 200 OK\r\nX-Same: {is_same}\r\n{head}");
        [head.as_bytes(), &wanted, tail.as_bytes()].concat()
    });
    let gateway = gateway(QUIET, &[&upstream]);
    let length = body.len();
    let requests = [
        [format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"), String::new()],
        [
            format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n"
            ),
            "\r\n0\r\n\r\n".to_owned(),
        ],
    ];
    let mut client = gateway.connects();
    for [head, tail] in requests {
        client.sends(head).sends(&body).sends(tail);
        client.response().has_field("x-same", "true").has_body(&body);
    }
}

/// A response larger than every buffer on its way, to a client that does not take it: what the endpoint can
/// send is bounded, so the gateway does not collect it.
#[test]
fn a_client_that_takes_nothing_holds_the_endpoint_back() {
    const MOST: usize = 64 << 20;
    let (_held, mut client, mut endpoint) = between("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    endpoint.request();
    endpoint.sends(format!("HTTP/1.1 200 OK\r\nContent-Length: {MOST}\r\n\r\n"));
    let sent = endpoint.sends_until_blocked(MOST);
    assert!(sent < MOST / 2, "{sent} bytes went somewhere");
    client.head();
    assert!(client.takes(sent).iter().all(|byte| *byte == b'x'));
}

#[test]
fn a_malformed_request_gets_a_response_and_ends_the_connection() {
    let upstream = upstream::listens();
    let gateway = gateway(QUIET, &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response().has_problem(400, "malformed").has_field("connection", "close");
    client.expects_close();
    upstream.expects_no_connection();
}

#[test]
fn a_client_that_connects_and_leaves_costs_nothing() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway(QUIET, &[&upstream]);
    Peer::connects(gateway.address()).closes();
    Peer::connects(gateway.address()).resets();
    gateway.connects().sends("GET / HT");
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost");
    client.finishes().expects_close();
    gateway.get("/").has_status(200);
    assert_eq!(upstream.connections(), 1);
}
