//! The UDP side of a listener: handshakes of QUIC, and the limits on connections that hold for TCP too.

use super::{ConnectionPermit, Done, ListenerOrder, ListenerState};
use crate::downstream::h3;
use crate::listener_id::ListenerId;
use crate::origin::{Origin, PresentedCertificate};
use crate::worker::{OpenConnection, Worker};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use titan_h3::Code;
use titan_http::Scheme;
use titan_io::clock::{CoarseInstant, TICK, Timer};
use titan_io::quic::{
    Arrival, Datagrams, Endpoint, EndpointFigures, Handover, Line, Predecessors, QuicLimits,
    QuicServer, take_forwarded,
};
use titan_io::stream::Agreed;
use titan_io::tls::{Refused, ServerTls};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

/// Receives datagrams, and serves each connection in a task of its own. Told to close, it goes on for those that are open, and returns
/// once there are none, unless it is told to open again. Where nobody can tell it anything any more it returns at once, and what is open
/// goes on to its end.
pub(super) async fn serve(
    (id, state): (ListenerId, Arc<ListenerState>),
    socket: UdpSocket,
    worker: Rc<Worker>,
    mut orders: mpsc::Receiver<ListenerOrder>,
) -> io::Result<()> {
    let lent = Arc::new(socket.try_clone()?);
    state.udp.note(worker.index(), &lent);
    let Some(side) = UdpSide::new(socket, Rc::clone(&worker), state)? else { return Ok(()) };
    let mut receiving = Receiving::new(side);
    let done: Option<Done> = loop {
        let next = poll_fn(|cx| match orders.poll_recv(cx) {
            Poll::Ready(order) => Poll::Ready(Next::Order(order)),
            Poll::Pending if receiving.side.is_over(cx) => Poll::Ready(Next::Over),
            Poll::Pending => receiving.poll(cx).map(|never| match never {}),
        });
        match next.await {
            Next::Order(Some(ListenerOrder::Lend(borrower))) => {
                let duplicate: io::Result<OwnedFd> = lent.try_clone().map(OwnedFd::from);
                let _ = borrower.try_send((id.clone(), duplicate));
            }
            Next::Order(Some(ListenerOrder::Leave(done))) => {
                receiving.side.endpoint.leave();
                break Some(done);
            }
            Next::Order(Some(ListenerOrder::Close(_))) => receiving.side.endpoint.close(),
            Next::Order(Some(ListenerOrder::Open)) => receiving.side.endpoint.open(),
            Next::Order(None) => break None,
            Next::Over => return Ok(()),
        }
    };
    if done.is_none() {
        receiving.side.endpoint.close();
    }
    // Connections end in tasks of their own, and need the socket to that end.
    drop(tokio::task::spawn_local(receiving.finish(lent)));
    drop(done);
    Ok(())
}

/// How long a peer may be told again that its connection has ended. QUIC itself goes by how long packets take, which is up to the peer.
const LAST_WORD: Duration = Duration::from_secs(1);

enum Next {
    Order(Option<ListenerOrder>),
    /// It was closed, and has no connection.
    Over,
}

/// What the workers have in common of the UDP side of a listener.
#[derive(Default)]
pub(crate) struct UdpShared {
    /// The sockets of all workers.
    handover: Arc<Handover>,
    /// The processes before this one that have connections.
    predecessors: Arc<Predecessors>,
    /// Handshakes under way.
    handshakes: AtomicU32,
    /// The sockets that are open, each with its worker: also after the UDP side was closed, while there are connections.
    open: Mutex<Vec<(usize, Weak<UdpSocket>)>>,
}

