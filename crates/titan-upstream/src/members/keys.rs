//! By what the registry knows what upstreams and their endpoints have.

use crate::endpoint::Address;
use crate::groups::Rank;
use std::hash::{Hash, Hasher};
use titan_config::{Name, Protocol, Resolver, UpstreamTls};

/// By what a budget is kept beside what it is a share of.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct BudgetKey(pub(super) Name, pub(super) usize);

/// By what state is kept that an upstream has whatever of it changes.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct UpstreamName(pub(super) Name);

/// By what it is known whose turn it is in a group of endpoints, whatever of that changes.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct TurnKey(pub(super) Name, pub(super) Rank);

/// What makes an upstream the one that it was, with all that it is doing.
#[derive(PartialEq, Eq)]
pub(super) struct UpstreamKey {
    pub(super) config: titan_config::Upstream,
    pub(super) resolver: Resolver,
    pub(super) workers: usize,
}

/// What makes it TLS that is spoken with the same words.
#[derive(PartialEq, Eq)]
pub(super) struct TlsKey {
    pub(super) upstream: UpstreamName,
    pub(super) tls: UpstreamTls,
    pub(super) protocol: Protocol,
}

/// What makes an endpoint the one that it was: to whom connections lead, and what is spoken on them.
#[derive(PartialEq, Eq)]
pub(super) struct EndpointKey {
    pub(super) upstream: UpstreamName,
    pub(super) address: Address,
    pub(super) host: Box<str>,
    pub(super) tls: Option<UpstreamTls>,
    pub(super) protocol: Protocol,
}

impl Hash for UpstreamKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.config.name.hash(state);
    }
}

impl Hash for TlsKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.upstream.hash(state);
    }
}

impl Hash for EndpointKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.upstream, &self.address).hash(state);
    }
}
