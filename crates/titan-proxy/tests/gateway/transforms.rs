//! What is changed in requests and responses on the way.

mod conditions;

use crate::jwt;
use titan_testkit::{Gateway, Request, Response, gateway, h2, upstream};

/// A gateway with that transform on its way to an upstream that responds so.
fn under(transform: &str, response: impl Into<Vec<u8>>) -> (Gateway, upstream::Upstream) {
    let text = format!(
        "{}
routes:
  - {{ name: shop, path: '/shop/{{tenant}}/{{*rest}}', upstream: u, apply: [p] }}
  - {{ prefix: /, upstream: u, apply: [q] }}
policies:
  p: {{ transform: {{ {transform} }} }}
  q: {{ transform: {{}} }}",
        crate::QUIET
    );
    let upstream = upstream::replies(response);
    (gateway(&text, &[&upstream]), upstream)
}

/// What the upstream gets of a request with those fields.
fn passes(transform: &str, target: &str, fields: &str) -> Request {
    let (gateway, upstream) = under(transform, upstream::ok("x"));
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.example:80\r\n{fields}\r\n");
    gateway.asks(&request).has_status(200);
    upstream.requests().remove(0)
}

/// What the client gets of a response with those fields.
fn returns(transform: &str, fields: &str) -> Response {
    let (gateway, _upstream) = under(transform, upstream::ok_with(fields, "x"));
    gateway.get("/shop/t/1")
}

// field: policy.transform, transform.request, request_transform.headers, request_headers.remove
// field: request_headers.rename, request_headers.set, request_headers.append
#[test]
fn fields_of_requests_change_in_order() {
    let transform = "request: { headers: {
      remove: [x-secret],
      rename: { X-Old: X-New },
      set: { X-Tenant: '{tenant}', X-From: '{method} {scheme} {client} {route}', x-copy: '{header:x-secret}', X-None: '{header:x-none}' },
      append: { X-List: '{path}{query}', X-Plain: '{{plain}}' } } }";
    let fields = "X-Secret: 1\r\nx-secret: 2\r\nX-New: forged\r\nx-old: a\r\nX-OLD: b\r\nX-Tenant: forged\r\n\
        x-none: \r\nX-List: first\r\nX-Other: stays\r\n";
    let request = passes(transform, "/shop/t%20t/a/b?q=1", fields);
    assert_eq!(request.all("x-secret"), [""; 0]);
    assert_eq!((request.all("x-old"), request.all("x-new")), (vec![], vec!["a", "b"]));
    assert_eq!(request.all("x-tenant"), ["t%20t"]);
    // Every test runs a second time with TLS towards clients.
    let from = request.all("x-from").remove(0).replace(" https ", " http ");
    assert_eq!(from, "GET http 127.0.0.1 shop");
    assert_eq!(request.all("x-copy"), ["1"]);
    assert_eq!(request.all("x-none"), [""; 0]);
    assert_eq!(request.all("x-list"), ["first", "/shop/t%20t/a/b?q=1"]);
    assert_eq!(request.all("x-plain"), ["{plain}"]);
    assert_eq!(request.all("x-other"), ["stays"]);
    assert_eq!(request.all("host"), ["a.example:80"]);
}

#[test]
fn no_field_of_a_client_passes_for_one_that_is_set() {
    let transform = "request: { headers: { remove: [x-secret], rename: { X-Old: X-New },
      set: { X-Tenant: '{tenant}' }, append: { X-List: b } } }";
    let fields = "X_Secret: 1\r\nx_tenant: forged\r\nX.Tenant: forged\r\nX~Tenant: forged\r\nX_New: forged\r\nX_Old: a\r\nX-Old: b\r\n\
        X_List: a\r\nX_Other: stays\r\n";
    let request = passes(transform, "/shop/t/1", fields);
    for gone in ["x_secret", "x_tenant", "x.tenant", "x~tenant", "x_new", "x_old", "x_list"] {
        assert_eq!(request.all(gone), [""; 0], "{gone}");
    }
    assert_eq!((request.all("x-tenant"), request.all("x-new")), (vec!["t"], vec!["b"]));
    assert_eq!((request.all("x-list"), request.all("x_other")), (vec!["b"], vec!["stays"]));
}

