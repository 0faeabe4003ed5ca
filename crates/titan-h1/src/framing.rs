//! Message framing (RFC 9112 section 6): how long is this message? Pure; no I/O.
//!
//! [`of_request`] and [`of_response`] are the only places where this is decided.

use crate::error::Error;
use crate::facts::{Coding, Facts};
use crate::limits::Limits;
use titan_http::{BodyLength, Method, RequestHead, Status, Version};

/// How long a message's body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body and can be none.
    #[default]
    None,
    /// That many bytes.
    Length(u64),
    /// Chunks, each with its size, until the last one.
    Chunked,
    /// Everything until the peer closes. Responses only.
    UntilClose,
}

impl Framing {
    /// Whether no byte of a body follows the head.
    pub fn is_empty(self) -> bool {
        matches!(self, Framing::None | Framing::Length(0))
    }

    /// Refuses a body whose declared length is over the limit, before any of it is read.
    pub(crate) fn within(self, limits: &Limits) -> Result<Framing, Error> {
        match self {
            Framing::Length(length) if length > limits.body => Err(Error::BodyTooLong),
            _ => Ok(self),
        }
    }
}

impl From<Framing> for BodyLength {
    fn from(framing: Framing) -> BodyLength {
        match framing {
            Framing::None => BodyLength::None,
            Framing::Length(length) => BodyLength::Known(length),
            Framing::Chunked | Framing::UntilClose => BodyLength::Unknown,
        }
    }
}

/// How long the body of a request is: section 6.3, without the repairs it allows.
pub(crate) fn of_request(facts: &Facts, head: &RequestHead) -> Result<Framing, Error> {
    let has_body = facts.coding != Coding::None || facts.length.is_some_and(|length| length > 0);
    if has_body && head.method == Method::CONNECT {
        return Err(Error::ConnectWithBody);
    }
    match (declared(facts, head.version)?, facts.length) {
        (true, _) => Ok(Framing::Chunked),
        (false, Some(length)) => Ok(Framing::Length(length)),
        (false, None) => Ok(Framing::None),
    }
}

/// How long the body of a response to `method` is: section 6.3, without the repairs it allows.
pub(crate) fn of_response(
    facts: &Facts,
    version: Version,
    (method, status): (Method, Status),
) -> Result<Framing, Error> {
    let chunked = declared(facts, version)?;
    if status.is_informational() || status == Status::NO_CONTENT {
        // Servers do send a length of zero with 204. It cannot be misread.
        let is_empty_204 = status == Status::NO_CONTENT && facts.length == Some(0);
        return match chunked || facts.length.is_some() && !is_empty_204 {
            true => Err(Error::FramingForbidden),
            false => Ok(Framing::None),
        };
    }
    let bodiless = method == Method::HEAD
        || status == Status::NOT_MODIFIED
        || method == Method::CONNECT && status.is_success();
    match (chunked, facts.length) {
        _ if bodiless => Ok(Framing::None),
        (true, _) => Ok(Framing::Chunked),
        (false, Some(length)) => Ok(Framing::Length(length)),
        (false, None) => Ok(Framing::UntilClose),
    }
}

/// Whether the fields declare the chunked coding; a fault when they contradict each other.
fn declared(facts: &Facts, version: Version) -> Result<bool, Error> {
    if facts.coding == Coding::None {
        return Ok(false);
    }
    if facts.length.is_some() {
        return Err(Error::LengthAndCoding);
    }
    if version == Version::Http10 {
        return Err(Error::CodingInHttp10);
    }
    match facts.coding {
        Coding::Chunked => Ok(true),
        _ => Err(Error::CodingUnknown),
    }
}
