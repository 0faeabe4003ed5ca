//! One exchange with an endpoint, whatever protocol it speaks: the request goes out while the response
//! comes in.

use std::task::{Context, Poll};
use std::time::Duration;
use titan_http::ResponseHead;
use titan_io::body::{BodySink, BodySource, Content};
use titan_io::clock::{Clock, Moment};
use titan_io::error::{Error, Kind};
use titan_io::relay::{Pump, Stop};

/// Where the response to a request comes from.
pub trait ResponseSource {
    /// The body of the final response.
    type Body: BodySource;
    /// Waits for the head of the next response, interim or final.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut ResponseHead,
    ) -> Poll<Result<ReceivedHead, Error>>;
    /// The body behind the final head, which was read.
    fn into_body(self) -> Self::Body;
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
pub struct Call<S, R> {
    /// The request on its way out.
    pub upload: Upload<S>,
    reply: R,
    /// How long the head of the response may take once the request is out.
    timeout: Duration,
    deadline: Moment,
}

/// A request on its way out. It may go on while the response comes in.
pub struct Upload<S> {
    /// Where it goes to.
    pub request: S,
    pump: Pump,
    /// Whether the endpoint has stopped taking the request. Its response may still come.
    is_refused: bool,
}

impl<S: BodySink, R: ResponseSource> Call<S, R> {
    /// A call whose request head has been written to `request`.
    pub fn new(request: S, reply: R, pump: Pump, timeout: Duration) -> Call<S, R> {
        let upload = Upload { request, pump, is_refused: false };
        Call { upload, reply, timeout, deadline: Moment::NEVER }
    }

    /// When this call wants to be polled again although nothing happened.
    pub fn deadline(&self) -> Moment {
        self.upload.deadline().min(self.deadline)
    }

    /// Sends on, until the head of a response is complete.
    pub fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        body: &mut (impl BodySource + ?Sized),
        head: &mut ResponseHead,
    ) -> Poll<Result<ReceivedHead, Error>> {
        self.upload.poll(cx, clock, body)?;
        match self.reply.poll_head(cx, head) {
            Poll::Pending => self.wait(clock),
            ready => ready,
        }
    }

    /// The upload that may go on while the response comes in, and the body of the response.
    pub fn into_answer(self) -> (Upload<S>, R::Body) {
        (self.upload, self.reply.into_body())
    }

    /// Nothing has come yet: has that lasted too long?
    fn wait(&mut self, clock: &Clock) -> Poll<Result<ReceivedHead, Error>> {
        if self.deadline == Moment::NEVER && self.upload.is_over() {
            self.deadline = clock.deadline(self.timeout);
        }
        match clock.is_past(self.deadline) {
            true => Poll::Ready(Err(Kind::ResponseTimeout.into())),
            false => Poll::Pending,
        }
    }
}

impl<S: BodySink> Upload<S> {
    /// Whether the whole request is out.
    pub fn is_done(&self) -> bool {
        self.pump.is_done()
    }

    /// Whether no more of the request will go out.
    pub fn is_over(&self) -> bool {
        self.is_refused || self.pump.is_done()
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
    pub fn deadline(&self) -> Moment {
        if self.is_over() { Moment::NEVER } else { self.pump.deadline() }
    }

    /// Sends what can be sent of the request. An endpoint that takes no more is no error: it may have
    /// answered already.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        body: &mut (impl BodySource + ?Sized),
    ) -> Result<(), Error> {
        if self.is_over() {
            return Ok(());
        }
        match self.pump.poll(cx, clock, body, &mut self.request) {
            Poll::Pending | Poll::Ready(Ok(())) => Ok(()),
            Poll::Ready(Err(Stop::Sink(_))) => {
                self.is_refused = true;
                Ok(())
            }
            Poll::Ready(Err(stop)) => Err(stop.of_request()),
        }
    }
}
