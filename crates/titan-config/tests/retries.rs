//! What retries may not say, and how it is told.

use insta::assert_snapshot;
use titan_config::Config;

fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn budgets_that_are_none() {
    let budget = |budget: &str| {
        report(&format!(
            "listeners: [\":8080\"]\nroutes: [{{ upstream: api }}]\nupstreams:\n  api:\n    \
             endpoints: 10.0.0.1:80\n    retry_budget: {{ {budget} }}\n"
        ))
    };
    let cases = ["share: 0%, floor: 0", "share: 120%", "share: 0.2", "floor: 1.5", "min: 3"];
    assert_snapshot!(cases.map(budget).join("\n"));
}

#[test]
fn retries_that_cannot_be_meant() {
    let retries = |retries: &str| {
        report(&format!(
            "listeners: [\":8080\"]\nroutes:\n  - upstream: api\n    retries: {retries}\nupstreams: {{ api: 10.0.0.1:80 }}\n"
        ))
    };
    let cases = [
        "9",
        "{ on: [] }",
        "{ on: [conect, 503] }",
        "{ on: 5xx }",
        "{ on: [unavailable, 777] }",
        "{ statuses: [200, 5x] }",
        "{ grpc: [ok, UNAVAILABLE, 14] }",
        "{ backoff: { base: 1s } }",
        "{ backoff: { base: 2s, max: 1s } }",
        "{ per_try_timeout: 1s }",
        "{ methods: [post] }",
        "{ max_retry_after: 5m }",
        "{ retry_on: 5xx }",
    ];
    assert_snapshot!(cases.map(retries).join("\n"));
}

#[test]
fn hedges_that_cannot_be_meant() {
    let hedge = |hedge: &str| {
        report(&format!(
            "listeners: [\":8080\"]\nroutes: [{{ upstream: api }}]\nupstreams:\n  api:\n    \
             endpoints: [10.0.0.1:80, 10.0.0.2:80]\n    hedge: {hedge}\n"
        ))
    };
    let cases = [
        "p0",
        "p100",
        "p99.999",
        "95%",
        "95",
        "2m",
        "on",
        "{ after: 50ms, min_delay: 20ms }",
        "{ min_delay: 0ms }",
        "{ methods: [get] }",
        "{ methods: [] }",
        "{ delay: p95 }",
    ];
    assert_snapshot!(cases.map(hedge).join("\n"));
}

#[test]
fn hedges_without_effect() {
    let cases = [
        ("{ endpoints: 10.0.0.1:80, hedge: p95 }", "1"),
        ("{ endpoints: [a:80, b:80], hedge: p95 }", "0"),
        ("{ endpoints: a:80, hedge: p95, retry_budget: { share: 0%, floor: 0 } }", "1"),
        ("{ endpoints: a:80, hedge: p95, balance: { sticky_cookie: {} } }", "1"),
        ("{ endpoints: a:80, hedge: p95 }", "1"),
    ];
    let reports = cases.map(|(upstream, retries)| {
        report(&format!(
            "listeners: [\":8080\"]\nroutes:\n  - {{ upstream: api, retries: {retries} }}\nupstreams:\n  api: {upstream}\n"
        ))
    });
    assert_snapshot!(reports.join("\n"));
}

#[test]
fn an_attempt_has_no_more_time_than_all_of_them() {
    let timeouts = |(everywhere, of_route): (&str, &str)| {
        report(&format!(
            "listeners: [\":8080\"]\ntimeouts: {{ {everywhere} }}\nroutes:\n  - upstream: api\n    \
             retries: {{ on: timeout, per_try_timeout: 2s }}\n    timeouts: {{ {of_route} }}\n\
             upstreams: {{ api: 10.0.0.1:80 }}\n"
        ))
    };
    let cases = [
        ("total: 1s", ""),
        ("", "total: 1s"),
        ("total: 1s", "total: 2s"),
        ("total: never", "deadline_header: \"X Y\""),
        ("deadline_header: Content-Length", "deadline_header: Host"),
    ];
    assert_snapshot!(cases.map(timeouts).join("\n"));
}
