//! `/sources`: where more of the configuration comes from, and what of it is held back.

use crate::http::Response;
use crate::reloads::{SourceState, SourceStatus};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;
use time::OffsetDateTime;
use titan_http::Status;

/// All sources.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sources {
    /// By name.
    pub sources: Vec<Source>,
}

/// A source, as the call shows it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// What it is: the key of the configuration that describes it.
    pub kind: String,
    /// Whether its documents may name files and variables of this machine.
    pub local_files: bool,
    /// How it fares.
    pub state: SourceState,
    /// What the source calls what it has delivered last.
    pub revision: Option<String>,
    /// When it could be asked last.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_success: Option<OffsetDateTime>,
    /// Why it could not be asked since.
    pub failure: Option<String>,
    /// How many of its documents are in force.
    pub documents: usize,
    /// Those that are held back.
    pub held_back: Vec<HeldBack>,
}

/// A document that is held back.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeldBack {
    /// Its name.
    pub document: String,
    /// Why.
    pub reason: String,
}

pub(crate) fn list(sources: &[SourceStatus]) -> Response {
    let sources = sources.iter().map(shown).collect();
    Response::json(Status::OK, &Sources { sources })
}

fn shown(source: &SourceStatus) -> Source {
    let SourceStatus {
        name,
        kind,
        local_files,
        revision,
        succeeded,
        failure,
        documents,
        held_back,
    } = source;
    let held = |(document, reason): &(String, String)| HeldBack {
        document: document.clone(),
        reason: reason.clone(),
    };
    Source {
        name: name.clone(),
        kind: (*kind).to_owned(),
        local_files: *local_files,
        state: source.state(),
        revision: revision.clone(),
        last_success: succeeded.map(in_seconds),
        failure: failure.clone(),
        documents: *documents,
        held_back: held_back.iter().map(held).collect(),
    }
}

fn in_seconds(time: SystemTime) -> OffsetDateTime {
    let time = OffsetDateTime::from(time);
    time.replace_nanosecond(0).unwrap_or(time)
}
