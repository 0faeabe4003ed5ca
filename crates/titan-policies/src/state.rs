//! What the request halves of policies leave for the response halves.

use crate::authorise;
use crate::compress::{self, Coded};
use crate::cors;
use crate::jwt;
use crate::rate_limit::{self, FailureNote};
use crate::transform;
use serde_json::{Map, Value};

/// What the request halves leave for the response halves.
#[derive(Default)]
pub struct PolicyState {
    pub(crate) cors: cors::Note,
    pub(crate) early_limit: rate_limit::Note,
    pub(crate) failure_limit: FailureNote,
    pub(crate) jwt: jwt::Note,
    pub(crate) authorise: authorise::Note,
    pub(crate) rate_limit: rate_limit::Note,
    pub(crate) transform: transform::Note,
    pub(crate) compress: compress::Note,
}

impl PolicyState {
    /// What the request's token says; none where no policy asks for one.
    pub fn claims(&self) -> Option<&Map<String, Value>> {
        self.jwt.claims()
    }

    /// What is to become of the request's body.
    pub fn coded(&self) -> Coded {
        self.compress.coded
    }

    /// What the request's token lacks, where the client may know.
    pub fn missing(&self) -> &[String] {
        &self.authorise.missing
    }
}
