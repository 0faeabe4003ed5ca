//! Which requests pass: compared with a simple model, from many threads, and in a full table.

mod later;
mod leases;

use super::limiter::{CellRate, Charge, Count, Limiter, MAX_RATES, Verdict};
use super::table::{Debt, Table, WriterId};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const SECOND: u64 = 1_000_000_000;

fn rate(count: u64, window: u64, burst: u64) -> CellRate {
    let interval = window.div_ceil(count);
    CellRate { interval, tolerance: interval * burst }
}

fn limiter(rates: &[CellRate], concurrency: Option<u64>, capacity: usize) -> Limiter {
    Limiter::new([rates.into()].into(), concurrency, capacity)
}

/// A hash such as real ones are.
fn key(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0xD1B5_4A32_D192_ED03)
}

fn passes(limiter: &Limiter, number: u64, cost: u64, now: u64) -> bool {
    let outcome =
        limiter.take(key(number), Charge { cost, ..Charge::ONE }, WriterId::new(0), || now);
    matches!(outcome.verdict, Verdict::Passed { .. })
}

#[test]
fn a_burst_passes_at_once_and_then_one_for_each_interval() {
    let limiter = limiter(&[rate(10, SECOND, 3)], None, 64);
    let passed_at = |now: u64| (0..10).filter(|_| passes(&limiter, 1, 1, now)).count();
    assert_eq!(passed_at(0), 3);
    assert_eq!(passed_at(SECOND / 10 - 1), 0);
    assert_eq!(passed_at(SECOND / 10), 1);
    assert_eq!(passed_at(SECOND / 10 * 3), 2);
    assert_eq!(passed_at(SECOND * 9), 3);
}

#[test]
fn it_says_what_is_left_and_how_long_to_wait() {
    let limiter = limiter(&[rate(10, SECOND, 4), rate(20, 60 * SECOND, 20)], None, 64);
    let take = |cost, now: u64| {
        limiter.take(key(1), Charge { cost, ..Charge::ONE }, WriterId::new(0), || now)
    };
    let outcome = take(3, 0);
    assert_eq!(outcome.counts[0], Count { left: 1, reset: 3 * SECOND / 10, wait: 0 });
    assert_eq!(outcome.counts[1], Count { left: 17, reset: 9 * SECOND, wait: 0 });
    let refused = take(2, 0);
    assert_eq!(refused.verdict, Verdict::Exceeded { wait: SECOND / 10 });
    assert_eq!(refused.counts[0].wait, SECOND / 10);
    assert_eq!(refused.counts[1], Count { left: 17, reset: 9 * SECOND, wait: 0 });
    assert!(matches!(take(2, SECOND / 10).verdict, Verdict::Passed { .. }));
}

#[test]
fn a_request_that_may_wait_waits_for_its_turn() {
    let limiter = limiter(&[rate(10, SECOND, 2), rate(20, 60 * SECOND, 20)], None, 64);
    let take = |max_delay: u64, now: u64| {
        limiter.take(key(1), Charge { max_delay, ..Charge::ONE }, WriterId::new(0), || now).verdict
    };
    let delays: Vec<_> = std::iter::repeat_with(|| take(millis(250), 0))
        .map_while(|verdict| match verdict {
            Verdict::Passed { delay, .. } => Some(delay),
            _ => None,
        })
        .collect();
    assert_eq!(delays, [0, 0, 100, 200].map(millis));
    // No request overtakes those that wait.
    assert_eq!(take(0, millis(50)), Verdict::Exceeded { wait: millis(250) });
    assert_eq!(take(millis(250), 0), Verdict::Exceeded { wait: millis(50) });
    assert!(
        matches!(take(millis(250), millis(50)), Verdict::Passed { delay, .. } if delay == millis(250))
    );
}

