//! A named group of endpoints, and its members at the moment.

mod keys;

use crate::balance::{KeySource, PickContext, Standing, Turn, mix};
use crate::breaking::Breaking;
use crate::budget::{RetryBudget, RetryBudgetStatus};
use crate::cells::UpstreamCells;
use crate::concurrency::Concurrency;
use crate::endpoint::{Address, Endpoint, ResolvedEndpoint};
use crate::failure_log::FailureLog;
use crate::feeds::Feed;
use crate::groups::{Groups, Placement, Selection};
use crate::health::since_start;
use crate::hedging::Hedging;
use crate::signals::Signals;
use arc_swap::ArcSwap;
use keys::{BudgetKey, EndpointKey, TlsKey, TurnKey, UpstreamKey, UpstreamName};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use titan_config::{Percent, Resolver, Statuses};
use titan_http::Status;
use titan_io::counter::Counted;
use titan_io::registry::Registry;
use titan_io::tls::ClientTls;
use titan_observe::events::Log;
use tokio::sync::watch;

/// A named group of endpoints.
pub struct Upstream {
    /// Unique in the process.
    id: u64,
    config: titan_config::Upstream,
    tls: Option<Arc<ClientTls>>,
    /// Where endpoints come from that upstreams of that name have in common.
    registry: Registry,
    members: ArcSwap<Members>,
    /// Who is told of what becomes of its endpoints, and of each change of the members as well.
    pub(crate) signals: Signals,
    in_force: Arc<Mutex<InForce>>,
    /// Whether a task keeps its members up to date.
    is_followed: AtomicBool,
    /// Those that its endpoints name, in their order. Locked while it takes what they have told.
    pub(crate) feeds: Mutex<Vec<Arc<Feed>>>,
    /// Closed when it is gone.
    life: watch::Sender<()>,
    /// What goes wrong with it.
    pub failure_log: Arc<FailureLog>,
    /// What is decided about it.
    pub log: Arc<Log>,
    /// What keeps requests from it while it fails.
    breaking: Option<Arc<Breaking>>,
    /// How many retries it may get.
    pub retry_budget: Arc<RetryBudget>,
    /// When its requests get a second try while the first one goes on; `None` for never.
    pub hedging: Option<Hedging>,
    /// How many requests may run there; `None` for as many as there are.
    pub concurrency: Option<Arc<Concurrency>>,
    /// What is counted for it.
    pub counted: Arc<Counted<UpstreamCells>>,
}

/// Of all upstreams of one name, the one whose configuration is in force, and the addresses that its endpoints had
/// last.
#[derive(Default)]
struct InForce {
    upstream: Option<u64>,
    places: Vec<ResolvedEndpoint>,
}

/// The endpoints of an upstream at one moment. Replaced as a whole when a name resolves to others.
pub struct Members {
    /// What they were made from, in the same order.
    pub(crate) places: Vec<ResolvedEndpoint>,
    /// All of them.
    pub endpoints: Vec<Arc<Endpoint>>,
    groups: Groups,
}

/// How many of the endpoints of an upstream can take requests at the moment. Those that somebody has taken out of service do not count, nor
/// those that have yet to be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Supply {
    /// Those that neither fail nor have an open breaker.
    pub(crate) usable: usize,
    /// Those that count.
    pub(crate) all: usize,
    /// Whether these are too few, so that those that fail get requests as well.
    pub(crate) panics: bool,
}

impl Supply {
    /// What it means for requests.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Supply { panics: true, .. } => Outcome::All,
            Supply { usable: 0, .. } => Outcome::Nobody,
            Supply { .. } => Outcome::Usable,
        }
    }
}

/// Which endpoints of an upstream get requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Those that can take them.
    Usable,
    /// All that are there, because too few of them can take any.
    All,
    /// None.
    Nobody,
}

