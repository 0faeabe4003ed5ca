//! A percentile of the latencies that an upstream has had of late, over all workers.
//!
//! Latencies are counted in buckets, sixteen for each power of two, so that the percentile is at most 6.25% too large and never
//! too small. Two windows are counted together: the current one, and the one before it. A latency costs one addition; a few times
//! a second one of those who count also computes the percentile, which everybody else just loads.

use std::array;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use titan_config::Percent;

/// A percentile of latencies. Every moment is given as the time since the process has started.
pub(crate) struct LatencyPercentile {
    /// Which one, in hundredths of a percent.
    rank: AtomicU32,
    windows: [Window; WINDOWS],
    /// How many windows there were before the current one, which stands at that place, counted round.
    current: AtomicUsize,
    /// When the current one was opened, in microseconds.
    opened: AtomicU64,
    /// When the percentile is to be computed again, in microseconds.
    next_look: AtomicU64,
    /// Held by whoever computes it; others go on.
    is_looking: AtomicBool,
    /// The percentile, in microseconds; 0 while it is not known.
    known: AtomicU64,
}

/// How many latencies fell into each bucket.
struct Window([AtomicU32; BUCKETS]);

/// The current window, the one before it, and one that is cleared for the next.
const WINDOWS: usize = 3;
/// How long a window lasts at least. It also lasts until it has enough latencies.
const WINDOW: Duration = Duration::from_secs(10);
/// How long a percentile is good for.
const REFRESH: Duration = Duration::from_millis(250);

/// Latencies above the percentile without which it says little.
const ENOUGH_ABOVE: u64 = 5;
/// Latencies without which no percentile says anything.
const FEWEST: u64 = 20;

/// The bits of a latency that count, below its highest one.
const DIGITS: u32 = 4;
const PER_OCTAVE: usize = 1 << DIGITS;
/// Longer latencies count as that, 18 minutes, in microseconds.
const LONGEST: u64 = (1 << 30) - 1;
const BUCKETS: usize = bucket(LONGEST) + 1;

impl Default for LatencyPercentile {
    fn default() -> LatencyPercentile {
        LatencyPercentile {
            rank: AtomicU32::new(0),
            windows: array::from_fn(|_| Window(array::from_fn(|_| AtomicU32::new(0)))),
            current: AtomicUsize::new(0),
            opened: AtomicU64::new(0),
            next_look: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
            known: AtomicU64::new(0),
        }
    }
}

impl LatencyPercentile {
    /// Which percentile is wanted from now on. The latencies stay.
    pub(crate) fn set(&self, rank: Percent) {
        let rank = u32::from(rank.as_hundredths());
        if self.rank.swap(rank, Ordering::Relaxed) != rank {
            self.known.store(0, Ordering::Relaxed);
            self.next_look.store(0, Ordering::Relaxed);
        }
    }

    /// The percentile; `None` before there were enough latencies.
    pub(crate) fn get(&self) -> Option<Duration> {
        let known = self.known.load(Ordering::Relaxed);
        (known != 0).then(|| Duration::from_micros(known))
    }

    /// Counts a latency. One that is known to be longer than the percentile may be cut off.
    pub(crate) fn count(&self, latency: Duration, now: Duration) {
        // Whoever has loaded this just before another window was opened counts in the one before: that counts as well.
        let window = &self.windows[self.current.load(Ordering::Acquire) % WINDOWS];
        window.0[bucket(micros(latency).min(LONGEST))].fetch_add(1, Ordering::Relaxed);
        if micros(now) >= self.next_look.load(Ordering::Relaxed) {
            self.look(now);
        }
    }

    /// Computes the percentile. While it is not known, everybody who counts looks: then there is little to be looked at.
    fn look(&self, now: Duration) {
        if self.is_looking.swap(true, Ordering::Acquire) {
            return;
        }
        let at = self.current.load(Ordering::Relaxed);
        let [current, before, next] =
            [at, at + WINDOWS - 1, at + 1].map(|at| &self.windows[at % WINDOWS]);
        let rank = u64::from(self.rank.load(Ordering::Relaxed));
        if let Some(found) = percentile([current, before], rank) {
            self.known.store(found.max(1), Ordering::Relaxed);
            self.next_look.store(micros(now + REFRESH), Ordering::Relaxed);
        }
        let opened = Duration::from_micros(self.opened.load(Ordering::Relaxed));
        if now.saturating_sub(opened) >= WINDOW && current.sum() >= enough(rank) {
            next.clear();
            self.opened.store(micros(now), Ordering::Relaxed);
            self.current.store(at + 1, Ordering::Release);
        }
        self.is_looking.store(false, Ordering::Release);
    }
}

