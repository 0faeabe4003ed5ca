//! Field blocks (RFC 9113 sections 4.3, 6.2 and 8): streams begin, messages begin and end.

use super::Connection;
use super::ending::Shutdown;
use super::reading::{Frame, Outcome, nothing_for};
use crate::code::Violation;
use crate::event::Event;
use crate::flow::{Inflow, Outflow};
use crate::frame::{self, FrameHead};
use crate::head::{Excess, Extent, OVERSIZE_FACTOR, RequestFacts};
use crate::settings::Role;
use crate::stream::{End, Stream, stream_id};
use titan_http::section::Fault;
use titan_http::stream::{FREE_INTERIM, Half, Incoming};
use titan_http::{Fields, RequestHead, ResponseHead};

/// CONTINUATION frames of one block: enough for the longest that is read, in parts of 512 bytes.
const MOST_CONTINUATIONS: u32 = 64;

/// Bytes that a block may have beyond what its list may: what compression can make longer, at the most.
const BLOCK_SLACK: usize = 16 << 10;

/// A field block that continues in CONTINUATION frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialBlock {
    opening: BlockStart,
    continuations: u32,
}

/// What the HEADERS frame says beside its fields.
#[derive(Clone, Copy, Debug)]
struct BlockStart {
    stream: u32,
    /// END_STREAM.
    end: bool,
    depends_on_itself: bool,
}

impl Connection {
    /// Swaps the head of the request that [`Event::Request`] or [`Event::Refused`] told of with `head`, whose
    /// memory serves for another one. Tells how many bytes its block had.
    pub fn take_request(&mut self, head: &mut RequestHead) -> usize {
        std::mem::swap(&mut self.request, head);
        self.block_length
    }

    /// Swaps the head of the response that [`Event::Response`] told of with `head`.
    pub fn take_response(&mut self, head: &mut ResponseHead) {
        std::mem::swap(&mut self.response, head);
    }

    /// Swaps the trailers that [`Event::Trailers`] told of with `fields`.
    pub fn take_trailers(&mut self, fields: &mut Fields) {
        std::mem::swap(&mut self.trailers, fields);
    }

    pub(super) fn on_headers(&mut self, frame: Frame<'_>) -> Outcome {
        frame.head.must_be_on_stream()?;
        let (_, payload) = frame::without_padding(frame.head, frame.payload)?;
        let (dependency, fragment) = without_priority(frame.head, payload)?;
        let opening = BlockStart {
            stream: frame.head.stream,
            end: frame.head.has(frame::END_STREAM),
            depends_on_itself: dependency == Some(frame.head.stream),
        };
        if frame.head.has(frame::END_HEADERS) {
            return self.on_block(opening, fragment);
        }
        self.block.clear();
        self.begun = Some(PartialBlock { opening, continuations: 0 });
        self.gather(fragment)?;
        Ok(None)
    }

    pub(super) fn on_continuation(&mut self, frame: Frame<'_>) -> Outcome {
        let Some(begun) = &mut self.begun else { return Err(Violation::Continuation) };
        let opening = begun.opening;
        if frame.head.stream != opening.stream {
            return Err(Violation::Continuation);
        }
        begun.continuations += 1;
        if begun.continuations > MOST_CONTINUATIONS {
            return Err(Violation::BlockTooLong);
        }
        self.floods.charge(1)?;
        self.gather(frame.payload)?;
        if !frame.head.has(frame::END_HEADERS) {
            return Ok(None);
        }
        self.begun = None;
        let block = std::mem::take(&mut self.block);
        let outcome = self.on_block(opening, &block);
        self.block = block;
        outcome
    }

    fn gather(&mut self, fragment: &[u8]) -> Result<(), Violation> {
        if self.block.len() + fragment.len() > self.longest_block() {
            return Err(Violation::BlockTooLong);
        }
        self.block.extend_from_slice(fragment);
        Ok(())
    }

    /// Trailers that are too long for a client are read for the status among them.
    fn longest_block(&self) -> usize {
        let list = match self.role {
            Role::Server => self.limits.longest_list(),
            Role::Client => self.limits.longest_list().saturating_mul(OVERSIZE_FACTOR),
        };
        list.saturating_add(BLOCK_SLACK)
    }

    /// A block is complete. Whatever happens to it, it goes through the reader, whose table it changes.
    fn on_block(&mut self, opening: BlockStart, block: &[u8]) -> Outcome {
        let id = opening.stream;
        if opening.depends_on_itself {
            self.reader.skip(block)?;
            return self.fail_headers(id, Fault::DependsOnItself);
        }
        match self.streams.get(id).map(|stream| (stream.incoming.half(), stream.is_refused)) {
            Some((Half::Done, _)) => self.fail_with(id, block, Fault::StreamClosed),
            Some((_, true)) => self.drop_trailers(opening, block),
            Some((Half::Head, _)) => self.on_response(opening, block),
            Some((Half::Body, _)) => self.on_trailers(opening, block),
            None if self.role == Role::Server && self.is_next(id) => {
                self.on_request(opening, block)
            }
            None => self.on_stray_block(id, block),
        }
    }

    /// Whether a client may open a stream with that number now.
    fn is_next(&self, id: u32) -> bool {
        id % 2 == 1 && id > self.last
    }

    fn on_request(&mut self, opening: BlockStart, block: &[u8]) -> Outcome {
        let id = opening.stream;
        if matches!(self.leaving, Shutdown::Announced { last } if id > last) {
            // It does not say that it has seen GOAWAY, and goes on as if it had not.
            self.leave();
        }
        if self.leaving == Shutdown::Final {
            self.reader.skip(block)?;
            return nothing_for(self.floods.charge(1));
        }
        self.last = id;
        if self.streams.len() >= self.limits.streams as usize {
            return self.fail_with(id, block, Fault::TooManyStreams);
        }
        self.block_length = block.len();
        match self.reader.read_request(block, &mut self.request)? {
            Ok(facts) => self.open_request(opening, facts),
            Err(fault) if fault.gets_response() => self.open_refused(opening, fault),
            Err(fault) => self.fail_stream(id, fault),
        }
    }