// field: request_transform.query, query_changes.remove, query_changes.rename, query_changes.set, query_changes.append
#[test]
fn parameters_of_the_query_change() {
    let transform = "request: { query: {
      remove: [admin], rename: { old: 'new name' }, set: { tenant: '{tenant}', h: '{header:x-h}' },
      append: { id: 'a b&c', p: '{param:q}' } } }";
    let query = "a=1&adm%69n=1&admin&old=x%20y&q=%2Bz+&tenant=forged&new%20name=forged&b";
    let request = passes(transform, &format!("/shop/t/1?{query}"), "X-H: 1&admin=1\r\n");
    let made = "a=1&new%20name=x%20y&q=%2Bz+&b&tenant=t&h=1%26admin%3D1&id=a%20b%26c&p=%2Bz+";
    assert_eq!(request.target, format!("/shop/t/1?{made}"));
    let bare = passes("request: { query: { remove: [a] } }", "/shop/t/1?a=1", "");
    assert_eq!(bare.target, "/shop/t/1");
}

// field: request_transform.path, path_rule.regex, path_rule.replace
#[test]
fn a_path_is_made_of_what_an_expression_captures() {
    let rules = "request: { path: [
      { regex: '^/shop/(?<who>[a-z]+)/v([0-9]+)/', replace: '/api/{2}/{who}/' },
      { regex: '^/shop/up/.*$', replace: '/x/../../y' },
      { regex: 'nothing', replace: '/never' },
      { regex: 'b+', replace: '{0}c' } ] }";
    let target = |path: &str| passes(rules, path, "").target;
    assert_eq!(target("/shop/me/v2/items?q=1"), "/api/2/me/items?q=1");
    assert_eq!(target("/shop/t/abbb/b"), "/shop/t/abbbc/b");
    assert_eq!(target("/shop/t/a"), "/shop/t/a");
    let (gateway, upstream) = under(rules, upstream::ok("x"));
    gateway.get("/shop/up/1").has_problem(400, "bad-rewrite");
    assert_eq!(upstream.requests(), []);
}

#[test]
fn a_redirect_leads_to_what_a_rule_makes_and_keeps_what_was_captured() {
    let text = "routes: [{ path: '/a/{id}', redirect: '{path}?id={id}', apply: [p] }]
policies: { p: { transform: { request: { path: { regex: '^/a/', replace: '/somewhere/else/' } } } } }";
    let gateway = gateway(text, &[]);
    gateway.get("/a/17").has_field("location", "/somewhere/else/17?id=17");
}

// field: transform.response, response_transform.headers, response_headers.remove, response_headers.rename
// field: response_headers.set, response_headers.append
#[test]
fn fields_of_responses_change_in_order() {
    let transform = "response: { headers: {
      remove: [x-powered-by], rename: { X-Old: X-New }, set: { X-Who: '{tenant} {header:x-a}', X-Empty: '{header:x-none}' },
      append: { Vary: X-Who, Cache-Control: no-store } } }";
    let fields =
        "X-Powered-By: 1\r\nX-Old: a\r\nX-New: b\r\nX-Empty: 1\r\nCache-Control: private\r\n";
    let (gateway, _upstream) = under(transform, upstream::ok_with(fields, "x"));
    let response = gateway.asks("GET /shop/t/1 HTTP/1.1\r\nHost: a\r\nX-A: 2\r\n\r\n");
    assert_eq!(response.all("cache-control"), ["private", "no-store"]);
    response
        .lacks("x-powered-by")
        .lacks("x-old")
        .lacks("x-empty")
        .has_field("x-new", "a")
        .has_field("x-who", "t 2")
        .has_field("vary", "X-Who")
        .has_body("x");
}

