//! What a route is judged with beside its policies.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What a route is judged with beside its policies.
pub(crate) struct Beside {
    /// The route, with all that it applies.
    pub(crate) route: Value,
    /// The policies that it applies, by name.
    pub(crate) policies: Map<String, Value>,
    /// Whether its listener asks clients for certificates; `None` without TLS.
    pub(crate) tls: Option<bool>,
}

/// Names of files with a certificate, its key and authorities, which nobody reads: routes are judged with them.
pub(super) const FILES: [&str; 3] = ["/listener.crt", "/listener.key", "/listener.ca"];

impl Beside {
    /// A configuration with the route, and with stand-ins for the upstreams that it names and for its path: routes that differ in no
    /// more are judged once.
    pub(super) fn sections(&self) -> Value {
        let Beside { route, policies, tls } = self;
        let mut listener = json!({ "name": "l", "address": "127.0.0.1:1" });
        if let Some(asks_clients) = tls {
            let [cert, key, ca] = FILES;
            listener["tls"] = json!({ "certificates": [{ "cert": cert, "key": key }] });
            if *asks_clients {
                listener["tls"]["client_certificates"] = json!({ "ca": ca });
            }
        }
        let (mut route, mut policies) = (route.clone(), policies.clone());
        let mut standing = StandIns::default();
        if let Some(shares) = route.get_mut("upstream").and_then(Value::as_object_mut) {
            let renamed = std::mem::take(shares).into_iter();
            shares.extend(renamed.map(|(name, share)| (standing.of(&name), share)));
        }
        let mirrors = route.get_mut("mirror").and_then(Value::as_array_mut);
        let mirrors = mirrors.into_iter().flatten().filter_map(|it| it.get_mut("upstream"));
        let services = policies
            .values_mut()
            .filter_map(|it| it.get_mut("authorise")?.get_mut("forward_auth")?.get_mut("upstream"));
        for named in mirrors.chain(services) {
            if let Some(name) = named.as_str() {
                *named = standing.of(name).into();
            }
        }
        hide_path(&mut route);
        let upstreams = standing.0.into_values().map(|name| (name, json!("feed:f")));
        let upstreams: Map<_, _> = upstreams.collect();
        json!({ "listeners": [listener], "routes": [route], "policies": policies, "upstreams": upstreams })
    }
}

/// Puts another path in place of one on which no other part of the route depends.
fn hide_path(route: &mut Value) {
    let is_changed = ["redirect", "rewrite"].iter().any(|it| route.get(*it).is_some());
    for (key, path) in [("prefix", "/"), ("path", "/p")] {
        let Some(matched) = route.get_mut(key).filter(|_| !is_changed) else { continue };
        // Policies may name parts of it.
        if matched.as_str().is_some_and(|it| !it.contains(['{', ':', '*'])) {
            *matched = path.into();
        }
    }
}

/// Names in place of those of upstreams.
#[derive(Default)]
struct StandIns(BTreeMap<String, String>);

impl StandIns {
    fn of(&mut self, name: &str) -> String {
        let next = format!("u{}", self.0.len());
        self.0.entry(name.to_owned()).or_insert(next).clone()
    }
}
