//! What was decided about upstreams, in sentences for the operator.
//!
//! Decisions are rare, so that saying one may take a lock; a request that causes none touches nothing of this. The lines that wait
//! to be told are bounded: if nobody takes them, the first ones are kept, which tell how it began, and the others are counted.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use titan_io::registry::Registry;

/// The decisions that nobody has been told of yet, about all upstreams.
#[derive(Default)]
pub struct Events(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    dropped: u64,
}

/// Something that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The upstream that it is about.
    pub upstream: String,
    /// What was decided, and the figures that caused it.
    pub what: String,
}

/// The most that wait.
const MOST: usize = 1024;

/// By what those of the process are known.
#[derive(PartialEq, Eq, Hash)]
struct EventsKey;

impl Events {
    /// Those of the process, whatever configuration is in force.
    pub fn of(registry: &Registry) -> Arc<Events> {
        registry.shared(EventsKey, Events::default)
    }

    /// Has the operator told of a decision.
    pub fn say(&self, upstream: &str, what: impl fmt::Display) {
        let mut waiting = self.lock();
        if waiting.events.len() == MOST {
            waiting.dropped += 1;
            return;
        }
        waiting.events.push(Event { upstream: upstream.to_string(), what: what.to_string() });
    }

    /// Takes those that wait, and how many more there were.
    pub fn take(&self) -> (Vec<Event>, u64) {
        let Waiting { events, dropped } = std::mem::take(&mut *self.lock());
        (events, dropped)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_not_kept() {
        let events = Events::default();
        (0..MOST + 3).for_each(|number| events.say("api", number));
        let (taken, dropped) = events.take();
        assert_eq!((taken.len(), dropped), (MOST, 3));
        assert_eq!(taken[0], Event { upstream: "api".into(), what: "0".into() });
        assert_eq!(events.take(), (Vec::new(), 0));
    }
}
