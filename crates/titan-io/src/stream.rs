//! A connected socket of any kind, and its two halves.
//!
//! The runtime tells when there is something to do; what is done are plain system calls, without the
//! bookkeeping for thread cancellation that those of libc carry.

mod session;

pub use session::{Agreed, Session};

use crate::buffer::{Buffer, Buffers};
use rustix::fs::sendfile;
use rustix::net::RecvFlags;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream, tcp, unix};

/// A connected socket, and the TLS session over it where there is one.
pub struct Stream {
    socket: Socket,
    tls: Option<Box<Session>>,
    /// Whether writes go to the kernel although the runtime knows of no room.
    insists: Cell<bool>,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The side of a socket that bytes come from.
pub struct ReadHalf<'s> {
    socket: ReadSocket<'s>,
    tls: Option<&'s Session>,
}

enum ReadSocket<'s> {
    Tcp(tcp::ReadHalf<'s>),
    Unix(unix::ReadHalf<'s>),
}

/// The side of a socket that bytes go to.
pub struct WriteHalf<'s> {
    socket: WriteSocket<'s>,
    tls: Option<&'s Session>,
    /// That of the stream: a message may go on over another half.
    insists: &'s Cell<bool>,
}

enum WriteSocket<'s> {
    Tcp(tcp::WriteHalf<'s>),
    Unix(unix::WriteHalf<'s>),
}

/// Bytes in a file that are body and nothing else.
pub struct FilePart<'f> {
    /// The file.
    pub file: BorrowedFd<'f>,
    /// Where the next of them stand in it.
    pub offset: u64,
    /// How many may go at a time.
    pub count: usize,
}

/// Bytes that arrived and were not used yet. Holds a buffer only while there are any.
///
/// `start <= end <= buffer.len()`
#[derive(Default)]
pub struct Inbox {
    buffer: Option<Buffer>,
    start: usize,
    end: usize,
}

