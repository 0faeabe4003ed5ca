//! Breakers: an upstream or an endpoint that fails is left alone for a while. One for all workers.
//!
//! | what | module |
//! |---|---|
//! | when it opens and closes | `thresholds` |
//! | the states, and what changes them | `machine` |
//! | what is counted of requests | `window` |
//! | what counts as a failure | `rules` |

mod sync;

mod window;

mod thresholds;

mod machine;

mod rules;

pub use machine::{BreakerStatus, Rejected, State, Ticket, Transition};
pub use rules::Rules;
pub use thresholds::{Cause, Outcome, Thresholds};
pub use window::Counts;

use machine::Machine;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What decides whether requests pass. Every moment is given as the time since the process has started.
///
/// It outlives configurations, which have different thresholds: so each call comes with those that the caller knows.
#[derive(Default)]
pub struct Breaker {
    machine: Machine,
    ledger: Ledger,
}

/// What a breaker has done so far, for metrics.
#[derive(Default)]
struct Ledger {
    /// What has led to the state.
    last: Mutex<Option<Transition>>,
    /// By the states from and to.
    transitions: [[AtomicU64; 3]; 3],
    rejected: AtomicU64,
    /// Since when the state is what it is, in milliseconds.
    since: AtomicU64,
    /// How long each state has lasted in all, in milliseconds, without the one that lasts.
    lasted: [AtomicU64; 3],
}

/// What a breaker has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerFigures {
    /// How often it has changed, by the states from and to.
    pub transitions: [[u64; 3]; 3],
    /// How many requests it has rejected.
    pub rejected: u64,
    /// How long each state has lasted.
    pub lasted: [Duration; 3],
    /// Since when it is in its state.
    pub since: Duration,
    /// Why it is; `None` of one that was never in another.
    pub cause: Option<Cause>,
}

/// What an operator wants a breaker to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// No request passes.
    Open,
    /// Every request passes.
    Closed,
}

impl Breaker {
    /// Whether a request may pass now: then it has to be told what becomes of it, by [`Breaker::complete`] or
    /// [`Breaker::give_back`]. Where the breaker changes, `tell` says so.
    pub fn try_pass(
        &self,
        thresholds: &Thresholds,
        now: Duration,
        tell: impl FnOnce(Transition),
    ) -> Result<Ticket, Rejected> {
        self.expire(thresholds, now, tell);
        self.machine.try_pass(thresholds, now).inspect_err(|_| self.note_rejected())
    }

    /// Ends what has lasted for its time, whether requests come or not.
    pub fn expire(&self, thresholds: &Thresholds, now: Duration, tell: impl FnOnce(Transition)) {
        self.note(self.machine.expire(thresholds, now), now, tell);
    }

    /// Counts a request that was rejected because it would not have passed.
    pub fn note_rejected(&self) {
        self.ledger.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how a request has fared that passed. Where the breaker changes by it, `tell` says so.
    pub fn complete(
        &self,
        thresholds: &Thresholds,
        (ticket, outcome): (Ticket, Outcome),
        now: Duration,
        tell: impl FnOnce(Transition),
    ) {
        let transition = self.machine.finish(thresholds, ticket, outcome, now);
        self.note(transition, now, tell);
    }

    /// Takes a request back that passed, and says nothing about the upstream.
    pub fn give_back(&self, ticket: Ticket) {
        self.machine.give_back(ticket);
    }

    /// Whether a request would pass now. Nothing changes by asking.
    pub fn check(&self, thresholds: &Thresholds, now: Duration) -> Result<(), Rejected> {
        self.machine.check(thresholds, now)
    }

    /// Holds it open or closed until that time, whatever happens.
    pub fn force(
        &self,
        forced: Forced,
        (now, until): (Duration, Duration),
        tell: impl FnOnce(Transition),
    ) {
        let transition = self.machine.force(forced == Forced::Open, now, until);
        self.note(Some(transition), now, tell);
    }

    /// Lets it decide again by itself, as if the time had passed. False where nothing holds it.
    pub fn release(&self, now: Duration, tell: impl FnOnce(Transition)) -> bool {
        let transition = self.machine.release(now);
        self.note(transition, now, tell);
        transition.is_some()
    }

    /// Until when no request passes; `None` where some do.
    pub fn open_until(&self) -> Option<Duration> {
        self.machine.open_until()
    }

    /// Whether it does not change as time passes: it is closed, and nobody holds it so.
    pub fn is_still(&self) -> bool {
        self.machine.is_still()
    }

    /// How it is doing.
    pub fn status(&self, thresholds: &Thresholds, now: Duration) -> BreakerStatus {
        self.machine.status(thresholds, now)
    }

    /// What it has done so far.
    pub fn figures(&self, now: Duration) -> BreakerFigures {
        self.ledger.figures(self.machine.state(), now)
    }

    fn note(&self, transition: Option<Transition>, now: Duration, tell: impl FnOnce(Transition)) {
        if let Some(transition) = transition {
            self.ledger.enter(transition, now);
            tell(transition);
        }
    }
}

impl Transition {
    /// Whether an operator has ordered it, or ended an order.
    pub fn is_ordered(&self) -> bool {
        matches!(self.cause, Cause::Forced | Cause::Released)
    }
}

/// The sentence that an operator reads.
impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transition { from, to, lasts, cause } = self;
        match (from == to, cause) {
            (true, Cause::TimePassed | Cause::Released) => {
                write!(f, "the circuit breaker is {to} and decides by itself again")?;
            }
            (true, _) => write!(f, "the circuit breaker stays {to}")?,
            (false, _) => write!(f, "the circuit breaker changes from {from} to {to}")?,
        }
        if let Some(lasts) = lasts {
            write!(f, " for {lasts:?}")?;
        }
        write!(f, ": {cause}")
    }
}

