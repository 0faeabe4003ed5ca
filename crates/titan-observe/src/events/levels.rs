//! From which level on events are written, by area.

use std::array;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use titan_config::{Log as Settings, LogArea, LogLevel};

/// What holds, for everybody who has something to tell.
pub(super) struct Levels {
    /// The number of the level in force, by area.
    now: [AtomicU8; AREAS],
    /// That of the configuration.
    configured: [AtomicU8; AREAS],
    /// Nanoseconds from `start` until `configured` is in force instead of `now`, whether or not the thread that writes is free to say
    /// so.
    ends: AtomicU64,
    start: Instant,
    origin: Mutex<Origin>,
}

/// Where the levels in force come from.
struct Origin {
    configured: [LogLevel; AREAS],
    /// What somebody wants instead for a while.
    wished: [Option<LogLevel>; AREAS],
    /// Until when; without a time until the configuration changes.
    until: Option<Instant>,
}

/// Other levels than those of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// For all areas that are not named.
    pub level: Option<LogLevel>,
    /// For these.
    pub areas: Vec<(LogArea, LogLevel)>,
    /// How long; without it until a configuration is put in force.
    pub time: Option<Duration>,
}

/// The levels at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelsNow {
    /// Each area with its level, and whether somebody has wished for that.
    pub areas: Vec<(LogArea, LogLevel, bool)>,
    /// How long the wishes still hold, where that is known.
    pub ends_in: Option<Duration>,
}

const AREAS: usize = LogArea::ALL.len();
/// Where nothing ends.
const NEVER: u64 = u64::MAX;

impl Levels {
    /// Whether an event of that level is written. The clock is asked only while wishes hold for a time.
    pub(super) fn takes(
        &self,
        area: LogArea,
        level: LogLevel,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        let ends = self.ends.load(Ordering::Relaxed);
        let levels = match ends != NEVER && self.since_start(now()) >= ends {
            true => &self.configured,
            false => &self.now,
        };
        level as u8 <= levels[area.index()].load(Ordering::Relaxed)
    }

    /// Has the levels of a configuration hold. What was wished for ends.
    pub(super) fn configure(&self, settings: &Settings) {
        let mut origin = self.lock();
        *origin = Origin::of(settings);
        self.hold(&origin);
    }

    /// Has other levels hold, in place of what was wished for before. Without any the wishes end.
    pub(super) fn wish(&self, wish: &Wish, now: Instant) {
        let mut origin = self.lock();
        origin.wished = [wish.level; AREAS];
        wish.areas.iter().for_each(|(area, level)| origin.wished[area.index()] = Some(*level));
        let is_any = origin.wished.iter().any(Option::is_some);
        origin.until = wish.time.filter(|_| is_any).map(|time| now + time);
        self.hold(&origin);
    }

    /// When what was wished for ends, where that is known.
    pub(super) fn until(&self) -> Option<Instant> {
        self.lock().until
    }

    /// Ends what was wished for until now. Whether that was anything.
    pub(super) fn expire(&self, now: Instant) -> bool {
        let mut origin = self.lock();
        let ends = origin.until.take_if(|until| *until <= now).is_some();
        if ends {
            origin.wished = [None; AREAS];
            self.hold(&origin);
        }
        ends
    }

    /// What holds.
    pub(super) fn now(&self, now: Instant) -> LevelsNow {
        let origin = self.lock();
        let is_over = origin.until.is_some_and(|until| until <= now);
        let of = |area: LogArea| {
            let wished = origin.wished[area.index()].filter(|_| !is_over);
            (area, wished.unwrap_or(origin.configured[area.index()]), wished.is_some())
        };
        let until = origin.until.filter(|_| !is_over);
        let ends_in = until.map(|until| until.saturating_duration_since(now));
        LevelsNow { areas: LogArea::ALL.map(of).to_vec(), ends_in }
    }

    fn hold(&self, origin: &Origin) {
        let levels = origin.wished.iter().zip(origin.configured);
        for ((wished, level), (now, configured)) in
            levels.zip(self.now.iter().zip(&self.configured))
        {
            configured.store(level as u8, Ordering::Relaxed);
            now.store(wished.unwrap_or(level) as u8, Ordering::Relaxed);
        }
        let ends = origin.until.map_or(NEVER, |until| self.since_start(until));
        self.ends.store(ends, Ordering::Relaxed);
    }

    fn since_start(&self, time: Instant) -> u64 {
        let nanos = time.saturating_duration_since(self.start).as_nanos();
        u64::try_from(nanos).unwrap_or(NEVER - 1)
    }

    fn lock(&self) -> MutexGuard<'_, Origin> {
        self.origin.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Levels {
    fn default() -> Levels {
        let origin = Origin::of(&Settings::default());
        let levels = || array::from_fn(|area| AtomicU8::new(origin.configured[area] as u8));
        Levels {
            now: levels(),
            configured: levels(),
            ends: AtomicU64::new(NEVER),
            start: Instant::now(),
            origin: Mutex::new(origin),
        }
    }
}

impl Origin {
    fn of(settings: &Settings) -> Origin {
        let configured = LogArea::ALL.map(|area| settings.level_of(area));
        Origin { configured, wished: [None; AREAS], until: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LogArea::{Admin, Health};
    use LogLevel::{Debug, Info, Warn};

    fn wish(level: Option<LogLevel>, areas: &[(LogArea, LogLevel)], seconds: u64) -> Wish {
        let time = (seconds > 0).then(|| Duration::from_secs(seconds));
        Wish { level, areas: areas.to_vec(), time }
    }

    #[test]
    fn a_wish_holds_for_its_time_or_until_a_configuration_comes() {
        let (levels, start) = (Levels::default(), Instant::now());
        let told = |levels: &Levels| {
            let takes = |area, level| levels.takes(area, level, || start);
            [takes(Health, Debug), takes(Admin, Info), takes(Admin, Warn)]
        };
        assert_eq!(told(&levels), [false, true, true]);
        levels.wish(&wish(None, &[(Health, Debug)], 60), start);
        assert_eq!(told(&levels), [true, true, true]);
        let just_before = start + Duration::from_secs(59);
        assert!(!levels.expire(just_before));
        assert_eq!(levels.until(), Some(start + Duration::from_secs(60)));
        assert_eq!(levels.now(just_before).ends_in, Some(Duration::from_secs(1)));
        let then = start + Duration::from_secs(60);
        let takes = |now| levels.takes(Health, Debug, || now);
        assert_eq!([takes(just_before), takes(then)], [true, false], "nobody has ended it yet");
        let shown = levels.now(then);
        assert!(shown.areas.iter().all(|(_, level, is_wished)| *level == Info && !is_wished));
        assert_eq!(shown.ends_in, None);
        assert!(levels.expire(then));
        assert_eq!(told(&levels), [false, true, true]);
        levels.wish(&wish(Some(LogLevel::Error), &[(Health, Debug)], 0), start);
        assert_eq!(told(&levels), [true, false, false]);
        levels.configure(&Settings::default());
        assert_eq!(told(&levels), [false, true, true]);
        assert!(
            levels
                .now(start)
                .areas
                .iter()
                .all(|(_, level, is_wished)| *level == Info && !is_wished)
        );
    }
}
