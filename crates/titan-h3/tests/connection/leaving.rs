//! Streams and connections that end before their time, or in good order.

use crate::peer::*;
use titan_h3::{Code, Connection, Destination, Event, FrameHeader, Kind, Limits};
use titan_http::{Method, RequestHead};

#[test]
fn a_drain_has_two_steps() {
    let mut tested = Tested::begun();
    tested.hears(0, &headers(GET), true).unwrap();
    tested.connection.drain();
    tested.connection.drain();
    tested.hears(4, &headers(GET), true).unwrap();
    assert!(tested.connection.is_leaving() && !tested.connection.is_over());
    tested.connection.leave();
    assert_eq!(tested.hears(8, &headers(GET), true).unwrap(), [], "it comes too late");
    assert_eq!(tested.sent.reset, [(id(8), Code::RequestRejected)]);
    assert_eq!(tested.sent.stopped, [(id(8), Code::RequestRejected)]);
    assert_eq!(tested.sent.written[&id(7)], [0x03, 0x48], "no section of it is read");
    tested.responds(0, b"a");
    tested.responds(4, b"b");
    assert!(tested.connection.is_over());
    let said = &tested.sent.written[&id(3)];
    let first = [0x07, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc];
    assert!(said.ends_with(&[&first[..], &[0x07, 0x01, 0x08]].concat()), "{said:x?}");
}

#[test]
fn a_client_that_gives_up_is_told_of_once() {
    let mut tested = Tested::begun();
    tested.hears(0, &headers(POST), false).unwrap();
    let reset = tested.connection.peer_reset(id(0), Code::RequestCancelled).unwrap();
    let code = Code::RequestCancelled;
    assert_eq!(reset, Some(Event::Reset { stream: id(0), code, fault: None }));
    assert_eq!(tested.connection.peer_stopped(id(0), code).unwrap(), None);
    tested.flush();
    assert_eq!(tested.sent.reset, [(id(0), Code::RequestCancelled)]);
    assert!(!tested.connection.is_sending(id(0)));
    assert_eq!(tested.connection.send_data(id(0), b"into the void", true), 13);
    // One that has responded completely asks for no more of the request.
    tested.hears(4, &headers(POST), false).unwrap();
    tested.responds(4, b"enough");
    tested.connection.reset(id(4), Code::NoError);
    tested.flush();
    assert_eq!(
        (&tested.sent.stopped[1..], &tested.sent.finished[..]),
        (&[(id(4), Code::NoError)][..], &[id(4)][..])
    );
    assert_eq!(tested.connection.open_streams(), 0);
    assert_eq!(
        tested.hears(4, &frame(0, b"late"), true).unwrap(),
        [],
        "and is not surprised by some"
    );
}

#[test]
fn what_was_sent_to_its_end_goes_out_after_its_sender_has_left() {
    let mut tested = Tested::begun();
    tested.sent.room = 10;
    tested.hears(0, &headers(GET), true).unwrap();
    tested.responds(0, &[b'x'; 1000]);
    tested.connection.reset(id(0), Code::Internal);
    tested.flush();
    assert!(tested.sent.finished.is_empty() && tested.connection.is_open(id(0)));
    tested.sent.room = 1 << 20;
    tested.connection.writable(id(0));
    tested.flush();
    assert_eq!((&tested.sent.finished[..], tested.sent.reset.len()), (&[id(0)][..], 0));
    assert!(!tested.connection.is_open(id(0)));
}

#[test]
fn a_response_waits_for_room() {
    let mut tested = Tested::new(Limits { output: 1000, ..Limits::default() });
    tested.sent.room = 100;
    tested.hears(0, &headers(GET), true).unwrap();
    let head = titan_http::ResponseHead { status: titan_http::Status::OK, ..Default::default() };
    tested.connection.send_response(id(0), &head, None, false);
    let body = [b'y'; 4000];
    let mut sent = tested.connection.send_data(id(0), &body, true);
    assert!(sent < 1000);
    tested.flush();
    assert_eq!(tested.connection.next_unblocked(), None, "there is room for less than half");
    sent += tested.connection.send_data(id(0), &body[sent..], true);
    assert!((1000..1100).contains(&sent), "{sent}");
    while sent < body.len() {
        tested.sent.room += 700;
        tested.connection.writable(id(0));
        tested.flush();
        while tested.connection.next_unblocked().is_some() {
            sent += tested.connection.send_data(id(0), &body[sent..], true);
        }
    }
    tested.sent.room = 1 << 20;
    tested.connection.writable(id(0));
    tested.flush();
    assert_eq!(tested.sent.finished, [id(0)]);
    let (mut rest, mut bytes) = (&tested.sent.written[&id(0)][..], 0);
    while let Some((FrameHeader { kind, length }, start)) = FrameHeader::read(rest) {
        let payload = &rest[start..start + length as usize];
        bytes +=
            if kind == Kind::Data { payload.iter().filter(|it| **it == b'y').count() } else { 0 };
        rest = &rest[start + length as usize..];
    }
    assert_eq!((bytes, rest.len()), (4000, 0));
}

#[test]
fn a_critical_stream_that_is_given_up_ends_the_connection() {
    let mut tested = Tested::begun();
    tested.flush();
    let own = tested.connection.peer_stopped(id(3), Code::NoError);
    assert_eq!(own.map_err(|fatal| fatal.code), Err(Code::ClosedCriticalStream));
    let mut tested = Tested::begun();
    let reset = tested.connection.uni_reset(id(CONTROL));
    assert_eq!(reset.map_err(|fatal| fatal.code), Err(Code::ClosedCriticalStream));
    let mut tested = Tested::begun();
    tested.hears_uni(DECODER, &[0x21], false).unwrap();
    assert_eq!(tested.connection.uni_reset(id(DECODER)), Ok(()), "one without a meaning is none");
}

