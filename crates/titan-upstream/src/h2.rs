//! Exchanges with an endpoint over HTTP/2: many share a connection.
//!
//! Where `max_connections` is set, their streams are shared out as connections are: the last eighth of those of a
//! connection is for clients that have few, and requests that wait for one are served by client.

use crate::call::{CallMemory, Channel, ReceivedHead};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::queue::{Queue, QueuePosition};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use titan_h2::{Code, Connection as H2, Event, ResponseStart};
use titan_http::{BodyLength, Method, Status};
use titan_io::body::Content;
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::{Error, Kind, Side};
use titan_io::io::Io;
use titan_io::mux::{Mux, Progress, Receiver, Sender, StreamHandle, Wire};
use titan_io::network::ClientNetwork;
use titan_io::shares::{ClientCounter, Shares};
use titan_io::stream::Inbox;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::{RecvError, TryRecvError};

/// How long a connection serves at the least before it gives way to others: less than most wait.
const TURN: Duration = Duration::from_millis(250);
/// How long the streams of one that has given way have to end before another one gives way.
const PAUSE: Duration = Duration::from_secs(1);

/// The connections of one worker that exchanges share, by endpoint.
#[derive(Default)]
pub struct H2Connections {
    by_endpoint: RefCell<BTreeMap<u64, EndpointConnections>>,
}

/// The connections to one endpoint.
#[derive(Default)]
struct EndpointConnections {
    open: Vec<Rc<H2Connection>>,
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
    pub shared: Rc<H2Connection>,
    share: Option<(Rc<Shares>, ClientCounter)>,
}

/// What holds for a connection that exchanges share.
#[derive(Clone, Copy)]
pub struct Sharing {
    /// The bounds of what its endpoint may cost.
    pub limits: titan_h2::Limits,
    /// How long the endpoint may take nothing of what is written.
    pub write: Duration,
}

/// A connection that exchanges share.
pub struct H2Connection {
    /// Its streams.
    pub mux: Rc<Mux<H2>>,
    endpoint: Arc<Endpoint>,
    opened: CoarseInstant,
    /// Whether it takes no more exchanges, because something is wrong with it.
    is_retired: Cell<bool>,
    /// Whether the endpoint has begun a response on it.
    has_responded: Cell<bool>,
    /// When the endpoint last sent something.
    heard: Cell<CoarseInstant>,
    liveness: Cell<Liveness>,
}

/// How many streams a connection has in use, and may have.
struct StreamCapacity {
    taken: u32,
    most: u32,
}

/// Whether the endpoint still responds, as far as pings have shown.
#[derive(Clone, Copy)]
enum Liveness {
    /// It does; no ping before that time.
    None { until: CoarseInstant },
    /// It was pinged, and must respond by then.
    Asked { until: CoarseInstant },
}

/// An exchange that waits for its endpoint. If it ends before anything has come, for example because its client gives
/// up, the connection may be dead unnoticed: it is pinged then.
struct LivenessGuard<'t> {
    shared: Rc<H2Connection>,
    clock: &'t Clock,
    began: CoarseInstant,
}

/// How long the response to a ping may take.
const PONG: Duration = Duration::from_secs(2);
/// How long an endpoint that has responded to a ping gets no other: servers disconnect clients that ping often.
const BELIEF: Duration = Duration::from_secs(60);

/// Held while a connection is being opened; when dropped, the requests that wait for it are woken.
pub struct OpeningGuard<'t> {
    h2_connections: &'t H2Connections,
    endpoint: u64,
}

/// A wait for a stream. A request that is woken and no longer needs a stream leaves it to the next one that waits.
pub struct StreamWait<'t> {
    h2_connections: &'t H2Connections,
    endpoint: u64,
    position: QueuePosition,
    offered: oneshot::Receiver<()>,
}

impl H2Connections {
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
    pub fn first_seat(&self, shared: Rc<H2Connection>, client: Option<ClientNetwork>) -> Seat {
        let mut all = self.by_endpoint.borrow_mut();
        let connections = all.entry(shared.endpoint.id).or_default();
        let counter = connections.counter(&shared.endpoint, client);
        Seat::new(shared, connections.share(counter))
    }

