//! The directory of the history: a file for each entry, and nothing else that has to be in step with them.
//!
//! ```text
//! lock          held by the process that writes here
//! 7.jsonl       {"form":1,"id":7,"at":"2026-11-23T17:00:00Z","source":"admin", ...}
//!               {"documents":[{"name":"titan.yaml","text":"..."}],"secrets":[]}
//! 8.jsonl.new   not complete: what a crash has left
//! ```
//!
//! A file is written under another name, synced, and renamed: under its own name it is always whole. So what a crash
//! leaves are the entries from before it, and perhaps the one that was being written.

use super::{Document, Entry, Record, Said};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use titan_config::Masked;
use titan_config::bounds::MAX_FILES_TOTAL;

/// A directory that keeps a history.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Locked, while this process may write.
    lock: Option<Lock>,
    /// Steps until a crash, in tests of what it leaves.
    #[cfg(test)]
    pub(super) crash_in: Option<usize>,
}

/// The file that is locked while a process may write. Dropped, it is unlocked at once: a process that was forked may have its
/// descriptor for a moment longer.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// Whether it is that of the file at `path`: who has deleted a directory has deleted its lock.
    fn is_of(&self, path: &Path) -> bool {
        let Lock(file) = self;
        match (file.metadata(), fs::metadata(path)) {
            (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
            (_, Err(error)) => error.kind() != ErrorKind::NotFound,
            (Err(_), Ok(_)) => true,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let Lock(file) = self;
        // Closing it unlocks it too.
        let _ = flock(file, FlockOperation::Unlock);
    }
}

/// What a directory has.
#[derive(Debug, Default)]
pub struct Found {
    /// In the order of their ids.
    pub entries: Vec<Entry>,
    /// What cannot be read, and why.
    pub warnings: Vec<String>,
}

/// What a configuration said, without its secrets.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// With stars in place of secrets.
    pub documents: Vec<Document>,
    /// What the stars stand for.
    pub secrets: Vec<Place>,
}

/// Where a secret was left out.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The name of the document.
    pub document: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The keys that lead there.
    pub path: String,
}

/// Why a directory cannot be used.
#[derive(Debug)]
pub enum DirectoryError {
    /// Another process writes there.
    InUse(PathBuf),
    /// It, or a file in it, cannot be read or written.
    Io(PathBuf, io::Error),
}

/// The first line of a file.
#[derive(Serialize, Deserialize)]
struct Head {
    /// How the rest is written.
    form: u32,
    #[serde(flatten)]
    entry: Entry,
}

const FORM: u32 = 1;
/// Bytes of the first line of a file: ids, a name of a token, and why.
const MAX_HEAD: u64 = 16 << 10;
/// Bytes of a file: quotes and ends of lines take two in JSON.
const MAX_BYTES: u64 = 3 * MAX_FILES_TOTAL as u64;
const LOCK: &str = "lock";
const COMPLETE: &str = ".jsonl";
const INCOMPLETE: &str = ".jsonl.new";

impl Directory {
    /// The one at `path`, which need not exist.
    pub fn new(path: PathBuf) -> Directory {
        Directory {
            path,
            lock: None,
            #[cfg(test)]
            crash_in: None,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has it for this process alone, also where it was deleted.
    /// What it has is returned where it was not ours before: another process may have
    /// written there.
    pub fn acquire(&mut self, most: usize) -> Result<Option<Found>, DirectoryError> {
        let path = self.path.join(LOCK);
        if self.lock.as_ref().is_some_and(|lock| lock.is_of(&path)) {
            return Ok(None);
        }
        self.lock = None;
        self.create().map_err(|error| self.failed(error))?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(path).map_err(|error| self.failed(error))?;
        let lock = match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Lock(lock),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(DirectoryError::InUse(self.path.clone()));
            }
            Err(error) => return Err(self.failed(error.into())),
        };
        let found = self.read(most)?;
        self.lock = Some(lock);
        Ok(Some(found))
    }

    /// Lets another process write there, until [`Directory::acquire`] is called again.
    pub fn release(&mut self) {
        self.lock = None;
    }

    /// What it has: of that many entries, the latest. It need not be ours.
    pub fn read(&self, most: usize) -> Result<Found, DirectoryError> {
        let mut ids = self.ids(COMPLETE).map_err(|error| self.failed(error))?;
        ids.drain(..ids.len().saturating_sub(most));
        let mut found = Found::default();
        for id in ids {
            match self.read_head(id) {
                Ok(entry) => found.entries.push(entry),
                Err(error) => {
                    let file = self.file(id, COMPLETE);
                    found.warnings.push(format!("cannot read {}: {error}", file.display()));
                }
            }
        }
        Ok(found)
    }

    /// What the configuration with that id said.
    pub fn load(&self, id: u64) -> Result<Stored, DirectoryError> {
        let path = self.file(id, COMPLETE);
        self.read_content(&path).map_err(|error| DirectoryError::Io(path, error))
    }

