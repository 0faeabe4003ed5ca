//! What is said of requests that somebody should hear of: one line for each kind and minute, however many they are.

use std::time::{Duration, Instant};
use titan_proxy::{Cells, Metrics};

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
        self.tell(watched(metrics).chain(refused(metrics)), now)
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

/// The requests that rate limits have let through because they only watch.
fn watched(metrics: &Metrics) -> impl Iterator<Item = (String, u64)> {
    metrics.rate_limits().iter().enumerate().map(|(place, name)| {
        let what = format!("rate limit `{name}` only watches: it would have refused");
        (what, metrics.sum(|cells| cells.policies.rate_limits[place].shadowed.get()))
    })
}

/// The tokens that were no good, by the reason, which no client is told.
fn refused(metrics: &Metrics) -> impl Iterator<Item = (String, u64)> {
    let reasons = metrics.workers().first().into_iter();
    let reasons = reasons.flat_map(|cells| cells.policies.jwt.refused_by_reason()).enumerate();
    reasons.map(|(place, (reason, _))| {
        let count = |cells: &Cells| {
            cells.policies.jwt.refused_by_reason().nth(place).map_or(0, |(_, count)| count)
        };
        (format!("tokens were refused (`{reason}`):"), metrics.sum(count))
    })
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
