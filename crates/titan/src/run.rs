//! `titan run`: binds everything, serves until a signal, drains.

use crate::activation::Activated;
use crate::admin::{self, AdminServers, AdminSockets};
use crate::cli::RunOptions;
use crate::clusters;
use crate::config_file;
use crate::demo::Demo;
use crate::documents::{Documents, Parsed};
use crate::events::Events;
use crate::failure::Failure;
use crate::failures;
use crate::findings;
use crate::greeting::Greeting;
use crate::kept::Restored;
use crate::key_sets::KeySets;
use crate::reload::{self, InForce, Records, Reloading};
use crate::restored;
use crate::stores::Stores;
use crate::supervisor::Supervisor;
use crate::terminal;
use crate::upgrade::{self, Inherited, Predecessor, Upgrading};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use titan_admin::http::Server;
use titan_admin::orders::{self, Order};
use titan_admin::{Access, Identity, Interface, Reloads, RevocationStore};
use titan_config::{Config, EventFormat, LogArea, LogLevel};
use titan_observe::events::{Event, Log, Writer};
use titan_proxy::{BadCredentials, Files, Gateway, InheritedListener, Loader, PreparedGateway};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

/// How often there is a look at what changes without telling: files, counters, failures.
const LOOK: Duration = Duration::from_secs(2);

/// How long access logs may take for what they have when the process cannot wait for the workers.
const LAST_LINES: Duration = Duration::from_secs(1);

/// What events about the file of revoked tokens are called.
const REVOKED_TOKENS: (LogArea, &str) = (LogArea::Admin, "revoked_tokens");

/// The servers beside the gateway itself.
struct Servers {
    admin: AdminServers,
    _demo: Option<Server>,
    store: Option<Arc<RevocationStore>>,
}

/// The signals that the program acts on.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    reopen: Signal,
    upgrade: Signal,
}

/// What a signal says.
enum Told {
    /// Drain and end.
    Stop(SignalKind),
    /// Read the configuration again.
    Reload,
    /// Open the files of access logs anew.
    Reopen,
    /// Start a successor.
    Upgrade,
}

/// Runs the gateway; without a file, the demo.
pub(crate) fn run(options: &RunOptions) -> Result<ExitCode, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Before anything is read, which may take its time: it would end the process, and who rotates files asks nobody whether it can
    // take the signal yet.
    let reopen = runtime.block_on(async { signal(SignalKind::user_defined1()) })?;
    let activated = Activated::take()?;
    let (mut predecessor, inherited) = Predecessor::find()?.unzip();
    let given = (inherited.unwrap_or_default(), activated);
    let ended = run_after(&mut predecessor, given, options, (runtime, reopen));
    match (ended, predecessor) {
        // The process that goes on says it.
        (Err(failure), Some(predecessor)) if predecessor.tell_failure(&failure) => {
            Ok(failure.exit_code())
        }
        (ended, _) => ended,
    }
}

