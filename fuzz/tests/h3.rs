//! The target of HTTP/3's streams on a fixed pseudo-random walk: frames in any order, some of them damaged.

mod damage;
mod random;
mod seeds;

use damage::damage;
use random::Random;
use titan_fuzz::CHOICES;
use titan_fuzz::h3::{INTERIM, TUNNEL, frames};
use titan_h3::varint;

/// Runs of the target.
const RUNS: usize = 300_000;

fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(&mut out, number);
    varint::write(&mut out, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

fn integers(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| varint::write(&mut out, *value));
    out
}

/// What control streams say.
fn control() -> Vec<Vec<u8>> {
    let priority = |id: u64, field: &[u8]| [&integers(&[id]), field].concat();
    let many: Vec<_> = (0x100..0x121).flat_map(|id| [id, 1]).collect();
    vec![
        frame(0x4, &integers(&[0x1, 4096, 0x7, 100, 0x6, 1 << 16, 0x8, 1, 0x33, 1, 0x40, 5])),
        frame(0x4, &integers(&[0x8, 2])),
        frame(0x4, &integers(&[0x2, 1])),
        frame(0x4, &integers(&[0x1, 1, 0x1, 1])),
        frame(0x4, &integers(&many)),
        frame(0x7, &integers(&[1 << 61])),
        frame(0x7, &integers(&[8])),
        frame(0x7, &integers(&[4])),
        frame(0x7, &integers(&[4, 0])),
        frame(0xd, &integers(&[3])),
        frame(0xd, &integers(&[100])),
        frame(0x3, &integers(&[0])),
        frame(0xf_0700, &priority(4, b"u=1, i")),
        frame(0xf_0700, &priority(400, b"x=\"a,b\\\"\", u=9;a, i=?0")),
        frame(0xf_0701, &priority(0, b"u=1")),
        frame(0x21, &[7; 70]),
    ]
}

/// What messages consist of.
fn message() -> Vec<Vec<u8>> {
    vec![
        frame(0x1, b"head"),
        frame(0x1, &[INTERIM, b'x']),
        frame(0x1, &[TUNNEL]),
        frame(0x1, &[7; 25]),
        frame(0x1, &[7; 400]),
        frame(0x0, b""),
        frame(0x0, b"a"),
        frame(0x0, b"hello"),
        frame(0x0, &[7; 100]),
        frame(0x40, b"skipped"),
        frame(0x21, b""),
    ]
}

/// What is wrong, at least there.
fn wrong() -> Vec<Vec<u8>> {
    let numbers = [0x2, 0x5, 0x6, 0x8, 0x9].map(|number| frame(number, &[0]));
    // Lengths that never come whole, and numbers with more bytes than they need.
    let others = [
        integers(&[0x0, varint::MAX]),
        integers(&[0x1, varint::MAX]),
        integers(&[0x21, 1 << 20]),
        b"\x40\x01\x80\0\0\x01h\xc0\0\0\0\0\0\0\0\x40\x01d".to_vec(),
    ];
    numbers.into_iter().chain(others).collect()
}

/// What streams may say: few frames are wrong.
struct Pool {
    control: Vec<Vec<u8>>,
    message: Vec<Vec<u8>>,
    wrong: Vec<Vec<u8>>,
}

impl Pool {
    fn new() -> Pool {
        Pool { control: control(), message: message(), wrong: wrong() }
    }

    /// Choices, and a stream for them.
    fn stream(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = random.next().to_le_bytes().to_vec();
        assert_eq!(bytes.len(), CHOICES);
        let (pool, first) = match random.next() % 2 {
            0 => (&self.control, &self.control[..1]),
            _ => (&self.message, &self.message[..3]),
        };
        // Behind anything else nothing is looked at.
        if !random.next().is_multiple_of(8) {
            bytes.extend(random.choose(first));
        }
        for _ in 0..random.next() % 10 {
            let is_wrong = random.next().is_multiple_of(16);
            let mut frame = random.choose(if is_wrong { &self.wrong } else { pool }).to_vec();
            if random.next().is_multiple_of(16) {
                damage(&mut frame, random);
            }
            bytes.extend(frame);
        }
        bytes
    }
}

#[test]
fn frames_in_any_order() {
    let (pool, mut random) = (Pool::new(), Random(0x7469_7461_6e00_0004));
    (0..RUNS).for_each(|_| frames(&pool.stream(&mut random)));
}

#[test]
#[ignore = "it is for libFuzzer"]
fn write_seeds() {
    let pool = Pool::new();
    seeds::write("h3_frames", |random| pool.stream(random));
}

#[test]
fn any_bytes() {
    let mut random = Random(0x7469_7461_6e00_0005);
    for _ in 0..RUNS {
        let mut bytes = Vec::new();
        // Small numbers are more often kinds and lengths of something.
        for _ in 0..random.next() % 60 {
            let byte = random.next() as u8;
            bytes.push(if random.next().is_multiple_of(2) { byte % 10 } else { byte });
        }
        frames(&bytes);
    }
}
