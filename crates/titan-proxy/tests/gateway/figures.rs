//! What is counted of exchanges, beside what the tests of each thing look at.

use std::time::{Duration, Instant};
use titan_proxy::{Durations, Histogram, HistogramSum, UpstreamCells};
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, Gateway, gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

type Of = fn(&UpstreamCells) -> &Histogram<Durations>;

const CONNECT: Of = |cells| &cells.connect;
const FIRST_BYTE: Of = |cells| &cells.first_byte;
const ATTEMPT: Of = |cells| &cells.attempt;

fn durations(gateway: &Gateway, of: Of) -> HistogramSum {
    gateway.status().upstreams()[0].histogram(of)
}

fn count(gateway: &Gateway, of: Of) -> u64 {
    durations(gateway, of).buckets.iter().sum()
}

fn counts(gateway: &Gateway) -> [u64; 3] {
    [CONNECT, FIRST_BYTE, ATTEMPT].map(|of| count(gateway, of))
}

/// How many connections were opened, and how often one was reused.
fn connections(gateway: &Gateway) -> (u64, u64) {
    let upstream = gateway.status().upstreams().remove(0);
    (upstream.sum(|cells| cells.connects.get()), upstream.sum(|cells| cells.reuses.get()))
}

#[test]
fn attempts_take_as_long_as_they_take() {
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    let begun = Instant::now();
    client.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    let (asked, has_passed) = (Instant::now(), |since: Instant| since.elapsed().as_millis() >= 2);
    waits_until("time passes", || has_passed(asked));
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
    waits_until("the head has come", || count(&gateway, FIRST_BYTE) == 1);
    let half = Instant::now();
    let until_half = half - begun;
    waits_until("time passes", || has_passed(half));
    assert_eq!(counts(&gateway), [1, 1, 0]);
    endpoint.sends("cd");
    client.response().has_status(200).has_body("abcd");
    waits_until("the exchange is over", || count(&gateway, ATTEMPT) == 1);
    let whole = begun.elapsed();
    let took = |of| Duration::from_micros(durations(&gateway, of).sum);
    let least = Duration::from_millis(2);
    assert!(took(CONNECT) < until_half && took(FIRST_BYTE) <= until_half);
    assert!(took(FIRST_BYTE) >= least, "{:?}", took(FIRST_BYTE));
    assert!(took(ATTEMPT) >= took(FIRST_BYTE) + least - Duration::from_micros(1));
    assert!(took(ATTEMPT) <= whole);
    client.sends(GET);
    endpoint.request();
    endpoint.sends(ok(""));
    client.response().has_status(200);
    waits_until("the exchange is over", || counts(&gateway) == [1, 2, 2]);
    assert_eq!(connections(&gateway), (1, 1));
}

#[test]
fn each_attempt_counts_with_or_without_a_response() {
    let bad = upstream::listens();
    let gateway = gateway("", &[&bad]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = bad.accepts();
    endpoint.request();
    endpoint.ends(End::Close);
    let mut next = bad.accepts();
    next.request();
    next.sends(ok("again"));
    client.response().has_body("again");
    waits_until("both attempts count", || counts(&gateway) == [2, 1, 2]);
}

#[test]
fn connections_that_requests_share_are_opened_once() {
    let upstream = upstream::replies_h2(ok("x"));
    let config = "upstreams: { u: { endpoints: $0, protocol: h2 } }";
    let gateway = gateway(config, &[&upstream]);
    let mut client = gateway.connects_h2();
    for _ in 0..3 {
        let stream = client.asks(&Head::get("/"));
        client.response(stream).has_body("x");
    }
    waits_until("all count", || counts(&gateway) == [1, 3, 3]);
    assert_eq!(connections(&gateway), (1, 2));
}
