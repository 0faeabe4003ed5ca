//! TLSRoutes and TCPRoutes: connections that go to services without HTTP, by the name that clients ask for or all of a port.

use crate::attach::{self, Attached, Attaching};
use crate::backends::{Backend, Backends, Protocol};
use crate::cluster::{Cluster, Kind};
use crate::credentials::Unusable;
use crate::gateways::{self, Judged, Ours, Socket};
use crate::hostname;
use crate::matches::unsupported;
use crate::objects::{BackendRef, Key, ParentRef, TlsRoute};
use crate::rules;
use crate::statuses::{self, Judgement};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use titan_config::bounds::{MAX_HOSTS, MAX_TLS_ROUTES};

/// What became of the TLSRoutes and TCPRoutes of a cluster.
#[derive(Default)]
pub(crate) struct TlsRoutes<'c> {
    pub(crate) judgements: Vec<Judgement<'c>>,
    /// The TLS routes of Titan's on each socket that has any.
    sockets: BTreeMap<Socket, Vec<Value>>,
    /// The names that are taken on each; of several routes the oldest one has a name.
    taken: BTreeSet<(Socket, String)>,
    /// The upstreams of each socket of which nothing is read: those of the oldest route.
    tcp: BTreeMap<Socket, Value>,
}

/// An upstream without endpoints: connections for which there is no service end there.
pub(crate) const NOBODY: &str = "nobody";

/// Names that one TLS route of Titan's has at most.
const MAX_NAMES: usize = MAX_HOSTS;

/// The document with that upstream.
pub(crate) fn nobody() -> (String, Value) {
    let upstream = json!({ "endpoints": ["feed:kubernetes-nobody"], "protocol": "h1" });
    (format!("service/{NOBODY}"), json!({ "upstreams": { NOBODY: upstream } }))
}

impl<'c> TlsRoutes<'c> {
    /// Judges all of them, the oldest first.
    pub(crate) fn judged(
        cluster: &'c Cluster,
        gateways: &mut [Ours<'_>],
        backends: &mut Backends<'_>,
    ) -> TlsRoutes<'c> {
        let mut judged = TlsRoutes::default();
        for (kind, routes) in
            [(Kind::TlsRoute, &cluster.tls_routes), (Kind::TcpRoute, &cluster.tcp_routes)]
        {
            let mut routes: Vec<_> = routes.iter().collect();
            routes.sort_by_key(|(key, route)| (&route.metadata.creation_timestamp, *key));
            for (key, route) in routes {
                judged.judge((cluster, gateways, backends), (kind, key, route));
            }
        }
        judged
    }

    /// The upstreams of a socket of which nothing is read; nobody where it has no route.
    pub(crate) fn tcp(&self, socket: &Socket) -> Value {
        self.tcp.get(socket).cloned().unwrap_or_else(|| json!(NOBODY))
    }

    /// The TLS routes on a socket of these listeners. Each name belongs to the most specific listener that is for it: what no route of that
    /// one takes is HTTPS where it is one for HTTPS, and is refused otherwise, whichever routes of others would take it.
    pub(crate) fn on(&self, socket: &Socket, listeners: &[&Judged<'_>]) -> Vec<Value> {
        let mut routes = self.sockets.get(socket).cloned().unwrap_or_default();
        let mut left: BTreeMap<bool, BTreeSet<String>> = BTreeMap::new();
        let mut is_whole = self.is_taken(socket, "");
        for judged in listeners {
            let (host, is_https) = (judged.hostname().to_ascii_lowercase(), judged.is_https());
            let is_others = |it: &&&Judged<'_>| {
                !it.hostname().eq_ignore_ascii_case(&host) && hostname::covers(it.hostname(), &host)
            };
            if host.is_empty() {
                // What is left of a socket with `tls` is HTTPS.
                is_whole |= is_https;
            } else if !self.is_taken(socket, &host)
                && (is_https || listeners.iter().any(|it| is_others(&it)))
            {
                left.entry(is_https).or_default().insert(host);
            }
        }
        for (is_https, hosts) in left {
            let hosts: Vec<_> = hosts.into_iter().collect();
            routes.extend(hosts.chunks(MAX_NAMES).map(|names| match is_https {
                true => json!({ "names": names, "mode": "https" }),
                false => json!({ "names": names, "mode": "passthrough", "upstream": NOBODY }),
            }));
        }
        if !is_whole {
            routes.push(json!({ "mode": "passthrough", "upstream": NOBODY }));
        }
        routes
    }

    fn is_taken(&self, socket: &Socket, host: &str) -> bool {
        self.taken.contains(&(socket.clone(), host.to_owned()))
    }

