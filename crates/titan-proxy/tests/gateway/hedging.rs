//! Requests that take long are sent to a second endpoint as well, and the response that begins first is the client's.

use std::fmt::Display;
use std::time::Duration;
use titan_proxy::{Condition, EndpointOrder, HedgingStatus, UpstreamCells, Wish};
use titan_testkit::h2::{Head, reply};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Gate, Gateway, Listening, Peer, gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
/// What an endpoint says that cannot serve.
const UNAVAILABLE: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
/// CANCEL (RFC 9113 section 7).
const CANCEL: u32 = 8;

/// A gateway that hedges at once, with these settings of the route and of the upstream.
fn hedges(route: &str, upstream: &str, endpoints: &[&Listening]) -> Gateway {
    let list: Vec<_> = (0..endpoints.len()).map(|place| format!("${place}")).collect();
    let text = format!(
        "routes: [{{ path: /round, respond: 204 }}, {{ upstream: u{route} }}]
upstreams: {{ u: {{ endpoints: [{}], hedge: 1ms{upstream} }} }}",
        list.join(", ")
    );
    let endpoints: Vec<_> = endpoints.iter().map(|it| *it as &dyn Display).collect();
    gateway(&text, &endpoints)
}

/// A client that has sent a request, and the endpoints that have it.
struct Race {
    gateway: Gateway,
    client: Peer,
    first: Peer,
    second: Peer,
}

fn race(route: &str, upstream: &str) -> Race {
    let (one, other) = (upstream::listens(), upstream::listens());
    let gateway = hedges(route, upstream, &[&one, &other]);
    let mut client = gateway.connects();
    client.sends(GET);
    let (mut first, mut second) = (one.accepts(), other.accepts());
    assert_eq!((first.request().method, second.request().method), ("GET".into(), "GET".into()));
    Race { gateway, client, first, second }
}

/// Lets the worker see what endpoints have sent.
fn turns_round(gateway: &Gateway) {
    gateway.get("/round").has_status(204);
}

fn counted(gateway: &Gateway, figure: impl Fn(&UpstreamCells) -> u64) -> u64 {
    gateway.status().upstreams().iter().map(|upstream| upstream.sum(&figure)).sum()
}

/// Second tries, and those of them whose response the client got.
fn sent_and_won(gateway: &Gateway) -> (u64, u64) {
    (counted(gateway, |it| it.hedges.get()), counted(gateway, |it| it.hedges_won.get()))
}

fn status(gateway: &Gateway) -> HedgingStatus {
    gateway.status().upstreams_now()[0].hedging.expect("it hedges")
}

/// The requests and failures that were noted of each endpoint, once that many requests were.
fn noted(gateway: &Gateway, requests: u64) -> Vec<(u64, u64)> {
    let noted = || -> Vec<_> {
        let endpoints = gateway.status().endpoints();
        endpoints.iter().map(|it| (it.counts.requests, it.counts.failures)).collect()
    };
    waits_until("the attempts are noted", || {
        noted().iter().map(|(requests, _)| requests).sum::<u64>() == requests
    });
    noted()
}

fn runs_nowhere(gateway: &Gateway) {
    waits_until("nothing runs", || gateway.status().endpoints().iter().all(|it| it.active == 0));
}

// field: upstream.hedge, hedge.after
#[test]
fn a_quick_endpoint_responds_in_place_of_a_slow_one() {
    let Race { gateway, mut client, mut first, mut second } = race("", "");
    second.sends(ok("second"));
    client.response().has_status(200).has_body("second");
    first.expects_close();
    assert_eq!(sent_and_won(&gateway), (1, 1));
    assert_eq!(counted(&gateway, |it| it.attempts.get()), 2);
    assert_eq!(noted(&gateway, 1), [(0, 0), (1, 0)], "the slow one has done nothing wrong");
    runs_nowhere(&gateway);
    client.sends(GET);
    second.request();
    second.sends(ok("again"));
    client.response().has_body("again");
}

