//! JSON Web Tokens (RFC 7519, RFC 6750, RFC 8725): a request proceeds only with a valid token.

mod cache;
mod cells;
mod explain;
mod generation;
mod json;
mod key_ring;
mod keys;
mod places;
mod remote;
mod revocations;
#[cfg(test)]
mod tests;
mod token;

pub use cache::Caches;
pub use keys::Source;
pub(super) use places::credentials;
pub use remote::KeySetStatus;
pub use revocations::{Revocation, Revocations, Revoked};

use crate::context::{Failure, PolicyContext, Step};
use crate::findings::{Findings, Token, TokenChallenge};
use crate::policy::{Metric, OwnState, Policy, Response, Setting};
use crate::story::Story;
pub use cells::JwtCells;
use key_ring::KeyRing;
use keys::Unverified;
use places::{Found, NoToken};
use revocations::is_revocable;
use serde_json::{Map, Value};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use titan_config::{Claim, JwtProvider, TokenPlace};
use titan_http::{BadField, FieldName, Fields, ResponseHead};
use titan_io::error::{Error, Kind};
use titan_io::io::Phase;
use titan_io::refusals;
use titan_io::tls::{BadCredentials, Files};
use token::{ParsedToken, is_type};
use tokio::sync::watch;

refusals! {
    /// The request has no token where one is required.
    TOKEN_MISSING Gateway UNAUTHORIZED "token-missing" "This request needs a token.";
    /// The request has an invalid token.
    TOKEN_INVALID Gateway UNAUTHORIZED "token-invalid" "The token is not valid.";
    /// The keys that a token is to be checked with were not fetched yet, or too long ago.
    TOKEN_KEYS Gateway SERVICE_UNAVAILABLE "token-keys" "Tokens cannot be checked at the moment.";
    /// The gateway cannot know whether a token was revoked: it was cut off from the others for too long.
    TOKEN_REVOCATIONS Gateway SERVICE_UNAVAILABLE "token-revocations" "Tokens cannot be checked at the moment.";
    /// The request brings several tokens.
    TOKEN_AMBIGUOUS Gateway BAD_REQUEST "token-ambiguous" "The request carries more than one token.";
}

/// A policy with its keys.
pub struct Jwt {
    name: Box<str>,
    config: titan_config::Jwt,
    keys: Arc<KeyRing>,
    /// Revoked tokens; none if `jwt_revocations` is not configured.
    revocations: Option<Revocations>,
    challenges: Challenges,
    /// The fields that pass claims to the upstream.
    claim_fields: Arc<[Box<[u8]>]>,
}

/// What responses that ask for a token say (RFC 6750 section 3), put together once.
struct Challenges {
    missing: Box<[u8]>,
    invalid: Box<[u8]>,
    ambiguous: Box<[u8]>,
    insufficient: Box<[u8]>,
}

/// What a valid token says.
pub struct Verified {
    token: Rc<Token>,
    /// It is valid from then on, and until then.
    from: Duration,
    until: Duration,
    /// What the upstream gets of it, by the position of the field in the policy.
    fields: Vec<ClaimField>,
    /// The last edition of the revocations that it was not among.
    cleared: Cell<u64>,
}

/// A field by its place in the policy, and its value.
type ClaimField = (usize, Box<[u8]>);