/// The members of an upstream, and which of them may be chosen, as one worker knows it.
pub struct KnownUpstream {
    members: Arc<Members>,
    selection: Selection,
    /// Whether requests go to all of them because too few can take any.
    panics: bool,
    /// How long endpoints take more and more requests, where some do.
    slow_start: Option<Duration>,
    /// The statuses that count as failures, where failures count.
    failures: Option<Statuses>,
    /// What keeps requests from them while they fail.
    breaking: Option<Arc<Breaking>>,
    /// When the first of those endpoints may be chosen again whose breaker is open.
    reopens: Option<Duration>,
    concurrency: Option<Arc<Concurrency>>,
}

/// The members of all upstreams as one worker knows them. A lookup is a load; only when they have changed, a count is
/// touched that all workers share.
#[derive(Default)]
pub struct KnownMembers {
    upstreams: RefCell<Vec<Option<SeenMembers>>>,
}

/// The members of one upstream as they were last seen.
struct SeenMembers {
    upstream: Weak<Upstream>,
    id: u64,
    version: u64,
    members: CurrentMembers,
}

impl KnownMembers {
    /// The members of `upstream` at that moment; `index` is its place in the configuration.
    pub fn get(&self, index: usize, upstream: &Arc<Upstream>, at: Instant) -> CurrentMembers {
        let version = upstream.signals.version();
        let mut upstreams = self.upstreams.borrow_mut();
        if upstreams.len() <= index {
            upstreams.resize_with(index + 1, || None);
        }
        match &upstreams[index] {
            Some(seen)
                if seen.id == upstream.id
                    && seen.version == version
                    && !seen.members.is_over(at) =>
            {
                Rc::clone(&seen.members)
            }
            _ => {
                let members = Rc::new(KnownUpstream::of(upstream));
                let (upstream, id) = (Arc::downgrade(upstream), upstream.id);
                let seen = SeenMembers { upstream, id, version, members: Rc::clone(&members) };
                upstreams[index] = Some(seen);
                members
            }
        }
    }

    /// Forgets upstreams that are gone.
    pub fn sweep(&self) {
        for seen in &mut *self.upstreams.borrow_mut() {
            seen.take_if(|seen| seen.upstream.strong_count() == 0);
        }
    }
}

/// The most endpoints that a request is kept from at a time: that it has tried, and whose half-open breakers have rejected it.
pub(crate) const MOST_EXCLUDED: usize = 14;

/// A worker's own count around the one that all workers share, so that no request touches that.
pub type CurrentMembers = Rc<KnownUpstream>;

impl KnownUpstream {
    fn of(upstream: &Upstream) -> KnownUpstream {
        let members = upstream.members();
        let titan_config::Upstream { panic_below, slow_start, ejection, .. } = &upstream.config;
        let now = since_start(Instant::now());
        let rises = members.endpoints.iter().any(|it| it.health.is_rising(now, *slow_start));
        let rests = |it: &Arc<Endpoint>| upstream.rests_until(it, now);
        let takes = |it: &Arc<Endpoint>| rests(it).is_none();
        let panics = members.supply(*panic_below, takes).panics;
        KnownUpstream {
            selection: members.selection(panics, takes),
            panics,
            reopens: members.endpoints.iter().filter_map(rests).min(),
            breaking: upstream.breaking.clone(),
            slow_start: rises.then_some(*slow_start),
            failures: ejection.as_ref().map(|ejection| ejection.statuses.clone()),
            concurrency: upstream.concurrency.clone(),
            members,
        }
    }

    /// How many requests may run there; `None` for as many as there are.
    pub fn concurrency(&self) -> Option<&Arc<Concurrency>> {
        self.concurrency.as_ref()
    }

