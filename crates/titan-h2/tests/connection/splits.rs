//! The verdict on a stream of bytes depends on the bytes, not on how they were split into reads.

use crate::peer::*;
use titan_h2::{Connection, Event, Fatal, Limits};
use titan_http::{Fields, RequestHead};

/// What came of bytes: events without where they lay, with what they told of, and what was written.
#[derive(Debug, PartialEq, Eq)]
struct Course {
    told: Vec<(String, Vec<u8>)>,
    outcome: Result<(), Fatal>,
    written: Vec<u8>,
}

fn course(parts: &[&[u8]]) -> Course {
    let mut tested = Tested::of(Connection::server(Limits::default()));
    let mut told = Vec::new();
    let mut outcome = Ok(());
    for part in parts {
        let before = tested.told.len();
        outcome = tested.receives(part).map(drop);
        for it in &tested.told[before..] {
            told.push((named(&it.event), it.data.clone()));
        }
        if outcome.is_err() {
            break;
        }
    }
    Course { told, outcome, written: tested.connection.output().to_vec() }
}

/// An event, without where its bytes lay.
fn named(event: &Event) -> String {
    match event {
        Event::Data { stream, end, .. } => format!("data {stream:?} {end}"),
        other => format!("{other:?}"),
    }
}

/// A bit of everything that a client may send.
fn conversation() -> Vec<u8> {
    let (begun, rest) = (&block(GET)[..10], &block(GET)[10..]);
    [
        PREFACE.to_vec(),
        settings(&[(4, 100), (3, 7)]),
        settings_ack(),
        window_update(0, 1000),
        headers(1, 0, &and(POST, ("content-length", "5"))),
        data(1, 0, b"abc"),
        frame(HEADERS, END_STREAM, 3, begun),
        frame(CONTINUATION, END_HEADERS, 3, rest),
        data(1, PADDED, &[2, b'd', 0, 0]),
        ping(0, b"12345678"),
        data(1, END_STREAM, b"e"),
        post(5),
        headers(5, END_STREAM, &[("x-sum", "7")]),
        headers(7, END_STREAM, &GET[1..]),
        reset(3, 8),
        frame(0x16, 1, 0, b"abc"),
        go_away(0, 0),
    ]
    .concat()
}

#[test]
fn every_split_in_two_is_alike() {
    let bytes = conversation();
    let whole = course(&[&bytes]);
    assert_eq!(whole.outcome, Ok(()));
    assert_eq!(whole.told.len(), 11);
    for at in 0..=bytes.len() {
        assert_eq!(course(&[&bytes[..at], &bytes[at..]]), whole, "split at {at}");
    }
}

#[test]
fn byte_by_byte_is_alike() {
    let bytes = conversation();
    let parts: Vec<_> = bytes.chunks(1).collect();
    assert_eq!(course(&parts), course(&[&bytes]));
}

#[test]
fn whatever_comes_in_the_place_of_an_byte_is_judged_alike() {
    let bytes = conversation();
    // Each byte behind the preface in turn, with some values that reach other branches.
    for at in PREFACE.len()..bytes.len() {
        for value in [bytes[at] ^ 1, bytes[at] ^ 0x80, 0, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let whole = course(&[&changed]);
            let parts: Vec<_> = changed.chunks(7).collect();
            assert_eq!(course(&parts), whole, "byte {at} as {value}");
        }
    }
}

#[test]
fn heads_are_the_same_whatever_the_split() {
    let bytes = conversation();
    let mut tested = Tested::of(Connection::server(Limits::default()));
    let (mut head, mut trailers) = (RequestHead::default(), Fields::default());
    let mut paths = Vec::new();
    for byte in bytes.chunks(1) {
        for event in tested.receives(byte).unwrap() {
            match event {
                Event::Request { .. } => {
                    tested.connection.take_request(&mut head);
                    paths.push(head.path().to_vec());
                }
                Event::Trailers { .. } => tested.connection.take_trailers(&mut trailers),
                _ => {}
            }
        }
    }
    assert_eq!(paths, [b"/a", b"/a", b"/a"]);
    assert_eq!(trailers.named(b"x-sum").next(), Some(b"7".as_slice()));
}