#[test]
fn an_endpoint_that_hangs_is_not_hidden() {
    let (hangs, quick) = (upstream::stalls(), upstream::responds(|_| ok("quick")));
    let text = "upstreams: { u: { endpoints: [$0, $1], hedge: 1ms, ejection: { consecutive_failures: 3 } } }";
    let gateway = gateway(text, &[&hangs, &quick]);
    waits_until("it is ejected", || {
        gateway.get("/").has_body("quick");
        gateway.status().endpoints()[0].condition == Condition::Ejected
    });
    assert!(gateway.status().endpoints()[0].counts.failures == 0);
}

#[test]
fn the_first_endpoint_may_respond_first_all_the_same() {
    let Race { gateway, mut client, mut first, mut second } = race("", "");
    first.sends(ok("first"));
    client.response().has_status(200).has_body("first");
    second.expects_close();
    assert_eq!(sent_and_won(&gateway), (1, 0));
    assert_eq!(noted(&gateway, 1), [(1, 0), (0, 0)]);
    runs_nowhere(&gateway);
}

#[test]
fn over_http2_the_one_that_lost_is_reset() {
    for winner in [0, 1] {
        let endpoints = [upstream::listens(), upstream::listens()];
        let gateway = hedges("", ", protocol: h2", &[&endpoints[0], &endpoints[1]]);
        let mut client = gateway.connects_h2();
        let asked = client.asks(&Head::get("/"));
        let mut peers = endpoints.each_ref().map(Listening::accepts_h2);
        let streams = peers.each_mut().map(|peer| peer.request().0);
        peers[winner].responds(streams[winner], &reply(200), "won");
        client.response(asked).has_status(200).has_body("won");
        let loser = 1 - winner;
        assert_eq!(peers[loser].reset_of(streams[loser]), CANCEL);
        assert_eq!(sent_and_won(&gateway), (1, winner as u64));
        runs_nowhere(&gateway);
    }
}

#[test]
fn if_one_fails_the_other_goes_on() {
    for fails in [0, 1] {
        let Race { gateway, mut client, first, second } = race("", "");
        let mut peers = [first, second].map(Some);
        peers[fails].take().into_iter().for_each(Peer::closes);
        let failed = |gateway: &Gateway| counted(gateway, |it| it.failures.get());
        waits_until("the failure is noted", || failed(&gateway) == 1);
        let other = peers[1 - fails].as_mut().unwrap();
        other.sends(ok("fine"));
        client.response().has_status(200).has_body("fine");
        assert_eq!(sent_and_won(&gateway), (1, 1 - fails as u64));
        let mut expected = [(1, 0), (1, 0)];
        expected[fails] = (1, 1);
        assert_eq!(noted(&gateway, 2), expected);
        assert_eq!(counted(&gateway, UpstreamCells::all_retries), 0);
    }
}

#[test]
fn if_both_fail_the_rules_for_retries_apply() {
    for (retries, asked) in [(1, 2), (2, 3)] {
        let endpoints = [upstream::listens(), upstream::listens(), upstream::listens()];
        let all = endpoints.each_ref();
        let gateway = hedges(&format!(", retries: {retries}"), "", &all);
        let mut client = gateway.connects();
        client.sends(GET);
        let mut peers: Vec<_> = endpoints[..2].iter().map(Listening::accepts).collect();
        peers.iter_mut().for_each(|peer| drop(peer.request()));
        peers.into_iter().for_each(Peer::closes);
        if asked == 3 {
            let mut third = endpoints[2].accepts();
            third.request();
            third.sends(ok("third"));
            client.response().has_body("third");
        } else {
            client.response().has_problem(502, "upstream-closed");
        }
        assert_eq!(counted(&gateway, |it| it.attempts.get()), asked);
        assert_eq!(sent_and_won(&gateway), (1, 0));
    }
}

