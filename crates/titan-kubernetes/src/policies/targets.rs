//! What policies are attached to.

use super::spec;
use crate::cluster::{Cluster, GATEWAY_GROUP, Kind};
use crate::objects::{Key, TargetRef};
use serde_json::{Map, Value};

/// What a policy can be attached to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    /// A listener, a rule or a port.
    pub(crate) section: Option<String>,
}

/// What of a target is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All of it.
    All,
    /// The object, without the section: that may have another name now.
    WithoutSection,
    /// Nothing.
    Nothing,
}

impl Target {
    pub(crate) fn new(kind: Kind, key: &Key, section: Option<&str>) -> Target {
        Target { kind, key: key.clone(), section: section.map(str::to_owned) }
    }

    /// Where that is for a policy of a namespace, if it can have policies.
    pub(super) fn of(target: &TargetRef, namespace: &str) -> Option<Target> {
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

    /// All of the object.
    pub(super) fn whole(&self) -> Target {
        Target { section: None, ..self.clone() }
    }

    /// What of it is there.
    pub(super) fn find(&self, cluster: &Cluster) -> Found {
        let Target { kind, key, section } = self;
        let has =
            match kind {
                Kind::Gateway => cluster.gateways.get(key).map(|it| {
                    has(section.as_ref(), it.spec.listeners.iter().map(|it| Some(&it.name)))
                }),
                Kind::HttpRoute => cluster.http_routes.get(key).map(|it| {
                    has(section.as_ref(), it.spec.rules.iter().map(|it| it.name.as_ref()))
                }),
                Kind::GrpcRoute => cluster.grpc_routes.get(key).map(|it| {
                    has(section.as_ref(), it.spec.rules.iter().map(|it| it.name.as_ref()))
                }),
                Kind::Service => cluster
                    .services
                    .get(key)
                    .map(|it| has(section.as_ref(), it.spec.ports.iter().map(|it| Some(&it.name)))),
                _ => None,
            };
        match has {
            Some(true) => Found::All,
            Some(false) => Found::WithoutSection,
            None => Found::Nothing,
        }
    }
}

fn has<'n>(section: Option<&String>, mut names: impl Iterator<Item = Option<&'n String>>) -> bool {
    section.is_none_or(|section| names.any(|name| name == Some(section)))
}

/// What is wrong with the targets of a policy that says these words.
pub(super) fn misplaced(targets: &[TargetRef], said: &Map<String, Value>) -> Option<String> {
    if targets.is_empty() {
        return Some("`targetRefs` is empty: name what the policy is for".to_owned());
    }
    targets.iter().find_map(|target| {
        let TargetRef { group, kind, name, .. } = target;
        let Some(place) = Target::of(target, "") else {
            return Some(format!(
                "`targetRefs`: {kind} {name} of the group `{group}` cannot have policies; Gateway, HTTPRoute and GRPCRoute of \
                 {GATEWAY_GROUP} can, and Service of the core"
            ));
        };
        let is_service = place.kind == Kind::Service;
        let word = said.keys().find(|word| spec::is_of_services(word) != is_service)?;
        let fitting = if is_service { "a Gateway or a route" } else { "a Service" };
        Some(format!("`{word}` is for {fitting}, and `targetRefs` names the {kind} {name}: write it in a policy for one"))
    })
}
