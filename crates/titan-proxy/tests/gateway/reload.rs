//! Another configuration while clients are served: what changes at once, what goes on as it was, and what fails whole.

use crate::tunnels::{CONSENT, WISH, connect};
use std::net::TcpListener;
use titan_proxy::LoadError;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Peer, gateway, usual_client, waits_until};

pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A configuration whose only route responds with that.
pub(crate) fn says(text: &str) -> String {
    format!("routes: [{{ respond: {{ body: {text} }} }}]")
}

/// Two listeners, the second at that address.
pub(crate) fn two(second: &str) -> String {
    format!(
        "listeners: [\"127.0.0.1:0\", {{ name: second, address: \"{second}\" }}]\n{}",
        says("x")
    )
}

#[test]
fn an_open_connection_meets_the_new_routes_with_its_next_request() {
    for workers in [1, 2] {
        let of = |text| format!("workers: {workers}\n{}", says(text));
        let gateway = gateway(&of("before"), &[]);
        let (mut idle, mut h2) = (gateway.connects(), gateway.connects_h2());
        idle.sends(GET).response().has_body("before");
        h2.get("/").has_body("before");
        gateway.reloads(&of("after"), &[]).unwrap();
        idle.sends(GET).response().has_body("after");
        h2.get("/").has_body("after");
        gateway.get("/").has_body("after");
        waits_until("connections to keep no configuration", || gateway.retired() == 0);
    }
}

#[test]
fn a_request_that_runs_ends_on_what_it_began_with() {
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    gateway.reloads(&says("after"), &[]).unwrap();
    endpoint.sends(ok("before"));
    client.response().has_body("before");
    client.sends(GET).response().has_body("after");
}

#[test]
fn a_tunnel_stays_open() {
    let upstream = upstream::listens();
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(WISH);
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends(CONSENT);
    assert!(client.head().starts_with("HTTP/1.1 101 "));
    gateway.reloads(&says("after"), &[]).unwrap();
    client.sends("ping");
    endpoint.expects("ping").sends("pong");
    client.expects("pong");
}

#[test]
fn a_request_that_runs_keeps_its_configuration_and_a_tunnel_does_not() {
    let upstream = upstream::listens();
    let gateway =
        gateway("routes: [{ prefix: /, upstream: u, upgrades: [x, websocket] }]", &[&upstream]);
    let (mut client, mut h2) = (gateway.connects(), gateway.connects_h2());
    client.sends(WISH);
    let mut endpoint = upstream.accepts();
    endpoint.head();
    let stream = h2.starts(&connect().but(":protocol", "x"));
    let mut second = upstream.accepts();
    second.head();
    gateway.reloads(&says("after"), &[]).unwrap();
    assert_eq!((gateway.retired(), gateway.status().configurations_in_use()), (1, 2));
    endpoint.sends(CONSENT);
    assert!(client.head().starts_with("HTTP/1.1 101 "));
    second.sends(CONSENT.replace("WebSocket", "x"));
    h2.response_head(stream).has_status(200);
    waits_until("no configuration but the last to be used", || gateway.retired() == 0);
    for (endpoint, text) in [(&mut endpoint, "ping"), (&mut second, "pong")] {
        endpoint.sends(text);
    }
    client.expects("ping");
    assert_eq!(h2.takes_data(stream, 4), b"pong");
}

#[test]
fn connections_to_an_endpoint_are_kept() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("", &[&upstream]);
    gateway.get("/").has_body("x");
    let other = "routes: [{ path: /other, respond: 204 }, { prefix: /, upstream: u }]";
    gateway.reloads(other, &[&upstream]).unwrap();
    gateway.get("/").has_body("x");
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn listeners_come_and_go_while_others_stay() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gateway = gateway(&says("x"), &[]);
    let first = gateway.address();
    gateway.reloads(&two(&free.to_string()), &[]).unwrap();
    assert_eq!(gateway.address(), first);
    let mut second = Peer::connects(gateway.address_of("second"));
    second.sends(GET).response().has_body("x");
    gateway.reloads(&says("y"), &[]).unwrap();
    // Nobody listens there any more, but the connection goes on.
    drop(TcpListener::bind(free).unwrap());
    second.sends(GET).response().has_body("y");
    assert_eq!(gateway.address(), first);
    gateway.get("/").has_body("y");
}

#[test]
fn what_cannot_be_put_in_force_changes_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = gateway(&says("before"), &[]);
    let refused = |text: &str| gateway.reloads(text, &[]).unwrap_err();
    let error = refused(&two(&taken.local_addr().unwrap().to_string()).replace("x", "after"));
    assert!(matches!(error, LoadError::Bind { .. }), "{error}");
    let tls = "tls: { certificates: { cert: none.pem, key: none.key } }";
    let error =
        refused(&format!("listeners: [{{ address: '127.0.0.1:0', {tls} }}]\n{}", says("after")));
    assert!(matches!(error, LoadError::Credentials(_)), "{error}");
    let error = refused(&format!("workers: 2\n{}", says("after")));
    assert!(error.to_string().contains("`workers` cannot change while"), "{error}");
    gateway.get("/").has_body("before");
    assert_eq!(gateway.status().routes().len(), 2);
}

