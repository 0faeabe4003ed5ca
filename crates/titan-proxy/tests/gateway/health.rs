//! Whether endpoints can take requests: found out by probes and by how requests fare, decided once for all workers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;
use titan_proxy::{Condition, EndpointOrder, EndpointStatus, Wish};
use titan_testkit::h2::{Head, reply};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Gateway, Upstream, gateway, waits_until};

/// Probes and settings that come to a decision soon.
const QUICK: &str = "interval: 100ms, unhealthy_interval: 100ms, timeout: 100ms";

/// The same where a thread of the test is the endpoint, which may have to wait for a processor.
const PATIENT: &str = "interval: 2s, unhealthy_interval: 2s, timeout: 2s";

const MINUTE: Duration = Duration::from_secs(60);

/// An endpoint whose probes at `/up` get a status that can be changed, and all other requests its name.
fn probed(name: &'static str) -> (Upstream, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let health = Arc::clone(&status);
    let endpoint = upstream::responds(move |request| match &*request.target {
        "/up" => {
            let status = health.load(Ordering::Relaxed);
            format!("HTTP/1.1 {status} So\r\nContent-Length: 2\r\n\r\nup").into_bytes()
        }
        _ => ok(name),
    });
    (endpoint, status)
}

/// An endpoint that closes each connection instead of responding while that is set.
fn failing(name: &'static str) -> (Upstream, Arc<AtomicUsize>) {
    let failures = Arc::new(AtomicUsize::new(usize::MAX));
    let left = Arc::clone(&failures);
    let endpoint = upstream::responds(move |_| {
        let fails = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
        if fails.is_ok() {
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec()
        } else {
            ok(name)
        }
    });
    (endpoint.then_closes(), failures)
}

fn status(gateway: &Gateway, address: SocketAddr) -> EndpointStatus {
    let address = address.to_string();
    let of = |it: &EndpointStatus| it.address == address;
    gateway.status().endpoints().into_iter().find(of).expect("it is an endpoint")
}

fn becomes(gateway: &Gateway, endpoint: &Upstream, condition: Condition) {
    waits_until(condition.as_str(), || status(gateway, endpoint.address()).condition == condition);
}

/// What was decided until something with these words was.
fn hears(gateway: &Gateway, words: &str) -> String {
    let mut heard = Vec::new();
    waits_until(words, || {
        heard.extend(gateway.tells());
        heard.iter().any(|what| what.contains(words))
    });
    heard.into_iter().find(|what| what.contains(words)).expect("it was heard")
}

/// Who responds to so many requests.
fn who(gateway: &Gateway, count: usize) -> Vec<String> {
    let mut names: Vec<_> = (0..count).map(|_| gateway.get("/").text()).collect();
    names.sort();
    names.dedup();
    names
}

// field: upstream.health, health.probe, probe.http, health.interval, health.unhealthy_interval
// field: health.unhealthy_after, health.healthy_after, http_probe.path, http_probe.statuses
#[test]
fn an_endpoint_whose_probes_fail_gets_no_requests_until_they_succeed() {
    let ((a, _), (b, of_b)) = (probed("a"), probed("b"));
    let text = format!(
        "upstreams: {{ u: {{ endpoints: [$0, $1], health: {{ probe: {{ http: /up }}, {QUICK} }} }} }}"
    );
    for workers in [1, 2] {
        of_b.store(200, Ordering::Relaxed);
        let gateway = gateway(&format!("workers: {workers}\n{text}"), &[&a, &b]);
        assert_eq!(who(&gateway, 10), ["a", "b"]);
        of_b.store(503, Ordering::Relaxed);
        let told = hears(&gateway, "is unhealthy");
        let why = "3 probes in a row failed: status 503, not 2xx";
        assert_eq!(told, format!("{} is unhealthy: {why}", b.address()));
        let story = status(&gateway, b.address()).story;
        assert_eq!(story.reason().map(|it| &*it.why), Some(why));
        assert!(story.probes_failed >= 3);
        assert_eq!(who(&gateway, 10), ["a"]);
        of_b.store(200, Ordering::Relaxed);
        assert!(hears(&gateway, "is healthy").ends_with("2 probes in a row succeeded"));
        assert_eq!(who(&gateway, 10), ["a", "b"]);
    }
}

