//! What is counted: cells that one worker writes and anybody may read.
//!
//! Each worker has its own cells, so that counting is a plain store to memory that no other core
//! writes. Whoever wants the figures adds up the workers.

use crate::middleware::Refusal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use titan_http::Status;
use titan_io::error::{Error, Kind};

/// All cells of a gateway.
pub struct Metrics {
    workers: Vec<Cells>,
    routes: Vec<String>,
    upstreams: Vec<String>,
    rate_limits: Vec<String>,
}

/// A number that only grows. One thread writes it.
#[derive(Default)]
pub struct Counter(AtomicU64);

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
    /// Octets of request heads and bodies.
    pub received: Counter,
    /// Octets of answers.
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
    /// Tokens that policies judged.
    pub jwt: JwtCells,
    /// Passwords that policies judged.
    pub passwords: PasswordCells,
    /// Decisions of services about requests, where they are remembered.
    pub forward_auth: ForwardAuthCells,
    /// What rate limits have decided.
    pub rate_limits: Vec<RateLimitCells>,
    /// Failed exchanges by kind; [`Cells::failures_by_code`] names the kinds.
    pub failures: Vec<Counter>,
}

/// What is counted for a route.
#[derive(Default)]
pub struct RouteCells {
    /// Complete answers by the first digit of their status, from 1; exchanges without one at 0.
    pub classes: [Counter; 6],
    /// From the complete request head to the end of the answer.
    pub latency: Histogram,
}

/// What is counted of tokens.
#[derive(Default)]
pub struct JwtCells {
    /// Good ones that were known already.
    pub hits: Counter,
    /// Good ones whose signature had to be checked.
    pub misses: Counter,
    /// Others, by why they are no good; [`JwtCells::refused_by_reason`] names the reasons.
    pub(crate) refused: [Counter; Refusal::WORDS.len()],
}

/// What is counted of passwords.
#[derive(Default)]
pub struct PasswordCells {
    /// Those that were remembered to be right or wrong.
    pub remembered: Counter,
    /// Those that were compared with a hash.
    pub checked: Counter,
}

impl JwtCells {
    /// Tokens that are no good by the reason.
    pub fn refused_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::WORDS.iter().copied().zip(self.refused.iter().map(Counter::get))
    }
}

/// What is counted of the decisions of services.
#[derive(Default)]
pub struct ForwardAuthCells {
    /// Those that were remembered.
    pub hits: Counter,
    /// Those that were asked for because they were not.
    pub misses: Counter,
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

/// What is counted for a rate limit.
#[derive(Default)]
pub struct RateLimitCells {
    /// Requests that it let through.
    pub allowed: Counter,
    /// Requests that it let through when they had waited for their turn, or lets wait.
    pub delayed: Counter,
    /// Requests that it refused.
    pub limited: Counter,
    /// Requests that it refused for want of room for their keys.
    pub full: Counter,
    /// Requests that it does not count.
    pub exempt: Counter,
    /// Requests that it let through alone because it only watches.
    pub shadowed: Counter,
}

/// Durations, sorted into buckets.
#[derive(Default)]
pub struct Histogram {
    /// By the bounds of [`Histogram::BOUNDS`]; the last one has none.
    buckets: [Counter; Histogram::BOUNDS.len() + 1],
    micros: Counter,
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
            jwt: JwtCells::default(),
            passwords: PasswordCells::default(),
            forward_auth: ForwardAuthCells::default(),
            rate_limits: std::iter::repeat_with(RateLimitCells::default)
                .take(rate_limits)
                .collect(),
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

impl Counter {
    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Only the worker that the cell belongs to may call this: it is a load and a store.
    pub(crate) fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// The same for a number that is known as a whole.
    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}

impl Histogram {
    /// The upper bounds of the buckets, in microseconds.
    pub const BOUNDS: [u64; 14] = [
        250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
        1_000_000, 2_500_000, 10_000_000,
    ];

    /// How many durations fell into each bucket; the last one has no upper bound.
    pub fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(Counter::get)
    }

    /// The sum of all durations in microseconds.
    pub fn micros(&self) -> u64 {
        self.micros.get()
    }

    fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = Histogram::BOUNDS.iter().position(|&bound| micros <= bound);
        self.buckets[bucket.unwrap_or(Histogram::BOUNDS.len())].add(1);
        self.micros.add(micros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_bucket_with_the_next_bound() {
        let histogram = Histogram::default();
        for micros in [0, 250, 251, 10_000_000, 10_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!((buckets[0], buckets[1], buckets[13], buckets[14]), (2, 1, 1, 1));
        assert_eq!(histogram.micros(), 20_000_502);
    }

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
