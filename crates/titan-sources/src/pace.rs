//! When a source is asked again: regularly, and after failures after longer and longer pauses, never all gateways at once.

use std::time::Duration;

/// The pauses between two looks at a source.
pub(crate) struct Pace {
    interval: Duration,
    /// How often in a row it has failed.
    failures: u32,
}

/// The pause after the first failure.
const FIRST: Duration = Duration::from_secs(1);
/// Longer than this nobody waits because a server asks for it, unless the interval is longer.
const MOST_PATIENCE: Duration = Duration::from_secs(3600);
/// One part in so many of each pause is left to chance.
const CHANCE: u64 = 10;

impl Pace {
    pub(crate) fn new(interval: Duration) -> Pace {
        Pace { interval, failures: 0 }
    }

    /// The pause after a look that has succeeded.
    pub(crate) fn succeeded(&mut self, random: u64) -> Duration {
        self.failures = 0;
        scattered(self.interval, random)
    }

    /// The pause after one that has failed: from a second on up to the interval, or as long as the server asks for.
    pub(crate) fn failed(&mut self, retry_after: Option<Duration>, random: u64) -> Duration {
        let doubled = FIRST.saturating_mul(1u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1).min(31);
        let asked = retry_after.unwrap_or_default().min(MOST_PATIENCE.max(self.interval));
        scattered(doubled.min(self.interval).max(asked), random)
    }
}

/// A pause that is longer by up to a tenth, as that number says.
fn scattered(pause: Duration, random: u64) -> Duration {
    let most = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX) / CHANCE;
    pause + Duration::from_millis(random % (most + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(30);

    #[test]
    fn failures_make_pauses_longer_up_to_the_interval() {
        let mut pace = Pace::new(INTERVAL);
        let pauses = [(); 7].map(|()| pace.failed(None, 0).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        (0..100).for_each(|_| assert!(pace.failed(None, 0) <= INTERVAL));
        assert_eq!(pace.succeeded(0), INTERVAL);
        assert_eq!(pace.failed(None, 0), FIRST);
    }

    #[test]
    fn a_server_is_left_alone_as_it_asks_within_bounds() {
        let mut pace = Pace::new(INTERVAL);
        assert_eq!(pace.failed(Some(Duration::from_secs(90)), 0), Duration::from_secs(90));
        assert_eq!(pace.failed(Some(Duration::MAX), 0), MOST_PATIENCE);
        assert_eq!(pace.failed(Some(Duration::ZERO), 0), Duration::from_secs(4));
    }

    #[test]
    fn a_tenth_is_left_to_chance() {
        let mut pace = Pace::new(INTERVAL);
        for random in [0, 1, 2_999, 3_000, u64::MAX] {
            let pause = pace.succeeded(random);
            assert!((INTERVAL..=Duration::from_secs(33)).contains(&pause), "{pause:?}");
        }
        assert_ne!(pace.succeeded(0), pace.succeeded(1));
    }
}
