//! Which keys a policy checks tokens with, in a number: what was found with others does not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes with the keys of a policy. No policy of this process has had the same before: what was found under another
/// configuration is not taken for this one's.
pub(super) struct Generation {
    /// The first one, by which the policy is known.
    first: u64,
    now: AtomicU64,
}

impl Generation {
    /// One that nothing was found with.
    pub(super) fn new() -> Arc<Generation> {
        let first = fresh();
        Arc::new(Generation { first, now: AtomicU64::new(first) })
    }

    /// What tells its policy from all others of the process.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// To be read before the keys are: a result from keys that change meanwhile is outdated.
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    /// To be told after the keys have changed. What was found with those before counts no more, also where it is being
    /// looked for.
    pub(super) fn change(&self) {
        self.now.store(fresh(), Ordering::Release);
    }
}

fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
