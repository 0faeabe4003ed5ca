//! Containers, and what is made of them.

use super::*;
use crate::docker::labels::ENABLE;

const LOCAL: Reach<'_> = Reach { network: None, is_local: true };
const SHOP: &str = "titan.http.routers.shop.rule=Host(`a.example`) && PathPrefix(`/x`)";

/// A container with that name, age, address and labels, which exposes port 80.
fn container(name: &str, created: i64, labels: &[&str]) -> Container {
    let pairs = labels.iter().filter_map(|it| it.split_once('='));
    let mut labels: BTreeMap<_, _> = pairs.collect();
    labels.entry(ENABLE).or_insert("true");
    let address = format!("10.0.0.{created}");
    let text = json!({
        "Id": format!("id-{name}"),
        "Names": [format!("/{name}")],
        "Created": created,
        "Ports": [{ "PrivatePort": 80, "Type": "tcp" }],
        "Labels": labels,
        "NetworkSettings": { "Networks": { "web": { "IPAddress": address } } },
    });
    serde_json::from_value(text).unwrap()
}

fn translated(containers: Vec<Container>) -> Translation {
    let ready = containers.iter().map(|it| it.id.clone()).collect();
    translate("local", LOCAL, containers, &ready)
}

fn documents(translation: &Translation) -> BTreeMap<&str, &str> {
    translation.documents.iter().map(|it| (it.name.as_str(), it.text.as_str())).collect()
}

fn addresses(translation: &Translation, feed: &str) -> Vec<String> {
    translation.endpoints[feed].iter().map(|it| it.address.to_string()).collect()
}

fn refused(containers: Vec<Container>, name: &str) -> String {
    let Translation { mut refused, .. } = translated(containers);
    refused.remove(&format!("containers/{name}")).unwrap_or_default()
}

#[test]
fn a_router_and_its_service_are_documents() {
    let made = translated(vec![container(
        "web",
        1,
        &[
            SHOP,
            "titan.http.routers.shop.entrypoints=public",
            "titan.http.routers.shop.middlewares=login,slow",
            "titan.http.routers.shop.priority=7",
            "titan.http.services.front.loadbalancer.server.port=8080",
            "titan.http.services.front.loadbalancer.server.scheme=h2c",
            "titan.http.services.front.loadbalancer.healthcheck.path=/up",
            "titan.http.services.front.loadbalancer.healthcheck.interval=10s",
        ],
    )]);
    assert_eq!(
        documents(&made),
        BTreeMap::from([
            (
                "routers/shop",
                concat!(
                    r#"{"routes":[{"apply":["login","slow"],"host":["a.example"],"listeners":["public"],"#,
                    r#""name":"local.shop","prefix":"/x","priority":-999993,"upstream":"local.front"}]}"#
                )
            ),
            (
                "services/front",
                concat!(
                    r#"{"upstreams":{"local.front":{"endpoints":"feed:local/front","#,
                    r#""health":{"interval":"10000ms","probe":{"http":"/up"}},"protocol":"h2"}}}"#
                )
            ),
        ])
    );
    assert_eq!(addresses(&made, "local/front"), ["10.0.0.1:8080"]);
    assert_eq!(made.refused, BTreeMap::new());
}

