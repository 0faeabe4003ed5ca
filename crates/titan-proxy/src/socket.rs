//! Listening sockets: bound for all workers, accepted from by one.

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;
use std::task::{Context, Poll};
use titan_config::ListenAddress;
use titan_io::stream::Stream;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A socket that is bound and listens, not yet part of a runtime.
pub(crate) enum ListenSocket {
    Tcp(std::net::TcpListener),
    Unix(StdUnixListener),
}

/// The same as a part of a runtime.
pub(crate) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Connections that the kernel may hold before they are accepted.
const BACKLOG: i32 = 4096;

impl ListenSocket {
    /// Accepts a connection that waits already; an error when none does.
    pub(crate) fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            ListenSocket::Tcp(socket) => {
                let (stream, peer) = socket.accept()?;
                stream.set_nonblocking(true)?;
                let stream = TcpStream::from_std(stream)?.into();
                Ok((stream, Some(peer.ip().to_canonical())))
            }
            ListenSocket::Unix(socket) => {
                let (stream, _) = socket.accept()?;
                stream.set_nonblocking(true)?;
                Ok((UnixStream::from_std(stream)?.into(), None))
            }
        }
    }
}

impl Acceptor {
    /// Makes it a part of the runtime that this is called in.
    pub(crate) fn new(socket: ListenSocket) -> io::Result<Acceptor> {
        Ok(match socket {
            ListenSocket::Tcp(socket) => Acceptor::Tcp(TcpListener::from_std(socket)?),
            ListenSocket::Unix(socket) => Acceptor::Unix(UnixListener::from_std(socket)?),
        })
    }

    /// Takes it out of the runtime again.
    pub(crate) fn into_std(self) -> io::Result<ListenSocket> {
        Ok(match self {
            Acceptor::Tcp(socket) => ListenSocket::Tcp(socket.into_std()?),
            Acceptor::Unix(socket) => ListenSocket::Unix(socket.into_std()?),
        })
    }

    /// The next connection, with the address of its peer where that has one.
    pub(crate) fn poll_accept(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Stream, Option<IpAddr>)>> {
        match self {
            Acceptor::Tcp(socket) => socket
                .poll_accept(cx)
                .map_ok(|(stream, peer)| (stream.into(), Some(peer.ip().to_canonical()))),
            Acceptor::Unix(socket) => {
                socket.poll_accept(cx).map_ok(|(stream, _)| (stream.into(), None))
            }
        }
    }
}

/// Binds one socket for each worker. They share the port, and the kernel spreads connections over them.
pub(crate) fn bind(address: &ListenAddress, workers: usize) -> io::Result<Vec<ListenSocket>> {
    match address {
        ListenAddress::Tcp(address) => bind_tcp(*address, true, workers),
        ListenAddress::Any(port) => {
            let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
            match bind_tcp(both, false, workers) {
                // A kernel without IPv6 still has all of IPv4.
                Err(error) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
                    bind_tcp((Ipv4Addr::UNSPECIFIED, *port).into(), true, workers)
                }
                result => result,
            }
        }
        ListenAddress::Unix(path) => bind_unix(path, workers),
    }
}

fn bind_tcp(address: SocketAddr, only_v6: bool, workers: usize) -> io::Result<Vec<ListenSocket>> {
    // Sockets that share a port share it with another process too, which would go unnoticed. One that does not share it
    // finds out.
    let probe = tcp_socket(address, only_v6)?;
    probe.bind(&address.into())?;
    drop(probe);
    let mut address = address;
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = tcp_socket(address, only_v6)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        // Accepted sockets inherit it: no call for each connection.
        socket.set_tcp_nodelay(true)?;
        socket.listen(BACKLOG)?;
        let socket = std::net::TcpListener::from(socket);
        address = socket.local_addr()?;
        sockets.push(ListenSocket::Tcp(socket));
    }
    Ok(sockets)
}

fn tcp_socket(address: SocketAddr, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn bind_unix(path: &Path, workers: usize) -> io::Result<Vec<ListenSocket>> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    (0..workers).map(|_| Ok(ListenSocket::Unix(socket.try_clone()?.into()))).collect()
}

/// Removes the socket that an earlier process left behind; one that still accepts is in use.
fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(_) => std::fs::remove_file(path),
    }
}
