//! Copies of requests, which another upstream gets as well, and what its responses are compared with.

use crate::bounds::MAX_POINTERS;
use crate::diagnostic::Diagnostic;
use crate::header::{compared_header, distinct_names};
use crate::node::Node;
use crate::pointer::{MemberPattern, member_pattern};
use crate::quantity::{ByteSize, Percent};
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{duration, one_or_list, percent, short_for, size, whole, word_or};
use crate::section::{section, section_of};
use crate::token::HeaderName;
use crate::upstream_id::{UpstreamId, upstream_name};
use std::num::NonZeroU32;
use std::time::Duration;

section! {
    "mirror", "a mirror", Any;
    /// Sends copies of a route's requests to another upstream, whose responses nobody gets. A copy is sent once the upstream
    /// of the request has all of it: no request waits for its copy, and nothing that happens to the copy affects it. The
    /// copy is what the request's upstream gets, its credentials included, but with `X-Mirrored: true`; it is not sent
    /// again when it fails, never waits for a turn (`concurrency`), and of its response at most 4 MiB are read. That field is
    /// removed from all requests, those of trusted proxies too. Tunnels are not copied, and nothing is while the gateway is
    /// under pressure (`pressure.shed`). A plain name sets `upstream` alone.
    pub struct Mirror {
        /// The upstream that gets the copies; not one of the route's own, nor a `fallback` of theirs.
        pub upstream: UpstreamId = required(upstream_name()),
        /// The share of the requests that are copied, drawn at random.
        pub share: Percent = default("100%", percent(0..=100)),
        /// The largest request body that is copied. Requests with a larger one are not copied. The body is in memory
        /// (`limits.mirror_memory`) from its first byte until the copy is done.
        pub body: ByteSize = default("64KiB", size(0..=64 << 20)),
        /// How many copies for this route may run at once, over all workers; further requests are not copied. One whose
        /// response is compared runs until the response to its request is complete too.
        pub concurrent: NonZeroU32 = default("100", whole(1..=100_000)),
        /// How long a copy may take in all; then it is given up, and its endpoint has failed if it has not responded. The route's
        /// timeouts apply to it too. A request that is not complete in that time is not copied.
        pub timeout: Duration = default("10s", duration(SHORTEST..=LONGEST)),
        /// Compares the responses to copies with those to their requests. `{}` for the defaults.
        pub compare: Option<Comparison> = optional("they are not compared", section_of::<Comparison>().then(check_comparison)),
    }
}

section! {
    "comparison", "a comparison", Any;
    /// Compares the response to a copy with that of the request's upstream, both as they come, before policies change
    /// them: the status, of gRPC calls `grpc-status` too, and if that is the same the chosen headers and the body. Bodies are
    /// equal if their bytes are, or if both are JSON and their members are equal: in any order, numbers by value (`1` is
    /// `1.0`), lists item by item. Results are counted, and the newest differences are shown at `/mirrors` of the admin
    /// interface. Both bodies are in memory (`limits.mirror_memory`) until they are compared, which takes place on a thread of
    /// its own: no response waits for it.
    pub struct Comparison {
        /// The headers that are compared, as a whole and with regard to case. Differences show up to 100 bytes of their values,
        /// unless the name tells that they are secret, as `Set-Cookie` and `X-Session` do.
        pub headers: Vec<HeaderName> = default("[Content-Type]", distinct_names(compared_header())),
        /// The largest body that is compared, encoded and decoded (gzip, brotli, zstd); `off`: bodies are not.
        pub body: Option<ByteSize> = default("64KiB", word_or("off", None, size(1..=MAX_COMPARED).map(Some))),
        /// Members of JSON bodies that are not compared, nor what is in them: JSON pointers, in which `*` stands for any name
        /// or index.
        pub ignore: Vec<MemberPattern> = default("[]", one_or_list(member_pattern(), 0..=MAX_POINTERS)),
        /// Members of JSON bodies whose values, and those in them, differences show, up to 100 bytes of each. Of all others
        /// they show the place, the type and the length. `/*` shows all values, but those in members whose name tells that
        /// they are secret, such as `token`, `password` or `sid`, are never shown. Whoever may read the admin interface sees them.
        pub show: Vec<MemberPattern> = default("[]", one_or_list(member_pattern(), 0..=MAX_POINTERS)),
        /// How many of the newest responses that differ are shown; up to 10 differences of each. A reload keeps them,
        /// unless `show` or `headers` change.
        pub samples: u32 = default("20", whole(0..=200)),
    }
}

impl Mirror {
    /// The memory that a copy takes apart from its head and body: its task, and room to read the response.
    pub const AROUND_COPY: ByteSize = ByteSize::new(16 << 10);

    /// The memory that a copy takes, if its body and the bodies of both responses are as large as may be; without the heads.
    pub(crate) fn memory(&self) -> ByteSize {
        let compared = self.compare.as_ref().and_then(|compare| compare.body);
        let compared = compared.map_or(0, ByteSize::bytes);
        ByteSize::new(Self::AROUND_COPY.bytes() + self.body.bytes() + 2 * compared)
    }
}

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(3600);
/// Both bodies are in memory as a whole.
const MAX_COMPARED: u64 = 1 << 20;

/// How many mirrors a route may have: each of its requests may have as many copies.
const MAX_MIRRORS: usize = 16;

pub(crate) fn mirrors() -> impl Read<Value = Vec<Mirror>> {
    one_or_list(short_for("upstream", section_of::<Mirror>()).then(check), 1..=MAX_MIRRORS)
}

fn check(mirror: Mirror, node: &Node, to: &mut Reading<'_>) -> Option<Mirror> {
    if mirror.share != Percent::NONE {
        return Some(mirror);
    }
    let error = Diagnostic::error(node.key_span("share"), "this mirror copies no request");
    to.fail(error.label("a share of 0%").help("remove `mirror`, or raise `share`"))
}

fn check_comparison(
    comparison: Comparison,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<Comparison> {
    let keys = [("ignore", &comparison.ignore), ("show", &comparison.show)];
    let idle = keys.into_iter().find(|(_, members)| !members.is_empty());
    let Some((key, _)) = idle.filter(|_| comparison.body.is_none()) else {
        return Some(comparison);
    };
    let message = format!("`{key}` has no effect: bodies are not compared");
    let error = Diagnostic::error(node.key_span(key), message);
    let error = error.also(node.key_span("body"), "this turns it off");
    to.fail(error.help(format!("remove `{key}`, or set `body` to a size")))
}
