//! Upstreams: named groups of endpoints.

use crate::address::{EndpointAddress, endpoint_address};
use crate::balance::{Balance, balance};
use crate::bounds::MAX_ENDPOINTS;
use crate::circuit_breaker::{BreakerDraft, CircuitBreaker, circuit_breaker};
use crate::concurrency::{Concurrency, concurrency};
use crate::diagnostic::Diagnostic;
use crate::fallback::{Fallback, FallbackFile};
use crate::health::{Ejection, HealthCheck, Probe, ejection, health};
use crate::hedge::{Hedge, hedge};
use crate::location::{Location, Span};
use crate::node::Node;
use crate::quantity::{Cap, Percent};
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{boolean, cap, one_or_list, percent, short_for, whole, word_or, words};
use crate::retries::{RetryBudget, retry_budget};
use crate::section::{section, section_of};
use crate::timeouts::timeout;
use crate::tls::{UpstreamTls, upstream_tls};
use crate::token::{Name, name};
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
    /// The share of a group of endpoints below which others get some of its requests.
    pub spill_below: Percent,
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
    /// When it is left alone because it fails; `None` for never.
    pub circuit_breaker: Option<CircuitBreaker>,
    /// How many retries it may get.
    pub retry_budget: RetryBudget,
    /// When requests get a second try while the first one goes on; `None` for never.
    pub hedge: Option<Hedge>,
    /// How endpoints are probed; `None` if they are not.
    pub health: Option<HealthCheck>,
    /// When endpoints are ejected; `None` for never.
    pub ejection: Option<Ejection>,
    /// The share of the endpoints that have to be healthy for the others to get no requests.
    pub panic_below: Percent,
    /// How long an endpoint that is healthy again gets fewer requests than its share; 0 for not at all.
    pub slow_start: Duration,
    /// How many requests may run at the same moment; `None` for as many as there are.
    pub concurrency: Option<Concurrency>,
    /// Where the file says so.
    pub location: Location,
}

/// A member of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: EndpointAddress,
    /// Its share beside the other endpoints of its group.
    pub weight: NonZeroU16,
    /// Its group: those with smaller numbers come first.
    pub priority: u8,
    /// Whether it is in another zone than the gateway: of its group it comes last.
    pub is_remote: bool,
    /// Whether it gets no more requests than those that are tied to it.
    pub is_draining: bool,
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
    /// HTTP/3.
    H3 {
        /// Whether HTTP/2 will do where QUIC does not get through.
        or_h2: bool,
    },
    /// What the TLS handshake agrees on; HTTP/1.1 without TLS.
    Auto,
}

impl Protocol {
    /// Whether HTTP/3 is spoken, where that works.
    pub fn is_h3(self) -> bool {
        matches!(self, Protocol::H3 { .. })
    }

    /// Whether requests always share connections: what needs one for itself, as a tunnel does, cannot go over them.
    pub fn is_always_shared(self) -> bool {
        match self {
            Protocol::H2 | Protocol::H3 { .. } => true,
            Protocol::H1 | Protocol::Auto => false,
        }
    }

    /// What there is to say of it beside TLS, if anything.
    pub fn in_words(self, has_tls: bool) -> &'static str {
        match self {
            Protocol::H2 => ", HTTP/2",
            Protocol::H3 { or_h2: false } => ", HTTP/3",
            Protocol::H3 { or_h2: true } => ", HTTP/3 or HTTP/2",
            Protocol::Auto if has_tls => ", HTTP/2 or HTTP/1.1",
            Protocol::H1 | Protocol::Auto => "",
        }
    }
}

