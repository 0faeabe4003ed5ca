//! Connections to endpoints: used again, bounded, waited for, and given up in time.

use std::time::{Duration, Instant};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, Gate, Gateway, gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A configuration with one upstream that has these settings.
fn settings(text: &str) -> String {
    format!("upstreams: {{ u: {{ endpoints: $0, {text} }} }}")
}

/// The figures of the only endpoint: connections open, idle ones, requests that wait.
fn figures(gateway: &Gateway) -> (u32, u32, u32) {
    let endpoint = gateway.status().endpoints().remove(0);
    (endpoint.open, endpoint.idle, endpoint.waiting)
}

/// Waits until the figures are those; what changes them is on its way.
#[track_caller]
fn waits_for_figures(gateway: &Gateway, wanted: (u32, u32, u32)) {
    waits_until(&format!("{wanted:?}"), || figures(gateway) == wanted);
}

#[test]
fn one_connection_serves_one_request_after_the_other() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway("", &[&upstream]);
    for _ in 0..5 {
        // Of several clients, too.
        let mut client = gateway.connects();
        for _ in 0..5 {
            client.sends(GET).response().has_status(200);
        }
    }
    assert_eq!((upstream.requests().len(), upstream.connections()), (25, 1));
    waits_for_figures(&gateway, (1, 1, 0));
}

// field: upstream.max_connections
#[test]
fn an_endpoint_gets_no_more_connections_than_allowed() {
    for workers in [1, 2] {
        let gate = Gate::closed();
        let upstream = upstream::responds(gate.before(ok("")));
        let text = format!("workers: {workers}\n{}", settings("max_connections: 2"));
        let gateway = gateway(&text, &[&upstream]);
        let mut clients: Vec<_> = (0..6).map(|_| gateway.connects()).collect();
        clients.iter_mut().for_each(|client| {
            client.sends(GET);
        });
        waits_for_figures(&gateway, (2, 0, 4));
        upstream.waits_for_open(2);
        assert_eq!(upstream.connections(), 2, "{workers} workers");
        gate.opens();
        // The waiting request gets the connection that becomes free, or one in its place.
        for client in &mut clients {
            client.response().has_status(200);
        }
        assert!(figures(&gateway).0 <= 2, "{workers} workers");
    }
}

// field: upstream.queue, queue.length
#[test]
fn a_request_waits_for_a_connection_in_a_queue_of_that_length() {
    for length in [0, 1, 3] {
        let gate = Gate::closed();
        let upstream = upstream::responds(gate.before(ok("")));
        let queue = format!("max_connections: 1, queue: {{ length: {length}, timeout: 1m }}");
        let gateway = gateway(&settings(&queue), &[&upstream]);
        let mut clients: Vec<_> = (0..=length).map(|_| gateway.connects()).collect();
        for client in &mut clients {
            client.sends(GET);
        }
        waits_for_figures(&gateway, (1, 0, length));
        gateway.get("/").has_problem(503, "queue-full");
        gate.opens();
        for client in &mut clients {
            client.response().has_status(200);
        }
    }
}

// field: queue.timeout
#[test]
fn a_request_waits_for_a_connection_for_that_long() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    // More than the second that it would be by default.
    let text = settings("max_connections: 1, queue: { timeout: 1500ms }");
    let gateway = gateway(&text, &[&upstream]);
    let mut first = gateway.connects();
    first.sends(GET);
    waits_for_figures(&gateway, (1, 0, 0));
    let started = Instant::now();
    gateway.get("/").has_problem(503, "queue-timeout");
    assert!(started.elapsed() >= Duration::from_millis(1500), "{:?}", started.elapsed());
    gate.opens();
    first.response().has_status(200);
}

// field: upstream.max_idle
#[test]
fn as_many_idle_connections_are_kept_as_allowed() {
    for (most, kept) in [(0, 0), (1, 1), (2, 2), (8, 3)] {
        let gate = Gate::closed();
        let upstream = upstream::responds(gate.before(ok("")));
        let gateway = gateway(&settings(&format!("max_idle: {most}")), &[&upstream]);
        let mut clients: Vec<_> = (0..3).map(|_| gateway.connects()).collect();
        for client in &mut clients {
            client.sends(GET);
        }
        waits_for_figures(&gateway, (3, 0, 0));
        gate.opens();
        for client in &mut clients {
            client.response().has_status(200);
        }
        waits_for_figures(&gateway, (kept, kept, 0));
        upstream.waits_for_open(kept as usize);
    }
}

