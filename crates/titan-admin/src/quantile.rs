//! Percentiles of what is known by the buckets of a histogram alone.

/// A percentile, in the unit of the bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantile {
    /// About that.
    About(f64),
    /// More than the last bound.
    Over(f64),
}

impl Quantile {
    /// What a part of all, from 0 to 1, did not exceed; nothing if there were none. `buckets` are upper bounds, and how many were at
    /// most that; the last bound is infinite.
    ///
    /// Within a bucket they are taken to be spread evenly.
    pub fn of(buckets: &[(f64, f64)], part: f64) -> Option<Quantile> {
        let count = buckets.last()?.1;
        if count <= 0.0 {
            return None;
        }
        let rank = part * count;
        let place = buckets.iter().position(|(_, at_most)| *at_most >= rank && *at_most > 0.0)?;
        let (upper, at_most) = buckets[place];
        let (lower, less) = if place == 0 { (0.0, 0.0) } else { buckets[place - 1] };
        if upper.is_infinite() {
            return Some(Quantile::Over(lower));
        }
        let within = (at_most - less).max(f64::MIN_POSITIVE);
        Some(Quantile::About(lower + (upper - lower) * ((rank - less) / within).clamp(0.0, 1.0)))
    }

    /// A number to sort by.
    pub fn order(self) -> f64 {
        match self {
            Quantile::About(value) => value,
            Quantile::Over(value) => value * 2.0,
        }
    }

    /// That, or the last bound.
    pub fn at_least(self) -> f64 {
        let (Quantile::About(value) | Quantile::Over(value)) = self;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn a_percentile_lies_within_its_bucket() {
        let of = |counts: [f64; 4], part: f64| {
            let bounds = [0.1, 0.2, 1.0, INF];
            let buckets: Vec<_> = bounds.into_iter().zip(counts).collect();
            Quantile::of(&buckets, part)
        };
        let about = |seconds| Some(Quantile::About(seconds));
        assert_eq!(of([0.0; 4], 0.5), None);
        assert_eq!(of([10.0, 10.0, 10.0, 10.0], 0.5), about(0.05));
        assert_eq!(of([0.0, 10.0, 10.0, 10.0], 0.5), about(0.15000000000000002));
        assert_eq!(of([5.0, 5.0, 10.0, 10.0], 0.5), about(0.1));
        assert_eq!(of([5.0, 5.0, 5.0, 10.0], 0.9), Some(Quantile::Over(1.0)));
        assert_eq!(of([0.0, 0.0, 0.0, 1.0], 0.01), Some(Quantile::Over(1.0)));
        assert_eq!(Quantile::of(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn percentiles_grow_and_stay_in_their_bucket(
            counts in prop::collection::vec(0_u16..100, 5),
            part in 0.0..=1.0_f64,
        ) {
            let bounds = [0.01, 0.1, 1.0, 10.0, INF];
            let mut total = 0.0;
            let buckets: Vec<_> = bounds.iter().zip(&counts).map(|(bound, count)| {
                total += f64::from(*count);
                (*bound, total)
            }).collect();
            let Some(found) = Quantile::of(&buckets, part) else {
                prop_assert_eq!(total, 0.0);
                return Ok(());
            };
            prop_assert!(Quantile::of(&buckets, 1.0).unwrap().order() >= found.order());
            // The naive way: one after another, in order.
            let rank = part * total;
            let bucket = buckets.iter().position(|(_, at_most)| *at_most >= rank && *at_most > 0.0).unwrap();
            let lower = if bucket == 0 { 0.0 } else { bounds[bucket - 1] };
            match found {
                Quantile::About(it) => prop_assert!(lower <= it && it <= bounds[bucket]),
                Quantile::Over(it) => prop_assert!(bucket == 4 && it == 10.0),
            }
        }
    }
}
