//! A running gateway: binds, builds the snapshot, starts the workers, stops them.

use crate::files::check_root;
use crate::listener::{ListenSocket, Listener, ListenerState, bind};
use crate::metrics::{Metrics, RouteCells};
use crate::named_files;
use crate::serve;
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};
use titan_config::{Action, Config, ListenAddress, Location, Threads};
use titan_io::counter::Counted;
use titan_io::io::Phase;
use titan_io::registry::Registry;
use titan_io::tls::{BadCredentials, ClientTls, Files, ServerTls};
use titan_policies::credentials::{self, PolicyCredentials};
use titan_policies::jwt::{KeySetStatus, Revocations};
use titan_upstream::cells::UpstreamCells;
use titan_upstream::endpoint::EndpointStatus;
use titan_upstream::failure_log::FailureDetail;
use titan_upstream::reclaim::Reclaim;
use titan_upstream::resolve::{self, NameResolver};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// A gateway that serves. Dropping it lets the workers drain, without waiting for them.
pub struct Gateway {
    snapshot: Arc<Snapshot>,
    metrics: Arc<Metrics>,
    states: Vec<Arc<ListenerState>>,
    listeners: Vec<Bound>,
    phase: watch::Sender<Phase>,
    workers: Vec<JoinHandle<()>>,
    ended: mpsc::Receiver<()>,
}

/// A listener that is bound.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Its name in the configuration.
    pub name: String,
    /// Its address; with the port that the kernel chose where the configuration says 0.
    pub address: String,
    /// The same for TCP.
    pub socket_address: Option<SocketAddr>,
}

/// Why a gateway did not start. Nothing is left running.
#[derive(Debug)]
pub enum StartError {
    /// A listener could not be bound.
    Bind {
        /// What it was to be bound to.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// The system's resolver configuration could not be read.
    Resolver(String),
    /// A certificate or a key cannot be used.
    Credentials(BadCredentials),
    /// The revoked tokens were not read.
    Revocations,
    /// A thread could not be started.
    Thread(io::Error),
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
}

impl Gateway {
    /// Binds every listener, resolves every name once, and starts the workers. Takes as long as the name
    /// servers do, up to `resolver.timeout`. `files` holds those that the configuration names, and `revoked` the tokens
    /// that its file of revoked tokens does.
    pub fn start(
        config: &Config,
        files: &Files,
        revoked: Option<&Revocations>,
    ) -> Result<Gateway, StartError> {
        let count = worker_count(config);
        let registry = Registry::default();
        let states = states(config, files, &registry)?;
        let (sockets, listeners) = bind_all(config, &states, count)?;
        let tls = config.upstreams.iter().map(|upstream| client_tls(upstream, files));
        let tls = tls.collect::<Result<_, _>>().map_err(StartError::Credentials)?;
        let credentials =
            PolicyCredentials::read(config, files).map_err(StartError::Credentials)?;
        if config.jwt_revocations.is_some() && revoked.is_none() {
            return Err(StartError::Revocations);
        }
        if let Some((_, bad)) = bad_roots(config, files).next() {
            return Err(StartError::Credentials(bad));
        }
        let snapshot = Arc::new(Snapshot::build(
            config,
            (&registry, count),
            tls,
            &credentials,
            files,
            revoked,
        ));
        snapshot.take_effect(credentials);
        let metrics = Arc::new(snapshot.metrics(count));
        let (phase, watched) = watch::channel(Phase::Serve);
        snapshot.chains.fetch_keys(watched.clone()).map_err(StartError::Thread)?;
        snapshot.chains.check_passwords().map_err(StartError::Thread)?;
        resolve_names(config, &snapshot, watched.clone())?;
        let (end, ended) = mpsc::channel(count);
        let cores = if config.workers.pin { allowed_cores() } else { Vec::new() };
        let reclaim = Arc::new(Reclaim::new(count));
        let mut workers = Vec::with_capacity(count);
        for (index, listeners) in sockets.into_iter().enumerate() {
            let plan = Plan {
                index,
                listeners,
                snapshot: Arc::clone(&snapshot),
                metrics: Arc::clone(&metrics),
                reclaim: Arc::clone(&reclaim),
                phase: watched.clone(),
                core: (!cores.is_empty()).then(|| cores[index % cores.len()]),
                _end: End(end.clone()),
            };
            workers.push(start_thread(format!("worker-{index}"), move || plan.run())?);
        }
        Ok(Gateway { snapshot, metrics, states, listeners, phase, workers, ended })
    }

