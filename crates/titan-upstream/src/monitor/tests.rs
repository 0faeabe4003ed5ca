//! Tests of whose turn it is to be probed.

use super::*;
use crate::balance::mix;
use titan_config::Config;
use tokio::task::LocalSet;
use tokio::time::advance;

#[test]
fn orders_that_wait_are_bounded() {
    let registry = Registry::default();
    let text =
        "listeners: [':0']\nroutes: [{upstream: u}]\nupstreams: {u: {endpoints: '127.0.0.1:1'}}";
    let config = Config::parse("test", text).unwrap_or_else(|report| panic!("{report}"));
    let upstream = Upstream::of(&config.upstreams[0], &config.resolver, None, (&registry, 1));
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
            let text = format!(
                "listeners: [':0']\nroutes: [{{upstream: u}}]\nupstreams: {{u: {{endpoints: [{}],
                 health: {{probe: tcp, initial: unhealthy, unhealthy_interval: 1s}}}}}}",
                endpoints.join(", ")
            );
            let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
            let upstream =
                Upstream::of(&config.upstreams[0], &config.resolver, None, (&registry, 1));
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
