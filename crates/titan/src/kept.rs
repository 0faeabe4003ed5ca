//! What was in force of sources, in the state directory: a start without them serves it.
//!
//! ```text
//! sources/shop.json   6f1c...  the SHA-256 of the rest
//!                     {"revision":"17","signed_at":null,"documents":[{"name":"shop.yaml","text":"..."}]}
//! ```
//!
//! A file is written under another name, synced and renamed, so that it is whole under its own. Documents may have secrets in them:
//! only the owner can read it.

use crate::config_file;
use crate::delivered::{self, DocumentName, Texts};
use crate::regular_file;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use titan_admin::history::Document;
use titan_config::{Config, State};
use titan_proxy::sha256;

/// What was in force of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// That of the delivery that it was last in.
    pub(crate) revision: String,
    /// When it was signed, in seconds since 1970.
    pub(crate) signed_at: Option<u64>,
    documents: Vec<Document>,
}

/// What was in force of all sources, and what there is to say of it.
#[derive(Default)]
pub(crate) struct Restored {
    pub(crate) kept: BTreeMap<String, Kept>,
    pub(crate) news: Vec<String>,
}

/// Where systemd says that the state of a service belongs (systemd.exec(5), `StateDirectory=`).
const STATE_DIRECTORY: &str = "STATE_DIRECTORY";
/// Our part of the state directory.
const SOURCES: &str = "sources";
/// Bytes of a file.
const MAX_BYTES: usize = 64 << 20;
/// How long a start waits for the directory.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

impl Kept {
    /// What of these documents is that source's.
    pub(crate) fn new(revision: &str, signed_at: Option<u64>, source: &str, texts: &Texts) -> Kept {
        let documents = delivered::of_source(texts, source)
            .map(|(name, text)| Document { name: name.document.clone(), text: text.to_string() });
        Kept { revision: revision.to_owned(), signed_at, documents: documents.collect() }
    }
}

impl Restored {
    /// Reads what is there of the sources of a configuration that was read from `file`. A directory that does not respond keeps
    /// nothing from starting.
    pub(crate) fn read(config: &Config, file: &Path) -> Restored {
        let Some(directory) = directory(config, file) else {
            let what = "sources deliver, and there is no state directory: a start without them serves what the file says alone; set \
                `state.directory`";
            return Restored { news: vec![what.to_owned()], ..Restored::default() };
        };
        let names: Vec<_> = config.sources.iter().map(|it| it.name.to_string()).collect();
        let shown = directory.display().to_string();
        patiently(move || read_all(&directory, names)).unwrap_or_else(|| Restored {
            news: vec![format!("the directory {shown} has not responded for {PATIENCE:?}")],
            ..Restored::default()
        })
    }

    /// The documents of all sources.
    pub(crate) fn texts(&self) -> Texts {
        let of_source = |(source, kept): (&String, &Kept)| -> Vec<_> {
            let document =
                |it: &Document| (DocumentName::new(source, &it.name), Arc::from(it.text.as_str()));
            kept.documents.iter().map(document).collect()
        };
        self.kept.iter().flat_map(of_source).collect()
    }
}

/// The documents that were in force of a source, as far as they can be read.
pub(crate) fn documents(state: &Path, source: &str) -> Vec<Document> {
    let kept = read(&file_of(&state.join(SOURCES), source));
    kept.ok().flatten().map(|kept| kept.documents).unwrap_or_default()
}

/// What that job finds in the state directory; nothing where the directory does not respond.
pub(crate) fn patiently<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, found) = mpsc::sync_channel(1);
    let job = move || drop(done.send(job()));
    drop(thread::Builder::new().name("restore".to_owned()).spawn(job));
    found.recv_timeout(PATIENCE).ok()
}

/// The state directory of a configuration that was read from `file`: the one that it names, or the first of those that systemd has
/// made for the service.
pub(crate) fn state_directory(state: &State, file: &Path) -> Option<PathBuf> {
    let named = state.directory.as_ref().map(|named| config_file::beside(file, named));
    named.or_else(|| {
        let directories = std::env::var_os(STATE_DIRECTORY)?;
        std::env::split_paths(&directories).next().filter(|path| path.is_absolute())
    })
}

/// Where it is kept.
pub(crate) fn directory(config: &Config, file: &Path) -> Option<PathBuf> {
    state_directory(&config.state, file).map(|directory| directory.join(SOURCES))
}

