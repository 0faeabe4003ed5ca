//! Titan's server, driven over a pair of pipes.

use super::script::{Ends, Exchange, Line, Message, Script, Seen, known};
use std::collections::BTreeMap;
use std::sync::Arc;
use titan_h2::{Connection, Event, StreamId};
use titan_http::{Fields, RequestHead, ResponseHead, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, split};

/// A connection, and where its streams stand.
pub(super) struct Server {
    script: Arc<Script>,
    connection: Connection,
    unread: Vec<u8>,
    streams: BTreeMap<StreamId, Stream>,
    seen: Vec<Option<Seen>>,
}

/// One that is open, or was.
struct Stream {
    /// Its place in the script.
    place: usize,
    /// Bytes of the body of the response that were sent; `None` before its head and behind its end.
    sent: Option<usize>,
}

/// Bytes that are read at once.
const READ: usize = 4096;
/// Bytes that may wait to be written: the bound of bodies, a frame, and heads.
const MOST_OUTPUT: usize = 512 << 10;

impl Server {
    pub(super) fn new(script: &Arc<Script>) -> Server {
        Server {
            script: Arc::clone(script),
            connection: Connection::server(script.limits()),
            unread: Vec::new(),
            streams: BTreeMap::new(),
            seen: script.exchanges.iter().map(|_| None).collect(),
        }
    }

    /// Serves until the client has gone; returns what it has sent.
    pub(super) async fn serve(mut self, pipe: DuplexStream) -> Vec<Option<Seen>> {
        let (mut reader, mut writer) = split(pipe);
        loop {
            self.go_on();
            assert!(self.connection.output().len() < MOST_OUTPUT);
            self.unread.reserve(READ);
            tokio::select! {
                biased;
                written = writer.write(self.connection.output()), if !self.connection.output().is_empty() => {
                    // A client that has gone takes nothing more.
                    let Ok(written) = written else { return self.seen };
                    self.connection.written(written);
                }
                read = reader.read_buf(&mut self.unread) => {
                    if !read.is_ok_and(|read| read > 0) {
                        return self.seen;
                    }
                    self.receive();
                }
            }
        }
    }

    fn go_on(&mut self) {
        while let Some(stream) = self.connection.next_unblocked() {
            self.send(stream);
        }
    }

    fn receive(&mut self) {
        let unread = std::mem::take(&mut self.unread);
        let mut at = 0;
        loop {
            let (consumed, event) =
                self.connection.read(&unread[at..]).expect("the client breaks no rule");
            let input = &unread[at..];
            let is_idle = event.is_none() && consumed == 0;
            if let Some(event) = event {
                self.act(&event, input);
            }
            at += consumed;
            if is_idle {
                break;
            }
        }
        self.unread = unread;
        self.unread.drain(..at);
    }

    fn act(&mut self, event: &Event, input: &[u8]) {
        match event {
            Event::Request { stream, start } => self.begin(*stream, start.end),
            Event::Data { stream, data, end } => {
                let data = &input[data.clone()];
                self.connection.release(*stream, data.len());
                self.seen_on(*stream).message.body.extend_from_slice(data);
                self.end_if(*stream, *end);
            }
            Event::Trailers { stream } => {
                let mut fields = Fields::default();
                self.connection.take_trailers(&mut fields);
                self.seen_on(*stream).message.trailers = lines_of(&fields);
                self.end_if(*stream, true);
            }
            Event::Reset { stream, fault, .. } => {
                assert_eq!(*fault, None);
                self.seen_on(*stream).is_reset = true;
            }
            Event::Settings | Event::GoAway { .. } => {}
            Event::Refused { .. } | Event::Response { .. } | Event::Pong => panic!("{event:?}"),
        }
    }

    fn begin(&mut self, stream: StreamId, end: bool) {
        let mut head = RequestHead::default();
        self.connection.take_request(&mut head);
        assert_eq!(head.authority(), Some(&b"a.example"[..]));
        let place = std::str::from_utf8(&head.path()[1..]).expect("it is a number");
        let place: usize = place.parse().expect("it is a number");
        let message = Message { fields: lines_of(&head.fields), ..Message::default() };
        let seen = Seen { method: head.method.as_str().to_owned(), message, ..Seen::default() };
        assert!(self.seen[place].replace(seen).is_none(), "a request came twice");
        self.streams.insert(stream, Stream { place, sent: None });
        match self.exchange(stream).ends {
            Ends::Reset(code) => self.connection.reset(stream, code),
            Ends::Whole | Ends::GivenUp => {
                if self.exchange(stream).is_early {
                    self.respond(stream);
                }
                self.end_if(stream, end);
            }
        }
    }

    fn end_if(&mut self, stream: StreamId, end: bool) {
        if !end {
            return;
        }
        self.seen_on(stream).is_whole = true;
        if !self.exchange(stream).is_early {
            self.respond(stream);
        }
    }

    fn respond(&mut self, stream: StreamId) {
        let script = Arc::clone(&self.script);
        let Exchange { status, response, .. } = &script.exchanges[self.streams[&stream].place];
        let mut head = ResponseHead::with_status(Status::from_code(*status).expect("it is one"));
        append(&mut head.fields, &response.fields);
        let is_all = response.body.is_empty() && response.trailers.is_empty();
        self.connection.send_response(stream, &head, None, is_all);
        if !is_all {
            self.streams.entry(stream).and_modify(|it| it.sent = Some(0));
            self.send(stream);
        }
    }

    /// Sends as much of the body as goes, and what follows it.
    fn send(&mut self, stream: StreamId) {
        let script = Arc::clone(&self.script);
        let Some(Stream { place, sent: Some(sent) }) = self.streams.get_mut(&stream) else {
            return;
        };
        let Message { fields: _, body, trailers } = &script.exchanges[*place].response;
        *sent += self.connection.send_data(stream, &body[*sent..], trailers.is_empty());
        if *sent < body.len() {
            return;
        }
        self.streams.entry(stream).and_modify(|it| it.sent = None);
        if !trailers.is_empty() {
            let mut fields = Fields::default();
            append(&mut fields, trailers);
            self.connection.send_trailers(stream, &fields);
        }
    }

    fn exchange(&self, stream: StreamId) -> &Exchange {
        &self.script.exchanges[self.streams[&stream].place]
    }

    fn seen_on(&mut self, stream: StreamId) -> &mut Seen {
        let place = self.streams[&stream].place;
        self.seen[place].as_mut().expect("its head has come")
    }
}

fn append(fields: &mut Fields, lines: &[Line]) {
    for (name, value) in lines {
        fields.append_named(name.as_bytes(), value).expect("there is room");
    }
}

/// The lines of a message, except what Titan makes of the pseudo-header fields.
fn lines_of(fields: &Fields) -> Vec<Line> {
    let own = fields.iter().filter(|it| !it.name.eq_ignore_ascii_case(b"host"));
    let line = |field: titan_http::Field<'_>| {
        let name = String::from_utf8_lossy(field.name);
        let name = known(&name).unwrap_or_else(|| panic!("nobody has sent {name}"));
        (name, field.value.to_vec())
    };
    let mut lines: Vec<Line> = own.map(line).collect();
    lines.sort_by_key(|(name, _)| *name);
    lines
}
