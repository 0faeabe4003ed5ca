//! Request bodies that are held in memory before they go anywhere: to be looked at as a whole, and to be sent again.
//!
//! A [`BodyBuffer`] takes the body as any sink does. A [`HeldBody`] gives it back, in front of what has not come yet.

use crate::body::{BodySink, BodySource, ClientState, RequestBody};
use crate::error::{Error, Kind};
use crate::memory::Reservation;
use crate::stream::ReadHalf;
use std::task::{Context, Poll};
use titan_http::Fields;

/// The beginning of a body in memory, or all of it.
pub struct BodyBuffer<'m> {
    bytes: Vec<u8>,
    memory: Reservation<'m>,
    /// How many bytes it may hold.
    most: usize,
    /// Whether it has the end as well.
    is_whole: bool,
}

/// A body whose beginning is in memory. Where all of it is, it can be had more than once.
pub struct HeldBody<'t, B: ?Sized> {
    source: &'t mut B,
    held: BodyBuffer<'t>,
    /// Bytes of what is held that were consumed. `start <= held.bytes.len()`
    start: usize,
    /// Whether it may have to be sent again.
    is_repeatable: bool,
}

/// How much memory is taken at first.
const STEP: usize = 16 << 10;

impl<'m> BodyBuffer<'m> {
    /// A buffer for at most that many bytes of a body.
    pub fn new(memory: Reservation<'m>, most: usize) -> BodyBuffer<'m> {
        BodyBuffer { bytes: Vec::new(), memory, most, is_whole: false }
    }

    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reserves room for some of `more` bytes; returns for how many.
    fn make_room(&mut self, more: usize) -> Result<usize, Kind> {
        let count = more.min(self.most - self.bytes.len());
        if count == 0 {
            return Err(Kind::BodyTooLarge);
        }
        let wanted = self.bytes.len() + count;
        if wanted > self.bytes.capacity() {
            let least = wanted.next_multiple_of(STEP);
            let doubled = self.most.min(2 * self.bytes.capacity());
            // What is left may be enough for this body, though not for as much again.
            let capacity = [doubled.max(least), least];
            let capacity = capacity.into_iter().find(|bytes| self.memory.grow(*bytes));
            let capacity = capacity.ok_or(Kind::RequestMemory)?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        Ok(count)
    }

    fn clear(&mut self) {
        self.bytes = Vec::new();
        self.memory.shrink(0);
    }
}

impl BodySink for BodyBuffer<'_> {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        data: &[u8],
        _: bool,
    ) -> Poll<Result<usize, Error>> {
        let count = self.make_room(data.len())?;
        self.bytes.extend_from_slice(&data[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_end(&mut self, _: &mut Context<'_>, _: &Fields) -> Poll<Result<(), Error>> {
        self.is_whole = true;
        Poll::Ready(Ok(()))
    }

    fn written(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn insist(&mut self) {}
}

impl<'t, B: RequestBody + ?Sized> HeldBody<'t, B> {
    /// The body of which `held` has come out of `source`. Where all of it has, and it has at most `repeatable` bytes, it
    /// can be sent again.
    pub fn new(source: &'t mut B, held: BodyBuffer<'t>, repeatable: usize) -> HeldBody<'t, B> {
        let is_repeatable = held.is_whole && held.bytes.len() <= repeatable;
        HeldBody { source, held, start: 0, is_repeatable }
    }

    fn unread(&self) -> &[u8] {
        &self.held.bytes[self.start..]
    }

    /// Returns memory that is no longer needed.
    fn tidy(&mut self) {
        if !self.is_repeatable && self.start == self.held.bytes.len() {
            self.held.clear();
            self.start = 0;
        }
    }
}

impl<B: RequestBody + ?Sized> BodySource for HeldBody<'_, B> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.unread().is_empty() {
            true => self.source.poll_data(cx),
            false => Poll::Ready(Ok(())),
        }
    }

    fn data(&self) -> &[u8] {
        match self.unread() {
            [] => self.source.data(),
            unread => unread,
        }
    }

    fn consume(&mut self, count: usize) {
        if self.unread().is_empty() {
            return self.source.consume(count);
        }
        self.start += count;
        self.tidy();
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        self.source.set_ahead(is_ahead);
    }

    fn is_done(&self) -> bool {
        self.unread().is_empty() && self.source.is_done()
    }

    fn is_last(&self) -> bool {
        match self.unread().is_empty() {
            true => self.source.is_last(),
            false => self.source.is_done() && self.source.trailers().is_empty(),
        }
    }

    fn trailers(&self) -> &Fields {
        self.source.trailers()
    }

    fn open_tunnel(&mut self) {
        self.source.open_tunnel();
    }

    fn arrived(&self, taken: u64) -> u64 {
        self.source.arrived(taken)
    }

    fn socket(&self) -> Option<(&ReadHalf<'_>, u64)> {
        if self.unread().is_empty() { self.source.socket() } else { None }
    }

    fn skip(&mut self, count: usize) -> Result<(), Error> {
        self.source.skip(count)
    }
}

impl<B: RequestBody + ?Sized> RequestBody for HeldBody<'_, B> {
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        match wanted.checked_sub(self.unread().len()) {
            Some(more @ 1..) => self.source.poll_ahead(cx, more),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn ahead(&self) -> usize {
        self.unread().len() + self.source.ahead()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientState> {
        self.source.poll_gone(cx)
    }

    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.source.poll_lost(cx)
    }

    fn is_broken(&self) -> bool {
        self.source.is_broken()
    }

    fn is_abandoned(&self) -> bool {
        self.source.is_abandoned()
    }

    fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.source.set_limit(bytes)
    }

    fn received(&self) -> u64 {
        self.source.received()
    }

    fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    fn rewind(&mut self) -> bool {
        if self.is_repeatable {
            self.start = 0;
        }
        self.is_repeatable
    }

    fn settle(&mut self) {
        self.is_repeatable = false;
        self.tidy();
    }
}

#[cfg(test)]
mod tests;
