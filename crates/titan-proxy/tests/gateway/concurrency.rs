//! Upstreams whose running requests are limited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use titan_proxy::{BreakerState, BreakerWish, Condition, EndpointOrder, Wish};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, Gate, Gateway, Peer, Upstream, gateway, waits_until};

/// A gateway whose upstream has such a limit.
fn limited(concurrency: &str, upstream: &dyn std::fmt::Display) -> Gateway {
    let text = format!(
        "workers: 2
routes:
  - {{ prefix: /critical, upstream: u, importance: critical }}
  - {{ prefix: /sheddable, upstream: u, importance: sheddable }}
  - {{ upstream: u }}
upstreams: {{ u: {{ endpoints: $0, concurrency: {concurrency} }} }}"
    );
    gateway(&text, &[upstream])
}

fn asks(gateway: &Gateway, path: &str) -> Peer {
    let mut peer = gateway.connects();
    peer.sends(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    peer
}

/// Waits until so many requests run and wait.
fn waits_for(gateway: &Gateway, running: u32, waiting: u32) {
    waits_until("the requests run and wait", || {
        let (_, status) = &gateway.status().concurrency()[0];
        (status.running, status.waiting) == (running, waiting)
    });
}

// field: upstream.concurrency, concurrency.initial, concurrency.min, concurrency.max, concurrency.queue
#[test]
fn as_many_run_as_may_and_wait_as_may() {
    for (settings, run, wait) in [
        ("{ initial: 5, queue: 0 }", 5, 0),
        ("{ min: 21, queue: 0 }", 21, 0),
        ("{ max: 2, queue: 0 }", 2, 0),
        ("{ max: 1, queue: 3, delay_target: 6s }", 1, 3),
        ("adaptive", 20, 0),
    ] {
        let gate = Gate::closed();
        let upstream = upstream::responds(gate.before(ok("")));
        let gateway = limited(settings, &upstream);
        let mut clients: Vec<_> = (0..run + wait).map(|_| asks(&gateway, "/")).collect();
        waits_for(&gateway, run, wait);
        if wait == 3 || settings.contains("queue: 0") {
            gateway.get("/").has_problem(503, "overloaded").has_field("retry-after", "1");
        }
        gate.opens();
        for client in &mut clients {
            client.response().has_status(200);
        }
        waits_for(&gateway, 0, 0);
    }
}

#[test]
fn a_request_whose_turn_comes_goes_where_requests_go_by_then() {
    let gate = Gate::closed();
    let upstreams = [(); 2].map(|()| upstream::responds(gate.before(ok(""))));
    let text = "upstreams: { u: { endpoints: [$0, $1], balance: round_robin, \
        concurrency: { max: 1, queue: 1, delay_target: 6s } } }";
    let gateway = gateway(text, &[&upstreams[0], &upstreams[1]]);
    let mut first = asks(&gateway, "/");
    waits_for(&gateway, 1, 0);
    let mut second = asks(&gateway, "/");
    waits_for(&gateway, 1, 1);
    // A request runs before its endpoint has accepted the connection.
    waits_until("the first one has an endpoint", || {
        upstreams.iter().any(|upstream| upstream.connections() == 1)
    });
    let [one, other] = [0, 1].map(|place: usize| upstreams[place].connections());
    let next = &upstreams[usize::from(one > other)];
    let (upstream, address) = ("u".to_owned(), next.address().to_string());
    let wish = Wish::Eject(Duration::from_secs(60));
    assert!(gateway.orders(EndpointOrder { upstream, address, wish }));
    waits_until("it is ejected", || {
        let upstreams = gateway.status().upstreams_now();
        upstreams[0].endpoints.iter().any(|it| it.endpoint.condition == Condition::Ejected)
    });
    gate.opens();
    first.response().has_status(200);
    second.response().has_status(200);
    assert_eq!(next.connections(), 0);
}

// field: route.importance
#[test]
fn what_matters_more_takes_the_place_of_what_matters_less() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    let gateway = limited("{ max: 1, queue: 1, delay_target: 6s }", &upstream);
    let mut first = asks(&gateway, "/");
    waits_for(&gateway, 1, 0);
    let mut sheddable = asks(&gateway, "/sheddable");
    waits_for(&gateway, 1, 1);
    let mut default = asks(&gateway, "/");
    sheddable.response().has_problem(503, "overloaded");
    let mut critical = asks(&gateway, "/critical");
    default.response().has_problem(503, "overloaded");
    gateway.get("/").has_problem(503, "overloaded");
    gate.opens();
    first.response().has_status(200);
    critical.response().has_status(200);
}

