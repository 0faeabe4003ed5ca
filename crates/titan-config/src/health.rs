//! How it is found out whether an endpoint can take requests: by probes, and by how its requests fare.

use crate::bounds::{MAX_HEADERS, MAX_PROBE_TEXT};
use crate::diagnostic::Diagnostic;
use crate::header::{REQUEST_HEADER, parse_request_header};
use crate::host::authority;
use crate::method::served_method;
use crate::node::Node;
use crate::problem::Problem;
use crate::quantity::Percent;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{
    Named, duration, mapping, percent, short_for, text, whole, word_or, words, words_or,
};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::statuses::{Statuses, statuses};
use crate::target::target;
use crate::token::{HeaderName, HeaderValue, header_value};
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;
use titan_http::Method;

/// What is asked of an endpoint to see whether it can take requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A connection.
    Tcp,
    /// A connection with a TLS handshake.
    Tls,
    /// A request, and a response to it.
    Http(Box<HttpProbe>),
    /// A call of the gRPC health checking protocol.
    Grpc(GrpcProbe),
}

section! {
    "http_probe", "an HTTP probe", Any;
    /// A request that the endpoint has to respond to. A plain string sets `path` alone.
    pub struct HttpProbe {
        /// What is requested: a path, possibly with a query.
        pub path: String = required(target()),
        /// The method.
        pub method: Method = default("GET", served_method()),
        /// The `Host` (with HTTP/2, `:authority`) of the request.
        pub host: Option<HeaderValue> = optional("the host of the endpoint", authority()),
        /// More fields of the request.
        pub headers: Vec<(HeaderName, HeaderValue)> = default("{}", headers()),
        /// The statuses that are expected, such as `200`, `2xx` or `200-399`.
        pub statuses: Statuses = default("2xx", statuses(200, 599)),
        /// A text that has to be in the first 64 KiB of the body.
        pub contains: Option<String> = optional("the body does not matter", contained()),
    }
}

section! {
    "grpc_probe", "a gRPC probe", Any;
    /// A call of `grpc.health.v1.Health/Check`, to which `SERVING` is expected; the upstream needs `protocol: h2`, or `auto`
    /// with TLS. A plain string sets `service` alone.
    pub struct GrpcProbe {
        /// The service that is asked for; the empty name stands for the server as a whole.
        pub service: String = default("", service()),
    }
}

section! {
    "probe", "a probe with settings", One;
    /// The probes that have settings.
    pub(crate) struct ProbeFields {
        /// A request, and what the response has to be.
        pub(crate) http: Option<HttpProbe> = optional("", short_for("path", section_of::<HttpProbe>())),
        /// A call of the gRPC health checking protocol. `{}` asks for the server as a whole.
        pub(crate) grpc: Option<GrpcProbe> = optional("", short_for("service", section_of::<GrpcProbe>())),
    }
}

section! {
    "health", "a health check", Any;
    /// Probes of each endpoint, made by one thread for all workers, over connections of their own that count against no limit,
    /// with the upstream's `tls` and `protocol`. A plain `tcp`, or a probe, sets `probe` alone.
    pub struct HealthCheck {
        /// What is asked of an endpoint: `tcp` connects, `tls` also makes the handshake, `http` and `grpc` expect a
        /// certain response: `{ http: /healthz }`.
        pub probe: Probe = required(probe()),
        /// The port that probes go to, for services that tell on another one how they are.
        pub port: Option<NonZeroU16> = optional("that of the endpoint", whole(1..=65_535)),
        /// The time from one probe of a healthy endpoint to the next. The first one comes at a random time within it, or at once
        /// with `initial: unhealthy`.
        pub interval: Duration = default("5s", duration(SHORTEST..=HOUR)),
        /// The same for an endpoint of which the last probe failed, or which is not healthy.
        pub unhealthy_interval: Duration = default("1s", duration(SHORTEST..=HOUR)),
        /// By which part of it each interval is longer or shorter at random, so that the probes of many endpoints and gateways do
        /// not come at once.
        pub jitter: Percent = default("10%", percent(0..=50)),
        /// How long a probe may take, connecting included: no longer than `interval` and `unhealthy_interval`.
        pub timeout: Duration = default("1s", duration(SHORTEST..=HOUR)),
        /// After so many failed probes in a row an endpoint is unhealthy, and gets no requests.
        pub unhealthy_after: NonZeroU32 = default("3", whole(1..=100)),
        /// After so many successful probes in a row it is healthy again.
        pub healthy_after: NonZeroU32 = default("2", whole(1..=100)),
        /// What a new endpoint is before its first probes: `healthy`, or `unhealthy`: then it gets no requests, whatever
        /// `panic_below` says, until `healthy_after` or `unhealthy_after` probes have told.
        pub initial: InitialHealth = default("healthy", words(&[
            ("healthy", InitialHealth::Healthy),
            ("unhealthy", InitialHealth::Unhealthy),
        ])),
    }
}

