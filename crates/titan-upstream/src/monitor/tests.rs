//! Tests of whose turn it is to be probed.

use super::*;
use crate::balance::mix;
use crate::breaker::Forced;
use crate::endpoint::Endpoint;
use crate::health::{Fact, Fared};
use titan_config::Config;
use tokio::task::LocalSet;
use tokio::time::advance;

/// The upstream `u` with those settings, in force.
fn upstream(registry: &Registry, settings: &str) -> Arc<Upstream> {
    let text =
        format!("listeners: [':0']\nroutes: [{{upstream: u}}]\nupstreams: {{u: {{{settings}}}}}");
    let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
    let upstream = Upstream::of(&config.upstreams[0], &config.resolver, None, (registry, 1));
    upstream.take_effect();
    upstream
}

const TWO: &str = "endpoints: ['127.0.0.1:1', '127.0.0.1:2']";
const LONG: Duration = Duration::from_secs(3600);

/// Who watches over an upstream, and has judged it once.
fn watching(registry: &Registry, upstream: &Arc<Upstream>) -> HealthMonitor {
    let monitored = Monitored::new(registry);
    monitored.set(&[Arc::clone(upstream)]);
    let mut monitor = HealthMonitor::new(monitored);
    monitor.look();
    settle(&mut monitor);
    monitor
}

fn first(upstream: &Upstream) -> Arc<Endpoint> {
    Arc::clone(&upstream.members().endpoints[0])
}

/// As many requests as are too many.
/// Looks as often as it takes to find out what may rest.
fn settle(monitor: &mut HealthMonitor) {
    (0..2).for_each(|_| monitor.judge());
}

fn fail(upstream: &Upstream) {
    (0..5).for_each(|_| first(upstream).health.tally.note(Fared::Failed));
}

fn is_ejected(upstream: &Upstream) -> bool {
    first(upstream).health.has(Fact::Ejected)
}

