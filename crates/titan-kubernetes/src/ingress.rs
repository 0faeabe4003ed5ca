//! Ingresses: hosts and paths become routes and listeners of Gateway API, which are translated like others.
//!
//! All of them are behind one gateway that no cluster has. Its names have a colon, or no namespace, as those of no object do.

mod values;

pub(crate) mod annotations;

mod paths;

use crate::cluster::{Cluster, Kind};
use crate::credentials::{self, Vault};
use crate::hostname;
use crate::objects::{
    AllowedRoutes, BackendRef, Filter, Gateway, GatewaySpec, HttpMatch, HttpRoute, Ingress,
    IngressBackend, IngressPath, Key, Listener, ListenerSet, ListenerSetSpec, ListenerTls, Meta,
    More, Namespaces, Object, ParentRef, PathMatch, PathModifier, Redirect, ReferenceTo, Rewrite,
    RouteSpec, Rule, ValueMatch,
};
use crate::settings::{Addressing, Settings};
use annotations::{Canary, Speaks, Wishes};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use titan_config::bounds::MAX_CERTIFICATES;

/// What Ingresses become.
#[derive(Default)]
pub(crate) struct Ingresses {
    /// Those that are ours.
    pub(crate) ours: Vec<Key>,
    /// Their gateway, with a listener for each host.
    pub(crate) gateway: Option<(Key, Gateway)>,
    /// The listeners with certificates, by the Ingress that has the secret.
    pub(crate) sets: BTreeMap<Key, ListenerSet>,
    /// Their routes, by what is spoken to pods.
    pub(crate) routes: BTreeMap<Speaks, BTreeMap<Key, HttpRoute>>,
    /// What of them has no effect.
    pub(crate) warnings: Vec<String>,
}

/// The port on which they are served with TLS.
pub(crate) const HTTPS: u16 = 443;

impl Ingresses {
    /// How many certificates Gateways leave to them where they share the port: as many as they need, and half of them at most.
    pub(crate) fn reserved(&self, settings: &Settings) -> usize {
        let listeners = self.sets.values().flat_map(|it| &it.spec.listeners);
        let needed = listeners.filter_map(|it| Some(it.tls.as_ref()?.certificate_refs.len())).sum();
        match settings.addressing {
            Addressing::Shared(_) => MAX_CERTIFICATES.div_ceil(2).min(needed),
            Addressing::Own(_) => 0,
        }
    }
}

/// Where an Ingress without a class, or with one, says whose it is.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";
/// Makes a class that of Ingresses without one.
const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// Later than everything: what objects of Gateway API say comes first.
const LAST: &str = "9999";

/// The gateway of all Ingresses.
pub(crate) fn gateway_key() -> Key {
    Key::new("", "ingress")
}

/// The Ingress that a route comes from.
pub(crate) fn of_route(key: &Key) -> Key {
    let name = key.name.split(':').next().unwrap_or_default();
    Key::new(&key.namespace, name)
}

/// What the Ingresses of our classes become.
pub(crate) fn ingresses(cluster: &Cluster, settings: &Settings) -> Ingresses {
    let mut ours: Vec<_> = cluster.ingresses.iter().collect();
    ours.retain(|(_, ingress)| is_ours(cluster, settings, ingress));
    if ours.is_empty() {
        return Ingresses::default();
    }
    ours.sort_by_key(|(_, ingress)| ingress.metadata.meta.precedence());
    let read = ours.iter().map(|(key, ingress)| One {
        key,
        ingress,
        wishes: Wishes::read(&ingress.metadata.annotations),
    });
    let (canaries, whole): (Vec<_>, Vec<_>) = read.partition(|one| one.wishes.canary.is_some());
    let mut making = Making {
        cluster,
        certificates: Vec::new(),
        own: BTreeSet::new(),
        hosts: BTreeSet::new(),
        canaries: BTreeSet::new(),
        made: Ingresses::default(),
    };
    for one in whole.iter().chain(&canaries) {
        making.made.ours.push(one.key.clone());
        making.warn(one, &one.wishes.warnings);
        making.warn(one, one.wishes.refusal.as_slice());
        making.note_certificates(one, settings);
    }
    let canaries: Vec<_> = canaries.into_iter().filter(|it| making.is_sound(it)).collect();
    for one in &whole {
        making.add(one, &canaries);
    }
    for canary in canaries.iter().filter(|it| !making.canaries.contains(it.key)) {
        let why = "`canary`: no other Ingress of its namespace has its hosts and paths, and it has no effect";
        making.made.warnings.push(format!("Ingress {}: {why}", canary.key));
    }
    making.finish()
}

