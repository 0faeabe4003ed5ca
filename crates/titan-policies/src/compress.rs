//! Compression (RFC 9110 section 8.4): which responses are compressed, with their heads; which requests are
//! decompressed.

mod cells;
mod coded;
mod compressor;
mod decoder;
mod decompressor;
mod encoder;
mod whole;

pub use coded::{Coded, ContentCoding, describe_decoded};
pub use compressor::Compressor;
pub use decompressor::{Decoding, Decompressor};
pub use encoder::Encoders;
pub use whole::{NotDecoded, decode_whole};

use crate::context::{PolicyContext, Step};
use crate::policy::{ExchangeEnd, Metric, OwnState, Policy, Response, Setting};
use crate::story::Story;
use cells::CompressCells;
use std::cell::Cell;
use std::rc::Rc;
use titan_http::BodyLength;
use titan_http::coding::{Accepted, Choice, Coding};
use titan_http::query::decode;
use titan_http::{BadField, FieldName, Fields, RequestHead, ResponseHead, Status};
use titan_io::body::Content;
use titan_io::error::{Error, Kind};
use titan_io::refusals;

refusals! {
    /// The body becomes larger than it may be, or by more than it may, when it is decoded.
    BODY_EXPANDS Downstream CONTENT_TOO_LARGE "body-expands" "The request body becomes too large when it is decoded.";
    /// The body is not in the coding that its head names, is cut short, or goes on behind its end.
    BAD_CODING Downstream BAD_REQUEST "bad-coding" "The request body is not what its Content-Encoding says.";
    /// The body needs a larger window to be decoded than it may have.
    WINDOW_TOO_LARGE Downstream UNSUPPORTED_MEDIA_TYPE "window-too-large" "The request body is compressed with a window that is too large.";
    /// Other bodies have the memory that it takes to decode this one.
    DECODING_MEMORY Gateway SERVICE_UNAVAILABLE "decoding-memory" "Too many compressed request bodies are being decoded.";
    /// The body is in a coding that is not decoded here, nor passed on.
    CODING_REFUSED Gateway UNSUPPORTED_MEDIA_TYPE "coding-refused" "The content coding of the request body is not supported here.";
}

/// A policy.
pub(crate) struct Compress(titan_config::Compress);

/// How the body of a response is compressed.
#[derive(Clone, Debug)]
pub struct Encoding {
    settings: Settings,
    /// What has become of the body so far.
    compressed: Rc<Compressed>,
}

/// Bytes of one body.
#[derive(Debug, Default)]
struct Compressed {
    /// Those that were compressed.
    input: Cell<u64>,
    /// Those that became of them.
    output: Cell<u64>,
}

/// The settings of encoders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings {
    coding: Coding,
    level: u8,
    /// How long the content is, where that is known.
    length: Option<u64>,
    /// Up to how many bytes are added that mean nothing.
    padding: u16,
}

impl Settings {
    /// How much memory coding by them takes at most.
    fn memory(self) -> usize {
        match self.coding {
            Coding::Gzip => 300 << 10,
            Coding::Brotli => 3 << 20,
            Coding::Zstd if self.level <= 3 => 2 << 20,
            Coding::Zstd => 4 << 20,
        }
    }

    /// Whether 64 KiB take more than some milliseconds.
    fn is_heavy(self) -> bool {
        match self.coding {
            Coding::Gzip => false,
            Coding::Brotli => self.level >= 7,
            Coding::Zstd => self.level >= 9,
        }
    }
}

/// What is known of a request; nothing where it has not come as far as the policy.
#[derive(Debug, Default)]
pub(crate) struct CompressState {
    /// What its client can read.
    choice: Choice,
    /// Whether the response stays as it is, whatever it is.
    stays: bool,
    /// Whether the client has something by a weak tag.
    has_weak: bool,
    /// What happens to the body of the request.
    pub(crate) coded: Coded,
    /// How the body of the response is to be encoded.
    pub(crate) encoding: Option<Encoding>,
    /// What has become of it.
    compressed: Option<Rc<Compressed>>,
}

/// Fields that are about the bytes of the content as they are: compressed, it would not fit them.
const DIGESTS: [&[u8]; 4] = [b"Content-Digest", b"Repr-Digest", b"Digest", b"Content-MD5"];

/// The trailers of a body whose bytes are others now, where those that it has are about the former ones.
fn without_digests(trailers: &Fields) -> Option<Fields> {
    let has_digest = DIGESTS.iter().any(|name| trailers.named(name).next().is_some());
    has_digest.then(|| {
        let mut rest = trailers.clone();
        DIGESTS.iter().for_each(|digest| rest.remove_named(digest));
        rest
    })
}

