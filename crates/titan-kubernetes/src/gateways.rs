//! Which gateways are ours, where they listen, and what is wrong with their listeners.

mod addresses;

pub(crate) use addresses::BadAddress;

use crate::cluster::{Cluster, GATEWAY_GROUP};
use crate::credentials::{self, Unusable, Vault, Who};
use crate::hostname::{self, covers};
use crate::ingress::{HTTPS, Ingresses};
use crate::names::joined;
use crate::objects::{Gateway, Key, Listener, ListenerSet, Namespaces, RouteKind};
use crate::settings::{Addressing, Settings};
use addresses::Addresses;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use titan_config::bounds::{MAX_CERTIFICATES, MAX_CERTIFIED, MAX_LISTENERS};

/// A gateway of ours.
pub(crate) struct Ours<'c> {
    pub(crate) key: &'c Key,
    pub(crate) gateway: &'c Gateway,
    /// Where clients reach it, or why they do not.
    pub(crate) address: Result<Vec<String>, BadAddress>,
    /// Its own listeners, and behind them those of its sets.
    pub(crate) listeners: Vec<Judged<'c>>,
    /// The ListenerSets that name it, in the order of their precedence.
    pub(crate) sets: Vec<Set<'c>>,
    /// The certificate that it presents to pods, where it is to present one.
    pub(crate) presented: Option<Result<Value, Unusable>>,
}

impl Ours<'_> {
    /// Whether it is the one that all Ingresses are behind, which no cluster has.
    pub(crate) fn is_of_ingresses(&self) -> bool {
        self.key.namespace.is_empty()
    }
}

/// A ListenerSet that names a gateway of ours.
pub(crate) struct Set<'c> {
    pub(crate) key: &'c Key,
    pub(crate) set: &'c ListenerSet,
    /// Whether the gateway lets its listeners in.
    pub(crate) is_allowed: bool,
}

/// A listener, and what became of it.
pub(crate) struct Judged<'c> {
    pub(crate) listener: &'c Listener,
    /// The ListenerSet that it is of; none: the gateway itself.
    pub(crate) set: Option<&'c Key>,
    /// The socket of Titan's that serves it, where it is served.
    pub(crate) socket: Option<Socket>,
    /// The kinds of routes that may attach to it.
    pub(crate) kinds: Vec<&'static str>,
    pub(crate) refusal: Option<Unusable>,
    pub(crate) conflict: Option<Unusable>,
    pub(crate) unresolved: Option<Unusable>,
    pub(crate) certificates: Vec<Value>,
    /// How clients are asked for certificates.
    pub(crate) clients: Option<Value>,
    /// How many routes are attached to it.
    pub(crate) attached: usize,
}

/// A socket that Titan listens on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Socket {
    /// What the configuration calls it.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) has_tls: bool,
    /// Whether nothing is read of what comes, TLS or not.
    pub(crate) is_tcp: bool,
}

impl Socket {
    /// The document that says it.
    pub(crate) fn document(&self) -> String {
        format!("listener/{}", self.name)
    }
}

impl Judged<'_> {
    /// The hosts that it is for; empty: all, as where nothing says which one is asked for.
    pub(crate) fn hostname(&self) -> &str {
        if self.listener.protocol == "TCP" {
            return "";
        }
        self.listener.hostname.as_deref().unwrap_or_default()
    }
}

