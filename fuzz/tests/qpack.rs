//! The target of QPACK on a fixed pseudo-random walk: instructions and sections in any order, some of them damaged.

mod damage;
mod random;
mod seeds;

use damage::damage;
use random::Random;
use titan_fuzz::CHOICES;
use titan_fuzz::qpack::{Step, qpack};
use titan_h3::qpack::{CAPACITY, Decoder};

/// Runs of the target.
const RUNS: usize = 200_000;

/// What encoders say, each an instruction or a few (RFC 9204 section 4.3).
const INSTRUCTIONS: &[&[u8]] = &[
    // The capacity: 4096, 220, none, and more than is allowed.
    b"\x3f\xe1\x1f",
    b"\x3f\xbd\x01",
    b"\x20",
    b"\x3f\xe2\x1f",
    // With names of the static table and values as they are: `:authority`, `:path`, `cookie`.
    b"\xc0\x0fwww.example.com",
    b"\xc1\x0c/sample/path",
    b"\xc5\x03a=b",
    // In Huffman code: `:path` is `/`, as `63` is written.
    b"\xc1\x81\x63",
    // With names of their own: `custom-key`, one in Huffman code, and two that are faulty.
    b"\x4acustom-key\x0ccustom-value",
    b"\x62\x1c\x64\x01a",
    b"\x41A\x01b",
    b"\x44:abc\x02\r\n",
    // With the name of an entry, and an entry again.
    b"\x80\x01x",
    b"\x81\x0dcustom-value2",
    b"\0",
    b"\x02",
    b"\x1f\x03",
    // The name of a long one, whose value is what follows.
    b"\x43x-a\x7f\x64",
];

/// What sections begin with: the entries they require, and the base.
const PREFIXES: &[&[u8]] =
    &[b"\0\0", b"\x02\0", b"\x03\0", b"\x03\x81", b"\x05\0", b"\x02\x80", b"\x09\x01", b"\x0d\x82"];

/// What the sections of messages begin with that are valid: GET, OPTIONS, CONNECT in both forms, and two responses.
const HEADS: &[&[u8]] = &[
    b"\xd1\xd7\xc1\x50\x03a:1",
    b"\xd3\xd6\x51\x01*\x50\x01a",
    b"\xcf\x50\x03a:1",
    b"\xcf\xd7\x51\x06/a?b=c\x27\x02:protocol\x09websocket\x50\x01a",
    b"\xd9",
    b"\xd8",
];

/// Lines of sections (RFC 9204 section 4.5).
const LINES: &[&[u8]] = &[
    // Of the static table: `:method`, `:scheme`, `:path`, `:status`, and others.
    b"\xd1",
    b"\xcf",
    b"\xd4",
    b"\xd6",
    b"\xd7",
    b"\xc1",
    b"\xd9",
    b"\xd8",
    b"\xff\x04",
    b"\xf5",
    // With its names.
    b"\x50\x03a:1",
    b"\x51\x02/a",
    b"\x51\x06/a?b=c",
    b"\x54\x011",
    b"\x54\x0210",
    b"\x75\x03a=b",
    b"\x5f\x09\x03103",
    // Of the dynamic table, before the base and behind it; with its names.
    b"\x80",
    b"\x81",
    b"\x83",
    b"\x10",
    b"\x11",
    b"\x40\x01v",
    b"\x61\x01v",
    b"\0\x01w",
    b"\x09\x01w",
    // Names of their own.
    b"\x23x-a\x01b",
    b"\x27\x02:protocol\x09websocket",
    b"\x33x-b\x01c",
    b"\x22te\x08trailers",
    b"\x24host\x03a:1",
    b"\x2a\x1c\x64\x81\x63",
    b"\x27\x04grpc-status\x010",
    b"\x21A\x01b",
    b"\x27\x03connection\x01a",
    b"\x26expect\x0c100-continue",
    b"\x21a\x02 b",
    b"\x20\x01b",
];

/// What decoders say (RFC 9204 section 4.4).
const FEEDBACK: &[&[u8]] = &[b"\x44", b"\x7f\x80\x01", b"\x84", b"\x01", b"\0"];

/// Fields as they are written.
const WRITTEN: &[&[u8]] = &[
    b"Cookie:a=b\nX-A: b \n",
    b"Content-Length:5\nHost:a\n",
    b"TE:trailers\nte:gzip\n",
    b"Connection:close\nAuthorization:Basic x\n",
    b"accept-encoding:gzip, deflate, br\nx\xff:\n",
    b"vary:\xff\n",
];

