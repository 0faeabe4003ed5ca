//! Counters that one thread writes and any thread may read.

use crate::registry::Registry;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows. One thread writes it.
#[derive(Default)]
pub struct Counter(AtomicU64);

/// Durations or sizes, sorted into buckets. One thread writes it.
#[derive(Default)]
pub struct Histogram<S> {
    /// By the bounds of the scale; the last one has none.
    buckets: [Counter; BUCKETS],
    sum: Counter,
    scale: PhantomData<S>,
}

/// How many buckets a histogram has.
pub const BUCKETS: usize = 15;

/// What is sorted into the buckets of a histogram.
pub trait Scale {
    /// Their upper bounds; the last bucket has none.
    const BOUNDS: [u64; BUCKETS - 1];
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Durations;

/// In bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes;

/// Histograms of one scale, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistogramSum {
    /// How much fell into each bucket.
    pub buckets: [u64; BUCKETS],
    /// The sum of all, in the unit of the scale.
    pub sum: u64,
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

    /// One histogram over all workers.
    pub fn histogram<S: Scale + 'static>(&self, of: impl Fn(&T) -> &Histogram<S>) -> HistogramSum {
        let mut sum = HistogramSum::default();
        self.workers().for_each(|cells| sum.add(of(cells)));
        sum
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

impl Scale for Durations {
    const BOUNDS: [u64; BUCKETS - 1] = [
        250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
        1_000_000, 2_500_000, 10_000_000,
    ];
}

impl Scale for Sizes {
    const BOUNDS: [u64; BUCKETS - 1] = [
        1 << 6,
        1 << 8,
        1 << 10,
        1 << 12,
        1 << 14,
        1 << 16,
        1 << 18,
        1 << 20,
        1 << 22,
        1 << 24,
        1 << 26,
        1 << 28,
        1 << 30,
        1 << 32,
    ];
}

impl<S: Scale> Histogram<S> {
    /// How much fell into each bucket; the last one has no upper bound.
    pub fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(Counter::get)
    }

    /// The sum of all, in the unit of the scale.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    fn note(&self, value: u64) {
        let bucket = S::BOUNDS.iter().position(|&bound| value <= bound);
        self.buckets[bucket.unwrap_or(BUCKETS - 1)].add(1);
        self.sum.add(value);
    }
}

impl Histogram<Durations> {
    /// Notes one.
    pub fn record(&self, took: Duration) {
        self.note(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }
}

impl Histogram<Sizes> {
    /// Notes one of that many bytes.
    pub fn record(&self, bytes: u64) {
        self.note(bytes);
    }
}

impl HistogramSum {
    /// Adds what one worker has noted.
    pub fn add<S: Scale>(&mut self, histogram: &Histogram<S>) {
        for (sum, count) in self.buckets.iter_mut().zip(histogram.buckets()) {
            *sum += count;
        }
        self.sum = self.sum.wrapping_add(histogram.sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_bucket_with_the_next_bound() {
        let histogram = Histogram::<Durations>::default();
        for micros in [0, 250, 251, 10_000_000, 10_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let mut sum = HistogramSum::default();
        sum.add(&histogram);
        let HistogramSum { buckets, sum } = sum;
        assert_eq!((buckets[0], buckets[1], buckets[13], buckets[14]), (2, 1, 1, 1));
        assert_eq!(sum, 20_000_502);
    }

    #[test]
    fn sizes_of_all_workers_add_up() {
        let [one, other] = [(); 2].map(|()| Histogram::<Sizes>::default());
        one.record(64);
        other.record(64);
        other.record((1 << 32) + 1);
        let mut sum = HistogramSum::default();
        [one, other].iter().for_each(|it| sum.add(it));
        assert_eq!((sum.buckets[0], sum.buckets[BUCKETS - 1]), (2, 1));
        assert_eq!(sum.sum, (1 << 32) + 129);
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
