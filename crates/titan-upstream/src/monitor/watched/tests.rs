//! Tests of what is remembered of endpoints.

use super::*;
use crate::breaker::Forced;
use crate::members::KnownMembers;
use titan_config::Config;
use titan_io::registry::Registry;
use tokio::task::AbortHandle;

/// The upstream `u` with those settings, with what `registry` has of it, in force.
fn upstream(registry: &Registry, settings: &str) -> Arc<Upstream> {
    let text =
        format!("listeners: [':0']\nroutes: [{{upstream: u}}]\nupstreams: {{u: {{{settings}}}}}");
    let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
    let upstream = Upstream::of(&config.upstreams[0], &config.resolver, None, (registry, 1));
    upstream.take_effect();
    upstream
}

const ONE: &str = "endpoints: ['10.0.0.1:80']";
const TWO: &str = "endpoints: ['10.0.0.1:80', '10.0.0.2:80']";
const LONG: Duration = Duration::from_secs(3600);

/// What holds of each endpoint.
fn facts(upstream: &Upstream) -> Vec<Vec<Fact>> {
    let of = |endpoint: &Arc<Endpoint>| {
        endpoint.health.story().reasons.iter().map(|it| it.fact).collect()
    };
    upstream.members().endpoints.iter().map(of).collect()
}

fn of(upstream: &Arc<Upstream>, before: Option<WatchedUpstream>) -> WatchedUpstream {
    WatchedUpstream::of(upstream, before, || 0)
}

impl WatchedUpstream {
    /// How many endpoints it has.
    pub(crate) fn endpoints(&self) -> usize {
        self.endpoints.len()
    }

    fn orders(&mut self, last: u8, wish: Wish) {
        let address = format!("10.0.0.{last}:80");
        self.follow(&Order { upstream: "u".to_owned(), address, wish });
    }
}

fn fail(endpoint: &Endpoint) {
    (0..5).for_each(|_| endpoint.health.tally.note(crate::health::Fared::Failed));
}

/// Leaves and comes back, as it was because a request of then still runs, or as another one at that address.
#[test]
fn what_comes_back_is_as_it_was_for_as_long_as_that_holds() {
    for stays in [true, false] {
        let registry = Registry::default();
        let both = upstream(&registry, TWO);
        let running = stays.then(|| both.members());
        let mut watched = of(&both, None);
        watched.orders(1, Wish::Drain(LONG));
        watched.orders(2, Wish::Eject(LONG));
        fail(&both.members().endpoints[1]);
        let held = [vec![Fact::Draining], vec![Fact::EjectedByHand]];
        assert_eq!(facts(&both), held);
        let one = upstream(&registry, ONE);
        drop(both);
        let watched = of(&one, Some(watched));
        let both = upstream(&registry, TWO);
        let mut watched = of(&both, Some(watched));
        assert_eq!(facts(&both), held, "{stays}");
        watched.orders(1, Wish::Restore);
        watched.orders(2, Wish::Restore);
        assert_eq!(facts(&both), [[], []], "{stays}");
        watched.judge();
        assert_eq!(facts(&both), [[], []], "its failures of then are forgotten");
        drop(running);
    }
}

#[test]
fn an_ejection_is_over_in_time_whoever_was_away() {
    let registry = Registry::default();
    let (one, both) = (upstream(&registry, ONE), upstream(&registry, TWO));
    let running = both.members();
    let mut watched = of(&both, None);
    fail(&running.endpoints[1]);
    watched.judge();
    assert_eq!(facts(&both), [vec![], vec![Fact::Ejected]]);
    let watched = of(&one, Some(watched));
    let watched = of(&both, Some(watched));
    assert_eq!(facts(&both), [vec![], vec![Fact::Ejected]]);
    // An upstream that is gone is forgotten: what was decided about it holds no longer.
    drop(watched);
    let mut watched = of(&both, None);
    assert_eq!(facts(&both), [[], []]);
    watched.judge();
    assert_eq!(facts(&both), [[], []]);
}

