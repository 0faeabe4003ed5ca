//! How near the gateway is to its own limits.

use super::family::{Family, seconds};
use super::page::Page;
use titan_proxy::Metrics;

impl Page {
    /// How near the gateway is to its limits, and what that has led to.
    pub(super) fn pressure(&mut self, metrics: &Metrics) {
        let level = Family::gauge(
            "titan_pressure_level",
            "Step in force: 1 connections close after their response, 2 sheddable requests are refused, 3 none is accepted.",
        );
        self.single(level, metrics.pressure.level() as u8);
        let ratio = Family::gauge(
            "titan_pressure_ratio",
            "What the process uses, as a part of what there may be; 0 without a limit.",
        );
        self.begin(ratio);
        for (resource, share) in
            ["descriptors", "memory"].into_iter().zip(metrics.pressure.shares())
        {
            self.sample(ratio.name, &[("resource", resource)], share);
        }
        let lag = "How late the last tick of the worker's clock was.";
        let level = "Step in force because of the worker's lag, as for titan_pressure_level.";
        let lag = Family::gauge("titan_worker_lag_seconds", lag);
        let level = Family::gauge("titan_worker_lag_level", level);
        for (place, family) in [lag, level].into_iter().enumerate() {
            self.begin(family);
            for (worker, cells) in metrics.workers().iter().enumerate() {
                let level = u8::try_from(cells.lag_level.get()).map_or(0.0, f64::from);
                let figure = [seconds(cells.lag_micros.get()), level][place];
                self.sample(family.name, &[("worker", &worker.to_string())], figure);
            }
        }
        let actions = Family::counter("titan_pressure_actions_total", "What pressure has led to.");
        self.begin(actions);
        for (worker, cells) in metrics.workers().iter().enumerate() {
            for (action, count) in [
                ("close", &cells.pressure_closed),
                ("shed", &cells.pressure_shed),
                ("pause", &cells.pressure_pauses),
            ] {
                let labels = [("worker", worker.to_string()), ("action", action.to_owned())];
                let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
                self.sample(actions.name, &labels, count.get());
            }
        }
    }
}
