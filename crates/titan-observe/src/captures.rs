//! What of messages and tokens is noted beside what every record has.

use titan_config::{AccessLog, Claim, HeaderName};

/// What some log wants to know.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    /// Header fields of requests.
    pub request_headers: Vec<HeaderName>,
    /// Header fields of responses.
    pub response_headers: Vec<HeaderName>,
    /// Claims of tokens, by the names that records have them under.
    pub claims: Vec<(Box<str>, Claim)>,
}

impl Captures {
    /// What these logs want to know; none where there are no logs.
    pub fn of(logs: &[AccessLog]) -> Option<Captures> {
        let mut all = titan_config::Captures::default();
        logs.iter().for_each(|log| all.add(&log.captures));
        let titan_config::Captures { request_headers, response_headers, claims } = all;
        let claims = claims.into_iter().map(|claim| (claim.to_string().into(), claim)).collect();
        (!logs.is_empty()).then_some(Captures { request_headers, response_headers, claims })
    }
}
