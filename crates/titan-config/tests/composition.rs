//! A configuration of several files, with values from the environment and from files.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

mod around;

use around::{Around, owned};
use titan_config::bounds::{MAX_FILES_TOTAL, MAX_INCLUDED, MAX_SECRET_FILES};
use titan_config::{Composed, Config, Resolved, Threads};

/// A configuration on its own, and the beginning of others.
const BASE: &str = "listeners: [\":80\"]\nroutes: [{ respond: 204 }]\n";

fn good(around: &Around, text: &str) -> Composed {
    around.read(text).unwrap_or_else(|report| panic!("{report}"))
}

fn bad(around: &Around, text: &str) -> String {
    match around.read(text) {
        Ok(composed) => panic!("it is good: {:?}", composed.config),
        Err(report) => report.to_string(),
    }
}

fn variables(variables: &[(&str, &str)]) -> Around {
    Around { variables: owned(variables), ..Around::default() }
}

/// The checked form of a text with these variables.
fn with(variables: &[(&str, &str)], text: &str) -> Config {
    good(&self::variables(variables), text).config
}

#[test]
fn a_variable_is_what_would_stand_in_its_place() {
    let text = format!("{BASE}workers: ${{N}}\nforwarding: {{}}\n");
    assert!(
        matches!(with(&[("N", "3")], &text).workers.threads, Threads::Exactly(n) if n.get() == 3)
    );
    let text = "listeners:\n  - address: ${HOST:-127.0.0.1}:${PORT}\n    redirect_to_https: ${ON}\n\
                routes:\n  - respond:\n      body: |\n        a ${WHO}\n";
    let config = with(&[("PORT", "81"), ("HOST", ""), ("ON", "true"), ("WHO", "b: c\n- d")], text);
    assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:81");
    let shown = format!("{config:?}");
    assert!(shown.contains("a b: c\\n- d\\n"), "{shown}");
}

#[test]
fn quotes_make_a_text_of_a_variable_too() {
    let text = format!("{BASE}workers: \"${{N}}\"\n");
    let report = bad(&variables(&[("N", "3")]), &text);
    assert!(report.contains("this is the string `3`"), "{report}");
}

#[test]
fn what_a_variable_brings_is_text_and_nothing_else() {
    for value in ["{ upstream: a }", "[a]", "~", "null", "*a", "&a b", "!x", "# a", "${OTHER}"] {
        let text = "listeners: [\":80\"]\nroutes:\n  - respond:\n      body: ${A}\n";
        let shown = format!("{:?}", with(&[("A", value), ("OTHER", "no")], text));
        assert!(shown.contains(&format!("{value:?}")), "{value}: {shown}");
    }
}

#[test]
fn a_reference_can_be_written_without_being_one() {
    let body = |written: &str| {
        let text = format!("listeners: [\":80\"]\nroutes:\n  - respond: {{ body: '{written}' }}\n");
        format!("{:?}", with(&[("A", "1")], &text))
    };
    assert!(body("<i>$${A}</i>").contains("\"<i>${A}</i>\""));
    assert!(body("$$${A}").contains("\"$1\""));
    assert!(body("$A {A} $ $$").contains("\"$A {A} $ $$\""));
    // The parameter of the path, behind a dollar.
    let text = "listeners: [\":80\"]\nroutes: [{ path: \"/{a}\", redirect: \"/$${a}\" }]\n";
    let shown = format!("{:?}", with(&[("a", "env")], text));
    assert!(shown.contains("Text(\"/$\"), Param(0)"), "{shown}");
}

