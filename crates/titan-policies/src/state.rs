//! What the request halves of policies leave for their response halves.

use crate::compress::{CODING_REFUSED, Coded, Decoding};
use crate::fault::Truncation;
use crate::findings::Findings;
use crate::list::States;
use titan_http::BodyLength;
use titan_io::error::Error;

/// What is noted of a request.
#[derive(Default)]
pub struct PolicyState {
    /// What its policies have found out.
    pub findings: Findings,
    /// What each keeps for its response.
    pub states: States,
}

impl PolicyState {
    /// How the body of a request with that length is decoded, if it is.
    pub fn decoding(&self, length: BodyLength) -> Result<Option<Decoding>, Error> {
        match self.states.compress.coded {
            _ if length.is_empty() => Ok(None),
            Coded::Stays => Ok(None),
            Coded::Decode(decoding) => Ok(Some(decoding)),
            Coded::Refused => Err(CODING_REFUSED.into()),
        }
    }

    /// What cuts the response off, where it is to end early on purpose.
    pub fn truncation(&self) -> Option<Truncation> {
        self.states.fault.0.map(Truncation::after)
    }
}
