//! Rate limits: which requests are counted together, and what responses say about them.
//!
//! The fields of responses are those of draft-ietf-httpapi-ratelimit-headers: `RateLimit-Policy` says what the limits
//! are, `RateLimit` how much is left of them.

pub(crate) mod cells;
mod delay;
mod exempt;
mod key;
pub(crate) mod keyed;
mod lease;
pub(crate) mod limiter;
mod plans;
mod shared;
mod sync;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use crate::context::{PolicyContext, Step};
use crate::policy::{Metric, OwnState, Policy, Response, Setting};
use crate::story::Story;
use cells::RateLimitCells;
pub(crate) use delay::Waiting;
use delay::{Turn, WaitPermit};
use exempt::is_exempt;
use key::{Part, words};
pub(crate) use key::{mask_of, write_all, write_client};
use keyed::{Allowance, KeyedLimiter};
use limiter::{CellRate, Charge, Count, MAX_RATES, Outcome, Verdict};
use plans::Plans;
use shared::{SharedLimit, Taken, TimedLeases};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use table::WriterId;
use titan_config::{Exempt, PolicyKind, Rate, SharedMode, WithoutStore};
use titan_http::{BadField, FieldName, Fields, ResponseHead};
use titan_io::error::{Error, Kind};
use titan_io::network::ClientNetwork;
use titan_io::refusals;
use titan_store::Unavailable;
use titan_store::store::Store;
use titan_store::stores::Stores;

refusals! {
    /// A rate limit is used up.
    RATE_LIMITED Gateway TOO_MANY_REQUESTS "rate-limited" "Too many requests.";
    /// As many requests run as a limit allows.
    CONCURRENCY_LIMITED Gateway TOO_MANY_REQUESTS "concurrency-limited" "Too many requests are running at once.";
    /// The store does not respond in which a limit is counted.
    STORE_UNAVAILABLE Gateway SERVICE_UNAVAILABLE "store-unavailable" "Requests cannot be counted at the moment.";
}

/// A policy, with the numbers that all workers count in.
pub(crate) struct RateLimit {
    limiter: Arc<KeyedLimiter>,
    key: Vec<Part>,
    /// The bits of an IPv6 address that tell clients apart.
    mask: u128,
    exempt: Option<Exempt>,
    /// How many nanoseconds a request waits for its turn.
    max_delay: u64,
    is_shadow: bool,
    /// As how many requests one of a route counts, by the index of the route, in that order; the others count as one.
    costs: Box<[(usize, u64)]>,
    plans: Plans,
    /// How many may run at once.
    concurrency: Option<NonZeroU32>,
    /// What its keys are, in words.
    words: Box<str>,
    /// The requests that wait for this and all other limits.
    waiting: Arc<Waiting>,
    /// How it is counted with other gateways; `None` where it is not.
    shared: Option<Arc<SharedLimit>>,
}

/// What the policies have in common that limit rates.
#[derive(Default)]
pub(crate) struct SharedByLimits {
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) stores: Stores,
}

/// What the response to a request says of its limits.
#[derive(Default)]
pub(crate) struct RateLimitState {
    /// The place of the plan that it has.
    plan: usize,
    counts: Option<[Count; MAX_RATES]>,
    /// In seconds.
    retry_after: Option<u64>,
    _running: Option<Running>,
}

/// What is noted for the response, and whether the request waits, or why it is refused.
type Judged = (RateLimitState, Result<Option<Turn>, Error>);

/// A request that counts as running until this is dropped.
struct Running {
    limiter: Arc<KeyedLimiter>,
    place: usize,
}

/// What makes permits good that were taken ahead: that they are of the same limit with the same rates, in the same store.
#[derive(PartialEq, Eq, Hash)]
struct LeasesKey {
    limit: LimitKey,
    /// Where it is in memory: the leases keep it there.
    store: usize,
    rates: Vec<Vec<(u64, u64)>>,
}

/// What makes a limit count on: that it has the same name, and counts the same things. How much it allows may change.
#[derive(Clone, PartialEq, Eq)]
struct LimitKey {
    kind: PolicyKind,
    name: String,
    limit: titan_config::RateLimit,
}

