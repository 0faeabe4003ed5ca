//! Accepting: connection limits, the PROXY protocol, handshakes.

use crate::downstream::{self, Client};
use crate::listener_id::ListenerId;
use crate::listener_policy::ListenerPolicy;
use crate::origin::PresentedCertificate;
use crate::proxy_protocol;
use crate::socket::{Acceptor, BoundSocket};
use crate::tls_route::TlsRoute;
use crate::worker::{CurrentSnapshot, OpenConnection, Worker};
use arc_swap::ArcSwap;
use quic::UdpShared;
use rustix::io::Errno;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as std_mpsc};
use std::task::Poll;
use titan_config::Cidr;
use titan_config::TlsMode;
use titan_http::Scheme;
use titan_io::clock::{CoarseInstant, TICK};
use titan_io::network::ClientNetwork;
use titan_io::registry::Registry;
use titan_io::shares::{ClientCounter, Shares};
use titan_io::stream::{Agreed, Stream};
use titan_io::tls::{self, Alert, Alpn, BadCredentials, Files, Refused, ServerTls, TicketSecrets};
use titan_io::transport::Transport;
use tokio::sync::mpsc;

/// A bound socket of one worker. It may have several of one listener.
pub(crate) struct Listener {
    /// Which side of which listener it is.
    pub(crate) id: ListenerId,
    pub(crate) socket: BoundSocket,
    pub(crate) state: Arc<ListenerState>,
}

/// What a listener does besides accepting. What an order brings to say that it is done is dropped then.
pub(crate) enum ListenerOrder {
    /// Give a duplicate of the socket to a successor of the process.
    Lend(std_mpsc::SyncSender<LentSocket>),
    /// Close the socket, which others have too: what waits there is theirs.
    Leave(Done),
    /// Accept what waits, and close the socket; one for UDP keeps it for as long as there are connections.
    Close(Done),
    /// Begin again after that, with what is left.
    Open,
}

/// A duplicate of a socket, and whose it is.
pub(crate) type LentSocket = (ListenerId, io::Result<OwnedFd>);

/// Nothing is ever sent: this is dropped when something is done.
pub(crate) type Done = std_mpsc::SyncSender<Infallible>;

/// What decides which connections a listener admits; one for all workers. It stays as long as something listens at the address or
/// a connection that came in there is open: a reload changes its settings.
pub(crate) struct ListenerState {
    pub(crate) id: ListenerId,
    config: ArcSwap<titan_config::Listener>,
    pub(crate) listener_policy: Arc<ListenerPolicy>,
    open: AtomicU32,
    /// What clients have of `max_connections`.
    used: Shares,
    /// Connections by client; only looked at where the configuration limits them.
    by_client: Mutex<HashMap<ClientNetwork, u32>>,
    pub(crate) udp: UdpShared,
}

/// The settings of a listener, ready to be in force.
pub(crate) struct PreparedListener {
    state: Arc<ListenerState>,
    config: titan_config::Listener,
    tls: Option<ServerTls>,
}

/// A connection's permit at a listener; left when dropped.
struct ConnectionPermit {
    state: Arc<ListenerState>,
    /// Where the connection is counted as its client's.
    counter: Option<ClientCounter>,
    client: Option<ClientNetwork>,
}

impl PreparedListener {
    /// Makes a listener ready. At an address that is in `registry` it goes on with the connections that are open there, and
    /// tickets stay valid if the same clients are accepted.
    pub(crate) fn new(
        config: &titan_config::Listener,
        id: ListenerId,
        files: &Files,
        registry: &Registry,
    ) -> Result<PreparedListener, BadCredentials> {
        let state = registry.shared(id.clone(), || ListenerState::new(id, config));
        let tls = config.tls.as_ref().map(|tls| match state.listener_policy.tls() {
            Some(now) => now.renew(tls, config.protocols, files),
            None => ServerTls::new(tls, config.protocols, files),
        });
        Ok(PreparedListener { tls: tls.transpose()?, config: config.clone(), state })
    }

    /// The same with tickets that a process before this one has made staying valid, if the same clients are accepted.
    #[must_use]
    pub(crate) fn succeeding(mut self, tickets: &TicketSecrets) -> PreparedListener {
        self.tls = self.tls.map(|tls| tls.succeeding(tickets));
        self
    }

    /// The state that it will be in force in.
    pub(crate) fn state(&self) -> &Arc<ListenerState> {
        &self.state
    }

    /// Has the settings hold from now on, also for connections that are open.
    pub(crate) fn take_effect(self) {
        let PreparedListener { state, config, tls } = self;
        state.listener_policy.set(&config, tls);
        state.config.store(Arc::new(config));
    }
}

