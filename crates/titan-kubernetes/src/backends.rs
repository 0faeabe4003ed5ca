//! From services to upstreams.

use crate::backend_tls::{BackendTls, Policies};
use crate::cluster::Cluster;
use crate::credentials::{Unusable, Vault, Who, key_of};
use crate::grants;
use crate::names::{hash, joined};
use crate::objects::{EndpointSlice, Key, ReferenceTo, Service, ServiceEndpoint, ServicePort};
use crate::policies;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Where pods listen, by the names of the feeds that upstreams follow.
pub type Pods = BTreeMap<String, Vec<SocketAddr>>;

/// What serves requests of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Backend {
    /// This upstream.
    Upstream(String),
    /// Nobody, until pods are there.
    NoPods,
    /// Nobody: its certificates could not be checked, or what a policy says cannot be done.
    Insecure,
}

/// What the pods speak if their service does not say it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1.
    Http,
    /// HTTP over TLS, with whatever certificate.
    Https,
    /// HTTP/2.
    Grpc,
    /// Whatever clients speak, once the gateway has decrypted it.
    Raw,
    /// Whatever clients have encrypted: the gateway cannot do that.
    Encrypted,
}

/// The upstreams that routes need.
pub(crate) struct Backends<'c> {
    cluster: &'c Cluster,
    slices: BTreeMap<Key, Vec<&'c EndpointSlice>>,
    policies: Policies<'c>,
    /// The certificates that gateways present to pods.
    presented: BTreeMap<Key, Value>,
    /// Titan's own policies.
    pub(crate) titan: policies::Policies<'c>,
    documents: BTreeMap<String, Value>,
    pods: Pods,
    /// What upstreams would follow that have no pods.
    waiting: BTreeSet<String>,
}

/// What came of all that routes name.
pub(crate) struct Resolved<'c> {
    /// The documents with the upstreams, by name.
    pub(crate) documents: BTreeMap<String, Value>,
    pub(crate) pods: Pods,
    /// What upstreams would follow that have no pods.
    pub(crate) waiting: BTreeSet<String>,
    /// TLS to pods.
    pub(crate) tls: Policies<'c>,
    /// Titan's own policies.
    pub(crate) titan: policies::Policies<'c>,
}

/// What an upstream follows.
fn feed_of(service: &Key, port: u16) -> String {
    format!("kubernetes/{}/{}/{port}", service.namespace, service.name)
}

/// Where the pods of a service are now, by the feeds among those that were told before for which that is elsewhere. `None` where
/// documents say something else now: because its first pod is there, or its last one is gone. `waiting` are the feeds without pods
/// that routes need.
pub(crate) fn moved(
    cluster: &Cluster,
    service: &Key,
    told: &Pods,
    waiting: &BTreeSet<String>,
) -> Option<Pods> {
    let mut moved = Pods::new();
    let Some(object) = cluster.services.get(service) else { return Some(moved) };
    let slices = cluster.slices_of(service);
    for port in &object.spec.ports {
        let feed = feed_of(service, port.port);
        let before = told.get(&feed);
        if before.is_none() && !waiting.contains(&feed) {
            continue;
        }
        let now = pods_of(&slices, object, port);
        match before {
            Some(before) if *before == now => {}
            Some(_) if !now.is_empty() => drop(moved.insert(feed, now)),
            None if now.is_empty() => {}
            _ => return None,
        }
    }
    Some(moved)
}

