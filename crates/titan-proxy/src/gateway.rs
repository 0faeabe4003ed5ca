//! A running gateway: starts the workers, puts configurations in force, stops the workers.

mod access_logs;
mod credentials;
mod error;
mod health;
mod inherited;
mod listening;
mod names;
mod prepared;
mod retired;
mod status;
mod threads;

pub use credentials::{check_credentials, warn_of_credentials};
pub use error::LoadError;
pub use inherited::{InheritedListener, Lending, ListenerName};
pub use listening::{Bound, SmallBuffers};
pub use status::{CertificateStatus, Status, StoresInForce};

use crate::metrics::Metrics;
use crate::refused::RefusedHandshakes;
use crate::serve::{Change, Order};
use crate::snapshot::Snapshot;
use crate::socket::SocketFile;
use arc_swap::ArcSwap;
use health::watch_health;
use inherited::{Inherited, Turn};
use listening::{Listening, Rebound};
use prepared::Prepared;
use retired::Retired;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as std_mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use threads::{End, Plan, allowed_cores, start_thread, worker_count};
use titan_config::{Config, Workers};
use titan_io::clock::TICK;
use titan_io::counter::Durations;
use titan_io::exemplar::Exemplars;
use titan_io::io::Phase;
use titan_io::registry::Registry;
use titan_io::tls::Files;
use titan_observe::events::Log;
use titan_observe::observer::{Observer, ObserverWay};
use titan_policies::jwt::Revocations;
use titan_upstream::failure_log::FailureDetail;
use titan_upstream::feeds::Feeds;
use titan_upstream::monitor::Monitored;
use titan_upstream::reclaim::Reclaim;
use tokio::sync::{mpsc, watch};

/// A gateway that serves. Dropping it lets the workers drain, without waiting for them.
pub struct Gateway {
    loader: Loader,
    phase: watch::Sender<Phase>,
    workers: Vec<JoinHandle<()>>,
    observer: Observer,
    ended: mpsc::Receiver<()>,
}

/// Puts configurations in force, one at a time.
#[derive(Clone)]
pub struct Loader(Arc<Loading>);

struct Loading {
    /// What outlives a configuration.
    registry: Registry,
    observer: ObserverWay,
    log: Arc<Log>,
    current: Arc<ArcSwap<Snapshot>>,
    /// Those of its listeners.
    certificates: Arc<ArcSwap<Vec<CertificateStatus>>>,
    metrics: Arc<Metrics>,
    /// Whose endpoints are watched over.
    monitored: Monitored,
    phase: watch::Receiver<Phase>,
    /// The way to each worker.
    orders: Vec<mpsc::Sender<Order>>,
    in_force: Mutex<InForce>,
    retired: Arc<Retired>,
    /// Locked by the load that runs, which may take seconds.
    turn: Mutex<Turn>,
}

/// What a configuration is served from. While this lives, what has state in it is found again when the configuration comes back:
/// counts of limits, keys, connections.
#[derive(Clone)]
pub struct Held {
    _snapshot: Arc<Snapshot>,
}

/// Of the configuration in force what is not in its snapshot.
struct InForce {
    workers: Workers,
    listening: Listening,
}

/// What has gone wrong with an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamFailure {
    /// Its name.
    pub upstream: String,
    /// The code that problem documents have for it; `name` where a name has not resolved.
    pub code: &'static str,
    /// The reason, with the endpoint or the name where there is one.
    pub what: String,
    /// The route that the request took which was the first to meet it.
    pub route: Option<String>,
    /// The id of that request. From the network, where trusted proxies set ids.
    pub request: Option<String>,
    /// How often it happened.
    pub count: u64,
    /// When it happened first.
    pub at: SystemTime,
}

/// A gateway that can begin to serve at once: everything that waits for others, and nearly everything that can fail, is
/// done. Dropped, it leaves nothing running.
pub struct PreparedGateway {
    config: Config,
    registry: Registry,
    log: Arc<Log>,
    prepared: Prepared,
    current: Arc<ArcSwap<Snapshot>>,
    rebound: Rebound,
    taken: Vec<ListenerName>,
    phase: watch::Sender<Phase>,
}

