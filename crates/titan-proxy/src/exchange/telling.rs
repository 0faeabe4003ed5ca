//! What is told of the exchange: noted on the way, where anybody is to hear of it, and handed on at its end.

use super::{Exchange, Record};
use crate::snapshot::Snapshot;
use std::borrow::Cow;
use std::time::{Duration, Instant};
use titan_config::Upstream;
use titan_http::{FieldName, Fields, Status};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::error::{Error, Kind};
use titan_observe::record::{Bodies, CacheUse, Text, TlsVersion};
use titan_observe::trace::trace_id;
use titan_policies::context::Step;
use titan_policies::jwt;
use titan_policies::policy::ExchangeEnd;
use titan_upstream::attempts::{AdmittedAttempt, Attempt};
use titan_upstream::connection::Opening;
use titan_upstream::pool::PooledConnection;

impl<B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'_, B, S> {
    /// Notes the request as its client has sent it, where anybody is to hear of it.
    pub(super) fn begin_telling(&mut self) {
        if !self.snapshot.is_recorded {
            return;
        }
        let Exchange { worker, snapshot, origin, request, record: noted, .. } = self;
        let mut telling = worker.observed.begin(snapshot, noted.started);
        let record = &mut telling.record;
        let (fields, facts) = (&request.fields, &mut record.facts);
        facts.set_version(request.version);
        facts.set_scheme(origin.scheme);
        facts.set_peer(origin.address);
        facts.set_client(snapshot.forwarding.client(origin, fields));
        facts.set_head(noted.head_micros.map(|it| Duration::from_micros(it.get().into())));
        if noted.has_head {
            record.set_request(request);
        }
        match &snapshot.tracing {
            None => {
                if let Some(trace) = fields.get(FieldName::Traceparent).and_then(trace_id) {
                    record.set(Text::TraceId, trace);
                }
            }
            Some(tracing) => {
                let trace = tracing.begin(fields, origin.is_trusted(), &worker.io);
                record.trace = Some(trace);
                record.set(Text::TraceId, &trace.trace_digits());
            }
        }
        record.set(Text::Listener, origin.listener_policy.name().as_bytes());
        if let Some(agreed) = &origin.agreed {
            let version = if agreed.is_tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
            record.facts.set_tls(Some(version));
            record.set(Text::Sni, agreed.server_name.as_deref().unwrap_or_default().as_bytes());
        }
        noted.telling = Some(telling);
    }

    /// Notes which route has taken the request, and its id.
    pub(super) fn tell_route(&mut self, route: usize) {
        let Some(telling) = &mut self.record.telling else { return };
        let record = &mut telling.record;
        record.set(Text::Route, self.snapshot.counted(Some(route)).name().as_bytes());
        record.bodies = self.snapshot.recorded_of_bodies(route).map(Bodies::new);
        if let (Some(tracing), Some(trace)) = (&self.snapshot.tracing, &mut record.trace) {
            tracing.decide(trace, Some(route), &self.worker.io);
        }
        let id = self.snapshot.forwarding.request_id(&self.request.fields);
        record.set(Text::RequestId, id.unwrap_or_default());
    }

    /// Hands on what is to be told of the exchange, which is over, or goes on as a tunnel.
    pub(super) fn tell(&mut self, end: &ExchangeEnd) {
        let Some(mut telling) = self.record.telling.take() else { return };
        let Exchange { worker, snapshot, request, record: noted, .. } = self;
        let record = &mut telling.record;
        if let (Some(tracing), Some(trace)) = (&snapshot.tracing, &mut record.trace) {
            tracing.decide(trace, noted.route, &worker.io);
        }
        let (facts, findings) = (&mut record.facts, &noted.policies.findings);
        facts.set_took(end.took);
        facts.set_request_bytes(end.received);
        facts.set_response_bytes(end.sent);
        facts.set_status(noted.status);
        facts.set_complete(end.status.is_some());
        facts.set_token_cache(findings.is_token_cached.map(CacheUse::from));
        facts.set_auth_cache(findings.is_decision_cached.map(CacheUse::from));
        // Of what no route has taken.
        if record.text(Text::RequestId).is_empty() {
            let id = snapshot.forwarding.request_id(&request.fields);
            record.set(Text::RequestId, id.unwrap_or_default());
        }
        if let Some(claims) = findings.claims() {
            for (name, claim) in &snapshot.captures.0 {
                let Some(value) = jwt::find(claims, claim) else { continue };
                let text = value.as_str().map_or_else(|| value.to_string().into(), Cow::Borrowed);
                record.add_claim(name.as_bytes(), text.as_bytes());
            }
        }
        match &mut noted.tunnel {
            None => telling.tell(),
            Some(tunnel) => {
                // What a tunnel carries is no body.
                record.bodies = None;
                telling.tell_opened();
                tunnel.told = Some(telling);
            }
        }
    }
}

