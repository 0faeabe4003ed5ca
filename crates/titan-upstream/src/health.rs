//! Whether an endpoint can take requests: what is noted about that, and what was decided.
//!
//! Workers count how requests fare ([`Tally`]) and look at what was decided ([`Health::standing`]). One thread for all of them
//! decides: so every decision is one for all workers, and each is made in one place that can say why.

use crate::balance::Standing;
use crate::signals::Signals;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use titan_config::Ejection;

/// What is known of the health of an endpoint.
pub struct Health {
    /// The [`Fact`]s that hold.
    facts: AtomicU8,
    /// When the endpoint has begun to take more and more requests, in milliseconds as [`Health::now`] has them; 0 for never.
    rises_since: AtomicU64,
    /// How requests to it fare.
    pub tally: Tally,
    /// What was decided about it. Only who decides and who shows it take the lock.
    story: Mutex<Story>,
    /// Who sends it requests.
    signals: Signals,
}

/// What was decided about an endpoint, for those who look at it.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// Why each of the facts holds that do, in the order of [`Fact`].
    pub reasons: Vec<Reason>,
    /// The last time that one of them ceased to.
    released: Option<Reason>,
    /// How often the endpoint was ejected.
    pub ejections: u64,
    /// How often it was probed.
    pub probes: u64,
    /// How many of the probes failed.
    pub probes_failed: u64,
    /// Why the last one failed, if it did.
    pub last_probe_failed: Option<String>,
}

/// A decision about an endpoint.
#[derive(Clone, Debug)]
pub struct Reason {
    /// What it is about.
    pub fact: Fact,
    /// What caused it.
    pub why: String,
    /// When it was made.
    pub since: SystemTime,
    /// When it ends, where it holds for a time.
    pub until: Option<SystemTime>,
}

/// Something that keeps an endpoint from getting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// Probes fail.
    Unhealthy = 1,
    /// It waits for what its first probes say.
    Unprobed = 2,
    /// Its requests fared badly.
    Ejected = 4,
    /// An operator wants it to get none.
    EjectedByHand = 8,
    /// An operator wants it to get no new ones.
    Draining = 16,
}

/// How an endpoint is, as operators are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It gets requests.
    Healthy,
    /// Probes fail, or there was none yet.
    Unhealthy,
    /// Its requests fared badly, or an operator has ejected it.
    Ejected,
    /// An operator wants it to get no new requests.
    Draining,
}

/// Counts of how requests to an endpoint fare, over all workers. They only grow, except those in a row.
#[derive(Default)]
pub struct Tally {
    failures_in_a_row: AtomicU32,
    errors_in_a_row: AtomicU32,
    requests: AtomicU64,
    failures: AtomicU64,
    /// Those that went well and whose time was taken.
    timed: AtomicU64,
    /// What these have taken in all, in microseconds.
    micros: AtomicU64,
    /// Whether somebody judges by it already.
    is_judged: AtomicBool,
    /// From how many in a row on somebody is told.
    limits: Limits,
}

/// How many in a row are too many; 0 for any number.
#[derive(Default)]
struct Limits {
    failures: AtomicU32,
    errors: AtomicU32,
    /// Whoever is told.
    signals: Signals,
}

/// How a request has fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fared {
    /// The endpoint has responded as it should.
    Well {
        /// What its response has taken to begin, where that was measured.
        took: Option<Duration>,
    },
    /// It has responded with an error.
    Error,
    /// There was no response, or no whole one.
    Failed,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Those that failed, or got an error.
    pub failures: u64,
    /// Those that went well and whose time was taken.
    pub timed: u64,
    /// What these took in all, in microseconds.
    pub micros: u64,
}

/// The part of its share that an endpoint gets when it begins to take requests.
const FIRST_PART: f64 = 0.1;

impl Condition {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Condition::Healthy => "healthy",
            Condition::Unhealthy => "unhealthy",
            Condition::Ejected => "ejected",
            Condition::Draining => "draining",
        }
    }
}

