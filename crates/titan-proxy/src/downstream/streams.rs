//! Requests on the streams of a connection, whatever protocol has streams: a task for each.

use super::{boxed, drain};
use crate::error_pages::ask_for_document;
use crate::exchange::{Exchange, Outcome, Record, Verdict};
use crate::guard::Guard;
use crate::metrics::Cells;
use crate::origin::Origin;
use crate::scratch::{Lease, Scratch};
use crate::upgrade::Upgrade;
use crate::worker::{CurrentSnapshot, Worker};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use titan_http::section::Fault;
use titan_http::stream::{RequestStart, StreamId};
use titan_http::{BodyLength, Fields, Method, RequestHead, ResponseHead};
use titan_io::body::{BodySink, BodySource, ClientState, Content, RequestBody, ResponseSink};
use titan_io::clock::Timer;
use titan_io::counter::Counter;
use titan_io::error::{Error, Kind, Side};
use titan_io::mux::{Farewell, Mux, Protocol, Receiver, Sender, StreamHandle};
use titan_io::transport::DROPPED;

/// How long the end of a request that has seldom a body is waited for: a round trip and a lost packet, on most paths.
const MOMENT: Duration = Duration::from_millis(500);

/// What the streams of a connection have in common.
pub(super) struct Shared<P> {
    pub(super) worker: Rc<Worker>,
    pub(super) mux: Rc<Mux<P>>,
    pub(super) origin: Origin,
}

