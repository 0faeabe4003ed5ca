//! Another configuration for a gateway that runs.
//!
//! Signals, the file that is watched and orders from the admin interface all become a [`Request`] here. Reading, checking
//! and building takes a thread of its own, and so does writing the history, so that signals do not wait with it. One job
//! runs at a time; of the changes that are asked for meanwhile the last one is made.
//!
//! ```text
//! request -> attempt -> in force -> history written -> whoever asked is told
//!                          |
//!                       on trial -> confirmed, or the guard is content: stays
//!                                -> time over, or requests fare worse: another request, for what was in force before,
//!                                   again and again until that succeeds or the trial is confirmed
//! ```

mod attempts;
mod figures;
mod messages;
mod records;
mod request;
#[cfg(test)]
mod tests;
mod trial;
mod watched;

pub(crate) use attempts::InForce;
pub(crate) use records::Records;

use crate::check;
use crate::config_file;
use crate::documents::Origins;
use crate::failure::Failure;
use crate::plan;
use crate::regular_file::FileState;
use crate::terminal;
use attempts::{Attempts, Before, Refused, Wanted};
use figures::{Baseline, Sample, Samples};
use records::Saved;
use request::{Outcome, Request};
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use titan_admin::history::{self, Author, Directory, Origin, Source};
use titan_admin::orders::{
    self, Applied, Change, ConfigOrder, Document, Findings, Guard, NotApplied, Planned, Safeguards,
};
use titan_admin::{Access, Cause, Reloads};
use titan_config::{Config, Masked, Plan};
use titan_proxy::{Loader, Revocations, Status};
use tokio::sync::oneshot;
use tokio::time::sleep_until;
use trial::{Trial, Verdict};
use watched::Watched;

/// Puts other configurations in force while the gateway runs.
pub(crate) struct Reloading {
    in_force: InForce,
    records: Records,
    attempts: Attempts,
    /// How often something was asked for.
    asked: u64,
    running: Option<Running>,
    next: Option<Request>,
    /// Set while the configuration in force is on trial: then nothing else takes its place.
    trial: Option<Trial>,
    /// Who waits until the history is written.
    replies: Vec<Reply>,
    status: Status,
    samples: Samples,
    /// What the named files were like that could not be used: they are not tried again until they change.
    unusable: Option<Vec<Option<FileState>>>,
    /// What its file was like, where that is watched.
    watched: Option<Watched>,
    /// What was complained about last.
    complaint: String,
    reloads: Arc<Reloads>,
    /// Locked by the plan that is made.
    planning: Arc<Mutex<()>>,
}

/// What runs on another thread.
enum Running {
    /// A change, and how requests have fared before it where that will be asked for.
    Attempt(Request, Option<Sample>, oneshot::Receiver<Result<InForce, Refused>>),
    /// The history is written.
    Save(oneshot::Receiver<Saved>),
}

/// Somebody who waits to hear what is in force.
struct Reply {
    done: oneshot::Sender<Outcome>,
    notes: Vec<String>,
}

/// Longer than this nothing is on trial.
const LONGEST_TRIAL: Duration = Duration::from_secs(24 * 60 * 60);

impl Reloading {
    /// Nothing but `in_force` was asked for yet.
    pub(crate) fn new(
        in_force: InForce,
        mut records: Records,
        (loader, access, revoked): (Loader, Access, Option<Revocations>),
        (reloads, status): (Arc<Reloads>, Status),
    ) -> Reloading {
        let origin = Origin { source: Source::Start, author: None, repeats: None };
        records.note(origin, &in_force);
        let mut reloading = Reloading {
            in_force,
            records,
            attempts: Attempts { loader, access, revoked },
            asked: 0,
            running: None,
            next: None,
            trial: None,
            replies: Vec::new(),
            status,
            samples: Samples::new(Instant::now()),
            unusable: None,
            watched: None,
            complaint: String::new(),
            reloads,
            planning: Arc::default(),
        };
        reloading.go_on();
        reloading
    }

    /// Watches the files of the configuration too.
    pub(crate) fn watching(self) -> Reloading {
        let watched = Watched::new(self.in_force.documents.origins.clone());
        Reloading { watched: Some(watched), ..self }
    }

