//! What a peer may not do, and what happens to the stream or the connection.

use crate::peer::*;
use titan_h2::{Code, Connection, Event, Fault, Limits, Violation};
use titan_http::{Method, Status};

/// What bytes lead to.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// The connection is over.
    Over(Violation),
    /// That stream is over.
    Reset(u32, Fault),
}
use Verdict::{Fine, Over, Reset};

fn verdict(tested: &mut Tested, bytes: &[u8]) -> Verdict {
    let events = match tested.receives(bytes) {
        Err(fatal) => {
            let last = tested.sent().pop().expect("GOAWAY is the last frame");
            assert_eq!((last.kind, last.number(4)), (GOAWAY, fatal.code.number()));
            return Over(fatal.violation);
        }
        Ok(events) => events,
    };
    for event in events {
        if let Event::Reset { stream, code, fault: Some(fault) } = event {
            let is_reset = |sent: &Sent| sent.kind == RST_STREAM && sent.number(0) == code.number();
            assert!(tested.sent().iter().any(is_reset));
            assert!(!tested.connection.is_open(stream));
            return Reset(on_wire(stream), fault);
        }
    }
    Fine
}

/// Rows of name, frames, verdict; each on a connection of its own.
fn check(rows: Vec<(&str, Vec<Vec<u8>>, Verdict)>, tested: fn() -> Tested) {
    for (name, frames, expected) in rows {
        assert_eq!(verdict(&mut tested(), &frames.concat()), expected, "{name}");
    }
}

fn server() -> Tested {
    Tested::server(Limits { streams: 4, ..Limits::default() })
}

/// Bytes after a request on stream 1 that goes on, and one on stream 3 that has its response.
fn busy_server() -> Tested {
    let mut tested = server();
    tested.opens(&post(1));
    let stream = tested.opens(&get(3));
    tested.responds(stream, Status::OK, true);
    tested.sent();
    tested
}

#[test]
fn frames_have_their_lengths() {
    let over = || Over(Violation::FrameLength);
    check(
        vec![
            ("settings-of-five", vec![frame(SETTINGS, 0, 0, &[0; 5])], over()),
            ("settings-ack-of-six", vec![frame(SETTINGS, ACK, 0, &[0; 6])], over()),
            ("ping-of-seven", vec![frame(PING, 0, 0, &[0; 7])], over()),
            ("ping-of-nine", vec![frame(PING, 0, 0, &[0; 9])], over()),
            ("reset-of-three", vec![frame(RST_STREAM, 0, 1, &[0; 3])], over()),
            ("reset-of-five", vec![frame(RST_STREAM, 0, 1, &[0; 5])], over()),
            ("update-of-three", vec![frame(WINDOW_UPDATE, 0, 1, &[0; 3])], over()),
            ("update-of-five", vec![frame(WINDOW_UPDATE, 0, 0, &[0; 5])], over()),
            ("goaway-of-seven", vec![frame(GOAWAY, 0, 0, &[0; 7])], over()),
            ("priority-idle", vec![frame(PRIORITY, 0, 9, &[0; 4])], over()),
            ("priority", vec![frame(PRIORITY, 0, 1, &[0; 4])], Reset(1, Fault::PriorityLength)),
            ("padded-without-byte", vec![frame(DATA, PADDED, 1, b"")], over()),
            ("priority-cut", vec![frame(HEADERS, WITH_PRIORITY, 5, &[0; 4])], over()),
            ("longest", vec![data(1, 0, &[0; 16_384])], Fine),
            ("too-long", vec![data(1, 0, &[0; 16_385])], Over(Violation::FrameTooLong)),
            ("too-long-head-only", vec![vec![0, 64, 1, 0, 0, 0, 0, 0, 1]], {
                Over(Violation::FrameTooLong)
            }),
        ],
        busy_server,
    );
}

#[test]
fn padding_is_within_the_frame() {
    check(
        vec![
            ("data", vec![data(1, PADDED, &[3, 1, 0, 0, 0])], Fine),
            ("data-all", vec![data(1, PADDED, &[3, 0, 0, 0])], Fine),
            ("data-beyond", vec![data(1, PADDED, &[4, 0, 0, 0])], Over(Violation::Padding)),
            ("headers-beyond", vec![frame(HEADERS, PADDED, 5, &[9, 0])], {
                Over(Violation::Padding)
            }),
        ],
        busy_server,
    );
}

