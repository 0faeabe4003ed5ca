//! What the fields of a head say about the message and its connection, gathered line by line.

use crate::error::Error;
use titan_http::{Authority, FieldName, Version, is_token, list_members, parse_length};

/// The facts of one head so far.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) length: Option<u64>,
    pub(crate) coding: Coding,
    pub(crate) has_host: bool,
    pub(crate) expectation: Expectation,
    /// The connection option `close`.
    pub(crate) close: bool,
    /// The connection option `keep-alive`.
    pub(crate) keep_alive: bool,
    /// The first fault. It is held back until the head is complete, so that limits come first.
    fault: Option<Error>,
}

/// What the client expects of the server. Judged at the end of the head: a framing fault comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expectation {
    #[default]
    None,
    /// 100-continue.
    Continue,
    /// Anything else.
    Unknown,
}

/// The transfer codings listed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    #[default]
    None,
    /// Exactly `chunked`.
    Chunked,
    /// Others, without `chunked` as yet.
    Unknown,
    /// Others, then `chunked`.
    UnknownThenChunked,
}

impl Facts {
    /// Learns from a field line of a request.
    #[inline]
    pub(crate) fn learn_from_request(&mut self, id: FieldName, value: &[u8]) {
        match id {
            FieldName::Host => self.host(value),
            FieldName::Expect => self.expect(value),
            _ => self.learn_from_response(id, value),
        }
    }

    /// Learns from a field line of a response: from those that both roles heed.
    #[inline]
    pub(crate) fn learn_from_response(&mut self, id: FieldName, value: &[u8]) {
        match id {
            FieldName::ContentLength => self.content_length(value),
            FieldName::TransferEncoding => self.transfer_encoding(value),
            FieldName::Connection => self.connection(value),
            _ => {}
        }
    }

    /// What was wrong with these fields, now that the head is complete.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.fault.map_or(Ok(()), Err)
    }

    /// Whether the connection may serve another message after this one (RFC 9112 section 9.3).
    pub(crate) fn persists(&self, version: Version) -> bool {
        !self.close && (version != Version::Http10 || self.keep_alive)
    }

    fn note(&mut self, fault: Error) {
        self.fault.get_or_insert(fault);
    }

    fn host(&mut self, value: &[u8]) {
        if self.has_host {
            self.note(Error::SecondHost);
        } else if Authority::parse(value).is_err() {
            self.note(Error::HostMalformed);
        }
        self.has_host = true;
    }

    fn expect(&mut self, value: &[u8]) {
        let is_known = value.eq_ignore_ascii_case(b"100-continue");
        self.expectation = match self.expectation {
            Expectation::None | Expectation::Continue if is_known => Expectation::Continue,
            _ => Expectation::Unknown,
        };
    }

    fn content_length(&mut self, value: &[u8]) {
        match parse_length(value) {
            _ if self.length.is_some() => self.note(Error::SecondContentLength),
            None => self.note(Error::ContentLength),
            length => self.length = length,
        }
    }

    /// Several lines are one list (RFC 9110 section 5.3).
    fn transfer_encoding(&mut self, value: &[u8]) {
        for member in list_members(value) {
            match self.coding.then(member) {
                Ok(coding) => self.coding = coding,
                Err(fault) => self.note(fault),
            }
        }
    }

    fn connection(&mut self, value: &[u8]) {
        if value.eq_ignore_ascii_case(b"keep-alive") {
            self.keep_alive = true;
            return;
        }
        for option in list_members(value).filter(|option| !option.is_empty()) {
            if !is_token(option) {
                self.note(Error::ConnectionOption);
            }
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

impl Coding {
    /// The list with one more member. Parameters are refused: no registered coding has any, and they
    /// are how a coding is hidden from one of two parsers.
    fn then(self, member: &[u8]) -> Result<Coding, Error> {
        if !is_token(member) {
            return Err(Error::CodingMalformed);
        }
        let is_chunked = member.eq_ignore_ascii_case(b"chunked");
        match (self, is_chunked) {
            (Coding::None, true) => Ok(Coding::Chunked),
            (Coding::Unknown, true) => Ok(Coding::UnknownThenChunked),
            (Coding::None | Coding::Unknown, false) => Ok(Coding::Unknown),
            (Coding::Chunked | Coding::UnknownThenChunked, true) => Err(Error::ChunkedTwice),
            (Coding::Chunked | Coding::UnknownThenChunked, false) => Err(Error::ChunkedNotLast),
        }
    }
}
