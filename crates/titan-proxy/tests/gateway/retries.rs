//! What happens when a connection or an endpoint fails: who is asked next, and who is not.

use crate::between_under;
use std::net::SocketAddr;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, Gateway, Listening, Peer, gateway};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";

/// An address at which nothing listens.
fn refuses() -> SocketAddr {
    // Bound and then given up; the kernel gives it to nobody else soon.
    upstream::listens().address()
}

/// A gateway with a connection to its endpoint that has served one request of that client.
fn used() -> (Listening, Gateway, Peer, Peer) {
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends(ok(""));
    client.answer().has_status(200);
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
            client.answer().has_status(200).has_body("again");
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
        client.answer().has_status(200).has_body("again");
    }
}

#[test]
fn a_post_is_not_repeated_once_it_was_sent() {
    let (upstream, _gateway, mut client, mut endpoint) = used();
    client.sends(POST);
    endpoint.request();
    endpoint.closes();
    client.answer().has_problem(502, "upstream-closed");
    upstream.expects_no_connection();
}

#[test]
fn a_put_with_a_body_that_has_gone_is_not_repeated() {
    let (upstream, _gateway, mut client, mut endpoint) = used();
    client.sends("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    endpoint.request();
    endpoint.closes();
    client.answer().has_problem(502, "upstream-closed");
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
    client.answer().has_body("second");
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
    client.answer().has_problem(502, "upstream-closed");
    second.expects_no_connection();
}

#[test]
fn a_refused_connection_sends_any_request_elsewhere() {
    let upstream = upstream::answers(|request| ok(&request.text()));
    for request in [GET, POST] {
        let gateway = gateway("upstreams: { u: [\"$0\", $1] }", &[&refuses(), &upstream]);
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
    for (retries, asked) in [(0, 1), (1, 2), (2, 3), (5, 4)] {
        let endpoints: Vec<_> = (0..4).map(|_| upstream::replies("").then_closes()).collect();
        let text = format!("routes: [{{ prefix: /, upstream: u, retries: {retries} }}]");
        let [a, b, c, d] = &endpoints[..] else { unreachable!("there are four") };
        let gateway = gateway(&text, &[a, b, c, d]);
        let answer = gateway.get("/");
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (502, "upstream-closed"),
            "{retries}"
        );
        let seen: usize = endpoints.iter().map(|endpoint| endpoint.requests().len()).sum();
        assert_eq!(seen, asked, "{retries} retries");
    }
}

#[test]
fn no_endpoint_that_can_be_reached_is_a_502() {
    let gateway = gateway("upstreams: { u: [\"$0\", \"$1\"] }", &[&refuses(), &refuses()]);
    gateway.get("/").has_problem(502, "connect");
}

#[test]
fn an_answer_that_has_begun_is_not_replaced_by_another() {
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
fn an_answer_that_breaks_the_protocol_is_not_asked_for_again() {
    let (held, mut client, mut endpoint) = between_under("", GET);
    endpoint.request();
    endpoint.sends("garbage\r\n\r\n");
    client.answer().has_problem(502, "malformed");
    held.upstream.expects_no_connection();
}
