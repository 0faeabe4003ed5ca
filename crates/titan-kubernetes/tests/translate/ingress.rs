//! What Ingresses become.

use super::{CONTROLLER, Objects};
use serde_json::{Map, Value, json};
use titan_kubernetes::cluster::Kind;
use titan_kubernetes::settings::Addressing;

/// A cluster with two services, and the class of the controller.
fn cluster() -> Objects {
    let mut objects = Objects::new();
    objects.service("cart", "10.0.0.1").service("next", "10.0.0.2");
    objects.add(Kind::IngressClass, "", "titan", json!({ "spec": { "controller": CONTROLLER } }));
    objects
}

fn path(path: &str, of_type: &str, service: &str) -> Value {
    let backend = json!({ "service": { "name": service, "port": { "number": 8080 } } });
    json!({ "path": path, "pathType": of_type, "backend": backend })
}

/// An Ingress for `shop.io` with annotations of ingress-nginx, a line each.
fn ingress(objects: &mut Objects, name: &str, annotations: &str, paths: Value) {
    let spec = json!({
        "ingressClassName": "titan",
        "rules": [{ "host": "shop.io", "http": { "paths": paths } }],
    });
    add(objects, name, annotations, spec);
}

fn add(objects: &mut Objects, name: &str, annotations: &str, spec: Value) {
    add_in(objects, ("shop", name), annotations, spec);
}

fn add_in(objects: &mut Objects, (namespace, name): (&str, &str), annotations: &str, spec: Value) {
    let lines = annotations.lines().filter_map(|line| line.trim().split_once(": "));
    let annotations: Map<_, _> = lines
        .map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), json!(value)))
        .collect();
    let metadata = json!({ "annotations": annotations });
    objects.add(Kind::Ingress, namespace, name, json!({ "metadata": metadata, "spec": spec }));
}

/// What the only route of an Ingress with one path is, without what is the same for all.
fn route(annotations: &str, (at, of_type): (&str, &str)) -> (Value, Vec<String>) {
    let mut objects = cluster();
    ingress(&mut objects, "web", annotations, json!([path(at, of_type, "cart")]));
    let translated = objects.translated();
    let routes = translated.routes("ingress/shop/web");
    let [route] = routes[..] else { panic!("{routes:?} {:?}", translated.warnings) };
    let mut route = route.clone();
    for key in ["name", "listeners", "priority"] {
        assert!(!route.as_object_mut().unwrap().remove(key).unwrap().is_null());
    }
    assert_eq!(route.as_object_mut().unwrap().remove("host"), Some(json!(["shop.io"])));
    if let Some(policies) = translated.documents["ingress/shop/web"].get("policies") {
        let policies: Vec<_> = policies.as_object().unwrap().values().collect();
        route["apply"] = json!(policies);
    }
    (route, translated.warnings)
}

