//! The side of the process that takes over: what it was given, and what it says of its start.

use super::channel::{
    Channel, FORM, FromPredecessor, FromSuccessor, ListenerName, MAX_MESSAGES, Packet, ServerName,
};
use crate::failure::Failure;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use titan_admin::http::{FileOwner, Socket};
use titan_config::ListenAddress;
use titan_proxy::{InheritedListener, TicketSecrets};
use zeroize::Zeroizing;

/// The process that has started this one, and that serves until this one does.
pub(crate) struct Predecessor(Channel);

/// What a process before this one has left: nothing at the first start.
#[derive(Default)]
pub(crate) struct Inherited {
    listeners: Vec<InheritedListener>,
    servers: HashMap<ServerName, (OwnedFd, FileOwner)>,
}

/// Tells a process that its standard input leads to its predecessor.
pub(super) const VARIABLE: &str = "TITAN_UPGRADE";
/// How long the predecessor may take to give what it has.
const PATIENCE: Duration = Duration::from_secs(30);

impl Predecessor {
    /// The process that this one is to succeed, and what that gives; none where this one was started by something else.
    pub(crate) fn find() -> Result<Option<(Predecessor, Inherited)>, Failure> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let found = take_standard_input().and_then(Channel::new);
        let predecessor = Predecessor(found.map_err(failed)?);
        match predecessor.take_all() {
            Ok(inherited) => Ok(Some((predecessor, inherited))),
            Err(failure) => {
                predecessor.tell_failure(&failure);
                Err(failure)
            }
        }
    }

    /// Says that everything is ready, and waits until what only one process may have is free.
    pub(crate) fn release(&self) -> Result<(), Failure> {
        self.0.send(&FromSuccessor::Ready).map_err(failed)?;
        match self.next()?.read().map_err(failed)? {
            FromPredecessor::Released => Ok(()),
            _ => Err(failed(io::Error::other("it has given nothing free"))),
        }
    }

    /// Says that this process serves, with the sockets of those listeners.
    pub(crate) fn tell_serving(self, taken: &[titan_proxy::ListenerName]) -> Result<(), Failure> {
        for titan_proxy::ListenerName { address, before } in taken {
            let name = ListenerName { address: address.clone(), before: *before };
            self.0.send(&FromSuccessor::Took { name }).map_err(failed)?;
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.0.send(&FromSuccessor::Serving { version }).map_err(failed)
    }

    /// Says why this process does not serve; whether that could be said.
    pub(crate) fn tell_failure(&self, failure: &Failure) -> bool {
        self.0.send(&FromSuccessor::failed(&failure.text(false))).is_ok()
    }

    fn take_all(&self) -> Result<Inherited, Failure> {
        match self.next()?.read().map_err(failed)? {
            FromPredecessor::Begin { form: FORM, .. } => {}
            FromPredecessor::Begin { form, version } => {
                return Err(Failure::Runtime(format!(
                    "the process that serves (titan {version}) hands over in form {form}, and this one (titan {}) \
                     takes over in form {FORM}: restart the service instead",
                    env!("CARGO_PKG_VERSION")
                )));
            }
            _ => return Err(failed(io::Error::other("it has begun with something else"))),
        }
        let mut inherited = Inherited::default();
        for _ in 0..MAX_MESSAGES {
            let mut packet = self.next()?;
            let sockets = std::mem::take(&mut packet.sockets);
            match packet.read().map_err(failed)? {
                FromPredecessor::Listener { name, tickets, file } => {
                    inherited.add_listener(name, sockets, (tickets, file));
                }
                FromPredecessor::Server { name, is_of_manager } => {
                    let owner = if is_of_manager { FileOwner::Manager } else { FileOwner::Titan };
                    let sockets = sockets.into_iter();
                    inherited.servers.extend(sockets.map(|socket| (name.clone(), (socket, owner))));
                }
                FromPredecessor::End => return Ok(inherited),
                FromPredecessor::Begin { .. } | FromPredecessor::Released => break,
            }
        }
        Err(failed(io::Error::other("it has not come to an end")))
    }

    fn next(&self) -> Result<Packet, Failure> {
        let next = self.0.receive(Instant::now() + PATIENCE).map_err(failed)?;
        next.ok_or_else(|| failed(io::Error::other("it has gone")))
    }
}

impl Inherited {
    fn add_listener(
        &mut self,
        ListenerName { address, before }: ListenerName,
        sockets: Vec<OwnedFd>,
        (tickets, file): (Option<&str>, Option<(u64, u64)>),
    ) {
        let name = titan_proxy::ListenerName { address, before };
        if let Some(known) = self.listeners.iter_mut().find(|it| it.name == name) {
            return known.sockets.extend(sockets);
        }
        let tickets = tickets.and_then(from_hex).map(TicketSecrets::new);
        self.listeners.push(InheritedListener { name, sockets, tickets, file });
    }

    /// A socket for the listener of that address.
    pub(crate) fn add_socket(&mut self, address: &ListenAddress, socket: OwnedFd) {
        let name = ListenerName { address: address.to_string(), before: 0 };
        // Its file, if it has one, is the service manager's.
        self.add_listener(name, vec![socket], (None, None));
    }

    /// A socket of the service manager for the server of that role and address.
    pub(crate) fn add_server(&mut self, role: &str, address: &ListenAddress, socket: OwnedFd) {
        let name = ServerName { role: role.to_owned(), address: address.to_string() };
        self.servers.insert(name, (socket, FileOwner::Manager));
    }

    /// The listeners.
    pub(crate) fn take_listeners(&mut self) -> Vec<InheritedListener> {
        std::mem::take(&mut self.listeners)
    }

    /// The socket of a server: the inherited one, or what `bind` makes.
    pub(crate) fn socket(
        &mut self,
        role: &str,
        address: &ListenAddress,
        bind: impl FnOnce(&ListenAddress) -> io::Result<Socket>,
    ) -> io::Result<Socket> {
        let name = ServerName { role: role.to_owned(), address: address.to_string() };
        match self.servers.remove(&name) {
            Some((socket, owner)) => Socket::inherited(socket, address, owner),
            None => bind(address),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
fn failed(error: io::Error) -> Failure {
    let text = format!("cannot take over from the process that serves: {error}");
    Failure::Runtime(match error.kind() {
        io::ErrorKind::TimedOut => format!("{text}: it was silent for too long"),
        _ => text,
    })
}

/// What standard input leads to, which is then /dev/null.
fn take_standard_input() -> io::Result<OwnedFd> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

/// The bytes that pairs of hexadecimal digits stand for.
fn from_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    if text.len() > 2 * TicketSecrets::MAX {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(TicketSecrets::MAX));
    for pair in text.as_bytes().chunks(2) {
        let digits = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    Some(bytes)
}