/// A protocol whose client opens streams with requests.
pub(super) trait ServerProtocol: Protocol + 'static {
    /// Swaps the head of the request that has come last with `head`, and tells how many bytes its field section had.
    fn take_request(&mut self, head: &mut RequestHead) -> usize;

    /// Ends the connection in good order.
    fn drain(&mut self);

    /// What counts its streams: those that were opened, and those that are over.
    fn streams(cells: &Cells) -> [&Counter; 2];

    /// Whether the handshake is not complete: what has come may be a replay.
    fn is_early(&self) -> bool {
        false
    }

    /// Waits until the handshake is complete.
    fn poll_confirmed(&mut self, _: &Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl ServerProtocol for titan_h2::Connection {
    fn take_request(&mut self, head: &mut RequestHead) -> usize {
        titan_h2::Connection::take_request(self, head)
    }

    fn drain(&mut self) {
        titan_h2::Connection::drain(self);
    }

    fn streams(cells: &Cells) -> [&Counter; 2] {
        [&cells.streams_opened, &cells.streams_closed]
    }
}

/// Serves a request in a task of its own.
pub(super) fn begin<P: ServerProtocol>(
    shared: &Rc<Shared<P>>,
    served: &mut u32,
    stream: StreamId,
    head: Result<RequestStart, Error>,
) {
    let Shared { worker, mux, .. } = &**shared;
    let snapshot = worker.snapshot();
    let mut scratch = worker.scratch(&snapshot);
    scratch.request.clear();
    let section = mux.connection().take_request(&mut scratch.request);
    let handle = mux.accept(stream, head.map_or(true, |start| start.end));
    P::streams(worker.cells())[0].add(1);
    *served = served.saturating_add(1);
    let most = snapshot.limits.requests_per_connection.at_most();
    if most.is_some_and(|most| *served >= most.get()) {
        mux.connection().drain();
    }
    // Boxed: a task moves its future into place, and out of it, several times.
    let told = (*served == 1, u32::try_from(section).unwrap_or(u32::MAX));
    let serving =
        boxed(|| serve_stream(Rc::clone(shared), snapshot, (handle, told), scratch, head));
    drop(tokio::task::spawn_local(serving));
}

/// What a request is refused for that breaks a rule of its message.
pub(super) fn refused(fault: Fault) -> Error {
    Error { side: Side::Downstream, kind: Kind::MalformedStream(fault) }
}

/// Responds to the request on a stream, or refuses what was none. Beside the stream stand whether it is the connection's first, and how
/// many bytes the field section of the head had.
async fn serve_stream<P: ServerProtocol>(
    shared: Rc<Shared<P>>,
    snapshot: CurrentSnapshot,
    (handle, (is_first, section)): (Rc<StreamHandle<P>>, (bool, u32)),
    mut scratch: Lease<Scratch>,
    head: Result<RequestStart, Error>,
) {
    let Shared { worker, origin, .. } = &*shared;
    let timer = worker.io.clock.timer();
    let Scratch { request, text, .. } = &mut *scratch;
    let (receiver, sender) = handle.split();
    let upgrade = head.ok().and_then(|start| start.protocol).map(|protocol| {
        let protocol = protocol.of(request.fields.text()).to_vec();
        Upgrade::of_connect(&protocol, request, worker.io.random_id())
    });
    let is_held = upgrade.is_some();
    let declared = head.map_or(None, |start| start.length);
    let mut length = match (head, declared) {
        (Ok(RequestStart { end: true, .. }) | Err(_), _) => BodyLength::None,
        _ if is_held => BodyLength::None,
        (Ok(_), Some(length)) => BodyLength::Known(length),
        (Ok(_), None) => BodyLength::Unknown,
    };
    let mut body = Request {
        receiver,
        length: declared,
        is_held,
        received: section.into(),
        guard: &snapshot.guard,
        part_of_window: snapshot.part_of_window(),
    };
    let mut response = Response { sender };
    let mut refused = head.err();
    if refused.is_some() {
        ask_for_document(&mut request.fields);
    }
    if handle.is_lost() {
        refused = Some(Kind::ClientGone.into());
    } else if length == BodyLength::Known(0) {
        refused = await_end(&mut body, &timer, snapshot.timeouts.body).await.err();
    } else if length == BodyLength::Unknown && has_usually_no_body(&request.method) {
        match await_end(&mut body, &timer, MOMENT).await {
            Ok(()) if body.is_done() && body.is_last() => length = BodyLength::None,
            Ok(()) | Err(Error { kind: Kind::BodyTimeout, .. }) => {}
            Err(error) => refused = Some(error),
        }
    }
    if refused.is_none() && shared.mux.connection().is_early() {
        let has_body = !matches!(length, BodyLength::None | BodyLength::Known(0));
        let may_repeat = request.method.is_safe() && !has_body && upgrade.is_none();
        refused = await_turn(&shared, &handle, may_repeat.then_some(&mut *request)).await.err();
    }
    let outcome = Exchange {
        worker,
        snapshot: &snapshot,
        timer: &timer,
        origin,
        request,
        length,
        sent_as: length,
        expects_continue: head.is_ok_and(|start| start.expect_continue),
        body: &mut body,
        sink: &mut response,
        text,
        upgrade,
        record: Record::since(is_first.then_some(origin.accepted), head.is_ok()),
    }
    .run(refused)
    .await;
    let is_unread_tunnel = body.is_held;
    let mut receiver = body.receiver;
    let (verdict, is_read) = match outcome {
        Outcome::Response(verdict) => (verdict, is_unread_tunnel || receiver.is_done()),
        Outcome::Tunnel(tunnel) => {
            // It may last for days.
            drop((snapshot, scratch));
            let run = tunnel.run(worker, &timer, &mut receiver, &mut response);
            (Box::pin(run).await, receiver.is_done())
        }
    };
    if verdict == Verdict::Responded && !is_read {
        // Some clients lose a response that is followed by a reset at once, whatever RFC 9113 section 8.1 says.
        drain(&mut receiver, &timer, DROPPED).await;
    }
    if verdict != Verdict::Responded && response.sender.is_waiting() && !handle.is_lost() {
        handle.charge_for_stall();
    }
    if verdict == (Verdict::Left { is_overdue: true }) {
        handle.forgive_reset();
    }
    P::streams(worker.cells())[1].add(1);
    handle.set_farewell(match verdict {
        Verdict::Responded => Farewell::Responded,
        Verdict::Broken | Verdict::Left { .. } => Farewell::Failed,
    });
}

/// Whether a request with that method seldom has a body. Some clients end the stream of one only behind its head, in a packet of its own:
/// sent on before, it would have a body upstream that is empty, which many servers refuse.
fn has_usually_no_body(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::DELETE, Method::TRACE].contains(method)
}

/// Waits for the end of a request without a body, or the beginning of one: sent on at once, a request that declares to have none would be
/// on its way before a body showed that it lies.
async fn await_end(
    body: &mut impl BodySource,
    timer: &Timer,
    timeout: Duration,
) -> Result<(), Error> {
    let deadline = timer.clock().deadline(timeout);
    poll_fn(|cx| match body.poll_data(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => timer.poll(cx, deadline).map(|()| Err(Kind::BodyTimeout.into())),
    })
    .await
}

