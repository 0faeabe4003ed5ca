//! What a report says besides what is wrong: what to write instead, and what was probably meant.

use titan_config::Config;

/// The report on a file that cannot be served, or the warnings about one that can.
fn report(text: &str) -> String {
    match Config::parse("titan.yaml", text) {
        Ok(config) => config.warnings.to_string(),
        Err(report) => report.to_string(),
    }
}

/// A file that is right but for a section.
fn section(section: &str) -> String {
    report(&format!("{section}\nlisteners: [\":8080\"]\nroutes: [{{ respond: 204 }}]\n"))
}

/// A file that is right but for a route.
fn route(route: &str) -> String {
    report(&format!(
        "listeners: [\":8080\"]\nupstreams: {{ api: a:1 }}\nroutes:\n  - {{ {route} }}\n"
    ))
}

/// A file that is right but for a policy.
fn policy(policy: &str) -> String {
    section(&format!("apply: [p]\npolicies: {{ p: {{ {policy} }} }}"))
}

#[test]
fn a_section_that_is_none_says_its_keys() {
    for (says, wanted) in [
        (section("timeouts: 30s"), "write a mapping with some of the keys `handshake`, "),
        (section("limits: 10MiB"), "and 13 more; `{}` for the defaults"),
        (section("forwarding: on"), "write a mapping with some of the keys `"),
        (section("limits: [10MiB]"), "write a mapping with some of the keys `head`, `target`"),
        (policy("cors: '*'"), "; `origins` is required"),
        (policy("compress: on"), "`{}` for the defaults"),
        (
            policy("authorise: { forward_auth: { upstream: a, cache: 30s } }"),
            "write a mapping with the keys `ttl`, `key`, `capacity`; `ttl` is required",
        ),
        (section("policies: { p: jwt }"), "with one of the keys `cors`, "),
        (route("upstream: api, rewrite: /foo"), "with one of the keys `prefix`, `path`"),
        (
            route("respond: hello"),
            "write a mapping with some of the keys `status`, `body`, `template`",
        ),
        (
            report("listeners: [{ address: ':1', tls: on }]\nroutes: [{ respond: 204 }]"),
            "; `certificates` is required",
        ),
        (
            section("upstreams: [{ name: api, endpoints: a:1 }]"),
            "write each under its name: `api: ...` instead of `- name: api`",
        ),
    ] {
        assert!(says.contains(wanted), "{wanted}: {says}");
    }
}

#[test]
fn a_range_does_not_hide_the_words_beside_it() {
    let upstream =
        |fields: &str| section(&format!("upstreams: {{ a: {{ endpoints: a:1, {fields} }} }}"));
    for (says, wanted) in [
        (section("limits: { response_rate: 0 }"), "expected `off` or a size from 1B to 1GiB"),
        (section("limits: { body: 0 }"), "expected `unlimited` or a size from 1B"),
        (section("limits: { body: 9XB }"), "expected `unlimited` or a size from 1B"),
        (
            upstream("max_connections: 0"),
            "expected `unlimited` or a whole number from 1 to 1000000",
        ),
        (section("workers: 0"), "expected `auto` or a whole number from 1 to 256"),
    ] {
        assert!(says.contains(wanted), "{wanted}: {says}");
    }
}

