//! How many retries an upstream may get, so that retries cannot make an outage worse.
//!
//! Requests pay for retries: each one deposits a share of a retry, and each retry withdraws a whole one. A fixed number a second
//! comes on top, because a share of few requests is less than one retry. What is saved is forgotten after some seconds, and at
//! once if a retry fails: it is for the requests that an endpoint loses when it dies, not for an upstream that fails as a whole.
//!
//! Requests are counted by each worker in a cell of its own, and the budget looks at the sum only when something has failed. A
//! request that succeeds touches nothing that workers share.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use titan_config::{Percent, RetryBudget as Settings};

/// The retries that an upstream may get, over all workers.
pub struct RetryBudget {
    started: Instant,
    /// What each request deposits, in hundredths of a percent.
    share: AtomicU32,
    /// Retries a second that no request has to pay for.
    floor: AtomicU32,
    /// The retries that are saved: the bits of an `f64`.
    saved: AtomicU64,
    /// How many requests have made their deposits.
    requests: AtomicU64,
    /// When they last did, in microseconds since the start.
    at: AtomicU64,
    /// Until when the retries of the floor are used, in microseconds since the start. At most [`SECOND`] ahead of now.
    floor_used: AtomicU64,
}

/// What is left of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudgetStatus {
    /// Retries as a share of requests.
    pub share: Percent,
    /// Retries a second that are allowed in any case.
    pub floor: u32,
    /// The retries that could begin now.
    pub left: u64,
}

/// How long savings last: after this time without requests, about a third is left.
const MEMORY: Duration = Duration::from_secs(10);
/// What is not forfeited, in retries: less would take from what new requests deposit.
const KEPT: f64 = 1.0;
/// In microseconds.
const SECOND: u64 = 1_000_000;

impl RetryBudget {
    /// A budget for which requests that were counted before pay nothing.
    pub fn new(settings: &Settings, requests: u64, now: Instant) -> RetryBudget {
        let budget = RetryBudget {
            started: now,
            share: AtomicU32::new(0),
            floor: AtomicU32::new(0),
            saved: AtomicU64::new(0f64.to_bits()),
            requests: AtomicU64::new(requests),
            at: AtomicU64::new(0),
            floor_used: AtomicU64::new(0),
        };
        budget.set(settings);
        budget
    }

    /// Applies the settings that an upstream has now. What is saved stays.
    pub fn set(&self, settings: &Settings) {
        let Settings { share, floor } = *settings;
        self.share.store(share.as_hundredths().into(), Ordering::Relaxed);
        self.floor.store(floor, Ordering::Relaxed);
    }

    /// Pays for one retry, if that is possible; `requests` is how many requests there have been.
    pub fn withdraw(&self, requests: u64, now: Instant) -> bool {
        let now = self.since_start(now);
        self.deposit(requests, now);
        let less_one = |saved: f64| (saved >= 1.0).then_some(saved - 1.0);
        self.change(less_one) || self.withdraw_floor(now)
    }

    /// Gives up what is saved because a retry has failed as well.
    pub fn forfeit(&self) {
        self.change(|saved| (saved > KEPT).then_some(KEPT));
    }

    /// What is left of it.
    pub fn status(&self, requests: u64, now: Instant) -> RetryBudgetStatus {
        let now = self.since_start(now);
        self.deposit(requests, now);
        let floor = self.floor.load(Ordering::Relaxed);
        let used = self.floor_used.load(Ordering::Relaxed).saturating_sub(now).min(SECOND);
        let of_floor = (SECOND - used) * u64::from(floor) / SECOND;
        let share = u16::try_from(self.share.load(Ordering::Relaxed)).unwrap_or(u16::MAX);
        let saved = f64::from_bits(self.saved.load(Ordering::Relaxed));
        RetryBudgetStatus {
            share: Percent::hundredths(share),
            floor,
            left: whole(saved).saturating_add(of_floor),
        }
    }

    /// Has the requests pay that are new. Each pays once, whoever looks.
    fn deposit(&self, requests: u64, now: u64) {
        let new = requests.saturating_sub(self.requests.fetch_max(requests, Ordering::Relaxed));
        let passed = now.saturating_sub(self.at.fetch_max(now, Ordering::Relaxed));
        if new == 0 && passed == 0 {
            return;
        }
        let share =
            f64::from(self.share.load(Ordering::Relaxed)) / f64::from(Percent::ALL.as_hundredths());
        let deposits = float(new) * share;
        self.change(|saved| Some(later(saved, deposits, Duration::from_micros(passed))));
    }

    /// The floor is a rate: each of its retries uses its part of a second, and a second may be used ahead.
    fn withdraw_floor(&self, now: u64) -> bool {
        let Some(part) = SECOND.checked_div(self.floor.load(Ordering::Relaxed).into()) else {
            return false;
        };
        let use_part = |used: u64| {
            let used = used.max(now) + part;
            (used <= now + SECOND).then_some(used)
        };
        let Self { floor_used, .. } = self;
        floor_used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, use_part).is_ok()
    }

    fn change(&self, to: impl Fn(f64) -> Option<f64>) -> bool {
        let to = |bits| to(f64::from_bits(bits)).map(f64::to_bits);
        self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, to).is_ok()
    }

    fn since_start(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.started);
        u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
    }
}