    /// Makes later requests wait for the connection that the caller opens, until the guard is dropped.
    pub fn opening(&self, endpoint: u64) -> OpeningGuard<'_> {
        self.by_endpoint.borrow_mut().entry(endpoint).or_default().is_opening = true;
        OpeningGuard { h2_connections: self, endpoint }
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
        StreamWait { h2_connections: self, endpoint: endpoint.id, position, offered }
    }

    /// Shares a connection from now on, driven by a task of its own, until it cannot be used any more.
    pub fn share(
        self: &Rc<Self>,
        io: &Rc<Io>,
        connection: Connection,
        sharing: Sharing,
    ) -> Rc<H2Connection> {
        let mux = Mux::new(H2::client(sharing.limits), Side::Upstream);
        let shared = H2Connection::new(mux, Arc::clone(&connection.endpoint), io.clock.now());
        let mut all = self.by_endpoint.borrow_mut();
        all.entry(connection.endpoint.id).or_default().open.push(Rc::clone(&shared));
        let driver =
            Driver { h2_connections: Rc::clone(self), io: Rc::clone(io), timeout: sharing.write };
        drop(tokio::task::spawn_local(driver.drive(connection, Rc::clone(&shared))));
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

    fn remove(&self, shared: &Rc<H2Connection>) {
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
            let H2Connection { mux, endpoint, .. } = &**shared;
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
            let has_had_its_turn = |shared: &&Rc<H2Connection>| {
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
        let mut all = self.h2_connections.by_endpoint.borrow_mut();
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
        let mut all = self.h2_connections.by_endpoint.borrow_mut();
        if let Some(connections) = all.get_mut(&self.endpoint) {
            connections.is_opening = false;
            connections.wake_all();
        }
    }
}

impl Seat {
    fn new(shared: Rc<H2Connection>, share: Option<(&Rc<Shares>, ClientCounter)>) -> Seat {
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

impl H2Connection {
    fn new(mux: Rc<Mux<H2>>, endpoint: Arc<Endpoint>, now: CoarseInstant) -> Rc<H2Connection> {
        Rc::new(H2Connection {
            mux,
            endpoint,
            opened: now,
            is_retired: Cell::new(false),
            has_responded: Cell::new(false),
            heard: Cell::new(now),
            liveness: Cell::new(Liveness::None { until: now }),
        })
    }

    /// What it has left for one more exchange.
    fn room(&self) -> Option<StreamCapacity> {
        let connection = self.mux.connection();
        let taken = u32::try_from(connection.open_streams()).unwrap_or(u32::MAX);
        let is_there = !self.is_retired.get() && connection.can_open();
        is_there.then(|| StreamCapacity { taken, most: connection.peer_streams() })
    }

    /// An exchange begins on it.
    fn liveness<'t>(self: &Rc<Self>, clock: &'t Clock) -> LivenessGuard<'t> {
        LivenessGuard { shared: Rc::clone(self), clock, began: clock.now() }
    }

    /// Pings the endpoint, unless it was pinged not long ago.
    fn ask(&self, clock: &Clock) {
        if matches!(self.liveness.get(), Liveness::None { until } if clock.is_past(until)) {
            self.mux.connection().ping();
            self.liveness.set(Liveness::Asked { until: clock.deadline(PONG) });
            self.mux.wake_driver();
        }
    }

    /// Takes it out of use when the endpoint has not responded in time; until when it may.
    fn judge(&self, clock: &Clock) -> CoarseInstant {
        match self.liveness.get() {
            Liveness::Asked { until } if !self.is_retired.get() => {
                if clock.is_past(until) {
                    self.retire();
                }
                until
            }
            Liveness::Asked { .. } | Liveness::None { .. } => CoarseInstant::NEVER,
        }
    }

    /// Whether it has worked: the endpoint has begun a response on it.
    pub fn has_responded(&self) -> bool {
        self.has_responded.get()
    }

    /// Whether the endpoint takes no more exchanges on it, and has said so.
    pub fn is_left(&self) -> bool {
        self.mux.connection().is_leaving()
    }

    /// Stops it from taking new exchanges.
    pub fn retire(&self) {
        self.is_retired.set(true);
        self.mux.wake_driver();
    }
}

impl StreamCapacity {
    /// Whether a client that has that many streams may have one more, where that counts.
    fn is_for(&self, share: Option<(&Rc<Shares>, ClientCounter)>) -> bool {
        share.is_none_or(|(used, counter)| used.admits_to(counter, self.taken, self.most))
    }
}

impl Drop for LivenessGuard<'_> {
    fn drop(&mut self) {
        if self.shared.heard.get() < self.began {
            self.shared.ask(self.clock);
        }
    }
}

/// What a connection is driven with.
struct Driver {
    h2_connections: Rc<H2Connections>,
    io: Rc<Io>,
    timeout: Duration,
}

