//! Which requests are allowed at all.

use crate::jwt::{PROVIDER, at, token};
use crate::listeners::Folder;
use crate::tunnels::WISH;
use titan_testkit::h2::Head;
use titan_testkit::{Certificate, Gateway, Response, gateway, start_with, upstream, usual};

/// The keys `one` and `two`, by their hashes.
const KEYS: &str = "keys: {
    first: 7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed,
    second: 3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3 }";

fn under(authorise: &str, rest: &str) -> (Gateway, upstream::Upstream) {
    let upstream = upstream::replies(upstream::ok("x"));
    let text = format!("policies: {{ p: {{ authorise: {{ {authorise} }} }} }}\napply: [p]\n{rest}");
    (gateway(&text, &[&upstream]), upstream)
}

fn asks(gateway: &Gateway, target: &str, fields: &str) -> Response {
    gateway.asks(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

// field: policy.authorise, authorise.allow
#[test]
fn clients_of_these_networks_may_ask() {
    let trusted = "forwarding: { trusted_proxies: [127.0.0.1] }";
    let (gateway, _upstream) = under("allow: [192.0.2.0/24, 2001:db8::/32]", trusted);
    for (address, may) in [
        ("192.0.2.255", true),
        ("2001:db8:1::1", true),
        ("::ffff:192.0.2.1", true),
        ("192.0.3.1", false),
        ("2001:db9::1", false),
        ("192.0.2.1, 198.51.100.1", false),
        ("unknown", false),
    ] {
        let response = asks(&gateway, "/", &format!("X-Forwarded-For: {address}\r\n"));
        assert_eq!(response.status == 200, may, "{address}");
        if !may {
            response.has_problem(403, "address-refused").lacks("www-authenticate");
        }
    }
}

// field: authorise.deny
#[test]
fn clients_of_these_networks_may_not_ask() {
    let trusted = "forwarding: { trusted_proxies: [127.0.0.1] }";
    let (gateway, upstream) = under("allow: 192.0.2.0/24, deny: 192.0.2.7", trusted);
    asks(&gateway, "/", "X-Forwarded-For: 192.0.2.7\r\n").has_problem(403, "address-refused");
    asks(&gateway, "/", "X-Forwarded-For: 192.0.2.8\r\n").has_status(200);
    assert_eq!(upstream.requests().len(), 1);
    let (gateway, _upstream) = under("deny: 192.0.2.7", "");
    // What an untrusted peer says of its client does not count.
    asks(&gateway, "/", "X-Forwarded-For: 192.0.2.7\r\n").has_status(200);
}

#[test]
fn clients_without_an_address_are_in_no_list() {
    let folder = Folder::new("authorisations");
    let path = folder.join("socket");
    for list in ["allow: 0.0.0.0/0", "deny: 192.0.2.7"] {
        let listener = format!("listeners: ['unix:{}']", path.display());
        let (gateway, _upstream) = under(list, &listener);
        let mut client = gateway.connects_to_unix(&path);
        client
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .response()
            .has_problem(403, "address-refused");
    }
}

#[test]
fn a_client_whose_address_a_trusted_proxy_does_not_name_is_not_the_proxy() {
    for (field, lines) in [
        ("x_forwarded_for", ["X-Forwarded-For: unknown", "X-Forwarded-For: 127.0.0.1, x"]),
        ("forwarded", ["Forwarded: for=\"x, for=203.0.113.9", "Forwarded: for=unknown"]),
    ] {
        let trusted =
            format!("forwarding: {{ trusted_proxies: [127.0.0.1], trusted_field: {field} }}");
        for list in ["allow: 127.0.0.0/8", "deny: 192.0.2.7"] {
            let (gateway, _upstream) = under(list, &trusted);
            asks(&gateway, "/", "").has_status(200);
            for line in lines {
                let response = asks(&gateway, "/", &format!("{line}\r\n"));
                response.has_problem(403, "address-refused");
            }
        }
    }
}

// field: authorise.api_keys, api_keys.keys
#[test]
fn a_request_shows_a_key() {
    let (gateway, upstream) = under(&format!("api_keys: {{ {KEYS} }}"), "");
    for key in ["one", "two"] {
        let response = asks(&gateway, "/", &format!("x-api-KEY: {key}\r\nX-Other: 1\r\n"));
        response.has_status(200).lacks("www-authenticate");
    }
    for request in upstream.requests() {
        assert_eq!((request.field("x-api-key"), request.field("x-other")), (None, Some("1")));
    }
    for fields in [
        "",
        "X-API-Key: \r\n",
        "X-API-Key: three\r\n",
        "X-API-Key: One\r\n",
        "X-API-Key: one, two\r\n",
        "X-API-Key: one\r\nX-API-Key: one\r\n",
        "X-API-Key: one\r\nX-API-Key: three\r\n",
        "X_API_Key: one\r\n",
        "Authorization: one\r\n",
        "X-API-Key: 7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed\r\n",
        &format!("X-API-Key: {}\r\n", "o".repeat(600)),
    ] {
        asks(&gateway, "/?key=one", fields)
            .has_problem(401, "api-key")
            .has_field("www-authenticate", "ApiKey realm=\"p\"");
    }
    assert_eq!(upstream.requests().len(), 2);
}

// field: api_keys.file
#[test]
fn a_file_of_keys_is_read_again() {
    const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    const TWO: &str = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";
    let files = |text: &str| {
        let mut files = Certificate::files(&[("usual", usual())]);
        files.insert("keys".into(), text.as_bytes().to_vec());
        files
    };
    let text = format!(
        "apply: [p]\npolicies: {{ p: {{ authorise: {{ api_keys: \
         {{ file: keys, keys: {{ own: {ONE} }}, identity_header: X-Client }} }} }} }}"
    );
    let upstream = upstream::replies(upstream::ok("x"));
    let starts = |keys: &str| start_with(&text, &[&upstream], &files(keys));
    let gateway = starts(&format!("# ours\n\nshop: {TWO}\n")).unwrap_or_else(|it| panic!("{it}"));
    let status = |key: &str| asks(&gateway, "/", &format!("X-API-Key: {key}\r\n")).status;
    assert_eq!(["one", "two", "shop", TWO].map(status), [200, 200, 401, 401]);
    assert_eq!(upstream.requests()[1].field("x-client"), Some("shop"));
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for bad in ["shop", "shop:two", &format!(":{TWO}"), &format!("a:{ONE}"), &format!("a:{empty}")]
    {
        let error = gateway.rereads(&files(bad)).expect_err("it cannot be used");
        assert!(error.to_string().starts_with("keys cannot be used: "), "{error}");
        assert!(starts(bad).is_err());
        assert_eq!(status("two"), 200, "the old ones stay");
    }
    gateway.rereads(&files("# nobody\n")).expect("it can be used");
    assert_eq!(["one", "two"].map(status), [200, 401]);
}

// field: api_keys.header, api_keys.query
#[test]
fn a_key_stands_where_the_policy_says() {
    let keys = format!("api_keys: {{ header: Authorization, query: 'the key', {KEYS} }}");
    let (gateway, upstream) = under(&keys, "");
    asks(&gateway, "/?a=1&the%20key=%6fne&b=2", "").has_status(200);
    asks(&gateway, "/?the%20key=two", "").has_status(200);
    asks(&gateway, "/?a", "Authorization: one\r\n").has_status(200);
    let targets: Vec<_> = upstream.requests().iter().map(|it| it.target.clone()).collect();
    assert_eq!(targets, ["/?a=1&b=2", "/", "/?a"]);
    assert!(upstream.requests().iter().all(|it| it.field("authorization").is_none()));
    for (target, fields) in [
        ("/?the%20key=one&the%20key=one", ""),
        ("/?the%20key=one", "Authorization: one\r\n"),
        ("/?the%20key", ""),
        ("/", "X-API-Key: one\r\n"),
    ] {
        asks(&gateway, target, fields).has_problem(401, "api-key");
    }
}

// field: api_keys.identity_header
#[test]
fn an_upstream_gets_the_name_of_the_key() {
    let (gateway, upstream) =
        under(&format!("api_keys: {{ identity_header: X-Client, {KEYS} }}"), "");
    asks(&gateway, "/", "X-API-Key: two\r\nX-Client: first\r\nx_client: first\r\n").has_status(200);
    let request = upstream.requests().remove(0);
    assert_eq!(request.field("x-client"), Some("second"));
    assert_eq!(request.field("x_client"), None);
}

#[test]
fn no_client_forges_the_name_of_a_key() {
    let upstream = upstream::replies(upstream::ok("x"));
    let text = format!(
        "policies: {{ p: {{ authorise: {{ api_keys: {{ identity_header: X-Client, {KEYS} }} }} }} }}\nroutes:
  - {{ prefix: /, upstream: u, apply: [p] }}
  - {{ prefix: /open, upstream: u }}
  - {{ prefix: /open, headers: {{ X-Client: first }}, respond: 204 }}"
    );
    let gateway = gateway(&text, &[&upstream]);
    for claim in ["X-Client: first\r\n", "x_client: first\r\n"] {
        // Neither does a route believe it.
        asks(&gateway, "/open", claim).has_status(200);
        let request = upstream.requests().pop().unwrap();
        assert_eq!((request.field("x-client"), request.field("x_client")), (None, None));
    }
}

#[test]
fn a_limit_counts_by_key() {
    let upstream = upstream::replies(upstream::ok("x"));
    let text = format!(
        "policies: {{ p: {{ authorise: {{ api_keys: {{ {KEYS} }} }} }},\n  \
         l: {{ rate_limit: {{ rates: 1/h, key: api_key }} }} }}\napply: [p, l]"
    );
    let gateway = gateway(&text, &[&upstream]);
    let status = |key: &str| asks(&gateway, "/", &format!("X-API-Key: {key}\r\n")).status;
    let statuses = ["one", "two", "one", "three", "three"].map(status);
    assert_eq!(statuses, [200, 200, 429, 401, 401]);
}

/// A gateway that verifies tokens, with these fields of an authorisation.
fn with_tokens(authorise: &str) -> (Gateway, upstream::Upstream) {
    let upstream = upstream::replies(upstream::ok("x"));
    let text = format!(
        "policies:\n  t: {{ jwt: {{ {PROVIDER} }} }}\n  p: {{ authorise: {{ {authorise} }} }}\napply: [t, p]"
    );
    (gateway(&text, &[&upstream]), upstream)
}

/// The response to a request whose token makes these claims.
fn claims(gateway: &Gateway, claims: &str) -> Response {
    let token = token(&format!("{{\"exp\":{},{claims}}}", at(60)));
    asks(gateway, "/", &format!("Authorization: Bearer {token}\r\n"))
}

// field: authorise.scopes, authorise.roles, granted.all, granted.any, granted.claim
#[test]
fn a_token_has_to_grant_scopes_and_roles() {
    let rules =
        "scopes: [read, write], roles: { any: [admin, owner], all: staff, claim: /realm/roles }";
    let (gateway, upstream) = with_tokens(rules);
    for (scope, roles, may) in [
        ("read write", "[\"admin\",\"staff\"]", true),
        ("write x read", "\"staff owner\"", true),
        ("read", "[\"admin\",\"staff\"]", false),
        ("read write", "[\"staff\"]", false),
        ("read write", "[\"admin\"]", false),
    ] {
        let said = format!("\"scope\":\"{scope}\",\"realm\":{{\"roles\":{roles}}}");
        let response = claims(&gateway, &said);
        assert_eq!(response.status == 200, may, "{said}");
        if !may {
            let challenge = "Bearer realm=\"gateway\", error=\"insufficient_scope\"";
            let response = response.has_problem(403, "insufficient-scope");
            let response = response.has_field("www-authenticate", challenge);
            assert!(!String::from_utf8_lossy(&response.body).contains("missing"), "{said}");
        }
    }
    asks(&gateway, "/", "").has_problem(401, "token-missing");
    assert_eq!(upstream.requests().len(), 2);
}

// field: authorise.claims, claim_rule.equals, claim_rule.any, claim_rule.all, claim_rule.none, claim_rule.only
#[test]
fn a_token_must_grant_what_the_policy_requires() {
    let rules = "claims: { tenant: acme, /address/country: [AT, DE], groups: { all: [a], none: [z], only: [a, b] } }";
    let (gateway, upstream) = with_tokens(rules);
    for (tenant, country, groups, may) in [
        ("\"acme\"", "\"DE\"", "[\"b\",\"a\"]", true),
        ("\"acme2\"", "\"DE\"", "[\"a\"]", false),
        ("[\"acme\"]", "\"DE\"", "[\"a\"]", false),
        ("\"acme\"", "\"FR\"", "[\"a\"]", false),
        ("\"acme\"", "\"AT\"", "[\"b\"]", false),
        ("\"acme\"", "\"AT\"", "[\"a\",\"c\"]", false),
    ] {
        let said = format!(
            "\"tenant\":{tenant},\"address\":{{\"country\":{country}}},\"groups\":{groups}"
        );
        assert_eq!(claims(&gateway, &said).status == 200, may, "{said}");
    }
    assert_eq!(upstream.requests().len(), 1);
    // One that only one part of the rule refuses.
    let (gateway, _upstream) = with_tokens("claims: { groups: { none: [z] } }");
    claims(&gateway, "\"groups\":[\"a\",\"z\"]").has_problem(403, "insufficient-scope");
    claims(&gateway, "\"groups\":[\"a\"]").has_status(200);
}

// field: authorise.tell_missing
#[test]
fn a_client_learns_what_is_missing_where_it_may() {
    let rules = "scopes: { all: [a, b], any: [c, d] }, roles: e, claims: { tenant: acme }, tell_missing: true";
    let (gateway, _upstream) = with_tokens(rules);
    let response = claims(&gateway, "\"scope\":\"a\"");
    let told = "\"missing\":[\"scope b\",\"one of the scopes c, d\",\"role e\",\"claim tenant\"]";
    assert!(String::from_utf8_lossy(&response.body).contains(told), "{response:?}");
    response.has_problem(403, "insufficient-scope").has_field(
        "www-authenticate",
        "Bearer realm=\"gateway\", error=\"insufficient_scope\", scope=\"a b c d\"",
    );
}

// field: authorise.rules
#[test]
fn a_request_meets_every_rule() {
    let rules = "rules: [\"request.method == 'GET' && !('debug' in request.query)\", \
        \"client.address == '127.0.0.1' && request.headers['x-tenant'] == claims.tenant\"]";
    let (gateway, upstream) = with_tokens(rules);
    let token = token(&format!("{{\"exp\":{},\"tenant\":\"acme\"}}", at(60)));
    let asks = |target: &str, fields: &str| {
        asks(&gateway, target, &format!("Authorization: Bearer {token}\r\n{fields}"))
    };
    asks("/a?b=c", "X-Tenant: acme\r\n").has_status(200);
    for (target, fields) in [
        ("/a", ""),
        ("/a", "X-Tenant: other\r\n"),
        ("/a", "X-Tenant: acme\r\nX-Tenant: acme\r\n"),
        ("/a?%64ebug=1", "X-Tenant: acme\r\n"),
    ] {
        asks(target, fields).has_problem(403, "rule-refused").lacks("www-authenticate");
    }
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn tunnels_and_calls_need_scopes_too() {
    for (authorise, code) in [
        ("scopes: a", "insufficient-scope"),
        ("claims: { tenant: acme }", "insufficient-scope"),
        ("rules: claims.tenant == 'acme'", "rule-refused"),
        ("deny: 127.0.0.0/8", "address-refused"),
    ] {
        tunnels_and_calls_are_refused(authorise, code);
    }
}

fn tunnels_and_calls_are_refused(authorise: &str, code: &str) {
    let (gateway, upstream) = with_tokens(authorise);
    let bearer = format!("Bearer {}", token(&format!("{{\"exp\":{}}}", at(60))));
    let options = WISH.replacen("\r\n\r\n", &format!("\r\nAuthorization: {bearer}\r\n\r\n"), 1);
    gateway.asks(&options).has_problem(403, code);
    let mut client = gateway.connects_h2();
    let call = Head::post("/a.B/C").with("content-type", "application/grpc");
    let stream = client.starts(&call.with("te", "trailers").with("authorization", &bearer));
    let response = client.response_head(stream).has_status(200).has_field("grpc-status", "7");
    assert!(response.field("grpc-message").is_some_and(|it| it.contains(&format!("({code}"))));
    assert!(upstream.requests().is_empty());
}

#[test]
fn tunnels_and_calls_need_a_key_too() {
    let (gateway, upstream) = under(&format!("api_keys: {{ {KEYS} }}"), "");
    gateway.asks(WISH).has_problem(401, "api-key");
    let mut client = gateway.connects_h2();
    let call = Head::post("/a.B/C").with("content-type", "application/grpc").with("te", "trailers");
    let stream = client.starts(&call);
    let response = client.response_head(stream).has_status(200).has_field("grpc-status", "16");
    assert!(response.field("grpc-message").unwrap().contains("(api-key"));
    assert!(upstream.requests().is_empty());
}
