//! Authorisation: which requests are allowed. Each kind of credential has a module.

mod any_of;
mod basic;
mod cells;
mod claims;
mod forward;
mod keys;
mod rules;
mod view;

pub(super) use basic::presented_user;
pub(crate) use basic::{Remembered, Users, Verifiers};
pub(crate) use cells::AuthoriseCells;
pub(super) use claims::holds;
pub(crate) use forward::Decisions;

use crate::context::{PolicyContext, Step};
use crate::policy::{Metric, Policy, Response, Setting};
use crate::story::Story;
use crate::values::certificate_mismatch;
use basic::Basic;
use claims::Claims;
use forward::Forward;
use keys::{AcceptedKeys, KnownKeys};
use rules::Rules;
use serde_json::{Map, Value};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use titan_config::{CertificateMatch, Cidr, Credential};
use titan_http::BadField;
use titan_io::error::{Error, Kind};
use titan_io::refusals;
use titan_io::tls::{BadCredentials, Files, Identity};
pub(super) use view::{Unmet, View};

refusals! {
    /// The client's address may not ask.
    ADDRESS_REFUSED Gateway FORBIDDEN "address-refused" "Clients with this address are not allowed here.";
    /// The client presented no certificate that is allowed.
    CERTIFICATE_REFUSED Gateway FORBIDDEN "certificate-refused" "This request needs a client certificate that is accepted here.";
    /// The request shows no API key, or none that is known.
    API_KEY Gateway UNAUTHORIZED "api-key" "This request needs a valid API key.";
    /// The request has none of the credentials of which one is enough, or none that is valid.
    CREDENTIAL Gateway UNAUTHORIZED "credential" "This request needs one of the credentials that are accepted here.";
    /// The request's token is valid, but lacks something that the policy requires.
    INSUFFICIENT_SCOPE Gateway FORBIDDEN "insufficient-scope" "The token does not grant access to this.";
    /// The request has no user name with its password.
    PASSWORD Gateway UNAUTHORIZED "password" "This request needs a user name and a password.";
    /// Too many passwords are waiting to be checked.
    PASSWORD_QUEUE Gateway SERVICE_UNAVAILABLE "password-queue" "Too many passwords are waiting to be checked.";
    /// The service that decides about requests does not respond, or not as it should.
    AUTH_SERVICE Gateway SERVICE_UNAVAILABLE "auth-service" "The authorization service did not respond.";
    /// The authorization service asks for credentials.
    AUTH_ANONYMOUS Gateway UNAUTHORIZED "auth-anonymous" "The authorization service asks for credentials.";
    /// The service that decides about calls refuses one.
    AUTH_REFUSED Gateway FORBIDDEN "auth-refused" "The authorization service refused this call.";
    /// A rule of an authorisation is not met.
    RULE_REFUSED Gateway FORBIDDEN "rule-refused" "This request is not allowed.";
}

/// A policy, with its keys as they are looked for.
pub(crate) struct Authorise {
    allow: Option<Vec<Cidr>>,
    deny: Vec<Cidr>,
    /// The certificates that may ask; those of all clients without.
    certificates: Option<Vec<Vec<CertificateMatch>>>,
    keys: Option<AcceptedKeys>,
    /// The ways of which one is enough, in the order in which they are tried.
    any_of: Vec<Credential>,
    claims: Option<Claims>,
    rules: Option<Rules>,
    basic: Option<Basic>,
    forward: Option<Forward>,
}

/// The users and API keys that credentials of requests are compared with.
#[derive(Clone, Default)]
pub(crate) struct KnownCredentials {
    users: Arc<Users>,
    keys: Arc<KnownKeys>,
}

