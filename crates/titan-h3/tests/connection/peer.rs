//! A server under test, and the bytes of its client, written by hand.

use bytes::Bytes;
use std::collections::BTreeMap;
use titan_h3::{Code, Connection, Event, Fatal, Limits, StreamId, Transport, varint};
use titan_http::{Fields, ResponseHead, Status};

/// What a client's transport has been asked to do.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Bytes by stream.
    pub(crate) written: BTreeMap<StreamId, Vec<u8>>,
    pub(crate) finished: Vec<StreamId>,
    pub(crate) reset: Vec<(StreamId, Code)>,
    pub(crate) stopped: Vec<(StreamId, Code)>,
    pub(crate) levels: Vec<(StreamId, i32)>,
    /// Bytes that a stream takes at most before it is full.
    pub(crate) room: usize,
    /// The number of the next stream in one direction.
    next: u64,
}

impl Sent {
    pub(crate) fn with_room(room: usize, first: u64) -> Sent {
        Sent { room, next: first, ..Sent::default() }
    }
}

impl Transport for Sent {
    fn open(&mut self) -> Option<StreamId> {
        self.next += 4;
        Some(StreamId::new(self.next - 4))
    }

    fn write(&mut self, stream: StreamId, data: &mut Bytes) {
        let written = self.written.entry(stream).or_default();
        let count = data.len().min(self.room.saturating_sub(written.len()));
        written.extend_from_slice(&data.split_to(count));
    }

    fn finish(&mut self, stream: StreamId) {
        self.finished.push(stream);
    }

    fn reset(&mut self, stream: StreamId, code: Code) {
        self.reset.push((stream, code));
    }

    fn stop(&mut self, stream: StreamId, code: Code) {
        self.stopped.push((stream, code));
    }

    fn prioritize(&mut self, stream: StreamId, level: i32) {
        self.levels.push((stream, level));
    }
}

/// A server, what it has said, and what it has sent.
pub(crate) struct Tested {
    pub(crate) connection: Connection,
    pub(crate) sent: Sent,
}

pub(crate) const CONTROL: u64 = 2;
pub(crate) const ENCODER: u64 = 6;
pub(crate) const DECODER: u64 = 10;

pub(crate) fn id(number: u64) -> StreamId {
    StreamId::new(number)
}

/// A frame, whatever its number.
pub(crate) fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(&mut out, number);
    varint::write(&mut out, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

/// A HEADERS frame of literal lines.
pub(crate) fn headers(lines: &[(&str, &str)]) -> Vec<u8> {
    frame(1, &section(lines))
}

pub(crate) fn section(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut out = vec![0, 0];
    for (name, value) in lines {
        integer(&mut out, 0x20, 3, name.len());
        out.extend_from_slice(name.as_bytes());
        integer(&mut out, 0, 7, value.len());
        out.extend_from_slice(value.as_bytes());
    }
    out
}

/// An integer behind a prefix of so many bits (RFC 7541 section 5.1).
pub(crate) fn integer(out: &mut Vec<u8>, pattern: u8, bits: u32, value: usize) {
    let most = (1 << bits) - 1;
    if value < most {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(crate) const GET: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];
pub(crate) const POST: &[(&str, &str)] =
    &[(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];

/// POST that declares a length.
pub(crate) fn post(length: &str) -> Vec<u8> {
    headers(&[POST, &[("content-length", length)]].concat())
}

/// The control stream of a client that announces nothing.
pub(crate) fn control() -> Vec<u8> {
    [vec![0x00], frame(4, &[])].concat()
}

impl Tested {
    pub(crate) fn new(limits: Limits) -> Tested {
        let sent = Sent::with_room(1 << 20, 3);
        Tested { connection: Connection::server(limits), sent }
    }

    /// One whose client has announced its settings.
    pub(crate) fn begun() -> Tested {
        let mut tested = Tested::new(Limits::default());
        assert_eq!(tested.hears_uni(CONTROL, &control(), false), Ok(vec![Event::Settings]));
        tested
    }

    /// What the bytes of a request lead to.
    pub(crate) fn hears(
        &mut self,
        stream: u64,
        input: &[u8],
        end: bool,
    ) -> Result<Vec<Event>, Fatal> {
        let (mut at, mut events) = (0, Vec::new());
        loop {
            let (count, event) = self.connection.read(id(stream), &input[at..], end)?;
            at += count;
            if count == 0 && event.is_none() {
                self.flush();
                return Ok(events);
            }
            events.extend(event);
            if end && at == input.len() {
                self.flush();
                return Ok(events);
            }
        }
    }

    pub(crate) fn hears_uni(
        &mut self,
        stream: u64,
        input: &[u8],
        end: bool,
    ) -> Result<Vec<Event>, Fatal> {
        let (mut at, mut events) = (0, Vec::new());
        loop {
            let (count, event) = self.connection.read_uni(id(stream), &input[at..], end)?;
            at += count;
            if count == 0 && event.is_none() {
                break;
            }
            events.extend(event);
            if at == input.len() && !end {
                break;
            }
        }
        while let Some((_, event)) = self.connection.resume()? {
            events.extend(event);
        }
        self.flush();
        Ok(events)
    }

    pub(crate) fn flush(&mut self) {
        self.connection.flush(&mut self.sent);
    }

    /// Responds with a body.
    pub(crate) fn responds(&mut self, stream: u64, body: &[u8]) {
        let head = ResponseHead { status: Status::OK, ..ResponseHead::default() };
        self.connection.send_response(id(stream), &head, Some(body.len() as u64), false);
        assert_eq!(self.connection.send_data(id(stream), body, true), body.len());
        self.flush();
    }

    pub(crate) fn trailers(&mut self) -> Fields {
        let mut fields = Fields::default();
        self.connection.take_trailers(&mut fields);
        fields
    }
}