#[test]
fn what_was_probably_meant_is_said() {
    for (says, wanted) in [
        (
            route("prefix: /a, upstream: api, rewrite: { strip_prefix: /a }"),
            "`rewrite: { prefix: / }`",
        ),
        (route("prefix: /a, upstream: api, strip_prefix: true"), "`rewrite: { prefix: / }`"),
        (route("prefix: /a, upstream: api, rewrite: { prefix: /x/ }"), "did you mean `/x`?"),
        (section("upstreams: { a: 'a:1,b:2' }"), "did you mean `[\"a:1\", \"b:2\"]`?"),
        (route("upstream: api, send_host: 'http://x/'"), "a host does not include a scheme"),
        (route("upstream: api, send_host: 'http://x/'"), "did you mean `x`?"),
        (route("files: { root: w, fallback: ../secret }"), "it leads outside `root`"),
        (
            route("files: { root: w, cache_rules: [{ match: '*.js', cache_control: a }] }"),
            "`types: text/css` matches the media type",
        ),
        (policy("rate_limit: { rates: 5/s, key: ip }"), "did you mean `client_address`?"),
        (policy("rate_limit: { rates: 5/s, key: $remote_addr }"), "did you mean `client_address`?"),
        (policy("rate_limit: { rates: { requests: 5, per: 1s } }"), "`rates: 5/s`"),
        (policy("rate_limit: { rates: 10 r/s }"), "did you mean `10/s`?"),
        (route("path: 'PathPrefix(`/e`)', respond: 204"), "did you mean `prefix: /e`?"),
        (route("prefix: 'Path(`/e`)', respond: 204"), "did you mean `path: /e`?"),
        (route("path: '/b/{proxy+}', respond: 204"), "did you mean `/b/{*proxy}`?"),
        (route("path: '/b/{**rest}', respond: 204"), "did you mean `path: /b/{*rest}`"),
        (route("methods: 'GET,POST', respond: 204"), "did you mean `[GET, POST]`?"),
        (route("methods: GET POST, respond: 204"), "did you mean `[GET, POST]`?"),
        (route("methods: get, respond: 204"), "methods are case-sensitive"),
        (route("host: a.com b.com, respond: 204"), "did you mean `[a.com, b.com]`?"),
        (route("host: 'a.com, *.b.com', respond: 204"), "did you mean `[a.com, \"*.b.com\"]`?"),
        (section("admin: 9090"), "did you mean `127.0.0.1:9090`?"),
        (section("admin: no"), "did you mean `off`?"),
        (route("server_name: a.com, respond: 204"), "did you mean `host`?"),
        (route("upstream: api, retry: 2"), "did you mean `retries`?"),
        (
            section("upstreams: { a: { endpoints: a:1, balance: { sticky: {} } } }"),
            "did you mean `sticky_cookie`?",
        ),
        (section("access_log: /var/log/x"), "did you mean `file: /var/log/x`?"),
        (section("access_log: off"), "without `access_log` nothing is logged"),
        (section("access_log: on"), "say where lines go"),
        (section("access_log: udp://a:1"), "did you mean `syslog: udp://a:1`?"),
        (section("access_log: stdot"), "did you mean `stdout`?"),
        (section("accessLog: {}"), "write `access_log` at the top level"),
        (section("access_log: { stdout: {}, format: jsn }"), "did you mean `json`?"),
        (section("access_log: { stdout: {}, format: '$remote_addr' }"), "`{client}` instead of"),
        (route("respond: 204, access_log: off"), "at the top level of the file"),
        (section("log: { output: stdout }"), "events go to standard error"),
        (section("log: warning"), "did you mean `warn`?"),
        (
            section("upstreams: { a: { endpoints: a:1, sticky: true } }"),
            "`balance: { sticky_cookie: {} }`",
        ),
        (
            section("upstreams: { a: { endpoints: a:1, health_check: {} } }"),
            "`health` probes endpoints",
        ),
        (
            section("upstreams: { a: { endpoints: a:1, circuitBreaker: {} } }"),
            "did you mean `circuit_breaker`?",
        ),
        (section("http3: true"), "HTTP/3 is one of the `protocols`"),
    ] {
        assert!(says.contains(wanted), "{wanted}: {says}");
    }
}

#[test]
fn trust_in_every_client_or_in_none_is_warned_about() {
    for (forwarding, wanted) in [
        ("trusted_proxies: [10.0.0.0/8, 0.0.0.0/0]", "`0.0.0.0/0` is every address"),
        ("trusted_proxies: '::/0'", "`::/0` is every address"),
        ("trusted_field: forwarded", "has no effect without `trusted_proxies`"),
    ] {
        let says = section(&format!("forwarding: {{ {forwarding} }}"));
        assert!(says.starts_with("warning: ") && says.contains(wanted), "{wanted}: {says}");
    }
    let fine = "forwarding: { trusted_proxies: 10.0.0.0/8, trusted_field: forwarded }";
    assert_eq!(section(fine), "");
}

