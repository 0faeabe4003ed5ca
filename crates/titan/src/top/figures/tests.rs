//! Figures of readings that are written here as a gateway writes them.

use super::*;
use crate::top::tests::{now, reading, readings};
use std::time::Instant;

/// What follows from two texts, some seconds apart.
fn figures(before: &str, after: &str, seconds: u64) -> Figures {
    let start = Instant::now();
    let before = reading(before, None, start);
    Figures::of(&reading(after, None, start + Duration::from_secs(seconds)), Some(&before))
}

#[test]
fn rates_are_a_second() {
    let [before, after] = readings();
    let figures = Figures::of(&after, Some(&before));
    let Traffic { requests, classes, errors, durations, received, sent } = &figures.all;
    assert_eq!(*requests, Some(1242.0));
    assert_eq!(classes[..5], [1230.0, 0.0, 10.0, 2.0, 0.0].map(Some));
    assert_eq!(*errors, Some(2.0 / 1242.0));
    assert_eq!((*received, *sent), (Some(512_000.0), Some(3_145_728.0)));
    let shop = &figures.routes.iter().find(|(name, _)| name == "shop").unwrap().1;
    assert_eq!((shop.requests, shop.sent, shop.received), (Some(1242.0), Some(3e6), None));
    assert_eq!(durations, &shop.durations);
    assert_eq!(durations.quantile(0.99), Some(Quantile::Over(10.0)));
    assert_eq!(figures.failures, [("upstream-timeout".to_owned(), 2.0)]);
    let twice = figures_of_longer(&before, &after);
    assert_eq!(twice.all.requests, Some(621.0));
}

fn figures_of_longer(before: &Reading, after: &Reading) -> Figures {
    let after = Reading { at: before.at + Duration::from_secs(2), ..after.clone() };
    Figures::of(&after, Some(before))
}

#[test]
fn the_first_reading_has_gauges_and_no_rates() {
    let figures = Figures::of(&readings()[1], None);
    assert_eq!((figures.all.requests, figures.attempts.attempts), (None, None));
    assert_eq!(figures.all.durations.quantile(0.5), None);
    assert_eq!(figures.clients.connections, Some(16.0));
    assert_eq!(figures.workers[1].1.lag, Some(0.12));
    assert_eq!(figures.uptime, Some(Duration::from_secs(100_000)));
}

#[test]
fn a_process_that_began_again_shows_no_rate() {
    let text = |start: u32, count: u32| {
        format!(
            "titan_process_start_time_seconds {start}\ntitan_requests_total{{route=\"a\",class=\"2xx\"}} {count}\n\
             titan_received_bytes_total{{worker=\"0\"}} {count}\n"
        )
    };
    let rates = |figures: &Figures| (figures.all.requests, figures.all.received);
    let same = figures(&text(1, 10), &text(1, 30), 1);
    assert_eq!((rates(&same), same.is_restarted), ((Some(20.0), Some(20.0)), false));
    // Its counts may be higher already.
    for count in [5, 30_000_000] {
        let other = figures(&text(1, 10), &text(2, count), 1);
        assert_eq!((rates(&other), other.is_restarted), ((None, None), true));
    }
    // One count alone that is smaller: what was added up under one name has its own again.
    assert_eq!(rates(&figures(&text(1, 10), &text(1, 5), 1)), (None, None));
}

#[test]
fn what_was_not_there_before_has_no_rate_yet() {
    let a = "titan_requests_total{route=\"a\",class=\"2xx\"} 10\n";
    let both = format!("{a}titan_requests_total{{route=\"b\",class=\"2xx\"}} 1000000\n");
    let figures = figures(a, &both, 1);
    assert_eq!(figures.routes[1].1.requests, None);
    assert_eq!(figures.all.requests, Some(0.0));
}

#[test]
fn endpoints_have_their_states_and_rates() {
    let [before, after] = readings();
    let figures = Figures::of(&after, Some(&before));
    let names: Vec<_> = figures.upstreams.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["idle", "shop"]);
    let shop = &figures.upstreams[1];
    let breaker = shop.breaker.as_ref().unwrap();
    assert_eq!((breaker.name.as_str(), breaker.lasted), ("open", Some(Duration::from_secs(30))));
    let [good, ejected] = &shop.endpoints[..] else { panic!() };
    assert_eq!((good.requests, good.errors), (Some(200.0), Some(1.0 / 200.0)));
    assert!(good.state.is_good() && !ejected.state.is_good());
    let State { lasted, left, .. } = &ejected.state;
    assert_eq!((*lasted, *left), (Some(Duration::from_secs(120)), Some(Duration::from_secs(300))));
    assert_eq!(shop.attempts.errors, Some(10.0 / 1250.0));
    assert_eq!(shop.attempts.retries, Some(8.0));
    assert_eq!(figures.attempts.attempts, Some(1250.0));
}

#[test]
fn without_the_listing_metrics_tell_which_endpoints_there_are() {
    let text = "titan_upstream_requests_total{upstream=\"u\"} 1\n\
        titan_endpoint_healthy{upstream=\"u\",endpoint=\"a:1\"} 0\n\
        titan_endpoint_healthy{upstream=\"u\",endpoint=\"b:1\"} 1\n\
        titan_endpoint_requests_active{upstream=\"u\",endpoint=\"b:1\"} 3\n";
    let figures = figures(text, text, 1);
    assert!(!figures.has_states);
    let [a, b] = &figures.upstreams[0].endpoints[..] else { panic!() };
    assert_eq!((a.state.name.as_str(), b.state.name.as_str()), ("not healthy", "healthy"));
    assert_eq!(b.active, Some(3.0));
}

#[test]
fn clocks_of_two_machines_may_differ() {
    let endpoint = Endpoint {
        state: "ejected".to_owned(),
        since: Some("2027-01-15T08:00:09Z".to_owned()),
        ..Endpoint::default()
    };
    assert_eq!(State::of_endpoint(&endpoint, now()).lasted, Some(Duration::ZERO));
    let endpoint = Endpoint { since: Some("yesterday".to_owned()), ..endpoint };
    assert_eq!(State::of_endpoint(&endpoint, now()).lasted, None);
}

#[test]
fn a_gateway_that_says_nothing_has_no_figures() {
    let figures = figures("", "", 1);
    assert_eq!((figures.all.requests, figures.all.errors), (None, None));
    assert_eq!((figures.configuration.is_successful, figures.pressure.level), (None, None));
}
