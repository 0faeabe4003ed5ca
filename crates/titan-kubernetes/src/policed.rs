//! Which of Titan's policies the requests of a route meet.

use crate::attach::Attached;
use crate::cluster::Kind;
use crate::gateways::{self, Ours, Socket};
use crate::names::{hash, joined};
use crate::objects::{Key, ParentRef};
use crate::policies::{self, Applied, Beside, Chosen, Named, Policies, Target};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A socket that a route has, with the hosts there for which the same policies hold.
pub(crate) struct Place {
    pub(crate) socket: Socket,
    pub(crate) hosts: BTreeSet<String>,
    /// Whether clients are asked for certificates there.
    asks_clients: bool,
    /// What policies may be attached to, the most specific one last.
    targets: Vec<Target>,
    chosen: Chosen,
}

/// The places of a route. Of several listeners on one socket a host belongs to the one that is most specific.
pub(crate) fn places(
    policies: &mut Policies<'_>,
    (kind, key): (Kind, &Key),
    parents: &[(&ParentRef, Attached)],
    gateways: &[Ours<'_>],
) -> Vec<Place> {
    let mut places: BTreeMap<(Socket, Chosen), Place> = BTreeMap::new();
    for (_, attached) in parents {
        let ours = &gateways[attached.gateway];
        for (at, hosts) in &attached.listeners {
            let listener = &ours.listeners[*at];
            let Some(socket) = &listener.socket else { continue };
            let own = listener.hostname();
            let is_here =
                |host: &&String| !gateways::is_elsewhere(gateways, socket, (own, host.as_str()));
            let hosts: BTreeSet<_> = hosts.iter().filter(is_here).cloned().collect();
            if hosts.is_empty() {
                continue;
            }
            let mut targets = vec![Target::new(Kind::Gateway, ours.key, None)];
            if listener.set.is_none() {
                targets.push(Target::new(Kind::Gateway, ours.key, Some(&listener.listener.name)));
            }
            targets.push(Target::new(kind, key, None));
            let chosen = policies.chosen(&targets, std::iter::once(ours.key));
            let place = Place {
                socket: socket.clone(),
                hosts: BTreeSet::new(),
                asks_clients: listener.clients.is_some(),
                targets,
                chosen: chosen.clone(),
            };
            places.entry((socket.clone(), chosen)).or_insert(place).hosts.extend(hosts);
        }
    }
    places.into_values().collect()
}

/// What a route does at a place: its fields, and the policies that it applies besides those of others, by name.
pub(crate) struct Policed {
    pub(crate) fields: Map<String, Value>,
    pub(crate) policies: Map<String, Value>,
}

/// A route before policies say something of it.
#[derive(Clone, Copy)]
pub(crate) struct Unpoliced<'r> {
    /// The document that it is written in.
    pub(crate) document: &'r str,
    /// What of requests it matches.
    pub(crate) matching: &'r Map<String, Value>,
    /// What it does with them.
    pub(crate) fields: &'r Map<String, Value>,
    /// The policies of its filters, which are more specific than all others.
    pub(crate) own: &'r Map<String, Value>,
}

/// Adds what policies say to a route of a rule. Where they do not fit it, those that protect have to.
pub(crate) fn policed(
    policies: &mut Policies<'_>,
    place: &Place,
    rule: Option<&str>,
    route: Unpoliced<'_>,
) -> Policed {
    let mut targets = place.targets.clone();
    let mut chosen = place.chosen.clone();
    if let (Some(rule), Some(of_route)) = (rule, place.targets.last()) {
        let target = Target::new(of_route.kind, &of_route.key, Some(rule));
        let gateway = place.targets[0].key.clone();
        let of_rule = std::slice::from_ref(&target);
        chosen.extend(policies.chosen(of_rule, std::iter::once(&gateway)));
        targets.push(target);
    }
    policies.note_use(route.document, &chosen);
    let mut protecting = chosen.clone();
    protecting.retain(|word, _| policies::protects(word));
    let mut attempt = |chosen| applied(policies, (place, &targets), chosen, route);
    attempt(&chosen).or_else(|| attempt(&protecting)).unwrap_or_else(closed)
}

/// A route with what these say; nothing where it cannot be served so.
fn applied(
    policies: &mut Policies<'_>,
    (place, targets): (&Place, &[Target]),
    chosen: &Chosen,
    route: Unpoliced<'_>,
) -> Option<Policed> {
    let Unpoliced { matching, own, .. } = route;
    let (mut fields, mut policies_here) = (route.fields.clone(), own.clone());
    if chosen.is_empty() {
        return Some(Policed { fields, policies: policies_here });
    }
    let Applied::Open(named, said) = policies.applied(chosen) else { return Some(closed()) };
    let mut shared = Map::new();
    for Named { word, name: of_policy, value } in named {
        let same = policies_here.iter().find(|(_, own)| own.get(&word).is_some());
        match same.map(|(name, own)| (name.clone(), own.clone())) {
            None => drop(shared.insert(of_policy, value)),
            Some((own_name, own)) if word == "transform" => {
                policies_here.remove(&own_name);
                let merged = both(value, &own);
                // Those of all matches of a rule are the same: it is written once.
                let content = hash(merged.to_string().as_bytes());
                policies_here.insert(joined(&[&own_name, &content]), merged);
            }
            // That of a filter is nearer.
            Some(_) => {}
        }
    }
    if fields.contains_key("upstream") {
        for (word, value) in said {
            let own = fields.get(&word).cloned().unwrap_or(Value::Null);
            fields.insert(word, over(value, &own));
        }
    }
    let names = policies_here.keys().chain(shared.keys()).cloned();
    fields.insert("apply".to_owned(), names.collect());
    let mut whole = fields.clone();
    whole.extend(matching.clone());
    let mut all = policies_here.clone();
    all.extend(shared);
    let tls = place.socket.has_tls.then_some(place.asks_clients);
    let beside = Beside { route: whole.into(), policies: all, tls };
    let fits = policies.fits(chosen, targets, &beside);
    fits.then_some(Policed { fields, policies: policies_here })
}

/// Requests are refused, where they would be served without what protects them.
fn closed() -> Policed {
    let fields = Map::from_iter([("respond".to_owned(), json!({ "status": 503 }))]);
    Policed { fields, policies: Map::new() }
}

/// What two policies of one type do together: what the second one says comes first, and lists have the items of both.
fn both(first: Value, second: &Value) -> Value {
    match (first, second) {
        (Value::Object(mut members), Value::Object(more)) => {
            for (name, value) in more {
                let before = members.remove(name).unwrap_or(Value::Null);
                members.insert(name.clone(), both(before, value));
            }
            Value::Object(members)
        }
        (Value::Array(mut items), Value::Array(more)) => {
            items.extend(more.iter().filter(|it| !items.contains(it)).cloned().collect::<Vec<_>>());
            Value::Array(items)
        }
        (_, second) => second.clone(),
    }
}

/// The members of a mapping, with those of another one in place of its own.
fn over(first: Value, second: &Value) -> Value {
    match (first, second) {
        (first, Value::Null) => first,
        (Value::Object(mut members), Value::Object(more)) => {
            members.extend(more.clone());
            Value::Object(members)
        }
        (_, second) => second.clone(),
    }
}
