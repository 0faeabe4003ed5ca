//! SIGTERM while there is much to do: whatever an upstream was asked, a client is told.

use crate::client::Client;
use crate::gateway::Gateway;
use crate::place::own_address;
use crate::upstream;
use crate::wait::until;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

const CLIENTS: usize = 16;

fn is_refused(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_err()
}

#[test]
fn requests_that_wait_for_their_upstream_get_responses() {
    // The test takes part: nothing gets a response before all is asked and the gateway drains.
    let (asked, drained) =
        (Arc::new(Barrier::new(CLIENTS + 1)), Arc::new(Barrier::new(CLIENTS + 1)));
    let (all_asked, all_drained) = (Arc::clone(&asked), Arc::clone(&drained));
    let upstream = upstream::serve(TcpListener::bind(own_address()).unwrap(), move |request| {
        asked.wait();
        drained.wait();
        request.field("X-Asks").unwrap().to_owned()
    });
    let mut gateway = Gateway::to(upstream);
    let mut clients: Vec<_> =
        (0..CLIENTS).map(|_| Client::connect(gateway.address()).unwrap()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Asks: {number}\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
    }
    all_asked.wait();
    gateway.terminate();
    until("the gateway accepts nothing more", || is_refused(gateway.address()));
    all_drained.wait();
    for (number, client) in clients.iter_mut().enumerate() {
        let response = client.response().unwrap();
        assert_eq!((response.status, response.text()), (200, number.to_string().as_str()));
        assert!(client.response().is_err(), "the connection is closed");
    }
    assert_eq!(gateway.exit_code(), Some(0));
}

#[test]
fn an_upload_that_has_begun_goes_on_to_its_end() {
    let upstream = TcpListener::bind(own_address()).unwrap();
    let mut gateway = Gateway::to(upstream.local_addr().unwrap());
    let mut client = Client::connect(gateway.address()).unwrap();
    let half = "x".repeat(100_000);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
    client.send(format!("{head}{half}").as_bytes()).unwrap();
    let (mut served, _) = upstream.accept().unwrap();
    served.read_exact(&mut [0; 100_000]).unwrap();
    gateway.terminate();
    until("the gateway accepts nothing more", || is_refused(gateway.address()));
    client.send(half.as_bytes()).unwrap();
    let mut rest = Vec::new();
    until("the upload arrives", || {
        let mut some = vec![0; 1 << 20];
        let count = served.read(&mut some).unwrap();
        rest.extend_from_slice(&some[..count]);
        rest.len() >= 100_000
    });
    served.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    assert_eq!(client.response().unwrap().text(), "ok");
    assert_eq!(gateway.exit_code(), Some(0));
}

#[test]
fn under_load_no_request_that_reached_an_upstream_is_lost() {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let sees = Arc::clone(&seen);
    let upstream = upstream::serve(TcpListener::bind(own_address()).unwrap(), move |request| {
        let id = request.field("X-Asks").unwrap().to_owned();
        sees.lock().unwrap().insert(id.clone());
        id
    });
    let mut gateway = Gateway::to(upstream);
    let address = gateway.address();
    let answered: BTreeSet<String> = thread::scope(|scope| {
        let client = |number| scope.spawn(move || ask_until_refused(address, number));
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        until("the load is on", || seen.lock().unwrap().len() > 500);
        gateway.terminate();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(gateway.exit_code(), Some(0));
    let seen = seen.lock().unwrap();
    let lost: Vec<_> = seen.difference(&answered).collect();
    assert!(lost.is_empty(), "of {}: {lost:?}", seen.len());
}

/// Asks over kept connections until there is no gateway any more. The ids of the requests that got a response.
fn ask_until_refused(address: SocketAddr, number: usize) -> Vec<String> {
    let mut answered = Vec::new();
    while let Ok(mut client) = Client::connect(address) {
        loop {
            let id = format!("{number}-{}", answered.len());
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Asks: {id}\r\n\r\n");
            if client.send(head.as_bytes()).is_err() {
                break;
            }
            // A connection that closes without a word has not taken the request: the ids that the
            // upstream saw will tell.
            let Ok(response) = client.response() else { break };
            assert_eq!((response.status, response.text()), (200, id.as_str()));
            let keeps_alive = response.keeps_alive();
            answered.push(id);
            if !keeps_alive {
                break;
            }
        }
    }
    answered
}
