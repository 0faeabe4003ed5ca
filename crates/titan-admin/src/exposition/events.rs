//! What was left out of the log.

use super::{Family, Page};
use titan_observe::events::Dropped;

impl Page {
    pub(super) fn events(&mut self, Dropped { queue, rate }: Dropped) {
        let dropped = Family::counter(
            "titan_events_dropped_total",
            "Events that were not written, because standard error takes them too slowly or there were too many.",
        );
        self.begin(dropped);
        for (reason, count) in [("queue", queue), ("rate", rate)] {
            self.sample(dropped.name, &[("reason", reason)], count);
        }
    }
}
