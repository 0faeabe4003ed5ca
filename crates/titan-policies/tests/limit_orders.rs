//! The limiter under many orders of events: the same source over atomics that give way to other threads.
//!
//! There is one set of two slots, so that keys get into each other's way.

#![allow(unreachable_pub, dead_code, reason = "the source is that of a module of the library")]

#[path = "../src/rate_limit/lease.rs"]
mod lease;
#[path = "../src/rate_limit/limiter.rs"]
mod limiter;
#[path = "../src/rate_limit/table.rs"]
mod table;

/// What the limiter is built on here.
mod sync {
    pub(super) use shuttle::sync::atomic::{AtomicU64, Ordering};

    pub(super) const WAYS: usize = 2;
}

use lease::{Grant, LEASE, LeaseKey, Leases};
use limiter::{CellRate, Charge, Limiter, Verdict};
use shuttle::thread;
use std::sync::Arc;
use sync::{AtomicU64, Ordering};
use table::WriterId;

/// Keys whose entries are in the one set.
const KEYS: [u64; 4] = [1 << 20, 5 << 20, 9 << 20, 13 << 20];

fn limiter(bursts: &[u64], concurrency: Option<u64>) -> Arc<Limiter> {
    let rates = bursts.iter().map(|burst| CellRate { interval: 100, tolerance: 100 * burst });
    Arc::new(Limiter::new([rates.collect()].into(), concurrency, 0))
}

fn passes(limiter: &Limiter, key: usize, writer: usize, now: u64) -> bool {
    let outcome = limiter.take(KEYS[key], Charge::ONE, WriterId::new(writer), || now);
    matches!(outcome.verdict, Verdict::Passed { .. })
}

/// How many orders of each kind are tried: `TITAN_ORDERS`, or a few.
fn orders() -> usize {
    std::env::var("TITAN_ORDERS").ok().and_then(|it| it.parse().ok()).unwrap_or(1_000)
}

/// Runs it in many orders, most of them such as schedulers seldom make.
fn in_many_orders(run: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(run.clone(), orders());
    shuttle::check_pct(run, orders(), 4);
}

