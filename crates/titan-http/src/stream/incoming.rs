//! How far a message has come on a stream, and whether what its head declares is what follows (RFC 9113 section 8.1, RFC 9114
//! section 4.1).

use crate::method::Method;
use crate::section::{Fault, RequestFacts, ResponseFacts};
use crate::status::Status;
use crate::text::Span;

/// Interim responses that a request may lead to: more than most do, and no more than anyone passes on.
pub const FREE_INTERIM: u8 = 16;

/// A request, apart from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestStart {
    /// Whether there is no body.
    pub end: bool,
    /// The length of the body, where `content-length` declares it. It is enforced.
    pub length: Option<u64>,
    /// Whether the client waits for 100 (Continue).
    pub expect_continue: bool,
    /// `:protocol` of an extended CONNECT (RFC 8441, RFC 9220), in the text of the head's fields.
    pub protocol: Option<Span>,
    /// Whether `:scheme` is `https`.
    pub is_https: bool,
}

/// A response, apart from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseStart {
    /// Whether it is interim (1xx): another one follows.
    pub interim: bool,
    /// Whether there is no body.
    pub end: bool,
    /// The length of the body, where `content-length` declares it. It is enforced, except for responses to HEAD
    /// and with status 304, whose declared length is that of a body that stays away.
    pub length: Option<u64>,
}

/// How far a message in one direction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Half {
    /// Its head, or the final one of several, is still to come.
    #[default]
    Head,
    /// Body or trailers are still to come.
    Body,
    /// It is complete.
    Done,
}

/// The kind of request of a stream, as far as its response depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestKind {
    /// The response is what it says.
    #[default]
    Any,
    /// HEAD: the response has no body, whatever it declares.
    Head,
    /// CONNECT: a successful response has no length.
    Connect,
}

/// A message that comes in.
#[derive(Debug, Default)]
pub struct Incoming {
    half: Half,
    /// What of the body is still to come.
    rest: Rest,
    /// What the request was, if this is the response to it.
    asked: RequestKind,
    /// Interim responses that have come.
    interim: u8,
}

/// What of a body is still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rest {
    /// Its length was not declared.
    #[default]
    Any,
    /// What the head declares, without what has come.
    Bytes(u64),
    /// There can be none.
    Nothing,
}

impl RequestKind {
    /// That of a request with this method.
    pub fn by(method: Method) -> RequestKind {
        match method {
            Method::HEAD => RequestKind::Head,
            Method::CONNECT => RequestKind::Connect,
            _ => RequestKind::Any,
        }
    }
}

impl Incoming {
    /// A request whose head is being read.
    pub fn request() -> Incoming {
        Incoming::default()
    }

    /// The response to such a request, of which nothing has come.
    pub fn response(asked: RequestKind) -> Incoming {
        Incoming { asked, ..Incoming::default() }
    }

    /// How far it is.
    #[inline]
    pub fn half(&self) -> Half {
        self.half
    }

    /// Whether a response is to a request with HEAD.
    pub fn is_of_head(&self) -> bool {
        self.asked == RequestKind::Head
    }

    /// How many interim responses have come.
    pub fn interim(&self) -> u8 {
        self.interim
    }

    /// The head of the request has been read; with `end` it is the whole request.
    ///
    /// # Errors
    ///
    /// A body was declared, and there is none.
    pub fn begin_request(&mut self, facts: RequestFacts, end: bool) -> Result<RequestStart, Fault> {
        let RequestFacts { length, expect_continue, protocol, is_https } = facts;
        self.rest = length.map_or(Rest::Any, Rest::Bytes);
        self.half = Half::Body;
        if end {
            self.end()?;
        }
        Ok(RequestStart { end, length, expect_continue, protocol, is_https })
    }

    /// The head of a request was refused: what follows is of no interest.
    pub fn begin_refused(&mut self, end: bool) {
        self.rest = Rest::Any;
        self.half = if end { Half::Done } else { Half::Body };
    }

