//! From all that is known of a cluster to documents of Titan's configuration, and to the statuses of its objects. Pure.

use crate::attach::{self, Attached, Attaching};
use crate::backends::{Backend, Backends, Pods, Protocol, Resolved};
use crate::cluster::{Cluster, Kind};
use crate::credentials::{self, Unusable, Vault};
use crate::gateways::{self, Ours, Socket};
use crate::hostname;
use crate::ingress::{self, annotations::Speaks};
use crate::matches::{Match, Matching, unsupported};
use crate::names::joined;
use crate::objects::{Key, Object, RouteSpec, Rule};
use crate::policed::{self, Place, Unpoliced};
pub use crate::policies::Judgements;
use crate::policies::{Policies, Policy};
use crate::room::{self, Fitted};
use crate::rules::{self, Action, Making};
use crate::settings::Settings;
use crate::standing::{Form, Standing};
use crate::statuses::{self, Judgement, StatusChange};
use crate::tls_routes::{self, TlsRoutes};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What follows from all that is known of a cluster.
pub struct Translation {
    /// Texts of documents, by name.
    pub documents: BTreeMap<String, String>,
    /// Where the pods listen that the upstreams in them follow.
    pub pods: Pods,
    /// What upstreams would follow that have no pods.
    pub waiting: BTreeSet<String>,
    /// The files that they name.
    pub vault: Vault,
    /// Documents that are not among them, each with the reason.
    pub left_out: BTreeMap<String, String>,
    /// How documents with protected routes are delivered.
    pub forms: BTreeMap<String, Form>,
    /// The statuses that are other than they should be.
    pub statuses: Vec<StatusChange>,
    /// What is not served, and has no status that says so.
    pub warnings: BTreeSet<String>,
}

/// Translates all that is known of a cluster. `now` is written where a condition changes.
pub fn translate(
    cluster: &Cluster,
    settings: &Settings,
    (standing, judgements): (&Standing, &mut Judgements),
    now: &str,
) -> Translation {
    let mut vault = Vault::default();
    let is_ours = |name: &str| name == settings.controller;
    let classes = cluster.classes.values().filter(|it| is_ours(&it.spec.controller_name));
    let classes = classes.map(|it| it.metadata.name.as_str()).collect();
    let ingresses = ingress::ingresses(cluster, settings);
    let mut gateways = gateways::judged(cluster, &classes, (settings, &mut vault), &ingresses);
    let keys = gateways.iter().map(|it| it.key).collect();
    let known = (standing, std::mem::take(judgements));
    let titan = Policies::judged((cluster, &mut vault, &settings.folder), &keys, known);
    let presented = gateways
        .iter()
        .filter_map(|it| Some((it.key.clone(), it.presented.as_ref()?.as_ref().ok()?.clone())));
    let presented = presented.collect();
    let backends = Backends::new((cluster, &mut vault, &settings.folder), (titan, presented));
    let mut translating = Translating {
        cluster,
        backends,
        routes: Vec::new(),
        documents: BTreeMap::new(),
        ages: BTreeMap::new(),
        judgements: Vec::new(),
    };

    let waits = translating.find_services();
    translating.routes(&mut gateways, &cluster.http_routes, (Kind::HttpRoute, Protocol::Http));
    translating.routes(&mut gateways, &cluster.grpc_routes, (Kind::GrpcRoute, Protocol::Grpc));
    for (speaks, routes) in &ingresses.routes {
        translating.routes(&mut gateways, routes, (Kind::Ingress, spoken(*speaks)));
    }
    let connections = TlsRoutes::judged(cluster, &mut gateways, &mut translating.backends);
    translating.write_routes();
    translating.write_listeners(&gateways, &connections);
    translating.judgements.extend(connections.judgements);
    let Translating { backends, mut documents, mut ages, judgements: routes, .. } = translating;
    let Resolved { documents: upstreams, pods, waiting, tls: policies, mut titan } =
        backends.resolved();
    documents.extend(upstreams);
    let applied = applied(&documents);
    documents.extend(titan.documents(&applied));
    documents.extend(waits.then(tls_routes::nobody));
    ages.extend(titan.ages());

    let age = |name: &str| ages.get(name).cloned().unwrap_or_else(|| age_of_service(cluster, name));
    let Fitted { documents, told, forms } = room::fitting(&documents, age, standing);
    let standing = &standing.with(&told);
    titan.note_standing(standing);
    let statuses = statuses::changes(
        (cluster, settings, standing, now),
        (&classes, &gateways, &routes, (&policies, &titan)),
        &ingresses,
    );
    let warnings = statuses::warnings(&routes, standing).into_iter();
    let warnings = warnings.chain(ingresses.warnings.iter().cloned());
    let warnings = warnings.chain(titan.all().flat_map(Policy::warnings)).collect();
    vault.retain(&documents.values().flat_map(|text| credentials::named_in(text)).collect());
    *judgements = titan.into_judgements();
    let mut left_out = told;
    left_out.retain(|name, _| !documents.contains_key(name));
    Translation { documents, pods, waiting, vault, left_out, forms, statuses, warnings }
}