/// The same for a process that takes over from another one, which is told when this one serves.
fn run_after(
    predecessor: &mut Option<Predecessor>,
    (mut inherited, activated): (Inherited, Activated),
    options: &RunOptions,
    waiting: (Runtime, Signal),
) -> Result<ExitCode, Failure> {
    let file = options.file();
    if options.watch && file.is_none_or(config_file::is_standard_input) {
        let text = "`--watch` needs a configuration file: titan run --watch FILE";
        return Err(Failure::BadInput(text.to_owned()));
    }
    let ((parsed, restored), demo) = match file {
        Some(file) => (restored::read(file)?, None),
        None => {
            let Demo { config, text, upstream } = Demo::start()?;
            let documents = Documents::of_demo(&text);
            let parsed = (Parsed { config, documents }, Restored::default());
            (parsed, Some((text, upstream)))
        }
    };
    let Parsed { config, documents } = parsed;
    let log = Log::default();
    log.configure(&config.log);
    // Dropped behind everything that has something to tell.
    let _writer = Writer::to_standard_error(&log)?;
    match config.log.format {
        EventFormat::Text => terminal::warn(&config.warnings),
        EventFormat::Json => findings::tell_warnings(&log, &config),
    }
    let state = file.map(|file| config_file::state_of_named(&config, file));
    let files = file.map(|file| config_file::read_checked(&config, file)).transpose()?;
    let files = files.unwrap_or_default();
    let store = file.and_then(|file| config_file::revocations(&config, file)).map(Arc::new);
    if predecessor.is_none() {
        open(store.as_deref(), &log)?;
    }
    activated.hand_to(&config, &admin::addresses_of(&config), &mut inherited)?;
    let masked = |bad: BadCredentials| Failure::from(bad).masked(&config);
    let access = Access::new(&config, &files).map_err(masked)?;
    let sources = reload::sources_of(&config, &files).map_err(masked)?;
    restored.news.iter().for_each(|what| {
        log.tell(Event::new((LogArea::Config, LogLevel::Info), "sources_restored", what));
    });
    let config = Arc::new(config);
    // Dropped before the writer.
    let (runtime, reopen) = waiting;
    runtime.block_on(async {
        let mut signals = Signals::new(reopen)?;
        let admin = AdminSockets::bind(&config, &mut inherited, &log)?;
        let addresses = admin.addresses();
        let listeners = inherited.take_listeners();
        let prepared = tokio::select! {
            prepared = prepare(&config, files, store.as_deref(), (listeners, log.clone())) => prepared?,
            // No request is served yet: there is nothing to drain.
            _ = signals.next_stop(None) => return Ok(ExitCode::SUCCESS),
        };
        if let Some(predecessor) = predecessor {
            predecessor.release()?;
            open(store.as_deref(), &log)?;
        }
        if let Some(file) = file {
            clusters::recall_endpoints(&config, file, &prepared.feeds(), &log);
        }
        if let Some(store) = &store {
            store.follow(prepared.stores(), log.clone())?;
            tokio::select! {
                () = store.heard() => {}
                _ = signals.next_stop(None) => return Ok(ExitCode::SUCCESS),
            }
        }
        let taken = prepared.taken().to_vec();
        let gateway = prepared.start()?;
        let reloads = Arc::new(Reloads::new(documents.public_digest));
        reloads.note_sources(reload::sources_before(&sources, &restored));
        let (orders, ordered) = orders::orders();
        let identity = file.and_then(Identity::of);
        let store_of = store.as_ref();
        let interface =
            Interface::new(&gateway, &reloads, store_of, &access, orders, identity);
        let admin = admin.serve(&interface)?;
        let greeting = Greeting {
            config: &config,
            listeners: &gateway.listeners(),
            admin: &addresses,
            workers: gateway.metrics().workers().len(),
            demo: demo.as_ref().map(|(text, _)| text.as_str()),
        };
        terminal::say(&greeting.text());
        greeting.tell(&log);
        let demo = demo.map(|(_, upstream)| upstream);
        let in_force = file.zip(state).map(|(file, state)| InForce {
            file: file.to_owned(),
            config: Arc::clone(&config),
            documents,
            state,
            is_in_file: true,
        });
        if let Some(predecessor) = predecessor.take() {
            predecessor.tell_serving(&taken)?;
        }
        // Before the service manager begins to watch: a state directory may take its time.
        let records = match &in_force {
            Some(it) => Some(Records::open(&it.config.state, &it.file).await),
            None => None,
        };
        let supervisor = Supervisor::of(&gateway.listeners(), &reloads);
        let revoked = store.as_ref().map(|store| store.table().clone());
        let reloading = in_force.zip(records).map(|(it, (records, warnings))| {
            reload::tell_of_history(&log, warnings);
            let with = (gateway.loader().clone(), access, revoked);
            let reloading = Reloading::new(it, records, with, (reloads, gateway.status()));
            reloading.fed_by(sources, restored)
        });
        let reloading = reloading.map(|it| if options.watch { it.watching() } else { it });
        let upgrading = Upgrading::new(file, &config, gateway.loader().clone(), store.clone());
        let upgrading = upgrading.keeping(reloading.as_ref().and_then(Reloading::storage));
        let servers = Servers { admin, _demo: demo, store };
        serve(gateway, (signals, ordered), (reloading, upgrading, supervisor), servers).await
    })
}

