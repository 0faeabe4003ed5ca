//! The dynamic table of a compression (RFC 7541 section 2.3.2, RFC 9204 section 3.2): the fields that an encoder has added, newest first.

use super::fault::Fault;
use super::line::{Key, Line, OVERHEAD, check_name};
use std::collections::VecDeque;
use std::ops::Range;

/// The table, whose size is bounded by the setting that this side never raises.
#[derive(Debug)]
pub struct Table {
    /// Names and values of the entries, each pair in one piece, oldest first. In front of them lies
    /// what has been evicted, until there is no room behind: `Table::compact`.
    bytes: Vec<u8>,
    /// Newest first.
    entries: VecDeque<Entry>,
    /// `size <= max <= MAX`, counted as in section 4.1.
    size: usize,
    max: usize,
    /// How many entries were ever added.
    inserted: u64,
}

/// Where the name of a new entry is.
#[derive(Clone, Copy)]
pub enum Name<'a> {
    /// It is that of the entry with that place in the table.
    OfEntry(usize),
    /// Here.
    Bytes(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u16,
    name_len: u16,
    value_len: u16,
    key: Key,
    fault: Option<Fault>,
}

impl Table {
    /// What the table may grow to: the initial value of SETTINGS_HEADER_TABLE_SIZE, and what is announced as
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    pub const MAX: usize = 4096;

    /// A table without entries. It takes memory when it gets some.
    pub fn new() -> Table {
        Table { bytes: Vec::new(), entries: VecDeque::new(), size: 0, max: Table::MAX, inserted: 0 }
    }

