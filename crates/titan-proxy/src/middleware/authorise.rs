//! Authorisation: who may ask at all, by address and by key.

use super::Meeting;
use crate::error::{Error, Kind};
use crate::route::{is_parameter, query_values};
use crate::tls::sha256;
use std::collections::HashMap;
use std::net::IpAddr;
use titan_config::Cidr;
use titan_http::{BadField, RequestHead, ResponseHead};

/// A policy, with its keys as they are looked for.
pub(crate) struct Authorise {
    allow: Option<Vec<Cidr>>,
    deny: Vec<Cidr>,
    keys: Option<Keys>,
}

/// The keys of which a request has to show one.
struct Keys {
    header: Box<[u8]>,
    query: Option<String>,
    /// The field that tells the upstream which key it was.
    tell: Option<Box<[u8]>>,
    /// The names of keys by their hashes: what differs in how long it takes tells of hashes, and not of keys.
    by_hash: HashMap<[u8; 32], Box<str>>,
    challenge: Box<[u8]>,
}

/// What later policies and the answer want to know of the request.
#[derive(Default)]
pub(crate) struct Note {
    /// What the key that it has shown is known by: a part of its hash.
    pub(super) api_key: Option<u64>,
    /// Whether its answer asks for a key.
    lacks_key: bool,
}

/// The longest key in octets.
const MAX_KEY: usize = 512;

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
        let Some(keys) = &self.keys else { return Ok(()) };
        let shown = keys.shown(meeting.request);
        keys.hide(meeting.request)?;
        let Some((id, name)) = shown else {
            meeting.notes.authorise.lacks_key = true;
            return Err(Kind::ApiKey.into());
        };
        meeting.notes.authorise.api_key = Some(id);
        let told = keys
            .tell
            .as_ref()
            .map(|field| meeting.request.fields.append_named(field, name.as_bytes()));
        told.unwrap_or(Ok(())).map_err(|_| Kind::Internal.into())
    }

    /// Whoever asks without a key that is taken is told that it takes one (RFC 9110 section 11.6.1).
    pub(super) fn on_response(&self, note: &Note, head: &mut ResponseHead) -> Result<(), BadField> {
        match self.keys.as_ref().filter(|_| note.lacks_key) {
            Some(keys) => head.fields.append_named(b"WWW-Authenticate", &keys.challenge),
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
            needs.push(format!("an API key in {}", String::from_utf8_lossy(&keys.header)));
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

impl Keys {
    fn new(name: &str, config: titan_config::ApiKeys) -> Keys {
        let titan_config::ApiKeys { header, query, tell, keys } = config;
        let by_hash = keys.iter().map(|key| (*key.hash.octets(), key.name.as_str().into()));
        Keys {
            header: header.as_str().as_bytes().into(),
            query,
            tell: tell.map(|name| name.as_str().as_bytes().into()),
            by_hash: by_hash.collect(),
            challenge: format!("ApiKey realm=\"{name}\"").into_bytes().into(),
        }
    }

    /// The key that a request shows, by a part of its hash and its name; one that shows several shows none.
    fn shown(&self, request: &RequestHead) -> Option<(u64, &str)> {
        let mut fields = request.fields.named(&self.header);
        let name = self.query.as_deref();
        let mut parameters = name.map(|name| query_values(request.query(), name));
        let parameter = parameters.as_mut().and_then(Iterator::next);
        let more = fields.next().map(|first| (first, fields.next()));
        let more_parameters = parameters.as_mut().and_then(Iterator::next);
        match (more, &parameter, more_parameters) {
            (Some((key, None)), None, None) => self.find(key),
            (None, Some(key), None) => self.find(key),
            _ => None,
        }
    }

    fn find(&self, key: &[u8]) -> Option<(u64, &str)> {
        if !(1..=MAX_KEY).contains(&key.len()) {
            return None;
        }
        let hash = sha256(key);
        let name = self.by_hash.get(&hash)?;
        let (id, _) = hash.split_first_chunk()?;
        Some((u64::from_be_bytes(*id), name))
    }

    /// Removes what carries keys, right ones and wrong ones: they are nobody's business behind this.
    fn hide(&self, request: &mut RequestHead) -> Result<(), Error> {
        let is_ours = |name: &[u8]| {
            is_read_as(name, &self.header)
                || self.tell.as_ref().is_some_and(|tell| is_read_as(name, tell))
        };
        request.fields.retain(|field| !is_ours(field.name));
        let (Some(name), Some(query)) = (&self.query, request.query()) else { return Ok(()) };
        let pairs = || query.split(|&octet| octet == b'&');
        if !pairs().any(|pair| is_parameter(pair, name)) {
            return Ok(());
        }
        let kept: Vec<_> = pairs().filter(|pair| !is_parameter(pair, name)).collect();
        let kept = kept.join(b"&".as_slice());
        let query = (!kept.is_empty()).then_some(kept.as_slice());
        request.set_query(query).map_err(|_| Kind::Internal.into())
    }
}

/// Whether a server may take the name for ours: those that make variables of names cannot tell `_` from `-`.
fn is_read_as(name: &[u8], ours: &[u8]) -> bool {
    let as_read = |octet: &u8| if *octet == b'_' { b'-' } else { octet.to_ascii_lowercase() };
    name.len() == ours.len() && name.iter().map(as_read).eq(ours.iter().map(as_read))
}
