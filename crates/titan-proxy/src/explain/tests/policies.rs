//! What policies decide.

use super::*;

const POLICIES: &str = r#"
listeners: [":8080"]
routes:
  - { name: page, path: "/pages/{id}", methods: [PUT], upstream: canary, apply: [pages, shape] }
policies:
  pages: { cors: { origins: "https://app.example", methods: [PUT] } }
  shape:
    transform:
      request:
        path: { regex: "^/pages", replace: "/v3" }
        query: { remove: debug }
        headers: { remove: X-Debug, set: { X-Page: "{id} {scheme}" } }
upstreams: { canary: "canary.internal:8000" }
"#;

#[test]
fn policies_are_met_in_order() {
    let fields = ["X-Debug: 1", "Origin: https://evil.example"];
    let text = told_under(POLICIES, "PUT", "https://a/pages/7?debug=1", &fields);
    let (_, after) = text.split_once("captured  ").unwrap();
    let (met, _) = after.split_once("\nupstream").unwrap();
    shows(
        met,
        r"
    id = `7`
    policy    cors: pages
                pages of https://evil.example may not read the response
              transform: shape
                path /v3/7
                query none
                without X-Debug: 1
                with X-Page: 7 https
    forwards  PUT /v3/7
              Host: a
    ",
    );
}

#[test]
fn a_preflight_request_is_allowed_or_refused() {
    let asks = |origin: &str| {
        let fields = [origin, "Access-Control-Request-Method: PUT"];
        told_under(POLICIES, "OPTIONS", "https://a/pages/7", &fields)
    };
    let granted = asks("Origin: https://app.example");
    assert!(
        granted.contains("preflight for the route") && granted.contains("response  204"),
        "{granted}"
    );
    let refused = asks("Origin: https://b");
    assert!(refused.contains("403 Forbidden (cors-refused)"), "{refused}");
}

#[test]
fn a_preflight_request_that_matches_no_route_is_allowed_where_all_is_under_one_policy() {
    let asks = |config: &str| {
        let fields = ["Origin: https://app.example", "Access-Control-Request-Method: PUT"];
        told_under(config, "OPTIONS", "https://a/none", &fields)
    };
    let granted = asks(&format!("{POLICIES}\napply: [pages]"));
    assert!(granted.contains("preflight for requests that match no route"), "{granted}");
    assert!(granted.contains("response  204"), "{granted}");
    assert!(asks(POLICIES).contains("404 Not Found (no-route)"));
}

#[test]
fn a_page_may_open_a_websocket_or_not() {
    let config = POLICIES.replace(", methods: [PUT] }", ", websockets: true }");
    let config = config.replace("methods: [PUT], ", "");
    let asks = |origin: &str| {
        let fields = [origin, "Connection: upgrade", "Upgrade: websocket"];
        told_under(&config, "GET", "https://a/pages/7", &fields)
    };
    for origin in ["Origin: https://app.example", "Origin: https://a"] {
        assert!(asks(origin).contains("forwards"), "{origin}");
    }
    let refused = asks("Origin: http://a");
    assert!(refused.contains("403 Forbidden (origin-refused)"), "{refused}");
}

const TOKENS: &str = "policies: { p: { jwt: { providers: { audience: here, algorithms: HS256, \
    keys: KEYS }, headers: { X-User: sub } } } }\napply: [p]\nlisteners: [\":80\"]\n\
    routes: [{ prefix: /, upstream: a }]\nupstreams: { a: a:1 }";
const SECRET: &str = "a secret of at least 32 bytes, which is in the file";

