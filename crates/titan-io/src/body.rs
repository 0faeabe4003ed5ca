//! The two sides of a message, whatever protocol carries them: where a body comes from, where one goes to.

use crate::error::Error;
use crate::stream::{FilePart, ReadHalf, WriteHalf};
use std::io;
use std::task::{Context, Poll};
use titan_http::{BodyLength, Fields, ResponseHead};

/// Where a body comes from.
pub trait BodySource {
    /// Waits until there is data or the body is done.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>>;
    /// The bytes of the body that have arrived and were not consumed.
    fn data(&self) -> &[u8];
    /// Takes the first `count` bytes of the data out.
    fn consume(&mut self, count: usize);
    /// Says whether what is consumed from now on goes into memory, for a sink that is slow. A source that
    /// lets its peer send faster as more is consumed must not do so then.
    fn set_ahead(&mut self, is_ahead: bool) {
        let _ = is_ahead;
    }
    /// Whether the whole body was consumed.
    fn is_done(&self) -> bool;
    /// Whether the data is the end of the message: nothing comes after it, no trailers either.
    fn is_last(&self) -> bool;
    /// The trailer fields; complete once the body is done.
    fn trailers(&self) -> &Fields;
    /// From now on everything that comes belongs to a tunnel, until that side of it ends.
    fn open_tunnel(&mut self) {}
    /// What shows that the source goes on: bytes that came from it, of which `taken` were taken. TLS gives
    /// none of a record before it is whole, which a slow source may take long for.
    fn arrived(&self, taken: u64) -> u64 {
        taken
    }
    /// The socket, and how many bytes are still to come from it, when all that was read is consumed
    /// and what comes is body and nothing else.
    fn socket(&self) -> Option<(&ReadHalf<'_>, u64)> {
        None
    }
    /// The file in which what comes next stands, when all that was read is consumed.
    fn file(&self) -> Option<FilePart<'_>> {
        None
    }
    /// Counts bytes that went from the socket, or the file, to another socket.
    fn skip(&mut self, count: usize) -> Result<(), Error> {
        let _ = count;
        Ok(())
    }
}

/// Where a body goes to.
pub trait BodySink {
    /// Takes some of `data`; tells how many bytes. What was taken may still wait for a flush. With `is_last`
    /// the message ends with it, which can be said at the same time.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        is_last: bool,
    ) -> Poll<Result<usize, Error>>;
    /// Hands everything taken so far to the peer.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>>;
    /// Ends the message and flushes it.
    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Fields) -> Poll<Result<(), Error>>;
    /// From now on everything that goes belongs to a tunnel, whose end closes this direction.
    fn open_tunnel(&mut self) {}
    /// Bytes that the kernel has taken, heads and framing among them.
    fn written(&self) -> u64;
    /// Makes calls write until the kernel takes no more, even without a readiness event.
    fn insist(&mut self);
    /// The socket, when nothing waits to be written and the body goes out as it is.
    fn socket(&self) -> Option<&WriteHalf<'_>> {
        None
    }
    /// Notes what came of writing to the socket directly.
    fn wrote(&mut self, result: io::Result<usize>) -> Result<(), Error> {
        let _ = result;
        Ok(())
    }
}

/// The body of a request, and with it the client's presence.
pub trait RequestBody: BodySource {
    /// Waits until that much of the body has come as it came over the wire, or all of it, or as much as can come
    /// before some is taken; takes nothing.
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>>;
    /// How much of it has come and was not taken.
    fn ahead(&self) -> usize;
    /// How long what was not taken of it is, where all of it has come.
    fn rest(&self) -> Option<usize> {
        None
    }
    /// Waits until there is something to say about the client. Only asked once the body is done.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientState>;
    /// Waits until the client has given the request up, where that shows although nothing is read.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()>;
    /// Whether the connection is broken, whatever has arrived before that. Asks the kernel.
    fn is_broken(&self) -> bool;
    /// Whether what is left of the body will not be read, so that nothing can follow it.
    fn is_abandoned(&self) -> bool;
    /// Limits the body to that many bytes; fails at once if it is known to have more.
    fn set_limit(&mut self, bytes: u64) -> Result<(), Error>;
    /// Bytes of the request, its head included, that have arrived and been used.
    fn received(&self) -> u64;
    /// Whether it could start over.
    fn is_repeatable(&self) -> bool {
        false
    }
    /// Starts over, if everything that was consumed is still there; false otherwise.
    fn rewind(&mut self) -> bool {
        false
    }
    /// Notes that it will not have to start over.
    fn settle(&mut self) {}
}

