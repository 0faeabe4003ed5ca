//! A worker: one thread, one runtime, its own sockets, buffers, pools and clock.
//!
//! A connection lives on the worker that accepted it. Workers share the [`Snapshot`] they serve from
//! and atomics, nothing else.

use crate::buffer::Buffers;
use crate::clock::{Clock, Moment, TICK};
use crate::listener::Listener;
use crate::metrics::{Cells, Metrics};
use crate::middleware::{Caches, Decisions, Encoders, Remembered};
use crate::scratch::{Scratch, Scratches};
use crate::snapshot::Snapshot;
use crate::splice::Pipes;
use crate::upstream::Known;
use crate::upstream::pool::Pools;
use std::cell::Cell;
use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use titan_http::{BadField, FieldName, Fields};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// What all connections of one thread have in common.
pub(crate) struct Worker {
    pub(crate) clock: Rc<Clock>,
    pub(crate) buffers: Rc<Buffers>,
    pub(crate) pools: Pools,
    pub(crate) pipes: Rc<Pipes>,
    pub(crate) encoders: Rc<Encoders>,
    pub(crate) members: Known,
    /// Tokens that were found good.
    pub(crate) tokens: Caches,
    /// Decisions of services that are asked about requests.
    pub(crate) decisions: Decisions,
    /// Passwords that were found right.
    pub(crate) passwords: Remembered,
    snapshot: CurrentSnapshot,
    index: usize,
    metrics: Arc<Metrics>,
    is_draining: Cell<bool>,
    /// When clients without a request are given up, once the worker drains.
    idle_until: Cell<Moment>,
    /// Client connections open now.
    open: Cell<usize>,
    /// Connections that wait for their next request with everything at hand.
    seated: Cell<usize>,
    all_closed: Notify,
    random: Cell<u64>,
    /// The time of the last tick as a `Date` field says it.
    date: Cell<[u8; 29]>,
    scratches: Scratches,
}

/// A worker's own count around the one that all workers share, so that no request touches that.
pub(crate) type CurrentSnapshot = Rc<Arc<Snapshot>>;

/// A scratch on loan; goes back when dropped.
pub(crate) struct Loan {
    scratch: Option<Box<Scratch>>,
    home: Rc<Worker>,
}

/// What the main thread wants of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Accept and serve.
    Serve,
    /// Accept nothing more, finish what runs.
    Drain,
}

/// How long a drain waits for a last request on a connection that has none: clients that keep
/// connections may have sent it already.
const LAST_REQUEST: Duration = Duration::from_secs(1);
/// How many connections of a worker may wait with everything at hand: some 3 KiB each.
const SEATS: usize = 512;

impl Worker {
    /// A worker that serves from `snapshot`.
    pub(crate) fn new(
        index: usize,
        snapshot: Arc<Snapshot>,
        metrics: Arc<Metrics>,
        pools: Pools,
    ) -> Rc<Worker> {
        Rc::new(Worker {
            clock: Clock::new(),
            buffers: Rc::default(),
            pools,
            pipes: Rc::default(),
            encoders: Rc::default(),
            members: Known::default(),
            tokens: Caches::default(),
            decisions: Decisions::default(),
            passwords: Remembered::default(),
            snapshot: Rc::new(snapshot),
            index,
            metrics,
            is_draining: Cell::new(false),
            idle_until: Cell::new(Moment::NEVER),
            open: Cell::new(0),
            seated: Cell::new(0),
            all_closed: Notify::new(),
            random: Cell::new(seed()),
            date: Cell::new(date()),
            scratches: Scratches::default(),
        })
    }

    /// Accepts and serves until told to drain, then finishes what runs, for as long as the configuration
    /// gives it.
    ///
    /// Without ticks there are no timeouts, and without a listener no clients: a panic in either ends the
    /// worker, which the others then learn of.
    pub(crate) async fn run(
        self: Rc<Self>,
        listeners: Vec<Listener>,
        phase: watch::Receiver<Phase>,
    ) {
        tokio::select! {
            never = self.tick() => match never {},
            () = self.serve(listeners, phase) => {}
        }
    }

    async fn serve(self: &Rc<Self>, listeners: Vec<Listener>, mut phase: watch::Receiver<Phase>) {
        let mut accepting = JoinSet::new();
        for listener in listeners {
            accepting.spawn_local(listener.serve(Rc::clone(self), phase.clone()));
        }
        // Each ends when the drain begins.
        while let Some(ended) = accepting.join_next().await {
            let ended = ended.expect("a listener that has panicked ends its worker");
            ended.expect("the system lets a socket into the runtime and out of it");
        }
        // An error means that the main thread is gone, which is as good a reason to stop.
        let _ = phase.wait_for(|phase| *phase == Phase::Drain).await;
        self.drain().await;
    }

