//! What is counted for upstreams.

use super::family::{Distribution, Family, SERIES, Unit, by_name};
use super::folding::{Figures, Now, Other, fold};
use super::page::Page;
use std::sync::Arc;
use titan_proxy::{
    ConcurrencyStatus, Counted, Counter, Durations, Histogram, HistogramSum, RetryReason,
    UpstreamCells, UpstreamStatus,
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

/// In the order of the histograms in [`Page::upstreams`].
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

/// In the order of the figures in [`Page::concurrency`].
const OF_CONCURRENCY: [Family; 3] = [
    Family::gauge("titan_upstream_concurrency_limit", "Requests that may run."),
    Family::gauge("titan_upstream_concurrency_running", "Requests that run."),
    Family::gauge("titan_upstream_concurrency_waiting", "Requests that wait for others to end."),
];

/// How many series an upstream has, but for those of [`OF_CONCURRENCY`].
pub(super) const OF_EACH: usize = OF_UPSTREAM.len() + RetryReason::ALL.len() + 3 * SERIES;
/// How many more it has where it is limited.
pub(super) const OF_LIMITED: usize = OF_CONCURRENCY.len();

/// Counters, and retries by reason; and durations.
pub(super) type UpstreamSum =
    (([u64; OF_UPSTREAM.len()], [u64; RetryReason::ALL.len()]), [HistogramSum; DURATIONS.len()]);

/// One of the histograms.
type OfDurations = fn(&UpstreamCells) -> &Histogram<Durations>;

impl Page {
    /// So many with series of their own.
    pub(super) fn upstreams(
        &mut self,
        upstreams: &[Arc<Counted<UpstreamCells>>],
        (own, other): (usize, &mut Other<1, UpstreamSum>),
    ) {
        let all = upstreams.iter().map(|it| ([it.name()], added_up(it)));
        let rows = fold(all, own, other);
        let cells = by_name(upstreams);
        for (figure, family) in OF_UPSTREAM.into_iter().enumerate() {
            self.begin(family);
            for ([upstream], ((counts, _), _)) in &rows {
                self.sample(family.name, &[("upstream", upstream)], counts[figure]);
            }
        }
        let unit = Unit::of::<Durations>();
        let durations: [OfDurations; DURATIONS.len()] =
            [|cells| &cells.connect, |cells| &cells.first_byte, |cells| &cells.attempt];
        for (place, (family, which)) in DURATIONS.into_iter().zip(durations).enumerate() {
            self.begin(family);
            for ([upstream], (_, sums)) in &rows {
                let of = cells.get(upstream).copied();
                let durations = Distribution { sum: &sums[place], of, which };
                self.histogram(family, &[("upstream", upstream)], &unit, &durations, &[]);
            }
        }
        self.begin(RETRIES);
        for ([upstream], ((_, retries), _)) in &rows {
            for (reason, count) in RetryReason::ALL.into_iter().zip(retries) {
                let labels = [("upstream", *upstream), ("reason", reason.name())];
                self.sample(RETRIES.name, &labels, count);
            }
        }
    }

    /// Of the upstreams that are limited, so many with series of their own.
    pub(super) fn concurrency(&mut self, upstreams: &[UpstreamStatus], own: usize) {
        let limited = upstreams.iter().filter_map(|upstream| {
            let ConcurrencyStatus { limit, running, waiting, .. } = upstream.concurrency?;
            let figures = Now([limit, running, waiting].map(u64::from));
            Some(([upstream.name.as_str()], figures))
        });
        let rows = fold(limited, own, &mut Other::default());
        if rows.is_empty() {
            return;
        }
        for (figure, family) in OF_CONCURRENCY.into_iter().enumerate() {
            self.begin(family);
            for ([upstream], Now(figures)) in &rows {
                self.sample(family.name, &[("upstream", upstream)], figures[figure]);
            }
        }
    }
}

/// The cells of an upstream, added up over all workers.
fn added_up(upstream: &Counted<UpstreamCells>) -> UpstreamSum {
    let (mut counts, mut retries) = ([0; OF_UPSTREAM.len()], [0; RetryReason::ALL.len()]);
    for cells in upstream.workers() {
        counts.add(&of_upstream(cells));
        retries.add(&cells.retries.each_ref().map(Counter::get));
    }
    let durations = [
        upstream.histogram(|cells| &cells.connect),
        upstream.histogram(|cells| &cells.first_byte),
        upstream.histogram(|cells| &cells.attempt),
    ];
    ((counts, retries), durations)
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
