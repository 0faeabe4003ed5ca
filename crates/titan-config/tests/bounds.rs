//! What a hostile or mistaken file could blow up ends at a bound, with a message that says so.

use std::fmt::Write;
use titan_config::{Config, bounds};

/// The first lines of the messages about a file.
fn messages(text: &str) -> Vec<String> {
    match Config::parse("titan.yaml", text) {
        Ok(_) => Vec::new(),
        Err(report) => report
            .diagnostics()
            .iter()
            .map(|it| format!("{}: {}", it.message, it.at.text))
            .collect(),
    }
}

fn accepts(text: &str) {
    assert_eq!(messages(text), Vec::<String>::new());
}

fn refuses(text: &str, message: &str) {
    let found = messages(text);
    assert!(found.iter().any(|it| it.contains(message)), "{message} is not in {found:?}");
}

/// A file with these routes, and with the upstream `a`.
fn routes(routes: &str) -> String {
    format!("listeners: [\":80\"]\nupstreams: {{ a: a:1 }}\nroutes:\n{routes}")
}

fn repeat(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect()
}

#[test]
fn bytes_of_a_file() {
    let file = |length: usize| {
        let text = routes("  - respond: 204\n#");
        let filler = "x".repeat(length - text.len());
        text + &filler
    };
    accepts(&file(bounds::MAX_FILE));
    refuses(&file(bounds::MAX_FILE + 1), "larger than 16 MiB");
}

#[test]
fn requests_in_a_queue() {
    let file = |length: u32| {
        let queue = format!("queue: {{ length: {length} }}");
        format!(
            "listeners: [\":80\"]\nupstreams: {{ a: {{ endpoints: a:1, {queue} }} }}\nroutes: [{{ upstream: a }}]"
        )
    };
    accepts(&file(16_384));
    refuses(&file(16_385), "expected a whole number from 0 to 16384: this is `16385`");
}

