//! What is said of changes: in the log, and to whoever asked.

use super::attempts::{InForce, Wanted};
use super::request::Request;
use super::trial::Trial;
use crate::config_file;
use crate::failure::Failure;
use crate::findings;
use std::time::Duration;
use titan_admin::history::{Author, Entry, rfc3339};
use titan_config::{Config, LogArea, LogLevel};
use titan_observe::events::{Event, Field, Log};

/// There are further listeners.
pub(super) fn listening(log: &Log, lines: &[String]) {
    for line in lines {
        log.tell(Event::new((LogArea::Listener, LogLevel::Info), "listening", line));
    }
}

/// Files that the configuration names were read again.
pub(super) fn files_in_use(log: &Log, before: &InForce, now: &InForce) {
    let named = now.config.files();
    let states = named.iter().zip(before.state.iter().zip(&now.state));
    let changed: Vec<_> = states.filter(|(_, (old, new))| old != new).map(|it| *it.0).collect();
    let of_tls = now.config.tls_files();
    let area = match changed.iter().any(|file| of_tls.contains(file)) {
        true => LogArea::Tls,
        false => LogArea::Config,
    };
    let changed: Vec<_> = changed.iter().map(|file| file.display().to_string()).collect();
    let what = format!("changed files were read again and are in use: {}", changed.join(", "));
    log.tell(Event::new((area, LogLevel::Info), "files_in_use", what));
}

/// A change of that name is in force, in place of the configuration with the id `before`.
pub(super) fn in_force(log: &Log, name: &str, request: &Request, (config, before): (&Config, u64)) {
    findings::tell_warnings(log, config);
    let (level, kind, what) = match &request.wanted {
        Wanted::NamedFiles => return,
        Wanted::File => {
            (LogLevel::Info, "config_applied", format!("{name} was read again and is in force"))
        }
        Wanted::Documents(_) => {
            let author = by(request.author.as_ref());
            (LogLevel::Info, "config_applied", format!("{name} is in force, applied{author}"))
        }
        Wanted::Delivered(_) => {
            let author = request.author.as_ref().map_or_else(String::new, Author::to_string);
            let what = format!("what the {author} has delivered is in force");
            (LogLevel::Info, "config_applied", what)
        }
        Wanted::Past(..) => {
            let author = by(request.author.as_ref());
            let what = format!("{name} is in force again, rolled back{author}");
            (LogLevel::Info, "config_applied", what)
        }
        Wanted::Before(then) => {
            let what = format!(
                "configuration {before} was taken back: {}; {name} is in force again",
                then.why
            );
            (LogLevel::Warn, "config_taken_back", what)
        }
    };
    log.tell(event(level, kind, what));
}

/// A configuration that has come into force is on trial.
pub(super) fn on_trial_now(log: &Log, id: u64, trial: &Trial) {
    let until = trial.confirm_until().map(rfc3339);
    let until = until.map_or_else(String::new, |until| format!(" until {until}"));
    let what = format!("configuration {id} is on trial{until}");
    log.tell(event(LogLevel::Info, "trial_began", what).with(Field::Configuration, id));
}

/// A configuration that was on trial stays.
pub(super) fn stays(log: &Log, id: u64, why: &str) {
    let what = format!("configuration {id} stays in force: {why}");
    log.tell(event(LogLevel::Info, "config_confirmed", what).with(Field::Configuration, id));
}