/// Opens the file of revoked tokens.
fn open(store: Option<&RevocationStore>, log: &Log) -> Result<(), Failure> {
    let Some(store) = store else { return Ok(()) };
    store.open()?;
    failures::lasting(log, REVOKED_TOKENS, store.take_warning());
    Ok(())
}

/// Prepares the gateway on a thread of its own: it waits for name servers, and signals must not wait with it.
async fn prepare(
    config: &Arc<Config>,
    files: Files,
    store: Option<&RevocationStore>,
    (inherited, log): (Vec<InheritedListener>, Log),
) -> Result<PreparedGateway, Failure> {
    let (done, prepared) = oneshot::channel();
    let config = Arc::clone(config);
    let revoked = store.map(|store| store.table().clone());
    thread::Builder::new().name("start".to_owned()).spawn(move || {
        // If the caller is gone, the gateway is not needed either.
        let _ = done.send(Gateway::prepare(&config, &files, revoked.as_ref(), inherited, &log));
    })?;
    match prepared.await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Runtime("the start-up thread panicked".to_owned())),
    }
}

/// Waits for a signal, then for the workers to finish. Probes see the drain, and the demo responds to what still runs;
/// the admin interface and the file of revoked tokens are for a successor from the signal on.
async fn serve(
    mut gateway: Gateway,
    (mut signals, mut ordered): (Signals, mpsc::Receiver<Order>),
    (mut reloading, mut upgrading, mut supervisor): (Option<Reloading>, Upgrading, Supervisor),
    mut servers: Servers,
) -> Result<ExitCode, Failure> {
    let (mut events, mut key_sets) = (Events::default(), KeySets::default());
    let mut stores = Stores::default();
    let (log, loader) = (gateway.log().clone(), gateway.loader().clone());
    let metrics = gateway.metrics();
    // At its time however much else there is to do in between.
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut successor = loop {
        supervisor.follow(reloading.as_ref());
        tokio::select! {
            () = supervisor.beat(&metrics) => continue,
            () = gateway.ended() => return Ok(worker_ended(&gateway)),
            signal = signals.next() => match signal {
                Told::Stop(_) => break upgrading.cancel().await,
                Told::Upgrade => {
                    upgrading.begin(reloading.as_ref(), servers.admin.lend(), None);
                    continue;
                }
                Told::Reopen => {
                    loader.reopen_logs();
                    continue;
                }
                Told::Reload => {
                    reloading.iter_mut().for_each(Reloading::hang_up);
                    continue;
                }
            },
            Some(order) = ordered.recv() => {
                match order {
                    Order::Upgrade(order) => {
                        upgrading.begin(reloading.as_ref(), servers.admin.lend(), Some(order));
                    }
                    Order::Configuration(order) if upgrading.is_under_way() => {
                        reload::take_during_upgrade(&mut reloading, order);
                    }
                    Order::Configuration(order) => reload::take(&mut reloading, order),
                }
                continue;
            }
            () = reload::proceed(&mut reloading) => continue,
            successor = upgrading.done() => match successor {
                Some(_) => break successor,
                None => continue,
            },
            _ = look.tick() => {}
        }
        reloading.iter_mut().for_each(Reloading::look);
        gateway.loader().sweep();
        failures::look(&gateway);
        events.look(&metrics, &log, Instant::now());
        key_sets.look(gateway.status().key_sets(), &log);
        stores.look(gateway.status().stores(), &log);
        let of_file = servers.store.as_ref().and_then(|store| store.take_warning());
        failures::lasting(&log, REVOKED_TOKENS, of_file);
    };
    if let Some(successor) = &mut successor {
        servers.admin.leave();
        supervisor.leave_to(successor.pid());
        successor.announce(&log);
        upgrade::tell_ending_orders(&log, &gateway.status().upstreams_now());
    }
    supervisor.stop();
    let delay = match (&successor, &reloading) {
        (None, Some(reloading)) => reloading.config().timeouts.drain_delay,
        _ => Duration::ZERO,
    };
    // Nothing is put in force any more, and whoever asks hears that at once. A successor may write the history from now on.
    drop(ordered);
    let is_under_way = reloading.is_some_and(|it| it.is_under_way());
    if let Some(code) = leave(&mut gateway, (&mut signals, &mut supervisor), delay).await? {
        return Ok(code);
    }
    gateway.drain();
    match successor {
        // It was told to this process, which can do it no longer.
        Some(successor) if is_under_way => successor.hang_up(),
        Some(_) => {}
        None => servers.admin.release(),
    }
    drop(upgrading);
    servers.store.iter().for_each(|store| store.close());
    let what = "draining; a second signal stops the gateway at once";
    log.tell(event(LogLevel::Info, "draining", what));
    loop {
        tokio::select! {
            never = supervisor.beat_on(&metrics) => match never {},
            () = gateway.ended() => break,
            signal = signals.next_stop(Some(&loader)) => return Ok(cut_off_by(signal, &gateway)),
            () = tokio::time::sleep(LOOK) => failures::look(&gateway),
        }
    }
    failures::look(&gateway);
    tokio::select! {
        () = servers.admin.finished() => {}
        signal = signals.next_stop(Some(&loader)) => return Ok(cut_off_by(signal, &gateway)),
    }
    match gateway.join() {
        true => {
            log.tell(event(LogLevel::Info, "stopped", "the gateway has stopped"));
            Ok(ExitCode::SUCCESS)
        }
        false => {
            let what = "a thread that the gateway needs ended unexpectedly while draining";
            log.tell(event(LogLevel::Error, "worker_ended", what));
            Ok(Failure::Runtime(what.to_owned()).exit_code())
        }
    }
}

