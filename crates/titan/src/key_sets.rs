//! Key sets of tokens that were fetched: as events. That one could not be is told by `failures`.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};
use titan_config::{LogArea, LogLevel};
use titan_observe::events::{Event, Field, Log};
use titan_proxy::KeySetStatus;

/// How key sets were doing at the last look.
#[derive(Default)]
pub(crate) struct KeySets(HashMap<Named, Seen>);

/// A set, by its policy and issuer.
type Named = (String, String);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    fetched_at: u64,
    /// How many attempts had failed by then.
    failed: u64,
}

impl KeySets {
    /// Tells of sets that were fetched since the last look.
    pub(crate) fn look(&mut self, sets: Vec<KeySetStatus>, log: &Log) {
        let before = std::mem::take(&mut self.0);
        for set in sets {
            let KeySetStatus { policy, issuer, keys, fetched_at, failed } = set;
            let named = (policy, issuer);
            let seen = before.get(&named).copied().unwrap_or(Seen { fetched_at: 0, failed: 0 });
            let is_news = fetched_at != seen.fetched_at;
            if is_news {
                // That a set is there, or again, is a change; that it was fetched once more is not.
                let level = match seen.fetched_at == 0 || failed != seen.failed {
                    true => LogLevel::Info,
                    false => LogLevel::Debug,
                };
                // One that is alone may have no issuer.
                let whose = if named.1.is_empty() { "the provider" } else { &named.1 };
                let what = format!("the keys of {whose} were fetched: {keys}");
                let event = Event::new((LogArea::Policy, level), "token_keys_fetched", what);
                let event = event.at(UNIX_EPOCH + Duration::from_secs(fetched_at));
                log.tell(event.with(Field::Policy, &named.0));
            }
            let now = if is_news { Seen { fetched_at, failed } } else { seen };
            self.0.insert(named, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_told_of_when_it_is_there_and_when_it_is_there_again() {
        let (mut sets, log) = (KeySets::default(), Log::default());
        let mut told = |fetched_at, failed| {
            let (policy, issuer) = ("p".to_owned(), "https://a".to_owned());
            sets.look(vec![KeySetStatus { policy, issuer, keys: 2, fetched_at, failed }], &log);
            log.take().pop().map(|event| (event.place().1, event.message().to_owned()))
        };
        let fetched = |level| Some((level, "the keys of https://a were fetched: 2".to_owned()));
        assert_eq!(told(0, 1), None);
        assert_eq!(told(10, 1), fetched(LogLevel::Info));
        assert_eq!(told(10, 1), None);
        assert_eq!(told(20, 1), None, "nobody has asked for that");
        assert_eq!(told(20, 3), None);
        assert_eq!(told(30, 3), fetched(LogLevel::Info));
    }
}
