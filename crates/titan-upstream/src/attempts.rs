//! In which order an exchange tries the endpoints of an upstream.

use crate::balance::{InFlight, KeySource, PickContext, mix};
use crate::breaker::{Rejected, Ticket};
use crate::breaking::Breaking;
use crate::concurrency::{Concurrency, Sample};
use crate::endpoint::Endpoint;
use crate::health::{Fared, since_start};
use crate::members::{CurrentMembers, MOST_EXCLUDED, Upstream};
use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::Balance;
use titan_http::{ResponseHead, Status, Version};
use titan_io::error::Kind;
use titan_io::network::ClientNetwork;

/// How an exchange goes through the endpoints of an upstream: none twice while there is another, and a bounded number.
pub struct Attempts {
    members: CurrentMembers,
    measures_latency: bool,
    /// Whether two have gone on beside each other.
    has_had_two: bool,
    key: Option<u64>,
    /// Whom the request is for.
    client: Option<ClientNetwork>,
    /// The places of endpoints that were tried, and while one is chosen, behind them those that take no request.
    excluded: [usize; MOST_EXCLUDED],
    /// How many were tried.
    count: usize,
    /// After how long a request that no breaker let pass may be sent again.
    retry_after: Option<Duration>,
}

/// One of them: a request to an endpoint. It knows no other, so that several can run at the same time.
#[derive(Clone)]
pub struct Attempt {
    members: CurrentMembers,
    /// The place of the endpoint among the members.
    chosen: usize,
    measures_latency: bool,
    key: Option<u64>,
    client: Option<ClientNetwork>,
}

/// An attempt that the breakers let pass, where there are any: they are told how it fares. Dropped before, it says nothing.
pub struct AdmittedAttempt {
    attempt: Attempt,
    /// When its endpoint was chosen.
    began: Instant,
    /// Until its breaker knows how it has fared.
    ticket: Cell<Option<Ticket>>,
    /// Whether the endpoint's health knows.
    is_noted: Cell<bool>,
}

/// An attempt that counts as a request that runs at its endpoint, while it lives.
pub struct RunningAttempt {
    attempt: Attempt,
    counted: InFlight,
}

/// How an endpoint is chosen, beside so many that take no request.
type Choose = fn(&Attempts, usize, u64, Duration) -> Option<Attempt>;

/// One attempt more than the retries that a route can ask for.
const MAX_ATTEMPTS: usize = 6;
/// That of an endpoint that has left.
const NO_PLACE: usize = usize::MAX;
/// The endpoints with half-open breakers that a request is drawn for in vain before it is rejected.
const MAX_REJECTED: usize = MOST_EXCLUDED - MAX_ATTEMPTS;

impl Attempts {
    /// No attempt yet for this request.
    pub fn new(upstream: &Upstream, members: CurrentMembers, source: &KeySource<'_>) -> Attempts {
        let key = members.key(source);
        let titan_config::Upstream { balance, ejection, circuit_breaker, .. } = upstream.config();
        let measures_latency = matches!(balance, Balance::P2cEwma)
            || ejection.as_ref().is_some_and(|it| it.slower_than_others.is_some())
            || upstream.concurrency.is_some()
            || circuit_breaker.as_ref().is_some_and(|it| it.slow_share.is_some());
        Attempts {
            members,
            measures_latency,
            has_had_two: false,
            key,
            client: source.client.map(ClientNetwork::of),
            excluded: [0; MOST_EXCLUDED],
            count: 0,
            retry_after: None,
        }
    }

    /// Whom the request is for, where that is known.
    pub fn client(&self) -> Option<ClientNetwork> {
        self.client
    }

    /// Chooses among these members from now on: what was decided about endpoints while the request waited holds for it too.
    pub fn renew(&mut self, members: CurrentMembers) {
        if Rc::ptr_eq(&self.members, &members) {
            return;
        }
        for place in &mut self.excluded[..self.count] {
            let id = self.members.endpoints().get(*place).map(|it| it.id);
            let now = members.endpoints().iter().position(|it| Some(it.id) == id);
            *place = now.unwrap_or(NO_PLACE);
        }
        self.members = members;
    }

    /// How many requests may run at the upstream; `None` for as many as there are.
    pub fn concurrency(&self) -> Option<&Arc<Concurrency>> {
        self.members.concurrency()
    }

