//! What both sides do, chosen by bytes.

use titan_h2::{Code, Limits};

/// A connection and its exchanges.
pub(super) struct Script {
    /// Bytes that are under way at most.
    pub(super) buffer: usize,
    /// The client's settings.
    pub(super) window: u32,
    pub(super) table: u32,
    pub(super) frame: u32,
    /// Whether the server's bounds are so low that bodies meet them.
    is_narrow: bool,
    pub(super) exchanges: Vec<Exchange>,
}

/// A request and its response.
pub(super) struct Exchange {
    pub(super) method: http::Method,
    pub(super) request: Message,
    pub(super) response: Message,
    pub(super) status: u16,
    pub(super) ends: Ends,
    /// Whether the response is sent at once, rather than behind the request.
    pub(super) is_early: bool,
    /// Whether the next exchange waits for the end of one.
    pub(super) is_awaited: bool,
}

/// How an exchange ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Whole,
    /// The client gives up behind the body of its request.
    GivenUp,
    /// The server resets the stream when it has the head.
    Reset(Code),
}

/// What belongs to a message behind its first line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) fields: Vec<Line>,
    pub(super) body: Vec<u8>,
    /// None without any.
    pub(super) trailers: Vec<Line>,
}

/// A field.
pub(super) type Line = (&'static str, Vec<u8>);

/// What the client has got.
#[derive(Debug)]
pub(super) enum Outcome {
    Response(u16, Message),
    Reset(u32),
    GaveUp,
}

/// What the server has got of a request.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) message: Message,
    pub(super) is_whole: bool,
    pub(super) is_reset: bool,
}

/// Fields that both sides take as they are; the first two may be trailers.
const NAMES: [&str; 6] = ["x-a", "x-b", "accept", "user-agent", "authorization", "etag"];
const MOST_EXCHANGES: u8 = 8;

impl Script {
    pub(super) fn of(data: &[u8]) -> Script {
        let mut choices = Choices(data);
        Script {
            buffer: [17, 300, 5000, 1 << 16][choices.below(4)],
            // Smaller ones make so much work of so few bytes that they are taken for a flood.
            window: [300, 1000, 65_535, 1 << 20][choices.below(4)],
            table: [0, 100, 4096, 1 << 16][choices.below(4)],
            frame: [16_384, 20_000][choices.below(2)],
            is_narrow: choices.below(2) == 1,
            exchanges: (0..choices.next() % MOST_EXCHANGES + 1)
                .map(|_| Exchange::of(&mut choices))
                .collect(),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        match self.is_narrow {
            false => Limits::default(),
            true => Limits {
                streams: 2,
                stream_window: 50,
                grown_window: 500,
                output: 1000,
                ..Limits::default()
            },
        }
    }
}

impl Exchange {
    fn of(choices: &mut Choices<'_>) -> Exchange {
        let methods =
            [http::Method::GET, http::Method::POST, http::Method::HEAD, http::Method::PUT];
        let method = methods[choices.below(4)].clone();
        let status = [200, 404, 500, 204, 304][choices.below(5)];
        let kind = choices.next();
        let (request, mut response) = (Message::of(choices), Message::of(choices));
        if method == http::Method::HEAD || matches!(status, 204 | 304) {
            response = Message { fields: response.fields, ..Message::default() };
        }
        let codes = [Code::RefusedStream, Code::InternalError, Code::Http11Required];
        let ends = match kind % 8 {
            0 => Ends::GivenUp,
            1 => Ends::Reset(codes[usize::from(kind / 8) % codes.len()]),
            _ => Ends::Whole,
        };
        let (is_early, is_awaited) = (kind & 0x40 != 0, kind & 0x80 != 0);
        Exchange { method, request, response, status, ends, is_early, is_awaited }
    }

    /// Judges what the server has seen, if anything.
    pub(super) fn judge_request(&self, seen: Option<&Seen>) {
        let Some(seen) = seen else { return assert_ne!(self.ends, Ends::Whole) };
        let Seen { method, message, is_whole, is_reset } = seen;
        assert_eq!(method, self.method.as_str());
        assert_eq!(message.fields, self.request.fields);
        match self.ends {
            Ends::Whole => assert!(is_whole, "the request was not complete"),
            Ends::GivenUp => assert!(is_whole | is_reset, "nobody has told the server"),
            Ends::Reset(_) => {}
        }
        match is_whole {
            true => assert_eq!(*message, self.request),
            false => assert!(self.request.body.starts_with(&message.body)),
        }
    }

    /// Judges what the client has got.
    pub(super) fn judge_response(&self, outcome: &Outcome) {
        match (self.ends, outcome) {
            (Ends::Whole, Outcome::Response(status, message)) => {
                assert_eq!((*status, message), (self.status, &self.response));
            }
            (Ends::Reset(code), Outcome::Reset(number)) => assert_eq!(code.number(), *number),
            (Ends::GivenUp, Outcome::GaveUp) => {}
            (ends, outcome) => panic!("{ends:?} became {outcome:?}"),
        }
    }
}

impl Message {
    fn of(choices: &mut Choices<'_>) -> Message {
        let fields = lines(&NAMES, choices);
        let size = usize::from(choices.next());
        let length = [0, size, size * 16, size * 300][choices.below(4)];
        let body = (0..length).map(|at| ((at * 31) ^ (at >> 8) ^ size) as u8).collect();
        let trailers = if choices.below(3) == 0 { lines(&NAMES[..2], choices) } else { Vec::new() };
        Message { fields, body, trailers }
    }
}

/// Lines of one name stay in their order; among names there is none.
fn lines(names: &[&'static str], choices: &mut Choices<'_>) -> Vec<Line> {
    let count = choices.below(6);
    let mut lines: Vec<Line> = (0..count).map(|_| line(names, choices)).collect();
    lines.sort_by_key(|(name, _)| *name);
    lines
}

fn line(names: &[&'static str], choices: &mut Choices<'_>) -> Line {
    let name = names[choices.below(names.len())];
    let (byte, length) = (choices.next(), choices.next());
    // What no field may hold, and white space at the ends, is another byte.
    let byte = if matches!(byte, 0..0x21 | 0x7f) { b'a' } else { byte };
    (name, vec![byte; length.into()])
}

/// The name among those that are used here.
pub(super) fn known(name: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|it| *it == name)
}

/// Bytes that choose; behind the last one all are zero.
struct Choices<'d>(&'d [u8]);

impl Choices<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, end: usize) -> usize {
        usize::from(self.next()) % end
    }
}