#[test]
fn what_is_wrong_with_variables_is_told_where_they_are() {
    let text = "listeners:
  - \"${ADDRESS}\"
  - :${PORT}
routes:
  - respond: { body: \"a ${A.b} and ${MISSING}\" }
  - respond:
      body: |
        x
        ${MISSING}
  - prefix: ${UNCLOSED
    respond: 204
  - prefix: /${1}
    ${KEY}: 204
workers: ${EMPTY}
timeouts:
  idle: ${WORD}
  head: ${A:-${B}}
policies:
  p: { jwt: { providers: { algorithms: HS256, keys: { secret: \"${file:nowhere}\" } } } }
";
    let around = variables(&[("PORT", "90"), ("EMPTY", ""), ("WORD", "soon")]);
    insta::assert_snapshot!(bad(&around, text));
}

#[test]
fn in_brackets_a_variable_needs_quotes_and_the_error_says_so() {
    let report = bad(&Around::default(), "listeners: [${A}]\nroutes: [{ respond: 204 }]\n");
    assert!(report.contains("quote a value with `${`"), "{report}");
    let report = bad(&Around::default(), "listeners: [\":80\"]\nroutes: [{ respond: ${A} }]\n");
    assert!(report.contains("quote a value with `${`"), "{report}");
}

#[test]
fn a_file_is_a_value_without_the_line_break_at_its_end() {
    for (content, value) in [("k1", "k1"), ("k1\n", "k1"), ("k1\r\n", "k1"), ("k1\n\n", "k1\n")] {
        let around = Around::files(&[("keys/a", content)]);
        let text = format!("{BASE}error_pages: {{ 404: \"<${{file:keys/a}}>\" }}\n");
        let config = good(&around, &text).config;
        let page = format!("{:?}", config.error_pages);
        assert!(page.contains(&format!("<{value}>").escape_debug().to_string()), "{page}");
    }
}

#[test]
fn what_a_file_brings_is_never_shown() {
    const SECRET: &str = "s3cret-\"quoted\"-value";
    let long = format!("{SECRET}{}", "x".repeat(100));
    for secret in [SECRET, &long] {
        let around = Around::files(&[("key", secret)]);
        for text in [
            "workers: ${file:key}",
            "timeouts:\n  idle: ${file:key}",
            "limits:\n  body: ${file:key}",
            "limits: { route: \"${file:key}\" }",
            "forwarding:\n  forwarded: ${file:key}",
            "apply: \"${file:key}\"",
            "policies: { p: \"${file:key}\" }",
            "upstreams: { a: \"${file:key}\" }",
            "upstreams: { a: { endpoints: \"a:1\", tls: { verify: \"${file:key}\" } } }",
            "policies: { p: { transform: { request: { headers: { set: { \"a b\": \"${file:key}\" } } } } } }",
            "policies: { p: { transform: { request: { path: { regex: \"(${file:key}\", replace: / } } } } }",
            "policies: { p: { authorise: { rules: \"${file:key}\" } } }",
            "policies: { p: { authorise: { networks: { allow: \"${file:key}\" } } } }",
            "policies: { p: { authorise: { api_keys: { keys: { a: \"${file:key}\" } } } } }",
            "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { secret: \"${file:key}\" } } } } }",
        ] {
            let report = bad(&around, &format!("{BASE}{text}\n"));
            let shown =
                ["s3cret", "quoted", "value-", "xxxx"].iter().any(|part| report.contains(part));
            assert!(!shown, "{text}: {report}");
        }
        let text = "listeners: [':80']\nroutes: [{ respond: 204, apply: p }]\npolicies:\n  p: { transform: { \
            request: { headers: { set: { Authorization: 'Bearer ${file:key}' } } } } }\n";
        let config = good(&around, text).config;
        for shown in [format!("{config:?}"), format!("{config:#?}")] {
            assert!(!shown.contains("s3cret") && shown.contains("Bearer ***"), "{shown}");
        }
    }
}

#[test]
fn a_secret_from_the_environment_is_not_shown_either() {
    let text = "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret: \"${PW}\" } } } } }";
    let report = bad(&variables(&[("PW", "sh0rt")]), &format!("{BASE}{text}\n"));
    assert!(!report.contains("sh0rt"), "{report}");
}

#[test]
fn secrets_are_masked_where_they_are_written_and_references_stay() {
    let secret = "0123456789abcdef0123456789abcdef";
    let around =
        Around { variables: owned(&[("KEY", secret)]), ..Around::files(&[("key", secret)]) };
    let text = |keys: &str| {
        format!(
            "listeners: [\":80\"]\nroutes: [{{ respond: 204, apply: p }}]\npolicies: {{ p: {{ jwt: {{ \
            providers: {{ issuer: a, audience: a, algorithms: HS256, keys: {{ secret: \"{keys}\" }} }} }} }} }}\n"
        )
    };
    for written in ["${file:key}", "${KEY}", "${KEY:-}", "${KEY}${file:key}"] {
        let composed = good(&around, &text(written));
        assert_eq!(composed.masked()[0].text, text(written));
        assert!(composed.masked()[0].secrets.is_empty());
    }
    for written in [
        secret,
        "${OTHER:-0123456789abcdef0123456789abcdef}",
        "${KEY:-0123456789abcdef0123456789abcdef}",
        "0123456789abcdef${KEY}",
    ] {
        let masked = &good(&around, &text(written)).masked()[0];
        assert!(!masked.text.contains("0123456789abcdef"), "{}", masked.text);
        assert_eq!(masked.secrets.len(), 1);
    }
    for written in ["${SHORT:-0123456789abcdef}", "${KEY-0123456789abcdef}"] {
        let around = Around { variables: owned(&[("SHORT", "short")]), ..Around::default() };
        let report = bad(&around, &text(written));
        assert!(!report.contains("0123456789abcdef"), "{report}");
    }
}

#[test]
fn files_are_joined_in_their_order() {
    let around = Around::files(&[
        (
            "conf.d/b.yaml",
            "routes: { prefix: /b, upstream: b }\nupstreams: { b: b:1 }\nlimits: { fields: 7 }\n",
        ),
        (
            "conf.d/a.yaml",
            "routes: [{ prefix: /a, upstream: a }]\nupstreams: { a: a:1 }\ninclude: more/x.yaml\n",
        ),
        ("conf.d/more/x.yaml", "listeners: ':81'\napply: [c]\npolicies: { c: { compress: {} } }\n"),
        ("conf.d/empty.yaml", "# nothing yet\n"),
    ]);
    let text = format!(
        "include: [conf.d/*.yaml, 'none/*.yaml']\n{BASE}apply: [t]\npolicies: {{ t: {{ compress: {{}} }} }}\n"
    );
    let text = text.replace("t: { compress: {} }", "t: { cors: { origins: '*' } }");
    let composed = good(&around, &text);
    let config = &composed.config;
    let names: Vec<_> = config.routes.iter().map(|it| it.path.to_string()).collect();
    assert_eq!(names.len(), 3);
    let called = |location| config.file_names.of(location).to_owned();
    let files: Vec<_> = config.routes.iter().map(|it| called(it.location)).collect();
    assert_eq!(files, ["titan.yaml", "conf.d/a.yaml", "conf.d/b.yaml"]);
    assert_eq!(config.routes[2].location.to_string(), "1:9");
    let names: Vec<_> = config.upstreams.iter().map(|it| it.name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(config.listeners.len(), 2);
    assert_eq!(called(config.listeners[1].location), "conf.d/more/x.yaml");
    assert_eq!(composed.masked().len(), 5);
}

#[test]
fn paths_start_at_the_directory_of_their_file() {
    let around = Around::files(&[
        (
            "conf.d/a.yaml",
            "listeners: { address: ':443', tls: { certificates: { cert: a.pem, key: /k/a.key } } }\n\
         routes: { prefix: /f, files: ../www }\nerror_pages: { 404: '${file:page}' }\n",
        ),
        ("conf.d/page", "gone"),
    ]);
    let config = good(&around, &format!("include: conf.d/a.yaml\n{BASE}")).config;
    let files: Vec<_> = config.files().iter().map(|it| it.display().to_string()).collect();
    assert_eq!(files, ["conf.d/a.pem", "/k/a.key"]);
    assert!(format!("{:?}", config.routes).contains("conf.d/../www"));
}

#[test]
fn what_is_wrong_in_several_files_is_told_with_its_file() {
    let around = Around::files(&[
        (
            "conf.d/a.yaml",
            "limits: { fields: 7 }\nupstreams: { web: a:1 }\nroutes:\n  - prefx: /x\n    respond: 200\n",
        ),
        (
            "conf.d/b.yaml",
            "workers: 2\n\nlimits: { fields: 8 }\nupstreams:\n  web: b:1\nroutes: { prefix: /, upstream: wep }\n",
        ),
        ("conf.d/list.yaml", "- a\n"),
    ]);
    let text = format!("include: conf.d/*.yaml\n{BASE}workers: 1\n");
    insta::assert_snapshot!(bad(&around, &text));
    let around = Around::files(
        &around.files.iter().take(2).map(|(a, b)| (a.as_str(), b.as_str())).collect::<Vec<_>>(),
    );
    insta::assert_snapshot!(bad(&around, &text));
}

#[test]
fn what_cannot_be_included_is_told_where_it_is_named() {
    let around = Around::files(&[
        ("self.yaml", "include: self.yaml\n"),
        ("a.yaml", "include: [b.yaml]\n"),
        ("b.yaml", "\ninclude: [titan.yaml, a.yaml]\n"),
        ("titan.yaml", BASE),
        ("broken.yaml", "routes: [\n"),
        ("plain.yaml", "{}\n"),
    ]);
    for include in [
        "a.yaml",
        "self.yaml",
        "nowhere.yaml",
        "[plain.yaml, ./plain.yaml]",
        "broken.yaml",
        "'**/a'",
        "''",
        "{ a: b }",
    ] {
        insta::assert_snapshot!(bad(&around, &format!("include: {include}\n{BASE}")));
    }
}

#[test]
fn what_is_included_has_bounds() {
    let many: Vec<_> =
        (0..=MAX_INCLUDED).map(|n| (format!("c/{n}.yaml"), "{}".to_owned())).collect();
    let around = Around { files: many, ..Around::default() };
    let report = bad(&around, &format!("include: c/*.yaml\n{BASE}"));
    assert!(report.contains("more than 1024 files are included"), "{report}");

    let large = format!("# {}", "x".repeat((4 << 20) - 10));
    let files = (0..=MAX_FILES_TOTAL >> 22).map(|n| (format!("c/{n}.yaml"), large.clone()));
    let around = Around { files: files.collect(), ..Around::default() };
    let report = bad(&around, &format!("include: c/*.yaml\n{BASE}"));
    assert!(report.contains("all files together would be larger than 32 MiB"), "{report}");

    let chain = (0..20).map(|n| (format!("{n}.yaml"), format!("include: {}.yaml", n + 1)));
    let around = Around { files: chain.collect(), ..Around::default() };
    let report = bad(&around, &format!("include: 0.yaml\n{BASE}"));
    assert!(report.contains("files include each other more than 8 deep"), "{report}");
}

#[test]
fn what_variables_bring_has_bounds() {
    let page = "${A}".repeat(1 << 10);
    let around = variables(&[("A", &"x".repeat(64 << 10))]);
    let report = bad(&around, &format!("{BASE}error_pages: {{ 404: \"{page}\" }}\n"));
    assert!(report.contains("more than 32 MiB of text"), "{report}");

    let files = (0..=MAX_SECRET_FILES).map(|n| (format!("{n}"), "x".to_owned()));
    let around = Around { files: files.collect(), ..Around::default() };
    let all: String = (0..=MAX_SECRET_FILES).map(|n| format!("${{file:{n}}}")).collect();
    let report = bad(&around, &format!("{BASE}error_pages: {{ 404: \"{all}\" }}\n"));
    assert!(report.contains("more than 1024 files are values"), "{report}");
}

#[test]
fn a_text_on_its_own_has_nothing_around_it() {
    for text in ["include: a.yaml\n", "workers: ${A}\n", "include: 'a*'\n", "workers: ${file:a}\n"]
    {
        let report = Config::parse("demo", &format!("{text}{BASE}")).unwrap_err().to_string();
        assert!(report.contains("this configuration is read on its own"), "{report}");
    }
    assert!(Config::parse("demo", &format!("{BASE}error_pages: {{ 404: '$${{a}}' }}")).is_ok());
}

/// The checked form without places and warnings.
fn meaning(config: &Config) -> String {
    let place = regex::Regex::new(r"Location \{ file: FileId\(\d+\), line: \d+, column: \d+ \}");
    let shown = format!("{config:?}");
    let shown = place.unwrap().replace_all(&shown, "_").replace("Some(_)", "None");
    // To say so what is so anyway spares a warning.
    let shown = shown.replace("Some(Keep)", "None");
    shown.split("warnings: ").next().unwrap().to_owned()
}

#[test]
fn what_is_resolved_is_one_file_that_means_the_same() {
    let around = Around {
        variables: owned(&[
            ("PORT", "81"),
            ("BODY", "a: b # \"c\"\n'd' é"),
            ("STAR", "*.a.example"),
        ]),
        ..Around::files(&[
            (
                "conf.d/a.yaml",
                "listeners: { address: ':443', tls: { certificates: { cert: a.pem, key: /k/a.key } } }\n\
                 routes:\n  - { prefix: /f, files: ../www }\n  - { host: '${STAR}', path: '/{id}', redirect: '/$${id}' }\n\
                 \x20 - { path: /b, respond: { body: \"${BODY}\" } }\n\
                 upstreams: { a: ['a:1', 'b:${PORT}'] }\n",
            ),
            (
                "conf.d/b.yaml",
                "routes: { prefix: /, upstream: a, apply: p, timeouts: { response: 7s } }\napply: c\n\
                 policies:\n  c: { cors: { origins: 'https://a.example' } }\n  p: { rate_limit: { rates: 5/s } }\n\
                 error_pages: { 404: '<p>${BODY}' }\n",
            ),
        ])
    };
    let text = "include: conf.d/*.yaml\nlisteners: ['127.0.0.1:${PORT}']\nroutes: { prefix: /x, respond: 204 }\n";
    let composed = good(&around, text);
    let (before, resolved) = (meaning(&composed.config), Resolved::from(composed).to_string());
    let again = Config::parse("resolved", &resolved).unwrap_or_else(|it| panic!("{it}{resolved}"));
    assert_eq!(meaning(&again), before, "{resolved}");
    assert!(resolved.contains("cert: conf.d/a.pem"), "{resolved}");
}

#[test]
fn secrets_are_masked_in_what_is_resolved() {
    let secret = "0123456789abcdef0123456789abcdef";
    let around = Around {
        variables: owned(&[("PW", secret)]),
        ..Around::files(&[("f", secret), ("n", "7")])
    };
    let text = "listeners: [':80']\nroutes: [{ respond: 204, apply: [p, t, l] }]\npolicies:\n  \
        p: { jwt: { providers: { issuer: a, audience: a, algorithms: HS256, keys: { secret: '${PW}' } } } }\n  \
        l: { transform: { response: { headers: { set: { X-Key: 'k ${file:f}' } } } } }\n\
        limits:\n  fields: ${file:n}\n";
    let text = text.replace(", l] }]", "] }]").replace("  l: {", "  t: {");
    let resolved = Resolved::from(good(&around, &text)).to_string();
    assert!(!resolved.contains("0123456789"), "{resolved}");
    assert_eq!(resolved.matches("\"***\"").count(), 3, "{resolved}");
}