    /// What the worker serves from.
    pub(crate) fn snapshot(&self) -> CurrentSnapshot {
        Rc::clone(&self.snapshot)
    }

    /// Its place among the workers.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The cells that this worker counts in.
    pub(crate) fn cells(&self) -> &Cells {
        &self.metrics.workers()[self.index]
    }

    /// Whether connections are to end as soon as they can.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// When a client without a request is given up for the drain; never before that.
    pub(crate) fn idle_until(&self) -> Moment {
        self.idle_until.get()
    }

    /// Counts a client connection until what it returns is dropped.
    pub(crate) fn count_connection(self: &Rc<Self>) -> Counted {
        self.open.set(self.open.get() + 1);
        self.cells().accepted.add(1);
        Counted(Rc::clone(self))
    }

    /// A place among the few connections that may wait with everything at hand.
    pub(crate) fn take_seat(&self) -> Option<Seat<'_>> {
        let seated = self.seated.get();
        (seated < SEATS).then(|| {
            self.seated.set(seated + 1);
            Seat(&self.seated)
        })
    }

    /// A random number (xorshift64*). Good for choosing endpoints, not for secrets.
    pub(crate) fn random(&self) -> u64 {
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Enough randomness to name a request by.
    pub(crate) fn random_id(&self) -> u128 {
        u128::from(self.random()) << 64 | u128::from(self.random())
    }

    /// Has a response say when it was made, where it does not (RFC 9110 section 6.6.1).
    pub(crate) fn date(&self, fields: &mut Fields) -> Result<(), BadField> {
        match fields.get(FieldName::Date) {
            Some(_) => Ok(()),
            None => fields.append(FieldName::Date, &self.date.get()),
        }
    }

    /// Memory for an exchange.
    pub(crate) fn scratch(self: &Rc<Self>) -> Loan {
        Loan { scratch: Some(self.scratches.take(&self.snapshot)), home: Rc::clone(self) }
    }

    async fn tick(&self) -> Infallible {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    self.clock.tick();
                    self.date.set(date());
                    self.pools.sweep(&self.clock);
                    self.scratches.sweep(self.clock.now());
                    self.cells().busy_micros.set(processor_micros());
                }
                () = self.pools.idle_wanted() => self.pools.yield_idle(&self.clock),
            }
        }
    }

    async fn drain(&self) {
        self.is_draining.set(true);
        self.idle_until.set(self.clock.deadline(LAST_REQUEST));
        self.clock.wake_all();
        let patience = self.snapshot.timeouts.drain;
        let _ = tokio::time::timeout(patience, async {
            while self.open.get() > 0 {
                self.all_closed.notified().await;
            }
        })
        .await;
        self.pools.clear();
    }
}

/// A seat that is taken.
pub(crate) struct Seat<'w>(&'w Cell<usize>);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// An open client connection.
pub(crate) struct Counted(Rc<Worker>);

impl Drop for Counted {
    fn drop(&mut self) {
        let Counted(worker) = self;
        worker.open.set(worker.open.get() - 1);
        worker.cells().closed.add(1);
        if worker.open.get() == 0 {
            worker.all_closed.notify_one();
        }
    }
}

impl Deref for Loan {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        self.scratch.as_ref().expect("only drop takes it")
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut Scratch {
        self.scratch.as_mut().expect("only drop takes it")
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            self.home.scratches.put_back(scratch);
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

/// A seed that differs from worker to worker and from start to start; never 0.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{Gate, ListenSocket};
    use crate::middleware::Keys;
    use crate::upstream::reclaim::Reclaim;
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;
    use titan_config::Config;
    use tokio::runtime::{Builder, LocalOptions};

    #[test]
    #[should_panic = "the system lets a socket into the runtime"]
    fn a_listener_that_fails_ends_its_worker() {
        let text = "{ listeners: ['127.0.0.1:0'], workers: 1, routes: [{ respond: 204 }] }";
        let config = Config::parse("test", text).unwrap();
        // No runtime can wait for a file.
        let file = UnixListener::from(OwnedFd::from(File::open("/dev/null").unwrap()));
        file.set_nonblocking(true).unwrap();
        let socket = ListenSocket::Unix(file);
        let listener = Listener {
            socket,
            gate: Gate::new(&config.listeners[0], &crate::Files::default()).unwrap(),
        };
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.unwrap();
        let snapshot = Arc::new(Snapshot::unconnected(&config, Keys::default()));
        let metrics = Arc::new(Snapshot::metrics(&config, 1));
        let pools = Pools::new(0, Arc::new(Reclaim::new(1)));
        let (_phase, watched) = watch::channel(Phase::Serve);
        runtime.block_on(async {
            let run = Worker::new(0, snapshot, metrics, pools).run(vec![listener], watched);
            let _ = tokio::time::timeout(Duration::from_secs(10), run).await;
        });
    }
}