impl Policy for Compress {
    type Config = titan_config::Compress;
    type Credentials = ();
    type State = CompressState;
    type Shared = ();
    type PerWorker = Rc<Encoders>;
    type Cells = CompressCells;

    const REFUSALS: &'static [Kind] = REFUSALS;
    const METRICS: &'static [Metric<CompressCells>] = cells::METRICS;

    fn new(config: &titan_config::Compress, (): (), _setting: &Setting<'_, Compress>) -> Compress {
        Compress(config.clone())
    }

    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Compress>,
    ) -> Result<Step, Error> {
        *own.state = self.look_at(context);
        Ok(Step::Go)
    }

    fn on_response(
        &self,
        response: &mut Response<'_>,
        own: OwnState<'_, Compress>,
    ) -> Result<(), BadField> {
        let Response { head, content, .. } = response;
        let settings = self.encode(own.state, head, content, own.kept)?;
        own.state.encoding = settings.map(|settings| {
            let compressed = own.state.compressed.get_or_insert_default();
            Encoding { settings, compressed: Rc::clone(compressed) }
        });
        Ok(())
    }

    fn on_end(&self, _end: &ExchangeEnd, own: OwnState<'_, Compress>) {
        let Some(Compressed { input, output }) = own.state.compressed.as_deref() else { return };
        own.cells.responses.add(1);
        own.cells.input.add(input.get());
        own.cells.output.add(output.get());
    }

    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Compress>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        *own.state = self.look_at(context);
        let CompressState { choice, stays, coded, .. } = *own.state;
        let responses = match stays {
            true => "responses for this path are not compressed".to_owned(),
            false => Compress::explain_choice(choice),
        };
        story.tell(match coded.explain() {
            Some(body) => format!("{responses}; {body}"),
            None => responses,
        });
        Ok(Step::Go)
    }
}

impl Compress {
    /// Whether responses for that path, as the client has it, stay as they are.
    fn excepts(&self, path: &[u8]) -> bool {
        self.0.except.iter().any(|prefix| is_below(path, prefix.as_bytes()))
    }

    /// By the path that the client requested, which a transform may have changed.
    fn look_at(&self, context: &PolicyContext<'_>) -> CompressState {
        let PolicyContext { request, found, .. } = context;
        self.judge(request, self.excepts(found.path(request)))
    }

    fn judge(&self, request: &RequestHead, stays: bool) -> CompressState {
        let choice = Accepted::of(&request.fields).choose(&self.0.algorithms);
        let requests = self.0.requests.as_ref();
        let coded = requests.map_or(Coded::Stays, |config| Coded::of(request, config));
        let has_weak = has_weak(&request.fields);
        CompressState { choice, stays, has_weak, coded, ..CompressState::default() }
    }

    fn explain_choice(choice: Choice) -> String {
        match choice.coding {
            Some(coding) => format!("{} for responses that qualify", coding.name()),
            None => "the client accepts none of its codings".to_owned(),
        }
    }

    /// Decides about a response. Where there is an encoding, the body has to be made by it, for which there is room by
    /// now among the encoders.
    fn encode(
        &self,
        note: &CompressState,
        head: &mut ResponseHead,
        content: &mut Content,
        encoders: &Encoders,
    ) -> Result<Option<Settings>, BadField> {
        let CompressState { choice: Choice { coding, insists }, stays, has_weak, coded, .. } =
            *note;
        if let Some(config) = &self.0.requests {
            coded.list_supported(config, head)?;
        }
        if stays {
            return Ok(None);
        }
        if head.status == Status::NOT_MODIFIED && has_weak {
            // What it has was compressed: it must not take parts of the whole for parts of that.
            weaken(&mut head.fields)?;
            vary(&mut head.fields)?;
        }
        let is_for = self.has_type(&head.fields) || insists;
        if !is_for || !self.may_show(&head.fields) || !may_be_coded(head) {
            return Ok(None);
        }
        let length = match content.length {
            BodyLength::Known(length) => Some(length),
            BodyLength::None => content.declared,
            BodyLength::Unknown => None,
        };
        let least = if insists { 1 } else { self.0.min_size.bytes().max(1) };
        if length.is_some_and(|length| length < least) {
            return Ok(None);
        }
        vary(&mut head.fields)?;
        let Some(coding) = coding else { return Ok(None) };
        let settings = self.settings(coding, length);
        if !encoders.have_room_for(settings) {
            return Ok(None);
        }
        describe(coding, &mut head.fields)?;
        content.declared = None;
        if content.length == BodyLength::None {
            // The response to HEAD says what that to GET would say.
            return Ok(None);
        }
        content.length = BodyLength::Unknown;
        Ok(Some(settings))
    }

