//! Floods and guesses before the client is identified.

use crate::jwt::{PROVIDER, at, token};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::sync::Barrier;
use titan_testkit::h2::Head;
use titan_testkit::{Gateway, Response, gateway, upstream};

/// The proxy in front says who the client is.
const TRUSTED: &str = "forwarding: { trusted_proxies: [127.0.0.1] }";
/// The hash of the key `one`.
const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
/// The hash of `secret`, which is checked fast.
const SECRET: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

/// A gateway with that limit in front of that policy, which lets some requests through.
fn under(limit: &str, judge: &str) -> Gateway {
    let text = format!(
        "{TRUSTED}\nroutes: [{{ prefix: /, respond: 204 }}]\napply: [l, j]\n\
         policies:\n  l: {{ {limit} }}\n  j: {{ {judge} }}"
    );
    gateway(&text, &[])
}

fn keys() -> String {
    format!("authorise: {{ api_keys: {{ query: key, keys: {{ a: {ONE} }} }} }}")
}

fn users() -> String {
    let hash = SECRET.replace('$', "\\x24");
    format!("authorise: {{ basic: {{ users: {{ eve: \"{hash}\", bob: \"{hash}\" }} }} }}")
}

fn tokens() -> String {
    format!("jwt: {{ {PROVIDER} }}")
}

/// What a client at that address gets for a request with those fields.
fn asks(gateway: &Gateway, client: &str, fields: &str) -> Response {
    gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n{fields}\r\n"))
}

fn basic(credentials: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(credentials))
}

fn statuses(gateway: &Gateway, client: &str, requests: &[&str]) -> Vec<u16> {
    requests.iter().map(|fields| asks(gateway, client, fields).status).collect()
}

const HERE: &str = "192.0.2.1";
const THERE: &str = "192.0.2.2";

// field: policy.early_limit
#[test]
fn an_early_limit_counts_before_authentication() {
    let gateway = under("early_limit: { rates: 2/h }", &keys());
    let right = "X-API-Key: one\r\n";
    assert_eq!(statuses(&gateway, HERE, &["", right, right]), [401, 204, 429]);
    let refused = asks(&gateway, HERE, right).has_problem(429, "rate-limited");
    assert!(refused.field("retry-after").is_some());
    asks(&gateway, THERE, right).has_status(204).has_field("ratelimit-policy", "\"l\";q=2;w=3600");
}

#[test]
fn a_route_may_have_an_early_limit_and_another() {
    let text = format!(
        "{TRUSTED}\nroutes: [{{ prefix: /, respond: 204 }}]\napply: [early, late, j]\npolicies:\n  \
         early: {{ early_limit: {{ rates: 4/h }} }}\n  late: {{ rate_limit: {{ rates: 1/h, key: api_key }} }}\n  \
         j: {{ {} }}",
        keys()
    );
    let gateway = gateway(&text, &[]);
    let right = "X-API-Key: one\r\n";
    let passed = asks(&gateway, HERE, right).has_status(204);
    let told: Vec<_> = passed.all("ratelimit-policy");
    assert_eq!(told, ["\"late\";q=1;w=3600", "\"early\";q=4;w=3600"]);
    assert_eq!(statuses(&gateway, HERE, &[right, "", ""]), [429, 401, 401]);
    assert_eq!(statuses(&gateway, HERE, &[right]), [429]);
    assert_eq!(statuses(&gateway, THERE, &[right]), [429], "the key has no more there either");
}

/// Whatever is shown: after three that are wrong nothing is looked at any more, and others do not notice.
// field: policy.failure_limit, failure_limit.by_client
#[test]
fn a_client_may_fail_so_often() {
    let right_token =
        format!("Authorization: Bearer {}\r\n", token(&format!("{{\"exp\":{}}}", at(60))));
    let wrong_token = right_token.replace("\r\n", "x\r\n");
    let (right_password, wrong_password) = (basic("eve:secret"), basic("eve:guess"));
    let cases = [
        (keys(), "X-API-Key: one\r\n", "X-API-Key: two\r\n"),
        (tokens(), &right_token, &wrong_token),
        (users(), &right_password, &wrong_password),
        (users(), &right_password, &basic("nobody:guess")),
    ];
    for (judge, right, wrong) in cases {
        let gateway = under("failure_limit: { by_client: 3/h }", &judge);
        // A right credential costs nothing, and neither does a request without any.
        let requests = [right, right, "", "", "", "", wrong, right, wrong, right, wrong];
        let told = [204, 204, 401, 401, 401, 401, 401, 204, 401, 204, 401];
        assert_eq!(statuses(&gateway, HERE, &requests), told, "{judge}");
        let metrics = gateway.metrics();
        let checked = || metrics.of_policies("titan_basic_auth_cache_misses_total", "");
        let before = checked();
        for fields in [wrong, right, ""] {
            let refused = asks(&gateway, HERE, fields).has_problem(429, "too-many-failures");
            let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
            assert!((1100..=1200).contains(&wait), "{wait}");
        }
        assert_eq!(checked(), before, "nobody works for them");
        assert_eq!(statuses(&gateway, THERE, &[right, wrong]), [204, 401]);
        let refused = metrics.of_policies("titan_rate_limit_requests_total", "limited");
        assert_eq!(refused, 3);
    }
}

#[test]
fn a_key_in_the_query_and_several_keys_fail_too() {
    let gateway = under("failure_limit: { by_client: 2/h }", &keys());
    let asks = |target: &str, fields: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        gateway.asks(&request).status
    };
    assert_eq!(asks("/?key=two", ""), 401);
    assert_eq!(asks("/?key=one", "X-API-Key: one\r\n"), 401);
    assert_eq!(asks("/?key=one", ""), 429);
}

