//! How the streams of an endpoint are shared out by client.

use super::endpoints::{comes_or_waits, figures, responds_next};
use std::fmt::Display;
use titan_testkit::h2::{Client, Endpoint, Head, reply, setting};
use titan_testkit::upstream;
use titan_testkit::{Gateway, Listening, gateway, waits_until};

/// A gateway whose clients are named in `X-Forwarded-For`, and one connection to its endpoint.
fn believing(upstream: &impl Display) -> Gateway {
    let settings =
        "endpoints: $0, protocol: h2, max_connections: 1, queue: { length: 4, timeout: 1m }";
    let trusted = "forwarding: { trusted_proxies: [127.0.0.0/8] }";
    gateway(&format!("{trusted}\nupstreams: {{ u: {{ {settings} }} }}"), &[upstream])
}

fn asks_as(client: &mut Client, address: &str, path: &str) -> u32 {
    client.asks(&Head::get(path).with("x-forwarded-for", address))
}

/// Has that many requests of one client running and two waiting, where the endpoint takes that many streams.
fn crowded(streams: u32, running: u32) -> (Listening, Gateway, Client, Endpoint) {
    let upstream = upstream::listens();
    let gateway = believing(&upstream);
    let mut client = gateway.connects_h2();
    let first = client.asks(&Head::get("/"));
    let mut endpoint = upstream.accepts_h2_with(&[(setting::MAX_CONCURRENT_STREAMS, streams)]);
    responds_next(&mut endpoint, "0");
    client.response(first);
    for _ in 0..running + 2 {
        asks_as(&mut client, "192.0.2.1", "/greedy");
    }
    waits_until("two to wait", || figures(&gateway) == (1, 2));
    (upstream, gateway, client, endpoint)
}

/// Some clients are counted together, of a thousand two: then it is not so, and is tried again.
#[track_caller]
fn holds(is_so: impl Fn() -> bool) {
    assert!((0..3).any(|_| is_so()));
}

#[test]
fn a_stream_goes_to_the_client_that_has_fewer() {
    holds(|| {
        let (_upstream, gateway, mut client, mut endpoint) = crowded(2, 2);
        asks_as(&mut client, "192.0.2.2", "/modest");
        waits_until("three to wait", || figures(&gateway) == (1, 3));
        let [first, _] = [(); 2].map(|()| endpoint.request().0);
        endpoint.responds(first, &reply(200), "1");
        endpoint.request().1.target == "/modest"
    });
}

#[test]
fn a_client_that_takes_all_streams_leaves_some_to_others() {
    holds(|| {
        let (_upstream, gateway, mut client, mut endpoint) = crowded(16, 14);
        for _ in 0..14 {
            assert_eq!(endpoint.request().1.target, "/greedy");
        }
        asks_as(&mut client, "192.0.2.2", "/modest");
        comes_or_waits(&mut endpoint, &gateway, 3).is_some()
    });
}

#[test]
fn a_request_that_loses_its_place_while_a_connection_is_opened_hears_of_it() {
    let upstream = upstream::accepts_nobody();
    let gateway = believing(&upstream);
    let mut client = gateway.connects_h2();
    let greedy: Vec<_> = (0..5).map(|_| asks_as(&mut client, "192.0.2.1", "/")).collect();
    waits_until("four to wait", || figures(&gateway) == (1, 4));
    asks_as(&mut client, "192.0.2.2", "/");
    client.response(greedy[4]).has_problem(503, "queue-full");
    assert_eq!(figures(&gateway), (1, 4));
}