/// Without a hedge the client would have it from the first one.
#[test]
fn a_server_error_of_the_second_endpoint_waits_for_the_first() {
    let Race { gateway, mut client, mut first, mut second } = race("", "");
    second.sends(UNAVAILABLE);
    turns_round(&gateway);
    first.sends(ok("first"));
    client.response().has_status(200).has_body("first");
    assert_eq!(sent_and_won(&gateway), (1, 0));
    let Race { gateway, mut client, first, mut second } = race("", "");
    second.sends(UNAVAILABLE);
    turns_round(&gateway);
    first.closes();
    client.response().has_status(503);
    assert_eq!(sent_and_won(&gateway), (1, 1));
}

/// As if it had been alone.
#[test]
fn a_server_error_of_the_first_endpoint_is_the_response_unless_it_is_retried() {
    let Race { gateway: _gateway, mut client, mut first, mut second } = race("", "");
    first.sends(UNAVAILABLE);
    client.response().has_status(503);
    second.expects_close();
    let Race { gateway, mut client, mut first, mut second } =
        race(", retries: { statuses: 503 }", "");
    first.sends(UNAVAILABLE);
    turns_round(&gateway);
    second.sends(ok("second"));
    client.response().has_status(200).has_body("second");
    assert_eq!(counted(&gateway, UpstreamCells::all_retries), 0, "it had begun already");
}

/// A gateway with an upstream `u` of the first endpoints, and one of two others that is hedged at once.
fn with_later(
    route: &str,
    upstream: &str,
    endpoints: &[&dyn Display],
    later: &[Listening; 2],
) -> Gateway {
    // They take turns in that order.
    let list: Vec<_> = (0..endpoints.len()).map(|place| format!("${place}")).collect();
    let (one, other) = (endpoints.len(), endpoints.len() + 1);
    let text = format!(
        "routes: [{{ path: /later, upstream: later }}, {{ upstream: u, {route} }}]
upstreams:
  u: {{ endpoints: [{}], {upstream} }}
  later: {{ endpoints: [${one}, ${other}], hedge: 1ms }}",
        list.join(", ")
    );
    gateway(&text, &[endpoints, &[&later[0], &later[1]]].concat())
}

