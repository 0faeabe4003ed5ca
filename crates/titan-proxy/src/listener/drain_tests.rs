//! How long a drain waits for the first request of a client that could not send it before. Time passes when nobody can go on.

use super::*;
use crate::snapshot::Snapshot;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use titan_config::Config;
use titan_io::counter::Counter;
use titan_observe::ring::Ring;
use titan_policies::credentials::PolicyCredentials;
use titan_testkit::{Certificate, certificate};
use titan_upstream::reclaim::Reclaim;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::{Instant, sleep};

const BALANCED: &str = "proxy_protocol: { from: [127.0.0.2] }";
const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n";
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// Longer than a drain waits for a request that may be on its way.
const LATE: Duration = Duration::from_secs(5);
/// Not as long.
const SOON: Duration = Duration::from_millis(700);

/// Plays a client that a listener with those settings has accepted, as one from a balancer.
fn plays(settings: &str, files: &Files, client: impl AsyncFnOnce(UnixStream, &Worker)) {
    plays_between((settings, settings), files, client);
}

/// The same while a reload is under way: the rules of the listener are those of the first settings, and what the worker serves from is
/// of the second ones.
pub(super) fn plays_between(
    (rules, served): (&str, &str),
    files: &Files,
    client: impl AsyncFnOnce(UnixStream, &Worker),
) {
    runs((rules, served), files, async |worker, state| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        admit(worker, state, theirs.into(), Some([127, 0, 0, 2].into()));
        client(ours, worker).await;
    });
}

/// Runs a worker with a listener of these settings, for as long as the scene takes.
pub(super) fn runs(
    (rules, served): (&str, &str),
    files: &Files,
    scene: impl AsyncFnOnce(&Rc<Worker>, &Arc<ListenerState>),
) {
    let config = |settings: &str| {
        let text = format!(
            "{{ listeners: [{{ address: '127.0.0.1:1', {settings} }}], routes: [{{ respond: 204 }}], \
             timeouts: {{ handshake: 60s, head: 60s, idle: 60s }}, upstreams: {{ u: '127.0.0.1:1' }} }}"
        );
        Config::parse("test", &text).unwrap()
    };
    let (rules, config) = (config(rules), config(served));
    let id = ListenerId::all(&rules.listeners).remove(0);
    let listener =
        PreparedListener::new(&rules.listeners[0], id, files, &Registry::default()).unwrap();
    let state = Arc::clone(listener.state());
    listener.take_effect();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build_local(LocalOptions::default())
        .unwrap();
    runtime.block_on(async {
        let credentials = PolicyCredentials::unread(&config);
        let snapshot = Arc::new(Snapshot::unconnected(&config, &credentials));
        let metrics = Arc::new(snapshot.metrics(1, &titan_observe::events::Log::default()));
        let worker = Worker::new(
            0,
            snapshot,
            metrics,
            Arc::new(Reclaim::new(1)),
            Ring::new(sync_channel(1).0),
        );
        tokio::select! {
            never = worker.tick() => match never {},
            () = scene(&worker, &state) => {}
        }
    });
}

/// Sends the first bytes of that before a drain, and the others late in it.
async fn sends_late(client: &mut UnixStream, worker: &Worker, bytes: &[u8]) {
    let (first, others) = bytes.split_at(9);
    client.write_all(first).await.unwrap();
    sleep(2 * TICK).await;
    worker.io.drain();
    sleep(LATE).await;
    client.write_all(others).await.unwrap();
}

#[test]
fn a_request_that_follows_a_late_header_is_served() {
    plays(BALANCED, &Files::default(), async |mut client, worker| {
        sends_late(&mut client, worker, HEADER).await;
        sleep(SOON).await;
        client.write_all(GET).await.unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 204 "), "{response}");
        assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    });
}

#[test]
fn a_client_that_sends_no_request_does_not_hold_up_the_drain() {
    plays(BALANCED, &Files::default(), async |mut client, worker| {
        sends_late(&mut client, worker, HEADER).await;
        let since = Instant::now();
        client.read_to_end(&mut Vec::new()).await.unwrap();
        let waited = since.elapsed();
        let moment = Duration::from_secs(1);
        assert!((moment..=moment + 4 * TICK).contains(&waited), "{waited:?}");
    });
}

#[test]
fn a_stream_that_follows_a_late_header_is_served() {
    const SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const REQUEST: &[u8] = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x84\x86\x41\x01a";
    plays(BALANCED, &Files::default(), async |mut client, worker| {
        sends_late(&mut client, worker, HEADER).await;
        sleep(SOON / 2).await;
        client.write_all(SETTINGS).await.unwrap();
        sleep(SOON / 2).await;
        client.write_all(REQUEST).await.unwrap();
        sleep(TICK).await;
        let cells = worker.cells();
        let counts = [&cells.streams_opened, &cells.h2_opened, &cells.h2_closed];
        assert_eq!(counts.map(Counter::get), [1, 1, 0]);
    });
}

#[test]
fn a_request_that_follows_a_late_handshake_is_served() {
    let site = certificate(&["a.example"]);
    let files = Certificate::files(&[("site", &site)]);
    let settings = "tls: { certificates: { cert: site.pem, key: site.key } }";
    plays(settings, &files, async |mut client, worker| {
        let mut tls = site.client("a.example");
        sends_late(&mut client, worker, &sealed(&mut tls)).await;
        while tls.is_handshaking() {
            receives(&mut client, &mut tls).await;
            client.write_all(&sealed(&mut tls)).await.unwrap();
        }
        sleep(SOON).await;
        io::Write::write_all(&mut tls.writer(), GET).unwrap();
        client.write_all(&sealed(&mut tls)).await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\n") {
            assert!(receives(&mut client, &mut tls).await > 0, "it is closed");
            // That there is no more yet is an error, too.
            let _ = io::Read::read_to_end(&mut tls.reader(), &mut response);
        }
        assert!(response.starts_with(b"HTTP/1.1 204 "));
    });
}

/// What a client of TLS has to send.
fn sealed(tls: &mut rustls::ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// Has a client of TLS read something: how many bytes.
async fn receives(client: &mut UnixStream, tls: &mut rustls::ClientConnection) -> usize {
    let mut bytes = Vec::with_capacity(4 << 10);
    let count = client.read_buf(&mut bytes).await.unwrap();
    let mut unread = &bytes[..];
    while !unread.is_empty() {
        tls.read_tls(&mut unread).unwrap();
        tls.process_new_packets().unwrap();
    }
    count
}
