//! Requests that fail on purpose.

use super::section::PolicySection;
use crate::bounds::{MAX_API_KEYS, MAX_NETWORKS};
use crate::cidr::{Cidr, cidr};
use crate::diagnostic::Diagnostic;
use crate::header::request_header;
use crate::node::Node;
use crate::quantity::{ByteSize, Percent};
use crate::read::{Read, Reading, default, optional};
use crate::readers::{boolean, duration, one_or_list, percent, size, words};
use crate::section::{section, section_of};
use crate::token::{HeaderName, Name, name};
use std::time::Duration;
use titan_http::Status;

/// Requests that are made to fail, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which share of them.
    pub share: Percent,
    /// The field that a request has to have.
    pub header: Option<HeaderName>,
    /// The networks of the clients that it is about.
    pub addresses: Vec<Cidr>,
    /// The API keys of those clients.
    pub api_keys: Vec<Name>,
    /// How long a request waits first.
    pub delay: Option<Duration>,
    /// What becomes of it then; nothing where it only waits.
    pub effect: Option<FaultEffect>,
}

/// What becomes of a request that fails on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// It gets a response with that status.
    Status(Status),
    /// Its connection, or its stream, ends without a response.
    Abort,
    /// The response ends behind so many bytes of its body.
    Truncate(ByteSize),
}

section! {
    "fault", "a fault policy", Any;
    /// Makes requests fail on purpose, to see what clients make of it. A request is delayed, and then gets a failure status, no
    /// response, or an incomplete one. It comes behind authentication, authorisation and rate limits. What it does is counted in
    /// `titan_injected_faults_total`, and reported on standard error. Not for production traffic without `header`.
    pub(crate) struct FaultFields {
        /// The share of the requests that fail, drawn at random, of those that `header`, `addresses` and `api_keys` leave.
        pub(crate) share: Percent = default("100%", percent(1..=100)),
        /// Only requests with this header field fail, whatever its value. It needs `addresses` or `api_keys`: nobody else's
        /// requests fail for it. Upstreams never get the field.
        pub(crate) header: Option<HeaderName> = optional("a request fails without asking for it", request_header()),
        /// The networks of the clients whose requests may fail, by the address behind all trusted proxies. Clients without an
        /// address, those of Unix sockets, are never among them.
        pub(crate) addresses: Vec<Cidr> = default("[]", one_or_list(cidr(), 0..=MAX_NETWORKS)),
        /// The names of API keys whose requests may fail. The route needs a policy `authorise` with these keys. With
        /// neither these nor `addresses` all requests may fail.
        pub(crate) api_keys: Vec<Name> = default("[]", one_or_list(name(), 0..=MAX_API_KEYS)),
        /// How long a request waits first. At most 4096 requests wait at a time, with those that wait for a rate limit; more
        /// are not delayed.
        pub(crate) delay: Option<Duration> = optional("no delay", duration(SHORTEST..=LONGEST)),
        /// The status of the response, in place of the route's own: a problem document with the code `injected-429`,
        /// `injected-500` and so on. gRPC calls get UNAVAILABLE, with 500 INTERNAL, with 504 DEADLINE_EXCEEDED and with 429
        /// RESOURCE_EXHAUSTED.
        pub(crate) status: Option<Status> = optional("the route's own response", status()),
        /// Whether the connection is closed without a response; with HTTP/2 the stream is reset.
        pub(crate) abort: bool = default("false", boolean()),
        /// After so many bytes of its body the response ends, visibly incomplete, whether an upstream has made it or the gateway; a
        /// shorter one stays whole.
        pub(crate) truncate_after: Option<ByteSize> = optional("whole responses", size(0..=MAX_KEPT)),
    }
}

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(60);
const MAX_KEPT: u64 = 1 << 40;

impl PolicySection for Fault {
    fn request_fields(&self) -> Vec<&HeaderName> {
        self.header.iter().collect()
    }
}

pub(super) fn policy() -> impl Read<Value = Fault> {
    section_of::<FaultFields>().then(check)
}

fn check(fields: FaultFields, node: &Node, to: &mut Reading<'_>) -> Option<Fault> {
    let FaultFields { share, header, addresses, api_keys, delay, status, abort, truncate_after } =
        fields;
    let effects = [
        ("status", status.map(FaultEffect::Status)),
        ("abort", abort.then_some(FaultEffect::Abort)),
        ("truncate_after", truncate_after.map(FaultEffect::Truncate)),
    ];
    let mut effects = effects.iter().filter_map(|(key, effect)| Some((*key, (*effect)?)));
    let (first, second) = (effects.next(), effects.next());
    if let (Some((first, _)), Some((second, _))) = (first, second) {
        let message = format!("a request cannot fail by `{first}` and by `{second}`");
        let error =
            Diagnostic::error(node.key_span(second), message).label("remove one of the two");
        return to.fail(error.also(node.key_span(first), "the first is here"));
    }
    if first.is_none() && delay.is_none() {
        let error = Diagnostic::error(node.span, "this policy makes nothing fail");
        return to.fail(error.label("expected `delay`, `status`, `abort` or `truncate_after`"));
    }
    if header.is_some() && addresses.is_empty() && api_keys.is_empty() {
        let error = Diagnostic::error(node.key_span("header"), "any client could use this header");
        let error = error.label("nothing says who may");
        return to.fail(error.help("name the clients by `addresses` or `api_keys`"));
    }
    let effect = first.map(|(_, effect)| effect);
    Some(Fault { share, header, addresses, api_keys, delay, effect })
}

fn status() -> impl Read<Value = Status> {
    words(&[
        ("429", Status::TOO_MANY_REQUESTS),
        ("500", Status::INTERNAL_SERVER_ERROR),
        ("502", Status::BAD_GATEWAY),
        ("503", Status::SERVICE_UNAVAILABLE),
        ("504", Status::GATEWAY_TIMEOUT),
    ])
}
