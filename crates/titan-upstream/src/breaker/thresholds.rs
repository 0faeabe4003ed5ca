//! When a breaker opens and closes, and why. Pure.

use super::window::Counts;
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

/// When a breaker opens and closes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// So many failures in a row open it.
    pub consecutive_failures: Option<NonZeroU32>,
    /// This share of failures opens it, in hundredths of a percent.
    pub failure_share: Option<u32>,
    /// This share of slow requests opens it, in hundredths of a percent.
    pub slow_share: Option<u32>,
    /// From how long on a request is slow.
    pub slow_after: Duration,
    /// The time over which shares are taken.
    pub window: Duration,
    /// The requests in that time without which there is no share.
    pub min_requests: NonZeroU32,
    /// How long it is open the first time.
    pub open_time: Duration,
    /// How long at most; after so long closed, the next time is a first one again.
    pub max_open_time: Duration,
    /// How many requests a half-open one has out at a time.
    pub half_open_requests: NonZeroU16,
    /// How many of them have to succeed for it to close.
    pub close_after: NonZeroU16,
}

/// How a request has fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Success {
        /// What its response has taken to begin.
        took: Duration,
    },
    /// Badly.
    Failure {
        /// What that has taken.
        took: Duration,
    },
    /// In a way that says nothing about the upstream.
    Neutral,
}

/// Why the state has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// So many requests in a row have failed.
    ConsecutiveFailures(u32),
    /// Too many of these have failed.
    FailureShare(Counts),
    /// Too many of these were slow.
    SlowShare(Counts),
    /// A request that was to show whether things are better has failed.
    TrialFailed,
    /// It has taken so long.
    TrialSlow(Duration),
    /// All that may be out are, for too long: others are to show it.
    TrialsStuck,
    /// So many of them have succeeded.
    TrialsSucceeded(u16),
    /// Its time has passed.
    TimePassed,
    /// An operator wants it.
    Forced,
    /// An operator wants it no more.
    Released,
}

/// How long a trial holds its place at most: less than half of the time after which a breaker counts that round.
const MOST_PATIENCE: Duration = Duration::from_secs(3600);

impl Thresholds {
    /// What a request has taken that was too slow.
    pub(super) fn slow(&self, outcome: Outcome) -> Option<Duration> {
        let (Outcome::Success { took } | Outcome::Failure { took }) = outcome else { return None };
        (self.slow_share.is_some() && took > self.slow_after).then_some(took)
    }

    pub(super) fn has_shares(&self) -> bool {
        self.failure_share.is_some() || self.slow_share.is_some()
    }

    /// Why it opens with a request that has failed, as so many in a row, or was slow.
    pub(super) fn cause(
        &self,
        failed: Option<u32>,
        slow: bool,
        sum: impl FnOnce() -> Counts,
    ) -> Option<Cause> {
        let limit = self.consecutive_failures.map(NonZeroU32::get);
        if let Some(count) = failed.filter(|count| limit.is_some_and(|limit| *count >= limit)) {
            return Some(Cause::ConsecutiveFailures(count));
        }
        if !self.has_shares() {
            return None;
        }
        let counts = sum();
        let reaches = |part: u64, share: u32| {
            u128::from(part) * 10_000 >= u128::from(share) * u128::from(counts.requests)
        };
        if counts.requests < u64::from(self.min_requests.get()) {
            return None;
        }
        let fails = self.failure_share.filter(|_| failed.is_some());
        if fails.is_some_and(|share| reaches(counts.failures, share)) {
            return Some(Cause::FailureShare(counts));
        }
        let slows = self.slow_share.filter(|_| slow);
        slows.filter(|share| reaches(counts.slow, *share)).map(|_| Cause::SlowShare(counts))
    }

    /// How many requests of a half-open one are out at a time.
    pub(super) fn most_trials(&self) -> u64 {
        self.half_open_requests.get().into()
    }

    /// How long a trial may hold its place: as long as the breaker has been open, since what has not ended by then says no more than what
    /// fails.
    pub(super) fn patience(&self, opened: u32) -> Duration {
        self.open_for(opened).min(MOST_PATIENCE)
    }

    /// How long it is open for the time of that number: twice as long each time.
    pub(super) fn open_for(&self, times: u32) -> Duration {
        let factor = 1_u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
        self.open_time.saturating_mul(factor).min(self.max_open_time)
    }
}
