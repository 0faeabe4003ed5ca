//! Which failures a route has retried, of which requests, and when.

use std::sync::atomic::{AtomicUsize, Ordering};
use titan_proxy::{RetryReason, UpstreamCells};
use titan_testkit::h2::{Frame, Head, block};
use titan_testkit::upstream::{self, Upstream, ok, ok_with};
use titan_testkit::{Gateway, gateway};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";

fn post(fields: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n{fields}\r\nabc")
}

/// An endpoint that responds so to its first request, and well to all others.
fn once(first: &'static str) -> Upstream {
    let count = AtomicUsize::new(0);
    upstream::responds(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => first.into(),
        _ => ok("again"),
    })
}

/// A gateway with those retries between these endpoints, which holds bodies.
fn retrying(retries: &str, endpoints: &[&Upstream]) -> Gateway {
    let text =
        format!("limits: {{ retry_body: 1KiB }}\nroutes: [{{ upstream: u, retries: {retries} }}]");
    let endpoints: Vec<_> = endpoints.iter().map(|it| *it as &dyn std::fmt::Display).collect();
    gateway(&text, &endpoints)
}

/// How often something was retried for that reason.
fn retried(gateway: &Gateway, reason: RetryReason) -> u64 {
    let count = |cells: &UpstreamCells| cells.retries[reason as usize].get();
    gateway.status().upstreams().iter().map(|upstream| upstream.sum(count)).sum()
}

// field: retries.statuses, retries.attempts
#[test]
fn a_response_with_such_a_status_is_replaced_by_another() {
    for (retries, request, body) in [
        ("1", GET.to_owned(), "busy"),
        ("{ statuses: 503 }", GET.to_owned(), "fine"),
        ("{ statuses: 5xx }", GET.to_owned(), "fine"),
        ("{ statuses: [502, 504] }", GET.to_owned(), "busy"),
        ("{ statuses: 503, attempts: 0 }", GET.to_owned(), "busy"),
        ("{ statuses: 503 }", post(""), "busy"),
    ] {
        let (busy, fine) = (upstream::replies(BUSY), upstream::replies(ok("fine")));
        let gateway = retrying(retries, &[&busy, &fine]);
        let response = gateway.asks(&request).has_body(body);
        assert_eq!(response.status, if body == "busy" { 503 } else { 200 });
        assert_eq!(retried(&gateway, RetryReason::Status), u64::from(body == "fine"), "{retries}");
    }
}

#[test]
fn the_last_response_is_the_clients() {
    let busy = [upstream::replies(BUSY), upstream::replies(BUSY), upstream::replies(BUSY)];
    let gateway = retrying("{ statuses: 503, attempts: 2 }", &[&busy[0], &busy[1], &busy[2]]);
    gateway.get("/").has_status(503).has_body("busy");
    assert_eq!(busy.map(|endpoint| endpoint.requests().len()), [1, 1, 1]);
}

// field: retries.header
#[test]
fn an_endpoint_may_ask_for_a_retry() {
    for (retries, body) in [("{ header: X-Retry }", "fine"), ("1", "no")] {
        let first = upstream::replies(ok_with("X-Retry: 1\r\n", "no"));
        let fine = upstream::replies(ok("fine"));
        let gateway = retrying(retries, &[&first, &fine]);
        gateway.get("/").has_body(body);
        assert_eq!(retried(&gateway, RetryReason::Header), u64::from(body == "fine"));
    }
}

// field: retries.grpc
#[test]
fn a_call_that_has_only_a_status_is_made_again() {
    let fields = "content-type: application/grpc\r\n";
    for (retries, status) in
        [("{ grpc: unavailable }", "0"), ("{ grpc: [aborted] }", "14"), ("1", "14")]
    {
        let first = upstream::replies_h2(ok_with(&format!("{fields}grpc-status: 14\r\n"), ""));
        let fine = upstream::replies_h2(ok_with(&format!("{fields}grpc-status: 0\r\n"), ""));
        let text = format!(
            "limits: {{ retry_body: 1KiB }}
routes: [{{ upstream: u, retries: {retries} }}]
upstreams: {{ u: {{ endpoints: [$0, $1], protocol: h2 }} }}"
        );
        let gateway = gateway(&text, &[&first, &fine]);
        let mut client = gateway.connects_h2();
        let head = Head::post("/").with("content-type", "application/grpc").with("te", "trailers");
        let stream = client.starts(&head.with("content-length", "5"));
        client.sends_data(stream, [0; 5], true);
        client.response(stream).has_field("grpc-status", status);
    }
}

#[test]
fn a_call_that_declares_no_length_is_made_again_where_its_message_came_with_its_head() {
    let fields = "content-type: application/grpc\r\n";
    let first = upstream::replies_h2(ok_with(&format!("{fields}grpc-status: 14\r\n"), ""));
    let fine = upstream::replies_h2(ok_with(&format!("{fields}grpc-status: 0\r\n"), ""));
    let text = "limits: { retry_body: 1KiB }
routes: [{ upstream: u, retries: { grpc: unavailable } }]
upstreams: { u: { endpoints: [$0, $1], protocol: h2 } }";
    let gateway = gateway(text, &[&first, &fine]);
    let mut client = gateway.connects_h2();
    let head = Head::post("/").with("content-type", "application/grpc").with("te", "trailers");
    let stream = client.next_stream();
    let message = [Frame::headers(stream, block(&head), false), Frame::data(stream, [0; 5], true)];
    client.offers(&message);
    client.response(stream).has_field("grpc-status", "0");
    assert_eq!(first.request().body, [0; 5]);
    assert_eq!(fine.request().body, [0; 5]);
}

