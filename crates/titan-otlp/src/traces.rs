//! Traces: records of those exchanges that are traced become spans.

use crate::routes::RoutePaths;
use crate::spans::Spans;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use titan_config::{TraceAlways, Tracing};
use titan_observe::destination::{Destination, Lines};
use titan_observe::observer::Subscriber;
use titan_observe::record::{Event, Recorded};
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
    pub fn new(
        tracing: &Tracing,
        routes: &Arc<RoutePaths>,
        destination: Arc<Mutex<Destination>>,
    ) -> TraceWriter {
        let (spans, lines) = (Spans::new(routes), Lines::default());
        TraceWriter { always: tracing.always.clone(), spans, lines, destination }
    }

    fn destination(&self) -> MutexGuard<'_, Destination> {
        self.destination.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at those records of a batch whose traces are told of.
pub fn for_each_traced(
    always: &TraceAlways,
    batch: &Batch,
    mut look: impl FnMut(&Recorded<'_>, TraceContext),
) {
    let mut look_at = |record: &Recorded<'_>| {
        if let Some(trace) = traced(always, record) {
            look(record, trace);
        }
    };
    if always.slower_than.is_none() {
        return batch.traced().filter_map(Recorded::first_of).for_each(|(it, _)| look_at(&it));
    }
    // Any of them may be a slow one.
    let mut records = batch.records();
    while let Some((record, rest)) = Recorded::first_of(records) {
        look_at(&record);
        records = rest;
    }
}

/// The trace of an exchange that is over, if it is told of.
fn traced(always: &TraceAlways, record: &Recorded<'_>) -> Option<TraceContext> {
    let facts = &record.facts;
    let trace = facts.trace.filter(|_| facts.event != Event::TunnelOpened)?;
    let TraceAlways { failures, slower_than } = always;
    // How long a tunnel or a download lasts is for its client to say.
    let is_slow = |limit| facts.event != Event::TunnelClosed && record.time_to_head() > limit;
    let is_told =
        trace.is_sampled() || *failures && facts.is_error() || slower_than.is_some_and(is_slow);
    is_told.then_some(trace)
}

impl Subscriber for TraceWriter {
    fn take(&mut self, batch: &Arc<Batch>) {
        let TraceWriter { always, spans, lines, .. } = self;
        lines.clear();
        for_each_traced(always, batch, |record, trace| spans.write(record, &trace, lines));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use titan_http::Status;
    use titan_observe::record::{Chosen, ExchangeRecord};
    use titan_observe::trace::Sampling;

    #[test]
    fn slow_is_what_responds_late_not_what_lasts_long() {
        let always = TraceAlways { failures: false, slower_than: Some(Duration::from_secs(2)) };
        let is_told = |event, head| {
            let mut record = ExchangeRecord::default();
            let sampling = Sampling::Dropped;
            record.trace = Some(TraceContext { trace_id: 1, parent: 0, span: 1, sampling });
            record.facts.set_event(event);
            record.facts.set_took(Duration::from_secs(60));
            record.facts.set_status(Some(Status::OK));
            let chosen = Chosen { upstream: "a", endpoint: "a:80", balance: "random", choices: 1 };
            record.begin_attempt(false, Duration::from_secs(1), chosen);
            record.attempt_at("a:80").unwrap().set_head(head);
            let mut bytes = Vec::new();
            record.write_to(&mut bytes);
            let (record, _) = Recorded::first_of(&bytes).unwrap();
            traced(&always, &record).is_some()
        };
        let after = |seconds| Some(Duration::from_secs(seconds));
        assert!(is_told(Event::Request, after(2)), "it began after one second");
        assert!(!is_told(Event::Request, after(1)), "a long download");
        assert!(is_told(Event::Request, None));
        assert!(!is_told(Event::TunnelClosed, after(2)));
    }
}