/// Lets a request that does no harm when it is replayed go on before the handshake is complete, and tells its upstream (RFC 8470 section
/// 5.1). All others wait.
async fn await_turn<P: ServerProtocol>(
    shared: &Shared<P>,
    handle: &StreamHandle<P>,
    repeatable: Option<&mut RequestHead>,
) -> Result<(), Error> {
    let Shared { worker, mux, .. } = shared;
    if repeatable.is_some_and(|request| request.fields.set_named(b"early-data", b"1").is_ok()) {
        worker.cells().h3_early_requests.add(1);
        return Ok(());
    }
    poll_fn(|cx| match handle.poll_lost(cx) {
        Poll::Ready(()) => Poll::Ready(Err(Kind::ClientGone.into())),
        Poll::Pending => mux.connection().poll_confirmed(cx).map(Ok),
    })
    .await
}

/// The body of a request.
struct Request<'c, P: Protocol> {
    receiver: Receiver<P>,
    /// The length that was declared.
    length: Option<u64>,
    /// Whether what comes is for a tunnel that is not open yet.
    is_held: bool,
    /// Bytes of the head as it came, without the headers of frames, and those of the body that were used.
    received: u64,
    guard: &'c Guard,
    /// What is this stream's of the connection's window, where all streams want the same.
    part_of_window: usize,
}

impl<P: Protocol> BodySource for Request<'_, P> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.is_held {
            return Poll::Ready(Ok(()));
        }
        ready!(self.receiver.poll_data(cx))?;
        if self.receiver.is_whole() {
            self.guard.admit_trailers(self.receiver.trailers_mut())?;
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.receiver.data()
    }

    fn consume(&mut self, count: usize) {
        self.received += count as u64;
        self.receiver.consume(count);
    }

    fn is_done(&self) -> bool {
        self.is_held || self.receiver.is_done()
    }

    fn is_last(&self) -> bool {
        self.receiver.is_last()
    }

    fn trailers(&self) -> &Fields {
        self.receiver.trailers()
    }

    fn open_tunnel(&mut self) {
        self.is_held = false;
    }
}

impl<P: Protocol> RequestBody for Request<'_, P> {
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        // What all streams of a connection hold back must not use up the window that they share.
        self.receiver.poll_ahead(cx, wanted.min(self.part_of_window))
    }

    fn ahead(&self) -> usize {
        self.receiver.ahead()
    }

    fn rest(&self) -> Option<usize> {
        self.receiver.rest()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientState> {
        self.receiver.handle().poll_lost(cx).map(|()| ClientState::Broken)
    }

    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receiver.handle().poll_lost(cx)
    }

    fn is_broken(&self) -> bool {
        self.receiver.handle().is_lost()
    }

    fn is_abandoned(&self) -> bool {
        // What is not read of one stream does not stand in the way of the next.
        false
    }

    fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.receiver.set_limit(bytes);
        match self.length {
            Some(length) if length > bytes => Err(Kind::BodyTooLarge.into()),
            _ => Ok(()),
        }
    }

    fn received(&self) -> u64 {
        self.received
    }
}

/// The response to the request on a stream.
struct Response<P: Protocol> {
    sender: Sender<P>,
}

impl<P: Protocol> BodySink for Response<P> {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        is_last: bool,
    ) -> Poll<Result<usize, Error>> {
        self.sender.poll_send(cx, data, is_last)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.sender.poll_flush(cx)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Fields) -> Poll<Result<(), Error>> {
        self.sender.poll_end(cx, trailers)
    }

    fn written(&self) -> u64 {
        self.sender.written()
    }

    fn insist(&mut self) {
        self.sender.insist();
    }
}

impl<P: Protocol> ResponseSink for Response<P> {
    fn interim(&mut self, head: &ResponseHead) {
        self.sender.send_response(head, None, false);
    }

    fn start(&mut self, head: &ResponseHead, content: Content) {
        let Content { length, declared } = content;
        match length {
            BodyLength::None => self.sender.send_response(head, declared, true),
            BodyLength::Known(known) => self.sender.send_response(head, Some(known), known == 0),
            BodyLength::Unknown => self.sender.send_response(head, None, false),
        }
    }

    fn start_tunnel(&mut self, head: &ResponseHead) {
        self.sender.send_response(head, None, false);
    }

    fn is_started(&self) -> bool {
        self.sender.is_started()
    }

    fn close_after(&mut self) {
        // The other streams have nothing to do with what went wrong on this one.
    }

    fn sent(&self) -> u64 {
        self.sender.written()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, C, D, E, F>(_: fn(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    /// It is as large as the deepest of what it awaits. What only few requests need belongs into a box.
    #[test]
    fn a_stream_has_no_room_to_spare() {
        let bytes = size_of_future(serve_stream::<titan_h2::Connection>);
        assert!(bytes <= 4672, "{bytes} bytes for each request under way");
    }
}
