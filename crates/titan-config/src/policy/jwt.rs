//! JSON Web Tokens (RFC 7519, RFC 8725): who must have signed them, with which keys, and which claims they must have.

mod revocations;
mod url;

pub(crate) use revocations::jwt_revocations;
pub use revocations::{JwtRevocations, WithoutRevocations};
pub use url::Url;
pub(crate) use url::parse_url;

use super::claim::{Claim, claim};
use super::section::PolicySection;
use crate::balance::query_name;
use crate::bounds::{
    MAX_CACHED_TOKENS, MAX_CLAIMS, MAX_KEY_FILES, MAX_LEEWAY, MAX_PROVIDERS, MAX_SECRET, MAX_VALUE,
};
use crate::diagnostic::Diagnostic;
use crate::header::parse_identity_header;
use crate::node::Node;
use crate::problem::Problem;
use crate::quantity::Cap;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{
    Named, boolean, cap, duration, mapping, one_or_list, secret, short_for, text, whole, words,
};
use crate::secret::{Secret, parse_secret};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::timeouts::DAY;
use crate::tls::file;
use crate::token::{HEADER_NAME, HeaderName, HeaderValue, Token, cookie_name, header_value, token};
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::url;

section! {
    "jwt", "a JWT policy", Any;
    /// Requests must have a JSON Web Token (JWS compact form) signed by one of the providers. A request without one, or
    /// with an invalid one, gets 401. Whatever clients send in the fields of any policy's `headers` is removed on all
    /// routes.
    pub(crate) struct JwtFields {
        /// Who may sign tokens. If there are several, the claim `iss` selects one.
        pub(crate) providers: Vec<JwtProvider> = required(one_or_list(provider(), 1..=MAX_PROVIDERS)),
        /// Where to find the token. A request with more than one gets 400.
        pub(crate) token: Option<Vec<TokenPlace>> =
            optional("`{ scheme: Bearer }`", one_or_list(place(), 1..=MAX_PLACES)),
        /// Whether the upstream gets the token: always in `Authorization`, with the scheme of `token` or `Bearer`. It
        /// is removed from where it was in either case.
        pub(crate) forward: bool = default("false", boolean()),
        /// Fields that pass claims to the upstream: `{ X-User: sub, X-Roles: /realm_access/roles }`. Lists are joined
        /// with commas. A claim that is not a string, number, boolean or list of these makes its token invalid; a claim
        /// that is absent sets no field.
        pub(crate) headers: Vec<ClaimHeader> = default("{}", claim_headers()),
        /// Claims that must be there and not `null`. With `[]`, tokens without `exp` are valid for ever.
        pub(crate) require: Vec<Claim> = default("exp", one_or_list(claim(), 0..=MAX_CLAIMS)),
        /// Whether a request needs a token at all. With `false`, a request without a token passes without an identity:
        /// upstreams get no fields of `headers`, and rules see empty `claims`. An invalid token is refused all the
        /// same.
        pub(crate) required: bool = default("true", boolean()),
        /// How far the clocks of providers may be off; it applies to `exp`, `nbf` and `iat`.
        pub(crate) leeway: Duration = default("30s", duration(Duration::ZERO..=MAX_LEEWAY)),
        /// How old a token may be, counted from `iat`, which must then be there.
        pub(crate) max_age: Option<Duration> = optional("any age", duration(SECOND..=YEAR)),
        /// The types (`typ`) that tokens may have, regardless of case and a leading `application/`: `at+jwt` for access
        /// tokens of RFC 9068. Refuses tokens that the provider signs for other purposes.
        pub(crate) types: Option<Vec<HeaderValue>> =
            optional("any type, or no type", one_or_list(header_value(), 1..=MAX_CLAIMS)),
        /// The realm in responses with 401 (RFC 9110 section 11.5).
        pub(crate) realm: HeaderValue = default("gateway", realm()),
        /// How many valid tokens each worker caches, so that each signature is checked once: 2 to 3 KiB each. `0` for
        /// none.
        pub(crate) cache: u32 = default("4096", whole(0..=MAX_CACHED_TOKENS)),
    }
}

