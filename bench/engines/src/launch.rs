//! Starts a program, waits until it answers, and ends it whatever happens.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::process;
use crate::programs::bench_directory;

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A program that runs until this value is dropped.
pub struct Running {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its own log, for when it fails.
    log: PathBuf,
}

impl Running {
    /// Starts a command, on a core if there is one given, and waits until it `answers`.
    pub fn start(
        mut command: Command,
        core: Option<usize>,
        address: SocketAddr,
        log: PathBuf,
        answers: impl Fn(SocketAddr) -> bool,
    ) -> io::Result<Self> {
        let out = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = match core {
            Some(core) => spawn_on(core, &mut command)?,
            None => spawn(&mut command)?,
        };
        let mut running = Self { child, address, log };
        running.wait_until_it(answers)?;
        Ok(running)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub fn log(&self) -> io::Result<String> {
        fs::read_to_string(&self.log)
    }

    /// A file in its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.log.with_file_name(name)
    }

    /// The program and its children.
    pub fn processes(&self) -> io::Result<Vec<u32>> {
        process::tree(self.child.id())
    }

    /// Listening is not enough: nginx listens before it has its worker, which would go unmeasured.
    fn wait_until_it(&mut self, answers: impl Fn(SocketAddr) -> bool) -> io::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while !answers(self.address) {
            if self.child.try_wait()?.is_some() || Instant::now() > deadline {
                let log = self.log()?;
                return Err(io::Error::other(format!(
                    "{} does not start:\n{log}",
                    self.log.display()
                )));
            }
            pause();
        }
        Ok(())
    }

    /// Asks it to end and waits for that; a deaf program is killed.
    pub fn stop(&mut self) {
        send(&self.child, Signal::TERM);
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                send(&self.child, Signal::KILL);
            }
            pause();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sends a signal to a child that was not waited for yet; one that has ended is beyond caring.
pub fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// An empty folder for one program of this run.
pub fn run_directory(name: &str) -> io::Result<PathBuf> {
    let directory = scratch().join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// Removes what [`run_directory`] made.
pub fn clean_up() {
    let _ = fs::remove_dir_all(scratch());
}

/// The folder of this run, which goes when it ends.
pub fn scratch() -> PathBuf {
    bench_directory().join(Path::new(".run")).join(std::process::id().to_string())
}

/// Starts a command pinned to a core: a child inherits the affinity of the thread that starts it.
pub fn spawn_on(core: usize, command: &mut Command) -> io::Result<Child> {
    let own = sched_getaffinity(None)?;
    let mut pinned = CpuSet::new();
    pinned.set(core);
    sched_setaffinity(None, &pinned)?;
    let child = spawn(command);
    sched_setaffinity(None, &own)?;
    child
}

/// Starts a command; the error names it.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    command.spawn().map_err(|error| {
        io::Error::other(format!("{}: {error}", command.get_program().to_string_lossy()))
    })
}

/// A loopback port that was free a moment ago.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// A moment between two looks at another process.
#[expect(
    clippy::disallowed_methods,
    reason = "a foreign program gives no event when it is ready or has ended"
)]
pub fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}