/// Another protocol makes another endpoint of it: what an operator wants is about the address.
#[test]
fn what_operators_want_outlives_a_change_of_protocol() {
    let registry = Registry::default();
    let before = upstream(&registry, TWO);
    let mut watched = of(&before, None);
    watched.orders(1, Wish::Drain(LONG));
    let after = upstream(&registry, &format!("{TWO}, protocol: h2"));
    assert_eq!(facts(&after), [[], []]);
    of(&after, Some(watched));
    assert_eq!(facts(&after), [vec![Fact::Draining], vec![]]);
}

/// It got none while it was unhealthy: nothing can be held against it.
#[test]
fn what_is_healthy_again_is_not_ejected_for_failures_of_before() {
    let registry = Registry::default();
    let upstream = upstream(&registry, &format!("{TWO}, health: tcp"));
    let mut watched = of(&upstream, None);
    let endpoint = &upstream.members().endpoints[0];
    let mut probed = |outcome: Result<(), &str>| {
        watched.count_probe(0, outcome.map_err(|why| why.to_owned().into()), 0);
        watched.judge();
    };
    (0..3).for_each(|_| probed(Err("refused")));
    fail(endpoint);
    probed(Ok(()));
    assert_eq!(facts(&upstream), [vec![Fact::Unhealthy], vec![]]);
    probed(Ok(()));
    assert_eq!(facts(&upstream), [[], []]);
}

#[test]
fn what_is_not_probed_yet_waits_for_a_verdict() {
    let registry = Registry::default();
    let upstream =
        upstream(&registry, &format!("{TWO}, health: {{probe: tcp, initial: unhealthy}}"));
    let mut watched = of(&upstream, None);
    let known = KnownMembers::default();
    let usable = || known.get(0, &upstream, std::time::Instant::now()).usable().count();
    let mut probed = |place: usize, outcome: Result<(), ProbeFailure>| {
        watched.count_probe(place, outcome, 0);
    };
    assert_eq!((facts(&upstream), usable()), (vec![vec![Fact::Unprobed]; 2], 0));
    (0..3).for_each(|_| probed(0, Err("refused".to_owned().into())));
    assert_eq!(facts(&upstream), [[Fact::Unhealthy], [Fact::Unprobed]]);
    assert_eq!(usable(), 1, "all that is known of fails");
    (0..2).for_each(|_| probed(1, Ok(())));
    assert_eq!((facts(&upstream), usable()), (vec![vec![Fact::Unhealthy], vec![]], 1));
}

#[test]
fn a_probe_that_cannot_be_made_says_nothing() {
    let registry = Registry::default();
    let upstream =
        upstream(&registry, &format!("{ONE}, health: {{probe: tcp, unhealthy_after: 2}}"));
    let mut watched = of(&upstream, None);
    let mut fails = |is_shortage| {
        let failure = ProbeFailure { why: "refused".to_owned(), is_shortage };
        watched.count_probe(0, Err(failure), 0);
    };
    (0..5).for_each(|_| fails(true));
    fails(false);
    assert_eq!(facts(&upstream), [[]]);
    let told: Vec<_> =
        upstream.failure_log.take().map(|it| (it.0, it.1.1.what.clone(), it.2)).collect();
    assert_eq!(told, [("no-socket", "10.0.0.1:80: refused; it was not probed".to_owned(), 5)]);
    fails(false);
    assert_eq!(facts(&upstream), [[Fact::Unhealthy]]);
}

#[test]
fn it_is_said_when_nobody_gets_requests_and_when_somebody_does_again() {
    let registry = Registry::default();
    let upstream = upstream(&registry, TWO);
    let mut watched = of(&upstream, None);
    let mut told = |last, wish| {
        watched.orders(last, wish);
        watched.note_supply();
        let event = upstream.log.take().pop().unwrap();
        assert_eq!(event.subject() == "supply", !event.message().starts_with("is "));
        event.message().to_owned()
    };
    watched_says(&told(1, Wish::Eject(LONG)), "is ejected");
    let nobody = "no endpoint gets requests: all are taken out of service, or wait for their first probe; new requests get 503";
    watched_says(&told(2, Wish::Drain(LONG)), nobody);
    watched_says(&told(1, Wish::Restore), "1 of 1 endpoints can take requests again");
    watched_says(&told(2, Wish::Restore), "is restored");
}

