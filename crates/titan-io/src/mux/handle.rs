//! A stream of a connection, and its two directions.

use super::{Farewell, Mux, Protocol, SPARE, Shared, Slot, StreamLoss};
use crate::body::{BodySink, BodySource};
use crate::error::{Error, Kind, Side};
use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_http::stream::{ResponseStart, StreamId};
use titan_http::{Fields, ResponseHead};

/// A stream of a connection, ended when dropped: reset, unless both messages are complete.
pub struct StreamHandle<P: Protocol> {
    pub(super) mux: Rc<Mux<P>>,
    pub(super) stream: StreamId,
    /// What the peer is told if the stream is not complete.
    pub(super) farewell: Cell<Farewell>,
}

/// The direction of a stream that comes from the peer.
pub struct Receiver<P: Protocol> {
    handle: Rc<StreamHandle<P>>,
    /// What was taken from the slot. `start <= chunk.len()`
    chunk: Vec<u8>,
    start: usize,
    trailers: Fields,
    /// Whether everything has been taken from the slot.
    is_whole: bool,
    /// What may still come of the body.
    budget: u64,
    /// Whether what is consumed is kept in memory, and not passed on yet.
    is_ahead: bool,
}

/// The direction of a stream that goes to the peer.
pub struct Sender<P: Protocol> {
    handle: Rc<StreamHandle<P>>,
    /// Bytes that were taken of the body, and of field sections as they are encoded; not the headers of frames.
    written: u64,
    /// Whether the head, other than an interim one, has gone out.
    is_started: bool,
    /// What is missing of a body whose length was declared.
    left: Option<u64>,
    ended: bool,
    /// Whether the peer takes no more now.
    is_waiting: bool,
}

/// How many streams a peer may let stall at the same time before the connection ends.
const STALLS: u32 = 8;
const KEPT: &str = "a handle keeps its slot until it is dropped";

impl<P: Protocol> StreamHandle<P> {
    /// Both directions of the stream.
    pub fn split(self: &Rc<Self>) -> (Receiver<P>, Sender<P>) {
        let receiver = Receiver {
            handle: Rc::clone(self),
            chunk: Vec::new(),
            start: 0,
            trailers: Fields::default(),
            is_whole: false,
            budget: u64::MAX,
            is_ahead: false,
        };
        (
            receiver,
            Sender {
                handle: Rc::clone(self),
                written: 0,
                is_started: false,
                left: None,
                ended: false,
                is_waiting: false,
            },
        )
    }

    /// What to tell the peer if the stream ends before it is complete.
    pub fn set_farewell(&self, farewell: Farewell) {
        self.farewell.set(farewell);
    }

    /// Charges the peer for a stream that was reset because the peer let it wait.
    pub fn charge_for_stall(&self) {
        self.mux.connection().charge_for_stall(STALLS);
        self.mux.wake_driver();
    }

    /// Takes back what the peer was charged for giving the stream up, if it has.
    pub fn forgive_reset(&self) {
        if self.with(|slot| matches!(slot.lost, Some(StreamLoss::Reset))) {
            self.mux.connection().forgive_reset();
        }
    }

    /// Whether the peer, or the connection, has given the stream up.
    pub fn is_lost(&self) -> bool {
        self.with(|slot| slot.lost.is_some())
    }

    /// Waits until the stream is lost.
    pub fn poll_lost(&self, cx: &Context<'_>) -> Poll<()> {
        self.with(|slot| match slot.lost {
            Some(_) => Poll::Ready(()),
            None => {
                slot.wait(cx);
                Poll::Pending
            }
        })
    }

    fn with<R>(&self, look: impl FnOnce(&mut Slot) -> R) -> R {
        let mut shared = self.mux.shared.borrow_mut();
        look(shared.streams.get_mut(&self.stream).expect(KEPT))
    }
}

impl<P: Protocol> Drop for StreamHandle<P> {
    fn drop(&mut self) {
        let mut shared = self.mux.shared.borrow_mut();
        let Some(slot) = shared.streams.remove(&self.stream) else { return };
        shared.connection.reset(self.stream, self.farewell.get());
        shared.connection.release(self.stream, slot.body.len());
        shared.spare(slot.body);
        if shared.streams.is_empty() {
            // A connection that waits keeps no memory for bodies.
            shared.spare.clear();
        }
        drop(shared);
        self.mux.wake_driver();
    }
}

