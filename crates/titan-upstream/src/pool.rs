//! The idle connections of one worker, and how a request gets a connection.

use crate::connection::{Connection, Opening, open};
use crate::endpoint::Endpoint;
use crate::reclaim::Reclaim;
use crate::shared::{QuicConnection, Seat, SharedConnections, Sharing, dial};
use crate::slots::{Awaited, QueuePlace, Requester, Slot};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use titan_config::Protocol;
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::{Error, Kind};
use titan_io::io::Io;
use titan_io::network::ClientNetwork;
use titan_io::quic::Dialed;
use titan_io::tls::{Alpn, EndpointTls, H2};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The idle connections of one worker, by endpoint.
pub struct Pools {
    idle: RefCell<BTreeMap<u64, Vec<Idle>>>,
    /// The requests that wait on this worker, by endpoint and ticket: connections that become free go to them.
    waiting: RefCell<BTreeMap<u64, BTreeMap<u64, oneshot::Sender<Connection>>>>,
    /// The connections that exchanges share.
    shared: Rc<SharedConnections>,
    io: Rc<Io>,
    /// The worker's place among the others.
    worker: usize,
    /// Asks the pools of all workers to close idle connections.
    reclaim: Arc<Reclaim>,
}

/// What a request goes over.
pub enum PooledConnection {
    /// A connection of its own.
    Exclusive(Connection),
    /// One that others use at the same time.
    Shared {
        /// A stream of it.
        seat: Seat,
        /// Whether the request had to wait for it.
        was_waited_for: bool,
        /// How long it took to open, if that was done for this request.
        opening: Option<Opening>,
    },
}

/// How often in a row a connection goes to requests that wait on its worker while others wait elsewhere: then it is
/// closed, and its slot goes to the request that has waited longest.
const MOST_IN_A_ROW: u8 = 8;

/// A connection that waits for its next exchange.
struct Idle {
    connection: Connection,
    until: CoarseInstant,
}

/// What a request requires of its connection.
#[derive(Clone, Copy)]
pub struct AcquireOptions<'o> {
    /// The request must not be sent twice: ask the kernel before a connection is used again.
    pub surely_alive: bool,
    /// The last one turned out to be dead: open a new one.
    pub new: bool,
    /// It has to speak HTTP/1.1, whatever the endpoint would like better.
    pub h1_only: bool,
    /// How long connecting may take.
    pub connect: Duration,
    /// Whom the request is for.
    pub client: Option<ClientNetwork>,
    /// What holds for a connection that is opened for it and shared.
    pub sharing: &'o Sharing,
}

impl Pools {
    /// The pools of the worker at that place; those of all workers of a gateway have `reclaim` in common.
    pub fn new(worker: usize, reclaim: Arc<Reclaim>, io: &Rc<Io>) -> Pools {
        let (idle, waiting, shared) = Default::default();
        Pools { idle, waiting, shared, io: Rc::clone(io), worker, reclaim }
    }

    /// Waits until idle connections are wanted, here or on another worker: time for [`Pools::yield_idle`].
    pub async fn idle_wanted(&self) {
        self.reclaim.asked(self.worker).await;
    }