impl Ledger {
    /// Transitions that follow each other within microseconds may be noted in another order: then a state seems to have
    /// lasted so much longer or shorter.
    fn enter(&self, transition: Transition, now: Duration) {
        let Transition { from, to, .. } = transition;
        *self.last() = Some(transition);
        self.transitions[from.index()][to.index()].fetch_add(1, Ordering::Relaxed);
        let now = millis(now);
        let lasted = now.saturating_sub(self.since.swap(now, Ordering::Relaxed));
        self.lasted[from.index()].fetch_add(lasted, Ordering::Relaxed);
    }

    fn figures(&self, state: State, now: Duration) -> BreakerFigures {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let since = Duration::from_millis(load(&self.since));
        let mut lasted = self.lasted.each_ref().map(|it| Duration::from_millis(load(it)));
        lasted[state.index()] += now.saturating_sub(since);
        let transitions = self.transitions.each_ref().map(|from| from.each_ref().map(load));
        let cause = self.last().filter(|last| last.to == state).map(|last| last.cause);
        BreakerFigures { transitions, rejected: load(&self.rejected), lasted, since, cause }
    }

    fn last(&self) -> MutexGuard<'_, Option<Transition>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// All of them, by their indices.
    pub const ALL: [State; 3] = [State::Closed, State::Open, State::HalfOpen];

    /// The changes that there are, from one state to another.
    pub const CHANGES: [(State, State); 5] = [
        (State::Closed, State::Open),
        (State::Open, State::HalfOpen),
        (State::Open, State::Closed),
        (State::HalfOpen, State::Open),
        (State::HalfOpen, State::Closed),
    ];

    /// Its place among all.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name in metrics and in the admin interface.
    pub fn name(self) -> &'static str {
        match self {
            State::Closed => "closed",
            State::Open => "open",
            State::HalfOpen => "half-open",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::ConsecutiveFailures(1) => f.write_str("a request failed"),
            Cause::ConsecutiveFailures(count) => write!(f, "{count} requests in a row failed"),
            Cause::FailureShare(Counts { requests, failures, .. }) => {
                write!(f, "{failures} of the last {requests} requests failed")
            }
            Cause::SlowShare(Counts { requests, slow, .. }) => {
                write!(f, "{slow} of the last {requests} requests were slow")
            }
            Cause::TrialFailed => f.write_str("a trial request failed"),
            Cause::TrialSlow(took) => write!(f, "a trial request took {took:.1?}"),
            Cause::TrialsStuck => {
                f.write_str("its trial requests take too long, and others follow")
            }
            Cause::TrialsSucceeded(1) => f.write_str("a trial request succeeded"),
            Cause::TrialsSucceeded(count) => write!(f, "{count} trial requests succeeded"),
            Cause::TimePassed => f.write_str("its time is over"),
            Cause::Forced => f.write_str("forced by hand"),
            Cause::Released => f.write_str("released by hand"),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
