//! What reads and writes the streams of a connection, and serves its requests.

use super::script::Step;
use super::wire::{Next, UNI_STREAMS, Wire};
use crate::choices::CHOICES;
use std::collections::{BTreeMap, VecDeque};
use titan_h3::{Code, Connection, Destination, Event, Fatal, Limits, MAX_PAYLOAD, StreamId, qpack};
use titan_http::section::OVERSIZE_FACTOR;
use titan_http::stream::Half;
use titan_http::{Fields, Method, RequestHead, ResponseHead, Status};

/// A connection, its transport, and what it has told.
pub(super) struct Driver {
    connection: Connection,
    wire: Wire,
    /// Streams that may have something to read.
    readable: VecDeque<u64>,
    /// What was read of streams and not used.
    unread: BTreeMap<u64, Unread>,
    held_back: Vec<u64>,
    streams: BTreeMap<u64, Told>,
    failed: Option<Fatal>,
    /// Bytes that are read of a stream at once.
    piece: usize,
    /// Requests are answered as they come.
    answers: bool,
    /// What the transport granted at first.
    room: usize,
    head: RequestHead,
    response: ResponseHead,
    trailers: Fields,
}

/// What was read of a stream and not used.
#[derive(Default)]
struct Unread {
    bytes: Vec<u8>,
    is_last: bool,
    reset: Option<Code>,
}

/// What was told of a stream, and what is sent on it.
#[derive(Default)]
struct Told {
    has_head: bool,
    is_refused: bool,
    /// The message that comes in is complete.
    has_ended: bool,
    /// Nothing may be told of it any more.
    is_lost: bool,
    /// Bytes of the body that are not used.
    held: usize,
    sending: Half,
    /// Bytes of a body that wait until the stream can go on.
    waiting: usize,
}

/// Bytes of an instruction with two strings, and their lengths.
const LONGEST_INSTRUCTION: usize = 2 * 4 * qpack::CAPACITY + 32;
/// What is in front of a frame.
const HEADER: usize = 16;
/// What may wait for the peer's encoder, beside what one call adds.
const FEEDBACK: usize = (4 << 10) + 64;

impl Driver {
    pub(super) fn new(choices: &[u8; CHOICES], limits: Limits) -> Driver {
        let is_server = choices[2].is_multiple_of(2);
        let connection =
            if is_server { Connection::server(limits) } else { Connection::client(limits) };
        let room = [0, 5, 200, 1 << 16][usize::from(choices[3]) % 4];
        let mut driver = Driver {
            connection,
            wire: Wire::new(is_server, limits.streams, room),
            readable: VecDeque::new(),
            unread: BTreeMap::new(),
            held_back: Vec::new(),
            streams: BTreeMap::new(),
            failed: None,
            piece: [1, 7, 100, 1000][usize::from(choices[1]) % 4],
            answers: choices[2] & 2 == 0,
            room,
            head: RequestHead::default(),
            response: ResponseHead::default(),
            trailers: Fields::default(),
        };
        driver.wire.granted = u64::from(choices[3] / 4 % 3);
        driver.trailers.append_named(b"sum", &[b'7'; 30]).expect("it is a field");
        driver
    }

    /// One step, and all that follows from it.
    pub(super) fn go(&mut self, step: Step, place: u8, bytes: &[u8]) {
        let (number, is_uni) = (u64::from(place % 16), place >= 128);
        let code = Code::of(0x100 + u64::from(bytes.first().copied().unwrap_or_default() % 0x11));
        let outcome = match step {
            Step::Says | Step::Ends => self.hear(number, bytes, step == Step::Ends),
            Step::SaysUni | Step::EndsUni => self.hear_uni(number, bytes, step == Step::EndsUni),
            Step::Resets => self.on_reset(number, is_uni, code),
            Step::Stops => self.on_stopped(number, is_uni, code),
            Step::Takes => {
                let id = if is_uni { self.wire.own(number % 2) } else { number * 4 };
                let count = bytes.iter().map(|byte| usize::from(*byte)).sum();
                self.wire.take(id, count);
                Ok(())
            }
            Step::Grants => {
                self.wire.granted = (self.wire.granted + 1).min(2);
                Ok(())
            }
            Step::Sends if self.wire.is_server || self.streams.contains_key(&(number * 4)) => {
                self.send_on(number * 4, bytes);
                Ok(())
            }
            Step::Sends => {
                self.ask(bytes);
                Ok(())
            }
            Step::Uses => {
                self.release(number * 4, bytes.len());
                Ok(())
            }
            Step::Leaves => {
                self.leave(number * 4);
                Ok(())
            }
            Step::Waits => {
                self.connection.calm(u32::from(place));
                self.connection.charge(0)
            }
            Step::Drains => {
                self.connection.drain();
                if is_uni {
                    self.connection.leave();
                }
                Ok(())
            }
        };
        let outcome = outcome.and_then(|()| self.pump());
        self.judge(outcome);
    }