impl Stream {
    /// Both halves, to be used side by side.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        let tls = self.tls.as_deref();
        let (read, write) = match &mut self.socket {
            Socket::Tcp(stream) => {
                let (read, write) = stream.split();
                (ReadSocket::Tcp(read), WriteSocket::Tcp(write))
            }
            Socket::Unix(stream) => {
                let (read, write) = stream.split();
                (ReadSocket::Unix(read), WriteSocket::Unix(write))
            }
        };
        let insists = &self.insists;
        (ReadHalf { socket: read, tls }, WriteHalf { socket: write, tls, insists })
    }

    /// Whether bytes go through it as they are.
    pub fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// The protocol that was agreed on in the TLS handshake, if that was said.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.tls.as_ref().and_then(|session| session.alpn())
    }

    /// What was agreed on with a client in the TLS handshake.
    pub fn agreed(&self) -> Option<Agreed> {
        self.tls.as_ref().map(|session| session.agreed())
    }

    /// From now on what goes through this stream is sealed.
    pub fn secure(&mut self, session: Session) {
        self.tls = Some(Box::new(session));
    }

    /// The descriptor, for calls that tokio does not know.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }

    /// Whether an idle connection can still be used: nothing has arrived, and its peer has not closed.
    ///
    /// Costs no system call: the runtime has already been told of whatever happened. What it was not
    /// told of yet is seen by `surely`, which asks the kernel.
    pub fn is_quiet(&self, surely: bool) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let has_news = match &self.socket {
            Socket::Tcp(stream) => stream.poll_read_ready(&mut cx).is_ready(),
            Socket::Unix(stream) => stream.poll_read_ready(&mut cx).is_ready(),
        };
        // A task that has used up its share of this turn is told that nothing has happened.
        let is_told = tokio::task::coop::has_budget_remaining();
        if is_told && !has_news && !surely {
            return true;
        }
        match &self.tls {
            Some(session) => session.is_quiet(self.fd()),
            None => peek(self.fd()) == Peek::Nothing,
        }
    }

    /// Closes this side; the peer's stays open.
    pub fn shut_down(&self) {
        self.say_goodbye();
        let _ = rustix::net::shutdown(self.fd(), rustix::net::Shutdown::Write);
    }

    /// Announces the end if TLS can: the reader can tell it from a connection that was cut.
    pub fn say_goodbye(&self) {
        if let Some(session) = &self.tls {
            session.close(self.fd());
        }
    }

    /// Whether the peer's kernel has, but for what is on its way, all that was sent. Only for a stream that is at its
    /// end: it is left no room for more.
    pub fn is_taken(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Socket::Tcp(stream) = &self.socket else { return true };
        let socket = socket2::SockRef::from(stream);
        // There is room once nothing waits to be sent, and next to nothing to be acknowledged.
        let is_set = socket.set_tcp_notsent_lowat(1).and_then(|()| socket.set_send_buffer_size(1));
        let mut polled = [PollFd::from_borrowed_fd(self.fd(), PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        is_set.is_err() || poll(&mut polled, Some(&now)) != Ok(0)
    }

    /// Closes with a reset instead of an orderly end, so that the peer sees that something is missing.
    pub fn reset(&self) {
        if let Socket::Tcp(stream) = &self.socket {
            let _ = socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        Stream { socket: Socket::Tcp(stream), tls: None, insists: Cell::new(false) }
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Stream {
        Stream { socket: Socket::Unix(stream), tls: None, insists: Cell::new(false) }
    }
}

/// What lies in front of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// Nothing has arrived.
    Nothing,
    /// Bytes have arrived.
    Bytes,
    /// The peer has closed its side.
    End,
    /// The connection is broken.
    Broken,
}

/// Sends with one call. A peer that has gone is an error and no signal.
fn send(fd: BorrowedFd<'_>, head: &[u8], body: &[u8]) -> io::Result<usize> {
    use rustix::net::{SendAncillaryBuffer, SendFlags};
    let count = match (head.is_empty(), body.is_empty()) {
        (_, true) => rustix::net::send(fd, head, SendFlags::NOSIGNAL),
        (true, false) => rustix::net::send(fd, body, SendFlags::NOSIGNAL),
        (false, false) => {
            let both = [IoSlice::new(head), IoSlice::new(body)];
            let nothing = &mut SendAncillaryBuffer::default();
            rustix::net::sendmsg(fd, &both, nothing, SendFlags::NOSIGNAL)
        }
    };
    Ok(count?)
}

/// What a call that moved `count` bytes tells the runtime. Less than there was room for means that
/// there is no more for now; saying so saves the call that would find it out.
fn all_or_would_block(count: usize, room: usize) -> io::Result<()> {
    match count == 0 || count == room {
        true => Ok(()),
        false => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn peek(fd: BorrowedFd<'_>) -> Peek {
    let mut byte = [0_u8; 1];
    match rustix::net::recv(fd, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Peek::End,
        Ok(_) => Peek::Bytes,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Peek::Nothing,
        Err(_) => Peek::Broken,
    }
}

impl ReadHalf<'_> {
    /// Whether bytes come from the socket as they are.
    pub fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// The TLS session, where there is one.
    pub fn session(&self) -> Option<&Session> {
        self.tls
    }

    /// Waits until there is something to read, or the end.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.tls.is_some_and(Session::has_news) {
            return Poll::Ready(Ok(()));
        }
        match &self.socket {
            ReadSocket::Tcp(half) => half.as_ref().poll_read_ready(cx),
            ReadSocket::Unix(half) => half.as_ref().poll_read_ready(cx),
        }
    }

    /// Calls `read`, which must not block; when it would, the runtime knows that there is nothing.
    pub fn try_io<R>(&self, read: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        match &self.socket {
            ReadSocket::Tcp(half) => half.as_ref().try_io(Interest::READABLE, read),
            ReadSocket::Unix(half) => half.as_ref().try_io(Interest::READABLE, read),
        }
    }

    /// Waits until something has arrived, and tells what, without taking it.
    pub fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<Peek> {
        loop {
            if ready!(self.poll_ready(cx)).is_err() {
                return Poll::Ready(Peek::Broken);
            }
            let seen = match self.tls {
                Some(session) => session.peek(self),
                None => self.try_io(|| match peek(self.fd()) {
                    Peek::Nothing => Err(io::ErrorKind::WouldBlock.into()),
                    seen => Ok(seen),
                }),
            };
            if let Ok(seen) = seen {
                return Poll::Ready(seen);
            }
        }
    }

    /// Whether the connection is broken, whatever has arrived before that. Asks the kernel.
    pub fn is_broken(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::from_borrowed_fd(self.fd(), PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_broken = PollFlags::ERR | PollFlags::HUP;
        poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(is_broken)
    }

    /// The descriptor, for calls that tokio does not know.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            ReadSocket::Tcp(half) => half.as_ref().as_fd(),
            ReadSocket::Unix(half) => half.as_ref().as_fd(),
        }
    }

    /// Reads what has arrived; `WouldBlock` when the runtime was wrong to say that something had.
    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self.tls {
            Some(session) => session.read(self, into),
            None => self.receive(into),
        }
    }

    /// Reads what the socket has, sealed or not.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let room = into.len();
        let mut received = None;
        let tried = self.try_io(|| {
            let (count, _) = rustix::net::recv(self.fd(), into, RecvFlags::empty())?;
            received = Some(count);
            all_or_would_block(count, room)
        });
        received.map_or_else(|| tried.map(|()| 0), Ok)
    }
}

