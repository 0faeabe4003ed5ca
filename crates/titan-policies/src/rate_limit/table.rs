//! Which key has which entry: a table of fixed size that all workers write, without locks.
//!
//! An entry has one word that says whose it is, and values that its holder counts in. Keys are hashes; a
//! key can be in any of the [`WAYS`] slots of its set.
//!
//! ```text
//!          take           confirm           retire            drop
//!   EMPTY -----> CLAIMED ---------> HELD ----------> RETIRING -----> EMPTY
//!                   |                 ^                  |
//!                   | dislodge        +----- rescue -----+
//!                   +-----> EMPTY
//! ```
//!
//! No key ever holds two slots: a key that takes one looks at all others of the set *after* its claim can be seen,
//! dislodges claims to the same key, and gives way to its holder. Of two that claim at the same time at least one
//! sees the other. A claim names its writer, and only that one confirms it.
//!
//! In a full set the key that owes least gives way, which may be nothing, and the key that takes its slot takes over
//! what it owes. A key that has lost its slot finds one when it comes back in which at least as much is owed as it owed
//! itself, since all debts get smaller equally fast: no key gains by being evicted. (Except where another holder is
//! just taking a charge back, because its slot has changed hands under it: then it may gain that one.)
//!
//! A slot is retired first, then its values are looked at once more. A request that has changed a value checks
//! whether the slot is still its own afterwards ([`Slot::is_kept`]): either the one sees the change or the other sees
//! that the slot is gone. The order of all this is sequentially consistent, which the argument needs.

use super::sync::{AtomicU64, Ordering, WAYS};

/// Slots for each key of the capacity: with this many few sets are ever full, however the keys fall.
const ROOM: usize = 4;

/// How often a change that others disturb is tried again.
const MAX_TRIES: usize = 1 << 10;

/// The bits of a word that say whose slot it is; the others say which thread is about to change that.
const OWNER_BITS: u32 = 52;
const OWNER: u64 = (1 << OWNER_BITS) - 1;
const RETIRING: u64 = 1 << 63;
const EMPTY: u64 = 0;

/// The entries of all keys that are in use.
pub(crate) struct Table {
    sets: Box<[Set]>,
    values: Box<[AtomicU64]>,
    /// How many values an entry has.
    stride: usize,
}

#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

/// An entry that a key held when it was looked for.
pub(crate) struct Slot<'t> {
    word: &'t AtomicU64,
    held: u64,
    /// Where it is, for [`Table::values_at`].
    pub(crate) place: usize,
    /// What its holder counts in.
    pub(crate) values: &'t [AtomicU64],
}

/// What the holder of an entry owes: by value, how long it takes to come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) times: [u64; MAX_TIMES],
    /// Whether it counts something that has to be given back to that entry.
    pub(crate) is_running: bool,
}

/// Of how many values an entry owes at most.
pub(crate) const MAX_TIMES: usize = 4;

/// Whether a set has room for another key.
enum Room {
    /// The slot at that place is empty.
    At(usize),
    /// Others have changed something meanwhile.
    Disturbed,
    /// None can be taken; the least that one of its keys owes.
    Nowhere(Option<Debt>),
}

/// The thread that makes a change: a number from 1 that no other one has.
#[derive(Clone, Copy)]
pub(crate) struct WriterId(u64);

impl WriterId {
    /// The worker with that index.
    pub(crate) fn new(index: usize) -> WriterId {
        let number = u64::try_from(index).expect("there are fewer workers") + 1;
        assert!(number < 1 << (63 - OWNER_BITS), "there are at most 256 workers");
        WriterId(number << OWNER_BITS)
    }
}

