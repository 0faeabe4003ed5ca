//! What survives when one configuration replaces another, and what does not.

use super::*;
use titan_http::Status;
use titan_io::network::ClientNetwork;
use titan_policies::policy::ExchangeEnd;

/// A snapshot of a configuration with those settings, with what is there already in `registry`.
fn snapshot(registry: &Registry, settings: &str) -> Snapshot {
    let text = format!("listeners: ['127.0.0.1:0']\n{settings}");
    let config = Config::parse("test", &text).unwrap_or_else(|bad| panic!("{bad}"));
    let tls = config.upstreams.iter().map(|_| None);
    Snapshot::build(
        &config,
        (registry, 1),
        tls.collect(),
        &PolicyCredentials::unread(&config),
        &Files::default(),
        (None, &Stores::default()),
    )
}

const ROUTES: &str = "routes: [{ respond: 204 }]";

#[test]
fn tunnels_that_are_open_count_under_another_limit() {
    let registry = Registry::default();
    let limited = |most| snapshot(&registry, &format!("{ROUTES}\nlimits: {{ tunnels: {most} }}"));
    let before = limited(2);
    let open = [(); 2].map(|()| before.enter_tunnel().unwrap());
    let after = limited(3);
    drop(before);
    let third = after.enter_tunnel();
    assert!(third.is_some() && after.enter_tunnel().is_none());
    drop(open);
    assert!(after.enter_tunnel().is_some());
}

#[test]
fn memory_that_bodies_use_counts_under_another_limit() {
    let registry = Registry::default();
    let limited = |most| {
        let limits = ["decoding_memory", "request_memory", "response_memory"];
        let limits = limits.map(|name| format!("{name}: {most}")).join(", ");
        let limits = format!("limits: {{ {limits} }}");
        snapshot(&registry, &format!("{ROUTES}\n{limits}"))
    };
    let client = |last| Some(ClientNetwork::of([192, 0, 2, last].into()));
    let (before, after) = (limited("64MiB"), limited("32MiB"));
    let memories: [fn(&Snapshot) -> &ClientMemory; 3] =
        [|it| &it.decoding_memory, |it| &it.request_memory, |it| &it.response_memory];
    for of in memories {
        let mut held = of(&before).of(client(1));
        assert!(held.grow(16 << 20) && held.grow(32 << 20));
        assert!(!of(&after).of(client(2)).grow(1));
        drop(held);
        assert!(of(&after).of(client(2)).grow(1));
    }
}

#[test]
fn nothing_outlives_the_last_snapshot() {
    let registry = Registry::default();
    let before = snapshot(&registry, ROUTES);
    let after = snapshot(&registry, ROUTES);
    let open = before.enter_tunnel();
    drop((before, after));
    registry.sweep();
    assert_eq!(registry.len(), 1, "the tunnel");
    drop(open);
    registry.sweep();
    assert!(registry.is_empty());
}

#[test]
fn routes_and_upstreams_count_under_their_names() {
    let registry = Registry::default();
    let before = snapshot(&registry, UPSTREAMS);
    for (route, status) in [(Some(1), Status::OK), (None, Status::NOT_FOUND)] {
        let took = std::time::Duration::ZERO;
        let end = ExchangeEnd { status: Some(status), took, received: 0, sent: 0 };
        before.counted(route).cells(0).count_response(&end);
    }
    before.upstreams[1].counted.cells(0).attempts.add(3);
    let inserted = UPSTREAMS
        .replace("[{", "[{ name: new, path: /new, upstream: new }, {")
        .replace("upstreams:\n", "upstreams:\n  new: '127.0.0.1:9'\n")
        .replace("'127.0.0.1:3'", "'127.0.0.1:4'");
    let after = snapshot(&registry, &inserted);
    let responses = |route| after.counted(route).sum(|cells| cells.classes[2].get());
    assert_eq!([Some(0), Some(1), Some(2)].map(responses), [0, 0, 1]);
    assert_eq!(after.counted(None).sum(|cells| cells.classes[4].get()), 1);
    let attempts = after.upstreams.iter().map(|it| it.counted.sum(|cells| cells.attempts.get()));
    assert_eq!(attempts.collect::<Vec<_>>(), [0, 0, 3]);
}