    /// How many endpoints were chosen.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether two have gone on beside each other.
    pub fn has_had_two(&self) -> bool {
        self.has_had_two
    }

    /// Whether there is an endpoint that takes requests and was not tried yet.
    pub fn has_others(&self) -> bool {
        self.members.has_other(&self.excluded[..self.count])
    }

    /// After how long a request may be sent again that failed with [`Kind::CircuitOpen`].
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether breakers decide about the request.
    pub fn meets_breakers(&self) -> bool {
        self.members.breaking().is_some()
    }

    /// Whether breakers would let the request pass now, for one that has to wait until it can be sent. It takes no place of a
    /// half-open one; [`Attempts::next`] asks again.
    pub fn check_breakers(&mut self) -> Result<(), Kind> {
        let members = Rc::clone(&self.members);
        let Some(breaking) = members.breaking() else { return Ok(()) };
        let passes = breaking.check(members.usable(), since_start(Instant::now()));
        passes.map_err(|rejected| self.reject(rejected))
    }

    /// Chooses the next endpoint to try: one that was not tried, or else not the last one, or else that.
    pub fn next(&mut self, random: u64, at: Instant) -> Result<AdmittedAttempt, Kind> {
        if self.count >= MAX_ATTEMPTS {
            return Err(Kind::NoEndpoint);
        }
        let chosen = self.admit(Attempts::choose, random, at)?;
        self.take(&chosen);
        Ok(chosen)
    }

    /// The same for an attempt beside one that runs, which nobody has to wait for: only an endpoint that was not tried, no trial of a
    /// half-open breaker, and only if that can be paid for, which is asked last.
    pub fn next_beside(
        &mut self,
        random: u64,
        at: Instant,
        pay: impl FnOnce() -> bool,
    ) -> Option<AdmittedAttempt> {
        if self.count >= MAX_ATTEMPTS || !self.has_others() {
            return None;
        }
        let retry_after = self.retry_after;
        let chosen = self.admit(Attempts::choose_untried, random, at);
        // The request itself was not rejected.
        self.retry_after = retry_after;
        let chosen = chosen.ok().filter(|chosen| !chosen.is_trial() && pay())?;
        self.take(&chosen);
        self.has_had_two = true;
        Some(chosen)
    }

    fn take(&mut self, chosen: &AdmittedAttempt) {
        self.excluded[self.count] = chosen.attempt.chosen;
        self.count += 1;
    }

    fn admit(&mut self, choose: Choose, random: u64, at: Instant) -> Result<AdmittedAttempt, Kind> {
        let members = Rc::clone(&self.members);
        match members.breaking() {
            Some(breaking) => self.admit_by(breaking, choose, random),
            None => {
                let attempt = choose(self, 0, random, since_start(at)).ok_or(Kind::NoEndpoint)?;
                Ok(AdmittedAttempt::new(attempt, Instant::now(), None))
            }
        }
    }

    /// The same where breakers decide. Endpoints whose breaker is open are not drawn; of those whose breaker is half-open, and which
    /// therefore take few requests at a time, others are drawn instead.
    fn admit_by(
        &mut self,
        breaking: &Breaking,
        choose: Choose,
        mut random: u64,
    ) -> Result<AdmittedAttempt, Kind> {
        // A request may have waited since it began, or may have been tried.
        let at = Instant::now();
        let now = since_start(at);
        let of_upstream = breaking.enter(now).map_err(|rejected| self.reject(rejected))?;
        let mut rejected_count = 0;
        while let Some(attempt) = choose(self, rejected_count, random, now) {
            let ticket = match of_upstream {
                Some(ticket) => Ok(ticket),
                None => breaking.enter_endpoint(attempt.endpoint(), now),
            };
            match ticket {
                Ok(ticket) => return Ok(AdmittedAttempt::new(attempt, at, Some(ticket))),
                Err(rejected) => {
                    self.reject(rejected);
                    if rejected_count == MAX_REJECTED {
                        break;
                    }
                    self.excluded[self.count + rejected_count] = attempt.chosen;
                    rejected_count += 1;
                    random = mix(random);
                }
            }
        }
        breaking.leave(of_upstream);
        if let Some(reopens) = self.members.reopens() {
            self.reject(Rejected { retry_after: reopens.saturating_sub(now) });
        }
        Err(if self.retry_after.is_some() { Kind::CircuitOpen } else { Kind::NoEndpoint })
    }

