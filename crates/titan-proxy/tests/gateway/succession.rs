//! One gateway takes over from another: what waits, what is open, what is new and what is left.

use crate::reload::{GET, says, two};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use titan_proxy::LoadError;
use titan_testkit::{
    Certificate, Gateway, Peer, certificate, gateway, scheme, start_with, usual_client, waits_until,
};

/// What says `text` with so many workers.
fn with_workers(workers: usize, text: &str) -> String {
    format!("workers: {workers}\n{}", says(text))
}

fn usual_peer(address: SocketAddr) -> Peer {
    match scheme() {
        "https" => Peer::connects(address).secures(usual_client()),
        _ => Peer::connects(address),
    }
}

#[test]
fn no_queue_is_left_whatever_the_number_of_workers() {
    for (before, after) in [(1, 1), (1, 3), (3, 1), (3, 2)] {
        let old = gateway(&with_workers(before, "old"), &[]);
        let new = old.hands_over_to(&with_workers(after, "new"), &[]).unwrap();
        assert_eq!(new.address(), old.address());
        // The kernel chooses the queue by the address of the client.
        for _ in 0..40 {
            new.get("/").has_body("new");
        }
    }
}

#[test]
fn clients_that_come_meanwhile_are_served() {
    let mut generations: Vec<Gateway> = vec![gateway(&with_workers(2, "x"), &[])];
    let first = generations[0].address();
    let (stop, stopped) = mpsc::sync_channel::<()>(0);
    let clients = thread::spawn(move || {
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            usual_peer(first).sends(GET).response().has_body("x");
        }
    });
    for workers in [3, 1, 2, 4, 2] {
        let text = with_workers(workers, "x");
        let next = generations.last().unwrap().hands_over_to(&text, &[]).unwrap();
        waits_until("it to serve", || next.metrics().sum(|it| it.accepted.get()) > 5);
        generations.push(next);
    }
    drop(stop);
    clients.join().unwrap();
}

#[test]
fn what_is_open_is_finished_politely() {
    let old = gateway(&says("old"), &[]);
    let (mut idle, mut h2) = (old.connects(), old.connects_h2());
    idle.sends(GET).response().has_body("old");
    h2.get("/").has_body("old");
    let new = old.hands_over_to(&says("new"), &[]).unwrap();
    idle.expects_close();
    assert_eq!(h2.go_away().1, 0, "no error");
    old.waits_for_end();
    new.get("/").has_body("new");
}

#[test]
fn a_listener_that_is_new_is_bound_and_one_that_is_gone_is_closed() {
    let (one, other) = ("127.0.0.1:0", "127.82.82.1:0");
    let old = gateway(&two(one), &[]);
    let gone = old.address_of("second");
    let new = old.hands_over_to(&two(other), &[]).unwrap();
    assert_eq!(new.address(), old.address());
    assert_ne!(new.address_of("second"), gone);
    old.waits_for_end();
    let _free = TcpListener::bind(gone).expect("nobody listens there");
    Peer::connects(new.address_of("second")).sends(GET).response().has_body("x");
}

#[test]
fn a_unix_socket_stays_where_it_is() {
    let path = std::env::temp_dir().join(format!("titan-succession-{}", std::process::id()));
    let text = format!("listeners: ['unix:{}']\n", path.display());
    let old = gateway(&format!("{text}workers: 3\n{}", says("old")), &[]);
    let new = old.hands_over_to(&format!("{text}workers: 2\n{}", says("new")), &[]).unwrap();
    old.waits_for_end();
    for _ in 0..5 {
        new.connects_to_unix(&path).sends(GET).response().has_body("new");
    }
    new.drains();
    assert!(!path.exists(), "the successor removes it in the end");
}

#[test]
fn a_session_is_resumed_by_the_successor() {
    let own = certificate(&["a.example"]);
    let text = "listeners: [{ address: '127.0.0.1:0', tls: { certificates: [{ cert: a.pem, key: a.key }] } }]\n\
                routes: [{ respond: 204 }]";
    for version in ["1.2", "1.3"] {
        let old = start_with(text, &[], &Certificate::files(&[("a", &own)])).unwrap();
        let client = Arc::new(own.trusted_by(None, version));
        let resumes = |gateway: &Gateway| {
            let session = Certificate::client_with(&client, "a.example");
            let mut peer = Peer::connects(gateway.address()).secures(session);
            peer.sends(GET).response().has_status(204);
            peer.has_resumed()
        };
        assert!(!resumes(&old), "{version}");
        let new = old.hands_over_to(text, &[]).unwrap();
        old.waits_for_end();
        assert!(resumes(&new), "{version}");
        let newest = new.hands_over_to(text, &[]).unwrap();
        new.waits_for_end();
        assert!(resumes(&newest), "{version}");
    }
}

#[test]
fn a_successor_that_cannot_start_changes_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let old = gateway(&two("127.0.0.1:0"), &[]);
    let client = || Peer::connects(old.address_of("second"));
    let text = two(&taken.local_addr().unwrap().to_string());
    let error = old.hands_over_to(&text, &[]).err().expect("the address is in use");
    assert!(matches!(error, LoadError::Bind { .. }), "{error}");
    client().sends(GET).response().has_body("x");
    old.reloads(&two("127.0.0.1:0").replace("body: x", "body: after"), &[]).unwrap();
    client().sends(GET).response().has_body("after");
}

#[test]
fn one_that_was_succeeded_puts_nothing_in_force_any_more() {
    let old = gateway(&says("old"), &[]);
    let _new = old.hands_over_to(&says("new"), &[]).unwrap();
    let error = old.reloads(&says("newer"), &[]).unwrap_err();
    assert!(matches!(error, LoadError::HandedOver), "{error}");
}
