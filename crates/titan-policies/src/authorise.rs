//! Authorisation: who may ask at all. Each way to be let in has a module.

mod any_of;
mod basic;
mod cells;
mod claims;
mod forward;
mod keys;
mod rules;

pub(super) use basic::user_shown;
pub use basic::{Remembered, Users, Verifiers};
pub use cells::{ForwardAuthCells, PasswordCells};
pub(super) use claims::holds;
pub use forward::Decisions;

use crate::context::{PolicyContext, Step};
use crate::explained::Explained;
use crate::values::certificate_mismatch;
use basic::Basic;
use claims::Claims;
use forward::Forward;
use keys::{Keys, KnownKeys};
use rules::Rules;
pub(super) use rules::{Unmet, View};
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::Arc;
use titan_config::{CertificateMatch, Cidr, Config, Credential};
use titan_http::{BadField, RequestHead, ResponseHead};
use titan_io::error::{Error, Kind};
use titan_io::tls::{BadCredentials, Files, Identity};

/// A policy, with its keys as they are looked for.
pub struct Authorise {
    allow: Option<Vec<Cidr>>,
    deny: Vec<Cidr>,
    /// The certificates that may ask; those of all clients without.
    certificates: Option<Vec<Vec<CertificateMatch>>>,
    keys: Option<Keys>,
    /// The ways of which one is enough, in the order in which they are tried.
    any_of: Vec<Credential>,
    claims: Option<Claims>,
    rules: Option<Rules>,
    basic: Option<Basic>,
    forward: Option<Forward>,
}

/// What the credentials of requests are compared with.
#[derive(Default)]
pub struct Known {
    users: Users,
    keys: KnownKeys,
}

impl Known {
    /// What a policy and its files have.
    pub fn read(config: &titan_config::Authorise, files: &Files) -> Result<Known, BadCredentials> {
        let users = config.basic.as_ref().map(|basic| Users::read(basic, files)).transpose()?;
        let keys = config.api_keys.as_ref().map(|keys| KnownKeys::read(keys, files)).transpose()?;
        Ok(Known { users: users.unwrap_or_default(), keys: keys.unwrap_or_default() })
    }

    /// What a policy has whose files nobody has read.
    fn of(config: &titan_config::Authorise) -> Known {
        let keys = config.api_keys.as_ref().map(|keys| KnownKeys::of(&keys.keys));
        Known { users: Users::default(), keys: keys.unwrap_or_default() }
    }
}

/// What the response has to say of the request.
#[derive(Default)]
pub struct AuthoriseState {
    /// Whether its response asks for a key.
    lacks_key: bool,
    /// What its response has to say of passwords.
    password: Option<basic::PasswordChallenge>,
}

/// What the policy keeps for a request, and for all of its worker.
pub(crate) struct Own<'a> {
    pub(crate) note: &'a mut AuthoriseState,
    pub(crate) passwords: &'a Remembered,
    pub(crate) decisions: &'a Decisions,
    pub(crate) password_cells: &'a PasswordCells,
    pub(crate) forward_cells: &'a ForwardAuthCells,
}

/// What is known of a request beside its head.
#[derive(Clone, Copy, Default)]
pub struct Asked<'a> {
    /// What its token says.
    pub claims: Option<&'a Map<String, Value>>,
    /// The certificate that its client has shown.
    pub identity: Option<&'a Identity>,
    /// The address of its client.
    pub client: Option<IpAddr>,
}

impl Authorise {
    /// The policy with that name, at that place of the configuration.
    pub(super) fn new(
        name: &str,
        own: &titan_config::Authorise,
        known: Option<Known>,
        (config, place): (&Config, usize),
        verifiers: &Arc<Verifiers>,
    ) -> Authorise {
        let Known { users, keys } = known.unwrap_or_else(|| Known::of(own));
        let forward = own.forward_auth.clone();
        Authorise {
            allow: own.allow.clone(),
            deny: own.deny.clone(),
            certificates: own.client_certificate.clone(),
            keys: own.api_keys.clone().map(|config| Keys::new(name, config, keys)),
            any_of: own.any_of.clone(),
            claims: Claims::new(own),
            rules: Rules::new(&own.rules),
            basic: own.basic.as_ref().map(|basic| Basic::new(basic, users, verifiers)),
            forward: forward.map(|forward| Forward::new(*forward, config, place)),
        }
    }

    /// Its users and keys as the files have them by now.
    pub(super) fn read_known(&self, files: &Files) -> Result<Known, BadCredentials> {
        let users = self.basic.as_ref().map(|basic| basic.read_users(files)).transpose()?;
        let keys = self.keys.as_ref().map(|keys| keys.read_known(files)).transpose()?;
        Ok(Known { users: users.unwrap_or_default(), keys: keys.unwrap_or_default() })
    }

