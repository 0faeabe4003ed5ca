//! An upstream under watch, and what is remembered of each of its endpoints.

use super::probing::{Probing, first_pause};
use super::{Asked, Order, Probes, Wish, now};
use crate::ejection::{self, Change, Ejected, Observed, Record};
use crate::endpoint::{Address, Endpoint, ResolvedEndpoint};
use crate::failure_log::{Cause, FailureDetail};
use crate::health::{Fact, Health};
use crate::members::{Members, Outcome, Supply, Upstream};
use crate::probe::{ProbeFailure, Probed, Prober};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{HealthCheck, LogArea, LogLevel};
use titan_io::error::Kind;
use titan_observe::events::{Event, Field, Repeat};
use tokio::task::Id;
use tokio::time::Instant;

/// An upstream, and what is remembered of it.
pub(super) struct WatchedUpstream {
    upstream: Arc<Upstream>,
    members: Arc<Members>,
    /// Those of the members, in their order.
    endpoints: Vec<WatchedEndpoint>,
    /// What holds for a while of endpoints that have left, in case they come back.
    left: HashMap<Address, Kept>,
    /// Which of them get requests, once that was looked at.
    outcome: Option<Outcome>,
    /// Whether it rests if it is still the next time: whoever counts tells of it since the last time.
    is_about_to_rest: bool,
}

struct WatchedEndpoint {
    endpoint: Arc<Endpoint>,
    kept: Kept,
    /// Whether the file or discovery has it drain.
    drains: bool,
    /// Its probes, where it is probed.
    probing: Option<Probing>,
}

/// What holds for a while of the endpoint at an address, whatever else of that changes.
#[derive(Default)]
struct Kept {
    record: Record,
    /// Until when an operator wants it to get no new requests.
    drained: Option<Duration>,
    /// Until when an operator wants it to get none.
    ejected: Option<Duration>,
}

/// The most endpoints of which something is kept after they have left.
const MOST_LEFT: usize = 1024;

impl WatchedUpstream {
    /// What is remembered of an upstream that is as it is now.
    pub(super) fn of(
        upstream: &Arc<Upstream>,
        before: Option<WatchedUpstream>,
        random: impl Fn() -> u64,
    ) -> WatchedUpstream {
        let members = upstream.members();
        let check = upstream.config().health.as_ref();
        let is_same =
            before.as_ref().is_some_and(|it| it.upstream.config().health.as_ref() == check);
        let (before, mut left, outcome) = match before {
            Some(it)
                if Arc::ptr_eq(&it.members, &members) && Arc::ptr_eq(&it.upstream, upstream) =>
            {
                return it;
            }
            Some(it) => (it.endpoints, it.left, it.outcome),
            None => Default::default(),
        };
        let ids: HashSet<u64> = members.endpoints.iter().map(|endpoint| endpoint.id).collect();
        let mut known = HashMap::new();
        for it in before {
            if ids.contains(&it.endpoint.id) {
                known.insert(it.endpoint.id, it);
            } else if it.kept.holds(now()) && left.len() < MOST_LEFT {
                left.insert(it.endpoint.address.clone(), it.kept);
            }
        }
        let settings = Probed::settings(upstream);
        let of = |(place, endpoint): (&ResolvedEndpoint, &Arc<Endpoint>)| {
            let before = known.remove(&endpoint.id);
            let goes_on = is_same && before.is_some();
            let take_over = || {
                let kept = left.remove(&endpoint.address).unwrap_or_default();
                WatchedEndpoint::new(endpoint, kept)
            };
            let mut watched = before.unwrap_or_else(take_over);
            if !goes_on {
                let probed = settings.as_ref().map(|it| Probed::new(place, upstream, it));
                watched.set_probed(probed.zip(check), random());
            }
            watched.set_drains(place.placement.drains());
            watched.forget_what_is_off(upstream);
            watched
        };
        let endpoints = members.places.iter().zip(&members.endpoints).map(of).collect();
        WatchedUpstream {
            upstream: Arc::clone(upstream),
            members,
            endpoints,
            left,
            outcome,
            is_about_to_rest: false,
        }
    }

    /// Looks at it again and again from now on; whether it was `at_rest` before.
    pub(super) fn wake(&mut self, at_rest: bool) {
        self.upstream.signals.wake();
        self.is_about_to_rest = false;
        if at_rest {
            self.endpoints.iter_mut().for_each(|it| it.kept.record.resume(now()));
        }
    }

