//! One attempt to put a configuration in force, on a thread of its own.

use super::figures::Moment;
use super::storage::Storage;
use crate::config_file;
use crate::delivered::Texts;
use crate::documents::{Documents, Origins, Parsed};
use crate::failure::Failure;
use crate::fit::Held;
use crate::greeting;
use crate::regular_file::FileState;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use titan_admin::history::{EntryRef, History, Place, Stored};
use titan_admin::orders::Document;
use titan_admin::{Access, Cause, Subject};
use titan_config::{Admin, Config};
use titan_proxy::{BadCredentials, Files, Loader, Revocations};
use titan_sources::source::Source;

/// What is to be put in force.
#[derive(Clone)]
pub(super) enum Wanted {
    /// What the files contain that the configuration names.
    NamedFiles,
    /// What the file of the configuration says.
    File,
    /// What these documents say.
    Documents(Arc<[Document]>),
    /// What was in force before.
    Past(EntryRef, Past),
    /// What was in force before a trial.
    Before(Box<Before>),
    /// What of these documents of sources fits.
    Delivered(Arc<Texts>),
}

/// What was in force before a trial.
#[derive(Clone)]
pub(super) struct Former {
    pub(super) in_force: InForce,
    /// Its entry in the history.
    pub(super) entry: EntryRef,
    /// So that it comes back as it was: with the counts of its limits and the keys of its tokens, whether their servers can be reached
    /// by then or not.
    pub(super) _held: Option<titan_proxy::Held>,
    /// When the trial began.
    pub(super) since: Moment,
}

/// What was in force before a trial, and why it comes back.
#[derive(Clone)]
pub(super) struct Before {
    pub(super) former: Former,
    pub(super) cause: Cause,
    pub(super) why: String,
    /// What was said when this was tried before, and failed.
    pub(super) complaint: String,
}

/// Where a configuration of the past is.
#[derive(Clone)]
pub(super) enum Past {
    /// In memory.
    Whole(Arc<[Document]>),
    /// In the state directory, where it has that id for good.
    Stored(Storage, u64),
}

impl Past {
    /// What it said.
    pub(super) fn read(&self) -> Result<Arc<[Document]>, Failure> {
        match self {
            Past::Whole(documents) => Ok(Arc::clone(documents)),
            Past::Stored(storage, id) => Ok(read_stored(storage, *id)?.into()),
        }
    }
}

/// The configuration in force, and what the files that it names were like when they were read.
#[derive(Clone)]
pub(crate) struct InForce {
    /// What the gateway was started with, and paths start at the folder of which.
    pub(crate) file: PathBuf,
    pub(crate) config: Arc<Config>,
    pub(crate) documents: Documents,
    pub(crate) state: Vec<Option<FileState>>,
    /// Whether the file says the same.
    pub(crate) is_in_file: bool,
}

/// A change that is in force.
pub(super) struct Made {
    pub(super) in_force: InForce,
    /// The listeners that are new, a line for each as at the start.
    pub(super) listening: Vec<String>,
    /// The sources to ask from now on; nothing where all is in force as it was.
    pub(super) sources: Option<Vec<Source>>,
    /// Where it is about what sources have delivered, what of that is held back.
    pub(super) held_back: Option<Held>,
}

/// Why a change was refused.
pub(super) struct Refused {
    pub(super) failure: Failure,
    /// What the named files were like, where only another change of them can help.
    pub(super) state: Option<Vec<Option<FileState>>>,
    /// What was looked at for the configuration, where that was read.
    pub(super) origins: Option<Box<Origins>>,
}

/// What attempts are made with.
#[derive(Clone)]
pub(super) struct Attempts {
    pub(super) loader: Loader,
    pub(super) access: Access,
    pub(super) revoked: Option<Revocations>,
}

impl Attempts {
    /// Puts what is wanted in force, or says why that cannot be done. Messages call it by that name.
    pub(super) fn make(
        &self,
        (name, wanted): (&str, &Wanted),
        before: InForce,
    ) -> Result<Made, Refused> {
        let parsed = match wanted {
            Wanted::NamedFiles => return self.read_again(before),
            Wanted::Delivered(texts) => return self.deliver(name, texts, &before),
            Wanted::File => {
                let (origins, parsed) = read_file(&before.file, &before.documents.delivered());
                let loaded = parsed.and_then(|parsed| self.load(name, parsed, before));
                let origins = Some(Box::new(origins));
                return loaded.map_err(|failure| Refused { failure, state: None, origins });
            }
            Wanted::Documents(documents) => {
                config_file::parse(documents, &before.file, &before.documents.delivered())?
            }
            Wanted::Past(_, past) => config_file::parse_past(&past.read()?, &before.file)?,
            Wanted::Before(then) => {
                let then = then.former.in_force.clone();
                // The files that it names may be others by now.
                let state = config_file::state_of_named(&then.config, &then.file);
                let files = config_file::read_checked(&then.config, &then.file)?;
                return Ok(self.put_in_force(InForce { state, ..then }, &files)?);
            }
        };
        let is_in_file = is_in_file(&parsed.documents, &before.file);
        let made = self.load(name, parsed, before)?;
        Ok(Made { in_force: InForce { is_in_file, ..made.in_force }, ..made })
    }

