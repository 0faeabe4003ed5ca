//! The states of a breaker. Pure: time is an argument, and what a change means to others is returned.
//!
//! ```text
//!            too many requests fail, or are slow
//!   Closed ---------------------------------------> Open <--- forced open
//!     ^  ^                                        |  ^
//!     |  |                                        |  | one of them fails
//!     |  | enough requests      its time has passed v  |
//!     |  +-------------------------------------- HalfOpen <--- its time has passed, or that of the requests that it has out
//!     |
//!     +--- its time has passed --- forced closed
//! ```
//!
//! The whole state is one word, changed by compare-exchange: a change happens once, whoever else wants it at that moment, and
//! whoever has made it knows that. Each change begins a new generation. A request belongs to the one that let it pass; how it
//! fares says nothing about later ones, and a half-open breaker has as many places as requests of its generation are out.

use super::sync::{AtomicU64, Ordering};
use super::thresholds::{Cause, Outcome, Thresholds};
use super::window::{Counts, GENERATION_BITS, Generation, Row, Window, mask};
use std::time::Duration;

/// Decides which requests pass, from how those before have fared.
#[derive(Default)]
pub(super) struct Machine {
    /// What each request reads, apart from what each writes.
    word: Apart<AtomicU64>,
    row: Row,
    window: Window,
}

/// Alone in its lines of the cache.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// That a request may pass, and whom it is to tell how it fares.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    generation: Generation,
    is_trial: bool,
}

impl Ticket {
    /// Whether it is to show if things are better.
    pub fn is_trial(self) -> bool {
        self.is_trial
    }
}

/// A request that does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rejected {
    /// After how long another may; zero where that depends on how requests fare that are out.
    pub retry_after: Duration,
}

/// A state, without its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Every request passes.
    Closed,
    /// None does.
    Open,
    /// A few do.
    HalfOpen,
}

/// A change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: State,
    /// The state now.
    pub to: State,
    /// How long that is so, where that is known.
    pub lasts: Option<Duration>,
    /// Why.
    pub cause: Cause,
}

/// How a breaker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerStatus {
    /// The state.
    pub state: State,
    /// Whether that is an operator's wish.
    pub is_forced: bool,
    /// Until when it is open, or forced.
    pub until: Option<Duration>,
    /// What was counted in its window.
    pub counts: Counts,
    /// How many requests in a row have failed.
    pub failures_in_a_row: u32,
    /// Of a half-open one, how many requests are out.
    pub trials: u32,
    /// Of a half-open one, how many requests have succeeded.
    pub successes: u32,
    /// How often it has opened without being closed for long.
    pub times_opened: u32,
}

/// What the word says.
#[derive(Clone, Copy)]
struct Standing {
    state: StateData,
    generation: Generation,
    /// How often it has opened without being closed for long.
    opened: u32,
}

/// Times are in [`TICK`]s.
#[derive(Clone, Copy)]
enum StateData {
    Closed {
        since: u64,
    },
    Open {
        until: u64,
    },
    /// The last one of those that are out has its time until then, in [`STEP`]s.
    HalfOpen {
        out: u64,
        successes: u64,
        until: u64,
    },
    ForcedOpen {
        until: u64,
    },
    ForcedClosed {
        until: u64,
    },
}

/// What times in the word are counted in: 36 bits of that are 21 years.
const TICK: Duration = Duration::from_millis(10);

/// What the time of trials is counted in, round after 3.6 hours: what is past for longer than half of that counts as future once more.
const STEP: Duration = Duration::from_millis(200);

const DATA_BITS: u32 = 36;
/// For a number of trials: there are 1,000 of them at most.
const TRIAL_BITS: u32 = 10;
const STEP_BITS: u32 = DATA_BITS - 2 * TRIAL_BITS;
const OPENED_BITS: u32 = 5;

impl Machine {
    /// Ends what has lasted for its time: an open breaker becomes half-open, one that is held closed decides by itself again,
    /// and one that is half-open tries others.
    pub(super) fn expire(&self, thresholds: &Thresholds, now: Duration) -> Option<Transition> {
        let ends = |state: StateData| state.until().is_some_and(|it| is_past(it, now));
        let is_stuck = |state: StateData| state.is_stuck(thresholds, now);
        let moved = self.move_on(Cause::TimePassed, ends, now);
        moved.or_else(|| self.move_on(Cause::TrialsStuck, is_stuck, now))
    }

