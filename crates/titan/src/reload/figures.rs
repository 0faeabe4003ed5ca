//! What routes have counted, and whether requests fare worse than before.
//!
//! Cells of routes only ever grow, so two samples of them make a period. Durations are known by their buckets alone: a
//! 99th percentile is compared by what is certain of it, the upper bound of its bucket before and the lower one after.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;
use titan_admin::orders::Guard;
use titan_proxy::{Counted, Histogram, RouteCells, Status};
use tokio::time::Instant;

/// What every route that had requests has counted until then.
#[derive(Clone, Default)]
pub(super) struct Sample(HashMap<String, Tally>);

/// What one route has counted, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    requests: u64,
    /// Of them those with a status of 500 and above.
    failed: u64,
    buckets: [u64; BUCKETS],
}

/// Samples from before, so that there is always one to compare with that is neither new nor old.
pub(super) struct Samples {
    older: Sample,
    newer: Sample,
    /// When the newer one was taken.
    taken: Instant,
}

/// How requests fared before a change, and from where on they are counted.
pub(super) struct Baseline {
    before: Sample,
    at_change: Sample,
}

/// A route on which requests fare worse.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Worse {
    route: String,
    what: What,
    before: Tally,
    after: Tally,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Failures,
    Durations,
}

const BUCKETS: usize = Histogram::BOUNDS.len() + 1;
/// How old the newer sample becomes before another one takes its place: what is compared with is one to two times as long.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// Fewer requests than this are not judged, and not compared with.
const REQUESTS: u64 = 100;
/// Fewer failures than this are not judged.
const FAILED: u64 = 5;
/// A smaller rise of the share of failures is not judged: one in a hundred.
const RISE: f64 = 0.01;
/// Microseconds below which no duration is too long.
const SHORT: u64 = 10_000;
/// The class of the statuses from 500 on.
const SERVER_ERROR: usize = 5;

impl Samples {
    /// From the start on.
    pub(super) fn new(now: Instant) -> Samples {
        Samples { older: Sample::default(), newer: Sample::default(), taken: now }
    }

    /// Takes another one when it is time: rarely, so that it costs nothing.
    pub(super) fn look(&mut self, status: &Status, now: Instant) {
        if now.duration_since(self.taken) >= PERIOD {
            self.older = std::mem::replace(&mut self.newer, Sample::take(status));
            self.taken = now;
        }
    }

    /// How requests have fared until now.
    pub(super) fn recent(&self, status: &Status) -> Sample {
        Sample::take(status).since(&self.older)
    }
}

impl Baseline {
    /// That of a change which has just been made; requests fared like that before it.
    pub(super) fn new(before: Sample, status: &Status) -> Baseline {
        Baseline { before, at_change: Sample::take(status) }
    }

    /// The first route on which requests fare worse by more than the guard allows, if there is one.
    pub(super) fn compare(&self, status: &Status, guard: Guard) -> Option<Worse> {
        self.judge(&Sample::take(status), guard.factor)
    }

    fn judge(&self, now: &Sample, factor: f64) -> Option<Worse> {
        let after = now.since(&self.at_change);
        let everything = self.before.sum();
        let mut worse: Vec<Worse> = after
            .0
            .into_iter()
            .filter(|(_, after)| after.requests >= REQUESTS)
            .filter_map(|(route, after)| {
                let own = self.before.0.get(&route).copied().unwrap_or_default();
                // A route that is new, or has been idle, is to be no worse than the gateway as a whole was.
                let before = if own.requests >= REQUESTS { own } else { everything };
                let what = match (fails_more(&before, &after, factor), own.requests >= REQUESTS) {
                    (true, _) => What::Failures,
                    (false, true) if takes_longer(&own, &after, factor) => What::Durations,
                    (false, _) => return None,
                };
                Some(Worse { route, what, before, after })
            })
            .collect();
        worse.sort_by(|one, other| one.route.cmp(&other.route));
        worse.into_iter().next()
    }
}

