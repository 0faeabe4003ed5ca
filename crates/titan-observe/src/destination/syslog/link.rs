//! A socket to a server of syslog.

use super::super::lines::Lines;
use super::super::queue::End;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
use titan_config::{SyslogAddress, SyslogServer};

/// A socket to a server, which does not block.
pub(super) struct Link {
    socket: Socket,
    opened: Instant,
    /// After how long it is opened anew; the server may have moved, and does not respond.
    most_age: Duration,
}

enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
    Tcp(TcpStream),
}

/// For connecting, and for each write.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long the system keeps what was sent over a connection without acknowledgement, before that counts as lost.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);
/// How long the address of a name is used for datagrams.
const MOST_AGE: Duration = Duration::from_secs(60);

impl Link {
    /// Connects within [`TIMEOUT`], beside the time that the system takes for a name.
    pub(super) fn open(address: &SyslogAddress, end: &End) -> io::Result<Link> {
        let socket = match address {
            SyslogAddress::Udp(server) => Socket::Udp(open_udp(server)?),
            SyslogAddress::Tcp(server) => Socket::Tcp(open_tcp(server, end)?),
            SyslogAddress::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_nonblocking(true)?;
                Socket::Unix(socket)
            }
        };
        let is_by_name = |server: &SyslogServer| server.host.parse::<std::net::IpAddr>().is_err();
        let most_age = match address {
            SyslogAddress::Udp(server) if is_by_name(server) => MOST_AGE,
            _ => Duration::MAX,
        };
        Ok(Link { socket, opened: Instant::now(), most_age })
    }

    /// Whether lines can still be sent, as far as is known.
    pub(super) fn is_usable(&mut self) -> bool {
        let Socket::Tcp(stream) = &mut self.socket else {
            return self.opened.elapsed() < self.most_age;
        };
        // Servers say nothing, until they close.
        match stream.read(&mut [0; 256]) {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Sends messages until one fails. How many were sent whole.
    pub(super) fn send(
        &mut self,
        messages: &Lines,
        range: Range<usize>,
        end: &End,
    ) -> (usize, io::Result<()>) {
        match self.socket {
            Socket::Udp(_) | Socket::Unix(_) => self.send_datagrams(messages, range, end),
            Socket::Tcp(_) => self.send_bytes(messages, range, end),
        }
    }

    fn send_datagrams(
        &mut self,
        messages: &Lines,
        range: Range<usize>,
        end: &End,
    ) -> (usize, io::Result<()>) {
        for (count, index) in range.clone().enumerate() {
            if let Err(error) = self.write(messages.bytes(index..index + 1), end) {
                return (count, Err(error));
            }
        }
        (range.len(), Ok(()))
    }

    fn send_bytes(
        &mut self,
        messages: &Lines,
        range: Range<usize>,
        end: &End,
    ) -> (usize, io::Result<()>) {
        let bytes = messages.bytes(range.clone());
        let mut sent = 0;
        while sent < bytes.len() {
            match self.write(&bytes[sent..], end) {
                Ok(count) => sent += count,
                Err(error) => return (messages.fitting(range.start, sent as u64), Err(error)),
            }
        }
        (range.len(), Ok(()))
    }

    /// Writes once, when there is room.
    fn write(&mut self, bytes: &[u8], end: &End) -> io::Result<usize> {
        let until = Instant::now() + TIMEOUT;
        loop {
            let result = match &mut self.socket {
                Socket::Udp(socket) => socket.send(bytes),
                Socket::Unix(socket) => socket.send(bytes),
                Socket::Tcp(stream) => stream.write(bytes),
            };
            match result {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if !end.is_writable(&*self, left)? {
                        return Err(io::Error::new(ErrorKind::TimedOut, "it takes nothing"));
                    }
                }
                result => return result,
            }
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Udp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(stream) => stream.as_fd(),
        }
    }
}

fn open_udp(server: &SyslogServer) -> io::Result<UdpSocket> {
    let address = *addresses(server)?.first().ok_or(ErrorKind::NotFound)?;
    let own = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(own)?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Connects to one of the addresses, each of which gets its part of the time.
fn open_tcp(server: &SyslogServer, end: &End) -> io::Result<TcpStream> {
    let addresses = addresses(server)?;
    let until = Instant::now() + end.left().map_or(TIMEOUT, |left| left.min(TIMEOUT));
    let mut last = io::Error::from(ErrorKind::NotFound);
    for (index, address) in addresses.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let part = left / u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        match TcpStream::connect_timeout(address, part.max(Duration::from_millis(1))) {
            Ok(stream) => {
                stream.set_nonblocking(true)?;
                SockRef::from(&stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The addresses of a server, at least one.
#[expect(clippy::disallowed_methods, reason = "this thread has nothing else to do than wait")]
fn addresses(server: &SyslogServer) -> io::Result<Vec<SocketAddr>> {
    let SyslogServer { host, port } = server;
    let addresses: Vec<_> = (host.as_str(), port.get()).to_socket_addrs()?.collect();
    match addresses.is_empty() {
        true => Err(io::Error::new(ErrorKind::NotFound, format!("{host} has no address"))),
        false => Ok(addresses),
    }
}
