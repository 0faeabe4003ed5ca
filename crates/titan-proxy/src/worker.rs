//! A worker: one thread, one runtime, its own sockets, buffers, pools and clock.
//!
//! A connection lives on the worker that accepted it. Workers share the [`Snapshot`] they serve from
//! and atomics, nothing else.

use crate::metrics::{Cells, Metrics};
use crate::observed::Observed;
use crate::pressure::PressureLevel;
use crate::scratch::{Lease, Scratch, Scratches};
use crate::snapshot::Snapshot;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use titan_http::{BadField, FieldName, Fields};
use titan_io::clock::TICK;
use titan_io::io::Io;
use titan_observe::observer::Message;
use titan_observe::ring::Ring;
use titan_policies::list::PerWorker;
use titan_upstream::call::CallMemory;
use titan_upstream::members::KnownMembers;
use titan_upstream::pool::Pools;
use titan_upstream::reclaim::Reclaim;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What all connections of one thread have in common.
pub(crate) struct Worker {
    pub(crate) io: Rc<Io>,
    pub(crate) pools: Pools,
    pub(crate) members: KnownMembers,
    /// What policies keep.
    pub(crate) policies: PerWorker,
    /// What it tells of its exchanges.
    pub(crate) observed: Rc<Observed>,
    snapshot: RefCell<CurrentSnapshot>,
    index: usize,
    metrics: Arc<Metrics>,
    /// Client connections open now.
    open: Cell<usize>,
    /// Connections whose future is kept while they wait for the next request.
    kept: Cell<usize>,
    all_closed: Notify,
    /// What its own lag has come to.
    lag: Cell<PressureLevel>,
    /// The time of the last tick as a `Date` field says it.
    date: Cell<[u8; 29]>,
    scratches: Rc<Scratches<Scratch>>,
    calls: Rc<Scratches<CallMemory>>,
}

/// A worker's own count around the one that all workers share, so that no request touches that.
pub(crate) type CurrentSnapshot = Rc<Arc<Snapshot>>;

/// How many connections of a worker may keep their future while they wait: some 4 KiB each.
const MAX_KEPT: usize = 512;
/// The least time from one look at all timers to one for the first that is due.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

impl Worker {
    /// A worker that serves from `snapshot`.
    pub(crate) fn new(
        index: usize,
        snapshot: Arc<Snapshot>,
        metrics: Arc<Metrics>,
        reclaim: Arc<Reclaim>,
        records: Ring<Message>,
    ) -> Rc<Worker> {
        let io = Io::new();
        Rc::new(Worker {
            pools: Pools::new(index, reclaim, &io),
            io,
            members: KnownMembers::default(),
            policies: PerWorker::default(),
            observed: Observed::new(records, Arc::clone(&snapshot.recorder)),
            snapshot: RefCell::new(Rc::new(snapshot)),
            index,
            metrics,
            open: Cell::new(0),
            kept: Cell::new(0),
            all_closed: Notify::new(),
            lag: Cell::default(),
            date: Cell::new(date()),
            scratches: Rc::default(),
            calls: Rc::default(),
        })
    }

    /// What the worker serves from.
    pub(crate) fn snapshot(&self) -> CurrentSnapshot {
        Rc::clone(&self.snapshot.borrow())
    }

    /// Serves from that from now on. What runs keeps what it began with.
    pub(crate) fn switch_to(&self, snapshot: Arc<Snapshot>) {
        // What has been told so far is for those who were told until now.
        self.tell_records();
        self.snapshot.replace(Rc::new(snapshot));
    }

    /// Its place among the others.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// What policies keep here, and whose it is: the worker's place among the others.
    pub(crate) fn of_policies(&self) -> (&PerWorker, usize) {
        (&self.policies, self.index)
    }

    /// The cells that this worker counts in.
    pub(crate) fn cells(&self) -> &Cells {
        &self.metrics.workers()[self.index]
    }

    /// Hands on the records of exchanges that have been collected, and counts those that were dropped.
    fn tell_records(&self) {
        self.cells().records_dropped.add(self.observed.tick());
    }

    /// Counts a client connection until what it returns is dropped.
    pub(crate) fn count_connection(self: &Rc<Self>) -> OpenConnection {
        self.open.set(self.open.get() + 1);
        self.cells().accepted.add(1);
        OpenConnection(Rc::clone(self))
    }

