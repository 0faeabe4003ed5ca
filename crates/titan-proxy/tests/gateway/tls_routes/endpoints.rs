//! How connections of TLS routes come to an endpoint, and what its health is told of them.

use super::*;
use titan_proxy::Condition;
use titan_testkit::End;

/// One connection at a time, and the others wait for longer than a test.
const IN_TURN: &str =
    "upstreams: { u: { endpoints: [$0], max_connections: 1, queue: { timeout: 60s } } }";

/// Connections that wait for their turn at an endpoint.
fn waiting(gateway: &Gateway) -> u32 {
    gateway.status().endpoints().iter().map(|it| it.waiting).sum()
}

/// What the health of the only endpoint knows: connections, and those that it has let fail.
fn judged(gateway: &Gateway) -> (u64, u64) {
    let counts = gateway.status().endpoints()[0].counts;
    (counts.requests, counts.failures)
}

#[test]
fn an_endpoint_that_accepts_nobody_is_passed_over() {
    let (down, upstream) = (upstream::refuses(), upstream::listens());
    let rest = "upstreams: { u: { endpoints: [$0, $1], balance: round_robin } }";
    let front = Front { routes: PASS, rest, ..PLAIN };
    let gateway = front.starts(&[&down, &upstream.address()], &Files::default());
    for _ in 0..4 {
        let (_client, _endpoint) = passes(&gateway, &upstream, "db.example");
    }
    let told = gateway.upstream_failures();
    assert!(
        told.iter().any(|it| it.code == "connect" && it.route.as_deref() == Some("db.example")),
        "{told:?}"
    );
    assert_eq!(failed(&gateway, TlsFailure::Connect), 0);
}

#[test]
fn the_connection_of_a_client_without_an_endpoint_is_reset() {
    let (down, a) = (upstream::refuses(), certificate(&["a.example"]));
    let routes = format!("{PASS}, {TERMINATE}");
    let front = Front { routes: &routes, listener: HTTPS, ..PLAIN };
    let gateway = front.starts(&[&down], &Certificate::files(&[("a", &a)]));
    let mut client = Peer::connects(gateway.address());
    client.sends(hello("db.example"));
    assert!(client.rest().is_empty(), "no alert");
    let mut client = Peer::connects(gateway.address());
    client.sends(hello("db.example")).expects_reset();
    let mut client = Peer::connects(gateway.address()).secures(a.client("a.example"));
    assert!(client.is_cut_short(), "an end would say that there is nothing");
    assert_eq!(failed(&gateway, TlsFailure::Connect), 2);
}

#[test]
fn failures_to_connect_eject_an_endpoint() {
    let (down, upstream) = (upstream::refuses(), upstream::listens());
    let rest = "upstreams: { u: { endpoints: [$0, $1], balance: round_robin, panic_below: 0%, \
        ejection: { consecutive_failures: 2 } } }";
    let front = Front { routes: PASS, rest, ..PLAIN };
    let gateway = front.starts(&[&down, &upstream.address()], &Files::default());
    let is_ejected =
        || gateway.status().endpoints().iter().any(|it| it.condition == Condition::Ejected);
    waits_until("it to be ejected", || {
        let (_client, _endpoint) = passes(&gateway, &upstream, "db.example");
        is_ejected()
    });
}

