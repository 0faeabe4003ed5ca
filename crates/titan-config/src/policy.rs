//! Policies: what the gateway does with requests and responses, declared once and used by name.

mod authorise;
mod claim;
mod compress;
mod cors;
mod early_limit;
mod failure_limit;
mod fault;
mod jwt;
mod maintenance;
mod needs;
mod rate_limit;
mod rule;
mod section;
mod transform;

pub(crate) use authorise::key_hash;
pub use authorise::{
    ApiKey, ApiKeys, AuthCache, AuthKey, Basic, ClaimRule, ClaimValue, Credential, ForwardAuth,
    Granted, KeyHash, PasswordHash, User, api_keys_in, users_in,
};
pub use claim::Claim;
pub(crate) use claim::{claim, parse_claim};
pub use compress::{CodedRequests, MediaRange, OtherCodings};
pub(crate) use compress::{codings, media_range};
pub use cors::{CorsHeaders, CorsMethods, CorsOrigin};
pub use fault::FaultEffect;
pub use jwt::{
    ClaimHeader, JwksUrl, JwtAlgorithm, JwtKeys, JwtProvider, JwtRevocations, TokenPlace, Url,
    WithoutRevocations,
};
pub(crate) use jwt::{jwt_revocations, parse_url};
pub(crate) use needs::{
    check_certificates, check_credentials, check_key_fields, check_optional_tokens, check_tokens,
};
pub(crate) use rate_limit::parse_rate;
pub use rate_limit::{
    Exempt, Rate, RateKey, RatePlan, RatePlans, RouteCost, SharedLimit, SharedMode, WithoutStore,
};
pub use rule::{Rule, RulePart};
pub use transform::{
    Changes, CookieDomain, CookieRule, PathPiece, PathRule, RequestTransform, ResponseTransform,
    ValuePiece, ValueRule, ValueTemplate,
};
pub(crate) use transform::{Part, body_template, check_use, split};

use crate::bounds::MAX_POLICIES;
use crate::declared::Declared;
use crate::diagnostic::Diagnostic;
use crate::location::{Location, Span};
use crate::node::{Node, quote};
use crate::read::{At, Read, Reading, at, optional};
use crate::readers::{Named, one_or_list, text, words};
use crate::section::{section, section_of};
use crate::shape::{Shape, TextShape};
use crate::token::{HeaderName, NAME, Name};
use section::PolicySection;
use std::collections::HashMap;
use std::path::Path;

