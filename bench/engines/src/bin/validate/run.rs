//! Runs a command as a process group of its own, until it ends, its time is over, or this program is to end.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};
use tokio::time::{sleep, timeout};

use crate::judge::End;

/// Scripts put back what they have changed when they are asked to end.
const GRACE: Duration = Duration::from_secs(10);
/// What make hands to those that it runs: the command is to be what it is when somebody types it.
const OF_MAKE: [&str; 4] = ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"];

/// The signals that ask this program to end.
pub struct Interrupts {
    int: Listener,
    term: Listener,
    hup: Listener,
}

impl Interrupts {
    pub fn listen() -> io::Result<Self> {
        let [int, term, hup] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Self { int: int?, term: term?, hup: hup? })
    }

    async fn come(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
            _ = self.hup.recv() => {}
        }
    }
}

/// Where a command runs, and what it prints to.
pub struct Setting<'a> {
    pub root: &'a Path,
    /// What cargo builds into.
    pub target: &'a Path,
    pub log: File,
}

/// Runs the command; `None` if this program was asked to end meanwhile. Nothing of the group is left behind.
pub async fn run(
    command: &str,
    budget: Duration,
    setting: Setting<'_>,
    interrupts: &mut Interrupts,
) -> io::Result<Option<End>> {
    let mut bash = Command::new("bash");
    bash.args(["-c", command]).current_dir(setting.root).env("CARGO_TARGET_DIR", setting.target);
    for name in OF_MAKE {
        bash.env_remove(name);
    }
    bash.stdin(Stdio::null()).stdout(setting.log.try_clone()?).stderr(setting.log).process_group(0);
    let mut child = bash.spawn()?;
    let group = Group::of(&child)?;
    let end = tokio::select! {
        status = child.wait() => Some(ended(status?)),
        () = sleep(budget) => Some(End::OverBudget(budget)),
        () = interrupts.come() => None,
    };
    if !matches!(end, Some(End::Exited(_) | End::Killed(_))) {
        group.send(Signal::TERM);
        let _ = timeout(GRACE, child.wait()).await;
    }
    group.send(Signal::KILL);
    child.wait().await?;
    Ok(end)
}

fn ended(status: ExitStatus) -> End {
    let killed = || End::Killed(status.signal().unwrap_or_default());
    status.code().map_or_else(killed, End::Exited)
}

/// The group of a command, by the id of the process that leads it.
struct Group(Pid);

impl Group {
    fn of(child: &Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        id.map(Self).ok_or_else(|| io::Error::other("a command has no process"))
    }

    /// A group without processes is what is wanted.
    fn send(&self, signal: Signal) {
        let _ = kill_process_group(self.0, signal);
    }
}
