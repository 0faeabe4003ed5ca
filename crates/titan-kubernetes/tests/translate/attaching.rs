//! Routes and the listeners that they attach to.

use super::{Objects, http, served_by};
use serde_json::{Value, json};
use titan_kubernetes::cluster::Kind;

fn attached(listener: Value, route: Value) -> (String, u64) {
    let mut objects = Objects::new();
    let mut whole = http("http", 80, Value::Null);
    whole.as_object_mut().unwrap().extend(listener.as_object().unwrap().clone());
    objects.gateway("front", json!([whole])).service("cart", "10.0.0.1");
    let mut rest = json!({ "rules": [served_by("cart")] });
    rest.as_object_mut().unwrap().extend(route.as_object().unwrap().clone());
    objects.route("cart", rest);
    let translated = objects.in_force();
    let conditions = translated.conditions("HTTPRoute shop/cart", "parents");
    let accepted = conditions.split(' ').next().unwrap().to_owned();
    let count =
        translated.statuses["Gateway infra/front"]["listeners"][0]["attachedRoutes"].as_u64();
    assert_eq!(translated.routes("httproute/shop/cart").is_empty(), count == Some(0));
    (accepted, count.unwrap())
}

#[test]
fn listeners_choose_their_routes() {
    let namespaces = |from: Value| json!({ "allowedRoutes": { "namespaces": from } });
    let shop = json!({ "matchLabels": { "team": "shop" } });
    let pay = json!({ "matchLabels": { "team": "pay" } });
    for (listener, expected) in [
        (json!({}), "Accepted=True/Accepted"),
        (namespaces(json!({ "from": "Same" })), "Accepted=False/NotAllowedByListeners"),
        (namespaces(json!({})), "Accepted=False/NotAllowedByListeners"),
        (namespaces(json!({ "from": "Selector", "selector": shop })), "Accepted=True/Accepted"),
        (
            namespaces(json!({ "from": "Selector", "selector": pay })),
            "Accepted=False/NotAllowedByListeners",
        ),
        (namespaces(json!({ "from": "Selector" })), "Accepted=False/NotAllowedByListeners"),
        (
            json!({ "allowedRoutes": { "kinds": [{ "kind": "GRPCRoute" }], "namespaces": { "from": "All" } } }),
            "Accepted=False/NotAllowedByListeners",
        ),
    ] {
        let (accepted, count) = attached(listener.clone(), json!({}));
        assert_eq!(accepted, expected, "{listener}");
        assert_eq!(count, u64::from(expected.contains("True")), "{listener}");
    }
}

#[test]
fn routes_choose_their_listeners() {
    let parent = |rest: Value| {
        let mut parent = json!({ "name": "front", "namespace": "infra" });
        parent.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({ "parentRefs": [parent] })
    };
    for (rest, expected) in [
        (json!({ "sectionName": "http" }), "Accepted=True/Accepted"),
        (json!({ "sectionName": "https" }), "Accepted=False/NoMatchingParent"),
        (json!({ "port": 80 }), "Accepted=True/Accepted"),
        (json!({ "port": 81 }), "Accepted=False/NoMatchingParent"),
        (json!({ "port": 81, "sectionName": "http" }), "Accepted=False/NoMatchingParent"),
    ] {
        assert_eq!(attached(json!({}), parent(rest.clone())).0, expected, "{rest}");
    }
}

#[test]
fn hosts_have_to_fit() {
    for (listener, route, expected) in [
        ("a.example.com", json!(["a.example.com"]), "Accepted=True/Accepted"),
        ("*.example.com", json!(["b.org", "a.example.com"]), "Accepted=True/Accepted"),
        ("*.example.com", json!(["example.com"]), "Accepted=False/NoMatchingListenerHostname"),
    ] {
        let found = attached(json!({ "hostname": listener }), json!({ "hostnames": route }));
        assert_eq!(found.0, expected, "{listener}");
    }
}

#[test]
fn a_host_belongs_to_the_most_specific_listener() {
    let mut objects = Objects::new();
    let listeners =
        [("all", Value::Null), ("wild", json!("*.example.com")), ("exact", json!("a.example.com"))];
    let listeners = listeners.map(|(name, host)| http(name, 80, host));
    objects.gateway("front", listeners.into_iter().collect()).service("cart", "10.0.0.1");
    for section in ["all", "wild", "exact"] {
        let parent = json!({ "name": "front", "namespace": "infra", "sectionName": section });
        let hosts = json!(["a.example.com", "b.example.com", "b.org"]);
        objects.route(
            section,
            json!({ "parentRefs": [parent], "hostnames": hosts, "rules": [served_by("cart")] }),
        );
    }
    let translated = objects.translated();
    for (section, expected) in [
        ("all", json!(["b.org"])),
        ("wild", json!(["b.example.com"])),
        ("exact", json!(["a.example.com"])),
    ] {
        let routes = translated.routes(&format!("httproute/shop/{section}"));
        assert_eq!(
            routes.iter().map(|it| &it["host"]).collect::<Vec<_>>(),
            [&expected],
            "{section}"
        );
    }
    // What no route of a listener takes is taken by none of another one.
    let guards = translated.routes("listener/infra.front.80");
    let hosts: Vec<_> = guards.iter().map(|it| it["host"][0].as_str().unwrap_or("any")).collect();
    assert_eq!(hosts, ["any", "*.example.com"], "a route for all paths has the third one");
    assert!(guards.iter().all(|it| it["respond"]["status"] == 404));
}

#[test]
fn statuses_of_other_controllers_stay() {
    let mut objects = Objects::new();
    objects.front();
    let other = json!({ "controllerName": "example.com/other", "parentRef": { "name": "x" }, "conditions": [] });
    let spec = json!({ "parentRefs": [{ "name": "gone", "namespace": "infra" }] });
    let ours = json!({ "controllerName": super::CONTROLLER, "parentRef": { "name": "gone" }, "conditions": [] });
    let object = json!({ "spec": spec, "status": { "parents": [ours, other] } });
    objects.add(Kind::HttpRoute, "shop", "cart", object);
    assert_eq!(objects.translated().statuses["HTTPRoute shop/cart"]["parents"], json!([other]));
}
