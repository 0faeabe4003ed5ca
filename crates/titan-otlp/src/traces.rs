//! Traces: records of those exchanges that are traced become spans.

use crate::spans::Spans;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use titan_config::{TraceAlways, Tracing};
use titan_observe::destination::{Destination, Lines};
use titan_observe::observer::Subscriber;
use titan_observe::record::{Event, Facts, Recorded};
use titan_observe::ring::Batch;
use titan_observe::trace::TraceContext;

/// Writes spans of those exchanges that are traced.
pub struct TraceWriter {
    always: TraceAlways,
    spans: Spans,
    lines: Lines,
    destination: Arc<Mutex<Destination>>,
}

impl TraceWriter {
    /// What a configuration says, to that destination. The next configuration may go on with the same one; only the thread of the
    /// observer, which tells one configuration after the other, locks it.
    pub fn new(tracing: &Tracing, destination: Arc<Mutex<Destination>>) -> TraceWriter {
        let (spans, lines) = (Spans::default(), Lines::default());
        TraceWriter { always: tracing.always.clone(), spans, lines, destination }
    }

    fn destination(&self) -> MutexGuard<'_, Destination> {
        self.destination.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The trace of an exchange that is over, if it is told of.
fn traced(always: &TraceAlways, facts: &Facts) -> Option<TraceContext> {
    let trace = facts.trace.filter(|_| facts.event != Event::TunnelOpened)?;
    let TraceAlways { failures, slower_than } = always;
    let is_failed =
        || facts.caused_by.is_some() || facts.status.is_some_and(|status| status.class() == 5);
    let is_told = trace.is_sampled()
        || *failures && is_failed()
        || slower_than.is_some_and(|limit| facts.took > limit);
    is_told.then_some(trace)
}

impl Subscriber for TraceWriter {
    fn take(&mut self, batch: &Arc<Batch>) {
        let mut records = batch.records();
        self.lines.clear();
        while let Some((record, rest)) = Recorded::first_of(records) {
            if let Some(trace) = traced(&self.always, &record.facts) {
                self.spans.write(&record, &trace, &mut self.lines);
            }
            records = rest;
        }
        if !self.lines.is_empty() {
            self.destination().write(&self.lines, SystemTime::now());
        }
    }

    fn finish(&mut self) {
        self.destination().finish();
    }

    fn wait(self: Box<Self>) {
        self.destination().wait();
    }
}
