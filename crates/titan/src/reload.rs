//! Another configuration for a gateway that runs.
//!
//! Reading, checking and building it takes a thread of its own, so that signals do not wait with it. One attempt runs
//! at a time; of those that are asked for meanwhile the last one is made.

use crate::config_file::{self, FileState};
use crate::failure::Failure;
use crate::terminal;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;
use titan_admin::Reloads;
use titan_config::{Admin, Config};
use titan_proxy::{Loader, Revocations};
use tokio::sync::oneshot;

/// What is to be put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// What the files contain that the configuration names.
    NamedFiles,
    /// What the file of the configuration says.
    File,
}

/// The configuration in force, and what the files that it names were like when they were read.
#[derive(Clone)]
pub(crate) struct InForce {
    pub(crate) file: PathBuf,
    pub(crate) config: Arc<Config>,
    /// The SHA-256 of its file.
    pub(crate) digest: [u8; 32],
    pub(crate) state: Vec<Option<FileState>>,
}

/// Puts other configurations in force while the gateway runs.
pub(crate) struct Reloading {
    in_force: InForce,
    attempts: Attempts,
    running: Option<(Change, oneshot::Receiver<Result<InForce, Refused>>)>,
    next: Option<Change>,
    /// What the named files were like that could not be used: they are not tried again until they change.
    unusable: Option<Vec<Option<FileState>>>,
    /// What its file was like, where that is watched.
    watched: Option<Watched>,
    /// What was complained about last.
    complaint: String,
    reloads: Arc<Reloads>,
}

/// What a file is like that is watched.
struct Watched {
    /// When it was read last, or was to be.
    read: Option<FileState>,
    /// At the last look.
    seen: Option<FileState>,
}

/// Why a change was refused.
struct Refused {
    failure: Failure,
    /// What the named files were like, where only another change of them can help.
    state: Option<Vec<Option<FileState>>>,
}

/// What attempts are made with.
#[derive(Clone)]
struct Attempts {
    loader: Loader,
    revoked: Option<Revocations>,
}

impl Reloading {
    /// Nothing but `in_force` was asked for yet.
    pub(crate) fn new(
        in_force: InForce,
        loader: Loader,
        revoked: Option<Revocations>,
        reloads: Arc<Reloads>,
    ) -> Reloading {
        let (attempts, complaint) = (Attempts { loader, revoked }, String::new());
        Reloading {
            in_force,
            attempts,
            running: None,
            next: None,
            unusable: None,
            watched: None,
            complaint,
            reloads,
        }
    }

    /// Watches the file of the configuration too, which was like that when it was read.
    pub(crate) fn watching(self, read: Option<FileState>) -> Reloading {
        Reloading { watched: Some(Watched { seen: read.clone(), read }), ..self }
    }

    /// Puts files in force that have changed.
    pub(crate) fn look(&mut self) {
        if self.running.is_some() {
            return;
        }
        let now = config_file::state_of(&self.in_force.file);
        if self.watched.as_mut().is_some_and(|watched| watched.has_changed(now)) {
            return self.ask_for(Change::File);
        }
        let InForce { file, config, state, .. } = &self.in_force;
        let now = config_file::state_of_named(config, file);
        if now != *state && self.unusable.as_ref() != Some(&now) {
            self.ask_for(Change::NamedFiles);
        }
    }

    /// Begins to put that in force, or does so when what runs is over.
    pub(crate) fn ask_for(&mut self, change: Change) {
        if self.running.is_some() {
            self.next = self.next.max(Some(change));
            return;
        }
        let (done, outcome) = oneshot::channel();
        let (attempts, before) = (self.attempts.clone(), self.in_force.clone());
        let attempt = move || {
            // Where nobody waits any more the program is about to end.
            let _ = done.send(attempts.make(change, before));
        };
        match thread::Builder::new().name("reload".to_owned()).spawn(attempt) {
            Ok(_) => self.running = Some((change, outcome)),
            Err(error) => self.tell(change, Err(Failure::from(error).into())),
        }
    }

