//! Titan's own policies at objects of Gateway API: TitanPolicy (GEP-713, GEP-2649).
//!
//! A policy holds for what it is attached to and all below it, unless a policy there says the same word otherwise:
//!
//! ```text
//! Gateway -> a listener of it -> HTTPRoute, GRPCRoute -> a rule of it          Service -> a port of it
//! ```
//!
//! What protects and cannot be used closes what it is for.

mod judge;
mod spec;

use crate::cluster::{Cluster, GATEWAY_GROUP, Kind};
use crate::condition::Condition;
use crate::credentials::{Unusable, Vault};
use crate::names::joined;
use crate::objects::{Key, ReferenceTo, ServicePort, TargetRef, TitanPolicy};
use crate::standing::{Became, Standing};
use serde_json::{Map, Value, json};
use spec::Spec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// All policies, and where they hold.
pub(crate) struct Policies<'c> {
    all: Vec<Policy<'c>>,
    /// Which one says each word, by what it is attached to.
    at: BTreeMap<Target, BTreeMap<String, usize>>,
    /// All that are attached there, whether or not something of them holds.
    attached: BTreeMap<Target, BTreeSet<usize>>,
    /// What was judged already, and what came of it.
    judged: HashMap<String, Result<BTreeSet<PathBuf>, String>>,
}

/// A policy, and what came of it.
pub(crate) struct Policy<'c> {
    pub(crate) key: &'c Key,
    policy: &'c TitanPolicy,
    spec: Spec,
    refusal: Option<Unusable>,
    /// Whether something must not be served because of a refusal.
    closes: bool,
    /// Whether the gateway is told of it.
    is_written: bool,
    /// The gateways that it matters to.
    gateways: BTreeSet<Key>,
    /// What it is attached to and what is not there.
    missing: BTreeSet<TargetRef>,
}

/// What a policy can be attached to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    /// A listener, a rule or a port.
    pub(crate) section: Option<String>,
}

impl Target {
    pub(crate) fn new(kind: Kind, key: &Key, section: Option<&str>) -> Target {
        Target { kind, key: key.clone(), section: section.map(str::to_owned) }
    }
}

/// The words that hold somewhere, each with the place of the policy that says it.
pub(crate) type Chosen = BTreeMap<String, usize>;

/// What policies do to the requests of a rule.
pub(crate) enum Applied {
    /// These policies by type, and fields of routes.
    Open(Vec<Named>, Map<String, Value>),
    /// They are not served.
    Closed,
}

/// A policy as documents name it.
pub(crate) struct Named {
    pub(crate) word: String,
    pub(crate) name: String,
    pub(crate) value: Value,
}

/// What a route is judged with beside its policies.
pub(crate) struct Beside {
    /// The route, with all that it applies.
    pub(crate) route: Value,
    /// The policies that it applies, by name.
    pub(crate) policies: Map<String, Value>,
    /// Whether its listener asks clients for certificates; `None` without TLS.
    pub(crate) tls: Option<bool>,
}

/// Policies of a cluster, at most: the youngest beyond that are refused.
const MAX: usize = 512;

impl<'c> Policies<'c> {
    pub(crate) fn judged(
        (cluster, vault, folder): (&'c Cluster, &mut Vault, &Path),
        gateways: &BTreeSet<&Key>,
        standing: &Standing,
    ) -> Policies<'c> {
        let mut all: Vec<_> = cluster.policies.iter().collect();
        all.sort_by_key(|(_, policy)| policy.metadata.precedence());
        let judged = all.into_iter().enumerate().map(|(at, it)| {
            let mut policy = Policy::read((cluster, vault, folder), it);
            if at >= MAX {
                policy.refuse(format!(
                    "at most {MAX} policies are served, the oldest ones: remove some"
                ));
                policy.is_written = false;
            }
            if let Became::Refused(why) = standing.of(&policy.document()) {
                policy.refuse(policy.spec.told(why));
            }
            policy
        });
        let mut policies = Policies {
            all: judged.collect(),
            at: BTreeMap::new(),
            attached: BTreeMap::new(),
            judged: HashMap::new(),
        };
        for at in 0..policies.all.len() {
            policies.attach((cluster, gateways), at);
        }
        policies
    }

