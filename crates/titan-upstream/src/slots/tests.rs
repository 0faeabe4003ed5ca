//! Which request gets a slot, and which waits for one.

use super::*;
use std::cell::RefCell;
use std::future::pending;
use titan_io::shares::Shares;

/// Slots of an endpoint that takes `most` connections.
fn slots(most: u32, length: u32) -> Arc<Slots> {
    let mut slots = Slots::new(NonZeroU32::new(most), length);
    slots.used = Shares::apart(&[1, 2, 3].map(|client| requester(client).client)).into();
    Arc::new(slots)
}

/// A client of that number, served by the first worker.
fn requester(client: u8) -> Requester {
    let client = Some(ClientNetwork::of([192, 0, 2, client].into()));
    Requester { client, worker: 0 }
}

/// A request that waits for a slot, for a second.
async fn waits(slots: &Arc<Slots>, client: u8) -> Result<Slot, Kind> {
    let place = slots.queue(requester(client), Awaited::Slot)?;
    let got = place.wait(Duration::from_secs(1), pending::<Result<(), _>>()).await?;
    Ok(got.expect_err("nothing is offered"))
}

fn take(slots: &Arc<Slots>, client: u8) -> Option<Slot> {
    slots.try_take(requester(client).client)
}

#[test]
fn no_more_than_allowed() {
    let slots = slots(2, 0);
    let (first, second) = (take(&slots, 1), take(&slots, 1));
    assert!(first.is_some() && second.is_some() && take(&slots, 1).is_none());
    assert!(slots.is_full());
    drop(first);
    assert!(take(&slots, 1).is_some());
}

#[test]
fn without_a_limit_there_is_always_one() {
    let slots = slots(0, 0);
    let taken: Vec<_> = (0..5000).map_while(|_| take(&slots, 1)).collect();
    assert_eq!((taken.len(), slots.open(), slots.is_full()), (5000, 5000, false));
    drop(taken);
    assert_eq!(slots.open(), 0);
}

