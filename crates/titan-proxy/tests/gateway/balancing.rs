//! Which endpoint gets a request: every policy is asked, and what it asks for counts.

use std::collections::HashSet;
use std::num::NonZeroU16;
use titan_proxy::{Condition, EndpointStatus, FedEndpoint};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Gate, Gateway, Peer, Response, Upstream, gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Three endpoints that response with their numbers.
fn three() -> [Upstream; 3] {
    ["0", "1", "2"].map(|number| upstream::replies(ok(number)))
}

/// A gateway over three endpoints with that policy.
fn balanced(balance: &str, endpoints: &[Upstream; 3]) -> Gateway {
    balanced_with("workers: 1", balance, endpoints)
}

fn balanced_with(more: &str, balance: &str, [a, b, c]: &[Upstream; 3]) -> Gateway {
    let text =
        format!("{more}\nupstreams: {{ u: {{ endpoints: [$0, $1, $2], balance: {balance} }} }}");
    gateway(&text, &[a, b, c])
}

/// How many of `count` requests each endpoint has got.
fn shares(gateway: &Gateway, count: usize) -> [usize; 3] {
    let mut shares = [0; 3];
    for _ in 0..count {
        shares[number(&gateway.asks(GET))] += 1;
    }
    shares
}

fn number(response: &Response) -> usize {
    response.text().parse().expect("the number of an endpoint")
}

// field: upstream.endpoints
#[test]
fn each_gets_its_turn() {
    let endpoints = three();
    for workers in [1, 2] {
        let gateway = balanced_with(&format!("workers: {workers}"), "round_robin", &endpoints);
        assert_eq!(shares(&gateway, 30), [10, 10, 10], "{workers} workers");
    }
}

// field: endpoint.address, endpoint.weight
#[test]
fn turns_are_taken_by_weight() {
    let [a, b, c] = three();
    let text = "upstreams: { u: { endpoints: [{ address: $0, weight: 4 }, { address: $1, weight: 1 }, $2] } }";
    let gateway = gateway(text, &[&a, &b, &c]);
    assert_eq!(shares(&gateway, 60), [40, 10, 10]);
}

#[test]
fn endpoints_of_a_feed_come_and_go_while_requests_are_served() {
    let endpoints = three();
    for workers in [1, 2] {
        let text = format!("workers: {workers}\nupstreams: {{ u: 'feed:test/u' }}");
        let gateway = gateway(&text, &[]);
        gateway.asks(GET).has_problem(503, "no-endpoint");
        let feed = gateway.feeds().feed("test/u");
        let tells = |of: &[&Upstream]| {
            let fed = |endpoint: &&Upstream| FedEndpoint {
                address: endpoint.address(),
                weight: NonZeroU16::MIN,
                is_remote: false,
                is_draining: false,
            };
            assert_eq!(feed.publish(of.iter().map(fed).collect()), 0);
        };
        let [a, b, c] = &endpoints;
        tells(&[a, b]);
        assert_eq!(shares(&gateway, 10), [5, 5, 0], "{workers} workers");
        tells(&[b, c]);
        assert_eq!(shares(&gateway, 10), [0, 5, 5], "{workers} workers");
        tells(&[]);
        gateway.asks(GET).has_problem(503, "no-endpoint");
    }
}

#[test]
fn at_random_each_gets_some_and_not_in_turn() {
    let endpoints = three();
    let gateway = balanced("random", &endpoints);
    let order: Vec<_> = (0..60).map(|_| number(&gateway.asks(GET))).collect();
    for endpoint in 0..3 {
        // Out of reach by chance: below 1 in 10^9.
        assert!(order.contains(&endpoint), "{order:?}");
    }
    assert!(order.windows(2).any(|pair| pair[0] == pair[1]), "{order:?}");
}

/// Whether that client's request has gone to the first endpoint, which responds to none; `stuck` have already.
fn is_stuck(gateway: &Gateway, client: &mut Peer, stuck: usize) -> bool {
    let active = || gateway.status().endpoints()[0].active as usize;
    waits_until("a response, or none", || client.has_news() || active() > stuck);
    !client.has_news()
}

// field: upstream.balance
#[test]
fn the_one_with_the_fewest_requests_gets_the_next() {
    for workers in [1, 2] {
        let gate = Gate::closed();
        let [_, second, third] = three();
        let endpoints = [upstream::responds(gate.before(ok("0"))), second, third];
        let gateway = balanced_with(&format!("workers: {workers}"), "least_requests", &endpoints);
        let mut client = gateway.connects();
        while !is_stuck(&gateway, client.sends(GET), 0) {
            client.response();
        }
        let [stuck, second, third] = shares(&gateway, 20);
        assert_eq!(stuck, 0, "{workers} workers");
        assert!(second > 0 && third > 0, "idle ones share: {second} and {third}");
        gate.opens();
        client.response().has_body("0");
    }
}

