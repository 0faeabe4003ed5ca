//! Which requests are served by permits that were taken ahead, when these are taken, and when given back.

use super::{SECOND, key, millis, rate};
use crate::rate_limit::lease::{Grant, Leases, Renewal, Served};
use crate::rate_limit::limiter::{CellRate, Charge, Count, Verdict};
use crate::rate_limit::table::WriterId;

/// A limit of that rate, over one gateway.
struct Trial(Leases);

impl Trial {
    fn of(rates: &[CellRate]) -> Trial {
        Trial(Leases::new([rates.into()].into(), 64))
    }

    fn serve(&self, number: u64, now: u64) -> Served {
        self.0.serve((key(number), false), Charge::ONE, 1, WriterId::new(0), now)
    }

    /// Requests until one asks for a batch, which comes at once.
    fn renew(&self, number: u64, now: u64) -> Renewal {
        let renewal = (0..1_000).find_map(|_| self.serve(number, now).renewal).unwrap();
        let grant = Grant { permits: renewal.asked, ..Grant::default() };
        self.0.granted(renewal, &grant, now);
        renewal
    }

    fn passes(&self, number: u64, now: u64) -> bool {
        let verdict = self.serve(number, now).outcome.map(|it| it.verdict);
        matches!(verdict, Some(Verdict::Passed { .. }))
    }
}

fn fast() -> Trial {
    Trial::of(&[rate(1000, SECOND, 1000)])
}

#[test]
fn a_rare_key_always_asks_the_store() {
    let trial = fast();
    for request in 0..1_000 {
        let served = trial.serve(1, request * millis(26));
        assert_eq!(served, Served { outcome: None, renewal: None }, "request {request}");
    }
}

#[test]
fn a_limit_with_few_permits_always_asks_the_store() {
    for few in [rate(30, SECOND, 70), rate(1000, SECOND, 7)] {
        let trial = Trial::of(&[rate(1000, SECOND, 1000), few]);
        assert!((0..100).all(|_| trial.serve(1, 0) == Served { outcome: None, renewal: None }));
    }
}

#[test]
fn a_busy_key_takes_ever_more_ahead_and_no_more_than_it_may() {
    let trial = fast();
    let mut taken = Vec::new();
    for step in 0..8 {
        let now = millis(100) + step * millis(3);
        taken.push(trial.renew(1, now).asked);
        // None waits for the next batch: half of this one is left when it is taken.
        assert!(trial.passes(1, now));
    }
    // Twice what it was, from half of it on, until it is as much as may be.
    assert_eq!(taken, [4, 6, 12, 24, 48, 68, 50, 50]);
    assert_eq!([1, 2, 3, 10].map(|gateways| trial.0.most(0, gateways)), [100, 100, 100, 50]);
    let slow = Trial::of(&[rate(1, SECOND, 1000)]);
    assert_eq!([1, 2].map(|gateways| slow.0.most(0, gateways)), [50, 25]);
}

#[test]
fn one_batch_is_taken_at_a_time() {
    let trial = fast();
    let renewals: Vec<_> = (0..100).filter_map(|_| trial.serve(1, 0).renewal).collect();
    assert_eq!(renewals.len(), 1);
    trial.0.end(renewals[0]);
    assert!(trial.serve(1, millis(1)).renewal.is_none(), "too soon");
    assert!(trial.serve(1, millis(2)).renewal.is_some());
}

#[test]
fn what_is_not_used_in_its_time_is_given_back_once() {
    let trial = fast();
    let renewal = trial.renew(1, 0);
    assert_eq!(trial.0.lasts(renewal.key, millis(30)), Some(millis(70)));
    assert_eq!(trial.0.reclaim(renewal.key, false, millis(99)), Some(0));
    assert!(trial.passes(1, millis(99)));
    assert!(!trial.passes(1, millis(100)));
    assert_eq!(trial.0.reclaim(renewal.key, false, millis(100)), Some(3));
    assert_eq!(trial.0.reclaim(renewal.key, true, millis(100)), None, "it is on its way back");
    assert!((0..100).all(|_| trial.serve(1, millis(100)).renewal.is_none()), "as long as it is");
    trial.0.given_back(renewal.key);
    assert_eq!(trial.0.reclaim(renewal.key, true, millis(100)), Some(0));
    assert_eq!(trial.0.lasts(renewal.key, millis(100)), None);
    let again = trial.renew(1, millis(300));
    assert_eq!(trial.0.reclaim(again.key, true, millis(300)), Some(again.asked), "in a drain");
}

