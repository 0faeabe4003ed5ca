//! Authorisation: which requests are allowed. Each kind of credential has a module.

mod basic;
mod claims;
mod forward;
mod keys;
mod password;

pub use basic::Basic;
pub use claims::{ClaimRule, ClaimValue, Granted};
pub use forward::{AuthCache, AuthKey, ForwardAuth};
pub(crate) use keys::key_hash;
pub use keys::{ApiKey, ApiKeys, KeyHash, api_keys_in};
pub use password::{PasswordHash, User, users_in};

use super::rule::{Rule, RulePart, WithoutToken, rule};
use super::section::PolicySection;
use crate::bounds::{MAX_CONDITIONS, MAX_NETWORKS, MAX_RULES};
use crate::cidr::{Cidr, cidr};
use crate::condition::{CertificateMatch, ValueMatch, certificate_matches};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{boolean, one_or_list, words};
use crate::section::{section, section_of};
use crate::token::HeaderName;
use basic::basic;
pub(super) use claims::claim_rules;
use claims::{roles, scopes};
use forward::forward_auth;
use keys::api_keys;
use std::path::Path;

section! {
    "authorise", "an authorisation policy", Any;
    /// Who is allowed: a request must pass every check that is given here, at least one. A missing or wrong key or
    /// password gets 401, everything else 403; responses do not say what is missing unless `tell_missing` is set.
    pub(crate) struct AuthoriseFields {
        /// The networks of clients that are allowed, by the address behind all trusted proxies. Clients without an
        /// address, those of Unix sockets, are not.
        pub(crate) allow: Option<Vec<Cidr>> = optional("all", one_or_list(cidr(), 1..=MAX_NETWORKS)),
        /// The networks of clients that are refused, whatever `allow` says. Clients without an address are refused too.
        pub(crate) deny: Vec<Cidr> = default("[]", one_or_list(cidr(), 0..=MAX_NETWORKS)),
        /// What the client's certificate must be, at a listener with `tls.client_certificates`: one of these, as for
        /// routes. `present` takes any.
        pub(crate) client_certificate: Option<Vec<Vec<CertificateMatch>>> =
            optional("any client", one_or_list(certificate_matches().then(not_absent), 1..=MAX_CONDITIONS)),
        /// The API keys, of which a request must present one.
        pub(crate) api_keys: Option<ApiKeys> = optional("none is required", api_keys()),
        /// Credentials of which one is enough: `[token, api_keys, basic]`. They are tried in this order, and the first
        /// one that a request satisfies completely counts. Every other check that is given here must pass as well.
        /// `token` stands for a token with the given `scopes`, `roles` and `claims`, if any, and needs a policy `jwt`
        /// with `required: false`: an invalid token is refused whatever else is presented. Credentials that do not
        /// count tell upstreams nothing, and are removed. A request that satisfies none gets 401 with all challenges.
        pub(crate) any_of: Vec<Credential> =
            default("[]", one_or_list(words(Credential::ALL), 0..=Credential::ALL.len())),
        /// The scopes that the token must grant. This, `roles` and `claims` need a policy `jwt` on the same routes.
        pub(crate) scopes: Option<Granted> = optional("none is required", scopes()),
        /// The roles that the token must grant.
        pub(crate) roles: Option<Granted> = optional("none is required", roles()),
        /// What other claims of the token must be, by name or JSON pointer:
        /// `{ tenant: acme, /address/country: [AT, DE] }`. A plain value is what the claim equals; given a list, the
        /// claim must have one of its values.
        pub(crate) claims: Vec<ClaimRule> = default("{}", claim_rules()),
        /// Expressions (CEL) that must all be true. They see `request.method`, `request.host` in lower case without
        /// port, `request.path` in its normal form, `request.query` with a list of decoded values by name,
        /// `request.headers` by lower-case name (several of one name joined with `, `), `claims` of the token,
        /// `client.address` behind all trusted proxies, and of the client's `certificate`: `subject`, `fingerprint`,
        /// and the lists `dns`, `uri`, `email` and `ip`. To use something that is absent is an error, unless `has(...)`
        /// or `in` asks first. An error that decides the result refuses the request, and so does a result that is not a
        /// boolean. There are the operators, `has`, `all`, `exists`, `exists_one`, `size`, `contains`, `startsWith`,
        /// `endsWith`, `matches` with a regular expression in quotes, `int`, `double` and `string`. A loop takes lists
        /// of at most 256 items and cannot contain another loop. Values with more than 4096 items cannot be evaluated
        /// at all.
        pub(crate) rules: Vec<Rule> = default("[]", one_or_list(rule(), 0..=MAX_RULES)),
        /// Whether responses say which scopes, roles and claims are missing: in the member `missing` of the problem
        /// document, and the scopes in `WWW-Authenticate` as well (RFC 6750 section 3). Attackers may learn from that
        /// what to look for.
        pub(crate) tell_missing: bool = default("false", boolean()),
        /// User names and passwords, of which a request must present one.
        pub(crate) basic: Option<Box<Basic>> = optional("none is required", basic()),
        /// An external service that decides about requests that have passed all other checks.
        pub(crate) forward_auth: Option<Box<ForwardAuth>> = optional("none", forward_auth()),
    }
}