// field: request_headers.set_if_absent, response_headers.set_if_absent, query_changes.set_if_absent
#[test]
fn what_is_not_there_is_given() {
    let transform = "request: { headers: { remove: [x-gone], rename: { x-old: x-new },
        set_if_absent: { X-Mine: '{tenant}', X-Gone: again, X-New: b, X-None: '{header:x-none}' } },
      query: { remove: [gone], set: { s: 1 }, set_if_absent: { a: x, 'b c': '{tenant}', gone: again, s: 2 } } },
      response: { headers: { append: { X-List: a }, set_if_absent: { Cache-Control: no-store, X-List: b, X-A: '{tenant}' } } }";
    let fields = "x-mine: theirs\r\nx-gone: 1\r\nx-old: a\r\n";
    let request = passes(transform, "/shop/t/1?a=1&gone=1", fields);
    assert_eq!((request.all("x-mine"), request.all("x-gone")), (vec!["theirs"], vec!["again"]));
    assert_eq!((request.all("x-new"), request.all("x-none")), (vec!["a"], vec![]));
    assert_eq!(request.target, "/shop/t/1?a=1&s=1&b%20c=t&gone=again");
    let request = passes(transform, "/shop/t/1?b%20c=&%61", "");
    assert_eq!((request.all("x-mine"), request.all("x-new")), (vec!["t"], vec!["b"]));
    assert_eq!(request.target, "/shop/t/1?b%20c=&%61&s=1&gone=again");
    returns(transform, "Cache-Control: private\r\n")
        .has_field("cache-control", "private")
        .has_field("x-list", "a")
        .has_field("x-a", "t");
    returns(transform, "X-A: theirs\r\n")
        .has_field("cache-control", "no-store")
        .has_field("x-a", "theirs");
}

// field: request_transform.replace, response_transform.replace, value_rule.regex, value_rule.replace
#[test]
fn an_expression_makes_other_values() {
    let transform = "request: { headers: { set: { X-Made: 'v2 {tenant}' } }, replace: {
        X-Version: { regex: '^v(?<major>[0-9]+)[.]([0-9]+)', replace: '{2} of {major}' },
        X-Made: { regex: '[0-9]', replace: '{0}{0}' }, X-Gone: { regex: '.*', replace: '' } } },
      response: { replace: { Location: { regex: '^http://[^/]*', replace: 'https://{{a}}' } } }";
    let fields = "x-version: v1.7-beta\r\nX-Version: 3\r\nX_Version: v1.7\r\nx-gone: a\r\n";
    let request = passes(transform, "/shop/t/1", fields);
    assert_eq!(request.all("x-version"), ["7 of 1-beta", "3"]);
    assert_eq!((request.all("x-made"), request.all("x-gone")), (vec!["v22 t"], vec![]));
    assert_eq!(request.all("x_version"), [""; 0]);
    returns(transform, "Location: http://internal:80/b\r\n").has_field("location", "https://{a}/b");
    returns(transform, "Location: /b\r\n").has_field("location", "/b");
    let bomb = format!(
        "response: {{ replace: {{ X-A: {{ regex: '.*', replace: '{}' }} }} }}",
        "{0}".repeat(100)
    );
    returns(&bomb, "X-A: ab\r\n").has_field("x-a", &"ab".repeat(100));
    returns(&bomb, &format!("X-A: {}\r\n", "a".repeat(1000))).has_status(200).lacks("x-a");
}

// field: response_transform.cookies, cookie_rule.names, cookie_rule.secure, cookie_rule.http_only
// field: cookie_rule.same_site, cookie_rule.path, cookie_rule.domain
#[test]
fn cookies_get_other_attributes() {
    let transform = "response: { headers: { append: { Set-Cookie: 'made=1' } }, cookies: [
      { names: [sid, made], secure: true, http_only: true, same_site: strict, path: /shop, domain: a.example },
      { names: open, secure: false, http_only: false, same_site: lax },
      { domain: host, same_site: none, secure: true }] }";
    let fields = "Set-Cookie: sid=a=\"b\"; path=/; Max-Age=5;domain=b.example; SECURE;samesite = None\r\n\
        Set-Cookie: open=1; Secure; HttpOnly; Path=/x\r\n\
        Set-Cookie: other=; Domain=.b.example; ; Expires=Wed, 21 Oct 2037 07:28:00 GMT; X\r\n";
    assert_eq!(
        returns(transform, fields).all("set-cookie"),
        [
            "sid=a=\"b\"; Max-Age=5; Path=/shop; Domain=a.example; Secure; HttpOnly; SameSite=Strict",
            "open=1; Path=/x; SameSite=Lax",
            "other=; Expires=Wed, 21 Oct 2037 07:28:00 GMT; X; Secure; SameSite=None",
            "made=1; Path=/shop; Domain=a.example; Secure; HttpOnly; SameSite=Strict",
        ]
    );
    let named = "response: { cookies: { names: sid, secure: true } }";
    let fields = "Set-Cookie: SID=1;path=/\r\nSet-Cookie: sid=1\r\n";
    assert_eq!(returns(named, fields).all("set-cookie"), ["SID=1;path=/", "sid=1; Secure"]);
}

