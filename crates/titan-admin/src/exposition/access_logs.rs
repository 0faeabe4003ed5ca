//! What access logs have written, and what they have not.

use super::{Family, Text};
use titan_proxy::{Cells, DestinationFigures, Metrics};

/// In the order of the figures in [`Text::access_logs`].
const OF_LOG: [Family; 3] = [
    Family::counter("titan_access_log_lines_total", "Lines written as a whole."),
    Family::counter("titan_access_log_written_bytes_total", "Bytes written."),
    Family::counter(
        "titan_access_log_dropped_total",
        "Lines that were not written, because the destination fails or takes them too slowly.",
    ),
];

const FAILING: Family = Family::gauge(
    "titan_access_log_failing",
    "Whether the destination fails, or takes lines too slowly.",
);

const RECORDS: Family = Family::counter(
    "titan_records_dropped_total",
    "Records of exchanges that were dropped for all access logs, because too many waited to be read.",
);

impl Text {
    pub(super) fn access_logs<'f>(
        &mut self,
        metrics: &Metrics,
        logs: impl Iterator<Item = &'f DestinationFigures> + Clone,
    ) {
        self.single(RECORDS, metrics.sum(|cells: &Cells| cells.records_dropped.get()));
        for (figure, family) in OF_LOG.into_iter().enumerate() {
            self.begin(family);
            for log in logs.clone() {
                let count = [log.written(), log.bytes(), log.dropped()][figure];
                self.sample(family.name, &[("log", log.name())], count);
            }
        }
        self.begin(FAILING);
        for log in logs {
            self.sample(FAILING.name, &[("log", log.name())], u64::from(log.is_in_trouble()));
        }
    }
}