    /// Whether it may rest until it tells of something: what is known of it does not change as time passes. It says so at the second
    /// look at which it is still. Between the two a worker that has counted something, and had looked before whether it has to tell
    /// of it, has long made it visible: processors do not keep the order of a store and the load after it.
    pub(super) fn may_rest(&mut self) -> bool {
        let signals = &self.upstream.signals;
        let was_about_to = self.is_about_to_rest;
        self.is_about_to_rest = self.is_still();
        match (was_about_to, self.is_about_to_rest) {
            (false, true) => signals.rest(),
            (true, false) => signals.wake(),
            _ => {}
        }
        was_about_to && self.is_about_to_rest
    }

    fn is_still(&self) -> bool {
        let WatchedUpstream { upstream, members, endpoints, left, .. } = self;
        let breakers = || upstream.breaking().is_none_or(|it| it.is_still(&members.endpoints));
        left.is_empty() && endpoints.iter().all(WatchedEndpoint::is_still) && breakers()
    }

    /// The same upstream, with the endpoints that it has by now.
    pub(super) fn again(self, random: impl Fn() -> u64) -> WatchedUpstream {
        let upstream = Arc::clone(&self.upstream);
        WatchedUpstream::of(&upstream, Some(self), random)
    }

    /// Does what an operator wants of an endpoint.
    pub(super) fn follow(&mut self, order: &Order) {
        let found = self.endpoints.iter_mut().find(|it| it.endpoint.has_address(&order.address));
        let Some(watched) = found else { return };
        match order.wish {
            Wish::Drain(time) => {
                watched.kept.drained = Some(now() + time);
                let why = format!("{DRAINED} for {time:.0?}");
                watched.endpoint.health.decide_for(Fact::Draining, time, &DRAINED);
                let what = format!("gets no new requests: {why}");
                self.tell_ordered(&order.address, decision(LogLevel::Info, "drained", what));
            }
            Wish::Eject(time) => {
                watched.kept.ejected = Some(now() + time);
                watched.endpoint.health.decide_for(Fact::EjectedByHand, time, &EJECTED);
                let what = format!("is ejected for {time:.0?}: {EJECTED}");
                let event = decision(LogLevel::Info, "ejected_by_operator", what);
                self.tell_ordered(&order.address, event);
            }
            Wish::Restore => {
                let what = match (watched.restore(), watched.drains) {
                    (_, true) => "is still drained by the configuration, or by its SRV record",
                    (true, false) => "is restored by an operator",
                    (false, false) => "was neither ejected nor drained",
                };
                let event = decision(LogLevel::Info, "restored", what).state_of(EJECTION);
                self.tell_ordered(&order.address, event);
            }
        }
    }

    /// Ejects the endpoints whose requests fare badly, and lets those return whose time is over.
    pub(super) fn judge(&mut self) {
        let now = now();
        self.left.retain(|_, kept| kept.holds(now));
        let WatchedUpstream { upstream, members, endpoints, .. } = self;
        upstream.breaking().iter().for_each(|it| it.expire(&members.endpoints, now));
        let name = upstream.config().name.as_str();
        for watched in &mut *endpoints {
            let endpoint = Arc::clone(&watched.endpoint);
            watched.end_orders(now, |what| {
                let event = decision(LogLevel::Info, "order_over", what);
                let event = event.with(Field::Upstream, name);
                upstream.log.tell(event.with(Field::Endpoint, &endpoint.address));
            });
        }
        let mut observed: Vec<Observed<'_>> =
            endpoints.iter_mut().map(|it| it.observe(upstream, now)).collect();
        let settings = upstream.config().ejection.as_ref();
        for (place, change) in ejection::judge(settings, &mut observed, now) {
            let Endpoint { address, health, .. } = &*members.endpoints[place];
            let tell = |level, kind, what: &str| {
                let event = decision(level, kind, what).with(Field::Upstream, name);
                let event = event.with(Field::Endpoint, address).state_of(EJECTION);
                upstream.log.tell(event.once(Repeat::ByMinute));
            };
            match change {
                Change::Ejects(Ejected { why, until, .. }) => {
                    let time = until.saturating_sub(now);
                    health.decide_for(Fact::Ejected, time, &why);
                    tell(LogLevel::Warn, "ejected", &format!("is ejected for {time:.0?}: {why}"));
                }
                Change::Returns => {
                    return_to_work(health, Fact::Ejected, &"its ejection is over");
                    tell(LogLevel::Info, "returned", RETURNS);
                }
                Change::ReturnsEarly => {
                    let why = "the last one that was not ejected fails";
                    return_to_work(health, Fact::Ejected, &why);
                    tell(LogLevel::Info, "returned", &format!("{RETURNS}: {why}"));
                }
            }
        }
    }