#[test]
fn an_endpoint_that_is_slow_gets_less_than_the_others() {
    let gate = Gate::closed();
    let [_, second, third] = three();
    let endpoints = [upstream::responds(gate.before(ok("0"))), second, third];
    let gateway = balanced("p2c_ewma", &endpoints);
    let mut stuck = Vec::new();
    let mut served = [0; 3];
    for _ in 0..60 {
        let mut client = gateway.connects();
        match is_stuck(&gateway, client.sends(GET), stuck.len()) {
            true => stuck.push(client),
            false => served[number(&client.response())] += 1,
        }
    }
    assert!(stuck.len() < 12, "{} of 60 requests went to the slow one", stuck.len());
    assert!(served[1] > 5 && served[2] > 5, "{served:?}");
    gate.opens();
}

/// Of requests with 40 keys each key has one endpoint, and not all have the same.
#[track_caller]
fn keys_have_endpoints(balance: &str, more: &str, request: impl Fn(usize) -> String) {
    let endpoints = three();
    let gateway = balanced_with(&format!("workers: 2\n{more}"), balance, &endpoints);
    let mut used = HashSet::new();
    for key in 0..40 {
        let request = request(key);
        let first = number(&gateway.asks(&request));
        for _ in 0..3 {
            assert_eq!(number(&gateway.asks(&request)), first, "{balance}, key {key}");
        }
        used.insert(first);
    }
    assert_eq!(used.len(), 3, "{balance}");
}

// field: balance.consistent_hash, hash_key.header, hash_key.cookie, hash_key.query
#[test]
fn the_same_key_goes_to_the_same_endpoint() {
    keys_have_endpoints("{ consistent_hash: { header: X-Tenant } }", "", |key| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: t{key}\r\n\r\n")
    });
    keys_have_endpoints("{ consistent_hash: { cookie: session } }", "", |key| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: a=b; session=s{key}\r\n\r\n")
    });
    keys_have_endpoints("{ consistent_hash: { query: user } }", "", |key| {
        format!("GET /?x=y&user=u{key} HTTP/1.1\r\nHost: a\r\n\r\n")
    });
    // The client behind a trusted proxy, not the proxy.
    let trusted = "forwarding: { trusted_proxies: [127.0.0.1] }";
    keys_have_endpoints("{ consistent_hash: client_address }", trusted, |key| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.{key}\r\n\r\n")
    });
}

#[test]
fn a_request_without_the_key_goes_anywhere() {
    let endpoints = three();
    let gateway = balanced("{ consistent_hash: { header: X-Tenant } }", &endpoints);
    assert!(shares(&gateway, 60).iter().all(|share| *share > 0));
}

#[test]
fn keys_keep_their_endpoints_when_one_fails() {
    let endpoints = three();
    let gateway = balanced("{ consistent_hash: { header: X-Tenant } }", &endpoints);
    let request = |key| format!("GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: t{key}\r\n\r\n");
    let before: Vec<_> = (0..30).map(|key| number(&gateway.asks(&request(key)))).collect();
    let [a, b, c] = endpoints;
    drop(a);
    for (key, before) in before.into_iter().enumerate() {
        let after = number(&gateway.asks(&request(key)));
        assert!(if before == 0 { after != 0 } else { after == before }, "{key}: {before}, {after}");
    }
    drop((b, c));
}

// field: balance.sticky_cookie
#[test]
fn a_cookie_ties_a_client_to_its_endpoint() {
    let endpoints = three();
    let gateway = balanced_with("workers: 2", "{ sticky_cookie: {} }", &endpoints);
    let mut used = HashSet::new();
    for _ in 0..6 {
        let response = gateway.get("/");
        let endpoint = number(&response);
        let set = response.field("set-cookie").expect("a cookie").to_owned();
        let cookie = set.split(';').next().unwrap_or_default();
        assert!(cookie.starts_with("titan_sticky="), "{set}");
        assert!(!set.contains("127.0.0.1") && !set.contains("Max-Age"), "{set}");
        assert!(set.contains("; HttpOnly") && set.contains("; SameSite=Lax"), "{set}");
        for _ in 0..3 {
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: x=y; {cookie}\r\n\r\n");
            let response = gateway.asks(&request).lacks("set-cookie");
            assert_eq!(number(&response), endpoint);
        }
        used.insert(endpoint);
    }
    assert_eq!(used.len(), 3);
}

// field: sticky_cookie.name, sticky_cookie.max_age, sticky_cookie.secure, sticky_cookie.http_only
// field: sticky_cookie.same_site
#[test]
fn a_cookie_is_as_the_configuration_says() {
    let endpoints = three();
    let cases = [
        ("{ name: tie, max_age: 2m }", "tie=", "; Path=/; Max-Age=120; HttpOnly; SameSite=Lax"),
        (
            "{ secure: true, same_site: none }",
            "titan_sticky=",
            "; Path=/; Secure; HttpOnly; SameSite=None",
        ),
        ("{ http_only: false, same_site: strict }", "titan_sticky=", "; Path=/; SameSite=Strict"),
    ];
    for (settings, start, end) in cases {
        let gateway = balanced(&format!("{{ sticky_cookie: {settings} }}"), &endpoints);
        let response = gateway.get("/");
        let set = response.field("set-cookie").expect("a cookie");
        assert!(set.starts_with(start) && set.ends_with(end), "{settings}: {set}");
    }
}

