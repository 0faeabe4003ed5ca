//! TLSRoutes, and the listeners that they attach to.

use super::{Objects, http, served_by, summary};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use titan_kubernetes::cluster::Kind;

/// A listener for TLS that all routes may attach to.
fn tls(name: &str, mode: &str, hostname: Value) -> Value {
    let mut listener = json!({
        "name": name, "port": 443, "protocol": "TLS", "tls": { "mode": mode },
        "allowedRoutes": { "namespaces": { "from": "All" } },
    });
    if !hostname.is_null() {
        listener["hostname"] = hostname;
    }
    listener
}

/// A TLSRoute in the namespace `shop` that is attached to `front`.
fn route(objects: &mut Objects, name: &str, hostnames: Value, rule: Value) {
    let spec = json!({
        "parentRefs": [{ "name": "front", "namespace": "infra" }], "hostnames": hostnames, "rules": [rule],
    });
    objects.add(Kind::TlsRoute, "shop", name, json!({ "spec": spec }));
}

fn listener(objects: &Objects) -> Value {
    objects.translated().documents["listener/infra.front.443"]["listeners"][0].clone()
}

#[test]
fn what_passes_through_needs_no_certificates() {
    let mut objects = Objects::new();
    objects.gateway("front", json!([tls("tls", "Passthrough", json!("*.example.com"))]));
    objects.service("db", "10.0.0.1").service("next", "10.0.0.2");
    let both = json!({ "backendRefs": [
        { "name": "db", "port": 8080, "weight": 3 }, { "name": "next", "port": 8080 },
    ] });
    route(&mut objects, "db", json!(["db.example.com", "other.test"]), both);
    let shown = listener(&objects);
    assert_eq!(shown.get("tls"), None);
    assert_eq!(
        shown["tls_routes"],
        json!([{ "names": ["db.example.com"], "mode": "passthrough",
            "upstream": { "shop.db.8080.encrypted": 3, "shop.next.8080.encrypted": 1 } },
            { "mode": "passthrough", "upstream": "nobody" }])
    );
    let all = objects.in_force();
    let conditions = all.conditions("TLSRoute shop/db", "parents");
    assert_eq!(conditions, "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs");
    let of_listener = &all.statuses["Gateway infra/front"]["listeners"][0];
    assert_eq!(of_listener["supportedKinds"][0]["kind"], "TLSRoute");
    assert_eq!(of_listener["attachedRoutes"], 1);
    assert!(summary(&of_listener["conditions"]).contains("Programmed=True"), "{of_listener}");
}

#[test]
fn a_listener_without_routes_serves_nothing() {
    let mut objects = Objects::new();
    objects.gateway("front", json!([tls("tls", "Passthrough", Value::Null)]));
    let shown = listener(&objects);
    assert_eq!(shown["tls_routes"], json!([{ "mode": "passthrough", "upstream": "nobody" }]));
}

#[test]
fn the_oldest_route_has_a_name_and_what_has_no_service_ends() {
    let mut objects = Objects::new();
    objects.gateway("front", json!([tls("tls", "Passthrough", Value::Null)]));
    objects.service("db", "10.0.0.1");
    route(&mut objects, "a", json!(["db.example.com"]), served_by("db"));
    route(&mut objects, "b", json!(["db.example.com", "b.example.com"]), served_by("none"));
    route(&mut objects, "c", json!([]), served_by("db"));
    let upstream = json!({ "shop.db.8080.encrypted": 1 });
    assert_eq!(
        listener(&objects)["tls_routes"],
        json!([
            { "names": ["db.example.com"], "mode": "passthrough", "upstream": upstream },
            { "names": ["b.example.com"], "mode": "passthrough", "upstream": { "nobody": 1 } },
            { "mode": "passthrough", "upstream": upstream },
        ])
    );
    let conditions = objects.in_force().conditions("TLSRoute shop/b", "parents");
    assert_eq!(conditions, "Accepted=True/Accepted ResolvedRefs=False/BackendNotFound");
}

#[test]
fn what_is_decrypted_needs_a_certificate() {
    let mut objects = Objects::new();
    objects.gateway("front", json!([tls("tls", "Terminate", Value::Null)]));
    route(&mut objects, "a", json!(["a.example.com"]), served_by("db"));
    let all = objects.in_force();
    assert!(!all.documents.contains_key("listener/infra.front.443"));
    let conditions = summary(&all.statuses["Gateway infra/front"]["listeners"][0]["conditions"]);
    assert!(conditions.contains("ResolvedRefs=False/InvalidCertificateRef"), "{conditions}");
}

