//! How many connections to an endpoint may be open, over all workers, and which requests wait for one.
//!
//! Without a configured limit nothing waits, and connections are only counted. With one, a free connection goes to
//! the client with the fewest connections in use, and among its requests to the one that has waited longest. A client
//! that sends more than its share waits behind itself.
//!
//! Limits may change while connections are open and requests wait: these still count.

use crate::queue::{Queue, QueuePosition};
use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;
use titan_io::error::Kind;
use titan_io::network::ClientNetwork;
use titan_io::shares::{ClientCounter, Shares};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

/// The connections that may be open at the same moment, and a bounded queue in front of them.
pub struct Slots {
    open: AtomicU32,
    /// How many there may be, or [`UNLIMITED`].
    most: AtomicU32,
    /// What clients use of them, counted once there is a limit.
    used: OnceLock<Shares>,
    /// How many may wait.
    length: AtomicU32,
    queue: Mutex<Queue<Waiter>>,
    /// How many wait, and how many of those for a slot: what is looked at without the lock.
    waiting: AtomicU32,
    wanted: AtomicU32,
}

/// More connections than there can be.
const UNLIMITED: u32 = u32::MAX;

/// How many connections there may be, and which clients use them.
#[derive(Clone, Copy)]
struct Limit<'s> {
    most: u32,
    used: &'s Shares,
}

/// A request that waits.
struct Waiter {
    tell: oneshot::Sender<SlotNotice>,
    worker: usize,
    wants: Awaited,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Nothing that the queue hands out: for example a connection that is being opened.
    Nothing,
    /// A slot: the right to open a connection.
    Slot,
    /// A slot, or a connection that becomes free on its worker.
    Connection,
}

/// The client that a connection is for.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    /// The client, if its address is known.
    pub client: Option<ClientNetwork>,
    /// The worker that serves it.
    pub worker: usize,
}

/// A connection's claim on its endpoint: it counts as open until this is dropped, and as used by a client while it
/// serves one.
pub struct Slot {
    slots: Arc<Slots>,
    user: Option<ClientCounter>,
}

/// A place in the queue; left when dropped.
pub struct QueuePlace {
    slots: Arc<Slots>,
    position: QueuePosition,
    told: oneshot::Receiver<SlotNotice>,
}

/// What a waiting request gets.
enum SlotNotice {
    /// A slot is free and now belongs to it.
    Slot(Slot),
    /// It lost its place: the queue is full, and its client has more requests in it than others.
    Displaced,
}

impl Slots {
    /// `most` connections, with a queue of `length` requests.
    pub fn new(most: Option<NonZeroU32>, length: u32) -> Slots {
        Slots {
            open: AtomicU32::new(0),
            most: AtomicU32::new(most.map_or(UNLIMITED, NonZeroU32::get)),
            used: OnceLock::new(),
            length: AtomicU32::new(length),
            queue: Mutex::default(),
            waiting: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
        }
    }

    /// Allows so many from now on. Where there are more already, no further one is opened until there are fewer.
    pub fn set_limits(self: &Arc<Self>, most: Option<NonZeroU32>, length: u32) {
        self.most.store(most.map_or(UNLIMITED, NonZeroU32::get), Ordering::SeqCst);
        self.length.store(length, Ordering::Relaxed);
        self.serve_waiting();
    }

