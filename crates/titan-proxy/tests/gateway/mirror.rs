//! Copies of requests for another upstream: what it gets, and that nobody notices.

use super::pressure;
use titan_proxy::{Counter, MirrorStatus, UpstreamCells};
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Gate, Gateway, Request, gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A gateway whose requests go to the first upstream, and copies of them to the second.
fn mirrored(settings: &str, upstreams: &[&dyn std::fmt::Display; 2]) -> Gateway {
    gateway(&configuration("", settings), upstreams)
}

/// That configuration, with other settings of the upstreams and of the mirror.
fn configuration(of_upstreams: &str, settings: &str) -> String {
    format!(
        "upstreams:\n  u: {{ endpoints: $0{of_upstreams} }}\n  shadow: {{ endpoints: $1{of_upstreams} }}\n\
         routes: [{{ name: r, upstream: u, mirror: {{ upstream: shadow{settings} }} }}]"
    )
}

fn post(body: &str) -> String {
    format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn status(gateway: &Gateway) -> MirrorStatus {
    gateway.status().mirrors().remove(0)
}

fn dropped(gateway: &Gateway, reason: &str) -> u64 {
    let dropped = status(gateway).dropped;
    dropped.iter().find(|(name, _)| *name == reason).expect("it is a reason").1
}

/// Waits until copies have been dropped for that reason so often.
fn waits_for_dropped(gateway: &Gateway, reason: &str, count: u64) {
    waits_until(reason, || dropped(gateway, reason) == count);
}

/// The fields of a request but for those that a copy has in addition.
fn fields(request: &Request) -> Vec<(String, String)> {
    let mut fields = request.fields.clone();
    fields.retain(|(name, _)| !name.eq_ignore_ascii_case("x-mirrored"));
    fields
}

// field: route.mirror, mirror.upstream
#[test]
fn a_copy_is_what_the_upstream_gets_but_for_its_mark() {
    let (upstream, shadow) = (upstream::replies(ok("real")), upstream::replies(ok("shadow")));
    let text = "upstreams: { u: $0, shadow: $1 }\n\
        routes: [{ prefix: /a, upstream: u, mirror: shadow, rewrite: { prefix: /b }, send_host: b.test }]";
    let gateway = gateway(text, &[&upstream, &shadow]);
    let request = "GET /a/c?d=e HTTP/1.1\r\nHost: a\r\nAuthorization: Basic eDp5\r\nX_Mirrored: false\r\n\r\n";
    gateway.asks(request).has_status(200).has_body("real");
    let (original, copy) = (upstream.request(), shadow.waits_for_requests(1).remove(0));
    assert_eq!((&*copy.method, &*copy.target), ("GET", "/b/c?d=e"));
    assert_eq!(fields(&copy), fields(&original));
    assert_eq!([original.field("x-mirrored"), copy.field("x-mirrored")], [None, Some("true")]);
    assert!(copy.field("x-request-id").is_some() && copy.field("authorization").is_some());
    assert_eq!(status(&gateway).sent, 1);
}

#[test]
fn each_mirror_of_a_route_gets_copies_of_its_own() {
    let upstreams =
        [upstream::replies(ok("real")), upstream::replies(ok("1")), upstream::replies(ok("2"))];
    let [upstream, first, second] = &upstreams;
    let text = "upstreams: { u: $0, first: $1, second: $2 }\n\
        routes: [{ name: r, upstream: u, mirror: [first, { upstream: second, body: 4B }] }]";
    let gateway = gateway(text, &[upstream, first, second]);
    gateway.asks(GET).has_status(200).has_body("real");
    gateway.asks(&post("long body")).has_status(200);
    gateway.asks(&post("tiny")).has_status(200);
    let bodies = |it: &titan_testkit::Upstream, count| {
        let requests = it.waits_for_requests(count);
        let mut bodies: Vec<_> = requests.into_iter().map(|it| it.body.clone()).collect();
        bodies.sort();
        bodies
    };
    assert_eq!(bodies(first, 3), [b"".as_slice(), b"long body", b"tiny"]);
    assert_eq!(bodies(second, 2), [b"".as_slice(), b"tiny"]);
    let [first, second] = &gateway.status().mirrors()[..] else { panic!("two mirrors") };
    assert_eq!([&*first.upstream, &*second.upstream], ["first", "second"]);
    assert_eq!([first.sent, second.sent], [3, 2]);
    let too_large = |it: &MirrorStatus| {
        it.dropped.iter().find(|(name, _)| *name == "body-too-large").expect("it is a reason").1
    };
    assert_eq!([too_large(first), too_large(second)], [0, 1]);
}

/// One that passes fields of its clients on would let them keep a request from having its effect.
#[test]
fn the_mark_of_a_copy_is_nobody_elses() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::replies(ok("")));
    let text = configuration("", "");
    let text = format!("forwarding: {{ trusted_proxies: [127.0.0.1] }}\n{text}");
    let gateway = gateway(&text, &[&upstream, &shadow]);
    gateway.asks("GET / HTTP/1.1\r\nHost: a\r\nX-Mirrored: true\r\n\r\n").has_status(200);
    assert_eq!(upstream.request().field("x-mirrored"), None);
}

