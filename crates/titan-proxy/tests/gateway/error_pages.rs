//! Pages in place of problem documents.

use titan_testkit::h2::Head;
use titan_testkit::upstream::ok_with;
use titan_testkit::{Gateway, Response, gateway, upstream};

const BROWSER: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

fn asks(gateway: &Gateway, path: &str, fields: &str) -> Response {
    gateway.asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

const TEXT: &str = "
error_pages: { 404: not here, 429: { body: slow down, content_type: text/plain }, 5xx: <h1>sorry</h1> }
policies: { few: { rate_limit: { rates: 1/h } } }
routes:
  - { path: /up, upstream: u }
  - { path: /few, respond: 204, apply: few }
  - { path: /respond, respond: { status: 404, body: mine } }
  - { path: /own, upstream: u, error_pages: { 502: own } }
  - { path: /post, methods: [POST], respond: 204 }
";

// field: file.error_pages, error_page.body, error_page.content_type
#[test]
fn failures_have_pages() {
    let upstream = upstream::replies("nonsense").then_closes();
    let gateway = gateway(TEXT, &[&upstream]);
    let page = asks(&gateway, "/none", BROWSER).has_status(404).has_body("not here");
    page.has_field("content-type", "text/html; charset=utf-8")
        .has_field("titan-problem", "no-route")
        .has_field("vary", "Accept");
    asks(&gateway, "/none", "").has_status(404).has_body("not here");
    asks(&gateway, "/up", BROWSER)
        .has_status(502)
        .has_body("<h1>sorry</h1>")
        .has_field("titan-problem", "malformed");
    asks(&gateway, "/few", "").has_status(204);
    let limited = asks(&gateway, "/few", "Accept: text/plain\r\n").has_status(429);
    let limited = limited.has_body("slow down").has_field("content-type", "text/plain");
    assert!(limited.field("retry-after").is_some());
    // What has no page has its document, and what is no failure of the gateway stays as it is.
    asks(&gateway, "/post", BROWSER).has_problem(405, "method-not-allowed").lacks("vary");
    asks(&gateway, "/respond", BROWSER).has_status(404).has_body("mine").lacks("titan-problem");
}

/// The document has it inside; a user who sees the page quotes it to an operator, who finds it in the logs.
#[test]
fn a_page_comes_with_the_id_of_its_request() {
    let trusts = "forwarding: { trusted_proxies: [127.0.0.1], request_id: X-Trace }";
    let gateway = gateway(&format!("{trusts}\n{TEXT}upstreams: {{ u: 'u:1' }}"), &[]);
    asks(&gateway, "/none", "X-Trace: abc-1\r\n").has_status(404).has_field("x-trace", "abc-1");
    let fresh = asks(&gateway, "/none", "").has_status(404);
    assert_eq!(fresh.field("x-trace").map(str::len), Some(32));
    let json = "X-Trace: abc-1\r\nAccept: application/json\r\n";
    asks(&gateway, "/none", json).has_problem(404, "no-route").has_field("x-trace", "abc-1");
}

// field: forwarding.respond_with_id
#[test]
fn each_response_has_the_id_of_its_request_in_place_of_the_upstreams() {
    let upstream = upstream::responds(|request| {
        ok_with(
            &format!(
                "X-Request-Id: own\r\nX-Was: {}\r\n",
                request.field("x-request-id").unwrap_or("-")
            ),
            "a",
        )
    });
    let text = "routes: [{ upstream: u }, { path: /own, respond: 204 }]\nupstreams: { u: $0 }";
    let answers = gateway(text, &[&upstream]);
    let response = answers.get("/");
    assert_eq!(response.field("x-request-id"), response.field("x-was"));
    assert_eq!(answers.get("/own").field("x-request-id").map(str::len), Some(32));
    let silent =
        gateway(&format!("forwarding: {{ respond_with_id: false }}\n{text}"), &[&upstream]);
    silent.get("/").has_field("x-request-id", "own");
    silent.get("/own").has_status(204).lacks("x-request-id");
}

#[test]
fn without_ids_a_page_has_none() {
    let text = format!("forwarding: {{ request_id: off }}\n{TEXT}upstreams: {{ u: 'u:1' }}");
    asks(&gateway(&text, &[]), "/none", "").has_status(404).lacks("x-request-id");
}

// field: route.error_pages
#[test]
fn a_route_has_pages_of_its_own() {
    let upstream = upstream::replies("nonsense").then_closes();
    let gateway = gateway(TEXT, &[&upstream]);
    asks(&gateway, "/own", BROWSER).has_status(502).has_body("own");
    asks(&gateway, "/up", BROWSER).has_status(502).has_body("<h1>sorry</h1>");
}

#[test]
fn programs_get_problem_documents() {
    let upstream = upstream::replies("nonsense").then_closes();
    let gateway = gateway(TEXT, &[&upstream]);
    for accept in
        ["application/json", "application/problem+json, */*;q=0.1", "application/json, */*"]
    {
        asks(&gateway, "/none", &format!("Accept: {accept}\r\n"))
            .has_problem(404, "no-route")
            .has_field("vary", "Accept")
            .lacks("titan-problem");
    }
}

/// Its fields say what a client takes as far as they could be read.
#[test]
fn what_a_malformed_request_takes_is_sent() {
    let gateway =
        gateway("routes: [{ prefix: /, respond: 204 }]\nerror_pages: { 4xx: sorry }", &[]);
    let refused = |lines: &str| gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    let unclear = "Content-Length: 1\r\nContent-Length: 2\r\n";
    refused(&format!("Accept: application/json\r\n{unclear}")).has_problem(400, "malformed");
    refused(&format!("Accept: text/plain\r\nAccept: application/json\r\n{unclear}"))
        .has_problem(400, "malformed");
    refused(&format!("{BROWSER}{unclear}")).has_status(400).has_body("sorry");
    for illegible in [unclear, ": x\r\n"] {
        refused(illegible).has_problem(400, "malformed");
    }
    gateway.asks("hello\r\n\r\n").has_problem(400, "malformed");
    let mut client = gateway.connects_h2();
    let stream = client.asks(&Head::get("/").with("x", "y".repeat(20_000)));
    client.response(stream).has_problem(431, "malformed");
}

#[test]
fn pages_go_over_http2_and_calls_get_their_status() {
    let upstream = upstream::replies("nonsense").then_closes();
    let gateway = gateway(TEXT, &[&upstream]);
    let mut client = gateway.connects_h2();
    client.get("/none").has_status(404).has_body("not here");
    let head = client.asks(&Head::request("HEAD", "/none"));
    client.response_head(head).has_status(404).has_field("content-length", "8");
    let call =
        Head::post("/none/C").with("content-type", "application/grpc").with("te", "trailers");
    let stream = client.starts(&call);
    client.response_head(stream).has_status(200).has_field("grpc-status", "12");
}

#[test]
fn an_upstreams_own_failures_stay() {
    let upstream = upstream::replies("HTTP/1.1 404 Nowhere\r\nContent-Length: 5\r\n\r\ntheir");
    let gateway = gateway(TEXT, &[&upstream]);
    asks(&gateway, "/up", BROWSER).has_status(404).has_body("their").lacks("titan-problem");
}
