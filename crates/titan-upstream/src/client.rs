//! Requests that the gateway makes by itself, on a thread that carries no traffic: probes, and what collectors are told.

use crate::call::{Call, CallMemory, Channel};
use crate::endpoint::Endpoint;
use crate::h1::H1Channel;
use crate::pool::{AcquireOptions, PooledConnection, Pools};
use crate::reclaim::Reclaim;
use crate::shared::{Seat, SharedMux, Sharing, StreamChannel};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};
use titan_h1::{Body, Connection};
use titan_http::section::Destination;
use titan_http::{Fields, RequestHead, ResponseHead};
use titan_io::body::{BodySource, Text};
use titan_io::error::{Error, Kind};
use titan_io::io::Io;
use titan_io::mux::{ClientProtocol, Mux};
use titan_io::relay::{Pump, StallLimits};

/// What requests are made with. Its connections are those of a `LocalSet`.
pub struct Client {
    io: Rc<Io>,
    pools: Pools,
    sharing: Sharing,
}

/// A request.
pub struct Question<'q> {
    /// Its head.
    pub head: RequestHead,
    /// Whom it is for; where it is empty, the endpoint by the name that the configuration has for it.
    pub host: &'q [u8],
    /// Its body.
    pub body: &'q [u8],
    /// How much of the body of the response is looked at: [`MOST_BODY`], or what is wanted.
    pub most: usize,
}

impl Question<'_> {
    /// Whom it is for at that endpoint.
    fn host_of<'h>(&'h self, endpoint: &'h Endpoint) -> &'h [u8] {
        if self.host.is_empty() { endpoint.host.as_bytes() } else { self.host }
    }
}

/// What has come back.
#[derive(Default)]
pub struct Answer {
    /// The head of the final response.
    pub head: ResponseHead,
    /// The beginning of its body, which is as much as is looked at.
    pub body: Vec<u8>,
    /// What followed the body; nothing where that was longer.
    pub trailers: Fields,
    /// Whether that is all of the body.
    pub is_whole: bool,
    /// Bytes of the body that were read.
    read: usize,
}

/// Whether connections are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Each request finds out whether the endpoint still accepts connections.
    Never,
    /// Each goes over the connection of the one before, if that is open.
    Kept,
}

/// As much of a body as is looked at where a few words are expected.
pub const MOST_BODY: usize = 64 << 10;

/// As much of a body is read for the trailers behind it, which say how a call of gRPC has ended.
const MOST_BEFORE_TRAILERS: usize = 4 << 20;

/// How long a response may take: the caller bounds the time of the whole, from connecting on.
const AS_A_WHOLE: Duration = Duration::MAX;

impl Default for Client {
    fn default() -> Client {
        let io = Io::new();
        let pools = Pools::new(0, Arc::new(Reclaim::new(1)), &io);
        Client { io, pools, sharing: Sharing::default() }
    }
}

impl Client {
    /// A random number.
    pub fn random(&self) -> u64 {
        self.io.random()
    }

    /// Moves its clock on, and closes what earlier requests have left open and nobody needs.
    pub fn sweep(&self) {
        self.io.clock.tick();
        self.pools.sweep(&self.io.clock);
    }

    /// Sends a request, and waits for the response. The caller bounds the time.
    pub async fn ask(
        &self,
        endpoint: &Arc<Endpoint>,
        question: &Question<'_>,
        options: (Reuse, Duration),
    ) -> Result<Answer, Error> {
        let mut whole = Whole { answer: Answer::default(), most: question.most };
        self.exchange(endpoint, question, options, &mut whole).await?;
        Ok(whole.answer)
    }