impl UdpShared {
    /// Duplicates of the sockets that are open, each with its worker.
    pub(crate) fn sockets(&self) -> io::Result<Vec<(usize, UdpSocket)>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.iter().filter_map(|(worker, socket)| Some((*worker, socket.upgrade()?)));
        open.map(|(worker, socket)| Ok((worker, socket.try_clone()?))).collect()
    }

    /// What a successor needs to hand on what is for connections of QUIC that begin before it serves: a way to this process, and those to
    /// processes before it.
    pub(crate) fn lend_ways(&self) -> io::Result<Vec<OwnedFd>> {
        let mut ways = vec![take_forwarded(Arc::clone(&self.handover))?];
        ways.extend(self.predecessors.lend()?);
        Ok(ways)
    }

    /// Hands on what is for connections of QUIC of the processes that these lead to.
    pub(crate) fn succeed(&self, ways: Vec<OwnedFd>) {
        self.predecessors.set(ways);
    }

    /// Notes a socket, which is open for as long as `socket` is.
    fn note(&self, worker: usize, socket: &Arc<UdpSocket>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, socket)| socket.strong_count() > 0);
        open.push((worker, Arc::downgrade(socket)));
    }
}

/// The UDP side of a listener, on one worker.
struct UdpSide {
    endpoint: Rc<Endpoint>,
    worker: Rc<Worker>,
    state: Arc<ListenerState>,
    /// What handshakes are held with.
    held: Held,
}

/// What handshakes are held with, and what that was made of.
struct Held {
    tls: Arc<ServerTls>,
    limits: QuicLimits,
    early_data: bool,
    server: QuicServer,
}

impl Held {
    fn new(tls: Arc<ServerTls>, limits: QuicLimits, early_data: bool) -> Option<Held> {
        let server = QuicServer::new(&tls, &limits, early_data)?;
        Some(Held { tls, limits, early_data, server })
    }
}

impl UdpSide {
    /// None where the listener has no certificates: a reload has just taken them.
    fn new(
        socket: UdpSocket,
        worker: Rc<Worker>,
        state: Arc<ListenerState>,
    ) -> io::Result<Option<UdpSide>> {
        let limits = worker.snapshot().quic_limits;
        let early_data = state.config.load().early_data;
        let held = state.listener_policy.tls().and_then(|tls| Held::new(tls, limits, early_data));
        let Some(held) = held else { return Ok(None) };
        let UdpShared { handover, predecessors, .. } = &state.udp;
        let (handover, before) = (Arc::clone(handover), Arc::clone(predecessors));
        let endpoint = Endpoint::new(socket, handover, before, held.server.clone())?;
        Ok(Some(UdpSide { endpoint, worker, state, held }))
    }

    /// Whether it was closed, and has no connection.
    fn is_over(&self, cx: &Context<'_>) -> bool {
        self.endpoint.is_closed() && self.endpoint.poll_empty(cx).is_ready()
    }

    /// Keeps to the configuration that is in force. False where it has no certificates.
    fn keep_up(&mut self) -> bool {
        let Some(tls) = self.state.listener_policy.tls() else { return false };
        let limits = self.worker.snapshot().quic_limits;
        let early_data = self.state.config.load().early_data;
        let Held { tls: held, limits: given, early_data: taken, .. } = &self.held;
        if Arc::ptr_eq(&tls, held) && limits == *given && early_data == *taken {
            return true;
        }
        let Some(held) = Held::new(tls, limits, early_data) else { return false };
        self.endpoint.configure(&held.server);
        self.held = held;
        true
    }

