//! How many requests come, and how many run at once.

use crate::jwt::{PROVIDER, at, token};
use crate::tunnels::{CONSENT, WISH};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use titan_testkit::h2::{Head, code};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Gateway, Response, gateway, waits_until};

/// A gateway whose every response is its own, under one limit.
fn under(limit: &str, rest: &str) -> Gateway {
    let routes = match rest.contains("routes:") {
        true => "",
        false => {
            "routes: [{ name: all, prefix: /, respond: 204 }, { name: dear, path: /dear, respond: 204 }]\n"
        }
    };
    gateway(
        &format!("{routes}policies: {{ p: {{ rate_limit: {{ {limit} }} }} }}\napply: [p]\n{rest}"),
        &[],
    )
}

fn gets(gateway: &Gateway, path: &str, fields: &str) -> Response {
    gateway.asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

/// Of requests with those fields, one after the other, those that pass.
fn passing(gateway: &Gateway, requests: &[(&str, &str)]) -> Vec<bool> {
    requests.iter().map(|(path, fields)| gets(gateway, path, fields).status == 204).collect()
}

fn is_limited(response: Response) -> Response {
    response.has_problem(429, "rate-limited")
}

/// `RateLimit` without the times, which depend on how long the test takes.
fn left(response: &Response) -> String {
    let members = response.field("ratelimit").unwrap_or_default().split(", ");
    members.map(|it| it.split(";t=").next().unwrap_or_default()).collect::<Vec<_>>().join(", ")
}

/// How many requests rate limits have decided about so.
fn decided(metrics: &titan_proxy::Metrics, verdict: &str) -> u64 {
    metrics.of_policies("titan_rate_limit_requests_total", verdict)
}

// field: policy.rate_limit, rate.rate
#[test]
fn what_exceeds_a_rate_is_refused_and_responses_say_what_is_left() {
    let gateway = under("rates: 3/h", "");
    for rest in [2, 1, 0] {
        let response = gets(&gateway, "/", "").has_status(204).lacks("retry-after");
        assert_eq!(left(&response), format!("\"p\";r={rest}"));
        response.has_field("ratelimit-policy", "\"p\";q=3;w=3600");
    }
    let refused = is_limited(gets(&gateway, "/", ""));
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((1190..=1200).contains(&wait), "{wait}");
    refused
        .has_field("ratelimit", &format!("\"p\";r=0;t={wait}"))
        .has_field("ratelimit-policy", "\"p\";q=3;w=3600");
}

// field: rate_limit.rates
#[test]
fn a_request_has_to_fit_all_rates() {
    let gateway = under("rates: [2/h, { rate: 100/d, burst: 50 }]", "");
    let told = |response: &Response| response.field("ratelimit-policy").map(str::to_owned);
    let first = gets(&gateway, "/", "");
    assert_eq!(told(&first).unwrap(), "\"p:2/h\";q=2;w=3600, \"p:100/d\";q=100;w=86400");
    assert_eq!(left(&first), "\"p:2/h\";r=1, \"p:100/d\";r=49");
    assert_eq!(left(&gets(&gateway, "/", "")), "\"p:2/h\";r=0, \"p:100/d\";r=48");
    let refused = is_limited(gets(&gateway, "/", ""));
    assert_eq!(left(&refused), "\"p:2/h\";r=0, \"p:100/d\";r=48", "it takes nothing");
}

// field: rate.burst
#[test]
fn a_burst_may_come_at_once() {
    let gateway = under("rates: { rate: 1/h, burst: 3 }", "");
    let passed = passing(&gateway, &[("/", ""); 5]);
    assert_eq!(passed, [true, true, true, false, false]);
}

// field: rate_limit.costs
#[test]
fn requests_of_some_routes_count_more() {
    let gateway = under("rates: 5/h, costs: { dear: 3 }", "");
    let passed =
        passing(&gateway, &[("/dear", ""), ("/dear", ""), ("/", ""), ("/", ""), ("/", "")]);
    assert_eq!(passed, [true, false, true, true, false]);
}

// field: rate_limit.key, rate_key.header, rate_key.query, rate_key.cookie
#[test]
fn the_key_says_what_is_counted_together() {
    let trusted = "forwarding: { trusted_proxies: [127.0.0.1] }";
    let of = |address: &str| format!("X-Forwarded-For: {address}\r\n");
    type Two<'t> = [(&'t str, &'t str); 2];
    let cases: [(&str, Two<'_>, Two<'_>); 7] = [
        (
            "client_address",
            [("/", ""), ("/dear", "X-A: 1\r\n")],
            [("/", &of("192.0.2.1")), ("/", &of("192.0.2.2"))],
        ),
        (
            "client_address",
            [("/", &of("2001:db8::1")), ("/", &of("2001:db8::ffff:0:0:2"))],
            [("/", &of("2001:db8:0:1::1")), ("/", &of("2001:db8:0:2::1"))],
        ),
        ("route", [("/", &of("192.0.2.1")), ("/", &of("192.0.2.2"))], [("/dear", ""), ("/", "")]),
        (
            "{ header: x-a }",
            [("/", "X-A: 1\r\n"), ("/dear", "x-a: 1\r\n")],
            [("/", "X-A: 2\r\n"), ("/", "")],
        ),
        (
            "{ cookie: sid }",
            [("/", "Cookie: b=1; sid=7\r\n"), ("/", "Cookie: sid=7\r\n")],
            [("/", "Cookie: sid=8\r\n"), ("/", "Cookie: xsid=7\r\n")],
        ),
        (
            "{ query: a }",
            [("/?a=xy&b=1", ""), ("/dear?c&a=x%79", "")],
            [("/?a=1", ""), ("/?A=1", "")],
        ),
        (
            "[{ header: x-a }, { header: x-b }]",
            [("/", "X-A: 1\r\nX-B: 2\r\n"), ("/", "X-B: 2\r\nX-A: 1\r\n")],
            [("/", "X-A: 2\r\nX-B: 1\r\n"), ("/", "X-A: 12\r\nX-B: \r\n")],
        ),
    ];
    for (key, together, apart) in cases {
        let gateway = under(&format!("rates: 1/h, key: {key}"), trusted);
        assert_eq!(passing(&gateway, &together), [true, false], "{key}: {together:?}");
        let gateway = under(&format!("rates: 1/h, key: {key}"), trusted);
        assert_eq!(passing(&gateway, &apart), [true, true], "{key}: {apart:?}");
    }
}

// field: rate_key.param
#[test]
fn parts_of_paths_are_counted_together() {
    let routes = "routes:\n  - { path: \"/t/{tenant}/a\", respond: 204 }\n  \
        - { path: \"/u/{user}/{tenant}\", respond: 204 }\n  - { prefix: /, respond: 204 }";
    let cases = [
        (["/t/x/a", "/u/anybody/x"], true),
        (["/t/x/a", "/t/y/a"], false),
        // As upstreams take it, whatever is escaped of it.
        (["/t/x:y/a", "/t/x%3Ay/a"], true),
        (["/t/x/a?tenant=y", "/t/x/a?tenant=z"], true),
        (["/t/x/a", "/elsewhere"], false),
        (["/", "/elsewhere"], true),
    ];
    for (paths, is_together) in cases {
        let gateway = under("rates: 1/h, key: { param: tenant }", routes);
        let passed = passing(&gateway, &paths.map(|path| (path, "")));
        assert_eq!(passed, [true, !is_together], "{paths:?}");
    }
}

// field: rate_key.claim
#[test]
fn what_tokens_say_is_counted_together() {
    let with = |key: &str| {
        gateway(
            &format!(
                "routes: [{{ prefix: /, respond: 204 }}]\napply: [p, t]\npolicies:\n  \
                 p: {{ rate_limit: {{ rates: 1/h, key: {key} }} }}\n  t: {{ jwt: {{ {PROVIDER} }} }}"
            ),
            &[],
        )
    };
    let fields = |claims: &str| {
        let token = token(&format!("{{{claims},\"exp\":{}}}", at(60)));
        format!("Authorization: Bearer {token}\r\n")
    };
    let cases = [
        // The token counts, not what clients say beside it.
        ("{ claim: sub }", ["\"sub\":\"a\"", "\"sub\":\"a\",\"jti\":\"x\""], true),
        ("{ claim: sub }", ["\"sub\":\"a\"", "\"sub\":\"b\""], false),
        ("{ claim: sub }", ["\"sub\":\"a\"", "\"jti\":\"a\""], false),
        ("{ claim: /a/0 }", ["\"a\":[\"x\",\"y\"]", "\"a\":[\"x\",\"z\"]"], true),
        ("{ claim: /a/b }", ["\"a\":{\"b\":1}", "\"a\":{\"b\":2}"], false),
        ("{ claim: a }", ["\"a\":1", "\"a\":\"1\""], false),
        ("{ claim: a }", ["\"a\":[\"x\",\"y\"]", "\"a\":[\"x\",\"y\"]"], true),
        // Requests without the claim share one count.
        ("{ claim: a }", ["\"sub\":\"a\"", "\"sub\":\"b\""], true),
        ("{ claim: a }", ["\"sub\":\"a\"", "\"a\":null"], true),
        (
            "[{ claim: a }, { claim: b }]",
            ["\"a\":\"x\",\"b\":\"y\"", "\"a\":\"xy\",\"b\":\"\""],
            false,
        ),
    ];
    for (key, claims, is_together) in cases {
        let (first, second) = (fields(claims[0]), fields(claims[1]));
        let passed = passing(&with(key), &[("/", &first), ("/", &second)]);
        assert_eq!(passed, [true, !is_together], "{key}: {claims:?}");
    }
}

/// A gateway with that limit behind tokens that need not be there, or behind API keys.
fn behind(judge: &str, limit: &str) -> Gateway {
    gateway(
        &format!(
            "forwarding: {{ trusted_proxies: [127.0.0.1] }}\nroutes: [{{ prefix: /, respond: 204 }}]\n\
             apply: [j, p]\npolicies:\n  p: {{ rate_limit: {{ {limit} }} }}\n  j: {{ {judge} }}"
        ),
        &[],
    )
}

fn bearer(claims: &str) -> String {
    let token = token(&format!("{{{claims},\"exp\":{}}}", at(60)));
    format!("Authorization: Bearer {token}\r\n")
}

// field: rate_limit.exempt, exempt.addresses, exempt.claims, exempt.api_keys
#[test]
fn some_requests_are_not_limited() {
    let tokens = &format!("jwt: {{ {PROVIDER}, required: false }}");
    let hash = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    let other = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";
    let keys =
        &format!("authorise: {{ api_keys: {{ keys: {{ ours: {hash}, theirs: {other} }} }} }}");
    let of = |address: &str| format!("X-Forwarded-For: {address}\r\n");
    let cases = [
        (tokens, "addresses: 192.0.2.0/24", of("192.0.2.9"), of("198.51.100.1")),
        (tokens, "claims: { role: batch }", bearer("\"role\":\"batch\""), bearer("\"role\":\"x\"")),
        (
            tokens,
            "claims: { role: [a, b], /x/y: true }",
            bearer("\"role\":\"z\",\"x\":{\"y\":true}"),
            String::new(),
        ),
        (keys, "api_keys: ours", "X-API-Key: one\r\n".to_owned(), "X-API-Key: two\r\n".to_owned()),
    ];
    for (judge, exempt, free, limited) in cases {
        let gateway = behind(judge, &format!("rates: 1/h, exempt: {{ {exempt} }}"));
        for _ in 0..3 {
            gets(&gateway, "/", &free).has_status(204).lacks("ratelimit").lacks("ratelimit-policy");
        }
        assert_eq!(passing(&gateway, &[("/", limited.as_str()); 2]), [true, false], "{exempt}");
        let metrics = gateway.metrics();
        let counts = (decided(&metrics, "exempt"), decided(&metrics, "allowed"));
        assert_eq!(counts, (3, 1), "{exempt}");
    }
}

// field: rate_limit.plans, rate_plans.claim, rate_plans.rates
#[test]
fn a_token_says_what_rates_it_has() {
    let tokens = format!("jwt: {{ {PROVIDER}, required: false }}");
    let limit = "rates: 1/h, key: { claim: sub }, plans: { claim: /a/plan, rates: { gold: 3/h, \
        silver: [2/h, 100/d] } }";
    let cases = [
        ("\"a\":{\"plan\":\"gold\"}", 3, "\"p:gold\";q=3;w=3600"),
        (
            "\"a\":{\"plan\":[\"x\",\"silver\"]}",
            2,
            "\"p:silver:2/h\";q=2;w=3600, \"p:silver:100/d\";q=100;w=86400",
        ),
        // In the order of the file.
        ("\"a\":{\"plan\":[\"silver\",\"gold\"]}", 3, "\"p:gold\";q=3;w=3600"),
        ("\"a\":{\"plan\":\"lead\"}", 1, "\"p\";q=1;w=3600"),
        ("\"a\":{\"plan\":3}", 1, "\"p\";q=1;w=3600"),
        ("\"plan\":\"gold\"", 1, "\"p\";q=1;w=3600"),
    ];
    for (claims, count, told) in cases {
        let gateway = behind(&tokens, limit);
        let fields = bearer(&format!("\"sub\":\"ann\",{claims}"));
        let mut passed = 0;
        for _ in 0..5 {
            let response = gets(&gateway, "/", &fields).has_field("ratelimit-policy", told);
            passed += usize::from(response.status == 204);
        }
        assert_eq!(passed, count, "{claims}");
    }
    assert_eq!(passing(&behind(&tokens, limit), &[("/", ""); 2]), [true, false]);
}

/// A client that has used up a slow rate does not wait for it under a fast one.
#[test]
fn plans_are_counted_apart() {
    let tokens = format!("jwt: {{ {PROVIDER} }}");
    let limit = "rates: 1/d, key: { claim: sub }, plans: { claim: plan, rates: { gold: 100/s } }";
    let gateway = behind(&tokens, limit);
    let (free, gold) = (bearer("\"sub\":\"a\""), bearer("\"sub\":\"a\",\"plan\":\"gold\""));
    let passed = passing(&gateway, &[("/", &free), ("/", &free), ("/", &gold), ("/", &free)]);
    assert_eq!(passed, [true, false, true, false]);
}

// field: rate_limit.max_delay
#[test]
fn what_exceeds_a_rate_waits_for_its_turn() {
    let gateway = under("rates: { rate: 2/s, burst: 1 }, max_delay: 20s", "");
    let started = Instant::now();
    let mut clients: Vec<_> = (0..3).map(|_| gateway.connects()).collect();
    for client in &mut clients {
        client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        let response = client.response().has_status(204).lacks("retry-after");
        assert_eq!(left(&response), "\"p\";r=0");
    }
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
}

/// A request that would have to wait longer is refused, and one whose client leaves stops waiting.
#[test]
fn no_request_waits_for_longer_than_configured_nor_for_none() {
    let gateway = under("rates: { rate: 1/m, burst: 1 }, max_delay: 60s", "");
    let metrics = gateway.metrics();
    let is_over = |count| gateway.status().routes()[0].sum(|cells| cells.classes[0].get()) == count;
    let delayed = |count| decided(&metrics, "delayed") == count;
    gets(&gateway, "/", "").has_status(204);
    let mut waiting = gateway.connects();
    waiting.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    waits_until("it waits", || delayed(1));
    let refused = is_limited(gets(&gateway, "/", ""));
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=120).contains(&wait), "{wait}");
    waiting.resets();
    waits_until("it is over", || is_over(1));
}

