//! Another configuration for a gateway that runs.
//!
//! Signals, the file that is watched and orders from the admin interface all become a [`Request`] here. Reading, checking
//! and building takes a thread of its own, so that signals do not wait with it. One attempt runs at a time; of the changes
//! that are asked for meanwhile the last one is made. The history is written beside that, on another thread: a disk that
//! does not respond holds up nothing but the history.
//!
//! ```text
//! request -> attempt -> in force -> history written, or late -> whoever asked is told
//!                          |
//!                       on trial -> confirmed, or the guard is content: stays
//!                                -> time over, or requests fare worse: another request, for what was in force before,
//!                                   again and again until that succeeds or the trial is confirmed
//! ```

mod attempts;
mod deliveries;
mod ending;
mod figures;
mod messages;
mod pending;
mod planning;
mod records;
mod request;
mod sources;
mod storage;
#[cfg(test)]
mod tests;
mod trial;
mod watched;

pub(crate) use attempts::{InForce, sources_of};
pub(crate) use messages::history as tell_of_history;
pub(crate) use records::Records;
use sources::Sources;
pub(crate) use sources::before as sources_before;
pub(crate) use storage::Storage;

use crate::check;
use crate::clusters::Clusters;
use crate::config_file;
use crate::documents::Origins;
use crate::failure::Failure;
use crate::kept;
use crate::regular_file::FileState;
use attempts::{Attempts, Former, Made, Refused, Wanted};
use figures::{Baseline, Moment, Recent, Samples};
use pending::Pending;
use planning::Planning;
use request::{Outcome, Request};
use std::future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use titan_admin::history::{self, Author, EntryRef, Origin, Source};
use titan_admin::orders::{self, Applied, Change, ConfigOrder, Findings, NotApplied, Safeguards};
use titan_admin::{Access, Cause, Reloads};
use titan_config::Config;
use titan_observe::events::Log;
use titan_proxy::{Held, Loader, Revocations, Status};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use trial::Trial;
use watched::Watched;

/// Puts other configurations in force while the gateway runs.
pub(crate) struct Reloading {
    in_force: InForce,
    records: Records,
    attempts: Attempts,
    /// How often something was asked for.
    asked: u64,
    running: Option<Pending<Attempt, Result<Made, Refused>>>,
    next: Option<Request>,
    /// Set while the configuration in force is on trial: then nothing else takes its place.
    trial: Option<Trial>,
    /// Who waits until the history is written, or cannot be.
    replies: Vec<Reply>,
    status: Status,
    samples: Samples,
    /// What the named files were like that could not be used: they are not tried again until they change.
    unusable: Option<Vec<Option<FileState>>>,
    /// What its file was like, where that is watched.
    watched: Option<Watched>,
    /// The look at files that is under way, and how often something had been asked for when it began.
    looking: Option<Pending<u64, Seen>>,
    /// What was complained about last.
    complaint: String,
    reloads: Arc<Reloads>,
    sources: Sources,
    planning: Planning,
    /// The same for those who may only read, so that they are not in the way of others.
    looks: Planning,
}

/// What is being put in force.
struct Attempt {
    request: Request,
    /// How requests have fared before, where that will be asked for.
    recent: Option<Recent>,
    /// What requests are served from before, where that may come back.
    held: Option<Held>,
}

/// What files are like.
struct Seen {
    /// Those that the configuration names.
    named: Vec<Option<FileState>>,
    /// Those that it was read from, where they are watched.
    origins: Option<Origins>,
}

/// Somebody who waits to hear what has come into force.
struct Reply {
    done: oneshot::Sender<Outcome>,
    entry: EntryRef,
    applied: Applied,
}