impl WriteHalf<'_> {
    /// Whether bytes go to the socket as they are.
    pub fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Makes calls try until the kernel takes no more, whether or not the runtime knows of room.
    ///
    /// The kernel reports room only once a large part of its buffer is free, and takes bytes long
    /// before. So this tells a peer that takes little from one that takes nothing.
    pub fn insist(&self) {
        self.insists.set(true);
    }

    /// Writes some of `head` and `body`, in that order and as one; tells how many bytes. What a TLS
    /// session has taken may still wait for [`WriteHalf::poll_flush`].
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
        body: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(session) = self.tls else { return self.poll_send(cx, head, body) };
        ready!(self.poll_flush(cx))?;
        let count = session.seal(head, body)?;
        match self.poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(count)),
        }
    }

    /// Hands to the kernel what was sealed before.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(session) = self.tls else { return Poll::Ready(Ok(())) };
        while session.has_sealed() {
            ready!(self.poll_ready(cx))?;
            match self.try_io(|| session.send(self.fd())) {
                Err(error) if is_nothing(&error) => {}
                sent => sent?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Closes this side; the peer's stays open.
    pub fn shut_down(&self) {
        if let Some(session) = self.tls {
            session.close(self.fd());
        }
        let _ = rustix::net::shutdown(self.fd(), rustix::net::Shutdown::Write);
    }

    /// Bytes that the kernel has taken from the TLS session, since its start; none without one.
    pub fn sealed(&self) -> Option<u64> {
        self.tls.map(Session::sent)
    }

    fn poll_send(&self, cx: &mut Context<'_>, head: &[u8], body: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_ready(cx))?;
            let mut sent = None;
            let tried = self.try_io(|| {
                let count = send(self.fd(), head, body)?;
                sent = Some(count);
                all_or_would_block(count, head.len() + body.len())
            });
            match (sent, tried) {
                (Some(count), _) => return Poll::Ready(Ok(count)),
                (None, Err(error)) if is_nothing(&error) => {}
                (None, tried) => return Poll::Ready(tried.map(|()| 0)),
            }
        }
    }

    /// Writes some of a file without reading it (sendfile(2)); tells how many bytes, 0 at its end. Not through
    /// TLS.
    pub fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        part: &FilePart<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_ready(cx))?;
            let mut offset = part.offset;
            let mut send = || sendfile(self.fd(), part.file, Some(&mut offset), part.count);
            match self.try_io(|| Ok(send()?)) {
                Err(error) if is_nothing(&error) => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Waits until something can be written.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.insists.get() {
            return Poll::Ready(Ok(()));
        }
        match &self.socket {
            WriteSocket::Tcp(half) => half.as_ref().poll_write_ready(cx),
            WriteSocket::Unix(half) => half.as_ref().poll_write_ready(cx),
        }
    }

    /// Calls `write`, which must not block; when it would, the runtime knows that there is no room.
    pub fn try_io<R>(&self, write: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        if self.insists.get() {
            let tried = write();
            self.insists.set(!tried.as_ref().is_err_and(is_nothing));
            return tried;
        }
        match &self.socket {
            WriteSocket::Tcp(half) => half.as_ref().try_io(Interest::WRITABLE, write),
            WriteSocket::Unix(half) => half.as_ref().try_io(Interest::WRITABLE, write),
        }
    }

    /// The descriptor, for calls that tokio does not know.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            WriteSocket::Tcp(half) => half.as_ref().as_fd(),
            WriteSocket::Unix(half) => half.as_ref().as_fd(),
        }
    }
}

impl Inbox {
    /// The bytes that wait to be used.
    pub fn unread(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer.bytes()[self.start..self.end],
            None => &[],
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Takes the first `count` bytes out. The last one takes the buffer along.
    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Forgets what waits.
    pub fn clear(&mut self) {
        *self = Inbox::default();
    }

    /// Reads more behind what waits, at most until `size` bytes wait; 0 is the end of the stream.
    ///
    /// The buffer is taken only when there is something to read.
    pub fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        reader: &ReadHalf<'_>,
        buffers: &Rc<Buffers>,
        size: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(reader.poll_ready(cx))?;
            self.make_room(buffers, size);
            let buffer = self.buffer.as_mut().expect("make_room leaves a buffer");
            let read = reader.try_read(&mut buffer.bytes_mut()[self.end..]);
            self.end += *read.as_ref().unwrap_or(&0);
            if self.is_empty() {
                self.clear();
            }
            match read {
                Err(error) if is_nothing(&error) => {}
                read => return Poll::Ready(read),
            }
        }
    }

    fn make_room(&mut self, buffers: &Rc<Buffers>, size: usize) {
        let Some(buffer) = &mut self.buffer else {
            self.buffer = Some(buffers.take(size));
            return;
        };
        if self.start > 0 {
            buffer.bytes_mut().copy_within(self.start..self.end, 0);
        }
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == buffer.bytes().len() {
            let mut larger = buffers.take(size.max(2 * self.end));
            larger.bytes_mut()[..self.end].copy_from_slice(buffer.bytes());
            *buffer = larger;
        }
    }
}