    /// Sends a request, and shows `take` the body of a successful response as it comes, until that breaks off or the body ends. Of
    /// any other response the answer has the beginning of the body. The caller bounds the time, also that between pieces.
    pub async fn listen(
        &self,
        endpoint: &Arc<Endpoint>,
        question: &Question<'_>,
        options: (Reuse, Duration),
        take: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Answer, Error> {
        let whole = Whole { answer: Answer::default(), most: question.most };
        let mut pieces = Pieces { whole, take };
        self.exchange(endpoint, question, options, &mut pieces).await?;
        Ok(pieces.whole.answer)
    }

    /// Sends a request, and has `taker` take the response.
    async fn exchange(
        &self,
        endpoint: &Arc<Endpoint>,
        question: &Question<'_>,
        (reuse, connect): (Reuse, Duration),
        taker: &mut impl Take,
    ) -> Result<(), Error> {
        let Question { head, host: _, body, most: _ } = question;
        let host = question.host_of(endpoint);
        let mut memory = CallMemory::new(titan_h1::Limits::default());
        match self.connect(endpoint, (reuse, connect)).await? {
            PooledConnection::Exclusive(connection) => {
                let framing = match body.is_empty() {
                    true => Body::None,
                    false => Body::Length(body.len() as u64),
                };
                let stays = match reuse {
                    Reuse::Never => Connection::Close,
                    Reuse::Kept => Connection::KeepAlive,
                };
                let write = |out: &mut Vec<u8>, body| {
                    titan_h1::write_request(out, head, host, body, stays);
                };
                let (buffers, method) = (&self.io.buffers, head.method);
                let channel =
                    H1Channel::start(connection, buffers, &mut memory, method, framing, write);
                let pump = Pump::new(StallLimits::UNLIMITED);
                self.receive(Call::new(channel, pump, AS_A_WHOLE), (body, taker), memory).await
            }
            PooledConnection::Shared { seat, .. } => {
                let shared = Rc::clone(&seat.shared);
                match &shared.mux {
                    SharedMux::H2(mux) => {
                        let call = self.call(endpoint, question, (seat, mux), reuse)?;
                        self.receive(call, (body, taker), memory).await
                    }
                    SharedMux::H3(mux) => {
                        let call = self.call(endpoint, question, (seat, mux), reuse)?;
                        self.receive(call, (body, taker), memory).await
                    }
                }
            }
        }
    }

    /// Begins a request on a stream of a connection that others may use.
    fn call<P: ClientProtocol>(
        &self,
        endpoint: &Endpoint,
        question: &Question<'_>,
        (seat, mux): (Seat, &Rc<Mux<P>>),
        reuse: Reuse,
    ) -> Result<Call<StreamChannel<'_, P>>, Error> {
        let (shared, length) = (Rc::clone(&seat.shared), question.body.len() as u64);
        let destination = Destination {
            authority: question.host_of(endpoint),
            is_https: endpoint.tls.is_some(),
            protocol: None,
        };
        let (head, clock) = (&question.head, &self.io.clock);
        let open = |mux: &Rc<Mux<P>>| mux.open(head, destination, None, length == 0);
        let channel = StreamChannel::start((seat, mux), clock, head.method, Some(length), open);
        if reuse == Reuse::Never {
            shared.retire();
        }
        let pump = Pump::new(StallLimits::UNLIMITED);
        Ok(Call::new(channel.ok_or(Kind::Unprocessed)?, pump, AS_A_WHOLE))
    }

    async fn connect(
        &self,
        endpoint: &Arc<Endpoint>,
        (reuse, timeout): (Reuse, Duration),
    ) -> Result<PooledConnection, Error> {
        let sharing = Sharing { write: timeout, ..self.sharing.clone() };
        let options = AcquireOptions {
            surely_alive: true,
            new: reuse == Reuse::Never,
            h1_only: false,
            connect: timeout,
            client: None,
            sharing: &sharing,
        };
        self.pools.get(endpoint, options).await
    }

    /// Sends the rest of the request and reads the response.
    async fn receive<C: Channel>(
        &self,
        mut call: Call<C>,
        (body, taker): (&[u8], &mut impl Take),
        mut memory: CallMemory,
    ) -> Result<(), Error> {
        let (clock, mut body) = (&self.io.clock, Text::new(body));
        let keep_alive = loop {
            let head = poll_fn(|cx| call.poll_head(cx, clock, &mut body, &mut memory)).await?;
            if !head.interim {
                break head.keep_alive;
            }
        };
        taker.take_head(std::mem::take(&mut memory.response));
        {
            let (upload, mut request, mut response) = call.split(&mut memory);
            poll_fn(|cx| {
                upload.poll(cx, clock, &mut body, &mut request)?;
                taker.poll_body(cx, &mut response)
            })
            .await?;
        }
        if keep_alive && call.upload.is_done() {
            let kept = call.into_channel().into_connection(&memory);
            kept.into_iter().for_each(|connection| self.pools.keep(connection, clock));
        }
        Ok(())
    }
}

