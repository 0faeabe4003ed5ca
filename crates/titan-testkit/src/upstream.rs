//! Endpoints behind the gateway: driven by the test itself, or responding on their own.

use crate::deadline::{DEADLINE, waits_until};
use crate::h2::Endpoint;
use crate::message::{Request, shown};
use crate::peer::Peer;
use crate::stream::Stream;
use socket2::{Domain, SockRef, Socket, Type};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// An endpoint that listens; what is said on its connections is up to the test.
///
/// Shown as its address, as it stands in a configuration.
#[derive(Debug)]
pub struct Listening {
    socket: Acceptor,
    address: Address,
    accepted: std::cell::Cell<usize>,
}

/// An endpoint that responds to every request by itself, and remembers it.
///
/// Shown as its address, as it stands in a configuration.
pub struct Upstream {
    address: Address,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// An endpoint that accepts no connection.
///
/// Shown as its address, as it stands in a configuration.
pub struct Full {
    _socket: TcpListener,
    _queued: Vec<Stream>,
    address: SocketAddr,
}

/// An endpoint at a free port of 127.0.0.1.
pub fn listens() -> Listening {
    listens_at((Ipv4Addr::LOCALHOST, 0).into())
}

/// An endpoint at that address.
pub fn listens_at(address: SocketAddr) -> Listening {
    let socket = TcpListener::bind(address).expect("the address is free");
    let address = socket.local_addr().expect("a bound socket has an address");
    Listening::new(Acceptor::Tcp(socket), Address::Tcp(address))
}

/// An endpoint at a Unix socket, which is created.
pub fn listens_at_unix(path: &Path) -> Listening {
    let socket = UnixListener::bind(path).expect("the path is free");
    Listening::new(Acceptor::Unix(socket), Address::Unix(path.to_owned()))
}

/// An endpoint that gives every request that response, and keeps its connections open.
pub fn replies(response: impl Into<Vec<u8>>) -> Upstream {
    let response = response.into();
    responds(move |_| response.clone())
}

/// An endpoint that gives every request what `response` makes of it.
pub fn responds(response: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Upstream {
    listens().responds(response)
}

/// An endpoint of HTTP/2 that gives every request what `response` makes of it, in bytes of HTTP/1.1.
pub fn responds_h2(response: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Upstream {
    listens().responds_h2(response)
}

/// An endpoint of HTTP/2 that gives every request that response, which is written as in HTTP/1.1.
pub fn replies_h2(response: impl Into<Vec<u8>>) -> Upstream {
    let response = response.into();
    responds_h2(move |_| response.clone())
}

/// An endpoint that takes every request and responses none.
pub fn stalls() -> Upstream {
    responds(|_| Vec::new())
}

/// An endpoint whose queue of connections is full: connecting to it takes for ever.
pub fn accepts_nobody() -> Full {
    const MOMENT: Duration = Duration::from_millis(100);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("descriptors are left");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port is free");
    socket.listen(0).expect("a bound socket can listen");
    let socket = TcpListener::from(socket);
    let address = socket.local_addr().expect("a bound socket has an address");
    let connect = || Stream::connect(address, MOMENT).ok();
    Full { _queued: std::iter::from_fn(connect).collect(), _socket: socket, address }
}

/// An address that refuses every connection.
///
/// The port is bound until the process ends, and nothing listens at it: one that were only given back would soon be
/// the port of another test.
pub fn refuses() -> SocketAddr {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("descriptors are left");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port is free");
    let address = socket.local_addr().ok().and_then(|address| address.as_socket());
    std::mem::forget(socket);
    address.expect("a bound socket has an address")
}

/// A response with that body, and with fields that are whole lines.
pub fn ok_with(fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len()).into_bytes()
}

/// A response with that body.
pub fn ok(body: &str) -> Vec<u8> {
    ok_with("", body)
}

impl Listening {
    fn new(socket: Acceptor, address: Address) -> Listening {
        socket.as_ref().set_read_timeout(Some(DEADLINE)).expect("a socket takes a timeout");
        Listening { socket, address, accepted: std::cell::Cell::new(0) }
    }

    /// Waits for a connection.
    #[track_caller]
    pub fn accepts(&self) -> Peer {
        let index = self.accepted.replace(self.accepted.get() + 1);
        match self.socket.accept() {
            Ok(stream) => Peer::new(stream, index),
            Err(error) => panic!("waited for a connection in vain: {error}"),
        }
    }

    /// Waits for a connection to any of these.
    #[track_caller]
    pub fn any_accepts(all: &[Listening]) -> Peer {
        let mut accepted = None;
        waits_until("a connection to one of several", || {
            accepted = all.iter().find_map(|one| Some((one.accepts_if_any()?, one)));
            accepted.is_some()
        });
        let (stream, one) = accepted.expect("it was waited for");
        Peer::new(stream, one.accepted.replace(one.accepted.get() + 1))
    }

    /// Waits for a connection that speaks HTTP/2.
    #[track_caller]
    pub fn accepts_h2(&self) -> Endpoint {
        self.accepts_h2_with(&[])
    }

    /// The same with these settings.
    #[track_caller]
    pub fn accepts_h2_with(&self, settings: &[(u16, u32)]) -> Endpoint {
        let index = self.accepted.get();
        Endpoint::begins(self.accepts(), settings, index)
    }

    /// Waits for a connection that speaks HTTP/2, or until `is_over`.
    #[track_caller]
    pub fn accepts_h2_unless(&self, mut is_over: impl FnMut() -> bool) -> Option<Endpoint> {
        let mut stream = None;
        waits_until("a connection", || {
            stream = self.accepts_if_any();
            stream.is_some() || is_over()
        });
        let index = self.accepted.get();
        stream.map(|stream| Endpoint::begins(Peer::new(stream, index), &[], index))
    }

    /// Accepts a connection if one waits. Does not wait.
    fn accepts_if_any(&self) -> Option<Stream> {
        let socket = self.socket.as_ref();
        socket.set_nonblocking(true).expect("a socket can be non-blocking");
        let accepted = self.socket.accept();
        socket.set_nonblocking(false).expect("a socket can block");
        accepted.ok()
    }

    /// Checks that no connection waits to be accepted. Does not wait.
    #[track_caller]
    pub fn expects_no_connection(&self) {
        assert!(self.accepts_if_any().is_none(), "there is a connection");
    }

    /// Its address.
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        self.address.tcp()
    }

    /// Lets it respond on its own from now on.
    pub fn responds(
        self,
        response: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
    ) -> Upstream {
        self.responds_in(response, false)
    }

    /// The same in HTTP/2, with what these bytes of HTTP/1.1 say.
    pub fn responds_h2(
        self,
        response: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
    ) -> Upstream {
        self.responds_in(response, true)
    }

    fn responds_in(
        self,
        response: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
        is_h2: bool,
    ) -> Upstream {
        let Listening { socket, address, accepted: _ } = self;
        socket.as_ref().set_read_timeout(None).expect("a socket takes a timeout");
        let response = Box::new(response);
        let (log, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { response, is_h2, log, changed });
        let listener = socket.as_ref().try_clone().expect("there are descriptors left");
        shared.log().listener = Some(listener);
        let ours = Arc::clone(&shared);
        let accepting = thread::spawn(move || accept(&socket, &ours));
        Upstream { address, shared, accepting: Some(accepting) }
    }
}

impl Upstream {
    /// Closes each connection after a response.
    #[must_use]
    pub fn then_closes(self) -> Upstream {
        self.shared.log().is_closing = true;
        self
    }

