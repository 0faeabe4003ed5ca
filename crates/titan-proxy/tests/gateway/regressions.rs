//! What a hostile reading of the gateway found: each test fails without the mending.

use crate::{Held, between, between_under};
use std::time::{Duration, Instant};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, Gate, Gateway, Peer, gateway, scheme, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Two routes; finding the second takes the worker a while, for the first has an expression that matches
/// only by trying each byte anew.
const BUSY: &str = "\
- { path: /busy, headers: { X: { regex: '(?s-u)[ab]*a[ab]{99}[c-z]' } }, respond: 200 }
- { path: /busy, respond: 200 }
";

/// The request that keeps the worker busy.
fn busy() -> String {
    let mut random = 1_u32;
    let letter = |_| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if random >> 31 == 0 { 'a' } else { 'b' }
    };
    let letters: String = (0..10_000).map(letter).collect();
    format!("GET /busy HTTP/1.1\r\nHost: a\r\nX: {letters}\r\n\r\n")
}

/// A gateway with one worker that can be kept [`BUSY`], and other routes and settings.
fn gateway_with_busy(text: &str, upstreams: &[&dyn std::fmt::Display]) -> Gateway {
    gateway(&format!("limits: {{ pipeline: 1000 }}\nroutes:\n{BUSY}{text}"), upstreams)
}

/// Waits until the worker is busy with a request of that client, and acts before it can look at anything
/// else: then it hears of all that has happened at the same moment.
#[track_caller]
fn meanwhile(gateway: &Gateway, client: &mut Peer, request: &str, act: impl FnOnce()) {
    let begun = || gateway.metrics().sum(|cells| cells.begun.get());
    let before = begun();
    client.sends(request);
    waits_until("the worker to be busy", || begun() > before);
    act();
    client.response().has_status(200);
}

/// Lets some time pass: until that gateway has given up a client that says nothing.
fn pause(gateway: &Gateway) {
    gateway.connects().expects_close();
}

/// The number of exchanges of the only route whose responses are of that class.
fn responses_of(gateway: &Gateway, class: usize) -> u64 {
    gateway.status().routes()[0].sum(|cells| cells.classes[class].get())
}