/// Or many of them would cost a core, whatever is sent there.
#[test]
fn an_upstream_of_which_nothing_is_heard_rests_until_something_is() {
    let registry = Registry::default();
    for settings in ["", ", ejection: off", ", circuit_breaker: {per: endpoint}"] {
        let upstream = upstream(&registry, &format!("{TWO}{settings}"));
        let mut monitor = watching(&registry, &upstream);
        assert!(monitor.awake.is_empty(), "{settings}");
        first(&upstream).health.tally.note(Fared::Well { took: None });
        monitor.look();
        settle(&mut monitor);
        let is_counted = upstream.config().ejection.is_some();
        assert_eq!(!monitor.awake.is_empty(), is_counted, "{settings}: it is in its window");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_time_may_change_does_not_rest() {
    let is_awake = |settings: &str, happens: fn(&Upstream, &Monitored)| {
        let registry = Registry::default();
        let upstream = upstream(&registry, &format!("{TWO}{settings}"));
        let mut monitor = watching(&registry, &upstream);
        happens(&upstream, &monitor.monitored.clone());
        monitor.look();
        settle(&mut monitor);
        !monitor.awake.is_empty()
    };
    fn order(monitored: &Monitored, wish: Wish) {
        let (upstream, address) = ("u".to_owned(), "127.0.0.1:1".to_owned());
        monitored.order(Order { upstream, address, wish }).unwrap();
    }
    let local = LocalSet::new();
    let run = async {
        assert!(!is_awake("", |_, _| {}), "nothing has happened");
        assert!(is_awake(", health: tcp", |_, _| {}), "it is probed");
        assert!(is_awake("", |_, it| order(it, Wish::Drain(LONG))));
        assert!(is_awake("", |_, it| order(it, Wish::Eject(LONG))));
        assert!(!is_awake("", |_, it| order(it, Wish::Restore)));
        let breaker = ", circuit_breaker: {per: endpoint}";
        assert!(is_awake(breaker, |it, _| {
            it.breaking().unwrap().force(Some(&first(it)), Forced::Open, LONG);
        }));
        let breaker = ", circuit_breaker: {}";
        assert!(is_awake(breaker, |it, _| {
            it.breaking().unwrap().force(None, Forced::Closed, LONG);
        }));
        assert!(is_awake("", |it, _| fail(it)), "it is ejected");
    };
    local.run_until(run).await;
}

#[tokio::test(start_paused = true)]
async fn an_upstream_at_rest_is_judged_as_soon_as_too_many_requests_have_failed() {
    let registry = Registry::default();
    let upstream = upstream(&registry, TWO);
    let mut monitor = watching(&registry, &upstream);
    fail(&upstream);
    let alarm = Alarm::of(&registry);
    alarm.rang().await;
    assert!(!is_ejected(&upstream));
    monitor.look();
    assert!(is_ejected(&upstream));
}

/// What is counted at the moment at which it was let go.
#[test]
fn an_upstream_that_has_just_been_heard_of_does_not_rest() {
    let registry = Registry::default();
    let upstream = upstream(&registry, TWO);
    let mut monitor = watching(&registry, &upstream);
    upstream.signals.ring();
    monitor.look();
    monitor.judge();
    assert!(!monitor.awake.is_empty(), "one look is not enough");
    first(&upstream).health.tally.note(Fared::Well { took: None });
    monitor.judge();
    assert!(!monitor.awake.is_empty(), "it is in its window");
}

/// What stays keeps what is known of it, and what is new is watched.
#[test]
fn endpoints_that_change_while_an_upstream_rests_are_watched() {
    let registry = Registry::default();
    let upstream = upstream(&registry, TWO);
    let mut monitor = watching(&registry, &upstream);
    let mut places = upstream.members().places.clone();
    places.remove(0);
    upstream.set_places(places);
    monitor.look();
    assert_eq!(monitor.upstreams["u"].endpoints(), 1);
}

#[test]
fn orders_that_wait_are_bounded() {
    let registry = Registry::default();
    let upstream = upstream(&registry, "endpoints: '127.0.0.1:1'");
    let monitored = Monitored::new(&registry);
    monitored.set(&[upstream]);
    let order = |address: &str| {
        let (upstream, address) = ("u".to_owned(), address.to_owned());
        monitored.order(Order { upstream, address, wish: Wish::Restore })
    };
    (0..MOST_ORDERS).for_each(|_| order("127.0.0.1:1").unwrap());
    assert_eq!(order("127.0.0.1:1"), Err(NotOrdered::TooMany));
    assert_eq!(order("127.0.0.1:2"), Err(NotOrdered::Unknown), "whether there is room or not");
    assert_eq!(monitored.take_orders().len(), MOST_ORDERS);
    order("127.0.0.1:1").unwrap();
}

/// However many endpoints there are before it.
#[tokio::test(start_paused = true)]
async fn every_endpoint_has_its_turn_when_too_many_are_due() {
    const ENDPOINTS: usize = 4;
    LocalSet::new()
        .run_until(async {
            let registry = Registry::default();
            let endpoints: Vec<_> =
                (1..=ENDPOINTS).map(|last| format!("'127.0.0.1:{last}'")).collect();
            let settings = format!(
                "endpoints: [{}], health: {{probe: tcp, initial: unhealthy, unhealthy_interval: 1s}}",
                endpoints.join(", ")
            );
            let upstream = upstream(&registry, &settings);
            let monitored = Monitored::new(&registry);
            monitored.set(&[upstream]);
            let mut monitor = HealthMonitor::new(monitored);
            let (waits, mut probed) = (|| std::future::pending(), vec![0; ENDPOINTS]);
            (1..MOST_PROBES).for_each(|_| drop(monitor.probes.spawn_local(waits())));
            for round in 0..3 * ENDPOINTS as u64 {
                monitor.look();
                assert_eq!(monitor.probes.len(), MOST_PROBES);
                let (asked, _) = monitor.probes.join_next().await.unwrap().unwrap();
                probed[asked.place] += 1;
                let watched = monitor.upstreams.get_mut("u").unwrap();
                watched.note_probe(&asked, Err("refused".to_owned().into()), mix(round));
                // By then the first ones are due again.
                advance(Duration::from_millis(1200)).await;
            }
            assert_eq!(probed, [3; ENDPOINTS]);
        })
        .await;
}
