//! Tokens revoked before they expire: in memory, and on disk.

mod entry;
mod log;
mod pages;
#[cfg(test)]
pub(crate) mod tests;

pub use log::RevocationStoreError;
pub(crate) use pages::{list, no_store, restore, revoke};

use entry::{Entry, Tokens, TokensKey};
use log::{Log, Record};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{SystemTime, UNIX_EPOCH};
use titan_config::{Config, Policy};
use titan_proxy::Revocations;

/// All revoked tokens. What is added is on the disk and in force on every worker when the call returns.
pub struct RevocationStore {
    inner: Mutex<Inner>,
    table: Revocations,
    path: PathBuf,
    /// How many entries there may be.
    capacity: usize,
    /// The issuers that tokens can have; none if any issuer is accepted.
    issuers: Option<Vec<String>>,
}

struct Inner {
    entries: Entries,
    /// `None` while another process may have the file.
    log: Option<Log>,
    /// What is to be said, once.
    warning: Option<String>,
}

/// The entries, in the ways that they are looked for.
#[derive(Default)]
struct Entries {
    by_id: BTreeMap<u64, Entry>,
    by_target: HashMap<TokensKey, u64>,
    /// With when their tokens end.
    by_end: BTreeSet<(u64, u64)>,
    /// The id of the next one.
    next: u64,
}

/// What became of a request to revoke tokens.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// There is an entry more.
    Added(Entry),
    /// There was one of the same target, which is now for these as well.
    Known(Entry),
}

/// Why tokens were not revoked.
#[derive(Debug)]
enum Refused {
    /// No provider is that issuer.
    Issuer,
    /// All tokens that it would revoke have expired.
    Ended,
    /// There are as many entries as may be.
    Full,
    /// The disk does not take it.
    Disk(io::Error),
}

/// Lines that say nothing any more, beyond as many as there are entries, before the file is written anew.
const SLACK: usize = 1024;

impl RevocationStore {
    /// Remembers in that file, once that is open, what is revoked. What it says is in force in [`RevocationStore::table`].
    pub fn new(path: &Path, capacity: usize, config: &Config) -> RevocationStore {
        let inner = Inner { entries: Entries::default(), log: None, warning: None };
        RevocationStore {
            inner: Mutex::new(inner),
            table: Revocations::default(),
            path: path.to_owned(),
            capacity,
            issuers: issuers(config),
        }
    }

    /// Lets another process open the file. What is revoked stays so here; more cannot be revoked.
    pub fn close(&self) {
        self.lock().log = None;
    }

    /// Whether no other process can have the file.
    pub fn is_open(&self) -> bool {
        self.lock().log.is_some()
    }

    /// Reads the file, and keeps other processes from it.
    pub fn open(&self) -> Result<(), RevocationStoreError> {
        self.open_at(now())
    }

    fn open_at(&self, now: u64) -> Result<(), RevocationStoreError> {
        let mut entries = Entries { next: 1, ..Entries::default() };
        let (log, found) = Log::open(&self.path, |record| entries.take(record))?;
        let warning = (found.torn > 0).then(|| {
            format!(
                "{}: dropped {} bytes of an incomplete last line, which was never acknowledged to a client",
                self.path.display(),
                found.torn
            )
        });
        entries.by_id.values().for_each(|entry| self.table.add(&entry.revocation()));
        let mut inner = Inner { entries, log: Some(log), warning };
        inner.evict(&self.table, now);
        if !inner.is_sound() || inner.is_worth_compacting() {
            inner.compact().map_err(|error| RevocationStoreError::Io(self.path.clone(), error))?;
        }
        *self.lock() = inner;
        Ok(())
    }

    /// Whether [`RevocationStore::open`] could read the file, which need not be there.
    pub fn check(path: &Path) -> Result<(), RevocationStoreError> {
        let mut entries = Entries::default();
        Log::look(path, |record| entries.take(record)).map(drop)
    }

    /// What workers look at.
    pub fn table(&self) -> &Revocations {
        &self.table
    }

