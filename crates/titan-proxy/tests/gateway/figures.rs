//! What is counted of exchanges, beside what the tests of each thing look at.

use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_proxy::{Durations, Histogram, HistogramSum, UpstreamCells};
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Certificate, End, Gateway, Peer, gateway, start_with, usual, waits_until};

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

#[test]
fn handshakes_count_by_version_and_resumption_and_certificates_say_when_they_expire() {
    let config = "listeners: [{ name: front, address: '127.0.0.1:0', \
         tls: { certificates: { cert: usual.pem, key: usual.key } } }]\n\
         routes: [{ respond: { body: x } }]";
    let files = Certificate::files(&[("usual", usual())]);
    let gateway = start_with(config, &[], &files).unwrap();
    let trusted = Arc::new(usual().trusted());
    for is_resumed in [false, true, true] {
        let session = Certificate::client_with(&trusted, "localhost");
        let mut client = Peer::connects(gateway.address()).secures(session);
        client.sends(GET).response().has_body("x");
        assert_eq!(client.has_resumed(), is_resumed);
    }
    let metrics = gateway.metrics();
    let count = |version: usize, resumption: usize| {
        metrics.sum(|cells| cells.handshakes[version][resumption].get())
    };
    assert_eq!([count(0, 0), count(0, 1), count(1, 0), count(1, 1)], [0, 0, 1, 2]);
    let certificates = gateway.status().certificates();
    let [certificate] = &certificates[..] else { panic!("{certificates:?}") };
    assert_eq!(certificate.listener, "front");
    assert!(certificate.validity.file.ends_with("usual.pem"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let left = certificate.validity.expires() - i64::try_from(now.as_secs()).unwrap();
    assert!(left > 86_400, "{left}");
    // A listener of its own: the usual one may speak TLS.
    let plain = "listeners: ['127.0.0.1:0']\nroutes: [{ respond: { body: x } }]";
    gateway.reloads(plain, &[]).unwrap();
    assert!(gateway.status().certificates().is_empty());
}

#[test]
fn memory_counts_by_what_it_is_for() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("limits: { retry_body: 64KiB }", &[&upstream]);
    let held = || gateway.status().memory().into_iter().find(|it| it.purpose == "held_requests");
    let most = held().unwrap().most;
    let mut client = gateway.connects();
    client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4096\r\n\r\n");
    client.sends("x".repeat(4000));
    waits_until("the body is held", || held().unwrap().used >= 4000);
    assert!(most >= held().unwrap().used);
    let buffers = || gateway.metrics().sum(|cells| cells.receive_buffers.get());
    waits_until("a buffer is there", || buffers() >= 16 << 10);
    client.sends("x".repeat(96)).response().has_body("x");
    waits_until("nothing is held", || held().unwrap().used == 0);
    let heads = || gateway.metrics().sum(|cells| cells.kept_heads.get());
    waits_until("heads are kept for later", || heads() > 0);
}