impl Health {
    /// That of an endpoint of which nothing is known.
    pub(crate) fn new(signals: Signals, initial: Option<Fact>) -> Health {
        let limits = Limits { signals: signals.clone(), ..Limits::default() };
        let tally = Tally { limits, ..Tally::default() };
        let (facts, rises_since, story) = Default::default();
        let health = Health { facts, rises_since, tally, story, signals };
        if let Some(fact) = initial {
            health.decide(fact, true, &"it has not been probed yet");
        }
        health
    }

    /// Whether a fact holds.
    pub fn has(&self, fact: Fact) -> bool {
        self.has_any(&[fact])
    }

    fn has_any(&self, facts: &[Fact]) -> bool {
        let wanted = facts.iter().fold(0, |bits, fact| bits | *fact as u8);
        self.facts.load(Ordering::Relaxed) & wanted != 0
    }

    /// Decides whether a fact holds, and why.
    pub fn decide(&self, fact: Fact, holds: bool, why: &dyn fmt::Display) {
        self.note_decision((fact, None), holds, why);
    }

    /// Decides that a fact holds for a time, and why.
    pub fn decide_for(&self, fact: Fact, time: Duration, why: &dyn fmt::Display) {
        self.note_decision((fact, Some(time)), true, why);
    }

    fn note_decision(
        &self,
        (fact, time): (Fact, Option<Duration>),
        holds: bool,
        why: &dyn fmt::Display,
    ) {
        let mut story = self.story();
        let is_ejected = matches!(fact, Fact::Ejected | Fact::EjectedByHand);
        story.ejections += u64::from(is_ejected && holds);
        let since = SystemTime::now();
        let until = time.map(|time| since + time);
        story.note(Reason { fact, why: why.to_string(), since, until }, holds);
        drop(story);
        self.set(fact, holds);
    }

    /// Ends a fact, if it holds.
    pub fn end(&self, fact: Fact, why: &dyn fmt::Display) {
        if self.has(fact) {
            self.decide(fact, false, why);
        }
    }

    /// Notes how a probe has gone: why it failed, if it did.
    pub fn note_probe(&self, failed: Option<&String>) {
        let mut story = self.story();
        story.probes += 1;
        story.probes_failed += u64::from(failed.is_some());
        story.last_probe_failed = failed.cloned();
    }

    /// What was decided, and why.
    pub fn story(&self) -> MutexGuard<'_, Story> {
        self.story.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether a fact holds; workers see it with their next request.
    fn set(&self, fact: Fact, holds: bool) {
        match holds {
            true => self.facts.fetch_or(fact as u8, Ordering::Relaxed),
            false => self.facts.fetch_and(!(fact as u8), Ordering::Relaxed),
        };
        self.signals.change();
    }

    /// Whether the endpoint gets requests, and if not, what is the first reason.
    pub fn condition(&self) -> Condition {
        match () {
            () if self.has_any(&[Fact::Unhealthy, Fact::Unprobed]) => Condition::Unhealthy,
            () if self.has_any(&[Fact::Ejected, Fact::EjectedByHand]) => Condition::Ejected,
            () if self.has(Fact::Draining) => Condition::Draining,
            () => Condition::Healthy,
        }
    }

    /// What the endpoint may be sent, as far as its health goes. In a panic that is everything also where it fails: but what somebody
    /// has decided holds, and what has yet to be found out is waited for.
    pub fn standing(&self, drains: bool, panics: bool) -> Standing {
        let drains = drains || self.has(Fact::Draining);
        match () {
            () if self.is_withheld() => Standing::Closed,
            () if self.fails() && (drains || !panics) => Standing::Closed,
            () if drains => Standing::Draining,
            () => Standing::Open,
        }
    }

    /// Whether it is there for requests, failing or not.
    pub fn is_counted(&self, drains: bool) -> bool {
        !drains && !self.has(Fact::Draining) && !self.is_withheld()
    }

