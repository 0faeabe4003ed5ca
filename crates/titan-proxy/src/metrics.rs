//! What is counted: cells that one worker writes and anybody may read.
//!
//! Each worker has its own cells, so that counting is a plain store to memory that no other core
//! writes. Whoever wants the figures adds up the workers. What routes and upstreams count belongs to their names ([`Counted`]).

use std::time::Duration;
use titan_http::Status;
use titan_io::counter::{Counter, Histogram};
use titan_io::error::{Error, Kind};
use titan_policies::cells::PolicyCells;

/// What the workers of a gateway count, whichever route a request takes.
pub struct Metrics {
    workers: Vec<Cells>,
    rate_limits: Vec<String>,
}

/// The name of what no route took, which no route can have.
pub(crate) const NO_ROUTE: &str = "(none)";

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

impl Metrics {
    /// Cells for so many workers, and for the rate limits with those names.
    pub(crate) fn new(workers: usize, rate_limits: Vec<String>) -> Metrics {
        let workers = (0..workers).map(|_| Cells::new(rate_limits.len())).collect();
        Metrics { workers, rate_limits }
    }

    /// The cells of each worker.
    pub fn workers(&self) -> &[Cells] {
        &self.workers
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
    fn new(rate_limits: usize) -> Cells {
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
}

impl RouteCells {
    /// Counts an exchange that is over.
    pub(crate) fn count_answer(&self, status: Option<Status>, took: Duration) {
        let class = status.map_or(0, Status::class);
        self.classes[usize::from(class)].add(1);
        self.latency.record(took);
    }
}