impl Table {
    /// A table with room for at least that many keys, whose entries have that many values.
    pub(crate) fn new(capacity: usize, stride: usize) -> Table {
        let sets = (capacity * ROOM).div_ceil(WAYS).next_power_of_two();
        let empty = || Set(std::array::from_fn(|_| AtomicU64::new(EMPTY)));
        let values = sets * WAYS * stride;
        Table {
            sets: std::iter::repeat_with(empty).take(sets).collect(),
            values: std::iter::repeat_with(|| AtomicU64::new(0)).take(values).collect(),
            stride,
        }
    }

    /// The entry of a key, which gets one if there is a slot whose holder owes less than all others of its set, and no more
    /// than is `bearable`. A new entry keeps the values that were left in it: its key takes over what was owed.
    /// `debt` tells what the holder of values owes.
    pub(crate) fn find(
        &self,
        hash: u64,
        writer: WriterId,
        debt: impl Fn(&[AtomicU64]) -> Debt,
        bearable: impl Fn(&Debt) -> bool,
    ) -> Result<Slot<'_>, Option<Debt>> {
        let (set, held) = self.place_of(hash);
        for _ in 0..MAX_TRIES {
            let words = self.words(set);
            if let Some(way) = words.iter().position(|word| load(word) == held) {
                return Ok(self.slot(set, way, held));
            }
            if rescue_any(words, held) {
                continue;
            }
            let way = match self.make_room(set, writer, &debt, &bearable) {
                Room::At(way) => way,
                Room::Disturbed => continue,
                Room::Nowhere(least) => {
                    // Its slot may have been at its place only after that was looked at.
                    let again = words.iter().position(|word| load(word) == held);
                    return again.map(|way| self.slot(set, way, held)).ok_or(least);
                }
            };
            if claim(words, way, held, writer) {
                return Ok(self.slot(set, way, held));
            }
        }
        Err(None)
    }

    /// What a key owes, or would take over: without an entry what was left in a slot that is empty, and in a full set what the
    /// key owes that would give way. Changes nothing.
    pub(crate) fn owed(&self, hash: u64, debt: impl Fn(&[AtomicU64]) -> Debt) -> Debt {
        let (set, held) = self.place_of(hash);
        let words = self.words(set);
        let debt_at = |way: usize| debt(self.values_at(set * WAYS + way));
        let is_own = |word: u64| word == held || is_retiring(word, held);
        if let Some(way) = words.iter().position(|word| is_own(load(word))) {
            let slot = self.slot(set, way, held);
            let own = debt(slot.values);
            if slot.is_kept() {
                return own;
            }
        }
        match words.iter().position(|word| load(word) == EMPTY) {
            Some(way) => debt_at(way),
            None => (0..WAYS).map(debt_at).min_by_key(Debt::sum).unwrap_or_default(),
        }
    }

    /// A slot that is empty now: one that was, or that of the key that owes least.
    fn make_room(
        &self,
        set: usize,
        writer: WriterId,
        debt: impl Fn(&[AtomicU64]) -> Debt,
        bearable: impl Fn(&Debt) -> bool,
    ) -> Room {
        let words = self.words(set);
        if let Some(way) = words.iter().position(|word| load(word) == EMPTY) {
            return Room::At(way);
        }
        let holders: [(u64, Debt); WAYS] =
            std::array::from_fn(|way| (load(&words[way]), debt(self.values_at(set * WAYS + way))));
        let is_settled = |word: u64| word & !OWNER == 0 && word != EMPTY;
        let is_disturbed = holders.iter().any(|(word, _)| !is_settled(*word));
        let settled = holders.iter().enumerate().filter(|(_, (word, _))| is_settled(*word));
        let free = settled.filter(|(_, (_, debt))| !debt.is_running);
        let least = free.min_by_key(|(_, (_, debt))| debt.sum());
        // A key that loses a slot may come back to another one of the set: it must owe no less there.
        let least = least.filter(|(_, (_, least))| {
            holders.iter().all(|(_, other)| least.is_at_most(other)) && bearable(least)
        });
        let Some((way, (held, least))) = least else {
            let least = holders.iter().map(|(_, debt)| *debt).min_by_key(Debt::sum);
            return if is_disturbed { Room::Disturbed } else { Room::Nowhere(least) };
        };
        let retiring = held | writer.0 | RETIRING;
        if !swap(&words[way], *held, retiring) {
            return Room::Disturbed;
        }
        if debt(self.values_at(set * WAYS + way)) != *least {
            // It was used meanwhile. Another thread may have rescued it already.
            swap(&words[way], retiring, *held);
            return Room::Disturbed;
        }
        match swap(&words[way], retiring, EMPTY) {
            true => Room::At(way),
            false => Room::Disturbed,
        }
    }

    fn place_of(&self, hash: u64) -> (usize, u64) {
        let set = usize::try_from(hash >> 32).unwrap_or(0) & (self.sets.len() - 1);
        // All bits count, those that have chosen the set among them.
        let held = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - OWNER_BITS);
        (set, held.max(1))
    }

    fn words(&self, set: usize) -> &[AtomicU64; WAYS] {
        &self.sets[set].0
    }

    /// The values of each entry, also of those that no key has.
    pub(crate) fn all_values(&self) -> impl Iterator<Item = &[AtomicU64]> {
        (0..self.sets.len() * WAYS).map(|place| self.values_at(place))
    }

    /// The values of the entry at a place.
    pub(crate) fn values_at(&self, place: usize) -> &[AtomicU64] {
        &self.values[place * self.stride..][..self.stride]
    }

    /// Whether the entry at that place is the key's. It stays that for as long as what the key counts there keeps it.
    pub(crate) fn is_held(&self, place: usize, hash: u64) -> bool {
        let (set, held) = self.place_of(hash);
        place / WAYS == set && self.slot(set, place % WAYS, held).is_kept()
    }

    fn slot(&self, set: usize, way: usize, held: u64) -> Slot<'_> {
        let place = set * WAYS + way;
        Slot { word: &self.words(set)[way], held, place, values: self.values_at(place) }
    }
}

