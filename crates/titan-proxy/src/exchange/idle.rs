//! Whether anything still moves in an exchange whose directions pause as they like.

use std::time::Duration;
use titan_io::clock::{Clock, CoarseInstant};

/// Watches both directions of an exchange at once.
pub(super) struct Idle {
    /// How long nothing may move.
    timeout: Duration,
    /// Bytes that have moved when last looked at, in both directions.
    moved: u64,
    deadline: CoarseInstant,
}

impl Idle {
    /// Nothing has moved yet.
    pub(super) fn new(clock: &Clock, timeout: Duration) -> Idle {
        Idle { timeout, moved: 0, deadline: clock.deadline(timeout) }
    }

    /// Whether nothing has moved for too long, given how many bytes have moved in all.
    pub(super) fn is_over(&mut self, clock: &Clock, moved: u64) -> bool {
        if self.moved != moved {
            self.moved = moved;
            self.renew(clock);
        }
        clock.is_past(self.deadline)
    }

    /// Begins anew, as if something had moved now.
    pub(super) fn renew(&mut self, clock: &Clock) {
        self.deadline = clock.deadline(self.timeout);
    }

    /// When to look again although nothing happened.
    pub(super) fn deadline(&self) -> CoarseInstant {
        self.deadline
    }
}
