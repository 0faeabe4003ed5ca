//! Requests of HTTP/2 that would become something else in HTTP/1.1: nothing of them reaches an endpoint.

use super::TO_H2;
use crate::QUIET;
use titan_testkit::h2::{Client, Frame, Head, code};
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{Gateway, gateway};

/// A gateway before an endpoint that remembers what it is asked.
fn scene(is_h2: bool) -> (Gateway, Upstream) {
    let listening = upstream::listens();
    let response = |_: &titan_testkit::Request| ok("x");
    let upstream =
        if is_h2 { listening.responds_h2(response) } else { listening.responds(response) };
    (gateway(&format!("{QUIET}\n{}", if is_h2 { TO_H2 } else { "" }), &[&upstream]), upstream)
}

/// Sends each request on a connection that is used for all, and checks that its stream is reset at once, that
/// the connection goes on, and that the endpoint has seen nothing but what comes behind.
#[track_caller]
fn are_rejected(attacks: &[(&str, Head)]) {
    for is_h2 in [false, true] {
        let (gateway, upstream) = scene(is_h2);
        let mut client = gateway.connects_h2();
        for (count, (what, head)) in attacks.iter().enumerate() {
            for end in [true, false] {
                let stream = if end { client.asks(head) } else { client.starts(head) };
                assert_eq!(rejection(&mut client, stream), Ok(code::PROTOCOL_ERROR), "{what}");
            }
            client.get("/next").has_body("x");
            assert_eq!(upstream.requests().len(), count + 1, "{what}");
        }
        assert!(upstream.requests().iter().all(|request| request.target == "/next"));
    }
}

/// The code with which a stream was reset, or the status of its response.
#[track_caller]
fn rejection(client: &mut Client, stream: u32) -> Result<u32, u16> {
    client.waits("a reset or a response", |talk| {
        talk.has_reset(stream).map(Ok).or_else(|| talk.has_responded(stream).map(Err))
    })
}

fn get() -> Head {
    Head::get("/attack")
}

fn post() -> Head {
    Head::post("/attack")
}

#[test]
fn fields_that_frame_or_speak_of_the_connection() {
    are_rejected(&[
        ("H2.TE", post().with("transfer-encoding", "chunked")),
        ("H2.TE, identity", post().with("transfer-encoding", "identity")),
        (
            "H2.TE beside a length",
            post().with("content-length", "0").with("transfer-encoding", "chunked"),
        ),
        ("Connection", get().with("connection", "close")),
        ("Connection, of a field", get().with("connection", "x").with("x", "1")),
        ("Keep-Alive", get().with("keep-alive", "timeout=5")),
        ("Proxy-Connection", get().with("proxy-connection", "keep-alive")),
        ("Upgrade", get().with("upgrade", "h2c")),
        ("Upgrade to WebSocket", get().with("connection", "upgrade").with("upgrade", "websocket")),
        ("TE", get().with("te", "chunked")),
        ("TE, trailers and more", get().with("te", "trailers, chunked")),
        ("two lengths", post().with("content-length", "1").with("content-length", "2")),
        ("two lengths that agree", post().with("content-length", "1").with("content-length", "1")),
        ("a list of lengths", post().with("content-length", "1, 1")),
        ("a length with a sign", post().with("content-length", "+1")),
        ("a negative length", post().with("content-length", "-1")),
        ("a length in hex", post().with("content-length", "0x1")),
        ("no length", post().with("content-length", "")),
        ("a length without end", post().with("content-length", "99999999999999999999")),
    ]);
}

