//! The entries, in the ways that they are looked for, and which of them other gateways can know.

use super::entry::{Entry, TokensKey};
use super::log::Record;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use titan_store::stream::EntryId;

/// The entries, in the ways that they are looked for.
#[derive(Default)]
pub(super) struct Entries {
    by_id: BTreeMap<u64, Entry>,
    by_target: HashMap<TokensKey, u64>,
    /// With when their tokens end.
    by_end: BTreeSet<(u64, u64)>,
    /// Those of them that are withdrawn.
    withdrawn: BTreeSet<(u64, u64)>,
    /// The id of the next one.
    pub(super) next: u64,
    /// What other gateways can know, where there are any.
    told: Option<Told>,
}

/// Where entries are in the stream that all gateways read.
#[derive(Default)]
struct Told {
    places: HashMap<u64, Place>,
    /// Those that are not there, or not as they are here.
    missing: BTreeSet<u64>,
    /// What the stream has and nobody needs any more; [`MAX_GARBAGE`] at most.
    garbage: BTreeSet<EntryId>,
    /// How often the stream was begun to be read from its beginning.
    reading: u64,
    /// Whether its end has not been reached since.
    is_reading: bool,
}

/// Where an entry is in the stream.
#[derive(Clone, Copy)]
struct Place {
    at: EntryId,
    /// The last reading that has met it there.
    reading: u64,
}

/// Withdrawn entries that are remembered. A gateway that has not heard of one that is forgotten goes on refusing its tokens.
pub(super) const MAX_WITHDRAWN: usize = 100_000;
/// What is beyond that stays in the stream until it is read again.
const MAX_GARBAGE: usize = 1 << 16;

impl Entries {
    /// None yet. `are_told` if other gateways are to know of them.
    pub(super) fn new(are_told: bool) -> Entries {
        Entries { next: 1, told: are_told.then(Told::default), ..Entries::default() }
    }

    /// Those that revoke something.
    pub(super) fn len(&self) -> usize {
        self.by_id.len() - self.withdrawn.len()
    }

