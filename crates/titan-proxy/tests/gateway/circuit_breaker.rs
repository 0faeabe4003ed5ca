//! An upstream that fails is left alone for a while: by one breaker for all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use titan_proxy::{BreakerNow, BreakerState, BreakerWish};
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{
    Certificate, Gate, Gateway, Response, Upstream, gateway, start_with, usual, waits_until,
};

/// An endpoint that responds with a status that can be changed; 0 closes the connection instead.
fn changing(status: u16) -> (Upstream, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(status));
    let seen = Arc::clone(&status);
    let endpoint = upstream::responds(move |_| match seen.load(Ordering::Relaxed) {
        0 => Vec::new(),
        status => format!("HTTP/1.1 {status} So\r\nContent-Length: 2\r\n\r\nup").into_bytes(),
    });
    (endpoint.then_closes(), status)
}

/// A gateway in front of these endpoints, which may be ejected for nothing.
fn under(breaker: &str, endpoints: &[&Upstream]) -> Gateway {
    with_workers(1, breaker, endpoints)
}

fn with_workers(workers: u16, breaker: &str, endpoints: &[&Upstream]) -> Gateway {
    let addresses: Vec<_> = endpoints.iter().map(|it| it.address()).collect();
    let addresses: Vec<_> = addresses.iter().map(|it| it as &dyn std::fmt::Display).collect();
    gateway(&text(workers, breaker, endpoints.len()), &addresses)
}

fn text(workers: u16, breaker: &str, endpoints: usize) -> String {
    let list: Vec<_> = (0..endpoints).map(|place| format!("${place}")).collect();
    format!(
        "workers: {workers}\nroutes: [{{ upstream: u, retries: 0 }}]\n\
         upstreams: {{ u: {{ endpoints: [{}], ejection: off, circuit_breaker: {{ {breaker} }} }} }}",
        list.join(", ")
    )
}

fn is_rejected(response: &Response) -> bool {
    response.status == 503 && response.problem() == "circuit-open"
}

/// Waits until every circuit breaker is open: a worker notes how a request has fared when its client has the response already.
fn all_open(gateway: &Gateway) {
    let is_open = |breaker: &Option<BreakerNow>| {
        breaker.as_ref().is_none_or(|it| it.status.state == BreakerState::Open)
    };
    waits_until("all circuit breakers to be open", || {
        let upstreams = gateway.status().upstreams_now();
        let of_endpoints = upstreams.iter().flat_map(|it| &it.endpoints).map(|it| &it.breaker);
        upstreams.iter().map(|it| &it.breaker).chain(of_endpoints).all(is_open)
    });
}

/// Requests that are rejected at once: none reaches an endpoint.
fn rejects(gateway: &Gateway, endpoints: &[&Upstream]) {
    all_open(gateway);
    let count = || endpoints.iter().map(|it| it.requests().len()).sum::<usize>();
    let before = count();
    for _ in 0..5 {
        assert!(is_rejected(&gateway.get("/")));
    }
    assert_eq!(count(), before);
}

/// What was decided until something with these words was.
fn hears(gateway: &Gateway, words: &str, mut meanwhile: impl FnMut()) -> String {
    let mut heard = Vec::new();
    waits_until(words, || {
        meanwhile();
        heard.extend(gateway.tells());
        heard.iter().any(|what: &String| what.contains(words))
    });
    heard.into_iter().find(|what| what.contains(words)).expect("it was heard")
}

// field: upstream.circuit_breaker, circuit_breaker.failure_share, circuit_breaker.min_requests
#[test]
fn a_share_of_failures_opens_it() {
    for workers in [1, 2] {
        let (endpoint, status) = changing(200);
        let settings = "failure_share: 40%, min_requests: 5, open_time: 1h, max_open_time: 1h";
        let gateway = with_workers(workers, settings, &[&endpoint]);
        for now in [200, 200, 404, 200, 500, 500] {
            status.store(now, Ordering::Relaxed);
            gateway.get("/").has_status(now);
        }
        rejects(&gateway, &[&endpoint]);
        let told = hears(&gateway, "circuit breaker", || {});
        let what = "the circuit breaker changes from closed to open for 3600s: 2 of the last 5 requests failed";
        assert_eq!(told, what);
    }
}

