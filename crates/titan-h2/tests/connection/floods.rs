//! What costs and gets nothing done ends within a thousand frames, and takes little room until then.

use crate::peer::*;
use titan_h2::{Code, Event, Fatal, Limits, Violation};
use titan_http::{Method, Status};

/// Frames that a flood may have.
const MOST_FRAMES: u32 = 1000;

/// Bytes that may wait for a peer that does not read.
const MOST_OUTPUT: usize = 128 << 10;

/// What a peer sends for the nth time.
type Flood = fn(u32) -> Vec<Vec<u8>>;

/// Runs a flood against a server that never responds.
fn cut(flood: Flood) -> (u32, Fatal) {
    let mut tested = Tested::server(Limits::default());
    tested.opens(&post(1));
    let mut count = 0;
    for nth in 0.. {
        for bytes in flood(nth) {
            count += 1;
            if let Err(fatal) = tested.receives(&bytes) {
                return (count, fatal);
            }
            assert!(count < 10 * MOST_FRAMES, "it is never cut");
            assert!(tested.connection.output().len() < MOST_OUTPUT);
        }
    }
    unreachable!("floods do not end by themselves")
}

/// The number of the nth stream behind that of the harness.
fn id(nth: u32) -> u32 {
    2 * nth + 3
}

#[test]
fn floods_are_cut() {
    let floods: &[(&str, Flood)] = &[
        ("rapid-reset", |nth| vec![get(id(nth)), reset(id(nth), 8)]),
        ("rapid-reset-post", |nth| vec![post(id(nth)), reset(id(nth), 8)]),
        ("made-you-reset-by-update", |nth| vec![get(id(nth)), window_update(id(nth), 0)]),
        ("made-you-reset-by-overflow", |nth| {
            vec![get(id(nth)), window_update(id(nth), 0x7fff_ffff)]
        }),
        ("made-you-reset-by-data", |nth| vec![get(id(nth)), data(id(nth), 0, b"a")]),
        ("made-you-reset-by-headers", |nth| vec![get(id(nth)), get(id(nth))]),
        ("made-you-reset-by-priority", |nth| {
            vec![get(id(nth)), frame(PRIORITY, 0, id(nth), &[0; 4])]
        }),
        ("made-you-reset-by-length", |nth| {
            vec![headers(id(nth), END_STREAM, &and(POST, ("content-length", "1")))]
        }),
        ("malformed", |nth| vec![headers(id(nth), END_STREAM, &GET[1..])]),
        ("beyond-the-limit", |nth| vec![get(id(nth))]),
        ("settings", |_| vec![settings(&[])]),
        ("settings-windows", |nth| vec![settings(&[(4, nth)])]),
        ("settings-ack", |_| vec![settings_ack()]),
        ("ping", |_| vec![ping(0, b"12345678")]),
        ("ping-ack", |_| vec![ping(ACK, b"12345678")]),
        ("priority", |_| vec![frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])]),
        ("priority-idle", |nth| vec![frame(PRIORITY, 0, id(nth), &[0, 0, 0, 0, 9])]),
        ("window-update", |_| vec![window_update(1, 1)]),
        ("window-update-connection", |_| vec![window_update(0, 1)]),
        ("unknown", |_| vec![frame(0x16, 0, 1, b"")]),
        ("empty-data", |_| vec![data(1, 0, b"")]),
        ("padded-data", |_| vec![data(1, PADDED, &[3, 0, 0, 0])]),
        ("one-byte-data", |_| vec![data(1, 0, b"a")]),
        ("goaway", |_| vec![go_away(0, 0)]),
        ("continuations", |nth| {
            vec![
                frame(HEADERS, END_STREAM, id(nth), &block(GET)),
                frame(CONTINUATION, END_HEADERS, id(nth), b""),
            ]
        }),
        ("too-long-head", |nth| {
            let long = "v".repeat(15_000);
            let lines = [GET, &[("a", long.as_str()), ("b", long.as_str())]].concat();
            let bytes = block(&lines);
            let (first, rest) = bytes.split_at(16_000);
            vec![
                frame(HEADERS, END_STREAM, id(nth), first),
                frame(CONTINUATION, END_HEADERS, id(nth), rest),
            ]
        }),
        ("updates-of-closed", |nth| {
            vec![get(id(nth)), reset(id(nth), 8), window_update(id(nth), 1)]
        }),
    ];
    for (name, flood) in floods {
        let (count, fatal) = cut(*flood);
        assert!(count <= MOST_FRAMES, "{name}: {count} frames");
        assert_eq!(fatal.code, Code::EnhanceYourCalm, "{name}: {fatal}");
    }
}