fn watched_says(line: &str, words: &str) {
    assert!(line.starts_with(words), "{line}");
}

/// A probe that never ends, at the first endpoint.
fn start(watched: &mut WatchedUpstream, number: u64) -> AbortHandle {
    let task = tokio::task::spawn_local(std::future::pending::<()>()).abort_handle();
    watched.endpoints[0].probing.as_mut().unwrap().start(number, task.clone());
    task
}

/// What was asked under other settings is no reply to what is asked now.
#[tokio::test(start_paused = true)]
async fn a_probe_of_other_settings_says_nothing() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let registry = Registry::default();
            let asked = |number| Asked { upstream: "u".to_owned(), place: 0, number };
            let with = |more: &str| {
                let health =
                    format!("health: {{probe: tcp, unhealthy_after: 1, interval: 1h{more}}}");
                upstream(&registry, &format!("{ONE}, {health}"))
            };
            let before = with("");
            let mut watched = of(&before, None);
            let task = start(&mut watched, 7);
            let same = with("}, max_idle: 3, queue: {length: 4");
            let mut watched = of(&same, Some(watched));
            assert_eq!(
                watched.due(Instant::now()).count(),
                0,
                "it still runs, and no other begins"
            );
            let after = with(", timeout: 200ms");
            watched = of(&after, Some(watched));
            tokio::task::yield_now().await;
            assert!(task.is_finished(), "it is ended");
            watched.note_probe(&asked(7), Err("refused".to_owned().into()), 0);
            assert_eq!((facts(&after), watched.due(Instant::now()).count()), (vec![vec![]], 1));
            drop(start(&mut watched, 8));
            watched.note_probe(&asked(8), Err("refused".to_owned().into()), 0);
            assert_eq!(facts(&after), [[Fact::Unhealthy]]);
        })
        .await;
}

/// A fault of the gateway must not leave an endpoint without probes for ever.
#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_has_failed_and_another_follows() {
    let run = async {
        let registry = Registry::default();
        let upstream =
            upstream(&registry, &format!("{ONE}, health: {{probe: tcp, unhealthy_after: 1}}"));
        let monitored = super::super::Monitored::new(&registry);
        monitored.set(&[Arc::clone(&upstream)]);
        let mut monitor = super::super::HealthMonitor::new(monitored);
        monitor.look();
        let task = monitor.probes.spawn_local(async { panic!("of a test") });
        let watched = monitor.upstreams.get_mut("u").unwrap();
        watched.endpoints[0].probing.as_mut().unwrap().start(1, task);
        let joined = monitor.probes.join_next().await.unwrap();
        monitor.note_joined(joined);
        assert_eq!(facts(&upstream), [[Fact::Unhealthy]]);
        let later = Instant::now() + LONG;
        assert_eq!(monitor.upstreams["u"].due(later).count(), 1);
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

/// Otherwise the log could end with one that is over.
#[test]
fn what_follows_each_other_is_told_as_states_of_the_same() {
    let registry = Registry::default();
    let log = titan_observe::events::Log::of(&registry);
    let settings = "health: tcp, circuit_breaker: { consecutive_failures: 2 }";
    let upstream = upstream(&registry, &format!("{TWO}, {settings}"));
    let mut watched = of(&upstream, None);
    fail(&upstream.members().endpoints[0]);
    watched.judge();
    watched.orders(1, Wish::Restore);
    for outcome in [Err(()), Err(()), Err(()), Ok(()), Ok(())] {
        watched.count_probe(1, outcome.map_err(|()| "refused".to_owned().into()), 0);
    }
    let breaking = upstream.breaking().unwrap();
    assert!(breaking.force(None, Forced::Open, LONG));
    assert!(breaking.release(None));
    let told: Vec<_> = log.take().iter().map(|it| (it.kind(), it.subject())).collect();
    assert_eq!(
        told,
        [
            ("ejected", "ejection"),
            ("restored", "ejection"),
            ("unhealthy", "probes"),
            ("healthy", "probes"),
            ("breaker_opened", "breaker"),
            ("breaker_half_open", "breaker"),
        ]
    );
}
