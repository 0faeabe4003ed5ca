//! Endpoints that something in this process tells of, such as what follows the EndpointSlices of a cluster. They come and
//! go without another configuration, and without a thread that waits for them here: whoever tells of them replaces the
//! members of the upstreams that follow.

use crate::endpoint::{Address, ResolvedEndpoint};
use crate::groups::{DrainedBy, Placement, Rank};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use titan_io::registry::Registry;

/// The feeds of a process, by name. Clones are the same. By default they are those of nobody else.
#[derive(Clone, Default)]
pub struct Feeds(Registry);

/// Endpoints that go by one name. It is kept by the upstreams that follow it and by whoever tells of them: what was told is
/// forgotten with the last of these.
#[derive(Default)]
pub struct Feed {
    told: Mutex<Told>,
}

/// An endpoint of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FedEndpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its share beside the others of the feed.
    pub weight: NonZeroU16,
    /// Whether it is in another zone than the gateway: it comes after those that are not.
    pub is_remote: bool,
    /// Whether it is about to end: it gets no more requests than those that are tied to it.
    pub is_draining: bool,
}

/// The most endpoints of one feed; further ones are left out.
pub const MAX_FED: usize = 4096;

#[derive(Default)]
struct Told {
    /// `None` until something was told.
    endpoints: Option<Arc<[FedEndpoint]>>,
    followers: Vec<Weak<dyn Follower>>,
}

/// Who is told of other endpoints.
pub(crate) trait Follower: Send + Sync {
    /// Some feed that it follows has other endpoints.
    fn take_fed(&self);
}

/// What makes a feed the one that it is.
#[derive(PartialEq, Eq, Hash)]
struct FeedName(Box<str>);

impl Feeds {
    /// Those of a registry.
    pub fn of(registry: &Registry) -> Feeds {
        Feeds(registry.clone())
    }

    /// The one of that name: it exists as soon as somebody asks for it.
    pub fn feed(&self, name: &str) -> Arc<Feed> {
        self.0.shared(FeedName(name.into()), Feed::default)
    }
}

impl Feed {
    /// Tells of all endpoints that there are now, and has them get requests: returns when upstreams that follow have them.
    /// Returns how many were left out because there are more than [`MAX_FED`].
    pub fn publish(&self, endpoints: Vec<FedEndpoint>) -> usize {
        let (endpoints, surplus) = bounded(endpoints);
        let followers = {
            let mut told = self.told();
            if told.endpoints.as_deref() == Some(&*endpoints) {
                return surplus;
            }
            told.endpoints = Some(endpoints.into());
            told.followers.retain(|it| it.strong_count() > 0);
            told.followers.clone()
        };
        // Outside of the lock: each asks for what was told.
        followers.iter().filter_map(Weak::upgrade).for_each(|it| it.take_fed());
        surplus
    }

    /// Tells `follower` of what comes. What was told before it has to look at itself.
    pub(crate) fn follow(&self, follower: Weak<dyn Follower>) {
        let mut told = self.told();
        let is_same = |other: &Weak<dyn Follower>| Weak::ptr_eq(other, &follower);
        if !told.followers.iter().any(is_same) {
            told.followers.retain(|it| it.strong_count() > 0);
            told.followers.push(follower);
        }
    }

    /// What was told last; `None` where nothing was.
    pub(crate) fn endpoints(&self) -> Option<Arc<[FedEndpoint]>> {
        self.told().endpoints.clone()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// At most [`MAX_FED`], each address once, and the same ones whatever comes first.
fn bounded(mut endpoints: Vec<FedEndpoint>) -> (Vec<FedEndpoint>, usize) {
    endpoints.sort_unstable_by_key(|it| (it.address, it.is_draining, it.is_remote, it.weight));
    let mut seen = HashSet::with_capacity(endpoints.len());
    endpoints.retain(|it| seen.insert(it.address));
    let surplus = endpoints.len().saturating_sub(MAX_FED);
    endpoints.truncate(MAX_FED);
    (endpoints, surplus)
}

impl FedEndpoint {
    /// Its place among the members of an upstream that follows the feed with `endpoint`.
    pub(crate) fn place(self, endpoint: &titan_config::Endpoint) -> ResolvedEndpoint {
        let FedEndpoint { address, weight, is_remote, is_draining } = self;
        let of_all = Placement::of(endpoint);
        let rank = Rank { is_remote: of_all.rank.is_remote || is_remote, ..of_all.rank };
        let drained_by = of_all.drained_by.or(is_draining.then_some(DrainedBy::Feed));
        ResolvedEndpoint {
            address: Address::Ip(address),
            host: address.to_string().into(),
            source: endpoint.address.to_string().into(),
            record: None,
            placement: Placement { weight, rank, drained_by },
        }
    }
}
