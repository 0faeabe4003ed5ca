//! The socket of an HTTP/2 connection: passes on what arrives, writes what waits.

use super::Mux;
use crate::buffer::{Buffers, LARGE, SMALL};
use crate::clock::{Clock, CoarseInstant};
use crate::stream::{Inbox, Stream};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use titan_h2::{Connection, Event, Fatal};

/// How often a peer is forgiven what it was charged for.
const CALM: Duration = Duration::from_secs(1);

/// A connection on its socket, in the hands of its driver.
pub struct Wire<'c> {
    /// The state of the connection.
    pub mux: &'c Mux<Connection>,
    /// The socket.
    pub stream: &'c mut Stream,
    /// What has come and was not used yet.
    pub inbox: &'c mut Inbox,
    /// Receive buffers.
    pub buffers: &'c Rc<Buffers>,
    /// Time.
    pub clock: &'c Clock,
    /// How long the peer may take nothing of what waits for it.
    pub timeout: Duration,
    /// How far writing has come.
    pub progress: &'c mut Progress,
}

/// How far things have come, from one look to the next.
pub struct Progress {
    /// Until when the peer must have taken some of what waits for it, where something does.
    stalled: Option<CoarseInstant>,
    /// When the peer was last forgiven.
    calmed: CoarseInstant,
    /// When something last came from the peer.
    heard: CoarseInstant,
}

/// Why nothing more moves on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireEnd {
    /// The peer has gone, or takes nothing.
    Gone,
    /// The peer broke a rule, and has been told.
    Broken,
}

impl Progress {
    /// Nothing has moved yet.
    pub fn new(clock: &Clock) -> Progress {
        Progress { stalled: None, calmed: clock.now(), heard: clock.now() }
    }

    /// Whether everything that was to be written is written.
    pub fn is_flushed(&self) -> bool {
        self.stalled.is_none()
    }

    /// When something last came from the peer.
    pub fn heard(&self) -> CoarseInstant {
        self.heard
    }

    /// When to look again although nothing happened.
    pub fn deadline(&self) -> CoarseInstant {
        self.stalled.unwrap_or(CoarseInstant::NEVER)
    }
}

impl Wire<'_> {
    /// Moves what can be moved in both directions; `on_event` gets what no stream takes. Ready only when
    /// nothing more will move.
    pub fn poll(&mut self, cx: &mut Context<'_>, mut on_event: impl FnMut(Event)) -> Poll<WireEnd> {
        self.mux.set_driver(cx);
        self.calm();
        loop {
            // A peer that has sent its last word and reset the connection takes nothing more; what it said counts.
            let is_broken = self.write(cx).is_err();
            if !is_broken && self.mux.connection().is_clogged() {
                break;
            }
            // What has come before may be whole frames, and what they lead to goes out before anything is waited for.
            match self.feed(&mut on_event) {
                Ok(false) => {}
                Ok(true) => continue,
                Err(_) if self.write(cx).is_ok() => return Poll::Ready(WireEnd::Broken),
                Err(_) => return Poll::Ready(WireEnd::Gone),
            }
            match self.poll_fill(cx) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Poll::Ready(WireEnd::Gone),
                Poll::Pending if is_broken => return Poll::Ready(WireEnd::Gone),
                Poll::Pending => break,
            }
        }
        self.mux.wake_unblocked();
        match self.clock.is_past(self.progress.deadline()) {
            true => Poll::Ready(WireEnd::Gone),
            false => Poll::Pending,
        }
    }

    /// Writes what waits, as far as the peer takes it.
    pub fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let (_, mut writer) = self.stream.split();
        if self.clock.is_past(self.progress.deadline()) {
            // One that takes less than makes the kernel report room is slow, and not gone.
            writer.insist();
        }
        let mut connection = self.mux.connection();
        let mut has_moved = false;
        let is_blocked = loop {
            let output = connection.output();
            if output.is_empty() {
                break writer.poll_flush(cx)?.is_pending();
            }
            match writer.poll_write(cx, output, &[])? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => connection.written(count),
                Poll::Pending => break true,
            }
            has_moved = true;
        };
        self.progress.stalled = match self.progress.stalled {
            _ if !is_blocked => None,
            Some(until) if !has_moved => Some(until),
            _ => Some(self.clock.deadline(self.timeout)),
        };
        Ok(())
    }

    /// Reads once. Tells how much has come; 0 is the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let (reader, _) = self.stream.split();
        let size = if self.inbox.unread().len() < SMALL / 2 { SMALL } else { LARGE };
        let count = ready!(self.inbox.poll_fill(cx, &reader, self.buffers, size))?;
        self.progress.heard = self.clock.now();
        Poll::Ready(Ok(count))
    }

    /// Hands on what has come. Tells whether that was anything.
    fn feed(&mut self, on_event: &mut impl FnMut(Event)) -> Result<bool, Fatal> {
        let mut has_fed = false;
        loop {
            let (consumed, event) = self.mux.read(self.inbox.unread())?;
            self.inbox.consume(consumed);
            match event {
                Some(event) => on_event(event),
                None if consumed == 0 => return Ok(has_fed),
                None => {}
            }
            has_fed = true;
        }
    }

    fn calm(&mut self) {
        let now = self.clock.now();
        let gone_by = now.since(self.progress.calmed);
        if gone_by >= CALM {
            let seconds = u32::try_from(gone_by.as_secs()).unwrap_or(u32::MAX);
            self.mux.connection().calm(seconds);
            self.progress.calmed = now;
        }
    }
}
