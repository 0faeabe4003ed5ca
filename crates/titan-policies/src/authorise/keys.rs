//! API keys.

use super::OwnState;
use crate::authorise::API_KEY;
use crate::context::{Failure, PolicyContext};
use crate::findings::ApiKey as Shown;
use crate::story::Story;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::Arc;
use titan_config::{ApiKey, ApiKeys, api_keys_in};
use titan_http::query::{self, is_parameter};
use titan_http::{BadField, RequestHead, ResponseHead};
use titan_io::error::{Error, Kind};
use titan_io::tls::{BadCredentials, Files, bad, sha256};

/// The keys of which a request must present one.
pub(super) struct AcceptedKeys {
    header: Box<[u8]>,
    query: Option<String>,
    /// The field that carries the name of the key to the upstream.
    identity_header: Option<Box<[u8]>>,
    known: ArcSwap<KnownKeys>,
    challenge: Box<[u8]>,
}

/// The names of keys by their hashes: what differs in how long it takes tells of hashes, and not of keys.
#[derive(Default)]
pub(super) struct KnownKeys(HashMap<[u8; 32], Arc<str>>);

impl KnownKeys {
    /// Those of the configuration and those of its file.
    pub(super) fn read(config: &ApiKeys, files: &Files) -> Result<KnownKeys, BadCredentials> {
        let mut known = KnownKeys::of(&config.keys);
        let Some(file) = &config.file else { return Ok(known) };
        for key in api_keys_in(files.get(file)?).map_err(|reason| bad(file, reason))? {
            if known.add(&key).is_some() {
                let reason = format!("`{}` has the hash of another key", key.name.as_str());
                return Err(bad(file, reason));
            }
        }
        Ok(known)
    }

    /// Those of the configuration alone.
    pub(super) fn of(keys: &[ApiKey]) -> KnownKeys {
        let mut known = KnownKeys::default();
        keys.iter().for_each(|key| drop(known.add(key)));
        known
    }

    fn add(&mut self, key: &ApiKey) -> Option<Arc<str>> {
        self.0.insert(*key.hash.bytes(), key.name.as_str().into())
    }
}

impl AcceptedKeys {
    pub(super) fn new(name: &str, config: &ApiKeys, known: Arc<KnownKeys>) -> AcceptedKeys {
        let ApiKeys { header, query, identity_header, .. } = config;
        AcceptedKeys {
            header: header.as_str().as_bytes().into(),
            query: query.clone(),
            identity_header: identity_header.as_ref().map(|name| name.as_str().as_bytes().into()),
            known: ArcSwap::new(known),
            challenge: format!("ApiKey realm=\"{name}\"").into_bytes().into(),
        }
    }

    /// Takes other keys.
    pub(super) fn replace_known(&self, known: Arc<KnownKeys>) {
        self.known.store(known);
    }

    /// Takes the key out of a request; it goes on with one that is known.
    pub(super) fn on_request(
        &self,
        context: &mut PolicyContext<'_>,
        own: &mut OwnState<'_>,
    ) -> Result<(), Error> {
        let shown = self.shown(context.request);
        if shown.is_none() && self.has_any(context.request) {
            context.fail(Failure::ApiKey);
        }
        self.hide(context.request)?;
        let Some(shown) = shown else {
            own.state.lacks_key = true;
            return Err(API_KEY.into());
        };
        self.write_identity(shown, context)
    }

    /// Notes the key of a request, and writes its name for the upstream.
    pub(super) fn write_identity(
        &self,
        shown: Shown,
        context: &mut PolicyContext<'_>,
    ) -> Result<(), Error> {
        let (_, name) = &shown;
        let append = |field: &[u8]| context.request.fields.append_named(field, name.as_bytes());
        self.identity_header.as_deref().map_or(Ok(()), append).map_err(|_| Kind::Internal)?;
        context.findings.api_key = Some(shown);
        Ok(())
    }

    /// A client without a valid key gets a challenge (RFC 9110 section 11.6.1).
    pub(super) fn challenge(&self, head: &mut ResponseHead) -> Result<(), BadField> {
        head.fields.append_named(b"WWW-Authenticate", &self.challenge)
    }

    /// Whose key a request has; takes it out.
    pub(super) fn explain(
        &self,
        context: &mut PolicyContext<'_>,
        story: &mut Story<'_>,
    ) -> Result<(), Error> {
        match self.shown(context.request) {
            Some(shown) => {
                story.tell(format!("has the API key `{}`", shown.1));
                context.findings.api_key = Some(shown);
            }
            None => {
                let mut place = String::from_utf8_lossy(&self.header).into_owned();
                if let Some(name) = &self.query {
                    place = format!("{place} or the parameter `{name}`");
                }
                story.refuse(API_KEY, format!("needs exactly one valid API key in {place}"));
            }
        }
        self.hide(context.request)
    }

    /// The key of a request, by a part of its hash and its name; a request with several has none.
    pub(super) fn shown(&self, request: &RequestHead) -> Option<Shown> {
        let mut fields = request.fields.named(&self.header);
        let name = self.query.as_deref();
        let mut parameters = name.map(|name| query::values(request.query(), name));
        let parameter = parameters.as_mut().and_then(Iterator::next);
        let more = fields.next().map(|first| (first, fields.next()));
        let more_parameters = parameters.as_mut().and_then(Iterator::next);
        match (more, &parameter, more_parameters) {
            (Some((key, None)), None, None) => self.find(key),
            (None, Some(key), None) => self.find(key),
            _ => None,
        }
    }

    /// Whether a request has anything where keys come.
    pub(super) fn has_any(&self, request: &RequestHead) -> bool {
        let in_query = |name: &String| query::values(request.query(), name).next().is_some();
        request.fields.named(&self.header).next().is_some()
            || self.query.as_ref().is_some_and(in_query)
    }

    fn find(&self, key: &[u8]) -> Option<Shown> {
        if !(1..=MAX_KEY).contains(&key.len()) {
            return None;
        }
        let hash = sha256(key);
        let name = Arc::clone(self.known.load().0.get(&hash)?);
        let (id, _) = hash.split_first_chunk()?;
        Some((u64::from_be_bytes(*id), name))
    }

    /// Removes keys from the request, valid or not: they must not go any further.
    pub(super) fn hide(&self, request: &mut RequestHead) -> Result<(), Error> {
        request.fields.remove_named(&self.header);
        let (Some(name), Some(query)) = (&self.query, request.query()) else { return Ok(()) };
        let pairs = || query.split(|&byte| byte == b'&');
        if !pairs().any(|pair| is_parameter(pair, name)) {
            return Ok(());
        }
        let kept: Vec<_> = pairs().filter(|pair| !is_parameter(pair, name)).collect();
        let kept = kept.join(b"&".as_slice());
        let query = (!kept.is_empty()).then_some(kept.as_slice());
        request.set_query(query).map_err(|_| Kind::Internal.into())
    }
}

/// The longest key in bytes.
const MAX_KEY: usize = 512;
