//! A client connection that speaks HTTP/2: a task for the connection, and one for each stream.
//!
//! The connection's task reads and writes the socket. Each request is served by its own task, which starts only after
//! everything that has arrived was read: a request that its client resets at once costs nothing more.

use super::{Client, boxed, drain};
use crate::error_pages::ask_for_document;
use crate::exchange::{Exchange, Outcome, Record, Verdict};
use crate::guard::Guard;
use crate::origin::Origin;
use crate::scratch::{Lease, Scratch};
use crate::upgrade::Upgrade;
use crate::worker::{CurrentSnapshot, Worker};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use titan_h2::{Code, Event, RequestStart, StreamId};
use titan_http::{BodyLength, Fields, ResponseHead};
use titan_io::body::{BodySink, BodySource, ClientState, Content, RequestBody, ResponseSink};
use titan_io::clock::{Clock, CoarseInstant, Timer};
use titan_io::error::{Error, Kind, Side};
use titan_io::mux::{Mux, Progress, Receiver, Sender, StreamHandle, Wire, WireEnd};
use titan_io::transport::{DROPPED, Transport};

/// Serves a client until the connection ends. Until `deadline` its preface and settings must have come.
pub(crate) async fn serve(client: &mut Client, deadline: CoarseInstant) {
    let worker = Rc::clone(&client.worker);
    let _open = Open::new(&worker);
    let limits = worker.snapshot().stream_limits;
    let mux = Mux::new(titan_h2::Connection::server(limits), Side::Downstream);
    let origin = Origin::clone(&client.origin);
    let shared = Rc::new(Shared { worker, mux, origin });
    client.is_responding = true;
    let progress = Progress::new(&client.transport.io.clock);
    let mut connection = Connection {
        client,
        shared: Rc::clone(&shared),
        progress,
        unfinished: Some(PartialFrame { at: 0, until: deadline }),
        idle: None,
        served: 0,
    };
    let end = poll_fn(|cx| connection.poll(cx)).await;
    let mux = &shared.mux;
    mux.lose();
    poll_fn(|cx| {
        mux.set_driver(cx);
        if mux.handles() == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    client.is_responding = end == End::Gone;
    if end == End::Over {
        client.linger().await;
    }
}

/// A connection that is counted, until it is dropped.
struct Open(Rc<Worker>);

impl Open {
    fn new(worker: &Rc<Worker>) -> Open {
        worker.cells().h2_opened.add(1);
        Open(Rc::clone(worker))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.cells().h2_closed.add(1);
    }
}

/// A client connection and how far it has come.
struct Connection<'c> {
    client: &'c mut Client,
    shared: Rc<Shared>,
    progress: Progress,
    unfinished: Option<PartialFrame>,
    /// Until when a request must have come, where none is served.
    idle: Option<CoarseInstant>,
    /// Requests so far.
    served: u32,
}

/// What has come in part of a head, or of another frame without a body. Nothing else can come before it is whole.
#[derive(Clone, Copy)]
struct PartialFrame {
    /// Where it begins in all that has come.
    at: u64,
    until: CoarseInstant,
}

/// What the streams of a connection have in common.
struct Shared {
    worker: Rc<Worker>,
    mux: Rc<Mux>,
    origin: Origin,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Everything that was to be said is said.
    Over,
    /// The client has gone, or takes nothing.
    Gone,
}

impl Connection<'_> {
    /// Moves what can be moved in both directions. Ready when the connection is at its end.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let worker = &self.client.worker;
        // One that has served nothing yet was only just accepted.
        let may_end = self.served > 0 && !self.shared.mux.connection().is_leaving();
        if worker.io.is_draining() || may_end && worker.ends_connections() {
            self.shared.mux.connection().drain();
        }
        let Connection { client, shared, progress, served, .. } = self;
        let Client { worker, transport, .. } = &mut **client;
        let Transport { io, stream, inbox, timer, grace } = transport;
        let timeout = worker.snapshot().timeouts.write;
        let (mux, buffers, clock) = (&*shared.mux, &io.buffers, &*io.clock);
        let mut wire = Wire { mux, stream, inbox, buffers, clock, timeout, progress };
        let halt = wire.poll(cx, |event| on_event(&event, shared, served));
        match halt {
            Poll::Ready(WireEnd::Gone) => return Poll::Ready(End::Gone),
            Poll::Ready(WireEnd::Broken) => return Poll::Ready(End::Over),
            Poll::Pending => {}
        }
        let is_over = mux.connection().is_over() && mux.handles() == 0;
        if is_over && wire.progress.is_flushed() {
            return Poll::Ready(End::Over);
        }
        let head = head_deadline(&mut self.unfinished, shared, wire.inbox.unread(), clock);
        let last = last_moment(&mut self.idle, shared, *grace);
        if clock.is_past(head.min(last)) {
            let code = if clock.is_past(head) { Code::EnhanceYourCalm } else { Code::NoError };
            if code == Code::EnhanceYourCalm {
                worker.cells().count_failure(Kind::HeadTimeout.into());
            }
            mux.connection().go_away(code);
            return Poll::Ready(if wire.write(cx).is_ok() { End::Over } else { End::Gone });
        }
        timer.wake_at(cx, last.min(head).min(wire.progress.deadline()));
        Poll::Pending
    }
}