    /// Whether probes or requests fail.
    pub fn fails(&self) -> bool {
        self.has_any(&[Fact::Unhealthy, Fact::Ejected])
    }

    fn is_withheld(&self) -> bool {
        self.has_any(&[Fact::Unprobed, Fact::EjectedByHand])
    }

    /// Has it take more and more requests from that moment on.
    pub fn rise(&self, now: Duration) {
        self.rises_since.store(millis(now).max(1), Ordering::Relaxed);
        self.signals.change();
    }

    /// Whether it began to take more and more requests less than `slow_start` ago.
    pub fn is_rising(&self, now: Duration, slow_start: Duration) -> bool {
        self.part(now, slow_start) < 1.0
    }

    /// Whether it takes a request, of which it takes more and more since it began to.
    pub fn takes(&self, random: u64, now: Duration, slow_start: Duration) -> bool {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a random number, of which the upper half is enough"
        )]
        let drawn = (random >> 32) as f64 / (1_u64 << 32) as f64;
        drawn < self.part(now, slow_start)
    }

    /// The part of its share that it takes.
    fn part(&self, now: Duration, slow_start: Duration) -> f64 {
        let since = self.rises_since.load(Ordering::Relaxed);
        if since == 0 || slow_start.is_zero() {
            return 1.0;
        }
        let past = now.saturating_sub(Duration::from_millis(since));
        FIRST_PART.max(past.as_secs_f64() / slow_start.as_secs_f64()).min(1.0)
    }
}

impl Fact {
    /// What an endpoint is of which it holds.
    pub fn condition(self) -> Condition {
        match self {
            Fact::Unhealthy | Fact::Unprobed => Condition::Unhealthy,
            Fact::Ejected | Fact::EjectedByHand => Condition::Ejected,
            Fact::Draining => Condition::Draining,
        }
    }
}

impl Story {
    /// The reason of what it is now: that of the first fact, or the one for which the last has ceased to hold.
    pub fn reason(&self) -> Option<&Reason> {
        self.reasons.first().or(self.released.as_ref())
    }

    fn note(&mut self, reason: Reason, holds: bool) {
        self.reasons.retain(|it| it.fact != reason.fact);
        if holds {
            let at = self.reasons.partition_point(|it| it.fact < reason.fact);
            self.reasons.insert(at, reason);
        } else {
            self.released = Some(reason);
        }
    }
}

impl Tally {
    /// Says who is told, and when: what counts is what the configuration in force says.
    pub(crate) fn set_limits(&self, ejection: Option<&Ejection>) {
        let limit = |limit: Option<std::num::NonZeroU32>| limit.map_or(0, Into::into);
        let Limits { failures, errors, signals: _ } = &self.limits;
        failures.store(limit(ejection.and_then(|it| it.consecutive_failures)), Ordering::Relaxed);
        errors.store(limit(ejection.and_then(|it| it.consecutive_errors)), Ordering::Relaxed);
    }

    /// Counts a request.
    pub fn note(&self, fared: Fared) {
        self.count(fared);
        self.limits.signals.stir();
    }

