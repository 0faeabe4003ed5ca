//! Two responses that are waited for at once, for one exchange.

use super::super::Record;
use super::super::attempt::SendOptions;
use super::super::deliver::Remainder;
use super::super::forward::key_source;
use super::super::subrequest::{OwnBody, ResponseBuffer};
use super::*;
use crate::listener_policy::ListenerPolicy;
use crate::snapshot::{Action, Snapshot};
use crate::worker::Worker;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;
use titan_config::Config;
use titan_http::{BodyLength, Method, RequestHead, Scheme};
use titan_observe::ring::Ring;
use titan_policies::buffered_response::BufferedResponse;
use titan_policies::credentials::PolicyCredentials;
use titan_testkit::h2::reply;
use titan_testkit::upstream::{self, Listening};
use titan_upstream::attempts::Attempts;
use titan_upstream::pool::PooledConnection;
use titan_upstream::reclaim::Reclaim;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;

/// What came of a race.
struct Raced {
    winner: String,
    response: BufferedResponse,
    /// Requests that run at both endpoints, while they were waited for and when it was over.
    running: [u32; 2],
    /// What the next call to the winner goes over, where it is a connection of its own.
    is_reused: Option<bool>,
}

/// A gateway that sends one request to two endpoints at once and delivers the response that comes first. It goes on
/// until it is told to end.
struct Race {
    raced: mpsc::Receiver<Raced>,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Race {
    fn between(protocol: &'static str, endpoints: [&Listening; 2]) -> Race {
        let [one, other] = endpoints.map(Listening::address);
        let (tell, raced) = sync_channel(1);
        let (end, ended) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let options = LocalOptions::default();
            let runtime = Builder::new_current_thread().enable_all().build_local(options).unwrap();
            runtime.block_on(async {
                let worker = worker(protocol, [one, other]);
                tell.send(race(&worker).await.unwrap()).unwrap();
                ended.await.unwrap();
            });
        });
        Race { raced, end, thread }
    }

    fn ends(self) {
        self.end.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

fn worker(protocol: &str, [one, other]: [SocketAddr; 2]) -> Rc<Worker> {
    let text = format!(
        "{{ listeners: ['127.0.0.1:0'], workers: 1, routes: [{{ upstream: u }}],
            upstreams: {{ u: {{ endpoints: ['{one}', '{other}'], protocol: {protocol} }} }} }}"
    );
    let config = Config::parse("test", &text).unwrap();
    let snapshot = Snapshot::unconnected(&config, &PolicyCredentials::unread(&config));
    snapshot.take_effect(PolicyCredentials::default());
    let metrics = Arc::new(snapshot.metrics(1, &titan_observe::events::Log::default()));
    Worker::new(
        0,
        Arc::new(snapshot),
        metrics,
        Arc::new(Reclaim::new(1)),
        Ring::new(sync_channel(1).0),
    )
}

async fn race(worker: &Rc<Worker>) -> Result<Raced, Error> {
    let snapshot: &Arc<Snapshot> = &worker.snapshot();
    let Action::Proxy(proxy) = &snapshot.actions[0] else { panic!("it is a proxy") };
    let how = SendOptions::from(&*proxy.config);
    let origin =
        worker.snapshot().forwarding.origin(None, Scheme::Http, &Arc::<ListenerPolicy>::default());
    let mut request = RequestHead { method: Method::GET, ..RequestHead::default() };
    request.set_path(b"/").unwrap();
    let mut sink = ResponseBuffer::new(100);
    let body: &mut dyn RequestBody = &mut OwnBody::new(&[]);
    let timer = worker.io.clock.timer();
    let mut exchange = Exchange {
        worker,
        snapshot,
        timer: &timer,
        origin: &origin,
        request: &mut request,
        length: BodyLength::None,
        sent_as: BodyLength::None,
        expects_continue: false,
        body,
        sink: &mut sink as &mut dyn ResponseSink,
        text: &mut Vec::new(),
        upgrade: None,
        record: Record::default(),
    };
    let upstream = &snapshot.upstreams[0];
    let members = worker.members.get(0, upstream, Instant::now());
    let mut attempts = Attempts::new(upstream, members, &key_source(exchange.request, None));
    let (mut pending, mut chosen) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let attempt = attempts.next(0, Instant::now())?;
        let running = attempt.begin();
        let options = exchange.acquire_options(how, &attempt, false);
        let connection = worker.pools.get(attempt.endpoint(), options).await?;
        let mut sent = None;
        exchange.send_request((how, exchange.time_of_try(how)), running, connection, &mut sent)?;
        pending.extend(sent);
        chosen.push(attempt);
    }
    let count = || chosen.iter().map(|attempt| attempt.endpoint().load.active()).sum();
    let before = count();
    let first = poll_fn(|cx| {
        for (at, response) in pending.iter_mut().enumerate() {
            if let Poll::Ready(result) = response.poll_head(cx, &mut exchange) {
                return Poll::Ready(result.map(|()| at));
            }
        }
        Poll::Pending
    });
    let first = first.await?;
    let mut responded = Some(pending.swap_remove(first));
    drop(pending);
    assert!(matches!(exchange.deliver(how, &mut responded).await?, Remainder::None));
    assert!(responded.is_none(), "what was delivered is over");
    drop(responded);
    let running = [before, count()];
    let winner = &chosen[first];
    let options = exchange.acquire_options(how, winner, false);
    let is_reused = match worker.pools.get(winner.endpoint(), options).await? {
        PooledConnection::Exclusive(connection) => Some(connection.is_reused),
        PooledConnection::Shared { .. } => None,
    };
    let winner = winner.endpoint().address.to_string();
    Ok(Raced { winner, response: sink.into_reply(Ok(()))?, running, is_reused })
}

#[test]
fn of_two_connections_the_first_to_respond_is_delivered_and_the_other_is_closed() {
    let endpoints = [upstream::listens(), upstream::listens()];
    let race = Race::between("h1", [&endpoints[0], &endpoints[1]]);
    let mut peers = endpoints.each_ref().map(Listening::accepts);
    peers.iter_mut().for_each(|peer| assert_eq!(peer.request().method, "GET"));
    let [loser, winner] = &mut peers;
    winner.sends("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nfirst");
    let raced = race.raced.recv().unwrap();
    loser.expects_close();
    assert_eq!(raced.winner, endpoints[1].address().to_string());
    assert_eq!((raced.response.head.status.code(), &raced.response.body[..]), (404, &b"first"[..]));
    assert_eq!((raced.running, raced.is_reused), ([2, 0], Some(true)));
    race.ends();
}

#[test]
fn of_two_streams_the_first_to_respond_is_delivered_and_the_other_is_reset() {
    let endpoints = [upstream::listens(), upstream::listens()];
    let race = Race::between("h2", [&endpoints[0], &endpoints[1]]);
    let mut peers = endpoints.each_ref().map(Listening::accepts_h2);
    let streams = peers.each_mut().map(|peer| peer.request().0);
    let [winner, loser] = &mut peers;
    winner.responds(streams[0], &reply(404), "first");
    let raced = race.raced.recv().unwrap();
    const CANCEL: u32 = 8;
    assert_eq!(loser.reset_of(streams[1]), CANCEL);
    assert_eq!(raced.winner, endpoints[0].address().to_string());
    assert_eq!((raced.response.head.status.code(), &raced.response.body[..]), (404, &b"first"[..]));
    assert_eq!((raced.running, raced.is_reused), ([2, 0], None));
    race.ends();
}
