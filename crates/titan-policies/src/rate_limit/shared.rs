//! Limits that the gateways of a fleet count together, in a store: the algorithm of [`super::limiter`], as a script there.
//!
//! The time is the store's, so that it is the same for all. Of each key it has the time of the last request that has passed, in
//! microseconds, and how much was owed then by each rate, in nanoseconds: whole numbers that Lua has without loss up to some 100
//! days (and to 4 ns for a year). What is owed is gone by itself, and so is the entry.

use super::delay::WaitPermit;
use super::limiter::{Charge, Count, MAX_RATES, Outcome, Verdict};
use super::plans::{Plans, Scaled};
use std::sync::{Arc, LazyLock};
use titan_config::WithoutStore;
use titan_store::Unavailable;
use titan_store::script::{Call, Numbers, Script};
use titan_store::store::{KeyHasher, Store};

/// How a limit is counted with other gateways.
pub(crate) struct SharedLimit {
    store: Arc<Store>,
    without_store: WithoutStore,
    plans: Box<[SharedPlan]>,
}

/// The rates of requests with the same plan.
struct SharedPlan {
    rates: Scaled,
    /// What the names of its keys begin with.
    prefix: String,
    /// What the script gets of the rates.
    arguments: Vec<String>,
}

/// A request that was charged, or was not, and its place if it waits.
pub(super) type Taken = (Outcome, Option<WaitPermit>);

/// The time of the store, in microseconds since 1970.
const TIME: &str = "local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
";

/// Charges a request, if it fits all rates. `ARGV` has its cost, how long it would wait, and of each rate the interval, the time
/// of a burst, and the most that can be owed, all in nanoseconds. Returns whether it passes, how long it waits or would have to,
/// and of each rate what is owed then, and how long the request would have to wait for it.
const CHARGE: &str = "local cost, delay = tonumber(ARGV[1]), tonumber(ARGV[2])
local owed, waits = {}, {}
local known = redis.call('GET', KEYS[1])
if known then
  local last
  for number in string.gmatch(known, '%d+') do
    if last then owed[#owed + 1] = tonumber(number) else last = tonumber(number) end
  end
  local passed = math.max(0, now - last) * 1000
  for place = 1, #owed do owed[place] = math.max(0, owed[place] - passed) end
end
local wait, late, longest = 0, 0, 0
local value = string.format('%.0f', now)
local rates = (#ARGV - 2) / 3
local charged = {}
for place = 1, rates do
  local interval, tolerance, most = tonumber(ARGV[3 * place]), tonumber(ARGV[3 * place + 1]), tonumber(ARGV[3 * place + 2])
  owed[place] = math.min(owed[place] or 0, most)
  charged[place] = owed[place] + cost * interval
  waits[place] = math.max(0, charged[place] - tolerance - delay)
  wait = math.max(wait, waits[place])
  late = math.max(late, charged[place] - tolerance)
  longest = math.max(longest, charged[place])
  value = value .. ' ' .. string.format('%.0f', charged[place])
end
local reply = {0, wait}
if wait == 0 then
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', math.ceil(longest / 1000000) + 1))
  owed = charged
  reply = {1, late}
end
for place = 1, rates do
  reply[#reply + 1] = owed[place]
  reply[#reply + 1] = waits[place]
end
return reply";

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(format!("{TIME}{CHARGE}")));

impl SharedLimit {
    /// A limit of that name, whose requests wait that many nanoseconds at most.
    pub(super) fn new(
        config: &titan_config::SharedLimit,
        store: &Arc<Store>,
        name: &str,
        plans: &Plans,
        max_delay: u64,
    ) -> SharedLimit {
        let titan_config::SharedLimit { store: _, without_store } = config;
        let of_plan = |(plan, rates): (&str, Scaled)| SharedPlan {
            prefix: format!("{}limit:{name}:{plan}:", store.prefix()),
            arguments: arguments_of(&rates, max_delay),
            rates,
        };
        SharedLimit {
            store: Arc::clone(store),
            without_store: *without_store,
            plans: plans.names().zip(plans.rates()).map(of_plan).collect(),
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
        format!(", over all gateways with the store {name} (without it {without})")
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
        let call = Call { script: &SCRIPT, key: key.as_bytes(), arguments: &arguments };
        let reply = self.store.call(worker, &call).await?;
        outcome_in(&reply, rates, charge).ok_or_else(|| self.store.misread(worker))
    }
}

/// What the script gets of rates.
fn arguments_of(rates: &Scaled, max_delay: u64) -> Vec<String> {
    let of = |rate: &super::limiter::CellRate| {
        [rate.interval, rate.tolerance, rate.tolerance.saturating_add(max_delay)]
    };
    rates.iter().flat_map(of).map(|number| number.to_string()).collect()
}

/// What a reply says; nothing if it cannot be one of the script.
fn outcome_in(reply: &Numbers, rates: &Scaled, charge: Charge) -> Option<Outcome> {
    let numbers: Vec<u64> =
        reply.iter().map(|it| u64::try_from(*it).ok()).collect::<Option<_>>()?;
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
