//! Permits that a gateway takes from a store ahead of requests: which requests they serve, when more are taken and how many, and
//! what is given back. No I/O: who calls this makes the calls.
//!
//! ```text
//!            busy, fewer than half left              the store has replied
//!  resting ------------------------------> renewing -----------------------> resting
//!     |                                                                         |
//!     +------- 100 ms after the last batch: what is left is given back <--------+
//!                       (and no batch is taken before the store has it)
//! ```
//!
//! A key has an entry in a [`Table`], as in the limiter. What it owes there is how busy it is, so that keys that come often displace
//! those that come seldom. One that holds permits, or is renewing, keeps its entry until these are used or given back; where there
//! is no room the store decides about each request. A request that takes a permit while its entry gets to another key does not
//! count on it: such a permit is lost, and comes back by itself, like all that the store has counted. So errors are on the side of
//! the limit.
//!
//! Beside its permits an entry has what the store said last: what the key owed by each rate, which is the least that it owes until
//! that is gone. A request that does not fit even then is refused without a call, for up to [`FRESH`].

use super::limiter::{CellRate, Charge, Count, MAX_RATES, Outcome, Verdict};
use super::sync::{AtomicU64, Ordering};
use super::table::{Debt, Slot, Table, WriterId};

/// The permits of all keys that a gateway holds.
pub(crate) struct Leases {
    table: Table,
    /// The rates of each plan.
    plans: Box<[Box<[CellRate]>]>,
}

/// What a gateway can say of a request by itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// What becomes of it: nothing where the store decides. It never waits.
    pub(crate) outcome: Option<Outcome>,
    /// Permits that are to be taken from the store now.
    pub(crate) renewal: Option<Renewal>,
}

/// A batch that is to be taken. Until [`Leases::granted`] or [`Leases::end`] no other is taken for the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// Whose it is.
    pub(crate) key: LeaseKey,
    /// How many permits.
    pub(crate) asked: u64,
}

/// A key in the table, and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseKey {
    hash: u64,
    place: usize,
    /// The place of its plan.
    pub(crate) plan: usize,
}

/// What the store has said of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The permits; 0 if not one fits.
    pub(crate) permits: u64,
    /// The nanoseconds after which one fits again, if none does.
    pub(crate) wait: u64,
    /// What is owed by each rate then.
    pub(crate) owed: [u64; MAX_RATES],
}

/// The values of an entry.
#[derive(Clone, Copy)]
struct Entry<'t>(&'t [AtomicU64]);

/// Permits, and the time in milliseconds until when they are used.
#[derive(Clone, Copy)]
struct Held {
    until: u64,
    permits: u64,
}

/// How permits are taken: when that was begun last, for which number, and whether it is under way.
#[derive(Clone, Copy)]
struct Pace {
    at: u64,
    batch: u64,
    is_renewing: bool,
}

/// Until when, in milliseconds, what the store has said refuses requests of the key with that tag.
#[derive(Clone, Copy)]
struct Refusal {
    until: u64,
    tag: u64,
    /// Whether it refuses all, since not one permit was to be had.
    is_whole: bool,
}

/// The values of an entry besides two for each rate: what is owed, and what was with its last batch.
const FIXED: usize = 4;
/// The keys that hold permits at a time, or nearly so many; others are counted exactly.
const MAX_KEYS: usize = 4096;
/// The nanoseconds after the last batch for which permits are used.
pub(crate) const LEASE: u64 = 100 * MILLISECOND;
/// The fewest permits that are worth a batch, and the requests in the time of a lease of a key that gets any.
pub(crate) const MIN_BATCH: u64 = 4;
/// The part of a burst that all gateways together may hold, where that is more than the rate gives in the time of a lease.
const BURST_SHARE: u64 = 20;
/// The most that a word has room for.
const MAX_BATCH: u64 = (1 << 23) - 1;
/// A batch that was used up to its half in fewer milliseconds was too small.
const TOO_SOON: u64 = 25;
/// And one that has lasted for more was too large.
const TOO_LATE: u64 = 50;
/// The fewest milliseconds between two batches for one key.
const BETWEEN: u64 = 2;
/// The fewest milliseconds after which the store is asked again that had not one permit, where half a burst takes no less to come back.
const PAUSE: u64 = 10;
/// The most milliseconds for which requests are refused by what the store said: others may have given permits back.
pub(crate) const FRESH: u64 = 1000;
/// What a request adds to how busy its key is, which goes by with time.
const DEMAND: u64 = LEASE / MIN_BATCH;
const MAX_DEMAND: u64 = 2 * LEASE;
/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;