    /// Puts files in force that have changed, and judges what is on trial.
    pub(crate) fn look(&mut self) {
        self.samples.look(&self.status, Instant::now());
        if self.running.is_some() {
            return;
        }
        self.judge();
        self.go_on();
        if self.running.is_some() {
            return;
        }
        // What changes during a trial is seen after it.
        let watched = self.watched.as_mut().filter(|_| self.trial.is_none());
        if watched.is_some_and(Watched::has_changed) {
            return self.ask_for(Request::quiet(Wanted::File, Some(Author::Watch)));
        }
        let InForce { file, config, state, .. } = &self.in_force;
        let now = config_file::state_of_named(config, file);
        if now != *state && self.unusable.as_ref() != Some(&now) {
            self.ask_for(Request::quiet(Wanted::NamedFiles, Some(Author::Watch)));
        }
    }

    /// Reads the file again, as a signal has asked for.
    pub(crate) fn hang_up(&mut self) {
        self.ask_for(Request::quiet(Wanted::File, Some(Author::Signal)));
    }

    /// Where what was in force is kept on the disk.
    pub(crate) fn directory(&self) -> Option<Arc<Mutex<Directory>>> {
        self.records.directory()
    }

    /// How often something was asked for, whatever came of it.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    /// Whether something was asked for and is not in force yet.
    pub(crate) fn is_under_way(&self) -> bool {
        self.changes().next().is_some()
    }

    /// Whether the configuration in force was on trial and is being taken back.
    fn is_ending_trial(&self) -> bool {
        self.changes().any(Request::ends_trial)
    }

    /// What was asked for and is not in force yet.
    fn changes(&self) -> impl Iterator<Item = &Request> {
        let running = match &self.running {
            Some(Running::Attempt(request, ..)) => Some(request),
            _ => None,
        };
        running.into_iter().chain(&self.next)
    }