#[test]
fn what_has_happened_is_owed_though_it_fits_no_more() {
    const HOUR: u64 = 3600 * SECOND;
    let wait_after = |rate: CellRate, count: usize| {
        let limiter = limiter(&[rate], None, 64);
        (0..count).for_each(|_| limiter.owe(key(1), WriterId::new(0), || 0));
        limiter.wait(key(1), 0)
    };
    let fast = rate(10, SECOND, 3);
    assert_eq!([0, 2, 3, 8].map(|count| wait_after(fast, count)), [0, 0, 100, 600].map(millis));
    // As much as an hour has, or 32 requests if that is more.
    assert_eq!(wait_after(fast, 50_000), HOUR + millis(100));
    let slow = rate(1, 24 * HOUR, 1);
    assert_eq!([33, 34, 99].map(|count| wait_after(slow, count)), [33 * 24 * HOUR; 3]);
}

fn millis(count: u64) -> u64 {
    count * (SECOND / 1000)
}

#[test]
fn what_one_rate_refuses_takes_nothing_of_the_others() {
    let limiter = limiter(&[rate(2, SECOND, 2), rate(100, 60 * SECOND, 100)], None, 64);
    let take = || limiter.take(key(1), Charge::ONE, WriterId::new(0), || 0);
    let passed = (0..50).filter(|_| matches!(take().verdict, Verdict::Passed { .. })).count();
    assert_eq!(passed, 2);
    assert_eq!(take().counts[1].left, 98);
}

#[test]
fn as_many_run_as_allowed_whichever_worker_releases() {
    let limiter = limiter(&[], Some(2), 64);
    let take = |number| limiter.take(key(number), Charge::ONE, WriterId::new(0), || 0).verdict;
    let Verdict::Passed { place, .. } = take(1) else { panic!("none runs") };
    assert!(matches!(take(1), Verdict::Passed { .. }));
    assert_eq!(take(1), Verdict::Busy);
    assert!(matches!(take(2), Verdict::Passed { .. }));
    limiter.give_back(place);
    assert!(matches!(take(1), Verdict::Passed { .. }));
    assert_eq!(take(1), Verdict::Busy);
}

#[test]
fn keys_in_use_are_never_forgotten_and_others_make_room() {
    let limiter = limiter(&[rate(1, SECOND, 1)], None, 64);
    let known: Vec<u64> = (0..10_000).filter(|&it| passes(&limiter, it, 1, 0)).collect();
    assert!((64..=256).contains(&known.len()), "{} have room", known.len());
    let full = limiter.take(key(20_000), Charge::ONE, WriterId::new(0), || 0).verdict;
    assert!(!matches!(full, Verdict::Passed { .. }), "nobody else gets in");
    assert!(known.iter().all(|&it| !passes(&limiter, it, 1, SECOND - 1)), "they have passed");
    let later = (10_000..10_064).filter(|&it| passes(&limiter, it, 1, SECOND)).count();
    assert_eq!(later, 64, "there is room again");
}

#[test]
fn a_capacity_holds_that_many_keys() {
    let limiter = limiter(&[rate(1, SECOND, 1)], None, 4096);
    let refused = (0..4096).filter(|&it| !passes(&limiter, it, 1, 0)).count();
    assert!(refused <= 8, "{refused} of 4096 have no room");
}

#[test]
fn below_the_capacity_no_key_is_refused() {
    let limiter = limiter(&[rate(2, SECOND, 2)], None, 4096);
    assert_eq!((0..4096).filter(|&it| !passes(&limiter, it, 1, 0)).count(), 0);
}

/// A flood of keys that come once takes nothing away from clients that are known, nor for long from new ones.
#[test]
fn a_flood_of_keys_keeps_new_ones_out_no_longer_than_its_requests_count() {
    let limiter = limiter(&[rate(10, SECOND, 10)], None, 64);
    let busy = u64::MAX / 2;
    assert_eq!((0..20).filter(|_| passes(&limiter, busy, 1, 0)).count(), 10);
    let flood = (0..100_000).filter(|&it| passes(&limiter, it, 1, 0)).count();
    // As many as all entries together let through, and no more.
    assert!((640..=2560).contains(&flood), "{flood}");
    assert!(!passes(&limiter, busy, 1, 0), "it has had its burst");
    let refused = limiter.take(key(200_000), Charge::ONE, WriterId::new(0), || 0);
    assert_eq!(refused.verdict, Verdict::Full { wait: SECOND / 10 });
    assert_eq!(refused.counts[0], Count { left: 0, reset: SECOND, wait: SECOND / 10 });
    let later = (300_000..300_010).filter(|&it| passes(&limiter, it, 1, SECOND / 10)).count();
    assert!(later >= 9, "{later} of 10 new clients");
}

