//! Heads and trailers: from a field block to fields and facts (RFC 9113 section 8), and back.

mod facts;

mod request;

mod response;

mod trailers;

mod write;

pub(crate) use crate::hpack::BadBlock;
pub(crate) use request::RequestFacts;
pub(crate) use response::{Extent, ResponseFacts};
pub(crate) use trailers::Excess;
pub(crate) use write::HeadWriter;

use crate::error::Fault;
use crate::hpack::{Decoder, Line};
use crate::limits::Limits;
use titan_http::{Fields, RequestHead, ResponseHead};

/// Reads the heads and trailers of one connection: blocks have to be read in the order of their
/// arrival, each to its end, for they share a table.
#[derive(Debug)]
pub(crate) struct HeadReader {
    decoder: Decoder,
    limits: Limits,
    /// The values of `cookie` where there are several, joined.
    crumbs: Vec<u8>,
}

impl HeadReader {
    /// A reader with an empty table.
    pub(crate) fn new(limits: &Limits) -> HeadReader {
        // A text holds a head, and once more the cookies that were joined.
        let head = limits.head.min(Fields::MAX_TEXT / 4);
        let trailers = limits.trailers.min(Fields::MAX_TEXT / 4);
        let limits = Limits { head, trailers, ..*limits };
        HeadReader { decoder: Decoder::new(), limits, crumbs: Vec::new() }
    }

    /// Reads the head of a request. What could be kept of one that is refused is in `head` too.
    pub(crate) fn read_request(
        &mut self,
        block: &[u8],
        head: &mut RequestHead,
    ) -> Result<Result<RequestFacts, Fault>, BadBlock> {
        request::read(self, block, head)
    }

    /// Reads the head of a response.
    pub(crate) fn read_response(
        &mut self,
        block: &[u8],
        is_head_request: bool,
        extent: Extent,
        head: &mut ResponseHead,
    ) -> Result<Result<ResponseFacts, Fault>, BadBlock> {
        response::read(self, block, is_head_request, extent, head)
    }

    /// Reads a trailer section.
    pub(crate) fn read_trailers(
        &mut self,
        block: &[u8],
        excess: Excess,
        fields: &mut Fields,
    ) -> Result<Result<(), Fault>, BadBlock> {
        trailers::read(self, block, excess, fields)
    }

    /// Reads a block whose head is not wanted, for what it does to the table.
    pub(crate) fn skip(&mut self, block: &[u8]) -> Result<(), BadBlock> {
        let mut size = Size::new(0, &self.limits);
        self.decoder.decode(block, |line| size.add(&line).map(drop))
    }
}

/// How large the list of a block is so far (RFC 9113 section 6.5.2).
#[derive(Debug)]
struct Size {
    bytes: usize,
    /// What is kept.
    limit: usize,
    /// What is decoded at all: beyond it the block is a bomb.
    most: usize,
}

/// How many times the limit of a head, or of trailers, a block may decode to, and still be refused with a response.
pub(crate) const OVERSIZE_FACTOR: usize = 4;

impl Size {
    fn new(limit: usize, limits: &Limits) -> Size {
        Size { bytes: 0, limit, most: limits.longest_list().saturating_mul(OVERSIZE_FACTOR) }
    }

    /// Counts a line; returns whether it is within the limit.
    #[inline]
    fn add(&mut self, line: &Line<'_>) -> Result<bool, BadBlock> {
        self.bytes += line.size();
        match self.bytes > self.most {
            true => Err(BadBlock::TooMuch),
            false => Ok(self.bytes <= self.limit),
        }
    }
}

#[cfg(test)]
mod tests;