    /// Whether a request may pass. What has lasted for its time has to be ended before.
    pub(super) fn try_pass(
        &self,
        thresholds: &Thresholds,
        now: Duration,
    ) -> Result<Ticket, Rejected> {
        let most = thresholds.most_trials();
        loop {
            let (word, standing) = self.read();
            let generation = standing.generation;
            match standing.state {
                StateData::Closed { .. } | StateData::ForcedClosed { .. } => {
                    return Ok(Ticket { generation, is_trial: false });
                }
                StateData::Open { until } | StateData::ForcedOpen { until } => {
                    return Err(Rejected { retry_after: time(until).saturating_sub(now) });
                }
                StateData::HalfOpen { out, successes, .. } if out < most => {
                    let until = steps_up(now + thresholds.patience(standing.opened));
                    let state = StateData::HalfOpen { out: out + 1, successes, until };
                    if self.change(word, Standing { state, ..standing }) {
                        return Ok(Ticket { generation, is_trial: true });
                    }
                }
                StateData::HalfOpen { .. } => return Err(Rejected { retry_after: Duration::ZERO }),
            }
        }
    }

    /// Whether a request would pass; nothing changes.
    pub(super) fn check(&self, thresholds: &Thresholds, now: Duration) -> Result<(), Rejected> {
        match self.read().1.state {
            StateData::Open { until } | StateData::ForcedOpen { until } if !is_past(until, now) => {
                Err(Rejected { retry_after: time(until).saturating_sub(now) })
            }
            state if state.is_full(thresholds) && !state.is_stuck(thresholds, now) => {
                Err(Rejected { retry_after: Duration::ZERO })
            }
            StateData::Closed { .. }
            | StateData::Open { .. }
            | StateData::HalfOpen { .. }
            | StateData::ForcedOpen { .. }
            | StateData::ForcedClosed { .. } => Ok(()),
        }
    }

    /// Notes how a request has fared that passed.
    pub(super) fn finish(
        &self,
        thresholds: &Thresholds,
        ticket: Ticket,
        outcome: Outcome,
        now: Duration,
    ) -> Option<Transition> {
        match ticket.is_trial {
            true => self.finish_trial(thresholds, ticket, outcome, now),
            false => self.count(thresholds, ticket, outcome, now),
        }
    }

