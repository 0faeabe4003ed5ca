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
use filter::has_failed;
use slowest::{SlowMark, Slowest};
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
    /// Since when it has every exchange, in microseconds since 1970; none while it has none.
    pub since: Option<u64>,
    /// Bytes of all records.
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

/// Of the memory one part is for failures, one for slow exchanges, and the rest for the last ones.
const PARTS: usize = 8;

impl Recorder {
    /// From now on it has that many bytes at most.
    pub fn limit(&self, bytes: usize) {
        let mut kept = self.kept();
        let part = bytes / PARTS;
        if bytes == 0 {
            kept.slowest = Slowest::default();
        }
        kept.failed.limit(part);
        kept.slow.limit(part);
        kept.last.limit(bytes - 2 * part);
    }

    /// Whether an exchange may be worth to be kept for longer than others. Any thread may ask.
    pub fn notes(&self, record: &ExchangeRecord) -> bool {
        let facts = &record.facts;
        has_failed(facts) || self.slow.is_reached(record.time_to_head())
    }

    /// The records for which the filter holds, the latest first.
    pub fn find(&self, filter: &Filter, most: usize) -> Found {
        let stores = {
            let kept = self.kept();
            [kept.last.records(), kept.failed.records(), kept.slow.records()]
        };
        let pending = self.kept().slowest.pending();
        find_in(stores.into_iter().flatten().chain(pending), filter, most)
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

    /// Tells from now on of each exchange for which the filter holds, but of no more than so many in a second.
    pub fn tap(&self, filter: Filter, rate: u32) -> Result<Tap, TooManyTaps> {
        self.taps.open(filter, rate)
    }

    /// Nothing panics while it is locked; what was kept is whole in any case.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes records for a recorder.
pub struct RecorderWriter(pub Arc<Recorder>);

impl Subscriber for RecorderWriter {
    fn take(&mut self, batch: &Arc<Batch>) {
        let Recorder { slow, taps, .. } = &*self.0;
        taps.tell(batch.records());
        let mut kept = self.0.kept();
        let Kept { last, failed, slow: slow_store, failures, slowest } = &mut *kept;
        let Some((first, _)) = Recorded::first_of(batch.records()) else { return };
        slowest.turn(first.facts.started, slow, slow_store);
        for notable in batch.notable() {
            let Some((record, _)) = Recorded::first_of(notable) else { continue };
            if failures.wants(&record) {
                failed.copy(record.bytes(), record.facts.started);
            }
            if record.facts.event == Event::Request {
                slowest.note(&record, slow);
            }
        }
        last.keep(batch);
    }
}

fn find_in(chunks: impl Iterator<Item = Records>, filter: &Filter, most: usize) -> Found {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for chunk in chunks {
        let mut rest = chunk.bytes();
        while let Some((record, after)) = Recorded::first_of(rest) {
            // Of what failed, or was slow, there may be two copies.
            if filter.holds(&record) && seen.insert(Box::<[u8]>::from(record.bytes())) {
                found.push((record.facts.started, Box::<[u8]>::from(record.bytes())));
            }
            rest = after;
        }
        // Bounded memory, however many there are.
        if found.len() > 2 * most + 1_000 {
            keep_latest(&mut found, most + 1);
        }
    }
    keep_latest(&mut found, most + 1);
    let has_more = found.len() > most;
    found.truncate(most);
    Found { records: found.into_iter().map(|(_, record)| record).collect(), has_more }
}

fn keep_latest(found: &mut Vec<(u64, Box<[u8]>)>, most: usize) {
    found.sort_by_key(|(started, _)| std::cmp::Reverse(*started));
    found.truncate(most);
}

#[cfg(test)]
mod tests;
