//! The deadline of a request: one for everything that it waits for, and passed on.

use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Response, gateway};

/// The field of these tests.
const FIELD: &str = "deadline_header: X-Timeout-Ms";

fn get(timeout: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\nX-Timeout-Ms: {timeout}\r\n\r\n")
}

#[track_caller]
fn is_late(response: Response) {
    response.has_problem(504, "deadline");
}

// field: timeouts.total, route_timeouts.total
#[test]
fn a_request_has_one_deadline() {
    let stalls = upstream::stalls();
    for text in [
        "timeouts: { total: 300ms }",
        "timeouts: { total: 1h }\nroutes: [{ upstream: u, timeouts: { total: 300ms } }]",
    ] {
        is_late(gateway(text, &[&stalls]).get("/"));
    }
    let slow = upstream::listens();
    let text =
        "timeouts: { total: 100ms }\nroutes: [{ upstream: u, timeouts: { total: unlimited } }]";
    let gateway = gateway(text, &[&slow]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut endpoint = slow.accepts();
    endpoint.request();
    // Longer than that deadline and the clock of the gateway: it answers another request first that has it.
    is_late(titan_testkit::gateway("timeouts: { total: 500ms }", &[&upstream::stalls()]).get("/"));
    endpoint.sends(ok("late"));
    client.response().has_body("late");
}

#[test]
fn all_attempts_share_it() {
    let stalls = upstream::stalls();
    let text = "timeouts: { total: 700ms }
routes: [{ upstream: u, retries: { attempts: 5, on: timeout, per_try_timeout: 200ms } }]";
    // Its code is that of the last attempt where the pause before the next one would have outlasted the deadline.
    gateway(text, &[&stalls]).get("/").has_status(504);
    let attempts = stalls.connections();
    assert!((2..=4).contains(&attempts), "{attempts}");
}

#[test]
fn an_endpoint_that_takes_all_the_time_of_a_route_has_failed() {
    let stalls = upstream::stalls();
    let text = "timeouts: { total: 300ms, deadline_header: X-Time }
upstreams: { u: { endpoints: $0, ejection: off, circuit_breaker: { consecutive_failures: 2 } } }";
    let gateway = gateway(text, &[&stalls]);
    // A client that gives it less says nothing about it.
    for _ in 0..3 {
        let mut client = gateway.connects();
        is_late(client.sends("GET / HTTP/1.1\r\nHost: a\r\nX-Time: 100\r\n\r\n").response());
    }
    is_late(gateway.get("/"));
    is_late(gateway.get("/"));
    gateway.get("/").has_problem(503, "circuit-open");
}

/// A request whose body does not end.
const UNENDING: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";

#[test]
fn an_endpoint_has_not_failed_that_waits_for_its_request() {
    let upstream = upstream::responds(|_| ok("fine"));
    let text = "timeouts: { total: 300ms }
upstreams: { u: { endpoints: $0, ejection: off, circuit_breaker: { consecutive_failures: 1 } } }";
    let gateway = gateway(text, &[&upstream]);
    is_late(gateway.connects().sends(UNENDING).response());
    gateway.get("/").has_status(200).has_body("fine");
}

#[test]
fn the_time_of_an_attempt_stands_still_while_its_client_sends() {
    let upstream = upstream::listens();
    let text = "routes: [{ upstream: u, retries: { on: timeout, per_try_timeout: 200ms } }]";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects();
    client.sends(UNENDING);
    let mut endpoint = upstream.accepts();
    endpoint.head();
    // Another request takes longer than that meanwhile, and the clock of the gateway longer still.
    is_late(titan_testkit::gateway("timeouts: { total: 500ms }", &[&upstream::stalls()]).get("/"));
    client.sends("0\r\n\r\n");
    endpoint.expects("3\r\nabc\r\n0\r\n\r\n");
    endpoint.sends(ok("all of it"));
    client.response().has_body("all of it");
}

#[test]
fn a_pause_that_would_outlast_it_is_not_begun() {
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 30\r\nContent-Length: 4\r\n\r\nbusy";
    let busy = upstream::replies(BUSY);
    let text = "timeouts: { total: 20s }
routes: [{ upstream: u, retries: { statuses: 503, max_retry_after: 60s } }]";
    gateway(text, &[&busy]).get("/").has_status(503).has_body("busy");
}

#[test]
fn it_runs_in_a_queue_too() {
    let upstream = upstream::listens();
    let text = "timeouts: { total: 600ms }
upstreams: { u: { endpoints: $0, max_connections: 1, queue: { timeout: 1h } } }";
    let gateway = gateway(text, &[&upstream]);
    let mut first = gateway.connects();
    first.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    is_late(gateway.get("/"));
    is_late(first.response());
}

#[test]
fn it_runs_while_policies_wait_too() {
    let (upstream, auth) = (upstream::listens(), upstream::stalls());
    let text = "timeouts: { total: 300ms }
upstreams: { u: $0, auth: $1 }
routes: [{ upstream: u }]
apply: [a]
policies: { a: { authorise: { forward_auth: { upstream: auth, timeout: 1m } } } }";
    is_late(gateway(text, &[&upstream, &auth]).get("/"));
    upstream.expects_no_connection();
}

#[test]
fn a_response_that_outlasts_it_is_cut_off() {
    let upstream = upstream::listens();
    let gateway = gateway("timeouts: { total: 300ms }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    client.head();
    client.expects_close_after("ab");
    endpoint.expects_close();
}

// field: timeouts.deadline_header, route_timeouts.deadline_header
#[test]
fn a_client_may_say_how_long_it_waits() {
    for text in [
        format!("timeouts: {{ {FIELD} }}"),
        format!(
            "timeouts: {{ deadline_header: X-Other }}\nroutes: [{{ upstream: u, timeouts: {{ {FIELD} }} }}]"
        ),
    ] {
        let stalls = upstream::stalls();
        let gateway = gateway(&text, &[&stalls]);
        is_late(gateway.asks(&get("300")));
        is_late(gateway.asks(&get("0")));
        for bad in ["", "soon", "1s", "-1"] {
            gateway.asks(&get(bad)).has_problem(400, "bad-deadline");
        }
        assert_eq!(stalls.connections(), 1, "what is late or wrong is not sent");
    }
}

/// What an endpoint is told.
fn told(text: &str, request: &str) -> Option<u64> {
    let upstream = upstream::responds(|_| ok(""));
    let gateway = gateway(text, &[&upstream]);
    gateway.asks(request).has_status(200);
    upstream.request().field("x-timeout-ms").map(|left| left.parse().expect("a number"))
}

#[test]
fn an_endpoint_is_told_what_is_left() {
    let with = |total: &str| format!("timeouts: {{ {FIELD}, total: {total} }}");
    let left = told(&with("unlimited"), &get("60000")).unwrap();
    assert!((1_000..60_000).contains(&left), "{left}");
    let left = told(&with("30s"), &get("60000")).unwrap();
    assert!((1_000..30_000).contains(&left), "never longer than the route allows: {left}");
    let left = told(&with("30s"), "GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!((1_000..30_000).contains(&left), "{left}");
    assert_eq!(told(&with("unlimited"), "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), None);
    assert_eq!(
        told("timeouts: { total: 30s }", &get("60000")),
        Some(60_000),
        "it is not its business"
    );
}

#[test]
fn each_attempt_is_told_anew() {
    let (first, second) = (upstream::stalls(), upstream::responds(|_| ok("")));
    let text = format!(
        "timeouts: {{ {FIELD} }}
routes: [{{ upstream: u, retries: {{ on: timeout, per_try_timeout: 300ms }} }}]"
    );
    let gateway = gateway(&text, &[&first, &second]);
    gateway.asks(&get("60000")).has_status(200);
    let left: u64 = second.request().field("x-timeout-ms").unwrap().parse().unwrap();
    assert!(left <= 59_700, "{left}");
}

#[test]
fn a_call_has_the_deadline_of_its_route() {
    let upstream = upstream::listens();
    let text = "timeouts: { total: 400ms }\nupstreams: { u: { endpoints: $0, protocol: h2 } }";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects_h2();
    let head = Head::post("/").with("content-type", "application/grpc").with("te", "trailers");
    let stream = client.asks(&head.with("grpc-timeout", "1H"));
    let mut endpoint = upstream.accepts_h2();
    let (_, request) = endpoint.request();
    let left = request.field("grpc-timeout").unwrap_or_default().to_owned();
    assert!(left.ends_with(['n', 'u']), "{left}: less than a second in the finest unit");
    client.response(stream).has_field("grpc-status", "4");
}

#[test]
fn a_call_may_have_more_time_than_the_field_can_tell() {
    let upstream = upstream::listens();
    let text =
        format!("timeouts: {{ {FIELD} }}\nupstreams: {{ u: {{ endpoints: $0, protocol: h2 }} }}");
    let gateway = gateway(&text, &[&upstream]);
    let mut client = gateway.connects_h2();
    let head = Head::post("/").with("content-type", "application/grpc").with("te", "trailers");
    client.asks(&head.with("grpc-timeout", "2562047H"));
    let (_, request) = upstream.accepts_h2().request();
    assert_eq!(request.field("x-timeout-ms"), Some("999999999"));
}
