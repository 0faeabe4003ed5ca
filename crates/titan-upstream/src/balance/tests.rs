//! Tests of the policies: shares by weight, real decisions, retries that go elsewhere.

use super::*;
use proptest::prelude::*;
use titan_config::Config;
use titan_http::Fields;

/// What `balance` says in an upstream with these weights.
fn balancer(balance: &str, weights: &[u16]) -> (Balancer, Vec<Arc<EndpointState>>) {
    let text = format!(
        "listeners: [':0']\nroutes: [{{upstream: a}}]\n\
         upstreams: {{a: {{endpoints: ['127.0.0.1:1'], balance: {balance}}}}}"
    );
    let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
    let states: Vec<_> =
        (0..weights.len()).map(|at| EndpointState::new(&format!("10.0.0.{at}:80"))).collect();
    let weights = weights.iter().map(|&weight| NonZeroU16::new(weight).unwrap());
    let members = states.iter().cloned().zip(weights).enumerate();
    let members = members.map(|(place, (state, weight))| (place, state, weight));
    let balancer = Balancer::new(&config.upstreams[0].balance, Turn::default(), members);
    (balancer, states)
}

const EVERY_POLICY: &[&str] = &[
    "round_robin",
    "least_requests",
    "p2c_ewma",
    "random",
    "{consistent_hash: {header: x-user}}",
    "{sticky_cookie: {}}",
];

fn draw(number: u64) -> PickContext<'static> {
    let now = Duration::from_secs(1);
    let (key, random) = (Some(mix(number)), mix(mix(number)));
    PickContext { key, random, now, excluded: &[], standings: None }
}

/// How often each endpoint is chosen by that many draws, none of which runs on.
fn shares(balancer: &Balancer, count: usize, draws: u64, excluded: &[usize]) -> Vec<f64> {
    let mut counts = vec![0.0; count];
    for number in 0..draws {
        counts[balancer.choose(&PickContext { excluded, ..draw(number) }).unwrap()] += 1.0;
    }
    let total: f64 = counts.iter().sum();
    counts.into_iter().map(|count| count / total).collect()
}

fn fields(lines: &[(&str, &str)]) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in lines {
        fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
    }
    fields
}

fn source<'a>(query: Option<&'a str>, fields: &'a Fields) -> KeySource<'a> {
    KeySource { fields, query: query.map(str::as_bytes), client: None }
}

#[test]
fn every_policy_shares_by_weight() {
    for policy in EVERY_POLICY {
        let (balancer, states) = balancer(policy, &[1, 2, 5]);
        states.iter().for_each(|it| it.record(Duration::from_millis(5), Duration::from_secs(1)));
        for (share, ideal) in shares(&balancer, 3, 40_000, &[]).iter().zip([0.125, 0.25, 0.625]) {
            assert!((share - ideal).abs() < 0.03, "{policy}: {share} for {ideal}");
        }
    }
}

#[test]
fn a_retry_goes_elsewhere_and_to_all_others_by_weight() {
    for policy in EVERY_POLICY {
        let (balancer, states) = balancer(policy, &[4, 1, 1, 2]);
        states.iter().for_each(|it| it.record(Duration::from_millis(5), Duration::from_secs(1)));
        let shares = shares(&balancer, 4, 40_000, &[0]);
        for (share, ideal) in shares.iter().zip([0.0, 0.25, 0.25, 0.5]) {
            assert!((share - ideal).abs() < 0.03, "{policy}: {share} for {ideal}");
        }
    }
}

#[test]
fn the_last_endpoint_is_found_and_then_none() {
    for policy in EVERY_POLICY {
        let (balancer, _) = balancer(policy, &[1; 40]);
        let excluded: Vec<usize> = (0..40).filter(|&place| place != 23).collect();
        for number in 0..100 {
            let chosen = balancer.choose(&PickContext { excluded: &excluded, ..draw(number) });
            assert_eq!(chosen, Some(23), "{policy}");
        }
        let all: Vec<usize> = (0..40).collect();
        assert_eq!(balancer.choose(&PickContext { excluded: &all, ..draw(1) }), None, "{policy}");
    }
}

#[test]
fn an_upstream_without_endpoints_has_none_to_choose() {
    for policy in EVERY_POLICY {
        assert_eq!(balancer(policy, &[]).0.choose(&draw(1)), None, "{policy}");
    }
}

#[test]
fn round_robin_needs_neither_key_nor_chance() {
    let (balancer, _) = balancer("round_robin", &[1, 1, 1]);
    let mut turns: Vec<_> = (0..3).map(|_| balancer.choose(&draw(7)).unwrap()).collect();
    turns.sort_unstable();
    assert_eq!(turns, [0, 1, 2]);
}

