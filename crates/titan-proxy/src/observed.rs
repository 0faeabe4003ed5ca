//! Records of the exchanges of one worker: memory for those that run, and the way of those that are over.

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
    #[expect(clippy::vec_box, reason = "a record is lent for each request, and large")]
    unused: RefCell<Vec<Box<OpenRecord>>>,
    /// The same moment on both clocks.
    moment: Cell<(Instant, u64)>,
}

/// The record of an exchange that runs. It is told in any case: of one that is dropped, as when a drain takes too long, as far
/// as it has come.
pub(crate) struct Telling(Option<Box<OpenRecord>>);

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

/// How many unused records are kept.
const KEPT: usize = 128;
/// One that has grown beyond that is not kept. Usual ones have both heads in a part of it.
const KEPT_BYTES: usize = 64 << 10;

impl Observed {
    /// Records go into `ring`; which of them the recorder keeps for longer, it says itself.
    pub(crate) fn new(ring: Ring<Message>, recorder: Arc<Recorder>) -> Rc<Observed> {
        let (ring, unused) = (RefCell::new(ring), RefCell::default());
        Rc::new(Observed { ring, recorder, unused, moment: Cell::new(moment()) })
    }

    /// An empty record of what began then.
    pub(crate) fn begin(self: &Rc<Self>, started: Instant) -> Telling {
        let unused = self.unused.borrow_mut().pop();
        let mut open = unused.unwrap_or_else(|| Box::new(OpenRecord::new(started)));
        open.record.facts.set_started(self.unix_micros(started));
        (open.started, open.mark) = (started, started);
        open.home = Some(Rc::clone(self));
        open.is_told = false;
        Telling(Some(open))
    }

    /// Takes a record. If too much is on its way, it is dropped.
    fn take(&self, record: &ExchangeRecord) {
        self.ring.borrow_mut().push(record, self.recorder.notes(record));
    }

    /// Keeps the memory of a record that was told.
    fn reuse(&self, mut open: Box<OpenRecord>) {
        let mut unused = self.unused.borrow_mut();
        if unused.len() < KEPT && open.record.capacity() <= KEPT_BYTES {
            open.record.clear();
            unused.push(open);
        }
    }

    /// A moment as microseconds since 1970.
    fn unix_micros(&self, at: Instant) -> u64 {
        let (instant, unix) = self.moment.get();
        match at.checked_duration_since(instant) {
            Some(after) => unix.saturating_add(micros(after)),
            None => unix.saturating_sub(micros(instant - at)),
        }
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
    fn new(started: Instant) -> OpenRecord {
        OpenRecord {
            record: ExchangeRecord::default(),
            started,
            mark: started,
            home: None,
            is_told: false,
        }
    }

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

impl Telling {
    /// Tells what has been noted. What follows is another record: that of the end of a tunnel.
    pub(crate) fn tell_opened(&mut self) {
        let Some(open) = &mut self.0 else { return };
        open.record.facts.set_event(Event::TunnelOpened);
        open.home.iter().for_each(|home| home.take(&open.record));
        open.record.facts.set_event(Event::TunnelClosed);
        open.record.facts.set_complete(false);
        // It may last for days.
        open.record.settle();
    }

    /// Tells what has been noted, which is all.
    pub(crate) fn tell(mut self) {
        let Some(open) = &mut self.0 else { return };
        open.home.iter().for_each(|home| home.take(&open.record));
        open.is_told = true;
    }
}

impl Deref for Telling {
    type Target = OpenRecord;

    fn deref(&self) -> &OpenRecord {
        self.0.as_ref().expect("only drop takes it")
    }
}

impl DerefMut for Telling {
    fn deref_mut(&mut self) -> &mut OpenRecord {
        self.0.as_mut().expect("only drop takes it")
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let Some(mut open) = self.0.take() else { return };
        let Some(home) = open.home.take() else { return };
        if !open.is_told {
            open.record.facts.set_took(open.started.elapsed());
            home.take(&open.record);
        }
        home.reuse(open);
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

    #[test]
    fn as_many_records_with_long_heads_are_kept_as_there_may_be() {
        let (sender, _batches) = sync_channel(MAX_BATCHES);
        let observed = Observed::new(Ring::new(sender), Arc::default());
        {
            let mut telling = observed.begin(Instant::now());
            (0..3).for_each(|_| telling.record.set(Text::Host, &[b'x'; 8_000]));
            telling.tell();
        }
        assert!(observed.unused.borrow()[0].record.capacity() >= 24_000);
        let many: Vec<_> = (0..1_000).map(|_| observed.begin(Instant::now())).collect();
        drop(many);
        assert_eq!(observed.unused.borrow().len(), KEPT);
    }
}
