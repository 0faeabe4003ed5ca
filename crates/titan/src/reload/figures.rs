//! What routes have counted, and whether requests fare worse than before.
//!
//! Cells of routes only ever grow, so two samples of them make a period. Durations are known by their buckets alone: a
//! 99th percentile is compared by what is certain of it, the upper bound of its bucket before and the lower one after.
//!
//! A request that has no response is not counted as one, and an upstream that never responds must not look good for that:
//! requests that had begun a while ago, and of which no response can be among those counted since, count as slow ones.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Duration;
use titan_admin::orders::Guard;
use titan_proxy::{BUCKETS, Counted, Durations, RouteCells, Scale, Status};
use tokio::time::Instant;

/// What every route that had requests has counted until then.
#[derive(Clone, Default)]
pub(super) struct Sample(HashMap<String, Tally>);

/// What one route has counted, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Requests that have begun, over or not.
    begun: u64,
    requests: u64,
    /// Of them those with a status of 500 and above.
    failed: u64,
    buckets: [u64; BUCKETS],
}

/// Samples from before, so that there is always one to compare with that is neither new nor old.
pub(super) struct Samples {
    older: (Sample, Instant),
    newer: (Sample, Instant),
}

/// How requests have fared of late.
pub(super) struct Recent {
    sample: Sample,
    /// In which time that was.
    time: Duration,
}

/// How requests fared before a change, and from where on they are counted.
pub(super) struct Baseline {
    before: Recent,
    at_change: Sample,
    /// Samples since then, the oldest first.
    since: VecDeque<(Sample, Instant)>,
    /// How long it compares.
    window: Duration,
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
    /// So many requests still wait after that time.
    Waits(u64, Duration),
}

/// That hardly any requests come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silence {
    expected: u64,
    got: u64,
}

/// What a guard has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Requests on routes that had enough of them.
    judged: u64,
    /// Requests on the others.
    others: u64,
}

/// How old the newer sample becomes before another one takes its place: what is compared with is one to two times as long.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// Fewer requests than this are not judged, and not compared with.
const REQUESTS: u64 = 100;
/// Fewer failures than this are not judged.
const FAILED: u64 = 5;
/// How many samples are kept during a comparison.
const TRAIL: u32 = 16;
/// A request that waits for less time than this does not wait for long.
const WAIT: Duration = Duration::from_secs(1);
/// A smaller rise of the share of failures is not judged: one in a hundred.
const RISE: f64 = 0.01;
/// Microseconds below which no duration is too long.
const SHORT: u64 = 10_000;
/// The class of the statuses from 500 on.
const SERVER_ERROR: usize = 5;

/// What was counted before a configuration came into force on trial, and when that was.
#[derive(Clone)]
pub(super) struct Moment(Sample, Instant);

impl Moment {
    /// This one.
    pub(super) fn now(status: &Status) -> Moment {
        Moment(Sample::take(status), Instant::now())
    }
}

impl Samples {
    /// From the start on.
    pub(super) fn new(now: Instant) -> Samples {
        Samples { older: (Sample::default(), now), newer: (Sample::default(), now) }
    }

    /// Takes another one when it is time: rarely, so that it costs nothing.
    pub(super) fn look(&mut self, status: &Status, now: Instant) {
        if now.duration_since(self.newer.1) >= PERIOD {
            self.older = std::mem::replace(&mut self.newer, (Sample::take(status), now));
        }
    }

    /// Leaves out what was counted since that moment: it was under a configuration that was taken back, and the next trial is not to be
    /// compared with that.
    pub(super) fn leave_out(&mut self, Moment(then, at): &Moment, status: &Status) {
        let (counted, time) = (Sample::take(status).since(then), at.elapsed());
        for (sample, taken) in [&mut self.older, &mut self.newer] {
            sample.add(&counted);
            *taken += time;
        }
    }

    /// How requests have fared until now.
    pub(super) fn recent(&self, status: &Status, now: Instant) -> Recent {
        let (older, taken) = &self.older;
        Recent { sample: Sample::take(status).since(older), time: now.duration_since(*taken) }
    }
}

impl Baseline {
    /// That of a change which has just been made; requests fared like that before it.
    pub(super) fn new(before: Recent, status: &Status, window: Duration) -> Baseline {
        Baseline { before, at_change: Sample::take(status), since: VecDeque::new(), window }
    }

    /// The first route on which requests fare worse by more than the guard allows, if there is one.
    pub(super) fn compare(&mut self, status: &Status, guard: Guard, now: Instant) -> Option<Worse> {
        let sample = Sample::take(status);
        let worse = self.judge(&sample, guard.factor, now);
        if self.since.back().is_none_or(|(_, at)| now.duration_since(*at) >= self.window / TRAIL) {
            self.since.push_back((sample, now));
        }
        worse
    }