section! {
    "jwt_provider", "a token provider", Any;
    /// An issuer of tokens.
    pub(crate) struct ProviderFields {
        /// What the claim `iss` must be, byte for byte. Optional only for a single provider.
        pub(crate) issuer: Option<String> = optional("not checked", text(ISSUER, not_empty)),
        /// The claim `aud` must be one of these, or contain one. Without this, a token with an audience is meant for
        /// another service, and refused.
        pub(crate) audience: Option<Vec<String>> =
            optional("only tokens without one", one_or_list(text(AUDIENCE, not_empty), 1..=MAX_CLAIMS)),
        /// The algorithms that tokens may be signed with. A key is used with those that fit its type and, in a key set,
        /// its `alg`. `Ed25519` (RFC 9864) is what `EdDSA` (RFC 8037) means here; while a provider changes from one
        /// name to the other, list both. `HS256` and the like need `secret`, `secret_file` or a key set of shared
        /// secrets.
        pub(crate) algorithms: Vec<JwtAlgorithm> =
            required(one_or_list(words(JwtAlgorithm::ALL), 1..=JwtAlgorithm::ALL.len())),
        /// The keys that verify signatures.
        pub(crate) keys: JwtKeys = required(keys()),
    }
}

section! {
    "jwt_keys", "verification keys", One;
    /// The keys that verify signatures. Files are read again when they change.
    pub(crate) struct KeyFields {
        /// PEM files, each with a public key (`BEGIN PUBLIC KEY`) or a certificate, whose dates are ignored. RSA of
        /// 2048 to 8192 bits, P-256, P-384, P-521, secp256k1, Ed25519.
        pub(crate) pem: Option<Vec<PathBuf>> = optional("", one_or_list(file(), 1..=MAX_KEY_FILES)),
        /// A shared secret, used as written: at least 32 bytes for HS256, 48 for HS384, 64 for HS512 (RFC 7518 section
        /// 3.2). Anyone who can read this file can sign tokens.
        pub(crate) secret: Option<Secret> = optional("", secret(SECRET, parse_secret)),
        /// A file with a shared secret; a line break at its end does not count.
        pub(crate) secret_file: Option<PathBuf> = optional("", file()),
        /// A file with a key set (RFC 7517).
        pub(crate) jwks: Option<PathBuf> = optional("", file()),
        /// The URL of a key set, which is fetched in the background. Until it has been fetched, requests get 503, and
        /// `/readyz` says so for a minute, unless a source has delivered the policy. A plain string sets `url` alone.
        pub(crate) jwks_url: Option<JwksUrl> = optional("", jwks_url()),
    }
}

section! {
    "jwks_url", "a key set URL", Any;
    /// A key set to fetch. While fetching fails, the last one stays in use, until it is too old. One without keys
    /// withdraws all keys: tokens of the provider get 401.
    pub struct JwksUrl {
        /// Its URL: `https://id.example.com/keys`. Redirects are not followed, and proxies are not used; a fetch may
        /// take 10 s and 1 MiB.
        pub url: Url = required(url()),
        /// A file with the certificate authorities to trust for it.
        pub ca: Option<PathBuf> = optional("the system's authorities", file()),
        /// How often it is fetched. It is also fetched when a token names an unknown key.
        pub refresh: Duration = default("10m", duration(SECOND..=DAY)),
        /// The least time between two fetches, whatever tokens name.
        pub pause: Duration = default("10s", duration(SECOND..=DAY)),
        /// How long keys stay in use after the last fetch while fetching fails: a key that the provider withdraws
        /// meanwhile stays valid for that long. After that, tokens of the provider get 503. Longer than `refresh`.
        pub max_stale: Cap<Duration> = default("24h", cap(duration(SECOND..=YEAR))),
    }
}

section! {
    "jwt_token", "a token location", One;
    /// Where to find a token.
    pub(crate) struct PlaceFields {
        /// In `Authorization`, after this scheme.
        pub(crate) scheme: Option<Token> = optional("", token()),
        /// In this cookie.
        pub(crate) cookie: Option<Token> = optional("", cookie_name()),
        /// In this query parameter. URLs end up in logs and histories: only for clients that can do nothing else.
        pub(crate) query: Option<String> = optional("", query_name()),
    }
}

