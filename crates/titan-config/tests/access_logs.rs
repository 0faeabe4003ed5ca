//! What access logs may not say, how it is told, and what of a changed one is weaker.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

use insta::assert_snapshot;
use std::fmt::Write;
use titan_config::{Config, LogDestination, LogPart, LogTarget, Plan, Resolved, SyslogAddress};

/// What is said of a file with these access logs.
fn said(logs: &str) -> String {
    match Config::parse("titan.yaml", &file(logs)) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

fn file(logs: &str) -> String {
    format!("listeners: [\":80\"]\nroutes: [{{ name: api, respond: 204 }}]\naccess_log: {logs}\n")
}

fn good(logs: &str) -> Config {
    Config::parse("titan.yaml", &file(logs)).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn targets_that_are_none() {
    let cases = [
        "{ format: json }",
        "[stdout, { stdout: {} }]",
        "{ stdout: {}, file: a.log }",
        "{ stdout: { path: x } }",
        "{ stdout: true }",
        "[{ file: logs/a.log }, { file: ./logs/a.log }]",
        "{ file: '' }",
        "{ file: /var/log/ }",
        "{ file: logs/.. }",
        "{ file: http://a/b }",
        "{ file: { path: a, rotate: {} } }",
        "{ file: { path: a, rotate: { keep: 7 } } }",
        "{ file: { path: a, rotate: { size: 1MiB, keep: 0 } } }",
        "{ file: { path: a, rotate: { size: 5 } } }",
        "{ file: { path: a, rotate: { age: 5s } } }",
        "{ file: { path: a, rotate: daily } }",
        "{ syslog: 10.0.0.1 }",
        "{ syslog: /dev/log }",
        "{ syslog: 'udp://10.0.0.1' }",
        "{ syslog: 'tcp://a:99999' }",
        "{ syslog: 'tls://a:6514' }",
        "{ syslog: { address: 'udp://a:514', facility: local9 } }",
        "{ syslog: { address: 'udp://a:514', tag: my gateway } }",
    ];
    assert_snapshot!(cases.map(said).join("\n"));
}

#[test]
fn collectors_that_are_none() {
    let cases = [
        "localhost:4317",
        "grpc://a:4317",
        "ftp://a",
        "http://",
        "http://a:0",
        "http://user:secret@a",
        "https://a/v1/logs",
        "http://a?key=1",
        "http://a/path",
        "http://a:4318",
        "{ endpoint: 'http://a:4317', protocol: http }",
        "{ endpoint: 'http://a', tls: { ca: x } }",
        "{ endpoint: 'https://a', tls: { verify: false } }",
        "{ endpoint: 'https://a', headers: { content-type: x } }",
        "{ endpoint: 'http://a', headers: { api-key: hunter2 } }",
        "{ endpoint: 'https://a', resource: { service.name: x } }",
        "{ endpoint: 'https://a', resource: { 'a b': x } }",
        "{ endpoint: 'https://a', compression: zstd }",
    ];
    let said = cases.map(|it| said(&format!("{{ otlp: it }}\notlp: {{ it: {it} }}")));
    assert_snapshot!(said.join("\n"));
}

#[test]
fn logs_to_collectors_that_there_are_not() {
    let cases = [
        "{ otlp: colector }\notlp: { collector: 'http://127.0.0.1:4317' }",
        "{ otlp: 'http://127.0.0.1:4317' }",
        "{ otlp: it }",
        "stdout\notlp: { it: 'http://127.0.0.1:4317' }",
        "[{ otlp: it }, { otlp: it, format: combined }]\notlp: { it: 'http://127.0.0.1:4317' }",
    ];
    assert_snapshot!(cases.map(said).join("\n"));
}

#[test]
fn formats_that_are_none() {
    let cases = [
        "{ stdout: {}, format: '' }",
        "{ stdout: {}, format: text }",
        "{ stdout: {}, format: '{time} {statsu}' }",
        "{ stdout: {}, format: '{time} {what}' }",
        "{ stdout: {}, format: '{time} {header:X-A}' }",
        "{ stdout: {}, format: '{request_header.X A}' }",
        "{ stdout: {}, format: '{request_header.}' }",
        "{ stdout: {}, format: '{time' }",
        "{ stdout: {}, format: 'time}' }",
        "{ stdout: {}, format: \"{time}\\n\" }",
        "{ stdout: {}, format: {status} }",
        "{ stdout: {}, format: combined, request_headers: X-A, claims: sub }",
        "{ stdout: {}, format: '{claim.sub}' }",
        "{ stdout: {}, request_headers: 'X A' }",
    ];
    assert_snapshot!(cases.map(said).join("\n"));
}

#[test]
fn conditions_that_cannot_be_meant() {
    let cases = [
        "{ stdout: {}, only: { routes: apo } }",
        "{ stdout: {}, only: { routes: [] } }",
        "{ stdout: {}, only: { statuses: 6xx } }",
        "{ stdout: {}, only: { slower_than: 5 } }",
        "{ stdout: {}, only: { failures: true } }",
        "{ stdout: {}, share: 0% }",
        "{ stdout: {}, share: 0.1 }",
        "{ stdout: {}, share: 0%, always: {} }",
    ];
    assert_snapshot!(cases.map(said).join("\n"));
}

#[test]
fn nothing_is_without_a_bound() {
    let logs = |count| vec!["{ syslog: 'udp://a:1' }"; count].join(", ");
    assert_eq!(said(&format!("[{}]", logs(16))), "");
    assert!(said(&format!("[{}]", logs(17))).contains("the maximum is 16"));
    let names = |range: std::ops::Range<usize>| {
        let names: Vec<_> = range.map(|number| format!("X-{number}")).collect();
        names.join(", ")
    };
    let two = |first, second| {
        format!(
            "[{{ stdout: {{}}, request_headers: [{}] }}, {{ file: a, request_headers: [{}] }}]",
            names(first),
            names(second)
        )
    };
    assert_eq!(said(&two(0..32, 0..32)), "");
    assert!(said(&two(0..20, 20..33)).contains("name more than 32 request headers"));
    assert!(said(&two(0..33, 0..1)).contains("the maximum is 32"));
    let mut format = String::new();
    (0..33).for_each(|number| write!(format, "{{response_header.X-{number}}}").unwrap());
    assert!(
        said(&format!("{{ stdout: {{}}, format: '{format}' }}")).contains("32 response headers")
    );
    let long = "{status}".repeat(513);
    assert!(said(&format!("{{ stdout: {{}}, format: '{long}' }}")).contains("maximum is 4096"));
}

#[test]
fn what_a_format_names_is_captured() {
    let config = good(
        "{ stdout: {}, format: '{request_header.X-A}{request_header.x-a} {response_header.X-B}' }",
    );
    let captures = &config.access_log[0].captures;
    assert_eq!(captures.request_headers.len(), 1);
    assert_eq!(captures.response_headers[0].as_str(), "X-B");
    let text = format!("{:?}", config.access_log[0].format);
    assert!(text.contains("[RequestHeader(HeaderName(\"X-A\")), RequestHeader("), "{text}");
    assert!(text.contains(&format!("{:?}", LogPart::Text(" ".to_owned()))), "{text}");
}

#[test]
fn one_log_is_short_for_a_list() {
    for logs in ["stdout", "[stdout]", "{ stdout: {} }", "[{ stdout: {} }]"] {
        let config = good(logs);
        assert_eq!(config.access_log.len(), 1, "{logs}");
        assert_eq!(config.access_log[0].to, LogDestination::Lines(LogTarget::Stdout), "{logs}");
        assert_eq!(config.access_log[0].location.to_string().split(':').next(), Some("3"));
    }
    assert!(good("[]").access_log.is_empty());
    let LogDestination::Lines(LogTarget::Syslog {
        address: SyslogAddress::Unix(path),
        facility,
        tag,
    }) = &good("{ syslog: unix:///dev/log }").access_log[0].to
    else {
        panic!("it is no socket");
    };
    assert_eq!((path.to_str(), facility.code(), tag.as_str()), (Some("/dev/log"), 16, "titan"));
}

#[test]
fn a_share_of_none_is_fine_beside_exceptions() {
    assert_eq!(said("{ stdout: {}, share: 0%, always: { failures: true } }"), "");
}

/// What is weaker, as plans tell it.
fn weaker(old: &str, new: &str) -> Vec<String> {
    let read = |logs| Resolved::parse("titan.yaml", &file(logs)).unwrap();
    let plan = Plan::new(&read(old), &read(new));
    plan.weaker.into_iter().map(|it| it.what).collect()
}

#[test]
fn logging_less_and_telling_more_is_weaker() {
    for (old, new) in [
        ("stdout", "[]"),
        ("[stdout, { file: a }]", "stdout"),
        ("stdout", "{ stdout: {}, share: 10% }"),
        ("stdout", "{ stdout: {}, only: { statuses: 5xx } }"),
        ("stdout", "{ stdout: {}, only: { routes: api } }"),
        (
            "{ stdout: {}, only: { statuses: [404, 5xx] } }",
            "{ stdout: {}, only: { statuses: 5xx } }",
        ),
        ("stdout", "{ stdout: {}, only: { slower_than: 1s } }"),
        ("stdout", "{ stdout: {}, format: combined }"),
        ("stdout", "{ stdout: {}, request_headers: X-A }"),
        ("{ stdout: {}, always: { failures: true } }", "stdout"),
        ("{ stdout: {}, always: { statuses: 5xx } }", "stdout"),
        ("{ stdout: {}, always: { slower_than: 1s } }", "stdout"),
        (
            "{ stdout: {}, always: { slower_than: 1s } }",
            "{ stdout: {}, always: { slower_than: 2s } }",
        ),
        (
            "{ file: { path: a, rotate: { age: 1d, keep: 3 } } }",
            "{ file: { path: a, rotate: { age: 1d, keep: 2 } } }",
        ),
    ] {
        assert!(!weaker(old, new).is_empty(), "{old} -> {new}");
        let back = weaker(new, old);
        let is_about_format = new.contains("format");
        assert!(
            back.is_empty() || is_about_format || new.contains("only: { slower"),
            "{new} -> {old}: {back:?}"
        );
    }
    for (old, new) in [
        ("stdout", "[{ stdout: {} }]"),
        ("[stdout, { file: a }]", "[{ file: ./a }, stdout]"),
        ("{ file: a }", "{ file: b }"),
    ] {
        assert_eq!(weaker(old, new), [""; 0], "{old} -> {new}");
    }
}

#[test]
fn a_changed_log_is_told_by_its_target() {
    let read = |logs| Resolved::parse("titan.yaml", &file(logs)).unwrap();
    let old = read("[stdout, { file: a.log }, { syslog: 'udp://a:1' }]");
    let new = read(
        "[{ stdout: {}, share: 5% }, { file: { path: a.log, rotate: { size: 1MiB } } }, { syslog: { address: 'udp://a:1', tag: b } }]",
    );
    assert_snapshot!(Plan::new(&old, &new).to_string());
}
