//! TLS routes: connections that go to an upstream by the name that the client asks for, without HTTP.

mod endpoints;

use crate::access_log::LogFile;
use crate::timeouts::takes;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use titan_proxy::{Files, TlsFailure, TlsRouteCells};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{
    Certificate, Gateway, Listening, Owner, Peer, authority, certificate, start_with, waits_until,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A gateway with these TLS routes, and with more at its listener and in the file.
struct Front<'f> {
    routes: &'f str,
    /// Behind the TLS routes of the listener.
    listener: &'f str,
    rest: &'f str,
}

/// Without certificates of its own.
const PLAIN: Front<'_> = Front { routes: "", listener: "", rest: "" };
/// HTTPS for `a.example`.
const HTTPS: &str = ", tls: { certificates: { cert: a.pem, key: a.key } }";
const PASS: &str = "{ names: db.example, mode: passthrough, upstream: u }";
const TERMINATE: &str = "{ names: a.example, mode: terminate, upstream: u }";

impl Front<'_> {
    fn text(&self) -> String {
        let Front { routes, listener, rest } = self;
        let upstreams =
            if rest.contains("upstreams:") { "" } else { "upstreams: { u: { endpoints: [$0] } }" };
        format!(
            "listeners: [{{ address: '127.0.0.1:0', tls_routes: [{routes}] {listener} }}]\n\
             routes: [{{ respond: 204 }}]\n{upstreams}\n{rest}"
        )
    }

    #[track_caller]
    fn starts(&self, upstreams: &[&dyn Display], files: &Files) -> Gateway {
        start_with(&self.text(), upstreams, files).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// What a client sends first that asks for `name`, or for none if that is an address.
fn hello(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = certificate(&["any.example"]).client(name).write_tls(&mut bytes);
    written.expect("there is room in memory");
    bytes
}

/// What a client of TLS 1.0 sends first: no signature algorithms, and ciphers that nobody has any more.
fn old_hello(name: &str) -> Vec<u8> {
    let counted = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).expect("it is short");
        [&length.to_be_bytes()[..], bytes].concat()
    };
    let names = counted(&[&[0][..], &counted(name.as_bytes())].concat());
    let extensions = counted(&[&[0, 0][..], &counted(&names)].concat());
    let body = [&[3, 1][..], &[9; 32], &[0, 0, 2, 0, 5, 1, 0], &extensions].concat();
    let message = [&[1, 0][..], &counted(&body)].concat();
    [&[22, 3, 1][..], &counted(&message)].concat()
}

/// A client that has sent its hello, and the endpoint that has got it.
#[track_caller]
fn passes(gateway: &Gateway, upstream: &Listening, name: &str) -> (Peer, Peer) {
    let (mut client, hello) = (Peer::connects(gateway.address()), hello(name));
    client.sends(&hello);
    let mut endpoint = upstream.accepts();
    endpoint.expects(&hello);
    (client, endpoint)
}

/// A figure of the first TLS route.
fn counted(gateway: &Gateway, figure: impl Fn(&TlsRouteCells) -> u64) -> u64 {
    gateway.status().tls_routes()[0].counted.sum(figure)
}

fn failed(gateway: &Gateway, failure: TlsFailure) -> u64 {
    counted(gateway, |cells| cells.failures[failure as usize].get())
}

/// Reads the alert that a client gets that no TLS was spoken with: fatal, and which.
#[track_caller]
fn expects_alert(client: &mut Peer, alert: u8) {
    client.expects([21, 3, 3, 0, 2, 2, alert]);
    client.expects_nothing_more();
}

