//! Bytes as hexadecimal digits.

use std::fmt::Write;

/// A SHA-256, or the id of a trace, as people write it.
pub(crate) fn hex<const N: usize>(bytes: [u8; N]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