#[test]
fn frames_stand_on_streams_that_may_have_them() {
    let zero = || Over(Violation::StreamZero);
    let idle = || Over(Violation::IdleStream);
    let even = || Over(Violation::StreamNumber);
    let closed = || Over(Violation::ClosedStream);
    check(
        vec![
            ("data-on-0", vec![data(0, 0, b"a")], zero()),
            ("headers-on-0", vec![get(0)], zero()),
            ("priority-on-0", vec![frame(PRIORITY, 0, 0, &[0; 5])], zero()),
            ("reset-on-0", vec![reset(0, 8)], zero()),
            ("settings-on-1", vec![frame(SETTINGS, 0, 1, b"")], zero()),
            ("ping-on-1", vec![frame(PING, 0, 1, &[0; 8])], zero()),
            ("goaway-on-1", vec![frame(GOAWAY, 0, 1, &[0; 8])], zero()),
            ("data-on-idle", vec![data(5, 0, b"a")], idle()),
            ("reset-on-idle", vec![reset(5, 8)], idle()),
            ("update-on-idle", vec![window_update(5, 1)], idle()),
            ("priority-on-idle", vec![frame(PRIORITY, 0, 9, &[0, 0, 0, 1, 9])], Fine),
            ("priority-on-closed", vec![frame(PRIORITY, 0, 3, &[0, 0, 0, 1, 9])], Fine),
            ("headers-on-even", vec![get(6)], even()),
            ("data-on-even", vec![data(2, 0, b"a")], even()),
            ("headers-on-skipped", vec![get(7), get(5)], even()),
            ("data-on-skipped", vec![get(7), data(5, 0, b"a")], Reset(5, Fault::StreamClosed)),
            ("headers-on-complete", vec![get(3)], closed()),
            ("data-on-complete", vec![data(3, 0, b"a")], closed()),
            ("update-on-complete", vec![window_update(3, 1)], Fine),
            ("reset-on-complete", vec![reset(3, 8)], Fine),
            ("data-after-end", vec![data(1, END_STREAM, b"a"), data(1, 0, b"a")], {
                Reset(1, Fault::StreamClosed)
            }),
            ("headers-after-end", vec![data(1, END_STREAM, b"a"), get(1)], {
                Reset(1, Fault::StreamClosed)
            }),
            ("update-after-end", vec![data(1, END_STREAM, b"a"), window_update(1, 1)], Fine),
            ("data-after-reset", vec![reset(1, 8), data(1, 0, b"a")], {
                Reset(1, Fault::StreamClosed)
            }),
            ("headers-after-reset", vec![reset(1, 8), get(1)], Reset(1, Fault::StreamClosed)),
            ("update-after-reset", vec![reset(1, 8), window_update(1, 1)], Fine),
        ],
        busy_server,
    );
}

#[test]
fn blocks_are_not_interrupted() {
    let begun = || frame(HEADERS, END_STREAM, 5, &block(GET));
    let over = || Over(Violation::Continuation);
    let rest = |flags, stream| frame(CONTINUATION, flags, stream, &block(&[("a", "b")]));
    check(
        vec![
            ("whole", vec![begun(), rest(END_HEADERS, 5)], Fine),
            ("in-three", vec![begun(), rest(0, 5), rest(END_HEADERS, 5)], Fine),
            ("other-frame", vec![begun(), ping(0, &[0; 8])], over()),
            ("unknown-frame", vec![begun(), frame(0x16, 0, 0, b"")], over()),
            ("other-stream", vec![begun(), rest(END_HEADERS, 7)], over()),
            ("headers", vec![begun(), get(7)], over()),
            ("never-begun", vec![rest(END_HEADERS, 1)], over()),
            ("after-its-end", vec![get(5), rest(END_HEADERS, 5)], over()),
            ("garbage", vec![frame(HEADERS, END_HEADERS, 5, &[0xff; 20])], {
                Over(Violation::Compression)
            }),
            ("garbage-on-closed", vec![reset(1, 8), frame(HEADERS, END_HEADERS, 1, &[0x80])], {
                Over(Violation::Compression)
            }),
        ],
        busy_server,
    );
}

