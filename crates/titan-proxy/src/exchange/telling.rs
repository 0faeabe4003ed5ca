//! What is told of the exchange: noted on the way, where anybody is to hear of it, and handed on at its end.

use super::{Exchange, Record};
use crate::snapshot::Snapshot;
use std::borrow::Cow;
use std::time::Duration;
use titan_config::HeaderName;
use titan_http::{FieldName, Fields, Status};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::error::{Error, Kind};
use titan_observe::record::{CacheUse, CaptureKind, ExchangeRecord, Phases, Text, TlsVersion};
use titan_observe::trace::trace_id;
use titan_policies::context::Step;
use titan_policies::jwt;
use titan_policies::policy::ExchangeEnd;
use titan_upstream::attempts::AdmittedAttempt;
use titan_upstream::connection::Opening;
use titan_upstream::pool::PooledConnection;

impl<B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'_, B, S> {
    /// Notes the request as its client has sent it, where anybody is to hear of it.
    pub(super) fn begin_telling(&mut self) {
        let Some(captures) = &self.snapshot.captures else { return };
        let Exchange { worker, snapshot, origin, request, record: noted, .. } = self;
        let mut telling = worker.observed.begin(noted.started);
        let record = &mut telling.record;
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
        capture(record, CaptureKind::RequestHeader, &captures.request_headers, fields);
        record.set(Text::Listener, origin.listener_policy.name().as_bytes());
        if let Some(agreed) = &origin.agreed {
            let version = if agreed.is_tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
            record.facts.tls = Some(version);
            record.set(Text::Sni, agreed.server_name.as_deref().unwrap_or_default().as_bytes());
        }
        noted.telling = Some(telling);
    }

    /// Notes which route has taken the request, and its id.
    pub(super) fn tell_route(&mut self, route: usize) {
        let Some(telling) = &mut self.record.telling else { return };
        let record = &mut telling.record;
        record.set(Text::Route, self.snapshot.counted(Some(route)).name().as_bytes());
        let id = self.snapshot.forwarding.request_id(&self.request.fields);
        record.set(Text::RequestId, id.unwrap_or_default());
    }

    /// Hands on what is to be told of the exchange, which is over, or goes on as a tunnel.
    pub(super) fn tell(&mut self, end: &ExchangeEnd) {
        let Some(mut telling) = self.record.telling.take() else { return };
        let Exchange { snapshot, request, record: noted, .. } = self;
        let record = &mut telling.record;
        record.facts.took = end.took;
        record.facts.request_bytes = end.received;
        record.facts.response_bytes = end.sent;
        record.facts.status = noted.status;
        record.facts.is_complete = end.status.is_some();
        let findings = &noted.policies.findings;
        record.facts.token_cache = findings.is_token_cached.map(CacheUse::from);
        record.facts.auth_cache = findings.is_decision_cached.map(CacheUse::from);
        // Of what no route has taken.
        if record.text(Text::RequestId).is_empty() {
            let id = snapshot.forwarding.request_id(&request.fields);
            record.set(Text::RequestId, id.unwrap_or_default());
        }
        if let Some(claims) = findings.claims() {
            let wanted = snapshot.captures.iter().flat_map(|captures| &captures.claims);
            for (name, claim) in wanted {
                let Some(value) = jwt::find(claims, claim) else { continue };
                let text = value.as_str().map_or_else(|| value.to_string().into(), Cow::Borrowed);
                record.capture(CaptureKind::Claim, name.as_bytes(), [text.as_bytes()]);
            }
        }
        match &mut noted.tunnel {
            None => telling.tell(),
            Some(tunnel) => {
                telling.tell_opened();
                tunnel.told = Some(telling);
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
    pub(super) fn tell_turn(&mut self, waited: Duration) {
        if let Some(telling) = &mut self.telling {
            telling.note_wait(waited);
        }
    }

    /// Notes that an attempt to connect has failed, which may have been a wait.
    pub(super) fn tell_unconnected(&mut self, error: Error) {
        if let Some(telling) = &mut self.telling
            && matches!(error.kind, Kind::QueueFull | Kind::QueueTimeout)
        {
            let waited = telling.phase();
            telling.note_wait(waited);
        }
    }

    /// Notes that an attempt begins. What is told of an attempt is told of the last one.
    pub(super) fn tell_attempt(&mut self, upstream: &str, attempt: &AdmittedAttempt) {
        let Some(telling) = &mut self.telling else { return };
        telling.mark = attempt.began();
        telling.attempt_began = attempt.began();
        let facts = &mut telling.record.facts;
        facts.attempts = facts.attempts.saturating_add(1);
        facts.upstream_status = None;
        let Phases { connect, tls, upstream_head, .. } = &mut facts.phases;
        (*connect, *tls, *upstream_head) = (None, None, None);
        telling.record.set(Text::Upstream, upstream.as_bytes());
        telling.record.set(Text::Endpoint, attempt.endpoint().text.as_bytes());
    }

    /// Notes that a second attempt runs beside the first one.
    pub(super) fn tell_second_attempt(&mut self) {
        if let Some(telling) = &mut self.telling {
            let attempts = &mut telling.record.facts.attempts;
            *attempts = attempts.saturating_add(1);
        }
    }

    /// Notes that the second attempt decides what comes of the exchange. How it got its connection is not known.
    pub(super) fn tell_second_won(&mut self, attempt: &AdmittedAttempt) {
        let Some(telling) = &mut self.telling else { return };
        let took = telling.mark.saturating_duration_since(attempt.began());
        let Phases { connect, tls, upstream_head, .. } = &mut telling.record.facts.phases;
        (*connect, *tls, *upstream_head) = (None, None, upstream_head.map(|_| took));
        telling.record.set(Text::Endpoint, attempt.endpoint().text.as_bytes());
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
            telling.note_wait(waited);
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

    /// Notes what goes out as the head of the response, in place of what was to go out before.
    pub(super) fn tell_response(&mut self, snapshot: &Snapshot, fields: &Fields) {
        if let (Some(telling), Some(captures)) = (&mut self.telling, &snapshot.captures) {
            telling.record.forget(CaptureKind::ResponseHeader);
            let names = &captures.response_headers;
            capture(&mut telling.record, CaptureKind::ResponseHeader, names, fields);
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
