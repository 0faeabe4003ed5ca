//! How long things took: percentiles of what has come into the buckets of a histogram between two readings.

use crate::top::reading::Buckets;
use titan_admin::Quantile;

/// What has come: upper bounds of buckets in seconds, and how many were at most that.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::top) struct Durations(Vec<(f64, f64)>);

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

    /// The duration that a part of all, from 0 to 1, did not exceed, in seconds; nothing if there were none.
    pub(in crate::top) fn quantile(&self, part: f64) -> Option<Quantile> {
        Quantile::of(&self.0, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    fn came(before: &[(f64, f64)], now: &[(f64, f64)]) -> Durations {
        Durations::between(&Buckets(before.to_vec()), &Buckets(now.to_vec()))
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
}
