//! One exchange with an endpoint, whatever protocol it speaks: the request goes out while the response
//! comes in.

use crate::connection::Connection;
use std::task::{Context, Poll};
use std::time::Duration;
use titan_h1::{BodyReader, Framing, Limits, ResponseReader};
use titan_http::ResponseHead;
use titan_io::body::{BodySink, BodySource, Content};
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::{Error, Kind};
use titan_io::message::Outbox;
use titan_io::relay::{Pump, Stop};

/// What one request and its response go over: a connection of HTTP/1.1, or a stream of one of HTTP/2. It owns that, so
/// that dropping it aborts what is not complete.
pub trait Channel {
    /// The request on its way out.
    type Request<'c>: BodySink
    where
        Self: 'c;
    /// The body of the final response.
    type Response<'c>: BodySource
    where
        Self: 'c;

    /// Waits for the head of the next response, interim or final.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        memory: &mut CallMemory,
    ) -> Poll<Result<ReceivedHead, Error>>;

    /// The request, until the final head is there.
    fn request<'c>(&'c mut self, memory: &'c mut CallMemory) -> Self::Request<'c>;

    /// Whether the endpoint has been sent any of the request.
    fn is_sent(&mut self, memory: &mut CallMemory) -> bool;

    /// The request, which may go on, and the body behind the final head, which was read. To be asked for once.
    fn split<'c>(
        &'c mut self,
        memory: &'c mut CallMemory,
    ) -> (Self::Request<'c>, Self::Response<'c>);

    /// Notes how the call has failed, where that says something of its connection.
    fn note_failure(&self, error: Error) {
        let _ = error;
    }

    /// The connection, where another call may go over it now that both messages are complete.
    fn into_connection(self, memory: &CallMemory) -> Option<Connection>;
}

/// Memory that calls use, one after the other.
pub struct CallMemory {
    /// The head of the response that came last.
    pub response: ResponseHead,
    pub(crate) heads: ResponseReader,
    pub(crate) body: BodyReader,
    pub(crate) outbox: Outbox,
}

/// The head of a response, apart from the head itself.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedHead {
    /// Whether it is interim (1xx, except 101): another one follows.
    pub interim: bool,
    /// The body that follows.
    pub content: Content,
    /// Whether the connection may serve another request after this one.
    pub keep_alive: bool,
}

/// A request on its way out, and a response whose head is on its way in.
pub struct Call<C> {
    channel: C,
    /// The body of the request on its way out.
    pub upload: Upload,
    /// How long the head of the response may take once the request is out.
    timeout: Duration,
    deadline: CoarseInstant,
}

/// The body of a request on its way out. It may go on while the response comes in.
pub struct Upload {
    pump: Pump,
    /// Whether the endpoint has stopped taking the request. Its response may still come.
    is_refused: bool,
}

impl CallMemory {
    /// The memory of calls to endpoints that may send what is within those limits.
    pub fn new(limits: Limits) -> CallMemory {
        CallMemory {
            response: ResponseHead::default(),
            heads: ResponseReader::new(limits),
            body: BodyReader::new(Framing::None, &limits),
            outbox: Outbox::default(),
        }
    }

    /// The memory that its texts have come to: the head, what goes out, and trailers.
    pub fn capacities(&self) -> [usize; 3] {
        let CallMemory { response, heads: _, body, outbox } = self;
        [response.fields.capacity(), outbox.capacity(), body.capacity()]
    }
}

impl<C: Channel> Call<C> {
    /// A call whose request head has been written to `channel`.
    pub fn new(channel: C, pump: Pump, timeout: Duration) -> Call<C> {
        let upload = Upload { pump, is_refused: false };
        Call { channel, upload, timeout, deadline: CoarseInstant::NEVER }
    }

    /// When this call wants to be polled again although nothing happened.
    pub fn deadline(&self) -> CoarseInstant {
        self.upload.deadline().min(self.deadline)
    }

    /// Sends on, until the head of a response is complete.
    pub fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        body: &mut (impl BodySource + ?Sized),
        memory: &mut CallMemory,
    ) -> Poll<Result<ReceivedHead, Error>> {
        if !self.upload.is_over() {
            self.upload.poll(cx, clock, body, &mut self.channel.request(memory))?;
        }
        match self.channel.poll_head(cx, memory) {
            Poll::Pending => self.wait(clock),
            ready => ready,
        }
    }

    /// Whether the endpoint has been sent any of the request.
    pub fn is_sent(&mut self, memory: &mut CallMemory) -> bool {
        self.channel.is_sent(memory)
    }

    /// The upload that may go on while the response comes in, and what both bodies go through.
    pub fn split<'c>(
        &'c mut self,
        memory: &'c mut CallMemory,
    ) -> (&'c mut Upload, C::Request<'c>, C::Response<'c>) {
        let (request, response) = self.channel.split(memory);
        (&mut self.upload, request, response)
    }

    /// What the call went over.
    pub fn channel(&self) -> &C {
        &self.channel
    }

    /// The same, when the call is over.
    pub fn into_channel(self) -> C {
        self.channel
    }

    /// Nothing has come yet: has that lasted too long?
    fn wait(&mut self, clock: &Clock) -> Poll<Result<ReceivedHead, Error>> {
        if self.deadline == CoarseInstant::NEVER && self.upload.is_over() {
            // Exact: requests that follow wait for an endpoint that hangs until the first one has found that out.
            self.deadline = clock.exact_deadline(self.timeout);
        }
        match clock.is_past(self.deadline) {
            true => Poll::Ready(Err(Kind::ResponseTimeout.into())),
            false => Poll::Pending,
        }
    }
}

impl Upload {
    /// Whether the whole request is out.
    pub fn is_done(&self) -> bool {
        self.pump.is_done()
    }

    /// Whether no more of the request will go out.
    pub fn is_over(&self) -> bool {
        self.is_refused || self.pump.is_done()
    }

    /// Whether there is more of the request that has not come, and would go out.
    pub fn awaits_source(&self) -> bool {
        !self.is_over() && !self.pump.awaits_sink()
    }

    /// Bytes of the request body that were taken from the client, whether they went out or not.
    pub fn taken(&self) -> u64 {
        self.pump.taken()
    }

    /// Sends no more of the request. The response may still come, or go on.
    pub fn give_up(&mut self) {
        self.is_refused = true;
    }

    /// When the upload wants to be polled again although nothing happened.
    pub fn deadline(&self) -> CoarseInstant {
        if self.is_over() { CoarseInstant::NEVER } else { self.pump.deadline() }
    }

    /// Sends what can be sent of the request. An endpoint that takes no more is no error: it may have
    /// responded already.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        body: &mut (impl BodySource + ?Sized),
        request: &mut impl BodySink,
    ) -> Result<(), Error> {
        if self.is_over() {
            return Ok(());
        }
        match self.pump.poll(cx, clock, body, request) {
            Poll::Pending | Poll::Ready(Ok(())) => Ok(()),
            Poll::Ready(Err(Stop::Sink(_))) => {
                self.is_refused = true;
                Ok(())
            }
            Poll::Ready(Err(stop)) => Err(stop.of_request()),
        }
    }
}