/// The way of a mirror may lead back to the gateway: then each copy would have one of its own.
#[test]
fn no_copy_is_made_of_a_copy() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::replies(ok("")));
    let gateway = gateway(&configuration("", ""), &[&upstream, &shadow]);
    gateway.asks("GET / HTTP/1.1\r\nHost: a\r\nX-Mirrored: true\r\n\r\n").has_status(200);
    gateway.get("/").has_status(200);
    shadow.waits_for_requests(1);
    assert_eq!((status(&gateway).sent, dropped(&gateway, "copy")), (1, 1));
}

/// However important its route is: a copy would take the turn of a request.
#[test]
fn a_copy_never_waits_where_requests_do() {
    let gate = Gate::closed();
    let (upstream, shadow) =
        (upstream::replies(ok("")), upstream::responds(gate.before(ok("real"))));
    let text = "upstreams:\n  u: $0\n  shadow: { endpoints: $1, concurrency: { max: 1, queue: 1, delay_target: 6s } }\n\
        routes:\n  - { prefix: /critical, name: r, upstream: u, importance: critical, mirror: shadow }\n  - { upstream: shadow }";
    let gateway = gateway(text, &[&upstream, &shadow]);
    let waits_for = |running, waiting| {
        waits_until("the requests run and wait", || {
            let (_, status) = &gateway.status().concurrency()[0];
            (status.running, status.waiting) == (running, waiting)
        });
    };
    let [mut runs, mut waits] = [gateway.connects(), gateway.connects()];
    runs.sends(GET);
    waits_for(1, 0);
    waits.sends(GET);
    waits_for(1, 1);
    gateway.get("/critical").has_status(200);
    waits_until("the copy is given up", || status(&gateway).failed == 1);
    gate.opens();
    runs.response().has_status(200);
    waits.response().has_status(200);
    assert_eq!(shadow.requests().len(), 2);
}

#[test]
fn bodies_arrive_whole_at_both_in_all_combinations_of_protocols() {
    let body: String = ('a'..='z').cycle().take(60_000).collect();
    for [from_h2, to_h2, shadow_h2] in
        [0, 1, 2, 3, 4, 5, 6, 7].map(|it| [it & 1 > 0, it & 2 > 0, it & 4 > 0])
    {
        let endpoint = |is_h2, name: &str| match is_h2 {
            true => upstream::replies_h2(ok(name)),
            false => upstream::replies(ok(name)),
        };
        let (upstream, shadow) = (endpoint(to_h2, "real"), endpoint(shadow_h2, "shadow"));
        let protocol = |is_h2| if is_h2 { "h2" } else { "h1" };
        let text = format!(
            "upstreams:\n  u: {{ endpoints: $0, protocol: {} }}\n  shadow: {{ endpoints: $1, protocol: {} }}\n\
             routes: [{{ upstream: u, mirror: shadow }}]",
            protocol(to_h2),
            protocol(shadow_h2)
        );
        let gateway = gateway(&text, &[&upstream, &shadow]);
        if from_h2 {
            let mut client = gateway.connects_h2();
            let stream = client.asks_with(&Head::post("/x"), &body);
            client.response(stream).has_status(200).has_body("real");
        } else {
            gateway.asks(&post(&body)).has_status(200).has_body("real");
            let chunked = format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                body.len()
            );
            gateway.asks(&chunked).has_status(200);
        }
        let count = if from_h2 { 1 } else { 2 };
        for request in
            [upstream.waits_for_requests(count), shadow.waits_for_requests(count)].concat()
        {
            assert!(request.text() == body, "{from_h2} {to_h2} {shadow_h2}");
        }
    }
}