    /// Whether hardly any requests have come in the whole time, where many came before.
    pub(super) fn silence(&self, status: &Status) -> Option<Silence> {
        self.silence_in(&Sample::take(status))
    }

    fn silence_in(&self, now: &Sample) -> Option<Silence> {
        let Recent { sample, time } = &self.before;
        let before = u128::from(sample.sum().requests) * self.window.as_millis();
        let expected = before.checked_div(time.as_millis()).unwrap_or_default();
        let expected = u64::try_from(expected).unwrap_or(u64::MAX);
        let after = now.since(&self.at_change).sum();
        let got = after.requests.max(after.begun);
        (expected >= REQUESTS && got < expected / 10).then_some(Silence { expected, got })
    }

    /// What it has looked at so far.
    pub(super) fn seen(&self, status: &Status) -> Seen {
        let after = Sample::take(status).since(&self.at_change);
        let sum = |is_judged: bool| {
            let requests = after.0.values().map(|tally| tally.requests);
            requests.filter(|requests| (*requests >= REQUESTS) == is_judged).sum()
        };
        Seen { judged: sum(true), others: sum(false) }
    }

    fn judge(&self, sample: &Sample, factor: f64, now: Instant) -> Option<Worse> {
        let after = sample.since(&self.at_change);
        let everything = self.before.sample.sum();
        let mut worse: Vec<Worse> = after
            .0
            .into_iter()
            .filter_map(|(route, after)| {
                let own = self.before.sample.0.get(&route).copied().unwrap_or_default();
                // A route that is new, or has been idle, is to be no worse than the gateway as a whole was.
                let is_known = own.requests >= REQUESTS;
                let before = if is_known { own } else { everything };
                let is_enough = after.requests >= REQUESTS;
                let waits = || self.waits(&route, (&before, &after), factor, now);
                let what = match () {
                    () if is_enough && fails_more(&before, &after, factor) => What::Failures,
                    () if is_enough && is_known && takes_longer(&own, &after, factor) => {
                        What::Durations
                    }
                    () => waits()?,
                };
                Some(Worse { route, what, before, after })
            })
            .collect();
        worse.sort_by(|one, other| one.route.cmp(&other.route));
        worse.into_iter().next()
    }

    /// Whether too many requests wait for longer than their slowest hundredth did.
    fn waits(
        &self,
        route: &str,
        (before, after): (&Tally, &Tally),
        factor: f64,
        now: Instant,
    ) -> Option<What> {
        let usual = Duration::from_micros(before.p99().1?);
        let time = usual.mul_f64(factor).max(WAIT);
        let is_old = |(_, at): &&(Sample, Instant)| now.duration_since(*at) >= time;
        let (sample, _) = self.since.iter().take_while(is_old).last()?;
        let begun = sample.since(&self.at_change).0.get(route).copied().unwrap_or_default().begun;
        // All that are over may be of those that had begun by then.
        let waiting = begun.saturating_sub(after.requests);
        let all = after.requests + waiting;
        (all >= REQUESTS && waiting * 100 > all).then_some(What::Waits(waiting, time))
    }
}

impl Sample {
    fn take(status: &Status) -> Sample {
        let routes = status.routes();
        let tallies = routes.iter().map(|route| (route.name().to_owned(), Tally::of(route)));
        Sample(tallies.filter(|(_, tally)| tally.begun + tally.requests > 0).collect())
    }

    fn since(&self, before: &Sample) -> Sample {
        let since = |(route, now): (&String, &Tally)| {
            let before = before.0.get(route).copied().unwrap_or_default();
            (route.clone(), now.since(&before))
        };
        Sample(self.0.iter().map(since).collect())
    }

    fn add(&mut self, other: &Sample) {
        for (route, counted) in &other.0 {
            let tally = self.0.entry(route.clone()).or_default();
            *tally = tally.plus(counted);
        }
    }

    fn sum(&self) -> Tally {
        self.0.values().fold(Tally::default(), |sum, one| sum.plus(one))
    }
}

