//! Real sockets of servers that come, go, and take nothing.

use super::super::queue::Queue;
use super::super::trial::{Folder, figures, numbered, numbers, text, until};
use super::*;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU16;
use std::os::unix::net::UnixDatagram;
use std::{fs, thread};
use titan_config::SyslogServer;

const FAST: Pace = Pace {
    first: Duration::from_millis(10),
    most: Duration::from_millis(40),
    calm: Duration::from_millis(100),
};

/// A destination, and what it counts.
struct Trial {
    queue: Queue,
    figures: Arc<DestinationFigures>,
    next: usize,
}

impl Trial {
    fn to(address: &SyslogAddress) -> Trial {
        let figures = figures();
        let header = Header::of(Facility::LOCAL0, "titan", "host", 7);
        let sink = Syslog::with(address, header, FAST, Arc::clone(&figures));
        let grace = Duration::from_millis(300);
        let queue = Queue::with_grace(grace, "syslog", || sink, Arc::clone(&figures)).unwrap();
        Trial { queue, figures, next: 0 }
    }

    fn writes(&mut self, count: usize) {
        self.queue.write(&numbered(self.next, count));
        self.next += count;
    }

    fn counted(&self) -> usize {
        usize::try_from(self.figures.written() + self.figures.dropped()).unwrap()
    }

    fn waits_until_written(&self) {
        until("it is sent", || self.figures.written() == self.next as u64);
    }
}

fn server(address: SocketAddr) -> SyslogServer {
    SyslogServer { host: address.ip().to_string(), port: NonZeroU16::new(address.port()).unwrap() }
}

const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));

/// The line of a message.
fn line_of(message: &[u8]) -> Vec<u8> {
    let head = b"<134>1 1970-01-01T00:00:00.000000Z host titan 7 access - ";
    message.strip_prefix(head).unwrap_or_else(|| panic!("{message:?}")).to_vec()
}

/// The number of the line of a message.
fn number_of(message: &[u8]) -> usize {
    numbers(&line_of(message))[0]
}

/// The next message on a connection; none at its end, or if that is within a message.
fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        match byte[0] {
            b' ' => break,
            digit @ b'0'..=b'9' => length = length * 10 + usize::from(digit - b'0'),
            other => panic!("{other} in a length"),
        }
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).ok().map(|()| message)
}

fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let mut accepted = None;
    until("it connects", || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, _) = accepted.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(TIMEOUT).unwrap();
    stream
}

fn udp_server(address: impl std::net::ToSocketAddrs) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(TIMEOUT).unwrap();
    socket
}

#[test]
fn each_line_is_a_datagram() {
    let socket = udp_server(ANY);
    let mut trial = Trial::to(&SyslogAddress::Udp(server(socket.local_addr().unwrap())));
    trial.writes(2);
    trial.writes(1);
    let mut buffer = [0; 64 << 10];
    for number in 0..3 {
        let size = socket.recv(&mut buffer).unwrap();
        assert_eq!(line_of(&buffer[..size]), text(number).as_bytes());
    }
    trial.waits_until_written();
    trial.queue.wait();
    assert!(!trial.figures.is_in_trouble());
}

#[test]
fn a_server_of_datagrams_that_is_absent_is_told_and_found_when_it_is_there() {
    let address = udp_server(ANY).local_addr().unwrap();
    let mut trial = Trial::to(&SyslogAddress::Udp(server(address)));
    until("it is refused", || {
        trial.writes(1);
        trial.figures.is_in_trouble()
    });
    let told = trial.figures.take_trouble().unwrap();
    let expected = format!("cannot send to udp://{address}: Connection refused (os error 111)");
    assert_eq!(told, expected);
    let socket = udp_server(address);
    until("it has recovered", || {
        trial.writes(1);
        thread::park_timeout(Duration::from_millis(1));
        !trial.figures.is_in_trouble()
    });
    let mut buffer = [0; 64 << 10];
    let size = socket.recv(&mut buffer).unwrap();
    number_of(&buffer[..size]);
}

#[test]
fn a_connection_tells_the_length_of_each_message() {
    let listener = TcpListener::bind(ANY).unwrap();
    let mut trial = Trial::to(&SyslogAddress::Tcp(server(listener.local_addr().unwrap())));
    trial.writes(40);
    let mut stream = accept(&listener);
    trial.writes(40);
    for number in 0..80 {
        assert_eq!(number_of(&receive(&mut stream).unwrap()), number);
    }
    trial.queue.wait();
    assert_eq!(receive(&mut stream), None);
    assert_eq!(trial.figures.written(), 80);
}

#[test]
fn lines_wait_for_a_server_that_is_not_there_yet() {
    let address = TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    let mut trial = Trial::to(&SyslogAddress::Tcp(server(address)));
    trial.writes(2);
    until("it fails", || trial.figures.is_in_trouble());
    trial.writes(2);
    let told = trial.figures.take_trouble().unwrap();
    let expected = format!("cannot connect to tcp://{address}: Connection refused (os error 111)");
    assert_eq!(told, expected);
    let listener = TcpListener::bind(address).unwrap();
    let mut stream = accept(&listener);
    for number in 0..4 {
        assert_eq!(number_of(&receive(&mut stream).unwrap()), number);
    }
    until("it has recovered", || {
        trial.writes(1);
        receive(&mut stream).unwrap();
        !trial.figures.is_in_trouble()
    });
    assert_eq!(trial.figures.dropped(), 0);
}

