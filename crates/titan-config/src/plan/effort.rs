//! How much of a comparison is done: a configuration that somebody sends must not take a core for ever.

use std::cell::Cell;

/// Steps after which a comparison ends: some seconds of a core.
const MAX_STEPS: u64 = 1 << 23;
/// Steps after which it looks whether its outcome is still wanted.
const STRIDE: u64 = 1 << 12;

/// What is left to spend on a comparison.
pub(super) struct Effort<'e> {
    left: Cell<u64>,
    is_wanted: &'e dyn Fn() -> bool,
}

/// Why a comparison ends before it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It would take too long.
    TooMuch,
    /// Nobody waits for what comes of it.
    Unwanted,
}

impl<'e> Effort<'e> {
    pub(super) fn new(is_wanted: &'e dyn Fn() -> bool) -> Effort<'e> {
        Effort { left: Cell::new(MAX_STEPS), is_wanted }
    }

    /// Takes that many steps.
    pub(super) fn spend(&self, steps: u64) -> Result<(), Stop> {
        let left = self.left.get();
        let rest = left.checked_sub(steps).ok_or(Stop::TooMuch)?;
        self.left.set(rest);
        match left / STRIDE == rest / STRIDE || self.is_wanted() {
            true => Ok(()),
            false => Err(Stop::Unwanted),
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        (self.is_wanted)()
    }
}
