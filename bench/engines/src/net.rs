//! Non-blocking TCP sockets as plain descriptors, so that reading and writing are exactly one call each.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

const BACKLOG: i32 = 4096;
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// What one read or write came to.
pub enum Moved {
    /// That many bytes; at least one.
    Bytes(usize),
    /// Nothing can move until the descriptor is ready again.
    Blocked,
    /// The peer has closed, or the connection is broken.
    Closed,
}

/// Listens on `address`. Accepted sockets inherit TCP_NODELAY, which saves a call for each of them.
pub fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream_socket(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The next connection that waits on `listener`, if any.
pub fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    match rustix::net::accept_with(listener, FLAGS) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Begins to connect to `address`; the socket becomes writable when it is done.
pub fn connect(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = stream_socket(address)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Reads what is there into `buffer`.
pub fn read(socket: &OwnedFd, buffer: &mut [u8]) -> Moved {
    moved(rustix::io::read(socket, buffer))
}

/// Writes as much of `bytes` as there is room for.
pub fn write(socket: &OwnedFd, bytes: &[u8]) -> Moved {
    moved(rustix::io::write(socket, bytes))
}

/// Writes as much of `pieces` as there is room for, in one call.
pub fn write_pieces(socket: &OwnedFd, pieces: &[IoSlice<'_>]) -> Moved {
    moved(rustix::io::writev(socket, pieces))
}

fn moved(result: Result<usize, Errno>) -> Moved {
    match result {
        Ok(0) => Moved::Closed,
        Ok(count) => Moved::Bytes(count),
        Err(Errno::AGAIN) => Moved::Blocked,
        Err(_) => Moved::Closed,
    }
}

fn stream_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(rustix::net::socket_with(family, SocketType::STREAM, FLAGS, None)?)
}