const RATE_LIMIT: &[u8] = b"RateLimit";
const RATE_LIMIT_POLICY: &[u8] = b"RateLimit-Policy";
/// The seconds after which to try again if that cannot be computed.
const SOON: u64 = 1;
/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

impl Policy for RateLimit {
    type Config = titan_config::RateLimit;
    type Credentials = ();
    type State = RateLimitState;
    type Shared = Arc<SharedByLimits>;
    type PerWorker = ();
    type Cells = RateLimitCells;

    const REFUSALS: &'static [Kind] = REFUSALS;
    const METRICS: &'static [Metric<RateLimitCells>] = cells::METRICS;

    fn new(limit: &titan_config::RateLimit, (): (), setting: &Setting<'_, RateLimit>) -> RateLimit {
        RateLimit::of(limit, (PolicyKind::RateLimit, setting.name), setting)
    }

    fn replace(&self, (): ()) {
        self.limiter.take_effect();
    }

    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, RateLimit>,
    ) -> Result<Step, Error> {
        self.let_pass(context, own.state, own.cells).await
    }

    fn on_response(
        &self,
        response: &mut Response<'_>,
        own: OwnState<'_, RateLimit>,
    ) -> Result<(), BadField> {
        self.add_limit_fields(own.state, response.head)
    }

    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        _own: OwnState<'_, RateLimit>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        story.tell(self.decision(context, story));
        Ok(Step::Go)
    }
}

impl RateLimit {
    /// The policy of that kind with that name. Its requests wait among all that do.
    pub(crate) fn of<P: Policy<Shared = Arc<SharedByLimits>>>(
        limit: &titan_config::RateLimit,
        (kind, name): (PolicyKind, &str),
        setting: &Setting<'_, P>,
    ) -> RateLimit {
        let Setting { name: _, config, shared: common, registry } = *setting;
        let titan_config::RateLimit {
            key,
            ipv6_prefix,
            rates: _,
            plans: _,
            concurrency,
            costs,
            exempt,
            max_delay,
            shadow,
            capacity,
            shared,
        } = limit;
        let plans = Plans::new(name, limit);
        let allowance = Allowance {
            plans: plans.rates(),
            concurrency: concurrency.map(|most| most.get().into()),
            capacity: capacity.get().try_into().unwrap_or(usize::MAX),
            most_owed: |rate| rate.tolerance,
        };
        let identity = LimitKey::new(kind, name, limit);
        let limiter = KeyedLimiter::shared(registry, identity.clone(), allowance);
        let leases = |store: &Arc<Store>| {
            let of = |rate: &CellRate| (rate.interval, rate.tolerance);
            let rates = plans.rates().iter().map(|rates| rates.iter().map(of).collect()).collect();
            let key = LeasesKey { limit: identity, store: Arc::as_ptr(store).addr(), rates };
            registry.shared(key, || {
                let capacity = capacity.get().try_into().unwrap_or(usize::MAX);
                TimedLeases::new(&plans, capacity, Arc::clone(store))
            })
        };
        let shared = shared.as_ref().and_then(|shared| {
            let titan_config::SharedLimit { store: store_name, mode, without_store } = shared;
            let store = common.stores.named(store_name.as_str())?;
            let leases = (*mode == SharedMode::Lease).then(|| leases(store));
            let most = max_delay.map_or(0, nanoseconds);
            let kept = (store, leases);
            Some(Arc::new(SharedLimit::new(*without_store, kept, name, &plans, most)))
        });
        let named: HashMap<_, _> =
            costs.iter().map(|cost| (&cost.route, u64::from(cost.cost.get()))).collect();
        let routes = config.routes.iter().enumerate().filter(|_| !named.is_empty());
        let costs = routes.filter_map(|(place, route)| Some((place, *named.get(&route.name)?)));
        RateLimit {
            key: key.iter().map(|part| Part::new(part, config)).collect(),
            shared,
            limiter,
            mask: mask_of(*ipv6_prefix),
            exempt: exempt.clone(),
            max_delay: max_delay.map_or(0, nanoseconds),
            is_shadow: *shadow,
            costs: costs.collect(),
            plans,
            concurrency: *concurrency,
            words: words(&limit.key).into(),
            waiting: Arc::clone(&common.waiting),
        }
    }

