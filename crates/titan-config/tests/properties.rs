//! What holds for every file: nothing panics, places are in the file, JSON and YAML mean the same.

use proptest::prelude::*;
use serde_json::{Value, json};
use titan_config::{Config, Report, Span};

const GOOD: &str = r#"# A file with a little of everything.
listeners:
  - ":8080"
  - { name: "in", address: 127.0.0.1:0, proxy_protocol: { from: [10.0.0.0/8] } }
routes:
  - name: users
    host: ["api.example.com", '*.example.org']
    path: /users/{id}/{*rest}
    methods: [GET, POST]
    headers: { X-A: { regex: "^v[0-9]+$" }, X-B: "1" }
    upstream: &both { api: 9, "we\x62": 1 }
    rewrite: { path: "/u/{id}/{rest}" }
  - prefix: /%E6%97%A5
    headers: { X: 日本 }
    upstream: *both
  - redirect: "https://{host}{path}{query}"
upstreams:
  api: 10.0.0.1:80
  web: { endpoints: [web.internal:80], balance: { consistent_hash: { header: X } } }
limits: { body: 1MiB }
timeouts:
  head: 5s
admin: off
"#;

/// Every place in the report is in the file, and showing it ends.
fn check_places(text: &str, report: &Report) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.split('\n').collect();
    let in_file = |span: Span| {
        for place in [span.start, span.end] {
            // The end of a file without a line break is a place too.
            let line = lines.get(place.line as usize - 1).copied().unwrap_or("");
            assert!(place.line as usize <= lines.len() + 1, "{place} of {}", lines.len());
            assert!(place.column as usize <= line.chars().count() + 1, "{place} in {line:?}");
        }
        assert!(span.start <= span.end);
    };
    for diagnostic in report.diagnostics() {
        in_file(diagnostic.at.span);
        diagnostic.also.iter().for_each(|label| in_file(label.span));
    }
    assert!(!report.to_string().is_empty() && !report.colored().to_string().is_empty());
}

fn check(text: &str) {
    match Config::parse("titan.yaml", text) {
        Ok(config) => drop(config.summary()),
        Err(report) => check_places(text, &report),
    }
}

/// The checked form without places, which differ between two ways of writing the same.
fn checked(text: &str) -> Result<String, String> {
    let places = regex::Regex::new(r"Location \{ file: FileId\(0\), line: \d+, column: \d+ \}")
        .expect("it is a pattern");
    let source = regex::Regex::new(r"(?s)warnings: .*$").expect("it is a pattern");
    let config = Config::parse("titan", text).map_err(|report| report.to_string())?;
    let shown = format!("{config:?}");
    Ok(source.replace(&places.replace_all(&shown, "_"), "").into_owned())
}

/// The value in block style, as a person would write it.
fn yaml(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                out.push_str(&format!("\n{pad}{key}:"));
                yaml(value, indent + 2, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("\n{pad}-"));
                yaml(item, indent + 2, out);
            }
        }
        other => out.push_str(&format!(" {other}")),
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9]{0,6}"
}

/// A text without variables.
fn text(pattern: &'static str) -> impl Strategy<Value = String> {
    pattern.prop_map(|text| text.replace("${", "$("))
}

fn route() -> impl Strategy<Value = Value> {
    let action = prop_oneof![
        Just(json!({ "upstream": "main" })),
        Just(
            json!({ "upstream": { "main": 3, "spare": 1 }, "retries": 2, "timeouts": { "connect": "2s" } })
        ),
        Just(json!({ "redirect": { "to": "https://{host}{path}", "status": 301 } })),
        text("[ -~]{1,20}").prop_map(|body| json!({ "respond": { "status": 200, "body": body } })),
    ];
    let headers = proptest::collection::btree_map("X-[a-z]{1,4}", text("[!-~]{1,8}"), 0..3);
    (action, headers, 0..100_i32).prop_map(|(mut route, headers, priority)| {
        route["headers"] = json!(headers);
        route["priority"] = json!(priority);
        route
    })
}

fn file() -> impl Strategy<Value = Value> {
    let routes = proptest::collection::btree_map(name(), route(), 1..5);
    let weights = proptest::collection::vec(1..1_000_u16, 1..4);
    (routes, weights, 1..4096_u32, any::<bool>()).prop_map(|(routes, weights, seconds, flag)| {
        let routes: Vec<Value> = routes
            .into_iter()
            .map(|(name, mut route)| {
                route["prefix"] = json!(format!("/{name}"));
                route
            })
            .collect();
        let endpoints: Vec<Value> = (1..)
            .zip(weights)
            .map(
                |(port, weight)| json!({ "address": format!("10.0.0.1:{port}"), "weight": weight }),
            )
            .collect();
        json!({
            "listeners": [{ "address": ":0", "max_connections": seconds }, "127.0.0.1:0"],
            "routes": routes,
            "upstreams": { "main": endpoints, "spare": "spare.internal:80" },
            "timeouts": { "idle": format!("{seconds}s") },
            "forwarding": { "forwarded": flag, "trusted_proxies": ["10.0.0.0/8"] },
        })
    })
}

#[test]
fn the_sample_is_good() {
    check(GOOD);
    assert!(checked(GOOD).is_ok(), "{:?}", checked(GOOD));
}

#[test]
fn every_beginning_of_a_file_is_judged() {
    for (end, _) in GOOD.char_indices() {
        check(&GOOD[..end]);
    }
}

#[test]
fn every_character_may_be_missing() {
    for (at, c) in GOOD.char_indices() {
        check(&format!("{}{}", &GOOD[..at], &GOOD[at + c.len_utf8()..]));
    }
}

proptest! {
    // A failing case belongs into a test of its own, not into a file beside it.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_judged(text in "(?s).{0,200}") {
        check(&text);
    }

    #[test]
    fn any_text_of_the_language_is_judged(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "listeners", "routes", "upstreams", "prefix", "path", "upstream", "respond", "balance", ": ", ":",
                "\n", "\n  ", "\n    ", "\n  - ", "[", "]", "{", "}", ", ", "\"", "'", "#", "&a ", "*a", "!x ", "|\n", ">\n",
                "/a", "/{x}", "${", "$${", "}", ":-", "A", "file:", "include",
                ":80", "204", "-1", "true", "~", "<<", "? ", "---\n", "\t", "\r\n", "\\", "é", "\u{1}", "%61",
            ]),
            0..60,
        )
    ) {
        check(&words.concat());
    }

    #[test]
    fn any_change_of_a_file_is_judged(at in 0..GOOD.len(), length in 0..20_usize, with in "(?s).{0,6}") {
        let characters: Vec<char> = GOOD.chars().collect();
        let at = at.min(characters.len());
        let end = (at + length).min(characters.len());
        let changed: String =
            characters[..at].iter().copied().chain(with.chars()).chain(characters[end..].iter().copied()).collect();
        check(&changed);
    }

    #[test]
    fn json_and_yaml_mean_the_same(file in file()) {
        let mut block = String::new();
        yaml(&file, 0, &mut block);
        let compact = checked(&file.to_string());
        prop_assert!(compact.is_ok(), "{}\n{}", file, compact.unwrap_err());
        prop_assert_eq!(&compact, &checked(&serde_json::to_string_pretty(&file).unwrap()));
        prop_assert_eq!(&compact, &checked(&block), "{}", block);
    }
}