fn is_ours(cluster: &Cluster, settings: &Settings, ingress: &Ingress) -> bool {
    let old = ingress.metadata.annotations.get(OLD_CLASS);
    let named = ingress.spec.ingress_class_name.as_ref().or(old);
    let is_ours =
        |class: &crate::objects::IngressClass| class.spec.controller == settings.controller;
    let is_default = |class: &&crate::objects::IngressClass| {
        class.metadata.annotations.get(IS_DEFAULT).is_some_and(|it| it == "true")
    };
    match named {
        Some(name) => cluster.ingress_classes.get(&Key::new("", name)).is_some_and(is_ours),
        None => cluster.ingress_classes.values().find(is_default).is_some_and(is_ours),
    }
}

/// An Ingress with what its annotations ask for.
struct One<'c> {
    key: &'c Key,
    ingress: &'c Ingress,
    wishes: Wishes,
}

/// A host with a certificate, and the Ingress that has its secret.
struct Certified {
    host: String,
    owner: Key,
}

struct Making<'c> {
    cluster: &'c Cluster,
    certificates: Vec<Certified>,
    /// Hosts with a certificate by the namespace of the Ingress that names it. Others are not redirected because of it.
    own: BTreeSet<(String, String)>,
    /// All hosts; empty for any.
    hosts: BTreeSet<String>,
    /// Those that another Ingress shares its requests with.
    canaries: BTreeSet<Key>,
    made: Ingresses,
}

