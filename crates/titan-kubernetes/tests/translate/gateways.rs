//! Gateways and their listeners.

use super::{Objects, http, summary};
use serde_json::{Value, json};
use titan_kubernetes::cluster::Kind;
use titan_kubernetes::settings::Addressing;

#[test]
fn a_gateway_has_an_address_of_its_own() {
    let mut objects = Objects::new();
    objects
        .front()
        .gateway("back", json!([http("http", 80, Value::Null), http("other", 8080, Value::Null)]));
    let translated = objects.translated();
    let names: Vec<_> = translated.documents.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["listener/infra.back.80", "listener/infra.back.8080", "listener/infra.front.80"]
    );
    let address = |name: &str| {
        translated.statuses[name]["addresses"][0]["value"].as_str().unwrap().to_owned()
    };
    let [front, back] = [address("Gateway infra/front"), address("Gateway infra/back")];
    assert_ne!(front, back);
    let listener = &translated.documents["listener/infra.back.8080"]["listeners"][0];
    assert_eq!(listener["address"], format!("{back}:8080"));
}

#[test]
fn a_gateway_keeps_its_address() {
    let mut objects = Objects::new();
    let spec = json!({ "gatewayClassName": "titan", "listeners": [http("http", 80, Value::Null)] });
    let status = json!({ "addresses": [{ "type": "IPAddress", "value": "127.64.3.4" }] });
    objects.add(Kind::Gateway, "infra", "front", json!({ "spec": spec, "status": status }));
    assert_eq!(
        objects.translated().documents["listener/infra.front.80"]["listeners"][0]["address"],
        "127.64.3.4:80"
    );
}

#[test]
fn an_address_has_to_be_there() {
    for (address, expected) in [
        (json!({ "value": "127.64.3.4" }), "Accepted=True/Accepted Programmed=True/Programmed"),
        (
            json!({ "value": "192.0.2.1" }),
            "Accepted=True/Accepted Programmed=False/AddressNotUsable",
        ),
        (
            json!({ "type": "example.com/name", "value": "a" }),
            "Accepted=False/UnsupportedAddress Programmed=False/Invalid",
        ),
        (json!({ "type": "IPAddress" }), "Accepted=True/Accepted Programmed=True/Programmed"),
    ] {
        let mut objects = Objects::new();
        let spec = json!({
            "gatewayClassName": "titan",
            "listeners": [http("http", 80, Value::Null)],
            "addresses": [address],
        });
        objects.add(Kind::Gateway, "infra", "front", json!({ "spec": spec }));
        let status = &objects.in_force().statuses["Gateway infra/front"];
        assert_eq!(summary(&status["conditions"]), expected, "{address}");
    }
}

#[test]
fn gateways_of_other_controllers_are_left_alone() {
    let mut objects = Objects::new();
    let spec = json!({ "gatewayClassName": "other", "listeners": [http("http", 80, Value::Null)] });
    objects.add(
        Kind::GatewayClass,
        "",
        "other",
        json!({ "spec": { "controllerName": "example.com/other" } }),
    );
    objects.add(Kind::Gateway, "infra", "front", json!({ "spec": spec }));
    objects.route("cart", json!({}));
    let translated = objects.translated();
    assert!(translated.documents.is_empty());
    assert_eq!(translated.statuses.keys().collect::<Vec<_>>(), ["GatewayClass titan"]);
}

#[test]
fn a_listener_is_programmed_when_it_is_in_force() {
    let mut objects = Objects::new();
    objects.front();
    let of = "Gateway infra/front";
    let before = objects.translated().conditions(of, "listeners");
    assert_eq!(
        before,
        "Accepted=True/Accepted Programmed=Unknown/Pending ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts"
    );
    let after = objects.in_force().conditions(of, "listeners");
    assert_eq!(after, before.replace("Unknown/Pending", "True/Programmed"));
}

