//! Exchanges told live to those who look on.

use super::filter::Filter;
use crate::record::Recorded;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Those who look on.
#[derive(Default)]
pub(super) struct Taps {
    open: Mutex<Vec<OpenTap>>,
    /// How many there are. Without any there is nothing to do, and no lock to take.
    count: AtomicUsize,
}

/// One who looks on: gets records, each as [`Recorded::first_of`] reads it.
pub struct Tap {
    records: Receiver<Box<[u8]>>,
    skipped: Arc<AtomicUsize>,
}

struct OpenTap {
    filter: Filter,
    rate: u32,
    /// Since when `told` counts, which it does for a second.
    since: Instant,
    told: u32,
    reader: Sender<Box<[u8]>>,
    skipped: Arc<AtomicUsize>,
}

/// There are as many taps as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTaps;

/// Taps at the same time.
const MAX_TAPS: usize = 32;
/// Records that wait for one reader.
const WAITING: usize = 256;
const SECOND: Duration = Duration::from_secs(1);

impl Taps {
    pub(super) fn open(&self, filter: Filter, rate: u32) -> Result<Tap, TooManyTaps> {
        let mut open = self.lock();
        open.retain(|tap| !tap.reader.is_closed());
        if open.len() >= MAX_TAPS {
            return Err(TooManyTaps);
        }
        let (reader, records) = channel(WAITING);
        let skipped = Arc::<AtomicUsize>::default();
        let tap = Tap { records, skipped: Arc::clone(&skipped) };
        open.push(OpenTap { filter, rate, since: Instant::now(), told: 0, reader, skipped });
        self.count.store(open.len(), Ordering::Release);
        Ok(tap)
    }

    /// Tells everybody of those records that they want to hear of.
    pub(super) fn tell(&self, records: &[u8]) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut open = self.lock();
        open.retain(|tap| !tap.reader.is_closed());
        self.count.store(open.len(), Ordering::Release);
        let (now, mut rest) = (Instant::now(), records);
        while let Some((record, after)) = Recorded::first_of(rest) {
            open.iter_mut().for_each(|tap| tap.tell(&record, now));
            rest = after;
        }
    }

    /// Closes all: each reader gets what waits for it, and no more.
    pub(super) fn close(&self) {
        let mut open = self.lock();
        open.clear();
        self.count.store(0, Ordering::Release);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OpenTap>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenTap {
    fn tell(&mut self, record: &Recorded<'_>, now: Instant) {
        if !self.filter.holds(record) {
            return;
        }
        if now.saturating_duration_since(self.since) >= SECOND {
            (self.since, self.told) = (now, 0);
        }
        if self.told >= self.rate || self.reader.try_send(record.bytes().into()).is_err() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.told += 1;
    }
}

impl Tap {
    /// The next record; none when the recorder has ended, or was switched off.
    pub async fn next(&mut self) -> Option<Box<[u8]>> {
        self.records.recv().await
    }

    /// Says that the reader has not taken so many.
    pub fn skip(&self, count: usize) {
        self.skipped.fetch_add(count, Ordering::Relaxed);
    }

    /// How many were left out since this was asked last: there were more than are told in a second, or than the reader took.
    pub fn take_skipped(&self) -> usize {
        self.skipped.swap(0, Ordering::Relaxed)
    }
}
