//! A connected socket of either kind, blocking.

use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, BufRead, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub(crate) fn connect(address: SocketAddr, timeout: Duration) -> io::Result<Stream> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        // What a test sends in two pieces has to arrive as two.
        stream.set_nodelay(true)?;
        Ok(Stream::Tcp(stream))
    }

    pub(crate) fn connect_from(source: IpAddr, address: SocketAddr) -> io::Result<Stream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
        socket.connect(&address.into())?;
        socket.set_tcp_nodelay(true)?;
        Ok(Stream::Tcp(socket.into()))
    }

    /// Speaks TLS from now on.
    pub(crate) fn secure(&mut self, session: ClientConnection) -> io::Result<()> {
        let Stream::Tcp(socket) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let mut stream = StreamOwned::new(session, socket.try_clone()?);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        *self = Stream::Tls(Box::new(stream));
        Ok(())
    }

    /// The TLS session, where there is one.
    pub(crate) fn session(&self) -> Option<&ClientConnection> {
        match self {
            Stream::Tls(stream) => Some(&stream.conn),
            Stream::Tcp(_) | Stream::Unix(_) => None,
        }
    }

    /// Whether there is something to read, the end among it. Only while calls do not block.
    pub(crate) fn has_news(&mut self) -> bool {
        let Stream::Tls(stream) = self else {
            return self.socket().peek(&mut [std::mem::MaybeUninit::uninit()]).is_ok();
        };
        match stream.fill_buf() {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    pub(crate) fn connect_unix(path: &Path) -> io::Result<Stream> {
        UnixStream::connect(path).map(Stream::Unix)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
            Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// How long a read or a write may block; `None` for ever.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        let socket = self.socket();
        socket.set_read_timeout(timeout)?;
        socket.set_write_timeout(timeout)
    }

    pub(crate) fn shut_down(&mut self, side: Shutdown) {
        if let Stream::Tls(stream) = self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        // It fails where the other side has closed already, and then there is nothing to do.
        let _ = self.socket().shutdown(side);
    }

    /// Makes closing a reset. A Unix socket knows none.
    pub(crate) fn reset_on_close(&self) {
        if !matches!(self, Stream::Unix(_)) {
            let _ = self.socket().set_linger(Some(Duration::ZERO));
        }
    }

    pub(crate) fn socket(&self) -> SockRef<'_> {
        match self {
            Stream::Tcp(stream) => SockRef::from(stream),
            Stream::Unix(stream) => SockRef::from(stream),
            Stream::Tls(stream) => SockRef::from(&stream.sock),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
            Stream::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
