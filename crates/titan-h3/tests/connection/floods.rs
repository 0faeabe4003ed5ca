//! What a client costs without getting anything done.

use crate::peer::*;
use titan_h3::Code;

/// How often it can do that before it is disconnected.
fn until_flood(
    tested: &mut Tested,
    mut step: impl FnMut(&mut Tested, u64) -> Result<(), Code>,
) -> u64 {
    for round in 0..10_000 {
        if let Err(code) = step(tested, round) {
            assert_eq!(code, Code::ExcessiveLoad);
            return round;
        }
    }
    10_000
}

#[test]
fn each_flood_is_cut() {
    type Step = fn(&mut Tested, u64) -> Result<(), Code>;
    let cases: [(&str, Step); 9] = [
        ("resets", |tested, round| {
            let stream = round * 4;
            tested.hears(stream, &headers(GET), false).map_err(|fatal| fatal.code)?;
            tested
                .connection
                .peer_reset(id(stream), Code::RequestCancelled)
                .map_err(|it| it.code)?;
            Ok(())
        }),
        ("requests without a head", |tested, round| {
            tested.hears(round * 4, &[], true).map(drop).map_err(|fatal| fatal.code)
        }),
        ("malformed requests", |tested, round| {
            tested.hears(round * 4, &headers(&GET[1..]), true).map(drop).map_err(|fatal| fatal.code)
        }),
        ("empty DATA", |tested, round| {
            let head = if round == 0 { headers(POST) } else { Vec::new() };
            let input = [head, frame(0, b"")].concat();
            tested.hears(0, &input, false).map(drop).map_err(|fatal| fatal.code)
        }),
        ("frames without a meaning", |tested, round| {
            let head = if round == 0 { headers(POST) } else { Vec::new() };
            let input = [head, frame(0x21, b"")].concat();
            tested.hears(0, &input, false).map(drop).map_err(|fatal| fatal.code)
        }),
        ("streams without a meaning", |tested, round| {
            let stream = 14 + round * 4;
            tested.hears_uni(stream, &[0x21], true).map(drop).map_err(|fatal| fatal.code)
        }),
        ("priorities", |tested, _| {
            let update = frame(0xf_0700, b"\x00u=1");
            tested.hears_uni(CONTROL, &update, false).map(drop).map_err(|fatal| fatal.code)
        }),
        ("GOAWAY", |tested, _| {
            tested.hears_uni(CONTROL, &frame(7, &[0]), false).map(drop).map_err(|fatal| fatal.code)
        }),
        ("stops", |tested, round| {
            let stream = round * 4;
            tested.hears(stream, &headers(GET), true).map_err(|fatal| fatal.code)?;
            tested
                .connection
                .peer_stopped(id(stream), Code::RequestCancelled)
                .map_err(|it| it.code)?;
            Ok(())
        }),
    ];
    for (name, step) in cases {
        let mut tested = Tested::begun();
        let rounds = until_flood(&mut tested, step);
        assert!((50..2000).contains(&rounds), "{name}: {rounds}");
        assert!(tested.hears(1 << 20, &headers(GET), true).is_err(), "{name}");
        tested.connection.calm(1);
        assert!(tested.sent.written.len() <= 2, "{name}");
    }
}

#[test]
fn a_table_that_is_filled_for_nothing_is_a_flood() {
    let mut tested = Tested::begun();
    tested.hears_uni(ENCODER, &[0x02, 0x3f, 0xe1, 0x1f], false).unwrap();
    let mut insert = Vec::new();
    integer(&mut insert, 0x40, 5, 1);
    insert.extend_from_slice(b"a");
    integer(&mut insert, 0, 7, 2000);
    insert.extend_from_slice(&[b'v'; 2000]);
    let rounds = until_flood(&mut tested, |tested, _| {
        tested.hears_uni(ENCODER, &insert, false).map(drop).map_err(|fatal| fatal.code)
    });
    assert!((300..600).contains(&rounds), "{rounds}");
}

#[test]
fn frames_that_come_without_their_bytes_are_no_flood() {
    let mut tested = Tested::begun();
    tested.hears(0, &headers(POST), false).unwrap();
    for _ in 0..2000 {
        // A transport may hand on the beginning of a frame before the rest has come.
        assert_eq!(tested.hears(0, &[0, 50], false), Ok(vec![]));
        assert_eq!(tested.hears(0, &[7; 50], false).unwrap().len(), 1);
        tested.connection.release(id(0), 50);
    }
}

#[test]
fn work_that_gets_done_is_no_flood() {
    let mut tested = Tested::begun();
    for round in 0..2000 {
        let stream = round * 4;
        let priority = frame(0xf_0700, &[&[0x80, 0, 0, 0][..], b"u=1"].concat());
        tested.hears_uni(CONTROL, &priority, false).unwrap();
        tested
            .hears(stream, &[headers(POST), frame(0x21, b""), frame(0, b"body")].concat(), true)
            .unwrap();
        tested.connection.release(id(stream), 4);
        tested.responds(stream, b"body");
    }
    assert_eq!(tested.connection.open_streams(), 0);
}
