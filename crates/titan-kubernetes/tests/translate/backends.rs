//! Who serves requests.

use super::{Objects, http, summary};
use serde_json::{Value, json};
use titan_kubernetes::cluster::Kind;

fn backend(name: &str, weight: u32) -> Value {
    json!({ "name": name, "port": 8080, "weight": weight })
}

/// The only route of a rule with these backends, and what is said of it.
fn served(backends: Value, prepare: impl Fn(&mut Objects)) -> (Value, String) {
    let mut objects = Objects::new();
    objects.front().service("a", "10.0.0.1").service("b", "10.0.0.2");
    objects.add(Kind::Service, "shop", "empty", json!({ "spec": { "ports": [{ "port": 8080 }] } }));
    prepare(&mut objects);
    objects.route("cart", json!({ "rules": [{ "backendRefs": backends }] }));
    let translated = objects.translated();
    let conditions = translated.conditions("HTTPRoute shop/cart", "parents");
    let mut route = translated.routes("httproute/shop/cart")[0].clone();
    if let Some(policies) = translated.documents["httproute/shop/cart"].get("policies") {
        route["apply"] = policies.as_object().unwrap().values().cloned().collect();
    }
    (route, conditions.replace("Accepted=True/Accepted ", ""))
}

#[test]
fn services_share_requests() {
    let (route, _) = served(json!([backend("a", 9), backend("b", 1), backend("a", 1)]), |_| {});
    assert_eq!(route["upstream"], json!({ "shop.a.8080": 10, "shop.b.8080": 1 }));
    let (route, _) = served(json!([backend("a", 0), backend("b", 1)]), |_| {});
    assert_eq!(route["upstream"], json!({ "shop.b.8080": 1 }));
    let (route, _) = served(json!([backend("a", 1_000_000), backend("b", 1)]), |_| {});
    assert_eq!(route["upstream"], json!({ "shop.a.8080": 1000, "shop.b.8080": 1 }));
}

#[test]
fn what_cannot_serve_fails_its_share() {
    for (backends, status, resolved) in [
        (json!([]), 500, "True/ResolvedRefs"),
        (json!([backend("a", 0)]), 500, "True/ResolvedRefs"),
        (json!([backend("missing", 1)]), 500, "False/BackendNotFound"),
        (json!([{ "name": "a", "port": 1 }]), 500, "False/BackendNotFound"),
        (
            json!([{ "name": "a", "port": 8080, "namespace": "infra" }]),
            500,
            "False/RefNotPermitted",
        ),
        (
            json!([{ "kind": "Bucket", "group": "example.com", "name": "a", "port": 8080 }]),
            500,
            "False/InvalidKind",
        ),
        (json!([backend("empty", 1)]), 503, "True/ResolvedRefs"),
    ] {
        let (route, found) = served(backends.clone(), |_| {});
        assert_eq!(route["respond"]["status"], status, "{backends}");
        assert_eq!(found, format!("ResolvedRefs={resolved}"), "{backends}");
    }
    let (route, found) = served(json!([backend("a", 3), backend("missing", 1)]), |_| {});
    assert_eq!(route["apply"], json!([{ "fault": { "share": "25%", "status": 500 } }]));
    assert_eq!(found, "ResolvedRefs=False/BackendNotFound");
}

