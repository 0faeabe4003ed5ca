//! Field blocks (RFC 9113 sections 4.3, 6.2 and 8): streams begin, messages begin and end.

use super::Connection;
use super::ending::Shutdown;
use super::reading::{Frame, Outcome};
use crate::code::Violation;
use crate::event::{Event, RequestStart, ResponseStart, StreamId};
use crate::flow::{Inflow, Outflow};
use crate::frame::{self, FrameHead};
use crate::head::{Excess, Extent, OVERSIZE_FACTOR, RequestFacts, ResponseFacts};
use crate::settings::Role;
use crate::stream::{End, Half, RequestKind, Rest, Stream};
use titan_http::section::Fault;
use titan_http::{Fields, RequestHead, ResponseHead};

/// CONTINUATION frames of one block: enough for the longest that is read, in parts of 512 bytes.
const MOST_CONTINUATIONS: u32 = 64;

/// Interim responses that a request may lead to: more than most do, and no more than anyone passes on.
const FREE_INTERIM: u8 = 16;

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
    /// memory serves for another one.
    pub fn take_request(&mut self, head: &mut RequestHead) {
        std::mem::swap(&mut self.request, head);
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
        match self.streams.get(id).map(|stream| (stream.receiving, stream.is_refused)) {
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
            return self.floods.charge(1).map(|()| None);
        }
        self.last = id;
        if self.streams.len() >= self.limits.streams as usize {
            return self.fail_with(id, block, Fault::TooManyStreams);
        }
        let stream = self.stream(id, opening.end);
        match self.reader.read_request(block, &mut self.request)? {
            Ok(facts) => self.open_request(stream, facts),
            Err(fault) if fault.gets_response() => self.open_refused(stream, fault),
            Err(fault) => self.fail_stream(id, fault),
        }
    }

    fn open_request(&mut self, mut stream: Stream, facts: RequestFacts) -> Outcome {
        let id = stream.id;
        let end = stream.receiving == Half::Done;
        if end && facts.length.is_some_and(|length| length > 0) {
            return self.fail_stream(id, Fault::BodyTooShort);
        }
        stream.rest = Rest::of(facts.length);
        self.streams.insert(stream);
        self.floods.earn_asides(0);
        let RequestFacts { length, expect_continue, protocol, is_https } = facts;
        let start = RequestStart { end, length, expect_continue, protocol, is_https };
        Ok(Some(Event::Request { stream: StreamId(id), start }))
    }

    fn open_refused(&mut self, mut stream: Stream, fault: Fault) -> Outcome {
        // More than its response will give back: else heads of any size would be free.
        self.floods.charge(2)?;
        let id = StreamId(stream.id);
        stream.is_refused = true;
        self.streams.insert(stream);
        Ok(Some(Event::Refused { stream: id, fault }))
    }

    /// A stream that the client opens, or has opened.
    pub(super) fn stream(&self, id: u32, end: bool) -> Stream {
        Stream {
            id,
            receiving: if end { Half::Done } else { Half::Body },
            inflow: Inflow::growing(self.window, i64::from(self.limits.grown_window)),
            outflow: Outflow::of(self.peer.window),
            ..Stream::default()
        }
    }

    fn on_response(&mut self, opening: BlockStart, block: &[u8]) -> Outcome {
        let id = opening.stream;
        let Some(stream) = self.streams.get_mut(id) else { return Ok(None) };
        let is_head = stream.asked == RequestKind::Head;
        let extent = if opening.end { Extent::Whole } else { Extent::Beginning };
        let read = self.reader.read_response(block, is_head, extent, &mut self.response)?;
        let facts = match read {
            Ok(facts) => facts,
            Err(fault) => return self.fail_stream(id, fault),
        };
        let length = stream.asked.length_of(facts.length, self.response.status);
        if let Some(fault) = response_fault(facts, length, opening.end) {
            return self.fail_stream(id, fault);
        }
        let end = opening.end;
        if facts.interim && stream.interim < FREE_INTERIM {
            stream.interim += 1;
        } else if facts.interim {
            self.floods.charge(1)?;
        } else {
            stream.receiving = Half::Body;
            stream.rest = if facts.has_no_body { Rest::Nothing } else { Rest::of(length) };
        }
        if end {
            self.end_receiving(id);
        }
        let start = ResponseStart { interim: facts.interim, end, length };
        Ok(Some(Event::Response { stream: StreamId(id), start }))
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
        let is_whole = self.streams.get(id).is_none_or(|stream| stream.rest.is_whole());
        match read {
            Err(fault) => return self.fail_stream(id, fault),
            Ok(()) if !is_whole => return self.fail_stream(id, Fault::BodyTooShort),
            Ok(()) => {}
        }
        self.end_receiving(id);
        Ok(Some(Event::Trailers { stream: StreamId(id) }))
    }

    /// Trailers of a request whose head was refused.
    fn drop_trailers(&mut self, opening: BlockStart, block: &[u8]) -> Outcome {
        self.reader.skip(block)?;
        if opening.end {
            self.end_receiving(opening.stream);
        }
        self.floods.charge(1).map(|()| None)
    }

    /// A block on a stream that is not open, and cannot be opened.
    fn on_stray_block(&mut self, id: u32, block: &[u8]) -> Outcome {
        self.reader.skip(block)?;
        self.on_stray(id)?;
        match self.gone.find(id) {
            Some(End::ByUs) => self.floods.stray().map(|()| None),
            Some(End::ByPeer) => self.fail_stream(id, Fault::StreamClosed),
            Some(End::Complete) => Err(Violation::ClosedStream),
            None if self.role == Role::Client => self.floods.stray().map(|()| None),
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

impl RequestKind {
    /// The length that a response declares, where it means anything.
    fn length_of(self, length: Option<u64>, status: titan_http::Status) -> Option<u64> {
        length.filter(|_| self != RequestKind::Connect || !status.is_success())
    }
}

fn response_fault(facts: ResponseFacts, length: Option<u64>, end: bool) -> Option<Fault> {
    let is_short = end && !facts.has_no_body && length.is_some_and(|length| length > 0);
    match facts.interim {
        true => end.then_some(Fault::InterimLast),
        false => is_short.then_some(Fault::BodyTooShort),
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
