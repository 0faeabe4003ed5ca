//! Integers of variable length (RFC 9000 section 16).

/// The largest one.
pub const MAX: u64 = (1 << 62) - 1;

/// Reads one from the beginning of `input`, and tells how many bytes it has; nothing if it has not all come. Any length is taken.
#[inline]
pub fn read(input: &[u8]) -> Option<(u64, usize)> {
    let length = 1 << (input.first()? >> 6);
    let bytes = input.get(..length)?;
    let value = bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    Some((value & (u64::MAX >> (64 - 8 * length + 2)), length))
}

/// Appends one in as few bytes as it needs; what is above [`MAX`] is written as that.
#[inline]
pub fn write(out: &mut Vec<u8>, value: u64) {
    let value = value.min(MAX);
    let (length, pattern) = match value {
        0..0x40 => (1, 0),
        0x40..0x4000 => (2, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (8, 0xc0),
    };
    let bytes = value.to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&bytes[8 - length..]);
    out[start] |= pattern;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 9000 section A.1.
    #[test]
    fn they_are_those_of_the_appendix() {
        let long = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(read(&long), Some((151_288_809_941_952_652, 8)));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d, 9]), Some((494_878_333, 4)));
        assert_eq!(read(&[0x7b, 0xbd]), Some((15_293, 2)));
        assert_eq!(read(&[0x25]), Some((37, 1)));
        assert_eq!(read(&[0x40, 0x25]), Some((37, 2)));
    }

    proptest! {
        #[test]
        fn they_come_back(value in 0..=MAX, shift in 0_u32..62, more in any::<u8>()) {
            let value = value >> shift;
            let mut out = Vec::new();
            write(&mut out, value);
            for end in 0..out.len() {
                prop_assert_eq!(read(&out[..end]), None);
            }
            let length = out.len();
            out.push(more);
            prop_assert_eq!(read(&out), Some((value, length)));
        }
    }

    #[test]
    fn what_is_too_large_is_the_largest() {
        let mut out = Vec::new();
        write(&mut out, u64::MAX);
        assert_eq!(read(&out), Some((MAX, 8)));
    }
}
