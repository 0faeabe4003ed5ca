//! Requests with one of several credentials.

use crate::jwt::{PROVIDER, at, token};
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{Gateway, Response, gateway};

/// `printf %s one | sha256sum`.
const KEY: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
/// That of `secret`, as it can stand where `$0` is an upstream.
const HASH: &str = "\\x242b\\x2404\\x24abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
/// `eve:secret` and `eve:wrong`.
const EVE: &str = "Authorization: Basic ZXZlOnNlY3JldA==\r\n";
const WRONG: &str = "Authorization: Basic ZXZlOndyb25n\r\n";
const ONE: &str = "X-API-Key: one\r\n";

/// A gateway that takes one of these ways, with more in both policies, in front of an upstream.
fn takes(any_of: &str, jwt: &str, authorise: &str) -> (Gateway, Upstream) {
    let upstream = upstream::replies(ok("x"));
    let text = format!(
        "apply: [t, p]\npolicies:\n  t: {{ jwt: {{ {PROVIDER}, required: false, headers: {{ X-User: sub }}, {jwt} }} }}\n  \
         p: {{ authorise: {{ any_of: [{any_of}], api_keys: {{ keys: {{ shop: {KEY} }}, identity_header: X-Client }}, \
         basic: {{ users: {{ eve: \"{HASH}\" }}, identity_header: X-Name }}, {authorise} }} }}"
    );
    (gateway(&text, &[&upstream]), upstream)
}