// field: circuit_breaker.consecutive_failures, circuit_breaker.failures, circuit_breaker.statuses
#[test]
fn failures_in_a_row_open_it_if_they_count() {
    for (counts, failing, is_open) in [
        ("", 0, true),
        ("", 501, false),
        ("failures: [connect, timeout]", 0, false),
        ("failures: reset", 0, true),
        ("statuses: 501", 501, true),
        ("statuses: [502-599]", 500, false),
    ] {
        let (endpoint, _) = changing(failing);
        let settings =
            "failure_share: off, consecutive_failures: 3, open_time: 1h, max_open_time: 1h";
        let gateway = under(&format!("{settings}, {counts}"), &[&endpoint]);
        (0..4).for_each(|_| drop(gateway.get("/")));
        assert_eq!(endpoint.requests().len(), if is_open { 3 } else { 4 }, "{counts}, {failing}");
        assert_eq!(is_rejected(&gateway.get("/")), is_open, "{counts}, {failing}");
    }
}

#[test]
fn endpoints_that_cannot_be_reached_and_timeouts_open_it() {
    let unreachable = upstream::refuses();
    let stalls = upstream::stalls();
    for (counts, address) in [("connect", unreachable), ("timeout", stalls.address())] {
        let settings = format!(
            "failure_share: off, consecutive_failures: 1, failures: {counts}, open_time: 1h, max_open_time: 1h"
        );
        let timeouts = "timeouts: { response: 100ms, connect: 5s }\n";
        let gateway = gateway(&format!("{timeouts}{}", text(1, &settings, 1)), &[&address]);
        assert!(!is_rejected(&gateway.get("/")));
        assert!(is_rejected(&gateway.get("/")), "{counts}");
    }
}

// field: circuit_breaker.slow_share, circuit_breaker.slow_after
#[test]
fn a_share_of_slow_requests_opens_it() {
    const TAKES: Duration = Duration::from_millis(20);
    for (slow_after, is_open) in [("10ms", true), ("1h", false)] {
        let endpoint = upstream::responds(|_| {
            let begun = Instant::now();
            waits_until("it is slow", || begun.elapsed() > TAKES);
            ok("late")
        });
        let settings = format!(
            "slow_share: 100%, slow_after: {slow_after}, min_requests: 3, open_time: 1h, max_open_time: 1h"
        );
        let gateway = under(&settings, &[&endpoint]);
        (0..3).for_each(|_| drop(gateway.get("/").has_status(200)));
        assert_eq!(is_rejected(&gateway.get("/")), is_open, "{slow_after}");
    }
}

#[test]
fn a_client_is_told_when_to_come_again() {
    let (endpoint, _) = changing(500);
    let settings = "consecutive_failures: 1, open_time: 90s, max_open_time: 90s";
    let gateway = under(settings, &[&endpoint]);
    gateway.get("/").has_status(500);
    all_open(&gateway);
    let response = gateway.get("/").has_problem(503, "circuit-open");
    let after: u64 = response.field("retry-after").expect("it is there").parse().expect("seconds");
    // As much as a slow machine takes in between.
    assert!((70..=90).contains(&after), "{after}");
}

// field: circuit_breaker.half_open_requests, circuit_breaker.close_after
#[test]
fn half_open_it_lets_no_more_through_than_its_bound_and_closes() {
    for workers in [1, 2] {
        let (gate, fails, came) = (Gate::closed(), AtomicU16::new(1), Arc::default());
        let endpoint = upstream::responds({
            let (gate, came) = (gate.clone(), Arc::<AtomicU16>::clone(&came));
            move |_| {
                came.fetch_add(1, Ordering::Relaxed);
                if fails
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1))
                    .is_ok()
                {
                    return b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec();
                }
                gate.passes();
                ok("fine")
            }
        });
        // Trials have as long as it was open; what is done meanwhile takes less on a slow machine too.
        let settings =
            "consecutive_failures: 1, open_time: 2s, half_open_requests: 2, close_after: 5";
        let gateway = with_workers(workers, settings, &[&endpoint]);
        gateway.get("/").has_status(500);
        all_open(&gateway);
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    waits_until("a response", || !is_rejected(&gateway.get("/")));
                });
            }
            waits_until("two trials", || came.load(Ordering::Relaxed) == 3);
            for _ in 0..20 {
                assert!(is_rejected(&gateway.get("/")));
            }
            assert_eq!(came.load(Ordering::Relaxed), 3);
            gate.opens();
        });
        let told = hears(&gateway, "to closed", || {});
        let what =
            "the circuit breaker changes from half-open to closed: 5 trial requests succeeded";
        assert_eq!(told, what);
        (0..10).for_each(|_| drop(gateway.get("/").has_status(200)));
    }
}

