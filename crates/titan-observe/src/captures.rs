//! Which claims of tokens are noted. Of messages the fields are, all of them.

use titan_config::{AccessLog, Claim};

/// The claims that some log wants to know, by the names that records have them under.
#[derive(Clone, Debug, Default)]
pub struct Captures(pub Vec<(Box<str>, Claim)>);

impl Captures {
    /// Those that these logs want to know.
    pub fn of(logs: &[AccessLog]) -> Captures {
        let mut all = titan_config::Captures::default();
        logs.iter().for_each(|log| all.add(&log.captures));
        let claims = all.claims.into_iter();
        Captures(claims.map(|claim| (claim.to_string().into(), claim)).collect())
    }
}
