//! `titan plan` as CI uses it: exit codes, standard input, JSON.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const OPEN: &str = "listeners: [':80']\nroutes: [{ name: r, respond: 204 }]\n";
const CLOSED: &str = "listeners: [':80']\nroutes: [{ name: r, respond: 204 }]\napply: ours\n\
                      policies: { ours: { authorise: { allow: 10.0.0.0/8 } } }\n";

/// Exit code, standard output and standard error of `titan plan NEW --from - OPTIONS` with the old one on standard input.
fn plan(old: &str, new: &str, options: &[&str]) -> (Option<i32>, String, String) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("plan-{number}.yaml"));
    std::fs::write(&file, new).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_titan"));
    let command = command.arg("plan").arg(&file).args(options);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut titan = command.spawn().unwrap();
    // It may have found a mistake before it reads this.
    let _ = titan.stdin.take().unwrap().write_all(old.as_bytes());
    let output = titan.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn the_exit_code_says_what_a_change_does() {
    let from = &["--from", "-"][..];
    assert_eq!(plan(OPEN, OPEN, from), (Some(0), "nothing changes\n".to_owned(), String::new()));
    let (code, out, err) = plan(OPEN, CLOSED, from);
    assert_eq!((code, err.as_str()), (Some(3), ""));
    assert!(out.contains("+ policy ours\n"), "{out}");
    let (code, out, err) = plan(CLOSED, OPEN, from);
    assert_eq!((code, err.as_str()), (Some(4), ""));
    assert!(
        out.contains("route r: no `authorise` applies any more; it was `ours` (/…)\n"),
        "{out}"
    );
    let (code, out, err) = plan(OPEN, "listeners: [':80']\n", from);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("`routes` is missing"), "{err}");
}

#[test]
fn programs_read_the_same_as_people() {
    let json_of = |old, new| {
        let (code, out, err) = plan(old, new, &["--from", "-", "--json"]);
        assert_eq!(err, "", "all of it is in the JSON");
        (code, serde_json::from_str::<Value>(&out).unwrap())
    };
    let (code, plan) = json_of(CLOSED, OPEN);
    assert_eq!(code, Some(4));
    let what = "no `authorise` applies any more; it was `ours`";
    assert_eq!(plan["result"], "weaker");
    assert_eq!(
        plan["weaker"],
        json!([{ "part": "routes", "name": "r", "what": what, "requests": "/…" }])
    );
    assert_eq!(
        plan["changes"],
        json!([
            { "part": "policies", "name": "ours", "change": "removed", "fields": [] },
            { "part": "apply", "name": null, "change": "changed",
              "fields": [{ "field": "apply", "old": "ours", "new": null, "weaker": false }] },
        ])
    );
    assert_eq!(json_of(OPEN, CLOSED).1["result"], "changed");
    let (code, plan) = json_of(OPEN, "routes: []\n");
    assert_eq!((code, &plan["result"]), (Some(2), &json!("invalid")));
    assert_eq!(plan["diagnostics"][0]["severity"], "error");
}

#[test]
fn two_configurations_cannot_both_be_standard_input() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_titan"));
    let output = command.args(["plan", "-", "--from", "-"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("standard input cannot be both configurations"), "{told}");
}
