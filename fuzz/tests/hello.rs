//! The ClientHello target on a fixed pseudo-random walk around a few of them.

#[path = "../../crates/titan-h1/tests/conformance/mutation.rs"]
mod mutation;
mod random;
mod seeds;

use random::Random;

/// Runs of the target.
const RUNS: usize = 300_000;

/// A message that asks for `a.example`: session, ciphers and compression, and three extensions.
const NAMED: &[u8] = b"\x01\0\0\x5c\x03\x03\
    01234567890123456789012345678901\x04abcd\0\x04\x13\x01\0\x05\x01\0\
    \0\x2b\xfe\0\0\x03abc\0\0\0\x0e\0\x0c\0\0\x09a.example\0\x0d\0\x0e\0\x0c\x04\x03\x05\x03\x06\x03\x08\x04\x08\x05\x08\x06";
/// One of SSL 3.0: no extensions.
const OLD: &[u8] = b"\x01\0\0\x29\x03\0\
    01234567890123456789012345678901\0\0\x02\0\x05\x01\0";

/// The message in records of so many bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |piece: &[u8]| {
        let length = u16::try_from(piece.len()).expect("they are short").to_be_bytes();
        [&[22, 3, 1][..], &length, piece].concat()
    };
    message.chunks(size).flat_map(record).collect()
}

fn messages() -> Vec<Vec<u8>> {
    let of = |message: &&[u8]| [1, 9, 40, 200].map(|size| records(message, size));
    [NAMED, OLD].iter().flat_map(of).collect()
}

/// A choice, and a message with a few mistakes in it.
fn step(messages: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let count = random.next() % 4;
    let changes: Vec<_> =
        (0..count).map(|_| (random.next() as u8, random.next(), random.next())).collect();
    let mut data = vec![random.next() as u8];
    data.extend(mutation::apply(random.choose(messages), &changes));
    data
}

#[test]
fn hellos() {
    let (messages, mut random) = (messages(), Random(0x7469_7461_6e00_0003));
    (0..RUNS).for_each(|_| titan_fuzz::hello::hello(&step(&messages, &mut random)));
}

#[test]
#[ignore = "it is for libFuzzer"]
fn write_seeds() {
    let messages = messages();
    seeds::write("hello", |random| step(&messages, random));
}
