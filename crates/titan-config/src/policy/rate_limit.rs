//! Rate limits: how many requests of one kind may come in a while, and how many may run at once.

mod exempt;
mod key;
mod plans;
mod rate;

use super::section::PolicySection;
use crate::bounds::{MAX_KEY_PARTS, MAX_LIMITED_KEYS, MAX_RATES, MAX_ROUTES};
use crate::diagnostic::Diagnostic;
use crate::location::Span;
use crate::node::Node;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{Named, boolean, duration, mapping, one_or_list, whole};
use crate::section::{section, section_of};
use crate::token::{HeaderName, NAME, Name, parse_name};
pub use exempt::Exempt;
use exempt::exempt;
pub use key::RateKey;
use key::key;
use plans::plans;
pub use plans::{RatePlan, RatePlans};
pub use rate::Rate;
pub(super) use rate::rate;
use std::num::NonZeroU32;
use std::time::Duration;

section! {
    "rate_limit", "a rate limit", Any;
    /// How many requests with the same key may come in a while (`rates`), and how many may run at once (`concurrency`): at
    /// least one of the two. Each is one number over all workers. What exceeds it is answered with 429 and `Retry-After`.
    /// Answers tell what is left in `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers). Routes
    /// that name the same policy share its numbers, unless `route` is part of the key.
    pub(crate) struct RateLimitFields {
        /// Which requests are counted together: those of one `client_address` (behind all trusted proxies), of one
        /// `route`, with the same `api_key` (the route needs `authorise` with keys), header field, cookie, parameter of
        /// the query, part of the path or claim (the route needs `jwt`), or of a combination of these. Requests without that field, cookie,
        /// parameter, part or claim are counted together. What a client chooses freely, such as a field that nobody checks, limits
        /// nobody who wants to get around it.
        pub(crate) key: Vec<RateKey> = default("client_address", one_or_list(key(), 1..=MAX_KEY_PARTS)),
        /// How many leading bits of IPv6 addresses tell clients apart: one client usually has all addresses of a network
        /// of 64 bits.
        pub(crate) ipv6_prefix: u8 = default("64", whole(16..=128)),
        /// How many requests may come in how long; a request has to fit all of these.
        pub(crate) rates: Vec<Rate> = default("[]", one_or_list(rate(), 0..=MAX_RATES)),
        /// Other rates for requests whose token names a plan.
        pub(crate) plans: Option<RatePlans> = optional("one for all", plans()),
        /// How many requests may run at once, tunnels and streams among them.
        pub(crate) concurrency: Option<NonZeroU32> = optional("no limit", whole(1..=1_000_000)),
        /// By the name of a route, as how many requests one of its requests counts in `rates`, where that is not 1.
        pub(crate) costs: Vec<Named<Name, NonZeroU32>> =
            default("{}", mapping(NAME, parse_name, whole(1..=1_000_000), 0..=MAX_ROUTES)),
        /// How long a request waits that exceeds `rates`, instead of being refused: those of one key pass one after the other, as
        /// fast as their rates allow, and what would have to wait longer is answered with 429. At most 4096 requests wait at the
        /// same time, and of one client only so many that others have places left; what comes beyond is refused at once. A request
        /// that waits counts in `concurrency`. A client that leaves gives its place up, and not its turn.
        pub(crate) max_delay: Option<Duration> = optional("nobody waits", duration(MIN_DELAY..=MAX_DELAY)),
        /// Requests that are not limited.
        pub(crate) exempt: Option<Exempt> = optional("all are limited", exempt()),
        /// Whether all requests are let through, and only the metrics tell which would have exceeded the limit
        /// (`titan_rate_limit_requests_total`), and a line on standard error once a minute at most.
        pub(crate) shadow: bool = default("false", boolean()),
        /// How many keys can be in use at the same time: those that do not have their whole burst left, or of which requests
        /// run. Others are forgotten, which changes nothing for them. Where there is no room, a further key takes the place of
        /// the one that has most left, and has no more left than that. With one rate a key takes some 64 bytes of memory from
        /// the start, with each further rate (of the plan that has most) and with `concurrency` 32 more.
        pub(crate) capacity: NonZeroU32 = default("65536", whole(64..=MAX_LIMITED_KEYS)),
    }
}

