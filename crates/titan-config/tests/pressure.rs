//! What pressure may not say, and how it is told.

use insta::assert_snapshot;
use titan_config::Config;

#[test]
fn steps_that_do_not_follow_each_other() {
    let pressure = |pressure: &str| {
        let text =
            format!("listeners: [\":8080\"]\nroutes: [{{ respond: 204 }}]\npressure: {pressure}\n");
        match Config::parse("titan.yaml", &text) {
            Ok(config) => config.warnings.to_string(),
            Err(report) => report.to_string(),
        }
    };
    let cases = [
        "{ stop_keep_alive: 95%, shed: 92% }",
        "{ shed: 99% }",
        "{ stop_accepting: 120% }",
        "{ max_lag: 0s }",
        "{ max_memory: 5KiB }",
        "on",
    ];
    assert_snapshot!(cases.map(pressure).join("\n"));
}