#[test]
fn more_than_the_share_of_one_client_is_warned_about() {
    for (limits, share) in [
        ("response_buffer: 33MiB, response_memory: 64MiB", Some("32MiB")),
        ("response_buffer: 2MiB, response_memory: 1MiB", Some("1MiB")),
        ("response_memory: 1MiB", None),
        ("retry_body: 33MiB, request_memory: 64MiB", Some("32MiB")),
        ("retry_body: 2MiB, request_memory: 1MiB", Some("1MiB")),
        ("retry_body: 64MiB", None),
        ("retry_body: 2MiB, response_memory: 1MiB", None),
        ("response_buffer: 64MiB", None),
        ("response_buffer: off, response_memory: 1MiB", None),
    ] {
        let says = section(&format!("limits: {{ {limits} }}"));
        match share {
            Some(share) => assert!(
                says.starts_with("warning: ")
                    && says.contains(&format!("the share of one client is {share}")),
                "{limits}: {says}"
            ),
            None => assert_eq!(says, "", "{limits}"),
        }
    }
    let of_route = report(
        "listeners: [':1']\nlimits: { request_memory: 64MiB }\nupstreams: { u: 'u:1' }\n\
         routes: [{ upstream: u, limits: { retry_body: 33MiB } }]\n",
    );
    assert!(of_route.starts_with("warning: `retry_body` is larger"), "{of_route}");
    assert!(of_route.contains("the share of one client is 32MiB"), "{of_route}");
}

#[test]
fn a_route_cannot_apply_a_policy_and_do_without_it() {
    let of = |route: &str| {
        report(&format!(
            "listeners: [':1']\npolicies: {{ p: {{ maintenance: {{}} }}, q: {{ maintenance: {{}} }} }}\n\
             apply: p\nroutes: [{{ respond: 200, {route} }}, {{ prefix: /q, respond: 200, apply: q }}]\n"
        ))
    };
    let says = of("apply: p, without: maintenance");
    assert!(says.starts_with("error: `without` leaves out the policy `p`"), "{says}");
    assert_eq!(of("without: maintenance"), "");
}

#[test]
fn two_policies_of_a_type_are_named() {
    let of = |applied: &str| {
        section(&format!(
            "apply: {applied}\npolicies: {{ p: {{ maintenance: {{}} }}, q: {{ maintenance: {{}} }} }}"
        ))
    };
    let says = of("[p, q]");
    assert!(says.starts_with("error: `p` and `q` are both policies of the type `maintenance`"));
    assert!(says.contains("a route has at most one policy of each type"), "{says}");
    assert!(says.contains("apply `p` or `q`, not both"), "{says}");
    let says = of("[p, p]");
    assert!(says.starts_with("error: the policy `p` is applied twice"), "{says}");
}

#[test]
fn types_of_policies_and_their_names_are_told_apart() {
    let declared = "policies: { p: { maintenance: {} }, q: { maintenance: {} } }\napply: p";
    let none = "there is no policy `maintenance`";
    for (says, wanted) in [
        (section("apply: maintenance"), none),
        (
            section("apply: maintenance"),
            "declare a policy of the type `maintenance` under `policies`, such as `my_maintenance: { maintenance: ... }`, \
             and apply `my_maintenance`",
        ),
        (
            section(
                &format!("{declared}\nerror_pages: {{}}").replace("apply: p", "apply: maintenance"),
            ),
            "`maintenance` is a type; apply the name of a policy of that type: `p` or `q`",
        ),
        (
            report(&format!(
                "listeners: [':1']\n{declared}\nroutes: [{{ respond: 204, without: p }}]"
            )),
            "`without` takes types of policies; the type of `p` is `maintenance`",
        ),
    ] {
        assert!(says.contains(wanted), "{wanted}: {says}");
    }
}

#[test]
fn a_date_is_no_duration() {
    for date in ["2026-01-02T10:00:00Z", "2026-01-02", "'Fri, 02 Jan 2026 10:00:00 GMT'"] {
        let says = policy(&format!("maintenance: {{ retry_after: {date} }}"));
        assert!(says.contains("expected a duration from 1s to 30d"), "{says}");
        assert!(says.contains("this is a date"), "{says}");
        assert!(says.contains("write a duration, such as `30s`"), "{says}");
    }
}