fn asks(gateway: &Gateway, fields: &str) -> Response {
    gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

/// A token of `sub` with that scope, and how a request shows it.
fn bearer(scope: &str) -> String {
    let claims = format!("{{\"sub\":\"ann\",\"scope\":\"{scope}\",\"exp\":{}}}", at(60));
    format!("Authorization: Bearer {}\r\n", token(&claims))
}

/// What the upstream was told last: by the token, the key and the password; and whether it got any of them.
fn told(upstream: &Upstream) -> ([Option<String>; 3], bool) {
    let request = upstream.requests().pop().expect("it got one");
    let field = |name: &str| request.field(name).map(str::to_owned);
    let secrets = ["authorization", "x-api-key"].iter().any(|name| field(name).is_some());
    (["x-user", "x-client", "x-name"].map(field), secrets)
}

fn only(place: usize, name: &str) -> ([Option<String>; 3], bool) {
    let mut told = [None, None, None];
    told[place] = Some(name.to_owned());
    (told, false)
}

// field: authorise.any_of
#[test]
fn one_of_the_ways_is_enough() {
    let (gateway, upstream) = takes("token, api_keys, basic", "", "");
    for (fields, by) in
        [(bearer("a"), only(0, "ann")), (ONE.into(), only(1, "shop")), (EVE.into(), only(2, "eve"))]
    {
        asks(&gateway, &fields).has_body("x").lacks("www-authenticate");
        assert_eq!(told(&upstream), by, "{fields}");
    }
    for fields in ["", WRONG, "X-API-Key: two\r\n", "X-API-Key: one\r\nX-API-Key: one\r\n"] {
        let response = asks(&gateway, fields);
        assert_eq!(
            response.all("www-authenticate"),
            [
                "ApiKey realm=\"p\"",
                "Basic realm=\"gateway\", charset=\"UTF-8\"",
                "Bearer realm=\"gateway\""
            ],
            "{fields}"
        );
        response.has_problem(401, "credential");
    }
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn the_first_credential_that_is_met_identifies_the_client() {
    let (gateway, upstream) = takes("api_keys, token, basic", "", "");
    asks(&gateway, &format!("{ONE}{}", bearer("a"))).has_body("x");
    assert_eq!(told(&upstream), only(1, "shop"));
    asks(&gateway, &format!("{ONE}{EVE}")).has_body("x");
    assert_eq!(told(&upstream), only(1, "shop"));
    asks(&gateway, &format!("X-API-Key: two\r\n{}", bearer("a"))).has_body("x");
    assert_eq!(told(&upstream), only(0, "ann"));
    asks(&gateway, &format!("X-API-Key: two\r\n{EVE}")).has_body("x");
    assert_eq!(told(&upstream), only(2, "eve"));
}

#[test]
fn a_way_that_is_not_met_leaves_nothing_behind() {
    let rules =
        "scopes: write, tell_missing: true, rules: \"!has(claims.sub) || claims.scope == 'write'\"";
    let (gateway, upstream) = takes("token, api_keys, basic", "forward: true", rules);
    asks(&gateway, &format!("{ONE}{}", bearer("read"))).has_body("x");
    assert_eq!(told(&upstream), only(1, "shop"));
    let response = asks(&gateway, &bearer("read"));
    let challenges = response.all("www-authenticate");
    assert!(challenges.iter().any(|it| it.contains("scope=\"write\"")), "{challenges:?}");
    assert_eq!(challenges.len(), 3, "{challenges:?}");
    response.has_problem(403, "insufficient-scope");
    asks(&gateway, &bearer("write")).has_body("x");
    let request = upstream.requests().pop().expect("it got one");
    assert!(request.field("authorization").is_some_and(|it| it.starts_with("Bearer ")));
}

#[test]
fn an_invalid_token_is_refused_whatever_else_is_shown() {
    let (gateway, upstream) = takes("api_keys, token, basic", "", "");
    let bad = format!("{ONE}Authorization: Bearer a.b.c\r\n");
    let response = asks(&gateway, &bad);
    let challenges = response.all("www-authenticate");
    assert!(challenges.iter().any(|it| it.contains("invalid_token")), "{challenges:?}");
    assert_eq!(challenges.len(), 3, "{challenges:?}");
    response.has_problem(401, "token-invalid");
    assert_eq!(upstream.requests(), []);
}

/// Otherwise a client with a key could try passwords, and learn from the upstream which one is right.
#[test]
fn a_client_that_is_allowed_by_something_else_cannot_try_passwords_for_ever() {
    let text = format!(
        "apply: [t, p, f]\npolicies:\n  f: {{ failure_limit: {{ by_client: 2/h }} }}\n  \
         t: {{ jwt: {{ {PROVIDER}, required: false }} }}\n  \
         p: {{ authorise: {{ any_of: [token, basic, api_keys], api_keys: {{ keys: {{ shop: {KEY} }} }}, \
         basic: {{ users: {{ eve: \"{HASH}\" }} }} }} }}"
    );
    let statuses = |all: [&str; 4]| {
        let upstream = upstream::replies(ok("x"));
        let gateway = gateway(&text, &[&upstream]);
        all.map(|fields| asks(&gateway, fields).status)
    };
    let tries = format!("{ONE}{WRONG}");
    assert_eq!(statuses([&tries, &tries, &tries, ONE]), [200, 200, 429, 429]);
    assert_eq!(statuses([WRONG, "X-API-Key: two\r\n", ONE, ONE]), [401, 401, 429, 429]);
    assert_eq!(statuses(["", "", "", ONE]), [401, 401, 401, 200]);
    // After a valid token, keys are not checked.
    let both = format!("X-API-Key: two\r\n{}", bearer("a"));
    assert_eq!(statuses([&both, &both, &both, ONE]), [200; 4]);
}

/// What a request shows beside may be looked at first, or be why it is refused: a guess stays a guess.
#[test]
fn guesses_count_whatever_else_is_shown() {
    let low = bearer("low").replace("Authorization: Bearer ", "Cookie: t=");
    let statuses = |limit: &str, authorise: &str, guess: &str| {
        let text = format!(
            "apply: [t, p, f]\npolicies:\n  f: {{ failure_limit: {{ {limit}: 2/h }} }}\n  \
             t: {{ jwt: {{ {PROVIDER}, required: false, token: [{{ cookie: t }}] }} }}\n  \
             p: {{ authorise: {{ {authorise} }} }}"
        );
        let upstream = upstream::replies(ok("x"));
        let gateway = gateway(&text, &[&upstream]);
        [(); 3].map(|()| asks(&gateway, &format!("{low}{guess}")).status)
    };
    let users = format!("basic: {{ users: {{ eve: \"{HASH}\" }} }}");
    let keys = format!("api_keys: {{ keys: {{ shop: {KEY} }} }}");
    let key = "X-API-Key: two\r\n";
    let scopes = format!("any_of: [token, basic], scopes: admin, {users}");
    assert_eq!(statuses("by_client", &scopes, WRONG), [403, 403, 429]);
    assert_eq!(statuses("by_name", &scopes, WRONG), [403, 403, 429]);
    let scopes = format!("any_of: [token, api_keys], scopes: admin, {keys}");
    assert_eq!(statuses("by_client", &scopes, key), [403, 403, 429]);
    let rules = format!("any_of: [basic, token], rules: \"false\", {users}");
    assert_eq!(statuses("by_name", &rules, WRONG), [403, 403, 429]);
    let first = format!("any_of: [api_keys, token], {keys}");
    assert_eq!(statuses("by_client", &first, key), [200, 200, 429]);
    let both = format!("any_of: [api_keys, token], {keys}, {users}");
    let (right, wrong) = (format!("{key}{EVE}"), format!("{key}{WRONG}"));
    assert_eq!(statuses("by_client", &both, &right), [200, 200, 429]);
    assert_eq!(statuses("by_name", &both, &wrong), [401, 401, 429]);
}

#[test]
fn what_is_no_choice_has_to_be_met_besides() {
    let (gateway, _upstream) = takes("token, basic", "", "");
    asks(&gateway, &bearer("a")).has_problem(401, "api-key");
    asks(&gateway, &format!("{ONE}{}", bearer("a"))).has_body("x");
    asks(&gateway, &format!("{ONE}{EVE}")).has_body("x");
    asks(&gateway, ONE).has_problem(401, "credential");
}

#[test]
fn streams_and_calls_choose_too() {
    let (gateway, _upstream) = takes("token, api_keys, basic", "", "");
    let mut client = gateway.connects_h2();
    let stream = client.asks(&Head::get("/").with("x-api-key", "one"));
    client.response(stream).has_status(200);
    let call = Head::post("/a.B/C").with("content-type", "application/grpc").with("te", "trailers");
    let stream = client.asks(&call);
    client.response(stream).has_status(200).has_field("grpc-status", "16");
}
