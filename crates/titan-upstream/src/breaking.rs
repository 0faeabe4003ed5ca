//! The breakers of an upstream: its own, or one for each of its endpoints.

use crate::breaker::{
    Breaker, BreakerFigures, BreakerStatus, Forced, Outcome, Rejected, Rules, State, Ticket,
    Transition,
};
use crate::endpoint::Endpoint;
use crate::health::since_start;
use crate::signals::Signals;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::{BreakerScope, CircuitBreaker, LogArea, LogLevel, Name};
use titan_io::registry::Registry;
use titan_observe::events::{Event, Field, Log, Repeat};

/// The breakers of an upstream, and the rules that they follow in one configuration.
pub struct Breaking {
    /// When they open and close, and what counts.
    pub rules: Rules,
    upstream: Name,
    /// That of the upstream; its endpoints have their own otherwise.
    whole: Option<Arc<Breaker>>,
    /// Who is told of changes.
    log: Arc<Log>,
    /// Who judges the endpoints of the upstream, and sends them requests.
    signals: Signals,
}

/// How a breaker is doing at a moment.
#[derive(Clone, Copy, Debug)]
pub struct BreakerNow {
    /// Its state, and what led there.
    pub status: BreakerStatus,
    /// What it has done so far.
    pub figures: BreakerFigures,
    /// How long the state has lasted.
    pub lasted: Duration,
    /// How long it stays so in any case, where that is known.
    pub ends_in: Option<Duration>,
}

/// By what the breaker of an upstream is known.
#[derive(PartialEq, Eq, Hash)]
struct BreakerKey(Name);

impl Breaking {
    /// Those of the upstream of that name, with the state that they have.
    pub fn new(
        upstream: &Name,
        config: &CircuitBreaker,
        registry: &Registry,
        signals: Signals,
    ) -> Breaking {
        let rules = Rules::new(config);
        let whole = || registry.shared(BreakerKey(upstream.clone()), Breaker::default);
        Breaking {
            whole: (rules.scope == BreakerScope::Upstream).then(whole),
            rules,
            upstream: upstream.clone(),
            log: Log::of(registry),
            signals,
        }
    }

    /// The breaker of the upstream as a whole, or of an endpoint.
    pub(crate) fn of<'b>(&'b self, endpoint: &'b Endpoint) -> &'b Breaker {
        self.whole.as_deref().unwrap_or_else(|| endpoint.breaker())
    }

    /// Whether a request may go to the upstream as a whole. Nothing where only its endpoints have breakers.
    pub(crate) fn enter(&self, now: Duration) -> Result<Option<Ticket>, Rejected> {
        let Some(breaker) = &self.whole else { return Ok(None) };
        breaker.try_pass(&self.rules.thresholds, now, |it| self.tell(it, None)).map(Some)
    }

    /// Whether a request may go to that endpoint, which has a breaker of its own.
    pub(crate) fn enter_endpoint(
        &self,
        endpoint: &Endpoint,
        now: Duration,
    ) -> Result<Ticket, Rejected> {
        let tell = |it| self.tell(it, Some(endpoint));
        endpoint.breaker().try_pass(&self.rules.thresholds, now, tell)
    }

