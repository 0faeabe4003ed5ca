//! The beginning of bodies, which the recorder keeps where a route says so.

use crate::listeners::Folder;
use crate::recorder::{id, recorded};
use crate::tunnels::{CONSENT, WISH};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use titan_testkit::h2::{Frame, Head, block, reply};
use titan_testkit::upstream::{self, ok, ok_with};
use titan_testkit::{Gateway, Response, gateway, waits_until};

/// A route to an upstream that has that many bytes of bodies recorded.
fn recording(bytes: &str, rest: &str) -> String {
    format!("routes: [{{ upstream: u, record_bodies: {bytes} }}]\n{rest}")
}

/// What is kept of both bodies of the exchange with that response.
fn bodies(gateway: &Gateway, response: &Response) -> (Value, Value) {
    let record = recorded(gateway, &id(response));
    (record["request_body"].clone(), record["response_body"].clone())
}

/// The beginning of a body of so many bytes.
fn text(content: &str, bytes: usize) -> Value {
    json!({ "bytes": bytes, "kept": content.len(), "encoding": "text", "content": content })
}

fn whole(content: &str) -> Value {
    if content.is_empty() { Value::Null } else { text(content, content.len()) }
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

// field: route.record_bodies
#[test]
fn the_first_bytes_are_kept_where_a_route_says_so() {
    let upstream = upstream::replies(ok("hello, client"));
    let conf = "routes: [{ path: /some, upstream: u, record_bodies: 5B }, { path: /all, upstream: u, record_bodies: 4KiB }, \
        { path: /none, upstream: u }]\nupstreams: { u: $0 }";
    let gateway = gateway(conf, &[&upstream]);
    let asks = |path| gateway.asks(&post(path, "how are you")).has_body("hello, client");
    assert_eq!(bodies(&gateway, &asks("/some")), (text("how a", 11), text("hello", 13)));
    assert_eq!(bodies(&gateway, &asks("/all")), (whole("how are you"), whole("hello, client")));
    assert_eq!(bodies(&gateway, &asks("/none")), (Value::Null, Value::Null));
    assert!(upstream.requests().iter().all(|it| it.body == b"how are you"));
}

#[test]
fn a_body_is_kept_without_its_chunks() {
    let upstream = upstream::replies(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n",
    );
    let gateway = gateway(&recording("1KiB", ""), &[&upstream]);
    let mut client = gateway.connects();
    client.sends(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfgh\r\n2\r\nij\r\n0\r\n\r\n",
    );
    let response = client.response().has_body("abcde");
    assert_eq!(bodies(&gateway, &response), (whole("fghij"), whole("abcde")));
    assert!(upstream.request().is_chunked(), "what comes chunked goes on so");
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.response().has_body("abcde");
    assert_eq!(
        bodies(&gateway, &response),
        (whole(""), whole("abcde")),
        "and none of the first one"
    );
}

#[test]
fn bodies_of_http2_are_kept_like_others() {
    for protocol in ["h1", "h2"] {
        let upstream = match protocol {
            "h1" => upstream::responds(|request| ok(&request.text())),
            _ => upstream::responds_h2(|request| ok(&request.text())),
        };
        let conf = recording(
            "1KiB",
            &format!("upstreams: {{ u: {{ endpoints: $0, protocol: {protocol} }} }}"),
        );
        let gateway = gateway(&conf, &[&upstream]);
        let mut client = gateway.connects_h2();
        let stream = client.asks_with(&Head::post("/"), "a body");
        let response = client.response(stream).has_body("a body");
        assert_eq!(bodies(&gateway, &response), (whole("a body"), whole("a body")), "{protocol}");
    }
}

/// The message of a unary call comes with its head, and is held to be sent again.
#[test]
fn a_call_of_grpc_is_kept_and_made_again_as_ever() {
    let fields = "content-type: application/grpc\r\n";
    let first = upstream::replies_h2(ok_with(&format!("{fields}grpc-status: 14\r\n"), ""));
    let fine = upstream::replies_h2(ok_with(&format!("{fields}grpc-status: 0\r\n"), ""));
    let conf = "limits: { retry_body: 1KiB }
routes: [{ upstream: u, record_bodies: 1KiB, retries: { grpc: unavailable } }]
upstreams: { u: { endpoints: [$0, $1], protocol: h2 } }";
    let gateway = gateway(conf, &[&first, &fine]);
    let mut client = gateway.connects_h2();
    let head = Head::post("/").with("content-type", "application/grpc").with("te", "trailers");
    let (stream, sent) = (client.next_stream(), [0, 0, 0, 0, 2, 8, 1]);
    client.offers(&[Frame::headers(stream, block(&head), false), Frame::data(stream, sent, true)]);
    let response = client.response(stream).has_field("grpc-status", "0");
    let message = json!({ "bytes": 7, "kept": 7, "encoding": "base64", "content": "AAAAAAIIAQ==" });
    assert_eq!(bodies(&gateway, &response), (message, whole("")));
    assert_eq!((&*first.request().body, &*fine.request().body), (&sent[..], &sent[..]));
}

#[test]
fn messages_of_a_stream_are_kept_as_they_pass() {
    let upstream = upstream::listens();
    let conf = recording("1KiB", "upstreams: { u: { endpoints: $0, protocol: h2 } }");
    let gateway = gateway(&conf, &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.starts(&Head::post("/a.B/C").with("content-type", "application/grpc"));
    let mut endpoint = upstream.accepts_h2();
    let (up, _) = endpoint.request_head();
    endpoint.sends_head(up, &reply(200).with("content-type", "application/grpc"), false);
    let head = client.response_head(stream);
    // Each goes on at once, although more may come.
    for message in ["one", "two"] {
        client.sends_data(stream, message, false);
        assert_eq!(endpoint.takes_data(up, 3), message.as_bytes());
        endpoint.sends_data(up, message, false);
        assert_eq!(client.takes_data(stream, 3), message.as_bytes());
    }
    endpoint.sends_trailers(up, &Head::default().with("grpc-status", "0"));
    let (_, trailers) = client.takes_rest(stream);
    assert_eq!(trailers, [("grpc-status".to_owned(), "0".to_owned())]);
    assert_eq!(bodies(&gateway, &head), (whole("onetwo"), whole("onetwo")));
}

#[test]
fn bodies_larger_than_any_buffer_pass_whole() {
    const LARGE: usize = 4 << 20;
    let body = "0123456789abcdef".repeat(LARGE / 16);
    let upstream = upstream::responds(|request| ok(&request.text()));
    let gateway = gateway(&recording("4KiB", ""), &[&upstream]);
    let mut client = gateway.connects();
    for _ in 0..2 {
        client.sends(post("/", &body));
        let response = client.response().has_body(&body);
        let kept = text(&body[..4 << 10], LARGE);
        assert_eq!(bodies(&gateway, &response), (kept.clone(), kept));
    }
}

/// It is all at the socket when it is taken, from where the kernel could move it.
#[test]
fn a_body_that_comes_behind_its_head_is_kept() {
    const BYTES: usize = 512 << 10;
    let upstream = upstream::listens();
    let gateway = gateway(&recording("4KiB", "limits: { request_buffer: off }"), &[&upstream]);
    let body = "0123456789abcdef".repeat(BYTES / 16);
    let mut client = gateway.connects();
    client.sends(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n"));
    let mut endpoint = upstream.accepts();
    endpoint.head();
    client.sends(&body);
    endpoint.expects(&body);
    endpoint.sends(ok(""));
    let response = client.response().has_status(200);
    assert_eq!(bodies(&gateway, &response).0, text(&body[..4 << 10], BYTES));
}

#[test]
fn responses_of_the_gateway_are_kept() {
    let gateway = gateway(
        "routes: [{ path: /page, respond: { body: a page, content_type: text/plain }, record_bodies: 1KiB },
          { path: /none, respond: 204, record_bodies: 1KiB }, { path: /gone, respond: 204, record_bodies: 1KiB, apply: [p] }]
policies: { p: { maintenance: {} } }",
        &[],
    );
    let response = gateway.get("/page").has_body("a page");
    assert_eq!(bodies(&gateway, &response), (whole(""), whole("a page")));
    let response = gateway.asks(&post("/page", "unread"));
    assert_eq!(bodies(&gateway, &response), (whole(""), whole("a page")), "nothing reads it");
    let mut client = gateway.connects();
    client.sends("HEAD /page HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.response_to("HEAD");
    assert_eq!(bodies(&gateway, &response), (whole(""), whole("")));
    assert_eq!(bodies(&gateway, &gateway.get("/none").has_status(204)), (whole(""), whole("")));
    let problem = gateway.get("/gone").has_status(503);
    assert_eq!(bodies(&gateway, &problem), (whole(""), whole(&problem.text())));
    let mut client = gateway.connects_h2();
    let problem = client.get("/gone").has_status(503);
    assert_eq!(bodies(&gateway, &problem), (whole(""), whole(&problem.text())));
}

#[test]
fn files_are_kept() {
    let folder = Folder::new("recorded-bodies");
    let content = "line of a file\n".repeat(100_000);
    fs::write(folder.join("a.txt"), &content).expect("it is a file of this test");
    let root = folder.join("").display().to_string();
    let conf = format!("routes: [{{ prefix: /, files: {{ root: {root} }}, record_bodies: 20B }}]");
    let gateway = gateway(&conf, &[]);
    let response = gateway.get("/a.txt").has_body(&content);
    assert_eq!(bodies(&gateway, &response), (whole(""), text(&content[..20], content.len())));
    let missing = gateway.get("/b.txt").has_status(404);
    assert_eq!(bodies(&gateway, &missing).1, text(&missing.text()[..20], missing.body.len()));
}

#[test]
fn a_response_is_kept_before_it_is_compressed() {
    let page = "a page that can be compressed\n".repeat(100);
    let upstream = upstream::replies(ok_with("Content-Type: text/plain\r\n", &page));
    let conf = recording("4KiB", "policies: { p: { compress: {} } }\napply: [p]");
    let gateway = gateway(&conf, &[&upstream]);
    let response = gateway.asks("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    let mut read = String::new();
    let decoded = flate2::read::GzDecoder::new(&response.body[..]).read_to_string(&mut read);
    assert!(decoded.is_ok() && read == page);
    assert_eq!(bodies(&gateway, &response).1, whole(&page));
}

#[test]
fn a_request_is_kept_as_its_client_has_compressed_it() {
    let upstream = upstream::responds(|request| ok(&request.text()));
    let conf = recording("1KiB", "policies: { p: { compress: { requests: {} } } }\napply: [p]");
    let gateway = gateway(&conf, &[&upstream]);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"what was compressed").expect("memory takes it");
    let coded = encoder.finish().expect("memory takes it");
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        coded.len()
    );
    let mut client = gateway.connects();
    client.sends([head.as_bytes(), &coded].concat());
    let response = client.response().has_body("what was compressed");
    let (request, got) = bodies(&gateway, &response);
    assert_eq!((&request["encoding"], &request["bytes"]), (&json!("base64"), &json!(coded.len())));
    assert_eq!(got, whole("what was compressed"));
}

#[test]
fn a_body_that_is_sent_again_is_kept_once_with_the_response_that_the_client_gets() {
    let count = AtomicUsize::new(0);
    let upstream = upstream::responds(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy".to_vec(),
        _ => ok("again"),
    });
    let conf = "limits: { retry_body: 1KiB }\n\
        routes: [{ upstream: u, record_bodies: 1KiB, retries: { statuses: 503, methods: [POST] } }]";
    let gateway = gateway(conf, &[&upstream]);
    let response = gateway.asks(&post("/", "abc")).has_body("again");
    assert_eq!(bodies(&gateway, &response), (whole("abc"), whole("again")));
    assert!(
        upstream.requests().len() == 2 && upstream.requests().iter().all(|it| it.body == b"abc")
    );
}

#[test]
fn what_has_come_of_a_body_is_kept_where_no_more_comes() {
    let upstream = upstream::listens();
    let gateway = gateway(&recording("1KiB", ""), &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nX-Request-Id: mine\r\nContent-Length: 10\r\n\r\nabc");
    let head = client.head();
    let id = head.lines().find_map(|line| line.strip_prefix("X-Request-Id: ")).expect("it has one");
    client.expects("abc");
    endpoint.closes();
    let record = recorded(&gateway, id);
    assert_eq!((&record["response_body"], &record["complete"]), (&whole("abc"), &json!(false)));
}

#[test]
fn a_problem_is_kept_where_an_endpoint_sends_no_response() {
    let gateway = gateway(&recording("1KiB", ""), &[&upstream::refuses()]);
    let problem = gateway.asks(&post("/", "abc")).has_problem(502, "connect");
    assert_eq!(bodies(&gateway, &problem).1, whole(&problem.text()));
}

#[test]
fn nothing_is_kept_of_a_tunnel() {
    let upstream = upstream::listens();
    let gateway = gateway(&recording("1KiB", ""), &[&upstream]);
    let mut client = gateway.connects();
    client.sends(WISH);
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends(CONSENT);
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    client.sends("secret words");
    endpoint.expects("secret words");
    client.closes();
    endpoint.expects_close();
    endpoint.closes();
    let all = || gateway.status().recorder().find(&titan_observe::recorder::Filter::default(), 10);
    waits_until("both records", || all().records.len() == 2);
    for record in all().records {
        let (record, _) = titan_observe::record::Recorded::first_of(&record).expect("it is one");
        assert_eq!(record.body(titan_observe::record::BodyOf::Request), None);
    }
}

#[test]
fn what_is_refused_of_a_wish_for_a_tunnel_is_a_response() {
    let upstream = upstream::listens();
    let gateway = gateway(&recording("1KiB", ""), &[&upstream]);
    let mut client = gateway.connects();
    client.sends(WISH);
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends(ok("no"));
    let response = client.response().has_body("no");
    assert_eq!(bodies(&gateway, &response), (whole(""), whole("no")));
}

#[test]
fn bodies_are_in_no_access_log() {
    let folder = Folder::new("recorded-bodies-log");
    let file = folder.join("log").display().to_string();
    let upstream = upstream::replies(ok("hushhush"));
    let log = format!("access_log: {{ file: '{file}' }}");
    let gateway = gateway(&recording("1KiB", &log), &[&upstream]);
    let response = gateway.asks(&post("/", "hushhush")).has_body("hushhush");
    assert_eq!(bodies(&gateway, &response), (whole("hushhush"), whole("hushhush")));
    let mut lines = String::new();
    waits_until("the line", || {
        lines = fs::read_to_string(&file).unwrap_or_default();
        lines.ends_with('\n')
    });
    assert!(lines.contains(&id(&response)) && !lines.contains("hush"), "{lines}");
}

#[test]
fn what_is_recorded_follows_the_configuration() {
    let upstream = upstream::replies(ok("hello"));
    let gateway = gateway(&recording("0B", ""), &[&upstream]);
    let asks = || bodies(&gateway, &gateway.get("/")).1;
    assert_eq!(asks(), Value::Null);
    gateway.reloads(&recording("2B", ""), &[&upstream]).expect("it is valid");
    assert_eq!(asks(), text("he", 5));
    gateway.reloads(&recording("0B", ""), &[&upstream]).expect("it is valid");
    assert_eq!(asks(), Value::Null);
}
