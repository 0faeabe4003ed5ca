//! TLS to the pods of services: BackendTLSPolicy.

use crate::cluster::Cluster;
use crate::condition::Condition;
use crate::credentials::{self, Unusable, Vault};
use crate::hostname;
use crate::objects::{BackendTlsPolicy, Key, ServicePort, SubjectAltName, TargetRef};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// TLS to a port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BackendTls {
    /// With these settings of an upstream.
    Verified(Value),
    /// It cannot be: nothing may be sent.
    Broken,
}

/// All policies, and which gateways they matter to.
pub(crate) struct Policies<'c> {
    policies: Vec<Policy<'c>>,
}

/// A policy, and what came of it.
pub(crate) struct Policy<'c> {
    pub(crate) key: &'c Key,
    policy: &'c BackendTlsPolicy,
    tls: BackendTls,
    refusal: Option<Unusable>,
    unresolved: Option<Unusable>,
    /// Whether there is a target that it is in force for, and one that another policy has.
    has_target: bool,
    conflicts: bool,
    /// Gateways with routes to its services.
    pub(crate) gateways: BTreeSet<Key>,
}

impl<'c> Policies<'c> {
    pub(crate) fn judged(cluster: &'c Cluster, vault: &mut Vault, folder: &Path) -> Policies<'c> {
        let mut all: Vec<_> = cluster.backend_tls.iter().collect();
        all.sort_by_key(|(_, policy)| policy.metadata.precedence());
        let mut policies: Vec<_> =
            all.into_iter().map(|it| Policy::judged(it, (cluster, vault, folder))).collect();
        let mut taken = BTreeMap::new();
        for policy in &mut policies {
            let namespace = &policy.key.namespace;
            for TargetRef { kind, name, section_name, .. } in &policy.policy.spec.target_refs {
                let target = (namespace, kind, name, section_name);
                let is_free = *taken.entry(target).or_insert(policy.key) == policy.key;
                policy.has_target |= is_free;
                policy.conflicts |= !is_free;
            }
        }
        Policies { policies }
    }

    /// TLS to this port, and notes that it matters to these gateways.
    pub(crate) fn of(
        &mut self,
        service: &Key,
        port: &ServicePort,
        gateways: &BTreeSet<Key>,
    ) -> Option<&BackendTls> {
        let mut chosen: Option<(usize, bool)> = None;
        for (at, policy) in self.policies.iter_mut().enumerate() {
            let Some(is_of_port) = policy.targets(service, port) else { continue };
            policy.gateways.extend(gateways.iter().cloned());
            // The oldest of those that name the port, else the oldest of those that name the service.
            if chosen.is_none_or(|(_, names_port)| is_of_port && !names_port) {
                chosen = Some((at, is_of_port));
            }
        }
        chosen.map(|(at, _)| &self.policies[at].tls)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Policy<'c>> {
        self.policies.iter()
    }
}

/// Names of which a certificate must have one.
fn alt_names(names: &[SubjectAltName]) -> Result<Vec<&str>, String> {
    names.iter().map(alt_name).collect()
}

fn alt_name(SubjectAltName { of_type, hostname, uri }: &SubjectAltName) -> Result<&str, String> {
    match of_type.as_str() {
        "Hostname" if hostname.is_empty() || hostname.contains('*') => {
            Err(format!("{hostname:?}: certificates must have a whole name"))
        }
        "Hostname" => hostname::check(hostname, true).map(|()| hostname.as_str()),
        "URI" if uri.contains("://") && uri.bytes().all(|it| it.is_ascii_graphic()) => Ok(uri),
        "URI" => Err(format!("{uri:?} is no URI")),
        other => Err(format!("alternative names of the type {other} are not supported")),
    }
}

impl<'c> Policy<'c> {
    fn judged(
        (key, policy): (&'c Key, &'c BackendTlsPolicy),
        (cluster, vault, folder): (&Cluster, &mut Vault, &Path),
    ) -> Policy<'c> {
        let validation = &policy.spec.validation;
        let who = ("BackendTLSPolicy", key.namespace.as_str());
        let refs = &validation.ca_certificate_refs;
        let (ca, bad) = credentials::authorities((cluster, vault, folder), who, refs);
        let (mut refusal, unresolved) = (None, bad.into_iter().next());
        let is_system = validation.well_known_ca_certificates.as_deref() == Some("System");
        if ca.is_none() && !is_system {
            let message = "it names no authority that can be used".to_owned();
            refusal = Some(Unusable { reason: "NoValidCACertificate", message });
        }
        let mut tls = json!({ "name": validation.hostname });
        match alt_names(&validation.subject_alt_names) {
            Ok(names) if names.is_empty() => {}
            Ok(names) => tls["alt_names"] = json!(names),
            Err(message) => refusal = Some(Unusable { reason: "Invalid", message }),
        }
        if let Some(ca) = ca {
            tls["ca"] = ca.into();
        }
        let tls = if refusal.is_some() { BackendTls::Broken } else { BackendTls::Verified(tls) };
        let gateways = BTreeSet::new();
        Policy {
            key,
            policy,
            tls,
            refusal,
            unresolved,
            has_target: false,
            conflicts: false,
            gateways,
        }
    }

    /// Whether it is for this port: `Some(true)` if it names the port.
    fn targets(&self, service: &Key, port: &ServicePort) -> Option<bool> {
        let is_service = |it: &&TargetRef| it.kind == "Service" && it.name == service.name;
        let refs = self.policy.spec.target_refs.iter().filter(is_service);
        let refs = refs.filter(|_| self.key.namespace == service.namespace);
        let named = refs.filter_map(|it| match &it.section_name {
            None => Some(false),
            Some(name) if *name == port.name => Some(true),
            Some(_) => None,
        });
        named.max()
    }

    pub(crate) fn generation(&self) -> i64 {
        self.policy.metadata.generation
    }

    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let accepted = match &self.refusal {
            Some(Unusable { reason, message }) => Condition::no("Accepted", reason, message),
            None if self.conflicts && !self.has_target => {
                Condition::no("Accepted", "Conflicted", "an older policy has the same targets")
            }
            None => Condition::yes("Accepted", "Accepted"),
        };
        let resolved = match &self.unresolved {
            Some(Unusable { reason, message }) => Condition::no("ResolvedRefs", reason, message),
            None => Condition::yes("ResolvedRefs", "ResolvedRefs"),
        };
        vec![accepted, resolved]
    }
}