#[test]
fn a_block_without_end_is_cut() {
    for part in [0, 1, 2000] {
        let mut tested = Tested::server(Limits::default());
        tested.receives(&frame(HEADERS, 0, 1, &block(GET))).unwrap();
        let bytes = frame(CONTINUATION, 0, 1, &vec![0; part]);
        let count = (0..100).take_while(|_| tested.receives(&bytes).is_ok()).count();
        let fatal = tested.receives(b"").unwrap_err();
        assert!(count <= 64 && count * part <= 32 << 10, "{part}: {count}");
        assert_eq!(fatal.violation, Violation::BlockTooLong);
    }
}

#[test]
fn a_peer_that_does_not_read_is_cut_even_when_it_is_patient() {
    let mut tested = Tested::server(Limits::default());
    let bytes = ping(0, b"12345678");
    let count = (0..100_000)
        .take_while(|_| {
            tested.connection.calm(100);
            tested.receives(&bytes).is_ok()
        })
        .count();
    assert_eq!(tested.receives(b"").unwrap_err().violation, Violation::Unread);
    assert!(count < 4000 && tested.connection.output().len() < MOST_OUTPUT);
}

#[test]
fn the_driver_charges_too() {
    let mut tested = Tested::server(Limits::default());
    tested.connection.calm(1);
    assert_eq!(tested.connection.charge(200), Ok(()));
    let fatal = tested.connection.charge(1).unwrap_err();
    assert_eq!((fatal.violation, fatal.code), (Violation::Flood, Code::EnhanceYourCalm));
    assert_eq!(tested.sent().last().unwrap().kind, GOAWAY);
    assert_eq!(tested.receives(&get(1)), Err(fatal));
}

#[test]
fn busy_clients_are_served() {
    let mut tested = Tested::server(Limits::default());
    for nth in 0..10_000 {
        let id = 2 * nth + 1;
        let mut bytes = get(id);
        // What some clients send with each request.
        bytes.extend(window_update(id, 1 << 16));
        bytes.extend(frame(0x10, 0, 0, b"\0\0\0\x01u=1"));
        if nth % 2 == 0 {
            bytes.extend(ping(0, b"12345678"));
        }
        let events = tested.receives(&bytes).unwrap();
        let Event::Request { stream, .. } = events[0] else { panic!("{events:?}") };
        tested.responds(stream, Status::OK, false);
        assert_eq!(tested.connection.send_data(stream, b"ok", true), 2);
        tested.sent();
        tested.receives(&window_update(0, 2)).unwrap();
    }
}

/// Requests that get a response without a body at once; returns after how many the connection was closed.
fn closed_after(request: fn(u32) -> Vec<u8>) -> Option<u32> {
    let mut tested = Tested::server(Limits::default());
    for nth in 0..MOST_FRAMES {
        let events = match tested.receives(&request(2 * nth + 1)) {
            Ok(events) => events,
            Err(fatal) => {
                assert_eq!(fatal.violation, Violation::Flood);
                return Some(nth);
            }
        };
        let (Event::Request { stream, .. } | Event::Refused { stream, .. }) = events[0] else {
            panic!("{events:?}")
        };
        tested.responds(stream, Status::OK, true);
        tested.sent();
    }
    None
}

#[test]
fn responses_outweigh_what_comes_with_requests() {
    assert_eq!(closed_after(|id| [get(id), ping(0, b"12345678")].concat()), None);
    let in_two = |id| {
        let empty = frame(CONTINUATION, END_HEADERS, id, b"");
        [frame(HEADERS, END_STREAM, id, &block(GET)), empty].concat()
    };
    assert_eq!(closed_after(in_two), None);
}