// field: http_probe.method, http_probe.host, http_probe.headers, http_probe.contains
#[test]
fn a_probe_is_the_request_that_was_configured() {
    let endpoint = upstream::replies(ok("all is well here"));
    let text = "upstreams: { u: { endpoints: [$0], health: { probe: { http: { path: '/up?deep=1', method: POST,
        host: health.test, headers: { x-probe: 'yes' }, contains: WELL } }, interval: 100ms, timeout: 100ms, unhealthy_interval: 100ms,
        unhealthy_after: 1 } } }";
    let gateway = gateway(text, &[&endpoint]);
    let request = endpoint.waits_for_requests(1).remove(0);
    assert_eq!((&*request.method, &*request.target), ("POST", "/up?deep=1"));
    let fields = ["host", "x-probe"].map(|name| request.field(name));
    assert_eq!(fields, [Some("health.test"), Some("yes")]);
    let told = hears(&gateway, "is unhealthy");
    assert!(told.ends_with("a probe failed: the body does not contain the expected text"));
}

// field: health.port
#[test]
fn a_probe_may_go_to_another_port() {
    let (endpoint, (health, says)) = (upstream::replies(ok("a")), probed("health"));
    let port = health.address().port();
    let text = format!(
        "upstreams: {{ u: {{ endpoints: [$0], health: {{ probe: {{ http: /up }}, port: {port}, {QUICK} }} }} }}"
    );
    let gateway = gateway(&text, &[&endpoint]);
    let host = health.waits_for_requests(1).remove(0).field("host").map(str::to_owned);
    assert_eq!(host, Some(health.address().to_string()));
    assert_eq!(gateway.get("/").text(), "a");
    says.store(503, Ordering::Relaxed);
    becomes(&gateway, &endpoint, Condition::Unhealthy);
    assert!(endpoint.requests().iter().all(|request| &*request.target == "/"));
}

// field: health.initial
#[test]
fn what_is_unhealthy_at_first_waits_for_its_probe() {
    let ((a, of_a), (b, of_b)) = (probed("a"), probed("b"));
    let text = format!(
        "upstreams: {{ u: {{ endpoints: [$0, $1], health: {{ probe: {{ http: /up }}, {QUICK}, healthy_after: 1,
        unhealthy_after: 100, initial: unhealthy }} }} }}"
    );
    for status in [&of_a, &of_b] {
        status.store(500, Ordering::Relaxed);
    }
    let gateway = gateway(&text, &[&a, &b]);
    // However few are healthy: nothing is known of them yet.
    gateway.get("/").has_status(503);
    assert_eq!(status(&gateway, a.address()).condition, Condition::Unhealthy);
    of_b.store(200, Ordering::Relaxed);
    becomes(&gateway, &b, Condition::Healthy);
    assert_eq!(who(&gateway, 10), ["b"]);
}

// field: health.timeout
#[test]
fn a_probe_that_takes_too_long_fails() {
    let endpoint = upstream::stalls();
    let text = format!(
        "upstreams: {{ u: {{ endpoints: [$0], health: {{ probe: {{ http: /up }}, {QUICK} }} }} }}"
    );
    let gateway = gateway(&text, &[&endpoint]);
    let told = hears(&gateway, "is unhealthy");
    assert!(told.ends_with("no response within 100ms"), "{told}");
}

#[test]
fn a_connection_is_enough_for_a_probe_of_tcp() {
    let (full, open) = (upstream::accepts_nobody(), upstream::stalls());
    let text =
        format!("upstreams: {{ u: {{ endpoints: [$0, $1], health: {{ probe: tcp, {QUICK} }} }} }}");
    let gateway = gateway(&text, &[&full, &open]);
    hears(&gateway, "is unhealthy");
    let open = status(&gateway, open.address());
    assert_eq!((open.condition, open.story.probes_failed), (Condition::Healthy, 0));
}

