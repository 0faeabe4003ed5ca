//! The revocation file: a line for each change, written to disk before the change is acknowledged.
//!
//! ```text
//! 3f0c59dfe40a1be2 {"start":{"form":1,"next":1}}
//! 9d2c...          {"add":{"id":1,"jti":"a","exp":1800000000}}
//! 71aa...          {"remove":1}
//! ```
//!
//! Each line begins with a hash of it and of all lines before it, so that a changed, missing or moved line is
//! detected. What a crash leaves differs from that: a last line without its end, or with bytes that never reached the
//! disk and read as NUL.

use super::entry::Entry;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The file, as far as it is known to be good.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// The hash of the last line.
    hash: u64,
    /// Lines behind the first.
    lines: usize,
    /// Whether what was written last is on the disk, whole: only then more can be written behind it.
    is_sound: bool,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Record {
    /// The first one: how the others are written, and the next entry's id.
    Start { form: u32, next: u64 },
    /// An entry, in place of the one with its id or target.
    Add(Entry),
    /// There is no entry with that id any more.
    Remove(u64),
}

/// What reading a file has found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    hash: u64,
    lines: usize,
    /// Bytes of a line at the end that a crash has kept from being written.
    pub(super) torn: usize,
}

/// Why the file cannot be used.
#[derive(Debug)]
pub enum RevocationStoreError {
    /// Another process uses it.
    InUse(PathBuf),
    /// A line is not what was written there.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// There can be no such file there.
    BadPlace {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// It cannot be read or written.
    Io(PathBuf, io::Error),
}

/// How the lines are written.
const FORM: u32 = 1;
/// Bytes of a line: three names, each byte of which takes up to six in JSON, and some numbers.
const MAX_LINE: u64 = 32 << 10;
/// Bytes of a hash and the space behind it.
const HASH: usize = 17;

impl Log {
    /// Opens it, tells `take` of each line in order, and keeps other processes out.
    pub(super) fn open(
        path: &Path,
        take: impl FnMut(Record) -> Result<(), String>,
    ) -> Result<(Log, Found), RevocationStoreError> {
        let failed = |error| RevocationStoreError::Io(path.to_owned(), error);
        check_place(path)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(failed)?;
        match lock(&file, path) {
            Ok(true) => {}
            Ok(false) => return Err(RevocationStoreError::InUse(path.to_owned())),
            Err(error) => return Err(failed(error)),
        }
        let found = read(&file, path, take)?;
        let Found { hash, lines, torn } = found;
        // An empty one has no first line yet.
        let is_sound = torn == 0 && hash != 0;
        Ok((Log { path: path.to_owned(), file, hash, lines, is_sound }, found))
    }

    /// Looks at it, and leaves it as it is.
    pub(super) fn look(
        path: &Path,
        take: impl FnMut(Record) -> Result<(), String>,
    ) -> Result<Found, RevocationStoreError> {
        check_place(path)?;
        match File::open(path) {
            Ok(file) => read(&file, path, take),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::default()),
            Err(error) => Err(RevocationStoreError::Io(path.to_owned(), error)),
        }
    }

    /// Whether a line can be written behind the last one.
    pub(super) fn is_sound(&self) -> bool {
        self.is_sound
    }

    /// How many lines there are behind the first.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// As after a write that has failed.
    #[cfg(test)]
    pub(super) fn fail(&mut self) {
        self.is_sound = false;
    }

    /// Writes more lines; they are on the disk when this returns.
    pub(super) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let (mut lines, mut hash) = (Vec::new(), self.hash);
        for record in records {
            hash = write(&mut lines, hash, record)?;
        }
        self.is_sound = false;
        self.file.write_all(&lines)?;
        self.file.sync_data()?;
        self.is_sound = true;
        (self.hash, self.lines) = (hash, self.lines + records.len());
        Ok(())
    }

    /// Writes it anew, with these entries and nothing else. A crash leaves the old one or the new one.
    pub(super) fn rewrite<'e>(
        &mut self,
        next: u64,
        entries: impl Iterator<Item = &'e Entry>,
    ) -> io::Result<()> {
        let path = new_path(&self.path);
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(&path)?;
        if !lock(&file, &path)? {
            return Err(io::Error::other(format!("another process uses {}", path.display())));
        }
        file.set_len(0)?;
        let mut out = BufWriter::new(&file);
        let mut hash = write(&mut out, 0, &Record::Start { form: FORM, next })?;
        let mut lines = 0;
        for entry in entries {
            hash = write(&mut out, hash, &Record::Add(entry.clone()))?;
            lines += 1;
        }
        out.flush()?;
        drop(out);
        file.sync_all()?;
        fs::rename(&path, &self.path)?;
        // From here on the old file has no name: nothing more may go there.
        (self.file, self.hash, self.lines, self.is_sound) = (file, hash, lines, false);
        sync_folder(&self.path)?;
        self.is_sound = true;
        Ok(())
    }
}