/// Judges all gateways of these classes.
pub(crate) fn judged<'c>(
    cluster: &'c Cluster,
    classes: &BTreeSet<&str>,
    (settings, vault): (&Settings, &mut Vault),
    ingresses: &'c Ingresses,
) -> Vec<Ours<'c>> {
    let mut gateways: Vec<_> = cluster.gateways.iter().collect();
    gateways.retain(|(_, it)| classes.contains(it.spec.gateway_class_name.as_str()));
    gateways.extend(ingresses.gateway.iter().map(|(key, gateway)| (key, gateway)));
    gateways.sort_by_key(|(_, gateway)| gateway.metadata.precedence());
    let mut addresses = Addresses::claimed(&gateways, &settings.addressing);
    let mut taken = Taken { reserved: ingresses.reserved(settings), ..Taken::default() };
    let mut judge = |(key, gateway): (&'c Key, &'c Gateway)| {
        let address = addresses.of(key, gateway);
        let sets = match key.namespace.is_empty() {
            true => of_ingresses(&ingresses.sets),
            false => sets(cluster, (key, gateway)),
        };
        let own = gateway.spec.listeners.iter().map(|it| Judged::new(it, None));
        let of_sets = sets.iter().filter(|it| it.is_allowed).flat_map(|it| {
            it.set.spec.listeners.iter().map(|listener| Judged::new(listener, Some(it.key)))
        });
        let mut listeners: Vec<_> = own.chain(of_sets).collect();
        for judged in &mut listeners {
            judged.judge((cluster, vault, settings), (key, gateway));
            let socket = address
                .as_ref()
                .ok()
                .map(|it| socket(&settings.addressing, key, it, judged.listener));
            taken.give(judged, socket, key.namespace.is_empty());
        }
        let presented = presented((cluster, vault, settings), (key, gateway));
        Ours { key, gateway, address, listeners, sets, presented }
    };
    gateways.into_iter().map(&mut judge).collect()
}

/// The certificate that a gateway presents to pods.
fn presented(
    (cluster, vault, settings): (&Cluster, &mut Vault, &Settings),
    (key, gateway): (&Key, &Gateway),
) -> Option<Result<Value, Unusable>> {
    let backend = gateway.spec.tls.as_ref()?.backend.as_ref()?;
    let to = backend.client_certificate_ref.as_ref()?;
    let with = (cluster, vault, settings.folder.as_path());
    let found = credentials::certificate(with, ("Gateway", &key.namespace), to);
    Some(found.map_err(|Unusable { reason, message }| {
        let is_usual = reason == "InvalidCertificateRef";
        let reason = if is_usual { "InvalidClientCertificateRef" } else { reason };
        Unusable { reason, message }
    }))
}

/// The listeners that Ingresses have certificates for, those of the oldest first.
fn of_ingresses(sets: &BTreeMap<Key, ListenerSet>) -> Vec<Set<'_>> {
    let mut sets: Vec<_> =
        sets.iter().map(|(key, set)| Set { key, set, is_allowed: true }).collect();
    sets.sort_by_key(|it| it.set.metadata.precedence());
    sets
}

/// The ListenerSets that name a gateway, the oldest first.
fn sets<'c>(cluster: &'c Cluster, (key, gateway): (&Key, &Gateway)) -> Vec<Set<'c>> {
    let names = |to: &crate::objects::ReferenceTo, namespace: &str| {
        to.group.as_deref().is_none_or(|group| group == GATEWAY_GROUP)
            && to.kind.as_deref().is_none_or(|kind| kind == "Gateway")
            && to.name == key.name
            && to.namespace.as_deref().unwrap_or(namespace) == key.namespace
    };
    let all = cluster.listener_sets.iter();
    let all = all.filter(|(its, set)| names(&set.spec.parent_ref, &its.namespace));
    let allowed = &gateway.spec.allowed_listeners.namespaces;
    let mut sets: Vec<_> = all
        .map(|(its, set)| {
            let is_allowed = lets_in(cluster, (allowed, "None"), (&key.namespace, &its.namespace));
            Set { key: its, set, is_allowed }
        })
        .collect();
    sets.sort_by_key(|it| it.set.metadata.precedence());
    sets
}