/// An authorisation, checked: it requires something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorise {
    /// The networks that may ask; all without.
    pub allow: Option<Vec<Cidr>>,
    /// The networks that may not.
    pub deny: Vec<Cidr>,
    /// Conditions on the client's certificate: all of one of these must hold.
    pub client_certificate: Option<Vec<Vec<CertificateMatch>>>,
    /// The keys of which a request must present one.
    pub api_keys: Option<ApiKeys>,
    /// Ways of which one is enough, in the order in which they are tried: none, or two and more.
    pub any_of: Vec<Credential>,
    /// The scopes that the token has to grant.
    pub scopes: Option<Granted>,
    /// The roles that the token has to grant.
    pub roles: Option<Granted>,
    /// What other claims of the token have to be.
    pub claims: Vec<ClaimRule>,
    /// Expressions that have to be true.
    pub rules: Vec<Rule>,
    /// Whether responses say what the token lacks.
    pub tell_missing: bool,
    /// Names and passwords, of which a request must present one.
    pub basic: Option<Box<Basic>>,
    /// The service that decides about what has passed the others.
    pub forward_auth: Option<Box<ForwardAuth>>,
}

/// What identifies a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A certificate in the handshake.
    ClientCertificate,
    /// An API key.
    ApiKeys,
    /// A valid token that grants what is required.
    Token,
    /// A name and its password.
    Basic,
}

impl Credential {
    /// All of them, by their words in the file.
    const ALL: &[(&'static str, Credential)] = &[
        ("client_certificate", Credential::ClientCertificate),
        ("api_keys", Credential::ApiKeys),
        ("token", Credential::Token),
        ("basic", Credential::Basic),
    ];

    /// What the file calls it.
    pub fn as_str(self) -> &'static str {
        let found = Credential::ALL.iter().find(|(_, way)| *way == self);
        found.map_or("", |(word, _)| word)
    }
}

impl Authorise {
    /// Whether that is one of several ways of which one is enough.
    pub fn is_choice(&self, way: Credential) -> bool {
        self.any_of.contains(&way)
    }

    /// Whether it checks claims of tokens.
    pub(super) fn needs_token(&self) -> bool {
        self.is_choice(Credential::Token)
            || self.requires_tokens()
            || self.rules.iter().any(|rule| rule.reads(RulePart::Claims))
    }

    /// Whether it checks client certificates.
    pub(super) fn needs_certificate(&self) -> bool {
        let by_rule = self.rules.iter().any(|rule| rule.reads(RulePart::Certificate));
        self.client_certificate.is_some() || by_rule
    }

    /// What it requires that can only be in `Authorization`, in words.
    pub(super) fn required_in_authorization(&self) -> Option<&'static str> {
        if self.is_choice(Credential::Token) {
            // A request with a token needs no other credential.
            return None;
        }
        let is_alone = |keys: &ApiKeys| keys.are_in_authorization() && keys.query.is_none();
        match (self.api_keys.as_ref().is_some_and(is_alone), &self.basic) {
            (true, _) => Some("an API key"),
            (false, Some(_)) => Some("a password"),
            (false, None) => None,
        }
    }

    /// Whether no request without a token passes it.
    pub(super) fn refuses_without_token(&self) -> bool {
        self.requires_tokens() && !self.is_choice(Credential::Token)
    }

    /// A rule that uses claims only to refuse, where no rule requires any: requests without a token pass them all.
    pub(super) fn rule_that_only_denies(&self) -> Option<&Rule> {
        let looks = |rule: &&Rule| rule.without_token() != WithoutToken::Same;
        let mut looking = self.rules.iter().filter(looks);
        let is_met = |rule: &Rule| rule.without_token() == WithoutToken::Met;
        looking.clone().all(is_met).then(|| looking.next())?
    }

    fn requires_tokens(&self) -> bool {
        self.scopes.is_some() || self.roles.is_some() || !self.claims.is_empty()
    }

    /// Whether it allows every request.
    fn is_empty(&self) -> bool {
        let is_open = self.allow.is_none() && self.deny.is_empty();
        let takes_all = self.client_certificate.is_none() && self.api_keys.is_none();
        let asks_nobody = self.basic.is_none() && self.forward_auth.is_none();
        is_open && takes_all && asks_nobody && !self.requires_tokens() && self.rules.is_empty()
    }
}

