//! Rate limits: how many requests of one kind may come in a while, and how many may run at once.

use crate::balance::query_name;
use crate::bounds::{MAX_KEY_PARTS, MAX_LIMITED_KEYS, MAX_RATES, MAX_ROUTES};
use crate::node::Node;
use crate::policy::jwt::{Claim, claim};
use crate::quantity::{display_duration, parse_duration};
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{
    Named, Problem, boolean, mapping, one_or_list, short_for, text, whole, words_or,
};
use crate::report::{Diagnostic, Span};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::timeouts::DAY;
use crate::token::{HeaderName, NAME, Name, Token, cookie_name, header_name, parse_name};
use std::fmt;
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
        /// the query or claim (the route needs `jwt`), or of a combination of these. Requests without that field, cookie,
        /// parameter or claim are counted together. What a client chooses freely, such as a field that nobody checks, limits
        /// nobody who wants to get around it.
        pub(crate) key: Vec<RateKey> = default("client_address", one_or_list(key(), 1..=MAX_KEY_PARTS)),
        /// How many leading bits of IPv6 addresses tell clients apart: one client usually has all addresses of a network
        /// of 64 bits.
        pub(crate) ipv6_prefix: u8 = default("64", whole(16..=128)),
        /// How many requests may come in how long; a request has to fit all of these.
        pub(crate) rates: Vec<Rate> = default("[]", one_or_list(rate(), 0..=MAX_RATES)),
        /// How many requests may run at once, tunnels and streams among them.
        pub(crate) concurrency: Option<NonZeroU32> = optional("no limit", whole(1..=1_000_000)),
        /// By the name of a route, as how many requests one of its requests counts in `rates`, where that is not 1.
        pub(crate) costs: Vec<Named<Name, NonZeroU32>> =
            default("{}", mapping(NAME, parse_name, whole(1..=1_000_000), 0..=MAX_ROUTES)),
        /// Whether all requests are let through, and only the metrics tell which would have exceeded the limit
        /// (`titan_rate_limit_requests_total`), and a line on standard error once a minute at most.
        pub(crate) shadow: bool = default("false", boolean()),
        /// How many keys can be in use at the same time: those that do not have their whole burst left, or of which requests
        /// run. Others are forgotten, which changes nothing for them. Where there is no room, a further key takes the place of
        /// the one that has most left, and has no more left than that. With one rate a key takes some 64 octets of memory from
        /// the start, with each further rate and with `concurrency` 32 more.
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
    /// How many requests may run at once.
    pub concurrency: Option<NonZeroU32>,
    /// As how many requests those of some routes count. Never more than a burst.
    pub costs: Vec<RouteCost>,
    /// Whether all requests are let through.
    pub shadow: bool,
    /// How many keys are remembered.
    pub capacity: NonZeroU32,
}

/// What requests have in common that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateKey {
    /// The address of the client behind all trusted proxies.
    ClientAddress,
    /// The route.
    Route,
    /// The API key that the request has shown.
    ApiKey,
    /// The value of that field.
    Header(HeaderName),
    /// The value of that cookie.
    Cookie(Token),
    /// The decoded values of that parameter of the query.
    Query(String),
    /// The value of that claim of the request's token.
    Claim(Claim),
}

impl RateKey {
    /// What other policies have to judge first, where the part is of that kind.
    fn judged(&self) -> Option<&'static str> {
        match self {
            RateKey::ApiKey => Some("API keys"),
            RateKey::Claim(_) => Some("claims of tokens"),
            RateKey::ClientAddress
            | RateKey::Route
            | RateKey::Header(_)
            | RateKey::Cookie(_)
            | RateKey::Query(_) => None,
        }
    }
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

/// So many requests in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many, evenly spread.
    pub count: NonZeroU32,
    /// In how long.
    pub window: Duration,
    /// How many at once after a pause.
    pub burst: NonZeroU32,
}

impl Rate {
    /// The time that one request takes of the rate, in nanoseconds; never a fraction less.
    pub fn interval(&self) -> u64 {
        let nanoseconds = self.window.as_nanos().div_ceil(self.count.get().into());
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }
}

/// Without the burst, as it can be written.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = display_duration(self.window);
        let unit = window.strip_prefix('1').filter(|unit| unit.len() == 1);
        write!(f, "{}/{}", self.count, unit.unwrap_or(&window))
    }
}

section! {
    "rate", "a rate", Any;
    /// So many requests in so long. A plain text stands for `rate` alone.
    pub(crate) struct RateFields {
        /// How many requests in how long, evenly spread: `100/s`, `1000/m`, `20/10s`.
        pub(crate) rate: (NonZeroU32, Duration) = required(text(RATE, parse_rate)),
        /// How many requests may come at once after a pause.
        pub(crate) burst: Option<NonZeroU32> = optional("as many as the rate names", whole(1..=1_000_000_000)),
    }
}

section! {
    "rate_key", "a part of a key", One;
    /// What of a request is part of the key.
    pub(crate) struct RateKeyFields {
        /// The value of this header field.
        pub(crate) header: Option<HeaderName> = optional("", header_name()),
        /// The value of this cookie.
        pub(crate) cookie: Option<Token> = optional("", cookie_name()),
        /// The values of this parameter of the query, decoded. A key that `api_keys.query` names is gone by then.
        pub(crate) query: Option<String> = optional("", query_name()),
        /// The value of this claim of the token: `sub`, or a JSON pointer such as `/realm_access/roles`. Where several providers may call
        /// two by the same name, take `{ claim: iss }` into the key too.
        pub(crate) claim: Option<Claim> = optional("", claim()),
    }
}

