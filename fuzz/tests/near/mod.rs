//! Inputs near others.

use crate::random::Random;

/// Bytes that mean something to some parser.
const MARKS: &[u8] = b"\0\r\n\t .,;:/%&=?#{}[]()\"'\\|!<>+-*_~@09azAZ\x7f\x80\xff";
/// How much is taken away, repeated or copied at most.
const PIECE: usize = 24;

/// An input of the pool with a few mistakes in it; of its first bytes, which choose, some are others.
pub(crate) fn near(pool: &[impl AsRef<[u8]>], choices: usize, random: &mut Random) -> Vec<u8> {
    let mut input = random.choose(pool).to_vec();
    for byte in input.iter_mut().take(choices) {
        if random.next().is_multiple_of(3) {
            *byte = random.next() as u8;
        }
    }
    for _ in 0..random.next() % 4 {
        let other = random.choose(pool);
        damage(&mut input, choices, other, random);
    }
    input
}

fn damage(input: &mut Vec<u8>, choices: usize, other: &[u8], random: &mut Random) {
    let below = |random: &mut Random, end: usize| random.next() as usize % (end + 1);
    let start = choices.min(input.len());
    let at = start + below(random, input.len() - start);
    let end = at + below(random, (input.len() - at).min(PIECE));
    match random.next() % 6 {
        0 => drop(input.drain(at..end)),
        1 => input.truncate(at),
        2 => {
            let piece = input[at..end].to_vec();
            drop(input.splice(at..at, piece));
        }
        3 => {
            let from = below(random, other.len());
            let to = from + below(random, (other.len() - from).min(PIECE));
            drop(input.splice(at..end, other[from..to].iter().copied()));
        }
        4 if at < input.len() => input[at] ^= 1 << (random.next() % 8),
        _ => input.insert(at, MARKS[random.next() as usize % MARKS.len()]),
    }
}