#[test]
fn annotations_change_routes() {
    let upstream = json!({ "shop.cart.8080": 1 });
    for (annotations, at, expected) in [
        ("", ("/a", "Prefix"), json!({ "prefix": "/a", "upstream": upstream })),
        ("", ("/a", "Exact"), json!({ "path": "/a", "upstream": upstream })),
        ("", ("/a/", "ImplementationSpecific"), json!({ "prefix": "/a", "upstream": upstream })),
        (
            "rewrite-target: /v2/$2",
            ("/a(/|$)(.*)", "ImplementationSpecific"),
            json!({ "prefix": "/a", "upstream": upstream, "rewrite": { "prefix": "/v2" } }),
        ),
        (
            "rewrite-target: /all",
            ("/a", "Prefix"),
            json!({ "prefix": "/a", "upstream": upstream, "rewrite": { "path": "/all" } }),
        ),
        (
            "use-regex: true",
            ("/a/.*", "ImplementationSpecific"),
            json!({ "prefix": "/a", "upstream": upstream }),
        ),
        (
            "use-regex: true",
            ("/status$", "ImplementationSpecific"),
            json!({ "path": "/status", "upstream": upstream }),
        ),
        (
            "proxy-body-size: 8m\nproxy-connect-timeout: 5\nproxy-read-timeout: 60",
            ("/", "Prefix"),
            json!({
                "prefix": "/", "upstream": upstream, "limits": { "body": "8MiB" },
                "timeouts": { "connect": "5s", "response": "60s", "response_body": "60s" },
            }),
        ),
        (
            "backend-protocol: HTTPS",
            ("/", "Prefix"),
            json!({ "prefix": "/", "upstream": { "shop.cart.8080.https": 1 } }),
        ),
        (
            "backend-protocol: GRPC",
            ("/", "Prefix"),
            json!({ "prefix": "/", "upstream": { "shop.cart.8080.h2": 1 } }),
        ),
        (
            "whitelist-source-range: 10.0.0.1/8\nlimit-rps: 5",
            ("/", "Prefix"),
            json!({ "prefix": "/", "upstream": upstream, "apply": [
                { "authorise": { "allow": ["10.0.0.0/8"] } },
                { "rate_limit": { "rates": [{ "rate": "5/s", "burst": 25 }] } },
            ] }),
        ),
        (
            "auth-url: http://sso.auth.svc:4180/verify\nauth-response-headers: X-User",
            ("/", "Prefix"),
            json!({ "prefix": "/", "upstream": upstream, "apply": [{ "authorise": { "forward_auth": {
                "upstream": "shop.web.auth", "path": "/verify", "upstream_headers": ["X-User"],
            } } }] }),
        ),
        (
            "enable-cors: true\ncors-allow-origin: https://a.io\ncors-allow-methods: PUT\ncors-allow-headers: X-A
            cors-max-age: 60\ncors-allow-credentials: false",
            ("/", "Prefix"),
            json!({ "prefix": "/", "upstream": upstream, "apply": [{ "cors": {
                "origins": ["https://a.io"], "methods": ["PUT"], "headers": ["X-A"], "max_age": "60s",
            } }] }),
        ),
        (
            "permanent-redirect: https://other.io/x",
            ("/a", "Prefix"),
            json!({ "prefix": "/a", "redirect": { "to": "https://other.io/x", "status": 301 } }),
        ),
        (
            "temporal-redirect: https://other.io",
            ("/a", "Prefix"),
            json!({ "prefix": "/a", "redirect": { "to": "https://other.io", "status": 302 } }),
        ),
        (
            "auth-type: basic",
            ("/a", "Prefix"),
            json!({ "prefix": "/a", "respond": { "status": 503 } }),
        ),
    ] {
        let (found, warnings) = route(annotations, at);
        assert_eq!(found, expected, "{annotations}");
        assert_eq!(
            warnings.is_empty(),
            !annotations.contains("auth-type"),
            "{annotations}: {warnings:?}"
        );
    }
}

#[test]
fn credentials_are_shared_with_named_origins_alone() {
    for (annotations, origins, is_with_credentials, is_warned) in [
        ("", json!("*"), false, false),
        ("cors-allow-credentials: true", json!("*"), false, true),
        ("cors-allow-origin: https://a.io, *", json!("*"), false, false),
        ("cors-allow-origin: https://a.io", json!(["https://a.io"]), true, false),
        ("cors-allow-origin: https://*.a.io, a.io", json!(["https://*.a.io"]), true, true),
        (
            "cors-allow-origin: https://a.io\ncors-allow-methods: GET, PUTT",
            json!(["https://a.io"]),
            true,
            true,
        ),
    ] {
        let all = format!("enable-cors: true\n{annotations}");
        let (found, warnings) = route(&all, ("/", "Prefix"));
        let cors = &found["apply"][0]["cors"];
        assert_eq!(cors["origins"], origins, "{annotations}");
        assert_eq!(cors["credentials"] == true, is_with_credentials, "{annotations}");
        assert_eq!(!warnings.is_empty(), is_warned, "{annotations}: {warnings:?}");
    }
}

