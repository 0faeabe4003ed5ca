//! Heads and trailers: from a field section to fields and facts (RFC 9114 sections 4.2 and 4.3), and back.

use crate::frame::{FrameHeader, Kind};
use crate::limits::Limits;
use crate::qpack::{Corrupt, Decoded, Decoder, Qpack, write_prefix};
use titan_http::section::{
    Destination, Excess, Extent, Fault, RequestFacts, RequestSection, ResponseFacts,
    ResponseSection, SectionLimits, TrailerSection, room_for, write_fields, write_request,
    write_response,
};
use titan_http::{Fields, RequestHead, ResponseHead, Version};

/// Reads the heads and trailers of one connection, whose streams share a table.
#[derive(Debug)]
pub(crate) struct SectionReader {
    pub(crate) decoder: Decoder,
    limits: SectionLimits,
    /// The values of `cookie` where there are several, joined.
    crumbs: Vec<u8>,
}

/// What reading a section comes to.
pub(crate) enum Read<T> {
    /// It is read, and that is what it says, or what is wrong with it.
    Whole(Result<T, Fault>),
    /// It refers to entries of the table that have not come: so many must have.
    Blocked(u64),
}

impl SectionReader {
    /// A reader with an empty table.
    pub(crate) fn new(limits: &Limits) -> SectionReader {
        // A text holds a head, and once more the cookies that were joined.
        let most = |length: usize| length.min(Fields::MAX_TEXT / 4);
        let given = limits.sections;
        let limits =
            SectionLimits { head: most(given.head), trailers: most(given.trailers), ..given };
        SectionReader { decoder: Decoder::default(), limits, crumbs: Vec::new() }
    }

    /// Reads the head of a request. What could be kept of one that is refused is in `head` too.
    pub(crate) fn read_request(
        &mut self,
        stream: u64,
        section: &[u8],
        head: &mut RequestHead,
    ) -> Result<Read<RequestFacts>, Corrupt> {
        let SectionReader { decoder, limits, crumbs } = self;
        let mut read = RequestSection::new(Version::Http3, limits, crumbs, head);
        let decoded = decoder.decode(stream, section, |line| Ok(read.take(line)?))?;
        Ok(Read::of(decoded, || read.finish()))
    }

    /// Reads the head of a response.
    pub(crate) fn read_response(
        &mut self,
        stream: u64,
        section: &[u8],
        is_head_request: bool,
        extent: Extent,
        head: &mut ResponseHead,
    ) -> Result<Read<ResponseFacts>, Corrupt> {
        let SectionReader { decoder, limits, .. } = self;
        let mut read = ResponseSection::new(Version::Http3, limits, extent, head);
        let decoded = decoder.decode(stream, section, |line| Ok(read.take(line)?))?;
        Ok(Read::of(decoded, || read.finish(is_head_request)))
    }

    /// Reads a trailer section.
    pub(crate) fn read_trailers(
        &mut self,
        stream: u64,
        section: &[u8],
        excess: Excess,
        fields: &mut Fields,
    ) -> Result<Read<()>, Corrupt> {
        let mut read = TrailerSection::new(&self.limits, excess, fields);
        let decoded = self.decoder.decode(stream, section, |line| Ok(read.take(line)?))?;
        Ok(Read::of(decoded, || read.finish()))
    }
}

impl<T> Read<T> {
    fn of(decoded: Decoded, finish: impl FnOnce() -> Result<T, Fault>) -> Read<T> {
        match decoded {
            Decoded::Whole => Read::Whole(finish()),
            Decoded::Blocked(required) => Read::Blocked(required),
        }
    }
}

/// Appends a HEADERS frame with the head of a request. `length` is what `content-length` is to say; the fields' own is left out.
pub(crate) fn append_request(
    out: &mut Vec<u8>,
    head: &RequestHead,
    to: &Destination<'_>,
    length: Option<u64>,
) {
    append(out, &head.fields, |out| write_request::<Qpack>(out, head, to, length));
}

/// Appends a HEADERS frame with the head of a response. `length` is what `content-length` is to say; the fields' own is left out. Tells how
/// many bytes the section has.
pub(crate) fn append_response(
    out: &mut Vec<u8>,
    head: &ResponseHead,
    length: Option<u64>,
) -> usize {
    append(out, &head.fields, |out| write_response::<Qpack>(out, head, length))
}

/// Appends a HEADERS frame with trailers. Tells how many bytes the section has.
pub(crate) fn append_trailers(out: &mut Vec<u8>, fields: &Fields) -> usize {
    append(out, fields, |out| write_fields::<Qpack>(out, fields))
}

/// The frame's length is known at its end: it has room for one of up to 16,383 bytes, and moves what is longer.
fn append(out: &mut Vec<u8>, fields: &Fields, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    const HEADERS: u8 = 1;
    const ROOM: [u8; 2] = [0; 2];
    out.reserve(room_for(fields));
    let at = out.len();
    out.push(HEADERS);
    out.extend_from_slice(&ROOM);
    let start = out.len();
    write_prefix(out);
    write(out);
    let length = out.len() - start;
    match u16::try_from(length) {
        Ok(length @ 0..0x4000) => {
            out[start - 2..start].copy_from_slice(&(length | 0x4000).to_be_bytes());
        }
        _ => {
            let mut header = Vec::new();
            FrameHeader { kind: Kind::Headers, length: length as u64 }.write(&mut header);
            out.splice(at..start, header);
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_http::{FieldName, Status};

    #[test]
    fn a_head_of_any_length_is_one_frame() {
        for length in [0, 1, 60, 64, 16_000, 16_383, 16_384, 40_000] {
            let mut head = ResponseHead { status: Status::OK, ..ResponseHead::default() };
            head.fields.append(FieldName::ContentType, &vec![b'a'; length]).unwrap();
            let mut out = b"before".to_vec();
            let section_length = append_response(&mut out, &head, Some(5));
            let (header, start) = FrameHeader::read(&out[6..]).unwrap();
            assert_eq!(header.length, section_length as u64);
            assert_eq!(header.kind, Kind::Headers);
            assert_eq!(header.length, (out.len() - 6 - start) as u64);
            let mut limits = Limits::default();
            limits.sections.head = 60_000;
            let (mut reader, mut read) = (SectionReader::new(&limits), ResponseHead::default());
            let section = &out[6 + start..];
            let whole = reader.read_response(0, section, false, Extent::Beginning, &mut read);
            let Read::Whole(Ok(facts)) = whole.unwrap() else { panic!("{length}") };
            assert_eq!((facts.length, read.version), (Some(5), Version::Http3));
            assert_eq!(read.fields.get(FieldName::ContentType).map(<[u8]>::len), Some(length));
        }
    }
}