    /// Waits for the attempt that runs, and tells of it.
    async fn done(&mut self) {
        let Some((change, outcome)) = &mut self.running else { return pending().await };
        let (change, outcome) = (*change, outcome.await);
        self.running = None;
        let panicked = |_| Err(Failure::Runtime("the reload thread panicked".to_owned()).into());
        self.tell(change, outcome.unwrap_or_else(panicked));
        if let Some(next) = self.next.take() {
            self.ask_for(next);
        }
    }

    fn tell(&mut self, change: Change, outcome: Result<InForce, Refused>) {
        match outcome {
            Ok(in_force) => self.tell_applied(change, in_force),
            Err(Refused { failure, state }) => {
                self.unusable = state;
                self.tell_refused(change, &failure);
            }
        }
    }

    fn tell_applied(&mut self, change: Change, in_force: InForce) {
        self.reloads.note_applied(in_force.digest, SystemTime::now());
        self.complaint.clear();
        let file = config_file::name_of(&in_force.file);
        match change {
            Change::NamedFiles => terminal::say("changed files were read again and are in use\n"),
            Change::File => {
                terminal::warn(&in_force.config.warnings);
                terminal::say(&format!("{file} was read again and is in force\n"));
            }
        }
        (self.in_force, self.unusable) = (in_force, None);
    }

    /// Says it once for files that are as they were: half of a pair may have been written, and they are tried again.
    fn tell_refused(&mut self, change: Change, failure: &Failure) {
        let text = failure.text(terminal::has_color());
        let complaint = match change {
            Change::NamedFiles => {
                let text = text.replacen("error", "warning", 1);
                format!("{}; the previous files stay in use\n", text.trim_end())
            }
            Change::File => format!("{text}the previous configuration stays in force\n"),
        };
        let is_known = change == Change::NamedFiles && complaint == self.complaint;
        if !is_known {
            self.reloads.note_refused(SystemTime::now());
            terminal::complain(&complaint);
            self.complaint = complaint;
        }
    }
}

impl Watched {
    /// Whether there is something to read that was not read yet. A file that was another one at the last look may still be
    /// written; one that is not there will come back.
    fn has_changed(&mut self, now: Option<FileState>) -> bool {
        let is_settled = now == self.seen;
        self.seen.clone_from(&now);
        let has_changed = is_settled && now.is_some() && now != self.read;
        if has_changed {
            self.read = now;
        }
        has_changed
    }
}

/// Waits until an attempt is over, for ever where none runs.
pub(crate) async fn done(reloading: &mut Option<Reloading>) {
    match reloading {
        Some(reloading) => reloading.done().await,
        None => pending().await,
    }
}

impl Attempts {
    /// Puts a change in force, or says why that cannot be done.
    fn make(&self, change: Change, before: InForce) -> Result<InForce, Refused> {
        match change {
            Change::NamedFiles => self.read_again(before),
            Change::File => Ok(self.read_all(before)?),
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
            Err(error) => Err(Refused { failure: error.into(), state: Some(state) }),
        }
    }

    fn read_all(&self, before: InForce) -> Result<InForce, Failure> {
        if config_file::is_standard_input(&before.file) {
            let text = "standard input cannot be read again: start from a file";
            return Err(Failure::BadInput(text.to_owned()));
        }
        let (config, digest) = config_file::read_with_digest(&before.file)?;
        check_fixed(&before.file, &config, &before.config)?;
        let state = config_file::state_of_named(&config, &before.file);
        let files = config_file::read_checked(&config, &before.file)?;
        self.loader.load(&config, &files, self.revoked.as_ref())?;
        Ok(InForce { config: Arc::new(config), digest, state, ..before })
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused { failure, state: None }
    }
}

/// Whether `config` has what cannot change in one process as `before` has it.
fn check_fixed(file: &Path, config: &Config, before: &Config) -> Result<(), Failure> {
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
            "{}: `{key}` cannot change while the gateway runs: restart it",
            config_file::name_of(file)
        ))),
    }
}
