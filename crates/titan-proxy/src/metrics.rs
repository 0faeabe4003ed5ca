//! What is counted: cells that one worker writes and anybody may read.
//!
//! Each worker has its own cells, so that counting is a plain store to memory that no other core
//! writes. Whoever wants the figures adds up the workers.

use std::time::Duration;
use titan_http::Status;
use titan_io::counter::{Counter, Histogram};
use titan_io::error::{Error, Kind};
use titan_policies::cells::PolicyCells;

/// All cells of a gateway.
pub struct Metrics {
    workers: Vec<Cells>,
    routes: Vec<String>,
    upstreams: Vec<String>,
    rate_limits: Vec<String>,
}

/// The cells of one worker. Aligned so that two workers never write to the same cache line.
#[repr(align(128))]
pub struct Cells {
    /// Client connections accepted.
    pub accepted: Counter,
    /// Client connections closed again.
    pub closed: Counter,
    /// Client connections refused because a limit was reached.
    pub refused: Counter,
    /// Client connections that were closed because the TLS handshake failed or did not end.
    pub handshakes_failed: Counter,
    /// Those of them whose client showed no certificate where it must, or one that is not taken.
    pub certificates_refused: Counter,
    /// Bytes of request heads and bodies.
    pub received: Counter,
    /// Bytes of responses.
    pub sent: Counter,
    /// Requests that began.
    pub begun: Counter,
    /// Streams of HTTP/2 that clients opened.
    pub streams_opened: Counter,
    /// Those of them that are over.
    pub streams_closed: Counter,
    /// Tunnels, such as WebSockets, that were opened.
    pub tunnels_opened: Counter,
    /// Those of them that are closed.
    pub tunnels_closed: Counter,
    /// Microseconds of processor time that the worker has used, up to its last tick.
    pub busy_micros: Counter,
    /// Requests by the route that took them; the last one counts those that no route took.
    pub routes: Vec<RouteCells>,
    /// What upstreams were asked.
    pub upstreams: Vec<UpstreamCells>,
    /// What policies count.
    pub policies: PolicyCells,
    /// Failed exchanges by kind; [`Cells::failures_by_code`] names the kinds.
    pub failures: Vec<Counter>,
}

/// What is counted for a route.
#[derive(Default)]
pub struct RouteCells {
    /// Complete responses by the first digit of their status, from 1; exchanges without one at 0.
    pub classes: [Counter; 6],
    /// From the complete request head to the end of the response.
    pub latency: Histogram,
}

/// What is counted for an upstream.
#[derive(Default)]
pub struct UpstreamCells {
    /// Attempts to have a request answered, retries among them.
    pub attempts: Counter,
    /// Attempts that repeated a failed one.
    pub retries: Counter,
    /// Connections opened.
    pub connects: Counter,
    /// Attempts over a connection that was open already.
    pub reuses: Counter,
    /// Attempts that failed.
    pub failures: Counter,
}

impl Metrics {
    /// Cells for so many workers, and for the routes, upstreams and rate limits with those names.
    pub(crate) fn new(
        workers: usize,
        routes: Vec<String>,
        upstreams: Vec<String>,
        rate_limits: Vec<String>,
    ) -> Metrics {
        let cells = |_| Cells::new(routes.len() + 1, upstreams.len(), rate_limits.len());
        let workers = (0..workers).map(cells).collect();
        Metrics { workers, routes, upstreams, rate_limits }
    }

    /// The cells of each worker.
    pub fn workers(&self) -> &[Cells] {
        &self.workers
    }

    /// The names of the routes, in the order of [`Cells::routes`] without its last one.
    pub fn routes(&self) -> &[String] {
        &self.routes
    }

    /// The names of the upstreams, in the order of [`Cells::upstreams`].
    pub fn upstreams(&self) -> &[String] {
        &self.upstreams
    }

    /// The names of the rate limits, in the order of [`Cells::rate_limits`].
    pub fn rate_limits(&self) -> &[String] {
        &self.rate_limits
    }

    /// One figure over all workers.
    pub fn sum(&self, figure: impl Fn(&Cells) -> u64) -> u64 {
        self.workers.iter().map(figure).sum()
    }
}

impl Cells {
    fn new(routes: usize, upstreams: usize, rate_limits: usize) -> Cells {
        Cells {
            accepted: Counter::default(),
            closed: Counter::default(),
            refused: Counter::default(),
            handshakes_failed: Counter::default(),
            certificates_refused: Counter::default(),
            received: Counter::default(),
            sent: Counter::default(),
            begun: Counter::default(),
            streams_opened: Counter::default(),
            streams_closed: Counter::default(),
            tunnels_opened: Counter::default(),
            tunnels_closed: Counter::default(),
            busy_micros: Counter::default(),
            routes: std::iter::repeat_with(RouteCells::default).take(routes).collect(),
            upstreams: std::iter::repeat_with(UpstreamCells::default).take(upstreams).collect(),
            policies: PolicyCells::new(rate_limits),
            failures: std::iter::repeat_with(Counter::default).take(Kind::CODES.len()).collect(),
        }
    }

    /// Failed exchanges by the code of their kind.
    pub fn failures_by_code(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Kind::CODES.iter().copied().zip(self.failures.iter().map(Counter::get))
    }

    pub(crate) fn count_failure(&self, error: Error) {
        self.failures[error.kind.index()].add(1);
    }

    pub(crate) fn count_answer(
        &self,
        route: Option<usize>,
        status: Option<Status>,
        took: Duration,
    ) {
        let none = self.routes.len() - 1;
        let cells = &self.routes[route.unwrap_or(none)];
        let class = status.map_or(0, Status::class);
        cells.classes[usize::from(class)].add(1);
        cells.latency.record(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_a_route_are_counted_too() {
        let metrics = Metrics::new(2, vec!["a".into()], vec![], vec![]);
        metrics.workers()[0].count_answer(None, Some(Status::NOT_FOUND), Duration::ZERO);
        metrics.workers()[1].count_answer(Some(0), Some(Status::OK), Duration::ZERO);
        metrics.workers()[1].count_answer(Some(0), None, Duration::ZERO);
        assert_eq!(metrics.sum(|cells| cells.routes[1].classes[4].get()), 1);
        assert_eq!(metrics.sum(|cells| cells.routes[0].classes[2].get()), 1);
        assert_eq!(metrics.sum(|cells| cells.routes[0].classes[0].get()), 1);
    }
}