// field: concurrency.delay_target
#[test]
fn a_request_waits_for_ten_delay_targets_at_most() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    // More than the 200 ms that it would be by default.
    let gateway = limited("{ max: 1, queue: 1, delay_target: 50ms }", &upstream);
    let mut first = asks(&gateway, "/");
    waits_for(&gateway, 1, 0);
    let started = Instant::now();
    gateway.get("/").has_problem(503, "overloaded");
    assert!(started.elapsed() >= Duration::from_millis(500), "{:?}", started.elapsed());
    gate.opens();
    first.response().has_status(200);
}

#[test]
fn a_client_that_leaves_gives_up_its_place() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    let gateway = limited("{ max: 1, queue: 1, delay_target: 6s }", &upstream);
    let first = asks(&gateway, "/");
    waits_for(&gateway, 1, 0);
    for end in [End::Close, End::Reset] {
        let waits = asks(&gateway, "/");
        waits_for(&gateway, 1, 1);
        waits.ends(end);
        waits_for(&gateway, 1, 0);
    }
    first.ends(End::Reset);
    waits_for(&gateway, 0, 0);
    gate.opens();
}

#[test]
fn a_body_takes_no_place() {
    let upstream = upstream::listens();
    let gateway = limited("{ max: 1, queue: 0 }", &upstream);
    let mut slow = asks(&gateway, "/");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
    waits_for(&gateway, 0, 0);
    let mut other = asks(&gateway, "/");
    let mut second = upstream.accepts();
    second.request();
    second.sends(ok(""));
    other.response().has_status(200);
    endpoint.sends("b");
    slow.response().has_body("ab");
}

#[test]
fn a_place_is_given_back_however_a_request_ends() {
    let upstream = upstream::replies("").then_closes();
    let gateway = limited("{ max: 1, queue: 0 }", &upstream);
    for _ in 0..3 {
        gateway.get("/").has_problem(502, "upstream-closed");
    }
    waits_for(&gateway, 0, 0);
}

#[test]
fn a_limit_stays_over_a_reload() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    let gateway = limited("{ initial: 2, queue: 0 }", &upstream);
    let mut first = asks(&gateway, "/");
    waits_for(&gateway, 1, 0);
    let text = "workers: 2\nupstreams: { u: { endpoints: $0, concurrency: { min: 1, initial: 9, queue: 0 } } }";
    gateway.reloads(text, &[&upstream]).unwrap();
    let mut second = asks(&gateway, "/");
    waits_for(&gateway, 2, 0);
    gateway.get("/").has_problem(503, "overloaded");
    gate.opens();
    first.response().has_status(200);
    second.response().has_status(200);
}

#[test]
fn a_call_that_is_shed_may_be_made_again_later() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    let gateway = limited("{ max: 1, queue: 0 }", &upstream);
    let mut runs = asks(&gateway, "/");
    waits_for(&gateway, 1, 0);
    let call = "POST /a.B/Get HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n\
                Content-Length: 0\r\n\r\n";
    gateway.asks(call).has_status(200).has_field("grpc-status", "14");
    gate.opens();
    runs.response().has_status(200);
}

/// A gateway that lets one request run at its upstream and others wait for a minute, with a breaker that opens by hand alone.
fn limited_with_breaker(breaker: &str, upstream: &Upstream) -> Gateway {
    let text = format!(
        "routes: [{{ upstream: u, retries: 0 }}]\nupstreams: {{ u: {{ endpoints: $0, ejection: off, \
         concurrency: {{ max: 1, queue: 2, delay_target: 6s }}, \
         circuit_breaker: {{ {breaker}, consecutive_failures: 1000 }} }} }}"
    );
    gateway(&text, &[upstream])
}

#[test]
fn an_open_breaker_rejects_requests_that_would_wait_and_those_that_wait() {
    for per in ["upstream", "endpoint"] {
        let gate = Gate::closed();
        let upstream = upstream::responds(gate.before(ok("")));
        let gateway = limited_with_breaker(&format!("per: {per}"), &upstream);
        let mut first = asks(&gateway, "/");
        waits_for(&gateway, 1, 0);
        let mut second = asks(&gateway, "/");
        waits_for(&gateway, 1, 1);
        let address = (per == "endpoint").then(|| upstream.address());
        let opens = BreakerWish::Open(Duration::from_secs(3600));
        assert!(gateway.orders_breaker("u", address, opens));
        let response = second.response().has_problem(503, "circuit-open");
        let after: u64 =
            response.field("retry-after").expect("it is there").parse().expect("seconds");
        assert!((3000..=3600).contains(&after), "{after}");
        waits_for(&gateway, 1, 0);
        gateway.get("/").has_problem(503, "circuit-open");
        gate.opens();
        first.response().has_status(200);
        let rejected: u64 = gateway
            .status()
            .upstreams()
            .iter()
            .map(|it| it.sum(|cells| cells.rejected.get()))
            .sum();
        assert_eq!((rejected, upstream.requests().len()), (2, 1), "{per}");
    }
}

