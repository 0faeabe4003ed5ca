//! Requests whose bodies clients have compressed.

use crate::between_under;
use std::io::Write;
use titan_testkit::{Gateway, Response, gateway, h2, upstream};

const TEXT: &str = "What clients have compressed goes on as it was before.";

/// A gateway that decodes requests under that policy, and the upstream behind it.
fn under(policy: &str, route: &str) -> (Gateway, upstream::Upstream) {
    let upstream = upstream::replies(upstream::ok("seen"));
    (gateway(&conf(policy, route), &[&upstream]), upstream)
}

fn conf(policy: &str, route: &str) -> String {
    format!(
        "routes: [{{ prefix: /, upstream: u, apply: [p] {route} }}]\n\
         policies: {{ p: {{ compress: {{ requests: {{ {policy} }} }} }} }}"
    )
}

fn coded(coding: &str, text: &str) -> Vec<u8> {
    match coding {
        "gzip" => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text.as_bytes()).expect("memory takes it");
            encoder.finish().expect("memory takes it")
        }
        "br" => {
            let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, 20);
            encoder.write_all(text.as_bytes()).expect("memory takes it");
            encoder.into_inner()
        }
        "zstd" => zstd::encode_all(text.as_bytes(), 3).expect("memory takes it"),
        other => panic!("{other}"),
    }
}

/// Posts that body with those fields.
fn posts(gateway: &Gateway, fields: &str, body: &[u8]) -> Response {
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\n\r\n");
    let mut client = gateway.connects();
    client.offers([head.as_bytes(), body].concat());
    client.response()
}

fn posts_in(gateway: &Gateway, coding: &str, body: &[u8]) -> Response {
    posts(gateway, &format!("Content-Encoding: {coding}\r\n"), body)
}

// field: compress.requests
#[test]
fn an_upstream_gets_what_it_was_before() {
    let (gateway, upstream) = under("", "");
    for coding in ["gzip", "br", "zstd", "X-Gzip", "identity, gzip"] {
        let known = if coding.len() > 4 { "gzip" } else { coding };
        let fields =
            format!("Content-Encoding: {coding}\r\nContent-Digest: sha-256=:AA==:\r\nX-A: b\r\n");
        posts(&gateway, &fields, &coded(known, TEXT)).has_status(200);
        let seen = upstream.requests().pop().expect("it has come");
        assert_eq!(seen.text(), TEXT, "{coding}");
        assert_eq!((seen.field("content-encoding"), seen.field("content-digest")), (None, None));
        assert_eq!((seen.field("content-length"), seen.field("x-a")), (None, Some("b")));
    }
}

#[test]
fn what_is_decoded_and_held_can_be_sent_again() {
    let (first, second) = (upstream::listens(), upstream::replies(upstream::ok("")));
    let text = format!("{}\nlimits: {{ retry_body: 1MiB }}", conf("", ""));
    let gateway = gateway(&text, &[&first, &second]);
    let mut client = gateway.connects();
    let body = coded("gzip", TEXT);
    let length = body.len();
    let head = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\n";
    let head = format!("{head}Content-Length: {length}\r\n\r\n");
    client.sends([head.as_bytes(), &body].concat());
    let mut endpoint = first.accepts();
    assert_eq!(endpoint.request().text(), TEXT);
    endpoint.closes();
    client.response().has_status(200);
    assert_eq!(second.request().text(), TEXT);
}

// field: compress_requests.decode
#[test]
fn only_the_codings_that_are_named_are_decoded() {
    let (gateway, upstream) = under("decode: br", "");
    for coding in ["gzip", "deflate", "br, br", "gzip, br"] {
        posts_in(&gateway, coding, b"as it is").has_status(200);
        let seen = upstream.requests().pop().expect("it has come");
        assert_eq!(
            (seen.text().as_str(), seen.field("content-encoding")),
            ("as it is", Some(coding))
        );
        assert_eq!(seen.field("content-length"), Some("8"));
    }
    posts_in(&gateway, "br", b"as it is").has_problem(400, "bad-coding");
}

