//! Bodies that are copied as they pass, and the memory that all of them have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use titan_config::ByteSize;
use titan_io::registry::Registry;

/// The memory of all copies together.
#[derive(Clone)]
pub(crate) struct CopyMemory {
    most: usize,
    used: Arc<AtomicUsize>,
}

/// A body as far as it has come, and the memory that it has, with that of what it belongs to.
pub(crate) struct CopiedBody {
    bytes: Vec<u8>,
    /// How large it may become.
    most: usize,
    memory: CopyMemory,
    /// What it has of the memory.
    reserved: usize,
}

/// Why a body is not copied any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// It is larger than it may be.
    TooLarge,
    /// There is no memory for it.
    NoMemory,
}

/// What makes the memory that of copies.
#[derive(PartialEq, Eq, Hash)]
struct CopyMemoryKey;

/// In steps of how many bytes a body gets memory.
const STEP: usize = 4 << 10;

impl CopyMemory {
    /// That of the process; what copies have of it counts on, whatever the limit was before.
    pub(crate) fn of(registry: &Registry, most: ByteSize) -> CopyMemory {
        let used = registry.shared(CopyMemoryKey, AtomicUsize::default);
        CopyMemory { most: most.as_usize(), used }
    }

    /// How many bytes are used, and how many there may be.
    pub(crate) fn figures(&self) -> (usize, usize) {
        (self.used.load(Ordering::Relaxed), self.most)
    }

    /// For a body that may have that many bytes, and which belongs to something that takes so many.
    pub(crate) fn body(&self, most: usize, around: usize) -> Result<CopiedBody, Excess> {
        if !self.take(around) {
            return Err(Excess::NoMemory);
        }
        Ok(CopiedBody { bytes: Vec::new(), most, memory: self.clone(), reserved: around })
    }

    fn take(&self, bytes: usize) -> bool {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }
}

impl CopiedBody {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends what has come.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Excess> {
        let wanted = self.bytes.len() + data.len();
        if wanted > self.most {
            return Err(Excess::TooLarge);
        }
        let capacity = self.bytes.capacity();
        if wanted > capacity {
            let least = wanted.next_multiple_of(STEP);
            // What is left may be enough for this, though not for as much again.
            let sizes = [least.max(2 * capacity), least].map(|size| size - capacity);
            let more = sizes.into_iter().find(|more| self.memory.take(*more));
            let more = more.ok_or(Excess::NoMemory)?;
            self.reserved += more;
            self.bytes.reserve_exact(capacity + more - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Takes that much more of the memory for what it belongs to.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), Excess> {
        if !self.memory.take(bytes) {
            return Err(Excess::NoMemory);
        }
        self.reserved += bytes;
        Ok(())
    }

    /// Begins anew, because the request does.
    pub(crate) fn restart(&mut self) {
        self.bytes.clear();
    }
}

impl Drop for CopiedBody {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.reserved, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const OF_ONE: usize = 16 << 10;

    fn memory(most: usize) -> CopyMemory {
        CopyMemory::of(&Registry::default(), ByteSize::new(most as u64))
    }

    fn used(memory: &CopyMemory) -> usize {
        memory.used.load(Ordering::Relaxed)
    }

    #[test]
    fn a_body_is_kept_up_to_its_bound() {
        let memory = memory(MIB);
        let mut body = memory.body(10_000, OF_ONE).unwrap();
        for _ in 0..10 {
            body.append(&[b'a'; 1000]).unwrap();
        }
        assert_eq!(body.append(b"a"), Err(Excess::TooLarge));
        assert_eq!(body.bytes(), [b'a'; 10_000]);
        assert!(used(&memory) >= OF_ONE + body.bytes.capacity());
        body.restart();
        body.append(b"b").unwrap();
        assert_eq!(body.bytes(), b"b");
        drop(body);
        assert_eq!(used(&memory), 0);
    }

    #[test]
    fn all_copies_together_have_no_more_memory_than_there_is() {
        let memory = memory(MIB);
        let mut bodies: Vec<_> =
            std::iter::from_fn(|| memory.body(usize::MAX, OF_ONE).ok()).collect();
        assert_eq!(bodies.len(), 64, "one costs something even without a body");
        assert_eq!(bodies[0].append(b"a"), Err(Excess::NoMemory));
        assert_eq!(bodies.pop().unwrap().bytes(), b"");
        bodies[0].append(&[b'a'; OF_ONE]).unwrap();
        assert_eq!(used(&memory), MIB);
        bodies.clear();
        assert_eq!(used(&memory), 0);
    }
}
