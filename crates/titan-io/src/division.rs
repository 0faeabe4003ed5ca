//! How a scale is divided more finely than by the buckets of a histogram: so that those of a native histogram of Prometheus can be
//! told as well, whose bounds are powers of two.
//!
//! A part ends wherever a bucket of either kind ends. What is counted by parts therefore makes up both, and is one count in both.

/// The buckets of a native histogram: each bound is the one before, times 2 to the power of 2 to the power of -`schema`.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    /// A doubling has 2 to the power of this many buckets.
    pub schema: u8,
    /// The power of two up to which everything falls into the zero bucket.
    pub lowest: i32,
    /// The power of two beyond which one more bucket takes everything.
    pub highest: i32,
    /// These are powers of the unit that is shown. How much of what is counted in makes one?
    pub per: f64,
}

/// A scale, divided.
#[derive(Debug)]
pub struct Division {
    /// The last value of each part; of the last one it is the last that there is.
    ends: Box<[u64]>,
    /// The bucket of a histogram that each part lies in.
    buckets: Box<[usize]>,
    /// The bucket of a native histogram that each part lies in; none for the zero bucket.
    natives: Box<[Option<i32>]>,
    /// By the number of bits of a value: the first part that it can be in.
    first: [usize; 65],
    /// By bucket: the part for what is known by its bucket alone.
    whole: Box<[usize]>,
}

impl Exponential {
    /// The upper bound of the bucket with that index, in the unit that is shown. It belongs to the bucket.
    pub fn bound(&self, index: i32) -> f64 {
        let of_doubling = 1 << self.schema;
        let (doubling, step) = (index.div_euclid(of_doubling), index.rem_euclid(of_doubling));
        // Powers of two are exact that way: whole numbers lie on no other bounds.
        (f64::from(step) / f64::from(of_doubling)).exp2() * 2_f64.powi(doubling)
    }

    /// Up to where the zero bucket reaches, in the unit that is shown.
    pub fn zero_threshold(&self) -> f64 {
        self.bound(self.index(self.lowest))
    }

    /// The index of the bucket that ends with `lowest` or `highest`.
    fn index(&self, doubling: i32) -> i32 {
        doubling << self.schema
    }

    /// The last value in the bucket with that index, in what is counted in.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is behind the point is above the bound"
    )]
    fn last(&self, index: i32) -> u64 {
        (self.bound(index) * self.per) as u64
    }
}

impl Division {
    /// That of a scale whose buckets have these bounds.
    pub fn new(bounds: &[u64], exponential: Exponential) -> Division {
        let Exponential { lowest, highest, .. } = exponential;
        let [lowest, highest] = [lowest, highest].map(|doubling| exponential.index(doubling));
        let lasts: Vec<_> = (lowest..=highest).map(|index| exponential.last(index)).collect();
        let mut ends = [&lasts, bounds, &[u64::MAX]].concat();
        ends.sort_unstable();
        ends.dedup();
        let index = |end| match lasts.partition_point(|last| last < end) {
            0 => None,
            above => i32::try_from(above).ok().map(|above| lowest + above),
        };
        let before = |value: u64| ends.partition_point(|end| *end < value);
        let beyond = bounds.last().map_or(0, |last| before(last + 1));
        Division {
            buckets: ends.iter().map(|end| bounds.partition_point(|bound| bound < end)).collect(),
            natives: ends.iter().map(index).collect(),
            first: std::array::from_fn(|bits| {
                before(bits.checked_sub(1).map_or(0, |bit| 1 << bit))
            }),
            whole: bounds.iter().map(|bound| before(*bound)).chain([beyond]).collect(),
            ends: ends.into(),
        }
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.ends.len()
    }

    /// The part that a value is in.
    pub fn part(&self, value: u64) -> usize {
        let bits = u64::BITS - value.leading_zeros();
        let mut part = self.first[bits as usize];
        while self.ends[part] < value {
            part += 1;
        }
        part
    }

    /// The bucket of a histogram that a part lies in.
    pub fn bucket(&self, part: usize) -> usize {
        self.buckets[part]
    }

    /// The part that stands for a whole bucket: the one at its upper bound, and beyond the last bound the one that follows it.
    pub fn whole(&self, bucket: usize) -> usize {
        self.whole[bucket]
    }

    /// The index of the bucket of a native histogram that a part lies in; none for the zero bucket.
    pub fn native(&self, part: usize) -> Option<i32> {
        self.natives[part]
    }
}

#[cfg(test)]
mod tests {
    use crate::counter::{BUCKETS, Durations, Scale, Sizes};
    use proptest::prelude::*;

    /// What Prometheus says of the bucket that a value is in, tried one after the other.
    fn native<S: Scale>(value: f64) -> Option<i32> {
        let it = S::EXPONENTIAL;
        let [lowest, highest] = [it.lowest, it.highest].map(|doubling| doubling << it.schema);
        let growth = |index| 2_f64.powf(f64::from(index) / f64::from(1 << it.schema));
        match value <= growth(lowest) {
            true => None,
            false => (lowest + 1..=highest).chain([highest + 1]).find(|index| {
                *index > highest || value > growth(index - 1) && value <= growth(*index)
            }),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no bound is so near to such a number")]
    fn agrees<S: Scale>(value: u64) {
        let (division, shown) = (S::division(), value as f64 / S::EXPONENTIAL.per);
        let part = division.part(value);
        assert_eq!(division.native(part), native::<S>(shown), "{value}");
        let bucket = S::BOUNDS.iter().position(|bound| value <= *bound);
        assert_eq!(division.bucket(part), bucket.unwrap_or(BUCKETS - 1), "{value}");
    }

    fn both(value: u64) {
        agrees::<Durations>(value);
        agrees::<Sizes>(value);
    }

    proptest! {
        #[test]
        fn a_value_is_in_the_buckets_that_its_definition_says(bits in 0_u32..64, low: u64) {
            both((1 << bits) | (low & ((1 << bits) - 1)));
        }
    }

    #[test]
    fn so_are_those_next_to_a_bound() {
        let of = |division: &super::Division| division.ends.to_vec();
        for end in [of(Durations::division()), of(Sizes::division())].concat() {
            for value in [end.saturating_sub(1), end, end.saturating_add(1)] {
                both(value);
            }
        }
        both(0);
    }

    /// Bounds are computed: none may be so near to a whole number that the last digit of one decides.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "small enough")]
    fn no_bound_is_where_its_last_digit_decides() {
        for it in [Durations::EXPONENTIAL, Sizes::EXPONENTIAL] {
            for index in it.index(it.lowest)..=it.index(it.highest) {
                let bound = it.bound(index) * it.per;
                let is_exact = index.rem_euclid(1 << it.schema) == 0;
                let distance = (bound - bound.round()).abs() / bound;
                assert!(is_exact || distance > 1e-13, "{index}: {bound}");
                assert!(it.last(index) as f64 <= bound, "{index}");
            }
        }
    }

    #[test]
    fn what_is_known_by_its_bucket_alone_has_a_part_in_it() {
        fn check<S: Scale>() {
            let division = S::division();
            for (bucket, bound) in S::BOUNDS.into_iter().enumerate() {
                assert_eq!(division.whole(bucket), division.part(bound));
                assert_eq!(division.bucket(division.whole(bucket)), bucket);
            }
            let beyond = division.part(S::BOUNDS[BUCKETS - 2] + 1);
            assert_eq!(division.whole(BUCKETS - 1), beyond);
        }
        check::<Durations>();
        check::<Sizes>();
        assert_eq!([Durations::division().parts(), Sizes::division().parts()], [251, 80]);
    }
}
