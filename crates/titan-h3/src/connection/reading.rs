//! Streams of requests as they come in (RFC 9114 section 4).

use super::ending::Shutdown;
use super::{Connection, Outcome};
use crate::code::Code;
use crate::control::Peer;
use crate::event::Event;
use crate::fatal::Fatal;
use crate::message::{Ending, Part};
use crate::priority::Priority;
use crate::sections::Read;
use crate::stream::{Place, Stream, WaitingSection};
use std::ops::Range;
use titan_http::section::{Excess, Extent, Fault};
use titan_http::stream::{FREE_INTERIM, Half, Incoming, StreamId};
use titan_http::{Fields, Method, RequestHead, ResponseHead, Version};

impl Connection {
    /// Reads on from a stream of a request. `input` is what has come in order and was not consumed, and `is_last` says that nothing comes
    /// behind it. Returns how many bytes are consumed now, and at most one event; to be called until that is `(0, None)`, which means that
    /// more bytes are needed, or that the stream has to wait ([`Connection::is_blocked`]). No more than the longest field section, and 16
    /// bytes, have to be kept.
    ///
    /// The first call for a stream opens it: streams have to be read from in the order of their numbers at first, if only with no bytes.
    ///
    /// # Errors
    ///
    /// What the connection is to be closed for.
    pub fn read(
        &mut self,
        stream: StreamId,
        input: &[u8],
        is_last: bool,
    ) -> Result<(usize, Option<Event>), Fatal> {
        self.attempt(|it| it.read_on(stream, input, is_last))
    }

    /// Whether nothing is to be read from the stream now: it waits for entries of the table, or so much was told of it, or of all, that
    /// some has to be used before.
    pub fn is_blocked(&self, stream: StreamId) -> bool {
        let Some(stream) = self.streams.get(&stream) else { return false };
        // A client's requests serve people who have nothing to do with each other: one that takes no response must not hold up the rest.
        let is_full = self.peer == Peer::Client && self.held >= self.limits.connection_window;
        stream.section.is_some()
            || stream.held >= self.limits.stream_window
            || is_full && stream.held > 0
    }

    /// The oldest request whose head has not come whole. It ought to come soon.
    pub fn oldest_headless(&mut self) -> Option<StreamId> {
        while let Some(id) = self.headless.front() {
            if self.streams.get(id).is_some_and(Stream::is_headless) {
                return Some(*id);
            }
            self.headless.pop_front();
        }
        None
    }

    /// Whether the head of that request has not come whole.
    pub fn is_headless(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(Stream::is_headless)
    }

