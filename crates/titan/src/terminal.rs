//! Standard output and standard error. Their reader may be gone: that is not a failure.

use crate::failure::Failure;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
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

/// Prints more of an output that goes on until its reader is gone, which is no failure.
pub(crate) fn print_while_read(text: &str) -> Result<ControlFlow<()>, Failure> {
    match write(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(Failure::Runtime(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(ControlFlow::Continue(())),
    }
}

/// Prints to standard output what a gateway says at its start; it serves also where that cannot be written.
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
    io::stderr().is_terminal() && !is_color_unwanted()
}

/// Whether `NO_COLOR` is set.
pub(crate) fn is_color_unwanted() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