impl Gateway {
    /// Prepares a gateway, and has it serve. Where it fails, nothing is left running.
    pub fn start(
        config: &Config,
        files: &Files,
        revoked: Option<&Revocations>,
    ) -> Result<Gateway, LoadError> {
        Gateway::prepare(config, files, revoked, Vec::new(), &Log::default())?.start()
    }

    /// Binds every listener that is not inherited from the process before, and resolves every name once. Takes as long
    /// as the name servers do, up to `resolver.timeout`. `files` holds those that the configuration names, and `revoked` the
    /// tokens that its file of revoked tokens does. `log` is told what happens to it.
    pub fn prepare(
        config: &Config,
        files: &Files,
        revoked: Option<&Revocations>,
        inherited: Vec<InheritedListener>,
        log: &Log,
    ) -> Result<PreparedGateway, LoadError> {
        let count = worker_count(config);
        let (registry, mut inherited) = (Registry::default(), Inherited::new(inherited));
        let log = log.put_in(&registry);
        let prepared = Prepared::new(config, files, revoked, (&registry, count), &inherited)?;
        let (before, states) = (Listening::default(), prepared.states());
        let rebound = before.rebind(config, states, count, &mut inherited)?;
        let (phase, watched) = watch::channel(Phase::Serve);
        prepared.begin(config, &watched)?;
        let (config, taken) = (config.clone(), inherited.into_taken());
        let current = Arc::new(ArcSwap::new(Arc::clone(&prepared.snapshot)));
        Ok(PreparedGateway { config, registry, log, prepared, current, rebound, taken, phase })
    }

    /// Puts other configurations in force.
    pub fn loader(&self) -> &Loader {
        &self.loader
    }

    /// What there is to say of lists of revoked certificates that are no longer good, or not for long.
    pub fn warnings(&self) -> Vec<String> {
        let in_force = self.loader.0.in_force();
        in_force.listening.states().flat_map(|(_, it)| it.listener_policy.warnings()).collect()
    }

    /// Listeners whose UDP sockets have smaller buffers than they ought to.
    pub fn small_buffers(&self) -> Vec<SmallBuffers> {
        self.loader.0.in_force().listening.small_buffers()
    }

    /// Failures to fetch token keys since the last call.
    pub fn key_failures(&self) -> Vec<String> {
        self.loader.0.current.load().chains.take_key_failures()
    }

    /// Failures of upstreams since the last call: one for each upstream and cause.
    pub fn upstream_failures(&self) -> Vec<UpstreamFailure> {
        let snapshot = self.loader.0.current.load();
        let upstreams = snapshot.upstreams.iter();
        let told = upstreams.flat_map(|upstream| {
            let name = upstream.config().name.to_string();
            upstream.failure_log.take().map(move |(code, first, count)| {
                let (at, FailureDetail { what, route, request }) = (first.0, first.1.clone());
                UpstreamFailure { upstream: name.clone(), code, what, route, request, count, at }
            })
        });
        told.collect()
    }

    /// What it tells of what happens to it.
    pub fn log(&self) -> &Log {
        &self.loader.0.log
    }

    /// What takes orders about endpoints.
    pub fn monitored(&self) -> Monitored {
        self.loader.0.monitored.clone()
    }

    /// Handshakes that were refused or have failed since the last call: by listener and cause.
    pub fn refused_handshakes(&self) -> Vec<RefusedHandshakes> {
        let in_force = self.loader.0.in_force();
        let states = in_force.listening.states();
        states.flat_map(|(name, state)| state.listener_policy.take_refused(name)).collect()
    }

    /// Whether the thread has panicked that writes access logs. The gateway serves on without them.
    pub fn has_lost_logs(&self) -> bool {
        self.observer.has_ended()
    }

