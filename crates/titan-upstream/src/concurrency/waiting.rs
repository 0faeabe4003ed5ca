//! The requests that wait until fewer run at the upstream, and which of them is refused instead. Pure: time is an
//! argument.
//!
//! ```text
//!   Relaxed: oldest first  -- the oldest has waited longer than the target for an interval -->  Overloaded: newest first
//!                          <-- nothing waits any more ----------------------------------------
//! ```
//!
//! A queue that passes on a burst is good; one that stands only makes all requests late (CoDel, RFC 8289). In a
//! standing queue the oldest requests are those whose clients are about to give up, so the newest is served, and what
//! has waited longer than the target is refused at once.

use crate::queue::{Order, Queue, QueuePosition};
use std::time::Duration;
use titan_config::Importance;
use titan_io::network::ClientNetwork;
use titan_io::shares::ClientCounter;

/// What waits, by importance.
pub(super) struct Waiting<W> {
    /// In the order of [`Importance`]: the most important first.
    classes: [Queue<Waiter<W>>; 3],
    regime: Regime,
}

/// How long requests may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    /// How many.
    pub(super) length: usize,
    /// How long, while more come than are served.
    pub(super) target: Duration,
}

struct Waiter<W> {
    since: Duration,
    who: W,
}

/// Whose turn it is.
enum Regime {
    /// Since when the oldest has waited longer than the target.
    Relaxed {
        late_since: Option<Duration>,
    },
    Overloaded,
}

/// Where a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitingPosition {
    importance: Importance,
    position: QueuePosition,
}

/// How many targets make an interval, after which a queue counts as standing. Until then requests wait that long at
/// most: CoDel's own proportion, 5 ms in 100 ms, leaves bursts more time, but its targets are shorter.
const INTERVAL: u32 = 10;

impl QueueLimits {
    /// How long a request waits at most.
    pub(super) fn longest(self) -> Duration {
        self.target * INTERVAL
    }
}

impl<W> Default for Waiting<W> {
    fn default() -> Waiting<W> {
        Waiting { classes: Default::default(), regime: Regime::Relaxed { late_since: None } }
    }
}

