//! Which routes attach to which listeners.

use crate::cluster::{Cluster, GATEWAY_GROUP};
use crate::credentials::Unusable;
use crate::gateways::{Judged, Ours};
use crate::hostname;
use crate::objects::{Meta, ParentRef};

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
}

/// Attaches a route to a parent; `None` for one that is not ours.
pub(crate) fn attached(
    cluster: &Cluster,
    gateways: &[Ours<'_>],
    route: &Attaching<'_>,
    parent: &ParentRef,
) -> Option<Attached> {
    let is_gateway = parent.group.as_deref().is_none_or(|group| group == GATEWAY_GROUP)
        && parent.kind.as_deref().is_none_or(|kind| kind == "Gateway");
    let namespace = parent.namespace.as_deref().unwrap_or(&route.meta.namespace);
    let is_named = |it: &Ours<'_>| it.key.namespace == namespace && it.key.name == parent.name;
    let gateway = gateways.iter().position(is_named).filter(|_| is_gateway)?;
    let ours = &gateways[gateway];
    let refuse = |reason, message: &str| {
        let refusal = Some(Unusable { reason, message: message.to_owned() });
        Some(Attached { gateway, listeners: Vec::new(), refusal })
    };

    let all = ours.listeners.iter().enumerate();
    let mut listeners: Vec<_> = all.filter(|(_, it)| is_meant(it, parent)).collect();
    if listeners.is_empty() {
        return refuse("NoMatchingParent", "the gateway has no listener of that name and port");
    }
    let lets_in = |it: &Judged<'_>| {
        it.conflict.is_none()
            && it.kinds.contains(&route.kind)
            && lets_in_from(cluster, it, ours, &route.meta.namespace)
    };
    listeners.retain(|(_, it)| lets_in(it));
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

fn lets_in_from(cluster: &Cluster, judged: &Judged<'_>, ours: &Ours<'_>, namespace: &str) -> bool {
    let allowed = &judged.listener.allowed_routes.namespaces;
    match allowed.from.as_deref().unwrap_or("Same") {
        "All" => true,
        "Same" => ours.key.namespace == namespace,
        "Selector" => {
            let mut namespaces = cluster.namespaces.values().map(|it| &it.metadata);
            let labels = namespaces.find(|it| it.name == namespace).map(|it| &it.labels);
            labels.zip(allowed.selector.as_ref()).is_some_and(|(labels, it)| it.selects(labels))
        }
        _ => false,
    }
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