    fn judge(
        &mut self,
        (cluster, gateways, backends): (&'c Cluster, &mut [Ours<'_>], &mut Backends<'_>),
        (kind, key, route): (Kind, &'c Key, &'c TlsRoute),
    ) {
        // A TCPRoute has none, whatever its object says.
        let hostnames = if kind == Kind::TcpRoute { &[][..] } else { &route.spec.hostnames[..] };
        let attaching =
            Attaching { kind: kind.name(), meta: &route.metadata, hostnames, is_of_ingress: false };
        let attach = |parent: &'c ParentRef| {
            Some((parent, attach::attached(cluster, gateways, &attaching, parent)?))
        };
        let parents: Vec<_> = route.spec.parent_refs.iter().filter_map(attach).collect();
        if parents.is_empty() && !statuses::has_ours(&route.status) {
            return;
        }
        let mut making = Making { kind, key, route, backends, unresolved: None };
        let mut document = String::new();
        let bad = hostnames.iter().filter_map(|host| hostname::check(host, true).err()).next();
        if let Some(refusal) = bad.map(unsupported) {
            let refusal = Some(refusal);
            let unresolved = None;
            self.judgements.push(Judgement { kind, key, parents, document, refusal, unresolved });
            return;
        }
        let mut refusal = None;
        for (_, attached) in &parents {
            for (listener, hosts) in &attached.listeners {
                gateways[attached.gateway].listeners[*listener].attached += 1;
                let gateways = &*gateways;
                let judged = &gateways[attached.gateway].listeners[*listener];
                let Some(socket) = judged.socket.clone() else { continue };
                document = socket.document();
                let (passes, own) = (judged.passes_through(), judged.hostname());
                let named = of_ours(&parents, gateways);
                let upstream = making.upstream(passes, &named);
                if socket.is_tcp {
                    self.tcp.entry(socket).or_insert(upstream);
                    continue;
                }
                let is_here =
                    |host: &&String| !gateways::is_elsewhere(gateways, &socket, (own, host));
                let hosts: Vec<_> = hosts.iter().filter(is_here).cloned().collect();
                if self.has_room(&socket, gateways) {
                    self.add(&socket, &hosts, passes, &upstream);
                } else {
                    let why = format!(
                        "older ones are all the TLS routes that port {} can have",
                        socket.port
                    );
                    refusal = Some(unsupported(why));
                }
            }
        }
        let unresolved = making.unresolved;
        self.judgements.push(Judgement { kind, key, parents, document, refusal, unresolved });
    }

    /// Whether a socket can have the routes of one more listener, beside those for what no route takes.
    fn has_room(&self, socket: &Socket, gateways: &[Ours<'_>]) -> bool {
        let listeners = gateways.iter().flat_map(|it| &it.listeners);
        let listeners = listeners.filter(|it| it.socket.as_ref() == Some(socket)).count();
        // `add` adds two at most, and `on` one for each of these and three that are not full.
        let others = 2 + listeners / MAX_NAMES + 3;
        self.sockets.get(socket).map_or(0, Vec::len) + others <= MAX_TLS_ROUTES
    }

    /// Adds a route for those of the hosts that no other one has.
    fn add(&mut self, socket: &Socket, hosts: &[String], passes: bool, upstream: &Value) {
        let mut is_free = |host: &&String| self.taken.insert((socket.clone(), (*host).clone()));
        let (all, named): (Vec<_>, Vec<_>) =
            hosts.iter().filter(&mut is_free).partition(|host| host.is_empty());
        let mode = if passes { "passthrough" } else { "terminate" };
        let routes = self.sockets.entry(socket.clone()).or_default();
        if !named.is_empty() {
            routes.push(json!({ "names": named, "mode": mode, "upstream": upstream }));
        }
        if !all.is_empty() {
            routes.push(json!({ "mode": mode, "upstream": upstream }));
        }
    }
}

/// The gateways that a route is attached to.
fn of_ours(parents: &[(&ParentRef, Attached)], gateways: &[Ours<'_>]) -> BTreeSet<Key> {
    let ours = parents.iter().filter(|(_, it)| it.refusal.is_none());
    ours.map(|(_, it)| gateways[it.gateway].key.clone()).collect()
}

/// What the upstream of a route is made with.
struct Making<'m, 'c, 'b> {
    kind: Kind,
    key: &'m Key,
    route: &'m TlsRoute,
    backends: &'b mut Backends<'c>,
    /// What of it leads to nothing.
    unresolved: Option<Unusable>,
}

impl Making<'_, '_, '_> {
    /// The upstreams with their weights. Connections for those that are not there end.
    fn upstream(&mut self, passes: bool, gateways: &BTreeSet<Key>) -> Value {
        let protocol = if passes { Protocol::Encrypted } else { Protocol::Raw };
        let mut shares: BTreeMap<String, u64> = BTreeMap::new();
        let backends = self.route.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
        for BackendRef { to, weight, .. } in backends {
            let who = (self.kind.name(), self.key.namespace.as_str());
            let name = match self.backends.resolve(who, to, (protocol, gateways), None) {
                Ok(Backend::Upstream(name)) => name,
                Ok(Backend::NoPods | Backend::Insecure) => NOBODY.to_owned(),
                Err(why) => {
                    self.unresolved = Some(why);
                    NOBODY.to_owned()
                }
            };
            *shares.entry(name).or_default() += u64::from(weight.unwrap_or(1));
        }
        shares.retain(|_, share| *share > 0);
        match shares.is_empty() {
            true => json!(NOBODY),
            false => json!(rules::scaled(shares)),
        }
    }
}
