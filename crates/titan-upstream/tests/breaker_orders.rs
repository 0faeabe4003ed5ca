//! The breaker under many orders of events: the same source over atomics that give way to other threads.
//!
//! What two threads do at one moment is gone through in every order; what takes more steps, in many.

#![allow(unreachable_pub, dead_code, reason = "the source is that of a module of the library")]

#[path = "../src/breaker/machine.rs"]
mod machine;
#[path = "../src/breaker/thresholds.rs"]
mod thresholds;
#[path = "../src/breaker/window.rs"]
mod window;

/// What the breaker is built on here.
mod sync {
    pub(super) use shuttle::sync::atomic::{AtomicU64, Ordering};

    pub(super) const PARTS: usize = 2;
}

use machine::{Machine, State, Ticket, Transition};
use shuttle::thread;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;
use sync::{AtomicU64, Ordering};
use thresholds::{Outcome, Thresholds};
use window::{Generation, Window};

const START: Duration = Duration::from_secs(100);
/// When a breaker that has opened at the start may be tried.
const LATER: Duration = Duration::from_secs(101);
/// When a request that has tried it then has held its place for too long.
const STUCK: Duration = Duration::from_secs(102);
const WELL: Outcome = Outcome::Success { took: Duration::ZERO };
const BADLY: Outcome = Outcome::Failure { took: Duration::ZERO };

/// Opens with two failures in a row; one request at a time tries it, and closes it.
fn thresholds() -> Thresholds {
    Thresholds {
        consecutive_failures: NonZeroU32::new(2),
        failure_share: None,
        slow_share: None,
        slow_after: Duration::from_secs(1),
        window: Duration::from_secs(1),
        min_requests: NonZeroU32::MIN,
        open_time: Duration::from_secs(1),
        max_open_time: Duration::from_secs(4),
        half_open_requests: NonZeroU16::MIN,
        close_after: NonZeroU16::MIN,
    }
}

/// A breaker that several threads use, and how many of its trials are out.
struct Shared {
    machine: Machine,
    thresholds: Thresholds,
    out: AtomicU64,
}

impl Shared {
    fn of(thresholds: Thresholds) -> Arc<Shared> {
        let (machine, out) = (Machine::default(), AtomicU64::new(0));
        Arc::new(Shared { machine, thresholds, out })
    }

    /// One that has opened at the start.
    fn open(thresholds: Thresholds) -> Arc<Shared> {
        let shared = Shared::of(thresholds);
        for _ in 0..2 {
            let ticket = shared.pass(START).expect("it is closed");
            shared.finish(ticket, BADLY, START);
        }
        assert_eq!(shared.state(), State::Open);
        shared
    }

    /// What has changed before, and whether it passes.
    fn try_pass(&self, now: Duration) -> (Option<Transition>, Option<Ticket>) {
        (
            self.machine.expire(&self.thresholds, now),
            self.machine.try_pass(&self.thresholds, now).ok(),
        )
    }

    fn pass(&self, now: Duration) -> Option<Ticket> {
        self.try_pass(now).1
    }

    fn finish(&self, ticket: Ticket, outcome: Outcome, now: Duration) -> Option<Transition> {
        self.machine.finish(&self.thresholds, ticket, outcome, now)
    }

    /// A request to a half-open breaker; none where it is rejected. What has changed by it.
    fn try_out(&self, outcome: Option<Outcome>) -> Vec<Transition> {
        let (before, ticket) = self.try_pass(LATER);
        let Some(ticket) = ticket else { return before.into_iter().collect() };
        let most = u64::from(self.thresholds.half_open_requests.get());
        let is_trial = self.state() == State::HalfOpen;
        let out = self.out.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(out <= most || !is_trial || self.state() != State::HalfOpen, "{out} are out");
        self.out.fetch_sub(1, Ordering::SeqCst);
        let after = match outcome {
            Some(outcome) => self.finish(ticket, outcome, LATER),
            None => {
                self.machine.give_back(ticket);
                None
            }
        };
        before.into_iter().chain(after).collect()
    }

    fn state(&self) -> State {
        self.machine.state()
    }
}

/// Runs it in every order.
fn in_every_order(run: impl Fn() + Send + Sync + 'static) {
    shuttle::check_dfs(run, None);
}

/// How many orders of each kind are tried of what has too many: `TITAN_ORDERS`, or a few.
fn orders() -> usize {
    std::env::var("TITAN_ORDERS").ok().and_then(|it| it.parse().ok()).unwrap_or(500)
}

