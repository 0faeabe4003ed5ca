//! What a peer can have a connection keep, and pay for.

use crate::peer::*;
use titan_h3::{Code, Connection, Event, Kept, Limits};
use titan_http::{ResponseHead, Status};

/// Opens a server's table for entries.
const TABLE: &[u8] = &[0x02, 0x3f, 0xe1, 0x1f];

/// An instruction that adds an entry of two bytes.
fn insert() -> Vec<u8> {
    let mut insert = Vec::new();
    integer(&mut insert, 0x40, 5, 1);
    insert.extend_from_slice(b"a\x01v");
    insert
}

/// The priority of a request.
fn update(stream: u64, field: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    titan_h3::varint::write(&mut payload, stream);
    frame(0xf_0700, &[&payload, field.as_bytes()].concat())
}

#[test]
fn a_connection_that_has_failed_says_nothing_more() {
    let mut tested = Tested::begun();
    tested.hears(0, &headers(POST), false).unwrap();
    tested.hears_uni(ENCODER, TABLE, false).unwrap();
    tested.hears(4, &frame(1, &[0x02, 0x00, 0x80]), false).unwrap();
    let Tested { connection, .. } = &mut tested;
    // The budget is exceeded by something that only the driver sees.
    let fatal = connection.charge(1000).unwrap_err();
    assert_eq!(fatal.code, Code::ExcessiveLoad);
    connection.calm(1000);
    assert_eq!(connection.charge(0), Err(fatal), "a driver that charges again learns of it");
    assert_eq!(connection.peer_reset(id(0), Code::NoError), Err(fatal));
    assert_eq!(connection.peer_stopped(id(0), Code::NoError), Err(fatal));
    assert_eq!(connection.read_uni(id(ENCODER), &insert(), false), Err(fatal));
    assert_eq!(connection.uni_reset(id(CONTROL)), Err(fatal));
    assert_eq!(connection.resume(), Err(fatal));
    assert_eq!(connection.read(id(0), &frame(0, b"data"), true), Err(fatal));
}

#[test]
fn streams_without_a_meaning_are_forgotten() {
    let mut tested = Tested::begun();
    for number in 0..1000 {
        let stream = 14 + 4 * number;
        tested.hears_uni(stream, b"\x21more", false).unwrap();
        // Nothing may come of it any more, not even its end, but a transport may still say that it was readable.
        assert_eq!(tested.connection.read_uni(id(stream), &[], false), Ok((0, None)));
        tested.connection.calm(1);
    }
    assert_eq!(tested.connection.kept().unis, 1, "the control stream");
    assert_eq!(tested.sent.stopped.len(), 1000);
}

#[test]
fn priorities_of_requests_that_fail_are_forgotten() {
    let mut tested = Tested::begun();
    for number in 0..1000 {
        let stream = number * 4;
        tested.hears_uni(CONTROL, &update(stream, "u=1"), false).unwrap();
        tested.hears_uni(CONTROL, &update(stream + 8, "u=1"), false).unwrap();
        tested.hears(stream, &headers(&GET[1..]), true).unwrap();
        tested.connection.calm(1);
        assert!(tested.connection.kept().early <= 2);
    }
}

#[test]
fn a_request_that_does_not_come_keeps_no_others() {
    let mut tested = Tested::begun();
    tested.hears(0, &[], false).unwrap();
    for number in 1..2000 {
        tested.hears(number * 4, &headers(GET), true).unwrap();
        tested.responds(number * 4, b"body");
    }
    assert_eq!(tested.connection.oldest_headless(), Some(id(0)));
    let most = 2 * tested.connection.limits().streams as usize;
    assert!((2..=most).contains(&tested.connection.kept().headless));
    tested.hears(0, &headers(GET), true).unwrap();
    assert_eq!(tested.connection.oldest_headless(), None);
}

#[test]
fn what_the_transport_is_told_of_a_stream_is_kept_once() {
    let mut tested = Tested::begun();
    tested.hears(0, &headers(GET), true).unwrap();
    for _ in 0..100 {
        tested.connection.read_uni(id(CONTROL), &update(0, "u=1"), false).unwrap();
    }
    assert_eq!(tested.connection.kept().untold, 1);
    tested.connection.reset(id(0), Code::Internal);
    tested.flush();
    assert_eq!((tested.connection.kept().untold, tested.sent.levels.len()), (0, 1));
}

/// Which step a server has had enough by, whose feedback nobody reads.
fn until_full(mut step: impl FnMut(&mut Tested, u64) -> Result<(), Code>) -> u64 {
    let mut tested = Tested::new(Limits { flood_budget: 1 << 20, ..Limits::default() });
    tested.sent.room = 16;
    tested.hears_uni(CONTROL, &control(), false).unwrap();
    tested.hears_uni(ENCODER, &[TABLE, &insert()].concat(), false).unwrap();
    (0..10_000)
        .find(|round| {
            let outcome = step(&mut tested, *round);
            assert!(tested.connection.kept().feedback <= 4100);
            outcome.is_err_and(|code| code == Code::ExcessiveLoad)
        })
        .expect("it has a bound")
}

