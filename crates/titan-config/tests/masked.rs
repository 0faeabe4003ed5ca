//! What is kept and shown of a configuration has neither its secrets nor its comments, whichever way it is shown.

mod around;

use around::Around;
use proptest::prelude::*;
use titan_config::{Composed, Config, Plan, Resolved};

const SECRET: &str = "hunter2Zk9uWvTqyR";

/// What each of the configurations begins with.
const BASE: &str = "listeners: [':80']\n";

/// Where credentials may be written outright, with `SECRET` in place of one.
const PLACES: [(&str, &str); 21] = [
    (
        "request header",
        "t: { transform: { request: { headers: { set: { Authorization: 'Basic SECRET' } } } } }",
    ),
    (
        "appended",
        "t: { transform: { request: { headers: { append: { cookie: 'session=SECRET' } } } } }",
    ),
    (
        "if absent",
        "t: { transform: { request: { headers: { set_if_absent: { X-Api-Key: SECRET } } } } }",
    ),
    (
        "another key",
        "t: { transform: { request: { headers: { set: { X-Signing-Key: SECRET } } } } }",
    ),
    (
        "a token",
        "t: { transform: { request: { headers: { set: { X-Upstream-Token: \"SECRET\" } } } } }",
    ),
    (
        "in front",
        "t: { transform: { request: { headers: { set: { Authorization: 'Basic {client}SECRET' } } } } }",
    ),
    (
        "a block",
        "t:\n    transform:\n      request:\n        headers:\n          set:\n            X-Password: >-\n              SECRET",
    ),
    (
        "replaced",
        "t: { transform: { request: { replace: { Authorization: { regex: .*, replace: 'Basic SECRET' } } } } }",
    ),
    ("query", "t: { transform: { request: { query: { set: { api_key: SECRET } } } } }"),
    (
        "response header",
        "t: { transform: { response: { headers: { set: { Set-Cookie: 'a=SECRET' } } } } }",
    ),
    (
        "a URL in a header",
        "t: { transform: { request: { headers: { set: { X-Back: 'https://a/?token=SECRET' } } } } }",
    ),
    (
        "forward_auth",
        "t: { authorise: { forward_auth: { upstream: u, path: '/verify?key=SECRET&a=b' } } }",
    ),
    ("redirect", "redirect: 'https://a.example/?client_secret=SECRET'"),
    ("redirect, long form", "redirect: { to: 'https://a.example/?token=SECRET', status: 307 }"),
    ("a user's password", "respond: { headers: { X-Back: 'https://user:SECRET@a.example/b' } }"),
    ("fixed response", "respond: { headers: { Set-Cookie: 'a=SECRET' } }"),
    ("a condition", "respond: 204, headers: { X-Api-Key: SECRET }"),
    ("a long condition", "respond: 204, headers: { Authorization: { prefix: 'Basic SECRET' } }"),
    ("an expression", "respond: 204, headers: { X-Token: { regex: '^SECRET' } }"),
    ("a parameter", "respond: 204, query: { access_token: SECRET }"),
    ("a default", "respond: 204, query: { access_token: '${UNSET:-SECRET}' }"),
];

fn with(place: &str) -> String {
    match place.starts_with("t:") {
        true => format!(
            "{BASE}upstreams: {{ u: 'a:1' }}\nroutes: [{{ upstream: u, apply: t }}]\npolicies:\n  {place}\n"
        ),
        false => format!("{BASE}routes: [{{ {place} }}, {{ prefix: /other, respond: 204 }}]\n"),
    }
}

fn read(text: &str) -> Composed {
    let around = Around {
        variables: [("PW".to_owned(), SECRET.to_owned())].into(),
        ..Around::files(&[("pw", SECRET)])
    };
    around.read(text).unwrap_or_else(|report| panic!("{report}\n{text}"))
}

fn resolved(text: &str) -> Resolved {
    Resolved::from(read(text))
}

#[test]
fn credentials_are_left_out_wherever_they_are_written() {
    for (name, place) in PLACES {
        let text = with(place).replace("SECRET", SECRET);
        let masked = read(&text).masked();
        assert!(!masked[0].text.contains(SECRET), "{name}: {}", masked[0].text);
        assert_eq!(masked[0].secrets.len(), 1, "{name}: {:?}", masked[0].secrets);
        assert!(!masked[0].secrets[0].path.is_empty(), "{name}");
        // What is written for them is a value of the same kind.
        let shown = resolved(&text).to_string();
        assert!(shown.contains("***") && !shown.contains(SECRET), "{name}: {shown}");
        let is_expression = place.contains("regex: '^");
        if let (false, Err(report)) = (is_expression, Resolved::parse("resolved", &shown)) {
            panic!("{name}: {report}\n{shown}");
        }
        let other = with(place).replace("SECRET", "0therSecret");
        let plan = Plan::new(&resolved(&text), &resolved(&other));
        assert!(!plan.is_empty(), "{name}: a credential that changes is a change");
        let told = format!("{plan}{plan:?}");
        assert!(!told.contains(SECRET) && !told.contains("0ther"), "{name}: {told}");
        // With a mistake in it, and with one behind it.
        for wrong in [
            text.replace(SECRET, &format!("{SECRET}$host\u{1}")),
            text.replace("routes:", "rutes:"),
        ] {
            let report = Config::parse("titan.yaml", &wrong).map(|config| config.warnings);
            let report = report.unwrap_or_else(|report| report).to_string();
            assert!(!report.contains(SECRET), "{name}: {report}");
        }
    }
}

