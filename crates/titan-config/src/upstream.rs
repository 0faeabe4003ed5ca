//! Upstreams: named groups of endpoints.

use crate::address::{EndpointAddress, endpoint_address, parse_endpoint};
use crate::balance::{Balance, balance};
use crate::bounds::MAX_ENDPOINTS;
use crate::diagnostic::Diagnostic;
use crate::location::{Location, Span};
use crate::node::{Node, quote};
use crate::quantity::Cap;
use crate::read::{At, Read, Reading, at, default, required};
use crate::readers::{cap, one_or_list, short_for, text, whole, words};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::timeouts::timeout;
use crate::tls::{UpstreamTls, upstream_tls};
use crate::token::{NAME, Name};
use std::collections::HashMap;
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

/// A named group of endpoints that serve the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Unique.
    pub name: Name,
    /// At least one, no two with the same address.
    pub endpoints: Vec<Endpoint>,
    /// How an endpoint is chosen.
    pub balance: Balance,
    /// How TLS is spoken with endpoints; `None` without TLS.
    pub tls: Option<UpstreamTls>,
    /// Which version of HTTP is spoken with endpoints.
    pub protocol: Protocol,
    /// Connections to one endpoint, over all workers.
    pub max_connections: Cap<NonZeroU32>,
    /// Idle connections kept to one endpoint, over all workers; none when 0.
    pub max_idle: u32,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// The requests that wait when every connection is in use.
    pub queue: Queue,
    /// Where the file says so.
    pub location: Location,
}

/// A member of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: EndpointAddress,
    /// Its share beside the other endpoints.
    pub weight: NonZeroU16,
    /// Where the file says so.
    pub location: Location,
}

/// Which version of HTTP is spoken with endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
    /// What the TLS handshake agrees on; HTTP/1.1 without TLS.
    Auto,
}

const MAX_QUEUE: i64 = 16_384;

section! {
    "queue", "a queue", Any;
    /// The requests that wait for a connection when all are in use.
    pub struct Queue {
        /// How many may wait, over all workers; further ones get 503. 0: none waits. In a full queue, a client gives up
        /// a place to one that has fewer. At most 16384, because choosing the next one takes a lock.
        pub length: u32 = default("1024", whole(0..=MAX_QUEUE)),
        /// How long each may wait; then it gets 503.
        pub timeout: Duration = default("1s", timeout()),
    }
}

section! {
    "endpoint", "an endpoint", Any;
    /// A server of an upstream. A plain string sets `address` alone.
    pub(crate) struct EndpointFields {
        /// Its address: a name or an IP address with a port, or a Unix socket. All addresses of a name are used, and it
        /// is resolved again when its TTL expires.
        pub(crate) address: At<EndpointAddress> = required(at(endpoint_address())),
        /// Its share relative to the other endpoints, under every balance policy.
        pub(crate) weight: NonZeroU16 = default("1", whole(1..=1_000)),
    }
}

section! {
    "upstream", "an upstream", Any;
    /// A named group of endpoints that serve the same content. A plain string or a list sets `endpoints` alone.
    pub(crate) struct UpstreamFields {
        /// Its endpoints, no two with the same address. A single one needs no list.
        pub(crate) endpoints: Vec<EndpointDraft> =
            required(one_or_list(endpoint(), 1..=MAX_ENDPOINTS)),
        /// How an endpoint is chosen: `round_robin` takes each in turn; `least_requests` the one with the fewest
        /// running requests; `p2c_ewma` the better of two drawn at random, by latency times running requests; `random`;
        /// or a policy with settings. Weights count in all of them.
        pub(crate) balance: Balance = default("round_robin", balance()),
        /// Uses TLS to its endpoints; `on` with all defaults.
        pub(crate) tls: Option<UpstreamTls> = default("off", upstream_tls()),
        /// The version of HTTP to its endpoints: `h1` (HTTP/1.1), `h2` (HTTP/2; without TLS, with prior knowledge), or
        /// `auto`: HTTP/2 if the TLS handshake agrees on it (ALPN), else HTTP/1.1.
        pub(crate) protocol: Protocol = default("h1", words(&[
            ("h1", Protocol::H1),
            ("h2", Protocol::H2),
            ("auto", Protocol::Auto),
        ])),
        /// Connections to one endpoint, over all workers. When all are in use, requests wait in `queue`, and a free
        /// connection goes to the client that uses the fewest. The last eighth is reserved for clients that use few.
        /// Where requests share connections (HTTP/2), the same applies to the streams of each. A client is an IPv4
        /// address, or the /64 network of an IPv6 address. Each WebSocket uses one while it is open.
        pub(crate) max_connections: Cap<NonZeroU32> =
            default("unlimited", cap(whole(1..=1_000_000))),
        /// Idle connections to keep to one endpoint, over all workers. 0: a new connection for each request.
        pub(crate) max_idle: u32 = default("128", whole(0..=1_000_000)),
        /// How long to keep an idle connection. Best a little shorter than the endpoint's own timeout.
        pub(crate) idle_timeout: Duration = default("55s", timeout()),
        /// The requests that wait for a connection.
        pub(crate) queue: Queue = default("{}", section_of::<Queue>()),
    }
}

