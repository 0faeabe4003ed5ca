//! What is said of requests that somebody should hear of: one line for each kind and minute, however many they are.

use std::time::{Duration, Instant};
use titan_proxy::Metrics;

/// What was said of each kind, by its place among them.
#[derive(Default)]
pub(crate) struct Notable(Vec<Said>);

/// What was said of one kind.
#[derive(Clone, Copy, Default)]
struct Said {
    /// How many there were until then.
    count: u64,
    when: Option<Instant>,
}

/// For how long nothing is said of the same kind again.
const QUIET: Duration = Duration::from_secs(60);

impl Notable {
    /// What there is to say now.
    pub(crate) fn look(&mut self, metrics: &Metrics, now: Instant) -> Vec<String> {
        self.tell(events(metrics), now)
    }

    /// The same for how many there are of each kind, with what is said of them.
    fn tell(&mut self, kinds: impl Iterator<Item = (String, u64)>, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for (place, (what, count)) in kinds.enumerate() {
            self.0.resize(self.0.len().max(place + 1), Said::default());
            let said = &mut self.0[place];
            let is_quiet = said.when.is_some_and(|when| now.duration_since(when) < QUIET);
            if count > said.count && !is_quiet {
                lines.push(match said.count {
                    0 => format!("{what} {count} so far"),
                    before => format!("{what} {} more, {count} in all", count - before),
                });
                *said = Said { count, when: Some(now) };
            }
        }
        lines
    }
}

/// What policies have counted that the operator should hear of.
fn events(metrics: &Metrics) -> impl Iterator<Item = (String, u64)> {
    let figures = metrics.policies().into_iter().flat_map(|metric| metric.figures);
    figures.filter_map(|figure| Some((figure.event?, figure.count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_of_at_once_and_then_once_a_minute() {
        let (mut notable, start) = (Notable::default(), Instant::now());
        let mut tell = |counts: [u64; 2], seconds: u64| {
            let kinds = ["a", "b"].into_iter().map(str::to_owned).zip(counts);
            notable.tell(kinds, start + Duration::from_secs(seconds)).concat()
        };
        assert_eq!(tell([0, 0], 0), "");
        assert_eq!(tell([3, 0], 2), "a 3 so far");
        assert_eq!(tell([9, 1], 61), "b 1 so far");
        assert_eq!(tell([10, 1], 62), "a 7 more, 10 in all");
        assert_eq!(tell([10, 1], 1000), "", "nothing has happened since");
    }
}
