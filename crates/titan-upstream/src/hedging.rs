//! When a request that takes long gets a second try at another endpoint, while the first one goes on.
//!
//! `docs/decisions/0046` says what is measured for it, and who counts how.

use crate::health::since_start;
use crate::latency::LatencyPercentile;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::{Hedge, HedgeDelay, Percent};
use titan_http::Method;
use titan_io::registry::Registry;

/// When requests of an upstream are hedged, with the settings of one configuration. The latencies belong to the upstream's
/// name.
pub struct Hedging {
    settings: Hedge,
    after: After,
}

/// When a try takes long.
enum After {
    /// After that time.
    Fixed(Duration),
    /// After that percentile of how long the first tries have taken.
    Percentile(Percent, Arc<LatencyPercentile>),
}

impl Hedging {
    /// That of the upstream that `key` stands for: it goes on with the latencies that an earlier configuration has seen.
    pub(crate) fn of<K>(registry: &Registry, key: K, settings: &Hedge) -> Hedging
    where
        K: Hash + Eq + Send + Sync + 'static,
    {
        let after = match settings.after {
            HedgeDelay::Fixed(delay) => After::Fixed(delay),
            HedgeDelay::Percentile(rank) => {
                After::Percentile(rank, registry.shared(key, LatencyPercentile::default))
            }
        };
        Hedging { settings: settings.clone(), after }
    }

    /// Applies its settings to what it has in common with earlier ones.
    pub(crate) fn take_effect(&self) {
        if let After::Percentile(rank, latency) = &self.after {
            latency.set(*rank);
        }
    }

    /// Whether requests with that method are hedged.
    pub fn applies_to(&self, method: Method) -> bool {
        self.settings.methods.contains(&method)
    }

    /// After how long a request is hedged; `None` while too few responses have come to know.
    pub fn delay(&self) -> Option<Duration> {
        match &self.after {
            After::Fixed(delay) => Some(*delay),
            After::Percentile(_, latency) => {
                latency.get().map(|latency| latency.max(self.settings.min_delay))
            }
        }
    }

    /// Counts how long a try has taken that could have been hedged. One that has ended without a proper response counts only if
    /// it had taken longer than the percentile already: that is all there is to know of it then, and otherwise hedging would hide the
    /// slow ones from itself.
    pub fn note(&self, took: Duration, has_responded: bool) {
        let After::Percentile(_, latency) = &self.after else { return };
        if has_responded || latency.get().is_some_and(|percentile| took > percentile) {
            latency.count(took, since_start(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn hedge(after: HedgeDelay, min_delay: Duration) -> Hedge {
        Hedge { after, min_delay, methods: vec![Method::GET] }
    }

    fn percentile(percent: u16, min_delay: Duration) -> Hedge {
        hedge(HedgeDelay::Percentile(Percent::hundredths(percent * 100)), min_delay)
    }

    #[test]
    fn what_was_learned_belongs_to_the_name() {
        let registry = Registry::default();
        let before = Hedging::of(&registry, "u", &percentile(95, MILLI));
        before.take_effect();
        assert_eq!(before.delay(), None);
        (0..100).for_each(|_| before.note(20 * MILLI, true));
        let learned = before.delay().unwrap();
        assert!(learned >= 20 * MILLI);
        let after = Hedging::of(&registry, "u", &percentile(95, 50 * MILLI));
        after.take_effect();
        assert_eq!(after.delay(), Some(50 * MILLI), "the least delay is that of a configuration");
        assert_eq!(before.delay(), Some(learned));
        assert_eq!(Hedging::of(&registry, "v", &percentile(95, MILLI)).delay(), None);
    }

    #[test]
    fn tries_that_are_given_up_count_as_long_ones() {
        let hedging = Hedging::of(&Registry::default(), "u", &percentile(50, MILLI));
        hedging.take_effect();
        hedging.note(MILLI, false);
        (0..19).for_each(|_| hedging.note(20 * MILLI, true));
        assert_eq!(hedging.delay(), None, "of the first one nothing is known");
        hedging.note(20 * MILLI, true);
        let delay = hedging.delay().unwrap();
        (0..30).for_each(|_| hedging.note(MILLI, false));
        (0..30).for_each(|_| hedging.note(90 * MILLI, false));
        hedging.take_effect();
        let After::Percentile(_, latency) = &hedging.after else { unreachable!("it is one") };
        latency.set(Percent::hundredths(4_900));
        latency.set(Percent::hundredths(5_000));
        hedging.note(90 * MILLI, true);
        assert!(hedging.delay().unwrap() > 2 * delay, "{:?}", hedging.delay());
    }

    #[test]
    fn a_fixed_time_needs_no_latencies() {
        let hedging =
            Hedging::of(&Registry::default(), "u", &hedge(HedgeDelay::Fixed(7 * MILLI), MILLI));
        hedging.note(MILLI, true);
        assert_eq!(hedging.delay(), Some(7 * MILLI));
        assert!(hedging.applies_to(Method::GET) && !hedging.applies_to(Method::POST));
    }
}
