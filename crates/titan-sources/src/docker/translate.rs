//! From containers to documents and endpoints. Pure.

use super::container::{Container, Reach, socket};
use super::labels::{Labels, Router, Scheme, Service, Settings, name};
use crate::delivery::{Document, MAX_DOCUMENTS, MAX_TEXTS};
use crate::endpoints::{Endpoint, Endpoints};
use crate::literal::document;
use crate::message::shown;
use serde_json::{Map, Value, json};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

/// What follows from the containers of an engine.
pub(crate) struct Translation {
    pub(crate) documents: Vec<Document>,
    /// Which containers get requests, by the feed of their service.
    pub(crate) endpoints: Endpoints,
    /// What is refused: the container, and why.
    pub(crate) refused: BTreeMap<String, String>,
}

/// What was found so far.
struct Translating<'t> {
    /// The source's name, with which all names begin.
    source: &'t str,
    reach: Reach<'t>,
    /// Those that are running and not unhealthy, by their ids.
    ready: &'t HashSet<String>,
    routers: BTreeMap<String, Declared<Router>>,
    services: BTreeMap<String, Declared<Settings>>,
    endpoints: Endpoints,
    refused: BTreeMap<String, String>,
}

/// What the oldest container says that says something of it.
struct Declared<T> {
    what: T,
    by: String,
    /// How many such things were declared before.
    nth: usize,
}

/// What a container says, all of which is understood.
struct Understood {
    /// With the name of their service.
    routers: Vec<(String, Router, String)>,
    services: BTreeMap<String, Settings>,
    /// Where it serves what; empty while it is not to get requests.
    addresses: Vec<(String, SocketAddr)>,
}

/// The priority of a router with none: below all routes of files that have none.
const LOWEST: i64 = -1_000_000;
/// Bytes of what is told of a container, beyond which nothing is added.
const MAX_REASON: usize = 1_000;
/// Bytes of a name of a configuration.
const MAX_NAME: usize = 64;

/// Translates the containers of an engine, of which those are ready.
pub(crate) fn translate(
    source: &str,
    reach: Reach<'_>,
    mut containers: Vec<Container>,
    ready: &HashSet<String>,
) -> Translation {
    containers.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    let mut translating = Translating {
        source,
        reach,
        ready,
        routers: BTreeMap::new(),
        services: BTreeMap::new(),
        endpoints: Endpoints::new(),
        refused: BTreeMap::new(),
    };
    for container in containers.iter().filter(|it| it.is_to_be_served()) {
        match translating.understood(container) {
            Ok(understood) => translating.add(container.name(), understood),
            Err(why) => translating.refuse(container.name(), &why),
        }
    }
    let documents = translating.documents();
    let Translating { endpoints, refused, .. } = translating;
    Translation { documents, endpoints, refused }
}

