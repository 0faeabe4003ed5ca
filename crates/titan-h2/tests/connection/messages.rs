//! Messages that are as they should be: what events say, and what is written.

use crate::peer::*;
use titan_h2::{Code, Connection, Destination, Event, Fault, Limits, RequestStart, StreamId};
use titan_http::{Fields, Method, RequestHead, ResponseHead, Status, Version};

#[test]
fn a_request_and_its_response() {
    let mut tested = Tested::server(Limits::default());
    let lines = and(POST, ("content-length", "3"));
    let stream = tested.opens(&headers(1, 0, &lines));
    let mut head = RequestHead::default();
    assert_eq!(tested.connection.take_request(&mut head), block(&lines).len());
    assert_eq!(
        (head.method, head.version, head.path()),
        (Method::POST, Version::Http2, b"/a".as_slice())
    );
    assert_eq!(head.authority(), Some(b"a.example".as_slice()));

    let events = tested.receives(&data(1, END_STREAM, b"abc")).unwrap();
    assert!(matches!(events[0], Event::Data { end: true, .. }));
    assert_eq!(tested.told.last().unwrap().data, b"abc");

    tested.responds(stream, Status::EARLY_HINTS, false);
    let head = ResponseHead::with_status(Status::OK);
    tested.connection.send_response(stream, &head, Some(2), false);
    assert_eq!(tested.connection.send_data(stream, b"ok", true), 2);
    let sent = tested.sent();
    let kinds: Vec<_> = sent.iter().map(|sent| (sent.kind, sent.flags)).collect();
    let expected = [(HEADERS, END_HEADERS), (HEADERS, END_HEADERS), (DATA, END_STREAM)];
    assert_eq!(kinds, expected);
    assert_eq!(
        (sent[2].payload.as_slice(), tested.connection.open_streams()),
        (b"ok".as_slice(), 0)
    );
}

#[test]
fn an_event_has_what_a_head_says() {
    let mut tested = Tested::server(Limits::default());
    let lines = [POST, &[("content-length", "7"), ("expect", "100-continue")]].concat();
    let events = tested.receives(&headers(1, 0, &lines)).unwrap();
    let Event::Request { start, .. } = &events[0] else { panic!("{events:?}") };
    let RequestStart { end, length, expect_continue, protocol, is_https } = *start;
    assert_eq!(
        (end, length, expect_continue, protocol, is_https),
        (false, Some(7), true, None, true)
    );
}

#[test]
fn a_tunnel_is_requested() {
    let mut tested = Tested::server(Limits::default());
    let mut lines = and(POST, (":protocol", "websocket"));
    lines[0].1 = "CONNECT";
    let events = tested.receives(&headers(1, 0, &lines)).unwrap();
    let Event::Request { start, .. } = &events[0] else { panic!("{events:?}") };
    let mut head = RequestHead::default();
    tested.connection.take_request(&mut head);
    assert_eq!(start.protocol.unwrap().of(head.fields.text()), b"websocket");
}

#[test]
fn trailers_end_both_messages() {
    let mut tested = Tested::server(Limits::default());
    let stream = tested.opens(&post(1));
    let events = tested.receives(&headers(1, END_STREAM, &[("x-sum", "7")])).unwrap();
    assert_eq!(events, [Event::Trailers { stream }]);
    let mut trailers = Fields::default();
    tested.connection.take_trailers(&mut trailers);
    assert_eq!(trailers.named(b"x-sum").next(), Some(b"7".as_slice()));

    tested.responds(stream, Status::OK, false);
    tested.connection.send_trailers(stream, &one_field(b"etag", b"\"1\""));
    let sent = tested.sent();
    assert_eq!((sent[1].kind, sent[1].flags), (HEADERS, END_HEADERS | END_STREAM));
    assert!(!tested.connection.is_open(stream));
}

#[test]
fn without_trailers_an_empty_frame_ends_a_message() {
    let mut tested = Tested::server(Limits::default());
    for (id, by_data) in [(1, true), (3, false)] {
        let stream = tested.opens(&get(id));
        tested.responds(stream, Status::OK, false);
        match by_data {
            true => assert_eq!(tested.connection.send_data(stream, b"", true), 0),
            false => assert_eq!(tested.connection.send_trailers(stream, &Fields::default()), 0),
        }
        let last = tested.sent().pop().unwrap();
        assert_eq!((last.kind, last.flags, last.payload.len()), (DATA, END_STREAM, 0));
        assert!(!tested.connection.is_open(stream));
    }
}