#[test]
fn a_grant_opens_a_namespace() {
    let to_infra = json!([{ "name": "far", "namespace": "infra", "port": 8080 }]);
    let far = |objects: &mut Objects| {
        objects.add(
            Kind::Service,
            "infra",
            "far",
            json!({ "spec": { "ports": [{ "port": 8080 }] } }),
        );
    };
    for (from, to, expected) in [
        (
            json!({ "kind": "HTTPRoute", "namespace": "shop" }),
            json!({ "kind": "Service" }),
            "True/ResolvedRefs",
        ),
        (
            json!({ "kind": "HTTPRoute", "namespace": "shop" }),
            json!({ "kind": "Service", "name": "far" }),
            "True/ResolvedRefs",
        ),
        (
            json!({ "kind": "HTTPRoute", "namespace": "shop" }),
            json!({ "kind": "Service", "name": "near" }),
            "False/RefNotPermitted",
        ),
        (
            json!({ "kind": "HTTPRoute", "namespace": "pay" }),
            json!({ "kind": "Service" }),
            "False/RefNotPermitted",
        ),
        (
            json!({ "kind": "GRPCRoute", "namespace": "shop" }),
            json!({ "kind": "Service" }),
            "False/RefNotPermitted",
        ),
        (
            json!({ "kind": "HTTPRoute", "namespace": "shop" }),
            json!({ "kind": "Secret" }),
            "False/RefNotPermitted",
        ),
    ] {
        let (mut from, mut to) = (from, to);
        from["group"] = json!("gateway.networking.k8s.io");
        to["group"] = json!("");
        let grant = json!({ "spec": { "from": [from], "to": [to] } });
        let (_, found) = served(to_infra.clone(), |objects| {
            far(objects);
            objects.add(Kind::ReferenceGrant, "infra", "grant", grant.clone());
        });
        assert_eq!(found, format!("ResolvedRefs={expected}"), "{grant}");
    }
}

#[test]
fn pods_come_and_go() {
    let ready = json!({ "addresses": ["10.0.0.9"] });
    let ending = json!({ "addresses": ["10.0.0.8"], "conditions": { "ready": false, "serving": true, "terminating": true } });
    let starting = json!({ "addresses": ["fd00::7"], "conditions": { "ready": false } });
    let six = json!({ "addresses": ["fd00::7"] });
    for (endpoints, expected) in [
        (json!([ready, ending, starting]), "10.0.0.9:3000"),
        (json!([ending, starting]), "10.0.0.8:3000"),
        (json!([six]), "[fd00::7]:3000"),
        (json!([{ "addresses": ["a.example.com"] }, ready]), "10.0.0.9:3000"),
    ] {
        let mut objects = Objects::new();
        objects.front().service("a", "10.0.0.1").slice("a", endpoints.clone());
        objects.route("cart", json!({ "rules": [{ "backendRefs": [backend("a", 1)] }] }));
        let translated = objects.translated();
        let upstream = &translated.documents["service/shop/a/8080"]["upstreams"]["shop.a.8080"];
        assert_eq!(upstream["endpoints"], json!(["feed:kubernetes/shop/a/8080"]), "{endpoints}");
        let pods = &translated.pods["kubernetes/shop/a/8080"];
        assert_eq!(pods, &[expected.parse().unwrap()], "{endpoints}");
    }
}

#[test]
fn services_say_what_they_speak() {
    for (protocol, document) in [
        ("kubernetes.io/h2c", "service/shop/a/8080/h2"),
        ("kubernetes.io/ws", "service/shop/a/8080"),
        ("http", "service/shop/a/8080"),
    ] {
        let mut objects = Objects::new();
        objects.front().service("a", "10.0.0.1");
        let ports = json!([{ "port": 8080, "appProtocol": protocol }]);
        objects.add(Kind::Service, "shop", "a", json!({ "spec": { "ports": ports } }));
        objects.route("cart", json!({ "rules": [{ "backendRefs": [backend("a", 1)] }] }));
        assert!(objects.translated().documents.contains_key(document), "{protocol}");
    }
}

/// The upstream of a service `a` whose TLS is checked by those names, and what is said of the policy.
fn verified(names: Value) -> (Option<Value>, String) {
    let mut objects = Objects::new();
    objects.front().service("a", "10.0.0.1");
    let spec = json!({
        "targetRefs": [{ "kind": "Service", "name": "a" }],
        "validation": { "hostname": "a.example", "wellKnownCACertificates": "System", "subjectAltNames": names },
    });
    objects.add(Kind::BackendTlsPolicy, "shop", "tls", json!({ "spec": spec }));
    objects.route("cart", json!({ "rules": [{ "backendRefs": [backend("a", 1)] }] }));
    let translated = objects.translated();
    let documents = &translated.documents;
    let upstream = documents.get("service/shop/a/8080/auto");
    let upstream = upstream.map(|it| it["upstreams"]["shop.a.8080.auto"]["tls"].clone());
    let ancestors = &translated.statuses["BackendTLSPolicy shop/tls"]["ancestors"];
    (upstream, summary(&ancestors[0]["conditions"]))
}

