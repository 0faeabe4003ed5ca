//! Names of endpoints, with a name server that does what the test says.

use crate::client::Client;
use crate::gateway::Gateway;
use crate::place::{own_address, own_ip};
use crate::upstream;
use crate::wait::{eventually, until};
use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How a name is answered.
#[derive(Clone, Debug)]
enum Reply {
    /// These addresses, for so many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// The same, but over UDP only a hint to ask over TCP.
    OverTcp(Vec<IpAddr>, u32),
    /// The same for IPv4; questions for IPv6 are never answered.
    NoWordOnIpv6(Vec<IpAddr>, u32),
    /// Nothing at all.
    Silence,
    /// An error code, such as 3 for a name that does not exist.
    Error(u8),
}

/// A name server; serves until the test ends.
#[derive(Clone)]
struct NameServer {
    address: SocketAddr,
    names: Arc<Mutex<HashMap<String, Reply>>>,
    /// When which name was asked for its IPv4 addresses.
    asked: Arc<Mutex<Vec<(Instant, String)>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

const A: u16 = 1;
const AAAA: u16 = 28;
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;

impl NameServer {
    fn start() -> NameServer {
        let address = own_address();
        let (names, asked) = (Arc::default(), Arc::default());
        let server = NameServer { address, names, asked };
        let (udp, tcp) = (UdpSocket::bind(address).unwrap(), TcpListener::bind(address).unwrap());
        let (over_udp, over_tcp) = (server.clone(), server.clone());
        thread::spawn(move || over_udp.serve_udp(&udp));
        thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let server = over_tcp.clone();
                thread::spawn(move || server.serve_tcp(stream));
            }
        });
        server
    }

    fn answers(&self, name: &str, reply: Reply) {
        self.names.lock().unwrap().insert(name.to_owned(), reply);
    }

    /// When that name was asked for.
    fn asked_for(&self, name: &str) -> Vec<Instant> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(_, asked)| asked == name).map(|(at, _)| *at).collect()
    }

    /// Waits until that name was asked for `more` times from now on.
    fn is_asked_again(&self, name: &str, more: usize) {
        let before = self.asked_for(name).len();
        until("the name is asked for again", || self.asked_for(name).len() >= before + more);
    }

    fn serve_udp(&self, socket: &UdpSocket) {
        let mut query = [0; 4096];
        loop {
            let (length, from) = socket.recv_from(&mut query).unwrap();
            if let Some(answer) = self.answer(&query[..length], Transport::Udp) {
                let _ = socket.send_to(&answer, from);
            }
        }
    }

    fn serve_tcp(&self, mut stream: TcpStream) -> Option<()> {
        loop {
            let mut length = [0; 2];
            stream.read_exact(&mut length).ok()?;
            let mut query = vec![0; u16::from_be_bytes(length).into()];
            stream.read_exact(&mut query).ok()?;
            let answer = self.answer(&query, Transport::Tcp)?;
            stream.write_all(&u16::try_from(answer.len()).unwrap().to_be_bytes()).ok()?;
            stream.write_all(&answer).ok()?;
        }
    }

    fn answer(&self, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let (name, kind, end) = question(query);
        if kind == A {
            self.asked.lock().unwrap().push((Instant::now(), name.clone()));
        }
        let reply = self.names.lock().unwrap().get(&name).cloned();
        let message = |error, truncated, addresses: &[IpAddr], ttl| {
            Some(message(&query[..end], error, truncated, &records(kind, addresses, ttl)))
        };
        match reply.unwrap_or(Reply::Error(NO_SUCH_NAME)) {
            Reply::OverTcp(..) if transport == Transport::Udp => message(0, true, &[], 0),
            Reply::NoWordOnIpv6(..) if kind == AAAA => None,
            Reply::Addresses(addresses, ttl)
            | Reply::OverTcp(addresses, ttl)
            | Reply::NoWordOnIpv6(addresses, ttl) => message(0, false, &addresses, ttl),
            Reply::Silence => None,
            Reply::Error(code) => message(code, false, &[], 0),
        }
    }
}

/// The name, the type, and where the question ends (RFC 1035 section 4.1.2).
fn question(query: &[u8]) -> (String, u16, usize) {
    const HEADER: usize = 12;
    let (mut labels, mut at) = (Vec::new(), HEADER);
    while query[at] > 0 {
        let length = usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..=at + length]).to_lowercase());
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    (labels.join("."), kind, at + 5)
}

/// The addresses that are of that type, as resource records.
fn records(kind: u16, addresses: &[IpAddr], ttl: u32) -> Vec<Vec<u8>> {
    let fitting = addresses.iter().filter(|address| address.is_ipv4() == (kind == A));
    let record = |address: &IpAddr| {
        let data = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        const NAME_OF_THE_QUESTION: [u8; 2] = [0xc0, 12];
        const INTERNET: [u8; 2] = [0, 1];
        let length = u16::try_from(data.len()).unwrap().to_be_bytes();
        [&NAME_OF_THE_QUESTION[..], &kind.to_be_bytes(), &INTERNET, &ttl.to_be_bytes(), &length]
            .concat()
            .into_iter()
            .chain(data)
            .collect()
    };
    fitting.map(record).collect()
}

