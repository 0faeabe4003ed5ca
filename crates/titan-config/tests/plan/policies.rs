//! What policies do no longer, and how far requests get.

use crate::{assert_weaker, plan, weaker};

const USERS: &str =
    "users: { jwt: { providers: { algorithms: RS256, keys: { jwks: a.json } }, leeway: 30s } }, ";

/// A gateway with a policy `p` on all routes, and one for tokens.
fn with_policy(of: &str) -> String {
    format!("apply: [users, p]\npolicies: {{ {USERS}p: {{ {of} }} }}")
}

/// One in which that policy is gone.
fn without_policy() -> String {
    format!("apply: users\npolicies: {{ {USERS} }}").replace("}, }", "} }")
}

#[test]
fn plans_of_a_rate_limit_are_compared_with_the_rates_that_hold_without_them() {
    let limit = |plans: &str| {
        let plans = if plans.is_empty() {
            String::new()
        } else {
            format!(", plans: {{ claim: plan, rates: {{ {plans} }} }}")
        };
        with_policy(&format!("rate_limit: {{ rates: 10/s{plans} }}"))
    };
    assert_weaker([
        (
            limit(""),
            limit("gold: 100000/s"),
            "p: rate_limit.plans.rates.gold: + [{ rate: \"100000/s\" }]",
        ),
        (
            limit("free: 5/s"),
            limit("free: 5/s, gold: 100000/s"),
            "p: rate_limit.plans.rates.gold: + ",
        ),
        (limit("free: 5/s"), limit(""), "p: rate_limit.plans.rates.free: - [{ rate: \"5/s\" }]"),
        (limit("free: 5/s, gold: 20/s"), limit("gold: 20/s"), "p: rate_limit.plans.rates.free: - "),
        (
            limit("free: 5/s"),
            limit("free: 6/s"),
            "p: rate_limit.plans.rates.free: [{ rate: \"5/s\" }] -> ",
        ),
        (
            limit("free: 5/s"),
            limit("free: 5/s").replace("claim: plan", "claim: tier"),
            "p: rate_limit.plans.claim: plan -> tier",
        ),
    ]);
    for (old, new) in [
        (limit(""), limit("free: 5/s")),
        (limit("gold: 20/s"), limit("")),
        (limit("gold: 20/s"), limit("gold: 10/s")),
    ] {
        assert_eq!(weaker(&old, &new), Vec::<String>::new(), "{old}\n{new}");
        assert!(!plan(&old, &new).is_empty());
    }
}

#[test]
fn a_field_that_clients_can_write_again_is_weaker() {
    let hash = "0".repeat(64);
    let keys = |of: &str| {
        with_policy(&format!("authorise: {{ api_keys: {{ {of}keys: {{ k: {hash} }} }} }}"))
    };
    let password = "$2b$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234";
    let basic = |of: &str| {
        with_policy(&format!("authorise: {{ basic: {{ {of}users: {{ u: \"{password}\" }} }} }}"))
            .replace("[users, p]", "p")
    };
    let asks =
        |of: &str| with_policy(&format!("authorise: {{ forward_auth: {{ upstream: a{of} }} }}"));
    let jwt =
        |of: &str| with_policy("transform: {}").replace("leeway: 30s", &format!("leeway: 30s{of}"));
    let opened = "clients can send X-User themselves: only the gateway could before";
    assert_weaker([
        (jwt(", headers: { X-User: sub }"), jwt(""), opened),
        (
            jwt(", headers: { X-User: sub }"),
            jwt(", headers: { X-User: email }"),
            "users: jwt.headers.X-User: sub -> email",
        ),
        (keys("identity_header: X-User, "), keys(""), opened),
        (basic("identity_header: X-User, "), basic(""), opened),
        (asks(", upstream_headers: [X-User]"), asks(""), opened),
        // The policy itself is on no route, and still removed the field on all of them.
        (
            jwt(", headers: { X-User: sub }").replace("apply: [users, p]", ""),
            jwt("").replace("apply: [users, p]", ""),
            opened,
        ),
        (
            "forwarding: { x_real_ip: true }".to_owned(),
            String::new(),
            "forwarding.x_real_ip: true -> false",
        ),
    ]);
    assert_eq!(weaker(&jwt(""), &jwt(", headers: { X-User: sub }")), Vec::<String>::new());
}

