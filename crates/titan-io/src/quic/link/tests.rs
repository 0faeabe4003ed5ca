//! What a client can have a connection keep.

use super::*;
use crate::error::Side;
use crate::quic::testing::{TestClient, addresses, configs, endpoint_config, sent, tell};
use bytes::BytesMut;
use quinn_proto::{ClientConfig, ConnectionHandle, DatagramEvent, Endpoint, ServerConfig};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A server's end of a connection, and the client.
struct Pair {
    client: TestClient,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    mux: Rc<Mux<Link>>,
    now: Instant,
    /// What has come beside data.
    events: Vec<Event>,
}

impl Pair {
    /// One whose handshake is complete.
    fn new(limits: titan_h3::Limits) -> Pair {
        let mut pair = Pair::begun(&configs(), limits, |_| ());
        pair.goes_on();
        assert!(pair.mux.connection().is_confirmed());
        pair
    }

    /// One whose handshake has begun, after the client has done that.
    fn begun(
        (server, client): &(ServerConfig, ClientConfig),
        limits: titan_h3::Limits,
        early: impl FnOnce(&mut quinn_proto::Connection),
    ) -> Pair {
        let now = Instant::now();
        let mut client = TestClient::new(client.clone(), now);
        early(&mut client.quic);
        let server = Some(Arc::new(server.clone()));
        let mut endpoint = Endpoint::new(Arc::new(endpoint_config()), server, false, None);
        let mut flight = client.sends(now);
        let first = flight.remove(0);
        let from = addresses().0;
        let event = endpoint.handle(now, from, None, None, first, &mut Vec::new());
        let Some(DatagramEvent::NewConnection(incoming)) = event else { panic!("no connection") };
        let accepted = endpoint.accept(incoming, now, &mut Vec::new(), None);
        let (handle, quic) = accepted.unwrap_or_else(|_| panic!("it is not accepted"));
        let mux = Mux::new(Link::server(quic, limits, false), Side::Downstream);
        let mut pair = Pair { client, endpoint, handle, mux, now, events: Vec::new() };
        flight.into_iter().for_each(|datagram| pair.hears(datagram));
        pair
    }

    /// Packets go in both directions, for as long as a few of them take.
    fn goes_on(&mut self) {
        for _ in 0..32 {
            self.now += Duration::from_millis(1);
            for datagram in self.client.sends(self.now) {
                self.hears(datagram);
            }
            while let Some(event) = self.mux.next().unwrap() {
                self.events.push(event);
            }
            self.mux.flush();
            for datagram in self.responds() {
                self.client.hears(self.now, datagram);
            }
        }
    }

    fn hears(&mut self, datagram: BytesMut) {
        let from = addresses().0;
        let event = self.endpoint.handle(self.now, from, None, None, datagram, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.mux.connection().quic.handle_event(event);
        }
    }

    fn responds(&mut self) -> Vec<BytesMut> {
        let quic = &mut self.mux.connection().quic;
        tell(&mut self.endpoint, self.handle, quic);
        sent(quic, self.now)
    }

    /// The client begins a request with these bytes.
    fn asks(&mut self, bytes: &[u8]) -> quinn_proto::StreamId {
        let stream = self.client.quic.streams().open(Dir::Bi).unwrap();
        assert_eq!(self.client.quic.send_stream(stream).write(bytes).unwrap(), bytes.len());
        stream
    }

    /// The client wants no response.
    fn stops(&mut self, stream: quinn_proto::StreamId) {
        let _ = self.client.quic.recv_stream(stream).stop(VarInt::from_u32(0x10c));
    }

    /// The client says no more.
    fn resets(&mut self, stream: quinn_proto::StreamId) {
        let _ = self.client.quic.send_stream(stream).reset(VarInt::from_u32(0x10c));
    }

    /// Bytes that were read and not used, and the streams that are not read from.
    fn kept(&self) -> (usize, usize) {
        self.mux.connection().backlog.kept()
    }
}

/// A HEADERS frame of 16,384 bytes, but for the last ones.
fn most_of_a_head(count: usize) -> Vec<u8> {
    let mut head = vec![1, 0x80, 0, 0x40, 0];
    head.resize(5 + count, 0);
    head
}

type GiveUp = fn(&mut Pair, quinn_proto::StreamId);

/// Ways to give a request up.
const WAYS: [(&str, GiveUp); 4] = [
    ("STOP_SENDING", Pair::stops),
    ("RESET_STREAM", Pair::resets),
    ("both", |pair, stream| {
        pair.stops(stream);
        pair.resets(stream);
    }),
    ("one after the other", |pair, stream| {
        pair.stops(stream);
        pair.goes_on();
        pair.resets(stream);
    }),
];

