//! Heads and trailers: from a field block to fields and facts (RFC 9113 section 8), and back.

pub(crate) use crate::hpack::BadBlock;
pub(crate) use titan_http::section::{
    Excess, Extent, OVERSIZE_FACTOR, RequestFacts, ResponseFacts,
};

use crate::hpack::{Decoder, Hpack, write_size_update};
use crate::limits::Limits;
use titan_http::section::{
    Destination, Fault, RequestSection, ResponseSection, SectionLimits, Size, TrailerSection,
    room_for, write_fields, write_request, write_response,
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

/// Writes the heads and trailers of one connection, in the order in which their blocks are sent.
#[derive(Debug, Default)]
pub(crate) struct HeadWriter {
    /// Whether the peer was told that no table is kept.
    has_begun: bool,
}

impl HeadWriter {
    /// Appends the block of a request. `length` is what `content-length` is to say; the fields' own
    /// is left out.
    pub(crate) fn write_request(
        &mut self,
        out: &mut Vec<u8>,
        head: &RequestHead,
        to: &Destination<'_>,
        length: Option<u64>,
    ) {
        self.begin(out, &head.fields);
        write_request::<Hpack>(out, head, to, length);
    }

    /// Appends the block of a response. `length` is what `content-length` is to say; the fields'
    /// own is left out.
    pub(crate) fn write_response(
        &mut self,
        out: &mut Vec<u8>,
        head: &ResponseHead,
        length: Option<u64>,
    ) {
        self.begin(out, &head.fields);
        write_response::<Hpack>(out, head, length);
    }

    /// Appends the block of a trailer section.
    pub(crate) fn write_trailers(&mut self, out: &mut Vec<u8>, fields: &Fields) {
        self.begin(out, fields);
        write_fields::<Hpack>(out, fields);
    }

    fn begin(&mut self, out: &mut Vec<u8>, fields: &Fields) {
        out.reserve(room_for(fields));
        if !self.has_begun {
            write_size_update(out);
            self.has_begun = true;
        }
    }
}

#[cfg(test)]
mod tests;