impl Tally {
    fn of(route: &Counted<RouteCells>) -> Tally {
        let mut tally = Tally::default();
        for RouteCells { begun, classes, latency, received: _, sent: _ } in route.workers() {
            tally.begun += begun.get();
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
            begun: join(self.begun, other.begun),
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
        let lower = bucket.checked_sub(1).map_or(0, |before| Durations::BOUNDS[before]);
        (lower, Durations::BOUNDS.get(bucket).copied())
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
            What::Waits(waiting, time) => {
                let before = milliseconds(before.p99().1.unwrap_or_default());
                write!(
                    f,
                    "{waiting} requests have waited for more than {time:?}, p99 before at most {before} ms"
                )
            }
            What::Durations => {
                let ((_, before), (after, _)) = (before.p99(), after.p99());
                let [before, after] = [before.unwrap_or_default(), after].map(milliseconds);
                write!(f, "p99 above {after} ms, before at most {before} ms")
            }
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Silence { expected, got } = self;
        write!(
            f,
            "hardly any requests come any more: {got}, and about {expected} came before in that time"
        )
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen { judged: 0, others } => {
                write!(
                    f,
                    "its guard has had too few requests to judge by: {others}, and it needs {REQUESTS} on a route"
                )
            }
            Seen { judged, others: 0 } => {
                write!(f, "its guard has found nothing worse in {judged} requests")
            }
            Seen { judged, others } => write!(
                f,
                "its guard has found nothing worse in {judged} requests; {others} were on routes with too few to judge by"
            ),
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
        let bucket = Durations::BOUNDS.iter().position(|&bound| micros <= bound);
        buckets[bucket.unwrap_or(BUCKETS - 1)] = requests;
        Tally { begun: requests, requests, failed, buckets }
    }

    const WINDOW: Duration = Duration::from_secs(60);

    /// A change after ten minutes in which requests fared like that.
    fn changed(before: &Sample) -> Baseline {
        let recent = Recent { sample: before.clone(), time: 10 * WINDOW };
        let (at_change, since) = (before.clone(), VecDeque::new());
        Baseline { before: recent, at_change, since, window: WINDOW }
    }

    /// What a guard says whose window is nearly over.
    fn judged(baseline: &Baseline, now: &Sample) -> Option<String> {
        let worse = baseline.judge(now, 2.0, Instant::now() + WINDOW);
        worse.map(|worse| worse.to_string())
    }

    fn sample(routes: &[(&str, Tally)]) -> Sample {
        Sample(routes.iter().map(|(name, tally)| ((*name).to_owned(), *tally)).collect())
    }

    /// What is said where `a` had the first before and the second after a change.
    fn told(before: Tally, after: Tally) -> Option<String> {
        let before = sample(&[("a", before)]);
        let now = sample(&[("a", before.0["a"].plus(&after))]);
        judged(&changed(&before), &now)
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
        let baseline = changed(&before);
        let now = |failed| sample(&[("a", before.0["a"]), ("b", tally(100, failed, 2_000_000))]);
        assert_eq!(judged(&baseline, &now(60)), None);
        assert!(judged(&baseline, &now(61)).is_some());
        let nothing = changed(&Sample::default());
        assert!(judged(&nothing, &sample(&[("b", tally(100, 5, 400))])).is_some());
        assert_eq!(judged(&nothing, &sample(&[("b", tally(100, 0, 2_000_000))])), None);
    }

    #[test]
    fn cells_that_began_again_count_from_zero() {
        let before = sample(&[("a", tally(1000, 0, 400))]);
        assert_eq!(judged(&changed(&before), &sample(&[("a", tally(500, 500, 400))])), None);
    }

    /// What a guard says of requests of which so many had begun at each of these moments, in seconds, while so many were over at
    /// the end.
    fn waited(begun: &[(u64, u64)], over: u64) -> Option<String> {
        let (start, before) = (Instant::now(), sample(&[("a", tally(1000, 0, 400_000))]));
        let at = |begun: u64, over: u64| {
            let after = Tally { begun, ..tally(over, 0, 400_000) };
            sample(&[("a", before.0["a"].plus(&after))])
        };
        let mut baseline = changed(&before);
        let since = begun
            .iter()
            .map(|&(second, begun)| (at(begun, 0), start + Duration::from_secs(second)));
        baseline.since = since.collect();
        let worse = baseline.judge(&at(begun.last().unwrap().1, over), 2.0, start + WINDOW);
        worse.map(|worse| worse.to_string())
    }

    #[test]
    fn requests_that_get_no_response_are_told() {
        let told = waited(&[(0, 0), (30, 150), (60, 300)], 0);
        let text =
            "route `a`: 150 requests have waited for more than 1s, p99 before at most 500 ms";
        assert_eq!(told.as_deref(), Some(text));
        assert!(waited(&[(30, 300), (60, 600)], 290).is_some(), "more than one of a hundred");
        assert_eq!(waited(&[(30, 300), (60, 600)], 298), None);
        assert_eq!(waited(&[(30, 99), (60, 300)], 0), None, "too few");
        assert_eq!(waited(&[(59, 300)], 0).as_deref(), Some(text.replace("150", "300").as_str()));
        assert_eq!(waited(&[(60, 300)], 0), None, "they have only begun");
    }

    #[test]
    fn silence_is_told_where_there_were_many_requests() {
        let silence = |before: u64, after: u64| {
            let before = sample(&[("a", tally(before, 0, 400))]);
            let after = sample(&[("a", before.0["a"].plus(&tally(after, 0, 400)))]);
            changed(&before).silence_in(&after).map(|silence| silence.to_string())
        };
        let text = "hardly any requests come any more: 9, and about 100 came before in that time";
        assert_eq!(silence(1000, 9).as_deref(), Some(text));
        assert_eq!([silence(1000, 10), silence(999, 0)], [None, None]);
    }
}