impl Sample {
    fn take(status: &Status) -> Sample {
        let routes = status.routes();
        let tallies = routes.iter().map(|route| (route.name().to_owned(), Tally::of(route)));
        Sample(tallies.filter(|(_, tally)| tally.requests > 0).collect())
    }

    fn since(&self, before: &Sample) -> Sample {
        let since = |(route, now): (&String, &Tally)| {
            let before = before.0.get(route).copied().unwrap_or_default();
            (route.clone(), now.since(&before))
        };
        Sample(self.0.iter().map(since).collect())
    }

    fn sum(&self) -> Tally {
        self.0.values().fold(Tally::default(), |sum, one| sum.plus(one))
    }
}

impl Tally {
    fn of(route: &Counted<RouteCells>) -> Tally {
        let mut tally = Tally::default();
        for RouteCells { classes, latency } in route.workers() {
            tally.requests += classes.iter().map(titan_proxy::Counter::get).sum::<u64>();
            tally.failed += classes[SERVER_ERROR].get();
            let buckets = tally.buckets.iter_mut().zip(latency.buckets());
            buckets.for_each(|(sum, bucket)| *sum += bucket);
        }
        tally
    }

    /// Cells of a route that was gone for a while begin at zero.
    fn since(&self, before: &Tally) -> Tally {
        self.with(before, u64::saturating_sub)
    }

    fn plus(&self, other: &Tally) -> Tally {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &Tally, join: fn(u64, u64) -> u64) -> Tally {
        let mut joined = Tally {
            requests: join(self.requests, other.requests),
            failed: join(self.failed, other.failed),
            buckets: self.buckets,
        };
        let buckets = joined.buckets.iter_mut().zip(other.buckets);
        buckets.for_each(|(own, other)| *own = join(*own, other));
        joined
    }

    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    fn share_failed(&self) -> f64 {
        match self.requests {
            0 => 0.0,
            requests => self.failed as f64 / requests as f64,
        }
    }

    /// The bounds of the bucket that holds the 99th percentile, in microseconds; the last one has no upper bound.
    fn p99(&self) -> (u64, Option<u64>) {
        let all: u64 = self.buckets.iter().sum();
        let rank = all - all / 100;
        let mut below = 0;
        let bucket = self.buckets.iter().position(|count| {
            below += count;
            below >= rank
        });
        let bucket = bucket.unwrap_or(0);
        let lower = bucket.checked_sub(1).map_or(0, |before| Histogram::BOUNDS[before]);
        (lower, Histogram::BOUNDS.get(bucket).copied())
    }
}

fn fails_more(before: &Tally, after: &Tally, factor: f64) -> bool {
    let (before, share) = (before.share_failed(), after.share_failed());
    after.failed >= FAILED && share > before * factor && share - before >= RISE
}

