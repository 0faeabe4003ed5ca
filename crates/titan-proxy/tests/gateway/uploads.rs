//! When the body of a request begins to go to an endpoint.

use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{Gateway, gateway};

/// A gateway that waits for 4 KiB of a body, and its endpoint.
fn buffering(text: &str) -> (Gateway, Upstream) {
    let upstream = upstream::replies(ok("x"));
    let text = format!("limits: {{ request_buffer: 4KiB }}\n{text}");
    (gateway(&text, &[&upstream]), upstream)
}

// field: limits.request_buffer
#[test]
fn an_endpoint_is_asked_when_enough_of_the_body_has_come() {
    let length = |length: usize| {
        format!("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
    };
    let cases = [
        ("nothing of a small body", length(5), String::new(), "12345".to_owned()),
        ("not all of a small body", length(5), "1234".to_owned(), "5".to_owned()),
        ("too little of a large body", length(9000), "x".repeat(4095), "x".repeat(4905)),
    ];
    // An endpoint that takes one connection would keep the others waiting.
    let (gateway, upstream) = buffering("upstreams: { u: { endpoints: $0, max_connections: 1 } }");
    for (name, head, first, rest) in cases {
        let before = upstream.requests().len();
        let mut slow = gateway.connects();
        slow.sends(head).sends(first);
        for _ in 0..5 {
            gateway.get("/fast").has_status(200);
        }
        assert_eq!(upstream.requests().len(), before + 5, "{name}");
        slow.sends(rest).response().has_status(200).has_body("x");
        assert_eq!(
            upstream.requests().last().map(|it| it.target.clone()).as_deref(),
            Some("/slow")
        );
    }
}

#[test]
fn over_http2_an_endpoint_is_asked_when_enough_of_the_body_has_come() {
    let (gateway, upstream) = buffering("");
    let mut client = gateway.connects_h2();
    let slow = client.starts(&Head::post("/slow").with("content-length", "5"));
    client.sends_data(slow, "1234", false);
    client.get("/fast").has_status(200);
    assert_eq!(upstream.requests().len(), 1);
    client.sends_data(slow, "5", true);
    client.response(slow).has_status(200);
}

#[test]
fn streams_that_wait_for_their_bodies_leave_each_other_a_window() {
    let upstream = upstream::replies(ok("x"));
    let text = "limits: { request_buffer: 128KiB, connection_window: 64KiB, stream_window: 64KiB, streams: 4 }";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects_h2();
    let head = Head::post("/").with("content-length", "60000");
    let streams: Vec<u32> = (0..4).map(|_| client.starts(&head)).collect();
    // A quarter of the window each: no stream could send more if all of them waited for a whole body.
    for &stream in &streams {
        client.sends_data(stream, "x".repeat(16 << 10), false);
    }
    for &stream in &streams {
        client.sends_data(stream, "x".repeat(60_000 - (16 << 10)), true);
        client.response(stream).has_status(200);
    }
}

#[test]
fn a_stream_brings_no_more_than_its_window() {
    let upstream = upstream::replies(ok("x"));
    let text = "limits: { request_buffer: 128KiB, stream_window: 64KiB, connection_window: 64MiB }";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.starts(&Head::post("/").with("content-length", "100000"));
    client.sends_data(stream, "x".repeat(100_000), true);
    client.response(stream).has_status(200);
}

#[test]
fn a_client_may_send_nothing_before_it_has_the_head_of_the_response() {
    let upstream = upstream::listens();
    let gateway = gateway("limits: { request_buffer: 16KiB }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
    assert!(client.head().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn a_client_that_waits_for_leave_gets_it_from_the_endpoint() {
    let upstream = upstream::listens();
    let gateway = gateway("limits: { request_buffer: 16KiB }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends("HTTP/1.1 100 Continue\r\n\r\n");
    client.expects("HTTP/1.1 100 Continue\r\n");
}

#[test]
fn an_endpoint_can_refuse_a_body_before_it_is_sent() {
    for refusal in ["401 Unauthorized", "417 Expectation Failed"] {
        let upstream = upstream::listens();
        let gateway = gateway("limits: { request_buffer: 16KiB }", &[&upstream]);
        let mut client = gateway.connects();
        client.sends(
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        );
        let mut endpoint = upstream.accepts();
        endpoint.head();
        endpoint.sends(format!("HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n"));
        client.expects(format!("HTTP/1.1 {}", &refusal[..3]));
    }
}

#[test]
fn a_body_that_is_translated_or_decoded_is_waited_for_too() {
    for fields in [
        "Content-Type: application/grpc",
        "Content-Type: application/grpc-web+proto",
        "Content-Type: application/grpc-web-text",
        "Content-Encoding: gzip",
    ] {
        let text = "routes: [{ prefix: /, upstream: u, grpc_web: true }]\n\
                    policies: { p: { compress: { requests: {} } } }\napply: p\n\
                    upstreams: { u: { endpoints: $0, max_connections: 1, queue: { timeout: 300ms } } }";
        let (gateway, _upstream) = buffering(text);
        let mut slow = gateway.connects();
        slow.sends(format!("POST /a/b HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        slow.sends("Content-Length: 100\r\n\r\n\x1f");
        // The endpoint takes one connection, which would be taken.
        for _ in 0..3 {
            gateway.get("/fast").has_status(200);
        }
        drop(slow);
    }
}