impl KnownCredentials {
    /// Reads those of a policy and its files.
    fn read(
        config: &titan_config::Authorise,
        files: &Files,
    ) -> Result<KnownCredentials, BadCredentials> {
        let users = config.basic.as_ref().map(|basic| Users::read(basic, files)).transpose()?;
        let keys = config.api_keys.as_ref().map(|keys| KnownKeys::read(keys, files)).transpose()?;
        Ok(KnownCredentials {
            users: Arc::new(users.unwrap_or_default()),
            keys: Arc::new(keys.unwrap_or_default()),
        })
    }

    /// Those of a policy whose files have not been read.
    fn of(config: &titan_config::Authorise) -> KnownCredentials {
        let keys = config.api_keys.as_ref().map(|keys| KnownKeys::of(&keys.keys));
        KnownCredentials { users: Arc::default(), keys: Arc::new(keys.unwrap_or_default()) }
    }
}

/// What the response must say about the request.
#[derive(Default)]
pub(crate) struct AuthoriseState {
    /// Whether the request has reached the policy.
    is_judged: bool,
    /// Whether its response challenges for a key.
    lacks_key: bool,
    /// What its response must say about passwords.
    password: Option<basic::PasswordChallenge>,
}

/// What these policies cache on one worker.
#[derive(Default)]
pub(crate) struct WorkerCaches {
    /// Passwords found right, and wrong ones.
    passwords: Remembered,
    /// Decisions of authorization services.
    decisions: Decisions,
}

type OwnState<'m> = crate::policy::OwnState<'m, Authorise>;

/// What rules are evaluated on, beside the head of the request.
#[derive(Clone, Copy, Default)]
pub(crate) struct RuleSubject<'a> {
    /// The claims of its token.
    pub claims: Option<&'a Map<String, Value>>,
    /// The certificate of its client.
    pub identity: Option<&'a Identity>,
    /// The address of its client.
    pub client: Option<IpAddr>,
}

impl Policy for Authorise {
    type Config = titan_config::Authorise;
    /// None if they were not read.
    type Credentials = Option<KnownCredentials>;
    type State = AuthoriseState;
    type Shared = Arc<Verifiers>;
    type PerWorker = WorkerCaches;
    type Cells = AuthoriseCells;

    const REFUSALS: &'static [Kind] = REFUSALS;
    const METRICS: &'static [Metric<AuthoriseCells>] = cells::METRICS;

    fn new(
        own: &titan_config::Authorise,
        known: Option<KnownCredentials>,
        setting: &Setting<'_, Authorise>,
    ) -> Authorise {
        let Setting { name, config, shared, registry } = *setting;
        let KnownCredentials { users, keys } = known.unwrap_or_else(|| KnownCredentials::of(own));
        let (basic, forward) = (own.basic.as_ref(), own.forward_auth.clone());
        Authorise {
            allow: own.allow.clone(),
            deny: own.deny.clone(),
            certificates: own.client_certificate.clone(),
            keys: own.api_keys.as_ref().map(|config| AcceptedKeys::new(name, config, keys)),
            any_of: own.any_of.clone(),
            claims: Claims::new(own),
            rules: Rules::new(&own.rules),
            basic: basic.map(|basic| Basic::new((name, basic), users, shared, registry)),
            forward: forward.map(|forward| Forward::new((name, *forward), config, registry)),
        }
    }

    fn read(
        config: &titan_config::Authorise,
        files: &Files,
    ) -> Result<Option<KnownCredentials>, BadCredentials> {
        KnownCredentials::read(config, files).map(Some)
    }

    fn sweep(kept: &WorkerCaches) {
        kept.decisions.sweep();
    }

    /// Takes other users and keys.
    fn replace(&self, known: Option<KnownCredentials>) {
        let Some(KnownCredentials { users, keys }) = known else { return };
        if let Some(basic) = &self.basic {
            basic.replace_users(users);
        }
        if let Some(own) = &self.keys {
            own.replace_known(keys);
        }
    }

