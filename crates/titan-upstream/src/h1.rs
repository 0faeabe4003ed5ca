//! An exchange with an endpoint over HTTP/1.1.

use crate::call::{ReceivedHead, ResponseSource};
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_h1::{BodyReader, Framing, Limits, ResponseReader, ResponseStart};
use titan_http::{Method, ResponseHead};
use titan_io::body::Content;
use titan_io::buffer::{Buffers, LARGE};
use titan_io::error::{Error, Kind, Side};
use titan_io::message::{Incoming, Outgoing};
use titan_io::stream::{Inbox, ReadHalf, Stream};

/// Memory that exchanges with endpoints use, one after the other.
pub struct H1Codec {
    heads: ResponseReader,
    body: BodyReader,
    out: Vec<u8>,
}

/// What was read from the connection and is not used yet, and the buffers for it.
pub struct H1Io<'c> {
    /// The socket.
    pub stream: &'c mut Stream,
    /// What has come and was not used yet.
    pub inbox: &'c mut Inbox,
    /// Receive buffers.
    pub buffers: &'c Rc<Buffers>,
}

/// The response on its way in.
pub struct H1Response<'c> {
    reader: ReadHalf<'c>,
    inbox: &'c mut Inbox,
    heads: &'c mut ResponseReader,
    body: &'c mut BodyReader,
    method: Method,
    buffers: &'c Rc<Buffers>,
}

impl H1Codec {
    /// A codec that has read nothing.
    pub fn new(limits: Limits) -> H1Codec {
        let body = BodyReader::new(Framing::None, &limits);
        H1Codec { heads: ResponseReader::new(limits), body, out: Vec::new() }
    }

    /// The memory that its texts have come to: what goes out, and trailers.
    pub fn capacities(&self) -> [usize; 2] {
        [self.out.capacity(), self.body.capacity()]
    }

    /// Whether the last response was ended within its trailers, so that nothing can follow it.
    pub fn is_cut(&self) -> bool {
        self.body.is_cut()
    }

    /// The two directions of a connection: a request that is to be started, and its response.
    pub fn call<'c>(
        &'c mut self,
        h1_io: H1Io<'c>,
        method: Method,
    ) -> (Outgoing<'c>, H1Response<'c>) {
        let H1Codec { heads, body, out } = self;
        let H1Io { stream, inbox, buffers } = h1_io;
        let (reader, writer) = stream.split();
        heads.reset();
        let request = Outgoing::new(Side::Upstream, writer, out);
        (request, H1Response { reader, inbox, heads, body, method, buffers })
    }
}

impl H1Response<'_> {
    fn read_head(&mut self, head: &mut ResponseHead) -> Result<Option<ReceivedHead>, Error> {
        if self.inbox.is_empty() {
            return Ok(None);
        }
        if !self.heads.in_progress() {
            head.clear();
        }
        let read = self.heads.read(self.inbox.unread(), self.method, head);
        let Some(start) = read.map_err(Error::bad_response)? else { return Ok(None) };
        let ResponseStart { consumed, framing, declared_length, keep_alive, interim } = start;
        self.inbox.consume(consumed);
        self.body.reset(framing);
        let content = Content { length: framing.into(), declared: declared_length };
        Ok(Some(ReceivedHead { interim, content, keep_alive }))
    }

    fn closed(&self) -> Kind {
        match self.heads.in_progress() {
            true => Kind::Truncated,
            false => Kind::Closed,
        }
    }
}

impl<'c> ResponseSource for H1Response<'c> {
    type Body = Incoming<'c>;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
    ) -> Poll<Result<ReceivedHead, Error>> {
        loop {
            if let Some(start) = self.read_head(head)? {
                return Poll::Ready(Ok(start));
            }
            match self.inbox.poll_fill(cx, &self.reader, self.buffers, LARGE) {
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => return Poll::Ready(Err(self.closed().into())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn into_body(self) -> Incoming<'c> {
        Incoming::new(Side::Upstream, self.reader, self.inbox, self.body, self.buffers)
    }
}
