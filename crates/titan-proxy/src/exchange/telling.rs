//! What is told of the exchange: noted on the way, where anybody is to hear of it, and handed on at its end.

use super::{Exchange, Record};
use crate::snapshot::Snapshot;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::HeaderName;
use titan_http::{FieldName, Fields, Status};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::error::Error;
use titan_observe::captures::Captures;
use titan_observe::record::{CacheUse, CaptureKind, Event, ExchangeRecord, Text, TlsVersion};
use titan_observe::trace::trace_id;
use titan_policies::context::Step;
use titan_policies::jwt;
use titan_policies::policy::ExchangeEnd;
use titan_upstream::connection::Opening;
use titan_upstream::endpoint::Endpoint;
use titan_upstream::pool::PooledConnection;

/// What is told of an exchange, while it runs.
pub(super) struct Telling {
    pub(super) record: Box<ExchangeRecord>,
    captures: Arc<Captures>,
    /// The last moment at which a phase has ended that is told of.
    mark: Instant,
    /// When the attempt that runs has begun.
    attempt_began: Instant,
}

impl Telling {
    /// Notes the end of a phase; how long it took.
    fn phase(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.mark, now))
    }

    /// Notes that the exchange has waited for its turn.
    fn waited(&mut self, waited: Duration) {
        let queue = &mut self.record.facts.phases.queue;
        *queue = Some(queue.unwrap_or_default() + waited);
    }
}

impl<B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'_, B, S> {
    /// Notes the request as its client has sent it, where anybody is to hear of it.
    pub(super) fn begin_telling(&mut self) {
        let Some(captures) = &self.snapshot.captures else { return };
        let Exchange { worker, snapshot, origin, request, record: noted, .. } = self;
        let mut record = worker.observed.begin();
        let (fields, facts) = (&request.fields, &mut record.facts);
        facts.version = request.version;
        facts.scheme = origin.scheme;
        facts.peer = origin.address;
        facts.client = snapshot.forwarding.client(origin, fields);
        facts.phases.head = noted.head_micros.map(|it| Duration::from_micros(it.get().into()));
        record.set(Text::Method, request.method.as_str().as_bytes());
        record.set(Text::Host, request.authority().unwrap_or_default());
        record.set_target(request.path(), request.query());
        record.set(Text::UserAgent, fields.get(FieldName::UserAgent).unwrap_or_default());
        record.set(Text::Referer, fields.named(b"referer").next().unwrap_or_default());
        let trace = fields.named(b"traceparent").next().and_then(trace_id);
        record.set(Text::TraceId, trace.unwrap_or_default());
        capture(&mut record, CaptureKind::RequestHeader, &captures.request_headers, fields);
        let (captures, mark) = (Arc::clone(captures), noted.started);
        noted.telling = Some(Box::new(Telling { record, captures, mark, attempt_began: mark }));
    }

    /// Hands on what is to be told of the exchange, which is over, or goes on as a tunnel.
    pub(super) fn tell(&mut self, end: &ExchangeEnd) {
        let Some(mut telling) = self.record.telling.take() else { return };
        let Exchange { worker, snapshot, origin, request, record: noted, .. } = self;
        let record = &mut *telling.record;
        record.facts.started = worker.observed.unix_micros(noted.started);
        record.facts.took = end.took;
        record.facts.request_bytes = end.received;
        record.facts.response_bytes = end.sent;
        record.facts.status = noted.status;
        record.facts.is_complete = end.status.is_some();
        let findings = &noted.policies.findings;
        record.facts.token_cache = findings.is_token_cached.map(CacheUse::from);
        record.facts.auth_cache = findings.is_decision_cached.map(CacheUse::from);
        if let Some(agreed) = &origin.agreed {
            let version = if agreed.is_tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
            record.facts.tls = Some(version);
            record.set(Text::Sni, agreed.server_name.as_deref().unwrap_or_default().as_bytes());
        }
        record.set(Text::Listener, origin.listener_policy.name().as_bytes());
        let id = snapshot.forwarding.request_id(&request.fields);
        record.set(Text::RequestId, id.unwrap_or_default());
        if let Some(route) = noted.route {
            record.set(Text::Route, snapshot.counted(Some(route)).name().as_bytes());
        }
        if let Some(claims) = findings.claims() {
            for (name, claim) in &telling.captures.claims {
                let Some(value) = jwt::find(claims, claim) else { continue };
                let text = value.as_str().map_or_else(|| value.to_string().into(), Cow::Borrowed);
                record.capture(CaptureKind::Claim, name.as_bytes(), [text.as_bytes()]);
            }
        }
        match &mut noted.tunnel {
            None => {
                worker.tell(record);
                worker.observed.reuse(telling.record);
            }
            Some(tunnel) => {
                record.facts.event = Event::TunnelOpened;
                worker.tell(record);
                tunnel.told = Some((telling.record, noted.started));
            }
        }
    }
}

