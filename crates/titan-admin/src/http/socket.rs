//! The socket of a server: TCP or Unix, bound before any thread runs, so that a failure is a start error.

use super::Peer;
use super::stream::Stream;
use super::tls::{self, Tls};
use rustix::fs::Mode;
use socket2::{Domain, Protocol, SockAddr, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use titan_config::ListenAddress;
use titan_proxy::{SocketFile, remove_stale_socket};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

/// A socket that is bound and listens, but is not served yet.
#[derive(Debug)]
pub struct Socket {
    socket: socket2::Socket,
    address: ListenAddress,
    /// As it was asked for.
    name: ListenAddress,
    owner: FileOwner,
    tls: Tls,
}

/// Who has made the file of a Unix socket, and removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// This program. The last process of it that serves there removes it.
    Titan,
    /// The service manager.
    Manager,
}

/// A duplicate of the socket of a server, for a successor of the process.
#[derive(Debug)]
pub struct LentSocket {
    /// The address as it was asked for.
    pub name: ListenAddress,
    /// Has the same queue.
    pub socket: OwnedFd,
    /// Who removes its file, if it has one.
    pub owner: FileOwner,
}

/// The same as a part of a runtime.
pub(super) struct Listening {
    kind: Kind,
    tls: Tls,
}

enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that has not begun with anything.
pub(super) struct Accepted {
    stream: Box<dyn Stream>,
    peer: Peer,
}

/// Who may connect to a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// Whom the umask and the directory allow.
    Others,
    /// The user of the process, and root: mode 0600 from the first moment on.
    Owner,
}

/// Connections that the kernel may hold before they are accepted.
const BACKLOG: i32 = 128;

impl Socket {
    /// Binds. A stale Unix socket is replaced.
    pub fn bind(address: &ListenAddress) -> io::Result<Socket> {
        Socket::bind_for(For::Others, address)
    }

    /// The same, but nobody except root and the user of the process can connect to a Unix socket.
    pub fn bind_private(address: &ListenAddress) -> io::Result<Socket> {
        Socket::bind_for(For::Owner, address)
    }

    fn bind_for(whom: For, address: &ListenAddress) -> io::Result<Socket> {
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
            ListenAddress::Unix(path) => bind_unix(path, whom)?,
        };
        socket.listen(BACKLOG)?;
        Socket::listening(socket, address, FileOwner::Titan)
    }

    /// The socket that a process before this one has bound for that address.
    pub fn inherited(
        socket: OwnedFd,
        address: &ListenAddress,
        owner: FileOwner,
    ) -> io::Result<Socket> {
        let socket = socket2::Socket::from(socket);
        match socket.is_listener()? {
            true => Socket::listening(socket, address, owner),
            false => Err(io::Error::other("what was inherited for it does not listen")),
        }
    }

    fn listening(
        socket: socket2::Socket,
        name: &ListenAddress,
        owner: FileOwner,
    ) -> io::Result<Socket> {
        socket.set_nonblocking(true)?;
        let address = match socket.local_addr()?.as_socket() {
            Some(bound) => ListenAddress::Tcp(bound),
            None => name.clone(),
        };
        Ok(Socket { socket, address, name: name.clone(), owner, tls: Tls::default() })
    }

    /// A duplicate for a successor of the process.
    pub(super) fn lend(&self) -> io::Result<LentSocket> {
        let (name, owner) = (self.name.clone(), self.owner);
        Ok(LentSocket { name, socket: self.socket.try_clone()?.into(), owner })
    }

    /// The file of a Unix socket, where it is to be removed at the end.
    pub(super) fn file(&self) -> Option<SocketFile> {
        match (&self.address, self.owner) {
            (ListenAddress::Unix(path), FileOwner::Titan) => SocketFile::at(path).ok(),
            _ => None,
        }
    }

    /// What it is bound to, with the port that the kernel chose for 0.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The same with connections that begin with what `tls` says then.
    #[must_use]
    pub fn secured(self, tls: &Tls) -> Socket {
        Socket { tls: tls.clone(), ..self }
    }

    /// Makes it a part of the runtime that this is called in.
    pub(super) fn enter(self) -> io::Result<Listening> {
        let Socket { socket, address, tls, .. } = self;
        let kind = match address {
            ListenAddress::Unix(_) => Kind::Unix(UnixListener::from_std(socket.into())?),
            ListenAddress::Tcp(_) | ListenAddress::Any(_) => {
                Kind::Tcp(TcpListener::from_std(socket.into())?)
            }
        };
        Ok(Listening { kind, tls })
    }
}

impl Listening {
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        Ok(match &self.kind {
            Kind::Tcp(socket) => {
                let (stream, address) = socket.accept().await?;
                let peer = Peer::Client { address, is_secure: false };
                Accepted { stream: Box::new(stream), peer }
            }
            Kind::Unix(socket) => {
                let (stream, _) = socket.accept().await?;
                let credentials = stream.peer_cred()?;
                let peer = Peer::Process { uid: credentials.uid(), pid: credentials.pid() };
                Accepted { stream: Box::new(stream), peer }
            }
        })
    }

    /// What the next connection begins with.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.tls.acceptor()
    }
}

impl Accepted {
    /// Who is at its other end.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Performs the handshake that a connection begins with, if any.
    pub(super) async fn secure(
        self,
        acceptor: Option<TlsAcceptor>,
    ) -> io::Result<(Box<dyn Stream>, Peer)> {
        let Accepted { stream, peer } = self;
        match (acceptor, peer) {
            (Some(acceptor), Peer::Client { address, is_secure: _ }) => {
                let stream = tls::secure(acceptor, stream).await?;
                Ok((stream, Peer::Client { address, is_secure: true }))
            }
            (_, peer) => Ok((stream, peer)),
        }
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

fn bind_unix(path: &Path, whom: For) -> io::Result<socket2::Socket> {
    remove_stale_socket(path)?;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    if whom == For::Owner {
        // Linux gives the file the mode of its socket, less the umask: it never has another one.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    }
    socket.bind(&SockAddr::unix(path)?)?;
    if whom == For::Owner && std::fs::symlink_metadata(path)?.mode() & 0o077 != 0 {
        let what = "others can connect to it: this file system does not keep the mode of a socket";
        return Err(io::Error::other(what));
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
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

    /// A path that no other test uses.
    fn path() -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("titan-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        std::env::temp_dir().join(name)
    }

    #[test]
    fn a_unix_socket_left_behind_gives_way_and_one_in_use_does_not() {
        let path = path();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let address = ListenAddress::Unix(path);
        let socket = Socket::bind(&address).unwrap();
        assert_eq!(socket.address(), &address);
        assert_eq!(Socket::bind(&address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        socket.file().unwrap().remove();
    }

    #[test]
    fn a_private_socket_is_its_owners() {
        let path = path();
        let socket = Socket::bind_private(&ListenAddress::Unix(path.clone())).unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o600);
        socket.file().unwrap().remove();
    }

    #[test]
    fn a_file_is_removed_unless_it_is_that_of_another_socket() {
        let path = path();
        let address = ListenAddress::Unix(path.clone());
        let file = Socket::bind(&address).unwrap().file().unwrap();
        let moved = path.with_extension("moved");
        std::fs::rename(&path, &moved).unwrap();
        let successor = Socket::bind(&address).unwrap().file().unwrap();
        file.remove();
        assert!(path.exists(), "it is that of the successor");
        successor.remove();
        assert!(!path.exists());
        std::fs::remove_file(moved).unwrap();
    }
}