#[test]
fn a_client_that_leaves_gives_the_place_back() {
    let (endpoint, status) = changing(500);
    let settings = "consecutive_failures: 1, open_time: 2s, half_open_requests: 1, close_after: 1";
    let gateway = under(settings, &[&endpoint]);
    gateway.get("/").has_status(500);
    let (gate, came) = (Gate::closed(), Arc::new(AtomicU16::new(0)));
    let stalling = upstream::responds({
        let (late, came) = (gate.before(ok("late")), Arc::clone(&came));
        move |request| {
            came.fetch_add(1, Ordering::Relaxed);
            late(request)
        }
    });
    // Whoever is first is the one trial, and leaves.
    gateway.reloads(&text(1, settings, 1), &[&stalling.address()]).expect("it is valid");
    hears(&gateway, "from open to half-open", || {});
    let mut clients = Vec::new();
    waits_until("a trial", || {
        let mut client = gateway.connects();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        clients.push(client);
        came.load(Ordering::Relaxed) > 0
    });
    assert!(is_rejected(&gateway.get("/")));
    drop(clients);
    status.store(200, Ordering::Relaxed);
    gateway.reloads(&text(1, settings, 1), &[&endpoint.address()]).expect("it is valid");
    waits_until("the next trial", || gateway.get("/").status == 200);
    gate.opens();
}

/// A stream that goes on for hours must not keep everybody else out.
#[test]
fn a_trial_is_over_when_its_response_begins() {
    let fails = AtomicU16::new(1);
    let endpoint = upstream::responds(move |_| {
        let fail = fails.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
        match fail.is_ok() {
            true => b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec(),
            false => b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\nbegun".to_vec(),
        }
    });
    let settings =
        "consecutive_failures: 1, open_time: 100ms, half_open_requests: 1, close_after: 2";
    let gateway = under(settings, &[&endpoint]);
    gateway.get("/").has_status(500);
    let mut clients = Vec::new();
    hears(&gateway, "from half-open to closed: 2 trial requests succeeded", || {
        let mut client = gateway.connects();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        clients.push(client);
    });
}

#[test]
fn it_is_open_for_longer_each_time() {
    let (endpoint, status) = changing(500);
    let settings =
        "consecutive_failures: 1, open_time: 100ms, max_open_time: 400ms, close_after: 1";
    let gateway = under(settings, &[&endpoint]);
    let get = || drop(gateway.get("/"));
    for (from, time) in
        [("closed", 100), ("half-open", 200), ("half-open", 400), ("half-open", 400)]
    {
        hears(&gateway, &format!("from {from} to open for {time}ms"), get);
    }
    status.store(200, Ordering::Relaxed);
    hears(&gateway, "from half-open to closed", get);
}

#[test]
fn a_reload_leaves_it_as_it_is() {
    let (endpoint, _) = changing(500);
    let settings = "consecutive_failures: 1, open_time: 1h, max_open_time: 1h";
    let gateway = under(settings, &[&endpoint]);
    gateway.get("/").has_status(500);
    rejects(&gateway, &[&endpoint]);
    for settings in
        [settings, "consecutive_failures: 9, window: 1m", "slow_share: 9%, slow_after: 1s"]
    {
        gateway.reloads(&text(1, settings, 1), &[&endpoint.address()]).expect("it is valid");
        rejects(&gateway, &[&endpoint]);
    }
    let without = "upstreams: { u: { endpoints: $0, ejection: off } }";
    gateway.reloads(without, &[&endpoint.address()]).expect("it is valid");
    gateway.get("/").has_status(500);
}