/// `Authorization` with a token of these claims, signed with that secret.
fn token(secret: &str, claims: &str) -> String {
    let parts = ["{\"alg\":\"HS256\"}", claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(aws_lc_rs::hmac::sign(&key, parts.as_bytes()));
    format!("Authorization: Bearer {parts}.{signature}")
}

/// The same with a made-up signature.
fn unsigned(algorithm: &str, claims: &str) -> String {
    let header = format!("{{\"alg\":\"{algorithm}\"}}");
    let parts = [header.as_str(), claims, "signature"].map(|part| URL_SAFE_NO_PAD.encode(part));
    format!("Authorization: Bearer {}", parts.join("."))
}

#[test]
fn tokens_are_judged() {
    let under = TOKENS.replace("KEYS", &format!("{{ secret: '{SECRET}' }}"));
    let with = |fields: &[&str]| told_under(&under, "GET", "http://a/", fields);
    let claims = "{\"sub\":\"ann\",\"aud\":\"here\",\"exp\":99999999999}";
    let text = with(&[&token(SECRET, claims), "X-User: mallory"]);
    assert!(text.contains("jwt: p\n") && text.contains("the token is valid"), "{text}");
    assert!(text.contains("sends the upstream X-User: ann") && !text.contains("mallory"), "{text}");
    let bad = [
        (token("another secret of at least 32 bytes", claims), "(signature)"),
        (token(SECRET, "{\"aud\":\"there\",\"exp\":99999999999}"), "(audience)"),
        (token(SECRET, "{\"aud\":\"here\",\"exp\":1}"), "(expired): It has expired."),
        ("Authorization: Bearer a.b.c".to_owned(), "(malformed)"),
    ];
    for (field, why) in bad {
        let text = with(&[&field]);
        assert!(text.contains(&format!("the token is not valid {why}")), "{why}: {text}");
        assert!(text.contains("401 Unauthorized (token-invalid)"), "{text}");
    }
    let text = with(&[]);
    assert!(text.contains("401 Unauthorized (token-missing)"), "{text}");
    let optional = under.replace("headers:", "required: false, headers:");
    let text = told_under(&optional, "GET", "http://a/", &[]);
    assert!(text.contains("there is no token, and none is needed\n"), "{text}");
    assert!(text.contains("forwards"), "{text}");
    let text = with(&["Authorization: Bearer a", "Authorization: Bearer b"]);
    assert!(text.contains("400 Bad Request (token-ambiguous)"), "{text}");
}

#[test]
fn of_a_token_everything_but_its_signature_is_judged_without_keys() {
    for (keys, why) in [
        ("{ secret_file: k }", "k cannot be used: the gateway has not read it"),
        (
            "{ jwks_url: 'http://127.0.0.1:1/k' }",
            "its keys are fetched only while the gateway runs",
        ),
    ] {
        // Shared secrets are nothing to fetch.
        let algorithm = if keys.contains("url") { "ES256" } else { "HS256" };
        let config = TOKENS.replace("KEYS", keys).replace("HS256", algorithm);
        let field = unsigned(algorithm, "{\"sub\":\"ann\",\"aud\":\"here\",\"exp\":99999999999}");
        let text = told_under(&config, "GET", "http://a/", &[&field]);
        let wanted =
            format!("the signature of the token is not checked ({why}); its claims are valid");
        assert!(text.contains(&wanted) && text.contains("forwards"), "{text}");
        assert!(text.contains("sends the upstream X-User: ann"), "{text}");
        let bad = [
            (algorithm, "{\"aud\":\"here\",\"exp\":1}", "(expired)"),
            (algorithm, "{\"aud\":\"here\",\"exp\":99999999999,\"nbf\":99999999998}", "(early)"),
            (algorithm, "{\"aud\":\"there\",\"exp\":99999999999}", "(audience)"),
            (algorithm, "{\"aud\":\"here\"}", "(claim)"),
            ("RS256", "{\"aud\":\"here\",\"exp\":99999999999}", "(key)"),
        ];
        for (algorithm, claims, why) in bad {
            let text = told_under(&config, "GET", "http://a/", &[&unsigned(algorithm, claims)]);
            assert!(text.contains(why), "{text}");
            assert!(text.contains("401 Unauthorized (token-invalid)"), "{text}");
        }
    }
    let text = told_under(
        &TOKENS.replace("KEYS", "{ secret_file: k }"),
        "GET",
        "http://a/",
        &["Authorization: Bearer a.b.c"],
    );
    assert!(text.contains("401 Unauthorized (token-invalid)"), "{text}");
}

#[test]
fn a_rate_limit_says_what_may_pass() {
    let limits = "listeners: [':1']\nroutes: [{ name: dear, respond: 204 }]\napply: [p]\n\
        policies: { p: { rate_limit: { rates: [5/s, { rate: 100/m, burst: 7 }], concurrency: 3,\n  \
        key: [client_address, { header: X-A }], costs: { dear: 2 }, shadow: true } } }";
    let text = told_under(limits, "GET", "http://a/", &[]);
    let wanted = "for each client and X-A at most 5/s with bursts up to 5, 100/m with bursts up to 7, \
        3 at once (shadow mode), and each request to this route counts 2 times";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn an_address_may_ask_or_not() {
    let config = "listeners: [':1']\nroutes: [{ respond: 204 }]\napply: [p]\n\
        forwarding: { trusted_proxies: [10.0.0.1] }\n\
        policies: { p: { authorise: { allow: 192.0.2.0/24, deny: 192.0.2.7 } } }";
    let text = told_from("192.0.2.1", config, &[]);
    assert!(text.contains("client    192.0.2.1\n") && text.contains("204 No Content"), "{text}");
    for address in ["192.0.2.7", "198.51.100.1", "2001:db8::1"] {
        let text = told_from(address, config, &[]);
        assert!(text.contains("the client's address is not allowed"), "{text}");
        assert!(text.contains("403 Forbidden (address-refused)"), "{text}");
    }
    let text = told_from("10.0.0.1", config, &["X-Forwarded-For: 192.0.2.9"]);
    assert!(text.contains("client    192.0.2.9, behind the trusted proxy 10.0.0.1\n"), "{text}");
    assert!(text.contains("204 No Content"), "{text}");
    let allowed = config.replace("192.0.2.0/24", "10.0.0.0/8");
    let text = told_from("10.0.0.1", &allowed, &["X-Forwarded-For: unknown"]);
    let line = "client    unknown: the trusted proxy 10.0.0.1 sent no client address\n";
    assert!(text.contains(line) && text.contains("403 Forbidden (address-refused)"), "{text}");
    // No other peer is trusted.
    let text = told_from("198.51.100.1", config, &["X-Forwarded-For: 192.0.2.9"]);
    assert!(text.contains("403 Forbidden (address-refused)"), "{text}");
}

#[test]
fn a_limit_says_what_a_client_counts_as() {
    let config = "listeners: [':1']\nroutes: [{ respond: 204 }]\napply: [p]\n\
        policies: { p: { rate_limit: { rates: 5/s, ipv6_prefix: 56 } } }";
    let text = told_from("192.0.2.1", config, &[]);
    assert!(text.contains("bursts up to 5; this one counts as 192.0.2.1\n"), "{text}");
    let text = told_from("2001:db8:0:1ff::1", config, &[]);
    assert!(text.contains("; this one counts as 2001:db8:0:100::/56\n"), "{text}");
    let by_route = config.replace("rates", "key: route, rates");
    let text = told_from("192.0.2.1", &by_route, &[]);
    assert!(!text.contains("counts as"), "{text}");
}

#[test]
fn a_limit_says_which_requests_wait() {
    let config = "listeners: [':1']\nroutes: [{ respond: 204 }]\napply: [p]\n\
        policies: { p: { rate_limit: { rates: 5/s, max_delay: 500ms } } }";
    let text = told_under(config, "GET", "http://a/", &[]);
    let wanted =
        "at most 5/s with bursts up to 5, and requests over the limit wait for up to 500ms\n";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn a_limit_says_which_clients_are_exempt() {
    let config = "listeners: [':1']\nroutes: [{ respond: 204 }]\napply: [p]\n\
        policies: { p: { rate_limit: { rates: 5/s, exempt: { addresses: 192.0.2.0/24 } } } }";
    let text = told_from("192.0.2.1", config, &[]);
    assert!(text.contains("  the client's address is exempt\n"), "{text}");
    let text = told_from("198.51.100.1", config, &[]);
    assert!(text.contains("at most 5/s"), "{text}");
    let config = TOKENS.replace("KEYS", "{ jwks_url: https://a/k }").replace("HS256", "ES256");
    let limit =
        "policies: { x: { rate_limit: { rates: 5/s, exempt: { claims: { sub: ann } } } }, p:";
    let config = config.replace("policies: { p:", limit).replace("apply: [p]", "apply: [x, p]");
    let field = unsigned("ES256", "{\"sub\":\"ann\",\"aud\":\"here\",\"exp\":99999999999}");
    let text = told_under(&config, "GET", "http://a/", &[&field]);
    assert!(text.contains("  the token is exempt by its claims\n"), "{text}");
    let plans = config
        .replace("exempt: { claims: { sub: ann } }", "plans: { claim: sub, rates: { ann: 9/s } }");
    let text = told_under(&plans, "GET", "http://a/", &[&field]);
    assert!(
        text.contains("for each client at most 9/s with bursts up to 9, by the plan ann\n"),
        "{text}"
    );
}

#[test]
fn a_limit_says_whose_api_key_is_exempt() {
    // The SHA-256 of "a" and of "b".
    let keys = "keys: { ann: ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb, \
        eve: 3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d }";
    for any_of in ["", ", any_of: [api_keys, basic], basic: { file: f }"] {
        let config = format!(
            "listeners: [':1']\nroutes: [{{ respond: 204 }}]\napply: [p, l]\npolicies:\n  \
             l: {{ rate_limit: {{ rates: 5/s, exempt: {{ api_keys: ann }} }} }}\n  \
             p: {{ authorise: {{ api_keys: {{ {keys} }}{any_of} }} }}"
        );
        let text = told_under(&config, "GET", "http://a/", &["X-API-Key: a"]);
        assert!(text.contains("  the API key is exempt\n"), "{text}");
        let text = told_under(&config, "GET", "http://a/", &["X-API-Key: b"]);
        assert!(text.contains("at most 5/s") && !text.contains("exempt"), "{text}");
    }
}

#[test]
fn limits_before_authentication_say_what_may_pass() {
    let limits = "listeners: [':1']\nroutes: [{ respond: 204 }]\napply: [e, f]\npolicies:\n  \
        e: { early_limit: { rates: 5/s } }\n  f: { failure_limit: { by_client: 9/m, by_name: 99/h } }";
    let text = told_under(limits, "GET", "http://a/", &[]);
    assert!(text.contains("for each client at most 5/s with bursts up to 5\n"), "{text}");
    let wanted = "failures at most 9/m for each client with bursts up to 9, \
        99/h for each user name with bursts up to 99\n";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn an_assumed_address_stands_for_the_client() {
    let shape = "listeners: [':1']\nroutes: [{ upstream: u }]\nupstreams: { u: 'b:1' }\napply: [p]\n\
        policies: { p: { transform: { request: { headers: { set: { X-Who: '{client}' } } } } } }";
    let text = told_under(shape, "GET", "http://a/", &[]);
    assert!(text.contains("with X-Who: 192.0.2.1\n"), "{text}");
    assert!(
        text.contains("(192.0.2.1 stands for the client's address; set it with `--from`)"),
        "{text}"
    );
    let text = told_from("203.0.113.5", shape, &[]);
    assert!(text.contains("with X-Who: 203.0.113.5\n") && !text.contains("stands for"), "{text}");
}

#[test]
fn a_failure_with_a_page_says_so() {
    let config =
        "listeners: [':1']\nroutes: [{ path: /a, respond: 204 }]\nerror_pages: { 4xx: gone }";
    let text = told_under(config, "GET", "http://h/b", &[]);
    assert!(text.contains("404 Not Found (no-route)"), "{text}");
    let page = "with a text/html; charset=utf-8 page, unless `Accept` prefers JSON";
    assert!(text.contains(page), "{text}");
    assert!(!told_under(config, "GET", "http://h/a", &[]).contains("with a page"));
    // By the status that the client sees.
    let hidden = "listeners: [':1']\nroutes: [{ respond: 204 }]\nerror_pages: { 404: gone }\napply: [k, t]\n\
        policies: { k: { authorise: { allow: 10.0.0.0/8 } }, t: { transform: { response: { status: { 403: 404 } } } } }";
    assert!(told_from("192.0.2.1", hidden, &[]).contains(page));
}

#[test]
fn a_transform_says_which_conditions_hold() {
    let config = "listeners: [':1']\nroutes: [{ respond: 404 }]\napply: [p]\npolicies:\n  \
        p: { transform: { request: { when: \"request.path == '/a'\", headers: { set: { X-A: '1' } } },\n    \
        response: { when: WHEN, status: { 404: 410 } } } }";
    let with = |when: &str, path: &str| {
        told_under(
            &config.replace("WHEN", &format!("\"{when}\"")),
            "GET",
            &format!("http://h{path}"),
            &[],
        )
    };
    let text = with("response.status == 404", "/a");
    assert!(text.contains("  changes the request: it meets request.path == '/a'\n"), "{text}");
    assert!(text.contains("with X-A: 1") && text.contains("response  410"), "{text}");
    assert!(text.contains("  changes the response if it meets response.status == 404\n"), "{text}");
    let text = with("request.path == '/b'", "/c");
    let left = "  leaves the request as it is: it does not meet request.path == '/a'\n";
    assert!(text.contains(left) && !text.contains("X-A"), "{text}");
    let left = "  leaves the response as it is: the request does not meet request.path == '/b'\n";
    assert!(text.contains(left) && text.contains("404 Not Found"), "{text}");
    assert!(with("request.path == '/b'", "/b").contains("response  410"));
}

#[test]
fn a_status_is_that_which_a_transform_makes_of_it() {
    let config = r#"
listeners: [":80"]
apply: [hide]
policies: { hide: { transform: { response: { status: { 200: 201, 403: 404 } } } }, p: { cors: { origins: "*" } } }
routes: [{ path: /a, respond: 200 }, { path: /b, respond: 200, apply: [p] }]
"#;
    let page = told_under(config, "GET", "http://h/a", &[]);
    assert!(page.contains("201 Created\n"), "{page}");
    assert!(page.contains("instead of 200 OK, by the transform"), "{page}");
    let asks = ["Origin: https://x", "Access-Control-Request-Method: PUT"];
    let page = told_under(config, "OPTIONS", "http://h/b", &asks);
    assert!(page.contains("404 Not Found (cors-refused)"), "{page}");
    let page = told_under(config, "GET", "http://h/none", &[]);
    assert!(page.contains("404 Not Found (no-route)"), "{page}");
}

#[test]
fn compression_says_what_becomes_of_both_bodies() {
    let config = r#"
listeners: [":80"]
apply: [p, t]
policies:
  p: { compress: { except: [/a], requests: { decode: gzip, unsupported: refuse } } }
  t: { transform: { request: { path: { regex: ^/a, replace: /b } } } }
routes: [{ respond: 200 }, { prefix: /up, upstream: u }]
upstreams: { u: "u:1" }
"#;
    let page = |path: &str, fields: &[&str]| told_under(config, "POST", path, fields);
    let gzip = page("http://h/", &["Accept-Encoding: gzip", "Content-Encoding: gzip"]);
    assert!(
        gzip.contains("gzip for responses that qualify; a body is decompressed from gzip"),
        "{gzip}"
    );
    let refused = page("http://h/", &["Content-Encoding: br"]);
    assert!(refused.contains("a body in that coding is refused with 415"), "{refused}");
    let with_body = page("http://h/up", &["Content-Encoding: br", "Content-Length: 1"]);
    assert!(with_body.contains("415 Unsupported Media Type (coding-refused)"), "{with_body}");
    let call = ["Content-Type: application/grpc", "TE: trailers", "grpc-timeout: soon"];
    let call = page("http://h/up", &call);
    assert!(call.contains("(bad-grpc-timeout)"), "{call}");
    let stays = page("http://h/a", &["Accept-Encoding: gzip"]);
    assert!(stays.contains("responses for this path are not compressed\n"), "{stays}");
}

#[test]
fn an_authorisation_says_what_a_request_needs() {
    let hash = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    let config = format!(
        "listeners: [':1']\nroutes: [{{ respond: 204 }}]\napply: [p]\n\
         policies: {{ p: {{ authorise: {{ deny: ::1, api_keys: {{ keys: {{ a: {hash} }} }} }} }} }}"
    );
    let text = told_under(&config, "GET", "http://a/", &[]);
    assert!(text.contains("needs an allowed client address"), "{text}");
    assert!(text.contains("needs exactly one valid API key in X-API-Key\n"), "{text}");
    let both = config.replace("keys: { a", "query: k, keys: { a");
    let text = told_under(&both, "GET", "http://a/?k=two", &[]);
    assert!(text.contains("in X-API-Key or the parameter `k`\n"), "{text}");
    assert!(text.contains("401 Unauthorized (api-key)"), "{text}");
    let text = told_under(&config, "GET", "http://a/", &["X-API-Key: one"]);
    assert!(text.contains("has the API key `a`") && text.contains("204 No Content"), "{text}");
}

#[test]
fn an_authorisation_says_which_way_of_several_is_met() {
    let hash = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    let config = format!(
        "listeners: ':1'\nroutes: {{ upstream: u }}\nupstreams: {{ u: 'b:1' }}\napply: [t, p, s]\npolicies:
  t: {{ jwt: {{ required: false, providers: {{ algorithms: HS256, keys: {{ secret: '{SECRET}' }} }} }} }}
  p: {{ authorise: {{ any_of: [token, api_keys, basic], scopes: a, basic: {{ file: f }}, api_keys: {{ keys: {{ k: {hash} }} }} }} }}
  s: {{ transform: {{ request: {{ headers: {{ set: {{ X-Who: '{{claim:sub}}' }} }} }} }} }}"
    );
    let told = |fields: &[&str]| told_under(&config, "GET", "http://a/", fields);
    let good = |scope: &str| {
        token(SECRET, &format!("{{\"sub\":\"ann\",\"scope\":\"{scope}\",\"exp\":99999999999}}"))
    };
    let text = told(&[&good("a"), "X-API-Key: one"]);
    assert!(text.contains("meets `token` of token, api_keys, basic\n"), "{text}");
    assert!(text.contains("X-Who: ann") && text.contains("forwards"), "{text}");
    let text = told(&[&good("b"), "X-API-Key: one"]);
    assert!(text.contains("meets `api_keys` of token, api_keys, basic\n"), "{text}");
    assert!(text.contains("the token's claims do not count\n"), "{text}");
    assert!(!text.contains("X-Who: ann"), "{text}");
    let text = told(&["Authorization: Basic ZXZlOnNlY3JldA=="]);
    assert!(text.contains("meets `basic` of token, api_keys, basic, if the password"), "{text}");
    let text = told(&[]);
    assert!(text.contains("meets none of token, api_keys, basic\n"), "{text}");
    assert!(text.contains("401 Unauthorized (credential)"), "{text}");
}

#[test]
fn an_authorisation_says_whether_a_certificate_may_ask() {
    let config = "listeners: [{ address: ':1', tls: { certificates: [{ cert: c, key: k }], client_certificates: { ca: a } } }]
routes: [{ respond: 204 }]\napply: [p]\npolicies: { p: { authorise: { client_certificate: { dns: a } } } }";
    let text = told_under(config, "GET", "http://a/", &[]);
    assert!(text.contains("there is no client certificate that is allowed"), "{text}");
    assert!(text.contains("403 Forbidden (certificate-refused)"), "{text}");
}

#[test]
fn an_authorisation_says_which_rule_is_not_met() {
    let config =
        "listeners: [':1']\nroutes: [{ respond: 204 }]\napply: [p]\npolicies: { p: { authorise:
        { rules: [\"request.method == 'GET'\", \"request.headers['x-a'] == 'b'\"] } } }";
    let text = told_under(config, "GET", "http://a/", &["X-A: b"]);
    assert!(text.contains("meets the rule request.method == 'GET'\n"), "{text}");
    assert!(text.contains("204 No Content"), "{text}");
    let text = told_under(config, "GET", "http://a/", &["X-A: c"]);
    assert!(text.contains("does not meet the rule request.headers['x-a'] == 'b'\n"), "{text}");
    assert!(text.contains("403 Forbidden (rule-refused)"), "{text}");
    let text = told_under(config, "GET", "http://a/", &[]);
    assert!(text.contains("== 'b' (No such key: x-a)"), "{text}");
    // If no proxy names the client.
    let config = config.replace("request.headers['x-a'] == 'b'", "client.address == '192.0.2.1'");
    let text = told_under(&config, "GET", "http://a/", &[]);
    let line =
        "needs a client address for the rule client.address == '192.0.2.1'; set one with `--from`";
    assert!(text.contains(line) && text.contains("204 No Content"), "{text}");
    let text = told_from("192.0.2.1", &config, &[]);
    assert!(text.contains("meets the rule client.address") && text.contains("204"), "{text}");
    let text = told_from("192.0.2.2", &config, &[]);
    assert!(text.contains("403 Forbidden (rule-refused)"), "{text}");
}

#[test]
fn an_authorisation_says_what_a_token_lacks() {
    let config = "listeners: [':1']\nroutes: [{ respond: 204 }]\napply: [t, p]\npolicies:
  t: { jwt: { require: [], providers: { algorithms: HS256, keys: { secret_file: k } } } }
  p: { authorise: { scopes: [a, b], claims: { tenant: x } } }";
    let told = |claims: &str| {
        let token = ["{\"alg\":\"HS256\"}", claims, "s"].map(|part| URL_SAFE_NO_PAD.encode(part));
        let field = format!("Authorization: Bearer {}", token.join("."));
        told_under(config, "GET", "http://a/", &[&field])
    };
    let text = told("{\"scope\":\"a\"}");
    assert!(text.contains("the token lacks scope b and claim tenant"), "{text}");
    assert!(text.contains("403 Forbidden (insufficient-scope)"), "{text}");
    let text = told("{\"scope\":\"b a\",\"tenant\":\"x\"}");
    assert!(text.contains("the token meets the requirements"), "{text}");
    assert!(text.contains("204 No Content"), "{text}");
}

#[test]
fn an_authorisation_names_the_service_that_decides() {
    let config = "listeners: [':1']\nroutes: [{ respond: 204 }]\napply: [p]\nupstreams: { sso: a:1 }\n\
        policies: { p: { authorise: { forward_auth: { upstream: sso, path: /verify } } } }";
    let text = told_under(config, "GET", "http://a/", &[]);
    assert!(text.contains("sends GET /verify to `sso`, which `explain` does not do"), "{text}");
    for (cache, wanted) in [
        ("cache: { ttl: 30s }", "cached for 30s by everything that the service receives\n"),
        (
            "request_headers: Cookie, cache: { ttl: 30s, key: [client_address, { header: Cookie }] }",
            "cached for 30s by client address, Cookie\n",
        ),
    ] {
        let config = config.replace("path: /verify", cache);
        let text = told_under(&config, "GET", "http://a/", &[]);
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn an_authorisation_names_the_user_of_a_password() {
    let config = "listeners: [':1']\nroutes: [{ respond: 204 }]\napply: [p]\n\
        policies: { p: { authorise: { basic: { file: users } } } }";
    let text = told_under(config, "GET", "http://a/", &[]);
    assert!(text.contains("needs a user name and a password"), "{text}");
    assert!(text.contains("401 Unauthorized (password)"), "{text}");
    let text = told_under(config, "GET", "http://a/", &["Authorization: Basic ZXZlOmdlaGVpbQ=="]);
    assert!(text.contains("has a password for `eve`"), "{text}");
    assert!(text.contains("204 No Content") && !text.contains("geheim"), "{text}");
}
