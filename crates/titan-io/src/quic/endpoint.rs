//! The connections of one UDP socket: which one a datagram is for, and those that begin.

use super::ids::WorkerIds;
use super::link::Link;
use super::server::{QuicServer, reset_key};
use super::socket::{Datagrams, QuicSocket};
use crate::error::Side;
use crate::mux::Mux;
use bytes::BytesMut;
use quinn_proto::{
    AcceptError, ClientConfig, ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint,
    EndpointConfig, EndpointEvent, Incoming, RandomConnectionIdGenerator, Transmit,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// The sockets of all workers at one address: datagrams that come to the wrong one are handed over.
#[derive(Default)]
pub struct Handover(Mutex<HashMap<usize, mpsc::Sender<Foreign>>>);

/// What is told of a datagram beside its bytes: where it comes from, where it was sent to, and whether there is congestion on the way.
type Way = (SocketAddr, Option<IpAddr>, Option<EcnCodepoint>);

/// A datagram that has come to another worker than the one that it is for.
struct Foreign {
    way: Way,
    bytes: BytesMut,
}

/// Datagrams of others, before those of the own socket have their turn.
const FOREIGN: usize = 64;
/// Datagrams that may wait for a worker: beyond that they are lost, as any may be.
const WAITING: usize = 1024;

impl Handover {
    /// Where that worker finds what has come to others.
    fn join(&self, worker: usize) -> mpsc::Receiver<Foreign> {
        let (sender, receiver) = mpsc::channel(WAITING);
        self.workers().insert(worker, sender);
        receiver
    }

    /// A datagram for that worker, where it is lost if that one has too many. Given back where there is none.
    fn pass(&self, worker: usize, datagram: Foreign) -> Option<Foreign> {
        let workers = self.workers();
        let Some(other) = workers.get(&worker) else { return Some(datagram) };
        match other.try_send(datagram) {
            Err(TrySendError::Closed(datagram)) => Some(datagram),
            Ok(()) | Err(TrySendError::Full(_)) => None,
        }
    }

    fn workers(&self) -> MutexGuard<'_, HashMap<usize, mpsc::Sender<Foreign>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has happened at an endpoint since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointFigures {
    /// Datagrams that were for another worker.
    pub handed_over: u64,
    /// Clients that were asked to show that they receive what is sent to them.
    pub retries: u64,
}

/// The connections of one UDP socket.
pub struct Endpoint {
    pub(super) socket: QuicSocket,
    inner: RefCell<quinn_proto::Endpoint>,
    connections: RefCell<HashMap<ConnectionHandle, Rc<Mux<Link>>>>,
    /// How handshakes of clients are held. None where there are none: this side opens the connections.
    server: RefCell<Option<QuicServer>>,
    /// Memory for what is sent.
    out: RefCell<Vec<u8>>,
    /// Connections that wait until the kernel takes more.
    blocked: RefCell<Vec<Rc<Mux<Link>>>>,
    /// The other workers, where clients may send to any of them.
    team: Option<Team>,
    figures: Cell<EndpointFigures>,
    /// Whether its connections are to end.
    is_closed: Cell<bool>,
    /// Who receives.
    receiver: RefCell<Waker>,
    /// Who waits for the end of the last connection.
    last: RefCell<Waker>,
}

/// The workers that listen at one address, as one of them sees them.
struct Team {
    handover: Arc<Handover>,
    /// Those of this worker.
    ids: WorkerIds,
    /// What has come to others and is for this one.
    foreign: RefCell<mpsc::Receiver<Foreign>>,
}

/// A connection whose handshake has begun, forgotten when dropped.
pub struct Accepted {
    pub(super) endpoint: Rc<Endpoint>,
    pub(super) handle: ConnectionHandle,
    pub(super) mux: Rc<Mux<Link>>,
}

/// A client whose first datagram has come.
pub struct Arrival(Incoming);

impl Arrival {
    /// Where it comes from. It may be made up, as long as it was not validated.
    pub fn peer(&self) -> SocketAddr {
        self.0.remote_address()
    }

    /// Whether the client has shown that it receives what is sent to its address.
    pub fn is_validated(&self) -> bool {
        self.0.remote_address_validated()
    }

    /// Whether it may be asked to show that, which costs it a round trip.
    pub fn may_retry(&self) -> bool {
        self.0.may_retry()
    }

    /// Where it has sent to.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.0.local_ip()
    }
}

