//! What is counted for upstreams.

use super::text::{Family, Text, Unit};
use std::sync::Arc;
use titan_proxy::{
    ConcurrencyStatus, Counted, Counter, Durations, Histogram, RetryReason, UpstreamCells,
};

const OF_UPSTREAM: [Family; 11] = [
    Family::counter("titan_upstream_requests_total", "Requests, each with all its attempts."),
    Family::counter(
        "titan_upstream_attempts_total",
        "Attempts to send a request, including retries and hedges.",
    ),
    Family::counter(
        "titan_upstream_retries_refused_total",
        "Retries that did not take place because the retry budget was used up.",
    ),
    Family::counter(
        "titan_upstream_hedges_total",
        "Requests that were sent to a second endpoint because the first one took long.",
    ),
    Family::counter("titan_upstream_hedges_won_total", "Hedges whose response the client got."),
    Family::counter(
        "titan_upstream_hedges_refused_total",
        "Hedges that did not take place because the retry budget was used up.",
    ),
    Family::counter(
        "titan_upstream_shed_total",
        "Requests refused because as many ran or waited as `concurrency` allows.",
    ),
    Family::counter(
        "titan_circuit_breaker_rejected_total",
        "Attempts that circuit breakers rejected, first ones and retries.",
    ),
    Family::counter("titan_upstream_connects_total", "Connections opened."),
    Family::counter("titan_upstream_reuses_total", "Attempts that reused an open connection."),
    Family::counter("titan_upstream_failures_total", "Failed attempts."),
];

/// In the order of the histograms in [`Text::upstreams`].
const DURATIONS: [Family; 3] = [
    Family::histogram(
        "titan_upstream_connect_duration_seconds",
        "How long connections took to open, their TLS handshakes included.",
    ),
    Family::histogram(
        "titan_upstream_first_byte_duration_seconds",
        "From the choice of an endpoint to the head of its response.",
    ),
    Family::histogram(
        "titan_upstream_attempt_duration_seconds",
        "From the choice of an endpoint to the end of its response, or to its failure.",
    ),
];

const RETRIES: Family = Family::counter(
    "titan_upstream_retries_total",
    "Retries after a failed attempt, by what had failed.",
);

/// In the order of the figures in [`Text::concurrency`].
const OF_CONCURRENCY: [Family; 3] = [
    Family::gauge("titan_upstream_concurrency_limit", "Requests that may run."),
    Family::gauge("titan_upstream_concurrency_running", "Requests that run."),
    Family::gauge("titan_upstream_concurrency_waiting", "Requests that wait for others to end."),
];

impl Text {
    pub(super) fn upstreams(&mut self, upstreams: &[Arc<Counted<UpstreamCells>>]) {
        for (figure, family) in OF_UPSTREAM.into_iter().enumerate() {
            self.begin(family);
            for upstream in upstreams {
                let count = upstream.sum(|cells| of_upstream(cells)[figure]);
                self.sample(family.name, &[("upstream", upstream.name())], count);
            }
        }
        let unit = Unit::seconds();
        let of: [fn(&UpstreamCells) -> &Histogram<Durations>; 3] =
            [|cells| &cells.connect, |cells| &cells.first_byte, |cells| &cells.attempt];
        for (family, of) in DURATIONS.into_iter().zip(of) {
            self.begin(family);
            for upstream in upstreams {
                let labels = [("upstream", upstream.name())];
                self.histogram(family, &labels, &unit, &upstream.histogram(of));
            }
        }
        self.begin(RETRIES);
        for upstream in upstreams {
            for reason in RetryReason::ALL {
                let count = upstream.sum(|cells| cells.retries[reason as usize].get());
                let labels = [("upstream", upstream.name()), ("reason", reason.name())];
                self.sample(RETRIES.name, &labels, count);
            }
        }
    }

    /// Of the upstreams that are limited.
    pub(super) fn concurrency(&mut self, upstreams: &[(String, ConcurrencyStatus)]) {
        if upstreams.is_empty() {
            return;
        }
        for (figure, family) in OF_CONCURRENCY.into_iter().enumerate() {
            self.begin(family);
            for (upstream, status) in upstreams {
                let ConcurrencyStatus { limit, running, waiting, .. } = status;
                let labels = [("upstream", upstream.as_str())];
                self.sample(family.name, &labels, [limit, running, waiting][figure]);
            }
        }
    }
}

/// In the order of [`OF_UPSTREAM`].
fn of_upstream(cells: &UpstreamCells) -> [u64; OF_UPSTREAM.len()] {
    // The retries have a family of their own, and so have durations.
    let UpstreamCells {
        requests,
        attempts,
        retries: _,
        retries_refused,
        hedges,
        hedges_won,
        hedges_refused,
        rejected,
        shed,
        connects,
        connect: _,
        reuses,
        failures,
        first_byte: _,
        attempt: _,
    } = cells;
    let [sent, won, refused] = [hedges, hedges_won, hedges_refused];
    let counters = [
        requests,
        attempts,
        retries_refused,
        sent,
        won,
        refused,
        shed,
        rejected,
        connects,
        reuses,
        failures,
    ];
    counters.map(Counter::get)
}
