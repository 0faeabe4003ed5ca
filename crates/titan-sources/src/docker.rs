//! Labels of Docker's containers as documents, and the containers as endpoints.
//!
//! ```text
//! look:  the containers with labels, and which of them are ready -> endpoints told, documents delivered if they are others
//! hear:  the engine's events from before that look on            -> news: look again, a few milliseconds later, and when it is over
//!                                                                -> silence for the interval: look, and hear anew
//!                                                                -> broken, or no response: pause, then look
//! ```
//!
//! Nothing is taken from events but that something has happened: they may be late, repeated, out of order or cut off.

mod container;
mod crowd;
mod engine;
mod items;
mod labels;
mod rule;
mod translate;

use crate::delivery::{Delivery, Document};
use crate::endpoints::{Endpoints, Extent, Teller};
use crate::outlet::Outlet;
use crate::pace::Pace;
use container::Reach;
use engine::{Engine, Listing};
use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{DockerSource, Resolver};
use titan_upstream::feeds::MAX_FED;
use titan_upstream::members::Upstream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use translate::{Translation, refusal_of, translate};

/// An engine whose containers are followed.
pub(crate) struct Docker {
    engine: Engine,
    interval: Duration,
    pace: Pace,
    made: Made,
}

/// What was made of its containers.
struct Made {
    /// The source's name.
    source: String,
    network: Option<String>,
    teller: Teller,
    /// The endpoints that were told last.
    endpoints: Endpoints,
    /// What was delivered last.
    delivery: Option<Delivery>,
}

/// How long further events are waited for after one; looks are no closer to each other.
const TOGETHER: Duration = Duration::from_millis(100);
/// How long after the last event there is one more look: engines tell of a change before their list has it, by as long as their disk takes.
const SETTLED: Duration = Duration::from_secs(1);
/// Bytes of events between two looks.
const MAX_EVENTS: usize = 16 << 20;

impl Docker {
    /// The source of that name, whose endpoints `teller` tells. Those that are kept of it are `kept`.
    pub(crate) fn new(
        config: &DockerSource,
        (upstream, resolver): (&Arc<Upstream>, &Resolver),
        (source, teller, kept): (&str, Teller, Endpoints),
    ) -> Docker {
        Docker {
            engine: Engine::new(config, Arc::clone(upstream), resolver.clone()),
            interval: config.interval,
            pace: Pace::new(config.interval),
            made: Made {
                source: source.to_owned(),
                network: config.network.clone(),
                teller,
                endpoints: kept,
                delivery: None,
            },
        }
    }

    /// Follows the containers until nobody takes them any more.
    pub(crate) async fn run(mut self, outlet: Outlet) {
        loop {
            tokio::select! {
                () = self.follow(&outlet) => {}
                () = outlet.closed() => return,
            }
        }
    }

    /// Looks at the containers, and hears of them until nothing is heard any more.
    async fn follow(&mut self, outlet: &Outlet) {
        let followed = match self.made.look(&self.engine, outlet).await {
            Ok(since) => self.hear(since, outlet).await,
            Err(why) => Err(why),
        };
        if let Err(why) = followed {
            outlet.failed(format!("{}: {why}", self.engine.address()));
            self.engine.forget();
            sleep(self.pace.failed(None, self.engine.random())).await;
        }
    }

    /// Looks at the containers whenever something has happened, until nothing has for a while.
    async fn hear(&mut self, since: Option<u64>, outlet: &Outlet) -> Result<(), String> {
        let Docker { engine, interval, pace, made } = self;
        let (news, size) = (Notify::new(), Cell::new(0_usize));
        let heard = engine.hear(since, |piece| {
            news.notify_one();
            size.set(size.get() + piece.len());
            match size.get() > MAX_EVENTS {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        let looks = async {
            let mut patience = *interval;
            loop {
                let has_news = timeout(patience, news.notified()).await.is_ok();
                if !has_news && patience == *interval {
                    pace.succeeded(0);
                    return Ok(());
                }
                sleep(TOGETHER).await;
                size.set(0);
                made.look(engine, outlet).await?;
                pace.succeeded(0);
                patience = if has_news { SETTLED.min(*interval) } else { *interval };
            }
        };
        tokio::select! {
            heard = heard => Err(heard.err().unwrap_or_else(|| "it has ended its events".to_owned())),
            looked = looks => looked,
        }
    }
}

impl Made {
    /// Finds out which containers there are, and makes of them what is to be served; since when it has to be heard of them.
    async fn look(&mut self, engine: &Engine, outlet: &Outlet) -> Result<Option<u64>, String> {
        let Listing { containers, surplus, ready, since } = engine.containers().await?;
        let reach = Reach { network: self.network.as_deref(), is_local: engine.is_local() };
        let made = translate(&self.source, reach, containers, &ready);
        let Translation { documents, endpoints, refused } = made;
        let delivery = Delivery::new(revision(&documents), documents);
        let delivery = delivery.map_err(|bad| bad.to_string())?;
        let surplus = surplus.into_iter().map(|(name, why)| (refusal_of(&name), why));
        // Not all may be told: these first, for nothing else says that there are too many.
        let refused = surplus.chain(refused).map(|(name, why)| (name.into_bytes(), why));
        let delivery = delivery.without(refused);
        self.tell(endpoints, outlet);
        outlet.succeeded();
        if self.delivery.as_ref() != Some(&delivery) {
            outlet.deliver(delivery.clone());
            self.delivery = Some(delivery);
        }
        Ok(since)
    }

    /// Tells of endpoints before documents that need them. A service that is gone has none: upstreams of the files may follow it
    /// still.
    fn tell(&mut self, endpoints: Endpoints, outlet: &Outlet) {
        let gone = self.endpoints.keys().filter(|name| !endpoints.contains_key(*name));
        let gone = gone.map(|name| (name.clone(), Vec::new()));
        self.teller.tell(&gone.collect(), Extent::Some);
        if let Some((feed, surplus)) = self.teller.tell(&endpoints, Extent::All).pop() {
            outlet.warn(format!(
                "{surplus} containers of {feed} get no requests: there may be {MAX_FED}"
            ));
        }
        self.endpoints = endpoints;
    }
}

/// What tells this state of documents from others: an engine has no name for it.
fn revision(documents: &[Document]) -> String {
    let mut hasher = DefaultHasher::new();
    for document in documents {
        (&document.name, &document.text).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}