    fn settings(&self, coding: Coding, length: Option<u64>) -> Settings {
        let level = match coding {
            Coding::Gzip => self.0.gzip_level,
            Coding::Brotli => self.0.brotli_level,
            Coding::Zstd => self.0.zstd_level,
        };
        let padding = u16::try_from(self.0.padding.bytes()).unwrap_or(u16::MAX);
        Settings { coding, level, length, padding }
    }

    /// Whether the content is of those that the policy is for.
    fn has_type(&self, fields: &Fields) -> bool {
        let media_type = media_type(fields);
        match media_type.eq_ignore_ascii_case(b"text/event-stream") {
            true => self.0.events,
            false => self.0.types.iter().any(|range| range.has(media_type)),
        }
    }

    /// Whether the length of the response may depend on what is in it.
    fn may_show(&self, fields: &Fields) -> bool {
        self.0.cookies || fields.get(FieldName::SetCookie).is_none()
    }
}

/// Whether the path is that one or below it. Some servers take paths without regard to case, decode every escape and
/// leave parameters of segments out: what stays as it is must do so however it is written.
fn is_below(path: &[u8], prefix: &[u8]) -> bool {
    let (path, prefix) = (decode(path), decode(prefix));
    let mut there = segments(&path);
    segments(&prefix).all(|it| there.next().is_some_and(|other| other.eq_ignore_ascii_case(it)))
}

/// The segments of a path without their parameters, and those that have something left.
fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let segments = path.split(|&byte| byte == b'/');
    let bare = segments.filter_map(|segment| segment.split(|&byte| byte == b';').next());
    bare.filter(|segment| !segment.is_empty())
}

/// Whether the content is whole, and no other layer depends on its bytes.
fn may_be_coded(head: &ResponseHead) -> bool {
    let fields = &head.fields;
    let is_whole = !matches!(head.status.code(), 101 | 204 | 205 | 206 | 304);
    let known = [FieldName::ContentEncoding, FieldName::ContentRange];
    let must_stay = |member: &[u8]| member.eq_ignore_ascii_case(b"no-transform");
    is_whole
        && known.iter().all(|name| fields.get(*name).is_none())
        && !is_grpc(fields)
        && !fields.members(FieldName::CacheControl).any(must_stay)
        && DIGESTS.iter().all(|name| fields.named(name).next().is_none())
}

/// Whether it is a message of gRPC, in any of its dialects: those are coded by themselves.
fn is_grpc(fields: &Fields) -> bool {
    const NAME: &[u8] = b"application/grpc";
    media_type(fields).get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
}

/// The media type without its parameters; empty where there is none.
fn media_type(fields: &Fields) -> &[u8] {
    let value = fields.get(FieldName::ContentType).unwrap_or_default();
    let end = value.iter().position(|byte| b"; \t".contains(byte));
    &value[..end.unwrap_or(value.len())]
}

/// Caches must keep the responses to clients apart that read different codings.
fn vary(fields: &mut Fields) -> Result<(), BadField> {
    let is_told = |member: &[u8]| member == b"*" || member.eq_ignore_ascii_case(b"accept-encoding");
    let is_known = fields.members(FieldName::Vary).any(is_told);
    if is_known { Ok(()) } else { fields.append(FieldName::Vary, b"Accept-Encoding") }
}

/// Marks the content as coded. It then has no ranges that an upstream knows of, and its bytes are no longer those that
/// a strong tag stands for.
fn describe(coding: Coding, fields: &mut Fields) -> Result<(), BadField> {
    fields.set(FieldName::ContentEncoding, coding.name().as_bytes())?;
    fields.remove_named(b"Accept-Ranges");
    weaken(fields)
}

/// Turns a strong tag into a weak one.
fn weaken(fields: &mut Fields) -> Result<(), BadField> {
    let tag = fields.named(b"ETag").next().filter(|tag| !tag.starts_with(b"W/"));
    match tag.map(|tag| [b"W/".as_slice(), tag].concat()) {
        Some(weak) => fields.set_named(b"ETag", &weak),
        None => Ok(()),
    }
}

/// Whether the request asks for something else than its client has by a weak tag.
fn has_weak(fields: &Fields) -> bool {
    let mut values = fields.named(b"If-None-Match");
    values.any(|value| value.windows(3).any(|start| start == b"W/\""))
}

#[cfg(test)]
mod tests;