#[test]
fn a_probe_of_tls_needs_the_handshake() {
    let listening = upstream::listens();
    let text = format!(
        "upstreams: {{ u: {{ endpoints: [$0], tls: {{ verify: false }}, health: {{ probe: tls, {PATIENT}, unhealthy_after: 1 }} }} }}"
    );
    let gateway = gateway(&text, &[&listening]);
    let mut endpoint = listening.accepts();
    endpoint.sends("HTTP/1.1 400 Bad Request\r\n\r\n");
    let told = hears(&gateway, "is unhealthy");
    assert!(told.ends_with("it does not speak TLS"), "{told}");
}

// field: probe.grpc, grpc_probe.service
#[test]
fn a_grpc_probe_asks_for_the_service() {
    let listening = upstream::listens();
    let text = format!(
        "upstreams: {{ u: {{ endpoints: [$0], protocol: h2, health: {{ probe: {{ grpc: shop.Orders }}, {PATIENT},
        unhealthy_after: 1, healthy_after: 1 }} }} }}"
    );
    let gateway = gateway(&text, &[&listening]);
    // What it says of itself, one probe after the other.
    let says = |status: &[u8], grpc: &str| {
        let mut endpoint = listening.accepts_h2();
        let (stream, request) = endpoint.request();
        assert_eq!(&*request.target, "/grpc.health.v1.Health/Check");
        assert_eq!(request.body, b"\0\0\0\0\x0d\x0a\x0bshop.Orders");
        let head = reply(200).with("content-type", "application/grpc");
        endpoint.sends_head(stream, &head, false);
        endpoint.sends_data(stream, status, false);
        endpoint.sends_trailers(stream, &Head::default().with("grpc-status", grpc));
    };
    says(b"\0\0\0\0\x02\x08\x02", "0");
    assert!(hears(&gateway, "is unhealthy").ends_with("it says NOT_SERVING"));
    says(b"\0\0\0\0\x02\x08\x01", "0");
    hears(&gateway, "is healthy");
    says(b"", "12");
    assert!(hears(&gateway, "is unhealthy").ends_with("grpc-status 12"));
}

// field: upstream.panic_below
#[test]
fn when_too_few_are_healthy_all_are_used() {
    let [(a, _), (b, of_b), (c, of_c)] = [probed("a"), probed("b"), probed("c")];
    for status in [&of_b, &of_c] {
        status.store(500, Ordering::Relaxed);
    }
    for (least, used) in [("30%", &["a"][..]), ("50%", &["a", "b", "c"])] {
        let text = format!(
            "upstreams: {{ u: {{ endpoints: [$0, $1, $2], panic_below: {least},
            health: {{ probe: {{ http: /up }}, {QUICK}, initial: unhealthy, healthy_after: 1 }} }} }}"
        );
        let gateway = gateway(&text, &[&a, &b, &c]);
        becomes(&gateway, &a, Condition::Healthy);
        let is_known = |endpoint: &Upstream| {
            let story = status(&gateway, endpoint.address()).story;
            story.reason().is_some_and(|it| it.why.starts_with("3 probes in a row failed"))
        };
        waits_until("the others to be probed", || is_known(&b) && is_known(&c));
        assert_eq!(who(&gateway, 12), used, "{least}");
    }
}

#[test]
fn a_backup_is_used_though_it_is_few() {
    let [(a, of_a), (b, of_b), (c, of_c), (backup, _)] = ["a", "b", "c", "backup"].map(probed);
    let text = format!(
        "upstreams: {{ u: {{ endpoints: [$0, $1, $2, {{ address: $3, priority: 1 }}], health: {{ probe: {{ http: /up }}, {QUICK} }} }} }}"
    );
    let gateway = gateway(&text, &[&a, &b, &c, &backup]);
    for (endpoint, status) in [(&a, &of_a), (&b, &of_b), (&c, &of_c)] {
        status.store(500, Ordering::Relaxed);
        becomes(&gateway, endpoint, Condition::Unhealthy);
    }
    assert_eq!(who(&gateway, 12), ["backup"]);
}

