//! What stays when another configuration is put in force: a test for each row of the table in docs/operations.md.

use crate::jwt::{Signer, Source};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::sync::Arc;
use titan_proxy::Counter;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Certificate, Gateway, Peer, gateway, start_with, usual, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// Another route, so that a configuration is not the one of before.
const MORE: &str = "routes: [{ prefix: /, upstream: u }, { path: /more, respond: 204 }]";
/// The hash of `password`, for a file in which `$` is replaced.
const PASSWORD: &str = "\\x24argon2id\\x24v=19\\x24m=256,t=2,p=1\\x24c29tZXNhbHQ\\x24nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

fn counts(gateway: &Gateway, metric: &str) -> u64 {
    gateway.metrics().of_policies(metric, "")
}

#[test]
fn a_listener_with_another_name_keeps_its_socket_and_its_count() {
    let of = |name: &str, most: u32| {
        format!(
            "listeners: [{{ name: {name}, address: '127.0.0.1:0', max_connections: {most} }}]\n\
             routes: [{{ respond: {{ body: x }} }}]"
        )
    };
    let gateway = gateway(&of("one", 2), &[]);
    let mut first = Peer::connects(gateway.address());
    first.sends(GET).response().has_body("x");
    let address = gateway.address();
    gateway.reloads(&of("other", 1), &[]).unwrap();
    assert_eq!(gateway.address_of("other"), address);
    Peer::connects(address).expects_close();
    first.sends(GET).response().has_body("x");
}

#[test]
fn tickets_are_good_while_the_same_clients_are_accepted() {
    let of = |more: &str| {
        format!(
            "listeners: [{{ address: '127.0.0.1:0', tls: {{ certificates: {{ cert: usual.pem, key: usual.key }}{more} }} }}]\n\
             routes: [{{ respond: {{ body: x }} }}]"
        )
    };
    let files = Certificate::files(&[("usual", usual())]);
    let gateway = start_with(&of(""), &[], &files).unwrap();
    let trusted = Arc::new(usual().trusted());
    let resumes = || {
        let session = Certificate::client_with(&trusted, "localhost");
        let mut client = Peer::connects(gateway.address()).secures(session);
        client.sends(GET).response().has_body("x");
        client.has_resumed()
    };
    assert_eq!([resumes(), resumes()], [false, true]);
    gateway.reloads(&of(", min_version: '1.3'"), &[]).unwrap();
    assert!(resumes());
    gateway.reloads(&of(", client_certificates: { ca: usual.pem, mode: optional }"), &[]).unwrap();
    assert!(!resumes());
}

#[test]
fn requests_that_wait_for_an_endpoint_get_their_turn() {
    let endpoint = upstream::listens();
    let of = |more: &str| {
        format!("upstreams: {{ u: {{ endpoints: $0, max_connections: 1{more} }} }}\n{MORE}")
    };
    let gateway = gateway(&of(""), &[&endpoint]);
    let (mut first, mut second) = (gateway.connects(), gateway.connects());
    first.sends(GET);
    let mut connection = endpoint.accepts();
    connection.request();
    second.sends(GET);
    let waiting = || gateway.status().endpoints().iter().map(|it| it.waiting).sum::<u32>();
    waits_until("the second to wait", || waiting() == 1);
    gateway.reloads(&of(", balance: random"), &[&endpoint]).unwrap();
    assert_eq!(waiting(), 1);
    connection.sends(ok("1"));
    first.response().has_body("1");
    connection.request();
    connection.sends(ok("2"));
    second.response().has_body("2");
}

#[test]
fn an_endpoint_with_other_tls_settings_is_another_one() {
    let endpoint = upstream::listens();
    let of = |more: &str| format!("upstreams: {{ u: {{ endpoints: $0{more} }} }}");
    let gateway = gateway(&of(""), &[&endpoint]);
    let mut client = gateway.connects();
    client.sends(GET);
    let mut connection = endpoint.accepts();
    connection.request();
    connection.sends(ok("1"));
    client.response().has_body("1");
    gateway.reloads(&of(", max_idle: 7, balance: random"), &[&endpoint]).unwrap();
    client.sends(GET);
    connection.request();
    connection.sends(ok("2"));
    client.response().has_body("2");
    gateway.reloads(&of(", tls: { verify: false }"), &[&endpoint]).unwrap();
    client.sends(GET);
    // The connection without TLS is not reused.
    endpoint.accepts();
}

#[test]
fn the_next_endpoint_gets_the_next_request() {
    let endpoints = ["0", "1", "2"].map(|number| upstream::replies(ok(number)));
    let [a, b, c] = &endpoints;
    let of = |more: &str| {
        format!("upstreams: {{ u: {{ endpoints: [$0, $1, $2], balance: round_robin{more} }} }}")
    };
    let gateway = gateway(&of(""), &[a, b, c]);
    let mut seen = vec![gateway.get("/").text()];
    for idle in 1..6 {
        gateway.reloads(&of(&format!(", max_idle: {idle}")), &[a, b, c]).unwrap();
        seen.push(gateway.get("/").text());
    }
    let turn = seen[..3].concat();
    assert!(["012", "120", "201"].contains(&turn.as_str()), "{turn}");
    assert_eq!(seen[3..].concat(), turn);
}