impl ListenerState {
    fn new(id: ListenerId, config: &titan_config::Listener) -> ListenerState {
        ListenerState {
            listener_policy: Arc::new(ListenerPolicy::of(id.clone())),
            id,
            config: ArcSwap::from_pointee(config.clone()),
            open: AtomicU32::new(0),
            used: Shares::default(),
            by_client: Mutex::default(),
            udp: UdpShared::default(),
        }
    }

    /// Admits a connection, unless there are too many.
    fn enter(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let most = self.config.load().max_connections.get();
        let more = |open| (open < most).then_some(open + 1);
        self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(ConnectionPermit { state: Arc::clone(self), counter: None, client: None })
    }

    /// Whether one more connection of that client would be beyond half of those that it may have, or half of all that there may be. Who
    /// only pretends to be there leaves the other half to who is.
    fn is_half_taken(&self, client: IpAddr) -> bool {
        let config = self.config.load();
        let is_beyond = |open: u32, most: u32| open.saturating_add(1) > most / 2;
        if is_beyond(self.open.load(Ordering::Acquire), config.max_connections.get()) {
            return true;
        }
        config.max_connections_per_client.at_most().is_some_and(|most| {
            let open = self.by_client().get(&ClientNetwork::of(client)).copied();
            is_beyond(open.unwrap_or_default(), most.get())
        })
    }

    /// Whether a connection from `peer` starts with a PROXY protocol header.
    fn expects_header(&self, peer: Option<IpAddr>) -> bool {
        let config = self.config.load();
        let Some(protocol) = &config.proxy_protocol else { return false };
        peer.is_some_and(|peer| protocol.from.iter().any(|block: &Cidr| block.contains(peer)))
    }

    fn by_client(&self) -> MutexGuard<'_, HashMap<ClientNetwork, u32>> {
        self.by_client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Counts the connection as its client's, if what is left is enough for one more of it: the last places are for
    /// clients that have few.
    fn take_share(&mut self, client: IpAddr) -> bool {
        let ListenerState { config, used, open, .. } = &*self.state;
        let counter = used.counter(Some(ClientNetwork::of(client)));
        let others = open.load(Ordering::Acquire).saturating_sub(1);
        let most = config.load().max_connections.get();
        let is_admitted = used.admits_to(counter, others, most);
        if is_admitted {
            used.take(counter);
            self.counter = Some(counter);
        }
        is_admitted
    }

    /// Counts the connection against its client's limit. False when that is reached.
    fn count_client(&mut self, client: Option<IpAddr>) -> bool {
        let most = self.state.config.load().max_connections_per_client.at_most();
        let (Some(most), Some(client)) = (most, client.map(ClientNetwork::of)) else { return true };
        let mut counts = self.state.by_client();
        let count = counts.entry(client).or_default();
        if *count >= most.get() {
            return false;
        }
        *count += 1;
        drop(counts);
        self.client = Some(client);
        true
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let state = &self.state;
        state.open.fetch_sub(1, Ordering::AcqRel);
        if let Some(counter) = self.counter {
            state.used.give_back(counter);
        }
        let Some(client) = self.client else { return };
        let mut counts = state.by_client();
        if let Some(count) = counts.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&client);
            }
        }
    }
}

impl Listener {
    /// Accepts connections and serves each in a task of its own, until it is told to close or nobody can tell it any more.
    pub(crate) async fn serve(
        self,
        worker: Rc<Worker>,
        mut orders: mpsc::Receiver<ListenerOrder>,
    ) -> io::Result<()> {
        let Listener { id, socket, state } = self;
        let socket = match socket {
            BoundSocket::Listening(socket) => Acceptor::new(socket)?,
            BoundSocket::Udp(socket) => {
                return quic::serve((id, state), socket, worker, orders).await;
            }
        };
        let done = loop {
            let accepts = worker.accepts();
            let next = poll_fn(|cx| match orders.poll_recv(cx) {
                Poll::Ready(order) => Poll::Ready(Next::Order(order)),
                Poll::Pending if !accepts => Poll::Pending,
                Poll::Pending if worker.accepts() => socket.poll_accept(cx).map(Next::Accepted),
                // What has woken it waits in the kernel.
                Poll::Pending => Poll::Ready(Next::Pause),
            });
            let next = match accepts {
                true => next.await,
                false => {
                    worker.cells().pressure_pauses.add(1);
                    tokio::time::timeout(TICK, next).await.unwrap_or(Next::Pause)
                }
            };
            match next {
                Next::Pause => {}
                Next::Accepted(Ok((stream, peer))) => admit(&worker, &state, stream, peer),
                Next::Accepted(Err(error)) if is_exhausted(&error) => {
                    tokio::time::sleep(TICK).await;
                }
                // What is wrong is wrong with that client: it has left the queue, say.
                Next::Accepted(Err(_)) => {}
                // There is room for all. Where nobody waits for it any more, nobody needs it.
                Next::Order(Some(ListenerOrder::Lend(borrower))) => {
                    let _ = borrower.try_send((id.clone(), socket.lend()));
                }
                Next::Order(Some(ListenerOrder::Leave(done))) => {
                    drop((socket, done));
                    return Ok(());
                }
                Next::Order(Some(ListenerOrder::Close(done))) => break Some(done),
                // Only one for UDP outlives that it was closed.
                Next::Order(Some(ListenerOrder::Open)) => {}
                Next::Order(None) => break None,
            }
        };
        // Closing the socket would reset those that the kernel has already accepted. It is the kernel that is asked:
        // the runtime knows of those only that it has been told of.
        let socket = socket.into_std()?;
        while let Ok((stream, peer)) = socket.accept() {
            admit(&worker, &state, stream, peer);
        }
        drop((socket, done));
        Ok(())
    }
}

