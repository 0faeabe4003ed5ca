//! What is said of objects: conditions, addresses, how many routes are attached.

use crate::attach::Attached;
use crate::backend_tls::Policies;
use crate::cluster::{Cluster, GATEWAY_GROUP, Kind};
use crate::condition::{Condition, written};
use crate::credentials::Unusable;
use crate::gateways::{BadAddress, Judged, Ours, Set};
use crate::ingress::{self, Ingresses};
use crate::objects::{GatewayClass, Key, ParentRef};
use crate::policies;
use crate::settings::Settings;
use crate::standing::{Became, Standing};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A status that is other than it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusChange {
    /// The object's kind.
    pub kind: Kind,
    /// The object.
    pub key: Key,
    /// What it was when this was found: a later one is judged anew.
    pub resource_version: String,
    /// What its status should be, as a merge patch.
    pub status: Value,
}

/// What became of a route.
pub(crate) struct Judgement<'c> {
    pub(crate) kind: Kind,
    pub(crate) key: &'c Key,
    /// Its parents among our gateways.
    pub(crate) parents: Vec<(&'c ParentRef, Attached)>,
    pub(crate) document: String,
    /// Why nothing of it is served.
    pub(crate) refusal: Option<Unusable>,
    pub(crate) unresolved: Option<Unusable>,
}

/// Features of Gateway API that are served, in the order of their names.
const FEATURES: &[&str] = &[
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendTimeout",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
];

/// What is known, and where it is known from.
type With<'w> = (&'w Cluster, &'w Settings, &'w Standing, &'w str);

