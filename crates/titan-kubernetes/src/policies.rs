//! Titan's own policies at objects of Gateway API: TitanPolicy (GEP-713, GEP-2649).
//!
//! A policy holds for what it is attached to and all below it, unless a policy there says the same word otherwise:
//!
//! ```text
//! Gateway -> a listener of it -> HTTPRoute, GRPCRoute -> a rule of it          Service -> a port of it
//! ```
//!
//! What protects and cannot be used closes what it is for. Where that is a section which is not there, it is all of the object: the
//! section may have another name now.

mod judge;
mod spec;
mod targets;

mod beside;

mod policy;

use crate::cluster::{Cluster, Kind};
use crate::credentials::{Unusable, Vault};
use crate::objects::{Key, ReferenceTo, ServicePort};
use crate::standing::{Became, Standing};
pub(crate) use beside::Beside;
pub use judge::Judgements;
pub(crate) use policy::Policy;
use serde_json::{Map, Value, json};
use spec::Around;
pub(crate) use spec::protects;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use targets::Found;
pub(crate) use targets::Target;

/// All policies, and where they hold.
pub(crate) struct Policies<'c> {
    all: Vec<Policy<'c>>,
    /// Which one says each word, by what it is attached to.
    at: BTreeMap<Target, BTreeMap<String, usize>>,
    /// All that are attached there, whether or not something of them holds.
    attached: BTreeMap<Target, BTreeSet<usize>>,
    /// Objects without a section that one protects.
    lost: BTreeMap<Target, usize>,
    /// Those that the routes of a document meet.
    of_documents: BTreeMap<String, BTreeSet<usize>>,
    judgements: Judgements,
}

/// The words that hold somewhere, each with the place of the policy that says it.
pub(crate) type Chosen = BTreeMap<String, usize>;

/// In place of a word: nothing is served there, whatever other policies say.
const LOST: &str = "";

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

/// Policies of a cluster, at most: the youngest beyond that are refused, and not read.
const MAX: usize = 512;
/// Those of one namespace, at most: a tenant with many leaves the places of others.
const MAX_OF_NAMESPACE: usize = 64;

/// The places that are taken, in all and of each namespace.
#[derive(Default)]
struct Places<'c> {
    all: usize,
    of: BTreeMap<&'c str, usize>,
}

impl<'c> Places<'c> {
    /// Takes one for a policy of this namespace. One that gets none takes none from others.
    fn take(&mut self, namespace: &'c str) -> Result<(), String> {
        let own = self.of.entry(namespace).or_default();
        let (most, whose) = match (*own < MAX_OF_NAMESPACE, self.all < MAX) {
            (true, true) => {
                *own += 1;
                self.all += 1;
                return Ok(());
            }
            (false, _) => (MAX_OF_NAMESPACE, "of a namespace "),
            (true, false) => (MAX, ""),
        };
        Err(format!("at most {most} policies {whose}are served, the oldest ones: remove some"))
    }
}