const PERMIT_BITS: u32 = 24;
const TAG_BITS: u32 = 23;

impl Leases {
    /// Those of requests with one of these plans, for a limit that remembers so many keys.
    pub(crate) fn new(plans: Box<[Box<[CellRate]>]>, capacity: usize) -> Leases {
        let rates = plans.iter().map(|rates| rates.len()).max().unwrap_or(0);
        Leases { table: Table::new(capacity.min(MAX_KEYS), FIXED + 2 * rates), plans }
    }

    /// Decides about a request that does not wait, if that can be done here. `now` is in nanoseconds that never go back, and
    /// `gateways` is how many share the limit. The same request `is_again` asked about where the store had none for it meanwhile:
    /// it makes its key no busier.
    pub(crate) fn serve(
        &self,
        (hash, is_again): (u64, bool),
        charge: Charge,
        gateways: u64,
        writer: WriterId,
        now: u64,
    ) -> Served {
        let debt = |values: &[AtomicU64]| Entry(values).debt(now);
        let Ok(slot) = self.table.find(hash, writer, debt, |_| true) else { return Served::ASK };
        let (entry, rates) = (Entry(slot.values), &self.plans[charge.plan]);
        let is_busy = if is_again { entry.is_busy(now) } else { entry.note_demand(now) };
        let taken = entry.take(charge.cost, now);
        if taken.is_some() && !slot.is_kept() {
            return Served::ASK;
        }
        let outcome = match taken {
            Some(left) => Some(entry.passed(rates, left, now)),
            None => entry.refused(hash, charge, rates, now),
        };
        let is_low = taken.is_none_or(|left| 2 * left <= entry.pace().batch);
        // Permits of which no request can be served would only be missing to those that ask the store.
        let is_served = charge.cost <= self.most(charge.plan, gateways);
        let renews = is_busy && is_low && is_served && (taken.is_some() || outcome.is_none());
        let key = LeaseKey { hash, place: slot.place, plan: charge.plan };
        let renewal = renews.then(|| self.begin(&slot, key, gateways, now)).flatten();
        Served { outcome, renewal }
    }

    /// The store has replied. Ends the renewal.
    pub(crate) fn granted(&self, renewal: Renewal, grant: &Grant, now: u64) {
        let Renewal { key, .. } = renewal;
        let entry = self.entry(key);
        entry.note_owed(&grant.owed, now);
        if grant.permits > 0 {
            entry.note_charged(&grant.owed, now);
            entry.add(grant.permits, now);
        } else {
            entry.note_refusal(key.hash, (grant.wait, self.pause(key.plan)), now);
        }
        self.end(renewal);
    }

    /// There is no batch. To be called once for each renewal, unless the store has replied.
    pub(crate) fn end(&self, renewal: Renewal) {
        self.entry(renewal.key).unmark();
    }

    /// The store has refused a request, and said so much. Rare keys ask it each time.
    pub(crate) fn note_refused(&self, hash: u64, grant: &Grant, writer: WriterId, now: u64) {
        let debt = |values: &[AtomicU64]| Entry(values).debt(now);
        let Ok(slot) = self.table.find(hash, writer, debt, |_| false) else { return };
        let entry = Entry(slot.values);
        // What a renewal says is newer.
        if !entry.is_busy(now) || !entry.mark(|pace| pace) {
            return;
        }
        if slot.is_kept() {
            entry.note_owed(&grant.owed, now);
            entry.note_refusal(hash, (grant.wait, 0), now);
        }
        entry.unmark();
    }