    /// Uses other certificates from now on, if all of them can be used: `files` is what the files hold by
    /// now. Connections that are open keep what they have; those whose client has presented a certificate that is no
    /// longer accepted are not served any more. Tickets stay valid, unless the authorities or lists have changed.
    pub fn replace_certificates(&self, files: &Files) -> Result<(), BadCredentials> {
        let renewed = self.states.iter().map(|state| state.renew(files));
        let renewed = renewed.collect::<Result<Vec<_>, _>>()?;
        let upstreams = self.snapshot.upstreams.iter().filter_map(|upstream| upstream.tls());
        let upstreams: Vec<&ClientTls> = upstreams.collect();
        let theirs = upstreams.iter().map(|tls| tls.renew(files));
        let theirs = theirs.collect::<Result<Vec<_>, _>>()?;
        let credentials = self.snapshot.chains.read_credentials(files)?;
        self.states.iter().zip(renewed).for_each(|(state, tls)| state.set_tls(tls));
        upstreams.iter().zip(theirs).for_each(|(tls, renewed)| tls.replace(renewed));
        self.snapshot.chains.replace_credentials(credentials);
        Ok(())
    }

    /// What there is to say of lists of revoked certificates that are no longer good, or not for long.
    pub fn warnings(&self) -> Vec<String> {
        self.states.iter().flat_map(|state| state.listener_policy.warnings()).collect()
    }

    /// Failures to fetch token keys since the last call.
    pub fn key_failures(&self) -> Vec<String> {
        self.snapshot.chains.take_key_failures()
    }

    /// Failures of upstreams since the last call: one for each upstream and cause.
    pub fn upstream_failures(&self) -> Vec<UpstreamFailure> {
        let upstreams = self.snapshot.upstreams.iter();
        let told = upstreams.flat_map(|upstream| {
            let name = upstream.config().name.to_string();
            upstream.failure_log.take().map(move |(code, detail, count)| {
                let FailureDetail { what, route, request } = FailureDetail::clone(&detail);
                UpstreamFailure { upstream: name.clone(), code, what, route, request, count }
            })
        });
        told.collect()
    }

    /// Why client certificates were refused since the last call: the latest reason of each listener, with its name.
    pub fn refused_certificates(&self) -> Vec<(&str, String)> {
        let told = self.states.iter().filter_map(|state| {
            let why = state.listener_policy.take_refusal()?;
            Some((
                state.config.name.as_str(),
                format!("a client's certificate is not accepted: {why}"),
            ))
        });
        told.collect()
    }

    /// What the workers count.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Where clients can connect.
    pub fn listeners(&self) -> &[Bound] {
        &self.listeners
    }

    /// Something that tells how the gateway is doing, also to other threads.
    pub fn status(&self) -> Status {
        Status { snapshot: Arc::clone(&self.snapshot), phase: self.phase.subscribe() }
    }

    /// Accepts nothing more and finishes what runs; idle connections close.
    pub fn drain(&self) {
        self.phase.send_replace(Phase::Drain);
    }

    /// Waits until every worker has ended. One that ends without being told to takes the others along:
    /// a gateway with half its workers would refuse half its clients.
    pub async fn ended(&mut self) {
        let _ = self.ended.recv().await;
        self.drain();
        while self.ended.recv().await.is_some() {}
    }

    /// Joins the threads; tells whether all ended as they should. Only after [`Gateway::ended`].
    pub fn join(self) -> bool {
        self.workers.into_iter().map(JoinHandle::join).all(|result| result.is_ok())
    }
}

/// How a gateway is doing.
#[derive(Clone)]
pub struct Status {
    snapshot: Arc<Snapshot>,
    phase: watch::Receiver<Phase>,
}

impl Status {
    /// Whether it accepts connections, and can judge every token.
    pub fn is_ready(&self) -> bool {
        *self.phase.borrow() == Phase::Serve && !self.lacks_keys()
    }

    /// Whether keys of tokens have not come yet.
    pub fn lacks_keys(&self) -> bool {
        self.snapshot.chains.lacks_keys()
    }

    /// Every key set for tokens that is fetched.
    pub fn key_sets(&self) -> Vec<KeySetStatus> {
        self.snapshot.chains.key_sets()
    }