/// What a listener waits for.
enum Next {
    Accepted(io::Result<(Stream, Option<IpAddr>)>),
    Order(Option<ListenerOrder>),
    /// Nothing, for a tick.
    Pause,
}

/// Whether accepting failed for want of descriptors or memory, and would fail again at once.
fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn admit(worker: &Rc<Worker>, state: &Arc<ListenerState>, stream: Stream, peer: Option<IpAddr>) {
    let Some(permit) = state.enter() else {
        worker.cells().refused.add(1);
        return;
    };
    let client = Client {
        worker: Rc::clone(worker),
        transport: Transport::new(&worker.io, stream),
        origin: worker.snapshot().forwarding.origin(peer, Scheme::Http, &state.listener_policy),
        is_responding: false,
    };
    let guest = Box::new(AdmittedConnection { client, permit, _open: worker.count_connection() });
    drop(tokio::task::spawn_local(guest.converse()));
}

/// An accepted connection. When dropped, it closes before it stops being counted.
struct AdmittedConnection {
    client: Client,
    permit: ConnectionPermit,
    _open: OpenConnection,
}

impl AdmittedConnection {
    async fn converse(mut self: Box<Self>) {
        let is_welcome = self.is_introduced().await
            && self.has_share()
            && self.permit.count_client(self.client.origin.address);
        if !is_welcome {
            self.client.worker.cells().refused.add(1);
        } else if self.may_have_tls_routes() {
            // Boxed: connections of listeners that have none need no room for it.
            Box::pin(self.route()).await;
        } else if self.is_secured(Alpn::Configured, self.handshake_deadline()).await {
            self.serve_http().await;
        }
    }

    /// Serves HTTP, to a client that has held the handshake where the listener requires one. What the listener requires may have changed
    /// since it was asked for that.
    async fn serve_http(&mut self) {
        let AdmittedConnection { client, permit, .. } = self;
        let policy = &permit.state.listener_policy;
        if client.origin.scheme == Scheme::Https || policy.admits_plain() {
            let protocols = permit.state.config.load().protocols;
            downstream::serve(client, &protocols).await;
        }
    }

    /// Whether TLS routes may decide. While a reload is under way the rules of the listener and what the worker serves from are not of one
    /// configuration: if either has TLS routes, the connection is not served without TLS.
    fn may_have_tls_routes(&self) -> bool {
        let ListenerState { id, listener_policy, .. } = &*self.permit.state;
        listener_policy.has_tls_routes() || self.client.worker.snapshot().tls_routes(id).is_some()
    }

    /// The TLS route that takes clients which ask for that name, and what it is part of.
    fn find_route(&self, name: Option<&str>) -> Option<(Arc<TlsRoute>, CurrentSnapshot)> {
        let snapshot = self.client.worker.snapshot();
        let route = snapshot.tls_routes(&self.permit.state.id)?.find(name).map(Arc::clone)?;
        Some((route, snapshot))
    }

    /// The route that takes it before anything is read, and what it is part of.
    fn tcp_route(&self) -> Option<(Arc<TlsRoute>, CurrentSnapshot)> {
        let snapshot = self.client.worker.snapshot();
        let route = snapshot.tls_routes(&self.permit.state.id)?.tcp().map(Arc::clone)?;
        Some((route, snapshot))
    }