#[test]
fn a_cookie_of_an_endpoint_that_is_gone_is_replaced() {
    let endpoints = three();
    let gateway = balanced("{ sticky_cookie: {} }", &endpoints);
    for value in ["0123456789abcdef", "nonsense", ""] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: titan_sticky={value}\r\n\r\n");
        assert!(gateway.asks(&request).field("set-cookie").is_some(), "{value}");
    }
}

// field: endpoint.priority, endpoint.drain
#[test]
fn a_backup_gets_nothing_for_what_drains() {
    let [a, b, c] = three();
    let of = |[first, second]: [bool; 2]| {
        format!(
            "workers: 1\nupstreams: {{ u: {{ endpoints: [{{ address: $0, drain: {first} }}, \
             {{ address: $1, drain: {second} }}, {{ address: $2, priority: 1 }}], \
             spill_below: 100% }} }}"
        )
    };
    let gateway = gateway(&of([false, false]), &[&a, &b, &c]);
    assert_eq!(shares(&gateway, 30), [15, 15, 0]);
    gateway.reloads(&of([false, true]), &[&a, &b, &c]).unwrap();
    assert_eq!(shares(&gateway, 30), [30, 0, 0]);
    gateway.reloads(&of([true, true]), &[&a, &b, &c]).unwrap();
    assert_eq!(shares(&gateway, 30), [0, 0, 30], "nothing of the first is there for requests");
}

// field: upstream.spill_below
#[test]
fn a_backup_gets_what_the_first_cannot_take() {
    let ([a, _, c], refused) = (three(), upstream::refuses());
    let of = |spill: &str| {
        format!(
            "workers: 1\nupstreams: {{ u: {{ endpoints: [$0, '{refused}', \
             {{ address: $1, priority: 1 }}], spill_below: {spill}, \
             health: {{ probe: tcp, interval: 100ms, timeout: 100ms, unhealthy_after: 1 }} }} }}"
        )
    };
    let gateway = gateway(&of("50%"), &[&a, &c]);
    let fails = |it: &EndpointStatus| it.condition == Condition::Unhealthy;
    waits_until("a probe to fail", || gateway.status().endpoints().iter().any(fails));
    assert_eq!(shares(&gateway, 30), [30, 0, 0], "half of the group is enough");
    gateway.reloads(&of("100%"), &[&a, &c]).unwrap();
    let [first, _, backup] = shares(&gateway, 200);
    // Out of reach by chance: below 1 in 10^9.
    assert!((55..145).contains(&first) && first + backup == 200, "{first} and {backup}");
}

// field: file.zone, endpoint.zone
#[test]
fn endpoints_in_the_gateway_s_own_zone_come_first() {
    let [a, b, c] = three();
    let of = |zone: &str| {
        format!(
            "workers: 1\n{zone}\nupstreams: {{ u: [{{ address: $0, zone: east }}, \
             {{ address: $1, zone: west }}, $2] }}"
        )
    };
    let gateway = gateway(&of("zone: west"), &[&a, &b, &c]);
    assert_eq!(shares(&gateway, 30), [0, 15, 15]);
    gateway.reloads(&of("zone: east"), &[&a, &b, &c]).unwrap();
    assert_eq!(shares(&gateway, 30), [15, 0, 15]);
    gateway.reloads(&of(""), &[&a, &b, &c]).unwrap();
    assert_eq!(shares(&gateway, 30), [10, 10, 10]);
}

#[test]
fn a_client_stays_with_an_endpoint_that_drains() {
    let endpoints = three();
    let [a, b, c] = &endpoints;
    let of = |drained: bool| {
        format!(
            "workers: 1\nupstreams: {{ u: {{ endpoints: [{{ address: $0, drain: {drained} }}, $1, $2], \
             balance: {{ sticky_cookie: {{ name: s }} }} }} }}"
        )
    };
    let gateway = gateway(&of(false), &[a, b, c]);
    let cookie = loop {
        let response = gateway.asks(GET);
        if number(&response) == 0 {
            let cookie = response.field("Set-Cookie").expect("a cookie").to_owned();
            break cookie.split(';').next().unwrap_or_default().to_owned();
        }
    };
    gateway.reloads(&of(true), &[a, b, c]).unwrap();
    let tied = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
    for _ in 0..5 {
        assert_eq!(number(&gateway.asks(&tied)), 0);
        assert_ne!(number(&gateway.asks(GET)), 0);
    }
}