#[test]
fn a_reset_that_crosses_a_response_is_free_once() {
    let mut tested = Tested::server(Limits::default());
    for nth in 0..100 {
        let stream = tested.opens(&get(2 * nth + 1));
        tested.responds(stream, Status::OK, true);
        tested.sent();
    }
    let resets: Vec<_> = (0..100).flat_map(|nth| reset(2 * nth + 1, 8)).collect();
    tested.receives(&resets).unwrap();
    assert_eq!(tested.connection.charge(200), Ok(()));
    assert_eq!(tested.receives(&resets).unwrap_err().violation, Violation::Flood);
}

#[test]
fn a_client_that_had_responses_may_give_up_more() {
    let mut tested = Tested::server(Limits::default());
    tested.connection.calm(1);
    for nth in 0..100 {
        let stream = tested.opens(&get(2 * nth + 1));
        tested.responds(stream, Status::OK, true);
        tested.sent();
    }
    let mut given_up = 100..;
    let mut gives_up = || {
        let id = 2 * given_up.next().unwrap() + 1;
        tested.receives(&[get(id), reset(id, 8)].concat()).is_ok()
    };
    assert_eq!((0..1000).take_while(|_| gives_up()).count(), 300);
}

#[test]
fn responses_do_not_outweigh_everything() {
    let in_many = |id| {
        let empty = frame(CONTINUATION, 0, id, b"");
        let end = frame(CONTINUATION, END_HEADERS, id, b"");
        [frame(HEADERS, END_STREAM, id, &block(GET)), empty.repeat(20), end].concat()
    };
    assert!(closed_after(in_many).is_some_and(|count| count < 12));
    let refused = |id| headers(id, END_STREAM, &and(GET, ("expect", "wonders")));
    assert!(closed_after(refused).is_some());
}

#[test]
fn windows_may_be_updated_often_during_a_download() {
    let mut tested = Tested::server(Limits::default());
    let stream = tested.opens(&get(1));
    tested.responds(stream, Status::OK, false);
    for _ in 0..1000 {
        assert_eq!(tested.connection.send_data(stream, &[7; 16_384], false), 16_384);
        tested.sent();
        for _ in 0..4 {
            tested.receives(&window_update(1, 4096)).unwrap();
            tested.receives(&window_update(0, 4096)).unwrap();
        }
    }
}

#[test]
fn a_page_that_is_left_costs_no_connection() {
    let mut tested = Tested::server(Limits::default());
    for _ in 0..3 {
        let first = tested.connection.open_streams();
        assert_eq!(first, 0);
        let from = tested.told.len();
        let bytes: Vec<_> = (0..100).flat_map(|nth| get(nth_id(from, nth))).collect();
        tested.receives(&bytes).unwrap();
        let bytes: Vec<_> = (0..100).flat_map(|nth| reset(nth_id(from, nth), 8)).collect();
        tested.receives(&bytes).unwrap();
        tested.connection.calm(5);
    }
}

fn nth_id(from: usize, nth: u32) -> u32 {
    u32::try_from(from).unwrap() * 2 + 2 * nth + 1
}

#[test]
fn small_messages_are_welcome_while_there_is_an_average() {
    let mut tested = Tested::server(Limits::default());
    tested.opens(&post(1));
    for _ in 0..10_000 {
        tested.receives(&data(1, 0, &[7; 16])).unwrap();
        tested.sent();
    }
}

#[test]
fn requested_data_is_no_flood() {
    let mut tested = Tested::client(Limits::default());
    for nth in 0..1000 {
        let stream = tested.asks(Method::GET, true).unwrap();
        let id = on_wire(stream);
        // On its way already when the stream is given up, half of it in small pieces.
        let mut late = vec![headers(id, 0, &[(":status", "200")])];
        late.extend((0..64).map(|_| data(id, 0, &[7; 512])));
        late.extend([data(id, 0, &[7; 16_384]), data(id, 0, &[7; 16_000])]);
        late.push(if nth % 2 == 0 { reset(id, 0) } else { data(id, END_STREAM, b"") });
        tested.connection.reset(stream, Code::Cancel);
        assert_eq!(tested.receives(&late.concat()), Ok(vec![]), "{nth}");
        tested.sent();
    }
}

