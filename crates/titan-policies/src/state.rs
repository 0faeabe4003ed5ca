//! What the request halves of policies leave for the response halves.

use crate::authorise;
use crate::compress::{self, Coded};
use crate::cors;
use crate::findings::Findings;
use crate::rate_limit::{self, FailureNote};
use crate::transform;

/// What is noted of a request.
#[derive(Default)]
pub struct PolicyState {
    /// What its policies have found out.
    pub findings: Findings,
    /// What each keeps for its response.
    pub notes: Notes,
}

/// What each policy keeps for the response.
#[derive(Default)]
pub struct Notes {
    pub(crate) cors: cors::Note,
    pub(crate) early_limit: rate_limit::Note,
    pub(crate) failure_limit: FailureNote,
    pub(crate) authorise: authorise::Note,
    pub(crate) rate_limit: rate_limit::Note,
    pub(crate) transform: transform::Note,
    pub(crate) compress: compress::Note,
}

impl PolicyState {
    /// What the transform has noted.
    pub fn transform(&self) -> &transform::Note {
        &self.notes.transform
    }

    /// What is to become of the request's body.
    pub fn coded(&self) -> Coded {
        self.notes.compress.coded
    }
}