/// The policies: a line for each, in the order in which requests meet them.
///
/// `$with` is a macro that makes something of the list. A line has the doc of the policy's key in the file, the name of its types
/// and that of its modules: `Cors` of `policy/cors.rs` here, and of `cors.rs` in the crate that puts policies into effect.
#[macro_export]
macro_rules! policies {
    ($with:ident) => {
        $with! {
            /// Which pages of other origins may read responses (cross-origin resource sharing).
            Cors cors;
            /// Closes routes for a while.
            Maintenance maintenance;
            /// A rate limit that comes before `jwt` and `authorise`, and so bounds their work for unauthenticated clients. Its key
            /// and its exemptions cannot use API keys and claims. A route may have a `rate_limit` as well.
            EarlyLimit early_limit;
            /// How often clients may present invalid tokens, API keys and passwords.
            FailureLimit failure_limit;
            /// Authenticates requests by JSON Web Tokens.
            Jwt jwt;
            /// Which requests are allowed.
            Authorise authorise;
            /// How many requests with the same key may come in a period, and how many may run at once.
            RateLimit rate_limit;
            /// Makes requests fail on purpose.
            Fault fault;
            /// Changes requests and responses.
            Transform transform;
            /// Which responses are compressed.
            Compress compress;
        }
    };
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $Kind:ident $field:ident;)+) => {
        $(pub use $field::$Kind;)+

        /// What a policy does.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Policy {
            $($(#[doc = $doc])+ $Kind(Box<$Kind>),)+
        }

        /// The types of policies, in the order in which requests meet them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum PolicyKind {
            $($(#[doc = $doc])+ $Kind,)+
        }

        impl PolicyKind {
            /// Every type.
            pub const ALL: &[PolicyKind] = &[$(PolicyKind::$Kind,)+];

            /// The key that it has in the file.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(PolicyKind::$Kind => stringify!($field),)+
                }
            }
        }

        impl Policy {
            /// Its type.
            pub fn kind(&self) -> PolicyKind {
                match self {
                    $(Policy::$Kind(_) => PolicyKind::$Kind,)+
                }
            }

            fn section(&self) -> &dyn PolicySection {
                match self {
                    $(Policy::$Kind(section) => &**section,)+
                }
            }
        }

        section! {
            "policy", "a policy", One;
            /// Something to do with requests and responses on the way; it has one of these types.
            pub(crate) struct PolicyFields {
                $(
                    $(#[doc = $doc])+
                    pub(crate) $field: Option<Box<$Kind>> =
                        optional("", $field::policy().map(Box::new)),
                )+
            }
        }

        impl PolicyFields {
            /// The one that is given: a section of which there is one key always has one.
            fn policy(self) -> Option<Policy> {
                let PolicyFields { $($field,)+ } = self;
                None$(.or($field.map(Policy::$Kind)))+
            }
        }

        /// The policies that the requests of a route meet: at most one of each type, by its place in
        /// [`crate::Config::policies`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Policies {
            $($(#[doc = $doc])+ pub $field: Option<PolicyId>,)+
        }

        impl Policies {
            /// The place of the policy of that type.
            pub fn of(&self, kind: PolicyKind) -> Option<PolicyId> {
                match kind {
                    $(PolicyKind::$Kind => self.$field,)+
                }
            }

            fn set(&mut self, kind: PolicyKind, id: Option<PolicyId>) {
                match kind {
                    $(PolicyKind::$Kind => self.$field = id,)+
                }
            }
        }
    };
}

policies!(kinds);

impl Policy {
    /// The fields of requests that identify clients to upstreams: clients may not write them, on any route.
    pub fn identity_fields(&self) -> Vec<&HeaderName> {
        self.section().identity_fields()
    }

    pub(crate) fn changed_fields(&self) -> Vec<&HeaderName> {
        self.section().changed_fields()
    }

    pub(crate) fn request_fields(&self) -> Vec<&HeaderName> {
        self.section().request_fields()
    }

    pub(crate) fn files(&self) -> Vec<&Path> {
        self.section().files()
    }

    pub(crate) fn needs_system_authorities(&self) -> bool {
        self.section().needs_system_authorities()
    }

    /// The limit on requests that it is, wherever they meet it.
    pub fn rate_limit(&self) -> Option<&RateLimit> {
        match self {
            Policy::EarlyLimit(limit) | Policy::RateLimit(limit) => Some(limit),
            _ => None,
        }
    }
}

/// A policy with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPolicy {
    /// Unique.
    pub name: Name,
    /// What it does.
    pub policy: Policy,
    /// Where the file declares it.
    pub location: Location,
    /// Whether a source has delivered it, and no file of the gateway declares it.
    pub is_delivered: bool,
}

/// The place of a policy in [`crate::Config::policies`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(u16);

impl PolicyId {
    /// The index into [`crate::Config::policies`].
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The policies that a place of the file names, and the types that it does without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) names: Vec<At<String>>,
    pub(crate) without: Vec<PolicyKind>,
}

pub(crate) fn policy() -> impl Read<Value = Policy> {
    section_of::<PolicyFields>().then(|fields, _, _| fields.policy())
}

/// Names of policies.
pub(crate) fn uses() -> impl Read<Value = Vec<At<String>>> {
    let shape = TextShape { what: "the name of a policy", examples: "`public`", ..NAME };
    let name = text(shape, |text| Ok(text.to_owned())).then(|name: String, node, to| {
        check_name(&name, node.span, to);
        Some(name)
    });
    one_or_list(at(name), 0..=PolicyKind::ALL.len())
}

/// Reports a name that no policy has.
fn check_name(name: &str, span: Span, to: &mut Reading<'_>) {
    let policies = &to.declared.policies;
    if policies.contains(name) {
        return;
    }
    let error = Diagnostic::error(span, format!("there is no policy {}", quote(name)));
    let near = || to.did_you_mean(name, policies.iter());
    let help = name_of_type(name, &to.declared)
        .or_else(near)
        .unwrap_or_else(|| "`policies` at the top of the file declares them by name".to_owned());
    to.add(error.label("not found in `policies`").help(help));
}

/// What to write in place of a type where the name of a policy is expected.
fn name_of_type(written: &str, declared: &Declared) -> Option<String> {
    let kind = PolicyKind::ALL.iter().find(|kind| kind.as_str() == written)?.as_str();
    let names: Vec<String> = declared.policies_of(kind).take(3).map(quote).collect();
    Some(match names.is_empty() {
        true => format!(
            "declare a policy of the type `{kind}` under `policies`, such as \
             `my_{kind}: {{ {kind}: ... }}`, and apply `my_{kind}`"
        ),
        false => format!(
            "`{kind}` is a type; apply the name of a policy of that type: {}",
            names.join(" or ")
        ),
    })
}

