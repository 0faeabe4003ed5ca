//! What stays of a limit when one configuration follows another, and what does not.

use crate::findings::Findings;
use crate::policy::{Policy as _, Setting};
use crate::rate_limit::cells::RateLimitCells;
use crate::rate_limit::limiter::{CellRate, Charge, Limiter, Outcome};
use crate::rate_limit::table::WriterId;
use crate::rate_limit::{RateLimit, RateLimitState, SharedByLimits, Waiting};
use crate::trial::TestClient;
use std::sync::Arc;
use titan_config::{Config, Policy, PolicyKind};
use titan_http::RequestHead;
use titan_io::registry::Registry;
use titan_store::stores::Stores;

/// The limit `p` with those settings over those routes, and what `registry` has of it.
fn later(registry: &Registry, routes: &str, settings: &str) -> RateLimit {
    of_kind(PolicyKind::RateLimit, registry, routes, settings)
}

fn of_kind(kind: PolicyKind, registry: &Registry, routes: &str, settings: &str) -> RateLimit {
    let text = format!(
        "{{ listeners: [':0'], apply: [p], routes: [{routes}], policies: {{ p: {{ rate_limit: {{ {settings} }} }} }} }}"
    );
    let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
    let Policy::RateLimit(limit) = &config.policies[0].policy else { panic!("it is a limit") };
    let waiting: Arc<Waiting> = registry.shared((), Waiting::default);
    let common = Arc::new(SharedByLimits { waiting, stores: Stores::default() });
    let setting = Setting::<RateLimit> { name: "p", config: &config, shared: &common, registry };
    RateLimit::of(limit, (kind, "p"), &setting)
}

/// What a request leaves behind that a route has taken, if it passes. It runs until that is dropped.
fn begin(limit: &RateLimit, route: usize) -> Option<RateLimitState> {
    let (mut request, mut findings) = (RequestHead::default(), Findings::default());
    let asker = TestClient::at("").on_route(route);
    let context = asker.context(&mut request, &mut findings);
    let (state, decided) = limit.judge(0, &context, &RateLimitCells::default());
    decided.is_ok().then_some(state)
}

/// How many of three pass.
fn of_three(limit: &RateLimit, route: usize) -> usize {
    (0..3).filter_map(|_| begin(limit, route)).count()
}

const ONE: &str = "{ name: a, path: /a, respond: 204 }";

#[tokio::test(start_paused = true)]
async fn a_limit_counts_on_while_it_is_the_same() {
    let registry = Registry::default();
    let before = later(&registry, ONE, "rates: 2/h");
    assert_eq!(of_three(&before, 0), 2);
    for same in ["rates: 2/h", "rates: 2/h, max_delay: 1s", "rates: 2/h, costs: { a: 2 }"] {
        assert_eq!(of_three(&later(&registry, ONE, same), 0), 0, "{same}");
    }
    for other in ["rates: [2/h, 9/24h]", "rates: 2/h, capacity: 64", "rates: 2/h, key: route"] {
        assert!(of_three(&later(&registry, ONE, other), 0) > 0, "{other}");
    }
    let early = of_kind(PolicyKind::EarlyLimit, &registry, ONE, "rates: 2/h");
    assert_eq!(of_three(&early, 0), 2, "another kind");
    assert_eq!(of_three(&before, 0), 0);
    drop(before);
    assert_eq!(of_three(&later(&registry, ONE, "rates: 2/h"), 0), 2, "nobody had it meanwhile");
}

/// The same limit with other settings, in force.
fn changed(registry: &Registry, settings: &str) -> RateLimit {
    let limit = later(registry, ONE, settings);
    limit.replace(());
    limit
}

/// How many requests are left, if so many are more than one.
fn left(limit: &RateLimit) -> usize {
    (0..100).filter_map(|_| begin(limit, 0)).count()
}

#[tokio::test(start_paused = true)]
async fn requests_stay_counted_when_the_rate_changes() {
    for (before, taken, after, expected) in [
        ("rates: 10/h", 6, "rates: 20/h", 14),
        ("rates: 20/h", 6, "rates: 10/h", 4),
        ("rates: 20/h", 15, "rates: 10/h", 0),
        ("rates: [10/h, 20/24h]", 6, "rates: [20/h, 16/24h]", 10),
    ] {
        let registry = Registry::default();
        let limit = later(&registry, ONE, before);
        assert_eq!((0..taken).filter_map(|_| begin(&limit, 0)).count(), taken);
        assert_eq!(left(&changed(&registry, after)), expected, "{before}, then {after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_at_a_slow_limit_is_at_most_at_a_fast_one() {
    let registry = Registry::default();
    let before = later(&registry, ONE, "rates: 10/h");
    assert_eq!(left(&before), 10);
    let after = changed(&registry, "rates: 1/1m");
    let (mut request, mut findings) = (RequestHead::default(), Findings::default());
    let asker = TestClient::at("");
    let context = asker.context(&mut request, &mut findings);
    let (state, decided) = after.judge(
        after.plans.of(context.findings.claims()),
        &context,
        &RateLimitCells::default(),
    );
    assert!(decided.is_err());
    assert_eq!(state.retry_after, Some(60), "not an hour");
}

#[tokio::test(start_paused = true)]
async fn a_rate_counts_as_before_until_another_one_is_in_force() {
    let registry = Registry::default();
    let before = later(&registry, ONE, "rates: 10/h");
    assert_eq!((0..6).filter_map(|_| begin(&before, 0)).count(), 6);
    drop(later(&registry, ONE, "rates: 100/h"));
    assert_eq!(left(&before), 4);
}

#[test]
fn keys_owe_as_much_time_as_before_where_plans_differ() {
    let of = |interval: u64| CellRate { interval, tolerance: 10 * interval };
    let limiter = |table, first, second| {
        let plans = [[of(first)].into(), [of(second)].into()];
        match table {
            None => Limiter::new(plans.into(), None, 1),
            Some(table) => Limiter::over(table, plans.into(), None),
        }
    };
    let before = limiter(None, 100, 50);
    let after = limiter(Some(Arc::clone(before.table())), 80, 30);
    for _ in 0..4 {
        before.take(1, Charge::ONE, WriterId::new(0), || 0);
    }
    let [from, to] = [&before, &after].map(|it| it.scale(|rate| rate.tolerance));
    after.convert(&from, &to, 0);
    let Outcome { counts, .. } = after.take(1, Charge::ONE, WriterId::new(0), || 0);
    assert_eq!(counts[0].reset, 400 + 80);
}

#[tokio::test(start_paused = true)]
async fn routes_are_counted_by_their_names() {
    let (registry, limit) = (Registry::default(), "rates: 2/h, key: route");
    let before = later(&registry, ONE, limit);
    assert_eq!(of_three(&before, 0), 2);
    let inserted = format!("{{ name: b, path: /b, respond: 204 }}, {ONE}");
    let after = later(&registry, &inserted, limit);
    assert_eq!([0, 1].map(|route| of_three(&after, route)), [2, 0]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_run_count_wherever_they_began() {
    let registry = Registry::default();
    let before = later(&registry, ONE, "concurrency: 1");
    let running = begin(&before, 0);
    assert!(running.is_some());
    let after = later(&registry, ONE, "concurrency: 1, shadow: false");
    drop(before);
    assert!(begin(&after, 0).is_none());
    drop(running);
    assert!(begin(&after, 0).is_some());
    drop(after);
    registry.sweep();
    assert!(registry.is_empty());
}
