//! Responses that are compressed.

use std::io::Read;
use titan_testkit::{Gateway, Response, gateway, h2, upstream, waits_until};

/// Some 20 KiB that can be compressed, but not trivially.
fn text() -> String {
    (0..1_000_u32).map(|number| format!("{{\"{}\":{}}},\n", number % 37, number * number)).collect()
}

/// A gateway with that policy in front of an upstream with that response.
fn under(policy: &str, response: impl Into<Vec<u8>>) -> (Gateway, upstream::Upstream) {
    let upstream = upstream::replies(response);
    let conf = format!(
        "routes: [{{ prefix: /, upstream: u, apply: [p] }}]\npolicies: {{ p: {{ compress: {{ {policy} }} }} }}"
    );
    (gateway(&conf, &[&upstream]), upstream)
}

fn html(fields: &str) -> Vec<u8> {
    upstream::ok_with(&format!("Content-Type: text/html; charset=utf-8\r\n{fields}"), &text())
}

/// What a client gets that accepts that.
fn accepts(gateway: &Gateway, codings: &str) -> Response {
    gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {codings}\r\n\r\n"))
}

/// What a client of gzip gets of that response.
fn gets(policy: &str, response: impl Into<Vec<u8>>) -> Response {
    accepts(&under(policy, response).0, "gzip")
}

fn decoded(coding: &str, bytes: &[u8]) -> String {
    let mut out = String::new();
    let read = match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_string(&mut out),
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_string(&mut out),
        "zstd" => zstd::Decoder::new(bytes).and_then(|mut it| it.read_to_string(&mut out)),
        other => panic!("{other}"),
    };
    assert!(read.is_ok(), "{coding}: {read:?} of {} bytes", bytes.len());
    out
}

#[track_caller]
fn stays(response: Response) {
    response.lacks("content-encoding").has_body(text());
}

// field: policy.compress
#[test]
fn each_coding_can_be_read_again() {
    let fields = "ETag: \"1\"\r\nAccept-Ranges: bytes\r\nVary: Origin\r\n";
    let (gateway, _upstream) = under("", html(fields));
    for coding in ["gzip", "br", "zstd"] {
        let response = accepts(&gateway, coding);
        assert_eq!(decoded(coding, &response.body), text(), "{coding}");
        assert!(response.body.len() * 10 < text().len() * 4, "{coding}: {}", response.body.len());
        assert!(response.is_chunked());
        assert_eq!(response.all("vary"), ["Origin", "Accept-Encoding"]);
        response
            .has_field("content-encoding", coding)
            .has_field("etag", "W/\"1\"")
            .lacks("content-length")
            .lacks("accept-ranges");
    }
    let response = gateway.get("/");
    assert_eq!(response.all("vary"), ["Origin", "Accept-Encoding"]);
    stays(response.has_field("etag", "\"1\"").has_field("accept-ranges", "bytes"));
}

#[test]
fn bytes_before_and_after_compression_are_counted() {
    let (gateway, _upstream) = under("", html(""));
    stays(accepts(&gateway, "identity"));
    let compressed = accepts(&gateway, "gzip").body.len() + accepts(&gateway, "br").body.len();
    let counts = || {
        let metrics = gateway.metrics();
        ["responses", "input_bytes", "output_bytes"]
            .map(|what| metrics.of_policies(&format!("titan_compress_{what}_total"), ""))
    };
    let input = 2 * text().len();
    let wanted = [2, input, compressed].map(|count| u64::try_from(count).unwrap());
    // They are counted at the end of the exchange, which the client does not see.
    waits_until("both are counted", || counts() == wanted);
}

#[test]
fn a_client_that_has_a_coded_response_learns_that_it_is_the_same() {
    let (gateway, _upstream) = under("", "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n");
    let has = |tags: &str| {
        gateway.asks(&format!(
            "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nIf-None-Match: {tags}\r\n\r\n"
        ))
    };
    for tags in ["W/\"1\"", "\"0\", W/\"1\""] {
        has(tags).has_status(304).has_field("etag", "W/\"1\"").has_field("vary", "Accept-Encoding");
    }
    has("\"1\"").has_status(304).has_field("etag", "\"1\"").lacks("vary");
}

// field: compress.algorithms
#[test]
fn of_codings_liked_equally_the_first_is_taken() {
    let (gateway, _upstream) = under("algorithms: [br, gzip]", html(""));
    accepts(&gateway, "gzip, zstd, br").has_field("content-encoding", "br");
    accepts(&gateway, "gzip, br;q=0.9").has_field("content-encoding", "gzip");
    accepts(&gateway, "*;q=0.1").has_field("content-encoding", "br");
    stays(accepts(&gateway, "zstd"));
    stays(accepts(&gateway, "gzip;q=0, br;q=0"));
    stays(accepts(&gateway, "identity, gzip;q=0.5"));
}

