//! What the request halves of policies leave for their response halves.

use crate::compress::Coded;
use crate::findings::Findings;
use crate::list::States;

/// What is noted of a request.
#[derive(Default)]
pub struct PolicyState {
    /// What its policies have found out.
    pub findings: Findings,
    /// What each keeps for its response.
    pub states: States,
}

impl PolicyState {
    /// What is to become of the request's body.
    pub fn coded(&self) -> Coded {
        self.states.compress.coded
    }
}
