//! Twice as many requests as a service can serve, whose clients wait a second: with `concurrency: adaptive` it serves what it can,
//! without it only those whose clients have gone.

use crate::gateway::Gateway;
use crate::shockwave::Echo;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// How many requests the service works on at a time, and how long each takes.
const WORKERS: u32 = 10;
const WORK: Duration = Duration::from_millis(100);
/// How many it can therefore serve in a second, and how many come.
const CAPACITY: u32 = 100;
const OFFERED: u32 = 2 * CAPACITY;
/// How long clients wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the load lasts.
struct Lengths {
    /// Until a limit has been found, or a queue has grown beyond the patience of clients.
    settling: Duration,
    measured: Duration,
}

impl Lengths {
    /// As asked, or a few seconds.
    fn asked() -> (Lengths, bool) {
        let asked = std::env::var("OVERLOAD_SECONDS").ok();
        let asked: Option<u64> =
            asked.map(|seconds| seconds.parse().expect("OVERLOAD_SECONDS is a number"));
        let (settling, measured) = asked.map_or((3, 4), |seconds| (10, seconds));
        let [settling, measured] = [settling, measured].map(Duration::from_secs);
        (Lengths { settling, measured }, asked.is_some())
    }
}

#[test]
fn a_service_serves_what_it_can_under_twice_that() {
    let (lengths, is_measurement) = Lengths::asked();
    let stands = ["off", "adaptive"].map(|concurrency| {
        let service = Echo::with(&["-workers", &WORKERS.to_string()]);
        let gateway = Gateway::start(&format!(
            "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{{ upstream: it }}]\n\
             upstreams: {{ it: {{ endpoints: \"{}\", concurrency: {concurrency} }} }}\n",
            service.address
        ));
        (service, gateway)
    });
    let addresses = stands.each_ref().map(|(_, gateway)| gateway.address());
    let [without, with] = goodput(addresses, &lengths);
    println!(
        "{with:.0} of {CAPACITY} requests a second with `concurrency: adaptive`, {without:.0} without"
    );
    // Whatever disturbs the machine disturbs both.
    assert!(with > 3.0 * (without + 1.0), "{with} with a limit, {without} without");
    if is_measurement {
        assert!(with >= 0.9 * f64::from(CAPACITY), "{with} of {CAPACITY}");
    }
}

/// How many requests each gateway has got a response to in a second, within the patience of their clients. The same load at the same
/// time for all.
fn goodput<const N: usize>(gateways: [SocketAddr; N], lengths: &Lengths) -> [f64; N] {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let Lengths { settling, measured } = *lengths;
        let loads = gateways.map(|to| spawn_local(load(to, settling, measured)));
        let mut served = [0.0; N];
        for (served, load) in served.iter_mut().zip(loads) {
            *served = f64::from(load.await.unwrap()) / measured.as_secs_f64();
        }
        served
    })
}

/// Sends requests at their rate, whatever becomes of the earlier ones; how many of those that were sent after `settling` were served.
async fn load(to: SocketAddr, settling: Duration, measured: Duration) -> u32 {
    let request = Rc::new(format!(
        "GET /work/{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        WORK.as_millis()
    ));
    let begin = Instant::now();
    let mut ticks = interval(Duration::from_secs(1) / OFFERED);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut asked: Vec<JoinHandle<bool>> = Vec::new();
    while begin.elapsed() < settling + measured {
        ticks.tick().await;
        let (request, counts) = (Rc::clone(&request), begin.elapsed() >= settling);
        let asking = spawn_local(async move {
            timeout(PATIENCE, is_served(to, &request)).await.unwrap_or(false)
        });
        if counts {
            asked.push(asking);
        }
    }
    let mut served = 0;
    for asking in asked {
        served += u32::from(asking.await.unwrap());
    }
    served
}

/// Whether a request on a connection of its own gets the response to it.
async fn is_served(to: SocketAddr, request: &str) -> bool {
    let asking = async {
        let mut stream = TcpStream::connect(to).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await?;
        std::io::Result::Ok(response.starts_with(b"HTTP/1.1 200 "))
    };
    asking.await.unwrap_or(false)
}
