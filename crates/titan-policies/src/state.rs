//! What the request halves of policies leave for the response halves.

use crate::authorise;
use crate::compress::{self, Coded};
use crate::cors;
use crate::findings::Findings;
use crate::rate_limit::{self, FailureState};
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
    pub(crate) cors: cors::CorsState,
    pub(crate) early_limit: rate_limit::RateLimitState,
    pub(crate) failure_limit: FailureState,
    pub(crate) authorise: authorise::AuthoriseState,
    pub(crate) rate_limit: rate_limit::RateLimitState,
    pub(crate) transform: transform::TransformState,
    pub(crate) compress: compress::CompressState,
}

impl PolicyState {
    /// What the transform has noted.
    pub fn transform(&self) -> &transform::TransformState {
        &self.notes.transform
    }

    /// What is to become of the request's body.
    pub fn coded(&self) -> Coded {
        self.notes.compress.coded
    }
}