/// A secret `site` beside the gateways, with a certificate.
fn add_site(objects: &mut Objects) {
    let made = rcgen::generate_simple_self_signed(["www.example.com".to_owned()]).unwrap();
    let [cert, key] = [made.cert.pem(), made.signing_key.serialize_pem()]
        .map(|text| BASE64_STANDARD.encode(text));
    let secret =
        json!({ "type": "kubernetes.io/tls", "data": { "tls.crt": cert, "tls.key": key } });
    objects.add(Kind::Secret, "infra", "site", secret);
}

/// A listener for HTTPS with that certificate.
fn https(name: &str, hostname: Value) -> Value {
    let mut listener = tls(name, "Terminate", hostname);
    listener["protocol"] = json!("HTTPS");
    listener["tls"]["certificateRefs"] = json!([{ "name": "site" }]);
    listener
}

#[test]
fn routes_for_http_do_not_attach() {
    let mut objects = Objects::new();
    objects.gateway("front", json!([tls("tls", "Passthrough", Value::Null)]));
    objects.service("db", "10.0.0.1").route("a", json!({ "rules": [served_by("db")] }));
    let conditions = objects.translated().conditions("HTTPRoute shop/a", "parents");
    assert!(conditions.starts_with("Accepted=False/NotAllowedByListeners"), "{conditions}");
}

#[test]
fn each_name_of_a_port_belongs_to_the_most_specific_listener() {
    let mut objects = Objects::new();
    let listeners = json!([
        https("site", json!("www.example.com")),
        tls("tls", "Passthrough", json!("*.example.com")),
        https("api", json!("*.api.example.com")),
        tls("admin", "Passthrough", json!("admin.example.com")),
    ]);
    add_site(&mut objects);
    objects.gateway("front", listeners);
    objects.service("db", "10.0.0.1").service("web", "10.0.0.2");
    objects.route("web", json!({ "rules": [served_by("web")] }));
    let names = json!(["*.example.com", "www.example.com", "a.api.example.com", "db.example.com"]);
    let to_tls = json!({
        "parentRefs": [{ "name": "front", "namespace": "infra", "sectionName": "tls" }],
        "hostnames": names, "rules": [served_by("db")],
    });
    objects.add(Kind::TlsRoute, "shop", "db", json!({ "spec": to_tls }));
    let shown = listener(&objects);
    assert_eq!(shown["tls"]["certificates"].as_array().map(Vec::len), Some(1));
    let upstream = json!({ "shop.db.8080.encrypted": 1 });
    assert_eq!(
        shown["tls_routes"],
        json!([
            { "names": ["*.example.com", "db.example.com"], "mode": "passthrough", "upstream": upstream },
            { "names": ["admin.example.com"], "mode": "passthrough", "upstream": "nobody" },
            { "names": ["*.api.example.com", "www.example.com"], "mode": "https" },
            { "mode": "passthrough", "upstream": "nobody" },
        ])
    );
    let all = objects.in_force();
    for listener in all.statuses["Gateway infra/front"]["listeners"].as_array().unwrap() {
        let conditions = summary(&listener["conditions"]);
        assert!(conditions.contains("Conflicted=False/NoConflicts"), "{conditions}");
        assert!(conditions.contains("Programmed=True"), "{conditions}");
    }
}

#[test]
fn what_no_tls_route_takes_is_https_where_a_listener_is_for_all_hosts() {
    let mut objects = Objects::new();
    let listeners =
        json!([https("site", Value::Null), tls("db", "Passthrough", json!("db.example.com")),]);
    add_site(&mut objects);
    objects.gateway("front", listeners);
    objects.service("db", "10.0.0.1");
    assert_eq!(
        listener(&objects)["tls_routes"],
        json!([{ "names": ["db.example.com"], "mode": "passthrough", "upstream": "nobody" }])
    );
    route(&mut objects, "db", json!([]), served_by("db"));
    let upstream = json!({ "shop.db.8080.encrypted": 1 });
    assert_eq!(
        listener(&objects)["tls_routes"],
        json!([{ "names": ["db.example.com"], "mode": "passthrough", "upstream": upstream }])
    );
}

#[test]
fn two_listeners_for_one_host_have_a_conflict() {
    let mut objects = Objects::new();
    let host = || json!("a.example.com");
    let listeners = json!([
        tls("tls", "Passthrough", host()),
        https("https", host()),
        http("http", 443, host())
    ]);
    add_site(&mut objects);
    objects.gateway("front", listeners);
    let all = objects.translated();
    let conditions =
        |at: usize| summary(&all.statuses["Gateway infra/front"]["listeners"][at]["conditions"]);
    assert!(conditions(1).contains("Conflicted=True/HostnameConflict"), "{}", conditions(1));
    assert!(conditions(2).contains("Conflicted=True/ProtocolConflict"), "{}", conditions(2));
}

