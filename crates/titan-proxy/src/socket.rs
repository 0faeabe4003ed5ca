//! Listening sockets: bound or inherited for all workers, accepted from by one; and the UDP sockets beside them.

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use titan_config::ListenAddress;
use titan_io::stream::Stream;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A socket that is bound, not yet part of a runtime.
pub(crate) enum BoundSocket {
    /// It listens, and connections are accepted from it.
    Listening(ListenSocket),
    /// Datagrams come to it, and connections of QUIC begin with one.
    Udp(UdpSocket),
}

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

/// The file of a Unix socket: more than its path, where another process may have put another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketFile {
    path: PathBuf,
    identity: FileIdentity,
}

/// Device and inode of a file.
pub type FileIdentity = (u64, u64);

/// A buffer of a UDP socket for which the kernel grants less than was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SmallBuffer {
    /// The setting of the kernel that bounds it.
    pub(crate) setting: &'static str,
    /// Bytes.
    pub(crate) granted: usize,
}

/// What the kernel may hold of datagrams for a socket that a worker has not come to yet. Those of a burst that do not fit are lost.
pub(crate) const UDP_BUFFER: usize = 4 << 20;
/// Connections that the kernel may hold before they are accepted.
const BACKLOG: i32 = 4096;

impl BoundSocket {
    /// A socket that is bound already, from another process. What its queue holds stays there.
    pub(crate) fn inherited(fd: OwnedFd) -> io::Result<BoundSocket> {
        let socket = Socket::from(fd);
        if socket.r#type()? == Type::DGRAM && socket.domain()? != Domain::UNIX {
            socket.set_nonblocking(true)?;
            ask_for_buffers(&socket, UDP_BUFFER);
            return Ok(BoundSocket::Udp(socket.into()));
        }
        ListenSocket::inherited(socket).map(BoundSocket::Listening)
    }

    /// Whether no other socket has the same queue, as far as this one can tell.
    pub(crate) fn has_own_queue(socket: &impl AsFd) -> bool {
        let socket = SockRef::from(socket);
        socket.domain().is_ok_and(|it| it != Domain::UNIX) && socket.reuse_port().unwrap_or(false)
    }

    /// Its buffers that are smaller than [`UDP_BUFFER`], where it is one for datagrams.
    pub(crate) fn small_buffers(&self) -> Vec<SmallBuffer> {
        match self {
            BoundSocket::Listening(_) => Vec::new(),
            BoundSocket::Udp(socket) => small_buffers(socket, UDP_BUFFER),
        }
    }

    /// Where it is bound; none for a Unix socket.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            BoundSocket::Listening(ListenSocket::Tcp(socket)) => socket.local_addr().ok(),
            BoundSocket::Listening(ListenSocket::Unix(_)) => None,
            BoundSocket::Udp(socket) => socket.local_addr().ok(),
        }
    }

    /// One more with the same address, for another worker: with a queue of its own where sockets may share the address.
    fn another(&self) -> io::Result<BoundSocket> {
        match self {
            BoundSocket::Listening(socket) => socket.another().map(BoundSocket::Listening),
            BoundSocket::Udp(socket) if BoundSocket::has_own_queue(socket) => {
                let (own, address) = (SockRef::from(socket), socket.local_addr()?);
                let only_v6 = address.is_ipv6() && own.only_v6()?;
                // Only the user who has bound the first one may bind further ones.
                let further = shared_udp_socket(address, only_v6).or_else(|_| socket.try_clone());
                Ok(BoundSocket::Udp(further?))
            }
            BoundSocket::Udp(socket) => Ok(BoundSocket::Udp(socket.try_clone()?)),
        }
    }
}

