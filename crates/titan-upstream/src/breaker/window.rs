//! What a breaker counts: how many requests have failed in a row, and how requests have fared of late.
//!
//! Nothing here is ever cleared. Each number carries the generation of the breaker that it belongs to, and where it is a part of
//! the window its time too: one that is of the past is replaced by whoever counts next, and is passed over by whoever sums up.
//! So there is no moment at which a count can get lost, or be taken for one of another generation.
//!
//! Which of two generations is the later one their numbers do not tell, for they are counted round and a number may stay for long. Whoever
//! counts asks the breaker: while its own generation is the current one, any other is of the past.

use super::sync::{AtomicU64, Ordering, PARTS};
use std::time::Duration;

/// Failures in a row: a generation, and below it their number.
#[derive(Default)]
pub(super) struct Row(AtomicU64);

/// Requests of the last while, in a ring of parts.
#[derive(Default)]
pub(super) struct Window {
    parts: [Part; PARTS],
}

/// Those of a part of that time. The numbers are words of their own, so that a success changes one alone.
#[derive(Default)]
struct Part {
    requests: Tally,
    failures: Tally,
    slow: Tally,
}

/// A generation, the beginning of a part, and below them a number.
#[derive(Default)]
struct Tally(AtomicU64);

/// What was counted in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that have succeeded or failed.
    pub requests: u64,
    /// Those that have failed.
    pub failures: u64,
    /// Those that took too long.
    pub slow: u64,
}

/// Which breaker's life a number belongs to: it changes whenever the breaker does. Counted round after [`GENERATION_BITS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Generation(u32);

/// The part of a window that a moment belongs to.
#[derive(Clone, Copy)]
struct Moment {
    generation: Generation,
    /// The beginning of the part, in units of [`UNIT`], counted round after 77 days.
    begins: u64,
    /// The place of the part in the ring.
    place: usize,
    /// How long the window is, in the same units.
    window: u64,
}

/// How old what a tally holds is to somebody who counts.
enum Age {
    Same,
    Past,
    Future,
    /// It is of another generation.
    Foreign,
}

/// What parts are measured in, and the shortest one.
const UNIT: Duration = Duration::from_millis(100);

/// The bits of a generation.
pub(super) const GENERATION_BITS: u32 = 20;

const COUNT_BITS: u32 = 26;
const BEGIN_BITS: u32 = 26;
/// Of a generation that many bits stand in a tally: two that differ by a multiple of it hardly ever meet in one part.
const SHORT_BITS: u32 = 12;

/// A part that lies further ahead than any clock differs is one of long ago.
const FAR: u64 = 36_000;

impl Generation {
    pub(super) fn of(number: u64) -> Generation {
        Generation(u32::try_from(number & mask(GENERATION_BITS)).unwrap_or_default())
    }

    pub(super) fn number(self) -> u64 {
        self.0.into()
    }

    pub(super) fn next(self) -> Generation {
        Generation::of(self.number() + 1)
    }

    fn short(self) -> u64 {
        self.number() & mask(SHORT_BITS)
    }
}

impl Row {
    /// Counts a failure; how many there are in a row now. `is_current` tells whether the breaker is of that generation.
    pub(super) fn add(&self, generation: Generation, is_current: impl Fn() -> bool) -> u32 {
        let longer = |word: u64| match word >> 32 == generation.number() {
            true => (count_in_row(word) < u32::MAX).then_some(word + 1),
            // Asked after the word was read: it stays as it was if the breaker has moved on and others count.
            false => is_current().then_some(generation.number() << 32 | 1),
        };
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, longer) {
            Ok(before) if before >> 32 == generation.number() => count_in_row(before) + 1,
            Ok(_) => 1,
            Err(_) => 0,
        }
    }

    /// A success ends it. Where there is nothing to end, that is a load.
    pub(super) fn end(&self, generation: Generation) {
        let none = |word| {
            let is_own = word >> 32 == generation.number() && count_in_row(word) != 0;
            is_own.then_some(generation.number() << 32)
        };
        // Fails where there is none.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, none);
    }

    /// How many there are in a row.
    pub(super) fn get(&self, generation: Generation) -> u32 {
        let word = self.0.load(Ordering::Acquire);
        if word >> 32 == generation.number() { count_in_row(word) } else { 0 }
    }
}

