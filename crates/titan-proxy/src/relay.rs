//! Moving a body from one side to the other: back-pressure, stalls, minimum rate.
//!
//! A [`Pump`] holds no octets. It reads only when the other side has taken what was read before, so
//! that what an exchange keeps in memory is bounded by one receive buffer and one send buffer.

mod read_ahead;
mod turn;

pub(crate) use read_ahead::{Lender, ReadAhead, Rest};
pub(crate) use turn::Turn;

use crate::clock::{Clock, Moment};
use crate::downstream::RequestBody;
use crate::error::{Error, Kind, Side};
use crate::splice::{Pipes, Splice, WORTH_IT};
use crate::stream::{ReadHalf, WriteHalf};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use titan_http::Fields;

/// Where a body comes from.
pub(crate) trait BodySource {
    /// Waits until there is data or the body is done.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>>;
    /// The octets of the body that have arrived and were not consumed.
    fn data(&self) -> &[u8];
    /// Takes the first `count` octets of the data out.
    fn consume(&mut self, count: usize);
    /// Says whether what is consumed from now on goes into memory, for a sink that is slow. Whoever lets its peer send
    /// faster as more is consumed must not do so then.
    fn set_ahead(&mut self, is_ahead: bool) {
        let _ = is_ahead;
    }
    /// Whether the whole body was consumed.
    fn is_done(&self) -> bool;
    /// Whether the data is the end of the message: nothing comes after it, no trailers either.
    fn is_last(&self) -> bool;
    /// The trailer fields; complete once the body is done.
    fn trailers(&self) -> &Fields;
    /// From now on everything that comes belongs to a tunnel, until that side of it ends.
    fn open_tunnel(&mut self) {}
    /// What shows that the source goes on: octets that came from it, of which `taken` were taken. TLS gives
    /// none of a record before it is whole, which a slow source may take long for.
    fn arrived(&self, taken: u64) -> u64 {
        taken
    }
    /// The socket, and how many octets are still to come from it, when all that was read is consumed
    /// and what comes is body and nothing else.
    fn socket(&self) -> Option<(&ReadHalf<'_>, u64)> {
        None
    }
    /// The file in which what comes next stands, when all that was read is consumed.
    fn file(&self) -> Option<FilePart<'_>> {
        None
    }
    /// Notes that so many octets went from the socket, or the file, to another socket.
    fn skip(&mut self, count: usize) -> Result<(), Error> {
        let _ = count;
        Ok(())
    }
}

/// Octets in a file that are body and nothing else.
pub(crate) struct FilePart<'f> {
    pub(crate) file: BorrowedFd<'f>,
    pub(crate) offset: u64,
    /// How many may go at a time.
    pub(crate) count: usize,
}

/// Where a body goes to.
pub(crate) trait BodySink {
    /// Takes some of `data`; tells how many octets. What was taken may still wait for a flush. With `is_last`
    /// the message ends with it, which can be said at the same time.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        is_last: bool,
    ) -> Poll<Result<usize, Error>>;
    /// Hands everything taken so far to the peer.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>>;
    /// Ends the message and flushes it.
    fn poll_end(&mut self, cx: &mut Context<'_>, trailers: &Fields) -> Poll<Result<(), Error>>;
    /// From now on everything that goes belongs to a tunnel, whose end closes this direction.
    fn open_tunnel(&mut self) {}
    /// Octets that the kernel has taken, heads and framing among them.
    fn written(&self) -> u64;
    /// Has calls write until the kernel takes no more, even if nothing says that the peer has room.
    fn insist(&mut self);
    /// The socket, when nothing waits to be written and the body goes out as it is.
    fn socket(&self) -> Option<&WriteHalf<'_>> {
        None
    }
    /// Notes what came of writing to the socket directly.
    fn wrote(&mut self, result: io::Result<usize>) -> Result<(), Error> {
        let _ = result;
        Ok(())
    }
}

/// Moves one body, and knows who keeps it waiting.
pub(crate) struct Pump {
    patience: Patience,
    taken: u64,
    waiting: Waiting,
    /// Whether the sink was asked to try again although it had not said that it could.
    insisted: bool,
    deadline: Moment,
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
pub(crate) struct Patience {
    /// For the next octets of the body.
    pub(crate) source: Duration,
    /// For the other side to take some.
    pub(crate) sink: Duration,
    /// What the source has to bring in each second, averaged over [`WINDOW`]; 0 for anything.
    pub(crate) source_rate: u64,
    /// What the sink has to take in each second, where it takes something; 0 for anything.
    pub(crate) sink_rate: u64,
}

/// Why a pump stopped before the end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
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
    pub(crate) fn of_request(self) -> Error {
        match self {
            Stop::Source(error) | Stop::Sink(error) => error,
            Stop::SourceStalled => Kind::BodyTimeout.into(),
            Stop::SourceTooSlow => Kind::BodyTooSlow.into(),
            Stop::SinkStalled | Stop::SinkTooSlow => Kind::ResponseTimeout.into(),
        }
    }