impl ListenSocket {
    fn inherited(socket: Socket) -> io::Result<ListenSocket> {
        if !socket.is_listener()? || socket.r#type()? != Type::STREAM {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it does not listen"));
        }
        socket.set_nonblocking(true)?;
        Ok(match socket.domain()? {
            Domain::UNIX => ListenSocket::Unix(socket.into()),
            _ => {
                socket.set_tcp_nodelay(true)?;
                ListenSocket::Tcp(socket.into())
            }
        })
    }

    fn another(&self) -> io::Result<ListenSocket> {
        match self {
            ListenSocket::Tcp(socket) if BoundSocket::has_own_queue(socket) => {
                let (own, address) = (SockRef::from(socket), socket.local_addr()?);
                let only_v6 = address.is_ipv6() && own.only_v6()?;
                // Only the user who has bound the first one may bind further ones.
                let further = shared_tcp_socket(address, only_v6).or_else(|_| socket.try_clone());
                Ok(ListenSocket::Tcp(further?))
            }
            ListenSocket::Tcp(socket) => Ok(ListenSocket::Tcp(socket.try_clone()?)),
            ListenSocket::Unix(socket) => Ok(ListenSocket::Unix(socket.try_clone()?)),
        }
    }

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

    /// A duplicate for another process, which has the same queue.
    pub(crate) fn lend(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
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

impl AsFd for Acceptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Acceptor::Tcp(socket) => socket.as_fd(),
            Acceptor::Unix(socket) => socket.as_fd(),
        }
    }
}

/// Shares inherited sockets out to workers. Each socket has one, or its queue would wait for ever, and each worker gets one at
/// least.
pub(crate) fn share_out(
    inherited: Vec<BoundSocket>,
    workers: usize,
) -> io::Result<Vec<Vec<BoundSocket>>> {
    let mut sockets = inherited;
    let further = sockets.len()..workers;
    let further: Vec<_> = further.map(|_| sockets[0].another()).collect::<io::Result<_>>()?;
    sockets.extend(further);
    let mut shares: Vec<Vec<_>> = std::iter::repeat_with(Vec::new).take(workers).collect();
    for (index, socket) in sockets.into_iter().enumerate() {
        shares[index % workers].push(socket);
    }
    Ok(shares)
}

/// Binds one socket for each worker. They share the port, and the kernel spreads connections over them.
pub(crate) fn bind(address: &ListenAddress, workers: usize) -> io::Result<Vec<BoundSocket>> {
    let sockets = match address {
        ListenAddress::Tcp(address) => bind_tcp(*address, true, workers),
        ListenAddress::Any(port) => {
            bind_any(*port, |address, only_v6| bind_tcp(address, only_v6, workers))
        }
        ListenAddress::Unix(path) => bind_unix(path, workers),
    }?;
    Ok(sockets.into_iter().map(BoundSocket::Listening).collect())
}

/// Binds one UDP socket for each worker. They share the port, and the kernel spreads peers over them.
pub(crate) fn bind_udp(address: &ListenAddress, workers: usize) -> io::Result<Vec<BoundSocket>> {
    let sockets = match address {
        ListenAddress::Tcp(address) => bind_shared_udp(*address, true, workers),
        ListenAddress::Any(port) => {
            bind_any(*port, |address, only_v6| bind_shared_udp(address, only_v6, workers))
        }
        ListenAddress::Unix(_) => Err(io::ErrorKind::InvalidInput.into()),
    }?;
    Ok(sockets.into_iter().map(BoundSocket::Udp).collect())
}

/// Binds to all addresses of IPv6 and IPv4; `bind` gets one, and whether it is to be of IPv6 alone.
fn bind_any<S>(port: u16, bind: impl Fn(SocketAddr, bool) -> io::Result<S>) -> io::Result<S> {
    match bind((Ipv6Addr::UNSPECIFIED, port).into(), false) {
        // A kernel without IPv6 still has all of IPv4.
        Err(error) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => {
            bind((Ipv4Addr::UNSPECIFIED, port).into(), true)
        }
        result => result,
    }
}