impl Endpoint {
    /// One that makes a bound socket a part of the runtime that this is called in.
    ///
    /// # Errors
    ///
    /// When the system does not allow that.
    pub fn new(
        socket: UdpSocket,
        ids: WorkerIds,
        handover: Arc<Handover>,
        server: QuicServer,
    ) -> io::Result<Rc<Endpoint>> {
        let generator = ids.clone();
        let mut config = EndpointConfig::new(reset_key().ok_or(io::ErrorKind::Other)?);
        config.cid_generator(move || Box::new(generator.clone()));
        let foreign = RefCell::new(handover.join(ids.worker()));
        let team = Team { handover, ids, foreign };
        Endpoint::of(socket, config, Some(server), Some(team))
    }

    /// One whose connections this side opens, at a bound socket. Datagrams for it come to no other one: they need no connection ids.
    ///
    /// # Errors
    ///
    /// When the system does not allow that.
    pub(super) fn client(socket: UdpSocket) -> io::Result<Rc<Endpoint>> {
        let mut config = EndpointConfig::new(reset_key().ok_or(io::ErrorKind::Other)?);
        config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
        Endpoint::of(socket, config, None, None)
    }

    fn of(
        socket: UdpSocket,
        config: EndpointConfig,
        server: Option<QuicServer>,
        team: Option<Team>,
    ) -> io::Result<Rc<Endpoint>> {
        let socket = QuicSocket::new(socket)?;
        let may_learn_size = !socket.may_fragment();
        let handshakes = server.as_ref().map(|server| Arc::clone(&server.0));
        let inner = quinn_proto::Endpoint::new(Arc::new(config), handshakes, may_learn_size, None);
        Ok(Rc::new(Endpoint {
            socket,
            inner: RefCell::new(inner),
            connections: RefCell::default(),
            server: RefCell::new(server),
            out: RefCell::default(),
            blocked: RefCell::default(),
            team,
            figures: Cell::default(),
            is_closed: Cell::new(false),
            receiver: RefCell::new(Waker::noop().clone()),
            last: RefCell::new(Waker::noop().clone()),
        }))
    }

    /// Holds handshakes so from now on.
    pub fn configure(&self, server: &QuicServer) {
        if !self.server.borrow().as_ref().is_some_and(|before| before.is(server)) {
            self.inner.borrow_mut().set_server_config(Some(Arc::clone(&server.0)));
            self.server.replace(Some(server.clone()));
        }
    }

