//! The threads of workers.

use super::error::LoadError;
use crate::listener::Listener;
use crate::metrics::Metrics;
use crate::serve::{self, Order};
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use titan_config::{Config, Threads};
use titan_io::io::Phase;
use titan_observe::observer::Message;
use titan_observe::ring::Ring;
use titan_upstream::reclaim::Reclaim;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};

/// What a worker's thread starts from.
pub(super) struct Plan {
    pub(super) index: usize,
    pub(super) listeners: Vec<Listener>,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) reclaim: Arc<Reclaim>,
    pub(super) records: Ring<Message>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) core: Option<usize>,
    pub(super) end: End,
}

/// Sends a signal when a thread ends that the gateway cannot do without, also by a panic, so that the others stop.
pub(super) struct End(pub(super) mpsc::Sender<()>);

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

impl Plan {
    pub(super) fn run(self) {
        let Plan {
            index,
            listeners,
            orders,
            snapshot,
            metrics,
            reclaim,
            records,
            phase,
            core,
            end,
        } = self;
        let _end = end;
        if let Some(core) = core {
            pin(core);
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .expect("the process has descriptors left for a runtime");
        let worker = Worker::new(index, snapshot, metrics, reclaim, records);
        runtime.block_on(serve::run(worker, listeners, orders, phase));
    }
}

pub(super) fn start_thread(
    name: String,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, LoadError> {
    thread::Builder::new().name(name).spawn(run).map_err(LoadError::Thread)
}

/// Workers at most, as the configuration may have: connection ids of QUIC have one byte for the number of theirs.
const MOST: usize = 256;

pub(super) fn worker_count(config: &Config) -> usize {
    match config.workers.threads {
        Threads::Auto => thread::available_parallelism().map_or(1, usize::from).min(MOST),
        Threads::Exactly(count) => count.get().into(),
    }
}

pub(super) fn allowed_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

/// Best effort: a container may forbid it, and the worker serves all the same.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