const MAX_QUEUE: i64 = 16_384;
/// As many endpoints as a name may stand for, as far as shares of them are compared.
const MANY: u64 = 10_000;

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
        /// is resolved again when its TTL expires. `srv:` with a name, such as `srv:_http._tcp.shop.internal`, stands for
        /// the servers in its SRV records (RFC 2782), with the ports, the weights and the order of groups (within this
        /// endpoint's `priority`) that these say; at most 64. `weight` does not count for them. A record whose weight is 0
        /// drains its server, unless none of that priority has another. `feed:` with a name stands for endpoints that the gateway
        /// itself is told of while it runs, as `titan kubernetes` is by the EndpointSlices of a service: they come and go
        /// without a reload. No names can stand beside a feed.
        pub(crate) address: At<EndpointAddress> = required(at(endpoint_address())),
        /// Its share relative to the other endpoints, under every balance policy.
        pub(crate) weight: NonZeroU16 = default("1", whole(1..=1_000)),
        /// The group that it belongs to. Requests go to the group with the smallest number, and to the next one as far as too
        /// few endpoints of the first can take requests (`spill_below`): a backup has a higher number than the others.
        pub(crate) priority: u8 = default("0", whole(0..=9)),
        /// Where it runs, such as a rack, a data centre or an availability zone. Of endpoints with the same `priority`, those
        /// in the gateway's own `zone` come first, and so do those in none.
        pub(crate) zone: Option<Name> = optional("none: it is as near as those in the gateway's own", name()),
        /// Takes it out of service: it gets no new requests, except those whose sticky cookie names it. What runs goes on.
        pub(crate) drain: bool = default("false", boolean()),
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
        /// Of the endpoints with one `priority` (and zone), by weight, the share that has to be able to take requests. Those that
        /// drain do not count.
        /// Below it, requests spill over to the next group in proportion: if it is 70% and half as many are left, half of
        /// the requests go on to the next group.
        pub(crate) spill_below: Percent = default("70%", percent(1..=100)),
        /// Uses TLS to its endpoints; `on` with all defaults.
        pub(crate) tls: Option<UpstreamTls> = default("off", upstream_tls()),
        /// The version of HTTP to its endpoints: `h1` (HTTP/1.1), `h2` (HTTP/2; without TLS, with prior knowledge), `h3` (HTTP/3 over
        /// QUIC, which needs `tls`), or `auto`: HTTP/2 if the TLS handshake agrees on it (ALPN), else HTTP/1.1. `[h3, h2]` goes over to
        /// HTTP/2 where an endpoint does not respond over QUIC within half of the time for connecting, and tries QUIC again after a
        /// minute.
        pub(crate) protocol: Protocol = default("h1", protocol()),
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
        /// When it gets no requests for a while because too many fail or are slow. `{}` for one with all defaults.
        pub(crate) circuit_breaker: Option<BreakerDraft> =
            default("off", word_or("off", None, circuit_breaker().map(Some))),
        /// How many retries its requests may cause, from all routes.
        pub(crate) retry_budget: RetryBudget = default("{}", retry_budget()),
        /// Sends a request that takes long to a second endpoint as well: `hedge: p95`.
        pub(crate) hedge: Option<At<Hedge>> =
            default("off", word_or("off", None, at(hedge()).map(Some))),
        /// Probes of its endpoints: `health: tcp`, `health: { probe: { http: /healthz } }`.
        pub(crate) health: Option<HealthCheck> =
            default("off", word_or("off", None, health().map(Some))),
        /// When endpoints get no requests for a while because those that they got fared badly.
        pub(crate) ejection: Option<Ejection> =
            default("{}", word_or("off", None, ejection().map(Some))),
        /// If a smaller share of the endpoints is healthy (by probes) and not ejected, those that are not get requests again: what finds
        /// so many unhealthy is probably wrong, and the few that are left could not take the load. The shares of groups (`priority`,
        /// zones, SRV records) add up: while a backup is there, nothing that fails is used. Endpoints that drain, that an operator has
        /// ejected or that wait for their first probes do not count and get none; those with an open circuit breaker count as
        /// unhealthy and get none. 0%: never.
        pub(crate) panic_below: Percent = default("30%", percent(0..=100)),
        /// How long an endpoint that has become healthy, or is new, gets fewer requests than its share: from a tenth of it, rising
        /// steadily. `off`: all at once.
        pub(crate) slow_start: Duration =
            default("off", word_or("off", Duration::ZERO, timeout())),
        /// Limits the requests that run at the same moment by a number that finds itself, so that an upstream that cannot serve
        /// all of them serves as many as it can: `adaptive`, or with settings.
        pub(crate) concurrency: Option<Concurrency> = default("off", concurrency()),
    }
}

/// An endpoint with the place of its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointDraft {
    pub(crate) endpoint: Endpoint,
    zone: Option<Name>,
    pub(crate) span: Span,
}

pub(crate) fn upstream() -> impl Read<Value = UpstreamFields> {
    short_for("endpoints", section_of::<UpstreamFields>()).then(check)
}

fn endpoint() -> impl Read<Value = EndpointDraft> {
    short_for("address", section_of::<EndpointFields>()).map(|fields| {
        let EndpointFields { address, weight, priority, zone, drain: is_draining } = fields;
        let At { value: address, span } = address;
        let location = span.start;
        let endpoint =
            Endpoint { address, weight, priority, is_remote: false, is_draining, location };
        EndpointDraft { endpoint, zone, span }
    })
}

impl EndpointDraft {
    /// The endpoint, as it looks from a zone.
    pub(crate) fn seen_from(self, zone: Option<&Name>) -> Endpoint {
        let is_remote = self.zone.as_ref().zip(zone).is_some_and(|(its, own)| its != own);
        Endpoint { is_remote, ..self.endpoint }
    }
}

