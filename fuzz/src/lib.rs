//! What is fuzzed. Each target takes any bytes and panics when the engine contradicts itself.
//!
//! The first bytes of the data choose limits, role and splits; the rest is what the peer sends.
//!
//! | targets | what must hold, beside bounds |
//! |---|---|
//! | `head`, `chunked`, `connection`, `h2`, `h3`, `h3_frames`, `qpack`, `hello`, `admin` | the same however the bytes are split |
//! | `head`, `chunked`, `qpack`, `proxy_protocol`, `web_text`, `token` | what was read can be written, and reads the same again |
//! | `values` | each value says what it says by itself, and what is added counts as it must |
//! | `path`, `range`, `web_text`, `token` | the same as a plain reading of the rules |
//! | `path`, `template` | a result is in its normal form, and no request decides more of it than it may |
//! | `proxy_protocol`, `compressed` | decided once and for all; the same whatever pieces and room there are |
//! | `config`, `rule` | read or refused; what was read is evaluated the same each time, and uses nothing that it does not name |
//! | `hpack`, `h2_exchanges` | the same as another implementation |

#![forbid(unsafe_code)]
// Its tests are those of `tests/`: what is compiled in here from other crates has its own there.
#![cfg(not(test))]

mod choices;

pub mod admin;
pub mod compressed;
pub mod config;
pub mod h2;
pub mod h2_exchanges;
pub mod h3;
pub mod h3_connection;
pub mod hello;
pub mod hpack;
pub mod path;
pub mod proxy_protocol;
pub mod qpack;
pub mod range;
pub mod rule;
pub mod template;
pub mod token;
pub mod values;
pub mod web_text;

pub use choices::CHOICES;

use std::ops::Range;
use titan_h1::{
    Body, BodyReader, CHUNK_END, Connection, Error, Framing, Limits, RequestReader, ResponseReader,
    write_chunk_head, write_last_chunk, write_request, write_response,
};
use titan_http::{FieldName, Fields, Method, RequestHead, ResponseHead};

/// A head is judged alike whole and split, and what is accepted reads back as it was after being
/// written anew.
pub fn head(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let limits = limits(choices[0]);
    let at = usize::from(u16::from_le_bytes([choices[1], choices[2]])) % (input.len() + 1);
    match choices[3] % 4 {
        0 => request_head(input, at, limits),
        1 => response_head(input, at, limits, Method::GET),
        2 => response_head(input, at, limits, Method::HEAD),
        _ => response_head(input, at, limits, Method::CONNECT),
    }
}

/// A chunked body has the same data and the same end however it is split, and after being written anew.
pub fn chunked(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let limits = limits(choices[0]);
    let whole = body(input, input.len().max(1), &limits);
    let split = body(input, usize::from(choices[1]) % 7 + 1, &limits);
    assert_eq!(whole.outcome, split.outcome);
    if whole.outcome.is_ok() {
        assert_eq!((&whole.data, &whole.trailers), (&split.data, &split.trailers));
    }
    if whole.outcome == Ok(true) {
        let written = rewrite(&whole, usize::from(choices[2]) + 1);
        let again = body(&written, written.len(), &Limits::default());
        assert_eq!(again.outcome, Ok(true));
        assert_eq!((again.data, again.trailers), (whole.data, whole.trailers));
    }
}

/// A connection serves the same requests and ends with the same fault however its bytes are split.
pub fn connection(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let limits = limits(choices[0]);
    let whole = serve(input, input.len().max(1), limits);
    let split = serve(input, usize::from(choices[1]) % 23 + 1, limits);
    let by_byte = serve(input, 1, limits);
    assert_eq!(whole, split);
    assert_eq!(whole, by_byte);
}

/// The defaults, or bounds so low that small inputs meet them.
fn limits(choice: u8) -> Limits {
    match choice % 2 {
        0 => Limits { body: 1 << 20, ..Limits::default() },
        _ => Limits {
            head: 64 + usize::from(choice),
            target: 8,
            fields: 3,
            chunk_line: 8,
            trailers: 16,
            drops_trailers: choice % 4 == 3,
            body: 16,
        },
    }
}

fn request_head(input: &[u8], at: usize, limits: Limits) {
    let (mut whole, mut split) = (RequestHead::default(), RequestHead::default());
    let outcome = RequestReader::new(limits).read(input, &mut whole);
    let mut reader = RequestReader::new(limits);
    let early = reader.read(&input[..at], &mut split);
    let late = match early {
        Ok(None) => reader.read(input, &mut split),
        decided => decided,
    };
    assert_eq!(outcome, late);
    let Ok(Some(start)) = outcome else { return };
    assert_eq!(lines(&whole.fields), lines(&split.fields));
    let Some(host) = whole.authority() else { return };

    let mut written = Vec::new();
    write_request(&mut written, &whole, host, sent_as(start.framing), Connection::KeepAlive);
    let mut again = RequestHead::default();
    let outcome = RequestReader::new(Limits::default()).read(&written, &mut again);
    let restart = outcome.expect("what is written is valid").expect("and complete");
    assert_eq!(restart.consumed, written.len());
    assert_eq!((again.method, again.query()), (whole.method, whole.query()));
    assert_eq!(end_to_end(&again.fields), end_to_end(&whole.fields));
    assert_eq!(restart.framing.is_empty(), start.framing.is_empty());
}

