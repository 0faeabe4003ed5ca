//! How many lines there may be in a second.

use std::time::{Duration, Instant};

/// What may still be written. What operators do has a share of its own: whatever else happens, it is not left out, nor does it leave out
/// anything.
pub(super) struct Rate {
    operators: Share,
    others: Share,
}

/// A part of the lines.
struct Share {
    left: u32,
    since: Instant,
}

/// Lines in a second, for each of the shares.
const EACH_SECOND: u32 = 50;
/// Those that may come at once.
const AT_ONCE: u32 = 500;

impl Rate {
    pub(super) fn new(now: Instant) -> Rate {
        let full = || Share { left: AT_ONCE, since: now };
        Rate { operators: full(), others: full() }
    }

    /// Whether another line may be written, of one share or the other.
    pub(super) fn takes(&mut self, is_of_operators: bool, now: Instant) -> bool {
        match is_of_operators {
            true => self.operators.takes(now),
            false => self.others.takes(now),
        }
    }
}

impl Share {
    fn takes(&mut self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.since).as_secs();
        if seconds > 0 {
            let more = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(EACH_SECOND);
            self.left = self.left.saturating_add(more).min(AT_ONCE);
            self.since += Duration::from_secs(seconds);
        }
        let takes = self.left > 0;
        self.left = self.left.saturating_sub(1);
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_leaves_the_other_share_alone() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let mut taken = |is_of_operators, seconds| {
            let now = start + Duration::from_secs(seconds);
            (0..1000).filter(|_| rate.takes(is_of_operators, now)).count()
        };
        assert_eq!(taken(false, 0), 500);
        assert_eq!(taken(true, 0), 500);
        assert_eq!(taken(false, 1), 50);
        assert_eq!(taken(false, 3600), 500);
    }
}
