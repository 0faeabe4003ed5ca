//! Titan's own policies at objects of Gateway API.

mod bounds;

use super::{CONTROLLER, Objects, Translated, http, served_by, summary};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use titan_kubernetes::cluster::Kind;
use titan_kubernetes::standing::Standing;

/// A gateway with a listener, and a route `cart` with rules `read` and `write`, whose service has a pod.
fn shop() -> Objects {
    let mut objects = Objects::new();
    objects.front().service("cart", "10.0.0.1");
    let rule = |name: &str, path: &str| {
        let mut rule = served_by("cart");
        rule["name"] = json!(name);
        rule["matches"] = json!([{ "path": { "type": "PathPrefix", "value": path } }]);
        rule
    };
    objects.route("cart", json!({ "rules": [rule("read", "/read"), rule("write", "/write")] }));
    objects
}

fn target(kind: &str, name: &str, section: Option<&str>) -> Value {
    let group = if kind == "Service" { "" } else { "gateway.networking.k8s.io" };
    let mut target = json!({ "group": group, "kind": kind, "name": name });
    if let Some(section) = section {
        target["sectionName"] = section.into();
    }
    target
}

impl Objects {
    /// A policy for these targets.
    fn policy(&mut self, key: &str, targets: &[Value], said: Value) -> &mut Objects {
        let (namespace, name) = key.split_once('/').unwrap();
        let mut spec = said;
        spec["targetRefs"] = json!(targets);
        self.add(Kind::TitanPolicy, namespace, name, json!({ "spec": spec }))
    }

    /// A secret that policies may name.
    fn secret(&mut self, namespace: &str, name: &str, key: &str, value: &str) -> &mut Objects {
        let data = json!({ key: STANDARD.encode(value) });
        self.add(Kind::PolicySecret, namespace, name, json!({ "data": data }))
    }
}

impl Translated {
    /// What the routes of `cart` apply or respond, by their paths.
    fn applied(&self) -> BTreeMap<String, String> {
        let routes = self.routes("httproute/shop/cart").into_iter().map(|route| {
            let path = route["prefix"].as_str().unwrap().to_owned();
            let apply = route["apply"].as_array().into_iter().flatten();
            let apply: Vec<_> =
                apply.map(|it| it.as_str().unwrap().replace(".titan.", ":")).collect();
            let does = match route.get("respond") {
                Some(respond) => respond["status"].to_string(),
                None => apply.join(" "),
            };
            (path, does)
        });
        routes.collect()
    }

    fn both(&self) -> [String; 2] {
        let applied = self.applied();
        ["/read", "/write"].map(|it| applied[it].clone())
    }

    /// `Accepted` of a policy at each of its ancestors, with the message.
    fn accepted(&self, policy: &str) -> String {
        let status = &self.statuses.get(&format!("TitanPolicy {policy}")).unwrap_or(&Value::Null);
        let each = status["ancestors"].as_array().into_iter().flatten().map(|it| {
            assert_eq!(it["controllerName"], CONTROLLER);
            let message = it["conditions"][0]["message"].as_str().unwrap();
            format!(
                "{}: {} {message}",
                it["ancestorRef"]["name"].as_str().unwrap(),
                summary(&it["conditions"])
            )
        });
        each.collect::<Vec<_>>().join("; ")
    }
}

/// A limit that tells itself from others by its rate.
fn limit(rate: &str) -> Value {
    json!({ "rate_limit": { "rates": rate } })
}

/// Tokens of a shared secret.
fn tokens(keys: Value) -> Value {
    json!({ "jwt": { "providers": { "algorithms": "HS256", "keys": keys } } })
}

fn guarded() -> Value {
    tokens(json!({ "secret_file": { "secretRef": { "name": "keys", "key": "hmac" } } }))
}

