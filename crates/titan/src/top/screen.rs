//! The terminal while the page has it. It gets back what it was like, however the program ends.

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

/// The whole screen. Dropping it gives the terminal back.
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// Whether the terminal is not as it was.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

impl Screen {
    /// Takes the terminal: without echo, and with a screen of its own.
    pub(super) fn take() -> io::Result<Screen> {
        give_back_on_panic();
        IS_TAKEN.store(true, Ordering::SeqCst);
        // Where one of these fails, the others are taken back.
        let taken = enable_raw_mode()
            .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, Hide))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        taken.map(|terminal| Screen { terminal }).inspect_err(|_| give_back())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, once.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // Nobody is left to tell.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// The same where the terminal may take nothing, and another thread waits for that: its modes, and the screen if there is room.
pub(super) fn give_back_at_once() {
    let _ = disable_raw_mode();
    let mut back = Vec::new();
    let is_made = queue!(back, LeaveAlternateScreen, Show).is_ok();
    // Not through the standard library: who waits has its lock.
    let out = rustix::stdio::stdout();
    let is_free = poll(&mut [PollFd::new(&out, PollFlags::OUT)], Some(&Timespec::default()));
    if is_made && is_free == Ok(1) {
        let _ = rustix::io::write(out, &back);
    }
}

/// Has a panic told where it can be read.
fn give_back_on_panic() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        give_back();
        tell(info);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Run by the test below, on a terminal of its own.
    #[test]
    #[ignore = "it panics; `the_terminal_is_given_back_before_a_panic_is_told` runs it"]
    fn panics_on_a_screen() {
        let _screen = Screen::take().unwrap();
        panic!("a surprise");
    }

    #[test]
    fn the_terminal_is_given_back_before_a_panic_is_told() {
        let program = std::env::current_exe().unwrap();
        let run = format!(
            "stty -g; '{}' --exact --ignored --nocapture top::screen::tests::panics_on_a_screen; stty -g",
            program.display()
        );
        let output = Command::new("script")
            .args(["--quiet", "--return", "--command", &run, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?}: {text}"));
        assert!(at("\u{1b}[?1049h") < at("\u{1b}[?1049l"), "{text}");
        assert!(at("\u{1b}[?1049l") < at("a surprise"), "{text}");
        assert!(at("\u{1b}[?25l") < at("\u{1b}[?25h"), "{text}");
        let modes: Vec<_> = text.lines().filter(|line| line.matches(':').count() > 20).collect();
        assert!(modes.len() == 2 && modes[0] == modes[1], "{text}");
    }
}