    fn reject(&mut self, Rejected { retry_after }: Rejected) -> Kind {
        let soonest = self.retry_after.map_or(retry_after, |before| before.min(retry_after));
        self.retry_after = Some(soonest);
        Kind::CircuitOpen
    }

    /// Chooses an endpoint, but none of those that stand behind the ones that were tried.
    fn choose(&self, rejected: usize, random: u64, now: Duration) -> Option<Attempt> {
        let excluded = &self.excluded[..self.count + rejected];
        let choose = |excluded| self.draw(excluded, random, now);
        let but_the_last = || choose(&excluded[self.count.saturating_sub(1)..]);
        let again = || but_the_last().or_else(|| choose(&excluded[self.count..]));
        let other = choose(excluded);
        let chosen = if self.count == 0 { other } else { other.or_else(again) };
        chosen.map(|chosen| self.attempt_at(chosen))
    }

    /// The same, but none of those that were tried either, and none of another group: a backup is for when its endpoints are needed.
    fn choose_untried(&self, rejected: usize, random: u64, now: Duration) -> Option<Attempt> {
        let excluded = &self.excluded[..self.count + rejected];
        let is_one = |chosen: &usize| {
            !excluded.contains(chosen) && self.members.are_together(*chosen, excluded[0])
        };
        let chosen = self.draw(excluded, random, now).filter(is_one);
        chosen.map(|chosen| self.attempt_at(chosen))
    }

    fn draw(&self, excluded: &[usize], random: u64, now: Duration) -> Option<usize> {
        let draw = PickContext { key: self.key, random, now, excluded, standings: None };
        self.members.choose(&draw)
    }

    fn attempt_at(&self, chosen: usize) -> Attempt {
        let Attempts { measures_latency, key, client, .. } = *self;
        Attempt { members: Rc::clone(&self.members), chosen, measures_latency, key, client }
    }
}

impl AdmittedAttempt {
    fn new(attempt: Attempt, began: Instant, ticket: Option<Ticket>) -> AdmittedAttempt {
        let (ticket, is_noted) = (Cell::new(ticket), Cell::new(false));
        AdmittedAttempt { attempt, began, ticket, is_noted }
    }

    /// When its endpoint was chosen.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Notes how the request has fared in the end: with a response, whose head took so long where that was measured, or with
    /// a failure of the endpoint. Where it says nothing about the endpoint, this is not called. What is noted first counts. Whether it is
    /// a response that counts as an error.
    pub fn note_end(&self, end: Result<(Status, Option<Duration>), Kind>) -> bool {
        if self.is_noted.replace(true) {
            return false;
        }
        let fared = self.attempt.note_end(end.ok());
        self.note_for_breaker(end);
        fared == Some(Fared::Error)
    }

    fn note_for_breaker(&self, end: Result<(Status, Option<Duration>), Kind>) {
        let Some((ticket, breaking)) = self.take_ticket() else { return };
        let now = since_start(Instant::now());
        let outcome = match end {
            Ok((status, took)) => breaking.rules.responded(status, took.unwrap_or_default()),
            Err(kind) => breaking.rules.failed(kind, now.saturating_sub(since_start(self.began))),
        };
        breaking.complete(self.endpoint(), (ticket, outcome), now);
    }

    /// Notes what the endpoint has begun to respond. A half-open breaker needs no more: a response that takes hours must not keep
    /// the place of the next trial.
    pub fn note_head(&self, responded: Option<(Status, Option<Duration>)>) {
        if self.is_trial()
            && let Some((status, took)) = responded
            && let Some((ticket, breaking)) = self.take_ticket()
        {
            let outcome = breaking.rules.responded(status, took.unwrap_or_default());
            breaking.complete(self.endpoint(), (ticket, outcome), since_start(Instant::now()));
        }
    }

    /// Whether it is to show a half-open breaker if things are better.
    pub fn is_trial(&self) -> bool {
        self.ticket.get().is_some_and(Ticket::is_trial)
    }

    fn take_ticket(&self) -> Option<(Ticket, &Breaking)> {
        self.ticket.take().zip(self.members.breaking())
    }
}

impl Drop for AdmittedAttempt {
    fn drop(&mut self) {
        if let Some((ticket, breaking)) = self.take_ticket() {
            breaking.of(self.endpoint()).give_back(ticket);
        }
    }
}