// field: response_transform.status
#[test]
fn a_status_gives_way_to_another() {
    let transform = "response: { status: { 404: 403, 502: 503 } }";
    let (gateway, _upstream) =
        under(transform, "HTTP/1.1 404 Nowhere\r\nContent-Length: 1\r\n\r\nx");
    let mut client = gateway.connects();
    client.sends("GET /shop/t/1 HTTP/1.1\r\nHost: a\r\n\r\n").expects("HTTP/1.1 403 Forbidden\r\n");
    let (gateway, upstream) = under(transform, "nonsense");
    gateway.get("/shop/t/1").has_status(503);
    assert_eq!(upstream.requests().len(), 2, "what is no HTTP is retried");
    gateway.get("/other").has_status(502);
}

#[test]
fn what_belongs_to_a_status_goes_with_it() {
    let text = "routes:
  - { path: /key, respond: 200, apply: [keys, p] }
  - { path: /often, respond: 200, apply: [often, p] }
  - { path: /get, methods: [GET], respond: 200, apply: [p] }
  - { path: /away, redirect: 'https://a.example/', apply: [p] }
  - { path: /up, upstream: u, apply: [p] }
  - { path: /own, upstream: u, apply: [own] }
policies:
  keys: { authorise: { api_keys: { keys: { k: 7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed } } } }
  often: { rate_limit: { rates: 1/h } }
  p: { transform: { response: { status: { 401: 404, 308: 410, 429: 420, 503: 429 } } } }
  own: { transform: { response: { status: { 503: 404 }, headers: { set: { Retry-After: '7' } } } } }";
    let response = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nAllow: GET\r\n\
        Location: /\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n";
    let upstream = upstream::replies(response);
    let gateway = gateway(text, &[&upstream]);
    let document = gateway.get("/key").lacks("www-authenticate").has_problem(404, "api-key");
    assert!(document.text().contains("\"title\":\"Not Found\""), "{}", document.text());
    gateway.get("/often").has_status(200);
    gateway.get("/often").lacks("retry-after").has_problem(420, "rate-limited");
    gateway.get("/away").has_status(410).lacks("location");
    gateway
        .get("/up")
        .has_status(429)
        .has_field("retry-after", "5")
        .lacks("allow")
        .lacks("location")
        .lacks("www-authenticate");
    gateway.get("/own").has_status(404).has_field("retry-after", "7");
}

// field: response_transform.security
#[test]
fn browsers_are_made_careful() {
    let transform = "response: { security: true, headers: {
      remove: [x-permitted-cross-domain-policies], set: { Referrer-Policy: no-referrer } } }";
    returns(transform, "X-Frame-Options: SAMEORIGIN\r\n")
        .has_field("x-content-type-options", "nosniff")
        .has_field("x-frame-options", "SAMEORIGIN")
        .has_field("content-security-policy", "frame-ancestors 'none'")
        .has_field("referrer-policy", "no-referrer")
        .has_field("cross-origin-opener-policy", "same-origin")
        .has_field("cross-origin-resource-policy", "same-origin")
        .has_field("permissions-policy", "camera=(), geolocation=(), microphone=()")
        .lacks("x-permitted-cross-domain-policies");
}

