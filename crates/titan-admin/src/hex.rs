//! Bytes as hexadecimal digits.

use std::fmt::Write;

/// A SHA-256 as people write it.
pub(crate) fn hex(digest: [u8; 32]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