#[test]
fn a_body_that_was_on_its_way_to_a_dying_endpoint_is_not_sent_to_another_one() {
    let (first, second) = (upstream::listens(), upstream::listens());
    let text = "- { prefix: /, upstream: u, retries: 1 }";
    let gateway = gateway_with_busy(text, &[&first, &second]);
    if scheme() == "https" {
        // No byte of the body leaves memory by a pipe: the second endpoint gets them all.
        return;
    }
    let mut client = gateway.connects();
    client.sends("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    let mut endpoint = first.accepts();
    endpoint.head();
    meanwhile(&gateway, &mut gateway.connects(), &busy(), || {
        client.sends("1".repeat(100_000));
        endpoint.resets();
    });
    client.response().has_problem(502, "upstream-closed");
    second.expects_no_connection();
}

#[test]
fn an_unsolicited_response_is_noticed_in_the_middle_of_a_pipeline() {
    let upstream = upstream::listens();
    let text = "- { path: /here, respond: { body: here } }\n- { prefix: /, upstream: u }";
    let gateway = gateway_with_busy(text, &[&upstream]);
    // Around the number of steps after which a task has to let others go on.
    for pipelined in 118..130 {
        let mut client = gateway.connects();
        client.sends(GET);
        let mut endpoint = upstream.accepts();
        endpoint.request();
        endpoint.sends(ok("first"));
        client.response().has_body("first");
        meanwhile(&gateway, &mut gateway.connects(), &busy(), || {
            endpoint.sends(ok("leftover"));
            let here = "GET /here HTTP/1.1\r\nHost: a\r\n\r\n";
            client.sends(here.repeat(pipelined) + GET);
        });
        for _ in 0..pipelined {
            client.response().has_body("here");
        }
        let is_asked = || gateway.status().endpoints()[0].active == 1;
        waits_until("the last request to be sent on", || client.has_news() || is_asked());
        assert!(!client.has_news(), "{}: {}", pipelined, client.response().text());
        let mut other = upstream.accepts();
        other.request();
        other.sends(ok("second"));
        client.response().has_body("second");
        // So that the next round begins without a connection.
        other.closes();
        waits_until("no connection", || gateway.status().endpoints()[0].open == 0);
    }
}

#[test]
fn a_client_that_takes_its_response_slowly_gets_it() {
    const LENGTH: usize = 30_000_000;
    let upstream = upstream::listens();
    // The pause is longer than one time that a client is given, and shorter than two.
    let gateway = gateway("timeouts: { write: 4s, idle: 5500ms }", &[&upstream]);
    let mut client = gateway.connects();
    client.takes_little(64 << 10).sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends(format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n"));
    let sent = endpoint.sends_until_blocked(LENGTH);
    client.head();
    // Less than what makes the kernel say that there is room again.
    let taken = client.takes(100 << 10).len();
    pause(&gateway);
    let rest = LENGTH - taken;
    std::thread::scope(|scope| {
        scope.spawn(|| endpoint.sends("x".repeat(LENGTH - sent)));
        client.takes(rest);
    });
}

/// Two clients of each of a gateway's two workers.
fn two_of_each_worker(gateway: &Gateway) -> [[Peer; 2]; 2] {
    let accepted = |worker: usize| gateway.metrics().workers()[worker].accepted.get();
    let mut clients = [Vec::new(), Vec::new()];
    while clients.iter().any(|of_one| of_one.len() < 2) {
        let before = [accepted(0), accepted(1)];
        let client = gateway.connects();
        waits_until("a worker to accept", || [accepted(0), accepted(1)] != before);
        clients[usize::from(accepted(1) > before[1])].push(client);
    }
    clients.map(|mut of_one| {
        of_one.truncate(2);
        of_one.try_into().expect("the loop goes on until there are two")
    })
}

/// A gateway with two workers that may have one connection to its endpoint between them.
fn gateway_with_one_connection(timeout: &str, upstream: &dyn std::fmt::Display) -> Gateway {
    let settings = format!("max_connections: 1, queue: {{ timeout: {timeout} }}");
    let text = format!("workers: 2\nupstreams: {{ u: {{ endpoints: $0, {settings} }} }}");
    gateway(&text, &[upstream])
}

/// Waits until so many requests wait for a connection.
fn waits_for_queue(gateway: &Gateway, waiting: u32) {
    waits_until("a queue", || gateway.status().endpoints()[0].waiting == waiting);
}

#[test]
fn a_request_that_waits_on_another_worker_gets_the_next_connection() {
    let upstream = upstream::listens();
    let gateway = gateway_with_one_connection("10s", &upstream);
    let [[mut busy, _], [mut patient, _]] = two_of_each_worker(&gateway);
    busy.sends("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    let mut endpoint = upstream.accepts();
    endpoint.request();
    patient.sends("GET /patient HTTP/1.1\r\nHost: a\r\n\r\n");
    waits_for_queue(&gateway, 1);
    endpoint.sends(ok("1"));
    busy.response().has_body("1");
    endpoint.expects_close();
    let mut next = upstream.accepts();
    assert_eq!(next.request().target, "/patient");
    next.sends(ok("2"));
    patient.response().has_body("2");
}

#[test]
fn a_worker_on_which_requests_always_wait_leaves_the_connection_to_another() {
    const EACH: usize = 50;
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("x")));
    let gateway = gateway_with_one_connection("10s", &upstream);
    let [mut busy, [mut patient, _]] = two_of_each_worker(&gateway);
    for client in &mut busy {
        client.sends("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n".repeat(EACH));
    }
    waits_for_queue(&gateway, 1);
    patient.sends("GET /patient HTTP/1.1\r\nHost: a\r\n\r\n");
    waits_for_queue(&gateway, 2);
    gate.opens();
    let requests = upstream.waits_for_requests(2 * EACH + 1);
    let turn = requests.iter().position(|request| request.target == "/patient");
    assert!(turn < Some(EACH / 2), "{turn:?}");
}

#[test]
fn workers_leave_idle_connections_to_each_other_at_once() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway_with_one_connection("50ms", &upstream);
    let clients = two_of_each_worker(&gateway);
    let mut clients: Vec<_> = clients.into_iter().flatten().collect();
    // From one worker to the other with each second request. A worker looks by itself each 100 ms.
    for _ in 0..10 {
        for client in &mut clients {
            client.sends(GET).response().has_body("x");
        }
    }
}

