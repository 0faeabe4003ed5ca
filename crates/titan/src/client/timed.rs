//! A connection on which a call has so much time left.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A socket whose reads and writes end at the deadline of the call at the latest.
pub(super) struct Timed<S> {
    socket: S,
    /// When the call has to be over; none where each read may take `within`.
    deadline: Option<Instant>,
    within: Duration,
}

/// How long it may take until the gateway has taken a part of a request.
const WRITE: Duration = Duration::from_secs(30);

impl<S> Timed<S> {
    /// The same for a call that may take so long from now.
    pub(super) fn new(socket: S, within: Duration) -> Timed<S> {
        Timed { socket, deadline: Some(Instant::now() + within), within }
    }

    /// The same for a response without an end, of which something comes at least that often.
    pub(super) fn endless(socket: S, within: Duration) -> Timed<S> {
        Timed { socket, deadline: None, within }
    }

    fn left(&self) -> io::Result<Duration> {
        let Some(deadline) = self.deadline else { return Ok(self.within) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// What sockets have in common.
pub(super) trait Timeouts: Read + Write {
    fn set_timeout_to_read(&self, time: Duration) -> io::Result<()>;
    fn set_timeout_to_write(&self, time: Duration) -> io::Result<()>;
}

impl Timeouts for UnixStream {
    fn set_timeout_to_read(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }

    fn set_timeout_to_write(&self, time: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(time))
    }
}

impl Timeouts for TcpStream {
    fn set_timeout_to_read(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }

    fn set_timeout_to_write(&self, time: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(time))
    }
}

impl<S: Timeouts> Read for Timed<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_timeout_to_read(self.left()?)?;
        self.socket.read(into)
    }
}

impl<S: Timeouts> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_timeout_to_write(self.left()?.min(WRITE))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
