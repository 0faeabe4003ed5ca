//! A TitanPolicy, and what came of it.

use super::spec::{self, Around, Spec};
use super::targets::misplaced;
use crate::cluster::GATEWAY_GROUP;
use crate::condition::Condition;
use crate::credentials::Unusable;
use crate::names::joined;
use crate::objects::{Key, TargetRef, TitanPolicy};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A policy, and what came of it.
pub(crate) struct Policy<'c> {
    pub(crate) key: &'c Key,
    pub(super) policy: &'c TitanPolicy,
    pub(super) spec: Spec,
    /// The words that hold, or that close what they are for.
    pub(super) words: BTreeSet<String>,
    pub(super) refusal: Option<Unusable>,
    /// Whether something must not be served because of a refusal.
    pub(super) closes: bool,
    /// Whether the gateway could be told of it.
    pub(super) is_usable: bool,
    /// Whether the gateway has refused it.
    pub(super) is_held_back: bool,
    /// Its words that routes apply, or would if they were not closed.
    pub(super) wanted: BTreeSet<String>,
    /// The gateways that it matters to.
    pub(super) gateways: BTreeSet<Key>,
    /// What it is attached to and what is not there, each with what that means.
    pub(super) missing: BTreeMap<TargetRef, String>,
}

/// A status has at most so many entries.
const MAX_ANCESTORS: usize = 16;

impl<'c> Policy<'c> {
    /// Reads one. Where it cannot be used as a whole, it says all but those of its words that protect nothing.
    pub(super) fn read(around: &mut Around<'_>, it: (&'c Key, &'c TitanPolicy)) -> Policy<'c> {
        let mut policy = Policy::new(it);
        let said = &it.1.spec.said;
        let why = match policy.judge(around, said) {
            Ok(spec) => {
                policy.hold(spec);
                return policy;
            }
            Err(why) => why,
        };
        let kept = said.iter().filter(|(word, value)| {
            let alone = Map::from_iter([((*word).clone(), (*value).clone())]);
            spec::protects(word) || policy.judge(around, &alone).is_ok()
        });
        let kept: Map<_, _> = kept.map(|(word, value)| (word.clone(), value.clone())).collect();
        let is_less = !kept.is_empty() && kept.len() < said.len();
        match is_less.then(|| policy.judge(around, &kept)) {
            Some(Ok(spec)) => {
                policy.hold(spec);
                let message = format!("{why}; all else of this one holds");
                policy.refusal = Some(Unusable { reason: "Invalid", message });
            }
            _ => policy.refuse(why),
        }
        policy
    }

    /// One that is not read, for this reason.
    pub(super) fn unread(it: (&'c Key, &'c TitanPolicy), why: String) -> Policy<'c> {
        let mut policy = Policy::new(it);
        policy.refuse(why);
        policy
    }

    fn new((key, policy): (&'c Key, &'c TitanPolicy)) -> Policy<'c> {
        Policy {
            key,
            policy,
            spec: Spec::default(),
            words: BTreeSet::new(),
            refusal: None,
            closes: false,
            is_usable: false,
            is_held_back: false,
            wanted: BTreeSet::new(),
            gateways: BTreeSet::new(),
            missing: BTreeMap::new(),
        }
    }

    fn judge(&self, around: &mut Around<'_>, said: &Map<String, Value>) -> Result<Spec, String> {
        let spec = Spec::read(around, &self.key.namespace, said)?;
        match misplaced(&self.policy.spec.target_refs, said) {
            Some(why) => Err(why),
            None => Ok(spec),
        }
    }

    fn hold(&mut self, spec: Spec) {
        self.words = spec.words().cloned().collect();
        self.spec = spec;
        self.is_usable = true;
    }

    /// Nothing of it holds, and what it protects is closed.
    pub(super) fn refuse(&mut self, message: String) {
        self.refusal = Some(Unusable { reason: "Invalid", message });
        let said = self.policy.spec.said.keys();
        self.closes = said.clone().any(|word| spec::protects(word));
        self.words = said.filter(|_| self.closes).cloned().collect();
    }

    /// Whether requests must not be served without what it says.
    pub(super) fn protects(&self) -> bool {
        self.words.iter().any(|word| spec::protects(word))
    }

    /// The document with it.
    pub(super) fn document(&self) -> String {
        format!("titanpolicy/{}", self.key)
    }

    pub(super) fn name_of(&self, word: &str) -> String {
        joined(&[&self.key.namespace, &self.key.name, "titan", word])
    }

    pub(crate) fn generation(&self) -> i64 {
        self.policy.metadata.generation
    }

    /// What people have to know who do not look at statuses: what it is for is closed, or is not there.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.missing.iter().map(|(target, why)| {
            format!("TitanPolicy {}: {} {}: {why}", self.key, target.kind, target.name)
        })
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
        let missing = self.missing.iter().map(|(it, why)| {
            let mut who = json!({ "group": it.group, "kind": it.kind, "namespace": self.key.namespace, "name": it.name });
            if let Some(section) = &it.section_name {
                who["sectionName"] = section.as_str().into();
            }
            (who, vec![Condition::no("Accepted", "TargetNotFound", why)])
        });
        // What is missing comes first: an opened door matters more than one more gateway.
        missing.chain(gateways).take(MAX_ANCESTORS).collect()
    }
}
