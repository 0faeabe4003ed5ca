//! Counters that one thread writes and any thread may read.

use crate::division::{Division, Exponential};
use crate::registry::Registry;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
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
    /// By the parts of the scale, once somebody has asked for them. The buckets count no more from then on: each value is
    /// counted in one place, so that both kinds of buckets add up to the same.
    parts: OnceLock<Box<[Line]>>,
    scale: PhantomData<S>,
}

/// Some parts, aligned so that two workers never write to the same cache line.
#[derive(Default)]
#[repr(align(128))]
struct Line([Counter; IN_LINE]);

const IN_LINE: usize = 16;

/// How many buckets a histogram has.
pub const BUCKETS: usize = 15;

/// What is sorted into the buckets of a histogram.
pub trait Scale {
    /// Their upper bounds; the last bucket has none.
    const BOUNDS: [u64; BUCKETS - 1];
    /// The buckets of native histograms.
    const EXPONENTIAL: Exponential;

    /// Its parts.
    fn division() -> &'static Division;
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

/// The same, by the parts of the scale.
#[derive(Clone, Debug)]
pub struct PartSum<S> {
    counts: Box<[u64]>,
    sum: u64,
    scale: PhantomData<S>,
}

/// The buckets of a native histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Native {
    /// How much fell into the zero bucket.
    pub zero: u64,
    /// And into the others that have any, by index, in ascending order.
    pub buckets: Vec<(i32, u64)>,
}

/// The cells of a thing that has a name: each worker writes its own, so that counting is a plain store. They belong to the
/// name, and count on when it stands somewhere else in a later configuration. A worker that has counted nothing has none: most of
/// a hundred thousand routes get no request.
pub struct Counted<T> {
    name: Box<str>,
    workers: Box<[OnceLock<Box<CachePadded<T>>>]>,
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
        let none = std::iter::repeat_with(OnceLock::new).take(workers);
        Counted { name: name.into(), workers: none.collect() }
    }
}

impl<T: Default> Counted<T> {
    /// The cells of the worker at that place, which it alone writes.
    pub fn cells(&self, worker: usize) -> &T {
        &self.workers[worker].get_or_init(Box::default).0
    }

    /// Makes all workers count one histogram by the parts of its scale from now on. Also what has counted nothing yet: what it
    /// counts until the next page would stand at the bounds of its buckets.
    pub fn divide<S: Scale + 'static>(&self, of: impl Fn(&T) -> &Histogram<S>) {
        (0..self.workers.len()).for_each(|worker| of(self.cells(worker)).divide());
    }
}

impl<T> Counted<T> {
    /// Whose cells these are.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Those of all workers that have counted anything.
    pub fn workers(&self) -> impl Iterator<Item = &T> {
        self.workers.iter().filter_map(OnceLock::get).map(|cells| &cells.0)
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
    /// In seconds: by 9 % each, from a microsecond to more than an hour.
    const EXPONENTIAL: Exponential = Exponential { schema: 3, lowest: -20, highest: 12, per: 1e6 };

    fn division() -> &'static Division {
        static DIVISION: LazyLock<Division> =
            LazyLock::new(|| Division::new(&Durations::BOUNDS, Durations::EXPONENTIAL));
        &DIVISION
    }
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
    /// By 41 % each, from a byte to a tebibyte.
    const EXPONENTIAL: Exponential = Exponential { schema: 1, lowest: 0, highest: 40, per: 1.0 };

    fn division() -> &'static Division {
        static DIVISION: LazyLock<Division> =
            LazyLock::new(|| Division::new(&Sizes::BOUNDS, Sizes::EXPONENTIAL));
        &DIVISION
    }
}

impl<S: Scale> Histogram<S> {
    /// How much fell into each bucket; the last one has no upper bound.
    pub fn buckets(&self) -> [u64; BUCKETS] {
        let mut buckets = self.buckets.each_ref().map(Counter::get);
        for (part, count) in self.parts().enumerate() {
            buckets[S::division().bucket(part)] += count;
        }
        buckets
    }

