//! Another configuration for a gateway that runs.
//!
//! Signals, the file that is watched and orders from the admin interface all become a [`Request`] here. Reading, checking
//! and building takes a thread of its own, so that signals do not wait with it. One attempt runs at a time; of those that
//! are asked for meanwhile the last one is made.

mod attempts;
mod request;
mod watched;

pub(crate) use attempts::InForce;

use crate::check;
use crate::config_file;
use crate::documents::Origins;
use crate::failure::Failure;
use crate::regular_file::FileState;
use crate::terminal;
use attempts::{Attempts, Refused, Wanted};
use request::{Outcome, Request};
use std::future::pending;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;
use titan_admin::Reloads;
use titan_admin::history::{Author, Entry, Source};
use titan_admin::orders::{self, Applied, Change, Document, Findings, NotApplied, Order};
use titan_config::{Config, Masked};
use titan_proxy::{Loader, Revocations};
use tokio::sync::oneshot;
use watched::Watched;

/// Puts other configurations in force while the gateway runs.
pub(crate) struct Reloading {
    in_force: InForce,
    /// The entry of what is in force.
    entry: Entry,
    attempts: Attempts,
    running: Option<(Request, oneshot::Receiver<Result<InForce, Refused>>)>,
    next: Option<Request>,
    /// What the named files were like that could not be used: they are not tried again until they change.
    unusable: Option<Vec<Option<FileState>>>,
    /// What its file was like, where that is watched.
    watched: Option<Watched>,
    /// What was complained about last.
    complaint: String,
    reloads: Arc<Reloads>,
}

impl Reloading {
    /// Nothing but `in_force` was asked for yet.
    pub(crate) fn new(
        in_force: InForce,
        loader: Loader,
        revoked: Option<Revocations>,
        reloads: Arc<Reloads>,
    ) -> Reloading {
        let entry = entry(1, &in_force, Source::Start, None);
        Reloading {
            in_force,
            entry,
            attempts: Attempts { loader, revoked },
            running: None,
            next: None,
            unusable: None,
            watched: None,
            complaint: String::new(),
            reloads,
        }
    }

    /// Watches the files of the configuration too.
    pub(crate) fn watching(self) -> Reloading {
        let watched = Watched::new(self.in_force.documents.origins.clone());
        Reloading { watched: Some(watched), ..self }
    }

    /// Puts files in force that have changed.
    pub(crate) fn look(&mut self) {
        if self.running.is_some() {
            return;
        }
        if self.watched.as_mut().is_some_and(Watched::has_changed) {
            return self.ask_for(Request::quiet(Wanted::File, Author::Watch));
        }
        let InForce { file, config, state, .. } = &self.in_force;
        let now = config_file::state_of_named(config, file);
        if now != *state && self.unusable.as_ref() != Some(&now) {
            self.ask_for(Request::quiet(Wanted::NamedFiles, Author::Watch));
        }
    }

    /// Reads the file again, as a signal has asked for.
    pub(crate) fn hang_up(&mut self) {
        self.ask_for(Request::quiet(Wanted::File, Author::Signal));
    }