#[test]
fn settings_have_their_ranges() {
    let value = || Over(Violation::SettingValue);
    check(
        vec![
            ("push", vec![settings(&[(2, 2)])], value()),
            ("window", vec![settings(&[(4, 1 << 31)])], Over(Violation::SettingWindow)),
            ("frame-small", vec![settings(&[(5, 16_383)])], value()),
            ("frame-large", vec![settings(&[(5, 1 << 24)])], value()),
            ("connect", vec![settings(&[(8, 2)])], value()),
            ("unknown", vec![settings(&[(0x99, 7)])], Fine),
            ("none", vec![settings(&[])], Fine),
        ],
        server,
    );
    let client = || Tested::client(Limits::default());
    check(vec![("push-on", vec![settings(&[(2, 1)])], value())], client);
}

#[test]
fn windows_have_their_ranges() {
    let largest = 0x7fff_ffff;
    check(
        vec![
            ("zero", vec![window_update(0, 0)], Over(Violation::WindowIncrement)),
            ("stream-zero", vec![window_update(1, 0)], Reset(1, Fault::WindowIncrement)),
            ("overflow", vec![window_update(0, largest)], Over(Violation::WindowOverflow)),
            ("stream-overflow", vec![window_update(1, largest)], {
                Reset(1, Fault::WindowOverflow)
            }),
            ("reserved-bit", vec![window_update(1, 1 << 31 | 1)], Fine),
            (
                "settings-overflow",
                vec![window_update(1, largest - 65_535), settings(&[(4, 65_536)])],
                Over(Violation::SettingWindow),
            ),
        ],
        busy_server,
    );
}

#[test]
fn data_keeps_to_the_windows() {
    let small = || {
        let mut tested = Tested::server(Limits { stream_window: 10, ..Limits::default() });
        tested.releases = false;
        tested.opens(&post(1));
        tested
    };
    check(
        vec![
            ("all", vec![data(1, 0, &[0; 10])], Fine),
            ("more", vec![data(1, 0, &[0; 11])], Over(Violation::WindowExceeded)),
            ("padding-counts", vec![data(1, PADDED, &[9; 11])], Over(Violation::WindowExceeded)),
        ],
        small,
    );
}

#[test]
fn bodies_are_as_long_as_declared() {
    let declared = |flags| headers(5, flags, &and(POST, ("content-length", "3")));
    let trailers = || headers(5, END_STREAM, &[("x-sum", "1")]);
    check(
        vec![
            ("exact", vec![declared(0), data(5, END_STREAM, b"abc")], Fine),
            ("exact-then-empty", vec![declared(0), data(5, 0, b"abc"), data(5, 1, b"")], Fine),
            ("exact-then-trailers", vec![declared(0), data(5, 0, b"abc"), trailers()], Fine),
            ("none", vec![declared(END_STREAM)], Reset(5, Fault::BodyTooShort)),
            ("short", vec![declared(0), data(5, 1, b"ab")], Reset(5, Fault::BodyTooShort)),
            ("short-then-trailers", vec![declared(0), data(5, 0, b"ab"), trailers()], {
                Reset(5, Fault::BodyTooShort)
            }),
            ("long", vec![declared(0), data(5, 0, b"abcd")], Reset(5, Fault::BodyTooLong)),
            ("long-in-two", vec![declared(0), data(5, 0, b"abc"), data(5, 1, b"d")], {
                Reset(5, Fault::BodyTooLong)
            }),
        ],
        busy_server,
    );
}