    /// Notes where a policy holds. Of several with the same word at the same place the oldest one has it.
    fn attach(&mut self, (cluster, gateways): (&Cluster, &BTreeSet<&Key>), at: usize) {
        let policy = &mut self.all[at];
        let mut taken = Vec::new();
        for target in &policy.policy.spec.target_refs {
            let Some(place) = place_of(target, &policy.key.namespace) else {
                // It holds nowhere, and its owner has to know.
                policy.missing.insert(target.clone());
                continue;
            };
            match is_there(cluster, &place) {
                true if place.kind == Kind::Gateway && gateways.contains(&place.key) => {
                    policy.gateways.insert(place.key.clone());
                }
                true => {}
                false => {
                    policy.missing.insert(target.clone());
                }
            }
            self.attached.entry(place.clone()).or_default().insert(at);
            if policy.refusal.is_some() && !policy.closes {
                continue;
            }
            let words = self.at.entry(place).or_default();
            for word in policy.policy.spec.said.keys() {
                let first = *words.entry(word.clone()).or_insert(at);
                if first != at {
                    taken.push((word.clone(), target.name.clone(), first));
                }
            }
        }
        let Some((word, name, first)) = taken.into_iter().next() else { return };
        let older = self.all[first].key.to_string();
        let policy = &mut self.all[at];
        policy.refusal.get_or_insert_with(|| Unusable {
            reason: "Conflicted",
            message: format!("`{word}` of {name}: the policy {older} is older and says it; all else of this one holds"),
        });
    }

    /// The services that decide about requests for policies, by their places.
    pub(crate) fn services(&self) -> Vec<(usize, String, ReferenceTo)> {
        let all = self.all.iter().enumerate();
        let with =
            all.filter_map(|(at, it)| Some((at, it.key.namespace.clone(), it.spec.auth.clone()?)));
        with.collect()
    }

    /// Notes the upstream of such a service, or why there is none.
    pub(crate) fn note_service(&mut self, at: usize, found: Result<String, Unusable>) {
        match found {
            Ok(upstream) => self.all[at].spec.set_service(&upstream),
            Err(why) => {
                self.all[at]
                    .refuse(format!("`authorise.forward_auth.backendRef`: {}", why.message));
                self.all[at].is_written = false;
            }
        }
    }

    /// What holds where these places are, the most specific one last, and notes that it matters to these gateways.
    pub(crate) fn chosen<'g>(
        &mut self,
        places: &[Target],
        gateways: impl Iterator<Item = &'g Key> + Clone,
    ) -> Chosen {
        // The gateway of Ingresses is no object that a status could name.
        let gateways = gateways.filter(|it| !it.namespace.is_empty());
        for at in places.iter().filter_map(|place| self.attached.get(place)).flatten() {
            self.all[*at].gateways.extend(gateways.clone().cloned());
        }
        let words = places.iter().filter_map(|place| self.at.get(place)).flatten();
        words.map(|(word, at)| (word.clone(), *at)).collect()
    }

    /// What these do to requests.
    pub(crate) fn applied(&self, chosen: &Chosen) -> Applied {
        if chosen.values().any(|at| self.all[*at].closes) {
            return Applied::Closed;
        }
        let (mut named, mut fields) = (Vec::new(), Map::new());
        for (word, at) in chosen {
            let policy = &self.all[*at];
            if let Some(value) = policy.spec.policies.get(word) {
                named.push(Named {
                    word: word.clone(),
                    name: policy.name_of(word),
                    value: json!({ word: value }),
                });
            }
            if let Some(value) = policy.spec.fields.get(word) {
                fields.insert(word.clone(), value.clone());
            }
        }
        Applied::Open(named, fields)
    }

    /// Whether a route can be served as these have it. Where it cannot, the most specific ones are to blame.
    pub(crate) fn fits(&mut self, chosen: &Chosen, places: &[Target], beside: &Beside) -> bool {
        let files = chosen.values().flat_map(|at| self.all[*at].spec.files.keys().cloned());
        let files: BTreeSet<PathBuf> = files.chain(TLS_FILES.map(PathBuf::from)).collect();
        let sections = beside.sections();
        let found = self
            .judged
            .entry(sections.to_string())
            .or_insert_with(|| judge::check(&sections, &files));
        let Err(why) = found.clone() else { return true };
        let blamed =
            places.iter().rev().find_map(|place| self.at.get(place).filter(|it| !it.is_empty()));
        let blamed: BTreeSet<usize> =
            blamed.into_iter().flat_map(|it| it.values().copied()).collect();
        for at in blamed {
            let policy = &mut self.all[at];
            let message =
                format!("together with the other policies of a route: {}", policy.spec.told(&why));
            policy.refusal.get_or_insert(Unusable { reason: "Invalid", message });
        }
        false
    }

    /// What policies say of the upstream of a port, and notes that they matter to these gateways; `None` if nothing may be sent there.
    pub(crate) fn of_service(
        &mut self,
        service: &Key,
        port: &ServicePort,
        gateways: &BTreeSet<Key>,
    ) -> Option<Map<String, Value>> {
        let places =
            [None, Some(port.name.as_str())].map(|it| Target::new(Kind::Service, service, it));
        let chosen = self.chosen(&places, gateways.iter());
        if chosen.is_empty() {
            return Some(Map::new());
        }
        if chosen.values().any(|at| self.all[*at].closes) {
            return None;
        }
        let said = chosen.iter().filter_map(|(word, at)| {
            Some((word.clone(), self.all[*at].spec.upstream.get(word)?.clone()))
        });
        let said: Map<String, Value> = said.collect();
        let mut upstream = json!({ "endpoints": ["feed:f"] });
        said.iter().for_each(|(word, value)| upstream[word] = value.clone());
        let route = json!({ "prefix": "/", "upstream": "u" });
        let sections = json!({ "routes": [route], "upstreams": { "u": upstream } });
        let found = self
            .judged
            .entry(sections.to_string())
            .or_insert_with(|| judge::check(&sections, &BTreeSet::new()));
        let Err(why) = found.clone() else { return Some(said) };
        for at in chosen.into_values() {
            let message = format!("together with the other policies of the service: {why}");
            self.all[at].refusal.get_or_insert(Unusable { reason: "Invalid", message });
        }
        Some(Map::new())
    }

    /// The documents with the policies. One that the gateway has refused is among them, so that it is judged again once it changes.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (String, Value)> {
        let written = self.all.iter().filter(|it| it.is_written && !it.spec.policies.is_empty());
        written.map(|it| {
            let named = it
                .spec
                .policies
                .iter()
                .map(|(word, value)| (it.name_of(word), json!({ word: value })));
            (it.document(), json!({ "policies": Map::from_iter(named) }))
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Policy<'c>> {
        self.all.iter()
    }
}

