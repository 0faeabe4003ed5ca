//! Tests of what happens to an upstream when its names are asked for again.

use super::*;
use crate::balance::PickContext;
use crate::groups::Rank;
use crate::health::Fact;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

const NONE: &[usize] = &[];

/// An upstream of names, with the settings given.
fn upstream(settings: &str) -> Arc<Upstream> {
    later(&Registry::default(), &format!("endpoints: ['a.test:80', 'b.test:80'], {settings}"))
}

/// The upstream `u` with those settings, with what `registry` has of it.
fn later(registry: &Registry, settings: &str) -> Arc<Upstream> {
    let text =
        format!("listeners: [':0']\nroutes: [{{upstream: u}}]\nupstreams: {{u: {{{settings}}}}}");
    let config = titan_config::Config::parse("test", &text).unwrap_or_else(|bad| panic!("{bad}"));
    Upstream::of(&config.upstreams[0], &config.resolver, None, (registry, 1))
}

/// The place of an endpoint with nothing but that weight.
fn weight(weight: u16) -> Placement {
    let (weight, rank) = (NonZeroU16::new(weight).unwrap(), Rank::default());
    Placement { weight, rank, drained_by: None }
}

/// The address `10.0.0.LAST`, which that name stands for.
fn place(name: &str, last: u8) -> ResolvedEndpoint {
    let address = Address::Ip(([10, 0, 0, last], 80).into());
    let host: Box<str> = format!("{name}.test:80").into();
    ResolvedEndpoint { address, source: host.clone(), host, record: None, placement: weight(1) }
}