    /// Whether something was asked for and is not in force yet.
    pub(crate) fn is_under_way(&self) -> bool {
        self.running.is_some()
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> &Config {
        &self.in_force.config
    }

    /// Does what is ordered, or begins to.
    fn take(&mut self, order: Order) {
        match order {
            Order::Change { change, author, done } => self.change(change, author, done),
            Order::Confirm { author: _, done } => {
                let why = "no configuration waits to be confirmed".to_owned();
                let _ = done.send(Err(NotApplied::Conflict(why)));
            }
            // Where nobody waits any more nothing is to be shown.
            Order::InForce(shown) => drop(shown.send(self.shown())),
            Order::History(told) => {
                let entries = vec![self.entry.clone()];
                let _ = told.send(orders::History { entries, notes: Vec::new() });
            }
        }
    }

    fn change(&mut self, change: Change, author: Author, done: oneshot::Sender<Outcome>) {
        let wanted = match change {
            Change::Reload => Wanted::File,
            Change::Apply { documents, safeguards: _ } => Wanted::Documents(documents.into()),
            Change::Rollback(_) => {
                let why = "there is no earlier configuration".to_owned();
                drop(done.send(Err(NotApplied::NotFound(why))));
                return;
            }
        };
        self.ask_for(Request { wanted, author, done: Some(done) });
    }

    fn shown(&self) -> orders::InForce {
        let InForce { config, documents, .. } = &self.in_force;
        let masked = |(document, masked): (&Document, &Masked)| Document {
            name: document.name.clone(),
            text: masked.text.clone(),
        };
        orders::InForce {
            entry: self.entry.clone(),
            documents: documents.texts.iter().zip(&*documents.masked).map(masked).collect(),
            summary: config.mask(config.summary().to_string()),
            confirm_until: None,
        }
    }

    /// Begins to put that in force, or does so when what runs is over.
    fn ask_for(&mut self, request: Request) {
        if self.running.is_some() {
            if let Some(superseded) = self.next.replace(request) {
                superseded.refuse(NotApplied::Superseded);
            }
            return;
        }
        let (done, outcome) = oneshot::channel();
        let (attempts, before) = (self.attempts.clone(), self.in_force.clone());
        let wanted = request.wanted.clone();
        let attempt = move || {
            // Where nobody waits any more the program is about to end.
            let _ = done.send(attempts.make(&wanted, before));
        };
        match thread::Builder::new().name("reload".to_owned()).spawn(attempt) {
            Ok(_) => self.running = Some((request, outcome)),
            Err(error) => self.tell(request, Err(Failure::from(error))),
        }
    }

    /// Waits for the attempt that runs, and tells of it.
    async fn done(&mut self) {
        let Some((_, outcome)) = &mut self.running else { return pending().await };
        let outcome = outcome.await;
        let Some((request, _)) = self.running.take() else { return };
        match outcome {
            Ok(Ok(in_force)) => {
                self.note_read(&request.wanted, Some(&in_force.documents.origins));
                self.tell(request, Ok(in_force));
            }
            Ok(Err(Refused { failure, state, origins })) => {
                self.note_read(&request.wanted, origins.as_deref());
                self.unusable = state;
                self.tell(request, Err(failure));
            }
            Err(_) => {
                let failure = Failure::Runtime("the reload thread panicked".to_owned());
                self.tell(request, Err(failure));
            }
        }
        if let Some(next) = self.next.take() {
            self.ask_for(next);
        }
    }

    /// Watches what was looked at for the file from now on, where that is watched.
    fn note_read(&mut self, wanted: &Wanted, origins: Option<&Origins>) {
        if let (Wanted::File, Some(watched), Some(origins)) = (wanted, &mut self.watched, origins) {
            *watched = Watched::new(origins.clone());
        }
    }

    fn tell(&mut self, request: Request, outcome: Result<InForce, Failure>) {
        match outcome {
            Ok(in_force) => self.tell_applied(request, in_force),
            Err(failure) => self.tell_refused(request, &failure),
        }
    }

    fn tell_applied(&mut self, request: Request, in_force: InForce) {
        self.reloads.note_applied(in_force.documents.digest, SystemTime::now());
        self.complaint.clear();
        let file = config_file::name_of(&in_force.file);
        match &request.wanted {
            Wanted::NamedFiles => terminal::say("changed files were read again and are in use\n"),
            Wanted::File => {
                terminal::warn(&in_force.config.warnings);
                terminal::say(&format!("{file} was read again and is in force\n"));
            }
            Wanted::Documents(_) => {
                terminal::warn(&in_force.config.warnings);
                let (name, author) = (request.wanted.name(&in_force.file), &request.author);
                terminal::say(&format!(
                    "{name} is in force, applied by {author}; {file} is unchanged\n"
                ));
            }
        }
        if request.wanted != Wanted::NamedFiles {
            let author = Some(request.author.clone());
            self.entry = entry(self.entry.id + 1, &in_force, request.source(), author);
        }
        (self.in_force, self.unusable) = (in_force, None);
        request.accept(|| self.applied());
    }

    /// What whoever asked is told of the configuration that has come into force.
    fn applied(&self) -> Applied {
        let InForce { config, .. } = &self.in_force;
        Applied {
            entry: self.entry.clone(),
            warnings: Findings { text: config.warnings.to_string(), json: check::warned(config) },
            summary: config.mask(config.summary().to_string()),
            notes: Vec::new(),
        }
    }

    /// Says it once for files that are as they were: half of a pair may have been written, and they are tried again.
    fn tell_refused(&mut self, request: Request, failure: &Failure) {
        let text = failure.text(terminal::has_color());
        let complaint = match request.wanted {
            Wanted::NamedFiles => {
                let text = text.replacen("error", "warning", 1);
                format!("{}; the previous files stay in use\n", text.trim_end())
            }
            Wanted::File | Wanted::Documents(_) => {
                format!("{text}the previous configuration stays in force\n")
            }
        };
        let is_known = request.wanted == Wanted::NamedFiles && complaint == self.complaint;
        if !is_known {
            self.reloads.note_refused(SystemTime::now());
            terminal::complain(&complaint);
            self.complaint = complaint;
        }
        let name = request.wanted.name(&self.in_force.file);
        let findings = Findings { text: failure.text(false), json: check::failed(&name, failure) };
        request.refuse(match failure.is_bad_input() {
            true => NotApplied::Refused(findings),
            false => NotApplied::Failed(findings),
        });
    }
}

/// Waits until an attempt is over, for ever where none runs.
pub(crate) async fn done(reloading: &mut Option<Reloading>) {
    match reloading {
        Some(reloading) => reloading.done().await,
        None => pending().await,
    }
}

/// Does what is ordered. Where there is no file, as in the demo, there is nothing that could change.
pub(crate) fn take(reloading: &mut Option<Reloading>, order: Order) {
    match reloading {
        Some(reloading) => reloading.take(order),
        None => request::refuse_without_file(order),
    }
}

fn entry(id: u64, in_force: &InForce, source: Source, author: Option<Author>) -> Entry {
    let digest = in_force.documents.digest;
    Entry::new(id, SystemTime::now(), (source, author), digest)
}
