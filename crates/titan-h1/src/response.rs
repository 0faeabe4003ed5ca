//! Client role: the head of a response (RFC 9112 section 4), read as its bytes arrive.

use crate::error::Error;
use crate::facts::Facts;
use crate::framing;
use crate::framing::Framing;
use crate::limits::Limits;
use crate::lines::{Section, line_ends};
use crate::request::version;
use crate::scan::value_end;
use titan_http::{Fields, Method, ResponseHead, Span, Status};

/// Reads the heads of responses, one after the other, interim ones among them.
#[derive(Debug)]
pub struct ResponseReader {
    limits: Limits,
    stage: Stage,
    facts: Facts,
}

/// A complete head of a response, apart from the head itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseStart {
    /// How many bytes of the buffer the head took.
    pub consumed: usize,
    /// How long the body is that follows.
    pub framing: Framing,
    /// The length that `Content-Length` gives, also where there is no body: the response to a HEAD
    /// request and a 304 pass it on. None for 204, which has no length to pass on.
    pub declared_length: Option<u64>,
    /// Whether the connection may serve another request after this response.
    pub keep_alive: bool,
    /// Whether another response to the same request follows: 1xx, except 101.
    pub interim: bool,
}

/// What is being read. All numbers are offsets into the buffer; `at` is the first byte not looked at.
#[derive(Debug)]
enum Stage {
    Version { at: usize },
    Status,
    Reason { at: usize },
    Fields(Section),
}

/// Where the status code begins: behind `HTTP/1.1` and SP.
const CODE_AT: usize = 9;
/// Where the reason phrase begins: behind the code and SP.
const REASON_AT: usize = 13;

impl ResponseReader {
    /// A reader at the beginning of a head.
    pub fn new(limits: Limits) -> ResponseReader {
        let head = limits.head.min(Fields::MAX_TEXT);
        ResponseReader {
            limits: Limits { head, ..limits },
            stage: Stage::Version { at: 0 },
            facts: Facts::default(),
        }
    }

    /// Reads on. `buf` holds everything received since the head began: what it held at the last call,
    /// and more. `None` means that the head is not complete yet.
    ///
    /// `method` is that of the request that the response is to: whether there is a body depends on it. Once
    /// the head is complete, `head` owns a copy of its bytes, the buffer is free from `consumed` on,
    /// and the reader stands at the beginning of the next head.
    pub fn read(
        &mut self,
        buf: &[u8],
        method: Method,
        head: &mut ResponseHead,
    ) -> Result<Option<ResponseStart>, Error> {
        let text = &buf[..buf.len().min(self.limits.head)];
        match self.advance(text, head)? {
            Some(end) => self.finish(&text[..end], method, head).map(Some),
            None if buf.len() > self.limits.head => Err(Error::HeadTooLong),
            None => Ok(None),
        }
    }

    /// Forgets the head that was being read.
    pub fn reset(&mut self) {
        self.stage = Stage::Version { at: 0 };
        self.facts = Facts::default();
    }

    /// Whether a byte of a head has been read, and not its end.
    pub fn in_progress(&self) -> bool {
        !matches!(self.stage, Stage::Version { at: 0 })
    }

    /// Goes from stage to stage as far as the text allows; returns where the head ends.
    fn advance(&mut self, text: &[u8], head: &mut ResponseHead) -> Result<Option<usize>, Error> {
        loop {
            let next = match &mut self.stage {
                Stage::Version { at } => read_version(text, at, head)?,
                Stage::Status => read_status(text, head)?,
                Stage::Reason { at } => read_reason(text, at, head)?,
                Stage::Fields(section) => {
                    let facts = &mut self.facts;
                    let learn = |id, _: &[u8], value: &[u8]| {
                        facts.learn_from_response(id, value);
                        Ok(())
                    };
                    return section.read(text, self.limits.fields, &mut head.fields, learn);
                }
            };
            match next {
                Some(stage) => self.stage = stage,
                None => return Ok(None),
            }
        }
    }

    /// The head is complete: what its parts say together.
    fn finish(
        &mut self,
        text: &[u8],
        method: Method,
        head: &mut ResponseHead,
    ) -> Result<ResponseStart, Error> {
        head.fields.push_text(text).map_err(|_| Error::HeadTooLong)?;
        let exchange = (method, head.status);
        self.facts.check()?;
        let framing = framing::of_response(&self.facts, head.version, exchange)?;
        let framing = framing.within(&self.limits)?;
        let start = ResponseStart {
            consumed: text.len(),
            framing,
            declared_length: self.facts.length.filter(|_| head.status != Status::NO_CONTENT),
            keep_alive: framing != Framing::UntilClose
                && !leaves_http(exchange)
                && self.facts.persists(head.version),
            interim: head.status.is_informational() && head.status != Status::SWITCHING_PROTOCOLS,
        };
        self.reset();
        Ok(start)
    }
}

/// Whether what follows the head is no longer HTTP/1.1.
fn leaves_http((method, status): (Method, Status)) -> bool {
    status == Status::SWITCHING_PROTOCOLS || method == Method::CONNECT && status.is_success()
}

fn read_version(
    text: &[u8],
    at: &mut usize,
    head: &mut ResponseHead,
) -> Result<Option<Stage>, Error> {
    let Some(version) = version(text, 0, at)? else { return Ok(None) };
    head.clear();
    head.version = version.ok_or(Error::VersionNotServed)?;
    Ok(Some(Stage::Status))
}

/// SP and three digits; what follows them is left to the reason phrase.
fn read_status(text: &[u8], head: &mut ResponseHead) -> Result<Option<Stage>, Error> {
    let mut code = 0;
    for at in CODE_AT - 1..REASON_AT - 1 {
        match text.get(at) {
            None => return Ok(None),
            Some(b' ') if at < CODE_AT => {}
            Some(digit @ b'0'..=b'9') if at >= CODE_AT => {
                code = code * 10 + u16::from(digit - b'0');
            }
            Some(_) => return Err(Error::StatusLine),
        }
    }
    head.status = Status::from_code(code).ok_or(Error::StatusCode)?;
    Ok(Some(Stage::Reason { at: REASON_AT - 1 }))
}

/// The SP and the reason phrase. A server that leaves both out is understood.
fn read_reason(
    text: &[u8],
    at: &mut usize,
    head: &mut ResponseHead,
) -> Result<Option<Stage>, Error> {
    match text.get(REASON_AT - 1) {
        Some(b' ' | b'\r' | b'\n') | None => {}
        Some(_) => return Err(Error::StatusLine),
    }
    *at = value_end(text, *at);
    if !line_ends(text, *at, Error::ReasonByte)? {
        return Ok(None);
    }
    head.reason = Span::new(REASON_AT.min(*at), *at);
    Ok(Some(Stage::Fields(Section::at(*at + 2))))
}