    /// What there is to say of the file since this was asked last. Never waits: while the file is written there is nothing.
    pub fn take_warning(&self) -> Option<String> {
        match self.inner.try_lock() {
            Ok(mut inner) => inner.warning.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().warning.take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn revoke(&self, tokens: Tokens, now: u64) -> Result<Outcome, Refused> {
        let mut inner = self.lock();
        inner.evict(&self.table, now);
        let is_known = |issuer: &str| {
            self.issuers.as_ref().is_none_or(|all| all.iter().any(|known| known == issuer))
        };
        if !tokens.issuer.as_deref().is_none_or(is_known) {
            return Err(Refused::Issuer);
        }
        if tokens.have_ended(now) {
            return Err(Refused::Ended);
        }
        let known = inner.entries.with(&tokens.target()).cloned();
        let entry = match &known {
            None if inner.entries.by_id.len() >= self.capacity => return Err(Refused::Full),
            None => Entry { id: inner.entries.next, tokens },
            Some(known) => Entry { id: known.id, tokens: known.tokens.and(&tokens) },
        };
        if known.as_ref() != Some(&entry) {
            inner.write(&Record::Add(entry.clone())).map_err(Refused::Disk)?;
            self.table.add(&entry.revocation());
            inner.entries.put(entry.clone());
            inner.compact_if_worth_it();
        }
        Ok(if known.is_some() { Outcome::Known(entry) } else { Outcome::Added(entry) })
    }

    /// Removes an entry, so that its tokens are accepted again. False if there is no such entry.
    fn lift(&self, id: u64, now: u64) -> io::Result<bool> {
        let mut inner = self.lock();
        inner.evict(&self.table, now);
        let Some(entry) = inner.entries.by_id.get(&id).cloned() else { return Ok(false) };
        inner.write(&Record::Remove(id))?;
        self.table.remove(&entry.revocation());
        inner.entries.remove(id);
        inner.compact_if_worth_it();
        Ok(true)
    }

    /// So many entries behind that id, in their order.
    fn list(&self, after: u64, most: usize, now: u64) -> Vec<Entry> {
        let mut inner = self.lock();
        inner.evict(&self.table, now);
        let behind = inner.entries.by_id.range(after.saturating_add(1)..);
        behind.map(|(_, entry)| entry.clone()).take(most).collect()
    }

    /// How many entries there are, and how many there may be.
    pub(crate) fn count(&self, now: u64) -> (usize, usize) {
        let mut inner = self.lock();
        inner.evict(&self.table, now);
        (inner.entries.by_id.len(), self.capacity)
    }

    /// What a panic has left is as good as before it: every change is made in the file first, and then as a whole.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Forgets the entries whose tokens have ended.
    fn evict(&mut self, table: &Revocations, now: u64) {
        while let Some(&(_, id)) = self.entries.by_end.first() {
            let Some(entry) = self.entries.by_id.get(&id) else { return };
            if !entry.tokens.have_ended(now) {
                return;
            }
            table.remove(&entry.revocation());
            self.entries.remove(id);
        }
    }

    /// Writes a line, to a new file where the old one cannot be trusted.
    fn write(&mut self, record: &Record) -> io::Result<()> {
        if !self.is_sound() {
            self.compact()?;
        }
        self.log()?.append(record)
    }

    fn is_sound(&self) -> bool {
        self.log.as_ref().is_some_and(Log::is_sound)
    }

    fn is_worth_compacting(&self) -> bool {
        let lines = self.log.as_ref().map_or(0, Log::lines);
        lines > 2 * self.entries.by_id.len() + SLACK
    }

    fn log(&mut self) -> io::Result<&mut Log> {
        let lent = || io::Error::other("an upgrade is under way: repeat the request");
        self.log.as_mut().ok_or_else(lent)
    }

    /// The file stays valid if this fails: the next change tries again.
    fn compact_if_worth_it(&mut self) {
        if self.is_worth_compacting()
            && let Err(error) = self.compact()
        {
            self.warning = Some(format!("cannot compact the file of revoked tokens: {error}"));
        }
    }

    fn compact(&mut self) -> io::Result<()> {
        let Inner { entries, log, warning: _ } = self;
        let Some(log) = log else { return Ok(()) };
        log.rewrite(entries.next, entries.by_id.values())
    }
}

impl Entries {
    fn with(&self, target: &TokensKey) -> Option<&Entry> {
        self.by_id.get(self.by_target.get(target)?)
    }

    /// Does what a line of the file says.
    fn take(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Start { form: _, next } => self.next = next,
            Record::Add(entry) => {
                // One that had ended by then was forgotten without a line.
                if let Some(before) = self.by_target.get(&entry.tokens.target()).copied() {
                    self.remove(before);
                }
                self.put(entry);
            }
            Record::Remove(id) => {
                self.remove(id).ok_or_else(|| format!("there is no entry {id} to remove"))?;
            }
        }
        Ok(())
    }

    /// In place of the one with its id, which is of the same target.
    fn put(&mut self, entry: Entry) {
        self.remove(entry.id);
        self.next = self.next.max(entry.id.saturating_add(1));
        self.by_target.insert(entry.tokens.target(), entry.id);
        self.by_end.insert((entry.tokens.ends, entry.id));
        self.by_id.insert(entry.id, entry);
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.by_id.remove(&id)?;
        self.by_target.remove(&entry.tokens.target());
        self.by_end.remove(&(entry.tokens.ends, id));
        Some(entry)
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Every issuer that a token can have; none if some policy accepts any issuer.
fn issuers(config: &Config) -> Option<Vec<String>> {
    let policies = config.policies.iter().filter_map(|named| match &named.policy {
        Policy::Jwt(jwt) => Some(jwt),
        _ => None,
    });
    policies.flat_map(|jwt| &jwt.providers).map(|provider| provider.issuer.clone()).collect()
}