impl Debt {
    fn sum(&self) -> u128 {
        self.times.iter().map(|time| u128::from(*time)).sum()
    }

    /// Whether it is no more than the other one by any value.
    fn is_at_most(&self, other: &Debt) -> bool {
        self.times.iter().zip(&other.times).all(|(ours, theirs)| ours <= theirs)
    }
}

impl Slot<'_> {
    /// Whether what was changed in the values counts for the key. Where it does not the change has to be undone, and
    /// the key to be looked for again.
    pub(crate) fn is_kept(&self) -> bool {
        let now = load(self.word);
        now == self.held || is_retiring(now, self.held) && swap(self.word, now, self.held)
    }
}

/// Takes an empty slot for a key, unless the key has another one.
fn claim(words: &[AtomicU64; WAYS], way: usize, held: u64, writer: WriterId) -> bool {
    let claim = held | writer.0;
    if !swap(&words[way], EMPTY, claim) {
        return false;
    }
    for (_, word) in words.iter().enumerate().filter(|(other, _)| *other != way) {
        loop {
            let seen = load(word);
            if seen & OWNER != held {
                break;
            }
            if seen == held || seen & RETIRING != 0 {
                swap(&words[way], claim, EMPTY);
                return false;
            }
            if swap(word, seen, EMPTY) {
                break;
            }
        }
    }
    swap(&words[way], claim, held)
}

/// Gives a slot that is being retired back to its key; tells whether there was one.
fn rescue_any(words: &[AtomicU64; WAYS], held: u64) -> bool {
    words.iter().any(|word| {
        let seen = load(word);
        // The first to change it has rescued it, or has found that it is not needed.
        let is_one = is_retiring(seen, held);
        if is_one {
            swap(word, seen, held);
        }
        is_one
    })
}

fn is_retiring(word: u64, held: u64) -> bool {
    word & RETIRING != 0 && word & OWNER == held
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::SeqCst)
}

fn swap(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}
