//! Exemplars of the durations of routes: of each bucket the latest exchange whose trace somebody has.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use titan_config::TraceAlways;
use titan_http::path::decode_hex;
use titan_io::counter::Durations;
use titan_io::exemplar::{Exemplar, Exemplars};
use titan_observe::observer::Subscriber;
use titan_observe::record::{Event, Recorded, Text};
use titan_observe::ring::Batch;
use titan_otlp::traces::for_each_traced;

/// Notes them from records of exchanges.
pub(crate) struct ExemplarNotes {
    exemplars: Arc<Exemplars<Durations>>,
    /// Which traces are told of here, besides those that are chosen; none where clients alone name traces.
    always: Option<TraceAlways>,
}

impl ExemplarNotes {
    /// Notes those of all routes there.
    pub(crate) fn new(
        exemplars: Arc<Exemplars<Durations>>,
        always: Option<TraceAlways>,
    ) -> ExemplarNotes {
        ExemplarNotes { exemplars, always }
    }

    fn note(&self, record: &Recorded<'_>) -> Option<()> {
        // A tunnel is counted when it opens; how long it lasts is no duration of a request.
        if record.facts.event != Event::Request {
            return None;
        }
        let trace = trace(record.text(Text::TraceId))?;
        let route = Some(record.text(Text::Route)).filter(|route| !route.is_empty())?;
        let value = u64::try_from(record.facts.took.as_micros()).ok()?;
        let at = UNIX_EPOCH + Duration::from_micros(record.facts.started) + record.facts.took;
        self.exemplars.note(route, Exemplar { trace, value, at });
        Some(())
    }
}

impl Subscriber for ExemplarNotes {
    fn take(&mut self, batch: &Arc<Batch>) {
        let note = |record: &Recorded<'_>| {
            self.note(record);
        };
        match &self.always {
            Some(always) => for_each_traced(always, batch, |record, _| note(record)),
            None => batch.traced().filter_map(Recorded::first_of).for_each(|(it, _)| note(&it)),
        }
    }
}

/// The bytes of the id of a trace, which is 32 hexadecimal digits.
fn trace(id: &[u8]) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let (pairs, rest) = id.as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = decode_hex(*high, *low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use titan_http::Status;
    use titan_observe::record::ExchangeRecord;
    use titan_observe::ring::{MAX_BATCHES, Ring};
    use titan_observe::trace::{Sampling, TraceContext};

    /// Whether an exemplar is noted of a request that took three seconds.
    fn is_noted(always: Option<TraceAlways>, sampling: Option<Sampling>, status: Status) -> bool {
        let mut record = ExchangeRecord::default();
        record.set(Text::Route, b"api");
        record.set(Text::TraceId, &[b'1'; 32]);
        record.trace =
            sampling.map(|sampling| TraceContext { trace_id: 1, parent: 0, span: 1, sampling });
        record.facts.set_status(Some(status));
        record.facts.set_took(Duration::from_secs(3));
        let (sender, batches) = sync_channel::<Batch>(MAX_BATCHES);
        let mut ring = Ring::new(sender);
        ring.push(&record, false);
        assert!(ring.flush());
        let exemplars = Arc::default();
        let mut notes = ExemplarNotes::new(Arc::clone(&exemplars), always);
        notes.take(&Arc::new(batches.try_recv().unwrap()));
        exemplars.all().contains_key("api")
    }

    #[test]
    fn exemplars_name_traces_that_somebody_has() {
        let always = |failures, seconds: Option<u64>| {
            Some(TraceAlways { failures, slower_than: seconds.map(Duration::from_secs) })
        };
        assert!(is_noted(None, None, Status::OK), "the client says which");
        let never = || always(false, None);
        assert!(is_noted(never(), Some(Sampling::Sampled), Status::OK));
        let dropped = Some(Sampling::Dropped);
        assert!(!is_noted(never(), dropped, Status::OK));
        assert!(!is_noted(never(), dropped, Status::BAD_GATEWAY));
        assert!(is_noted(always(true, None), dropped, Status::BAD_GATEWAY));
        assert!(is_noted(always(false, Some(2)), dropped, Status::OK));
        assert!(!is_noted(always(false, Some(4)), dropped, Status::OK));
    }
}
