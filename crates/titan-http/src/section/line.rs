//! A field as it comes out of a block. It is analysed once: when its bytes are read, not when a table repeats it.

use super::fault::Fault;
use crate::field_name::FieldName;
use crate::text::is_token_byte;

/// A field line of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// What the name means.
    pub key: Key,
    /// The name, as it was written.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// What is wrong with the bytes of name or value.
    pub fault: Option<Fault>,
}

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A regular field.
    Field(FieldName),
    /// `:method`.
    Method,
    /// `:scheme`.
    Scheme,
    /// `:authority`.
    Authority,
    /// `:path`.
    Path,
    /// `:protocol` (RFC 8441).
    Protocol,
    /// `:status`.
    Status,
    /// Another name that begins with a colon.
    UnknownPseudo,
}

impl Line<'_> {
    /// What the line counts for in the size of a list and of a table (RFC 7541 section 4.1).
    pub fn size(&self) -> usize {
        OVERHEAD + self.name.len() + self.value.len()
    }
}

/// What is added to the bytes of a line.
pub const OVERHEAD: usize = 32;

impl Key {
    /// What that name means. Names with upper-case letters are faulty, whatever this says of them.
    pub fn of(name: &[u8]) -> Key {
        match name {
            [b':', pseudo @ ..] => match pseudo {
                b"method" => Key::Method,
                b"scheme" => Key::Scheme,
                b"authority" => Key::Authority,
                b"path" => Key::Path,
                b"protocol" => Key::Protocol,
                b"status" => Key::Status,
                _ => Key::UnknownPseudo,
            },
            _ => Key::Field(FieldName::of(name)),
        }
    }
}

/// What is wrong with the bytes of a name. Of a pseudo field's name its key says all there is to
/// say.
pub fn check_name(key: Key, name: &[u8]) -> Option<Fault> {
    if !matches!(key, Key::Field(_)) {
        return None;
    }
    if !name.is_empty() && name.iter().all(|&byte| NAME_BYTES[usize::from(byte)]) {
        return None;
    }
    match !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte)) {
        true => Some(Fault::NameUpperCase),
        false => Some(Fault::NameByte),
    }
}

/// What is wrong with the bytes of a value.
pub fn check_value(value: &[u8]) -> Option<Fault> {
    // Without a branch for each byte: the compiler makes vectors of it.
    let is_control = |byte: u8| ((byte < 0x20) & (byte != b'\t')) | (byte == 0x7f);
    if value.iter().fold(false, |any, &byte| any | is_control(byte)) {
        return Some(Fault::ValueByte);
    }
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    (is_space(value.first()) || is_space(value.last())).then_some(Fault::ValueSpace)
}

/// The bytes of tokens without upper-case letters.
#[expect(clippy::cast_possible_truncation, reason = "the loop ends at 256")]
static NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_token_byte(byte as u8) && !(byte as u8).is_ascii_uppercase();
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::is_field_byte;

    #[test]
    fn names_are_tokens_in_lower_case() {
        let check = |name: &[u8]| check_name(Key::of(name), name);
        for name in [b"a".as_slice(), b"x-1", b"!#$%&'*+-.^_`|~", b":method", b":Any thing"] {
            assert_eq!(check(name), None, "{name:?}");
        }
        assert_eq!(check(b"Host"), Some(Fault::NameUpperCase));
        for name in [b"".as_slice(), b"a b", b"a:", b"A b", b"a\0", b"\xe9"] {
            assert_eq!(check(name), Some(Fault::NameByte), "{name:?}");
        }
    }

    #[test]
    fn values_are_what_the_grammar_says() {
        for byte in 0..=255 {
            let fault = (!is_field_byte(byte)).then_some(Fault::ValueByte);
            assert_eq!(check_value(&[b'a', byte, b'a']), fault, "{byte}");
        }
        for value in [b" a".as_slice(), b"a ", b"\ta", b"a\t", b" "] {
            assert_eq!(check_value(value), Some(Fault::ValueSpace));
        }
        assert_eq!(check_value(b""), None);
    }
}
