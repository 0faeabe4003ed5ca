//! One end of a connection, driven by a test: a client of the gateway, or an endpoint behind it.

use crate::deadline::DEADLINE;
use crate::message::{Request, Response, Unfinished, shown};
use crate::stream::Stream;
use rustls::{ClientConnection, HandshakeKind};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// One end of a connection. Dropping it resets the connection, so that nothing waits for it.
#[derive(Debug)]
pub struct Peer {
    stream: Stream,
    /// What has arrived and was not looked at.
    received: Vec<u8>,
    /// How the other side has ended the connection.
    end: Option<End>,
    /// Which connection of its upstream this is, from 0.
    index: usize,
    /// Whether dropping it is a reset.
    resets: bool,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an orderly close.
    Close,
    /// With a reset.
    Reset,
}

impl Peer {
    /// Connects to a TCP address.
    #[track_caller]
    pub fn connects(address: SocketAddr) -> Peer {
        match Stream::connect(address, DEADLINE) {
            Ok(stream) => Peer::new(stream, 0),
            Err(error) => panic!("cannot connect to {address}: {error}"),
        }
    }

    /// Connects to a TCP address from that address of this machine.
    #[track_caller]
    pub fn connects_from(source: &str, address: SocketAddr) -> Peer {
        let source: IpAddr = source.parse().expect("an address");
        match Stream::connect_from(source, address) {
            Ok(stream) => Peer::new(stream, 0),
            Err(error) => panic!("cannot connect from {source} to {address}: {error}"),
        }
    }

    /// Connects to a Unix socket.
    #[track_caller]
    pub fn connects_to_unix(path: &Path) -> Peer {
        match Stream::connect_unix(path) {
            Ok(stream) => Peer::new(stream, 0),
            Err(error) => panic!("cannot connect to {}: {error}", path.display()),
        }
    }

    /// Speaks TLS from now on.
    #[track_caller]
    pub fn secures(self, session: ClientConnection) -> Peer {
        match self.tries_to_secure(session) {
            Ok(peer) => peer,
            Err(error) => panic!("no handshake: {error}"),
        }
    }

    /// The same where the handshake may fail.
    pub fn tries_to_secure(mut self, session: ClientConnection) -> io::Result<Peer> {
        self.stream.secure(session)?;
        Ok(self)
    }

    /// Sends bytes past its TLS session, as far as the other side takes them.
    pub fn offers_unsealed(&mut self, bytes: &[u8]) -> &mut Peer {
        // The other side may have closed, and then this is what happens.
        let _ = self.stream.socket().send(bytes);
        self
    }

