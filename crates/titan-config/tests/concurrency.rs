//! What limits of concurrency may not say, and how it is told.

use insta::assert_snapshot;
use titan_config::Config;

fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn limits_that_contradict_themselves() {
    let concurrency = |concurrency: &str| {
        report(&format!(
            "listeners: [\":8080\"]\nroutes: [{{ upstream: api }}]\nupstreams:\n  api:\n    \
             endpoints: 10.0.0.1:80\n    concurrency: {concurrency}\n"
        ))
    };
    let cases = [
        "{ min: 50, max: 20 }",
        "{ min: 2000 }",
        "{ max: 0 }",
        "{ max: 10, initial: 20 }",
        "{ queue: 0, delay_target: 5ms }",
        "{ delay_target: 0ms }",
        "on",
    ];
    assert_snapshot!(cases.map(concurrency).join("\n"));
}

#[test]
fn an_importance_that_there_is_not() {
    assert_snapshot!(report(
        "listeners: [\":8080\"]\nroutes: [{ importance: high, respond: { body: a } }]\n"
    ));
}