impl Deref for AdmittedAttempt {
    type Target = Attempt;

    fn deref(&self) -> &Attempt {
        &self.attempt
    }
}

impl Attempt {
    /// Whom the request is for, where that is known.
    pub fn client(&self) -> Option<ClientNetwork> {
        self.client
    }

    /// Whether the choice depends on how fast endpoints have responded.
    pub fn measures_latency(&self) -> bool {
        self.measures_latency
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.members.endpoints()[self.chosen]
    }

    /// How many endpoints there were to choose from, those that take no requests among them.
    pub fn choices(&self) -> usize {
        self.members.endpoints().len()
    }

    /// Why it has no connection when its time is over: it has waited for one that others use, or the endpoint has accepted none.
    pub fn why_unconnected(&self) -> Kind {
        match self.endpoint().slots.waiting() {
            0 => Kind::ConnectTimeout,
            _ => Kind::QueueTimeout,
        }
    }

    /// Counts it from now on.
    pub fn begin(&self) -> RunningAttempt {
        RunningAttempt { attempt: self.clone(), counted: self.endpoint().load.begin() }
    }

    /// Notes how the endpoint has responded.
    pub fn note_response(&self, version: Version, latency: Option<Latency>) {
        self.endpoint().note_version(version);
        if let Some(took) = latency.and_then(Latency::so_far) {
            self.endpoint().load.record(took, since_start(Instant::now()));
        }
    }

    /// Notes that another endpoint has responded to the request before this one, although it was asked later.
    pub fn note_outrun(&self) {
        if self.members.is_failure(Status::OK).is_some() {
            self.endpoint().health.tally.note_outrun();
        }
    }

    /// Notes that the endpoint had not responded after that time, when it was not waited for any longer.
    pub fn note_given_up(&self, latency: Option<Latency>) {
        if let Some(latency) = latency.and_then(Latency::so_far) {
            self.endpoint().load.record_at_least(latency, since_start(Instant::now()));
        }
    }

    /// Notes what the response says of the load of the upstream.
    pub fn note_load(&self, response: &ResponseHead, latency: Option<Latency>) {
        let Some((concurrency, latency)) = self.members.concurrency().zip(latency) else { return };
        if let Some(sample) = Sample::of(response, latency.so_far()) {
            concurrency.note(sample);
        }
    }

    /// Notes that the endpoint has failed. One that fails at once must not look fast, so it counts as if it had kept
    /// the request waiting for `penalty`.
    pub fn note_failure(&self, penalty: Duration, at: Instant) {
        if self.measures_latency {
            self.endpoint().load.record(penalty, since_start(at));
        }
        if let Some(concurrency) = self.members.concurrency() {
            concurrency.note(Sample::Dropped);
        }
    }

    /// Notes how the request has fared in the end: with a response, whose head took so long where that was measured, or with none.
    /// `None` where nobody judges by it.
    fn note_end(&self, response: Option<(Status, Option<Duration>)>) -> Option<Fared> {
        let is_failure = self.members.is_failure(response.map_or(Status::OK, |it| it.0))?;
        let fared = match response {
            None => Fared::Failed,
            Some(_) if is_failure => Fared::Error,
            Some((_, took)) => Fared::Well { took },
        };
        self.endpoint().health.tally.note(fared);
        Some(fared)
    }

    /// Writes the cookie that ties the client to the endpoint, where one is due.
    pub fn set_cookie(&self, out: &mut Vec<u8>) -> bool {
        self.members.set_cookie(self.key, self.chosen, out)
    }
}

impl RunningAttempt {
    /// What counts it, where no more than that is needed of it.
    pub fn into_count(self) -> InFlight {
        self.counted
    }
}

impl Deref for RunningAttempt {
    type Target = Attempt;

    fn deref(&self) -> &Attempt {
        &self.attempt
    }
}

/// How long an endpoint has taken to respond, from the moment when it had the request.
#[derive(Clone, Copy, Default)]
pub struct Latency {
    since: Option<Instant>,
}

impl Latency {
    /// Starts the time, where it does not run yet.
    pub fn start(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The time until now; `None` for a response that came before the request was out. It says nothing of how fast others come.
    pub fn so_far(self) -> Option<Duration> {
        self.since.map(|since| since.elapsed())
    }
}

#[cfg(test)]
mod tests;