    /// What may pass of the requests like that one, in words.
    pub(crate) fn decision(&self, context: &PolicyContext<'_>, story: &Story<'_>) -> String {
        let (client, findings) = (story.client(context), &*context.findings);
        let exempt = self.exempt.as_ref();
        if let Some(why) = exempt.and_then(|it| exempt::explain(it, client, findings)) {
            return why.to_owned();
        }
        let (claims, route) = (findings.claims(), context.found.route);
        let cost = match self.cost(route) {
            1 => String::new(),
            cost => format!(", and each request to this route counts {cost} times"),
        };
        let client = client.filter(|_| self.key.iter().any(|it| matches!(it, Part::Client)));
        let client = match client {
            None => String::new(),
            Some(IpAddr::V4(address)) => format!("; this one counts as {address}"),
            Some(IpAddr::V6(address)) => {
                let network = Ipv6Addr::from_bits(address.to_bits() & self.mask);
                format!("; this one counts as {network}/{}", self.mask.count_ones())
            }
        };
        let (rates, plan) = self.plans.words(self.plans.of(claims));
        let running = self.concurrency.map(|most| format!("{most} at once"));
        let most = rates.chain(running).collect::<Vec<_>>().join(", ");
        let plan = plan.map_or(String::new(), |plan| format!(", by the plan {plan}"));
        let delay = Duration::from_nanos(self.max_delay);
        let delay = if delay.is_zero() {
            String::new()
        } else {
            format!(", and requests over the limit wait for up to {delay:?}")
        };
        let watched = if self.is_shadow { " (shadow mode)" } else { "" };
        let shared = self.shared.as_ref().map_or(String::new(), |it| it.words());
        format!("{} at most {most}{plan}{shared}{delay}{watched}{cost}{client}", self.words)
    }

    /// Lets a request pass, when its turn has come, or refuses it.
    pub(crate) async fn let_pass(
        &self,
        context: &PolicyContext<'_>,
        state: &mut RateLimitState,
        cells: &RateLimitCells,
    ) -> Result<Step, Error> {
        let (noted, decided) = if self.passes_uncounted(context, cells) {
            (RateLimitState::default(), Ok(None))
        } else {
            let plan = self.plans.of(context.findings.claims());
            match &self.shared {
                None => self.judge(plan, context, cells),
                Some(shared) => match self.take_leased(shared, (plan, false), context) {
                    Some(outcome) => self.conclude(plan, (outcome, None), cells),
                    // Apart, so that requests that need no call have no room for it.
                    None => Box::pin(self.judge_shared(shared, plan, context, cells)).await,
                },
            }
        };
        *state = noted;
        if let Some(turn) = decided? {
            Box::pin(turn.comes()).await;
        }
        Ok(Step::Go)
    }

    /// Decides about a request, which may have to wait for its turn. The state is for the response, whatever is decided.
    fn judge(&self, plan: usize, context: &PolicyContext<'_>, cells: &RateLimitCells) -> Judged {
        self.conclude(plan, self.take(plan, context, 1), cells)
    }

    /// The same, by what is counted in the store.
    async fn judge_shared(
        &self,
        shared: &Arc<SharedLimit>,
        plan: usize,
        context: &PolicyContext<'_>,
        cells: &RateLimitCells,
    ) -> Judged {
        match self.take_shared(shared, plan, context).await {
            Ok(taken) => self.conclude(plan, taken, cells),
            Err(_) => self.judge_without_store(shared, plan, context, cells),
        }
    }

    fn judge_without_store(
        &self,
        shared: &SharedLimit,
        plan: usize,
        context: &PolicyContext<'_>,
        cells: &RateLimitCells,
    ) -> Judged {
        match shared.without_store() {
            WithoutStore::Local => {
                let taken = self.take(plan, context, shared.gateways());
                self.conclude(plan, taken, cells)
            }
            WithoutStore::Deny if !self.is_shadow => {
                cells.unavailable.add(1);
                let note = RateLimitState { retry_after: Some(SOON), ..RateLimitState::default() };
                (note, Err(STORE_UNAVAILABLE.into()))
            }
            WithoutStore::Allow | WithoutStore::Deny => {
                cells.unchecked.add(1);
                (RateLimitState::default(), Ok(None))
            }
        }
    }

