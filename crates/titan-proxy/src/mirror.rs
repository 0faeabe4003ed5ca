//! Copies of requests for another upstream: which are made, how many run at once, and what is counted.
//!
//! The exchange makes a copy while it sends the request, and a task of the worker sends the copy.

use crate::comparison::{Comparer, ComparisonStatus};
use crate::copied::{CopiedBody, CopyMemory, Excess};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use titan_io::counter::{Counted, Counter};
use titan_io::registry::Registry;

/// A mirror of a route.
pub(crate) struct Mirror {
    pub(crate) config: titan_config::Mirror,
    route: String,
    upstream: String,
    counted: Arc<Counted<MirrorCells>>,
    running: Arc<Running>,
    memory: CopyMemory,
    /// Compares the responses to copies with those to their requests.
    comparer: Option<Arc<Comparer>>,
}

/// What is counted of the copies for a route.
#[derive(Default)]
pub(crate) struct MirrorCells {
    /// Copies that were sent, or at least tried.
    pub(crate) sent: Counter,
    /// Those of them that got no complete response in time.
    pub(crate) failed: Counter,
    /// Requests that were to be copied and were not, by the index of the reason.
    dropped: [Counter; NotCopied::ALL.len()],
}

/// Why a request that was to be copied was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotCopied {
    /// Its body is larger than those that are copied.
    BodyTooLarge,
    /// It has no body, and no endpoint of its upstream got it.
    NotSent,
    /// Its upstream has not got all of its body, or not in the time that a copy has.
    BodyIncomplete,
    /// As many copies run as may.
    TooMany,
    /// There is no memory for it.
    NoMemory,
    /// It asks for a tunnel.
    Tunnel,
    /// The gateway itself is near its limits.
    Pressure,
    /// It is a copy itself, or says so.
    Copy,
}

/// How a mirror is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorStatus {
    /// The route whose requests are copied.
    pub route: String,
    /// The upstream that gets the copies.
    pub upstream: String,
    /// Copies that run now.
    pub running: u32,
    /// Copies that were sent, or at least tried.
    pub sent: u64,
    /// Those of them that got no complete response in time.
    pub failed: u64,
    /// Requests that were to be copied and were not, by reason.
    pub dropped: Vec<(&'static str, u64)>,
    /// What comparing the responses has come to, if they are compared.
    pub comparison: Option<ComparisonStatus>,
}

/// A copy that runs counts until this is dropped.
pub(crate) struct RunningCopy(Arc<Running>);

/// How many copies of a mirror run, over all workers.
#[derive(Default)]
struct Running(AtomicU32);

/// What makes the number that of the same mirror: its route and its upstream.
#[derive(PartialEq, Eq, Hash)]
struct RunningKey(String, String);

impl Mirror {
    /// The mirror of the route with that name, to the upstream with that one.
    pub(crate) fn new(
        config: &titan_config::Mirror,
        (route, upstream): (&str, &str),
        (registry, workers): (&Registry, usize),
        memory: CopyMemory,
    ) -> Mirror {
        Mirror {
            config: config.clone(),
            route: route.to_owned(),
            upstream: upstream.to_owned(),
            // No name has a line end.
            counted: Counted::of(registry, &format!("{route}\n{upstream}"), workers),
            running: registry
                .shared(RunningKey(route.to_owned(), upstream.to_owned()), Running::default),
            memory,
            comparer: config.compare.as_ref().map(|it| Comparer::of(registry, it, route, upstream)),
        }
    }

    /// Memory for a copy with a head of that size; its body will have that many bytes, if it is known.
    pub(crate) fn body(&self, length: Option<u64>, head: usize) -> Result<CopiedBody, NotCopied> {
        let most = self.config.body.as_usize();
        if length.is_some_and(|length| length > most as u64) {
            return Err(NotCopied::BodyTooLarge);
        }
        Ok(self.memory.body(most, head)?)
    }

    /// A permit to run one more copy, if there may be one.
    pub(crate) fn try_run(&self) -> Option<RunningCopy> {
        let most = self.config.concurrent.get();
        let Running(running) = &*self.running;
        let add = |count: u32| (count < most).then_some(count + 1);
        let has_begun = running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        has_begun.then(|| RunningCopy(Arc::clone(&self.running)))
    }

    /// What compares the responses, if anything does, and the memory for them.
    pub(crate) fn comparer(&self) -> Option<(&Arc<Comparer>, &CopyMemory)> {
        self.comparer.as_ref().map(|comparer| (comparer, &self.memory))
    }

    /// The cells that this worker counts in.
    pub(crate) fn cells(&self, worker: usize) -> &MirrorCells {
        self.counted.cells(worker)
    }

    pub(crate) fn status(&self) -> MirrorStatus {
        let Mirror { route, upstream, counted, running, comparer, .. } = self;
        let dropped = |reason: NotCopied| {
            (reason.name(), counted.sum(|cells| cells.dropped[reason as usize].get()))
        };
        MirrorStatus {
            route: route.clone(),
            upstream: upstream.clone(),
            running: running.0.load(Ordering::Relaxed),
            sent: counted.sum(|cells| cells.sent.get()),
            failed: counted.sum(|cells| cells.failed.get()),
            dropped: NotCopied::ALL.map(dropped).to_vec(),
            comparison: comparer.as_ref().map(|comparer| comparer.status()),
        }
    }
}

impl MirrorCells {
    pub(crate) fn count_dropped(&self, reason: NotCopied) {
        self.dropped[reason as usize].add(1);
    }
}

impl NotCopied {
    const ALL: [NotCopied; 8] = [
        NotCopied::BodyTooLarge,
        NotCopied::NotSent,
        NotCopied::BodyIncomplete,
        NotCopied::TooMany,
        NotCopied::NoMemory,
        NotCopied::Tunnel,
        NotCopied::Pressure,
        NotCopied::Copy,
    ];

    fn name(self) -> &'static str {
        match self {
            NotCopied::BodyTooLarge => "body-too-large",
            NotCopied::NotSent => "not-sent",
            NotCopied::BodyIncomplete => "body-incomplete",
            NotCopied::TooMany => "too-many",
            NotCopied::NoMemory => "no-memory",
            NotCopied::Tunnel => "tunnel",
            NotCopied::Pressure => "pressure",
            NotCopied::Copy => "copy",
        }
    }
}

impl From<Excess> for NotCopied {
    fn from(excess: Excess) -> NotCopied {
        match excess {
            Excess::TooLarge => NotCopied::BodyTooLarge,
            Excess::NoMemory => NotCopied::NoMemory,
        }
    }
}

impl Drop for RunningCopy {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