/// The last bytes of the addresses that the next requests are sent to.
fn next(upstream: &Upstream, count: usize) -> Vec<u8> {
    let now = Duration::ZERO;
    let draw = PickContext { key: None, random: 0, now, excluded: NONE, standings: None };
    let next = |_| {
        let members = KnownUpstream::of(upstream);
        let chosen = members.choose(&draw).unwrap();
        match &members.endpoints()[chosen].address {
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
        let (members, version) = (upstream.members(), upstream.signals.version());
        upstream.set_places(places.clone());
        assert!(Arc::ptr_eq(&members, &upstream.members()), "{balance}");
        assert_eq!(upstream.signals.version(), version, "{balance}");
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
    let placement = weight(3);
    upstream.set_places(vec![place("a", 1), ResolvedEndpoint { placement, ..place("b", 2) }]);
    let endpoints = [before, upstream.members()].map(|members| Arc::clone(&members.endpoints[1]));
    assert!(Arc::ptr_eq(&endpoints[0], &endpoints[1]));
    let turns = next(&upstream, 8);
    assert_eq!(turns.iter().filter(|&&last| last == 2).count(), 6, "{turns:?}");
}

/// One request between two refreshes: a rotation that started over each time would always choose the same endpoint.
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
    let known = KnownMembers::default();
    let (one, other) = (upstream("balance: round_robin"), upstream("balance: round_robin"));
    one.set_places(vec![place("a", 1)]);
    other.set_places(vec![place("a", 2)]);
    let address =
        |upstream| known.get(0, upstream, Instant::now()).endpoints()[0].address.to_string();
    assert_eq!(
        [address(&one), address(&other), address(&one)],
        ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.1:80"]
    );
}

fn addresses(upstream: &Upstream) -> Vec<String> {
    upstream.members().endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect()
}

/// Which endpoints of one are those of the other, at the same places.
fn same(one: &Upstream, other: &Upstream) -> Vec<bool> {
    let (one, other) = (one.members(), other.members());
    one.endpoints.iter().zip(&other.endpoints).map(|(one, other)| Arc::ptr_eq(one, other)).collect()
}

const TWO: &str = "endpoints: ['10.0.0.1:80', '10.0.0.2:80']";

#[test]
fn an_upstream_that_has_not_changed_is_the_same_wherever_it_stands() {
    let registry = Registry::default();
    let before = later(&registry, TWO);
    assert!(Arc::ptr_eq(&before, &later(&registry, &format!("\n\n  {TWO}"))));
    assert!(!Arc::ptr_eq(&before, &later(&registry, &format!("{TWO}, max_idle: 1"))));
}

#[test]
fn endpoints_stay_when_settings_change() {
    let registry = Registry::default();
    let before = later(&registry, &format!("{TWO}, max_connections: 1, idle_timeout: 1s"));
    before.take_effect();
    let endpoint = Arc::clone(&before.members().endpoints[0]);
    let (_running, _open) = (endpoint.load.begin(), endpoint.slots.try_take(None).unwrap());
    let _turns = next(&before, 1);
    let settings = "balance: least_requests, max_connections: 2, idle_timeout: 2s, max_idle: 0";
    let after = later(&registry, &format!("{TWO}, {settings}, queue: {{timeout: 3s}}"));
    assert_eq!(same(&before, &after), [true, true]);
    assert_eq!(next(&after, 4), [2, 2, 2, 2], "the first one is busy");
    assert!(endpoint.slots.is_full(), "the new limit is not in force yet");
    assert_eq!(endpoint.idle_timeout(), Duration::from_secs(1));
    after.take_effect();
    assert!(!endpoint.slots.is_full() && !endpoint.take_idle_place());
    let timeouts = [endpoint.idle_timeout(), endpoint.queue_timeout()];
    assert_eq!(timeouts, [2, 3].map(Duration::from_secs));
}

#[test]
fn turns_go_on_when_the_configuration_changes() {
    let registry = Registry::default();
    let mut upstream = later(&registry, TWO);
    let mut counts = [0; 3];
    for round in 0..100_u16 {
        counts[usize::from(next(&upstream, 1)[0])] += 1;
        upstream = later(&registry, &format!("{TWO}, max_idle: {round}"));
    }
    assert_eq!(counts, [0, 50, 50]);
}

#[test]
fn one_endpoint_that_moves_takes_no_other_along() {
    let registry = Registry::default();
    let before = later(&registry, TWO);
    let after = later(&registry, "endpoints: ['10.0.0.1:80', '10.0.0.3:80']");
    assert_eq!(same(&before, &after), [true, false]);
    let gone = |upstream: &Members| {
        upstream.endpoints.iter().map(|endpoint| endpoint.is_gone()).collect::<Vec<_>>()
    };
    let members = before.members();
    assert_eq!(gone(&members), [false, false], "requests may be on their way to it");
    drop(before);
    assert_eq!(gone(&members), [false, true]);
    assert_eq!(gone(&after.members()), [false, false]);
}

#[test]
fn another_protocol_makes_another_endpoint() {
    let registry = Registry::default();
    let before = later(&registry, TWO);
    let after = later(&registry, &format!("{TWO}, protocol: h2"));
    assert_eq!(same(&before, &after), [false, false]);
}

#[test]
fn names_keep_their_addresses_until_they_are_resolved_again() {
    let registry = Registry::default();
    let before = later(&registry, "endpoints: ['a.test:80', 'b.test:80']");
    before.take_effect();
    before.set_places(vec![place("a", 1), place("a", 2), place("b", 3)]);
    let after = later(&registry, "endpoints: ['10.0.0.9:80', {address: 'a.test:80', weight: 7}]");
    assert_eq!(addresses(&after), ["10.0.0.9:80", "10.0.0.1:80", "10.0.0.2:80"]);
    assert!(Arc::ptr_eq(&before.members().endpoints[0], &after.members().endpoints[1]));
    assert_eq!(after.members().places[1].placement.weight.get(), 7);
}

/// Exchanges that began under it may hold it for long, and its names are followed as long.
#[test]
fn what_is_not_in_force_any_more_sets_no_limits() {
    let registry = Registry::default();
    let limited = |most| {
        later(&registry, &format!("endpoints: ['a.test:80', 'b.test:80'], max_connections: {most}"))
    };
    let (before, after) = (limited(1), limited(2));
    before.take_effect();
    before.set_places(vec![place("a", 1)]);
    after.take_effect();
    before.set_places(vec![place("a", 1), place("a", 2)]);
    after.set_places(vec![place("a", 2)]);
    let endpoint = Arc::clone(&after.members().endpoints[0]);
    let _open = [(); 2].map(|()| endpoint.slots.try_take(None).unwrap());
    before.set_places(vec![place("b", 3)]);
    assert!(!endpoint.is_gone());
    assert_eq!(addresses(&limited(3)), ["10.0.0.2:80"], "where it was found last");
}

#[test]
fn nothing_is_left_of_an_unused_upstream() {
    let registry = Registry::default();
    let (known, upstream) = (KnownMembers::default(), later(&registry, TWO));
    let endpoint = Arc::clone(&known.get(3, &upstream, Instant::now()).endpoints()[1]);
    let life = upstream.life();
    drop(upstream);
    assert!(endpoint.is_gone() && life.has_changed().is_err());
    known.sweep();
    registry.sweep();
    assert_eq!(
        (registry.len(), Arc::strong_count(&endpoint)),
        (4, 1),
        "it, what went wrong, and who is told"
    );
    drop(endpoint);
    registry.sweep();
    assert!(registry.is_empty());
}

/// The last bytes of the addresses `10.0.0.LAST` that requests are sent to, in order.
fn who(upstream: &Upstream) -> Vec<u8> {
    let known = KnownUpstream::of(upstream);
    let endpoints = upstream.members();
    let mut places: Vec<_> = (0..400)
        .map(|number| {
            let (now, random) = (Duration::ZERO, mix(number));
            let key = Some(mix(random));
            let draw = PickContext { key, random, now, excluded: NONE, standings: None };
            known.choose(&draw)
        })
        .collect();
    places.sort();
    places.dedup();
    let last = |place: usize| match &endpoints.endpoints[place].address {
        Address::Ip(SocketAddr::V4(address)) => address.ip().octets()[3],
        other => panic!("{other}"),
    };
    places.into_iter().flatten().map(last).collect()
}

fn holds(upstream: &Upstream, last: u8, fact: Fact) {
    let address = format!("10.0.0.{last}:80");
    let members = upstream.members();
    let endpoint = members.endpoints.iter().find(|it| it.has_address(&address));
    endpoint.unwrap().health.decide(fact, true, &"of a test");
}

/// The upstream of these endpoints `10.0.0.LAST`, each with more settings.
fn upstream_of(endpoints: &[(u8, &str)], settings: &str) -> Arc<Upstream> {
    let endpoint = |(last, more): &(u8, &str)| format!("{{address: '10.0.0.{last}:80'{more}}}");
    let endpoints: Vec<_> = endpoints.iter().map(endpoint).collect();
    let registry = Registry::default();
    let balance = if settings.contains("balance") { "" } else { ", balance: random" };
    later(&registry, &format!("endpoints: [{}]{balance}{settings}", endpoints.join(", ")))
}

fn panics(upstream: &Upstream) -> bool {
    upstream.supply(since_start(Instant::now())).panics
}

#[test]
fn a_backup_takes_what_the_first_group_cannot_without_panic() {
    let three = [(1, ""), (2, ""), (3, "")];
    let with = |more: &[(u8, &'static str)]| upstream_of(&[&three, more].concat(), "");
    for fact in [Fact::Unhealthy, Fact::Ejected] {
        let upstream = with(&[(4, ", priority: 1")]);
        (1..=3).for_each(|last| holds(&upstream, last, fact));
        assert_eq!((who(&upstream), panics(&upstream)), (vec![4], false), "a backup");
        // Half of the backups are left, which is more than 30% of a group.
        let upstream = with(&[(4, ", priority: 1"), (5, ", priority: 1")]);
        (1..=4).for_each(|last| holds(&upstream, last, fact));
        assert_eq!((who(&upstream), panics(&upstream)), (vec![5], false), "half of the backups");
        holds(&upstream, 5, fact);
        assert_eq!((who(&upstream), panics(&upstream)), (vec![1, 2, 3], true), "nothing is left");
    }
}

/// What a group can take is known by those of it that do not fail: in a panic as well.
#[test]
fn in_a_panic_the_group_that_is_left_gets_the_requests() {
    let backup = ", priority: 1";
    let first = (1..=2).map(|last| (last, ""));
    let endpoints: Vec<_> = first.chain((3..=7).map(|last| (last, backup))).collect();
    let upstream = upstream_of(&endpoints, "");
    (1..=6).for_each(|last| holds(&upstream, last, Fact::Unhealthy));
    assert_eq!((who(&upstream), panics(&upstream)), (vec![3, 4, 5, 6, 7], true));
}

#[test]
fn zones_are_groups_in_a_panic_as_well() {
    let text = "zone: here\nlisteners: [':0']\nroutes: [{upstream: u}]\nupstreams: {u: {balance: random, endpoints: [
        {address: '10.0.0.1:80', zone: here}, {address: '10.0.0.2:80', zone: here}, {address: '10.0.0.3:80', zone: here},
        {address: '10.0.0.4:80', zone: there}]}}";
    let config = titan_config::Config::parse("test", text).unwrap_or_else(|bad| panic!("{bad}"));
    let registry = Registry::default();
    let upstream = Upstream::of(&config.upstreams[0], &config.resolver, None, (&registry, 1));
    (1..=3).for_each(|last| holds(&upstream, last, Fact::Unhealthy));
    assert_eq!((who(&upstream), panics(&upstream)), (vec![4], false));
}