#[test]
fn text_of_labels_is_literal() {
    let made = translated(vec![container(
        "web",
        1,
        &["titan.http.routers.a.rule=Header(`X-A`, `${file:/etc/shadow}${HOME}`)"],
    )]);
    let route = documents(&made)["routers/a"];
    assert!(route.contains(r#""X-A":"$${file:/etc/shadow}$${HOME}""#), "{route}");
}

#[test]
fn containers_of_a_service_are_its_endpoints() {
    let labels = ["com.docker.compose.project=p", "com.docker.compose.service=web", SHOP];
    let made = translated(vec![container("p-web-1", 1, &labels), container("p-web-2", 2, &labels)]);
    assert_eq!(addresses(&made, "local/p-web"), ["10.0.0.1:80", "10.0.0.2:80"]);
    let one = translated(vec![container("p-web-2", 2, &labels)]);
    assert_eq!(one.documents, made.documents);
    let run = [&labels[..], &["com.docker.compose.oneoff=True"]].concat();
    assert_eq!(translated(vec![container("p-web-run", 3, &run)]).endpoints, Endpoints::new());
}

#[test]
fn only_those_that_are_ready_get_requests() {
    let containers = || vec![container("a", 1, &[SHOP]), container("b", 2, &[])];
    let ready = HashSet::from(["id-b".to_owned()]);
    let made = translate("local", LOCAL, containers(), &ready);
    assert!(made.endpoints["local/a"].is_empty() && made.refused.is_empty());
    assert_eq!(made.documents, translated(containers()).documents);
    assert_eq!(addresses(&made, "local/b"), ["10.0.0.2:80"]);
    let mut starting = containers();
    starting[0] = container("a", 1, &[SHOP, "titan.docker.network=none-yet"]);
    assert!(translate("local", LOCAL, starting, &ready).refused.is_empty());
}

#[test]
fn the_oldest_container_holds_and_the_other_is_told() {
    let other = "titan.http.routers.shop.rule=Host(`b.example`)";
    let service = "titan.http.services.s.loadbalancer.server.scheme=https";
    let service_too = "titan.http.services.s.loadbalancer.server.port=81";
    let containers = || {
        vec![
            container("new", 2, &[other, service_too]),
            container("old", 1, &[SHOP, service]),
            container("same", 3, &[SHOP, service]),
        ]
    };
    let made = translated(containers());
    assert!(documents(&made)["routers/shop"].contains("a.example"));
    assert!(documents(&made)["services/s"].contains(r#""tls":"on""#));
    assert_eq!(
        refused(containers(), "new"),
        "of the service `s` the older container old says something else, which holds; of the router `shop` the older container old says \
         something else, which holds"
    );
    assert_eq!(made.refused.len(), 1);
    assert_eq!(addresses(&made, "local/s"), ["10.0.0.1:80", "10.0.0.2:81", "10.0.0.3:80"]);
}

#[test]
fn a_container_that_is_wrong_is_refused_alone() {
    let two = [
        SHOP,
        "titan.http.services.a.loadbalancer.server.port=1",
        "titan.http.services.b.loadbalancer.server.port=2",
    ];
    let long = format!("titan.http.routers.{}.rule=Host(`a`)", "x".repeat(59));
    for (labels, wanted) in [
        (&["titan.http.routers.a.rle=x"][..], "a router has `rule`"),
        (&["titan.http.routers.a.priority=1"], "the router `a` has no rule"),
        (&two, "the router `shop` has several services"),
        (&[SHOP, "titan.http.routers.shop.service=no"], "service `no`, which no container has"),
        (&[SHOP, "titan.docker.network=no"], "not in the network `no`"),
        (&[&long], "more than 64 bytes"),
    ] {
        let good = container("good", 1, &["titan.http.routers.good.rule=Host(`good`)"]);
        let containers = vec![good, container("bad", 2, labels)];
        let made = translated(containers);
        assert!(documents(&made).contains_key("routers/good"), "{wanted}");
        assert_eq!(made.documents.len(), 2, "{wanted}: {:?}", made.documents);
        assert!(made.refused["containers/bad"].contains(wanted), "{:?}", made.refused);
        assert_eq!(made.refused.len(), 1);
    }
}

#[test]
fn containers_that_do_not_ask_for_it_are_nothing() {
    for value in ["false", "", "yes"] {
        let made = translated(vec![container("a", 1, &[SHOP, &format!("{ENABLE}={value}")])]);
        assert!(made.documents.is_empty() && made.endpoints.is_empty(), "{value}");
    }
}

#[test]
fn a_router_may_lead_to_the_service_of_another_container() {
    let made = translated(vec![
        container("front", 1, &[SHOP, "titan.http.routers.shop.service=back"]),
        container("back", 2, &[]),
    ]);
    assert!(documents(&made)["routers/shop"].contains(r#""upstream":"local.back""#));
    assert_eq!(addresses(&made, "local/back"), ["10.0.0.2:80"]);
    assert_eq!(documents(&made).len(), 2);
}

#[test]
fn of_what_no_delivery_has_room_for_the_oldest_is_served() {
    let value = "x".repeat(3_900);
    let containers = (1..1_200).map(|number| {
        let labels = ["a", "b", "c", "d"].map(|name| {
            let rule = format!("Path(`/`) && Header(`X`, `{value}`)");
            format!("titan.http.routers.{name}{number}.rule={rule}")
        });
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        container(&format!("c{number}"), number, &labels)
    });
    let made = translate("local", LOCAL, containers.collect(), &HashSet::new());
    let Translation { documents, refused, .. } = made;
    let size: usize = documents.iter().map(|it| it.text.len()).sum();
    assert!((15 << 20..=MAX_TEXTS).contains(&size), "{size}");
    let has = |number| documents.iter().any(|it| it.name == format!("routers/a{number}"));
    assert_eq!([has(1), has(900), has(1_199)], [true, true, false]);
    assert!(!refused.contains_key("containers/c1") && !refused.contains_key("containers/c900"));
    let why = &refused["containers/c1199"];
    assert!(why.contains("there is no room for the router `a1199`"), "{why}");
    assert!(crate::delivery::Delivery::new("1", documents).is_ok());
}
