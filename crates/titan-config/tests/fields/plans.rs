//! Each field that changes shows in a plan.

use super::{Row, complete, rows};
use titan_config::{Plan, Resolved};

/// The hash of a password.
const HASH: &str = "$2b$10$cccccccccccccccccccccuddddddddddddddddddddddddddddddd";

/// Values of which each field that must be there takes one.
const OTHERS: &[&str] = &[
    "terminate",
    "passthrough",
    "zz",
    "/zz",
    "\"/zz/{*z}\"",
    "3",
    "7s",
    "500d",
    "7KiB",
    "7/m",
    "\"^zz$\"",
    "2001:db8::/32",
    "192.0.2.9",
    "\"z:1\"",
    "\"127.0.0.1:99\"",
    "true",
    "false",
    "present",
    "b",
    "RS512",
    "sub",
    "https://z.example/",
    "image/png",
    "410",
    "lax",
    "\"ab:cd:ef:01:23:45:67:89:ab:cd:ef:01:23:45:67:89:ab:cd:ef:01:23:45:67:89:ab:cd:ef:01:23:45:67:89\"",
    "another secret of more than forty bytes that only this file has",
    HASH,
    "abababababababababababababababababababababababababababababababff",
    "refuse",
    "8s",
    "a",
    "{ header: ZZ }",
    "https://z.example",
];

/// Another file for what no single line changes.
const PAIRS: &[Row] = &[
    ("recorder", "memory", "recorder: { memory: 7MiB }", "recorder: { memory: 8MiB }"),
    (
        "rate_key",
        "param",
        "apply: [p]\npolicies: { p: { rate_limit: { rates: 5/s, key: { param: id } } } }\n\
         routes: [{ path: \"/a/{id}/{of}\", respond: 204 }]",
        "apply: [p]\npolicies: { p: { rate_limit: { rates: 5/s, key: { param: of } } } }\n\
         routes: [{ path: \"/a/{id}/{of}\", respond: 204 }]",
    ),
    (
        "mirror",
        "upstream",
        "upstreams: { a: a:1, b: b:1, c: c:1 }\nroutes: [{ upstream: { a: 1, c: 0 }, mirror: b }]",
        "upstreams: { a: a:1, b: b:1, c: c:1 }\nroutes: [{ upstream: { a: 1, b: 0 }, mirror: c }]",
    ),
    (
        "forward_auth",
        "upstream",
        "policies: { p: { authorise: { forward_auth: { upstream: a } } } }\nupstreams: { a: a:1, b: b:1 }",
        "policies: { p: { authorise: { forward_auth: { upstream: b } } } }\nupstreams: { a: a:1, b: b:1 }",
    ),
    (
        "auth_key",
        "header",
        "policies: { p: { authorise: { forward_auth: { upstream: a, request_headers: A, cache: { ttl: 7s, key: { header: A } } } } } }",
        "policies: { p: { authorise: { forward_auth: { upstream: a, request_headers: B, cache: { ttl: 7s, key: { header: B } } } } } }",
    ),
    (
        "shared_limit",
        "store",
        "stores: { a: { address: \"redis://h\", hash_key: 0123456789abcdef }, b: { address: \"redis://h\", hash_key: 0123456789abcdef } }\n\
         policies: { p: { rate_limit: { rates: 5/s, shared: a } } }",
        "stores: { a: { address: \"redis://h\", hash_key: 0123456789abcdef }, b: { address: \"redis://h\", hash_key: 0123456789abcdef } }\n\
         policies: { p: { rate_limit: { rates: 5/s, shared: b } } }",
    ),
    (
        "fallback",
        "upstream",
        "upstreams: { a: { endpoints: a:1, circuit_breaker: { fallback: { upstream: b } } }, b: b:1, c: c:1 }",
        "upstreams: { a: { endpoints: a:1, circuit_breaker: { fallback: { upstream: c } } }, b: b:1, c: c:1 }",
    ),
    ("access_log", "stdout", "access_log: stdout", "access_log: { file: a.log }"),
    (
        "health",
        "probe",
        "upstreams: { a: { endpoints: a:1, health: { probe: tcp } } }",
        "upstreams: { a: { endpoints: a:1, health: { probe: { http: /up } } } }",
    ),
    (
        "tracing",
        "collector",
        "otlp: { a: 'http://a:4317', b: 'http://b:4317' }\ntracing: a",
        "otlp: { a: 'http://a:4317', b: 'http://b:4317' }\ntracing: b",
    ),
];