#[test]
fn hosts_with_certificates_are_served_over_tls_and_redirected_there() {
    for (annotations, is_redirected) in [("", true), ("ssl-redirect: false", false)] {
        let mut objects = cluster();
        objects.certificate("shop", "cert");
        for name in ["web", "more"] {
            let at = format!("/{name}");
            let spec = json!({
                "ingressClassName": "titan",
                "tls": if name == "web" { json!([{ "hosts": ["*.shop.io"], "secretName": "cert" }]) } else { json!([]) },
                "rules": [{ "host": "a.shop.io", "http": { "paths": [path(&at, "Prefix", "cart")] } }],
            });
            add(&mut objects, name, annotations, spec);
        }
        let translated = objects.translated();
        assert_eq!(translated.warnings, Vec::<String>::new());
        for name in ["web", "more"] {
            let routes = translated.routes(&format!("ingress/shop/{name}"));
            let of = |listener: &str| {
                let on = routes.iter().find(|it| it["listeners"] == json!([listener]));
                on.unwrap_or_else(|| panic!("{name} is not on {listener}: {routes:?}"))
            };
            assert!(of("ingress.443").get("upstream").is_some(), "{name}");
            assert_eq!(of("ingress.80").get("redirect").is_some(), is_redirected, "{name}");
        }
        let listener = &translated.documents["listener/ingress.443"]["listeners"][0];
        assert_eq!(listener["tls"]["certificates"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn nobody_is_sent_to_tls_that_is_not_there() {
    for (annotations, owner, has_secret, is_redirected, is_warned) in [
        ("", "shop", true, true, false),
        ("", "shop", false, false, true),
        ("force-ssl-redirect: true", "shop", false, false, true),
        ("force-ssl-redirect: true", "nobody", false, false, true),
        ("ssl-redirect: false\nforce-ssl-redirect: true", "shop", true, true, false),
        ("", "infra", true, false, false),
        ("force-ssl-redirect: true", "infra", true, true, false),
        ("", "infra", false, false, true),
        ("server-alias: www.other.io", "shop", true, true, false),
    ] {
        let mut objects = cluster();
        let spec = |at: &str, tls: Value| {
            let paths = json!([path(at, "Prefix", "cart")]);
            json!({
                "ingressClassName": "titan", "tls": tls,
                "rules": [{ "host": "shop.io", "http": { "paths": paths } }],
            })
        };
        let tls = json!([{ "hosts": ["shop.io"], "secretName": "cert" }]);
        if has_secret {
            objects.certificate(owner, "cert");
        }
        if owner == "infra" {
            add_in(
                &mut objects,
                ("infra", "other"),
                "ssl-redirect: false",
                spec("/other", tls.clone()),
            );
        }
        add(
            &mut objects,
            "web",
            annotations,
            spec("/", if owner != "shop" { json!([]) } else { tls }),
        );
        let translated = objects.translated();
        let routes = translated.routes("ingress/shop/web");
        let case = format!("{annotations} {owner} {has_secret}: {routes:?}");
        let of = |host: &str| {
            let mut all = routes.iter().filter(|it| it["listeners"] == json!(["ingress.80"]));
            all.find(|it| it["host"].as_array().unwrap().contains(&json!(host)))
        };
        assert_eq!(of("shop.io").unwrap().get("redirect").is_some(), is_redirected, "{case}");
        if annotations.contains("alias") {
            assert!(of("www.other.io").unwrap().get("upstream").is_some(), "{case}");
        }
        let warned = translated.warnings.iter().any(|it| it.contains("TLS"));
        assert_eq!(warned, is_warned, "{case} {:?}", translated.warnings);
    }
}

#[test]
fn canaries_get_a_share_or_what_asks_for_them() {
    let mut objects = cluster();
    ingress(&mut objects, "web", "", json!([path("/", "Prefix", "cart")]));
    ingress(
        &mut objects,
        "canary",
        "canary: true\ncanary-weight: 20\ncanary-by-header: X-Canary",
        json!([path("/", "Prefix", "next")]),
    );
    let translated = objects.translated();
    let mut found: Vec<_> = translated
        .routes("ingress/shop/web")
        .iter()
        .map(|it| (it["headers"].clone(), it["upstream"].clone()))
        .collect();
    found.sort_by_key(|it| it.0.to_string());
    let expected = [
        (Value::Null, json!({ "shop.cart.8080": 80, "shop.next.8080": 20 })),
        (json!({ "x-canary": "always" }), json!({ "shop.next.8080": 1 })),
        (json!({ "x-canary": "never" }), json!({ "shop.cart.8080": 1 })),
    ];
    let sorted: std::collections::BTreeSet<_> = found.iter().map(|it| format!("{it:?}")).collect();
    assert_eq!(sorted, expected.iter().map(|it| format!("{it:?}")).collect());
}

#[test]
fn a_canary_that_is_not_sound_changes_nothing() {
    for (namespace, annotations, is_taken) in [
        ("shop", "canary: True\ncanary-weight: 20", true),
        ("infra", "canary: true\ncanary-weight: 20", false),
        ("shop", "canary: true\ncanary-by-header: X-A\ncanary-by-header-pattern: (", false),
        ("shop", "canary: true\ncanary-by-header: X A", false),
        ("shop", "canary: true\ncanary-weight: many", false),
        ("shop", "canary: true\ncanary-weight: 20\nauth-type: basic", false),
    ] {
        let mut objects = cluster();
        ingress(&mut objects, "web", "", json!([path("/", "Prefix", "cart")]));
        let spec = json!({
            "ingressClassName": "titan",
            "rules": [{ "host": "shop.io", "http": { "paths": [path("/", "Prefix", "next")] } }],
        });
        add_in(&mut objects, (namespace, "canary"), annotations, spec);
        let translated = objects.translated();
        let routes = translated.routes("ingress/shop/web");
        let [route] = routes[..] else { panic!("{annotations}: {routes:?}") };
        let shares = route["upstream"].as_object().unwrap().len();
        assert_eq!(shares, if is_taken { 2 } else { 1 }, "{namespace} {annotations}: {route}");
        let warned =
            translated.warnings.iter().any(|it| it.contains(&format!("{namespace}/canary")));
        assert_eq!(warned, !is_taken, "{annotations}: {:?}", translated.warnings);
    }
}

#[test]
fn hosts_of_gateways_are_not_those_of_ingresses() {
    for (hostname, is_served) in [
        (Value::Null, false),
        (json!("*.io"), false),
        (json!("shop.io"), false),
        (json!("*.shop.io"), true),
        (json!("other.io"), true),
    ] {
        let mut objects = cluster();
        objects.settings.addressing = Addressing::Shared(vec!["192.0.2.1".to_owned()]);
        objects.gateway("front", json!([super::http("http", 80, hostname.clone())]));
        ingress(&mut objects, "web", "", json!([path("/", "Prefix", "cart")]));
        let translated = objects.translated();
        let routes = translated.routes("ingress/shop/web");
        assert_eq!(!routes.is_empty(), is_served, "{hostname}: {routes:?}");
        let why = "Ingress shop/web: port 80: a listener before it of a Gateway covers the host";
        let warned = translated.warnings.iter().any(|it| it.starts_with(why));
        assert_eq!(warned, !is_served, "{hostname}: {:?}", translated.warnings);
    }
}

#[test]
fn addresses_that_are_gone_are_taken_away() {
    for (before, expected) in [
        (json!({ "loadBalancer": {} }), None),
        (json!({}), None),
        (
            json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } }),
            Some(json!({ "loadBalancer": { "ingress": null } })),
        ),
    ] {
        let mut objects = cluster();
        objects.settings.addressing = Addressing::Shared(Vec::new());
        let spec = json!({
            "ingressClassName": "titan",
            "rules": [{ "host": "shop.io", "http": { "paths": [path("/", "Prefix", "cart")] } }],
        });
        let ingress = json!({ "metadata": {}, "spec": spec, "status": before });
        objects.add(Kind::Ingress, "shop", "web", ingress);
        let translated = objects.translated();
        assert_eq!(translated.statuses.get("Ingress shop/web"), expected.as_ref(), "{before}");
    }
}

#[test]
fn policies_for_services_of_ingresses_name_gateways_alone() {
    let mut objects = cluster();
    ingress(&mut objects, "web", "backend-protocol: HTTPS", json!([path("/", "Prefix", "cart")]));
    let spec = json!({
        "targetRefs": [{ "kind": "Service", "name": "cart" }],
        "validation": { "hostname": "cart", "wellKnownCACertificates": "System" },
    });
    objects.add(Kind::BackendTlsPolicy, "shop", "tls", json!({ "spec": spec }));
    let ancestors = |objects: &Objects| {
        let status = objects.translated().statuses.get("BackendTLSPolicy shop/tls").cloned();
        status.map(|it| it["ancestors"].as_array().unwrap().len())
    };
    assert_eq!(ancestors(&objects), None);
    objects.front().route("web", json!({ "rules": [super::served_by("cart")] }));
    assert_eq!(ancestors(&objects), Some(1));
}

#[test]
fn routes_of_others_do_not_attach_to_what_ingresses_have() {
    let mut objects = cluster();
    objects.certificate("shop", "cert");
    let spec = json!({
        "ingressClassName": "titan",
        "tls": [{ "hosts": ["shop.io"], "secretName": "cert" }],
        "rules": [{ "host": "shop.io", "http": { "paths": [path("/", "Prefix", "cart")] } }],
    });
    add(&mut objects, "web", "", spec);
    let before = objects.translated().documents;
    for (kind, namespace, name) in [("ListenerSet", "shop", "web:tls"), ("Gateway", "", "ingress")]
    {
        let parent = json!({ "kind": kind, "namespace": namespace, "name": name });
        let rules = json!([{ "backendRefs": [{ "name": "next", "port": 8080 }] }]);
        let spec = json!({ "parentRefs": [parent], "hostnames": ["shop.io"], "rules": rules });
        objects.add(Kind::HttpRoute, "shop", "thief", json!({ "spec": spec }));
        let translated = objects.translated();
        assert_eq!(translated.documents, before, "{kind}");
        assert_eq!(translated.statuses.get("HTTPRoute shop/thief"), None, "{kind}");
    }
}

#[test]
fn classes_say_whose_an_ingress_is() {
    let has = |class: Option<&str>, is_default: bool| {
        let mut objects = cluster();
        let metadata =
            json!({ "annotations": { "ingressclass.kubernetes.io/is-default-class": "true" } });
        if is_default {
            let spec = json!({ "controller": CONTROLLER });
            objects.add(
                Kind::IngressClass,
                "",
                "usual",
                json!({ "metadata": metadata, "spec": spec }),
            );
        }
        objects.add(
            Kind::IngressClass,
            "",
            "nginx",
            json!({ "spec": { "controller": "k8s.io/ingress-nginx" } }),
        );
        let mut spec = json!({ "rules": [{ "http": { "paths": [path("/", "Prefix", "cart")] } }] });
        if let Some(class) = class {
            spec["ingressClassName"] = class.into();
        }
        add(&mut objects, "web", "", spec);
        let translated = objects.translated();
        let is_served = !translated.routes("ingress/shop/web").is_empty();
        let status = translated.statuses.get("Ingress shop/web");
        assert_eq!(status.is_some(), is_served);
        if let Some(status) = status {
            assert!(status["loadBalancer"]["ingress"][0]["ip"].is_string(), "{status}");
        }
        is_served
    };
    assert!(has(Some("titan"), false));
    assert!(!has(Some("nginx"), true));
    assert!(!has(None, false));
    assert!(has(None, true));
}

#[test]
fn what_is_not_served_is_warned_of() {
    let mut objects = cluster();
    let annotations = "affinity: ip\nserver-alias: www.shop.io\nuse-regex: true\napp-root: /start";
    let paths =
        json!([path("/[0-9]+", "ImplementationSpecific", "cart"), path("/a", "Prefix", "missing")]);
    ingress(&mut objects, "web", annotations, paths);
    let translated = objects.translated();
    for part in ["`affinity`", "the path /[0-9]+ is not served", "there is no service shop/missing"]
    {
        assert!(
            translated.warnings.iter().any(|it| it.contains(part)),
            "{part}: {:?}",
            translated.warnings
        );
    }
    let routes = translated.routes("ingress/shop/web");
    assert_eq!(routes.len(), 2, "{routes:?}");
    let root = routes.iter().find(|it| it["path"] == "/").unwrap();
    assert_eq!(root["redirect"], json!({ "to": "/start", "status": 302 }));
    assert_eq!(root["host"], json!(["shop.io", "www.shop.io"]));
}

/// An Ingress of a namespace, with a certificate for a host.
fn certified(objects: &mut Objects, (namespace, name): (&str, &str), created: &str, host: &str) {
    let spec = json!({
        "ingressClassName": "titan",
        "tls": [{ "hosts": [host], "secretName": "cert" }],
        "rules": [{ "host": host, "http": { "paths": [path("/", "Prefix", "cart")] } }],
    });
    let metadata = json!({ "creationTimestamp": created });
    objects.add(Kind::Ingress, namespace, name, json!({ "metadata": metadata, "spec": spec }));
}

/// The certificates of the port for HTTPS, by the hosts that they are for.
fn certificates(translated: &super::Translated) -> Vec<(Value, Value)> {
    let listener = &translated.documents["listener/ingress.443"]["listeners"][0];
    let all = listener["tls"]["certificates"].as_array().unwrap().iter();
    all.map(|it| (it["hosts"].clone(), it["cert"].clone())).collect()
}

#[test]
fn a_certificate_is_for_the_hosts_of_its_ingress_alone() {
    let mut objects = cluster();
    // Both have the same names in them.
    objects.certificate("shop", "cert").certificate("infra", "cert");
    certified(&mut objects, ("shop", "b"), "2026-01-01T00:00:00Z", "shop.io");
    certified(&mut objects, ("shop", "a"), "2026-01-02T00:00:00Z", "more.shop.io");
    certified(&mut objects, ("infra", "c"), "2026-01-03T00:00:00Z", "other.shop.io");
    let found = certificates(&objects.translated());
    let hosts: Vec<_> = found.iter().map(|(hosts, _)| hosts.clone()).collect();
    // Those of the oldest Ingress come first: the youngest are left out where a port has too many.
    assert_eq!(hosts, [json!(["shop.io", "more.shop.io"]), json!(["other.shop.io"])]);
    assert_ne!(found[0].1, found[1].1);
}

#[test]
fn a_host_that_cannot_be_served_holds_nobody_back() {
    let long = format!("{}.io", "a".repeat(64));
    for (host, is_served) in
        [("~^shop", false), ("a.123", false), (&long, false), ("10.0.0.1", true)]
    {
        let mut objects = cluster();
        objects.certificate("shop", "cert").certificate("infra", "cert");
        certified(&mut objects, ("infra", "bad"), "2026-01-01T00:00:00Z", host);
        certified(&mut objects, ("shop", "good"), "2026-01-02T00:00:00Z", "shop.io");
        let spec = json!({ "parentRefs": [{ "name": "front", "namespace": "infra" }], "hostnames": [host], "rules": [] });
        objects.front().add(Kind::HttpRoute, "infra", "bad", json!({ "spec": spec }));
        objects.gateway("bad", json!([super::http("http", 8080, json!(host))]));
        let translated = objects.translated();
        let found = certificates(&translated);
        assert_eq!(found.len(), 1, "{host}: {found:?}");
        assert_eq!(found[0].0, json!(["shop.io"]), "{host}");
        assert_eq!(translated.documents.contains_key("ingress/infra/bad"), is_served, "{host}");
        assert!(translated.documents.contains_key("ingress/shop/good"), "{host}");
        let warned = |what: &str| {
            translated
                .warnings
                .iter()
                .any(|it| it.starts_with("Ingress infra/bad: ") && it.ends_with(what))
        };
        assert!(warned("it is not served with TLS"), "{host}: {:?}", translated.warnings);
        assert_eq!(warned("it is not served"), !is_served, "{host}: {:?}", translated.warnings);
        let accepted = if is_served { "True/Accepted" } else { "False/UnsupportedValue" };
        let of_route = translated.conditions("HTTPRoute infra/bad", "parents");
        assert!(of_route.starts_with(&format!("Accepted={accepted}")), "{host}: {of_route}");
        let listener = translated.conditions("Gateway infra/bad", "listeners");
        assert!(listener.starts_with(&format!("Accepted={accepted}")), "{host}: {listener}");
    }
}

#[test]
fn a_cookie_ties_clients_to_pods_of_one_ingress_alone() {
    let mut objects = cluster();
    let sticky = "affinity: cookie";
    for (name, host, annotations) in [("one", "one.io", sticky), ("two", "two.io", "")] {
        let rule = json!({ "host": host, "http": { "paths": [path("/", "Prefix", "cart")] } });
        let spec = json!({ "ingressClassName": "titan", "rules": [rule] });
        add(&mut objects, name, annotations, spec);
    }
    let documents = objects.translated().documents;
    let upstreams = documents.values().filter_map(|it| it["upstreams"].as_object());
    let balances: Vec<_> = upstreams.flatten().map(|(_, it)| it.get("balance")).collect();
    let cookie = json!({ "sticky_cookie": { "name": "INGRESSCOOKIE" } });
    assert_eq!(balances, [None, Some(&cookie)]);
}
