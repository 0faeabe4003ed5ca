//! Counters that one thread writes and any thread may read.

use crate::registry::Registry;
use std::sync::Arc;
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

/// The cells of a thing that has a name: each worker writes its own, so that counting is a plain store. They belong to the
/// name, and count on when it stands somewhere else in a later configuration.
pub struct Counted<T> {
    name: String,
    workers: Box<[CachePadded<T>]>,
}

/// Padded so that two workers never write to the same cache line.
#[derive(Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

/// What makes cells those of the same thing.
#[derive(PartialEq, Eq, Hash)]
struct CountedKey {
    name: String,
    workers: usize,
}

impl<T: Default + Send + Sync + 'static> Counted<T> {
    /// The cells of the thing with that name, for that many workers.
    pub fn of(registry: &Registry, name: &str, workers: usize) -> Arc<Counted<T>> {
        let key = CountedKey { name: name.to_owned(), workers };
        registry.shared(key, || Counted::new(name, workers))
    }

    fn new(name: &str, workers: usize) -> Counted<T> {
        let cells = std::iter::repeat_with(CachePadded::default).take(workers);
        Counted { name: name.to_owned(), workers: cells.collect() }
    }
}

impl<T> Counted<T> {
    /// Whose cells these are.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cells of the worker at that place, which it alone writes.
    pub fn cells(&self, worker: usize) -> &T {
        &self.workers[worker].0
    }

    /// Those of all workers.
    pub fn workers(&self) -> impl Iterator<Item = &T> {
        self.workers.iter().map(|CachePadded(cells)| cells)
    }

    /// One figure over all workers.
    pub fn sum(&self, figure: impl Fn(&T) -> u64) -> u64 {
        self.workers().map(figure).sum()
    }
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

    #[test]
    fn what_a_name_has_counted_stays_with_it() {
        let registry = Registry::default();
        let before = Counted::<Counter>::of(&registry, "a", 2);
        before.cells(0).add(1);
        before.cells(1).add(2);
        let after = Counted::<Counter>::of(&registry, "a", 2);
        assert_eq!((after.name(), after.sum(Counter::get)), ("a", 3));
        assert_eq!(Counted::<Counter>::of(&registry, "b", 2).sum(Counter::get), 0);
        assert_eq!(Counted::<Counter>::of(&registry, "a", 3).sum(Counter::get), 0);
    }

    #[test]
    fn workers_write_to_cache_lines_of_their_own() {
        let counted = Counted::<Counter>::new("a", 2);
        let at = |worker| std::ptr::from_ref(counted.cells(worker)).addr();
        assert!(at(1) - at(0) >= 128 && at(0).is_multiple_of(128));
    }
}
