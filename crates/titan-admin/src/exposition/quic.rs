//! What is measured on connections of QUIC.

use super::family::{Distribution, Family, Unit};
use super::page::Page;
use titan_proxy::{Durations, HistogramSum, Metrics, RouteCells};

const ROUND_TRIPS: Family = Family::histogram(
    "titan_quic_round_trip_seconds",
    "How long packets took to a client and back, once for each connection at its end.",
);

impl Page {
    /// Of connections that are over, on all workers.
    pub(super) fn round_trips(&mut self, metrics: &Metrics) {
        let mut sum = HistogramSum::default();
        metrics.workers().iter().for_each(|cells| sum.add(&cells.quic_round_trips));
        self.begin(ROUND_TRIPS);
        let unit = Unit::of::<Durations>();
        let all =
            Distribution::<RouteCells, Durations> { sum: &sum, of: None, which: |of| &of.latency };
        self.histogram(ROUND_TRIPS, &[], &unit, &all, &[]);
    }
}
