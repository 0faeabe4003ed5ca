//! The flight recorder: the last exchanges in full, in memory. Failures and slow ones stay for longer than the rest.
//!
//! ```text
//! batch of a worker --whole--> last --+
//!   its failures --a few of each--> failed --+--> Recorder::find
//!   its slowest of a minute --> slowest ------+
//! ```
//!
//! A worker marks what may be kept for longer ([`Recorder::notes`]); nobody looks at the other records until somebody asks.

mod failures;
mod filter;
mod slowest;
mod store;
mod tap;

pub use filter::{BadFilter, Filter};
pub use tap::{Tap, TooManyTaps};

use crate::observer::Subscriber;
use crate::record::{Event, ExchangeRecord, Recorded};
use crate::ring::Batch;
use failures::Failures;
use filter::{ended, has_failed};
use slowest::{SlowMark, Slowest};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Records, Store};
use tap::Taps;

/// The last exchanges of all workers.
#[derive(Default)]
pub struct Recorder {
    kept: Mutex<Kept>,
    slow: SlowMark,
    taps: Taps,
}

#[derive(Default)]
struct Kept {
    last: Store,
    failed: Store,
    slow: Store,
    failures: Failures,
    slowest: Slowest,
}

/// How much a recorder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Since when it has every exchange that has ended, in microseconds since 1970: until then others have ended that have given
    /// way, or if none have, then the first one started. None while it has none.
    pub since: Option<u64>,
    /// The memory of all records.
    pub bytes: usize,
    /// How many there are at most.
    pub bytes_at_most: usize,
}

/// Records that were asked for.
#[derive(Debug, Default)]
pub struct Found {
    /// The latest first, each as [`Recorded::first_of`] reads it.
    pub records: Vec<Box<[u8]>>,
    /// Whether there are more.
    pub has_more: bool,
}

/// A search for records.
pub struct Search {
    left: Vec<Records>,
    filter: Filter,
    /// How many are wanted.
    most: usize,
    seen: HashSet<Box<[u8]>>,
    /// With when their exchanges have started, the latest first.
    found: Vec<(u64, Box<[u8]>)>,
}

/// Of the memory one part is for failures, one for slow exchanges, and the rest for the last ones.
const PARTS: usize = 8;

impl Recorder {
    /// From now on it has that many bytes at most. With none it is off: it has nothing, takes nothing, and its taps end.
    pub fn limit(&self, bytes: usize) {
        let mut kept = self.kept();
        if bytes == 0 {
            *kept = Kept::default();
            self.slow.switch_off();
            self.taps.close();
            return;
        }
        if kept.is_off() {
            self.slow.switch_on();
        }
        let part = bytes / PARTS;
        kept.failed.limit(part);
        kept.slow.limit(part);
        kept.last.limit(bytes - 2 * part);
    }

    /// Whether an exchange may be worth to be kept for longer than others. Any thread may ask.
    pub fn notes(&self, record: &ExchangeRecord) -> bool {
        let is_worth = has_failed(record.facts.caused_by(), record.facts.status())
            || self.slow.is_reached(record.time_to_head());
        is_worth && !self.slow.is_off()
    }

    /// The records for which the filter holds, the latest first.
    pub fn find(&self, filter: &Filter, most: usize) -> Found {
        let mut search = self.search(filter.clone(), most);
        while search.step() {}
        search.found()
    }

    /// Looks for the records for which the filter holds, a piece of the memory at each step.
    pub fn search(&self, filter: Filter, most: usize) -> Search {
        let kept = self.kept();
        let stores = [kept.last.records(), kept.failed.records(), kept.slow.records()];
        let left = stores.into_iter().flatten().chain(kept.slowest.pending()).collect();
        Search { left, filter, most, seen: HashSet::new(), found: Vec::new() }
    }

    /// How much there is.
    pub fn coverage(&self) -> Coverage {
        let kept = self.kept();
        let stores = [&kept.last, &kept.failed, &kept.slow];
        Coverage {
            since: kept.last.since(),
            bytes: stores.iter().map(|store| store.bytes()).sum(),
            bytes_at_most: stores.iter().map(|store| store.most()).sum(),
        }
    }

    /// Tells from now on of each exchange for which the filter holds, but of no more than so many in a second. Of none while the
    /// recorder is off.
    pub fn tap(&self, filter: Filter, rate: u32) -> Result<Tap, TooManyTaps> {
        // Locked, lest it is switched off in between.
        let kept = self.kept();
        let tap = self.taps.open(filter, rate)?;
        if kept.is_off() {
            self.taps.close();
        }
        Ok(tap)
    }

    /// Nothing panics while it is locked; what was kept is whole in any case.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn is_off(&self) -> bool {
        self.last.most() == 0
    }
}

/// Takes records for a recorder.
pub struct RecorderWriter(pub Arc<Recorder>);

impl Subscriber for RecorderWriter {
    fn take(&mut self, batch: &Arc<Batch>) {
        let Recorder { slow, taps, .. } = &*self.0;
        taps.tell(batch.records());
        let mut kept = self.0.kept();
        // Batches may be under way when it is switched off.
        if kept.is_off() {
            return;
        }
        let Kept { last, failed, slow: slow_store, failures, slowest } = &mut *kept;
        let Some((latest, _)) = Recorded::first_of(batch.last()) else { return };
        slowest.turn(ended(&latest.facts), slow, slow_store);
        for notable in batch.notable() {
            let Some((record, _)) = Recorded::first_of(notable) else { continue };
            if failures.wants(&record) {
                failed.copy(record.bytes(), ended(&record.facts));
            }
            if record.facts.event == Event::Request {
                slowest.note(&record, slow);
            }
        }
        last.keep(batch);
    }
}

impl Search {
    /// Looks at some more records; whether there may be others.
    pub fn step(&mut self) -> bool {
        let Some(records) = self.left.pop() else { return false };
        let Search { filter, seen, found, .. } = self;
        let mut rest = records.bytes();
        while let Some((record, after)) = Recorded::first_of(rest) {
            // Of what failed, or was slow, there may be two copies.
            if filter.holds(&record) && seen.insert(record.bytes().into()) {
                found.push((record.facts.started, record.bytes().into()));
            }
            rest = after;
        }
        self.keep_latest();
        true
    }

    /// What has been found.
    pub fn found(mut self) -> Found {
        let has_more = self.found.len() > self.most;
        self.found.truncate(self.most);
        Found { records: self.found.into_iter().map(|(_, record)| record).collect(), has_more }
    }

    /// The latest ones, and one more than are wanted: however many there are, memory is bounded.
    fn keep_latest(&mut self) {
        let Search { found, seen, most, .. } = self;
        found.sort_by_key(|(started, _)| Reverse(*started));
        for (_, record) in found.drain((*most + 1).min(found.len())..) {
            seen.remove(&record);
        }
    }
}

#[cfg(test)]
mod tests;
