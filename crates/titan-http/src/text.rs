//! Octet classes and lists of the field grammar (RFC 9110 section 5.6), and spans into a text buffer.

/// Where a part of a head lies in the head's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The span from `start` to `end`. A head is bounded far below 4 GiB by its limits.
    #[expect(clippy::cast_possible_truncation, reason = "texts are bounded by Fields::MAX_TEXT")]
    pub fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && end <= crate::Fields::MAX_TEXT);
        Span { start: start as u32, end: end as u32 }
    }

    /// The octets that the span covers.
    pub fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }

    /// Whether the span covers nothing.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// Whether `octet` may stand in a token: methods and field names (RFC 9110 section 5.6.2).
pub const fn is_token_octet(octet: u8) -> bool {
    CLASSES[octet as usize] & TOKEN != 0
}

/// Whether `octet` may stand in a field value: visible, SP, HTAB or obs-text (RFC 9110 section 5.5).
pub const fn is_field_octet(octet: u8) -> bool {
    (octet >= 0x20) & (octet != 0x7f) | (octet == b'\t')
}

/// Whether `octet` may stand in a request target: visible ASCII without the fragment's `#`.
pub const fn is_target_octet(octet: u8) -> bool {
    CLASSES[octet as usize] & TARGET != 0
}

/// Whether `octet` may stand in a registered name: unreserved and sub-delims of RFC 3986 without the
/// comma, which would read as a list of hosts.
pub(crate) const fn is_name_octet(octet: u8) -> bool {
    CLASSES[octet as usize] & NAME != 0
}

/// Whether `text` is a token: not empty and of token octets only.
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&octet| is_token_octet(octet))
}

/// The members of a comma-separated list with the white space around them removed.
///
/// Empty members are yielded too: whoever must refuse them can see them.
pub fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&octet| octet == b',').map(trim)
}

/// `value` without the optional white space (SP and HTAB) around it.
pub(crate) fn trim(value: &[u8]) -> &[u8] {
    let is_text = |octet: &u8| !matches!(octet, b' ' | b'\t');
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
    let mut octet = 0;
    while octet < 256 {
        let byte = octet as u8;
        if byte.is_ascii_alphanumeric() || contains(b"!#$%&'*+-.^_`|~", byte) {
            table[octet] |= TOKEN;
        }
        if byte.is_ascii_graphic() && byte != b'#' {
            table[octet] |= TARGET;
        }
        if byte.is_ascii_alphanumeric() || contains(b"-._~!$&'()*+;=", byte) {
            table[octet] |= NAME;
        }
        octet += 1;
    }
    table
};

const fn contains(set: &[u8], octet: u8) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set[at] == octet {
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
        let tokens = (0..=255).filter(|&octet| is_token_octet(octet)).count();
        assert_eq!(tokens, 26 * 2 + 10 + 15);
        assert!(!is_target_octet(b'#') && !is_target_octet(b' ') && !is_target_octet(0x80));
        assert!(is_field_octet(b'\t') && is_field_octet(0x80) && !is_field_octet(0x7f));
    }
}