/// What is saved after that time, in which those deposits came at an even rate: all of it fades exponentially.
fn later(saved: f64, deposits: f64, passed: Duration) -> f64 {
    let times = passed.as_secs_f64() / MEMORY.as_secs_f64();
    let left = (-times).exp();
    let of_deposits = if times > 0.0 { (1.0 - left) / times } else { 1.0 };
    saved * left + deposits * of_deposits.min(1.0)
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53 between two failures")]
fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is rounded down, and never negative"
)]
fn whole(retries: f64) -> u64 {
    retries as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    fn settings(percent: u16, floor: u32) -> Settings {
        Settings { share: Percent::hundredths(percent * 100), floor }
    }

    fn budget(percent: u16, floor: u32) -> (RetryBudget, Instant) {
        let now = Instant::now();
        (RetryBudget::new(&settings(percent, floor), 0, now), now)
    }

    /// How many retries it pays for before it refuses one.
    fn withdrawn(budget: &RetryBudget, requests: u64, now: Instant) -> usize {
        (0..).take_while(|_| budget.withdraw(requests, now)).count()
    }

    #[test]
    fn requests_pay_for_retries() {
        let (budget, now) = budget(20, 0);
        assert!(!budget.withdraw(4, now));
        assert!(budget.withdraw(5, now));
        assert!(!budget.withdraw(5, now), "each request pays once");
        assert_eq!(withdrawn(&budget, 105, now), 20);
    }

    #[test]
    fn the_floor_is_a_rate() {
        let (budget, now) = budget(20, 3);
        assert_eq!(withdrawn(&budget, 0, now), 3);
        let after = |millis| now + Duration::from_millis(millis);
        assert_eq!(withdrawn(&budget, 0, after(400)), 1);
        assert_eq!(withdrawn(&budget, 0, after(999)), 1);
        assert_eq!(withdrawn(&budget, 0, after(60_000)), 3, "no more than for a second");
    }

    #[test]
    fn savings_are_those_of_the_last_seconds() {
        let (budget, now) = budget(20, 0);
        let mut requests = 0;
        for second in 0..3_600 {
            requests += 100;
            budget.status(requests, now + Duration::from_secs(second));
        }
        let soon = now + Duration::from_secs(3_600);
        let left = budget.status(requests, soon).left;
        assert!((150..=200).contains(&left), "{left} of 20 a second in 10 seconds");
        assert!(budget.status(requests, soon + Duration::from_secs(60)).left < 2);
        // Without a look in between it comes to the same.
        let (unseen, now) = self::budget(20, 0);
        let left = unseen.status(requests, now + Duration::from_secs(3_600)).left;
        assert!((150..=200).contains(&left), "{left}");
    }

    #[test]
    fn a_retry_that_fails_takes_the_savings() {
        let (budget, now) = budget(20, 0);
        assert!(budget.withdraw(1_000, now));
        budget.forfeit();
        assert_eq!(withdrawn(&budget, 1_000, now), 1);
        assert_eq!(withdrawn(&budget, 1_010, now), 2, "new requests pay again");
    }

    #[test]
    fn settings_change_while_it_is_used() {
        let (budget, now) = budget(20, 0);
        assert!(budget.withdraw(10, now));
        budget.set(&settings(50, 2));
        let left = RetryBudgetStatus { share: settings(50, 2).share, floor: 2, left: 1 + 5 + 2 };
        assert_eq!(budget.status(20, now), left);
        assert_eq!(withdrawn(&budget, 20, now), 8);
    }

    #[test]
    fn workers_withdraw_each_retry_once() {
        const REQUESTS: u64 = 40_000;
        let (budget, now) = budget(20, 0);
        let (counted, retries) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..REQUESTS / 4 {
                        let requests = counted.fetch_add(1, Ordering::Relaxed) + 1;
                        let is_paid = budget.withdraw(requests, now);
                        retries.fetch_add(is_paid.into(), Ordering::Relaxed);
                    }
                });
            }
        });
        let retries = retries.into_inner();
        assert!((REQUESTS / 5 - 1..=REQUESTS / 5).contains(&retries), "{retries}");
    }

    proptest! {
        /// Whatever comes when, and whatever fails: never more than the share of the requests and the floor.
        #[test]
        fn retries_stay_within_the_share_and_the_floor(
            percent in 0..=100_u16,
            floor in 0..50_u32,
            steps in vec((0..20_000_000_u64, 0..200_u64, 0..200_usize, any::<bool>()), 1..50),
        ) {
            let (budget, start) = budget(percent, floor);
            let (mut micros, mut requests, mut retries) = (0, 0, 0);
            for (passed, new, wanted, fails) in steps {
                micros += passed;
                requests += new;
                let now = start + Duration::from_micros(micros);
                retries += (0..wanted).filter(|_| budget.withdraw(requests, now)).count();
                if fails {
                    budget.forfeit();
                }
                let seconds = micros as f64 / 1e6 + 1.0;
                let most = requests as f64 * f64::from(percent) / 100.0 + seconds * f64::from(floor);
                prop_assert!(retries as f64 <= most + 1e-6, "{retries} of {most}");
            }
        }
    }
}
