//! A connection under test, and the bytes of its peer, written by hand.

use titan_h2::{Connection, Destination, Event, Fatal, Limits, StreamId};
use titan_http::{Fields, Method, RequestHead, ResponseHead, Status};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The number of a stream as it stands in frames.
pub(crate) fn on_wire(stream: StreamId) -> u32 {
    u32::try_from(stream.number()).unwrap_or(u32::MAX)
}

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// A field block without compression.
pub(crate) fn block(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in lines {
        out.push(0);
        for text in [name, value] {
            match u8::try_from(text.len()) {
                Ok(length @ ..127) => out.push(length),
                _ => {
                    // A length in more than one byte: seven bits of ones, then the rest.
                    let mut rest = text.len() - 127;
                    out.push(127);
                    while rest >= 128 {
                        out.push((rest % 128) as u8 | 128);
                        rest /= 128;
                    }
                    out.push(rest as u8);
                }
            }
            out.extend(text.as_bytes());
        }
    }
    out
}

/// HEADERS that are whole.
pub(crate) fn headers(stream: u32, flags: u8, lines: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(lines))
}

pub(crate) const GET: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "https"), (":path", "/a"), (":authority", "a.example")];

pub(crate) const POST: &[(&str, &str)] =
    &[(":method", "POST"), (":scheme", "https"), (":path", "/a"), (":authority", "a.example")];

/// The same with another line.
pub(crate) fn and(
    lines: &[(&'static str, &'static str)],
    line: (&'static str, &'static str),
) -> Vec<(&'static str, &'static str)> {
    lines.iter().copied().chain([line]).collect()
}

/// A complete request.
pub(crate) fn get(stream: u32) -> Vec<u8> {
    headers(stream, END_STREAM, GET)
}

/// A request whose body follows.
pub(crate) fn post(stream: u32) -> Vec<u8> {
    headers(stream, 0, POST)
}

pub(crate) fn data(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, flags, stream, bytes)
}

pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(crate) fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<_> = pairs
        .iter()
        .flat_map(|(id, value)| [id.to_be_bytes().as_slice(), &value.to_be_bytes()].concat())
        .collect();
    frame(SETTINGS, 0, 0, &payload)
}

pub(crate) fn settings_ack() -> Vec<u8> {
    frame(SETTINGS, ACK, 0, b"")
}

pub(crate) fn ping(flags: u8, payload: &[u8; 8]) -> Vec<u8> {
    frame(PING, flags, 0, payload)
}

pub(crate) fn go_away(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// A frame that a connection has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Sent {
    /// The 32 bits at an offset of the payload.
    pub(crate) fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// Takes bytes apart into frames.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Sent> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        let payload = rest[..length].to_vec();
        frames.push(Sent { kind: head[3], flags: head[4], stream, payload });
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty(), "only whole frames are written");
    frames
}

/// What an event told, with the bytes it told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) event: Event,
    pub(crate) data: Vec<u8>,
}

/// A connection under test.
pub(crate) struct Tested {
    pub(crate) connection: Connection,
    /// What was received and not consumed.
    pub(crate) input: Vec<u8>,
    pub(crate) told: Vec<Told>,
    /// Whether to give bytes of bodies back at once.
    pub(crate) releases: bool,
}

impl Tested {
    pub(crate) fn of(connection: Connection) -> Tested {
        Tested { connection, input: Vec::new(), told: Vec::new(), releases: true }
    }

    /// A server whose client has said what it has to.
    pub(crate) fn server(limits: Limits) -> Tested {
        let mut tested = Tested::of(Connection::server(limits));
        tested.receives(PREFACE).unwrap();
        tested.receives(&settings(&[])).unwrap();
        tested.receives(&settings_ack()).unwrap();
        tested.sent();
        tested.told.clear();
        tested
    }

    /// A client whose server has said what it has to.
    pub(crate) fn client(limits: Limits) -> Tested {
        let mut tested = Tested::of(Connection::client(limits));
        tested.receives(&settings(&[])).unwrap();
        tested.receives(&settings_ack()).unwrap();
        let written = tested.connection.output().len();
        tested.connection.written(written);
        tested.told.clear();
        tested
    }

    /// Reads bytes to their end; returns what was told.
    pub(crate) fn receives(&mut self, bytes: &[u8]) -> Result<Vec<Event>, Fatal> {
        let before = self.told.len();
        self.input.extend_from_slice(bytes);
        loop {
            let (consumed, event) = self.connection.read(&self.input)?;
            let is_done = consumed == 0 && event.is_none();
            if let Some(event) = event {
                self.tell(event);
            }
            self.input.drain(..consumed);
            if is_done {
                return Ok(self.told[before..].iter().map(|told| told.event.clone()).collect());
            }
        }
    }

    fn tell(&mut self, event: Event) {
        let mut bytes = Vec::new();
        if let Event::Data { stream, data, .. } = &event {
            bytes.extend_from_slice(&self.input[data.clone()]);
            if self.releases {
                self.connection.release(*stream, data.len());
            }
        }
        self.told.push(Told { event, data: bytes });
    }

    /// Takes what waits to be written.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        let frames = frames(self.connection.output());
        let count = self.connection.output().len();
        self.connection.written(count);
        frames
    }

    /// Reads a request that is alone in the bytes, and returns its stream.
    pub(crate) fn opens(&mut self, bytes: &[u8]) -> StreamId {
        match self.receives(bytes).unwrap().as_slice() {
            [Event::Request { stream, .. }] => *stream,
            other => panic!("{other:?} is no request"),
        }
    }

    /// Sends a head with that status.
    pub(crate) fn responds(&mut self, stream: StreamId, status: Status, end: bool) {
        self.connection.send_response(stream, &ResponseHead::with_status(status), None, end);
    }

    /// Sends a request with that method.
    pub(crate) fn asks(&mut self, method: Method, end: bool) -> Option<StreamId> {
        let mut head = RequestHead { method, ..RequestHead::default() };
        head.set_path(b"/a").unwrap();
        let to = Destination { authority: b"a.example", is_https: true, protocol: None };
        self.connection.send_request(&head, to, None, end)
    }
}

/// Fields with one line.
pub(crate) fn one_field(name: &[u8], value: &[u8]) -> Fields {
    let mut fields = Fields::default();
    fields.append_named(name, value).unwrap();
    fields
}
