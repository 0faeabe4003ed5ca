//! What rules become.

use super::{Objects, served_by};
use serde_json::{Value, json};
use titan_kubernetes::cluster::Kind;

/// What the only route of a rule is, without what is the same for all.
fn route(rule: Value) -> Value {
    let mut objects = Objects::new();
    objects.front().service("cart", "10.0.0.1").service("copy", "10.0.0.2");
    objects.route("cart", json!({ "rules": [rule] }));
    let translated = objects.translated();
    let routes = translated.routes("httproute/shop/cart");
    let [route] = routes[..] else { panic!("{:?}", translated.statuses) };
    let mut route = route.clone();
    for key in ["name", "listeners", "priority"] {
        assert!(!route.as_object_mut().unwrap().remove(key).unwrap().is_null());
    }
    if let Some(policies) = translated.documents["httproute/shop/cart"].get("policies") {
        let policies: Vec<_> = policies.as_object().unwrap().values().collect();
        route["apply"] = json!(policies);
    }
    route
}

fn with(rest: Value) -> Value {
    let mut rule = served_by("cart");
    rule.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    rule
}

fn filter(of_type: &str, key: &str, value: Value) -> Value {
    with(json!({ "filters": [{ "type": of_type, key: value }] }))
}

#[test]
fn a_rule_is_served_by_its_service() {
    let upstream = json!({ "shop.cart.8080": 1 });
    assert_eq!(route(with(json!({}))), json!({ "prefix": "/", "upstream": upstream }));
}

#[test]
fn filters_become_policies_and_actions() {
    let upstream = json!({ "shop.cart.8080": 1 });
    let changes = json!({ "set": [{ "name": "A", "value": "{x}" }], "add": [{ "name": "B", "value": "${HOME}" }], "remove": ["C"] });
    // As it is read: the text has `$$` for the dollar.
    let written =
        json!({ "set": { "a": "{{x}}" }, "append": { "b": "$${{HOME}}" }, "remove": ["C"] });
    for (rule, expected) in [
        (
            filter("RequestHeaderModifier", "requestHeaderModifier", changes.clone()),
            json!({ "prefix": "/", "upstream": upstream, "apply": [{ "transform": { "request": { "headers": written } } }] }),
        ),
        (
            filter("ResponseHeaderModifier", "responseHeaderModifier", changes),
            json!({ "prefix": "/", "upstream": upstream, "apply": [{ "transform": { "response": { "headers": written } } }] }),
        ),
        (
            filter(
                "RequestMirror",
                "requestMirror",
                json!({ "backendRef": { "name": "copy", "port": 8080 }, "percent": 20 }),
            ),
            json!({ "prefix": "/", "upstream": upstream, "mirror": [{ "upstream": "shop.copy.8080", "share": "20%" }] }),
        ),
        (
            filter(
                "URLRewrite",
                "urlRewrite",
                json!({ "hostname": "one.example.org", "path": { "type": "ReplacePrefixMatch", "replacePrefixMatch": "/one/" } }),
            ),
            json!({ "prefix": "/", "upstream": upstream, "send_host": "one.example.org", "rewrite": { "prefix": "/one" } }),
        ),
        (
            json!({ "filters": [{ "type": "RequestRedirect", "requestRedirect": { "scheme": "https", "statusCode": 301 } }] }),
            json!({ "prefix": "/", "redirect": { "to": "https://{hostname}{path}{query}", "status": 301 } }),
        ),
    ] {
        assert_eq!(route(rule.clone()), expected, "{rule}");
    }
}

#[test]
fn copies_go_to_each_backend_once() {
    let mirror = |name: &str, rest: Value| {
        let mut mirror = json!({ "backendRef": { "name": name, "port": 8080 } });
        mirror.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({ "type": "RequestMirror", "requestMirror": mirror })
    };
    let mut objects = Objects::new();
    objects.front().service("cart", "10.0.0.1");
    objects.service("copy", "10.0.0.2").service("other", "10.0.0.3");
    let filters = [
        mirror("copy", json!({})),
        mirror("other", json!({ "percent": 5 })),
        mirror("copy", json!({ "percent": 7 })),
        mirror("other", json!({ "percent": 0 })),
    ];
    objects.route("cart", json!({ "rules": [with(json!({ "filters": filters }))] }));
    let expected = json!([
        { "upstream": "shop.copy.8080", "share": "100%" },
        { "upstream": "shop.other.8080", "share": "5%" },
    ]);
    assert_eq!(objects.translated().routes("httproute/shop/cart")[0]["mirror"], expected);
}

#[test]
fn pages_of_other_origins_may_read_responses() {
    let cors =
        json!({ "allowOrigins": ["https://a.example.com"], "allowMethods": ["PUT"], "maxAge": 60 });
    let found = route(filter("CORS", "cors", cors));
    assert_eq!(
        found["apply"],
        json!([{ "cors": { "origins": ["https://a.example.com"], "methods": ["PUT"], "max_age": "60s" } }])
    );
    for any in [
        json!({ "allowOrigins": ["*"] }),
        json!({ "allowOrigins": ["*"], "allowCredentials": true, "allowMethods": ["*"], "allowHeaders": ["*"] }),
    ] {
        route(filter("CORS", "cors", any));
    }
}

