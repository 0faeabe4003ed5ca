//! One attempt to put a configuration in force, on a thread of its own.

use crate::config_file;
use crate::documents::{Documents, Origins, Parsed};
use crate::failure::Failure;
use crate::regular_file::FileState;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use titan_admin::orders::Document;
use titan_config::{Admin, Config};
use titan_proxy::{Loader, Revocations};

/// What is to be put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What the files contain that the configuration names.
    NamedFiles,
    /// What the file of the configuration says.
    File,
    /// What these documents say.
    Documents(Arc<[Document]>),
}

/// The configuration in force, and what the files that it names were like when they were read.
#[derive(Clone)]
pub(crate) struct InForce {
    /// What the gateway was started with, and paths start at the folder of which.
    pub(crate) file: PathBuf,
    pub(crate) config: Arc<Config>,
    pub(crate) documents: Documents,
    pub(crate) state: Vec<Option<FileState>>,
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
    pub(super) revoked: Option<Revocations>,
}

impl Attempts {
    /// Puts what is wanted in force, or says why that cannot be done.
    pub(super) fn make(&self, wanted: &Wanted, before: InForce) -> Result<InForce, Refused> {
        let name = wanted.name(&before.file);
        match wanted {
            Wanted::NamedFiles => self.read_again(before),
            Wanted::File => {
                let (origins, parsed) = read_file(&before.file);
                let loaded = parsed.and_then(|parsed| self.load(&name, parsed, before));
                let origins = Some(Box::new(origins));
                loaded.map_err(|failure| Refused { failure, state: None, origins })
            }
            Wanted::Documents(documents) => {
                let parsed = config_file::parse(documents, &before.file)?;
                Ok(self.load(&name, parsed, before)?)
            }
        }
    }

    fn read_again(&self, before: InForce) -> Result<InForce, Refused> {
        let state = config_file::state_of_named(&before.config, &before.file);
        let files = config_file::read_named(&before.config, &before.file);
        if let Some(bad) = files.unreadable() {
            // That may pass without a trace in the files.
            return Err(Failure::from(bad.clone()).into());
        }
        match self.loader.load(&before.config, &files, self.revoked.as_ref()) {
            Ok(()) => Ok(InForce { state, ..before }),
            Err(error) => Err(Refused { failure: error.into(), state: Some(state), origins: None }),
        }
    }

    fn load(&self, name: &str, parsed: Parsed, before: InForce) -> Result<InForce, Failure> {
        let Parsed { config, documents } = parsed;
        check_fixed(name, &config, &before.config)?;
        let state = config_file::state_of_named(&config, &before.file);
        let files = config_file::read_checked(&config, &before.file)?;
        self.loader.load(&config, &files, self.revoked.as_ref())?;
        Ok(InForce { config: Arc::new(config), documents, state, ..before })
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused { failure, state: None, origins: None }
    }
}

impl Wanted {
    /// What messages call what it is read from.
    pub(super) fn name(&self, file: &Path) -> String {
        match self {
            Wanted::NamedFiles | Wanted::File => config_file::name_of(file),
            Wanted::Documents(documents) => {
                documents.first().map_or_else(String::new, |document| document.name.clone())
            }
        }
    }
}

fn read_file(file: &Path) -> (Origins, Result<Parsed, Failure>) {
    if config_file::is_standard_input(file) {
        let text = "standard input cannot be read again: start from a file";
        return (Origins::default(), Err(Failure::BadInput(text.to_owned())));
    }
    config_file::read_whole(file)
}

/// Whether `config` has what cannot change in one process as `before` has it.
fn check_fixed(name: &str, config: &Config, before: &Config) -> Result<(), Failure> {
    let addresses = |config: &Config| {
        config.admin.as_ref().map(|Admin { address, probes, .. }| (address.clone(), probes.clone()))
    };
    let fixed = [
        ("admin", addresses(config) == addresses(before)),
        ("jwt_revocations", config.jwt_revocations == before.jwt_revocations),
        ("workers", config.workers == before.workers),
    ];
    match fixed.iter().find(|(_, is_same)| !is_same) {
        None => Ok(()),
        Some((key, _)) => Err(Failure::BadInput(format!(
            "{name}: `{key}` cannot change while the gateway runs: restart it"
        ))),
    }
}
