//! How often a thing is done that is done again and again.

use std::time::{Duration, SystemTime};

/// When a thing was done last that is done at most once a second.
#[derive(Debug, Default)]
pub(super) struct Pace(Option<SystemTime>);

impl Pace {
    const INTERVAL: Duration = Duration::from_secs(1);

    /// Whether it may be done again. A clock that was set back makes nothing wait.
    pub(super) fn is_due(&self, now: SystemTime) -> bool {
        let since = self.0.and_then(|last| now.duration_since(last).ok());
        since.is_none_or(|since| since >= Self::INTERVAL)
    }

    /// It is done.
    pub(super) fn note(&mut self, now: SystemTime) {
        self.0 = Some(now);
    }

    /// It may be done at once.
    pub(super) fn reset(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_passes_unless_the_clock_was_set_back() {
        let now = SystemTime::now();
        let mut pace = Pace::default();
        assert!(pace.is_due(now));
        pace.note(now);
        assert!(!pace.is_due(now));
        assert!(!pace.is_due(now + Duration::from_millis(999)));
        assert!(pace.is_due(now + Duration::from_secs(1)));
        assert!(pace.is_due(now - Duration::from_millis(1)));
    }
}
