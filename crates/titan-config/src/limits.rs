//! Limits: the section and its defaults.

use crate::diagnostic::Diagnostic;
use crate::location::Span;
use crate::node::Node;
use crate::quantity::{ByteSize, Cap};
use crate::read::{At, Read, Reading, at, default, optional};
use crate::readers::{cap, size, whole, word_or, words};
use crate::section::{section, section_of};
use std::num::{NonZeroU16, NonZeroU32};

section! {
    "limits", "the limits", Any;
    /// How much a client or an upstream may send. What exceeds a limit is refused, never truncated, except for the
    /// trailers of a response.
    pub struct Limits {
        /// Request line and header fields together; a larger head gets 431. While a head is incomplete, its connection
        /// holds up to this much memory.
        pub head: ByteSize = default("16KiB", size(1_024..=MAX_HEAD)),
        /// The request target; a longer one gets 414. At most `head`; a smaller `head` lowers the default.
        pub target: ByteSize = default("8KiB", size(64..=MAX_HEAD)),
        /// Header fields of a request; more get 431.
        pub fields: NonZeroU16 = default("100", whole(1..=MAX_FIELDS)),
        /// A request body; a larger one gets 413. Bodies are streamed: this costs no memory.
        pub body: Cap<ByteSize> = default("64MiB", body()),
        /// What the names of request fields may contain. `strict`: letters, digits and `-`; a request with any other
        /// name, in its head or its trailers, gets 400, so that no upstream can mistake one name for another.
        /// `lenient`: whatever HTTP allows (RFC 9110 section 5.1); only names that could be mistaken for one that this
        /// file or the gateway uses are removed.
        pub field_names: FieldNames = default("lenient", words(&[
            ("strict", FieldNames::Strict),
            ("lenient", FieldNames::Lenient),
        ])),
        /// The line before a chunk, with its size and extensions; a longer one gets 400.
        pub chunk_line: ByteSize = default("256B", size(16..=16_384)),
        /// The trailer section of a chunked request; a larger one gets 431.
        pub trailers: ByteSize = default("4KiB", size(64..=MAX_HEAD)),
        /// Requests on one client connection, which closes after the last. A limit lets clients spread over new
        /// instances.
        pub requests_per_connection: Cap<NonZeroU32> =
            default("100000", cap(whole(1..=1_000_000_000))),
        /// How many pipelined requests one read from a client may contain. One more gets its response, then the
        /// connection is closed.
        pub pipeline: NonZeroU16 = default("128", whole(1..=10_000)),
        /// Concurrent requests on one HTTP/2 connection; further ones are refused, and the client may retry them.
        pub streams: NonZeroU32 = default("128", whole(1..=10_000)),
        /// Body bytes that an HTTP/2 client may send for one request before the gateway has passed some on: a small
        /// window slows uploads over long distances. Data in transit is held in memory. An HTTP/2 endpoint may send 64
        /// KiB of a response ahead of its client, and as much as this once the client has taken that much; data that is
        /// read ahead (`response_buffer`) does not count as taken.
        pub stream_window: ByteSize = default("256KiB", size(MIN_WINDOW..=MAX_WINDOW)),
        /// The same for all requests on a client's connection together. Over HTTP/3 heads of which a part has come may
        /// take as much again, or four heads if that is more; beyond it the one with the longest part is refused.
        pub connection_window: ByteSize = default("1MiB", size(MIN_WINDOW..=MAX_WINDOW)),
        /// Open tunnels, such as WebSockets, over all workers; one more gets 503.
        pub tunnels: u32 = default("16384", whole(0..=1_000_000)),
        /// Memory for decompressing request bodies (`compress.requests`), over all workers; one client (an IPv4
        /// address, or an IPv6 /64 network) may use a quarter of it, or 32 MiB if that is more. A body for which there
        /// is no memory gets 503. A body takes 64 KiB with gzip, and its window with brotli and zstd; brotli takes up
        /// to 3.5 MiB more for its tables.
        pub decoding_memory: ByteSize = default("256MiB", size(MIN_DECODING..=MAX_DECODING)),
        /// Bytes per second that a request body must deliver, measured over 10 s; a slower one gets 408. `off`: only
        /// `timeouts.body` guards against slow bodies.
        pub body_rate: Option<ByteSize> = default("240B", rate()),
        /// How much of a request body must arrive before an endpoint is chosen; a smaller body must arrive whole. So a
        /// client that sends slowly does not hold a connection to an endpoint meanwhile. Over HTTP/2 the gateway waits
        /// for no more than the stream's share of `connection_window`. Bodies without a declared length are forwarded
        /// at once, because their clients may wait for the response first; so are tunnels. So are requests with
        /// `Expect: 100-continue`: the endpoint decides whether it wants the body (RFC 9110 section 10.1.1), and can
        /// refuse it before it is sent. `off`: all bodies are forwarded at once.
        pub request_buffer: Option<ByteSize> = default("16KiB", request_buffer()),
        /// The largest request body to hold in memory, so that it can be sent again. An idempotent request (RFC 9110
        /// section 9.2.2), and any request that no endpoint has processed, may then go to another endpoint (`retries`)
        /// even though its body was sent. A body that is held must arrive whole before an endpoint is chosen, and takes
        /// memory (`request_memory`) until the response begins. So is a body without a declared length that has come whole
        /// with its head over HTTP/2, as that of a unary gRPC call. Larger bodies, others without a declared length or with
        /// `Expect: 100-continue`, and bodies for which there is no memory are forwarded as they arrive, and are not sent
        /// again. `off`: no body is held for this.
        pub retry_body: Option<ByteSize> = default("off", retry_body()),
        /// Memory for all request bodies that are held (`retry_body`), over all workers. One client may use a quarter of
        /// it, or 32 MiB if that is more.
        pub request_memory: ByteSize = default("256MiB", size(1 << 20..=1 << 40)),
        /// Memory for all copies of requests (`routes[].mirror`), over all workers: each takes 16 KiB, its head
        /// and its body, and if responses are compared what is kept of both. Requests for whose copies there is no memory are
        /// not copied.
        pub mirror_memory: ByteSize = default("64MiB", size(1 << 20..=1 << 40)),
        /// Bytes per second that a client must read of its response while the gateway waits for it, measured over 10 s;
        /// a slower client is disconnected, or over HTTP/2 its stream is reset. A client that reads nothing at all is
        /// not slow but stalled: `timeouts.write` limits how long. `off`: only that timeout guards against slow
        /// clients, and every byte counts as progress.
        pub response_rate: Option<ByteSize> = default("240B", rate()),
        /// How much of a response to read into memory when its client is slower than its endpoint. One that fits is
        /// read from the endpoint at once, and the connection serves others. `off`: nothing is read ahead.
        pub response_buffer: Option<ByteSize> = default("256KiB", response_buffer()),
        /// Memory for all responses that are read ahead together, over all workers; one client may use a quarter of it,
        /// or 32 MiB if that is more. When it is used up, responses go as fast as their clients take them. In addition
        /// each response has a receive buffer of at most 128 KiB; one from an HTTP/2 endpoint has its window, of 64 KiB
        /// until its client has taken some of it.
        pub response_memory: ByteSize = default("256MiB", size(1 << 20..=1 << 40)),
        /// Status line and header fields of an upstream's response together; a larger head becomes 502. Over HTTP/2 a
        /// response that is only a head, such as that of a gRPC call that fails at once, may have `response_trailers`
        /// instead.
        pub response_head: ByteSize = default("32KiB", size(1_024..=MAX_HEAD)),
        /// Header fields of an upstream's response; more become 502.
        pub response_fields: NonZeroU16 = default("200", whole(1..=MAX_FIELDS)),
        /// The trailer section of an upstream's response (RFC 9110 section 6.5). Trailers beyond this, or beyond
        /// `response_fields`, are dropped: the client gets the status, the body and the other trailers, and of a gRPC
        /// call always `grpc-status`. A response holds this much memory while its trailers arrive.
        pub response_trailers: ByteSize = default("64KiB", size(64..=MAX_HEAD)),
    }
}

