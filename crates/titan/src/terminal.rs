//! Standard output and standard error. Their reader may be gone: that is not a failure.

use crate::failure::Failure;
use std::io::{self, IsTerminal, Write};
use titan_config::Report;

/// Prints the output of a command: if it cannot be written, the command has failed.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match write(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Runtime(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints to standard output what the gateway tells of itself; it serves also where that cannot be written.
pub(crate) fn say(text: &str) {
    let _ = write(text);
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints to standard error.
pub(crate) fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints one line of what the gateway has met. Parts of it may come from the network: it stays one line of text.
pub(crate) fn event(text: &str) {
    complain(&format!("warning: {}\n", line(text)));
}

/// Prints one line about a call that has changed something, or was to: who, what, and what came of it.
pub(crate) fn audit(text: &str) {
    complain(&format!("audit: {}\n", line(text)));
}

/// The same text without anything that ends a line, or that a terminal obeys.
fn line(text: &str) -> String {
    let is_text = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
    let shown = text.chars().map(|c| if is_text(c) { c } else { char::REPLACEMENT_CHARACTER });
    shown.take(MAX_LINE).collect()
}

/// More characters than this are not shown of an event.
const MAX_LINE: usize = 1000;

/// Prints warnings to standard error, if there are any.
pub(crate) fn warn(warnings: &Report) {
    if warnings.is_empty() {
        return;
    }
    match has_color() {
        true => complain(&warnings.colored().to_string()),
        false => complain(&warnings.to_string()),
    }
}

/// Whether standard error takes colours: a terminal does, unless `NO_COLOR` is set (no-color.org).
pub(crate) fn has_color() -> bool {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !is_unwanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_its_text() {
        assert_eq!(line("upstream `ä`: 10.0.0.1:80: \"no\""), "upstream `ä`: 10.0.0.1:80: \"no\"");
        assert_eq!(line("a\r\nwarning: b\tc"), "a\u{fffd}\u{fffd}warning: b\u{fffd}c");
        assert_eq!(line("\u{1b}[31m \u{202e}x\u{2028}y"), "\u{fffd}[31m \u{fffd}x\u{fffd}y");
        assert_eq!(line(&"x".repeat(5000)).len(), MAX_LINE);
    }
}