fn retries(cells: &UpstreamCells) -> u64 {
    cells.retries.iter().map(Counter::get).sum()
}

/// Whatever the mirror does, clients get the responses of their upstream, one after the other.
#[track_caller]
fn is_not_noticed(shadow: &dyn std::fmt::Display) -> Gateway {
    let upstream = upstream::responds(|request| ok(&request.text()));
    let gateway = mirrored(", timeout: 300ms, compare: {}", &[&upstream, shadow]);
    let mut client = gateway.connects();
    for _ in 0..3 {
        client.sends(GET).response().has_status(200);
        client.sends(post("abc")).response().has_status(200).has_body("abc");
    }
    let figures = &gateway.status().upstreams()[0];
    assert_eq!(figures.sum(|cells| cells.requests.get()), 6);
    assert_eq!(figures.sum(|cells| cells.failures.get() + retries(cells)), 0);
    let of_route = &gateway.status().routes()[0];
    waits_until("all are counted", || of_route.sum(|cells| cells.classes[2].get()) == 6);
    gateway
}

// field: mirror.timeout
#[test]
fn a_mirror_that_stalls_is_not_noticed_and_is_given_up() {
    let shadow = upstream::stalls();
    let gateway = is_not_noticed(&shadow);
    waits_until("the copies are given up", || {
        let status = status(&gateway);
        status.running == 0 && status.failed == 6
    });
    is_not_noticed(&upstream::accepts_nobody());
}

/// Also where the route's own timeouts are longer than what a copy may take.
#[test]
fn a_mirror_that_stalls_counts_as_one_that_fails() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::stalls());
    let gateway = mirrored(", timeout: 100ms", &[&upstream, &shadow]);
    gateway.get("/").has_status(200);
    waits_until("the copy is given up", || status(&gateway).failed == 1);
    let figures = &gateway.status().upstreams()[1];
    assert_eq!(figures.sum(|cells| cells.failures.get()), 1);
}

#[test]
fn a_mirror_that_fails_is_not_noticed() {
    let refuses = upstream::refuses();
    let closes = upstream::replies("").then_closes();
    let garbage = upstream::replies("HTTP/9.9 garbage\0\r\n\r\n");
    let breaks_off =
        upstream::replies("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab").then_closes();
    for shadow in [&refuses as &dyn std::fmt::Display, &closes, &garbage, &breaks_off] {
        let gateway = is_not_noticed(shadow);
        waits_until("the copies have failed", || status(&gateway).failed == 6);
        let figures = &gateway.status().upstreams()[1];
        assert_eq!(figures.sum(|cells| cells.requests.get()), 6);
        assert_eq!(figures.sum(retries), 0, "a copy is not sent again");
        let told = gateway.upstream_failures().remove(0).request.expect("it has an id");
        assert!(told.ends_with(" (a copy)"), "{told}");
    }
}

#[test]
fn what_a_mirror_responds_is_not_noticed() {
    let large = upstream::replies(ok(&"x".repeat(2_000_000)));
    let error = upstream::replies("HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nbad");
    for shadow in [large, error] {
        let gateway = is_not_noticed(&shadow);
        shadow.waits_for_requests(6);
        waits_until("the copies are done", || status(&gateway).running == 0);
        assert_eq!(status(&gateway).failed, 0);
        assert_eq!(shadow.requests().len(), 6);
    }
}

#[test]
fn a_response_without_end_is_not_read_to_it() {
    let endless = "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n".to_owned();
    let (upstream, shadow) =
        (upstream::replies(ok("")), upstream::replies(endless + &"x".repeat(5_000_000)));
    let gateway = mirrored(", timeout: 1h", &[&upstream, &shadow]);
    gateway.get("/").has_status(200);
    waits_until("it is left", || status(&gateway).sent == 1 && status(&gateway).running == 0);
    let figures = &gateway.status().upstreams()[1];
    assert_eq!((status(&gateway).failed, figures.sum(|cells| cells.failures.get())), (0, 0));
}