// field: circuit_breaker.per
#[test]
fn each_endpoint_may_have_its_own() {
    let ((good, status), (bad, of_bad)) = (changing(200), changing(500));
    let settings = "per: endpoint, consecutive_failures: 2, open_time: 1h, max_open_time: 1h";
    for workers in [1, 2] {
        status.store(200, Ordering::Relaxed);
        let gateway = with_workers(workers, settings, &[&good, &bad]);
        let told = hears(&gateway, "circuit breaker", || drop(gateway.get("/")));
        let of = format!("{} the circuit breaker changes from closed to open", bad.address());
        assert!(told.starts_with(&of), "{told}");
        let before = bad.requests().len();
        (0..10).for_each(|_| drop(gateway.get("/").has_status(200)));
        assert_eq!(bad.requests().len(), before);
        status.store(500, Ordering::Relaxed);
        // Not after exactly two: the other worker may note a success of before in between.
        waits_until("the other one to open", || is_rejected(&gateway.get("/")));
        rejects(&gateway, &[&good, &bad]);
        let response = gateway.get("/").has_problem(503, "circuit-open");
        let after: u64 =
            response.field("retry-after").expect("it is there").parse().expect("seconds");
        assert!((3000..=3600).contains(&after), "{after}");
    }
    of_bad.store(200, Ordering::Relaxed);
}

/// Whoever looks is told what the next request will meet.
#[test]
fn a_time_is_over_whether_requests_come_or_not() {
    for per in ["upstream", "endpoint"] {
        let (endpoint, _) = changing(500);
        let settings = format!("per: {per}, consecutive_failures: 1, open_time: 100ms");
        let gateway = under(&settings, &[&endpoint]);
        gateway.get("/").has_status(500);
        hears(&gateway, "from closed to open", || {});
        hears(&gateway, "from open to half-open: its time is over", || {});
        let address = (per == "endpoint").then(|| endpoint.address());
        let close = BreakerWish::Close(Duration::from_millis(100));
        assert!(gateway.orders_breaker("u", address, close));
        hears(&gateway, "is closed and decides by itself again: its time is over", || {});
        assert_eq!(endpoint.requests().len(), 1);
    }
}

#[test]
fn an_endpoint_returns_when_its_time_is_over() {
    let ((good, _), (bad, status)) = (changing(200), changing(500));
    let settings = "per: endpoint, consecutive_failures: 1, open_time: 100ms, close_after: 2";
    let gateway = with_workers(2, settings, &[&good, &bad]);
    let get = || drop(gateway.get("/"));
    hears(&gateway, "from closed to open", get);
    hears(&gateway, "from half-open to open", get);
    status.store(200, Ordering::Relaxed);
    hears(&gateway, "from half-open to closed", get);
    let before = bad.requests().len();
    (0..4).for_each(|_| drop(gateway.get("/").has_status(200)));
    assert!(bad.requests().len() > before);
}

#[test]
fn a_request_that_is_rejected_is_no_failure_of_the_upstream() {
    let (endpoint, _) = changing(0);
    let settings = "consecutive_failures: 2, open_time: 1h, max_open_time: 1h";
    let gateway = under(settings, &[&endpoint]);
    (0..2).for_each(|_| drop(gateway.get("/")));
    rejects(&gateway, &[&endpoint]);
    let status = gateway.status();
    let sum = |figure: fn(&titan_proxy::UpstreamCells) -> u64| -> u64 {
        status.upstreams().iter().map(|upstream| upstream.sum(figure)).sum()
    };
    let figures =
        [sum(|it| it.requests.get()), sum(|it| it.attempts.get()), sum(|it| it.failures.get())];
    assert_eq!(figures, [2, 2, 2]);
    let told = gateway.upstream_failures();
    assert!(told.iter().all(|failure| failure.code != "circuit-open"), "{told:?}");
}

