//! The sockets of a network, as those of a router that translates addresses: one that clients send to, and one for each client that
//! sends to the server. A thread, whose only task is this.

use super::chance::{BadNetwork, Direction};
use super::line::{Departure, Line};
use socket2::SockRef;
use std::future::{Future, poll_fn};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::sync::oneshot;

/// What is on its way: in both directions.
#[derive(Debug)]
pub(super) struct Lines {
    to_server: Mutex<Line>,
    to_clients: Mutex<Line>,
}

/// The sockets, and what they have to do with one another.
pub(super) struct Translation {
    server: SocketAddr,
    /// What clients send to.
    front: UdpSocket,
    /// At most [`MOST_CLIENTS`].
    clients: Vec<Client>,
    lines: Arc<Lines>,
    /// How often the bindings are to be lost, and how often they were.
    asked: Arc<AtomicU64>,
    rebinds: u64,
    /// Where datagrams are received.
    buffer: Vec<u8>,
}

struct Client {
    address: SocketAddr,
    /// What the server knows it by. Not connected, so that no fault of an earlier datagram is told instead of sending the next.
    upstream: UdpSocket,
}

const MOST_CLIENTS: usize = 64;
/// The longest datagram.
const LONGEST: usize = 1 << 16;
/// What a socket may keep until the thread has the processor; the kernel makes as much of that as it allows.
const KEPT: usize = 4 << 20;

impl Lines {
    pub(super) fn of(network: &BadNetwork) -> Lines {
        let line = |direction| Mutex::new(Line::new(network.clone(), direction));
        Lines { to_server: line(Direction::ToServer), to_clients: line(Direction::ToClients) }
    }

    pub(super) fn line(&self, direction: Direction) -> MutexGuard<'_, Line> {
        let line = match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClients => &self.to_clients,
        };
        line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn due(&self, direction: Direction, now: Instant) -> Option<Departure> {
        self.line(direction).due(now)
    }

    fn next(&self) -> Option<Instant> {
        let next = |direction| self.line(direction).next();
        next(Direction::ToServer).into_iter().chain(next(Direction::ToClients)).min()
    }
}

impl Translation {
    /// In front of that server, with a socket that clients send to.
    pub(super) fn new(
        server: SocketAddr,
        front: std::net::UdpSocket,
        lines: Arc<Lines>,
        asked: Arc<AtomicU64>,
    ) -> Translation {
        let (front, clients) = (registered(front), Vec::new());
        let buffer = vec![0; LONGEST];
        Translation { server, front, clients, lines, asked, rebinds: 0, buffer }
    }

    /// Passes datagrams on until the other end of `ended` is dropped.
    pub(super) async fn run(mut self, mut ended: oneshot::Receiver<()>) {
        while self.waits(&mut ended).await {
            // First: what came after the bindings were lost may not leave by them.
            self.rebind_if_asked();
            self.pass_on().await;
        }
    }

    /// Waits until something has come or is due, which is true, or for the end.
    async fn waits(&mut self, ended: &mut oneshot::Receiver<()>) -> bool {
        let next = self.lines.next();
        let mut timer = pin!(async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        });
        poll_fn(|cx| {
            if Pin::new(&mut *ended).poll(cx).is_ready() {
                return Poll::Ready(false);
            }
            let has_come = self.poll_receive(cx);
            match has_come || timer.as_mut().poll(cx).is_ready() {
                true => Poll::Ready(true),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Receives one datagram of each socket that has one, so that none keeps the others waiting; whether there was any.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_come = self.poll_front(cx);
        for number in 0..self.clients.len() {
            has_come |= self.poll_upstream(number, cx);
        }
        has_come
    }

    fn poll_front(&mut self, cx: &mut Context<'_>) -> bool {
        let mut received = ReadBuf::new(&mut self.buffer);
        let Poll::Ready(from) = self.front.poll_recv_from(cx, &mut received) else { return false };
        let count = received.filled().len();
        let Ok(from) = from else { return true };
        let client = self.client(from);
        let mut line = self.lines.line(Direction::ToServer);
        match client {
            Some(number) => line.take(Instant::now(), number, &self.buffer[..count]),
            None => line.overflow(),
        }
        true
    }

    fn poll_upstream(&mut self, number: usize, cx: &mut Context<'_>) -> bool {
        let Client { upstream, .. } = &self.clients[number];
        let mut received = ReadBuf::new(&mut self.buffer);
        let Poll::Ready(from) = upstream.poll_recv_from(cx, &mut received) else { return false };
        // It may have come to a binding that is lost by now.
        let is_bound = self.asked.load(Ordering::SeqCst) == self.rebinds;
        if is_bound && from.is_ok_and(|from| from == self.server) {
            let mut line = self.lines.line(Direction::ToClients);
            line.take(Instant::now(), number, received.filled());
        }
        true
    }

    /// The number of the client with that address, which may be a new one; `None` where there are too many.
    fn client(&mut self, address: SocketAddr) -> Option<usize> {
        let known = self.clients.iter().position(|client| client.address == address);
        if known.is_none() && self.clients.len() < MOST_CLIENTS {
            let upstream = registered(loopback(self.server));
            self.clients.push(Client { address, upstream });
            return Some(self.clients.len() - 1);
        }
        known
    }

    fn rebind_if_asked(&mut self) {
        let asked = self.asked.load(Ordering::SeqCst);
        if asked == self.rebinds {
            return;
        }
        self.rebinds = asked;
        // All before the first old one is closed: none gets an address that was another's.
        let new: Vec<_> = self.clients.iter().map(|_| registered(loopback(self.server))).collect();
        for (client, upstream) in self.clients.iter_mut().zip(new) {
            client.upstream = upstream;
        }
    }

    async fn pass_on(&self) {
        let now = Instant::now();
        while let Some(Departure { client, bytes, copies }) =
            self.lines.due(Direction::ToServer, now)
        {
            send(&self.clients[client].upstream, self.server, &bytes, copies).await;
        }
        while let Some(Departure { client, bytes, copies }) =
            self.lines.due(Direction::ToClients, now)
        {
            send(&self.front, self.clients[client].address, &bytes, copies).await;
        }
    }
}

async fn send(socket: &UdpSocket, to: SocketAddr, bytes: &[u8], copies: u64) {
    for _ in 0..copies {
        // What cannot be sent is lost, as on any network.
        let _ = socket.send_to(bytes, to).await;
    }
}

/// A socket at a free port of this machine, of the same family as that address.
pub(super) fn loopback(like: SocketAddr) -> std::net::UdpSocket {
    let address: SocketAddr = match like {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, 0).into(),
    };
    let socket = std::net::UdpSocket::bind(address).expect("a port is free");
    SockRef::from(&socket).set_recv_buffer_size(KEPT).expect("a socket has a buffer");
    socket
}

fn registered(socket: std::net::UdpSocket) -> UdpSocket {
    socket.set_nonblocking(true).expect("a socket can be non-blocking");
    UdpSocket::from_std(socket).expect("there is a runtime")
}
