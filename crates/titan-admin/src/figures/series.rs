//! What was known of routes at several moments: points of fixed length at three resolutions, and the last seconds.
//!
//! ```text
//! samples   | | | | | | | | | | | | |      every TICK
//! 2 s       [.][.][.][.][.][.][.][.][.]    150 points, 5 minutes
//! 20 s      [.................][.......    180 points, 1 hour
//! 480 s     [..........................    180 points, 24 hours
//! ```
//!
//! All things are sampled at the same moments, so one [`Timeline`] says where points begin and end.

use super::tally::{Count, Point, Tally};
use std::collections::VecDeque;
use std::time::Duration;

/// The time between two samples.
pub(super) const TICK: Duration = Duration::from_secs(2);

/// How long points are, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resolution {
    /// In ticks.
    ticks: u64,
    pub(super) points: usize,
}

/// From the finest on.
pub(super) const RESOLUTIONS: [Resolution; 3] = [
    Resolution { ticks: 1, points: 150 },
    Resolution { ticks: 10, points: 180 },
    Resolution { ticks: 240, points: 180 },
];

/// Where points begin and end.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    /// When the last sample was taken, in seconds since the first.
    now: f64,
    /// The points that are not complete.
    slots: [Slot; RESOLUTIONS.len()],
    /// When the last samples were taken.
    recent: VecDeque<f64>,
}

/// A point that is not complete.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    number: u64,
    began: f64,
}

/// What a sample completes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// How many points of each resolution, and how many seconds they have together.
    completed: [(usize, f64); RESOLUTIONS.len()],
}

/// The points of one route.
#[derive(Clone, Debug)]
pub(super) struct Series {
    levels: [Level; RESOLUTIONS.len()],
    pub(super) recent: Recent<Tally>,
}

#[derive(Clone, Debug)]
struct Level {
    /// The last ones, complete; no more than the resolution has.
    points: VecDeque<Point>,
    /// What was counted when the point began that is not complete.
    base: Tally,
}

/// The last samples, which make a window of [`RECENT`].
#[derive(Clone, Debug, Default)]
pub(super) struct Recent<T>(VecDeque<T>);

/// How many differences of samples the figures of the last seconds are made of.
const RECENT: usize = 5;

impl Resolution {
    /// That of a window of so many seconds.
    pub(super) fn of_window(seconds: u64) -> Option<usize> {
        RESOLUTIONS.iter().position(|it| it.step() * it.points as u64 == seconds)
    }

    /// Seconds from point to point.
    pub(super) fn step(self) -> u64 {
        self.ticks * TICK.as_secs()
    }
}

impl Timeline {
    /// A sample is taken so many seconds behind the first one.
    pub(super) fn advance(&mut self, now: Duration) -> Step {
        let tick = now.as_secs() / TICK.as_secs();
        let now = now.as_secs_f64();
        let mut completed = [(0, 0.0); RESOLUTIONS.len()];
        for ((slot, resolution), completed) in
            self.slots.iter_mut().zip(RESOLUTIONS).zip(&mut completed)
        {
            let number = tick / resolution.ticks;
            let count = number.saturating_sub(slot.number);
            // A moment that is too early would make a rate of nothing.
            if count > 0 && now > slot.began {
                *completed = (usize::try_from(count).unwrap_or(usize::MAX), now - slot.began);
                *slot = Slot { number, began: now };
            }
        }
        self.now = now;
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        Step { completed }
    }

    /// How much there is of the point of that resolution that is not complete, in seconds.
    pub(super) fn begun(&self, level: usize) -> f64 {
        self.now - self.slots[level].began
    }
}

impl Series {
    /// Of what has counted that much so far.
    pub(super) fn new(tally: &Tally) -> Series {
        let level = |resolution: Resolution| Level {
            points: VecDeque::with_capacity(resolution.points),
            base: tally.clone(),
        };
        let recent = Recent(VecDeque::from([tally.clone()]));
        Series { levels: RESOLUTIONS.map(level), recent }
    }

