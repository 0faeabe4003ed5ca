//! An exchange with an endpoint over HTTP/1.1.

use crate::call::{AnswerStart, Reply};
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
pub struct Desk {
    heads: ResponseReader,
    body: BodyReader,
    out: Vec<u8>,
}

/// What was read from the connection and is not used yet, and the buffers for it.
pub struct Means<'c> {
    /// The socket.
    pub stream: &'c mut Stream,
    /// What has come and was not used yet.
    pub inbox: &'c mut Inbox,
    /// Receive buffers.
    pub buffers: &'c Rc<Buffers>,
}

/// The answer on its way in.
pub struct Answer<'c> {
    reader: ReadHalf<'c>,
    inbox: &'c mut Inbox,
    heads: &'c mut ResponseReader,
    body: &'c mut BodyReader,
    method: Method,
    buffers: &'c Rc<Buffers>,
}

impl Desk {
    /// A desk that nothing lies on.
    pub fn new(limits: Limits) -> Desk {
        let body = BodyReader::new(Framing::None, &limits);
        Desk { heads: ResponseReader::new(limits), body, out: Vec::new() }
    }

    /// The memory that its texts have come to: what goes out, and trailers.
    pub fn capacities(&self) -> [usize; 2] {
        [self.out.capacity(), self.body.capacity()]
    }

    /// Whether the last answer was ended within its trailers, so that nothing can follow it.
    pub fn is_cut(&self) -> bool {
        self.body.is_cut()
    }

    /// The two directions of a connection: a request that is to be started, and its answer.
    pub fn call<'c>(&'c mut self, means: Means<'c>, method: Method) -> (Outgoing<'c>, Answer<'c>) {
        let Desk { heads, body, out } = self;
        let Means { stream, inbox, buffers } = means;
        let (reader, writer) = stream.split();
        heads.reset();
        let request = Outgoing::new(Side::Upstream, writer, out);
        (request, Answer { reader, inbox, heads, body, method, buffers })
    }
}

impl Answer<'_> {
    fn read_head(&mut self, head: &mut ResponseHead) -> Result<Option<AnswerStart>, Error> {
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
        Ok(Some(AnswerStart { interim, content, keep_alive }))
    }

    fn closed(&self) -> Kind {
        match self.heads.in_progress() {
            true => Kind::Truncated,
            false => Kind::Closed,
        }
    }
}

impl<'c> Reply for Answer<'c> {
    type Body = Incoming<'c>;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
    ) -> Poll<Result<AnswerStart, Error>> {
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
