//! The side of the process that serves: starts a successor, gives it what it needs, and goes on if it fails.

use super::channel::{
    Channel, FORM, FromPredecessor, FromSuccessor, ListenerName, MAX_SOCKETS, ServerName,
};
use super::successor::VARIABLE;
use crate::reload::Storage;
use rustix::process::Signal;
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_admin::RevocationStore;
use titan_admin::http::{FileOwner, LentSocket};
use titan_proxy::{InheritedListener, Lending, Loader};
use zeroize::Zeroizing;

/// What a successor is started with.
pub(super) struct Attempt {
    pub(super) program: PathBuf,
    pub(super) loader: Loader,
    pub(super) servers: Vec<(ServerName, LentSocket)>,
    pub(super) exclusive: Exclusive,
    /// How long it may take until it serves.
    pub(super) timeout: Duration,
}

/// What only one process may have open.
#[derive(Clone)]
pub(super) struct Exclusive {
    pub(super) store: Option<Arc<RevocationStore>>,
    /// Acquired again when there is something to write.
    pub(super) storage: Option<Storage>,
}

/// A process that serves in place of this one.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) pid: u32,
    /// The version that it says it has.
    pub(super) version: String,
}

/// Why there is no successor.
#[derive(Debug)]
pub(super) enum Fault {
    /// It says why itself.
    Failed(String),
    /// It has ended, or speaks to this process no longer.
    Gone,
    /// It has not served in time.
    Silent(Duration),
    /// It cannot be spoken to.
    Broken(io::Error),
}

/// Variables of this process alone: its sockets by activation, and whom its service manager watches.
const OWN_VARIABLES: [&str; 4] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID"];

impl Attempt {
    /// Has a successor serve; an error says why it does not, and that this process goes on.
    pub(super) fn make(self, channel: &Channel, theirs: OwnedFd) -> Result<Serving, String> {
        let not_lent = |error| format!("its sockets cannot be duplicated: {error}");
        let lending = self.loader.lend().map_err(not_lent)?;
        let mut child = self.spawn(theirs).map_err(|error| not_executed(&self.program, &error))?;
        match self.converse(channel, &lending) {
            Ok((taken, version)) => {
                lending.hand_over(&taken);
                Ok(Serving { pid: child.id(), version })
            }
            Err(fault) => Err(self.end(&mut child, &fault)),
        }
    }