impl Window {
    /// Counts a request that ends at `now`. The whole before its parts, so that no share is ever taken of too little. `is_current` tells
    /// whether the breaker is of that generation.
    pub(super) fn count(
        &self,
        (generation, is_current): (Generation, impl Fn() -> bool),
        (now, window): (Duration, Duration),
        (failed, slow): (bool, bool),
    ) {
        let moment = Moment::at(now, window, generation);
        let part = &self.parts[moment.place];
        let is_counted = part.requests.add(&moment, &is_current);
        if is_counted && failed {
            part.failures.add(&moment, &is_current);
        }
        if is_counted && slow {
            part.slow.add(&moment, &is_current);
        }
    }

    /// What was counted in the time `window` before `now`.
    pub(super) fn sum(&self, generation: Generation, now: Duration, window: Duration) -> Counts {
        let moment = Moment::at(now, window, generation);
        self.parts.iter().fold(Counts::default(), |sum, part| {
            let (failures, slow) = (part.failures.get(&moment), part.slow.get(&moment));
            Counts {
                requests: sum.requests + part.requests.get(&moment),
                failures: sum.failures + failures,
                slow: sum.slow + slow,
            }
        })
    }
}

impl Tally {
    /// Counts one. False where that is of no use: the part is over for others already, or has counted all that it can.
    fn add(&self, moment: &Moment, is_current: impl Fn() -> bool) -> bool {
        let anew = Some(moment.stamp() << COUNT_BITS | 1);
        let more = |word| match moment.age_of(word) {
            Age::Same if word & mask(COUNT_BITS) < mask(COUNT_BITS) => Some(word + 1),
            Age::Same | Age::Future => None,
            Age::Past => anew,
            // Asked after the word was read: it stays as it was if the breaker has moved on and others count.
            Age::Foreign => anew.filter(|_| is_current()),
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// The number, if it is of the time that the window covers.
    fn get(&self, moment: &Moment) -> u64 {
        let word = self.0.load(Ordering::Acquire);
        if moment.covers(word) { word & mask(COUNT_BITS) } else { 0 }
    }
}

impl Moment {
    fn at(now: Duration, window: Duration, generation: Generation) -> Moment {
        let units = |time: Duration| time.as_millis().div_ceil(UNIT.as_millis());
        let units = |time| u64::try_from(units(time)).unwrap_or(u64::MAX);
        let window = units(window).max(1);
        let long = window.div_ceil(PARTS as u64);
        let part = (now.as_millis() / UNIT.as_millis()) / u128::from(long);
        let [place, begins] = [part % PARTS as u128, part * u128::from(long)];
        let place = usize::try_from(place).unwrap_or_default();
        let begins = u64::try_from(begins).unwrap_or_default() & mask(BEGIN_BITS);
        Moment { generation, begins, place, window }
    }

    fn stamp(&self) -> u64 {
        self.generation.short() << BEGIN_BITS | self.begins
    }

    fn age_of(&self, word: u64) -> Age {
        let stamp = word >> COUNT_BITS;
        match self.units_since(stamp) {
            _ if stamp >> BEGIN_BITS != self.generation.short() => Age::Foreign,
            0 => Age::Same,
            since if self.is_ahead(since) => Age::Future,
            _ => Age::Past,
        }
    }

    /// Whether the window covers what a word was counted in. Clocks of others may be a little ahead.
    fn covers(&self, word: u64) -> bool {
        let stamp = word >> COUNT_BITS;
        let since = self.units_since(stamp);
        stamp >> BEGIN_BITS == self.generation.short()
            && (since < self.window || self.is_ahead(since))
    }

    fn units_since(&self, stamp: u64) -> u64 {
        self.begins.wrapping_sub(stamp) & mask(BEGIN_BITS)
    }

    fn is_ahead(&self, since: u64) -> bool {
        since > mask(BEGIN_BITS) - FAR
    }
}

fn count_in_row(word: u64) -> u32 {
    u32::try_from(word & mask(32)).unwrap_or(u32::MAX)
}

pub(super) const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}