/// Each thread takes these keys one after the other; returns how many passed of each key.
fn race(limiter: &Arc<Limiter>, threads: &[&'static [usize]], now: u64) -> [u64; KEYS.len()] {
    let threads: Vec<_> = threads
        .iter()
        .enumerate()
        .map(|(writer, keys)| {
            let (limiter, keys) = (Arc::clone(limiter), *keys);
            thread::spawn(move || {
                let passed = |key: &&usize| passes(&limiter, **key, writer, now);
                keys.iter().filter(passed).copied().collect::<Vec<_>>()
            })
        })
        .collect();
    let mut counts = [0; KEYS.len()];
    for thread in threads {
        thread.join().expect("it does not panic").into_iter().for_each(|key| counts[key] += 1);
    }
    counts
}

#[test]
fn a_new_key_gets_one_entry_whichever_thread_is_first() {
    in_many_orders(|| {
        let limiter = limiter(&[1], None);
        assert_eq!(race(&limiter, &[&[0], &[0], &[0, 0]], 0)[0], 1);
    });
}

#[test]
fn two_new_keys_get_no_more_than_an_entry_each() {
    in_many_orders(|| {
        let limiter = limiter(&[1], None);
        let counts = race(&limiter, &[&[0, 1], &[1, 0], &[0]], 0);
        // In a full set a key may be refused because of another whose request has not gone elsewhere yet.
        assert!([[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]].contains(&counts), "{counts:?}");
    });
}

/// Two entries are unused; their keys and others want them at the same moment.
#[test]
fn an_entry_is_never_taken_from_a_key_that_has_just_used_it() {
    in_many_orders(|| {
        let limiter = limiter(&[1], None);
        assert!(passes(&limiter, 0, 9, 0) && passes(&limiter, 1, 9, 0));
        let now = 200;
        let counts = race(&limiter, &[&[0], &[2], &[2, 0], &[3, 1]], now);
        assert!(counts.iter().all(|&count| count <= 1), "{counts:?}");
        assert!((1..=2).contains(&counts.iter().sum::<u64>()), "{counts:?}");
        for (key, count) in counts.into_iter().enumerate() {
            assert!(!passes(&limiter, key, 9, now), "key {key} had {count}");
        }
    });
}

/// More keys than entries, each with a burst: they take over what others owe. All together get no more than all entries
/// let through, and one key no more than its own burst and the charges that are being undone at that moment.
#[test]
fn keys_that_push_each_other_out_get_no_more_than_their_bursts() {
    in_many_orders(|| {
        let limiter = limiter(&[3], None);
        let threads: [&'static [usize]; 3] = [&[0, 1, 0], &[2, 0, 2], &[3, 0, 1, 0]];
        let counts = race(&limiter, &threads, 0);
        assert!(counts.iter().sum::<u64>() <= 6, "{counts:?}");
        for (key, count) in counts.into_iter().enumerate() {
            let more = (0..5).filter(|_| passes(&limiter, key, 9, 0)).count() as u64;
            assert!(count + more <= 3 + 2, "key {key} had {count} and gets {more} more");
        }
    });
}

/// Of a key that has its entry nothing of what has happened is lost, in whatever order it is counted.
#[test]
fn what_many_owe_at_once_is_owed_in_full() {
    in_many_orders(|| {
        let limiter = limiter(&[1], None);
        limiter.owe(KEYS[0], WriterId::new(9), || 0);
        let threads: Vec<_> = (0..3)
            .map(|writer| {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || {
                    (0..2).for_each(|_| limiter.owe(KEYS[0], WriterId::new(writer), || 0));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        assert_eq!(limiter.wait(KEYS[0], 0), 700);
    });
}

/// Debts of keys that evict each other stay in the table: no entry is left that owes nothing.
#[test]
fn what_more_keys_than_entries_owe_is_owed_by_all() {
    in_many_orders(|| {
        let limiter = limiter(&[1], None);
        let threads: Vec<_> = (0..4)
            .map(|writer| {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || limiter.owe(KEYS[writer], WriterId::new(writer), || 0))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        assert!((0..KEYS.len()).all(|key| !passes(&limiter, key, 9, 0)));
    });
}

#[test]
fn what_several_rates_allow_passes_and_no_more() {
    in_many_orders(|| {
        let limiter = limiter(&[3, 2], None);
        assert_eq!(race(&limiter, &[&[0, 0], &[0], &[0, 0]], 0)[0], 2);
        // What was refused has taken nothing of the first rate: after an interval there is one of each left.
        assert!(passes(&limiter, 0, 9, 100) && !passes(&limiter, 0, 9, 100));
        assert!(passes(&limiter, 0, 9, 300) && passes(&limiter, 0, 9, 300));
    });
}

/// Of a key that has its entry each request that waits has a turn of its own, in whatever order they come.
#[test]
fn no_two_have_the_same_turn() {
    in_many_orders(|| {
        let limiter = limiter(&[1], None);
        assert!(passes(&limiter, 0, 9, 0));
        let threads: Vec<_> = (0..4)
            .map(|writer| {
                let limiter = Arc::clone(&limiter);
                thread::spawn(move || {
                    let charge = Charge { max_delay: 300, ..Charge::ONE };
                    match limiter.take(KEYS[0], charge, WriterId::new(writer), || 0).verdict {
                        Verdict::Passed { delay, .. } => Some(delay),
                        _ => None,
                    }
                })
            })
            .collect();
        let turns = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        let mut turns: Vec<_> = turns.collect();
        turns.sort_unstable();
        assert_eq!(turns, [None, Some(100), Some(200), Some(300)]);
    });
}

#[test]
fn no_more_run_at_once_than_may() {
    in_many_orders(|| {
        let limiter = limiter(&[], Some(1));
        let running = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..4)
            .map(|writer| {
                let (limiter, running) = (Arc::clone(&limiter), Arc::clone(&running));
                thread::spawn(move || {
                    let key = KEYS[if writer == 3 { 1 } else { 0 }];
                    let outcome = limiter.take(key, Charge::ONE, WriterId::new(writer), || 0);
                    let Verdict::Passed { place, .. } = outcome.verdict else { return };
                    if key == KEYS[0] {
                        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                        running.fetch_sub(1, Ordering::SeqCst);
                    }
                    limiter.give_back(place);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        for key in KEYS {
            let outcome = limiter.take(key, Charge::ONE, WriterId::new(9), || 0);
            let Verdict::Passed { place, .. } = outcome.verdict else { panic!("none runs") };
            limiter.give_back(place);
        }
    });
}

/// What the store has given for a key, and what was used of it.
#[derive(Default)]
struct Permits {
    granted: u64,
    used: u64,
    given_back: u64,
}

/// Requests of these keys one after the other, with a store that gives whatever is asked for at once.
fn requests(
    leases: &Leases,
    keys: &[usize],
    writer: usize,
) -> ([Permits; 4], Vec<(usize, LeaseKey)>) {
    let (mut permits, mut taken) = (<[Permits; 4]>::default(), Vec::new());
    for &key in keys {
        let served = leases.serve((KEYS[key], false), Charge::ONE, 1, WriterId::new(writer), 0);
        permits[key].used += u64::from(served.outcome.is_some());
        if let Some(renewal) = served.renewal {
            permits[key].granted += renewal.asked;
            let grant = Grant { permits: renewal.asked, ..Grant::default() };
            leases.granted(renewal, &grant, 0);
            taken.push((key, renewal.key));
            let back = leases.reclaim(renewal.key, key == 1, 0).unwrap_or(0);
            if back > 0 {
                permits[key].given_back += back;
                leases.given_back(renewal.key);
            }
        }
    }
    (permits, taken)
}

/// Three keys for two entries: none is served by permits of another, and none are used or given back twice.
#[test]
fn permits_are_used_or_given_back_once_by_the_key_that_has_them() {
    in_many_orders(|| {
        let rates = [CellRate { interval: 1_000_000, tolerance: 1_000_000_000 }];
        let leases = Arc::new(Leases::new([rates.into()].into(), 0));
        let threads: [&'static [usize]; 3] =
            [&[0, 0, 0, 0, 0, 1, 1], &[1, 1, 1, 1, 0, 2], &[2, 2, 2, 2, 2, 0]];
        let threads: Vec<_> = threads
            .into_iter()
            .enumerate()
            .map(|(writer, keys)| {
                let leases = Arc::clone(&leases);
                thread::spawn(move || requests(&leases, keys, writer))
            })
            .collect();
        let (mut sum, mut all) = (<[Permits; 4]>::default(), Vec::new());
        for thread in threads {
            let (permits, taken) = thread.join().expect("it does not panic");
            all.extend(taken);
            for (sum, one) in sum.iter_mut().zip(permits) {
                sum.granted += one.granted;
                sum.used += one.used;
                sum.given_back += one.given_back;
            }
        }
        for (key, lease) in all {
            let back = leases.reclaim(lease, false, 2 * LEASE).expect("all rest");
            if back > 0 {
                sum[key].given_back += back;
                leases.given_back(lease);
            }
        }
        for (key, Permits { granted, used, given_back }) in sum.iter().enumerate() {
            assert!(used + given_back <= *granted, "key {key}: {used}, {given_back} of {granted}");
        }
    });
}
