//! What is counted: cells that one worker writes and any thread may read.
//!
//! Each worker has its own cells, so that counting is a plain store to memory that no other core writes. Readers add
//! up the workers. What routes and upstreams count belongs to their names ([`Counted`]).

use crate::pressure::Pressure;
use arc_swap::ArcSwap;
use std::sync::{Arc, LazyLock};
use titan_http::Status;
use titan_io::counter::{Counter, Durations, Histogram, Sizes};
use titan_io::error::{Error, Kind};
use titan_observe::events::Log;
use titan_policies::chain::PolicyCounters;
use titan_policies::list::{PolicyMetric, refusals};
use titan_policies::policy::ExchangeEnd;

/// What the workers of a gateway count, whichever route a request takes.
pub struct Metrics {
    workers: Vec<Cells>,
    policies: ArcSwap<PolicyCounters>,
    /// How near the process is to its limits.
    pub pressure: Pressure,
}

/// Every code that a failure can have, those of policies among them.
static CODES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let of_policies = refusals().map(Kind::code);
    Kind::CODES.iter().copied().chain(of_policies).collect()
});

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
    /// Complete TLS handshakes, first those with TLS 1.2, then those with 1.3; of each first full ones, then resumed ones.
    pub handshakes: [[Counter; 2]; 2],
    /// Client connections that were closed because the TLS handshake failed or did not end.
    pub handshakes_failed: Counter,
    /// Those of them whose client presented no certificate where one is required, or an invalid one.
    pub certificates_refused: Counter,
    /// Bytes of request heads and bodies.
    pub received: Counter,
    /// Bytes of responses.
    pub sent: Counter,
    /// Requests that began.
    pub begun: Counter,
    /// Client connections on which HTTP/2 was chosen.
    pub h2_opened: Counter,
    /// Those of them that are over.
    pub h2_closed: Counter,
    /// Client connections of HTTP/3 whose handshake is complete.
    pub h3_opened: Counter,
    /// Those of them that are over.
    pub h3_closed: Counter,
    /// Datagrams that were handed to the worker whose connection they are for.
    pub quic_handed_over: Counter,
    /// Datagrams that a process before this one got.
    pub quic_forwarded: Counter,
    /// Clients of QUIC that were asked to show that they receive what is sent to them.
    pub quic_retries: Counter,
    /// Attempts to receive datagrams of clients that the system did not let succeed.
    pub quic_receive_errors: Counter,
    /// Packets that were lost on their way to clients.
    pub quic_lost: Counter,
    /// Changes of the addresses of clients.
    pub quic_migrations: Counter,
    /// How long packets take to a client and back, once for each connection at its end.
    pub quic_round_trips: Histogram<Durations>,
    /// Requests of HTTP/3.
    pub h3_streams_opened: Counter,
    /// Those of them that are over.
    pub h3_streams_closed: Counter,
    /// Requests of HTTP/3 that were served before the handshake was complete.
    pub h3_early_requests: Counter,
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
    /// Microseconds by which the last tick of the worker's clock was late.
    pub lag_micros: Counter,
    /// The level of pressure that this has come to.
    pub lag_level: Counter,
    /// Connections closed after a response because of pressure.
    pub pressure_closed: Counter,
    /// Requests refused because of pressure.
    pub pressure_shed: Counter,
    /// Times that a listener has paused because of pressure.
    pub pressure_pauses: Counter,
    /// Records of exchanges that were dropped because too many were on their way.
    pub records_dropped: Counter,
    /// Bytes of receive buffers at the last tick, used or not.
    pub receive_buffers: Counter,
    /// Bytes that were kept then for the heads and records of later exchanges and calls.
    pub kept_heads: Counter,
    /// Bytes for responses that were being compressed then.
    pub compression: Counter,
    /// Ticks of the worker's clock: while they grow, it answers.
    pub ticks: Counter,
    /// Failed exchanges by kind; [`Metrics::failures_by_code`] names the kinds.
    pub failures: Vec<Counter>,
}

/// What is counted for a route.
#[derive(Default)]
pub struct RouteCells {
    /// Requests that the route has taken; those that are not counted below still run.
    pub begun: Counter,
    /// Complete responses by the first digit of their status, from 1; exchanges without one at 0.
    pub classes: [Counter; 6],
    /// From the complete request head to the end of the response.
    pub latency: Histogram<Durations>,
    /// Bytes of each request, its head among them.
    pub received: Histogram<Sizes>,
    /// Bytes of each response, or of what there was of it.
    pub sent: Histogram<Sizes>,
}

