//! What is made of the objects of a cluster, without a cluster.

#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "what objects say is written where it is used, and read once"
)]

mod attaching;
mod backends;
mod gateways;
mod ingress;
mod listener_sets;
mod policies;
mod routes;
mod tls_routes;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use titan_kubernetes::backends::Pods;
use titan_kubernetes::cluster::{Cluster, Kind};
use titan_kubernetes::objects::Key;
use titan_kubernetes::settings::{Addressing, Network, Settings};
use titan_kubernetes::standing::{Form, Standing};
use titan_kubernetes::translate::{Judgements, Translation, translate};

/// The name by which classes name the controller here.
const CONTROLLER: &str = "titan.test/gateway";
const NOW: &str = "2026-01-01T00:00:00Z";

/// A cluster that a test puts together. It has the class `titan` and the namespaces `infra` and `shop`.
struct Objects {
    cluster: Cluster,
    settings: Settings,
}

/// What became of it.
struct Translated {
    documents: BTreeMap<String, Value>,
    /// Where the pods listen that upstreams follow.
    pods: Pods,
    /// How many files documents name.
    files: usize,
    forms: BTreeMap<String, Form>,
    statuses: BTreeMap<String, Value>,
    warnings: Vec<String>,
}

impl Objects {
    fn new() -> Objects {
        let network = Network::parse("127.64.0.0/16").unwrap();
        let settings = Settings {
            controller: CONTROLLER.to_owned(),
            addressing: Addressing::Own(network),
            folder: "/run/titan".into(),
        };
        let mut objects = Objects { cluster: Cluster::default(), settings };
        objects.add(
            Kind::GatewayClass,
            "",
            "titan",
            json!({ "spec": { "controllerName": CONTROLLER } }),
        );
        for name in ["infra", "shop"] {
            objects.add(
                Kind::Namespace,
                "",
                name,
                json!({ "metadata": { "labels": { "team": name } } }),
            );
        }
        objects
    }

    /// Adds an object; `rest` may have more of its metadata.
    fn add(&mut self, kind: Kind, namespace: &str, name: &str, rest: Value) -> &mut Objects {
        let mut object = rest;
        for (key, value) in [
            ("namespace", json!(namespace)),
            ("name", json!(name)),
            ("generation", json!(3)),
            ("resourceVersion", json!("7")),
        ] {
            object["metadata"][key] = value;
        }
        self.cluster.note(kind, Key::new(namespace, name), object).unwrap();
        self
    }

    /// A gateway of the class in the namespace `infra` with these listeners.
    fn gateway(&mut self, name: &str, listeners: Value) -> &mut Objects {
        let spec = json!({ "gatewayClassName": "titan", "listeners": listeners });
        self.add(Kind::Gateway, "infra", name, json!({ "spec": spec }))
    }

    /// A gateway `front` with a listener `http` on port 80 for all routes.
    fn front(&mut self) -> &mut Objects {
        self.gateway("front", json!([http("http", 80, Value::Null)]))
    }

    /// A route in the namespace `shop` that is attached to `front`.
    fn route(&mut self, name: &str, rest: Value) -> &mut Objects {
        let mut spec = json!({ "parentRefs": [{ "name": "front", "namespace": "infra" }] });
        spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        self.add(Kind::HttpRoute, "shop", name, json!({ "spec": spec }))
    }

    /// A service in the namespace `shop` with one port, 8080, and one pod.
    fn service(&mut self, name: &str, address: &str) -> &mut Objects {
        self.add(Kind::Service, "shop", name, json!({ "spec": { "ports": [{ "port": 8080 }] } }));
        self.slice(name, json!([{ "addresses": [address] }]))
    }

