//! Tests of what becomes of an upstream when its names are asked for again.

use super::*;
use crate::balance::Draw;
use std::num::NonZeroU16;
use std::time::Duration;

const NONE: &[usize] = &[];

/// An upstream of names, with the settings given.
fn upstream(settings: &str) -> Upstream {
    let text = format!(
        "listeners: [':0']\nroutes: [{{upstream: u}}]\n\
         upstreams: {{u: {{endpoints: ['a.test:80', 'b.test:80'], {settings}}}}}"
    );
    let config = titan_config::Config::parse("test", &text).unwrap_or_else(|bad| panic!("{bad}"));
    Upstream::new(&config.upstreams[0], None)
}

/// The address `10.0.0.LAST`, which that name stands for.
fn place(name: &str, last: u8) -> ResolvedEndpoint {
    let address = Address::Ip(([10, 0, 0, last], 80).into());
    ResolvedEndpoint { address, host: format!("{name}.test:80").into(), weight: NonZeroU16::MIN }
}

/// The last bytes of the addresses that the next requests are sent to.
fn next(upstream: &Upstream, count: usize) -> Vec<u8> {
    let draw = Draw { key: None, random: 0, now: Duration::ZERO, excluded: NONE };
    let next = |_| {
        let members = upstream.members();
        let chosen = members.balancer.choose(&draw).unwrap();
        match &members.endpoints[chosen].address {
            Address::Ip(SocketAddr::V4(address)) => address.ip().octets()[3],
            other => panic!("{other}"),
        }
    };
    (0..count).map(next).collect()
}

#[test]
fn nothing_is_replaced_when_nothing_has_changed() {
    for balance in ["round_robin", "{consistent_hash: {header: x-user}}", "{sticky_cookie: {}}"] {
        let upstream = upstream(&format!("balance: {balance}"));
        let places = vec![place("a", 1), place("a", 2), place("b", 3)];
        upstream.set_places(places.clone());
        let (members, version) = (upstream.members(), upstream.version.load(Ordering::Relaxed));
        upstream.set_places(places.clone());
        assert!(Arc::ptr_eq(&members, &upstream.members()), "{balance}");
        assert_eq!(upstream.version.load(Ordering::Relaxed), version, "{balance}");
        upstream.set_places(places[1..].to_vec());
        assert!(!Arc::ptr_eq(&members, &upstream.members()), "{balance}");
        assert!(members.endpoints[0].is_gone() && !members.endpoints[1].is_gone(), "{balance}");
    }
}

#[test]
fn a_weight_that_has_changed_is_a_change() {
    let upstream = upstream("balance: round_robin");
    upstream.set_places(vec![place("a", 1), place("b", 2)]);
    let before = upstream.members();
    let weight = NonZeroU16::new(3).unwrap();
    upstream.set_places(vec![place("a", 1), ResolvedEndpoint { weight, ..place("b", 2) }]);
    let endpoints = [before, upstream.members()].map(|members| Arc::clone(&members.endpoints[1]));
    assert!(Arc::ptr_eq(&endpoints[0], &endpoints[1]));
    let turns = next(&upstream, 8);
    assert_eq!(turns.iter().filter(|&&last| last == 2).count(), 6, "{turns:?}");
}

/// One request between two refreshes: whoever begins anew each time always asks the same endpoint.
#[test]
fn turns_go_on_whether_names_are_refreshed_or_change() {
    let upstream = upstream("balance: round_robin");
    let all: Vec<_> = (1..=3).map(|last| place("a", last)).collect();
    let refreshed = |places: &dyn Fn(usize) -> Vec<ResolvedEndpoint>| {
        let mut counts = [0; 4];
        for round in 0..300 {
            upstream.set_places(places(round));
            counts[usize::from(next(&upstream, 1)[0])] += 1;
        }
        counts
    };
    assert_eq!(refreshed(&|_| all.clone()), [0, 100, 100, 100]);
    let [_, counts @ ..] = refreshed(&|round| {
        let places = all.iter().enumerate().filter(|(at, _)| *at != round % 3);
        places.map(|(_, place)| place.clone()).collect()
    });
    assert!(counts.iter().all(|count| (80..=120).contains(count)), "{counts:?}");
}

/// The name that TLS asks for is made from the host.
#[test]
fn names_that_swap_addresses_keep_their_own() {
    let upstream = upstream("balance: round_robin");
    upstream.set_places(vec![place("a", 1), place("b", 2)]);
    let before = upstream.members();
    upstream.set_places(vec![place("a", 2), place("b", 1)]);
    let after = upstream.members();
    let told = |endpoint: &Arc<Endpoint>| format!("{} is {}", endpoint.address, endpoint.host);
    let told: Vec<_> = after.endpoints.iter().map(told).collect();
    assert_eq!(told, ["10.0.0.2:80 is a.test:80", "10.0.0.1:80 is b.test:80"]);
    assert!(before.endpoints.iter().all(|endpoint| endpoint.is_gone()));
}

/// Another configuration may have another upstream at the same place, as old in its own count.
#[test]
fn what_is_known_of_one_upstream_is_not_known_of_another() {
    let known = Known::default();
    let (one, other) = (upstream("balance: round_robin"), upstream("balance: round_robin"));
    one.set_places(vec![place("a", 1)]);
    other.set_places(vec![place("a", 2)]);
    let address = |upstream| known.get(0, upstream).endpoints[0].address.to_string();
    assert_eq!(
        [address(&one), address(&other), address(&one)],
        ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.1:80"]
    );
}