    /// Writes an entry, in place of the one with its id. It is on the disk when this returns. Only after
    /// [`Directory::acquire`].
    pub fn save(&mut self, record: &Record) -> Result<(), DirectoryError> {
        self.write(record).map_err(|error| self.failed(error))
    }

    /// Removes all but that many, those first that are not among `kept`, then the oldest; and what was never completed.
    pub fn prune(&mut self, most: usize, kept: &[u64]) -> Result<(), DirectoryError> {
        self.remove(most, kept).map_err(|error| self.failed(error))
    }

    fn create(&self) -> io::Result<()> {
        if self.path.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        sync(self.path.parent().unwrap_or(Path::new("/")))
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        let Record { entry, said } = record;
        let bytes = to_bytes(entry, &stored(said))?;
        let (new, path) = (self.file(entry.id, INCOMPLETE), self.file(entry.id, COMPLETE));
        self.step()?;
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        let (first, second) = bytes.split_at(bytes.len() / 2);
        self.step()?;
        file.write_all(first)?;
        self.step()?;
        file.write_all(second)?;
        self.step()?;
        file.sync_all()?;
        self.step()?;
        fs::rename(&new, &path)?;
        self.step()?;
        sync(&self.path)
    }

    fn remove(&mut self, most: usize, kept: &[u64]) -> io::Result<()> {
        let mut ids = self.ids(COMPLETE)?;
        let excess = ids.len().saturating_sub(most);
        ids.sort_by_key(|id| kept.contains(id));
        let old = ids[..excess].iter().map(|id| self.file(*id, COMPLETE));
        let incomplete = self.ids(INCOMPLETE)?;
        let incomplete = incomplete.iter().map(|id| self.file(*id, INCOMPLETE));
        for path in old.chain(incomplete).collect::<Vec<_>>() {
            self.step()?;
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// The ids that files with that ending have, in order.
    fn ids(&self, ending: &str) -> io::Result<Vec<u64>> {
        let mut ids = Vec::new();
        for file in fs::read_dir(&self.path)? {
            let name = file?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(ending));
            ids.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn file(&self, id: u64, ending: &str) -> PathBuf {
        self.path.join(format!("{id}{ending}"))
    }

    fn read_head(&self, id: u64) -> io::Result<Entry> {
        let mut line = Vec::new();
        let file = BufReader::new(File::open(self.file(id, COMPLETE))?);
        file.take(MAX_HEAD).read_until(b'\n', &mut line)?;
        let Head { form, entry } = serde_json::from_slice(&line)?;
        match (form, entry.id == id) {
            (FORM, true) => Ok(entry),
            (FORM, false) => Err(io::Error::other("it has the id of another entry")),
            _ => Err(io::Error::other("a later version of Titan wrote it")),
        }
    }

    fn read_content(&self, path: &Path) -> io::Result<Stored> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let content = bytes.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default();
        Ok(serde_json::from_slice(content)?)
    }

    fn failed(&self, error: io::Error) -> DirectoryError {
        DirectoryError::Io(self.path.clone(), error)
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests crash here")]
    fn step(&mut self) -> io::Result<()> {
        Ok(())
    }

    #[cfg(test)]
    fn step(&mut self) -> io::Result<()> {
        match &mut self.crash_in {
            Some(0) => Err(io::Error::from(ErrorKind::StorageFull)),
            Some(steps) => {
                *steps -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// The two lines of a file.
fn to_bytes(entry: &Entry, stored: &Stored) -> io::Result<Vec<u8>> {
    let mut head = serde_json::to_value(Head { form: FORM, entry: entry.clone() })?;
    // That is not up to the entry, but to what came after it.
    head.as_object_mut().map(|head| head.remove("in_force"));
    let mut bytes = serde_json::to_vec(&head)?;
    bytes.push(b'\n');
    serde_json::to_writer(&mut bytes, stored)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn stored(said: &Said) -> Stored {
    let mut stored = Stored { documents: Vec::new(), secrets: Vec::new() };
    for (Document { name, .. }, Masked { text, secrets }) in
        said.documents.iter().zip(&*said.masked)
    {
        stored.documents.push(Document { name: name.clone(), text: text.clone() });
        stored.secrets.extend(secrets.iter().map(|secret| Place {
            document: name.clone(),
            line: secret.location.line,
            column: secret.location.column,
            path: secret.path.clone(),
        }));
    }
    stored
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::InUse(path) => {
                let path = path.display();
                write!(f, "another process uses the state directory {path}: each needs its own")
            }
            DirectoryError::Io(path, error) => {
                write!(f, "cannot use {} for the history: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for DirectoryError {}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { document, line, column, path } = self;
        write!(f, "`{path}` ({document}:{line}:{column})")
    }
}
