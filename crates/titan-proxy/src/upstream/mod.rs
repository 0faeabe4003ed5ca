//! Upstreams: which endpoint takes a request, and over which connection.

pub(crate) mod balance;
pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod pool;
mod queue;
pub(crate) mod reclaim;
pub(crate) mod resolve;
pub(crate) mod slots;
#[cfg(test)]
mod tests;
pub(crate) mod trouble;

use crate::exchange::Latency;
use crate::gateway::EndpointStatus;
use crate::route::Request;
use arc_swap::{ArcSwap, ArcSwapOption};
use balance::{Balancer, Draw, EndpointState, Turn};
use connect::Address;
use slots::Slots;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use titan_config::{Balance, Protocol};
use titan_http::Version;
use titan_io::error::Kind;
use titan_io::network::ClientNetwork;
use titan_io::tls::{ClientTls, Towards};
use trouble::{Cause, Troubles};

/// A named group of endpoints.
pub(crate) struct Upstream {
    config: titan_config::Upstream,
    tls: Option<ClientTls>,
    /// Whose turn it is; goes on when the members change.
    turn: Turn,
    members: ArcSwap<Members>,
    /// Grows with each change of the members.
    version: AtomicU64,
    /// What goes wrong with it.
    pub(crate) troubles: Arc<Troubles>,
}

/// The endpoints of an upstream at one moment. Replaced as a whole when a name resolves to others.
pub(crate) struct Members {
    /// What they were made from, in the same order.
    places: Vec<Place>,
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    pub(crate) balancer: Balancer,
}

/// What one worker knows of the members of all upstreams. Looking is a load; only when they have
/// changed is a count touched that all workers share.
#[derive(Default)]
pub(crate) struct Known {
    upstreams: RefCell<Vec<Option<(u64, CurrentMembers)>>>,
}

impl Known {
    /// The members of `upstream` now; `index` is its place in the configuration.
    pub(crate) fn get(&self, index: usize, upstream: &Upstream) -> CurrentMembers {
        let version = upstream.version.load(Ordering::Acquire);
        let mut upstreams = self.upstreams.borrow_mut();
        if upstreams.len() <= index {
            upstreams.resize(index + 1, None);
        }
        match &upstreams[index] {
            Some((seen, members)) if *seen == version => Rc::clone(members),
            _ => {
                let members = Rc::new(upstream.members());
                upstreams[index] = Some((version, Rc::clone(&members)));
                members
            }
        }
    }
}

/// A worker's own count around the one that all workers share, so that no request touches that.
pub(crate) type CurrentMembers = Rc<Arc<Members>>;

/// One address that requests can be sent to.
pub(crate) struct Endpoint {
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) address: Address,
    /// What connections are secured with; `None` without TLS.
    pub(crate) tls: Option<Towards>,
    pub(crate) protocol: Protocol,
    /// Whether a handshake has agreed on HTTP/1.1 where either would have done.
    has_agreed_on_h1: AtomicBool,
    /// The Host of requests for it, where a route wants that: the name it was configured with.
    pub(crate) host: Box<str>,
    pub(crate) load: Arc<EndpointState>,
    pub(crate) slots: Arc<Slots>,
    /// Idle connections kept, over all workers.
    pub(crate) idle: AtomicU32,
    max_idle: u32,
    pub(crate) idle_timeout: Duration,
    pub(crate) queue_timeout: Duration,
    /// Whether its last answer was HTTP/1.0: such a server does not know 100 (Continue).
    pub(crate) is_http10: AtomicBool,
    is_gone: AtomicBool,
    /// What goes wrong with its upstream.
    troubles: Arc<Troubles>,
    /// Why the last connection to it was not to be had, until somebody tells of that.
    reason: ArcSwapOption<(Kind, String)>,
}

/// An endpoint with its address, as configured or resolved. Address and host make it the endpoint that it is: the
/// host is the name and port from the configuration, and TLS asks for that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: Address,
    pub(crate) host: Box<str>,
    pub(crate) weight: NonZeroU16,
}

/// How an exchange goes through the endpoints of an upstream: none twice, and a bounded number.
pub(crate) struct Attempts {
    members: CurrentMembers,
    measures_latency: bool,
    key: Option<u64>,
    /// Whom the request is for.
    client: Option<ClientNetwork>,
    tried: [usize; MAX_ATTEMPTS],
    count: usize,
}

