//! Which requests pass: the generic cell rate algorithm over all rates of a limit, and the number that run at once.
//!
//! For each key and rate there is one number, the theoretical arrival time: the time at which the whole burst will be back.
//! A request moves it on by the rate's interval, from now if it lies behind, and passes if it then is no further
//! ahead than a burst takes. So of one key there pass, between any two of its requests, no more than the burst and one for
//! each interval between them; and whatever fits that does pass.
//!
//! A request that may wait may go beyond a burst by as much as it would wait. It then passes, with the time after which it is
//! its turn; so those that wait are a queue without a list, in which the number itself is the last place.
//!
//! A request that counts in an entry while another key takes that entry undoes its count; meanwhile that key may be
//! refused although it would fit, and a key that is pushed out of another entry of the set at that moment may have
//! one request more. This can only happen when a set of the table is full. All keys of a set together never have more
//! than its entries let through.
//!
//! Numbers are moved by compare-exchange, by all workers. With several rates all are looked at before one is moved; where
//! one then fails nevertheless the others are moved back, which is exact as long as they lie ahead of the clock, and without
//! effect where they do not.

use super::sync::{AtomicU64, Ordering};
use super::table::{Debt, MAX_TIMES, Table, WriterId};
use std::sync::Arc;

/// The most rates that a limit can have.
pub(crate) const MAX_RATES: usize = MAX_TIMES;
/// The nanoseconds after which to try again if that cannot be computed.
const SOON: u64 = 1_000_000_000;
/// The longest time that a request takes of a rate, in nanoseconds: that of the longest burst, some more than a year.
const MAX_CHARGE: u64 = 366 * 24 * 3600 * 1_000_000_000;
/// What can be owed beyond a rate, in nanoseconds: an hour.
const MAX_OWED: u64 = 3600 * 1_000_000_000;
/// As how many requests that is at least: a client's passwords that can wait to be checked at once.
const MIN_OWED: u64 = 32;

/// Decides about the requests of all keys.
pub(crate) struct Limiter {
    table: Arc<Table>,
    /// The rates of each plan. Only the first one counts what has happened already.
    plans: Box<[Box<[CellRate]>]>,
    /// How many rates the plan has that has most: that many values of an entry are arrival times.
    rates: usize,
    concurrency: Option<u64>,
}

/// What a request takes from a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// As how many requests it counts.
    pub(crate) cost: u64,
    /// The place of its plan.
    pub(crate) plan: usize,
    /// How many nanoseconds it would wait for its turn.
    pub(crate) max_delay: u64,
    /// How many limiters let parts of the same limit pass: each lets one of so many requests pass.
    pub(crate) share: u64,
}

/// A rate as the algorithm counts it, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellRate {
    /// The time that one request takes.
    pub(crate) interval: u64,
    /// The time that a burst takes.
    pub(crate) tolerance: u64,
}

impl Charge {
    /// One request that does not wait, of the first plan.
    pub(crate) const ONE: Charge = Charge { cost: 1, plan: 0, max_delay: 0, share: 1 };

    /// The time that it takes of a rate.
    fn of(&self, rate: &CellRate) -> u64 {
        let requests = self.cost.saturating_mul(self.share);
        requests.saturating_mul(rate.interval).min(MAX_CHARGE)
    }

    /// How far ahead of the clock a number may be that it has moved on. Where a burst is divided among more limiters than it has
    /// requests, each still lets one pass.
    fn burst(&self, rate: &CellRate) -> u64 {
        let fits_alone = self.cost.saturating_mul(rate.interval) <= rate.tolerance;
        if fits_alone { rate.tolerance.max(self.of(rate)) } else { rate.tolerance }
    }
}

/// What the numbers in a table mean: they are of other rates, or of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// The time that one request takes by each rate; none where that depends on the plan, which an entry does not tell.
    intervals: Box<[Option<u64>]>,
    /// How far ahead of the clock each number may be.
    most: Box<[u64]>,
}

