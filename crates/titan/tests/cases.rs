//! `titan test` and `titan explain --as-test`, from files to exit codes.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const CONFIG: &str = "listeners: [\":80\"]
routes:
  - { name: user, host: api.example, path: \"/v1/users/{id}\", upstream: api, rewrite: { path: \"/users/{id}\" }, apply: [ours, marks] }
  - { name: old, prefix: /old, redirect: \"https://new.example{path}\" }
  - { name: key, prefix: /key, upstream: api, apply: [keys, fair] }
  - { name: hello, path: /hello, respond: 203 }
upstreams: { api: api:1 }
policies:
  ours: { authorise: { allow: 192.0.2.0/24 } }
  keys: { authorise: { api_keys: { keys: { ann: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae } } } }
  fair: { rate_limit: { rates: 10/s } }
  marks: { transform: { request: { headers: { set: { X-Mark: ours }, remove: X-Debug } } } }
";

/// A directory with the configuration and these test cases.
fn folder(cases: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cases-{number}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("titan.yaml"), CONFIG).unwrap();
    std::fs::write(folder.join("tests.yaml"), cases).unwrap();
    folder
}

/// Exit code, standard output and standard error of `titan ARGUMENTS` in that directory.
fn titan(folder: &PathBuf, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_titan"));
    let command = command.args(arguments).current_dir(folder).env("KEY", "foo");
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn what_is_as_expected_passes() {
    let folder = folder(
        "config: titan.yaml
cases:
  - name: users are rewritten
    request: { url: \"http://api.example/v1/users/7?a=b\", from: 192.0.2.1, headers: { X-Debug: [a, b] } }
    expect:
      route: user
      action: upstream
      upstream: api
      path: /users/7
      query: a=b
      host: api.example
      headers_set: { x-mark: ours, X-Forwarded-For: 192.0.2.1 }
      headers_added: [X-Mark, X-Request-Id]
      headers_removed: X-Debug
      policies: { authorise: passes, transform: passes, jwt: none }
  - name: other networks are refused
    request: { url: http://api.example/v1/users/7, from: 198.51.100.1 }
    expect: { route: user, status: 403, policies: { authorise: refuses, transform: not_reached } }
  - name: a key lets in
    request: { method: POST, url: /key, headers: { Host: a, X-API-Key: \"${KEY}\" } }
    expect: { route: key, headers_removed: X-API-Key, policies: { authorise: passes } }
  - name: no key does not
    request: { url: http://a/key }
    expect: { status: 401, code: api-key, policies: { rate_limit: not_reached } }
  - name: what is old is elsewhere
    request: { url: http://a/old/x }
    expect: { action: redirect, status: 308, location: https://new.example/old/x }
  - name: nobody knows the rest
    request: { url: http://a/ }
    expect: { route: none, status: 404, code: no-route }
",
    );
    let (code, out, err) = titan(&folder, &["test", "tests.yaml"]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.ends_with("6 cases: 6 passed, 0 failed\n"), "{out}");
}

#[test]
fn what_is_not_as_expected_is_shown_with_what_was_got() {
    let folder = folder(
        "cases:
  - { name: good, request: { url: http://a/hello }, expect: { status: 203 } }
  - name: bad
    request: { url: http://api.example/v1/users/7, from: 198.51.100.1 }
    expect:
      route: old
      action: files
      upstream: [b, a]
      path: /x
      query: \"\"
      host: a
      headers_set: { X-A: b }
      headers_added: X-B
      headers_removed: X-C
      status: 200
      code: no-route
      location: /
      policies: { authorise: passes, jwt: refuses }
",
    );
    let (code, out, err) = titan(&folder, &["test", "-c", "titan.yaml", "tests.yaml"]);
    assert_eq!((code, err.as_str()), (Some(1), ""));
    insta::assert_snapshot!(out, @r#"
    ok      good
    FAILED  bad (tests.yaml:3:5)
            route: expected old, got user
            action: expected files, got upstream
            upstream: expected a, b, got none
            path: expected /x, got nothing: it is not sent on
            query: expected "", got nothing: it is not sent on
            host: expected a, got nothing: it is not sent on
            status: expected 200, got 403
            code: expected no-route, got address-refused
            location: expected /, got none
            policies.authorise: expected passes, got refuses
            policies.jwt: expected refuses, got none
            headers_set.X-A: expected b, got none
            headers_added.X-B: expected added, got not there
            headers_removed.X-C: expected removed, got not sent by the client
    2 cases: 1 passed, 1 failed
    "#);
}

#[test]
fn a_wrong_file_is_told_with_its_place() {
    for (cases, told) in [
        ("cases: [{ name: a, request: { url: / }, expect: { rute: a } }]", "did you mean `route`?"),
        ("cases: [{ name: a, request: { url: / }, expect: {} }]", "tests.yaml:1:49 in cases[0]"),
        (
            "cases: [{ name: a, request: { url: / }, expect: { policies: { jtw: passes } } }]",
            "no policy has this type",
        ),
        (
            "cases: [{ name: a, request: { url: a }, expect: { route: a } }]",
            "tests.yaml:1:9: `a` is neither an absolute URL",
        ),
        (
            "cases: [{ name: a, request: { url: /, headers: { A: \"${NOT_SET_AT_ALL}\" } }, expect: { route: a } }]",
            "NOT_SET_AT_ALL",
        ),
        ("", "the file is empty"),
        ("- a", "expected a test file"),
    ] {
        let (code, out, err) = titan(&folder(cases), &["test", "-c", "titan.yaml", "tests.yaml"]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{cases}");
        assert!(err.contains(told), "{cases}\n{err}");
    }
    let (code, _, err) = titan(
        &folder("cases: { name: a, request: { url: / }, expect: { route: a } }"),
        &["test", "tests.yaml"],
    );
    assert_eq!(code, Some(2));
    assert!(err.contains("names no configuration"), "{err}");
}

#[test]
fn the_case_that_explain_writes_passes() {
    let folder = folder("");
    for request in [
        &[
            "GET",
            "http://api.example/v1/users/7?a=b",
            "--from",
            "192.0.2.1",
            "-H",
            "X-Debug: a",
            "-H",
            "x-debug: \"${b}\"",
        ][..],
        &["GET", "http://api.example/v1/users/7", "--from", "198.51.100.1"],
        &["POST", "/key", "-H", "Host: a", "-H", "X-API-Key: foo", "-H", "Content-Length: 5"],
        &["GET", "http://a/key"],
        &["GET", "http://a/old/x"],
        &["GET", "http://a/hello"],
        &["DELETE", "http://a/"],
    ] {
        let arguments = [&["explain", "-c", "titan.yaml", "--as-test"], request].concat();
        let (code, written, err) = titan(&folder, &arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        std::fs::write(folder.join("written.yaml"), &written).unwrap();
        let (code, out, err) = titan(&folder, &["test", "written.yaml"]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{written}\n{out}");
        // It is a test of something: what is expected of this request does not hold for another one.
        let other = written.replace("http://", "http://x.").replace("url: \"/key", "url: \"/x");
        std::fs::write(folder.join("written.yaml"), other).unwrap();
        let (code, out, _) = titan(&folder, &["test", "written.yaml"]);
        assert_eq!(
            code == Some(1),
            request[1].contains("api.example") || request[1] == "/key",
            "{out}"
        );
    }
}
