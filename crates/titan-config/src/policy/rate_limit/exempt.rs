//! Requests that a rate limit does not count.

use crate::bounds::{MAX_API_KEYS, MAX_NETWORKS};
use crate::cidr::{Cidr, cidr};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::policy::authorise::{ClaimRule, claim_rules};
use crate::read::{Read, Reading, default};
use crate::readers::one_or_list;
use crate::section::{section, section_of};
use crate::token::{Name, name};

section! {
    "exempt", "exemptions from a rate limit", Any;
    /// Requests that a rate limit does not count, and whose responses have no `RateLimit` fields: those that match any
    /// of these. `titan_rate_limit_requests_total` counts them as `exempt`.
    pub struct Exempt {
        /// The networks of clients that are not limited, by the address behind all trusted proxies.
        pub addresses: Vec<Cidr> = default("[]", one_or_list(cidr(), 0..=MAX_NETWORKS)),
        /// Claims that exempt a token, by name or JSON pointer: `{ role: [batch, admin] }`. One match is enough. Some
        /// route with this limit needs a policy `jwt`.
        pub claims: Vec<ClaimRule> = default("{}", claim_rules()),
        /// The names of API keys that are not limited. Some route with this limit needs a policy `authorise` with these
        /// keys.
        pub api_keys: Vec<Name> = default("[]", one_or_list(name(), 0..=MAX_API_KEYS)),
    }
}

pub(super) fn exempt() -> impl Read<Value = Exempt> {
    section_of::<Exempt>().then(check)
}

fn check(exempt: Exempt, node: &Node, to: &mut Reading<'_>) -> Option<Exempt> {
    let Exempt { addresses, claims, api_keys } = &exempt;
    if !addresses.is_empty() || !claims.is_empty() || !api_keys.is_empty() {
        return Some(exempt);
    }
    let error = Diagnostic::error(node.span, "these exemptions exempt nobody");
    to.fail(error.label("expected `addresses`, `claims` or `api_keys`"))
}

impl Exempt {
    /// What other policies have to judge first.
    pub(in crate::policy) fn judged(&self) -> impl Iterator<Item = &'static str> + use<> {
        let by_claims = (!self.claims.is_empty()).then_some("claims of tokens");
        let by_keys = (!self.api_keys.is_empty()).then_some("API keys");
        by_claims.into_iter().chain(by_keys)
    }
}