impl Making<'_> {
    fn warn(&mut self, one: &One<'_>, whys: &[String]) {
        let key = one.key;
        self.made.warnings.extend(whys.iter().map(|why| format!("Ingress {key}: {why}")));
    }

    /// Whether all that a canary asks for can be done. One that is not sound has no effect on the Ingress that it is for.
    fn is_sound(&mut self, canary: &One<'_>) -> bool {
        let Wishes { canary: asked, refusal, .. } = &canary.wishes;
        let problem = asked.as_ref().and_then(|it| it.problem.clone());
        let is_sound = problem.is_none() && refusal.is_none();
        if !is_sound {
            let why = problem.unwrap_or_else(|| "it cannot be served".to_owned());
            self.warn(canary, &[format!("{why}: as a canary, it has no effect")]);
        }
        is_sound
    }

    /// The certificates of an Ingress that can be used, for their hosts.
    fn note_certificates(&mut self, one: &One<'_>, settings: &Settings) {
        for tls in &one.ingress.spec.tls {
            let Some(secret) = &tls.secret_name else { continue };
            let to = ReferenceTo { name: secret.clone(), ..ReferenceTo::default() };
            let with = (self.cluster, &mut Vault::default(), settings.folder.as_path());
            let who = (Kind::Ingress.name(), one.key.namespace.as_str());
            if let Err(why) = credentials::certificate(with, who, &to) {
                self.warn(one, &[format!("no TLS by `secretName`: {}", why.message)]);
                continue;
            }
            for host in tls.hosts.iter().filter(|host| !host.is_empty()) {
                if let Err(why) = hostname::check(host, true) {
                    self.warn(one, &[format!("{why}: it is not served with TLS")]);
                    continue;
                }
                let host = host.to_ascii_lowercase();
                self.own.insert((one.key.namespace.clone(), host.clone()));
                self.note_certificate(one, host, &to);
            }
        }
    }

    /// The first Ingress that has a certificate for a host gives it to all of them.
    fn note_certificate(&mut self, one: &One<'_>, host: String, to: &ReferenceTo) {
        if self.certificates.iter().any(|it| it.host == host) {
            return;
        }
        let owner = Key::new(&one.key.namespace, format!("{}:tls", one.key.name));
        let mut listener = listener(&host, ("HTTPS", HTTPS));
        listener.tls = Some(ListenerTls { mode: None, certificate_refs: vec![to.clone()] });
        let metadata = &one.ingress.metadata.meta;
        let set = self.made.sets.entry(owner.clone()).or_insert_with(|| Object {
            metadata: Meta { name: owner.name.clone(), ..metadata.clone() },
            spec: ListenerSetSpec {
                parent_ref: ReferenceTo {
                    name: gateway_key().name,
                    namespace: Some(String::new()),
                    ..ReferenceTo::default()
                },
                listeners: Vec::new(),
            },
            status: serde_json::Value::Null,
        });
        set.spec.listeners.push(listener);
        self.certificates.push(Certified { host, owner });
    }

    fn add(&mut self, one: &One<'_>, canaries: &[One<'_>]) {
        let rules = one.ingress.spec.rules.iter();
        for (at, rule) in rules.enumerate() {
            let host = rule.host.to_ascii_lowercase();
            let mut rules = Vec::new();
            for path in &rule.http.paths {
                rules.extend(self.rules((one, &host), path, canaries));
            }
            // Behind all others of the host.
            if let Some(backend) = &one.ingress.spec.default_backend {
                rules.push(self.rule(
                    one,
                    (&PathMatch::default(), None),
                    vec![self.backend(one, backend, 1)],
                ));
            }
            let mut hosts = vec![host];
            hosts.extend(one.wishes.aliases.iter().map(|it| it.to_ascii_lowercase()));
            self.add_routes(one, (&at.to_string(), hosts), rules);
        }
        if let Some(backend) = &one.ingress.spec.default_backend {
            let rule =
                self.rule(one, (&PathMatch::default(), None), vec![self.backend(one, backend, 1)]);
            self.add_routes(one, ("default", vec![String::new()]), vec![rule]);
        }
    }

    /// The rules of a path: for the requests that go to canaries by their fields, and for all others.
    fn rules(
        &mut self,
        (one, host): (&One<'_>, &str),
        path: &IngressPath,
        canaries: &[One<'_>],
    ) -> Vec<Rule<HttpMatch>> {
        let Wishes { rewrite, is_regex, .. } = &one.wishes;
        let of_type = (path.path.as_str(), path.path_type.as_str());
        let Some((matched, modifier)) = paths::matched(of_type, *is_regex, rewrite.as_deref())
        else {
            let known = "regular expressions are if they are a prefix and the rest, with targets that end with the rest";
            let why = format!("the path {} is not served: {known}", path.path);
            self.warn(one, &[why]);
            return Vec::new();
        };
        let mut rules = Vec::new();
        let mut backends = vec![self.backend(one, &path.backend, 1)];
        // A service is looked up in the namespace of its Ingress, and nobody drives what is of another namespace.
        let canaries = canaries.iter().filter(|it| it.key.namespace == one.key.namespace);
        let same = canaries.filter_map(|canary| Some((canary, backend_of(canary, host, path)?)));
        if let Some((canary, backend)) = same.into_iter().next()
            && let Some(asked) = &canary.wishes.canary
        {
            self.canaries.insert(canary.key.clone());
            for (header, goes_there) in asked.conditions() {
                let of =
                    if goes_there { self.backend(canary, backend, 1) } else { backends[0].clone() };
                let mut rule = self.rule(one, (&matched, modifier.clone()), vec![of]);
                rule.matches.iter_mut().for_each(|it| it.headers.push(header.clone()));
                rules.push(rule);
            }
            let total = asked.total.unwrap_or(100).max(1);
            let weight = asked.weight.min(total);
            backends[0].weight = Some(total - weight);
            backends.push(self.backend(canary, backend, weight));
        }
        rules.push(self.rule(one, (&matched, modifier), backends));
        rules
    }

    fn rule(
        &self,
        one: &One<'_>,
        (path, modifier): (&PathMatch, Option<PathModifier>),
        backend_refs: Vec<BackendRef>,
    ) -> Rule<HttpMatch> {
        let Wishes { more, cors, refusal, .. } = &one.wishes;
        let mut more =
            More { scope: format!("{}.{}", one.key.namespace, one.key.name), ..more.clone() };
        if refusal.is_some() {
            more.respond = Some(json!({ "respond": { "status": 503 } }));
        }
        let mut filters = Vec::new();
        if let Some(cors) = cors {
            filters.push(Filter {
                of_type: "CORS".to_owned(),
                cors: Some(cors.clone()),
                ..Filter::default()
            });
        }
        if modifier.is_some() {
            let rewrite = Rewrite { hostname: None, path: modifier };
            filters.push(Filter {
                of_type: "URLRewrite".to_owned(),
                url_rewrite: Some(rewrite),
                ..Filter::default()
            });
        }
        let matched = HttpMatch { path: Some(path.clone()), ..HttpMatch::default() };
        Rule { matches: vec![matched], filters, backend_refs, more, ..Rule::default() }
    }

    /// The routes of an Ingress for some hosts: without TLS, and with it where there are certificates.
    fn add_routes(
        &mut self,
        one: &One<'_>,
        (name, hosts): (&str, Vec<String>),
        mut rules: Vec<Rule<HttpMatch>>,
    ) {
        let Wishes { app_root, refusal, .. } = &one.wishes;
        let hosts: Vec<_> = hosts.into_iter().filter(|host| self.is_served(one, host)).collect();
        if hosts.is_empty() {
            return;
        }
        if let Some(respond) = app_root.as_ref().filter(|_| refusal.is_none()) {
            let path = PathMatch { of_type: Some("Exact".to_owned()), value: Some("/".to_owned()) };
            let mut rule = self.rule(one, (&path, None), Vec::new());
            rule.more.respond = Some(respond.clone());
            rules.insert(0, rule);
        }
        let is_for = |it: &&Certified| {
            hosts.iter().any(|host| hostname::covers(&it.host, host) && !host.is_empty())
        };
        let certified: BTreeSet<_> =
            self.certificates.iter().filter(is_for).map(|it| it.owner.clone()).collect();
        self.hosts.extend(hosts.iter().cloned());
        let (to_tls, plain): (Vec<_>, Vec<_>) =
            hosts.iter().cloned().partition(|host| self.is_redirected(one, host));
        if !to_tls.is_empty() {
            let redirects = (format!("{name}-redirect"), redirected(&rules));
            self.add_route(one, (&redirects.0, &to_tls), sections(&to_tls), redirects.1);
        }
        if !plain.is_empty() {
            let served = (format!("{name}-plain"), rules.clone());
            self.add_route(one, (&served.0, &plain), sections(&plain), served.1);
        }
        if certified.is_empty() {
            return;
        }
        let sets = certified.into_iter().map(|owner| ParentRef {
            kind: Some("ListenerSet".to_owned()),
            namespace: Some(owner.namespace),
            name: owner.name,
            ..ParentRef::default()
        });
        self.add_route(one, (&format!("{name}-tls"), &hosts), sets.collect(), rules);
    }

    /// Whether a host can be served. All Ingresses have a listener together, which a host that cannot be would hold back.
    fn is_served(&mut self, one: &One<'_>, host: &str) -> bool {
        let checked = hostname::check(host, false);
        if let Err(why) = &checked {
            self.warn(one, &[format!("{why}: it is not served")]);
        }
        checked.is_ok()
    }

    /// Whether requests for a host are sent to TLS. Without a certificate they would be sent in circles.
    fn is_redirected(&mut self, one: &One<'_>, host: &str) -> bool {
        let Wishes { redirects, is_forced, refusal, .. } = &one.wishes;
        let covers = |wide: &String| !host.is_empty() && hostname::covers(wide, host);
        let is_own = self.own.iter().any(|(of, wide)| *of == one.key.namespace && covers(wide));
        let is_served = self.certificates.iter().any(|it| covers(&it.host));
        if *is_forced && !is_served {
            let why = format!(
                "`force-ssl-redirect`: there is no certificate for `{host}`, and it is served without TLS"
            );
            self.warn(one, &[why]);
        }
        let is_wanted = *is_forced && is_served || is_own && redirects.unwrap_or(true);
        is_wanted && refusal.is_none()
    }

    fn add_route(
        &mut self,
        one: &One<'_>,
        (name, hosts): (&str, &[String]),
        parent_refs: Vec<ParentRef>,
        rules: Vec<Rule<HttpMatch>>,
    ) {
        let hostnames = hosts.iter().filter(|host| !host.is_empty()).cloned().collect();
        let key = Key::new(&one.key.namespace, format!("{}:{name}", one.key.name));
        let spec = RouteSpec { parent_refs, hostnames, rules };
        let route = Object {
            metadata: one.ingress.metadata.meta.clone(),
            spec,
            status: serde_json::Value::Null,
        };
        self.made.routes.entry(one.wishes.speaks).or_default().insert(key, route);
    }

    /// A backend with a share. A port that the service does not have leads to nothing, which is told.
    fn backend(&self, one: &One<'_>, backend: &IngressBackend, weight: u32) -> BackendRef {
        let service = backend.service.clone().unwrap_or_default();
        let key = Key::new(&one.key.namespace, &service.name);
        let named = |name: &String| {
            let ports = self.cluster.services.get(&key).map(|it| &it.spec.ports);
            ports.into_iter().flatten().find(|port| port.name == *name).map(|port| port.port)
        };
        let port = service.port.number.or_else(|| service.port.name.as_ref().and_then(named));
        let kind = if backend.service.is_some() { "Service" } else { "resource" };
        let to = ReferenceTo {
            name: service.name,
            kind: Some(kind.to_owned()),
            port,
            ..ReferenceTo::default()
        };
        BackendRef { to, weight: Some(weight), filters: Vec::new() }
    }

    fn finish(mut self) -> Ingresses {
        let listeners = self
            .hosts
            .iter()
            .map(|host| Listener { name: section(host), ..listener(host, ("HTTP", 80)) });
        let spec = GatewaySpec { listeners: listeners.collect(), ..GatewaySpec::default() };
        let metadata = Meta {
            name: gateway_key().name,
            creation_timestamp: LAST.to_owned(),
            ..Meta::default()
        };
        let gateway = Object { metadata, spec, status: serde_json::Value::Null };
        self.made.gateway = Some((gateway_key(), gateway));
        self.made
    }
}

impl Canary {
    /// The fields by which requests go to the canary, or stay.
    fn conditions(&self) -> Vec<(ValueMatch, bool)> {
        let exactly = |name: &String, value: &str| ValueMatch {
            of_type: None,
            name: name.clone(),
            value: value.to_owned(),
        };
        let fits = |name: &str, pattern: String| ValueMatch {
            of_type: Some("RegularExpression".to_owned()),
            name: name.to_owned(),
            value: pattern,
        };
        let mut conditions = Vec::new();
        match (&self.header, &self.value, &self.pattern) {
            (Some(name), Some(value), _) => conditions.push((exactly(name, value), true)),
            (Some(name), None, Some(pattern)) => {
                conditions.push((fits(name, pattern.clone()), true));
            }
            (Some(name), None, None) => {
                conditions.push((exactly(name, "always"), true));
                conditions.push((exactly(name, "never"), false));
            }
            (None, ..) => {}
        }
        if let Some(name) = &self.cookie {
            let name: String = name
                .chars()
                .filter(|it| it.is_ascii_alphanumeric() || "-_".contains(*it))
                .collect();
            for (value, goes_there) in [("always", true), ("never", false)] {
                conditions
                    .push((fits("cookie", format!("(.*; *)?{name}={value}(;.*)?")), goes_there));
            }
        }
        conditions
    }
}

/// What a canary has for the same host and path.
fn backend_of<'i>(
    canary: &'i One<'_>,
    host: &str,
    path: &IngressPath,
) -> Option<&'i IngressBackend> {
    let rules = canary.ingress.spec.rules.iter().filter(|it| it.host.eq_ignore_ascii_case(host));
    let mut paths = rules.flat_map(|it| &it.http.paths);
    let same = |it: &&IngressPath| it.path == path.path && it.path_type == path.path_type;
    paths.find(same).map(|it| &it.backend)
}