    /// Gives the place of a request back of which nobody will know how it fares.
    pub(super) fn give_back(&self, ticket: Ticket) {
        let without = |word| {
            let standing = Standing::of(word);
            let StateData::HalfOpen { out, successes, until } = standing.state else { return None };
            let is_own = standing.generation == ticket.generation;
            let state = StateData::HalfOpen { out: out.saturating_sub(1), successes, until };
            is_own.then(|| Standing { state, ..standing }.word())
        };
        if ticket.is_trial {
            // Fails where the place is one no more.
            let _ = self.word.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, without);
        }
    }

    /// Notes how a request of a half-open breaker has fared. Its place is given back, or is one no more.
    fn finish_trial(
        &self,
        thresholds: &Thresholds,
        ticket: Ticket,
        outcome: Outcome,
        now: Duration,
    ) -> Option<Transition> {
        loop {
            let (word, standing) = self.read();
            let StateData::HalfOpen { out, successes, until } = standing.state else { return None };
            if standing.generation != ticket.generation {
                return None;
            }
            let out = out.saturating_sub(1);
            let enough = thresholds.close_after.get();
            let cause = match (outcome, thresholds.slow(outcome)) {
                (Outcome::Failure { .. }, _) => Some(Cause::TrialFailed),
                (_, Some(took)) => Some(Cause::TrialSlow(took)),
                (Outcome::Success { .. }, None) if successes + 1 >= enough.into() => {
                    Some(Cause::TrialsSucceeded(enough))
                }
                (Outcome::Success { .. } | Outcome::Neutral, None) => None,
            };
            let next = match cause {
                None => {
                    let successes = successes + u64::from(outcome != Outcome::Neutral);
                    Standing { state: StateData::HalfOpen { out, successes, until }, ..standing }
                }
                Some(Cause::TrialsSucceeded(_)) => {
                    standing.becomes(StateData::Closed { since: ticks(now) })
                }
                Some(_) => standing.opens(thresholds, now),
            };
            if self.change(word, next) {
                return cause.map(|cause| standing.change(next, cause).timed(thresholds, next));
            }
        }
    }

    /// Counts a request of a closed breaker. It opens by one that has failed, or was slow.
    fn count(
        &self,
        thresholds: &Thresholds,
        ticket: Ticket,
        outcome: Outcome,
        now: Duration,
    ) -> Option<Transition> {
        let (word, standing) = self.read();
        let is_closed = matches!(standing.state, StateData::Closed { .. });
        if !is_closed || standing.generation != ticket.generation || outcome == Outcome::Neutral {
            return None;
        }
        let failed = matches!(outcome, Outcome::Failure { .. });
        let slow = thresholds.slow(outcome).is_some();
        let is_current = || self.read().1.generation == ticket.generation;
        let in_a_row = match failed {
            true => self.row.add(ticket.generation, is_current),
            false => {
                self.row.end(ticket.generation);
                0
            }
        };
        if thresholds.has_shares() {
            let time = (now, thresholds.window);
            self.window.count((ticket.generation, is_current), time, (failed, slow));
        }
        if !failed && !slow {
            return None;
        }
        let sum = || self.window.sum(ticket.generation, now, thresholds.window);
        let cause = thresholds.cause(failed.then_some(in_a_row), slow, sum)?;
        let next = standing.opens(thresholds, now);
        // Of one generation, the word of a closed breaker stays as it is: another one has opened it.
        self.change(word, next).then(|| standing.change(next, cause).timed(thresholds, next))
    }

    /// Holds it open or closed until that time, whatever happens.
    pub(super) fn force(&self, is_open: bool, now: Duration, until: Duration) -> Transition {
        let lasts = Some(until.saturating_sub(now));
        let until = ticks(until);
        let state = match is_open {
            true => StateData::ForcedOpen { until },
            false => StateData::ForcedClosed { until },
        };
        loop {
            let (word, standing) = self.read();
            let next = standing.becomes(state);
            if self.change(word, next) {
                return Transition { lasts, ..standing.change(next, Cause::Forced) };
            }
        }
    }

    /// Takes that back: it goes on as if the time had passed.
    pub(super) fn release(&self, now: Duration) -> Option<Transition> {
        self.move_on(Cause::Released, StateData::is_forced, now)
    }

    /// What follows a state that lasts for a time, if it `ends` now.
    fn move_on(
        &self,
        cause: Cause,
        ends: impl Fn(StateData) -> bool,
        now: Duration,
    ) -> Option<Transition> {
        loop {
            let (word, standing) = self.read();
            if !ends(standing.state) {
                return None;
            }
            let next = standing.becomes(standing.state.after(now)?);
            if self.change(word, next) {
                return Some(standing.change(next, cause));
            }
        }
    }

    /// How it is doing.
    pub(super) fn status(&self, thresholds: &Thresholds, now: Duration) -> BreakerStatus {
        let (_, standing) = self.read();
        let (trials, successes) = match standing.state {
            StateData::HalfOpen { out, successes, .. } => (out, successes),
            _ => (0, 0),
        };
        let whole = |number| u32::try_from(number).unwrap_or(u32::MAX);
        BreakerStatus {
            state: standing.state.state(),
            is_forced: standing.state.is_forced(),
            until: standing.state.until().map(time),
            counts: self.window.sum(standing.generation, now, thresholds.window),
            failures_in_a_row: self.row.get(standing.generation),
            trials: whole(trials),
            successes: whole(successes),
            times_opened: standing.opened,
        }
    }

    /// Until when no request passes; `None` where some do.
    pub(super) fn open_until(&self) -> Option<Duration> {
        match self.read().1.state {
            StateData::Open { until } | StateData::ForcedOpen { until } => Some(time(until)),
            StateData::Closed { .. }
            | StateData::HalfOpen { .. }
            | StateData::ForcedClosed { .. } => None,
        }
    }

    /// The state.
    pub(super) fn state(&self) -> State {
        self.read().1.state.state()
    }

    /// Whether it does not change as time passes.
    pub(super) fn is_still(&self) -> bool {
        matches!(self.read().1.state, StateData::Closed { .. })
    }

    fn read(&self) -> (u64, Standing) {
        let word = self.word.0.load(Ordering::Acquire);
        (word, Standing::of(word))
    }

    /// Whether the word was still that one, and is `next` now.
    fn change(&self, word: u64, next: Standing) -> bool {
        let changed =
            self.word.0.compare_exchange(word, next.word(), Ordering::AcqRel, Ordering::Acquire);
        changed.is_ok()
    }
}

impl Transition {
    /// Says how long it is open, if it has opened.
    fn timed(self, thresholds: &Thresholds, next: Standing) -> Transition {
        let opens = self.to == State::Open;
        Transition { lasts: opens.then(|| thresholds.open_for(next.opened)), ..self }
    }
}

