//! Records on their way from the workers to the one thread that reads them.
//!
//! ```text
//! worker: Ring { filling } --full, or at a tick--> channel --> Batches (the reader's) --> memory is used again, or freed
//! ```
//!
//! A worker copies a record into memory of its own, and hands that on when it is full and at each tick. It never waits:
//! while [`MAX_BATCHES`] of its batches are on their way, its further records are dropped, and counted.

use crate::record::ExchangeRecord;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// How many bytes of records are collected before they are handed on. Of smaller batches a busy worker makes so many that waking
/// their reader costs more than reading them.
pub const BATCH: usize = 256 << 10;
/// How many batches of one worker may be on their way: with `BATCH`, 8 MiB and one record each.
pub const MAX_BATCHES: usize = 32;
/// The memory of a batch that becomes full: the last record may be beyond `BATCH`.
const WHOLE: usize = BATCH + (16 << 10);
/// From how many bytes on a batch gets that memory at once: a busy worker fills it.
const SMALL: usize = BATCH / 4;
/// How many emptied batches a worker gets back; others are freed.
const MAX_RETURNED: usize = 4;

/// Memory of a batch: for its records, and for where some of them begin.
type Memory = (Vec<u8>, Marks);

/// Where those records begin that somebody may look for: who does need not read the others.
#[derive(Default)]
struct Marks {
    notable: Vec<u32>,
    traced: Vec<u32>,
}

/// A worker's end.
pub struct Ring<M> {
    filling: Vec<u8>,
    /// Where in it some of them begin.
    marks: Marks,
    /// Where in it the last one begins.
    last: u32,
    /// How many records `filling` has.
    records: u64,
    /// How many were dropped since that was asked.
    dropped: u64,
    on_their_way: Arc<AtomicUsize>,
    emptied: Receiver<Memory>,
    give_back: SyncSender<Memory>,
    reader: SyncSender<M>,
}

/// Records of one worker. Their memory goes back to it, or is freed, when this is dropped.
pub struct Batch {
    records: Vec<u8>,
    marks: Marks,
    /// Where the last one begins.
    last: u32,
    is_on_its_way: AtomicBool,
    on_their_way: Arc<AtomicUsize>,
    give_back: SyncSender<Memory>,
}

impl Marks {
    fn clear(&mut self) {
        self.notable.clear();
        self.traced.clear();
    }

    fn capacity(&self) -> usize {
        (self.notable.capacity() + self.traced.capacity()) * size_of::<u32>()
    }
}

impl<M: From<Batch>> Ring<M> {
    /// One that hands its records to `reader`, whose channel must have room for [`MAX_BATCHES`] of each worker.
    pub fn new(reader: SyncSender<M>) -> Ring<M> {
        let (give_back, emptied) = sync_channel(MAX_RETURNED);
        Ring {
            filling: Vec::new(),
            marks: Marks::default(),
            last: 0,
            records: 0,
            dropped: 0,
            on_their_way: Arc::default(),
            emptied,
            give_back,
            reader,
        }
    }

    /// Takes a record, which may be worth to be kept for longer than others. It is dropped if too much is on its way.
    pub fn push(&mut self, record: &ExchangeRecord, is_notable: bool) {
        if self.filling.len() >= BATCH && !self.flush() {
            self.dropped += 1;
            return;
        }
        self.last = u32::try_from(self.filling.len()).expect("bounded by `BATCH`");
        if is_notable {
            self.marks.notable.push(self.last);
        }
        if record.may_be_traced() {
            self.marks.traced.push(self.last);
        }
        if self.filling.len() >= SMALL && self.filling.capacity() < WHOLE {
            self.filling.reserve_exact(WHOLE - self.filling.len());
        }
        record.write_to(&mut self.filling);
        self.records += 1;
    }

