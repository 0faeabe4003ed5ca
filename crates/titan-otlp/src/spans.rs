//! A record of an exchange as spans: one for the request, and one below it for each attempt to send it to an endpoint.

use crate::attributes::{Attributes, Writing, known_method};
use crate::routes::RoutePaths;
use crate::value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use titan_config::Captures;
use titan_io::error::Side;
use titan_io::protobuf;
use titan_observe::destination::Lines;
use titan_observe::record::{Attempted, Facts, Recorded, Text};
use titan_observe::trace::TraceContext;

/// Writes records as spans, each as one field of the message that they are sent in.
#[derive(Debug)]
pub(crate) struct Spans {
    attributes: Attributes,
    span: Vec<u8>,
    /// What is inside of a span.
    inner: Vec<u8>,
}

/// The field of `ScopeSpans` that has the spans.
const SPANS: u64 = 2;

/// The fields of a `Span`.
mod field {
    pub(super) const TRACE_ID: u64 = 1;
    pub(super) const SPAN_ID: u64 = 2;
    pub(super) const PARENT: u64 = 4;
    pub(super) const NAME: u64 = 5;
    pub(super) const KIND: u64 = 6;
    pub(super) const START: u64 = 7;
    pub(super) const END: u64 = 8;
    pub(super) const ATTRIBUTES: u64 = 9;
    pub(super) const EVENTS: u64 = 11;
    pub(super) const STATUS: u64 = 15;
    pub(super) const FLAGS: u64 = 16;
}

/// The fields of an event in a span.
mod event {
    pub(super) const TIME: u64 = 1;
    pub(super) const NAME: u64 = 2;
    pub(super) const ATTRIBUTES: u64 = 3;
}

const SERVER: u64 = 2;
const CLIENT: u64 = 3;

/// `Status` with `code` `ERROR`.
const FAILED: &[u8] = &[3 << 3, 2];

/// What every span has.
struct Frame<'f> {
    trace: &'f TraceContext,
    id: u64,
    parent: u64,
    kind: u64,
    /// Nanoseconds since 1970.
    start: u64,
    end: u64,
}

impl Spans {
    /// Writes spans of requests that these routes have taken.
    pub(crate) fn new(routes: &Arc<RoutePaths>) -> Spans {
        let attributes = Attributes::new(&Captures::default(), routes);
        Spans { attributes, span: Vec::new(), inner: Vec::new() }
    }

    /// Appends the spans of a record, each as a line; its own first.
    pub(crate) fn write(&mut self, record: &Recorded<'_>, trace: &TraceContext, lines: &mut Lines) {
        self.write_server(record, trace);
        self.end(record, lines);
        for attempt in record.attempts() {
            self.write_client(record, trace, &attempt);
            self.end(record, lines);
        }
    }

    fn end(&mut self, record: &Recorded<'_>, lines: &mut Lines) {
        protobuf::bytes(SPANS, &self.span, &mut lines.text);
        lines.end(record.facts.started);
    }

    /// The span of the request.
    fn write_server(&mut self, record: &Recorded<'_>, trace: &TraceContext) {
        let Spans { attributes, span, inner } = self;
        let Facts { started, took, caused_by, status, .. } = record.facts;
        let start = started.saturating_mul(1_000);
        let end = after(start, took);
        span.clear();
        Frame { trace, id: trace.span, parent: trace.parent, kind: SERVER, start, end }.write(span);
        let method = known_method(record.text(Text::Method)).unwrap_or(b"HTTP");
        let name = match attributes.route(record) {
            None => method.to_vec(),
            Some(route) => [method, route].join(&b' '),
        };
        protobuf::bytes(field::NAME, value::utf8(&name).as_bytes(), span);
        attributes.write(record, field::ATTRIBUTES, span);
        write_policies(record, start, inner, span);
        // What a client has done wrong is no failure of the one who serves it.
        let is_failed = matches!(caused_by, Some(Side::Upstream | Side::Gateway))
            || status.is_some_and(|status| status.class() == 5);
        if is_failed {
            protobuf::bytes(field::STATUS, FAILED, span);
        }
    }