/// A JWT policy, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// Who may have signed a token: at least one. All have an issuer, or there is only one; no two have the same.
    pub providers: Vec<JwtProvider>,
    /// Where tokens are.
    pub token: Vec<TokenPlace>,
    /// Whether the upstream gets the token.
    pub forward: bool,
    /// The claims that upstreams get.
    pub headers: Vec<ClaimHeader>,
    /// Claims that have to be there.
    pub require: Vec<Claim>,
    /// Whether a request without a token is refused.
    pub required: bool,
    /// How far clocks may be off.
    pub leeway: Duration,
    /// How old a token may be.
    pub max_age: Option<Duration>,
    /// The types that tokens may have.
    pub types: Option<Vec<HeaderValue>>,
    /// What responses with 401 say that they are for.
    pub realm: HeaderValue,
    /// How many tokens a worker remembers.
    pub cache: usize,
}

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtProvider {
    /// What `iss` has to be.
    pub issuer: Option<String>,
    /// One of which `aud` has to be or list; none: there must be no `aud`.
    pub audience: Vec<String>,
    /// The algorithms that tokens may be signed with.
    pub algorithms: Vec<JwtAlgorithm>,
    /// What signatures are checked with.
    pub keys: JwtKeys,
}

/// What signatures are checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtKeys {
    /// Files with a public key or a certificate each.
    Pem(Vec<PathBuf>),
    /// A shared secret.
    Secret(Secret),
    /// A file with a shared secret.
    SecretFile(PathBuf),
    /// A file with a key set.
    Jwks(PathBuf),
    /// A key set that is fetched.
    Url(JwksUrl),
}

/// An algorithm of signatures (RFC 7518, RFC 8037, RFC 8812, RFC 9864).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSA with PKCS #1 1.5 padding and SHA-256.
    Rs256,
    /// RSA with PKCS #1 1.5 padding and SHA-384.
    Rs384,
    /// RSA with PKCS #1 1.5 padding and SHA-512.
    Rs512,
    /// RSA with PSS padding and SHA-256.
    Ps256,
    /// RSA with PSS padding and SHA-384.
    Ps384,
    /// RSA with PSS padding and SHA-512.
    Ps512,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// ECDSA over P-384 with SHA-384.
    Es384,
    /// ECDSA over P-521 with SHA-512.
    Es512,
    /// ECDSA over secp256k1 with SHA-256.
    Es256K,
    /// Ed25519, by the name of RFC 8037.
    EdDsa,
    /// Ed25519, by the name of RFC 9864.
    Ed25519,
}

/// Where a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenPlace {
    /// In `Authorization`, behind that scheme.
    Scheme(Token),
    /// In that cookie.
    Cookie(Token),
    /// In that query parameter.
    Query(String),
}

/// A field that tells the upstream of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimHeader {
    /// The name of the field.
    pub name: HeaderName,
    /// What it tells.
    pub claim: Claim,
}

