//! Which requests are decompressed, with their heads.

use super::{DIGESTS, Decoding, is_grpc};
use titan_config::{CodedRequests, OtherCodings};
use titan_http::coding::Coding;
use titan_http::{BadField, FieldName, Fields, RequestHead, ResponseHead, Status};

/// What happens to the body of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coded {
    /// It goes on as it is.
    #[default]
    Stays,
    /// It is decoded.
    Decode(Decoding),
    /// It is in a coding that is not taken.
    Refused,
}

/// The coding of a body, as its head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    /// It is as it is.
    Identity,
    /// One that can be decoded.
    Known(Coding),
    /// Another one, or several.
    Other,
}

impl ContentCoding {
    /// That of a message with these fields.
    pub fn of(fields: &Fields) -> ContentCoding {
        let is_one = |coding: &&[u8]| !coding.eq_ignore_ascii_case(b"identity");
        let mut codings = fields.members(FieldName::ContentEncoding).filter(is_one);
        let Some(first) = codings.next() else { return ContentCoding::Identity };
        let mut known = [Coding::Gzip, Coding::Brotli, Coding::Zstd].into_iter();
        let known = known.find(|coding| is_called(*coding, first));
        known
            .filter(|_| codings.next().is_none())
            .map_or(ContentCoding::Other, ContentCoding::Known)
    }
}

impl Coded {
    /// What is to become of the body of a request, should it have one.
    pub(super) fn of(request: &RequestHead, config: &CodedRequests) -> Coded {
        if is_grpc(&request.fields) {
            return Coded::Stays;
        }
        match ContentCoding::of(&request.fields) {
            ContentCoding::Identity => Coded::Stays,
            ContentCoding::Known(coding) if config.decode.contains(&coding) => {
                Coded::Decode(Decoding {
                    coding,
                    most: config.max_size.bytes(),
                    ratio: config.max_ratio.into(),
                    window: config.max_window.as_usize(),
                })
            }
            _ if config.unsupported == OtherCodings::Refuse => Coded::Refused,
            ContentCoding::Known(_) | ContentCoding::Other => Coded::Stays,
        }
    }

    /// What is done, in words.
    pub(super) fn explain(self) -> Option<String> {
        match self {
            Coded::Stays => None,
            Coded::Decode(decoding) => {
                Some(format!("a body is decompressed from {}", decoding.coding.name()))
            }
            Coded::Refused => Some("a body in that coding is refused with 415".to_owned()),
        }
    }

    /// Lists the accepted codings in the response to a refused one (RFC 7694 section 3).
    pub(super) fn list_supported(
        self,
        config: &CodedRequests,
        head: &mut ResponseHead,
    ) -> Result<(), BadField> {
        if self != Coded::Refused || head.status != Status::UNSUPPORTED_MEDIA_TYPE {
            return Ok(());
        }
        let names: Vec<_> = config.decode.iter().map(|coding| coding.name()).collect();
        head.fields.set(FieldName::AcceptEncoding, names.join(", ").as_bytes())
    }
}

/// Turns the head of a coded request into that of the decoded one: fields that describe the coded bytes no longer
/// apply.
pub fn describe_decoded(fields: &mut Fields) {
    fields.remove(FieldName::ContentEncoding);
    DIGESTS.iter().for_each(|digest| fields.remove_named(digest));
}

fn is_called(coding: Coding, called: &[u8]) -> bool {
    let is = |name: &str| called.eq_ignore_ascii_case(name.as_bytes());
    is(coding.name()) || coding == Coding::Gzip && is("x-gzip")
}