/// What has become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// How it then stands with each of the rates.
    pub(crate) counts: [Count; MAX_RATES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passes.
    Passed {
        /// Where what it takes of the concurrency is to be given back.
        place: usize,
        /// The nanoseconds after which it is its turn. Never more than its max_delay.
        delay: u64,
    },
    /// One of the rates is used up.
    Exceeded {
        /// The nanoseconds after which it would pass.
        wait: u64,
    },
    /// As many as may run do.
    Busy,
    /// There is no room for its key, and those that share its place have used up their rates.
    Full {
        /// The nanoseconds after which it may pass.
        wait: u64,
    },
}

/// How it stands with a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// How many requests would pass now.
    pub(crate) left: u64,
    /// The nanoseconds until the whole burst is back.
    pub(crate) reset: u64,
    /// The nanoseconds after which the request would have passed, where it has not.
    pub(crate) wait: u64,
}

/// How often a request whose entry is taken away from under it looks for another.
const MAX_TRIES: usize = 64;

impl Limiter {
    /// A limiter of requests with one of these plans, of which there is at least one.
    pub(crate) fn new(
        plans: Box<[Box<[CellRate]>]>,
        concurrency: Option<u64>,
        capacity: usize,
    ) -> Limiter {
        let stride = most_rates(&plans) + usize::from(concurrency.is_some());
        Limiter::over(Arc::new(Table::new(capacity, stride)), plans, concurrency)
    }

    /// The same over a table that counts already. Its numbers are those of [`Limiter::scale`], once they are converted.
    pub(crate) fn over(
        table: Arc<Table>,
        plans: Box<[Box<[CellRate]>]>,
        concurrency: Option<u64>,
    ) -> Limiter {
        let rates = most_rates(&plans);
        assert!(rates <= MAX_RATES, "the configuration bounds them");
        Limiter { table, plans, rates, concurrency }
    }

    /// The table.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What its numbers mean, where keys owe so much by a rate at most.
    pub(crate) fn scale(&self, most_owed: impl Fn(&CellRate) -> u64) -> Scale {
        let of = |place: usize| self.plans.iter().filter_map(move |rates| rates.get(place));
        let interval = |place| {
            let first = of(place).next()?.interval;
            of(place).all(|rate| rate.interval == first).then_some(first)
        };
        Scale {
            intervals: (0..self.rates).map(interval).collect(),
            most: (0..self.rates)
                .map(|place| of(place).map(&most_owed).max().unwrap_or(0))
                .collect(),
        }
    }

    /// Makes numbers of rates out of those that `from` was the scale of: a key has as many requests on its account as before.
    /// One that is counted meanwhile may count by either rate.
    pub(crate) fn convert(&self, from: &Scale, to: &Scale, now: u64) {
        for values in self.table.all_values() {
            for (place, value) in values.iter().take(self.rates).enumerate() {
                let converted = |arrival: u64| {
                    let owed = arrival.checked_sub(now).filter(|owed| *owed > 0)?;
                    Some(now + from.convert(place, owed, to))
                };
                // An error says that nothing is owed.
                let _ = value.fetch_update(Ordering::SeqCst, Ordering::SeqCst, converted);
            }
        }
    }

    /// Decides about a request. Those of one key have the same plan. `clock` tells nanoseconds that never go back.
    pub(crate) fn take(
        &self,
        hash: u64,
        charge: Charge,
        writer: WriterId,
        clock: impl Fn() -> u64,
    ) -> Outcome {
        let rates = &self.plans[charge.plan];
        for _ in 0..MAX_TRIES {
            let now = clock();
            let debt = |values: &[AtomicU64]| self.debt(values, now);
            let found =
                self.table.find(hash, writer, debt, |debt| is_bearable(rates, debt, charge));
            let slot = match found {
                Ok(slot) => slot,
                Err(least) => return refuse(rates, least, charge),
            };
            let mut counts = [Count::default(); MAX_RATES];
            let charged = self.charge(slot.values, charge, now, &mut counts, &clock);
            if slot.is_kept() {
                let passed = |(_, delay)| Verdict::Passed { place: slot.place, delay };
                return Outcome { verdict: charged.map_or_else(|refused| refused, passed), counts };
            }
            if let Ok((written, _)) = charged {
                undo(rates, slot.values, &written, charge, &clock);
                self.leave(slot.values);
            }
        }
        refuse(rates, None, charge)
    }

