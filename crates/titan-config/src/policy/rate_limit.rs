//! Rate limits: how many requests with the same key may come in a period, and how many may run at once.

mod exempt;
mod key;
mod plans;
mod rate;
mod shared;

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
pub(crate) use rate::parse_rate;
pub(super) use rate::rate;
use shared::shared;
pub use shared::{SharedLimit, SharedMode, WithoutStore};
use std::num::NonZeroU32;
use std::time::Duration;

section! {
    "rate_limit", "a rate limit", Any;
    /// How many requests with the same key may come in a period (`rates`), and how many may run at once
    /// (`concurrency`): at least one of the two. Each is counted over all workers together. Requests beyond a limit get
    /// 429 and `Retry-After`. `RateLimit` and `RateLimit-Policy` in responses tell clients what is left
    /// (draft-ietf-httpapi-ratelimit-headers). Routes with the same policy share its counters, unless `route` is part
    /// of the key.
    pub(crate) struct RateLimitFields {
        /// Which requests are counted together: those of one `client_address` (behind all trusted proxies), of one
        /// `route`, with the same `api_key` (the route needs `authorise` with keys), header field, cookie, query
        /// parameter, path parameter or claim (the route needs `jwt`), or a combination of these. Requests without that
        /// field, cookie, parameter or claim are counted together. A value that clients choose freely, such as an
        /// unchecked header field, does not limit clients that want to evade it.
        pub(crate) key: Vec<RateKey> = default("client_address", one_or_list(key(), 1..=MAX_KEY_PARTS)),
        /// How many leading bits of an IPv6 address identify a client: one client usually has all addresses of a /64
        /// network.
        pub(crate) ipv6_prefix: u8 = default("64", whole(16..=128)),
        /// How many requests may come in which period; a request must be within all of these.
        pub(crate) rates: Vec<Rate> = default("[]", one_or_list(rate(), 0..=MAX_RATES)),
        /// Other rates for requests whose token names a plan.
        pub(crate) plans: Option<RatePlans> = optional("the same rates for all", plans()),
        /// How many requests may run at once, including tunnels and streams.
        pub(crate) concurrency: Option<NonZeroU32> = optional("no limit", whole(1..=1_000_000)),
        /// How many requests one request of a route counts as in `rates`, by the name of the route; 1 for all others.
        pub(crate) costs: Vec<Named<Name, NonZeroU32>> =
            default("{}", mapping(NAME, parse_name, whole(1..=1_000_000), 0..=MAX_ROUTES)),
        /// How long a request that exceeds `rates` may wait instead of being refused: the requests of one key pass one
        /// after another, as fast as its rates allow, and one that would have to wait longer gets 429. At most 4096
        /// requests wait at a time, and each client only so many that others find room; further ones are refused at
        /// once. A waiting request counts in `concurrency`. If its client disconnects, its place becomes free but its
        /// turn stays used.
        pub(crate) max_delay: Option<Duration> = optional("no request waits", duration(MIN_DELAY..=MAX_DELAY)),
        /// Requests that are not limited.
        pub(crate) exempt: Option<Exempt> = optional("none", exempt()),
        /// Whether to let all requests pass and only report those that exceed the limit: in metrics
        /// (`titan_rate_limit_requests_total`), and on standard error once a minute at most.
        pub(crate) shadow: bool = default("false", boolean()),
        /// How many keys can be tracked at a time: those that have used some of their burst, or have running requests.
        /// Others are forgotten, which makes no difference to them. If there is no room, a new key replaces the one
        /// with the most left, and starts with no more than that. A key with one rate takes about 64 bytes of memory,
        /// allocated at the start, and 32 more for each further rate (of the plan with the most) and for `concurrency`.
        pub(crate) capacity: NonZeroU32 = default("65536", whole(64..=MAX_LIMITED_KEYS)),
        /// Whether all gateways of a fleet count together, in a store. A plain string sets `store` alone.
        pub(crate) shared: Option<SharedLimit> = optional("each gateway counts by itself", shared()),
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
    /// How it is shared with other gateways; with a rate, and without `concurrency`. `None` where each counts by itself.
    pub shared: Option<SharedLimit>,
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
        shared,
    } = fields;
    if rates.is_empty() && concurrency.is_none() {
        let error = Diagnostic::error(node.span, "this rate limit limits nothing");
        return to.fail(error.label("expected `rates` or `concurrency`"));
    }
    if let Some(again) = repeated(&rates, |ours, theirs| ours.window == theirs.window) {
        let message = format!("two rates for the same period, `{}`", rates[again]);
        let error = Diagnostic::error(node.key_span("rates"), message);
        return to.fail(error.label("keep one of them"));
    }
    if repeated(&key, PartialEq::eq).is_some() {
        let error = Diagnostic::error(node.key_span("key"), "a part of the key appears twice");
        return to.fail(error.label("remove one of them"));
    }
    if max_delay.is_some() && rates.is_empty() {
        let error = Diagnostic::error(node.key_span("max_delay"), "`max_delay` needs `rates`");
        return to.fail(error.label("without a rate, there is nothing to wait for"));
    }
    if plans.is_some() && rates.is_empty() {
        let error = Diagnostic::error(node.key_span("plans"), "`plans` needs `rates`");
        return to.fail(error.label("clients without a plan would not be limited"));
    }
    if shared.is_some() && concurrency.is_some() {
        let error =
            Diagnostic::error(node.key_span("concurrency"), "`concurrency` cannot be shared");
        let error = error.also(node.key_span("shared"), "this limit is shared");
        return to.fail(error.help(
            "each gateway counts what runs by itself: put `concurrency` into a policy of its own, such as an `early_limit`",
        ));
    }
    if shared.is_some() && rates.is_empty() {
        let error = Diagnostic::error(node.key_span("shared"), "`shared` needs `rates`");
        return to.fail(error.label("there is nothing to count together"));
    }
    let of_plans = plans.iter().flat_map(|plans| &plans.plans).flat_map(|plan| &plan.rates);
    let least = rates.iter().chain(of_plans).map(|rate| rate.burst).min();
    for Named { key, key_span, value } in &costs {
        let (message, label) = match least {
            Some(least) if *value <= least => continue,
            Some(least) => (
                format!("no request to the route `{key}` could ever pass"),
                format!("it costs {value}, but the burst is {least}"),
            ),
            None => (
                "`costs` needs `rates`".to_owned(),
                "without a rate, costs have no effect".to_owned(),
            ),
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
        shared,
    })
}

/// The place of the first item that is like one before it.
fn repeated<T>(items: &[T], alike: impl Fn(&T, &T) -> bool) -> Option<usize> {
    (1..items.len()).find(|&place| items[..place].iter().any(|it| alike(it, &items[place])))
}
