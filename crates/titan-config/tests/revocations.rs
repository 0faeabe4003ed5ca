//! What is said of revocations that would revoke nothing.

use insta::assert_snapshot;
use titan_config::Config;

fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn revocations_that_revoke_nothing() {
    let with = |text: &str| {
        report(&format!("listeners: [\":8080\"]\nroutes: [{{ respond: 204 }}]\n{text}\n"))
    };
    let jwt = "apply: [p]\npolicies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }";
    let reports = [
        with("jwt_revocations: /var/lib/titan/revocations"),
        with(&format!("jwt_revocations: /var/lib/titan/revocations\nadmin: off\n{jwt}")),
        with(&format!("jwt_revocations: {{ capacity: 0 }}\n{jwt}")),
    ];
    assert_snapshot!(reports.join("\n"));
}
