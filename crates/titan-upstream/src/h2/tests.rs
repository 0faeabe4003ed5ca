//! Who gets a stream, and which connection gives way.

use super::*;
use crate::endpoint::{Address, Place};
use crate::members::Upstream;
use crate::slots::{Bidder, Slot, Wants};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

#[test]
fn those_who_wait_look_again_when_opening_is_over() {
    let trunks = Trunks::default();
    let endpoint = endpoint();
    let opening = trunks.opening(endpoint.id);
    assert!(trunks.is_opening(endpoint.id) && !trunks.is_opening(endpoint.id + 1));
    let mut waits = trunks.wait(&endpoint, None);
    assert!(waits.offered.try_recv().is_err());
    drop(opening);
    assert!(!trunks.is_opening(endpoint.id));
    assert_eq!(waits.offered.try_recv(), Ok(()));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An endpoint that takes two connections.
fn endpoint() -> Arc<Endpoint> {
    let text = "{ listeners: ['127.0.0.1:0'], workers: 1, routes: [{ upstream: u }], \
                upstreams: { u: { endpoints: '127.0.0.1:1', max_connections: 2 } } }";
    let config = titan_config::Config::parse("test", text).unwrap();
    let upstream = Upstream::new(&config.upstreams[0], None);
    let address = Address::Ip(([127, 0, 0, 1], 1).into());
    upstream.set_places(vec![Place { address, host: "a".into(), weight: NonZeroU16::MIN }]);
    Arc::clone(&upstream.members().endpoints[0])
}

fn trunk(endpoint: &Arc<Endpoint>, now: Moment) -> Rc<Trunk> {
    let connection = titan_h2::Connection::client(titan_h2::Limits::default());
    Trunk::new(Mux::new(connection, Side::Upstream), Arc::clone(endpoint), now)
}

#[test]
fn what_was_offered_to_one_who_left_is_for_the_next() {
    let endpoint = endpoint();
    let trunk = trunk(&endpoint, Moment::NEVER);
    let woken = Arc::new(Woken::default());
    trunk.mux.set_driver(&Context::from_waker(&Arc::clone(&woken).into()));
    let trunks = Trunks::default();
    let [first, mut second, third] = [(); 3].map(|()| trunks.wait(&endpoint, None));
    trunks.by_endpoint.borrow_mut().get_mut(&endpoint.id).unwrap().open.push(trunk);
    let woken = || woken.0.load(Ordering::Relaxed);
    drop(third);
    trunks.offer(endpoint.id);
    assert!(second.offered.try_recv().is_err());
    let before = woken();
    drop(first);
    assert_eq!(woken(), before + 1);
    trunks.offer(endpoint.id);
    assert_eq!(second.offered.try_recv(), Ok(()));
    trunks.offer(endpoint.id);
    assert_eq!(trunks.by_endpoint.borrow()[&endpoint.id].waiting.len(), 0, "the third has left");
}

fn client(number: u8) -> Option<ClientNetwork> {
    Some(ClientNetwork::of([192, 0, 2, number].into()))
}

#[test]
fn streams_are_offered_to_clients_that_have_fewer_and_nobody_comes_before_them() {
    let endpoint = endpoint();
    let trunks = Trunks::default();
    let used = Rc::new(Shares::apart(u32::MAX, &[1, 2, 3].map(client)));
    let open = vec![trunk(&endpoint, Moment::NEVER)];
    let towards = Towards { open, used: Some(Rc::clone(&used)), ..Towards::default() };
    trunks.by_endpoint.borrow_mut().insert(endpoint.id, towards);
    let seat = |number, was_offered| trunks.seat(&endpoint, client(number), was_offered);
    let seats: Vec<_> = (0..3).map_while(|_| seat(1, false)).collect();
    let mut greedy = trunks.wait(&endpoint, client(1));
    let mut modest = trunks.wait(&endpoint, client(2));
    assert!(seat(3, false).is_none(), "others wait");
    trunks.offer(endpoint.id);
    assert!(modest.offered.try_recv().is_ok() && greedy.offered.try_recv().is_err());
    assert!(seat(2, true).is_some());
    trunks.offer(endpoint.id);
    assert!(greedy.offered.try_recv().is_ok());
    assert!(seat(3, false).is_some(), "nobody waits any more");
    assert_eq!(used.of(used.counter(client(1))), 3);
    drop(seats);
    assert_eq!(used.of(used.counter(client(1))), 0);
}

#[test]
fn another_gives_way_where_the_streams_of_the_first_go_on() {
    let endpoint = endpoint();
    let mut taken = [(); 2].map(|()| endpoint.slots.try_take(None).unwrap());
    taken.iter_mut().for_each(Slot::share);
    let _elsewhere = endpoint.slots.queue(Bidder { client: None, worker: 1 }, Wants::Slot).unwrap();
    let clock = Clock::new();
    let open = [(); 2].map(|()| trunk(&endpoint, clock.now()));
    let mut towards = Towards { open: open.into(), ..Towards::default() };
    let mut retired_after = |wait: Duration| {
        towards.give_way(clock.deadline(wait));
        towards.open.iter().filter(|trunk| trunk.is_retired.get()).count()
    };
    assert_eq!(retired_after(Duration::ZERO), 0);
    assert_eq!(retired_after(TURN), 1);
    assert_eq!(retired_after(TURN * 2), 1);
    assert_eq!(retired_after(TURN + PAUSE), 2);
}