// field: compress_requests.unsupported
#[test]
fn other_codings_are_refused_where_asked() {
    let (gateway, upstream) = under("decode: [zstd, gzip], unsupported: refuse", "");
    for coding in ["br", "deflate", "gzip, gzip", "zstd, identity, x"] {
        posts_in(&gateway, coding, b"abc")
            .has_field("accept-encoding", "zstd, gzip")
            .has_problem(415, "coding-refused");
    }
    assert!(upstream.requests().is_empty());
    posts_in(&gateway, "gzip", &coded("gzip", TEXT)).has_status(200).lacks("accept-encoding");
    // Where there is nothing to decode, the field is the upstream's business.
    posts_in(&gateway, "br", b"").has_status(200);
    assert_eq!(upstream.requests().pop().expect("it").field("content-encoding"), Some("br"));
}

// field: compress_requests.max_size
#[test]
fn a_body_may_become_so_large_and_no_larger() {
    let (exact, _upstream) = under("max_size: 5000B", "");
    let (route, _other) = under("", ", limits: { body: 5000B }");
    for gateway in [exact, route] {
        for coding in ["gzip", "br", "zstd"] {
            let text = |length| coded(coding, &"a".repeat(length));
            posts_in(&gateway, coding, &text(5000)).has_status(200);
            posts_in(&gateway, coding, &text(5001)).has_problem(413, "body-expands");
        }
    }
    let (gateway, _upstream) = under("", ", limits: { body: 50B }");
    posts_in(&gateway, "gzip", &[0; 51]).has_problem(413, "body-too-large");
}

// field: compress_requests.max_ratio
#[test]
fn a_body_may_become_so_many_times_as_large() {
    let bomb = coded("gzip", &"a".repeat(1 << 20));
    let (gateway, _upstream) = under("", "");
    posts_in(&gateway, "gzip", &bomb).has_problem(413, "body-expands");
    let (gateway, upstream) = under("max_ratio: 2000", "");
    posts_in(&gateway, "gzip", &bomb).has_status(200);
    assert_eq!(upstream.requests().pop().expect("it").text().len(), 1 << 20);
}

// field: compress_requests.max_window
#[test]
fn a_body_may_have_so_large_a_window() {
    let with_window = |bits: u32| {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, bits);
        encoder.write_all(TEXT.as_bytes()).expect("memory takes it");
        encoder.into_inner()
    };
    let (gateway, upstream) = under("", "");
    posts_in(&gateway, "br", &with_window(24)).has_problem(415, "window-too-large");
    posts_in(&gateway, "br", &with_window(23)).has_status(200);
    assert_eq!(upstream.requests().pop().expect("it").text(), TEXT);
    let (gateway, _upstream) = under("max_window: 64KiB", "");
    posts_in(&gateway, "br", &with_window(17)).has_problem(415, "window-too-large");
    posts_in(&gateway, "br", &with_window(16)).has_status(200);
    posts_in(&gateway, "gzip", &coded("gzip", TEXT)).has_status(200);
}

// field: limits.decoding_memory
#[test]
fn bodies_share_the_memory_to_decode_them() {
    let conf = |memory: &str| {
        let conf = conf("max_window: 16MiB", "");
        format!("{conf}\nlimits: {{ decoding_memory: {memory} }}")
    };
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, 24);
    encoder.write_all(TEXT.as_bytes()).expect("memory takes it");
    encoder.flush().expect("memory takes it");
    let begun = encoder.get_ref().clone();
    let whole = encoder.into_inner();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\nContent-Length: {}\r\n\r\n",
        whole.len()
    );
    for (memory, has_room) in [("32MiB", false), ("256MiB", true)] {
        let listening = upstream::listens();
        let gateway = gateway(&conf(memory), &[&listening]);
        let sends = |body: &[u8]| {
            let mut client = gateway.connects();
            client.sends([head.as_bytes(), body].concat());
            client
        };
        let mut first = sends(&begun);
        let mut endpoint = listening.accepts();
        endpoint.head();
        endpoint.expects(format!("{:x}\r\n{TEXT}\r\n", TEXT.len()));
        let mut second = sends(&whole);
        if has_room {
            let mut other = listening.accepts();
            other.request();
            other.sends(upstream::ok(""));
            second.response().has_status(200);
        } else {
            second.response().has_problem(503, "decoding-memory");
        }
        first.sends(&whole[begun.len()..]);
        endpoint.expects("0\r\n\r\n").sends(upstream::ok(""));
        first.response().has_status(200);
    }
}