#[test]
fn what_the_store_has_refused_is_not_asked_again() {
    let trial = fast();
    let renewal = (0..1_000).find_map(|_| trial.serve(1, 0).renewal).unwrap();
    let owed = [SECOND, 0, 0, 0];
    trial.0.granted(renewal, &Grant { permits: 0, wait: millis(1), owed }, 0);
    let refused = trial.serve(1, millis(3)).outcome.unwrap();
    assert_eq!(refused.verdict, Verdict::Exceeded { wait: millis(7) });
    assert_eq!(refused.counts[0], Count { left: 3, reset: millis(997), wait: 0 });
    assert_eq!(trial.serve(2, 0).outcome, None, "it is another key's");
    assert_eq!(trial.serve(1, millis(10)).outcome, None);
    // One that a request was told is only about those that do not fit.
    let grant = Grant { permits: 0, wait: millis(400), owed: [SECOND, 0, 0, 0] };
    trial.0.note_refused(key(2), &grant, WriterId::new(0), 0);
    assert_eq!(trial.serve(2, 0).outcome, None, "it is rare");
    let renewal = (0..10).find_map(|_| trial.serve(2, 0).renewal).unwrap();
    trial.0.note_refused(key(2), &grant, WriterId::new(0), 0);
    assert_eq!(trial.serve(2, 0).outcome, None, "the batch that is taken says more");
    trial.0.end(renewal);
    trial.0.note_refused(key(2), &grant, WriterId::new(0), 0);
    let refused = trial.serve(2, 0).outcome.map(|it| it.verdict);
    assert_eq!(refused, Some(Verdict::Exceeded { wait: millis(1) }));
    assert_eq!(trial.serve(2, millis(2)).outcome, None, "it may fit by then");
}

#[test]
fn a_burst_that_comes_back_soon_is_asked_for_soon() {
    // Of 2 ms: within the usual pause five bursts would come back, and four of them be lost.
    let trial = Trial::of(&[rate(10_000, SECOND, 20)]);
    let renewal = (0..1_000).find_map(|_| trial.serve(1, 0).renewal).unwrap();
    let owed = [millis(2), 0, 0, 0];
    trial.0.granted(renewal, &Grant { permits: 0, wait: millis(1) / 10, owed }, 0);
    let refused = trial.serve(1, millis(1) / 2).outcome.map(|it| it.verdict);
    assert_eq!(refused, Some(Verdict::Exceeded { wait: millis(1) / 2 }));
    assert_eq!(trial.serve(1, millis(1)).outcome, None);
}

#[test]
fn what_is_given_back_goes_by_the_last_batch() {
    let trial = Trial::of(&[rate(1000, SECOND, 1000), rate(100_000, SECOND, 100_000)]);
    let mut last = None;
    for (now, owed) in [(0, [10, 20, 0, 0]), (millis(3), [30, 50, 0, 0])] {
        let renewal = (0..1_000).find_map(|_| trial.serve(1, now).renewal).unwrap();
        trial.0.granted(renewal, &Grant { permits: renewal.asked, wait: 0, owed }, now);
        last = Some(renewal);
    }
    let key = last.unwrap().key;
    // What the store says of others is nothing that this key has charged.
    let refused = Grant { permits: 0, wait: 1, owed: [SECOND; 4] };
    let others = (0..1_000).find_map(|_| trial.serve(1, millis(6)).renewal).unwrap();
    trial.0.granted(others, &refused, millis(6));
    assert_eq!(trial.0.charged(key), [millis(3) + 30, millis(3) + 50, 0, 0]);
}

#[test]
fn a_request_that_is_asked_about_again_makes_its_key_no_busier() {
    let trial = fast();
    let again = |now| trial.0.serve((key(1), true), Charge::ONE, 1, WriterId::new(0), now).renewal;
    assert!(trial.serve(1, 0).renewal.is_none());
    assert!((0..100).all(|_| again(0).is_none()));
    assert!((0..10).any(|_| trial.serve(1, 0).renewal.is_some()));
}

#[test]
fn many_busy_keys_keep_their_entries() {
    let trial = fast();
    let renewals: Vec<_> = (0..60).map(|number| trial.renew(number, 0)).collect();
    assert_eq!(renewals.len(), 60);
    let once = (1_000..50_000).filter(|number| trial.serve(*number, millis(1)).outcome.is_none());
    assert_eq!(once.count(), 49_000, "others come once, and ask the store");
    let kept = (0..60).filter(|number| trial.passes(*number, millis(1))).count();
    assert_eq!(kept, 60);
}

#[test]
fn nothing_is_taken_ahead_for_requests_that_it_cannot_serve() {
    let trial = fast();
    let most = trial.0.most(0, 1);
    let serve = |cost: u64| {
        let charge = Charge { cost, ..Charge::ONE };
        (0..50).any(|_| {
            trial.0.serve((key(cost), false), charge, 1, WriterId::new(0), 0).renewal.is_some()
        })
    };
    assert!(serve(most));
    assert!(!serve(most + 1));
}
