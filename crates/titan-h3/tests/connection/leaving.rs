//! Streams and connections that end before their time, or in good order.

use crate::peer::*;
use titan_h3::{Code, Event, FrameHeader, Kind, Limits};

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
