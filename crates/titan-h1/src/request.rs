//! Server role: the head of a request (RFC 9112 section 3), read as its bytes arrive.
//!
//! ```text
//! Begin -> Method -> Target -> Version -> Fields -> (complete, and at Begin again)
//! ```

use crate::error::Error;
use crate::facts::{Expectation, Facts};
use crate::framing;
use crate::framing::Framing;
use crate::limits::Limits;
use crate::lines::{Section, line_ends};
use crate::scan::{target_end, token_end};
use crate::target;
use titan_http::{Authority, FieldName, Fields, Method, RequestHead, TargetForm, Version};

/// Reads the heads of requests, one after the other.
///
/// A head is read in one pass: no byte is looked at again because more have arrived, so a peer that
/// sends its head byte for byte costs no more than one that sends it at once.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    stage: Stage,
    /// Where the request line begins: behind the empty line, if there is one.
    start: usize,
    facts: Facts,
}

/// A complete head of a request, apart from the head itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestStart {
    /// How many bytes of the buffer the head took.
    pub consumed: usize,
    /// How long the body is that follows.
    pub framing: Framing,
    /// Whether the connection may serve another request after this one.
    pub keep_alive: bool,
    /// Whether the client waits for 100 (Continue) before it sends the body.
    pub expect_continue: bool,
}

/// What is being read. All numbers are offsets into the buffer; `at` is the first byte not looked at.
#[derive(Debug)]
enum Stage {
    Begin,
    Method { at: usize },
    Target { start: usize, at: usize },
    Version { target: (usize, usize), at: usize },
    Fields(Section),
}

impl RequestReader {
    /// A reader at the beginning of a head.
    pub fn new(limits: Limits) -> RequestReader {
        let head = limits.head.min(Fields::MAX_TEXT);
        RequestReader {
            limits: Limits { head, ..limits },
            stage: Stage::Begin,
            start: 0,
            facts: Facts::default(),
        }
    }

    /// Reads on. `buf` holds everything received since the head began: what it held at the last call,
    /// and more. `None` means that the head is not complete yet.
    ///
    /// Once it is, `head` owns a copy of its bytes, the buffer is free from `consumed` on, and the
    /// reader stands at the beginning of the next head. Until then `head` is not to be looked at. After a fault it
    /// has the fields in front of that.
    pub fn read(
        &mut self,
        buf: &[u8],
        head: &mut RequestHead,
    ) -> Result<Option<RequestStart>, Error> {
        if let Stage::Begin = self.stage
            && !self.begin(buf, head)?
        {
            return Ok(None);
        }
        // Only what is within the limit is judged: so the verdict is the same whether what lies beyond has arrived
        // already or not.
        let limit = self.start + self.limits.head;
        let text = &buf[..buf.len().min(limit)];
        let fault = match self.advance(text, head) {
            Ok(Some(end)) => return self.finish(&text[..end], head).map(Some),
            Ok(None) if buf.len() <= limit => return Ok(None),
            Ok(None) => Error::HeadTooLong,
            Err(fault) => fault,
        };
        // The fields are offsets into it.
        head.fields.push_text(text).map_err(|_| fault)?;
        Err(fault)
    }

    /// Forgets the head that was being read.
    pub fn reset(&mut self) {
        self.stage = Stage::Begin;
        self.start = 0;
        self.facts = Facts::default();
    }

    /// Whether a head has begun and not ended. The empty line before a request does not begin one.
    pub fn in_progress(&self) -> bool {
        match self.stage {
            Stage::Begin => false,
            Stage::Method { at } => at > self.start,
            _ => true,
        }
    }

    /// The limits that the heads are held to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Skips the one empty line that a client may send after the body before (RFC 9112 section 2.2).
    /// Returns whether a request line has begun.
    fn begin(&mut self, buf: &[u8], head: &mut RequestHead) -> Result<bool, Error> {
        self.start = match buf {
            [] => return Ok(false),
            [b'\r', ..] if !line_ends(buf, 0, Error::BareCr)? => return Ok(false),
            [b'\r', ..] => 2,
            _ => 0,
        };
        head.clear();
        self.stage = Stage::Method { at: self.start };
        Ok(true)
    }

