//! What is counted for an upstream.

use titan_io::counter::{Counter, Durations, Histogram};

/// What is counted for an upstream.
#[derive(Default)]
pub struct UpstreamCells {
    /// Requests, with all their attempts.
    pub requests: Counter,
    /// Attempts to get a response to a request, retries among them.
    pub attempts: Counter,
    /// Attempts that repeated a failed one, by what had failed.
    pub retries: [Counter; RetryReason::ALL.len()],
    /// Attempts that would have repeated a failed one, had the budget allowed it.
    pub retries_refused: Counter,
    /// Second tries of requests whose first one went on.
    pub hedges: Counter,
    /// Those of them whose response the client got.
    pub hedges_won: Counter,
    /// Second tries that there would have been, had the budget allowed them.
    pub hedges_refused: Counter,
    /// Requests refused because as many ran or waited as may.
    pub shed: Counter,
    /// Attempts that circuit breakers rejected.
    pub rejected: Counter,
    /// Connections opened.
    pub connects: Counter,
    /// How long each of them took, its TLS handshake included.
    pub connect: Histogram<Durations>,
    /// Attempts over a connection that was open already.
    pub reuses: Counter,
    /// Attempts that failed.
    pub failures: Counter,
    /// From the choice of an endpoint to the head of its response.
    pub first_byte: Histogram<Durations>,
    /// From the choice of an endpoint to the end of its response, or to its failure.
    pub attempt: Histogram<Durations>,
}

/// Why an attempt was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// There was no connection to the endpoint.
    Connect,
    /// The endpoint had not processed the request, and said so.
    RefusedStream,
    /// The connection or stream ended before a response.
    Reset,
    /// The response did not come in time.
    Timeout,
    /// The response had a status to be retried.
    Status,
    /// The response had a gRPC status to be retried.
    Grpc,
    /// The response had a header field that asks for it.
    Header,
}

impl RetryReason {
    /// All of them.
    pub const ALL: [RetryReason; 7] = [
        RetryReason::Connect,
        RetryReason::RefusedStream,
        RetryReason::Reset,
        RetryReason::Timeout,
        RetryReason::Status,
        RetryReason::Grpc,
        RetryReason::Header,
    ];

    /// Its name in metrics: as in `retries` of a route.
    pub fn name(self) -> &'static str {
        match self {
            RetryReason::Connect => "connect",
            RetryReason::RefusedStream => "refused_stream",
            RetryReason::Reset => "reset_before_response",
            RetryReason::Timeout => "timeout",
            RetryReason::Status => "status",
            RetryReason::Grpc => "grpc",
            RetryReason::Header => "header",
        }
    }
}

impl UpstreamCells {
    /// Counts a retry.
    pub fn note_retry(&self, reason: RetryReason) {
        self.retries[reason as usize].add(1);
    }

    /// All retries.
    pub fn all_retries(&self) -> u64 {
        self.retries.iter().map(Counter::get).sum()
    }
}