/// Sockets that some of so many workers still have at an address, and a further one for each of the others.
pub(crate) fn share_again(
    left: Vec<(usize, UdpSocket)>,
    workers: usize,
) -> io::Result<Vec<Vec<BoundSocket>>> {
    let mut shares: Vec<Vec<_>> = std::iter::repeat_with(Vec::new).take(workers).collect();
    let mut further = None;
    for (worker, socket) in left {
        if further.is_none() {
            further = Some(BoundSocket::Udp(socket.try_clone()?));
        }
        shares[worker % workers].push(BoundSocket::Udp(socket));
    }
    let further = further.ok_or(io::ErrorKind::InvalidInput)?;
    for share in shares.iter_mut().filter(|share| share.is_empty()) {
        share.push(further.another()?);
    }
    Ok(shares)
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
        let socket = shared_tcp_socket(address, only_v6)?;
        address = socket.local_addr()?;
        sockets.push(ListenSocket::Tcp(socket));
    }
    Ok(sockets)
}

/// A socket that shares its port with others like it.
fn shared_tcp_socket(address: SocketAddr, only_v6: bool) -> io::Result<std::net::TcpListener> {
    let socket = tcp_socket(address, only_v6)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    // Accepted sockets inherit it: no call for each connection.
    socket.set_tcp_nodelay(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
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

fn bind_shared_udp(
    address: SocketAddr,
    only_v6: bool,
    workers: usize,
) -> io::Result<Vec<UdpSocket>> {
    // As with TCP: a port that another process has is found out by one socket that does not share it.
    udp_socket(address, only_v6)?.bind(&address.into())?;
    let mut address = address;
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = shared_udp_socket(address, only_v6)?;
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok(sockets)
}

/// A socket that shares its port with others like it.
fn shared_udp_socket(address: SocketAddr, only_v6: bool) -> io::Result<UdpSocket> {
    let socket = udp_socket(address, only_v6)?;
    socket.set_reuse_port(true)?;
    ask_for_buffers(&socket, UDP_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// What the system does not allow it cuts, and a burst is lost sooner.
fn ask_for_buffers(socket: &Socket, bytes: usize) {
    let _ = socket.set_recv_buffer_size(bytes);
    let _ = socket.set_send_buffer_size(bytes);
}

fn small_buffers(socket: &impl AsFd, asked: usize) -> Vec<SmallBuffer> {
    let socket = SockRef::from(socket);
    let buffers = [
        ("net.core.rmem_max", socket.recv_buffer_size()),
        ("net.core.wmem_max", socket.send_buffer_size()),
    ];
    let granted = buffers.into_iter().filter_map(|(setting, bytes)| {
        // It is told with room for what the kernel notes beside the bytes, as much again (socket(7)).
        Some(SmallBuffer { setting, granted: bytes.ok()? / 2 })
    });
    granted.filter(|buffer| buffer.granted < asked).collect()
}

fn udp_socket(address: SocketAddr, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn bind_unix(path: &Path, workers: usize) -> io::Result<Vec<ListenSocket>> {
    remove_stale_socket(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    (0..workers).map(|_| Ok(ListenSocket::Unix(socket.try_clone()?.into()))).collect()
}

impl SocketFile {
    /// The file that is at that path now.
    pub fn at(path: &Path) -> io::Result<SocketFile> {
        let identity = SocketFile::identity_at(path)?;
        Ok(SocketFile { path: path.to_owned(), identity })
    }

    /// The file that another process has found at that path when it bound the socket.
    pub fn known(path: &Path, identity: FileIdentity) -> SocketFile {
        SocketFile { path: path.to_owned(), identity }
    }

    /// What tells it from others at its path.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Removes it, unless another one is in its place by now. To be called while the socket is open: then nobody takes it for a
    /// stale one, whose inode a new one could have.
    pub fn remove(&self) {
        if SocketFile::identity_at(&self.path).is_ok_and(|now| now == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn identity_at(path: &Path) -> io::Result<FileIdentity> {
        let meta = std::fs::symlink_metadata(path)?;
        Ok((meta.dev(), meta.ino()))
    }
}

/// Removes the Unix socket that an earlier process left behind: one that refuses. One that accepts is in use, and so is one
/// whose process does not get round to it.
pub fn remove_stale_socket(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        Ok(()) | Err(_) => Err(io::ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn bound(workers: usize) -> Vec<BoundSocket> {
        bind(&ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into()), workers).unwrap()
    }

    fn address(socket: &BoundSocket) -> SocketAddr {
        socket.address().unwrap()
    }

    #[test]
    fn a_socket_is_stale_when_it_refuses_and_only_then() {
        use std::os::unix::net::UnixStream as StdUnixStream;
        let folder = std::env::temp_dir().join(format!("titan-stale-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("s");
        let listening = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listening.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listening.listen(0).unwrap();
        // It has nobody who accepts, and its queue fills up.
        let queued: Vec<_> = (0..4)
            .map_while(|_| {
                let client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
                client.set_nonblocking(true).unwrap();
                client.connect(&SockAddr::unix(&path).unwrap()).ok().map(|()| client)
            })
            .collect();
        assert!(queued.len() < 4, "it is full");
        let error = remove_stale_socket(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop((queued, listening));
        assert!(StdUnixStream::connect(&path).is_err());
        remove_stale_socket(&path).unwrap();
        assert!(!path.exists());
        remove_stale_socket(&path).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_inherited_socket_has_a_worker_and_every_worker_a_socket() {
        for (inherited, workers) in [(1, 1), (3, 1), (3, 2), (2, 3), (1, 4)] {
            let sockets = bound(inherited);
            let port = address(&sockets[0]);
            let shares = share_out(sockets, workers).unwrap();
            assert_eq!(shares.len(), workers);
            assert!(shares.iter().all(|share| !share.is_empty()), "{inherited} for {workers}");
            let all: Vec<_> = shares.iter().flatten().collect();
            assert_eq!(all.len(), inherited.max(workers));
            assert!(all.iter().all(|socket| address(socket) == port));
        }
    }

    #[test]
    fn what_waits_in_an_inherited_socket_is_accepted() {
        let socket = bound(1).remove(0);
        let client = TcpStream::connect(address(&socket)).unwrap();
        let BoundSocket::Listening(ListenSocket::Tcp(socket)) = socket else { panic!("not TCP") };
        let inherited = BoundSocket::inherited(socket.into()).unwrap();
        let BoundSocket::Listening(ListenSocket::Tcp(socket)) = &inherited else {
            panic!("it is bound to TCP")
        };
        assert_eq!(socket.accept().unwrap().1, client.local_addr().unwrap());
    }

    #[test]
    fn buffers_are_small_where_the_kernel_grants_less_than_is_asked_for() {
        let socket = udp_socket((Ipv4Addr::LOCALHOST, 0).into(), true).unwrap();
        let most = ["r", "w"].map(|which| {
            let file = std::fs::read_to_string(format!("/proc/sys/net/core/{which}mem_max"));
            file.unwrap().trim().parse::<usize>().unwrap()
        });
        let least = most[0].min(most[1]);
        ask_for_buffers(&socket, least);
        assert_eq!(small_buffers(&socket, least), []);
        let asked = most[0].max(most[1]) * 2;
        ask_for_buffers(&socket, asked);
        let small = |setting, granted| SmallBuffer { setting, granted };
        let of_both = [small("net.core.rmem_max", most[0]), small("net.core.wmem_max", most[1])];
        assert_eq!(small_buffers(&socket, asked), of_both);
    }

    #[test]
    fn one_that_shares_no_port_is_shared_itself() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = BoundSocket::inherited(socket.into()).unwrap();
        let port = address(&socket);
        let shares = share_out(vec![socket], 3).unwrap();
        assert_eq!(shares.iter().flatten().map(address).collect::<Vec<_>>(), [port; 3]);
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(BoundSocket::inherited(one.into()).is_err());
        assert!(BoundSocket::inherited(std::fs::File::open("/dev/null").unwrap().into()).is_err());
    }
}
