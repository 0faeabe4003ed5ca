//! What was in force: an entry for each configuration, in memory and in a directory.
//!
//! The memory is what the program knows, with its secrets; [`Directory`] is what a later process finds, without them. A
//! configuration is in force whether or not it can be written down: what is not on the disk yet is tried again.

mod directory;
#[cfg(test)]
mod tests;

pub use directory::{Directory, DirectoryError, Found, Place, Stored};

use crate::hex::hex;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use titan_config::Masked;

/// The latest configurations that were in force; at least the one that is.
pub struct History {
    /// In the order of their ids.
    kept: Vec<Kept>,
    /// How many there may be.
    most: usize,
    next: u64,
    /// The largest id that is known to be on the disk. Entries are written in their order: those of ours behind it are not.
    written: u64,
    /// How ids have moved, the first time first.
    moves: Vec<Move>,
}

/// Refers to an entry, whatever its id is by now: those of ours move behind what another process has written meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef {
    /// Its id when this was made.
    id: u64,
    /// How often ids had moved by then.
    moves: usize,
}

/// All ids from `first` on have become larger by that.
struct Move {
    first: u64,
    by: u64,
}

/// A configuration that is remembered.
struct Kept {
    entry: Entry,
    content: Content,
    /// Its outcome as the directory has it.
    saved: Option<Outcome>,
}

/// What a configuration said.
#[derive(Clone, Debug)]
pub enum Content {
    /// As a whole: it came into force in this process.
    Whole(Said),
    /// What the directory has of it, without secrets.
    Stored,
}

/// What a configuration said that came into force in this process.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its documents.
    pub documents: Arc<[Document]>,
    /// The same, each with stars in place of secrets.
    pub masked: Arc<[Masked]>,
    /// The SHA-256 of all of it, with stars in place of secrets.
    pub sha256: [u8; 32],
}

/// What comes into force, and why.
#[derive(Clone, Debug)]
pub struct Origin {
    /// What made it so.
    pub source: Source,
    /// Who asked.
    pub author: Option<Author>,
    /// The entry that it repeats.
    pub repeats: Option<u64>,
}

/// An entry that is to be written to the directory.
#[derive(Clone, Debug)]
pub struct Record {
    /// The entry.
    pub entry: Entry,
    /// With secrets; they are not written.
    pub said: Said,
}

/// One configuration that was put in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What `titan rollback` calls it. Later ones have larger ids.
    pub id: u64,
    /// When it came into force.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// What made it so.
    pub source: Source,
    /// Who asked for it, where somebody did.
    pub author: Option<Author>,
    /// Whether it is in force now.
    #[serde(default)]
    pub in_force: bool,
    /// The entry that it repeats, where it was put in force again.
    pub repeats: Option<u64>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, where that is not plain.
    pub why: Option<String>,
    /// The SHA-256 of its documents with stars in place of secrets, in hexadecimal digits.
    pub sha256: String,
}

/// What made a configuration come into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The start of the process.
    Start,
    /// A signal.
    Signal,
    /// A change of the file that is watched.
    Watch,
    /// What a source has delivered.
    Delivery,
    /// The admin interface.
    Admin,
    /// A rollback that was asked for.
    Rollback,
    /// The end of a trial: the one before it is in force again.
    TakenBack,
}

/// What became of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It came into force for as long as there is no other.
    Applied,
    /// It is in force, and is taken back unless it is confirmed or its guard is content.
    OnTrial,
    /// It was on trial, and has stayed.
    Confirmed,
    /// It was on trial, and the one before it was put in force again.
    TakenBack,
    /// It was on trial when the process ended: the next start read the file.
    Unconfirmed,
}

/// A text of the configuration. The first one of several is the one that includes the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// What messages call it.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// More characters than this are not kept of why something happened.
const MAX_WHY: usize = 500;

impl History {
    /// Nothing has been in force yet. That many are kept.
    pub fn new(most: usize) -> History {
        History { kept: Vec::new(), most: most.max(1), next: 1, written: 0, moves: Vec::new() }
    }