#[test]
fn a_stream_that_is_reset_waits_no_more() {
    let gateway = under("rates: { rate: 1/m, burst: 1 }, max_delay: 60s", "");
    let metrics = gateway.metrics();
    let mut client = gateway.connects_h2();
    client.get("/").has_status(204);
    let stream = client.asks(&Head::get("/"));
    waits_until("it waits", || decided(&metrics, "delayed") == 1);
    client.resets(stream, code::CANCEL);
    waits_until("it is over", || {
        gateway.status().routes()[0].sum(|cells| cells.classes[0].get()) == 1
    });
}

/// A shadow delays no request.
#[test]
fn a_shadow_delays_no_request() {
    let gateway = under("rates: { rate: 1/m, burst: 1 }, max_delay: 60s, shadow: true", "");
    assert_eq!(passing(&gateway, &[("/", ""); 3]), [true; 3]);
    assert_eq!(decided(&gateway.metrics(), "shadowed"), 2);
}

/// What a client claims about itself exempts no request.
#[test]
fn claiming_an_address_exempts_no_client() {
    let gateway = under("rates: 1/h, exempt: { addresses: 192.0.2.0/24 }", "");
    assert_eq!(passing(&gateway, &[("/", "X-Forwarded-For: 192.0.2.9\r\n"); 2]), [true, false]);
}