#[test]
fn what_the_client_does_not_take_is_not_sent() {
    const MAX_HEADER_LIST_SIZE: u16 = 6;
    let mut head = ResponseHead::with_status(Status::OK);
    head.fields.append_named(b"x-name", b"value").unwrap();
    // Neither this nor what is the connection's own is sent, and counts.
    head.fields.append_named(b"connection", b"close").unwrap();
    let size = (7 + 3 + 32) + (6 + 5 + 32) + (14 + 1 + 32);
    let mut tested = Tested::server(Limits::default());
    tested.receives(&settings(&[(MAX_HEADER_LIST_SIZE, size - 1)])).unwrap();
    let streams = [1, 3, 5].map(|id| tested.opens(&get(id)));
    tested.sent();
    let mut hints = ResponseHead::with_status(Status::EARLY_HINTS);
    hints.fields.append_named(b"link", &[b'l'; 200]).unwrap();
    assert_eq!(tested.connection.send_response(streams[0], &hints, None, false), 0);
    assert!(tested.connection.is_sending(streams[0]), "only the final one is needed");
    assert_eq!(tested.connection.send_response(streams[0], &head, Some(4), false), 0);
    assert_eq!(tested.connection.send_data(streams[0], b"body", true), 4);
    tested.responds(streams[1], Status::OK, false);
    assert_eq!(tested.connection.send_trailers(streams[1], &hints.fields), 0);
    let sent: Vec<_> = tested.sent().iter().map(|sent| (sent.kind, sent.stream)).collect();
    assert_eq!(sent, [(RST_STREAM, 1), (HEADERS, 3), (RST_STREAM, 3)]);
    assert_eq!(tested.connection.open_streams(), 1);

    tested.receives(&settings(&[(MAX_HEADER_LIST_SIZE, size)])).unwrap();
    tested.sent();
    let block = tested.connection.send_response(streams[2], &head, Some(4), false);
    let sent = tested.sent().remove(0);
    assert_eq!((sent.kind, sent.payload.len()), (HEADERS, block));
}

#[test]
fn padding_is_not_passed_on_and_its_credit_is_returned() {
    let mut tested = Tested::server(Limits { stream_window: 100, ..Limits::default() });
    tested.releases = false;
    tested.opens(&post(1));
    tested.receives(&data(1, PADDED, &[[59].as_slice(), b"ab", &[0; 59]].concat())).unwrap();
    assert_eq!(tested.told.last().unwrap().data, b"ab");
    let sent = tested.sent();
    assert_eq!((sent[0].kind, sent[0].stream, sent[0].number(0)), (WINDOW_UPDATE, 1, 60));
}

#[test]
fn a_head_that_is_too_much_gets_a_response() {
    let long = "/".repeat(9000);
    let mut lines = POST.to_vec();
    lines[2].1 = long.as_str();
    let mut tested = Tested::server(Limits::default());
    let events = tested.receives(&headers(1, 0, &lines)).unwrap();
    let stream = match events.as_slice() {
        [Event::Refused { stream, fault: Fault::TargetTooLong }] => *stream,
        other => panic!("{other:?}"),
    };
    // What comes of its body is dropped, and given back.
    let body = [data(1, 0, &[0; 9000]), data(1, 0, &[0; 9000])].concat();
    for _ in 0..20 {
        assert_eq!(tested.receives(&body), Ok(vec![]));
    }
    let trailers = headers(1, 0, &[("x-sum", "7")]);
    assert_eq!(tested.receives(&trailers), Ok(vec![]));
    tested.responds(stream, Status::URI_TOO_LONG, false);
    assert_eq!(tested.connection.send_data(stream, b"long", true), 4);
    let sent = tested.sent();
    let end = &sent[sent.len() - 2..];
    assert_eq!((end[0].kind, end[0].flags), (DATA, END_STREAM));
    assert_eq!((end[1].kind, end[1].number(0)), (RST_STREAM, Code::NoError.number()));
    assert_eq!(tested.connection.open_streams(), 0);
    // The table for fields is still right.
    tested.opens(&get(3));
}

#[test]
fn an_unknown_expectation_gets_a_response() {
    let mut tested = Tested::server(Limits::default());
    let lines = and(POST, ("expect", "wonders"));
    let events = tested.receives(&headers(1, END_STREAM, &lines)).unwrap();
    let stream = StreamIds::of(&events);
    tested.responds(stream, Status::EXPECTATION_FAILED, true);
    let sent = tested.sent();
    assert_eq!((sent.len(), tested.connection.open_streams()), (1, 0));
}

struct StreamIds;

