//! Where `titan check` warns of paths that upstreams take for guarded ones.

use titan_config::Config;

/// The warnings about a file with these routes in front of two upstreams.
#[track_caller]
fn warnings(routes: &str, more: &str) -> String {
    let text = format!(
        "listeners: [':80']
routes: {routes}
policies:
  staff: {{ authorise: {{ allow: 10.0.0.0/8 }} }}
upstreams: {{ a: a:1 }}
{more}"
    );
    let config = Config::parse("titan.yaml", &text).unwrap_or_else(|report| panic!("{report}"));
    config.warnings.to_string()
}

const ADMIN: &str = "{ prefix: /admin, upstream: a, apply: [staff] }";
const OPEN: &str = "{ prefix: /, upstream: a }";

#[test]
fn a_guarded_path_under_an_open_one_draws_a_warning() {
    let told = warnings(&format!("[{ADMIN}, {OPEN}]"), "");
    assert!(
        told.contains("an open route accepts look-alikes of the protected path `/admin`"),
        "{told}"
    );
    assert!(told.contains("accepts `/ADMIN`, `/admin;x`, `/%2Fadmin`"), "{told}");
    for (guarded, open) in [
        (ADMIN, "{ path: '/{*rest}', upstream: a }"),
        (ADMIN, "{ prefix: /, files: /srv }"),
        ("{ path: /a/admin, upstream: a, apply: [staff] }", "{ prefix: /a, upstream: a }"),
        (
            "{ path: /a/admin, upstream: a, apply: [staff] }",
            "{ path: '/{x}/{*rest}', upstream: a }",
        ),
        ("{ prefix: /admin, respond: 403 }", "{ host: a.example, prefix: /, upstream: a }"),
        (
            "{ host: a.b.example, prefix: /admin, upstream: a, apply: [staff] }",
            "{ host: '*.example', prefix: /, upstream: a }",
        ),
    ] {
        let told = warnings(
            &format!("[{guarded}, {open}, {{ path: /used, upstream: a, apply: [staff] }}]"),
            "",
        );
        assert!(told.contains("look-alikes of the protected path"), "{guarded} {open}: {told}");
    }
}

#[test]
fn what_is_stated_or_out_of_reach_draws_none() {
    let all = "paths: { encoded_slashes: refuse, parameters: keep, case: refuse }";
    assert_eq!(warnings(&format!("[{ADMIN}, {OPEN}]"), all), "");
    let open = format!("{{ prefix: /, upstream: a, {all} }}");
    assert_eq!(warnings(&format!("[{ADMIN}, {open}]"), ""), "");
    let told = warnings(&format!("[{ADMIN}, {OPEN}]"), "paths: { parameters: refuse, case: keep }");
    assert!(told.contains("accepts `/%2Fadmin`, which"), "{told}");
    for routes in [
        format!("[{ADMIN}, {{ prefix: /, upstream: a, apply: [staff] }}]"),
        format!("[{ADMIN}, {{ prefix: /, respond: 200 }}]"),
        format!("[{ADMIN}, {{ prefix: /other, upstream: a }}]"),
        format!("[{ADMIN}, {{ path: /, upstream: a }}]"),
        "[{ host: a.example, prefix: /admin, upstream: a, apply: [staff] }, \
          { host: b.example, prefix: /, upstream: a }]"
            .to_owned(),
    ] {
        assert_eq!(warnings(&routes, ""), "", "{routes}");
    }
}