impl<B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'_, B, S> {
    /// Tells the endpoint that the request is sent to of the span of that attempt, where requests are traced.
    pub(super) fn pass_on_trace(&mut self, attempt: &Attempt) -> Result<(), Error> {
        let Some(tracing) = &self.snapshot.tracing else { return Ok(()) };
        let Some(telling) = &mut self.record.telling else { return Ok(()) };
        let Some(trace) = telling.record.trace else { return Ok(()) };
        let sent = telling.record.attempt_at(&attempt.endpoint().text);
        let span = trace.attempt_span(sent.map_or(0, |attempt| attempt.number()));
        tracing.write(&trace, span, &mut self.request.fields).map_err(|_| Kind::Internal.into())
    }
}

impl Record {
    /// Notes that the request halves of policies are over, if there were any.
    pub(super) fn tell_policies(&mut self, snapshot: &Snapshot, met: &Result<Step, Error>) {
        let Some(telling) = &mut self.telling else { return };
        let chain = snapshot.chains.of(self.route);
        if chain.is_empty() {
            return;
        }
        let is_refused = match met {
            Ok(Step::Go) => false,
            Ok(Step::Respond(response)) => response.head.status.class() >= 4,
            Err(_) => true,
        };
        let took = telling.phase();
        telling.record.facts.set_policies(Some(took));
        let decided_by = self.policies.findings.decided_by;
        // Which of them were met is not known where the client has gone meanwhile, or the time was over.
        if met.is_ok() || decided_by.is_some() {
            let passed = chain.places().take_while(|place| Some(*place) != decided_by);
            passed.for_each(|place| telling.record.add_passed(snapshot.chains.name_of(place)));
        }
        if let Some(place) = decided_by {
            let name = snapshot.chains.name_of(place);
            let text = if is_refused { Text::RefusedBy } else { Text::RespondedBy };
            telling.record.set(text, name.as_bytes());
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

    /// Notes that an attempt begins.
    pub(super) fn tell_attempt(&mut self, upstream: &Upstream, attempt: &AdmittedAttempt) {
        let Some(telling) = &mut self.telling else { return };
        telling.mark = attempt.began();
        telling.begin_attempt(false, upstream, attempt);
    }

    /// Notes that a second attempt begins beside the first one.
    pub(super) fn tell_second_attempt(&mut self, upstream: &Upstream, attempt: &AdmittedAttempt) {
        if let Some(telling) = &mut self.telling {
            telling.begin_attempt(true, upstream, attempt);
        }
    }

    /// Notes which of two attempts decides what comes of the exchange.
    pub(super) fn tell_decisive(&mut self, attempt: &AdmittedAttempt) {
        if let Some(telling) = &mut self.telling {
            telling.record.decide_by(&attempt.endpoint().text);
        }
    }

    /// Notes that an attempt has ended with which the exchange does not end: with that failure, or with a response that the client does
    /// not get, or because it was not waited for any more.
    pub(super) fn tell_attempt_over(&mut self, attempt: &Attempt, error: Option<Error>) {
        if let Some(telling) = &mut self.telling {
            let at = telling.started.elapsed();
            telling.record.end_attempt(&attempt.endpoint().text, at, error);
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
            telling.note_wait(waited);
        }
        if let Some(attempt) = telling.record.last_attempt() {
            attempt.set_reused(connection.opening().is_none());
            attempt.set_connect(connection.opening().map(Opening::connect));
            attempt.set_tls(opening.tls());
        }
    }

    /// The same for one of two attempts beside each other, which wait for nothing else.
    pub(super) fn tell_raced_connection(
        &mut self,
        attempt: &Attempt,
        connection: &PooledConnection,
    ) {
        let Some(telling) = &mut self.telling else { return };
        if let Some(attempt) = telling.record.attempt_at(&attempt.endpoint().text) {
            attempt.set_reused(connection.opening().is_none());
            attempt.set_connect(connection.opening().map(Opening::connect));
            attempt.set_tls(connection.opening().and_then(Opening::tls));
        }
    }

    /// Notes the status of a response whose head has just come.
    pub(super) fn tell_head(&mut self, attempt: &Attempt, status: Status) {
        let Some(telling) = &mut self.telling else { return };
        telling.mark = Instant::now();
        let at = telling.mark.saturating_duration_since(telling.started);
        if let Some(attempt) = telling.record.attempt_at(&attempt.endpoint().text) {
            attempt.note_head(at, status);
        }
    }

    /// How long the head of the response of that attempt has taken, which has just come.
    pub(super) fn time_to_head(&self, attempt: &AdmittedAttempt) -> Duration {
        let noted = self.telling.as_ref().map(|telling| telling.mark);
        let headed = noted.unwrap_or_else(Instant::now);
        headed.saturating_duration_since(attempt.began())
    }

    /// Notes what goes out as the head of the response, in place of what was to go out before.
    pub(super) fn tell_response(&mut self, fields: &Fields) {
        if let Some(telling) = &mut self.telling {
            telling.record.set_response_head(fields);
        }
    }

    /// Notes that the exchange has failed, which it does once.
    pub(super) fn tell_failure(&mut self, error: Error) {
        if let Some(telling) = &mut self.telling {
            telling.record.fail(error);
        }
    }
}
