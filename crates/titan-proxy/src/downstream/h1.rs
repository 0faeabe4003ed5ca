//! A client connection that speaks HTTP/1.1: requests in, responses out, one exchange after the other.
//!
//! ```text
//! idle (holds nothing) --> head --> exchange --> head ...  --> idle
//!                           |          |
//!                         refuse    close, linger or reset
//! ```

use super::{Client, boxed, drain};
use crate::error_pages::ask_for_document;
use crate::exchange::{Exchange, Outcome, Record, Verdict};
use crate::guard::Guard;
use crate::scratch::Scratch;
use crate::worker::CurrentSnapshot;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use titan_h1::{Body, RequestStart};
use titan_http::BodyLength;
use titan_http::{FieldName, Fields, Method, RequestHead, ResponseHead, Version};
use titan_io::body::{BodySink, BodySource};
use titan_io::body::{ClientState, Content, RequestBody, ResponseSink};
use titan_io::buffer::SMALL;
use titan_io::clock::{CoarseInstant, TICK};
use titan_io::error::{Error, Kind, Side};
use titan_io::message::{Incoming, Outbox, Outgoing};
use titan_io::stream::{Peek, ReadHalf, WriteHalf};
use titan_io::transport::Transport;

/// How much of an unread request body is read and dropped to keep the connection.
const DRAINED: usize = 64 << 10;

/// What stands for a head that could not be read: nothing follows it, and nothing after it is served.
const NO_REQUEST: RequestStart = RequestStart {
    consumed: 0,
    framing: titan_h1::Framing::None,
    keep_alive: false,
    expect_continue: false,
};

/// Serves a client until the connection ends. Until `deadline` its first request must have begun.
pub(crate) async fn serve(client: &mut Client, deadline: CoarseInstant) {
    let began = Some(client.origin.accepted);
    let mut connection = Connection { client, deadline, began, served: 0, pipelined: 0 };
    while connection.has_news().await {
        // Boxed: what an exchange needs must not weigh on the thousands of connections that wait.
        if let Next::Close = boxed(|| connection.serve_busy()).await {
            break;
        }
    }
}

/// A client connection and what it has been used for.
struct Connection<'c> {
    client: &'c mut Client,
    /// Until when the next request must have begun. What comes before that and is no part of a request
    /// does not move it: records of TLS can be empty, and short of a whole for days.
    deadline: CoarseInstant,
    /// When the head that is being read began to come, where it did not come as a whole. Of the first one it is when the
    /// connection was accepted.
    began: Option<Instant>,
    /// Exchanges so far.
    served: u32,
    /// Exchanges since something was last read from the client.
    pipelined: u16,
}

/// What happens to a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Idle,
    Close,
}

/// What a client that seemed to have something to say has said.
enum Heard {
    Request(RequestStart),
    /// Nothing yet: the runtime takes a new socket for readable until a read shows otherwise.
    Nothing,
    /// It has closed the connection between two requests.
    End,
}