/// All statuses that are other than they should be.
pub(crate) fn changes(
    with: With<'_>,
    (classes, gateways, routes, (policies, titan)): (
        &BTreeSet<&str>,
        &[Ours<'_>],
        &[Judgement<'_>],
        (&Policies<'_>, &policies::Policies<'_>),
    ),
    ingresses: &Ingresses,
) -> Vec<StatusChange> {
    let (cluster, ..) = with;
    let mut wanted = Vec::new();
    for (key, class) in
        cluster.classes.iter().filter(|(key, _)| classes.contains(key.name.as_str()))
    {
        wanted.push((Kind::GatewayClass, key, of_class(class, with.3)));
    }
    for ours in gateways.iter().filter(|it| !it.is_of_ingresses()) {
        wanted.push((Kind::Gateway, ours.key, of_gateway(ours, with)));
        for set in &ours.sets {
            wanted.push((Kind::ListenerSet, set.key, of_set(ours, set, with)));
        }
    }
    for route in routes.iter().filter(|it| it.kind != Kind::Ingress) {
        wanted.push((route.kind, route.key, of_route(route, with)));
    }
    for policy in policies.all() {
        let before = cluster.with_status(Kind::BackendTlsPolicy, policy.key);
        let before = before.map_or(&Value::Null, |(_, status)| &status["ancestors"]);
        // The gateway of Ingresses is no object that a status could name.
        let named = policy.gateways.iter().filter(|gateway| !gateway.namespace.is_empty());
        let ours = named.map(|gateway| {
            let who = json!({ "group": GATEWAY_GROUP, "kind": "Gateway", "namespace": gateway.namespace, "name": gateway.name });
            (who, policy.conditions())
        });
        let entries = entries(("ancestorRef", before), ours.collect(), policy.generation(), with);
        // Those of controllers that are gone do not keep it from being judged.
        if !(entries.is_empty() && before.is_null()) {
            wanted.push((Kind::BackendTlsPolicy, policy.key, json!({ "ancestors": entries })));
        }
    }
    for policy in titan.all() {
        let before = cluster.with_status(Kind::TitanPolicy, policy.key);
        let before = before.map_or(&Value::Null, |(_, status)| &status["ancestors"]);
        let ours = policy.statuses();
        let entries = entries(("ancestorRef", before), ours, policy.generation(), with);
        if !(entries.is_empty() && before.is_null()) {
            wanted.push((Kind::TitanPolicy, policy.key, json!({ "ancestors": entries })));
        }
    }
    let of_all = gateways.iter().find(|it| it.is_of_ingresses());
    let of_all = of_all.map(of_ingress);
    for key in &ingresses.ours {
        wanted.extend(of_all.clone().map(|status| (Kind::Ingress, key, status)));
    }
    let change = |(kind, key, status): (Kind, &Key, Value)| {
        let (meta, before) = cluster.with_status(kind, key)?;
        let is_same = status.as_object()?.iter().all(|(name, value)| is_part(value, &before[name]));
        let resource_version = meta.resource_version.clone();
        (!is_same).then(|| StatusChange { kind, key: key.clone(), resource_version, status })
    };
    wanted.into_iter().filter_map(change).collect()
}

/// Whether a merge patch with a member would change nothing.
fn is_part(patch: &Value, before: &Value) -> bool {
    match patch {
        Value::Object(members) if members.values().any(Value::is_null) => {
            members.iter().all(|(name, value)| is_part(value, &before[name]))
        }
        patch => patch == before,
    }
}

/// Where clients reach Ingresses.
fn of_ingress(ours: &Ours<'_>) -> Value {
    let addresses = ours.address.iter().flatten().map(|address| {
        let is_ip = address.parse::<std::net::IpAddr>().is_ok();
        json!({ if is_ip { "ip" } else { "hostname" }: address })
    });
    let addresses: Vec<_> = addresses.collect();
    if addresses.is_empty() {
        // A merge patch takes away what is null.
        json!({ "loadBalancer": { "ingress": null } })
    } else {
        json!({ "loadBalancer": { "ingress": addresses } })
    }
}

/// What of Ingresses is not served, for people.
pub(crate) fn warnings(routes: &[Judgement<'_>], standing: &Standing) -> Vec<String> {
    let mut warnings = Vec::new();
    for route in routes.iter().filter(|it| it.kind == Kind::Ingress) {
        let key = ingress::of_route(route.key);
        let mut warn = |why: &str| warnings.push(format!("Ingress {key}: {why}"));
        let of_parents = route.parents.iter().filter_map(|(_, it)| it.refusal.as_ref());
        let all = of_parents.chain(&route.refusal).chain(&route.unresolved);
        all.for_each(|why| warn(&why.message));
        if let Became::Refused(why) = standing.of(&route.document) {
            warn(why);
        }
    }
    warnings
}

/// Whether a status of a route has entries of a controller. Those of others stay as they are.
pub(crate) fn has_ours(status: &Value) -> bool {
    status["parents"].as_array().is_some_and(|parents| !parents.is_empty())
}

fn of_class(class: &GatewayClass, now: &str) -> Value {
    let accepted = match &class.spec.parameters_ref {
        None => Condition::yes("Accepted", "Accepted"),
        Some(_) => {
            Condition::no("Accepted", "InvalidParameters", "`parametersRef` is not supported")
        }
    };
    let before = &class.status["conditions"];
    let features: Vec<_> = FEATURES.iter().map(|name| json!({ "name": name })).collect();
    json!({
        "conditions": written(&[accepted], before, class.metadata.generation, now),
        "supportedFeatures": features,
    })
}

fn of_gateway(ours: &Ours<'_>, (_, _, standing, now): With<'_>) -> Value {
    let (status, generation) = (&ours.gateway.status, ours.gateway.metadata.generation);
    let mut is_serving = false;
    let mut is_valid = true;
    let own = || ours.listeners.iter().filter(|it| it.set.is_none());
    let listeners: Vec<_> = own()
        .map(|judged| {
            let conditions = of_listener(judged, standing);
            is_serving |= is_programmed(&conditions);
            is_valid &= judged.refusal.is_none()
                && judged.conflict.is_none()
                && judged.unresolved.is_none();
            listener_entry(judged, &conditions, status, (generation, now))
        })
        .collect();
    let accepted = match &ours.address {
        Err(BadAddress::Unsupported(why)) => Condition::no("Accepted", "UnsupportedAddress", why),
        _ if own().all(|it| it.refusal.is_some() || it.conflict.is_some()) => {
            Condition::no("Accepted", "ListenersNotValid", "none of its listeners can be served")
        }
        _ if !is_valid => {
            let message = "the statuses of its listeners say what is wrong with them".to_owned();
            Condition { message, ..Condition::yes("Accepted", "ListenersNotValid") }
        }
        _ => Condition::yes("Accepted", "Accepted"),
    };
    let programmed = match &ours.address {
        Err(BadAddress::Unsupported(why)) => Condition::no("Programmed", "Invalid", why),
        Err(BadAddress::NotUsable(why)) => Condition::no("Programmed", "AddressNotUsable", why),
        Err(BadAddress::NoneLeft) => Condition::no(
            "Programmed",
            "AddressNotAssigned",
            "no address is left; --address gives more",
        ),
        Ok(_) if is_serving => Condition::yes("Programmed", "Programmed"),
        Ok(_) if is_valid => {
            Condition::unknown("Programmed", "Pending", "it is about to be served")
        }
        Ok(_) => Condition::no("Programmed", "Invalid", "none of its listeners is served"),
    };
    let resolved = ours.presented.as_ref().map(|found| match found {
        Ok(_) => Condition::yes("ResolvedRefs", "ResolvedRefs"),
        Err(Unusable { reason, message }) => Condition::no("ResolvedRefs", reason, message),
    });
    let frontend = ours.gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref());
    let insecure = frontend.filter(|it| it.is_insecure()).map(|_| {
        let message =
            "clients with invalid certificates are let in, as those without any".to_owned();
        let changed = Condition::yes("InsecureFrontendValidationMode", "ConfigurationChanged");
        Condition { message, ..changed }
    });
    let conditions = [accepted, programmed].into_iter().chain(resolved).chain(insecure);
    let conditions: Vec<_> = conditions.collect();
    let addresses = ours.address.iter().flatten().map(|address| {
        let is_ip = address.parse::<std::net::IpAddr>().is_ok();
        json!({ "type": if is_ip { "IPAddress" } else { "Hostname" }, "value": address })
    });
    let mut wanted = json!({
        "addresses": addresses.collect::<Vec<_>>(),
        "conditions": written(&conditions, &status["conditions"], generation, now),
        "listeners": listeners,
    });
    let attached = ours.sets.iter().filter(|set| refusal_of(ours, set).is_none()).count();
    // Older definitions of Gateway API do not know the field.
    if attached > 0 || !status["attachedListenerSets"].is_null() {
        wanted["attachedListenerSets"] = attached.into();
    }
    wanted
}

/// The listeners of a set, if they are let in.
fn listeners_of<'o, 'c>(ours: &'o Ours<'c>, set: &Set<'c>) -> impl Iterator<Item = &'o Judged<'c>> {
    ours.listeners.iter().filter(move |it| it.set == Some(set.key))
}

/// Why a set adds nothing to its gateway.
fn refusal_of(ours: &Ours<'_>, set: &Set<'_>) -> Option<(&'static str, &'static str)> {
    if !set.is_allowed {
        return Some(("NotAllowed", "`allowedListeners` of the gateway does not let it in"));
    }
    if ours.address.is_err() {
        return Some(("ParentNotAccepted", "the gateway has no address: see its status"));
    }
    let is_empty = listeners_of(ours, set).all(|it| it.socket.is_none());
    is_empty.then_some(("ListenersNotValid", "none of its listeners can be served"))
}

fn of_set(ours: &Ours<'_>, set: &Set<'_>, (_, _, standing, now): With<'_>) -> Value {
    let (status, generation) = (&set.set.status, set.set.metadata.generation);
    let (mut is_serving, mut is_valid) = (false, true);
    let listeners: Vec<_> = listeners_of(ours, set)
        .map(|judged| {
            let conditions = of_listener(judged, standing);
            is_serving |= is_programmed(&conditions);
            is_valid &= judged.socket.is_some() && judged.unresolved.is_none();
            listener_entry(judged, &conditions, status, (generation, now))
        })
        .collect();
    let conditions = match refusal_of(ours, set) {
        Some((reason, why)) => {
            let of_parent = reason == "ParentNotAccepted";
            let programmed = if of_parent { "ParentNotProgrammed" } else { reason };
            [Condition::no("Accepted", reason, why), Condition::no("Programmed", programmed, why)]
        }
        None => {
            let reason = if is_valid { "Accepted" } else { "ListenersNotValid" };
            let programmed = match is_serving {
                true => Condition::yes("Programmed", "Programmed"),
                false => Condition::unknown("Programmed", "Pending", "it is about to be served"),
            };
            [Condition::yes("Accepted", reason), programmed]
        }
    };
    json!({
        "conditions": written(&conditions, &status["conditions"], generation, now),
        "listeners": listeners,
    })
}

fn is_programmed(conditions: &[Condition]) -> bool {
    conditions.iter().any(|it| it.of_type == "Programmed" && it.holds == Some(true))
}

/// What the status of a gateway or a ListenerSet says of one listener.
fn listener_entry(
    judged: &Judged<'_>,
    conditions: &[Condition],
    status: &Value,
    (generation, now): (i64, &str),
) -> Value {
    let before = status["listeners"].as_array().into_iter().flatten();
    let before = before.clone().find(|it| it["name"] == judged.listener.name);
    let before = before.map_or(&Value::Null, |it| &it["conditions"]);
    let kinds = judged.kinds.iter().map(|kind| json!({ "group": GATEWAY_GROUP, "kind": kind }));
    json!({
        "name": judged.listener.name,
        "attachedRoutes": judged.attached,
        "supportedKinds": kinds.collect::<Vec<_>>(),
        "conditions": written(conditions, before, generation, now),
    })
}

fn of_listener(judged: &Judged<'_>, standing: &Standing) -> Vec<Condition> {
    let Judged { refusal, conflict, unresolved, .. } = judged;
    let accepted = match (conflict, refusal) {
        (Some(Unusable { reason, message }), _) | (None, Some(Unusable { reason, message })) => {
            Condition::no("Accepted", reason, message)
        }
        (None, None) => Condition::yes("Accepted", "Accepted"),
    };
    let resolved = match unresolved {
        Some(Unusable { reason, message }) => Condition::no("ResolvedRefs", reason, message),
        None => Condition::yes("ResolvedRefs", "ResolvedRefs"),
    };
    let conflicted = match conflict {
        Some(Unusable { reason, message }) => {
            Condition { holds: Some(true), ..Condition::no("Conflicted", reason, message) }
        }
        None => Condition { holds: Some(false), ..Condition::yes("Conflicted", "NoConflicts") },
    };
    let programmed = match &judged.socket {
        None if let Some(Unusable { reason, message }) = conflict => {
            Condition::no("Programmed", reason, message)
        }
        None => {
            Condition::no("Programmed", "Invalid", "it is not served: see the other conditions")
        }
        Some(socket) => match standing.of(&socket.document()) {
            Became::InForce => Condition::yes("Programmed", "Programmed"),
            Became::Refused(why) => Condition::no("Programmed", "Invalid", why),
            Became::Pending => {
                Condition::unknown("Programmed", "Pending", "it is about to be served")
            }
        },
    };
    vec![accepted, programmed, resolved, conflicted]
}

fn of_route(route: &Judgement<'_>, with: With<'_>) -> Value {
    let (cluster, _, standing, _) = with;
    let (meta, status) = match cluster.with_status(route.kind, route.key) {
        Some((meta, status)) => (meta, status),
        None => return Value::Null,
    };
    let resolved = match &route.unresolved {
        Some(Unusable { reason, message }) => Condition::no("ResolvedRefs", reason, message),
        None => Condition::yes("ResolvedRefs", "ResolvedRefs"),
    };
    let ours = route.parents.iter().map(|(parent, attached)| {
        let accepted = match (&attached.refusal, &route.refusal, standing.of(&route.document)) {
            (Some(Unusable { reason, message }), _, _)
            | (None, Some(Unusable { reason, message }), _) => {
                Condition::no("Accepted", reason, message)
            }
            (None, None, Became::Refused(why)) => {
                Condition::no("Accepted", "UnsupportedValue", why)
            }
            (None, None, _) => Condition::yes("Accepted", "Accepted"),
        };
        (named(parent), vec![accepted, resolved.clone()])
    });
    let entries = entries(("parentRef", &status["parents"]), ours.collect(), meta.generation, with);
    json!({ "parents": entries })
}

/// A parent as the route names it.
fn named(parent: &ParentRef) -> Value {
    let ParentRef { group, kind, namespace, name, section_name, port } = parent;
    let mut named = json!({
        "group": group.as_deref().unwrap_or(GATEWAY_GROUP),
        "kind": kind.as_deref().unwrap_or("Gateway"),
        "name": name,
    });
    if let Some(namespace) = namespace {
        named["namespace"] = namespace.as_str().into();
    }
    if let Some(section) = section_name {
        named["sectionName"] = section.as_str().into();
    }
    if let Some(port) = port {
        named["port"] = (*port).into();
    }
    named
}

/// The entries of a list that several controllers have a part in: those of others as they are, and ours.
fn entries(
    (key, before): (&str, &Value),
    ours: Vec<(Value, Vec<Condition>)>,
    generation: i64,
    (_, settings, _, now): With<'_>,
) -> Vec<Value> {
    let before = before.as_array().into_iter().flatten();
    let is_ours = |it: &&Value| it["controllerName"] == settings.controller.as_str();
    let mut entries: Vec<_> = before.clone().filter(|it| !is_ours(it)).cloned().collect();
    for (who, conditions) in ours {
        let same = before.clone().filter(is_ours).find(|it| it[key] == who);
        let conditions_before = same.map_or(&Value::Null, |it| &it["conditions"]);
        let conditions = written(&conditions, conditions_before, generation, now);
        let mut entry = json!({ "controllerName": settings.controller, "conditions": conditions });
        entry[key] = who;
        entries.push(entry);
    }
    entries
}
