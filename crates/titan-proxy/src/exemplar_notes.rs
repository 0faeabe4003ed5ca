//! Exemplars of the durations of routes: of each bucket the latest exchange that belongs to a trace.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use titan_http::path::decode_hex;
use titan_io::counter::Durations;
use titan_io::exemplar::{Exemplar, Exemplars};
use titan_observe::observer::Subscriber;
use titan_observe::record::{Event, Recorded, Text};
use titan_observe::ring::Batch;

/// Notes them from records of exchanges.
pub(crate) struct ExemplarNotes {
    by_route: HashMap<Box<[u8]>, Arc<Exemplars<Durations>>>,
}

impl ExemplarNotes {
    /// Notes those of these routes, by their names.
    pub(crate) fn new<'r>(
        routes: impl Iterator<Item = (&'r str, &'r Arc<Exemplars<Durations>>)>,
    ) -> ExemplarNotes {
        let named = routes.map(|(name, of)| (name.as_bytes().into(), Arc::clone(of)));
        ExemplarNotes { by_route: named.collect() }
    }

    fn note(&self, record: &Recorded<'_>) -> Option<()> {
        let trace = trace(record.text(Text::TraceId))?;
        let exemplars = self.by_route.get(record.text(Text::Route))?;
        let value = u64::try_from(record.facts.took.as_micros()).ok()?;
        let at = UNIX_EPOCH + Duration::from_micros(record.facts.started) + record.facts.took;
        exemplars.note(Exemplar { trace, value, at });
        Some(())
    }
}

impl Subscriber for ExemplarNotes {
    fn take(&mut self, batch: &Arc<Batch>) {
        for (record, _) in batch.traced().filter_map(Recorded::first_of) {
            // A tunnel is counted when it opens; how long it lasts is no duration of a request.
            if record.facts.event == Event::Request {
                self.note(&record);
            }
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
