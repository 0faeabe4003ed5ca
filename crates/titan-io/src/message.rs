//! An HTTP/1.1 message on a socket: the body that comes in, the bytes that go out. Both sides of an
//! exchange use it.

use crate::body::{BodySink, BodySource};
use crate::buffer::{Buffers, LARGE, SMALL};
use crate::error::{Error, Kind, Side};
use crate::stream::{Inbox, Peek, ReadHalf, Session, WriteHalf};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use titan_h1::{Body, BodyReader, Framing};
use titan_http::Fields;

/// The body of a message that is being received.
pub struct Incoming<'c> {
    /// The side of the socket that it comes from.
    pub reader: ReadHalf<'c>,
    /// What has come and was not used yet.
    pub inbox: &'c mut Inbox,
    buffers: &'c Rc<Buffers>,
    body: &'c mut BodyReader,
    /// Whose message it is.
    side: Side,
    /// Bytes at the front of the inbox that are body.
    held: usize,
    /// Bytes behind those that only frame it.
    framing: usize,
    done: bool,
}

/// A message that is being sent.
pub struct Outgoing<'c> {
    writer: WriteHalf<'c>,
    /// Whose socket it goes to.
    side: Side,
    outbox: &'c mut Outbox,
}

/// How far a message has been sent, and what of it waits to be. Its memory serves one message after the other.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that the kernel has taken. `sent <= bytes.len()`
    sent: usize,
    /// Bytes that the kernel, or a TLS session, has taken in all.
    written: u64,
    /// Bytes that the kernel had taken from the TLS session before this message.
    sealed_before: u64,
    /// Whether the body is sent in chunks.
    chunked: bool,
    /// What is missing of the current chunk.
    chunk_left: usize,
    /// What is missing of a body whose length was declared.
    left: Option<u64>,
    ended: bool,
    /// Whether the end of what is sent is the end of this direction of the connection.
    is_tunnel: bool,
}

/// Data shorter than this is copied behind what waits, so that head, data and the end of the message
/// go out in one call; longer data is handed to the kernel from where it lies.
const COPIED: usize = 4 << 10;

impl<'c> Incoming<'c> {
    /// The body behind a head that was just read.
    pub fn new(
        side: Side,
        reader: ReadHalf<'c>,
        inbox: &'c mut Inbox,
        body: &'c mut BodyReader,
        buffers: &'c Rc<Buffers>,
    ) -> Incoming<'c> {
        let done = body.is_done();
        Incoming { reader, inbox, buffers, body, side, held: 0, framing: 0, done }
    }

    /// Waits for something after the message, or its end; never reads it. Only for a body that is done.
    pub fn poll_beyond(&mut self, cx: &mut Context<'_>) -> Poll<Peek> {
        match self.inbox.is_empty() {
            true => self.reader.poll_peek(cx),
            false => Poll::Ready(Peek::Bytes),
        }
    }

    /// Limits the body to that many bytes; fails at once if it is known to have more.
    pub fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.body.set_limit(bytes).map_err(|error| self.blame(error))
    }

    /// Whether the end of the body has arrived, its trailers among it; data may still wait.
    pub fn has_ended(&self) -> bool {
        self.done
    }

    /// The trailer fields, to be looked through before they are passed on.
    pub fn trailers_mut(&mut self) -> &mut Fields {
        self.body.trailers_mut()
    }

    /// Whether the connection is broken, whatever has arrived before that. Asks the kernel.
    pub fn is_broken(&self) -> bool {
        self.reader.is_broken()
    }

    /// Bytes that are still to come, where the head said how many.
    pub fn remaining(&self) -> Option<u64> {
        self.body.remaining()
    }

    /// Waits until that much of a body whose length was declared has come, or all of it. There is some already.
    pub fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        while self.held < wanted && !self.done && self.body.remaining().is_some() {
            let room = wanted.max(SMALL);
            match ready!(self.inbox.poll_fill(cx, &self.reader, self.buffers, room)) {
                Ok(count) if count > 0 => {}
                _ => return Poll::Ready(Err(self.lost())),
            }
            let piece = self.body.read(&self.inbox.unread()[self.held..]);
            let piece = piece.map_err(|error| self.blame(error))?;
            self.held += piece.data.len();
            self.done = piece.done;
        }
        Poll::Ready(Ok(()))
    }

    fn decode(&mut self) -> Result<bool, Error> {
        let piece = self.body.read(self.inbox.unread()).map_err(|error| self.blame(error))?;
        self.held = piece.data.len();
        self.framing = piece.consumed - piece.data.end;
        self.inbox.consume(piece.data.start);
        self.done = piece.done;
        if self.held == 0 {
            self.inbox.consume(std::mem::take(&mut self.framing));
        }
        Ok(piece.consumed > 0 || piece.done)
    }

    fn blame(&self, error: titan_h1::Error) -> Error {
        match (self.side, error) {
            (_, titan_h1::Error::BodyTooLong) => Kind::BodyTooLarge.into(),
            (Side::Upstream, titan_h1::Error::Truncated) => Kind::Truncated.into(),
            (Side::Upstream, error) => Error::bad_response(error),
            (_, titan_h1::Error::Truncated) => Kind::ClientGone.into(),
            (_, error) => Error::bad_request(error),
        }
    }

    fn lost(&self) -> Error {
        match self.side {
            Side::Upstream => Kind::Truncated.into(),
            _ => Kind::ClientGone.into(),
        }
    }

    fn wanted(&self) -> usize {
        match self.body.remaining() {
            Some(rest) if rest <= SMALL as u64 => SMALL,
            _ => LARGE,
        }
    }
}