    /// The endpoints, by their places.
    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.members.endpoints
    }

    /// What of a request the choice depends on, for the policies that want the same endpoint again.
    pub fn key(&self, source: &KeySource<'_>) -> Option<u64> {
        self.members.groups.key(source)
    }

    /// The place of the endpoint to take; `None` when each is excluded, or none may be taken.
    pub fn choose(&self, draw: &PickContext<'_>) -> Option<usize> {
        let chosen = self.members.groups.choose(&self.selection, draw)?;
        match self.slow_start {
            Some(slow_start) if !self.takes(chosen, slow_start, draw) => {
                Some(self.other_than(chosen, draw))
            }
            _ => Some(chosen),
        }
    }

    /// Whether an endpoint that takes more and more requests takes that one. A request with a key goes to the same endpoint each
    /// time, and changes once.
    fn takes(&self, chosen: usize, slow_start: Duration, draw: &PickContext<'_>) -> bool {
        let drawn = mix(draw.key.unwrap_or(draw.random));
        self.members.endpoints[chosen].health.takes(drawn, draw.now, slow_start)
            || self.members.groups.tied(draw) == Some(chosen)
    }

    /// Another endpoint, if there is one.
    fn other_than(&self, chosen: usize, draw: &PickContext<'_>) -> usize {
        let mut excluded = [chosen; MOST_EXCLUDED + 1];
        let others = draw.excluded.len().min(MOST_EXCLUDED);
        excluded[..others].copy_from_slice(&draw.excluded[..others]);
        let (excluded, random) = (&excluded[..=others], mix(draw.random));
        let draw = PickContext { excluded, random, ..*draw };
        self.members.groups.choose(&self.selection, &draw).unwrap_or(chosen)
    }

    /// What keeps requests from them while they fail.
    pub(crate) fn breaking(&self) -> Option<&Breaking> {
        self.breaking.as_deref()
    }

    /// The endpoints that take requests as far as their health goes, those that fail among them where too few do not.
    pub(crate) fn usable(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        let usable = |(place, it): &(&ResolvedEndpoint, &Arc<Endpoint>)| {
            it.health.standing(place.placement.drains(), self.panics) != Standing::Closed
        };
        self.members.placed().filter(usable).map(|(_, endpoint)| endpoint)
    }

    /// Whether the endpoints at these places are of the same group.
    pub(crate) fn are_together(&self, one: usize, other: usize) -> bool {
        let rank = |place: usize| self.members.places.get(place).map(|it| it.placement.rank);
        rank(one) == rank(other)
    }

    /// Whether an endpoint takes requests that is not among those at the places given.
    pub(crate) fn has_other(&self, tried: &[usize]) -> bool {
        let mut others = (0..self.members.endpoints.len()).filter(|place| !tried.contains(place));
        others.any(|place| self.selection.is_open(place))
    }

    /// When the first of those endpoints may be chosen again whose breaker is open.
    pub(crate) fn reopens(&self) -> Option<Duration> {
        self.reopens
    }

    /// Whether other endpoints may be chosen by now.
    fn is_over(&self, at: Instant) -> bool {
        self.reopens.is_some_and(|reopens| since_start(at) >= reopens)
    }

    /// Whether a response with that status counts as a failure; `None` where nothing is counted.
    pub fn is_failure(&self, status: Status) -> Option<bool> {
        self.failures.as_ref().map(|failures| failures.contains(status))
    }

    /// Writes the cookie that ties a client to the endpoint at `chosen`, where one is due.
    pub fn set_cookie(&self, key: Option<u64>, chosen: usize, out: &mut Vec<u8>) -> bool {
        self.members.groups.set_cookie(key, chosen, out)
    }
}

impl Upstream {
    /// The upstream of a configuration: the one that `registry` has, where nothing of it has changed. Else it is
    /// a new one, with those endpoints that are as they were, and the addresses that names were last known to have.
    /// So many workers use it.
    pub fn of(
        config: &titan_config::Upstream,
        resolver: &Resolver,
        tls: Option<ClientTls>,
        (registry, workers): (&Registry, usize),
    ) -> Arc<Upstream> {
        let config = config.without_locations();
        let key = UpstreamKey { config: config.clone(), resolver: resolver.clone(), workers };
        registry.shared(key, || Upstream::new(config, tls, (registry, workers)))
    }