    /// `count` bytes of the body of `stream` were used. To be called for all bytes that events have told of, also once the stream is over.
    pub fn release(&mut self, stream: StreamId, count: usize) {
        self.held = self.held.saturating_sub(count);
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.held = stream.held.saturating_sub(count);
        }
    }

    /// A stream whose field section waited for entries that have come, and what that leads to: it is to be read on from. To be asked after
    /// [`Connection::read_uni`] until there is none.
    ///
    /// # Errors
    ///
    /// What the connection is to be closed for.
    pub fn resume(&mut self) -> Result<Option<(StreamId, Option<Event>)>, Fatal> {
        self.attempt(Connection::resume_first)
    }

    fn resume_first(&mut self) -> Result<Option<(StreamId, Option<Event>)>, Fatal> {
        for at in 0..self.blocked.len() {
            let id = self.blocked[at];
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let Some(section) = &stream.section else { continue };
            if self.reader.decoder.has_come(section.required)?
                && let Some(WaitingSection { bytes, place, .. }) = stream.section.take()
            {
                self.blocked.remove(at);
                return Ok(Some((id, self.on_section(id, &bytes, place)?)));
            }
        }
        Ok(None)
    }

    /// Swaps the head of the request that [`Event::Request`] or [`Event::Refused`] told of with `head`, whose memory serves for another
    /// one. Tells how many bytes its section had, as far as that was read.
    pub fn take_request(&mut self, head: &mut RequestHead) -> usize {
        std::mem::swap(&mut self.request, head);
        self.section_length
    }

    /// Swaps the head of the response that [`Event::Response`] told of with `head`.
    pub fn take_response(&mut self, head: &mut ResponseHead) {
        std::mem::swap(&mut self.response, head);
    }

    /// Swaps the trailers that [`Event::Trailers`] told of with `fields`.
    pub fn take_trailers(&mut self, fields: &mut Fields) {
        std::mem::swap(&mut self.trailers, fields);
    }

    fn read_on(
        &mut self,
        id: StreamId,
        input: &[u8],
        is_last: bool,
    ) -> Result<(usize, Option<Event>), Fatal> {
        self.open(id)?;
        let mut at = 0;
        while let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_heard) {
            if stream.section.is_some() {
                return Ok((at, None));
            }
            let rest = &input[at..];
            let (count, part) = stream.frames.read(rest)?;
            if count == 0 {
                return match is_last {
                    true => Ok((input.len(), self.on_end(id, input.len(), rest.len())?)),
                    false => Ok((at, None)),
                };
            }
            let end = is_last && count == rest.len();
            let event = match part {
                Part::Head(section) => self.on_section(id, &rest[section], Place::Head { end })?,
                Part::Data(data) => self.on_data(id, at + data.start..at + data.end, end)?,
                Part::Trailers(section) => self.on_section(id, &rest[section], Place::Trailers)?,
                Part::TooLong(is_head) => self.on_too_long(id, is_head)?,
                Part::Begun => None,
                Part::Nothing => {
                    self.floods.aside()?;
                    None
                }
                Part::Skipped(count) => {
                    self.skip(count)?;
                    None
                }
            };
            at += count;
            if event.is_some() {
                return Ok((at, event));
            }
        }
        Ok((input.len(), None))
    }

    /// Begins a stream that the client has opened, unless there was one with that number.
    fn open(&mut self, id: StreamId) -> Result<(), Fatal> {
        if self.peer == Peer::Server {
            // A server opens none (section 6.1).
            return if id.number() % 4 == 1 { Err(Code::StreamCreation.into()) } else { Ok(()) };
        }
        if id.number() < self.next {
            return Ok(());
        }
        self.next = id.number() + 4;
        let priority = self.take_early(id);
        if matches!(self.leaving, Shutdown::Final { first } if id.number() >= first) {
            self.floods.charge(1)?;
            self.reader.decoder.cancel(id.number());
            self.close(id, true, true, Code::RequestRejected);
            return Ok(());
        }
        let stream = Stream::new(self.peer, Incoming::request(), self.limits.longest_section());
        self.streams.insert(id, stream);
        self.note_headless(id);
        if let Some(priority) = priority {
            self.set_level(id, priority);
        }
        Ok(())
    }

    /// Keeps those alone whose heads have not come, before there are twice as many as streams may be open.
    fn note_headless(&mut self, id: StreamId) {
        if self.headless.len() >= 2 * self.limits.streams as usize {
            let streams = &self.streams;
            self.headless.retain(|id| streams.get(id).is_some_and(Stream::is_headless));
        }
        self.headless.push_back(id);
    }

    /// The priority of a request that begins, if it has come before. Those of requests that can begin no more are gone then.
    fn take_early(&mut self, id: StreamId) -> Option<Priority> {
        let at = self.early.iter().find(|(stream, _)| *stream == id);
        let priority = at.map(|(_, priority)| *priority);
        self.early.retain(|(stream, _)| stream.number() > id.number());
        priority
    }

    /// A field section has come, or what it has waited for.
    fn on_section(&mut self, id: StreamId, section: &[u8], place: Place) -> Outcome {
        let read = match (place, self.peer) {
            (Place::Head { end }, Peer::Client) => self.on_request(id, section, end)?,
            (Place::Head { end }, Peer::Server) => self.on_response(id, section, end)?,
            (Place::Trailers, _) => self.on_trailers(id, section)?,
        };
        match read {
            Read::Whole(Ok(event)) => Ok(event),
            Read::Whole(Err(fault)) => self.fail_stream(id, fault),
            Read::Blocked(required) => self.wait(id, section, place, required),
        }
    }

    fn on_request(&mut self, id: StreamId, section: &[u8], end: bool) -> ReadOutcome {
        self.section_length = section.len();
        let read = self.reader.read_request(id.number(), section, &mut self.request)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Read::Whole(Ok(None))) };
        let begun = match read {
            Read::Blocked(required) => return Ok(Read::Blocked(required)),
            Read::Whole(Err(fault)) if fault.gets_response() => {
                // More than its response will give back: else heads of any size would be free.
                self.floods.charge(2)?;
                stream.is_refused = true;
                stream.incoming.begin_refused(end);
                return Ok(Read::Whole(Ok(Some(Event::Refused { stream: id, fault }))));
            }
            Read::Whole(facts) => facts.and_then(|it| stream.incoming.begin_request(it, end)),
        };
        if begun.is_ok_and(|start| start.protocol.is_some())
            || self.request.method == Method::CONNECT
        {
            stream.frames.note_tunnel();
        }
        self.floods.earn_asides(0);
        self.note_priority(id);
        Ok(Read::Whole(begun.map(|start| Some(Event::Request { stream: id, start }))))
    }

    fn on_response(&mut self, id: StreamId, section: &[u8], end: bool) -> ReadOutcome {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Read::Whole(Ok(None))) };
        let (number, is_head) = (id.number(), stream.incoming.is_of_head());
        let extent = if end { Extent::Whole } else { Extent::Beginning };
        let head = &mut self.response;
        let read = self.reader.read_response(number, section, is_head, extent, head)?;
        let facts = match read {
            Read::Whole(facts) => facts,
            Read::Blocked(required) => return Ok(Read::Blocked(required)),
        };
        let status = self.response.status;
        let begun = facts.and_then(|it| stream.incoming.begin_response(it, status, end));
        if begun.is_ok_and(|start| start.interim) {
            stream.frames.note_interim();
            if stream.incoming.interim() > FREE_INTERIM {
                self.floods.charge(1)?;
            }
        }
        if end {
            self.end_if_over(id);
        }
        Ok(Read::Whole(begun.map(|start| Some(Event::Response { stream: id, start }))))
    }

    /// Trailers count once the stream has ended: until then it may still be given up.
    fn on_trailers(&mut self, id: StreamId, section: &[u8]) -> ReadOutcome {
        let excess = match self.peer {
            Peer::Client => Excess::Refused,
            Peer::Server => Excess::Dropped,
        };
        let read = self.reader.read_trailers(id.number(), section, excess, &mut self.trailers)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Read::Whole(Ok(None))) };
        Ok(match read {
            Read::Blocked(required) => Read::Blocked(required),
            Read::Whole(_) if stream.is_refused => Read::Whole(Ok(None)),
            Read::Whole(Ok(())) => {
                stream.trailers = Some(Box::new(std::mem::take(&mut self.trailers)));
                Read::Whole(Ok(None))
            }
            Read::Whole(Err(fault)) => Read::Whole(Err(fault)),
        })
    }

    /// A section that refers to entries which have not come waits for them, if no more do than may (RFC 9204 section 2.1.2).
    fn wait(&mut self, id: StreamId, section: &[u8], place: Place, required: u64) -> Outcome {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(None) };
        stream.section = Some(WaitingSection { bytes: section.to_vec(), place, required });
        if self.blocked.len() >= self.limits.blocked {
            let why = "more streams are blocked than may be (RFC 9204 section 2.1.2)";
            return Err(Fatal { code: Code::Decompression, why });
        }
        self.floods.charge(1)?;
        self.blocked.push(id);
        Ok(None)
    }

    /// A field section is so long that it is not read: a request is refused with a response, and nothing more of it is wanted.
    fn on_too_long(&mut self, id: StreamId, is_head: bool) -> Outcome {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(None) };
        if stream.is_refused {
            // It has its response already.
            self.abandon(id);
            self.close(id, false, true, Code::NoError);
            self.end_if_over(id);
            return Ok(None);
        }
        if !is_head {
            return self.fail_stream(id, Fault::TrailersTooLarge);
        }
        if self.peer == Peer::Server {
            return self.fail_stream(id, Fault::HeadTooLarge);
        }
        stream.is_refused = true;
        self.floods.charge(2)?;
        self.abandon(id);
        self.close(id, false, true, Code::NoError);
        self.request.clear();
        self.request.version = Version::Http3;
        self.section_length = 0;
        Ok(Some(Event::Refused { stream: id, fault: Fault::HeadTooLarge }))
    }

    fn on_data(&mut self, id: StreamId, data: Range<usize>, end: bool) -> Outcome {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(None) };
        if end {
            // The stream may have ended within the frame.
            stream.frames.finish(0)?;
        } else {
            match (data.len(), self.peer) {
                (0, _) => self.floods.charge(1)?,
                (length, Peer::Client) => self.floods.data(length)?,
                (_, Peer::Server) => {}
            }
        }
        if stream.is_refused {
            return Ok(None);
        }
        if let Err(fault) = stream.incoming.take(data.len() as u64, end) {
            return self.fail_stream(id, fault);
        }
        stream.held += data.len();
        self.held += data.len();
        if end {
            self.end_if_over(id);
        }
        let is_news = end || !data.is_empty();
        Ok(is_news.then_some(Event::Data { stream: id, data, end }))
    }

    /// Nothing more comes on a stream, of whose last bytes so many could not be used.
    fn on_end(&mut self, id: StreamId, length: usize, unread: usize) -> Outcome {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(None) };
        let ending = stream.frames.finish(unread)?;
        match (ending, self.peer) {
            _ if stream.incoming.half() == Half::Done => return Ok(None),
            (Ending::WithoutHead, Peer::Client) => {
                self.floods.charge(2)?;
                self.give_up(id, Code::RequestIncomplete);
                return Ok(None);
            }
            (Ending::WithoutHead, Peer::Server) => return self.fail_stream(id, Fault::NoHead),
            (Ending::Whole, _) => {}
        }
        if stream.is_refused {
            stream.incoming.begin_refused(true);
            self.end_if_over(id);
            return Ok(None);
        }
        if let Err(fault) = stream.incoming.end() {
            return self.fail_stream(id, fault);
        }
        let trailers = stream.trailers.take();
        self.end_if_over(id);
        Ok(Some(match trailers {
            Some(mut trailers) => {
                std::mem::swap(&mut self.trailers, &mut trailers);
                Event::Trailers { stream: id }
            }
            None => Event::Data { stream: id, data: length..length, end: true },
        }))
    }

    /// How urgent the response is, if the client says so in its head: an update says it better (RFC 9218 section 7).
    fn note_priority(&mut self, id: StreamId) {
        let has_update = self.streams.get(&id).is_some_and(|stream| stream.has_priority);
        let told = self.request.fields.named(b"priority").next().map(Priority::told);
        if let Some(priority) = told.filter(|_| !has_update) {
            self.set_level(id, priority);
        }
    }
}

/// What reading a field section leads to.
type ReadOutcome = Result<Read<Option<Event>>, Fatal>;