    /// The endpoints whose probes are due, by their places, and since when.
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = (Instant, usize)> {
        let probing = self.endpoints.iter().map(|it| it.probing.as_ref());
        let due = probing.enumerate().map(move |(place, it)| Some((it?.due(now)?, place)));
        due.flatten()
    }

    /// Probes an endpoint.
    pub(super) fn start_probe(&mut self, asked: Asked, prober: &Rc<Prober>, probes: &mut Probes) {
        let Some(probing) = &mut self.endpoints[asked.place].probing else { return };
        let (number, upstream) = (asked.number, Arc::clone(&self.upstream));
        let (prober, probed) = (Rc::clone(prober), Rc::clone(&probing.probed));
        let task = probes.spawn_local(async move {
            let check = upstream.config().health.as_ref();
            let outcome = match check {
                Some(check) => prober.probe(&probed, check).await,
                None => Ok(()),
            };
            (asked, outcome)
        });
        probing.start(number, task);
    }

    /// Counts a probe, and decides by it. One of an endpoint that has left, or is probed with other settings by now, says nothing.
    pub(super) fn note_probe(
        &mut self,
        asked: &Asked,
        outcome: Result<(), ProbeFailure>,
        random: u64,
    ) {
        let is_it = |it: &WatchedEndpoint| {
            it.probing.as_ref().is_some_and(|probing| probing.is_running(asked.number))
        };
        let there = self.endpoints.get(asked.place).is_some_and(is_it).then_some(asked.place);
        if let Some(place) = there.or_else(|| self.endpoints.iter().position(is_it)) {
            self.count_probe(place, outcome, random);
        }
    }

    /// Counts the probe that was this task as one that has failed, if it is one of these endpoints: they are probed on.
    pub(super) fn note_panic(&mut self, task: Id, random: u64) {
        let is_it = |it: &WatchedEndpoint| it.probing.as_ref().is_some_and(|it| it.is_task(task));
        if let Some(place) = self.endpoints.iter().position(is_it) {
            let why = "the gateway has failed to probe it, which is a fault of its own";
            self.count_probe(place, Err(why.to_owned().into()), random);
        }
    }

    fn count_probe(&mut self, place: usize, outcome: Result<(), ProbeFailure>, random: u64) {
        let WatchedUpstream { upstream, endpoints, .. } = self;
        let Some(check) = &upstream.config().health else { return };
        let WatchedEndpoint { endpoint, probing: Some(probing), .. } = &mut endpoints[place] else {
            return;
        };
        let Endpoint { address, health, .. } = &**endpoint;
        let outcome = match outcome {
            Err(ProbeFailure { why, is_shortage: true }) => {
                let describe = || FailureDetail::of_probe(address, &why);
                upstream.failure_log.note(Cause::Failed(Kind::NoSocket), describe);
                return probing.wait(check, health, random);
            }
            outcome => outcome.map_err(|failure| failure.why),
        };
        health.note_probe(outcome.as_ref().err());
        if upstream.log.takes(LogArea::Health, LogLevel::Debug) {
            tell_probe(upstream, address, outcome.as_ref().err());
        }
        let decided = probing.count(check, health, outcome.is_err());
        let why = probing.told();
        let told = match decided {
            Some(true) => {
                return_to_work(health, Fact::Unhealthy, &why);
                health.end(Fact::Unprobed, &why);
                Some((LogLevel::Info, "healthy", format!("is healthy: {why}")))
            }
            Some(false) => {
                let why = format!("{why}: {}", outcome.err().unwrap_or_default());
                health.decide(Fact::Unhealthy, true, &why);
                health.end(Fact::Unprobed, &why);
                Some((LogLevel::Warn, "unhealthy", format!("is unhealthy: {why}")))
            }
            None => None,
        };
        probing.wait(check, health, random);
        if let Some((level, kind, what)) = told {
            let event = decision(level, kind, what).with(Field::Upstream, name_of(upstream));
            let event = event.with(Field::Endpoint, address).state_of("probes");
            upstream.log.tell(event.once(Repeat::ByMinute));
        }
    }