/// A change that takes longer than this is worth a word.
const LONG: Duration = Duration::from_secs(60);
/// A look at files that takes longer than this is worth a word.
const LONG_LOOK: Duration = Duration::from_secs(10);
/// After how long a watched file is read again that could not be put in force for a reason outside of it.
const WATCH_RETRY: Duration = Duration::from_secs(10);

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
        let directory = kept::state_directory(&in_force.config.state, &in_force.file);
        let (feeds, clusters) = (loader.feeds(), Clusters::new(&loader, &in_force.file, directory));
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
            looking: None,
            complaint: String::new(),
            reloads,
            sources: Sources::none(Arc::new(clusters), feeds),
            planning: Planning::default(),
            looks: Planning::default(),
        };
        reloading.go_on();
        reloading
    }

    /// Watches the files of the configuration too.
    pub(crate) fn watching(self) -> Reloading {
        let watched = Watched::new(self.in_force.documents.origins.clone());
        Reloading { watched: Some(watched), ..self }
    }

    /// Looks whether files have changed, and judges what is on trial.
    pub(crate) fn look(&mut self) {
        if self.trial.is_none() {
            self.samples.look(&self.status, Instant::now());
        }
        self.go_on();
        if self.looking.is_none() && !self.is_under_way() {
            self.begin_look();
        }
    }

    /// Looks at files on another thread: what they are on may not respond.
    fn begin_look(&mut self) {
        let InForce { file, config, state, .. } = &self.in_force;
        // What changes during a trial is seen after it.
        let watched = self.watched.as_ref().filter(|_| self.trial.is_none());
        if watched.is_none() && state.is_empty() {
            return;
        }
        let (file, config) = (file.clone(), Arc::clone(config));
        let watched = watched.map(|watched| watched.files().clone());
        let look = move || Seen {
            named: config_file::state_of_named(&config, &file),
            origins: watched.map(|files| files.now()),
        };
        // Where there is no thread the next look is one.
        self.looking = Pending::spawn(self.asked, look, LONG_LOOK).ok();
    }

    /// Puts files in force that have changed.
    fn note_seen(&mut self, asked: u64, seen: Option<Seen>) {
        // What was asked for since has looked at them itself.
        let Some(Seen { named, origins }) = seen.filter(|_| asked == self.asked) else { return };
        let watched = self.watched.as_mut().zip(origins);
        if watched.is_some_and(|(watched, now)| watched.has_changed(now, Instant::now())) {
            return self.ask_for(Request::quiet(Wanted::File, Some(Author::Watch)));
        }
        if named != self.in_force.state && self.unusable.as_ref() != Some(&named) {
            self.ask_for(Request::quiet(Wanted::NamedFiles, Some(Author::Watch)));
        }
    }

    /// Reads the file again, as a signal has asked for.
    pub(crate) fn hang_up(&mut self) {
        self.ask_for(Request::quiet(Wanted::File, Some(Author::Signal)));
    }

    /// Where what was in force is kept on the disk.
    pub(crate) fn storage(&self) -> Option<Storage> {
        self.records.storage()
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
        let running = self.running.as_ref().map(|running| &running.about.request);
        running.into_iter().chain(&self.next)
    }

    /// Why no other process may take over now, where that is so: a change that is under way would be lost, or come into force
    /// in a process that is about to end, and a trial would end unconfirmed.
    pub(crate) fn before_upgrade(&self) -> Option<String> {
        if self.changes().any(Request::is_change) {
            return Some(messages::under_way());
        }
        let on_trial = |trial| messages::on_trial(&self.records.in_force(), Some(trial));
        let kept = || self.sources.before_upgrade();
        self.trial.as_ref().map(on_trial).or_else(kept)
    }

    /// What is told of changes.
    fn log(&self) -> &Log {
        self.attempts.loader.log()
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
            ConfigOrder::Plan { documents, done } => {
                self.planning.plan(self.in_force.clone(), documents, done);
            }
            ConfigOrder::Compare { id, against, done } => match self.records.pair(id, against) {
                Ok(pasts) => self.looks.compare(pasts, self.in_force.file.clone(), done),
                Err(why) => drop(done.send(Err(why))),
            },
            ConfigOrder::Explain { question, done } => {
                self.looks.explain(self.in_force.clone(), question, done);
            }
            // Where nobody waits any more nothing is to be told.
            ConfigOrder::InForce(shown) => drop(shown.send(Ok(self.shown()))),
            ConfigOrder::History(told) => drop(told.send(Ok(self.records.told()))),
        }
    }

    fn change(&mut self, change: Change, author: Author, done: oneshot::Sender<Outcome>) {
        let goes_back = matches!(change, Change::Rollback(None));
        let (wanted, safeguards) = match change {
            Change::Reload => (Ok(Wanted::File), Safeguards::default()),
            Change::Apply { documents, safeguards } => {
                (trial::check(safeguards).map(|()| Wanted::Documents(documents.into())), safeguards)
            }
            Change::Rollback(id) => match &self.trial {
                Some(Trial { before: Former { entry: before, .. }, .. })
                    if id.is_none_or(|id| id == self.records.history().id(*before)) =>
                {
                    let why = format!("{author} asked for that");
                    return self.take_back(Cause::Rollback, why, Some((author, done)));
                }
                _ => (self.past(id), Safeguards::default()),
            },
        };
        match wanted {
            Ok(wanted) => {
                let (author, done) = (Some(author), Some(done));
                self.ask_for(Request { wanted, goes_back, author, safeguards, done });
            }
            Err(why) => drop(done.send(Err(why))),
        }
    }

    /// What `titan rollback` goes back to.
    fn past(&self, id: Option<u64>) -> Result<Wanted, NotApplied> {
        let nothing =
            || NotApplied::NotFound("the history has no earlier configuration".to_owned());
        let id = id.or_else(|| self.records.before()).ok_or_else(nothing)?;
        let past = self.records.find(id)?;
        Ok(Wanted::Past(self.records.history().refer(id), past))
    }

    fn shown(&self) -> orders::InForce {
        let InForce { documents, .. } = &self.in_force;
        orders::InForce {
            entry: self.records.in_force(),
            names: documents.texts.iter().map(|document| document.name.clone()).collect(),
            masked: Arc::clone(&documents.masked),
            summary: Arc::clone(&documents.summary),
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

    fn begin(&mut self, mut request: Request) {
        if request.goes_back {
            // Something else may have come into force since that was asked for.
            match self.past(None) {
                Ok(wanted) => request.wanted = wanted,
                Err(why) => return request.refuse(why),
            }
        }
        let (attempts, before) = (self.attempts.clone(), self.in_force.clone());
        let (wanted, name) = (request.wanted.clone(), self.name_of(&request));
        let recent =
            request.safeguards.guard.map(|_| self.samples.recent(&self.status, Instant::now()));
        let held = request.safeguards.is_any().then(|| self.attempts.loader.hold());
        let attempt = Attempt { request, recent, held };
        let make = move || attempts.make((&name, &wanted), before);
        match Pending::spawn(attempt, make, LONG) {
            Ok(running) => self.running = Some(running),
            Err((Attempt { request, .. }, error)) => {
                self.tell_refused(request, &Failure::from(error));
            }
        }
    }

    /// What messages call what is asked for.
    fn name_of(&self, request: &Request) -> String {
        request.wanted.name(&self.in_force.file, self.records.history())
    }

    /// Waits until something ends, or is due, and does what follows.
    async fn proceed(&mut self) {
        let due = self.due();
        tokio::select! {
            (attempt, outcome) = pending::ended(&mut self.running) => self.note_ended(attempt, outcome),
            saved = self.records.saved() => {
                let news = self.records.take(saved, Instant::now());
                messages::history(self.log(), news);
            }
            (asked, seen) = pending::ended(&mut self.looking) => self.note_seen(asked, seen),
            news = self.sources.next() => self.sources.take(news, self.attempts.loader.log()),
            () = reach(due) => {}
        }
        self.go_on();
    }

    fn note_ended(&mut self, attempt: Attempt, outcome: Option<Result<Made, Refused>>) {
        let failure = match outcome {
            Some(Ok(made)) => return self.note_made(attempt, made),
            Some(Err(Refused { failure, state, origins })) => {
                self.note_read(&attempt.request.wanted, origins.as_deref());
                self.unusable = state;
                failure
            }
            None => Failure::Runtime("the reload thread panicked".to_owned()),
        };
        self.tell_refused(attempt.request, &failure);
    }

    /// Watches what was looked at for the file from now on, where that is watched.
    fn note_read(&mut self, wanted: &Wanted, origins: Option<&Origins>) {
        if let (Wanted::File, Some(watched), Some(origins)) = (wanted, &mut self.watched, origins) {
            *watched = Watched::new(origins.clone());
        }
    }

    /// When there is something to do that nothing else tells of.
    fn due(&self) -> Option<Instant> {
        let trial = self.trial.as_ref().and_then(Trial::next);
        let attempt = self.running.as_ref().and_then(Pending::late_at);
        let look = self.looking.as_ref().and_then(Pending::late_at);
        [trial, attempt, look, self.records.late_at()].into_iter().flatten().min()
    }

    /// Does what is due, and begins what is to be done next.
    fn go_on(&mut self) {
        let now = Instant::now();
        self.judge(now);
        if self.running.is_none()
            && let Some(next) = self.next.take()
        {
            self.ask_for(next);
        }
        self.follow_sources(now);
        self.records.save(now);
        self.note_late(now);
        self.reply();
        let is_on_trial = self.trial.is_some() || self.is_ending_trial();
        let until = self.trial.as_ref().and_then(Trial::confirm_until);
        self.reloads.note_id(self.records.in_force().id);
        self.reloads.note_standing(is_on_trial, until, self.records.unsaved());
    }

    /// Says of whatever takes too long that it does, once.
    fn note_late(&mut self, now: Instant) {
        if let Some(running) = &mut self.running
            && running.becomes_late(now)
        {
            let wanted = &running.about.request.wanted;
            let name = wanted.name(&self.in_force.file, self.records.history());
            messages::takes_long(self.attempts.loader.log(), &name, LONG);
        }
        if self.looking.as_mut().is_some_and(|looking| looking.becomes_late(now)) {
            messages::look_takes_long(self.log(), LONG_LOOK);
        }
        let late = self.records.note_late(now);
        messages::history(self.log(), late);
    }

    /// What somebody will be told of the configuration in force, once it is known whether the history has it.
    fn reply_with(&self, done: oneshot::Sender<Outcome>, notes: Vec<String>) -> Reply {
        let config = &self.in_force.config;
        let warnings = Findings { text: config.warnings.to_string(), json: check::warned(config) };
        let summary = self.in_force.documents.summary.to_string();
        let applied = Applied { entry: self.records.in_force(), warnings, summary, notes };
        Reply { done, entry: self.records.refer_to_in_force(), applied }
    }

    /// Tells whoever waits what has come into force, and whether the history has it.
    fn reply(&mut self) {
        let Reloading { replies, records, .. } = self;
        for reply in replies.extract_if(.., |reply| records.is_certain(reply.entry)) {
            let Reply { done, entry, mut applied } = reply;
            applied.notes.extend(records.fault().map(str::to_owned));
            // Its id may have moved since, and its outcome too.
            applied.entry = records.history().entry(entry).cloned().unwrap_or(applied.entry);
            if !applied.entry.in_force {
                let now = records.in_force().id;
                applied.notes.push(messages::replaced(applied.entry.id, now));
            }
            // Where nobody waits any more the log has told it.
            let _ = done.send(Ok(applied));
        }
    }

    fn tell_applied(
        &mut self,
        request: Request,
        (recent, held): (Option<Recent>, Option<Held>),
        in_force: InForce,
    ) {
        self.complaint.clear();
        self.unusable = None;
        let before = std::mem::replace(&mut self.in_force, in_force);
        if !request.is_change() {
            self.note_applied(&request);
            return messages::files_in_use(self.log(), &before, &self.in_force);
        }
        if let Wanted::Before(before) = &request.wanted {
            self.records.settle(history::Outcome::TakenBack, Some(&before.why));
            self.reloads.note_taken_back(before.cause);
            self.samples.leave_out(&before.former.since, &self.status);
        }
        let (id, entry) = (self.records.in_force().id, self.records.refer_to_in_force());
        self.records.note(request.origin(self.records.history()), &self.in_force);
        self.note_applied(&request);
        let since = Moment::now(&self.status);
        let before = Former { in_force: before, entry, _held: held, since };
        let config = &self.in_force.config;
        self.log().configure(&config.log);
        messages::in_force(self.log(), &self.name_of(&request), &request, (config, id));
        self.records.hurry();
        let window = request.safeguards.guard.map(|guard| guard.window);
        let baseline =
            recent.zip(window).map(|(recent, window)| Baseline::new(recent, &self.status, window));
        let now = (Instant::now(), SystemTime::now());
        self.trial = Trial::new(request.safeguards, before, baseline, now);
        if let Some(trial) = &self.trial {
            self.records.settle(history::Outcome::OnTrial, None);
            messages::on_trial_now(self.log(), self.records.in_force().id, trial);
        }
        let notes = messages::notes(&self.in_force, self.trial.as_ref());
        let reply = request.done.map(|done| self.reply_with(done, notes));
        self.replies.extend(reply);
    }

    /// Has the metrics tell what is in force now.
    fn note_applied(&self, request: &Request) {
        let now = (self.in_force.documents.public_digest, self.records.in_force().id);
        self.reloads.note_applied(request.wanted.subject(), now, SystemTime::now());
    }

    /// Says it once for files that are as they were: half of a pair may have been written, and they are tried again.
    fn tell_refused(&mut self, request: Request, failure: &Failure) {
        let complaint = format!("{:?}: {}", request.wanted.subject(), failure.text(false));
        let is_watched = request.author == Some(Author::Watch) && request.is_change();
        let is_known = match &request.wanted {
            Wanted::NamedFiles => complaint == self.complaint,
            Wanted::Before(before) => complaint == before.complaint,
            Wanted::File => is_watched && complaint == self.complaint,
            Wanted::Delivered(_) => complaint == self.complaint,
            Wanted::Documents(_) | Wanted::Past(..) => false,
        };
        // What is wrong is not in the file, and may pass without a trace there: an address in use, a server that does not respond.
        if is_watched && !failure.is_bad_input() {
            let later = Instant::now() + WATCH_RETRY;
            self.watched.iter_mut().for_each(|watched| watched.again_at(later));
        }
        if matches!(request.wanted, Wanted::Delivered(_)) {
            self.sources.note_failed(Instant::now());
        }
        if !is_known {
            self.reloads.note_refused(request.wanted.subject(), SystemTime::now());
            messages::refused(self.log(), &request, failure, &self.records.in_force());
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
        let name = self.name_of(&request);
        let findings = Findings { text: failure.text(false), json: check::failed(&name, failure) };
        request.refuse(match failure.is_bad_input() {
            true => NotApplied::Refused(findings),
            false => NotApplied::Failed(findings),
        });
    }
}

/// Waits until there is something to do, and does it.
pub(crate) async fn proceed(reloading: &mut Option<Reloading>) {
    match reloading {
        Some(reloading) => reloading.proceed().await,
        None => future::pending().await,
    }
}

/// Waits until then, for ever without a time.
async fn reach(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => future::pending().await,
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
