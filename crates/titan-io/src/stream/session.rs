//! A TLS session over a socket: sealed bytes on one side, plain ones on the other.
//!
//! The session does no waiting of its own. Its owner says when the socket can be read or written, as it
//! does for a socket without TLS.

use super::{Peek, ReadHalf};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use rustls::pki_types::CertificateDer;
use rustls::{Connection, HandshakeKind, ProtocolVersion};
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;

/// A TLS session whose handshake may still be going on.
pub struct Session {
    tls: RefCell<Connection>,
    /// Bytes that came and were not opened yet: there were opened ones to be read first.
    unopened: RefCell<Vec<u8>>,
    /// Bytes that were opened and not read yet.
    plain: Cell<usize>,
    /// Whether nothing more will come.
    is_over: Cell<bool>,
    /// Whether the peer broke a rule or was refused, so that this is no end in good order.
    has_failed: Cell<bool>,
    /// Bytes that the kernel has taken.
    sent: Cell<u64>,
    /// Bytes that came from the socket.
    received: Cell<u64>,
    /// How many of them came since one could be read.
    barren: Cell<usize>,
}

/// What a client and this side have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Whether TLS 1.3 is spoken; otherwise it is TLS 1.2.
    pub is_tls13: bool,
    /// Whether an earlier session goes on.
    pub is_resumed: bool,
    /// The name that the client has asked for.
    pub server_name: Option<Box<str>>,
}

/// What may come without a byte that can be read: more than a whole record. Otherwise a peer
/// that sends empty records and new keys without end would keep a worker busy.
const BARREN: usize = 64 << 10;

/// Plain bytes that a session takes before some have gone to the kernel: four records.
const SEALED: usize = 64 << 10;
/// What is read from a socket at once: a whole record with its head and tag.
const RECORD: usize = (16 << 10) + 256;
/// Records that one call may send.
const PIECES: usize = 16;

impl Session {
    /// A session at its start.
    pub fn new(tls: impl Into<Connection>) -> Session {
        let mut tls = tls.into();
        tls.set_buffer_limit(Some(SEALED));
        Session {
            tls: RefCell::new(tls),
            unopened: RefCell::default(),
            plain: Cell::new(0),
            is_over: Cell::new(false),
            has_failed: Cell::new(false),
            sent: Cell::new(0),
            received: Cell::new(0),
            barren: Cell::new(0),
        }
    }

