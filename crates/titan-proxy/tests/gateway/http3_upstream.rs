//! HTTP/3 to endpoints: gateway behind gateway, with a bad network between them. Servers that others have made are in conformance/http3.

use std::net::SocketAddr;
use std::time::Duration;
use titan_testkit::bad_network::BadNetwork;
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{Certificate, Gateway, certificate, start_with};

const LARGE: usize = 10 << 20;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

/// A gateway that speaks HTTP/3 to its clients.
fn behind(a: &Certificate, upstream: &Upstream) -> Gateway {
    let text = "listeners: [{ name: s, address: '127.0.0.1:0', protocols: [h3, h1], \
         tls: { certificates: { cert: a.pem, key: a.key } } }]\n\
         limits: { body: 16MiB }";
    start_with(text, &[upstream], &Certificate::files(&[("a", a)]))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// One that speaks it to the endpoint at that address.
fn in_front(a: &Certificate, address: SocketAddr, upstream: &str) -> Gateway {
    let text = format!(
        "listeners: ['127.0.0.1:0']\n\
         limits: {{ body: 16MiB }}\n\
         upstreams: {{ u: {{ endpoints: '{address}', tls: {{ ca: a.pem, name: a.example }}, {upstream} }} }}\n\
         routes: [{{ upstream: u }}]"
    );
    start_with(&text, &[], &Certificate::files(&[("a", a)]))
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn large_bodies_arrive_whole_over_a_network_that_loses_delays_doubles_and_reorders() {
    let a = certificate(&["a.example"]);
    let body = bytes(LARGE);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
    let sent = [head.as_bytes(), &body].concat();
    let upstream = upstream::responds(move |request| match request.target.as_str() {
        "/down" => sent.clone(),
        _ => ok(&request.body.len().to_string()),
    });
    let behind = behind(&a, &upstream);
    let network = BadNetwork {
        seed: 15,
        loss: 0.05,
        duplicates: 0.02,
        reordering: 0.02,
        delay: Duration::ZERO..=Duration::from_millis(2),
    };
    let relay = network.start(behind.address());
    let in_front = in_front(&a, relay.address(), "protocol: h3");
    let mut client = in_front.connects();
    client.sends("GET /down HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response().has_status(200).has_body(&body);
    client.sends(format!("PUT /up HTTP/1.1\r\nHost: a\r\nContent-Length: {LARGE}\r\n\r\n"));
    client.sends(&body);
    client.response().has_status(200).has_body(LARGE.to_string());
    let received = upstream.requests();
    assert!(received.last().is_some_and(|request| request.body == body));
    let counts = relay.counts();
    for tally in [counts.to_server, counts.to_clients] {
        assert!(tally.dropped > 100 && tally.duplicated > 0 && tally.held_back > 0, "{tally:?}");
    }
}
