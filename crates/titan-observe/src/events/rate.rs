//! How many lines there may be in a second.

use std::time::{Duration, Instant};
use titan_config::LogArea;

/// What may still be written. Calls of the admin interface have a share of their own: whatever else happens, they are not left out, nor do
/// they leave out anything.
pub(super) struct Rate {
    calls: Share,
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
        Rate { calls: full(), others: full() }
    }

    /// Whether another line about that area may be written.
    pub(super) fn takes(&mut self, area: LogArea, now: Instant) -> bool {
        match area {
            LogArea::Admin => self.calls.takes(now),
            _ => self.others.takes(now),
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
    fn a_flood_is_cut_and_leaves_calls_alone() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let mut taken = |area, seconds| {
            let now = start + Duration::from_secs(seconds);
            (0..1000).filter(|_| rate.takes(area, now)).count()
        };
        assert_eq!(taken(LogArea::Health, 0), 500);
        assert_eq!(taken(LogArea::Admin, 0), 500);
        assert_eq!(taken(LogArea::Tls, 1), 50);
        assert_eq!(taken(LogArea::Tls, 3600), 500);
    }
}