/// Keeps it; or nothing any more of that source.
pub(crate) fn write(directory: &Path, source: &str, kept: Option<&Kept>) -> io::Result<()> {
    let path = file_of(directory, source);
    let Some(kept) = kept else {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    let said = serde_json::to_string(kept).map_err(io::Error::other)?;
    replace(&path, format!("{}\n{said}\n", hex(&sha256(said.as_bytes()))).as_bytes())
}

/// Writes a file that only its owner can read, whole or not at all, and its directory where that is missing.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let new = path.with_extension("json.new");
    let mut file = claim(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(directory)?.sync_all()
}

/// Opens an empty file that no other process writes: in an upgrade two have the same directory.
fn claim(new: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(new)?;
    let taken = || io::Error::new(ErrorKind::WouldBlock, "another process writes it just now");
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Err(taken()),
        // Not all file systems have locks.
        Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    // The other one may have renamed it between the two.
    let (ours, there) = (file.metadata()?, fs::metadata(new).map_err(|_| taken())?);
    if (ours.dev(), ours.ino()) != (there.dev(), there.ino()) {
        return Err(taken());
    }
    // One that a crash has left may have other rights.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.set_len(0)?;
    Ok(file)
}

fn read_all(directory: &Path, names: Vec<String>) -> Restored {
    let mut restored = Restored::default();
    for name in names {
        let path = file_of(directory, &name);
        match read(&path) {
            Ok(Some(kept)) => drop(restored.kept.insert(name, kept)),
            Ok(None) => {}
            Err(error) => {
                let path = path.display();
                restored.news.push(format!(
                    "what was in force of the source {name} cannot be used: {path}: {error}"
                ));
            }
        }
    }
    restored
}

/// Nothing where there is no such file.
fn read(path: &Path) -> io::Result<Option<Kept>> {
    let bytes = match regular_file::read(path, MAX_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let text = regular_file::text(bytes)?;
    let (digest, said) = text.split_once('\n').unwrap_or_default();
    let said = said.trim_end_matches('\n');
    if digest != hex(&sha256(said.as_bytes())) {
        return Err(io::Error::other("it is not as it was written: its digest does not fit"));
    }
    serde_json::from_str(said).map(Some).map_err(io::Error::other)
}

/// The names of sources have no slashes.
fn file_of(directory: &Path, source: &str) -> PathBuf {
    directory.join(format!("{source}.json"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut all, byte| {
        let _ = write!(all, "{byte:02x}");
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("titan-kept-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        folder.join(SOURCES)
    }

    fn kept() -> Kept {
        let texts = [("shop", "a", "routes: []"), ("other", "b", "routes: []")];
        let texts =
            texts.map(|(source, name, text)| (DocumentName::new(source, name), Arc::from(text)));
        Kept::new("17", Some(4711), "shop", &Texts::from(texts))
    }

    #[test]
    fn what_is_kept_is_read_again_by_its_owner_alone() {
        let folder = folder("again");
        write(&folder, "shop", Some(&kept())).unwrap();
        write(&folder, "shop", Some(&kept())).unwrap();
        let restored = read_all(&folder, vec!["shop".to_owned(), "new".to_owned()]);
        assert_eq!(restored.kept, BTreeMap::from([("shop".to_owned(), kept())]));
        assert_eq!(restored.texts().len(), 1);
        assert!(restored.news.is_empty(), "{:?}", restored.news);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("shop.json"))), (0o700, 0o600));
        write(&folder, "shop", None).unwrap();
        write(&folder, "shop", None).unwrap();
        assert!(read_all(&folder, vec!["shop".to_owned()]).kept.is_empty());
        fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_file_that_another_process_writes_is_left_alone() {
        let folder = folder("claimed");
        write(&folder, "shop", Some(&kept())).unwrap();
        let other = claim(&folder.join("shop.json.new")).unwrap();
        let refused = write(&folder, "shop", Some(&Kept::default())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        drop(other);
        let read_again = || read_all(&folder, vec!["shop".to_owned()]).kept.remove("shop");
        assert_eq!(read_again(), Some(kept()));
        // What it has left there is longer.
        fs::write(folder.join("shop.json.new"), [b'x'; 4_096]).unwrap();
        write(&folder, "shop", Some(&Kept::default())).unwrap();
        assert_eq!(read_again(), Some(Kept::default()));
        fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_was_changed_since_is_not_used() {
        let folder = folder("changed");
        write(&folder, "shop", Some(&kept())).unwrap();
        let path = folder.join("shop.json");
        let text = fs::read_to_string(&path).unwrap().replace("routes: []", "routes: {}");
        fs::write(&path, text).unwrap();
        let restored = read_all(&folder, vec!["shop".to_owned()]);
        assert!(restored.kept.is_empty());
        assert!(restored.news[0].contains("its digest does not fit"), "{:?}", restored.news);
        fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    }
}