fn response_head(input: &[u8], at: usize, limits: Limits, method: Method) {
    let (mut whole, mut split) = (ResponseHead::default(), ResponseHead::default());
    let outcome = ResponseReader::new(limits).read(input, method, &mut whole);
    let mut reader = ResponseReader::new(limits);
    let early = reader.read(&input[..at], method, &mut split);
    let late = match early {
        Ok(None) => reader.read(input, method, &mut split),
        decided => decided,
    };
    assert_eq!(outcome, late);
    let Ok(Some(start)) = outcome else { return };
    assert_eq!(lines(&whole.fields), lines(&split.fields));

    let mut written = Vec::new();
    write_response(&mut written, &whole, sent_as(start.framing), Connection::KeepAlive);
    let mut again = ResponseHead::default();
    let outcome = ResponseReader::new(Limits::default()).read(&written, method, &mut again);
    let restart = outcome.expect("what is written is valid").expect("and complete");
    assert_eq!((restart.consumed, restart.framing), (written.len(), start.framing));
    assert_eq!((again.status, again.reason()), (whole.status, whole.reason()));
    assert_eq!(end_to_end(&again.fields), end_to_end(&whole.fields));
}

fn sent_as(framing: Framing) -> Body {
    match framing {
        Framing::None => Body::None,
        Framing::Length(length) => Body::Length(length),
        Framing::Chunked => Body::Chunked,
        Framing::UntilClose => Body::UntilClose,
    }
}

fn lines(fields: &Fields) -> Vec<(&[u8], &[u8])> {
    fields.iter().map(|field| (field.name, field.value)).collect()
}

/// The lines that are not the encoder's own.
fn end_to_end(fields: &Fields) -> Vec<(&[u8], &[u8])> {
    use FieldName::{Connection, ContentLength, Host, TransferEncoding};
    let is_own = |id| matches!(id, Host | ContentLength | TransferEncoding | Connection);
    let others = fields.iter().filter(|field| !is_own(field.id));
    others.map(|field| (field.name, field.value)).collect()
}

/// What a body came to: done, unfinished or refused.
struct Decoded {
    outcome: Result<bool, Error>,
    data: Vec<u8>,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

fn body(input: &[u8], step: usize, limits: &Limits) -> Decoded {
    let mut reader = BodyReader::new(Framing::Chunked, limits);
    let mut decoded = Decoded { outcome: Ok(false), data: Vec::new(), trailers: Vec::new() };
    let (mut at, mut received) = (0, 0);
    while received < input.len() && decoded.outcome == Ok(false) {
        received = input.len().min(received + step);
        decoded.outcome = drain(&mut reader, input, &mut at, received, &mut decoded.data);
    }
    if decoded.outcome == Ok(true) {
        let fields = reader.trailers().iter();
        decoded.trailers = fields.map(|it| (it.name.to_vec(), it.value.to_vec())).collect();
    }
    decoded
}

/// Reads `input[*at..received]` until nothing more comes of it; answers whether the body is done.
fn drain(
    reader: &mut BodyReader,
    input: &[u8],
    at: &mut usize,
    received: usize,
    data: &mut Vec<u8>,
) -> Result<bool, Error> {
    loop {
        let available = &input[*at..received];
        let piece = reader.read(available)?;
        let Range { start, end } = piece.data;
        assert!(start <= end && end <= piece.consumed && piece.consumed <= available.len());
        data.extend_from_slice(&available[start..end]);
        *at += piece.consumed;
        if piece.done || piece.consumed == 0 {
            return Ok(piece.done);
        }
    }
}

fn rewrite(decoded: &Decoded, chunk: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for data in decoded.data.chunks(chunk) {
        write_chunk_head(&mut out, data.len());
        out.extend_from_slice(data);
        out.extend_from_slice(CHUNK_END);
    }
    let mut trailers = Fields::default();
    for (name, value) in &decoded.trailers {
        trailers.append_named(name, value).expect("what was read can be written");
    }
    write_last_chunk(&mut out, &trailers);
    out
}

/// What a server made of a connection: its requests, and how it stands at the end.
#[derive(Debug, Default, PartialEq, Eq)]
struct Served {
    requests: Vec<(Vec<u8>, Vec<u8>)>,
    fault: Option<Error>,
    closed: bool,
}

/// Serves `input` as it comes in steps of so many bytes, with readers that are reused throughout.
fn serve(input: &[u8], step: usize, limits: Limits) -> Served {
    let mut server = Server {
        heads: RequestReader::new(limits),
        head: RequestHead::default(),
        body: BodyReader::new(Framing::None, &limits),
        pending: None,
        at: 0,
        served: Served::default(),
    };
    let mut received = 0;
    while received < input.len() && server.served.fault.is_none() && !server.served.closed {
        received = input.len().min(received + step);
        server.served.fault = server.receive(input, received).err();
    }
    server.served
}

struct Server {
    heads: RequestReader,
    head: RequestHead,
    body: BodyReader,
    /// The request whose body is being read, and whether the connection goes on after it.
    pending: Option<(Vec<u8>, bool)>,
    at: usize,
    served: Served,
}

impl Server {
    fn receive(&mut self, input: &[u8], received: usize) -> Result<(), Error> {
        while !self.served.closed {
            if self.pending.is_none() {
                let buf = &input[self.at..received];
                let Some(start) = self.heads.read(buf, &mut self.head)? else { return Ok(()) };
                self.at += start.consumed;
                self.body.reset(start.framing);
                self.pending = Some((self.head.fields.text().to_vec(), start.keep_alive));
                self.served.requests.push(Default::default());
            }
            let (_, data) = self.served.requests.last_mut().expect("one is pending");
            if !drain(&mut self.body, input, &mut self.at, received, data)? {
                return Ok(());
            }
            let (text, keep_alive) = self.pending.take().expect("one is pending");
            self.served.requests.last_mut().expect("it was pending").0 = text;
            self.served.closed = !keep_alive;
        }
        Ok(())
    }
}
