//! The bad network with sockets.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use titan_testkit::bad_network::{BadNetwork, Relay, Tally};
use titan_testkit::{DEADLINE, waits_until};

/// A socket of either side.
struct Peer(UdpSocket);

impl Peer {
    fn new() -> Peer {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket.set_read_timeout(Some(DEADLINE)).expect("a socket takes a timeout");
        Peer(socket)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("a bound socket has an address")
    }

    #[track_caller]
    fn sends(&self, to: SocketAddr, bytes: &[u8]) {
        self.0.send_to(bytes, to).expect("loopback takes it");
    }

    /// Waits for a datagram; tells what it is and where it is from.
    #[track_caller]
    fn receives(&self) -> (Vec<u8>, SocketAddr) {
        let mut bytes = [0; 2000];
        match self.0.recv_from(&mut bytes) {
            Ok((count, from)) => (bytes[..count].to_vec(), from),
            Err(error) => panic!("waited for a datagram in vain: {error}"),
        }
    }

    /// Checks that nothing more has come. Does not wait.
    #[track_caller]
    fn has_nothing(&self) {
        self.0.set_nonblocking(true).expect("a socket can be non-blocking");
        let error = self.0.recv(&mut [0]).expect_err("nothing has come");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        self.0.set_nonblocking(false).expect("a socket can block");
    }
}

#[track_caller]
fn waits_for(relay: &Relay, what: &str, is_so: impl Fn(Tally) -> bool) {
    waits_until(what, || is_so(relay.counts().to_server));
}

#[test]
fn a_perfect_network_passes_everything_in_order() {
    let (client, server) = (Peer::new(), Peer::new());
    let relay = BadNetwork::default().start(server.address());
    for round in 0..20 {
        // No more at once than the sockets keep.
        (0..50).for_each(|n| client.sends(relay.address(), &[round, n]));
        let mut at = None;
        for n in 0..50 {
            let (bytes, from) = server.receives();
            assert_eq!(bytes, [round, n]);
            assert_eq!(*at.get_or_insert(from), from);
            server.sends(from, &bytes);
        }
        for n in 0..50 {
            assert_eq!(client.receives(), (vec![round, n], relay.address()));
        }
    }
    let counts = relay.counts();
    let all = Tally { passed: 1000, ..Tally::default() };
    assert_eq!((counts.to_server, counts.to_clients), (all, all));
}

#[test]
fn datagrams_of_any_length_pass() {
    let (client, server) = (Peer::new(), Peer::new());
    let relay = BadNetwork::default().start(server.address());
    for length in [0, 1, 1200, 1999] {
        client.sends(relay.address(), &vec![7; length]);
        assert_eq!(server.receives().0, vec![7; length]);
    }
}

#[test]
fn what_is_lost_does_not_arrive() {
    let (client, server) = (Peer::new(), Peer::new());
    let lossy = BadNetwork { loss: 1.0, ..BadNetwork::default() }.start(server.address());
    let perfect = BadNetwork::default().start(server.address());
    (0..50).for_each(|_| client.sends(lossy.address(), b"lost"));
    waits_for(&lossy, "50 that are lost", |tally| tally.dropped == 50);
    client.sends(perfect.address(), b"passed");
    assert_eq!(server.receives().0, b"passed");
    server.has_nothing();
    assert_eq!(lossy.counts().to_server, Tally { dropped: 50, ..Tally::default() });
}

#[test]
fn a_seed_loses_the_same_again() {
    let arrived = |seed| {
        let (client, server) = (Peer::new(), Peer::new());
        let network = BadNetwork { seed, loss: 0.5, ..BadNetwork::default() };
        let relay = network.start(server.address());
        (0..100).for_each(|n| client.sends(relay.address(), &[n]));
        waits_for(&relay, "all of them", |tally| tally.passed + tally.dropped == 100);
        let passed = relay.counts().to_server.passed;
        (0..passed).map(|_| server.receives().0[0]).collect::<Vec<_>>()
    };
    let first = arrived(1);
    assert!((25..75).contains(&first.len()), "{first:?}");
    assert_eq!(arrived(1), first);
    assert_ne!(arrived(2), first);
}