// field: compress.types
#[test]
fn the_media_type_decides() {
    let of = |policy: &str, media_type: &str| {
        let response = upstream::ok_with(&format!("Content-Type: {media_type}\r\n"), &text());
        gets(policy, response).field("content-encoding").is_some()
    };
    assert!(
        of("", "Application/LD+JSON; profile=x") && of("", "text/plain") && of("", "image/svg+xml")
    );
    assert!(
        !of("", "image/png") && !of("", "application/octet-stream") && !of("", "application/grpc")
    );
    assert!(!of("types: [text/html]", "text/plain") && of("types: [text/html]", "text/html"));
    assert!(!of("types: application/*", "application/grpc+proto"));
    stays(gets("", upstream::ok(&text())).lacks("vary"));
}

#[test]
fn a_client_that_cannot_read_content_as_it_is_gets_it_coded() {
    let response = upstream::ok_with("Content-Type: image/png\r\n", "x");
    let (gateway, _upstream) = under("", response);
    let response = accepts(&gateway, "gzip, identity;q=0").has_field("content-encoding", "gzip");
    assert_eq!(decoded("gzip", &response.body), "x");
}

// field: compress.min_size
#[test]
fn short_content_stays_as_it_is() {
    let short = || upstream::ok_with("Content-Type: text/html\r\n", "short");
    gets("", short()).lacks("content-encoding").lacks("vary").has_body("short");
    gets("min_size: 5", short()).has_field("content-encoding", "gzip");
    let chunked = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n0\r\n\r\n";
    gets("", chunked).has_field("content-encoding", "gzip");
    gets("min_size: 0", upstream::ok_with("Content-Type: text/html\r\n", ""))
        .lacks("content-encoding");
}

// field: compress.gzip_level, compress.brotli_level, compress.zstd_level
#[test]
fn more_effort_makes_less() {
    let size = |policy: &str, coding: &str| {
        let response = accepts(&under(policy, html("")).0, coding);
        assert_eq!(decoded(coding, &response.body), text());
        response.body.len()
    };
    assert!(size("gzip_level: 9", "gzip") < size("gzip_level: 1", "gzip"));
    assert!(size("brotli_level: 9", "br") < size("brotli_level: 0", "br"));
    assert!(size("zstd_level: 12", "zstd") < size("zstd_level: 1", "zstd"));
}

// field: compress.cookies
#[test]
fn responses_that_set_cookies_stay_as_they_are() {
    stays(gets("", html("Set-Cookie: a=b\r\n")));
    gets("cookies: true", html("Set-Cookie: a=b\r\n")).has_field("content-encoding", "gzip");
}

// field: compress.except
#[test]
fn responses_for_listed_paths_stay_as_they_are() {
    let upstream = upstream::replies(html(""));
    let conf = "routes: [{ prefix: /, upstream: u, apply: [p, t] }]\npolicies:\n  p: { compress: { except: [/account] } }\n  \
                t: { transform: { request: { path: { regex: ^/account, replace: /elsewhere } } } }";
    let gateway = gateway(conf, &[&upstream]);
    let get = |path: &str| {
        gateway.asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"))
    };
    for path in [
        "/account",
        "/Account/x",
        "/x/../account?y",
        "/%61ccount",
        "/account%2Fx",
        "/account;v=1/x",
    ] {
        stays(get(path).lacks("vary"));
    }
    get("/accounts").has_field("content-encoding", "gzip");
}

// field: compress.padding
#[test]
fn responses_get_another_length_each_time_where_asked() {
    let (gateway, _upstream) = under("padding: 64B", html(""));
    let (plain, _plain_upstream) = under("", html(""));
    for coding in ["gzip", "br", "zstd"] {
        let shortest = accepts(&plain, coding).body.len();
        let mut lengths = std::collections::BTreeSet::new();
        for _ in 0..16 {
            let response = accepts(&gateway, coding);
            assert_eq!(decoded(coding, &response.body), text(), "{coding}");
            // Whatever holds the bytes has some of its own.
            assert!((shortest + 1..=shortest + 64 + 12).contains(&response.body.len()), "{coding}");
            lengths.insert(response.body.len());
        }
        assert!(lengths.len() > 3, "{coding}: {lengths:?}");
    }
}

#[test]
fn what_must_not_be_coded_stays_as_it_is() {
    for fields in [
        "Cache-Control: private, No-Transform\r\n",
        "Content-Range: bytes 0-1/2\r\n",
        "Content-Digest: sha-256=:AA==:\r\n",
        "Repr-Digest: sha-256=:AA==:\r\n",
    ] {
        stays(gets("", html(fields)).lacks("vary"));
    }
    gets("", html("Content-Encoding: x-own\r\n"))
        .has_field("content-encoding", "x-own")
        .has_body(text());
    let mut partial = html("");
    partial[9..12].copy_from_slice(b"206");
    stays(gets("", partial));
    for status in ["204 No Content", "304 Not Modified"] {
        let response =
            format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\nETag: \"1\"\r\n\r\n");
        gets("min_size: 0", response).lacks("content-encoding").has_field("etag", "\"1\"");
    }
}

