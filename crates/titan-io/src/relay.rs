//! Moving a body from one side to the other: back-pressure, stalls, minimum rate.
//!
//! A [`Pump`] holds no bytes. It reads only when the other side has taken what was read before, so
//! that what an exchange keeps in memory is bounded by one receive buffer and one send buffer.

mod read_ahead;
mod turn;
mod two_way;

pub use read_ahead::{ReadAhead, ReadAheadBudget, Rest};
pub use turn::Turn;
pub use two_way::TwoWay;

use crate::body::{BodySink, BodySource, RequestBody};
use crate::clock::{Clock, CoarseInstant};
use crate::error::{Error, Kind, Side};
use crate::splice::{Pipes, Splice, WORTH_IT};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Moves one body, and knows which side it waits for.
pub struct Pump {
    limits: StallLimits,
    taken: u64,
    waiting: Waiting,
    /// Whether the sink was asked to try again although it had not said that it could.
    insisted: bool,
    deadline: CoarseInstant,
    arriving: Window,
    leaving: Window,
    pipes: Option<Rc<Pipes>>,
    splice: Option<Splice>,
    /// Whether files have to be read: some file systems let nothing go from them to a socket.
    reads_files: bool,
    /// How the source has failed: told once the sink has handed over what came before that.
    broken: Option<Error>,
    done: bool,
}

/// How long a pump waits for either side.
#[derive(Clone, Copy, Debug)]
pub struct StallLimits {
    /// For the next bytes of the body.
    pub source: Duration,
    /// For the other side to take some.
    pub sink: Duration,
    /// What the source has to bring in each second, averaged over [`WINDOW`]; 0 for anything.
    pub source_rate: u64,
    /// What the sink has to take in each second, where it takes something; 0 for anything.
    pub sink_rate: u64,
}

impl StallLimits {
    /// No limits, for what is watched over as a whole.
    pub const UNLIMITED: StallLimits =
        StallLimits { source: Duration::MAX, sink: Duration::MAX, source_rate: 0, sink_rate: 0 };
}

/// Why a pump stopped before the end.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// The body could not be read.
    Source(Error),
    /// The body could not be written.
    Sink(Error),
    /// Nothing came for too long.
    SourceStalled,
    /// It comes more slowly than the minimum rate.
    SourceTooSlow,
    /// Nothing was taken for too long.
    SinkStalled,
    /// It is taken more slowly than the minimum rate.
    SinkTooSlow,
}

impl Stop {
    /// What it means for the exchange when a request stops.
    pub fn of_request(self) -> Error {
        match self {
            Stop::Source(error) | Stop::Sink(error) => error,
            Stop::SourceStalled => Kind::BodyTimeout.into(),
            Stop::SourceTooSlow => Kind::BodyTooSlow.into(),
            Stop::SinkStalled | Stop::SinkTooSlow => Kind::ResponseTimeout.into(),
        }
    }

    /// The error of the exchange when a response stops.
    pub fn of_response(self) -> Error {
        match self {
            Stop::Source(error) | Stop::Sink(error) => error,
            Stop::SourceStalled | Stop::SourceTooSlow => Kind::ResponseStalled.into(),
            Stop::SinkStalled => Kind::ClientStalled.into(),
            Stop::SinkTooSlow => Kind::ClientTooSlow.into(),
        }
    }
}

/// How long a slow side is watched before it is judged.
pub const WINDOW: Duration = Duration::from_secs(10);

/// Which side the pump waits for, and how far things were when the wait began.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Nobody,
    Source { arrived: u64 },
    Sink { written: u64 },
}

/// The time over which the rate of one side is measured. It starts anew whenever the other side is slow.
#[derive(Clone, Copy, Default)]
struct Window {
    started: Option<CoarseInstant>,
    /// How far things were when it started.
    moved: u64,
}

impl Pump {
    /// A pump that has moved nothing yet.
    pub fn new(limits: StallLimits) -> Pump {
        let (waiting, deadline) = (Waiting::Nobody, CoarseInstant::NEVER);
        let (pipes, splice) = (None, None);
        Pump {
            limits,
            taken: 0,
            waiting,
            insisted: false,
            deadline,
            arriving: Window::default(),
            leaving: Window::default(),
            pipes,
            splice,
            reads_files: false,
            broken: None,
            done: false,
        }
    }

    /// The same pump, which may let a large body bypass this process.
    pub fn with_pipes(self, pipes: &Rc<Pipes>) -> Pump {
        Pump { pipes: Some(Rc::clone(pipes)), ..self }
    }

