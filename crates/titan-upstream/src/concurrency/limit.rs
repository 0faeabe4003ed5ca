//! A limit of running requests that finds itself from how long responses take. Pure: time is an argument.
//!
//! Where more requests run than an upstream can serve at once, the others wait in it, and each response takes longer
//! than it would without them. So the limit follows the ratio of the two: the latency without load over the latency
//! now, with some tolerance, and room to grow by its square root (the gradient of Netflix's concurrency-limits).
//!
//! What latency is without load is not known while there is load. It is measured again every [`PROBE_EVERY`] with
//! half of the limit, unless less than that runs anyway:
//!
//! ```text
//!   Follows -- due --> Drains -- two latencies --> Measures -- PROBE_WINDOWS --> Follows
//!                     first
//! ```

use std::time::Duration;

/// A limit, and what it is made from.
pub(super) struct AdaptiveLimit {
    limit: f64,
    /// How long responses take without load, in seconds; `None` before the first ones.
    unloaded: Option<f64>,
    state: State,
}

/// What was seen in some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// When it ended.
    pub(super) at: Duration,
    /// How long responses took on average; `None` where there were none.
    pub(super) latency: Option<Duration>,
    /// Responses.
    pub(super) responses: u32,
    /// Requests that the upstream failed or refused.
    pub(super) drops: u32,
    /// The most requests that ran at the same moment.
    pub(super) peak: u32,
}

/// What a limit may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// At least that.
    pub(super) min: u32,
    /// At most that.
    pub(super) max: u32,
}

enum State {
    Follows { due: Duration },
    Drains { until: Duration },
    Measures { seconds: f64, windows: u32 },
}

/// A probe is due that long after the last one.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// The part of the limit with which latency counts as that without load.
const PROBE_PART: f64 = 0.5;
/// How many windows a probe takes.
const PROBE_WINDOWS: u32 = 3;
/// Latencies vary: up to so many times the latency without load are no sign of waiting.
const TOLERANCE: f64 = 1.5;
/// No response is faster. The gradient is a ratio of latencies, and needs one.
const LEAST_LATENCY: Duration = Duration::from_micros(1);
/// How much one window counts against those before.
const SMOOTHING: f64 = 0.2;

impl AdaptiveLimit {
    pub(super) fn new(initial: u32) -> AdaptiveLimit {
        // The first responses are the fast ones.
        let state = State::Drains { until: Duration::ZERO };
        AdaptiveLimit { limit: initial.into(), unloaded: None, state }
    }

