//! What servers say, as far as it is shown.

/// Characters of a message of a server that are shown.
const MAX_MESSAGE: usize = 200;

/// As much of a message of a server as is shown.
pub(crate) fn shown(text: &str) -> String {
    text.chars().filter(|char| matches!(char, ' '..='~')).take(MAX_MESSAGE).collect()
}
