//! What one process leaves to the next: listening sockets with all that waits in them, and the keys of TLS tickets.

use super::{Loading, lock};
use crate::listener_id::ListenerId;
use crate::serve::Order;
use crate::socket::{BoundSocket, FileIdentity, SocketFile};
use socket2::SockRef;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{MutexGuard, mpsc as std_mpsc};
use titan_io::tls::TicketSecrets;

/// The sockets of a listener, from the process before this one.
#[derive(Debug)]
pub struct InheritedListener {
    /// Which listener it was.
    pub name: ListenerName,
    /// What listens there; at least one.
    pub sockets: Vec<OwnedFd>,
    /// The keys of its tickets, if it had TLS.
    pub tickets: Option<TicketSecrets>,
    /// The file of a Unix socket that the gateway bound itself, which it removes in the end.
    pub file: Option<FileIdentity>,
}

/// What tells two processes that a listener is the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenerName {
    /// Its address, as the configuration writes it.
    pub address: String,
    /// How many listeners of that address stand before it in the file.
    pub before: usize,
}

/// What was inherited, by listener.
#[derive(Default)]
pub(super) struct Inherited {
    listeners: HashMap<ListenerName, InheritedListener>,
    /// Those whose sockets are in use.
    taken: Vec<ListenerName>,
}

/// What a gateway lends to a successor. As long as this exists, no other configuration is put in force.
pub struct Lending<'l> {
    loading: &'l Loading,
    turn: MutexGuard<'l, Turn>,
    /// Duplicates of every listening socket, and the keys.
    pub listeners: Vec<InheritedListener>,
}

/// Whether configurations can still be put in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turn {
    #[default]
    Open,
    /// Another process serves by now.
    HandedOver,
}

impl Inherited {
    pub(super) fn new(listeners: Vec<InheritedListener>) -> Inherited {
        let listeners = listeners.into_iter().map(|it| (it.name.clone(), it)).collect();
        Inherited { listeners, taken: Vec::new() }
    }

    /// The sockets of a listener; `None` if it is new.
    pub(super) fn take_sockets(&mut self, id: &ListenerId) -> io::Result<Option<Vec<BoundSocket>>> {
        let name = ListenerName::of(id);
        let Some(found) = self.listeners.get_mut(&name) else { return Ok(None) };
        let sockets = std::mem::take(&mut found.sockets);
        let sockets = sockets.into_iter().map(BoundSocket::inherited);
        let sockets: Vec<_> = sockets.collect::<io::Result<_>>()?;
        if sockets.is_empty() {
            return Ok(None);
        }
        self.taken.push(name);
        Ok(Some(sockets))
    }

    /// Where the sockets of a listener are bound.
    pub(super) fn address(&self, id: &ListenerId) -> Option<SocketAddr> {
        let found = self.listeners.get(&ListenerName::of(id))?;
        SockRef::from(found.sockets.first()?).local_addr().ok()?.as_socket()
    }

    /// The ways to the processes that have connections of a listener's UDP side.
    pub(super) fn take_ways(&mut self, id: &ListenerId) -> Vec<OwnedFd> {
        let found = self.listeners.get_mut(&ListenerName::of(&id.ways()));
        found.map(|found| std::mem::take(&mut found.sockets)).unwrap_or_default()
    }

    /// The ticket keys of a listener, which its sides have in common.
    pub(super) fn tickets(&self, id: &ListenerId) -> Option<&TicketSecrets> {
        let of = |id| self.listeners.get(&ListenerName::of(id))?.tickets.as_ref();
        id.sides().iter().find_map(of)
    }

    /// The file of a listener at a Unix socket.
    pub(super) fn file(&self, id: &ListenerId) -> Option<FileIdentity> {
        self.listeners.get(&ListenerName::of(id))?.file
    }

    /// Whose sockets are in use. The others are closed.
    pub(super) fn into_taken(self) -> Vec<ListenerName> {
        self.taken
    }
}

impl ListenerName {
    fn of(id: &ListenerId) -> ListenerName {
        let (address, before) = id.name();
        ListenerName { address, before }
    }
}

impl Lending<'_> {
    /// Leaves the sockets of these listeners to the successor that serves by now: nothing more is accepted there, and what waits
    /// is the successor's. The others stay open until the gateway drains. No configuration is put in force any more.
    pub fn hand_over(mut self, taken: &[ListenerName]) {
        *self.turn = Turn::HandedOver;
        let is_taken = |id: &ListenerId| taken.contains(&ListenerName::of(id));
        let left = self.loading.in_force().listening.leave(is_taken);
        let (done, all_done) = std_mpsc::sync_channel(0);
        for worker in &self.loading.orders {
            // A worker that drains has closed them.
            let _ = worker.try_send(Order::Leave(left.clone(), done.clone()));
        }
        drop(done);
        let _ = all_done.recv();
    }
}

impl Loading {
    /// Lends all sockets, once what runs of a reload is over.
    pub(super) fn lend(&self) -> io::Result<Lending<'_>> {
        let turn = lock(&self.turn);
        let count = self.in_force().listening.sockets();
        let (borrower, lent) = std_mpsc::sync_channel(count);
        for worker in &self.orders {
            let _ = worker.try_send(Order::Lend(borrower.clone()));
        }
        drop(borrower);
        let mut sockets: HashMap<ListenerId, Vec<OwnedFd>> = HashMap::new();
        let lent: Vec<_> = lent.into_iter().collect();
        if lent.len() < count {
            return Err(io::Error::other("not every worker has given its sockets"));
        }
        for (id, socket) in lent {
            let (sockets, socket) = (sockets.entry(id).or_default(), socket?);
            // Workers that share one queue have the same socket.
            if sockets.is_empty() || BoundSocket::has_own_queue(&socket) {
                sockets.push(socket);
            }
        }
        let in_force = self.in_force();
        let listeners = in_force.listening.files().filter_map(|(id, state, file)| {
            let file = file.map(SocketFile::identity);
            let tickets = state.listener_policy.tls().map(|tls| tls.ticket_secrets());
            let sockets = sockets.remove(id)?;
            Some(InheritedListener { name: ListenerName::of(id), sockets, tickets, file })
        });
        let mut listeners: Vec<_> = listeners.collect();
        for (id, state, _) in in_force.listening.files().filter(|(id, ..)| id.is_udp()) {
            let (name, sockets) = (ListenerName::of(&id.ways()), state.udp.lend_ways()?);
            listeners.push(InheritedListener { name, sockets, tickets: None, file: None });
        }
        drop(in_force);
        Ok(Lending { loading: self, turn, listeners })
    }
}