    /// What the workers count.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.loader.0.metrics)
    }

    /// Where exchanges are noted that are shown beside how long those of routes took.
    pub fn exemplars(&self) -> Arc<Exemplars<Durations>> {
        Exemplars::of(&self.loader.0.registry)
    }

    /// Where clients can connect.
    pub fn listeners(&self) -> Vec<Bound> {
        self.loader.0.in_force().listening.bound()
    }

    /// Something that tells how the gateway is doing, also to other threads.
    pub fn status(&self) -> Status {
        let Loading { current, certificates, retired, .. } = &*self.loader.0;
        Status::new((current, certificates), retired, self.phase.subscribe())
    }

    /// Goes on as before, but is not ready any more for those who ask: a drain is about to begin.
    pub fn announce_drain(&self) {
        self.phase.send_replace(Phase::Leave);
    }

    /// Accepts nothing more and finishes what runs; idle connections close.
    pub fn drain(&self) {
        let mut in_force = self.loader.0.in_force();
        in_force.listening.remove_files();
        self.phase.send_replace(Phase::Drain);
    }

    /// Waits until every worker has ended. One that ends without being told to takes the others along:
    /// a gateway with half its workers would refuse half its clients.
    pub async fn ended(&mut self) {
        let _ = self.ended.recv().await;
        self.drain();
        while self.ended.recv().await.is_some() {}
    }

    /// Waits until what has been told of exchanges is written to the access logs, but not for longer than `most`, and nothing is
    /// written to them afterwards. For a process that is about to end although workers may run.
    pub fn end_logs(&self, most: Duration) {
        // Longer than a worker keeps what it has collected.
        self.observer.end_after(2 * TICK, most);
    }

    /// Joins the threads; tells whether all ended as they should. Only after [`Gateway::ended`].
    pub fn join(self) -> bool {
        let ended = self.workers.into_iter().map(JoinHandle::join);
        let have_ended_well = ended.fold(true, |all, result| all & result.is_ok());
        self.observer.end();
        have_ended_well
    }
}

impl PreparedGateway {
    /// The inherited listeners that it has. The sockets of the others are closed.
    pub fn taken(&self) -> &[ListenerName] {
        &self.taken
    }

    /// Where endpoints can be told of before there are requests for them: [`Loader::feeds`] has the same.
    pub fn feeds(&self) -> Feeds {
        Feeds::of(&self.registry)
    }

    /// The stores that it will use.
    pub fn stores(&self) -> StoresInForce {
        StoresInForce(Arc::clone(&self.current))
    }

    /// Starts the workers. Where it fails, nothing is left running.
    pub fn start(self) -> Result<Gateway, LoadError> {
        let PreparedGateway { config, registry, log, prepared, current, rebound, taken: _, phase } =
            self;
        let (watched, count) = (phase.subscribe(), rebound.opened.len());
        let (snapshot, logs) = prepared.take_effect();
        let metrics = Arc::new(snapshot.metrics(count, &log));
        let (end, ended) = mpsc::channel(count + 1);
        let cores = if config.workers.pin { allowed_cores() } else { Vec::new() };
        let reclaim = Arc::new(Reclaim::new(count));
        let observer = Observer::start(count).map_err(LoadError::Thread)?;
        observer.way().tell(logs);
        let (mut workers, mut orders) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let Rebound { listening, opened, added: _, closed: _, unused: _ } = rebound;
        let opened = opened.into_iter().zip(observer.rings());
        for (index, (listeners, records)) in opened.enumerate() {
            let (order, received) = mpsc::channel(1);
            let plan = Plan {
                index,
                listeners,
                orders: received,
                snapshot: Arc::clone(&snapshot),
                metrics: Arc::clone(&metrics),
                reclaim: Arc::clone(&reclaim),
                records,
                phase: watched.clone(),
                core: (!cores.is_empty()).then(|| cores[index % cores.len()]),
                end: End(end.clone()),
            };
            workers.push(start_thread(format!("worker-{index}"), move || plan.run())?);
            orders.push(order);
        }
        let monitored = Monitored::new(&registry);
        monitored.set(&snapshot.upstreams);
        let certificates = Arc::new(ArcSwap::from_pointee(listening.certificates()));
        let in_force = Mutex::new(InForce { workers: config.workers, listening });
        let measured = (Arc::clone(&metrics), Arc::clone(&current));
        let health = watch_health(monitored.clone(), watched.clone(), measured, End(end))?;
        workers.push(health);
        let loading = Loading {
            registry,
            observer: observer.way(),
            log,
            current,
            certificates,
            metrics,
            monitored,
            phase: watched,
            orders,
            in_force,
            retired: Arc::default(),
            turn: Mutex::default(),
        };
        Ok(Gateway { loader: Loader(Arc::new(loading)), phase, workers, observer, ended })
    }
}