    /// Waits for datagrams, and hands them to their connections, whose tasks it wakes. Clients that are new are put into `arrivals`.
    ///
    /// # Errors
    ///
    /// When the socket fails.
    pub fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        datagrams: &mut Datagrams,
        arrivals: &mut Vec<Arrival>,
    ) -> Poll<io::Result<()>> {
        self.wake_blocked(cx);
        let has_foreign = self.take_foreign(cx, arrivals);
        match self.socket.poll_receive(cx, datagrams) {
            Poll::Pending if has_foreign => return Poll::Ready(Ok(())),
            received => ready!(received)?,
        }
        let now = Instant::now();
        for arrived in datagrams.arrived() {
            let way = (arrived.from, arrived.to, arrived.ecn);
            for bytes in arrived.datagrams() {
                let own = match self.team.as_ref().and_then(|team| team.other_for(&bytes)) {
                    Some(other) => self.hand_over(&other, Foreign { way, bytes }),
                    None => Some(Foreign { way, bytes }),
                };
                if let Some(Foreign { way, bytes }) = own {
                    self.take(now, way, bytes, arrivals);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what has come to other workers. Whether there was something.
    fn take_foreign(&self, cx: &mut Context<'_>, arrivals: &mut Vec<Arrival>) -> bool {
        let Some(team) = &self.team else { return false };
        let mut foreign = team.foreign.borrow_mut();
        let (mut count, now) = (0, Instant::now());
        while count < FOREIGN
            && let Poll::Ready(Some(Foreign { way, bytes })) = foreign.poll_recv(cx)
        {
            self.take(now, way, bytes, arrivals);
            count += 1;
        }
        count > 0
    }

    /// A datagram for another worker, where it is lost if that one has too many. Given back where there is none: a client that begins
    /// may have chosen an id that looks like one.
    fn hand_over(&self, (team, worker): &(&Team, usize), datagram: Foreign) -> Option<Foreign> {
        let given_back = team.handover.pass(*worker, datagram);
        if given_back.is_none() {
            let figures = self.figures.get();
            self.figures.set(EndpointFigures { handed_over: figures.handed_over + 1, ..figures });
        }
        given_back
    }

    /// What has happened since it was asked last.
    pub fn take_figures(&self) -> EndpointFigures {
        self.figures.take()
    }

    fn take(
        &self,
        now: Instant,
        (from, to, ecn): Way,
        datagram: BytesMut,
        arrivals: &mut Vec<Arrival>,
    ) {
        let mut out = self.out.borrow_mut();
        out.clear();
        let event = self.inner.borrow_mut().handle(now, from, to, ecn, datagram, &mut out);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(mux) = self.connections.borrow().get(&handle) {
                    mux.connection().quic.handle_event(event);
                    // A connection of this side's own receives by itself.
                    if self.team.is_some() {
                        mux.wake_driver();
                    }
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => arrivals.push(Arrival(incoming)),
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, &out),
            None => {}
        }
    }

    /// Begins the handshake with a client. None if that fails at once.
    pub fn accept(self: &Rc<Self>, arrival: Arrival, limits: titan_h3::Limits) -> Option<Accepted> {
        let mut out = self.out.borrow_mut();
        out.clear();
        let accepted = self.inner.borrow_mut().accept(arrival.0, Instant::now(), &mut out, None);
        match accepted {
            Ok((handle, quic)) => {
                let mux = Mux::new(Link::server(quic, limits), Side::Downstream);
                self.connections.borrow_mut().insert(handle, Rc::clone(&mux));
                Some(Accepted { endpoint: Rc::clone(self), handle, mux })
            }
            Err(AcceptError { response: Some(transmit), .. }) => {
                self.send(&transmit, &out);
                None
            }
            Err(_) => None,
        }
    }

    /// Begins the handshake with a server.
    ///
    /// # Errors
    ///
    /// When its name is none, or nothing can be sent to its address.
    pub(super) fn connect(
        self: &Rc<Self>,
        config: ClientConfig,
        (to, name): (SocketAddr, &str),
        limits: titan_h3::Limits,
    ) -> io::Result<Accepted> {
        let begun = self.inner.borrow_mut().connect(Instant::now(), config, to, name);
        let (handle, quic) = begun.map_err(io::Error::other)?;
        let mux = Mux::new(Link::client(quic, limits), Side::Upstream);
        self.connections.borrow_mut().insert(handle, Rc::clone(&mux));
        Ok(Accepted { endpoint: Rc::clone(self), handle, mux })
    }

    /// Tells a client that it is not served (CONNECTION_REFUSED).
    pub fn refuse(&self, arrival: Arrival) {
        let mut out = self.out.borrow_mut();
        out.clear();
        let transmit = self.inner.borrow_mut().refuse(arrival.0, &mut out);
        self.send(&transmit, &out);
    }

    /// Asks a client to show that it receives what is sent to its address (RFC 9000 section 8.1.2).
    pub fn retry(&self, arrival: Arrival) {
        let mut out = self.out.borrow_mut();
        out.clear();
        let retried = self.inner.borrow_mut().retry(arrival.0, &mut out);
        if let Ok(transmit) = retried {
            self.send(&transmit, &out);
            let figures = self.figures.get();
            self.figures.set(EndpointFigures { retries: figures.retries + 1, ..figures });
        }
    }

    /// Has its connections end in good order. That none begins is up to the caller.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.connections.borrow().values().for_each(|mux| mux.wake_driver());
    }

    /// Has those go on that begin from now on.
    pub fn open(&self) {
        self.is_closed.set(false);
    }

    /// Whether its connections are to end.
    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Waits until no connection is left.
    pub fn poll_empty(&self, cx: &Context<'_>) -> Poll<()> {
        self.last.borrow_mut().clone_from(cx.waker());
        if self.connections.borrow().is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Where clients send to.
    ///
    /// # Errors
    ///
    /// When the system does not say it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What a connection tells of itself, and what is to be told to it because of that.
    pub(super) fn handle(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        self.inner.borrow_mut().handle_event(handle, event)
    }

    /// A connection is over, and its id means nothing more. One that has not told that itself is forgotten all the same.
    fn forget(&self, handle: ConnectionHandle, is_drained: bool) {
        if self.connections.borrow_mut().remove(&handle).is_some() && !is_drained {
            self.inner.borrow_mut().handle_event(handle, EndpointEvent::drained());
        }
        if self.connections.borrow().is_empty() {
            self.last.borrow().wake_by_ref();
        }
    }

    /// Memory for what a connection sends, which is empty.
    pub(super) fn out(&self) -> std::cell::RefMut<'_, Vec<u8>> {
        let mut out = self.out.borrow_mut();
        out.clear();
        out
    }

    /// A connection whose datagrams the kernel does not take now.
    pub(super) fn await_room(&self, mux: &Rc<Mux<Link>>) {
        if !std::mem::replace(&mut mux.connection().awaits_room, true) {
            self.blocked.borrow_mut().push(Rc::clone(mux));
        }
        self.receiver.borrow().wake_by_ref();
    }

    /// A socket has room for one task that waits to write: this one wakes the others.
    fn wake_blocked(&self, cx: &mut Context<'_>) {
        self.receiver.borrow_mut().clone_from(cx.waker());
        if !self.blocked.borrow().is_empty() && self.socket.poll_writable(cx).is_ready() {
            for mux in self.blocked.borrow_mut().drain(..) {
                mux.connection().awaits_room = false;
                mux.wake_driver();
            }
        }
    }

    /// What belongs to no connection is lost where the kernel takes nothing: whoever asked asks again.
    fn send(&self, transmit: &Transmit, bytes: &[u8]) {
        self.socket.send(transmit, bytes);
    }
}

impl Team {
    /// The other worker that a datagram is for.
    fn other_for(&self, datagram: &[u8]) -> Option<(&Team, usize)> {
        let worker = self.ids.worker_of(datagram)?;
        (worker != self.ids.worker()).then_some((self, worker))
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        let is_drained = self.mux.connection().is_drained;
        self.endpoint.forget(self.handle, is_drained);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn what_looks_like_a_workers_is_given_back_where_there_is_none() {
        let handover = Handover::default();
        let datagram = || {
            let way = ((Ipv4Addr::LOCALHOST, 1).into(), None, None);
            Foreign { way, bytes: BytesMut::from(&b"any"[..]) }
        };
        let mut received = handover.join(3);
        assert!(handover.pass(3, datagram()).is_none());
        assert_eq!(received.try_recv().unwrap().bytes, b"any"[..]);
        assert!(handover.pass(7, datagram()).is_some(), "there was never one");
        drop(received);
        assert!(handover.pass(3, datagram()).is_some(), "it is no more");
    }
}
