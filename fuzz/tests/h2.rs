//! The HTTP/2 target on a fixed pseudo-random walk: frames in any order, some of them damaged.

mod damage;
#[expect(dead_code, reason = "only the frames are used here")]
#[expect(clippy::unwrap_used, reason = "it is part of a test")]
#[path = "../../crates/titan-h2/tests/connection/peer.rs"]
mod peer;
mod random;
mod seeds;

use damage::damage;
use peer::*;
use random::Random;

/// Runs of the target.
const RUNS: usize = 300_000;

/// Frames on a stream that are worth wandering among.
fn on_stream(id: u32) -> Vec<Vec<u8>> {
    let (begun, rest) = (&block(GET)[..10], &block(GET)[10..]);
    let status = |text| [(":status", text)];
    vec![
        get(id),
        post(id),
        headers(id, 0, &and(POST, ("content-length", "5"))),
        headers(id, 0, &and(POST, ("expect", "wonders"))),
        headers(id, END_STREAM, &GET[1..]),
        headers(id, END_STREAM, &[("x-sum", "7")]),
        headers(id, 0, &status("200")),
        headers(id, END_STREAM, &status("204")),
        headers(id, 0, &status("103")),
        headers(id, 0, &and(&status("200"), ("content-length", "5"))),
        [
            frame(HEADERS, END_STREAM, id, begun),
            frame(CONTINUATION, 0, id, b""),
            frame(CONTINUATION, END_HEADERS, id, rest),
        ]
        .concat(),
        frame(
            HEADERS,
            END_HEADERS | WITH_PRIORITY,
            id,
            &[&[0, 0, 0, 1, 9], &block(POST)[..]].concat(),
        ),
        // Lines that go into the table, and are asked for again.
        frame(HEADERS, END_HEADERS | END_STREAM, id, b"\x82\x87\x84\x41\x01a\x40\x03x-a\x01b\xbe"),
        data(id, 0, b"hello"),
        data(id, END_STREAM, b""),
        data(id, 0, &[7; 300]),
        data(id, PADDED | END_STREAM, &[2, b'h', 0, 0]),
        reset(id, 8),
        window_update(id, 100),
        window_update(id, 0x7fff_ffff),
        frame(PRIORITY, 0, id, &[0, 0, 0, 1, 9]),
        go_away(id, 0),
    ]
}

fn on_connection() -> Vec<Vec<u8>> {
    vec![
        settings(&[(4, 10)]),
        settings(&[(4, 1 << 20), (3, 1)]),
        settings_ack(),
        ping(0, b"12345678"),
        ping(ACK, b"leaving."),
        window_update(0, 1000),
        frame(0x16, 0, 0, b"abc"),
    ]
}

fn pool() -> Vec<Vec<u8>> {
    let streams = [1, 3, 5].into_iter().flat_map(on_stream);
    streams.chain(on_connection()).chain(on_connection()).collect()
}

/// Choices, and frames of the pool.
fn frames(pool: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let choices = random.next();
    let mut bytes = choices.to_le_bytes().to_vec();
    // A client under test has opened streams by itself.
    if choices & 0x1_0000 == 0 {
        bytes.extend([post(1), post(3), get(5)].concat());
    }
    for _ in 0..random.next() % 24 {
        let mut frame = random.choose(pool).to_vec();
        if random.next().is_multiple_of(16) {
            damage(&mut frame, random);
        }
        bytes.extend(frame);
    }
    bytes
}

#[test]
fn frames_in_any_order() {
    let (pool, mut random) = (pool(), Random(0x7469_7461_6e00_0002));
    (0..RUNS).for_each(|_| titan_fuzz::h2::connection(&frames(&pool, &mut random)));
}

#[test]
#[ignore = "it is for libFuzzer"]
fn write_seeds() {
    let pool = pool();
    seeds::write("h2", |random| frames(&pool, random));
}

#[test]
fn any_bytes() {
    let mut random = Random(0x7469_7461_6e00_0003);
    for _ in 0..RUNS {
        let mut bytes = Vec::new();
        // Small numbers are more often kinds, flags and lengths of something.
        for _ in 0..random.next() % 100 {
            let byte = random.next() as u8;
            bytes.push(if random.next().is_multiple_of(2) { byte % 10 } else { byte });
        }
        titan_fuzz::h2::connection(&bytes);
    }
}