// field: listener.tls_routes, tls_route.names, tls_route.upstream
#[test]
fn what_passes_through_is_between_client_and_endpoint() {
    let (ca, own) = (authority("clients"), certificate(&["db.example"]));
    let mut files = Certificate::files(&[("db", &own)]);
    let signed = ca.signs(Owner::default());
    files.insert("ca.pem".into(), ca.cert.clone().into_bytes());
    let text = "listeners: [{ address: '127.0.0.1:0', tls: { certificates: { cert: db.pem, key: db.key }, \
        client_certificates: { ca: ca.pem } } }]\nroutes: [{ respond: 204 }]";
    let endpoint = start_with(text, &[], &files).unwrap_or_else(|error| panic!("{error}"));
    let a = certificate(&["a.example"]);
    let front = Front { routes: PASS, listener: HTTPS, ..PLAIN };
    let gateway = front.starts(&[&endpoint.address()], &Certificate::files(&[("a", &a)]));
    for version in ["1.2", "1.3"] {
        let trusted = Arc::new(own.trusted_by(Some(&signed), version));
        let session = Certificate::client_with(&trusted, "db.example");
        let mut client = Peer::connects(gateway.address()).secures(session);
        client.sends(GET).response().has_status(204);
    }
    // Without a certificate the endpoint refuses the client, and the gateway does not mind.
    let mut client = Peer::connects(gateway.address()).secures(own.client("db.example"));
    assert!(client.sends(GET).alert().contains("CertificateRequired"));
    // Every other name is HTTPS.
    let mut client = Peer::connects(gateway.address()).secures(a.client("a.example"));
    client.sends(GET).response().has_status(204);
    assert_eq!(counted(&gateway, |cells| cells.opened.get()), 3);
}

// field: tls_route.mode
#[test]
fn what_is_terminated_goes_on_as_plain_bytes() {
    let (a, upstream) = (certificate(&["a.example"]), upstream::listens());
    let front = Front { routes: TERMINATE, listener: HTTPS, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Certificate::files(&[("a", &a)]));
    // No protocol is up for agreement: a listener that offers those of HTTP refuses a client that offers others.
    let session = a.client_of_protocols("a.example", &["postgresql"]);
    let mut client = Peer::connects(gateway.address()).secures(session);
    let mut endpoint = upstream.accepts();
    endpoint.sends("220 hello\r\n");
    client.expects("220 hello\r\n");
    for text in ["EHLO a\r\n", "\0\x01\x02"] {
        client.sends(text);
        endpoint.expects(text);
    }
    let large = vec![b'x'; 1 << 20];
    endpoint.sends(&large);
    client.expects(&large);
    // Each direction ends by itself.
    endpoint.finishes();
    client.expects_close();
    client.sends("last words");
    endpoint.expects("last words");
    client.finishes();
    endpoint.expects_close();
    waits_until("it to be over", || counted(&gateway, TlsRouteCells::open) == 0);
    let (received, sent) =
        (counted(&gateway, |it| it.received.get()), counted(&gateway, |it| it.sent.get()));
    assert_eq!((received, sent), (8 + 3 + 10, 11 + (1 << 20)));
    assert_eq!(TlsFailure::ALL.map(|failure| failed(&gateway, failure)), [0; 4]);
}

#[test]
fn what_is_decrypted_is_encrypted_anew_for_an_upstream_with_tls() {
    let (a, own) = (certificate(&["a.example"]), certificate(&["127.0.0.1"]));
    let text = "listeners: [{ address: '127.0.0.1:0', tls: { certificates: { cert: db.pem, key: db.key } } }]\n\
        routes: [{ respond: 204 }]";
    let endpoint = start_with(text, &[], &Certificate::files(&[("db", &own)]));
    let endpoint = endpoint.unwrap_or_else(|error| panic!("{error}"));
    let rest = "upstreams: { u: { endpoints: [$0], tls: { ca: db.pem } } }";
    let front = Front { routes: TERMINATE, listener: HTTPS, rest };
    let files = Certificate::files(&[("a", &a), ("db", &own)]);
    let gateway = front.starts(&[&endpoint.address()], &files);
    let mut client = Peer::connects(gateway.address()).secures(a.client("a.example"));
    client.sends(GET).response().has_status(204);
}

#[test]
fn the_most_specific_name_decides_and_the_rest_goes_where_nothing_is_named() {
    let all = [(); 3].map(|()| upstream::listens());
    let routes = "{ names: '*.example', mode: passthrough, upstream: u }, \
        { names: [b.example, '*.c.example'], mode: passthrough, upstream: v }, \
        { mode: passthrough, upstream: w }";
    let rest =
        "upstreams: { u: { endpoints: [$0] }, v: { endpoints: [$1] }, w: { endpoints: [$2] } }";
    let front = Front { routes, rest, ..PLAIN };
    let addresses = [0, 1, 2].map(|place| all[place].address());
    let [u, v, w] = &addresses;
    let gateway = front.starts(&[u, v, w], &Files::default());
    for (name, place) in [
        ("a.example", 0),
        ("x.y.example", 0),
        ("B.Example", 1),
        ("a.c.example", 1),
        ("c.example", 0),
        ("other.test", 2),
        // It asks for no name.
        ("127.0.0.1", 2),
    ] {
        let (mut client, hello) = (Peer::connects(gateway.address()), hello(name));
        client.sends(&hello);
        all[place].accepts().expects(&hello);
    }
}

