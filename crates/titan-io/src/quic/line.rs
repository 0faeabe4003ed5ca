//! One connection in the hands of its driver: reads what has come, sends what waits, in time.

use super::audit::{Audit, LineFigures};
use super::endpoint::Accepted;
use super::link::Link;
use crate::clock::{Clock, CoarseInstant};
use crate::mux::Mux;
use quinn_proto::Transmit;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use titan_h3::{Code, Event, Fatal};
use tokio::time::{Sleep, sleep_until};

/// A connection that moves.
pub struct Line {
    accepted: Accepted,
    timer: Pin<Box<Sleep>>,
    /// When the timer wakes.
    wakes: Instant,
    /// What the kernel has not taken.
    unsent: Option<(Transmit, Vec<u8>)>,
    /// When the peer was last forgiven.
    calmed: Option<CoarseInstant>,
    audit: Audit,
    /// Whether the peer is charged for what it costs below HTTP/3. An endpoint was chosen, a client comes by itself.
    is_charged: bool,
    figures: LineFigures,
}

/// Why nothing more moves on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// The peer has closed it, or is gone, or broke a rule of QUIC itself.
    Gone,
    /// The peer broke a rule, and is told.
    Broken(Fatal),
}

/// How often a peer is forgiven what it was charged for.
const CALM: Duration = Duration::from_secs(1);
/// Datagrams in one call: as many as the kernel takes, but a burst of them is a loss on most paths.
const SEGMENTS: usize = 32;
/// Requests that are begun in a row: what was made for them is still in the cache when their tasks run.
const BURST: usize = 16;
/// Calls, before others have their turn.
const CALLS: usize = 16;

impl Line {
    /// One of a client, whose handshake has begun.
    pub fn new(accepted: Accepted) -> Line {
        Line::of(accepted, true)
    }

    /// One that this side has begun.
    pub(super) fn client(begun: Accepted) -> Line {
        Line::of(begun, false)
    }

    fn of(accepted: Accepted, is_charged: bool) -> Line {
        let wakes = Instant::now();
        let timer = Box::pin(sleep_until(wakes.into()));
        let audit = Audit::new(accepted.mux.connection().quic.remote_address());
        Line {
            accepted,
            timer,
            wakes,
            unsent: None,
            calmed: None,
            audit,
            is_charged,
            figures: LineFigures::default(),
        }
    }

    /// The connection, for those who serve its streams.
    pub fn mux(&self) -> &Rc<Mux<Link>> {
        &self.accepted.mux
    }