    /// What costs least comes first, so that no password is checked for a request that a cheaper check refuses.
    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        mut own: OwnState<'_>,
    ) -> Result<Step, Error> {
        let own = &mut own;
        own.state.is_judged = true;
        if !self.admits(context.client()) {
            return Err(ADDRESS_REFUSED.into());
        }
        if self.requires(Credential::ClientCertificate) && !self.takes(context.identity()) {
            return Err(CERTIFICATE_REFUSED.into());
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| self.requires(Credential::ApiKeys)) {
            keys.on_request(context, own)?;
        }
        if let Some(claims) = self.claims.as_ref().filter(|_| self.requires(Credential::Token)) {
            claims.on_request(context.findings)?;
        }
        if !self.any_of.is_empty() {
            Box::pin(self.check_any(context, own)).await?;
        }
        if let Some(rules) = &self.rules {
            rules.on_request(context.request, RuleSubject::of(context))?;
        }
        if let Some(basic) = self.basic.as_ref().filter(|_| self.requires(Credential::Basic)) {
            Box::pin(basic.on_request(context, own)).await?;
        }
        match &self.forward {
            Some(forward) => Box::pin(forward.on_request(context, own)).await,
            None => Ok(Step::Go),
        }
    }

    /// A response says what would have been taken.
    fn on_response(&self, response: &mut Response<'_>, own: OwnState<'_>) -> Result<(), BadField> {
        let Response { head, findings, .. } = response;
        // A token that is not valid ends the request before anything else is looked at.
        if !own.state.is_judged && findings.token_challenge.is_some() {
            self.challenge_all(own.state);
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| own.state.lacks_key) {
            keys.challenge(head)?;
        }
        match (&self.basic, own.state.password) {
            (Some(basic), Some(challenge)) => basic.on_response(challenge, head),
            _ => Ok(()),
        }
    }

    /// What is decided of a request, as far as it can be told without its connection.
    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        _own: OwnState<'_>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        self.explain_address(context, story);
        if self.certificates.is_some() && self.requires(Credential::ClientCertificate) {
            match self.takes(context.identity()) {
                true => story.tell("the client certificate is allowed"),
                false => {
                    story.refuse(
                        CERTIFICATE_REFUSED,
                        "there is no client certificate that is allowed",
                    );
                }
            }
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| self.requires(Credential::ApiKeys)) {
            keys.explain(context, story)?;
        }
        if let Some(claims) = self.claims.as_ref().filter(|_| self.requires(Credential::Token)) {
            claims.explain(context.findings.claims(), story);
        }
        if !self.any_of.is_empty() {
            self.explain_any(context, story)?;
        }
        if let Some(rules) = &self.rules {
            rules.explain(context.request, RuleSubject::of(context), story);
        }
        if let Some(basic) = self.basic.as_ref().filter(|_| self.requires(Credential::Basic)) {
            basic.explain(context.request, story);
        }
        if let Some(forward) = &self.forward {
            story.tell(forward.explain());
        }
        Ok(Step::Go)
    }
}

impl<'a> RuleSubject<'a> {
    /// What policies see of it.
    fn of(context: &'a PolicyContext<'_>) -> RuleSubject<'a> {
        RuleSubject {
            claims: context.findings.claims(),
            identity: context.identity(),
            client: context.client(),
        }
    }
}

impl Authorise {
    /// Starts the threads that check passwords, where there are any to check.
    pub(super) fn check_passwords(&self) -> io::Result<()> {
        self.basic.as_ref().map_or(Ok(()), Basic::start)
    }

    fn explain_address(&self, context: &PolicyContext<'_>, story: &mut Story<'_>) {
        if self.allow.is_none() && self.deny.is_empty() {
            return;
        }
        match (story.is_anybody, self.admits(context.client())) {
            (true, _) => story.tell("needs an allowed client address; set one with `--from`"),
            (false, true) => story.tell("the client's address is allowed"),
            (false, false) => {
                story.refuse(ADDRESS_REFUSED, "the client's address is not allowed");
            }
        }
    }

    /// Whether a client that has presented that certificate is allowed.
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