#[test]
fn bytes_that_would_end_a_line() {
    let bad = [
        "a\r\nb: c",
        "a\nb: c",
        "a\rb",
        "a\0b",
        "\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    ];
    let mut attacks = Vec::new();
    for bytes in bad {
        attacks.push(("a value", get().with("x", bytes)));
        attacks.push(("a cookie", get().with("cookie", bytes)));
        attacks.push(("a second cookie", get().with("cookie", "a=1").with("cookie", bytes)));
        attacks.push(("a name", get().with(bytes, "1")));
        attacks.push((":path", get().but(":path", format!("/{bytes}"))));
        attacks.push((":path, in its query", get().but(":path", format!("/?{bytes}"))));
        attacks.push((":method", get().but(":method", format!("GET{bytes}"))));
        attacks.push((":authority", get().but(":authority", format!("a{bytes}"))));
        attacks.push((":scheme", get().but(":scheme", format!("http{bytes}"))));
        attacks.push(("host", get().without(":authority").with("host", format!("a{bytes}"))));
        attacks.push(("a protocol", get().with_first(":protocol", bytes)));
    }
    are_rejected(&attacks);
}

#[test]
fn names_that_are_none() {
    are_rejected(&[
        ("upper case", get().with("X-A", "1")),
        ("a space", get().with("x a", "1")),
        ("a space at the end", get().with("x ", "1")),
        ("a colon", get().with("x:a", "1")),
        ("a colon at the end, of a framing field", post().with("transfer-encoding:", "chunked")),
        ("a space before it, of a framing field", post().with(" transfer-encoding", "chunked")),
        ("a tab, of a framing field", post().with("transfer-encoding\t", "chunked")),
        ("nothing", get().with("", "1")),
        ("bytes beyond ASCII", get().with([0xe4], "1")),
        ("a pseudo field that is none", get().with_first(":x", "1")),
        ("the pseudo field of responses", get().with_first(":status", "200")),
        ("space before a value", get().with("x", " 1")),
        ("space behind a value", get().with("x", "1\t")),
    ]);
}

#[test]
fn request_lines_that_say_more() {
    are_rejected(&[
        (":path with a space", get().but(":path", "/a HTTP/1.1")),
        (":path with a tab", get().but(":path", "/a\tb")),
        (":path with a fragment", get().but(":path", "/a#b")),
        (":path with bytes beyond ASCII", get().but(":path", [b'/', 0xe4])),
        (":path with DEL", get().but(":path", "/\x7f")),
        (":path in absolute form", get().but(":path", "http://b/a")),
        (":path without a slash", get().but(":path", "a")),
        (":path without anything", get().but(":path", "")),
        (":path of an asterisk", get().but(":path", "*")),
        (":path of an authority", get().but(":path", "b:80")),
        (":method with a space", get().but(":method", "GET /smuggled HTTP/1.1")),
        (":method without anything", get().but(":method", "")),
        (":method that is no token", get().but(":method", "GE:T")),
        (":scheme of a file", get().but(":scheme", "file")),
        (":scheme with an authority", get().but(":scheme", "http://b/?")),
    ]);
}

#[test]
fn hosts_that_differ() {
    are_rejected(&[
        ("Host beside :authority", get().with("host", "b")),
        ("Host with a port", get().with("host", "a:81")),
        ("two Hosts", get().with("host", "a").with("host", "a")),
        (
            "two Hosts without :authority",
            get().without(":authority").with("host", "a").with("host", "b"),
        ),
        ("no host", get().without(":authority")),
        ("nothing in it", get().but(":authority", "")),
        ("userinfo", get().but(":authority", "user@a")),
        ("a path", get().but(":authority", "a/b")),
        ("a query", get().but(":authority", "a?b")),
        ("a space", get().but(":authority", "a b")),
        ("a comma", get().but(":authority", "a,b")),
        ("a port that is none", get().but(":authority", "a:b")),
        ("a port beyond the last", get().but(":authority", "a:65536")),
        ("Host with userinfo", get().without(":authority").with("host", "user@a")),
    ]);
}

#[test]
fn pseudo_fields_out_of_order() {
    let twice = |name: &str, value: &str| get().with_first(name, value);
    are_rejected(&[
        (":path twice", twice(":path", "/other")),
        (":method twice", twice(":method", "POST")),
        (":authority twice", twice(":authority", "b")),
        (":scheme twice", twice(":scheme", "https")),
        (":path behind a field", get().without(":path").with("x", "1").with(":path", "/")),
        (":authority behind a field", get().with("x", "1").with(":authority", "b")),
        ("no :path", get().without(":path")),
        ("no :method", get().without(":method")),
        ("no :scheme", get().without(":scheme")),
        (":protocol without CONNECT", get().with_first(":protocol", "websocket")),
    ]);
}

/// H2.CL: the frames decide, and a length that disagrees with them ends the stream before all of it is passed on.
#[test]
fn a_length_that_is_not_that_of_the_data() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for is_h2 in [false, true] {
        let (gateway, upstream) = scene(is_h2);
        for length in ["0", "1", "1000"] {
            let mut client = gateway.connects_h2();
            let stream = client.starts(&post().with("content-length", length));
            client.sends(&Frame::data(stream, smuggled, true));
            assert_eq!(rejection(&mut client, stream), Ok(code::PROTOCOL_ERROR), "{length}");
            client.get("/next").has_body("x");
        }
        let mut client = gateway.connects_h2();
        let stream = client.asks(&post().with("content-length", "5"));
        assert_eq!(rejection(&mut client, stream), Ok(code::PROTOCOL_ERROR));
        client.get("/next").has_body("x");
        let seen = upstream.requests();
        assert!(seen.iter().all(|request| request.target == "/next"), "{seen:?}");
    }
}

#[test]
fn trailers_that_frame_or_route() {
    let bad = [
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("host", "b"),
        ("connection", "close"),
        ("authorization", "Basic YTpi"),
        (":path", "/"),
        ("X-Upper", "1"),
        ("x", "a\r\nb: c"),
        ("x\r\nb", "1"),
        ("x", "a\0b"),
    ];
    for is_h2 in [false, true] {
        let (gateway, upstream) = scene(is_h2);
        for (name, value) in bad {
            let mut client = gateway.connects_h2();
            let stream = client.starts(&post());
            client.sends(&Frame::data(stream, "abc", false));
            client.sends_trailers(stream, &Head::default().with(name, value));
            assert_eq!(rejection(&mut client, stream), Ok(code::PROTOCOL_ERROR), "{name}: {value}");
            client.get("/next").has_body("x");
        }
        let seen = upstream.requests();
        assert!(seen.iter().all(|request| request.target == "/next"), "{seen:?}");
    }
}

/// What is allowed is written so that it stays what it was.
#[test]
fn what_only_looks_dangerous_passes() {
    let (gateway, upstream) = scene(false);
    let mut client = gateway.connects_h2();
    for head in [
        get().with("x", ""),
        get().with("x", "a\tb"),
        get().with("x", [0xe4, 0xff]),
        get().with("host", "a"),
        get().with("host", "A"),
        get().without(":authority").with("host", "a"),
        get().with("te", "trailers"),
        get().but(":path", "/attack?a/b?c"),
        post().with("content-length", "0"),
        Head::request("OPTIONS", "*"),
    ] {
        let stream = client.asks(&head);
        client.response(stream).has_body("x");
    }
    for request in upstream.requests() {
        assert_eq!(request.all("host"), ["a"], "{}", request.first_line);
        assert_eq!(request.all("transfer-encoding"), [""; 0]);
    }
}