    /// Takes in what a directory has. Entries of ours that are not on the disk yet give way where one there has their id:
    /// another process wrote it, which had the directory until now. What is gone from it is written again.
    pub fn take_in(&mut self, found: Found) {
        let is_there = |id| found.entries.iter().any(|entry| entry.id == id);
        self.kept.iter_mut().filter(|it| !is_there(it.entry.id)).for_each(|it| it.saved = None);
        let last = found.entries.last().map_or(0, |entry| entry.id);
        if last > self.written {
            self.shift(Move { first: self.written + 1, by: last - self.written });
            self.written = last;
        }
        for entry in found.entries {
            if !self.kept.iter().any(|kept| kept.entry.id == entry.id) {
                let saved = Some(entry.outcome);
                let entry = entry.of_the_past();
                self.kept.push(Kept { entry, content: Content::Stored, saved });
            }
        }
        self.kept.sort_by_key(|kept| kept.entry.id);
        self.forget();
    }

    /// Moves the ids of all that is not on the disk.
    fn shift(&mut self, by: Move) {
        for Kept { entry, saved: _, content: _ } in &mut self.kept {
            let ids = [Some(&mut entry.id), entry.repeats.as_mut()];
            ids.into_iter().flatten().for_each(|id| *id = by.moved(*id));
        }
        self.next = by.moved(self.next);
        self.moves.push(by);
    }

    /// Refers to the entry that has that id now.
    pub fn refer(&self, id: u64) -> EntryRef {
        EntryRef { id, moves: self.moves.len() }
    }

    /// The id that the entry has by now, or had when it was forgotten.
    pub fn id(&self, entry: EntryRef) -> u64 {
        self.moves[entry.moves..].iter().fold(entry.id, |id, by| by.moved(id))
    }

    /// The entry, unless it was forgotten.
    pub fn entry(&self, entry: EntryRef) -> Option<&Entry> {
        let id = self.id(entry);
        self.entries().find(|entry| entry.id == id)
    }

    /// Notes that this is in force from `now` on; returns its id.
    pub fn note(&mut self, origin: Origin, said: Said, now: SystemTime) -> u64 {
        let (id, sha256) = (self.next, hex(said.sha256));
        let Origin { source, author, repeats } = origin;
        // Whoever goes back and forth between two has each of them in memory once.
        let known = self.kept.iter().find_map(|kept| match &kept.content {
            Content::Whole(known) if known.is_same(&said) => Some(known.clone()),
            Content::Whole(_) | Content::Stored => None,
        });
        let said = known.unwrap_or(said);
        self.kept.iter_mut().for_each(|kept| kept.entry.in_force = false);
        let entry = Entry {
            id,
            at: whole_seconds(now),
            source,
            author,
            in_force: true,
            repeats,
            outcome: Outcome::Applied,
            why: None,
            sha256,
        };
        self.kept.push(Kept { entry, content: Content::Whole(said), saved: None });
        self.next += 1;
        self.forget();
        id
    }

    /// Notes what became of one.
    pub fn settle(&mut self, id: u64, outcome: Outcome, why: Option<&str>) {
        if let Some(kept) = self.kept.iter_mut().find(|kept| kept.entry.id == id) {
            kept.entry.outcome = outcome;
            kept.entry.why = why.map(|why| why.chars().take(MAX_WHY).collect());
        }
    }

    /// The entries, the latest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.kept.iter().rev().map(|kept| &kept.entry)
    }

    /// The entry of what is in force.
    pub fn in_force(&self) -> Option<&Entry> {
        self.entries().find(|entry| entry.in_force)
    }

    /// What the configuration with that id said.
    pub fn content(&self, id: u64) -> Option<Content> {
        self.kept.iter().find(|kept| kept.entry.id == id).map(|kept| kept.content.clone())
    }

    /// The id of the entry before that one.
    pub fn before_id(&self, id: u64) -> Option<u64> {
        self.entries().map(|entry| entry.id).filter(|it| *it < id).max()
    }

    /// The one to go back to: the latest before the one in force that says something else, and was to stay: no trial of it
    /// failed or was cut short.
    /// Where that was put in force again it counts as the one that it repeats, so that one can go back further.
    pub fn before(&self) -> Option<u64> {
        let current = self.kept.iter().rev().find(|kept| kept.entry.in_force)?;
        let mut origin = &current.entry;
        while let Some(repeated) =
            origin.repeats.and_then(|id| self.entries().find(|entry| entry.id == id))
        {
            origin = repeated;
        }
        let is_earlier = |kept: &&Kept| {
            kept.entry.id < origin.id
                && kept.differs_from(current)
                && matches!(kept.entry.outcome, Outcome::Applied | Outcome::Confirmed)
        };
        self.kept.iter().rev().find(is_earlier).map(|kept| kept.entry.id)
    }

    /// What the directory does not have yet, or has otherwise.
    pub fn unsaved(&self) -> Vec<Record> {
        let records = self.kept.iter().filter(|kept| kept.is_unsaved());
        let records = records.filter_map(|kept| match &kept.content {
            Content::Whole(said) => Some(Record { entry: kept.entry.clone(), said: said.clone() }),
            Content::Stored => None,
        });
        records.collect()
    }

    /// Whether the directory does not have that one yet, or has it otherwise.
    pub fn is_unsaved(&self, entry: EntryRef) -> bool {
        let id = self.id(entry);
        self.kept.iter().any(|kept| kept.entry.id == id && kept.is_unsaved())
    }

    /// Notes that the directory has an entry with that outcome.
    pub fn note_saved(&mut self, id: u64, outcome: Outcome) {
        self.written = self.written.max(id);
        if let Some(kept) = self.kept.iter_mut().find(|kept| kept.entry.id == id) {
            kept.saved = Some(outcome);
        }
    }

    /// The ids of all entries, in order.
    pub fn ids(&self) -> Vec<u64> {
        self.kept.iter().map(|kept| kept.entry.id).collect()
    }

    /// Forgets what is too much: never the one in force, which is the latest. First those that say what the one before says: however
    /// often a reload or a start changes nothing, it takes away nothing that one may want to go back to.
    fn forget(&mut self) {
        while self.kept.len() > self.most {
            let repeat = self.kept.windows(2).position(|pair| pair[1].repeats(&pair[0]));
            self.kept.remove(repeat.map_or(0, |before| before + 1));
        }
    }
}

