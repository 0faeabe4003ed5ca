//! What was in force: an entry for each configuration.

use crate::hex::hex;
use serde::Serialize;
use std::fmt;
use std::time::SystemTime;
use time::OffsetDateTime;

/// One configuration that was put in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// What `titan rollback` calls it. Later ones have larger ids.
    pub id: u64,
    /// When it came into force.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// What made it so.
    pub source: Source,
    /// Who asked for it, where somebody did.
    pub author: Option<Author>,
    /// Whether it is in force now.
    pub in_force: bool,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, where that is not plain.
    pub why: Option<String>,
    /// The SHA-256 of its documents, in hexadecimal digits.
    pub sha256: String,
}

impl Entry {
    /// That of a configuration with that SHA-256, which is in force from `now` on.
    pub fn new(
        id: u64,
        now: SystemTime,
        (source, author): (Source, Option<Author>),
        sha256: [u8; 32],
    ) -> Entry {
        let now = OffsetDateTime::from(now);
        Entry {
            id,
            at: now.replace_nanosecond(0).unwrap_or(now),
            source,
            author,
            in_force: true,
            outcome: Outcome::Applied,
            why: None,
            sha256: hex(sha256),
        }
    }
}

/// What made a configuration come into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The start of the process.
    Start,
    /// A signal.
    Signal,
    /// A change of the file that is watched.
    Watch,
    /// The admin interface.
    Admin,
    /// A rollback that was asked for.
    Rollback,
    /// The end of a trial: the one before it is in force again.
    TakenBack,
}

/// What became of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It came into force for as long as there is no other.
    Applied,
    /// It is in force, and is taken back unless it is confirmed or its guard is content.
    OnTrial,
    /// It was on trial, and has stayed.
    Confirmed,
    /// It was on trial, and the one before it was put in force again.
    TakenBack,
    /// It was on trial when the process ended: the next start read the file.
    Unconfirmed,
}

/// Who asks for a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// Who sent the process a signal.
    Signal,
    /// The gateway, which watches its file.
    Watch,
    /// A process on this machine, over a Unix socket.
    Peer {
        /// Its user.
        uid: u32,
        /// Its id, where the system tells.
        pid: Option<i32>,
    },
    /// The holder of the bearer token of that name.
    Token(String),
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Author::Signal => f.write_str("signal"),
            Author::Watch => f.write_str("watch"),
            Author::Peer { uid, pid: Some(pid) } => write!(f, "uid {uid} (pid {pid})"),
            Author::Peer { uid, pid: None } => write!(f, "uid {uid}"),
            Author::Token(name) => write!(f, "token {name}"),
        }
    }
}
