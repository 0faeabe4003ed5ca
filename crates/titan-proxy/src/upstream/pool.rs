//! The idle connections of one worker, and how a request comes by a connection.

use super::Endpoint;
use super::connect::connect;
use super::h2::{Trunk, Trunks};
use super::slots::Place;
use crate::clock::{Clock, Moment};
use crate::error::{Error, Kind};
use crate::stream::Stream;
use crate::tls::H2;
use crate::worker::Worker;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use titan_config::Protocol;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

/// The idle connections of one worker, by endpoint.
#[derive(Default)]
pub(crate) struct Pools {
    idle: RefCell<BTreeMap<u64, Vec<Idle>>>,
    /// Who waits on this worker, by endpoint, the first in front: what becomes free goes to them.
    waiting: RefCell<BTreeMap<u64, VecDeque<oneshot::Sender<Connection>>>>,
    /// The connections that exchanges share.
    pub(crate) trunks: Trunks,
    /// Tells the pools of all workers that a request waits where one of them has idle connections.
    idle_wanted: Arc<Notify>,
}

/// What a request goes over.
pub(crate) enum Way {
    /// A connection of its own.
    Own(Connection),
    /// One that others use at the same time.
    Shared {
        /// The connection.
        trunk: Rc<Trunk>,
        /// Whether the request had to wait for it.
        was_waited_for: bool,
    },
}

/// An open connection to an endpoint. It counts against the endpoint's limit until it is dropped.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) endpoint: Arc<Endpoint>,
    /// Whether it has served an exchange before.
    pub(crate) is_reused: bool,
    /// Whether the request had to wait for it.
    pub(crate) was_waited_for: bool,
    /// Whether it holds one of the endpoint's places for idle connections.
    is_idle: bool,
    /// How often in a row it has gone from one request to one that waited on the same worker.
    handed_over: u8,
}

/// How often in a row a connection goes to those who wait on its worker while others wait elsewhere:
/// then it is closed, and its slot goes to whoever has waited longest.
const MOST_IN_A_ROW: u8 = 8;

/// A connection that waits for its next exchange.
struct Idle {
    connection: Connection,
    until: Moment,
}

/// What a request wants of its connection.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    /// The request must not be sent twice: ask the kernel before a connection is used again.
    pub(crate) surely_alive: bool,
    /// The last one turned out to be dead: open a new one.
    pub(crate) new: bool,
    /// It has to speak HTTP/1.1, whatever the endpoint would like better.
    pub(crate) h1_only: bool,
    /// How long connecting may take.
    pub(crate) connect: Duration,
}

impl Pools {
    /// The pools of a worker; those of all workers of a gateway have `idle_wanted` in common.
    pub(crate) fn new(idle_wanted: Arc<Notify>) -> Pools {
        Pools { idle_wanted, ..Pools::default() }
    }

