//! The end of a response, held in memory so that its endpoint need not wait for a slow client.

use crate::body::BodySource;
use crate::error::Error;
use crate::memory::{ClientMemory, Reservation};
use crate::network::ClientNetwork;
use crate::stream::ReadHalf;
use std::task::{Context, Poll};
use titan_http::{BodyLength, Fields};

/// A body of which more may be read than its client takes: into memory, up to a bound, as long as there is
/// memory for that. While its client keeps up it costs nothing.
pub struct ReadAhead<'m, S> {
    source: S,
    rest: Rest<'m>,
    budget: ReadAheadBudget<'m>,
    /// How the source has failed: told when what came before was consumed.
    broken: Option<Error>,
}

/// What of a body is in memory: the end of it, once it is taken from its source.
#[derive(Default)]
pub struct Rest<'m> {
    bytes: Vec<u8>,
    /// Bytes of it that were consumed. `start <= bytes.len()`
    start: usize,
    memory: Option<Reservation<'m>>,
    trailers: Fields,
}

/// The memory that a response may take while it is read ahead of its client.
#[derive(Clone, Copy)]
pub struct ReadAheadBudget<'m> {
    /// All of the memory.
    pub memory: &'m ClientMemory,
    /// Whom the response is for.
    pub client: Option<ClientNetwork>,
    /// How much of one response may be in memory.
    pub most: usize,
}

/// How much memory is taken at a time.
const STEP: usize = 16 << 10;

impl ReadAheadBudget<'_> {
    /// For a body of that length: none where it is known not to fit.
    pub fn for_body_of(self, length: BodyLength) -> Self {
        match length {
            BodyLength::Known(known) if known > self.most as u64 => {
                ReadAheadBudget { most: 0, ..self }
            }
            _ => self,
        }
    }
}

impl<'m, S: BodySource> ReadAhead<'m, S> {
    /// The body of `source`, and the memory that it may take.
    pub fn new(source: S, budget: ReadAheadBudget<'m>) -> ReadAhead<'m, S> {
        ReadAhead { source, rest: Rest::default(), budget, broken: None }
    }

    /// Reads what there is, as far as it fits.
    pub fn read(&mut self, cx: &mut Context<'_>) {
        self.source.set_ahead(true);
        self.fill(cx);
        self.source.set_ahead(false);
    }

    fn fill(&mut self, cx: &mut Context<'_>) {
        while !self.is_read() && self.broken.is_none() {
            if self.source.data().is_empty() {
                match self.source.poll_data(cx) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(error)) => self.broken = Some(error),
                    Poll::Pending => {}
                }
                return;
            }
            let count = self.rest.take(self.source.data(), self.budget);
            self.source.consume(count);
            if count == 0 {
                return;
            }
        }
    }

    /// Whether nothing more comes from the source.
    pub fn is_read(&self) -> bool {
        self.source.is_done()
    }

    /// What is in memory, without the source.
    pub fn into_rest(self) -> Rest<'m> {
        Rest { trailers: self.source.trailers().clone(), ..self.rest }
    }
}

impl<S: BodySource> BodySource for ReadAhead<'_, S> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Ok(()));
        }
        match self.broken.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => self.source.poll_data(cx),
        }
    }

    fn data(&self) -> &[u8] {
        if self.rest.is_empty() { self.source.data() } else { self.rest.unread() }
    }

    fn consume(&mut self, count: usize) {
        match self.rest.is_empty() {
            true => self.source.consume(count),
            false => self.rest.consume(count),
        }
    }

    fn is_done(&self) -> bool {
        self.rest.is_empty() && self.source.is_done()
    }

    fn is_last(&self) -> bool {
        match self.rest.is_empty() {
            true => self.source.is_last(),
            false => self.source.is_done() && self.source.trailers().is_empty(),
        }
    }

    fn trailers(&self) -> &Fields {
        self.source.trailers()
    }

    fn arrived(&self, taken: u64) -> u64 {
        self.source.arrived(taken)
    }

    fn socket(&self) -> Option<(&ReadHalf<'_>, u64)> {
        if self.rest.is_empty() { self.source.socket() } else { None }
    }

    fn skip(&mut self, count: usize) -> Result<(), Error> {
        self.source.skip(count)
    }
}

impl<'m> Rest<'m> {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Takes some of `data`, as far as there is room; tells how much.
    fn take(&mut self, data: &[u8], budget: ReadAheadBudget<'m>) -> usize {
        let ReadAheadBudget { memory, client, most } = budget;
        let room = most.saturating_sub(self.bytes.len());
        let count = data.len().min(room).min(STEP);
        let wanted = (self.bytes.len() + count).next_multiple_of(STEP);
        if count == 0 || !self.memory.get_or_insert_with(|| memory.of(client)).grow(wanted) {
            return 0;
        }
        self.bytes.reserve_exact(wanted - self.bytes.len());
        self.bytes.extend_from_slice(&data[..count]);
        count
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.bytes.len() {
            (self.bytes, self.start) = (Vec::new(), 0);
            self.memory = None;
        }
    }
}

impl BodySource for Rest<'_> {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        self.unread()
    }

    fn consume(&mut self, count: usize) {
        Rest::consume(self, count);
    }

    fn is_done(&self) -> bool {
        self.is_empty()
    }

    fn is_last(&self) -> bool {
        self.trailers.is_empty()
    }

    fn trailers(&self) -> &Fields {
        &self.trailers
    }
}

#[cfg(test)]
mod tests;
