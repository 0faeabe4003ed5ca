//! Another process takes over while this one serves: another version of the program, or the same once more.
//!
//! The new process gets the listening sockets, with all that waits in them, and the keys of TLS tickets. What cannot be handed over,
//! which is every open connection, is drained here. Until the new process serves, this one does; if the new one never does, this one
//! goes on. A thread of its own does it, so that signals do not wait with it.

mod attempt;
mod channel;
mod successor;

pub(crate) use attempt::Successor;
pub(crate) use successor::{Inherited, Predecessor};

use crate::config_file;
use crate::terminal;
use attempt::{Attempt, Exclusive};
use channel::{Channel, Ender, ServerName};
use std::ffi::OsStr;
use std::future::pending;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use titan_admin::RevocationStore;
use titan_admin::history::Directory;
use titan_admin::http::LentSocket;
use titan_config::Config;
use titan_proxy::Loader;
use tokio::sync::oneshot;

/// Starts successors, one at a time.
pub(crate) struct Upgrading {
    /// What is started, or why nothing can be.
    program: Result<PathBuf, &'static str>,
    loader: Loader,
    exclusive: Exclusive,
    /// How long a successor has until it serves, unless a configuration that came into force since says otherwise.
    timeout: Duration,
    running: Option<Running>,
}

/// A successor that is about to start.
struct Running {
    program: PathBuf,
    ender: Ender,
    outcome: oneshot::Receiver<Result<Successor, String>>,
}

impl Upgrading {
    /// For a process that was started with that file, or none. `store` is closed for a successor, which opens it.
    pub(crate) fn new(
        file: Option<&Path>,
        config: &Config,
        loader: Loader,
        store: Option<Arc<RevocationStore>>,
    ) -> Upgrading {
        let program = match file.is_some_and(config_file::is_standard_input) {
            true => Err(
                "the configuration came from standard input, and cannot be read again: start from a file",
            ),
            false => own_program().ok_or("the path of the program is not known"),
        };
        let (exclusive, timeout) = (Exclusive { store, directory: None }, config.timeouts.upgrade);
        Upgrading { program, loader, exclusive, timeout, running: None }
    }

    /// The same where what was in force is kept on the disk, which only one process may do.
    pub(crate) fn keeping(mut self, directory: Option<Arc<Mutex<Directory>>>) -> Upgrading {
        self.exclusive.directory = directory;
        self
    }

    /// Starts a successor with the sockets of these servers. `config` is in force, unless it is what the process was started with.
    pub(crate) fn begin(
        &mut self,
        config: Option<&Config>,
        servers: io::Result<Vec<(&str, LentSocket)>>,
    ) {
        if self.running.is_some() {
            return terminal::event("an upgrade is under way already");
        }
        let timeout = config.map_or(self.timeout, |config| config.timeouts.upgrade);
        let program = match &self.program {
            Ok(program) => program.clone(),
            Err(why) => return terminal::event(&format!("no upgrade: {why}")),
        };
        terminal::say(&format!("upgrade: starting {}\n", program.display()));
        match self.try_begin(program.clone(), servers, timeout) {
            Ok(running) => self.running = Some(running),
            Err(error) => complain(&program, &error.to_string()),
        }
    }

    fn try_begin(
        &self,
        program: PathBuf,
        servers: io::Result<Vec<(&str, LentSocket)>>,
        timeout: Duration,
    ) -> io::Result<Running> {
        let named = |(role, LentSocket { name, socket }): (&str, _)| {
            let name = ServerName { role: role.to_owned(), address: name.to_string() };
            (name, socket)
        };
        let (channel, theirs) = Channel::pair()?;
        let (ender, (done, outcome)) = (channel.ender()?, oneshot::channel());
        let attempt = Attempt {
            program: program.clone(),
            loader: self.loader.clone(),
            servers: servers?.into_iter().map(named).collect(),
            exclusive: self.exclusive.clone(),
            timeout,
        };
        let attempt = move || {
            // Where nobody waits any more the program is about to end.
            let _ = done.send(attempt.make(&channel, theirs));
        };
        thread::Builder::new().name("upgrade".to_owned()).spawn(attempt)?;
        Ok(Running { program, ender, outcome })
    }

    /// Whether a successor is about to start.
    pub(crate) fn is_under_way(&self) -> bool {
        self.running.is_some()
    }

    /// Waits until a successor serves, or does not, for ever where none is started. Tells of the latter.
    pub(crate) async fn done(&mut self) -> Option<Successor> {
        let Some(Running { outcome, .. }) = &mut self.running else { return pending().await };
        let outcome = outcome.await;
        let Running { program, .. } = self.running.take()?;
        match outcome.unwrap_or_else(|_| Err("the upgrade thread panicked".to_owned())) {
            Ok(successor) => Some(successor),
            Err(why) => {
                complain(&program, &why);
                None
            }
        }
    }

    /// Ends a successor that does not serve yet; one that does is not ended any more.
    pub(crate) async fn cancel(&mut self) -> Option<Successor> {
        self.running.as_ref()?.ender.end();
        self.done().await
    }
}

fn complain(program: &Path, why: &str) {
    let program = program.display();
    terminal::complain(&format!(
        "error: cannot upgrade to {program}: {why}\nthis process goes on\n"
    ));
}

/// The path that this process was started from. What is there when a successor starts may be another version.
fn own_program() -> Option<PathBuf> {
    let given = std::env::args_os().next().map(PathBuf::from);
    let given = given.filter(|path| path.as_os_str().as_bytes().contains(&b'/'));
    given.or_else(|| std::env::current_exe().ok().map(without_mark))
}

/// The path of a program that was replaced, without the mark that the kernel appends.
fn without_mark(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(DELETED) {
        Some(before) if !path.exists() => PathBuf::from(OsStr::from_bytes(before)),
        _ => path,
    }
}

/// What the kernel writes behind the path of a program whose file was replaced.
const DELETED: &[u8] = b" (deleted)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_has_the_path_that_it_had() {
        let path = |text: &str| without_mark(PathBuf::from(text));
        assert_eq!(path("/usr/bin/titan (deleted)"), Path::new("/usr/bin/titan"));
        assert_eq!(path("/usr/bin/titan"), Path::new("/usr/bin/titan"));
    }
}