/// Waits until it was decided about all hedges that are due at `u`: until that was decided about one that is due later. How many
/// were made.
fn decided(gateway: &Gateway, later: &[Listening; 2]) -> u64 {
    let mut client = gateway.connects();
    client.sends("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    let [_first, mut second] = later.each_ref().map(Listening::accepts);
    second.request();
    second.sends(ok("later"));
    client.response().has_body("later");
    gateway.status().upstreams()[0].sum(|cells| cells.hedges.get())
}

// field: hedge.methods
#[test]
fn what_must_not_be_sent_twice_is_not_hedged() {
    let websocket = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    let put = POST.replace("POST", "PUT");
    let get = POST.replace("POST", "GET");
    for (request, route, upstream, is_hedged) in [
        (GET, "", "", true),
        (GET, "retries: 0", "", false),
        (GET, "retries: { methods: [HEAD] }", "", false),
        (GET, "", "hedge: { after: 1ms, methods: [HEAD] }", false),
        (POST, "", "", false),
        (POST, "limits: { retry_body: 1KiB }", "", false),
        (POST, "limits: { retry_body: 1KiB }", "hedge: { after: 1ms, methods: [POST] }", false),
        (
            POST,
            "limits: { retry_body: 1KiB }, retries: { methods: [POST] }",
            "hedge: { after: 1ms, methods: [POST] }",
            true,
        ),
        (&put, "", "hedge: { after: 1ms, methods: [PUT] }", false),
        (&put, "limits: { retry_body: 1KiB }", "hedge: { after: 1ms, methods: [PUT] }", true),
        (&get, "", "", false),
        (&get, "limits: { retry_body: 1KiB }", "", true),
        (websocket, "", "", false),
        (GET, "", "concurrency: { max: 1 }", false),
        (GET, "", "concurrency: { max: 2 }", true),
        (GET, "", "retry_budget: { share: 1%, floor: 0 }", false),
        (GET, "", "hedge: { after: 60s }", false),
    ] {
        let upstream = match upstream.contains("hedge") {
            true => upstream.to_owned(),
            false => format!("hedge: 1ms, {upstream}"),
        };
        let (endpoints, later) =
            ([(); 2].map(|()| upstream::listens()), [(); 2].map(|()| upstream::listens()));
        let gateway = with_later(route, &upstream, &[&endpoints[0], &endpoints[1]], &later);
        let mut client = gateway.connects();
        client.sends(request);
        let mut first = endpoints[0].accepts();
        let body = first.request().body.clone();
        let hedges = decided(&gateway, &later);
        assert_eq!(hedges, u64::from(is_hedged), "{request} {route} {upstream}");
        if is_hedged {
            let mut second = endpoints[1].accepts();
            assert_eq!(second.request().body, body);
            second.sends(ok("second"));
            client.response().has_body("second");
        } else {
            first.sends(ok("first"));
            client.response().has_body("first");
            endpoints[1].expects_no_connection();
        }
    }
}

/// Nothing was sent of it yet, but soon it may be, twice.
#[test]
fn while_it_waits_for_a_connection_the_same_holds() {
    for (route, is_hedged) in [("", false), ("retries: { idempotency_key: x-key }", true)] {
        let (full, second) = (upstream::accepts_nobody(), upstream::responds(|_| ok("second")));
        let later = [upstream::listens(), upstream::listens()];
        let upstream = "hedge: { after: 1ms, methods: [POST] }";
        let gateway = with_later(route, upstream, &[&full, &second], &later);
        let mut client = gateway.connects();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nX-Key: 1\r\nContent-Length: 0\r\n\r\n");
        waits_until("it runs", || {
            let upstreams = gateway.status().upstreams();
            upstreams[0].sum(|cells| cells.attempts.get()) > 0
        });
        assert_eq!(decided(&gateway, &later), u64::from(is_hedged), "{route}");
        if is_hedged {
            client.response().has_body("second");
        } else {
            client.closes();
        }
    }
}

#[test]
fn a_request_is_hedged_once() {
    let endpoints = [(); 4].map(|()| upstream::listens());
    let later = [upstream::listens(), upstream::listens()];
    let all = endpoints.each_ref().map(|it| it as &dyn Display);
    let gateway = with_later("retries: 3", "hedge: 1ms", &all, &later);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut peers = [(); 2].map(|()| Listening::any_accepts(&endpoints));
    peers.iter_mut().for_each(|peer| drop(peer.request()));
    peers.into_iter().for_each(Peer::closes);
    let mut third = Listening::any_accepts(&endpoints);
    third.request();
    assert_eq!(decided(&gateway, &later), 1);
    third.sends(ok("third"));
    client.response().has_body("third");
    endpoints.iter().for_each(Listening::expects_no_connection);
}

#[test]
fn hedges_are_paid_for_as_retries_are() {
    const CLIENTS: usize = 50;
    let gate = Gate::closed();
    let endpoints = [(); 4].map(|()| upstream::responds(gate.before(ok("slow"))));
    let text =
        "upstreams: { u: { endpoints: [$0, $1, $2, $3], hedge: 1ms, retry_budget: { floor: 0 } } }";
    let gateway = gateway(text, &endpoints.each_ref().map(|it| it as &dyn Display));
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| gateway.connects()).collect();
    clients.iter_mut().for_each(|client| _ = client.sends(GET));
    waits_until("it is decided about all of them", || {
        let HedgingStatus { sent, refused, .. } = status(&gateway);
        sent + refused == CLIENTS as u64
    });
    let HedgingStatus { sent, .. } = status(&gateway);
    assert!((1..=CLIENTS as u64 / 5).contains(&sent), "{sent}");
    gate.opens();
    clients.iter_mut().for_each(|client| drop(client.response().has_body("slow")));
    let load: usize = endpoints.iter().map(|it| it.requests().len()).sum();
    assert!(load <= CLIENTS * 6 / 5, "{load}");
}