#[test]
fn a_proxy_is_trusted_on_open_connections_as_long_as_the_configuration_says() {
    let upstream = upstream::replies(ok("x"));
    let trusting = "forwarding: { trusted_proxies: 127.0.0.1 }";
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    let asks = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n";
    for (text, seen) in [("", "127.0.0.1"), (trusting, "192.0.2.1, 127.0.0.1"), ("", "127.0.0.1")] {
        gateway.reloads(text, &[&upstream]).unwrap();
        client.sends(asks).response().has_status(200);
        let requests = upstream.requests();
        assert_eq!(requests.last().unwrap().field("x-forwarded-for"), Some(seen));
    }
}

#[test]
fn rules_of_a_listener_hold_for_open_connections() {
    let listeners =
        |rule: &str| format!("listeners: [{{ address: '127.0.0.1:0'{rule} }}]\n{}", says("x"));
    let gateway = gateway(&listeners(""), &[]);
    let mut client = Peer::connects(gateway.address());
    client.sends(GET).response().has_body("x");
    gateway.reloads(&listeners(", redirect_to_https: 443"), &[]).unwrap();
    client.sends(GET).response().has_status(308);
    gateway.reloads(&listeners(""), &[]).unwrap();
    client.sends(GET).response().has_body("x");
}

#[test]
fn a_connection_that_does_not_meet_new_rules_is_not_served_any_more() {
    let secure = |clients: &str| {
        let tls =
            format!("tls: {{ certificates: {{ cert: usual.pem, key: usual.key }}{clients} }}");
        format!("listeners: [{{ address: '127.0.0.1:0', {tls} }}]\n{}", says("x"))
    };
    let plain = format!("listeners: ['127.0.0.1:0']\n{}", says("x"));
    let required = secure(", client_certificates: { ca: usual.pem }");
    let refuses = |mut client: Peer| {
        client.sends(GET).response().has_problem(421, "connection-outdated");
        client.expects_close();
    };
    let gateway = gateway(&plain, &[]);
    let [before, mut other] = [(); 2].map(|()| {
        let mut client = Peer::connects(gateway.address());
        client.sends(GET).response().has_body("x");
        client
    });
    gateway.reloads(&secure(""), &[]).unwrap();
    refuses(before);
    let connects = || Peer::connects(gateway.address()).secures(usual_client());
    let [before, mut after] = [(); 2].map(|()| {
        let mut client = connects();
        client.sends(GET).response().has_body("x");
        client
    });
    gateway.reloads(&required, &[]).unwrap();
    refuses(before);
    gateway.reloads(&secure(""), &[]).unwrap();
    after.sends(GET).response().has_body("x");
    gateway.reloads(&plain, &[]).unwrap();
    refuses(after);
    other.sends(GET).response().has_body("x");
}

#[test]
fn what_policies_count_is_told_by_those_in_force() {
    let of = |name: &str| {
        format!(
            "policies: {{ {name}: {{ rate_limit: {{ rates: 1/h }} }} }}\napply: {name}\n{}",
            says("x")
        )
    };
    let gateway = gateway(&of("a"), &[]);
    gateway.get("/").has_status(200);
    gateway.reloads(&of("b"), &[]).unwrap();
    gateway.get("/").has_status(200);
    let metrics = gateway.metrics().policies();
    let names: Vec<_> =
        metrics.iter().flat_map(|it| &it.figures).map(|it| it.policy.as_str()).collect();
    assert!(names.contains(&"b") && !names.contains(&"a"), "{names:?}");
}

#[test]
fn nothing_is_left_of_many_configurations() {
    let upstream = upstream::replies(ok("x"));
    let of = |number: usize| {
        let spare = format!("{{ path: /{number}, upstream: v{number} }}");
        let upstreams = format!("u: [\"{}\"], v{number}: ['127.0.0.1:1']", upstream.address());
        format!("routes: [{{ prefix: /, upstream: u }}, {spare}]\nupstreams: {{ {upstreams} }}")
    };
    let gateway = gateway(&of(0), &[]);
    let mut client = gateway.connects();
    for number in 1..200 {
        gateway.reloads(&of(number), &[]).unwrap();
        client.sends(GET).response().has_body("x");
    }
    let kept = gateway.kept();
    for number in 200..300 {
        gateway.reloads(&of(number), &[]).unwrap();
        client.sends(GET).response().has_body("x");
    }
    // Who watches over the health of endpoints lets go of an upstream a moment after the workers.
    waits_until("no more to be left of 300 configurations than of 200", || gateway.kept() <= kept);
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_limit_counts_on_under_another_rate() {
    let of = |rate: &str| {
        format!("policies: {{ l: {{ rate_limit: {{ rates: {rate} }} }} }}\napply: l\n{}", says("x"))
    };
    let gateway = gateway(&of("3/h"), &[]);
    for _ in 0..3 {
        gateway.get("/").has_status(200);
    }
    gateway.get("/").has_status(429);
    gateway.reloads(&of("4/h"), &[]).unwrap();
    gateway.get("/").has_status(200);
    gateway.get("/").has_status(429);
}