#[test]
fn what_a_transform_does_no_longer_is_weaker() {
    let request = |of: &str| with_policy(&format!("transform: {{ request: {{ {of} }} }}"));
    let response = |of: &str| with_policy(&format!("transform: {{ response: {{ {of} }} }}"));
    let headers = |of: &str| response(&format!("headers: {{ {of} }}"));
    let csp = "Content-Security-Policy: \"default-src 'none'\"";
    assert_weaker([
        (
            request("headers: { remove: X-A }"),
            without_policy(),
            "r: `p` applies no more: request.headers.remove: - X-A",
        ),
        (
            response("security: true"),
            without_policy(),
            "r: `p` applies no more: response.security: true -> false",
        ),
        (
            request("headers: { remove: X-A }"),
            request("headers: { remove: X-A }, when: \"false\""),
            "p: transform.request.when: + ",
        ),
        (
            request("headers: { set: { X-A: a, X-B: b } }"),
            request("headers: { set: { X-B: b } }"),
            "p: transform.request.headers.set.X-A: - a",
        ),
        (
            request("headers: { set: { X-A: a } }"),
            request("headers: { set: { X-A: b } }"),
            "p: transform.request.headers.set.X-A: a -> b",
        ),
        (
            request("query: { set: { a: b } }"),
            request("query: { remove: c }"),
            "p: transform.request.query.set.a: - b",
        ),
        (
            request("headers: { remove: X-A }"),
            request("headers: { remove: X-A, rename: { X-B: X-A } }"),
            "p: transform.request.headers.rename.X-B: + X-A",
        ),
        (
            request("headers: { remove: X-A }"),
            request("headers: { remove: X-A, append: { X-A: a } }"),
            "p: transform.request.headers.append.X-A: + a",
        ),
        (
            request("path: { regex: ^/a, replace: /b }"),
            request("path: { regex: ^/a, replace: /c }"),
            "p: transform.request.path[].replace: /b -> /c",
        ),
        (
            headers(&format!("set: {{ {csp} }}")),
            headers("set: { X-B: b }"),
            "p: transform.response.headers.set.Content-Security-Policy: - ",
        ),
        (
            headers(&format!("set_if_absent: {{ {csp} }}")),
            headers(""),
            "p: transform.response.headers.set_if_absent.Content-Security-Policy: - ",
        ),
        (
            headers(""),
            headers("remove: X-Frame-Options"),
            "p: transform.response.headers.remove: + X-Frame-Options",
        ),
        (
            response("cookies: [{ names: a, secure: true }, { names: b, secure: true }]"),
            response("cookies: [{ names: a, secure: true }]"),
            "p: transform.response.cookies: - ",
        ),
        (
            response("cookies: { secure: true }"),
            response("cookies: { names: a, secure: true }"),
            "p: transform.response.cookies[].names: + [a]",
        ),
        (response(""), response("cookies: { secure: false }"), "p: transform.response.cookies: + "),
        (
            with_policy("compress: { requests: {} }"),
            without_policy(),
            "r: `p` applies no more: requests: - {}",
        ),
        (
            with_policy("compress: { requests: {} }"),
            with_policy("compress: {}"),
            "p: compress.requests: - {}",
        ),
        (
            "routes: [{ name: r, respond: { status: 200, headers: { X-Frame-Options: DENY } } }]"
                .to_owned(),
            "routes: [{ name: r, respond: 200 }]".to_owned(),
            "r: respond.headers.X-Frame-Options: - DENY",
        ),
    ]);
    for (old, new) in [
        (without_policy(), request("headers: { remove: X-A, set: { X-B: b } }")),
        (without_policy(), response("security: true, cookies: { secure: true }")),
        (headers("set: { X-B: b }"), headers("set: { X-B: c }")),
        (headers(""), headers(&format!("set_if_absent: {{ {csp} }}"))),
        (
            response("cookies: { names: a, secure: true }"),
            response("cookies: [{ names: a, secure: true }, { names: b, secure: true }]"),
        ),
        (with_policy("compress: { except: /a, padding: 1KiB }"), without_policy()),
    ] {
        assert_eq!(weaker(&old, &new), Vec::<String>::new(), "{old}\n{new}");
    }
}

