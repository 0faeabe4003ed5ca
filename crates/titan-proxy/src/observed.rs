//! Records of the exchanges of one worker: memory for those that run, and the way of those that are over.

use crate::scratch::{Lease, Reused, Scratches};
use crate::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use titan_config::Upstream;
use titan_observe::observer::Message;
use titan_observe::record::{Chosen, Event, ExchangeRecord};
use titan_observe::recorder::Recorder;
use titan_observe::ring::Ring;
use titan_upstream::attempts::AdmittedAttempt;

/// What a worker keeps to tell of its exchanges.
pub(crate) struct Observed {
    ring: RefCell<Ring<Message>>,
    /// Outlives snapshots.
    recorder: Arc<Recorder>,
    /// Memory of records that were told.
    unused: Rc<Scratches<OpenRecord>>,
    /// The same moment on both clocks.
    moment: Cell<(Instant, u64)>,
}

/// The record of an exchange that runs. It is told in any case: of one that is dropped, as when a drain takes too long, as far
/// as it has come.
pub(crate) struct Telling(Lease<OpenRecord>);

/// A record that is being filled.
pub(crate) struct OpenRecord {
    pub(crate) record: ExchangeRecord,
    /// Since when it counts.
    pub(crate) started: Instant,
    /// The last moment at which a phase has ended that is told of.
    pub(crate) mark: Instant,
    /// Where it is told; none while it is unused.
    home: Option<Rc<Observed>>,
    is_told: bool,
}

impl Observed {
    /// Records go into `ring`; which of them the recorder keeps for longer, it says itself.
    pub(crate) fn new(ring: Ring<Message>, recorder: Arc<Recorder>) -> Rc<Observed> {
        let ring = RefCell::new(ring);
        Rc::new(Observed { ring, recorder, unused: Rc::default(), moment: Cell::new(moment()) })
    }

    /// An empty record of what began then.
    pub(crate) fn begin(self: &Rc<Self>, snapshot: &Snapshot, started: Instant) -> Telling {
        let mut open = self.unused.lend(snapshot);
        open.record.facts.set_started(self.unix_micros(started));
        (open.started, open.mark) = (started, started);
        open.home = Some(Rc::clone(self));
        open.is_told = false;
        Telling(open)
    }

    /// Takes a record. If too much is on its way, it is dropped.
    fn take(&self, record: &ExchangeRecord) {
        self.ring.borrow_mut().push(record, self.recorder.notes(record));
    }

    /// A moment as microseconds since 1970.
    fn unix_micros(&self, at: Instant) -> u64 {
        let (instant, unix) = self.moment.get();
        match at.checked_duration_since(instant) {
            Some(after) => unix.saturating_add(micros(after)),
            None => unix.saturating_sub(micros(instant - at)),
        }
    }

    /// The memory that is kept for records of later exchanges.
    pub(crate) fn unused(&self) -> &Scratches<OpenRecord> {
        &self.unused
    }

    /// Hands on what has been collected, and looks at the clock; how many records were dropped since the last call. To be called
    /// at each tick.
    pub(crate) fn tick(&self) -> u64 {
        self.moment.set(moment());
        let mut ring = self.ring.borrow_mut();
        ring.flush();
        ring.take_dropped()
    }
}

impl OpenRecord {
    /// Notes the end of a phase; how long it took.
    pub(crate) fn phase(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.mark, now))
    }

    /// Notes that an attempt begins.
    pub(crate) fn begin_attempt(
        &mut self,
        is_hedge: bool,
        upstream: &Upstream,
        attempt: &AdmittedAttempt,
    ) {
        let began = attempt.began().saturating_duration_since(self.started);
        let chosen = Chosen {
            upstream: upstream.name.as_str(),
            endpoint: &attempt.endpoint().text,
            balance: upstream.balance.as_str(),
            choices: attempt.choices(),
        };
        self.record.begin_attempt(is_hedge, began, chosen);
    }

    /// Notes that the exchange has waited for its turn.
    pub(crate) fn note_wait(&mut self, waited: Duration) {
        let facts = &mut self.record.facts;
        facts.set_queue(Some(facts.queue().unwrap_or_default() + waited));
    }
}

impl Reused for OpenRecord {
    fn new(_: &Snapshot) -> OpenRecord {
        let started = Instant::now();
        let record = ExchangeRecord::default();
        OpenRecord { record, started, mark: started, home: None, is_told: false }
    }

    fn texts(&self) -> impl Iterator<Item = usize> {
        [self.record.capacity()].into_iter()
    }
}

impl Telling {
    /// Tells what has been noted. What follows is another record: that of the end of a tunnel.
    pub(crate) fn tell_opened(&mut self) {
        let open = &mut *self.0;
        open.record.facts.set_event(Event::TunnelOpened);
        open.home.iter().for_each(|home| home.take(&open.record));
        open.record.facts.set_event(Event::TunnelClosed);
        open.record.facts.set_complete(false);
        // It may last for days.
        open.record.settle();
    }

    /// Tells what has been noted, which is all.
    pub(crate) fn tell(mut self) {
        let open = &mut *self.0;
        open.home.iter().for_each(|home| home.take(&open.record));
        open.is_told = true;
    }
}

impl Deref for Telling {
    type Target = OpenRecord;

    fn deref(&self) -> &OpenRecord {
        &self.0
    }
}

impl DerefMut for Telling {
    fn deref_mut(&mut self) -> &mut OpenRecord {
        &mut self.0
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let open = &mut *self.0;
        if let Some(home) = open.home.take().filter(|_| !open.is_told) {
            open.record.facts.set_took(open.started.elapsed());
            home.take(&open.record);
        }
        open.record.clear();
    }
}

/// What is left when the worker ends.
impl Drop for Observed {
    fn drop(&mut self) {
        self.ring.get_mut().flush();
    }
}

fn moment() -> (Instant, u64) {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (Instant::now(), micros(unix))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use titan_observe::record::Text;
    use titan_observe::ring::MAX_BATCHES;
    use titan_policies::credentials::PolicyCredentials;

    #[test]
    fn the_memory_of_all_records_that_ran_together_is_used_again() {
        let config = "{ listeners: [':0'], routes: [{ respond: 204 }] }";
        let config = titan_config::Config::parse("test", config).unwrap();
        let snapshot = Snapshot::unconnected(&config, &PolicyCredentials::unread(&config));
        let (sender, _batches) = sync_channel(MAX_BATCHES);
        let observed = Observed::new(Ring::new(sender), Arc::default());
        let run_together = || {
            let begin = |_| observed.begin(&snapshot, Instant::now());
            let mut many: Vec<_> = (0..1_000).map(begin).collect();
            let host = |telling: &mut Telling| telling.record.set(Text::Host, &[b'x'; 4_000]);
            many.iter_mut().for_each(host);
            assert_eq!(observed.unused().bytes(), 0, "all of it is lent");
        };
        run_together();
        let kept = observed.unused().bytes();
        assert!(kept > 1_000 * 4_000, "{kept}");
        run_together();
        assert_eq!(observed.unused().bytes(), kept);
    }
}
