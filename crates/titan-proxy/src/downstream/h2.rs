//! A client connection that speaks HTTP/2: a task for the connection, and one for each stream.
//!
//! The connection's task reads and writes the socket. Each request is served by its own task, which starts only after
//! everything that has arrived was read: a request that its client resets at once costs nothing more.

use super::Client;
use super::streams::{Shared, begin, refused};
use crate::origin::Origin;
use crate::worker::Worker;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_h2::{Code, Event};
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::{Kind, Side};
use titan_io::mux::{Mux, Progress, Wire, WireEnd};
use titan_io::transport::Transport;

/// What its streams have in common.
type H2Shared = Shared<titan_h2::Connection>;

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
    shared: Rc<H2Shared>,
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
    shared: &H2Shared,
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
    shared: &H2Shared,
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

fn on_event(event: &Event, shared: &Rc<H2Shared>, served: &mut u32) {
    match *event {
        Event::Request { stream, start } => begin(shared, served, stream, Ok(start)),
        Event::Refused { stream, fault } => begin(shared, served, stream, Err(refused(fault))),
        Event::Reset { fault: Some(fault), .. } => {
            shared.worker.cells().count_failure(refused(fault));
        }
        _ => {}
    }
}