// field: rate_limit.ipv6_prefix
#[test]
fn networks_of_ipv6_are_as_large_as_configured() {
    let trusted = "forwarding: { trusted_proxies: [127.0.0.1] }";
    let requests = [
        ("/", "X-Forwarded-For: 2001:db8:0:1::1\r\n"),
        ("/", "X-Forwarded-For: 2001:db8:0:2::1\r\n"),
    ];
    let passed =
        |bits: u8| passing(&under(&format!("rates: 1/h, ipv6_prefix: {bits}"), trusted), &requests);
    assert_eq!(passed(48), [true, false]);
    assert_eq!(passed(64), [true, true]);
}

/// What a client says of itself counts for nothing without a proxy that is trusted.
#[test]
fn claiming_an_address_gives_no_client_another_limit() {
    let gateway = under("rates: 1/h", "");
    let claims = [("/", "X-Forwarded-For: 192.0.2.1\r\n"), ("/", "X-Forwarded-For: 192.0.2.2\r\n")];
    assert_eq!(passing(&gateway, &claims), [true, false]);
}

// field: rate_limit.shadow
#[test]
fn a_shadow_refuses_no_request_and_counts() {
    let gateway = under("rates: 1/h, shadow: true", "");
    for _ in 0..3 {
        gets(&gateway, "/", "").has_status(204).lacks("ratelimit").lacks("ratelimit-policy");
    }
    let metrics = gateway.metrics();
    let policies = metrics.policies();
    assert!(policies.iter().flat_map(|it| &it.figures).all(|figure| figure.policy == "p"));
    assert_eq!(decided(&metrics, "allowed"), 1);
    assert_eq!(decided(&metrics, "shadowed"), 2);
    assert_eq!(decided(&metrics, "limited"), 0);
}

