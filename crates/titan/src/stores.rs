//! Stores that do not respond, and do again: as events.

use std::collections::HashMap;
use titan_config::{LogArea, LogLevel};
use titan_observe::events::{Event, Log, Repeat};
use titan_proxy::StoreStatus;

/// How stores were doing at the last look, by name.
#[derive(Default)]
pub(crate) struct Stores(HashMap<String, Seen>);

#[derive(Clone, Copy)]
struct Seen {
    is_up: bool,
    losses: u64,
}

impl Stores {
    /// Tells of stores that were lost or have come back since the last look, also if both has happened in between.
    pub(crate) fn look(&mut self, stores: Vec<StoreStatus>, log: &Log) {
        let before = std::mem::take(&mut self.0);
        for StoreStatus { name, is_up, losses, reason, .. } in stores {
            let seen = before.get(&name).copied().unwrap_or(Seen { is_up: true, losses: 0 });
            if losses != seen.losses && (seen.is_up || is_up) {
                let reason = reason.as_deref().map_or("no reason is known", String::as_str);
                let what = format!("the store `{name}` cannot be used: {reason}");
                let event = Event::new((LogArea::Policy, LogLevel::Warn), "store_lost", what);
                log.tell(event.once(Repeat::ByMinute));
            }
            if is_up && (!seen.is_up || losses != seen.losses) {
                let what = format!("the store `{name}` can be used again");
                let event = Event::new((LogArea::Policy, LogLevel::Info), "store_back", what);
                log.tell(event.once(Repeat::ByMinute));
            }
            self.0.insert(name, Seen { is_up, losses });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use titan_proxy::{Counted, StoreCells};

    #[test]
    fn a_store_is_told_of_when_it_goes_and_when_it_is_back() {
        let (mut stores, log) = (Stores::default(), Log::default());
        let counted: Arc<Counted<StoreCells>> = Counted::of(&Default::default(), "s", 1);
        let mut told = |is_up, losses| {
            let (name, reason) = ("s".to_owned(), Some(Arc::new("why".to_owned())));
            let counted = Arc::clone(&counted);
            stores.look(
                vec![StoreStatus { name, is_up, gateways: 1, losses, reason, counted }],
                &log,
            );
            let told: Vec<_> = log.take().iter().map(|event| event.message().to_owned()).collect();
            told
        };
        let (lost, back) = ("the store `s` cannot be used: why", "the store `s` can be used again");
        assert_eq!(told(true, 0), [""; 0]);
        assert_eq!(told(false, 1), [lost]);
        assert_eq!(told(false, 7), [""; 0]);
        assert_eq!(told(true, 7), [back]);
        assert_eq!(told(true, 8), [lost, back], "between two looks");
    }
}