/// The same paths, sent to HTTPS.
fn redirected(rules: &[Rule<HttpMatch>]) -> Vec<Rule<HttpMatch>> {
    let to_tls = Redirect {
        scheme: Some("https".to_owned()),
        status_code: Some(308),
        ..Redirect::default()
    };
    let filter = Filter {
        of_type: "RequestRedirect".to_owned(),
        request_redirect: Some(to_tls),
        ..Filter::default()
    };
    let rule = |rule: &Rule<HttpMatch>| Rule {
        matches: rule.matches.clone(),
        filters: vec![filter.clone()],
        ..Rule::default()
    };
    rules.iter().map(rule).collect()
}

/// The listeners for hosts, without TLS.
fn sections(hosts: &[String]) -> Vec<ParentRef> {
    let section = |host: &String| ParentRef {
        namespace: Some(String::new()),
        name: gateway_key().name,
        section_name: Some(section(host)),
        ..ParentRef::default()
    };
    hosts.iter().map(section).collect()
}

/// The listener for a host, by name.
fn section(host: &str) -> String {
    format!("http:{host}")
}

fn listener(host: &str, (protocol, port): (&str, u16)) -> Listener {
    let from = Some("All".to_owned());
    Listener {
        name: format!("{port}:{host}"),
        hostname: Some(host.to_owned()).filter(|host| !host.is_empty()),
        port,
        protocol: protocol.to_owned(),
        tls: None,
        allowed_routes: AllowedRoutes {
            namespaces: Namespaces { from, selector: None },
            kinds: Vec::new(),
        },
    }
}
