//! Another process takes over while this one serves: another version of the program, or the same once more.
//!
//! The new process gets the listening sockets, with all that waits in them, and the keys of TLS tickets. What cannot be handed over,
//! which is every open connection, is drained here. Until the new process serves, this one does; if the new one never does, this one
//! goes on. A thread of its own does it, so that signals do not wait with it.

mod attempt;
mod channel;
mod successor;

pub(crate) use successor::{Inherited, Predecessor};

use crate::config_file;
use crate::reload::{Reloading, Storage};
use attempt::{Attempt, Exclusive, Serving};
use channel::{Channel, Ender, ServerName};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::future::pending;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};
use titan_admin::RevocationStore;
use titan_admin::history::rfc3339;
use titan_admin::http::LentSocket;
use titan_admin::orders::{NotUpgraded, UpgradeOrder, Upgraded};
use titan_config::{Config, LogArea, LogLevel};
use titan_observe::events::{Event, Field, Log};
use titan_proxy::{BreakerNow, BreakerState, Fact, Loader, MemberStatus, Reason, UpstreamStatus};
use tokio::sync::oneshot;

/// Starts successors, one at a time.
pub(crate) struct Upgrading {
    /// What is started where nobody names another program.
    program: Option<PathBuf>,
    /// Whether a successor can read the configuration.
    is_repeatable: bool,
    loader: Loader,
    exclusive: Exclusive,
    /// How long a successor has until it serves, unless a configuration that came into force since says otherwise.
    timeout: Duration,
    running: Option<Running>,
}

/// A process that serves in place of this one.
pub(crate) struct Successor {
    program: PathBuf,
    serving: Serving,
    asker: Asker,
}

/// A successor that is about to start.
struct Running {
    program: PathBuf,
    asker: Asker,
    ender: Ender,
    outcome: oneshot::Receiver<Result<Serving, String>>,
}

/// Who waits to hear what comes of an upgrade; nobody where a signal has asked for it.
struct Asker(Option<oneshot::Sender<Result<Upgraded, NotUpgraded>>>);

impl Upgrading {
    /// For a process that was started with that file, or none. `store` is closed for a successor, which opens it.
    pub(crate) fn new(
        file: Option<&Path>,
        config: &Config,
        loader: Loader,
        store: Option<Arc<RevocationStore>>,
    ) -> Upgrading {
        let is_repeatable = !file.is_some_and(config_file::is_standard_input);
        let (exclusive, timeout) = (Exclusive { store, storage: None }, config.timeouts.upgrade);
        let program = own_program();
        Upgrading { program, is_repeatable, loader, exclusive, timeout, running: None }
    }

    /// The same where what was in force is kept on the disk, which only one process may do.
    pub(crate) fn keeping(mut self, storage: Option<Storage>) -> Upgrading {
        self.exclusive.storage = storage;
        self
    }

    /// Starts a successor with the sockets of these servers, or tells why not. Without an order a signal has asked for it.
    pub(crate) fn begin(
        &mut self,
        reloading: Option<&Reloading>,
        servers: io::Result<Vec<(&str, LentSocket)>>,
        order: Option<UpgradeOrder>,
    ) {
        let (named, done) = order.map(|order| (order.program, order.done)).unzip();
        let asker = Asker(done);
        let program = match self.program(named.flatten(), reloading) {
            Ok(program) => program,
            Err(why) => {
                let what = format!("no upgrade: {why}");
                self.loader.log().tell(event(LogLevel::Error, "upgrade_refused", what));
                return asker.tell(Err(NotUpgraded::Conflict(why)));
            }
        };
        let what = format!("starting {}", program.display());
        self.loader.log().tell(event(LogLevel::Info, "upgrade_began", what));
        let timeout = reloading.map_or(self.timeout, |it| it.config().timeouts.upgrade);
        match self.try_begin(program.clone(), servers, timeout) {
            Ok((ender, outcome)) => {
                self.running = Some(Running { program, asker, ender, outcome });
            }
            Err(error) => asker.tell_failure(self.loader.log(), &program, &error.to_string()),
        }
    }

    /// What is to be started, or why nothing can be now.
    fn program(
        &self,
        named: Option<PathBuf>,
        reloading: Option<&Reloading>,
    ) -> Result<PathBuf, String> {
        if self.running.is_some() {
            return Err("another upgrade is under way".to_owned());
        }
        if !self.is_repeatable {
            return Err(
                "the configuration came from standard input, and cannot be read again: start from a file".to_owned(),
            );
        }
        match reloading.and_then(Reloading::before_upgrade) {
            Some(why) => Err(why),
            None => named
                .or_else(|| self.program.clone())
                .ok_or_else(|| "the path of the program is not known: name it".to_owned()),
        }
    }

