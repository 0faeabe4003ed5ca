//! The queue in front of the threads that check passwords: clients take turns, so that one that sends many does not
//! keep the others waiting.

use crate::authorise::PASSWORD_QUEUE;
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use titan_io::error::Kind;
use titan_io::network::ClientNetwork;

/// A queue in which clients take turns.
pub(super) struct FairQueue<T> {
    waiting: Mutex<Waiting<T>>,
    news: Condvar,
}

/// None over a Unix socket, where no address is known.
type Client = Option<ClientNetwork>;

struct Waiting<T> {
    by_client: HashMap<Client, VecDeque<T>>,
    /// Each client that has something waiting, the one whose turn it is first.
    turns: VecDeque<Client>,
    count: usize,
    is_open: bool,
}

/// How many wait in all.
const MOST: usize = 256;
/// How many of them for one client.
const MOST_OF_ONE: usize = 32;

impl<T> FairQueue<T> {
    pub(super) fn new() -> FairQueue<T> {
        let (by_client, turns) = (HashMap::new(), VecDeque::new());
        let waiting = Waiting { by_client, turns, count: 0, is_open: true };
        FairQueue { waiting: Mutex::new(waiting), news: Condvar::new() }
    }

    /// Puts it behind what its client has waiting. If all places are taken, the client with the most gives one up;
    /// `is_over` says which entries are no longer waited for.
    pub(super) fn push(
        &self,
        client: Client,
        it: T,
        is_over: impl Fn(&T) -> bool,
    ) -> Result<(), Kind> {
        let mut waiting = self.lock();
        let own = waiting.by_client.get(&client).map_or(0, VecDeque::len);
        if own >= MOST_OF_ONE || waiting.count >= MOST {
            waiting.forget(&is_over);
        }
        let own = waiting.by_client.get(&client).map_or(0, VecDeque::len);
        if own >= MOST_OF_ONE || waiting.count >= MOST && !waiting.takes_from_longer(own + 1) {
            return Err(PASSWORD_QUEUE);
        }
        waiting.push(client, it);
        drop(waiting);
        self.news.notify_one();
        Ok(())
    }

    /// Waits for the next one: nothing when there will be none any more.
    pub(super) fn pop(&self) -> Option<T> {
        let is_waiting = |waiting: &mut Waiting<T>| waiting.count == 0 && waiting.is_open;
        let waiting = self.news.wait_while(self.lock(), is_waiting);
        waiting.unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// There will be none any more.
    pub(super) fn close(&self) {
        self.lock().is_open = false;
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Waiting<T> {
    fn push(&mut self, client: Client, it: T) {
        let own = self.by_client.entry(client).or_default();
        if own.is_empty() {
            self.turns.push_back(client);
        }
        own.push_back(it);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let client = self.turns.pop_front()?;
        let own = self.by_client.get_mut(&client)?;
        let it = own.pop_front();
        match own.is_empty() {
            true => drop(self.by_client.remove(&client)),
            false => self.turns.push_back(client),
        }
        self.count -= 1;
        it
    }

    /// Takes the last one of the client that has the most, if that are more than `own`.
    fn takes_from_longer(&mut self, own: usize) -> bool {
        let longest = self.by_client.values_mut().max_by_key(|queue| queue.len());
        let Some(longest) = longest.filter(|queue| queue.len() > own) else { return false };
        longest.pop_back();
        self.count -= 1;
        true
    }

    fn forget(&mut self, is_over: impl Fn(&T) -> bool) {
        self.by_client.values_mut().for_each(|queue| queue.retain(|it| !is_over(it)));
        self.by_client.retain(|_, queue| !queue.is_empty());
        self.turns.retain(|client| self.by_client.contains_key(client));
        self.count = self.by_client.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> Client {
        Some(ClientNetwork::of([192, 0, 2, number].into()))
    }

    fn push(queue: &FairQueue<u32>, of: u8, it: u32) -> Result<(), Kind> {
        queue.push(client(of), it, |_| false)
    }

    #[test]
    fn clients_take_turns() {
        let queue = FairQueue::new();
        (0..32).for_each(|it| push(&queue, 1, it).unwrap());
        assert_eq!(push(&queue, 1, 99), Err(PASSWORD_QUEUE));
        push(&queue, 2, 100).unwrap();
        push(&queue, 3, 200).unwrap();
        push(&queue, 2, 101).unwrap();
        let next: Vec<_> = (0..6).map(|_| queue.pop().unwrap()).collect();
        assert_eq!(next, [0, 100, 200, 1, 101, 2]);
        push(&queue, 1, 99).unwrap();
    }

    #[test]
    fn the_client_with_the_most_makes_room_for_one_with_less() {
        let queue = FairQueue::new();
        let clients = MOST / MOST_OF_ONE;
        for of in (0..100).take(clients) {
            (0..MOST_OF_ONE).for_each(|_| push(&queue, of, 0).unwrap());
        }
        let found_room = (0..MOST_OF_ONE).take_while(|_| push(&queue, 100, 1).is_ok()).count();
        let fair = MOST / (clients + 1);
        assert!((fair - 1..=fair + 1).contains(&found_room), "{found_room} of {fair}");
        let popped: Vec<_> = (0..MOST).map(|_| queue.pop().unwrap()).collect();
        assert_eq!(popped.iter().filter(|it| **it == 1).count(), found_room);
        assert!(popped[..=clients].contains(&1), "it has its turn soon");
        assert_eq!(queue.lock().count, 0);
    }

    #[test]
    fn abandoned_entries_keep_no_place() {
        let queue = FairQueue::new();
        (0..32).for_each(|it| push(&queue, 1, it).unwrap());
        queue.push(client(1), 99, |it| *it < 5).unwrap();
        assert_eq!(queue.pop(), Some(5));
        assert_eq!(queue.lock().count, MOST_OF_ONE - 5);
    }

    #[test]
    fn a_closed_queue_ends() {
        let queue = FairQueue::new();
        push(&queue, 1, 7).unwrap();
        queue.close();
        assert_eq!((queue.pop(), queue.pop()), (Some(7), None));
    }
}