#[test]
fn a_client_that_takes_all_leaves_some_to_others() {
    let slots = slots(100, 0);
    let greedy: Vec<_> = (0..100).map_while(|_| take(&slots, 1)).collect();
    let other: Vec<_> = (0..100).map_while(|_| take(&slots, 2)).collect();
    assert_eq!((greedy.len(), other.len()), (88, 3));
    assert!(!slots.admits(requester(1).client) && slots.admits(requester(3).client));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_gets_what_is_freed() {
    let slots = slots(1, 1);
    let taken = take(&slots, 1);
    let (got, ()) = tokio::join!(waits(&slots, 1), async { drop(taken) });
    assert!(got.is_ok());
    assert_eq!((slots.open(), slots.waiting(), slots.wanted()), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn of_one_client_the_request_that_has_waited_longest_is_next() {
    let slots = slots(1, 2);
    let taken = take(&slots, 1);
    let order = RefCell::new(Vec::new());
    let waits = async |name| {
        let _slot = waits(&slots, 1).await.expect("it is given one in time");
        order.borrow_mut().push(name);
    };
    let gives = async {
        drop(taken);
        assert!(take(&slots, 1).is_none(), "it belongs to the first");
    };
    tokio::join!(waits("first"), waits("second"), gives);
    assert_eq!(*order.borrow(), ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_uses_fewer_connections_is_served_first() {
    let slots = slots(4, 8);
    let mut taken: Vec<_> = (0..4).map(|_| take(&slots, 1)).collect();
    let order = RefCell::new(Vec::new());
    let kept = RefCell::new(Vec::new());
    let waits = async |client| {
        let got = waits(&slots, client).await;
        kept.borrow_mut().push(got);
        order.borrow_mut().push(client);
    };
    let gives = async {
        for _ in 0..3 {
            taken.remove(0);
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(waits(1), waits(1), waits(2), gives);
    assert_eq!(*order.borrow(), [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_offer_is_as_good_as_a_slot() {
    let slots = slots(1, 1);
    let mut taken = take(&slots, 1).expect("all are free");
    let (offer, offered) = oneshot::channel();
    let place = slots.queue(requester(1), Awaited::Connection).expect("one may wait");
    let ticket = place.ticket();
    let gives = async {
        assert_eq!(slots.next_on(0), None, "the connection is in use");
        taken.vacate();
        assert_eq!(slots.next_on(1), None, "it waits on another worker");
        assert_eq!(slots.next_on(0), Some(ticket));
        offer.send(7).unwrap();
    };
    let waits = place.wait(Duration::from_secs(1), offered);
    let (got, ()) = tokio::join!(waits, gives);
    assert!(matches!(got, Ok(Ok(7))));
    assert_eq!((slots.open(), slots.waiting()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_queue_has_an_end_in_length_and_time() {
    let slots = slots(1, 1);
    let _taken = take(&slots, 1);
    let (first, second) = tokio::join!(waits(&slots, 1), waits(&slots, 1));
    assert_eq!((first.err(), second.err()), (Some(Kind::QueueTimeout), Some(Kind::QueueFull)));
}

#[tokio::test(start_paused = true)]
async fn in_a_full_queue_a_client_gives_way_to_one_that_has_fewer() {
    let slots = slots(1, 3);
    let _taken = take(&slots, 1);
    let all = tokio::join!(
        waits(&slots, 1),
        waits(&slots, 1),
        waits(&slots, 1),
        waits(&slots, 2),
        waits(&slots, 3),
        waits(&slots, 2),
    );
    let kinds = [all.0, all.1, all.2, all.3, all.4, all.5].map(|got| got.err().unwrap());
    let (late, full) = (Kind::QueueTimeout, Kind::QueueFull);
    // The second and the third of the first client gave way; no client has two by then.
    assert_eq!(kinds, [late, full, full, late, late, full]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_given_to_a_request_that_left_goes_to_the_next() {
    let slots = slots(1, 2);
    let taken = take(&slots, 1);
    let place = slots.queue(requester(1), Awaited::Slot).expect("two may wait");
    let mut leaves = Box::pin(place.wait(Duration::from_secs(1), pending::<Result<(), _>>()));
    assert!(futures_poll(leaves.as_mut()).is_pending());
    let stays = async { waits(&slots, 2).await.is_ok() };
    let gives = async {
        drop(taken);
        drop(leaves);
    };
    let (is_served, ()) = tokio::join!(stays, gives);
    assert!(is_served);
    assert_eq!((slots.open(), slots.waiting()), (0, 0));
}

#[test]
fn what_is_open_counts_under_other_limits() {
    let slots = slots(0, 0);
    let mut open: Vec<_> = (0..10).map_while(|_| take(&slots, 1)).collect();
    slots.set_limits(NonZeroU32::new(9), 0);
    assert!(slots.is_full() && take(&slots, 2).is_none());
    open.truncate(8);
    let mut last = take(&slots, 2).expect("there are eight of nine");
    open[0].enter(requester(1).client);
    let used = slots.used.get().unwrap();
    let of = |client| used.of(used.counter(requester(client).client));
    assert_eq!((of(1), of(2)), (1, 1), "counted from their next client on");
    slots.set_limits(None, 0);
    assert!(take(&slots, 3).is_some() && !slots.is_limited());
    last.enter(requester(3).client);
    drop((open, last));
    assert_eq!((slots.open(), of(1), of(2), of(3)), (0, 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_are_served_when_the_limit_rises() {
    for more in [NonZeroU32::new(3), None] {
        let slots = slots(1, 2);
        let _taken = take(&slots, 1);
        let allows = async { slots.set_limits(more, 2) };
        let (first, second, ()) = tokio::join!(waits(&slots, 1), waits(&slots, 2), allows);
        assert!(first.is_ok() && second.is_ok(), "{more:?}");
        assert_eq!((slots.open(), slots.waiting(), slots.wanted()), (3, 0, 0), "{more:?}");
    }
}

#[test]
fn a_queue_may_become_shorter() {
    let slots = slots(1, 2);
    let _taken = take(&slots, 1);
    let _places = [1, 2].map(|client| slots.queue(requester(client), Awaited::Slot).unwrap());
    slots.set_limits(NonZeroU32::new(1), 1);
    assert_eq!(slots.queue(requester(3), Awaited::Slot).err(), Some(Kind::QueueFull));
    assert_eq!(slots.waiting(), 2, "those who wait already go on");
}

fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn the_counters_come_back_to_nothing() {
    let slots = slots(16, 0);
    let mut slot = take(&slots, 1).expect("all are free");
    slot.vacate();
    slot.enter(requester(2).client);
    let used = slots.used.get().unwrap();
    assert_eq!(used.of(used.counter(requester(2).client)), 1);
    drop(slot);
    assert_eq!(used.of(used.counter(requester(2).client)), 0);
    assert_eq!((slots.open(), used.admits(used.counter(None), 16)), (0, true));
}