impl BodySource for Incoming<'_> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.held == 0 && !self.done {
            if self.decode()? {
                continue;
            }
            let wanted = self.wanted();
            let filled = self.inbox.poll_fill(cx, &self.reader, self.buffers, wanted);
            match ready!(filled) {
                Ok(0) => {
                    self.body.end_of_input().map_err(|error| self.blame(error))?;
                    self.done = true;
                }
                Ok(_) => {}
                Err(_) => return Poll::Ready(Err(self.lost())),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.inbox.unread()[..self.held]
    }

    fn consume(&mut self, count: usize) {
        self.held -= count;
        let framing = if self.held == 0 { std::mem::take(&mut self.framing) } else { 0 };
        self.inbox.consume(count + framing);
    }

    fn is_done(&self) -> bool {
        self.done && self.held == 0
    }

    fn is_last(&self) -> bool {
        self.done && self.body.trailers().is_empty()
    }

    fn trailers(&self) -> &Fields {
        self.body.trailers()
    }

    fn open_tunnel(&mut self) {
        self.body.reset(Framing::UntilClose);
        self.done = false;
    }

    fn arrived(&self, taken: u64) -> u64 {
        self.reader.session().map_or(taken, Session::received)
    }

    fn socket(&self) -> Option<(&ReadHalf<'_>, u64)> {
        let is_at_socket = self.inbox.is_empty() && !self.done && self.reader.is_plain();
        self.body.remaining().filter(|_| is_at_socket).map(|rest| (&self.reader, rest))
    }

    fn skip(&mut self, count: usize) -> Result<(), Error> {
        self.body.skip(count as u64).map_err(|error| self.blame(error))?;
        self.done = self.body.is_done();
        Ok(())
    }
}

impl Outbox {
    /// The memory that it has come to.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether all of the message has gone out.
    pub fn is_sent(&self) -> bool {
        self.ended && self.sent == self.bytes.len()
    }

    /// Forgets the message before.
    fn clear(&mut self, sealed_before: u64) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Outbox { bytes, sealed_before, ..Outbox::default() };
    }
}

impl<'c> Outgoing<'c> {
    /// A message that [`Outgoing::start`] will begin.
    pub fn new(side: Side, writer: WriteHalf<'c>, outbox: &'c mut Outbox) -> Outgoing<'c> {
        outbox.clear(writer.sealed().unwrap_or(0));
        Outgoing { writer, side, outbox }
    }

    /// The message that was begun with that outbox on the same socket.
    pub fn resume(side: Side, writer: WriteHalf<'c>, outbox: &'c mut Outbox) -> Outgoing<'c> {
        Outgoing { writer, side, outbox }
    }

    /// Starts the message: `write` writes its head, which frames the body as `body` says, and that body
    /// has to follow.
    pub fn start(&mut self, body: Body, write: impl FnOnce(&mut Vec<u8>, Body)) {
        self.outbox.chunked = matches!(body, Body::Chunked);
        self.outbox.left = match body {
            Body::Length(length) => Some(length),
            Body::None => Some(0),
            Body::Chunked | Body::UntilClose => None,
        };
        write(&mut self.outbox.bytes, body);
    }

    /// Notes that the body stays away although its length is declared: the response to HEAD, and 304.
    pub fn without_body(&mut self) {
        self.outbox.left = Some(0);
    }

    /// Puts an interim head before the message.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.outbox.bytes);
    }

    /// Bytes that have gone out, or wait in a TLS session to do so.
    pub fn sent(&self) -> u64 {
        self.outbox.written
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, Error>> {
        let waiting = &self.outbox.bytes[self.outbox.sent..];
        let count = match ready!(self.writer.poll_write(cx, waiting, data)) {
            Ok(count) if count > 0 => count,
            _ => return Poll::Ready(Err(self.lost())),
        };
        self.outbox.written += count as u64;
        let of_out = count.min(waiting.len());
        self.outbox.sent += of_out;
        if self.outbox.sent == self.outbox.bytes.len() {
            self.outbox.bytes.clear();
            self.outbox.sent = 0;
        }
        Poll::Ready(Ok(count - of_out))
    }

    /// Writes the line before a chunk of all of `data`, unless one is open. Tells how much of `data`
    /// belongs to the chunk.
    fn open_chunk(&mut self, data: &[u8]) -> usize {
        if !self.outbox.chunked {
            return data.len();
        }
        if self.outbox.chunk_left == 0 {
            self.outbox.chunk_left = data.len();
            titan_h1::write_chunk_head(&mut self.outbox.bytes, data.len());
        }
        data.len().min(self.outbox.chunk_left)
    }

    fn close_chunk(&mut self, count: usize) {
        if !self.outbox.chunked || count == 0 {
            return;
        }
        self.outbox.chunk_left -= count;
        if self.outbox.chunk_left == 0 {
            self.outbox.bytes.extend_from_slice(titan_h1::CHUNK_END);
        }
    }

    /// Counts bytes of the body against the length that was declared.
    fn count(&mut self, count: usize) -> Result<(), Error> {
        let Some(left) = &mut self.outbox.left else { return Ok(()) };
        *left = left.checked_sub(count as u64).ok_or(Kind::Internal)?;
        Ok(())
    }

    fn lost(&self) -> Error {
        match self.side {
            Side::Upstream => Kind::Closed.into(),
            _ => Kind::ClientGone.into(),
        }
    }
}