#[test]
fn an_early_response_outlives_a_request_that_has_stopped() {
    let text = "timeouts: { body: 300ms, idle: 200ms }";
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc";
    let (held, mut client, mut endpoint) = between_under(text, request);
    endpoint.head();
    endpoint.sends("HTTP/1.1 413 Content Too Large\r\nContent-Length: 6\r\n\r\n");
    client.head();
    for _ in 0..6 {
        endpoint.sends("z");
        client.expects("z");
        pause(&held.gateway);
    }
    client.expects_close();
    assert_eq!(responses_of(&held.gateway, 4), 1);
}

#[test]
fn a_client_that_leaves_does_not_make_its_endpoint_look_slow() {
    let gate = Gate::closed();
    let stuck = upstream::responds(gate.before(ok("stuck")));
    let fast = upstream::responds(|request| match request.target.as_str() {
        "/silent" => Vec::new(),
        _ => ok("fast"),
    });
    let text = "upstreams: { u: { endpoints: [$0, $1], balance: p2c_ewma } }";
    let gateway = gateway(text, &[&stuck, &fast]);
    let active = |endpoint: usize| gateway.status().endpoints()[endpoint].active;
    // One request waits at the one, so that the other has to be much slower not to be preferred.
    let mut waiting = gateway.connects();
    let is_stuck = |client: &mut Peer| {
        waits_until("a response, or none", || client.has_news() || active(0) > 0);
        active(0) > 0
    };
    while !is_stuck(waiting.sends(GET)) {
        waiting.response().has_body("fast");
    }
    gateway.get("/").has_body("fast");
    let mut leaving = gateway.connects();
    leaving.sends("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
    waits_until("the request to be sent", || active(1) == 1);
    leaving.resets();
    waits_until("the request to be given up", || active(1) == 0);
    for _ in 0..20 {
        let mut client = gateway.connects();
        client.sends(GET);
        waits_until("a response, or none", || client.has_news() || active(0) > 1);
        assert_eq!(active(0), 1, "a request has gone to the slow endpoint");
        client.response().has_body("fast");
    }
    gate.opens();
    waiting.response().has_body("stuck");
}

#[test]
fn pieces_of_a_large_body_do_not_wait_for_more() {
    let (_held, mut client, mut endpoint) = between(GET);
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n");
    client.head();
    let started = Instant::now();
    for _ in 0..40 {
        endpoint.sends("a piece");
        client.expects("a piece");
    }
    // The kernel would keep each back for 200 ms.
    let took = started.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_full_endpoint_leaves_its_requests_to_another_one() {
    let gate = Gate::closed();
    let stuck = upstream::responds(gate.before(ok("stuck")));
    let other = upstream::replies(ok("other"));
    let text =
        "upstreams: { u: { endpoints: [$0, $1], max_connections: 1, queue: { length: 0 } } }";
    let gateway = gateway(text, &[&stuck, &other]);
    let mut first = gateway.connects();
    first.sends(GET);
    waits_until("it to be full", || gateway.status().endpoints()[0].active == 1);
    for method in ["GET", "POST"].repeat(5) {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        gateway.asks(&request).has_body("other");
    }
    gate.opens();
    first.response().has_body("stuck");
}

#[test]
fn a_response_that_does_not_arrive_counts_as_none() {
    let (held, client, mut endpoint) = between(GET);
    endpoint.request();
    client.resets();
    endpoint.rest();
    waits_until("it to be counted", || responses_of(&held.gateway, 0) == 1);
    let mut client = held.gateway.connects();
    client.sends(GET);
    let mut endpoint = held.upstream.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    client.head();
    endpoint.closes();
    client.expects_close_after("ab");
    waits_until("both to be counted", || responses_of(&held.gateway, 0) == 2);
    assert_eq!(responses_of(&held.gateway, 2), 0);
}

#[test]
fn a_stray_line_after_the_last_request_does_not_cut_its_response() {
    const LENGTH: usize = 3_000_000;
    const TAIL: usize = 100_000;
    let text = "\
- { prefix: /other, respond: 200 }
- { prefix: /, upstream: u }";
    let upstream = upstream::listens();
    let gateway = gateway(&format!("routes:\n{text}"), &[&upstream]);
    let mut client = gateway.connects();
    client.takes_little(64 << 10);
    client.sends("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    client.sends("\r\n");
    let response =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n{}", "q".repeat(LENGTH));
    let sending = std::thread::spawn(move || {
        endpoint.sends(response);
        endpoint
    });
    client.head();
    client.takes(LENGTH - TAIL);
    // The rest is in the kernel's hands when the gateway is done, and has gone on to something else.
    waits_until("the response to be out", || {
        gateway.status().routes()[1].sum(|cells| cells.classes[2].get()) == 1
    });
    gateway.get("/other").has_status(200);
    client.takes(TAIL);
    client.expects_close();
    drop(sending.join().expect("the endpoint could send its response"));
}

#[test]
fn a_client_that_has_begun_another_request_is_missed_when_it_resets() {
    for begun in ["", "G", GET] {
        let (_held, client, mut endpoint) = between(format!("{GET}{begun}"));
        endpoint.request();
        client.resets();
        endpoint.rest();
    }
}

#[test]
fn a_request_whose_client_left_the_queue_is_not_sent() {
    let settings = "max_connections: 1, queue: { timeout: 10s }";
    let text = format!("upstreams: {{ u: {{ endpoints: $0, {settings} }} }}");
    let post =
        |target: &str| format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let (held, mut client, mut endpoint) = between_under(&text, post("/first"));
    endpoint.request();
    let waiting = || held.gateway.status().endpoints()[0].waiting;
    let mut leaving = held.gateway.connects();
    leaving.sends(post("/left"));
    waits_until("one that waits", || waiting() == 1);
    let mut staying = held.gateway.connects();
    staying.sends(post("/stayed"));
    waits_until("two that wait", || waiting() == 2);
    leaving.resets();
    endpoint.sends(ok("first"));
    client.response().has_body("first");
    // Nor does it cost the others the connection.
    assert_eq!(endpoint.request().target, "/stayed");
    endpoint.sends(ok("stayed"));
    staying.response().has_body("stayed");
}

#[test]
fn a_request_with_a_body_does_not_go_over_a_connection_that_has_been_closed() {
    let upstream = upstream::listens();
    let gateway = gateway_with_busy("- { prefix: /, upstream: u }", &[&upstream]);
    for end in [End::Close, End::Reset] {
        let mut client = gateway.connects();
        client.sends(GET);
        let mut endpoint = upstream.accepts();
        endpoint.request();
        endpoint.sends(ok(""));
        client.response().has_status(200);
        // In one turn: the runtime learns of the end only when the request has gone out.
        let put = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
        meanwhile(&gateway, &mut client, &(busy() + put), || endpoint.ends(end));
        let mut next = upstream.accepts();
        assert_eq!(next.request().text(), "abc");
        next.sends(ok("new"));
        client.response().has_body("new");
        next.closes();
        waits_until("no connection", || gateway.status().endpoints()[0].open == 0);
    }
}

#[test]
fn a_request_that_waits_is_not_given_a_connection_that_has_been_closed() {
    let upstream = upstream::listens();
    let text =
        "- { prefix: /, upstream: u }\nupstreams: { u: { endpoints: $0, max_connections: 1 } }";
    let gateway = gateway_with_busy(text, &[&upstream]);
    let (mut first, mut second) = (gateway.connects(), gateway.connects());
    first.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    second.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    waits_for_queue(&gateway, 1);
    meanwhile(&gateway, &mut gateway.connects(), &busy(), || {
        endpoint.sends(ok("first"));
        endpoint.closes();
    });
    first.response().has_body("first");
    let mut next = upstream.accepts();
    assert_eq!(next.request().text(), "abc");
    next.sends(ok("second"));
    second.response().has_body("second");
}

#[test]
fn a_drain_that_cuts_a_response_off_says_so() {
    let text = "timeouts: { drain: 300ms }";
    let (held, mut client, mut endpoint) = between_under(text, "GET / HTTP/1.0\r\n\r\n");
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    client.head();
    client.expects("hello");
    let Held { gateway, upstream: _ } = held;
    gateway.drains();
    gateway.waits_for_end();
    client.expects_reset();
}
