//! How many connections to an endpoint may be open, over all workers, and who waits for one.

use crate::error::Kind;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::sync::oneshot::error::RecvError;

/// The connections that may be open at the same moment, and a bounded queue in front of them.
pub(crate) struct Slots {
    most: usize,
    /// Slots that are free. One that is given back goes to whoever has waited longest, on any worker;
    /// nobody else can take it first.
    free: Semaphore,
    queue: u32,
    waiting: AtomicU32,
}

/// A place in the queue; left when dropped.
pub(crate) struct Place<'s>(&'s Slots);

impl Slots {
    /// `most` connections, with a queue of `queue` requests.
    pub(crate) fn new(most: u32, queue: u32) -> Slots {
        let most = most as usize;
        Slots { most, free: Semaphore::new(most), queue, waiting: AtomicU32::new(0) }
    }

    /// Takes a slot if there is one. Whoever takes one gives it back with [`Slots::give_back`].
    pub(crate) fn try_take(&self) -> bool {
        self.free.try_acquire().map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    /// Gives a slot back and lets the first of those who wait have it.
    pub(crate) fn give_back(&self) {
        self.free.add_permits(1);
    }

    /// Connections open now.
    pub(crate) fn open(&self) -> u32 {
        let open = self.most.saturating_sub(self.free.available_permits());
        u32::try_from(open).expect("no more than `most`, which was a u32")
    }

    /// Whether no slot is free.
    pub(crate) fn is_full(&self) -> bool {
        self.free.available_permits() == 0
    }

    /// Requests that wait now.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Acquire)
    }

    /// Takes a place in the queue, if there is one.
    pub(crate) fn queue(&self) -> Result<Place<'_>, Kind> {
        let more = |waiting| (waiting < self.queue).then_some(waiting + 1);
        match self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Place(self)),
            Err(_) => Err(Kind::QueueFull),
        }
    }
}

impl Place<'_> {
    /// Waits for an offer, or for a slot (`None`), whichever comes first.
    pub(crate) async fn wait<T>(
        self,
        patience: Duration,
        offered: impl Future<Output = Result<T, RecvError>>,
    ) -> Result<Option<T>, Kind> {
        let Place(slots) = &self;
        let (mut offered, mut freed) = (pin!(offered), pin!(slots.free.acquire()));
        // A slot that comes together with an offer goes on to the next one when `freed` is dropped.
        let taken = poll_fn(|cx| match offered.as_mut().poll(cx) {
            Poll::Ready(Ok(offer)) => Poll::Ready(Some(offer)),
            _ => freed.as_mut().poll(cx).map(|permit| {
                permit.expect("nobody closes the semaphore").forget();
                None
            }),
        });
        tokio::time::timeout(patience, taken).await.map_err(|_| Kind::QueueTimeout)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[test]
    fn no_more_than_allowed() {
        let slots = Slots::new(2, 0);
        assert!(slots.try_take() && slots.try_take() && !slots.try_take());
        slots.give_back();
        assert!(slots.try_take());
    }

    /// Somebody who waits, for a second, without an offer.
    async fn waits(slots: &Slots) -> Result<Option<()>, Kind> {
        let (_offer, offered) = oneshot::channel();
        slots.queue()?.wait(Duration::from_secs(1), offered).await
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_gets_what_is_freed() {
        let slots = Slots::new(1, 1);
        assert!(slots.try_take());
        let gives = async { slots.give_back() };
        let (got, ()) = tokio::join!(waits(&slots), gives);
        assert_eq!(got, Ok(None));
        assert_eq!((slots.open(), slots.waiting()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_waited_longest_is_the_next() {
        let slots = Slots::new(1, 2);
        assert!(slots.try_take());
        let order = std::cell::RefCell::new(Vec::new());
        let waits = async |name| {
            waits(&slots).await.expect("it is given one in time");
            order.borrow_mut().push(name);
            slots.give_back();
        };
        let gives = async {
            slots.give_back();
            assert!(!slots.try_take(), "it belongs to the first");
        };
        tokio::join!(waits("first"), waits("second"), gives);
        assert_eq!(*order.borrow(), ["first", "second"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_offer_is_as_good_as_a_slot() {
        let slots = Slots::new(1, 1);
        assert!(slots.try_take());
        let (offer, offered) = oneshot::channel();
        let place = slots.queue().expect("one may wait");
        let gives = async { offer.send(7).unwrap() };
        let (got, ()) = tokio::join!(place.wait(Duration::from_secs(1), offered), gives);
        assert_eq!(got, Ok(Some(7)));
        assert_eq!((slots.open(), slots.waiting()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_queue_has_an_end_in_length_and_time() {
        let slots = Slots::new(1, 1);
        assert!(slots.try_take());
        let (first, second) = tokio::join!(waits(&slots), waits(&slots));
        assert_eq!((first, second), (Err(Kind::QueueTimeout), Err(Kind::QueueFull)));
    }
}
