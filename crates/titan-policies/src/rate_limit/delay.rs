//! Requests that wait for their turn instead of being refused, or because a policy delays them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use titan_io::network::ClientNetwork;
use titan_io::shares::{ClientCounter, Shares};
use tokio::time::sleep;

/// The requests that wait for limits, over all of these and all workers.
pub(crate) struct Waiting {
    most: u32,
    /// How many more may wait.
    free: AtomicU32,
    shares: Shares,
}

/// A request that waits until its turn has come. It counts as waiting until this is dropped.
pub(crate) struct Turn {
    place: WaitPermit,
    delay: Duration,
}

/// The place of a request among those that wait.
pub(crate) struct WaitPermit {
    waiting: Arc<Waiting>,
    counter: ClientCounter,
}

/// The most requests that wait at the same time; those of one client leave the last eighth to others. Beyond that requests are
/// refused.
const MAX_WAITING: u32 = 4096;

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting::of(MAX_WAITING)
    }
}

impl Waiting {
    fn of(most: u32) -> Waiting {
        Waiting { most, free: AtomicU32::new(most), shares: Shares::new() }
    }

    /// A place for a request of that client, if there is one.
    pub(crate) fn enter(self: &Arc<Self>, client: Option<ClientNetwork>) -> Option<WaitPermit> {
        let counter = self.shares.counter(client);
        let is_admitted = self.shares.admits(counter, self.most);
        let take = |left: u32| left.checked_sub(1).filter(|_| is_admitted);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        self.shares.take(counter);
        Some(WaitPermit { waiting: Arc::clone(self), counter })
    }
}

impl WaitPermit {
    /// Waits there for that many nanoseconds.
    pub(super) fn turn_in(self, nanoseconds: u64) -> Turn {
        self.turn_after(Duration::from_nanos(nanoseconds))
    }

    /// Waits there for that long.
    pub(crate) fn turn_after(self, delay: Duration) -> Turn {
        Turn { place: self, delay }
    }
}

impl Turn {
    /// Ends when the turn has come.
    pub(crate) async fn comes(self) {
        let Turn { place, delay } = self;
        sleep(delay).await;
        drop(place);
    }
}

impl Drop for WaitPermit {
    fn drop(&mut self) {
        self.waiting.shares.give_back(self.counter);
        self.waiting.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tokio::time::advance;

    #[test]
    fn so_many_wait_and_one_client_leaves_room_for_others() {
        let waiting = Arc::new(Waiting::of(16));
        let client = |last| Some(ClientNetwork::of([192, 0, 2, last].into()));
        let greedy: Vec<_> = (0..20).filter_map(|_| waiting.enter(client(1))).collect();
        assert_eq!(greedy.len(), 14);
        let others: Vec<_> = (2..8).filter_map(|last| waiting.enter(client(last))).collect();
        assert_eq!(others.len(), 2);
        drop(greedy);
        assert!(waiting.enter(client(1)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_comes_when_it_is_due() {
        let waiting = Arc::new(Waiting::of(1));
        let turn = waiting.enter(None).unwrap().turn_in(500_000_000);
        assert!(waiting.enter(None).is_none());
        let mut comes = pin!(turn.comes());
        let mut poll = || comes.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(poll(), Poll::Pending);
        advance(Duration::from_millis(499)).await;
        assert_eq!(poll(), Poll::Pending);
        advance(Duration::from_millis(2)).await;
        assert_eq!(poll(), Poll::Ready(()));
        assert!(waiting.enter(None).is_some());
    }

    #[test]
    fn a_request_that_gives_up_waits_no_more() {
        let waiting = Arc::new(Waiting::of(1));
        drop(waiting.enter(None).unwrap().turn_in(1).comes());
        assert!(waiting.enter(None).is_some());
    }
}
