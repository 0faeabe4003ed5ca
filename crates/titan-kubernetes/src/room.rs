//! A gateway has bounds. What there is no room for is left out alone, and what would be served without its protection is closed.
//!
//! ```text
//! listeners          all of them
//! services           half of the rest; without one, what sends requests there is closed
//! policies           a quarter of the rest; without one, what applies it is closed
//! routes             the rest; a route that applies policies is closed where there is no room for them
//! ```
//!
//! Of each kind those that are served come first, then the oldest ones: whoever adds one too many takes no other down.

use crate::names::hash;
use crate::standing::{Form, Standing};
use crate::tls_routes::NOBODY;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use titan_config::bounds::{MAX_POLICIES, MAX_ROUTES, MAX_UPSTREAMS};
use titan_sources::delivery::{MAX_DOCUMENTS, MAX_TEXTS};
use titan_sources::literal::document;

/// What can be delivered.
#[derive(Default)]
pub(crate) struct Fitted {
    /// The texts of documents, by name.
    pub(crate) documents: BTreeMap<String, String>,
    /// Why others are not served, or not as the cluster says.
    pub(crate) told: BTreeMap<String, String>,
    /// How documents with protected routes are delivered.
    pub(crate) forms: BTreeMap<String, Form>,
}

/// How much of everything.
#[derive(Clone, Copy)]
struct Room {
    documents: usize,
    bytes: usize,
    routes: usize,
    upstreams: usize,
    policies: usize,
}

/// That of a gateway, but for what its own file has.
const ROOM: Room = Room {
    documents: MAX_DOCUMENTS,
    bytes: MAX_TEXTS,
    routes: MAX_ROUTES - MAX_ROUTES / OWN,
    upstreams: MAX_UPSTREAMS - MAX_UPSTREAMS / OWN,
    policies: MAX_POLICIES - MAX_POLICIES / OWN,
};
/// One of so many is for the gateway's own file.
const OWN: usize = 16;

/// Kinds of documents, in the order in which they get room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Listener,
    Service,
    Policy,
    Route,
}

/// The documents that there is room for, and why others are left out or closed. `age` is when the object of a document was made.
pub(crate) fn fitting(
    documents: &BTreeMap<String, Value>,
    age: impl Fn(&str) -> String,
    standing: &Standing,
) -> Fitted {
    fitting_in(ROOM, documents, age, standing)
}

fn fitting_in(
    room: Room,
    documents: &BTreeMap<String, Value>,
    age: impl Fn(&str) -> String,
    standing: &Standing,
) -> Fitted {
    let mut all: Vec<_> = documents.iter().collect();
    all.sort_by_cached_key(|(name, _)| (rank(name), !standing.is_served(name), age(name)));
    let of = |wanted: Rank| all.iter().filter(move |(name, _)| rank(name) == wanted).copied();
    let mut fitting = Fitting { room, fitted: Fitted::default(), lost: Lost::default() };
    // Without a listener nothing is served: if they alone are too many, the delivery as a whole fails, and says why.
    for (_, listener) in of(Rank::Listener) {
        fitting.room.take_all(Room::of(listener, &document(listener.clone())));
    }
    fitting.add_services(of(Rank::Service));
    fitting.add_policies(of(Rank::Policy));
    let policies = all.iter().filter_map(|(_, it)| it["policies"].as_object()).flatten();
    // Once each: many routes apply the same ones, which may be long.
    let digests: BTreeMap<&str, String> = policies
        .map(|(name, policy)| (name.as_str(), hash(policy.to_string().as_bytes())))
        .collect();
    for route in of(Rank::Route) {
        fitting.add_route(route, &digests, standing);
    }
    for (name, listener) in of(Rank::Listener) {
        let mut listener = listener.clone();
        fitting.lost.replace(&mut listener);
        fitting.fitted.documents.insert(name.clone(), document(listener));
    }
    fitting.fitted
}

fn rank(name: &str) -> Rank {
    match name.split_once('/') {
        Some(("listener", _)) | Some(("service", NOBODY)) => Rank::Listener,
        Some(("service", _)) => Rank::Service,
        Some(("titanpolicy", _)) => Rank::Policy,
        _ => Rank::Route,
    }
}

/// Documents on their way to a delivery.
struct Fitting {
    /// What is left.
    room: Room,
    fitted: Fitted,
    lost: Lost,
}

/// What others name and what is left out, by name, each with what is to be said of that.
#[derive(Default)]
struct Lost {
    upstreams: BTreeMap<String, String>,
    policies: BTreeMap<String, String>,
}