    /// What it means for the exchange when an answer stops.
    pub(crate) fn of_answer(self) -> Error {
        match self {
            Stop::Source(error) | Stop::Sink(error) => error,
            Stop::SourceStalled | Stop::SourceTooSlow => Kind::ResponseStalled.into(),
            Stop::SinkStalled => Kind::ClientStalled.into(),
            Stop::SinkTooSlow => Kind::ClientTooSlow.into(),
        }
    }
}

/// How long a slow side is watched before it is judged.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// Who keeps the pump waiting, and how far things were when that began.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Nobody,
    Source { arrived: u64 },
    Sink { written: u64 },
}

/// The time over which the rate of one side is measured. It starts anew whenever the other side is slow.
#[derive(Clone, Copy, Default)]
struct Window {
    started: Option<Moment>,
    /// How far things were when it started.
    moved: u64,
}

impl Pump {
    /// A pump that has moved nothing yet.
    pub(crate) fn new(patience: Patience) -> Pump {
        let (waiting, deadline) = (Waiting::Nobody, Moment::NEVER);
        let (pipes, splice) = (None, None);
        Pump {
            patience,
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
    pub(crate) fn with_pipes(self, pipes: &Rc<Pipes>) -> Pump {
        Pump { pipes: Some(Rc::clone(pipes)), ..self }
    }

    /// Whether the whole message was handed over.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the other side keeps it waiting.
    pub(crate) fn awaits_sink(&self) -> bool {
        matches!(self.waiting, Waiting::Sink { .. })
    }

    /// How many octets of the body were taken out of the source: they can be had from nowhere else.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// When the pump wants to be asked again although nothing happened.
    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Moves what can be moved. Ready when the whole message has been handed over.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        from: &mut impl BodySource,
        to: &mut impl BodySink,
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
        self.deadline = Moment::NEVER;
        Poll::Ready(Ok(()))
    }

    /// Waits until so much of the body is there, or all of it, as long as it comes fast enough.
    pub(crate) fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        from: &mut impl RequestBody,
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

    /// One move; tells who is in the way of the next one.
    fn step(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl BodySource,
        to: &mut impl BodySink,
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

    /// Whether the next octets go from socket to socket.
    fn bypasses(&mut self, from: &impl BodySource, to: &impl BodySink) -> bool {
        if self.splice.is_some() {
            return true;
        }
        let is_large = from.socket().is_some_and(|(_, rest)| rest >= WORTH_IT);
        if let Some(pipes) = self.pipes.as_ref().filter(|_| is_large && to.socket().is_some()) {
            self.splice = pipes.take();
        }
        self.splice.is_some()
    }

    /// One move through the pipe. The last octets take the usual way, which knows how a body ends.
    fn step_aside(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl BodySource,
        to: &mut impl BodySink,
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
        from: &mut impl BodySource,
        to: &mut impl BodySink,
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

    /// Notes who is waited for, and says whether that has lasted too long.
    fn wait(&mut self, clock: &Clock, blocked: Waiting, arrived: u64) -> Result<(), Stop> {
        let (patience, stalled) = match blocked {
            Waiting::Sink { .. } => (self.patience.sink, Stop::SinkStalled),
            Waiting::Source { .. } | Waiting::Nobody => (self.patience.source, Stop::SourceStalled),
        };
        if self.waiting != blocked {
            (self.waiting, self.insisted) = (blocked, false);
            self.deadline = clock.deadline(patience);
        } else if clock.is_past(self.deadline) {
            return Err(stalled);
        }
        let Patience { source_rate, sink_rate, .. } = self.patience;
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

/// A body that is in memory as a whole.
pub(crate) struct Text<'t> {
    rest: &'t [u8],
    no_fields: Fields,
}

impl<'t> Text<'t> {
    /// A body of those octets.
    pub(crate) fn new(text: &'t [u8]) -> Text<'t> {
        Text { rest: text, no_fields: Fields::default() }
    }
}

impl BodySource for Text<'_> {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.rest
    }

    fn consume(&mut self, count: usize) {
        self.rest = &self.rest[count..];
    }

    fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn is_last(&self) -> bool {
        true
    }

    fn trailers(&self) -> &Fields {
        &self.no_fields
    }
}

#[cfg(test)]
mod tests;
