//! Text that may come from the network, made safe to write.

use std::fmt::{self, Write};

/// A text of one line, without anything that a terminal obeys, and not longer than [`Text::MAX`] characters. What it is made of may be
/// anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text(String);

impl Text {
    /// More characters than this are cut off.
    pub const MAX: usize = 1000;

    /// What this shows.
    pub fn of(shown: impl fmt::Display) -> Text {
        Text::up_to(Text::MAX, shown)
    }

    /// The same with fewer characters.
    pub(super) fn up_to(most: usize, shown: impl fmt::Display) -> Text {
        let mut cut = Cut { text: String::new(), left: most };
        // It fails where there is no room left, and then there is enough.
        let _ = write!(cut, "{shown}");
        Text(cut.text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that takes so many characters more.
struct Cut {
    text: String,
    left: usize,
}

impl Write for Cut {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for c in part.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(if is_text(c) { c } else { char::REPLACEMENT_CHARACTER });
        }
        Ok(())
    }
}

/// Whether a character ends no line and changes nothing else: controls and marks of direction are no text.
fn is_text(c: char) -> bool {
    c == ' ' || c == '…' || c.is_ascii_graphic() || c.is_alphanumeric()
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_line_whatever_it_is_made_of() {
        let line = |text: &str| Text::of(text).to_string();
        assert_eq!(line("upstream `ä`: 10.0.0.1:80: \"no\""), "upstream `ä`: 10.0.0.1:80: \"no\"");
        assert_eq!(line("a\r\nwarning: b\tc"), "a\u{fffd}\u{fffd}warning: b\u{fffd}c");
        assert_eq!(line("\u{1b}[31m \u{202e}x\u{2028}y"), "\u{fffd}[31m \u{fffd}x\u{fffd}y");
        assert_eq!(line(&"x".repeat(5000)).len(), Text::MAX);
    }
}
