//! What is written once although it happens again and again.

use super::event::{Event, Repeat};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use titan_config::LogLevel;

/// What was written lately. Pure: time is an argument.
#[derive(Default)]
pub(super) struct Repeats(HashMap<Key, Told>);

/// What makes two events the same.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    /// What has states, or the kind of what has none.
    subject: &'static str,
    /// What they have happened to, or what they say.
    place: String,
}

/// What was written, and what has happened since.
struct Told {
    until: Instant,
    /// The kinds that were written since the minute began: as many as there are states.
    kinds: Vec<&'static str>,
    /// The last one since then, with the number of all of them.
    held_back: Option<Event>,
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// What is remembered at most: what happens then is written every time.
const MOST: usize = 4096;

impl Repeats {
    /// The event if it is to be written now; otherwise it is held back, or left out.
    pub(super) fn sift(&mut self, event: Event, now: Instant) -> Option<Event> {
        let (time, key) = match event.repeat {
            Repeat::Always if event.subject.is_none() => return Some(event),
            Repeat::Always | Repeat::ByMinute => (MINUTE, Key::of_place(&event)),
            Repeat::ByHour => (HOUR, Key::of_message(&event)),
        };
        if let Some(told) = self.0.get_mut(&key) {
            return told.sift(event, now, time);
        }
        if self.0.len() >= MOST {
            self.0.retain(|_, told| told.until > now || told.held_back.is_some());
        }
        if self.0.len() < MOST && event.repeat != Repeat::Always {
            let kinds = vec![event.kind];
            self.0.insert(key, Told { until: now + time, kinds, held_back: None });
        }
        Some(event)
    }

    /// What was held back until now, in the order in which it happened. It is not repeated for a while, either.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Event> {
        let mut due = Vec::new();
        for told in self.0.values_mut().filter(|told| told.until <= now) {
            if let Some(event) = told.held_back.take() {
                told.begin(event.kind, now + MINUTE);
                due.push(event);
            }
        }
        self.0.retain(|_, told| told.until > now);
        due.sort_by_key(|event| event.time);
        due
    }

    /// What is held back, whenever it would be due: nothing is written any more.
    pub(super) fn rest(&mut self) -> Vec<Event> {
        let mut rest: Vec<_> = self.0.drain().filter_map(|(_, told)| told.held_back).collect();
        rest.sort_by_key(|event| event.time);
        rest
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Instant> {
        let held_back = self.0.values().filter(|told| told.held_back.is_some());
        held_back.map(|told| told.until).min()
    }
}

impl Told {
    /// The event if it is to be written now. It stands for what was held back before: that is not how things are any more.
    fn sift(&mut self, mut event: Event, now: Instant, time: Duration) -> Option<Event> {
        let is_over = self.until <= now;
        if !is_over && self.has(&event) {
            self.hold_back(event);
            return None;
        }
        self.add_held_back(&mut event);
        match event.repeat {
            Repeat::Always => {}
            _ if is_over => self.begin(event.kind, now + time),
            _ if self.kinds.contains(&event.kind) => {}
            _ => self.kinds.push(event.kind),
        }
        Some(event)
    }

    /// Whether it was written, and need not be again for now.
    fn has(&self, event: &Event) -> bool {
        match event.repeat {
            Repeat::Always => false,
            Repeat::ByMinute => event.level != LogLevel::Error && self.kinds.contains(&event.kind),
            Repeat::ByHour => true,
        }
    }

    /// What lasts is not told again before its time; how often it was seen means nothing.
    fn hold_back(&mut self, mut event: Event) {
        if event.repeat != Repeat::ByHour {
            self.add_held_back(&mut event);
            self.held_back = Some(event);
        }
    }

    /// Has an event stand for what was held back.
    fn add_held_back(&mut self, event: &mut Event) {
        event.count += self.held_back.take().map_or(0, |before| before.count);
    }

    /// Begins another time, with a kind that is written.
    fn begin(&mut self, kind: &'static str, until: Instant) {
        self.until = until;
        self.kinds.clear();
        self.kinds.push(kind);
    }
}

impl Key {
    fn of_place(event: &Event) -> Key {
        let mut place = String::new();
        for (field, value) in event.fields.iter().filter(|(field, _)| field.is_place()) {
            place.extend([field.as_str(), "=", value.as_str(), "\n"]);
        }
        Key { subject: event.subject(), place }
    }

