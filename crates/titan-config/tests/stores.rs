//! What a store may not say, and how it is told.

use insta::assert_snapshot;
use titan_config::Config;

fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn stores_that_cannot_be_used() {
    let key = "hash_key: 0123456789abcdef";
    let of_store = |store: &str| {
        report(&format!(
            "listeners: [\":8080\"]\nroutes: [{{ respond: 204, apply: p }}]\nstores: {{ s: {{ {store} }} }}\n\
             policies: {{ p: {{ rate_limit: {{ rates: 5/s, shared: s }} }} }}\n"
        ))
    };
    let stores = [
        "address: \"redis://h\"".to_owned(),
        "address: \"redis://h\", hash_key: short".to_owned(),
        format!("address: \"10.0.0.1:6379\", {key}"),
        format!("address: \"http://h:80\", {key}"),
        format!("address: \"redis://u:p@h\", {key}"),
        format!("address: \"redis://h/3\", {key}"),
        format!("address: \"redis://h:0\", {key}"),
        format!("address: [\"redis://a\", \"redis://b\"], {key}"),
        format!("address: [\"redis://a\", \"rediss://b\"], sentinel: m, {key}"),
        format!("address: \"redis://a\", tls: {{}}, {key}"),
        format!("address: \"rediss://a\", tls: {{ verify: false }}, {key}"),
        format!("address: \"redis://10.0.0.1\", password: secret-word, {key}"),
        format!("address: \"redis://127.0.0.1\", password: secret-word, {key}"),
        format!("address: \"unix:/run/redis.sock\", timeout: 1s, {key}"),
        format!("address: \"redis://a\", sentinel: \"a b\", {key}"),
        format!("address: [\"redis://a\", \"redis://b\"], cluster: true, sentinel: m, {key}"),
        format!("address: \"redis://a\", cluster: true, database: 3, {key}"),
        format!("address: \"unix:/run/redis.sock\", cluster: true, {key}"),
        format!("address: [\"redis://a\", \"redis://b\"], cluster: true, {key}"),
    ];
    let of_limit = |limit: &str| {
        report(&format!(
            "listeners: [\":8080\"]\nroutes: [{{ respond: 204, apply: p }}]\n\
             stores: {{ fleet: {{ address: \"redis://h\", {key} }} }}\npolicies: {{ p: {{ rate_limit: {{ {limit} }} }} }}\n"
        ))
    };
    let limits = [
        "rates: 5/s",
        "rates: 5/s, shared: flet",
        "rates: 5/s, shared: other",
        "rates: 5/s, shared: { without_store: deny }",
        "rates: 5/s, shared: { store: fleet, without_store: block }",
        "rates: 5/s, concurrency: 3, shared: fleet",
        "concurrency: 3, shared: fleet",
    ];
    let stores = stores.iter().map(|store| format!("{store}\n{}", of_store(store)));
    let limits = limits.iter().map(|limit| format!("{limit}\n{}", of_limit(limit)));
    let reports: Vec<_> = stores.chain(limits).collect();
    assert!(
        !reports.iter().any(|report| report
            .split_once('\n')
            .is_some_and(|(_, it)| it.contains("secret-word")))
    );
    assert_snapshot!(reports.join("\n"));
}
