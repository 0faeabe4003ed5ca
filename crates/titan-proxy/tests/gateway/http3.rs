//! HTTP/3 as others see it who do not speak it: the UDP port, and what responses say of it. Clients that speak it are in
//! conformance/http3.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use titan_testkit::{Certificate, Gateway, Peer, certificate, start_with, waits_until};

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

/// Whether somebody speaks QUIC there: a version that nobody speaks is answered with those that are (RFC 9000 section 6.1).
fn speaks_quic(address: SocketAddr) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
    socket.connect(address).expect("it is an address");
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).expect("it can be set");
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