// field: failure_limit.by_name
#[test]
fn a_user_may_be_guessed_at_so_often() {
    let gateway = under("failure_limit: { by_name: 2/h }", &users());
    let (right, wrong) = (basic("eve:secret"), basic("eve:guess"));
    assert_eq!(statuses(&gateway, HERE, &[&wrong, &right]), [401, 204]);
    assert_eq!(statuses(&gateway, THERE, &[&wrong, &right]), [401, 429]);
    asks(&gateway, "192.0.2.3", &right).has_problem(429, "too-many-failures");
    assert_eq!(statuses(&gateway, HERE, &[&basic("bob:secret"), ""]), [204, 401]);
}

/// Other names than those of users are limited too: clients cannot tell them apart.
#[test]
fn unknown_names_have_the_same_limit() {
    let gateway = under("failure_limit: { by_name: 2/h }", &users());
    let wrong = basic("nobody:guess");
    assert_eq!(statuses(&gateway, HERE, &[&wrong, &wrong, &wrong]), [401, 401, 429]);
}

// field: failure_limit.ipv6_prefix
#[test]
fn networks_fail_as_one() {
    let wrong = "X-API-Key: two\r\n";
    let fail = |bits: u8| {
        let limit = format!("failure_limit: {{ by_client: 1/h, ipv6_prefix: {bits} }}");
        let gateway = under(&limit, &keys());
        ["2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:2::1"]
            .map(|client| asks(&gateway, client, wrong).status)
    };
    assert_eq!(fail(64), [401, 429, 401]);
    assert_eq!(fail(48), [401, 429, 429]);
}

// field: failure_limit.shadow
#[test]
fn failures_can_be_watched_only() {
    let gateway = under("failure_limit: { by_client: 1/h, shadow: true }", &keys());
    let (right, wrong) = ("X-API-Key: one\r\n", "X-API-Key: two\r\n");
    assert_eq!(statuses(&gateway, HERE, &[wrong, wrong, right]), [401, 401, 204]);
    let metrics = gateway.metrics();
    assert_eq!(metrics.of_policies("titan_rate_limit_requests_total", "shadowed"), 2);
}

/// A client without an entry waits as those with one do: no guess is free.
// field: failure_limit.capacity
#[test]
fn failures_of_so_many_clients_are_counted() {
    let refused = |capacity: u32| {
        let limit = format!("failure_limit: {{ by_client: 1/h, capacity: {capacity} }}");
        let gateway = under(&limit, &keys());
        let mut client = gateway.connects();
        let mut is_refused = |number: u32| {
            client.sends(format!(
                "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.{}.{}\r\nX-API-Key: two\r\n\r\n",
                number / 256,
                number % 256
            ));
            client.response().status == 429
        };
        [(); 2].map(|()| (0..400).filter(|number| is_refused(*number)).count())
    };
    assert_eq!(refused(4096), [0, 400]);
    let [first, second] = refused(64);
    assert!((144..400).contains(&first), "there are 256 entries, and {first} found none");
    assert_eq!(second, 400);
}

#[test]
fn a_refusal_of_the_service_is_a_failure_if_credentials_were_sent() {
    let refuses = upstream::replies("HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n");
    let text = format!(
        "{TRUSTED}\nroutes: [{{ prefix: /, respond: 204 }}]\napply: [l, j]\n\
         upstreams: {{ auth: {{ endpoints: $0 }} }}\npolicies:\n  l: {{ failure_limit: {{ by_client: 1/h }} }}\n  \
         j: {{ authorise: {{ forward_auth: {{ upstream: auth }} }} }}"
    );
    let gateway = gateway(&text, &[&refuses]);
    let wrong = "Authorization: Bearer x\r\n";
    assert_eq!(statuses(&gateway, HERE, &["", "", wrong, wrong, ""]), [401, 401, 401, 429, 429]);
    assert_eq!(refuses.requests().len(), 3);
    let mut client = gateway.connects_h2();
    let mut calls = || {
        let call = Head::post("/a.B/C").with("content-type", "application/grpc");
        let call = call.with("te", "trailers").with("authorization", "Bearer x");
        let stream = client.asks(&call);
        client.response(stream).field("grpc-status").map(str::to_owned)
    };
    assert_eq!([calls(), calls()], [Some("16".to_owned()), Some("8".to_owned())]);
}

/// A client that sends many at once has all of them checked, and waits for all of them.
#[test]
fn what_fails_at_once_is_owed() {
    const CALLS: usize = 4;
    let all = Barrier::new(CALLS);
    let refuses = upstream::responds(move |_| {
        all.wait();
        b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let text = "routes: [{ prefix: /, respond: 204 }]\napply: [l, j]\nupstreams: { auth: { endpoints: $0 } }\n\
        policies:\n  l: { failure_limit: { by_client: 1/h } }\n  \
        j: { authorise: { forward_auth: { upstream: auth } } }";
    let gateway = gateway(text, &[&refuses]);
    let mut client = gateway.connects_h2();
    let call = Head::get("/").with("authorization", "Bearer x");
    for stream in [(); CALLS].map(|()| client.asks(&call)) {
        client.response(stream).has_status(401);
    }
    let refused = client.get("/").has_status(429);
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((3 * 3600 + 1..=4 * 3600).contains(&wait), "{wait}");
}