    /// Begins the handshake with a client, unless there are too many. One whose address may be made up is not refused for what it has:
    /// whoever has that address would be.
    fn admit(&self, arrival: Arrival) {
        let UdpSide { endpoint, worker, state, .. } = self;
        if endpoint.is_closed() || !worker.accepts() {
            return endpoint.refuse(arrival);
        }
        let is_known = arrival.is_validated() || !arrival.may_retry();
        let turn_away = |arrival| match is_known {
            true => {
                worker.cells().refused.add(1);
                endpoint.refuse(arrival);
            }
            false => endpoint.retry(arrival),
        };
        let client = arrival.peer().ip().to_canonical();
        if !is_known && self.has_to_validate(client) {
            return endpoint.retry(arrival);
        }
        let Some(mut permit) = state.enter() else { return turn_away(arrival) };
        let forwarding = &worker.snapshot().forwarding;
        let origin = forwarding.origin(Some(client), Scheme::Https, &state.listener_policy);
        let is_many = origin.is_trusted() && is_known;
        let is_welcome =
            (is_many || permit.take_share(client)) && permit.count_client(Some(client));
        if !is_welcome {
            return turn_away(arrival);
        }
        let limits = worker.snapshot().h3_limits;
        let Some(accepted) = endpoint.accept(arrival, limits) else { return };
        let timer = worker.io.clock.timer();
        let connection = AdmittedQuic {
            line: Line::new(accepted),
            handshake: Some(Handshake::begin(state)),
            until: timer.clock().deadline(worker.snapshot().timeouts.handshake),
            origin,
            tls: Arc::clone(&self.held.tls),
            timer,
            permit,
            _open: worker.count_connection(),
            worker: Rc::clone(worker),
        };
        drop(tokio::task::spawn_local(Box::new(connection).converse()));
    }

    /// Whether a client that may have made its address up has to show first that it is there: where many handshakes are under way, or
    /// where it would take much of what there is for the client of that address, or for all.
    fn has_to_validate(&self, client: IpAddr) -> bool {
        let ListenerState { udp, config, .. } = &*self.state;
        let under_way = udp.handshakes.load(Ordering::Relaxed);
        under_way >= config.load().retry_above || self.state.is_half_taken(client)
    }
}

/// What has come to a UDP socket.
struct Receiving {
    side: UdpSide,
    datagrams: Datagrams,
    arrivals: Vec<Arrival>,
    /// Until when nothing is received, as that has failed.
    pause: Option<Pin<Box<Sleep>>>,
}

/// Batches of datagrams, before the connections that they are for have their turn.
const BATCHES: usize = 4;

impl Receiving {
    fn new(side: UdpSide) -> Receiving {
        Receiving { side, datagrams: Datagrams::default(), arrivals: Vec::new(), pause: None }
    }

    /// Hands datagrams to their connections, for ever. Where nothing can be received, as the system is out of memory, say, it tries again
    /// a moment later.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Infallible> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        for _ in 0..BATCHES {
            let Receiving { side, datagrams, arrivals, .. } = self;
            match side.endpoint.poll_receive(cx, datagrams, arrivals) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.side.worker.cells().quic_receive_errors.add(1);
                    self.pause = Some(Box::pin(sleep(TICK)));
                    break;
                }
                Poll::Pending => return Poll::Pending,
            }
            if !self.arrivals.is_empty() {
                self.admit();
            }
            self.count();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn count(&self) {
        let EndpointFigures { handed_over, forwarded, retries } = self.side.endpoint.take_figures();
        let cells = self.side.worker.cells();
        cells.quic_handed_over.add(handed_over);
        cells.quic_forwarded.add(forwarded);
        cells.quic_retries.add(retries);
    }

    fn admit(&mut self) {
        let keeps_up = self.side.keep_up();
        for arrival in self.arrivals.drain(..) {
            match keeps_up {
                true => self.side.admit(arrival),
                false => self.side.endpoint.refuse(arrival),
            }
        }
    }

    /// Goes on until the last connection is over; where a successor has the socket, for as long as the worker does, as that may still send
    /// on a client. Until then others may be lent the socket.
    async fn finish(mut self, _lent: Arc<UdpSocket>) {
        let endpoint = Rc::clone(&self.side.endpoint);
        let over = poll_fn(|cx| match endpoint.is_left() {
            true => Poll::Pending,
            false => endpoint.poll_empty(cx),
        });
        tokio::select! {
            () = over => {}
            never = poll_fn(|cx| self.poll(cx)) => match never {},
        }
    }
}