    fn new(
        config: titan_config::Upstream,
        tls: Option<ClientTls>,
        (registry, workers): (&Registry, usize),
    ) -> Upstream {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = || UpstreamName(config.name.clone());
        let tls = tls.zip(config.tls.clone()).map(|(tls, section)| {
            let key = TlsKey { upstream: name(), tls: section, protocol: config.protocol };
            registry.shared(key, || tls)
        });
        let counted = Counted::of(registry, config.name.as_str(), workers);
        let budget = || RetryBudget::new(&config.retry_budget, requests(&counted), Instant::now());
        let budget_key = BudgetKey(config.name.clone(), workers);
        let none = Members::new(&config, registry, Vec::new(), Vec::new());
        let signals = Signals::of(registry, &config.name);
        let upstream = Upstream {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            tls,
            registry: registry.clone(),
            members: ArcSwap::from_pointee(none),
            signals: signals.clone(),
            in_force: registry.shared(name(), Mutex::default),
            is_followed: AtomicBool::new(false),
            feeds: Mutex::default(),
            life: watch::channel(()).0,
            failure_log: registry.shared(name(), FailureLog::default),
            breaking: config
                .circuit_breaker
                .as_ref()
                .map(|breaker| Arc::new(Breaking::new(&config.name, breaker, registry, signals))),
            log: Log::of(registry),
            retry_budget: registry.shared(budget_key, budget),
            hedging: (config.hedge.as_ref()).map(|hedge| Hedging::of(registry, name(), hedge)),
            concurrency: (config.concurrency.as_ref())
                .map(|section| Concurrency::of(registry, name(), section)),
            counted,
            config,
        };
        let places = upstream.in_force().places_of(&upstream.config);
        upstream.set_places(places);
        upstream
    }

    /// What the configuration says of it.
    pub fn config(&self) -> &titan_config::Upstream {
        &self.config
    }