    fn try_begin(
        &self,
        program: PathBuf,
        servers: io::Result<Vec<(&str, LentSocket)>>,
        timeout: Duration,
    ) -> io::Result<(Ender, oneshot::Receiver<Result<Serving, String>>)> {
        let named = |(role, lent): (&str, LentSocket)| {
            let name = ServerName { role: role.to_owned(), address: lent.name.to_string() };
            (name, lent)
        };
        let (channel, theirs) = Channel::pair()?;
        let (ender, (done, outcome)) = (channel.ender()?, oneshot::channel());
        let attempt = Attempt {
            program,
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
        Ok((ender, outcome))
    }

    /// Whether a successor is about to start.
    pub(crate) fn is_under_way(&self) -> bool {
        self.running.is_some()
    }

    /// Waits until a successor serves, or does not, for ever where none is started. Tells of the latter.
    pub(crate) async fn done(&mut self) -> Option<Successor> {
        let Some(Running { outcome, .. }) = &mut self.running else { return pending().await };
        let outcome = outcome.await;
        let Running { program, asker, .. } = self.running.take()?;
        match outcome.unwrap_or_else(|_| Err("the upgrade thread panicked".to_owned())) {
            Ok(serving) => Some(Successor { program, serving, asker }),
            Err(why) => {
                asker.tell_failure(self.loader.log(), &program, &why);
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

impl Successor {
    pub(crate) fn pid(&self) -> u32 {
        self.serving.pid
    }

    /// Tells the log, and whoever has asked for it, that it serves. To be called when it gets all new connections.
    pub(crate) fn announce(&mut self, log: &Log) {
        let Successor { program, serving: Serving { pid, version }, asker } = self;
        let what = format!("another process (titan {version}) serves now");
        log.tell(event(LogLevel::Info, "upgraded", what).with(Field::Process, *pid));
        let upgraded = Upgraded { program: program.clone(), pid: *pid, version: version.clone() };
        Asker(asker.0.take()).tell(Ok(upgraded));
    }

    /// Has it read its configuration again: this process was told to, and could not.
    pub(crate) fn hang_up(&self) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        // One that has ended has nothing to read.
        let _ = pid.map(|pid| kill_process(pid, Signal::HUP));
    }
}

impl Asker {
    /// Where nobody waits any more the log has told it.
    fn tell(self, outcome: Result<Upgraded, NotUpgraded>) {
        let _ = self.0.map(|done| done.send(outcome));
    }

    /// Tells the log as well why a program does not take over.
    fn tell_failure(self, log: &Log, program: &Path, why: &str) {
        let text = format!("cannot upgrade to {}: {why}", program.display());
        let why: Vec<_> = why.split_whitespace().collect();
        // The end may be cut off: what the other process says can be long.
        let what = format!(
            "this process goes on: cannot upgrade to {}: {}",
            program.display(),
            why.join(" ")
        );
        log.tell(event(LogLevel::Error, "upgrade_failed", what));
        self.tell(Err(NotUpgraded::Failed(text)));
    }
}

/// The path that this process was started from. What is there when a successor starts may be another version.
fn own_program() -> Option<PathBuf> {
    let given = std::env::args_os().next().map(PathBuf::from);
    let given = given.filter(|path| path.as_os_str().as_bytes().contains(&b'/'));
    given.or_else(|| std::env::current_exe().ok().map(without_mark))
}

/// Tells what operators have ordered of endpoints and breakers: a successor does not know.
pub(crate) fn tell_ending_orders(log: &Log, upstreams: &[UpstreamStatus]) {
    for order in upstreams.iter().flat_map(orders_of) {
        let what = format!("{order}, which the new process does not know: order it again");
        log.tell(event(LogLevel::Warn, "order_ends", what));
    }
}

fn event(level: LogLevel, kind: &'static str, what: impl std::fmt::Display) -> Event {
    Event::new((LogArea::Upgrade, level), kind, what)
}

fn orders_of(upstream: &UpstreamStatus) -> Vec<String> {
    let UpstreamStatus { name, breaker, endpoints, .. } = upstream;
    let until = |until: Option<SystemTime>| {
        until.map_or_else(String::new, |until| format!(" until {}", rfc3339(until)))
    };
    let held = |breaker: &Option<BreakerNow>| {
        let BreakerNow { status, ends_in, .. } =
            breaker.as_ref().filter(|it| it.status.is_forced)?;
        let state = if status.state == BreakerState::Open { "open" } else { "closed" };
        let until = until(ends_in.map(|time| SystemTime::now() + time));
        Some(format!("is held {state} by an operator{until}"))
    };
    let mut orders = Vec::new();
    if let Some(is) = held(breaker) {
        orders.push(format!("the breaker of upstream `{name}` {is}"));
    }
    for MemberStatus { endpoint, breaker, .. } in endpoints {
        let of_endpoint = format!("upstream `{name}`: {}", endpoint.address);
        if let Some(is) = held(breaker) {
            orders.push(format!("{of_endpoint}: its breaker {is}"));
        }
        for Reason { fact, until: ends, .. } in &endpoint.story.reasons {
            let is = match fact {
                Fact::EjectedByHand => "ejected",
                // One that the file has drained does so with the new process too.
                Fact::Draining if ends.is_some() => "drained",
                _ => continue,
            };
            orders.push(format!("{of_endpoint} is {is} by an operator{}", until(*ends)));
        }
    }
    orders
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
