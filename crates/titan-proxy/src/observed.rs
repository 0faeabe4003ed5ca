//! Records of the exchanges of one worker: memory for those that run, and the way of those that are over.

use std::cell::{Cell, RefCell};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use titan_observe::observer::Message;
use titan_observe::record::ExchangeRecord;
use titan_observe::ring::Ring;

/// What a worker keeps to tell of its exchanges.
pub(crate) struct Observed {
    ring: RefCell<Ring<Message>>,
    #[expect(clippy::vec_box, reason = "a record is lent for each request, and large")]
    unused: RefCell<Vec<Box<ExchangeRecord>>>,
    /// The same moment on both clocks.
    moment: Cell<(Instant, u64)>,
}

/// How many unused records are kept.
const KEPT: usize = 256;
/// One that has grown beyond that is not kept.
const KEPT_BYTES: usize = 16 << 10;

impl Observed {
    /// Records go into `ring`.
    pub(crate) fn new(ring: Ring<Message>) -> Observed {
        let (ring, unused) = (RefCell::new(ring), RefCell::default());
        Observed { ring, unused, moment: Cell::new(moment()) }
    }

    /// An empty record.
    pub(crate) fn begin(&self) -> Box<ExchangeRecord> {
        self.unused.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a record that is complete; false if it is dropped.
    pub(crate) fn tell(&self, record: &ExchangeRecord) -> bool {
        self.ring.borrow_mut().push(record)
    }

    /// Keeps the memory of a record that was told.
    pub(crate) fn reuse(&self, mut record: Box<ExchangeRecord>) {
        let mut unused = self.unused.borrow_mut();
        if unused.len() < KEPT && record.capacity() <= KEPT_BYTES {
            record.clear();
            unused.push(record);
        }
    }

    /// A moment as microseconds since 1970.
    pub(crate) fn unix_micros(&self, at: Instant) -> u64 {
        let (instant, unix) = self.moment.get();
        match at.checked_duration_since(instant) {
            Some(after) => unix.saturating_add(micros(after)),
            None => unix.saturating_sub(micros(instant - at)),
        }
    }

    /// Hands on what has been collected, and looks at the clock. To be called at each tick.
    pub(crate) fn tick(&self) {
        self.ring.borrow_mut().flush();
        self.moment.set(moment());
    }
}

fn moment() -> (Instant, u64) {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (Instant::now(), micros(unix))
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
