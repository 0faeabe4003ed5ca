//! Tokens revoked before they expire: in memory, and on disk.

mod entry;

mod log;

mod entries;

mod fleet;

mod pages;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use fleet::FleetStatus;
pub use log::RevocationStoreError;
pub(crate) use pages::{list, no_store, restore, revoke};

use entries::Entries;
use entry::{Entry, Tokens};
use fleet::Fleet;
use log::{Log, Record};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
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
    /// The other gateways, if they and this one tell each other.
    fleet: Option<Fleet>,
}

struct Inner {
    entries: Entries,
    /// The greatest stamp that was seen.
    clock: u64,
    /// `None` while another process may have the file.
    log: Option<Log>,
    /// What is to be said, once.
    warning: Option<String>,
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
        let fleet = config.jwt_revocations.as_ref().and_then(Fleet::of);
        let table = Revocations::default();
        fleet.iter().for_each(|fleet| fleet.distrust(&table));
        let entries = Entries::new(fleet.is_some());
        RevocationStore {
            inner: Mutex::new(Inner { entries, clock: 0, log: None, warning: None }),
            table,
            path: path.to_owned(),
            capacity,
            issuers: issuers(config),
            fleet,
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
        self.open_at(clock())
    }

    fn open_at(&self, now: Duration) -> Result<(), RevocationStoreError> {
        let mut entries = Entries::new(self.fleet.is_some());
        let (log, found) = Log::open(&self.path, |record| entries.take(record))?;
        let warning = (found.torn > 0).then(|| {
            format!(
                "{}: dropped {} bytes of an incomplete last line, which was never acknowledged to a client",
                self.path.display(),
                found.torn
            )
        });
        let in_force = entries.behind(0);
        in_force.for_each(|entry| self.table.add(&entry.revocation()));
        let clock = entries.all().map(|entry| entry.stamp).max().unwrap_or(0);
        let mut inner = Inner { entries, clock, log: Some(log), warning };
        inner.evict(&self.table, now.as_secs());
        let is_changed = self.fleet.is_some() && inner.stamp_all(now);
        if is_changed || !inner.is_sound() || inner.is_worth_compacting() {
            inner.compact().map_err(|error| RevocationStoreError::Io(self.path.clone(), error))?;
        }
        *self.lock() = inner;
        // What was heard of others while another process had the file is not in it.
        self.fleet.iter().for_each(Fleet::start_over);
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

    fn revoke(&self, tokens: Tokens, now: Duration) -> Result<Outcome, Refused> {
        let mut inner = self.lock();
        inner.evict(&self.table, now.as_secs());
        let is_known = |issuer: &str| {
            self.issuers.as_ref().is_none_or(|all| all.iter().any(|known| known == issuer))
        };
        if !tokens.issuer.as_deref().is_none_or(is_known) {
            return Err(Refused::Issuer);
        }
        if tokens.have_ended(now.as_secs()) {
            return Err(Refused::Ended);
        }
        let known = inner.entries.with(&tokens.target()).filter(|it| !it.is_withdrawn()).cloned();
        if known.is_none() && inner.entries.len() >= self.capacity {
            return Err(Refused::Full);
        }
        let (id, tokens) = match &known {
            None => (inner.entries.next, tokens),
            Some(known) => (known.id, known.tokens.and(&tokens)),
        };
        // In a fleet it says when it was revoked last: another gateway may have withdrawn it meanwhile.
        let says_nothing_new = |known: &Entry| self.fleet.is_none() && known.tokens == tokens;
        if let Some(known) = known.filter(says_nothing_new) {
            return Ok(Outcome::Known(known));
        }
        let entry = Entry { id, tokens, stamp: inner.stamp(now), lifts: None };
        let is_new = id == inner.entries.next;
        inner.write(&[Record::Add(entry.clone())]).map_err(Refused::Disk)?;
        self.put(&mut inner, entry.clone());
        Ok(if is_new { Outcome::Added(entry) } else { Outcome::Known(entry) })
    }

    /// Removes an entry, so that its tokens are accepted again. None if there is no such entry.
    fn lift(&self, id: u64, now: Duration) -> io::Result<Option<Entry>> {
        let mut inner = self.lock();
        inner.evict(&self.table, now.as_secs());
        let known = inner.entries.of(id).filter(|entry| !entry.is_withdrawn()).cloned();
        let Some(entry) = known else { return Ok(None) };
        if self.fleet.is_some() {
            let stamp = inner.stamp(now);
            let withdrawn = entry.withdrawn(stamp);
            inner.write(&[Record::Add(withdrawn.clone())])?;
            self.put(&mut inner, withdrawn);
            return Ok(Some(entry));
        }
        inner.write(&[Record::Remove(id)])?;
        self.table.remove(&entry.revocation());
        inner.entries.remove(id);
        inner.compact_if_worth_it();
        Ok(Some(entry))
    }

    /// Puts an entry in force that is in the file.
    fn put(&self, inner: &mut Inner, entry: Entry) {
        inner.apply(&self.table, entry);
        inner.compact_if_worth_it();
        self.fleet.iter().for_each(Fleet::wake);
    }

    /// So many entries behind that id, in their order.
    fn list(&self, after: u64, most: usize, now: u64) -> Vec<Entry> {
        let mut inner = self.lock();
        inner.evict(&self.table, now);
        inner.entries.behind(after).take(most).cloned().collect()
    }

    /// How many entries there are, and how many there may be.
    pub(crate) fn count(&self, now: u64) -> (usize, usize) {
        let mut inner = self.lock();
        inner.evict(&self.table, now);
        (inner.entries.len(), self.capacity)
    }

    /// What a panic has left is as good as before it: every change is made in the file first, and then as a whole.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Later than all that is known.
    fn stamp(&self, now: Duration) -> u64 {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        now.max(self.clock.saturating_add(1))
    }

    /// Has those say that they were revoked now of which it is not known when, because earlier versions did not stamp what no other
    /// gateway was to hear. In doubt tokens are revoked. Tells whether there were any.
    fn stamp_all(&mut self, now: Duration) -> bool {
        let unstamped: Vec<_> = self.entries.all().filter(|it| it.stamp == 0).cloned().collect();
        let stamp = self.stamp(now);
        for entry in &unstamped {
            self.entries.put(Entry { stamp, ..entry.clone() });
            self.clock = stamp;
        }
        !unstamped.is_empty()
    }

    /// Forgets the entries whose tokens have ended.
    fn evict(&mut self, table: &Revocations, now: u64) {
        while let Some(entry) = self.entries.first_to_end() {
            if !entry.tokens.have_ended(now) {
                return;
            }
            let id = entry.id;
            table.remove(&entry.revocation());
            self.entries.forget(id);
        }
    }

    /// Has an entry, and has workers do what it says.
    fn apply(&mut self, table: &Revocations, entry: Entry) {
        self.clock = self.clock.max(entry.stamp);
        match entry.is_withdrawn() {
            true => table.remove(&entry.revocation()),
            false => table.add(&entry.revocation()),
        }
        self.entries.put(entry);
    }

    /// Writes lines, to a new file where the old one cannot be trusted.
    fn write(&mut self, records: &[Record]) -> io::Result<()> {
        if !self.is_sound() {
            self.compact()?;
        }
        self.log()?.append(records)
    }

    fn is_sound(&self) -> bool {
        self.log.as_ref().is_some_and(Log::is_sound)
    }

    fn is_worth_compacting(&self) -> bool {
        let lines = self.log.as_ref().map_or(0, Log::lines);
        lines > 2 * self.entries.all().len() + SLACK
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
        let Inner { entries, log, .. } = self;
        let Some(log) = log else { return Ok(()) };
        log.rewrite(entries.next, entries.all())
    }
}

/// Since 1970.
fn clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The same in seconds.
pub(crate) fn now() -> u64 {
    clock().as_secs()
}

/// Every issuer that a token can have; none if some policy accepts any issuer.
fn issuers(config: &Config) -> Option<Vec<String>> {
    let policies = config.policies.iter().filter_map(|named| match &named.policy {
        Policy::Jwt(jwt) => Some(jwt),
        _ => None,
    });
    policies.flat_map(|jwt| &jwt.providers).map(|provider| provider.issuer.clone()).collect()
}
