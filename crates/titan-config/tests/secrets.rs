//! Secrets do not get into reports, whatever is wrong with a file.

mod around;

use around::Around;
use proptest::prelude::*;
use titan_config::{Cases, Document, Report};

const SHARED: &str = "Zk9#uW-3vTq:yR7pXs,2mLd{8}HnBc4JfGw6QoAe1";
const OTHER_SHARED: &str = "uEw0IrYt5Pq'OaSd Lf+GjHk/ZxVc=BnNm1QsWx";
const PASSWORD: &str = "$2y$05$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy";
const API_KEY: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const TOKEN: &str = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752";
const IN_FILE: &str = "Hs2Jd9LqPz7XcVb4NmTr8YwGk3FoUe6AiRt5QvBx";

/// Secrets in all fields that take some, in block style.
const BLOCK: &str = r#"# What is shared with the issuer.
listeners: [":8080"]
admin:
  address: 127.0.0.1:9901
  tokens:
    deploy: { rights: full, sha256: TOKEN }
routes:
  - name: api
    prefix: /
    apply: users   # with a token
    respond: 204
  - { name: known, prefix: /known, apply: [known], respond: 204 }
policies:
  users:
    jwt:
      providers:
        - issuer: "https://id.example"
          algorithms: HS256
          keys:
            secret: 'SHARED'
        - issuer: https://other.example
          algorithms: HS256
          keys:
            secret: |-
              OTHER
        - issuer: https://third.example
          algorithms: HS256
          keys: { secret: "${file:key}" }
  known:
    authorise:
      basic:
        users:
          alice: PASSWORD
      api_keys:
        header: x-key
        keys:
          ci: API_KEY
"#;

/// The same, as much as fits on a line.
const FLOW: &str = r#"{"listeners": [":8080"], "routes": [{"respond": 204, "apply": "users"},
{"prefix": "/b", "respond": 204, "apply": ["known"]}],
"admin": {"address": "127.0.0.1:9901", "tokens": {"deploy": {"sha256": "TOKEN"}}},
policies: {users: {jwt: {providers: [{issuer: a, algorithms: HS256, keys: {secret: "SHARED"}},
{issuer: b, algorithms: HS256, keys: {secret: API_KEY}},
{issuer: c, algorithms: HS256, keys: {secret: '${file:key}'}}]}},
known: {authorise: {basic: {users: {alice: PASSWORD}}, api_keys: {header: x-key, keys: {ci: API_KEY}}}}}}
"#;

fn with_secrets(text: &str) -> String {
    [
        ("API_KEY", API_KEY),
        ("PASSWORD", PASSWORD),
        ("TOKEN", TOKEN),
        ("OTHER", OTHER_SHARED),
        ("SHARED", SHARED),
    ]
    .iter()
    .fold(text.to_owned(), |text, (name, secret)| text.replace(name, secret))
}

fn around() -> Around {
    Around::files(&[("key", IN_FILE)])
}

/// All that may be seen of a report.
fn shown(report: &Report) -> String {
    let words = report.diagnostics().iter().map(|it| format!("{it:?}")).collect::<Vec<_>>();
    format!("{report}\n{}\n{report:?}\n{}", report.colored(), words.join("\n"))
}

/// A part of a secret that is in the text.
fn leaked(text: &str) -> Option<&'static str> {
    const LENGTH: usize = 6;
    let secrets = [SHARED, OTHER_SHARED, PASSWORD, API_KEY, TOKEN, IN_FILE];
    let parts = secrets
        .iter()
        .flat_map(|secret| (0..=secret.len() - LENGTH).map(move |at| &secret[at..at + LENGTH]));
    let mut parts = parts.filter(|part| *part != "$2y$05");
    parts.find(|part| text.contains(part))
}

/// Reads a text as the file that was asked for, and as one that is included.
fn check(text: &str) -> Result<(), String> {
    let mut including = around();
    including.files.push(("more.yaml".to_owned(), text.to_owned()));
    for read in [around().read(text), including.read("include: more.yaml\n")] {
        let shown = match read {
            Ok(composed) => shown(&composed.config.warnings),
            Err(report) => shown(&report),
        };
        if let Some(part) = leaked(&shown) {
            return Err(format!("{part} of\n{text}\nis in\n{shown}"));
        }
    }
    Ok(())
}

#[test]
fn the_samples_are_good() {
    for text in [BLOCK, FLOW] {
        let text = with_secrets(text);
        around().read(&text).unwrap_or_else(|report| panic!("{report}"));
        check(&text).unwrap();
    }
}

/// What is written by mistake.
const SLIPS: &[&str] = &[
    "", "\"", "'", "#", " #", ":", ": ", ",", "\n", "{", "}", "[", "]", "&", "*", "!", "|", ">",
    "-", "?", " ", "\t", "x", "%", "@", "\\", "${", "$",
];