impl<'c> Policies<'c> {
    pub(crate) fn judged(
        (cluster, vault, folder): (&'c Cluster, &mut Vault, &Path),
        gateways: &BTreeSet<&Key>,
        (standing, mut judgements): (&Standing, Judgements),
    ) -> Policies<'c> {
        let mut all: Vec<_> = cluster.policies.iter().collect();
        all.sort_by_key(|(_, policy)| policy.metadata.precedence());
        let mut around = Around { cluster, vault, folder, judgements: &mut judgements };
        let mut places = Places::default();
        let judged = all.into_iter().map(|it| {
            if let Err(why) = places.take(&it.0.namespace) {
                return Policy::unread(it, why);
            }
            let mut policy = Policy::read(&mut around, it);
            if let Became::Refused(why) = standing.of(&policy.document()) {
                policy.refuse(policy.spec.told(why));
                policy.is_held_back = true;
            }
            policy
        });
        let mut policies = Policies {
            all: judged.collect(),
            at: BTreeMap::new(),
            attached: BTreeMap::new(),
            lost: BTreeMap::new(),
            of_documents: BTreeMap::new(),
            judgements,
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
            let Some(place) = Target::of(target, &policy.key.namespace) else {
                // It holds nowhere, and its owner has to know.
                policy.missing.insert(target.clone(), NOWHERE.to_owned());
                continue;
            };
            match place.find(cluster) {
                Found::All if place.kind == Kind::Gateway && gateways.contains(&place.key) => {
                    policy.gateways.insert(place.key.clone());
                }
                Found::All => {}
                Found::WithoutSection if policy.protects() => {
                    policy.missing.insert(target.clone(), CLOSED.to_owned());
                    self.lost.entry(place.whole()).or_insert(at);
                }
                Found::WithoutSection => {
                    policy.missing.insert(target.clone(), NO_SECTION.to_owned());
                }
                Found::Nothing => {
                    policy.missing.insert(target.clone(), NOWHERE.to_owned());
                }
            }
            self.attached.entry(place.clone()).or_default().insert(at);
            let words = self.at.entry(place).or_default();
            for word in &policy.words {
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
                self.all[at].is_usable = false;
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
        let words = words.map(|(word, at)| (word.clone(), *at));
        let lost = places.iter().filter_map(|place| self.lost.get(place));
        words.chain(lost.map(|at| (LOST.to_owned(), *at))).collect()
    }

    /// Whether nothing may be served where these hold.
    fn is_closed(&self, chosen: &Chosen) -> bool {
        chosen.contains_key(LOST) || chosen.values().any(|at| self.all[*at].closes)
    }

    /// Notes that the routes of a document meet these.
    pub(crate) fn note_use(&mut self, document: &str, chosen: &Chosen) {
        if chosen.is_empty() {
            return;
        }
        self.of_documents.entry(document.to_owned()).or_default().extend(chosen.values());
        for (word, at) in chosen {
            self.all[*at].wanted.insert(word.clone());
        }
    }

    /// What these do to requests.
    pub(crate) fn applied(&self, chosen: &Chosen) -> Applied {
        if self.is_closed(chosen) {
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
        let files: BTreeSet<PathBuf> = files.chain(beside::FILES.map(PathBuf::from)).collect();
        let Err(why) = self.judgements.check(&beside.sections(), &files) else { return true };
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
        if self.is_closed(&chosen) {
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
        let Err(why) = self.judgements.check(&sections, &BTreeSet::new()) else {
            return Some(said);
        };
        for at in chosen.into_values() {
            let message = format!("together with the other policies of the service: {why}");
            self.all[at].refusal.get_or_insert(Unusable { reason: "Invalid", message });
        }
        Some(Map::new())
    }

    /// The documents with what routes apply of the policies: what no route applies would cost the gateway, and all routes have to
    /// agree about its header fields. One that the gateway has refused is among them, so that it is judged again once it changes.
    pub(crate) fn documents(
        &self,
        applied: &BTreeSet<String>,
    ) -> impl Iterator<Item = (String, Value)> {
        self.all.iter().filter(|it| it.is_usable).filter_map(|it| {
            let all = it.spec.policies.iter().map(|(word, value)| (word, it.name_of(word), value));
            let is_used = |word: &String, name: &String| {
                applied.contains(name) || it.is_held_back && it.wanted.contains(word)
            };
            let used = all.filter(|(word, name, _)| is_used(word, name));
            let named: Map<_, _> =
                used.map(|(word, name, value)| (name, json!({ word: value }))).collect();
            (!named.is_empty()).then(|| (it.document(), json!({ "policies": named })))
        })
    }

    /// When each document with a policy was made.
    pub(crate) fn ages(&self) -> impl Iterator<Item = (String, String)> {
        self.all.iter().map(|it| (it.document(), it.policy.metadata.creation_timestamp.clone()))
    }

    /// Notes that documents are not in force: those with policies, and those with routes that policies protect.
    pub(crate) fn note_standing(&mut self, standing: &Standing) {
        for (document, met) in &self.of_documents {
            let Became::Refused(why) = standing.of(document) else { continue };
            for at in met {
                let policy = &mut self.all[*at];
                let why = format!("{document} is not served with it: {}", policy.spec.told(why));
                if policy.protects() {
                    policy.refusal.get_or_insert(Unusable { reason: "Invalid", message: why });
                }
            }
        }
        for policy in &mut self.all {
            if let Became::Refused(why) = standing.of(&policy.document()) {
                let message = policy.spec.told(why);
                policy.refusal.get_or_insert(Unusable { reason: "Invalid", message });
            }
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Policy<'c>> {
        self.all.iter()
    }

    /// What was judged, for the next translation.
    pub(crate) fn into_judgements(mut self) -> Judgements {
        self.judgements.end_round();
        self.judgements
    }
}

/// What a target means that is not there.
const NOWHERE: &str = "there is no such object in the namespace of the policy";
/// The same, for a section of an object.
const NO_SECTION: &str = "the object has no section of that name";
/// The same, where a policy protects.
const CLOSED: &str = "the object has no section of that name, and so all of it is closed: it may be what the policy protects, under \
    another name. Name the section so, or change the policy";
