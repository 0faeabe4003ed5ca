//! A client connection that speaks HTTP/3: a task for the connection, and one for each stream.

use super::streams::{ServerProtocol, Shared, begin, refused};
use crate::metrics::Cells;
use crate::origin::Origin;
use crate::worker::Worker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use titan_h3::{Code, Event, Fatal, StreamId};
use titan_http::RequestHead;
use titan_io::clock::{CoarseInstant, Timer};
use titan_io::counter::Counter;
use titan_io::error::Kind;
use titan_io::quic::{Line, LineEnd, LineFigures, Link};

/// What its streams have in common.
type H3Shared = Shared<Link>;

/// How often a client that waits for a response is asked whether it is there, before it would count as gone.
const ASKED_BEFORE_IDLE: u32 = 3;

/// How long requests are still taken that a client has sent before it could know of a drain: longer than most round trips.
const LEAVE: Duration = Duration::from_millis(500);
/// How long a client that has everything may read it before the connection is closed: some drop what they have not read by then.
const LINGER: Duration = Duration::from_secs(1);
/// How long a drain waits for a client that has not received all of a response and says nothing more.
const PATIENCE: Duration = Duration::from_secs(3);

/// Serves a client until the connection ends. The peer is still to be told of that.
pub(crate) async fn serve(line: &mut Line, worker: &Rc<Worker>, origin: &Origin) {
    let _open = Open::new(worker);
    let mux = Rc::clone(line.mux());
    let shared = Rc::new(Shared { worker: Rc::clone(worker), mux, origin: Origin::clone(origin) });
    let mut connection = Connection {
        line,
        shared: Rc::clone(&shared),
        timer: worker.io.clock.timer(),
        grace: worker.io.grace(),
        heads: HeadDeadlines::default(),
        idle: None,
        asks: None,
        leaves: None,
        lingers: None,
        heard: (0, worker.io.clock.now()),
        served: 0,
    };
    let code = poll_fn(|cx| connection.poll(cx)).await;
    count(worker, connection.line.last_figures());
    worker.cells().quic_round_trips.record(connection.line.round_trip());
    connection.line.close(code);
    let mux = &shared.mux;
    mux.lose();
    poll_fn(|cx| {
        // The peer hears of it at once, however long the streams take.
        let _ = connection.line.poll_drained(cx);
        if mux.handles() == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A connection that is counted, until it is dropped.
struct Open(Rc<Worker>);

impl Open {
    fn new(worker: &Rc<Worker>) -> Open {
        worker.cells().h3_opened.add(1);
        Open(Rc::clone(worker))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.cells().h3_closed.add(1);
    }
}

impl ServerProtocol for Link {
    fn take_request(&mut self, head: &mut RequestHead) -> usize {
        self.h3().take_request(head)
    }

    fn drain(&mut self) {
        self.h3().drain();
    }

    fn streams(cells: &Cells) -> [&Counter; 2] {
        [&cells.h3_streams_opened, &cells.h3_streams_closed]
    }

    fn is_early(&self) -> bool {
        !self.is_confirmed()
    }

    fn poll_confirmed(&mut self, cx: &Context<'_>) -> Poll<()> {
        Link::poll_confirmed(self, cx)
    }
}

/// A client connection and how far it has come.
struct Connection<'l> {
    line: &'l mut Line,
    shared: Rc<H3Shared>,
    timer: Timer,
    /// Until when a drain leaves a connection without a request open.
    grace: CoarseInstant,
    heads: HeadDeadlines,
    /// Until when a request must have come, where none is served.
    idle: Option<CoarseInstant>,
    /// When to ask a client that waits for a response whether it is still there.
    asks: Option<CoarseInstant>,
    /// When a client that was told of a drain must know of it.
    leaves: Option<CoarseInstant>,
    /// Until when a connection that is over is left to the client to close.
    lingers: Option<CoarseInstant>,
    /// Acknowledgements so far, and until when the next one is waited for.
    heard: (u64, CoarseInstant),
    /// Requests so far.
    served: u32,
}

impl Connection<'_> {
    /// Moves what can be moved in both directions. Ready with the code that the connection is to be closed with.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Code> {
        self.drain_if_due();
        let Connection { line, shared, served, .. } = self;
        let worker = &shared.worker;
        let clock = &worker.io.clock;
        match line.poll(cx, clock, |event| on_event(&event, shared, served)) {
            Poll::Ready(LineEnd::Broken(fatal)) => return Poll::Ready(fatal.code),
            Poll::Ready(LineEnd::Gone) => return Poll::Ready(Code::NoError),
            Poll::Pending => {}
        }
        count(worker, line.take_figures());
        let head = match self.heads.next(&self.shared) {
            Ok(head) => head,
            Err(fatal) => return Poll::Ready(fatal.code),
        };
        let last = self.last_moment();
        let clock = &self.shared.worker.io.clock;
        if self.lingers.is_some_and(|until| clock.is_past(until)) {
            return Poll::Ready(Code::NoError);
        }
        let leaves = self.leaves.filter(|leaves| !clock.is_past(*leaves));
        let leaves = leaves.unwrap_or(CoarseInstant::NEVER);
        let asks = self.ask_if_due();
        self.timer.wake_at(cx, last.min(head).min(leaves).min(asks));
        Poll::Pending
    }

    /// Keeps the connection of a client open that waits for a response (RFC 9114 section 5.1): QUIC would end it where nothing comes and
    /// goes for long. When to look again.
    fn ask_if_due(&mut self) -> CoarseInstant {
        let Connection { line, shared, asks, .. } = self;
        let Shared { worker, mux, .. } = &**shared;
        if mux.handles() == 0 {
            *asks = None;
            return CoarseInstant::NEVER;
        }
        let clock = &worker.io.clock;
        let next = || clock.deadline(worker.snapshot().timeouts.idle / ASKED_BEFORE_IDLE);
        if asks.is_some_and(|asks| clock.is_past(asks)) {
            line.ping();
            // It is sent when the connection moves next.
            mux.wake_driver();
            *asks = None;
        }
        *asks.get_or_insert_with(next)
    }

    /// Tells the client to go elsewhere, in two steps.
    fn drain_if_due(&mut self) {
        let Connection { line, shared, leaves, served, .. } = self;
        let worker = &shared.worker;
        let clock = &worker.io.clock;
        let mut link = shared.mux.connection();
        let h3 = link.h3();
        let may_end = *served > 0 && !h3.is_leaving();
        if worker.io.is_draining() || line.is_leaving() || may_end && worker.ends_connections() {
            h3.drain();
        }
        if h3.is_leaving() && clock.is_past(*leaves.get_or_insert_with(|| clock.deadline(LEAVE))) {
            h3.leave();
        }
    }

    /// When the connection is to be looked at again for its end. It ends in two steps: the client is told that no request is served any
    /// more (RFC 9114 section 5.2), and has a moment to read what has come, and to close itself.
    fn last_moment(&mut self) -> CoarseInstant {
        let until = self.idle_until();
        let Connection { shared, lingers, .. } = self;
        let Shared { worker, mux, .. } = &**shared;
        let clock = &worker.io.clock;
        let mut link = mux.connection();
        let is_over = link.h3().is_over() && link.h3().is_flushed() && link.is_acknowledged();
        if until == CoarseInstant::NEVER || !is_over && !clock.is_past(until) {
            *lingers = None;
            return until;
        }
        if lingers.is_none() {
            link.h3().leave();
            drop(link);
            mux.wake_driver();
        }
        *lingers.get_or_insert_with(|| clock.deadline(LINGER))
    }

    /// Until when a client without a request is waited for; never where it has one.
    fn idle_until(&mut self) -> CoarseInstant {
        let Connection { shared, idle, heard, grace, .. } = self;
        let Shared { worker, mux, .. } = &**shared;
        let io = &worker.io;
        if mux.handles() > 0 {
            *idle = None;
            return CoarseInstant::NEVER;
        }
        let begun = || io.clock.deadline(worker.snapshot().timeouts.idle);
        let until = *idle.get_or_insert_with(begun);
        let mut link = mux.connection();
        if link.is_acknowledged() {
            return until.min(io.idle_until(*grace));
        }
        // It has its responses only once it has received them: a drain waits for that as well.
        let count = link.acknowledgements();
        if count != heard.0 {
            *heard = (count, io.clock.deadline(PATIENCE));
        }
        until.min(io.idle_until(*grace).max(heard.1))
    }
}