    fn read_again(&self, before: InForce) -> Result<Made, Refused> {
        let state = config_file::state_of_named(&before.config, &before.file);
        let files = config_file::read_named(&before.config, &before.file);
        if let Some(bad) = files.unreadable() {
            // That may pass without a trace in the files.
            return Err(Failure::from(bad.clone()).masked(&before.config).into());
        }
        self.put_in_force(InForce { state: state.clone(), ..before }, &files)
            .map_err(|failure| Refused { failure, state: Some(state), origins: None })
    }

    pub(super) fn load(
        &self,
        name: &str,
        parsed: Parsed,
        before: InForce,
    ) -> Result<Made, Failure> {
        let Parsed { config, documents } = parsed;
        check_fixed(name, &config, &before.config)?;
        let state = config_file::state_of_named(&config, &before.file);
        let files = config_file::read_checked(&config, &before.file)?;
        let config = Arc::new(config);
        self.put_in_force(InForce { config, documents, state, is_in_file: true, ..before }, &files)
    }

    /// First everything that can fail, then everything that cannot.
    fn put_in_force(&self, in_force: InForce, files: &Files) -> Result<Made, Failure> {
        let config = &in_force.config;
        let failed = |failure: Failure| failure.masked(config);
        let access = Access::prepare(config, files).map_err(|bad| failed(bad.into()))?;
        let sources = sources_of(config, files).map_err(|bad| failed(bad.into()))?;
        let loaded = self.loader.load(config, files, self.revoked.as_ref());
        let added = loaded.map_err(|error| failed(error.into()))?;
        self.access.replace(access);
        let added = added.iter();
        let listening =
            added.map(|(index, bound)| greeting::listening(bound, &config.listeners[*index]));
        let listening = listening.collect();
        Ok(Made { in_force, listening, sources: Some(sources), held_back: None })
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused { failure, state: None, origins: None }
    }
}

impl Wanted {
    /// What metrics call it.
    pub(super) fn subject(&self) -> Subject {
        match self {
            Wanted::NamedFiles => Subject::Files,
            Wanted::File
            | Wanted::Documents(_)
            | Wanted::Past(..)
            | Wanted::Before(_)
            | Wanted::Delivered(_) => Subject::Configuration,
        }
    }

    /// What messages call what it is read from.
    pub(super) fn name(&self, file: &Path, history: &History) -> String {
        match self {
            Wanted::NamedFiles | Wanted::File | Wanted::Delivered(_) => config_file::name_of(file),
            Wanted::Documents(documents) => {
                documents.first().map_or_else(String::new, |document| document.name.clone())
            }
            Wanted::Past(entry, _) => format!("configuration {}", history.id(*entry)),
            Wanted::Before(before) => format!("configuration {}", history.id(before.former.entry)),
        }
    }
}

/// The sources of a configuration.
pub(crate) fn sources_of(config: &Config, files: &Files) -> Result<Vec<Source>, BadCredentials> {
    config.sources.iter().map(|it| Source::new(it, &config.resolver, files)).collect()
}

/// Whether a reload of the file would put the same in force.
fn is_in_file(documents: &Documents, file: &Path) -> bool {
    let read = || config_file::read_with(file, &documents.delivered()).1;
    !config_file::is_standard_input(file)
        && read().is_ok_and(|parsed| parsed.documents.digest == documents.digest)
}

/// What the state directory has, where nothing was left out of it.
fn read_stored(storage: &Storage, id: u64) -> Result<Vec<Document>, Failure> {
    let Stored { documents, secrets } = storage.load(id).map_err(Failure::Runtime)?;
    if secrets.is_empty() {
        return Ok(documents);
    }
    let places: Vec<String> = secrets.iter().take(SHOWN).map(Place::to_string).collect();
    let more = if secrets.len() > SHOWN { " and others" } else { "" };
    Err(Failure::BadInput(format!(
        "configuration {id} was in force before this process started, and the history has no secrets: {}{more} was left \
            out. `${{file:PATH}}` keeps secrets out of the configuration",
        places.join(", ")
    )))
}

/// How many secrets a message names.
const SHOWN: usize = 3;

fn read_file(file: &Path, delivered: &Texts) -> (Origins, Result<Parsed, Failure>) {
    if config_file::is_standard_input(file) {
        let text = "standard input cannot be read again: start from a file";
        return (Origins::default(), Err(Failure::BadInput(text.to_owned())));
    }
    config_file::read_with(file, delivered)
}

/// Whether `config` has what cannot change in one process as `before` has it.
fn check_fixed(name: &str, config: &Config, before: &Config) -> Result<(), Failure> {
    let [admin, admin_before] = [config, before].map(|it| it.admin.as_ref());
    let is_same = |same: fn(&Admin, &Admin) -> bool| {
        admin.zip(admin_before).is_none_or(|(admin, before)| same(admin, before))
    };
    let fixed = [
        ("admin", admin.is_some() == admin_before.is_some()),
        ("admin.address", is_same(|admin, before| admin.address == before.address)),
        ("admin.socket", is_same(|admin, before| admin.socket == before.socket)),
        ("admin.probes", is_same(|admin, before| admin.probes == before.probes)),
        ("jwt_revocations", config.jwt_revocations == before.jwt_revocations),
        ("state", config.state == before.state),
        ("workers", config.workers == before.workers),
    ];
    match fixed.iter().find(|(_, is_same)| !is_same) {
        None => Ok(()),
        Some((key, _)) => Err(Failure::BadInput(format!(
            "{name}: `{key}` cannot change while the gateway runs: restart it"
        ))),
    }
}