/// A file that is shown, with a secret in place of the stars.
fn with_secret(shown: &str) -> String {
    let mut files = ["ab".repeat(32), HASH.replace('d', "e")]
        .into_iter()
        .map(|secret| shown.replace("\"***\"", &secret));
    files
        .find(|file| Resolved::parse("titan.yaml", file).is_ok())
        .unwrap_or_else(|| panic!("{shown}"))
}

/// The same file with another value of the key, or without it: the many texts of which some are valid.
fn others(text: &str, key: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let content = |line: &str| line.trim_start_matches([' ', '-']).to_owned();
    let depth = |line: &str| line.len() - content(line).len();
    let mut others = Vec::new();
    for at in 0..lines.len() {
        if !content(lines[at]).starts_with(&format!("{key}:")) {
            continue;
        }
        let inner = lines[at + 1..].iter().take_while(|line| depth(line) > depth(lines[at]));
        let end = at + 1 + inner.count();
        let with = |part: &[String]| {
            [&lines[..at].join("\n"), &part.join("\n"), &lines[end..].join("\n")]
                .map(String::as_str)
                .join("\n")
        };
        let block: Vec<String> = lines[at..end].iter().map(|line| (*line).to_owned()).collect();
        // A dash stays where it is.
        let dash = lines[at].trim_start().starts_with('-').then(|| {
            let next = lines.get(end).map_or(String::new(), |line| content(line));
            (format!("{:1$}- {next}", "", depth(lines[at]) - 2), end + 1)
        });
        others.push(match dash {
            None => with(&[]),
            Some((line, rest)) => {
                [&lines[..at].join("\n"), line.as_str(), &lines[rest.min(lines.len())..].join("\n")]
                    .join("\n")
            }
        });
        for changed in 0..block.len() {
            let line = &block[changed];
            let start =
                line.find(": ").map(|it| it + 2).or_else(|| line.find("- ").map(|it| it + 2));
            let Some(start) = start else { continue };
            others.extend(OTHERS.iter().map(|other| {
                let mut block = block.clone();
                block[changed] = format!("{}{other}", &line[..start]);
                with(&block)
            }));
        }
    }
    others
}

#[test]
fn a_plan_shows_the_change_of_each_field() {
    let mut missing = Vec::new();
    // What other files say is compared, and not that it is in other files.
    for (section, key, text, _) in rows().filter(|row| row.1 != "include") {
        let read = |text: &str| Resolved::parse("titan.yaml", text).ok();
        let shown = with_secret(&read(&complete(text)).unwrap().to_string());
        let with = read(&shown).unwrap();
        let is_shown = others(&shown, key)
            .iter()
            .filter_map(|other| read(other))
            .any(|other| !Plan::new(&with, &other).is_empty());
        let pair = PAIRS.iter().find(|pair| (pair.0, pair.1) == (*section, *key));
        let is_paired = pair.is_some_and(|(_, _, one, other)| {
            let [one, other] = [one, other].map(|text| read(&complete(text)).unwrap());
            let changes = Plan::new(&one, &other).changes;
            let mut differences = changes.iter().flat_map(|change| &change.differences);
            differences.any(|it| it.field.ends_with(&format!(".{key}")))
        });
        if !is_shown && !is_paired {
            missing.push(format!("{section}.{key}"));
        }
    }
    assert!(missing.is_empty(), "no plan shows changes of {missing:?}");
}