    /// Waits until idle connections are wanted, here or on another worker: time for a sweep.
    pub(crate) fn idle_wanted(&self) -> Notified<'_> {
        self.idle_wanted.notified()
    }

    /// A way to `endpoint`, in the protocol that it speaks.
    pub(crate) async fn get(
        &self,
        worker: &Rc<Worker>,
        endpoint: &Arc<Endpoint>,
        wish: Wish,
    ) -> Result<Way, Error> {
        let (mut waits_until, mut opens_until) = (None, None);
        loop {
            if endpoint.speaks_h1() || wish.h1_only {
                return self.get_own(worker, endpoint, wish).await;
            }
            if let Some(trunk) = self.trunks.get(endpoint.id) {
                let was_waited_for = waits_until.or(opens_until).is_some();
                return Ok(Way::Shared { trunk, was_waited_for });
            }
            if !self.trunks.is_opening(endpoint.id) && endpoint.slots.try_take() {
                let _opening = self.trunks.opening(endpoint.id);
                return open_either(worker, endpoint, wish).await;
            }
            let place = endpoint.slots.queue();
            let is_slot_free = match place {
                // However many try one after the other and fail.
                Ok(_place) if self.trunks.is_opening(endpoint.id) => {
                    let until = *opens_until.get_or_insert_with(|| Instant::now() + wish.connect);
                    let opened = timeout_at(until, self.trunks.wait(endpoint.id)).await;
                    opened.map(|_| false).map_err(|_| Kind::ConnectTimeout)?
                }
                Ok(place) => {
                    let patience = endpoint.queue_timeout;
                    let until = *waits_until.get_or_insert_with(|| Instant::now() + patience);
                    self.wait_for_stream(endpoint, place, until).await?
                }
                // One is being opened, and whoever has no place to wait for it may open another.
                Err(_) if endpoint.slots.try_take() => true,
                Err(full) => return Err(full.into()),
            };
            if is_slot_free {
                let mut way = open_either(worker, endpoint, wish).await?;
                way.note_wait();
                return Ok(way);
            }
        }
    }

    /// Waits until a connection may have room; true when there is a slot for a new one instead.
    async fn wait_for_stream(
        &self,
        endpoint: &Endpoint,
        place: Place<'_>,
        until: Instant,
    ) -> Result<bool, Error> {
        let offered = self.trunks.wait(endpoint.id);
        self.idle_wanted.notify_waiters();
        // Whoever comes first may take what was offered: that is no new beginning for this one.
        let patience = until.saturating_duration_since(Instant::now());
        let offer = place.wait(patience, offered).await?;
        Ok(offer.is_none())
    }

    /// A connection to `endpoint`: an idle one, a new one, or one that is waited for. A new one may turn out to
    /// be one to share.
    async fn get_own(
        &self,
        worker: &Rc<Worker>,
        endpoint: &Arc<Endpoint>,
        wish: Wish,
    ) -> Result<Way, Error> {
        let kept = if wish.new { None } else { self.take(endpoint, wish.surely_alive) };
        if let Some(connection) = kept {
            return Ok(Way::Own(connection));
        }
        if endpoint.slots.try_take() {
            return open_either(worker, endpoint, wish).await;
        }
        let mut way = self.wait(worker, endpoint, wish).await?;
        way.note_wait();
        Ok(way)
    }

    /// Waits for a connection that an exchange of this worker leaves, or for a slot.
    async fn wait(
        &self,
        worker: &Rc<Worker>,
        endpoint: &Arc<Endpoint>,
        wish: Wish,
    ) -> Result<Way, Error> {
        let place = endpoint.slots.queue()?;
        if endpoint.idle.load(Ordering::Acquire) > 0 {
            self.idle_wanted.notify_waiters();
        }
        let (offer, offered) = oneshot::channel();
        self.waiting.borrow_mut().entry(endpoint.id).or_default().push_back(offer);
        match place.wait(endpoint.queue_timeout, offered).await? {
            Some(connection) => Ok(Way::Own(connection)),
            None => open_either(worker, endpoint, wish).await,
        }
    }

    /// Keeps a connection for the next exchange: for one that waits, if there is one on this worker. If
    /// there is one on another, or enough are kept, it is closed.
    pub(crate) fn keep(&self, mut connection: Connection, clock: &Clock) {
        connection.is_reused = true;
        if connection.endpoint.slots.waiting() > 0 {
            return self.hand_over(connection);
        }
        connection.handed_over = 0;
        let Endpoint { id, idle_timeout, .. } = *connection.endpoint;
        if connection.endpoint.is_gone() || !connection.endpoint.take_idle_place() {
            return;
        }
        connection.is_idle = true;
        let until = clock.deadline(idle_timeout);
        let mut all = self.idle.borrow_mut();
        let idle = all.entry(id).or_default();
        idle.push(Idle { connection, until });
    }

    fn hand_over(&self, mut connection: Connection) {
        let mut waiting = self.waiting.borrow_mut();
        let Some(queue) = waiting.get_mut(&connection.endpoint.id) else { return };
        let is_wanted_elsewhere = connection.endpoint.slots.waiting() as usize > queue.len();
        let had_enough = is_wanted_elsewhere && connection.handed_over == MOST_IN_A_ROW;
        if had_enough || !connection.stream.is_quiet(true) {
            return;
        }
        connection.handed_over = connection.handed_over.saturating_add(1);
        while let Some(next) = queue.pop_front() {
            match next.send(connection) {
                Ok(()) => return,
                // It has been given something else, or has given up.
                Err(back) => connection = back,
            }
        }
    }

    /// Closes what has been idle for too long, was closed by its peer, belongs to nobody any more, or
    /// holds a slot that another worker waits for.
    pub(crate) fn sweep(&self, clock: &Clock) {
        self.idle.borrow_mut().retain(|_, idle| {
            let wanted = idle.first().map_or(0, |one| one.connection.endpoint.slots.waiting());
            // No more than are wanted, and the longest idle first.
            idle.drain(..idle.len().min(wanted as usize));
            idle.retain(|one| {
                !clock.is_past(one.until)
                    && !one.connection.endpoint.is_gone()
                    && one.connection.stream.is_quiet(false)
            });
            !idle.is_empty()
        });
        self.trunks.sweep(clock);
        self.waiting.borrow_mut().retain(|_, queue| {
            queue.retain(|offer| !offer.is_closed());
            !queue.is_empty()
        });
    }

    /// Closes all idle connections.
    pub(crate) fn clear(&self) {
        self.idle.borrow_mut().clear();
    }

    /// The connection used last is the one most likely to be open still.
    fn take(&self, endpoint: &Endpoint, surely_alive: bool) -> Option<Connection> {
        let mut pools = self.idle.borrow_mut();
        let idle = pools.get_mut(&endpoint.id)?;
        loop {
            let Idle { mut connection, until: _ } = idle.pop()?;
            connection.leave_idle_place();
            connection.was_waited_for = false;
            if connection.stream.is_quiet(surely_alive) {
                return Some(connection);
            }
        }
    }
}

