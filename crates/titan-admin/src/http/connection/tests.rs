//! A connection to a client that plays by its own rules, with time that passes when nobody can go on.

use super::super::slots::ConnectionSlots;
use super::*;
use crate::http::{PieceSender, Pieces, pieces};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{DuplexStream, duplex};
use tokio::time::Instant;

const IDLE: Duration = Duration::from_secs(15);
const LIFE: Duration = Duration::from_secs(40);
const BOUNDS: Bounds = Bounds {
    connections: 1,
    share: 1,
    idle: IDLE,
    requests: 3,
    life: LIFE,
    bodies: Request::MAX_BODY,
};

const PEER: Peer = Peer::Process { uid: 0, pid: None };

/// Runs `client` against a connection, with time that passes when no task can run. Returns what the client has
/// received at the end, and when that was.
fn played(client: impl AsyncFnOnce(&mut DuplexStream)) -> (String, Duration) {
    let handler = |_: &Request| Response::new(Status::OK, "text/plain", "x".repeat(READ));
    played_with(handler, client)
}

fn played_with(
    handler: impl Handler,
    client: impl AsyncFnOnce(&mut DuplexStream),
) -> (String, Duration) {
    played_between(2, handler, client)
}

fn played_between(
    connections: u32,
    handler: impl Handler,
    client: impl AsyncFnOnce(&mut DuplexStream),
) -> (String, Duration) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (mut ours, theirs) = duplex(READ);
        let serving = tokio::spawn(async move {
            let slots = Arc::new(ConnectionSlots::new(connections, connections));
            let (slot, room) = (slots.enter(&PEER).unwrap(), Semaphore::new(BOUNDS.bodies));
            let theirs = (Box::new(theirs) as Box<dyn Stream>, PEER);
            Connection::new(theirs, BOUNDS, &slot, &room).serve(&handler).await
        });
        let started = Instant::now();
        client(&mut ours).await;
        let mut received = String::new();
        ours.read_to_string(&mut received).await.unwrap();
        let took = started.elapsed();
        let _ = serving.await;
        (received, took)
    })
}

#[test]
fn a_connection_without_a_request_is_closed() {
    assert_eq!(played(async |_| {}), (String::new(), IDLE));
}