impl Fitting {
    fn add_services<'d>(&mut self, services: impl Iterator<Item = (&'d String, &'d Value)>) {
        let mut share = self.room.part(2);
        for (name, service) in services {
            if let Err(why) = self.add(&mut share, (name, service)) {
                let lost = format!("{name} is not served: {why}");
                let names = service["upstreams"].as_object().into_iter().flatten();
                self.lost.upstreams.extend(names.map(|(it, _)| (it.clone(), lost.clone())));
                self.fitted.told.insert(name.clone(), why);
            }
        }
    }

    fn add_policies<'d>(&mut self, policies: impl Iterator<Item = (&'d String, &'d Value)>) {
        let mut share = self.room.part(4);
        for (name, policy) in policies {
            let added = match self.lost.of(policy) {
                Some(why) => Err(why.to_owned()),
                None => self.add(&mut share, (name, policy)),
            };
            if let Err(why) = added {
                let lost = format!("{name} is not served: {why}");
                let names = policy["policies"].as_object().into_iter().flatten();
                self.lost.policies.extend(names.map(|(it, _)| (it.clone(), lost.clone())));
                self.fitted.told.insert(name.clone(), why);
            }
        }
    }

    /// Adds a document where a share of the room has place for it.
    fn add(&mut self, share: &mut Room, (name, value): (&String, &Value)) -> Result<(), String> {
        let text = document(value.clone());
        let needed = Room::of(value, &text);
        let (left, of_share) = (self.room.less(needed)?, share.less(needed)?);
        (self.room, *share) = (left, of_share);
        self.fitted.documents.insert(name.clone(), text);
        Ok(())
    }

    fn add_route(
        &mut self,
        (name, route): (&String, &Value),
        digests: &BTreeMap<&str, String>,
        standing: &Standing,
    ) {
        let mut rest = self.room;
        let digest = is_protected(route).then(|| digest(route, digests));
        let refused = digest.as_ref().and_then(|digest| standing.refused_form(name, digest));
        let lost = self.lost.of(route).map(str::to_owned);
        let (why, is_hopeless) = match (refused, &lost) {
            (Some((why, was_closed)), _) => (why.to_owned(), was_closed),
            (None, Some(why)) => (why.clone(), false),
            (None, None) => match self.add(&mut rest, (name, route)) {
                Ok(()) => return self.note_form(name, digest, false),
                Err(why) => (why, false),
            },
        };
        let may_be_closed = (digest.is_some() || lost.is_some()) && !is_hopeless;
        if may_be_closed && self.add(&mut rest, (name, &closed(route))).is_ok() {
            self.note_form(name, digest, true);
        }
        self.fitted.told.insert(name.clone(), why);
    }

    fn note_form(&mut self, name: &str, digest: Option<String>, is_closed: bool) {
        let form = digest.map(|digest| (name.to_owned(), Form { digest, is_closed }));
        self.fitted.forms.extend(form);
    }
}

impl Room {
    /// What a document needs.
    fn of(value: &Value, text: &str) -> Room {
        let members = |section: &str| value[section].as_object().map_or(0, Map::len);
        Room {
            documents: 1,
            bytes: text.len(),
            routes: value["routes"].as_array().map_or(0, Vec::len),
            upstreams: members("upstreams"),
            policies: members("policies"),
        }
    }

    /// A part of the documents and bytes.
    fn part(self, of: usize) -> Room {
        Room { documents: self.documents / of, bytes: self.bytes / of, ..self }
    }

    /// What is left, or of what there would be too much.
    fn less(self, needed: Room) -> Result<Room, String> {
        let less = |has: usize, needs: usize, what: &str| {
            has.checked_sub(needs).ok_or_else(|| {
                format!(
                    "the cluster has more than a gateway takes: {what}; delete some, or share them out among several controllers"
                )
            })
        };
        Ok(Room {
            documents: less(self.documents, needed.documents, "documents")?,
            bytes: less(self.bytes, needed.bytes, "bytes of documents")?,
            routes: less(self.routes, needed.routes, "routes")?,
            upstreams: less(self.upstreams, needed.upstreams, "ports of services")?,
            policies: less(self.policies, needed.policies, "policies")?,
        })
    }

    /// Takes what is there.
    fn take_all(&mut self, needed: Room) {
        self.documents = self.documents.saturating_sub(needed.documents);
        self.bytes = self.bytes.saturating_sub(needed.bytes);
        self.routes = self.routes.saturating_sub(needed.routes);
        self.upstreams = self.upstreams.saturating_sub(needed.upstreams);
        self.policies = self.policies.saturating_sub(needed.policies);
    }
}