    /// For how many nanoseconds permits of the key can be used yet; nothing if it holds none.
    pub(crate) fn lasts(&self, key: LeaseKey, now: u64) -> Option<u64> {
        let held = self.entry(key).held();
        let is_own = held.permits > 0 && self.table.is_held(key.place, key.hash);
        is_own.then(|| (held.until * MILLISECOND).saturating_sub(now))
    }

    /// Takes permits away from a key whose time is over, or whatever it has: so many are to be given back. If there are any, no
    /// batch is taken for the key until [`Leases::given_back`]: what is on its way back counts as held. Nothing is known while others
    /// change the entry.
    pub(crate) fn reclaim(&self, key: LeaseKey, is_whatever: bool, now: u64) -> Option<u64> {
        let entry = self.entry(key);
        if !entry.mark(|pace| pace) {
            return None;
        }
        let is_own = self.table.is_held(key.place, key.hash);
        let permits = if is_own { entry.empty(is_whatever, now) } else { 0 };
        if permits == 0 {
            entry.unmark();
            return Some(0);
        }
        // What the store said of a lack of permits did not know of these.
        entry.0[3].store(0, Ordering::SeqCst);
        Some(permits)
    }

    /// When nothing of what a key has taken is owed by each rate any more, by its last batch: what others were charged later is not
    /// for it to give back. To be asked between [`Leases::reclaim`] and [`Leases::given_back`], while there is no other batch.
    pub(crate) fn charged(&self, key: LeaseKey) -> [u64; MAX_RATES] {
        let mut charged = [0; MAX_RATES];
        for (charged, at) in charged.iter_mut().zip(self.entry(key).charged()) {
            *charged = load(at);
        }
        charged
    }

    /// What was taken away from a key is back, or lost. To be called once after [`Leases::reclaim`] has taken any.
    pub(crate) fn given_back(&self, key: LeaseKey) {
        self.entry(key).unmark();
    }

    /// The most permits that one of so many gateways holds of a key.
    pub(crate) fn most(&self, plan: usize, gateways: u64) -> u64 {
        let of = |rate: &CellRate| {
            let burst = rate.tolerance / rate.interval;
            let usual = (LEASE / rate.interval).max(burst / (BURST_SHARE * gateways));
            usual.min(burst / (2 * gateways))
        };
        self.plans[plan].iter().map(of).min().unwrap_or(0).min(MAX_BATCH)
    }

    /// For how many milliseconds requests of a key are refused for which there was no permit. What comes back meanwhile has to have room
    /// in each burst: what has none is lost, and the key would get less than its rate.
    fn pause(&self, plan: usize) -> u64 {
        let halves = self.plans[plan].iter().map(|rate| rate.tolerance / 2 / MILLISECOND);
        halves.min().unwrap_or(PAUSE).clamp(1, PAUSE)
    }

    /// A batch for the key, if one is worth it and none is taken already.
    fn begin(&self, slot: &Slot<'_>, key: LeaseKey, gateways: u64, now: u64) -> Option<Renewal> {
        let (entry, at) = (Entry(slot.values), now / MILLISECOND);
        let pace = entry.pace();
        let most = self.most(key.plan, gateways);
        let is_too_soon = pace.batch > 0 && at < pace.at + BETWEEN;
        if pace.is_renewing || is_too_soon || most < MIN_BATCH {
            return None;
        }
        let batch = pace.next(at).min(most);
        if !entry.mark(|_| Pace { at, batch, is_renewing: true }) {
            return None;
        }
        let asked = batch.saturating_sub(entry.held().permits);
        if asked == 0 || !slot.is_kept() {
            entry.unmark();
            return None;
        }
        Some(Renewal { key, asked })
    }

