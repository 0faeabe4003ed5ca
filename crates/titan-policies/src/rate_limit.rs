//! Rate limits: which requests are counted together, and what responses say about them.
//!
//! The fields of responses are those of draft-ietf-httpapi-ratelimit-headers: `RateLimit-Policy` says what the limits
//! are, `RateLimit` how much is left of them.

pub(crate) mod cells;
mod delay;
mod exempt;
pub(crate) mod keyed;
pub(crate) mod limiter;
mod plans;
mod sync;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use super::jwt::find;
use crate::context::{PolicyContext, Step};
use crate::policy::{Metric, OwnState, Policy, Response, Setting};
use crate::story::Story;
use cells::RateLimitCells;
pub(crate) use delay::Waiting;
use delay::{Turn, WaitPermit};
use exempt::is_exempt;
use keyed::{Allowance, KeyedLimiter};
use limiter::{CellRate, Charge, Count, MAX_RATES, Outcome, Verdict};
use plans::Plans;
use serde_json::Value;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use table::WriterId;
use titan_config::{Claim, Config, Exempt, PolicyKind, Rate, RateKey, Route};
use titan_http::cookie;
use titan_http::query::{self, decode};
use titan_http::{BadField, FieldName, Fields, ResponseHead};
use titan_io::error::{Error, Kind};
use titan_io::network::ClientNetwork;
use titan_io::refusals;

