//! A steady load: requests come when they come, however long the earlier ones take.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::case::Protocol;
use crate::sample::{Failure, Kind, Sample};
use crate::{grpc, http1};

/// How long a client waits for a whole response.
const PATIENCE: Duration = Duration::from_secs(5);

/// The load on one gateway, and what has become of it so far.
pub struct Load {
    client: Client,
    begin: Instant,
    samples: RefCell<Vec<Sample>>,
    under_way: Cell<usize>,
}

enum Client {
    Http1(http1::Client),
    Grpc(grpc::Client),
}

/// Waits until the gateway has passed a request to each of so many endpoints, and none has failed meanwhile.
pub async fn is_ready(to: SocketAddr, protocol: Protocol, endpoints: usize) -> io::Result<()> {
    const LIMIT: Duration = Duration::from_secs(20);
    let client = Client::new(to, protocol);
    let deadline = Instant::now() + LIMIT;
    let mut seen = BTreeSet::new();
    while seen.len() < endpoints {
        match timeout(PATIENCE, client.ask(Kind::ALL[0])).await {
            Ok(Ok(endpoint)) => drop(seen.insert(endpoint)),
            Ok(Err(_)) | Err(_) => seen.clear(),
        }
        if Instant::now() > deadline {
            return Err(io::Error::other("requests do not come to all endpoints"));
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

impl Client {
    fn new(to: SocketAddr, protocol: Protocol) -> Self {
        match protocol {
            Protocol::Http1 | Protocol::Http2 => Self::Http1(http1::Client::new(to)),
            Protocol::Grpc => Self::Grpc(grpc::Client::new(to)),
        }
    }

    async fn ask(&self, kind: Kind) -> Result<u8, Failure> {
        match self {
            Self::Http1(client) => client.ask(kind).await,
            Self::Grpc(client) => client.ask(kind).await,
        }
    }
}

impl Load {
    /// Begins with so many requests a second; they go on until the handle is aborted.
    pub fn start(
        to: SocketAddr,
        protocol: Protocol,
        rate: u32,
        begin: Instant,
    ) -> (Rc<Self>, JoinHandle<()>) {
        let (client, samples) = (Client::new(to, protocol), RefCell::default());
        let load = Rc::new(Self { client, begin, samples, under_way: Cell::default() });
        (Rc::clone(&load), spawn_local(Rc::clone(&load).send(rate)))
    }

    async fn send(self: Rc<Self>, rate: u32) {
        let mut ticks = interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        // Drawn, so that no gateway's turns fall in with those of the load; the same for all.
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        loop {
            ticks.tick().await;
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let kind = Kind::ALL[(random % Kind::ALL.len() as u64) as usize];
            spawn_local(Rc::clone(&self).ask(kind));
        }
    }

    async fn ask(self: Rc<Self>, kind: Kind) {
        self.under_way.set(self.under_way.get() + 1);
        let sent = Instant::now();
        let outcome = timeout(PATIENCE, self.client.ask(kind)).await.unwrap_or(Err(Failure::Late));
        let took = sent.elapsed();
        let sample = Sample { kind, sent: sent - self.begin, took, outcome };
        self.samples.borrow_mut().push(sample);
        self.under_way.set(self.under_way.get() - 1);
    }

    /// Whether that endpoint has answered a request that was sent after `since`.
    pub fn has_reached(&self, endpoint: u8, since: Duration) -> bool {
        let samples = self.samples.borrow();
        samples.iter().rev().any(|it| it.sent > since && it.outcome == Ok(endpoint))
    }

    /// What has become of all requests, in the order in which they were sent, once each has ended.
    pub async fn end(&self) -> Vec<Sample> {
        while self.under_way.get() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
        let mut samples = self.samples.take();
        samples.sort_by_key(|sample| sample.sent);
        samples
    }
}