    /// Notes what was counted at the next sample.
    pub(super) fn note(&mut self, step: Step, tally: Tally) {
        for ((level, resolution), (count, seconds)) in
            self.levels.iter_mut().zip(RESOLUTIONS).zip(step.completed)
        {
            if count > 0 {
                let point = level.point(&tally, seconds);
                for _ in 0..count.min(resolution.points) {
                    if level.points.len() == resolution.points {
                        level.points.pop_front();
                    }
                    level.points.push_back(point);
                }
                level.base = tally.clone();
            }
        }
        self.recent.note(tally);
    }

    /// As many points as the resolution has, the last one of `begun` seconds where these are any. What was before the first sample
    /// is not known.
    pub(super) fn window(&self, level: usize, begun: f64) -> Vec<Point> {
        let most = RESOLUTIONS[level].points;
        let Level { points, .. } = &self.levels[level];
        let last = (begun > 0.0).then(|| self.levels[level].point(self.recent.last(), begun));
        let known = points.len() + usize::from(last.is_some());
        let unknown = std::iter::repeat_n(Point::UNKNOWN, most.saturating_sub(known));
        let known = points.iter().copied().chain(last).skip(known.saturating_sub(most));
        unknown.chain(known).collect()
    }

    /// The last complete point.
    pub(super) fn last(&self) -> Point {
        self.levels[0].points.back().copied().unwrap_or(Point::UNKNOWN)
    }

    /// For how many seconds all points were like that, up to the last one; as far as that is known.
    pub(super) fn lasted(&self, is_like_that: impl Fn(&Point) -> bool) -> f64 {
        let mut lasted = 0.0;
        for (level, resolution) in self.levels.iter().zip(RESOLUTIONS) {
            let points = level.points.iter().rev().take_while(|point| is_like_that(point)).count();
            #[expect(clippy::cast_precision_loss, reason = "at most a day")]
            let seconds = (points as u64 * resolution.step()) as f64;
            lasted = f64::max(lasted, seconds);
            if points < level.points.len() {
                break;
            }
        }
        lasted
    }
}

impl Level {
    fn point(&self, tally: &Tally, seconds: f64) -> Point {
        tally.since(&self.base).map_or(Point::UNKNOWN, |grown| grown.point(seconds))
    }
}

impl<T: Count> Recent<T> {
    pub(super) fn note(&mut self, count: T) {
        if self.0.len() > RECENT {
            self.0.pop_front();
        }
        self.0.push_back(count);
    }

    /// What has come in the last ten seconds, and how many these were exactly; nothing before the second sample.
    pub(super) fn grown(&self, timeline: &Timeline) -> Option<(T, f64)> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let began = timeline.recent.len().checked_sub(self.0.len())?;
        let seconds = timeline.recent.back()? - timeline.recent.get(began)?;
        let grown = last.since(first)?;
        (seconds > 0.0).then_some((grown, seconds))
    }
}

