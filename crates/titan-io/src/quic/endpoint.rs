//! The connections of one UDP socket: which one a datagram is for, and those that begin.

use super::forward::Predecessors;
use super::handover::{AT_ONCE, Foreign, Handover, Way};
use super::ids::EndpointIds;
use super::link::Link;
use super::server::{QuicServer, reset_key};
use super::socket::{Datagrams, QuicSocket};
use crate::error::Side;
use crate::mux::Mux;
use bytes::BytesMut;
use quinn_proto::{
    AcceptError, ClientConfig, ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointConfig,
    EndpointEvent, Incoming, RandomConnectionIdGenerator, Transmit,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;
use tokio::sync::mpsc;

/// What has happened at an endpoint since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointFigures {
    /// Datagrams that were for another endpoint.
    pub handed_over: u64,
    /// Datagrams that a process before this one got, as they may be for connections of it.
    pub forwarded: u64,
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
    /// The other endpoints, where clients may send to any of them.
    team: Option<Team>,
    /// Whether another process reads the socket in place of this one.
    is_left: Cell<bool>,
    figures: Cell<EndpointFigures>,
    /// Whether its connections are to end.
    is_closed: Cell<bool>,
    /// Who receives.
    receiver: RefCell<Waker>,
    /// Who waits for the end of the last connection.
    last: RefCell<Waker>,
}