    fn spawn(&self, theirs: OwnedFd) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(std::env::args_os().skip(1)).env(VARIABLE, "1").stdin(Stdio::from(theirs));
        for name in OWN_VARIABLES {
            command.env_remove(name);
        }
        command.spawn()
    }

    /// Gives a successor everything, and waits until it serves.
    fn converse(
        &self,
        channel: &Channel,
        lending: &Lending<'_>,
    ) -> Result<(Vec<titan_proxy::ListenerName>, String), Fault> {
        let deadline = Instant::now() + self.timeout;
        self.offer(channel, &lending.listeners)?;
        match self.hear(channel, deadline)? {
            FromSuccessor::Ready => {}
            other => return Err(Fault::unexpected(&other)),
        }
        self.exclusive.release();
        channel.send(&FromPredecessor::Released)?;
        let mut taken = Vec::new();
        while taken.len() <= lending.listeners.len() {
            match self.hear(channel, deadline)? {
                FromSuccessor::Took { name: ListenerName { address, before } } => {
                    taken.push(titan_proxy::ListenerName { address, before });
                }
                FromSuccessor::Serving { version } => return Ok((taken, version)),
                other => return Err(Fault::unexpected(&other)),
            }
        }
        Err(Fault::Broken(io::Error::other("it has taken more than there is")))
    }

    fn offer(&self, channel: &Channel, listeners: &[InheritedListener]) -> Result<(), Fault> {
        let version = env!("CARGO_PKG_VERSION");
        channel.send(&FromPredecessor::Begin { form: FORM, version })?;
        for InheritedListener { name, sockets, tickets, file } in listeners {
            let titan_proxy::ListenerName { address, before } = name;
            let tickets = tickets.as_ref().map(|tickets| hex(tickets.bytes()));
            let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
            for sockets in sockets.chunks(MAX_SOCKETS) {
                let name = ListenerName { address: address.clone(), before: *before };
                let tickets = tickets.as_ref().map(|tickets| tickets.as_str());
                let message = FromPredecessor::Listener { name, tickets, file: *file };
                channel.send_with(&message, sockets)?;
            }
        }
        for (name, LentSocket { socket, owner, .. }) in &self.servers {
            let (name, is_of_manager) = (name.clone(), *owner == FileOwner::Manager);
            let socket: &[BorrowedFd<'_>] = &[socket.as_fd()];
            channel.send_with(&FromPredecessor::Server { name, is_of_manager }, socket)?;
        }
        Ok(channel.send(&FromPredecessor::End)?)
    }

    fn hear(&self, channel: &Channel, deadline: Instant) -> Result<FromSuccessor, Fault> {
        match channel.receive(deadline) {
            Ok(Some(packet)) => match packet.read()? {
                FromSuccessor::Failed { why } => Err(Fault::Failed(why)),
                message => Ok(message),
            },
            Ok(None) => Err(Fault::Gone),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(Fault::Silent(self.timeout))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a process that does not become the successor, and has again what it may have opened.
    fn end(&self, child: &mut Child, fault: &Fault) -> String {
        // One that has ended keeps its own exit status.
        let status = child.kill().and_then(|()| child.wait());
        let status = status.ok().filter(|status| status.signal() != Some(KILLED));
        let mut text = fault.text(status.map(|status| status.to_string()));
        if let Err(error) = self.exclusive.take_back() {
            let _ = write!(
                text,
                "\nand this process cannot open again what it had given free: {error}"
            );
        }
        text
    }
}

/// The signal that ends a process without a question.
const KILLED: i32 = Signal::KILL.as_raw();

impl Exclusive {
    fn release(&self) {
        self.store.iter().for_each(|store| store.close());
        self.storage.iter().for_each(Storage::release);
    }

    fn take_back(&self) -> Result<(), String> {
        let store = self.store.as_ref().filter(|store| !store.is_open());
        store.map_or(Ok(()), |store| store.open()).map_err(|error| error.to_string())
    }
}

impl Fault {
    fn unexpected(message: &FromSuccessor) -> Fault {
        Fault::Broken(io::Error::other(format!("it has said {message:?} out of turn")))
    }

    /// What went wrong; `status` is what it ended with if it did so itself.
    fn text(&self, status: Option<String>) -> String {
        let ended = status.map_or_else(String::new, |status| format!(" ({status})"));
        match self {
            Fault::Failed(why) => format!("it could not start:\n{}", why.trim_end()),
            Fault::Gone if ended.is_empty() => "it ended before it served".to_owned(),
            Fault::Gone => format!(
                "it ended before it served{ended}: is it Titan? What it printed is in the gateway's log"
            ),
            Fault::Silent(timeout) => {
                format!("it did not serve within {timeout:?} (`timeouts.upgrade`)")
            }
            Fault::Broken(error) => format!("it cannot be understood: {error}{ended}"),
        }
    }
}

/// Why a program could not be started: the kernel has one number for several reasons.
fn not_executed(program: &Path, error: &io::Error) -> String {
    let mode = fs::metadata(program).map(|meta| (meta.file_type(), meta.permissions().mode()));
    match mode {
        Ok((kind, _)) if kind.is_dir() => "it is a directory, not a program".to_owned(),
        Ok((kind, _)) if !kind.is_file() => "it is not a regular file".to_owned(),
        Ok((_, mode)) if mode & EXECUTABLE == 0 => {
            format!("it is not executable: `chmod +x {}`", program.display())
        }
        _ => format!("it cannot be executed: {error}"),
    }
}

/// The bits of a mode that let somebody execute a file.
const EXECUTABLE: u32 = 0o111;

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Fault::Gone,
            _ => Fault::Broken(error),
        }
    }
}

/// Two digits for each byte.
fn hex(bytes: &[u8]) -> Zeroizing<String> {
    // With room for all: a copy that growing leaves behind would not be wiped.
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