/// In a full table no failure may be free: a key without an entry waits as if it had taken one over.
#[test]
fn a_key_without_an_entry_in_a_full_table_waits_too() {
    let limiter = limiter(&[rate(1, SECOND, 1)], None, 64);
    let waits = |range: std::ops::Range<u64>, now: u64| {
        range.map(|it| limiter.wait(key(it), now)).collect::<Vec<_>>()
    };
    assert!(waits(0..100, 0).iter().all(|&wait| wait == 0), "nobody has failed");
    (0..10_000).for_each(|it| limiter.owe(key(it), WriterId::new(0), || 0));
    let full = waits(20_000..20_100, 0);
    assert!(full.iter().all(|&wait| wait >= SECOND), "{full:?}");
    // As soon as one of its set has nothing left to wait for.
    let longest = full.into_iter().max().unwrap();
    assert!(waits(20_000..20_100, longest).iter().all(|&wait| wait == 0));
}

/// A key that comes back to a full table has not gained by losing its entry.
#[test]
fn no_key_gains_by_being_evicted() {
    let rates = [rate(3, SECOND, 3), rate(20, 60 * SECOND, 7)];
    let (limiter, mut model) = (limiter(&rates, None, 64), Model::default());
    let mut now = 0;
    let mut number = 1_u64;
    for _ in 0..200_000 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        now += number >> 44;
        let it = (number >> 32) % 1000;
        if passes(&limiter, it, 1, now) {
            assert!(model.passes(&rates, it, 1, now), "key {it} at {now}");
        }
    }
}

/// The algorithm as one would write it down for one thread, in a map that grows.
#[derive(Default)]
struct Model {
    arrivals: HashMap<u64, Vec<u64>>,
}

impl Model {
    fn passes(&mut self, rates: &[CellRate], key: u64, cost: u64, now: u64) -> bool {
        let arrivals = self.arrivals.entry(key).or_insert_with(|| vec![0; rates.len()]);
        let next = rates.iter().zip(arrivals.iter());
        let next: Vec<u64> = next.map(|(rate, it)| (*it).max(now) + cost * rate.interval).collect();
        let fits = rates.iter().zip(&next).all(|(rate, it)| *it <= now + rate.tolerance);
        if fits {
            *arrivals = next;
        }
        fits
    }
}

proptest! {
    #[test]
    fn it_decides_as_the_model_does(
        rates in prop::collection::vec((1_u64..50, 1_u64..20, 1_u64..20), 1..=MAX_RATES),
        requests in prop::collection::vec((0_u64..40, 1_u64..4, 0_u64..SECOND), 1..400),
    ) {
        let rates: Vec<_> = rates.into_iter().map(|(n, s, b)| rate(n, s * SECOND, b)).collect();
        let (limiter, mut model) = (limiter(&rates, None, 64), Model::default());
        let mut now = 0;
        for (number, cost, pause) in requests {
            now += pause;
            let ours = passes(&limiter, number, cost, now);
            prop_assert_eq!(ours, model.passes(&rates, number, cost, now));
        }
    }
}