    /// Has the connection go where the name leads to that the client asks for: to an upstream if a TLS route takes it.
    async fn route(&mut self) {
        if let Some((route, snapshot)) = self.tcp_route() {
            return downstream::raw::serve(&mut self.client, snapshot, route, None).await;
        }
        let deadline = self.handshake_deadline();
        let hello = match tls::read_hello(&mut self.client.transport, deadline).await {
            Ok(hello) => hello,
            Err(refused) => return self.refuse_hello(refused, Alert::DecodeError).await,
        };
        self.client.transport.renew_grace();
        match self.find_route(hello.server_name.as_deref()) {
            Some((route, snapshot)) => {
                // A reload may just have taken the certificates from the listener.
                let goes_on = route.mode != TlsMode::Terminate
                    || self.is_secured(Alpn::Nothing, deadline).await
                        && self.client.origin.scheme == Scheme::Https;
                if goes_on {
                    let name = hello.server_name.as_deref();
                    downstream::raw::serve(&mut self.client, snapshot, route, name).await;
                }
            }
            None if self.permit.state.listener_policy.tls().is_some() => {
                if self.is_secured(Alpn::Configured, deadline).await {
                    self.serve_http().await;
                }
            }
            None => {
                let why = "no TLS route takes the name that the client asks for".to_owned();
                self.refuse_hello(Refused::Failed(why), Alert::UnrecognizedName).await;
            }
        }
    }

    /// Ends a connection whose ClientHello leads nowhere.
    async fn refuse_hello(&mut self, refused: Refused, alert: Alert) {
        if let Refused::Failed(_) = refused {
            tls::alert(&self.client.transport, alert);
            tls::linger(&mut self.client.transport).await;
        }
        self.refuse(refused).await;
    }

    /// Until when a handshake that begins now has to be complete.
    fn handshake_deadline(&self) -> CoarseInstant {
        let Client { worker, transport, .. } = &self.client;
        transport.io.clock.deadline(worker.snapshot().timeouts.handshake)
    }

    /// Whether the listener has a permit left for that client. A trusted proxy stands for many.
    fn has_share(&mut self) -> bool {
        let origin = &self.client.origin;
        let single = origin.address.filter(|_| !origin.is_trusted());
        single.is_none_or(|client| self.permit.take_share(client))
    }

    /// Holds the handshake, where this listener speaks TLS.
    async fn is_secured(&mut self, alpn: Alpn, deadline: CoarseInstant) -> bool {
        let AdmittedConnection { client, permit, .. } = self;
        let Some(server) = permit.state.listener_policy.tls() else { return true };
        let accepted = Box::pin(tls::accept(&mut client.transport, &server, alpn, deadline)).await;
        match accepted {
            Ok(shown) => {
                client.transport.renew_grace();
                client.origin.scheme = Scheme::Https;
                let agreed = client.transport.stream.agreed();
                if let Some(Agreed { is_tls13, is_resumed, .. }) = agreed {
                    let cells = client.worker.cells();
                    cells.handshakes[usize::from(is_tls13)][usize::from(is_resumed)].add(1);
                }
                client.origin.agreed = agreed.map(Rc::new);
                client.origin.shown = shown.map(PresentedCertificate::new);
                true
            }
            // Boxed: few connections come to this, and all others would keep the room for it while they wait.
            Err(refused) => {
                Box::pin(self.refuse(refused)).await;
                false
            }
        }
    }

    /// Notes why a connection is not served, and ends it so that its client sees that.
    async fn refuse(&mut self, refused: Refused) {
        let AdmittedConnection { client, permit, .. } = self;
        permit.state.listener_policy.note_refused(&refused);
        match refused {
            Refused::Plain => tls::respond_plain(&mut client.transport).await,
            Refused::NoCertificate | Refused::Certificate(_) => {
                client.worker.cells().certificates_refused.add(1);
                tls::linger(&mut client.transport).await;
            }
            Refused::Failed(_) | Refused::Gone => {}
            Refused::Silent => return,
        }
        client.worker.cells().handshakes_failed.add(1);
    }

    /// Reads the client's address, if a balancer in front sends it.
    async fn is_introduced(&mut self) -> bool {
        let AdmittedConnection { client, permit, .. } = self;
        if !permit.state.expects_header(client.origin.address) {
            return true;
        }
        let deadline = client.worker.snapshot().timeouts.head;
        let deadline = client.transport.io.clock.deadline(deadline);
        let read = Box::pin(proxy_protocol::read(&mut client.transport, deadline)).await;
        client.transport.renew_grace();
        match read {
            Ok(Some(address)) => {
                let forwarding = &client.worker.snapshot().forwarding;
                let accepted = client.origin.accepted;
                client.origin =
                    forwarding.origin(Some(address), Scheme::Http, &permit.state.listener_policy);
                client.origin.accepted = accepted;
                true
            }
            // A health check of the balancer itself, or a client it cannot name.
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

mod quic;

#[cfg(test)]
mod drain_tests;
#[cfg(test)]
mod quic_tests;
#[cfg(test)]
mod reload_tests;

#[cfg(test)]
mod tests;