#[test]
fn what_one_port_cannot_have_holds_nobody_back() {
    let mut objects = Objects::new();
    objects
        .gateway("front", json!([tls("tls", "Passthrough", Value::Null)]))
        .service("db", "10.0.0.1");
    route(&mut objects, "bad", json!(["a.123"]), served_by("db"));
    for at in 0..1030 {
        route(&mut objects, &format!("r{at:04}"), json!([format!("h{at}.io")]), served_by("db"));
    }
    assert!(listener(&objects)["tls_routes"].as_array().unwrap().len() <= 1024);
    let translated = objects.translated();
    let accepted = |name: &str| translated.conditions(&format!("TLSRoute shop/{name}"), "parents");
    assert!(accepted("r0000").starts_with("Accepted=True/Accepted"));
    assert!(
        accepted("r1029").starts_with("Accepted=False/UnsupportedValue"),
        "{}",
        accepted("r1029")
    );
    assert!(accepted("bad").starts_with("Accepted=False/UnsupportedValue"), "{}", accepted("bad"));
}

/// A TCPRoute in the namespace `shop` that is attached to `front`.
fn tcp_route(objects: &mut Objects, name: &str, created: &str, backends: Value) {
    let spec = json!({
        "parentRefs": [{ "name": "front", "namespace": "infra" }], "rules": [{ "backendRefs": backends }],
    });
    let meta = json!({ "creationTimestamp": created });
    objects.add(Kind::TcpRoute, "shop", name, json!({ "metadata": meta, "spec": spec }));
}

fn tcp(name: &str, port: u16) -> Value {
    json!({ "name": name, "port": port, "protocol": "TCP", "hostname": "ignored.example",
        "allowedRoutes": { "namespaces": { "from": "All" } } })
}

#[test]
fn the_oldest_tcp_route_has_the_listener() {
    let mut objects = Objects::new();
    objects.gateway(
        "front",
        json!([tcp("db", 5432), tcp("again", 5432), tcp("mail", 25), http("web", 80, Value::Null)]),
    );
    objects.service("db", "10.0.0.1").service("next", "10.0.0.2");
    let both =
        json!([{ "name": "db", "port": 8080, "weight": 3 }, { "name": "next", "port": 8080 }]);
    tcp_route(
        &mut objects,
        "newer",
        "2026-02-02T00:00:00Z",
        json!([{ "name": "next", "port": 8080 }]),
    );
    tcp_route(&mut objects, "older", "2026-01-01T00:00:00Z", both);
    let documents = objects.translated().documents;
    for port in ["5432", "25"] {
        let shown = &documents[&format!("listener/infra.front.{port}")];
        assert_eq!(
            shown["listeners"][0]["tcp"],
            json!({ "shop.db.8080.raw": 3, "shop.next.8080.raw": 1 })
        );
        assert_eq!(shown.get("routes"), None, "{shown}");
    }
    let all = objects.in_force();
    for route in ["older", "newer"] {
        let conditions = all.conditions(&format!("TCPRoute shop/{route}"), "parents");
        assert_eq!(conditions, "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs");
    }
    let listeners = &all.statuses["Gateway infra/front"]["listeners"];
    assert_eq!(
        (&listeners[0]["attachedRoutes"], &listeners[0]["supportedKinds"][0]["kind"]),
        (&json!(2), &json!("TCPRoute"))
    );
    let taken = summary(&listeners[1]["conditions"]);
    assert!(taken.contains("Conflicted=True/ProtocolConflict"), "{taken}");
    assert_eq!(listeners[3]["attachedRoutes"], 0);
}

#[test]
fn a_tcp_listener_without_a_backend_sends_connections_to_nobody() {
    let mut objects = Objects::new();
    objects.gateway("front", json!([tcp("db", 5432), tcp("mail", 25)]));
    let spec = json!({
        "parentRefs": [{ "name": "front", "namespace": "infra", "sectionName": "db" }],
        "rules": [{ "backendRefs": [{ "name": "gone", "port": 1 }] }],
    });
    objects.add(Kind::TcpRoute, "shop", "lost", json!({ "spec": spec }));
    let documents = objects.translated().documents;
    for (port, nobody) in [("5432", json!({ "nobody": 1 })), ("25", json!("nobody"))] {
        let shown = &documents[&format!("listener/infra.front.{port}")]["listeners"][0];
        assert_eq!(shown["tcp"], nobody);
    }
    assert!(documents.contains_key("service/nobody"));
    let conditions = objects.in_force().conditions("TCPRoute shop/lost", "parents");
    assert!(conditions.contains("ResolvedRefs=False/BackendNotFound"), "{conditions}");
}
