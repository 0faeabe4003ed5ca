//! Authorisations that allow every request or none, and the errors for these: each message is a snapshot.

use insta::assert_snapshot;
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

#[test]
fn authorisations_that_ask_for_nothing() {
    let policies = |policies: &str| section(&format!("apply: [p]\npolicies:\n  {policies}"));
    let (one, empty) =
        ("ab".repeat(32), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let cases = [
        "p: { authorise: { deny: [] } }".to_owned(),
        "p: { authorise: { api_keys: { keys: {} } } }".to_owned(),
        format!(
            "p: {{ authorise: {{ api_keys: {{ keys: {{ a: abc, b: \"x{}\" }} }} }} }}",
            &one[1..]
        ),
        format!("p: {{ authorise: {{ api_keys: {{ keys: {{ a: {one}, b: {one} }} }} }} }}"),
        format!("p: {{ authorise: {{ api_keys: {{ keys: {{ a: {empty} }} }} }} }}"),
        format!(
            "p: {{ authorise: {{ api_keys: {{ header: host, identity_header: X-Forwarded-For, keys: {{ a: {one} }} }} }} }}"
        ),
        format!(
            "p: {{ authorise: {{ api_keys: {{ identity_header: authorization, keys: {{ a: {one} }} }} }} }}"
        ),
        format!("p: {{ authorise: {{ api_keys: {{ identity_header: x_api_key, keys: {{ a: {one} }} }} }} }}"),
        "p: { authorise: { client_certificate: absent } }".to_owned(),
        "p: { authorise: { client_certificate: { dns: a } } }".to_owned(),
        "p: { rate_limit: { rates: 5/s, key: api_key } }".to_owned(),
        "p: { authorise: { basic: { users: {} } } }".to_owned(),
        "p: { authorise: { basic: { users: { 'a:b': x, eve: secret, bob: $apr1$a$b, joe: '$2b$15$a' } } } }".to_owned(),
        "p: { authorise: { forward_auth: { upstream: nobody, path: verify, upstream_headers: Host, method: PUT } } }".to_owned(),
    ];
    assert_snapshot!(cases.map(|case| policies(&case)).join("\n"));
}

#[test]
fn decisions_that_would_be_shared() {
    let remembered = |forward: &str| {
        section(&format!(
            "upstreams: {{ sso: a:1 }}\napply: [p]\npolicies:\n  \
             p: {{ authorise: {{ forward_auth: {{ upstream: sso, {forward} }} }} }}"
        ))
    };
    let cases = [
        "cache: { ttl: 30s, key: [host, path] }",
        "cache: { ttl: 30s, key: { header: Cookie } }",
        "request_headers: [], cache: { ttl: 30s, key: [host, path] }",
        "request_headers: [], cache: { ttl: 30s, key: { header: Cookie } }",
    ];
    assert_snapshot!(cases.map(remembered).join("\n"));
    for right in [
        "cache: { ttl: 30s }",
        "request_headers: Cookie, cache: { ttl: 30s, key: { header: cookie } }",
        "request_headers: [], cache: { ttl: 30s, key: client_address }",
        "cache: { ttl: 30s, key: [{ header: Cookie }, { header: Authorization }, host] }",
    ] {
        assert_eq!(remembered(right), "", "{right}");
    }
}

#[test]
fn credentials_that_could_not_both_come() {
    let hash = "ab".repeat(32);
    let basic = "basic: { file: users }";
    let keys = format!("api_keys: {{ header: AUTHORIZATION, keys: {{ a: {hash} }} }}");
    let or_query = keys.replace("AUTHORIZATION", "AUTHORIZATION, query: key");
    let file = |jwt: &str, authorise: &str, route: &str| {
        report(&format!(
            "listeners: [\":80\"]\napply: [t, p]\nroutes:\n  - {{ respond: 204, {route} }}\npolicies:\n  \
             t: {{ jwt: {{ providers: {{ algorithms: HS256, keys: {{ secret_file: k }} }}, {jwt} }} }}\n  \
             p: {{ authorise: {{ {authorise} }} }}\n"
        ))
    };
    let cookie = "token: { cookie: t }";
    let cases = [
        file("", basic, ""),
        file("token: [{ scheme: A }, { scheme: B }]", &keys, ""),
        file("token: { cookie: t }, forward: true", basic, ""),
        file(cookie, &format!("{basic}, {or_query}"), ""),
    ];
    assert_snapshot!(cases.join("\n"));
    let other = keys.replace("AUTHORIZATION", "X-Key");
    let both = format!("{basic}, {other}");
    for (jwt, authorise, route) in [
        (cookie, basic, ""),
        (cookie, keys.as_str(), ""),
        (cookie, both.as_str(), ""),
        ("", other.as_str(), ""),
        ("", or_query.as_str(), ""),
        ("token: [{ scheme: Bearer }, { cookie: t }]", basic, ""),
        ("", basic, "without: [authorise]"),
        ("", basic, "without: [jwt]"),
    ] {
        let report = file(jwt, authorise, route);
        assert!(!report.contains("error: "), "{jwt} {authorise} {route}: {report}");
    }
}

/// Reports end up in logs, whether the secret or something beside it is wrong.
#[test]
fn no_secret_is_shown() {
    let (key, hash) =
        ("ab".repeat(32), "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW");
    let jwt =
        |keys: &str| format!("jwt: {{ providers: {{ algorithms: HS256, keys: {{ {keys} }} }} }}");
    let users = |users: &str| format!("authorise: {{ basic: {{ users: {{ {users} }} }} }}");
    let keys = |keys: &str| format!("authorise: {{ api_keys: {{ keys: {{ {keys} }} }} }}");
    let long = "geheim".repeat(200);
    let cases = [
        (users("eve: geheim"), "geheim"),
        (users("eve: \"geheim\" , bob: geheim é"), "geheim"),
        (users("é: geheim\n      é , bob: x"), "geheim"),
        (users("eve: [geheim]"), "geheim"),
        (users(&format!("eve: '{hash}', bob: x")), hash),
        (keys("a: geheim"), "geheim"),
        (keys(&format!("a: {key}, b: {key}")), &key),
        (jwt("secret: geheim"), "geheim"),
        (jwt("secret: { geheim: x }"), "geheim"),
        (jwt(&format!("secret: {long}")), "geheim"),
        (format!("{}, cors: 1", jwt("secret: geheim")), "geheim"),
    ];
    for (policy, shown) in &cases {
        let report = section(&format!("apply: [p]\npolicies: {{ p: {{ {policy} }} }}"));
        assert!(report.contains("titan.yaml:2:") && report.contains('*'), "{report}");
        assert!(!report.contains(shown), "{report}");
    }
    // A file that can be served is shown where there are warnings.
    let policy = jwt(&format!("secret: {}", "geheim".repeat(8)));
    let report = section(&format!("policies: {{ p: {{ {policy} }} }}"));
    assert!(report.starts_with("warning: ") && report.contains("secret: ***"), "{report}");
}

#[test]
fn tokens_that_are_asked_for_nothing_or_are_not_there() {
    let jwt = "jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } }";
    let file = |authorise: &str, routes: &str| {
        report(&format!(
            "listeners: [\":80\"]\napply: [t]\nroutes:\n{routes}\npolicies:\n  t: {{ {jwt} }}\n  p: {{ authorise: {{ {authorise} }} }}\n"
        ))
    };
    let one = "  - { respond: 204, apply: [p] }";
    let cases = [
        ("scopes: []", one),
        ("scopes: {}", one),
        ("scopes: 'a b'", one),
        ("roles: { claim: a }", one),
        ("claims: { a: {} }", one),
        ("claims: { a: x, /a: y }", one),
        ("claims: { a: { al: x } }", one),
        (
            "claims: { a: 1.5, b: [1e3, 7, -0x, 99999999999999999999], c: '1.5', d: 1.2.3, e: inf }",
            one,
        ),
        ("deny: ::1, tell_missing: true", one),
        ("scopes: a", "  - { respond: 204, apply: [p], without: [jwt] }"),
        ("claims: { a: b }", "  - { respond: 204, apply: [p], without: [jwt] }"),
    ];
    assert_snapshot!(cases.map(|(authorise, routes)| file(authorise, routes)).join("\n"));
}

#[test]
fn tokens_that_are_optional_and_needed() {
    let file = |asks: &str, required: bool| {
        report(&format!(
            "listeners: ':80'\nroutes: {{ respond: 204, apply: [t, p] }}\npolicies:\n  \
             t: {{ jwt: {{ required: {required}, providers: {{ algorithms: HS256, keys: {{ secret_file: k }} }} }} }}\n  \
             p: {{ authorise: {{ {asks} }} }}\n"
        ))
    };
    for asks in ["scopes: a", "roles: a", "claims: { a: b }"] {
        let told = file(asks, false);
        assert!(told.contains("this policy needs a token, but the token is optional"), "{told}");
        assert_eq!(file(asks, true), "");
    }
    assert_eq!(file("rules: has(claims.a)", false), "");
}

#[test]
fn choices_that_are_none() {
    let file = |asks: &str, required: bool, applied: &str| {
        report(&format!(
            "listeners: ':80'\nroutes: {{ respond: 204, apply: [{applied}] }}\npolicies:\n  \
             t: {{ jwt: {{ required: {required}, providers: {{ algorithms: HS256, keys: {{ secret_file: k }} }} }} }}\n  \
             p: {{ authorise: {{ {asks} }} }}\n  l: {{ rate_limit: {{ rates: 5/s, key: api_key }} }}\n"
        ))
    };
    let (basic, keys) =
        ("basic: { file: u }", format!("api_keys: {{ keys: {{ a: {} }} }}", "ab".repeat(32)));
    let choice = format!("any_of: [token, api_keys, basic], {basic}, {keys}");
    for (asks, required, applied, wanted) in [
        ("any_of: basic, basic: { file: u }", false, "t, p", "with one entry is not a choice"),
        ("any_of: [basic, basic], basic: { file: u }", false, "t, p", "`basic` appears twice"),
        ("any_of: [token, basic]", false, "t, p", "lists `basic`, which this policy does not"),
        ("any_of: [token, api_keys], allow: ::1", false, "t, p", "lists `api_keys`, which"),
        ("any_of: [token, client_certificate]", false, "t, p", "lists `client_certificate`, which"),
        (&choice, false, "p", "needs tokens, but no policy checks them"),
        (&choice, true, "t, p", "a request without a token is refused before"),
        (
            &choice,
            false,
            "t, p, l",
            "this rate limit counts by API key, but no policy checks API keys",
        ),
    ] {
        let told = file(asks, required, applied);
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    for asks in [choice.clone(), format!("{choice}, scopes: a")] {
        let told = file(&asks, false, "t, p");
        assert!(!told.contains("error"), "{told}");
    }
}

#[test]
fn rules_that_only_refuse_some_tokens() {
    let file = |rules: &str, required: bool| {
        report(&format!(
            "listeners: ':80'\nroutes: {{ respond: 204, apply: [t, p] }}\npolicies:\n  \
             t: {{ jwt: {{ required: {required}, providers: {{ algorithms: HS256, keys: {{ secret_file: k }} }} }} }}\n  \
             p: {{ authorise: {{ rules: [{rules}] }} }}\n"
        ))
    };
    assert_snapshot!(file("\"!has(claims.banned)\"", false));
    for rule in [
        "!('banned' in claims)",
        "!has(claims.role) || claims.role != 'guest'",
        "!(has(claims.a) && request.path == '/')",
    ] {
        let warned = |more: &str, required| {
            let told = file(&format!("\"{rule}\"{more}"), required);
            assert!(!told.contains("error"), "{told}");
            told.contains("requests without a token pass rules")
        };
        assert!(warned("", false) && warned(", \"request.method == 'GET'\"", false), "{rule}");
        // Another rule refuses them, or none comes without.
        for more in [", has(claims.sub)", ", size(claims) > 0"] {
            assert!(!warned(more, false), "{rule}{more}");
        }
        assert!(!warned("", true), "{rule}");
    }
    for rule in [
        "size(claims) == 0 || !has(claims.banned)",
        "size(claims) > 0 && !has(claims.banned)",
        "has(claims.sub)",
        "claims.role != 'guest'",
        "request.method == 'GET' || has(claims.sub)",
        "request.method == 'GET'",
    ] {
        assert_eq!(file(&format!("\"{rule}\""), false), "", "{rule}");
    }
}

#[test]
fn tokens_and_passwords_in_the_same_place() {
    let hash = "$2b$10$abcdefghijklmnopqrstuuzi5E8Fg0yjKgTc5PCHx2LCyJ0fp5n/G";
    let file_with = |token: &str, asks: &str| {
        report(&format!(
            "listeners: [\":80\"]\nroutes: [{{ respond: 204, apply: [t, p] }}]\npolicies:\n  \
             t: {{ jwt: {{ {token}providers: {{ algorithms: HS256, keys: {{ secret_file: k }} }} }} }}\n  \
             p: {{ authorise: {{ {asks} }} }}\n"
        ))
    };
    let file = |token| file_with(token, &format!("basic: {{ users: {{ ann: '{hash}' }} }}"));
    assert_snapshot!(file(""));
    let keys = format!("api_keys: {{ header: Authorization, keys: {{ a: {} }} }}", "ab".repeat(32));
    let told = file_with("", &keys);
    assert!(told.contains("both a token and an API key"), "{told}");
    assert_eq!(file_with("", &keys.replace("header", "query: key, header")), "");
    assert_eq!(file("token: { cookie: session }, "), "");
    assert_eq!(file("token: [{ scheme: Bearer }, { query: t }], "), "");
}

#[test]
fn rules_that_are_none() {
    let rule = |rule: &str| {
        report(&format!(
            "listeners: [\":80\"]\nroutes: [{{ respond: 204, apply: [p] }}]\npolicies:\n  p: {{ authorise: {{ rules: \"{rule}\" }} }}\n"
        ))
    };
    let deep = format!("{}1{} == 1", "(-".repeat(20), ")".repeat(20));
    let deeper = format!("{}1{} == 1", "(".repeat(400), ")".repeat(400));
    let cases = [
        "request.path ==",
        "request.path == '\u{e9}' && ) 1",
        "request.path == 'a",
        "request.pth == 'a'",
        "reqest.path == 'a'",
        "request == 'a'",
        "request.path",
        "'GET'",
        "request.path.startWith('a')",
        "request.path.matches('[')",
        "request.path.matches(request.host)",
        "['a'].map(it, it) == ['a']",
        "['a'].exists(it, ['b'].exists(that, that == it))",
        "['a'].exists(request, request == 'a')",
        "type(request.path) == string",
        "a.b.C{d: 1} == 1",
        "claims.sub == 'ann'",
        "request.headers['X-Tenant'] == 'a'",
        "'X-Tenant' in request.headers",
        "has(request.headers.Tenant)",
        "request.method = 'GET'",
        "request.method == 'GET' & true",
        "has(certificate.subject)",
        "contains('/b')",
        "!startsWith(request.path, '/b')",
        "request.host.endsWith('a', 'b')",
        "matches('/b')",
        "claims.level.int() == 1",
        "string() == ''",
        "size() == 1",
        "claims.groups.size(1) == 1",
        &deep,
        &deeper,
    ];
    assert_snapshot!(cases.map(rule).join("\n"));
    assert!(rule(&format!("'{}' == ''", "x".repeat(2000))).contains("the maximum is 1024"));
}

#[test]
fn stars_that_browsers_take_for_names() {
    let cors = |more: &str| {
        section(&format!(
            "apply: [p]\npolicies:\n  p: {{ cors: {{ origins: 'https://a', {more} }} }}"
        ))
    };
    let cases = ["methods: [GET, '*']", "expose: '*', credentials: true"];
    assert_snapshot!(cases.map(cors).join("\n"));
    assert_eq!(cors("methods: '*', expose: '*', headers: '*'"), "");
}

#[test]
fn who_lets_every_page_in_cannot_keep_some_from_websockets() {
    let cors = |more: &str| {
        section(&format!("apply: [p]\npolicies:\n  p: {{ cors: {{ origins: '*', {more} }} }}"))
    };
    let says = cors("websockets: true");
    assert!(says.contains("pages of every origin may open WebSockets"), "{says}");
    assert!(says.contains("list the origins"), "{says}");
    assert_eq!(cors("websockets: false"), "");
}

#[test]
fn decisions_depend_on_what_the_service_sees() {
    let report = |key: &str| {
        report(&format!(
            "listeners: [\":8080\"]\nroutes: [{{ upstream: u }}]\nupstreams: {{ u: \"a:1\" }}\napply: p\npolicies:\n  \
             p: {{ authorise: {{ forward_auth: {{ upstream: u, request_headers: X-A, cache: {{ ttl: 1s, key: {key} }} }} }} }}\n"
        ))
    };
    assert_eq!(report("[path, { header: x-a }]"), "");
    let unseen = report("[path, { header: Cookie }]");
    assert!(unseen.contains("no decision depends on `Cookie`"), "{unseen}");
    assert!(unseen.contains("the gateway does not send this header to the service"), "{unseen}");
    assert!(report("X-A").contains("expected `method`"), "{}", report("X-A"));
}