    /// How many requests may run from now on.
    pub(super) fn update(&mut self, window: &Window, bounds: Bounds) -> u32 {
        let limit = self.allowed(window, bounds).clamp(bounds.min.into(), bounds.max.into());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "lies between two numbers of that type"
        )]
        let limit = limit.round() as u32;
        limit
    }

    /// The latency that counts as that without load.
    pub(super) fn unloaded(&self) -> Option<Duration> {
        self.unloaded.map(Duration::from_secs_f64)
    }

    fn allowed(&mut self, window: &Window, bounds: Bounds) -> f64 {
        let is_refused = window.drops > window.responses;
        let latency = window.latency.filter(|_| !is_refused).map(|it| it.max(LEAST_LATENCY));
        let Some(latency) = latency.map(|it| it.as_secs_f64()) else {
            // The latencies of a few responses among failures tell nothing.
            self.approach(self.limit * PROBE_PART, bounds);
            return self.limit;
        };
        match &mut self.state {
            State::Drains { until } if window.at < *until => return self.limit * PROBE_PART,
            State::Drains { .. } => {
                self.state = State::Measures { seconds: 0.0, windows: 0 };
                return self.limit * PROBE_PART;
            }
            State::Measures { seconds, windows } => {
                (*seconds, *windows) = (*seconds + latency, *windows + 1);
                if *windows < PROBE_WINDOWS {
                    return self.limit * PROBE_PART;
                }
                self.unloaded = Some(*seconds / f64::from(*windows));
                self.state = State::Follows { due: window.at + PROBE_EVERY };
            }
            State::Follows { due } => {
                let is_idle = f64::from(window.peak) < self.limit * PROBE_PART;
                let is_probe_due = window.at >= *due && !is_idle;
                if is_idle {
                    *due = window.at + PROBE_EVERY;
                }
                self.follow(latency, is_idle, bounds);
                if is_probe_due {
                    let until = window.at + Duration::from_secs_f64(latency * 2.0);
                    self.state = State::Drains { until };
                    return self.limit * PROBE_PART;
                }
            }
        }
        self.limit
    }

    /// Takes in a latency. A limit that few requests come near to stays as it is.
    fn follow(&mut self, latency: f64, is_idle: bool, bounds: Bounds) {
        let unloaded = self.unloaded.get_or_insert(latency);
        if is_idle {
            *unloaded += (latency - *unloaded) * SMOOTHING;
        } else {
            let gradient = (TOLERANCE * *unloaded / latency).clamp(PROBE_PART, TOLERANCE);
            self.approach(self.limit * gradient + self.limit.sqrt(), bounds);
        }
    }

    fn approach(&mut self, aim: f64, Bounds { min, max }: Bounds) {
        self.limit += (aim - self.limit) * SMOOTHING;
        self.limit = self.limit.clamp(min.into(), max.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { min: 5, max: 200 };

    /// A limit that is driven by an upstream of a given latency, a tenth of a second each.
    struct Driven(AdaptiveLimit, Duration);

    impl Driven {
        fn new() -> Driven {
            Driven(AdaptiveLimit::new(50), Duration::ZERO)
        }

        fn sees(&mut self, latency: Option<u64>, drops: u32, peak: u32) -> u32 {
            self.1 += Duration::from_millis(100);
            let latency = latency.map(Duration::from_millis);
            let window = Window { at: self.1, latency, responses: 60, drops, peak };
            self.0.update(&window, BOUNDS)
        }

        fn sees_for(&mut self, seconds: u32, latency: u64, peak: u32) -> u32 {
            (0..seconds * 10).fold(0, |_, _| self.sees(Some(latency), 0, peak))
        }
    }

    #[test]
    fn it_grows_only_where_it_is_used() {
        let mut driven = Driven::new();
        assert_eq!(driven.sees_for(5, 10, 20), 50);
        assert_eq!(driven.sees_for(8, 10, 200), BOUNDS.max);
    }

    #[test]
    fn it_falls_when_responses_take_longer_under_load() {
        let mut driven = Driven::new();
        driven.sees_for(1, 10, 50);
        assert!((BOUNDS.min..20).contains(&driven.sees_for(5, 40, 200)));
    }

    #[test]
    fn a_latency_that_is_no_sign_of_load_becomes_the_usual_one() {
        let mut driven = Driven::new();
        driven.sees_for(1, 10, 50);
        assert!(driven.sees_for(5, 40, 200) < 20);
        assert!(driven.sees_for(20, 40, 200) > 50);
    }

    #[test]
    fn it_is_halved_for_a_moment_to_see_the_latency_without_load() {
        let mut driven = Driven::new();
        let all: Vec<_> = (0..200).map(|_| driven.sees(Some(10), 0, 200)).collect();
        let halved = all.iter().filter(|limit| **limit == BOUNDS.max / 2).count();
        assert!((4..10).contains(&halved), "{all:?}");
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds_and_recovers_whatever_is_seen(
            windows in vec((0..3_u64, 0..4_u32, any::<bool>()), 0..100),
        ) {
            let mut driven = Driven::new();
            for (latency, drops, is_busy) in windows {
                let latency = latency.checked_sub(1).map(|it| it * 10);
                let limit = driven.sees(latency, drops * 30, if is_busy { 200 } else { 0 });
                prop_assert!((BOUNDS.min..=BOUNDS.max).contains(&limit), "{limit}");
            }
            let limit = driven.sees_for(60, 10, 200);
            prop_assert!(limit >= BOUNDS.max / 2, "{limit}");
        }
    }

    #[test]
    fn where_most_fails_it_falls_however_fast_that_is() {
        let mut driven = Driven::new();
        driven.sees_for(1, 10, 50);
        let before = driven.sees(Some(10), 20, 200);
        assert!(driven.sees(Some(10), 30, 200) >= before, "some failures are no sign of load");
        for _ in 0..50 {
            driven.sees(Some(1), 100, 200);
        }
        assert_eq!(driven.sees(None, 100, 200), BOUNDS.min);
    }
}