/// The answer to a query, which is repeated at its beginning.
fn message(query: &[u8], error: u8, truncated: bool, records: &[Vec<u8>]) -> Vec<u8> {
    const RESPONSE_AND_RECURSION_DESIRED: u8 = 0x81;
    const RECURSION_AVAILABLE: u8 = 0x80;
    let count = u16::try_from(records.len()).unwrap().to_be_bytes();
    let mut message = query.to_vec();
    message[2] = RESPONSE_AND_RECURSION_DESIRED | u8::from(truncated) << 1;
    message[3] = RECURSION_AVAILABLE | error;
    message[4..12].copy_from_slice(&[0, 1, count[0], count[1], 0, 0, 0, 0]);
    message.extend(records.concat());
    message
}

/// Upstreams on one port of several addresses; each responds with its address.
fn upstreams(count: usize) -> (Vec<IpAddr>, u16) {
    let mut port = 0;
    let serve = |ip: IpAddr| {
        let listener = TcpListener::bind((ip, port)).unwrap();
        port = upstream::serve(listener, move |_| ip.to_string()).port();
        ip
    };
    let addresses = (0..count).map(|_| own_ip()).map(serve).collect();
    (addresses, port)
}

/// A gateway that sends everything to `backend.test`, and `/fixed` nowhere.
fn gateway(server: &NameServer, port: u16, resolver: &str) -> Gateway {
    let nameserver = server.address;
    Gateway::start(&format!(
        "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: off\n\
         routes: [{{ upstream: it }}, {{ path: /fixed, respond: 200 }}]\n\
         upstreams: {{ it: \"backend.test:{port}\" }}\n\
         resolver: {{ nameservers: [\"{nameserver}\"], {resolver} }}\n"
    ))
}

/// Status and body of the response to a GET.
fn get(gateway: &Gateway, path: &str) -> (u16, String) {
    let mut client = Client::connect(gateway.address()).unwrap();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let response = client.response().unwrap();
    (response.status, response.text().to_owned())
}

/// Who responds to some requests.
fn who(gateway: &Gateway) -> BTreeSet<String> {
    let responses = (0..12).map(|_| get(gateway, "/"));
    responses
        .map(|(status, text)| {
            assert_eq!(status, 200, "{text}");
            text
        })
        .collect()
}

fn texts(addresses: &[IpAddr]) -> BTreeSet<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn every_address_of_a_name_is_used() {
    let (addresses, port) = upstreams(3);
    let server = NameServer::start();
    server.answers("backend.test", Reply::Addresses(addresses.clone(), 60));
    let gateway = gateway(&server, port, "");
    assert_eq!(who(&gateway), texts(&addresses));
}

#[test]
fn ipv6_addresses_are_used_too() {
    let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else {
        eprintln!("not tested: this machine has no IPv6");
        return;
    };
    let port = listener.local_addr().unwrap().port();
    let four = own_ip();
    upstream::serve(listener, |_| "::1".to_owned());
    upstream::serve(TcpListener::bind((four, port)).unwrap(), move |_| four.to_string());
    let both = [four, Ipv6Addr::LOCALHOST.into()];
    let server = NameServer::start();
    server.answers("backend.test", Reply::Addresses(both.to_vec(), 60));
    let gateway = gateway(&server, port, "");
    assert_eq!(who(&gateway), texts(&both));
}

#[test]
fn another_answer_is_followed_when_the_first_expires() {
    let (addresses, port) = upstreams(3);
    let server = NameServer::start();
    server.answers("backend.test", Reply::Addresses(addresses[..2].to_vec(), 1));
    let gateway = gateway(&server, port, "min_ttl: 100ms");
    assert_eq!(who(&gateway), texts(&addresses[..2]));
    server.answers("backend.test", Reply::Addresses(addresses[1..].to_vec(), 1));
    until("the new address is used", || who(&gateway) == texts(&addresses[1..]));
    assert_eq!(who(&gateway), texts(&addresses[1..]), "and the old one no more");
}

#[test]
fn names_that_swap_their_addresses_keep_their_hosts() {
    let mut port = 0;
    let addresses = [own_ip(), own_ip()].map(|ip| {
        let listener = TcpListener::bind((ip, port)).unwrap();
        let host = |request: &upstream::Request| request.field("Host").unwrap().to_owned();
        port = upstream::serve(listener, move |request| format!("{ip} {}", host(request))).port();
        ip
    });
    let server = NameServer::start();
    let set = |names: [&str; 2]| {
        for (name, address) in names.into_iter().zip(addresses) {
            server.answers(&format!("{name}.test"), Reply::Addresses(vec![address], 1));
        }
        let pairs = names.into_iter().zip(addresses);
        pairs.map(|(name, address)| format!("{address} {name}.test:{port}")).collect()
    };
    let straight: BTreeSet<String> = set(["a", "b"]);
    let gateway = Gateway::start(&format!(
        "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: off\n\
         routes: [{{ upstream: it, send_host: endpoint }}]\n\
         upstreams: {{ it: [\"a.test:{port}\", \"b.test:{port}\"] }}\n\
         resolver: {{ nameservers: [\"{}\"], min_ttl: 100ms }}\n",
        server.address
    ));
    assert_eq!(who(&gateway), straight);
    let swapped = set(["b", "a"]);
    until("each name has the other's address", || who(&gateway) == swapped);
}

