//! Names of endpoints, asked of a scripted name server.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{gateway, waits_until};

/// A name server that gives every name the same IPv4 addresses, and remembers when it was asked for them.
struct NameServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Instant>>>,
    serving: Option<JoinHandle<()>>,
}

/// The type of an address record (RFC 1035 section 3.2.2).
const A: [u8; 2] = [0, 1];

impl NameServer {
    /// One that says nothing where there are no addresses.
    fn start(addresses: &[Ipv4Addr], ttl: u32) -> NameServer {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = socket.local_addr().expect("a bound socket has an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, addresses) = (Arc::clone(&asked), addresses.to_vec());
        let serving = thread::spawn(move || serve(&socket, &log, &addresses, ttl));
        NameServer { address, asked, serving: Some(serving) }
    }

    fn asked(&self) -> Vec<Instant> {
        self.asked.lock().expect("the server has not panicked").clone()
    }

    /// The time between its first questions.
    fn pauses(&self, count: usize) -> Vec<Duration> {
        waits_until("the name to be asked for again", || self.asked().len() > count);
        self.asked().windows(2).take(count).map(|pair| pair[1] - pair[0]).collect()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        // Too short for a question: the server takes it for the end.
        socket.send_to(&[], self.address).expect("loopback takes it");
        self.serving.take().map(JoinHandle::join);
    }
}

fn serve(socket: &UdpSocket, log: &Mutex<Vec<Instant>>, addresses: &[Ipv4Addr], ttl: u32) {
    let mut question = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut question) {
        let Some(end) = end_of_question(&question[..length]) else { return };
        let is_address = question[end - 4..end - 2] == A;
        if is_address {
            log.lock().expect("nobody panics with it").push(Instant::now());
        }
        if addresses.is_empty() {
            continue;
        }
        let addresses = if is_address { addresses } else { &[] };
        let answer = answer(&question[..end], addresses, ttl);
        socket.send_to(&answer, from).expect("loopback takes it");
    }
}

/// Where the only question ends: behind the name, its type and its class.
fn end_of_question(message: &[u8]) -> Option<usize> {
    let name = message.get(12..)?.iter().position(|&byte| byte == 0)?;
    Some(12 + name + 5)
}

/// An answer to that question (RFC 1035 section 4.1).
fn answer(question: &[u8], addresses: &[Ipv4Addr], ttl: u32) -> Vec<u8> {
    let count = u8::try_from(addresses.len()).expect("there are few");
    let mut message = question[..2].to_vec();
    message.extend([0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0]);
    message.extend(&question[12..]);
    for address in addresses {
        message.extend([0xc0, 12]);
        message.extend(A);
        message.extend([0, 1]);
        message.extend(ttl.to_be_bytes());
        message.extend([0, 4]);
        message.extend(address.octets());
    }
    message
}

/// A configuration with an upstream of that name and port.
fn named(port: u16, server: &NameServer, settings: &str) -> String {
    format!(
        "upstreams: {{ u: 'backend.test:{port}' }}\n\
         resolver: {{ nameservers: ['{}'], {settings} }}",
        server.address
    )
}

// field: file.resolver, resolver.nameservers
#[test]
fn every_address_of_a_name_is_used() {
    let first = upstream::replies(ok("first"));
    let port = first.address().port();
    let second = upstream::listens_at(([127, 0, 0, 2], port).into()).responds(|_| ok("second"));
    let server = NameServer::start(&[Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::LOCALHOST], 60);
    let gateway = gateway(&named(port, &server, ""), &[]);
    let used: HashSet<_> = (0..4).map(|_| gateway.get("/").text()).collect();
    assert_eq!(used.len(), 2, "{used:?}");
    assert_eq!(second.requests()[0].field("host"), Some("a"));
}

// field: resolver.min_ttl
#[test]
fn an_answer_is_kept_for_a_minimum() {
    let server = NameServer::start(&[Ipv4Addr::LOCALHOST], 0);
    let _gateway = gateway(&named(1, &server, "min_ttl: 250ms"), &[]);
    for pause in server.pauses(3) {
        // Less than the second that it would be by default.
        let is_so = pause >= Duration::from_millis(150) && pause < Duration::from_millis(900);
        assert!(is_so, "{pause:?}");
    }
}

// field: resolver.max_ttl
#[test]
fn an_answer_is_kept_for_a_maximum() {
    let server = NameServer::start(&[Ipv4Addr::LOCALHOST], 3600);
    let _gateway = gateway(&named(1, &server, "min_ttl: 100ms, max_ttl: 500ms"), &[]);
    for pause in server.pauses(2) {
        // A question may be noticed late, and then the next one seems to come early.
        assert!(pause >= Duration::from_millis(300), "{pause:?}");
    }
}

// field: resolver.timeout
#[test]
fn a_name_server_that_says_nothing_does_not_keep_the_gateway_from_starting() {
    let server = NameServer::start(&[], 0);
    let started = Instant::now();
    let gateway = gateway(&named(1, &server, "timeout: 200ms"), &[]);
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(190) && took < Duration::from_secs(4), "{took:?}");
    gateway.get("/").has_problem(503, "no-endpoint");
}