/// Types of policies.
pub(crate) fn kinds() -> impl Read<Value = Vec<PolicyKind>> {
    let named: Vec<_> = PolicyKind::ALL.iter().map(|kind| (kind.as_str(), *kind)).collect();
    one_or_list(KindReader(words(&named)), 0..=PolicyKind::ALL.len())
}

/// A type of policies; says the type of a policy whose name is written instead.
struct KindReader<R>(R);

impl<R: Read<Value = PolicyKind>> Read for KindReader<R> {
    type Value = PolicyKind;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<PolicyKind> {
        let kind = node.as_text().and_then(|name| to.declared.type_of_policy(name));
        match kind.filter(|_| PolicyKind::ALL.iter().all(|it| Some(it.as_str()) != node.as_text()))
        {
            Some(kind) => {
                let name = node.describe();
                let help =
                    format!("`without` takes types of policies; the type of {name} is `{kind}`");
                let error = Diagnostic::error(node.span, "expected a type of policies");
                to.fail(error.label("this is the name of a policy").help(help))
            }
            None => self.0.read(node, to),
        }
    }

    fn shape(&self) -> Shape {
        self.0.shape()
    }
}

/// That two policies of one type, or one policy twice, stand in the same list.
fn twice((first, second): (&str, &str), kind: PolicyKind, span: Span) -> Diagnostic {
    if first == second {
        let error = Diagnostic::error(span, format!("the policy `{first}` is applied twice"));
        return error.label("name it once");
    }
    let kind = kind.as_str();
    let message = format!("`{first}` and `{second}` are both policies of the type `{kind}`");
    Diagnostic::error(span, message)
        .label("a route has at most one policy of each type")
        .help(format!("apply `{first}` or `{second}`, not both"))
}

/// The policies of a file by their names.
pub(crate) struct PolicyNames<'p> {
    by_name: HashMap<&'p str, (PolicyId, PolicyKind)>,
    used: Vec<bool>,
}

impl<'p> PolicyNames<'p> {
    /// All names, if all policies could be read; otherwise the meaning of a name is unknown.
    pub(crate) fn of(policies: &'p [Named<Name, Option<Policy>>]) -> Option<PolicyNames<'p>> {
        debug_assert!(policies.len() <= MAX_POLICIES, "the reader bounds them");
        let numbered = (0..=u16::MAX).zip(policies);
        let by_name = numbered.map(|(number, Named { key, value, .. })| {
            Some((key.as_str(), (PolicyId(number), value.as_ref()?.kind())))
        });
        Some(PolicyNames {
            by_name: by_name.collect::<Option<_>>()?,
            used: vec![false; policies.len()],
        })
    }

    /// The result of `uses` on top of the policies in force: a policy replaces the one of the same type.
    pub(crate) fn resolve(
        &mut self,
        uses: &Uses,
        over: Policies,
        to: &mut Reading<'_>,
    ) -> Option<Policies> {
        let Uses { names, without } = uses;
        let mut policies = over;
        without.iter().for_each(|kind| policies.set(*kind, None));
        let mut seen: HashMap<PolicyKind, (&str, Span)> = HashMap::new();
        let mut is_known = true;
        for At { value: name, span } in names {
            let Some(&(id, kind)) = self.by_name.get(name.as_str()) else {
                // The reader has reported it.
                is_known = false;
                continue;
            };
            self.used[id.index()] = true;
            if without.contains(&kind) {
                let message =
                    format!("`without` leaves out the policy `{name}` that is applied here");
                let error = Diagnostic::error(*span, message);
                let kind = kind.as_str();
                to.add(error.label(format!("it has the type `{kind}`, which `without` names")));
            }
            if let Some((earlier, first)) = seen.insert(kind, (name, *span)) {
                to.add(twice((earlier, name), kind, *span).also(first, "the first is here"));
            }
            policies.set(kind, Some(id));
        }
        is_known.then_some(policies)
    }

    /// Warns of those that nothing uses: they protect nothing.
    pub(crate) fn check_used(
        &self,
        policies: &[Named<Name, Option<Policy>>],
        to: &mut Reading<'_>,
    ) {
        for (Named { key, key_span, .. }, used) in policies.iter().zip(&self.used) {
            if !used {
                let message = format!("the policy `{key}` is not used");
                let warning = Diagnostic::warning(*key_span, message);
                to.add(
                    warning
                        .label("it has no effect")
                        .help("list it in `apply`, at the top level or in a route"),
                );
            }
        }
    }
}