    /// `None` where there is none.
    fn limit(&self) -> Option<Limit<'_>> {
        let most = self.most.load(Ordering::SeqCst);
        (most != UNLIMITED).then(|| Limit { most, used: self.used.get_or_init(Shares::new) })
    }

    /// Takes a slot if there is one for that client, and no request that may have it waits.
    pub fn try_take(self: &Arc<Self>, client: Option<ClientNetwork>) -> Option<Slot> {
        let Some(limit) = self.limit() else {
            self.open.fetch_add(1, Ordering::Relaxed);
            return Some(self.slot(None));
        };
        let counter = limit.used.counter(client);
        let is_free = limit.admits(counter) && self.wanted() == 0;
        (is_free && self.open_one(Some(limit))).then(|| self.slot(Some(counter)))
    }

    /// A claim that was counted as open, used by that client from now on.
    fn slot(self: &Arc<Self>, user: Option<ClientCounter>) -> Slot {
        let counted = self.used.get().zip(user);
        counted.inspect(|(used, counter)| used.take(*counter));
        Slot { slots: Arc::clone(self), user: counted.map(|(_, counter)| counter) }
    }

    /// Whether that client may use a connection that is idle.
    pub fn admits(&self, client: Option<ClientNetwork>) -> bool {
        self.limit().is_none_or(|limit| limit.admits(limit.used.counter(client)))
    }

    /// Connections open now.
    pub fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether there is a limit: then requests may have to wait.
    pub fn is_limited(&self) -> bool {
        self.limit().is_some()
    }

    /// Whether no slot is free.
    pub fn is_full(&self) -> bool {
        self.limit().is_some_and(|limit| self.open() >= limit.most)
    }

    /// Requests that wait now.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::SeqCst)
    }

    /// How many wait for what the queue gives; none where it is no turn of any of them.
    pub fn wanted(&self) -> u32 {
        match self.wanted.load(Ordering::SeqCst) {
            0 => 0,
            wanted if self.is_turn_of(Waiter::wants) => wanted,
            _ => 0,
        }
    }

    /// Takes a place in the queue, if there is one. Where it is full, the client that has the most in it gives one up
    /// for a client that has fewer.
    pub fn queue(
        self: &Arc<Self>,
        requester: Requester,
        wants: Awaited,
    ) -> Result<QueuePlace, Kind> {
        let (tell, told) = oneshot::channel();
        let Requester { client, worker } = requester;
        // Without a limit, turns do not matter.
        let counter = self.limit().map(|limit| limit.used.counter(client));
        let mut queue = self.lock();
        if queue.len() >= self.length.load(Ordering::Relaxed) as usize {
            let displaced = queue.displace_for(client).ok_or(Kind::QueueFull)?;
            self.note_left(&queue, &displaced);
            // A request that has left meanwhile need not know.
            let _ = displaced.tell.send(SlotNotice::Displaced);
        }
        let waiter = Waiter { tell, worker, wants };
        self.wanted.fetch_add(u32::from(waiter.wants()), Ordering::SeqCst);
        let position = queue.push(client, counter.unwrap_or_default(), waiter);
        self.count(&queue);
        drop(queue);
        // Something may have become free since this one looked.
        self.serve_waiting();
        Ok(QueuePlace { slots: Arc::clone(self), position, told })
    }

    /// The next request on that worker that waits for a connection; it leaves the queue with it.
    pub fn next_on(&self, worker: usize) -> Option<u64> {
        let limit = self.limit()?;
        let mut queue = self.lock();
        let position = limit.next(&queue, |waiter| waiter.takes_connection_on(worker))?;
        let (_, waiter) = queue.remove(position)?;
        self.note_left(&queue, &waiter);
        Some(position.id)
    }

    /// Whether a request waits for a slot on another worker, or for something else than a connection.
    pub fn is_wanted_beyond(&self, worker: usize) -> bool {
        self.is_turn_of(|waiter| waiter.wants() && !waiter.takes_connection_on(worker))
    }

    /// Whether one of the matching requests may have a connection.
    fn is_turn_of(&self, fits: impl Fn(&Waiter) -> bool) -> bool {
        let Some(limit) = self.limit() else { return false };
        // It does not matter here which client has the fewest: the first one will do.
        let used = |counter| limit.admits(counter).then_some(0);
        self.lock().next(used, fits).is_some()
    }

    /// Gives free slots to waiting requests.
    fn serve_waiting(self: &Arc<Self>) {
        while let Some((waiter, slot)) = self.match_one() {
            // Where it has left in this moment, the slot goes to the next as it is dropped.
            let _ = waiter.tell.send(SlotNotice::Slot(slot));
        }
    }

    /// Whose turn it is, with the slot that is free for it.
    fn match_one(self: &Arc<Self>) -> Option<(Waiter, Slot)> {
        if self.wanted.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let limit = self.limit();
        let mut queue = self.lock();
        let next = match limit {
            Some(limit) => limit.next(&queue, Waiter::wants),
            // It has been removed while they waited.
            None => queue.next(|_| Some(0), Waiter::wants),
        }?;
        if !self.open_one(limit) {
            return None;
        }
        let (counter, waiter) = queue.remove(next).expect("it was found under the same lock");
        self.note_left(&queue, &waiter);
        Some((waiter, self.slot(limit.map(|_| counter))))
    }

    /// Counts one more open connection, where there may be one.
    fn open_one(&self, limit: Option<Limit<'_>>) -> bool {
        let most = limit.map_or(UNLIMITED, |limit| limit.most);
        let more = |open| (open < most).then_some(open + 1);
        self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Queue<Waiter>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a request has left the queue.
    fn note_left(&self, queue: &Queue<Waiter>, waiter: &Waiter) {
        self.wanted.fetch_sub(u32::from(waiter.wants()), Ordering::SeqCst);
        self.count(queue);
    }

    fn count(&self, queue: &Queue<Waiter>) {
        let waiting = u32::try_from(queue.len()).unwrap_or(u32::MAX);
        self.waiting.store(waiting, Ordering::SeqCst);
    }
}

