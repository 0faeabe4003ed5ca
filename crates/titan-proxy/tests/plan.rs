//! A plan misses no request: whatever the routes that serve do with it under two configurations, the plan says so.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use titan_config::{Plan, Resolved};
use titan_proxy::{Asking, Files, explain};

const HOSTS: &[&str] = &["", "host: a.x, ", "host: \"*.x\", ", "host: [b.a.x, \"*.a.x\"], "];
const PATHS: &[&str] = &[
    "",
    "prefix: /a, ",
    "prefix: /a/b, ",
    "path: /a, ",
    "path: /a/, ",
    "path: \"/a/{p}\", ",
    "path: \"/{p}/b\", ",
    "path: \"/{p}\", ",
    "path: \"/a/{*r}\", ",
];
const CONDITIONS: &[&str] = &[
    "",
    "methods: GET, ",
    "methods: [POST, HEAD], ",
    "headers: { X-A: one }, ",
    "headers: { X-A: { prefix: o } }, priority: 1, ",
    "query: { v: { present: false } }, ",
];
const METHODS: &[&str] = &[
    "",
    "methods: GET, ",
    "methods: HEAD, ",
    "methods: [GET, POST], ",
    "methods: [HEAD, PUT], ",
    "methods: [GET, HEAD], ",
    "methods: PUT, ",
];
const RANKS: &[&str] = &["", "", "priority: 1, ", "headers: { X-A: one }, "];
const OPEN: &str = "";
const GUARDED: &str = "apply: net, ";

/// Routes that a file can have, each with a number that names it.
fn routes() -> impl Strategy<Value = Vec<String>> {
    let route = (select(HOSTS), select(PATHS), select(CONDITIONS), select(&[OPEN, GUARDED][..]))
        .prop_map(|(host, path, conditions, guard)| format!("{host}{path}{conditions}{guard}"));
    proptest::collection::vec(route, 8).prop_map(named)
}

/// Routes that only their methods tell apart, or little else.
fn alike_routes() -> impl Strategy<Value = Vec<String>> {
    let route = (
        select(&["", "path: /a, "][..]),
        select(METHODS),
        select(RANKS),
        select(&[OPEN, GUARDED][..]),
    )
        .prop_map(|(path, methods, rank, guard)| format!("{path}{methods}{rank}{guard}"));
    proptest::collection::vec(route, 6).prop_map(named)
}

fn named(routes: Vec<String>) -> Vec<String> {
    let named = routes.into_iter().enumerate();
    named.map(|(number, it)| format!("  - {{ name: r{number}, {it}respond: 204 }}\n")).collect()
}

/// Two files with some of the routes each.
fn two_files_of(
    routes: impl Strategy<Value = Vec<String>>,
) -> impl Strategy<Value = [Vec<String>; 2]> {
    routes.prop_flat_map(|routes| [subsequence(routes.clone(), 1..=5), subsequence(routes, 1..=5)])
}

/// None where routes clash, which is an error.
fn resolved(routes: &[String]) -> Option<Resolved> {
    let file = format!(
        "listeners: [\":80\"]\npolicies: {{ net: {{ authorise: {{ deny: 192.0.2.0/24 }} }} }}\nroutes:\n{}",
        routes.concat()
    );
    Resolved::parse("titan.yaml", &file).ok()
}

/// The route that takes a request.
fn taker(of: &Resolved, (method, url, field): (&str, &str, &str)) -> Option<String> {
    let fields = [field.to_owned()];
    let fields = if field.is_empty() { &[][..] } else { &fields };
    let asking = Asking { method, url, fields, ..Asking::default() };
    explain(&of.config, &Files::default(), &asking).unwrap().outcome.route
}

/// Whether the plan tells of each of these requests that another route takes, and of each that is guarded less.
fn tells_all(
    files: &[Vec<String>; 2],
    hosts: &[&str],
    paths: &[&str],
) -> Result<(), TestCaseError> {
    let [Some(old), Some(new)] = [&files[0], &files[1]].map(|routes| resolved(routes)) else {
        return Ok(());
    };
    let plan = Plan::new(&old, &new);
    let is_guarded = |routes: &[String], name: &str| {
        let start = format!("  - {{ name: {name},");
        routes.iter().any(|route| route.starts_with(&start) && route.contains(GUARDED))
    };
    for (host, path) in hosts.iter().flat_map(|host| paths.iter().map(move |path| (host, path))) {
        let url = format!("http://{host}{path}");
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH"] {
            for field in ["", "X-A: one", "X-A: of"] {
                let request = (method, url.as_str(), field);
                let (Some(from), Some(to)) = (taker(&old, request), taker(&new, request)) else {
                    continue;
                };
                let is_told = plan.moves.iter().any(|it| it.from == from && it.to == to);
                prop_assert!(from == to || is_told, "{request:?}: {from} -> {to}\n{plan}");
                let was_guarded = is_guarded(&files[0], &from) && !is_guarded(&files[1], &to);
                let is_told = plan
                    .weaker
                    .iter()
                    .any(|it| it.part.name.as_ref() == Some(&to) && it.what.contains("authorise"));
                prop_assert!(!was_guarded || is_told, "{request:?}: {from} -> {to}\n{plan}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_gets_to_another_route_is_in_the_plan(files in two_files_of(routes())) {
        let hosts = ["z", "a.x", "b.x", "b.a.x", "c.b.a.x"];
        let paths = ["/", "/a", "/a/", "/a/b", "/a/b/c", "/c", "/c/b", "/a/c/b", "/a?v=1"];
        tells_all(&files, &hosts, &paths)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn routes_that_differ_in_methods_are_tried_as_they_are_served(files in two_files_of(alike_routes())) {
        tells_all(&files, &["z"], &["/a", "/b"])?;
    }
}