/// Whatever else is wrong with it.
#[test]
fn no_panic_opens_what_somebody_has_taken_out_of_service() {
    for held in [Fact::Draining, Fact::EjectedByHand, Fact::Unprobed] {
        let upstream = upstream_of(&[(1, ""), (2, ""), (3, ""), (4, ", drain: true")], "");
        holds(&upstream, 1, held);
        (1..=4).for_each(|last| holds(&upstream, last, Fact::Unhealthy));
        assert_eq!((who(&upstream), panics(&upstream)), (vec![2, 3], true), "{held:?}");
        let supply = upstream.supply(since_start(Instant::now()));
        assert_eq!((supply.usable, supply.all), (0, 2), "{held:?}");
    }
}

#[test]
fn what_drains_is_no_part_of_what_is_left() {
    for (drain, by_order) in [("", true), (", drain: true", false)] {
        let upstream = upstream_of(&[(1, drain), (2, "")], "");
        if by_order {
            holds(&upstream, 1, Fact::Draining);
        }
        assert_eq!((who(&upstream), panics(&upstream)), (vec![2], false));
        holds(&upstream, 2, Fact::Unhealthy);
        assert_eq!((who(&upstream), panics(&upstream)), (vec![2], true));
    }
}

/// By RFC 2782 all that can be reached with the lowest priority comes first.
#[test]
fn what_drains_sends_nothing_to_a_backup() {
    let (drain, backup) = (", drain: true", ", priority: 1");
    let endpoints = [(1, ""), (2, drain), (3, drain), (4, backup), (5, backup)];
    for policy in ["", ", balance: {consistent_hash: {header: x-user}}"] {
        let upstream = upstream_of(&endpoints, policy);
        assert_eq!((who(&upstream), panics(&upstream)), (vec![1], false), "{policy}");
        holds(&upstream, 1, Fact::Unhealthy);
        assert_eq!((who(&upstream), panics(&upstream)), (vec![4, 5], false), "{policy}");
        holds(&upstream, 4, Fact::EjectedByHand);
        assert_eq!((who(&upstream), panics(&upstream)), (vec![5], false), "{policy}");
    }
    let upstream = upstream_of(&[(1, drain), (2, drain), (3, backup)], "");
    assert_eq!((who(&upstream), panics(&upstream)), (vec![3], false), "all of a group drain");
}