#[test]
fn cached_decisions_stay_while_the_service_is_asked_the_same() {
    let to = upstream::replies(ok("x"));
    let auth = upstream::replies(ok(""));
    let of = |forward: &str| {
        format!(
            "policies: {{ p: {{ authorise: {{ forward_auth: {{ upstream: auth, cache: {{ ttl: 1h }}{forward} }} }} }} }}\n\
             apply: [p]\nupstreams: {{ u: $0, auth: $1 }}"
        )
    };
    let gateway = gateway(&of(""), &[&to, &auth]);
    gateway.get("/").has_body("x");
    gateway.reloads(&format!("{}\n{MORE}", of(", timeout: 9s")), &[&to, &auth]).unwrap();
    gateway.get("/").has_body("x");
    assert_eq!(auth.requests().len(), 1);
    gateway.reloads(&of(", path: /other"), &[&to, &auth]).unwrap();
    gateway.get("/").has_body("x");
    assert_eq!(auth.requests().len(), 2);
}

#[test]
fn cached_passwords_stay_while_the_users_are_the_same() {
    let to = upstream::replies(ok("x"));
    let of = |users: &str| {
        format!(
            "policies: {{ p: {{ authorise: {{ basic: {{ users: {{ {users} }} }} }} }} }}\napply: [p]"
        )
    };
    let asks = |gateway: &Gateway| {
        let credentials = BASE64_STANDARD.encode("eve:password");
        let request =
            format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n");
        gateway.asks(&request).has_body("x");
        counts(gateway, "titan_basic_auth_cache_misses_total")
    };
    let eve = format!("eve: \"{PASSWORD}\"");
    let gateway = gateway(&of(&eve), &[&to]);
    assert_eq!([asks(&gateway), asks(&gateway)], [1, 1]);
    gateway.reloads(&format!("{}\n{MORE}", of(&eve)), &[&to]).unwrap();
    assert_eq!(asks(&gateway), 1);
    gateway.reloads(&of(&format!("{eve}, bob: \"{PASSWORD}\"")), &[&to]).unwrap();
    assert_eq!(asks(&gateway), 2);
}

#[test]
fn fetched_keys_and_cached_tokens_stay_while_they_come_from_the_same_place() {
    let (source, one) = (Arc::new(Source::default()), Signer::new("one"));
    source.has(Some(&[&one]));
    let (to, listening) = (upstream::replies(ok("x")), source.listens());
    let of = |more: &str| {
        let url = format!("{{ url: 'http://{}/keys?all' }}", listening.address());
        format!(
            "policies: {{ p: {{ jwt: {{ providers: {{ algorithms: EdDSA, keys: {{ jwks_url: {url} }} }}{more} }} }} }}\napply: [p]"
        )
    };
    let gateway = gateway(&of(""), &[&to]);
    waits_until("the keys are there", || gateway.status().is_ready());
    let token = one.token();
    let asks = |gateway: &Gateway| {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
        gateway.asks(&request).has_body("x");
        counts(gateway, "titan_jwt_cache_misses_total")
    };
    assert_eq!([asks(&gateway), asks(&gateway)], [1, 1]);
    let fetched = source.fetched();
    gateway.reloads(&format!("{}\n{MORE}", of("")), &[&to]).unwrap();
    assert_eq!((asks(&gateway), source.fetched()), (1, fetched));
    gateway.reloads(&of(", realm: other"), &[&to]).unwrap();
    assert_eq!((asks(&gateway), source.fetched()), (2, fetched), "another policy, the same keys");
}

#[test]
fn routes_and_upstreams_count_on_by_their_names() {
    let to = upstream::replies(ok("x"));
    let of = |routes: &str| format!("routes: [{routes}]");
    let gateway = gateway(&of("{ name: a, prefix: /, upstream: u }"), &[&to]);
    gateway.get("/").has_body("x");
    let first = "{ name: first, path: /first, upstream: u }";
    gateway
        .reloads(
            &of(&format!("{first}, {{ name: a, prefix: /, upstream: u, retries: 0 }}")),
            &[&to],
        )
        .unwrap();
    gateway.get("/").has_body("x");
    let served = |name: &str| {
        let status = gateway.status();
        let route = status.routes().into_iter().find(|it| it.name() == name).unwrap();
        route.sum(|cells| cells.classes.iter().map(Counter::get).sum())
    };
    waits_until("both to be counted", || served("a") == 2);
    assert_eq!(served("first"), 0);
}