impl Window {
    fn counts(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed).into())
    }

    fn sum(&self) -> u64 {
        self.counts().sum()
    }

    fn clear(&self) {
        self.0.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// The latency that `rank` hundredths of a percent do not exceed (nearest rank), as the end of its bucket.
fn percentile(windows: [&Window; 2], rank: u64) -> Option<u64> {
    let [current, before] = windows;
    let counts = || current.counts().zip(before.counts()).map(|(one, other)| one + other);
    let all: u64 = counts().sum();
    if all < enough(rank) {
        return None;
    }
    let mut left = (all * rank).div_ceil(Percent::ALL.as_hundredths().into()).max(1);
    // Counts may have grown since they were added up, but none has become less.
    let at = counts().position(|count| {
        let is_here = left <= count;
        left = left.saturating_sub(count);
        is_here
    });
    at.map(end_of)
}

/// How many latencies say something about that percentile.
fn enough(rank: u64) -> u64 {
    let all = u64::from(Percent::ALL.as_hundredths());
    let above = all.saturating_sub(rank).max(1);
    (ENOUGH_ABOVE * all).div_ceil(above).max(FEWEST)
}

/// The bucket of a latency in microseconds.
const fn bucket(micros: u64) -> usize {
    let Some(octave) = micros.checked_ilog2() else { return 0 };
    let Some(shift) = octave.checked_sub(DIGITS) else { return at(micros) };
    // The highest bit counts as one more octave.
    shift as usize * PER_OCTAVE + at(micros >> shift)
}

/// The longest latency in a bucket, in microseconds.
fn end_of(bucket: usize) -> u64 {
    match (bucket / PER_OCTAVE).checked_sub(1) {
        None => bucket as u64,
        Some(shift) => ((bucket - shift * PER_OCTAVE + 1) << shift) as u64 - 1,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it has five bits")]
const fn at(digits: u64) -> usize {
    digits as usize
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::thread;

    fn of(percent: u16) -> LatencyPercentile {
        let latency = LatencyPercentile::default();
        latency.set(Percent::hundredths(percent * 100));
        latency
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Whether a percentile is `exact`, as far as the buckets tell.
    fn is_near(found: Option<Duration>, exact: Duration) -> bool {
        let most = exact + exact / 16 + Duration::from_micros(1);
        found.is_some_and(|found| (exact..=most).contains(&found))
    }

    #[test]
    fn buckets_lie_next_to_each_other() {
        let mut begins = 0;
        for number in 0..BUCKETS {
            let ends = end_of(number);
            assert_eq!((bucket(begins), bucket(ends)), (number, number), "{begins} to {ends}");
            assert!(ends - begins <= begins / 16, "{begins} to {ends}");
            begins = ends + 1;
        }
        assert_eq!(begins, LONGEST + 1);
    }

    #[test]
    fn nothing_is_known_before_there_are_enough() {
        for (percent, enough) in [(50, 20), (90, 50), (95, 100), (99, 500)] {
            let latency = of(percent);
            (1..enough).for_each(|_| latency.count(millis(20), Duration::ZERO));
            assert_eq!(latency.get(), None, "p{percent}");
            latency.count(millis(20), Duration::ZERO);
            assert!(is_near(latency.get(), millis(20)), "p{percent}");
        }
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let latency = of(95);
        let minute = |seconds, took| {
            (0..100).for_each(|_| latency.count(millis(took), Duration::from_secs(seconds)));
        };
        minute(0, 1_000);
        minute(11, 1_000);
        assert!(is_near(latency.get(), millis(1_000)));
        minute(22, 10);
        assert!(is_near(latency.get(), millis(1_000)), "the window before counts");
        minute(33, 10);
        minute(44, 10);
        assert!(is_near(latency.get(), millis(10)), "{:?}", latency.get());
    }

    #[test]
    fn a_window_lasts_until_it_has_enough() {
        let latency = of(95);
        for second in 0..99 {
            latency.count(millis(10), Duration::from_secs(second));
        }
        assert_eq!(latency.get(), None);
        latency.count(millis(10), Duration::from_secs(99));
        assert!(is_near(latency.get(), millis(10)));
    }

    #[test]
    fn another_percentile_of_the_same_latencies_can_be_asked_for() {
        let latency = of(95);
        (1..=1000).for_each(|took| latency.count(millis(took), Duration::ZERO));
        latency.set(Percent::hundredths(9_900));
        assert_eq!(latency.get(), None);
        latency.count(millis(1_000), Duration::ZERO);
        assert!(is_near(latency.get(), millis(991)), "{:?}", latency.get());
    }

    #[test]
    fn workers_count_together() {
        let latency = of(50);
        thread::scope(|scope| {
            for worker in 1..=4_u64 {
                let latency = &latency;
                let count = move |at| latency.count(millis(worker * 100), millis(at / 100));
                scope.spawn(move || (0..10_000_u64).for_each(count));
            }
        });
        assert_eq!(latency.windows.iter().map(Window::sum).sum::<u64>(), 40_000);
        latency.count(millis(1), Duration::from_secs(5));
        assert!(is_near(latency.get(), millis(200)), "{:?}", latency.get());
    }

    proptest! {
        /// As if all latencies had been sorted.
        #[test]
        fn it_is_what_a_sorted_list_says(
            latencies in vec(prop_oneof![0..100_u64, 0..=100_000_u64, 0..=LONGEST], 1..600),
            percent in 1..100_u16,
        ) {
            let latency = of(percent);
            let micros = latencies.iter().map(|micros| Duration::from_micros(*micros));
            micros.for_each(|took| latency.count(took, Duration::ZERO));
            // All of them, where the first ones were enough to look at.
            latency.next_look.store(0, Ordering::Relaxed);
            latency.look(Duration::ZERO);
            let mut sorted = latencies;
            sorted.sort_unstable();
            let place = (sorted.len() * usize::from(percent)).div_ceil(100).max(1) - 1;
            let is_enough = sorted.len() as u64 >= enough(u64::from(percent) * 100);
            prop_assert_eq!(latency.get().is_some(), is_enough);
            if let Some(found) = latency.get() {
                let exact = Duration::from_micros(sorted[place].max(1));
                prop_assert!(is_near(Some(found), exact), "{:?} of {:?}", found, exact);
            }
        }
    }
}