// field: retries.on, retries.per_try_timeout
#[test]
fn an_attempt_that_takes_too_long_is_replaced_by_another() {
    let within = "on: timeout, per_try_timeout: 200ms";
    for (request, more, is_repeated) in [
        (GET.to_owned(), "", true),
        (post(""), "", false),
        (post(""), ", methods: [POST]", true),
        (post("Idempotency-Key: 1\r\n"), ", idempotency_key: Idempotency-Key", true),
    ] {
        let (slow, fine) = (upstream::stalls(), upstream::responds(|request| ok(&request.text())));
        let gateway = retrying(&format!("{{ {within}{more} }}"), &[&slow, &fine]);
        let response = gateway.asks(&request);
        match is_repeated {
            true => drop(response.has_status(200)),
            false => drop(response.has_problem(504, "response-timeout")),
        }
        assert_eq!(
            retried(&gateway, RetryReason::Timeout),
            u64::from(is_repeated),
            "{request}{more}"
        );
    }
}

#[test]
fn what_is_not_named_is_not_retried() {
    for (on, status) in [("[connect, refused_stream]", 502), ("reset_before_response", 200)] {
        let (closes, fine) = (upstream::replies("").then_closes(), upstream::replies(ok("")));
        let gateway = retrying(&format!("{{ on: {on} }}"), &[&closes, &fine]);
        gateway.get("/").has_status(status);
    }
}

// field: retries.methods
#[test]
fn a_route_says_which_methods_do_no_harm() {
    for (methods, request, is_repeated) in [
        ("[POST]", post(""), true),
        ("[POST]", GET.to_owned(), false),
        ("[GET, POST]", GET.to_owned(), true),
        ("GET", post(""), false),
    ] {
        let first = upstream::replies("").then_closes();
        let second = upstream::responds(|request| ok(&request.text()));
        let gateway = retrying(&format!("{{ methods: {methods} }}"), &[&first, &second]);
        let response = gateway.asks(&request);
        assert_eq!(response.status, if is_repeated { 200 } else { 502 }, "{methods}");
        if is_repeated {
            assert_eq!(response.text(), if request == GET { "" } else { "abc" });
        }
    }
}

// field: retries.idempotency_key
#[test]
fn a_request_with_a_key_may_be_repeated() {
    let keyed = |key: &str| post(&format!("Idempotency-Key: {key}\r\n"));
    for (retries, request, status) in [
        ("{ idempotency_key: idempotency-key }", keyed("8e03978e"), 200),
        ("{ idempotency_key: idempotency-key }", keyed(""), 502),
        ("{ idempotency_key: idempotency-key }", post(""), 502),
        ("1", keyed("8e03978e"), 502),
    ] {
        let first = upstream::replies("").then_closes();
        let second = upstream::responds(|request| ok(&request.text()));
        let gateway = retrying(retries, &[&first, &second]);
        assert_eq!(gateway.asks(&request).status, status, "{retries} {request}");
        assert_eq!(second.requests().len(), usize::from(status == 200));
    }
}

#[test]
fn a_body_that_is_gone_is_not_repeated_whatever_the_route_says() {
    let first = upstream::replies("").then_closes();
    let second = upstream::replies(ok(""));
    let gateway =
        gateway("routes: [{ upstream: u, retries: { methods: [POST] } }]", &[&first, &second]);
    gateway.asks(&post("")).has_problem(502, "upstream-closed");
    assert_eq!(second.requests().len(), 0);
}

#[test]
fn the_only_endpoint_is_tried_again() {
    let endpoint = once(BUSY);
    let gateway = retrying("{ statuses: 503 }", &[&endpoint]);
    gateway.get("/").has_status(200).has_body("again");
}

// field: retries.backoff, backoff.base, backoff.max
#[test]
fn attempts_at_the_same_endpoint_are_apart() {
    for (backoff, is_apart) in [
        ("{ base: 0s }", false),
        ("{ base: 0s, max: 60s }", false),
        ("{ base: 60s, max: 60s }", true),
    ] {
        let busy = upstream::replies(BUSY);
        let gateway =
            retrying(&format!("{{ statuses: 503, attempts: 5, backoff: {backoff} }}"), &[&busy]);
        let mut client = gateway.connects();
        client.sends(GET);
        busy.waits_for_requests(1);
        match is_apart {
            // It would wait for minutes, and gives up as its client does.
            true => client.closes(),
            false => drop(client.response().has_status(503)),
        }
        assert_eq!(busy.requests().len() < 6, is_apart, "{backoff}");
    }
}

// field: retries.max_retry_after
#[test]
fn an_endpoint_that_asks_for_more_time_than_there_is_has_the_last_word() {
    for (most, asks_for, body) in [
        ("0s", "0", "fine"),
        ("0s", "1", "busy"),
        ("1s", "1", "fine"),
        ("1s", "2", "busy"),
        ("0s", "Fri, 31 Dec 1999 23:59:59 GMT", "fine"),
        ("60s", "Tue, 31 Dec 2999 23:59:59 GMT", "busy"),
        ("1s", "Tue, 31 Dec 2999 23:59:59 GMT\r\nDate: Tue, 31 Dec 2999 23:59:58 GMT", "fine"),
        ("1s", "Fri, 31 Dec 1999 23:59:59 GMT\r\nDate: Fri, 31 Dec 1999 23:59:57 GMT", "busy"),
        ("60s", "soon", "busy"),
    ] {
        let busy = format!(
            "HTTP/1.1 503 Busy\r\nRetry-After: {asks_for}\r\nContent-Length: 4\r\n\r\nbusy"
        );
        let (busy, fine) = (upstream::replies(busy), upstream::replies(ok("fine")));
        let retries = format!("{{ statuses: 503, max_retry_after: {most} }}");
        retrying(&retries, &[&busy, &fine]).get("/").has_body(body);
    }
}
