//! What a run of one gateway in one case comes to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::case::{Case, Protocol};
use crate::gateway::Engine;
use crate::sample::{Failure, Method, Sample};

/// When the load began, and from when to when there was a fault, counted from then.
pub struct Times {
    pub begin: Instant,
    pub from: Duration,
    pub to: Duration,
}

/// One gateway in one case.
pub struct Figures {
    pub engine: Engine,
    pub case: &'static Case,
    pub protocol: Protocol,
    /// Requests from the beginning of the fault to the end of the load.
    pub requests: usize,
    pub failed_gets: usize,
    pub failed_posts: usize,
    /// Requests that had failed before the fault: of a machine that is too busy.
    pub failed_before: usize,
    pub kinds: BTreeMap<Failure, usize>,
    /// Until when clients saw something of the fault: a failure, or a response that took longer than [`SLOW`].
    pub noticed: Option<Duration>,
    /// How long requests kept coming to the endpoints that fail; none if they never came, or cannot be counted.
    pub ejected: Option<Ejected>,
    /// From the end of the fault until each endpoint had answered again; none if one never did.
    pub returned: Option<Duration>,
    /// Requests that came to endpoints while the fault lasted, for each that clients sent.
    pub tries_per_request: f64,
    /// Those of them that came to endpoints that fail.
    pub wasted: usize,
    /// How long half and nearly all of the failed requests took to fail.
    pub failure_took: Option<(Duration, Duration)>,
    /// How long 99 of 100 requests took while the fault lasted.
    pub p99: Duration,
}

/// How long requests kept coming to endpoints that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ejected {
    After(Duration),
    /// They came until the fault was over.
    Never,
}

/// A response that takes longer has waited for an endpoint that is not there.
pub const SLOW: Duration = Duration::from_millis(250);
/// An endpoint to which no request comes for so long is ejected.
const QUIET: Duration = Duration::from_secs(1);

impl Figures {
    pub fn of(
        engine: Engine,
        case: &'static Case,
        protocol: Protocol,
        times: &Times,
        samples: &[Sample],
        tries: &[Vec<Instant>],
    ) -> Self {
        let Times { begin, from, to } = *times;
        let (before, after): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().partition(|it| it.sent + it.took < from);
        let during: Vec<&Sample> =
            after.iter().filter(|it| it.sent >= from && it.sent < to).copied().collect();
        let failed = |method| {
            after.iter().filter(|it| it.kind.method == method && it.outcome.is_err()).count()
        };
        let in_fault = |tries: &[Instant]| -> Vec<Duration> {
            let offsets = tries.iter().map(|at| at.duration_since(begin));
            offsets.filter(|at| *at >= from && *at < to).map(|at| at - from).collect()
        };
        let all_tries: usize = tries.iter().map(|tries| in_fault(tries).len()).sum();
        let mut wasted: Vec<Duration> =
            case.failing().flat_map(|index| in_fault(&tries[index])).collect();
        wasted.sort_unstable();
        let mut kinds = BTreeMap::new();
        after.iter().filter_map(|it| it.outcome.err()).for_each(|failure| {
            *kinds.entry(failure).or_default() += 1;
        });
        let mut failures: Vec<Duration> =
            during.iter().filter(|it| it.outcome.is_err()).map(|it| it.took).collect();
        let mut latencies: Vec<Duration> = during.iter().map(|it| it.took).collect();
        let is_seen = |it: &&&Sample| it.outcome.is_err() || it.took > SLOW;
        Self {
            engine,
            case,
            protocol,
            requests: after.len(),
            failed_gets: failed(Method::Get),
            failed_posts: failed(Method::Post),
            failed_before: before.iter().filter(|it| it.outcome.is_err()).count(),
            kinds,
            noticed: after.iter().rfind(is_seen).map(|it| (it.sent + it.took).saturating_sub(from)),
            ejected: ejected(&wasted, to - from),
            returned: returned(case, &after, to),
            tries_per_request: all_tries as f64 / during.len().max(1) as f64,
            wasted: wasted.len(),
            failure_took: quantile(&mut failures, 0.5).zip(quantile(&mut failures, 0.99)),
            p99: quantile(&mut latencies, 0.99).unwrap_or_default(),
        }
    }

    pub fn failed(&self) -> usize {
        self.failed_gets + self.failed_posts
    }
}

/// The first time after which nothing came for a while.
fn ejected(tries: &[Duration], lasted: Duration) -> Option<Ejected> {
    let next = tries.iter().skip(1).copied().chain([lasted]);
    let gap = tries.iter().zip(next).find(|(at, next)| *next - **at >= QUIET);
    let last = tries.last()?;
    Some(match gap {
        Some((at, _)) => Ejected::After(*at),
        None if lasted - *last >= QUIET => Ejected::After(*last),
        None => Ejected::Never,
    })
}

fn returned(case: &Case, samples: &[&Sample], to: Duration) -> Option<Duration> {
    let first = |index: usize| {
        let name = b'1' + index as u8;
        let answers = samples.iter().filter(|it| it.sent >= to && it.outcome == Ok(name));
        answers.map(|it| it.sent + it.took - to).min()
    };
    case.failing().map(first).try_fold(Duration::ZERO, |last, next| Some(last.max(next?)))
}

/// The duration that a share of all does not exceed.
fn quantile(durations: &mut [Duration], share: f64) -> Option<Duration> {
    durations.sort_unstable();
    let rank = (durations.len() as f64 * share).ceil() as usize;
    durations.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: &[f64]) -> Vec<Duration> {
        seconds.iter().copied().map(Duration::from_secs_f64).collect()
    }

    #[test]
    fn an_endpoint_is_ejected_when_nothing_comes_for_a_second() {
        let six = Duration::from_secs(6);
        let rows = [
            (seconds(&[]), None),
            (seconds(&[0.1, 0.5, 4.9]), Some(Ejected::After(Duration::from_millis(500)))),
            (seconds(&[0.1, 1.0, 1.9, 2.8]), Some(Ejected::After(Duration::from_millis(2800)))),
            (seconds(&[0.5, 1.4, 2.3, 3.2, 4.1, 5.0, 5.9]), Some(Ejected::Never)),
        ];
        for (tries, expected) in rows {
            assert_eq!(ejected(&tries, six), expected, "{tries:?}");
        }
    }

    #[test]
    fn quantiles_count_ranks() {
        let mut all: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(quantile(&mut all, 0.99), Some(Duration::from_millis(99)));
        assert_eq!(quantile(&mut all, 0.5), Some(Duration::from_millis(50)));
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
