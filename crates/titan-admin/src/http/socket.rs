//! The socket of a server: TCP or Unix, bound before any thread runs, so that a failure is a start error.

use super::Peer;
use socket2::{Domain, Protocol, SockAddr, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use titan_config::ListenAddress;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// A socket that is bound and listens, but is not served yet.
#[derive(Debug)]
pub struct Socket {
    socket: socket2::Socket,
    address: ListenAddress,
    /// As it was asked for.
    name: ListenAddress,
}

/// A duplicate of the socket of a server, for a successor of the process.
#[derive(Debug)]
pub struct LentSocket {
    /// The address as it was asked for.
    pub name: ListenAddress,
    /// Has the same queue.
    pub socket: OwnedFd,
}

/// The same as a part of a runtime.
pub(super) enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// An accepted connection of either kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connections that the kernel may hold before they are accepted.
const BACKLOG: i32 = 128;

impl Socket {
    /// Binds. A stale Unix socket is replaced.
    pub fn bind(address: &ListenAddress) -> io::Result<Socket> {
        let socket = match address {
            ListenAddress::Tcp(address) => bind_tcp(*address, true)?,
            ListenAddress::Any(port) => {
                bind_tcp((Ipv6Addr::UNSPECIFIED, *port).into(), false).or_else(|error| {
                    match error.kind() {
                        io::ErrorKind::AddrInUse => Err(error),
                        // A kernel without IPv6 still has all of IPv4.
                        _ => bind_tcp((Ipv4Addr::UNSPECIFIED, *port).into(), true),
                    }
                })?
            }
            ListenAddress::Unix(path) => bind_unix(path)?,
        };
        socket.listen(BACKLOG)?;
        Socket::listening(socket, address)
    }

    /// The socket that a process before this one has bound for that address.
    pub fn inherited(socket: OwnedFd, address: &ListenAddress) -> io::Result<Socket> {
        let socket = socket2::Socket::from(socket);
        match socket.is_listener()? {
            true => Socket::listening(socket, address),
            false => Err(io::Error::other("what was inherited for it does not listen")),
        }
    }

    fn listening(socket: socket2::Socket, name: &ListenAddress) -> io::Result<Socket> {
        socket.set_nonblocking(true)?;
        let address = match socket.local_addr()?.as_socket() {
            Some(bound) => ListenAddress::Tcp(bound),
            None => name.clone(),
        };
        Ok(Socket { socket, address, name: name.clone() })
    }

    /// A duplicate for a successor of the process.
    pub(super) fn lend(&self) -> io::Result<LentSocket> {
        Ok(LentSocket { name: self.name.clone(), socket: self.socket.try_clone()?.into() })
    }

    /// What it is bound to, with the port that the kernel chose for 0.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Makes it a part of the runtime that this is called in.
    pub(super) fn enter(self) -> io::Result<Listening> {
        let Socket { socket, address, name: _ } = self;
        Ok(match address {
            ListenAddress::Unix(_) => Listening::Unix(UnixListener::from_std(socket.into())?),
            ListenAddress::Tcp(_) | ListenAddress::Any(_) => {
                Listening::Tcp(TcpListener::from_std(socket.into())?)
            }
        })
    }
}

impl Listening {
    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Peer)> {
        Ok(match self {
            Listening::Tcp(socket) => {
                let (stream, address) = socket.accept().await?;
                (Box::new(stream), Peer::Client(address))
            }
            Listening::Unix(socket) => {
                let (stream, _) = socket.accept().await?;
                let credentials = stream.peer_cred()?;
                let peer = Peer::Process { uid: credentials.uid(), pid: credentials.pid() };
                (Box::new(stream), peer)
            }
        })
    }
}

fn bind_tcp(address: SocketAddr, only_v6: bool) -> io::Result<socket2::Socket> {
    let domain = Domain::for_address(address);
    let socket = socket2::Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn bind_unix(path: &Path) -> io::Result<socket2::Socket> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket {
        match UnixStream::connect(path) {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            Err(_) => std::fs::remove_file(path)?,
        }
    }
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_free_port_is_named() {
        let socket = Socket::bind(&ListenAddress::Any(0)).unwrap();
        let ListenAddress::Tcp(address) = socket.address() else { panic!("{socket:?}") };
        assert_ne!(address.port(), 0);
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let first = Socket::bind(&ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
        let address = first.address().clone();
        let error = Socket::bind(&address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_unix_socket_left_behind_gives_way_and_one_in_use_does_not() {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("titan-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let address = ListenAddress::Unix(path.clone());
        drop(Socket::bind(&address).unwrap());
        let socket = Socket::bind(&address).unwrap();
        assert_eq!(socket.address(), &address);
        assert_eq!(Socket::bind(&address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        std::fs::remove_file(path).unwrap();
    }
}