// field: mirror.body
#[test]
fn a_body_that_is_too_large_goes_to_the_upstream_alone() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::replies(ok("")));
    let gateway = mirrored(", body: 10B", &[&upstream, &shadow]);
    gateway.asks(&post("01234567890")).has_status(200);
    assert_eq!(dropped(&gateway, "body-too-large"), 1);
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        8\r\n01234567\r\n3\r\n890\r\n0\r\n\r\n";
    gateway.asks(chunked).has_status(200);
    assert_eq!(dropped(&gateway, "body-too-large"), 2);
    gateway.asks(&post("0123456789")).has_status(200);
    assert_eq!(shadow.waits_for_requests(1)[0].text(), "0123456789");
    let bodies: Vec<_> = upstream.requests().iter().map(|it| it.text()).collect();
    assert_eq!(bodies, ["01234567890", "01234567890", "0123456789"]);
    assert_eq!(status(&gateway).sent, 1);
}

// field: mirror.share
#[test]
fn a_share_of_the_requests_is_copied() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::replies(ok("")));
    let gateway = mirrored(", share: 50%", &[&upstream, &shadow]);
    let mut client = gateway.connects();
    (0..200).for_each(|_| drop(client.sends(GET).response()));
    let MirrorStatus { sent, dropped, .. } = status(&gateway);
    let dropped: u64 = dropped.iter().map(|(_, count)| count).sum();
    // Less likely to be outside than a broken memory.
    assert!((40..=160).contains(&(sent + dropped)), "{sent} and {dropped} of 200");
}

// field: mirror.concurrent
#[test]
fn no_more_copies_run_at_once_than_may() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::stalls());
    let text = configuration("", ", concurrent: 2");
    let gateway = gateway(&format!("workers: 2\n{text}"), &[&upstream, &shadow]);
    (0..5).for_each(|_| drop(gateway.get("/").has_status(200)));
    assert_eq!(dropped(&gateway, "too-many"), 3);
    assert_eq!((status(&gateway).running, status(&gateway).sent), (2, 2));
    shadow.waits_for_requests(2);
    shadow.closes_all();
    waits_until("they are over", || status(&gateway).running == 0);
}

// field: limits.mirror_memory
#[test]
fn copies_have_no_more_memory_than_there_is() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::stalls());
    let text = configuration("", ", body: 1MiB");
    let limits = "limits: { mirror_memory: 1MiB, request_buffer: off }";
    let gateway = gateway(&format!("{limits}\n{text}"), &[&upstream, &shadow]);
    let body = "x".repeat(600_000);
    gateway.asks(&post(&body)).has_status(200);
    gateway.asks(&post(&body)).has_status(200);
    assert_eq!(dropped(&gateway, "no-memory"), 1);
    assert!(shadow.waits_for_requests(1)[0].text() == body);
    shadow.closes_all();
    waits_until("it is over", || status(&gateway).running == 0);
    gateway.asks(&post(&body)).has_status(200);
    assert_eq!(status(&gateway).sent, 2);
}

#[test]
fn a_request_that_its_upstream_has_not_got_is_not_copied() {
    let (upstream, shadow) = (upstream::listens(), upstream::replies(ok("")));
    let gateway = mirrored("", &[&upstream, &shadow]);
    let mut client = gateway.connects();
    client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
    let mut endpoint = upstream.accepts();
    endpoint.head();
    client.closes();
    waits_for_dropped(&gateway, "body-incomplete", 1);
    assert_eq!(status(&gateway).sent, 0);
}

/// A mirror would get the load that its requests' upstream is spared.
#[test]
fn a_request_that_no_endpoint_gets_is_not_copied() {
    let (refuses, shadow) = (upstream::refuses(), upstream::replies(ok("")));
    let gateway = mirrored("", &[&refuses, &shadow]);
    gateway.get("/").has_status(502);
    waits_for_dropped(&gateway, "not-sent", 1);
    assert_eq!(status(&gateway).sent, 0);

    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("")));
    let limit = ", concurrency: { max: 1, queue: 0 }";
    let text = configuration("", "").replacen("$0", &format!("$0{limit}"), 1);
    let gateway = titan_testkit::gateway(&text, &[&upstream, &shadow]);
    let mut runs = gateway.connects();
    runs.sends(GET);
    shadow.waits_for_requests(1);
    gateway.get("/").has_problem(503, "overloaded");
    waits_for_dropped(&gateway, "not-sent", 1);
    assert_eq!(status(&gateway).sent, 1);
    gate.opens();
    runs.response().has_status(200);
}