    /// Whether a request may go to the upstream, or to one of those endpoints where they have breakers of their own. It takes no
    /// place of a half-open one: it has to enter later.
    pub(crate) fn check<'e>(
        &self,
        endpoints: impl Iterator<Item = &'e Arc<Endpoint>>,
        now: Duration,
    ) -> Result<(), Rejected> {
        let thresholds = &self.rules.thresholds;
        if let Some(breaker) = &self.whole {
            return breaker.check(thresholds, now).inspect_err(|_| breaker.note_rejected());
        }
        let mut soonest: Option<Rejected> = None;
        for endpoint in endpoints {
            let Err(rejected) = endpoint.breaker().check(thresholds, now) else { return Ok(()) };
            soonest = Some(soonest.map_or(rejected, |before| before.min(rejected)));
        }
        soonest.map_or(Ok(()), Err)
    }

    /// Takes a request back for which there is no endpoint.
    pub(crate) fn leave(&self, ticket: Option<Ticket>) {
        if let Some((breaker, ticket)) = self.whole.as_ref().zip(ticket) {
            breaker.give_back(ticket);
        }
    }

    /// Notes how a request has fared that went to that endpoint.
    pub(crate) fn complete(
        &self,
        endpoint: &Endpoint,
        (ticket, outcome): (Ticket, Outcome),
        now: Duration,
    ) {
        let own = self.whole.is_none().then_some(endpoint);
        let tell = |it| self.tell(it, own);
        self.of(endpoint).complete(&self.rules.thresholds, (ticket, outcome), now, tell);
    }

    /// Until when an endpoint is to be passed over; `None` where it may be chosen.
    pub(crate) fn rests_until(&self, endpoint: &Endpoint, now: Duration) -> Option<Duration> {
        let own = self.whole.is_none().then(|| endpoint.breaker())?;
        own.open_until().filter(|until| *until > now)
    }

    /// Holds the breaker of the upstream, or of that endpoint, open or closed for a time. False where there is none: the other of them has
    /// breakers.
    pub(crate) fn force(
        &self,
        endpoint: Option<&Endpoint>,
        forced: Forced,
        lasts: Duration,
    ) -> bool {
        let Some(breaker) = self.named(endpoint) else { return false };
        let now = since_start(Instant::now());
        breaker.force(forced, (now, now + lasts), |it| self.tell(it, endpoint));
        true
    }

    /// Lets the breaker of the upstream, or of that endpoint, decide by itself again. False where there is none.
    pub(crate) fn release(&self, endpoint: Option<&Endpoint>) -> bool {
        let Some(breaker) = self.named(endpoint) else { return false };
        breaker.release(since_start(Instant::now()), |it| self.tell(it, endpoint));
        true
    }

    /// Ends what has lasted for its time, whether requests come or not: what is shown of a breaker is what the next request meets.
    pub(crate) fn expire(&self, endpoints: &[Arc<Endpoint>], now: Duration) {
        let thresholds = &self.rules.thresholds;
        if let Some(whole) = &self.whole {
            return whole.expire(thresholds, now, |it| self.tell(it, None));
        }
        for endpoint in endpoints {
            endpoint.breaker().expire(thresholds, now, |it| self.tell(it, Some(endpoint)));
        }
    }

    /// Whether none of them changes as time passes.
    pub(crate) fn is_still(&self, endpoints: &[Arc<Endpoint>]) -> bool {
        match &self.whole {
            Some(whole) => whole.is_still(),
            None => endpoints.iter().all(|endpoint| endpoint.breaker().is_still()),
        }
    }

    /// How the breaker of the upstream, or of that endpoint, is doing; `None` where there is none.
    pub(crate) fn status(&self, endpoint: Option<&Endpoint>) -> Option<BreakerNow> {
        let (breaker, now) = (self.named(endpoint)?, since_start(Instant::now()));
        let (status, figures) = (breaker.status(&self.rules.thresholds, now), breaker.figures(now));
        let ends_in = status.until.map(|until| until.saturating_sub(now));
        Some(BreakerNow { status, figures, lasted: now.saturating_sub(figures.since), ends_in })
    }

    fn named<'b>(&'b self, endpoint: Option<&'b Endpoint>) -> Option<&'b Breaker> {
        match (&self.whole, endpoint) {
            (Some(whole), None) => Some(whole),
            (None, Some(endpoint)) => Some(endpoint.breaker()),
            _ => None,
        }
    }

    fn tell(&self, transition: Transition, endpoint: Option<&Endpoint>) {
        if endpoint.is_some() {
            self.signals.change();
        }
        self.signals.stir();
        let (kind, level) = match transition.to {
            State::Open => ("breaker_opened", LogLevel::Warn),
            State::HalfOpen => ("breaker_half_open", LogLevel::Info),
            State::Closed => ("breaker_closed", LogLevel::Info),
        };
        let event = Event::new((LogArea::Breaker, level), kind, transition)
            .with(Field::Upstream, self.upstream.as_str())
            .with_some(Field::Endpoint, endpoint.map(|endpoint| &endpoint.address))
            .state_of("breaker");
        // What an operator orders is told each time.
        let repeat = if transition.is_ordered() { Repeat::Always } else { Repeat::ByMinute };
        self.log.tell(event.once(repeat));
    }
}
