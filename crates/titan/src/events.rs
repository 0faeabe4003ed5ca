//! Events that the operator should know of: one line for each kind and minute, however many there are.

use std::time::{Duration, Instant};
use titan_config::{LogArea, LogLevel};
use titan_observe::events::{Event, Log};
use titan_proxy::Metrics;

/// What was last reported of each kind of event, by its index.
#[derive(Default)]
pub(crate) struct Events(Vec<Reported>);

/// What was last reported of one kind.
#[derive(Clone, Copy, Default)]
struct Reported {
    /// How many there were in all by then.
    count: u64,
    when: Option<Instant>,
}

/// How long the same kind is not reported again.
const QUIET: Duration = Duration::from_secs(60);

impl Events {
    /// Tells of what there is to tell now.
    pub(crate) fn look(&mut self, metrics: &Metrics, log: &Log, now: Instant) {
        for line in self.tell(events(metrics), now) {
            log.tell(Event::new((LogArea::Policy, LogLevel::Warn), "policy", line));
        }
    }

    /// The same for the count of each kind, with the start of its line.
    fn tell(&mut self, kinds: impl Iterator<Item = (String, u64)>, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for (place, (what, count)) in kinds.enumerate() {
            self.0.resize(self.0.len().max(place + 1), Reported::default());
            let reported = &mut self.0[place];
            let is_quiet = reported.when.is_some_and(|when| now.duration_since(when) < QUIET);
            if count > reported.count && !is_quiet {
                lines.push(match reported.count {
                    0 => format!("{what} {count} so far"),
                    before => format!("{what} {} more, {count} in all", count - before),
                });
                *reported = Reported { count, when: Some(now) };
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
    fn each_is_reported_at_once_and_then_once_a_minute() {
        let (mut events, start) = (Events::default(), Instant::now());
        let mut tell = |counts: [u64; 2], seconds: u64| {
            let kinds = ["a", "b"].into_iter().map(str::to_owned).zip(counts);
            events.tell(kinds, start + Duration::from_secs(seconds)).concat()
        };
        assert_eq!(tell([0, 0], 0), "");
        assert_eq!(tell([3, 0], 2), "a 3 so far");
        assert_eq!(tell([9, 1], 61), "b 1 so far");
        assert_eq!(tell([10, 1], 62), "a 7 more, 10 in all");
        assert_eq!(tell([10, 1], 1000), "", "nothing has happened since");
    }
}