#[test]
fn what_is_refused_is_counted() {
    let gateway = under("rates: 1/h", "");
    assert_eq!(passing(&gateway, &[("/", ""); 3]), [true, false, false]);
    let metrics = gateway.metrics();
    assert_eq!((decided(&metrics, "allowed"), decided(&metrics, "limited")), (1, 2));
}

// field: rate_limit.capacity
#[test]
fn a_capacity_is_that_of_the_keys_in_use() {
    let limit = |capacity: u32| format!("rates: 1/h, key: {{ header: x-a }}, capacity: {capacity}");
    let refused = |gateway: &Gateway| {
        let mut client = gateway.connects();
        let is_refused = |number: &u32| {
            client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {number}\r\n\r\n"));
            client.response().status == 429
        };
        (0..400).filter(is_refused).count()
    };
    assert!(refused(&under(&limit(64), "")) >= 400 - 256);
    assert_eq!(refused(&under(&limit(4096), "")), 0);
}

/// Clients are told the same time by both fields, and the operator that it is the table.
#[test]
fn a_key_without_room_is_counted_as_such() {
    let gateway = under("rates: 2/h, key: { header: x-a }, capacity: 64", "");
    let mut client = gateway.connects();
    let mut ask = |number: u32| {
        client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {number}\r\n\r\n"));
        client.response()
    };
    let known = ask(0).has_status(204);
    assert_eq!(left(&known), "\"p\";r=1");
    let refused = (1..2_000).map(&mut ask).find(|response| response.status == 429);
    let refused = refused.expect("all entries are used up").has_problem(429, "rate-limited");
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((1700..=1800).contains(&wait), "{wait}");
    refused.has_field("ratelimit", &format!("\"p\";r=0;t={wait}"));
    let full = decided(&gateway.metrics(), "full");
    assert_eq!(full, 1);
}

