//! `titan check` as CI uses it: standard input, other machines' files, exit codes, JSON, routes in order.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// Exit code, standard output and standard error of `titan check - OPTIONS` with that on standard input.
fn check(text: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_titan"));
    let command = command.args(["check", "-"]).args(options);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut titan = command.spawn().unwrap();
    titan.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = titan.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    (output.status.code(), out, err)
}

fn json(text: &str, options: &[&str]) -> (Option<i32>, Value) {
    let (code, out, err) = check(text, &[options, &["--json"]].concat());
    assert_eq!(err, "", "all of it is in the JSON");
    (code, serde_json::from_str(&out).unwrap())
}

const GOOD: &str = "listeners: [':80']\nroutes: [{ respond: 204 }]\n";
const WARNED: &str = "listeners: [':80']\nroutes: [{ respond: 204 }]\nupstreams: { a: a:1 }\n";
const BAD: &str = "listeners: [':80']\nroutes: [{ prefix: /api/*, respond: 204 }, { path: a }]\n";
const FILES: &str = "listeners:\n  - address: ':443'\n    tls: { certificates: [{ cert: a.pem, key: a.key }] }\n\
                     jwt_revocations: { file: nowhere/revoked }\n\
                     policies: { p: { jwt: { providers: [{ issuer: a, audience: a, algorithms: HS256, keys: { secret_file: k } }] } } }\n\
                     routes: [{ respond: 204, apply: p }]\n";

#[test]
fn a_file_comes_from_standard_input() {
    let (code, out, err) = check(GOOD, &[]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("standard input is valid\n"), "{out}");
    let (code, out, err) = check(BAD, &[]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("--> standard input:2:25 in routes[0].prefix"), "{err}");
}

#[test]
fn files_of_another_machine_are_left_alone() {
    let (code, _, err) = check(FILES, &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("a.pem"), "{err}");
    assert_eq!(check(FILES, &["--no-files"]).0, Some(0));
    assert_eq!(check(BAD, &["--no-files"]).0, Some(2));
}