impl<P: Protocol> Receiver<P> {
    /// Whether the end of the body has arrived; data may still wait.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The stream.
    pub fn handle(&self) -> &Rc<StreamHandle<P>> {
        &self.handle
    }

    /// Limits the body to that many bytes.
    pub fn set_limit(&mut self, bytes: u64) {
        self.budget = bytes;
    }

    /// How much has come of the body and was not taken.
    pub fn ahead(&self) -> usize {
        self.chunk.len() - self.start + self.handle.with(|slot| slot.body.len())
    }

    /// How long what was not taken of the body is, where all of it has come.
    pub fn rest(&self) -> Option<usize> {
        let is_whole = self.is_whole || self.handle.with(|slot| slot.is_whole);
        is_whole.then(|| self.ahead())
    }

    /// Waits until that much of the body has come, or all of it; takes nothing.
    pub fn poll_ahead(&self, cx: &Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        let taken = self.chunk.len() - self.start;
        self.handle.with(|slot| match slot.lost {
            _ if slot.is_whole || self.is_whole || taken + slot.body.len() >= wanted => {
                Poll::Ready(Ok(()))
            }
            Some(lost) => Poll::Ready(Err(self.handle.mux.error(lost, true))),
            None => {
                slot.wait(cx);
                Poll::Pending
            }
        })
    }

    /// The trailer fields, to be looked through before they are passed on.
    pub fn trailers_mut(&mut self) -> &mut Fields {
        &mut self.trailers
    }

    /// Waits for the head of the next response.
    pub fn poll_head(
        &mut self,
        cx: &Context<'_>,
        head: &mut ResponseHead,
    ) -> Poll<Result<ResponseStart, Error>> {
        let StreamHandle { mux, stream, .. } = &*self.handle;
        let mut shared = mux.shared.borrow_mut();
        let slot = shared.streams.get_mut(stream).expect(KEPT);
        if let Some(lost @ StreamLoss::Fault(_)) = slot.lost {
            // The head has not been reported, and belongs to an invalid message.
            return Poll::Ready(Err(mux.error(lost, false)));
        }
        if let Some(mut next) = slot.heads.pop_front() {
            std::mem::swap(head, &mut next.0);
            let start = next.1;
            if shared.spare_heads.len() < SPARE {
                shared.spare_heads.push(next);
            }
            return Poll::Ready(Ok(start));
        }
        match slot.lost {
            Some(lost) => Poll::Ready(Err(mux.error(lost, false))),
            None => {
                slot.wait(cx);
                Poll::Pending
            }
        }
    }

    /// Takes what has come, or the end. False when there is nothing.
    fn take(&mut self, cx: &Context<'_>) -> Result<bool, Error> {
        let Receiver { handle, chunk, start, trailers, is_whole, .. } = self;
        handle.with(|slot| {
            if !slot.body.is_empty() {
                std::mem::swap(chunk, &mut slot.body);
                *start = 0;
            }
            // What is complete stays so, whatever becomes of the stream.
            if slot.is_whole {
                *is_whole = true;
                *trailers = slot.trailers.take().unwrap_or_default();
                return Ok(true);
            }
            match slot.lost {
                _ if !chunk.is_empty() => Ok(true),
                Some(lost) => Err(handle.mux.error(lost, true)),
                None => {
                    slot.wait(cx);
                    Ok(false)
                }
            }
        })
    }
}

impl<P: Protocol> BodySource for Receiver<P> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.chunk.is_empty() || self.is_whole {
            return Poll::Ready(Ok(()));
        }
        if !self.take(cx)? {
            return Poll::Pending;
        }
        match self.budget.checked_sub(self.chunk.len() as u64) {
            Some(left) => self.budget = left,
            None => return Poll::Ready(Err(Kind::BodyTooLarge.into())),
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.chunk[self.start..]
    }

    fn consume(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.start += count;
        let StreamHandle { mux, stream, .. } = &*self.handle;
        let mut shared = mux.shared.borrow_mut();
        if self.start == self.chunk.len() {
            self.start = 0;
            self.chunk.clear();
            if self.is_ahead {
                // What it held has other memory now, and more may not come for long.
                shared.spare(std::mem::take(&mut self.chunk));
            }
        }
        match self.is_ahead {
            true => shared.connection.set_aside(*stream, count),
            false => shared.connection.release(*stream, count),
        }
        drop(shared);
        mux.wake_driver();
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        self.is_ahead = is_ahead;
    }

    fn is_done(&self) -> bool {
        self.is_whole && self.chunk.is_empty()
    }

    fn is_last(&self) -> bool {
        self.is_whole && self.trailers.is_empty()
    }

    fn trailers(&self) -> &Fields {
        &self.trailers
    }
}

