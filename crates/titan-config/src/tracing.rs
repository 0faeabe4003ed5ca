//! Traces: which requests they are made of, where they go, and what upstreams are told of them.

use crate::diagnostic::Diagnostic;
use crate::location::Location;
use crate::node::Node;
use crate::otlp::collector_name;
use crate::quantity::{Cap, Percent};
use crate::read::{At, Read, Reading, default, optional, required};
use crate::readers::{boolean, cap, duration, one_or_list, percent, short_for, whole, words};
use crate::section::{section, section_of};
use crate::token::Name;
use std::num::NonZeroU32;
use std::time::Duration;

/// What traces are made of, and where they go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// The collector that gets spans.
    pub collector: Name,
    /// Which share is traced of the requests that belong to no trace.
    pub share: Percent,
    /// How many of these are traced in a second, at most.
    pub rate: Cap<NonZeroU32>,
    /// Whose traces are gone on with.
    pub parent: TraceParents,
    /// What the collector gets whatever was decided at the start.
    pub always: TraceAlways,
    /// What is read and written beside W3C's fields.
    pub propagation: Vec<Propagation>,
    /// Where the file says so.
    pub location: Location,
}

/// Whose traces are gone on with, as they were decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceParents {
    /// Those of everybody.
    Always,
    /// Those of trusted proxies.
    Trusted,
    /// Nobody's: each trace begins here.
    Never,
}

/// The fields of requests that tell of traces beside `traceparent` and `tracestate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// `b3`.
    B3,
    /// `X-B3-TraceId`, `X-B3-SpanId` and `X-B3-Sampled`.
    B3Multi,
}

section! {
    "tracing", "tracing settings", Any;
    /// Traces by OpenTelemetry: a span for each request that is traced, and below it one for each attempt to send it to an endpoint.
    /// Upstreams are told of the span of their attempt in `traceparent`; `tracestate` and `baggage` are passed on. No request waits
    /// for the collector. A plain string sets `collector` alone.
    pub(crate) struct TracingFields {
        /// The collector that gets spans, by its name in the file's `otlp`.
        pub(crate) collector: At<Name> = required(collector_name()),
        /// Which share of the requests is traced that belong to no trace, drawn at random. Those of a trace are traced as that is.
        pub(crate) share: Percent = default("100%", percent(0..=100)),
        /// How many of these are traced in a second at most, over all workers.
        pub(crate) rate: Cap<NonZeroU32> = default("unlimited", cap(whole(1..=1_000_000))),
        /// Whose traces are gone on with, and traced as they were decided on: those of `trusted` proxies
        /// (`forwarding.trusted_proxies`), `always`, or `never`. For anybody else a new trace begins here. With `always`, whoever can
        /// connect has requests traced, past `share` and `rate`.
        pub(crate) parent: TraceParents = default("trusted", words(&[
            ("always", TraceParents::Always),
            ("trusted", TraceParents::Trusted),
            ("never", TraceParents::Never),
        ])),
        /// Which requests the collector gets spans of whatever was decided at their start. Their upstreams have not been told.
        pub(crate) always: TraceAlways = default("{}", section_of::<TraceAlways>()),
        /// Fields of Zipkin that are read where there is no `traceparent`, and written beside it: `b3` and `b3_multi` (`X-B3-TraceId` ...).
        pub(crate) propagation: Vec<Propagation> = default("[]", one_or_list(words(&[
            ("b3", Propagation::B3),
            ("b3_multi", Propagation::B3Multi),
        ]), 0..=2)),
    }
}

section! {
    "trace_always", "the exceptions of tracing", Any;
    /// Which requests are told of in any case, as is seen at their end: those for which one of these holds.
    pub struct TraceAlways {
        /// Those with a failure (the field `error` of access logs), and those with a status of 5xx.
        pub failures: bool = default("false", boolean()),
        /// Those that took longer, from the complete head of the request to the head of the response, or to the end of one that the
        /// gateway made itself. Tunnels never did.
        pub slower_than: Option<Duration> =
            optional("none", duration(Duration::from_millis(1)..=Duration::from_secs(86_400))),
    }
}

pub(crate) fn tracing() -> impl Read<Value = Tracing> {
    short_for("collector", section_of::<TracingFields>()).then(check)
}

fn check(fields: TracingFields, node: &Node, to: &mut Reading<'_>) -> Option<Tracing> {
    let TracingFields { collector, share, rate, parent, always, propagation } = fields;
    if share == Percent::NONE && rate != Cap::Unlimited {
        let error = Diagnostic::error(node.key_span("rate"), "`rate` has no effect");
        let error = error.also(node.key_span("share"), "no request is drawn");
        return to.fail(error.help("remove it, or set a larger share"));
    }
    let (collector, location) = (collector.value, node.span.start);
    Some(Tracing { collector, share, rate, parent, always, propagation, location })
}