#[test]
fn the_only_endpoint_is_used_whatever_it_does() {
    let upstream = upstream::listens();
    let rest = "upstreams: { u: { endpoints: [$0], panic_below: 0%, \
        ejection: { consecutive_failures: 2, max_share: 100% } } }";
    let front = Front { routes: PASS, rest, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    for count in 1..=5 {
        let (mut client, endpoint) = passes(&gateway, &upstream, "db.example");
        endpoint.ends(End::Reset);
        assert!(client.rest().is_empty());
        waits_until("it to count", || judged(&gateway) == (count, count));
    }
    let (mut client, mut endpoint) = passes(&gateway, &upstream, "db.example");
    endpoint.sends("x");
    client.expects("x");
    assert_ne!(gateway.status().endpoints()[0].condition, Condition::Ejected);
}

#[test]
fn an_endpoint_is_judged_by_the_first_that_it_says() {
    let upstream = upstream::listens();
    let rest = "upstreams: { u: { endpoints: [$0], ejection: { consecutive_failures: 3 } } }";
    let front = Front { routes: PASS, rest, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    // What has said something has served, however it ends.
    let (mut client, mut endpoint) = passes(&gateway, &upstream, "db.example");
    assert_eq!(judged(&gateway), (0, 0), "to accept a connection says nothing");
    endpoint.sends("x");
    client.expects("x");
    waits_until("it to count", || judged(&gateway) == (1, 0));
    endpoint.resets();
    client.expects_reset();
    // A client that leaves says nothing of the endpoint, whatever that does then.
    let (mut client, mut endpoint) = passes(&gateway, &upstream, "db.example");
    client.finishes();
    endpoint.expects_close();
    endpoint.closes();
    client.expects_close();
    for (index, end) in [End::Reset, End::Close, End::Reset].into_iter().enumerate() {
        let (mut client, endpoint) = passes(&gateway, &upstream, "db.example");
        endpoint.ends(end);
        assert!(client.rest().is_empty());
        waits_until("it to count", || judged(&gateway) == (2 + index as u64, 1 + index as u64));
    }
    waits_until("all to count", || failed(&gateway, TlsFailure::Endpoint) == 4);
}

#[test]
fn endpoints_that_reset_all_connections_are_ejected() {
    let both = [(); 2].map(|()| upstream::listens());
    let rest = "upstreams: { u: { endpoints: [$0, $1], balance: round_robin, panic_below: 0%, \
        ejection: { consecutive_failures: 2 } } }";
    let front = Front { routes: PASS, rest, ..PLAIN };
    let addresses = [0, 1].map(|place| both[place].address());
    let gateway = front.starts(&[&addresses[0], &addresses[1]], &Files::default());
    waits_until("one to be ejected", || {
        let mut client = Peer::connects(gateway.address());
        client.sends(hello("db.example"));
        Listening::any_accepts(&both).resets();
        client.rest();
        gateway.status().endpoints().iter().any(|it| it.condition == Condition::Ejected)
    });
}

#[test]
fn an_endpoint_to_which_nothing_was_sent_is_not_judged() {
    let (a, upstream) = (certificate(&["a.example"]), upstream::listens());
    let rest = "upstreams: { u: { endpoints: [$0], ejection: { consecutive_failures: 3 } } }";
    let front = Front { routes: TERMINATE, listener: HTTPS, rest };
    let gateway = front.starts(&[&upstream.address()], &Certificate::files(&[("a", &a)]));
    let mut client = Peer::connects(gateway.address()).secures(a.client("a.example"));
    upstream.accepts().closes();
    client.expects_close();
    client.closes();
    waits_until("it to be over", || counted(&gateway, TlsRouteCells::open) == 0);
    assert_eq!(judged(&gateway), (0, 0));
}

#[test]
fn connections_wait_for_their_turn_at_an_endpoint() {
    let upstream = upstream::listens();
    let front = Front { routes: PASS, rest: IN_TURN, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    let (client, mut endpoint) = passes(&gateway, &upstream, "db.example");
    let (mut second, hello) = (Peer::connects(gateway.address()), hello("db.example"));
    second.sends(&hello);
    waits_until("it to wait", || waiting(&gateway) == 1);
    upstream.expects_no_connection();
    client.closes();
    endpoint.expects_close();
    endpoint.closes();
    upstream.accepts().expects(&hello);
}

#[test]
fn an_endpoint_without_room_takes_no_more() {
    let upstream = upstream::listens();
    let rest = "upstreams: { u: { endpoints: [$0], max_connections: 1, queue: { length: 0 } } }";
    let front = Front { routes: PASS, rest, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    let (_client, _endpoint) = passes(&gateway, &upstream, "db.example");
    Peer::connects(gateway.address()).sends(hello("db.example")).expects_reset();
    assert_eq!(failed(&gateway, TlsFailure::Connect), 1);
    upstream.expects_no_connection();
}

#[test]
fn a_client_that_leaves_does_not_wait_for_an_endpoint() {
    let upstream = upstream::listens();
    let rest = format!("{IN_TURN}\ntimeouts: {{ handshake: 60s }}");
    let front = Front { routes: PASS, rest: &rest, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    let (_client, _endpoint) = passes(&gateway, &upstream, "db.example");
    for (index, end) in [End::Reset, End::Close, End::Reset].into_iter().enumerate() {
        let mut client = Peer::connects(gateway.address());
        client.sends(hello("db.example"));
        waits_until("it to wait", || waiting(&gateway) == 1);
        if index == 2 {
            // Behind these its end does not show, but that it is broken does.
            client.sends("early");
        }
        client.ends(end);
        waits_until("it to have left", || waiting(&gateway) == 0);
        let left = || failed(&gateway, TlsFailure::Client);
        waits_until("it to count", || left() == 1 + index as u64);
    }
    assert_eq!(failed(&gateway, TlsFailure::Connect), 0);
}

#[test]
fn all_attempts_have_one_deadline() {
    let upstream = upstream::listens();
    let rest = format!("{IN_TURN}\ntimeouts: {{ handshake: 1s }}");
    let front = Front { routes: PASS, rest: &rest, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    let (_client, _endpoint) = passes(&gateway, &upstream, "db.example");
    takes(Duration::from_secs(1), || {
        Peer::connects(gateway.address()).sends(hello("db.example")).expects_reset();
    });
    assert_eq!(failed(&gateway, TlsFailure::Connect), 1);
    let told = gateway.upstream_failures();
    assert!(told.iter().any(|it| it.code == "queue-timeout"), "{told:?}");
}
