//! Tests of the order in which endpoints are tried, one after the other and beside each other.

use super::*;
use crate::breaker::Forced;
use crate::health::Fact;
use crate::members::KnownMembers;
use std::thread;
use titan_http::Fields;
use titan_io::registry::Registry;

fn upstream(settings: &str) -> Arc<Upstream> {
    let text =
        format!("listeners: [':0']\nroutes: [{{upstream: u}}]\nupstreams: {{u: {{{settings}}}}}");
    let config = titan_config::Config::parse("test", &text).unwrap_or_else(|bad| panic!("{bad}"));
    Upstream::of(&config.upstreams[0], &config.resolver, None, (&Registry::default(), 1))
}

fn attempts(upstream: &Arc<Upstream>) -> Attempts {
    let members = KnownMembers::default().get(0, upstream, Instant::now());
    let fields = Fields::default();
    Attempts::new(upstream, members, &KeySource { fields: &fields, query: None, client: None })
}

fn next(attempts: &mut Attempts) -> Result<AdmittedAttempt, Kind> {
    attempts.next(0, Instant::now())
}

fn next_beside(attempts: &mut Attempts) -> Option<AdmittedAttempt> {
    attempts.next_beside(0, Instant::now(), || true)
}

#[test]
fn one_beside_another_goes_to_an_endpoint_that_was_not_tried() {
    for balance in ["round_robin", "random", "{ consistent_hash: { header: x-key } }"] {
        let endpoints = "endpoints: ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80']";
        let upstream = upstream(&format!("{endpoints}, balance: {balance}"));
        let mut attempts = attempts(&upstream);
        let mut places = vec![next(&mut attempts).unwrap().chosen];
        places.extend((0..2).map(|_| next_beside(&mut attempts).unwrap().chosen));
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2], "{balance}");
        assert!(next_beside(&mut attempts).is_none(), "{balance}");
        assert!(next(&mut attempts).is_ok(), "{balance}: a retry may go to the same again");
    }
}

#[test]
fn one_beside_another_stays_in_its_group() {
    let upstream = upstream(
        "endpoints: ['10.0.0.1:80', { address: '10.0.0.2:80', priority: 1 }, \
         { address: '10.0.0.3:80', priority: 1 }]",
    );
    let mut attempts = attempts(&upstream);
    assert_eq!(next(&mut attempts).unwrap().chosen, 0);
    assert!(next_beside(&mut attempts).is_none());
    assert_ne!(next(&mut attempts).unwrap().chosen, 0, "a retry goes on to the next group");
}

#[test]
fn a_request_that_has_waited_goes_by_what_was_decided_meanwhile() {
    let upstream = upstream("endpoints: ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80']");
    let known = KnownMembers::default();
    let get = || known.get(0, &upstream, Instant::now());
    let mut attempts = attempts(&upstream);
    let tried = next(&mut attempts).unwrap().chosen;
    let others: Vec<_> = (0..3).filter(|place| *place != tried).collect();
    let ejected = Arc::clone(&upstream.members().endpoints[others[0]]);
    ejected.health.decide(Fact::EjectedByHand, true, &"a test wants it");
    attempts.renew(get());
    assert_eq!(next(&mut attempts).unwrap().chosen, others[1]);
    assert_eq!(next(&mut attempts).unwrap().chosen, tried, "again, where there is no other");
}

#[test]
fn what_is_not_paid_for_leaves_no_trace() {
    let upstream = upstream("endpoints: ['10.0.0.1:80', '10.0.0.2:80']");
    let mut attempts = attempts(&upstream);
    let first = next(&mut attempts).unwrap().chosen;
    assert!(attempts.next_beside(0, Instant::now(), || false).is_none());
    assert_eq!(attempts.count(), 1);
    assert_eq!(next(&mut attempts).unwrap().chosen, 1 - first);
    let pay = || unreachable!("there is no endpoint to pay for");
    assert!(attempts.next_beside(0, Instant::now(), pay).is_none());
}

#[test]
fn an_endpoint_whose_breaker_is_open_gets_none() {
    let endpoints = "endpoints: ['10.0.0.1:80', '10.0.0.2:80']";
    let upstream = upstream(&format!("{endpoints}, circuit_breaker: {{ per: endpoint }}"));
    let first = next(&mut attempts(&upstream)).unwrap().chosen;
    let other = Arc::clone(&upstream.members().endpoints[first]);
    let breaking = upstream.breaking().unwrap();
    assert!(breaking.force(Some(&other), Forced::Open, Duration::from_secs(3600)));
    let mut attempts = attempts(&upstream);
    assert_eq!(next(&mut attempts).unwrap().chosen, 1 - first);
    assert!(next_beside(&mut attempts).is_none());
    assert_eq!(attempts.retry_after(), None, "the request was not rejected");
}

#[test]
fn a_trial_of_a_half_open_breaker_has_nothing_beside_it() {
    let upstream = upstream(
        "endpoints: ['10.0.0.1:80', '10.0.0.2:80'], circuit_breaker: { consecutive_failures: 1, \
         open_time: 100ms, half_open_requests: 2 }",
    );
    let failed = next(&mut attempts(&upstream)).unwrap();
    assert!(!failed.is_trial());
    failed.note_end(Err(Kind::Closed));
    let mut first = attempts(&upstream);
    let trial = loop {
        match next(&mut first) {
            Ok(trial) => break trial,
            Err(kind) => assert_eq!(kind, Kind::CircuitOpen),
        }
        thread::yield_now();
    };
    assert!(trial.is_trial());
    assert!(next_beside(&mut first).is_none());
    let second = next(&mut attempts(&upstream));
    assert!(second.is_ok_and(|it| it.is_trial()), "its place is free");
}