/// A brotli body up to where its text has come out, and all of it; its window has that many bits.
fn begun_and_whole(bits: u32) -> (Vec<u8>, Vec<u8>) {
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, bits);
    encoder.write_all(TEXT.as_bytes()).expect("memory takes it");
    encoder.flush().expect("memory takes it");
    let begun = encoder.get_ref().clone();
    encoder.write_all(TEXT.as_bytes()).expect("memory takes it");
    (begun, encoder.into_inner())
}

#[test]
fn a_body_that_runs_out_of_memory_is_cut_short_on_both_sides() {
    let (small, large) = (begun_and_whole(10), begun_and_whole(24));
    let head = |body: &[u8]| {
        let length = body.len();
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: br\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let text = format!("{:x}\r\n{TEXT}\r\n", TEXT.len());
    for has_responded in [false, true] {
        let listening = upstream::listens();
        let conf = conf("max_window: 16MiB", "");
        let gateway =
            gateway(&format!("{conf}\nlimits: {{ decoding_memory: 32MiB }}"), &[&listening]);
        let begins = |(begun, whole): &(Vec<u8>, Vec<u8>)| {
            let mut client = gateway.connects();
            client.sends(head(whole)).sends(begun);
            let mut endpoint = listening.accepts();
            endpoint.head();
            endpoint.expects(&text);
            (client, endpoint)
        };
        let (mut client, mut endpoint) = begins(&small);
        if has_responded {
            endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
            client.expects("HTTP/1.1 200 OK\r\n");
            client.head();
            client.expects("half");
        }
        // What this one has is missing for the rest of the other.
        let (mut other, mut its_endpoint) = begins(&large);
        client.sends(&small.1[small.0.len()..]);
        match has_responded {
            false => drop(client.response().has_problem(503, "decoding-memory")),
            true => assert_eq!(client.rest(), b""),
        }
        assert_eq!(endpoint.rest(), b"", "nothing more, and no last chunk");
        other.sends(&large.1[large.0.len()..]);
        its_endpoint.expects(&text).expects("0\r\n\r\n").sends(upstream::ok(""));
        other.response().has_status(200);
    }
}

#[test]
fn a_stream_that_runs_out_of_memory_is_reset() {
    let listening = upstream::listens();
    let upstreams = "upstreams: { u: { endpoints: $0, protocol: h2 } }";
    let conf = format!("limits: {{ decoding_memory: 32MiB }}\n{}", conf("max_window: 16MiB", ""));
    let gateway = gateway(&format!("{upstreams}\n{conf}"), &[&listening]);
    let mut client = gateway.connects_h2();
    let mut begins = |begun: &[u8]| {
        let stream = client.starts(&h2::Head::post("/").with("content-encoding", "br"));
        client.sends_data(stream, begun, false);
        stream
    };
    let (small, large) = (begun_and_whole(10), begun_and_whole(24));
    let first = begins(&small.0);
    let mut endpoint = listening.accepts_h2();
    let (first_up, _) = endpoint.request_head();
    assert_eq!(endpoint.takes_data(first_up, TEXT.len()), TEXT.as_bytes());
    let second = begins(&large.0);
    let (second_up, _) = endpoint.request_head();
    assert_eq!(endpoint.takes_data(second_up, TEXT.len()), TEXT.as_bytes());
    client.sends_data(first, &small.1[small.0.len()..], true);
    client.response(first).has_problem(503, "decoding-memory");
    assert_eq!(endpoint.reset_of(first_up), h2::code::CANCEL);
    client.sends_data(second, &large.1[large.0.len()..], true);
    assert_eq!(endpoint.takes_rest(second_up).0, TEXT.as_bytes());
    endpoint.responds(second_up, &h2::reply(200), "");
    client.response(second).has_status(200);
}

#[test]
fn what_is_not_what_it_says_is_a_bad_request() {
    let (gateway, _upstream) = under("", "");
    for coding in ["gzip", "br", "zstd"] {
        let whole = coded(coding, TEXT);
        posts_in(&gateway, coding, &whole[..whole.len() - 1]).has_problem(400, "bad-coding");
        let more = [whole.as_slice(), b"GET /admin HTTP/1.1\r\n\r\n"].concat();
        posts_in(&gateway, coding, &more).has_problem(400, "bad-coding");
        posts_in(&gateway, coding, b"What is this?").has_problem(400, "bad-coding");
    }
}

#[test]
fn a_body_may_have_been_coded_in_parts() {
    let (gateway, upstream) = under("max_size: 1000B", "");
    for coding in ["gzip", "zstd"] {
        let parts = ["This is ", "", "one body", ""].map(|part| coded(coding, part)).concat();
        posts_in(&gateway, coding, &parts).has_status(200);
        assert_eq!(upstream.requests().pop().expect("it has come").text(), "This is one body");
        let parts = coded(coding, &"a".repeat(501)).repeat(2);
        posts_in(&gateway, coding, &parts).has_problem(413, "body-expands");
        let cut = [coded(coding, TEXT), coded(coding, TEXT)[..5].to_vec()].concat();
        posts_in(&gateway, coding, &cut).has_problem(400, "bad-coding");
    }
}

#[test]
fn calls_of_grpc_are_left_alone() {
    let (gateway, upstream) = under("unsupported: refuse", "");
    for media_type in ["application/grpc", "application/grpc-web+proto", "Application/gRPC+json"] {
        let fields = format!("Content-Type: {media_type}\r\nContent-Encoding: gzip\r\n");
        posts(&gateway, &fields, b"as it is");
        let seen = upstream.requests().pop().expect("it has come");
        assert_eq!(
            (seen.text().as_str(), seen.field("content-encoding")),
            ("as it is", Some("gzip"))
        );
    }
}

#[test]
fn a_client_that_waits_for_100_gets_it_from_the_upstream() {
    let body = coded("gzip", TEXT);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let (_held, mut client, mut endpoint) = between_under(&conf("", ""), head);
    let head = endpoint.head();
    assert!(
        head.contains("Expect: 100-continue\r\n") && !head.contains("Content-Encoding"),
        "{head}"
    );
    assert!(head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
    endpoint.sends("HTTP/1.1 100 Continue\r\n\r\n");
    client.expects("HTTP/1.1 100 Continue\r\n\r\n").sends(&body);
    endpoint.expects(format!("{:x}\r\n{TEXT}\r\n0\r\n\r\n", TEXT.len()));
    endpoint.sends(upstream::ok(""));
    client.response().has_status(200);
}

#[test]
fn what_has_come_goes_on_before_the_rest_comes() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"first").expect("memory takes it");
    encoder.flush().expect("memory takes it");
    let first = encoder.get_ref().len();
    encoder.write_all(b"second").expect("memory takes it");
    let whole = encoder.finish().expect("memory takes it");
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        whole.len()
    );
    let (_held, mut client, mut endpoint) = between_under(&conf("", ""), head);
    endpoint.head();
    client.sends(&whole[..first]);
    endpoint.expects("5\r\nfirst\r\n");
    client.sends(&whole[first..]);
    endpoint.expects("6\r\nsecond\r\n0\r\n\r\n").sends(upstream::ok(""));
    client.response().has_status(200);
}

#[test]
fn streams_of_http2_are_decoded_too() {
    let upstream = upstream::replies_h2("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let conf = format!("upstreams: {{ u: {{ endpoints: $0, protocol: h2 }} }}\n{}", conf("", ""));
    let gateway = gateway(&conf, &[&upstream]);
    let mut client = gateway.connects_h2();
    let body = coded("br", TEXT);
    let head = h2::Head::post("/").with("content-encoding", "br");
    let with_length = h2::Head::post("/")
        .with("content-encoding", "br")
        .with("content-length", body.len().to_string());
    for head in [head, with_length] {
        let stream = client.asks_with(&head, &body);
        client.response(stream).has_status(200);
        let seen = upstream.requests().pop().expect("it has come");
        assert_eq!(seen.text(), TEXT);
        assert_eq!((seen.field("content-length"), seen.field("content-encoding")), (None, None));
    }
}