impl<'c> Policy<'c> {
    fn read(
        with: (&Cluster, &mut Vault, &Path),
        (key, policy): (&'c Key, &'c TitanPolicy),
    ) -> Policy<'c> {
        let (spec, why) = match Spec::read(with, (key, policy)) {
            Ok(spec) => (spec, misplaced(policy)),
            Err(why) => (Spec::default(), Some(why)),
        };
        let (gateways, missing) = (BTreeSet::new(), BTreeSet::new());
        let mut read = Policy {
            key,
            policy,
            spec,
            refusal: None,
            closes: false,
            is_written: true,
            gateways,
            missing,
        };
        if let Some(why) = why {
            read.refuse(why);
            read.is_written = false;
        }
        read
    }

    /// Nothing of it holds, and what it protects is closed.
    fn refuse(&mut self, message: String) {
        self.refusal = Some(Unusable { reason: "Invalid", message });
        self.closes = self.policy.spec.said.keys().any(|word| spec::protects(word));
    }

    /// The document with it.
    fn document(&self) -> String {
        format!("titanpolicy/{}", self.key)
    }

    fn name_of(&self, word: &str) -> String {
        joined(&[&self.key.namespace, &self.key.name, "titan", word])
    }

    pub(crate) fn generation(&self) -> i64 {
        self.policy.metadata.generation
    }

    /// What is said of it, by what it matters to: gateways, and what it is attached to where that is not there.
    pub(crate) fn statuses(&self) -> Vec<(Value, Vec<Condition>)> {
        let accepted = match &self.refusal {
            Some(Unusable { reason, message }) => Condition::no("Accepted", reason, message),
            None => Condition::yes("Accepted", "Accepted"),
        };
        let gateways = self.gateways.iter().map(|it| {
            let who = json!({ "group": GATEWAY_GROUP, "kind": "Gateway", "namespace": it.namespace, "name": it.name });
            (who, vec![accepted.clone()])
        });
        let missing = self.missing.iter().map(|it| {
            let mut who = json!({ "group": it.group, "kind": it.kind, "namespace": self.key.namespace, "name": it.name });
            if let Some(section) = &it.section_name {
                who["sectionName"] = section.as_str().into();
            }
            let why = "there is no such object, or no such part of it, in the namespace of the policy";
            (who, vec![Condition::no("Accepted", "TargetNotFound", why)])
        });
        gateways.chain(missing).take(MAX_ANCESTORS).collect()
    }
}

