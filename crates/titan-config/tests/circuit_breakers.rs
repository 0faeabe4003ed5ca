//! What circuit breakers may not say, and how it is told.

use insta::assert_snapshot;
use titan_config::Config;

fn report(breaker: &str) -> String {
    let text = format!(
        "listeners: [\":8080\"]\nroutes: [{{ upstream: api }}]\nupstreams:\n  api:\n    \
         endpoints: 10.0.0.1:80\n    circuit_breaker: {breaker}\n"
    );
    match Config::parse("titan.yaml", &text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn fallbacks_that_lead_nowhere() {
    let cases = [
        "{ fallback: { upstream: api } }",
        "{ fallback: { upstream: ap } }",
        "{ fallback: { respond: 204, file: a.html } }",
        "{ fallback: {} }",
        "{ fallback: { respond: { template: '{path}' } } }",
        "{ fallback: { file: { path: a.html, status: 99 } } }",
        "{ fallback: { file: '' } }",
        "{ fallback: on }",
    ];
    assert_snapshot!(cases.map(report).join("\n"));
}

#[test]
fn fallbacks_that_lead_in_a_circle() {
    let upstream = |name: &str, next: &str| {
        format!(
            "  {name}:\n    endpoints: 10.0.0.1:80\n    circuit_breaker: {{ fallback: {{ upstream: {next} }} }}\n"
        )
    };
    let config = |upstreams: &[(&str, &str)]| {
        let upstreams: String = upstreams.iter().map(|(name, next)| upstream(name, next)).collect();
        let text = format!(
            "listeners: [\":8080\"]\nroutes: [{{ upstream: a }}]\nupstreams:\n{upstreams}  z: 10.0.0.9:80\n"
        );
        Config::parse("titan.yaml", &text)
            .map_or_else(|report| report.to_string(), |_| "fine".into())
    };
    let (circle, tail, way) = (
        config(&[("a", "b"), ("b", "c"), ("c", "a")]),
        config(&[("a", "b"), ("b", "c"), ("c", "b")]),
        config(&[("a", "b"), ("b", "c"), ("c", "z")]),
    );
    let two = config(&[("a", "b"), ("b", "a"), ("c", "d"), ("d", "a"), ("e", "e")]);
    assert_snapshot!([circle, tail, way, two].join("\n"));
}

/// Each upstream of a chain is passed once: a file of that size must not take minutes.
#[test]
fn fallbacks_form_long_chains() {
    let upstream = |at: usize| {
        format!(
            "  u{at}:\n    endpoints: 10.0.0.1:80\n    circuit_breaker: {{ fallback: {{ upstream: u{} }} }}\n",
            at + 1
        )
    };
    let last = 4000;
    let upstreams: String = (0..last).map(upstream).collect();
    let text = format!(
        "listeners: [\":8080\"]\nroutes: [{{ upstream: u0 }}]\nupstreams:\n{upstreams}  u{last}: 10.0.0.9:80\n"
    );
    Config::parse("titan.yaml", &text).expect("no circle");
}

#[test]
fn breakers_that_contradict_themselves() {
    let cases = [
        "{ failure_share: off }",
        "{ failures: [], statuses: [] }",
        "{ slow_after: 2s }",
        "{ open_time: 2m }",
        "{ failure_share: 120% }",
        "{ consecutive_failures: 0 }",
        "{ failures: [connect, refused] }",
        "{ statuses: 200-299 }",
        "{ failure_share: off, consecutive_failures: 5, min_requests: 10 }",
        "{ treshold: 5 }",
    ];
    assert_snapshot!(cases.map(report).join("\n"));
}