impl Loader {
    /// What is told of what happens to the gateway.
    pub fn log(&self) -> &Log {
        &self.0.log
    }

    /// Where endpoints are told of that come and go without another configuration.
    pub fn feeds(&self) -> Feeds {
        Feeds::of(&self.0.registry)
    }

    /// What the configuration in force is served from.
    pub fn hold(&self) -> Held {
        Held { _snapshot: self.0.current.load_full() }
    }

    /// Puts a configuration in force, as a whole or not at all, and returns when every worker serves from it: which of its listeners
    /// are new, and where they are bound. What runs ends on what it began with. Takes as long as name servers and key servers do; not
    /// to be called on a runtime's thread.
    pub fn load(
        &self,
        config: &Config,
        files: &Files,
        revoked: Option<&Revocations>,
    ) -> Result<Vec<(usize, Bound)>, LoadError> {
        let Loading { registry, observer, current, metrics, monitored, phase, orders, .. } =
            &*self.0;
        let turn = lock(&self.0.turn);
        if *turn == Turn::HandedOver {
            return Err(LoadError::HandedOver);
        }
        if config.workers != self.0.in_force().workers {
            return Err(LoadError::Workers);
        }
        let lacked_keys = current.load().chains.lacks_keys();
        let (workers, mut inherited) = (orders.len(), Inherited::default());
        let prepared = Prepared::new(config, files, revoked, (registry, workers), &inherited)?;
        prepared.begin(config, phase)?;
        if !lacked_keys {
            prepared.await_keys()?;
        }
        let rebound = self.0.in_force().listening.rebind(
            config,
            prepared.states(),
            workers,
            &mut inherited,
        )?;
        // From here on nothing can fail.
        let (snapshot, logs) = prepared.take_effect();
        metrics.set_policies(snapshot.chains.counters());
        monitored.set(&snapshot.upstreams);
        self.0.retired.add(current.swap(Arc::clone(&snapshot)));
        let (listening, added) = self.0.switch(&snapshot, rebound);
        observer.tell(logs);
        self.0.certificates.store(Arc::new(listening.certificates()));
        let mut in_force = self.0.in_force();
        in_force.listening = listening;
        if *phase.borrow() == Phase::Drain {
            in_force.listening.remove_files();
        }
        drop(in_force);
        self.sweep();
        Ok(added)
    }

    /// Lends all listening sockets and ticket keys to a successor of the process, once a reload that runs is over. Not to be
    /// called on a runtime's thread.
    pub fn lend(&self) -> io::Result<Lending<'_>> {
        self.0.lend()
    }

    /// Has files of access logs opened anew: somebody has renamed them.
    pub fn reopen_logs(&self) {
        self.0.observer.reopen();
    }

    /// Forgets configurations that nothing uses any more. To be called now and then.
    pub fn sweep(&self) {
        self.0.retired.sweep();
        self.0.registry.sweep();
    }

    /// How many configurations were replaced, and are used by requests that still run.
    pub fn retired(&self) -> usize {
        self.0.retired.in_use()
    }

    /// How many things outlive the configuration in force that something still uses.
    pub fn kept(&self) -> usize {
        self.sweep();
        self.0.registry.len()
    }
}

impl Loading {
    /// Has every worker serve from `snapshot`, and waits until all do.
    fn switch(
        &self,
        snapshot: &Arc<Snapshot>,
        rebound: Rebound,
    ) -> (Listening, Vec<(usize, Bound)>) {
        let Rebound { listening, opened, added, closed, unused } = rebound;
        unused.iter().for_each(SocketFile::remove);
        let (done, all_done) = std_mpsc::sync_channel(0);
        for (worker, opened) in self.orders.iter().zip(opened) {
            let (snapshot, closed) = (Arc::clone(snapshot), closed.clone());
            // A worker that drains has no more use for it. One that serves has done what it got before.
            let change = Change { snapshot, opened, closed, done: done.clone() };
            let _ = worker.try_send(Order::Change(change));
        }
        drop(done);
        let _ = all_done.recv();
        (listening, added)
    }

    fn in_force(&self) -> MutexGuard<'_, InForce> {
        lock(&self.in_force)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