impl Beside {
    /// A configuration with the route, and with stand-ins for the upstreams that it names.
    fn sections(&self) -> Value {
        let Beside { route, policies, tls } = self;
        let mut listener = json!({ "name": "l", "address": "127.0.0.1:1" });
        if let Some(asks_clients) = tls {
            let [cert, key, ca] = TLS_FILES;
            listener["tls"] = json!({ "certificates": [{ "cert": cert, "key": key }] });
            if *asks_clients {
                listener["tls"]["client_certificates"] = json!({ "ca": ca });
            }
        }
        let shares =
            route["upstream"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let mirrors = route["mirror"].as_array().into_iter().flatten();
        let mirrors = mirrors.filter_map(|it| it["upstream"].as_str());
        let services =
            policies.values().filter_map(|it| it["authorise"]["forward_auth"]["upstream"].as_str());
        let named =
            shares.chain(mirrors).chain(services).map(|name| (name.to_owned(), json!("feed:f")));
        let upstreams: Map<String, Value> = named.collect();
        json!({ "listeners": [listener], "routes": [route], "policies": policies, "upstreams": upstreams })
    }
}

/// Names of files with a certificate, its key and authorities, which nobody reads: routes are judged with them.
const TLS_FILES: [&str; 3] = ["/listener.crt", "/listener.key", "/listener.ca"];
/// A status has at most so many entries.
const MAX_ANCESTORS: usize = 16;

/// What is wrong with the targets of a policy.
fn misplaced(policy: &TitanPolicy) -> Option<String> {
    let targets = &policy.spec.target_refs;
    if targets.is_empty() {
        return Some("`targetRefs` is empty: name what the policy is for".to_owned());
    }
    targets.iter().find_map(|target| {
        let TargetRef { group, kind, name, .. } = target;
        let Some(place) = place_of(target, "") else {
            return Some(format!(
                "`targetRefs`: {kind} {name} of the group `{group}` cannot have policies; Gateway, HTTPRoute and GRPCRoute of \
                 {GATEWAY_GROUP} can, and Service of the core"
            ));
        };
        let is_service = place.kind == Kind::Service;
        let word = policy.spec.said.keys().find(|word| spec::is_of_services(word) != is_service)?;
        let fitting = if is_service { "a Gateway or a route" } else { "a Service" };
        Some(format!("`{word}` is for {fitting}, and `targetRefs` names the {kind} {name}: write it in a policy for one"))
    })
}

/// Where a target is, if that can have policies.
fn place_of(target: &TargetRef, namespace: &str) -> Option<Target> {
    let TargetRef { group, kind, name, section_name } = target;
    let kind = match (group.as_str(), kind.as_str()) {
        (GATEWAY_GROUP, "Gateway") => Kind::Gateway,
        (GATEWAY_GROUP, "HTTPRoute") => Kind::HttpRoute,
        (GATEWAY_GROUP, "GRPCRoute") => Kind::GrpcRoute,
        ("", "Service") => Kind::Service,
        _ => return None,
    };
    Some(Target { kind, key: Key::new(namespace, name), section: section_name.clone() })
}

/// Whether that is there.
fn is_there(cluster: &Cluster, Target { kind, key, section }: &Target) -> bool {
    fn has<'n>(section: Option<&String>, mut names: impl Iterator<Item = &'n String>) -> bool {
        section.is_none_or(|section| names.any(|name| name == section))
    }
    let section = section.as_ref();
    match kind {
        Kind::Gateway => cluster
            .gateways
            .get(key)
            .is_some_and(|it| has(section, it.spec.listeners.iter().map(|it| &it.name))),
        Kind::HttpRoute => cluster
            .http_routes
            .get(key)
            .is_some_and(|it| has(section, it.spec.rules.iter().filter_map(|it| it.name.as_ref()))),
        Kind::GrpcRoute => cluster
            .grpc_routes
            .get(key)
            .is_some_and(|it| has(section, it.spec.rules.iter().filter_map(|it| it.name.as_ref()))),
        Kind::Service => cluster
            .services
            .get(key)
            .is_some_and(|it| has(section, it.spec.ports.iter().map(|it| &it.name))),
        _ => false,
    }
}