    /// A way to `endpoint`, in the protocol that it speaks. What waits for one is boxed: a request that finds one has no
    /// use for the room, and its future is moved.
    pub async fn get(
        &self,
        endpoint: &Arc<Endpoint>,
        options: AcquireOptions<'_>,
    ) -> Result<PooledConnection, Error> {
        let (mut waits_until, mut opens_until, mut was_offered) = (None, None, false);
        loop {
            if endpoint.speaks_h1() || options.h1_only {
                return self.get_own(endpoint, options).await;
            }
            if let Some(seat) = self.shared.seat(endpoint, options.client, was_offered) {
                let was_waited_for = waits_until.or(opens_until).is_some();
                return Ok(PooledConnection::Shared { seat, was_waited_for, opening: None });
            }
            let is_opening = self.shared.is_opening(endpoint.id);
            let slot = (!is_opening).then(|| endpoint.slots.try_take(options.client)).flatten();
            if let Some(slot) = slot {
                let _opening = self.shared.opening(endpoint.id);
                return Box::pin(self.open_either(endpoint, slot, options)).await;
            }
            let wants = if is_opening { Awaited::Nothing } else { Awaited::Slot };
            let waited = match endpoint.slots.queue(self.requester(options), wants) {
                // However many try one after the other and fail.
                Ok(place) if is_opening => {
                    let until =
                        *opens_until.get_or_insert_with(|| Instant::now() + options.connect);
                    let waited = self.wait_for_stream(endpoint, place, options, until);
                    Box::pin(waited).await.map_err(|kind| match kind {
                        Kind::QueueTimeout => Kind::ConnectTimeout,
                        kind => kind,
                    })
                }
                Ok(place) => {
                    self.reclaim.ask(endpoint.id);
                    let timeout = endpoint.queue_timeout();
                    let until = *waits_until.get_or_insert_with(|| Instant::now() + timeout);
                    Box::pin(self.wait_for_stream(endpoint, place, options, until)).await
                }
                Err(full) => Err(full),
            };
            let slot = match waited {
                // One is being opened; a request without a place to wait for it may open another.
                Err(Kind::QueueFull) => {
                    Some(endpoint.slots.try_take(options.client).ok_or(Kind::QueueFull)?)
                }
                waited => waited?,
            };
            was_offered = slot.is_none();
            if let Some(slot) = slot {
                let mut way = Box::pin(self.open_either(endpoint, slot, options)).await?;
                way.note_wait();
                return Ok(way);
            }
        }
    }

    /// A new connection to `endpoint` for what is not HTTP; nobody uses it afterwards. If all that there may be are open, it is
    /// waited for as by a request.
    pub async fn open_raw(
        &self,
        endpoint: &Arc<Endpoint>,
        client: Option<ClientNetwork>,
        timeout: Duration,
    ) -> Result<Connection, Error> {
        let slot = match endpoint.slots.try_take(client) {
            Some(slot) => slot,
            None => self.wait_for_slot(endpoint, client).await?,
        };
        open(endpoint, slot, timeout, Alpn::Nothing).await
    }

    async fn wait_for_slot(
        &self,
        endpoint: &Arc<Endpoint>,
        client: Option<ClientNetwork>,
    ) -> Result<Slot, Kind> {
        let requester = Requester { client, worker: self.worker };
        let place = endpoint.slots.queue(requester, Awaited::Slot)?;
        self.reclaim.ask(endpoint.id);
        let nothing = std::future::pending::<Result<Infallible, _>>();
        match place.wait(endpoint.queue_timeout(), nothing).await? {
            Ok(never) => match never {},
            Err(slot) => Ok(slot),
        }
    }

    fn requester(&self, options: AcquireOptions<'_>) -> Requester {
        Requester { client: options.client, worker: self.worker }
    }

    /// Waits until a connection may have room, or there is a slot for a new one instead.
    async fn wait_for_stream(
        &self,
        endpoint: &Endpoint,
        place: QueuePlace,
        options: AcquireOptions<'_>,
        until: Instant,
    ) -> Result<Option<Slot>, Kind> {
        let offered = self.shared.wait(endpoint, options.client);
        // Another request may take what was offered first: this one keeps its place.
        let timeout = until.saturating_duration_since(Instant::now());
        let got = place.wait(timeout, offered).await?;
        Ok(got.err())
    }

    /// A connection to `endpoint`: an idle one, a new one, or one that is waited for. A new one may turn out to
    /// be one to share.
    async fn get_own(
        &self,
        endpoint: &Arc<Endpoint>,
        options: AcquireOptions<'_>,
    ) -> Result<PooledConnection, Error> {
        let kept = if options.new { None } else { self.take(endpoint, options) };
        if let Some(connection) = kept {
            return Ok(PooledConnection::Exclusive(connection));
        }
        if let Some(slot) = endpoint.slots.try_take(options.client) {
            return Box::pin(self.open_either(endpoint, slot, options)).await;
        }
        let mut way = Box::pin(self.wait(endpoint, options)).await?;
        way.note_wait();
        Ok(way)
    }

