//! What access logs have written, and what they have not.

use super::{Family, Page};
use std::collections::BTreeMap;
use std::sync::Arc;
use titan_proxy::{Cells, DestinationFigures, ExporterFigures, Metrics};

/// In the order of the figures in [`Page::access_logs`].
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

impl Page {
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

const SENT: Family = Family::counter(
    "titan_otlp_sent_total",
    "Records that collectors of OpenTelemetry have accepted.",
);

const DROPPED: Family =
    Family::counter("titan_otlp_dropped_total", "Records that collectors will never get, by why.");

const RETRIES: Family =
    Family::counter("titan_otlp_retries_total", "Messages that were sent to collectors again.");

const UNREACHED: Family = Family::gauge(
    "titan_otlp_failing",
    "Whether the collector fails, or takes records too slowly.",
);

impl Page {
    /// What goes to collectors of OpenTelemetry. Several logs to one are added up.
    pub(super) fn exporters(&mut self, exporters: &[Arc<ExporterFigures>]) {
        let mut by_name: BTreeMap<_, Vec<&ExporterFigures>> = BTreeMap::new();
        for exporter in exporters {
            let name = (exporter.collector.as_str(), exporter.signal.name());
            by_name.entry(name).or_default().push(exporter);
        }
        let mut sum = |family: Family, figure: &dyn Fn(&ExporterFigures) -> u64, is_gauge: bool| {
            self.begin(family);
            for ((collector, signal), all) in &by_name {
                let counts = all.iter().map(|it| figure(it));
                let count = if is_gauge { counts.max().unwrap_or(0) } else { counts.sum() };
                self.sample(family.name, &[("collector", collector), ("signal", signal)], count);
            }
        };
        sum(SENT, &ExporterFigures::sent, false);
        sum(RETRIES, &ExporterFigures::retries, false);
        sum(UNREACHED, &|it| u64::from(it.destination.is_in_trouble()), true);
        self.begin(DROPPED);
        for ((collector, signal), all) in &by_name {
            let mut counts = BTreeMap::<_, u64>::new();
            for (reason, count) in all.iter().flat_map(|it| it.dropped()) {
                *counts.entry(reason).or_default() += count;
            }
            for (reason, count) in counts {
                let labels = [("collector", *collector), ("signal", *signal), ("reason", reason)];
                self.sample(DROPPED.name, &labels, count);
            }
        }
    }
}
