//! Connections that end in good order.

use crate::peer::*;
use titan_h2::{Code, Event, Limits, StreamId};
use titan_http::{Method, Status};

fn go_aways(sent: &[Sent]) -> Vec<(u32, u32)> {
    let is_one = |sent: &&Sent| sent.kind == GOAWAY;
    sent.iter().filter(is_one).map(|sent| (sent.number(0), sent.number(4))).collect()
}

#[test]
fn a_server_leaves_in_two_steps() {
    let mut tested = Tested::server(Limits::default());
    let first = tested.opens(&get(1));
    tested.connection.drain();
    tested.connection.drain();
    let sent = tested.sent();
    assert_eq!(go_aways(&sent), [(0x7fff_ffff, 0)]);
    let asked: [u8; 8] = sent[1].payload.as_slice().try_into().unwrap();

    // Opened before the client could know.
    let second = tested.opens(&get(3));
    tested.receives(&ping(ACK, &asked)).unwrap();
    assert_eq!(go_aways(&tested.sent()), [(3, 0)]);
    // Ignored, with whatever belongs to it.
    let late = [post(5), data(5, 0, b"abc"), headers(5, 1, &[("a", "b")]), get(7), reset(7, 8)];
    assert_eq!(tested.receives(&late.concat()), Ok(vec![]));

    for stream in [first, second] {
        assert!(!tested.connection.is_over());
        tested.responds(stream, Status::OK, true);
    }
    assert!(tested.connection.is_over() && tested.connection.is_leaving());
}

#[test]
fn a_server_may_leave_at_once() {
    let mut tested = Tested::server(Limits::default());
    tested.opens(&get(1));
    tested.connection.drain();
    tested.connection.go_away(Code::NoError);
    tested.connection.go_away(Code::NoError);
    assert_eq!(go_aways(&tested.sent()), [(0x7fff_ffff, 0), (1, 0)]);
    assert!(!tested.connection.is_over());
}

#[test]
fn what_a_server_does_not_serve_can_be_sent_elsewhere() {
    let mut tested = Tested::client(Limits::default());
    let streams: Vec<_> = (0..3).map(|_| tested.asks(Method::GET, true).unwrap()).collect();
    let last = streams[0];
    let events = tested.receives(&go_away(1, 0)).unwrap();
    assert_eq!(events, [Event::GoAway { last, code: Code::NoError }]);
    assert!(streams[1] > last && !tested.connection.is_open(streams[1]));
    assert!(tested.connection.is_open(last) && !tested.connection.is_over());
    assert!(!tested.connection.can_open() && tested.asks(Method::GET, true).is_none());
    // What the server sends of them all the same is dropped.
    tested.receives(&headers(3, 0, &[(":status", "200")])).unwrap();
    tested.receives(&headers(1, END_STREAM, &[(":status", "200")])).unwrap();
    assert!(tested.connection.is_over());
}

#[test]
fn a_server_that_will_leave_serves_what_has_begun() {
    let mut tested = Tested::client(Limits::default());
    let stream = tested.asks(Method::GET, true).unwrap();
    tested.receives(&go_away(0x7fff_ffff, 0)).unwrap();
    assert!(tested.connection.is_open(stream) && !tested.connection.can_open());
    let events = tested.receives(&go_away(1, 2)).unwrap();
    assert_eq!(events, [Event::GoAway { last: stream, code: Code::InternalError }]);
    assert!(tested.connection.is_open(stream));
    // It cannot serve more than it said already.
    let events = tested.receives(&go_away(9, 0)).unwrap();
    assert!(matches!(events[0], Event::GoAway { last, .. } if last == stream));
}

#[test]
fn a_client_leaves_when_it_has_its_responses() {
    let mut tested = Tested::client(Limits::default());
    let stream: StreamId = tested.asks(Method::GET, true).unwrap();
    tested.connection.drain();
    assert_eq!(go_aways(&tested.sent()), [(0, 0)]);
    assert!(!tested.connection.can_open() && tested.connection.is_open(stream));
    tested.receives(&headers(1, END_STREAM, &[(":status", "200")])).unwrap();
    assert!(tested.connection.is_over());
}

#[test]
fn a_client_that_leaves_is_served() {
    let mut tested = Tested::server(Limits::default());
    let stream = tested.opens(&get(1));
    tested.receives(&go_away(0, 0)).unwrap();
    assert!(!tested.connection.is_over());
    tested.responds(stream, Status::OK, true);
    assert!(tested.connection.is_over());
}

#[test]
fn a_client_that_does_not_say_that_it_has_seen_goaway_is_not_served_for_ever() {
    let limits = Limits { streams: 3, ..Limits::default() };
    let mut tested = Tested::server(limits);
    tested.opens(&get(1));
    tested.connection.drain();
    for nth in 1..=3 {
        let stream = tested.opens(&get(2 * nth + 1));
        tested.responds(stream, Status::OK, true);
    }
    assert_eq!(go_aways(&tested.sent()), [(0x7fff_ffff, 0)]);
    assert_eq!(tested.receives(&get(9)), Ok(vec![]));
    assert_eq!(go_aways(&tested.sent()), [(7, 0)]);
}