    /// Whether the two sides have not agreed on keys yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.borrow().is_handshaking()
    }

    /// The protocol that was agreed on, if that was said.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.tls.borrow().alpn_protocol().map(<[u8]>::to_vec)
    }

    /// The certificates that the peer has presented, in this handshake or in that of the session resumed.
    pub fn shown(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.tls.borrow().peer_certificates().map(<[_]>::to_vec)
    }

    /// What was agreed on with a client.
    pub fn agreed(&self) -> Agreed {
        let tls = self.tls.borrow();
        let server_name = match &*tls {
            Connection::Server(server) => server.server_name().map(Box::from),
            Connection::Client(_) => None,
        };
        let is_tls13 = tls.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let is_resumed = tls.handshake_kind() == Some(HandshakeKind::Resumed);
        Agreed { is_tls13, is_resumed, server_name }
    }

    /// Whether an earlier session goes on.
    pub fn is_resumed(&self) -> bool {
        self.tls.borrow().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether a read may give something without asking the socket: bytes, or the end.
    pub fn has_news(&self) -> bool {
        self.is_readable() || !self.unopened.borrow().is_empty()
    }

    /// Whether nothing more will come.
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    fn is_readable(&self) -> bool {
        self.plain.get() > 0 || self.is_over.get()
    }

    /// Bytes that the kernel has taken.
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Bytes that came from the socket.
    pub fn received(&self) -> u64 {
        self.received.get()
    }

    /// Whether something waits to be sent.
    pub fn has_sealed(&self) -> bool {
        self.tls.borrow().wants_write()
    }

    /// Reads opened bytes; 0 is the end that the peer has announced.
    pub fn read(&self, from: &ReadHalf<'_>, into: &mut [u8]) -> io::Result<usize> {
        while !self.is_readable() {
            self.receive(from)?;
        }
        let count = self.tls.borrow_mut().reader().read(into)?;
        self.plain.set(self.plain.get().saturating_sub(count));
        Ok(count)
    }

    /// Returns what comes next without consuming it.
    pub fn peek(&self, from: &ReadHalf<'_>) -> io::Result<Peek> {
        while !self.is_readable() {
            match self.receive(from) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => return Ok(Peek::Broken),
                Ok(()) => {}
            }
        }
        Ok(if self.plain.get() > 0 { Peek::Bytes } else { Peek::End })
    }

    /// Opens what has come; reads from the socket if that was opened already.
    pub fn receive(&self, from: &ReadHalf<'_>) -> io::Result<()> {
        let unopened = self.unopened.take();
        if !unopened.is_empty() {
            return self.open(&unopened);
        }
        let mut record = [0; RECORD];
        let count = from.receive(&mut record)?;
        self.came(&record[..count])
    }

    /// Opens what has just come from the socket; nothing is its end.
    pub fn came(&self, sealed: &[u8]) -> io::Result<()> {
        self.received.set(self.received.get() + sealed.len() as u64);
        self.barren.set(self.barren.get() + sealed.len());
        self.open(sealed)?;
        if self.plain.get() > 0 || self.is_handshaking() {
            self.barren.set(0);
        }
        match self.barren.get() > BARREN {
            true => Err(self.failed(io::ErrorKind::InvalidData.into())),
            false => Ok(()),
        }
    }

    /// Opens what has come, up to the first bytes that can be read; nothing is the end of the socket.
    fn open(&self, mut sealed: &[u8]) -> io::Result<()> {
        let mut tls = self.tls.borrow_mut();
        let is_end = sealed.is_empty();
        loop {
            tls.read_tls(&mut sealed).map_err(|error| self.failed(error))?;
            let state = tls.process_new_packets();
            let state = state.map_err(|error| self.failed(io::Error::other(error)))?;
            self.plain.set(state.plaintext_bytes_to_read());
            self.is_over.set(self.is_over.get() || is_end || state.peer_has_closed());
            if sealed.is_empty() || self.is_readable() {
                *self.unopened.borrow_mut() = sealed.to_vec();
                // rustls gives back the room for a whole record when it is about to read the next one.
                if !self.has_news() {
                    let _ = tls.read_tls(&mut NoData);
                }
                return Ok(());
            }
        }
    }

    fn failed(&self, error: io::Error) -> io::Error {
        self.fail();
        error
    }

    /// From now on no end is announced: an alert may say what went wrong, and the peer must not take it for an end in
    /// good order (RFC 8446 section 6).
    pub fn fail(&self) {
        self.has_failed.set(true);
    }

    /// Decrypts what the socket has received while nothing read from it: tickets, for one. Tells whether there was
    /// nothing but such things, and the connection can be used on.
    pub fn is_quiet(&self, socket: BorrowedFd<'_>) -> bool {
        let mut record = [0; RECORD];
        loop {
            match rustix::net::recv(socket, &mut record[..], RecvFlags::DONTWAIT) {
                Ok((_, count)) if count > 0 => {
                    if self.came(&record[..count]).is_err() || self.has_news() {
                        return false;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return !self.has_news(),
                _ => return false,
            }
        }
    }

    /// Takes bytes to be sealed and sent; tells how many.
    pub fn seal(&self, head: &[u8], body: &[u8]) -> io::Result<usize> {
        let mut tls = self.tls.borrow_mut();
        tls.writer().write_vectored(&[IoSlice::new(head), IoSlice::new(body)])
    }

    /// Sends what was sealed, as far as the socket takes it.
    pub fn send(&self, to: BorrowedFd<'_>) -> io::Result<()> {
        let count = self.tls.borrow_mut().write_tls(&mut Sender(to))?;
        self.sent.set(self.sent.get() + count as u64);
        Ok(())
    }

    /// Announces the end, or sends the alert that says what went wrong, as far as the socket takes that at once.
    pub fn close(&self, to: BorrowedFd<'_>) {
        if !self.has_failed.get() {
            self.tls.borrow_mut().send_close_notify();
        }
        while self.has_sealed() && self.send(to).is_ok() {}
    }
}

/// A socket without data to read.
struct NoData;

impl Read for NoData {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// A socket to be written to, all records that are ready in one call.
struct Sender<'s>(BorrowedFd<'s>);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let pieces = &pieces[..pieces.len().min(PIECES)];
        let nothing = &mut SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(self.0, pieces, nothing, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
