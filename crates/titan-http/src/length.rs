//! The lengths that messages declare (RFC 9110 section 8.6).

/// The largest length that is accepted: one that fits every signed counter on the way.
pub const MAX_LENGTH: u64 = i64::MAX as u64;

/// The value of a `Content-Length`: at most 19 digits. More are refused even when they are zeros, for some
/// parser on the way will cut them.
pub fn parse_length(value: &[u8]) -> Option<u64> {
    const MAX_DIGITS: usize = 19;
    if value.is_empty() || value.len() > MAX_DIGITS || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = value.iter().fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
    (number <= MAX_LENGTH).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_digits_below_two_to_the_63() {
        assert_eq!(parse_length(b"0"), Some(0));
        assert_eq!(parse_length(b"0012"), Some(12));
        assert_eq!(parse_length(b"9223372036854775807"), Some(MAX_LENGTH));
        assert_eq!(parse_length(b"0000000000000000012"), Some(12));
        assert_eq!(parse_length(b"00000000000000000012"), None);
        for text in ["", "+1", "-1", "1 ", "0x1", "1_0", "1,1", "9223372036854775808"] {
            assert_eq!(parse_length(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_length(&[b'9'; 40]), None);
    }
}
