//! Requests that wait for something that clients share: a connection to an endpoint, or a stream of one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use titan_io::network::ClientNetwork;
use titan_io::shares::ClientCounter;

/// Waiting requests, by client; those of a client in order of arrival.
pub(super) struct Queue<T> {
    clients: BTreeMap<Client, Line<T>>,
    /// The clients, and their counters, by the id of their first request.
    by_first: BTreeMap<u64, (Client, ClientCounter)>,
    /// The same by the id of their last one.
    by_last: BTreeMap<u64, (Client, ClientCounter)>,
    /// The clients by the number of their waiting requests.
    by_length: BTreeSet<(usize, Client)>,
    next_id: u64,
    len: usize,
}

/// Over a Unix socket no address is known.
type Client = Option<ClientNetwork>;

/// The waiting requests of one client; empty only while it changes.
struct Line<T> {
    /// Counts what the client uses of the shared resource.
    counter: ClientCounter,
    waiting: VecDeque<(u64, T)>,
}

/// Which request of several comes first, where nothing else tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The one that has waited longest.
    OldestFirst,
    /// The one that came last: its client is the likeliest to be still there when its response comes.
    NewestFirst,
}

/// The position of a request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuePosition {
    client: Client,
    /// Grows: the smaller one has waited longer.
    pub(super) id: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        let (clients, by_first, by_last, by_length) = Default::default();
        Queue { clients, by_first, by_last, by_length, next_id: 0, len: 0 }
    }
}

impl<T> Queue<T> {
    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a request at the end.
    pub(super) fn push(&mut self, client: Client, counter: ClientCounter, who: T) -> QueuePosition {
        let id = self.next_id;
        self.next_id += 1;
        self.len += 1;
        self.change(client, counter, |waiting| waiting.push_back((id, who)));
        QueuePosition { client, id }
    }

    /// Whose turn it is among those that fit: of the clients that `used` allows one more, the one that uses the
    /// fewest; among equals, the one that has waited longest.
    ///
    /// This visits no more clients than those that use some, and one that uses none.
    pub(super) fn next(
        &self,
        used: impl Fn(ClientCounter) -> Option<u32>,
        fits: impl Fn(&T) -> bool,
    ) -> Option<QueuePosition> {
        let mut next = None;
        let mut least = u32::MAX;
        for &(client, counter) in self.by_first.values() {
            let Some(used) = used(counter).filter(|used| *used < least) else { continue };
            let Some((id, _)) = self.clients[&client].waiting.iter().find(|(_, who)| fits(who))
            else {
                continue;
            };
            (next, least) = (Some(QueuePosition { client, id: *id }), used);
            if least == 0 {
                break;
            }
        }
        next
    }

    /// Whose turn it is among all: of the clients that use the fewest, the request that comes first in that order.
    ///
    /// This visits no more clients than [`Queue::next`].
    pub(super) fn next_in(
        &self,
        order: Order,
        used: impl Fn(ClientCounter) -> u32,
    ) -> Option<QueuePosition> {
        match order {
            Order::OldestFirst => self.next(|counter| Some(used(counter)), |_| true),
            Order::NewestFirst => {
                let mut next = None;
                let mut least = u32::MAX;
                for (&id, &(client, counter)) in self.by_last.iter().rev() {
                    let used = used(counter);
                    if used < least {
                        (next, least) = (Some(QueuePosition { client, id }), used);
                    }
                    if least == 0 {
                        break;
                    }
                }
                next
            }
        }
    }

    /// The request that has waited longest.
    pub(super) fn oldest(&self) -> Option<(QueuePosition, &T)> {
        let (&id, &(client, _)) = self.by_first.first_key_value()?;
        let (_, who) = self.clients[&client].waiting.front()?;
        Some((QueuePosition { client, id }, who))
    }

    /// Removes a request, with the client's counter.
    pub(super) fn remove(
        &mut self,
        QueuePosition { client, id }: QueuePosition,
    ) -> Option<(ClientCounter, T)> {
        let Line { counter, waiting } = self.clients.get(&client)?;
        let (counter, index) = (*counter, waiting.binary_search_by_key(&id, |(id, _)| *id).ok()?);
        self.len -= 1;
        let (_, who) = self.change(client, counter, |waiting| waiting.remove(index))?;
        Some((counter, who))
    }

