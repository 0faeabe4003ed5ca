//! What a policy says of a request that nobody has made.

use serde_json::{Map, Value};
use std::net::IpAddr;
use titan_io::error::Kind;

/// What would be decided of a request, and why.
#[derive(Default)]
pub struct Explained {
    /// The reasons.
    pub lines: Vec<String>,
    /// What it would be refused with first.
    pub refused: Option<Kind>,
    /// Whether what its token says counts for nothing behind it.
    pub forgets_token: bool,
    /// The name of the API key that it shows.
    pub api_key: Option<String>,
}

/// What is known of who asks, as far as limits look at it.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The address of the client, if that is known.
    pub client: Option<IpAddr>,
    /// What its token says.
    pub claims: Option<&'a Map<String, Value>>,
    /// The name of its API key.
    pub api_key: Option<&'a str>,
}

impl Explained {
    /// Adds a reason for which it would be refused.
    pub fn refuse(&mut self, kind: Kind, why: String) {
        self.lines.push(why);
        self.refused = self.refused.or(Some(kind));
    }
}