/// The first attempt opens it; the second one would be rejected.
#[test]
fn a_retry_that_is_rejected_leaves_the_failure_that_it_was_for() {
    let (endpoints, settings) = (
        [changing(0).0, changing(0).0],
        "{ consecutive_failures: 1, open_time: 1h, max_open_time: 1h }",
    );
    let text = format!(
        "routes: [{{ upstream: u, retries: 1 }}]\n\
         upstreams: {{ u: {{ endpoints: [$0, $1], circuit_breaker: {settings} }} }}"
    );
    let [one, other] = &endpoints;
    let gateway = gateway(&text, &[&one.address(), &other.address()]);
    assert!(!is_rejected(&gateway.get("/")));
    assert!(is_rejected(&gateway.get("/")));
    assert_eq!(one.requests().len() + other.requests().len(), 1);
}

/// It opens by a response that would be retried: with nobody left to ask, that is what there is.
#[test]
fn a_client_gets_the_response_that_has_opened_it() {
    let busy = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";
    let endpoints = [upstream::replies(busy), upstream::replies(busy)];
    for (per, asked) in [("upstream", 1), ("endpoint", 2)] {
        let text = format!(
            "routes: [{{ upstream: u, retries: {{ attempts: 3, statuses: 503 }} }}]\n\
             upstreams: {{ u: {{ endpoints: [$0, $1], ejection: {{ consecutive_errors: 1000 }}, circuit_breaker: \
             {{ per: {per}, consecutive_failures: 1, open_time: 1h, max_open_time: 1h }} }} }}"
        );
        let [one, other] = &endpoints;
        let count = || one.requests().len() + other.requests().len();
        let (gateway, before) = (gateway(&text, &[&one.address(), &other.address()]), count());
        gateway.get("/").has_status(503).has_body("busy");
        gateway.get("/").has_problem(503, "circuit-open");
        assert_eq!(count() - before, asked, "{per}");
        let upstreams = gateway.status().upstreams_now();
        let counted: u64 =
            upstreams[0].endpoints.iter().map(|it| it.endpoint.counts.requests).sum();
        assert_eq!(asked as u64, counted, "each counts once");
        let rejected: u64 =
            gateway.status().upstreams().iter().map(|it| it.sum(|it| it.rejected.get())).sum();
        assert_eq!(rejected, 2);
    }
}

/// A gateway whose breaker has opened, with that fallback.
fn open_with(fallback: &str, more: &str, endpoints: &[&Upstream]) -> Gateway {
    let addresses: Vec<_> = endpoints.iter().map(|it| it.address()).collect();
    let addresses: Vec<_> = addresses.iter().map(|it| it as &dyn std::fmt::Display).collect();
    let settings =
        format!("consecutive_failures: 1, open_time: 1h, max_open_time: 1h, fallback: {fallback}");
    let text = text(1, &settings, 1);
    let upstreams = text.strip_suffix('}').expect("it ends with the upstreams");
    let gateway = gateway(&format!("{upstreams}{more} }}"), &addresses);
    gateway.get("/").has_status(500);
    gateway
}

// field: circuit_breaker.fallback, fallback.respond
#[test]
fn a_fixed_response_stands_in() {
    let (endpoint, _) = changing(500);
    let respond = "{ respond: { status: 203, body: later, headers: { x-from: config } } }";
    let gateway = open_with(respond, "", &[&endpoint]);
    let response = gateway.get("/").has_status(203).has_body("later").has_field("x-from", "config");
    response.lacks("retry-after");
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    gateway.asks(post).has_status(203);
    assert_eq!(endpoint.requests().len(), 1);
}

/// A page would be no gRPC.
#[test]
fn a_grpc_call_gets_a_status() {
    let (endpoint, _) = changing(500);
    for fallback in ["off", "{ respond: 200 }"] {
        let gateway = open_with(fallback, "", &[&endpoint]);
        let call = "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n\
            Content-Length: 5\r\n\r\n\0\0\0\0\0";
        let response = gateway.asks(call).has_status(200).has_field("grpc-status", "14");
        let message = response.field("grpc-message").unwrap_or_default();
        assert!(message.contains("(circuit-open"), "{message}");
    }
}

