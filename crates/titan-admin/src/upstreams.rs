//! `/upstreams`: how upstreams are doing, and what an operator wants of an endpoint or a breaker.

use crate::http::{Request, Response, media_type};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use titan_http::Status;
use titan_proxy::{
    BreakerNow, BreakerState, BreakerWish, ConcurrencyStatus, Condition, DrainedBy, EndpointOrder,
    EndpointStatus, HedgingStatus, MemberStatus, Monitored, NotOrdered, Reason, Story,
    UpstreamStatus, Wish,
};

const JSON: &str = "application/json";
/// How long an order holds where it does not say.
const TIME: Duration = Duration::from_secs(15 * 60);
/// How long it may hold: what is meant for longer belongs in the file.
const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);

#[derive(Serialize)]
struct Listing {
    upstreams: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    name: String,
    /// Whether requests go to all endpoints because too few are healthy.
    panic: bool,
    retry_budget: Budget,
    /// Nothing where requests are not hedged.
    hedge: Option<Hedge>,
    breaker: Option<ShownBreaker>,
    /// Nothing where running requests are not limited.
    concurrency: Option<Concurrency>,
    endpoints: Vec<ShownEndpoint>,
}

#[derive(Serialize)]
struct Concurrency {
    limit: u32,
    running: u32,
    waiting: u32,
    shed: u64,
    overloaded: bool,
    unloaded_latency_seconds: Option<f64>,
}

#[derive(Serialize)]
struct Hedge {
    delay_seconds: Option<f64>,
    sent: u64,
    won: u64,
    refused: u64,
}

#[derive(Serialize)]
struct Budget {
    share: String,
    floor: u32,
    left: u64,
}

#[derive(Serialize)]
struct ShownBreaker {
    state: &'static str,
    by_operator: bool,
    why: Option<String>,
    since: OffsetDateTimeText,
    ends_in_seconds: Option<f64>,
    requests: u64,
    failures: u64,
    slow: u64,
    times_opened: u32,
    rejected: u64,
}

/// A moment, as JSON has it.
#[derive(Serialize)]
struct OffsetDateTimeText(#[serde(with = "time::serde::rfc3339")] OffsetDateTime);

#[derive(Serialize)]
struct ShownEndpoint {
    address: String,
    host: String,
    priority: u8,
    remote_zone: bool,
    weight: u16,
    state: &'static str,
    why: Option<String>,
    #[serde(with = "time::serde::rfc3339::option")]
    since: Option<OffsetDateTime>,
    reasons: Vec<ShownReason>,
    breaker: Option<ShownBreaker>,
    ejections: u64,
    probes: u64,
    probes_failed: u64,
    last_probe: Option<String>,
    requests: u64,
    failures: u64,
    latency_seconds: Option<f64>,
    requests_active: u32,
    requests_waiting: u32,
    connections_open: u32,
    connections_idle: u32,
}

/// One of the things that keep requests from an endpoint.
#[derive(Clone, Serialize)]
struct ShownReason {
    state: &'static str,
    why: String,
    #[serde(with = "time::serde::rfc3339::option")]
    since: Option<OffsetDateTime>,
    /// Nothing where it is not known when it ends.
    #[serde(with = "time::serde::rfc3339::option")]
    until: Option<OffsetDateTime>,
}

/// What is wanted of an endpoint or a breaker.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted<'r> {
    #[serde(borrow)]
    action: Cow<'r, str>,
    #[serde(borrow)]
    endpoint: Option<Cow<'r, str>>,
    #[serde(rename = "for")]
    time: Option<Value>,
}

/// The same, understood.
enum Order {
    Endpoint { address: String, wish: Wish },
    Breaker { address: Option<String>, wish: BreakerWish },
}

/// Shows every upstream.
pub(crate) fn list(upstreams: Vec<UpstreamStatus>) -> Response {
    let upstreams = upstreams.into_iter().map(Shown::of).collect();
    Response::json(Status::OK, &Listing { upstreams })
}