    /// Whether its TLS session goes on with the keys of an earlier one.
    #[track_caller]
    pub fn has_resumed(&self) -> bool {
        let session = self.stream.session().expect("this client speaks TLS");
        session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(crate) fn new(stream: Stream, index: usize) -> Peer {
        stream.set_timeout(Some(DEADLINE)).expect("a socket takes a timeout");
        Peer { stream, received: Vec::new(), end: None, index, resets: true }
    }

    /// The end of a connection that an upstream serves on its own, for as long as it lasts.
    pub(crate) fn serving(stream: Stream, index: usize) -> Peer {
        stream.set_timeout(None).expect("a socket takes a timeout");
        Peer { stream, received: Vec::new(), end: None, index, resets: false }
    }

    /// Sends all of it.
    #[track_caller]
    pub fn sends(&mut self, bytes: impl AsRef<[u8]>) -> &mut Peer {
        let sent = self.stream.write_all(bytes.as_ref());
        if let Err(error) = sent.and_then(|()| self.stream.flush()) {
            panic!("cannot send {}: {error}", shown(bytes.as_ref()));
        }
        self
    }

    /// Sends it byte for byte, each in a call of its own.
    #[track_caller]
    pub fn sends_slowly(&mut self, bytes: impl AsRef<[u8]>) -> &mut Peer {
        bytes.as_ref().chunks(1).for_each(|byte| {
            self.sends(byte);
        });
        self
    }

    /// Sends as much of it as the other side takes before it closes.
    pub fn offers(&mut self, bytes: impl AsRef<[u8]>) -> &mut Peer {
        // The other side may have responded and closed, and then this is what happens.
        let _ = self.stream.write_all(bytes.as_ref());
        self
    }

    /// Sends `x` until the other side takes no more for a moment, at most that many; tells how many went.
    #[track_caller]
    pub fn sends_until_blocked(&mut self, most: usize) -> usize {
        const MOMENT: Duration = Duration::from_millis(300);
        let piece = [b'x'; 64 << 10];
        self.stream.set_timeout(Some(MOMENT)).expect("a socket takes a timeout");
        let mut sent = 0;
        while sent < most {
            let count = self.stream.write(&piece[..piece.len().min(most - sent)]);
            let Ok(count) = count else { break };
            sent += count;
        }
        self.stream.set_timeout(Some(DEADLINE)).expect("a socket takes a timeout");
        sent
    }

    /// Waits for that many bytes and returns them.
    #[track_caller]
    pub fn takes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.fill(b"bytes"), "expected {count} bytes, but {}", self.so_far());
        }
        self.received.drain(..count).collect()
    }

    /// Waits for exactly these bytes.
    #[track_caller]
    pub fn expects(&mut self, bytes: impl AsRef<[u8]>) -> &mut Peer {
        let wanted = bytes.as_ref();
        while self.received.len() < wanted.len() && wanted.starts_with(&self.received) {
            if !self.fill(wanted) {
                break;
            }
        }
        let came = &self.received[..wanted.len().min(self.received.len())];
        assert!(came == wanted, "expected {}, but {}", shown(wanted), self.so_far());
        self.received.drain(..wanted.len());
        self
    }

    /// Waits for the next response, which may be an interim one.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// Waits for the next response to a request with that method.
    #[track_caller]
    pub fn response_to(&mut self, method: &str) -> Response {
        loop {
            let has_ended = self.end == Some(End::Close);
            match Response::parse(&self.received, method == "HEAD", has_ended) {
                Ok((response, length)) => {
                    self.received.drain(..length);
                    return response;
                }
                Err(Unfinished::More) if self.fill(b"a response") => {}
                Err(why) => panic!("no response ({why:?}): {}", self.so_far()),
            }
        }
    }

    /// Waits for the next response to a GET; `None` when the connection ends before that.
    #[track_caller]
    pub fn response_if_any(&mut self) -> Option<Response> {
        while Response::parse(&self.received, false, self.end.is_some()).is_err() {
            if !self.fill(b"a response") {
                return None;
            }
        }
        Some(self.response())
    }

    /// Waits for the end of the connection; the final response before it, if it is complete.
    #[track_caller]
    pub fn last_response_to(&mut self, method: &str) -> Option<Response> {
        while self.fill(b"an end") {}
        loop {
            let has_ended = self.end == Some(End::Close);
            let parsed = Response::parse(&self.received, method == "HEAD", has_ended);
            let (response, length) = parsed.ok()?;
            self.received.drain(..length);
            if response.status >= 200 {
                return Some(response);
            }
        }
    }

    /// Waits for the next request.
    #[track_caller]
    pub fn request(&mut self) -> Request {
        loop {
            match Request::parse(&self.received, self.index) {
                Ok((request, length)) => {
                    self.received.drain(..length);
                    return request;
                }
                Err(Unfinished::More) if self.fill(b"a request") => {}
                Err(why) => panic!("no request ({why:?}): {}", self.so_far()),
            }
        }
    }

    /// Waits for the head of the next message, with its empty line, and returns it.
    #[track_caller]
    pub fn head(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(4).position(|it| it == b"\r\n\r\n") {
                let head = self.received.drain(..end + 4);
                return head.map(char::from).collect();
            }
            assert!(self.fill(b"a head"), "no head: {}", self.so_far());
        }
    }

    /// Waits until the other side ends its TLS session with an alert, and says which.
    #[track_caller]
    pub fn alert(&mut self) -> String {
        match self.read() {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
            other => panic!("expected an alert, but {other:?}, and {}", self.so_far()),
        }
    }

    /// Waits until something comes; whether that is an end that its TLS session had not announced.
    pub fn is_cut_short(&mut self) -> bool {
        let is_cut = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
        self.read().is_err_and(|error| is_cut(&error) || is_reset(&error))
    }

    /// Waits for these bytes and takes them; false when something else comes, or the end.
    pub(crate) fn begins_with(&mut self, bytes: &[u8]) -> bool {
        while self.received.len() < bytes.len() && bytes.starts_with(&self.received) {
            if !self.read().is_ok_and(|count| count > 0) {
                return false;
            }
        }
        let begins = self.received.starts_with(bytes);
        if begins {
            self.received.drain(..bytes.len());
        }
        begins
    }

    /// Waits for the next of what `parse` finds, with its length, at the beginning of what has come; `None` when
    /// the connection ends before that.
    #[track_caller]
    pub(crate) fn next<T>(
        &mut self,
        what: &[u8],
        parse: impl Fn(&[u8]) -> Option<(T, usize)>,
    ) -> Option<T> {
        loop {
            if let Some((found, length)) = parse(&self.received) {
                self.received.drain(..length);
                return Some(found);
            }
            if !self.fill(what) {
                return None;
            }
        }
    }

    /// How the other side has ended the connection, as far as that has come.
    pub(crate) fn ended(&self) -> Option<End> {
        self.end
    }

    /// Waits until the other side closes, which must be without another byte.
    #[track_caller]
    pub fn expects_close(&mut self) {
        self.fill(b"a close");
        let is_clean = self.end == Some(End::Close) && self.received.is_empty();
        assert!(is_clean, "expected a close, but {}", self.so_far());
    }

    /// Waits until the other side resets the connection; bytes may come before that.
    #[track_caller]
    pub fn expects_reset(&mut self) {
        while self.fill(b"a reset") {}
        assert!(self.end == Some(End::Reset), "expected a reset, but {}", self.so_far());
    }

    /// Waits until the other side closes within a message, of which these bytes come before that.
    #[track_caller]
    pub fn expects_close_after(&mut self, bytes: impl AsRef<[u8]>) {
        while self.fill(b"a close") {}
        let is_so = self.end == Some(End::Close) && self.received == bytes.as_ref();
        assert!(is_so, "expected {} and a close, but {}", shown(bytes.as_ref()), self.so_far());
        self.received.clear();
    }

    /// Waits until the other side ends the connection in any way; returns the bytes before that.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill(b"an end") {}
        std::mem::take(&mut self.received)
    }

    /// Closes the sending side and expects the other side to close without another byte.
    #[track_caller]
    pub fn expects_nothing_more(&mut self) {
        self.finishes();
        self.expects_close();
    }

    /// Closes the sending side; what the other one sends is still received.
    pub fn finishes(&mut self) -> &mut Peer {
        self.stream.shut_down(Shutdown::Write);
        self
    }

    /// Closes the connection in an orderly way.
    pub fn closes(mut self) {
        self.resets = false;
    }

    /// Closes the connection with a reset.
    pub fn resets(self) {
        drop(self);
    }

    /// Ends the connection in that way.
    pub fn ends(self, end: End) {
        match end {
            End::Close => self.closes(),
            End::Reset => self.resets(),
        }
    }

    /// Receives with a buffer of about that many bytes, so that the other side soon has to wait.
    pub fn takes_little(&mut self, bytes: usize) -> &mut Peer {
        self.stream.socket().set_recv_buffer_size(bytes).expect("a socket has a buffer");
        self
    }

    /// Whether anything has arrived that was not looked at. Does not wait.
    pub fn has_news(&mut self) -> bool {
        let set_nonblocking = |stream: &Stream, on| {
            stream.socket().set_nonblocking(on).expect("a socket can be non-blocking");
        };
        set_nonblocking(&self.stream, true);
        let is_news = self.stream.has_news();
        set_nonblocking(&self.stream, false);
        !self.received.is_empty() || is_news
    }

    /// Waits for the next request; `None` when the connection ends, or carries something else.
    pub fn next_request(&mut self) -> Option<Request> {
        loop {
            match Request::parse(&self.received, self.index) {
                Ok((request, length)) => {
                    self.received.drain(..length);
                    return Some(request);
                }
                Err(Unfinished::More) if self.read().ok()? > 0 => {}
                Err(_) => return None,
            }
        }
    }

    /// Receives more; false at the end of the connection.
    #[track_caller]
    fn fill(&mut self, wanted: &[u8]) -> bool {
        if self.end.is_some() {
            return false;
        }
        match self.read() {
            Ok(count) if count > 0 => return true,
            Ok(_) => self.end = Some(End::Close),
            Err(error) if is_reset(&error) => self.end = Some(End::Reset),
            Err(error) => {
                let wanted = shown(wanted);
                panic!("waited for {wanted} in vain ({error}): {}", self.so_far());
            }
        }
        false
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 64 << 10];
        loop {
            match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    let count = result?;
                    self.received.extend_from_slice(&bytes[..count]);
                    return Ok(count);
                }
            }
        }
    }

    fn so_far(&self) -> String {
        let end = match self.end {
            None => "the connection is open",
            Some(End::Close) => "then it was closed",
            Some(End::Reset) => "then it was reset",
        };
        format!("there came {}, and {end}", shown(&self.received))
    }
}

/// Whether the other side has reset the connection: a session of TLS finds that when it writes, too.
fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

impl Drop for Peer {
    fn drop(&mut self) {
        if self.resets {
            self.stream.reset_on_close();
        }
    }
}