impl PolicySection for Authorise {
    fn identity_fields(&self) -> Vec<&HeaderName> {
        let of_keys = self.api_keys.iter().filter_map(|keys| keys.identity_header.as_ref());
        let of_users = self.basic.iter().filter_map(|basic| basic.identity_header.as_ref());
        let of_keys = of_keys.chain(of_users);
        of_keys.chain(self.forward_auth.iter().flat_map(|it| it.identity_fields())).collect()
    }

    fn request_fields(&self) -> Vec<&HeaderName> {
        let Authorise { api_keys, rules, forward_auth, .. } = self;
        let of_keys = api_keys.iter().map(|keys| &keys.header);
        let of_rules = rules.iter().flat_map(Rule::headers);
        let of_service = forward_auth.iter().flat_map(|service| &service.request_headers);
        let told = self.identity_fields().into_iter();
        told.chain(of_keys).chain(of_rules).chain(of_service).collect()
    }

    fn files(&self) -> Vec<&Path> {
        let of_users = self.basic.iter().filter_map(|basic| basic.file.as_deref());
        let of_keys = self.api_keys.iter().filter_map(|keys| keys.file.as_deref());
        of_users.chain(of_keys).collect()
    }
}

pub(super) fn policy() -> impl Read<Value = Authorise> {
    section_of::<AuthoriseFields>().then(|fields, node, to| {
        let AuthoriseFields {
            allow,
            deny,
            client_certificate,
            api_keys,
            any_of,
            scopes,
            roles,
            claims,
            rules,
            tell_missing,
            basic,
            forward_auth,
        } = fields;
        let checked = Authorise {
            allow,
            deny,
            client_certificate,
            api_keys,
            any_of,
            scopes,
            roles,
            claims,
            rules,
            tell_missing,
            basic,
            forward_auth,
        };
        check_choice(&checked, node, to)?;
        if checked.is_empty() {
            let error =
                Diagnostic::error(node.span, "this authorisation policy allows every request");
            let error = error.label("expected at least one condition");
            return to.fail(error.help("such as `allow`, `deny`, `api_keys` or `scopes`"));
        }
        let keys = checked.api_keys.as_ref().filter(|keys| keys.are_in_authorization());
        if checked.basic.is_some() && keys.is_some() {
            let message = "API keys and passwords cannot both use `Authorization`";
            let error = Diagnostic::error(node.key_span("basic"), message);
            let error = error.label("for `basic`, `api_keys` needs another `header`");
            return to.fail(error.also(node.key_span("api_keys"), "API keys use it here"));
        }
        if checked.tell_missing && !checked.requires_tokens() {
            let error = Diagnostic::error(
                node.key_span("tell_missing"),
                "`tell_missing` has no effect here",
            );
            return to.fail(error.label("expected `scopes`, `roles` or `claims` next to it"));
        }
        Some(checked)
    })
}

/// A choice is one between several ways, each of which is declared beside it.
fn check_choice(checked: &Authorise, node: &Node, to: &mut Reading<'_>) -> Option<()> {
    let span = node.key_span("any_of");
    let Authorise { client_certificate, api_keys, any_of, basic, .. } = checked;
    if any_of.len() == 1 {
        let error = Diagnostic::error(span, "`any_of` with one entry is not a choice");
        return to.fail(error.label("expected two or more entries, or no `any_of`"));
    }
    for (index, way) in any_of.iter().enumerate() {
        let word = way.as_str();
        if any_of[..index].contains(way) {
            let error = Diagnostic::error(span, format!("`{word}` appears twice"));
            return to.fail(error.label("list each once"));
        }
        let is_there = match way {
            Credential::ClientCertificate => client_certificate.is_some(),
            Credential::ApiKeys => api_keys.is_some(),
            Credential::Token => true,
            Credential::Basic => basic.is_some(),
        };
        if !is_there {
            let error = Diagnostic::error(
                span,
                format!("`any_of` lists `{word}`, which this policy does not configure"),
            );
            return to.fail(error.label(format!("expected `{word}` next to `any_of`")));
        }
    }
    Some(())
}

/// A client that presents no certificate is not identified.
fn not_absent(
    matches: Vec<CertificateMatch>,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<Vec<CertificateMatch>> {
    if matches.iter().all(|it| it.value != ValueMatch::Absent) {
        return Some(matches);
    }
    let error =
        Diagnostic::error(node.span, "the absence of a certificate cannot authorise a request");
    to.fail(error.help("to match clients without one, set `client_certificate: absent` in a route"))
}
