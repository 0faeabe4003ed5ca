//! The atomics that rate limits use. A test that explores orders of events substitutes its own.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};

/// The slots in which a key can be: a line of the cache for their words.
pub(super) const WAYS: usize = 8;