/// What the names of request fields may consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldNames {
    /// Letters, digits and `-`.
    Strict,
    /// Whatever a token may have.
    Lenient,
}

section! {
    "route_limits", "the limits of a route", Any;
    /// The limits of one route, in place of the global ones.
    pub(crate) struct RouteLimitFields {
        /// A request body; a larger one gets 413.
        pub(crate) body: Option<Cap<ByteSize>> = optional("`limits.body`", body()),
        /// The largest request body to hold in memory so that it can be sent again, as in `limits`; `off` holds none.
        pub(crate) retry_body: Option<At<Option<ByteSize>>> =
            optional("`limits.retry_body`", at(retry_body())),
    }
}

const MAX_HEAD: u64 = 1 << 20;
const MAX_FIELDS: i64 = 10_000;
/// What one client may have of `request_memory` and of `response_memory` at least.
const LEAST_SHARE: u64 = 32 << 20;
const MIN_WINDOW: u64 = 64 << 10;
const MAX_WINDOW: u64 = 64 << 20;
const MIN_DECODING: u64 = 32 << 20;
const MAX_DECODING: u64 = 1 << 40;
const MAX_BODY: u64 = 1 << 50;

pub(crate) fn limits() -> impl Read<Value = Limits> {
    section_of::<Limits>().then(check)
}