    /// The head of a response has been read, interim or final; with `end` it is all that comes.
    ///
    /// # Errors
    ///
    /// A body was declared and there is none, or nothing follows an interim response.
    pub fn begin_response(
        &mut self,
        facts: ResponseFacts,
        status: Status,
        end: bool,
    ) -> Result<ResponseStart, Fault> {
        let is_tunnel = self.asked == RequestKind::Connect && status.is_success();
        let length = facts.length.filter(|_| !is_tunnel);
        let start = ResponseStart { interim: facts.interim, end, length };
        if facts.interim {
            self.interim = self.interim.saturating_add(1);
            return if end { Err(Fault::InterimLast) } else { Ok(start) };
        }
        self.half = Half::Body;
        self.rest = match facts.has_no_body {
            true => Rest::Nothing,
            false => length.map_or(Rest::Any, Rest::Bytes),
        };
        if end {
            self.end()?;
        }
        Ok(start)
    }

    /// So much of the body has come; with `end` it is the last.
    ///
    /// # Errors
    ///
    /// It is not what the head declares, or comes where none can.
    #[inline]
    pub fn take(&mut self, length: u64, end: bool) -> Result<(), Fault> {
        match self.half {
            Half::Done => return Err(Fault::StreamClosed),
            Half::Head => return Err(Fault::NoHead),
            Half::Body => {}
        }
        match &mut self.rest {
            Rest::Any => {}
            Rest::Nothing if length > 0 => return Err(Fault::BodyForbidden),
            Rest::Nothing => {}
            Rest::Bytes(rest) => {
                *rest = rest.checked_sub(length).ok_or(Fault::BodyTooLong)?;
            }
        }
        if end { self.end() } else { Ok(()) }
    }

    /// Nothing more of it comes.
    ///
    /// # Errors
    ///
    /// Less has come of the body than the head declares.
    pub fn end(&mut self) -> Result<(), Fault> {
        if matches!(self.rest, Rest::Bytes(1..)) {
            return Err(Fault::BodyTooShort);
        }
        self.half = Half::Done;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(length: Option<u64>) -> RequestFacts {
        RequestFacts { length, expect_continue: false, protocol: None, is_https: true }
    }

    #[test]
    fn a_body_is_as_long_as_its_head_says() {
        let begun = |length| {
            let mut incoming = Incoming::request();
            incoming.begin_request(request(length), false).unwrap();
            incoming
        };
        assert_eq!(begun(Some(3)).take(4, true), Err(Fault::BodyTooLong));
        assert_eq!(begun(Some(3)).take(2, true), Err(Fault::BodyTooShort));
        assert_eq!(begun(Some(3)).end(), Err(Fault::BodyTooShort));
        assert_eq!(
            Incoming::request().begin_request(request(Some(1)), true),
            Err(Fault::BodyTooShort)
        );
        assert_eq!(Incoming::request().take(1, false), Err(Fault::NoHead));
        let mut whole = begun(Some(3));
        assert_eq!((whole.take(2, false), whole.take(1, true)), (Ok(()), Ok(())));
        assert_eq!((whole.half(), whole.take(0, true)), (Half::Done, Err(Fault::StreamClosed)));
        assert_eq!(begun(None).take(u64::MAX, true), Ok(()));
    }

    #[test]
    fn what_a_response_may_have_depends_on_the_request() {
        let facts = |interim, has_no_body| ResponseFacts { interim, length: Some(5), has_no_body };
        let begin = |asked, facts, end| {
            let mut incoming = Incoming::response(asked);
            let start = incoming.begin_response(facts, Status::OK, end);
            (incoming, start)
        };
        let (mut head, start) = begin(RequestKind::Head, facts(false, true), false);
        assert_eq!(start.map(|start| start.length), Ok(Some(5)));
        assert_eq!(head.take(1, false), Err(Fault::BodyForbidden));
        assert!(begin(RequestKind::Head, facts(false, true), true).1.is_ok());
        let (mut tunnel, start) = begin(RequestKind::Connect, facts(false, false), false);
        assert_eq!(start.map(|start| start.length), Ok(None));
        assert_eq!(tunnel.take(100, true), Ok(()));
        let (incoming, start) = begin(RequestKind::Any, facts(true, false), false);
        assert!(start.unwrap().interim);
        assert_eq!((incoming.half(), incoming.interim()), (Half::Head, 1));
        assert_eq!(begin(RequestKind::Any, facts(true, false), true).1, Err(Fault::InterimLast));
        assert_eq!(begin(RequestKind::Any, facts(false, false), true).1, Err(Fault::BodyTooShort));
    }
}
