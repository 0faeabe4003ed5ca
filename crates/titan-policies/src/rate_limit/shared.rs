//! Limits that the gateways of a fleet count together, in a store: the algorithm of [`super::limiter`], as a script there.
//!
//! The time is the store's, so that it is the same for all. Of each key it has the time of the last request that has passed, in
//! microseconds, and how much was owed then by each rate, in nanoseconds: whole numbers that Lua has without loss up to some 100
//! days (and to 4 ns for a year). What is owed is gone by itself, and so is the entry.

use super::delay::WaitPermit;
use super::lease::{Grant, LeaseKey, Leases, Renewal, Served};
use super::limiter::{CellRate, Charge, Count, MAX_RATES, Outcome, Verdict};
use super::plans::{Plans, Scaled};
use super::table::WriterId;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use titan_config::WithoutStore;
use titan_store::Unavailable;
use titan_store::script::{Call, Numbers, Script};
use titan_store::store::{KeyHasher, Store};
use tokio::time::sleep;

/// How a limit is counted with other gateways.
pub(crate) struct SharedLimit {
    store: Arc<Store>,
    without_store: WithoutStore,
    plans: Box<[SharedPlan]>,
    /// The permits that are taken ahead; nothing where each request takes a call.
    leases: Option<Arc<TimedLeases>>,
}

/// Permits that outlive a configuration, and when their time began.
pub(crate) struct TimedLeases {
    leases: Leases,
    started: Instant,
    /// Where they were taken: none of another store is taken for it while these are there.
    _store: Arc<Store>,
}

/// The rates of requests with the same plan.
struct SharedPlan {
    rates: Scaled,
    /// What the names of its keys begin with.
    prefix: String,
    /// What the scripts get of the rates.
    arguments: Vec<String>,
}

/// A batch that is taken; no other one is for its key until this is dropped, or the store has replied.
struct Taking<'l> {
    leases: &'l TimedLeases,
    renewal: Renewal,
    is_over: bool,
}

/// Permits on their way back; no batch is taken for their key until this is dropped.
struct Returning<'l> {
    leases: &'l Leases,
    key: LeaseKey,
}

/// A request that was charged, or was not, and its place if it waits.
pub(super) type Taken = (Outcome, Option<WaitPermit>);

/// The time of the store, in microseconds since 1970.
const TIME: &str = "local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
";