impl Translating<'_> {
    /// What a container says; otherwise why that cannot be.
    fn understood(&self, container: &Container) -> Result<Understood, String> {
        let Labels { network, routers, mut services } = Labels::parse(&container.labels)?;
        if services.is_empty() {
            services.insert(container.own_service(), Service::default());
        }
        let is_ready = self.ready.contains(&container.id);
        let mut addresses = Vec::new();
        for (service, Service { port, .. }) in &services {
            self.full_name("service", service)?;
            let port = port.map_or_else(|| container.only_port(), Ok)?;
            // One that is just being started has no address yet.
            if is_ready {
                let address = container.address(network.as_deref(), self.reach)?;
                addresses.push((service.clone(), socket(address, port)));
            }
        }
        let settings = services.into_iter().map(|(name, service)| (name, service.settings));
        let services: BTreeMap<_, _> = settings.collect();
        let mut all = Vec::new();
        for (router, declared) in routers {
            self.full_name("router", &router)?;
            if declared.rule.is_none() {
                return Err(format!(
                    "the router `{router}` has no rule: set the label `titan.http.routers.{router}.rule`"
                ));
            }
            let service = match (&declared.service, services.len(), services.first_key_value()) {
                (Some(service), _, _) => service.clone(),
                (None, 1, Some((service, _))) => service.clone(),
                _ => {
                    return Err(format!(
                        "the router `{router}` has several services: set the label `titan.http.routers.{router}.service`"
                    ));
                }
            };
            self.full_name("service", &service)?;
            all.push((router, declared, service));
        }
        Ok(Understood { routers: all, services, addresses })
    }

    fn add(&mut self, container: &str, understood: Understood) {
        let Understood { routers, services, addresses } = understood;
        for (service, settings) in services {
            self.endpoints.entry(self.feed(&service)).or_default();
            if let Some(by) = declare(&mut self.services, &service, settings, container) {
                self.refuse(container, &contradiction("service", &service, &by));
            }
        }
        for (service, address) in addresses {
            let feed = self.feed(&service);
            self.endpoints.entry(feed).or_default().push(Endpoint::at(address));
        }
        for (router, declared, service) in routers {
            let declared = Router { service: Some(service), ..declared };
            if let Some(by) = declare(&mut self.routers, &router, declared, container) {
                self.refuse(container, &contradiction("router", &router, &by));
            }
        }
    }

    /// A document for each router, and one for each service that routers lead to: those of the oldest containers, as many as a
    /// delivery may have.
    fn documents(&mut self) -> Vec<Document> {
        let (mut documents, mut refused, mut size) = (BTreeMap::new(), Vec::new(), 0);
        let mut routers: Vec<_> = self.routers.iter().collect();
        routers.sort_by_key(|(_, declared)| declared.nth);
        for (name, Declared { what: router, by, nth: _ }) in routers {
            let service = router.service.as_deref().unwrap_or_default();
            let Some(Declared { what: settings, .. }) = self.services.get(service) else {
                let why = format!(
                    "the router `{name}` leads to the service `{service}`, which no container has"
                );
                refused.push((by.clone(), why));
                continue;
            };
            let route = document(json!({ "routes": [self.route(name, router, service)] }));
            let upstream = document(
                json!({ "upstreams": { self.named(service): self.upstream(service, settings) } }),
            );
            let more = route.len() + upstream.len();
            if size + more > MAX_TEXTS || documents.len() + 2 > MAX_DOCUMENTS {
                let why = format!(
                    "there is no room for the router `{name}`: all take {MAX_DOCUMENTS} documents \
                     or {MAX_TEXTS} bytes, and older containers come first"
                );
                refused.push((by.clone(), why));
                continue;
            }
            size += more;
            documents.insert(format!("routers/{name}"), route);
            documents.entry(format!("services/{service}")).or_insert(upstream);
        }
        refused.iter().for_each(|(container, why)| self.refuse(container, why));
        documents.into_iter().map(|(name, text)| Document { name, text }).collect()
    }

    fn route(&self, name: &str, router: &Router, service: &str) -> Map<String, Value> {
        let Router { rule, listeners, service: _, priority, policies } = router;
        let mut route = rule.as_ref().map(super::rule::Rule::written).unwrap_or_default();
        let mut set = |key: &str, value: Value| drop(route.insert(key.to_owned(), value));
        set("name", json!(self.named(name)));
        set("upstream", json!(self.named(service)));
        set("priority", json!(LOWEST + i64::from(*priority)));
        if !listeners.is_empty() {
            set("listeners", json!(listeners));
        }
        if !policies.is_empty() {
            set("apply", json!(policies));
        }
        route
    }

    fn upstream(&self, service: &str, settings: &Settings) -> Value {
        let Settings { scheme, probe, probe_interval } = settings;
        let mut upstream = json!({ "endpoints": format!("feed:{}", self.feed(service)) });
        match scheme {
            Scheme::Http => {}
            Scheme::Https => upstream["tls"] = json!("on"),
            Scheme::H2c => upstream["protocol"] = json!("h2"),
        }
        if let Some(path) = probe {
            upstream["health"] = json!({ "probe": { "http": path } });
            if let Some(interval) = probe_interval {
                upstream["health"]["interval"] = json!(format!("{interval}ms"));
            }
        }
        upstream
    }

    /// What something is called in the configuration.
    fn named(&self, name: &str) -> String {
        format!("{}.{name}", self.source)
    }

    fn feed(&self, service: &str) -> String {
        format!("{}/{service}", self.source)
    }

    /// Whether it can be called something in the configuration.
    fn full_name(&self, what: &str, text: &str) -> Result<(), String> {
        let refusal =
            |why: &str| format!("the {what} {:?} cannot be called so: {why}", shown(text));
        name(text).map_err(|why| refusal(&why))?;
        match self.named(text).len() <= MAX_NAME {
            true => Ok(()),
            false => Err(refusal(&format!(
                "with the name of the source it has more than {MAX_NAME} bytes"
            ))),
        }
    }

    fn refuse(&mut self, container: &str, why: &str) {
        match self.refused.entry(refusal_of(container)) {
            Entry::Vacant(vacant) => drop(vacant.insert(why.to_owned())),
            Entry::Occupied(told) if told.get().len() > MAX_REASON => {}
            Entry::Occupied(mut told) => {
                told.get_mut().push_str("; ");
                told.get_mut().push_str(why);
            }
        }
    }
}

/// What a container is called that is refused.
pub(crate) fn refusal_of(container: &str) -> String {
    format!("containers/{container}")
}

/// Notes what a container says of something; who has said something else before.
fn declare<T: PartialEq>(
    all: &mut BTreeMap<String, Declared<T>>,
    name: &str,
    what: T,
    container: &str,
) -> Option<String> {
    let nth = all.len();
    match all.entry(name.to_owned()) {
        Entry::Vacant(vacant) => {
            vacant.insert(Declared { what, by: container.to_owned(), nth });
            None
        }
        Entry::Occupied(before) => {
            let before = before.get();
            (before.what != what).then(|| before.by.clone())
        }
    }
}

fn contradiction(what: &str, name: &str, by: &str) -> String {
    format!("of the {what} `{name}` the older container {by} says something else, which holds")
}

#[cfg(test)]
mod tests;