    fn of_message(event: &Event) -> Key {
        let mut key = Key::of_place(event);
        key.place.push_str(event.message.as_str());
        key
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Field;
    use super::*;
    use titan_config::LogArea;

    fn event(endpoint: &str, message: &str) -> Event {
        Event::new((LogArea::Upstream, LogLevel::Warn), "failed", message)
            .with(Field::Endpoint, endpoint)
            .with(Field::RequestId, message)
            .once(Repeat::ByMinute)
    }

    fn told(event: &Event) -> (String, u64) {
        (event.message.to_string(), event.count)
    }

    #[test]
    fn one_for_each_place_and_minute_and_the_last_one_at_its_end() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut sift = |event, seconds| repeats.sift(event, at(seconds)).as_ref().map(told);
        assert_eq!(sift(event("a", "it is down"), 0), Some(("it is down".to_owned(), 1)));
        assert_eq!(sift(event("b", "it is down").times(5), 0), Some(("it is down".to_owned(), 5)));
        assert_eq!(sift(event("a", "it is up").times(70), 2), None);
        assert_eq!(sift(event("a", "it is down").times(3), 59), None);
        assert_eq!(repeats.next(), Some(at(60)));
        assert_eq!(repeats.due(at(59)), []);
        let due: Vec<_> = repeats.due(at(60)).iter().map(told).collect();
        assert_eq!(due, [("it is down".to_owned(), 73)]);
        assert_eq!(repeats.sift(event("a", "it is up"), at(61)), None);
        assert_eq!(repeats.rest().len(), 1);
    }

    fn breaker(kind: &'static str) -> Event {
        let event = Event::new((LogArea::Breaker, LogLevel::Warn), kind, kind);
        event.state_of("breaker").once(Repeat::ByMinute)
    }

    #[test]
    fn what_is_told_last_is_the_last_state() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let is_told =
            [(0, "opened"), (5, "closed"), (30, "opened"), (35, "closed"), (50, "opened")]
                .map(|(seconds, kind)| repeats.sift(breaker(kind), at(seconds)).is_some());
        assert_eq!(is_told, [true, true, false, false, false]);
        let due: Vec<_> = repeats.due(at(65)).iter().map(told).collect();
        assert_eq!(due, [("opened".to_owned(), 3)]);
        assert_eq!(repeats.next(), None);
    }

    #[test]
    fn a_state_that_is_written_stands_for_what_was_held_back() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let mut sift = |event| repeats.sift(event, now).as_ref().map(told);
        let written = |what: &str, count| Some((what.to_owned(), count));
        assert_eq!(sift(breaker("opened")), written("opened", 1));
        assert_eq!(sift(breaker("opened")), None);
        assert_eq!(sift(breaker("half_open")), written("half_open", 2));
        assert_eq!(sift(breaker("opened")), None);
        assert_eq!(sift(breaker("closed").once(Repeat::Always)), written("closed", 2));
        assert_eq!(repeats.rest(), []);
    }

    #[test]
    fn errors_are_told_each_time() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let error = || Event { level: LogLevel::Error, ..breaker("no_endpoints") };
        for kind in ["no_endpoints", "back", "no_endpoints", "back", "no_endpoints"] {
            let event = if kind == "back" { breaker(kind) } else { error() };
            let is_told = repeats.sift(event, now).is_some();
            assert!(is_told || kind == "back");
        }
        assert_eq!(repeats.rest(), []);
    }

    #[test]
    fn what_was_held_back_and_is_not_yet_told_is_counted() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        repeats.sift(event("a", "it is down"), start);
        repeats.sift(event("a", "it is down").times(6), start);
        let last = repeats.sift(event("a", "it is up"), start + MINUTE);
        assert_eq!(last.as_ref().map(told), Some(("it is up".to_owned(), 7)));
        assert_eq!(repeats.rest(), []);
    }

    #[test]
    fn what_lasts_is_told_once_an_hour() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let mut sift = |message, minutes: u64| {
            let event = event("a", message).once(Repeat::ByHour);
            repeats.sift(event, start + Duration::from_secs(60 * minutes)).is_some()
        };
        assert_eq!(
            [sift("x", 0), sift("y", 0), sift("x", 59), sift("x", 60)],
            [true, true, false, true]
        );
        assert_eq!(repeats.next(), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        for number in 0..2 * MOST {
            assert!(repeats.sift(event(&number.to_string(), "x"), now).is_some());
        }
        assert_eq!(repeats.0.len(), MOST);
    }
}
