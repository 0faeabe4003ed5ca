//! Documents and endpoints in Consul: keys below a prefix, and healthy instances of services, each followed by blocking queries.

mod api;
mod query;

use crate::delivery::Delivery;
use crate::endpoints::{Endpoint, Endpoints, Extent, Teller};
use crate::outlet::Outlet;
use crate::pace::Pace;
use crate::percent::encoded;
use query::Query;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use titan_config::{ConsulService, ConsulSource, Resolver, ServiceName};
use titan_upstream::feeds::MAX_FED;
use titan_upstream::members::Upstream;
use tokio::time::sleep;

/// What is followed in Consul.
pub(crate) struct Consul {
    interval: Duration,
    keys: Option<(String, Query)>,
    services: Vec<(ServiceName, Query)>,
    instances: Instances,
}

/// Where the instances of its services are.
struct Instances {
    /// The source's name, with which those of its feeds begin.
    source: String,
    /// Of how many services it is to be known.
    services: usize,
    known: Endpoints,
    teller: Teller,
}

/// The shortest pause between two queries: what changes all the time is not asked for all the time.
const BREATH: Duration = Duration::from_millis(50);

impl Consul {
    /// The source of that name, whose endpoints `teller` tells.
    pub(crate) fn new(
        config: &ConsulSource,
        (upstream, resolver): (&Arc<Upstream>, &Resolver),
        (source, teller): (&str, Teller),
    ) -> Consul {
        let query = |path: String, options| {
            Query::new(config, (Arc::clone(upstream), resolver.clone()), path, options)
        };
        let keys = config.prefix.as_ref();
        let keys =
            keys.map(|it| (it.clone(), query(format!("/v1/kv/{it}"), "recurse=true".to_owned())));
        let services = config.services.iter().map(|service| {
            let query = query(format!("/v1/health/service/{}", service.name), options(service));
            (service.feed.clone(), query)
        });
        let services: Vec<_> = services.collect();
        let instances = Instances {
            source: source.to_owned(),
            services: services.len(),
            known: Endpoints::new(),
            teller,
        };
        Consul { interval: config.interval, keys, services, instances }
    }

    /// Follows all of it until nobody takes it any more.
    pub(crate) async fn run(self, outlet: Outlet) {
        let Consul { interval, keys, services, instances } = self;
        let instances = RefCell::new(instances);
        let told = Told { outlet: &outlet, failing: RefCell::default() };
        let mut all: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        if let Some((prefix, query)) = keys {
            let deliver = deliver(prefix, &outlet);
            all.push(Box::pin(follow("keys".to_owned(), (query, interval), &told, deliver)));
        }
        for (name, query) in services {
            let publish = publish(name.clone(), &instances, &outlet);
            all.push(Box::pin(follow(name.to_string(), (query, interval), &told, publish)));
        }
        let followed = poll_fn(|cx| {
            // None of them ends.
            all.iter_mut().for_each(|it| {
                let _ = it.as_mut().poll(cx);
            });
            Poll::<()>::Pending
        });
        tokio::select! {
            () = followed => {}
            () = outlet.closed() => {}
        }
    }
}

/// Which instances of a service are asked for. Tags have no quotes in them.
fn options(service: &ConsulService) -> String {
    let mut options = "passing=true".to_owned();
    if let Some(datacenter) = &service.datacenter {
        options.push_str(&format!("&dc={}", encoded(datacenter)));
    }
    let tags: Vec<_> = service.tags.iter().map(|it| format!("\"{it}\" in Service.Tags")).collect();
    if !tags.is_empty() {
        options.push_str(&format!("&filter={}", encoded(&tags.join(" and "))));
    }
    options
}

/// Follows one thing for ever: `take` takes what there is whenever that has changed.
async fn follow(
    what: String,
    (mut query, interval): (Query, Duration),
    told: &Told<'_>,
    mut take: impl FnMut(&[u8], u64) -> Result<(), String>,
) {
    let mut pace = Pace::new(interval);
    loop {
        let news = query.next().await;
        let taken = news.and_then(|news| news.map_or(Ok(()), |(body, index)| take(&body, index)));
        let pause = match taken {
            Ok(()) => {
                told.succeeded(&what);
                // The agent has waited in place of the pause.
                pace.succeeded(0);
                BREATH
            }
            Err(why) => {
                told.failed(&what, format!("{}: {what}: {why}", query.agent()));
                query.take_next();
                pace.failed(None, query.random())
            }
        };
        sleep(pause).await;
    }
}

/// Delivers documents, where they are others than before.
fn deliver(prefix: String, outlet: &Outlet) -> impl FnMut(&[u8], u64) -> Result<(), String> {
    let mut last: Option<Delivery> = None;
    move |body, index| {
        let delivery = api::delivery(body, &prefix, index)?;
        let is_same = |last: &Delivery| {
            (last.documents(), last.skipped()) == (delivery.documents(), delivery.skipped())
        };
        if !last.as_ref().is_some_and(is_same) {
            outlet.deliver(delivery.clone());
        }
        last = Some(delivery);
        Ok(())
    }
}

/// Tells of the endpoints of a service.
fn publish(
    service: ServiceName,
    instances: &RefCell<Instances>,
    outlet: &Outlet,
) -> impl FnMut(&[u8], u64) -> Result<(), String> {
    move |body, _| {
        let (endpoints, left_out) = api::endpoints(body)?;
        let surplus = instances.borrow_mut().tell(&service, endpoints);
        if left_out > 0 {
            outlet.warn(format!(
                "{left_out} instances of {service} get no requests: they have no IP address or no port"
            ));
        }
        if surplus > 0 {
            outlet.warn(format!(
                "{surplus} instances of {service} get no requests: there may be {MAX_FED}"
            ));
        }
        Ok(())
    }
}

impl Instances {
    /// Tells where those of a service are; how many are left out because there are too many. They are kept once all services are
    /// known: what was kept of one that was not asked yet has to stay.
    fn tell(&mut self, service: &ServiceName, endpoints: Vec<Endpoint>) -> usize {
        let feed = format!("{}/{service}", self.source);
        self.known.insert(feed.clone(), endpoints);
        let extent = if self.known.len() == self.services { Extent::All } else { Extent::Some };
        let left_out = self.teller.tell(&self.known, extent);
        left_out.into_iter().find(|(name, _)| *name == feed).map_or(0, |(_, surplus)| surplus)
    }
}

/// How what is followed fares, as one.
struct Told<'o> {
    outlet: &'o Outlet,
    /// What could not be asked, and why.
    failing: RefCell<BTreeMap<String, String>>,
}

impl Told<'_> {
    fn succeeded(&self, what: &str) {
        self.failing.borrow_mut().remove(what);
        self.tell();
    }

    fn failed(&self, what: &str, why: String) {
        self.failing.borrow_mut().insert(what.to_owned(), why);
        self.tell();
    }

    fn tell(&self) {
        match self.failing.borrow().values().next() {
            None => self.outlet.succeeded(),
            Some(why) => self.outlet.failed(why.clone()),
        }
    }
}