    /// Says when too few endpoints can take requests, or none, and when enough can again.
    pub(super) fn note_supply(&mut self) {
        let least = self.upstream.config().panic_below;
        let supply = self.upstream.supply(now());
        let Supply { usable, all, .. } = supply;
        let outcome = supply.outcome();
        // What it begins with is no change.
        let before = self.outcome.replace(outcome).unwrap_or(outcome);
        let (level, kind, what) = match outcome {
            _ if outcome == before => return,
            Outcome::All => {
                let what = format!(
                    "only {usable} of {all} endpoints can take requests, fewer than {least}: requests go to all of them"
                );
                (LogLevel::Warn, "panic", what)
            }
            Outcome::Nobody if self.endpoints.is_empty() => {
                let what = "it has no endpoints: new requests get 503".to_owned();
                (LogLevel::Error, "no_endpoints", what)
            }
            Outcome::Nobody if all == 0 => {
                let what = "no endpoint gets requests: all are taken out of service, or wait for their first probe; new \
                    requests get 503";
                (LogLevel::Error, "no_endpoints", what.to_owned())
            }
            Outcome::Nobody => {
                let what =
                    format!("none of {all} endpoints can take requests: new requests get 503");
                (LogLevel::Error, "no_endpoints", what)
            }
            Outcome::Usable if before == Outcome::Nobody => {
                let what = format!("{usable} of {all} endpoints can take requests again");
                (LogLevel::Info, "endpoints_back", what)
            }
            Outcome::Usable => {
                let what = format!(
                    "{usable} of {all} endpoints can take requests: they go to these alone again"
                );
                (LogLevel::Info, "endpoints_back", what)
            }
        };
        let event = decision(level, kind, what).with(Field::Upstream, name_of(&self.upstream));
        self.upstream.log.tell(event.state_of("supply").once(Repeat::ByMinute));
    }

    /// Tells of what an operator has ordered: each time.
    fn tell_ordered(&self, address: &str, event: Event) {
        let event = event.with(Field::Upstream, name_of(&self.upstream));
        self.upstream.log.tell(event.with(Field::Endpoint, address));
    }
}

impl Kept {
    /// Whether something of it holds at that time.
    fn holds(&self, now: Duration) -> bool {
        let until = self.record.ejected().map(|ejected| ejected.until);
        [until, self.drained, self.ejected].into_iter().flatten().any(|until| until > now)
    }
}

impl WatchedEndpoint {
    /// One that is new here, or back. Requests that still run may have kept all that is known of it, or it may be another at its address:
    /// what holds is what was kept.
    fn new(endpoint: &Arc<Endpoint>, mut kept: Kept) -> WatchedEndpoint {
        let health = &endpoint.health;
        let ejected = kept.record.ejected().map(|it| (it.why.to_string(), it.until));
        let by_hand = kept.ejected.map(|until| (EJECTED.to_owned(), until));
        let drained = kept.drained.map(|until| (DRAINED.to_owned(), until));
        let facts =
            [(Fact::Ejected, ejected), (Fact::EjectedByHand, by_hand), (Fact::Draining, drained)];
        for (fact, kept) in facts {
            match kept {
                Some((why, until)) if !health.has(fact) => {
                    health.decide_for(fact, until.saturating_sub(now()), &why);
                }
                None if health.has(fact) => return_to_work(health, fact, &"it was away"),
                _ => {}
            }
        }
        match health.tally.is_new() {
            true => kept.record.begin(now()),
            false => kept.record.forget_counts(),
        }
        WatchedEndpoint { endpoint: Arc::clone(endpoint), kept, drains: false, probing: None }
    }

    /// Has it probed in another way from now on.
    fn set_probed(&mut self, probed: Option<(Probed, &HealthCheck)>, random: u64) {
        let Some((probed, check)) = probed else {
            self.probing = None;
            return;
        };
        let first = Instant::now() + first_pause(check, &self.endpoint.health, random);
        match &mut self.probing {
            Some(probing) => probing.change(probed, first),
            None => self.probing = Some(Probing::new(probed, first)),
        }
    }