    fn passes_uncounted(&self, context: &PolicyContext<'_>, cells: &RateLimitCells) -> bool {
        let is_exempt = self.exempt.as_ref().is_some_and(|exempt| is_exempt(exempt, context));
        cells.exempt.add(u64::from(is_exempt));
        is_exempt
    }

    /// What becomes of a request that has been charged, or was not.
    fn conclude(
        &self,
        plan: usize,
        (Outcome { verdict, counts }, place): Taken,
        cells: &RateLimitCells,
    ) -> Judged {
        let (kind, wait) = match verdict {
            Verdict::Passed { place: entry, delay } => {
                let turn = place.filter(|_| delay > 0).map(|place| place.turn_in(delay));
                if turn.is_some() { &cells.delayed } else { &cells.allowed }.add(1);
                let running = self.limiter.limits_concurrency();
                let running =
                    running.then(|| Running { limiter: Arc::clone(&self.limiter), place: entry });
                let counts = (!self.is_shadow).then_some(counts);
                return (
                    RateLimitState { plan, counts, retry_after: None, _running: running },
                    Ok(turn),
                );
            }
            Verdict::Exceeded { wait } => (RATE_LIMITED, seconds(wait)),
            Verdict::Busy => (CONCURRENCY_LIMITED, SOON),
            Verdict::Full { wait } => (RATE_LIMITED, seconds(wait)),
        };
        if self.is_shadow {
            cells.shadowed.add(1);
            return (RateLimitState::default(), Ok(None));
        }
        let is_full = matches!(verdict, Verdict::Full { .. });
        if is_full { &cells.full } else { &cells.limited }.add(1);
        let note =
            RateLimitState { plan, counts: Some(counts), retry_after: Some(wait), _running: None };
        (note, Err(kind.into()))
    }

    /// Charges a request; if it exceeds a rate, it waits for its turn if there is a place for it. One of `share` gateways lets its
    /// part of the limit pass.
    fn take(&self, plan: usize, context: &PolicyContext<'_>, share: u64) -> Taken {
        let hash = self.hash(context, plan);
        let charge = Charge { share, ..self.charge(plan, context) };
        let writer = WriterId::new(context.worker);
        let take = |charge| self.limiter.take(hash, charge, writer);
        let outcome = take(charge);
        match self.place_for(&outcome, context) {
            Some(place) => (take(Charge { max_delay: self.max_delay, ..charge }), Some(place)),
            None => (outcome, None),
        }
    }

    /// The same by permits that were taken from the store ahead, where there are some. A request that may wait asks the store for
    /// its turn.
    fn take_leased(
        &self,
        shared: &Arc<SharedLimit>,
        (plan, is_again): (usize, bool),
        context: &PolicyContext<'_>,
    ) -> Option<Outcome> {
        if !shared.is_leased() {
            return None;
        }
        let (hash, charge) = (self.hash(context, plan), self.charge(plan, context));
        let name = || self.store_key(shared, plan, context);
        let outcome = shared.serve((hash, is_again), charge, context.worker, name)?;
        (!self.may_wait(&outcome)).then_some(outcome)
    }

    /// The same in the store.
    async fn take_shared(
        &self,
        shared: &Arc<SharedLimit>,
        plan: usize,
        context: &PolicyContext<'_>,
    ) -> Result<Taken, Unavailable> {
        let key = self.store_key(shared, plan, context);
        let charge = self.charge(plan, context);
        let outcome = shared.take(&key, charge, context.worker).await?;
        if shared.is_leased() && matches!(outcome.verdict, Verdict::Exceeded { .. }) {
            let hash = self.hash(context, plan);
            shared.note_refused(hash, &outcome, context.worker);
            // What is left there may have been taken for this gateway meanwhile.
            if let Some(outcome) = self.take_leased(shared, (plan, true), context) {
                return Ok((outcome, None));
            }
        }
        let Some(place) = self.place_for(&outcome, context) else { return Ok((outcome, None)) };
        let charge = Charge { max_delay: self.max_delay, ..charge };
        Ok((shared.take(&key, charge, context.worker).await?, Some(place)))
    }