/// One attempt more than the retries that a route can ask for.
const MAX_ATTEMPTS: usize = 6;

impl Upstream {
    /// The upstream with the endpoints that need no resolving.
    pub(crate) fn new(config: &titan_config::Upstream, tls: Option<ClientTls>) -> Upstream {
        let turn = Turn::default();
        let none = Members::new(config, Turn::clone(&turn), Vec::new(), Vec::new());
        let (members, version) = (ArcSwap::from_pointee(none), AtomicU64::new(0));
        let troubles = Arc::default();
        Upstream { config: config.clone(), tls, turn, members, version, troubles }
    }

    /// What the configuration says of it.
    pub(crate) fn config(&self) -> &titan_config::Upstream {
        &self.config
    }

    /// How TLS is spoken with its endpoints.
    pub(crate) fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    /// Its endpoints now.
    pub(crate) fn members(&self) -> Arc<Members> {
        self.members.load_full()
    }

    /// Makes `places` its endpoints. Those that it had before keep their connections and loads; where all are as
    /// they were, nothing is replaced.
    pub(crate) fn set_places(&self, places: Vec<Place>) {
        let before = self.members.load_full();
        if before.places == places {
            return;
        }
        let endpoints: Vec<_> = places
            .iter()
            .map(|place| match before.endpoint(place) {
                Some(endpoint) => Arc::clone(endpoint),
                None => Arc::new(Endpoint::new(place, self)),
            })
            .collect();
        for endpoint in &before.endpoints {
            let stays = endpoints.iter().any(|other| Arc::ptr_eq(other, endpoint));
            endpoint.is_gone.store(!stays, Ordering::Release);
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
        places: Vec<Place>,
        endpoints: Vec<Arc<Endpoint>>,
    ) -> Members {
        let loads = endpoints.iter().map(|endpoint| Arc::clone(&endpoint.load));
        let weights = places.iter().map(|place| place.weight);
        let balancer = Balancer::new(&config.balance, turn, loads.zip(weights));
        Members { places, endpoints, balancer }
    }

    /// The addresses that a name stands for.
    fn addresses_of(&self, host: &str) -> impl Iterator<Item = SocketAddr> {
        let named = self.endpoints.iter().filter(move |endpoint| *endpoint.host == *host);
        named.filter_map(|endpoint| match endpoint.address {
            Address::Ip(address) => Some(address),
            Address::Unix(_) => None,
        })
    }

    /// The endpoint of a place. The address alone does not tell: when two names swap theirs, each needs connections
    /// that were opened under its own.
    fn endpoint(&self, place: &Place) -> Option<&Arc<Endpoint>> {
        let is_it = |endpoint: &&Arc<Endpoint>| {
            endpoint.address == place.address && endpoint.host == place.host
        };
        self.endpoints.iter().find(is_it)
    }
}

impl Endpoint {
    fn new(place: &Place, upstream: &Upstream) -> Endpoint {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Place { address, host, weight: _ } = place;
        let tls = upstream.tls.as_ref().map(|tls| tls.towards(host));
        let troubles = Arc::clone(&upstream.troubles);
        let upstream = &upstream.config;
        Endpoint {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            address: address.clone(),
            tls,
            protocol: upstream.protocol,
            has_agreed_on_h1: AtomicBool::new(false),
            host: host.clone(),
            load: EndpointState::new(&address.to_string()),
            slots: Arc::new(Slots::new(upstream.max_connections.at_most(), upstream.queue.length)),
            idle: AtomicU32::new(0),
            max_idle: upstream.max_idle,
            idle_timeout: upstream.idle_timeout,
            queue_timeout: upstream.queue.timeout,
            is_http10: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            troubles,
            reason: ArcSwapOption::empty(),
        }
    }

    /// Why there is no connection to it, kept where somebody is going to tell of it.
    pub(crate) fn note_reason(&self, kind: Kind, error: &io::Error) {
        if self.troubles.is_wanted(Cause::Failed(kind)) {
            self.reason.store(Some(Arc::new((kind, error.to_string()))));
        }
    }