impl<W> Waiting<W> {
    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.classes.iter().map(Queue::len).sum()
    }

    /// Adds a request. In a full queue it takes the place of a less important one, or of one of its own class whose
    /// client has more in it. `Err` where there is none.
    pub(super) fn push(
        &mut self,
        (importance, client, counter): (Importance, Option<ClientNetwork>, ClientCounter),
        (since, who): (Duration, W),
        limits: QueueLimits,
    ) -> Result<(WaitingPosition, Option<W>), W> {
        let mut displaced = None;
        if self.len() >= limits.length {
            displaced = self.displace_for(importance, client);
            if displaced.is_none() {
                return Err(who);
            }
        }
        let position = self.class(importance).push(client, counter, Waiter { since, who });
        Ok((WaitingPosition { importance, position }, displaced))
    }

    /// The request that goes on now, with the counter of its client: the most important, of those one of the client
    /// that uses the fewest.
    pub(super) fn pop(
        &mut self,
        now: Duration,
        limits: QueueLimits,
        used: impl Fn(ClientCounter) -> u32,
    ) -> Option<(ClientCounter, W)> {
        self.judge(now, limits);
        let order = self.order();
        let next = self.classes.iter_mut().find_map(|class| {
            let position = class.next_in(order, &used)?;
            class.remove(position)
        });
        self.relax_if_empty();
        next.map(|(counter, waiter)| (counter, waiter.who))
    }

    /// Removes a request that has waited too long, the least important first; again until there is none.
    pub(super) fn shed(&mut self, now: Duration, limits: QueueLimits) -> Option<W> {
        self.judge(now, limits);
        let longest = match self.regime {
            Regime::Relaxed { .. } => limits.longest(),
            Regime::Overloaded => limits.target,
        };
        let late = self.classes.iter_mut().rev().find_map(|class| {
            let (position, waiter) = class.oldest()?;
            let is_late = now.saturating_sub(waiter.since) > longest;
            is_late.then(|| class.remove(position)).flatten().map(|(_, waiter)| waiter.who)
        });
        self.relax_if_empty();
        late
    }

    /// Removes a request that waits no more.
    pub(super) fn remove(&mut self, place: WaitingPosition) -> Option<W> {
        let (_, waiter) = self.class(place.importance).remove(place.position)?;
        self.relax_if_empty();
        Some(waiter.who)
    }

    /// Whether what came last is served first.
    pub(super) fn is_overloaded(&self) -> bool {
        matches!(self.regime, Regime::Overloaded)
    }

    /// Where nothing waits any more nothing stands, however the last one has left.
    fn relax_if_empty(&mut self) {
        if self.len() == 0 {
            self.regime = Regime::Relaxed { late_since: None };
        }
    }

    /// Takes in how long the oldest request has waited.
    fn judge(&mut self, now: Duration, limits: QueueLimits) {
        let Regime::Relaxed { late_since } = &mut self.regime else { return };
        let oldest = self.classes.iter().filter_map(|class| Some(class.oldest()?.1.since)).min();
        let is_late = oldest.is_some_and(|since| now.saturating_sub(since) > limits.target);
        let since = match is_late {
            true => *late_since.get_or_insert(now),
            false => {
                *late_since = None;
                return;
            }
        };
        if now.saturating_sub(since) >= limits.longest() {
            self.regime = Regime::Overloaded;
        }
    }

    fn order(&self) -> Order {
        match self.regime {
            Regime::Relaxed { .. } => Order::OldestFirst,
            Regime::Overloaded => Order::NewestFirst,
        }
    }

    fn class(&mut self, importance: Importance) -> &mut Queue<Waiter<W>> {
        &mut self.classes[importance as usize]
    }

    /// Makes room: the last of the least important class gives up its place for a more important request. Within a
    /// class, the client that has the most gives one up for a client that has fewer; where the newest comes first,
    /// the oldest gives way in any case.
    fn displace_for(&mut self, importance: Importance, client: Option<ClientNetwork>) -> Option<W> {
        let order = self.order();
        let lower = &mut self.classes[importance as usize + 1..];
        let displaced = lower.iter_mut().rev().find_map(|class| class.displace(order));
        let waiter = displaced.or_else(|| match order {
            Order::OldestFirst => self.class(importance).displace_for(client),
            Order::NewestFirst => self.class(importance).displace(order),
        })?;
        Some(waiter.who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_io::shares::Shares;

    const LIMITS: QueueLimits = QueueLimits { length: 3, target: Duration::from_millis(10) };

    struct Clients(Shares, Waiting<&'static str>);

    impl Clients {
        fn new() -> Clients {
            Clients(Shares::apart(&[1, 2].map(client)), Waiting::default())
        }

        fn push(
            &mut self,
            importance: Importance,
            number: u8,
            (who, at): (&'static str, u64),
        ) -> Result<Option<&'static str>, &'static str> {
            let who = (Duration::from_millis(at), who);
            let of = (importance, client(number), self.0.counter(client(number)));
            self.1.push(of, who, LIMITS).map(|(_, displaced)| displaced)
        }

        fn pop(&mut self, at: u64) -> Option<&'static str> {
            let used = |counter| self.0.of(counter);
            self.1.pop(Duration::from_millis(at), LIMITS, used).map(|(_, who)| who)
        }

        fn shed(&mut self, at: u64) -> Option<&'static str> {
            self.1.shed(Duration::from_millis(at), LIMITS)
        }
    }

    fn client(number: u8) -> Option<ClientNetwork> {
        Some(ClientNetwork::of([192, 0, 2, number].into()))
    }

    #[test]
    fn the_most_important_comes_first_and_then_the_oldest() {
        let mut queue = Clients::new();
        for (importance, who) in [
            (Importance::Sheddable, "sheddable"),
            (Importance::Default, "default"),
            (Importance::Critical, "critical"),
        ] {
            assert_eq!(queue.push(importance, 1, (who, 0)), Ok(None));
        }
        let all = [queue.pop(1), queue.pop(1), queue.pop(1), queue.pop(1)];
        assert_eq!(all, [Some("critical"), Some("default"), Some("sheddable"), None]);
    }

    #[test]
    fn in_a_full_queue_the_least_important_gives_way() {
        let mut queue = Clients::new();
        for (importance, who) in
            [(Importance::Default, "a"), (Importance::Sheddable, "b"), (Importance::Sheddable, "c")]
        {
            assert_eq!(queue.push(importance, 1, (who, 0)), Ok(None));
        }
        assert_eq!(
            queue.push(Importance::Sheddable, 1, ("no more of it", 0)),
            Err("no more of it")
        );
        assert_eq!(queue.push(Importance::Critical, 1, ("d", 0)), Ok(Some("c")));
        assert_eq!(queue.push(Importance::Default, 1, ("e", 0)), Ok(Some("b")));
        assert_eq!(queue.push(Importance::Default, 1, ("no more of its client", 0)).ok(), None);
        assert_eq!(queue.push(Importance::Default, 2, ("f", 0)), Ok(Some("e")));
    }

    #[test]
    fn a_queue_that_stands_serves_the_newest_and_refuses_those_that_are_late() {
        let mut queue = Clients::new();
        for at in [0, 5, 10] {
            assert_eq!(queue.push(Importance::Default, 1, ("old", at)), Ok(None));
        }
        assert_eq!((queue.pop(20), queue.shed(20)), (Some("old"), None), "late for the first time");
        assert_eq!(queue.shed(106), Some("old"), "later than any may be");
        assert_eq!(queue.push(Importance::Default, 1, ("new", 106)), Ok(None));
        assert_eq!(queue.push(Importance::Default, 2, ("newest", 107)), Ok(None));
        assert_eq!(queue.pop(120), Some("newest"), "late for an interval");
        assert_eq!(
            (queue.shed(120), queue.shed(120), queue.shed(120)),
            (Some("old"), Some("new"), None)
        );
    }

    #[test]
    fn once_nothing_waits_the_oldest_come_first_again() {
        let mut queue = Clients::new();
        assert_eq!(queue.push(Importance::Default, 1, ("a", 0)), Ok(None));
        assert_eq!((queue.shed(11), queue.shed(111), queue.pop(112)), (None, Some("a"), None));
        for who in ["b", "c"] {
            assert_eq!(queue.push(Importance::Default, 1, (who, 200)), Ok(None));
        }
        assert_eq!((queue.pop(201), queue.pop(201)), (Some("b"), Some("c")));
    }

    #[test]
    fn however_the_last_one_leaves_the_overload_is_over() {
        for is_shed in [true, false] {
            let mut queue = Clients::new();
            let of = (Importance::Default, client(1), queue.0.counter(client(1)));
            let (first, _) = queue.1.push(of, (Duration::ZERO, "a"), LIMITS).unwrap();
            assert_eq!((queue.shed(11), queue.1.is_overloaded()), (None, false));
            queue.1.push(of, (Duration::from_millis(50), "b"), LIMITS).unwrap();
            let (last, _) = queue.1.push(of, (Duration::from_millis(110), "c"), LIMITS).unwrap();
            assert_eq!(queue.1.remove(first), Some("a"));
            assert_eq!((queue.shed(111), queue.1.is_overloaded()), (Some("b"), true));
            let left = if is_shed { queue.shed(200) } else { queue.1.remove(last) };
            assert_eq!((left, queue.1.is_overloaded()), (Some("c"), false));
        }
    }

    #[test]
    fn who_waits_no_more_has_no_turn() {
        let mut queue = Clients::new();
        let counter = queue.0.counter(client(1));
        let of = (Importance::Default, client(1), counter);
        let (place, _) = queue.1.push(of, (Duration::ZERO, "a"), LIMITS).unwrap();
        assert_eq!((queue.1.remove(place), queue.1.remove(place)), (Some("a"), None));
        assert_eq!((queue.1.len(), queue.pop(0)), (0, None));
    }
}
