//! The stage at which an upstream responds: one endpoint after the other is tried, within the deadline.

use super::attempt::SendOptions;
use super::deliver::Remainder;
use super::hold::Hold;
use super::retry::{TriedUpstream, Tries};
use super::{Exchange, LastAttempt, TunnelPermit};
use crate::fallback::{Fallback, OwnFallback};
use crate::forwarding::{Reach, count_hop};
use crate::route::Match;
use crate::snapshot::{Proxy, Snapshot};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;
use titan_http::{FieldName, RequestHead, ResponseHead};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::error::{Error, Kind, Side};
use titan_upstream::attempts::{AdmittedAttempt, Attempt, Attempts};
use titan_upstream::balance::KeySource;
use titan_upstream::members::Upstream;

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// Lets an upstream respond, within the deadline of the request.
    pub(super) async fn proxy_in_time(
        &mut self,
        proxy: &Proxy,
        found: &Match,
    ) -> Result<(), Error> {
        // Policies may have changed what says so.
        self.note_deadline(&proxy.config.timeouts)?;
        let timer = self.record.deadline.map(|_| self.worker.io.clock.timer());
        let deadline = self.deadline()?;
        let mut proxied = pin!(self.proxy(proxy, found));
        // Given up wherever it is: what it holds is given back as it is dropped.
        poll_fn(|cx| match (proxied.as_mut().poll(cx), &timer) {
            (Poll::Pending, Some(timer)) => {
                timer.poll(cx, deadline).map(|()| Err(Kind::Deadline.into()))
            }
            (result, _) => result,
        })
        .await
    }

    async fn proxy(&mut self, proxy: &Proxy, found: &Match) -> Result<(), Error> {
        if let Reach::Here(status) = count_hop(self.request).map_err(|_| Kind::Internal)? {
            return self.send(ResponseHead::with_status(status), &[]).await;
        }
        if let Some(most) = proxy.config.body_limit.at_most() {
            self.body.set_limit(most.bytes())?;
        }
        let snapshot: &'x Snapshot = self.snapshot;
        let index = proxy.split.pick();
        let upstream = &snapshot.upstreams[index];
        self.record.permit = self.admit_upgrade(proxy, upstream)?;
        match self.hold(proxy) {
            Hold::Nothing => {}
            Hold::Beginning(bytes) => self.await_beginning(bytes, &proxy.config.timeouts).await?,
            Hold::Whole(whole) => {
                return Box::pin(self.forward_held(whole, proxy, found, index)).await;
            }
        }
        let (mut tried, copies) = self.begin_forwarding(proxy, found, index)?;
        match copies.is_empty() {
            true => self.try_upstreams(&mut tried).await,
            false => Box::pin(self.try_upstreams_and_copy(copies, &mut tried)).await,
        }
    }

    /// Sends the request on to the upstream that is tried, or where its circuit breaker is open to the one that stands in for it.
    pub(super) async fn try_upstreams(
        &mut self,
        tried: &mut TriedUpstream<'_>,
    ) -> Result<(), Error> {
        let TriedUpstream { proxy, found, index, attempts } = tried;
        loop {
            let result = self.try_endpoints((&*proxy.config).into(), *index, attempts).await;
            let Err(error) = result else { return Ok(()) };
            let Some(fallback) = self.fallback(error, attempts, *index) else { return Err(error) };
            // It does not run there.
            (self.record.retry_after, self.record.running) = (None, None);
            match fallback {
                Fallback::Upstream(next) => *index = *next,
                Fallback::Own(response) => {
                    return Box::pin(self.send_fallback(response, found)).await;
                }
            }
            *attempts = self.attempts(*index);
        }
    }

    /// No attempt yet at the upstream at that place.
    pub(super) fn attempts(&self, index: usize) -> Attempts {
        let snapshot: &'x Snapshot = self.snapshot;
        let upstream = &snapshot.upstreams[index];
        let client = snapshot.forwarding.client(self.origin, &self.request.fields);
        let members = self.worker.members.get(index, upstream, self.record.started);
        Attempts::new(upstream, members, &key_source(self.request, client))
    }

    /// What the client gets in place of an upstream that was sent nothing because its circuit breaker is open. What speaks a
    /// protocol of its own gets no page.
    fn fallback(&self, error: Error, attempts: &Attempts, index: usize) -> Option<&'x Fallback> {
        let snapshot: &'x Snapshot = self.snapshot;
        let is_open = error.kind == Kind::CircuitOpen && attempts.count() == 0;
        let fallback = snapshot.fallbacks[index].as_ref().filter(|_| is_open)?;
        let is_possible = match fallback {
            Fallback::Upstream(next) => {
                let protocol = snapshot.upstreams[*next].config().protocol;
                self.upgrade.is_none() || !protocol.is_always_shared()
            }
            Fallback::Own(_) => self.record.dialect.is_none() && !self.wants_tunnel(),
        };
        is_possible.then_some(fallback)
    }

    async fn send_fallback(&mut self, response: &OwnFallback, found: &Match) -> Result<(), Error> {
        match response {
            OwnFallback::Respond(respond) => self.respond(respond, None, found).await,
            OwnFallback::File { status, content_type, body } => {
                let mut head = ResponseHead::with_status(*status);
                let media_type = content_type.as_str().as_bytes();
                let described = head.fields.append(FieldName::ContentType, media_type);
                described.map_err(|_| Kind::Internal)?;
                self.send(head, body).await
            }
        }
    }

    /// Tries one endpoint of the upstream at that position after the other, as far as retries are allowed.
    pub(super) async fn try_endpoints(
        &mut self,
        how: SendOptions<'_>,
        index: usize,
        attempts: &mut Attempts,
    ) -> Result<(), Error> {
        let snapshot: &'x Snapshot = self.snapshot;
        let upstream = &snapshot.upstreams[index];
        let cells = upstream.counted.cells(self.worker.index());
        self.enter(index, attempts, cells).await?;
        let (failed, second) = (None, None);
        let mut tries = Tries { how: &how, index, upstream, cells, attempts, second, failed };
        loop {
            let mut attempt = self.next_endpoint(&mut tries)?;
            tries.cells.requests.add(u64::from(tries.attempts.count() == 1));
            let mut pending = None;
            let started = self.start(&mut tries, &attempt, &mut pending).await;
            if let Some(second) = tries.second.take() {
                attempt = *second;
            }
            let result = match started {
                Ok(()) => {
                    attempt.note_head(self.record.responded);
                    tries.cells.first_byte.record(self.record.time_to_head(&attempt));
                    match self.retry_response(&mut tries, &attempt, pending.as_ref()) {
                        None => self.deliver(*tries.how, &mut pending).await,
                        Some(pause) => {
                            self.count_attempt(&tries, &attempt, false);
                            self.record.tell_attempt_over(&attempt, None);
                            drop((pending, attempt));
                            self.pause(&mut tries, pause).await?;
                            continue;
                        }
                    }
                }
                Err(error) => Err(error),
            };
            let result = result.map_err(|error| self.or_deadline(error));
            self.note_end(&attempt, result.as_ref().err());
            self.count_attempt(&tries, &attempt, matches!(result, Ok(Remainder::None)));
            let error = match result {
                Ok(Remainder::None) => return Ok(()),
                Ok(Remainder::Response(rest)) => return Box::pin(self.deliver_rest(rest)).await,
                Ok(Remainder::Tunnel(switched)) => {
                    let tunnel = self.tunnel(index, tries.how.timeouts.tunnel, *switched);
                    self.record.tunnel = Some(Box::new(tunnel));
                    return Ok(());
                }
                Err(error) => error,
            };
            drop(pending);
            self.record.tell_attempt_over(&attempt, Some(error));
            let telling = self.note_failed(&mut tries, &attempt, error);
            let pause =
                self.retry_failed(&mut tries, error).ok_or_else(|| self.or_late(telling))?;
            // It must not keep the place of a trial meanwhile that was never made.
            drop(attempt);
            self.pause(&mut tries, pause).await?;
        }
    }

    /// Counts how long an attempt has taken. Where the exchange of a client ends with it, that comes later: the clock is read then
    /// anyway.
    fn count_attempt(&mut self, tries: &Tries<'_>, attempt: &AdmittedAttempt, is_end: bool) {
        let began = attempt.began();
        match is_end && !self.record.is_subrequest {
            true => {
                let began = began.saturating_duration_since(self.record.started);
                self.record.last_attempt = Some(LastAttempt::new(tries.index, began));
            }
            false => tries.cells.attempt.record(began.elapsed()),
        }
    }

    /// Tells the endpoint's health how the attempt has fared, where that says something of the endpoint. That it has responded
    /// without switching protocols does not: clients may ask for that as often as they like.
    pub(super) fn note_end(&self, attempt: &AdmittedAttempt, error: Option<&Error>) {
        match (error.filter(|error| error.kind != Kind::UpgradeIgnored), self.record.responded) {
            (None, Some(responded)) => {
                if attempt.note_end(Ok(responded)) {
                    self.log_error_response(attempt.endpoint(), responded.0);
                }
            }
            (Some(error), _) if error.side == Side::Upstream => {
                attempt.note_end(Err(error.kind));
            }
            (None, None) | (Some(_), _) => {}
        }
    }

    /// Chooses the endpoint of the next attempt.
    fn next_endpoint(&mut self, tries: &mut Tries<'_>) -> Result<AdmittedAttempt, Error> {
        self.record.responded = None;
        let chosen = tries.attempts.next(self.worker.io.random(), self.record.started);
        chosen.map_err(|kind| {
            tries.cells.rejected.add(u64::from(kind == Kind::CircuitOpen));
            tries.failed.unwrap_or_else(|| {
                self.record.retry_after = tries.attempts.retry_after();
                self.log_failure(tries.index, None, kind.into());
                kind.into()
            })
        })
    }

    /// Notes that an attempt has failed; returns what the client is told if it was the last one.
    pub(super) fn note_failed(
        &self,
        tries: &mut Tries<'_>,
        attempt: &Attempt,
        error: Error,
    ) -> Error {
        let Tries { how, index, cells, failed, .. } = tries;
        let telling = failed.map_or(error, |before| before.or_more_telling(error));
        cells.failures.add(u64::from(error.side == Side::Upstream));
        self.log_failure(*index, Some(attempt.endpoint()), error);
        let has_failed = error.side == Side::Upstream && error.kind != Kind::UpgradeIgnored;
        if has_failed && !self.sink.is_started() {
            attempt.note_failure(how.timeouts.response, self.record.started);
        }
        *failed = Some(telling);
        telling
    }

    /// Decides about the protocol that the client wants to go on in. A wish that is not granted is as if it were
    /// not there, where it can be.
    fn admit_upgrade(
        &mut self,
        proxy: &Proxy,
        upstream: &Upstream,
    ) -> Result<Option<TunnelPermit>, Error> {
        let Some(upgrade) = &self.upgrade else { return Ok(None) };
        let is_possible = !upstream.config().protocol.is_always_shared();
        if is_possible && upgrade.is_among(&proxy.config.upgrades) {
            return self.snapshot.enter_tunnel().map(Some).ok_or(Kind::TooManyTunnels.into());
        }
        if upgrade.is_binding() {
            return Err(Kind::UpgradeRefused.into());
        }
        self.upgrade = None;
        Ok(None)
    }

    /// Turns the request into what the upstream gets.
    pub(super) fn prepare(&mut self, proxy: &Proxy, found: &Match) -> Result<(), Error> {
        self.steps().0.prepare(proxy, found)?;
        let asked = self.upgrade.as_ref().map(|upgrade| upgrade.ask(&mut self.request.fields));
        asked.transpose().map(drop).map_err(|_| Kind::Internal.into())
    }
}

/// What an endpoint may be chosen by.
pub(crate) fn key_source(request: &RequestHead, client: Option<IpAddr>) -> KeySource<'_> {
    KeySource { fields: &request.fields, query: request.query(), client }
}