#[test]
fn feedback_that_the_client_does_not_read_is_bounded() {
    let requests = until_full(|tested, round| {
        let lines = section(GET);
        let section = [&[0x02, 0x00], &lines[2..], &[0x80]].concat();
        let heard = tested.hears(round * 4, &frame(1, &section), true);
        heard.map_err(|fatal| fatal.code)?;
        tested.responds(round * 4, b"body");
        Ok(())
    });
    assert!((1000..4096).contains(&requests), "{requests}");
    let resets = until_full(|tested, round| {
        tested.hears(round * 4, &headers(GET), false).map_err(|fatal| fatal.code)?;
        let reset = tested.connection.peer_reset(id(round * 4), Code::RequestCancelled);
        reset.map(drop).map_err(|fatal| fatal.code)
    });
    assert!((1000..4096).contains(&resets), "{resets}");
}

#[test]
fn a_client_may_give_up_all_streams_at_once() {
    const STREAMS: u32 = 3000;
    let limits = Limits { streams: STREAMS, flood_budget: STREAMS, ..Limits::default() };
    let mut tested = Tested::new(limits);
    tested.hears_uni(CONTROL, &control(), false).unwrap();
    let streams = (0..u64::from(STREAMS)).map(|number| number * 4);
    for stream in streams.clone() {
        tested.hears(stream, &headers(GET), false).unwrap();
    }
    for stream in streams {
        tested.connection.peer_reset(id(stream), Code::RequestCancelled).unwrap();
    }
    let feedback = tested.connection.kept().feedback;
    assert!(feedback > 4096 && feedback <= 10 * STREAMS as usize, "{feedback}");
    tested.flush();
    assert_eq!(tested.connection.kept().feedback, 0);
}

#[test]
fn a_frame_without_a_meaning_costs_once() {
    let mut tested = Tested::begun();
    tested.hears(0, &headers(POST), false).unwrap();
    let unknown = frame(0x21, &[7; 4000]);
    for byte in &unknown {
        assert_eq!(tested.hears(0, &[*byte], false), Ok(vec![]));
        assert_eq!(tested.hears_uni(CONTROL, &[*byte], false), Ok(vec![]));
    }
}

#[test]
fn what_is_read_for_nothing_is_a_flood() {
    type Step = fn(&mut Tested) -> Result<(), Code>;
    let cases: [(&str, Step); 3] = [
        ("an endless frame on a request", |tested| {
            tested.hears(0, &[7; 1000], false).map(drop).map_err(|fatal| fatal.code)
        }),
        ("an endless frame on the control stream", |tested| {
            tested.hears_uni(CONTROL, &[7; 1000], false).map(drop).map_err(|fatal| fatal.code)
        }),
        ("cancellations", |tested| {
            tested.hears_uni(DECODER, &[0x44; 250], false).map(drop).map_err(|fatal| fatal.code)
        }),
    ];
    for (name, step) in cases {
        let mut tested = Tested::begun();
        let endless = [0x21, 0xbf, 0xff, 0xff, 0xff];
        tested.hears(0, &[headers(POST), endless.to_vec()].concat(), false).unwrap();
        tested.hears_uni(CONTROL, &endless, false).unwrap();
        tested.hears_uni(DECODER, &[0x03], false).unwrap();
        let rounds = (0..10_000).position(|_| step(&mut tested) == Err(Code::ExcessiveLoad));
        assert!(rounds.is_some_and(|rounds| (2500..5000).contains(&rounds)), "{name}: {rounds:?}");
    }
}

#[test]
fn an_entry_that_is_repeated_costs_what_it_is_long() {
    let mut tested = Tested::begun();
    let mut long = TABLE.to_vec();
    integer(&mut long, 0x40, 5, 1);
    long.push(b'a');
    integer(&mut long, 0, 7, 4000);
    long.extend_from_slice(&[b'v'; 4000]);
    tested.hears_uni(ENCODER, &long, false).unwrap();
    let outcome = (0..1000).find_map(|round| {
        let code = tested.hears_uni(ENCODER, &[0], false).err()?.code;
        Some((round, code))
    });
    assert!(matches!(outcome, Some((150..250, Code::ExcessiveLoad))), "{outcome:?}");
}

#[test]
fn reading_nothing_neither_costs_nor_pays() {
    let until_flood = |between: usize| {
        let mut tested = Tested::begun();
        tested.hears(0, &headers(POST), false).unwrap();
        (0..10_000).position(|_| {
            for _ in 0..between {
                assert_eq!(tested.connection.read(id(0), &[], false), Ok((0, None)));
                assert_eq!(tested.connection.read_uni(id(CONTROL), &[], false), Ok((0, None)));
            }
            tested.hears(0, &frame(0x21, b"x"), false).is_err()
        })
    };
    let rounds = until_flood(0);
    assert!(rounds.is_some());
    assert_eq!(until_flood(100), rounds);
}

