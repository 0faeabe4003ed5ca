//! HTTP/2: a connection of either role that hears anything, split anyhow.

use crate::choices::CHOICES;
use titan_h2::{Code, Connection, Destination, Event, Fatal, Limits, StreamId};
use titan_http::{Fields, Method, RequestHead, ResponseHead, Status};

/// What a client sends before anything else, and the settings of either side.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

/// Bytes that may wait to be written, whatever the peer does: bodies up to the limit and a frame, heads
/// and resets for each stream that was opened, responses to control frames.
const MOST_OUTPUT: usize = 512 << 10;

/// A connection tells the same and ends with the same fault however its bytes are split, and what it
/// writes stays within bounds.
pub fn connection(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let step = usize::from(choices[1]) % 23 + 1;
    let whole = hear(input, choices, input.len().max(1));
    let split = hear(input, choices, step);
    assert_eq!(whole, split);
}

/// What a connection made of its input.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    told: Vec<String>,
    body: Vec<u8>,
    fatal: Option<Fatal>,
}

fn hear(input: &[u8], choices: &[u8; CHOICES], step: usize) -> Heard {
    let mut driver = Driver::new(choices);
    let mut heard = Heard::default();
    let mut received = 0;
    while received < input.len() && heard.fatal.is_none() {
        received = input.len().min(received + step);
        heard.fatal = driver.receive(&input[..received], &mut heard).err();
    }
    assert!(driver.connection.output().len() < MOST_OUTPUT);
    heard
}

/// The driver of a connection. What it does depends on what it is told, not on when.
struct Driver {
    connection: Connection,
    at: usize,
    /// Requests are answered, with a body, rather than reset.
    answers: bool,
    head: RequestHead,
    response: ResponseHead,
    trailers: Fields,
}

impl Driver {
    fn new(choices: &[u8; CHOICES]) -> Driver {
        let limits = limits(choices[0]);
        let is_server = choices[2].is_multiple_of(2);
        let mut driver = Driver {
            connection: match is_server {
                true => Connection::server(limits),
                false => Connection::client(limits),
            },
            at: 0,
            answers: choices[3].is_multiple_of(2),
            head: RequestHead::default(),
            response: ResponseHead::default(),
            trailers: Fields::default(),
        };
        driver.begin(if is_server { PREFACE } else { b"" });
        driver
    }

    fn begin(&mut self, preface: &[u8]) {
        for bytes in [preface, SETTINGS] {
            let (consumed, _) = self.connection.read(bytes).expect("it is what it must be");
            assert_eq!(consumed, bytes.len());
        }
        for method in [Method::GET, Method::HEAD, Method::POST, Method::CONNECT] {
            let head = RequestHead { method, ..RequestHead::default() };
            let to = Destination { authority: b"a:1", is_https: true, protocol: None };
            let stream = self.connection.send_request(&head, to, None, false);
            let Some(stream) = stream else { return };
            self.connection.send_data(stream, b"abc", method == Method::GET);
        }
    }

    fn receive(&mut self, input: &[u8], heard: &mut Heard) -> Result<(), Fatal> {
        loop {
            let available = &input[self.at..];
            let (consumed, event) = self.connection.read(available)?;
            assert!(consumed <= available.len());
            if let Some(event) = &event {
                self.act(event, available, heard);
            } else if consumed == 0 {
                return Ok(());
            }
            self.at += consumed;
        }
    }

    fn act(&mut self, event: &Event, available: &[u8], heard: &mut Heard) {
        match event {
            Event::Data { stream, data, end } => {
                let data = &available[data.clone()];
                heard.body.extend_from_slice(data);
                self.connection.release(*stream, data.len());
                heard.told.push(format!("{stream:?} {} {end}", data.len()));
                return;
            }
            Event::Request { stream, .. } => self.answer(*stream),
            Event::Refused { stream, fault } => {
                let head = ResponseHead::with_status(fault.status());
                self.connection.send_response(*stream, &head, Some(0), true);
            }
            Event::Response { .. } => self.connection.take_response(&mut self.response),
            Event::Trailers { .. } => self.connection.take_trailers(&mut self.trailers),
            Event::Reset { .. } | Event::GoAway { .. } | Event::Settings | Event::Pong => {}
        }
        heard.told.push(format!("{event:?}"));
    }

    fn answer(&mut self, stream: StreamId) {
        self.connection.take_request(&mut self.head);
        let text = self.head.fields.text().len();
        assert!(text <= self.connection.limits().head);
        if !self.answers {
            return self.connection.reset(stream, Code::RefusedStream);
        }
        self.connection.send_response(stream, &ResponseHead::with_status(Status::OK), None, false);
        self.connection.send_data(stream, &[7; 100], false);
        if text.is_multiple_of(2) {
            self.connection.send_trailers(stream, &self.trailers);
        }
    }
}

/// The defaults, or bounds so low that small inputs meet them.
fn limits(choice: u8) -> Limits {
    match choice % 2 {
        0 => Limits::default(),
        _ => Limits {
            streams: 2,
            head: 300,
            fields: 3,
            target: 8,
            trailers: 50,
            stream_window: u32::from(choice),
            grown_window: 500,
            connection_window: 1 << 16,
            output: 1000,
            flood_budget: 20,
        },
    }
}
