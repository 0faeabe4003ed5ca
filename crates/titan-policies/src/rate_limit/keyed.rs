//! Limits that outlive a configuration: what has been counted, and what that means.

use super::limiter::{CellRate, Charge, Limiter, Outcome, Scale};
use super::table::{Table, WriterId};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use titan_io::registry::Registry;

/// The limiter of one configuration, over what was counted under others as well.
pub(crate) struct KeyedLimiter {
    limiter: Limiter,
    scale: Scale,
    counts: Arc<Counts>,
}

/// What was counted, with what its keys are hashed by and when its time began: without those its numbers mean nothing.
struct Counts {
    table: Arc<Table>,
    /// Keyed anew for each limit: no client can choose two keys that count as one.
    hasher: RandomState,
    started: Instant,
    /// Of the rates in force.
    scale: Mutex<Scale>,
}

/// How much a limit allows.
pub(crate) struct Allowance {
    /// The rates of each plan.
    pub(crate) plans: Box<[Box<[CellRate]>]>,
    /// How many requests may run at once.
    pub(crate) concurrency: Option<u64>,
    /// For how many keys there is room.
    pub(crate) capacity: usize,
    /// What a key can owe by a rate.
    pub(crate) most_owed: fn(&CellRate) -> u64,
}

/// What numbers an entry has. As long as that is the same, a limit counts on.
#[derive(PartialEq, Eq, Hash)]
struct Layout {
    capacity: usize,
    /// How many rates each plan has.
    rates: Vec<usize>,
    limits_concurrency: bool,
}

impl KeyedLimiter {
    /// A limiter over what `registry` has counted under that key, or over nothing.
    pub(crate) fn shared<K: Eq + Hash + Send + 'static>(
        registry: &Registry,
        key: K,
        allowance: Allowance,
    ) -> Arc<KeyedLimiter> {
        let Allowance { plans, concurrency, capacity, most_owed } = allowance;
        let rates = plans.iter().map(|rates| rates.len()).collect();
        let layout = Layout { capacity, rates, limits_concurrency: concurrency.is_some() };
        let counts: Arc<Counts> = registry.shared((key, layout), || {
            let first = Limiter::new(plans.clone(), concurrency, capacity);
            Counts {
                table: Arc::clone(first.table()),
                hasher: RandomState::new(),
                started: Instant::now(),
                scale: Mutex::new(first.scale(most_owed)),
            }
        });
        let limiter = Limiter::over(Arc::clone(&counts.table), plans, concurrency);
        Arc::new(KeyedLimiter { scale: limiter.scale(most_owed), limiter, counts })
    }

    /// Has what was counted mean the same under these rates.
    pub(crate) fn take_effect(&self) {
        let mut scale = self.counts.scale.lock().unwrap_or_else(PoisonError::into_inner);
        if *scale != self.scale {
            self.limiter.convert(&scale, &self.scale, self.now());
            scale.clone_from(&self.scale);
        }
    }

    /// Hashes what requests are counted by.
    pub(crate) fn hasher(&self) -> impl Hasher + use<> {
        self.counts.hasher.build_hasher()
    }

    /// Decides about a request now: [`Limiter::take`].
    pub(crate) fn take(&self, hash: u64, charge: Charge, writer: WriterId) -> Outcome {
        self.limiter.take(hash, charge, writer, || self.now())
    }

    /// Charges for what has happened: [`Limiter::owe`].
    pub(crate) fn owe(&self, hash: u64, writer: WriterId) {
        self.limiter.owe(hash, writer, || self.now());
    }

    /// The nanoseconds after which one request would pass: [`Limiter::wait`].
    pub(crate) fn wait(&self, hash: u64) -> u64 {
        self.limiter.wait(hash, self.now())
    }

    /// A request that has passed is over.
    pub(crate) fn give_back(&self, place: usize) {
        self.limiter.give_back(place);
    }

    pub(crate) fn limits_concurrency(&self) -> bool {
        self.limiter.limits_concurrency()
    }

    fn now(&self) -> u64 {
        super::nanoseconds(self.counts.started.elapsed())
    }
}
