//! HTTP/3 as others see it who do not speak it: the UDP port, and what responses say of it. Clients that speak it are in
//! conformance/http3.

mod client;

use crate::access_log::LogFile;
use client::{Client, End, remembering, request};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, ConnectionError, Endpoint, EndpointConfig};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{
    Certificate, Gateway, Listening, Owner, Peer, authority, certificate, start_with, waits_until,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

fn starts(listener: &str, certificate: &Certificate) -> Gateway {
    let text = text(listener);
    start_with(&text, &[], &Certificate::files(&[("a", certificate)]))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn text(listener: &str) -> String {
    format!(
        "listeners: [{{ name: s, address: '127.0.0.1:0', \
         tls: {{ certificates: {{ cert: a.pem, key: a.key }} }}, {listener} }}]\n\
         routes: [{{ path: /, respond: 204 }}]"
    )
}

/// A socket that sends there, and waits for what comes.
fn socket_to(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
    socket.connect(address).expect("it is an address");
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).expect("it can be set");
    socket
}

/// Whether somebody speaks QUIC there: a version that nobody speaks is answered with those that are (RFC 9000 section 6.1).
fn speaks_quic(address: SocketAddr) -> bool {
    let socket = socket_to(address);
    let mut initial = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    initial.extend_from_slice(b"to-there\x08from-heree");
    initial.resize(1200, 0);
    socket.send(&initial).expect("it is sent, whoever hears it");
    let mut answer = [0; 1500];
    // Where nobody is bound the kernel says so at once.
    let Ok(length) = socket.recv(&mut answer) else { return false };
    assert!(answer[0] & 0x80 != 0 && answer[1..5] == [0; 4], "{:x?}", &answer[..length]);
    assert_eq!(answer[5..23], *b"\x08from-her\x08to-there", "the ids are exchanged");
    answer[23..length].chunks(4).any(|version| version == [0, 0, 0, 1])
}

// field: listener.protocols
#[test]
fn http3_is_spoken_where_it_is_configured_also_after_a_reload() {
    let a = certificate(&["a.example"]);
    let gateway = starts("protocols: [h3, h2, h1]", &a);
    assert!(speaks_quic(gateway.address()));
    let reload = |listener: &str| {
        gateway.reloads(&text(listener), &[]).unwrap_or_else(|error| panic!("{error}"));
    };
    reload("protocols: [h2, h1]");
    // The socket is closed once its last connection is over; there was none.
    waits_until("the socket is closed", || !speaks_quic(gateway.address()));
    reload("protocols: h3");
    assert!(speaks_quic(gateway.address()));
    drop(gateway);
    let without = starts("max_connections: 10", &a);
    assert!(!speaks_quic(without.address()), "it is not spoken unless it is configured");
}

fn accepts_tcp(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

// field: listener.protocols
#[test]
fn http3_alone_has_no_tcp_port_also_after_a_reload() {
    let a = certificate(&["a.example"]);
    let alone = starts("protocols: h3", &a);
    assert!(speaks_quic(alone.address()) && !accepts_tcp(alone.address()));
    drop(alone);
    let gateway = starts("protocols: [h3, h1]", &a);
    let address = gateway.address();
    assert!(speaks_quic(address) && accepts_tcp(address));
    for (listener, has_tcp) in
        [("protocols: h3", false), ("protocols: [h3, h2]", true), ("protocols: h3", false)]
    {
        gateway.reloads(&text(listener), &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(gateway.address(), address);
        assert!(speaks_quic(address), "{listener}");
        assert_eq!(accepts_tcp(address), has_tcp, "{listener}");
    }
    gateway.reloads(&text("protocols: h1"), &[]).unwrap_or_else(|error| panic!("{error}"));
    waits_until("the socket is closed", || !speaks_quic(address));
    assert!(accepts_tcp(address), "it is the only one");
    gateway.reloads(&text("protocols: h3"), &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(speaks_quic(address) && !accepts_tcp(address));
    let routed =
        "protocols: h3, tls_routes: [{ names: b.example, mode: passthrough, upstream: u }]";
    let routed = format!("{}\nupstreams: {{ u: '127.0.0.1:1' }}", text(routed));
    gateway.reloads(&routed, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(accepts_tcp(address), "TLS routes are of TCP");
}

#[test]
fn http3_alone_is_handed_over_with_its_port_and_its_keys() {
    let a = certificate(&["a.example"]);
    let old = starts("protocols: [h3, h1]", &a);
    let address = old.address();
    let client = Arc::new(a.trusted());
    let resumes = || {
        let session = Certificate::client_with(&client, "a.example");
        let mut peer = Peer::connects(address).secures(session);
        peer.sends(GET).response().has_status(204);
        peer.has_resumed()
    };
    assert!(!resumes());
    let alone = old.hands_over_to(&text("protocols: h3"), &[]).unwrap();
    old.waits_for_end();
    assert_eq!(alone.address(), address);
    assert!(speaks_quic(address) && !accepts_tcp(address));
    let last = alone.hands_over_to(&text("protocols: [h3, h1]"), &[]).unwrap();
    assert_eq!(last.address(), address);
    assert!(speaks_quic(address) && resumes());
}

/// A listener that speaks these, with an upstream, on two workers.
fn proxying(protocols: &str) -> String {
    format!(
        "listeners: [{{ address: '127.0.0.1:0', tls: {{ certificates: {{ cert: a.pem, key: a.key }} }}, \
         protocols: {protocols} }}]\nworkers: 2\nupstreams: {{ u: $0 }}\n\
         routes: [{{ path: /own, respond: 204 }}, {{ prefix: /, upstream: u }}]"
    )
}

fn starts_proxying(a: &Certificate, upstream: &Listening) -> Gateway {
    start_with(&proxying("[h3, h1]"), &[upstream], &Certificate::files(&[("a", a)]))
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn http3_is_taken_away_and_given_back_while_connections_are_open() {
    const GOAWAY: u8 = 7;
    let (a, upstream) = (certificate(&["a.example"]), upstream::listens());
    let gateway = starts_proxying(&a, &upstream);
    let reload = |protocols: &str| {
        let reloaded = gateway.reloads(&proxying(protocols), &[&upstream]);
        reloaded.unwrap_or_else(|error| panic!("{error}"));
    };
    let mut before = Client::connects(gateway.address(), a.trusted());
    let under_way = before.asks("POST", "/");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    reload("[h2, h1]");
    before.waits("a GOAWAY", |client| {
        // The frames of a control stream here are shorter than 64 bytes.
        let mut frames = client.came_on_uni(0);
        while let [kind, length, rest @ ..] = frames {
            if *kind == GOAWAY {
                return Some(());
            }
            frames = rest.get(usize::from(*length)..)?;
        }
        None
    });
    reload("[h3, h1]");
    for _ in 0..8 {
        let mut client = Client::connects(gateway.address(), a.trusted());
        let stream = client.asks("GET", "/own");
        client.is_served(stream, 204);
        client.closes();
    }
    endpoint.sends(ok("x"));
    before.is_served(under_way, 200);
    before.closes();
}

#[test]
fn the_bytes_of_messages_are_those_that_come_and_go() {
    let (a, log) = (certificate(&["a.example"]), LogFile::new());
    let text = log.text("", &text("protocols: h3").replace("204", "{ body: hello! }"));
    let gateway = start_with(&text, &[], &Certificate::files(&[("a", &a)]))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut client = Client::connects(gateway.address(), a.trusted());
    let stream = client.asks("GET", "/");
    client.is_served(stream, 200);
    let [head, body] = client.payloads(stream)[..] else { panic!("it is no head with a body") };
    assert_eq!(body, 6);
    let record = log.record();
    assert_eq!(record["response_bytes"], head + body);
    // Behind the type of the frame and its length.
    assert_eq!(record["request_bytes"], request("GET", "/").len() - 3);
}

// field: listener.alt_svc, alt_svc.max_age, alt_svc.port
#[test]
fn responses_tell_of_http3_where_it_is_spoken() {
    let a = certificate(&["a.example"]);
    let told = |listener: &str| {
        let gateway = starts(listener, &a);
        let client = Peer::connects(gateway.address());
        let mut client = client.tries_to_secure(a.client("a.example")).unwrap();
        let response = client.sends(GET).response().has_status(204);
        response.all("Alt-Svc").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    // The port that the system has chosen means nothing to anybody.
    assert_eq!(told("protocols: [h3, h1]"), none);
    assert_eq!(told("protocols: [h3, h1], alt_svc: { port: 443 }"), ["h3=\":443\"; ma=86400"]);
    let both = "alt_svc: { port: 8443, max_age: 0s }";
    assert_eq!(told(&format!("protocols: [h3, h1], {both}")), ["h3=\":8443\"; ma=0"]);
    assert_eq!(told("protocols: [h3, h1], alt_svc: false"), none);
    assert_eq!(told(&format!("protocols: [h2, h1], {both}")), none, "it is not spoken");
}

#[test]
fn a_request_whose_head_does_not_come_is_refused_alone() {
    const REQUEST_REJECTED: u64 = 0x10b;
    let a = certificate(&["a.example"]);
    let text = format!("{}\ntimeouts: {{ head: 1s }}", text("protocols: [h3, h1]"));
    let gateway = start_with(&text, &[], &Certificate::files(&[("a", &a)]))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut client = Client::connects(gateway.address(), a.trusted());
    let head = request("GET", "/");
    let late = [0; 3].map(|_| {
        let stream = client.opens();
        client.sends(stream, &head[..head.len() - 1], false);
        stream
    });
    let other = client.asks("GET", "/");
    client.is_served(other, 204);
    assert_eq!(client.end_of(late[0]), End::Reset(REQUEST_REJECTED));
    let first = Instant::now();
    assert_eq!(client.end_of(late[1]), End::Reset(REQUEST_REJECTED));
    assert_eq!(client.end_of(late[2]), End::Reset(REQUEST_REJECTED));
    assert!(first.elapsed() < Duration::from_secs(1), "they have begun together");
    let next = client.asks("GET", "/");
    client.is_served(next, 204);
    client.closes();
}

#[test]
fn a_client_without_a_required_certificate_gets_an_alert() {
    /// The code of the alert certificate_required (RFC 9001 section 4.8).
    const CERTIFICATE_REQUIRED: u64 = 0x100 + 116;
    let (a, clients) = (certificate(&["a.example"]), authority("clients"));
    let mut files = Certificate::files(&[("a", &a)]);
    files.insert("ca.pem".into(), clients.cert.clone().into_bytes());
    let text = "listeners: [{ address: '127.0.0.1:0', protocols: [h3, h1], tls: { \
         certificates: { cert: a.pem, key: a.key }, client_certificates: { ca: ca.pem } } }]\n\
         routes: [{ path: /, respond: 204 }]";
    let gateway = start_with(text, &[], &files).unwrap_or_else(|error| panic!("{error}"));
    let own = clients.signs(Owner::default());
    let mut known = Client::connects(gateway.address(), a.trusted_by(Some(&own), "1.3"));
    let stream = known.asks("GET", "/");
    known.is_served(stream, 204);
    known.closes();
    let metrics = gateway.metrics();
    let refused = || {
        let failed = metrics.sum(|cells| cells.handshakes_failed.get());
        (metrics.sum(|cells| cells.certificates_refused.get()), failed)
    };
    assert_eq!(refused(), (0, 0));
    let mut unknown = Client::begins(gateway.address(), a.trusted());
    let ConnectionError::ConnectionClosed(close) = unknown.loss() else { panic!("it is served") };
    assert_eq!(u64::from(close.error_code), CERTIFICATE_REQUIRED);
    waits_until("it is counted", || refused() == (1, 1));
}

#[test]
fn a_connection_that_closes_counts_until_it_is_gone() {
    let a = certificate(&["a.example"]);
    let gateway = starts("protocols: [h3, h1], max_connections: 1", &a);
    let mut refused = 0;
    waits_until("a client is refused while another one is told of its end", || {
        let mut first = Client::begins(gateway.address(), a.trusted());
        if !first.is_accepted() {
            return false;
        }
        let mut second = Client::begins(gateway.address(), a.trusted());
        // DATA before any head.
        let stream = first.opens();
        first.sends(stream, &[0, 0], true);
        first.loss();
        refused += u32::from(!second.is_accepted());
        second.closes();
        refused > 0
    });
    waits_until("there is a place again", || {
        let mut third = Client::begins(gateway.address(), a.trusted());
        let is_accepted = third.is_accepted();
        third.closes();
        is_accepted
    });
}

/// The type of the packet that the first one of a client leads to (RFC 9000 section 17.2).
fn first_answer(gateway: &Gateway, trusted: &Certificate) -> u8 {
    let mut tls = trusted.trusted();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicClientConfig::try_from(tls).expect("it speaks TLS 1.3");
    let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
    let (now, config) = (Instant::now(), ClientConfig::new(Arc::new(tls)));
    let connected = endpoint.connect(now, config, gateway.address(), "a.example");
    let (_, mut connection) = connected.expect("it has an address");
    let mut initial = Vec::new();
    let first = connection.poll_transmit(now, 1, &mut initial).expect("it begins");
    assert_eq!(first.size, initial.len());
    let socket = socket_to(gateway.address());
    socket.send(&initial).expect("it is sent");
    let mut answer = [0; 1500];
    socket.recv(&mut answer).expect("somebody answers");
    answer[0] >> 4 & 3
}

// field: listener.retry_above
#[test]
fn clients_validate_their_addresses_where_many_handshakes_are_under_way() {
    const INITIAL: u8 = 0;
    const RETRY: u8 = 3;
    let a = certificate(&["a.example"]);
    let never = starts("protocols: [h3, h1]", &a);
    assert_eq!([0, 1].map(|_| first_answer(&never, &a)), [INITIAL; 2]);
    let always = starts("protocols: [h3, h1], retry_above: 0", &a);
    assert_eq!(first_answer(&always, &a), RETRY);
    let second = starts("protocols: [h3, h1], retry_above: 1", &a);
    assert_eq!([0, 1].map(|_| first_answer(&second, &a)), [INITIAL, RETRY], "one is under way");
    let metrics = always.metrics();
    waits_until("it is counted", || metrics.sum(|cells| cells.quic_retries.get()) == 1);
}

/// A gateway that takes early data, and what a client connects with that was there before.
fn starts_with_early_data(a: &Certificate, upstream: &Listening) -> (Gateway, ClientConfig) {
    let text = proxying("[h3, h1], early_data: true");
    let text = format!("{text}\ntimeouts: {{ handshake: 1s }}");
    let gateway = start_with(&text, &[upstream], &Certificate::files(&[("a", a)]))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut tls = a.trusted();
    tls.enable_early_data = true;
    let config = remembering(tls);
    let mut client = Client::comes(gateway.address(), config.clone());
    assert!(client.is_accepted());
    let stream = client.asks("GET", "/own");
    client.is_served(stream, 204);
    // It comes last.
    client.waits("a token", |client| {
        (client.connection.stats().frame_rx.new_token > 0).then_some(())
    });
    client.closes();
    (gateway, config)
}

// field: listener.early_data
#[test]
fn early_requests_are_served_before_the_handshake_is_complete() {
    let (a, upstream) = (certificate(&["a.example"]), upstream::listens());
    let (gateway, config) = starts_with_early_data(&a, &upstream);
    let metrics = gateway.metrics();
    let resumed = || metrics.sum(|cells| cells.handshakes[1][1].get());
    let mut client = Client::comes(gateway.address(), config);
    let waits = client.asks("POST", "/");
    let early = client.asks("GET", "/");
    let mut endpoint = upstream.accepts();
    let request = endpoint.request();
    assert_eq!((request.method.as_str(), request.message.field("Early-Data")), ("GET", Some("1")));
    assert_eq!(resumed(), 0, "the client has read nothing yet");
    endpoint.sends(ok("x"));
    client.is_served(early, 200);
    let request = endpoint.request();
    assert_eq!((request.method.as_str(), request.message.field("Early-Data")), ("POST", None));
    endpoint.sends(ok("x"));
    client.is_served(waits, 200);
    client.closes();
    assert_eq!(metrics.sum(|cells| cells.h3_early_requests.get()), 1);
    assert_eq!(resumed(), 1);
}

#[test]
fn a_client_that_sends_early_data_has_to_complete_its_handshake_in_time() {
    let (a, upstream) = (certificate(&["a.example"]), upstream::listens());
    let (gateway, config) = starts_with_early_data(&a, &upstream);
    let metrics = gateway.metrics();
    let open = || metrics.sum(|cells| cells.h3_opened.get() - cells.h3_closed.get());
    waits_until("the first connection has ended", || open() == 0);
    let mut client = Client::comes(gateway.address(), config);
    client.asks("GET", "/");
    client.asks("POST", "/");
    // The client reads nothing, and its requests end with the connection.
    upstream.accepts().request();
    assert_eq!(open(), 1);
    waits_until("the connection has ended", || open() == 0);
    assert_eq!(metrics.sum(|cells| cells.handshakes_failed.get()), 1);
}