#[test]
fn what_is_switched_on_with_a_size_says_so() {
    for (limits, wanted) in [
        ("retry_body: true", "write a size, such as `64KiB`"),
        ("request_buffer: on", "write a size, such as `64KiB`"),
        ("body_rate: yes", "write a size, such as `64KiB`"),
        ("head: true", "write a size, such as `64KiB`"),
        ("retry_body: false", "did you mean `off`?"),
    ] {
        let says = section(&format!("limits: {{ {limits} }}"));
        assert!(says.contains(wanted), "{limits}: {says}");
    }
    let says = section("timeouts: { idle: true }");
    assert!(says.contains("write a duration, such as `30s`"), "{says}");
}

#[test]
fn a_message_is_a_line() {
    let long = "x".repeat(1025);
    for (message, wanted) in [
        ("''", "it is empty"),
        ("\"a\\nb\"", "it has a line break"),
        (long.as_str(), "it has 1025 bytes; the maximum is 1024"),
    ] {
        let says =
            section(&format!("policies: {{ p: {{ maintenance: {{ message: {message} }} }} }}"));
        assert!(says.contains("is not a line of text") && says.contains(wanted), "{says}");
    }
}

#[test]
fn a_rule_does_not_look_for_things_in_a_text() {
    for (rule, wanted) in [
        ("client.address in '10.0.0.0/8'", "`deny: [10.0.0.0/8]`"),
        ("request.path in '/a'", "`request.path.contains('x')`"),
    ] {
        let says = policy(&format!("authorise: {{ rules: \"{rule}\" }}"));
        assert!(says.contains("the right side of `in` must be a list"), "{rule}: {says}");
        assert!(says.contains(wanted), "{rule}: {says}");
    }
    for rule in ["request.method in ['GET']", "'x-a' in request.headers"] {
        assert_eq!(policy(&format!("authorise: {{ rules: \"{rule}\" }}")), "", "{rule}");
    }
}

#[test]
fn a_page_that_is_a_path_is_warned_about() {
    for page in ["/404.html", "'@sorry'", "https://a.example/x", "{ body: /404.html }"] {
        for says in [
            section(&format!("error_pages: {{ 404: {page} }}")),
            route(&format!("upstream: api, error_pages: {{ 5xx: {page} }}")),
        ] {
            assert!(says.contains("warning: this text is itself the page"), "{page}: {says}");
            assert!(says.contains("`error_pages` under `files`"), "{page}: {says}");
        }
    }
    for page in ["<h1>Not here</h1>", "\"/ is\\nall there is\"", "Sorry", "''"] {
        assert_eq!(section(&format!("error_pages: {{ 404: {page} }}")), "", "{page}");
    }
}

#[test]
fn one_error_does_not_hide_others() {
    let says = report(
        "listeners: [':1']\napply: [zz, N, n]\npolicies:\n  n: { cors: { origins: '*' } }\n  m: { cors: 7 }\nroutes:\n  \
         - { prefix: /a, respond: 99, apply: nobody }\n",
    );
    for wanted in ["no policy `zz`", "no policy `N`", "no policy `nobody`", "from 200 to 599"] {
        assert!(says.contains(wanted), "{wanted}: {says}");
    }
    let says = policy(
        "early_limit: { rates: 5/s, key: [api_key, { claim: sub }], exempt: { api_keys: a, claims: { a: b } } }",
    );
    for wanted in [
        "cannot count by API keys",
        "cannot count by claims",
        "cannot exempt requests by claims",
        "cannot exempt requests by API keys",
    ] {
        assert!(says.contains(wanted), "{wanted}: {says}");
    }
    let hash = "ab".repeat(32);
    let refused = titan_config::api_keys_in(format!("a\nb: {hash}\nc: x\n").as_bytes());
    let refused = refused.unwrap_err();
    assert!(refused.contains("line 1: ") && refused.contains("; line 3: "), "{refused}");
    let refused = titan_config::users_in("x\n".repeat(20).as_bytes()).unwrap_err();
    assert!(refused.contains("; line 8: ") && refused.ends_with("; and 12 more"), "{refused}");
}

#[test]
fn the_default_of_the_target_follows_the_head() {
    let text = "limits: { head: 4KiB }\nlisteners: [':1']\nroutes: [{ respond: 204 }]";
    let limits = Config::parse("titan.yaml", text).unwrap().limits;
    assert_eq!(limits.target, limits.head);
    let says = section("limits: { target: 32KiB }");
    assert!(says.contains("`target` is 32KiB, `head` is 16KiB by default"), "{says}");
}
