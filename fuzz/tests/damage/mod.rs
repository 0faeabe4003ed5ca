//! Small mistakes.

use crate::random::Random;

/// One byte becomes another, one goes, or one comes.
pub(crate) fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.next() as usize % bytes.len();
    match random.next() % 4 {
        0 => bytes[at] = random.next() as u8,
        1 => bytes[at] ^= 1 << (random.next() % 8),
        2 => drop(bytes.remove(at)),
        _ => bytes.insert(at, random.next() as u8),
    }
}
