//! Exchanges with an endpoint over HTTP/2 or HTTP/3: many share a connection.
//!
//! | in reading order | |
//! |---|---|
//! | [`SharedConnections`] | the connections of a worker, and who gets a stream of them |
//! | `connection` | one of them: whether it has room, and whether its endpoint still responds |
//! | `dialing` | how one of HTTP/3 is opened |
//! | `driving` | who moves what goes over it |
//! | `channel` | an exchange on one of its streams |
//!
//! Where `max_connections` is set, their streams are shared out as connections are: the last eighth of those of a
//! connection is for clients that have few, and requests that wait for one are served by client.

mod channel;

mod connection;

mod dialing;

mod driving;

pub use channel::StreamChannel;
pub use connection::{SharedConnection, SharedMux};
pub(crate) use dialing::{QuicConnection, dial};

use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::queue::{Queue, QueuePosition};
use driving::Driver;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::Side;
use titan_io::io::Io;
use titan_io::mux::Mux;
use titan_io::network::ClientNetwork;
use titan_io::quic::{ClientTransport, Datagrams, QuicLimits};
use titan_io::shares::{ClientCounter, Shares};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::{RecvError, TryRecvError};

/// How long a connection serves at the least before it gives way to others: less than most wait.
const TURN: Duration = Duration::from_millis(250);
/// How long the streams of one that has given way have to end before another one gives way.
const PAUSE: Duration = Duration::from_secs(1);

/// Bytes that were sent to an endpoint over QUIC and that it has not acknowledged.
const SEND_WINDOW: u64 = 2 << 20;

/// The connections of one worker that exchanges share, by endpoint.
#[derive(Default)]
pub struct SharedConnections {
    by_endpoint: RefCell<BTreeMap<u64, EndpointConnections>>,
    /// What connections of QUIC receive into, in turn; there is none before the first of them.
    datagrams: OnceCell<Rc<RefCell<Datagrams>>>,
}

/// The connections to one endpoint.
#[derive(Default)]
struct EndpointConnections {
    open: Vec<Rc<SharedConnection>>,
    /// Whether one is being opened, for which later requests wait.
    is_opening: bool,
    waiting: Queue<oneshot::Sender<()>>,
    /// How many streams each client has, where there is a limit on connections, and so on streams.
    used: Option<Rc<Shares>>,
    /// When one last gave way.
    gave_way: Option<CoarseInstant>,
}

/// A stream for a client, to be opened on a connection that exchanges share. It counts as the client's until
/// this is dropped.
pub struct Seat {
    /// The connection.
    pub shared: Rc<SharedConnection>,
    share: Option<(Rc<Shares>, ClientCounter)>,
}

/// What holds for a connection that exchanges share.
#[derive(Clone)]
pub struct Sharing {
    /// The bounds of what its endpoint may cost over HTTP/2.
    pub h2: titan_h2::Limits,
    /// The same over HTTP/3.
    pub h3: titan_h3::Limits,
    /// The same over QUIC, below HTTP/3.
    pub quic: ClientTransport,
    /// How long the endpoint may take nothing of what is written.
    pub write: Duration,
}

/// How long nothing may come over QUIC, pings and their responses included, before a connection is taken for dead.
const DEAD_AFTER: Duration = Duration::from_secs(30);

impl Sharing {
    /// Those bounds over HTTP/2 and HTTP/3; the streams and the connection have the windows of HTTP/2.
    pub fn new(h2: titan_h2::Limits, h3: titan_h3::Limits, write: Duration) -> Sharing {
        let window = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let quic = ClientTransport::new(&QuicLimits {
            streams: 0,
            head: window(h3.sections.head),
            stream_window: window(h3.stream_window),
            connection_window: window(h3.connection_window),
            send_window: SEND_WINDOW,
            idle: DEAD_AFTER,
        });
        Sharing { h2, h3, quic, write }
    }
}

impl Default for Sharing {
    fn default() -> Sharing {
        let (h2, h3) = Default::default();
        Sharing::new(h2, h3, Duration::MAX)
    }
}

/// Held while a connection is being opened; when dropped, the requests that wait for it are woken.
pub struct OpeningGuard<'t> {
    connections: &'t SharedConnections,
    endpoint: u64,
}

/// A wait for a stream. A request that is woken and no longer needs a stream leaves it to the next one that waits.
pub struct StreamWait<'t> {
    connections: &'t SharedConnections,
    endpoint: u64,
    position: QueuePosition,
    offered: oneshot::Receiver<()>,
}

