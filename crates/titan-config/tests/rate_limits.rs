//! What a rate limit may not say, and how it is told.

use insta::assert_snapshot;
use titan_config::Config;

fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn rate_limits_that_limit_nothing_or_everything() {
    let limit = |limit: &str, routes: &str| {
        report(&format!(
            "listeners: [\":8080\"]\napply: [p]\nroutes:\n{routes}\npolicies:\n  p: {{ rate_limit: {{ {limit} }} }}\n"
        ))
    };
    let one = "  - { name: search, respond: 204 }";
    let two =
        "  - { name: search, respond: 204 }\n  - { path: /x, respond: 204, without: [rate_limit] }";
    let cases = [
        ("shadow: true", one),
        ("rates: [0/s, 5/ms, 5s, 2000000/s, 1/40d]", one),
        ("rates: { rate: 1/d, burst: 1000 }", one),
        ("rates: [5/s, 300/s]", one),
        ("rates: 5/s, key: [route, route]", one),
        ("rates: 5/s, key: client_adress", one),
        ("rates: 5/s, key: { claim: sub }", one),
        ("rates: 5/s, key: { param: ide }", "  - { path: \"/x/{id}\", respond: 204 }"),
        ("rates: 5/s, key: { param: user }", one),
        ("rates: 5/s, key: { param: \"{id}\" }", one),
        ("rates: 5/s, plans: { claim: plan, rates: { gold: 9/s } }", one),
        ("concurrency: 5, plans: { claim: plan, rates: { gold: 9/s } }", one),
        ("rates: 5/s, plans: { claim: plan, rates: { gold: [9/s, 100/s] } }", one),
        ("rates: 5/s, plans: { claim: plan, rates: { slow: 1/s } }, costs: { search: 3 }", one),
        ("concurrency: 5, max_delay: 500ms", one),
        ("rates: 5/s, max_delay: 2m", one),
        ("rates: 5/s, exempt: {}", one),
        ("rates: 5/s, exempt: { claims: { role: batch }, api_keys: [ours] }", one),
        ("rates: 5/s, costs: { search: 6 }", one),
        ("concurrency: 5, costs: { search: 2 }", one),
        ("rates: 5/s, costs: { serch: 2 }", one),
        ("rates: 5/s, costs: { x-exact: 2 }", two),
    ];
    let early = |limit: &str| {
        report(&format!(
            "listeners: [\":8080\"]\napply: [p]\nroutes:\n{one}\npolicies:\n  p: {{ {limit} }}\n"
        ))
    };
    let others = [
        "early_limit: { rates: 5/s, key: [client_address, { claim: sub }] }",
        "early_limit: { rates: 5/s, key: api_key }",
        "early_limit: { rates: 5/s, exempt: { api_keys: ours } }",
        "early_limit: { rates: 5/s, plans: { claim: plan, rates: { gold: 9/s } } }",
        "early_limit: { rates: 5/s, costs: { search: 6 } }",
        "failure_limit: { shadow: true }",
        "failure_limit: { by_clients: 5/s }",
    ];
    let reports: Vec<_> = cases.iter().map(|(text, routes)| limit(text, routes)).collect();
    let others = others.iter().map(|limit| early(limit));
    assert_snapshot!(reports.into_iter().chain(others).collect::<Vec<_>>().join("\n"));
}
