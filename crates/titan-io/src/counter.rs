//! Numbers that one thread counts and anybody may read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows. One thread writes it.
#[derive(Default)]
pub struct Counter(AtomicU64);

/// Durations, sorted into buckets.
#[derive(Default)]
pub struct Histogram {
    /// By the bounds of [`Histogram::BOUNDS`]; the last one has none.
    buckets: [Counter; Histogram::BOUNDS.len() + 1],
    micros: Counter,
}

impl Counter {
    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Only the worker that the cell belongs to may call this: it is a load and a store.
    pub fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// The same for a number that is known as a whole.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}

impl Histogram {
    /// The upper bounds of the buckets, in microseconds.
    pub const BOUNDS: [u64; 14] = [
        250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
        1_000_000, 2_500_000, 10_000_000,
    ];

    /// How many durations fell into each bucket; the last one has no upper bound.
    pub fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(Counter::get)
    }

    /// The sum of all durations in microseconds.
    pub fn micros(&self) -> u64 {
        self.micros.get()
    }

    /// Notes one.
    pub fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = Histogram::BOUNDS.iter().position(|&bound| micros <= bound);
        self.buckets[bucket.unwrap_or(Histogram::BOUNDS.len())].add(1);
        self.micros.add(micros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_bucket_with_the_next_bound() {
        let histogram = Histogram::default();
        for micros in [0, 250, 251, 10_000_000, 10_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!((buckets[0], buckets[1], buckets[13], buckets[14]), (2, 1, 1, 1));
        assert_eq!(histogram.micros(), 20_000_502);
    }
}
