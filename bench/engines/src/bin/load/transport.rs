//! What bytes travel on: a bare socket or TLS over one, non-blocking both.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, HandshakeKind};
use titan_bench::net::{self, Moved};
use titan_bench::report::Job;
use titan_bench::tls;

use crate::fault::Fault;

/// How the connections of a job are opened.
pub struct Dial {
    to: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

/// An open connection, or one that is about to be.
pub enum Transport {
    Bare(OwnedFd),
    Tls(Box<Tls>),
}

/// TLS over a socket.
pub struct Tls {
    socket: Socket,
    session: ClientConnection,
}

/// The socket as rustls reads and writes it.
struct Socket {
    fd: OwnedFd,
    /// A read has come up short: there is nothing more until the next event.
    emptied: bool,
    /// The peer has sent its last byte, so that a short read is not yet the end of what is there.
    ended: bool,
}

impl Dial {
    pub fn lay_out(job: &Job) -> io::Result<Self> {
        let tls = match &job.tls {
            Some(tls) => Some(tls::client(&tls.certificate, tls::HTTP1, tls.resume)?),
            None => None,
        };
        Ok(Self { to: job.to, tls })
    }

    /// Begins to connect.
    pub fn connect(&self) -> Result<Transport, Fault> {
        let fd = net::connect(self.to).map_err(Fault::Connect)?;
        let Some(config) = &self.tls else { return Ok(Transport::Bare(fd)) };
        let session = ClientConnection::new(Arc::clone(config), tls::name())
            .map_err(|error| Fault::Tls(error.to_string()))?;
        let socket = Socket { fd, emptied: false, ended: false };
        Ok(Transport::Tls(Box::new(Tls { socket, session })))
    }
}

impl Transport {
    /// An event says that there may be something to read; `ended` that nothing follows it.
    pub fn begin_reading(&mut self, ended: bool) {
        if let Self::Tls(tls) = self {
            tls.socket.emptied = false;
            tls.socket.ended = ended;
        }
    }

    /// Whether a read of `count` bytes into a buffer of `room` has shown that nothing is left for now.
    pub fn emptied(&self, count: usize, room: usize, ended: bool) -> bool {
        match self {
            Self::Bare(_) => count < room && !ended,
            // It finds out by itself, without a system call.
            Self::Tls(_) => false,
        }
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Moved, Fault> {
        match self {
            Self::Bare(fd) => Ok(net::read(fd, buffer)),
            Self::Tls(tls) => tls.read(buffer),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<Moved, Fault> {
        match self {
            Self::Bare(fd) => Ok(net::write(fd, bytes)),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    /// Writes what TLS still holds; there is room again.
    pub fn flush(&mut self) -> Result<(), Fault> {
        match self {
            Self::Bare(_) => Ok(()),
            Self::Tls(tls) => tls.flush(),
        }
    }

    /// Whether it took a whole handshake to open.
    pub fn is_full_handshake(&self) -> bool {
        match self {
            Self::Bare(_) => false,
            Self::Tls(tls) => tls.session.handshake_kind() != Some(HandshakeKind::Resumed),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Bare(fd) => fd.as_fd(),
            Self::Tls(tls) => tls.socket.fd.as_fd(),
        }
    }
}

impl Tls {
    /// Before the handshake is done rustls keeps what is written; it has no more than a request to keep.
    fn write(&mut self, bytes: &[u8]) -> Result<Moved, Fault> {
        let count = self.session.writer().write(bytes).map_err(tls_fault)?;
        self.flush()?;
        Ok(if count == 0 { Moved::Blocked } else { Moved::Bytes(count) })
    }

    fn flush(&mut self) -> Result<(), Fault> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(tls_fault(error)),
            }
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<Moved, Fault> {
        loop {
            match self.session.reader().read(buffer) {
                // Without TLS's own end a cut would go unnoticed, but here every length is known.
                Ok(0) => return Ok(Moved::Closed),
                Ok(count) => return Ok(Moved::Bytes(count)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Moved::Closed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(tls_fault(error)),
            }
            match self.session.read_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Moved::Blocked);
                }
                Err(error) => return Err(tls_fault(error)),
            }
            self.session.process_new_packets().map_err(|error| Fault::Tls(error.to_string()))?;
            self.flush()?;
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.emptied {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = rustix::io::read(&self.fd, &mut *buffer)?;
        self.emptied = count < buffer.len() && !self.ended;
        Ok(count)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.fd, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn tls_fault(error: io::Error) -> Fault {
    Fault::Tls(error.to_string())
}