/// Shows the upstream of that name.
pub(crate) fn read(upstreams: Vec<UpstreamStatus>, name: &[u8]) -> Response {
    let missing = missing_upstream(&upstreams, &String::from_utf8_lossy(name));
    match upstreams.into_iter().find(|upstream| upstream.name.as_bytes() == name) {
        Some(upstream) => Response::json(Status::OK, &Shown::of(upstream)),
        None => Response::problem(Status::NOT_FOUND, &missing),
    }
}

/// Has what the body wants done, in a moment. `upstreams` says what there is if it is about something that there is not.
pub(crate) fn order(
    monitored: &Monitored,
    upstreams: impl FnOnce() -> Vec<UpstreamStatus>,
    upstream: &[u8],
    request: &Request,
) -> Response {
    if !media_type(&request.head).eq_ignore_ascii_case(JSON.as_bytes()) {
        return Response::problem(Status::BAD_REQUEST, "send `Content-Type: application/json`");
    }
    let order = match Order::read(&request.body) {
        Ok(order) => order,
        Err(fault) => return Response::problem(Status::BAD_REQUEST, &fault),
    };
    let upstream = String::from_utf8_lossy(upstream).into_owned();
    match order.give(monitored, &upstream) {
        Ok(()) => Response::empty(Status::NO_CONTENT),
        Err(NotOrdered::Unknown) => {
            Response::problem(Status::NOT_FOUND, &order.missing(&upstreams(), &upstream))
        }
        Err(NotOrdered::TooMany) => Response::problem(Status::SERVICE_UNAVAILABLE, TOO_MANY),
    }
}

/// What an order wants, for the line about it, or why it makes no sense.
pub(crate) fn named(request: &Request) -> String {
    match Order::read(&request.body) {
        Ok(order) => order.to_string(),
        // Whoever sends it could break the line, or fill it.
        Err(why) => why.chars().take(MAX_ADDRESS).flat_map(char::escape_debug).collect(),
    }
}

/// That there is no such upstream, and which there are.
fn missing_upstream(upstreams: &[UpstreamStatus], name: &str) -> String {
    let names = some(upstreams.iter().map(|upstream| upstream.name.as_str()));
    format!("there is no upstream `{name}`; there are {names}")
}

/// The first of these names, and how many there are beyond.
fn some<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let named: Vec<_> = names.take(MOST_NAMED).map(|name| format!("`{name}`")).collect();
    match (named.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => named.join(", "),
        (false, more) => format!("{} and {more} more: GET /upstreams", named.join(", ")),
    }
}

impl Order {
    fn read(body: &[u8]) -> Result<Order, String> {
        let Wanted { action, endpoint, time } =
            serde_json::from_slice(body).map_err(|error| format!("{error}; send {EXAMPLE}"))?;
        if endpoint.as_ref().is_some_and(|address| address.len() > MAX_ADDRESS) {
            return Err("`endpoint` is no address".to_owned());
        }
        let address = endpoint.map(Cow::into_owned);
        if matches!(&*action, "restore" | "release_breaker") && time.is_some() {
            return Err(format!("`{action}` holds at once, and takes no `for`"));
        }
        let time = match time {
            None => TIME,
            Some(Value::String(text)) => {
                titan_config::duration(&text).map_err(|why| format!("`for`: {why}"))?
            }
            Some(_) => return Err("`for` is a duration with its unit, such as \"15m\"".to_owned()),
        };
        if !TIMES.contains(&time) {
            let why = "`for` is not between 1s and 24h; what is meant for longer belongs in the configuration";
            return Err(why.to_owned());
        }
        let wish = match &*action {
            "drain" => Wish::Drain(time),
            "eject" => Wish::Eject(time),
            "restore" => Wish::Restore,
            "open_breaker" => return Ok(Order::Breaker { address, wish: BreakerWish::Open(time) }),
            "close_breaker" => {
                return Ok(Order::Breaker { address, wish: BreakerWish::Close(time) });
            }
            "release_breaker" => return Ok(Order::Breaker { address, wish: BreakerWish::Release }),
            _ => return Err(format!("`action` is none of {ACTIONS}")),
        };
        let address = address.ok_or_else(|| format!("`{action}` needs an `endpoint`"))?;
        Ok(Order::Endpoint { address, wish })
    }

