//! What is said of rate limits that only watch: one line for each and minute, however many requests exceed them.

use std::time::{Duration, Instant};
use titan_proxy::Metrics;

/// What was said of each rate limit, by its place.
#[derive(Default)]
pub(crate) struct Shadows(Vec<Said>);

/// What was said of one.
#[derive(Clone, Copy, Default)]
struct Said {
    /// How many requests it would have refused until then.
    count: u64,
    when: Option<Instant>,
}

/// For how long nothing is said of the same one again.
const QUIET: Duration = Duration::from_secs(60);

impl Shadows {
    /// What there is to say now.
    pub(crate) fn look(&mut self, metrics: &Metrics, now: Instant) -> Vec<String> {
        let names = metrics.rate_limits().iter().enumerate();
        let counts = names.map(|(place, name)| {
            (name.as_str(), metrics.sum(|cells| cells.rate_limits[place].shadowed.get()))
        });
        self.tell(counts, now)
    }

    /// The same for how many requests each has let through that exceed it.
    fn tell<'n>(
        &mut self,
        counts: impl Iterator<Item = (&'n str, u64)>,
        now: Instant,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for (place, (name, count)) in counts.enumerate() {
            self.0.resize(self.0.len().max(place + 1), Said::default());
            let said = &mut self.0[place];
            let is_quiet = said.when.is_some_and(|when| now.duration_since(when) < QUIET);
            if count > said.count && !is_quiet {
                let more = count - said.count;
                lines.push(format!(
                    "rate limit `{name}` only watches: it would have refused {more} more, {count} in all\n"
                ));
                *said = Said { count, when: Some(now) };
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_of_at_once_and_then_once_a_minute() {
        let (mut shadows, start) = (Shadows::default(), Instant::now());
        let mut tell = |counts: [u64; 2], seconds: u64| {
            let counts = ["a", "b"].into_iter().zip(counts);
            shadows.tell(counts, start + Duration::from_secs(seconds)).concat()
        };
        let line = |name: &str, more: u64, count: u64| {
            format!(
                "rate limit `{name}` only watches: it would have refused {more} more, {count} in all\n"
            )
        };
        assert_eq!(tell([0, 0], 0), "");
        assert_eq!(tell([3, 0], 2), line("a", 3, 3));
        assert_eq!(tell([9, 1], 61), line("b", 1, 1));
        assert_eq!(tell([10, 1], 62), line("a", 7, 10));
        assert_eq!(tell([10, 1], 1000), "", "nothing has happened since");
    }
}