    fn entry(&self, key: LeaseKey) -> Entry<'_> {
        Entry(self.table.values_at(key.place))
    }
}

impl Served {
    /// The store decides.
    const ASK: Served = Served { outcome: None, renewal: None };
}

impl Entry<'_> {
    fn demand(&self) -> &AtomicU64 {
        &self.0[0]
    }

    fn held(&self) -> Held {
        Held::of(load(&self.0[1]))
    }

    fn pace(&self) -> Pace {
        Pace::of(load(&self.0[2]))
    }

    /// The times at which nothing is owed any more, as far as is known.
    fn arrivals(&self) -> &[AtomicU64] {
        let rates = &self.0[FIXED..];
        &rates[..rates.len() / 2]
    }

    /// Those times as the store said with the last batch.
    fn charged(&self) -> &[AtomicU64] {
        let rates = &self.0[FIXED..];
        &rates[rates.len() / 2..]
    }

    /// What keeps the entry.
    fn debt(&self, now: u64) -> Debt {
        // In this order: permits are added before their renewal ends, and would otherwise be seen neither before nor after it.
        let is_running = self.pace().is_renewing || self.held().permits > 0;
        let mut debt = Debt { is_running, ..Debt::default() };
        debt.times[0] = load(self.demand()).saturating_sub(now);
        debt
    }

    /// Counts a request; tells whether they come often. One that another thread counts at the same moment may not count.
    fn note_demand(&self, now: u64) -> bool {
        let known = load(self.demand());
        let level = (known.max(now) + DEMAND).min(now + MAX_DEMAND).max(known);
        let _ = swap(self.demand(), known, level);
        self.is_busy(now)
    }

    fn is_busy(&self, now: u64) -> bool {
        load(self.demand()) >= now + LEASE
    }

    /// Takes permits; tells how many are left.
    fn take(&self, cost: u64, now: u64) -> Option<u64> {
        self.change(|held| {
            let left = held.permits.checked_sub(cost)?;
            let is_fresh = held.until > now / MILLISECOND;
            is_fresh.then_some((Held { permits: left, ..held }, left))
        })
    }

    /// Adds permits.
    fn add(&self, permits: u64, now: u64) {
        let until = (now + LEASE) / MILLISECOND;
        self.change(|held| Some((Held { until, permits: held.permits + permits }, ())));
    }

    /// Takes all permits away if their time is over, or if that does not matter.
    fn empty(&self, is_whatever: bool, now: u64) -> u64 {
        let taken = self.change(|held| {
            let is_over = is_whatever || held.until <= now / MILLISECOND;
            is_over.then_some((Held { permits: 0, ..held }, held.permits))
        });
        taken.unwrap_or(0)
    }

    fn change<T>(&self, change: impl Fn(Held) -> Option<(Held, T)>) -> Option<T> {
        loop {
            let held = self.held();
            let (next, outcome) = change(held)?;
            if swap(&self.0[1], held.word(), next.word()) {
                return Some(outcome);
            }
        }
    }

    /// Takes the only place of those that change what the entry holds; tells whether it was free.
    fn mark(&self, next: impl Fn(Pace) -> Pace) -> bool {
        let pace = self.pace();
        let next = Pace { is_renewing: true, ..next(pace) };
        !pace.is_renewing && swap(&self.0[2], pace.word(), next.word())
    }

    fn unmark(&self) {
        let next = Pace { is_renewing: false, ..self.pace() };
        self.0[2].store(next.word(), Ordering::SeqCst);
    }

    fn note_owed(&self, owed: &[u64; MAX_RATES], now: u64) {
        for (arrival, owed) in self.arrivals().iter().zip(owed) {
            arrival.store(now.saturating_add(*owed), Ordering::SeqCst);
        }
    }

    fn note_charged(&self, owed: &[u64; MAX_RATES], now: u64) {
        for (charged, owed) in self.charged().iter().zip(owed) {
            charged.store(now.saturating_add(*owed), Ordering::SeqCst);
        }
    }

    /// What the store has refused is not asked again before that time, in nanoseconds, and before so many milliseconds.
    fn note_refusal(&self, hash: u64, (wait, pause): (u64, u64), now: u64) {
        let wait = (wait / MILLISECOND).clamp(pause, FRESH);
        let until = now / MILLISECOND + wait;
        let refusal = Refusal { until, tag: tag(hash), is_whole: pause > 0 };
        self.0[3].store(refusal.word(), Ordering::SeqCst);
    }

    /// A request has passed, and so many permits are left.
    fn passed(&self, rates: &[CellRate], left: u64, now: u64) -> Outcome {
        let mut counts = [Count::default(); MAX_RATES];
        for ((rate, arrival), count) in rates.iter().zip(self.arrivals()).zip(&mut counts) {
            let standing = rate.standing(load(arrival).saturating_sub(now), 1);
            let burst = rate.tolerance / rate.interval;
            *count = Count { left: (standing.left + left).min(burst), ..standing };
        }
        Outcome { verdict: Verdict::Passed { place: 0, delay: 0 }, counts }
    }

    /// What becomes of a request that the store would refuse, if that is known.
    fn refused(&self, hash: u64, charge: Charge, rates: &[CellRate], now: u64) -> Option<Outcome> {
        let refusal = Refusal::of(load(&self.0[3]));
        if refusal.tag != tag(hash) || refusal.until <= now / MILLISECOND {
            return None;
        }
        let pause = (refusal.until * MILLISECOND).saturating_sub(now);
        let mut wait = if refusal.is_whole { pause } else { 0 };
        let mut counts = [Count::default(); MAX_RATES];
        for ((rate, arrival), count) in rates.iter().zip(self.arrivals()).zip(&mut counts) {
            let owed = load(arrival).saturating_sub(now);
            let takes = charge.cost.saturating_mul(rate.interval);
            let own = owed.saturating_add(takes).saturating_sub(rate.tolerance);
            *count = Count { wait: own, ..rate.standing(owed, 1) };
            wait = wait.max(own);
        }
        (wait > 0).then_some(Outcome { verdict: Verdict::Exceeded { wait }, counts })
    }
}

