//! Upstreams die and come back all the time. No response may belong to another request, and nothing may
//! fail while all are there.

use crate::client::{Client, Response};
use crate::gateway::Gateway;
use crate::go;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 32;
/// How long after an upstream is back a request may still fail: connections to its predecessor are
/// found to be dead.
const SLACK: Duration = Duration::from_millis(500);

/// When an upstream was not there.
#[derive(Debug)]
struct Outage {
    from: Instant,
    to: Instant,
}

/// A request that did not get the response that it should.
struct Failure {
    sent: Instant,
    ended: Instant,
    what: String,
}

/// What came of the requests of one client.
#[derive(Default)]
struct Tally {
    answered: u64,
    failures: Vec<Failure>,
}

/// Random enough; the same in every run (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn millis(&mut self, from: usize, to: usize) -> Duration {
        Duration::from_millis((from + self.below(to - from)) as u64)
    }
}

/// A minute when it runs on its own.
fn duration() -> Duration {
    let asked = std::env::var("CHAOS_SECONDS").ok();
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let seconds = asked.map(|seconds| seconds.parse().expect("CHAOS_SECONDS is a number"));
    Duration::from_secs(seconds.unwrap_or(if is_ci { 60 } else { 10 }))
}

#[test]
fn no_response_is_mixed_up_or_lost_without_need() {
    // Here, so that they outlive the clients: the end of the run is no outage.
    let mut servers = [(); 3].map(|()| go::Server::start());
    let gateway = gateway(&servers);
    let address = gateway.address();
    let before = gateway.footprint();
    let is_over = AtomicBool::new(false);
    let (outages, tallies) = thread::scope(|scope| {
        let (is_over, servers) = (&is_over, &mut servers);
        let (stop, stopped) = sync_channel::<()>(0);
        let killing = scope.spawn(move || kill_and_restart(servers, &stopped));
        let client = |number| scope.spawn(move || ask_all_the_time(address, number, is_over));
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        thread::park_timeout(duration());
        drop(stop);
        // Each client then finishes the request that it is at.
        let outages = killing.join().unwrap();
        is_over.store(true, Ordering::Relaxed);
        let tallies: Vec<Tally> =
            clients.into_iter().map(|client| client.join().unwrap()).collect();
        (outages, tallies)
    });
    judge(&outages, &tallies);
    gateway.returns_to(before);
}

fn gateway(servers: &[go::Server]) -> Gateway {
    let endpoints: Vec<_> =
        servers.iter().map(|server| format!("\"{}\"", server.address)).collect();
    Gateway::start(&format!(
        "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{{ upstream: it, retries: 2 }}]\n\
         upstreams: {{ it: {{ endpoints: [{}], idle_timeout: 2s }} }}\n",
        endpoints.join(", ")
    ))
}

/// Takes one upstream after the other down and up again, with pauses in which all are up.
fn kill_and_restart(servers: &mut [go::Server; 3], stopped: &Receiver<()>) -> Vec<Outage> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut outages = Vec::new();
    loop {
        let pause = random.millis(1000, 1500);
        if stopped.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return outages;
        }
        let server = &mut servers[random.below(3)];
        let from = Instant::now();
        server.kill();
        let _ = stopped.recv_timeout(random.millis(50, 400));
        server.restart();
        outages.push(Outage { from, to: Instant::now() });
    }
}

fn ask_all_the_time(address: SocketAddr, number: u64, is_over: &AtomicBool) -> Tally {
    let mut random = Random(number + 1);
    let mut tally = Tally::default();
    let mut client = None;
    for count in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return tally;
        }
        let asked = Asked::new(format!("{number}-{count}"), &mut random);
        let sent = Instant::now();
        match asked.ask(address, &mut client) {
            Ok(response) if response.status == 200 => {
                asked.check(&response);
                tally.answered += 1;
            }
            Ok(response) => {
                let is_excuse = [502, 503, 504].contains(&response.status);
                assert!(is_excuse, "{asked:?}: {response:?}");
                let what = format!("{asked:?}: {}", response.text());
                tally.failures.push(Failure { sent, ended: Instant::now(), what });
            }
            Err(error) => {
                client = None;
                let what = format!("{asked:?}: {error}");
                tally.failures.push(Failure { sent, ended: Instant::now(), what });
            }
        }
    }
    tally
}

/// A request that no other is like.
struct Asked {
    id: String,
    method: &'static str,
    path: &'static str,
    body: Vec<u8>,
}

impl Asked {
    fn new(id: String, random: &mut Random) -> Asked {
        let (method, path) = [("GET", "/"), ("POST", "/"), ("POST", "/mirror")][random.below(3)];
        let repeats = if method == "GET" { 0 } else { 1 + random.below(4000) };
        let body = id.repeat(repeats).into_bytes();
        Asked { id, method, path, body }
    }

    fn ask(&self, address: SocketAddr, client: &mut Option<Client>) -> io::Result<Response> {
        let Asked { id, method, path, body } = self;
        let mut open = match client.take() {
            Some(open) => open,
            None => Client::connect(address)?,
        };
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nX-Asks: {id}\r\nContent-Length: {length}\r\n\r\n"
        );
        open.send(&[head.as_bytes(), body].concat())?;
        let response = open.response()?;
        *client = response.keeps_alive().then_some(open);
        Ok(response)
    }

    /// Whether that is the response to this request and to no other.
    fn check(&self, response: &Response) {
        if self.path == "/mirror" {
            assert_eq!(response.field("X-Answers"), Some(self.id.as_str()), "{self:?}");
            assert!(response.body == self.body, "{self:?}: another body");
            return;
        }
        let seen: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(seen["Header"]["X-Asks"][0], self.id.as_str(), "{self:?}");
        assert_eq!(seen["BodyLength"], self.body.len(), "{self:?}");
    }
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Asked { id, method, path, body } = self;
        write!(f, "{method} {path} {id} with {} bytes", body.len())
    }
}

fn judge(outages: &[Outage], tallies: &[Tally]) {
    let answered: u64 = tallies.iter().map(|tally| tally.answered).sum();
    let failures: Vec<_> = tallies.iter().flat_map(|tally| &tally.failures).collect();
    println!("{answered} answered, {} failed, {} outages", failures.len(), outages.len());
    assert!(answered > 100 && !outages.is_empty(), "too little happened to mean anything");
    let has_excuse = |failure: &Failure| {
        outages.iter().any(|out| failure.sent <= out.to + SLACK && failure.ended >= out.from)
    };
    let without = failures.iter().filter(|failure| !has_excuse(failure));
    let without: Vec<_> = without.map(|failure| &failure.what).collect();
    assert!(without.is_empty(), "failed while all upstreams were there: {without:#?}");
}
