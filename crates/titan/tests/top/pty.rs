//! `titan top` on a terminal of its own, which `script` of util-linux makes.

use crate::titan::program;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid,
};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// A terminal of 80 columns and 24 lines.
pub(super) struct Pty {
    child: Child,
    keyboard: ChildStdin,
    screen: Receiver<Vec<u8>>,
    /// What was written to it so far, and up to where it was looked at.
    written: String,
    seen: usize,
}

/// Longer than a busy machine makes a test wait.
const LONG: Duration = Duration::from_secs(60);
/// Characters that a failure tells.
const MOST_TOLD: usize = 4000;
/// Pieces of output that wait to be looked at.
const MOST: usize = 10_000;

impl Pty {
    /// Starts it beside the gateway that has this socket.
    pub(super) fn start(socket: &Path) -> Pty {
        let program = program();
        let run = format!(
            "stty rows 24 columns 80; echo \"modes $(stty -g)\"; \
             sh -c 'echo \"pid $$ \"; exec \"{}\" top --interval 200ms --socket \"{}\"'; \
             echo \"code $? \"; echo \"modes $(stty -g)\"",
            program.display(),
            socket.display()
        );
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--command", &run, "/dev/null"])
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keyboard = child.stdin.take().unwrap();
        let mut output = child.stdout.take().unwrap();
        let (pieces, screen) = sync_channel(MOST);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut piece) {
                if pieces.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Pty { child, keyboard, screen, written: String::new(), seen: 0 }
    }

    /// Waits until that is written behind what was waited for before.
    pub(super) fn shows(&mut self, text: &str) {
        let until = Instant::now() + LONG;
        loop {
            if let Some(at) = self.written[self.seen..].find(text) {
                self.seen += at;
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            let piece = self.screen.recv_timeout(left);
            let piece = piece.unwrap_or_else(|_| {
                let behind = self.written[self.seen..].chars().take(MOST_TOLD).collect::<String>();
                panic!("no {text:?}: {behind:?}")
            });
            self.written += &String::from_utf8_lossy(&piece);
        }
    }

    pub(super) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// What stands behind a word that the terminal was told before and after.
    fn word(&self, before: &str) -> Vec<&str> {
        let words = self.written.split_whitespace().collect::<Vec<_>>();
        let pairs = words.windows(2).filter(|pair| pair[0].ends_with(before));
        pairs.map(|pair| pair[1]).collect()
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        self.word("pid")[0].parse().ok().and_then(Pid::from_raw).unwrap()
    }

    /// Has the terminal take nothing any more.
    pub(super) fn stalls(&self) {
        let reader = Pid::from_child(&self.child);
        kill_process(reader, Signal::STOP).unwrap();
        waitid(WaitId::Pid(reader), WaitIdOptions::STOPPED).unwrap();
        let screen = format!("/proc/{}/fd/1", self.pid());
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let mut screen = OpenOptions::new().write(true).custom_flags(flags).open(screen).unwrap();
        let soon = Timespec::try_from(Duration::from_millis(200)).unwrap();
        // What was written moves on to whoever reads, which makes room again.
        while poll(&mut [PollFd::new(&screen, PollFlags::OUT)], Some(&soon)) == Ok(1) {
            while screen.write(b" ").is_ok() {}
        }
    }

    /// Has it take what waits.
    pub(super) fn goes_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Sends it a signal, and waits until the process is gone, whatever the terminal does.
    pub(super) fn is_gone_after(&self, signal: Signal) {
        let process = pidfd_open(self.pid(), PidfdFlags::empty()).unwrap();
        self.signal(signal);
        let long = Timespec::try_from(LONG).unwrap();
        assert_eq!(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&long)), Ok(1));
    }

    /// Waits until it has ended: its exit code.
    pub(super) fn ends(&mut self) -> i32 {
        self.shows("code ");
        self.shows("modes ");
        while let Ok(piece) = self.screen.recv_timeout(LONG) {
            self.written += &String::from_utf8_lossy(&piece);
        }
        self.word("code")[0].parse().unwrap()
    }

    pub(super) fn has_modes_as_before(&self) {
        let modes = self.word("modes");
        assert!(modes.len() == 2 && modes[0] == modes[1], "{:?}", self.written);
    }

    /// Checks that the terminal is as it was: modes, screen and cursor; and that there were no colours.
    pub(super) fn is_as_before(&self) {
        self.has_modes_as_before();
        for (taken, back) in [("\u{1b}[?1049h", "\u{1b}[?1049l"), ("\u{1b}[?25l", "\u{1b}[?25h")] {
            let (taken, back) = (self.written.rfind(taken), self.written.rfind(back));
            assert!(taken.is_some() && taken < back, "{:?}", self.written);
        }
        for color in 30..38 {
            assert!(!self.written.contains(&format!("\u{1b}[{color}m")), "{:?}", self.written);
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // The program ends with its terminal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
