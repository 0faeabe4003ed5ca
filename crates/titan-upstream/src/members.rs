//! A named group of endpoints, and who its members are at the moment.

use crate::balance::{Balancer, Turn};
use crate::endpoint::{Address, Endpoint, ResolvedEndpoint};
use crate::trouble::Troubles;
use arc_swap::ArcSwap;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use titan_io::tls::ClientTls;

/// A named group of endpoints.
pub struct Upstream {
    /// Unique in the process.
    id: u64,
    config: titan_config::Upstream,
    tls: Option<ClientTls>,
    /// Whose turn it is; goes on when the members change.
    turn: Turn,
    members: ArcSwap<Members>,
    /// Grows with each change of the members.
    version: AtomicU64,
    /// What goes wrong with it.
    pub troubles: Arc<Troubles>,
}

/// The endpoints of an upstream at one moment. Replaced as a whole when a name resolves to others.
pub struct Members {
    /// What they were made from, in the same order.
    places: Vec<ResolvedEndpoint>,
    /// All of them.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Chooses among them.
    pub balancer: Balancer,
}

/// What one worker knows of the members of all upstreams. Looking is a load; only when they have
/// changed is a count touched that all workers share.
#[derive(Default)]
pub struct Known {
    upstreams: RefCell<Vec<Option<Seen>>>,
}

/// The members of one upstream as they were seen last.
struct Seen {
    upstream: u64,
    version: u64,
    members: CurrentMembers,
}

impl Known {
    /// The members of `upstream` now; `index` is its place in the configuration.
    pub fn get(&self, index: usize, upstream: &Upstream) -> CurrentMembers {
        let version = upstream.version.load(Ordering::Acquire);
        let mut upstreams = self.upstreams.borrow_mut();
        if upstreams.len() <= index {
            upstreams.resize_with(index + 1, || None);
        }
        match &upstreams[index] {
            Some(seen) if seen.upstream == upstream.id && seen.version == version => {
                Rc::clone(&seen.members)
            }
            _ => {
                let members = Rc::new(upstream.members());
                let seen = Rc::clone(&members);
                upstreams[index] = Some(Seen { upstream: upstream.id, version, members: seen });
                members
            }
        }
    }
}

/// A worker's own count around the one that all workers share, so that no request touches that.
pub type CurrentMembers = Rc<Arc<Members>>;

impl Upstream {
    /// The upstream with the endpoints that need no resolving.
    pub fn new(config: &titan_config::Upstream, tls: Option<ClientTls>) -> Upstream {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let turn = Turn::default();
        let none = Members::new(config, Turn::clone(&turn), Vec::new(), Vec::new());
        let (members, version) = (ArcSwap::from_pointee(none), AtomicU64::new(0));
        let (id, troubles) = (NEXT.fetch_add(1, Ordering::Relaxed), Arc::default());
        Upstream { id, config: config.clone(), tls, turn, members, version, troubles }
    }

    /// What the configuration says of it.
    pub fn config(&self) -> &titan_config::Upstream {
        &self.config
    }

    /// How TLS is spoken with its endpoints.
    pub fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    /// Its endpoints now.
    pub fn members(&self) -> Arc<Members> {
        self.members.load_full()
    }

    fn endpoint_at(&self, place: &ResolvedEndpoint) -> Endpoint {
        Endpoint::new(place, &self.config, self.tls.as_ref(), &self.troubles)
    }

    /// Makes `places` its endpoints. Those that it had before keep their connections and loads; where all are as
    /// they were, nothing is replaced.
    pub fn set_places(&self, places: Vec<ResolvedEndpoint>) {
        let before = self.members.load_full();
        if before.places == places {
            return;
        }
        let endpoints: Vec<_> = places
            .iter()
            .map(|place| match before.endpoint(place) {
                Some(endpoint) => Arc::clone(endpoint),
                None => Arc::new(self.endpoint_at(place)),
            })
            .collect();
        for endpoint in &before.endpoints {
            let stays = endpoints.iter().any(|other| Arc::ptr_eq(other, endpoint));
            endpoint.set_gone(!stays);
        }
        let members = Members::new(&self.config, Turn::clone(&self.turn), places, endpoints);
        self.members.store(Arc::new(members));
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}

impl Members {
    /// `endpoints` are those of `places`.
    fn new(
        config: &titan_config::Upstream,
        turn: Turn,
        places: Vec<ResolvedEndpoint>,
        endpoints: Vec<Arc<Endpoint>>,
    ) -> Members {
        let loads = endpoints.iter().map(|endpoint| Arc::clone(&endpoint.load));
        let weights = places.iter().map(|place| place.weight);
        let balancer = Balancer::new(&config.balance, turn, loads.zip(weights));
        Members { places, endpoints, balancer }
    }

    /// The addresses that a name stands for.
    pub(crate) fn addresses_of(&self, host: &str) -> impl Iterator<Item = SocketAddr> {
        let named = self.endpoints.iter().filter(move |endpoint| *endpoint.host == *host);
        named.filter_map(|endpoint| match endpoint.address {
            Address::Ip(address) => Some(address),
            Address::Unix(_) => None,
        })
    }

    /// The endpoint of a place. The address alone does not tell: when two names swap theirs, each needs connections
    /// that were opened under its own.
    fn endpoint(&self, place: &ResolvedEndpoint) -> Option<&Arc<Endpoint>> {
        let is_it = |endpoint: &&Arc<Endpoint>| {
            endpoint.address == place.address && endpoint.host == place.host
        };
        self.endpoints.iter().find(is_it)
    }
}

#[cfg(test)]
mod tests;