#[test]
fn duplicates_arrive_twice() {
    let (client, server) = (Peer::new(), Peer::new());
    let network = BadNetwork { duplicates: 1.0, ..BadNetwork::default() };
    let relay = network.start(server.address());
    client.sends(relay.address(), b"there");
    let [(first, from), second] = [(); 2].map(|()| server.receives());
    assert_eq!((first.as_slice(), &second), (&b"there"[..], &(first.clone(), from)));
    server.sends(from, b"back");
    assert_eq!([(); 2].map(|()| client.receives().0), [b"back", b"back"]);
    let twice = Tally { passed: 1, duplicated: 1, ..Tally::default() };
    let counts = relay.counts();
    assert_eq!((counts.to_server, counts.to_clients), (twice, twice));
}

#[test]
fn those_that_are_held_back_arrive_in_another_order() {
    let (client, server) = (Peer::new(), Peer::new());
    let network = BadNetwork { seed: 3, reordering: 0.3, ..BadNetwork::default() };
    let relay = network.start(server.address());
    (0..100).for_each(|n| client.sends(relay.address(), &[n]));
    let order: Vec<_> = (0..100).map(|_| server.receives().0[0]).collect();
    assert!(!order.is_sorted(), "{order:?}");
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 100);
    assert!((10..50).contains(&relay.counts().to_server.held_back));
}

#[test]
fn delays_take_their_time() {
    const DELAY: Duration = Duration::from_millis(30);
    let (client, server) = (Peer::new(), Peer::new());
    let relay =
        BadNetwork { delay: DELAY..=DELAY, ..BadNetwork::default() }.start(server.address());
    let began = Instant::now();
    client.sends(relay.address(), b"there");
    let (_, from) = server.receives();
    assert!(began.elapsed() >= DELAY);
    server.sends(from, b"back");
    assert_eq!(client.receives().0, b"back");
    assert!(began.elapsed() >= 2 * DELAY);
}

#[test]
fn each_client_has_an_address_of_its_own() {
    let (clients, server) = ([(); 10].map(|()| Peer::new()), Peer::new());
    let relay = BadNetwork::default().start(server.address());
    let mut addresses = BTreeSet::new();
    for (client, n) in clients.iter().zip(0..) {
        client.sends(relay.address(), &[n]);
        let (bytes, from) = server.receives();
        assert!(addresses.insert(from));
        server.sends(from, &bytes);
    }
    for (client, n) in clients.iter().zip(0..) {
        assert_eq!(client.receives(), (vec![n], relay.address()));
    }
}

#[test]
fn there_is_a_most_of_clients() {
    let (clients, server) = ([(); 65].map(|()| Peer::new()), Peer::new());
    let relay = BadNetwork::default().start(server.address());
    for client in &clients[..64] {
        client.sends(relay.address(), b"one of them");
        server.receives();
    }
    clients[64].sends(relay.address(), b"one too many");
    waits_for(&relay, "one that is too many", |tally| tally.overflowed == 1);
    clients[0].sends(relay.address(), b"known");
    assert_eq!(server.receives().0, b"known");
}

#[test]
fn rebinding_changes_what_the_server_knows_a_client_by() {
    let (client, server) = (Peer::new(), Peer::new());
    let relay = BadNetwork::default().start(server.address());
    let arrives_from = || {
        client.sends(relay.address(), b"there");
        server.receives().1
    };
    let mut old = arrives_from();
    for _ in 0..20 {
        relay.rebind();
        let new = arrives_from();
        assert_ne!(new, old);
        assert_eq!(arrives_from(), new);
        server.sends(new, b"back");
        assert_eq!(client.receives(), (b"back".to_vec(), relay.address()));
        old = new;
    }
}

#[test]
fn a_binding_that_is_lost_leads_nowhere() {
    let (client, server) = (Peer::new(), Peer::new());
    let relay = BadNetwork::default().start(server.address());
    client.sends(relay.address(), b"there");
    let (_, mut binding) = server.receives();
    for round in 0..20 {
        relay.rebind();
        server.sends(binding, b"lost");
        client.sends(relay.address(), b"there");
        binding = server.receives().1;
        server.sends(binding, &[round]);
        assert_eq!(client.receives().0, [round]);
    }
    assert_eq!(relay.counts().to_clients, Tally { passed: 20, ..Tally::default() });
}

#[test]
fn only_the_server_is_heard_at_the_address_of_a_client() {
    let (client, server, stranger) = (Peer::new(), Peer::new(), Peer::new());
    let relay = BadNetwork::default().start(server.address());
    client.sends(relay.address(), b"there");
    let (_, from) = server.receives();
    stranger.sends(from, b"forged");
    server.sends(from, b"back");
    assert_eq!(client.receives().0, b"back");
}
