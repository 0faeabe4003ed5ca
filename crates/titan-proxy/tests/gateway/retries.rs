//! What happens when a connection or an endpoint fails: which endpoint is tried next, and which is not.

use crate::between_under;
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, Gateway, Listening, Peer, gateway};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";

/// A gateway with a connection to its endpoint that has served one request of that client.
fn used() -> (Listening, Gateway, Peer, Peer) {
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends(ok(""));
    client.response().has_status(200);
    (upstream, gateway, client, endpoint)
}

#[test]
fn a_connection_that_died_while_idle_costs_no_request() {
    for request in [
        GET,
        POST,
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ] {
        for end in [End::Close, End::Reset] {
            let (upstream, _gateway, mut client, endpoint) = used();
            endpoint.ends(end);
            client.sends(request);
            let mut next = upstream.accepts();
            next.request();
            next.sends(ok("again"));
            client.response().has_status(200).has_body("again");
        }
    }
}

/// The endpoint closes at the very moment at which the request is sent: it has read nothing, or it has read
/// the request and goes all the same. Either way a GET is repeated.
#[test]
fn a_connection_that_dies_under_an_idempotent_request_costs_nothing() {
    for end in [End::Close, End::Reset] {
        let (upstream, _gateway, mut client, mut endpoint) = used();
        client.sends(GET);
        endpoint.request();
        endpoint.ends(end);
        let mut next = upstream.accepts();
        next.request();
        next.sends(ok("again"));
        client.response().has_status(200).has_body("again");
    }
}

#[test]
fn a_post_is_not_repeated_once_it_was_sent() {
    let (upstream, _gateway, mut client, mut endpoint) = used();
    client.sends(POST);
    endpoint.request();
    endpoint.closes();
    client.response().has_problem(502, "upstream-closed");
    upstream.expects_no_connection();
}