    /// What is counted for each route in the order of the file, and behind them for requests that no route took.
    pub fn routes(&self) -> Vec<Arc<Counted<RouteCells>>> {
        self.snapshot.all_counted().to_vec()
    }

    /// What is counted for each upstream, in the order of the file.
    pub fn upstreams(&self) -> Vec<Arc<Counted<UpstreamCells>>> {
        let upstreams = self.snapshot.upstreams.iter();
        upstreams.map(|upstream| Arc::clone(&upstream.counted)).collect()
    }

    /// Every endpoint of every upstream.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        let upstreams = self.snapshot.upstreams.iter();
        let members = upstreams.flat_map(|upstream| {
            let name = upstream.config().name.to_string();
            let members = upstream.members();
            let status =
                |endpoint: &Arc<titan_upstream::endpoint::Endpoint>| endpoint.status(&name);
            members.endpoints.iter().map(status).collect::<Vec<_>>()
        });
        members.collect()
    }
}

/// What the first round of questions may take beyond the time that one question has.
const LATE: Duration = Duration::from_millis(500);

/// What a worker's thread starts from.
struct Plan {
    index: usize,
    listeners: Vec<Listener>,
    snapshot: Arc<Snapshot>,
    metrics: Arc<Metrics>,
    reclaim: Arc<Reclaim>,
    phase: watch::Receiver<Phase>,
    core: Option<usize>,
    _end: End,
}

/// Sends a signal when a worker's thread ends, also by a panic, so that the others stop.
struct End(mpsc::Sender<()>);

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

