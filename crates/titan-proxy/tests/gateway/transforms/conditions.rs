//! What has to be true for something to be changed.

use super::{passes, under};
use crate::jwt::{PROVIDER, at, token};
use titan_testkit::{gateway, upstream};

// field: request_transform.when
#[test]
fn a_request_changes_where_the_condition_holds() {
    let cases = [
        ("request.method == 'GET'", true),
        ("request.method == 'POST'", false),
        ("request.path.startsWith('/shop/')", true),
        ("request.path.matches('^/shop/[0-9]+/')", false),
        ("request.headers['x-beta'] == 'yes'", true),
        ("has(request.headers.x_none)", false),
        ("'b' in request.query && request.query.b == ['2']", true),
        ("request.host == 'a.example'", true),
        ("client.address == '127.0.0.1'", true),
        // What cannot be told is not met.
        ("request.headers['x-none'] == ''", false),
        ("request.headers['x-beta'] != 'yes' || request.headers['x-none'] == ''", false),
    ];
    for (when, is_met) in cases {
        let transform = format!(
            "request: {{ when: \"{when}\", path: {{ regex: ^/shop/t, replace: /other }}, \
             query: {{ set: {{ c: '3' }} }}, headers: {{ set: {{ X-Set: '1' }} }} }}"
        );
        let sent = passes(&transform, "/shop/t/1?b=2", "X-Beta: yes\r\n");
        assert_eq!(sent.field("x-set").is_some(), is_met, "{when}");
        let target = if is_met { "/other/1?b=2&c=3" } else { "/shop/t/1?b=2" };
        assert_eq!(sent.target, target, "{when}");
    }
}

/// What a client can make an error of must not switch off what takes its fields out.
#[test]
fn a_request_whose_condition_cannot_be_evaluated_is_refused() {
    let many: String = (0..257).map(|number| format!("p{number}&")).collect();
    let cases = [
        ("!request.query.exists(name, name == 'debug')", "/shop/t/1?a", true),
        ("!request.query.exists(name, name == 'debug')", &format!("/shop/t/1?{many}"), false),
        ("int(request.query.v[0]) < 3", "/shop/t/1?v=1", true),
        ("int(request.query.v[0]) < 3", "/shop/t/1?v=x", false),
        ("size(request.query.v) < 3", "/shop/t/1?v=1", true),
        ("request.query.v[0]", "/shop/t/1?v=1", false),
    ];
    for (when, target, is_met) in cases {
        let transform = format!("request: {{ when: \"{when}\", headers: {{ remove: X-Role }} }}");
        let (gateway, upstream) = under(&transform, upstream::ok("x"));
        let response =
            gateway.asks(&format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Role: root\r\n\r\n"));
        match is_met {
            true => assert_eq!(upstream.request().field("x-role"), None, "{when}"),
            false => drop(response.has_problem(400, "bad-transform")),
        }
        assert_eq!(upstream.requests().is_empty(), !is_met, "{when}");
    }
    // What is not there is no error.
    for (when, target) in [
        ("request.query.v[0] == '1'", "/shop/t/1?a"),
        ("request.query.v[1] == '1'", "/shop/t/1?v=1"),
    ] {
        let transform = format!("request: {{ when: \"{when}\", headers: {{ remove: X-Role }} }}");
        assert_eq!(
            passes(&transform, target, "X-Role: a\r\n").field("x-role"),
            Some("a"),
            "{when}"
        );
    }
}

// field: response_transform.when
#[test]
fn a_response_changes_where_the_condition_holds() {
    let cases = [
        ("response.status == 404", true),
        ("response.status >= 500", false),
        ("request.method == 'GET' && response.status in [403, 404]", true),
        ("request.method == 'HEAD'", false),
        // The request as it was before it was changed.
        ("has(request.headers.x_set)", false),
        ("request.path == '/shop/t/1'", true),
        ("response.status == '404'", false),
    ];
    for (when, is_met) in cases {
        let transform = format!(
            "request: {{ path: {{ regex: ^/shop/t, replace: /other }}, headers: {{ set: {{ X-Set: '1' }} }} }}, \
             response: {{ when: \"{when}\", status: {{ 404: 410 }}, security: true, headers: {{ set: {{ X-Path: '{{path}}' }} }} }}"
        );
        let (gateway, _upstream) =
            under(&transform, "HTTP/1.1 404 Nowhere\r\nContent-Length: 1\r\n\r\nx");
        let response = gateway.get("/shop/t/1").has_status(if is_met { 410 } else { 404 });
        let path = response.field("x-path");
        assert_eq!(path, is_met.then_some("/shop/t/1"), "{when}");
        assert_eq!(response.field("x-frame-options").is_some(), is_met, "{when}");
    }
}

/// Of a request that did not come as far as the transform the status alone is known.
#[test]
fn a_response_to_a_request_that_was_refused_changes_by_its_status() {
    let text = |when: &str| {
        format!(
            "routes: [{{ prefix: /, respond: 200 }}]\napply: [t, p]\npolicies:\n  t: {{ jwt: {{ {PROVIDER} }} }}\n  \
             p: {{ transform: {{ response: {{ when: \"{when}\", status: {{ 401: 404 }} }} }} }}"
        )
    };
    let status = |when: &str| gateway(&text(when), &[]).get("/").status;
    assert_eq!(status("response.status == 401"), 404);
    assert_eq!(status("response.status == 200"), 401);
    assert_eq!(status("request.method == 'GET'"), 401);
    assert_eq!(status("request.method == 'GET' || response.status == 401"), 404);
    assert_eq!(status("!has(claims.sub)"), 401);
}

#[test]
fn claims_decide_too() {
    let text = format!(
        "routes: [{{ prefix: /, upstream: u }}]\napply: [t, p]\npolicies:\n  t: {{ jwt: {{ {PROVIDER} }} }}\n  \
         p: {{ transform: {{ request: {{ when: \"'beta' in claims.groups\", headers: {{ set: {{ X-Beta: '1' }} }} }}, \
         response: {{ when: \"'beta' in claims.groups\", headers: {{ set: {{ X-Was: beta }} }} }} }} }}"
    );
    let upstream = upstream::replies(upstream::ok("x"));
    let gateway = gateway(&text, &[&upstream]);
    for (groups, is_met) in [("[\"a\",\"beta\"]", true), ("[\"a\"]", false), ("7", false)] {
        let token = token(&format!("{{\"groups\":{groups},\"exp\":{}}}", at(60)));
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
        let response = gateway.asks(&request);
        if groups == "7" {
            response.has_problem(400, "bad-transform");
            continue;
        }
        let response = response.has_status(200);
        assert_eq!(response.field("x-was").is_some(), is_met, "{groups}");
        let sent = upstream.requests().pop().unwrap();
        assert_eq!(sent.field("x-beta").is_some(), is_met, "{groups}");
    }
}
