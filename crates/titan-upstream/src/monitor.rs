//! Who decides about the health of all endpoints: one task for the process.
//!
//! It probes, judges how requests have fared, follows the orders of operators, sets what workers see
//! ([`Health`](crate::health::Health)), and says what it has decided and why. Everything that changes an endpoint's state is decided
//! here, one thing after the other: no two workers can come to different conclusions, and each decision has one reason.

mod probing;
mod watched;

use crate::breaker::Forced;
use crate::health::since_start;
use crate::members::Upstream;
use crate::probe::{ProbeFailure, Prober};
use crate::signals::Alarm;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use titan_io::registry::Registry;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use watched::WatchedUpstream;

/// What the monitor watches over. Clones are the same.
#[derive(Clone)]
pub struct Monitored(Arc<Shared>);

struct Shared {
    upstreams: Mutex<Vec<Arc<Upstream>>>,
    /// Whether the monitor has yet to see these.
    are_new: AtomicBool,
    orders: Mutex<Vec<Order>>,
    /// Wakes the monitor before its time.
    alarm: Arc<Alarm>,
}

/// Something that an operator wants of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The upstream.
    pub upstream: String,
    /// The address of the endpoint, as it is shown.
    pub address: String,
    /// What is wanted.
    pub wish: Wish,
}

/// What an operator wants of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It gets no new requests for so long, except those that are tied to it.
    Drain(Duration),
    /// It gets no requests for so long.
    Eject(Duration),
    /// It is neither drained nor ejected any more, whoever did it. What probes say, and the file, still holds.
    Restore,
}

/// Why an order cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOrdered {
    /// There is no such endpoint or breaker.
    Unknown,
    /// Too many orders wait.
    TooMany,
}

/// What an operator wants of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerWish {
    /// It is open for so long.
    Open(Duration),
    /// It is closed for so long.
    Close(Duration),
    /// It decides by itself again.
    Release,
}

/// Watches over the health of endpoints, on one thread.
pub struct HealthMonitor {
    monitored: Monitored,
    prober: Rc<Prober>,
    /// By name.
    upstreams: HashMap<String, WatchedUpstream>,
    /// The names of those about which something may have to be decided as time passes. The others rest until they tell of something.
    awake: HashSet<String>,
    probes: Probes,
    /// How many probes were started.
    started: u64,
    judged: Option<Instant>,
}

/// The probes that run.
type Probes = JoinSet<(Asked, Result<(), ProbeFailure>)>;

/// How one of them has ended.
type Joined = Result<(Asked, Result<(), ProbeFailure>), JoinError>;

/// Which probe it is.
struct Asked {
    upstream: String,
    /// The place of the endpoint among the others, unless they have changed since.
    place: usize,
    /// Unique.
    number: u64,
}

/// How often it is looked whether a probe is due.
const EVERY: Duration = Duration::from_millis(100);
/// How often what endpoints have done is judged where nothing wakes the monitor: it costs most of all with many endpoints.
const JUDGE_EVERY: Duration = Duration::from_millis(250);
/// The time between two looks however many alarms there are.
const PAUSE: Duration = Duration::from_millis(5);
/// The most probes at a time; others wait for their turn.
const MOST_PROBES: usize = 1024;
/// The most orders that wait to be carried out.
const MOST_ORDERS: usize = 1024;

impl Monitored {
    /// What is watched over in a process with that registry: nothing yet.
    pub fn new(registry: &Registry) -> Monitored {
        let (upstreams, are_new, orders) = Default::default();
        Monitored(Arc::new(Shared { upstreams, are_new, orders, alarm: Alarm::of(registry) }))
    }

    /// Watches over these from now on, and over no others.
    pub fn set(&self, upstreams: &[Arc<Upstream>]) {
        *lock(&self.0.upstreams) = upstreams.to_vec();
        self.0.are_new.store(true, Ordering::Release);
        self.0.alarm.ring();
    }

    /// Has an order carried out, in a moment.
    ///
    /// # Errors
    ///
    /// If there is no such endpoint, or too many orders wait.
    pub fn order(&self, order: Order) -> Result<(), NotOrdered> {
        let is_known = lock(&self.0.upstreams).iter().any(|upstream| {
            let has_it =
                || upstream.members().endpoints.iter().any(|it| it.has_address(&order.address));
            upstream.config().name.as_str() == order.upstream && has_it()
        });
        if !is_known {
            return Err(NotOrdered::Unknown);
        }
        let mut orders = lock(&self.0.orders);
        if orders.len() == MOST_ORDERS {
            return Err(NotOrdered::TooMany);
        }
        orders.push(order);
        self.0.alarm.ring();
        Ok(())
    }

    /// Does what an operator wants of the breaker of an upstream, or of one of its endpoints.
    ///
    /// # Errors
    ///
    /// If there is no such breaker.
    pub fn order_breaker(
        &self,
        upstream: &str,
        address: Option<&str>,
        wish: BreakerWish,
    ) -> Result<(), NotOrdered> {
        let upstreams = self.upstreams();
        let named = upstreams.iter().find(|it| it.config().name.as_str() == upstream);
        let Some((named, breaking)) = named.and_then(|it| Some((it, it.breaking()?))) else {
            return Err(NotOrdered::Unknown);
        };
        let members = named.members();
        let endpoint = match address {
            Some(address) => match members.endpoints.iter().find(|it| it.has_address(address)) {
                Some(endpoint) => Some(&**endpoint),
                None => return Err(NotOrdered::Unknown),
            },
            None => None,
        };
        let has_one = match wish {
            BreakerWish::Open(time) => breaking.force(endpoint, Forced::Open, time),
            BreakerWish::Close(time) => breaking.force(endpoint, Forced::Closed, time),
            BreakerWish::Release => breaking.release(endpoint),
        };
        has_one.then_some(()).ok_or(NotOrdered::Unknown)
    }