impl Way {
    /// Notes that the request had to wait: its client may have gone meanwhile.
    fn note_wait(&mut self) {
        match self {
            Way::Own(connection) => connection.was_waited_for = true,
            Way::Shared { was_waited_for, .. } => *was_waited_for = true,
        }
    }
}

/// Opens a connection for which a slot has been taken, and shares it where HTTP/2 is agreed on.
async fn open_either(
    worker: &Rc<Worker>,
    endpoint: &Arc<Endpoint>,
    wish: Wish,
) -> Result<Way, Error> {
    let connection = open(endpoint, wish).await?;
    let is_h2 = match endpoint.protocol {
        Protocol::H1 => false,
        Protocol::H2 => true,
        Protocol::Auto => connection.stream.alpn().as_deref() == Some(H2),
    };
    if !wish.h1_only {
        endpoint.note_agreed(is_h2);
    }
    Ok(match is_h2 {
        true => Way::Shared { trunk: Trunks::share(worker, connection), was_waited_for: false },
        false => Way::Own(connection),
    })
}

/// Opens a connection for which a slot has been taken.
async fn open(endpoint: &Arc<Endpoint>, wish: Wish) -> Result<Connection, Error> {
    let slot = Slot(endpoint);
    let attempt = tokio::time::timeout(wish.connect, connect(endpoint, wish.h1_only));
    let stream = match attempt.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(kind)) => return Err(kind.into()),
        Err(_) => return Err(Kind::ConnectTimeout.into()),
    };
    std::mem::forget(slot);
    Ok(Connection {
        stream,
        endpoint: Arc::clone(endpoint),
        is_reused: false,
        was_waited_for: false,
        is_idle: false,
        handed_over: 0,
    })
}

/// A slot whose connection is not open yet; gives it back when connecting fails or is given up.
struct Slot<'e>(&'e Endpoint);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.slots.give_back();
    }
}

impl Connection {
    fn leave_idle_place(&mut self) {
        if std::mem::take(&mut self.is_idle) {
            self.endpoint.idle.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave_idle_place();
        self.endpoint.slots.give_back();
    }
}