fn check(mut limits: Limits, node: &Node, to: &mut Reading<'_>) -> Option<Limits> {
    warn_of_shares(&limits, node, to);
    if limits.target <= limits.head {
        return Some(limits);
    }
    let Some(target) = node.entry("target") else {
        limits.target = limits.head;
        return Some(limits);
    };
    let message = "`target` is larger than `head`, which contains it";
    let sizes = match node.entry("head") {
        Some(_) => format!("`target` is {}, `head` is {}", limits.target, limits.head),
        None => format!("`target` is {}, `head` is {} by default", limits.target, limits.head),
    };
    let error = Diagnostic::error(target.key_span, message).label(sizes);
    let head = node.entry("head").map(|entry| entry.key_span);
    let error = head.into_iter().fold(error, |error, head| error.also(head, "`head` is set here"));
    to.fail(error.help("lower `target`, or raise `head`"))
}

/// Warns where no client could have as much of a body in memory as one body may have.
fn warn_of_shares(limits: &Limits, node: &Node, to: &mut Reading<'_>) {
    let Limits { retry_body, request_memory, response_buffer, response_memory, .. } = limits;
    for (key, most, memory_key, memory) in [
        ("retry_body", retry_body, "request_memory", request_memory),
        ("response_buffer", response_buffer, "response_memory", response_memory),
    ] {
        if let Some(warning) = beyond_share((key, *most), node.key_span(key), (memory_key, *memory))
        {
            to.add(warning);
        }
    }
}

/// What there is to say of a body that one client may not have in memory: it takes more than its share.
pub(crate) fn beyond_share(
    (key, most): (&str, Option<ByteSize>),
    span: Span,
    (memory_key, memory): (&str, ByteSize),
) -> Option<Diagnostic> {
    let memory = memory.bytes();
    let share = ByteSize::new((memory / 4).max(LEAST_SHARE).min(memory));
    let most = most.filter(|most| *most > share)?;
    let message = format!("`{key}` is larger than the share of one client");
    let warning = Diagnostic::warning(span, message);
    let warning = warning.label(format!("it is {most}; the share of one client is {share}"));
    Some(warning.help(format!("lower it, or raise `{memory_key}`")))
}

fn body() -> impl Read<Value = Cap<ByteSize>> {
    cap(size(1..=MAX_BODY))
}

fn request_buffer() -> impl Read<Value = Option<ByteSize>> {
    word_or("off", None, size(1..=128 << 10).map(Some))
}

fn retry_body() -> impl Read<Value = Option<ByteSize>> {
    word_or("off", None, size(1..=64 << 20).map(Some))
}

fn response_buffer() -> impl Read<Value = Option<ByteSize>> {
    word_or("off", None, size(1..=64 << 20).map(Some))
}

fn rate() -> impl Read<Value = Option<ByteSize>> {
    word_or("off", None, size(1..=1 << 30).map(Some))
}
