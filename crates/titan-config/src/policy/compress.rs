//! Compression: which responses are compressed for clients that accept it, and how; which requests are decompressed.

use super::section::PolicySection;
use crate::bounds::{MAX_EXCEPTIONS, MAX_MEDIA_TYPES, MAX_TOKEN};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::path::{PREFIX, parse_literal_prefix};
use crate::problem::Problem;
use crate::quantity::ByteSize;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{boolean, one_or_list, size, text, whole, words};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use titan_http::coding::Coding;

section! {
    "compress", "a compression policy", Any;
    /// Compresses responses for clients that accept it (Accept-Encoding) while they are passed on: what an upstream has
    /// sent is not held back to wait for more. Never applied to 204, 205, 206 and 304, to gRPC, and to responses that
    /// are already encoded, say `no-transform`, or have a Content-Range or a digest of their content. An attacker who
    /// can place text next to a secret in a response, and see the length of the response, can guess the secret
    /// (BREACH): leave such routes out with `without: [compress]`, or such paths with `except`.
    pub struct Compress {
        /// The encodings in order of preference: of those that a client likes equally, the first is used.
        pub algorithms: Vec<Coding> = default("[zstd, br, gzip]", codings(1)),
        /// The media types of the content; `text/*` for all of a kind.
        pub types: Vec<MediaRange> = default(
            "[text/*, application/json, application/*+json, application/javascript, application/xml, application/*+xml, \
             application/wasm, image/svg+xml]",
            one_or_list(media_range(), 1..=MAX_MEDIA_TYPES)
        ),
        /// Shorter content stays as it is, if its length is known in advance.
        pub min_size: ByteSize = default("1KiB", size(0..=MAX_MIN_SIZE)),
        /// How hard gzip tries: 1 is fastest, 9 smallest. A stream takes 300 KiB of memory.
        pub gzip_level: u8 = default("5", whole(1..=9)),
        /// How hard brotli tries: 0 is fastest, 9 smallest; higher levels would hold up the other connections of a
        /// worker. A stream takes 1 to 3 MiB of memory.
        pub brotli_level: u8 = default("4", whole(0..=9)),
        /// How hard zstd tries: 1 is fastest, 12 smallest; higher levels would hold up the other connections of a
        /// worker. A stream takes 1 to 4 MiB of memory.
        pub zstd_level: u8 = default("3", whole(1..=12)),
        /// Whether to compress responses that set cookies. Such responses often contain secrets, which attackers can
        /// guess if text of theirs is next to them.
        pub cookies: bool = default("false", boolean()),
        /// Paths of requests whose responses are not compressed, with everything below them. Compared segment by
        /// segment, regardless of case, escapes and parameters after a `;`.
        pub except: Vec<String> =
            default("[]", one_or_list(text(PREFIX, parse_literal_prefix), 0..=MAX_EXCEPTIONS)),
        /// Up to how many meaningless bytes to add to each response, so that its length reveals less: a random number
        /// from 1. gzip carries them as a name in its header, brotli as a metadata block, zstd as a skippable frame.
        /// Guessing by length takes longer, but remains possible.
        pub padding: ByteSize = default("0B", size(0..=MAX_PADDING)),
        /// Whether to compress event streams (`text/event-stream`), flushing each event as it comes.
        pub events: bool = default("false", boolean()),
        /// What happens to requests whose bodies clients have compressed (Content-Encoding).
        pub requests: Option<CodedRequests> =
            optional("compressed bodies are passed on unchanged", section_of::<CodedRequests>()),
    }
}