impl Metrics {
    /// Cells for that many workers; policies have their own. `log` is told of pressure.
    pub(crate) fn new(workers: usize, policies: PolicyCounters, log: &Log) -> Metrics {
        let workers = (0..workers).map(|_| Cells::new()).collect();
        Metrics {
            workers,
            policies: ArcSwap::from_pointee(policies),
            pressure: Pressure::new(log.clone()),
        }
    }

    /// Tells of these policies from now on.
    pub(crate) fn set_policies(&self, policies: PolicyCounters) {
        self.policies.store(Arc::new(policies));
    }

    /// The cells of each worker.
    pub fn workers(&self) -> &[Cells] {
        &self.workers
    }

    /// What policies count.
    pub fn policies(&self) -> Vec<PolicyMetric> {
        self.policies.load().metrics()
    }

    /// One figure over all policies; 0 where there is none of that name.
    pub fn of_policies(&self, metric: &str, figure: &str) -> u64 {
        let metrics = self.policies();
        let figures = metrics.iter().filter(|it| it.name == metric).flat_map(|it| &it.figures);
        figures.filter(|it| it.figure == figure).map(|it| it.count).sum()
    }

    /// Failed exchanges of all workers by the code of their kind.
    pub fn failures_by_code(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let sum = |place: usize| self.sum(|cells| cells.failures[place].get());
        CODES.iter().copied().enumerate().map(move |(place, code)| (code, sum(place)))
    }

    /// One figure over all workers.
    pub fn sum(&self, figure: impl Fn(&Cells) -> u64) -> u64 {
        self.workers.iter().map(figure).sum()
    }
}

impl Cells {
    fn new() -> Cells {
        Cells {
            accepted: Counter::default(),
            closed: Counter::default(),
            refused: Counter::default(),
            handshakes: Default::default(),
            handshakes_failed: Counter::default(),
            certificates_refused: Counter::default(),
            received: Counter::default(),
            sent: Counter::default(),
            begun: Counter::default(),
            h2_opened: Counter::default(),
            h2_closed: Counter::default(),
            h3_opened: Counter::default(),
            h3_closed: Counter::default(),
            quic_handed_over: Counter::default(),
            quic_forwarded: Counter::default(),
            quic_retries: Counter::default(),
            quic_receive_errors: Counter::default(),
            quic_lost: Counter::default(),
            quic_migrations: Counter::default(),
            quic_round_trips: Histogram::default(),
            h3_streams_opened: Counter::default(),
            h3_streams_closed: Counter::default(),
            h3_early_requests: Counter::default(),
            streams_opened: Counter::default(),
            streams_closed: Counter::default(),
            tunnels_opened: Counter::default(),
            tunnels_closed: Counter::default(),
            busy_micros: Counter::default(),
            lag_micros: Counter::default(),
            lag_level: Counter::default(),
            pressure_closed: Counter::default(),
            pressure_shed: Counter::default(),
            pressure_pauses: Counter::default(),
            records_dropped: Counter::default(),
            receive_buffers: Counter::default(),
            kept_heads: Counter::default(),
            compression: Counter::default(),
            ticks: Counter::default(),
            failures: std::iter::repeat_with(Counter::default).take(CODES.len()).collect(),
        }
    }

    /// Client connections that are open.
    pub fn open(&self) -> u64 {
        // Closed first: one that comes and goes meanwhile must not make more closed than accepted.
        let closed = self.closed.get();
        self.accepted.get().saturating_sub(closed)
    }

    pub(crate) fn count_failure(&self, error: Error) {
        let code = error.kind.code();
        if let Some(place) = CODES.iter().position(|known| *known == code) {
            self.failures[place].add(1);
        }
    }
}

impl RouteCells {
    /// Counts an exchange that is over.
    pub(crate) fn count_response(&self, end: &ExchangeEnd) {
        let class = end.status.map_or(0, Status::class);
        self.classes[usize::from(class)].add(1);
        self.latency.record(end.took);
        self.received.record(end.received);
        self.sent.record(end.sent);
    }
}
