//! The history of a gateway that runs, and what of it is not on the disk yet.

use super::attempts::{InForce, Past, Shared};
use crate::config_file;
use crate::documents::Documents;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use titan_admin::history::{
    Content, Directory, DirectoryError, Entry, Found, History, Origin, Outcome, Record, Said,
};
use titan_admin::orders;
use titan_config::State;

/// What was in force, in memory and in the state directory.
pub(crate) struct Records {
    history: History,
    directory: Option<Shared>,
    most: usize,
    /// Why something is not on the disk.
    fault: Option<String>,
    /// What of that was said last.
    complaint: Option<String>,
    /// When it is tried again.
    retry: Instant,
}

/// What came of writing.
pub(super) struct Saved {
    /// What the directory had, where it is ours from now on.
    found: Option<Found>,
    /// What is on the disk now.
    written: Vec<(u64, Outcome)>,
    fault: Option<String>,
}

/// After how long a directory that could not be used is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// Where systemd says that the state of a service belongs (systemd.exec(5), `StateDirectory=`).
const STATE_DIRECTORY: &str = "STATE_DIRECTORY";
/// Our part of it.
const HISTORY: &str = "history";

impl Records {
    /// Those that `state` asks for, with what is there to say of what the directory has. A directory that cannot be used keeps
    /// nothing from starting.
    pub(crate) fn open(state: &State, file: &Path) -> (Records, Vec<String>) {
        let State { directory, history } = state;
        let most = usize::from(history.get());
        let named = directory.as_ref().map(|named| config_file::beside(file, named));
        let path = named.or_else(default_directory).map(|path| path.join(HISTORY));
        let mut records = Records {
            history: History::new(most),
            directory: None,
            most,
            fault: None,
            complaint: None,
            retry: Instant::now(),
        };
        let Some(path) = path else { return (records, Vec::new()) };
        let mut directory = Directory::new(path);
        let found = match directory.acquire(most) {
            Ok(found) => found,
            Err(error) => {
                records.fault = Some(error.to_string());
                // A predecessor has it until its drain begins: worth a word only if that takes long.
                let is_passing = matches!(error, DirectoryError::InUse(_));
                records.complaint = records.fault.clone().filter(|_| !is_passing);
                records.retry = Instant::now() + RETRY;
                // What another process writes can be read nevertheless.
                directory.read(most).ok()
            }
        };
        let Found { entries, mut warnings } = found.unwrap_or_default();
        records.history.take_in(Found { entries, warnings: Vec::new() });
        warnings.extend(records.complaint.clone());
        records.directory = Some(Arc::new(Mutex::new(directory)));
        (records, warnings)
    }

    /// Notes what has come into force now.
    pub(super) fn note(&mut self, origin: Origin, in_force: &InForce) {
        let Documents { texts, masked, digest, origins: _ } = in_force.documents.clone();
        let said = Said { documents: texts, masked, sha256: digest };
        self.history.note(origin, said, SystemTime::now());
    }

    /// Notes what became of the configuration in force.
    pub(super) fn settle(&mut self, outcome: Outcome, why: Option<&str>) {
        if let Some(id) = self.history.in_force().map(|entry| entry.id) {
            self.history.settle(id, outcome, why);
        }
    }

    /// The entry of the configuration in force.
    pub(super) fn in_force(&self) -> Entry {
        let entry = self.history.in_force().cloned();
        entry.expect("the start is noted before anything else")
    }

    /// The one to go back to without being told which.
    pub(super) fn before(&self) -> Option<u64> {
        self.history.before()
    }

    /// Where the configuration with that id is.
    pub(super) fn past(&self, id: u64) -> Option<Past> {
        match self.history.content(id)? {
            Content::Whole(said) => Some(Past::Whole(said.documents)),
            Content::Stored => self.directory.clone().map(Past::Stored),
        }
    }

    /// Where they are kept on the disk.
    pub(super) fn directory(&self) -> Option<Shared> {
        self.directory.clone()
    }

    /// What whoever asks is told.
    pub(super) fn told(&self) -> orders::History {
        let in_memory = "the history is in memory only: set `state.directory` to keep it";
        let notes = match (&self.directory, &self.fault) {
            (None, _) => vec![in_memory.to_owned()],
            (Some(_), fault) => fault.iter().cloned().collect(),
        };
        orders::History { entries: self.history.entries().cloned().collect(), notes }
    }

    /// Why the latest is not on the disk, where it was to be.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// How many entries should be on the disk and are not.
    pub(super) fn unsaved(&self) -> usize {
        self.directory.as_ref().map_or(0, |_| self.history.unsaved().len())
    }

    /// What has to be done, on another thread, to have all of it on the disk; after a fault only when it is `now` time.
    pub(super) fn job(&self, now: Instant) -> Option<impl FnOnce() -> Saved + Send + use<>> {
        let directory = self.directory.clone()?;
        let unsaved = self.history.unsaved();
        if unsaved.is_empty() || self.fault.is_some() && now < self.retry {
            return None;
        }
        let most = self.most;
        Some(move || save(&directory, &unsaved, most))
    }

    /// The same at once: somebody waits for it.
    pub(super) fn hurry(&mut self) {
        self.retry = Instant::now();
    }

    /// Notes what came of it; returns what there is to say.
    pub(super) fn take(&mut self, saved: Saved, now: Instant) -> Vec<String> {
        let Saved { found, written, fault } = saved;
        let mut news = Vec::new();
        if let Some(Found { entries, warnings }) = found {
            news = warnings;
            self.history.take_in(Found { entries, warnings: Vec::new() });
        }
        written.into_iter().for_each(|(id, outcome)| self.history.note_saved(id, outcome));
        if fault.is_some() {
            self.retry = now + RETRY;
        }
        if fault != self.complaint {
            news.extend(fault.clone());
        }
        self.complaint.clone_from(&fault);
        self.fault = fault;
        news
    }
}

impl Saved {
    /// Nothing was written, for that reason.
    pub(super) fn nothing(why: &str) -> Saved {
        let fault = Some(format!("the history cannot be written: {why}"));
        Saved { found: None, written: Vec::new(), fault }
    }
}

/// Writes these entries, and removes what is too much. A directory that was another process's until now is only read: what
/// it has comes before these.
fn save(directory: &Shared, unsaved: &[Record], most: usize) -> Saved {
    let mut directory = directory.lock().unwrap_or_else(PoisonError::into_inner);
    let mut saved = Saved { found: None, written: Vec::new(), fault: None };
    match directory.acquire(most) {
        Ok(None) => {}
        Ok(found) => return Saved { found, ..saved },
        Err(fault) => return Saved { fault: Some(fault.to_string()), ..saved },
    }
    for record in unsaved {
        match directory.save(record) {
            Ok(()) => saved.written.push((record.entry.id, record.entry.outcome)),
            Err(fault) => return Saved { fault: Some(fault.to_string()), ..saved },
        }
    }
    Saved { fault: directory.prune(most).err().map(|fault| fault.to_string()), ..saved }
}

/// The first of those that systemd has made for the service.
fn default_directory() -> Option<PathBuf> {
    let directories = std::env::var_os(STATE_DIRECTORY)?;
    std::env::split_paths(&directories).next().filter(|path| path.is_absolute())
}