    /// Waits for a connection that an exchange of this worker leaves, or for a slot.
    async fn wait(
        &self,
        endpoint: &Arc<Endpoint>,
        options: AcquireOptions<'_>,
    ) -> Result<PooledConnection, Error> {
        let place = endpoint.slots.queue(self.requester(options), Awaited::Connection)?;
        // What is idle may be a connection of HTTP/2, which does not count as such.
        self.reclaim.ask(endpoint.id);
        let (offer, offered) = oneshot::channel();
        self.waiting.borrow_mut().entry(endpoint.id).or_default().insert(place.ticket(), offer);
        match place.wait(endpoint.queue_timeout(), offered).await? {
            Ok(mut connection) => {
                connection.slot.enter(options.client);
                Ok(PooledConnection::Exclusive(connection))
            }
            Err(slot) => self.open_either(endpoint, slot, options).await,
        }
    }

    /// Keeps a connection for the next exchange: for one that waits, if there is one on this worker. If
    /// there is one on another, or enough are kept, it is closed.
    pub fn keep(&self, mut connection: Connection, clock: &Clock) {
        connection.is_reused = true;
        connection.slot.vacate();
        if connection.endpoint.slots.wanted() > 0 {
            return self.hand_over(connection);
        }
        connection.handed_over = 0;
        if connection.endpoint.is_gone() || !connection.endpoint.take_idle_place() {
            return;
        }
        connection.is_idle = true;
        let until = clock.deadline(connection.endpoint.idle_timeout());
        let mut all = self.idle.borrow_mut();
        let idle = all.entry(connection.endpoint.id).or_default();
        idle.push(Idle { connection, until });
    }

    fn hand_over(&self, mut connection: Connection) {
        let slots = Arc::clone(&connection.endpoint.slots);
        let mut waiting = self.waiting.borrow_mut();
        let Some(here) = waiting.get_mut(&connection.endpoint.id) else { return };
        let had_enough =
            connection.handed_over >= MOST_IN_A_ROW && slots.is_wanted_beyond(self.worker);
        if had_enough || !connection.stream.is_quiet(true) {
            return;
        }
        connection.handed_over = connection.handed_over.saturating_add(1);
        while let Some(ticket) = slots.next_on(self.worker) {
            let Some(offer) = here.remove(&ticket) else { continue };
            match offer.send(connection) {
                Ok(()) => return,
                // It has stopped waiting in this moment.
                Err(back) => connection = back,
            }
        }
    }

    /// Closes what has been idle for too long, was closed by its peer, belongs to an endpoint that is gone, or holds a
    /// slot that a request waits for.
    pub fn sweep(&self, clock: &Clock) {
        self.idle.borrow_mut().retain(|_, idle| sweep_idle(idle, clock));
        self.shared.sweep(clock);
        self.waiting.borrow_mut().retain(|_, waiting| {
            waiting.retain(|_, offer| !offer.is_closed());
            !waiting.is_empty()
        });
    }

    /// Closes the idle connections that other workers need.
    pub fn yield_idle(&self, clock: &Clock) {
        for endpoint in self.reclaim.take(self.worker) {
            if let Some(idle) = self.idle.borrow_mut().get_mut(&endpoint) {
                sweep_idle(idle, clock);
            }
            self.shared.sweep_endpoint(endpoint, clock);
        }
    }

    /// Closes all idle connections.
    pub fn clear(&self) {
        self.idle.borrow_mut().clear();
    }

    /// The connection used last is the one most likely to be open still.
    fn take(&self, endpoint: &Endpoint, options: AcquireOptions<'_>) -> Option<Connection> {
        let mut pools = self.idle.borrow_mut();
        let idle = pools.get_mut(&endpoint.id)?;
        if idle.is_empty() || !endpoint.slots.admits(options.client) {
            return None;
        }
        loop {
            let Idle { mut connection, until: _ } = idle.pop()?;
            connection.leave_idle_place();
            connection.was_waited_for = false;
            if connection.stream.is_quiet(options.surely_alive) {
                connection.slot.enter(options.client);
                return Some(connection);
            }
        }
    }