/// Runs it in many orders, most of them such as schedulers seldom make.
fn in_many_orders(run: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(run.clone(), orders());
    shuttle::check_pct(run, orders(), 4);
}

/// Each thread does that; what has changed by all of them.
fn race<T: Copy + Send + 'static>(
    shared: &Arc<Shared>,
    threads: &[T],
    run: impl Fn(&Shared, T) -> Vec<Transition> + Copy + Send + 'static,
) -> Vec<(State, State)> {
    let spawn = |what: &T| {
        let (shared, what) = (Arc::clone(shared), *what);
        thread::spawn(move || run(&shared, what))
    };
    let threads: Vec<_> = threads.iter().map(spawn).collect();
    let changes = threads.into_iter().flat_map(|it| it.join().expect("it does not panic"));
    changes.map(|change| (change.from, change.to)).collect()
}

/// Requests to a closed breaker that fare so at the same moment; what has changed by them.
fn fare(shared: &Arc<Shared>, outcomes: &[Outcome]) -> Vec<(State, State)> {
    let ticket = shared.pass(START).expect("it is closed");
    let outcomes: Vec<_> = outcomes.iter().map(|outcome| (ticket, *outcome)).collect();
    race(shared, &outcomes, |shared, (ticket, outcome)| {
        shared.finish(ticket, outcome, START).into_iter().collect()
    })
}

#[test]
fn failures_at_the_same_moment_open_it_once() {
    let opens_once = |outcomes: &[Outcome]| {
        let changes = fare(&Shared::of(thresholds()), outcomes);
        assert_eq!(changes, [(State::Closed, State::Open)]);
    };
    in_every_order(move || opens_once(&[BADLY, BADLY]));
    in_many_orders(move || opens_once(&[BADLY; 5]));
}

#[test]
fn failures_in_a_row_are_told_from_others() {
    in_every_order(|| {
        let shared = Shared::of(thresholds());
        let changes = fare(&shared, &[BADLY, WELL]);
        assert_eq!((changes, shared.state()), (Vec::new(), State::Closed));
        // Whichever of them was the last one.
        let ticket = shared.pass(START).expect("it is closed");
        let in_a_row =
            |shared: &Shared| shared.machine.status(&shared.thresholds, START).failures_in_a_row;
        let before = in_a_row(&shared);
        let opened = shared.finish(ticket, BADLY, START).is_some();
        assert_eq!(opened, before == 1, "{before}");
    });
}

#[test]
fn two_causes_at_the_same_moment_are_one_change() {
    let both = Thresholds {
        failure_share: Some(10_000),
        min_requests: NonZeroU32::new(2).expect("it is not 0"),
        ..thresholds()
    };
    in_many_orders(move || {
        let changes = fare(&Shared::of(both.clone()), &[BADLY; 4]);
        assert_eq!(changes, [(State::Closed, State::Open)]);
    });
}

#[test]
fn of_failures_at_the_same_moment_the_last_one_sees_the_share() {
    let shares = Thresholds {
        consecutive_failures: None,
        failure_share: Some(10_000),
        min_requests: NonZeroU32::new(3).expect("it is not 0"),
        ..thresholds()
    };
    in_many_orders(move || {
        let changes = fare(&Shared::of(shares.clone()), &[BADLY; 3]);
        assert_eq!(changes, [(State::Closed, State::Open)]);
    });
}

/// Two begin a part of the window together, while what lies in its place is of long ago.
#[test]
fn no_count_is_lost_where_a_part_of_the_window_begins() {
    in_every_order(|| {
        let (window, time) = (Arc::new(Window::default()), Duration::from_secs(1));
        let count = move |window: &Window, now| {
            window.count((Generation::default(), || true), (now, time), (true, false));
        };
        count(&window, START);
        let now = START + 3 * time;
        let threads = [(); 2].map(|()| {
            let window = Arc::clone(&window);
            thread::spawn(move || count(&window, now))
        });
        threads.into_iter().for_each(|it| it.join().expect("it does not panic"));
        let sum = window.sum(Generation::default(), now, time);
        assert_eq!((sum.requests, sum.failures), (2, 2));
    });
}

#[test]
fn it_is_half_open_once_and_no_more_than_the_bound_is_out() {
    in_every_order(|| {
        let shared = Shared::open(thresholds());
        let changes = race(&shared, &[None, None], Shared::try_out);
        assert_eq!(changes, [(State::Open, State::HalfOpen)]);
        assert_eq!(shared.machine.status(&shared.thresholds, LATER).trials, 0, "a lost place");
    });
}

