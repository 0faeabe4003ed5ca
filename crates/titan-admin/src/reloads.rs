//! Which configuration is in force, and how the last attempt to put one in force went.

use crate::hex::hex;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// What metrics tell of the configuration.
#[derive(Debug)]
pub struct Reloads(Mutex<Attempts>);

/// The attempts to put another configuration in force, and what they came to.
#[derive(Clone, Debug)]
pub struct Attempts {
    /// The SHA-256 of the file in force, in hexadecimal digits.
    pub digest: String,
    /// What the history calls it; `None` without a history, as in the demo.
    pub id: Option<u64>,
    /// When it came into force.
    pub in_force_since: SystemTime,
    /// How many have succeeded.
    pub applied: u64,
    /// How many have failed.
    pub refused: u64,
    /// When the last one was made; `None` if none was since the start.
    pub last: Option<SystemTime>,
    /// What was refused last and has not come into force since.
    pub refused_last: Option<Subject>,
    /// Whether the configuration in force is on trial.
    pub is_on_trial: bool,
    /// Until when it has to be confirmed, where it has to.
    pub confirm_until: Option<SystemTime>,
    /// How many were taken back, in the order of [`Cause::ALL`].
    pub taken_back: [u64; Cause::ALL.len()],
    /// How many entries of the history are not on the disk although they should be.
    pub unsaved: usize,
    /// The sources, by name.
    pub sources: Vec<SourceStatus>,
    /// Whether all sources there were had something to serve at one time: one that is added later makes nothing worse.
    is_fed: bool,
}

/// A source of more documents, and how it fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// What it is, as in the configuration.
    pub kind: &'static str,
    /// Whether its documents may name files and variables of this machine.
    pub local_files: bool,
    /// What the source calls the state of its documents that was delivered last; `None` before the first delivery.
    pub revision: Option<String>,
    /// When it could be asked last.
    pub succeeded: Option<SystemTime>,
    /// Why it could not be asked since.
    pub failure: Option<String>,
    /// How many of its documents are in force.
    pub documents: usize,
    /// Its documents that are held back, each with the reason.
    pub held_back: Vec<(String, String)>,
}

/// How a source fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// It was not asked yet.
    Waiting,
    /// It could be asked when it was asked last.
    Up,
    /// It could not.
    Failing,
}

impl SourceState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            SourceState::Waiting => "waiting",
            SourceState::Up => "up",
            SourceState::Failing => "failing",
        }
    }
}

impl SourceStatus {
    /// How it fares.
    pub(crate) fn state(&self) -> SourceState {
        match (&self.failure, self.succeeded) {
            (Some(_), _) => SourceState::Failing,
            (None, Some(_)) => SourceState::Up,
            (None, None) => SourceState::Waiting,
        }
    }
}

/// What is put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A configuration, with the files that it names.
    Configuration,
    /// Other files for the configuration in force.
    Files,
}

/// Why a configuration was taken back that was on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was not confirmed in time.
    Unconfirmed,
    /// Requests fared worse than before.
    Guard,
    /// Somebody asked for that.
    Rollback,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 3] = [Cause::Unconfirmed, Cause::Guard, Cause::Rollback];

    /// What metrics call it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Cause::Unconfirmed => "unconfirmed",
            Cause::Guard => "guard",
            Cause::Rollback => "rollback",
        }
    }
}

impl Reloads {
    /// What there is to tell after the start with a file of that SHA-256.
    pub fn new(digest: [u8; 32]) -> Reloads {
        Reloads(Mutex::new(Attempts {
            digest: hex(digest),
            id: None,
            in_force_since: SystemTime::now(),
            applied: 0,
            refused: 0,
            last: None,
            refused_last: None,
            is_on_trial: false,
            confirm_until: None,
            taken_back: [0; Cause::ALL.len()],
            unsaved: 0,
            sources: Vec::new(),
            is_fed: false,
        }))
    }