    /// Takes other users and keys.
    pub(super) fn replace_known(&self, known: Known) {
        let Known { users, keys } = known;
        if let Some(basic) = &self.basic {
            basic.replace_users(users);
        }
        if let Some(own) = &self.keys {
            own.replace_known(keys);
        }
    }

    /// Whether there are passwords to check.
    pub(super) fn has_passwords(&self) -> bool {
        self.basic.is_some()
    }

    /// What costs least comes first, so that nobody has passwords checked whom something cheaper would stop.
    pub(super) async fn on_request(
        &self,
        meeting: &mut PolicyContext<'_>,
        own: &mut Own<'_>,
    ) -> Result<Step, Error> {
        if !self.admits(meeting.client()) {
            return Err(Kind::AddressRefused.into());
        }
        if self.requires(Credential::ClientCertificate) && !self.takes(meeting.identity()) {
            return Err(Kind::CertificateRefused.into());
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| self.requires(Credential::ApiKeys)) {
            keys.on_request(meeting, own)?;
        }
        if let Some(claims) = self.claims.as_ref().filter(|_| self.requires(Credential::Token)) {
            claims.on_request(meeting.findings)?;
        }
        if !self.any_of.is_empty() {
            Box::pin(self.meet_any(meeting, own)).await?;
        }
        if let Some(rules) = &self.rules {
            let asked = Asked {
                claims: meeting.findings.claims(),
                identity: meeting.identity(),
                client: meeting.client(),
            };
            rules.on_request(meeting.request, asked)?;
        }
        if let Some(basic) = self.basic.as_ref().filter(|_| self.requires(Credential::Basic)) {
            Box::pin(basic.on_request(meeting, own)).await?;
        }
        match &self.forward {
            Some(forward) => Box::pin(forward.on_request(meeting, own)).await,
            None => Ok(Step::Go),
        }
    }

    /// A response says what would have been taken.
    pub(super) fn on_response(
        &self,
        note: &AuthoriseState,
        head: &mut ResponseHead,
    ) -> Result<(), BadField> {
        if let Some(keys) = self.keys.as_ref().filter(|_| note.lacks_key) {
            keys.challenge(head)?;
        }
        match (&self.basic, note.password) {
            (Some(basic), Some(note)) => basic.on_response(note, head),
            _ => Ok(()),
        }
    }

    /// What is decided of a request, as far as it can be told without its connection. Where nobody has said where it
    /// comes from (`is_anybody`), nothing is decided by its address.
    pub(super) fn explain(
        &self,
        request: &mut RequestHead,
        mut asked: Asked<'_>,
        is_anybody: bool,
    ) -> Result<Explained, Error> {
        let mut told = Explained::default();
        if self.allow.is_some() || !self.deny.is_empty() {
            match (is_anybody, self.admits(asked.client)) {
                (true, _) => told
                    .lines
                    .push("needs an address that may ask; `--from` says which it is".to_owned()),
                (false, true) => told.lines.push("the client's address may ask".to_owned()),
                (false, false) => {
                    let why = "the client's address may not ask".to_owned();
                    told.refuse(Kind::AddressRefused, why);
                }
            }
        }
        if self.certificates.is_some() && self.requires(Credential::ClientCertificate) {
            match self.takes(asked.identity) {
                true => told.lines.push("the certificate that is shown may ask".to_owned()),
                false => {
                    let why = "no certificate is shown that may ask".to_owned();
                    told.refuse(Kind::CertificateRefused, why);
                }
            }
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| self.requires(Credential::ApiKeys)) {
            keys.explain(request, &mut told)?;
        }
        if let Some(claims) = self.claims.as_ref().filter(|_| self.requires(Credential::Token)) {
            claims.explain(asked.claims, &mut told);
        }
        if !self.any_of.is_empty() {
            self.explain_any(request, asked, &mut told)?;
        }
        if told.forgets_token {
            asked.claims = None;
        }
        if let Some(rules) = &self.rules {
            rules.explain(request, asked, is_anybody, &mut told);
        }
        if let Some(basic) = self.basic.as_ref().filter(|_| self.requires(Credential::Basic)) {
            basic.explain(request, &mut told);
        }
        if let Some(forward) = &self.forward {
            told.lines.push(forward.explain());
        }
        Ok(told)
    }

    /// Whether a client may ask that has shown that certificate.
    fn takes(&self, identity: Option<&Identity>) -> bool {
        let is_met = |all: &Vec<_>| certificate_mismatch(all, identity).is_none();
        self.certificates.as_ref().is_none_or(|any| any.iter().any(is_met))
    }

    /// A client without an address is in no network, and may be in any.
    fn admits(&self, client: Option<IpAddr>) -> bool {
        let is_in =
            |blocks: &[Cidr]| client.is_some_and(|it| blocks.iter().any(|b| b.contains(it)));
        let is_denied = !self.deny.is_empty() && (client.is_none() || is_in(&self.deny));
        !is_denied && self.allow.as_deref().is_none_or(is_in)
    }
}
