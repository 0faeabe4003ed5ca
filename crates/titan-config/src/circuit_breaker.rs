//! When an upstream that fails is left alone for a while.

use crate::diagnostic::Diagnostic;
use crate::fallback::{Fallback, fallback};
use crate::location::Span;
use crate::node::Node;
use crate::quantity::Percent;
use crate::read::{Read, Reading, default};
use crate::readers::{duration, one_or_list, percent, whole, word_or, words};
use crate::section::{section, section_of};
use crate::statuses::{Statuses, statuses};
use crate::upstream_id::UpstreamId;
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

section! {
    "circuit_breaker", "a circuit breaker", Any;
    /// Leaves an upstream alone that fails. Requests pass while the breaker is closed. When too many fail or are
    /// slow, it opens, and requests get 503 (`circuit-open`) with `Retry-After` at once, without being sent. After
    /// `open_time` it is half-open: a few requests are sent, and it closes when `close_after` of them have succeeded,
    /// or opens again when one fails or is slow. One state for all workers; reloads keep it.
    ///
    /// Each attempt counts, retries too, at the end of its response, and one of a half-open breaker at the beginning.
    /// Statuses below 400 are successes. What is neither a success nor one of `failures` and `statuses`, such as 404 or
    /// a client that leaves, does not count at all. gRPC calls count by their own status, as with `ejection`; one of a
    /// half-open breaker is a success once its response begins without one.
    pub struct CircuitBreaker {
        /// This share of failures opens it.
        pub failure_share: Option<Percent> = default("50%", word_or("off", None, percent(1..=100).map(Some))),
        /// So many failures in a row open it. For upstreams with few requests; with many, an endpoint of several that
        /// fails can cause such a row by chance.
        pub consecutive_failures: Option<NonZeroU32> = default("off", word_or("off", None, whole(1..=1_000_000).map(Some))),
        /// This share of slow requests, whether they succeed or fail, opens it.
        pub slow_share: Option<Percent> = default("off", word_or("off", None, percent(1..=100).map(Some))),
        /// A request is slow if its response begins later than this after the endpoint has the whole request.
        pub slow_after: Duration = default("2s", duration(Duration::from_millis(1)..=HOUR)),
        /// The time over which shares are taken, which moves on by tenths.
        pub window: Duration = default("10s", duration(Duration::from_secs(1)..=MOST_WINDOW)),
        /// The requests in that time, successes and failures, without which no share opens it.
        pub min_requests: NonZeroU32 = default("20", whole(1..=1_000_000)),
        /// How long it is open the first time. Each time that it opens again takes twice as long, until it has been
        /// closed for `max_open_time`.
        pub open_time: Duration = default("5s", duration(Duration::from_millis(100)..=HOUR)),
        /// How long it is open at most.
        pub max_open_time: Duration = default("1m", duration(Duration::from_millis(100)..=DAY)),
        /// The requests that a half-open breaker lets through at a time; others are rejected. Once as many have taken as long as it
        /// was open, an hour at most, others may follow, and what becomes of the first says nothing any more.
        pub half_open_requests: NonZeroU16 = default("3", whole(1..=1_000)),
        /// So many successes close a half-open breaker.
        pub close_after: NonZeroU16 = default("3", whole(1..=1_000)),
        /// The failures that count: `connect` (no connection: refused, timed out, TLS failed), `timeout` (no response
        /// in time, or its body paused for too long), `reset` (the connection or stream ended early, or what came was
        /// no valid response).
        pub failures: BreakerFailures = default("[connect, timeout, reset]", failures()),
        /// The statuses that count as failures. 501 says that a method is not known, not that the upstream fails.
        pub statuses: Statuses = default("[500, 502-599]", statuses(400, 599)),
        /// `upstream`: one breaker for all its endpoints. `endpoint`: one for each; an endpoint whose breaker is open
        /// gets no requests, and only when none can take one they get 503.
        pub per: BreakerScope = default("upstream", words(&[
            ("upstream", BreakerScope::Upstream),
            ("endpoint", BreakerScope::Endpoint),
        ])),
        /// What requests get while it is open: 503 (`off`), or a fixed response, a file, or the response of another upstream.
        pub fallback: Option<Fallback> = default("off", word_or("off", None, fallback().map(Some))),
    }
}

/// A circuit breaker, and where it names the upstream that takes its requests over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BreakerDraft {
    pub(crate) breaker: CircuitBreaker,
    fallback_span: Span,
}

impl BreakerDraft {
    /// The upstream that takes its requests over, and where that is said.
    pub(crate) fn successor(&self) -> Option<(UpstreamId, Span)> {
        match self.breaker.fallback {
            Some(Fallback::Upstream(id)) => Some((id, self.fallback_span)),
            Some(Fallback::Respond(_) | Fallback::File(_)) | None => None,
        }
    }
}

/// The failures without a status that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakerFailures {
    /// There was no connection to the endpoint.
    pub connect: bool,
    /// The response, or the rest of it, did not come in time.
    pub timeout: bool,
    /// The connection or stream ended early, or what came was no valid response.
    pub reset: bool,
}

