//! `titan top`: what a running gateway does, as a page in the terminal or as text.
//!
//! | what | module |
//! |---|---|
//! | the text format of metrics | `samples` |
//! | what a gateway said at one moment | `reading` |
//! | what follows from two of those | `figures` |
//! | names and figures as text | `text` |
//! | what the user has chosen, and keys | `page` |
//! | the picture | `view` |
//! | asking the gateway | `source` |
//! | the terminal | `screen` |
//! | the page while it is looked at | `live` |

mod samples;

mod reading;

mod figures;

mod text;

mod page;

mod view;

mod source;

mod screen;

mod live;

#[cfg(test)]
mod tests;

pub(crate) use text::plain;

use crate::cli::TopOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::terminal;
use figures::Figures;
use ratatui::crossterm;
use source::Source;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use view::{Picture, Theme};

/// The columns of a picture as text where there is no terminal.
const COLUMNS: u16 = 120;
/// A picture is at least so wide.
const LEAST: u16 = 40;

/// Shows a gateway until the user has seen enough, or once.
pub(crate) fn top(options: &TopOptions) -> Result<ExitCode, Failure> {
    let TopOptions { interval, once, no_color, address, gateway } = options;
    let source = Source::new(Client::find_at(address, gateway)?);
    if *once {
        return print(source, *interval);
    }
    if !is_screen() {
        terminal::complain("this is no terminal to draw on: printed once, as with --once\n");
        return print(source, *interval);
    }
    let has_color = !no_color && !terminal::is_color_unwanted();
    let mut source = source;
    let first = source.read()?;
    live::show(source, first, *interval, Theme { has_color })
}

/// Whether there is a terminal that can move its cursor.
fn is_screen() -> bool {
    let is_able = std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb");
    is_able && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Prints one picture.
fn print(mut source: Source, interval: Duration) -> Result<ExitCode, Failure> {
    let before = source.read()?;
    wait(interval);
    let now = source.read()?;
    let picture = Picture {
        place: source.place(),
        time: Some(now.time),
        interval,
        figures: Figures::of(&now, Some(&before)),
        lost: None,
        refused: source.refused(),
    };
    terminal::print(&view::text(&picture, columns()))?;
    Ok(ExitCode::SUCCESS)
}

/// The time between two samples.
fn wait(time: Duration) {
    let (_sender, never) = sync_channel::<()>(0);
    // It ends in a timeout: nothing is sent.
    let _ = never.recv_timeout(time);
}

fn columns() -> u16 {
    let of_terminal =
        io::stdout().is_terminal().then(|| crossterm::terminal::size().ok()).flatten();
    of_terminal.map_or(COLUMNS, |(columns, _)| columns.max(LEAST))
}