#[test]
fn a_priority_beyond_the_streams_that_may_be_is_no_ones() {
    let most = u64::from(Limits::default().streams) * 4;
    let mut tested = Tested::begun();
    tested.hears(0, &headers(GET), true).unwrap();
    tested.responds(0, b"body");
    assert_eq!(tested.hears_uni(CONTROL, &update(0, "u=1"), false), Ok(vec![]), "it is over");
    assert_eq!(tested.hears_uni(CONTROL, &update(most, "u=1"), false), Ok(vec![]));
    assert_eq!(tested.connection.kept().early, 1);
    let beyond = tested.hears_uni(CONTROL, &update(most + 4, "u=1"), false);
    assert_eq!(beyond.map_err(|fatal| fatal.code), Err(Code::Id));
}

#[test]
fn an_update_counts_before_what_the_head_says() {
    let mut tested = Tested::begun();
    tested.hears(0, &[], false).unwrap();
    tested.hears_uni(CONTROL, &update(0, "u=0, i"), false).unwrap();
    tested.hears(0, &headers(&[GET, &[("priority", "u=7")]].concat()), true).unwrap();
    assert!(matches!(tested.sent.levels[..], [(_, 1..)]), "{:?}", tested.sent.levels);
}

/// A server whose client takes so much of a head.
fn taking(most: u64) -> Tested {
    let mut tested = Tested::begun();
    let mut settings = vec![0x06];
    titan_h3::varint::write(&mut settings, most);
    tested.connection = Connection::server(Limits::default());
    tested.hears_uni(CONTROL, &[vec![0x00], frame(4, &settings)].concat(), false).unwrap();
    tested.hears(0, &headers(GET), true).unwrap();
    tested
}

#[test]
fn what_the_client_does_not_take_is_not_sent() {
    let mut head = ResponseHead::with_status(Status::OK);
    head.fields.append_named(b"x-name", b"value").unwrap();
    // Neither this nor what is the connection's own is sent, and counts.
    head.fields.append_named(b"connection", b"close").unwrap();
    let (status, field, length) = (7 + 3 + 32, 6 + 5 + 32, 14 + 1 + 32);
    let mut enough = taking(status + field + length);
    enough.connection.send_response(id(0), &head, Some(4), false);
    assert!(enough.connection.is_sending(id(0)));
    let mut little = taking(status + field + length - 1);
    let mut hints = ResponseHead::with_status(Status::EARLY_HINTS);
    hints.fields.append_named(b"link", &[b'l'; 200]).unwrap();
    little.connection.send_response(id(0), &hints, None, false);
    assert!(little.connection.is_sending(id(0)), "only the final one is needed");
    little.connection.send_response(id(0), &head, Some(4), false);
    assert!(!little.connection.is_sending(id(0)));
    assert_eq!(little.connection.send_data(id(0), b"body", true), 4);
    little.flush();
    assert_eq!(little.sent.reset, [(id(0), Code::Internal)]);
    assert_eq!(little.sent.written.get(&id(0)), None);

    let mut trailers = taking(100);
    trailers.connection.send_response(id(0), &ResponseHead::with_status(Status::OK), None, false);
    trailers.connection.send_trailers(id(0), &hints.fields);
    trailers.flush();
    assert_eq!(trailers.sent.reset, [(id(0), Code::Internal)]);
    assert_eq!(trailers.connection.open_streams(), 0);
}

#[test]
fn feedback_counts_as_something_to_send() {
    let mut tested = Tested::begun();
    assert!(tested.connection.is_flushed());
    tested.connection.read(id(0), &headers(POST), false).unwrap();
    tested.connection.reset(id(0), Code::RequestRejected);
    tested.flush();
    assert!(tested.connection.is_flushed());
    tested.sent.room = 1;
    tested.hears_uni(ENCODER, &[TABLE, &insert()].concat(), false).unwrap();
    assert!(!tested.connection.is_flushed(), "the client has not taken that an entry has come");
}

#[test]
fn nothing_is_left_of_streams_that_are_over() {
    let mut tested = Tested::begun();
    tested.hears(0, &headers(GET), true).unwrap();
    tested.hears(4, &frame(1, &[0x02, 0x00, 0x80]), false).unwrap();
    tested.hears(8, &headers(POST), false).unwrap();
    assert_eq!(tested.connection.kept().blocked, 1);
    tested.responds(0, b"body");
    tested.connection.reset(id(4), Code::RequestCancelled);
    let reset = tested.connection.peer_reset(id(8), Code::RequestCancelled).unwrap();
    assert!(matches!(reset, Some(Event::Reset { .. })));
    tested.flush();
    assert_eq!(tested.connection.oldest_headless(), None);
    let nothing =
        Kept { headless: 0, unis: 1, blocked: 0, early: 0, untold: 0, unblocked: 0, feedback: 0 };
    assert_eq!((tested.connection.open_streams(), tested.connection.kept()), (0, nothing));
}