impl Lost {
    /// What a document needs and what is left out.
    fn of(&self, document: &Value) -> Option<&str> {
        if self.upstreams.is_empty() && self.policies.is_empty() {
            return None;
        }
        let (mut upstreams, routes) = (BTreeSet::new(), document["routes"].as_array());
        find_upstreams(document, &mut upstreams);
        let policies = routes.into_iter().flatten().filter_map(|it| it["apply"].as_array());
        let policies = policies.flatten().filter_map(Value::as_str);
        let upstreams = upstreams.into_iter().filter_map(|it| self.upstreams.get(it));
        let lost = policies.filter_map(|it| self.policies.get(it)).chain(upstreams).next();
        lost.map(String::as_str)
    }

    /// Has connections end that would go to what is left out.
    fn replace(&self, document: &mut Value) {
        let listeners = document.get_mut("listeners").and_then(Value::as_array_mut);
        for listener in listeners.into_iter().flatten().filter_map(Value::as_object_mut) {
            listener.get_mut("tcp").into_iter().for_each(|it| self.replace_in(it));
            let routes = listener.get_mut("tls_routes").and_then(Value::as_array_mut);
            let upstreams = routes.into_iter().flatten().filter_map(|it| it.get_mut("upstream"));
            upstreams.for_each(|it| self.replace_in(it));
        }
    }

    /// The same for one upstream, or several with their shares.
    fn replace_in(&self, upstream: &mut Value) {
        let replaced = |name: String| match self.upstreams.contains_key(&name) {
            true => NOBODY.to_owned(),
            false => name,
        };
        match upstream {
            Value::String(name) => *name = replaced(std::mem::take(name)),
            Value::Object(shares) => {
                for (name, share) in std::mem::take(shares) {
                    let name = replaced(name);
                    let sum = shares.get(&name).and_then(Value::as_u64).unwrap_or_default();
                    shares.insert(name, (sum + share.as_u64().unwrap_or_default()).into());
                }
            }
            _ => {}
        }
    }
}

/// The upstreams that something names.
fn find_upstreams<'v>(value: &'v Value, found: &mut BTreeSet<&'v str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|it| find_upstreams(it, found)),
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(name) if key == "upstream" => drop(found.insert(name)),
                    Value::Object(shares) if key == "upstream" => {
                        found.extend(shares.keys().map(String::as_str));
                    }
                    value => find_upstreams(value, found),
                }
            }
        }
        _ => {}
    }
}

/// Whether some of its routes apply policies, or are closed: what was in force before may be open.
fn is_protected(route: &Value) -> bool {
    let mut routes = route["routes"].as_array().into_iter().flatten();
    routes.any(|it| it["apply"].as_array().is_some_and(|it| !it.is_empty()) || is_closed(it))
}

fn is_closed(route: &Value) -> bool {
    route["respond"]["status"] == 503
}

/// Tells a document, with the policies that its routes apply, from what it says at another time.
fn digest(route: &Value, digests: &BTreeMap<&str, String>) -> String {
    let routes = route["routes"].as_array().into_iter().flatten();
    let applied = routes.filter_map(|it| it["apply"].as_array()).flatten();
    let applied: BTreeSet<_> = applied.filter_map(Value::as_str).collect();
    let applied = applied.into_iter().filter_map(|it| digests.get(it));
    hash(applied.fold(route.to_string(), |all, it| all + it).as_bytes())
}