impl Connection<'_> {
    /// Waits for a request, holding nothing but the socket. False when the connection is to be closed.
    async fn has_news(&mut self) -> bool {
        !self.client.transport.inbox.is_empty() || self.wait(self.deadline).await
    }

    /// Waits until the client sends something, until then at most; while the worker drains only for a
    /// moment, because a request may be on its way.
    async fn wait(&mut self, deadline: CoarseInstant) -> bool {
        let Transport { io, stream, timer, grace, .. } = &mut self.client.transport;
        let (reader, _) = stream.split();
        poll_fn(|cx| match reader.poll_ready(cx) {
            Poll::Ready(result) => Poll::Ready(result.is_ok()),
            Poll::Pending => timer.poll(cx, deadline.min(io.idle_until(*grace))).map(|()| false),
        })
        .await
    }

    /// Serves requests as long as they come one upon the other.
    async fn serve_busy(&mut self) -> Next {
        loop {
            let snapshot = self.client.worker.snapshot();
            let mut scratch = self.client.worker.scratch(&snapshot);
            let head = match self.read_head(&mut scratch).await {
                Ok(Heard::Request(start)) => Ok(start),
                Ok(Heard::Nothing) => return Next::Idle,
                Ok(Heard::End) => return Next::Close,
                Err(error) => Err(error),
            };
            if let Next::Close = self.exchange(snapshot, &mut scratch, head).await {
                return Next::Close;
            }
            drop(scratch);
            let worker = &self.client.worker;
            self.deadline = worker.io.clock.deadline(worker.snapshot().timeouts.idle);
            if self.client.transport.inbox.is_empty() && !self.stays_busy().await {
                return Next::Idle;
            }
        }
    }

    /// An active client sends its next request within a moment. Until then the future that
    /// serves it is kept, unless too many are: rebuilding it costs more than waiting.
    async fn stays_busy(&mut self) -> bool {
        let worker = Rc::clone(&self.client.worker);
        match worker.try_keep() {
            Some(_permit) => self.wait(worker.io.clock.deadline(2 * TICK).min(self.deadline)).await,
            None => false,
        }
    }

    /// Reads the head of the next request.
    async fn read_head(&mut self, scratch: &mut Scratch) -> Result<Heard, Error> {
        let Connection { client, pipelined, began, .. } = self;
        let Client { worker, transport, .. } = &mut **client;
        let Transport { io, stream, inbox, timer, .. } = transport;
        let deadline = timer.clock().deadline(worker.snapshot().timeouts.head);
        let Scratch { requests, request, .. } = scratch;
        let (reader, _) = stream.split();
        requests.reset();
        request.clear();
        poll_fn(|cx| {
            loop {
                if let Some(start) =
                    requests.read(inbox.unread(), request).map_err(Error::bad_request)?
                {
                    inbox.consume(start.consumed);
                    return Poll::Ready(Ok(Heard::Request(start)));
                }
                match inbox.poll_fill(cx, &reader, &io.buffers, SMALL) {
                    Poll::Ready(Ok(count)) if count > 0 => *pipelined = 0,
                    Poll::Ready(_) if requests.in_progress() => {
                        return Poll::Ready(Err(Kind::ClientGone.into()));
                    }
                    Poll::Ready(_) => return Poll::Ready(Ok(Heard::End)),
                    Poll::Pending if inbox.is_empty() => return Poll::Ready(Ok(Heard::Nothing)),
                    Poll::Pending => {
                        began.get_or_insert_with(Instant::now);
                        ready!(timer.poll(cx, deadline));
                        return Poll::Ready(Err(Kind::HeadTimeout.into()));
                    }
                }
            }
        })
        .await
    }

    /// Responds to one request, or refuses what was none.
    async fn exchange(
        &mut self,
        snapshot: CurrentSnapshot,
        scratch: &mut Scratch,
        head: Result<RequestStart, Error>,
    ) -> Next {
        self.served = self.served.saturating_add(1);
        self.pipelined = self.pipelined.saturating_add(1);
        if let Err(error) = head {
            forget_most(&mut scratch.request, error);
        }
        let start = head.unwrap_or(NO_REQUEST);
        let may_continue = start.keep_alive && !self.has_served_enough();
        self.client.is_responding = true;
        let Client { worker, transport, origin, .. } = &mut *self.client;
        let Transport { io, stream, inbox, timer, .. } = transport;
        let Scratch { request, request_body, to_client, text, .. } = scratch;
        let (reader, writer) = stream.split();
        request_body.reset(start.framing);
        let body = Incoming::new(Side::Downstream, reader, inbox, request_body, &io.buffers);
        let mut body = Request {
            message: body,
            expects: start.expect_continue,
            received: start.consumed as u64,
            guard: &snapshot.guard,
        };
        let mut response = Response::new(writer, to_client, (request.method, request.version));
        if !may_continue {
            response.close_after();
        }
        let outcome = Exchange {
            worker,
            snapshot: &snapshot,
            timer,
            origin,
            request,
            length: start.framing.into(),
            sent_as: start.framing.into(),
            expects_continue: start.expect_continue,
            body: &mut body,
            sink: &mut response,
            text,
            upgrade: None,
            record: Record::since(self.began.take(), head.is_ok()),
        }
        .run(head.err())
        .await;
        let verdict = match outcome {
            Outcome::Response(verdict) => verdict,
            Outcome::Tunnel(tunnel) => {
                let Request { mut message, .. } = body;
                // It may last for days.
                drop(snapshot);
                let run = tunnel.run(worker, timer, &mut message, &mut response);
                let verdict = Box::pin(run).await;
                return self.end_tunnel(verdict).await;
            }
        };
        let Response { is_started, is_closing, is_framed, .. } = response;
        // The end of a short response to a whole request without a body cannot be lost any more.
        let is_surely_read =
            head.is_ok() && start.framing.is_empty() && response.sent() <= SMALL as u64;
        if verdict != Verdict::Responded {
            self.client.is_responding = is_started;
            if verdict == Verdict::Broken && is_started {
                self.client.break_off(is_framed).await;
            }
            return Next::Close;
        }
        let is_whole = body.is_done() || !is_closing && drain(&mut body, timer, DRAINED).await;
        self.client.is_responding = false;
        match is_whole {
            true if !is_closing => Next::Idle,
            true if !start.keep_alive && is_surely_read => Next::Close,
            _ => {
                self.client.linger().await;
                Next::Close
            }
        }
    }

    /// Closes a connection that was a tunnel.
    async fn end_tunnel(&mut self, verdict: Verdict) -> Next {
        match verdict {
            Verdict::Responded => {
                self.client.is_responding = false;
                self.client.linger().await;
            }
            Verdict::Broken => self.client.break_off(false).await,
            Verdict::Left { .. } => {}
        }
        Next::Close
    }

    fn has_served_enough(&self) -> bool {
        let worker = &self.client.worker;
        let limits = &worker.snapshot().limits;
        let most = limits.requests_per_connection.at_most();
        most.is_some_and(|most| self.served >= most.get())
            || self.pipelined > limits.pipeline.get()
            || worker.io.is_draining()
            || worker.ends_connections()
    }
}