    fn give(&self, monitored: &Monitored, upstream: &str) -> Result<(), NotOrdered> {
        match self {
            Order::Endpoint { address, wish } => {
                let (upstream, address) = (upstream.to_owned(), address.clone());
                monitored.order(EndpointOrder { upstream, address, wish: *wish })
            }
            Order::Breaker { address, wish } => {
                monitored.order_breaker(upstream, address.as_deref(), *wish)
            }
        }
    }

    /// What there is not, and what there is.
    fn missing(&self, upstreams: &[UpstreamStatus], name: &str) -> String {
        let Some(upstream) = upstreams.iter().find(|upstream| upstream.name == name) else {
            return missing_upstream(upstreams, name);
        };
        let addresses = upstream.endpoints.iter().map(|member| member.endpoint.address.as_str());
        let has_own = upstream.endpoints.iter().any(|member| member.breaker.is_some());
        match self {
            Order::Endpoint { address, .. } | Order::Breaker { address: Some(address), .. }
                if !addresses.clone().any(|it| it == address) =>
            {
                format!(
                    "the upstream `{name}` has no endpoint `{address}`; it has {}",
                    some(addresses)
                )
            }
            _ if upstream.breaker.is_some() => {
                format!(
                    "the breaker of `{name}` is one for all its endpoints; leave `endpoint` out"
                )
            }
            _ if has_own => {
                format!("each endpoint of `{name}` has a breaker of its own; name its `endpoint`")
            }
            _ => format!("`{name}` has no `circuit_breaker`"),
        }
    }
}

/// What no address of an endpoint is longer than: it is a part of lines.
const MAX_ADDRESS: usize = 300;
const TOO_MANY: &str = "too many orders wait to be carried out; send this one again in a second";
/// How many names a message has.
const MOST_NAMED: usize = 10;
const EXAMPLE: &str = r#"{"action": "drain", "endpoint": "10.0.0.7:8080", "for": "15m"}"#;
const ACTIONS: &str =
    "`drain`, `eject`, `restore`, `open_breaker`, `close_breaker` and `release_breaker`";

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever sends it could break the line.
        match self {
            Order::Endpoint { address, wish } => {
                let address = address.escape_debug();
                match wish {
                    Wish::Drain(time) => write!(f, "drain {address} for {time:?}"),
                    Wish::Eject(time) => write!(f, "eject {address} for {time:?}"),
                    Wish::Restore => write!(f, "restore {address}"),
                }
            }
            Order::Breaker { address, wish } => {
                let whose = address.as_deref().unwrap_or("the upstream").escape_debug();
                match wish {
                    BreakerWish::Open(time) => {
                        write!(f, "open the breaker of {whose} for {time:?}")
                    }
                    BreakerWish::Close(time) => {
                        write!(f, "close the breaker of {whose} for {time:?}")
                    }
                    BreakerWish::Release => write!(f, "release the breaker of {whose}"),
                }
            }
        }
    }
}

impl ShownBreaker {
    fn of(BreakerNow { status, figures, lasted, ends_in }: BreakerNow) -> ShownBreaker {
        ShownBreaker {
            state: match status.state {
                BreakerState::Closed => "closed",
                BreakerState::Open => "open",
                BreakerState::HalfOpen => "half-open",
            },
            by_operator: status.is_forced,
            why: figures.cause.map(|cause| cause.to_string()),
            since: OffsetDateTimeText((SystemTime::now() - lasted).into()),
            ends_in_seconds: ends_in.map(|time| time.as_secs_f64()),
            requests: status.counts.requests,
            failures: status.counts.failures,
            slow: status.counts.slow,
            times_opened: status.times_opened,
            rejected: figures.rejected,
        }
    }
}

