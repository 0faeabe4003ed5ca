//! What policies may cost, and what is closed where one cannot be used.

use super::{SECRET, guarded, limit, shop, target, tokens};
use crate::{Objects, Translated, http, served_by};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use titan_kubernetes::cluster::Kind;
use titan_kubernetes::standing::Standing;
use titan_kubernetes::translate::Judgements;

/// A policy at the route `cart`.
fn at_cart(objects: &mut Objects, name: &str, said: Value) {
    objects.policy(&format!("shop/{name}"), &[target("HTTPRoute", "cart", None)], said);
}

#[test]
fn words_that_protect_nothing_take_no_others_with_them() {
    let with = |mut said: Value, word: &str, value: Value| {
        said[word] = value;
        said
    };
    let bad = json!({ "no_such_key": 1 });
    let jwt = "shop.both:jwt";
    for (said, expected, told) in [
        (with(guarded(), "compress", bad.clone()), jwt, "`compress"),
        (with(guarded(), "timeouts", json!({ "total": "long" })), jwt, "`timeouts.total`"),
        (with(guarded(), "health", json!("tcp")), jwt, "`health` is for a Service"),
        (
            with(with(guarded(), "compress", bad.clone()), "cors", json!({ "origins": "*" })),
            "shop.both:cors shop.both:jwt",
            "`compress",
        ),
        (with(guarded(), "rate_limit", bad.clone()), "503", "`rate_limit"),
        (with(guarded(), "jtw", json!({})), "503", "`jtw`"),
    ] {
        let mut objects = shop();
        objects.secret("shop", "keys", "hmac", SECRET);
        at_cart(&mut objects, "both", said.clone());
        let translated = objects.translated();
        assert_eq!(translated.both(), [expected, expected], "{said}");
        let accepted = translated.accepted("shop/both");
        assert!(accepted.starts_with("front: Accepted=False/Invalid"), "{accepted}");
        assert!(accepted.contains(told), "{said}: {accepted}");
    }
}

#[test]
fn files_of_policies_are_bounded() {
    let at_most = 64 << 10;
    let named = |key: &str| {
        tokens(json!({ "secret_file": { "secretRef": { "name": "keys", "key": key } } }))
    };
    let mut objects = shop();
    objects.secret("shop", "keys", "k", &"x".repeat(at_most + 1));
    at_cart(&mut objects, "large", named("k"));
    let translated = objects.translated();
    assert_eq!((translated.both(), translated.files), (["503".to_owned(), "503".to_owned()], 0));
    let told = "Secret shop/keys: `k`: it has 65537 bytes, more than 64 KiB";
    assert!(translated.accepted("shop/large").contains(told));

    // Several files of one policy.
    let mut objects = shop();
    let data: serde_json::Map<_, _> = (0..5)
        .map(|at: usize| (at.to_string(), json!(STANDARD.encode(at.to_string().repeat(at_most)))))
        .collect();
    objects.add(Kind::PolicySecret, "shop", "keys", json!({ "data": data }));
    let files = |many: usize| {
        let provider = |at: usize| {
            let key = json!({ "secretRef": { "name": "keys", "key": at.to_string() } });
            json!({ "issuer": format!("https://i{at}.io"), "algorithms": "HS256", "keys": { "secret_file": key } })
        };
        json!({ "jwt": { "providers": (0..many).map(provider).collect::<Vec<_>>() } })
    };
    at_cart(&mut objects, "many", files(4));
    let translated = objects.translated();
    assert_eq!((translated.both()[0].as_str(), translated.files), ("shop.many:jwt", 4));
    at_cart(&mut objects, "many", files(5));
    let translated = objects.translated();
    assert_eq!((translated.both()[0].as_str(), translated.files), ("503", 0));
    assert!(translated.accepted("shop/many").contains("more than the 256 KiB"));
}

#[test]
fn what_no_route_applies_is_not_written() {
    let mut objects = shop();
    objects.secret("shop", "keys", "hmac", SECRET);
    objects.route("other", json!({ "rules": [served_by("none")] }));
    let mut said = guarded();
    said["rate_limit"] = limit("1/s")["rate_limit"].clone();
    objects.policy("shop/unused", &[target("HTTPRoute", "none", None)], said.clone());
    assert!(!objects.translated().documents.contains_key("titanpolicy/shop/unused"));
    assert_eq!(objects.translated().files, 0);
    // Of one that another one stands in front of in part, the rest is.
    at_cart(&mut objects, "used", said);
    objects.policy("shop/rule", &[target("HTTPRoute", "cart", Some("read"))], limit("2/s"));
    objects.policy("shop/rest", &[target("HTTPRoute", "cart", Some("write"))], limit("2/s"));
    let policies = objects.translated().documents["titanpolicy/shop/used"]["policies"].clone();
    let names: Vec<_> = policies.as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["shop.used.titan.jwt"]);
}