impl Driver {
    /// Moves what exchanges send and receive over a connection, until it cannot be used any more.
    async fn drive(self, mut connection: Connection, shared: Rc<H2Connection>) {
        let Driver { h2_connections, io, timeout } = self;
        let timer = io.clock.timer();
        let (mut inbox, mut progress) = (Inbox::default(), Progress::new(&io.clock));
        let mut idle_until = None;
        let H2Connection { mux, endpoint, is_retired, heard, liveness, .. } = &*shared;
        poll_fn(|cx| {
            let clock = timer.clock();
            let mut wire = Wire {
                mux,
                stream: &mut connection.stream,
                inbox: &mut inbox,
                buffers: &io.buffers,
                clock,
                timeout,
                progress: &mut progress,
            };
            let on_event = |event| {
                if matches!(event, Event::Pong) {
                    liveness.set(Liveness::None { until: clock.deadline(BELIEF) });
                }
            };
            if wire.poll(cx, on_event).is_ready() {
                return Poll::Ready(());
            }
            heard.set(wire.progress.heard());
            let asked = shared.judge(clock);
            let is_idle = mux.handles() == 0;
            let is_useless = is_retired.get() || mux.connection().is_over() || endpoint.is_gone();
            idle_until =
                is_idle.then(|| idle_until.unwrap_or(clock.deadline(endpoint.idle_timeout())));
            let last = idle_until.unwrap_or(CoarseInstant::NEVER);
            if is_idle && (is_useless || clock.is_past(last)) {
                mux.connection().go_away(Code::NoError);
                let _ = wire.write(cx);
                return Poll::Ready(());
            }
            h2_connections.offer(endpoint.id);
            timer.wake_at(cx, last.min(asked).min(wire.progress.deadline()));
            Poll::Pending
        })
        .await;
        shared.retire();
        mux.lose();
        connection.stream.say_goodbye();
        drop(connection);
        h2_connections.remove(&shared);
    }
}

/// A stream with one request and its response on it.
pub struct H2Channel<'w> {
    sender: Sender<H2>,
    receiver: Receiver<H2>,
    /// Of the request.
    method: Method,
    liveness: LivenessGuard<'w>,
    _seat: Seat,
}

impl<'w> H2Channel<'w> {
    /// Opens the stream that the seat is for; `open` sends the head of the request. Its body has that many bytes, where
    /// that is known. None where the connection takes no more streams.
    pub fn start(
        seat: Seat,
        clock: &'w Clock,
        method: Method,
        length: Option<u64>,
        open: impl FnOnce(&Rc<Mux<H2>>) -> Option<Rc<StreamHandle<H2>>>,
    ) -> Option<H2Channel<'w>> {
        let (receiver, mut sender) = open(&seat.shared.mux)?.split();
        sender.begin(length, length == Some(0));
        let liveness = seat.shared.liveness(clock);
        Some(H2Channel { sender, receiver, method, liveness, _seat: seat })
    }
}

impl Channel for H2Channel<'_> {
    type Request<'c>
        = &'c mut Sender<H2>
    where
        Self: 'c;
    type Response<'c>
        = &'c mut Receiver<H2>
    where
        Self: 'c;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        memory: &mut CallMemory,
    ) -> Poll<Result<ReceivedHead, Error>> {
        let head = &mut memory.response;
        self.receiver.poll_head(cx, head).map_ok(|start| {
            self.liveness.shared.has_responded.set(true);
            let ResponseStart { interim, .. } = start;
            let content = content(start, self.method, head.status);
            ReceivedHead { interim, content, keep_alive: true }
        })
    }

    fn request<'c>(&'c mut self, _: &'c mut CallMemory) -> &'c mut Sender<H2> {
        &mut self.sender
    }

    fn split<'c>(
        &'c mut self,
        _: &'c mut CallMemory,
    ) -> (&'c mut Sender<H2>, &'c mut Receiver<H2>) {
        (&mut self.sender, &mut self.receiver)
    }

    fn note_failure(&self, error: Error) {
        if error.kind == Kind::ResponseTimeout {
            // Whether the endpoint is slow or the connection dead is not known: no other request should have to find
            // out.
            self.liveness.shared.retire();
        }
    }

    fn into_connection(self, _: &CallMemory) -> Option<Connection> {
        // The others go on over it.
        None
    }
}

fn content(start: ResponseStart, method: Method, status: Status) -> Content {
    let ResponseStart { end, length, .. } = start;
    let can_have_body =
        method != Method::HEAD && !matches!(status, Status::NO_CONTENT | Status::NOT_MODIFIED);
    let sent = match length {
        _ if !can_have_body => BodyLength::None,
        _ if end => BodyLength::Known(0),
        Some(length) => BodyLength::Known(length),
        None => BodyLength::Unknown,
    };
    Content { length: sent, declared: length }
}

#[cfg(test)]
mod tests;