/// Whether a client is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// It will send nothing more, but may still read: some clients close that side early.
    HalfClosed,
    /// The connection is broken.
    Broken,
    /// It is there: its next request has arrived.
    Present,
}

/// The response to a request.
pub trait ResponseSink: BodySink {
    /// Sends an interim response (1xx), if the client's protocol version knows such a thing.
    fn interim(&mut self, head: &ResponseHead);
    /// Starts the final response. Its body will be as long as `content` says.
    fn start(&mut self, head: &ResponseHead, content: Content);
    /// Starts a response that opens a tunnel.
    fn start_tunnel(&mut self, head: &ResponseHead);
    /// Whether the final response has been started: it is too late for another one.
    fn is_started(&self) -> bool;
    /// Serves nothing more on this connection after this response.
    fn close_after(&mut self);
    /// Bytes that have gone out, or wait in a TLS session to do so.
    fn sent(&self) -> u64;
}

/// The body of a response before it is framed for the client's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// How long the body is that will be sent.
    pub length: BodyLength,
    /// The length to declare where no body is sent: responses to HEAD, and 304.
    pub declared: Option<u64>,
}

impl<S: BodySource + ?Sized> BodySource for &mut S {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        (**self).poll_data(cx)
    }

    fn data(&self) -> &[u8] {
        (**self).data()
    }

    fn consume(&mut self, count: usize) {
        (**self).consume(count);
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        (**self).set_ahead(is_ahead);
    }

    fn is_done(&self) -> bool {
        (**self).is_done()
    }

    fn is_last(&self) -> bool {
        (**self).is_last()
    }

    fn trailers(&self) -> &Fields {
        (**self).trailers()
    }

    fn open_tunnel(&mut self) {
        (**self).open_tunnel();
    }

    fn arrived(&self, taken: u64) -> u64 {
        (**self).arrived(taken)
    }

    fn socket(&self) -> Option<(&ReadHalf<'_>, u64)> {
        (**self).socket()
    }

    fn file(&self) -> Option<FilePart<'_>> {
        (**self).file()
    }

    fn skip(&mut self, count: usize) -> Result<(), Error> {
        (**self).skip(count)
    }
}

impl<S: BodySink + ?Sized> BodySink for &mut S {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        is_last: bool,
    ) -> Poll<Result<usize, Error>> {
        (**self).poll_send(cx, data, is_last)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        (**self).poll_flush(cx)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Fields) -> Poll<Result<(), Error>> {
        (**self).poll_end(cx, trailers)
    }

    fn open_tunnel(&mut self) {
        (**self).open_tunnel();
    }

    fn written(&self) -> u64 {
        (**self).written()
    }

    fn insist(&mut self) {
        (**self).insist();
    }

    fn socket(&self) -> Option<&WriteHalf<'_>> {
        (**self).socket()
    }

    fn wrote(&mut self, result: io::Result<usize>) -> Result<(), Error> {
        (**self).wrote(result)
    }
}

impl<S: ResponseSink + ?Sized> ResponseSink for &mut S {
    fn interim(&mut self, head: &ResponseHead) {
        (**self).interim(head);
    }

    fn start(&mut self, head: &ResponseHead, content: Content) {
        (**self).start(head, content);
    }

    fn start_tunnel(&mut self, head: &ResponseHead) {
        (**self).start_tunnel(head);
    }

    fn is_started(&self) -> bool {
        (**self).is_started()
    }

    fn close_after(&mut self) {
        (**self).close_after();
    }

    fn sent(&self) -> u64 {
        (**self).sent()
    }
}

/// A body that is in memory as a whole.
pub struct Text<'t> {
    rest: &'t [u8],
    no_fields: Fields,
}

impl<'t> Text<'t> {
    /// A body of those bytes.
    pub fn new(text: &'t [u8]) -> Text<'t> {
        Text { rest: text, no_fields: Fields::default() }
    }
}

impl BodySource for Text<'_> {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.rest
    }

    fn consume(&mut self, count: usize) {
        self.rest = &self.rest[count..];
    }

    fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn is_last(&self) -> bool {
        true
    }

    fn trailers(&self) -> &Fields {
        &self.no_fields
    }
}