/// An endpoint that responds at once, but to `/slow` not before the gate is open.
fn slow_behind(gate: &Gate) -> titan_testkit::Upstream {
    let gate = gate.clone();
    upstream::responds(move |request| {
        if request.target == "/slow" {
            gate.passes();
        }
        ok("slow")
    })
}

// field: hedge.min_delay
#[test]
fn what_is_slow_is_learned_from_the_requests_before() {
    let gate = Gate::closed();
    let (slow, quick) = (slow_behind(&gate), upstream::responds(|_| ok("quick")));
    let text = |settings: &str| {
        format!("upstreams: {{ u: {{ endpoints: [$0, $1], hedge: {{ {settings} }} }} }}")
    };
    let gateway = gateway(&text("after: p95, min_delay: 1ms"), &[&slow, &quick]);
    let get = |count| (0..count).for_each(|_| drop(gateway.get("/").has_status(200)));
    get(98);
    assert_eq!(status(&gateway).delay, None);
    get(2);
    waits_until("the last response is noted", || status(&gateway).delay.is_some());
    assert!(status(&gateway).delay < Some(Duration::from_secs(60)));
    // One of two goes to the slow one first.
    (0..2).for_each(|_| drop(gateway.get("/slow").has_body("quick")));
    assert!(sent_and_won(&gateway).1 >= 1);
    let endpoints: [&dyn Display; 2] = [&slow, &quick];
    gateway.reloads(&text("after: p95, min_delay: 60s"), &endpoints).unwrap();
    assert_eq!(status(&gateway).delay, Some(Duration::from_secs(60)), "it is still known");
    gate.opens();
}

#[test]
fn an_endpoint_that_cannot_be_reached_is_not_waited_for() {
    let (full, quick) = (upstream::accepts_nobody(), upstream::responds(|_| ok("quick")));
    let text = "timeouts: { connect: 60s }
upstreams: { u: { endpoints: [$0, $1], hedge: 1ms } }";
    let gateway = gateway(text, &[&full, &quick]);
    gateway.get("/").has_status(200).has_body("quick");
    assert_eq!(sent_and_won(&gateway), (1, 1));
    runs_nowhere(&gateway);
}

#[test]
fn the_deadline_of_a_request_is_that_of_both() {
    let endpoints = [upstream::listens(), upstream::listens()];
    let gateway = hedges(", timeouts: { total: 300ms }", "", &[&endpoints[0], &endpoints[1]]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut peers = endpoints.each_ref().map(Listening::accepts);
    peers.iter_mut().for_each(|peer| drop(peer.request()));
    client.response().has_problem(504, "deadline");
    peers.iter_mut().for_each(Peer::expects_close);
    runs_nowhere(&gateway);
}

#[test]
fn each_try_has_its_own_time() {
    let Race { gateway, mut client, mut first, mut second } =
        race(", retries: { on: timeout, per_try_timeout: 200ms }", "");
    client.response().has_problem(504, "response-timeout");
    first.expects_close();
    second.expects_close();
    assert_eq!(counted(&gateway, |it| it.failures.get()), 2);
}

#[test]
fn a_client_that_leaves_takes_both_with_it() {
    let Race { gateway, client, mut first, mut second } = race("", "");
    client.closes();
    first.expects_close();
    second.expects_close();
    runs_nowhere(&gateway);
}

#[test]
fn an_endpoint_that_is_to_get_no_requests_gets_none_of_these() {
    let endpoints = [upstream::listens(), upstream::listens(), upstream::listens()];
    let gateway = hedges("", "", &endpoints.each_ref());
    let upstream = "u".to_owned();
    let address = endpoints[1].address().to_string();
    let wish = Wish::Drain(Duration::from_secs(600));
    assert!(gateway.orders(EndpointOrder { upstream, address, wish }));
    waits_until("it drains", || gateway.status().endpoints()[1].condition == Condition::Draining);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut peers = [endpoints[0].accepts(), endpoints[2].accepts()];
    peers.iter_mut().for_each(|peer| drop(peer.request()));
    peers[1].sends(ok("third"));
    client.response().has_body("third");
    endpoints[1].expects_no_connection();
}
