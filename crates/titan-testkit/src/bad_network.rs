//! A bad network between a client and a server on loopback: a relay of datagrams that loses, delays, doubles and reorders them as a
//! seed says. What they carry it does not look at.
//!
//! ```
//! use std::net::UdpSocket;
//! use titan_testkit::bad_network::BadNetwork;
//!
//! let server = UdpSocket::bind("127.0.0.1:0").unwrap();
//! let network = BadNetwork { seed: 7, duplicates: 1.0, ..BadNetwork::default() };
//! let relay = network.start(server.local_addr().unwrap());
//! let client = UdpSocket::bind("127.0.0.1:0").unwrap();
//! client.send_to(b"hello", relay.address()).unwrap();
//! let mut bytes = [0; 10];
//! assert_eq!(server.recv(&mut bytes).unwrap(), 5);
//! assert_eq!(server.recv(&mut bytes).unwrap(), 5);
//! assert_eq!(relay.counts().to_server.duplicated, 1);
//! ```

mod chance;
mod line;
mod translation;

pub use chance::BadNetwork;
pub use line::Tally;

use chance::Direction;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use translation::{Lines, Translation, loopback};

/// A network that runs: it ends when this is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    lines: Arc<Lines>,
    rebinds: Arc<AtomicU64>,
    /// Dropped when the thread is to end.
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What has become of the datagrams so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of those that clients have sent.
    pub to_server: Tally,
    /// Of those that the server has sent.
    pub to_clients: Tally,
}

impl BadNetwork {
    /// Runs in front of that server: each client that sends to the relay has an address of its own towards the server. That is so for
    /// 64 clients at most, and what others send is lost, as is what is more than 4 MiB on its way in a direction.
    ///
    /// Congestion marks (ECN) are not kept, and what comes faster than the relay is scheduled can overflow its sockets, which
    /// [`Relay::counts`] does not see.
    ///
    /// # Panics
    ///
    /// If a rate is not within 0.0 and 1.0, or the shortest delay is longer than the longest one.
    #[track_caller]
    pub fn start(self, server: SocketAddr) -> Relay {
        self.check();
        let socket = loopback(server);
        let address = socket.local_addr().expect("a bound socket has an address");
        let lines = Arc::new(Lines::of(&self));
        let rebinds = Arc::<AtomicU64>::default();
        let (running, ended) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.expect("there are descriptors left");
        let (ours, asked) = (Arc::clone(&lines), Arc::clone(&rebinds));
        let thread = thread::spawn(move || {
            runtime
                .block_on(async { Translation::new(server, socket, ours, asked).run(ended).await });
        });
        Relay { address, lines, rebinds, running: Some(running), thread: Some(thread) }
    }
}

impl Relay {
    /// Where clients send to, and what sends to them.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Loses the bindings of all clients, as a router does that translates addresses: what they send from now on comes to the server
    /// from a new address, and what it sends to an old one comes nowhere.
    pub fn rebind(&self) {
        self.rebinds.fetch_add(1, Ordering::SeqCst);
    }

    /// What has become of the datagrams so far: one that has arrived is counted.
    pub fn counts(&self) -> Counts {
        let tally = |direction| self.lines.line(direction).tally();
        Counts { to_server: tally(Direction::ToServer), to_clients: tally(Direction::ToClients) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.running.take());
        let ended = self.thread.take().map(JoinHandle::join);
        let is_fine = ended.is_none_or(|it| it.is_ok());
        assert!(is_fine || thread::panicking(), "the thread of a network panicked");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    #[test]
    fn nothing_is_left_of_one_that_is_dropped() {
        let delay = Duration::from_secs(3600)..=Duration::from_secs(3600);
        let network = BadNetwork { delay, ..BadNetwork::default() };
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let relay = network.start(client.local_addr().unwrap());
        client.send_to(b"on its way", relay.address()).unwrap();
        let lines = Arc::clone(&relay.lines);
        drop(relay);
        // The thread had the other ones, and its sockets went with them.
        assert_eq!(Arc::strong_count(&lines), 1);
    }
}
