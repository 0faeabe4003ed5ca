//! Timeouts: how long for everything.

use crate::read::{Read, default, optional};
use crate::readers::duration;
use crate::section::section;
use std::ops::RangeInclusive;
use std::time::Duration;

section! {
    "timeouts", "the timeouts", Any;
    /// How long for everything. None can be switched off: who waits for ever holds resources for ever.
    pub struct Timeouts {
        /// A TLS handshake, from accept (or the end of a PROXY header) to its end; then the connection is closed.
        pub handshake: Duration = default("10s", timeout()),
        /// From the first byte of a request head to its last; a slower head is answered with 408. Over HTTP/2 it holds for
        /// the preface, and for every frame but those of bodies; then the connection is closed.
        pub head: Duration = default("10s", timeout()),
        /// A client connection without a request is closed after this, be it before the first one or between two.
        pub idle: Duration = default("60s", timeout()),
        /// The longest pause of a request body; a longer one is answered with 408.
        pub body: Duration = default("30s", timeout()),
        /// A client that takes nothing of its response for this long is disconnected. One that takes some, but too little, is
        /// the business of `limits.response_rate`.
        pub write: Duration = default("30s", timeout()),
        /// Connecting to one endpoint; then another is tried, or the response is 504.
        pub connect: Duration = default("5s", timeout()),
        /// From the end of the request to the head of the upstream's response; then the response is 504.
        pub response: Duration = default("60s", timeout()),
        /// The longest pause of an upstream's response body; after it the client's connection is closed.
        pub response_body: Duration = default("60s", timeout()),
        /// A tunnel, such as a WebSocket, in which nothing moves in either direction for this long is closed.
        pub tunnel: Duration = default("1h", timeout()),
        /// How long running requests, and tunnels, may take after a signal to stop. The process has ended within 2 s after that:
        /// with the default within 25 s of the signal, before Kubernetes loses its patience (30 s).
        pub drain: Duration = default("23s", timeout()),
    }
}

section! {
    "route_timeouts", "the timeouts of a route", Any;
    /// The timeouts of one route, in place of the global ones.
    pub(crate) struct RouteTimeoutFields {
        /// The longest pause of a request body.
        pub(crate) body: Option<Duration> = optional("`timeouts.body`", timeout()),
        /// How long a client may take nothing of its response.
        pub(crate) write: Option<Duration> = optional("`timeouts.write`", timeout()),
        /// Connecting to one endpoint.
        pub(crate) connect: Option<Duration> = optional("`timeouts.connect`", timeout()),
        /// From the end of the request to the head of the response.
        pub(crate) response: Option<Duration> = optional("`timeouts.response`", timeout()),
        /// The longest pause of a response body.
        pub(crate) response_body: Option<Duration> =
            optional("`timeouts.response_body`", timeout()),
        /// How long nothing may move in a tunnel.
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
}

impl RouteTimeoutFields {
    pub(crate) fn over(self, global: &Timeouts) -> RouteTimeouts {
        let RouteTimeoutFields { body, write, connect, response, response_body, tunnel } = self;
        RouteTimeouts {
            body: body.unwrap_or(global.body),
            write: write.unwrap_or(global.write),
            connect: connect.unwrap_or(global.connect),
            response: response.unwrap_or(global.response),
            response_body: response_body.unwrap_or(global.response_body),
            tunnel: tunnel.unwrap_or(global.tunnel),
        }
    }
}

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
const RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;

pub(crate) fn timeout() -> impl Read<Value = Duration> {
    duration(RANGE)
}