    /// How many records were dropped since the last call.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// The memory that there is for further records.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.filling.capacity()
    }

    /// Hands on what has been collected; false if it stays here, because too much is on its way.
    pub fn flush(&mut self) -> bool {
        if self.filling.is_empty() {
            return true;
        }
        // Acquire: what the reader has read is read before its memory is written again.
        if self.on_their_way.load(Ordering::Acquire) >= MAX_BATCHES {
            return false;
        }
        let (records, marks) = self.emptied.try_recv().unwrap_or_default();
        let records = std::mem::replace(&mut self.filling, records);
        let marks = std::mem::replace(&mut self.marks, marks);
        self.on_their_way.fetch_add(1, Ordering::Relaxed);
        let batch = Batch {
            records,
            marks,
            last: self.last,
            is_on_its_way: AtomicBool::new(true),
            on_their_way: Arc::clone(&self.on_their_way),
            give_back: self.give_back.clone(),
        };
        let count = std::mem::take(&mut self.records);
        // A reader that has ended gets none: dropping the batch counts it off.
        if self.reader.try_send(batch.into()).is_err() {
            self.dropped += count;
        }
        true
    }
}

impl Batch {
    /// The records, one after the other.
    pub fn records(&self) -> &[u8] {
        &self.records
    }

    /// The last record, of the exchange that has ended last.
    pub fn last(&self) -> &[u8] {
        &self.records[self.last as usize..]
    }

    /// The notable ones, each with those behind it.
    pub fn notable(&self) -> impl Iterator<Item = &[u8]> {
        self.at(&self.marks.notable)
    }

    /// Those of which [`ExchangeRecord::may_be_traced`] holds, each with those behind it.
    pub fn traced(&self) -> impl Iterator<Item = &[u8]> {
        self.at(&self.marks.traced)
    }

    fn at<'b>(&'b self, marks: &'b [u32]) -> impl Iterator<Item = &'b [u8]> {
        marks.iter().map(|start| &self.records[*start as usize..])
    }

    /// The memory that it takes.
    pub fn capacity(&self) -> usize {
        size_of::<Batch>() + self.records.capacity() + self.marks.capacity()
    }

