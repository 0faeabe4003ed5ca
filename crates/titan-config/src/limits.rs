//! Limits: how much of everything.

use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::quantity::{ByteSize, Cap};
use crate::read::{Read, Reading, default, optional};
use crate::readers::{cap, size, whole, word_or, words};
use crate::section::{section, section_of};
use std::num::{NonZeroU16, NonZeroU32};

section! {
    "limits", "the limits", Any;
    /// How much a client or an upstream may send. What is over a limit is refused, never cut, except for the trailers
    /// of a response.
    pub struct Limits {
        /// Request line and header fields together; a larger head is answered with 431. While a head is
        /// incomplete its connection holds up to this much memory.
        pub head: ByteSize = default("16KiB", size(1_024..=MAX_HEAD)),
        /// The request target; a longer one is answered with 414. At most `head`, which lowers the default where it is
        /// less.
        pub target: ByteSize = default("8KiB", size(64..=MAX_HEAD)),
        /// Header fields of a request; more are answered with 431.
        pub fields: NonZeroU16 = default("100", whole(1..=MAX_FIELDS)),
        /// A request body; a larger one is answered with 413. Bodies are streamed: this costs no memory.
        pub body: Cap<ByteSize> = default("64MiB", body()),
        /// What the names of request fields may consist of. `strict`: letters, digits and `-`; a request with any other
        /// name, in its head or its trailers, is answered with 400, so that no two names are one to any upstream.
        /// `lenient`: whatever HTTP allows (RFC 9110 section 5.1); only names that could be taken for
        /// one that this file or the gateway knows are removed.
        pub field_names: FieldNames = default("lenient", words(&[
            ("strict", FieldNames::Strict),
            ("lenient", FieldNames::Lenient),
        ])),
        /// The line before a chunk with its size and extensions; a longer one is answered with 400.
        pub chunk_line: ByteSize = default("256B", size(16..=16_384)),
        /// The trailer section of a chunked request; a larger one is answered with 431.
        pub trailers: ByteSize = default("4KiB", size(64..=MAX_HEAD)),
        /// Requests on one client connection; with the last the connection is closed. A limit lets clients
        /// spread over new instances.
        pub requests_per_connection: Cap<NonZeroU32> =
            default("100000", cap(whole(1..=1_000_000_000))),
        /// Pipelined requests that one read of a client may bring; one more is answered, then the connection
        /// is closed.
        pub pipeline: NonZeroU16 = default("128", whole(1..=10_000)),
        /// Requests that one HTTP/2 connection may have running; more are refused, and the client may repeat them.
        pub streams: NonZeroU32 = default("128", whole(1..=10_000)),
        /// Body bytes that an HTTP/2 client may send before the gateway has passed some on, for each request: a
        /// small one slows uploads over long distances. What is on its way is held in memory. An endpoint of
        /// HTTP/2 may send 64 KiB of a response ahead of its client, and as much as this once the client has taken that
        /// much; what is read ahead (`response_buffer`) does not count as taken.
        pub stream_window: ByteSize = default("256KiB", size(MIN_WINDOW..=MAX_WINDOW)),
        /// The same for all requests of a client's connection together.
        pub connection_window: ByteSize = default("1MiB", size(MIN_WINDOW..=MAX_WINDOW)),
        /// Tunnels, such as WebSockets, open at the same moment, over all workers; one more is answered with 503.
        pub tunnels: u32 = default("16384", whole(0..=1_000_000)),
        /// Memory that decoding the bodies of requests (`compress.requests`) may take, over all workers; a quarter of it, or 32 MiB,
        /// for one client: an IPv4 address, or a /64 network of IPv6. A body for which there is none is answered with 503. A
        /// body takes 64 KiB with gzip and its window with brotli and zstd, with brotli up to 3.5 MiB more for its tables.
        pub decoding_memory: ByteSize = default("256MiB", size(MIN_DECODING..=MAX_DECODING)),
        /// Bytes per second that a request body must bring, measured over 10 s; a slower one is answered
        /// with 408. `off`: only `timeouts.body` guards against slow bodies.
        pub body_rate: Option<ByteSize> = default("240B", rate()),
        /// How much of a request body has to come before an endpoint is chosen; all of a smaller one. So a client
        /// that sends it slowly keeps no connection to an endpoint meanwhile. Over HTTP/2 no more than the stream's
        /// part of `connection_window` is waited for. Bodies without a declared length go on at once, for their
        /// clients may wait for the response first, as do tunnels. So do requests with `Expect: 100-continue`: the
        /// endpoint says whether the body is wanted (RFC 9110 section 10.1.1), and can refuse it before it is sent.
        /// `off`: all do.
        pub request_buffer: Option<ByteSize> = default("16KiB", request_buffer()),
        /// Bytes per second that a client must take of its response while it keeps the gateway waiting, measured
        /// over 10 s; a slower one is disconnected, over HTTP/2 its stream is reset. One that takes nothing at all is not slow
        /// but stalled: `timeouts.write` says how long it may. `off`: only that
        /// guards against slow clients, and each byte counts as going on.
        pub response_rate: Option<ByteSize> = default("240B", rate()),
        /// How much of a response is read into memory where its client is slower than its endpoint. One that fits is
        /// taken from the endpoint at once, and its connection serves others. `off`: none is read ahead.
        pub response_buffer: Option<ByteSize> = default("256KiB", response_buffer()),
        /// Memory that all responses read ahead may have together, over all workers; one client may have a quarter
        /// of it, 32 MiB at least. Where it is used up, responses go as fast as their clients take them. Beside it each
        /// response has a receive buffer as always, of 128 KiB at most; one from an endpoint of HTTP/2 has its
        /// window, of 64 KiB while its client has taken none of it.
        pub response_memory: ByteSize = default("256MiB", size(1 << 20..=1 << 40)),
        /// Status line and header fields of an upstream's response together; a larger head becomes 502. Over HTTP/2 a response
        /// that is nothing but its head, as of a gRPC call that fails at once, may have `response_trailers` instead.
        pub response_head: ByteSize = default("32KiB", size(1_024..=MAX_HEAD)),
        /// Header fields of an upstream's response; more become 502.
        pub response_fields: NonZeroU16 = default("200", whole(1..=MAX_FIELDS)),
        /// The trailer section of an upstream's response (RFC 9110 section 6.5). What exceeds it, or `response_fields`,
        /// is left out, and the client gets status, body and the other trailers; of a gRPC call `grpc-status` always.
        /// The memory that a response holds while they come.
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
        /// A request body; a larger one is answered with 413.
        pub(crate) body: Option<Cap<ByteSize>> = optional("`limits.body`", body()),
    }
}