impl Limit<'_> {
    /// Whether that client may have one more.
    fn admits(&self, counter: ClientCounter) -> bool {
        self.used.admits(counter, self.most)
    }

    /// Whose turn it is among the matching requests.
    fn next(&self, queue: &Queue<Waiter>, fits: impl Fn(&Waiter) -> bool) -> Option<QueuePosition> {
        let used = |counter| self.admits(counter).then(|| self.used.of(counter));
        queue.next(used, fits)
    }
}

impl Waiter {
    /// Whether it wants what the queue gives.
    fn wants(&self) -> bool {
        self.wants != Awaited::Nothing
    }

    /// Whether a connection that becomes free on that worker would do.
    fn takes_connection_on(&self, worker: usize) -> bool {
        self.wants == Awaited::Connection && self.worker == worker
    }
}

impl Slot {
    /// Notes that the connection serves that client from now on.
    pub fn enter(&mut self, client: Option<ClientNetwork>) {
        self.vacate();
        if let Some(limit) = self.slots.limit() {
            let counter = limit.used.counter(client);
            limit.used.take(counter);
            self.user = Some(counter);
        }
    }

    /// Notes that the connection serves many at once. A request that waited for its client to have fewer may have its
    /// turn.
    pub fn share(&mut self) {
        self.vacate();
        self.slots.serve_waiting();
    }

    /// Notes that the connection serves no client.
    pub fn vacate(&mut self) {
        if let (Some(used), Some(counter)) = (self.slots.used.get(), self.user.take()) {
            used.give_back(counter);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.vacate();
        self.slots.open.fetch_sub(1, Ordering::SeqCst);
        self.slots.serve_waiting();
    }
}

impl QueuePlace {
    /// What [`Slots::next_on`] calls it.
    pub fn ticket(&self) -> u64 {
        self.position.id
    }

    /// Waits for an offer, or for a slot (`Err`), whichever comes first.
    pub async fn wait<T>(
        mut self,
        timeout: Duration,
        offered: impl Future<Output = Result<T, RecvError>>,
    ) -> Result<Result<T, Slot>, Kind> {
        let mut offered = pin!(offered);
        let told = &mut self.told;
        let got = poll_fn(|cx| match offered.as_mut().poll(cx) {
            Poll::Ready(Ok(offer)) => Poll::Ready(Ok(Ok(offer))),
            _ => pin!(&mut *told).poll(cx).map(|told| match told {
                Ok(SlotNotice::Slot(slot)) => Ok(Err(slot)),
                Ok(SlotNotice::Displaced) | Err(_) => Err(Kind::QueueFull),
            }),
        });
        tokio::time::timeout(timeout, got).await.map_err(|_| Kind::QueueTimeout)?
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        // A slot that it was told of, and does not take, goes to the next as the channel is dropped.
        let mut queue = self.slots.lock();
        if let Some((_, waiter)) = queue.remove(self.position) {
            self.slots.note_left(&queue, &waiter);
        }
    }
}

#[cfg(test)]
mod tests;