#[test]
fn bodies_are_held_back_alone_and_in_sum() {
    let limits = Limits { stream_window: 100, connection_window: 150, ..Limits::default() };
    let mut tested = Tested::new(limits);
    let body = |length| [headers(POST), frame(0, &vec![b'b'; length])].concat();
    tested.hears(0, &body(99), false).unwrap();
    assert!(!tested.connection.is_blocked(id(0)));
    tested.hears(0, &frame(0, b"b"), false).unwrap();
    assert!(tested.connection.is_blocked(id(0)));
    tested.hears(4, &body(60), false).unwrap();
    assert!(tested.connection.is_blocked(id(4)), "together they hold 160");
    tested.hears(8, &headers(GET), true).unwrap();
    assert!(!tested.connection.is_blocked(id(8)), "one that holds nothing is read");
    tested.connection.release(id(0), 100);
    assert!(!tested.connection.is_blocked(id(0)) && !tested.connection.is_blocked(id(4)));
    // What a stream held that is over counts until it is used.
    tested.connection.peer_reset(id(4), Code::NoError).unwrap();
    tested.hears(12, &body(99), false).unwrap();
    assert!(tested.connection.is_blocked(id(12)));
    tested.connection.release(id(4), 60);
    assert!(!tested.connection.is_blocked(id(12)));
}

/// One whose response is complete, as far as that goes, while its request goes on.
fn half_closed() -> Tested {
    let mut tested = Tested::begun();
    tested.hears(0, &headers(POST), false).unwrap();
    tested.responds(0, b"early");
    tested
}

#[test]
fn the_end_of_what_goes_on_behind_a_response_is_told() {
    let code = Code::RequestCancelled;
    let reset = Some(Event::Reset { stream: id(0), code, fault: None });
    assert_eq!(half_closed().connection.peer_reset(id(0), code), Ok(reset.clone()));
    assert_eq!(half_closed().connection.peer_stopped(id(0), code), Ok(reset));
    let mut left = half_closed();
    left.connection.reset(id(0), Code::NoError);
    assert_eq!(left.connection.peer_reset(id(0), code), Ok(None), "nobody listens any more");
    let mut whole = half_closed();
    whole.sent.room = 0;
    whole.hears(0, &[], true).unwrap();
    assert_eq!(whole.connection.peer_stopped(id(0), code), Ok(None), "it was told of its end");
}

#[test]
fn a_stream_is_cancelled_once() {
    let mut tested = Tested::begun();
    let endless = tested.hears(0, &[1, 0x80, 0x10, 0, 0], false).unwrap();
    assert!(matches!(endless[..], [Event::Refused { .. }]));
    tested.connection.reset(id(0), Code::Internal);
    tested.flush();
    assert_eq!(tested.sent.written[&id(7)], [0x03, 0x40]);
    assert_eq!(tested.sent.stopped, [(id(0), Code::NoError)]);
}

#[test]
fn a_request_that_is_refused_gets_its_response_whatever_follows() {
    let mut tested = Tested::begun();
    let long = headers(&[GET, &[("a", &"b".repeat(20_000))]].concat());
    let trailers = [1, 0x80, 0x10, 0, 0];
    let events = tested.hears(0, &[&long[..], &trailers].concat(), false).unwrap();
    assert!(matches!(events[..], [Event::Refused { .. }]), "{events:?}");
    tested.responds(0, b"no");
    assert_eq!((&tested.sent.finished[..], tested.connection.open_streams()), (&[id(0)][..], 0));
    assert_eq!(tested.sent.stopped, [(id(0), Code::NoError)]);
}

#[test]
fn a_client_whose_request_is_not_wanted_any_more_goes_on() {
    let mut connection = Connection::client(Limits { output: 100, ..Limits::default() });
    let mut sent = Sent::with_room(0, 2);
    let head = RequestHead { method: Method::POST, ..RequestHead::default() };
    let to = Destination { authority: b"a.test", is_https: true, protocol: None };
    connection.send_request(id(0), &head, to, None, false);
    assert!(connection.send_data(id(0), &[7; 500], true) < 500);
    connection.flush(&mut sent);
    assert_eq!(connection.next_unblocked(), None);
    assert_eq!(connection.peer_stopped(id(0), Code::NoError), Ok(None));
    assert_eq!(connection.next_unblocked(), Some(id(0)), "nobody takes the rest");
    assert_eq!(connection.send_data(id(0), &[7; 400], true), 400);
    assert!(connection.is_open(id(0)), "its response may come");
    assert_eq!(connection.peer_stopped(id(0), Code::NoError), Ok(None));
    connection.flush(&mut sent);
    assert_eq!(sent.reset, [(id(0), Code::NoError)]);
}

#[test]
fn a_response_that_is_lost_is_lost_once() {
    let mut connection = Connection::client(Limits::default());
    let mut sent = Sent::with_room(0, 2);
    let head = RequestHead::default();
    let to = Destination { authority: b"a.test", is_https: true, protocol: None };
    connection.send_request(id(0), &head, to, None, true);
    connection.flush(&mut sent);
    let code = Code::Internal;
    let reset = Some(Event::Reset { stream: id(0), code, fault: None });
    assert_eq!(connection.peer_reset(id(0), code), Ok(reset));
    assert!(connection.is_open(id(0)), "its request is on its way");
    assert_eq!(connection.peer_stopped(id(0), code), Ok(None));
    assert!(!connection.is_open(id(0)));
}

#[test]
fn a_server_opens_no_streams_of_requests() {
    let mut connection = Connection::client(Limits::default());
    let read = connection.read(id(1), &[], false);
    assert_eq!(read.map_err(|fatal| fatal.code), Err(Code::StreamCreation));
}