#[test]
fn a_name_of_a_wildcard_may_be_https() {
    let (a, upstream) = (certificate(&["a.example"]), upstream::listens());
    let routes = "{ names: '*.example', mode: passthrough, upstream: u }, \
        { names: a.example, mode: https }, { mode: passthrough, upstream: u }";
    let front = Front { routes, listener: HTTPS, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Certificate::files(&[("a", &a)]));
    let session = a.client_of_protocols("a.example", &["http/1.1"]);
    let mut client = Peer::connects(gateway.address()).secures(session);
    client.sends(GET).response().has_status(204);
    for other in ["b.example", "x.a.example", "a.test"] {
        passes(&gateway, &upstream, other);
    }
    let counted: Vec<_> =
        gateway.status().tls_routes().into_iter().map(|it| it.name.route).collect();
    assert_eq!(counted, ["*.example", "*"]);
}

#[test]
fn old_clients_pass_through() {
    let upstream = upstream::listens();
    let gateway = Front { routes: PASS, ..PLAIN }.starts(&[&upstream.address()], &Files::default());
    let (mut client, hello) = (Peer::connects(gateway.address()), old_hello("DB.example"));
    client.sends(&hello);
    upstream.accepts().expects(&hello);
    // Where the name leads nowhere that is said, and not that there was no hello.
    let mut client = Peer::connects(gateway.address());
    client.sends(old_hello("other.example"));
    expects_alert(&mut client, 112);
}

#[test]
fn a_hello_may_come_byte_by_byte() {
    let upstream = upstream::listens();
    let gateway = Front { routes: PASS, ..PLAIN }.starts(&[&upstream.address()], &Files::default());
    let (mut client, hello) = (Peer::connects(gateway.address()), hello("db.example"));
    client.sends_slowly(&hello);
    client.sends("early");
    let mut endpoint = upstream.accepts();
    endpoint.expects(&hello).expects("early");
    endpoint.sends("reply");
    client.expects("reply");
}