#[test]
fn times_and_retries_are_taken_over() {
    for (rule, expected) in [
        (
            json!({ "timeouts": { "request": "2s" } }),
            json!({ "timeouts": { "total": "2000ms", "response": "2000ms" } }),
        ),
        (
            json!({ "timeouts": { "request": "0s" } }),
            json!({ "timeouts": { "total": "unlimited", "response": "86400000ms" } }),
        ),
        (
            json!({ "timeouts": { "backendRequest": "500ms" } }),
            json!({ "timeouts": { "response": "500ms" } }),
        ),
        (
            json!({ "retry": { "codes": [500, 503], "attempts": 3, "backoff": "100ms" }, "timeouts": { "backendRequest": "1s" } }),
            json!({
                "timeouts": { "response": "1000ms" },
                "retries": {
                    "attempts": 3, "statuses": ["500", "503"], "per_try_timeout": "1000ms",
                    "on": ["connect", "refused_stream", "reset_before_response", "timeout"],
                    "backoff": { "base": "100ms", "max": "60s" },
                },
            }),
        ),
    ] {
        let mut found = route(with(rule.clone()));
        for key in ["prefix", "upstream"] {
            found.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(found, expected, "{rule}");
    }
}

#[test]
fn what_is_not_supported_is_refused_as_a_whole() {
    for rule in [
        json!({ "matches": [{ "path": { "type": "RegularExpression", "value": "/a+" } }] }),
        json!({ "filters": [{ "type": "ExtensionRef" }] }),
        json!({ "sessionPersistence": { "sessionName": "a" } }),
        json!({ "timeouts": { "request": "soon" } }),
    ] {
        let mut objects = Objects::new();
        objects.front().service("cart", "10.0.0.1");
        objects.route("cart", json!({ "rules": [with(json!({})), with(rule.clone())] }));
        let translated = objects.translated();
        assert!(translated.routes("httproute/shop/cart").is_empty(), "{rule}");
        let conditions = translated.conditions("HTTPRoute shop/cart", "parents");
        assert!(conditions.starts_with("Accepted=False/UnsupportedValue"), "{rule}: {conditions}");
    }
}

#[test]
fn the_more_specific_and_the_older_come_first() {
    let mut objects = Objects::new();
    objects.front().service("cart", "10.0.0.1");
    let parent = json!([{ "name": "front", "namespace": "infra" }]);
    let header = |name: &str| json!({ "name": name, "value": "1" });
    for (name, created, matching) in [
        ("young", "2026-01-02T00:00:00Z", json!({ "headers": [header("a")] })),
        ("old", "2026-01-01T00:00:00Z", json!({ "headers": [header("b")] })),
        ("same", "2026-01-03T00:00:00Z", json!({ "headers": [header("A")] })),
        ("more", "2026-01-03T00:00:00Z", json!({ "headers": [header("a"), header("b")] })),
        ("method", "2026-01-03T00:00:00Z", json!({ "method": "GET" })),
        ("any", "2026-01-01T00:00:00Z", json!({})),
    ] {
        let mut rule = served_by("cart");
        rule["matches"] = json!([matching]);
        let spec = json!({ "parentRefs": parent, "rules": [rule] });
        let metadata = json!({ "creationTimestamp": created });
        objects.add(Kind::HttpRoute, "shop", name, json!({ "metadata": metadata, "spec": spec }));
    }
    let translated = objects.translated();
    let priority = |name: &str| {
        translated
            .routes(&format!("httproute/shop/{name}"))
            .first()
            .map(|it| it["priority"].as_i64().unwrap())
    };
    let mut names = ["young", "old", "more", "method", "any"];
    names.sort_by_key(|name| -priority(name).unwrap());
    assert_eq!(names, ["method", "more", "old", "young", "any"]);
    assert_eq!(priority("same"), None, "the older one takes all of its requests");
}

#[test]
fn grpc_calls_are_sent_over_http_2() {
    let mut objects = Objects::new();
    objects.front().service("cart", "10.0.0.1");
    let mut rule = served_by("cart");
    rule["matches"] = json!([{ "method": { "service": "shop.Cart", "method": "Add" } }]);
    let spec =
        json!({ "parentRefs": [{ "name": "front", "namespace": "infra" }], "rules": [rule] });
    objects.add(Kind::GrpcRoute, "shop", "cart", json!({ "spec": spec }));
    let translated = objects.translated();
    assert_eq!(translated.routes("grpcroute/shop/cart")[0]["path"], "/shop.Cart/Add");
    let upstreams = &translated.documents["service/shop/cart/8080/h2"]["upstreams"];
    assert_eq!(upstreams["shop.cart.8080.h2"]["protocol"], "h2");
}

#[test]
fn a_refused_document_is_told_of() {
    use std::collections::BTreeMap;
    use titan_kubernetes::standing::Standing;
    let mut objects = Objects::new();
    objects
        .front()
        .service("cart", "10.0.0.1")
        .route("cart", json!({ "rules": [served_by("cart")] }));
    let mut standing = Standing::default();
    let refused = BTreeMap::from([("httproute/shop/cart".to_owned(), "no such thing".to_owned())]);
    standing.note(["httproute/shop/cart", "listener/infra.front.80"].into_iter(), &refused, true);
    let status = &objects.translated_with(&standing).statuses["HTTPRoute shop/cart"]["parents"][0]
        ["conditions"][0];
    assert_eq!([&status["status"], &status["message"]], ["False", "no such thing"]);
}