#[test]
fn what_stands_for_others_than_before_is_weaker() {
    let limit = |key: &str| with_policy(&format!("rate_limit: {{ rates: 10/s, key: {key} }}"));
    let scopes = |of: &str| with_policy(&format!("authorise: {{ scopes: {{ all: a{of} }} }}"));
    let audience =
        |of: &str| with_policy("transform: {}").replace("RS256,", &format!("RS256,{of}"));
    let cached = |key: &str| {
        with_policy(&format!(
            "authorise: {{ forward_auth: {{ upstream: a, request_headers: {key}, \
             cache: {{ ttl: 1s, key: [{{ header: {key} }}] }} }} }}"
        ))
    };
    let tls = |of: &str| format!("upstreams: {{ a: {{ endpoints: a:1, tls: {of} }} }}");
    assert_weaker([
        (
            limit("[{ claim: sub }]"),
            limit("[{ claim: jti }]"),
            "p: rate_limit.key[].claim: sub -> jti",
        ),
        (
            limit("[{ header: X-A }]"),
            limit("[{ header: X-B }]"),
            "p: rate_limit.key[].header: X-A -> X-B",
        ),
        (scopes(""), scopes(", claim: scp"), "p: authorise.scopes.claim: + scp"),
        (audience(""), audience(" audience: b,"), "users: jwt.providers[].audience: + [b]"),
        (
            audience(" audience: b,"),
            audience(" audience: [b, c],"),
            "users: jwt.providers[].audience: + c",
        ),
        (audience(" audience: b,"), audience(""), "users: jwt.providers[].audience: - [b]"),
        (cached("A"), cached("B"), "p: authorise.forward_auth.cache.key[].header: A -> B"),
        (tls("on"), tls("{ ca: c.pem }"), "a: tls.ca: + c.pem"),
        (tls("on"), tls("{ name: b.example }"), "a: tls.name: + b.example"),
    ]);
    assert_eq!(
        weaker(&audience(" audience: [b, c],"), &audience(" audience: b,")),
        Vec::<String>::new()
    );
}

#[test]
fn requests_that_get_further_than_before_are_weaker() {
    let two =
        |of: &str| format!("routes: [{{ name: r, upstream: a }}, {{ name: q, prefix: /q, {of} }}]");
    let one = || "routes: [{ name: r, upstream: a }]".to_owned();
    let closed = |of: &str| with_policy(&format!("maintenance: {{ {of} }}"));
    let tls = "listeners: [{ address: \":443\", tls: { certificates: { cert: a, key: b }, client_certificates: { ca: c } } }]\n";
    let asks = |of: &str| format!("{tls}routes: [{{ name: r, upstream: a{of} }}]");
    assert_weaker([
        (two("respond: 503"), one(), "r: requests were refused before"),
        (
            two("respond: 403"),
            two("redirect: \"https://a.example/\""),
            "q: requests were refused before",
        ),
        (two("redirect: \"https://a.example/\""), one(), "r: requests were redirected before"),
        (two("respond: 200"), one(), "r: the gateway itself responded before"),
        (two("upstream: a"), two("upstream: a, rewrite: { prefix: /b }"), "q: rewrite: + "),
        (closed(""), closed("allow: 0.0.0.0/0"), "p: maintenance.allow: + 0.0.0.0/0"),
        (closed(""), closed("enabled: false"), "p: maintenance.enabled: true -> false"),
        (closed(""), without_policy(), "r: no `maintenance` applies any more; it was `p`"),
        (
            asks(", client_certificate: present"),
            asks(", client_certificate: absent"),
            "r: client_certificate: present -> absent",
        ),
        (
            asks(", client_certificate: { dns: a.example }"),
            asks(", client_certificate: present"),
            "r: client_certificate: ",
        ),
        (asks(", client_certificate: present"), asks(""), "r: client_certificate: - present"),
        (asks(", listeners: \":443\""), asks(""), "r: listeners: - [\":443\"]"),
    ]);
    assert_eq!(weaker(&asks(""), &asks(", listeners: \":443\"")), Vec::<String>::new());
    assert_eq!(weaker(&closed("enabled: false"), &without_policy()), Vec::<String>::new());
    assert_eq!(
        weaker(
            &asks(", client_certificate: present"),
            &asks(", client_certificate: { dns: a.example }")
        ),
        Vec::<String>::new()
    );
}