    /// Why no other process may take over now, where that is so: a change that is under way would be lost, or come into force
    /// in a process that is about to end, and a trial would end unconfirmed.
    pub(crate) fn before_upgrade(&self) -> Option<String> {
        if self.changes().any(Request::is_change) {
            return Some(messages::under_way());
        }
        self.trial.as_ref().map(|trial| messages::on_trial(&self.records.in_force(), Some(trial)))
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> &Config {
        &self.in_force.config
    }

    /// Does what is ordered, or begins to.
    fn take(&mut self, order: ConfigOrder) {
        match order {
            ConfigOrder::Change { change, author, done } => self.change(change, author, done),
            ConfigOrder::Confirm { author, done } => self.confirm(&author, done),
            ConfigOrder::Plan { documents, done } => self.plan(documents, done),
            // Where nobody waits any more nothing is to be told.
            ConfigOrder::InForce(shown) => drop(shown.send(self.shown())),
            ConfigOrder::History(told) => drop(told.send(self.records.told())),
        }
    }

    fn change(&mut self, change: Change, author: Author, done: oneshot::Sender<Outcome>) {
        let (wanted, safeguards) = match change {
            Change::Reload => (Ok(Wanted::File), Safeguards::default()),
            Change::Apply { documents, safeguards } => (
                check_safeguards(safeguards).map(|()| Wanted::Documents(documents.into())),
                safeguards,
            ),
            Change::Rollback(id) => match &self.trial {
                Some(trial) if id.is_none_or(|id| id == trial.before.1) => {
                    let why = format!("{author} asked for that");
                    return self.take_back(Cause::Rollback, why, Some((author, done)));
                }
                _ => (self.past(id), Safeguards::default()),
            },
        };
        match wanted {
            Ok(wanted) => {
                let (author, done) = (Some(author), Some(done));
                self.ask_for(Request { wanted, author, safeguards, done });
            }
            Err(why) => drop(done.send(Err(why))),
        }
    }

    /// Compares these documents with those in force, beside whatever else is done.
    fn plan(&self, documents: Vec<Document>, done: oneshot::Sender<Result<Planned, NotApplied>>) {
        let (in_force, turn) = (self.in_force.clone(), Arc::clone(&self.planning));
        let job = move || {
            // One at a time: each takes a core for a while.
            let _turn = turn.lock();
            let name = documents.first().map_or_else(String::new, |first| first.name.clone());
            let planned = compare(&in_force, &documents);
            drop(done.send(planned.map_err(|failure| {
                let json = check::failed(&name, &failure);
                NotApplied::Refused(Findings { text: failure.text(false), json })
            })));
        };
        // Where there is no thread nobody hears of it, which is told.
        drop(thread::Builder::new().name("plan".to_owned()).spawn(job));
    }

    /// What `titan rollback` goes back to.
    fn past(&self, id: Option<u64>) -> Result<Wanted, NotApplied> {
        let nothing =
            || NotApplied::NotFound("the history has no earlier configuration".to_owned());
        let id = id.or_else(|| self.records.before()).ok_or_else(nothing)?;
        match self.records.past(id) {
            Some(past) => Ok(Wanted::Past(id, past)),
            None => {
                let why =
                    format!("the history has no configuration {id}: `titan history` lists them");
                Err(NotApplied::NotFound(why))
            }
        }
    }

    /// Has the configuration stay that is on trial.
    fn confirm(&mut self, author: &Author, done: oneshot::Sender<Outcome>) {
        if self.trial.is_none() {
            let why = match self.is_ending_trial() {
                true => messages::ending(self.records.in_force().id),
                false => "no configuration waits to be confirmed".to_owned(),
            };
            drop(done.send(Err(NotApplied::Conflict(why))));
            return;
        }
        let why = format!("confirmed by {author}");
        self.keep(history::Outcome::Confirmed, &why);
        self.replies.push(Reply { done, notes: Vec::new() });
        self.go_on();
    }

    /// Ends the trial: what is in force stays.
    fn keep(&mut self, outcome: history::Outcome, why: &str) {
        self.trial = None;
        self.records.settle(outcome, Some(why));
        self.records.hurry();
        messages::stays(self.records.in_force().id, why);
    }

    fn shown(&self) -> orders::InForce {
        let InForce { config, documents, .. } = &self.in_force;
        let masked = |(document, masked): (&Document, &Masked)| Document {
            name: document.name.clone(),
            text: masked.text.clone(),
        };
        orders::InForce {
            entry: self.records.in_force(),
            documents: documents.texts.iter().zip(&*documents.masked).map(masked).collect(),
            summary: config.mask(config.summary().to_string()),
            confirm_until: self.trial.as_ref().and_then(Trial::confirm_until),
        }
    }

    /// Begins to put that in force, or does so when what runs is over.
    fn ask_for(&mut self, request: Request) {
        self.asked += 1;
        let is_ending = self.next.as_ref().is_some_and(Request::ends_trial);
        if request.is_change() && (self.trial.is_some() || is_ending) {
            return self.refuse_during_trial(request);
        }
        if self.running.is_some() {
            if let Some(superseded) = self.next.replace(request) {
                superseded.refuse(NotApplied::Superseded);
            }
            return;
        }
        self.begin(request);
    }

    fn begin(&mut self, request: Request) {
        let (attempts, before) = (self.attempts.clone(), self.in_force.clone());
        let wanted = request.wanted.clone();
        let recent = request.safeguards.guard.map(|_| self.samples.recent(&self.status));
        match spawn(move || attempts.make(&wanted, before)) {
            Ok(outcome) => self.running = Some(Running::Attempt(request, recent, outcome)),
            Err(error) => self.tell_refused(request, &Failure::from(error)),
        }
    }

    /// Waits for what runs, or for the end of a trial, and does what follows.
    async fn proceed(&mut self) {
        match &mut self.running {
            Some(Running::Attempt(_, _, outcome)) => {
                let outcome = outcome.await;
                let Some(Running::Attempt(request, recent, _)) = self.running.take() else {
                    return;
                };
                match outcome {
                    Ok(Ok(in_force)) => {
                        self.note_read(&request.wanted, Some(&in_force.documents.origins));
                        self.tell_applied(request, recent, in_force);
                    }
                    Ok(Err(Refused { failure, state, origins })) => {
                        self.note_read(&request.wanted, origins.as_deref());
                        self.unusable = state;
                        self.tell_refused(request, &failure);
                    }
                    Err(_) => {
                        let failure = Failure::Runtime("the reload thread panicked".to_owned());
                        self.tell_refused(request, &failure);
                    }
                }
            }
            Some(Running::Save(saved)) => {
                let saved = saved.await.unwrap_or_else(|_| Saved::nothing("its thread panicked"));
                self.running = None;
                self.note_saved(saved);
            }
            None => match self.trial.as_ref().and_then(Trial::next) {
                Some(at) => {
                    sleep_until(at.into()).await;
                    self.judge();
                }
                None => return pending().await,
            },
        }
        self.go_on();
    }

    /// Watches what was looked at for the file from now on, where that is watched.
    fn note_read(&mut self, wanted: &Wanted, origins: Option<&Origins>) {
        if let (Wanted::File, Some(watched), Some(origins)) = (wanted, &mut self.watched, origins) {
            *watched = Watched::new(origins.clone());
        }
    }

    /// Begins what is to be done next, where nothing runs.
    fn go_on(&mut self) {
        if self.running.is_none()
            && let Some(job) = self.records.job(Instant::now())
        {
            match spawn(job) {
                Ok(saved) => self.running = Some(Running::Save(saved)),
                Err(error) => self.note_saved(Saved::nothing(&error.to_string())),
            }
        }
        let is_on_trial = self.trial.is_some() || self.is_ending_trial();
        self.reloads.note_standing(is_on_trial, self.records.unsaved());
        if self.running.is_none() {
            self.reply();
            if let Some(next) = self.next.take() {
                self.ask_for(next);
            }
        }
    }

    fn note_saved(&mut self, saved: Saved) {
        self.records.take(saved, Instant::now()).iter().for_each(|line| terminal::event(line));
    }

    /// Tells whoever waits what is in force, and whether the history has it.
    fn reply(&mut self) {
        for Reply { done, mut notes } in std::mem::take(&mut self.replies) {
            notes.extend(self.records.fault().map(str::to_owned));
            let config = &self.in_force.config;
            let text = config.warnings.to_string();
            let applied = Applied {
                entry: self.records.in_force(),
                warnings: Findings { text, json: check::warned(config) },
                summary: config.mask(config.summary().to_string()),
                notes,
            };
            // Where nobody waits any more the log has told it.
            let _ = done.send(Ok(applied));
        }
    }

    fn tell_applied(&mut self, request: Request, recent: Option<Sample>, in_force: InForce) {
        self.reloads.note_applied(in_force.documents.digest, SystemTime::now());
        self.complaint.clear();
        self.unusable = None;
        let before = std::mem::replace(&mut self.in_force, in_force);
        if !request.is_change() {
            return messages::files_in_use();
        }
        if let Wanted::Before(before) = &request.wanted {
            self.records.settle(history::Outcome::TakenBack, Some(&before.why));
            self.reloads.note_taken_back(before.cause);
        }
        let before = (before, self.records.in_force().id);
        messages::in_force(&request, &self.in_force, before.1);
        self.records.note(request.origin(), &self.in_force);
        self.records.hurry();
        let baseline = recent.map(|recent| Baseline::new(recent, &self.status));
        let now = (Instant::now(), SystemTime::now());
        self.trial = Trial::new(request.safeguards, before, baseline, now);
        if self.trial.is_some() {
            self.records.settle(history::Outcome::OnTrial, None);
        }
        let notes = messages::notes(&request, &self.in_force.file, self.trial.as_ref());
        self.replies.extend(request.done.map(|done| Reply { done, notes }));
    }

    /// Says it once for files that are as they were: half of a pair may have been written, and they are tried again.
    fn tell_refused(&mut self, request: Request, failure: &Failure) {
        let text = failure.text(terminal::has_color());
        let complaint = messages::refused(&request, &text, &self.records.in_force());
        let is_known = match &request.wanted {
            Wanted::NamedFiles => complaint == self.complaint,
            Wanted::Before(before) => complaint == before.complaint,
            Wanted::File | Wanted::Documents(_) | Wanted::Past(..) => false,
        };
        if !is_known {
            self.reloads.note_refused(SystemTime::now());
            terminal::complain(&complaint);
        }
        if let Wanted::Before(before) = &request.wanted {
            let text = failure.text(false);
            let why = format!("{}, but it cannot be taken back: {}", before.why, text.trim_end());
            self.records.settle(history::Outcome::OnTrial, Some(&why));
            // What takes it back has not succeeded: it is still not confirmed.
            let before = before.as_ref().clone();
            self.trial = Some(Trial::again(before, complaint, Instant::now()));
        } else {
            self.complaint = complaint;
        }
        let name = request.wanted.name(&self.in_force.file);
        let findings = Findings { text: failure.text(false), json: check::failed(&name, failure) };
        request.refuse(match failure.is_bad_input() {
            true => NotApplied::Refused(findings),
            false => NotApplied::Failed(findings),
        });
    }

    fn refuse_during_trial(&mut self, request: Request) {
        let why = messages::on_trial(&self.records.in_force(), self.trial.as_ref());
        if request.author == Some(Author::Watch) {
            self.watched.iter_mut().for_each(Watched::again);
        }
        self.reloads.note_refused(SystemTime::now());
        terminal::complain(&format!("error: {why}\n"));
        request.refuse(NotApplied::Conflict(why));
    }

    /// Judges what is on trial.
    fn judge(&mut self) {
        let Some(trial) = &mut self.trial else { return };
        match trial.judge(&self.status, Instant::now()) {
            None => {}
            Some(Verdict::Good) => {
                self.keep(history::Outcome::Confirmed, "its guard has found nothing worse");
            }
            Some(Verdict::Unconfirmed) => {
                let why = "it was not confirmed in time".to_owned();
                self.take_back(Cause::Unconfirmed, why, None);
            }
            Some(Verdict::Worse(why)) => self.take_back(Cause::Guard, why, None),
            Some(Verdict::TakeBack(cause, why)) => self.take_back(cause, why, None),
        }
    }

    /// Puts in force again what was in force before the trial, which ends when that has succeeded.
    fn take_back(
        &mut self,
        cause: Cause,
        why: String,
        asked: Option<(Author, oneshot::Sender<Outcome>)>,
    ) {
        let Some(Trial { before: (in_force, id), retry, .. }) = self.trial.take() else { return };
        let (author, done) = asked.unzip();
        let complaint = retry.map(|retry| retry.complaint).unwrap_or_default();
        let before = Before { id, in_force, cause, why, complaint };
        let wanted = Wanted::Before(Box::new(before));
        self.ask_for(Request { wanted, author, safeguards: Safeguards::default(), done });
    }
}

/// Waits until there is something to do, and does it.
pub(crate) async fn proceed(reloading: &mut Option<Reloading>) {
    match reloading {
        Some(reloading) => reloading.proceed().await,
        None => pending().await,
    }
}

/// Does what is ordered. Where there is no file, as in the demo, there is nothing that could change.
pub(crate) fn take(reloading: &mut Option<Reloading>, order: ConfigOrder) {
    match reloading {
        Some(reloading) => reloading.take(order),
        None => request::refuse_without_file(order),
    }
}

/// The same while another process is about to take over: a change would wait until that has failed, or be lost.
pub(crate) fn take_during_upgrade(reloading: &mut Option<Reloading>, order: ConfigOrder) {
    match order {
        ConfigOrder::Change { done, .. } => {
            // Where nobody waits any more the audit log has told it.
            let _ = done.send(Err(NotApplied::Conflict(messages::during_upgrade())));
        }
        order => take(reloading, order),
    }
}

fn check_safeguards(safeguards: Safeguards) -> Result<(), NotApplied> {
    let Safeguards { confirm, guard } = safeguards;
    let times = confirm.into_iter().chain(guard.map(|guard| guard.window));
    let fault = if times.into_iter().any(|time| time.is_zero() || time > LONGEST_TRIAL) {
        "a trial takes from a moment to 24 hours"
    } else if guard.is_some_and(|Guard { factor, .. }| !factor.is_finite() || factor <= 1.0) {
        "the factor of the guard has to be greater than 1"
    } else {
        return Ok(());
    };
    let failure = Failure::BadInput(fault.to_owned());
    let json = check::failed("the request", &failure);
    Err(NotApplied::Refused(Findings { text: failure.text(false), json }))
}

/// What these documents would change in the configuration in force. Both are read as if they stood in place of its file.
fn compare(in_force: &InForce, documents: &[Document]) -> Result<Planned, Failure> {
    let InForce { file, documents: old, .. } = in_force;
    let new = config_file::resolve_new(documents, file)?;
    let old = config_file::resolve_past(&old.texts, file)?;
    Ok(plan::shown(&Plan::new(&old, &new)))
}

/// How far threads that read and build stand behind the workers.
const NICE: i32 = 10;

/// Does something on a thread of its own, and tells what came of it. Where nobody waits for that any more the program is about
/// to end.
fn spawn<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (done, outcome) = oneshot::channel();
    let job = move || drop(done.send(job()));
    let job = move || {
        // Without a core to spare it takes a tenth of one from the workers, not half. That may be forbidden, and works without.
        let _ = rustix::process::nice(NICE);
        job();
    };
    thread::Builder::new().name("reload".to_owned()).spawn(job)?;
    Ok(outcome)
}