    /// A secret with a certificate for `shop.io` and all below it.
    fn certificate(&mut self, namespace: &str, name: &str) -> &mut Objects {
        let names = ["shop.io".to_owned(), "*.shop.io".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let [certificate, key] = [certificate, key].map(|it| STANDARD.encode(it));
        let data = json!({ "tls.crt": certificate, "tls.key": key });
        self.add(Kind::Secret, namespace, name, json!({ "data": data }))
    }

    /// Pods of a service.
    fn slice(&mut self, name: &str, endpoints: Value) -> &mut Objects {
        let labels = json!({ "kubernetes.io/service-name": name });
        let slice = json!({
            "metadata": { "labels": labels },
            "endpoints": endpoints,
            "ports": [{ "port": 3000 }],
        });
        self.add(Kind::EndpointSlice, "shop", &format!("{name}-1"), slice)
    }

    /// What is made of it while nothing is in force, after it was checked that the gateway would take it.
    fn translated(&self) -> Translated {
        self.translated_with(&Standing::default())
    }

    fn translated_with(&self, standing: &Standing) -> Translated {
        self.translated_again(standing, &mut Judgements::default())
    }

    /// The same with what was judged before.
    fn translated_again(&self, standing: &Standing, judgements: &mut Judgements) -> Translated {
        let Translation { documents, pods, vault, forms, statuses, warnings, .. } =
            translate(&self.cluster, &self.settings, (standing, judgements), NOW);
        let files = vault.files().len();
        let read = documents.iter();
        let documents: BTreeMap<_, Value> =
            read.map(|(name, text)| (name.clone(), serde_json::from_str(text).unwrap())).collect();
        check(&documents);
        let statuses = statuses.into_iter();
        let statuses =
            statuses.map(|it| (format!("{} {}", it.kind.name(), it.key), it.status)).collect();
        let warnings = warnings.into_iter().collect();
        Translated { documents, pods, files, forms, statuses, warnings }
    }

    /// The same once all of it is in force.
    fn in_force(&self) -> Translated {
        let names: Vec<_> = self.translated().documents.into_keys().collect();
        let mut standing = Standing::default();
        standing.note(names.iter().map(String::as_str), &BTreeMap::new(), true);
        self.translated_with(&standing)
    }
}

impl Translated {
    /// The routes of a document, by the path that they match.
    fn routes(&self, document: &str) -> Vec<&Value> {
        let routes = self.documents.get(document).map(|it| &it["routes"]);
        routes.and_then(Value::as_array).into_iter().flatten().collect()
    }

    /// `Type=Status/Reason` of each condition of the first entry of a list in a status.
    fn conditions(&self, object: &str, list: &str) -> String {
        summary(&self.statuses[object][list][0]["conditions"])
    }
}

/// `Type=Status/Reason` of each condition.
fn summary(conditions: &Value) -> String {
    let each = conditions.as_array().into_iter().flatten().map(|it| {
        format!(
            "{}={}/{}",
            it["type"].as_str().unwrap(),
            it["status"].as_str().unwrap(),
            it["reason"].as_str().unwrap()
        )
    });
    each.collect::<Vec<_>>().join(" ")
}

/// A listener for HTTP that all routes may attach to.
fn http(name: &str, port: u16, hostname: Value) -> Value {
    let mut listener = json!({
        "name": name, "port": port, "protocol": "HTTP", "allowedRoutes": { "namespaces": { "from": "All" } },
    });
    if !hostname.is_null() {
        listener["hostname"] = hostname;
    }
    listener
}

/// A rule that is served by one service.
fn served_by(name: &str) -> Value {
    json!({ "backendRefs": [{ "name": name, "port": 8080 }] })
}

/// Checks that all documents together are a configuration.
fn check(documents: &BTreeMap<String, Value>) {
    let mut whole = json!({
        "listeners": [{ "name": "none", "address": "127.0.0.1:1" }],
        "routes": [{ "name": "none", "listeners": ["none"], "respond": 404 }],
        "upstreams": {},
        "policies": {},
    });
    for document in documents.values() {
        for (key, value) in document.as_object().unwrap() {
            match (&mut whole[key], value) {
                (Value::Array(items), Value::Array(more)) => items.extend(more.iter().cloned()),
                (Value::Object(members), Value::Object(more)) => join(members, more),
                _ => panic!("{key}"),
            }
        }
    }
    if let Err(report) = titan_config::Config::parse("cluster", &whole.to_string()) {
        panic!("{:?}\n{whole:#}", report.diagnostics());
    }
}

fn join(members: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, value) in more {
        assert!(members.insert(name.clone(), value.clone()).is_none(), "{name} stands twice");
    }
}