impl SharedConnections {
    /// A stream to the endpoint for that client: where streams are limited, not before those that wait for one. A
    /// request that has waited and `was_offered` one is the next.
    pub fn seat(
        &self,
        endpoint: &Endpoint,
        client: Option<ClientNetwork>,
        was_offered: bool,
    ) -> Option<Seat> {
        let mut all = self.by_endpoint.borrow_mut();
        let connections = all.get_mut(&endpoint.id)?;
        let counter = connections.counter(endpoint, client);
        let is_before = counter.is_some() && !was_offered && connections.next().is_some();
        let share = connections.share(counter);
        let shared = connections
            .open
            .iter()
            .find(|shared| shared.room().is_some_and(|it| it.is_for(share)))?;
        (!is_before).then(|| Seat::new(Rc::clone(shared), share))
    }

    /// The first stream of a connection that was opened for that client.
    pub fn first_seat(&self, shared: Rc<SharedConnection>, client: Option<ClientNetwork>) -> Seat {
        let mut all = self.by_endpoint.borrow_mut();
        let connections = all.entry(shared.endpoint.id).or_default();
        let counter = connections.counter(&shared.endpoint, client);
        Seat::new(shared, connections.share(counter))
    }

    /// Makes later requests wait for the connection that the caller opens, until the guard is dropped.
    pub fn opening(&self, endpoint: u64) -> OpeningGuard<'_> {
        self.by_endpoint.borrow_mut().entry(endpoint).or_default().is_opening = true;
        OpeningGuard { connections: self, endpoint }
    }

    /// Whether a connection to the endpoint is being opened.
    pub fn is_opening(&self, endpoint: u64) -> bool {
        self.by_endpoint.borrow().get(&endpoint).is_some_and(|connections| connections.is_opening)
    }

    /// Waits until it may be worth while to look for a connection again.
    pub fn wait(&self, endpoint: &Endpoint, client: Option<ClientNetwork>) -> StreamWait<'_> {
        let (offer, offered) = oneshot::channel();
        let mut all = self.by_endpoint.borrow_mut();
        let connections = all.entry(endpoint.id).or_default();
        let counter = connections.counter(endpoint, client).unwrap_or_default();
        let position = connections.waiting.push(client, counter, offer);
        StreamWait { connections: self, endpoint: endpoint.id, position, offered }
    }

    /// What connections of QUIC receive into.
    pub(crate) fn datagrams(&self) -> &Rc<RefCell<Datagrams>> {
        self.datagrams.get_or_init(Rc::default)
    }

    /// Shares a connection of HTTP/2 from now on, driven by a task of its own, until it cannot be used any more.
    pub(crate) fn share(
        self: &Rc<Self>,
        io: &Rc<Io>,
        connection: Connection,
        sharing: &Sharing,
    ) -> Rc<SharedConnection> {
        let mux = Mux::new(titan_h2::Connection::client(sharing.h2), Side::Upstream);
        let shared = self.admit(io, SharedMux::H2(Rc::clone(&mux)), &connection.endpoint);
        let driver = Driver::new(self, io, &shared);
        drop(tokio::task::spawn_local(driver.drive_h2(mux, connection, sharing.write)));
        shared
    }

    /// The same for one of HTTP/3.
    pub(crate) fn share_quic(
        self: &Rc<Self>,
        io: &Rc<Io>,
        connection: QuicConnection,
    ) -> Rc<SharedConnection> {
        let mux = SharedMux::H3(Rc::clone(connection.dialed.mux()));
        let shared = self.admit(io, mux, &connection.endpoint);
        let driver = Driver::new(self, io, &shared);
        drop(tokio::task::spawn_local(driver.drive_quic(connection)));
        shared
    }

    fn admit(&self, io: &Io, mux: SharedMux, endpoint: &Arc<Endpoint>) -> Rc<SharedConnection> {
        let shared = SharedConnection::new(mux, Arc::clone(endpoint), io.clock.now());
        let mut all = self.by_endpoint.borrow_mut();
        all.entry(endpoint.id).or_default().open.push(Rc::clone(&shared));
        shared
    }

    /// Closes unused connections that another worker waits for or whose endpoint is gone; lets used ones give way to
    /// requests that wait elsewhere; forgets requests that no longer wait.
    pub fn sweep(&self, clock: &Clock) {
        self.by_endpoint.borrow_mut().retain(|_, connections| connections.sweep(clock));
    }

    /// The same for the connections to one endpoint.
    pub fn sweep_endpoint(&self, endpoint: u64, clock: &Clock) {
        if let Some(connections) = self.by_endpoint.borrow_mut().get_mut(&endpoint) {
            connections.sweep(clock);
        }
    }

    /// Wakes the next waiting request, if there is room. It comes back for a stream, and the driver looks again when it
    /// is opened; a request that finds none waits again.
    fn offer(&self, endpoint: u64) {
        let mut all = self.by_endpoint.borrow_mut();
        let Some(connections) = all.get_mut(&endpoint) else { return };
        let next = connections.next().and_then(|position| connections.waiting.remove(position));
        if let Some((_, offer)) = next {
            wake(offer);
        }
    }

    fn remove(&self, shared: &Rc<SharedConnection>) {
        let mut all = self.by_endpoint.borrow_mut();
        let Some(connections) = all.get_mut(&shared.endpoint.id) else { return };
        connections.open.retain(|other| !Rc::ptr_eq(other, shared));
        connections.wake_all();
        if connections.open.is_empty() && !connections.is_opening {
            all.remove(&shared.endpoint.id);
        }
    }
}