#[test]
fn the_gateways_own_responses_change_too() {
    let text = "policies: { p: { transform: { response: { security: true, headers: { set: { X-A: '{path}' } } } } } }
routes: [{ path: /a, respond: 200, apply: [p] }, { path: /b, upstream: u, apply: [p], retries: 0 }]";
    let closed = upstream::listens();
    let address = closed.address();
    drop(closed);
    let gateway = gateway(text, &[&address]);
    gateway.get("/a").has_field("x-a", "/a").has_field("x-frame-options", "DENY");
    gateway.get("/b").has_field("x-a", "/b").has_problem(502, "connect");
}

#[test]
fn a_value_that_grows_beyond_reason_is_refused() {
    let value = "{header:x-a}".repeat(8);
    let transform = format!("request: {{ headers: {{ set: {{ x-b: '{value}' }} }} }}");
    let (gateway, upstream) = under(&transform, upstream::ok("x"));
    let field = "a".repeat(3000);
    let request = format!("GET /shop/t/1 HTTP/1.1\r\nHost: a\r\nX-A: {field}\r\n\r\n");
    gateway.asks(&request).has_problem(400, "bad-transform");
    assert_eq!(upstream.requests(), []);
}

#[test]
fn all_protocols_are_changed_alike() {
    let transform = "request: { headers: { set: { X-Tenant: '{tenant}' } } }, response: { headers: { set: { X-Who: '{tenant}' } } }";
    let (gateway, upstream) = under(transform, upstream::ok("x"));
    let mut client = gateway.connects_h2();
    let stream = client.asks(&h2::Head::get("/shop/t/1").with("x-tenant", "forged"));
    client.response(stream).has_field("x-who", "t");
    assert_eq!(upstream.requests()[0].all("x-tenant"), ["t"]);
}

#[test]
fn values_say_what_the_token_says() {
    let upstream = upstream::replies(upstream::ok("x"));
    let text = format!(
        "policies:
  t: {{ jwt: {{ {} }} }}
  p: {{ transform: {{ request: {{ headers: {{ set: {{ X-Who: '{{claim:sub}}@{{claim:/org/name}}', X-No: '{{claim:none}}' }} }} }} }} }}
apply: [t, p]",
        jwt::PROVIDER
    );
    let gateway = gateway(&text, &[&upstream]);
    let asks = |name: &str| {
        let expires = jwt::at(60);
        let claims =
            format!("{{\"sub\":\"ann\",\"org\":{{\"name\":\"{name}\"}},\"exp\":{expires}}}");
        let token = jwt::token(&claims);
        let forged = "X-Who: forged\r\nX-No: forged\r\n";
        gateway.asks(&format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{forged}Authorization: Bearer {token}\r\n\r\n"
        ))
    };
    asks("acme").has_status(200);
    let request = upstream.requests().remove(0);
    assert_eq!((request.all("x-who"), request.all("x-no")), (vec!["ann@acme"], vec![]));
    // What no field could hold is nothing.
    asks("a\\r\\nX-Admin: 1").has_status(200);
    let request = upstream.requests().remove(1);
    assert_eq!((request.all("x-who"), request.all("x-admin")), (vec!["ann@"], vec![]));
}

// field: respond.template
#[test]
fn a_body_is_made_of_the_request_and_no_value_leaves_its_place() {
    let conf = r#"
routes:
  - path: /json/{name}
    respond: { content_type: application/json, template: '{{"name":"{name}","agent":"{header:x-a}"}}' }
  - { path: /html, respond: { content_type: text/html, template: '<p title="{header:x-a}">{param:q}</p>' } }
  - { path: /text, respond: { status: 404, template: 'no {method} {path}{{}}' } }
  - { path: /plain, respond: { body: '{method}' } }
"#;
    let gateway = gateway(conf, &[]);
    let get = |path: &str| {
        let evil = "X-A: \",\"b\":\"<script>\\\r\n";
        gateway.asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{evil}\r\n"))
    };
    get("/json/me")
        .has_field("content-type", "application/json")
        .has_body(r#"{"name":"me","agent":"\",\"b\":\"\u003cscript\u003e\\"}"#);
    get("/html?q=a'b")
        .has_body("<p title=\"&#34;,&#34;b&#34;:&#34;&#60;script&#62;\\\">a&#39;b</p>");
    get("/text").has_status(404).has_body("no GET /text{}");
    get("/plain").has_body("{method}");
}