/// What an endpoint is taken for before it has been probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialHealth {
    /// It gets requests at once.
    Healthy,
    /// It gets none until a probe has succeeded.
    Unhealthy,
}

section! {
    "ejection", "the ejection of endpoints", Any;
    /// When an endpoint gets no requests for a while because those that it got fared badly. It counts over all workers. A failure
    /// is a connection that cannot be opened, a timeout, a reset or an incomplete response, and where it says so a status.
    pub struct Ejection {
        /// So many failures in a row, statuses aside, eject an endpoint.
        pub consecutive_failures: Option<NonZeroU32> = default("5", count_or_off()),
        /// So many responses with `statuses` in a row eject it.
        pub consecutive_errors: Option<NonZeroU32> = default("off", count_or_off()),
        /// This share of failures, those with `statuses` among them, ejects it, if it is also at least twice that of the other
        /// endpoints together: what fails everywhere is no fault of one endpoint.
        pub failure_share: Option<Percent> = default("50%", word_or("off", None, percent(1..=100).map(Some))),
        /// The statuses that count as failures; 501 says that a method is not known, not that the endpoint fails. A gRPC call counts
        /// by its own status: as 503 with UNAVAILABLE, as 500 with UNKNOWN, INTERNAL and DATA_LOSS, and as 501 with UNIMPLEMENTED.
        pub statuses: Statuses = default("[500, 502-599]", statuses(400, 599)),
        /// An endpoint whose responses take, on average, more than so many times as long as those of the others is ejected. Only
        /// responses that are no failures are compared, at least `min_requests` of its own and of the others.
        pub slower_than_others: Option<NonZeroU32> = default("off", word_or("off", None, whole(2..=1_000).map(Some))),
        /// The time over which `failure_share` and `slower_than_others` look.
        pub window: Duration = default("10s", duration(Duration::from_secs(1)..=HOUR)),
        /// The requests that an endpoint needs in that time to be judged by them.
        pub min_requests: NonZeroU32 = default("20", whole(1..=1_000_000)),
        /// How long an endpoint is ejected the first time; each time that follows soon takes as much longer. It returns after a
        /// tenth of its time if the last endpoint that is left fails as well.
        pub time: Duration = default("10s", duration(SHORTEST..=HOUR)),
        /// How long at most.
        pub max_time: Duration = default("5m", duration(SHORTEST..=DAY)),
        /// At most this share of the endpoints is ejected at a time, and never the last one that gets requests.
        pub max_share: Percent = default("50%", percent(1..=100)),
    }
}

const SHORTEST: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn health() -> impl Read<Value = HealthCheck> {
    short_for("probe", section_of::<HealthCheck>()).then(check_health)
}

pub(crate) fn ejection() -> impl Read<Value = Ejection> {
    section_of::<Ejection>().then(check_ejection)
}

