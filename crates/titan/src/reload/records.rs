//! The history of a gateway that runs, and what of it is not on the disk yet.

use super::attempts::{InForce, Past};
use super::pending::{self, Pending};
use super::storage::{PATIENCE, Storage};
use crate::documents::Documents;
use crate::kept;
use std::path::Path;
use std::time::{Duration, SystemTime};
use titan_admin::history::{
    Content, Directory, DirectoryError, Entry, EntryRef, Found, History, Origin, Outcome, Record,
    Said,
};
use titan_admin::orders::{self, NotApplied};
use titan_config::State;
use tokio::time::{Instant, timeout};

/// What was in force, in memory and in the state directory.
pub(crate) struct Records {
    history: History,
    storage: Option<Storage>,
    most: usize,
    /// What is done in the state directory: one thing at a time, for all that is not there by then.
    saving: Option<Pending<(), Saved>>,
    /// Why something is not on the disk.
    fault: Option<String>,
    /// What of that was said last.
    complaint: Option<String>,
    /// When it is tried again.
    retry: Instant,
}

/// What came of reading or writing.
pub(super) struct Saved {
    /// What the directory had, where it is ours from now on, or was not read yet.
    found: Option<Found>,
    /// What is on the disk now.
    written: Vec<(u64, Outcome)>,
    fault: Option<String>,
    /// Whether the fault is worth a word only if it lasts.
    is_passing: bool,
}

/// After how long a directory that could not be used is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// Our part of it.
const HISTORY: &str = "history";

impl Records {
    /// Those that `state` asks for, with what is there to say of what the directory has. A directory that cannot be used keeps
    /// nothing from starting; one that does not respond is read when it does.
    pub(crate) async fn open(state: &State, file: &Path) -> (Records, Vec<String>) {
        let most = usize::from(state.history.get());
        let path = kept::state_directory(state, file).map(|path| path.join(HISTORY));
        let storage = path.map(Storage::new);
        let found = storage.as_ref().map(|it| it.begin(move |directory| open(directory, most)));
        let mut records = Records {
            history: History::new(most),
            storage,
            most,
            saving: found.map(|found| Pending::new((), found, PATIENCE)),
            fault: None,
            complaint: None,
            retry: Instant::now(),
        };
        let news = match records.saving {
            Some(_) => timeout(PATIENCE, records.saved()).await.ok(),
            None => None,
        };
        let news = news.map(|saved| records.take(saved, Instant::now()));
        (records, news.unwrap_or_default())
    }