#[test]
fn what_an_operator_drains_stays_so_when_too_few_are_healthy() {
    let [(a, of_a), (b, of_b), (c, of_c)] = ["a", "b", "c"].map(probed);
    let text = format!(
        "upstreams: {{ u: {{ endpoints: [$0, $1, $2], health: {{ probe: {{ http: /up }}, {QUICK} }} }} }}"
    );
    let gateway = gateway(&text, &[&a, &b, &c]);
    for (address, wish) in [(a.address(), Wish::Drain(MINUTE)), (b.address(), Wish::Eject(MINUTE))]
    {
        let (upstream, address) = ("u".to_owned(), address.to_string());
        assert!(gateway.orders(EndpointOrder { upstream, address, wish }));
    }
    for (endpoint, status) in [(&a, &of_a), (&b, &of_b), (&c, &of_c)] {
        status.store(500, Ordering::Relaxed);
        becomes(&gateway, endpoint, Condition::Unhealthy);
    }
    assert!(hears(&gateway, "requests go to all").starts_with("only 0 of 1 "));
    assert_eq!(who(&gateway, 12), ["c"]);
}

/// One that was ejected works again, and the other one, the last, does not any more.
#[test]
fn an_ejection_ends_early_when_nothing_else_is_left() {
    let ((a, fails_a), (b, fails_b)) = (failing("a"), failing("b"));
    fails_b.store(0, Ordering::Relaxed);
    let text = "routes: [{ upstream: u, retries: 0 }]\nupstreams: { u: { endpoints: [$0, $1],
        ejection: { consecutive_failures: 2, failure_share: off, time: 10s } } }";
    let gateway = gateway(text, &[&a, &b]);
    let asks = || {
        let mut client = gateway.connects();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.rest()
    };
    (0..4).for_each(|_| drop(asks()));
    becomes(&gateway, &a, Condition::Ejected);
    fails_a.store(0, Ordering::Relaxed);
    fails_b.store(usize::MAX, Ordering::Relaxed);
    (0..2).for_each(|_| drop(asks()));
    assert!(
        hears(&gateway, "gets requests again").ends_with("the last one that was not ejected fails")
    );
    waits_until("the other to be ejected", || {
        asks();
        status(&gateway, b.address()).condition == Condition::Ejected
    });
    assert_eq!(who(&gateway, 10), ["a"]);
}

// field: upstream.ejection, ejection.consecutive_failures, ejection.time
#[test]
fn an_endpoint_that_fails_is_ejected_for_a_while() {
    let ((bad, left), good) = (failing("bad"), upstream::replies(ok("good")));
    let text = "upstreams: { u: { endpoints: [$0, $1], ejection: { consecutive_failures: 3, time: 200ms, failure_share: off } } }";
    for workers in [1, 2] {
        left.store(usize::MAX, Ordering::Relaxed);
        let gateway = gateway(&format!("workers: {workers}\n{text}"), &[&bad, &good]);
        let before = bad.requests().len();
        let asks = || {
            let mut client = gateway.connects();
            client.sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            client.rest();
        };
        (0..6).for_each(|_| asks());
        left.store(0, Ordering::Relaxed);
        let told = hears(&gateway, "is ejected");
        assert_eq!(
            told,
            format!("{} is ejected for 200ms: 3 requests in a row failed", bad.address())
        );
        assert_eq!(bad.requests().len() - before, 3);
        hears(&gateway, "gets requests again");
        assert_eq!(who(&gateway, 10), ["bad", "good"]);
        assert_eq!(status(&gateway, bad.address()).story.ejections, 1);
    }
}

// field: ejection.consecutive_errors, ejection.statuses
#[test]
fn statuses_count_as_errors_where_they_are_named() {
    let replies = |status: u16| {
        upstream::replies(format!("HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n"))
    };
    let (a, b) = (replies(429), replies(503));
    let text = "upstreams: { u: { endpoints: [$0, $1], ejection: { consecutive_errors: 4, statuses: [429] } } }";
    let gateway = gateway(text, &[&a, &b]);
    (0..8).for_each(|_| drop(gateway.get("/")));
    let told = hears(&gateway, "is ejected");
    assert!(told.starts_with(&a.address().to_string()), "{told}");
    assert!(told.ends_with("for 10s: 4 responses in a row were errors"), "{told}");
    (0..8).for_each(|_| drop(gateway.get("/").has_status(503)));
    assert_eq!(status(&gateway, b.address()).condition, Condition::Healthy, "503 is none here");
}

