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
        for ((area, kind), line) in self.tell(events(metrics), now) {
            log.tell(Event::new((area, LogLevel::Warn), kind, line));
        }
    }

    /// The same for the count of each kind, with the start of its line.
    fn tell<P>(
        &mut self,
        kinds: impl Iterator<Item = (P, String, u64)>,
        now: Instant,
    ) -> Vec<(P, String)> {
        let mut lines = Vec::new();
        for (index, (place, what, count)) in kinds.enumerate() {
            self.0.resize(self.0.len().max(index + 1), Reported::default());
            let reported = &mut self.0[index];
            let is_quiet = reported.when.is_some_and(|when| now.duration_since(when) < QUIET);
            if count > reported.count && !is_quiet {
                let line = match reported.count {
                    0 => format!("{what} {count} so far"),
                    before => format!("{what} {} more, {count} in all", count - before),
                };
                lines.push((place, line));
                *reported = Reported { count, when: Some(now) };
            }
        }
        lines
    }
}

/// What was counted that the operator should hear of, with the area and the kind of its event.
fn events(metrics: &Metrics) -> impl Iterator<Item = ((LogArea, &'static str), String, u64)> {
    const DROPPED: &str =
        "records of exchanges are dropped, because access logs take them too slowly:";
    let dropped = metrics.sum(|cells| cells.records_dropped.get());
    let dropped = ((LogArea::Log, "records_dropped"), DROPPED.to_owned(), dropped);
    let figures = metrics.policies().into_iter().flat_map(|metric| metric.figures);
    let of_policies =
        figures.filter_map(|it| Some(((LogArea::Policy, "policy"), it.event?, it.count)));
    std::iter::once(dropped).chain(of_policies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_reported_at_once_and_then_once_a_minute() {
        let (mut events, start) = (Events::default(), Instant::now());
        let mut tell = |counts: [u64; 2], seconds: u64| {
            let kinds = ["a", "b"].into_iter().zip(counts);
            let kinds = kinds.map(|(what, count)| ((), what.to_owned(), count));
            let told = events.tell(kinds, start + Duration::from_secs(seconds));
            told.into_iter().map(|((), line)| line).collect::<String>()
        };
        assert_eq!(tell([0, 0], 0), "");
        assert_eq!(tell([3, 0], 2), "a 3 so far");
        assert_eq!(tell([9, 1], 61), "b 1 so far");
        assert_eq!(tell([10, 1], 62), "a 7 more, 10 in all");
        assert_eq!(tell([10, 1], 1000), "", "nothing has happened since");
    }
}
