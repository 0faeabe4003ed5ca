//! Authorisation: who may ask at all. Each way to be let in has a module.

mod keys;

use super::Meeting;
use crate::error::{Error, Kind};
use keys::Keys;
use std::net::IpAddr;
use titan_config::Cidr;
use titan_http::{BadField, ResponseHead};

/// A policy, with its keys as they are looked for.
pub(crate) struct Authorise {
    allow: Option<Vec<Cidr>>,
    deny: Vec<Cidr>,
    keys: Option<Keys>,
}

/// What later policies and the answer want to know of the request.
#[derive(Default)]
pub(crate) struct Note {
    /// What the key that it has shown is known by: a part of its hash.
    pub(super) api_key: Option<u64>,
    /// Whether its answer asks for a key.
    lacks_key: bool,
}

impl Authorise {
    /// The policy with that name.
    pub(super) fn new(name: &str, config: &titan_config::Authorise) -> Authorise {
        let titan_config::Authorise { allow, deny, api_keys } = config.clone();
        Authorise { allow, deny, keys: api_keys.map(|keys| Keys::new(name, keys)) }
    }

    pub(super) fn on_request(&self, meeting: &mut Meeting<'_>) -> Result<(), Error> {
        if !self.admits(meeting.client()) {
            return Err(Kind::AddressRefused.into());
        }
        self.keys.as_ref().map_or(Ok(()), |keys| keys.on_request(meeting))
    }

    /// An answer says what would have been taken.
    pub(super) fn on_response(&self, note: &Note, head: &mut ResponseHead) -> Result<(), BadField> {
        match self.keys.as_ref().filter(|_| note.lacks_key) {
            Some(keys) => keys.challenge(head),
            None => Ok(()),
        }
    }

    /// What a request needs, in words.
    pub(super) fn explain(&self) -> String {
        let by_address = self.allow.is_some() || !self.deny.is_empty();
        let mut needs = Vec::new();
        if by_address {
            needs.push("an address that may ask".to_owned());
        }
        if let Some(keys) = &self.keys {
            needs.push(keys.explain());
        }
        format!("needs {}", needs.join(" and "))
    }

    /// A client without an address is in no network, and may be in any.
    fn admits(&self, client: Option<IpAddr>) -> bool {
        let is_in =
            |blocks: &[Cidr]| client.is_some_and(|it| blocks.iter().any(|b| b.contains(it)));
        let is_denied = !self.deny.is_empty() && (client.is_none() || is_in(&self.deny));
        !is_denied && self.allow.as_deref().is_none_or(is_in)
    }
}