    fn open_request(&mut self, opening: BlockStart, facts: RequestFacts) -> Outcome {
        let id = opening.stream;
        let mut incoming = Incoming::request();
        let start = match incoming.begin_request(facts, opening.end) {
            Ok(start) => start,
            Err(fault) => return self.fail_stream(id, fault),
        };
        self.streams.insert(self.stream(id, incoming));
        self.floods.earn_asides(0);
        Ok(Some(Event::Request { stream: stream_id(id), start }))
    }

    fn open_refused(&mut self, opening: BlockStart, fault: Fault) -> Outcome {
        // More than its response will give back: else heads of any size would be free.
        self.floods.charge(2)?;
        let mut incoming = Incoming::request();
        incoming.begin_refused(opening.end);
        let mut stream = self.stream(opening.stream, incoming);
        stream.is_refused = true;
        self.streams.insert(stream);
        Ok(Some(Event::Refused { stream: stream_id(opening.stream), fault }))
    }

    /// A stream that the client opens, or has opened.
    pub(super) fn stream(&self, id: u32, incoming: Incoming) -> Stream {
        Stream {
            id,
            incoming,
            inflow: Inflow::growing(self.window, i64::from(self.limits.grown_window)),
            outflow: Outflow::of(self.peer.window),
            ..Stream::default()
        }
    }

    fn on_response(&mut self, opening: BlockStart, block: &[u8]) -> Outcome {
        let id = opening.stream;
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        let is_head = stream.incoming.is_of_head();
        let extent = if opening.end { Extent::Whole } else { Extent::Beginning };
        let read = self.reader.read_response(block, is_head, extent, &mut self.response)?;
        let status = self.response.status;
        let begin = |facts| stream.incoming.begin_response(facts, status, opening.end);
        let start = match read.and_then(begin) {
            Ok(start) => start,
            Err(fault) => return self.fail_stream(id, fault),
        };
        if start.interim && stream.incoming.interim() > FREE_INTERIM {
            self.floods.charge(1)?;
        }
        if start.end {
            self.end_if_complete(id);
        }
        Ok(Some(Event::Response { stream: stream_id(id), start }))
    }

    fn on_trailers(&mut self, opening: BlockStart, block: &[u8]) -> Outcome {
        let id = opening.stream;
        if !opening.end {
            return self.fail_with(id, block, Fault::TrailersNotLast);
        }
        let excess = match self.role {
            Role::Server => Excess::Refused,
            Role::Client => Excess::Dropped,
        };
        let read = self.reader.read_trailers(block, excess, &mut self.trailers)?;
        let end = |()| self.streams.get_mut(id).map_or(Ok(()), |stream| stream.incoming.end());
        if let Err(fault) = read.and_then(end) {
            return self.fail_stream(id, fault);
        }
        self.end_if_complete(id);
        Ok(Some(Event::Trailers { stream: stream_id(id) }))
    }

    /// Trailers of a request whose head was refused.
    fn drop_trailers(&mut self, opening: BlockStart, block: &[u8]) -> Outcome {
        self.reader.skip(block)?;
        if opening.end {
            self.end_refused(opening.stream);
        }
        nothing_for(self.floods.charge(1))
    }

    /// A block on a stream that is not open, and cannot be opened.
    fn on_stray_block(&mut self, id: u32, block: &[u8]) -> Outcome {
        self.reader.skip(block)?;
        self.on_stray(id)?;
        match self.gone.find(id) {
            Some(End::ByUs) => nothing_for(self.floods.stray()),
            Some(End::ByPeer) => self.fail_stream(id, Fault::StreamClosed),
            Some(End::Complete) => Err(Violation::ClosedStream),
            None if self.role == Role::Client => nothing_for(self.floods.stray()),
            None => Err(Violation::StreamNumber),
        }
    }

    /// A frame on a stream that is not open: only one that was may have any.
    pub(super) fn on_stray(&self, id: u32) -> Result<(), Violation> {
        let was_opened = id % 2 == 1 && id <= self.last;
        match self.leaving == Shutdown::Final && self.role == Role::Server && id % 2 == 1 {
            // Opened before the client could know that this side is leaving.
            true => Ok(()),
            false if was_opened => Ok(()),
            false => Err(if id.is_multiple_of(2) {
                Violation::StreamNumber
            } else {
                Violation::IdleStream
            }),
        }
    }

    fn fail_with(&mut self, id: u32, block: &[u8], fault: Fault) -> Outcome {
        self.reader.skip(block)?;
        self.fail_stream(id, fault)
    }

    /// HEADERS that are wrong before their block is looked at, on whatever stream.
    fn fail_headers(&mut self, id: u32, fault: Fault) -> Outcome {
        if self.role == Role::Server && self.is_next(id) && self.leaving != Shutdown::Final {
            self.last = id;
        }
        self.on_stray(id)?;
        self.fail_stream(id, fault)
    }
}

/// The stream that this one is to depend on, if HEADERS say so, and the block behind that.
fn without_priority(head: FrameHead, payload: &[u8]) -> Result<(Option<u32>, &[u8]), Violation> {
    if !head.has(frame::WITH_PRIORITY) {
        return Ok((None, payload));
    }
    let (priority, block) = payload.split_at_checked(5).ok_or(Violation::FrameLength)?;
    Ok((Some(frame::number(priority)), block))
}