macro_rules! refusals {
    ($(#[doc = $doc:literal] $name:ident $word:literal;)+) => {
        /// Why a token is not valid. Counted, but not told to the client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Refusal {
            $(#[doc = $doc] $name,)+
        }

        impl Refusal {
            /// What metrics call each.
            pub const WORDS: &[&str] = &[$($word,)+];
            /// The same in sentences.
            const REASONS: &[&str] = &[$($doc,)+];
        }
    };
}

refusals! {
    /// It has no compact form, or what is in it is no JSON that all parsers read alike.
    Malformed "malformed";
    /// Its header says what no token may say here.
    Header "header";
    /// It names no algorithm that there is.
    Algorithm "algorithm";
    /// It is of another type.
    Type "type";
    /// No provider has its issuer.
    Issuer "issuer";
    /// The keys of its provider were not fetched yet, or too long ago.
    NoKeys "no-keys";
    /// There is no key of that name for that algorithm.
    Key "key";
    /// No key has signed it.
    Signature "signature";
    /// It is meant for another service.
    Audience "audience";
    /// It has expired.
    Expired "expired";
    /// Its time has not begun.
    Early "early";
    /// It was issued too long ago, or does not say when.
    Old "old";
    /// A claim is missing, or not what it has to be.
    Claim "claim";
    /// It was revoked.
    Revoked "revoked";
    /// It may have been revoked: the gateway has not heard of others for too long.
    NoRevocations "no-revocations";
}

impl Policy for Jwt {
    type Config = titan_config::Jwt;
    /// By the provider; without them no token is valid.
    type Credentials = Vec<Source>;
    type State = ();
    /// Revoked tokens, where some can be revoked.
    type Shared = Option<Revocations>;
    type PerWorker = Caches;
    type Cells = JwtCells;

    const REFUSALS: &'static [Kind] = REFUSALS;
    const METRICS: &'static [Metric<JwtCells>] = cells::METRICS;

    fn new(config: &titan_config::Jwt, sources: Vec<Source>, setting: &Setting<'_, Jwt>) -> Jwt {
        let scheme = config.token.iter().find_map(|place| match place {
            TokenPlace::Scheme(scheme) => Some(scheme.as_str()),
            TokenPlace::Cookie(_) | TokenPlace::Query(_) => None,
        });
        let start = format!("{} realm=\"{}\"", scheme.unwrap_or("Bearer"), config.realm.as_str());
        let with = |more: &str| format!("{start}{more}").into_bytes().into_boxed_slice();
        let claim_fields = config.headers.iter().map(|it| it.name.as_str().as_bytes().into());
        let own = (setting.name, config);
        Jwt {
            name: setting.name.into(),
            keys: KeyRing::of(own, sources, setting.shared.as_ref(), setting.registry),
            revocations: setting.shared.clone(),
            challenges: Challenges {
                missing: with(""),
                invalid: with(", error=\"invalid_token\""),
                ambiguous: with(", error=\"invalid_request\""),
                insufficient: with(", error=\"insufficient_scope\""),
            },
            claim_fields: claim_fields.collect(),
            config: config.clone(),
        }
    }

    fn read(config: &titan_config::Jwt, files: &Files) -> Result<Vec<Source>, BadCredentials> {
        config.providers.iter().map(|provider| Source::read(provider, files)).collect()
    }

    fn faults(config: &titan_config::Jwt, files: &Files) -> Vec<BadCredentials> {
        let keys = config.providers.iter().map(|provider| Source::read(provider, files));
        keys.filter_map(Result::err).collect()
    }

    /// Takes other keys. Those that are fetched stay, and are fetched as the section says.
    fn replace(&self, sources: Vec<Source>) {
        self.keys.replace(&self.config, sources);
    }

    fn sweep(tokens: &Caches) {
        tokens.sweep();
    }

    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Jwt>,
    ) -> Result<Step, Error> {
        let judged = self.admit(context, own.kept, own.cells);
        if judged.is_err_and(|error| is_wrong(error.kind)) {
            context.fail(Failure::Token);
        }
        judged.map(|()| Step::Go)
    }

    fn on_response(
        &self,
        response: &mut Response<'_>,
        _own: OwnState<'_, Jwt>,
    ) -> Result<(), BadField> {
        self.challenge(response.findings, response.head)
    }

    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        _own: OwnState<'_, Jwt>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        self.tell_story(context, story).map(|()| Step::Go)
    }
}

impl Jwt {
    /// Whether keys are still to come for the first time.
    pub(super) fn lacks_keys(&self) -> bool {
        self.keys.fetched().any(|(_, fetched)| !fetched.remote().has_come())
    }

    /// How the key sets are doing that are fetched.
    pub(super) fn key_sets(&self) -> impl Iterator<Item = KeySetStatus> {
        self.keys.fetched().map(|(place, fetched)| {
            let issuer = self.config.providers[place].issuer.as_deref().unwrap_or_default();
            fetched.remote().status(&self.name, issuer)
        })
    }