/// Threads that ask as fast as they can, while one clock goes on with each question.
#[test]
fn of_many_threads_exactly_the_burst_and_the_rate_pass() {
    const THREADS: usize = 64;
    const EACH: u64 = 4000;
    let rates = [rate(1000, SECOND, 50), rate(10_000, 60 * SECOND, 5_000)];
    let limiter = limiter(&rates, None, 64);
    let (clock, passed) = (AtomicU64::new(0), AtomicU64::new(0));
    let step = 10_000;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (limiter, clock, passed) = (&limiter, &clock, &passed);
            scope.spawn(move || {
                for _ in 0..EACH {
                    let now = || clock.fetch_add(step, Ordering::SeqCst);
                    let outcome = limiter.take(key(1), Charge::ONE, WriterId::new(thread), now);
                    let count = u64::from(matches!(outcome.verdict, Verdict::Passed { .. }));
                    passed.fetch_add(count, Ordering::SeqCst);
                }
            });
        }
    });
    let took = clock.load(Ordering::SeqCst);
    let expected = 50 + took / rates[0].interval;
    let passed = passed.load(Ordering::SeqCst);
    assert!(passed <= expected + 1, "{passed} of {expected}");
    assert!(passed * 100 >= expected * 98, "{passed} of {expected}");
}

/// All threads want entries of the same few sets, of more keys than have room, and each key has one request.
#[test]
fn of_many_threads_one_gets_what_is_there_once() {
    const THREADS: usize = 16;
    let limiter = limiter(&[rate(1, SECOND, 1)], None, 64);
    let clock = AtomicU64::new(0);
    for round in 0..200_u64 {
        let passed: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
        clock.store(round * 2 * SECOND, Ordering::SeqCst);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (limiter, clock, passed) = (&limiter, &clock, &passed);
                scope.spawn(move || {
                    for place in 0..passed.len() {
                        let place = (place + thread * 3) % passed.len();
                        let number = round * 1000 + place as u64;
                        let now = || clock.load(Ordering::SeqCst);
                        let outcome =
                            limiter.take(key(number), Charge::ONE, WriterId::new(thread), now);
                        let count = u64::from(matches!(outcome.verdict, Verdict::Passed { .. }));
                        passed[place].fetch_add(count, Ordering::SeqCst);
                    }
                });
            }
        });
        let counts: Vec<_> = passed.iter().map(|it| it.load(Ordering::SeqCst)).collect();
        assert!(counts.iter().all(|&count| count == 1), "round {round}: {counts:?}");
    }
}

#[test]
fn an_entry_is_found_again_by_its_key_alone() {
    let table = Table::new(64, 1);
    let find = |number| table.find(key(number), WriterId::new(0), |_| Debt::default(), |_| true);
    let place = |number| find(number).map(|slot| slot.place).ok();
    let places: Vec<_> = (0..32).map(|number| place(number).unwrap()).collect();
    assert!((0..32).all(|number| place(number) == Some(places[usize::try_from(number).unwrap()])));
    let mut unique = places;
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), 32);
}

#[test]
fn limiters_that_share_a_limit_let_their_parts_pass() {
    let shared = |limiter: &Limiter, share, now: u64| {
        let charge = Charge { share, ..Charge::ONE };
        let outcome = limiter.take(key(1), charge, WriterId::new(0), || now);
        (matches!(outcome.verdict, Verdict::Passed { .. }), outcome.counts[0].left)
    };
    let six = limiter(&[rate(10, SECOND, 6)], None, 64);
    assert_eq!([0, 0, 0].map(|now| shared(&six, 3, now)), [(true, 1), (true, 0), (false, 0)]);
    let tenth = SECOND / 10;
    assert_eq!(
        [2 * tenth, 3 * tenth, 3 * tenth].map(|it| shared(&six, 3, it).0),
        [false, true, false]
    );
    // A burst that there is no part of for each: one passes nevertheless, as seldom as the rate says.
    let one = limiter(&[rate(10, SECOND, 1)], None, 64);
    let times = [0, 1, 3 * tenth - 1, 3 * tenth, 6 * tenth - 1, 6 * tenth];
    assert_eq!(times.map(|it| shared(&one, 3, it).0), [true, false, false, true, false, true]);
    // A share that nobody can have is no reason to panic, nor to block a key for ever.
    let year = limiter(&[rate(1, SECOND * 86_400, 366)], None, 64);
    assert!(shared(&year, u64::MAX, 0).0);
    assert!(shared(&year, 1, 400 * 86_400 * SECOND).0);
}
