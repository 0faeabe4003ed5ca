//! What an exchange notes of itself that is no text. Readers get it as [`Facts`].

use super::fixed::{Fixed, fixed};
use super::{CacheUse, Event, Facts, HeadCut, Phases, TlsVersion};
use crate::trace::{Sampling, TraceContext};
use std::net::IpAddr;
use std::time::Duration;
use titan_http::{Scheme, Status, Version};
use titan_io::error::Side;

fixed! {
    /// The facts of an exchange, while it lasts. What they are is told at [`Facts`].
    pub NotedFacts;
    event set_event: Event = 1, "what the record is about.";
    version set_version: Version = 1, "the version of HTTP.";
    tls set_tls: Option<TlsVersion> = 1, "the version of TLS.";
    scheme set_scheme: Scheme = 1, "whether the client speaks TLS.";
    caused_by set_caused_by: Option<Side> = 1, "which side caused the failure.";
    is_complete set_complete: bool = 1, "whether the client has all of the response.";
    token_cache set_token_cache: Option<CacheUse> = 1, "whether the token was known.";
    auth_cache set_auth_cache: Option<CacheUse> = 1, "whether the decision was.";
    attempts set_attempts: u16 = 2, "how many attempts there were.";
    status set_status: Option<Status> = 2, "the status that the client got.";
    started set_started: u64 = 8, "when the head was complete, in microseconds since 1970.";
    took set_took: Duration = 8, "how long it took.";
    request_bytes set_request_bytes: u64 = 8, "bytes of the request.";
    response_bytes set_response_bytes: u64 = 8, "bytes of the response.";
    head set_head: Option<Duration> = 4, "how long the head took.";
    policies set_policies: Option<Duration> = 4, "how long policies took.";
    queue set_queue: Option<Duration> = 4, "how long it waited.";
    client set_client: Option<IpAddr> = 17, "who sent the request.";
    peer set_peer: Option<IpAddr> = 17, "whose connection it came over.";
    request_cut set_request_cut: HeadCut = 4, "what is not there of the head of the request.";
    response_cut set_response_cut: HeadCut = 4, "what is not there of that of the response.";
}

fixed! {
    /// The trace that an exchange belongs to.
    pub(super) NotedTrace;
    trace_id set_trace_id: u128 = 16, "the trace.";
    parent set_parent: u64 = 8, "the span before.";
    span set_span: u64 = 8, "the span of the exchange.";
    sampling set_sampling: Sampling = 1, "whether it is traced.";
}

fixed! {
    /// What a record begins with: how long it is, and how many of each there are of what is behind its facts.
    pub(super) Lengths;
    whole set_whole: u32 = 4, "the length of the record.";
    traces set_traces: u16 = 2, "of traces, one or none.";
    request_lines set_request_lines: u16 = 2, "of fields of the request.";
    lines set_lines: u16 = 2, "of those and the fields of the response.";
    claims set_claims: u16 = 2, "of claims.";
    passed set_passed: u16 = 2, "of policies.";
    attempts set_attempts: u16 = 2, "of attempts.";
    bodies set_bodies: u16 = 2, "of bytes of bodies.";
}

impl NotedFacts {
    /// What is read of them.
    pub(super) fn read(&self, trace: Option<TraceContext>) -> Facts {
        Facts {
            event: self.event(),
            started: self.started(),
            took: self.took(),
            phases: Phases { head: self.head(), policies: self.policies(), queue: self.queue() },
            request_bytes: self.request_bytes(),
            response_bytes: self.response_bytes(),
            status: self.status(),
            attempts: self.attempts(),
            caused_by: self.caused_by(),
            token_cache: self.token_cache(),
            auth_cache: self.auth_cache(),
            request_cut: self.request_cut(),
            response_cut: self.response_cut(),
            is_complete: self.is_complete(),
            version: self.version(),
            tls: self.tls(),
            scheme: self.scheme(),
            client: self.client(),
            peer: self.peer(),
            trace,
        }
    }
}

impl NotedTrace {
    pub(super) fn new(trace: &TraceContext) -> NotedTrace {
        let TraceContext { trace_id, parent, span, sampling } = *trace;
        let mut noted = NotedTrace::EMPTY;
        noted.set_trace_id(trace_id);
        noted.set_parent(parent);
        noted.set_span(span);
        noted.set_sampling(sampling);
        noted
    }

    pub(super) fn read(&self) -> TraceContext {
        TraceContext {
            trace_id: self.trace_id(),
            parent: self.parent(),
            span: self.span(),
            sampling: self.sampling(),
        }
    }
}

impl Default for NotedFacts {
    fn default() -> NotedFacts {
        NotedFacts::EMPTY
    }
}