    /// Makes room for a client: removes the last request of the client that has the most in the queue, if that is
    /// more than the other would then have.
    pub(super) fn displace_for(&mut self, client: Client) -> Option<T> {
        let own = self.clients.get(&client).map_or(0, |line| line.waiting.len());
        self.by_length.last().filter(|(length, _)| *length > own + 1)?;
        self.displace(Order::OldestFirst)
    }

    /// Removes the request that would be the last in that order, of the client that has the most.
    pub(super) fn displace(&mut self, order: Order) -> Option<T> {
        let &(_, most) = self.by_length.last()?;
        let waiting = &self.clients[&most].waiting;
        let (id, _) = match order {
            Order::OldestFirst => waiting.back(),
            Order::NewestFirst => waiting.front(),
        }?;
        let position = QueuePosition { client: most, id: *id };
        self.remove(position).map(|(_, who)| who)
    }

    /// Removes all, in the order of their turns if each got what it waits for.
    pub(super) fn drain(&mut self, used: impl Fn(ClientCounter) -> u32) -> impl Iterator<Item = T> {
        let Queue { clients, next_id, .. } = std::mem::take(self);
        self.next_id = next_id;
        let mut all = Vec::new();
        for line in clients.into_values() {
            let has = (used(line.counter)..).zip(line.waiting);
            all.extend(has.map(|(has, (id, who))| (has, id, who)));
        }
        all.sort_unstable_by_key(|&(has, id, _)| (has, id));
        all.into_iter().map(|(_, _, who)| who)
    }

