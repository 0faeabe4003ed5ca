//! Which route takes a request, and what routes do to it.

use titan_testkit::upstream::{self, ok};
use titan_testkit::{Upstream, gateway, waits_until};

/// The name of the route that serves each request, in a gateway whose routes respond with their own names.
#[track_caller]
fn each_goes_to(routes: &str, cases: &[(&str, &str)]) {
    let gateway = gateway(&format!("routes:\n{routes}"), &[]);
    for (request, route) in cases {
        let response = gateway.asks(&format!("{request}\r\n\r\n"));
        match *route {
            "404" => assert_eq!(response.problem(), "no-route", "{request}"),
            "405" => assert_eq!(response.problem(), "method-not-allowed", "{request}"),
            route => assert_eq!(response.text(), route, "{request}"),
        }
    }
}

// field: route.host
#[test]
fn the_host_decides_first() {
    each_goes_to(
        "- { host: a.example, prefix: /, respond: { body: exact } }
- { host: \"*.example\", path: /x, respond: { body: wildcard } }
- { host: \"*.b.example\", prefix: /, respond: { body: longer } }
- { host: [c.test, d.test], prefix: /, respond: { body: list } }
- { path: /x, respond: { body: any } }",
        &[
            ("GET /x HTTP/1.1\r\nHost: a.example", "exact"),
            ("GET /x HTTP/1.1\r\nHost: A.EXAMPLE:8080", "exact"),
            ("GET /x HTTP/1.1\r\nHost: z.example", "wildcard"),
            ("GET /x HTTP/1.1\r\nHost: z.b.example", "longer"),
            ("GET /x HTTP/1.1\r\nHost: d.test", "list"),
            ("GET /x HTTP/1.1\r\nHost: example", "any"),
            ("GET /x HTTP/1.0", "any"),
            ("GET http://a.example/x HTTP/1.1\r\nHost: a.example", "exact"),
            ("GET /y HTTP/1.1\r\nHost: nobody.test", "404"),
        ],
    );
}

// field: file.routes, route.path, route.prefix
#[test]
fn the_path_decides_segment_by_segment() {
    each_goes_to(
        "- { prefix: /, respond: { body: root } }
- { prefix: /api, respond: { body: api } }
- { path: /api/users, respond: { body: users } }
- { path: \"/api/{id}\", respond: { body: one } }
- { path: \"/files/{*rest}\", respond: { body: files } }",
        &[
            ("GET /api HTTP/1.1\r\nHost: a", "api"),
            ("GET /api/a/b HTTP/1.1\r\nHost: a", "api"),
            ("GET /apis HTTP/1.1\r\nHost: a", "root"),
            ("GET /api/users HTTP/1.1\r\nHost: a", "users"),
            ("GET /api/users/ HTTP/1.1\r\nHost: a", "api"),
            ("GET /api/7 HTTP/1.1\r\nHost: a", "one"),
            ("GET /files/a/b HTTP/1.1\r\nHost: a", "files"),
            ("GET /files/ HTTP/1.1\r\nHost: a", "files"),
            ("GET //api//users HTTP/1.1\r\nHost: a", "users"),
            ("GET /x/../api/./users HTTP/1.1\r\nHost: a", "users"),
            ("GET /%61pi/users?x HTTP/1.1\r\nHost: a", "users"),
        ],
    );
}

#[test]
fn options_of_a_bare_authority_is_for_the_server_and_not_for_its_root() {
    each_goes_to(
        "- { path: /, respond: { body: root } }
- { prefix: /, respond: { body: server } }",
        &[
            ("OPTIONS * HTTP/1.1\r\nHost: a", "server"),
            ("OPTIONS http://a HTTP/1.1\r\nHost: a", "server"),
            ("OPTIONS http://a/ HTTP/1.1\r\nHost: a", "root"),
            ("OPTIONS http://a? HTTP/1.1\r\nHost: a", "root"),
            ("GET http://a HTTP/1.1\r\nHost: a", "root"),
        ],
    );
}

// field: route.head
#[test]
fn get_takes_head_unless_a_route_says_otherwise() {
    let gateway = gateway(
        "routes:\n- { path: /with, methods: GET, respond: 204 }\n- { path: /without, methods: GET, head: false, respond: 204 }",
        &[],
    );
    for (path, status) in [("/with", 204), ("/without", 405)] {
        let mut client = gateway.connects();
        client.sends(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.response_to("HEAD").has_status(status);
        gateway.get(path).has_status(204);
    }
}

// field: route.methods, route.headers, route.query, route.priority, condition.present, condition.prefix
// field: condition.regex
#[test]
fn methods_and_conditions_choose_between_routes_of_one_path() {
    each_goes_to(
        "- { path: /m, methods: [GET, PUT], respond: { body: some } }
- { path: /n, methods: GET, respond: { body: get } }
- { path: /n, methods: POST, respond: { body: post } }
- { path: /g, methods: GET, head: false, respond: { body: get } }
- { path: /g, respond: { body: rest } }
- { path: /h, headers: { X-A: one }, respond: { body: exact } }
- { path: /h, headers: { X-A: { prefix: tw } }, priority: 1, respond: { body: begins } }
- { path: /h, headers: { X-A: { regex: '^t.*e$' } }, priority: 2, respond: { body: looks } }
- { path: /h, headers: { X-B: { present: true } }, priority: -1, respond: { body: there } }
- { path: /q, query: { v: '2' }, respond: { body: second } }
- { path: /q, query: { v: '2', w: { present: true } }, respond: { body: both } }
- { path: /q, respond: { body: none } }
- { path: /r, query: { d: { present: false } }, respond: { body: absent } }
- { path: /p, priority: 1, query: { a: { present: true } }, respond: { body: low } }
- { path: /p, priority: 2, query: { b: { present: true } }, respond: { body: high } }
- { path: /p, priority: -5, respond: { body: last } }",
        &[
            ("PUT /m HTTP/1.1\r\nHost: a", "some"),
            ("POST /m HTTP/1.1\r\nHost: a", "405"),
            ("POST /n HTTP/1.1\r\nHost: a", "post"),
            ("GET /g HTTP/1.1\r\nHost: a", "get"),
            ("PUT /g HTTP/1.1\r\nHost: a", "rest"),
            ("GET /h HTTP/1.1\r\nHost: a\r\nX-A: one", "exact"),
            ("GET /h HTTP/1.1\r\nHost: a\r\nx-a: two", "begins"),
            ("GET /h HTTP/1.1\r\nHost: a\r\nX-A: three", "looks"),
            ("GET /h HTTP/1.1\r\nHost: a\r\nX-A: zero\r\nX-A: one", "exact"),
            ("GET /h HTTP/1.1\r\nHost: a\r\nX-B:", "there"),
            ("GET /h HTTP/1.1\r\nHost: a\r\nX-A: One", "404"),
            ("GET /q?v=2 HTTP/1.1\r\nHost: a", "second"),
            ("GET /q?w&v=2 HTTP/1.1\r\nHost: a", "both"),
            ("GET /q?%76=%32 HTTP/1.1\r\nHost: a", "second"),
            ("GET /q?v=3 HTTP/1.1\r\nHost: a", "none"),
            ("GET /r?e HTTP/1.1\r\nHost: a", "absent"),
            ("GET /r?d HTTP/1.1\r\nHost: a", "404"),
            ("GET /p?a&b HTTP/1.1\r\nHost: a", "high"),
            ("GET /p?a HTTP/1.1\r\nHost: a", "low"),
            ("DELETE /p HTTP/1.1\r\nHost: a", "last"),
        ],
    );
}

#[test]
fn a_method_that_no_route_matches_gets_allow() {
    let text = "routes: [{ path: /m, methods: [GET, PUT], respond: 204 }, { path: /m, methods: PATCH, respond: 204 }]";
    let gateway = gateway(text, &[]);
    let response = gateway.asks("POST /m HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let allow = response.field("allow").expect("an Allow field").to_owned();
    let mut allow: Vec<_> = allow.split(", ").collect();
    allow.sort_unstable();
    assert_eq!(allow, ["GET", "HEAD", "PATCH", "PUT"]);
    assert_eq!(response.request_id().len(), 32);
    response.has_problem(405, "method-not-allowed");
    gateway.asks("HEAD /m HTTP/1.1\r\nHost: a\r\n\r\n").has_status(204);
}

#[test]
fn a_request_that_no_route_takes_keeps_its_connection() {
    let gateway = gateway("routes: [{ path: /a, respond: 204 }]", &[]);
    let mut client = gateway.connects();
    client.sends("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response().has_problem(404, "no-route").lacks("connection");
    client.response().has_status(204);
}

// field: route.respond, respond.status, respond.body, respond.content_type, respond.headers
#[test]
fn a_response_says_what_the_configuration_says() {
    let text = "routes:
- { path: /full, respond: { status: 418, body: \"<p>\", content_type: text/html, headers: { X-A: one, Cache-Control: no-store } } }
- { path: /plain, respond: { body: hi } }
- { path: /short, respond: 204 }";
    let gateway = gateway(text, &[]);
    let response = gateway.get("/full").has_status(418).has_field("content-type", "text/html");
    let response = response.has_field("x-a", "one").has_field("cache-control", "no-store");
    assert!(response.field("date").is_some());
    response.has_body("<p>");
    let response = gateway.get("/plain").has_status(200);
    response.has_field("content-type", "text/plain; charset=utf-8").has_body("hi");
    gateway.get("/short").has_status(204).lacks("content-length").lacks("content-type");
    let response = gateway.asks("HEAD /plain HTTP/1.1\r\nHost: a\r\n\r\n");
    response.has_status(200).has_field("content-length", "2");
}

// field: route.redirect, redirect.to, redirect.status
#[test]
fn a_redirect_leads_where_the_configuration_says() {
    let text = "routes:
- { path: /a, redirect: /b }
- { prefix: /old, redirect: { to: \"https://{host}{path}{query}\", status: 301 } }
- { path: \"/u/{id}\", redirect: { to: \"/users/{id}{query}\", status: 303 } }";
    let gateway = gateway(text, &[]);
    gateway.get("/a").has_status(308).has_field("location", "/b").has_body("");
    let response =
        gateway.asks("GET /old/x?y=z HTTP/1.1\r\nHost: a.example:80\r\n\r\n").has_status(301);
    let location = response.field("location").unwrap_or_default();
    assert!(
        location.starts_with("https://a.example") && location.ends_with("/old/x?y=z"),
        "{location}"
    );
    gateway.get("/u/7").has_status(303).has_field("location", "/users/7");
    gateway.get("/u/7?a").has_field("location", "/users/7?a");
}

/// The targets that reach the upstream, in a gateway with those routes to it.
#[track_caller]
fn reach(routes: &str, cases: &[(&str, &str)]) {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway(&format!("routes:\n{routes}"), &[&upstream]);
    for (sent, _) in cases {
        let response = gateway.get(sent);
        assert_eq!(response.status, 200, "{sent}: {}", response.text());
    }
    let targets: Vec<_> = upstream.requests().into_iter().map(|request| request.target).collect();
    let wanted: Vec<_> = cases.iter().map(|(_, received)| *received).collect();
    assert_eq!(targets, wanted);
}

// field: route.rewrite, rewrite.prefix, rewrite.path
#[test]
fn a_rewrite_changes_the_path_and_keeps_the_query() {
    reach(
        "- { prefix: /api, upstream: u, rewrite: { prefix: /v1 } }
- { prefix: /cut, upstream: u, rewrite: { prefix: / } }
- { path: \"/user/{id}/{*rest}\", upstream: u, rewrite: { path: \"/u/{rest}/of/{id}\" } }
- { path: /fixed, upstream: u, rewrite: { path: /other } }",
        &[
            ("/api/users?a=b", "/v1/users?a=b"),
            ("/api", "/v1"),
            ("/cut/x/y", "/x/y"),
            ("/cut", "/"),
            ("/user/7/a/b?q", "/u/a/b/of/7?q"),
            ("/fixed", "/other"),
        ],
    );
}

#[test]
fn the_upstream_sees_the_path_that_the_router_saw() {
    reach(
        "- { prefix: /, upstream: u }",
        &[
            ("/a//b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/%2e%2e/b", "/b"),
            ("/%7Ea%c3", "/~a%C3"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a/?b=/../c", "/a/?b=/../c"),
        ],
    );
}

#[test]
fn a_path_that_two_could_read_in_two_ways_is_refused() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway("", &[&upstream]);
    for path in [
        "/..",
        "/a/../..",
        "/..%2Fa",
        "/a%2F..%2Fb",
        "/..;x/a",
        "/..%3bx/a",
        "/a%5Cb",
        "/a\\b",
        "/%00",
        "/%0a",
        "/%zz",
        "/%",
    ] {
        let response = gateway.get(path);
        assert_eq!((response.status, response.problem().as_str()), (400, "bad-path"), "{path}");
    }
    assert_eq!(upstream.connections(), 0);
}

// field: route.send_host
#[test]
fn the_upstream_gets_the_host_that_the_route_says() {
    let upstream = upstream::replies(ok(""));
    let text = "routes:
- { path: /kept, upstream: u }
- { path: /preserve, upstream: u, send_host: preserve }
- { path: /endpoint, upstream: u, send_host: endpoint }
- { path: /fixed, upstream: u, send_host: internal.example:81 }";
    let gateway = gateway(text, &[&upstream]);
    let own = upstream.address().to_string();
    let cases = [
        ("/kept", "a"),
        ("/preserve", "a"),
        ("/endpoint", &own),
        ("/fixed", "internal.example:81"),
    ];
    for (index, (path, host)) in cases.into_iter().enumerate() {
        gateway.get(path).has_status(200);
        assert_eq!(upstream.requests()[index].field("host"), Some(host), "{path}");
    }
}

// field: route.upstream
#[test]
fn upstreams_get_their_shares() {
    let names = ["most", "some", "none"];
    let upstreams: Vec<Upstream> = names.iter().map(|name| upstream::replies(ok(name))).collect();
    let [a, b, c] = &upstreams[..] else { unreachable!("there are three") };
    let text = "routes: [{ prefix: /, upstream: { most: 3, some: 1, none: 0 } }]
upstreams: { most: $0, some: $1, none: $2 }";
    for workers in [1, 2] {
        let gateway = gateway(&format!("workers: {workers}\n{text}"), &[a, b, c]);
        let before = upstreams.iter().map(|it| it.requests().len()).collect::<Vec<_>>();
        for _ in 0..40 {
            gateway.get("/").has_status(200);
        }
        let counts = upstreams.iter().zip(before).map(|(it, before)| it.requests().len() - before);
        assert_eq!(counts.collect::<Vec<_>>(), [30, 10, 0], "{workers} workers");
    }
}

// field: route.name
#[test]
fn routes_are_counted_by_their_names() {
    let text = "routes: [{ name: first, path: /a, respond: 204 }, { name: second, path: /b, respond: 404 }]";
    let gateway = gateway(text, &[]);
    gateway.get("/b").has_status(404);
    let routes = gateway.status().routes();
    let names: Vec<_> = routes.iter().map(|route| route.name()).collect();
    assert_eq!(names, ["first", "second", "(none)"]);
    waits_until("one response of the 4xx", || routes[1].sum(|cells| cells.classes[4].get()) == 1);
    assert_eq!(routes[0].sum(|cells| cells.classes[2].get()), 0);
}

// field: file.paths, route.paths, paths.encoded_slashes, paths.parameters, paths.case
#[test]
fn look_alikes_of_paths_are_refused_where_the_file_says() {
    let upstream = upstream::replies(ok("open"));
    let gateway = |file: &str, route: &str| {
        let text = format!(
            "paths: {{ {file} }}\nroutes:\n  - {{ prefix: /admin, respond: 403 }}\n  \
             - {{ prefix: /, upstream: u, paths: {{ {route} }} }}"
        );
        gateway(&text, &[&upstream])
    };
    let all = [
        ("case", "/ADMIN", "path-case"),
        ("parameters", "/admin;x", "path-parameter"),
        ("encoded_slashes", "/admin%2fx", "encoded-slash"),
        ("encoded_slashes", "/%2Fadmin", "encoded-slash"),
    ];
    let lenient = gateway("", "");
    for (key, path, code) in all {
        lenient.get("/admin").has_status(403);
        lenient.get(path).has_body("open");
        let (refuse, keep) = (format!("{key}: refuse"), format!("{key}: keep"));
        for strict in [gateway(&refuse, ""), gateway("", &refuse), gateway(&keep, &refuse)] {
            strict.get(path).has_problem(400, code);
            strict.get("/Other/path").has_body("open");
        }
        gateway(&refuse, &keep).get(path).has_body("open");
    }
}
