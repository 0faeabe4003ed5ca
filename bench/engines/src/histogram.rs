//! Latencies in buckets that grow with the value: at most 1.6 % wrong, at any length.

use std::time::Duration;

/// Each power of two is cut into so many buckets.
const STEPS: u64 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Enough for every `u64` of nanoseconds.
const BUCKETS: usize = (65 - STEP_BITS as usize) * STEPS as usize;

/// Counts of durations, in nanoseconds.
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
    }

    /// The duration that a share of all (0.0 to 1.0) does not exceed; zero when there is none.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(lower_bound(index));
            }
        }
        Duration::ZERO
    }
}

/// Below [`STEPS`] a bucket per value; above, the leading bits after the first one choose the bucket.
fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let exponent = value.ilog2() - STEP_BITS;
    ((u64::from(exponent) + 1) * STEPS + (value >> exponent) - STEPS) as usize
}

fn lower_bound(index: usize) -> u64 {
    let index = index as u64;
    if index < STEPS {
        return index;
    }
    (STEPS + index % STEPS) << (index / STEPS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_starts_at_most_one_part_in_sixty_four_below_its_values() {
        let values = (0..63).flat_map(|bits| [(1_u64 << bits), (1 << bits) + 1, (2 << bits) - 1]);
        for value in values {
            let bound = lower_bound(bucket(value));
            assert!(bound <= value && value - bound <= value / STEPS, "{value}: {bound}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_count_ranks() {
        let mut histogram = Histogram::default();
        for micros in 1..=100 {
            histogram.record(Duration::from_micros(micros));
        }
        let p99 = histogram.quantile(0.99).as_micros();
        assert!((97..=99).contains(&p99), "{p99}");
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }
}