/// The same routes, which serve nothing.
fn closed(document: &Value) -> Value {
    const KEPT: [&str; 10] = [
        "name",
        "listeners",
        "priority",
        "host",
        "path",
        "prefix",
        "methods",
        "head",
        "headers",
        "query",
    ];
    let routes = document["routes"].as_array().into_iter().flatten().map(|route| {
        let fields = route.as_object().into_iter().flatten();
        let kept = fields.filter(|(key, _)| KEPT.contains(&key.as_str()));
        let mut route: Map<_, _> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        route.insert("respond".to_owned(), json!({ "status": 503 }));
        Value::Object(route)
    });
    json!({ "routes": routes.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents of a cluster: a listener, services, a policy that two routes apply, and a route without.
    fn documents() -> BTreeMap<String, Value> {
        let route = |path: &str, upstream: &str, apply: &[&str]| {
            let shares = json!({ upstream: 1 });
            json!({ "routes": [{ "name": path, "path": path, "upstream": shares, "apply": apply, "timeouts": {} }] })
        };
        let upstream = |name: &str| json!({ "upstreams": { name: { "endpoints": ["feed:f"] } } });
        let tls = json!([{ "mode": "passthrough", "upstream": { "old": 2, "new": 1 } }]);
        let all = [
            (
                "listener/l",
                json!({ "listeners": [{ "name": "l", "tls_routes": tls }, { "name": "t", "tcp": "new" }] }),
            ),
            ("service/nobody", upstream("nobody")),
            ("service/a/old/80", upstream("old")),
            ("service/a/new/80", upstream("new")),
            ("titanpolicy/a/old", json!({ "policies": { "limit": { "rate_limit": {} } } })),
            (
                "titanpolicy/a/new",
                json!({ "policies": { "jwt": { "jwt": {} }, "cors": { "cors": {} } } }),
            ),
            ("httproute/a/limited", route("/limited", "old", &["limit"])),
            ("httproute/a/guarded", route("/guarded", "old", &["jwt", "cors"])),
            ("httproute/a/free", route("/free", "new", &[])),
            ("ingress/a/web", route("/web", "old", &[])),
        ];
        all.into_iter().map(|(name, document)| (name.to_owned(), document)).collect()
    }

    /// What comes of them: `open`, `closed`, or nothing for those that are left out.
    fn fitted(room: Room, served: &[&str]) -> (BTreeMap<String, &'static str>, Fitted) {
        let mut standing = Standing::default();
        standing.note(served.iter().copied(), &BTreeMap::new(), true);
        let age = |name: &str| if name.contains("new") { "2026" } else { "2025" }.to_owned();
        let fitted = fitting_in(room, &documents(), age, &standing);
        let routes = fitted.documents.iter().filter(|(name, _)| rank(name) != Rank::Listener);
        let became = routes.map(|(name, text)| {
            let is_closed = text.contains(r#""respond":{"status":503}"#);
            (name.clone(), if is_closed { "closed" } else { "open" })
        });
        (became.collect(), fitted)
    }

    const LARGE: Room =
        Room { documents: 100, bytes: 1 << 20, routes: 100, upstreams: 100, policies: 100 };

    #[test]
    fn all_is_served_where_there_is_room() {
        let (became, fitted) = fitted(LARGE, &[]);
        assert!(became.values().all(|it| *it == "open"), "{became:?}");
        assert_eq!((fitted.documents.len(), fitted.told.len()), (10, 0));
        let forms: Vec<_> = fitted.forms.keys().map(String::as_str).collect();
        assert_eq!(forms, ["httproute/a/guarded", "httproute/a/limited"]);
    }

    #[test]
    fn a_route_is_closed_without_its_policies_and_without_its_service() {
        let (became, fitted) = fitted(Room { policies: 2, ..LARGE }, &[]);
        assert_eq!(became.get("titanpolicy/a/new"), None);
        assert_eq!(
            (became["httproute/a/guarded"], became["httproute/a/limited"]),
            ("closed", "open")
        );
        let why = &fitted.told["httproute/a/guarded"];
        assert!(why.starts_with("titanpolicy/a/new is not served: "), "{why}");
        assert!(!fitted.documents["httproute/a/guarded"].contains("timeouts"));
        let is_closed = |form: &Form| form.is_closed;
        assert_eq!(fitted.forms.values().map(is_closed).collect::<Vec<_>>(), [true, false]);

        let (became, fitted) = self::fitted(Room { upstreams: 2, ..LARGE }, &[]);
        assert_eq!(became.get("service/a/new/80"), None);
        assert_eq!((became["httproute/a/free"], became["ingress/a/web"]), ("closed", "open"));
        let listener = &fitted.documents["listener/l"];
        assert!(listener.contains(r#""upstream":{"nobody":1,"old":2}"#), "{listener}");
        assert!(listener.contains(r#""tcp":"nobody""#), "{listener}");
    }

    #[test]
    fn what_is_served_comes_before_what_is_old() {
        let (became, _) = fitted(Room { policies: 2, ..LARGE }, &["titanpolicy/a/new"]);
        assert_eq!(
            (became["httproute/a/guarded"], became["httproute/a/limited"]),
            ("open", "closed")
        );
        let (became, _) = fitted(Room { routes: 1, ..LARGE }, &["ingress/a/web"]);
        assert_eq!(became.get("httproute/a/free"), None);
        assert_eq!((became.get("httproute/a/limited"), became["ingress/a/web"]), (None, "open"));
    }

    #[test]
    fn services_and_policies_leave_room_for_routes() {
        // Two are for listeners: of the other eight services get half.
        let (became, fitted) = fitted(Room { documents: 5, ..LARGE }, &[]);
        assert_eq!(became.get("service/a/new/80"), None);
        assert!(became.keys().any(|name| rank(name) == Rank::Route), "{became:?}");
        assert!(fitted.told["service/a/new/80"].contains("documents"));
    }
}
