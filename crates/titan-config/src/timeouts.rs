//! Timeouts: the section and its defaults.

use crate::header::request_header;
use crate::quantity::Cap;
use crate::read::{Read, default, optional};
use crate::readers::{cap, duration};
use crate::section::section;
use crate::token::HeaderName;
use std::ops::RangeInclusive;
use std::time::Duration;

section! {
    "timeouts", "the timeouts", Any;
    /// How long everything may take. None but `total` can be disabled: a wait without end holds resources without end.
    pub struct Timeouts {
        /// A TLS handshake, from accept (or the end of a PROXY header) to its end; then the connection is closed.
        pub handshake: Duration = default("10s", timeout()),
        /// From the first byte of a request head to its last; a slower head gets 408. Over HTTP/2 it applies to the
        /// preface and to every frame except those of bodies; then the connection is closed.
        pub head: Duration = default("10s", timeout()),
        /// How long a client connection may stay open without a request, before the first one or between two.
        pub idle: Duration = default("60s", timeout()),
        /// The longest pause in a request body; a longer one gets 408.
        pub body: Duration = default("30s", timeout()),
        /// A client that reads nothing of its response for this long is disconnected. `limits.response_rate` is for
        /// clients that read too slowly.
        pub write: Duration = default("30s", timeout()),
        /// Connecting to one endpoint; then another is tried, or the response is 504.
        pub connect: Duration = default("5s", timeout()),
        /// From the end of the request to the head of the upstream's response; then the response is 504.
        pub response: Duration = default("60s", timeout()),
        /// The longest pause in an upstream's response body; then the client's connection is closed.
        pub response_body: Duration = default("60s", timeout()),
        /// A whole request, from the end of its head to the end of its response: one deadline for all attempts, the pauses
        /// between them, and queues. Then the response is 504 (`deadline`), or ends early if it has begun. Routes with long
        /// downloads or streams need `unlimited`. Tunnels end by `tunnel` alone.
        pub total: Cap<Duration> = default("unlimited", cap(timeout())),
        /// A request header field in which clients say how many milliseconds a request may take, such as
        /// `X-Request-Timeout-Ms`. The sooner of that, `grpc-timeout` and `total` applies. Each attempt has what is left of it in
        /// this field (gRPC calls: also in `grpc-timeout`); a request whose time is over is not sent. Another value than a
        /// whole number of at most 9 digits gets 400 (`bad-deadline`).
        pub deadline_header: Option<HeaderName> = optional("none", request_header()),
        /// A tunnel, such as a WebSocket, is closed when nothing has moved in either direction for this long.
        pub tunnel: Duration = default("1h", timeout()),
        /// How long running requests and tunnels may take after a stop signal and `drain_delay`. The process exits at
        /// most 2 s later: with the defaults, within 25 s of the signal, before Kubernetes kills it (30 s).
        pub drain: Duration = default("23s", timeout()),
        /// How long the listeners stay open after a stop signal, while `/readyz` responds with 503 already: the time that load
        /// balancers need to notice. Then the drain begins. A second signal ends the process at once. An upgrade does
        /// not wait: the new process has the listeners.
        pub drain_delay: Duration = default("0s", duration(Duration::ZERO..=DAY)),
        /// How long a new process may take, when the gateway is upgraded, from its start until it serves. If it takes
        /// longer, it is ended, and the old process goes on.
        pub upgrade: Duration = default("60s", timeout()),
    }
}

section! {
    "route_timeouts", "the timeouts of a route", Any;
    /// The timeouts of one route, in place of the global ones.
    pub(crate) struct RouteTimeoutFields {
        /// The longest pause in a request body.
        pub(crate) body: Option<Duration> = optional("`timeouts.body`", timeout()),
        /// How long a client may pause while it reads its response.
        pub(crate) write: Option<Duration> = optional("`timeouts.write`", timeout()),
        /// Connecting to one endpoint.
        pub(crate) connect: Option<Duration> = optional("`timeouts.connect`", timeout()),
        /// From the end of the request to the head of the response.
        pub(crate) response: Option<Duration> = optional("`timeouts.response`", timeout()),
        /// The longest pause in a response body.
        pub(crate) response_body: Option<Duration> =
            optional("`timeouts.response_body`", timeout()),
        /// A whole request.
        pub(crate) total: Option<Cap<Duration>> = optional("`timeouts.total`", cap(timeout())),
        /// The field in which clients say how many milliseconds a request may take.
        pub(crate) deadline_header: Option<HeaderName> =
            optional("`timeouts.deadline_header`", request_header()),
        /// How long a tunnel may be idle.
        pub(crate) tunnel: Option<Duration> = optional("`timeouts.tunnel`", timeout()),
    }
}

/// The timeouts of one route: its own where it has them, the global ones elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTimeouts {
    /// See [`Timeouts::body`].
    pub body: Duration,
    /// See [`Timeouts::write`].
    pub write: Duration,
    /// See [`Timeouts::connect`].
    pub connect: Duration,
    /// See [`Timeouts::response`].
    pub response: Duration,
    /// See [`Timeouts::response_body`].
    pub response_body: Duration,
    /// See [`Timeouts::tunnel`].
    pub tunnel: Duration,
    /// See [`Timeouts::total`].
    pub total: Cap<Duration>,
    /// See [`Timeouts::deadline_header`].
    pub deadline_header: Option<HeaderName>,
}

impl RouteTimeoutFields {
    pub(crate) fn over(self, global: &Timeouts) -> RouteTimeouts {
        let RouteTimeoutFields {
            body,
            write,
            connect,
            response,
            response_body,
            tunnel,
            total,
            deadline_header,
        } = self;
        RouteTimeouts {
            body: body.unwrap_or(global.body),
            write: write.unwrap_or(global.write),
            connect: connect.unwrap_or(global.connect),
            response: response.unwrap_or(global.response),
            response_body: response_body.unwrap_or(global.response_body),
            tunnel: tunnel.unwrap_or(global.tunnel),
            total: total.unwrap_or(global.total),
            deadline_header: deadline_header.or_else(|| global.deadline_header.clone()),
        }
    }
}

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
const RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;

pub(crate) fn timeout() -> impl Read<Value = Duration> {
    duration(RANGE)
}