// field: rate_limit.concurrency
#[test]
fn as_many_requests_run_at_once_as_allowed() {
    let upstream = upstream::listens();
    let text = "policies: { p: { rate_limit: { concurrency: 1 } } }\napply: [p]\n\
        routes: [{ prefix: /, upstream: u }, { path: /own, respond: 204 }]";
    let gateway = gateway(text, &[&upstream]);
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut first = gateway.connects();
    first.sends(request);
    let mut endpoint = upstream.accepts();
    endpoint.request();
    gateway
        .asks(request)
        .has_problem(429, "concurrency-limited")
        .has_field("retry-after", "1")
        .lacks("ratelimit");
    endpoint.sends(ok("x"));
    first.response().has_status(200);
    // A request whose client goes away is over, too.
    let mut second = gateway.connects();
    second.sends(request);
    endpoint.request();
    second.resets();
    endpoint.expects_close();
    waits_until("it is over", || gets(&gateway, "/own", "").status == 204);
}

#[test]
fn a_tunnel_runs_until_it_is_closed() {
    let upstream = upstream::listens();
    let text = "policies: { p: { rate_limit: { concurrency: 1, rates: 10/h } } }\napply: [p]";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects();
    client.sends(WISH);
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends(CONSENT);
    let granted = client.head();
    assert!(
        granted.starts_with("HTTP/1.1 101 ") && granted.contains("RateLimit: \"p\";r=9"),
        "{granted}"
    );
    gateway.asks(WISH).has_problem(429, "concurrency-limited");
    client.closes();
    endpoint.expects_close();
}