    /// Its address.
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        self.address.tcp()
    }

    /// The requests so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log().requests.clone()
    }

    /// How many connections it has accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.log().accepted
    }

    /// The only request so far.
    #[track_caller]
    pub fn request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "requests");
        requests.remove(0)
    }

    /// Waits until that many requests have come.
    #[track_caller]
    pub fn waits_for_requests(&self, count: usize) -> Vec<Request> {
        self.waits(&format!("{count} requests"), |log| log.requests.len() >= count);
        self.requests()
    }

    /// Waits until that many of its connections are open.
    #[track_caller]
    pub fn waits_for_open(&self, count: usize) {
        self.waits(&format!("{count} open connections"), |log| log.open.len() == count);
    }

    /// Closes all of its connections.
    pub fn closes_all(&self) {
        self.shared.log().close_all();
    }

    #[track_caller]
    fn waits(&self, what: &str, is_there: impl Fn(&Log) -> bool) {
        let until = Instant::now() + DEADLINE;
        let mut log = self.shared.log();
        while !is_there(&log) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited for {what} in vain; there were {log:?}");
            let waited = self.shared.changed.wait_timeout(log, left);
            log = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let mut log = self.shared.log();
        if let Some(listener) = log.listener.take() {
            let _ = listener.shutdown(Shutdown::Both);
        }
        drop(log);
        let accepting = self.accepting.take().map(JoinHandle::join);
        self.shared.log().close_all();
        let serving = std::mem::take(&mut self.shared.log().serving);
        let ended = serving.into_iter().map(JoinHandle::join).all(|it| it.is_ok());
        let is_fine = ended && accepting.is_none_or(|it| it.is_ok());
        assert!(is_fine || thread::panicking(), "a thread of a scripted upstream panicked");
    }
}

