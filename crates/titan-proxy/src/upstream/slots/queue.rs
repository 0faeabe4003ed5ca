//! Who waits for a connection to an endpoint, by client.

use super::{Bidder, Told};
use crate::network::ClientNetwork;
use crate::shares::Shares;
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::oneshot;

/// Those who wait, by client; those of a client in the order in which they came.
#[derive(Default)]
pub(super) struct Queue {
    clients: BTreeMap<Option<ClientNetwork>, VecDeque<Ticket>>,
    next_id: u64,
    len: usize,
    wanted: usize,
}

/// Somebody who waits.
pub(super) struct Ticket {
    /// Grows: who has the smaller one has waited longer.
    pub(super) id: u64,
    pub(super) client: Option<ClientNetwork>,
    pub(super) tell: oneshot::Sender<Told>,
    worker: usize,
    wants: Wants,
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Nothing that the queue gives: a connection that is being opened, say.
    Nothing,
    /// The right to open a connection.
    Slot,
    /// That, or a connection that becomes free on its worker.
    Connection,
}

/// Where a ticket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    client: Option<ClientNetwork>,
    id: u64,
}

impl Ticket {
    /// Whether it wants what the queue gives.
    pub(super) fn wants(&self) -> bool {
        self.wants != Wants::Nothing
    }

    /// Whether a connection that becomes free on that worker would do.
    pub(super) fn takes_connection_on(&self, worker: usize) -> bool {
        self.wants == Wants::Connection && self.worker == worker
    }
}

impl Queue {
    /// Fits everybody who wants something.
    pub(super) fn anybody(ticket: &Ticket) -> bool {
        ticket.wants()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many of them want what the queue gives.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Puts somebody at the end; tells the ticket.
    pub(super) fn push(
        &mut self,
        bidder: Bidder,
        wants: Wants,
        tell: oneshot::Sender<Told>,
    ) -> u64 {
        let Bidder { client, worker } = bidder;
        let id = self.next_id;
        self.next_id += 1;
        self.len += 1;
        let ticket = Ticket { id, client, tell, worker, wants };
        self.wanted += usize::from(ticket.wants());
        self.clients.entry(client).or_default().push_back(ticket);
        id
    }

    /// Whose turn it is among those who fit: of the clients that may have one more, the one that uses the
    /// fewest connections; of its requests the first.
    pub(super) fn next(&self, used: &Shares, fits: impl Fn(&Ticket) -> bool) -> Option<Found> {
        let firsts = self.clients.iter().filter_map(|(client, waiting)| {
            let ticket = waiting.iter().find(|ticket| fits(ticket))?;
            let counter = used.counter(*client);
            used.admits(counter).then(|| ((used.of(counter), ticket.id), *client))
        });
        firsts.min().map(|((_, id), client)| Found { client, id })
    }

    /// Takes somebody out.
    pub(super) fn remove(&mut self, Found { client, id }: Found) -> Option<Ticket> {
        let waiting = self.clients.get_mut(&client)?;
        let position = waiting.iter().position(|ticket| ticket.id == id)?;
        let ticket = waiting.remove(position)?;
        if waiting.is_empty() {
            self.clients.remove(&client);
        }
        self.len -= 1;
        self.wanted -= usize::from(ticket.wants());
        Some(ticket)
    }

    /// Takes out whoever leaves, if it still stands here.
    pub(super) fn leave(&mut self, bidder: Bidder, id: u64) {
        self.remove(Found { client: bidder.client, id });
    }

    /// Makes room for a client: the last of those who wait for the client that has the most in the queue, where
    /// that is more than the other would have then.
    pub(super) fn displace_for(&mut self, client: Option<ClientNetwork>) -> Option<Ticket> {
        let own = self.clients.get(&client).map_or(0, VecDeque::len);
        let (most, waiting) = self.clients.iter().max_by_key(|(_, waiting)| waiting.len())?;
        let id = waiting.back().filter(|_| waiting.len() > own + 1)?.id;
        self.remove(Found { client: *most, id })
    }
}