impl Recent<Tally> {
    fn last(&self) -> &Tally {
        self.0.back().expect("it is made with one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(requests: u64) -> Tally {
        Tally { requests, ..Tally::default() }
    }

    /// The rates of a window, in order.
    fn rates(series: &Series, timeline: &Timeline, level: usize) -> Vec<f32> {
        let points = series.window(level, timeline.begun(level));
        points.iter().map(|point| point.rate).collect()
    }

    #[test]
    fn points_have_their_places_at_each_resolution() {
        let (mut timeline, mut series) = (Timeline::default(), Series::new(&requests(7)));
        timeline.advance(Duration::ZERO);
        for tick in 1..=25 {
            let step = timeline.advance(TICK * tick);
            series.note(step, requests(7 + 20 * u64::from(tick)));
        }
        let fine = rates(&series, &timeline, 0);
        assert_eq!(fine.len(), 150);
        assert!(fine[..125].iter().all(|it| it.is_nan()), "before the start");
        assert!(fine[125..].iter().all(|it| *it == 10.0), "{fine:?}");
        let coarse = rates(&series, &timeline, 1);
        assert_eq!((coarse.len(), &coarse[177..]), (180, &[10.0; 3][..]), "the last one has begun");
        assert!(coarse[176].is_nan());
        assert_eq!(rates(&series, &timeline, 2)[179], 10.0);
        assert!((timeline.begun(1) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_week_takes_no_more_than_a_day() {
        let (mut timeline, mut series) = (Timeline::default(), Series::new(&Tally::default()));
        for tick in 0..7 * 24 * 1800 {
            let step = timeline.advance(TICK * tick);
            series.note(step, requests(u64::from(tick)));
        }
        for (level, resolution) in series.levels.iter().zip(RESOLUTIONS) {
            assert_eq!(level.points.len(), resolution.points);
            assert!(level.points.capacity() <= resolution.points.next_power_of_two());
            assert!(level.points.iter().all(|point| point.rate == 0.5));
        }
        assert_eq!((series.recent.0.len(), timeline.recent.len()), (RECENT + 1, RECENT + 1));
    }

    #[test]
    fn samples_that_come_late_fill_the_points_that_they_missed() {
        let (mut timeline, mut series) = (Timeline::default(), Series::new(&Tally::default()));
        timeline.advance(Duration::ZERO);
        let step = timeline.advance(TICK * 4);
        series.note(step, requests(80));
        assert_eq!(rates(&series, &timeline, 0)[146..], [10.0; 4]);
        // A long sleep is no more than a window.
        let step = timeline.advance(Duration::from_secs(1_000_000));
        series.note(step, requests(80));
        assert_eq!(series.levels.each_ref().map(|it| it.points.len()), [150, 180, 180]);
    }

    #[test]
    fn counts_that_begin_again_are_unknown_for_one_point() {
        let (mut timeline, mut series) = (Timeline::default(), Series::new(&requests(100)));
        timeline.advance(Duration::ZERO);
        for (tick, count) in [(1, 110), (2, 5), (3, 15)] {
            let step = timeline.advance(TICK * tick);
            series.note(step, requests(count));
        }
        let fine = rates(&series, &timeline, 0);
        assert!(fine[147] == 5.0 && fine[148].is_nan() && fine[149] == 5.0, "{:?}", &fine[147..]);
    }

    #[test]
    fn the_last_ten_seconds_are_told_exactly() {
        let (mut timeline, mut series) = (Timeline::default(), Series::new(&requests(0)));
        timeline.advance(Duration::ZERO);
        assert!(series.recent.grown(&timeline).is_none());
        for tick in 1..=9 {
            let step = timeline.advance(TICK * tick);
            series.note(step, requests(u64::from(tick)));
        }
        let (grown, seconds) = series.recent.grown(&timeline).unwrap();
        assert_eq!((grown.requests, seconds), (5, 10.0));
    }

    #[test]
    fn how_long_something_has_lasted_is_found_at_the_resolution_that_has_its_begin() {
        let (mut timeline, mut series) = (Timeline::default(), Series::new(&requests(0)));
        timeline.advance(Duration::ZERO);
        let mut count = 0;
        for tick in 1..=1000_u64 {
            // Twice as many for the last 800 ticks.
            count += if tick > 200 { 20 } else { 10 };
            let step = timeline.advance(TICK * u32::try_from(tick).unwrap());
            series.note(step, requests(count));
        }
        assert_eq!(series.lasted(|point| point.rate > 6.0), 1600.0);
        assert_eq!(series.lasted(|point| point.rate > 11.0), 0.0);
        assert_eq!(series.lasted(|point| point.rate > 1.0), 2000.0 - 2000.0 % 20.0);
    }
}