section! {
    "compress_requests", "request decompression", Any;
    /// Decompresses request bodies on their way to upstreams, which get them without Content-Encoding, chunked or
    /// without a length, and without digests of the compressed form. There may be several gzip members (RFC 1952
    /// section 2.2) or zstd frames in a row. A body that is truncated, that has data after its end, or that is not in
    /// its declared encoding gets 400. Bodies of gRPC and tunnels stay as they are, as do all on a route without
    /// `upstream`.
    pub struct CodedRequests {
        /// The encodings to decode. Several encodings on top of each other count as an unsupported one.
        pub decode: Vec<Coding> = default("[gzip, br, zstd]", codings(1)),
        /// How large a body may become, unless `limits.body` is smaller: that applies both to what clients send and to
        /// the decompressed body. 413 beyond that.
        pub max_size: ByteSize = default("10MiB", size(1..=MAX_DECODED)),
        /// How many times its compressed size a body may become, once it has 64 KiB. 413 beyond that.
        pub max_ratio: u32 = default("100", whole(1..=100_000)),
        /// The largest window that a brotli or zstd body may need; a larger one gets 415. A body that is being decoded
        /// holds its window in memory, and all together no more than `limits.decoding_memory`. The default is what zstd
        /// may use with HTTP (RFC 9659); brotli encoders use 4 MiB unless configured otherwise. For zstd it is rounded
        /// down to a power of two. gzip always uses 32 KiB.
        pub max_window: ByteSize = default("8MiB", size(MIN_WINDOW..=MAX_WINDOW)),
        /// What happens to other encodings: `pass` sends them on as they are, `refuse` responds with 415 and lists the
        /// supported ones in Accept-Encoding (RFC 7694).
        pub unsupported: OtherCodings = default("pass", words(&[
            ("pass", OtherCodings::Pass),
            ("refuse", OtherCodings::Refuse),
        ])),
    }
}

/// What happens to requests in codings that are not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherCodings {
    /// They go on as they are.
    Pass,
    /// They are refused.
    Refuse,
}

/// A media type, or all of a kind; in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRange {
    /// What the type begins with.
    before: String,
    /// What it ends with, where there is a star.
    behind: Option<String>,
}

impl MediaRange {
    /// Whether it is that type, which has no parameters.
    pub fn has(&self, media_type: &[u8]) -> bool {
        let (before, behind) = (self.before.as_bytes(), self.behind.as_deref());
        let Some((start, rest)) = media_type.split_at_checked(before.len()) else { return false };
        let ends_so = |behind: &str| {
            let end = rest.len().checked_sub(behind.len()).filter(|length| *length > 0);
            end.is_some_and(|end| rest[end..].eq_ignore_ascii_case(behind.as_bytes()))
        };
        start.eq_ignore_ascii_case(before) && behind.map_or(rest.is_empty(), ends_so)
    }
}

const MAX_MIN_SIZE: u64 = 1 << 30;
const MAX_DECODED: u64 = 1 << 40;
const MAX_PADDING: u64 = 4 << 10;
const MIN_WINDOW: u64 = 64 << 10;
/// The largest window of brotli (RFC 7932).
const MAX_WINDOW: u64 = 16 << 20;

const MEDIA_RANGE: TextShape = TextShape {
    what: "a media type",
    examples: "`text/*`, `application/json` or `application/*+json`",
    pattern: Some("^[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    max: MAX_TOKEN,
};

impl PolicySection for Compress {}

pub(super) fn policy() -> impl Read<Value = Compress> {
    section_of::<Compress>()
}

/// Codings in the order in which they are liked: so many of them at least.
pub(crate) fn codings(least: usize) -> impl Read<Value = Vec<Coding>> {
    let named = [("gzip", Coding::Gzip), ("br", Coding::Brotli), ("zstd", Coding::Zstd)];
    one_or_list(words(&named), least..=named.len()).then(no_coding_twice)
}

fn no_coding_twice(codings: Vec<Coding>, node: &Node, to: &mut Reading<'_>) -> Option<Vec<Coding>> {
    let is_again = |(index, coding): (usize, &Coding)| codings[..index].contains(coding);
    match codings.iter().enumerate().any(is_again) {
        true => to.fail(Diagnostic::error(node.span, "a coding appears twice")),
        false => Some(codings),
    }
}

pub(crate) fn media_range() -> impl Read<Value = MediaRange> {
    text(MEDIA_RANGE, parse_media_range)
}

fn parse_media_range(text: &str) -> Result<MediaRange, Problem> {
    let (kind, subtype) = text.split_once('/').ok_or_else(|| Problem::new("it has no `/`"))?;
    let is_token = |part: &str| titan_http::is_token(part.as_bytes());
    if !is_token(kind) || !is_token(subtype) {
        return Err(Problem::new("it is not a type and a subtype").help("leave out parameters"));
    }
    let text = text.to_ascii_lowercase();
    let range = match text.split_once('*') {
        None => MediaRange { before: text, behind: None },
        Some((before, behind)) => {
            MediaRange { before: before.to_owned(), behind: Some(behind.to_owned()) }
        }
    };
    let has_another = range.behind.as_ref().is_some_and(|behind| behind.contains(['*', '/']));
    match has_another {
        true => Err(Problem::new("only one `*` is allowed, in the subtype")),
        false => Ok(range),
    }
}