#[test]
fn certificates_of_pods_may_have_one_of_several_names() {
    let (tls, found) = verified(json!([]));
    assert_eq!(tls.unwrap(), json!({ "name": "a.example" }));
    assert!(found.contains("Accepted=True"), "{found}");
    let (tls, found) = verified(json!([
        { "type": "Hostname", "hostname": "b.example" },
        { "type": "URI", "uri": "spiffe://example/a" },
    ]));
    let names = json!(["b.example", "spiffe://example/a"]);
    assert_eq!(tls.unwrap(), json!({ "name": "a.example", "alt_names": names }));
    assert!(found.contains("Accepted=True"), "{found}");
    for bad in [
        json!({ "type": "Hostname", "hostname": "*.example" }),
        json!({ "type": "Hostname" }),
        json!({ "type": "URI", "uri": "a b://c" }),
        json!({ "type": "Email" }),
    ] {
        let (tls, found) = verified(json!([bad]));
        assert_eq!(tls, None, "nothing is sent to pods whose names nobody checks");
        assert!(found.contains("Accepted=False/Invalid"), "{found}");
    }
}

/// Two gateways, `front` and `other`, that present these secrets to pods, and a route that is attached to those.
fn presenting(secrets: [Option<&str>; 2], parents: &[&str]) -> super::Translated {
    let mut objects = Objects::new();
    objects.service("a", "10.0.0.1").certificate("infra", "one").certificate("infra", "two");
    for (name, secret) in ["front", "other"].iter().zip(secrets) {
        let listeners = json!([http("http", 80, Value::Null)]);
        let mut spec = json!({ "gatewayClassName": "titan", "listeners": listeners });
        if let Some(secret) = secret {
            spec["tls"] = json!({ "backend": { "clientCertificateRef": { "name": secret } } });
        }
        objects.add(Kind::Gateway, "infra", name, json!({ "spec": spec }));
    }
    let spec = json!({
        "targetRefs": [{ "kind": "Service", "name": "a" }],
        "validation": { "hostname": "a", "wellKnownCACertificates": "System" },
    });
    objects.add(Kind::BackendTlsPolicy, "shop", "tls", json!({ "spec": spec }));
    let parents: Vec<_> =
        parents.iter().map(|it| json!({ "name": it, "namespace": "infra" })).collect();
    let rules = json!([{ "backendRefs": [backend("a", 1)] }]);
    objects.route("cart", json!({ "parentRefs": parents, "rules": rules }));
    objects.translated()
}

#[test]
fn a_gateway_presents_its_certificate_to_pods() {
    let of_pods = |translated: &super::Translated| -> Vec<Value> {
        let services = translated.documents.iter().filter(|(name, _)| name.starts_with("service/"));
        let upstreams = services.flat_map(|(_, it)| it["upstreams"].as_object().unwrap().values());
        upstreams.map(|it| it["tls"]["certificate"].clone()).collect()
    };
    let plain = presenting([None, None], &["front"]);
    assert_eq!(of_pods(&plain), [Value::Null]);
    let one = presenting([Some("one"), None], &["front"]);
    assert!(of_pods(&one)[0]["cert"].is_string() && of_pods(&one)[0]["key"].is_string());
    let resolved = |translated: &super::Translated| {
        summary(&translated.statuses["Gateway infra/front"]["conditions"])
    };
    assert!(resolved(&one).contains("ResolvedRefs=True/ResolvedRefs"), "{}", resolved(&one));
    assert!(!resolved(&plain).contains("ResolvedRefs"), "{}", resolved(&plain));
    let missing = presenting([Some("none"), None], &["front"]);
    let found = resolved(&missing);
    assert!(found.contains("ResolvedRefs=False/InvalidClientCertificateRef"), "{found}");
    // Which of two certificates a pod is to get, nobody says.
    let both = presenting([Some("one"), Some("two")], &["front", "other"]);
    assert_eq!(of_pods(&both), [Value::Null; 0]);
    let found = both.conditions("HTTPRoute shop/cart", "parents");
    assert!(found.contains("ResolvedRefs=False/UnsupportedValue"), "{found}");
    let same = presenting([Some("one"), Some("one")], &["front", "other"]);
    assert_eq!(of_pods(&same).len(), 1);
}
