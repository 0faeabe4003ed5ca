//! The slowest exchanges of each minute. What is slow is how long the head of the response took: how long its body takes, the
//! client decides too.

use super::store::{Records, Store};
use crate::record::Recorded;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// From how long on an exchange is among the slowest, as far as workers know.
#[derive(Debug)]
pub(super) struct SlowMark(AtomicU64);

/// Those of the minute that runs.
#[derive(Default)]
pub(super) struct Slowest {
    minute: u64,
    heap: BinaryHeap<Reverse<Slow>>,
    bytes: usize,
    /// Whether there were more of the minute than there is room for: only slower ones are taken.
    is_full: bool,
}

/// How long it took, and its record.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Slow(Duration, Box<[u8]>);

/// How many there are for each minute.
const OF_A_MINUTE: usize = 16;
/// How many bytes they have at most.
const MOST_BYTES: usize = 256 << 10;
const MINUTE: u64 = 60_000_000;
/// What the mark is while nothing is kept.
const OFF: u64 = u64::MAX;

impl SlowMark {
    /// Nothing is kept from now on.
    pub(super) fn switch_off(&self) {
        self.0.store(OFF, Ordering::Relaxed);
    }

    /// Something is kept from now on.
    pub(super) fn switch_on(&self) {
        self.set(Duration::ZERO);
    }

    pub(super) fn is_off(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OFF
    }

    /// Whether what took so long may be among the slowest.
    pub(super) fn is_reached(&self, took: Duration) -> bool {
        took >= Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, to: Duration) {
        let micros = u64::try_from(to.as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros.min(OFF - 1), Ordering::Relaxed);
    }
}

impl Default for SlowMark {
    fn default() -> SlowMark {
        SlowMark(AtomicU64::new(OFF))
    }
}

impl Slowest {
    /// Begins another minute, if it is over; `now` is when an exchange has ended. Those of the one before go into `store`.
    pub(super) fn turn(&mut self, now: u64, mark: &SlowMark, store: &mut Store) {
        let minute = now / MINUTE;
        // A batch of the minute before may be late. What is further back tells of a clock that was ahead.
        if minute > self.minute || minute + 1 < self.minute {
            for Reverse(Slow(_, record)) in std::mem::take(&mut self.heap) {
                store.copy(&record, (self.minute + 1) * MINUTE);
            }
            (self.minute, self.bytes, self.is_full) = (minute, 0, false);
            mark.set(Duration::ZERO);
        }
    }

    /// Keeps a record if it is among the slowest of its minute.
    pub(super) fn note(&mut self, record: &Recorded<'_>, mark: &SlowMark) {
        let took = record.time_to_head();
        if self.is_full && self.heap.peek().is_some_and(|Reverse(least)| took <= least.0) {
            return;
        }
        self.bytes += record.bytes().len();
        self.heap.push(Reverse(Slow(took, record.bytes().into())));
        while self.heap.len() > OF_A_MINUTE || self.bytes > MOST_BYTES {
            let Some(Reverse(least)) = self.heap.pop() else { break };
            self.bytes -= least.1.len();
            self.is_full = true;
        }
        self.is_full |= self.heap.len() == OF_A_MINUTE;
        if let Some(Reverse(least)) = self.heap.peek().filter(|_| self.is_full) {
            mark.set(least.0);
        }
    }

    /// Those of the minute that runs.
    pub(super) fn pending(&self) -> Vec<Records> {
        let records = self.heap.iter().map(|Reverse(slow)| &*slow.1);
        vec![Records::Copied(records.collect::<Vec<_>>().concat().into())]
    }
}