#[test]
fn what_leads_nowhere_is_refused_with_an_alert() {
    let upstream = upstream::listens();
    let front = Front { routes: PASS, rest: "timeouts: { handshake: 1s, idle: 20s }", ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    for name in ["other.example", "x.db.example", "127.0.0.1"] {
        let hello = hello(name);
        let mut client = Peer::connects(gateway.address());
        client.sends(hello);
        expects_alert(&mut client, 112);
    }
    let no_hello = [&b"\x16\x03\x01\0\x04"[..], &[2, 0, 0, 0]].concat();
    let record = [&b"\x16\x03\x01\x10\0"[..], &[0; 4_096]].concat();
    let mut endless = record.repeat(5);
    endless[5..9].copy_from_slice(&[1, 0, 255, 255]);
    for bytes in [no_hello, endless] {
        let mut client = Peer::connects(gateway.address());
        client.offers(&bytes);
        expects_alert(&mut client, 50);
    }
    let mut client = Peer::connects(gateway.address());
    client.sends(GET);
    client.response().has_status(400);
    let mut client = Peer::connects(gateway.address());
    client.offers("\0\0\0");
    client.rest();
    // One that does not end, and one that never begins.
    for begun in [&hello("db.example")[..60], b""] {
        takes(Duration::from_secs(1), || {
            let mut client = Peer::connects(gateway.address());
            client.sends(begun).expects_close();
        });
    }
    let failed = || gateway.metrics().sum(|cells| cells.handshakes_failed.get());
    waits_until("all but the silent one to be counted", || failed() == 8);
    let refused = gateway.refused_handshakes();
    let told: Vec<_> = refused.iter().map(|it| (it.code, it.count)).collect();
    assert_eq!(told, [("handshake", 6), ("plain", 1), ("gone", 1)]);
    upstream.expects_no_connection();
}

#[test]
fn a_loss_is_passed_on_as_a_loss() {
    let (a, upstream) = (certificate(&["a.example"]), upstream::listens());
    let routes = format!("{TERMINATE}, {PASS}");
    let front = Front { routes: &routes, listener: HTTPS, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Certificate::files(&[("a", &a)]));
    let mut client = Peer::connects(gateway.address()).secures(a.client("a.example"));
    let mut endpoint = upstream.accepts();
    // Before that the reset may come while the gateway connects, which is another failure.
    client.sends("a");
    endpoint.expects("a");
    endpoint.resets();
    assert!(client.is_cut_short());
    let client = Peer::connects(gateway.address()).secures(a.client("a.example"));
    let mut endpoint = upstream.accepts();
    client.resets();
    endpoint.expects_reset();
    let counts = || [TlsFailure::Endpoint, TlsFailure::Client].map(|it| failed(&gateway, it));
    waits_until("both to be counted", || counts() == [1, 1]);
    // Its session had not announced that.
    let client = Peer::connects(gateway.address()).secures(a.client("a.example"));
    let mut endpoint = upstream.accepts();
    client.closes();
    endpoint.expects_reset();
    let (client, mut endpoint) = passes(&gateway, &upstream, "db.example");
    client.resets();
    endpoint.expects_reset();
    let (mut client, endpoint) = passes(&gateway, &upstream, "db.example");
    endpoint.resets();
    client.expects_reset();
}

#[test]
fn an_idle_connection_is_closed() {
    let upstream = upstream::listens();
    let front = Front { routes: PASS, rest: "timeouts: { tunnel: 300ms, idle: 20s }", ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    let (mut client, mut endpoint) = passes(&gateway, &upstream, "db.example");
    takes(Duration::from_millis(300), || client.expects_close());
    endpoint.expects_close();
    waits_until("it to be counted", || failed(&gateway, TlsFailure::Idle) == 1);
}

#[test]
fn connections_are_given_the_time_of_a_drain() {
    let upstream = upstream::listens();
    let front = Front { routes: PASS, rest: "timeouts: { drain: 60s }", ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    let (mut client, mut endpoint) = passes(&gateway, &upstream, "db.example");
    gateway.drains();
    client.sends("more");
    endpoint.expects("more");
    endpoint.sends("reply").finishes();
    client.expects("reply").expects_nothing_more();
    endpoint.expects_close();
    gateway.waits_for_end();
}

#[test]
fn a_reload_leads_new_connections_elsewhere() {
    let (before, after) = (upstream::listens(), upstream::listens());
    let front = Front { routes: PASS, ..PLAIN };
    let gateway = front.starts(&[&before.address()], &Files::default());
    let (mut client, mut endpoint) = passes(&gateway, &before, "db.example");
    gateway.reloads(&front.text(), &[&after.address()]).unwrap();
    let (_other, _reached) = passes(&gateway, &after, "db.example");
    client.sends("more");
    endpoint.expects("more");
    waits_until("the configuration before to be let go", || gateway.retired() == 0);
    assert_eq!(counted(&gateway, |cells| cells.opened.get()), 2, "a reload counts on");
    // Without TLS routes the listener is one of HTTP.
    gateway.reloads("listeners: ['127.0.0.1:0']\nroutes: [{ respond: 204 }]", &[]).unwrap();
    Peer::connects(gateway.address()).sends(GET).response().has_status(204);
}

#[test]
fn a_connection_without_tls_is_not_served_once_there_are_tls_routes() {
    let upstream = upstream::listens();
    let plain = "listeners: ['127.0.0.1:0']\nroutes: [{ respond: 204 }]";
    let gateway = start_with(plain, &[], &Files::default()).unwrap_or_else(|it| panic!("{it}"));
    let mut client = Peer::connects(gateway.address());
    client.sends(GET).response().has_status(204);
    let front = Front { routes: PASS, ..PLAIN };
    gateway.reloads(&front.text(), &[&upstream.address()]).unwrap();
    client.sends(GET).response().has_problem(421, "connection-outdated");
    client.expects_close();
    gateway.reloads(plain, &[]).unwrap();
    Peer::connects(gateway.address()).sends(GET).response().has_status(204);
}

#[test]
fn the_limits_of_the_listener_apply() {
    let upstream = upstream::listens();
    let listener = ", proxy_protocol: { from: [127.0.0.2] }, max_connections_per_client: 1";
    let front = Front { routes: PASS, listener, ..PLAIN };
    let gateway = front.starts(&[&upstream.address()], &Files::default());
    let hello = hello("db.example");
    let connects = |client: &str| {
        let mut peer = Peer::connects_from("127.0.0.2", gateway.address());
        peer.offers(format!("PROXY TCP4 {client} 192.0.2.9 1 2\r\n")).offers(&hello);
        peer
    };
    let _first = connects("192.0.2.1");
    let mut endpoint = upstream.accepts();
    endpoint.expects(&hello);
    connects("192.0.2.1").rest();
    assert_eq!(gateway.metrics().sum(|cells| cells.refused.get()), 1);
    let _other = connects("192.0.2.2");
    upstream.accepts().expects(&hello);
}

#[test]
fn requests_over_https_are_served_as_ever() {
    let (a, upstream) = (certificate(&["a.example"]), upstream::replies(ok("x")));
    let front = Front { routes: PASS, listener: HTTPS, ..PLAIN };
    let gateway = front.starts(&[&upstream], &Certificate::files(&[("a", &a)]));
    let session = a.client_of_protocols("a.example", &["http/1.1"]);
    let mut client = Peer::connects(gateway.address()).secures(session);
    for _ in 0..2 {
        client.sends(GET).response().has_status(204);
    }
}

#[test]
fn the_end_of_a_connection_is_told_in_the_access_log() {
    let (log, upstream, down) = (LogFile::new(), upstream::listens(), upstream::refuses());
    let upstreams = "upstreams: { u: { endpoints: [$0] }, down: { endpoints: [$1] } }";
    let rest = log.text("", upstreams);
    let routes = format!("{PASS}, {{ names: down.example, mode: passthrough, upstream: down }}");
    let front = Front { routes: &routes, rest: &rest, ..PLAIN };
    let gateway = front.starts(&[&upstream.address(), &down], &Files::default());
    let (mut client, mut endpoint) = passes(&gateway, &upstream, "db.example");
    endpoint.sends("seven!!");
    client.expects("seven!!");
    client.finishes();
    endpoint.expects_close();
    endpoint.closes();
    client.expects_nothing_more();
    let record = log.records(1).remove(0);
    let endpoint_address = upstream.address().to_string();
    for (name, wanted) in [
        ("event", "connection"),
        ("protocol", "TLS"),
        ("scheme", "tls"),
        ("sni", "db.example"),
        ("route", "db.example"),
        ("upstream", "u"),
        ("endpoint", endpoint_address.as_str()),
        ("client", "127.0.0.1"),
    ] {
        assert_eq!(record[name], wanted, "{record:#}");
    }
    let size = hello("db.example").len();
    assert_eq!([&record["request_bytes"], &record["response_bytes"]], [size, 7]);
    assert_eq!((&record["complete"], record.get("status")), (&true.into(), None));
    let mut client = Peer::connects(gateway.address());
    client.sends(hello("down.example")).expects_reset();
    let record = log.records(2).remove(1);
    assert_eq!([&record["error"], &record["caused_by"]], ["connect", "upstream"], "{record:#}");
    assert_eq!((&record["complete"], &record["sni"]), (&false.into(), &"down.example".into()));
}

// field: listener.tcp
#[test]
fn nothing_is_read_of_what_a_tcp_listener_takes() {
    let (log, upstream) = (LogFile::new(), upstream::listens());
    let text = format!(
        "listeners: [{{ address: '127.0.0.1:0', tcp: u }}]\nroutes: [{{ respond: 204 }}]\n\
         upstreams: {{ u: {{ endpoints: [$0] }} }}\n{}",
        log.text("", "")
    );
    let gateway = start_with(&text, &[&upstream.address()], &Files::default());
    let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    let mut client = Peer::connects(gateway.address());
    let mut endpoint = upstream.accepts();
    // The server speaks first, and what is no TLS and no HTTP comes through.
    endpoint.sends("220 hello\r\n");
    client.expects("220 hello\r\n");
    client.sends("EHLO \0\x01\r\n");
    endpoint.expects("EHLO \0\x01\r\n");
    client.finishes();
    endpoint.expects_close();
    endpoint.closes();
    client.expects_nothing_more();
    assert_eq!(counted(&gateway, |cells| cells.opened.get()), 1);
    let record = log.records(1).remove(0);
    let told = [&record["event"], &record["protocol"], &record["scheme"], &record["route"]];
    assert_eq!(told, ["connection", "TCP", "tcp", "*"], "{record:#}");
}
