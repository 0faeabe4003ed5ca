//! HTTP/2 on either side of the gateway, and on both.

mod bodies;
mod downgrade;
pub(crate) mod ending;
mod endpoints;
mod fair_streams;
mod limits;

use crate::QUIET;
use titan_testkit::h2::{Client, Endpoint, Head, code, reply, setting};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{
    Certificate, Gateway, Listening, Peer, certificate, gateway, scheme, start_with, usual,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// An upstream that speaks HTTP/2 without TLS.
const TO_H2: &str = "upstreams: { u: { endpoints: $0, protocol: h2 } }";

/// What stands between a client and an endpoint that both speak HTTP/2.
struct Held {
    gateway: Gateway,
    upstream: Listening,
}

/// A client of HTTP/2 that has begun a request, and an endpoint of HTTP/2 that has accepted the connection.
#[track_caller]
fn between(text: &str, head: &Head, end: bool) -> (Held, Client, u32, Endpoint) {
    between_with(text, head, end, &[])
}

/// The same where the endpoint has these settings.
#[track_caller]
fn between_with(
    text: &str,
    head: &Head,
    end: bool,
    settings: &[(u16, u32)],
) -> (Held, Client, u32, Endpoint) {
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{QUIET}\n{TO_H2}\n{text}"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = if end { client.asks(head) } else { client.starts(head) };
    let endpoint = upstream.accepts_h2_with(settings);
    (Held { gateway, upstream }, client, stream, endpoint)
}

/// A client of HTTP/2 that has begun a request, and an endpoint of HTTP/1.1 that has accepted the connection.
#[track_caller]
fn between_h1(text: &str, head: &Head, end: bool) -> (Held, Client, u32, Peer) {
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{QUIET}\n{text}"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = if end { client.asks(head) } else { client.starts(head) };
    let endpoint = upstream.accepts();
    (Held { gateway, upstream }, client, stream, endpoint)
}

/// A client of HTTP/1.1 that has sent `request`, and an endpoint of HTTP/2 that has accepted the connection.
#[track_caller]
fn from_h1(text: &str, request: &str) -> (Held, Peer, Endpoint) {
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{QUIET}\n{TO_H2}\n{text}"), &[&upstream]);
    let mut client = gateway.connects();
    client.sends(request);
    let endpoint = upstream.accepts_h2();
    (Held { gateway, upstream }, client, endpoint)
}

// field: listener.protocols
#[test]
fn a_listener_speaks_the_configured_protocols() {
    let upstream = upstream::replies(ok("x"));
    let of = |protocols: &str| {
        let text = format!("listeners: [{{ address: '127.0.0.1:0', protocols: {protocols} }}]");
        gateway(&text, &[&upstream])
    };
    let both = of("[h1, h2]");
    both.connects_h2().get("/").has_body("x");
    both.get("/").has_body("x");
    let h1 = of("[h1]");
    h1.get("/").has_body("x");
    // The preface is a request that HTTP/1.1 does not know.
    h1.connects().sends("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").response().has_status(505);
    let h2 = of("[h2]");
    h2.connects_h2().get("/").has_body("x");
    let mut client = h2.connects_h2();
    client.peer().sends(GET);
    let mut client = h2.connects();
    let said = client.sends(GET).rest();
    assert!(!said.starts_with(b"HTTP/1"), "{}", said.escape_ascii());
}

#[test]
fn over_tls_the_handshake_agrees_on_a_version() {
    let a = certificate(&["a.example"]);
    let upstream = upstream::replies(ok("x"));
    for (protocols, offered, agreed) in [
        ("[h1, h2]", &["h2", "http/1.1"][..], Some("h2")),
        ("[h1, h2]", &["http/1.1", "h2"], Some("h2")),
        ("[h1, h2]", &["http/1.1"], Some("http/1.1")),
        ("[h1, h2]", &[], Some("")),
        ("[h1]", &["h2", "http/1.1"], Some("http/1.1")),
        ("[h1]", &["h2"], None),
        ("[h2]", &["h2", "http/1.1"], Some("h2")),
        ("[h2]", &["http/1.1"], None),
    ] {
        let text = format!(
            "listeners: [{{ address: '127.0.0.1:0', protocols: {protocols}, \
             tls: {{ certificates: [{{ cert: a.pem, key: a.key }}] }} }}]"
        );
        let gateway = start_with(&text, &[&upstream], &Certificate::files(&[("a", &a)]));
        let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
        let session = a.client_of_protocols("a.example", offered);
        let peer = Peer::connects(gateway.address()).tries_to_secure(session);
        let case = format!("{protocols} {offered:?}");
        match agreed {
            None => assert!(peer.is_err(), "{case}"),
            Some("h2") => {
                Client::begins(peer.expect(&case), &[]).get("/").has_body("x");
            }
            Some(_) => {
                peer.expect(&case).sends(GET).response().has_body("x");
            }
        }
    }
}

// field: upstream.protocol
#[test]
fn an_endpoint_is_spoken_to_as_the_configuration_says() {
    for (protocol, is_h2) in [("h1", false), ("auto", false), ("h2", true)] {
        let upstream = upstream::listens();
        let text = format!("upstreams: {{ u: {{ endpoints: $0, protocol: {protocol} }} }}");
        let gateway = gateway(&text, &[&upstream]);
        let mut client = gateway.connects();
        client.sends(GET);
        if is_h2 {
            let mut endpoint = upstream.accepts_h2();
            let (stream, request) = endpoint.request();
            assert_eq!(request.field(":scheme"), Some("http"));
            endpoint.responds(stream, &reply(200), "x");
            client.response().has_body("x");
        } else {
            let mut endpoint = upstream.accepts();
            endpoint.request();
            endpoint.sends(ok("x"));
            client.response().has_body("x");
        }
    }
}

/// A gateway in front of one with TLS that speaks `inner` to it, and responds with the version that it met.
fn through_tls(protocol: &str, inner: &str) -> (Gateway, Gateway, upstream::Upstream) {
    let a = certificate(&["127.0.0.1"]);
    let endpoint = upstream::responds(|request| ok(request.field("via").unwrap_or_default()));
    let text = format!(
        "forwarding: {{ via: inner }}\nlisteners: [{{ address: '127.0.0.1:0', protocols: {inner}, \
         tls: {{ certificates: [{{ cert: a.pem, key: a.key }}] }} }}]"
    );
    let inner = start_with(&text, &[&endpoint], &Certificate::files(&[("a", &a)]));
    let inner = inner.unwrap_or_else(|error| panic!("{error}"));
    let text = format!(
        "{QUIET}\nupstreams: {{ u: {{ endpoints: $0, protocol: {protocol}, tls: {{ ca: ca.pem }} }} }}"
    );
    let files = Certificate::files(&[("ca", &a), ("usual", usual())]);
    let outer = start_with(&text, &[&inner.address()], &files);
    (outer.unwrap_or_else(|error| panic!("{error}")), inner, endpoint)
}

#[test]
fn auto_speaks_what_the_endpoint_agrees_on() {
    for (protocol, inner, via) in [
        ("auto", "[h1, h2]", "2 inner"),
        ("auto", "[h2]", "2 inner"),
        ("auto", "[h1]", "1.1 inner"),
        ("h1", "[h1, h2]", "1.1 inner"),
        ("h2", "[h1, h2]", "2 inner"),
    ] {
        let (outer, _inner, _endpoint) = through_tls(protocol, inner);
        for _ in 0..3 {
            outer.get("/").has_body(via);
            outer.connects_h2().get("/").has_body(via);
        }
    }
    let (outer, _inner, _endpoint) = through_tls("h2", "[h1]");
    outer.get("/").has_problem(502, "upstream-tls");
}

#[test]
fn auto_follows_an_endpoint_that_learns_another_version() {
    let a = certificate(&["127.0.0.1"]);
    let endpoint = upstream::responds(|request| ok(request.field("via").unwrap_or_default()));
    let inner = |address: &str, protocols: &str| {
        let text = format!(
            "forwarding: {{ via: inner }}\nlisteners: [{{ address: '{address}', \
             protocols: {protocols}, tls: {{ certificates: [{{ cert: a.pem, key: a.key }}] }} }}]"
        );
        let gateway = start_with(&text, &[&endpoint], &Certificate::files(&[("a", &a)]));
        gateway.unwrap_or_else(|error| panic!("{error}"))
    };
    let mut behind = inner("127.0.0.1:0", "[h1]");
    let address = behind.address();
    let text = format!(
        "{QUIET}\nupstreams: {{ u: {{ endpoints: $0, protocol: auto, tls: {{ ca: ca.pem }} }} }}"
    );
    let files = Certificate::files(&[("ca", &a), ("usual", usual())]);
    let outer = start_with(&text, &[&address], &files);
    let outer = outer.unwrap_or_else(|error| panic!("{error}"));
    outer.get("/").has_body("1.1 inner");
    for (protocols, via) in [("[h1, h2]", "2 inner"), ("[h1]", "1.1 inner"), ("[h2]", "2 inner")] {
        behind.drains();
        behind.waits_for_end();
        behind = inner(&address.to_string(), protocols);
        outer.get("/").has_body(via);
        outer.get("/").has_body(via);
    }
}

// field: limits.streams
#[test]
fn a_connection_has_as_many_streams_as_allowed() {
    let upstream = upstream::stalls();
    let gateway = gateway("limits: { streams: 3 }", &[&upstream]);
    let mut client = gateway.connects_h2();
    assert_eq!(client.setting(setting::MAX_CONCURRENT_STREAMS), Some(3));
    let streams: Vec<_> = (0..4).map(|_| client.asks(&Head::get("/"))).collect();
    assert_eq!(client.reset_of(streams[3]), code::REFUSED_STREAM);
    upstream.waits_for_requests(3);
    // One that is over makes room.
    client.resets(streams[0], code::CANCEL).pings();
    let stream = client.asks(&Head::get("/"));
    client.pings();
    assert_eq!(client.has_reset(stream), None);
    upstream.waits_for_requests(4);
}

// field: limits.stream_window
#[test]
fn a_stream_brings_as_much_as_its_window_allows() {
    for window in [65_536, 200_000] {
        let text = format!("limits: {{ stream_window: {window}B, connection_window: 1MiB }}");
        let none = [(setting::INITIAL_WINDOW_SIZE, 0)];
        let (_held, mut client, stream, _endpoint) =
            between_with(&text, &Head::post("/"), false, &none);
        assert_eq!(client.setting(setting::INITIAL_WINDOW_SIZE), Some(window));
        let sent = client.sends_until_blocked(stream, 4 << 20);
        assert_eq!(sent, window as usize);
    }
}

// field: limits.connection_window
#[test]
fn all_streams_bring_as_much_as_their_window_allows() {
    for window in [100_000, 300_000] {
        let text = format!("limits: {{ stream_window: 64KiB, connection_window: {window}B }}");
        let none = [(setting::INITIAL_WINDOW_SIZE, 0)];
        let (_held, mut client, stream, _endpoint) =
            between_with(&text, &Head::post("/"), false, &none);
        client.pings();
        let mut sent = client.sends_until_blocked(stream, 4 << 20);
        for _ in 0..5 {
            let stream = client.starts(&Head::post("/"));
            sent += client.sends_until_blocked(stream, 4 << 20);
        }
        assert_eq!(sent, window);
    }
}

#[test]
fn requests_look_alike_in_both_versions() {
    let head = Head::post("/a?b")
        .but(":authority", "host.example:81")
        .with("x", "1")
        .with("cookie", "a=1")
        .with("x", "2")
        .with("cookie", "b=2")
        .with("te", "trailers");
    let (_held, mut client, stream, mut endpoint) = between_h1("", &head, false);
    client.sends_data(stream, "abc", true);
    endpoint.expects(
        "POST /a?b HTTP/1.1\r\nHost: host.example:81\r\nx: 1\r\ncookie: a=1; b=2\r\nx: 2\r\n\
         Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    endpoint.sends(
        "HTTP/1.1 201 Created\r\nContent-Length: 2\r\nX-Y: Z\r\nConnection: x\r\nX: 1\r\n\r\nok",
    );
    let response = client.response(stream).has_status(201).has_body("ok");
    let response = response.has_field("x-y", "Z").has_field("content-length", "2");
    response.lacks("connection").lacks("x");

    let (_held, mut client, mut endpoint) = from_h1(
        "",
        "POST /a?b HTTP/1.1\r\nHost: Host.example:81\r\nX-Y: 1\r\nKeep-Alive: 1\r\n\
         Content-Length: 3\r\nConnection: close, x-z\r\nX-Z: 1\r\n\r\nabc",
    );
    let (stream, request) = endpoint.request();
    let fields: Vec<_> =
        request.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let wanted = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/a?b"),
        (":authority", "Host.example:81"),
        ("x-y", "1"),
        ("content-length", "3"),
    ];
    assert_eq!(fields, wanted);
    assert_eq!(request.text(), "abc");
    endpoint.responds(stream, &reply(201).with("x", "1"), "ok");
    let response = client.response().has_status(201).has_body("ok").has_field("x", "1");
    assert!(response.is_chunked(), "the length is not known");
}