    /// Says that it has come to its reader, who may keep it: it is under way no more.
    pub fn arrive(&self) {
        if self.is_on_its_way.swap(false, Ordering::Relaxed) {
            self.on_their_way.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut records = std::mem::take(&mut self.records);
        let mut marks = std::mem::take(&mut self.marks);
        records.clear();
        marks.clear();
        // What a long record has made larger than usual would stay so.
        if records.capacity() <= WHOLE {
            let _ = self.give_back.try_send((records, marks));
        }
        self.arrive();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Recorded, Text};
    use crate::trace::{Sampling, TraceContext};
    use titan_http::Status;

    fn record(path: &str) -> ExchangeRecord {
        let mut record = ExchangeRecord::default();
        record.set(Text::Target, path.as_bytes());
        record
    }

    fn paths(batch: &Batch) -> Vec<String> {
        let mut rest = batch.records();
        let mut paths = Vec::new();
        while let Some((record, after)) = Recorded::first_of(rest) {
            paths.push(String::from_utf8_lossy(record.path()).into_owned());
            rest = after;
        }
        paths
    }

    #[test]
    fn records_arrive_in_order_when_they_are_handed_on() {
        let (sender, receiver) = sync_channel::<Batch>(MAX_BATCHES);
        let mut ring = Ring::new(sender);
        assert!(ring.flush() && receiver.try_recv().is_err(), "nothing is handed on");
        ring.push(&record("/a"), false);
        ring.push(&record("/b"), true);
        assert!(receiver.try_recv().is_err(), "not yet");
        assert!(ring.flush());
        let batch = receiver.try_recv().unwrap();
        assert_eq!(paths(&batch), ["/a", "/b"]);
        let notable: Vec<_> = batch.notable().map(|it| Recorded::first_of(it).unwrap().0).collect();
        assert_eq!((notable.len(), notable[0].path()), (1, &b"/b"[..]));
        assert_eq!(ring.take_dropped(), 0);
    }

    #[test]
    fn who_looks_for_traces_finds_them_without_reading_the_others() {
        let (sender, receiver) = sync_channel::<Batch>(MAX_BATCHES);
        let mut ring = Ring::new(sender);
        let context = |sampling| Some(TraceContext { trace_id: 1, parent: 0, span: 1, sampling });
        let mut push = |path: &str, change: &dyn Fn(&mut ExchangeRecord)| {
            let mut record = record(path);
            change(&mut record);
            ring.push(&record, false);
        };
        push("/none", &|_| ());
        push("/sampled", &|it| it.trace = context(Sampling::Sampled));
        push("/dropped", &|it| {
            it.trace = context(Sampling::Dropped);
            it.set(Text::TraceId, b"1");
        });
        push("/failed", &|it| {
            it.trace = context(Sampling::Dropped);
            it.facts.set_status(Some(Status::BAD_GATEWAY));
        });
        push("/named", &|it| it.set(Text::TraceId, b"1"));
        assert!(ring.flush());
        let batch = receiver.try_recv().unwrap();
        let traced: Vec<_> = batch.traced().map(|it| Recorded::first_of(it).unwrap().0).collect();
        let traced: Vec<_> = traced.iter().map(Recorded::path).collect();
        assert_eq!(traced, [&b"/sampled"[..], b"/failed", b"/named"]);
    }

    /// Pushes until one is dropped; how many were taken.
    fn fill(ring: &mut Ring<Batch>, one: &ExchangeRecord) -> usize {
        let mut taken = 0;
        loop {
            ring.push(one, false);
            match ring.take_dropped() {
                0 => taken += 1,
                _ => return taken,
            }
        }
    }

    #[test]
    fn what_is_too_much_is_dropped_until_the_reader_has_made_room() {
        let (sender, receiver) = sync_channel::<Batch>(MAX_BATCHES);
        let (mut ring, one) = (Ring::new(sender), record(&"x".repeat(8000)));
        let mut taken = fill(&mut ring, &one);
        let most = (MAX_BATCHES + 1) * (BATCH + 16_000);
        assert!((MAX_BATCHES * BATCH..=most).contains(&(taken * 8000)), "{taken}");
        assert!(!ring.flush());
        let mut arrived = paths(&receiver.recv().unwrap()).len();
        let more = fill(&mut ring, &one);
        assert!(more > 0, "one batch was read");
        taken += more;
        while let Ok(batch) = receiver.try_recv() {
            arrived += paths(&batch).len();
            ring.flush();
        }
        assert_eq!(arrived, taken, "none was lost that was taken");
    }

    #[test]
    fn what_has_arrived_may_be_kept() {
        let (sender, receiver) = sync_channel::<Batch>(MAX_BATCHES);
        let (mut ring, mut kept) = (Ring::new(sender), Vec::new());
        for _ in 0..MAX_BATCHES + 1 {
            ring.push(&record("/a"), false);
            assert!(ring.flush());
            kept.push(receiver.try_recv().unwrap());
            kept.iter().for_each(Batch::arrive);
        }
        drop(kept);
        assert_eq!(ring.on_their_way.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_batch_has_no_more_memory_than_it_fills() {
        let (sender, receiver) = sync_channel::<Batch>(MAX_BATCHES);
        let (mut ring, mut one) = (Ring::new(sender), record(&"x".repeat(1_000)));
        one.set(Text::TraceId, b"1");
        for round in 0..4 {
            ring.push(&one, true);
            assert_eq!(ring.capacity() >= BATCH, round > 1, "memory comes back");
            while ring.filling.len() < BATCH {
                ring.push(&one, true);
            }
            assert!(ring.flush());
            let batch = receiver.try_recv().unwrap();
            let Marks { notable, traced } = &batch.marks;
            let marks = (notable.capacity() + traced.capacity()) * size_of::<u32>();
            let memory = batch.records.capacity() + marks + size_of::<Batch>();
            assert_eq!(batch.capacity(), memory);
            assert!(batch.records.capacity() <= WHOLE && marks <= 4_096, "{memory}");
        }
    }

    #[test]
    fn what_nobody_reads_any_more_is_counted() {
        let (sender, receiver) = sync_channel::<Batch>(MAX_BATCHES);
        let mut ring = Ring::new(sender);
        drop(receiver);
        for _ in 0..3 {
            ring.push(&record("/a"), false);
            ring.push(&record("/b"), true);
            ring.flush();
        }
        assert_eq!(ring.take_dropped(), 6);
    }
}
