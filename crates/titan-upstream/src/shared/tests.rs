//! Which request gets a stream, and which connection gives way.

use super::*;
use crate::endpoint::{Address, ResolvedEndpoint};
use crate::groups::Placement;
use crate::members::Upstream;
use crate::slots::{Awaited, Requester, Slot};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use titan_io::registry::Registry;

#[test]
fn waiting_requests_are_woken_when_opening_is_over() {
    let all = SharedConnections::default();
    let endpoint = endpoint();
    let opening = all.opening(endpoint.id);
    assert!(all.is_opening(endpoint.id) && !all.is_opening(endpoint.id + 1));
    let mut waits = all.wait(&endpoint, None);
    assert!(waits.offered.try_recv().is_err());
    drop(opening);
    assert!(!all.is_opening(endpoint.id));
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
    let registry = Registry::default();
    let upstream = Upstream::of(&config.upstreams[0], &config.resolver, None, (&registry, 1));
    let address = Address::Ip(([127, 0, 0, 1], 1).into());
    upstream.set_places(vec![ResolvedEndpoint {
        address,
        host: "a".into(),
        source: "a".into(),
        record: None,
        placement: Placement::of(&config.upstreams[0].endpoints[0]),
    }]);
    Arc::clone(&upstream.members().endpoints[0])
}

fn shared(endpoint: &Arc<Endpoint>, now: CoarseInstant) -> Rc<SharedConnection> {
    let connection = titan_h2::Connection::client(titan_h2::Limits::default());
    let mux = SharedMux::H2(Mux::new(connection, Side::Upstream));
    SharedConnection::new(mux, Arc::clone(endpoint), now)
}

#[test]
fn a_stream_offered_to_a_request_that_left_goes_to_the_next() {
    let endpoint = endpoint();
    let shared = shared(&endpoint, CoarseInstant::NEVER);
    let woken = Arc::new(Woken::default());
    let SharedMux::H2(mux) = &shared.mux else { panic!("it is one of HTTP/2") };
    mux.set_driver(&Context::from_waker(&Arc::clone(&woken).into()));
    let all = SharedConnections::default();
    let [first, mut second, third] = [(); 3].map(|()| all.wait(&endpoint, None));
    all.by_endpoint.borrow_mut().get_mut(&endpoint.id).unwrap().open.push(shared);
    let woken = || woken.0.load(Ordering::Relaxed);
    drop(third);
    all.offer(endpoint.id);
    assert!(second.offered.try_recv().is_err());
    let before = woken();
    drop(first);
    assert_eq!(woken(), before + 1);
    all.offer(endpoint.id);
    assert_eq!(second.offered.try_recv(), Ok(()));
    all.offer(endpoint.id);
    assert_eq!(all.by_endpoint.borrow()[&endpoint.id].waiting.len(), 0, "the third has left");
}

fn client(number: u8) -> Option<ClientNetwork> {
    Some(ClientNetwork::of([192, 0, 2, number].into()))
}

#[test]
fn streams_are_offered_to_clients_that_have_fewer_and_none_overtakes_them() {
    let endpoint = endpoint();
    let all = SharedConnections::default();
    let used = Rc::new(Shares::apart(&[1, 2, 3].map(client)));
    let open = vec![shared(&endpoint, CoarseInstant::NEVER)];
    let connections = EndpointConnections {
        open,
        used: Some(Rc::clone(&used)),
        ..EndpointConnections::default()
    };
    all.by_endpoint.borrow_mut().insert(endpoint.id, connections);
    let seat = |number, was_offered| all.seat(&endpoint, client(number), was_offered);
    let seats: Vec<_> = (0..3).map_while(|_| seat(1, false)).collect();
    let mut greedy = all.wait(&endpoint, client(1));
    let mut modest = all.wait(&endpoint, client(2));
    assert!(seat(3, false).is_none(), "others wait");
    all.offer(endpoint.id);
    assert!(modest.offered.try_recv().is_ok() && greedy.offered.try_recv().is_err());
    assert!(seat(2, true).is_some());
    all.offer(endpoint.id);
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
    let _elsewhere =
        endpoint.slots.queue(Requester { client: None, worker: 1 }, Awaited::Slot).unwrap();
    let clock = Clock::new();
    let open = [(); 2].map(|()| shared(&endpoint, clock.now()));
    let mut connections =
        EndpointConnections { open: open.into(), ..EndpointConnections::default() };
    let mut retired_after = |wait: Duration| {
        connections.give_way(clock.deadline(wait));
        connections.open.iter().filter(|shared| shared.is_retired.get()).count()
    };
    assert_eq!(retired_after(Duration::ZERO), 0);
    assert_eq!(retired_after(TURN), 1);
    assert_eq!(retired_after(TURN * 2), 1);
    assert_eq!(retired_after(TURN + PAUSE), 2);
}