#[test]
fn nothing_is_kept_of_heads_that_are_given_up() {
    for (name, give_up) in WAYS {
        let mut pair = Pair::new(titan_h3::Limits::default());
        for round in 0..50 {
            let stream = pair.asks(&most_of_a_head(8000));
            pair.goes_on();
            assert_eq!(pair.kept(), (8005, 0), "{name}, round {round}");
            give_up(&mut pair, stream);
            pair.goes_on();
            assert_eq!(pair.kept(), (0, 0), "{name}, round {round}");
        }
    }
}

#[test]
fn nothing_is_kept_of_heads_that_are_late() {
    let mut pair = Pair::new(titan_h3::Limits::default());
    let stream = pair.asks(&most_of_a_head(8000));
    pair.goes_on();
    pair.mux.connection().reject(number(stream)).unwrap();
    pair.goes_on();
    assert_eq!(pair.kept(), (0, 0));
}

#[test]
fn nothing_is_kept_of_requests_that_are_given_up_while_they_wait_for_the_table() {
    for (name, give_up) in WAYS {
        let mut pair = Pair::new(titan_h3::Limits::default());
        for round in 0..20 {
            // A head that refers to an entry, and data.
            let stream = pair.asks(&[1, 3, 2, 0, 0x80, 0, 1, b'x']);
            pair.goes_on();
            assert_eq!(pair.kept(), (3, 1), "{name}, round {round}");
            give_up(&mut pair, stream);
            pair.goes_on();
            assert_eq!(pair.kept(), (0, 0), "{name}, round {round}");
        }
    }
}

#[test]
fn a_response_that_is_given_up_during_the_handshake_is_not_made() {
    let configs = configs();
    let limits = titan_h3::Limits::default();
    Pair::begun(&configs, limits, |_| ()).goes_on();
    let mut pair = Pair::begun(&configs, limits, |client| {
        assert!(client.has_0rtt(), "it was here before");
        let stream = client.streams().open(Dir::Bi).unwrap();
        // A head: GET https://a/.
        let head = [1, 8, 0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'a'];
        client.send_stream(stream).write(&head).unwrap();
        client.recv_stream(stream).stop(VarInt::from_u32(0x10c)).unwrap();
    });
    assert!(!pair.mux.connection().hold_handshake(), "its address is not validated");
    assert!(pair.mux.connection().newest().is_some(), "it is early data");
    pair.goes_on();
    let Pair { events, .. } = &pair;
    assert!(matches!(events[..], [Event::Request { .. }, Event::Reset { .. }]), "{events:?}");
}

#[test]
fn parts_of_heads_take_no_more_than_the_window() {
    const WINDOW: usize = 64 << 10;
    let limits = titan_h3::Limits { connection_window: WINDOW, ..titan_h3::Limits::default() };
    let mut pair = Pair::new(limits);
    let most = WINDOW.max(limits.longest_section());
    let mut streams = Vec::new();
    for round in 0..50 {
        streams.push(pair.asks(&most_of_a_head(8000)));
        pair.goes_on();
        assert!(pair.kept().0 <= most, "{} bytes in round {round}", pair.kept().0);
    }
    assert!(pair.kept().0 > most - 8005, "less is refused than has to be");
    let is_refused = |stream: &&quinn_proto::StreamId| {
        pair.client.quic.recv_stream(**stream).received_reset().is_ok_and(|code| code.is_some())
    };
    assert_eq!(streams.iter().filter(is_refused).count(), 50 - most / 8005);
    assert!(pair.events.is_empty(), "nobody has heard of them");
}

#[test]
fn a_request_whose_trailers_take_too_much_is_lost() {
    let limits = titan_h3::Limits { connection_window: 0, ..titan_h3::Limits::default() };
    let mut pair = Pair::new(limits);
    // Heads: GET https://a/. Then parts of trailers.
    let head = [1, 8, 0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'a'];
    let request = [&head[..], &most_of_a_head(8000)].concat();
    for _ in 0..=limits.longest_section() / 8005 {
        pair.asks(&request);
        pair.goes_on();
    }
    let is_lost = |event: &&Event| matches!(event, Event::Reset { code: Code::ExcessiveLoad, .. });
    assert_eq!(pair.events.iter().filter(is_lost).count(), 1);
    assert!(pair.kept().0 <= limits.longest_section());
}