impl<'c> Backends<'c> {
    pub(crate) fn new(
        (cluster, vault, folder): (&'c Cluster, &mut Vault, &Path),
        (titan, presented): (policies::Policies<'c>, BTreeMap<Key, Value>),
    ) -> Backends<'c> {
        let mut slices: BTreeMap<Key, Vec<_>> = BTreeMap::new();
        for slice in cluster.slices.values() {
            let Some(service) = slice.service() else { continue };
            let key = Key::new(&slice.metadata.namespace, service);
            slices.entry(key).or_default().push(slice);
        }
        let policies = Policies::judged(cluster, vault, folder);
        Backends {
            cluster,
            slices,
            policies,
            presented,
            titan,
            documents: BTreeMap::new(),
            pods: Pods::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// What came of all that was resolved.
    pub(crate) fn resolved(self) -> Resolved<'c> {
        let Backends { documents, pods, waiting, policies: tls, titan, .. } = self;
        Resolved { documents, pods, waiting, tls, titan }
    }

    /// Those that serve what is sent to this one, for a route of this kind and namespace that is attached to these gateways. It may
    /// say how pods are chosen.
    pub(crate) fn resolve(
        &mut self,
        who: Who<'_>,
        to: &ReferenceTo,
        (protocol, gateways): (Protocol, &BTreeSet<Key>),
        balance: Option<&Value>,
    ) -> Result<Backend, Unusable> {
        let (key, service, port) = self.service_port(who, to)?;
        let tls = self.policies.of(key, port, gateways).cloned();
        let tls = tls.filter(|_| protocol != Protocol::Encrypted);
        let speaks = spoken(port, protocol, tls.is_some());
        if matches!(tls, Some(BackendTls::Broken)) {
            return Ok(Backend::Insecure);
        }
        let carries_http = !matches!(protocol, Protocol::Raw | Protocol::Encrypted);
        let said = match carries_http {
            true => self.titan.of_service(key, port, gateways),
            false => Some(Map::new()),
        };
        let Some(said) = said else { return Ok(Backend::Insecure) };
        let slices = self.slices.get(key).into_iter().flatten().copied();
        let pods = pods_of(&slices, service, port);
        let feed = feed_of(key, port.port);
        if pods.is_empty() {
            self.waiting.insert(feed);
            return Ok(Backend::NoPods);
        }
        let certificate = match tls {
            Some(BackendTls::Verified(_)) => self.presented_by(gateways)?,
            _ => None,
        };
        let number = port.port.to_string();
        // Pods come and go more often than anything else: no document says which there are.
        let endpoint = format!("feed:{feed}");
        self.pods.insert(feed, pods);
        let mut upstream = Map::from_iter([("endpoints".to_owned(), json!([endpoint]))]);
        let speaks_there = match speaks {
            "https" => "auto",
            _ if carries_http => speaks,
            _ => "h1",
        };
        upstream.insert("protocol".to_owned(), speaks_there.into());
        if let Some(BackendTls::Verified(mut tls)) = tls {
            if let Some(certificate) = &certificate {
                tls["certificate"] = certificate.clone();
            }
            upstream.insert("tls".to_owned(), tls);
        } else if protocol == Protocol::Https {
            upstream.insert("tls".to_owned(), json!({ "verify": false }));
        }
        upstream.extend(said);
        // What an Ingress says is nearer than a policy of its service.
        if let Some(balance) = balance {
            upstream.insert("balance".to_owned(), balance.clone());
        }
        let mut parts = vec![key.namespace.as_str(), &key.name, &number];
        parts.extend(Some(speaks).filter(|it| *it != "h1"));
        // Pods know gateways by what they present, and clients stay with pods that a route chooses in its own way.
        let own = [certificate.as_ref(), balance].into_iter().flatten();
        let own: Vec<_> = own.map(|it| hash(it.to_string().as_bytes())).collect();
        parts.extend(own.iter().map(|it| &it[..16]));
        let name = joined(&parts);
        let document = json!({ "upstreams": { name.clone(): upstream } });
        self.documents.insert(format!("service/{}", parts.join("/")), document);
        Ok(Backend::Upstream(name))
    }

    /// The certificate that these gateways present to pods, if they do.
    fn presented_by(&self, gateways: &BTreeSet<Key>) -> Result<Option<Value>, Unusable> {
        let presented: Vec<_> = gateways.iter().map(|it| self.presented.get(it)).collect();
        match presented.split_first() {
            Some((first, others)) if others.iter().any(|it| it != first) => {
                let message = "its gateways present different certificates to pods: it has to be a route for each of them";
                Err(Unusable { reason: "UnsupportedValue", message: message.to_owned() })
            }
            Some((first, _)) => Ok(first.cloned()),
            None => Ok(None),
        }
    }

    fn service_port(
        &self,
        who: Who<'_>,
        to: &ReferenceTo,
    ) -> Result<(&'c Key, &'c Service, &'c ServicePort), Unusable> {
        let key = key_of(to, who);
        let kind = to.kind.as_deref().unwrap_or("Service");
        if kind != "Service" || !matches!(to.group.as_deref(), None | Some("")) {
            let message = format!("{kind} {key}: only services can serve requests");
            return Err(Unusable { reason: "InvalidKind", message });
        }
        if !grants::allows(self.cluster, who, ("Service", &key)) {
            let message = format!(
                "service {key} is in another namespace, and no ReferenceGrant there allows it"
            );
            return Err(Unusable { reason: "RefNotPermitted", message });
        }
        let missing = |message| Unusable { reason: "BackendNotFound", message };
        let found = self.cluster.services.get_key_value(&key);
        let (key, service) = found.ok_or_else(|| missing(format!("there is no service {key}")))?;
        let port = service.spec.ports.iter().find(|port| Some(port.port) == to.port);
        let port = port.ok_or_else(|| {
            let number = to.port.map_or_else(|| "none".to_owned(), |port| port.to_string());
            missing(format!("service {key} has no such port: {number}"))
        })?;
        Ok((key, service, port))
    }
}

/// Where the pods of a port listen.
fn pods_of<'s>(
    slices: &(impl Iterator<Item = &'s EndpointSlice> + Clone),
    service: &Service,
    port: &ServicePort,
) -> Vec<SocketAddr> {
    let ready = |it: &ServiceEndpoint| it.conditions.ready != Some(false);
    let ending = |it: &ServiceEndpoint| {
        it.conditions.serving == Some(true) && it.conditions.terminating == Some(true)
    };
    let is_only = service.spec.ports.len() == 1;
    let addresses = |is_taken: &dyn Fn(&ServiceEndpoint) -> bool| {
        let mut found = BTreeSet::new();
        for slice in slices.clone() {
            let ports = slice.ports.iter().flatten();
            let is_named = |name: Option<&str>| name.unwrap_or_default() == port.name || is_only;
            let number = ports.filter(|it| is_named(it.name.as_deref())).find_map(|it| it.port);
            let Some(number) = number else { continue };
            let endpoints = slice.endpoints.iter().flatten().filter(|it| is_taken(it));
            let parsed = |it: &ServiceEndpoint| it.addresses.first()?.parse::<IpAddr>().ok();
            found.extend(endpoints.filter_map(parsed).map(|it| SocketAddr::new(it, number)));
        }
        found
    };
    // While a rollout ends the last pods, they are better than nobody.
    let found = Some(addresses(&ready)).filter(|it| !it.is_empty());
    let found = found.unwrap_or_else(|| addresses(&ending));
    found.into_iter().collect()
}

/// What is spoken to pods.
fn spoken(port: &ServicePort, protocol: Protocol, has_tls: bool) -> &'static str {
    match (port.app_protocol.as_deref(), protocol) {
        (_, Protocol::Https) if !has_tls => "https",
        (_, Protocol::Raw) => "raw",
        (_, Protocol::Encrypted) => "encrypted",
        (_, Protocol::Grpc) | (Some("kubernetes.io/h2c"), _) => "h2",
        _ if has_tls => "auto",
        _ => "h1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Kind;

    #[test]
    fn pods_move_without_a_translation_unless_the_first_comes_or_the_last_goes() {
        let mut cluster = Cluster::default();
        let service = Key::new("shop", "a");
        let spec = json!({ "ports": [{ "port": 80 }] });
        cluster
            .note(Kind::Service, service.clone(), json!({ "metadata": {}, "spec": spec }))
            .unwrap();
        let feed = feed_of(&service, 80);
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let told = Pods::from([(feed.clone(), vec![address("10.0.0.1:8080")])]);
        let waits = BTreeSet::from([feed.clone()]);
        let other_port = BTreeSet::from([feed_of(&service, 81)]);
        let one = |text: &str| Some(Pods::from([(feed.clone(), vec![address(text)])]));
        for (pods, told, waiting, expected) in [
            (json!(["10.0.0.2"]), &told, &BTreeSet::new(), one("10.0.0.2:8080")),
            (json!(["10.0.0.1"]), &told, &BTreeSet::new(), Some(Pods::new())),
            (json!([]), &told, &BTreeSet::new(), None),
            (json!(["10.0.0.2"]), &Pods::new(), &waits, None),
            (json!([]), &Pods::new(), &waits, Some(Pods::new())),
            // It is another port that routes wait for.
            (json!(["10.0.0.2"]), &Pods::new(), &other_port, Some(Pods::new())),
            // No route names it.
            (json!(["10.0.0.2"]), &Pods::new(), &BTreeSet::new(), Some(Pods::new())),
        ] {
            let endpoints: Vec<_> =
                pods.as_array().unwrap().iter().map(|it| json!({ "addresses": [it] })).collect();
            let slice = json!({
                "metadata": { "namespace": "shop", "labels": { "kubernetes.io/service-name": "a" } },
                "endpoints": endpoints, "ports": [{ "port": 8080 }],
            });
            cluster.note(Kind::EndpointSlice, Key::new("shop", "a-1"), slice).unwrap();
            assert_eq!(moved(&cluster, &service, told, waiting), expected, "{pods}");
        }
    }
}
