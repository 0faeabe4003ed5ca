//! Chunk extensions (RFC 9112 section 7.1.1). They are ignored and not forwarded, but they must be well-formed:
//! bodies are smuggled by what one recipient skips and another takes for the end of the line.
//!
//! ```text
//!          +------------------------- ; --------------------------+
//!          v                                                      |
//!   ; -> Begin -> Name -> = -> Equals -+-> Value ---------------->+
//!          ^                           +-> Quoted <-> Escaped     |
//!          |                                 +------> Closed ---->+
//!          +------------------------- ; --------------------------+
//! ```
//!
//! White space after a name is `Named`, after a value `Valued`: the line may not end there.

use titan_http::{is_field_byte, is_token_byte};

/// Where a chunk-size line stands behind its first `;`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    /// A name comes.
    Begin,
    /// In a name.
    Name,
    /// In white space behind a name: `=` or `;` comes.
    Named,
    /// A value comes.
    Equals,
    /// In a value that is a token.
    Value,
    /// In a value between quotes.
    Quoted,
    /// Behind a backslash between quotes.
    Escaped,
    /// Behind the closing quote.
    Closed,
    /// In white space behind a value: `;` comes.
    Valued,
}

impl Extension {
    /// What `byte` leads to, if the grammar has it here.
    pub(crate) fn after(self, byte: u8) -> Option<Extension> {
        use Extension::{Begin, Closed, Equals, Escaped, Name, Named, Quoted, Value, Valued};
        match (self, byte) {
            (Quoted, b'"') => Some(Closed),
            (Quoted, b'\\') => Some(Escaped),
            (Quoted | Escaped, _) => is_field_byte(byte).then_some(Quoted),
            (Begin | Equals, b' ' | b'\t') => Some(self),
            (Name | Named, b' ' | b'\t') => Some(Named),
            (Value | Closed | Valued, b' ' | b'\t') => Some(Valued),
            (Name | Named | Value | Closed | Valued, b';') => Some(Begin),
            (Name | Named, b'=') => Some(Equals),
            (Equals, b'"') => Some(Quoted),
            (Begin | Name, _) => is_token_byte(byte).then_some(Name),
            (Equals | Value, _) => is_token_byte(byte).then_some(Value),
            (Named | Closed | Valued, _) => None,
        }
    }

    /// Whether the line may end here.
    pub(crate) fn may_end(self) -> bool {
        matches!(self, Extension::Name | Extension::Value | Extension::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_extension(text: &[u8]) -> bool {
        let end = text.iter().try_fold(Extension::Begin, |place, &byte| place.after(byte));
        end.is_some_and(Extension::may_end)
    }

    #[test]
    fn names_and_values_are_tokens() {
        for byte in 0..=u8::MAX {
            let is_token = is_token_byte(byte);
            assert_eq!(is_extension(&[byte]), is_token, "{byte:#x}");
            assert_eq!(is_extension(&[b'a', b'=', byte]), is_token, "{byte:#x}");
        }
    }

    #[test]
    fn quoted_values_end_at_their_quote() {
        for byte in 0..=u8::MAX {
            let is_text = is_field_byte(byte);
            let is_plain = is_text && !matches!(byte, b'"' | b'\\');
            assert_eq!(is_extension(&[b'a', b'=', b'"', byte, b'"']), is_plain, "{byte:#x}");
            assert_eq!(is_extension(&[b'a', b'=', b'"', b'\\', byte, b'"']), is_text, "{byte:#x}");
        }
    }
}