    /// How TLS is spoken with its endpoints.
    pub fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_deref()
    }

    /// How many of its endpoints can take requests, and whether these are too few.
    pub(crate) fn supply(&self, now: Duration) -> Supply {
        let takes = |it: &Arc<Endpoint>| self.rests_until(it, now).is_none();
        self.members.load().supply(self.config.panic_below, takes)
    }

    /// Until when the breaker of an endpoint keeps it from getting requests.
    pub(crate) fn rests_until(&self, endpoint: &Endpoint, now: Duration) -> Option<Duration> {
        self.breaking.as_ref()?.rests_until(endpoint, now)
    }

    /// Its breakers, where it has any.
    pub(crate) fn breaking(&self) -> Option<&Breaking> {
        self.breaking.as_deref()
    }

    /// The same, shared with its endpoints.
    pub(crate) fn shared_tls(&self) -> Option<&Arc<ClientTls>> {
        self.tls.as_ref()
    }

    /// Its endpoints now.
    pub fn members(&self) -> Arc<Members> {
        self.members.load_full()
    }

    /// Applies its configuration to its endpoints. Those that the upstream of that name had before are held to its
    /// limits until then.
    pub fn take_effect(&self) {
        let mut in_force = self.in_force();
        let members = self.members();
        let places = members.places.clone();
        let before = std::mem::replace(&mut *in_force, InForce { upstream: Some(self.id), places });
        members.rise_beside(&before.places);
        members.endpoints.iter().for_each(|endpoint| endpoint.set_limits(&self.config));
        self.retry_budget.set(&self.config.retry_budget);
        self.hedging.iter().for_each(Hedging::take_effect);
        self.concurrency.iter().for_each(Concurrency::take_effect);
    }

    /// Whether a failed attempt may be repeated now, as far as its budget goes: then it has paid for that.
    pub fn withdraw_retry(&self) -> bool {
        self.retry_budget.withdraw(requests(&self.counted), Instant::now())
    }

    /// What is left of its budget for retries.
    pub fn retry_budget_status(&self) -> RetryBudgetStatus {
        self.retry_budget.status(requests(&self.counted), Instant::now())
    }

    /// Whether no task keeps its members up to date yet: from now on the caller does.
    pub fn begin_to_follow(&self) -> bool {
        !self.is_followed.swap(true, Ordering::Relaxed)
    }

    /// Closed when the upstream is gone.
    pub fn life(&self) -> watch::Receiver<()> {
        self.life.subscribe()
    }

    /// Replaces its endpoints by `places`. Those that it had before keep their connections and loads; where all are as
    /// they were, nothing is replaced.
    pub fn set_places(&self, mut places: Vec<ResolvedEndpoint>) {
        without_doubles(&mut places);
        if self.members.load().places == places {
            return;
        }
        // Before the lock: a table over many endpoints takes its time.
        let endpoints: Vec<_> = places.iter().map(|place| self.endpoint_at(place)).collect();
        let members = Members::new(&self.config, &self.registry, places, endpoints);
        let mut in_force = self.in_force();
        let before = self.members.load_full();
        for endpoint in without(&members.endpoints, &before.endpoints) {
            endpoint.join();
        }
        for endpoint in without(&before.endpoints, &members.endpoints) {
            endpoint.leave();
        }
        if in_force.upstream == Some(self.id) {
            members.endpoints.iter().for_each(|endpoint| endpoint.set_limits(&self.config));
            in_force.places.clone_from(&members.places);
            members.rise_beside(&before.places);
        }
        self.members.store(Arc::new(members));
        self.signals.change();
        // What is kept of those that come back has to hold.
        self.signals.ring();
    }

    /// The address alone does not tell which endpoint it is: when two names swap theirs, each needs connections
    /// that were opened under its own.
    fn endpoint_at(&self, place: &ResolvedEndpoint) -> Arc<Endpoint> {
        let Upstream { config, tls, failure_log, signals, .. } = self;
        let new = || Endpoint::new(place, config, tls.as_ref(), failure_log, signals.clone());
        let key = EndpointKey {
            upstream: UpstreamName(config.name.clone()),
            address: place.address.clone(),
            host: place.host.clone(),
            tls: config.tls.clone(),
            protocol: config.protocol,
        };
        self.registry.shared(key, new)
    }

    fn in_force(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.members.load().endpoints.iter().for_each(|endpoint| endpoint.leave());
    }
}

impl InForce {
    /// Where the endpoints of a configuration are, as far as that is known.
    fn places_of(&self, config: &titan_config::Upstream) -> Vec<ResolvedEndpoint> {
        let places = config.endpoints.iter().flat_map(|endpoint| {
            let fixed = ResolvedEndpoint::fixed(endpoint);
            fixed.map_or_else(|| self.found_for(endpoint), |fixed| vec![fixed])
        });
        places.collect()
    }

    /// What the name of an endpoint stood for last.
    fn found_for(&self, endpoint: &titan_config::Endpoint) -> Vec<ResolvedEndpoint> {
        let (source, fresh) = (endpoint.address.to_string(), Placement::of(endpoint));
        let found = self.places.iter().filter(|place| *place.source == *source);
        let placed = found.map(|place| {
            let placement = place.record.map_or(fresh, |record| fresh.of_record(record));
            ResolvedEndpoint { placement, ..place.clone() }
        });
        placed.collect()
    }
}

/// Of `endpoints` those that are not among the others.
fn without<'e>(
    endpoints: &'e [Arc<Endpoint>],
    others: &[Arc<Endpoint>],
) -> impl Iterator<Item = &'e Arc<Endpoint>> {
    let others: HashSet<u64> = others.iter().map(|endpoint| endpoint.id).collect();
    endpoints.iter().filter(move |endpoint| !others.contains(&endpoint.id))
}