/// The endpoints at one address, as one of them sees them.
struct Team {
    handover: Arc<Handover>,
    /// Its place among them.
    place: usize,
    ids: EndpointIds,
    /// What has come to others and is for this one.
    foreign: RefCell<mpsc::Receiver<Foreign>>,
    /// The processes before this one, which may have connections of their own.
    predecessors: Arc<Predecessors>,
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
        handover: Arc<Handover>,
        predecessors: Arc<Predecessors>,
        server: QuicServer,
    ) -> io::Result<Rc<Endpoint>> {
        let (place, foreign) = handover.join();
        let ids = EndpointIds::of_place(place).ok_or(io::ErrorKind::Other)?;
        let generator = ids.clone();
        let mut config = EndpointConfig::new(reset_key().ok_or(io::ErrorKind::Other)?);
        config.cid_generator(move || Box::new(generator.clone()));
        let team = Team { handover, place, ids, foreign: RefCell::new(foreign), predecessors };
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
            is_left: Cell::default(),
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

    /// Leaves the socket to another process that has it too, and only sends there from now on: what is for connections of this one comes
    /// from that process.
    pub fn leave(&self) {
        self.is_left.set(true);
    }

    /// Whether it was left.
    pub fn is_left(&self) -> bool {
        self.is_left.get()
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
        let received = match self.is_left.get() {
            true => Poll::Pending,
            false => self.socket.poll_receive(cx, datagrams),
        };
        match received {
            Poll::Pending if has_foreign => return Poll::Ready(Ok(())),
            received => ready!(received)?,
        }
        let now = Instant::now();
        for arrived in datagrams.arrived() {
            let way = (arrived.from, arrived.to, arrived.ecn);
            for bytes in arrived.datagrams() {
                let own = match &self.team {
                    Some(team) => self.share_out(team, Foreign { way, bytes }),
                    None => Some(Foreign { way, bytes }),
                };
                if let Some(Foreign { way, bytes }) = own {
                    self.take(now, way, bytes, arrivals);
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what has come to other endpoints. Whether there was something.
    fn take_foreign(&self, cx: &mut Context<'_>, arrivals: &mut Vec<Arrival>) -> bool {
        let Some(team) = &self.team else { return false };
        let mut foreign = team.foreign.borrow_mut();
        let (mut count, now) = (0, Instant::now());
        while count < AT_ONCE
            && let Poll::Ready(Some(Foreign { way, bytes })) = foreign.poll_recv(cx)
        {
            self.take(now, way, bytes, arrivals);
            count += 1;
        }
        count > 0
    }

    /// Hands a datagram to the endpoint, or the process, that it is for. Given back where it may be for this one.
    fn share_out(&self, team: &Team, datagram: Foreign) -> Option<Foreign> {
        match team.ids.place_of(&datagram.bytes) {
            Some(place) if place != team.place => self.hand_over((team, place), datagram),
            None if self.forward(team, &datagram) => None,
            _ => Some(datagram),
        }
    }

    /// A datagram for another endpoint, where it is lost if that one has too many. Given back where there is none: a client that begins
    /// may have chosen an id that looks like one.
    fn hand_over(&self, (team, place): (&Team, usize), datagram: Foreign) -> Option<Foreign> {
        let given_back = team.handover.pass(place, datagram);
        if given_back.is_none() {
            let figures = self.figures.get();
            self.figures.set(EndpointFigures { handed_over: figures.handed_over + 1, ..figures });
        }
        given_back
    }

    /// A datagram that names no endpoint of this process. Whether it is none for this one.
    fn forward(&self, team: &Team, Foreign { way, bytes }: &Foreign) -> bool {
        let Some(offer) = team.predecessors.offer(way, bytes) else { return false };
        let figures = self.figures.get();
        let forwarded = figures.forwarded + u64::from(offer.is_sent);
        self.figures.set(EndpointFigures { forwarded, ..figures });
        offer.is_theirs
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
        let is_validated = arrival.is_validated();
        let accepted = self.inner.borrow_mut().accept(arrival.0, Instant::now(), &mut out, None);
        match accepted {
            Ok((handle, quic)) => {
                let mux = Mux::new(Link::server(quic, limits, is_validated), Side::Downstream);
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
        if event.is_drained() {
            self.forget(handle);
        }
        self.inner.borrow_mut().handle_event(handle, event)
    }

    /// A connection is over. Its handle is the next one's from now on, however long its streams take to their end.
    fn forget(&self, handle: ConnectionHandle) {
        let mut connections = self.connections.borrow_mut();
        connections.remove(&handle);
        if connections.is_empty() {
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

impl Drop for Accepted {
    fn drop(&mut self) {
        // One that has not told that it is over is forgotten all the same.
        if !self.mux.connection().is_drained {
            self.endpoint.handle(self.handle, EndpointEvent::drained());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::QuicLimits;
    use crate::quic::testing::{TestClient, configs};
    use std::net::Ipv4Addr;
    use std::time::Duration;

    /// An endpoint, and the way of datagrams that have come from its own address.
    fn at_a_socket(server: QuicServer) -> (Rc<Endpoint>, Way) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let way = (socket.local_addr().unwrap(), None, None);
        let endpoint = Endpoint::new(socket, Arc::default(), Arc::default(), server).unwrap();
        (endpoint, way)
    }

    #[tokio::test]
    async fn all_clients_of_one_batch_arrive() {
        const MOST: usize = AT_ONCE + Datagrams::BEGINNINGS;
        let (server, config) = configs();
        let (streams, window) = (8, 1 << 16);
        let limits = QuicLimits {
            streams,
            stream_window: window,
            connection_window: window,
            head: window,
            send_window: window.into(),
            idle: Duration::from_secs(1),
        };
        let (endpoint, way) = at_a_socket(QuicServer::of(server, &limits));
        let (now, mut arrivals) = (Instant::now(), Vec::new());
        for _ in 0..=MOST {
            for datagram in TestClient::new(config.clone(), now).sends(now) {
                endpoint.take(now, way, datagram, &mut arrivals);
            }
        }
        assert_eq!(arrivals.len(), MOST, "and no more");
        arrivals.into_iter().for_each(|arrival| endpoint.refuse(arrival));
    }

    #[tokio::test]
    async fn a_connection_whose_handle_is_used_again_is_found() {
        let (server, config) = configs();
        let (endpoint, way) = at_a_socket(QuicServer(Arc::new(server)));
        let accepted = || {
            let (now, mut arrivals) = (Instant::now(), Vec::new());
            for datagram in TestClient::new(config.clone(), now).sends(now) {
                endpoint.take(now, way, datagram, &mut arrivals);
            }
            endpoint.accept(arrivals.remove(0), titan_h3::Limits::default()).unwrap()
        };
        let is_empty = || {
            let cx = Context::from_waker(Waker::noop());
            endpoint.poll_empty(&cx).is_ready()
        };
        let first = accepted();
        endpoint.handle(first.handle, EndpointEvent::drained());
        first.mux.connection().is_drained = true;
        assert!(is_empty());
        let second = accepted();
        assert_eq!(second.handle, first.handle);
        drop(first);
        let found = endpoint.connections.borrow().get(&second.handle).map(Rc::clone);
        assert!(found.is_some_and(|found| Rc::ptr_eq(&found, &second.mux)));
        assert!(!is_empty());
        drop(second);
        assert!(is_empty());
    }
}