#[test]
fn messages_are_in_order() {
    let self_dependent = || {
        let payload = [[0, 0, 0, 5, 9].as_slice(), &block(GET)].concat();
        frame(HEADERS, END_HEADERS | END_STREAM | WITH_PRIORITY, 5, &payload)
    };
    check(
        vec![
            ("second-head", vec![headers(1, 0, &[("a", "b")])], Reset(1, Fault::TrailersNotLast)),
            ("trailers", vec![headers(1, END_STREAM, &[("a", "b")])], Fine),
            ("pseudo-in-trailers", vec![headers(1, END_STREAM, GET)], {
                Reset(1, Fault::PseudoInTrailers)
            }),
            ("push", vec![frame(PUSH_PROMISE, 4, 1, &[0; 4])], Over(Violation::Push)),
            ("depends-on-itself", vec![self_dependent()], Reset(5, Fault::DependsOnItself)),
            ("priority-of-itself", vec![frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 9])], {
                Reset(1, Fault::DependsOnItself)
            }),
            ("too-many", vec![post(5), post(7), post(9), post(11)], {
                Reset(11, Fault::TooManyStreams)
            }),
            ("as-many-as-allowed", vec![post(5), post(7), post(9)], Fine),
            ("unknown-frame", vec![frame(0x16, 0xff, 1, b"abc")], Fine),
            ("no-method", vec![headers(5, 1, &GET[1..])], Reset(5, Fault::NoMethod)),
        ],
        busy_server,
    );
}

#[test]
fn responses_are_in_order() {
    let client = || {
        let mut tested = Tested::client(Limits::default());
        tested.asks(Method::GET, true).unwrap();
        tested.asks(Method::HEAD, true).unwrap();
        tested.asks(Method::POST, false).unwrap();
        let written = tested.connection.output().len();
        tested.connection.written(written);
        tested
    };
    let status = |text| vec![(":status", text)];
    let of_three = |text| and(&status(text), ("content-length", "3"));
    check(
        vec![
            ("whole", vec![headers(1, END_STREAM, &status("200"))], Fine),
            ("data-first", vec![data(1, 0, b"a")], Reset(1, Fault::NoHead)),
            ("interim", vec![headers(1, 0, &status("103")), headers(1, 1, &status("200"))], Fine),
            ("interim-last", vec![headers(1, 1, &status("103"))], Reset(1, Fault::InterimLast)),
            ("data-after-interim", vec![headers(1, 0, &status("103")), data(1, 0, b"a")], {
                Reset(1, Fault::NoHead)
            }),
            ("101", vec![headers(1, 0, &status("101"))], Reset(1, Fault::SwitchingProtocols)),
            ("short", vec![headers(1, 1, &of_three("200"))], Reset(1, Fault::BodyTooShort)),
            ("long", vec![headers(1, 0, &of_three("200")), data(1, 0, b"abcd")], {
                Reset(1, Fault::BodyTooLong)
            }),
            ("head", vec![headers(3, 1, &of_three("200"))], Fine),
            ("head-late-end", vec![headers(3, 0, &of_three("200")), data(3, 1, b"")], Fine),
            ("head-with-body", vec![headers(3, 0, &of_three("200")), data(3, 1, b"abc")], {
                Reset(3, Fault::BodyForbidden)
            }),
            ("304", vec![headers(1, 1, &of_three("304"))], Fine),
            ("204-with-body", vec![headers(1, 0, &status("204")), data(1, 0, b"a")], {
                Reset(1, Fault::BodyForbidden)
            }),
            ("never-asked", vec![headers(7, 1, &status("200"))], Over(Violation::IdleStream)),
            ("pushed", vec![headers(2, 1, &status("200"))], Over(Violation::StreamNumber)),
            ("push", vec![frame(PUSH_PROMISE, 4, 1, &[0; 4])], Over(Violation::Push)),
            ("after-end", vec![headers(1, 1, &status("200")), data(1, 0, b"a")], {
                Over(Violation::ClosedStream)
            }),
        ],
        client,
    );
}

