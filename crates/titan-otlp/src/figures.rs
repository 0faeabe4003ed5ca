//! What is counted of the records for a collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use titan_config::Name;
use titan_observe::destination::DestinationFigures;

/// What is counted of the records of one kind for one collector. Any thread may read it.
#[derive(Debug)]
pub struct ExporterFigures {
    /// The name of the collector.
    pub collector: Name,
    /// What they are.
    pub signal: Signal,
    /// What is counted of every destination, and what is wrong with this one.
    pub destination: Arc<DestinationFigures>,
    retries: AtomicU64,
    dropped: [AtomicU64; Reason::ALL.len()],
}

/// What a collector is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Log records.
    Logs,
    /// Spans.
    Traces,
}

/// Why records were dropped that had been taken out of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The collector could not be reached, did not respond in time or asked for patience, for too long.
    Unreachable,
    /// It has refused the message, and would again.
    Refused,
    /// It has accepted the message, but not these records.
    Rejected,
    /// There was no time left at the end.
    Ended,
}

impl ExporterFigures {
    /// All zero, of records that count as those of that destination.
    pub fn new(
        collector: Name,
        signal: Signal,
        destination: Arc<DestinationFigures>,
    ) -> ExporterFigures {
        let (retries, dropped) = Default::default();
        ExporterFigures { collector, signal, destination, retries, dropped }
    }

    /// Records that the collector has accepted.
    pub fn sent(&self) -> u64 {
        self.destination.written()
    }

    /// How often a message was sent again.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Records that it will never get, by why.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let later = Reason::ALL.iter().zip(&self.dropped);
        let later = later.map(|(reason, count)| (reason.name(), count.load(Ordering::Relaxed)));
        [("queue_full", self.destination.unqueued())].into_iter().chain(later)
    }

    pub(crate) fn add_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn drop_records(&self, reason: Reason, count: usize) {
        self.dropped[reason as usize].fetch_add(count as u64, Ordering::Relaxed);
        self.destination.add_dropped(count);
    }
}

impl Reason {
    const ALL: [Reason; 4] =
        [Reason::Unreachable, Reason::Refused, Reason::Rejected, Reason::Ended];

    fn name(self) -> &'static str {
        match self {
            Reason::Unreachable => "unreachable",
            Reason::Refused => "refused",
            Reason::Rejected => "rejected",
            Reason::Ended => "ended",
        }
    }
}

impl Signal {
    /// Its name in metrics, and in the paths of OTLP over HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Logs => "logs",
            Signal::Traces => "traces",
        }
    }

    /// The method that takes it, by gRPC.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }
}