#[test]
fn a_fallback_stands_in_for_requests_that_would_wait_and_those_that_wait() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    let gateway = limited_with_breaker("fallback: { respond: 203 }", &upstream);
    let mut first = asks(&gateway, "/");
    waits_for(&gateway, 1, 0);
    let mut second = asks(&gateway, "/");
    waits_for(&gateway, 1, 1);
    let opens = BreakerWish::Open(Duration::from_secs(3600));
    assert!(gateway.orders_breaker("u", None, opens));
    second.response().has_status(203);
    gateway.get("/").has_status(203);
    gate.opens();
    first.response().has_status(200);
}

#[test]
fn a_request_that_waits_takes_no_place_of_a_half_open_breaker() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    let gateway = limited_with_breaker("per: upstream", &upstream);
    let breaker = || {
        let status = gateway.status().upstreams_now()[0].breaker.expect("it has one").status;
        (status.state, status.trials)
    };
    let mut first = asks(&gateway, "/");
    waits_for(&gateway, 1, 0);
    assert!(gateway.orders_breaker("u", None, BreakerWish::Open(Duration::from_secs(3600))));
    assert!(gateway.orders_breaker("u", None, BreakerWish::Release));
    let mut second = asks(&gateway, "/");
    waits_for(&gateway, 1, 1);
    assert_eq!(breaker(), (BreakerState::HalfOpen, 0));
    gate.opens();
    first.response().has_status(200);
    second.response().has_status(200);
    assert_eq!(breaker(), (BreakerState::HalfOpen, 0), "one of three");
}

/// A gateway that tries endpoints in their order, and waits before it does so again if one responds with 503 and `Retry-After`.
fn limited_with_pauses(queue: &str, upstreams: &[&Upstream]) -> Gateway {
    let addresses: Vec<_> = upstreams.iter().map(|it| it.address()).collect();
    let list: Vec<_> = (addresses.iter().enumerate())
        .map(|(place, address)| format!("{{ address: '{address}', priority: {place} }}"))
        .collect();
    let text = format!(
        "routes: [{{ upstream: u, retries: {{ attempts: 2, statuses: 503, max_retry_after: 10s }} }}]\n\
         upstreams: {{ u: {{ endpoints: [{}], ejection: off, \
         concurrency: {{ max: 1, queue: {queue} }} }} }}",
        list.join(", ")
    );
    gateway(&text, &[])
}

/// An endpoint that wants requests for `/later` to come again after some seconds the first time; others wait for the gate.
fn asks_for_pauses(seconds: u8, gate: &Gate) -> Upstream {
    let (gate, comes_again) = (gate.clone(), AtomicBool::new(false));
    upstream::responds(move |request| {
        if request.target != "/later" {
            gate.passes();
        } else if !comes_again.swap(true, Ordering::Relaxed) {
            let head = "HTTP/1.1 503 No\r\nContent-Length: 0\r\nRetry-After:";
            return format!("{head} {seconds}\r\n\r\n").into_bytes();
        }
        ok("")
    })
}

#[test]
fn a_request_that_pauses_before_a_retry_takes_no_place() {
    let gate = Gate::closed();
    gate.opens();
    let upstream = asks_for_pauses(3, &gate);
    let gateway = limited_with_pauses("1, delay_target: 6s", &[&upstream]);
    let mut later = asks(&gateway, "/later");
    upstream.waits_for_requests(1);
    waits_for(&gateway, 0, 0);
    gateway.get("/meanwhile").has_status(200);
    later.response().has_status(200);
    let targets: Vec<_> = upstream.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/later", "/meanwhile", "/later"]);
}

#[test]
fn a_retry_is_not_made_where_there_is_no_place_for_it() {
    for (is_first_closed, code) in [(false, "overloaded"), (true, "upstream-closed")] {
        let gate = Gate::closed();
        let (pauses, late) = (asks_for_pauses(2, &gate), gate.before(ok("")));
        let closes = upstream::responds(move |request| match &*request.target {
            "/later" => Vec::new(),
            _ => late(request),
        });
        let closes = closes.then_closes();
        let both = [&closes, &pauses];
        let gateway = limited_with_pauses("0", if is_first_closed { &both } else { &both[1..] });
        let mut later = asks(&gateway, "/later");
        pauses.waits_for_requests(1);
        waits_for(&gateway, 0, 0);
        let mut other = asks(&gateway, "/other");
        waits_for(&gateway, 1, 0);
        let refused = later.response().has_problem(if is_first_closed { 502 } else { 503 }, code);
        assert_eq!(refused.field("retry-after").is_some(), !is_first_closed);
        gate.opens();
        other.response().has_status(200);
    }
}