impl Shown {
    fn of(status: UpstreamStatus) -> Shown {
        let UpstreamStatus {
            name,
            panics,
            retry_budget,
            hedging,
            breaker,
            concurrency,
            shed,
            endpoints,
        } = status;
        let budget = Budget {
            share: retry_budget.share.to_string(),
            floor: retry_budget.floor,
            left: retry_budget.left,
        };
        let concurrency = concurrency.map(|status| Concurrency::of(status, shed));
        let endpoints = endpoints.into_iter().map(ShownEndpoint::of).collect();
        let (breaker, hedge) = (breaker.map(ShownBreaker::of), hedging.map(Hedge::of));
        Shown { name, panic: panics, retry_budget: budget, hedge, breaker, concurrency, endpoints }
    }
}

impl Hedge {
    fn of(HedgingStatus { delay, sent, won, refused }: HedgingStatus) -> Hedge {
        Hedge { delay_seconds: delay.map(|delay| delay.as_secs_f64()), sent, won, refused }
    }
}

impl Concurrency {
    fn of(status: ConcurrencyStatus, shed: u64) -> Concurrency {
        let ConcurrencyStatus { limit, running, waiting, is_overloaded, unloaded_latency } = status;
        Concurrency {
            limit,
            running,
            waiting,
            shed,
            overloaded: is_overloaded,
            unloaded_latency_seconds: unloaded_latency.map(|latency| latency.as_secs_f64()),
        }
    }
}

impl ShownReason {
    /// Those that hold, those first that weigh most.
    fn all(
        story: &Story,
        breaker: Option<&BreakerNow>,
        drained_by: Option<DrainedBy>,
    ) -> Vec<ShownReason> {
        let rests = breaker.filter(|it| it.status.state == BreakerState::Open);
        let drained = drained_by.map(|by| ShownReason {
            state: Condition::Draining.as_str(),
            why: match by {
                DrainedBy::File => "the configuration drains it".to_owned(),
                DrainedBy::Record => "its SRV record has a weight of 0".to_owned(),
                DrainedBy::Feed => "it is about to end".to_owned(),
            },
            since: None,
            until: None,
        });
        let of_story = story.reasons.iter().map(ShownReason::of);
        of_story.chain(rests.map(ShownReason::of_breaker)).chain(drained).collect()
    }

    /// An open breaker of the endpoint's own.
    fn of_breaker(BreakerNow { figures, lasted, ends_in, .. }: &BreakerNow) -> ShownReason {
        let (now, opened) = (SystemTime::now(), "its circuit breaker is open");
        ShownReason {
            state: "breaker-open",
            why: match &figures.cause {
                Some(cause) => format!("{opened}: {cause}"),
                None => opened.to_owned(),
            },
            since: Some((now - *lasted).into()),
            until: ends_in.map(|time| (now + time).into()),
        }
    }

    fn of(reason: &Reason) -> ShownReason {
        let Reason { fact, why, since, until } = reason;
        let (since, until) = (Some((*since).into()), until.map(OffsetDateTime::from));
        ShownReason { state: fact.condition().as_str(), why: why.clone(), since, until }
    }
}

impl ShownEndpoint {
    fn of(status: MemberStatus) -> ShownEndpoint {
        let MemberStatus { host, placement, latency, breaker, endpoint } = status;
        let EndpointStatus {
            address, active, open, idle, waiting, condition, story, counts, ..
        } = endpoint;
        let reasons = ShownReason::all(&story, breaker.as_ref(), placement.drained_by);
        let last = reasons.is_empty().then(|| story.reason().map(ShownReason::of)).flatten();
        let first = reasons.first().cloned().or(last);
        let (why, since) = first.map(|it| (it.why, it.since)).unzip();
        ShownEndpoint {
            address,
            host,
            priority: placement.rank.priority,
            remote_zone: placement.rank.is_remote,
            weight: placement.weight.get(),
            state: reasons.first().map_or(condition.as_str(), |first| first.state),
            why,
            since: since.flatten(),
            reasons,
            breaker: breaker.map(ShownBreaker::of),
            ejections: story.ejections,
            probes: story.probes,
            probes_failed: story.probes_failed,
            last_probe: story.last_probe_failed,
            requests: counts.requests,
            failures: counts.failures,
            latency_seconds: latency.map(|latency| latency.as_secs_f64()),
            requests_active: active,
            requests_waiting: waiting,
            connections_open: open,
            connections_idle: idle,
        }
    }
}
