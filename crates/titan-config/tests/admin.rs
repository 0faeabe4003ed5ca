//! Admin interfaces that would not be what was meant, as the report on them shows it.

use insta::assert_snapshot;
use titan_config::Config;

/// The report on a file with that section.
fn report(section: &str) -> String {
    let text = format!("{section}\nlisteners: [\":8080\"]\nroutes: [{{ respond: 204 }}]\n");
    match Config::parse("titan.yaml", &text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn admin_interfaces_that_would_not_be_what_was_meant() {
    let (hash, other) = ("a1".repeat(32), "b2".repeat(32));
    let tls = "tls: { certificates: { cert: c.pem, key: k.pem } }";
    // The SHA-256 of nothing.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let faults = [
        format!("{{ address: \":91\", tokens: {{ ci: {hash} }} }}"),
        format!("{{ tokens: {{ a: {hash}, b: {other}, c: {hash} }} }}"),
        format!("{{ tokens: {{ a: {empty} }} }}"),
        "{ tokens: { a: { sha256: secret, rights: write } } }".to_owned(),
        format!("{{ address: unix:/run/a, tokens: {{ a: {hash} }} }}"),
        format!("{{ address: unix:/run/a, {tls} }}"),
        format!("{{ {} }}", tls.replace("tls: {", "tls: { hsts: 1d,")),
        format!(
            "{{ {} }}",
            tls.replace(
                "tls: {",
                "tls: { client_certificates: { ca: a.pem, mode: ignore_invalid },"
            )
        ),
        "{ socket: unix:/run/a }".to_owned(),
        "{ socket: run/a }".to_owned(),
        "{ address: unix:/run/a, socket: /run/a }".to_owned(),
        format!("{{ address: \":91\", {tls} }}"),
        "{ trace_url: 'javascript:alert({trace_id})' }".to_owned(),
        "{ trace_url: 'https://jaeger.example/trace/' }".to_owned(),
    ];
    let reports = faults.map(|admin| report(&format!("admin: {admin}")));
    assert_snapshot!(reports.join("\n"));
    let meant = format!("admin: {{ address: \":91\", {tls}, tokens: {{ ci: {hash} }} }}");
    assert_eq!(report(&meant), "");
}