#[test]
fn where_every_breaker_is_open_nobody_panics() {
    let upstream = upstream_of(&[(1, ""), (2, "")], ", circuit_breaker: {per: endpoint}");
    let (members, breaking) = (upstream.members(), upstream.breaking().unwrap());
    let open = |place: usize| {
        let endpoint = Some(&*members.endpoints[place]);
        breaking.force(endpoint, crate::breaker::Forced::Open, Duration::from_secs(60))
    };
    assert!(open(0) && open(1));
    holds(&upstream, 2, Fact::Unhealthy);
    let supply = upstream.supply(since_start(Instant::now()));
    assert_eq!((supply.outcome(), who(&upstream)), (Outcome::Nobody, vec![]));
}

/// The breaker keeps its word: it is the other one that gets another try.
#[test]
fn an_open_breaker_leaves_less_than_a_closed_one() {
    let upstream = upstream_of(&[(1, ""), (2, "")], ", circuit_breaker: {per: endpoint}");
    holds(&upstream, 2, Fact::Ejected);
    assert_eq!((who(&upstream), panics(&upstream)), (vec![1], false));
    let members = upstream.members();
    let breaking = upstream.breaking().unwrap();
    breaking.force(
        Some(&members.endpoints[0]),
        crate::breaker::Forced::Open,
        Duration::from_secs(60),
    );
    assert_eq!((who(&upstream), panics(&upstream)), (vec![2], true));
}