    /// What has gone wrong with keys that are fetched since this was asked last.
    pub(super) fn take_failures(&self) -> Vec<String> {
        let failures =
            self.keys.fetched().flat_map(|(_, fetched)| fetched.remote().take_failures());
        failures.map(|failure| failure.to_string()).collect()
    }

    fn admit(
        &self,
        context: &mut PolicyContext<'_>,
        tokens: &Caches,
        cells: &JwtCells,
    ) -> Result<(), Error> {
        let PolicyContext { request, findings, .. } = context;
        let found = match places::find(&self.config.token, request) {
            Ok(found) => found,
            Err(NoToken::Missing) if !self.config.required => return Ok(()),
            Err(nowhere) => {
                findings.token_challenge = Some(nowhere.challenge());
                return Err(nowhere.kind().into());
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let policy = self.keys.generation();
        let generation = policy.now();
        let Found { token, place } = found;
        let size = self.config.cache;
        let known = tokens.with(policy, size, |cache| cache.get(token, generation, now));
        findings.is_token_cached = Some(known.is_some());
        let verified = match known {
            Some(verified) => {
                cells.hits.add(1);
                verified
            }
            None => match self.verify(token, now) {
                Ok(verified) => {
                    cells.misses.add(1);
                    let verified = Rc::new(verified);
                    let put = |cache: &mut cache::Cache| cache.put(token, generation, &verified);
                    tokens.with(policy, size, put);
                    verified
                }
                Err(refusal) => return Err(refuse(refusal, cells, findings)),
            },
        };
        let judged = self.check_revoked(&verified, now);
        judged.map_err(|refusal| refuse(refusal, cells, findings))?;
        let forwarded = self.forwarded(token, place);
        places::remove(&self.config.token[place], request).map_err(|_| Kind::Internal)?;
        let fields = &mut request.fields;
        let written = self.write_claims(&verified, forwarded.as_deref(), fields);
        written.map_err(|_| Kind::Internal)?;
        // The worker's own count: those of what all workers share are touched by no request.
        findings.token = Some(Rc::clone(&verified.token));
        Ok(())
    }

    /// Adds the challenge for tokens to a response.
    fn challenge(&self, findings: &Findings, head: &mut ResponseHead) -> Result<(), BadField> {
        let Challenges { missing, invalid, ambiguous, insufficient } = &self.challenges;
        let (challenge, scopes) = match &findings.token_challenge {
            None => return Ok(()),
            Some(TokenChallenge::Missing) => (missing, ""),
            Some(TokenChallenge::Invalid) => (invalid, ""),
            Some(TokenChallenge::Ambiguous) => (ambiguous, ""),
            Some(TokenChallenge::Insufficient(scopes)) => (insufficient, scopes.as_str()),
        };
        if scopes.is_empty() {
            return head.fields.append(FieldName::WwwAuthenticate, challenge);
        }
        let with_scopes = [challenge, b", scope=\"".as_slice(), scopes.as_bytes(), b"\""].concat();
        head.fields.append(FieldName::WwwAuthenticate, &with_scopes)
    }

    /// The `Authorization` that the upstream gets.
    fn forwarded(&self, token: &[u8], place: usize) -> Option<Vec<u8>> {
        let scheme = match &self.config.token[place] {
            TokenPlace::Scheme(scheme) => scheme.as_str(),
            TokenPlace::Cookie(_) | TokenPlace::Query(_) => "Bearer",
        };
        self.config.forward.then(|| [scheme.as_bytes(), b" ", token].concat())
    }

    /// Writes the fields of claims, and the token if it is forwarded, for the upstream.
    fn write_claims(
        &self,
        verified: &Verified,
        forwarded: Option<&[u8]>,
        fields: &mut Fields,
    ) -> Result<(), BadField> {
        if let Some(forwarded) = forwarded {
            fields.set(FieldName::Authorization, forwarded)?;
        }
        // What the client has sent under these names is gone already.
        for (place, value) in &verified.fields {
            let name = self.config.headers[*place].name.as_str();
            fields.append_named(name.as_bytes(), value)?;
        }
        Ok(())
    }

    /// Whether it is not revoked. One that was not is looked up again when something was added since.
    fn check_revoked(&self, verified: &Verified, now: Duration) -> Result<(), Refusal> {
        let Some(revocations) = &self.revocations else { return Ok(()) };
        if !revocations.is_fresh() && is_revocable(&verified.token.claims) {
            return Err(Refusal::NoRevocations);
        }
        // Before the table is read: what is added meanwhile is looked up the next time.
        let edition = revocations.edition();
        if verified.cleared.get() != edition {
            revocations.judge(&verified.token.claims, now)?;
            verified.cleared.set(edition);
        }
        Ok(())
    }

    /// Judges a token, but for whether it was revoked.
    fn verify(&self, text: &[u8], now: Duration) -> Result<Verified, Refusal> {
        let token = ParsedToken::parse(text)?;
        let place = self.provider_of(&token.claims).ok_or(Refusal::Issuer)?;
        let keys = self.keys.current(place).ok_or(Refusal::NoKeys)?;
        let ParsedToken { signed, algorithm, key_id, kind, claims, signature } = token;
        let verified = keys.verify(algorithm, key_id.as_deref(), signed, &signature);
        verified.map_err(|unverified| match unverified {
            Unverified::NoKey => {
                self.keys.want(place);
                Refusal::Key
            }
            Unverified::Signature => Refusal::Signature,
        })?;
        self.judge(place, kind.as_deref(), claims, now)
    }

    /// Judges what a token says that the provider at that place has signed.
    fn judge(
        &self,
        place: usize,
        kind: Option<&str>,
        claims: Map<String, Value>,
        now: Duration,
    ) -> Result<Verified, Refusal> {
        self.check_type(kind)?;
        check_audience(&self.config.providers[place], &claims)?;
        let (from, until) = self.check_times(&claims, now)?;
        let is_there = |claim: &Claim| find(&claims, claim).is_some_and(|value| !value.is_null());
        if !self.config.require.iter().all(is_there) {
            return Err(Refusal::Claim);
        }
        let fields = self.fields_of(&claims)?;
        let token = Rc::new(Token {
            claims: Rc::new(claims),
            claim_fields: Arc::clone(&self.claim_fields),
            is_forwarded: self.config.forward,
        });
        Ok(Verified { token, from, until, fields, cleared: Cell::default() })
    }

    /// Whose keys verify it. What the token says about that is not proven yet, but it has to be signed with them.
    fn provider_of(&self, claims: &Map<String, Value>) -> Option<usize> {
        let issuer = match claims.get("iss") {
            None => None,
            Some(issuer) => Some(issuer.as_str()?),
        };
        self.config.providers.iter().position(|provider| match &provider.issuer {
            None => true,
            Some(expected) => issuer == Some(expected.as_str()),
        })
    }

    fn check_type(&self, kind: Option<&str>) -> Result<(), Refusal> {
        let Some(types) = &self.config.types else { return Ok(()) };
        let is_wanted = |kind: &str| types.iter().any(|wanted| is_type(kind, wanted.as_str()));
        if kind.is_some_and(is_wanted) { Ok(()) } else { Err(Refusal::Type) }
    }

    /// From when until when the token is valid; an error if that is not now.
    fn check_times(
        &self,
        claims: &Map<String, Value>,
        now: Duration,
    ) -> Result<(Duration, Duration), Refusal> {
        let leeway = self.config.leeway;
        let expires = date(claims, "exp")?.unwrap_or(Duration::MAX);
        let begins = date(claims, "nbf")?.unwrap_or_default();
        let issued = date(claims, "iat")?;
        let mut until = expires.saturating_add(leeway);
        if now >= until {
            return Err(Refusal::Expired);
        }
        if let Some(max_age) = self.config.max_age {
            let ages = issued.ok_or(Refusal::Old)?.saturating_add(max_age).saturating_add(leeway);
            if now >= ages {
                return Err(Refusal::Old);
            }
            until = until.min(ages);
        }
        let from = begins.max(issued.unwrap_or_default()).saturating_sub(leeway);
        if now < from { Err(Refusal::Early) } else { Ok((from, until)) }
    }

    /// What the upstream is told.
    fn fields_of(&self, claims: &Map<String, Value>) -> Result<Vec<ClaimField>, Refusal> {
        let mut fields = Vec::new();
        for (place, header) in self.config.headers.iter().enumerate() {
            match find(claims, &header.claim) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    let text = text_of(value).ok_or(Refusal::Claim)?;
                    fields.push((place, text.into_bytes().into()));
                }
            }
        }
        Ok(fields)
    }
}

