//! What rate limits are built on. A test that looks at many orders of events puts its own in the place of this.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};

/// The slots in which a key can be: a line of the cache for their words.
pub(super) const WAYS: usize = 8;