#[test]
fn the_status_of_a_call_counts_as_one_of_http() {
    let at_once = |status: u8| {
        let fields = format!("content-type: application/grpc\r\ngrpc-status: {status}\r\n");
        upstream::replies_h2(upstream::ok_with(&fields, ""))
    };
    let in_trailers = |status: u8| {
        upstream::replies_h2(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\n\0\0\0\0\0\r\n0\r\ngrpc-status: {status}\r\n\r\n"
        ))
    };
    let cases: [(&dyn Fn(u8) -> Upstream, _, _, _); 9] = [
        (&at_once, "", 14, true),
        (&at_once, "", 13, true),
        (&at_once, "", 2, true),
        (&at_once, "", 12, false),
        (&at_once, "", 4, false),
        (&in_trailers, "", 14, true),
        (&in_trailers, "", 2, true),
        (&in_trailers, "", 12, false),
        (&in_trailers, "-web", 14, true),
    ];
    for (replies, dialect, status_of_calls, counts) in cases {
        let (bad, good) = (replies(status_of_calls), replies(0));
        let text = "routes: [{ upstream: u, grpc_web: true }]\n\
            upstreams: { u: { endpoints: [$0, $1], protocol: h2, ejection: { consecutive_errors: 4 } } }";
        let gateway = gateway(text, &[&bad, &good]);
        let mut client = gateway.connects_h2();
        for _ in 0..8 {
            let call =
                Head::post("/a.B/C").with("content-type", format!("application/grpc{dialect}"));
            let stream = client.asks(&call.with("te", "trailers"));
            client.response(stream);
        }
        match counts {
            true => assert!(hears(&gateway, "is ejected").starts_with(&bad.address().to_string())),
            false => assert_eq!(status(&gateway, bad.address()).condition, Condition::Healthy),
        }
    }
}