#[test]
fn random_follows_its_number_alone() {
    let (balancer, _) = balancer("random", &[1, 1, 2]);
    let at = |quarter: u64| balancer.choose(&PickContext { random: quarter << 62, ..draw(0) });
    assert_eq!([at(0), at(1), at(2), at(3)], [Some(0), Some(1), Some(2), Some(2)]);
    assert_eq!(balancer.choose(&PickContext { random: u64::MAX, ..draw(0) }), Some(2));
}

#[test]
fn least_requests_takes_the_smallest_load_for_its_weight() {
    let (balancer, states) = balancer("least_requests", &[1, 1, 3]);
    let mut running = vec![states[0].begin(), states[2].begin()];
    assert_eq!(balancer.choose(&draw(1)), Some(1));
    running.extend([states[1].begin(), states[1].begin(), states[0].begin()]);
    assert_eq!(balancer.choose(&draw(2)), Some(2));
    running.clear();
    let idle: Vec<_> = (0..50).map(|number| balancer.choose(&draw(number)).unwrap()).collect();
    assert!((0..3).all(|place| idle.contains(&place)), "{idle:?}");
}

#[test]
fn latency_decides_between_two_and_running_requests_weigh_on_it() {
    let (balancer, states) = balancer("p2c_ewma", &[1, 1]);
    let now = Duration::from_secs(1);
    states[0].record(Duration::from_millis(30), now);
    states[1].record(Duration::from_millis(10), now);
    assert!((0..100).all(|number| balancer.choose(&draw(number)) == Some(1)));
    let _running: Vec<_> = (0..3).map(|_| states[1].begin()).collect();
    assert!((0..100).all(|number| balancer.choose(&draw(number)) == Some(0)));
}

#[test]
fn the_slowest_of_many_is_seldom_taken() {
    let (balancer, states) = balancer("p2c_ewma", &[1; 8]);
    for (state, millis) in states.iter().zip([500, 5, 5, 5, 5, 5, 5, 5]) {
        state.record(Duration::from_millis(millis), Duration::from_secs(1));
    }
    let shares = shares(&balancer, 8, 10_000, &[]);
    assert!(shares[0] == 0.0 && shares[1..].iter().all(|share| *share > 0.08), "{shares:?}");
}

#[test]
fn load_settles_by_weight_under_latency_too() {
    let (balancer, states) = balancer("p2c_ewma", &[1, 3]);
    states.iter().for_each(|it| it.record(Duration::from_millis(5), Duration::from_secs(1)));
    let running: Vec<_> =
        (0..400).map(|number| states[balancer.choose(&draw(number)).unwrap()].begin()).collect();
    assert!((90..=110).contains(&states[0].active()), "{}", states[0].active());
    drop(running);
}

#[test]
fn the_same_key_finds_the_same_endpoint_and_the_same_second_choice() {
    let (balancer, _) = balancer("{consistent_hash: {header: x-user}}", &[1; 10]);
    for number in 0..100 {
        let key = Some(mix(number));
        let choose = |random, excluded: &[usize]| {
            let now = Duration::ZERO;
            balancer.choose(&PickContext { key, random, excluded, now, standings: None }).unwrap()
        };
        let first = choose(1, &[]);
        assert_eq!(choose(2, &[]), first);
        assert_eq!(choose(3, &[first]), choose(4, &[first]));
    }
}

#[test]
fn what_is_hashed_is_what_the_configuration_names() {
    let user = fields(&[("X-User", "u"), ("Cookie", "a=u; sid=u"), ("Cookie", "t=u")]);
    let other = fields(&[("X-User", "v"), ("Cookie", "asid=u; a=u")]);
    let hash = Some(xxh3_64(b"u"));
    for (on, query, expected, missing) in [
        ("{header: x-user}", None, hash, Some(xxh3_64(b"v"))),
        ("{cookie: sid}", None, hash, None),
        ("{cookie: t}", None, hash, None),
        ("{query: q}", Some("a=1&q=%75"), hash, None),
    ] {
        let (balancer, _) = balancer(&format!("{{consistent_hash: {on}}}"), &[1, 1]);
        assert_eq!(balancer.key(&source(query, &user)), expected, "{on}");
        assert_eq!(balancer.key(&source(None, &other)), missing, "{on}");
    }
}

#[test]
fn a_client_is_the_same_over_both_families() {
    let (balancer, _) = balancer("{consistent_hash: client_address}", &[1, 1]);
    let fields = Fields::default();
    let key = |address: &str| {
        balancer.key(&KeySource { client: address.parse().ok(), ..source(None, &fields) })
    };
    assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
    assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    assert_eq!(balancer.key(&source(None, &fields)), None);
}

#[test]
fn without_a_key_requests_take_turns() {
    let (balancer, _) = balancer("{consistent_hash: {header: x-user}}", &[1, 1]);
    let chosen: Vec<_> =
        (0..4).map(|_| balancer.choose(&PickContext { key: None, ..draw(1) }).unwrap()).collect();
    assert_eq!(chosen.iter().filter(|&&place| place == 0).count(), 2);
}