#[test]
fn a_put_with_a_body_that_has_gone_is_not_repeated() {
    let (upstream, _gateway, mut client, mut endpoint) = used();
    client.sends("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    endpoint.request();
    endpoint.closes();
    client.response().has_problem(502, "upstream-closed");
    upstream.expects_no_connection();
}

#[test]
fn a_failed_get_goes_to_another_endpoint() {
    let (first, second) = (upstream::listens(), upstream::listens());
    let gateway = gateway("", &[&first, &second]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = first.accepts();
    endpoint.request();
    endpoint.closes();
    let mut other = second.accepts();
    other.request();
    other.sends(ok("second"));
    client.response().has_body("second");
}

#[test]
fn a_failed_post_does_not_go_to_another_endpoint() {
    let (first, second) = (upstream::listens(), upstream::listens());
    let gateway = gateway("", &[&first, &second]);
    let mut client = gateway.connects();
    client.sends(POST);
    let mut endpoint = first.accepts();
    endpoint.request();
    endpoint.closes();
    client.response().has_problem(502, "upstream-closed");
    second.expects_no_connection();
}

#[test]
fn a_refused_connection_sends_any_request_elsewhere() {
    let upstream = upstream::responds(|request| ok(&request.text()));
    for request in [GET, POST] {
        let gateway = gateway("upstreams: { u: [\"$0\", $1] }", &[&upstream::refuses(), &upstream]);
        for _ in 0..4 {
            gateway.asks(request).has_status(200);
        }
    }
    assert_eq!(upstream.requests().len(), 8);
    assert_eq!(upstream.requests()[7].text(), "abc");
}

// field: route.retries
#[test]
fn there_are_as_many_retries_as_the_route_says() {
    for (retries, asked) in [(0, 1), (1, 2), (2, 3), (5, 6)] {
        let endpoints: Vec<_> = (0..4).map(|_| upstream::replies("").then_closes()).collect();
        let text = format!("routes: [{{ prefix: /, upstream: u, retries: {retries} }}]");
        let [a, b, c, d] = &endpoints[..] else { unreachable!("there are four") };
        let gateway = gateway(&text, &[a, b, c, d]);
        let response = gateway.get("/");
        assert_eq!(
            (response.status, response.problem().as_str()),
            (502, "upstream-closed"),
            "{retries}"
        );
        let seen: usize = endpoints.iter().map(|endpoint| endpoint.requests().len()).sum();
        assert_eq!(seen, asked, "{retries} retries");
    }
}

#[test]
fn no_endpoint_that_can_be_reached_is_a_502() {
    let gateway = gateway(
        "upstreams: { u: [\"$0\", \"$1\"] }",
        &[&upstream::refuses(), &upstream::refuses()],
    );
    gateway.get("/").has_problem(502, "connect");
}

#[test]
fn a_response_that_has_begun_is_not_replaced_by_another() {
    let (first, second) = (upstream::listens(), upstream::listens());
    let gateway = gateway("", &[&first, &second]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = first.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    client.head();
    endpoint.closes();
    client.expects_close_after("ab");
    second.expects_no_connection();
}

#[test]
fn what_is_no_http_is_retried_where_the_request_may_be_sent_again() {
    let (first, second) = (upstream::listens(), upstream::listens());
    let gateway = gateway("", &[&first, &second]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = first.accepts();
    endpoint.request();
    endpoint.sends("garbage\r\n\r\n");
    let mut other = second.accepts();
    other.request();
    other.sends(ok("fine"));
    client.response().has_status(200);
    let (held, mut client, mut endpoint) = between_under("", POST);
    endpoint.request();
    endpoint.sends("garbage\r\n\r\n");
    client.response().has_problem(502, "malformed");
    held.upstream.expects_no_connection();
}

/// What happens to a request whose endpoint reads it and closes the connection: the response to its client, and whether
/// another endpoint got it.
fn is_repeated(settings: &str, request: impl AsRef<[u8]>) -> bool {
    let first = upstream::listens();
    let second = upstream::responds(|request| ok(&request.text()));
    let gateway = gateway(settings, &[&first, &second]);
    let mut client = gateway.connects();
    client.sends(request);
    let mut endpoint = first.accepts();
    let body = endpoint.request().text();
    endpoint.closes();
    let response = client.response();
    match second.requests().is_empty() {
        true => drop(response.has_problem(502, "upstream-closed")),
        false => drop(response.has_status(200).has_body(body)),
    }
    !second.requests().is_empty()
}

fn put(length: usize) -> String {
    format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{}", "x".repeat(length))
}

// field: limits.retry_body
#[test]
fn a_body_is_sent_again_if_it_was_held() {
    let held = "limits: { retry_body: 100KiB }";
    assert!(!is_repeated("", put(3)));
    for length in [1, 3, 100 << 10] {
        assert!(is_repeated(held, put(length)), "{length}");
    }
    assert!(!is_repeated(held, put((100 << 10) + 1)), "too large");
    assert!(!is_repeated(held, POST), "it may have had its effect");
    let chunked =
        "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    assert!(!is_repeated(held, chunked), "its length is not declared");
    let expects = put(3).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    assert!(!is_repeated(held, expects), "its endpoint decides whether it comes");
}

// field: route_limits.retry_body
#[test]
fn a_route_says_which_bodies_are_held() {
    let route = |held| format!("routes: [{{ upstream: u, limits: {{ retry_body: {held} }} }}]");
    assert!(is_repeated(&route("1KiB"), put(3)));
    assert!(!is_repeated(&format!("limits: {{ retry_body: 1KiB }}\n{}", route("off")), put(3)));
}

/// Without another endpoint it goes over another connection to the same one.
#[test]
fn a_body_that_is_held_outlives_a_connection_that_died_while_idle() {
    let upstream = upstream::listens();
    let gateway = gateway("limits: { retry_body: 1KiB }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends(ok(""));
    client.response().has_status(200);
    client.sends(put(3));
    endpoint.request();
    endpoint.closes();
    let mut next = upstream.accepts();
    assert_eq!(next.request().text(), "xxx");
    next.sends(ok("again"));
    client.response().has_status(200).has_body("again");
}

#[test]
fn a_body_that_is_held_is_whole_before_an_endpoint_is_asked() {
    let upstream = upstream::responds(|request| ok(&request.text()));
    let gateway = gateway("limits: { retry_body: 1KiB }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends("PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab");
    gateway.get("/").has_status(200);
    assert_eq!(upstream.requests().len(), 1);
    client.sends("c").response().has_status(200).has_body("abc");
}

// field: limits.request_memory
#[test]
fn bodies_that_are_held_are_bounded_in_sum() {
    const LENGTH: usize = 600 << 10;
    for (memory, fits) in [("1MiB", false), ("64MiB", true)] {
        let endpoints = [upstream::listens(), upstream::listens()];
        let last = upstream::responds(|_| ok("last"));
        let text = format!("limits: {{ retry_body: 1MiB, request_memory: {memory} }}");
        let gateway = gateway(&text, &[&endpoints[0], &endpoints[1], &last]);
        let mut clients = [gateway.connects(), gateway.connects()];
        // They are asked in turn.
        let mut peers = Vec::new();
        for (client, endpoint) in clients.iter_mut().zip(&endpoints) {
            client.sends(put(LENGTH));
            peers.push(endpoint.accepts());
            assert_eq!(peers.last_mut().map(|peer| peer.request().body.len()), Some(LENGTH));
        }
        let [first, second] = &mut clients;
        peers.pop().into_iter().for_each(Peer::closes);
        match fits {
            true => drop(second.response().has_body("last")),
            false => drop(second.response().has_problem(502, "upstream-closed")),
        }
        peers[0].sends(ok("first"));
        first.response().has_body("first");
    }
}

/// What the exchange has noted goes on although what held its body is given up.
#[test]
fn the_deadline_of_a_call_whose_body_is_held_meets_the_policies_of_its_route() {
    let upstream = upstream::listens();
    let text = "limits: { retry_body: 1KiB }
routes: [{ upstream: u, apply: [p] }]
policies: { p: { transform: { response: { headers: { set: { x-seen: yes } } } } } }
upstreams: { u: { endpoints: $0, protocol: h2 } }";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects_h2();
    let head = Head::post("/").with("content-type", "application/grpc").with("te", "trailers");
    let head = head.with("grpc-timeout", "400m").with("content-length", "5");
    let stream = client.starts(&head);
    client.sends_data(stream, [0; 5], true);
    let mut endpoint = upstream.accepts_h2();
    endpoint.request();
    client.response(stream).has_field("grpc-status", "4").has_field("x-seen", "yes");
}

/// What is held does not wait in the window of its stream.
#[test]
fn over_http2_a_body_that_is_held_may_be_larger_than_its_window() {
    let (first, second) = (upstream::listens(), upstream::responds(|request| ok(&request.text())));
    let text = "limits: { retry_body: 1MiB, stream_window: 64KiB, connection_window: 64KiB }";
    let gateway = gateway(text, &[&first, &second]);
    let mut client = gateway.connects_h2();
    let body = "x".repeat(300 << 10);
    let length = body.len().to_string();
    let stream = client.starts(&Head::request("PUT", "/").with("content-length", &length));
    client.sends_data(stream, &body, true);
    let mut endpoint = first.accepts();
    endpoint.request();
    endpoint.closes();
    client.response(stream).has_status(200).has_body(body);
}