    /// Opens a connection for which a slot has been taken, and shares it where HTTP/2 is agreed on.
    async fn open_either(
        &self,
        endpoint: &Arc<Endpoint>,
        slot: Slot,
        options: AcquireOptions<'_>,
    ) -> Result<PooledConnection, Error> {
        let mut connect = options.connect;
        if let Some(tls) = endpoint.quic() {
            let has_second = endpoint.protocol == (Protocol::H3 { or_h2: true });
            let share = if has_second { connect / 2 } else { connect };
            match self.dial(endpoint, tls, share, options).await {
                Ok((dialed, opening)) => {
                    return Ok(self.share_quic(endpoint, (dialed, opening), slot, options));
                }
                // What has responded and is not the endpoint is none over TCP either.
                Err(Kind::Connect | Kind::ConnectTimeout) if endpoint.rest_quic() => {
                    connect -= share;
                }
                Err(kind) => return Err(kind.into()),
            }
        }
        let alpn = if options.h1_only { Alpn::H1 } else { Alpn::Configured };
        let mut connection = open(endpoint, slot, connect, alpn).await?;
        let is_h2 = match endpoint.protocol {
            Protocol::H1 => false,
            Protocol::H2 | Protocol::H3 { .. } => true,
            Protocol::Auto => connection.stream.alpn().as_deref() == Some(H2),
        };
        if !options.h1_only {
            endpoint.note_agreed(is_h2);
        }
        if !is_h2 {
            return Ok(PooledConnection::Exclusive(connection));
        }
        connection.slot.share();
        let opening = Some(connection.opening);
        let shared = self.shared.share(&self.io, connection, options.sharing);
        let seat = self.shared.first_seat(shared, options.client);
        Ok(PooledConnection::Shared { seat, was_waited_for: false, opening })
    }

    /// Connects over QUIC within that time.
    async fn dial(
        &self,
        endpoint: &Endpoint,
        tls: &EndpointTls,
        timeout: Duration,
        options: AcquireOptions<'_>,
    ) -> Result<(Dialed, Opening), Kind> {
        let dialing = dial(endpoint, tls, (options.sharing, self.shared.datagrams()));
        tokio::time::timeout(timeout, dialing).await.unwrap_or(Err(Kind::ConnectTimeout))
    }

    /// Shares a connection over QUIC for which a slot has been taken.
    fn share_quic(
        &self,
        endpoint: &Arc<Endpoint>,
        (dialed, opening): (Dialed, Opening),
        mut slot: Slot,
        options: AcquireOptions<'_>,
    ) -> PooledConnection {
        slot.share();
        let connection = QuicConnection { dialed, endpoint: Arc::clone(endpoint), _slot: slot };
        let shared = self.shared.share_quic(&self.io, connection);
        let seat = self.shared.first_seat(shared, options.client);
        PooledConnection::Shared { seat, was_waited_for: false, opening: Some(opening) }
    }
}

/// Closes idle connections to one endpoint that are of no use, or wanted; whether any is left.
fn sweep_idle(idle: &mut Vec<Idle>, clock: &Clock) -> bool {
    let wanted = idle.first().map_or(0, |one| one.connection.endpoint.slots.wanted());
    // No more than are wanted, and the longest idle first.
    idle.drain(..idle.len().min(wanted as usize));
    idle.retain(|one| {
        !clock.is_past(one.until)
            && !one.connection.endpoint.is_gone()
            && one.connection.stream.is_quiet(false)
    });
    !idle.is_empty()
}

impl PooledConnection {
    /// How long it took to open, if that was done for this request.
    pub fn opening(&self) -> Option<Opening> {
        match self {
            PooledConnection::Exclusive(connection) => {
                (!connection.is_reused).then_some(connection.opening)
            }
            PooledConnection::Shared { opening, .. } => *opening,
        }
    }

    /// Whether the request had to wait for it.
    pub fn was_waited_for(&self) -> bool {
        match self {
            PooledConnection::Exclusive(connection) => connection.was_waited_for,
            PooledConnection::Shared { was_waited_for, .. } => *was_waited_for,
        }
    }

    /// Notes that the request had to wait: its client may have gone meanwhile.
    fn note_wait(&mut self) {
        match self {
            PooledConnection::Exclusive(connection) => connection.was_waited_for = true,
            PooledConnection::Shared { was_waited_for, .. } => *was_waited_for = true,
        }
    }
}