/// Reads what is owed now, and writes what is owed then.
const OWED: &str = "local owed = {}
local known = redis.call('GET', KEYS[1])
if known then
  local last
  for number in string.gmatch(known, '%d+') do
    if last then owed[#owed + 1] = tonumber(number) else last = tonumber(number) end
  end
  local passed = math.max(0, now - last) * 1000
  for place = 1, #owed do owed[place] = math.max(0, owed[place] - passed) end
end
local function keep(numbers)
  local value, longest = string.format('%.0f', now), 0
  for place = 1, #numbers do
    longest = math.max(longest, numbers[place])
    value = value .. ' ' .. string.format('%.0f', numbers[place])
  end
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', math.ceil(longest / 1000000) + 1))
end
";

/// Charges a request, if it fits all rates. `ARGV` has its cost, how long it would wait, and of each rate the interval, the time
/// of a burst, and the most that can be owed, all in nanoseconds. Returns whether it passes, how long it waits or would have to,
/// and of each rate what is owed then, and how long the request would have to wait for it.
const CHARGE: &str = "local cost, delay = tonumber(ARGV[1]), tonumber(ARGV[2])
local waits, charged = {}, {}
local wait, late = 0, 0
local rates = (#ARGV - 2) / 3
for place = 1, rates do
  local interval, tolerance, most = tonumber(ARGV[3 * place]), tonumber(ARGV[3 * place + 1]), tonumber(ARGV[3 * place + 2])
  owed[place] = math.min(owed[place] or 0, most)
  charged[place] = owed[place] + cost * interval
  waits[place] = math.max(0, charged[place] - tolerance - delay)
  wait = math.max(wait, waits[place])
  late = math.max(late, charged[place] - tolerance)
end
local reply = {0, wait}
if wait == 0 then
  keep(charged)
  owed = charged
  reply = {1, late}
end
for place = 1, rates do
  reply[#reply + 1] = owed[place]
  reply[#reply + 1] = waits[place]
end
return reply";

/// Charges as many requests as fit all rates, and no more than `ARGV[1]`; the rest of `ARGV` is as above. Returns how many, how
/// long one would have to wait if none fits, and of each rate what is owed then.
const TAKE: &str = "local count, wait = tonumber(ARGV[1]), 0
local rates = (#ARGV - 2) / 3
for place = 1, rates do
  local interval, tolerance, most = tonumber(ARGV[3 * place]), tonumber(ARGV[3 * place + 1]), tonumber(ARGV[3 * place + 2])
  owed[place] = math.min(owed[place] or 0, most)
  count = math.min(count, math.floor((tolerance - owed[place]) / interval))
  wait = math.max(wait, owed[place] + interval - tolerance)
end
if count > 0 then
  wait = 0
  for place = 1, rates do owed[place] = owed[place] + count * tonumber(ARGV[3 * place]) end
  keep(owed)
else
  count = 0
end
local reply = {count, wait}
for place = 1, rates do reply[#reply + 1] = owed[place] end
return reply";

/// Gives back what was charged: `ARGV` has so many nanoseconds of each rate.
const GIVE_BACK: &str = "if #owed == #ARGV then
  for place = 1, #owed do owed[place] = math.max(0, owed[place] - tonumber(ARGV[place])) end
  keep(owed)
end
return {#owed}";

static CHARGING: LazyLock<Script> = LazyLock::new(|| script(CHARGE));
static TAKING: LazyLock<Script> = LazyLock::new(|| script(TAKE));
static GIVING_BACK: LazyLock<Script> = LazyLock::new(|| script(GIVE_BACK));
/// Before others that change an entry are looked at again.
const SOON: Duration = Duration::from_millis(1);

impl SharedLimit {
    /// A limit of that name, whose requests wait that many nanoseconds at most.
    pub(super) fn new(
        without_store: WithoutStore,
        (store, leases): (&Arc<Store>, Option<Arc<TimedLeases>>),
        name: &str,
        plans: &Plans,
        max_delay: u64,
    ) -> SharedLimit {
        let of_plan = |(plan, rates): (&str, Scaled)| SharedPlan {
            prefix: format!("{}limit:{name}:{plan}:", store.prefix()),
            arguments: arguments_of(&rates, max_delay),
            rates,
        };
        SharedLimit {
            store: Arc::clone(store),
            without_store,
            plans: plans.names().zip(plans.rates()).map(of_plan).collect(),
            leases,
        }
    }

    /// What becomes of requests while the store does not respond.
    pub(super) fn without_store(&self) -> WithoutStore {
        self.without_store
    }

    /// How many gateways share the limit.
    pub(super) fn gateways(&self) -> u64 {
        self.store.gateways().into()
    }

    /// How it is shared, in words.
    pub(super) fn words(&self) -> String {
        let name = self.store.name();
        let without = match self.without_store {
            WithoutStore::Local => "each gateway lets its part pass",
            WithoutStore::Allow => "all pass",
            WithoutStore::Deny => "none pass",
        };
        let how = if self.leases.is_some() { " by leases" } else { "" };
        format!(", over all gateways with the store {name}{how} (without it {without})")
    }

    /// Hashes what a request is counted by.
    pub(super) fn hasher(&self) -> KeyHasher {
        self.store.hasher()
    }

    /// The name of a key in the store.
    pub(super) fn key(&self, plan: usize, hasher: KeyHasher) -> String {
        format!("{}{}", self.plans[plan].prefix, hasher.finished())
    }

    /// Decides about a request.
    pub(super) async fn take(
        &self,
        key: &str,
        charge: Charge,
        worker: usize,
    ) -> Result<Outcome, Unavailable> {
        let SharedPlan { rates, arguments, .. } = &self.plans[charge.plan];
        let own = [charge.cost.to_string(), charge.max_delay.to_string()];
        let arguments: Vec<&[u8]> = own.iter().chain(arguments).map(String::as_bytes).collect();
        let call = Call { script: &CHARGING, key: key.as_bytes(), arguments: &arguments };
        let reply = self.store.call(worker, &call).await?;
        outcome_in(&reply, rates, charge).ok_or_else(|| self.store.misread(worker, key.as_bytes()))
    }

    /// Whether permits are taken ahead.
    pub(super) fn is_leased(&self) -> bool {
        self.leases.is_some() && !self.store.is_left() && self.store.knows_gateways()
    }

    /// Decides about a request that does not wait by permits that were taken ahead, if it can: `which` is the hash of its key, and
    /// whether this was asked about it before. `key` is its name in the store.
    pub(super) fn serve(
        self: &Arc<Self>,
        which: (u64, bool),
        charge: Charge,
        worker: usize,
        key: impl FnOnce() -> String,
    ) -> Option<Outcome> {
        let TimedLeases { leases, .. } = &**self.leases.as_ref()?;
        let (gateways, writer) = (self.gateways(), WriterId::new(worker));
        let Served { outcome, renewal } = leases.serve(which, charge, gateways, writer, self.now());
        if let Some(renewal) = renewal {
            tokio::task::spawn_local(Arc::clone(self).lease(key(), renewal, worker));
        }
        outcome
    }

    /// The store has refused a request: others of its key need not ask.
    pub(super) fn note_refused(&self, hash: u64, outcome: &Outcome, worker: usize) {
        let (Some(timed), Verdict::Exceeded { wait }) = (&self.leases, outcome.verdict) else {
            return;
        };
        let owed = outcome.counts.map(|count| count.reset);
        let grant = Grant { permits: 0, wait, owed };
        timed.leases.note_refused(hash, &grant, WriterId::new(worker), self.now());
    }

    /// Takes a batch of permits, and gives back what is left of it when its time is over.
    async fn lease(self: Arc<Self>, key: String, renewal: Renewal, worker: usize) {
        let Some(timed) = self.leases.as_ref() else { return };
        let _owed = self.store.owe(worker);
        let taking = Taking { leases: timed, renewal, is_over: false };
        self.take_batch(&key, taking, worker).await;
        let TimedLeases { leases, .. } = &**timed;
        while let Some(lasts) = leases.lasts(renewal.key, self.now()) {
            let over = sleep(Duration::from_nanos(lasts).max(SOON));
            match self.store.is_left() {
                true => sleep(SOON).await,
                false => tokio::select! { () = over => {}, () = self.store.left() => {} },
            }
            let reclaimed = leases.reclaim(renewal.key, self.store.is_left(), self.now());
            if let Some(permits) = reclaimed {
                let _returning = (permits > 0).then(|| Returning { leases, key: renewal.key });
                return self.give_back(&key, permits, renewal.key, worker).await;
            }
        }
    }

    /// Takes a batch of permits, if there is any.
    async fn take_batch(&self, key: &str, taking: Taking<'_>, worker: usize) {
        let Renewal { key: LeaseKey { plan, .. }, asked } = taking.renewal;
        let SharedPlan { rates, arguments, .. } = &self.plans[plan];
        let own = [asked.to_string(), "0".to_owned()];
        let arguments: Vec<&[u8]> = own.iter().chain(arguments).map(String::as_bytes).collect();
        let call = Call { script: &TAKING, key: key.as_bytes(), arguments: &arguments };
        let Ok(reply) = self.store.call(worker, &call).await else { return };
        match grant_in(&reply, rates, asked) {
            Some(grant) => taking.granted(&grant, self.now()),
            None => drop(self.store.misread(worker, key.as_bytes())),
        }
    }

    /// Gives permits back: as much of each rate as has not come back by itself.
    async fn give_back(&self, key: &str, permits: u64, lease: LeaseKey, worker: usize) {
        let Some(timed) = self.leases.as_ref().filter(|_| permits > 0) else { return };
        let charged = timed.leases.charged(lease);
        let amounts = to_give_back(permits, &charged, &self.plans[lease.plan].rates, self.now());
        if amounts.iter().all(|it| *it == 0) {
            return;
        }
        let amounts: Vec<String> = amounts.iter().map(u64::to_string).collect();
        let arguments: Vec<&[u8]> = amounts.iter().map(String::as_bytes).collect();
        let call = Call { script: &GIVING_BACK, key: key.as_bytes(), arguments: &arguments };
        // What is not given back comes back by itself.
        let _ = self.store.call(worker, &call).await;
    }

    fn now(&self) -> u64 {
        let started = self.leases.as_ref().map(|timed| timed.started);
        started.map_or(0, |started| super::nanoseconds(started.elapsed()))
    }
}

impl TimedLeases {
    /// Those of a limit with these plans that remembers so many keys, in that store.
    pub(super) fn new(plans: &Plans, capacity: usize, store: Arc<Store>) -> TimedLeases {
        let leases = Leases::new(plans.rates(), capacity);
        TimedLeases { leases, started: Instant::now(), _store: store }
    }
}

impl Taking<'_> {
    fn granted(mut self, grant: &Grant, now: u64) {
        self.leases.leases.granted(self.renewal, grant, now);
        self.is_over = true;
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.leases.leases.end(self.renewal);
        }
    }
}

impl Drop for Returning<'_> {
    fn drop(&mut self) {
        self.leases.given_back(self.key);
    }
}

fn script(body: &str) -> Script {
    Script::new(format!("{TIME}{OWED}{body}"))
}

/// How many nanoseconds of each rate come back with permits that were charged until then.
fn to_give_back(permits: u64, charged: &[u64; MAX_RATES], rates: &Scaled, now: u64) -> Vec<u64> {
    let of = |(rate, until): (&CellRate, &u64)| {
        permits.saturating_mul(rate.interval).min(until.saturating_sub(now))
    };
    rates.iter().zip(charged).map(of).collect()
}

/// What a reply says of permits; nothing if it cannot be one of the script.
fn grant_in(reply: &Numbers, rates: &Scaled, asked: u64) -> Option<Grant> {
    let numbers: Vec<u64> = whole(reply)?;
    let (&[permits, wait], of_rates) = numbers.split_first_chunk()?;
    let is_one = permits <= asked && (permits > 0) == (wait == 0) && of_rates.len() == rates.len();
    let mut owed = [0; MAX_RATES];
    owed.iter_mut().zip(of_rates).for_each(|(owed, said)| *owed = *said);
    is_one.then_some(Grant { permits, wait, owed })
}

fn whole(reply: &Numbers) -> Option<Vec<u64>> {
    reply.iter().map(|it| u64::try_from(*it).ok()).collect()
}

/// What the script gets of rates.
fn arguments_of(rates: &Scaled, max_delay: u64) -> Vec<String> {
    let of =
        |rate: &CellRate| [rate.interval, rate.tolerance, rate.tolerance.saturating_add(max_delay)];
    rates.iter().flat_map(of).map(|number| number.to_string()).collect()
}

/// What a reply says; nothing if it cannot be one of the script.
fn outcome_in(reply: &Numbers, rates: &Scaled, charge: Charge) -> Option<Outcome> {
    let numbers = whole(reply)?;
    let (&[passed, wait], of_rates) = numbers.split_first_chunk()?;
    if of_rates.len() != 2 * rates.len() {
        return None;
    }
    let mut counts = [Count::default(); MAX_RATES];
    for ((rate, said), count) in rates.iter().zip(of_rates.chunks(2)).zip(&mut counts) {
        *count = Count { wait: said[1], ..rate.standing(said[0], 1) };
    }
    let verdict = match passed {
        // Whatever the store says, no request waits longer than it may.
        1 if wait <= charge.max_delay => Verdict::Passed { place: 0, delay: wait },
        0 if wait > 0 => Verdict::Exceeded { wait },
        _ => return None,
    };
    Some(Outcome { verdict, counts })
}

#[cfg(test)]
mod tests;