/// Two find the places held for too long while the request that holds one ends.
#[test]
fn others_are_tried_once_and_no_more_than_the_bound() {
    in_every_order(|| {
        let shared = Shared::open(thresholds());
        let held = shared.pass(LATER).expect("it is tried");
        let changes = race(&shared, &[None, Some(held)], |shared, held| match held {
            Some(held) => shared.finish(held, WELL, STUCK).into_iter().collect(),
            None => {
                let (change, ticket) = shared.try_pass(STUCK);
                assert!(ticket.is_some(), "it is closed, or others are tried");
                change.into_iter().collect()
            }
        });
        let status = shared.machine.status(&shared.thresholds, STUCK);
        match (&changes[..], status.state) {
            ([(State::HalfOpen, State::HalfOpen)], State::HalfOpen) => assert_eq!(status.trials, 1),
            ([(State::HalfOpen, State::Closed)], State::Closed) => {}
            other => panic!("{other:?}"),
        }
    });
    in_every_order(|| {
        let shared = Shared::open(thresholds());
        let _held = shared.pass(LATER).expect("it is tried");
        let changes =
            race(&shared, &[(), ()], |shared, ()| shared.try_pass(STUCK).0.into_iter().collect());
        let status = shared.machine.status(&shared.thresholds, STUCK);
        assert_eq!((&changes[..], status.trials), (&[(State::HalfOpen, State::HalfOpen)][..], 1));
    });
}

#[test]
fn success_and_failure_at_the_same_moment_are_one_change() {
    let two = NonZeroU16::new(2).expect("it is not 0");
    in_every_order(move || {
        let shared = Shared::open(Thresholds { half_open_requests: two, ..thresholds() });
        let first = shared.pass(LATER).expect("it is tried");
        let second = shared.pass(LATER).expect("it is tried");
        let changes = race(&shared, &[(first, WELL), (second, BADLY)], |shared, (ticket, it)| {
            shared.finish(ticket, it, LATER).into_iter().collect()
        });
        let [(State::HalfOpen, to)] = changes[..] else { panic!("{changes:?}") };
        assert_eq!(shared.state(), to);
    });
}

/// One thread still has a request of the first closed time, while the others bring the breaker back to a closed one.
#[test]
fn a_late_outcome_counts_in_no_later_time() {
    let shares =
        Thresholds { failure_share: Some(5_000), min_requests: NonZeroU32::MIN, ..thresholds() };
    in_many_orders(move || {
        let shared = Shared::of(shares.clone());
        let late = shared.pass(START).expect("it is closed");
        let changes = race(&shared, &[Some(late), None], |shared, late| match late {
            Some(late) => shared.finish(late, BADLY, LATER).into_iter().collect(),
            None => {
                let Some(ticket) = shared.pass(START) else { return Vec::new() };
                let mut changes: Vec<_> = shared.finish(ticket, BADLY, START).into_iter().collect();
                changes.extend(shared.try_out(Some(WELL)));
                changes
            }
        });
        let status = shared.machine.status(&shared.thresholds, LATER);
        match (changes.len(), status.state) {
            // The late one came first, and opened it until after LATER.
            (1, State::Open) => {}
            (3, State::Closed) => {
                assert_eq!((status.counts.failures, status.failures_in_a_row), (0, 0));
            }
            other => panic!("{other:?} {changes:?}"),
        }
    });
}

/// Trials that fail, succeed and are given up, on more threads than there are places.
#[test]
fn whatever_trials_do_each_change_follows_from_the_one_before() {
    let two = NonZeroU16::new(2).expect("it is not 0");
    let some = Thresholds { half_open_requests: two, close_after: two, ..thresholds() };
    in_many_orders(move || {
        let shared = Shared::open(some.clone());
        let threads = [Some(WELL), Some(BADLY), None, Some(WELL), Some(Outcome::Neutral)];
        let changes = race(&shared, &threads, Shared::try_out);
        let count = |from, to| changes.iter().filter(|it| **it == (from, to)).count();
        let (begun, ended) = (
            count(State::Open, State::HalfOpen),
            count(State::HalfOpen, State::Closed) + count(State::HalfOpen, State::Open),
        );
        let status = shared.machine.status(&shared.thresholds, LATER);
        let is_half_open = status.state == State::HalfOpen;
        assert_eq!((begun, ended), (1, usize::from(!is_half_open)), "{changes:?}");
        assert_eq!(status.trials, 0, "a lost place");
    });
}
