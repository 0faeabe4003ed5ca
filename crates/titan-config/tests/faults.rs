//! Faults that are injected on purpose, and what is wrong with some.

use titan_config::Config;

#[test]
fn faults_that_contradict_themselves_or_do_nothing() {
    let report = |fault: &str| {
        let text = format!(
            "listeners: [\":8080\"]\napply: p\nroutes:\n  - respond: 204\npolicies:\n  p: {{ fault: {{ {fault} }} }}\n"
        );
        match Config::parse("titan.yaml", &text) {
            Ok(_) => panic!("{fault}: it is not refused"),
            Err(report) => report.to_string(),
        }
    };
    let cases = [
        "",
        "share: 10%",
        "share: 0%, abort: true",
        "share: 101%, abort: true",
        "status: 404",
        "status: 503, abort: true",
        "abort: true, truncate_after: 1KiB",
        "delay: 2m",
        "abort: true, header: X-Fault",
        "abort: true, header: Host, addresses: [10.0.0.0/8]",
        "abort: false",
        "abort: true, api_keys: [tests]",
    ];
    let reports: Vec<String> =
        cases.iter().map(|case| format!("# {case}\n{}", report(case))).collect();
    insta::assert_snapshot!(reports.join("\n"));
}