    /// The reason for a failure of that kind, where one was noted.
    pub(crate) fn take_reason(&self, kind: Kind) -> Option<String> {
        let reason = self.reason.swap(None)?;
        (reason.0 == kind).then(|| reason.1.clone())
    }

    /// Whether requests for it go over HTTP/1.1, as far as that is known.
    pub(crate) fn speaks_h1(&self) -> bool {
        match self.protocol {
            Protocol::H1 => true,
            Protocol::H2 => false,
            Protocol::Auto => self.tls.is_none() || self.has_agreed_on_h1.load(Ordering::Relaxed),
        }
    }

    /// Notes what a new connection speaks.
    pub(crate) fn note_agreed(&self, is_h2: bool) {
        self.has_agreed_on_h1.store(!is_h2, Ordering::Relaxed);
    }

    /// Takes a place among the idle connections, if there is one.
    pub(crate) fn take_idle_place(&self) -> bool {
        let more = |idle| (idle < self.max_idle).then_some(idle + 1);
        self.idle.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Notes what it answered with. A store only where that is news: all workers read it.
    pub(crate) fn note_version(&self, version: Version) {
        let is_http10 = version == Version::Http10;
        if self.is_http10.load(Ordering::Relaxed) != is_http10 {
            self.is_http10.store(is_http10, Ordering::Relaxed);
        }
    }

    /// How it is doing.
    pub(crate) fn status(&self, upstream: &str) -> EndpointStatus {
        EndpointStatus {
            upstream: upstream.to_owned(),
            address: self.address.to_string(),
            active: self.load.active(),
            open: self.slots.open(),
            idle: self.idle.load(Ordering::Relaxed),
            waiting: self.slots.waiting(),
        }
    }

    /// Whether the upstream no longer has it.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }
}

impl Attempts {
    /// No attempt yet for this request.
    pub(crate) fn new(
        upstream: &Upstream,
        members: CurrentMembers,
        request: &Request<'_>,
        client: Option<IpAddr>,
    ) -> Attempts {
        let key = members.balancer.key(request, client);
        let measures_latency = matches!(upstream.config.balance, Balance::P2cEwma);
        let client = client.map(ClientNetwork::of);
        Attempts { members, measures_latency, key, client, tried: [0; MAX_ATTEMPTS], count: 0 }
    }

    /// Whom the request is for, where that is known.
    pub(crate) fn client(&self) -> Option<ClientNetwork> {
        self.client
    }

    /// Whether the choice depends on how fast endpoints have answered.
    pub(crate) fn measures_latency(&self) -> bool {
        self.measures_latency
    }

    /// How many endpoints were chosen.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The endpoint chosen last.
    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.members.endpoints[self.tried[self.count - 1]]
    }

    /// Chooses the next endpoint to try.
    pub(crate) fn next(&mut self, random: u64, now: Duration) -> Result<(), Kind> {
        let excluded = &self.tried[..self.count];
        let draw = Draw { key: self.key, random, now, excluded };
        let chosen = match self.count < MAX_ATTEMPTS {
            true => self.members.balancer.choose(&draw).ok_or(Kind::NoEndpoint)?,
            false => return Err(Kind::NoEndpoint),
        };
        self.tried[self.count] = chosen;
        self.count += 1;
        Ok(())
    }

    /// Notes how the endpoint chosen last has answered.
    pub(crate) fn note_answer(&self, version: Version, latency: Option<Latency>, started: Instant) {
        self.endpoint().note_version(version);
        if let Some(latency) = latency {
            self.endpoint().load.record(latency.so_far(), started.elapsed());
        }
    }

    /// Notes that the endpoint chosen last has failed. One that fails at once must not look fast, so
    /// it counts as if it had kept the request waiting for `penalty`.
    pub(crate) fn note_failure(&self, penalty: Duration, now: Duration) {
        if self.measures_latency {
            self.endpoint().load.record(penalty, now);
        }
    }

    /// Writes the cookie that ties the client to the endpoint chosen last, where one is due.
    pub(crate) fn set_cookie(&self, out: &mut Vec<u8>) -> bool {
        let chosen = self.tried[self.count - 1];
        self.members.balancer.set_cookie(self.key, chosen, out)
    }
}