/// What has a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerScope {
    /// The upstream as a whole.
    Upstream,
    /// Each of its endpoints.
    Endpoint,
}

const MOST_WINDOW: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

const NAMES: [(&str, BreakerFailures); 3] = [
    ("connect", BreakerFailures { connect: true, timeout: false, reset: false }),
    ("timeout", BreakerFailures { connect: false, timeout: true, reset: false }),
    ("reset", BreakerFailures { connect: false, timeout: false, reset: true }),
];

pub(crate) fn circuit_breaker() -> impl Read<Value = BreakerDraft> {
    section_of::<CircuitBreaker>().then(check).then(|breaker, node, _| {
        let fallback = node.entry("fallback").map_or(node, |entry| &entry.value);
        let named = fallback.entry("upstream").map_or(fallback, |entry| &entry.value);
        Some(BreakerDraft { breaker, fallback_span: named.span })
    })
}

/// Whether the fallbacks of some upstreams lead in a circle; each has a name, and may have a successor. Each is passed once, however
/// long the chains are.
pub(crate) fn check_circles(
    upstreams: &[(&str, Option<(UpstreamId, Span)>)],
    to: &mut Reading<'_>,
) {
    let next = |at: usize| Some(upstreams.get(at)?.1?.0.index());
    let mut passed_from = vec![None; upstreams.len()];
    for start in 0..upstreams.len() {
        let mut at = Some(start);
        while let Some(unpassed) = at.filter(|at| passed_from.get(*at) == Some(&None)) {
            passed_from[unpassed] = Some(start);
            at = next(unpassed);
        }
        // Where the way meets itself, and not an earlier one, is a circle that was not told yet.
        let met = at.filter(|at| passed_from.get(*at) == Some(&Some(start)));
        met.into_iter().for_each(|met| tell_circle(upstreams, met, to));
    }
}

/// Tells of a circle through the upstream at that place, at the first one of it.
fn tell_circle(
    upstreams: &[(&str, Option<(UpstreamId, Span)>)],
    through: usize,
    to: &mut Reading<'_>,
) {
    let next = |at: &usize| Some(upstreams[*at].1?.0.index());
    let around = |from: usize| {
        let behind = std::iter::successors(next(&from), next).take_while(move |at| *at != from);
        std::iter::once(from).chain(behind)
    };
    let first = around(through).min().unwrap_or(through);
    let names: Vec<_> = around(first).chain([first]).map(|at| upstreams[at].0).collect();
    let Some((_, span)) = upstreams[first].1 else { return };
    let error = Diagnostic::error(span, "this fallback leads back to its own upstream");
    let error = error.label(names.join(" -> "));
    to.add(error.help("name an upstream that needs none of these, or a `respond` or `file`"));
}

fn failures() -> impl Read<Value = BreakerFailures> {
    one_or_list(words(&NAMES), 0..=NAMES.len()).map(|all| {
        all.into_iter().fold(BreakerFailures::default(), |sum, one| BreakerFailures {
            connect: sum.connect || one.connect,
            timeout: sum.timeout || one.timeout,
            reset: sum.reset || one.reset,
        })
    })
}

fn check(breaker: CircuitBreaker, node: &Node, to: &mut Reading<'_>) -> Option<CircuitBreaker> {
    let error = |key: &str, message: &str| Diagnostic::error(node.key_span(key), message);
    let CircuitBreaker { failure_share, consecutive_failures, slow_share, .. } = breaker;
    let by_failures = failure_share.is_some() || consecutive_failures.is_some();
    if !by_failures && slow_share.is_none() {
        let error = Diagnostic::error(node.span, "nothing opens this circuit breaker");
        let error = error.label("every threshold is `off`");
        return to.fail(error.help(
            "set `failure_share`, `consecutive_failures` or `slow_share`, or write `circuit_breaker: off`",
        ));
    }
    if by_failures && breaker.failures == BreakerFailures::default() && breaker.statuses.is_empty()
    {
        let error = error("failures", "nothing counts as a failure");
        let error = error.label("neither `failures` nor `statuses` names any");
        return to.fail(
            error.help("name some, or have slow requests alone open it: `slow_share`, with `failure_share` and `consecutive_failures` off"),
        );
    }
    let CircuitBreaker { open_time, max_open_time, .. } = breaker;
    if open_time > max_open_time {
        let error = error("open_time", "`open_time` is longer than `max_open_time`");
        let error = error.label(format!("{open_time:?}, and at most {max_open_time:?}"));
        return to.fail(error.help("lengthen `max_open_time`, or shorten `open_time`"));
    }
    let has_shares = failure_share.is_some() || slow_share.is_some();
    let idle = [
        ("window", has_shares),
        ("min_requests", has_shares),
        ("slow_after", slow_share.is_some()),
    ];
    for entry in idle.iter().filter(|(_, is_used)| !is_used).filter_map(|(key, _)| node.entry(key))
    {
        let warning = Diagnostic::warning(entry.key_span, format!("`{}` has no effect", entry.key));
        to.add(
            warning.label("it is for a share that is `off`").help("set the share, or remove this"),
        );
    }
    Some(breaker)
}