/// Until when what has come in part must be whole. Not while so much waits for the client that nothing is read.
fn head_deadline(
    unfinished: &mut Option<PartialFrame>,
    shared: &Shared,
    unread: &[u8],
    clock: &Clock,
) -> CoarseInstant {
    let Shared { worker, mux, .. } = shared;
    let connection = mux.connection();
    let at = connection.unfinished(unread).filter(|_| !connection.is_clogged());
    *unfinished = at.map(|at| match *unfinished {
        Some(before) if before.at == at => before,
        _ => PartialFrame { at, until: clock.deadline(worker.snapshot().timeouts.head) },
    });
    unfinished.map_or(CoarseInstant::NEVER, |unfinished| unfinished.until)
}

/// Until when a client without a request is waited for.
fn last_moment(
    idle: &mut Option<CoarseInstant>,
    shared: &Shared,
    grace: CoarseInstant,
) -> CoarseInstant {
    let Shared { worker, mux, .. } = shared;
    let io = &worker.io;
    if mux.handles() > 0 {
        *idle = None;
        return CoarseInstant::NEVER;
    }
    let until = idle.get_or_insert_with(|| io.clock.deadline(worker.snapshot().timeouts.idle));
    (*until).min(io.idle_until(grace))
}

fn on_event(event: &Event, shared: &Rc<Shared>, served: &mut u32) {
    match *event {
        Event::Request { stream, start } => begin(shared, served, stream, Ok(start)),
        Event::Refused { stream, fault } => begin(shared, served, stream, Err(refused(fault))),
        Event::Reset { fault: Some(fault), .. } => {
            shared.worker.cells().count_failure(refused(fault));
        }
        _ => {}
    }
}

/// Serves a request in a task of its own.
fn begin(
    shared: &Rc<Shared>,
    served: &mut u32,
    stream: StreamId,
    head: Result<RequestStart, Error>,
) {
    let Shared { worker, mux, .. } = &**shared;
    let snapshot = worker.snapshot();
    let mut scratch = worker.scratch(&snapshot);
    scratch.request.clear();
    mux.connection().take_request(&mut scratch.request);
    let handle = mux.accept(stream, head.map_or(true, |start| start.end));
    worker.cells().streams_opened.add(1);
    *served = served.saturating_add(1);
    let most = snapshot.limits.requests_per_connection.at_most();
    if most.is_some_and(|most| *served >= most.get()) {
        mux.connection().drain();
    }
    // Boxed: a task moves its future into place, and out of it, several times.
    let is_first = *served == 1;
    let serving =
        boxed(|| serve_stream(Rc::clone(shared), snapshot, (handle, is_first), scratch, head));
    drop(tokio::task::spawn_local(serving));
}

fn refused(fault: titan_h2::Fault) -> Error {
    Error { side: Side::Downstream, kind: Kind::MalformedStream(fault) }
}

/// Responds to the request on a stream, or refuses what was none.
async fn serve_stream(
    shared: Rc<Shared>,
    snapshot: CurrentSnapshot,
    (handle, is_first): (Rc<StreamHandle>, bool),
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
    let length = match (head, declared) {
        (Ok(RequestStart { end: true, .. }) | Err(_), _) => BodyLength::None,
        _ if is_held => BodyLength::None,
        (Ok(_), Some(length)) => BodyLength::Known(length),
        (Ok(_), None) => BodyLength::Unknown,
    };
    let mut body = Request {
        receiver,
        length: declared,
        is_held,
        received: 0,
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
    worker.cells().streams_closed.add(1);
    handle.set_farewell(match verdict {
        Verdict::Responded => Code::NoError,
        Verdict::Broken | Verdict::Left { .. } => Code::InternalError,
    });
}

/// Waits for the end of a request that declares to have no body: sent on at once, it would be on its way
/// before a body showed that it lies.
async fn await_end(body: &mut Request<'_>, timer: &Timer, timeout: Duration) -> Result<(), Error> {
    let deadline = timer.clock().deadline(timeout);
    poll_fn(|cx| match body.poll_data(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => timer.poll(cx, deadline).map(|()| Err(Kind::BodyTimeout.into())),
    })
    .await
}

/// The body of a request.
struct Request<'c> {
    receiver: Receiver,
    /// The length that was declared.
    length: Option<u64>,
    /// Whether what comes is for a tunnel that is not open yet.
    is_held: bool,
    received: u64,
    guard: &'c Guard,
    /// What is this stream's of the connection's window, where all streams want the same.
    part_of_window: usize,
}

impl BodySource for Request<'_> {
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

impl RequestBody for Request<'_> {
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
struct Response {
    sender: Sender,
}

impl BodySink for Response {
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

impl ResponseSink for Response {
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
        let bytes = size_of_future(serve_stream);
        assert!(bytes <= 4624, "{bytes} bytes for each request under way");
    }
}