type Respond = dyn Fn(&Request) -> Vec<u8> + Send + Sync;

/// What the threads of an upstream have in common.
struct Shared {
    response: Box<Respond>,
    is_h2: bool,
    log: Mutex<Log>,
    changed: Condvar,
}

#[derive(Default)]
struct Log {
    listener: Option<Socket>,
    is_closing: bool,
    accepted: usize,
    /// Connections that are open, with their indices.
    open: Vec<(usize, Stream)>,
    requests: Vec<Request>,
    serving: Vec<JoinHandle<()>>,
}

impl Log {
    fn close_all(&mut self) {
        self.open.iter_mut().for_each(|(_, stream)| stream.shut_down(Shutdown::Both));
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Log { accepted, open, requests, .. } = self;
        write!(f, "{accepted} connections, {} of them open", open.len())?;
        requests.iter().try_for_each(|request| write!(f, ", {}", shown(&request.bytes)))
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Log)) {
        change(&mut self.log());
        self.changed.notify_all();
    }

    /// Responds until the connection ends.
    fn converse(&self, index: usize, peer: Peer) {
        let peer = match self.is_h2 {
            true => self.converse_h2(index, peer),
            false => self.converse_h1(peer),
        };
        self.change(|log| log.open.retain(|(open, _)| *open != index));
        peer.closes();
    }

    fn converse_h2(&self, index: usize, peer: Peer) -> Peer {
        let mut endpoint = match Endpoint::serves(peer, index) {
            Ok(endpoint) => endpoint,
            Err(peer) => return peer,
        };
        while let Some((stream, request)) = endpoint.next_request() {
            let response = (self.response)(&request);
            let is_to_head = request.method == "HEAD";
            self.change(|log| log.requests.push(request));
            endpoint.translates(stream, &response, is_to_head);
            if self.log().is_closing {
                endpoint.flushes();
                break;
            }
        }
        endpoint.into_peer()
    }

    fn converse_h1(&self, mut peer: Peer) -> Peer {
        while let Some(request) = peer.next_request() {
            let response = (self.response)(&request);
            self.change(|log| log.requests.push(request));
            peer.offers(response);
            if self.log().is_closing {
                break;
            }
        }
        peer
    }
}

fn accept(socket: &Acceptor, shared: &Arc<Shared>) {
    // It fails when the upstream is dropped, and that ends the thread.
    while let Ok(stream) = socket.accept() {
        let mut log = shared.log();
        let index = log.accepted;
        log.accepted += 1;
        let clone = stream.try_clone().expect("there are descriptors left");
        log.open.push((index, clone));
        let ours = Arc::clone(shared);
        log.serving.push(thread::spawn(move || {
            ours.converse(index, Peer::serving(stream, index));
        }));
        drop(log);
        shared.changed.notify_all();
    }
}

#[derive(Debug)]
enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Acceptor::Tcp(socket) => {
                let (stream, _) = socket.accept()?;
                // What a script sends in two pieces has to arrive as two.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Acceptor::Unix(socket) => Ok(Stream::Unix(socket.accept()?.0)),
        }
    }

    fn as_ref(&self) -> SockRef<'_> {
        match self {
            Acceptor::Tcp(socket) => SockRef::from(socket),
            Acceptor::Unix(socket) => SockRef::from(socket),
        }
    }
}

#[derive(Clone, Debug)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    #[track_caller]
    fn tcp(&self) -> SocketAddr {
        match self {
            Address::Tcp(address) => *address,
            Address::Unix(path) => panic!("{} is no TCP address", path.display()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "\"{address}\""),
            Address::Unix(path) => write!(f, "\"unix:{}\"", path.display()),
        }
    }
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Address::Tcp(self.address).fmt(f)
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