    fn count(&self, fared: Fared) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if let Fared::Well { took: Some(took) } = fared {
            // Errors and failures are no measure of speed: those that come at once would make everybody else look slow.
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            self.micros.fetch_add(micros.min(HOUR_IN_MICROS), Ordering::Relaxed);
            self.timed.fetch_add(1, Ordering::Relaxed);
        }
        let Limits { failures, errors, .. } = &self.limits;
        if fared == Fared::Failed {
            self.count_in_a_row(&self.failures_in_a_row, failures);
        } else {
            end(&self.failures_in_a_row);
        }
        match fared {
            Fared::Well { .. } => return end(&self.errors_in_a_row),
            Fared::Error => self.count_in_a_row(&self.errors_in_a_row, errors),
            Fared::Failed => {}
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that another endpoint has responded to first, although it was asked later. One such request says nothing. But an
    /// endpoint that hangs must not stay because hedges hide it: it is one whose every request ends like that.
    pub fn note_outrun(&self) {
        self.count_in_a_row(&self.failures_in_a_row, &self.limits.failures);
    }

    fn count_in_a_row(&self, counter: &AtomicU32, limit: &AtomicU32) {
        let limit = limit.load(Ordering::Relaxed);
        if counter.fetch_add(1, Ordering::Relaxed).saturating_add(1) == limit {
            self.limits.signals.ring();
        }
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Tally { requests, failures, timed, micros, .. } = self;
        Counts {
            requests: load(requests),
            failures: load(failures),
            timed: load(timed),
            micros: load(micros),
        }
    }

    /// Whether nobody has judged by it so far: whoever asks does from now on.
    pub(crate) fn is_new(&self) -> bool {
        !self.is_judged.swap(true, Ordering::Relaxed)
    }

    /// How many in a row have failed, and how many have got an error.
    pub fn in_a_row(&self) -> (u32, u32) {
        let load = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        (load(&self.failures_in_a_row), load(&self.errors_in_a_row))
    }

    /// Begins to count in a row anew.
    pub fn forget(&self) {
        end(&self.failures_in_a_row);
        end(&self.errors_in_a_row);
    }
}

/// A store only where there is something to end: all workers read it.
fn end(row: &AtomicU32) {
    if row.load(Ordering::Relaxed) != 0 {
        row.store(0, Ordering::Relaxed);
    }
}

const HOUR_IN_MICROS: u64 = 3_600_000_000;

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            requests: self.requests.wrapping_sub(before.requests),
            failures: self.failures.wrapping_sub(before.failures),
            timed: self.timed.wrapping_sub(before.timed),
            micros: self.micros.wrapping_sub(before.micros),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time from a moment that is the same for all workers, and for every configuration of the process, to `at`.
pub(crate) fn since_start(at: Instant) -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    at.duration_since(*START)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;

    #[test]
    fn what_rises_takes_a_tenth_at_first_and_more_and_more() {
        let health = Health::new(Signals::default(), None);
        let (start, slow_start) = (Duration::from_secs(100), Duration::from_secs(10));
        let share = |after: f64| {
            let now = start + Duration::from_secs_f64(after);
            let takes = |number: u64| health.takes(crate::balance::mix(number), now, slow_start);
            (0..1000).filter(|number| takes(*number)).count()
        };
        assert_eq!(share(0.0), 1000, "before it is told to rise");
        health.rise(start);
        for (after, around) in [(0.0, 100), (0.5, 100), (3.0, 300), (9.0, 900)] {
            assert!(share(after).abs_diff(around) < 60, "{} after {after} s", share(after));
        }
        assert_eq!((share(10.0), share(1e6)), (1000, 1000));
        assert!(health.is_rising(start, slow_start) && !health.is_rising(start, Duration::ZERO));
    }

    #[test]
    fn who_judges_is_woken_by_the_failure_that_is_one_too_many() {
        let signals = Signals::default();
        let tally = Health::new(signals.clone(), None).tally;
        let woken = || {
            let mut rang = std::pin::pin!(signals.alarm().rang());
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            rang.as_mut().poll(&mut cx).is_ready()
        };
        tally.limits.failures.store(2, Ordering::Relaxed);
        tally.limits.errors.store(3, Ordering::Relaxed);
        let took = Some(Duration::from_micros(7));
        let notes = |fared, wakes| {
            tally.note(fared);
            assert_eq!(woken(), wakes, "{fared:?}");
        };
        notes(Fared::Failed, false);
        notes(Fared::Error, false);
        notes(Fared::Failed, false);
        notes(Fared::Failed, true);
        notes(Fared::Well { took }, false);
        notes(Fared::Error, false);
        notes(Fared::Error, false);
        notes(Fared::Error, true);
        let counts = Counts { requests: 8, failures: 7, timed: 1, micros: 7 };
        assert_eq!((tally.counts(), tally.in_a_row()), (counts, (0, 3)));
    }
}
