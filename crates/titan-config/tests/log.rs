//! What `log` may not say, and how it is told.

use insta::assert_snapshot;
use titan_config::Config;

#[test]
fn levels_and_areas_that_there_are_not() {
    let log = |log: &str| {
        let text = format!("listeners: [\":8080\"]\nroutes: [{{ respond: 204 }}]\nlog: {log}\n");
        match Config::parse("titan.yaml", &text) {
            Ok(config) => config.warnings.to_string(),
            Err(report) => report.to_string(),
        }
    };
    let cases = [
        "verbose",
        "{ level: warning }",
        "{ areas: { healt: debug } }",
        "{ areas: { requests: debug } }",
        "{ areas: { health: loud } }",
        "{ areas: { health: debug, health: warn } }",
        "{ format: jsn }",
        "{ file: /var/log/titan }",
    ];
    assert_snapshot!(cases.map(log).join("\n"));
}