/// Of a head that is refused only the page matters that it comes from, which may be allowed to read why, and what its
/// client takes.
fn forget_most(request: &mut RequestHead, error: Error) {
    let is_legible = matches!(error.kind, Kind::Malformed(_));
    let of = |name| request.fields.all(name).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let [origin, accept] = match is_legible {
        true => [of(FieldName::Origin), of(FieldName::Accept)],
        false => [Vec::new(), Vec::new()],
    };
    request.clear();
    let origin = origin.iter().take(1).map(|value| (FieldName::Origin, value));
    for (name, value) in origin.chain(accept.iter().map(|value| (FieldName::Accept, value))) {
        let kept = request.fields.append(name, value);
        kept.expect("its bytes were those of a field before");
    }
    ask_for_document(&mut request.fields);
}

/// The body of the request that is being served.
struct Request<'c, 's> {
    message: Incoming<'c>,
    /// Whether the client waits for 100 (Continue) before it sends the body.
    expects: bool,
    /// Bytes of the head and of the body so far.
    received: u64,
    guard: &'s Guard,
}

impl BodySource for Request<'_, '_> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        ready!(self.message.poll_data(cx))?;
        if self.message.has_ended() {
            self.guard.admit_trailers(self.message.trailers_mut())?;
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.message.data()
    }

    fn consume(&mut self, count: usize) {
        self.expects = false;
        self.received += count as u64;
        self.message.consume(count);
    }

    fn is_done(&self) -> bool {
        self.message.is_done()
    }

    fn is_last(&self) -> bool {
        self.message.is_last()
    }

    fn trailers(&self) -> &Fields {
        self.message.trailers()
    }

    fn open_tunnel(&mut self) {
        self.message.open_tunnel();
    }

    fn arrived(&self, taken: u64) -> u64 {
        self.message.arrived(taken)
    }

    fn socket(&self) -> Option<(&ReadHalf<'_>, u64)> {
        self.message.socket()
    }

    fn skip(&mut self, count: usize) -> Result<(), Error> {
        self.received += count as u64;
        self.message.skip(count)
    }
}