/// A connection whose handshake has begun. When dropped, it closes before it stops being counted.
struct AdmittedQuic {
    line: Line,
    /// As long as it is under way.
    handshake: Option<Handshake>,
    /// Until when it must be complete.
    until: CoarseInstant,
    origin: Origin,
    tls: Arc<ServerTls>,
    timer: Timer,
    permit: ConnectionPermit,
    _open: OpenConnection,
    worker: Rc<Worker>,
}

/// A handshake that counts as under way until this is dropped.
struct Handshake(Arc<ListenerState>);

impl Handshake {
    fn begin(state: &Arc<ListenerState>) -> Handshake {
        state.udp.handshakes.fetch_add(1, Ordering::Relaxed);
        Handshake(Arc::clone(state))
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.udp.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AdmittedQuic {
    async fn converse(mut self: Box<Self>) {
        if self.may_begin().await {
            self.serve().await;
        }
        let AdmittedQuic { mut line, timer, permit, _open, .. } = *self;
        // A drain does not wait for what follows.
        drop(_open);
        let deadline = timer.clock().deadline(LAST_WORD);
        poll_fn(|cx| match line.poll_drained(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => timer.poll(cx, deadline),
        })
        .await;
        // Until here it takes memory, and so a place.
        drop((line, permit));
    }

    /// Holds the handshake until it is complete, or early data has come. False where it has failed.
    async fn may_begin(&mut self) -> bool {
        let AdmittedQuic { line, timer, worker, tls, origin, until, .. } = self;
        let grace = worker.io.grace();
        let has_begun = poll_fn(|cx| match line.poll_connected(cx) {
            Poll::Ready(has_begun) => Poll::Ready(has_begun),
            Poll::Pending => {
                let until = (*until).min(worker.io.idle_until(grace));
                timer.poll(cx, until).map(|()| false)
            }
        });
        let has_begun = has_begun.await;
        let mut link = line.mux().connection();
        let refused = match has_begun {
            false => link.refused(),
            // Whether an earlier session goes on is not known: what it has shown is judged as if one did.
            true => match tls.identify(link.shown(), true) {
                Ok(shown) => {
                    let (server_name, is_resumed) = (link.server_name(), !link.is_confirmed());
                    let agreed = Agreed { is_tls13: true, is_resumed, server_name };
                    origin.agreed = Some(Rc::new(agreed));
                    origin.shown = shown.map(PresentedCertificate::new);
                    if link.is_confirmed() {
                        worker.cells().handshakes[1][0].add(1);
                        self.handshake = None;
                    }
                    return true;
                }
                Err(refused) => {
                    link.refuse();
                    refused
                }
            },
        };
        drop(link);
        count_failed(worker, origin, &refused);
        self.handshake = None;
        // Nothing happens where it has ended.
        line.close(Code::NoError);
        false
    }

    /// Serves the client. Where it has sent early data, its handshake is still under way, and has to be complete in time.
    async fn serve(&mut self) {
        let AdmittedQuic { line, timer, worker, origin, handshake, until, .. } = self;
        let mux = Rc::clone(line.mux());
        let mut serving = Box::pin(h3::serve(line, worker, origin));
        poll_fn(|cx| {
            let served = serving.as_mut().poll(cx);
            if handshake.is_none() {
                return served;
            }
            let mut link = mux.connection();
            if link.is_confirmed() {
                // Early data is taken in sessions that go on alone.
                worker.cells().handshakes[1][1].add(1);
                *handshake = None;
            } else if served.is_ready() || timer.poll(cx, *until).is_ready() {
                count_failed(worker, origin, &link.refused());
                *handshake = None;
                link.give_up();
                drop(link);
                mux.wake_driver();
            }
            served
        })
        .await;
    }
}

fn count_failed(worker: &Worker, origin: &Origin, refused: &Refused) {
    origin.listener_policy.note_refused(refused);
    if matches!(refused, Refused::NoCertificate | Refused::Certificate(_)) {
        worker.cells().certificates_refused.add(1);
    }
    worker.cells().handshakes_failed.add(1);
}
