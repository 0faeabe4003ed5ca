//! Endpoints that sources know of, and where they are told: to the feeds that upstreams follow, and to what keeps them for a start
//! without the source.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use titan_upstream::feeds::{FedEndpoint, Feed, Feeds};

/// What one source knows of: the endpoints, by the name of the feed.
pub type Endpoints = BTreeMap<String, Vec<Endpoint>>;

/// Where something listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its address.
    pub address: SocketAddr,
    /// Its share beside the others of the feed.
    pub weight: NonZeroU16,
}

/// What keeps the endpoints of a source.
pub trait Keeper: Send + Sync {
    /// Keeps these, in place of those before. It does not wait until they are kept.
    fn keep(&self, endpoints: Endpoints);
}

/// Tells of the endpoints of one source.
pub struct Teller {
    feeds: Feeds,
    keeper: Option<Arc<dyn Keeper>>,
    /// The feeds that are told of: what was told is kept as long as they are.
    known: BTreeMap<String, Arc<Feed>>,
}

/// Whether that is all that a source knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// It is all: what is not in it is gone.
    All,
    /// Something is not known yet: what was kept of it has to stay.
    Some,
}

impl Endpoint {
    /// One that gets as much as the others.
    pub fn at(address: SocketAddr) -> Endpoint {
        Endpoint { address, weight: NonZeroU16::MIN }
    }

    fn fed(&self) -> FedEndpoint {
        let Endpoint { address, weight } = *self;
        FedEndpoint { address, weight, is_remote: false, is_draining: false }
    }
}

impl Teller {
    /// One that tells these feeds; without a keeper nothing is kept.
    pub fn new(feeds: Feeds, keeper: Option<Arc<dyn Keeper>>) -> Teller {
        Teller { feeds, keeper, known: BTreeMap::new() }
    }

    /// Has these endpoints get the requests of upstreams that follow. An upstream of a feed that is not named any more keeps its
    /// endpoints until it goes itself: the document that has it is in force until another one is. Returns the feeds from which some
    /// were left out, and how many.
    pub fn tell(&mut self, endpoints: &Endpoints, extent: Extent) -> Vec<(String, usize)> {
        let mut left_out = Vec::new();
        for (name, endpoints) in endpoints {
            let feed = self.known.entry(name.clone()).or_insert_with(|| self.feeds.feed(name));
            let surplus = feed.publish(endpoints.iter().map(Endpoint::fed).collect());
            if surplus > 0 {
                left_out.push((name.clone(), surplus));
            }
        }
        if extent == Extent::All {
            self.known.retain(|name, _| endpoints.contains_key(name));
            if let Some(keeper) = &self.keeper {
                keeper.keep(endpoints.clone());
            }
        }
        left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Endpoints>>);

    impl Keeper for Kept {
        fn keep(&self, endpoints: Endpoints) {
            self.0.lock().unwrap().push(endpoints);
        }
    }

    #[test]
    fn what_is_not_all_is_not_kept() {
        let kept = Arc::new(Kept::default());
        let mut teller = Teller::new(Feeds::default(), Some(kept.clone()));
        let at = |port: u16| Endpoint::at(([127, 0, 0, 1], port).into());
        let some = Endpoints::from([("s/a".to_owned(), vec![at(1)])]);
        let all = Endpoints::from([("s/a".to_owned(), vec![at(1)]), ("s/b".to_owned(), vec![])]);
        assert_eq!(teller.tell(&some, Extent::Some), []);
        assert_eq!(kept.0.lock().unwrap().len(), 0);
        assert_eq!(teller.tell(&all, Extent::All), []);
        assert_eq!(*kept.0.lock().unwrap(), [all]);
        assert_eq!(teller.known.len(), 2);
        teller.tell(&some, Extent::All);
        assert_eq!(teller.known.len(), 1);
    }
}