    /// What the store calls what a request is counted by.
    fn store_key(&self, shared: &SharedLimit, plan: usize, context: &PolicyContext<'_>) -> String {
        let mut hasher = shared.hasher();
        self.write_key(context, &mut hasher);
        shared.key(plan, hasher)
    }

    /// As how many requests one of that route counts.
    fn cost(&self, route: usize) -> u64 {
        let found = self.costs.binary_search_by_key(&route, |(place, _)| *place);
        found.map_or(1, |place| self.costs[place].1)
    }

    /// What a request that does not wait takes.
    fn charge(&self, plan: usize, context: &PolicyContext<'_>) -> Charge {
        Charge { cost: self.cost(context.found.route), plan, ..Charge::ONE }
    }

    /// A place to wait at for a request that may wait, if there is one.
    fn place_for(&self, outcome: &Outcome, context: &PolicyContext<'_>) -> Option<WaitPermit> {
        let client = || context.client().map(ClientNetwork::of);
        self.may_wait(outcome).then(|| self.waiting.enter(client())).flatten()
    }

    fn may_wait(&self, outcome: &Outcome) -> bool {
        match outcome.verdict {
            Verdict::Exceeded { wait } => wait <= self.max_delay && !self.is_shadow,
            _ => false,
        }
    }

    /// Writes into a response what is left of the limit.
    pub(crate) fn add_limit_fields(
        &self,
        note: &RateLimitState,
        head: &mut ResponseHead,
    ) -> Result<(), BadField> {
        let fields = &mut head.fields;
        if let Some(wait) = note.retry_after {
            write_retry_after(fields, wait)?;
        }
        let Some(counts) = &note.counts else { return Ok(()) };
        self.plans.write_fields(note.plan, counts, fields)
    }

    /// What the request is counted by.
    fn hash(&self, context: &PolicyContext<'_>, plan: usize) -> u64 {
        let mut hasher = self.limiter.hasher();
        // A debt at a slow rate would block a client that has changed to a fast one.
        hasher.write_usize(plan);
        self.write_key(context, &mut hasher);
        hasher.finish()
    }

    /// What it is counted by, for any hash.
    fn write_key(&self, context: &PolicyContext<'_>, hasher: &mut impl Hasher) {
        self.key.iter().for_each(|part| part.write(context, self.mask, hasher));
    }
}

impl CellRate {
    pub(crate) fn of(rate: &Rate) -> CellRate {
        let interval = rate.interval();
        CellRate { interval, tolerance: interval * u64::from(rate.burst.get()) }
    }
}

impl LimitKey {
    /// Of a limit that asks for something else only in these: how much it allows, as how many requests one counts, which are
    /// exempt, how long they wait, whether it refuses any, and who counts with it.
    fn new(kind: PolicyKind, name: &str, limit: &titan_config::RateLimit) -> LimitKey {
        let mut plans = limit.plans.clone();
        let named = plans.iter_mut().flat_map(|plans| &mut plans.plans);
        named.for_each(|plan| plan.rates.clear());
        let limit = titan_config::RateLimit {
            rates: Vec::new(),
            plans,
            concurrency: None,
            costs: Vec::new(),
            exempt: None,
            max_delay: None,
            shadow: false,
            shared: None,
            ..limit.clone()
        };
        LimitKey { kind, name: name.to_owned(), limit }
    }
}

impl Hash for LimitKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.limiter.give_back(self.place);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn write_retry_after(fields: &mut Fields, seconds: u64) -> Result<(), BadField> {
    let mut text = [0; 20];
    fields.set(FieldName::RetryAfter, written(&mut text, |out| write!(out, "{seconds}")))
}

/// Rounded up: a client that waits that long has waited long enough.
pub(crate) fn seconds(nanoseconds: u64) -> u64 {
    nanoseconds.div_ceil(SECOND)
}

/// What is written into a text that has room for it.
fn written(text: &mut [u8], write: impl FnOnce(&mut &mut [u8]) -> std::io::Result<()>) -> &[u8] {
    let mut rest = &mut *text;
    write(&mut rest).expect("there is room for the longest");
    let left = rest.len();
    &text[..text.len() - left]
}