#[test]
fn levels() {
    let file = |depth: usize| format!("a: {}{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    let too_deep = "nested more than 32 levels deep";
    assert!(!messages(&file(bounds::MAX_DEPTH)).concat().contains(too_deep));
    refuses(&file(bounds::MAX_DEPTH + 1), too_deep);
    refuses(&"- ".repeat(100_000), too_deep);
    refuses(&"[".repeat(100_000), "recursion limit");
}

#[test]
fn values() {
    refuses(&format!("a: [{}]", "1,".repeat(bounds::MAX_NODES)), "more than 2000000 values");
}

#[test]
fn values_repeated_by_aliases() {
    let mut bomb = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..20 {
        let aliases = format!("*a{}, ", level - 1).repeat(10);
        writeln!(bomb, "b{level}: &a{level} [{aliases}]").unwrap();
    }
    refuses(&bomb, "more than 2000000 values");
}

#[test]
fn text_repeated_by_aliases() {
    let text = "x".repeat(1 << 20);
    refuses(&format!("a: &a {text}\nb: [{}]", "*a, ".repeat(32)), "more than 32 MiB of text");
}

#[test]
fn diagnostics() {
    let report = Config::parse("t", &repeat(1_000, |n| format!("key{n}: 1\n"))).unwrap_err();
    assert_eq!(report.diagnostics().len(), bounds::MAX_DIAGNOSTICS);
    assert!(report.to_string().ends_with("200 errors, and 802 more that are not shown\n"));
}

#[test]
fn listeners() {
    let file = |count| {
        let listeners = repeat(count, |n| format!("\":{}\", ", n + 1));
        format!("listeners: [{listeners}]\nroutes: [{{ respond: 204 }}]")
    };
    accepts(&file(bounds::MAX_LISTENERS));
    refuses(&file(bounds::MAX_LISTENERS + 1), "65 items; the maximum is 64");
}

#[test]
fn number_of_routes() {
    let file = |count| routes(&repeat(count, |n| format!("- {{ prefix: /{n}, upstream: a }}\n")));
    accepts(&file(bounds::MAX_ROUTES));
    refuses(&file(bounds::MAX_ROUTES + 1), "100001 items; the maximum is 100000");
}

#[test]
fn routes_with_the_same_path() {
    let file =
        |count| routes(&repeat(count, |n| format!("- {{ headers: {{ X: {n} }}, upstream: a }}\n")));
    accepts(&file(bounds::MAX_ROUTES_PER_PATH));
    refuses(&file(bounds::MAX_ROUTES_PER_PATH + 1), "more than 256 routes have the same host");
}

#[test]
fn upstreams() {
    let file = |count| {
        let upstreams = repeat(count, |n| format!("  u{n}: a:1\n"));
        format!("listeners: [\":80\"]\nroutes: [{{ upstream: u0 }}]\nupstreams:\n{upstreams}")
    };
    accepts(&file(bounds::MAX_UPSTREAMS));
    refuses(&file(bounds::MAX_UPSTREAMS + 1), "20001 entries; the maximum is 20000");
}

#[test]
fn endpoints() {
    let file = |count| {
        let endpoints = repeat(count, |n| format!("  - h{n}:1\n"));
        format!("listeners: [\":80\"]\nroutes: [{{ upstream: a }}]\nupstreams:\n  a:\n{endpoints}")
    };
    accepts(&file(bounds::MAX_ENDPOINTS));
    refuses(&file(bounds::MAX_ENDPOINTS + 1), "1025 items; the maximum is 1024");
}

#[test]
fn shares() {
    let file = |count| {
        let shares = repeat(count, |n| format!("u{n}: 1, "));
        let upstreams = repeat(count, |n| format!("  u{n}: a:1\n"));
        format!(
            "listeners: [\":80\"]\nroutes: [{{ upstream: {{ {shares} }} }}]\nupstreams:\n{upstreams}"
        )
    };
    accepts(&file(bounds::MAX_SHARES));
    refuses(&file(bounds::MAX_SHARES + 1), "65 entries; the maximum is 64");
}

/// A key with `%` for its items, the bound, and an item.
type Case = (&'static str, usize, fn(usize) -> String);

#[test]
fn lists_of_a_route() {
    let cases: [Case; 5] = [
        ("host: [%]", bounds::MAX_HOSTS, |n| format!("h{n}, ")),
        ("methods: [%]", bounds::MAX_METHODS, |n| format!("M-{n}, ")),
        ("headers: { % }", bounds::MAX_CONDITIONS, |n| format!("X-{n}: a, ")),
        ("query: { % }", bounds::MAX_CONDITIONS, |n| format!("v{n}: a, ")),
        ("path: \"%/x\"", bounds::MAX_PARAMS, |n| format!("/{{p{n}}}")),
    ];
    for (key, most, item) in cases {
        let file = |count| {
            let key = key.replace('%', &repeat(count, item));
            routes(&format!("  - upstream: a\n    {key}\n"))
        };
        accepts(&file(most));
        refuses(&file(most + 1), &most.to_string());
    }
}

#[test]
fn segments_of_a_path() {
    let file = |count| routes(&format!("  - upstream: a\n    path: {}\n", "/a".repeat(count)));
    accepts(&file(bounds::MAX_SEGMENTS));
    refuses(&file(bounds::MAX_SEGMENTS + 1), "at most 64 segments");
}

#[test]
fn networks_name_servers_and_headers() {
    let networks =
        |count| format!("forwarding: {{ trusted_proxies: [{}] }}\n", "::1, ".repeat(count));
    let servers =
        |count| format!("resolver: {{ nameservers: [{}] }}\n", "\"1.1.1.1:53\", ".repeat(count));
    let rest = routes("  - upstream: a\n");
    accepts(&(networks(bounds::MAX_NETWORKS) + &rest));
    refuses(&(networks(bounds::MAX_NETWORKS + 1) + &rest), "the maximum is 1024");
    accepts(&(servers(bounds::MAX_NAMESERVERS) + &rest));
    refuses(&(servers(bounds::MAX_NAMESERVERS + 1) + &rest), "the maximum is 8");

    let headers = |count| {
        let headers = repeat(count, |n| format!("X-{n}: a, "));
        format!("listeners: [\":80\"]\nroutes: [{{ respond: {{ headers: {{ {headers} }} }} }}]")
    };
    accepts(&headers(bounds::MAX_HEADERS));
    refuses(&headers(bounds::MAX_HEADERS + 1), "the maximum is 64");
}

#[test]
fn lengths_of_texts() {
    let cases = [
        ("  - upstream: a\n    name: %\n", bounds::MAX_NAME),
        ("  - upstream: a\n    path: /%\n", bounds::MAX_PATH - 1),
        ("  - upstream: a\n    headers: { %: a }\n", bounds::MAX_TOKEN),
        ("  - upstream: a\n    query: { %: a }\n", bounds::MAX_TOKEN),
        ("  - upstream: a\n    headers: { X: % }\n", bounds::MAX_VALUE),
        ("  - upstream: a\n    headers: { X: { prefix: % } }\n", bounds::MAX_VALUE),
        ("  - upstream: a\n    headers: { X: { regex: % } }\n", bounds::MAX_REGEX),
        ("  - respond: { body: % }\n", bounds::MAX_RESPONSE_BODY),
    ];
    for (text, most) in cases {
        accepts(&routes(&text.replace('%', &"x".repeat(most))));
        refuses(&routes(&text.replace('%', &"x".repeat(most + 1))), "; the maximum is ");
    }
    let label = "x".repeat(63);
    let host = format!("{label}.{label}.{label}.{}", &label[..61]);
    assert_eq!(host.len(), bounds::MAX_HOST);
    accepts(&routes(&format!("  - upstream: a\n    host: {host}\n")));
    refuses(&routes(&format!("  - upstream: a\n    host: x{host}\n")), "254 bytes");
}

#[test]
fn paths_of_sockets() {
    let file = |length: usize| {
        let path = "x".repeat(length - 1);
        format!("listeners: [\"unix:/{path}\"]\nroutes: [{{ respond: 204 }}]")
    };
    accepts(&file(bounds::MAX_SOCKET_PATH));
    refuses(&file(bounds::MAX_SOCKET_PATH + 1), "the maximum is 107");
}

#[test]
fn regular_expressions() {
    let huge =
        routes("  - upstream: a\n    headers: { X: { regex: \"(\\\\w{1,100}){1,100}\" } }\n");
    refuses(&huge, "too large when compiled");

    let file = |count| {
        routes(&repeat(count, |n| {
            format!("- {{ prefix: /{n}, upstream: a, query: {{ v: {{ regex: x }} }} }}\n")
        }))
    };
    accepts(&file(bounds::MAX_REGEXES));
    refuses(&file(bounds::MAX_REGEXES + 1), "more than 1024 regular expressions");
}

#[test]
fn numbers() {
    for number in
        ["0", "-1", "+1", "01x", "1_000", "0x10", "1e3", "4294967296", "99999999999999999999"]
    {
        let file = format!("limits: {{ fields: {number} }}\n{}", routes("  - upstream: a\n"));
        refuses(&file, "expected a whole number from 1 to 10000");
    }
}
