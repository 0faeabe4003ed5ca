//! A named group of endpoints, and its members at the moment.

use crate::balance::{Balancer, Turn};
use crate::cells::UpstreamCells;
use crate::endpoint::{Address, Endpoint, ResolvedEndpoint};
use crate::failure_log::FailureLog;
use arc_swap::ArcSwap;
use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use titan_config::{Name, Protocol, Resolver, UpstreamTls};
use titan_io::counter::Counted;
use titan_io::registry::Registry;
use titan_io::tls::ClientTls;
use tokio::sync::watch;

/// A named group of endpoints.
pub struct Upstream {
    /// Unique in the process.
    id: u64,
    config: titan_config::Upstream,
    tls: Option<Arc<ClientTls>>,
    /// Where endpoints come from that upstreams of that name have in common.
    registry: Registry,
    /// Whose turn it is; goes on when the members change.
    turn: Turn,
    members: ArcSwap<Members>,
    /// Grows with each change of the members.
    version: AtomicU64,
    in_force: Arc<Mutex<InForce>>,
    /// Whether a task keeps its members up to date.
    is_followed: AtomicBool,
    /// Closed when it is gone.
    life: watch::Sender<()>,
    /// What goes wrong with it.
    pub failure_log: Arc<FailureLog>,
    /// What is counted for it.
    pub counted: Arc<Counted<UpstreamCells>>,
}

/// Of all upstreams of one name, the one whose configuration is in force, and the addresses that its endpoints had
/// last.
#[derive(Default)]
struct InForce {
    upstream: Option<u64>,
    places: Vec<ResolvedEndpoint>,
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

/// The members of all upstreams as one worker knows them. A lookup is a load; only when they have changed, a count is
/// touched that all workers share.
#[derive(Default)]
pub struct KnownMembers {
    upstreams: RefCell<Vec<Option<SeenMembers>>>,
}

/// The members of one upstream as they were last seen.
struct SeenMembers {
    upstream: Weak<Upstream>,
    id: u64,
    version: u64,
    members: CurrentMembers,
}

impl KnownMembers {
    /// The members of `upstream` now; `index` is its place in the configuration.
    pub fn get(&self, index: usize, upstream: &Arc<Upstream>) -> CurrentMembers {
        let version = upstream.version.load(Ordering::Acquire);
        let mut upstreams = self.upstreams.borrow_mut();
        if upstreams.len() <= index {
            upstreams.resize_with(index + 1, || None);
        }
        match &upstreams[index] {
            Some(seen) if seen.id == upstream.id && seen.version == version => {
                Rc::clone(&seen.members)
            }
            _ => {
                let members = Rc::new(upstream.members());
                let (upstream, id) = (Arc::downgrade(upstream), upstream.id);
                let seen = SeenMembers { upstream, id, version, members: Rc::clone(&members) };
                upstreams[index] = Some(seen);
                members
            }
        }
    }

    /// Forgets upstreams that are gone.
    pub fn sweep(&self) {
        for seen in &mut *self.upstreams.borrow_mut() {
            seen.take_if(|seen| seen.upstream.strong_count() == 0);
        }
    }
}

/// A worker's own count around the one that all workers share, so that no request touches that.
pub type CurrentMembers = Rc<Arc<Members>>;

impl Upstream {
    /// The upstream of a configuration: the one that `registry` has, where nothing of it has changed. Else it is
    /// a new one, with those endpoints that are as they were, and the addresses that names were last known to have.
    /// So many workers use it.
    pub fn of(
        config: &titan_config::Upstream,
        resolver: &Resolver,
        tls: Option<ClientTls>,
        (registry, workers): (&Registry, usize),
    ) -> Arc<Upstream> {
        let config = config.without_locations();
        let key = UpstreamKey { config: config.clone(), resolver: resolver.clone(), workers };
        registry.shared(key, || Upstream::new(config, tls, (registry, workers)))
    }

    fn new(
        config: titan_config::Upstream,
        tls: Option<ClientTls>,
        (registry, workers): (&Registry, usize),
    ) -> Upstream {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = || UpstreamName(config.name.clone());
        let tls = tls.zip(config.tls.clone()).map(|(tls, section)| {
            let key = TlsKey { upstream: name(), tls: section, protocol: config.protocol };
            registry.shared(key, || tls)
        });
        let turn: Turn = registry.shared(name(), AtomicU64::default);
        let none = Members::new(&config, Turn::clone(&turn), Vec::new(), Vec::new());
        let upstream = Upstream {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            tls,
            registry: registry.clone(),
            turn,
            members: ArcSwap::from_pointee(none),
            version: AtomicU64::new(0),
            in_force: registry.shared(name(), Mutex::default),
            is_followed: AtomicBool::new(false),
            life: watch::channel(()).0,
            failure_log: registry.shared(name(), FailureLog::default),
            counted: Counted::of(registry, config.name.as_str(), workers),
            config,
        };
        let places = upstream.in_force().places_of(&upstream.config);
        upstream.set_places(places);
        upstream
    }

