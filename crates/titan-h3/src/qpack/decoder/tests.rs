//! What sections decode to, whatever has come before and between them.

use super::*;
use crate::qpack::encoder::{Qpack, write_prefix};
use proptest::prelude::*;
use titan_http::huffman;
use titan_http::section::{Encoding, Secrecy};

type Lines = Vec<(String, String)>;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
    digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
}

fn decoded(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Result<Option<Lines>, Corrupt> {
    let mut lines = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let outcome = decoder.decode(stream, section, |line| {
        lines.push((text(line.name), text(line.value)));
        Ok(())
    })?;
    Ok((outcome == Decoded::Whole).then_some(lines))
}

fn instructed(hex: &str) -> Decoder {
    let mut decoder = Decoder::default();
    follow(&mut decoder, hex);
    decoder
}

fn follow(decoder: &mut Decoder, hex: &str) {
    let input = bytes(hex);
    assert_eq!(decoder.read_instructions(&input), Ok(input.len()), "{hex}");
}

fn output(decoder: &mut Decoder) -> Vec<u8> {
    let mut out = Vec::new();
    decoder.take_output(&mut out);
    out
}

fn owned(lines: &[(&str, &str)]) -> Lines {
    lines.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn table(decoder: &Decoder) -> Lines {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = (0..).map_while(|place| decoder.table.get(place));
    lines.map(|line| (text(line.name), text(line.value))).collect()
}

const AUTHORITY: (&str, &str) = (":authority", "www.example.com");
const SAMPLE: (&str, &str) = (":path", "/sample/path");
const CUSTOM: (&str, &str) = ("custom-key", "custom-value");

/// RFC 9204 appendix B, from one example to the next.
#[test]
fn the_conversation_is_that_of_the_appendix() {
    let mut decoder = Decoder::default();
    let section = bytes("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    let lines = decoded(&mut decoder, 0, &section);
    assert_eq!(lines, Ok(Some(owned(&[(":path", "/index.html")]))));
    assert_eq!(output(&mut decoder), []);

    let section = bytes("0381 10 11");
    assert_eq!(decoded(&mut decoder, 4, &section), Ok(None), "what it refers to has not come");
    follow(
        &mut decoder,
        "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468",
    );
    assert_eq!(decoded(&mut decoder, 4, &section), Ok(Some(owned(&[AUTHORITY, SAMPLE]))));
    assert_eq!(output(&mut decoder), [0x84]);

    follow(&mut decoder, "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565");
    assert_eq!(output(&mut decoder), [0x01]);
    assert_eq!(table(&decoder), owned(&[CUSTOM, SAMPLE, AUTHORITY]));

    follow(&mut decoder, "02");
    assert_eq!(table(&decoder), owned(&[AUTHORITY, CUSTOM, SAMPLE, AUTHORITY]));
    assert_eq!(output(&mut decoder), [0x01]);
    decoder.cancel(8);
    assert_eq!(output(&mut decoder), [0x48]);
    let lines = decoded(&mut decoder, 8, &bytes("0500 80 c1 81"));
    assert_eq!(lines, Ok(Some(owned(&[AUTHORITY, (":path", "/"), CUSTOM]))));
    assert_eq!(output(&mut decoder), [0x88]);

    follow(&mut decoder, "810d 6375 7374 6f6d 2d76 616c 7565 32");
    let other = ("custom-key", "custom-value2");
    assert_eq!(table(&decoder), owned(&[other, AUTHORITY, CUSTOM, SAMPLE]));
}

#[test]
fn sections_that_cannot_be_decoded_are_named() {
    let two =
        "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468";
    for (name, section, what) in [
        ("nothing", "", CUT),
        ("no base", "00", CUT),
        ("base below zero", "0382", NO_BASE),
        ("base below zero, nothing required", "0080", NO_BASE),
        ("more entries than can be", "ff02 00", NO_COUNT),
        ("static index", "0000 ff24", NO_ENTRY),
        ("static name", "0000 5f54 00", NO_ENTRY),
        ("dynamic index that is not required", "0000 80", NO_ENTRY),
        ("dynamic index before the first", "0300 82", NO_ENTRY),
        ("dynamic name before the first", "0300 42 00", NO_ENTRY),
        ("post-base index behind what is required", "0381 12", NO_ENTRY),
        ("post-base name behind what is required", "0381 02 00", NO_ENTRY),
        ("required less than referred to", "0200 80 10", NO_ENTRY),
        ("no value", "0000 51", CUT),
        ("value that does not end", "0000 5105 2f", CUT),
        ("name that does not end", "0000 25 61", CUT),
    ] {
        let mut decoder = instructed(two);
        let outcome = decoded(&mut decoder, 0, &bytes(section));
        let is_cut = what == CUT && matches!(outcome, Err(Corrupt::Section(_)));
        assert!(outcome == Err(Corrupt::Section(what)) || is_cut, "{name}: {outcome:?}");
    }
}

#[test]
fn instructions_that_make_no_sense_are_named() {
    for (name, before, instruction, what) in [
        ("capacity above the announced", "", "3fe21f", ABOVE_CAPACITY),
        ("an entry without capacity", "", "c001 61", TOO_LARGE),
        ("an entry larger than the capacity", "3f02", "c0 06 616161616161", TOO_LARGE),
        ("static name", "3fbd01", "ff24 00", NO_ENTRY),
        ("dynamic name", "3fbd01", "80 00", NO_ENTRY),
        ("duplicate of none", "3fbd01", "00", NO_ENTRY),
    ] {
        let mut decoder = instructed(before);
        let outcome = decoder.read_instructions(&bytes(instruction));
        assert_eq!(outcome, Err(Corrupt::EncoderStream(what)), "{name}");
    }
    let mut decoder = instructed("3fbd01");
    // A string of more than can be in the table, of which nothing needs to come.
    assert!(decoder.read_instructions(&bytes("c07f c1ff01")).is_err());
}

#[test]
fn instructions_come_in_any_pieces() {
    let all =
        bytes("3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d 4a63 7573 746f 6d2d 6b65 7900 01");
    for end in 0..=all.len() {
        let mut decoder = Decoder::default();
        let first = decoder.read_instructions(&all[..end]).unwrap();
        assert!(first <= end);
        assert_eq!(decoder.read_instructions(&all[first..]), Ok(all.len() - first));
        assert_eq!(table(&decoder), owned(&[AUTHORITY, ("custom-key", ""), AUTHORITY]));
    }
}

#[test]
fn the_count_of_entries_wraps() {
    let mut decoder = instructed("3fbd01");
    let mut count = 0;
    for turn in 0..1000 {
        follow(&mut decoder, "c10161");
        count += 1;
        // Of the newest entry, relative to a base behind it.
        let mut section = Vec::new();
        write_integer(&mut section, 0, 8, count % (2 * MAX_ENTRIES) + 1);
        section.extend_from_slice(&[0, 0x80]);
        assert_eq!(
            decoded(&mut decoder, 0, &section),
            Ok(Some(owned(&[(":path", "a")]))),
            "{turn}"
        );
    }
    // Far behind, and not there yet.
    let mut section = Vec::new();
    write_integer(&mut section, 0, 8, (count + MAX_ENTRIES) % (2 * MAX_ENTRIES) + 1);
    section.extend_from_slice(&[0, 0x80]);
    assert_eq!(decoded(&mut decoder, 0, &section), Ok(None));
}

#[test]
fn what_was_evicted_is_gone() {
    let mut decoder = instructed("3f24 c10161 c10162");
    assert_eq!(table(&decoder).len(), 1);
    let gone = decoded(&mut decoder, 0, &bytes("0300 81"));
    assert_eq!(gone, Err(Corrupt::Section(NO_ENTRY)));
}

#[test]
fn what_a_section_has_waited_for_may_be_gone_when_it_comes() {
    let mut decoder = instructed("3fe11f");
    let section = bytes("0200 80");
    let outcome = decoder.decode(0, &section, |_| Ok(()));
    assert_eq!((outcome, decoder.has_come(1)), (Ok(Decoded::Blocked(1)), Ok(false)));
    follow(&mut decoder, "4161 00");
    assert_eq!(decoder.has_come(1), Ok(true));
    let repeats = vec![0; usize::try_from(MAX_ENTRIES).unwrap()];
    assert_eq!(decoder.read_instructions(&repeats[1..]), Ok(repeats.len() - 1));
    assert_eq!(decoder.has_come(1), Ok(true), "the table may have as many entries");
    follow(&mut decoder, "00");
    assert_eq!(decoder.has_come(1), Err(Corrupt::Section(NO_ENTRY)));
}

/// What an encoder does.
#[derive(Clone, Debug)]
enum Act {
    Insert(String, String, bool),
    Duplicate(usize),
    Section(Vec<usize>, u64),
    Capacity(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => ("[a-c]{1,3}", "[ -~]{0,12}", any::<bool>()).prop_map(|(name, value, coded)| Act::Insert(name, value, coded)),
        1 => (0..6_usize).prop_map(Act::Duplicate),
        4 => (prop::collection::vec(0..9_usize, 0..5), 0..4_u64).prop_map(|(lines, base)| Act::Section(lines, base)),
        1 => (0..300_u64).prop_map(Act::Capacity),
    ];
    prop::collection::vec(act, 0..60)
}

/// A string as encoders write it.
fn write_string(out: &mut Vec<u8>, pattern: u8, prefix: u32, text: &[u8], is_coded: bool) {
    let mut coded = Vec::new();
    huffman::encode(text, &mut coded);
    let (text, huffman) = if is_coded { (coded.as_slice(), 1) } else { (text, 0) };
    write_integer(out, pattern | huffman << prefix, prefix, text.len() as u64);
    out.extend_from_slice(text);
}

proptest! {
    /// Sections that are decoded after, between and before the instructions that they need come to the same lines, or wait.
    #[test]
    fn what_is_encoded_comes_back(acts in acts(), late in any::<bool>()) {
        let mut decoder = Decoder::default();
        let (mut entries, mut capacity) = (Vec::<(String, String)>::new(), 0_usize);
        let (mut first, mut instructions) = (0_usize, Vec::new());
        let mut sections: Vec<(Vec<u8>, Lines)> = Vec::new();
        let size = |line: &(String, String)| line.0.len() + line.1.len() + 32;
        for act in acts {
            match act {
                Act::Capacity(to) => {
                    // Not while sections may need what would be evicted.
                    if sections.is_empty() {
                        capacity = usize::try_from(to).unwrap();
                        write_integer(&mut instructions, 0x20, 5, to);
                        while entries[first..].iter().map(size).sum::<usize>() > capacity {
                            first += 1;
                        }
                    }
                }
                Act::Insert(name, value, is_coded) => {
                    let value = value.trim().to_owned();
                    let line = (name.clone(), value.clone());
                    let used: usize = entries[first..].iter().map(size).sum();
                    let must_go = used + size(&line) > capacity;
                    if size(&line) > capacity || must_go && !sections.is_empty() {
                        continue;
                    }
                    write_string(&mut instructions, 0x40, 5, name.as_bytes(), is_coded);
                    write_string(&mut instructions, 0, 7, value.as_bytes(), is_coded);
                    entries.push(line);
                    while entries[first..].iter().map(size).sum::<usize>() > capacity {
                        first += 1;
                    }
                }
                Act::Duplicate(back) => {
                    let Some(at) = entries.len().checked_sub(back + 1).filter(|at| *at >= first) else { continue };
                    let line = entries[at].clone();
                    let used: usize = entries[first..].iter().map(size).sum();
                    if used + size(&line) > capacity {
                        continue;
                    }
                    write_integer(&mut instructions, 0, 5, back as u64);
                    entries.push(line);
                }
                Act::Section(picks, before_end) => {
                    let base = (entries.len() as u64).saturating_sub(before_end);
                    let known = entries.len() - first;
                    let (mut body, mut lines, mut required) = (Vec::new(), Vec::new(), 0);
                    for pick in picks {
                        if pick < known {
                            let index = (first + pick) as u64;
                            required = required.max(index + 1);
                            match index < base {
                                true => write_integer(&mut body, 0x80, 6, base - index - 1),
                                false => write_integer(&mut body, 0x10, 4, index - base),
                            }
                            lines.push(entries[first + pick].clone());
                        } else {
                            Qpack::write_literal(&mut body, None, b"x-y", 1, Secrecy::Secret);
                            body.push(b'z');
                            lines.push(("x-y".to_owned(), "z".to_owned()));
                        }
                    }
                    let mut section = Vec::new();
                    if required == 0 {
                        write_prefix(&mut section);
                    } else {
                        write_integer(&mut section, 0, 8, required % (2 * MAX_ENTRIES) + 1);
                        match base >= required {
                            true => write_integer(&mut section, 0, 7, base - required),
                            false => write_integer(&mut section, 0x80, 7, required - base - 1),
                        }
                    }
                    section.extend_from_slice(&body);
                    sections.push((section, lines));
                }
            }
            if !late {
                let used = decoder.read_instructions(&instructions).unwrap();
                prop_assert_eq!(used, instructions.len());
                instructions.clear();
                for (section, lines) in sections.drain(..) {
                    prop_assert_eq!(decoded(&mut decoder, 0, &section), Ok(Some(lines)));
                }
            }
        }
        for (section, lines) in &sections {
            let outcome = decoded(&mut decoder, 0, section).unwrap();
            prop_assert!(outcome.is_none_or(|found| found == *lines));
        }
        prop_assert_eq!(decoder.read_instructions(&instructions), Ok(instructions.len()));
        for (section, lines) in sections {
            prop_assert_eq!(decoded(&mut decoder, 0, &section), Ok(Some(lines)));
        }
    }

    #[test]
    fn nothing_that_comes_is_too_much(
            instructions in prop::collection::vec(any::<u8>(), 0..200),
            section in prop::collection::vec(any::<u8>(), 0..200),
        ) {
        let mut decoder = instructed("3fe11f");
        let _ = decoder.read_instructions(&instructions);
        let _ = decoded(&mut decoder, 0, &section);
        prop_assert!(decoder.value.len() < 1 << 16 && decoder.name.len() < 1 << 16);
    }
}