impl<P: Protocol> Drop for Receiver<P> {
    fn drop(&mut self) {
        let StreamHandle { mux, stream, .. } = &*self.handle;
        let mut shared = mux.shared.borrow_mut();
        shared.connection.release(*stream, self.chunk.len() - self.start);
        shared.spare(std::mem::take(&mut self.chunk));
    }
}

impl<P: Protocol> Sender<P> {
    /// Whether the peer takes no more now.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Whether the head, other than an interim one, has gone out.
    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Sends a head; a body follows, of `length` bytes where that is known, unless `end` says that none does.
    pub fn send_response(&mut self, head: &ResponseHead, length: Option<u64>, end: bool) {
        let StreamHandle { mux, stream, .. } = &*self.handle;
        let sent = mux.connection().send_response(*stream, head, length, end);
        self.written += sent as u64;
        mux.wake_driver();
        if !head.status.is_informational() {
            self.begin(length, end);
            // Without one the stream is over, which is told where the message would end.
            self.ended &= sent > 0;
        }
    }

    /// Notes that the head has gone out.
    pub fn begin(&mut self, length: Option<u64>, end: bool) {
        self.is_started = true;
        self.ended = end;
        self.left = if end { Some(0) } else { length };
    }

    /// Counts bytes of the body against the length that was declared.
    fn count(&mut self, count: usize) -> Result<(), Error> {
        self.written += count as u64;
        let Some(left) = &mut self.left else { return Ok(()) };
        *left = left.checked_sub(count as u64).ok_or(Kind::Internal)?;
        Ok(())
    }

    fn lost(&self) -> Error {
        let lost = self.handle.with(|slot| slot.lost).unwrap_or(StreamLoss::Connection);
        match self.handle.mux.peer {
            Side::Upstream => Kind::Closed.into(),
            _ => self.handle.mux.error(lost, true),
        }
    }
}

impl<P: Protocol> BodySink for Sender<P> {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
        is_last: bool,
    ) -> Poll<Result<usize, Error>> {
        let StreamHandle { mux, stream, .. } = &*self.handle;
        let mut shared = mux.shared.borrow_mut();
        let Shared { connection, streams, .. } = &mut *shared;
        if !connection.is_sending(*stream) || self.ended {
            drop(shared);
            return Poll::Ready(Err(self.lost()));
        }
        let count = connection.send_data(*stream, data, is_last);
        self.is_waiting = count == 0;
        if count == 0 {
            if let Some(slot) = streams.get_mut(stream) {
                slot.wait(cx);
            }
            return Poll::Pending;
        }
        drop(shared);
        mux.wake_driver();
        self.ended = is_last && count == data.len();
        self.count(count)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // The driver was woken for whatever was taken.
        Poll::Ready(Ok(()))
    }

    fn poll_end(&mut self, _: &mut Context<'_>, trailers: &Fields) -> Poll<Result<(), Error>> {
        if self.ended {
            return Poll::Ready(Ok(()));
        }
        if self.left.is_some_and(|left| left > 0) {
            return Poll::Ready(Err(Kind::Internal.into()));
        }
        let StreamHandle { mux, stream, .. } = &*self.handle;
        let mut connection = mux.connection();
        if !connection.is_sending(*stream) {
            drop(connection);
            return Poll::Ready(Err(self.lost()));
        }
        let sent = connection.send_trailers(*stream, trailers);
        drop(connection);
        mux.wake_driver();
        if sent == 0 && !trailers.is_empty() {
            // They were longer than the peer takes: the stream is over.
            return Poll::Ready(Err(self.lost()));
        }
        self.written += sent as u64;
        self.ended = true;
        Poll::Ready(Ok(()))
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn insist(&mut self) {}
}
