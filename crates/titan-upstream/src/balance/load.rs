//! How busy and how slow one endpoint is, as all workers see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// After that long without a sample a latency counts for a third; a slow endpoint is tried again.
const LATENCY_MEMORY: Duration = Duration::from_secs(10);

/// What an endpoint is taken to need while its first response is still awaited: one request tries it.
const UNKNOWN_LATENCY: Duration = Duration::from_secs(1);

/// The load of one endpoint, shared by all workers and kept over changes of the configuration.
#[derive(Debug)]
pub struct EndpointState {
    /// A hash of the address: the same in every process that has this endpoint.
    id: u64,
    active: AtomicU32,
    /// A [`Sample`] in one word, so that both halves change together.
    latency: AtomicU64,
}

/// A running request: counts while it lives.
#[derive(Debug)]
pub struct InFlight(Arc<EndpointState>);

/// A latency and when it was known.
#[derive(Clone, Copy)]
struct Sample {
    /// In microseconds. None before the first response.
    latency: u32,
    /// In milliseconds, counted round after 49 days.
    at: u32,
}

impl EndpointState {
    /// An idle endpoint at `address`, written as in the configuration or resolved: the text decides
    /// which endpoint a sticky cookie means.
    pub fn new(address: &str) -> Arc<EndpointState> {
        let (active, latency) = (AtomicU32::new(0), AtomicU64::new(0));
        Arc::new(EndpointState { id: xxh3_64(address.as_bytes()), active, latency })
    }

    /// Counts a request until what is returned is dropped.
    pub fn begin(self: &Arc<Self>) -> InFlight {
        self.active.fetch_add(1, Ordering::Relaxed);
        // Its own count stands beside that one, in memory that was just touched.
        InFlight(Arc::clone(self))
    }

    /// How many requests run.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// Takes in how long the endpoint needed to respond. For an attempt that failed pass what it is
    /// to cost, such as the timeout: an endpoint that refuses at once is not a fast one.
    ///
    /// A rise counts at once, a fall with time: the weight of the past is `e^(-age / memory)`.
    pub fn record(&self, latency: Duration, now: Duration) {
        let taken = micros(latency);
        let update = |word| {
            let past = Sample::of(word);
            let weight = past.map_or(0.0, |past| past.weight(now));
            let before = past.map_or(0, |past| past.latency);
            let latency = match taken >= before {
                true => taken,
                false => average(before, taken, weight),
            };
            Some(Sample { latency, at: millis(now) }.word())
        };
        let _ = self.latency.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    /// Takes in that a response needs longer than that, if that is news. It was not waited for.
    pub fn record_at_least(&self, latency: Duration, now: Duration) {
        if f64::from(micros(latency)) > self.expected_latency(now) {
            self.record(latency, now);
        }
    }

    /// What the next response is expected to take, in microseconds. Fades without samples.
    pub(super) fn expected_latency(&self, now: Duration) -> f64 {
        match Sample::of(self.latency.load(Ordering::Relaxed)) {
            Some(past) => f64::from(past.latency) * past.weight(now),
            None if self.active() == 0 => 0.0,
            None => UNKNOWN_LATENCY.as_secs_f64() * 1e6,
        }
    }

    /// What responses take of late; `None` where that was not measured.
    pub fn latency(&self) -> Option<Duration> {
        let sample = Sample::of(self.latency.load(Ordering::Relaxed))?;
        Some(Duration::from_micros(sample.latency.into()))
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Sample {
    fn of(word: u64) -> Option<Sample> {
        #[expect(clippy::cast_possible_truncation, reason = "takes the word's halves apart")]
        let (latency, at) = ((word >> 32) as u32, word as u32);
        (latency != 0).then_some(Sample { latency, at })
    }

    fn word(self) -> u64 {
        u64::from(self.latency) << 32 | u64::from(self.at)
    }

    /// How much the sample still counts. Workers read their clocks one after the other: a sample from
    /// the future is a fresh one.
    fn weight(self, now: Duration) -> f64 {
        let age = millis(now).wrapping_sub(self.at).cast_signed().max(0);
        (-f64::from(age) / 1e3 / LATENCY_MEMORY.as_secs_f64()).exp()
    }
}

/// `duration` in microseconds, at least one.
fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX).max(1)
}

#[expect(clippy::cast_possible_truncation, reason = "counted round; only differences are used")]
fn millis(now: Duration) -> u32 {
    now.as_millis() as u32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lies between two numbers of that type"
)]
fn average(past: u32, taken: u32, weight: f64) -> u32 {
    (f64::from(past) * weight + f64::from(taken) * (1.0 - weight)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn after(samples: &[(u64, u64)]) -> EndpointState {
        let state = Arc::into_inner(EndpointState::new("10.0.0.1:80")).unwrap();
        for &(millis, seconds) in samples {
            state.record(Duration::from_millis(millis), Duration::from_secs(seconds));
        }
        state
    }

    fn expected_millis(state: &EndpointState, seconds: u64) -> f64 {
        state.expected_latency(Duration::from_secs(seconds)) / 1e3
    }

    #[test]
    fn a_rise_counts_at_once_and_a_fall_with_time() {
        assert!((expected_millis(&after(&[(10, 5), (50, 5)]), 5) - 50.0).abs() < 0.1);
        let fallen = expected_millis(&after(&[(50, 5), (10, 15)]), 15);
        assert!((fallen - (10.0 + 40.0 / std::f64::consts::E)).abs() < 0.1, "{fallen}");
    }

    #[test]
    fn a_latency_fades_so_that_a_slow_endpoint_is_tried_again() {
        let state = after(&[(1000, 5)]);
        assert!(expected_millis(&state, 105) < 0.1);
        assert!((expected_millis(&state, 4) - 1000.0).abs() < 0.1);
    }

    #[test]
    fn a_latency_that_was_not_waited_for_is_the_least_that_it_is() {
        let state = after(&[(50, 5)]);
        let at = Duration::from_secs(5);
        state.record_at_least(Duration::from_millis(20), at);
        assert!((expected_millis(&state, 5) - 50.0).abs() < 0.1);
        state.record_at_least(Duration::from_millis(70), at);
        assert!((expected_millis(&state, 5) - 70.0).abs() < 0.1);
    }

    #[test]
    fn an_unknown_endpoint_gets_one_request_to_show_itself() {
        let state = EndpointState::new("10.0.0.1:80");
        assert!(state.expected_latency(NOW) == 0.0);
        let _running = state.begin();
        assert!(state.expected_latency(NOW) > 0.0);
    }

    #[test]
    fn time_may_pass_the_end_of_its_counter() {
        let round = u64::from(u32::MAX) / 1000;
        let state = after(&[(1000, round)]);
        let later = expected_millis(&state, round + 10);
        assert!((later - 1000.0 / std::f64::consts::E).abs() < 5.0, "{later}");
    }

    #[test]
    fn counts_do_not_drift() {
        let state = EndpointState::new("10.0.0.1:80");
        let count = |state: &Arc<EndpointState>| {
            for _ in 0..10_000 {
                let first = state.begin();
                drop((state.begin(), first));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| count(&state));
            }
        });
        assert_eq!(state.active(), 0);
        let running: Vec<InFlight> = (0..3).map(|_| state.begin()).collect();
        assert_eq!(state.active(), 3);
        drop(running);
        assert_eq!(state.active(), 0);
    }
}
