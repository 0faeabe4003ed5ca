//! Limits that outlive a configuration: what has been counted, and what that means.

use super::limiter::{Charge, Limiter, Outcome};
use super::table::WriterId;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;
use titan_io::registry::Registry;

/// A limiter, with what its keys are hashed by and when its time began: without those its numbers mean nothing.
pub(crate) struct KeyedLimiter {
    limiter: Limiter,
    /// Keyed anew for each limit: no client can choose two keys that count as one.
    hasher: RandomState,
    started: Instant,
}

impl KeyedLimiter {
    /// What `registry` has counted under that key, or a limiter that has counted nothing.
    pub(crate) fn shared<K: Eq + Hash + Send + 'static>(
        registry: &Registry,
        key: K,
        make: impl FnOnce() -> Limiter,
    ) -> Arc<KeyedLimiter> {
        registry.shared(key, || KeyedLimiter {
            limiter: make(),
            hasher: RandomState::new(),
            started: Instant::now(),
        })
    }

    /// Hashes what requests are counted by.
    pub(crate) fn hasher(&self) -> impl Hasher + use<> {
        self.hasher.build_hasher()
    }

    /// The hash of one value.
    pub(crate) fn hash_one(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
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
        super::nanoseconds(self.started.elapsed())
    }
}
