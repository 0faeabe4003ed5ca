//! One configuration after the other comes into force under every kind of traffic. No request fails, no connection is
//! refused, no tunnel ends, each response comes from one configuration and from the right one, and nothing is left over.

mod clients;
mod configurations;
mod loads;
mod origin;
mod tunnels;

use crate::client;
use crate::gateway::Gateway;
use crate::place::Folder;
use crate::process;
use crate::wait::{TIMEOUT, pause, until};
use aws_lc_rs::digest::{SHA256, digest};
use clients::{Doors, Progress, number_of};
use configurations::{Configuration, PERIOD, Site, public};
use loads::{Wrk, h2load};
use origin::Origins;
use std::env;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use titan_testkit::Peer;
use tunnels::Tunnels;

/// How much there is to do.
struct Size {
    reloads: usize,
    tunnels: usize,
}

/// Whoever puts the configurations in force, and what that came to.
struct Driver<'s> {
    gateway: Gateway,
    site: &'s Site,
    doors: &'s Doors,
    progress: &'s Progress,
    origins: Origins,
    now: Configuration,
    tunnels: Tunnels,
    /// A connection that stays, over a listener that may be gone.
    passing: Option<Peer>,
    took: Vec<Duration>,
    /// Resident memory after each reload.
    resident: Vec<u64>,
}

/// What a gateway has when nobody asks it for anything.
#[derive(Debug, PartialEq, Eq)]
struct AtRest {
    threads: Vec<String>,
    descriptors: usize,
}

#[test]
fn reloads_disturb_nobody_and_leave_nothing() {
    process::raise_descriptors();
    let size = Size::asked();
    let (origins, folder) = (Origins::start(), Folder::new());
    let site = Arc::new(Site::new(&folder, origins.addresses));
    let (doors, progress) = (Doors::new(&site), Progress::default());
    let gateway = Gateway::start_in(folder, &Configuration(0).text(&site));
    let mut driver = Driver::new(gateway, (&site, &doors, &progress), origins);
    let (before, failures) = (driver.rest(), driver.failures());
    let tunnels = thread::scope(|scope| {
        // Also where this fails: the others would go on for ever.
        let _ending = progress.ends_with_this();
        let wrks = Wrk::all(&site, &driver.gateway.folder);
        let h2load = scope.spawn(|| h2load(&site, &progress));
        let clients = clients::start(scope, &doors, &progress);
        let running =
            || !h2load.is_finished() && !clients.iter().any(ScopedJoinHandle::is_finished);
        while driver.now.0 < size.reloads && running() {
            driver.reload(&size);
        }
        let is_complete = running();
        progress.end();
        clients.into_iter().for_each(|client| client.join().unwrap());
        let of_h2load = h2load.join().unwrap();
        assert!(is_complete, "a client has ended too early");
        driver.has_done_well(&failures);
        let of_wrk: Vec<_> = wrks.into_iter().map(Wrk::stop).collect();
        println!("responses: wrk {of_wrk:?}, h2load {of_h2load}, checked {}", progress.checked());
        assert!(of_wrk.iter().all(|count| *count > 0), "wrk has got nothing");
        driver.end()
    });
    println!("{tunnels} echoes");
    driver.returns_to(&before);
}

impl Size {
    /// As the environment says; little otherwise.
    fn asked() -> Size {
        let number = |name: &str| env::var(name).ok().map(|it| it.parse().expect("a number"));
        let reloads: usize = number("SOAK_RELOADS").unwrap_or(20);
        Size {
            // The last configuration is like the first.
            reloads: reloads.next_multiple_of(PERIOD),
            tunnels: number("SOAK_TUNNELS").unwrap_or(20),
        }
    }

    /// How many tunnels there are under that configuration: some more under each of the first ones.
    fn tunnels_under(&self, Configuration(number): Configuration) -> usize {
        (number * self.tunnels.div_ceil(15)).min(self.tunnels)
    }
}

impl<'s> Driver<'s> {
    fn new(
        gateway: Gateway,
        (site, doors, progress): (&'s Site, &'s Doors, &'s Progress),
        origins: Origins,
    ) -> Driver<'s> {
        Driver {
            gateway,
            site,
            doors,
            progress,
            origins,
            now: Configuration(0),
            tunnels: Tunnels::default(),
            passing: None,
            took: Vec::new(),
            resident: Vec::new(),
        }
    }

    /// Puts the next configuration in force, while a request runs and each tunnel has a message on its way.
    fn reload(&mut self, size: &Size) {
        let (last, next) = (self.now, Configuration(self.now.0 + 1));
        self.tunnels.send();
        let mut held = self.doors.clear();
        held.sends("GET /through/held HTTP/1.1\r\nHost: a\r\n\r\n");
        self.origins.held.recv().unwrap();
        self.put_in_force(next);
        self.origins.release.send(()).unwrap();
        assert_eq!(number_of(&held.response()), last.0, "it has begun before the reload");
        held.sends("GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n")
            .response()
            .has_body(next.0.to_string());
        self.tunnels.check();
        self.check_listeners(last);
        while self.tunnels.len() < size.tunnels_under(next) {
            self.tunnels.open(self.doors);
        }
        self.resident.push(process::resident(self.gateway.id()));
        if next.0.is_multiple_of(100) {
            self.report();
        }
    }