    /// Whether the whole message was handed over.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the other side keeps it waiting.
    pub fn awaits_sink(&self) -> bool {
        matches!(self.waiting, Waiting::Sink { .. })
    }

    /// How many bytes of the body were taken out of the source: they can be had from nowhere else.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// When the pump wants to be asked again although nothing happened.
    pub fn deadline(&self) -> CoarseInstant {
        self.deadline
    }

    /// Moves what can be moved. Ready when the whole message has been handed over.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        from: &mut (impl BodySource + ?Sized),
        to: &mut (impl BodySink + ?Sized),
    ) -> Poll<Result<(), Stop>> {
        while !self.done {
            let blocked = match self.step(cx, from, to) {
                Ok(None) => continue,
                Ok(Some(blocked)) => blocked,
                Err(stop) => return Poll::Ready(Err(stop)),
            };
            match self.wait(clock, blocked, from.arrived(self.taken)) {
                Ok(()) => return Poll::Pending,
                // One that takes less than makes the kernel report room is slow, and not gone.
                Err(Stop::SinkStalled) if !self.insisted => to.insist(),
                Err(stop) => return Poll::Ready(Err(stop)),
            }
            self.insisted = true;
        }
        self.deadline = CoarseInstant::NEVER;
        Poll::Ready(Ok(()))
    }

    /// Waits until that much of the body is there, or all of it, as long as it comes fast enough.
    pub fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        from: &mut (impl RequestBody + ?Sized),
        wanted: usize,
    ) -> Poll<Result<(), Stop>> {
        match from.poll_ahead(cx, wanted) {
            Poll::Ready(result) => Poll::Ready(result.map_err(Stop::Source)),
            Poll::Pending => {
                let arrived = from.arrived(from.ahead() as u64);
                let waited = self.wait(clock, Waiting::Source { arrived }, arrived);
                waited.map_or_else(|stop| Poll::Ready(Err(stop)), |()| Poll::Pending)
            }
        }
    }

    /// One move; returns which side the next one waits for.
    fn step(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl BodySource + ?Sized),
        to: &mut (impl BodySink + ?Sized),
    ) -> Result<Option<Waiting>, Stop> {
        if let Some(error) = self.broken {
            return match to.poll_flush(cx) {
                Poll::Pending => Ok(Some(Waiting::Sink { written: to.written() })),
                Poll::Ready(_) => Err(Stop::Source(error)),
            };
        }
        if self.bypasses(from, to) {
            return self.step_aside(cx, from, to);
        }
        if from.file().is_some() && to.socket().is_some() && !self.reads_files {
            return self.step_from_file(cx, from, to);
        }
        if from.data().is_empty() && !from.is_done() {
            match from.poll_data(cx) {
                // An upstream has no use for the beginning of a request whose client has gone.
                Poll::Ready(Err(error)) if error.side != Side::Downstream => {
                    self.broken = Some(error);
                    return Ok(None);
                }
                Poll::Ready(result) => result.map_err(Stop::Source)?,
                // What was taken must not wait for what has not come.
                Poll::Pending => match to.poll_flush(cx).map_err(Stop::Sink)? {
                    Poll::Ready(()) => {
                        return Ok(Some(Waiting::Source { arrived: from.arrived(self.taken) }));
                    }
                    Poll::Pending => return Ok(Some(Waiting::Sink { written: to.written() })),
                },
            }
        }
        if !from.data().is_empty() {
            let sent = to.poll_send(cx, from.data(), from.is_last());
            let Poll::Ready(count) = sent.map_err(Stop::Sink)? else {
                return Ok(Some(Waiting::Sink { written: to.written() }));
            };
            from.consume(count);
            self.taken += count as u64;
        } else if from.is_done() {
            let Poll::Ready(()) = to.poll_end(cx, from.trailers()).map_err(Stop::Sink)? else {
                return Ok(Some(Waiting::Sink { written: to.written() }));
            };
            self.done = true;
        }
        Ok(None)
    }

    /// Whether the next bytes go from socket to socket.
    fn bypasses(
        &mut self,
        from: &(impl BodySource + ?Sized),
        to: &(impl BodySink + ?Sized),
    ) -> bool {
        if self.splice.is_some() {
            return true;
        }
        let is_large = from.socket().is_some_and(|(_, rest)| rest >= WORTH_IT);
        if let Some(pipes) = self.pipes.as_ref().filter(|_| is_large && to.socket().is_some()) {
            self.splice = pipes.take();
        }
        self.splice.is_some()
    }

    /// One move through the pipe. The last bytes take the usual way, which knows how a body ends.
    fn step_aside(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl BodySource + ?Sized),
        to: &mut (impl BodySink + ?Sized),
    ) -> Result<Option<Waiting>, Stop> {
        let splice = self.splice.as_mut().expect("bypasses() has one");
        let (Some(writer), source) = (to.socket(), from.socket()) else {
            unreachable!("nothing was queued since bypasses() looked");
        };
        if splice.is_holding() {
            let Poll::Ready(result) = splice.poll_out(cx, writer) else {
                return Ok(Some(Waiting::Sink { written: to.written() }));
            };
            return to.wrote(result).map(|()| None).map_err(Stop::Sink);
        }
        let Some((reader, rest)) = source else {
            self.splice = None;
            return Ok(None);
        };
        match splice.poll_in(cx, reader, rest) {
            Poll::Pending => Ok(Some(Waiting::Source { arrived: self.taken })),
            Poll::Ready(Ok(count)) if count > 0 => {
                self.taken += count as u64;
                from.skip(count).map(|()| None).map_err(Stop::Source)
            }
            // The end of the stream, or an error: the usual way meets it again and says what it means.
            Poll::Ready(_) => {
                (self.splice, self.pipes) = (None, None);
                Ok(None)
            }
        }
    }

    /// One move from a file to a socket.
    fn step_from_file(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl BodySource + ?Sized),
        to: &mut (impl BodySink + ?Sized),
    ) -> Result<Option<Waiting>, Stop> {
        let (Some(part), Some(writer)) = (from.file(), to.socket()) else {
            unreachable!("nothing was queued since step() looked");
        };
        let Poll::Ready(sent) = writer.poll_send_file(cx, &part) else {
            return Ok(Some(Waiting::Sink { written: to.written() }));
        };
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
            self.reads_files = true;
            return Ok(None);
        }
        let count = *sent.as_ref().unwrap_or(&0);
        to.wrote(sent).map_err(Stop::Sink)?;
        self.taken += count as u64;
        from.skip(count).map(|()| None).map_err(Stop::Source)
    }

    /// Notes which side is waited for, and returns whether that has lasted too long.
    fn wait(&mut self, clock: &Clock, blocked: Waiting, arrived: u64) -> Result<(), Stop> {
        let (timeout, stalled) = match blocked {
            Waiting::Sink { .. } => (self.limits.sink, Stop::SinkStalled),
            Waiting::Source { .. } | Waiting::Nobody => (self.limits.source, Stop::SourceStalled),
        };
        if self.waiting != blocked {
            (self.waiting, self.insisted) = (blocked, false);
            self.deadline = clock.deadline(timeout);
        } else if clock.is_past(self.deadline) {
            return Err(stalled);
        }
        let StallLimits { source_rate, sink_rate, .. } = self.limits;
        match blocked {
            Waiting::Source { .. } | Waiting::Nobody => {
                self.leaving.started = None;
                let is_kept = self.arriving.is_rate_kept(clock, arrived, source_rate);
                if is_kept { Ok(()) } else { Err(Stop::SourceTooSlow) }
            }
            Waiting::Sink { written } => {
                self.arriving = Window { started: Some(clock.now()), moved: arrived };
                // How long it may take nothing at all is said by `sink`.
                let has_moved = self.leaving.started.is_none() || self.leaving.moved != written;
                let is_kept = !has_moved || self.leaving.is_rate_kept(clock, written, sink_rate);
                if is_kept { Ok(()) } else { Err(Stop::SinkTooSlow) }
            }
        }
    }
}

impl Window {
    /// Whether the side that is waited for, which has moved so much in all, moves `rate` in each second.
    fn is_rate_kept(&mut self, clock: &Clock, moved: u64, rate: u64) -> bool {
        let now = clock.now();
        let elapsed = self.started.map(|started| now.since(started));
        if elapsed.is_some_and(|elapsed| elapsed < WINDOW) {
            return true;
        }
        let wanted = elapsed.map_or(0, |elapsed| rate.saturating_mul(elapsed.as_secs()));
        let is_kept = moved - self.moved >= wanted;
        *self = Window { started: Some(now), moved };
        is_kept
    }
}

#[cfg(test)]
mod tests;