#[test]
fn references_and_variables_are_no_credentials() {
    for (name, place) in PLACES {
        for reference in ["${PW}", "${file:pw}"] {
            let text = with(place);
            if text.contains("{client}") || text.contains("${UNSET") || text.contains('^') {
                continue;
            }
            let text = text.replace(": SECRET", ": 'SECRET'").replace("SECRET", reference);
            let composed = read(&text);
            let masked = composed.masked();
            assert_eq!((&masked[0].text, masked[0].secrets.len()), (&text, 0), "{name}");
            // What they bring is none the less.
            let shown = Resolved::from(composed).to_string();
            assert!(shown.contains("***") && !shown.contains(SECRET), "{name}: {shown}");
        }
    }
    let harmless = with(
        "t: { transform: { request: { headers: { set: { Authorization: 'Bearer {header:X-Own}', X-User-Token: '{claim:sub}' }, \
         rename: { X-Token: X-Other-Token } } } }, jwt: { issuer: a } }",
    );
    let harmless = harmless.replace("}, jwt: { issuer: a } }", "} }");
    let harmless = harmless.replace("{claim:sub}", "{param:sub}");
    let masked = read(&harmless).masked();
    assert_eq!((masked[0].text.as_str(), masked[0].secrets.len()), (harmless.as_str(), 0));
}

const COMMENTED: &str = r#"# S
listeners: [":80"] # S
%
routes:   # S
  # S
  - prefix: '/a'   # S
    respond: { status: 200, # S
      body: "a # b
        # c" } # S
  - prefix: /b # S
    respond: # S
      status: 200
      content_type: &type text/plain # S
      body: | # S
        # not one

        a # b
        # c
    # S
  - prefix: /c
    respond: {"status": 200, "content_type": *type, "body": 'it''s # no
       # comment'} # S 'a
  - prefix: /d
    respond:
      body: >- # S
        # a
          # b
      content_type: text/plain
  - prefix: /e
    respond:
      body: a plain
        one#two
        three  # S
  - {prefix: "/f" , respond: {body: "é # ü"}} # S é
  -
    prefix: /g # S
    respond: # S
      204
  - prefix: /h
    respond:
      content_type: text/plain
      body: |
        # last one
# S
"#;

#[test]
fn comments_are_left_out_and_nothing_else() {
    for end in ["\n", "\r\n"] {
        let text = COMMENTED.replace("%\n", "").replace("# S", "# hunter2").replace('\n', end);
        let masked = &read(&text).masked()[0];
        assert!(!masked.text.contains("hunter2"), "{}", masked.text);
        assert_eq!(meaning(&masked.text), meaning(&text), "{}", masked.text);
        let bare = text.replace("# hunter2 'a", "#").replace("# hunter2 é", "#");
        assert_eq!(masked.text, bare.replace("# hunter2", "#"));
    }
}

fn meaning(text: &str) -> String {
    Resolved::parse("titan.yaml", text).unwrap_or_else(|it| panic!("{it}\n{text}")).to_string()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Bodies in all styles with marks of comments in and around them.
    #[test]
    fn texts_are_not_taken_for_comments(lines in prop::collection::vec("[ab#' \"é]{0,6}", 1..4), style in 0..7) {
        let all = |indent: &str, join: &str| lines.iter().map(|line| format!("{indent}{}", line.trim())).collect::<Vec<_>>().join(join);
        let body = match style {
            0 => format!("'{}' # c0mment", all("", "\n      ").replace('\'', "''")),
            1 => format!("\"{}\" # c0mment", all("", "\n      ").replace('"', "\\\"")),
            2 => format!("| # c0mment\n{}\n    # c0mment", all("        ", "\n")),
            3 => format!(">+ # c0mment\n{}\n    # c0mment", all("        ", "\n")),
            4 => format!("|-2\n{}\n# c0mment", all("        ", "\n")),
            5 => format!("|\n{}", all("        ", "\n")),
            _ => format!("&a '{}'# c0mment\n  # c0mment", all("", " ").replace('\'', "''")),
        };
        let text = format!("listeners: [':80'] # c0mment\nroutes:\n  - respond:\n      content_type: text/plain\n      body: {body}");
        let Ok(composed) = Around::default().read(&text) else { return Ok(()) };
        let masked = &composed.masked()[0].text;
        let before = meaning(&text);
        prop_assert_eq!(meaning(masked), before, "{}\n{}", text, masked);
        prop_assert!(!masked.contains("c0mment"), "{}\n{}", text, masked);
    }
}