const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn the_most_specific_policy_holds() {
    let mut objects = shop();
    assert_eq!(objects.translated().both(), ["", ""]);
    objects.policy("infra/all", &[target("Gateway", "front", None)], limit("1/s"));
    let all = "infra.all:rate_limit";
    assert_eq!(objects.translated().both(), [all, all]);
    objects.policy("infra/part", &[target("Gateway", "front", Some("http"))], limit("2/s"));
    let part = "infra.part:rate_limit";
    assert_eq!(objects.translated().both(), [part, part]);
    objects.policy("shop/route", &[target("HTTPRoute", "cart", None)], limit("3/s"));
    let route = "shop.route:rate_limit";
    assert_eq!(objects.translated().both(), [route, route]);
    objects.policy("shop/rule", &[target("HTTPRoute", "cart", Some("write"))], limit("4/s"));
    let translated = objects.translated();
    assert_eq!(translated.both(), [route, "shop.rule:rate_limit"]);
    let policies = &translated.documents["titanpolicy/shop/rule"]["policies"];
    assert_eq!(policies["shop.rule.titan.rate_limit"], limit("4/s"));
    assert_eq!(translated.accepted("shop/rule"), "front: Accepted=True/Accepted ");
}

#[test]
fn other_words_are_inherited() {
    let mut objects = shop();
    objects.secret("infra", "keys", "hmac", SECRET);
    objects.policy("infra/all", &[target("Gateway", "front", None)], guarded());
    objects.policy("shop/route", &[target("HTTPRoute", "cart", None)], limit("3/s"));
    let both = "infra.all:jwt shop.route:rate_limit";
    assert_eq!(objects.translated().both(), [both, both]);
}