const UPSTREAMS: &str = "
routes: [{ upstream: a }, { path: /b, upstream: b }]
upstreams:
  a: '127.0.0.1:1'
  b: ['127.0.0.1:2', '127.0.0.1:3']
";

#[test]
fn upstreams_stay_wherever_they_stand() {
    let registry = Registry::default();
    let before = snapshot(&registry, UPSTREAMS);
    let first = "upstreams:\n  new: '127.0.0.1:9'\n";
    let after =
        UPSTREAMS.replace("upstreams:\n", first).replace("[{", "[{ path: /, upstream: new }, {");
    let after = snapshot(&registry, &after);
    assert_eq!(after.upstreams[0].config().name.as_str(), "new");
    assert!(before.upstreams.iter().zip(&after.upstreams[1..]).all(|(a, b)| Arc::ptr_eq(a, b)));
}

#[test]
fn a_snapshot_that_never_serves_changes_nothing() {
    let registry = Registry::default();
    let before = snapshot(&registry, UPSTREAMS);
    before.take_effect(PolicyCredentials::default());
    let endpoint = Arc::clone(&before.upstreams[1].members().endpoints[1]);
    let timeout = endpoint.idle_timeout();
    let other =
        "b:\n    endpoints: ['127.0.0.1:3']\n    idle_timeout: 7s\n    max_connections: 1\n";
    let other = UPSTREAMS.replace("b: ['127.0.0.1:2', '127.0.0.1:3']\n", other);
    let after = snapshot(&registry, &other);
    assert!(Arc::ptr_eq(&endpoint, &after.upstreams[1].members().endpoints[0]));
    assert!(endpoint.idle_timeout() == timeout && !endpoint.slots.is_limited());
    drop(after);
    assert!(!endpoint.is_gone());
    snapshot(&registry, &other).take_effect(PolicyCredentials::default());
    assert!(endpoint.idle_timeout().as_secs() == 7 && endpoint.slots.is_limited());
}

const POLICIES: &str = "
apply: [count, early, failures, login, tokens]
routes: [{ respond: 204 }]
upstreams: { service: '127.0.0.1:1' }
policies:
  count: { rate_limit: { rates: 1/h, max_delay: 1s } }
  early: { early_limit: { concurrency: 1 } }
  failures: { failure_limit: { by_client: 1/h, by_name: 1/h } }
  login:
    authorise:
      basic: { users: { eve: $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW } }
      forward_auth: { upstream: service, cache: { ttl: 1m } }
  tokens: { jwt: { token: { cookie: t }, providers: { algorithms: RS256, keys: { jwks_url: { url: 'http://127.0.0.1:1/' } } } } }
";

#[test]
fn what_policies_keep_ends_with_them_though_their_figures_stay() {
    let registry = Registry::default();
    let before = snapshot(&registry, POLICIES);
    let (count, counters) = (registry.len(), before.chains.counters());
    let after =
        snapshot(&registry, &POLICIES.replace("routes: [", "routes: [{ path: /, respond: 204 }, "));
    assert_eq!(registry.len(), count + 1, "the new route");
    for snapshot in [&before, &after] {
        let (_phase, watched) = tokio::sync::watch::channel(titan_io::io::Phase::Serve);
        snapshot.chains.fetch_keys(watched).unwrap();
        snapshot.chains.check_passwords().unwrap();
    }
    drop((before, after));
    registry.sweep();
    assert_eq!(registry.len(), 2 * 5, "the cells of the policies, and their verdicts");
    assert!(!counters.metrics().is_empty());
    drop(counters);
    registry.sweep();
    assert!(registry.is_empty());
}
