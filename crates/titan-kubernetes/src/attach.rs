//! Which routes attach to which listeners.

use crate::cluster::{Cluster, GATEWAY_GROUP};
use crate::credentials::Unusable;
use crate::gateways::{Judged, Ours, lets_in};
use crate::hostname;
use crate::objects::{Key, Meta, ParentRef};

/// What became of one of the parents that a route names.
pub(crate) struct Attached {
    /// Its index among the gateways.
    pub(crate) gateway: usize,
    /// Listeners of it, by index, each with the hosts that the route has there. The empty host is for all.
    pub(crate) listeners: Vec<(usize, Vec<String>)>,
    /// Why there is none.
    pub(crate) refusal: Option<Unusable>,
}

/// A route, as far as attaching goes.
pub(crate) struct Attaching<'r> {
    pub(crate) kind: &'static str,
    pub(crate) meta: &'r Meta,
    pub(crate) hostnames: &'r [String],
    /// Whether it is of an Ingress: what those have is theirs alone.
    pub(crate) is_of_ingress: bool,
}

/// Attaches a route to a parent; `None` for one that is not ours.
pub(crate) fn attached(
    cluster: &Cluster,
    gateways: &[Ours<'_>],
    route: &Attaching<'_>,
    parent: &ParentRef,
) -> Option<Attached> {
    let (gateway, set) = named(gateways, route, parent)?;
    let ours = &gateways[gateway];
    let refuse = |reason, message: &str| {
        let refusal = Some(Unusable { reason, message: message.to_owned() });
        Some(Attached { gateway, listeners: Vec::new(), refusal })
    };

    let all = ours.listeners.iter().enumerate().filter(|(_, it)| it.set == set.as_ref());
    let mut listeners: Vec<_> = all.filter(|(_, it)| is_meant(it, parent)).collect();
    if listeners.is_empty() {
        return refuse("NoMatchingParent", "it has no listener of that name and port");
    }
    let is_open = |it: &Judged<'_>| {
        let allowed = &it.listener.allowed_routes.namespaces;
        let own = it.set.map_or(&ours.key.namespace, |set| &set.namespace);
        it.conflict.is_none()
            && it.kinds.contains(&route.kind)
            && lets_in(cluster, (allowed, "Same"), (own, &route.meta.namespace))
    };
    // No status says so of the listeners of Ingresses.
    let taken = listeners.iter().find_map(|(_, it)| it.conflict.as_ref());
    let taken = taken.filter(|_| route.is_of_ingress).map(|it| it.message.clone());
    listeners.retain(|(_, it)| is_open(it));
    if let Some(why) = taken.filter(|_| listeners.is_empty()) {
        return refuse("NotAllowedByListeners", &why);
    }
    if listeners.is_empty() {
        return refuse(
            "NotAllowedByListeners",
            "no listener lets routes of this kind and namespace in",
        );
    }
    let with_hosts =
        listeners.into_iter().map(|(at, it)| (at, hosts(it.hostname(), route.hostnames)));
    let listeners: Vec<_> = with_hosts.filter(|(_, hosts)| !hosts.is_empty()).collect();
    if listeners.is_empty() {
        return refuse(
            "NoMatchingListenerHostname",
            "the listeners are for other hosts than the route",
        );
    }
    Some(Attached { gateway, listeners, refusal: None })
}

fn is_meant(judged: &Judged<'_>, parent: &ParentRef) -> bool {
    let listener = judged.listener;
    let is_name = parent.section_name.as_ref().is_none_or(|name| *name == listener.name);
    is_name && parent.port.is_none_or(|port| port == listener.port)
}

/// The gateway of a parent, by its index, and the ListenerSet where it is one; `None` for what is not ours.
fn named(
    gateways: &[Ours<'_>],
    route: &Attaching<'_>,
    parent: &ParentRef,
) -> Option<(usize, Option<Key>)> {
    if parent.group.as_deref().is_some_and(|group| group != GATEWAY_GROUP) {
        return None;
    }
    let namespace = parent.namespace.as_deref().unwrap_or(&route.meta.namespace);
    let key = Key::new(namespace, &parent.name);
    let set = match parent.kind.as_deref().unwrap_or("Gateway") {
        "Gateway" => None,
        "ListenerSet" => Some(&key),
        _ => return None,
    };
    let is_named = |it: &Ours<'_>| match set {
        None => *it.key == key,
        Some(set) => it.sets.iter().any(|its| its.key == set),
    };
    let gateway = gateways
        .iter()
        .position(|it| it.is_of_ingresses() == route.is_of_ingress && is_named(it))?;
    Some((gateway, set.cloned()))
}

/// The hosts that a listener and a route are both for.
fn hosts(listener: &str, route: &[String]) -> Vec<String> {
    if route.is_empty() {
        return vec![listener.to_ascii_lowercase()];
    }
    let both = route.iter().filter_map(|route| hostname::intersection(listener, route));
    let mut hosts: Vec<_> = both.map(str::to_ascii_lowercase).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}