impl NoToken {
    fn challenge(&self) -> TokenChallenge {
        match self {
            NoToken::Missing => TokenChallenge::Missing,
            NoToken::Ambiguous => TokenChallenge::Ambiguous,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            NoToken::Missing => TOKEN_MISSING,
            NoToken::Ambiguous => TOKEN_AMBIGUOUS,
        }
    }
}

impl Verified {
    /// Whether it is valid at that time.
    fn holds_at(&self, now: Duration) -> bool {
        self.from <= now && now < self.until
    }

    #[cfg(test)]
    fn for_tests(from: Duration, until: Duration) -> Verified {
        Verified { token: Rc::default(), from, until, fields: Vec::new(), cleared: Cell::default() }
    }
}

/// Whether a client that is refused for that has brought something wrong.
fn is_wrong(kind: Kind) -> bool {
    matches!(kind, TOKEN_INVALID | TOKEN_AMBIGUOUS)
}

/// Fetches the key sets of these policies that are not being fetched yet, until the gateway drains.
pub(crate) fn keep_fresh<'j>(
    policies: impl Iterator<Item = &'j Arc<Jwt>>,
    phase: watch::Receiver<Phase>,
) -> io::Result<()> {
    let sets = policies.flat_map(|jwt| jwt.keys.fetched());
    remote::follow(sets.map(|(_, fetched)| fetched), phase)
}