    /// Waits until the handshake is complete, or early data has come; nothing is read of that, or of what comes behind. False where the
    /// handshake has failed.
    pub fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.accepted.mux.set_driver(cx);
        loop {
            let now = self.on_time();
            let is_connected = self.accepted.mux.connection().hold_handshake();
            self.tell_endpoint();
            self.send(cx, now);
            if is_connected || self.accepted.mux.connection().lost.is_some() {
                return Poll::Ready(is_connected);
            }
            if self.rests(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Moves what can be moved in both directions; `on_event` gets what no stream takes. Ready only when nothing more will move: then the
    /// peer is still to be told, by [`Line::poll_drained`].
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        mut on_event: impl FnMut(Event),
    ) -> Poll<LineEnd> {
        self.accepted.mux.set_driver(cx);
        let mut judged = self.calm(clock);
        loop {
            let now = self.on_time();
            let fed =
                std::mem::replace(&mut judged, Ok(())).and_then(|()| self.feed(&mut on_event));
            match fed {
                Ok(true) => {}
                Ok(false) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Err(fatal) => {
                    self.accepted.mux.connection().close(fatal.code, fatal.why);
                    return Poll::Ready(LineEnd::Broken(fatal));
                }
            }
            self.accepted.mux.flush();
            self.tell_endpoint();
            self.send(cx, now);
            if self.accepted.mux.connection().lost.is_some() {
                return Poll::Ready(LineEnd::Gone);
            }
            if self.rests(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Whether it is to end in good order, with all others at its socket.
    pub fn is_leaving(&self) -> bool {
        self.accepted.endpoint.is_closed()
    }

    /// Ends the connection; nothing happens where it has ended.
    pub fn close(&mut self, code: Code) {
        self.accepted.mux.connection().close(code, "");
    }

    /// Ends the connection, and tells the peer once.
    pub(super) fn say_goodbye(&mut self, cx: &mut Context<'_>, code: Code) {
        self.close(code);
        self.send(cx, Instant::now());
    }

    /// Sends the last word until the peer must have heard it (RFC 9000 section 10.2). One that has had the last word itself is not waited
    /// for.
    pub fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.accepted.mux.set_driver(cx);
        loop {
            let now = self.on_time();
            let mut connection = self.accepted.mux.connection();
            while connection.quic.poll().is_some() {}
            drop(connection);
            self.tell_endpoint();
            self.send(cx, now);
            if self.accepted.mux.connection().is_left() {
                return Poll::Ready(());
            }
            if self.rests(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Hands on what has come. False where there may be more than is handed on at once.
    fn feed(&self, on_event: &mut impl FnMut(Event)) -> Result<bool, Fatal> {
        for _ in 0..BURST {
            let Some(event) = self.accepted.mux.next()? else { return Ok(true) };
            on_event(event);
        }
        Ok(false)
    }

    /// Lets the connection do what is due. What time it is.
    fn on_time(&self) -> Instant {
        let now = Instant::now();
        let quic = &mut self.accepted.mux.connection().quic;
        if quic.poll_timeout().is_some_and(|due| due <= now) {
            quic.handle_timeout(now);
        }
        now
    }

    fn tell_endpoint(&mut self) {
        let mut connection = self.accepted.mux.connection();
        while let Some(event) = connection.quic.poll_endpoint_events() {
            connection.is_drained |= event.is_drained();
            if let Some(event) = self.accepted.endpoint.handle(self.accepted.handle, event) {
                connection.quic.handle_event(event);
            }
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, now: Instant) {
        if let Some((transmit, bytes)) = &self.unsent {
            if !self.accepted.endpoint.socket.send(transmit, bytes) {
                return self.accepted.endpoint.await_room(&self.accepted.mux);
            }
            self.unsent = None;
        }
        let most = self.accepted.endpoint.socket.most_segments().min(SEGMENTS);
        let mut out = self.accepted.endpoint.out();
        for _ in 0..CALLS {
            out.clear();
            let transmit = self.accepted.mux.connection().quic.poll_transmit(now, most, &mut out);
            let Some(transmit) = transmit else { return };
            if !self.accepted.endpoint.socket.send(&transmit, &out) {
                self.unsent = Some((transmit, out.clone()));
                return self.accepted.endpoint.await_room(&self.accepted.mux);
            }
        }
        cx.waker().wake_by_ref();
    }

    /// Sets the timer. Whether nothing is due.
    fn rests(&mut self, cx: &mut Context<'_>) -> bool {
        let due = self.accepted.mux.connection().quic.poll_timeout();
        let Some(due) = due else { return true };
        // One that wakes too early is set anew then: most are put off again and again.
        if due < self.wakes || self.timer.is_elapsed() {
            self.wakes = due;
            self.timer.as_mut().reset(due.into());
        }
        match self.timer.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(()) if Instant::now() < due => {
                self.wakes = due;
                self.timer.as_mut().reset(due.into());
                self.timer.as_mut().poll(cx).is_pending()
            }
            Poll::Ready(()) => false,
        }
    }

    /// What has happened since it was asked last, as far as it is known: that is looked at once in a second.
    pub fn take_figures(&mut self) -> LineFigures {
        std::mem::take(&mut self.figures)
    }

    /// The same up to now.
    pub fn last_figures(&mut self) -> LineFigures {
        let connection = self.accepted.mux.connection();
        self.audit.look(&connection, &mut self.figures);
        std::mem::take(&mut self.figures)
    }

    /// How long packets take to the peer and back.
    pub fn round_trip(&self) -> Duration {
        self.accepted.mux.connection().quic.rtt()
    }

    /// Has the peer say that it is still there: for one that waits for a response, and hears nothing for long.
    pub fn ping(&self) {
        self.accepted.mux.connection().quic.ping();
    }

    /// Once in a second: forgives, and charges for what has come below HTTP/3.
    fn calm(&mut self, clock: &Clock) -> Result<(), Fatal> {
        let now = clock.now();
        let gone_by = now.since(*self.calmed.get_or_insert(now));
        if gone_by < CALM {
            return Ok(());
        }
        self.calmed = Some(now);
        let seconds = u32::try_from(gone_by.as_secs()).unwrap_or(u32::MAX);
        let mut connection = self.accepted.mux.connection();
        connection.h3().calm(seconds);
        let cost = self.audit.look(&connection, &mut self.figures);
        if self.is_charged { connection.h3().charge(cost) } else { Ok(()) }
    }
}