    /// Charges a key with one request that has happened already, also where that fits no more: then the excess is owed, and
    /// the key waits the longer. In a full set the key that owes least gives way, whatever it owes.
    pub(crate) fn owe(&self, hash: u64, writer: WriterId, clock: impl Fn() -> u64) {
        for _ in 0..MAX_TRIES {
            let now = clock();
            let debt = |values: &[AtomicU64]| self.debt(values, now);
            let Ok(slot) = self.table.find(hash, writer, debt, |_| true) else { return };
            let mut written = [0; MAX_RATES];
            let rates = &self.plans[0];
            for ((rate, value), written) in rates.iter().zip(slot.values).zip(&mut written) {
                *written = rate.owe(value, now);
            }
            if slot.is_kept() {
                return;
            }
            undo(rates, slot.values, &written, Charge::ONE, &clock);
        }
    }

    /// The nanoseconds after which one request of the key would pass. Charges nothing. Of a key without an entry counts what it
    /// would take over with one: in a full set that is the least that is owed there.
    pub(crate) fn wait(&self, hash: u64, now: u64) -> u64 {
        let owed = self.table.owed(hash, |values| self.debt(values, now));
        let rates = self.plans[0].iter().zip(owed.times);
        rates
            .map(|(rate, owed)| rate.advance(owed, Charge::ONE, 0).err().unwrap_or(0))
            .max()
            .unwrap_or(0)
    }

    /// A request that has passed is over.
    pub(crate) fn give_back(&self, place: usize) {
        self.leave(self.table.values_at(place));
    }

    pub(crate) fn limits_concurrency(&self) -> bool {
        self.concurrency.is_some()
    }

    /// The numbers that were written, and the nanoseconds after which it is the request's turn; or why it does not pass.
    fn charge(
        &self,
        values: &[AtomicU64],
        charge: Charge,
        now: u64,
        counts: &mut [Count; MAX_RATES],
        clock: &impl Fn() -> u64,
    ) -> Result<([u64; MAX_RATES], u64), Verdict> {
        let rates = &self.plans[charge.plan];
        let pairs = || rates.iter().zip(values);
        let mut wait = 0;
        for ((rate, value), count) in pairs().zip(counts.iter_mut()) {
            let arrival = load(value);
            *count = rate.count(arrival, now, charge.share);
            count.wait = rate.advance(arrival, charge, now).err().unwrap_or(0);
            wait = wait.max(count.wait);
        }
        if wait > 0 {
            return Err(Verdict::Exceeded { wait });
        }
        if !self.enter(values) {
            return Err(Verdict::Busy);
        }
        let (mut written, mut delay) = ([0; MAX_RATES], 0);
        for (place, (rate, value)) in pairs().enumerate() {
            match rate.charge(value, charge, now) {
                Ok(arrival) => {
                    written[place] = arrival;
                    counts[place] = rate.count(arrival, now, charge.share);
                    delay = delay.max(arrival.saturating_sub(now + charge.burst(rate)));
                }
                Err(wait) => {
                    counts[place].wait = wait;
                    undo(&rates[..place], values, &written, charge, clock);
                    self.leave(values);
                    return Err(Verdict::Exceeded { wait });
                }
            }
        }
        Ok((written, delay))
    }

