//! What is counted of routes and upstreams, added up over all workers, and what follows from the difference of two such counts.

use crate::quantile::Quantile;
use titan_proxy::{
    BUCKETS, Counted, Counter, Durations, Histogram, RouteCells, Scale, UpstreamCells,
};

/// Counts that only grow.
pub(super) trait Count: Clone {
    /// What has come since `before`; nothing if these are the counts of another thing of that name, which began again.
    fn since(&self, before: &Self) -> Option<Self>;
}

/// Of a route: complete requests, and how long they took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) requests: u64,
    /// Those with a 5xx, and those without a complete response.
    pub(super) errors: u64,
    /// Those with a 4xx.
    pub(super) client_errors: u64,
    /// Bytes of responses.
    pub(super) sent: u64,
    pub(super) took: Buckets,
}

/// Of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UpstreamTally {
    pub(super) attempts: u64,
    pub(super) failures: u64,
    pub(super) connect: Buckets,
    pub(super) first_byte: Buckets,
}

/// How many durations fell into each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buckets([u64; BUCKETS]);

/// What a route did in some time; what is not known is NaN, which JSON has as `null`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// A second.
    pub(super) rate: f32,
    pub(super) errors: f32,
    pub(super) client_errors: f32,
    /// Seconds.
    pub(super) quantiles: [f32; QUANTILES.len()],
}

/// The percentiles that are shown of routes.
pub(super) const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

impl Tally {
    pub(super) fn of(route: &Counted<RouteCells>) -> Tally {
        let mut sum = Tally::default();
        for RouteCells { begun: _, classes, latency, received: _, sent } in route.workers() {
            let classes = classes.each_ref().map(Counter::get);
            sum.requests += classes.iter().sum::<u64>();
            sum.errors += classes[0] + classes[5];
            sum.client_errors += classes[4];
            sum.sent = sum.sent.wrapping_add(sent.sum());
            sum.took.add_all(latency);
        }
        sum
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.client_errors += other.client_errors;
        self.sent = self.sent.wrapping_add(other.sent);
        self.took.0.iter_mut().zip(other.took.0).for_each(|(sum, count)| *sum += count);
    }

    /// What these mean where they came in so many seconds.
    pub(super) fn point(&self, seconds: f64) -> Point {
        let a_second = |count: u64| as_figure(count) / seconds;
        let [rate, errors, client_errors] =
            [self.requests, self.errors, self.client_errors].map(|it| narrow(a_second(it)));
        let quantiles = self.took.quantiles(QUANTILES);
        let quantiles = quantiles.map(|it| it.map_or(f32::NAN, narrow));
        Point { rate, errors, client_errors, quantiles }
    }
}

impl Count for Tally {
    fn since(&self, before: &Tally) -> Option<Tally> {
        Some(Tally {
            requests: self.requests.checked_sub(before.requests)?,
            errors: self.errors.checked_sub(before.errors)?,
            client_errors: self.client_errors.checked_sub(before.client_errors)?,
            sent: self.sent.wrapping_sub(before.sent),
            took: self.took.since(&before.took)?,
        })
    }
}

impl UpstreamTally {
    pub(super) fn of(upstream: &Counted<UpstreamCells>) -> UpstreamTally {
        let mut sum = UpstreamTally::default();
        for cells in upstream.workers() {
            sum.attempts += cells.attempts.get();
            sum.failures += cells.failures.get();
            sum.connect.add_all(&cells.connect);
            sum.first_byte.add_all(&cells.first_byte);
        }
        sum
    }
}

impl Count for UpstreamTally {
    fn since(&self, before: &UpstreamTally) -> Option<UpstreamTally> {
        Some(UpstreamTally {
            attempts: self.attempts.checked_sub(before.attempts)?,
            failures: self.failures.checked_sub(before.failures)?,
            connect: self.connect.since(&before.connect)?,
            first_byte: self.first_byte.since(&before.first_byte)?,
        })
    }
}

impl<const N: usize> Count for [u64; N] {
    fn since(&self, before: &[u64; N]) -> Option<[u64; N]> {
        let mut grown = *self;
        for (count, before) in grown.iter_mut().zip(before) {
            *count = count.checked_sub(*before)?;
        }
        Some(grown)
    }
}

impl Count for Vec<u64> {
    fn since(&self, before: &Vec<u64>) -> Option<Vec<u64>> {
        self.iter().zip(before).map(|(count, before)| count.checked_sub(*before)).collect()
    }
}

impl Buckets {
    fn add_all(&mut self, histogram: &Histogram<Durations>) {
        self.0.iter_mut().zip(histogram.buckets()).for_each(|(sum, count)| *sum += count);
    }

    fn since(&self, before: &Buckets) -> Option<Buckets> {
        self.0.since(&before.0).map(Buckets)
    }

    /// Seconds; of those beyond the last bound at least that.
    pub(super) fn quantiles<const N: usize>(&self, parts: [f64; N]) -> [Option<f64>; N] {
        let bounds = Durations::BOUNDS.into_iter().map(|micros| as_figure(micros) / 1e6);
        let mut at_most = 0;
        let buckets = bounds.chain([f64::INFINITY]).zip(self.0).map(|(bound, count)| {
            at_most += count;
            (bound, as_figure(at_most))
        });
        let buckets: Vec<_> = buckets.collect();
        parts.map(|part| Quantile::of(&buckets, part).map(Quantile::at_least))
    }
}

impl Point {
    pub(super) const UNKNOWN: Point = Point {
        rate: f32::NAN,
        errors: f32::NAN,
        client_errors: f32::NAN,
        quantiles: [f32::NAN; QUANTILES.len()],
    };
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(super) fn as_figure(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, reason = "a figure for people")]
fn narrow(figure: f64) -> f32 {
    figure as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_becomes_rates_and_percentiles() {
        let before = Tally { requests: 10, errors: 1, ..Tally::default() };
        let mut now = Tally { requests: 110, errors: 3, client_errors: 4, ..Tally::default() };
        now.took.0[1] = 100;
        let grown = now.since(&before).unwrap();
        let Point { rate, errors, client_errors, quantiles } = grown.point(2.0);
        assert_eq!([rate, errors, client_errors], [50.0, 1.0, 2.0]);
        assert_eq!(quantiles.map(|it| (it * 1e6).round()), [375.0, 475.0, 498.0]);
        assert_eq!(before.since(&now), None, "another one of that name");
        let nothing = Tally::default().point(2.0);
        assert!(nothing.rate == 0.0 && nothing.quantiles.iter().all(|it| it.is_nan()));
    }

    #[test]
    fn what_took_longer_than_the_last_bound_took_at_least_that() {
        let mut took = Buckets::default();
        took.0[BUCKETS - 1] = 1;
        assert_eq!(took.quantiles([0.5]), [Some(10.0)]);
    }
}