/// A change is refused that `failure` is wrong with.
pub(super) fn refused(log: &Log, request: &Request, failure: &Failure, in_force: &Entry) {
    match &request.wanted {
        Wanted::NamedFiles => {
            findings::tell_faults(log, LogLevel::Warn, failure);
            let what = "the previous files stay in use";
            log.tell(event(LogLevel::Warn, "files_refused", what));
        }
        Wanted::File | Wanted::Documents(_) | Wanted::Past(..) | Wanted::Delivered(_) => {
            findings::tell_faults(log, LogLevel::Error, failure);
            let what = "the previous configuration stays in force";
            log.tell(event(LogLevel::Error, "config_refused", what));
        }
        Wanted::Before(before) => {
            findings::tell_faults(log, LogLevel::Error, failure);
            let id = in_force.id;
            let what = format!(
                "configuration {id} should be taken back ({}), and cannot be yet: it is tried again until it succeeds or \
                 `titan confirm` has the configuration stay",
                before.why
            );
            let event = event(LogLevel::Error, "trial_stuck", what);
            log.tell(event.with(Field::Configuration, id));
        }
    }
}

/// A change is refused because of something that is not in it.
pub(super) fn declined(log: &Log, why: &str) {
    log.tell(event(LogLevel::Error, "config_declined", why));
}

/// There is something to say of the history.
pub(crate) fn history(log: &Log, news: impl IntoIterator<Item = String>) {
    for line in news {
        log.tell(event(LogLevel::Warn, "history", line));
    }
}

fn event(level: LogLevel, kind: &'static str, what: impl std::fmt::Display) -> Event {
    Event::new((LogArea::Config, level), kind, what)
}

/// Why nothing can change while a configuration is on trial.
pub(super) fn on_trial(entry: &Entry, trial: Option<&Trial>) -> String {
    let id = entry.id;
    let until = trial.and_then(Trial::confirm_until).map(rfc3339);
    let until = until.map_or_else(String::new, |until| format!(" until {until}"));
    format!(
        "configuration {id} is on trial{until}: confirm it (`titan confirm`) or take it back (`titan rollback`) first"
    )
}

/// Why no other process can take over while the configuration changes.
pub(super) fn under_way() -> String {
    "a change of the configuration is under way: upgrade again when it is done".to_owned()
}

/// Why nothing can change while another process is about to take over.
pub(super) fn during_upgrade() -> String {
    "an upgrade is under way: ask again when it is done, or has failed".to_owned()
}

/// An attempt to put that in force has not ended for so long.
pub(super) fn takes_long(log: &Log, name: &str, time: Duration) {
    let what = format!(
        "putting {name} in force has taken {time:?} so far, and nothing else can change before that ends: a disk, a mount or a \
            server does not respond"
    );
    log.tell(event(LogLevel::Warn, "change_takes_long", what));
}

/// A look at files has not ended for so long.
pub(super) fn look_takes_long(log: &Log, time: Duration) {
    let what = format!(
        "a look at the files of the configuration has taken {time:?} so far: a disk or a mount does not respond, and changes of \
            files are not noticed before it does"
    );
    log.tell(event(LogLevel::Warn, "look_takes_long", what));
}

/// What whoever asked for a change has to know where another one has come into force before the history was written.
pub(super) fn replaced(id: u64, by: u64) -> String {
    format!("configuration {id} is not in force any more: configuration {by} is")
}

/// Why a configuration cannot be confirmed that is being taken back.
pub(super) fn ending(id: u64) -> String {
    format!("configuration {id} is being taken back; if that fails, it can be confirmed")
}

/// What whoever asked for a change has to know besides.
pub(super) fn notes(in_force: &InForce, trial: Option<&Trial>) -> Vec<String> {
    let mut notes = Vec::new();
    let InForce { file, is_in_file, .. } = in_force;
    if !is_in_file && !config_file::is_standard_input(file) {
        let file = file.display();
        notes.push(format!("{file} says something else: a reload or a restart takes that, unless the change is put there"));
    }
    if let Some(until) = trial.and_then(Trial::confirm_until).map(rfc3339) {
        notes.push(format!("it is taken back at {until} unless `titan confirm` comes before"));
    }
    if trial.is_some_and(Trial::is_guarded) {
        notes.push("it is taken back if requests fare worse than before".to_owned());
    }
    notes
}

fn by(author: Option<&Author>) -> String {
    author.map_or_else(String::new, |author| format!(" by {author}"))
}
