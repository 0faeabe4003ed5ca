//! Authorisation: who may ask at all. Each way to be let in has a module.

mod keys;

pub use keys::{ApiKey, ApiKeys, KeyHash};

use crate::bounds::MAX_NETWORKS;
use crate::cidr::{Cidr, cidr};
use crate::read::{Read, default, optional};
use crate::readers::one_or_list;
use crate::report::Diagnostic;
use crate::section::{section, section_of};
use crate::token::HeaderName;
use keys::api_keys;

section! {
    "authorise", "an authorisation", Any;
    /// Who may ask: a request has to pass everything that is named here, at least one thing. What is missing is not
    /// told: 403 for an address, 401 for a key.
    pub(crate) struct AuthoriseFields {
        /// The networks of clients that may ask, by the address behind all trusted proxies. Clients without an
        /// address, those of Unix sockets, may not.
        pub(crate) allow: Option<Vec<Cidr>> = optional("all", one_or_list(cidr(), 1..=MAX_NETWORKS)),
        /// The networks of clients that may not ask, whatever `allow` says. Clients without an address may not either.
        pub(crate) deny: Vec<Cidr> = default("[]", one_or_list(cidr(), 0..=MAX_NETWORKS)),
        /// The keys of which a request has to show one.
        pub(crate) api_keys: Option<ApiKeys> = optional("none is asked for", api_keys()),
    }
}

/// An authorisation, checked: it asks for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorise {
    /// The networks that may ask; all without.
    pub allow: Option<Vec<Cidr>>,
    /// The networks that may not.
    pub deny: Vec<Cidr>,
    /// The keys of which a request has to show one.
    pub api_keys: Option<ApiKeys>,
}

impl Authorise {
    /// The fields that tell upstreams of who asks.
    pub(super) fn told_fields(&self) -> Vec<&HeaderName> {
        self.api_keys.iter().filter_map(|keys| keys.tell.as_ref()).collect()
    }
}

pub(super) fn authorise() -> impl Read<Value = Authorise> {
    section_of::<AuthoriseFields>().then(|fields, node, to| {
        let AuthoriseFields { allow, deny, api_keys } = fields;
        if allow.is_none() && deny.is_empty() && api_keys.is_none() {
            let error = Diagnostic::error(node.span, "an authorisation that lets everybody in");
            return to.fail(error.label("expected `allow`, `deny` or `api_keys`"));
        }
        Some(Authorise { allow, deny, api_keys })
    })
}
