//! Listeners that ListenerSets add to gateways.

use super::{Objects, http, served_by, summary};
use serde_json::{Value, json};
use titan_kubernetes::cluster::Kind;

/// A gateway that lets ListenerSets of these namespaces in, with a listener for `gateway.io`.
fn gateway(from: &str) -> Objects {
    let mut objects = Objects::new();
    let spec = json!({
        "gatewayClassName": "titan",
        "listeners": [http("own", 80, json!("gateway.io"))],
        "allowedListeners": { "namespaces": { "from": from } },
    });
    objects.add(Kind::Gateway, "infra", "front", json!({ "spec": spec }));
    objects
}

/// A ListenerSet in the namespace `shop` for that gateway.
fn set(objects: &mut Objects, name: &str, created: &str, listeners: Value) {
    let parent = json!({ "name": "front", "namespace": "infra" });
    let spec = json!({ "parentRef": parent, "listeners": listeners });
    let metadata = json!({ "creationTimestamp": created });
    objects.add(Kind::ListenerSet, "shop", name, json!({ "metadata": metadata, "spec": spec }));
}

fn route(objects: &mut Objects, name: &str, parent: Value) {
    let spec = json!({ "parentRefs": [parent], "rules": [served_by("cart")] });
    objects.add(Kind::HttpRoute, "shop", name, json!({ "spec": spec }));
}

#[test]
fn routes_attach_to_the_listeners_of_their_set_alone() {
    let mut objects = gateway("All");
    objects.service("cart", "10.0.0.1");
    set(&mut objects, "more", "2026-01-01T00:00:00Z", json!([http("own", 80, json!("set.io"))]));
    let of_set =
        json!({ "group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": "more" });
    route(&mut objects, "of-set", of_set);
    route(&mut objects, "of-gateway", json!({ "name": "front", "namespace": "infra" }));
    let translated = objects.in_force();
    for (name, host) in [("of-set", "set.io"), ("of-gateway", "gateway.io")] {
        let routes = translated.routes(&format!("httproute/shop/{name}"));
        assert_eq!(routes[0]["host"], json!([host]), "{name}");
        let conditions = translated.conditions(&format!("HTTPRoute shop/{name}"), "parents");
        assert!(conditions.starts_with("Accepted=True"), "{name}: {conditions}");
    }
    let status = &translated.statuses["ListenerSet shop/more"];
    assert_eq!(summary(&status["conditions"]), "Accepted=True/Accepted Programmed=True/Programmed");
    assert_eq!(status["listeners"][0]["attachedRoutes"], 1);
    let gateway = &translated.statuses["Gateway infra/front"];
    assert_eq!(gateway["attachedListenerSets"], 1);
    assert_eq!(gateway["listeners"].as_array().unwrap().len(), 1);
}

#[test]
fn a_gateway_lets_no_sets_in_unless_it_says_so() {
    for (from, is_allowed) in [("None", false), ("Same", false), ("All", true)] {
        let mut objects = gateway(from);
        set(&mut objects, "more", "1", json!([http("it", 80, json!("set.io"))]));
        let translated = objects.in_force();
        let found = summary(&translated.statuses["ListenerSet shop/more"]["conditions"]);
        let expected = match is_allowed {
            true => "Accepted=True/Accepted Programmed=True/Programmed",
            false => "Accepted=False/NotAllowed Programmed=False/NotAllowed",
        };
        assert_eq!(found, expected, "{from}");
        let attached = &translated.statuses["Gateway infra/front"]["attachedListenerSets"];
        assert_eq!(*attached, if is_allowed { json!(1) } else { Value::Null }, "{from}");
    }
}

#[test]
fn the_gateway_and_then_the_older_set_has_a_host() {
    let mut objects = gateway("All");
    let host = |name: &str| http("it", 80, json!(name));
    set(&mut objects, "young", "2026-01-02T00:00:00Z", json!([host("set.io")]));
    set(&mut objects, "old", "2026-01-01T00:00:00Z", json!([host("set.io")]));
    set(&mut objects, "same", "2026-01-01T00:00:00Z", json!([host("gateway.io")]));
    let mut tcp = host("other.io");
    tcp["protocol"] = json!("TCP");
    set(&mut objects, "tcp", "2026-01-01T00:00:00Z", json!([tcp]));
    let translated = objects.in_force();
    let invalid = "Accepted=False/ListenersNotValid Programmed=False/ListenersNotValid";
    for (name, expected, listener) in [
        ("old", "Accepted=True/Accepted Programmed=True/Programmed", "Accepted=True/Accepted"),
        ("young", invalid, "Accepted=False/HostnameConflict Programmed=False/HostnameConflict"),
        ("same", invalid, "Accepted=False/HostnameConflict Programmed=False/HostnameConflict"),
        ("tcp", invalid, "Accepted=False/ProtocolConflict Programmed=False/ProtocolConflict"),
    ] {
        let status = &translated.statuses[&format!("ListenerSet shop/{name}")];
        assert_eq!(summary(&status["conditions"]), expected, "{name}");
        let found = summary(&status["listeners"][0]["conditions"]);
        assert!(found.starts_with(listener), "{name}: {found}");
    }
    assert_eq!(translated.statuses["Gateway infra/front"]["attachedListenerSets"], 1);
}

#[test]
fn sockets_are_bounded_and_what_has_none_says_so() {
    let mut objects = gateway("All");
    let ports = |from: u16, to: u16| -> Value {
        (from..to).map(|port| http(&format!("p{port}"), port, Value::Null)).collect()
    };
    set(&mut objects, "first", "2026-01-01T00:00:00Z", ports(1000, 1042));
    set(&mut objects, "second", "2026-01-02T00:00:00Z", ports(2000, 2020));
    // On a port that is there already it costs nothing.
    set(&mut objects, "third", "2026-01-03T00:00:00Z", json!([http("it", 80, json!("set.io"))]));
    let translated = objects.in_force();
    let sockets = translated.documents.keys().filter(|it| it.starts_with("listener/")).count();
    // Some are left for what files of the configuration listen on.
    assert_eq!(sockets, titan_config::bounds::MAX_LISTENERS - 8);
    let conditions = |set: &str, at: usize| {
        summary(
            &translated.statuses[&format!("ListenerSet shop/{set}")]["listeners"][at]["conditions"],
        )
    };
    assert!(conditions("second", 12).contains("Programmed=True"), "{}", conditions("second", 12));
    let beyond = conditions("second", 13);
    assert!(beyond.contains("Accepted=False/TooManyListeners"), "{beyond}");
    assert!(conditions("third", 0).contains("Programmed=True"), "{}", conditions("third", 0));
}