    /// Goes from stage to stage as far as the text allows; returns where the head ends.
    fn advance(&mut self, text: &[u8], head: &mut RequestHead) -> Result<Option<usize>, Error> {
        loop {
            let next = match &mut self.stage {
                Stage::Begin => return Ok(None),
                Stage::Method { at } => read_method(text, self.start, at, head)?,
                Stage::Target { start, at } => read_target(text, *start, at, self.limits.target)?,
                Stage::Version { target, at } => read_version(text, *target, at, head)?,
                Stage::Fields(section) => {
                    let facts = &mut self.facts;
                    let learn = |id, _: &[u8], value: &[u8]| {
                        facts.learn_from_request(id, value);
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

    /// The head is complete: what its parts say together. Of several faults the first in this order
    /// counts: those of 400, then 501, 417 and 413.
    fn finish(&mut self, text: &[u8], head: &mut RequestHead) -> Result<RequestStart, Error> {
        head.fields.push_text(text).map_err(|_| Error::HeadTooLong)?;
        let facts = &self.facts;
        facts.check()?;
        check_host(head, facts.has_host)?;
        let framing = framing::of_request(facts, head)?;
        if facts.expectation == Expectation::Unknown {
            return Err(Error::Expectation);
        }
        let framing = framing.within(&self.limits)?;
        let start = RequestStart {
            consumed: text.len(),
            framing,
            keep_alive: facts.persists(head.version) && head.method != Method::CONNECT,
            expect_continue: facts.expectation == Expectation::Continue
                && head.version != Version::Http10
                && !framing.is_empty(),
        };
        self.reset();
        Ok(start)
    }
}

fn read_method(
    text: &[u8],
    start: usize,
    at: &mut usize,
    head: &mut RequestHead,
) -> Result<Option<Stage>, Error> {
    let longest = text.len().min(start + Method::MAX_LEN + 1);
    *at = token_end(&text[..longest], *at);
    if *at - start > Method::MAX_LEN {
        return Err(Error::MethodTooLong);
    }
    match text.get(*at) {
        None => Ok(None),
        Some(b' ') => {
            head.method = Method::parse(&text[start..*at]).ok_or(Error::Method)?;
            Ok(Some(Stage::Target { start: *at + 1, at: *at + 1 }))
        }
        Some(b'\n') => Err(Error::BareLf),
        Some(b'\r') if *at == start => Err(Error::EmptyLines),
        Some(_) => Err(Error::Method),
    }
}

fn read_target(
    text: &[u8],
    start: usize,
    at: &mut usize,
    limit: usize,
) -> Result<Option<Stage>, Error> {
    let longest = text.len().min(start.saturating_add(limit).saturating_add(1));
    *at = target_end(&text[..longest], *at);
    if *at - start > limit {
        return Err(Error::TargetTooLong);
    }
    match text.get(*at) {
        None => Ok(None),
        Some(b' ' | b'\r') if *at == start => Err(Error::NoTarget),
        Some(b' ') => Ok(Some(Stage::Version { target: (start, *at), at: *at + 1 })),
        Some(b'\n') => Err(Error::BareLf),
        Some(b'\r') => Err(Error::Version),
        Some(_) => Err(Error::TargetByte),
    }
}

/// Reads the version, and then judges the target: whether it is in order depends on the version.
fn read_version(
    text: &[u8],
    target: (usize, usize),
    at: &mut usize,
    head: &mut RequestHead,
) -> Result<Option<Stage>, Error> {
    let start = target.1 + 1;
    let Some(version) = version(text, start, at)? else { return Ok(None) };
    if !line_ends(text, *at, Error::Version)? {
        return Ok(None);
    }
    head.version = version.ok_or(Error::VersionNotServed)?;
    head.target = target::parse(text, target, head.method)?;
    Ok(Some(Stage::Fields(Section::at(*at + 2))))
}

/// Reads `HTTP/` DIGIT `.` DIGIT from `start`; `Some(None)` is a version other than 1.x.
pub(crate) fn version(
    text: &[u8],
    start: usize,
    at: &mut usize,
) -> Result<Option<Option<Version>>, Error> {
    const PATTERN: &[u8; 8] = b"HTTP/0.0";
    if *at == start && text[start..].starts_with(b"HTTP/1.1") {
        *at = start + PATTERN.len();
        return Ok(Some(Some(Version::Http11)));
    }
    while *at < start + PATTERN.len() {
        let Some(&byte) = text.get(*at) else { return Ok(None) };
        match PATTERN[*at - start] {
            b'0' if byte.is_ascii_digit() => *at += 1,
            expected if byte == expected && expected != b'0' => *at += 1,
            _ if byte == b'\n' => return Err(Error::BareLf),
            _ => return Err(Error::Version),
        }
    }
    Ok(Some(match (text[start + 5], text[start + 7]) {
        (b'1', b'0') => Some(Version::Http10),
        (b'1', _) => Some(Version::Http11),
        _ => None,
    }))
}

/// RFC 9112 section 3.2: a `Host` in HTTP/1.1, and not another one than an absolute-form target has.
/// With CONNECT the target alone decides.
fn check_host(head: &RequestHead, has_host: bool) -> Result<(), Error> {
    if !has_host {
        return match head.version {
            Version::Http10 => Ok(()),
            _ => Err(Error::NoHost),
        };
    }
    match head.target.form {
        TargetForm::Authority => Ok(()),
        _ if head.target.authority.is_empty() => Ok(()),
        TargetForm::Origin | TargetForm::Absolute | TargetForm::Asterisk => compare_host(head),
    }
}

fn compare_host(head: &RequestHead) -> Result<(), Error> {
    let text = head.fields.text();
    let host = head.fields.get(FieldName::Host).and_then(|host| Authority::parse(host).ok());
    let target = Authority::parse(head.target.authority.of(text)).ok();
    match (host, target) {
        (Some(host), Some(target)) if same(host, target) => Ok(()),
        _ => Err(Error::HostDiffers),
    }
}

fn same(host: Authority<'_>, target: Authority<'_>) -> bool {
    host.host.eq_ignore_ascii_case(target.host) && host.port == target.port
}