const MAX_HEAD: u64 = 1 << 20;
const MAX_FIELDS: i64 = 10_000;
/// What one client may have of `response_memory` at least.
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
    let error = head.into_iter().fold(error, |error, head| error.also(head, "`head` is here"));
    to.fail(error.help("lower `target`, or raise `head`"))
}

/// Warns where no client could have as much of its response read ahead as one response may.
fn warn_of_shares(limits: &Limits, node: &Node, to: &mut Reading<'_>) {
    let memory = limits.response_memory.bytes();
    let share = ByteSize::new((memory / 4).max(LEAST_SHARE).min(memory));
    let Some(buffer) = limits.response_buffer.filter(|buffer| *buffer > share) else { return };
    let message = "`response_buffer` is more than one client may have";
    let warning = Diagnostic::warning(node.key_span("response_buffer"), message);
    let warning = warning.label(format!("it is {buffer}, and one client may have {share}"));
    to.add(warning.help("lower it, or raise `response_memory`"));
}

fn body() -> impl Read<Value = Cap<ByteSize>> {
    cap(size(1..=MAX_BODY))
}

fn request_buffer() -> impl Read<Value = Option<ByteSize>> {
    word_or("off", None, size(1..=128 << 10).map(Some))
}

fn response_buffer() -> impl Read<Value = Option<ByteSize>> {
    word_or("off", None, size(1..=64 << 20).map(Some))
}

fn rate() -> impl Read<Value = Option<ByteSize>> {
    word_or("off", None, size(1..=1 << 30).map(Some))
}