/// Otherwise a few clients could keep all routes from being mirrored.
#[test]
fn a_request_that_does_not_end_has_no_memory_for_a_copy() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::replies(ok("")));
    let limits = "limits: { mirror_memory: 1MiB }";
    let text = configuration("", ", body: 1MiB, timeout: 200ms");
    let gateway = gateway(&format!("{limits}\n{text}"), &[&upstream, &shadow]);
    let mut client = gateway.connects();
    let (most, rest) = ("x".repeat(900_000), "x".repeat(100_000));
    client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    client.sends(&most);
    waits_for_dropped(&gateway, "body-incomplete", 1);
    gateway.asks(&post(&most)).has_status(200);
    assert!(shadow.waits_for_requests(1)[0].text() == most);
    client.sends(rest).response().has_status(200);
    assert_eq!(status(&gateway).sent, 1);
}

#[test]
fn a_request_that_is_sent_again_is_copied_once() {
    for held in ["off", "1KiB"] {
        let (first, second) = (upstream::listens(), upstream::listens());
        let shadow = upstream::replies(ok(""));
        let text = format!(
            "limits: {{ retry_body: {held} }}\nupstreams: {{ u: [$0, $1], shadow: $2 }}\n\
             routes: [{{ upstream: u, mirror: shadow }}]"
        );
        let gateway = gateway(&text, &[&first, &second, &shadow]);
        let mut client = gateway.connects();
        client.sends("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        let mut endpoint = first.accepts();
        endpoint.request();
        endpoint.closes();
        if held == "off" {
            client.response().has_status(502);
        } else {
            let mut next = second.accepts();
            assert_eq!(next.request().text(), "abc");
            next.sends(ok(""));
            client.response().has_status(200);
        }
        assert_eq!(shadow.waits_for_requests(1)[0].text(), "abc");
        assert_eq!(status(&gateway).sent, 1);
    }
}

/// Of what an endpoint has taken before it failed, and another one gets again, there is one copy.
#[test]
fn a_body_that_begins_anew_is_copied_from_its_beginning() {
    let (first, second) = (upstream::listens(), upstream::listens());
    let shadow = upstream::replies(ok(""));
    let text = "limits: { retry_body: 8MiB }\nupstreams: { u: [$0, $1], shadow: $2 }\n\
        routes: [{ upstream: u, mirror: { upstream: shadow, body: 8MiB } }]";
    let gateway = gateway(text, &[&first, &second, &shadow]);
    let body: String = ('a'..='z').cycle().take(8_000_000).collect();
    let mut client = gateway.connects();
    client.sends(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n{body}"));
    let mut endpoint = first.accepts();
    // Its socket takes a part of the rest, and the gateway keeps waiting with the remainder.
    endpoint.head();
    endpoint.resets();
    let mut next = second.accepts();
    assert!(next.request().text() == body);
    next.sends(ok(""));
    client.response().has_status(200);
    assert!(shadow.waits_for_requests(1)[0].text() == body);
    assert_eq!(status(&gateway).sent, 1);
}

#[test]
fn tunnels_are_not_copied() {
    let (upstream, shadow) = (upstream::listens(), upstream::replies(ok("")));
    let gateway = mirrored("", &[&upstream, &shadow]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    upstream.accepts().request();
    assert_eq!((dropped(&gateway, "tunnel"), status(&gateway).sent), (1, 0));
}

#[test]
fn nothing_is_copied_under_pressure() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::replies(ok("")));
    let text = configuration("", "");
    let pressure = pressure::settings("stop_keep_alive: 1%, shed: 1%");
    let gateway = gateway(&format!("{pressure}\n{text}"), &[&upstream, &shadow]);
    waits_until("the memory is measured", || gateway.metrics().pressure.level() as u8 == 2);
    gateway.get("/").has_status(200);
    assert_eq!((dropped(&gateway, "pressure"), status(&gateway).sent), (1, 0));
}

/// Neither a reload nor the end of the gateway waits for copies.
#[test]
fn copies_hold_nothing_up() {
    let (upstream, shadow) = (upstream::replies(ok("")), upstream::stalls());
    let text = configuration("", ", timeout: 1h, concurrent: 3");
    let gateway = mirrored(", timeout: 1h", &[&upstream, &shadow]);
    gateway.get("/").has_status(200);
    shadow.waits_for_requests(1);
    gateway.reloads(&text, &[&upstream, &shadow]).unwrap();
    assert_eq!((status(&gateway).running, status(&gateway).sent), (1, 1), "it goes on, and counts");
    gateway.get("/").has_status(200);
    shadow.waits_for_requests(2);
    gateway.drains();
    gateway.waits_for_end();
}
