//! Requests that fail on purpose.

use crate::listeners::Folder;
use titan_testkit::h2::{Head, code};
use titan_testkit::{Gateway, gateway, upstream};

/// The digests of `one` and `two`.
const KEYS: &str = "keys: { \
    tests: 7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed, \
    shop: 3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3 }";

fn under(fault: &str, upstream: &upstream::Upstream) -> Gateway {
    gateway(&format!("apply: p\npolicies: {{ p: {{ fault: {{ {fault} }} }} }}"), &[upstream])
}

// field: fault.truncate_after
#[test]
fn a_response_ends_in_the_middle_and_its_endpoint_is_not_to_blame() {
    let upstream = upstream::replies(upstream::ok("0123456789"));
    let gateway = under("truncate_after: 4B", &upstream);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-length: 10\r\n"), "{head}");
    assert!(b"0123".starts_with(&client.rest()));
    let mut client = gateway.connects_h2();
    let stream = client.asks(&Head::get("/"));
    assert_eq!(client.takes_data(stream, 4), b"0123");
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn responses_of_the_gateway_end_in_the_middle_too() {
    let text = "apply: p\npolicies: { p: { fault: { truncate_after: 4B } } }\nroutes:\n\
        \x20 - { path: /said, respond: { status: 200, body: '0123456789' } }\n\
        \x20 - { path: /short, respond: { status: 200, body: '0123' } }\n\
        \x20 - { prefix: /files, files: { root: $0 } }\n\
        \x20 - { prefix: /, upstream: u }\nupstreams: { u: $1 }";
    let folder = Folder::new("fault-files");
    std::fs::write(folder.join("page.txt"), "0123456789").expect("the folder is there");
    let gateway = gateway(text, &[&folder.join("").display(), &upstream::refuses()]);
    for (path, status) in [("/said", 200), ("/files/page.txt", 200), ("/nobody", 502)] {
        let mut client = gateway.connects();
        client.sends(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        let rest = client.rest();
        assert!(rest.len() <= 4, "{path}: {}", String::from_utf8_lossy(&rest));
        let mut client = gateway.connects_h2();
        let stream = client.asks(&Head::get(path));
        assert_eq!(client.takes_data(stream, 4).len(), 4);
        assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
    }
    gateway.get("/short").has_status(200).has_body("0123");
}

#[test]
fn a_shorter_response_stays_whole() {
    let upstream = upstream::replies(upstream::ok("0123"));
    let gateway = under("truncate_after: 4B", &upstream);
    gateway.get("/").has_status(200).has_body("0123");
}

#[test]
fn an_abort_shows_no_response() {
    let upstream = upstream::replies(upstream::ok("x"));
    let gateway = under("abort: true", &upstream);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.rest(), b"");
    let mut client = gateway.connects_h2();
    let stream = client.asks(&Head::get("/"));
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
    assert!(upstream.requests().is_empty());
}

#[test]
fn a_status_is_a_problem_or_the_status_of_a_call() {
    for (status, code) in [(429, "8"), (500, "13"), (502, "14"), (503, "14"), (504, "4")] {
        let upstream = upstream::replies(upstream::ok("x"));
        let gateway = under(&format!("status: {status}"), &upstream);
        gateway.get("/").has_problem(status, &format!("injected-{status}"));
        let mut client = gateway.connects_h2();
        let call = Head::post("/a.B/C").with("content-type", "application/grpc");
        let stream = client.starts(&call.with("te", "trailers"));
        client.response_head(stream).has_status(200).has_field("grpc-status", code);
        assert!(upstream.requests().is_empty());
    }
}

// field: fault.api_keys
#[test]
fn a_header_fails_requests_of_named_keys_and_reaches_no_upstream() {
    let upstream = upstream::replies(upstream::ok("x"));
    let text = format!(
        "apply: [keys, p]\npolicies:\n  keys: {{ authorise: {{ api_keys: {{ {KEYS} }} }} }}\n  \
         p: {{ fault: {{ status: 503, header: X-Fault, api_keys: [tests] }} }}"
    );
    let gateway = gateway(&text, &[&upstream]);
    let status =
        |fields: &str| gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).status;
    assert_eq!(status("X-API-Key: one\r\nX-Fault: 1\r\n"), 503);
    assert_eq!(status("X-API-Key: two\r\nX-Fault: 1\r\n"), 200);
    assert_eq!(status("X-API-Key: one\r\n"), 200);
    assert_eq!(status("X-Fault: 1\r\n"), 401);
    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request.field("x-fault").is_none()));
}

#[test]
fn what_fails_on_purpose_is_counted() {
    let upstream = upstream::replies(upstream::ok("x"));
    let gateway = under("status: 503, delay: 1ms", &upstream);
    for _ in 0..3 {
        gateway.get("/").has_status(503);
    }
    let metrics = gateway.metrics();
    let of = |fault| metrics.of_policies("titan_injected_faults_total", fault);
    assert_eq!(["delay", "status", "abort", "truncation"].map(of), [3, 3, 0, 0]);
}