    /// A permit to keep the future of a connection that waits; few get one.
    pub(crate) fn try_keep(&self) -> Option<KeptPermit<'_>> {
        let kept = self.kept.get();
        (kept < MAX_KEPT).then(|| {
            self.kept.set(kept + 1);
            KeptPermit(&self.kept)
        })
    }

    /// Adds `Date` to a response without one (RFC 9110 section 6.6.1).
    pub(crate) fn date(&self, fields: &mut Fields) -> Result<(), BadField> {
        match fields.get(FieldName::Date) {
            Some(_) => Ok(()),
            None => fields.append(FieldName::Date, &self.date.get()),
        }
    }

    /// Memory for an exchange that `snapshot` serves.
    pub(crate) fn scratch(&self, snapshot: &Snapshot) -> Lease<Scratch> {
        self.scratches.lend(snapshot)
    }

    /// Memory for a call to an endpoint, for an exchange that `snapshot` serves.
    pub(crate) fn call_memory(&self, snapshot: &Snapshot) -> Lease<CallMemory> {
        self.calls.lend(snapshot)
    }

    /// Whether requests that matter least are refused.
    pub(crate) fn sheds(&self) -> bool {
        self.metrics.pressure.level().max(self.lag.get()) >= PressureLevel::Shed
    }

    /// Whether connections are accepted.
    pub(crate) fn accepts(&self) -> bool {
        self.metrics.pressure.level().max(self.lag.get()) < PressureLevel::StopAccepting
    }

    /// Whether a connection is to close after this response.
    pub(crate) fn ends_connections(&self) -> bool {
        let ends = self.metrics.pressure.level() >= PressureLevel::StopKeepAlive;
        self.cells().pressure_closed.add(u64::from(ends));
        ends
    }

    /// Takes in how late a tick is.
    fn note_lag(&self, lag: Duration) {
        let snapshot = self.snapshot();
        let pressure = &self.metrics.pressure;
        let level = pressure.of_lag(self.index, lag, self.lag.get(), snapshot.pressure.as_ref());
        self.lag.set(level);
        self.cells().lag_micros.set(u64::try_from(lag.as_micros()).unwrap_or(u64::MAX));
        self.cells().lag_level.set(level as u64);
    }

    fn note_memory(&self) {
        let heads = self.scratches.bytes() + self.calls.bytes() + self.observed.unused().bytes();
        let cells = self.cells();
        cells.receive_buffers.set(self.io.buffers.bytes() as u64);
        cells.kept_heads.set(heads as u64);
        cells.compression.set(self.policies.compression_memory() as u64);
    }

    /// Ticks for ever: without that there are no timeouts.
    pub(crate) async fn tick(&self) -> Infallible {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut last, mut next) = (None, None);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let now = Instant::now();
                    let late = last.map(|last| now.duration_since(last).saturating_sub(TICK));
                    last = Some(now);
                    self.note_lag(late.unwrap_or_default());
                    next = self.look_at_timers();
                    self.date.set(date());
                    self.pools.sweep(&self.io.clock);
                    self.members.sweep();
                    self.policies.sweep();
                    self.snapshot().stores.tick(self.index);
                    self.tell_records();
                    self.scratches.sweep(self.io.clock.now());
                    self.calls.sweep(self.io.clock.now());
                    self.observed.unused().sweep(self.io.clock.now());
                    self.note_memory();
                    self.cells().busy_micros.set(processor_micros());
                    self.cells().ticks.add(1);
                }
                () = wait_until(next) => next = self.look_at_timers(),
                () = self.pools.idle_wanted() => self.pools.yield_idle(&self.io.clock),
            }
        }
    }

    /// Wakes who is due, and returns when to look again: however many timers there are, not at once.
    fn look_at_timers(&self) -> Option<Instant> {
        let first = self.io.clock.tick()?;
        Some(first.max(Instant::now() + BETWEEN_LOOKS))
    }

    /// Ends connections, and waits for that as long as the configuration allows.
    pub(crate) async fn drain(&self) {
        self.io.drain();
        let stores = self.snapshot().stores.clone();
        stores.leave();
        let timeout = self.snapshot().timeouts.drain;
        let _ = tokio::time::timeout(timeout, async {
            while self.open.get() > 0 {
                self.all_closed.notified().await;
            }
        })
        .await;
        stores.settle(self.index).await;
        self.tell_records();
        self.pools.clear();
    }
}

/// For ever, where there is nothing to wait for.
async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A future that is kept counts until this is dropped.
pub(crate) struct KeptPermit<'w>(&'w Cell<usize>);

impl Drop for KeptPermit<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// An open client connection.
pub(crate) struct OpenConnection(Rc<Worker>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let OpenConnection(worker) = self;
        worker.open.set(worker.open.get() - 1);
        worker.cells().closed.add(1);
        if worker.open.get() == 0 {
            worker.all_closed.notify_one();
        }
    }
}

/// The time of now as a `Date` field says it.
fn date() -> [u8; 29] {
    let mut text = [0; 29];
    let date = httpdate::fmt_http_date(std::time::SystemTime::now());
    text.copy_from_slice(date.as_bytes());
    text
}

/// The processor time that this thread has used.
fn processor_micros() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let used = Duration::try_from(used).unwrap_or_default();
    u64::try_from(used.as_micros()).unwrap_or(u64::MAX)
}