/// Whether objects of a namespace are let in by one of `own`, which takes those of `default` where it does not say.
pub(crate) fn lets_in(
    cluster: &Cluster,
    (allowed, default): (&Namespaces, &str),
    (own, namespace): (&str, &str),
) -> bool {
    match allowed.from.as_deref().unwrap_or(default) {
        "All" => true,
        "Same" => own == namespace,
        "Selector" => {
            let mut namespaces = cluster.namespaces.values().map(|it| &it.metadata);
            let labels = namespaces.find(|it| it.name == namespace).map(|it| &it.labels);
            labels.zip(allowed.selector.as_ref()).is_some_and(|(labels, it)| it.selects(labels))
        }
        _ => false,
    }
}

/// Whether a host of a listener for `own` on that socket belongs to another listener there, which is more specific.
pub(crate) fn is_elsewhere(
    gateways: &[Ours<'_>],
    socket: &Socket,
    (own, host): (&str, &str),
) -> bool {
    let mut listeners = gateways.iter().flat_map(|it| &it.listeners);
    listeners.any(|other| {
        other.socket.as_ref() == Some(socket)
            && hostname::specificity(other.hostname()) > hostname::specificity(own)
            && covers(other.hostname(), host)
            && !host.is_empty()
    })
}

/// Where a listener of a gateway is, with that address.
fn socket(addressing: &Addressing, key: &Key, address: &[String], listener: &Listener) -> Socket {
    let port = listener.port;
    let (name, address) = match (addressing, address) {
        (Addressing::Own(_), [address, ..]) => {
            let port_name = port.to_string();
            let parts = [key.namespace.as_str(), &key.name, &port_name];
            // The gateway of Ingresses is in no namespace.
            let parts = if key.namespace.is_empty() { &parts[1..] } else { &parts };
            (joined(parts), format!("{address}:{port}"))
        }
        _ => (format!("port-{port}"), format!(":{port}")),
    };
    let has_tls = matches!(listener.protocol.as_str(), "HTTPS" | "TLS");
    Socket { name, address, port, has_tls, is_tcp: listener.protocol == "TCP" }
}

impl<'c> Judged<'c> {
    fn new(listener: &'c Listener, set: Option<&'c Key>) -> Judged<'c> {
        Judged {
            listener,
            set,
            socket: None,
            kinds: Vec::new(),
            refusal: None,
            conflict: None,
            unresolved: None,
            certificates: Vec::new(),
            clients: None,
            attached: 0,
        }
    }

    fn judge(&mut self, with: (&Cluster, &mut Vault, &Settings), (key, gateway): (&Key, &Gateway)) {
        let Listener { protocol, allowed_routes, .. } = self.listener;
        let Some(kinds) = kinds_of(protocol) else {
            let message = format!("{protocol} is not served; HTTP, HTTPS, TLS and TCP are");
            self.refusal = Some(Unusable { reason: "UnsupportedProtocol", message });
            return;
        };
        let (kinds, bad) = allowed_kinds(kinds, &allowed_routes.kinds);
        self.kinds = kinds;
        self.unresolved = bad;
        if let Err(message) = hostname::check(self.hostname(), protocol != "HTTP") {
            self.refusal = Some(Unusable { reason: "UnsupportedValue", message });
        }
        if self.decrypts() {
            let (cluster, vault, settings) = with;
            let who = match self.set {
                Some(set) => ("ListenerSet", set.namespace.as_str()),
                None => ("Gateway", key.namespace.as_str()),
            };
            self.take_certificates((cluster, vault, settings), who);
            self.ask_clients((cluster, vault, settings), (key, gateway));
        }
    }

    fn take_certificates(
        &mut self,
        (cluster, vault, settings): (&Cluster, &mut Vault, &Settings),
        who: Who<'_>,
    ) {
        let tls = self.listener.tls.clone().unwrap_or_default();
        if tls.mode.as_deref() == Some("Passthrough") {
            let message = "HTTPS is decrypted here: `tls.mode` has to be `Terminate`".to_owned();
            self.refusal = Some(Unusable { reason: "UnsupportedValue", message });
        }
        for to in &tls.certificate_refs {
            let with = (cluster, &mut *vault, settings.folder.as_path());
            match credentials::certificate(with, who, to) {
                Ok(certificate) => self.certificates.push(certificate),
                Err(why) => self.unresolved = Some(why),
            }
        }
        if tls.certificate_refs.is_empty() {
            let message = "`tls.certificateRefs` names no certificate".to_owned();
            self.unresolved = Some(Unusable { reason: "InvalidCertificateRef", message });
        }
    }

    fn ask_clients(
        &mut self,
        (cluster, vault, settings): (&Cluster, &mut Vault, &Settings),
        (key, gateway): (&Key, &Gateway),
    ) {
        let Some(frontend) = gateway.spec.tls.as_ref().and_then(|it| it.frontend.as_ref()) else {
            return;
        };
        let of_port = frontend.per_port.iter().find(|it| it.port == self.listener.port);
        let tls = of_port.map_or(&frontend.default, |it| &it.tls);
        let Some(validation) = &tls.validation else { return };
        let with = (cluster, vault, settings.folder.as_path());
        let who = ("Gateway", key.namespace.as_str());
        let (ca, bad) = credentials::authorities(with, who, &validation.ca_certificate_refs);
        for Unusable { reason, message } in bad {
            let reason = if reason == "InvalidKind" { "InvalidCACertificateKind" } else { reason };
            self.unresolved = Some(Unusable { reason, message });
        }
        match ca {
            Some(ca) if validation.is_insecure() => {
                self.clients = Some(json!({ "ca": ca, "mode": "ignore_invalid" }));
            }
            Some(ca) => self.clients = Some(json!({ "ca": ca })),
            // Nobody could be let in.
            None => {
                let message = "no authority for certificates of clients can be used".to_owned();
                self.refusal = Some(Unusable { reason: "NoValidCACertificate", message });
            }
        }
    }

    /// Whether what comes here goes on as it is, encrypted by the client.
    pub(crate) fn passes_through(&self) -> bool {
        let mode = self.listener.tls.as_ref().and_then(|tls| tls.mode.as_deref());
        self.listener.protocol == "TLS" && mode == Some("Passthrough")
    }

    /// Whether what comes here is HTTP, encrypted.
    pub(crate) fn is_https(&self) -> bool {
        self.listener.protocol == "HTTPS"
    }

    /// Whether the gateway decrypts what comes here.
    fn decrypts(&self) -> bool {
        self.is_https() || self.listener.protocol == "TLS" && !self.passes_through()
    }

    /// Whether routes can attach to it.
    pub(crate) fn takes_routes(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Whether it can be served.
    fn is_usable(&self) -> bool {
        let is_whole = !self.decrypts() || !self.certificates.is_empty();
        self.refusal.is_none() && self.conflict.is_none() && self.takes_routes() && is_whole
    }
}

/// The kinds of routes that a listener of this protocol takes.
fn kinds_of(protocol: &str) -> Option<&'static [&'static str]> {
    match protocol {
        "HTTP" | "HTTPS" => Some(&["HTTPRoute", "GRPCRoute"]),
        "TLS" => Some(&["TLSRoute"]),
        "TCP" => Some(&["TCPRoute"]),
        _ => None,
    }
}

