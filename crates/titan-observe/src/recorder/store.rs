//! Records in memory, the oldest of which give way to others.

use crate::record::Recorded;
use crate::ring::{BATCH, Batch};
use std::collections::VecDeque;
use std::sync::Arc;

/// Records within a number of bytes.
#[derive(Default)]
pub(super) struct Store {
    most: usize,
    /// The oldest first.
    chunks: VecDeque<Chunk>,
    /// What is collected until there is enough for a chunk.
    open: Vec<u8>,
    /// When the first exchange in it has started.
    open_since: u64,
    /// The memory of all chunks.
    bytes: usize,
}

/// Some records that do not change any more.
#[derive(Clone)]
struct Chunk {
    records: Records,
    /// When the first exchange in it has started.
    since: u64,
}

/// Some records, one after the other.
#[derive(Clone)]
pub(super) enum Records {
    /// As a worker has handed them on.
    Batch(Arc<Batch>),
    /// Copied from several batches.
    Copied(Arc<[u8]>),
}

/// What is collected before it is a chunk.
const CHUNK: usize = BATCH / 2;
/// Of few bytes it is that part, for the oldest chunk gives way as a whole.
const PARTS: usize = 8;

impl Records {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Records::Batch(batch) => batch.records(),
            Records::Copied(bytes) => bytes,
        }
    }

    /// The memory that they take.
    pub(super) fn capacity(&self) -> usize {
        match self {
            Records::Batch(batch) => batch.capacity(),
            Records::Copied(bytes) => bytes.len(),
        }
    }
}

impl Store {
    /// Takes that many bytes of memory at most.
    pub(super) fn limit(&mut self, most: usize) {
        self.most = most;
        if self.open.capacity() > self.chunk() {
            self.close();
            self.open = Vec::new();
        }
        self.shrink();
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.open.capacity()
    }

    /// When the first exchange has started that it has, and from which on it has all that it was given.
    pub(super) fn since(&self) -> Option<u64> {
        let open = (!self.open.is_empty()).then_some(self.open_since);
        self.chunks.front().map(|chunk| chunk.since).or(open)
    }

    /// Keeps a batch. Of one whose memory has room for many more, the records are copied.
    pub(super) fn keep(&mut self, batch: &Arc<Batch>) {
        let records = batch.records();
        let Some((first, _)) = Recorded::first_of(records) else { return };
        if records.len() < CHUNK || records.len() < batch.capacity() / 4 * 3 {
            return self.copy(records, first.facts.started);
        }
        self.close();
        self.add(Records::Batch(Arc::clone(batch)), first.facts.started);
    }

    /// Keeps a copy of records, the first of which is of an exchange that has started then.
    pub(super) fn copy(&mut self, records: &[u8], started: u64) {
        if self.most == 0 {
            return;
        }
        let (chunk, mut needed) = (self.chunk(), self.open.len() + records.len());
        if needed > chunk {
            self.close();
            needed = records.len();
        }
        if needed > chunk {
            return self.add(Records::Copied(records.into()), started);
        }
        if self.open.is_empty() {
            self.open_since = started;
        }
        if needed > self.open.capacity() {
            let more = needed.next_power_of_two().min(chunk) - self.open.len();
            self.open.reserve_exact(more);
        }
        self.open.extend_from_slice(records);
        self.shrink();
    }

    /// All of it, as it is now.
    pub(super) fn records(&self) -> Vec<Records> {
        let open = Records::Copied(self.open.as_slice().into());
        let chunks = self.chunks.iter().map(|chunk| chunk.records.clone());
        chunks.chain([open]).collect()
    }

    /// The memory that it takes, counted anew.
    #[cfg(test)]
    pub(super) fn capacities(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| chunk.records.capacity());
        self.open.capacity() + chunks.sum::<usize>()
    }

    /// How many bytes of copies are a chunk.
    fn chunk(&self) -> usize {
        CHUNK.min(self.most / PARTS)
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let records = Records::Copied(self.open.as_slice().into());
            self.open.clear();
            self.add(records, self.open_since);
        }
    }

    fn add(&mut self, records: Records, since: u64) {
        self.bytes += records.capacity();
        self.chunks.push_back(Chunk { records, since });
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes() > self.most
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.bytes -= oldest.records.capacity();
        }
        if self.bytes() > self.most {
            self.open = Vec::new();
        }
    }
}