impl JwtAlgorithm {
    /// All of them, by the names that tokens call them.
    pub const ALL: &[(&'static str, JwtAlgorithm)] = &[
        ("HS256", JwtAlgorithm::Hs256),
        ("HS384", JwtAlgorithm::Hs384),
        ("HS512", JwtAlgorithm::Hs512),
        ("RS256", JwtAlgorithm::Rs256),
        ("RS384", JwtAlgorithm::Rs384),
        ("RS512", JwtAlgorithm::Rs512),
        ("PS256", JwtAlgorithm::Ps256),
        ("PS384", JwtAlgorithm::Ps384),
        ("PS512", JwtAlgorithm::Ps512),
        ("ES256", JwtAlgorithm::Es256),
        ("ES384", JwtAlgorithm::Es384),
        ("ES512", JwtAlgorithm::Es512),
        ("ES256K", JwtAlgorithm::Es256K),
        ("EdDSA", JwtAlgorithm::EdDsa),
        ("Ed25519", JwtAlgorithm::Ed25519),
    ];

    /// The algorithm with that name; case counts.
    pub fn named(name: &str) -> Option<JwtAlgorithm> {
        JwtAlgorithm::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    /// Whether both names mean the same signatures.
    pub fn signs_like(self, other: JwtAlgorithm) -> bool {
        let is_ed25519 = |it| matches!(it, JwtAlgorithm::EdDsa | JwtAlgorithm::Ed25519);
        self == other || is_ed25519(self) && is_ed25519(other)
    }

    /// The bytes that a secret has to have at least; `None` where there is no shared secret.
    pub fn min_secret(self) -> Option<usize> {
        match self {
            JwtAlgorithm::Hs256 => Some(32),
            JwtAlgorithm::Hs384 => Some(48),
            JwtAlgorithm::Hs512 => Some(64),
            _ => None,
        }
    }
}

impl PolicySection for Jwt {
    fn identity_fields(&self) -> Vec<&HeaderName> {
        self.headers.iter().map(|header| &header.name).collect()
    }

    fn files(&self) -> Vec<&Path> {
        let of_providers = self.providers.iter().flat_map(|provider| match &provider.keys {
            JwtKeys::Pem(files) => files.as_slice(),
            JwtKeys::SecretFile(file) | JwtKeys::Jwks(file) => std::slice::from_ref(file),
            JwtKeys::Url(JwksUrl { ca, .. }) => ca.as_slice(),
            JwtKeys::Secret(_) => &[],
        });
        of_providers.map(PathBuf::as_path).collect()
    }

    fn needs_system_authorities(&self) -> bool {
        self.providers.iter().any(|provider| match &provider.keys {
            JwtKeys::Url(JwksUrl { url, ca, .. }) => url.is_https && ca.is_none(),
            _ => false,
        })
    }
}

impl Jwt {
    /// Whether nothing but its token, if that, is in `Authorization` behind it, whatever a request brings.
    pub(super) fn takes_authorization(&self) -> bool {
        self.forward || self.token.iter().all(|place| matches!(place, TokenPlace::Scheme(_)))
    }
}

const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 86_400);
const MAX_PLACES: usize = 4;

const ISSUER: TextShape = TextShape {
    what: "an issuer",
    examples: "`https://id.example.com`",
    pattern: None,
    max: MAX_VALUE,
};
const AUDIENCE: TextShape = TextShape { what: "an audience", examples: "`api`", ..ISSUER };
const SECRET: TextShape = TextShape {
    what: "a shared secret",
    examples: "32 random bytes in hexadecimal",
    pattern: None,
    max: MAX_SECRET,
};

pub(super) fn policy() -> impl Read<Value = Jwt> {
    section_of::<JwtFields>().then(check)
}

fn check(fields: JwtFields, node: &Node, to: &mut Reading<'_>) -> Option<Jwt> {
    let JwtFields {
        providers,
        token,
        forward,
        headers,
        require,
        required,
        leeway,
        max_age,
        types,
        realm,
        cache,
    } = fields;
    check_issuers(&providers, node, to)?;
    let token = match token {
        Some(token) => token,
        None => vec![TokenPlace::Scheme(Token::bearer())],
    };
    let cache = usize::try_from(cache).ok()?;
    Some(Jwt {
        providers,
        token,
        forward,
        headers,
        require,
        required,
        leeway,
        max_age,
        types,
        realm,
        cache,
    })
}

/// A token has to say whose keys verify it.
fn check_issuers(providers: &[JwtProvider], node: &Node, to: &mut Reading<'_>) -> Option<()> {
    let span = node.entry("providers").map_or(node.span, |entry| entry.value.span);
    if providers.len() > 1 && providers.iter().any(|provider| provider.issuer.is_none()) {
        let error = Diagnostic::error(span, "with several providers, each needs an issuer");
        return to.fail(
            error.label("tokens could not be matched to a provider").help("give each an `issuer`"),
        );
    }
    for (index, provider) in providers.iter().enumerate() {
        if providers[..index].iter().any(|before| before.issuer == provider.issuer) {
            let issuer = provider.issuer.as_deref().unwrap_or_default();
            let message = format!("two providers have the issuer `{issuer}`");
            let error = Diagnostic::error(span, message);
            return to.fail(error.label("tokens could not be matched to a provider"));
        }
    }
    Some(())
}

fn provider() -> impl Read<Value = JwtProvider> {
    section_of::<ProviderFields>().then(check_provider)
}

fn check_provider(
    fields: ProviderFields,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<JwtProvider> {
    let ProviderFields { issuer, audience, algorithms, keys } = fields;
    let wants_secret = |algorithm: &JwtAlgorithm| algorithm.min_secret().is_some();
    let (problem, help) = match &keys {
        JwtKeys::Secret(_) | JwtKeys::SecretFile(_) if !algorithms.iter().all(wants_secret) => {
            ("a shared secret works only with HS256, HS384 and HS512", "list only those")
        }
        JwtKeys::Url(_) if algorithms.iter().any(wants_secret) => {
            ("a secret cannot be fetched from a URL", "for HS256, HS384 and HS512, use a file")
        }
        JwtKeys::Pem(_) if algorithms.iter().any(wants_secret) => (
            "a public key cannot be a shared secret",
            "for HS256, HS384 and HS512, use `secret` or `secret_file`",
        ),
        JwtKeys::Secret(secret) => {
            return match is_long_enough(secret, &algorithms) {
                Ok(()) => Some(JwtProvider {
                    issuer,
                    audience: audience.unwrap_or_default(),
                    algorithms,
                    keys,
                }),
                Err(min) => {
                    let error = Diagnostic::error(node.key_span("keys"), "the secret is too short");
                    let label = format!("expected at least {min} bytes");
                    to.fail(error.label(label).help("make one with `openssl rand -base64 48`"))
                }
            };
        }
        _ => {
            return Some(JwtProvider {
                issuer,
                audience: audience.unwrap_or_default(),
                algorithms,
                keys,
            });
        }
    };
    let error = Diagnostic::error(node.key_span("algorithms"), problem);
    to.fail(error.also(node.key_span("keys"), "the keys are set here").help(help))
}

fn is_long_enough(secret: &Secret, algorithms: &[JwtAlgorithm]) -> Result<(), usize> {
    let min = algorithms.iter().filter_map(|it| it.min_secret()).max().unwrap_or_default();
    if secret.bytes().len() < min { Err(min) } else { Ok(()) }
}

fn keys() -> impl Read<Value = JwtKeys> {
    section_of::<KeyFields>().then(|fields, _, _| {
        let KeyFields { pem, secret, secret_file, jwks, jwks_url } = fields;
        let pem = pem.map(JwtKeys::Pem);
        let secret = secret.map(JwtKeys::Secret);
        let secret_file = secret_file.map(JwtKeys::SecretFile);
        pem.or(secret).or(secret_file).or(jwks.map(JwtKeys::Jwks)).or(jwks_url.map(JwtKeys::Url))
    })
}

fn jwks_url() -> impl Read<Value = JwksUrl> {
    short_for("url", section_of::<JwksUrl>()).then(|keys, node, to| {
        match keys.max_stale.at_most().filter(|max_stale| *max_stale <= keys.refresh) {
            None => Some(keys),
            Some(_) => {
                let span = node.entry("max_stale").or(node.entry("refresh"));
                let span = span.map_or(node.span, |entry| entry.key_span);
                let message = "the keys would expire before they are fetched again";
                let error = Diagnostic::error(span, message);
                to.fail(error.label("expected a `max_stale` that is longer than `refresh`"))
            }
        }
    })
}

fn place() -> impl Read<Value = TokenPlace> {
    section_of::<PlaceFields>().then(|PlaceFields { scheme, cookie, query }, _, _| {
        let scheme = scheme.map(TokenPlace::Scheme);
        scheme.or(cookie.map(TokenPlace::Cookie)).or(query.map(TokenPlace::Query))
    })
}

fn claim_headers() -> impl Read<Value = Vec<ClaimHeader>> {
    mapping(HEADER_NAME, parse_identity_header, claim(), 0..=MAX_CLAIMS).then(|named, _, to| {
        for (index, Named { key, key_span, .. }) in named.iter().enumerate() {
            if let Some(first) = named[..index].iter().find(|before| before.key.is_alike(key)) {
                let error = Diagnostic::error(*key_span, "two claims use the same header");
                return to.fail(error.label("here again").also(first.key_span, "first here"));
            }
        }
        let header = |Named { key: name, value: claim, .. }| ClaimHeader { name, claim };
        Some(named.into_iter().map(header).collect())
    })
}

pub(super) fn realm() -> impl Read<Value = HeaderValue> {
    header_value().then(|realm, node, to| {
        let fine = |byte: u8| (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte);
        if realm.as_str().bytes().all(fine) && !realm.as_str().is_empty() {
            return Some(realm);
        }
        let error = Diagnostic::error(node.span, "this is not a valid realm");
        to.fail(error.label("expected printable ASCII without quotes and backslashes"))
    })
}

fn not_empty(text: &str) -> Result<String, Problem> {
    match text {
        "" => Err(Problem::new("it is empty")),
        text => Ok(text.to_owned()),
    }
}
