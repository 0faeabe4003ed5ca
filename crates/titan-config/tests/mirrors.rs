//! What is wrong with mirrors.

use titan_config::Config;

/// The report on a route with that mirror.
fn report(mirror: &str) -> String {
    let text = format!(
        "listeners: [':80']\nupstreams: {{ api: a:1, shadow: b:1, other: c:1 }}\nroutes:\n  \
         - upstream: {{ api: 9, shadow: 0, other: 0 }}\n    mirror: {mirror}\n"
    );
    match Config::parse("titan.yaml", &text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

#[test]
fn a_mirror_is_another_upstream() {
    for mirror in
        ["shadow", "{ upstream: shadow }", "[shadow, other]", "{ upstream: shadow, share: 0.01% }"]
    {
        assert_eq!(report(mirror), "", "{mirror}");
    }
}

#[test]
fn mirrors_that_copy_nothing_or_to_nowhere_are_refused() {
    let cases = [
        ("api", "this route mirrors requests to its own upstream", "name another upstream"),
        ("{ upstream: api }", "the requests go there already", "name another upstream"),
        ("shadwo", "there is no upstream `shadwo`", "did you mean `shadow`?"),
        ("{ share: 10% }", "`upstream` is missing", "upstream"),
        ("{ upstream: shadow, share: 0% }", "this mirror copies no request", "raise `share`"),
        ("{ upstream: shadow, share: 101% }", "this is more than the whole", "at most `100%`"),
        ("{ upstream: shadow, share: 50 }", "the `%` is missing", "did you mean `50%`?"),
        ("{ upstream: shadow, concurrent: 0 }", "0", "1"),
        ("{ upstream: shadow, timeout: 0s }", "0s", "1ms"),
        ("{ upstream: shadow, compare: true }", "compare", "ignore"),
        (
            "{ upstream: shadow, compare: { ignore: meta.time } }",
            "a JSON pointer begins with `/`",
            "did you mean `/meta/time`?",
        ),
        (
            "{ upstream: shadow, compare: { ignore: /a~b } }",
            "`~` must be followed by",
            "/items/*/id",
        ),
        ("{ upstream: shadow, compare: { headers: Connection } }", "one connection", "remove it"),
        (
            "[{ upstream: shadow, compare: {} }, { upstream: other, compare: {} }]",
            "two mirrors of this route compare responses",
            "remove `compare` from one of them",
        ),
        (
            "{ upstream: shadow, compare: { body: off, show: [/a] } }",
            "`show` has no effect: bodies are not compared",
            "set `body` to a size",
        ),
        ("{ upstream: shadow, compare: { body: 2MiB } }", "2MiB", "1MiB"),
        ("{ upstream: shadow, compare: { samples: 201 } }", "201", "200"),
        ("[shadow, { upstream: shadow }]", "two mirrors of this route have the same", "remove one"),
        (
            "[shadow, api]",
            "this route mirrors requests to its own upstream",
            "name another upstream",
        ),
        ("{ upstream: shadow, percent: 5% }", "unknown key `percent`", "share"),
    ];
    for (mirror, message, help) in cases {
        let report = report(mirror);
        let is_told = report.contains(message)
            && report.contains(help)
            && report.contains("titan.yaml:5:")
            && report.starts_with("error");
        assert!(is_told, "{mirror}: {report}");
    }
}

#[test]
fn a_body_that_no_memory_is_for_is_warned_of() {
    let report = report("{ upstream: shadow, body: 64MiB }\nlimits: { mirror_memory: 1MiB }");
    assert!(report.starts_with("warning: the bodies that this route mirrors"), "{report}");
}

#[test]
fn a_memory_that_has_room_for_no_copy_is_warned_of() {
    let most = |compare: &str, body: u64| {
        report(&format!(
            "{{ upstream: shadow, body: {body}KiB{compare} }}\nlimits: {{ mirror_memory: 1MiB }}"
        ))
    };
    // A copy takes 16 KiB around its body.
    assert_eq!(most("", 1008), "");
    assert!(most("", 1009).contains("each copy takes up to 1025KiB"), "{}", most("", 1009));
    let compare = ", compare: { body: 100KiB }";
    assert_eq!(most(compare, 808), "");
    assert!(most(compare, 809).starts_with("warning: "), "both responses count");
    assert_eq!(most(", compare: { body: off }", 1008), "");
}

#[test]
fn the_upstream_that_stands_in_gets_no_copies() {
    let of = |mirror: &str| {
        let text = format!(
            "listeners: [':80']\nupstreams:\n  a: {{ endpoints: a:1, circuit_breaker: {{ fallback: {{ upstream: b }} }} }}\n  \
             b: {{ endpoints: b:1, circuit_breaker: {{ fallback: {{ upstream: c }} }} }}\n  c: c:1\n  d: d:1\n\
             routes: [{{ upstream: {{ d: 1, a: 1 }}, mirror: {mirror} }}]"
        );
        match Config::parse("titan.yaml", &text) {
            Ok(_) => String::new(),
            Err(report) => report.to_string(),
        }
    };
    for mirror in ["b", "{ upstream: b }", "c"] {
        let report = of(mirror);
        for part in [
            "error: this route mirrors requests to an upstream that stands in for its own",
            "titan.yaml:7:",
            "here it takes requests over",
            "name an upstream that stands in for none of the route's",
        ] {
            assert!(report.contains(part), "{mirror}: {report}");
        }
    }
}

#[test]
fn an_endpoint_that_gets_copies_of_its_own_requests_is_warned_of() {
    let of = |endpoints: &str| {
        let text = format!(
            "listeners: [':80']\nupstreams: {{ a: [a:1, 'b:1'], c: {endpoints} }}\n\
             routes: [{{ upstream: a, mirror: c }}, {{ path: /x, upstream: a, mirror: c }}]"
        );
        Config::parse("titan.yaml", &text).unwrap().warnings.to_string()
    };
    assert_eq!(of("[c:1, 'a:2']"), "");
    let report = of("[c:1, 'B:1']");
    for part in [
        "warning: the endpoint `b:1` gets copies of the requests that it serves\n --> titan.yaml:2:40",
        "the upstream `c` gets copies of requests",
        "this route sends the requests to `a`, which has it too",
        "mirror to endpoints that the route does not use",
    ] {
        assert!(report.contains(part), "{report}");
    }
    assert_eq!(report.matches("warning: ").count(), 1, "{report}");
}

#[test]
fn only_requests_that_an_upstream_gets_are_mirrored() {
    let text = "listeners: [':80']\nupstreams: { a: a:1 }\nroutes: [{ respond: 204, mirror: a }]";
    let report = Config::parse("titan.yaml", text).unwrap_err().to_string();
    assert!(report.contains("`mirror` has no effect on a route with `respond`"), "{report}");
}