/// Serves on for a while, so that load balancers notice that they should look elsewhere. The exit code where a second signal ends that.
async fn leave(
    gateway: &mut Gateway,
    (signals, supervisor): (&mut Signals, &mut Supervisor),
    delay: Duration,
) -> Result<Option<ExitCode>, Failure> {
    if delay.is_zero() {
        return Ok(None);
    }
    gateway.announce_drain();
    let what = format!(
        "not ready any more; draining in {delay:?}; a second signal stops the gateway at once"
    );
    let loader = gateway.loader().clone();
    loader.log().tell(event(LogLevel::Info, "leaving", what));
    let metrics = gateway.metrics();
    tokio::select! {
        never = supervisor.beat_on(&metrics) => match never {},
        () = gateway.ended() => Ok(Some(worker_ended(gateway))),
        signal = signals.next_stop(Some(&loader)) => Ok(Some(cut_off_by(signal, gateway))),
        () = tokio::time::sleep(delay) => Ok(None),
    }
}

/// The exit code of a process that a second signal ends.
fn cut_off_by(signal: SignalKind, gateway: &Gateway) -> ExitCode {
    let what = "a second signal has stopped the gateway before all requests were done";
    gateway.log().tell(event(LogLevel::Warn, "cut_off", what));
    gateway.end_logs(LAST_LINES);
    let number = u8::try_from(signal.as_raw_value()).unwrap_or(0);
    ExitCode::from(128 + number)
}

/// The exit code of a process that cannot serve any more.
fn worker_ended(gateway: &Gateway) -> ExitCode {
    let what = "a thread that the gateway needs ended unexpectedly; all workers have stopped";
    gateway.log().tell(event(LogLevel::Error, "worker_ended", what));
    gateway.end_logs(LAST_LINES);
    Failure::Runtime(what.to_owned()).exit_code()
}

fn event(level: LogLevel, kind: &'static str, what: impl std::fmt::Display) -> Event {
    Event::new((LogArea::Start, level), kind, what)
}

impl Signals {
    /// With the one that has been waited for from the start.
    fn new(reopen: Signal) -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            reopen,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }

    /// What the next signal says.
    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop(SignalKind::terminate()),
            _ = self.interrupt.recv() => Told::Stop(SignalKind::interrupt()),
            _ = self.hangup.recv() => Told::Reload,
            _ = self.reopen.recv() => Told::Reopen,
            _ = self.upgrade.recv() => Told::Upgrade,
        }
    }

    /// The next signal to stop. Until then only the files of access logs are opened anew, if there are some yet.
    async fn next_stop(&mut self, loader: Option<&Loader>) -> SignalKind {
        loop {
            match self.next().await {
                Told::Stop(signal) => return signal,
                Told::Reopen => loader.into_iter().for_each(Loader::reopen_logs),
                Told::Reload | Told::Upgrade => {}
            }
        }
    }
}