    /// The sum of all, in the unit of the scale.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    fn note(&self, value: u64) {
        match self.parts.get() {
            None => {
                let bucket = S::BOUNDS.iter().position(|&bound| value <= bound);
                self.buckets[bucket.unwrap_or(BUCKETS - 1)].add(1);
            }
            Some(lines) => {
                let part = S::division().part(value);
                lines[part / IN_LINE].0[part % IN_LINE].add(1);
            }
        }
        self.sum.add(value);
    }

    /// How much fell into each part, or nothing.
    fn parts(&self) -> impl Iterator<Item = u64> {
        let lines = self.parts.get().into_iter().flatten();
        let counts = lines.flat_map(|Line(counts)| counts).map(Counter::get);
        counts.take(S::division().parts())
    }

    /// Makes its worker count by parts. Any thread may ask for that.
    fn divide(&self) {
        let lines = S::division().parts().div_ceil(IN_LINE);
        self.parts.get_or_init(|| std::iter::repeat_with(Line::default).take(lines).collect());
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

impl<S: Scale> Default for PartSum<S> {
    fn default() -> PartSum<S> {
        let counts = vec![0; S::division().parts()].into();
        PartSum { counts, sum: 0, scale: PhantomData }
    }
}

impl<S: Scale> From<HistogramSum> for PartSum<S> {
    /// All of it counts at the upper bounds of its buckets.
    fn from(HistogramSum { buckets, sum }: HistogramSum) -> PartSum<S> {
        let mut parts = PartSum { sum, ..PartSum::default() };
        parts.add_whole(buckets);
        parts
    }
}

impl<S: Scale> PartSum<S> {
    /// Adds what one worker has noted. What it had noted before it counted by parts counts at the upper bound of its bucket.
    pub fn add(&mut self, histogram: &Histogram<S>) {
        for (sum, count) in self.counts.iter_mut().zip(histogram.parts()) {
            *sum += count;
        }
        self.add_whole(histogram.buckets.each_ref().map(Counter::get));
        self.sum = self.sum.wrapping_add(histogram.sum());
    }

    fn add_whole(&mut self, buckets: [u64; BUCKETS]) {
        for (bucket, count) in buckets.into_iter().enumerate() {
            self.counts[S::division().whole(bucket)] += count;
        }
    }

    /// The same by buckets.
    pub fn buckets(&self) -> HistogramSum {
        let mut buckets = [0; BUCKETS];
        for (part, count) in self.counts.iter().enumerate() {
            buckets[S::division().bucket(part)] += count;
        }
        HistogramSum { buckets, sum: self.sum }
    }

    /// The same as a native histogram.
    pub fn native(&self) -> Native {
        let mut native = Native::default();
        for (part, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            match (S::division().native(part), native.buckets.last_mut()) {
                (None, _) => native.zero += count,
                (Some(index), Some((last, sum))) if *last == index => *sum += count,
                (Some(index), _) => native.buckets.push((index, count)),
            }
        }
        native
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    /// A histogram that is divided after some values, and its twin that is not.
    fn divided<S: Scale + Default>(values: &[u64], after: usize) -> [Histogram<S>; 2] {
        let both = [(); 2].map(|()| Histogram::default());
        for (place, value) in values.iter().enumerate() {
            if place == after {
                both[0].divide();
            }
            both.iter().for_each(|it| it.note(*value));
        }
        both
    }

    proptest! {
        #[test]
        fn both_kinds_of_buckets_have_each_value_once(
            values in prop::collection::vec(0_u64..20_000_000, 0..50), after in 0_usize..50
        ) {
            let [divided, twin] = divided::<Durations>(&values, after);
            prop_assert_eq!(divided.buckets(), twin.buckets());
            let mut sum = PartSum::default();
            [&divided, &twin].iter().for_each(|it| sum.add(it));
            let (whole, native) = (sum.buckets(), sum.native());
            prop_assert_eq!(whole.buckets, twin.buckets().map(|count| 2 * count));
            prop_assert_eq!(whole.sum, 2 * values.iter().sum::<u64>());
            prop_assert_eq!(PartSum::<Durations>::from(whole).buckets(), whole);
            let count = native.zero + native.buckets.iter().map(|(_, count)| count).sum::<u64>();
            prop_assert_eq!(count, 2 * values.len() as u64);
            prop_assert!(native.buckets.is_sorted_by(|one, next| one.0 < next.0));
        }
    }

    #[test]
    fn a_native_histogram_is_exact_from_when_it_was_asked_for() {
        // A millisecond is just above 2^-10 seconds, eight buckets to a doubling.
        let [divided, _] = divided::<Durations>(&[0, 1_000, 10_000_001, 1_001, 1_000, 0], 3);
        let mut sum = PartSum::default();
        sum.add(&divided);
        let beyond = Durations::EXPONENTIAL.bound(27);
        assert!(beyond > 10.0 && Durations::EXPONENTIAL.bound(26) < 10.0);
        assert_eq!(sum.native(), Native { zero: 1, buckets: vec![(-95, 1), (-79, 3), (27, 1)] });
    }

    #[test]
    fn what_has_counted_nothing_is_exact_from_its_first_value_on() {
        let counted = Counted::<Histogram<Durations>>::new("a", 2);
        counted.divide(|cells| cells);
        counted.cells(1).record(Duration::from_micros(1_100_000));
        let mut sum = PartSum::default();
        counted.workers().for_each(|cells| sum.add(cells));
        assert_eq!(sum.native(), Native { zero: 0, buckets: vec![(2, 1)] }, "not at 2.5 s");
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
        assert!(at(1).abs_diff(at(0)) >= 128 && at(0).is_multiple_of(128));
    }
}