impl Plan {
    fn run(self) {
        let Plan { index, listeners, snapshot, metrics, reclaim, phase, core, _end } = self;
        if let Some(core) = core {
            pin(core);
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .expect("the process has descriptors left for a runtime");
        let worker = Worker::new(index, snapshot, metrics, reclaim);
        runtime.block_on(serve::run(worker, listeners, phase));
    }
}

/// Every certificate, key, list and directory of a configuration that cannot be used, with the place of its
/// listener, upstream, policy or route.
pub fn check_credentials(config: &Config, files: &Files) -> Vec<(Location, BadCredentials)> {
    let mut found: Vec<(Location, BadCredentials)> = Vec::new();
    for listener in &config.listeners {
        let Some(tls) = &listener.tls else { continue };
        for bad in ServerTls::faults(tls, listener.protocols, files) {
            let fault = (listener.location, bad);
            // A file may be named twice.
            if !found.contains(&fault) {
                found.push(fault);
            }
        }
    }
    for upstream in &config.upstreams {
        found.extend(client_tls(upstream, files).err().map(|bad| (upstream.location, bad)));
    }
    for policy in &config.policies {
        let faults = credentials::faults(&policy.policy, files);
        found.extend(faults.into_iter().map(|bad| (policy.location, bad)));
    }
    found.extend(bad_roots(config, files));
    found
}

/// Every directory that files cannot be served from, with the place of its route.
fn bad_roots(config: &Config, files: &Files) -> impl Iterator<Item = (Location, BadCredentials)> {
    config.routes.iter().filter_map(|route| {
        let Action::Files(action) = &route.action else { return None };
        let file = files.folder().join(&action.root);
        let reason = check_root(&file).err()?;
        Some((route.location, BadCredentials { file, reason }))
    })
}

/// What there is to say of credentials that can be used, but not for long, and of other files that are probably not what
/// was meant; with the place of what names them.
pub fn warn_of_credentials(config: &Config, files: &Files) -> Vec<(Location, String)> {
    let warnings = config.listeners.iter().flat_map(|listener| {
        let tls = listener.tls.as_ref();
        let tls = tls.and_then(|tls| ServerTls::new(tls, listener.protocols, files).ok());
        let warnings = tls.map_or_else(Vec::new, |tls| tls.warnings());
        warnings.into_iter().map(|warning| (listener.location, warning))
    });
    warnings.chain(named_files::warnings(config, files)).collect()
}

/// What TLS is spoken with to an upstream.
fn client_tls(
    upstream: &titan_config::Upstream,
    files: &Files,
) -> Result<Option<ClientTls>, BadCredentials> {
    let tls = upstream.tls.as_ref();
    tls.map(|tls| ClientTls::new(tls, upstream.protocol, files)).transpose()
}

/// The state of each listener.
fn states(
    config: &Config,
    files: &Files,
    registry: &Registry,
) -> Result<Vec<Arc<ListenerState>>, StartError> {
    let listeners = config.listeners.iter();
    let states = listeners.map(|listener| ListenerState::new(listener, files, registry));
    states.collect::<Result<_, _>>().map_err(StartError::Credentials)
}

/// The sockets of each worker, and where they are bound.
fn bind_all(
    config: &Config,
    states: &[Arc<ListenerState>],
    workers: usize,
) -> Result<(Vec<Vec<Listener>>, Vec<Bound>), StartError> {
    let mut sockets: Vec<Vec<Listener>> = std::iter::repeat_with(Vec::new).take(workers).collect();
    let mut listeners = Vec::new();
    for (listener, state) in config.listeners.iter().zip(states) {
        let bound = bind(&listener.address, workers)
            .map_err(|error| StartError::Bind { address: text_of(&listener.address), error })?;
        listeners.push(Bound::new(listener, &bound[0]));
        for (worker, socket) in sockets.iter_mut().zip(bound) {
            worker.push(Listener { socket, state: Arc::clone(state) });
        }
    }
    Ok((sockets, listeners))
}

impl Bound {
    fn new(listener: &titan_config::Listener, socket: &ListenSocket) -> Bound {
        let socket_address = match socket {
            ListenSocket::Tcp(socket) => socket.local_addr().ok(),
            ListenSocket::Unix(_) => None,
        };
        let address = socket_address
            .map_or_else(|| text_of(&listener.address), |address| address.to_string());
        Bound { name: listener.name.clone(), address, socket_address }
    }
}

fn text_of(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(address) => address.to_string(),
        ListenAddress::Any(port) => format!(":{port}"),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// Resolves the names of upstreams that are not being resolved yet, on a thread of their own, for as long as any of
/// these upstreams lives. It is waited for until each was queried once, but no longer than one query may take.
fn resolve_names(
    config: &Config,
    snapshot: &Snapshot,
    mut phase: watch::Receiver<Phase>,
) -> Result<(), StartError> {
    let named = snapshot.upstreams.iter().filter(|upstream| resolve::has_names(upstream));
    let named: Vec<_> = named.filter(|upstream| upstream.begin_to_follow()).cloned().collect();
    if named.is_empty() {
        return Ok(());
    }
    let config = config.resolver.clone();
    let (done, first_round) = std::sync::mpsc::sync_channel(1);
    start_thread("resolver".to_owned(), move || {
        let runtime =
            Builder::new_current_thread().enable_all().build().expect("a runtime for names");
        runtime.block_on(async {
            let names = match NameResolver::new(&config) {
                Ok(names) => Arc::new(names),
                Err(error) => return drop(done.send(Err(error.to_string()))),
            };
            // Each name was queried once when all tasks have dropped their ends of this.
            let (asked, mut all_asked) = mpsc::channel::<()>(1);
            let mut tasks = JoinSet::new();
            for upstream in named {
                let (names, asked) = (Arc::clone(&names), asked.clone());
                tasks.spawn(async move {
                    let again = names.refresh(&upstream).await;
                    drop(asked);
                    names.keep_fresh(upstream, again).await;
                });
            }
            drop(asked);
            // Many names and a silent server: what has not answered by now may do so while others are served. A little
            // more than one query may take, so that an answer for one family counts.
            let _ = tokio::time::timeout(config.timeout + LATE, all_asked.recv()).await;
            let _ = done.send(Ok(()));
            tokio::select! {
                _ = phase.wait_for(|phase| *phase == Phase::Drain) => {}
                () = async { while tasks.join_next().await.is_some() {} } => {}
            }
        });
    })?;
    let failed = |_| Err("the resolver thread ended".to_owned());
    first_round.recv().unwrap_or_else(failed).map_err(StartError::Resolver)
}

fn start_thread(
    name: String,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    thread::Builder::new().name(name).spawn(run).map_err(StartError::Thread)
}

fn worker_count(config: &Config) -> usize {
    match config.workers.threads {
        Threads::Auto => thread::available_parallelism().map_or(1, usize::from),
        Threads::Exactly(count) => count.get().into(),
    }
}

fn allowed_cores() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

/// Best effort: a container may forbid it, and the worker serves all the same.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind { address, error } => write!(f, "cannot listen on {address}: {error}"),
            StartError::Resolver(error) => write!(f, "cannot set up name resolution: {error}"),
            StartError::Credentials(error) => error.fmt(f),
            StartError::Revocations => f.write_str("the revoked tokens were not read"),
            StartError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