#[test]
fn a_response_to_head_says_what_get_would_get() {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9000\r\nETag: \"1\"\r\n\r\n";
    let (gateway, _upstream) = under("", head);
    let mut client = gateway.connects();
    client.sends("HEAD / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    client
        .response_to("HEAD")
        .has_field("content-encoding", "gzip")
        .has_field("etag", "W/\"1\"")
        .has_field("vary", "Accept-Encoding")
        .lacks("content-length");
}

// field: compress.events
#[test]
fn events_are_compressed_one_by_one_where_asked() {
    let events = || upstream::ok_with("Content-Type: text/event-stream\r\n", &text());
    stays(gets("", events()));
    gets("events: true", events()).has_field("content-encoding", "gzip");
}

#[test]
fn what_an_upstream_has_sent_is_not_held_back() {
    let upstream = upstream::listens();
    let conf = "routes: [{ prefix: /, upstream: u, apply: [p] }]\npolicies: { p: { compress: { events: true } } }";
    for coding in ["gzip", "br", "zstd"] {
        let gateway = gateway(conf, &[&upstream]);
        let mut client = gateway.connects();
        client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"));
        let mut endpoint = upstream.accepts();
        endpoint.request();
        endpoint.sends("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(client.head().contains(&format!("Content-Encoding: {coding}")));
        let mut coded = Vec::new();
        for event in ["data: 1\n\n", "data: 2\n\n"] {
            endpoint.sends(format!("{:x}\r\n{event}\r\n", event.len()));
            while !prefix(coding, &coded).ends_with(event) {
                coded.extend(chunk(&mut client));
            }
        }
        endpoint.sends("0\r\n\r\n");
        loop {
            match chunk(&mut client) {
                last if last.is_empty() => break,
                more => coded.extend(more),
            }
        }
        assert_eq!(decoded(coding, &coded), "data: 1\n\ndata: 2\n\n");
    }
}

/// The next chunk of a response; empty at its end.
fn chunk(client: &mut titan_testkit::Peer) -> Vec<u8> {
    let mut line = String::new();
    while !line.ends_with("\r\n") {
        line.push(char::from(client.takes(1)[0]));
    }
    let length = usize::from_str_radix(line.trim_end(), 16).expect("a length");
    let data = client.takes(length);
    client.expects("\r\n");
    data
}

/// What can be read of a body that has not ended.
fn prefix(coding: &str, bytes: &[u8]) -> String {
    let mut out = Vec::new();
    let _ = match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out),
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out),
        _ => zstd::Decoder::new(bytes).and_then(|mut it| it.read_to_end(&mut out)),
    };
    String::from_utf8(out).expect("text")
}

#[test]
fn the_gateways_own_responses_are_compressed_too() {
    let conf = format!(
        "routes: [{{ prefix: /, respond: {{ body: \"{}\" }}, apply: [p] }}]\npolicies: {{ p: {{ compress: {{}} }} }}",
        "titan ".repeat(500)
    );
    let gateway = gateway(&conf, &[]);
    let response = accepts(&gateway, "br").has_field("content-encoding", "br");
    assert_eq!(decoded("br", &response.body), "titan ".repeat(500));
    gateway.get("/").lacks("content-encoding").has_body("titan ".repeat(500));
}

#[test]
fn all_protocols_get_it_alike() {
    let (gateway, _upstream) = under("", html(""));
    let mut client = gateway.connects_h2();
    let stream = client.asks(&h2::Head::get("/").with("accept-encoding", "zstd"));
    let response =
        client.response(stream).has_field("content-encoding", "zstd").lacks("content-length");
    assert_eq!(decoded("zstd", &response.body), text());
    let mut old = gateway.connects();
    old.sends("GET / HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = old.head();
    assert!(
        head.contains("Content-Encoding: gzip") && !head.contains("Transfer-Encoding"),
        "{head}"
    );
    assert_eq!(decoded("gzip", &old.rest()), text());
}

#[test]
fn a_cut_response_is_not_completed() {
    let response = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9000\r\n\r\nabc";
    let upstream = upstream::listens();
    let conf =
        "routes: [{ prefix: /, upstream: u, apply: [p] }]\npolicies: { p: { compress: {} } }";
    let gateway = gateway(conf, &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends(response);
    client.head();
    endpoint.closes();
    assert!(!client.rest().ends_with(b"0\r\n\r\n"));
}