#[test]
fn listeners_of_one_socket_have_policies_of_their_own() {
    let mut objects = shop();
    let listeners = [http("http", 80, Value::Null), http("shop", 80, json!("shop.io"))];
    objects.gateway("front", json!(listeners));
    objects
        .route("cart", json!({ "hostnames": ["shop.io", "pay.io"], "rules": [served_by("cart")] }));
    objects.policy("infra/part", &[target("Gateway", "front", Some("shop"))], limit("2/s"));
    let translated = objects.translated();
    let routes = translated.routes("httproute/shop/cart").into_iter();
    let found: BTreeMap<_, _> =
        routes.map(|it| (it["host"].to_string(), it.get("apply").is_some())).collect();
    let expected = [(r#"["pay.io"]"#.to_owned(), false), (r#"["shop.io"]"#.to_owned(), true)];
    assert_eq!(found, expected.into());
}

#[test]
fn of_two_policies_for_one_thing_the_older_one_holds() {
    let mut objects = shop();
    let at = [target("HTTPRoute", "cart", None)];
    let dated = |time: &str, said: Value| {
        let mut spec = said;
        spec["targetRefs"] = json!(at);
        json!({ "metadata": { "creationTimestamp": time }, "spec": spec })
    };
    let mut both = limit("1/s");
    both["compress"] = json!({});
    objects.add(Kind::TitanPolicy, "shop", "a", dated("2026-01-02T00:00:00Z", both));
    objects.add(Kind::TitanPolicy, "shop", "b", dated("2026-01-01T00:00:00Z", limit("2/s")));
    let translated = objects.translated();
    let held = "shop.a:compress shop.b:rate_limit";
    assert_eq!(translated.both(), [held, held]);
    let lost = "front: Accepted=False/Conflicted `rate_limit` of cart: the policy shop/b is older and says it; all else of \
        this one holds";
    assert_eq!(translated.accepted("shop/a"), lost);
    assert_eq!(translated.accepted("shop/b"), "front: Accepted=True/Accepted ");
}

#[test]
fn what_protects_and_cannot_be_used_closes_its_routes_and_no_others() {
    let with = |word: &str| json!({ word: { "no_such_key": 1 } });
    for (said, expected, told) in [
        (tokens(json!({ "secret": "short" })), "503", "`jwt.providers"),
        (
            guarded(),
            "503",
            "there is no Secret shop/keys with the label `gateway.titan.test/for-policies: \"true\"`",
        ),
        (with("authorise"), "503", "`authorise"),
        (with("rate_limit"), "503", "`rate_limit"),
        (with("transform"), "503", "`transform"),
        (json!({ "limits": { "body": "much" } }), "503", "`limits.body`"),
        (json!({ "jtw": {} }), "503", "`jtw` is not known"),
        (json!({ "jtw": {}, "compress": {} }), "503", "`jtw` is not known"),
        (json!({ "health": "tcp", "jwt": {} }), "503", "`jwt"),
        (with("compress"), "", "`compress"),
        (json!({ "timeouts": { "total": "long" } }), "", "`timeouts.total`"),
    ] {
        let mut objects = shop();
        objects.route("other", json!({ "hostnames": ["b.io"], "rules": [served_by("cart")] }));
        objects.policy("shop/bad", &[target("HTTPRoute", "cart", Some("write"))], said.clone());
        let translated = objects.translated();
        assert_eq!(translated.both(), ["", expected], "{said}");
        let accepted = translated.accepted("shop/bad");
        assert!(accepted.starts_with("front: Accepted=False/Invalid"), "{accepted}");
        assert!(accepted.contains(told), "{said}: {accepted}");
        assert!(translated.routes("httproute/shop/other")[0].get("upstream").is_some(), "{said}");
    }
}

#[test]
fn what_the_gateway_refuses_is_closed_until_it_takes_it() {
    let mut objects = shop();
    objects.secret("shop", "keys", "hmac", SECRET);
    objects.policy("shop/keys", &[target("HTTPRoute", "cart", None)], guarded());
    let translated = objects.translated();
    let documents = || translated.documents.keys().map(String::as_str);
    let file = translated.documents["titanpolicy/shop/keys"]["policies"]["shop.keys.titan.jwt"]["jwt"]["providers"]["keys"]
        ["secret_file"]
        .clone();
    let file = file.as_str().unwrap();
    assert!(file.starts_with("/run/titan/"), "{file}");
    let refused =
        BTreeMap::from([("titanpolicy/shop/keys".to_owned(), format!("{file}: it is bad"))]);
    let mut standing = Standing::default();
    standing.note(documents(), &refused, true);
    let closed = objects.translated_with(&standing);
    assert_eq!(closed.both(), ["503", "503"]);
    let told = "front: Accepted=False/Invalid Secret shop/keys, `hmac`: it is bad";
    assert_eq!(closed.accepted("shop/keys"), told);
    assert!(
        closed.documents.contains_key("titanpolicy/shop/keys"),
        "it would never be judged again"
    );
    standing.note(documents(), &BTreeMap::new(), true);
    assert_eq!(objects.translated_with(&standing).both(), ["shop.keys:jwt", "shop.keys:jwt"]);
}

#[test]
fn policies_are_judged_together() {
    let scopes = json!({ "authorise": { "scopes": "cart:write" } });
    let mut objects = shop();
    objects.policy("shop/write", &[target("HTTPRoute", "cart", Some("write"))], scopes);
    objects.policy("infra/all", &[target("Gateway", "front", None)], limit("1/s"));
    let translated = objects.translated();
    assert_eq!(translated.both(), ["infra.all:rate_limit", "503"]);
    let accepted = translated.accepted("shop/write");
    assert!(
        accepted.contains("Invalid together with the other policies of a route: "),
        "{accepted}"
    );
    assert!(accepted.contains("jwt"), "{accepted}");
    assert_eq!(translated.accepted("infra/all"), "front: Accepted=True/Accepted ");
    objects.secret("infra", "keys", "hmac", SECRET);
    objects.policy("infra/all", &[target("Gateway", "front", None)], guarded());
    let translated = objects.translated();
    assert_eq!(translated.both(), ["infra.all:jwt", "infra.all:jwt shop.write:authorise"]);
}

#[test]
fn policies_name_objects_of_their_own_namespace_and_no_files() {
    let file =
        |keys: Value| json!({ "jwt": { "providers": { "algorithms": "ES256", "keys": keys } } });
    let ca = json!({ "url": "https://id.io/keys", "ca": "/etc/ssl/a.pem" });
    let map = json!({ "configMapRef": { "name": "keys", "key": "jwks" } });
    for (said, told) in [
        (file(json!({ "jwks": "/etc/shadow" })), "`/etc/shadow` is a file of the gateway"),
        (file(json!({ "jwks_url": ca })), "`/etc/ssl/a.pem` is a file of the gateway"),
        (
            file(
                json!({ "jwks": { "configMapRef": { "name": "keys", "key": "jwks", "namespace": "infra" } } }),
            ),
            "namespace",
        ),
        (
            file(json!({ "jwks": { "secretRef": { "name": "front-tls", "key": "tls.key" } } })),
            "no Secret shop/front-tls",
        ),
        (
            file(json!({ "jwks": { "configMapRef": { "name": "none", "key": "jwks" } } })),
            "no ConfigMap shop/none",
        ),
        (
            file(json!({ "jwks": { "configMapRef": { "name": "keys", "key": "other" } } })),
            "has no key `other`",
        ),
        (tokens(json!({ "secret": map })), "stand for files"),
        (
            json!({ "authorise": { "forward_auth": { "upstream": "pay.internal.80" } } }),
            "names a service",
        ),
        (
            json!({ "authorise": { "forward_auth": { "backendRef": { "name": "a", "port": 80 }, "configMapRef": map["configMapRef"] } } }),
            "expected a mapping with `backendRef`, not a file",
        ),
        (json!({ "rate_limit": { "rates": "1/s", "shared": "redis" } }), "redis"),
        (
            json!({ "rate_limit": { "rates": "1/s", "capacity": 4_000_000 } }),
            "`rate_limit.capacity`",
        ),
        (
            json!({ "jwt": { "cache": 1_000_000, "providers": { "algorithms": "HS256", "keys": { "secret": SECRET } } } }),
            "`jwt.cache`",
        ),
        (json!({}), "it says nothing"),
    ] {
        let mut objects = shop();
        objects.certificate("shop", "front-tls");
        objects.add(
            Kind::ConfigMap,
            "infra",
            "keys",
            json!({ "data": { "jwks": "{\"keys\":[]}" } }),
        );
        objects.add(
            Kind::ConfigMap,
            "shop",
            "keys",
            json!({ "data": { "jwks": "{\"keys\":[]}" } }),
        );
        objects.policy("shop/bad", &[target("HTTPRoute", "cart", None)], said.clone());
        let translated = objects.translated();
        let accepted = translated.accepted("shop/bad");
        let is_empty = said.as_object().unwrap().is_empty();
        assert!(accepted.contains(told) || is_empty, "{said}: {accepted}");
        if !is_empty {
            assert_eq!(translated.both(), ["503", "503"], "{said}");
        }
        assert!(!accepted.contains(SECRET) && !accepted.contains("/run/titan"), "{accepted}");
    }
    let mut objects = shop();
    objects.add(Kind::ConfigMap, "shop", "keys", json!({ "data": { "jwks": "{\"keys\":[]}" } }));
    objects.policy("shop/good", &[target("HTTPRoute", "cart", None)], file(json!({ "jwks": map })));
    assert_eq!(objects.translated().both(), ["shop.good:jwt", "shop.good:jwt"]);
}

#[test]
fn variables_are_text() {
    let mut objects = shop();
    let said = json!({ "jwt": { "realm": "${HOME}", "providers": { "algorithms": "HS256", "keys": { "secret": SECRET } } } });
    objects.policy("shop/good", &[target("HTTPRoute", "cart", None)], said);
    let documents = objects.translated().documents;
    let policy = &documents["titanpolicy/shop/good"]["policies"]["shop.good.titan.jwt"]["jwt"];
    assert_eq!(policy["realm"], "$${HOME}");
}

#[test]
fn policies_hold_in_their_namespace_alone() {
    let mut objects = shop();
    objects.policy("infra/alien", &[target("HTTPRoute", "cart", None)], limit("1/s"));
    objects.policy("shop/alien", &[target("Gateway", "front", None)], limit("1/s"));
    objects.policy("shop/typo", &[target("HTTPRoute", "cart", Some("wirte"))], limit("1/s"));
    objects.policy(
        "shop/bucket",
        &[target("Bucket", "cart", None), target("HTTPRoute", "cart", Some("read"))],
        limit("1/s"),
    );
    let mut of_services = target("HTTPRoute", "cart", None);
    of_services["group"] = "".into();
    objects.policy("shop/group", &[of_services], limit("1/s"));
    let translated = objects.translated();
    // What protects a rule that is not there closes all rules: one of them may have had its name.
    assert_eq!(translated.both(), ["503", "503"]);
    for (policy, expected) in [
        ("infra/alien", "cart: Accepted=False/TargetNotFound"),
        ("shop/alien", "front: Accepted=False/TargetNotFound"),
        ("shop/typo", "cart: Accepted=False/TargetNotFound"),
        ("shop/bucket", "cart: Accepted=False/TargetNotFound"),
        ("shop/group", "cart: Accepted=False/TargetNotFound"),
    ] {
        let accepted = translated.accepted(policy);
        assert!(accepted.starts_with(expected), "{accepted}");
    }
    let bucket = "; front: Accepted=False/Invalid `targetRefs`: Bucket cart";
    assert!(translated.accepted("shop/bucket").contains(bucket));
}

#[test]
fn services_have_policies_too() {
    let mut objects = shop();
    let said = json!({ "circuit_breaker": {}, "health": "tcp", "max_connections": 10 });
    objects.policy("shop/pods", &[target("Service", "cart", None)], said);
    let translated = objects.translated();
    let upstream = &translated.documents["service/shop/cart/8080"]["upstreams"]["shop.cart.8080"];
    assert_eq!((&upstream["health"], &upstream["max_connections"]), (&json!("tcp"), &json!(10)));
    assert_eq!(translated.accepted("shop/pods"), "front: Accepted=True/Accepted ");
    // What is said in the wrong place has no effect, unless it protects.
    for (kind, said, expected) in [
        (
            "Service",
            json!({ "jwt": { "providers": { "algorithms": "HS256", "keys": { "secret": SECRET } } } }),
            "500",
        ),
        ("Service", json!({ "compress": {} }), ""),
        ("HTTPRoute", json!({ "health": "tcp" }), ""),
    ] {
        let mut objects = shop();
        objects.policy("shop/pods", &[target(kind, "cart", None)], said.clone());
        let translated = objects.translated();
        assert_eq!(translated.both(), [expected, expected], "{said}");
    }
}

#[test]
fn fields_of_routes_are_those_of_the_policy_unless_the_rule_has_them() {
    let mut objects = shop();
    let mut rule = served_by("cart");
    rule["timeouts"] = json!({ "request": "3s" });
    rule["filters"] = json!([{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "set": [{ "name": "a", "value": "rule" }] } }]);
    objects.route("cart", json!({ "rules": [rule] }));
    let said = json!({
        "timeouts": { "total": "9s", "connect": "1s" },
        "limits": { "body": "1MiB" },
        "transform": { "request": { "headers": { "set": { "a": "policy", "b": "policy" }, "remove": ["c"] } } },
    });
    objects.policy("shop/route", &[target("HTTPRoute", "cart", None)], said);
    let translated = objects.translated();
    let route = translated.routes("httproute/shop/cart")[0];
    assert_eq!(
        route["timeouts"],
        json!({ "total": "3000ms", "response": "3000ms", "connect": "1s" })
    );
    assert_eq!(route["limits"], json!({ "body": "1MiB" }));
    let name = route["apply"][0].as_str().unwrap();
    let transform = &translated.documents["httproute/shop/cart"]["policies"][name]["transform"];
    let headers = json!({ "set": { "a": "rule", "b": "policy" }, "remove": ["c"] });
    assert_eq!(transform["request"]["headers"], headers);
}

#[test]
fn a_service_decides_about_requests() {
    let said = json!({ "authorise": { "forward_auth": { "backendRef": { "name": "sso", "port": 8080 }, "path": "/check" } } });
    let mut objects = shop();
    objects.policy("shop/sso", &[target("HTTPRoute", "cart", None)], said);
    let translated = objects.translated();
    assert_eq!(translated.both(), ["503", "503"]);
    assert!(translated.accepted("shop/sso").contains("there is no service shop/sso"));
    objects.service("sso", "10.0.0.3").slice("sso", json!([]));
    let upstream = |objects: &Objects| {
        let translated = objects.translated();
        assert_eq!(translated.both(), ["shop.sso:authorise", "shop.sso:authorise"]);
        let policy =
            &translated.documents["titanpolicy/shop/sso"]["policies"]["shop.sso.titan.authorise"];
        policy["authorise"]["forward_auth"]["upstream"].as_str().unwrap().to_owned()
    };
    assert_eq!(upstream(&objects), "nobody");
    objects.service("sso", "10.0.0.3");
    assert_eq!(upstream(&objects), "shop.sso.8080");
}

#[test]
fn the_youngest_of_too_many_policies_are_refused() {
    let mut objects = shop();
    for at in 0..64 {
        let nothing = json!({});
        objects.policy(&format!("shop/p{at:02}"), &[target("HTTPRoute", "none", None)], nothing);
    }
    objects.policy("shop/p64", &[target("HTTPRoute", "cart", None)], limit("1/s"));
    let translated = objects.translated();
    assert_eq!(translated.both(), ["503", "503"]);
    assert!(translated.accepted("shop/p64").contains("at most 64 policies of a namespace"));
}