#[test]
fn calls_of_grpc_are_refused_in_its_own_words() {
    let upstream = upstream::listens();
    let text = "upstreams: { u: { endpoints: $0, protocol: h2 } }\n\
        policies: { p: { rate_limit: { rates: { rate: 1/h, burst: 1 }, key: { header: x-a } } } }\napply: [p]";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects_h2();
    let call =
        || Head::post("/a.B/C").with("content-type", "application/grpc").with("te", "trailers");
    let first = client.starts(&call());
    let _endpoint = upstream.accepts_h2();
    client.resets(first, code::CANCEL);
    let second = client.starts(&call());
    let response = client.response_head(second).has_status(200).has_field("grpc-status", "8");
    assert!(response.field("grpc-message").unwrap().contains("(rate-limited"));
    assert!(response.field("retry-after").is_some() && left(&response) == "\"p\";r=0");
}

/// Both workers and all connections draw on one number.
#[test]
fn of_many_connections_to_two_workers_the_rate_and_the_burst_pass() {
    const RATE: u64 = 400;
    const BURST: u64 = 100;
    let gateway = under(&format!("rates: {{ rate: {RATE}/s, burst: {BURST} }}"), "workers: 2");
    let (passed, asked) = (AtomicU64::new(0), AtomicU64::new(0));
    let started = Instant::now();
    let until = started + Duration::from_millis(1_500);
    thread::scope(|scope| {
        for _ in 0..64 {
            let mut client = gateway.connects();
            let (passed, asked) = (&passed, &asked);
            scope.spawn(move || {
                while Instant::now() < until {
                    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                    let has_passed = client.response().status == 204;
                    passed.fetch_add(u64::from(has_passed), Ordering::Relaxed);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let took = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let (passed, asked) = (passed.into_inner() as f64, asked.into_inner() as f64);
    let expected = RATE as f64 * took + BURST as f64;
    // A machine that stands still for a while asks for less than the rate: that no more passes is what holds on each.
    assert!(passed <= expected * 1.02, "{passed} of {expected}");
    assert!(passed >= BURST as f64 && asked > passed, "{passed} of {asked}");
}