    fn upstreams(&self) -> Vec<Arc<Upstream>> {
        lock(&self.0.upstreams).clone()
    }

    /// What is watched over, if that has changed.
    fn take_new(&self) -> Option<Vec<Arc<Upstream>>> {
        self.0.are_new.swap(false, Ordering::AcqRel).then(|| self.upstreams())
    }

    fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut lock(&self.0.orders))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HealthMonitor {
    /// One that watches over what `monitored` says.
    pub fn new(monitored: Monitored) -> HealthMonitor {
        let (prober, upstreams, awake, probes, started, judged) = Default::default();
        HealthMonitor { monitored, prober, upstreams, awake, probes, started, judged }
    }

    /// Watches for ever. It runs on a `LocalSet` or a local runtime.
    pub async fn run(mut self) -> Infallible {
        let alarm = Arc::clone(&self.monitored.0.alarm);
        loop {
            self.look();
            if self.judged.is_none_or(|judged| judged.elapsed() >= JUDGE_EVERY) {
                self.judge();
                self.judged = Some(Instant::now());
            }
            let next = Instant::now() + EVERY;
            loop {
                tokio::select! {
                    () = sleep_until(next) => break,
                    () = alarm.rang() => break sleep(PAUSE).await,
                    Some(joined) = self.probes.join_next() => {
                        self.note_joined(joined);
                    }
                }
            }
        }
    }

    /// Takes in what there is to watch over, what has happened and what operators want, and starts the probes that are due.
    fn look(&mut self) {
        self.prober.sweep();
        if let Some(upstreams) = self.monitored.take_new() {
            self.watch(&upstreams);
        }
        for name in self.monitored.0.alarm.take() {
            if let Some(watched) = self.wake(&name) {
                watched.judge();
            }
        }
        for order in self.monitored.take_orders() {
            if let Some(watched) = self.wake(&order.upstream) {
                watched.follow(&order);
            }
        }
        self.start_probes();
        self.for_each_awake(WatchedUpstream::note_supply);
    }

    /// Watches over these from now on, and over no others.
    fn watch(&mut self, upstreams: &[Arc<Upstream>]) {
        let HealthMonitor { prober, upstreams: known, awake, .. } = self;
        let watched = upstreams.iter().map(|upstream| {
            let name = upstream.config().name.to_string();
            let before = known.remove(&name);
            let mut watched = WatchedUpstream::of(upstream, before, || prober.random());
            watched.wake(!awake.contains(&name));
            (name, watched)
        });
        self.upstreams = watched.collect();
        self.awake = self.upstreams.keys().cloned().collect();
        self.judged = None;
    }

    /// Looks at an upstream from now on, with the endpoints that it has by now.
    fn wake(&mut self, name: &str) -> Option<&mut WatchedUpstream> {
        let HealthMonitor { prober, upstreams, awake, .. } = self;
        let (name, watched) = upstreams.remove_entry(name)?;
        let mut watched = watched.again(|| prober.random());
        watched.wake(awake.insert(name.clone()));
        Some(upstreams.entry(name).insert_entry(watched).into_mut())
    }

    /// Judges what may need it, and lets the others rest.
    fn judge(&mut self) {
        self.for_each_awake(WatchedUpstream::judge);
        let HealthMonitor { upstreams, awake, .. } = self;
        awake.retain(|name| upstreams.get_mut(name).is_some_and(|watched| !watched.may_rest()));
    }

    fn for_each_awake(&mut self, does: impl Fn(&mut WatchedUpstream)) {
        let HealthMonitor { upstreams, awake, .. } = self;
        awake.iter().for_each(|name| upstreams.get_mut(name).into_iter().for_each(&does));
    }

    /// Takes in how a probe has ended. One that was aborted says nothing.
    fn note_joined(&mut self, joined: Joined) {
        match joined {
            Ok((asked, outcome)) => self.note_probe(&asked, outcome),
            Err(error) if error.is_panic() => {
                let random = self.prober.random();
                let watched = self.upstreams.values_mut();
                watched.for_each(|it| it.note_panic(error.id(), random));
            }
            Err(_) => {}
        }
    }

    fn note_probe(&mut self, asked: &Asked, outcome: Result<(), ProbeFailure>) {
        if let Some(watched) = self.upstreams.get_mut(&asked.upstream) {
            watched.note_probe(asked, outcome, self.prober.random());
        }
    }

    /// Starts the probes that are due, those first that have been for longest: where there are too many, each has its turn.
    fn start_probes(&mut self) {
        let now = Instant::now();
        let HealthMonitor { prober, upstreams, awake, probes, started, .. } = self;
        let mut due = Vec::new();
        for name in &*awake {
            let of_one = upstreams.get(name).into_iter().flat_map(|it| it.due(now));
            due.extend(of_one.map(|(since, place)| (since, name, place)));
        }
        due.sort_unstable();
        for (_, name, place) in due.into_iter().take(MOST_PROBES.saturating_sub(probes.len())) {
            let Some(watched) = upstreams.get_mut(name) else { continue };
            *started += 1;
            let asked = Asked { upstream: name.clone(), place, number: *started };
            watched.start_probe(asked, prober, probes);
        }
    }
}

/// The time that is the same for all workers.
fn now() -> Duration {
    since_start(std::time::Instant::now())
}

#[cfg(test)]
mod tests;