#[test]
fn a_route_that_is_refused_with_its_policies_is_closed_until_it_says_something_else() {
    let cart = "httproute/shop/cart";
    let mut objects = shop();
    at_cart(&mut objects, "limit", limit("1/s"));
    let mut standing = Standing::default();
    let refuse = |standing: &mut Standing, translated: &Translated| {
        let names = translated.documents.keys().map(String::as_str);
        let why = BTreeMap::from([(cart.to_owned(), "too many routes".to_owned())]);
        standing.note(names, &why, true);
        standing.note_refused_form(cart, translated.forms[cart].clone(), "too many routes");
    };
    refuse(&mut standing, &objects.translated());
    let closed = objects.translated_with(&standing);
    assert_eq!(closed.both(), ["503", "503"]);
    let told =
        format!("front: Accepted=False/Invalid {cart} is not served with it: too many routes");
    assert_eq!(closed.accepted("shop/limit"), told);
    assert_eq!(
        closed.conditions("HTTPRoute shop/cart", "parents"),
        "Accepted=False/UnsupportedValue ResolvedRefs=True/ResolvedRefs"
    );
    // It takes nothing open from the gateway that the closed one is in force.
    let names = closed.documents.keys().map(String::as_str);
    standing.note(names, &BTreeMap::new(), true);
    assert_eq!(objects.translated_with(&standing).both(), ["503", "503"]);
    // Where not even that can be in force, nothing is.
    let mut worse = standing.clone();
    refuse(&mut worse, &closed);
    assert!(!objects.translated_with(&worse).documents.contains_key(cart));
    // Another limit is something else, and so is time.
    at_cart(&mut objects, "limit", limit("2/s"));
    assert_eq!(objects.translated_with(&standing).both()[0], "shop.limit:rate_limit");
    at_cart(&mut objects, "limit", limit("1/s"));
    assert_eq!(objects.translated_with(&standing).both()[0], "503");
    standing.forget_refused_form(cart);
    assert_eq!(objects.translated_with(&standing).both()[0], "shop.limit:rate_limit");
}

#[test]
fn a_section_that_is_not_there_any_more_closes_what_it_is_of() {
    let mut objects = shop();
    let at = |section: &str| [target("HTTPRoute", "cart", Some(section))];
    objects.policy("shop/rule", &at("gone"), limit("1/s"));
    objects.policy("shop/own", &at("read"), limit("2/s"));
    let translated = objects.translated();
    assert_eq!(translated.both(), ["503", "503"]);
    let accepted = translated.accepted("shop/rule");
    assert!(accepted.starts_with("cart: Accepted=False/TargetNotFound"), "{accepted}");
    assert!(accepted.contains("all of it is closed"), "{accepted}");
    let warned = |it: &&String| it.starts_with("TitanPolicy shop/rule: HTTPRoute cart: ");
    assert_eq!(translated.warnings.iter().filter(warned).count(), 1, "{:?}", translated.warnings);
    // What protects nothing closes nothing.
    objects.policy("shop/rule", &at("gone"), json!({ "compress": {} }));
    assert_eq!(objects.translated().both(), ["shop.own:rate_limit", ""]);
    // Nor does one for a listener reach beyond its Gateway.
    let mut objects = shop();
    objects.gateway("back", json!([http("http", 81, Value::Null)]));
    objects.policy("infra/all", &[target("Gateway", "back", Some("gone"))], limit("1/s"));
    assert_eq!(objects.translated().both(), ["", ""]);
    objects.policy("infra/all", &[target("Gateway", "front", Some("gone"))], limit("1/s"));
    assert_eq!(objects.translated().both(), ["503", "503"]);
}

#[test]
fn routes_that_differ_in_what_no_policy_asks_for_are_judged_once() {
    let mut objects = shop();
    let route = |at: usize| {
        let matches = json!([{ "path": { "type": "PathPrefix", "value": format!("/{at}") } }]);
        json!({ "backendRefs": [{ "name": format!("s{}", at % 7), "port": 8080 }], "matches": matches })
    };
    for at in 0..7 {
        objects.service(&format!("s{at}"), "10.0.0.9");
    }
    for at in 0..100 {
        objects.route(&format!("r{at}"), json!({ "rules": [route(2 * at), route(2 * at + 1)] }));
    }
    let mut said = limit("1/s");
    said["transform"] = json!({ "request": { "headers": { "remove": ["x"] } } });
    objects.policy("infra/all", &[target("Gateway", "front", None)], said);
    let (standing, mut judgements) = (Standing::default(), Judgements::default());
    objects.translated_again(&standing, &mut judgements);
    // The policy, and a route with it.
    assert_eq!(judgements.asked(), 2);
    objects.route("r100", json!({ "rules": [route(200)] }));
    objects.translated_again(&standing, &mut judgements);
    assert_eq!(judgements.asked(), 2);
    objects.policy("infra/all", &[target("Gateway", "front", None)], limit("2/s"));
    objects.translated_again(&standing, &mut judgements);
    assert_eq!(judgements.asked(), 4);
}