#[test]
fn the_scheme_is_that_of_the_connection() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("", &[&upstream]);
    // What a client says of it is a claim.
    for claimed in ["http", "https"] {
        let mut client = gateway.connects_h2();
        let stream = client.asks(&Head::get("/").but(":scheme", claimed));
        client.response(stream).has_body("x");
    }
    for request in upstream.requests() {
        assert_eq!(request.field("x-forwarded-proto"), Some(scheme()));
        assert_eq!(request.field("host"), Some("a"));
    }
}

#[test]
fn responses_without_a_body_have_none() {
    let responses = |request: &titan_testkit::Request| match (&*request.method, &*request.target) {
        ("HEAD", _) => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec(),
        (_, "/204") => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        (_, "/304") => {
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"e\"\r\n\r\n".to_vec()
        }
        _ => ok(""),
    };
    for is_h2 in [false, true] {
        let listening = upstream::listens();
        let upstream =
            if is_h2 { listening.responds_h2(responses) } else { listening.responds(responses) };
        let gateway = gateway(if is_h2 { TO_H2 } else { "" }, &[&upstream]);
        let mut client = gateway.connects_h2();
        let mut old = gateway.connects();
        for (method, path, status, length) in [
            ("HEAD", "/", 200, Some("5")),
            ("GET", "/204", 204, None),
            ("GET", "/304", 304, Some("5")),
            ("GET", "/", 200, Some("0")),
        ] {
            let stream = client.asks(&Head::request(method, path));
            let response = client.response(stream).has_status(status).has_body("");
            assert_eq!(response.field("content-length"), length, "{method} {path} {is_h2}");
            let response = old
                .sends(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
                .response_to(method)
                .has_status(status)
                .has_body("");
            assert_eq!(response.field("content-length"), length, "{method} {path} {is_h2}");
        }
    }
}