refusals! {
    /// A rate limit is used up.
    RATE_LIMITED Gateway TOO_MANY_REQUESTS "rate-limited" "Too many requests.";
    /// As many requests run as a limit allows.
    CONCURRENCY_LIMITED Gateway TOO_MANY_REQUESTS "concurrency-limited" "Too many requests are running at once.";
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
    /// As how many requests one of a route counts, by the index of the route.
    costs: Box<[u64]>,
    plans: Plans,
    /// How many may run at once.
    concurrency: Option<NonZeroU32>,
    /// What its keys are, in words.
    words: Box<str>,
    /// The requests that wait for this and all other limits.
    waiting: Arc<Waiting>,
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

/// What requests have in common that are counted together.
enum Part {
    Client,
    /// By the index of the route, the hash of its name: it counts on wherever it stands.
    Route(Box<[u64]>),
    ApiKey,
    Header(Box<[u8]>),
    Cookie(Box<str>),
    Query(Box<str>),
    Claim(Claim),
    /// By the index of the route, the place among what its path captures.
    Param(Box<[Option<usize>]>),
}

/// A request that counts as running until this is dropped.
struct Running {
    limiter: Arc<KeyedLimiter>,
    place: usize,
}

/// What makes a limit count on: that it has the same name, and counts the same things. How much it allows may change.
#[derive(PartialEq, Eq)]
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
    type Shared = Arc<Waiting>;
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
    pub(crate) fn of<P: Policy<Shared = Arc<Waiting>>>(
        limit: &titan_config::RateLimit,
        (kind, name): (PolicyKind, &str),
        setting: &Setting<'_, P>,
    ) -> RateLimit {
        let Setting { name: _, config, shared: waiting, registry } = *setting;
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
        } = limit;
        let plans = Plans::new(name, limit);
        let allowance = Allowance {
            plans: plans.rates(),
            concurrency: concurrency.map(|most| most.get().into()),
            capacity: capacity.get().try_into().unwrap_or(usize::MAX),
            most_owed: |rate| rate.tolerance,
        };
        let identity = LimitKey::new(kind, name, limit);
        let limiter = KeyedLimiter::shared(registry, identity, allowance);
        let cost_of = |route: &Route| {
            let cost = costs.iter().find(|cost| cost.route == route.name);
            cost.map_or(1, |cost| cost.cost.get().into())
        };
        RateLimit {
            key: key.iter().map(|part| Part::new(part, config, &limiter)).collect(),
            limiter,
            mask: mask_of(*ipv6_prefix),
            exempt: exempt.clone(),
            max_delay: max_delay.map_or(0, nanoseconds),
            is_shadow: *shadow,
            costs: config.routes.iter().map(cost_of).collect(),
            plans,
            concurrency: *concurrency,
            words: words(&limit.key).into(),
            waiting: Arc::clone(waiting),
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
        let cost = match self.costs[route] {
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
        format!("{} at most {most}{plan}{delay}{watched}{cost}{client}", self.words)
    }

    /// Lets a request pass, when its turn has come, or refuses it.
    pub(crate) async fn let_pass(
        &self,
        context: &PolicyContext<'_>,
        state: &mut RateLimitState,
        cells: &RateLimitCells,
    ) -> Result<Step, Error> {
        let (noted, decided) = self.judge(context, cells);
        *state = noted;
        if let Some(turn) = decided? {
            Box::pin(turn.comes()).await;
        }
        Ok(Step::Go)
    }

    /// Decides about a request, which may have to wait for its turn. The state is for the response, whatever is decided.
    fn judge(
        &self,
        context: &PolicyContext<'_>,
        cells: &RateLimitCells,
    ) -> (RateLimitState, Result<Option<Turn>, Error>) {
        if self.exempt.as_ref().is_some_and(|exempt| is_exempt(exempt, context)) {
            cells.exempt.add(1);
            return (RateLimitState::default(), Ok(None));
        }
        let plan = self.plans.of(context.findings.claims());
        let (Outcome { verdict, counts }, place) = self.take(plan, context);
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

    /// Charges a request; if it exceeds a rate, it waits for its turn if there is a place for it.
    fn take(&self, plan: usize, context: &PolicyContext<'_>) -> (Outcome, Option<WaitPermit>) {
        let hash = self.hash(context, plan);
        let charge = Charge { cost: self.costs[context.found.route], plan, max_delay: 0 };
        let writer = WriterId::new(context.worker);
        let take = |charge| self.limiter.take(hash, charge, writer);
        let outcome = take(charge);
        let waits = match outcome.verdict {
            Verdict::Exceeded { wait } => wait <= self.max_delay && !self.is_shadow,
            _ => false,
        };
        if !waits {
            return (outcome, None);
        }
        let client = context.client().map(ClientNetwork::of);
        match self.waiting.enter(client) {
            Some(place) => (take(Charge { max_delay: self.max_delay, ..charge }), Some(place)),
            None => (outcome, None),
        }
    }

    /// Writes into a response what is left of the limit.
    pub(crate) fn add_limit_fields(
        &self,
        note: &RateLimitState,
        head: &mut ResponseHead,
    ) -> Result<(), BadField> {
        let Some(counts) = &note.counts else { return Ok(()) };
        let fields = &mut head.fields;
        if let Some(wait) = note.retry_after {
            write_retry_after(fields, wait)?;
        }
        self.plans.write_fields(note.plan, counts, fields)
    }

    /// What the request is counted by.
    fn hash(&self, context: &PolicyContext<'_>, plan: usize) -> u64 {
        let mut hasher = self.limiter.hasher();
        // A debt at a slow rate would block a client that has changed to a fast one.
        hasher.write_usize(plan);
        for part in &self.key {
            let fields = &context.request.fields;
            match part {
                Part::Client => write_client(&mut hasher, context.client(), self.mask),
                Part::Route(names) => hasher.write_u64(names[context.found.route]),
                // Routes that count by keys ask for them: there is one.
                Part::ApiKey => {
                    hasher.write_u64(context.findings.api_key.as_ref().map_or(0, |(id, _)| *id));
                }
                Part::Header(name) => write_all(&mut hasher, fields.named(name)),
                Part::Claim(claim) => {
                    let claims = context.findings.claims();
                    write_claim(&mut hasher, claims.and_then(|claims| find(claims, claim)));
                }
                Part::Query(name) => {
                    write_all(&mut hasher, query::values(context.request.query(), name));
                }
                Part::Cookie(name) => {
                    write_all(&mut hasher, cookie::first(fields, name).into_iter());
                }
                Part::Param(places) => {
                    let place = places[context.found.route].into_iter();
                    let params = &context.found.params;
                    let path = context.request.path();
                    write_all(&mut hasher, place.map(|it| decode(params.get(it, path))));
                }
            }
        }
        hasher.finish()
    }
}

impl Part {
    fn new(part: &RateKey, config: &Config, limiter: &KeyedLimiter) -> Part {
        match part {
            RateKey::ClientAddress => Part::Client,
            RateKey::Route => {
                let routes = config.routes.iter();
                Part::Route(routes.map(|route| limiter.hash_one(route.name.as_str())).collect())
            }
            RateKey::ApiKey => Part::ApiKey,
            RateKey::Header(name) => Part::Header(name.as_str().as_bytes().into()),
            RateKey::Cookie(name) => Part::Cookie(name.as_str().into()),
            RateKey::Query(name) => Part::Query(name.as_str().into()),
            RateKey::Claim(claim) => Part::Claim(claim.clone()),
            RateKey::Param(name) => {
                let routes = config.routes.iter();
                let place = |route: &Route| route.path.params().position(|it| it == name);
                Part::Param(routes.map(place).collect())
            }
        }
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
    /// exempt, how long they wait, and whether it refuses any.
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

fn words(key: &[RateKey]) -> String {
    let key = key.iter().map(|part| match part {
        RateKey::ClientAddress => "client".to_owned(),
        RateKey::Route => "route".to_owned(),
        RateKey::ApiKey => "API key".to_owned(),
        RateKey::Header(name) => name.as_str().to_owned(),
        RateKey::Cookie(name) => format!("cookie {}", name.as_str()),
        RateKey::Query(name) => format!("parameter {name}"),
        RateKey::Claim(claim) => format!("claim {}", claim.path().join("/")),
        RateKey::Param(name) => format!("{{{name}}}"),
    });
    format!("for each {}", key.collect::<Vec<_>>().join(" and "))
}

/// The bits of an IPv6 address that tell clients apart.
pub(crate) fn mask_of(prefix: u8) -> u128 {
    u128::MAX << (128 - u32::from(prefix))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn write_retry_after(fields: &mut Fields, seconds: u64) -> Result<(), BadField> {
    let mut text = [0; 20];
    fields.set(FieldName::RetryAfter, written(&mut text, |out| write!(out, "{seconds}")))
}

pub(crate) fn write_client(hasher: &mut impl Hasher, client: Option<IpAddr>, mask: u128) {
    match client {
        None => hasher.write_u8(0),
        Some(IpAddr::V4(address)) => {
            hasher.write_u8(4);
            hasher.write_u32(address.to_bits());
        }
        Some(IpAddr::V6(address)) => {
            hasher.write_u8(6);
            hasher.write_u128(address.to_bits() & mask);
        }
    }
}

/// So that no two lists of values are written alike.
pub(crate) fn write_all(hasher: &mut impl Hasher, values: impl Iterator<Item = impl AsRef<[u8]>>) {
    for value in values {
        let value = value.as_ref();
        hasher.write_usize(value.len());
        hasher.write(value);
    }
    hasher.write_usize(usize::MAX);
}

/// So that no two values are written alike, whatever their types; one that is not there is as `null`.
fn write_claim(hasher: &mut impl Hasher, value: Option<&Value>) {
    match value {
        None | Some(Value::Null) => hasher.write_u8(0),
        Some(Value::String(text)) => {
            hasher.write_u8(1);
            write_all(hasher, std::iter::once(text.as_bytes()));
        }
        Some(value) => {
            hasher.write_u8(2);
            write_all(hasher, std::iter::once(value.to_string().as_bytes()));
        }
    }
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