    /// The span of an attempt. One that the exchange has ended with ends with it.
    fn write_client(
        &mut self,
        record: &Recorded<'_>,
        trace: &TraceContext,
        attempt: &Attempted<&[u8]>,
    ) {
        let span = &mut self.span;
        let began = record.facts.started.saturating_mul(1_000);
        let (start, last) = (after(began, attempt.began), after(began, record.facts.took));
        let end = attempt.took.map_or(last, |took| after(start, took)).max(start);
        span.clear();
        let id = trace.attempt_span(attempt.number);
        Frame { trace, id, parent: trace.span, kind: CLIENT, start, end }.write(span);
        let method = record.text(Text::Method);
        protobuf::bytes(field::NAME, known_method(method).unwrap_or(b"HTTP"), span);
        let mut to = Writing { field: field::ATTRIBUTES, out: span };
        to.method(method);
        write_endpoint(attempt.endpoint, &mut to);
        if attempt.number > 0 {
            to.int("http.request.resend_count", attempt.number.into());
        }
        if let Some(status) = attempt.status {
            to.int("http.response.status_code", status.code().into());
        }
        let is_error = attempt.status.is_some_and(|status| status.class() >= 4);
        match (attempt.error, attempt.status) {
            (b"", Some(status)) if is_error => to.text("error.type", &status.digits()),
            (code, _) => to.text("error.type", code),
        }
        to.text("titan.upstream", attempt.upstream);
        to.text("titan.attempt", attempt.kind.name().as_bytes());
        to.milliseconds("titan.connect_ms", attempt.connect);
        to.milliseconds("titan.tls_ms", attempt.tls);
        to.milliseconds("titan.upstream_head_ms", attempt.head);
        if is_error || !attempt.error.is_empty() {
            protobuf::bytes(field::STATUS, FAILED, span);
        }
    }
}

/// Where an attempt went to.
fn write_endpoint(endpoint: &[u8], to: &mut Writing<'_>) {
    let text = String::from_utf8_lossy(endpoint);
    match text.parse::<SocketAddr>() {
        Ok(address) => {
            to.text("server.address", address.ip().to_string().as_bytes());
            to.int("server.port", address.port().into());
        }
        Err(_) => to.text("server.address", text.trim_start_matches("unix:").as_bytes()),
    }
}

/// An event for each policy that the request has met, when all of them had decided.
fn write_policies(record: &Recorded<'_>, start: u64, inner: &mut Vec<u8>, span: &mut Vec<u8>) {
    let Some(took) = record.facts.phases.policies else { return };
    let (refused, responded) = (record.text(Text::RefusedBy), record.text(Text::RespondedBy));
    let last = [(refused, "refused"), (responded, "responded")];
    let last = last.into_iter().filter(|(name, _)| !name.is_empty());
    for (name, verdict) in record.passed().map(|name| (name, "passed")).chain(last) {
        inner.clear();
        protobuf::fixed64(event::TIME, after(start, took), inner);
        protobuf::bytes(event::NAME, b"titan.policy", inner);
        let mut to = Writing { field: event::ATTRIBUTES, out: inner };
        to.text("titan.policy.name", name);
        to.text("titan.policy.verdict", verdict.as_bytes());
        protobuf::bytes(field::EVENTS, inner, span);
    }
}

impl Frame<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let Frame { trace, id, parent, kind, start, end } = *self;
        protobuf::bytes(field::TRACE_ID, &trace.trace_id.to_be_bytes(), out);
        protobuf::bytes(field::SPAN_ID, &id.to_be_bytes(), out);
        if parent != 0 {
            protobuf::bytes(field::PARENT, &parent.to_be_bytes(), out);
        }
        protobuf::number(field::KIND, kind, out);
        protobuf::fixed64(field::START, start, out);
        protobuf::fixed64(field::END, end, out);
        protobuf::fixed32(field::FLAGS, trace.is_sampled().into(), out);
    }
}

/// A time so much later, in nanoseconds.
fn after(nanos: u64, took: Duration) -> u64 {
    nanos.saturating_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