#[expect(clippy::cast_precision_loss, reason = "the bounds of buckets are small numbers")]
fn takes_longer(before: &Tally, after: &Tally, factor: f64) -> bool {
    let ((_, before), (after, _)) = (before.p99(), after.p99());
    before.is_some_and(|before| after >= SHORT && after as f64 > before as f64 * factor)
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Worse { route, what, before, after } = self;
        write!(f, "route `{route}`: ")?;
        match what {
            What::Failures => {
                let of = |tally: &Tally| {
                    format!("{:.1} % of {} requests", tally.share_failed() * 100.0, tally.requests)
                };
                write!(f, "5xx {}, before {}", of(after), of(before))
            }
            What::Durations => {
                let ((_, before), (after, _)) = (before.p99(), after.p99());
                let [before, after] = [before.unwrap_or_default(), after].map(milliseconds);
                write!(f, "p99 above {after} ms, before at most {before} ms")
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "the bounds of buckets are small numbers")]
fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many requests, so many of them failed, each of which took that many microseconds.
    fn tally(requests: u64, failed: u64, micros: u64) -> Tally {
        let mut buckets = [0; BUCKETS];
        let bucket = Histogram::BOUNDS.iter().position(|&bound| micros <= bound);
        buckets[bucket.unwrap_or(BUCKETS - 1)] = requests;
        Tally { requests, failed, buckets }
    }

    fn sample(routes: &[(&str, Tally)]) -> Sample {
        Sample(routes.iter().map(|(name, tally)| ((*name).to_owned(), *tally)).collect())
    }

    /// What is said where `a` had the first before and the second after a change.
    fn told(before: Tally, after: Tally) -> Option<String> {
        let before = sample(&[("a", before)]);
        let at_change = before.clone();
        let now = sample(&[("a", before.0["a"].plus(&after))]);
        let baseline = Baseline { before, at_change };
        baseline.judge(&now, 2.0).map(|worse| worse.to_string())
    }

    #[test]
    fn more_failures_than_before_are_told_with_the_figures() {
        let told = told(tally(1000, 10, 400), tally(200, 50, 400));
        assert_eq!(
            told.as_deref(),
            Some("route `a`: 5xx 25.0 % of 200 requests, before 1.0 % of 1000 requests")
        );
    }

    #[test]
    fn a_few_failures_are_no_verdict() {
        for (before, after) in [
            // Too few requests, too few failures, too small a rise, not twice as many.
            (tally(1000, 0, 400), tally(99, 99, 400)),
            (tally(1000, 0, 400), tally(100, 4, 400)),
            (tally(100_000, 0, 400), tally(100_000, 900, 400)),
            (tally(1000, 100, 400), tally(1000, 200, 400)),
        ] {
            assert_eq!(told(before, after), None, "{before:?} {after:?}");
        }
        assert!(told(tally(1000, 0, 400), tally(100, 5, 400)).is_some());
    }

    #[test]
    fn longer_durations_are_told_when_that_is_certain() {
        let verdict = told(tally(1000, 0, 20_000), tally(100, 0, 70_000));
        assert_eq!(verdict, None, "25 ms may have become 50 ms");
        let verdict = told(tally(1000, 0, 20_000), tally(100, 0, 150_000));
        assert_eq!(verdict.as_deref(), Some("route `a`: p99 above 100 ms, before at most 25 ms"));
        assert_eq!(told(tally(1000, 0, 200), tally(100, 0, 9_000)), None, "that is short");
        assert_eq!(told(tally(99, 0, 200), tally(100, 0, 2_000_000)), None, "too few before");
        assert_eq!(told(tally(1000, 0, 20_000_000), tally(100, 0, 20_000_000)), None);
    }

    #[test]
    fn the_99th_percentile_is_the_bucket_that_99_of_100_reach() {
        let mut durations = tally(99, 0, 400);
        durations.buckets[10] = 1;
        assert_eq!(durations.p99(), (250, Some(500)));
        durations.buckets[10] = 2;
        assert_eq!(durations.p99(), (250_000, Some(500_000)));
        assert_eq!(tally(100, 0, u64::MAX).p99(), (10_000_000, None));
        assert_eq!(Tally::default().p99(), (0, Some(250)));
    }

    #[test]
    fn a_new_route_is_to_be_no_worse_than_all_were() {
        let before = sample(&[("a", tally(1000, 300, 400))]);
        let baseline = Baseline { before: before.clone(), at_change: before.clone() };
        let now = |failed| sample(&[("a", before.0["a"]), ("b", tally(100, failed, 2_000_000))]);
        assert_eq!(baseline.judge(&now(60), 2.0), None);
        assert!(baseline.judge(&now(61), 2.0).is_some());
        let nothing = Baseline { before: Sample::default(), at_change: Sample::default() };
        assert!(nothing.judge(&sample(&[("b", tally(100, 5, 400))]), 2.0).is_some());
        assert_eq!(nothing.judge(&sample(&[("b", tally(100, 0, 2_000_000))]), 2.0), None);
    }

    #[test]
    fn cells_that_began_again_count_from_zero() {
        let before = sample(&[("a", tally(1000, 0, 400))]);
        let baseline = Baseline { before: before.clone(), at_change: before };
        assert_eq!(baseline.judge(&sample(&[("a", tally(500, 500, 400))]), 2.0), None);
    }
}