/// The policies that routes apply.
fn applied(documents: &BTreeMap<String, Value>) -> BTreeSet<String> {
    let routes = documents.values().filter_map(|it| it["routes"].as_array()).flatten();
    let names = routes.filter_map(|it| it["apply"].as_array()).flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// When the service of a document was made.
fn age_of_service(cluster: &Cluster, document: &str) -> String {
    let mut parts = document.split('/').skip(1);
    let key = parts.next().zip(parts.next()).map(|(namespace, name)| Key::new(namespace, name));
    let service = key.and_then(|key| cluster.services.get(&key));
    service.map(|it| it.metadata.creation_timestamp.clone()).unwrap_or_default()
}

/// What is on its way from one to the other.
struct Translating<'c> {
    cluster: &'c Cluster,
    backends: Backends<'c>,
    routes: Vec<Route>,
    documents: BTreeMap<String, Value>,
    /// When the object of a document was made.
    ages: BTreeMap<String, String>,
    judgements: Vec<Judgement<'c>>,
}

/// A route of Titan's.
struct Route {
    document: String,
    name: String,
    socket: Socket,
    hosts: Vec<String>,
    matching: Match,
    action: Map<String, Value>,
    /// The older one comes first, then by name, then in the order of the object.
    order: (String, String, usize, usize),
}

impl<'c> Translating<'c> {
    /// Finds the services that decide about requests for policies; whether there is one without pods.
    fn find_services(&mut self) -> bool {
        let mut waits = false;
        for (at, namespace, to) in self.backends.titan.services() {
            let who = (Kind::TitanPolicy.name(), namespace.as_str());
            let found = self.backends.resolve(who, &to, (Protocol::Http, &BTreeSet::new()), None);
            let found = found.map(|backend| match backend {
                Backend::Upstream(name) => name,
                Backend::NoPods | Backend::Insecure => {
                    waits = true;
                    tls_routes::NOBODY.to_owned()
                }
            });
            self.backends.titan.note_service(at, found);
        }
        waits
    }