#[test]
fn what_follows_a_wrong_response_is_no_flood() {
    let mut tested = Tested::client(Limits::default());
    for _ in 0..1000 {
        let id = on_wire(tested.asks(Method::GET, true).unwrap());
        let wrong = headers(id, 0, &[(":status", "200"), ("content-length", "1")]);
        let response = [wrong, data(id, 0, &[7; 16_000]), data(id, 0, &[7; 16_000])].concat();
        let events = tested.receives(&response).unwrap();
        assert!(matches!(events[..], [Event::Response { .. }, Event::Reset { .. }]));
        tested.sent();
    }
}

#[test]
fn interim_responses_to_many_requests_are_no_flood() {
    let mut tested = Tested::client(Limits::default());
    for _ in 0..1000 {
        let id = on_wire(tested.asks(Method::GET, true).unwrap());
        for _ in 0..3 {
            tested.receives(&headers(id, 0, &[(":status", "103")])).unwrap();
        }
        tested.receives(&headers(id, END_STREAM, &[(":status", "200")])).unwrap();
        tested.sent();
    }
}

#[test]
fn unrequested_frames_are_limited_at_a_client_too() {
    let floods: &[(&str, Flood)] = &[
        ("interim", |_| vec![headers(1, 0, &[(":status", "103")])]),
        ("late-heads", |_| vec![headers(3, 0, &[(":status", "200")])]),
        ("late-resets", |_| vec![reset(3, 0)]),
        ("late-updates", |_| vec![window_update(3, 1)]),
        ("empty-data", |_| vec![data(3, 0, b"")]),
        ("ping", |_| vec![ping(0, b"12345678")]),
    ];
    for (name, flood) in floods {
        let mut tested = Tested::client(Limits::default());
        tested.asks(Method::GET, true).unwrap();
        let given_up = tested.asks(Method::GET, true).unwrap();
        tested.connection.reset(given_up, Code::Cancel);
        let frames = (0..).flat_map(flood);
        let count = frames.take(2000).take_while(|bytes| tested.receives(bytes).is_ok()).count();
        assert!(count <= 1000, "{name}: {count} frames");
    }
}

#[test]
fn a_client_that_reads_no_responses_clogs_the_connection() {
    let mut tested = Tested::server(Limits::default());
    let mut count = 0;
    while !tested.connection.is_clogged() {
        let stream = tested.opens(&get(2 * count + 1));
        tested.responds(stream, Status::NOT_FOUND, true);
        count += 1;
        assert!(tested.connection.output().len() < MOST_OUTPUT + 100);
    }
    tested.sent();
    assert!(!tested.connection.is_clogged());
}

#[test]
fn a_server_that_reads_nothing_gets_no_more_requests() {
    let mut tested = Tested::client(Limits::default());
    tested.receives(&settings(&[(3, u32::MAX)])).unwrap();
    tested.sent();
    while tested.asks(Method::GET, true).is_some() {
        assert!(tested.connection.output().len() < 2 << 20);
    }
    tested.sent();
    assert!(tested.asks(Method::GET, true).is_some());
}

#[test]
fn a_window_given_byte_by_byte_pays_for_nothing() {
    let mut tested = Tested::server(Limits::default());
    tested.receives(&settings(&[(4, 0)])).unwrap();
    let stream = tested.opens(&get(1));
    tested.responds(stream, Status::OK, false);
    assert_eq!(tested.connection.send_data(stream, &[7; 1000], false), 0);
    let count = (0..2000)
        .take_while(|_| {
            let is_fine = tested.receives(&window_update(1, 1)).is_ok();
            assert!(tested.connection.next_unblocked().is_none_or(|it| it == stream));
            tested.connection.send_data(stream, &[7; 1000], false);
            tested.sent();
            is_fine
        })
        .count();
    assert!(count <= 1000, "{count}");
}