/// The key that the response's cookie will bring back.
fn cookie_key(balancer: &Balancer, set_cookie: &[u8]) -> Option<u64> {
    let pair = set_cookie.split(|&byte| byte == b';').next().unwrap();
    let cookie = format!("x=1; {}", std::str::from_utf8(pair).unwrap());
    balancer.key(&source(None, &fields(&[("Cookie", &cookie)])))
}

#[test]
fn a_sticky_cookie_brings_the_client_back() {
    let (balancer, _) = balancer("{sticky_cookie: {}}", &[1; 5]);
    for number in 0..10 {
        let first = PickContext { key: None, ..draw(number) };
        let chosen = balancer.choose(&first).unwrap();
        let mut value = Vec::new();
        assert!(balancer.set_cookie(None, chosen, &mut value));
        let key = cookie_key(&balancer, &value);
        let again = PickContext { key, ..draw(number + 100) };
        assert_eq!(balancer.choose(&again), Some(chosen));
        assert!(!balancer.set_cookie(key, chosen, &mut value), "it has the cookie");
        let excluded = [chosen];
        let elsewhere = balancer.choose(&PickContext { excluded: &excluded, ..again }).unwrap();
        assert_ne!(elsewhere, chosen);
        assert!(balancer.set_cookie(key, elsewhere, &mut value), "it needs another");
    }
}

#[test]
fn a_cookie_that_names_no_endpoint_counts_for_nothing() {
    let (balancer, _) = balancer("{sticky_cookie: {}}", &[1, 1]);
    for cookie in ["", "0", "+000000000000001", "00000000000000001", "000000000000000G", "\u{e9}"] {
        let cookie = format!("titan_sticky={cookie}");
        assert_eq!(balancer.key(&source(None, &fields(&[("Cookie", &cookie)]))), None);
    }
    let unknown = PickContext { key: Some(1), ..draw(1) };
    let chosen: Vec<_> = (0..2).map(|_| balancer.choose(&unknown).unwrap()).collect();
    assert_ne!(chosen[0], chosen[1]);
    assert!(balancer.set_cookie(Some(1), chosen[0], &mut Vec::new()));
}

#[test]
fn a_sticky_cookie_is_written_as_configured() {
    let written = |options: &str| {
        let (balancer, _) = balancer(&format!("{{sticky_cookie: {options}}}"), &[1]);
        let mut value = b"stale".to_vec();
        assert!(balancer.set_cookie(None, 0, &mut value));
        let value = String::from_utf8(value).unwrap();
        let (name, rest) = value.split_once('=').unwrap();
        format!("{name} {}", &rest[16..])
    };
    assert_eq!(written("{}"), "titan_sticky ; Path=/; HttpOnly; SameSite=Lax");
    assert_eq!(
        written("{name: s, max_age: 1h, secure: true, http_only: false, same_site: none}"),
        "s ; Path=/; Max-Age=3600; Secure; SameSite=None"
    );
    assert_eq!(written("{same_site: strict}"), "titan_sticky ; Path=/; HttpOnly; SameSite=Strict");
}

#[test]
fn policies_without_a_cookie_set_none() {
    for policy in EVERY_POLICY.iter().filter(|policy| !policy.contains("cookie")) {
        let (balancer, _) = balancer(policy, &[1]);
        assert!(!balancer.set_cookie(Some(1), 0, &mut Vec::new()), "{policy}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn least_requests_is_what_a_model_says(
        weights in proptest::collection::vec(1_u16..5, 1..6),
        steps in proptest::collection::vec((any::<u64>(), any::<bool>()), 0..60),
    ) {
        let (balancer, states) = balancer("least_requests", &weights);
        let mut running: Vec<(usize, InFlight)> = Vec::new();
        let mut model = vec![0_u32; weights.len()];
        for (number, ends) in steps {
            if ends && !running.is_empty() {
                let at = usize::try_from(number).unwrap() % running.len();
                model[running.swap_remove(at).0] -= 1;
                continue;
            }
            let chosen = balancer.choose(&draw(number)).unwrap();
            let load = |place: usize| f64::from(model[place]) / f64::from(weights[place]);
            prop_assert!((0..weights.len()).all(|place| load(chosen) <= load(place)));
            running.push((chosen, states[chosen].begin()));
            model[chosen] += 1;
        }
        let counted: Vec<u32> = states.iter().map(|state| state.active()).collect();
        prop_assert_eq!(counted, model);
    }

    #[test]
    fn round_robin_is_exact_in_every_period(
        weights in proptest::collection::vec(1_u16..30, 1..10),
        before in 0_u16..50,
    ) {
        let (balancer, _) = balancer("round_robin", &weights);
        (0..before).for_each(|number| { balancer.choose(&draw(number.into())); });
        let mut counts = vec![0_u16; weights.len()];
        (0..weights.iter().sum()).for_each(|number: u16| {
            counts[balancer.choose(&draw(number.into())).unwrap()] += 1;
        });
        prop_assert_eq!(counts, weights);
    }
}