/// Some of these, fewer than `most`, one behind the other.
fn some(random: &mut Random, of: &[&[u8]], most: u32) -> Vec<u8> {
    (0..random.next() % most).flat_map(|_| random.choose(of).to_vec()).collect()
}

/// A step with what belongs to it.
fn step(random: &mut Random) -> Vec<u8> {
    let (step, mut bytes) = match random.next() % 16 {
        0..6 => (Step::Instructions, some(random, INSTRUCTIONS, 4)),
        6..12 => {
            let parts = [(PREFIXES, 2), (HEADS, 2), (LINES, 6)];
            let parts = parts.map(|(of, most)| some(random, of, most));
            (Step::Section, parts.concat())
        }
        12 => (Step::Cancel, Vec::new()),
        13 => (Step::Output, Vec::new()),
        14 => (Step::Feedback, some(random, FEEDBACK, 3)),
        _ => {
            let choices = random.next().to_le_bytes();
            (Step::Write, [&choices[..2], &some(random, WRITTEN, 4)].concat())
        }
    };
    if !bytes.is_empty() && random.next().is_multiple_of(16) {
        damage(&mut bytes, random);
    }
    step.with(&bytes)
}

/// Choices, and steps for them.
fn steps(random: &mut Random) -> Vec<u8> {
    let mut bytes = random.next().to_le_bytes().to_vec();
    assert_eq!(bytes.len(), CHOICES);
    // Without a table most of the rest is refused.
    if !random.next().is_multiple_of(8) {
        bytes.extend(Step::Instructions.with(INSTRUCTIONS[0]));
    }
    (0..random.next() % 12).for_each(|_| bytes.extend(step(random)));
    bytes
}

#[test]
fn steps_in_any_order() {
    let mut random = Random(0x7469_7461_6e00_0006);
    (0..RUNS).for_each(|_| qpack(&steps(&mut random)));
}

#[test]
#[ignore = "it is for libFuzzer"]
fn write_seeds() {
    seeds::write("qpack", steps);
}

#[test]
fn any_bytes() {
    let mut random = Random(0x7469_7461_6e00_0007);
    for _ in 0..RUNS {
        let mut bytes = random.next().to_le_bytes().to_vec();
        for _ in 0..random.next() % 8 {
            let step = Step::ALL[random.next() as usize % Step::ALL.len()];
            let any: Vec<_> = (0..random.next() % 30).map(|_| random.next() as u8).collect();
            bytes.extend(step.with(&any));
        }
        qpack(&bytes);
    }
}

/// Bytes that a decoder keeps: its table twice, what it knows of the entries, and two strings of four times its capacity, in each of
/// whose bytes a code of 5 bits ends or more.
const MOST: u64 = (2 * CAPACITY + CAPACITY + 2 * 4 * CAPACITY * 8 / 5) as u64;

/// An instruction that adds an entry, whose strings are so long and in Huffman code: only zeros.
fn long(name: usize, value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    // An integer of that length has three bytes behind the one with its prefix, whatever it is.
    let mut string = |first: u8, length: usize| {
        let rest = length - usize::from(first & 0x1f | if first & 0x80 > 0 { 0x7f } else { 0 });
        out.extend([first, rest as u8 | 0x80, (rest >> 7) as u8 | 0x80, (rest >> 14) as u8]);
        out.extend(vec![0; length]);
    };
    string(0x7f, name);
    string(0xff, value);
    out
}

#[test]
fn what_is_kept_has_a_bound() {
    let mut random = Random(0x7469_7461_6e00_0008);
    let mut most = 0;
    for _ in 0..300 {
        let mut length = || 200 + random.next() as usize % (4 * CAPACITY - 200) / 5 * 5;
        let (name, value) = (length(), length());
        let mut instructions = vec![INSTRUCTIONS[0].to_vec(), long(name, value), long(200, 500)];
        instructions.extend((0..1000).map(|_| random.choose(INSTRUCTIONS).to_vec()));
        let kept = allocation_counter::measure(|| {
            let mut decoder = Decoder::default();
            for instruction in &instructions {
                // Some of them are too long, or refer to nothing: a decoder that went on would keep no more either.
                let _ = decoder.read_instructions(instruction);
            }
        });
        most = most.max(kept.bytes_max);
    }
    assert!((MOST / 2..=MOST).contains(&most), "{most} bytes, and not {MOST}");
}
