//! An exchange with an endpoint over HTTP/1.1.

use crate::call::{CallMemory, Channel, ReceivedHead};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use titan_h1::{Body, ResponseStart};
use titan_http::Method;
use titan_io::body::{BodySink, BodySource, Content};
use titan_io::buffer::{Buffers, LARGE};
use titan_io::error::{Error, Kind, Side};
use titan_io::message::{Incoming, Outgoing};
use titan_io::stream::Inbox;

/// A connection with one request and its response on it.
pub struct H1Channel<'w> {
    connection: Connection,
    /// What has come and was not used yet.
    inbox: Inbox,
    buffers: &'w Rc<Buffers>,
    /// Of the request.
    method: Method,
}

/// A connection that carries no HTTP: it has switched to another protocol, or has never carried any.
pub struct SwitchedConnection {
    connection: Connection,
    /// What has come and was not used yet.
    inbox: Inbox,
}

impl SwitchedConnection {
    /// A new one, over which nothing has gone; `memory` is for it alone.
    pub fn new(mut connection: Connection, memory: &mut CallMemory) -> SwitchedConnection {
        let (_, writer) = connection.stream.split();
        Outgoing::new(Side::Upstream, writer, &mut memory.outbox);
        SwitchedConnection { connection, inbox: Inbox::default() }
    }

    /// Has the endpoint see that something is missing when this is dropped.
    pub fn reset(&self) {
        self.connection.stream.reset();
    }

    /// Where it leads to.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.connection.endpoint
    }

    /// What goes to the endpoint, and what comes from it, until each of them ends. `memory` is that of the call which has
    /// switched it.
    pub fn open<'c>(
        &'c mut self,
        memory: &'c mut CallMemory,
        buffers: &'c Rc<Buffers>,
    ) -> (Outgoing<'c>, Incoming<'c>) {
        let SwitchedConnection { connection, inbox } = self;
        let (mut request, mut response) = split(connection, inbox, memory, buffers);
        request.open_tunnel();
        response.open_tunnel();
        (request, response)
    }
}

impl<'w> H1Channel<'w> {
    /// The connection, which the endpoint has switched to another protocol.
    pub fn into_switched(self) -> SwitchedConnection {
        let H1Channel { connection, inbox, .. } = self;
        SwitchedConnection { connection, inbox }
    }

    /// Begins a request: `write` writes its head, which frames the body as `body` says.
    pub fn start(
        mut connection: Connection,
        buffers: &'w Rc<Buffers>,
        memory: &mut CallMemory,
        method: Method,
        body: Body,
        write: impl FnOnce(&mut Vec<u8>, Body),
    ) -> H1Channel<'w> {
        memory.heads.reset();
        let (_, writer) = connection.stream.split();
        Outgoing::new(Side::Upstream, writer, &mut memory.outbox).start(body, write);
        H1Channel { connection, inbox: Inbox::default(), buffers, method }
    }

    fn read_head(&mut self, memory: &mut CallMemory) -> Result<Option<ReceivedHead>, Error> {
        if self.inbox.is_empty() {
            return Ok(None);
        }
        let CallMemory { response, heads, body, .. } = memory;
        if !heads.in_progress() {
            response.clear();
        }
        let read = heads.read(self.inbox.unread(), self.method, response);
        let Some(start) = read.map_err(Error::bad_response)? else { return Ok(None) };
        let ResponseStart { consumed, framing, declared_length, keep_alive, interim } = start;
        self.inbox.consume(consumed);
        body.reset(framing);
        let content = Content { length: framing.into(), declared: declared_length };
        Ok(Some(ReceivedHead { interim, content, keep_alive }))
    }
}

impl Channel for H1Channel<'_> {
    type Request<'c>
        = Outgoing<'c>
    where
        Self: 'c;
    type Response<'c>
        = Incoming<'c>
    where
        Self: 'c;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        memory: &mut CallMemory,
    ) -> Poll<Result<ReceivedHead, Error>> {
        loop {
            if let Some(start) = self.read_head(memory)? {
                return Poll::Ready(Ok(start));
            }
            let (reader, _) = self.connection.stream.split();
            match self.inbox.poll_fill(cx, &reader, self.buffers, LARGE) {
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => {
                    let is_cut = memory.heads.in_progress();
                    let kind = if is_cut { Kind::Truncated } else { Kind::Closed };
                    return Poll::Ready(Err(kind.into()));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn request<'c>(&'c mut self, memory: &'c mut CallMemory) -> Outgoing<'c> {
        let (_, writer) = self.connection.stream.split();
        Outgoing::resume(Side::Upstream, writer, &mut memory.outbox)
    }

    fn is_sent(&mut self, memory: &mut CallMemory) -> bool {
        self.request(memory).written() > 0
    }

    fn split<'c>(&'c mut self, memory: &'c mut CallMemory) -> (Outgoing<'c>, Incoming<'c>) {
        let H1Channel { connection, inbox, buffers, .. } = self;
        split(connection, inbox, memory, buffers)
    }

    fn into_connection(self, memory: &CallMemory) -> Option<Connection> {
        // Bytes beyond the response belong to no request, and nothing can follow truncated trailers.
        let is_whole = memory.body.is_done() && !memory.body.is_cut();
        let is_clean = self.inbox.is_empty() && is_whole && memory.outbox.is_sent();
        is_clean.then_some(self.connection)
    }
}

/// What goes out over a connection, and what comes in behind the head of the response.
fn split<'c>(
    connection: &'c mut Connection,
    inbox: &'c mut Inbox,
    memory: &'c mut CallMemory,
    buffers: &'c Rc<Buffers>,
) -> (Outgoing<'c>, Incoming<'c>) {
    let (reader, writer) = connection.stream.split();
    let request = Outgoing::resume(Side::Upstream, writer, &mut memory.outbox);
    (request, Incoming::new(Side::Upstream, reader, inbox, &mut memory.body, buffers))
}
