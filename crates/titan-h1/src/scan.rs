//! Searches for the first byte that does not belong, sixteen bytes at a step.
//!
//! A step marks all its bytes without a branch, which the compiler turns into a few vector
//! instructions on any processor; then the first mark is found by counting zeros.

use titan_http::is_token_byte;

/// The first place at or after `from` whose byte is not of a token; the end if there is none. Names
/// are so short that a table is as fast as steps.
#[inline]
pub(crate) fn token_end(text: &[u8], from: usize) -> usize {
    let rest = &text[from..];
    from + rest.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(rest.len())
}

/// The first place at or after `from` whose byte no field value may have.
#[inline]
pub(crate) fn value_end(text: &[u8], from: usize) -> usize {
    find(text, from, |byte| ((byte < b' ') & (byte != b'\t')) | (byte == 0x7f))
}

/// The first place at or after `from` whose byte no request target may have.
#[inline]
pub(crate) fn target_end(text: &[u8], from: usize) -> usize {
    find(text, from, |byte| (byte <= b' ') | (byte >= 0x7f) | (byte == b'#'))
}

/// The first place at or after `from` where `stops` holds; the end if there is none.
#[inline]
fn find(text: &[u8], from: usize, stops: impl Fn(u8) -> bool) -> usize {
    let mut rest = &text[from..];
    while let Some((step, after)) = rest.split_first_chunk::<16>() {
        let marks = step.map(|byte| if stops(byte) { 0xff } else { 0 });
        let marks = u128::from_le_bytes(marks);
        if marks != 0 {
            return text.len() - rest.len() + marks.trailing_zeros() as usize / 8;
        }
        rest = after;
    }
    let in_rest = rest.iter().position(|&byte| stops(byte));
    text.len() - rest.len() + in_rest.unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_http::{is_field_byte, is_target_byte};

    fn naive(text: &[u8], from: usize, belongs: fn(u8) -> bool) -> usize {
        (from..text.len()).find(|&at| !belongs(text[at])).unwrap_or(text.len())
    }

    fn agree(text: &[u8], from: usize) {
        assert_eq!(token_end(text, from), naive(text, from, is_token_byte), "{text:?}");
        assert_eq!(value_end(text, from), naive(text, from, is_field_byte), "{text:?}");
        assert_eq!(target_end(text, from), naive(text, from, is_target_byte), "{text:?}");
    }

    #[test]
    fn every_byte_at_every_place_is_judged_as_by_the_naive_twin() {
        for byte in 0..=255 {
            for place in 0..40 {
                for filler in [b'a', b'\t', b' ', 0xff] {
                    let mut text = [filler; 40];
                    text[place] = byte;
                    (0..=40).for_each(|from| agree(&text, from));
                }
            }
        }
    }
}
