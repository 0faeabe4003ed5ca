//! What is said of changes: in the log, and to whoever asked.

use super::attempts::{InForce, Wanted};
use super::request::Request;
use super::trial::Trial;
use crate::config_file;
use crate::terminal;
use std::time::Duration;
use titan_admin::history::{Author, Entry, rfc3339};
use titan_config::Config;

/// There are further listeners.
pub(super) fn listening(lines: &[String]) {
    lines.iter().for_each(|line| terminal::say(&format!("{line}\n")));
}

/// Files that the configuration names were read again.
pub(super) fn files_in_use() {
    terminal::say("changed files were read again and are in use\n");
}

/// A change of that name is in force, in place of the configuration with the id `before`.
pub(super) fn in_force(name: &str, request: &Request, config: &Config, before: u64) {
    terminal::warn(&config.warnings);
    match &request.wanted {
        Wanted::NamedFiles => {}
        Wanted::File => terminal::say(&format!("{name} was read again and is in force\n")),
        Wanted::Documents(_) => {
            let author = by(request.author.as_ref());
            terminal::say(&format!("{name} is in force, applied{author}\n"));
        }
        Wanted::Past(..) => {
            let author = by(request.author.as_ref());
            terminal::say(&format!("{name} is in force again, rolled back{author}\n"));
        }
        Wanted::Before(then) => terminal::event(&format!(
            "configuration {before} was taken back: {}; {name} is in force again",
            then.why
        )),
    }
}

/// A configuration that was on trial stays.
pub(super) fn stays(id: u64, why: &str) {
    terminal::say(&format!("configuration {id} stays in force: {why}\n"));
}

/// What is said of a change that `text` is wrong with.
pub(super) fn refused(request: &Request, text: &str, in_force: &Entry) -> String {
    match &request.wanted {
        Wanted::NamedFiles => {
            let text = text.replacen("error", "warning", 1);
            format!("{}; the previous files stay in use\n", text.trim_end())
        }
        Wanted::File | Wanted::Documents(_) | Wanted::Past(..) => {
            format!("{text}the previous configuration stays in force\n")
        }
        Wanted::Before(before) => format!(
            "{text}configuration {} should be taken back ({}), and cannot be yet: it is tried again until it succeeds or \
             `titan confirm` has the configuration stay\n",
            in_force.id, before.why
        ),
    }
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
pub(super) fn takes_long(name: &str, time: Duration) {
    terminal::event(&format!(
        "putting {name} in force has taken {time:?} so far, and nothing else can change before that ends: a disk, a mount or a \
            server does not respond"
    ));
}

/// A look at files has not ended for so long.
pub(super) fn look_takes_long(time: Duration) {
    terminal::event(&format!(
        "a look at the files of the configuration has taken {time:?} so far: a disk or a mount does not respond, and changes of \
            files are not noticed before it does"
    ));
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
