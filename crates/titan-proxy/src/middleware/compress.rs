//! Compression (RFC 9110 section 8.4): which answers are made smaller, and what their heads say then.

mod accept;
mod encoder;
mod squeeze;

pub(crate) use encoder::Encoder;
pub(crate) use squeeze::Squeezed;

use crate::downstream::Content;
use accept::{Accepted, Choice};
use titan_config::Coding;
use titan_h1::Framing;
use titan_http::{BadField, FieldName, Fields, RequestHead, ResponseHead};

/// A policy.
pub(super) struct Compress(titan_config::Compress);

/// What the client of a request can read; nothing where the request has not come as far as the policy.
pub(super) type Note = Choice;

/// Fields that are about the octets of the content as they are: made smaller, it would not fit them.
const DIGESTS: [&[u8]; 4] = [b"Content-Digest", b"Repr-Digest", b"Digest", b"Content-MD5"];

impl Compress {
    pub(super) fn new(config: &titan_config::Compress) -> Compress {
        Compress(config.clone())
    }

    pub(super) fn on_request(&self, request: &RequestHead) -> Note {
        Accepted::of(&request.fields).choose(&self.0.algorithms)
    }

    /// What would be decided of a request, in words.
    pub(super) fn explain(&self, request: &RequestHead) -> String {
        match self.on_request(request).coding {
            Some(coding) => format!("{} for answers that it is for", name(coding)),
            None => "the client wants none of its codings".to_owned(),
        }
    }

    /// Decides about an answer. Where there is an encoder, the body has to go through it.
    pub(super) fn on_response(
        &self,
        note: Note,
        head: &mut ResponseHead,
        content: &mut Content,
    ) -> Result<Option<Encoder>, BadField> {
        let Choice { coding, insists } = note;
        let is_for = self.has_type(&head.fields) || insists;
        if !is_for || !self.may_show(&head.fields) || !may_be_coded(head) {
            return Ok(None);
        }
        let length = match content.framing {
            Framing::Length(length) => Some(length),
            Framing::None => content.declared,
            Framing::Chunked | Framing::UntilClose => None,
        };
        let least = if insists { 1 } else { self.0.min_size.bytes().max(1) };
        if length.is_some_and(|length| length < least) {
            return Ok(None);
        }
        vary(&mut head.fields)?;
        let Some(coding) = coding else { return Ok(None) };
        describe(coding, &mut head.fields)?;
        content.declared = None;
        if content.framing == Framing::None {
            // The answer to HEAD says what that to GET would say.
            return Ok(None);
        }
        content.framing = Framing::Chunked;
        Ok(Some(Encoder::new(coding, &self.0, length)))
    }

    /// Whether the content is of those that the policy is for.
    fn has_type(&self, fields: &Fields) -> bool {
        let media_type = media_type(fields);
        match media_type.eq_ignore_ascii_case(b"text/event-stream") {
            true => self.0.events,
            false => self.0.types.iter().any(|range| range.has(media_type)),
        }
    }

    /// Whether the length of the answer may depend on what is in it.
    fn may_show(&self, fields: &Fields) -> bool {
        self.0.cookies || fields.get(FieldName::SetCookie).is_none()
    }
}

/// Whether the content is whole, and its octets are nobody else's affair.
fn may_be_coded(head: &ResponseHead) -> bool {
    let fields = &head.fields;
    let is_whole = !matches!(head.status.code(), 101 | 204 | 205 | 206 | 304);
    let known = [FieldName::ContentEncoding, FieldName::ContentRange];
    let is_grpc =
        |name: &[u8]| name.len() >= 16 && name[..16].eq_ignore_ascii_case(b"application/grpc");
    let must_stay = |member: &[u8]| member.eq_ignore_ascii_case(b"no-transform");
    is_whole
        && known.iter().all(|name| fields.get(*name).is_none())
        && !is_grpc(media_type(fields))
        && !fields.members(FieldName::CacheControl).any(must_stay)
        && DIGESTS.iter().all(|name| fields.named(name).next().is_none())
}

/// The media type without its parameters; empty where there is none.
fn media_type(fields: &Fields) -> &[u8] {
    let value = fields.get(FieldName::ContentType).unwrap_or_default();
    let end = value.iter().position(|octet| b"; \t".contains(octet));
    &value[..end.unwrap_or(value.len())]
}

/// Caches must keep the answers to clients apart that read different codings.
fn vary(fields: &mut Fields) -> Result<(), BadField> {
    let is_told = |member: &[u8]| member == b"*" || member.eq_ignore_ascii_case(b"accept-encoding");
    let is_known = fields.members(FieldName::Vary).any(is_told);
    if is_known { Ok(()) } else { fields.append(FieldName::Vary, b"Accept-Encoding") }
}

/// Says that the content is coded. It has no ranges then that an upstream knows of, and its octets are no longer
/// those that a strong tag stands for.
fn describe(coding: Coding, fields: &mut Fields) -> Result<(), BadField> {
    fields.set(FieldName::ContentEncoding, name(coding).as_bytes())?;
    fields.remove_named(b"Accept-Ranges");
    let tag = fields.named(b"ETag").next().filter(|tag| !tag.starts_with(b"W/"));
    match tag.map(|tag| [b"W/".as_slice(), tag].concat()) {
        Some(weak) => fields.set_named(b"ETag", &weak),
        None => Ok(()),
    }
}

/// What heads call a coding.
fn name(coding: Coding) -> &'static str {
    match coding {
        Coding::Gzip => "gzip",
        Coding::Brotli => "br",
        Coding::Zstd => "zstd",
    }
}