    /// Changes a client's line, which this may create or remove.
    fn change<R>(
        &mut self,
        client: Client,
        counter: ClientCounter,
        change: impl FnOnce(&mut VecDeque<(u64, T)>) -> R,
    ) -> R {
        let line = || Line { counter, waiting: VecDeque::new() };
        let waiting = &mut self.clients.entry(client).or_insert_with(line).waiting;
        if let (Some((first, _)), Some((last, _))) = (waiting.front(), waiting.back()) {
            self.by_first.remove(first);
            self.by_last.remove(last);
            self.by_length.remove(&(waiting.len(), client));
        }
        let result = change(waiting);
        match waiting.front().zip(waiting.back()) {
            Some(((first, _), (last, _))) => {
                self.by_first.insert(*first, (client, counter));
                self.by_last.insert(*last, (client, counter));
                self.by_length.insert((waiting.len(), client));
            }
            None => drop(self.clients.remove(&client)),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use titan_io::shares::Shares;

    fn client(number: u8) -> Option<ClientNetwork> {
        Some(ClientNetwork::of([192, 0, 2, number].into()))
    }

    /// Everybody in turn, where nobody has anything yet and each keeps what it gets.
    fn in_turn(queue: &mut Queue<&'static str>, shares: &Shares) -> Vec<&'static str> {
        let next = |queue: &mut Queue<&'static str>| {
            let position = queue.next(|counter| Some(shares.of(counter)), |_| true)?;
            let (counter, who) = queue.remove(position)?;
            shares.take(counter);
            Some(who)
        };
        std::iter::from_fn(|| next(queue)).collect()
    }

    fn filled(shares: &Shares) -> Queue<&'static str> {
        let mut queue = Queue::default();
        for (number, who) in [(1, "a"), (1, "b"), (1, "c"), (2, "d"), (3, "e"), (2, "f"), (1, "g")]
        {
            queue.push(client(number), shares.counter(client(number)), who);
        }
        queue
    }

    fn shares() -> Shares {
        Shares::apart(&[1, 2, 3].map(client))
    }

    #[test]
    fn clients_that_have_fewer_come_first() {
        let shares = shares();
        let mut queue = filled(&shares);
        assert_eq!(in_turn(&mut queue, &shares), ["a", "d", "e", "b", "f", "c", "g"]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_newest_comes_first_among_clients_that_have_as_many() {
        let shares = shares();
        let mut queue = filled(&shares);
        assert_eq!(queue.oldest().map(|(_, who)| *who), Some("a"));
        let next = || {
            let position = queue.next_in(Order::NewestFirst, |counter| shares.of(counter))?;
            let (counter, who) = queue.remove(position)?;
            shares.take(counter);
            Some(who)
        };
        let all: Vec<_> = std::iter::from_fn(next).collect();
        assert_eq!(all, ["g", "f", "e", "d", "c", "b", "a"]);
        assert!(queue.oldest().is_none() && queue.by_last.is_empty());
    }

    #[test]
    fn the_client_that_has_the_most_gives_up_what_would_be_last() {
        let shares = shares();
        assert_eq!(filled(&shares).displace(Order::OldestFirst), Some("g"));
        assert_eq!(filled(&shares).displace(Order::NewestFirst), Some("a"));
    }

    #[test]
    fn all_at_once_come_in_the_same_order() {
        let shares = shares();
        shares.take(shares.counter(client(2)));
        let drained: Vec<_> = filled(&shares).drain(|counter| shares.of(counter)).collect();
        assert_eq!(drained, in_turn(&mut filled(&shares), &shares));
    }

    /// What a queue with no order in it would say.
    struct Naive(Vec<(u64, u8)>);

    impl Naive {
        fn length(&self, client: u8) -> usize {
            self.0.iter().filter(|it| it.1 == client).count()
        }

        /// The first of the client that has the fewest, of those with as many the one that came first.
        fn next(&self, used: [u32; 4]) -> Option<u64> {
            self.0.iter().min_by_key(|it| (used[usize::from(it.1)], it.0)).map(|it| it.0)
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_one_that_has_no_order(
            steps in vec((0_u8..4, 0_u8..4, any::<[u8; 4]>()), 1..60),
        ) {
            let shares = Shares::apart(&[0, 1, 2, 3].map(client));
            let counters = [0, 1, 2, 3].map(|number| shares.counter(client(number)));
            let (mut queue, mut naive) = (Queue::default(), Naive(Vec::new()));
            for (step, who, used) in steps {
                let used = used.map(|used| u32::from(used % 3));
                let of = |counter| used[counters.iter().position(|it| *it == counter).unwrap()];
                match step {
                    0 | 1 => {
                        let position = queue.push(client(who), counters[usize::from(who)], who);
                        naive.0.push((position.id, who));
                    }
                    2 => {
                        let next = queue.next(|counter| Some(of(counter)), |_| true);
                        prop_assert_eq!(next.map(|position| position.id), naive.next(used));
                        naive.0.retain(|it| Some(it.0) != next.map(|position| position.id));
                        let removed = next.map(|position| queue.remove(position).is_some());
                        prop_assert!(removed.unwrap_or(true));
                    }
                    _ => {
                        let most = (0..4).map(|client| naive.length(client)).max().unwrap();
                        let displaced = queue.displace_for(client(who));
                        prop_assert_eq!(displaced.is_some(), most > naive.length(who) + 1);
                        if let Some(displaced) = displaced {
                            prop_assert_eq!(naive.length(displaced), most);
                            let last = naive.0.iter().rposition(|it| it.1 == displaced);
                            naive.0.remove(last.unwrap());
                        }
                    }
                }
                prop_assert_eq!(queue.len(), naive.0.len());
                prop_assert_eq!(queue.by_first.len(), queue.clients.len());
                prop_assert_eq!(queue.by_length.len(), queue.clients.len());
            }
        }
    }

    #[test]
    fn a_turn_costs_no_look_at_those_behind() {
        let shares = Shares::new();
        let mut queue = Queue::default();
        for number in 0..1000_u32 {
            let client = Some(ClientNetwork::of(std::net::Ipv4Addr::from_bits(number).into()));
            queue.push(client, shares.counter(client), number);
        }
        let looks = std::cell::Cell::new(0);
        let used = |counter| {
            looks.set(looks.get() + 1);
            Some(shares.of(counter))
        };
        while let Some(position) = queue.next(used, |_| true) {
            queue.remove(position);
        }
        assert_eq!(looks.get(), 1000);
    }

    #[test]
    fn a_request_in_the_middle_may_leave() {
        let (mut queue, counter) = (Queue::default(), ClientCounter::default());
        let spots: Vec<_> = (0..5).map(|who| queue.push(None, counter, who)).collect();
        assert_eq!(queue.remove(spots[2]), Some((counter, 2)));
        assert_eq!(queue.remove(spots[2]), None);
        assert_eq!(queue.drain(|_| 0).collect::<Vec<_>>(), [0, 1, 3, 4]);
        assert!(queue.next(|_| Some(0), |_| true).is_none());
    }
}
