//! Records in memory, the oldest of which give way to others.

use super::filter::ended;
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
    /// When the last exchange in it has ended.
    open_until: u64,
    /// When the first exchange has started that came; none has come so far.
    first: Option<u64>,
    /// When the last exchange has ended that has given way; none has so far.
    gone_until: Option<u64>,
    /// The memory of all chunks.
    bytes: usize,
}

/// Some records that do not change any more.
#[derive(Clone)]
struct Chunk {
    records: Records,
    /// When the last exchange in it has ended.
    until: u64,
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

    /// Since when it has every exchange that has ended, and so every one that has started. What it has is in the order of its
    /// end: the first may have started long before others that have given way.
    pub(super) fn since(&self) -> Option<u64> {
        self.gone_until.or(self.first)
    }

    /// Keeps a batch. Of one whose memory has room for many more, the records are copied.
    pub(super) fn keep(&mut self, batch: &Arc<Batch>) {
        let records = batch.records();
        let Some((first, _)) = Recorded::first_of(records) else { return };
        let Some((last, _)) = Recorded::first_of(batch.last()) else { return };
        let until = ended(&last.facts);
        self.first.get_or_insert(first.facts.started);
        if records.len() < CHUNK || records.len() < batch.capacity() / 4 * 3 {
            return self.copy(records, until);
        }
        self.close();
        self.add(Records::Batch(Arc::clone(batch)), until);
    }

    /// Keeps a copy of records, the last of which is of an exchange that has ended then.
    pub(super) fn copy(&mut self, records: &[u8], until: u64) {
        if self.most == 0 {
            return;
        }
        let (chunk, mut needed) = (self.chunk(), self.open.len() + records.len());
        if needed > chunk {
            self.close();
            needed = records.len();
        }
        if needed > chunk {
            return self.add(Records::Copied(records.into()), until);
        }
        if needed > self.open.capacity() {
            let more = needed.next_power_of_two().min(chunk) - self.open.len();
            self.open.reserve_exact(more);
        }
        self.open.extend_from_slice(records);
        self.open_until = self.open_until.max(until);
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
            let until = std::mem::take(&mut self.open_until);
            self.add(records, until);
        }
    }

    fn add(&mut self, records: Records, until: u64) {
        self.bytes += records.capacity();
        self.chunks.push_back(Chunk { records, until });
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes() > self.most
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.bytes -= oldest.records.capacity();
            self.gone_until = self.gone_until.max(Some(oldest.until));
        }
        if self.bytes() > self.most {
            let until = std::mem::take(&mut self.open_until);
            if !std::mem::take(&mut self.open).is_empty() {
                self.gone_until = self.gone_until.max(Some(until));
            }
        }
    }
}