/// Who takes a response.
trait Take {
    /// Takes its head, which is final.
    fn take_head(&mut self, head: ResponseHead);

    /// Takes its body, as much as it wants of it.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut impl BodySource,
    ) -> Poll<Result<(), Error>>;
}

/// Takes a response as a whole.
struct Whole {
    answer: Answer,
    /// As much of the body as is looked at.
    most: usize,
}

/// Takes the body of a successful response piece by piece.
struct Pieces<F> {
    whole: Whole,
    take: F,
}

impl Take for Whole {
    fn take_head(&mut self, head: ResponseHead) {
        self.answer.head = head;
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut impl BodySource,
    ) -> Poll<Result<(), Error>> {
        self.answer.poll_body(cx, body, self.most)
    }
}

impl<F: FnMut(&[u8]) -> ControlFlow<()>> Take for Pieces<F> {
    fn take_head(&mut self, head: ResponseHead) {
        self.whole.take_head(head);
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut impl BodySource,
    ) -> Poll<Result<(), Error>> {
        if self.whole.answer.head.status.code() / 100 != 2 {
            return self.whole.poll_body(cx, body);
        }
        while !body.is_done() {
            ready!(body.poll_data(cx))?;
            let taken = (self.take)(body.data());
            body.consume(body.data().len());
            if taken.is_break() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Answer {
    /// How a call of gRPC has ended, as far as it says so: behind its messages, or in the head if there are none.
    pub fn grpc_status(&self) -> Option<&[u8]> {
        self.grpc_field(b"grpc-status")
    }

    /// A field about how a call of gRPC has ended.
    pub fn grpc_field<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.trailers.named(name).next().or_else(|| self.head.fields.named(name).next())
    }

    /// What `Retry-After` says: seconds, or a date (RFC 9110 section 10.2.3). It may be any time.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.head.fields.named(b"retry-after").next()?;
        let text = std::str::from_utf8(text).ok()?;
        Some(match text.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let date = httpdate::parse_http_date(text).ok()?;
                date.duration_since(SystemTime::now()).unwrap_or_default()
            }
        })
    }

    /// What `Date` says: when it was made, by the clock of whoever responds (RFC 9110 section 6.6.1).
    pub fn date(&self) -> Option<SystemTime> {
        let text = std::str::from_utf8(self.head.fields.named(b"date").next()?).ok()?;
        httpdate::parse_http_date(text).ok()
    }

    /// Whether what follows the body is needed.
    fn is_call(&self) -> bool {
        let mut types = self.head.fields.named(b"content-type");
        types.next().is_some_and(|it| it.starts_with(b"application/grpc"))
    }

    /// Takes as much of the body as is looked at, and of a call reads on for its trailers.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut impl BodySource,
        most: usize,
    ) -> Poll<Result<(), Error>> {
        let most_read = if self.is_call() { MOST_BEFORE_TRAILERS.max(most) } else { most };
        while !body.is_done() && self.read < most_read {
            ready!(body.poll_data(cx))?;
            let data = body.data();
            let count = data.len().min(most_read - self.read);
            let looked_at = count.min(most - self.body.len());
            self.body.extend_from_slice(&data[..looked_at]);
            body.consume(count);
            self.read += count;
        }
        self.is_whole = body.is_done() && self.read == self.body.len();
        self.trailers.clone_from(body.trailers());
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_up_to_its_trailers_within_bounds() {
        let reads = |content_type: &[u8], length: usize| {
            let (bytes, mut answer) = (vec![b'x'; length], Answer::default());
            answer.head.fields.append_named(b"content-type", content_type).unwrap();
            let mut body = Text::new(&bytes);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(answer.poll_body(&mut cx, &mut body, MOST_BODY).is_ready());
            assert_eq!(answer.is_whole, answer.body.len() == length);
            (answer.body.len(), body.is_done())
        };
        assert_eq!(reads(b"application/grpc+proto", 10), (10, true));
        assert_eq!(reads(b"application/grpc", 3 * MOST_BODY), (MOST_BODY, true));
        assert_eq!(reads(b"application/grpc", MOST_BEFORE_TRAILERS + 1), (MOST_BODY, false));
        assert_eq!(reads(b"text/plain", MOST_BODY + 1), (MOST_BODY, false));
    }
}