/// A policy for the rule `read` of the route `cart` of its namespace, which was made at this second.
fn made(second: usize, said: Value) -> Value {
    let mut spec = said;
    spec["targetRefs"] = json!([target("HTTPRoute", "cart", Some("read"))]);
    let time = format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60);
    json!({ "metadata": { "creationTimestamp": time }, "spec": spec })
}

/// A route `cart` in a namespace, with a rule `read`.
fn tenant(objects: &mut Objects, namespace: &str) {
    let mut rule = served_by("cart");
    rule["name"] = json!("read");
    rule["matches"] =
        json!([{ "path": { "type": "PathPrefix", "value": format!("/{namespace}") } }]);
    let parents = json!([{ "name": "front", "namespace": "infra" }]);
    let spec = json!({ "parentRefs": parents, "rules": [rule] });
    objects.add(Kind::HttpRoute, namespace, "cart", json!({ "spec": spec }));
}

#[test]
fn of_too_many_policies_the_oldest_hold_whatever_they_are_called() {
    let mut objects = shop();
    objects.add(Kind::TitanPolicy, "shop", "a-new", made(600, guarded()));
    (0..8).for_each(|at| tenant(&mut objects, &format!("n{at}")));
    for at in 0..512 {
        let (said, namespace) = (json!({ "compress": {} }), format!("n{}", at / 64));
        objects.add(Kind::TitanPolicy, &namespace, &format!("p{at:03}"), made(1 + at, said));
    }
    objects.add(Kind::TitanPolicy, "shop", "z-old", made(0, limit("1/s")));
    let translated = objects.translated();
    // The newest one protects, and so it is missed.
    assert_eq!(translated.both(), ["503", ""]);
    for (policy, is_beyond) in
        [("shop/a-new", true), ("n7/p511", true), ("n7/p510", false), ("shop/z-old", false)]
    {
        let accepted = translated.accepted(policy);
        assert_eq!(accepted.contains("at most 512"), is_beyond, "{policy}: {accepted}");
    }
}

#[test]
fn a_namespace_with_many_policies_leaves_the_places_of_others() {
    let mut objects = shop();
    tenant(&mut objects, "flood");
    for at in 0..600 {
        let said = json!({ "compress": {} });
        objects.add(Kind::TitanPolicy, "flood", &format!("p{at:03}"), made(at, said));
    }
    objects.add(Kind::TitanPolicy, "shop", "new", made(700, limit("1/s")));
    let translated = objects.translated();
    assert_eq!(translated.both(), ["shop.new:rate_limit", ""]);
    for (policy, is_beyond) in [("flood/p063", false), ("flood/p064", true), ("shop/new", false)] {
        let accepted = translated.accepted(policy);
        let told = "at most 64 policies of a namespace";
        assert_eq!(accepted.contains(told), is_beyond, "{policy}: {accepted}");
    }
}

#[test]
fn header_fields_of_a_policy_and_of_a_filter_are_written_once_for_all_matches() {
    let mut objects = shop();
    let headers = |name: &str| json!({ "set": { name: "x".repeat(1_000) } });
    let path = |at: usize| json!({ "path": { "type": "PathPrefix", "value": format!("/{at}") } });
    let filter = json!({
        "type": "RequestHeaderModifier",
        "requestHeaderModifier": { "set": [{ "name": "own", "value": "1" }] },
    });
    let mut rule = served_by("cart");
    rule["matches"] = (0..64).map(path).collect();
    rule["filters"] = json!([filter]);
    objects.route("cart", json!({ "rules": [rule] }));
    at_cart(
        &mut objects,
        "all",
        json!({ "transform": { "request": { "headers": headers("a") } } }),
    );
    let translated = objects.translated();
    let document = &translated.documents["httproute/shop/cart"];
    let policies = document["policies"].as_object().unwrap();
    assert_eq!(policies.len(), 1, "{:?}", policies.keys());
    let (name, policy) = policies.iter().next().unwrap();
    let set = &policy["transform"]["request"]["headers"]["set"];
    assert_eq!(set["a"], headers("a")["set"]["a"]);
    assert_eq!(set["own"], "1");
    let routes = translated.routes("httproute/shop/cart");
    assert_eq!(routes.len(), 64);
    assert!(routes.iter().all(|it| it["apply"] == json!([name])), "{routes:?}");
}
