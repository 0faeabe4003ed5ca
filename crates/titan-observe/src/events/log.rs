//! Where events go in.

use super::event::Event;
use super::levels::{Levels, LevelsNow, Wish};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use titan_config::{EventFormat, Log as Settings, LogArea, LogLevel};
use titan_io::registry::Registry;

/// The events of a process. Clones are the same log. Where nobody writes them the first ones wait, and the others are counted.
#[derive(Clone, Default)]
pub struct Log(pub(super) Arc<Shared>);

/// What those who tell and the one who writes have in common.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) levels: Levels,
    queue: Mutex<Queue>,
    /// Wakes who writes.
    pub(super) arrived: Condvar,
    /// Wakes who waits until everything is written.
    pub(super) written: Condvar,
    /// Events for which there was no room, here or where they are written.
    pub(super) no_room: AtomicU64,
    /// Events that were too many in a second.
    pub(super) too_many: AtomicU64,
}

/// What waits to be written.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) events: VecDeque<Event>,
    pub(super) is_json: bool,
    /// Whether levels have changed that the writer has to follow.
    pub(super) has_news: bool,
    /// Whether everything is to be written, and nothing more comes.
    pub(super) ends: bool,
    /// Whether that was done.
    pub(super) has_ended: bool,
}

/// How many events were not written, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// There was no room: they came faster than standard error takes them, or it did not take them.
    pub queue: u64,
    /// There were too many in a second.
    pub rate: u64,
}

/// The most that wait.
const MOST: usize = 4096;
/// Of these the ones that are only for what operators do, and for what becomes of the process.
const RESERVED: usize = 1024;

/// By what the log of a process is known.
#[derive(PartialEq, Eq, Hash)]
struct LogKey;

impl Log {
    /// The log of whatever is built with that registry: the one that [`Log::put_in`] has put there, or one that nobody writes.
    pub fn of(registry: &Registry) -> Arc<Log> {
        registry.shared(LogKey, Log::default)
    }

    /// Has whatever is built with that registry tell this log, for as long as what this returns is kept.
    pub fn put_in(&self, registry: &Registry) -> Arc<Log> {
        registry.shared(LogKey, || self.clone())
    }

    /// Has an event written, if its area wants to know of that level. Never waits: where there is no room it is counted.
    pub fn tell(&self, event: Event) {
        if self.takes(event.area, event.level) {
            self.tell_anyway(event);
        }
    }

    /// The same whatever level its area has: for what could otherwise be done unseen.
    pub fn tell_anyway(&self, event: Event) {
        let Shared { no_room, arrived, .. } = &*self.0;
        let most = if event.has_own_share() { MOST } else { MOST - RESERVED };
        let mut queue = self.0.lock();
        if queue.events.len() >= most {
            no_room.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.events.push_back(event);
        drop(queue);
        arrived.notify_one();
    }

    /// Whether an event like that is written: whoever has to work for one may leave it.
    pub fn takes(&self, area: LogArea, level: LogLevel) -> bool {
        self.0.levels.takes(area, level, Instant::now)
    }

    /// Has levels and format of a configuration hold.
    pub fn configure(&self, settings: &Settings) {
        self.0.levels.configure(settings);
        self.0.lock().is_json = settings.format == EventFormat::Json;
        self.wake();
    }

    /// Has other levels hold for a while, in place of those that were wished for before.
    pub fn wish(&self, wish: &Wish) {
        self.0.levels.wish(wish, Instant::now());
        self.wake();
    }

    /// The levels in force.
    pub fn levels(&self) -> LevelsNow {
        self.0.levels.now(Instant::now())
    }

    /// How many events were not written.
    pub fn dropped(&self) -> Dropped {
        let Shared { no_room, too_many, .. } = &*self.0;
        Dropped { queue: no_room.load(Ordering::Relaxed), rate: too_many.load(Ordering::Relaxed) }
    }

    /// Takes the events that wait. For tests, and whatever else has no writer.
    pub fn take(&self) -> Vec<Event> {
        self.0.lock().events.drain(..).collect()
    }

    fn wake(&self) {
        self.0.lock().has_news = true;
        self.0.arrived.notify_one();
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(area: LogArea, level: LogLevel) -> Event {
        Event::new((area, level), "test", "text")
    }

    #[test]
    fn a_flood_is_counted_and_not_kept() {
        let log = Log::default();
        (0..MOST).for_each(|_| log.tell(event(LogArea::Health, LogLevel::Warn)));
        log.tell(event(LogArea::Admin, LogLevel::Info));
        assert_eq!(log.dropped(), Dropped { queue: RESERVED as u64, rate: 0 });
        assert_eq!(log.take().len(), MOST - RESERVED + 1);
        assert_eq!(log.take(), []);
    }

    #[test]
    fn what_nobody_wants_to_know_is_no_event() {
        let log = Log::default();
        log.tell(event(LogArea::Health, LogLevel::Debug));
        assert_eq!(log.take(), []);
        let areas = vec![(LogArea::Health, LogLevel::Debug)];
        log.wish(&Wish { areas, ..Wish::default() });
        log.tell(event(LogArea::Health, LogLevel::Debug));
        assert_eq!((log.take().len(), log.dropped()), (1, Dropped::default()));
    }

    #[test]
    fn what_is_built_with_a_registry_tells_the_log_that_is_there() {
        let (registry, log) = (Registry::default(), Log::default());
        let _kept = log.put_in(&registry);
        Log::of(&registry).tell(event(LogArea::Health, LogLevel::Warn));
        assert_eq!(log.take().len(), 1);
    }
}