    fn put_in_force(&mut self, next: Configuration) {
        let text = next.text(self.site);
        let line = format!("titan_config_info{{sha256=\"{}\",", sha256(&public(&text)));
        self.progress.tell(next);
        let begin = Instant::now();
        self.gateway.reload(&text);
        until("the reload", || self.metrics().contains(&line));
        self.took.push(begin.elapsed());
        self.progress.confirm(next);
        self.now = next;
    }

    /// Checks certificates, and the listeners that come and go.
    fn check_listeners(&mut self, last: Configuration) {
        let [own, other] = self.now.names();
        assert!(self.doors.knows(self.site.secure, own).is_some(), "the certificate is not new");
        assert!(self.doors.knows(self.site.secure, other).is_none(), "the certificate is old");
        // What was accepted before its listener went is served on.
        if let Some(peer) = &mut self.passing {
            let response = peer.sends("GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n").response();
            response.has_body(self.now.0.to_string());
        }
        if let Some(place) = last.passing() {
            let address = self.site.passing[place];
            assert!(TcpStream::connect(address).is_err(), "somebody listens at {address} still");
        }
        if let Some(place) = self.now.passing() {
            let address = self.site.passing[place];
            self.passing = Some(match place {
                0 => Peer::connects(address),
                _ => self.doors.knows(address, own).expect("the listener has the certificate"),
            });
        }
    }

    fn report(&self) {
        let mut took = self.took[self.took.len().saturating_sub(100)..].to_vec();
        took.sort_unstable();
        let id = self.gateway.id();
        println!(
            "{} reloads: median {:?}, longest {:?}; {} KiB resident, {} threads, {} descriptors, {} tunnels",
            self.now.0,
            took[took.len() / 2],
            took[took.len() - 1],
            self.resident_after(self.now.0) / 1024,
            process::threads(id).len(),
            process::descriptors(id),
            self.tunnels.len(),
        );
    }

    /// Resident memory about that reload: the median of some, because load makes it vary.
    fn resident_after(&self, reloads: usize) -> u64 {
        let mut some = self.resident[reloads.saturating_sub(20)..reloads].to_vec();
        some.sort_unstable();
        some[some.len() / 2]
    }

    /// Nothing has failed, no configuration is in use but the last one, though tunnels are open that began under each,
    /// and memory has not grown.
    fn has_done_well(&self, failures: &[String]) {
        until("one configuration to be in use", || self.figure("titan_config_in_use") == 1.0);
        assert_eq!(self.failures(), failures);
        assert_eq!(self.figure("titan_config_reloads_total{outcome=\"refused\"}"), 0.0);
        let reloads = self.figure("titan_config_reloads_total{outcome=\"applied\"}");
        assert!(reloads == self.now.0 as f64, "{reloads} reloads");
        if self.now.0 <= BEGINNING {
            return;
        }
        let [early, late] = [BEGINNING, self.now.0].map(|reloads| self.resident_after(reloads));
        println!("resident after {BEGINNING}: {early}, after {}: {late}", self.now.0);
        assert!(
            late * 100 <= early * 105,
            "{late} bytes of memory, {early} after {BEGINNING} reloads"
        );
    }

    /// Ends every tunnel, which has echoed to its end; how many messages came back.
    fn end(&mut self) -> usize {
        self.passing = None;
        std::mem::take(&mut self.tunnels).echoed()
    }

    /// What the gateway has once it has closed every connection.
    fn rest(&self) -> AtRest {
        self.gateway.wake_workers();
        self.gateway.is_at_rest();
        let id = self.gateway.id();
        AtRest { threads: process::threads(id), descriptors: process::descriptors(id) }
    }

    /// Waits until it has that again: a configuration is forgotten a moment after it was used last, and its threads end
    /// after that.
    fn returns_to(&self, before: &AtRest) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let now = self.rest();
            if now == *before {
                return println!("at rest: {now:?}");
            }
            assert!(Instant::now() < deadline, "at rest: {now:?}, before: {before:?}");
            pause();
        }
    }

    /// What the gateway has counted of exchanges that failed.
    fn failures(&self) -> Vec<String> {
        let metrics = self.metrics();
        let lines = metrics.lines().filter(|line| line.starts_with("titan_exchange_failures"));
        lines.map(str::to_owned).collect()
    }

    fn figure(&self, name: &str) -> f64 {
        let metrics = self.metrics();
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {metrics}"))
    }

    fn metrics(&self) -> String {
        client::metrics(self.site.admin)
    }
}

/// After so many reloads everything is as large as it gets.
const BEGINNING: usize = 100;

fn sha256(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