/// Whoever counts requests may see it at once.
#[test]
fn what_is_new_beside_others_takes_a_part_from_the_first_request_on() {
    let registry = Registry::default();
    let rises = |upstream: &Upstream| -> Vec<bool> {
        let (now, slow_start) = (since_start(Instant::now()), Duration::from_secs(3600));
        let is_rising = |it: &Arc<Endpoint>| it.health.is_rising(now, slow_start);
        upstream.members().endpoints.iter().map(is_rising).collect()
    };
    let names = later(&registry, "endpoints: ['a.test:80', 'b.test:80']");
    names.take_effect();
    names.set_places(vec![place("a", 1), place("b", 2)]);
    assert_eq!(rises(&names), [false, false], "there are no others");
    names.set_places(vec![place("a", 1), place("b", 2), place("b", 3)]);
    assert_eq!(rises(&names), [false, false, true]);
    let names = later(&registry, "endpoints: ['a.test:80', '10.0.0.4:80']");
    names.take_effect();
    assert_eq!(rises(&names), [false, true]);
}

/// However many it is kept from.
#[test]
fn what_takes_a_part_sends_no_request_where_it_has_been() {
    let upstream =
        later(&Registry::default(), "endpoints: ['a.test:80'], balance: random, slow_start: 1h");
    upstream.take_effect();
    let others: Vec<_> = (1..=11).map(|last| place("a", last)).collect();
    upstream.set_places(others.clone());
    upstream.set_places([&others[..], &[place("a", 12)]].concat());
    let (known, now) = (KnownUpstream::of(&upstream), since_start(Instant::now()));
    let excluded: Vec<_> = (0..10).collect();
    let chosen = (0..200).map(|number| {
        let random = mix(number);
        let draw = PickContext { key: None, random, now, excluded: &excluded, standings: None };
        known.choose(&draw)
    });
    assert_eq!(chosen.filter(|it| !matches!(it, Some(10 | 11))).count(), 0);
}

#[test]
fn what_takes_no_requests_is_no_other_to_try() {
    let upstream = upstream_of(&[(1, ""), (2, ""), (3, ", drain: true")], "");
    let has_other = |tried: &[usize]| KnownUpstream::of(&upstream).has_other(tried);
    assert!(has_other(&[0]) && !has_other(&[0, 1]));
    holds(&upstream, 2, Fact::Ejected);
    assert!(!has_other(&[0]) && has_other(&[1]));
}