#[test]
fn an_answer_too_long_for_udp_comes_over_tcp() {
    let (addresses, port) = upstreams(2);
    let server = NameServer::start();
    server.answers("backend.test", Reply::OverTcp(addresses.clone(), 60));
    let gateway = gateway(&server, port, "");
    assert_eq!(who(&gateway), texts(&addresses));
}

#[test]
fn while_no_answer_comes_the_last_addresses_stay() {
    let (addresses, port) = upstreams(2);
    let server = NameServer::start();
    let good = Reply::Addresses(addresses.clone(), 0);
    server.answers("backend.test", good.clone());
    let gateway = gateway(&server, port, "min_ttl: 100ms, timeout: 200ms");
    for bad in [Reply::Silence, Reply::Error(SERVER_FAILURE), Reply::Error(NO_SUCH_NAME)] {
        server.answers("backend.test", bad.clone());
        // The second question is proof that the first was given up.
        server.is_asked_again("backend.test", 3);
        assert_eq!(who(&gateway), texts(&addresses), "{bad:?}");
        server.answers("backend.test", good.clone());
        server.is_asked_again("backend.test", 2);
    }
}

#[test]
fn a_name_without_addresses_keeps_nothing_else_from_working() {
    let (addresses, port) = upstreams(1);
    let server = NameServer::start();
    let gateway = gateway(&server, port, "");
    let (status, text) = get(&gateway, "/");
    assert_eq!(status, 503);
    assert!(text.contains("urn:titan:problem:no-endpoint"), "{text}");
    assert_eq!(get(&gateway, "/fixed").0, 200);
    let says = || std::fs::read_to_string(gateway.folder.path().join("stderr")).unwrap();
    let name = ["upstream=it code=name", "backend.test does not resolve: the name does not exist"];
    until("the name to be told of", || name.iter().all(|words| says().contains(words)));
    let requests = "warn upstream upstream=it code=no-endpoint route=root request_id=";
    until("the request to be told of", || says().contains(requests));
    server.answers("backend.test", Reply::Addresses(addresses, 60));
    until("the name is tried again", || get(&gateway, "/").0 == 200);
}

#[test]
fn a_silent_name_server_is_waited_for_once_and_not_longer_than_its_timeout() {
    let server = NameServer::start();
    let started = Instant::now();
    let upstreams = (0..12).map(|i| format!("n{i}: \"n{i}.test:80\"")).collect::<Vec<_>>();
    let routes = (0..12).map(|i| format!("{{ path: /{i}, upstream: n{i} }}")).collect::<Vec<_>>();
    (0..12).for_each(|i| server.answers(&format!("n{i}.test"), Reply::Silence));
    let gateway = Gateway::start(&format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{}]\nupstreams: {{ {} }}\n\
         resolver: {{ nameservers: [\"{}\"], timeout: 1s }}\n",
        routes.join(", "),
        upstreams.join(", "),
        server.address
    ));
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(1), "{took:?}: the timeout is not waited for");
    assert!(took < Duration::from_secs(6), "{took:?}: one name waits for the other");
    assert_eq!(get(&gateway, "/7").0, 503);
}

#[test]
fn half_an_answer_is_better_than_none() {
    let (addresses, port) = upstreams(2);
    let server = NameServer::start();
    server.answers("backend.test", Reply::NoWordOnIpv6(addresses.clone(), 60));
    let gateway = gateway(&server, port, "timeout: 1s");
    assert_eq!(who(&gateway), texts(&addresses));
}

/// How long it took from one question to the next, for an answer of that time to live.
fn pauses(ttl: u32, resolver: &str) -> Vec<Duration> {
    let server = NameServer::start();
    server.answers("backend.test", Reply::Addresses(vec![own_ip()], ttl));
    let _gateway = gateway(&server, 80, resolver);
    let asked = eventually("three questions", || {
        let asked = server.asked_for("backend.test");
        (asked.len() >= 3).then_some(asked)
    });
    asked.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn an_answer_is_kept_for_its_time_to_live_within_bounds() {
    let second = Duration::from_secs(1);
    let cases = [
        ("ttl", 1, "min_ttl: 100ms, max_ttl: 1h"),
        ("min_ttl", 0, "min_ttl: 1s, max_ttl: 1h"),
        ("max_ttl", 3600, "min_ttl: 100ms, max_ttl: 1s"),
    ];
    for (bound, ttl, resolver) in cases {
        for pause in pauses(ttl, resolver) {
            assert!(pause >= second - Duration::from_millis(100), "{bound}: {pause:?}");
        }
    }
}