impl Record {
    /// Notes that the request halves of policies are over, if there were any.
    pub(super) fn tell_policies(&mut self, snapshot: &Snapshot, met: &Result<Step, Error>) {
        let Some(telling) = &mut self.telling else { return };
        if snapshot.chains.of(self.route).is_empty() {
            return;
        }
        let is_refused = match met {
            Ok(Step::Go) => false,
            Ok(Step::Respond(response)) => response.head.status.class() >= 4,
            Err(_) => true,
        };
        telling.record.facts.phases.policies = Some(telling.phase());
        if let Some(place) = self.policies.findings.decided_by.filter(|_| is_refused) {
            let name = snapshot.chains.name_of(place);
            telling.record.set(Text::RefusedBy, name.as_bytes());
        }
    }

    /// Notes that the request has waited for a place at its upstream.
    pub(super) fn tell_turn(&mut self) {
        if let Some(telling) = &mut self.telling {
            let waited = telling.phase();
            telling.waited(waited);
        }
    }

    /// Notes that an attempt begins.
    pub(super) fn tell_attempt(&mut self, upstream: &str, endpoint: &Endpoint) {
        let Some(telling) = &mut self.telling else { return };
        let facts = &mut telling.record.facts;
        if facts.attempts > 0 {
            telling.mark = Instant::now();
        }
        facts.attempts = facts.attempts.saturating_add(1);
        facts.phases.connect = None;
        facts.phases.tls = None;
        telling.attempt_began = telling.mark;
        telling.record.set(Text::Upstream, upstream.as_bytes());
        self.tell_endpoint(endpoint);
    }

    /// Notes that a second attempt runs beside the first one.
    pub(super) fn tell_second_attempt(&mut self) {
        if let Some(telling) = &mut self.telling {
            let attempts = &mut telling.record.facts.attempts;
            *attempts = attempts.saturating_add(1);
        }
    }

    /// Notes which endpoint the exchange is with.
    pub(super) fn tell_endpoint(&mut self, endpoint: &Endpoint) {
        if let Some(telling) = &mut self.telling {
            telling.record.set(Text::Endpoint, endpoint.text.as_bytes());
        }
    }

    /// Notes the connection that an attempt has got. One that was there already has taken no time.
    pub(super) fn tell_connection(&mut self, connection: &PooledConnection) {
        let Some(telling) = &mut self.telling else { return };
        let opening = connection.opening();
        if opening.is_none() && !connection.was_waited_for() {
            return;
        }
        let opening = opening.unwrap_or_default();
        let waited = telling.phase().saturating_sub(opening.whole());
        if connection.was_waited_for() {
            telling.waited(waited);
        }
        let phases = &mut telling.record.facts.phases;
        phases.connect = connection.opening().map(Opening::connect);
        phases.tls = opening.tls();
    }

    /// Notes the status of a response whose head has just come.
    pub(super) fn tell_head(&mut self, status: Status) {
        if let Some(telling) = &mut self.telling {
            telling.phase();
            let took = telling.mark.saturating_duration_since(telling.attempt_began);
            telling.record.facts.phases.upstream_head = Some(took);
            telling.record.facts.upstream_status = Some(status);
        }
    }

    /// Notes what goes out as the head of the response.
    pub(super) fn tell_response(&mut self, fields: &Fields) {
        if let Some(telling) = &mut self.telling {
            let Telling { record, captures, .. } = &mut **telling;
            capture(record, CaptureKind::ResponseHeader, &captures.response_headers, fields);
        }
    }

    /// Notes that the exchange has failed, which it does once.
    pub(super) fn tell_failure(&mut self, error: Error) {
        if let Some(telling) = &mut self.telling {
            telling.record.fail(error);
        }
    }
}

/// Notes those of the fields that have these names.
fn capture(record: &mut ExchangeRecord, kind: CaptureKind, names: &[HeaderName], fields: &Fields) {
    for name in names {
        let name = name.as_str().as_bytes();
        record.capture(kind, name, fields.named(name));
    }
}