/// Two names may stand for one address: it is one endpoint, or its limits would count twice.
fn without_doubles(places: &mut Vec<ResolvedEndpoint>) {
    let mut seen = HashSet::new();
    places.retain(|place| seen.insert(place.address.clone()));
}

/// The requests for an upstream, over all workers.
fn requests(counted: &Counted<UpstreamCells>) -> u64 {
    counted.sum(|cells| cells.requests.get())
}

impl Members {
    /// `endpoints` are those of `places`.
    fn new(
        config: &titan_config::Upstream,
        registry: &Registry,
        places: Vec<ResolvedEndpoint>,
        endpoints: Vec<Arc<Endpoint>>,
    ) -> Members {
        let loads = endpoints.iter().map(|endpoint| &endpoint.load);
        let placements = places.iter().map(|place| place.placement);
        let key = |rank| TurnKey(config.name.clone(), rank);
        let turn = |rank| -> Turn { registry.shared(key(rank), AtomicU64::default) };
        let settings = (&config.balance, config.spill_below);
        let groups = Groups::new(settings, loads.zip(placements), turn);
        Members { places, endpoints, groups }
    }

    /// Has those take more and more requests that are new beside others, before they get the first.
    fn rise_beside(&self, before: &[ResolvedEndpoint]) {
        let known: HashSet<&Address> = before.iter().map(|place| &place.address).collect();
        let new = self.endpoints.iter().filter(|endpoint| !known.contains(&endpoint.address));
        if !known.is_empty() {
            let now = since_start(Instant::now());
            new.for_each(|endpoint| endpoint.health.rise(now));
        }
    }

    /// Each of them with its place.
    fn placed(&self) -> impl Iterator<Item = (&ResolvedEndpoint, &Arc<Endpoint>)> {
        self.places.iter().zip(&self.endpoints)
    }

    /// Which of them may be chosen, if `takes` tells of whom the breaker is not open.
    fn selection(&self, panics: bool, takes: impl Fn(&Arc<Endpoint>) -> bool) -> Selection {
        let standing =
            |(place, endpoint): (&ResolvedEndpoint, &Arc<Endpoint>)| match takes(endpoint) {
                true => endpoint.health.standing(place.placement.drains(), panics),
                false => Standing::Closed,
            };
        let standings = self.placed().map(standing).collect();
        self.groups.select(standings, |place| self.is_usable(place, &takes))
    }

    /// Whether the one at that place can take requests, if `takes` tells of whom the breaker is not open; `None` where it is not
    /// there for them.
    fn is_usable(&self, place: usize, takes: impl Fn(&Arc<Endpoint>) -> bool) -> Option<bool> {
        let (endpoint, placement) = (&self.endpoints[place], self.places[place].placement);
        let is_counted = endpoint.health.is_counted(placement.drains());
        is_counted.then(|| !endpoint.health.fails() && takes(endpoint))
    }

    /// How many of them can take requests, if `takes` tells of whom the breaker is not open, and whether these are too few. There
    /// is no panic where it would open nobody: an open breaker keeps its word.
    fn supply(&self, panic_below: Percent, takes: impl Fn(&Arc<Endpoint>) -> bool) -> Supply {
        let is_usable = |place: usize| self.is_usable(place, &takes);
        let counted = || (0..self.endpoints.len()).filter_map(is_usable);
        let (usable, all) = (counted().filter(|it| *it).count(), counted().count());
        let least = u64::from(panic_below.as_hundredths());
        let opens = |place| is_usable(place) == Some(false) && takes(&self.endpoints[place]);
        let opens_one = (0..self.endpoints.len()).any(opens);
        let panics = opens_one && self.groups.usable_share(is_usable) < least;
        Supply { usable, all, panics }
    }

    /// What was found for an address of the configuration.
    pub(crate) fn found_for(&self, source: &str) -> Vec<ResolvedEndpoint> {
        self.places.iter().filter(|place| *place.source == *source).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