#[test]
fn the_start_waits_no_longer_for_many_names_than_for_one() {
    let server = NameServer::start(&[], 0);
    let names: Vec<_> = (0..300).map(|number| format!("n{number}.test:1")).collect();
    let text = format!(
        "upstreams: {{ u: [{}] }}\nresolver: {{ nameservers: ['{}'], timeout: 500ms }}",
        names.join(", "),
        server.address
    );
    let started = Instant::now();
    let _gateway = gateway(&text, &[]);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// The type of the record that names the servers of a service (RFC 2782).
const SRV: [u8; 2] = [0, 33];

/// Servers of a service: priority, weight, port and the first label below `.test`.
type Records = Vec<(u16, u16, u16, &'static str)>;

/// A name server that says which servers a service has, all of them at 127.0.0.1.
fn services(records: &Arc<Mutex<Records>>) -> NameServer {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = socket.local_addr().expect("a bound socket has an address");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, records) = (Arc::clone(&asked), Arc::clone(records));
    let serving = thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let Some(end) = end_of_question(&question[..length]) else { return };
            let kind = [question[end - 4], question[end - 3]];
            let records = records.lock().expect("nobody panics with it").clone();
            let answer = match kind {
                SRV => answer_service(&question[..end], &records),
                A => answer(&question[..end], &[Ipv4Addr::LOCALHOST], 0),
                _ => answer(&question[..end], &[], 0),
            };
            log.lock().expect("nobody panics with it").push(Instant::now());
            socket.send_to(&answer, from).expect("loopback takes it");
        }
    });
    NameServer { address, asked, serving: Some(serving) }
}

fn answer_service(question: &[u8], records: &Records) -> Vec<u8> {
    let count = u8::try_from(records.len()).expect("there are few");
    let mut message = question[..2].to_vec();
    message.extend([0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0]);
    message.extend(&question[12..]);
    for (priority, weight, port, label) in records {
        let mut data = [priority, weight, port].map(|it| it.to_be_bytes()).concat();
        for label in [label, "test"] {
            data.push(u8::try_from(label.len()).expect("labels are short"));
            data.extend(label.bytes());
        }
        data.push(0);
        message.extend([0xc0, 12]);
        message.extend(SRV);
        message.extend([0, 1, 0, 0, 0, 0, 0]);
        message.push(u8::try_from(data.len()).expect("records are short"));
        message.extend(data);
    }
    message
}

#[test]
fn a_record_without_weight_drains_its_server_where_others_have_some() {
    let [a, b] = ["a", "b"].map(|name| upstream::replies(ok(name)));
    let [at_a, at_b] = [&a, &b].map(|it| it.address().port());
    let none = vec![(1, 0, at_a, "one"), (1, 0, at_b, "two")];
    let records = Arc::new(Mutex::new(none.clone()));
    let server = services(&records);
    let text = format!(
        "upstreams: {{ u: {{ endpoints: 'srv:_http._tcp.shop.test', balance: {{ sticky_cookie: {{}} }} }} }}\n\
         workers: 1\nresolver: {{ nameservers: ['{}'], min_ttl: 100ms, max_ttl: 100ms }}",
        server.address
    );
    let gateway = gateway(&text, &[]);
    let tied = || {
        let response = gateway.get("/");
        let cookie = response.field("set-cookie")?.split(';').next()?;
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
        (response.text() == "a").then_some(request)
    };
    let tied = (0..100).find_map(|_| tied()).expect("without any weight each has its share");
    *records.lock().expect("nobody panics with it") =
        vec![(1, 0, at_a, "one"), (1, 1, at_b, "two")];
    let drained =
        || gateway.status().upstreams_now()[0].endpoints.iter().any(|it| it.placement.drains());
    waits_until("the records to be read again", drained);
    assert!((0..20).all(|_| gateway.get("/").text() == "b"));
    assert_eq!(gateway.asks(&tied).text(), "a", "what is tied to it stays");
    *records.lock().expect("nobody panics with it") = none;
    waits_until("it to be back", || gateway.get("/").text() == "a");
}

#[test]
fn a_service_is_found_by_its_records() {
    let [a, b, c] = ["a", "b", "c"].map(|name| upstream::replies(ok(name)));
    let [at_a, at_b, at_c] = [&a, &b, &c].map(|it| it.address().port());
    let records =
        Arc::new(Mutex::new(vec![(1, 3, at_a, "one"), (1, 1, at_b, "two"), (2, 0, at_c, "three")]));
    let server = services(&records);
    let text = format!(
        "upstreams: {{ u: 'srv:_http._tcp.shop.test' }}\nworkers: 1\n\
         resolver: {{ nameservers: ['{}'], min_ttl: 100ms, max_ttl: 100ms }}",
        server.address
    );
    let gateway = gateway(&text, &[]);
    let shares = || {
        let names: Vec<_> = (0..40).map(|_| gateway.get("/").text()).collect();
        ["a", "b", "c"].map(|name| names.iter().filter(|it| *it == name).count())
    };
    assert_eq!(shares(), [30, 10, 0], "by weight, and of the first priority alone");
    *records.lock().expect("nobody panics with it") = vec![(2, 0, at_c, "three")];
    waits_until("the records to be read again", || gateway.get("/").text() == "c");
    records.lock().expect("nobody panics with it").clear();
    let asked = server.asked().len();
    waits_until("the records to be asked for again", || server.asked().len() > asked + 4);
    assert_eq!(shares(), [0, 0, 40], "nobody says that there is another");
    let statuses = gateway.status().upstreams_now();
    assert_eq!(statuses[0].endpoints[0].host, format!("three.test:{at_c}"));
}