// field: upstream.idle_timeout
#[test]
fn an_idle_connection_is_kept_for_that_long() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway(&settings("idle_timeout: 100ms"), &[&upstream]);
    gateway.get("/").has_status(200);
    upstream.waits_for_open(0);
    waits_for_figures(&gateway, (0, 0, 0));
}

#[test]
fn a_connection_that_the_endpoint_closes_is_given_up_at_once() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway("", &[&upstream]);
    gateway.get("/").has_status(200);
    waits_for_figures(&gateway, (1, 1, 0));
    upstream.closes_all();
    waits_for_figures(&gateway, (0, 0, 0));
}

#[test]
fn connections_of_two_workers_count_together() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway(&format!("workers: 2\n{}", settings("max_idle: 3")), &[&upstream]);
    for _ in 0..40 {
        gateway.get("/").has_status(200);
    }
    let (open, ..) = figures(&gateway);
    assert!(open <= 2, "{open} open: at most one for each worker");
    waits_for_figures(&gateway, (open, open, 0));
}

#[test]
fn every_connection_is_closed_when_the_gateway_ends() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway("workers: 2", &[&upstream]);
    for _ in 0..10 {
        gateway.get("/").has_status(200);
    }
    drop(gateway);
    upstream.waits_for_open(0);
}

#[test]
fn a_client_that_leaves_gives_up_its_place_in_the_queue() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    let text = settings("max_connections: 1, queue: { length: 1, timeout: 1m }");
    let gateway = gateway(&text, &[&upstream]);
    let mut first = gateway.connects();
    first.sends(GET);
    waits_for_figures(&gateway, (1, 0, 0));
    // An end may be all that shows, or a reset; and what has come behind the request may hide either.
    for (requests, end) in [(1, End::Close), (1, End::Reset), (2, End::Reset)] {
        let mut leaves = gateway.connects();
        leaves.sends(GET.repeat(requests));
        waits_for_figures(&gateway, (1, 0, 1));
        leaves.ends(end);
        waits_for_figures(&gateway, (1, 0, 0));
    }
    gate.opens();
    first.response().has_status(200);
    assert_eq!(upstream.requests().len(), 1, "nobody asks for those who have left");
}

/// A client of that address, behind a proxy that is trusted, asks for the path.
fn asks_as(gateway: &Gateway, client: &str, path: &str) -> titan_testkit::Peer {
    let mut peer = gateway.connects();
    peer.sends(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n"));
    peer
}

#[test]
fn a_client_that_takes_all_connections_leaves_some_to_others() {
    let gate = Gate::closed();
    let held = gate.before(ok("held"));
    let upstream = upstream::responds(move |request| match request.target.as_str() {
        "/held" => held(request),
        _ => ok("free"),
    });
    let upstreams = settings("max_connections: 16, queue: { timeout: 1m }");
    let text = format!("workers: 2\nforwarding: {{ trusted_proxies: [127.0.0.0/8] }}\n{upstreams}");
    let gateway = gateway(&text, &[&upstream]);
    let greedy: Vec<_> = (0..18).map(|_| asks_as(&gateway, "192.0.2.1", "/held")).collect();
    waits_for_figures(&gateway, (14, 0, 4));
    for _ in 0..20 {
        asks_as(&gateway, "192.0.2.2", "/").response().has_status(200).has_body("free");
    }
    // Not even what others have left idle is for the one who has the most.
    waits_until("it still waits", || figures(&gateway).2 == 4);
    gate.opens();
    for mut client in greedy {
        client.response().has_status(200).has_body("held");
    }
}

#[test]
fn in_a_full_queue_a_client_gives_way_to_one_that_has_fewer() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    let upstreams = settings("max_connections: 1, queue: { length: 3, timeout: 1m }");
    let text = format!("forwarding: {{ trusted_proxies: [127.0.0.0/8] }}\n{upstreams}");
    let gateway = gateway(&text, &[&upstream]);
    let mut greedy = vec![asks_as(&gateway, "192.0.2.1", "/")];
    waits_for_figures(&gateway, (1, 0, 0));
    for waiting in 1..=3 {
        greedy.push(asks_as(&gateway, "192.0.2.1", "/"));
        waits_for_figures(&gateway, (1, 0, waiting));
    }
    let mut modest = asks_as(&gateway, "192.0.2.2", "/");
    greedy.pop().expect("it came last").response().has_problem(503, "queue-full");
    gate.opens();
    modest.response().has_status(200);
    greedy.iter_mut().for_each(|client| drop(client.response().has_status(200)));
}
