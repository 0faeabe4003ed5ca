//! Heads and trailers: from a field block to fields and facts (RFC 9113 section 8), and back.

mod write;

pub(crate) use crate::hpack::BadBlock;
pub(crate) use titan_http::section::{
    Excess, Extent, OVERSIZE_FACTOR, RequestFacts, ResponseFacts,
};
pub(crate) use write::HeadWriter;

use crate::hpack::Decoder;
use crate::limits::Limits;
use titan_http::section::{
    Fault, RequestSection, ResponseSection, SectionLimits, Size, TrailerSection,
};
use titan_http::{Fields, RequestHead, ResponseHead, Version};

/// Reads the heads and trailers of one connection: blocks have to be read in the order of their
/// arrival, each to its end, for they share a table.
#[derive(Debug)]
pub(crate) struct HeadReader {
    decoder: Decoder,
    limits: SectionLimits,
    /// The values of `cookie` where there are several, joined.
    crumbs: Vec<u8>,
}

impl HeadReader {
    /// A reader with an empty table.
    pub(crate) fn new(limits: &Limits) -> HeadReader {
        // A text holds a head, and once more the cookies that were joined.
        let head = limits.head.min(Fields::MAX_TEXT / 4);
        let trailers = limits.trailers.min(Fields::MAX_TEXT / 4);
        let limits = SectionLimits { head, trailers, fields: limits.fields, target: limits.target };
        HeadReader { decoder: Decoder::new(), limits, crumbs: Vec::new() }
    }

    /// Reads the head of a request. What could be kept of one that is refused is in `head` too.
    pub(crate) fn read_request(
        &mut self,
        block: &[u8],
        head: &mut RequestHead,
    ) -> Result<Result<RequestFacts, Fault>, BadBlock> {
        let HeadReader { decoder, limits, crumbs } = self;
        let mut section = RequestSection::new(Version::Http2, limits, crumbs, head);
        decoder.decode(block, |line| Ok(section.take(line)?))?;
        Ok(section.finish())
    }

    /// Reads the head of a response.
    pub(crate) fn read_response(
        &mut self,
        block: &[u8],
        is_head_request: bool,
        extent: Extent,
        head: &mut ResponseHead,
    ) -> Result<Result<ResponseFacts, Fault>, BadBlock> {
        let HeadReader { decoder, limits, .. } = self;
        let mut section = ResponseSection::new(Version::Http2, limits, extent, head);
        decoder.decode(block, |line| Ok(section.take(line)?))?;
        Ok(section.finish(is_head_request))
    }

    /// Reads a trailer section.
    pub(crate) fn read_trailers(
        &mut self,
        block: &[u8],
        excess: Excess,
        fields: &mut Fields,
    ) -> Result<Result<(), Fault>, BadBlock> {
        let mut section = TrailerSection::new(&self.limits, excess, fields);
        self.decoder.decode(block, |line| Ok(section.take(line)?))?;
        Ok(section.finish())
    }

    /// Reads a block whose head is not wanted, for what it does to the table.
    pub(crate) fn skip(&mut self, block: &[u8]) -> Result<(), BadBlock> {
        let mut size = Size::new(0, &self.limits);
        self.decoder.decode(block, |line| Ok(size.add(&line).map(drop)?))
    }
}

#[cfg(test)]
mod tests;