    fn enter(&self, values: &[AtomicU64]) -> bool {
        let Some((running, most)) = values.last().zip(self.concurrency) else { return true };
        let mut count = load(running);
        while count < most {
            match swap(running, count, count + 1) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    fn leave(&self, values: &[AtomicU64]) {
        if let Some(running) = values.last().filter(|_| self.concurrency.is_some()) {
            running.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// What a key with these values owes. One that owes nothing is as one that was never seen.
    fn debt(&self, values: &[AtomicU64], now: u64) -> Debt {
        let (arrivals, running) = values.split_at(self.rates);
        let mut debt =
            Debt { is_running: running.iter().any(|it| load(it) > 0), ..Debt::default() };
        for (time, arrival) in debt.times.iter_mut().zip(arrivals) {
            *time = load(arrival).saturating_sub(now);
        }
        debt
    }
}

impl Scale {
    /// What is owed by the rate at that place, as `to` counts it.
    fn convert(&self, place: usize, owed: u64, to: &Scale) -> u64 {
        let owed = match (self.intervals[place], to.intervals[place]) {
            (Some(from), Some(to)) => {
                let scaled = u128::from(owed) * u128::from(to) / u128::from(from.max(1));
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
            _ => owed,
        };
        owed.min(to.most[place])
    }
}

impl CellRate {
    /// The most that can be owed where nothing is refused for it: [`Limiter::owe`].
    pub(crate) fn most_owed(&self) -> u64 {
        self.tolerance + MAX_OWED.max(MIN_OWED * self.interval)
    }

    /// The arrival time after a request, or the time after which it would pass or wait for its turn.
    fn advance(&self, arrival: u64, charge: Charge, now: u64) -> Result<u64, u64> {
        let next = arrival.max(now) + charge.of(self);
        let latest = now + charge.burst(self) + charge.max_delay;
        if next <= latest { Ok(next) } else { Err(next - latest) }
    }

    fn charge(&self, value: &AtomicU64, charge: Charge, now: u64) -> Result<u64, u64> {
        let mut arrival = load(value);
        loop {
            let next = self.advance(arrival, charge, now)?;
            match swap(value, arrival, next) {
                Ok(_) => return Ok(next),
                Err(now) => arrival = now,
            }
        }
    }

    /// Moves an arrival time on by one request, whether that passes or not; returns what it is then.
    fn owe(&self, value: &AtomicU64, now: u64) -> u64 {
        let most = now + self.most_owed();
        let mut arrival = load(value);
        loop {
            let next = (arrival.max(now) + self.interval).min(most).max(arrival);
            match swap(value, arrival, next) {
                Ok(_) => return next,
                Err(now) => arrival = now,
            }
        }
    }

    fn count(&self, arrival: u64, now: u64, share: u64) -> Count {
        self.standing(arrival.saturating_sub(now), share)
    }

    /// How it stands with a key that owes so much.
    pub(crate) fn standing(&self, reset: u64, share: u64) -> Count {
        let left = self.tolerance.saturating_sub(reset) / self.interval / share;
        Count { left, reset, wait: 0 }
    }
}

/// Refuses a request that has found no entry in a set in which so much is owed at least.
fn refuse(rates: &[CellRate], least: Option<Debt>, charge: Charge) -> Outcome {
    let mut counts = [Count::default(); MAX_RATES];
    let owed = least.unwrap_or_default().times;
    for ((rate, owed), count) in rates.iter().zip(owed).zip(&mut counts) {
        *count = Count { left: 0, ..rate.count(owed, 0, charge.share) };
        // Where it would fit, each entry has running requests, or one that owes less by one rate owes more by another.
        count.wait = rate.advance(owed, charge, 0).err().unwrap_or(SOON);
    }
    let longest = counts.iter().map(|count| count.wait).max();
    let wait = longest.filter(|wait| *wait > 0).unwrap_or(SOON);
    Outcome { verdict: Verdict::Full { wait }, counts }
}

/// Whether a request would pass though so much is owed already.
fn is_bearable(rates: &[CellRate], debt: &Debt, charge: Charge) -> bool {
    let mut rates = rates.iter().zip(debt.times);
    rates.all(|(rate, owed)| rate.advance(owed, charge, 0).is_ok())
}

/// Takes back what was written. A number that the clock has passed by may have been moved on from there: then what was
/// written has come back by itself.
fn undo(
    rates: &[CellRate],
    values: &[AtomicU64],
    written: &[u64],
    charge: Charge,
    clock: &impl Fn() -> u64,
) {
    for ((rate, value), written) in rates.iter().zip(values).zip(written) {
        let mut arrival = load(value);
        while clock() < *written {
            match swap(value, arrival, arrival.saturating_sub(charge.of(rate))) {
                Ok(_) => break,
                Err(now) => arrival = now,
            }
        }
    }
}

fn most_rates(plans: &[Box<[CellRate]>]) -> usize {
    plans.iter().map(|rates| rates.len()).max().unwrap_or(0)
}

fn load(value: &AtomicU64) -> u64 {
    value.load(Ordering::SeqCst)
}

fn swap(value: &AtomicU64, from: u64, to: u64) -> Result<u64, u64> {
    value.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
}