    /// All of them, also those that are withdrawn.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.by_id.values()
    }

    /// Those behind that id that revoke something.
    pub(super) fn behind(&self, id: u64) -> impl Iterator<Item = &Entry> {
        let behind = self.by_id.range(id.saturating_add(1)..).map(|(_, entry)| entry);
        behind.filter(|entry| !entry.is_withdrawn())
    }

    pub(super) fn of(&self, id: u64) -> Option<&Entry> {
        self.by_id.get(&id)
    }

    pub(super) fn with(&self, target: &TokensKey) -> Option<&Entry> {
        self.by_id.get(self.by_target.get(target)?)
    }

    /// The one whose tokens end first.
    pub(super) fn first_to_end(&self) -> Option<&Entry> {
        self.by_id.get(&self.by_end.first()?.1)
    }

    /// Does what a line of the file says.
    pub(super) fn take(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Start { form: _, next } => self.next = next,
            Record::Add(entry) => self.put(entry),
            Record::Remove(id) => {
                self.remove(id).ok_or_else(|| format!("there is no entry {id} to remove"))?;
            }
        }
        Ok(())
    }

    /// In place of the one with its id, or of the same target: that may have ended, and have been forgotten without a line.
    pub(super) fn put(&mut self, entry: Entry) {
        let before = self.by_target.get(&entry.tokens.target()).copied();
        before.into_iter().chain([entry.id]).for_each(|id| drop(self.remove(id)));
        self.next = self.next.max(entry.id.saturating_add(1));
        self.by_target.insert(entry.tokens.target(), entry.id);
        self.by_end.insert((entry.tokens.ends, entry.id));
        if entry.is_withdrawn() {
            self.withdrawn.insert((entry.tokens.ends, entry.id));
        }
        if let Some(told) = &mut self.told {
            told.missing.insert(entry.id);
        }
        let id = entry.id;
        self.by_id.insert(id, entry);
        // Never the one that was just made: nobody has heard of it.
        if self.withdrawn.len() > MAX_WITHDRAWN
            && let Some(&(_, beyond)) = self.withdrawn.iter().find(|(_, other)| *other != id)
        {
            self.remove(beyond);
        }
    }

    /// Removes one for which the stream has another one, or none.
    pub(super) fn remove(&mut self, id: u64) -> Option<Entry> {
        let place = self.told.as_ref().and_then(|told| told.place_of(id));
        place.into_iter().for_each(|place| self.discard(place));
        self.forget(id)
    }

    /// Removes one that others may need nevertheless: it stays in the stream.
    pub(super) fn forget(&mut self, id: u64) -> Option<Entry> {
        let entry = self.by_id.remove(&id)?;
        self.by_target.remove(&entry.tokens.target());
        self.by_end.remove(&(entry.tokens.ends, id));
        self.withdrawn.remove(&(entry.tokens.ends, id));
        if let Some(told) = &mut self.told {
            told.missing.remove(&id);
            told.places.remove(&id);
        }
        Some(entry)
    }

    /// Whether that is what other gateways cannot know of: an entry, and its stamp.
    pub(super) fn lacks(&self, (id, stamp): (u64, u64)) -> bool {
        let is_missing = self.told.as_ref().is_some_and(|told| told.missing.contains(&id));
        is_missing && self.of(id).is_some_and(|entry| entry.stamp == stamp)
    }

    /// Whether other gateways can know of an entry as it is here; nothing where there are none. They cannot of one that is
    /// not remembered.
    pub(super) fn is_told(&self, id: u64) -> Option<bool> {
        let told = self.told.as_ref()?;
        Some(self.by_id.contains_key(&id) && !told.missing.contains(&id))
    }

    /// How many entries other gateways cannot know of.
    pub(super) fn untold(&self) -> usize {
        self.told.as_ref().map_or(0, |told| told.missing.len())
    }

    /// So many entries that other gateways cannot know of, from that id on and then from the first one on.
    pub(super) fn to_tell(&self, from: u64, most: usize) -> Vec<&Entry> {
        let Some(Told { missing, .. }) = &self.told else { return Vec::new() };
        let ids = missing.range(from..).chain(missing.range(..from));
        ids.filter_map(|id| self.by_id.get(id)).take(most).collect()
    }

    /// The stream has the entry as it is here, at that place. Of two places the later one counts, at all gateways.
    pub(super) fn note_told(&mut self, id: u64, at: EntryId) {
        let Some(told) = self.told.as_mut().filter(|_| self.by_id.contains_key(&id)) else {
            return;
        };
        told.missing.remove(&id);
        let known = told.place_of(id).unwrap_or(at);
        told.places.insert(id, Place { at: known.max(at), reading: told.reading });
        if known != at {
            told.discard(known.min(at));
        }
    }

    /// The stream has something that nobody needs any more.
    pub(super) fn discard(&mut self, place: EntryId) {
        self.told.iter_mut().for_each(|told| told.discard(place));
    }

    /// So much of that, which is forgotten here. None while something is still to be read or written in its place.
    pub(super) fn take_garbage(&mut self, most: usize) -> Vec<EntryId> {
        let Some(Told { garbage, missing, is_reading, .. }) = &mut self.told else {
            return Vec::new();
        };
        if *is_reading || !missing.is_empty() {
            return Vec::new();
        }
        std::iter::from_fn(|| garbage.pop_first()).take(most).collect()
    }

    /// It is not known any more what the stream has.
    pub(super) fn forget_told(&mut self) {
        if let Some(told) = &mut self.told {
            *told = Told { missing: self.by_id.keys().copied().collect(), ..Told::default() };
        }
    }

    /// The stream is read from its beginning: what is not met may be lost. What nobody needs is found again.
    pub(super) fn begin_reading(&mut self) {
        if let Some(told) = &mut self.told {
            (told.reading, told.is_reading) = (told.reading + 1, true);
            told.garbage.clear();
        }
    }

    /// The end is reached: what was not met other gateways cannot know of. Tells how much of it they could have known before.
    pub(super) fn end_reading(&mut self) -> usize {
        let Some(told) = &mut self.told else { return 0 };
        told.is_reading = false;
        let (reading, before) = (told.reading, told.missing.len());
        let lost = told.places.extract_if(|_, place| place.reading < reading);
        told.missing.extend(lost.map(|(id, _)| id));
        told.missing.len() - before
    }
}

impl Told {
    /// Where the present reading, or the last one, has met an entry.
    fn place_of(&self, id: u64) -> Option<EntryId> {
        let place = self.places.get(&id).filter(|place| place.reading == self.reading);
        place.map(|place| place.at)
    }

    fn discard(&mut self, place: EntryId) {
        if self.garbage.len() < MAX_GARBAGE {
            self.garbage.insert(place);
        }
    }
}
