//! The floor: copies bytes between a client and its own upstream connection, and nothing else.
//!
//! One thread, one epoll, no parsing. A small exchange on a kept connection is exactly read, write,
//! read, write, with the polling call shared by everything that is ready at that moment. Every ratio
//! "to the floor" divides by what this program costs in the same run: it is what the kernel's TCP work
//! alone costs any proxy.
//!
//! Having no idea where a response ends, it cannot pool: each client connection opens one upstream
//! connection and both close together. So in the scenario that opens a connection per request it
//! connects upstream every time, where a proxy takes a pooled connection, and a proxy may well be
//! cheaper than the floor there.
//!
//! Usage: floor LISTEN-ADDRESS UPSTREAM-ADDRESS

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use titan_bench::net::{self, Moved};
use titan_bench::poll::{Poller, Ready};

/// One read takes at most this much: of 16 KiB to 1 MiB, what makes a large body cheapest. What is read
/// is still in the nearest caches when it is written.
const BUFFER: usize = 32 * 1024;

/// One end of a relayed pair; the other end is in the table under `peer`.
struct End {
    socket: OwnedFd,
    peer: usize,
    /// Read here, not yet taken by the peer. While it is not empty nothing more is read here, so it
    /// never holds more than [`BUFFER`].
    unsent: Vec<u8>,
    /// Bytes of `unsent` that the peer has taken meanwhile. `sent <= unsent.len()`.
    sent: usize,
}

struct Floor {
    poller: Poller,
    listener: OwnedFd,
    upstream: SocketAddr,
    /// By descriptor number: the kernel hands out the lowest free one, so the table stays dense.
    ends: Vec<Option<End>>,
    buffer: Box<[u8]>,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, upstream] = arguments.as_slice() else {
        return Err(io::Error::other("usage: floor LISTEN-ADDRESS UPSTREAM-ADDRESS"));
    };
    let listen = listen.parse().map_err(io::Error::other)?;
    let upstream = upstream.parse().map_err(io::Error::other)?;
    Floor::bind(listen, upstream)?.run()
}

impl Floor {
    fn bind(listen: SocketAddr, upstream: SocketAddr) -> io::Result<Self> {
        let (poller, listener) = (Poller::new()?, net::listen(listen)?);
        poller.add_listener(&listener, listener.as_raw_fd() as usize)?;
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Ok(Self { poller, listener, upstream, ends: Vec::new(), buffer })
    }

    fn run(mut self) -> io::Result<()> {
        let listener = self.listener.as_raw_fd() as usize;
        loop {
            self.poller.wait(None)?;
            for index in 0..self.poller.count() {
                match self.poller.ready(index) {
                    ready if ready.token == listener => self.accept_waiting()?,
                    ready => self.relay(ready),
                }
            }
        }
    }

    fn accept_waiting(&mut self) -> io::Result<()> {
        while let Some(client) = net::accept(&self.listener)? {
            // Without an upstream the client is simply dropped: its load generator reports it.
            if let Ok(upstream) = net::connect(self.upstream) {
                self.join(client, upstream)?;
            }
        }
        Ok(())
    }

    fn join(&mut self, client: OwnedFd, upstream: OwnedFd) -> io::Result<()> {
        let (near, far) = (client.as_raw_fd() as usize, upstream.as_raw_fd() as usize);
        self.poller.add(&client, near)?;
        self.poller.add(&upstream, far)?;
        let highest = near.max(far);
        if self.ends.len() <= highest {
            self.ends.resize_with(highest + 1, || None);
        }
        self.ends[near] = Some(End { socket: client, peer: far, unsent: Vec::new(), sent: 0 });
        self.ends[far] = Some(End { socket: upstream, peer: near, unsent: Vec::new(), sent: 0 });
        Ok(())
    }

    /// An event may be older than its descriptor, which was closed and given out again in this very
    /// round. That costs one read that finds nothing.
    fn relay(&mut self, ready: Ready) {
        if ready.writable() && !self.flush_towards(ready.token) {
            return;
        }
        if ready.readable() {
            self.pump(ready.token, ready.ended());
        }
    }

    /// Room to write at `token`: first what its peer still owes, then what the peer could not read
    /// meanwhile. False when the pair is gone.
    fn flush_towards(&mut self, token: usize) -> bool {
        let Some(Some(end)) = self.ends.get(token) else { return false };
        let peer = end.peer;
        let Some(Some(source)) = self.ends.get(peer) else { return false };
        if source.unsent.is_empty() {
            return true;
        }
        match net::write(&end.socket, &source.unsent[source.sent..]) {
            Moved::Bytes(count) => self.settle(peer, count),
            Moved::Blocked => true,
            Moved::Closed => self.close(token),
        }
    }

    fn settle(&mut self, source: usize, count: usize) -> bool {
        let Some(Some(end)) = self.ends.get_mut(source) else { return false };
        end.sent += count;
        if end.sent < end.unsent.len() {
            return true;
        }
        end.unsent.clear();
        end.sent = 0;
        self.pump(source, true)
    }

    /// Moves what is readable at `token` to its peer. A read that does not fill the buffer has emptied
    /// the socket, so no second read asks, unless the end is known to follow (`to_the_end`).
    /// False when the pair is gone.
    fn pump(&mut self, token: usize, to_the_end: bool) -> bool {
        loop {
            let Some(Some(end)) = self.ends.get(token) else { return false };
            if !end.unsent.is_empty() {
                return true;
            }
            let count = match net::read(&end.socket, &mut self.buffer) {
                Moved::Bytes(count) => count,
                Moved::Blocked => return true,
                Moved::Closed => return self.close(token),
            };
            if !self.forward(token, count) {
                return false;
            }
            if count < BUFFER && !to_the_end {
                return true;
            }
        }
    }

    /// Writes the first `count` bytes of the buffer to the peer of `token` and keeps what it does not take.
    fn forward(&mut self, token: usize, count: usize) -> bool {
        let Some(Some(end)) = self.ends.get(token) else { return false };
        let Some(Some(peer)) = self.ends.get(end.peer) else { return false };
        let written = match net::write(&peer.socket, &self.buffer[..count]) {
            Moved::Bytes(written) => written,
            Moved::Blocked => 0,
            Moved::Closed => return self.close(token),
        };
        if written < count
            && let Some(Some(end)) = self.ends.get_mut(token)
        {
            end.unsent.extend_from_slice(&self.buffer[written..count]);
        }
        true
    }

    /// Closes both ends. What one end still owed the other is lost with it, which is right here: the
    /// load generator checks every byte and would report it.
    fn close(&mut self, token: usize) -> bool {
        if let Some(end) = self.ends[token].take() {
            self.ends[end.peer] = None;
        }
        false
    }
}