impl EndpointConnections {
    /// Whether any connection is left, or any request that waits for one.
    fn sweep(&mut self, clock: &Clock) -> bool {
        self.retire_idle();
        self.give_way(clock.now());
        self.is_opening || !self.open.is_empty() || self.waiting.len() > 0
    }

    /// Where the streams of a client are counted, if they are.
    fn counter(
        &mut self,
        endpoint: &Endpoint,
        client: Option<ClientNetwork>,
    ) -> Option<ClientCounter> {
        let is_limited = endpoint.slots.is_limited();
        // How many there are depends on what the endpoint takes on each connection.
        let used = || Rc::new(Shares::new());
        is_limited.then(|| self.used.get_or_insert_with(used).counter(client))
    }

    fn share(&self, counter: Option<ClientCounter>) -> Option<(&Rc<Shares>, ClientCounter)> {
        self.used.as_ref().zip(counter)
    }

    /// Whose turn it is, where there is a stream for it.
    fn next(&self) -> Option<QueuePosition> {
        self.open.iter().filter_map(|shared| shared.room()).find_map(|room| {
            let has = |counter| {
                let share = self.share(Some(counter));
                room.is_for(share).then(|| share.map_or(0, |(used, counter)| used.of(counter)))
            };
            self.waiting.next(has, |_| true)
        })
    }

    /// Wakes every waiting request. The first one has the better choice.
    fn wake_all(&mut self) {
        let EndpointConnections { used, waiting, .. } = self;
        let has = |counter| used.as_ref().map_or(0, |used| used.of(counter));
        waiting.drain(has).for_each(wake);
    }

    fn retire_idle(&self) {
        for shared in &self.open {
            let SharedConnection { mux, endpoint, .. } = &**shared;
            if mux.handles() == 0 && (endpoint.slots.wanted() > 0 || endpoint.is_gone()) {
                shared.retire();
            }
        }
    }

    /// Retires a connection that has had its turn, if no other can be opened and a request that cannot use it waits: on
    /// another worker, or for HTTP/1.1. The slot goes to the request that has waited longest.
    fn give_way(&mut self, now: CoarseInstant) {
        let Some(first) = self.open.first() else { return };
        let slots = &first.endpoint.slots;
        let is_wanted = slots.is_full() && slots.wanted() as usize > self.waiting.len();
        // The last one may have streams that go on for long.
        let is_soon = self.gave_way.is_some_and(|last| now.since(last) < PAUSE);
        if is_wanted && !is_soon {
            let has_had_its_turn = |shared: &&Rc<SharedConnection>| {
                !shared.is_retired.get() && now.since(shared.opened) >= TURN
            };
            let given = self.open.iter().find(has_had_its_turn).inspect(|shared| shared.retire());
            self.gave_way = given.map(|_| now).or(self.gave_way);
        }
    }
}

/// Wakes a request, if it still waits.
fn wake(offer: oneshot::Sender<()>) {
    let _ = offer.send(());
}

impl Future for StreamWait<'_> {
    type Output = Result<(), RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.offered).poll(cx)
    }
}

impl Drop for StreamWait<'_> {
    fn drop(&mut self) {
        let mut all = self.connections.by_endpoint.borrow_mut();
        let Some(connections) = all.get_mut(&self.endpoint) else { return };
        if matches!(self.offered.try_recv(), Err(TryRecvError::Empty)) {
            connections.waiting.remove(self.position);
        }
        // By the time that the drivers look, the stream is taken, or not wanted here.
        connections.open.iter().for_each(|shared| shared.mux.wake_driver());
    }
}

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        let mut all = self.connections.by_endpoint.borrow_mut();
        if let Some(connections) = all.get_mut(&self.endpoint) {
            connections.is_opening = false;
            connections.wake_all();
        }
    }
}

impl Seat {
    fn new(shared: Rc<SharedConnection>, share: Option<(&Rc<Shares>, ClientCounter)>) -> Seat {
        let share = share.map(|(used, counter)| (Rc::clone(used), counter));
        if let Some((used, counter)) = &share {
            used.take(*counter);
        }
        Seat { shared, share }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some((used, counter)) = self.share.take() {
            used.give_back(counter);
            // Its client may have another one now.
            self.shared.mux.wake_driver();
        }
    }
}

#[cfg(test)]
mod tests;