    /// What the configuration says of it.
    pub fn config(&self) -> &titan_config::Upstream {
        &self.config
    }

    /// How TLS is spoken with its endpoints.
    pub fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_deref()
    }

    /// Its endpoints now.
    pub fn members(&self) -> Arc<Members> {
        self.members.load_full()
    }

    /// Applies its configuration to its endpoints. Those that the upstream of that name had before are held to its
    /// limits until then.
    pub fn take_effect(&self) {
        let mut in_force = self.in_force();
        let members = self.members();
        *in_force = InForce { upstream: Some(self.id), places: members.places.clone() };
        members.endpoints.iter().for_each(|endpoint| endpoint.set_limits(&self.config));
    }

    /// Whether no task keeps its members up to date yet: from now on the caller does.
    pub fn begin_to_follow(&self) -> bool {
        !self.is_followed.swap(true, Ordering::Relaxed)
    }

    /// Closed when the upstream is gone.
    pub fn life(&self) -> watch::Receiver<()> {
        self.life.subscribe()
    }

    /// Replaces its endpoints by `places`. Those that it had before keep their connections and loads; where all are as
    /// they were, nothing is replaced.
    pub fn set_places(&self, mut places: Vec<ResolvedEndpoint>) {
        without_doubles(&mut places);
        let mut in_force = self.in_force();
        let before = self.members.load_full();
        if before.places == places {
            return;
        }
        let is_in_force = in_force.upstream == Some(self.id);
        let endpoints: Vec<_> = places.iter().map(|place| self.endpoint_at(place)).collect();
        for endpoint in without(&endpoints, &before.endpoints) {
            endpoint.join();
        }
        for endpoint in without(&before.endpoints, &endpoints) {
            endpoint.leave();
        }
        if is_in_force {
            endpoints.iter().for_each(|endpoint| endpoint.set_limits(&self.config));
            in_force.places.clone_from(&places);
        }
        let members = Members::new(&self.config, Turn::clone(&self.turn), places, endpoints);
        self.members.store(Arc::new(members));
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The address alone does not tell which endpoint it is: when two names swap theirs, each needs connections
    /// that were opened under its own.
    fn endpoint_at(&self, place: &ResolvedEndpoint) -> Arc<Endpoint> {
        let Upstream { config, tls, failure_log, .. } = self;
        let key = EndpointKey {
            upstream: UpstreamName(config.name.clone()),
            address: place.address.clone(),
            host: place.host.clone(),
            tls: config.tls.clone(),
            protocol: config.protocol,
        };
        self.registry.shared(key, || Endpoint::new(place, config, tls.as_ref(), failure_log))
    }

    fn in_force(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.members.load().endpoints.iter().for_each(|endpoint| endpoint.leave());
    }
}

impl InForce {
    /// Where the endpoints of a configuration are, as far as that is known.
    fn places_of(&self, config: &titan_config::Upstream) -> Vec<ResolvedEndpoint> {
        let known = |endpoint: &titan_config::Endpoint| {
            let (name, weight) = (endpoint.address.to_string(), endpoint.weight);
            let known = self.places.iter().filter(move |place| *place.host == *name);
            known.map(move |place| ResolvedEndpoint { weight, ..place.clone() })
        };
        let places =
            config.endpoints.iter().flat_map(|endpoint| match ResolvedEndpoint::fixed(endpoint) {
                Some(fixed) => vec![fixed],
                None => known(endpoint).collect(),
            });
        places.collect()
    }
}

/// Of `endpoints` those that are not among the others.
fn without<'e>(
    endpoints: &'e [Arc<Endpoint>],
    others: &[Arc<Endpoint>],
) -> impl Iterator<Item = &'e Arc<Endpoint>> {
    let others: HashSet<u64> = others.iter().map(|endpoint| endpoint.id).collect();
    endpoints.iter().filter(move |endpoint| !others.contains(&endpoint.id))
}

/// Two names may stand for one address: it is one endpoint, or its limits would count twice.
fn without_doubles(places: &mut Vec<ResolvedEndpoint>) {
    let mut seen = HashSet::new();
    places.retain(|place| seen.insert(place.address.clone()));
}

/// By what state is kept that an upstream has whatever of it changes.
#[derive(PartialEq, Eq, Hash)]
struct UpstreamName(Name);

/// What makes an upstream the one that it was, with all that it is doing.
#[derive(PartialEq, Eq)]
struct UpstreamKey {
    config: titan_config::Upstream,
    resolver: Resolver,
    workers: usize,
}

/// What makes it TLS that is spoken with the same words.
#[derive(PartialEq, Eq)]
struct TlsKey {
    upstream: UpstreamName,
    tls: UpstreamTls,
    protocol: Protocol,
}

/// What makes an endpoint the one that it was: to whom connections lead, and what is spoken on them.
#[derive(PartialEq, Eq)]
struct EndpointKey {
    upstream: UpstreamName,
    address: Address,
    host: Box<str>,
    tls: Option<UpstreamTls>,
    protocol: Protocol,
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
}

#[cfg(test)]
mod tests;
