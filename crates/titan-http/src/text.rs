//! Byte classes and lists of the field grammar (RFC 9110 section 5.6), and spans into a text buffer.

/// Bytes that the text of a head may grow to.
pub(crate) const MAX_TEXT: usize = 16 << 20;

/// Where a part of a head lies in the head's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The span from `start` to `end`. A head is bounded far below 4 GiB by its limits.
    #[expect(clippy::cast_possible_truncation, reason = "texts are bounded by MAX_TEXT")]
    pub fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && end <= MAX_TEXT);
        Span { start: start as u32, end: end as u32 }
    }

    /// The bytes that the span covers.
    pub fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }

    /// Where it begins and ends.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The same as numbers of their size.
    pub fn ends(self) -> (u32, u32) {
        (self.start, self.end)
    }

    /// Whether the span covers nothing.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// Whether `byte` may stand in a token: methods and field names (RFC 9110 section 5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    CLASSES[byte as usize] & TOKEN != 0
}

/// Whether `byte` may stand in a field value: visible, SP, HTAB or obs-text (RFC 9110 section 5.5).
pub const fn is_field_byte(byte: u8) -> bool {
    (byte >= 0x20) & (byte != 0x7f) | (byte == b'\t')
}

/// Whether `byte` may stand in a request target: visible ASCII without the fragment's `#`.
pub const fn is_target_byte(byte: u8) -> bool {
    CLASSES[byte as usize] & TARGET != 0
}

/// Whether `byte` may stand in a registered name: unreserved and sub-delims of RFC 3986 without the
/// comma, which would read as a list of hosts.
pub(crate) const fn is_name_byte(byte: u8) -> bool {
    CLASSES[byte as usize] & NAME != 0
}

/// Whether `text` is a token: not empty and of token bytes only.
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

/// The members of a comma-separated list with the white space around them removed.
///
/// Empty members are yielded too, so that a caller that must refuse them sees them.
pub fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

/// `value` without the optional white space (SP and HTAB) around it.
pub(crate) fn trim(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let Some(first) = value.iter().position(is_text) else { return &[] };
    let last = value.iter().rposition(is_text).unwrap_or(first);
    &value[first..=last]
}

const TOKEN: u8 = 1;
const TARGET: u8 = 2;
const NAME: u8 = 4;

#[expect(clippy::cast_possible_truncation, reason = "the loop ends at 256")]
static CLASSES: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        if byte.is_ascii_alphanumeric() || contains(b"!#$%&'*+-.^_`|~", byte) {
            table[at] |= TOKEN;
        }
        if byte.is_ascii_graphic() && byte != b'#' {
            table[at] |= TARGET;
        }
        if byte.is_ascii_alphanumeric() || contains(b"-._~!$&'()*+;=", byte) {
            table[at] |= NAME;
        }
        at += 1;
    }
    table
};

const fn contains(set: &[u8], byte: u8) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_show_their_empty_members() {
        let members: Vec<_> = list_members(b" a ,\tb,, c").collect();
        assert_eq!(members, [b"a".as_slice(), b"b", b"", b"c"]);
    }

    #[test]
    fn classes_hold_what_the_grammar_lists() {
        let tokens = (0..=255).filter(|&byte| is_token_byte(byte)).count();
        assert_eq!(tokens, 26 * 2 + 10 + 15);
        assert!(!is_target_byte(b'#') && !is_target_byte(b' ') && !is_target_byte(0x80));
        assert!(is_field_byte(b'\t') && is_field_byte(0x80) && !is_field_byte(0x7f));
    }
}