#[test]
fn a_server_that_closes_loses_nothing_that_comes_later() {
    let listener = TcpListener::bind(ANY).unwrap();
    let mut trial = Trial::to(&SyslogAddress::Tcp(server(listener.local_addr().unwrap())));
    for round in 0..5 {
        trial.writes(2);
        let mut stream = accept(&listener);
        for number in 0..2 {
            assert_eq!(number_of(&receive(&mut stream).unwrap()), 2 * round + number);
        }
        trial.waits_until_written();
        // The end of the connection arrives with its acknowledgement, before the next lines are sent.
        drop(stream);
    }
    trial.queue.wait();
    assert_eq!(trial.figures.dropped(), 0);
}

#[test]
fn a_message_that_was_cut_off_is_sent_again() {
    let listener = TcpListener::bind(ANY).unwrap();
    let mut trial = Trial::to(&SyslogAddress::Tcp(server(listener.local_addr().unwrap())));
    let long = Lines::of(&["x".repeat(4 << 20), "y".to_owned()]);
    trial.queue.write(&long);
    let mut stream = accept(&listener);
    stream.read_exact(&mut [0; 100]).unwrap();
    // More is to come: the rest is not taken, which resets the connection.
    drop(stream);
    let mut stream = accept(&listener);
    assert_eq!(line_of(&receive(&mut stream).unwrap()).len(), 4 << 20);
    assert_eq!(line_of(&receive(&mut stream).unwrap()), b"y");
    trial.next = 2;
    trial.waits_until_written();
}

#[test]
fn a_server_that_takes_nothing_holds_nothing_up() {
    let listener = TcpListener::bind(ANY).unwrap();
    let mut trial = Trial::to(&SyslogAddress::Tcp(server(listener.local_addr().unwrap())));
    let large = Lines::of(&["x".repeat(1 << 20)]);
    for _ in 0..20 {
        trial.queue.write(&large);
    }
    trial.next = 20;
    let Trial { mut queue, figures, next } = trial;
    queue.wait();
    until("all is counted", || figures.written() + figures.dropped() == next as u64);
    assert!(figures.dropped() > 0);
    drop(listener);
}

#[test]
fn a_server_that_is_never_there_costs_the_lines_at_the_end() {
    let address = TcpListener::bind(ANY).unwrap().local_addr().unwrap();
    let mut trial = Trial::to(&SyslogAddress::Tcp(server(address)));
    trial.writes(5);
    trial.writes(5);
    let figures = Arc::clone(&trial.figures);
    trial.queue.wait();
    until("all is counted", || figures.dropped() == 10);
}

#[test]
fn a_name_is_resolved_and_one_without_address_is_told() {
    let listener = TcpListener::bind(ANY).unwrap();
    let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
    let named = |host: &str| SyslogAddress::Tcp(SyslogServer { host: host.to_owned(), port });
    let mut trial = Trial::to(&named("localhost"));
    trial.writes(1);
    assert_eq!(number_of(&receive(&mut accept(&listener)).unwrap()), 0);
    let mut trial = Trial::to(&named("name.invalid"));
    trial.writes(1);
    until("it fails", || trial.figures.is_in_trouble());
    let told = trial.figures.take_trouble().unwrap();
    assert!(told.starts_with("cannot connect to tcp://name.invalid:"), "{told}");
}

#[test]
fn a_socket_of_this_machine_gets_datagrams_and_may_come_and_go() {
    let folder = Folder::new();
    let path = folder.join("log");
    let mut trial = Trial::to(&SyslogAddress::Unix(path.clone()));
    trial.writes(1);
    until("it fails", || trial.figures.is_in_trouble());
    let mut number = 0;
    for _ in 0..3 {
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(TIMEOUT).unwrap();
        // More than the queue of the socket holds: the rest waits.
        trial.writes(1_000);
        let mut buffer = [0; 4096];
        while number < trial.next {
            let size = socket.recv(&mut buffer).unwrap();
            assert_eq!(number_of(&buffer[..size]), number);
            number += 1;
        }
        fs::remove_file(&path).unwrap();
        trial.waits_until_written();
    }
    assert_eq!(trial.counted(), trial.next);
    assert_eq!(trial.figures.dropped(), 0);
}

#[test]
fn a_server_that_resets_each_connection_is_not_asked_without_pause() {
    let listener = TcpListener::bind(ANY).unwrap();
    let address = SyslogAddress::Tcp(server(listener.local_addr().unwrap()));
    let figures = figures();
    let header = Header::of(Facility::LOCAL0, "titan", "host", 7);
    let hour = Duration::from_secs(3600);
    let pace = Pace { first: hour, most: hour, calm: hour };
    let mut sink = Syslog::with(&address, header, pace, Arc::clone(&figures));
    let end = End::default();
    sink.write(&numbered(0, 1), &end);
    accept(&listener).write_all(b"what servers never say").unwrap();
    until("its end is here", || !sink.link.as_mut().unwrap().is_usable());
    end.finish_within(Duration::from_millis(50));
    sink.write(&numbered(1, 1), &end);
    assert_eq!((figures.written(), figures.dropped()), (1, 1));
}