#[test]
fn revoked_tokens_need_a_folder_that_is_there() {
    let refused =
        "error: cannot use nowhere/revoked for revoked tokens: its directory does not exist";
    let text = FILES.replace("tls: { certificates: [{ cert: a.pem, key: a.key }] }", "name: a");
    let text = text.replace("secret_file: k", "secret: '0123456789abcdef0123456789abcdef'");
    let (code, _, err) = check(&text, &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains(refused), "{err}");
    let (code, _, err) = check(&text.replace("nowhere/revoked", "/dev/null"), &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("it is not a regular file"), "{err}");
    assert_eq!(check(&text, &["--no-files"]).0, Some(0));
    // The service manager is not to try that again and again: 2, as for other errors of a configuration.
    let mut run = Command::new(env!("CARGO_BIN_EXE_titan"));
    let run = run.args(["run", "-c", "/dev/stdin"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut titan = run.spawn().unwrap();
    titan.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = titan.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn names_without_a_certificate_are_warned_about() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("uncovered");
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_titan"));
    let command = command.args(["cert", "*.a.example", "b.example", "--out"]).arg(&folder);
    assert!(command.output().unwrap().status.success());
    let route = |names: &str, rest: &str| format!("{{ names: [{names}], mode: {rest} }}");
    let routes = [
        route(
            "b.example, x.a.example, '*.a.example', y.x.h.example, '*.h.example'",
            "terminate, upstream: u",
        ),
        route("c.example, z.x.a.example, '*.d.example'", "terminate, upstream: u"),
        route("p.example", "passthrough, upstream: u"),
        route("w.example", "https"),
    ];
    let pair = "cert: FOLDER/localhost.pem, key: FOLDER/localhost.key";
    let text = format!(
        "listeners: [{{ name: front, address: ':443', tls_routes: [{}], \
         tls: {{ certificates: [{{ {pair} }}, {{ {pair}, hosts: '*.h.example' }}] }} }}]\n\
         routes: [{{ respond: 204 }}]\nupstreams: {{ u: 'u:1' }}\n",
        routes.join(", ")
    );
    let (code, _, err) = check(&text.replace("FOLDER", folder.to_str().unwrap()), &[]);
    assert_eq!(code, Some(0), "{err}");
    for name in ["c.example", "z.x.a.example", "*.d.example", "w.example"] {
        let wanted =
            format!("the listener `front` has no certificate for `{name}`, which a TLS route");
        assert!(err.contains(&wanted), "{name}: {err}");
    }
    assert_eq!(err.matches("warning: ").count(), 4, "{err}");
}

#[test]
fn files_that_are_hardly_meant_are_warned_about() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("hardly-meant");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("there.html", "x"), ("empty", "# none\n"), ("keys", KEYS)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let text = HARDLY_MEANT.replace("FOLDER", folder.to_str().unwrap());
    let (code, _, err) = check(&text, &[]);
    assert_eq!(code, Some(0), "{err}");
    for wanted in [
        "gone.html, which `fallback` names, is not a file",
        "gone404.html, which `error_pages` names, is not a file",
        "empty has no keys: every request would be refused",
        "`limit` exempts the API key `eve`, which does not exist",
        ":13:5: there is no directory FOLDER/gone for the access log FOLDER/gone/a.log",
    ]
    .map(|wanted| wanted.replace("FOLDER", folder.to_str().unwrap()))
    {
        assert!(err.contains(&wanted), "{wanted}: {err}");
    }
    assert_eq!(err.matches("warning: ").count(), 5, "{err}");
    assert_eq!(check(&text, &["--strict"]).0, Some(3));
    assert_eq!(check(&text, &["--no-files", "--strict"]).0, Some(0));
}

#[test]
fn a_log_beside_the_configuration_has_a_directory() {
    let text = format!("{GOOD}access_log: {{ file: access.log }}\n");
    let (code, _, err) = check(&text, &["--strict"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

const KEYS: &str = "ann: ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\n";
const HARDLY_MEANT: &str = "listeners: [':80']
policies:
  none: { authorise: { api_keys: { file: FOLDER/empty } } }
  some: { authorise: { api_keys: { file: FOLDER/keys } } }
  limit: { rate_limit: { rates: 1/s, exempt: { api_keys: [ann, eve] } } }
routes:
  - { prefix: /a, files: { root: FOLDER, fallback: gone.html, error_pages: { 404: gone404.html } } }
  - { prefix: /b, files: { root: FOLDER, fallback: there.html, error_pages: { 404: there.html } } }
  - { prefix: /c, respond: 204, apply: none }
  - { prefix: /d, respond: 204, apply: [some, limit] }
access_log:
  - { file: FOLDER/there.log }
  - { file: FOLDER/gone/a.log }
";

#[test]
fn warnings_fail_where_none_are_allowed() {
    let (code, out, err) = check(WARNED, &[]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("warning: no route uses the upstream `a`"), "{err}");
    assert!(out.contains("is valid"), "{out}");
    let (code, out, err) = check(WARNED, &["--strict"]);
    assert_eq!((code, out.as_str()), (Some(3), ""), "{err}");
    assert!(err.contains("warning: no route uses the upstream `a`"), "{err}");
    assert!(err.contains("error: there are warnings, and `--strict` does not allow any"), "{err}");
    assert_eq!(check(GOOD, &["--strict"]).0, Some(0));
    assert_eq!(check(BAD, &["--strict"]).0, Some(2));
}

#[test]
fn programs_read_json() {
    let (code, report) = json(GOOD, &[]);
    assert_eq!(code, Some(0));
    let wanted = serde_json::json!({ "file": "standard input", "valid": true, "diagnostics": [] });
    assert_eq!(report, wanted);

    let (code, report) = json(BAD, &["--list-routes"]);
    assert_eq!((code, &report["valid"]), (Some(2), &Value::Bool(false)));
    let wanted = serde_json::json!({
        "severity": "error",
        "file": "standard input",
        "line": 2,
        "column": 25,
        "path": "routes[0].prefix",
        "message": "`/api/*` is not a prefix: a prefix already matches everything below it",
        "hint": "did you mean `/api`?",
    });
    assert_eq!(report["diagnostics"][0], wanted);
    assert_eq!(report["diagnostics"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(report.get("routes"), None);

    let (code, report) = json(WARNED, &["--strict"]);
    assert_eq!((code, &report["valid"]), (Some(3), &Value::Bool(true)));
    assert_eq!(report["diagnostics"][0]["severity"], "warning");
    assert_eq!(json(WARNED, &[]).0, Some(0));

    let (code, report) = json(FILES, &[]);
    assert_eq!(code, Some(2));
    let fault = &report["diagnostics"][0];
    assert_eq!((&fault["line"], &fault["hint"]), (&Value::from(2), &Value::Null));
    assert!(fault["message"].as_str().unwrap().starts_with("a.pem cannot be used"), "{fault}");

    let (code, report) = json("routes: \"\u{1}", &[]);
    assert_eq!((code, report["diagnostics"].as_array().unwrap().len()), (Some(2), 1));
}

const ROUTES: &str = "listeners: [':80']
upstreams: { api: a:1, new: b:1 }
policies: { limit: { rate_limit: { rates: 1/s } } }
routes:
  - { name: rest, respond: 404 }
  - { name: api, host: [api.example, '*.example'], prefix: /v1, upstream: { api: 9, new: 1 }, apply: limit }
  - { name: user, host: api.example, path: '/v1/users/{id}', methods: [GET, PUT], upstream: api }
  - { name: me, host: api.example, path: /v1/users/me, upstream: api }
  - { name: beta, host: api.example, prefix: /v1, headers: { X-Beta: '1' }, upstream: new }
  - { name: first, prefix: /, priority: 5, methods: GET, headers: { X-First: present }, redirect: https://a.example/ }
";

/// Which of two comes first that never compete is of no account, but it is the same everywhere.
#[test]
fn explain_and_list_have_routes_in_the_same_order() {
    let text = "listeners: [':80']\nroutes:\n\
        \x20 - { name: z, prefix: /z, respond: 204 }\n  - { name: a, prefix: /a, respond: 204 }\n\
        \x20 - { name: exact, path: /a, respond: 204 }\n  - { name: below, path: /a/b, respond: 204 }\n\
        \x20 - { name: part, path: '/{x}/b', respond: 204 }\n  - { name: rest, path: '/{x}/{*y}', respond: 204 }\n\
        \x20 - { name: last, respond: 204 }\n";
    let (_, report) = json(text, &["--list-routes"]);
    let listed: Vec<_> = report["routes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    let mut explain = Command::new(env!("CARGO_BIN_EXE_titan"));
    let explain = explain.args(["explain", "GET", "http://a/nowhere", "-c", "/dev/stdin"]);
    let explain = explain.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut titan = explain.spawn().unwrap();
    titan.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let told = String::from_utf8(titan.wait_with_output().unwrap().stdout).unwrap();
    let place = |name: &&str| told.find(&format!(". {name}: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(listed.is_sorted_by_key(place), "{listed:?} {told}");
}

#[test]
fn routes_are_listed_in_the_order_in_which_they_are_tried() {
    let (code, out, err) = check(ROUTES, &["--list-routes"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(out, @r"
    ROUTE  HOST         PATH            METHODS  CONDITIONS  POLICIES  ACTION
    me     api.example  /v1/users/me    any      0           -         upstream api
    user   api.example  /v1/users/{id}  GET,PUT  0           -         upstream api
    beta   api.example  /v1/…           any      1           -         upstream new
    api    api.example  /v1/…           any      0           limit     upstream 9 api : 1 new
    api    *.example    /v1/…           any      0           limit     upstream 9 api : 1 new
    first  any          /…              GET      1           -         redirect 308
    rest   any          /…              any      0           -         respond 404
    ");
    let (_, report) = json(ROUTES, &["--list-routes"]);
    let names = report["routes"].as_array().unwrap().iter().map(|route| route["name"].as_str());
    assert_eq!(
        names.flatten().collect::<Vec<_>>(),
        ["me", "user", "beta", "api", "api", "first", "rest"]
    );
    let wanted = serde_json::json!({
        "name": "user",
        "file": "standard input",
        "line": 7,
        "host": "api.example",
        "path": "/v1/users/{id}",
        "prefix": null,
        "methods": ["GET", "PUT"],
        "conditions": 0,
        "policies": [],
        "action": "upstream",
        "target": "api",
    });
    assert_eq!(report["routes"][1], wanted);
    assert_eq!(report["routes"][6]["prefix"], "/");
}