impl BodySink for Outgoing<'_> {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        _: bool,
    ) -> Poll<Result<usize, Error>> {
        if self.outbox.bytes.len() > LARGE {
            ready!(self.poll_flush(cx))?;
        }
        let length = self.open_chunk(data);
        let data = &data[..length];
        let count = match data.len() < COPIED {
            true => {
                self.outbox.bytes.extend_from_slice(data);
                data.len()
            }
            false => ready!(self.poll_write(cx, data))?,
        };
        self.close_chunk(count);
        self.count(count)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.outbox.sent < self.outbox.bytes.len() {
            ready!(self.poll_write(cx, &[]))?;
        }
        self.writer.poll_flush(cx).map_err(|_| self.lost())
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Fields) -> Poll<Result<(), Error>> {
        if self.outbox.left.is_some_and(|left| left > 0) {
            // The next bytes would be read as the missing ones, no matter what they belong to.
            return Poll::Ready(Err(Kind::Internal.into()));
        }
        if self.outbox.chunked && !self.outbox.ended {
            titan_h1::write_last_chunk(&mut self.outbox.bytes, trailers);
        }
        self.outbox.ended = true;
        ready!(self.poll_flush(cx))?;
        if self.outbox.is_tunnel {
            self.writer.shut_down();
        }
        Poll::Ready(Ok(()))
    }

    fn open_tunnel(&mut self) {
        let Outbox { left, chunked, ended, is_tunnel, .. } = &mut *self.outbox;
        (*left, *chunked, *ended, *is_tunnel) = (None, false, false, true);
    }

    fn socket(&self) -> Option<&WriteHalf<'_>> {
        let is_plain =
            self.outbox.bytes.is_empty() && !self.outbox.chunked && self.writer.is_plain();
        is_plain.then_some(&self.writer)
    }

    fn wrote(&mut self, result: io::Result<usize>) -> Result<(), Error> {
        let count = result.map_err(|_| self.lost())?;
        self.outbox.written += count as u64;
        self.count(count)
    }

    fn written(&self) -> u64 {
        self.writer
            .sealed()
            .map_or(self.outbox.written, |sealed| sealed - self.outbox.sealed_before)
    }

    fn insist(&mut self) {
        self.writer.insist();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;
    use std::future::poll_fn;
    use std::io::Read;
    use std::task::Waker;
    use tokio::net::UnixStream;

    /// Unix sockets report room once three quarters of their buffer are free.
    #[tokio::test]
    async fn an_insisting_writer_writes_until_the_kernel_takes_no_more() {
        let (socket, peer) = std::os::unix::net::UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut stream = Stream::from(UnixStream::from_std(socket).unwrap());
        let (mut outbox, mut cx) = (Outbox::default(), Context::from_waker(Waker::noop()));
        let side = Side::Upstream;
        poll_fn(|cx| stream.split().1.poll_ready(cx)).await.unwrap();
        Outgoing::new(side, stream.split().1, &mut outbox).start(Body::UntilClose, |_, _| {});
        let mut send = |insists: bool| {
            let mut message = Outgoing::resume(side, stream.split().1, &mut outbox);
            if insists {
                message.insist();
            }
            message.poll_send(&mut cx, &[b'x'; COPIED], false)
        };
        while send(false).is_ready() {}
        (&peer).read_exact(&mut [0; 3 * COPIED]).unwrap();
        assert!(send(false).is_pending(), "nothing says that there is room");
        assert!(send(true).is_ready());
        assert!(send(false).is_ready(), "the same message over another half");
        while send(false).is_ready() {}
    }
}