/// An endpoint with the place of its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointDraft {
    pub(crate) endpoint: Endpoint,
    pub(crate) span: Span,
}

pub(crate) fn upstream() -> impl Read<Value = UpstreamFields> {
    short_for("endpoints", section_of::<UpstreamFields>()).then(check)
}

fn endpoint() -> impl Read<Value = EndpointDraft> {
    short_for("address", section_of::<EndpointFields>()).map(|fields| {
        let EndpointFields { address: At { value: address, span }, weight } = fields;
        EndpointDraft { endpoint: Endpoint { address, weight, location: span.start }, span }
    })
}

fn check(fields: UpstreamFields, _: &Node, to: &mut Reading<'_>) -> Option<UpstreamFields> {
    let mut seen: HashMap<&EndpointAddress, Span> = HashMap::new();
    for EndpointDraft { endpoint, span } in &fields.endpoints {
        if let Some(first) = seen.insert(&endpoint.address, *span) {
            let message = format!("the endpoint `{}` appears twice", endpoint.address);
            let error =
                Diagnostic::error(*span, message).label("here again").also(first, "first here");
            to.add(error.help("to give an endpoint a larger share, set its `weight`"));
        }
    }
    Some(fields)
}

/// The place of an upstream in [`crate::Config::upstreams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(u16);

impl Upstream {
    /// The same upstream wherever the file has it.
    pub fn without_locations(&self) -> Upstream {
        let location = Span::NOWHERE.start;
        let endpoints = self.endpoints.iter().cloned();
        let endpoints = endpoints.map(|endpoint| Endpoint { location, ..endpoint });
        Upstream { endpoints: endpoints.collect(), location, ..self.clone() }
    }
}

impl UpstreamId {
    /// The index into [`crate::Config::upstreams`].
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The name of an upstream of the file.
pub(crate) fn upstream_name() -> impl Read<Value = UpstreamId> {
    let shape = TextShape { what: "the name of an upstream", examples: "`api`", ..NAME };
    text(shape, |text| Ok(text.to_owned()))
        .then(|name: String, node, to| find_upstream(&name, node.span, to))
}

/// The upstream of that name, which is used from now on.
pub(crate) fn find_upstream(name: &str, span: Span, to: &mut Reading<'_>) -> Option<UpstreamId> {
    let place = to.declared.upstreams.use_name(name);
    if let Some(place) = place.and_then(|place| u16::try_from(place).ok()) {
        return Some(UpstreamId(place));
    }
    let error = Diagnostic::error(span, format!("there is no upstream {}", quote(name)));
    let help = match parse_endpoint(name).is_ok() || name.contains("://") {
        true => {
            "define the upstream under a name in `upstreams`, and name it in the route: `upstream: api`".into()
        }
        false => help_for(name, to),
    };
    to.fail(error.label("not found in `upstreams`").help(help))
}

/// What to do about a name that no upstream has.
fn help_for(name: &str, to: &Reading<'_>) -> String {
    const SHOWN: usize = 8;
    let upstreams = &to.declared.upstreams;
    if let Some(help) = to.did_you_mean(name, upstreams.iter()) {
        return help;
    }
    let count = upstreams.iter().len();
    let names: Vec<_> = upstreams.iter().take(SHOWN).map(quote).collect();
    match count {
        0 => "the file defines no `upstreams`".to_owned(),
        1..=SHOWN => format!("the file defines {}", names.join(", ")),
        _ => format!("the file defines {} and {} more", names.join(", "), count - SHOWN),
    }
}