    /// The entry at that place; the newest one is at 0.
    #[inline]
    pub fn get(&self, place: usize) -> Option<Line<'_>> {
        let entry = self.entries.get(place)?;
        let (name, value) = self.bytes[entry.range()].split_at(usize::from(entry.name_len));
        Some(Line { key: entry.key, name, value, fault: entry.fault })
    }

    /// What the name of the entry at that place means, and what is wrong with it.
    pub fn name(&self, place: usize) -> Option<(Key, Option<Fault>)> {
        let line = self.get(place)?;
        Some((line.key, line.fault.and_then(|_| check_name(line.key, line.name))))
    }

    /// The bytes of a name. Only places that `Table::name` knows may be asked for.
    #[inline]
    pub fn bytes_of<'a>(&'a self, name: Name<'a>) -> &'a [u8] {
        match name {
            Name::Bytes(name) => name,
            Name::OfEntry(place) => self.get(place).map_or(&[], |line| line.name),
        }
    }

    /// Changes the bound; `false` when it is above what this side has allowed.
    pub fn resize(&mut self, max: usize) -> bool {
        if max > Table::MAX {
            return false;
        }
        self.max = max;
        self.evict_until(max);
        true
    }

    /// Adds an entry and evicts the oldest ones for it. One that is larger than the table empties
    /// it and is not added (section 4.4).
    #[expect(clippy::cast_possible_truncation, reason = "offsets and lengths are below 2 * MAX")]
    pub fn insert(&mut self, name: Name<'_>, value: &[u8], key: Key, fault: Option<Fault>) {
        let name_len = self.bytes_of(name).len();
        let size = name_len + value.len() + OVERHEAD;
        if size > self.max {
            self.evict_until(0);
            return;
        }
        // Before anything is evicted: the name may be that of an entry which has to go.
        let start = self.append(name, name_len, value);
        self.evict_until(self.max - size);
        self.entries.push_front(Entry {
            start: start as u16,
            name_len: name_len as u16,
            value_len: value.len() as u16,
            key,
            fault,
        });
        self.size += size;
        self.inserted += 1;
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many entries were ever added, those included that have been evicted.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Whether an entry with such a name and value can be added, however many have to go for it.
    pub fn fits(&self, name_len: usize, value_len: usize) -> bool {
        name_len.saturating_add(value_len).saturating_add(OVERHEAD) <= self.max
    }

    /// What it may grow to for now.
    pub fn capacity(&self) -> usize {
        self.max
    }

    /// Puts name and value behind the bytes of the other entries; returns where they begin.
    fn append(&mut self, name: Name<'_>, name_len: usize, value: &[u8]) -> usize {
        if self.bytes.len() + name_len + value.len() > 2 * Table::MAX {
            self.compact();
        }
        if self.bytes.len() + name_len + value.len() > Table::MAX {
            // Left to itself the buffer might grow beyond what is ever used.
            self.bytes.reserve_exact(2 * Table::MAX - self.bytes.len());
        }
        let start = self.bytes.len();
        match name {
            Name::Bytes(name) => self.bytes.extend_from_slice(name),
            Name::OfEntry(place) => {
                let from = usize::from(self.entries[place].start);
                self.bytes.extend_from_within(from..from + name_len);
            }
        }
        self.bytes.extend_from_slice(value);
        start
    }

    /// Moves what is in use to the front. As much has been added since the last time as is moved
    /// now, or more.
    fn compact(&mut self) {
        let Some(oldest) = self.entries.back() else { return self.bytes.clear() };
        let unused = oldest.start;
        self.bytes.drain(..usize::from(unused));
        for entry in &mut self.entries {
            entry.start -= unused;
        }
    }

    fn evict_until(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= OVERHEAD + usize::from(entry.name_len) + usize::from(entry.value_len);
        }
    }
}

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl Entry {
    fn range(&self) -> Range<usize> {
        let start = usize::from(self.start);
        start..start + usize::from(self.name_len) + usize::from(self.value_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_name::FieldName;
    use proptest::prelude::*;

    const KEY: Key = Key::Field(FieldName::Other);

    /// The same table with a vector per string.
    #[derive(Default)]
    struct Naive {
        entries: Vec<(Vec<u8>, Vec<u8>)>,
    }

    impl Naive {
        fn size(&self) -> usize {
            self.entries.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
        }

        fn shrink(&mut self, max: usize) {
            while self.size() > max {
                self.entries.pop();
            }
        }

        fn insert(&mut self, name: Vec<u8>, value: Vec<u8>, max: usize) {
            self.entries.insert(0, (name, value));
            self.shrink(max);
        }
    }

    fn agree(table: &Table, naive: &Naive) {
        assert_eq!((table.entries.len(), table.size), (naive.entries.len(), naive.size()));
        for (place, (name, value)) in naive.entries.iter().enumerate() {
            let line = table.get(place).unwrap();
            assert_eq!((line.name, line.value), (name.as_slice(), value.as_slice()));
        }
        assert!(table.bytes.len() <= 2 * Table::MAX && table.bytes.capacity() <= 2 * Table::MAX);
    }

    proptest! {
        #[test]
        fn the_table_is_what_its_naive_twin_is(
            steps in prop::collection::vec(
                (0_usize..12, 0_usize..60, prop_oneof![0_usize..40, 0_usize..5000]), 0..300),
        ) {
            let (mut table, mut naive) = (Table::new(), Naive::default());
            let mut max = Table::MAX;
            for (turn, (kind, name_len, value_len)) in steps.into_iter().enumerate() {
                let value = vec![b'a' + u8::try_from(turn % 26).unwrap(); value_len];
                match kind {
                    0 => {
                        max = value_len.min(Table::MAX);
                        assert!(table.resize(max));
                        naive.shrink(max);
                    }
                    1..6 if !naive.entries.is_empty() => {
                        let place = name_len % naive.entries.len();
                        let name = naive.entries[place].0.clone();
                        table.insert(Name::OfEntry(place), &value, KEY, None);
                        naive.insert(name, value, max);
                    }
                    _ => {
                        let name = vec![b'A' + u8::try_from(turn % 26).unwrap(); name_len];
                        table.insert(Name::Bytes(&name), &value, KEY, None);
                        naive.insert(name, value, max);
                    }
                }
                agree(&table, &naive);
            }
        }
    }

    #[test]
    fn the_bound_is_not_raised() {
        let mut table = Table::new();
        assert!(!table.resize(Table::MAX + 1));
        assert!(table.resize(0) && table.resize(Table::MAX));
    }

    #[test]
    fn a_name_is_judged_again_where_its_line_was_faulty() {
        let mut table = Table::new();
        table.insert(Name::Bytes(b"a"), b"\0", KEY, Some(Fault::ValueByte));
        table.insert(Name::Bytes(b"B"), b"", KEY, Some(Fault::NameUpperCase));
        assert_eq!(table.name(1), Some((KEY, None)));
        assert_eq!(table.name(0), Some((KEY, Some(Fault::NameUpperCase))));
        assert_eq!(table.name(2), None);
    }
}
