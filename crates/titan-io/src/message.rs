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
    out: &'c mut Vec<u8>,
    /// Bytes of `out` that the kernel has taken. `sent <= out.len()`
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

    /// Lets the body have at most that many bytes; fails at once where it is known to have more.
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

    /// Waits until so much of a body whose length was declared has come, or all of it. There is some already.
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

impl<'c> Outgoing<'c> {
    /// A message that [`Outgoing::start`] will begin.
    pub fn new(side: Side, writer: WriteHalf<'c>, out: &'c mut Vec<u8>) -> Outgoing<'c> {
        out.clear();
        let (sent, written, sealed_before) = (0, 0, writer.sealed().unwrap_or(0));
        let (chunked, chunk_left, left, ended) = (false, 0, None, false);
        Outgoing {
            writer,
            side,
            out,
            sent,
            written,
            sealed_before,
            chunked,
            chunk_left,
            left,
            ended,
            is_tunnel: false,
        }
    }

    /// Starts the message: `write` writes its head, which frames the body as `body` says, and that body
    /// has to follow.
    pub fn start(&mut self, body: Body, write: impl FnOnce(&mut Vec<u8>, Body)) {
        self.chunked = matches!(body, Body::Chunked);
        self.left = match body {
            Body::Length(length) => Some(length),
            Body::None => Some(0),
            Body::Chunked | Body::UntilClose => None,
        };
        write(self.out, body);
    }

    /// Notes that the body stays away although its length is declared: the response to HEAD, and 304.
    pub fn without_body(&mut self) {
        self.left = Some(0);
    }

    /// Puts an interim head before the message.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.out);
    }

    /// Bytes that have gone out, or wait in a TLS session to do so.
    pub fn sent(&self) -> u64 {
        self.written
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, Error>> {
        let waiting = &self.out[self.sent..];
        let count = match ready!(self.writer.poll_write(cx, waiting, data)) {
            Ok(count) if count > 0 => count,
            _ => return Poll::Ready(Err(self.lost())),
        };
        self.written += count as u64;
        let of_out = count.min(waiting.len());
        self.sent += of_out;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        Poll::Ready(Ok(count - of_out))
    }

    /// Writes the line before a chunk of all of `data`, unless one is open. Tells how much of `data`
    /// belongs to the chunk.
    fn open_chunk(&mut self, data: &[u8]) -> usize {
        if !self.chunked {
            return data.len();
        }
        if self.chunk_left == 0 {
            self.chunk_left = data.len();
            titan_h1::write_chunk_head(self.out, data.len());
        }
        data.len().min(self.chunk_left)
    }

    fn close_chunk(&mut self, count: usize) {
        if !self.chunked || count == 0 {
            return;
        }
        self.chunk_left -= count;
        if self.chunk_left == 0 {
            self.out.extend_from_slice(titan_h1::CHUNK_END);
        }
    }

    /// Counts bytes of the body against the length that was declared.
    fn count(&mut self, count: usize) -> Result<(), Error> {
        let Some(left) = &mut self.left else { return Ok(()) };
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
        if self.out.len() > LARGE {
            ready!(self.poll_flush(cx))?;
        }
        let length = self.open_chunk(data);
        let data = &data[..length];
        let count = match data.len() < COPIED {
            true => {
                self.out.extend_from_slice(data);
                data.len()
            }
            false => ready!(self.poll_write(cx, data))?,
        };
        self.close_chunk(count);
        self.count(count)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.sent < self.out.len() {
            ready!(self.poll_write(cx, &[]))?;
        }
        self.writer.poll_flush(cx).map_err(|_| self.lost())
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Fields) -> Poll<Result<(), Error>> {
        if self.left.is_some_and(|left| left > 0) {
            // The next bytes would be read as the missing ones, no matter what they belong to.
            return Poll::Ready(Err(Kind::Internal.into()));
        }
        if self.chunked && !self.ended {
            titan_h1::write_last_chunk(self.out, trailers);
        }
        self.ended = true;
        ready!(self.poll_flush(cx))?;
        if self.is_tunnel {
            self.writer.shut_down();
        }
        Poll::Ready(Ok(()))
    }

    fn open_tunnel(&mut self) {
        (self.left, self.chunked, self.ended, self.is_tunnel) = (None, false, false, true);
    }

    fn socket(&self) -> Option<&WriteHalf<'_>> {
        let is_plain = self.out.is_empty() && !self.chunked && self.writer.is_plain();
        is_plain.then_some(&self.writer)
    }

    fn wrote(&mut self, result: io::Result<usize>) -> Result<(), Error> {
        let count = result.map_err(|_| self.lost())?;
        self.written += count as u64;
        self.count(count)
    }

    fn written(&self) -> u64 {
        self.writer.sealed().map_or(self.written, |sealed| sealed - self.sealed_before)
    }

    fn insist(&mut self) {
        self.writer.insist();
    }
}