    /// Everything comes to its end: nothing is left then.
    pub(super) fn settle(&mut self) {
        self.wire.take_all();
        let outcome = self.pump().and_then(|()| self.give_up_all());
        self.judge(outcome);
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            self.leave(id);
        }
        let outcome = self.pump();
        self.judge(outcome);
        if self.failed.is_some() {
            return;
        }
        assert_eq!(self.connection.open_streams(), 0);
        assert!(self.connection.is_flushed());
        assert_eq!(self.connection.oldest_headless(), None);
        let kept = self.connection.kept();
        assert_eq!((kept.headless, kept.blocked, kept.feedback), (0, 0, 0));
        assert!(kept.unis <= self.wire.open_unis());
        self.connection.drain();
        self.connection.leave();
        assert!(self.connection.is_over());
    }

    /// The peer gives up all that it has begun, be it that it waits for entries that never come.
    fn give_up_all(&mut self) -> Result<(), Fatal> {
        for id in self.wire.requests() {
            self.lose_incoming(id, Code::RequestCancelled)?;
            self.stop(id, Code::RequestCancelled)?;
        }
        self.pump()
    }

    /// Holds the connection to what it may keep, and to its end if it has come to that.
    fn judge(&mut self, outcome: Result<(), Fatal>) {
        if let Some(fatal) = self.failed {
            return assert_eq!(outcome, Err(fatal), "it says something after its end");
        }
        let Err(fatal) = outcome else { return self.measure() };
        self.failed = Some(fatal);
        let (request, uni) = (StreamId::new(0), StreamId::new(self.wire.own(0) ^ 1));
        let connection = &mut self.connection;
        assert_eq!(connection.read(request, b"\0", true), Err(fatal));
        assert_eq!(connection.read_uni(uni, b"\0", true), Err(fatal));
        assert_eq!(connection.peer_reset(request, Code::NoError), Err(fatal));
        assert_eq!(connection.peer_stopped(request, Code::NoError), Err(fatal));
        assert_eq!(connection.uni_reset(uni), Err(fatal));
        assert_eq!(connection.resume(), Err(fatal));
        assert_eq!(connection.charge(0), Err(fatal));
    }

    fn measure(&mut self) {
        let limits = *self.connection.limits();
        let streams = limits.streams as usize;
        let kept = self.connection.kept();
        assert_eq!((kept.untold, kept.unblocked), (0, 0), "everything was asked for");
        assert!(kept.headless <= 2 * streams && kept.early <= streams);
        assert!(kept.blocked <= limits.blocked && kept.unis <= self.wire.open_unis());
        assert!(self.wire.open_unis() <= UNI_STREAMS as usize);
        assert!(kept.feedback <= FEEDBACK);
        assert!(self.connection.open_streams() <= streams + self.held_back.len());
        let longest = limits.sections.longest_list() * OVERSIZE_FACTOR + HEADER;
        for (id, unread) in &self.unread {
            let most = match id % 4 {
                0 => longest,
                _ => LONGEST_INSTRUCTION.max(usize::try_from(MAX_PAYLOAD).unwrap_or(0) + HEADER),
            };
            let length = unread.bytes.len();
            assert!(length <= most + self.piece, "{id} keeps {length}");
        }
        // What is read at once, with what was read before it was held back.
        let once = 2 * self.piece + HEADER;
        let held = self.streams.values().map(|told| told.held);
        assert!(held.clone().all(|held| held < limits.stream_window + once));
        let most = limits.connection_window + (streams + self.held_back.len()) * once;
        assert!(!self.wire.is_server || held.sum::<usize>() < most);
    }

    /// Reads everything that has come, and writes everything that is taken.
    fn pump(&mut self) -> Result<(), Fatal> {
        for _ in 0..MOST_ROUNDS {
            while let Some(stream) = self.readable.pop_front() {
                self.read(stream)?;
            }
            for id in std::mem::take(&mut self.wire.writable) {
                self.connection.writable(StreamId::new(id));
            }
            self.connection.flush(&mut self.wire);
            while let Some(stream) = self.connection.next_unblocked() {
                self.go_on(stream.number());
            }
            self.let_go();
            let is_done = self.readable.is_empty() && self.wire.writable.is_empty();
            if is_done && self.connection.kept().untold == 0 {
                // What has failed where nothing is read is noticed here.
                return self.connection.charge(0);
            }
        }
        panic!("it goes on for ever");
    }

    /// Reads on from a stream until nothing more can be.
    fn read(&mut self, id: u64) -> Result<(), Fatal> {
        let (stream, is_request) = (StreamId::new(id), id.is_multiple_of(4));
        let mut unread = self.unread.remove(&id).unwrap_or_default();
        let mut wants_more = unread.bytes.is_empty();
        for _ in 0..MOST_ROUNDS {
            if is_request && self.connection.is_blocked(stream) {
                self.hold_back(id, unread);
                return Ok(());
            }
            let next = if wants_more { self.wire.next(id, self.piece) } else { Next::Nothing };
            let has_more = matches!(next, Next::Bytes(..) | Next::End);
            match next {
                Next::Bytes(bytes, is_last) => {
                    unread.bytes.extend_from_slice(&bytes);
                    unread.is_last = is_last;
                }
                Next::End => unread.is_last = true,
                Next::Reset(code) => unread.reset = Some(code),
                Next::Nothing | Next::Gone => {}
            }
            let Unread { bytes, is_last, .. } = &unread;
            let (count, event) = match is_request {
                true => self.connection.read(stream, bytes, *is_last)?,
                false => self.connection.read_uni(stream, bytes, *is_last)?,
            };
            assert!(count <= bytes.len());
            let is_news = event.is_some();
            if let Some(event) = event {
                self.on_event(event, count);
            }
            unread.bytes.drain(..count);
            if !is_news
                && !is_request
                && let Some((resumed, event)) = self.connection.resume()?
            {
                self.readable.push_back(resumed.number());
                if let Some(event) = event {
                    self.on_event(event, 0);
                }
                continue;
            }
            let is_used = is_news || count > 0;
            if is_used || has_more || !wants_more {
                // More is only taken where what is at hand is not enough: else small frames would have all of it kept.
                wants_more = !is_used || unread.bytes.is_empty();
                continue;
            }
            return self.pause(id, unread);
        }
        panic!("{id} is read for ever");
    }

    /// Nothing is read from a stream now.
    fn hold_back(&mut self, id: u64, unread: Unread) {
        self.unread.insert(id, unread);
        if !self.held_back.contains(&id) {
            self.held_back.push(id);
        }
    }

    /// Everything that has come of a stream was read.
    fn pause(&mut self, id: u64, unread: Unread) -> Result<(), Fatal> {
        match unread.reset {
            Some(code) if id.is_multiple_of(4) => return self.lose(id, code),
            Some(_) => return self.connection.uni_reset(StreamId::new(id)),
            None => {}
        }
        let is_over = unread.is_last && !self.connection.is_blocked(StreamId::new(id));
        if !is_over && (unread.is_last || !unread.bytes.is_empty()) {
            self.unread.insert(id, unread);
        }
        Ok(())
    }

    fn lose(&mut self, id: u64, code: Code) -> Result<(), Fatal> {
        let event = self.connection.peer_reset(StreamId::new(id), code)?;
        event.into_iter().for_each(|event| self.on_event(event, 0));
        Ok(())
    }

    /// Streams that were held back and are no more are read from again.
    fn let_go(&mut self) {
        let Driver { connection, held_back, readable, .. } = self;
        held_back.retain(|id| {
            let is_blocked = connection.is_blocked(StreamId::new(*id));
            if !is_blocked {
                readable.push_back(*id);
            }
            is_blocked
        });
    }

    fn hear(&mut self, number: u64, bytes: &[u8], ends: bool) -> Result<(), Fatal> {
        let Some(id) = self.request(number) else { return Ok(()) };
        // Each has a section in it at most.
        *self.wire.listener.sections.entry(id).or_default() += bytes.len();
        if self.wire.say(id, bytes, ends) {
            self.readable.push_back(id);
        }
        Ok(())
    }

    fn hear_uni(&mut self, number: u64, bytes: &[u8], ends: bool) -> Result<(), Fatal> {
        let Some(id) = self.wire.uni(number) else { return Ok(()) };
        if self.wire.say(id, bytes, ends) {
            self.readable.push_back(id);
        }
        Ok(())
    }

    /// The stream of a request; those that are opened for it are read from in their order.
    fn request(&mut self, number: u64) -> Option<u64> {
        let mut fresh = Vec::new();
        let id = self.wire.request(number, &mut fresh)?;
        for id in fresh {
            self.wire.take(id, self.room);
            self.readable.push_back(id);
        }
        Some(id)
    }

    fn on_reset(&mut self, number: u64, is_uni: bool, code: Code) -> Result<(), Fatal> {
        let id = if is_uni { self.wire.uni(number) } else { self.request(number) };
        id.map_or(Ok(()), |id| self.lose_incoming(id, code))
    }

    fn lose_incoming(&mut self, id: u64, code: Code) -> Result<(), Fatal> {
        if !self.wire.give_up(id, code) {
            return Ok(());
        }
        if id.is_multiple_of(4) && self.connection.is_blocked(StreamId::new(id)) {
            // It is only asked whether it was given up.
            self.unread.remove(&id);
            let code = self.wire.take_reset(id);
            return code.map_or(Ok(()), |code| self.lose(id, code));
        }
        self.readable.push_back(id);
        Ok(())
    }

    fn on_stopped(&mut self, number: u64, is_uni: bool, code: Code) -> Result<(), Fatal> {
        self.stop(if is_uni { self.wire.own(number % 2) } else { number * 4 }, code)
    }

    fn stop(&mut self, id: u64, code: Code) -> Result<(), Fatal> {
        if !self.wire.stopped(id) {
            return Ok(());
        }
        let event = self.connection.peer_stopped(StreamId::new(id), code)?;
        event.into_iter().for_each(|event| self.on_event(event, 0));
        Ok(())
    }

    /// What is told of a stream, as far as it may be told now.
    fn on_event(&mut self, event: Event, count: usize) {
        match event {
            Event::Request { stream, start } => {
                let told = self.told(stream);
                assert!(!std::mem::replace(&mut told.has_head, true));
                told.has_ended = start.end;
                self.connection.take_request(&mut self.head);
                assert!(self.head.fields.len() <= self.connection.limits().sections.fields);
                self.answer(stream);
            }
            Event::Refused { stream, fault } => {
                let told = self.told(stream);
                assert!(!std::mem::replace(&mut told.has_head, true) && !told.has_ended);
                told.is_refused = true;
                told.sending = Half::Done;
                let head = ResponseHead::with_status(fault.status());
                self.connection.send_response(stream, &head, Some(0), true);
            }
            Event::Response { stream, start } => {
                let told = self.told(stream);
                assert!(!told.has_head && !told.has_ended);
                told.has_head = !start.interim;
                told.has_ended = start.end;
                self.connection.take_response(&mut self.response);
            }
            Event::Data { stream, data, end } => {
                assert!(data.start <= data.end && data.end <= count);
                let told = self.told(stream);
                assert!(told.has_head && !told.is_refused && !told.has_ended);
                told.has_ended = end;
                told.held += data.len();
            }
            Event::Trailers { stream } => {
                let told = self.told(stream);
                assert!(told.has_head && !told.is_refused && !told.has_ended);
                told.has_ended = true;
                self.connection.take_trailers(&mut Fields::default());
            }
            Event::Reset { stream, .. } => {
                self.told(stream).is_lost = true;
            }
            Event::GoAway { first } => {
                let lost = self.streams.range_mut(first.number()..);
                lost.for_each(|(_, told)| told.is_lost = true);
            }
            Event::Settings => {}
        }
    }

    fn told(&mut self, stream: StreamId) -> &mut Told {
        let told = self.streams.entry(stream.number()).or_default();
        assert!(!told.is_lost, "{stream:?} is over, and was told so");
        told
    }

    fn answer(&mut self, stream: StreamId) {
        if self.answers {
            let text = self.head.fields.text().len();
            let shape = u8::try_from(text % 8).unwrap_or_default();
            self.send_on(stream.number(), &[shape; 40]);
            self.send_on(stream.number(), &[shape]);
        }
    }

    /// Sends a head, or something behind it, as the bytes say.
    fn send_on(&mut self, id: u64, bytes: &[u8]) {
        let Some(told) = self.streams.get_mut(&id) else { return };
        let is_open = (told.has_head || !self.wire.is_server) && !told.is_lost;
        if !is_open || told.waiting > 0 {
            return;
        }
        let (stream, shape) = (StreamId::new(id), bytes.first().copied().unwrap_or_default());
        match told.sending {
            Half::Head if shape % 8 == 7 => {
                let mut head = ResponseHead::with_status(Status::EARLY_HINTS);
                head.fields.append_named(b"link", bytes).ok();
                self.connection.send_response(stream, &head, None, false);
            }
            Half::Head => {
                let end = shape % 8 == 6;
                told.sending = if end { Half::Done } else { Half::Body };
                let head = ResponseHead::with_status(Status::OK);
                self.connection.send_response(stream, &head, None, end);
            }
            Half::Body if shape % 4 == 3 => {
                told.sending = Half::Done;
                self.connection.send_trailers(stream, &self.trailers);
            }
            Half::Body => {
                told.waiting = bytes.len() * 3;
                self.go_on(id);
            }
            Half::Done => {}
        }
    }

    /// Sends what it can of a body, whose last byte is not the end of the message if its length is odd.
    fn go_on(&mut self, id: u64) {
        let Some(told) = self.streams.get_mut(&id) else { return };
        if told.waiting == 0 || told.sending != Half::Body {
            return;
        }
        let (data, end) = (vec![7; told.waiting], told.waiting.is_multiple_of(2));
        let count = self.connection.send_data(StreamId::new(id), &data, end);
        assert!(count <= data.len());
        told.waiting -= count;
        if told.waiting == 0 && end {
            told.sending = Half::Done;
        }
    }

    /// A client begins a request.
    fn ask(&mut self, bytes: &[u8]) {
        if self.failed.is_some() || self.connection.is_leaving() {
            return;
        }
        let Some(id) = self.wire.ask() else { return };
        let shape = bytes.first().copied().unwrap_or_default();
        let methods = [Method::GET, Method::POST, Method::HEAD, Method::CONNECT];
        let method = methods[usize::from(shape % 4)];
        let head = RequestHead { method, ..RequestHead::default() };
        let to = Destination { authority: b"a:1", is_https: true, protocol: None };
        let end = shape & 4 == 0 && method != Method::CONNECT;
        self.wire.take(id, self.room);
        self.connection.send_request(StreamId::new(id), &head, to, None, end);
        let sending = if end { Half::Done } else { Half::Body };
        self.streams.insert(id, Told { sending, ..Told::default() });
    }

    fn release(&mut self, id: u64, count: usize) {
        let Some(told) = self.streams.get_mut(&id) else { return };
        let count = told.held.min(count);
        told.held -= count;
        self.connection.release(StreamId::new(id), count);
        self.let_go();
    }

    /// Nobody serves the stream any more: nothing is told of it then.
    fn leave(&mut self, id: u64) {
        let Some(told) = self.streams.get_mut(&id) else { return };
        let has_responded = told.sending == Half::Done;
        told.is_lost = true;
        told.waiting = 0;
        let code = if has_responded { Code::NoError } else { Code::RequestCancelled };
        self.connection.reset(StreamId::new(id), code);
        self.unread.remove(&id);
        self.release(id, usize::MAX);
    }
}

/// Far more rounds than a step can lead to: each reads something, or has something to write.
const MOST_ROUNDS: usize = 100_000;