impl Standing {
    fn of(word: u64) -> Standing {
        let data = word & mask(DATA_BITS);
        let state = match word >> (DATA_BITS + GENERATION_BITS + OPENED_BITS) {
            0 => StateData::Closed { since: data },
            1 => StateData::Open { until: data },
            2 => StateData::HalfOpen {
                out: data >> (TRIAL_BITS + STEP_BITS),
                successes: data >> STEP_BITS & mask(TRIAL_BITS),
                until: data & mask(STEP_BITS),
            },
            3 => StateData::ForcedOpen { until: data },
            _ => StateData::ForcedClosed { until: data },
        };
        let opened = word >> (DATA_BITS + GENERATION_BITS) & mask(OPENED_BITS);
        Standing {
            state,
            generation: Generation::of(word >> DATA_BITS),
            opened: u32::try_from(opened).unwrap_or_default(),
        }
    }

    fn word(self) -> u64 {
        let (tag, data) = match self.state {
            StateData::Closed { since } => (0, since),
            StateData::Open { until } => (1, until),
            StateData::HalfOpen { out, successes, until } => {
                (2, (out << TRIAL_BITS | successes) << STEP_BITS | until)
            }
            StateData::ForcedOpen { until } => (3, until),
            StateData::ForcedClosed { until } => (4, until),
        };
        let tag = tag << OPENED_BITS | u64::from(self.opened);
        (tag << GENERATION_BITS | self.generation.number()) << DATA_BITS | data
    }

    /// The same breaker in another state, and so in another generation.
    fn becomes(self, state: StateData) -> Standing {
        Standing { state, generation: self.generation.next(), opened: self.opened }
    }

    /// It opens: for longer than the last time, unless that is long ago.
    fn opens(self, thresholds: &Thresholds, now: Duration) -> Standing {
        let is_first = match self.state {
            StateData::Closed { since } => {
                now >= time(since).saturating_add(thresholds.max_open_time)
            }
            _ => false,
        };
        let before = if is_first { 0 } else { self.opened };
        let opened = (before + 1).min(u32::try_from(mask(OPENED_BITS)).unwrap_or(u32::MAX));
        let until = ticks(now.saturating_add(thresholds.open_for(opened)));
        Standing { opened, ..self.becomes(StateData::Open { until }) }
    }

    fn change(self, next: Standing, cause: Cause) -> Transition {
        let [from, to] = [self, next].map(|it| it.state.state());
        Transition { from, to, lasts: None, cause }
    }
}

impl StateData {
    fn state(self) -> State {
        match self {
            StateData::Closed { .. } | StateData::ForcedClosed { .. } => State::Closed,
            StateData::Open { .. } | StateData::ForcedOpen { .. } => State::Open,
            StateData::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// What follows when its time is over; `None` of one that lasts until something happens.
    fn after(self, now: Duration) -> Option<StateData> {
        match self {
            StateData::Open { .. } | StateData::ForcedOpen { .. } => {
                Some(StateData::HalfOpen { out: 0, successes: 0, until: 0 })
            }
            // What has succeeded has shown it, whatever became of the others.
            StateData::HalfOpen { successes, .. } => {
                Some(StateData::HalfOpen { out: 0, successes, until: 0 })
            }
            StateData::ForcedClosed { .. } => Some(StateData::Closed { since: ticks(now) }),
            StateData::Closed { .. } => None,
        }
    }

    /// Whether as many trials are out as may be.
    fn is_full(self, thresholds: &Thresholds) -> bool {
        matches!(self, StateData::HalfOpen { out, .. } if out >= thresholds.most_trials())
    }

    /// Whether they are for too long, each of them: the time is that of the last one.
    fn is_stuck(self, thresholds: &Thresholds, now: Duration) -> bool {
        let StateData::HalfOpen { until, .. } = self else { return false };
        let past = steps(now).wrapping_sub(until) & mask(STEP_BITS);
        self.is_full(thresholds) && past < 1 << (STEP_BITS - 1)
    }

    fn is_forced(self) -> bool {
        matches!(self, StateData::ForcedOpen { .. } | StateData::ForcedClosed { .. })
    }

    fn until(self) -> Option<u64> {
        match self {
            StateData::Open { until }
            | StateData::ForcedOpen { until }
            | StateData::ForcedClosed { until } => Some(until),
            StateData::Closed { .. } | StateData::HalfOpen { .. } => None,
        }
    }
}

/// Whether `now` has come to it.
fn is_past(until: u64, now: Duration) -> bool {
    ticks(now) >= until
}

/// Rounded down, also where something ends: it never lasts longer than clients are told.
fn ticks(time: Duration) -> u64 {
    let ticks = u64::try_from(time.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX);
    ticks.min(mask(DATA_BITS))
}

/// Rounded up: a trial has all of its time.
fn steps_up(time: Duration) -> u64 {
    steps(time + STEP.saturating_sub(Duration::from_millis(1)))
}

/// Whole steps, counted round.
fn steps(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / STEP.as_millis()).unwrap_or_default() & mask(STEP_BITS)
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(10))
}