#[test]
fn a_request_that_comes_slowly_is_refused() {
    let (received, took) = played(async |client| {
        client.write_all(b"GET / HT").await.unwrap();
    });
    assert!(received.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{received}");
    assert_eq!(took, MESSAGE);
}

#[test]
fn a_body_that_comes_slowly_is_refused() {
    let (received, took) = played(async |client| {
        let head = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1";
        client.write_all(head).await.unwrap();
    });
    assert!(received.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{received}");
    assert_eq!(took, MESSAGE);
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Takes one response. Whether it is the last one of the connection.
async fn is_last(client: &mut DuplexStream) -> bool {
    let mut received = Vec::new();
    while !received.ends_with(&[b'x'; READ]) {
        assert!(client.read_buf(&mut received).await.unwrap() > 0);
    }
    String::from_utf8(received).unwrap().contains("\r\nConnection: close\r\n")
}

#[test]
fn a_connection_brings_so_many_requests_and_no_more() {
    let (received, _) = played(async |client| {
        for last in [false, false, true] {
            client.write_all(GET).await.unwrap();
            assert_eq!(is_last(client).await, last);
        }
    });
    assert_eq!(received, "");
}

#[test]
fn a_connection_lasts_so_long_and_no_longer() {
    let pause = IDLE - Duration::from_secs(1);
    let (received, took) = played(async |client| {
        for _ in 0..2 {
            tokio::time::sleep(pause).await;
            client.write_all(GET).await.unwrap();
            assert!(!is_last(client).await);
        }
    });
    assert_eq!((received, took), (String::new(), LIFE));
}

#[test]
fn a_connection_is_closed_at_once_behind_a_response_that_says_so() {
    let last = |_: &Request| {
        let response = Response::new(Status::UNAUTHORIZED, "text/plain", "");
        Response { is_last: true, ..response }
    };
    let (_, took) = played_with(last, async |client| {
        client.write_all(GET).await.unwrap();
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        assert!(received.starts_with("HTTP/1.1 401 "), "{received}");
        assert!(received.contains("\r\nConnection: close\r\n"), "{received}");
        assert!(client.write_all(GET).await.is_err(), "nothing more is read");
    });
    assert_eq!(took, Duration::ZERO);
}

/// Allows ten seconds more than [`MESSAGE`] for a body, and counts those that have not come in time.
#[derive(Default)]
struct Large(AtomicU32);

impl Handler for Large {
    async fn admit(&self, _: &RequestHead, _: &Peer) -> Result<usize, Response> {
        Ok(Request::MAX_BODY + 10 * BODY_RATE)
    }

    async fn respond(&self, _: Request) -> Response {
        Response::new(Status::OK, "text/plain", "")
    }

    fn give_up(&self, _: &RequestHead, _: &Peer, status: Status, _: &str) {
        assert_eq!(status, Status::REQUEST_TIMEOUT);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_large_body_may_take_longer_but_not_for_ever() {
    let extra = Duration::from_secs(10);
    let large = Arc::new(Large::default());
    let (received, took) = played_with(Arc::clone(&large), async |client| {
        client.write_all(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n").await.unwrap();
        tokio::time::sleep(MESSAGE).await;
        client.write_all(b"x").await.unwrap();
    });
    assert!(received.starts_with("HTTP/1.1 408 "), "{received}");
    assert_eq!(took, MESSAGE + extra);
    assert_eq!(large.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let (received, took) = played(async |client| {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        tokio::time::sleep(WRITE + MESSAGE).await;
    });
    assert_eq!(took, WRITE + MESSAGE);
    assert!(received.len() <= READ, "more than what the client's buffer takes was sent");
}

/// A stream of `hi` and then of what its source sends, for who may go on.
struct Streaming {
    pieces: Mutex<Option<Pieces>>,
    may_go_on: AtomicBool,
}

impl Handler for Streaming {
    async fn respond(&self, _: Request) -> Response {
        let pieces = self.pieces.lock().unwrap().take().unwrap();
        Response::new(Status::OK, "text/plain", "hi").followed_by(pieces)
    }

    fn may_go_on(&self, head: &RequestHead, peer: &Peer) -> bool {
        assert_eq!((head.path(), peer), (&b"/"[..], &PEER));
        self.may_go_on.load(Ordering::Relaxed)
    }
}

fn streaming() -> (PieceSender, Arc<Streaming>) {
    let (source, pieces) = pieces();
    let (pieces, may_go_on) = (Mutex::new(Some(pieces)), AtomicBool::new(true));
    (source, Arc::new(Streaming { pieces, may_go_on }))
}

/// Takes what comes until it ends like that.
async fn takes_up_to(client: &mut DuplexStream, end: &str) -> String {
    let mut received = String::new();
    while !received.ends_with(end) {
        let mut byte = [0];
        client.read_exact(&mut byte).await.unwrap();
        received.push(char::from(byte[0]));
    }
    received
}

#[test]
fn pieces_are_chunks_as_they_come_for_longer_than_a_connection_lasts() {
    let (source, handler) = streaming();
    let (rest, took) = played_with(handler, async move |client| {
        client.write_all(GET).await.unwrap();
        let head = takes_up_to(client, "\r\n\r\n").await;
        assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
        assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
        assert_eq!(takes_up_to(client, "hi\r\n").await, "2\r\nhi\r\n");
        tokio::time::sleep(2 * LIFE).await;
        for piece in ["one", "", "three"] {
            source.send(piece.as_bytes()).unwrap();
        }
        assert_eq!(takes_up_to(client, "three\r\n").await, "3\r\none\r\n5\r\nthree\r\n");
    });
    assert_eq!((rest.as_str(), took), ("0\r\n\r\n", 2 * LIFE));
}

#[test]
fn a_client_of_http_1_0_gets_pieces_until_the_connection_closes() {
    let (source, handler) = streaming();
    let (received, _) = played_with(handler, async move |client| {
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        source.send(*b"!").unwrap();
    });
    assert!(received.ends_with("\r\n\r\nhi!"), "{received}");
    assert!(!received.contains("Transfer-Encoding"), "{received}");
}

#[test]
fn head_gets_the_head_of_a_stream_alone() {
    let (source, handler) = streaming();
    let (received, _) = played_with(handler, async move |client| {
        let head = b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.write_all(head).await.unwrap();
        source.gone().await;
    });
    assert!(received.ends_with("\r\n\r\n") && !received.contains("hi"), "{received}");
}

#[test]
fn a_stream_that_is_cut_off_does_not_look_complete() {
    let (source, handler) = streaming();
    let (received, _) = played_with(handler, async move |client| {
        client.write_all(GET).await.unwrap();
        takes_up_to(client, "hi\r\n").await;
        source.cut_off();
    });
    assert_eq!(received, "");
}

#[test]
fn a_client_that_takes_no_pieces_is_cut_off() {
    let (source, handler) = streaming();
    let (received, took) = played_with(handler, async move |client| {
        client.write_all(GET).await.unwrap();
        source.send(vec![b'x'; 3 * READ]).unwrap();
        source.gone().await;
    });
    assert_eq!(took, Duration::from_secs(10));
    assert!(received.len() <= READ && !received.ends_with("0\r\n\r\n"), "{}", received.len());
}

#[test]
fn the_source_of_a_stream_notices_that_its_client_goes() {
    let (source, handler) = streaming();
    played_with(handler, async move |client| {
        client.write_all(GET).await.unwrap();
        takes_up_to(client, "hi\r\n").await;
        client.shutdown().await.unwrap();
        source.gone().await;
    });
}

#[test]
fn a_client_that_sends_and_sends_while_it_reads_is_cut_off() {
    let (source, handler) = streaming();
    let (received, _) = played_with(handler, async move |client| {
        client.write_all(GET).await.unwrap();
        takes_up_to(client, "hi\r\n").await;
        client.write_all(GET).await.unwrap();
        source.send(*b"!").unwrap();
        takes_up_to(client, "1\r\n!\r\n").await;
        while client.write_all(GET).await.is_ok() {}
        source.gone().await;
    });
    assert_eq!(received, "", "no second response");
}

#[test]
fn a_stream_ends_when_its_client_may_read_no_more() {
    let (source, handler) = streaming();
    let may_go_on = Arc::clone(&handler);
    let (received, took) = played_with(handler, async move |client| {
        client.write_all(GET).await.unwrap();
        takes_up_to(client, "hi\r\n").await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(!source.is_gone());
        may_go_on.may_go_on.store(false, Ordering::Relaxed);
        let gone = timeout(Duration::from_secs(60), source.gone());
        gone.await.expect("nobody asks whether it may go on");
    });
    assert_eq!((received.as_str(), took), ("0\r\n\r\n", Duration::from_secs(10)));
}

#[test]
fn there_is_one_stream_for_two_connections() {
    let (_source, handler) = streaming();
    let (received, _) = played_between(1, handler, async |client| {
        client.write_all(GET).await.unwrap();
    });
    assert!(received.starts_with("HTTP/1.1 503 "), "{received}");
    assert!(received.contains("\r\nRetry-After: "), "{received}");
}
