//! How long things took: percentiles of what has come into the buckets of a histogram between two readings.

use crate::top::reading::Buckets;

/// What has come: upper bounds of buckets in seconds, and how many were at most that.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::top) struct Durations(Vec<(f64, f64)>);

/// A percentile, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::top) enum Quantile {
    /// About that.
    About(f64),
    /// More than the last bound.
    Over(f64),
}

impl Quantile {
    /// A number to sort by.
    pub(in crate::top) fn order(self) -> f64 {
        match self {
            Quantile::About(seconds) => seconds,
            Quantile::Over(seconds) => seconds * 2.0,
        }
    }
}

impl Durations {
    /// What has come between two readings; nothing if these are not of the same buckets of one process.
    pub(super) fn between(before: &Buckets, now: &Buckets) -> Durations {
        let (before, now) = (&before.0, &now.0);
        let is_same = before.len() == now.len()
            && before.iter().zip(now).all(|((one, _), (other, _))| one == other);
        if !is_same {
            return Durations::default();
        }
        let grown =
            now.iter().zip(before).map(|((bound, now), (_, before))| (*bound, now - before));
        let grown: Vec<_> = grown.collect();
        let is_sound = grown.first().is_none_or(|(_, count)| *count >= 0.0)
            && grown.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        Durations(if is_sound { grown } else { Vec::new() })
    }

    /// All of these together, as far as they have the same buckets.
    pub(super) fn sum<'d>(all: impl Iterator<Item = &'d Durations>) -> Durations {
        let mut sum = Durations::default();
        for Durations(buckets) in all {
            if sum.0.is_empty() {
                sum.0.clone_from(buckets);
                continue;
            }
            let is_same = sum.0.len() == buckets.len()
                && sum.0.iter().zip(buckets).all(|((one, _), (other, _))| one == other);
            if is_same {
                let pairs = sum.0.iter_mut().zip(buckets);
                pairs.for_each(|((_, count), (_, more))| *count += more);
            }
        }
        sum
    }

    /// The duration that a part of all, from 0 to 1, did not exceed; nothing if there were none.
    ///
    /// Within a bucket they are taken to be spread evenly.
    pub(in crate::top) fn quantile(&self, part: f64) -> Option<Quantile> {
        let count = self.0.last()?.1;
        if count <= 0.0 {
            return None;
        }
        let rank = part * count;
        let place = self.0.iter().position(|(_, at_most)| *at_most >= rank && *at_most > 0.0)?;
        let (upper, at_most) = self.0[place];
        let (lower, less) = if place == 0 { (0.0, 0.0) } else { self.0[place - 1] };
        if upper.is_infinite() {
            return Some(Quantile::Over(lower));
        }
        let within = (at_most - less).max(f64::MIN_POSITIVE);
        Some(Quantile::About(lower + (upper - lower) * ((rank - less) / within).clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INF: f64 = f64::INFINITY;

    fn came(before: &[(f64, f64)], now: &[(f64, f64)]) -> Durations {
        Durations::between(&Buckets(before.to_vec()), &Buckets(now.to_vec()))
    }

    #[test]
    fn a_percentile_lies_within_its_bucket() {
        let zero = [(0.1, 0.0), (0.2, 0.0), (1.0, 0.0), (INF, 0.0)];
        let came = |counts: [f64; 4]| {
            let now: Vec<_> =
                zero.iter().zip(counts).map(|((it, _), count)| (*it, count)).collect();
            came(&zero, &now)
        };
        let about = |seconds| Some(Quantile::About(seconds));
        assert_eq!(came([0.0; 4]).quantile(0.5), None);
        assert_eq!(came([10.0, 10.0, 10.0, 10.0]).quantile(0.5), about(0.05));
        assert_eq!(came([0.0, 10.0, 10.0, 10.0]).quantile(0.5), about(0.15000000000000002));
        assert_eq!(came([5.0, 5.0, 10.0, 10.0]).quantile(0.5), about(0.1));
        assert_eq!(came([5.0, 5.0, 5.0, 10.0]).quantile(0.9), Some(Quantile::Over(1.0)));
        assert_eq!(came([0.0, 0.0, 0.0, 1.0]).quantile(0.01), Some(Quantile::Over(1.0)));
    }

    #[test]
    fn buckets_that_do_not_fit_show_nothing() {
        for (before, now) in [
            (&[][..], &[(0.1, 5.0), (INF, 5.0)][..]),
            (&[(0.2, 0.0), (INF, 0.0)], &[(0.1, 5.0), (INF, 5.0)]),
            // Of a process that has begun again.
            (&[(0.1, 6.0), (INF, 9.0)], &[(0.1, 5.0), (INF, 8.0)]),
            // Of none that counts right.
            (&[(0.1, 0.0), (INF, 0.0)], &[(0.1, 5.0), (INF, 4.0)]),
        ] {
            assert_eq!(came(before, now).quantile(0.5), None, "{before:?} {now:?}");
        }
    }

    proptest! {
        #[test]
        fn percentiles_grow_and_stay_in_their_bucket(
            counts in prop::collection::vec(0_u16..100, 5),
            part in 0.0..=1.0_f64,
        ) {
            let bounds = [0.01, 0.1, 1.0, 10.0, INF];
            let mut total = 0.0;
            let now: Vec<_> = bounds.iter().zip(&counts).map(|(bound, count)| {
                total += f64::from(*count);
                (*bound, total)
            }).collect();
            let zero: Vec<_> = bounds.iter().map(|bound| (*bound, 0.0)).collect();
            let came = came(&zero, &now);
            let Some(found) = came.quantile(part) else {
                prop_assert_eq!(total, 0.0);
                return Ok(());
            };
            prop_assert!(came.quantile(1.0).unwrap().order() >= found.order());
            // The naive way: one after another, in order.
            let rank = part * total;
            let bucket = now.iter().position(|(_, at_most)| *at_most >= rank && *at_most > 0.0).unwrap();
            let lower = if bucket == 0 { 0.0 } else { bounds[bucket - 1] };
            match found {
                Quantile::About(it) => prop_assert!(lower <= it && it <= bounds[bucket]),
                Quantile::Over(it) => prop_assert!(bucket == 4 && it == 10.0),
            }
        }
    }
}