/// Counts a refusal, and has the client told of it.
fn refuse(refusal: Refusal, cells: &JwtCells, findings: &mut Findings) -> Error {
    cells.refused[refusal as usize].add(1);
    match refusal {
        Refusal::NoKeys => return TOKEN_KEYS.into(),
        Refusal::NoRevocations => return TOKEN_REVOCATIONS.into(),
        _ => {}
    }
    findings.token_challenge = Some(TokenChallenge::Invalid);
    TOKEN_INVALID.into()
}

/// What is at the place of a claim.
pub fn find<'v>(claims: &'v Map<String, Value>, claim: &Claim) -> Option<&'v Value> {
    let (first, rest) = claim.path().split_first()?;
    rest.iter().try_fold(claims.get(first)?, |value, name| match value {
        Value::Object(members) => members.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

/// RFC 7519 section 4.1.3: a recipient that is not named in `aud` must refuse the token.
fn check_audience(provider: &JwtProvider, claims: &Map<String, Value>) -> Result<(), Refusal> {
    let is_us = |value: &Value| {
        value.as_str().is_some_and(|name| provider.audience.iter().any(|known| known == name))
    };
    let is_for_us = match claims.get("aud") {
        None => provider.audience.is_empty(),
        Some(Value::Array(names)) => names.iter().all(Value::is_string) && names.iter().any(is_us),
        Some(name) => is_us(name),
    };
    if is_for_us { Ok(()) } else { Err(Refusal::Audience) }
}

/// A NumericDate (RFC 7519 section 2).
fn date(claims: &Map<String, Value>, name: &str) -> Result<Option<Duration>, Refusal> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_u64().map(Duration::from_secs);
    let date = seconds.or_else(|| Duration::try_from_secs_f64(value.as_f64()?).ok());
    date.map(Some).ok_or(Refusal::Claim)
}

/// A claim as a field can hold it; none where that would not be what the token says.
pub fn text_of(value: &Value) -> Option<String> {
    let text = match value {
        Value::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(plain).collect();
            let items = items?;
            let is_one = |item: &String| !item.contains(',') && !item.is_empty();
            items.iter().all(is_one).then(|| items.join(","))?
        }
        value => plain(value)?,
    };
    Some(text)
}

fn plain(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    let is_fine = text.trim() == text && !text.contains(char::is_control);
    is_fine.then_some(text)
}