/// Until when the heads of requests that have begun must be whole.
#[derive(Default)]
struct HeadDeadlines {
    /// Requests up to each of these, in their order.
    until: VecDeque<(StreamId, CoarseInstant)>,
    /// The last request that was looked at.
    seen: Option<StreamId>,
}

impl HeadDeadlines {
    /// Refuses the requests whose time is over. The other ones have nothing to do with them (RFC 9114 section 4.1.1). When to look again.
    fn next(&mut self, shared: &H3Shared) -> Result<CoarseInstant, Fatal> {
        let Shared { worker, mux, .. } = shared;
        let clock = &worker.io.clock;
        let mut link = mux.connection();
        self.note(link.newest(), || clock.deadline(worker.snapshot().timeouts.head));
        loop {
            let Some(oldest) = link.h3().oldest_headless() else {
                self.until.clear();
                return Ok(CoarseInstant::NEVER);
            };
            let until = self.of(oldest);
            if !clock.is_past(until) {
                return Ok(until);
            }
            worker.cells().count_failure(Kind::HeadTimeout.into());
            link.reject(oldest)?;
            mux.wake_driver();
        }
    }

    /// Those that have begun since the last look begin now.
    fn note(&mut self, newest: Option<StreamId>, deadline: impl FnOnce() -> CoarseInstant) {
        let Some(newest) = newest.filter(|_| newest != self.seen) else { return };
        self.seen = Some(newest);
        let deadline = deadline();
        match self.until.back_mut() {
            // The clock ticks seldom: there are no more of these than it ticks until the first is over.
            Some(last) if last.1 == deadline => last.0 = newest,
            _ => self.until.push_back((newest, deadline)),
        }
    }

    fn of(&mut self, stream: StreamId) -> CoarseInstant {
        while let Some((last, until)) = self.until.front() {
            if stream.number() <= last.number() {
                return *until;
            }
            self.until.pop_front();
        }
        CoarseInstant::NEVER
    }
}

/// Counts what has happened below HTTP/3.
fn count(worker: &Worker, LineFigures { lost, migrations }: LineFigures) {
    if lost + migrations > 0 {
        worker.cells().quic_lost.add(lost);
        worker.cells().quic_migrations.add(migrations);
    }
}

fn on_event(event: &Event, shared: &Rc<H3Shared>, served: &mut u32) {
    match *event {
        Event::Request { stream, start } => begin(shared, served, stream, Ok(start)),
        Event::Refused { stream, fault } => begin(shared, served, stream, Err(refused(fault))),
        Event::Reset { fault: Some(fault), .. } => {
            shared.worker.cells().count_failure(refused(fault));
        }
        _ => {}
    }
}