impl StreamIds {
    fn of(events: &[Event]) -> StreamId {
        match events {
            [Event::Refused { stream, .. }] => *stream,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_peer_gives_a_stream_up() {
    let mut tested = Tested::server(Limits::default());
    let stream = tested.opens(&post(1));
    let events = tested.receives(&reset(1, 8)).unwrap();
    assert_eq!(events, [Event::Reset { stream, code: Code::Cancel, fault: None }]);
    // What is sent on it goes nowhere.
    tested.responds(stream, Status::OK, false);
    assert_eq!(tested.connection.send_data(stream, b"abc", true), 3);
    tested.connection.send_trailers(stream, &Fields::default());
    tested.connection.reset(stream, Code::Cancel);
    assert!(tested.sent().is_empty());
}

#[test]
fn a_client_speaks_first() {
    let connection = Connection::client(Limits::default());
    let frames = frames(connection.output().strip_prefix(PREFACE).unwrap());
    assert_eq!((frames[0].kind, frames[0].stream, frames[0].flags), (SETTINGS, 0, 0));
    assert_eq!(&frames[0].payload[..6], [0, 2, 0, 0, 0, 0]);
    assert_eq!((frames[1].kind, frames[1].number(0)), (WINDOW_UPDATE, (1 << 20) - 65_535));
}

#[test]
fn a_client_sends_a_request_and_gets_a_response() {
    let mut tested = Tested::client(Limits::default());
    let stream = tested.asks(Method::POST, false).unwrap();
    assert_eq!(stream.number(), 1);
    assert_eq!(tested.connection.send_data(stream, b"abc", true), 3);
    assert!(!tested.connection.is_sending(stream) && tested.connection.is_open(stream));
    let bytes = [
        headers(1, 0, &[(":status", "103"), ("link", "</a>")]),
        headers(1, 0, &[(":status", "200"), ("content-length", "2")]),
        data(1, 0, b"ok"),
        headers(1, END_STREAM, &[("x-sum", "7")]),
    ];
    let events = tested.receives(&bytes.concat()).unwrap();
    let Event::Response { start, .. } = events[1] else { panic!("{events:?}") };
    assert_eq!((start.interim, start.end, start.length), (false, false, Some(2)));
    assert!(matches!(events[0], Event::Response { start, .. } if start.interim));
    assert!(matches!(events[2], Event::Data { end: false, .. }));
    assert_eq!(events[3], Event::Trailers { stream });
    assert_eq!(tested.connection.open_streams(), 0);
}

#[test]
fn a_client_keeps_to_the_streams_that_the_server_takes() {
    let mut tested = Tested::client(Limits::default());
    assert_eq!(tested.connection.peer_streams(), 100);
    let settings = settings(&[(3, 2), (8, 1)]);
    assert_eq!(tested.receives(&settings), Ok(vec![Event::Settings]));
    assert!(tested.connection.extended_connect() && tested.connection.peer_streams() == 2);
    assert!(tested.asks(Method::GET, true).is_some() && tested.asks(Method::GET, true).is_some());
    assert!(!tested.connection.can_open() && tested.asks(Method::GET, true).is_none());
    tested.receives(&headers(1, END_STREAM, &[(":status", "200")])).unwrap();
    assert!(tested.connection.can_open());
}

#[test]
fn a_successful_response_to_connect_has_no_length() {
    let mut tested = Tested::client(Limits::default());
    let head = RequestHead { method: Method::CONNECT, ..RequestHead::default() };
    let to = Destination { authority: b"a.example:1", is_https: true, protocol: None };
    tested.connection.send_request(&head, to, None, false).unwrap();
    let response = headers(1, 0, &[(":status", "200"), ("content-length", "1")]);
    let events = tested.receives(&[response, data(1, 0, b"abc")].concat()).unwrap();
    assert!(matches!(events[0], Event::Response { start, .. } if start.length.is_none()));
    assert!(matches!(events[1], Event::Data { .. }));
}

#[test]
fn signs_of_life() {
    let mut tested = Tested::server(Limits::default());
    tested.receives(&ping(0, b"12345678")).unwrap();
    let sent = tested.sent();
    assert_eq!(
        (sent[0].kind, sent[0].flags, sent[0].payload.as_slice()),
        (PING, ACK, b"12345678".as_slice())
    );

    tested.connection.ping();
    let asked: [u8; 8] = tested.sent()[0].payload.as_slice().try_into().unwrap();
    assert_eq!(tested.receives(&ping(ACK, b"whatever")), Ok(vec![]));
    assert_eq!(tested.receives(&ping(ACK, &asked)), Ok(vec![Event::Pong]));
    assert_eq!(tested.receives(&ping(ACK, &asked)), Ok(vec![]));
}

#[test]
fn a_long_head_goes_out_in_several_frames_and_is_read() {
    let limits = Limits { head: 100 << 10, ..Limits::default() };
    let (mut client, mut server) = (Tested::client(limits), Tested::server(limits));
    let mut head = RequestHead::default();
    head.set_path(b"/").unwrap();
    let value = vec![b'v'; 40_000];
    head.fields.append_named(b"x-long", &value).unwrap();
    let to = Destination { authority: b"a.example", is_https: false, protocol: None };
    client.connection.send_request(&head, to, None, true).unwrap();
    let kinds: Vec<_> = frames(client.connection.output()).iter().map(|sent| sent.kind).collect();
    assert_eq!(kinds, [HEADERS, CONTINUATION, CONTINUATION]);
    server.opens(client.connection.output());
    server.connection.take_request(&mut head);
    assert_eq!(head.fields.named(b"x-long").next(), Some(value.as_slice()));
}