/// Those of them that are let in, and what is wrong with the others that are named.
fn allowed_kinds(
    kinds: &[&'static str],
    named: &[RouteKind],
) -> (Vec<&'static str>, Option<Unusable>) {
    if named.is_empty() {
        return (kinds.to_vec(), None);
    }
    let (mut allowed, mut bad) = (Vec::new(), None);
    for RouteKind { group, kind } in named {
        let is_group = group.as_deref().is_none_or(|group| group == GATEWAY_GROUP);
        match kinds.iter().find(|it| is_group && *it == kind) {
            Some(known) => allowed.push(*known),
            None => {
                let message = format!("{kind} is no kind of route that this listener takes");
                bad = Some(Unusable { reason: "InvalidRouteKinds", message });
            }
        }
    }
    (allowed, bad)
}

/// Sockets of all gateways together. The others that a configuration may have are for what its files listen on.
const MAX_SOCKETS: usize = MAX_LISTENERS - 8;

/// Which sockets are used, and for what: each host of a port has one listener.
#[derive(Default)]
struct Taken {
    sockets: BTreeMap<String, Use>,
    /// Certificates of the port of Ingresses that Gateways do not get.
    reserved: usize,
}

/// What a socket is used for.
#[derive(Default)]
struct Use {
    /// Whether all that is spoken there is TLS. By the name that a client asks for in it, it may be HTTPS or not.
    has_tls: bool,
    /// Whether nothing is read of it.
    is_tcp: bool,
    /// Whose certificates clients show, where some of what comes is decrypted: they do so before they say which host they want.
    clients: Option<Option<Value>>,
    protocols: BTreeSet<String>,
    hosts: BTreeSet<String>,
    /// How many hosts each certificate is for there.
    certificates: BTreeMap<String, usize>,
    /// Those of Gateways: all that they cover is theirs, and not of Ingresses.
    of_gateways: BTreeSet<String>,
}

impl Taken {
    fn give(&mut self, judged: &mut Judged<'_>, socket: Option<Socket>, is_of_ingresses: bool) {
        // Ports of UDP are others.
        let Some(socket) = socket.filter(|_| judged.listener.protocol != "UDP") else { return };
        let host = judged.hostname().to_ascii_lowercase();
        let protocol = judged.listener.protocol.clone();
        if !judged.takes_routes() {
            let used = self.sockets.get(&socket.name);
            let used = used.filter(|used| !used.protocols.contains(&protocol));
            judged.conflict = used.map(|_| Unusable {
                reason: "ProtocolConflict",
                message: format!("port {}: a listener before it has another protocol", socket.port),
            });
            return;
        }
        if self.sockets.len() >= MAX_SOCKETS && !self.sockets.contains_key(&socket.name) {
            let port = socket.port;
            let message = format!(
                "port {port}: all gateways together listen at {MAX_SOCKETS} addresses and ports, and listeners before it have them"
            );
            judged.conflict = Some(Unusable { reason: "TooManyListeners", message });
            return;
        }
        let is_left = !is_of_ingresses && socket.port == HTTPS;
        let most = MAX_CERTIFICATES - if is_left { self.reserved } else { 0 };
        let clients = judged.decrypts().then(|| judged.clients.clone());
        let fresh = || Use { has_tls: socket.has_tls, is_tcp: socket.is_tcp, ..Use::default() };
        let used = self.sockets.entry(socket.name.clone()).or_insert_with(fresh);
        let has_other_clients =
            used.clients.as_ref().zip(clients.as_ref()).is_some_and(|(used, own)| used != own);
        let is_other = (used.has_tls, used.is_tcp) != (socket.has_tls, socket.is_tcp);
        let conflict = if is_other {
            Some(("ProtocolConflict", "has the port for another protocol"))
        } else if has_other_clients {
            Some((
                "ProtocolConflict",
                "has the port with other authorities for certificates of clients",
            ))
        } else if is_of_ingresses && used.of_gateways.iter().any(|it| covers(it, &host)) {
            Some(("HostnameConflict", "of a Gateway covers the host on the port"))
        } else if !used.has_room(judged, most) {
            Some((
                "TooManyCertificates",
                "has the last certificate that a port can have (1024), or that Ingresses leave (512)",
            ))
        } else if socket.is_tcp && !used.protocols.is_empty() {
            Some(("ProtocolConflict", "has the port, and nothing tells their connections apart"))
        } else if !used.hosts.insert(host.clone()) {
            Some(("HostnameConflict", "has the same host on the port"))
        } else {
            used.clients = used.clients.take().or(clients);
            used.protocols.insert(protocol);
            None
        };
        judged.conflict = conflict.map(|(reason, which)| Unusable {
            reason,
            message: format!("port {}: a listener before it {which}", socket.port),
        });
        judged.socket = judged.is_usable().then_some(socket);
        if judged.socket.is_some() {
            used.note_certificates(judged);
        }
        if !is_of_ingresses && judged.socket.is_some() {
            used.of_gateways.insert(host);
        }
    }
}

impl Use {
    /// Whether the port can have the certificates of one more listener.
    fn has_room(&self, judged: &Judged<'_>, most: usize) -> bool {
        let more = judged.certificates.iter().map(|it| certificate_of(it, judged));
        let more: BTreeSet<String> = more.collect();
        let with = |name: &String, hosts: usize| entries(hosts + usize::from(more.contains(name)));
        let old: usize = self.certificates.iter().map(|(name, hosts)| with(name, *hosts)).sum();
        let new = more.iter().filter(|it| !self.certificates.contains_key(*it)).count();
        old + new <= most
    }

    fn note_certificates(&mut self, judged: &Judged<'_>) {
        for certificate in &judged.certificates {
            *self.certificates.entry(certificate_of(certificate, judged)).or_default() += 1;
        }
    }
}

/// Entries for a certificate for so many hosts.
fn entries(hosts: usize) -> usize {
    hosts.div_ceil(MAX_CERTIFIED).max(1)
}

/// What tells certificates of a port apart: one that is for all hosts is for no particular ones.
fn certificate_of(certificate: &Value, judged: &Judged<'_>) -> String {
    format!("{certificate} {}", judged.hostname().is_empty())
}

/// The certificates of the listeners of a port, each for the hosts of its listeners, whatever names are in it. One of a listener for
/// all hosts is for the names in it that no other listener has.
pub(crate) fn certificates(listeners: &[&Judged<'_>]) -> Vec<Value> {
    let mut all: Vec<(String, &Value, Vec<String>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for judged in listeners {
        for certificate in &judged.certificates {
            let name = certificate_of(certificate, judged);
            let at = *places.entry(name.clone()).or_insert_with(|| {
                all.push((name, certificate, Vec::new()));
                all.len() - 1
            });
            let host = judged.hostname().to_ascii_lowercase();
            if !host.is_empty() && !all[at].2.contains(&host) {
                all[at].2.push(host);
            }
        }
    }
    let written = all.into_iter().flat_map(|(_, certificate, hosts)| match hosts.is_empty() {
        true => vec![certificate.clone()],
        false => hosts
            .chunks(MAX_CERTIFIED)
            .map(|hosts| {
                let mut certificate = certificate.clone();
                certificate["hosts"] = hosts.into();
                certificate
            })
            .collect(),
    });
    written.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_bounded_number_of_certificates() {
        let listener = |host: usize| Listener {
            hostname: Some(format!("h{host}.io")),
            protocol: "HTTPS".to_owned(),
            port: 443,
            ..Listener::default()
        };
        let mut taken = Taken { reserved: 24, ..Taken::default() };
        let mut give = |host: usize, certificate: usize, is_of_ingresses: bool| {
            let listener = listener(host);
            let mut judged = Judged::new(&listener, None);
            judged.kinds = vec!["HTTPRoute"];
            judged.certificates = vec![json!({ "cert": certificate.to_string() })];
            let socket = Socket {
                name: "port-443".to_owned(),
                address: ":443".to_owned(),
                port: 443,
                has_tls: true,
                is_tcp: false,
            };
            taken.give(&mut judged, Some(socket), is_of_ingresses);
            judged.conflict.map(|it| it.reason)
        };
        // Gateways come first, and leave some to Ingresses.
        let all = (0..1_000).filter_map(|at| give(at, at, false)).count();
        assert_eq!((all, give(5_000, 5_000, false)), (0, Some("TooManyCertificates")));
        let all = (1_000..MAX_CERTIFICATES).filter_map(|at| give(at, at, true)).count();
        assert_eq!((all, give(5_000, 5_000, true)), (0, Some("TooManyCertificates")));
        // One that is there already is for more hosts.
        assert_eq!(give(5_001, 7, true), None);
    }
}