#[test]
fn a_connection_begins_with_its_preface() {
    for bytes in [b"GET / HTTP/1.1\r\n".as_slice(), b"PRI * HTTP/2.1", b"PRI * HTTP/2.0\r\n\r\nSX"]
    {
        let mut tested = Tested::of(Connection::server(Limits::default()));
        assert_eq!(tested.receives(bytes).unwrap_err().violation, Violation::Preface);
    }
    let mut tested = Tested::of(Connection::server(Limits::default()));
    tested.receives(PREFACE).unwrap();
    let fatal = tested.receives(&ping(0, &[0; 8])).unwrap_err();
    assert_eq!((fatal.violation, fatal.code), (Violation::NoSettings, Code::ProtocolError));

    let mut tested = Tested::of(Connection::server(Limits::default()));
    tested.receives(PREFACE).unwrap();
    assert_eq!(tested.receives(&settings_ack()).unwrap_err().violation, Violation::NoSettings);

    let mut tested = Tested::of(Connection::client(Limits::default()));
    let fatal = tested.receives(b"HTTP/1.1 400 Bad Request\r\n").unwrap_err();
    assert_eq!(fatal.violation, Violation::NotHttp2);
}

/// A block that puts `x-a: b` into the table, and one that takes it from there.
const TOLD: &[u8] = b"\x82\x87\x84\x01\x01a\x40\x03x-a\x01b";
const RECALLED: &[u8] = b"\x82\x87\x84\x01\x01a\xbe";

#[test]
fn every_block_goes_through_the_table() {
    let told = |id| frame(HEADERS, END_HEADERS | END_STREAM, id, TOLD);
    let self_dependent = |id: u32| {
        let payload = [&id.to_be_bytes(), b"\x09".as_slice(), TOLD].concat();
        frame(HEADERS, END_HEADERS | END_STREAM | WITH_PRIORITY, id, &payload)
    };
    let rows: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("request", vec![told(5)]),
        ("second-head", vec![frame(HEADERS, END_HEADERS, 1, TOLD)]),
        ("pseudo-in-trailers", vec![told(1)]),
        ("after-end", vec![data(1, END_STREAM, b"a"), told(1)]),
        ("after-reset", vec![reset(1, 8), told(1)]),
        ("depends-on-itself", vec![self_dependent(5)]),
        ("too-many", vec![get(5), get(7), get(9), told(11)]),
        ("trailers-of-refused", {
            vec![headers(5, 0, &and(POST, ("expect", "wonders"))), told(5)]
        }),
    ];
    for (name, frames) in rows {
        let mut tested = busy_server();
        tested.receives(&frames.concat()).unwrap();
        tested.receives(&reset(1, 8)).unwrap();
        let request = frame(HEADERS, END_HEADERS | END_STREAM, 13, RECALLED);
        let events = match name {
            // The table is right, or this would be fatal; there is merely no room for it.
            "too-many" => tested.receives(&[reset(5, 8), request].concat()).unwrap(),
            _ => tested.receives(&request).unwrap(),
        };
        assert!(matches!(events.last(), Some(Event::Request { .. })), "{name}: {events:?}");
    }
}

#[test]
fn a_block_that_a_leaving_server_ignores_goes_through_the_table() {
    let mut tested = busy_server();
    tested.connection.go_away(Code::NoError);
    let told = frame(HEADERS, END_HEADERS | END_STREAM, 5, TOLD);
    tested.receives(&told).unwrap();
    let recalled = frame(HEADERS, END_HEADERS | END_STREAM, 7, RECALLED);
    assert_eq!(tested.receives(&recalled), Ok(vec![]));
}

#[test]
fn nothing_is_read_after_an_error() {
    let mut tested = server();
    let fatal = tested.receives(&data(0, 0, b"a")).unwrap_err();
    tested.sent();
    assert_eq!(tested.receives(&get(1)), Err(fatal));
    assert!(tested.connection.is_over() && tested.connection.output().is_empty());
}

#[test]
fn what_is_on_its_way_when_a_stream_is_given_up_is_dropped() {
    let mut tested = busy_server();
    let stream = tested.opens(&post(5));
    tested.connection.reset(stream, Code::Cancel);
    let late = [data(5, 0, b"abc"), window_update(5, 9), headers(5, 1, &[("a", "b")]), reset(5, 8)];
    assert_eq!(tested.receives(&late.concat()), Ok(vec![]));
    let sent = tested.sent();
    assert_eq!((sent.len(), sent[0].kind, sent[0].number(0)), (1, RST_STREAM, 8));
}