/// Names are resolved by a thread of their own, which knows of no feeds.
fn check_feeds(fields: &UpstreamFields, to: &mut Reading<'_>) {
    let is_feed = |it: &&EndpointDraft| matches!(it.endpoint.address, EndpointAddress::Feed(_));
    let is_name = |it: &&EndpointDraft| it.endpoint.address.is_name();
    let endpoints = &fields.endpoints;
    if let (Some(feed), Some(name)) =
        (endpoints.iter().find(is_feed), endpoints.iter().find(is_name))
    {
        let message = format!("`{}` is a name beside a feed", name.endpoint.address);
        let error = Diagnostic::error(name.span, message).label("no name can be here");
        let error = error.also(feed.span, "the feed is here");
        to.add(error.help("write its addresses, or put it into an upstream of its own"));
    }
}

fn check(fields: UpstreamFields, node: &Node, to: &mut Reading<'_>) -> Option<UpstreamFields> {
    let mut seen: HashMap<&EndpointAddress, Span> = HashMap::new();
    for EndpointDraft { endpoint, zone: _, span } in &fields.endpoints {
        if let Some(first) = seen.insert(&endpoint.address, *span) {
            let message = format!("the endpoint `{}` appears twice", endpoint.address);
            let error =
                Diagnostic::error(*span, message).label("here again").also(first, "first here");
            to.add(error.help("to give an endpoint a larger share, set its `weight`"));
        }
    }
    check_feeds(&fields, to);
    if fields.endpoints.iter().all(|draft| draft.endpoint.is_draining) {
        let span = fields.endpoints.first().map_or(node.span, |draft| draft.span);
        let warning = Diagnostic::warning(span, "all endpoints of this upstream drain");
        to.add(warning.label("only requests with a sticky cookie are sent on; others get 503"));
    }
    check_h3(&fields, node, to);
    check_probe(&fields, node, to);
    check_panic(&fields, node, to);
    check_hedge(&fields, node, to);
    Some(fields)
}

/// What keeps requests from endpoints that fail must not be undone as soon as it does. Where the shares of several groups add up, nothing
/// of that can be said.
fn check_panic(fields: &UpstreamFields, node: &Node, to: &mut Reading<'_>) {
    let UpstreamFields { endpoints, health, ejection, panic_below, .. } = fields;
    let in_use = || endpoints.iter().filter(|draft| !draft.endpoint.is_draining);
    let group = |draft: &EndpointDraft| (draft.endpoint.priority, draft.zone.clone());
    let mut groups = in_use().map(group);
    let first = groups.next();
    if groups.any(|group| Some(group) != first) {
        return;
    }
    let is_one = |address: &EndpointAddress| {
        matches!(address, EndpointAddress::Ip(_) | EndpointAddress::Unix(_))
    };
    let is_counted = in_use().all(|draft| is_one(&draft.endpoint.address));
    // Names stand for any number of endpoints.
    let all = if is_counted { in_use().count() as u64 } else { MANY };
    if all < 2 {
        return;
    }
    let panics = |left: u64| left * 10_000 < all * u64::from(panic_below.as_hundredths());
    if panics(all - 1) && (health.is_some() || ejection.is_some()) {
        let message = "as soon as one endpoint fails, all of them get requests";
        let error = Diagnostic::error(node.key_span("panic_below"), message);
        let error = error.label("then neither probes nor ejection keep requests from it");
        to.add(error.help("lower `panic_below`; `ejection: off` ejects no endpoint at all"));
        return;
    }
    let Some(Ejection { max_share, .. }) = ejection else { return };
    if panics(all - max_share.of(all).clamp(1, all - 1)) {
        let key = if node.entry("panic_below").is_some() { "panic_below" } else { "ejection" };
        let message = "ejection can leave so few endpoints that all of them get requests again";
        let warning = Diagnostic::warning(node.key_span(key), message);
        let label = format!("`max_share` is {max_share}, and `panic_below` is {panic_below}");
        to.add(warning.label(label).help("lower one of the two"));
    }
}

fn protocol() -> impl Read<Value = Protocol> {
    const WORDS: &[(&str, Protocol)] = &[
        ("h1", Protocol::H1),
        ("h2", Protocol::H2),
        ("h3", Protocol::H3 { or_h2: false }),
        ("auto", Protocol::Auto),
    ];
    one_or_list(words(WORDS), 1..=2).then(|protocols, node, to| match protocols[..] {
        [one] => Some(one),
        [Protocol::H3 { .. }, Protocol::H2] => Some(Protocol::H3 { or_h2: true }),
        _ => {
            let message = "these versions of HTTP cannot stand in for one another";
            let error = Diagnostic::error(node.span, message);
            to.add(error.help("write `[h3, h2]`, or a single one: `auto` is HTTP/2 or HTTP/1.1"));
            None
        }
    })
}