    /// Notes what has come into force now.
    pub(super) fn note(&mut self, origin: Origin, in_force: &InForce) {
        let Documents { texts, masked, public_digest, .. } = in_force.documents.clone();
        let said = Said { documents: texts, masked, sha256: public_digest };
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

    /// The same for later.
    pub(super) fn refer_to_in_force(&self) -> EntryRef {
        self.history.refer(self.in_force().id)
    }

    /// What was in force, to find entries in.
    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// The one to go back to without being told which.
    pub(super) fn before(&self) -> Option<u64> {
        self.history.before()
    }

    /// Where the configuration with that id is.
    fn past(&self, id: u64) -> Option<Past> {
        match self.history.content(id)? {
            Content::Whole(said) => Some(Past::Whole(said.documents)),
            Content::Stored => self.storage().map(|storage| Past::Stored(storage, id)),
        }
    }

    /// The same, or that there is none.
    pub(super) fn find(&self, id: u64) -> Result<Past, NotApplied> {
        self.past(id).ok_or_else(|| {
            let why = format!("the history has no configuration {id}: `titan history` lists them");
            NotApplied::NotFound(why)
        })
    }

    /// Two of them, the older one first: without it, the one before the newer one.
    pub(super) fn pair(
        &self,
        id: u64,
        against: Option<u64>,
    ) -> Result<[(u64, Past); 2], NotApplied> {
        let new = (id, self.find(id)?);
        let old = against.or_else(|| self.history.before_id(id)).ok_or_else(|| {
            NotApplied::NotFound(format!("the history has nothing before configuration {id}"))
        })?;
        Ok([(old, self.find(old)?), new])
    }

    /// Where they are kept on the disk.
    pub(super) fn storage(&self) -> Option<Storage> {
        self.storage.clone()
    }

    /// What whoever asks is told.
    pub(super) fn told(&self) -> orders::History {
        let in_memory = "the history is in memory only: set `state.directory` to keep it";
        let notes = match (&self.storage, &self.fault) {
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
        self.storage.as_ref().map_or(0, |_| self.history.unsaved().len())
    }

    /// Whether it is known what became of that entry: it is on the disk, or that takes too long, or has failed.
    pub(super) fn is_certain(&self, entry: EntryRef) -> bool {
        self.saving.as_ref().is_none_or(Pending::is_late) || !self.history.is_unsaved(entry)
    }

    /// Begins to write what is not on the disk, where nothing is done there; after a fault only when it is time.
    pub(super) fn save(&mut self, now: Instant) {
        let (Some(storage), None) = (&self.storage, &self.saving) else { return };
        let (unsaved, kept) = (self.history.unsaved(), (self.most, self.history.ids()));
        if unsaved.is_empty() || self.fault.is_some() && now < self.retry {
            return;
        }
        let saved = storage.begin(move |directory| save(directory, &unsaved, &kept));
        self.saving = Some(Pending::new((), saved, PATIENCE));
    }

    /// The next one at once: somebody waits for it.
    pub(super) fn hurry(&mut self) {
        self.retry = Instant::now();
    }

    /// Waits for what is done in the state directory, for ever where that is nothing.
    pub(super) async fn saved(&mut self) -> Saved {
        let ((), saved) = pending::ended(&mut self.saving).await;
        saved.unwrap_or_else(Saved::nothing)
    }

    /// When it will have taken too long.
    pub(super) fn late_at(&self) -> Option<Instant> {
        self.saving.as_ref().and_then(Pending::late_at)
    }

    /// Notes that it takes too long, where it does; returns what there is to say, once.
    pub(super) fn note_late(&mut self, now: Instant) -> Option<String> {
        self.saving.as_mut()?.becomes_late(now).then_some(())?;
        let silence = self.storage.as_ref().map(Storage::silence);
        self.fault = silence.map(|silence| format!("{silence}: the history waits in memory"));
        self.complaint.clone_from(&self.fault);
        self.fault.clone()
    }

    /// Notes what came of it; returns what there is to say.
    pub(super) fn take(&mut self, saved: Saved, now: Instant) -> Vec<String> {
        let Saved { found, written, fault, is_passing } = saved;
        let mut news = Vec::new();
        if let Some(Found { entries, warnings }) = found {
            news = warnings;
            self.history.take_in(Found { entries, warnings: Vec::new() });
        }
        written.into_iter().for_each(|(id, outcome)| self.history.note_saved(id, outcome));
        if fault.is_some() {
            self.retry = now + RETRY;
        }
        let complaint = fault.clone().filter(|_| !is_passing);
        if complaint != self.complaint {
            news.extend(complaint.clone());
        }
        (self.complaint, self.fault) = (complaint, fault);
        news
    }
}

impl Saved {
    /// There was nobody who could do anything.
    fn nothing() -> Saved {
        let fault = "the history cannot be written: its thread has ended".to_owned();
        Saved { fault: Some(fault), ..Saved::done() }
    }

    /// There is nothing to tell.
    fn done() -> Saved {
        Saved { found: None, written: Vec::new(), fault: None, is_passing: false }
    }
}

/// Has the directory for this process, if that is possible, and reads what it has in any case.
fn open(directory: &mut Directory, most: usize) -> Saved {
    match directory.acquire(most) {
        Ok(found) => Saved { found, ..Saved::done() },
        Err(error) => Saved {
            // What another process writes can be read nevertheless.
            found: directory.read(most).ok(),
            // A predecessor has it until its drain begins.
            is_passing: matches!(error, DirectoryError::InUse(_)),
            fault: Some(error.to_string()),
            ..Saved::done()
        },
    }
}

/// Writes these entries, and removes what is too much. A directory that was another process's until now is only read: what
/// it has comes before these.
fn save(directory: &mut Directory, unsaved: &[Record], (most, kept): &(usize, Vec<u64>)) -> Saved {
    let mut saved = Saved::done();
    match directory.acquire(*most) {
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
    Saved { fault: directory.prune(*most, kept).err().map(|fault| fault.to_string()), ..saved }
}