// field: ejection.failure_share, ejection.min_requests, ejection.window
#[test]
fn an_endpoint_that_fails_now_and_then_is_ejected_by_its_share() {
    let turns = AtomicUsize::new(0);
    let alternates = upstream::responds(move |_| match turns.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => ok("bad"),
        _ => b"HTTP/1.1 503 So\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let good = upstream::replies(ok("good"));
    let text = "upstreams: { u: { endpoints: [$0, $1], ejection: { failure_share: 50%, min_requests: 8, window: 1m } } }";
    let gateway = gateway(text, &[&alternates, &good]);
    (0..14).for_each(|_| drop(gateway.get("/")));
    assert_eq!(status(&gateway, alternates.address()).condition, Condition::Healthy);
    (0..2).for_each(|_| drop(gateway.get("/")));
    let told = hears(&gateway, "is ejected");
    assert!(told.ends_with("for 10s: 4 of 8 requests failed"), "{told}");
    assert_eq!(who(&gateway, 10), ["good"]);
}

// field: upstream.slow_start
#[test]
fn what_returns_takes_more_and_more() {
    let (a, b) = (upstream::replies(ok("a")), upstream::replies(ok("b")));
    let gateway = gateway("upstreams: { u: { endpoints: [$0, $1], slow_start: 10m } }", &[&a, &b]);
    let order = |wish| {
        let (upstream, address) = ("u".to_owned(), a.address().to_string());
        assert!(gateway.orders(EndpointOrder { upstream, address, wish }));
    };
    order(Wish::Eject(Duration::from_secs(60)));
    becomes(&gateway, &a, Condition::Ejected);
    order(Wish::Restore);
    becomes(&gateway, &a, Condition::Healthy);
    let count = (0..300).filter(|_| gateway.get("/").text() == "a").count();
    assert!((1..60).contains(&count), "{count} of 300, where 15 are a tenth of its share");
}

#[test]
fn the_last_endpoint_is_never_ejected() {
    let refused = upstream::refuses();
    let text = format!(
        "routes: [{{ upstream: u, retries: 0 }}]\nupstreams: {{ u: {{ endpoints: ['{refused}'], ejection: {{ max_share: 100% }} }} }}"
    );
    let gateway = gateway(&text, &[]);
    (0..20).for_each(|_| drop(gateway.get("/").has_status(502)));
    waits_until("every request to be counted", || status(&gateway, refused).counts.failures == 20);
    assert_eq!(status(&gateway, refused).condition, Condition::Healthy);
}

#[test]
fn an_operator_drains_ejects_and_restores() {
    let (a, b) = (upstream::replies(ok("a")), upstream::replies(ok("b")));
    let text = "upstreams: { u: { endpoints: [$0, $1], ejection: off } }";
    let gateway = gateway(text, &[&a, &b]);
    let order = |upstream: &str, address: SocketAddr, wish| {
        let (upstream, address) = (upstream.to_owned(), address.to_string());
        gateway.orders(EndpointOrder { upstream, address, wish })
    };
    let (long, short) = (Duration::from_secs(3600), Duration::from_millis(50));
    assert!(order("u", a.address(), Wish::Eject(long)));
    becomes(&gateway, &a, Condition::Ejected);
    assert_eq!(who(&gateway, 10), ["b"]);
    assert!(order("u", a.address(), Wish::Restore));
    becomes(&gateway, &a, Condition::Healthy);
    hears(&gateway, "is restored by an operator");
    assert!(order("u", a.address(), Wish::Restore));
    hears(&gateway, "was neither ejected nor drained");
    assert_eq!(who(&gateway, 10), ["a", "b"]);
    assert!(order("u", b.address(), Wish::Drain(long)));
    becomes(&gateway, &b, Condition::Draining);
    assert_eq!(who(&gateway, 10), ["a"]);
    gateway.reloads(&format!("timeouts: {{ response: 9s }}\n{text}"), &[&a, &b]).expect("it loads");
    assert_eq!(who(&gateway, 10), ["a"], "it is not forgotten");
    assert!(order("u", b.address(), Wish::Drain(short)));
    hears(&gateway, "its draining is over");
    assert_eq!(who(&gateway, 10), ["a", "b"]);
    assert!(order("u", a.address(), Wish::Eject(short)));
    hears(&gateway, "gets requests again after its ejection");
    let drained =
        "upstreams: { u: { endpoints: [{ address: $0, drain: true }, $1], ejection: off } }";
    gateway.reloads(drained, &[&a, &b]).expect("it loads");
    assert!(order("u", a.address(), Wish::Restore));
    hears(&gateway, "is still drained by the configuration");
    let nobody: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    assert!(!order("u", nobody, Wish::Restore) && !order("v", a.address(), Wish::Restore));
}

#[test]
fn what_was_decided_holds_across_reloads() {
    let ((a, of_a), (b, _)) = (probed("a"), probed("b"));
    let with = |more: &str| {
        format!(
            "upstreams: {{ u: {{ endpoints: [$0, $1], {more} health: {{ probe: {{ http: /up }}, {QUICK} }} }} }}"
        )
    };
    let gateway = gateway(&with(""), &[&a, &b]);
    of_a.store(500, Ordering::Relaxed);
    becomes(&gateway, &a, Condition::Unhealthy);
    gateway.reloads(&with("max_idle: 7,"), &[&a, &b]).expect("it loads");
    assert_eq!(status(&gateway, a.address()).condition, Condition::Unhealthy);
    assert_eq!(who(&gateway, 10), ["b"]);
    let unprobed = "upstreams: { u: { endpoints: [$0, $1] } }";
    gateway.reloads(unprobed, &[&a, &b]).expect("it loads");
    becomes(&gateway, &a, Condition::Healthy);
    let story = status(&gateway, a.address()).story;
    assert_eq!(story.reason().map(|it| &*it.why), Some("it is not probed any more"));
}