impl Kept {
    /// Whether nothing has changed with it.
    fn repeats(&self, before: &Kept) -> bool {
        let is_to_stay =
            |kept: &Kept| matches!(kept.entry.outcome, Outcome::Applied | Outcome::Confirmed);
        !self.entry.in_force && is_to_stay(self) && is_to_stay(before) && !self.differs_from(before)
    }

    /// Whether it says something else. Secrets count where they are known.
    fn differs_from<'s>(&'s self, other: &'s Kept) -> bool {
        let differs_in_secrets = || match (&self.content, &other.content) {
            (Content::Whole(ours), Content::Whole(theirs)) => {
                let texts = |said: &'s Said| said.documents.iter().map(|it| &it.text);
                texts(ours).ne(texts(theirs))
            }
            (Content::Stored, _) | (_, Content::Stored) => false,
        };
        self.entry.sha256 != other.entry.sha256 || differs_in_secrets()
    }

    fn is_unsaved(&self) -> bool {
        matches!(self.content, Content::Whole(_)) && self.saved != Some(self.entry.outcome)
    }
}

impl Move {
    fn moved(&self, id: u64) -> u64 {
        if id >= self.first { id + self.by } else { id }
    }
}

impl Said {
    fn is_same(&self, other: &Said) -> bool {
        let Said { documents, masked: _, sha256 } = self;
        *sha256 == other.sha256 && *documents == other.documents
    }
}

impl Entry {
    /// The same in another process than the one that put it in force.
    fn of_the_past(self) -> Entry {
        let outcome = match self.outcome {
            Outcome::OnTrial => Outcome::Unconfirmed,
            other => other,
        };
        Entry { in_force: false, outcome, ..self }
    }
}

/// Who asks for a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// Who sent the process a signal.
    Signal,
    /// The gateway, which watches its file.
    Watch,
    /// A process on this machine, over a Unix socket.
    Peer {
        /// Its user.
        uid: u32,
        /// Its id, where the system tells.
        pid: Option<i32>,
    },
    /// The holder of the bearer token of that name.
    Token(String),
    /// The source of that name, which has delivered something else.
    Source(String),
}

/// A time as RFC 3339 writes it, in seconds.
pub fn rfc3339(time: SystemTime) -> String {
    let time = whole_seconds(time);
    time.format(&Rfc3339).unwrap_or_else(|_| time.to_string())
}

fn whole_seconds(time: SystemTime) -> OffsetDateTime {
    let time = OffsetDateTime::from(time);
    time.replace_nanosecond(0).unwrap_or(time)
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Author::Signal => f.write_str("signal"),
            Author::Watch => f.write_str("watch"),
            Author::Peer { uid, pid: Some(pid) } => write!(f, "uid {uid} (pid {pid})"),
            Author::Peer { uid, pid: None } => write!(f, "uid {uid}"),
            Author::Token(name) => write!(f, "token {name}"),
            Author::Source(name) => write!(f, "source {name}"),
        }
    }
}
