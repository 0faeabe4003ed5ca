//! What is counted while the run goes on.

use std::time::{Duration, Instant};

use titan_bench::histogram::Histogram;
use titan_bench::report::Report;

use crate::fault::Fault;

/// With so many errors the run ends: it measures nothing any more.
const ENOUGH_ERRORS: u64 = 100;

/// Counts of responses and errors.
#[derive(Default)]
pub struct Tally {
    /// Answers count only while this is set.
    pub measuring: bool,
    /// Answers within the measurement.
    pub requests: u64,
    /// Bytes of their bodies as they came.
    pub body_bytes: u64,
    /// All responses, for noticing that none come.
    pub answered: u64,
    pub reconnects: u64,
    /// TLS handshakes that were full ones.
    pub full_handshakes: u64,
    /// Handshakes before the load that the peer could not read, and which were tried again.
    pub unread_handshakes: u64,
    errors: u64,
    first_error: Option<String>,
    latencies: Histogram,
}

impl Tally {
    /// A response with a body of that many bytes.
    pub fn answer(&mut self, sent: Instant, now: Instant, bytes: usize) {
        self.answered += 1;
        if self.measuring {
            self.requests += 1;
            self.body_bytes += bytes as u64;
            self.latencies.record(now.duration_since(sent));
        }
    }

    pub fn fault(&mut self, fault: &Fault) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| fault.to_string());
    }

    pub fn hopeless(&self) -> bool {
        self.errors >= ENOUGH_ERRORS
    }

    pub fn report(self, elapsed: Duration) -> Report {
        Report {
            requests: self.requests,
            body_bytes: self.body_bytes,
            seconds: elapsed.as_secs_f64(),
            errors: self.errors,
            first_error: self.first_error,
            reconnects: self.reconnects,
            full_handshakes: self.full_handshakes,
            unread_handshakes: self.unread_handshakes,
            p50_us: self.latencies.quantile(0.50).as_secs_f64() * 1e6,
            p99_us: self.latencies.quantile(0.99).as_secs_f64() * 1e6,
            ..Report::default()
        }
    }
}