const RATE: TextShape = TextShape {
    what: "a rate",
    examples: "`100/s`, `1000/m` or `20/10s`",
    pattern: Some("^[0-9]+/[0-9]*(s|m|h|d)$"),
    max: 32,
};

/// The longest window.
const MAX_WINDOW: Duration = Duration::from_secs(31 * 24 * 3600);
/// The longest time in which a whole burst comes back.
const MAX_REPLENISHING: Duration = Duration::from_secs(366 * 24 * 3600);
/// The highest rate: the time of a request is counted in nanoseconds.
const MAX_PER_SECOND: u64 = 1_000_000;

pub(super) fn rate_limit() -> impl Read<Value = RateLimit> {
    section_of::<RateLimitFields>().then(check)
}

/// A rate limit that requests meet before anybody has looked at who sends them.
pub(super) fn early_limit() -> impl Read<Value = RateLimit> {
    rate_limit().then(|limit, node, to| {
        let Some(what) = limit.key.iter().find_map(RateKey::judged) else { return Some(limit) };
        let message = format!("an early limit cannot count by {what}");
        let error = Diagnostic::error(node.key_span("key"), message);
        let error = error.label("nobody has looked yet whether it is good");
        to.fail(
            error.help("make it a `rate_limit`, which requests meet behind `jwt` and `authorise`"),
        )
    })
}

fn check(fields: RateLimitFields, node: &Node, to: &mut Reading<'_>) -> Option<RateLimit> {
    let RateLimitFields { key, ipv6_prefix, rates, concurrency, costs, shadow, capacity } = fields;
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
    let least = rates.iter().map(|rate| rate.burst).min();
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
    Some(RateLimit { key, ipv6_prefix, rates, concurrency, costs, shadow, capacity })
}

/// The place of the first item that is like one before it.
fn repeated<T>(items: &[T], alike: impl Fn(&T, &T) -> bool) -> Option<usize> {
    (1..items.len()).find(|&place| items[..place].iter().any(|it| alike(it, &items[place])))
}

fn key() -> impl Read<Value = RateKey> {
    let of_request = section_of::<RateKeyFields>().then(|fields, _, _| {
        let RateKeyFields { header, cookie, query, claim } = fields;
        let cookie = cookie.map(RateKey::Cookie).or(query.map(RateKey::Query));
        header.map(RateKey::Header).or(cookie).or(claim.map(RateKey::Claim))
    });
    let words = [
        ("client_address", RateKey::ClientAddress),
        ("route", RateKey::Route),
        ("api_key", RateKey::ApiKey),
    ];
    words_or(&words, of_request)
}

pub(super) fn rate() -> impl Read<Value = Rate> {
    short_for("rate", section_of::<RateFields>()).then(|fields, node, to| {
        let RateFields { rate: (count, window), burst } = fields;
        check_rate(Rate { count, window, burst: burst.unwrap_or(count) }, node, to)
    })
}

fn check_rate(rate: Rate, node: &Node, to: &mut Reading<'_>) -> Option<Rate> {
    let replenishing = u128::from(rate.interval()) * u128::from(rate.burst.get());
    if replenishing > MAX_REPLENISHING.as_nanos() {
        let error = Diagnostic::error(node.span, "the burst takes more than a year to come back");
        return to.fail(error.label("expected a smaller `burst`"));
    }
    Some(rate)
}

fn parse_rate(text: &str) -> Result<(NonZeroU32, Duration), Problem> {
    let (count, window) =
        text.split_once('/').ok_or_else(|| Problem::new("there is no `/` in it"))?;
    let start = count.len() + 1;
    let bad_count = || Problem::new("expected a number from 1").part(0..count.len());
    let is_plain = count.bytes().all(|octet| octet.is_ascii_digit());
    let number: NonZeroU32 = count.parse().ok().filter(|_| is_plain).ok_or_else(bad_count)?;
    let number_of = if window.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "1" };
    let bad_window = || {
        let problem = Problem::new("expected a time from 1s to 31d").part(start..text.len());
        problem.help("`s`, `m`, `h` or `d`, with a number in front or without")
    };
    let window = parse_duration(&format!("{number_of}{window}")).map_err(|_| bad_window())?;
    let is_whole = window.subsec_nanos() == 0;
    if !is_whole || !(Duration::from_secs(1)..=MAX_WINDOW.max(DAY)).contains(&window) {
        return Err(bad_window());
    }
    match u64::from(number.get()) > MAX_PER_SECOND * window.as_secs() {
        true => Err(Problem::new("more than a million a second")),
        false => Ok((number, window)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_time() {
        for (text, count, seconds) in [
            ("1/s", 1, 1),
            ("1000/m", 1000, 60),
            ("20/10s", 20, 10),
            ("7/d", 7, 86_400),
            ("9/2h", 9, 7200),
        ] {
            let (number, window) = parse_rate(text).unwrap();
            assert_eq!((number.get(), window.as_secs()), (count, seconds), "{text}");
            let rate = Rate { count: number, window, burst: number };
            assert_eq!(rate.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        let cases = [
            "",
            "1",
            "/s",
            "0/s",
            "1/",
            "1/0s",
            "1/500ms",
            "+1/s",
            "-1/s",
            "1/s/s",
            "1/32d",
            "1000001/s",
            "1 / s",
        ];
        for text in cases {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_time_of_a_request_is_never_rounded_down() {
        let rate = |count, seconds| Rate {
            count: NonZeroU32::new(count).unwrap(),
            window: Duration::from_secs(seconds),
            burst: NonZeroU32::MIN,
        };
        assert_eq!(rate(3, 1).interval(), 333_333_334);
        assert_eq!(rate(1_000_000, 1).interval(), 1000);
        assert_eq!(rate(1000, 60).interval(), 60_000_000);
    }
}