    /// Whether the file or discovery has it drain. What it did as such says nothing of what it does now.
    fn set_drains(&mut self, drains: bool) {
        if std::mem::replace(&mut self.drains, drains) && !drains {
            self.endpoint.health.tally.forget();
        }
    }

    /// Takes back what the configuration has nobody decide any more.
    fn forget_what_is_off(&mut self, upstream: &Upstream) {
        let health = &self.endpoint.health;
        if upstream.config().health.is_none() {
            health.end(Fact::Unhealthy, &UNPROBED);
            health.end(Fact::Unprobed, &UNPROBED);
        }
        if upstream.config().ejection.is_none() {
            self.kept.record.forget_counts();
            if self.kept.record.ejected().is_some() {
                self.kept.record.release(now());
                return_to_work(health, Fact::Ejected, &"ejection is switched off");
            }
        }
    }

    /// Takes back what keeps requests from it; whether anything did.
    fn restore(&mut self) -> bool {
        let (health, why) = (&self.endpoint.health, &"an operator has restored it");
        self.kept.record.release(now());
        (self.kept.drained, self.kept.ejected) = (None, None);
        let mut facts = vec![Fact::Ejected, Fact::EjectedByHand, Fact::Draining];
        facts.retain(|fact| health.has(*fact));
        facts.iter().for_each(|fact| return_to_work(health, *fact, why));
        !facts.is_empty()
    }

    /// Ends what operators wanted for a time that is over.
    fn end_orders(&mut self, now: Duration, say: impl Fn(&str)) {
        let WatchedEndpoint { endpoint, kept, .. } = self;
        let health = &endpoint.health;
        if kept.drained.take_if(|until| *until <= now).is_some() {
            return_to_work(health, Fact::Draining, &"its draining is over");
            say("gets new requests again: its draining is over");
        }
        if kept.ejected.take_if(|until| *until <= now).is_some() {
            return_to_work(health, Fact::EjectedByHand, &"its ejection is over");
            say(RETURNS);
        }
    }

    /// Whether nothing of it changes as time passes.
    fn is_still(&self) -> bool {
        let WatchedEndpoint { endpoint, kept, drains: _, probing } = self;
        let Kept { record, drained, ejected } = kept;
        let tally = &endpoint.health.tally;
        let is_ordered = drained.is_some() || ejected.is_some();
        let counts = || record.is_still(tally.counts()) && tally.in_a_row() == (0, 0);
        probing.is_none() && !is_ordered && counts()
    }

    fn observe(&mut self, upstream: &Upstream, now: Duration) -> Observed<'_> {
        let WatchedEndpoint { endpoint, kept, drains, .. } = self;
        let health = &endpoint.health;
        Observed {
            counts: health.tally.counts(),
            in_a_row: health.tally.in_a_row(),
            is_usable: health.is_counted(*drains) && !health.has(Fact::Unhealthy),
            rests: upstream.rests_until(endpoint, now).is_some(),
            record: &mut kept.record,
        }
    }
}

/// Has an endpoint get requests again that got none. Those before led there, and say nothing of what is now.
fn return_to_work(health: &Health, fact: Fact, why: &dyn fmt::Display) {
    health.tally.forget();
    health.rise(now());
    health.decide(fact, false, why);
}

/// Tells of each probe, for whoever looks for a cause.
fn tell_probe(upstream: &Upstream, address: &Address, why: Option<&String>) {
    let what = match why {
        None => "a probe has succeeded".to_owned(),
        Some(why) => format!("a probe has failed: {why}"),
    };
    let event = decision(LogLevel::Debug, "probed", what);
    let event = event.with(Field::Upstream, name_of(upstream));
    upstream.log.tell(event.with(Field::Endpoint, address));
}

/// A decision about an upstream, or one of its endpoints.
fn decision(level: LogLevel, kind: &'static str, what: impl fmt::Display) -> Event {
    Event::new((LogArea::Health, level), kind, what)
}

fn name_of(upstream: &Upstream) -> &str {
    upstream.config().name.as_str()
}

const DRAINED: &str = "an operator drains it";
const EJECTED: &str = "an operator has ejected it";
const RETURNS: &str = "gets requests again after its ejection";
/// What being ejected, having returned and being restored are states of.
const EJECTION: &str = "ejection";
const UNPROBED: &str = "it is not probed any more";

#[cfg(test)]
mod tests;