impl RequestBody for Request<'_, '_> {
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        ready!(self.poll_data(cx))?;
        self.message.poll_ahead(cx, wanted)
    }

    fn ahead(&self) -> usize {
        self.message.data().len()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientState> {
        match ready!(self.message.poll_beyond(cx)) {
            Peek::End => Poll::Ready(ClientState::HalfClosed),
            Peek::Broken => Poll::Ready(ClientState::Broken),
            Peek::Bytes | Peek::Nothing => Poll::Ready(ClientState::Present),
        }
    }

    fn poll_lost(&mut self, _: &mut Context<'_>) -> Poll<()> {
        // Behind a request of a pipeline nothing shows, and before the end of a body neither.
        Poll::Pending
    }

    fn is_broken(&self) -> bool {
        self.message.is_broken()
    }

    fn is_abandoned(&self) -> bool {
        let is_short = self.message.remaining().is_some_and(|rest| rest <= DRAINED as u64);
        !self.message.is_done() && (self.expects || !is_short)
    }

    fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.message.set_limit(bytes)
    }

    fn received(&self) -> u64 {
        self.received
    }
}

/// The response to the request that is being served.
struct Response<'c> {
    message: Outgoing<'c>,
    method: Method,
    version: Version,
    is_started: bool,
    is_closing: bool,
    /// Whether the client sees where the body ends, wherever the connection does. Those of HTTP/1.0 may take any end
    /// for that of the body.
    is_framed: bool,
}

impl<'c> Response<'c> {
    fn new(
        writer: WriteHalf<'c>,
        out: &'c mut Outbox,
        (method, version): (Method, Version),
    ) -> Response<'c> {
        let message = Outgoing::new(Side::Downstream, writer, out);
        let is_framed = version >= Version::Http11;
        Response { message, method, version, is_started: false, is_closing: false, is_framed }
    }

    /// How the body is framed for this client. One of unknown length needs chunks, or the end of the
    /// connection where the client knows none.
    fn framing(&mut self, content: Content) -> Body {
        match content.length {
            BodyLength::None => content.declared.map_or(Body::None, Body::Length),
            BodyLength::Known(length) => Body::Length(length),
            BodyLength::Unknown if self.version >= Version::Http11 => Body::Chunked,
            BodyLength::Unknown => {
                self.is_closing = true;
                Body::UntilClose
            }
        }
    }

    fn connection(&self) -> titan_h1::Connection {
        match (self.is_closing, self.version) {
            (true, _) => titan_h1::Connection::Close,
            (false, Version::Http10) => titan_h1::Connection::KeepAliveExplicit,
            (false, _) => titan_h1::Connection::KeepAlive,
        }
    }
}

impl BodySink for Response<'_> {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        is_last: bool,
    ) -> Poll<Result<usize, Error>> {
        self.message.poll_send(cx, data, is_last)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.message.poll_flush(cx)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Fields) -> Poll<Result<(), Error>> {
        self.message.poll_end(cx, trailers)
    }

    fn socket(&self) -> Option<&WriteHalf<'_>> {
        self.message.socket()
    }

    fn wrote(&mut self, result: io::Result<usize>) -> Result<(), Error> {
        self.message.wrote(result)
    }

    fn written(&self) -> u64 {
        self.message.written()
    }

    fn insist(&mut self) {
        self.message.insist();
    }
}

impl ResponseSink for Response<'_> {
    fn interim(&mut self, head: &ResponseHead) {
        if self.version >= Version::Http11 {
            let connection = titan_h1::Connection::KeepAlive;
            self.message.write(|out| titan_h1::write_response(out, head, Body::None, connection));
        }
    }

    fn start(&mut self, head: &ResponseHead, content: Content) {
        let is_head = self.method == Method::HEAD;
        debug_assert!(
            !is_head || content.length == BodyLength::None,
            "a response to HEAD has no body"
        );
        let body = self.framing(content);
        let connection = self.connection();
        self.message.start(body, |out, body| titan_h1::write_response(out, head, body, connection));
        if content.length == BodyLength::None {
            self.message.without_body();
        }
        self.is_started = true;
    }

    fn start_tunnel(&mut self, head: &ResponseHead) {
        self.message.start(Body::UntilClose, |out, _| {
            titan_h1::write_response(out, head, Body::None, titan_h1::Connection::Upgrade);
        });
        self.message.open_tunnel();
        (self.is_started, self.is_closing, self.is_framed) = (true, true, false);
    }

    fn is_started(&self) -> bool {
        self.is_started
    }

    fn close_after(&mut self) {
        self.is_closing = true;
    }

    fn sent(&self) -> u64 {
        self.message.sent()
    }
}