#[test]
fn listeners_that_cannot_be_served_say_why() {
    for (listener, expected) in [
        (
            json!({ "protocol": "UDP" }),
            "Accepted=False/UnsupportedProtocol Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs",
        ),
        (
            json!({ "allowedRoutes": { "kinds": [{ "kind": "TCPRoute" }] } }),
            "Accepted=True/Accepted Programmed=False/Invalid ResolvedRefs=False/InvalidRouteKinds",
        ),
        (
            json!({ "allowedRoutes": { "kinds": [{ "kind": "TCPRoute" }, { "kind": "HTTPRoute" }] } }),
            "Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=False/InvalidRouteKinds",
        ),
        (
            json!({ "protocol": "HTTPS", "tls": { "certificateRefs": [{ "name": "missing" }] } }),
            "Accepted=True/Accepted Programmed=False/Invalid ResolvedRefs=False/InvalidCertificateRef",
        ),
        (
            json!({ "protocol": "HTTPS", "tls": { "certificateRefs": [{ "name": "a", "namespace": "shop" }] } }),
            "Accepted=True/Accepted Programmed=False/Invalid ResolvedRefs=False/RefNotPermitted",
        ),
    ] {
        let mut objects = Objects::new();
        let mut whole = http("it", 80, Value::Null);
        whole.as_object_mut().unwrap().extend(listener.as_object().unwrap().clone());
        objects.gateway("front", json!([whole]));
        let found = objects.in_force().conditions("Gateway infra/front", "listeners");
        assert!(found.starts_with(expected), "{listener}\n{found}");
    }
}

#[test]
fn a_host_of_a_port_has_one_listener() {
    let mut objects = Objects::new();
    let [one, same] = ["one", "same"].map(|name| http(name, 80, json!("a.example.com")));
    let other =
        json!({ "name": "tls", "port": 80, "protocol": "HTTPS", "hostname": "b.example.com" });
    objects.gateway("front", json!([one, same, other]));
    let status = &objects.in_force().statuses["Gateway infra/front"];
    let conditions = |at: usize| summary(&status["listeners"][at]["conditions"]);
    assert!(conditions(0).ends_with("Conflicted=False/NoConflicts"));
    assert!(conditions(1).ends_with("Conflicted=True/HostnameConflict"));
    assert!(conditions(2).ends_with("Conflicted=True/ProtocolConflict"));
    assert!(
        summary(&status["conditions"])
            .starts_with("Accepted=True/ListenersNotValid Programmed=True")
    );
}

#[test]
fn gateways_share_what_they_listen_on_where_there_is_no_network() {
    let mut objects = Objects::new();
    objects.settings.addressing = Addressing::Shared(vec!["gateway.example.com".to_owned()]);
    objects.gateway("a", json!([http("http", 80, json!("a.example.com"))]));
    objects.gateway("b", json!([http("http", 80, json!("b.example.com"))]));
    let translated = objects.translated();
    assert_eq!(
        translated.documents["listener/port-80"]["listeners"],
        json!([{ "name": "port-80", "address": ":80" }])
    );
    for name in ["a", "b"] {
        let status = &translated.statuses[&format!("Gateway infra/{name}")];
        assert_eq!(
            status["addresses"],
            json!([{ "type": "Hostname", "value": "gateway.example.com" }])
        );
    }
}

#[test]
fn gateways_that_let_other_clients_in_do_not_share_a_port() {
    let pem =
        |text: &str| format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
    let mut objects = Objects::new();
    objects.settings.addressing = Addressing::Shared(Vec::new());
    for (gateway, authority) in [("a", Some("x")), ("b", Some("y")), ("c", None), ("d", Some("x"))]
    {
        let host = format!("{gateway}.example.com");
        let listener = json!({ "name": "tls", "port": 443, "protocol": "HTTPS", "hostname": host });
        let refs =
            authority.map(|name| json!([{ "group": "", "kind": "ConfigMap", "name": name }]));
        let tls = refs.map(|refs| {
            json!({ "frontend": { "default": { "validation": { "caCertificateRefs": refs } } } })
        });
        let spec = json!({ "gatewayClassName": "titan", "listeners": [listener], "tls": tls });
        objects.add(Kind::Gateway, "infra", gateway, json!({ "spec": spec }));
    }
    for (name, text) in [("x", "AAAA"), ("y", "BBBB")] {
        let data = json!({ "data": { "ca.crt": pem(text) } });
        objects.add(Kind::ConfigMap, "infra", name, data);
    }
    let translated = objects.translated();
    let conflicted = ["a", "b", "c", "d"].map(|name| {
        let status = &translated.statuses[&format!("Gateway infra/{name}")];
        summary(&status["listeners"][0]["conditions"]).ends_with("Conflicted=True/ProtocolConflict")
    });
    assert_eq!(conflicted, [false, true, true, false]);
}
