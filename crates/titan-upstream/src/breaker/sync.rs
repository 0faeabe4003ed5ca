//! The atomics that a breaker uses. A test that explores orders of events substitutes its own.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};

/// The parts that a window moves on by.
pub(super) const PARTS: usize = 10;