proptest! {
    // A failing case belongs into a test of its own, not into a file beside it.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_slip_shows_a_secret(
        sample in proptest::sample::select(vec![BLOCK, FLOW]),
        at in any::<proptest::sample::Index>(),
        replaced in 0..=1_usize,
        slip in proptest::sample::select(SLIPS),
        is_cut in proptest::bool::weighted(0.1),
    ) {
        let text = with_secrets(sample);
        let at = at.index(text.len());
        let rest = if is_cut { "" } else { &text[at + replaced..] };
        prop_assert_eq!(check(&format!("{}{slip}{rest}", &text[..at])), Ok(()));
    }
}

#[test]
fn what_a_secret_became_is_not_shown() {
    let keys = |keys: &str| {
        format!(
            "listeners: [\":80\"]\nroutes: [{{ respond: 204, apply: [p] }}]\npolicies:\n  p:\n    jwt:\n      \
                providers:\n        algorithms: HS256\n        {keys}\n"
        )
    };
    for (name, text) in [
        ("an open quote", keys(&format!("keys: {{ secret: \"{API_KEY}"))),
        ("no reference", keys(&format!("keys: {{ secret: \"${{9{API_KEY}}}\" }}"))),
        ("no name", keys(&format!("keys: {{ secret: \"${{a {API_KEY}}}\" }}"))),
        ("a comment", keys(&format!("keys: # {{ secret: {API_KEY} }}"))),
        ("an anchor", keys(&format!("keys: {{ secret: &{API_KEY} }}"))),
        ("a tag", keys(&format!("keys: {{ secret: !{API_KEY} }}"))),
        ("an alias", keys(&format!("keys: {{ secret: *{API_KEY} }}"))),
        ("a key", keys(&format!("keys: {{ secret {API_KEY} }}"))),
        ("a part as a key", keys(&format!("keys: {{ secret: {TOKEN}, {API_KEY}: b }}"))),
        ("the keys", keys(&format!("keys: secret {API_KEY}"))),
        ("the policy", keys("").replace("jwt:", &format!("jwt: {API_KEY} |"))),
        ("a section", keys(&format!("keys: {{ secret: {{ a: {{ {API_KEY}: {API_KEY} }} }} }}"))),
        ("a second one", keys(&format!("keys: {{ secret: {TOKEN}, secret: {API_KEY} }}"))),
        ("what it is not", keys(&format!("keys: {{ password: {API_KEY} }}"))),
        ("out of place", keys(&format!("secret: {API_KEY}"))),
        ("in another document", format!("{}---\nsecret: {API_KEY}", keys("keys: { jwks: a }"))),
        ("too deep", keys(&format!("keys: {}{{ secret: {API_KEY}", "[".repeat(40)))),
        ("the file", API_KEY.to_owned()),
        ("a list", format!("[{API_KEY}]")),
        (
            "a name without a hash",
            keys("keys: { jwks: a }").replace(
                "  p:",
                &format!("  q: {{ authorise: {{ api_keys: {{ keys: {{ {API_KEY} }} }} }} }}\n  p:"),
            ),
        ),
        (
            "a name without a password",
            keys("keys: { jwks: a }").replace(
                "  p:",
                &format!("  q: {{ authorise: {{ basic: {{ users: {{ {API_KEY} }} }} }} }}\n  p:"),
            ),
        ),
    ] {
        let report = around().read(&text).err().unwrap_or_else(|| panic!("{name}: {text}"));
        assert_eq!(leaked(&shown(&report)), None, "{name}: {report}");
    }
}

/// A test file has the credentials of requests.
#[test]
fn what_proves_who_somebody_is_is_not_shown_of_a_test_file() {
    for headers in [
        format!("{{ authorization: \"Bearer {API_KEY}"),
        format!("{{ Authorization: [\"Bearer {API_KEY}\"], x: {{}} }}"),
    ] {
        let text = format!(
            "cases:\n  - name: a\n    request: {{ url: /, headers: {headers} }}\n    expect: {{ status: 401 }}\n"
        );
        let report = Cases::parse(Document::alone("a.yaml", &text), &mut around()).unwrap_err();
        assert_eq!(leaked(&shown(&report)), None, "{report}");
    }
}

/// Of a header field that carries a credential, nothing is repeated.
#[test]
fn credentials_in_header_fields_are_not_shown() {
    for (value, why) in [
        (format!("\"Bearer {API_KEY}\\n\""), "this is not a value template"),
        (format!("\"Bearer {{a {API_KEY}}}\""), "this is not a value template"),
        (format!("[\"Bearer {API_KEY}\"]"), "this is a list"),
        (format!("\"Bearer ${API_KEY}\""), ""),
    ] {
        let text = format!(
            "listeners: [\":80\"]\nroutes: [{{ respond: 204, apply: [p] }}]\npolicies:\n  p: {{ transform: {{ request: {{ \
                headers: {{ set: {{ AUTHORIZATION: {value} }} }} }} }} }}\n"
        );
        let report = match around().read(&text) {
            Ok(composed) => composed.config.warnings,
            Err(report) => report,
        };
        let shown = shown(&report);
        assert!(shown.contains(why), "{report}");
        assert_eq!(leaked(&shown), None, "{report}");
    }
}