fn probe() -> impl Read<Value = Probe> {
    let with_settings = section_of::<ProbeFields>().then(|ProbeFields { http, grpc }, _, _| {
        let grpc = || grpc.map(Probe::Grpc);
        http.map(|http| Probe::Http(Box::new(http))).or_else(grpc)
    });
    words_or(&[("tcp", Probe::Tcp), ("tls", Probe::Tls)], with_settings)
}

fn headers() -> impl Read<Value = Vec<(HeaderName, HeaderValue)>> {
    mapping(REQUEST_HEADER, parse_request_header, header_value(), 0..=MAX_HEADERS)
        .map(|named| named.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
}

fn contained() -> impl Read<Value = String> {
    let shape = TextShape {
        what: "a text",
        examples: "`\"status\":\"up\"`",
        pattern: Some("^.+"),
        max: MAX_PROBE_TEXT,
    };
    text(shape, |text| match text.is_empty() {
        true => {
            Err(Problem::new("every body contains the empty text").help("leave `contains` out"))
        }
        false => Ok(text.to_owned()),
    })
}

fn service() -> impl Read<Value = String> {
    let shape = TextShape {
        what: "the name of a gRPC service",
        examples: "`shop.v1.Orders`",
        pattern: None,
        max: MAX_PROBE_TEXT,
    };
    text(shape, |text| match text.contains(|c: char| c.is_whitespace() || c == '/') {
        true => Err(Problem::new("it is not the name of a service, but of something else")),
        false => Ok(text.to_owned()),
    })
}

fn count_or_off() -> impl Read<Value = Option<NonZeroU32>> {
    word_or("off", None, whole(1..=1_000_000).map(Some))
}

fn check_health(health: HealthCheck, node: &Node, to: &mut Reading<'_>) -> Option<HealthCheck> {
    let HealthCheck { interval, unhealthy_interval, timeout, .. } = health;
    let (key, shortest) = match unhealthy_interval < interval {
        true => ("unhealthy_interval", unhealthy_interval),
        false => ("interval", interval),
    };
    if timeout > shortest {
        let message = "a probe may take longer than the time to the next one";
        let is_default = |key: &str| if node.entry(key).is_none() { " by default" } else { "" };
        // What the file says, where it says one of the two.
        let place = if node.entry("timeout").is_some() { "timeout" } else { key };
        let error = Diagnostic::error(node.key_span(place), message).label(format!(
            "`timeout` is {timeout:?}{}, and `{key}` {shortest:?}{}",
            is_default("timeout"),
            is_default(key)
        ));
        to.add(error.help(format!("shorten `timeout`, or lengthen `{key}`")));
        return None;
    }
    Some(health)
}

fn check_ejection(ejection: Ejection, node: &Node, to: &mut Reading<'_>) -> Option<Ejection> {
    if ejection.time > ejection.max_time {
        let message = "`time` is longer than `max_time`";
        let error = Diagnostic::error(node.key_span("time"), message);
        let label = format!("{:?}, and at most {:?}", ejection.time, ejection.max_time);
        to.add(error.label(label).help("lengthen `max_time`, or shorten `time`"));
        return None;
    }
    let Ejection { consecutive_failures, consecutive_errors, .. } = ejection;
    if consecutive_errors.is_some() && ejection.statuses.is_empty() {
        let message = "`consecutive_errors` counts `statuses`, and there are none";
        let error = Diagnostic::error(node.key_span("consecutive_errors"), message);
        to.add(error.help("name some in `statuses`, or leave one of the two out"));
        return None;
    }
    let is_off = consecutive_failures.is_none()
        && consecutive_errors.is_none()
        && ejection.failure_share.is_none()
        && ejection.slower_than_others.is_none();
    if is_off {
        let warning = Diagnostic::warning(node.span, "nothing ejects an endpoint");
        to.add(warning.label("no effect").help("write `ejection: off`, or set a threshold"));
    }
    Some(ejection)
}