    fn routes<M: Matching>(
        &mut self,
        gateways: &mut [Ours<'_>],
        objects: &'c BTreeMap<Key, Object<RouteSpec<M>>>,
        (kind, protocol): (Kind, Protocol),
    ) {
        for (key, object) in objects {
            // Paths of an Ingress are those of an HTTPRoute.
            let attached_as = if kind == Kind::Ingress { Kind::HttpRoute } else { kind };
            let attaching = Attaching {
                kind: attached_as.name(),
                meta: &object.metadata,
                hostnames: &object.spec.hostnames,
                is_of_ingress: kind == Kind::Ingress,
            };
            let parents = object.spec.parent_refs.iter();
            let attach = |parent| {
                Some((parent, attach::attached(self.cluster, gateways, &attaching, parent)?))
            };
            let parents: Vec<_> = parents.filter_map(attach).collect();
            if parents.is_empty() && kind != Kind::Ingress && !statuses::has_ours(&object.status) {
                continue;
            }
            for (_, attached) in &parents {
                for (listener, _) in &attached.listeners {
                    gateways[attached.gateway].listeners[*listener].attached += 1;
                }
            }
            let named = if kind == Kind::Ingress { ingress::of_route(key) } else { key.clone() };
            let document = format!("{}/{named}", kind.name().to_ascii_lowercase());
            let age = object.metadata.creation_timestamp.clone();
            self.ages.insert(document.clone(), age);
            let ours = parents.iter().filter(|(_, it)| it.refusal.is_none());
            let named = ours.map(|(_, it)| gateways[it.gateway].key.clone()).collect();
            let made = self.rules(key, object, (kind, protocol), &named);
            let (refusal, unresolved) = match made {
                Ok(Made { actions, unresolved }) => {
                    let refusal = self
                        .add(&document, (kind, key, object), actions, (&parents, gateways))
                        .err();
                    (refusal, unresolved)
                }
                Err(refusal) => (Some(refusal), None),
            };
            self.judgements.push(Judgement { kind, key, parents, document, refusal, unresolved });
        }
    }

    /// What the rules of a route do.
    fn rules<'r, M>(
        &mut self,
        key: &Key,
        object: &'r Object<RouteSpec<M>>,
        (kind, protocol): (Kind, Protocol),
        gateways: &BTreeSet<Key>,
    ) -> Result<Made<'r, M>, Unusable> {
        for host in &object.spec.hostnames {
            hostname::check(host, false).map_err(unsupported)?;
        }
        let (mut actions, mut unresolved) = (Vec::new(), None);
        for (at, rule) in object.spec.rules.iter().enumerate() {
            let route = key.name.replace(':', ".");
            let name = joined(&[&key.namespace, &route, short(kind), &at.to_string()]);
            let mut making = Making {
                who: (kind.name(), &key.namespace),
                gateways,
                protocol,
                backends: &mut self.backends,
                balance: rule.more.balance.as_ref(),
                name: &name,
            };
            let action = rules::action(rule, &mut making)?;
            unresolved = unresolved.or_else(|| action.unresolved.clone());
            actions.push((name, rule, action));
        }
        Ok(Made { actions, unresolved })
    }

    /// Adds the routes of an object, all or none.
    fn add<M: Matching>(
        &mut self,
        document: &str,
        (kind, key, object): (Kind, &Key, &Object<RouteSpec<M>>),
        actions: Vec<(String, &Rule<M>, Action<'_>)>,
        (parents, gateways): (&[(&'c crate::objects::ParentRef, Attached)], &[Ours<'_>]),
    ) -> Result<(), Unusable> {
        let places = policed::places(&mut self.backends.titan, (kind, key), parents, gateways);
        if places.is_empty() {
            return Ok(());
        }
        let (mut routes, mut policies, mut upstreams) = (Vec::new(), Map::new(), Map::new());
        for (rule_at, (name, rule, action)) in actions.into_iter().enumerate() {
            let matches: Vec<_> =
                rule.matches.iter().map(Matching::matching).collect::<Result<_, _>>()?;
            let matches = if matches.is_empty() { vec![Match::all()] } else { matches };
            for (match_at, matching) in matches.iter().enumerate() {
                for (place_at, place) in places.iter().enumerate() {
                    let Place { socket, hosts, .. } = place;
                    let scheme = if socket.has_tls { "https" } else { "http" };
                    let number = format!("{match_at}-{place_at}");
                    let name = joined(&[&name, &number]);
                    let fields = action.written(&matching.path, (scheme, socket.port))?;
                    let unpoliced = Unpoliced {
                        document,
                        matching: &matching.written(),
                        fields: &fields,
                        own: &action.policies,
                    };
                    let rule = rule.name.as_deref();
                    let policed =
                        policed::policed(&mut self.backends.titan, place, rule, unpoliced);
                    policies.extend(policed.policies);
                    routes.push(Route {
                        document: document.to_owned(),
                        name,
                        socket: socket.clone(),
                        hosts: hosts.iter().cloned().collect(),
                        matching: matching.clone(),
                        action: policed.fields,
                        order: (
                            object.metadata.creation_timestamp.clone(),
                            key.to_string(),
                            rule_at,
                            match_at,
                        ),
                    });
                }
            }
            upstreams.extend(action.upstreams);
        }
        self.routes.append(&mut routes);
        let whole = self.documents.entry(document.to_owned()).or_insert_with(|| json!({}));
        for (section, added) in [("policies", policies), ("upstreams", upstreams)] {
            for (name, value) in added {
                whole[section][name] = value;
            }
        }
        Ok(())
    }

    /// Orders the routes, and leaves out those that another one comes before in every request.
    fn write_routes(&mut self) {
        self.routes.sort_by(|a, b| {
            let path = a.matching.path.cmp(&b.matching.path);
            let specificity = || b.matching.specificity().cmp(&a.matching.specificity());
            path.then_with(specificity).then_with(|| a.order.cmp(&b.order))
        });
        let (mut path, mut priority) = (None, 0i64);
        let mut taken: BTreeSet<String> = BTreeSet::new();
        for route in std::mem::take(&mut self.routes) {
            if path.as_ref() != Some(&route.matching.path) {
                (path, priority) = (Some(route.matching.path.clone()), 0);
            }
            priority -= 1;
            let matching = route.matching.written();
            let matched = Value::Object(matching.clone()).to_string();
            let is_free =
                |host: &String| taken.insert(format!("{}\n{host}\n{matched}", route.socket.name));
            let hosts: Vec<String> = route.hosts.into_iter().filter(is_free).collect();
            if hosts.is_empty() {
                continue;
            }
            // A route for all hosts comes behind those for one, which this one may be as well.
            let (all, named): (Vec<_>, Vec<_>) = hosts.into_iter().partition(String::is_empty);
            for (hosts, suffix) in
                [(all, ""), (named, "-hosts")].into_iter().filter(|(hosts, _)| !hosts.is_empty())
            {
                let mut fields = matching.clone();
                fields.extend(route.action.clone());
                let name = if suffix.is_empty() {
                    route.name.clone()
                } else {
                    joined(&[&format!("{}{suffix}", route.name)])
                };
                let more = [
                    ("name", json!(name)),
                    ("listeners", json!([route.socket.name])),
                    ("priority", json!(priority)),
                ];
                fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
                if !hosts[0].is_empty() {
                    fields.insert("host".to_owned(), json!(hosts));
                }
                let whole =
                    self.documents.entry(route.document.clone()).or_insert_with(|| json!({}));
                match whole["routes"].as_array_mut() {
                    Some(routes) => routes.push(Value::Object(fields)),
                    None => whole["routes"] = json!([fields]),
                }
            }
        }
        // One whose routes are all left out is none.
        self.documents.retain(|_, whole| whole.get("routes").is_some());
    }

    /// The sockets, with their certificates, and for each host a response to what no route takes: it would be taken by routes of
    /// a listener for more hosts otherwise.
    fn write_listeners(&mut self, gateways: &[Ours<'_>], connections: &TlsRoutes<'_>) {
        let all = gateways.iter().flat_map(|it| &it.listeners);
        let mut sockets: BTreeMap<&Socket, Vec<_>> = BTreeMap::new();
        for judged in all {
            if let Some(socket) = &judged.socket {
                sockets.entry(socket).or_default().push(judged);
            }
        }
        let caught: BTreeSet<(String, String)> = self.caught();
        for (socket, listeners) in sockets {
            let mut listener = json!({ "name": socket.name, "address": socket.address });
            if socket.is_tcp {
                listener["tcp"] = connections.tcp(socket);
                self.documents.extend([tls_routes::nobody()]);
                self.documents.insert(socket.document(), json!({ "listeners": [listener] }));
                continue;
            }
            if socket.has_tls {
                let certificates = gateways::certificates(&listeners);
                if listeners.iter().any(|it| it.listener.protocol == "TLS") {
                    listener["tls_routes"] = connections.on(socket, &listeners).into();
                    self.documents.extend([tls_routes::nobody()]);
                }
                if !certificates.is_empty() {
                    listener["tls"] = json!({ "certificates": certificates });
                }
                // All listeners of a socket have the same.
                if let Some(clients) = listeners.iter().find_map(|it| it.clients.as_ref())
                    && !certificates.is_empty()
                {
                    listener["tls"]["client_certificates"] = clients.clone();
                }
            }
            let hosts: BTreeSet<_> = listeners
                .iter()
                .map(|it| it.hostname().to_ascii_lowercase())
                .chain([String::new()])
                .collect();
            let free = hosts
                .iter()
                .filter(|host| !caught.contains(&(socket.name.clone(), (*host).clone())));
            let refusals: Vec<Value> = free.map(|host| refusal(socket, host)).collect();
            let mut whole = json!({ "listeners": [listener] });
            if !refusals.is_empty() {
                whole["routes"] = refusals.into();
            }
            self.documents.insert(socket.document(), whole);
        }
    }

    /// Hosts of sockets that have a route for all that comes.
    fn caught(&self) -> BTreeSet<(String, String)> {
        let routes = self.documents.values().filter_map(|it| it["routes"].as_array()).flatten();
        let is_all = |it: &&Value| {
            it["prefix"] == "/"
                && ["methods", "headers", "query"].iter().all(|key| it.get(key).is_none())
        };
        let caught = routes.filter(is_all).flat_map(|it| {
            let socket = it["listeners"][0].as_str().unwrap_or_default();
            let hosts =
                it["host"].as_array().map(|hosts| hosts.iter().filter_map(Value::as_str).collect());
            let hosts: Vec<_> = hosts.unwrap_or_else(|| vec![""]);
            hosts.into_iter().map(move |host| (socket.to_owned(), host.to_owned()))
        });
        caught.collect()
    }
}

/// What the rules of a route do, and what of that leads to nothing.
struct Made<'r, M> {
    actions: Vec<(String, &'r Rule<M>, Action<'r>)>,
    unresolved: Option<Unusable>,
}

/// A response to what no route takes.
fn refusal(socket: &Socket, host: &str) -> Value {
    let (name, which) = (&socket.name, host.replace('*', "any"));
    let parts = [name.as_str(), "not-found", &which];
    let mut route = json!({
        "name": joined(if host.is_empty() { &parts[..2] } else { &parts }),
        "listeners": [socket.name],
        "prefix": "/",
        "priority": -1_000_000,
        "respond": { "status": 404 },
    });
    if !host.is_empty() {
        route["host"] = json!([host]);
    }
    route
}

/// What is spoken to the pods of an Ingress.
fn spoken(speaks: Speaks) -> Protocol {
    match speaks {
        Speaks::Http => Protocol::Http,
        Speaks::Https => Protocol::Https,
        Speaks::Grpc => Protocol::Grpc,
    }
}

/// Tells names of routes of one kind from those of another one.
fn short(kind: Kind) -> &'static str {
    match kind {
        Kind::GrpcRoute => "grpc",
        Kind::Ingress => "ingress",
        _ => "http",
    }
}