/// Where a file is written that is to take the place of that one.
pub(super) fn new_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Whether the file is ours alone, and still the one at `path`.
fn lock(file: &File, path: &Path) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let (ours, theirs) = (file.metadata()?, fs::metadata(path)?);
    Ok((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()))
}

/// Whether a file can be there: its folder exists, and nothing else has its name.
fn check_place(path: &Path) -> Result<(), RevocationStoreError> {
    let bad = |why| Err(RevocationStoreError::BadPlace { path: path.to_owned(), why });
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => bad("it is not a regular file"),
        Err(_) if !folder_of(path).is_dir() => bad("its directory does not exist: create it"),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// Writes a line; returns its hash.
fn write(out: &mut impl Write, before: u64, record: &Record) -> io::Result<u64> {
    let text = serde_json::to_string(record)?;
    let hash = xxh3_64_with_seed(text.as_bytes(), before);
    // Zero stands for no line at all.
    let hash = hash.max(1);
    writeln!(out, "{hash:016x} {text}")?;
    Ok(hash)
}

fn read(
    file: &File,
    path: &Path,
    mut take: impl FnMut(Record) -> Result<(), String>,
) -> Result<Found, RevocationStoreError> {
    let failed = |error| RevocationStoreError::Io(path.to_owned(), error);
    let mut reader = BufReader::new(file);
    let (mut found, mut number) = (Found::default(), 0);
    loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            return Ok(found);
        }
        number += 1;
        let is_last = reader.fill_buf().map_err(failed)?.is_empty();
        // The first line is never written behind anything: half of one is another file.
        if number > 1 && is_last && (line.last() != Some(&b'\n') || line.contains(&0)) {
            return Ok(Found { torn: line.len(), ..found });
        }
        let taken = parse(&line, found.hash).and_then(|(hash, record)| {
            match (number, &record) {
                (1, Record::Start { form: FORM, .. }) => {}
                (1, _) => return Err("this is not the first line of a revocation file".to_owned()),
                (_, Record::Start { .. }) => {
                    return Err("a first line appears again here".to_owned());
                }
                _ => found.lines += 1,
            }
            found.hash = hash;
            take(record)
        });
        let corrupt =
            |why| RevocationStoreError::Corrupt { path: path.to_owned(), line: number, why };
        taken.map_err(corrupt)?;
    }
}

/// The hash and the record of a line behind one of that hash.
fn parse(line: &[u8], before: u64) -> Result<(u64, Record), String> {
    let differs = || "the line is damaged".to_owned();
    let (hash, text) = line.split_at_checked(HASH).ok_or_else(differs)?;
    let text = text.strip_suffix(b"\n").ok_or_else(differs)?;
    let expected = xxh3_64_with_seed(text, before).max(1);
    if hash != format!("{expected:016x} ").as_bytes() {
        return Err(differs());
    }
    let record = serde_json::from_slice(text);
    let record =
        record.map_err(|error| format!("this version of Titan cannot read the line: {error}"))?;
    Ok((expected, record))
}

impl fmt::Display for RevocationStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RevocationStoreError::InUse(path) => {
                write!(
                    f,
                    "another process uses {}: each process needs its own file",
                    path.display()
                )
            }
            RevocationStoreError::Corrupt { path, line, why } => write!(
                f,
                "{}:{line}: {why}; without the file, revoked tokens would be accepted again. \
                    Restore the file, or remove it if all revoked tokens have expired",
                path.display()
            ),
            RevocationStoreError::BadPlace { path, why } => {
                write!(f, "cannot use {} for revoked tokens: {why}", path.display())
            }
            RevocationStoreError::Io(path, error) => {
                write!(f, "cannot use {} for revoked tokens: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for RevocationStoreError {}