/// A rate limit, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Which requests are counted together; at least one part.
    pub key: Vec<RateKey>,
    /// How many leading bits of IPv6 addresses tell clients apart.
    pub ipv6_prefix: u8,
    /// A request has to fit each of these.
    pub rates: Vec<Rate>,
    /// Other rates for requests whose token names a plan. With these there are rates for others, too.
    pub plans: Option<RatePlans>,
    /// How many requests may run at once.
    pub concurrency: Option<NonZeroU32>,
    /// As how many requests those of some routes count. Never more than a burst.
    pub costs: Vec<RouteCost>,
    /// How long a request waits that exceeds the rates.
    pub max_delay: Option<Duration>,
    /// Those that are not limited.
    pub exempt: Option<Exempt>,
    /// Whether all requests are let through.
    pub shadow: bool,
    /// How many keys are remembered.
    pub capacity: NonZeroU32,
}

/// As how many requests those of a route count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteCost {
    /// The name of the route.
    pub route: Name,
    /// The number.
    pub cost: NonZeroU32,
    /// Where the file says so.
    pub(crate) span: Span,
}

/// The shortest time that requests wait at most.
const MIN_DELAY: Duration = Duration::from_millis(1);
/// The longest: clients do not wait longer for a response.
const MAX_DELAY: Duration = Duration::from_secs(60);

impl PolicySection for RateLimit {
    fn request_fields(&self) -> Vec<&HeaderName> {
        self.key.iter().filter_map(RateKey::header).collect()
    }
}

pub(super) fn policy() -> impl Read<Value = RateLimit> {
    section_of::<RateLimitFields>().then(check)
}

fn check(fields: RateLimitFields, node: &Node, to: &mut Reading<'_>) -> Option<RateLimit> {
    let RateLimitFields {
        key,
        ipv6_prefix,
        rates,
        plans,
        concurrency,
        costs,
        max_delay,
        exempt,
        shadow,
        capacity,
    } = fields;
    if rates.is_empty() && concurrency.is_none() {
        let error = Diagnostic::error(node.span, "a rate limit that limits nothing");
        return to.fail(error.label("expected `rates` or `concurrency`"));
    }
    if let Some(again) = repeated(&rates, |ours, theirs| ours.window == theirs.window) {
        let message = format!("two rates for the same time, `{}`", rates[again]);
        let error = Diagnostic::error(node.key_span("rates"), message);
        return to.fail(error.label("one for each is enough"));
    }
    if repeated(&key, PartialEq::eq).is_some() {
        let error = Diagnostic::error(node.key_span("key"), "a part of the key stands twice");
        return to.fail(error.label("once is enough"));
    }
    if max_delay.is_some() && rates.is_empty() {
        let error = Diagnostic::error(node.key_span("max_delay"), "a delay without `rates`");
        return to.fail(error.label("nothing says when a request has its turn"));
    }
    if plans.is_some() && rates.is_empty() {
        let error = Diagnostic::error(node.key_span("plans"), "plans without `rates`");
        return to.fail(error.label("who has none of these would not be limited"));
    }
    let of_plans = plans.iter().flat_map(|plans| &plans.plans).flat_map(|plan| &plan.rates);
    let least = rates.iter().chain(of_plans).map(|rate| rate.burst).min();
    for Named { key, key_span, value } in &costs {
        let (message, label) = match least {
            Some(least) if *value <= least => continue,
            Some(least) => (
                format!("no request of the route `{key}` could ever pass"),
                format!("costs {value}, and the burst is {least}"),
            ),
            None => ("costs without `rates`".to_owned(), "nothing counts them".to_owned()),
        };
        return to.fail(Diagnostic::error(*key_span, message).label(label));
    }
    let cost =
        |Named { key, key_span, value }| RouteCost { route: key, cost: value, span: key_span };
    let costs = costs.into_iter().map(cost).collect();
    Some(RateLimit {
        key,
        ipv6_prefix,
        rates,
        plans,
        concurrency,
        costs,
        max_delay,
        exempt,
        shadow,
        capacity,
    })
}

/// The place of the first item that is like one before it.
fn repeated<T>(items: &[T], alike: impl Fn(&T, &T) -> bool) -> Option<usize> {
    (1..items.len()).find(|&place| items[..place].iter().any(|it| alike(it, &items[place])))
}