impl Held {
    fn of(word: u64) -> Held {
        Held { until: word >> PERMIT_BITS, permits: word & ((1 << PERMIT_BITS) - 1) }
    }

    /// There is room: two batches have fewer permits than that, and the time is good for decades.
    fn word(self) -> u64 {
        self.until << PERMIT_BITS | self.permits
    }
}

impl Pace {
    fn of(word: u64) -> Pace {
        Pace { at: word >> PERMIT_BITS, batch: (word >> 1) & MAX_BATCH, is_renewing: word & 1 == 1 }
    }

    fn word(self) -> u64 {
        self.at << PERMIT_BITS | self.batch << 1 | u64::from(self.is_renewing)
    }

    /// The batch that is taken at that time, in milliseconds.
    fn next(self, at: u64) -> u64 {
        let lasted = at.saturating_sub(self.at);
        let batch = match lasted {
            0..TOO_SOON => 2 * self.batch,
            TOO_SOON..=TOO_LATE => self.batch,
            _ => self.batch / 2,
        };
        batch.max(MIN_BATCH)
    }
}

impl Refusal {
    fn of(word: u64) -> Refusal {
        Refusal {
            until: word >> (TAG_BITS + 1),
            tag: (word >> 1) & ((1 << TAG_BITS) - 1),
            is_whole: word & 1 == 1,
        }
    }

    fn word(self) -> u64 {
        self.until << (TAG_BITS + 1) | self.tag << 1 | u64::from(self.is_whole)
    }
}

/// What tells the key of a refusal from the one that had the entry before.
fn tag(hash: u64) -> u64 {
    hash.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> (64 - TAG_BITS)
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::SeqCst)
}

fn swap(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}