/// HTTP/3 is spoken over QUIC, which knows neither connections without TLS nor Unix sockets.
fn check_h3(fields: &UpstreamFields, node: &Node, to: &mut Reading<'_>) {
    if !fields.protocol.is_h3() {
        return;
    }
    let is_unix =
        |draft: &EndpointDraft| matches!(draft.endpoint.address, EndpointAddress::Unix(_));
    let (message, help) = match fields.tls {
        None => ("HTTP/3 needs TLS", "set `tls: on` in this upstream"),
        Some(_) if fields.endpoints.iter().any(is_unix) => (
            "HTTP/3 does not go over Unix sockets",
            "give the Unix socket an upstream of its own, or set `protocol: h2`",
        ),
        Some(_) => return,
    };
    to.add(Diagnostic::error(node.key_span("protocol"), message).help(help));
}

/// A probe has to go over what the upstream speaks.
fn check_probe(fields: &UpstreamFields, node: &Node, to: &mut Reading<'_>) {
    let Some(HealthCheck { probe, port, .. }) = &fields.health else { return };
    let is_unix =
        |draft: &EndpointDraft| matches!(draft.endpoint.address, EndpointAddress::Unix(_));
    let (message, help) = match probe {
        _ if port.is_some() && fields.endpoints.iter().any(is_unix) => (
            "`port` is for endpoints that have one, and a Unix socket has none",
            "remove `port` from `health`, or give the Unix socket an upstream of its own",
        ),
        Probe::Tls if fields.tls.is_none() => {
            ("a TLS probe needs TLS", "set `tls` in this upstream, or probe with `tcp`")
        }
        Probe::Grpc(_) if fields.protocol == Protocol::H1 => (
            "a gRPC probe needs HTTP/2",
            "set `protocol: h2` in this upstream, or probe with `http`",
        ),
        Probe::Tcp | Probe::Tls if fields.protocol == (Protocol::H3 { or_h2: false }) => {
            ("a probe over TCP says nothing of HTTP/3", "probe with `http`")
        }
        _ => return,
    };
    to.add(Diagnostic::error(node.key_span("health"), message).help(help));
}

/// A hedge goes to another endpoint, which has to be as good as the first one.
fn check_hedge(fields: &UpstreamFields, node: &Node, to: &mut Reading<'_>) {
    if fields.hedge.is_none() {
        return;
    }
    let span = node.key_span("hedge");
    if matches!(fields.balance, Balance::StickyCookie(_)) {
        let error = Diagnostic::error(span, "a hedge would leave the endpoint that a cookie names");
        let error = error.label("it goes to an endpoint without the client's session");
        to.add(error.help("remove `hedge`, or balance without a cookie"));
    }
    if let [EndpointDraft { endpoint, .. }] = fields.endpoints.as_slice()
        && matches!(endpoint.address, EndpointAddress::Ip(_) | EndpointAddress::Unix(_))
    {
        let warning = Diagnostic::warning(span, "there is no second endpoint to hedge with");
        to.add(warning.label("no effect").help("add endpoints, or remove `hedge`"));
    }
}

impl UpstreamFields {
    /// The upstream of that name, as it looks from a zone.
    pub(crate) fn finish(self, name: Name, location: Location, zone: Option<&Name>) -> Upstream {
        let UpstreamFields {
            endpoints,
            balance,
            spill_below,
            tls,
            protocol,
            max_connections,
            max_idle,
            idle_timeout,
            queue,
            circuit_breaker,
            retry_budget,
            hedge,
            health,
            ejection,
            panic_below,
            slow_start,
            concurrency,
        } = self;
        let endpoints = endpoints.into_iter().map(|draft| draft.seen_from(zone));
        Upstream {
            name,
            endpoints: endpoints.collect(),
            balance,
            spill_below,
            tls,
            protocol,
            max_connections,
            max_idle,
            idle_timeout,
            queue,
            circuit_breaker: circuit_breaker.map(|draft| draft.breaker),
            retry_budget,
            hedge: hedge.map(|it| it.value),
            health,
            ejection,
            panic_below,
            slow_start,
            concurrency,
            location,
        }
    }
}

impl Upstream {
    /// What requests get while its circuit breaker is open.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.circuit_breaker.as_ref()?.fallback.as_ref()
    }

    /// The file that they get then.
    pub fn fallback_file(&self) -> Option<&FallbackFile> {
        match self.fallback()? {
            Fallback::File(file) => Some(file),
            Fallback::Respond(_) | Fallback::Upstream(_) => None,
        }
    }

    /// The same upstream wherever the file has it.
    pub fn without_locations(&self) -> Upstream {
        let location = Span::NOWHERE.start;
        let endpoints = self.endpoints.iter().cloned();
        let endpoints = endpoints.map(|endpoint| Endpoint { location, ..endpoint });
        Upstream { endpoints: endpoints.collect(), location, ..self.clone() }
    }
}
