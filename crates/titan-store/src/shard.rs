//! A server that keeps something, and the connections of all workers to it: all of a store, or of a cluster what one primary has.

use crate::connect::Place;
use crate::link::Link;
use crate::place::{Found, fixed};
use crate::slots::{Node, Slots, slot_of};
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::watch;

/// A server, and the connections to it.
pub(crate) struct Shard {
    /// What its cluster calls it; nothing where there is none.
    pub(crate) node: Option<Node>,
    /// Where it is, once that is known.
    pub(crate) places: watch::Sender<Vec<Place>>,
    /// By worker.
    links: Box<[Link]>,
}

/// All servers of a store.
pub(crate) enum Shards {
    /// There is one.
    One(Arc<Shard>),
    /// Those of a cluster, as far as they are known.
    Cluster(ArcSwap<Map>),
}

/// The primaries of a cluster.
pub(crate) struct Map {
    slots: Slots,
    /// In the order of their nodes.
    shards: Vec<Arc<Shard>>,
}

/// The server of a key, also once it is none of the store's any more.
pub(crate) enum Held<'s> {
    /// The only one.
    One(&'s Arc<Shard>),
    /// One of several.
    OfCluster(Arc<Shard>),
}

impl Shard {
    fn new(node: Option<Node>, places: Vec<Place>, workers: usize) -> Arc<Shard> {
        let links = std::iter::repeat_with(Link::default).take(workers).collect();
        Arc::new(Shard { node, places: watch::channel(places).0, links })
    }

    /// The connection of a worker.
    pub(crate) fn link(&self, worker: usize) -> &Link {
        &self.links[worker]
    }

    /// Whether some worker is without a connection.
    fn is_down(&self) -> bool {
        self.links.iter().any(Link::is_down)
    }
}

impl Shards {
    /// Those of a store that nobody has looked for yet.
    pub(crate) fn unsought(config: &titan_config::Store, workers: usize) -> Shards {
        match config.is_cluster {
            false => Shards::One(Shard::new(None, fixed(config), workers)),
            true => {
                let map = Map { slots: Slots::none(), shards: Vec::new() };
                Shards::Cluster(ArcSwap::from_pointee(map))
            }
        }
    }

    /// The one that has a key, as far as is known.
    pub(crate) fn with(&self, key: &[u8]) -> Option<Held<'_>> {
        match self {
            Shards::One(shard) => Some(Held::One(shard)),
            Shards::Cluster(map) => {
                let map = map.load();
                let place = map.slots.place_of(slot_of(key))?;
                map.shards.get(place).map(|shard| Held::OfCluster(Arc::clone(shard)))
            }
        }
    }

    /// The one that a cluster calls that.
    pub(crate) fn named(&self, node: &Node) -> Option<Arc<Shard>> {
        let all = self.all();
        all.into_iter().find(|shard| shard.node.as_ref() == Some(node))
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Shard>> {
        match self {
            Shards::One(shard) => vec![Arc::clone(shard)],
            Shards::Cluster(map) => map.load().shards.clone(),
        }
    }

    /// Whether each is known and no worker is without a connection to it.
    pub(crate) fn are_up(&self) -> bool {
        match self {
            Shards::One(shard) => !shard.is_down(),
            Shards::Cluster(map) => {
                let map = map.load();
                !map.shards.is_empty() && !map.shards.iter().any(|shard| shard.is_down())
            }
        }
    }

    /// Whether nobody has some of the keys, as far as is known.
    pub(crate) fn have_gaps(&self) -> bool {
        match self {
            Shards::One(_) => false,
            Shards::Cluster(map) => !map.load().slots.are_whole(),
        }
    }

    /// Notes where it is, or which nodes it has. What was there before keeps its connections. Tells whether that is news.
    pub(crate) fn take(&self, found: Found, workers: usize) -> bool {
        match (self, found) {
            (Shards::One(shard), Found::Server(places)) => shard.places.send_if_modified(|known| {
                let differs = *known != places;
                known.clone_from(&places);
                differs
            }),
            (Shards::Cluster(map), Found::Cluster(slots, places)) => {
                let before = map.load_full();
                let next = before.next(slots, places, workers);
                let is_news = next.slots != before.slots
                    || !next.shards.iter().zip(&before.shards).all(|(a, b)| Arc::ptr_eq(a, b));
                if is_news {
                    map.store(Arc::new(next));
                }
                is_news
            }
            _ => false,
        }
    }
}

impl Map {
    /// With the servers of this one where they are the same.
    fn next(&self, slots: Slots, places: Vec<Vec<Place>>, workers: usize) -> Map {
        let known: HashMap<_, _> = self.shards.iter().map(|it| (it.node.as_ref(), it)).collect();
        let shards = slots.nodes.iter().zip(places).map(|(node, places)| {
            let same = known.get(&Some(node)).filter(|it| are_same(&it.places.borrow(), &places));
            match same {
                Some(shard) => Arc::clone(shard),
                None => Shard::new(Some(node.clone()), places, workers),
            }
        });
        let shards = shards.collect();
        Map { slots, shards }
    }
}

/// Whether those are the same places, in whatever order name servers have told them.
fn are_same(places: &[Place], others: &[Place]) -> bool {
    places.len() == others.len() && places.iter().all(|place| others.contains(place))
}

impl Deref for Held<'_> {
    type Target = Arc<Shard>;

    fn deref(&self) -> &Arc<Shard> {
        match self {
            Held::One(shard) => shard,
            Held::OfCluster(shard) => shard,
        }
    }
}