    /// Notes that a file of that SHA-256 is in force, or is with other files, and what the history calls it.
    pub fn note_applied(&self, subject: Subject, (digest, id): ([u8; 32], u64), now: SystemTime) {
        let mut attempts = self.lock();
        (attempts.digest, attempts.id) = (hex(digest), Some(id));
        attempts.applied += 1;
        attempts.last = Some(now);
        if subject == Subject::Configuration {
            attempts.in_force_since = now;
        }
        // Other files do not make a configuration good that was refused.
        let settles = |refused: &Subject| subject == Subject::Configuration || *refused == subject;
        attempts.refused_last = attempts.refused_last.filter(|refused| !settles(refused));
    }

    /// Notes that something was refused: what was in force before is still.
    pub fn note_refused(&self, subject: Subject, now: SystemTime) {
        let mut attempts = self.lock();
        attempts.refused += 1;
        attempts.last = Some(now);
        let before = attempts.refused_last.filter(|it| *it == Subject::Configuration);
        attempts.refused_last = before.or(Some(subject));
    }

    /// Notes that something was refused without a look at it.
    pub fn note_declined(&self, now: SystemTime) {
        let mut attempts = self.lock();
        attempts.refused += 1;
        attempts.last = Some(now);
    }

    /// Notes that the configuration on trial was taken back.
    pub fn note_taken_back(&self, cause: Cause) {
        let mut attempts = self.lock();
        let counts = attempts.taken_back.iter_mut().zip(Cause::ALL);
        counts.filter(|(_, of)| *of == cause).for_each(|(count, _)| *count += 1);
    }

    /// Notes what the history calls the configuration in force by now: ids move behind those that another process has written.
    pub fn note_id(&self, id: u64) {
        self.lock().id = Some(id);
    }

    /// Notes whether the configuration in force is on trial, until when it has to be confirmed then, and how much of the history is
    /// not on the disk although it should be.
    pub fn note_standing(
        &self,
        is_on_trial: bool,
        confirm_until: Option<SystemTime>,
        unsaved: usize,
    ) {
        let mut attempts = self.lock();
        (attempts.is_on_trial, attempts.unsaved) = (is_on_trial, unsaved);
        attempts.confirm_until = confirm_until;
    }

    /// Notes how the sources fare.
    pub fn note_sources(&self, sources: Vec<SourceStatus>) {
        let mut attempts = self.lock();
        attempts.is_fed |= sources.iter().all(|source| source.revision.is_some());
        attempts.sources = sources;
    }

    /// Whether something of each source that there was at the start was tried, or was in force before.
    pub fn has_all_sources(&self) -> bool {
        let attempts = self.lock();
        attempts.is_fed || attempts.sources.is_empty()
    }

    /// When the last attempt was made, and whether it has succeeded; `None` if none was since the start.
    pub fn last(&self) -> Option<(SystemTime, bool)> {
        let attempts = self.lock();
        attempts.last.map(|when| (when, attempts.refused_last.is_none()))
    }

    /// What there is to tell.
    pub fn attempts(&self) -> Attempts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_count_until_each_has_had_something_once() {
        let source = |name: &str, revision: Option<&str>| SourceStatus {
            name: name.to_owned(),
            kind: "http",
            local_files: false,
            revision: revision.map(str::to_owned),
            succeeded: None,
            failure: None,
            documents: 0,
            held_back: Vec::new(),
        };
        let (some, none) = (|name| source(name, Some("1")), |name| source(name, None));
        let reloads = Reloads::new([0; 32]);
        assert!(reloads.has_all_sources());
        for (sources, expected) in [
            (vec![some("a"), none("b")], false),
            (vec![none("a"), some("b")], false),
            (vec![some("a"), some("b")], true),
            // One that a reload adds to a gateway that serves.
            (vec![some("a"), none("c")], true),
        ] {
            reloads.note_sources(sources);
            assert_eq!(reloads.has_all_sources(), expected);
        }
    }
}