#[test]
fn a_call_counts_by_the_status_in_its_trailers() {
    for (status, is_open) in [(14, true), (5, false)] {
        let endpoint = upstream::replies_h2(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\n\0\0\0\0\0\r\n0\r\ngrpc-status: {status}\r\n\r\n"
        ));
        let settings = "consecutive_failures: 2, open_time: 1h, max_open_time: 1h";
        let text = text(1, settings, 1).replace("ejection:", "protocol: h2, ejection:");
        let gateway = gateway(&text, &[&endpoint.address()]);
        let mut client = gateway.connects_h2();
        for _ in 0..3 {
            let call = Head::post("/a.B/C").with("content-type", "application/grpc");
            let stream = client.asks(&call.with("te", "trailers"));
            client.response(stream);
        }
        assert_eq!(endpoint.requests().len(), if is_open { 2 } else { 3 }, "{status}");
    }
}

// field: fallback.upstream
#[test]
fn another_upstream_stands_in_and_has_a_breaker_of_its_own() {
    let ((endpoint, _), other) = (changing(500), upstream::responds(|_| ok("other")));
    let (second, status) = changing(200);
    let settings = "consecutive_failures: 1, open_time: 1h, max_open_time: 1h";
    let breaker = format!("circuit_breaker: {{ {settings}, fallback: {{ upstream: w }} }}");
    let more = &format!(", v: {{ endpoints: $1, {breaker} }}, w: $2");
    let gateway = open_with("{ upstream: v }", more, &[&endpoint, &second, &other]);
    let post = "POST /p?q HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    gateway.asks(post).has_status(200).has_body("up");
    let request = second.request();
    assert_eq!((&*request.target, &*request.text()), ("/p?q", "body"));
    status.store(500, Ordering::Relaxed);
    gateway.get("/").has_status(500);
    gateway.get("/").has_body("other");
    gateway.asks(post).has_body("other");
    assert_eq!((endpoint.requests().len(), second.requests().len()), (1, 2));
}

/// It would take the place of requests that the first upstream could serve.
#[test]
fn a_request_that_another_upstream_takes_over_runs_there_alone() {
    let (endpoint, _) = changing(500);
    let (gate, came) = (Gate::closed(), Arc::new(AtomicU16::new(0)));
    let other = upstream::responds({
        let (late, came) = (gate.before(ok("other")), Arc::clone(&came));
        move |request| {
            came.fetch_add(1, Ordering::Relaxed);
            late(request)
        }
    });
    let settings = "consecutive_failures: 1, open_time: 1h, max_open_time: 1h";
    let text = format!(
        "routes: [{{ upstream: u, retries: 0 }}]\nupstreams:\n  v: $1\n  u: {{ endpoints: $0, \
         concurrency: {{ min: 1, max: 1, initial: 1, queue: 0 }}, \
         circuit_breaker: {{ {settings}, fallback: {{ upstream: v }} }} }}"
    );
    let gateway = gateway(&text, &[&endpoint.address(), &other.address()]);
    gateway.get("/").has_status(500);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| gateway.get("/").has_body("other"));
        }
        waits_until("both", || came.load(Ordering::Relaxed) == 2);
        gate.opens();
    });
}

// field: fallback.file, fallback_file.path, fallback_file.status, fallback_file.content_type
#[test]
fn a_file_stands_in() {
    let (endpoint, _) = changing(500);
    let settings = |fallback: &str| {
        let settings = "consecutive_failures: 1, open_time: 1h, max_open_time: 1h";
        text(1, &format!("{settings}, fallback: {fallback}"), 1)
    };
    let mut files = Certificate::files(&[("usual", usual())]);
    files.insert("page.json".into(), b"[1]".to_vec());
    let file = "{ file: { path: page.json, status: 203, content_type: application/json } }";
    let gateway = start_with(&settings(file), &[&endpoint.address()], &files).expect("it starts");
    gateway.get("/").has_status(500);
    let response = gateway.get("/").has_status(203).has_body("[1]");
    response.has_field("content-type", "application/json");
    let missing = start_with(&settings("{ file: none.json }"), &[&endpoint.address()], &files);
    let told = missing.err().expect("it is missing").to_string();
    assert!(told.contains("none.json"), "{told}");
}
