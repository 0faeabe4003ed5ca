//! `titan run`: binds everything, serves until a signal, drains.

use crate::config_file::{self, FileState};
use crate::demo::Demo;
use crate::events::Events;
use crate::failure::{FOR_PROBES, Failure};
use crate::failures::Failures;
use crate::greeting::Greeting;
use crate::terminal;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use titan_admin::RevocationStore;
use titan_admin::http::{Server, Socket};
use titan_config::{Admin, Config, ListenAddress};
use titan_proxy::{BadCredentials, Files, Gateway};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// How often the files that the configuration names are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// The files that a configuration names, and what they were like when they were last read.
struct Watched {
    config: Config,
    file: PathBuf,
    state: Vec<Option<FileState>>,
    /// What was complained about last.
    complaint: String,
}

impl Watched {
    /// To be called before the files are read: what changes from then on is noticed.
    fn new(config: &Config, file: &Path) -> Watched {
        let state = config_file::state_of_named(config, file);
        let complaint = String::new();
        Watched { config: config.clone(), file: file.to_owned(), state, complaint }
    }

    /// Uses new certificates, keys and passwords. If they cannot be used, the previous ones stay in use: half of a pair
    /// may have been written.
    fn look(&mut self, gateway: &Gateway) {
        let state = config_file::state_of_named(&self.config, &self.file);
        if state == self.state {
            return;
        }
        let files = config_file::read_named(&self.config, &self.file);
        if let Some(bad) = files.unreadable() {
            // That may pass without a trace in the files: it is tried again.
            return self.complain(bad);
        }
        self.state = state;
        match gateway.replace_certificates(&files) {
            Ok(()) => {
                self.complaint.clear();
                terminal::say("changed files were read again and are in use\n");
            }
            Err(bad) => self.complain(&bad),
        }
    }

    /// Says it once.
    fn complain(&mut self, bad: &BadCredentials) {
        let complaint = format!("warning: {bad}; the previous files stay in use\n");
        if complaint != self.complaint {
            terminal::complain(&complaint);
            self.complaint = complaint;
        }
    }
}

/// The servers beside the gateway itself.
struct Servers {
    admin: Option<Server>,
    _probes: Option<Server>,
    _demo: Option<Server>,
    store: Option<Arc<RevocationStore>>,
}

/// The signals that the program acts on.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Caught so that it does not end the process, as it would by default.
    _hangup: Signal,
}

/// Runs the gateway; without a file, the demo.
pub(crate) fn run(file: Option<&Path>) -> Result<ExitCode, Failure> {
    let (config, demo) = match file {
        Some(file) => (config_file::read(file)?, None),
        None => {
            let Demo { config, text, upstream } = Demo::start()?;
            (config, Some((text, upstream)))
        }
    };
    terminal::warn(&config.warnings);
    let watched = file.map(|file| Watched::new(&config, file));
    let files = file.map(|file| config_file::read_checked(&config, file)).transpose()?;
    let files = files.unwrap_or_default();
    let store = file.map(|file| config_file::open_revocations(&config, file)).transpose()?;
    let store = store.flatten().map(Arc::new);
    if let Some(warning) = store.as_ref().and_then(|store| store.take_warning()) {
        terminal::event(&warning);
    }
    let config = Arc::new(config);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let [admin, probes] = bind_admin(&config)?;
        let address = |socket: &Option<Socket>| socket.as_ref().map(|it| it.address().clone());
        let (admin_address, probes_address) = (address(&admin), address(&probes));
        let gateway = tokio::select! {
            started = start(&config, files, store.as_deref()) => started?,
            // No request is served yet: there is nothing to drain.
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
        };
        let admin = admin.map(|socket| titan_admin::start(socket, &gateway, store.clone()));
        let admin = admin.transpose()?;
        let probes =
            probes.map(|socket| titan_admin::start_probes(socket, &gateway)).transpose()?;
        let greeting = Greeting {
            config: &config,
            listeners: gateway.listeners(),
            admin: admin_address.as_ref(),
            probes: probes_address.as_ref(),
            workers: gateway.metrics().workers().len(),
            demo: demo.as_ref().map(|(text, _)| text.as_str()),
        };
        terminal::say(&greeting.text());
        let demo = demo.map(|(_, upstream)| upstream);
        let servers = Servers { admin, _probes: probes, _demo: demo, store };
        serve(gateway, signals, watched, servers).await
    })
}

/// Starts the gateway on a thread of its own: it waits for name servers, and signals must not wait with it.
async fn start(
    config: &Arc<Config>,
    files: Files,
    store: Option<&RevocationStore>,
) -> Result<Gateway, Failure> {
    let (started, gateway) = oneshot::channel();
    let config = Arc::clone(config);
    let revoked = store.map(|store| store.table().clone());
    thread::Builder::new().name("start".to_owned()).spawn(move || {
        // If the caller is gone, the gateway is not needed either.
        let _ = started.send(Gateway::start(&config, &files, revoked.as_ref()));
    })?;
    match gateway.await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Runtime("the start-up thread panicked".to_owned())),
    }
}

/// The sockets of the admin interface and of the probes. Bound before the gateway starts, so that nothing runs when this fails.
fn bind_admin(config: &Config) -> Result<[Option<Socket>; 2], Failure> {
    let Some(Admin { address, probes, location: _ }) = &config.admin else {
        return Ok([None, None]);
    };
    let bind = |address: &ListenAddress, what: &str| {
        let failed = |error| Failure::Bind { what: format!("{address} {what}"), error };
        Socket::bind(address).map_err(failed)
    };
    let admin = bind(address, "for the admin interface")?;
    let probes = probes.as_ref().map(|address| bind(address, FOR_PROBES)).transpose()?;
    Ok([Some(admin), probes])
}

/// Waits for a signal, then for the workers to finish. Probes see the drain, and the demo responds to what still runs;
/// the admin interface and the file of revoked tokens are for a successor from the signal on.
async fn serve(
    mut gateway: Gateway,
    mut signals: Signals,
    mut watched: Option<Watched>,
    mut servers: Servers,
) -> Result<ExitCode, Failure> {
    let (mut failures, mut events) = (Failures::default(), Events::default());
    let metrics = gateway.metrics();
    loop {
        tokio::select! {
            () = gateway.ended() => {
                return Err(Failure::Runtime("a worker thread ended unexpectedly; all workers have stopped".to_owned()));
            }
            _ = signals.next() => break,
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Some(watched) = &mut watched {
            watched.look(&gateway);
        }
        failures.look(&gateway, Instant::now());
        events.look(&metrics, Instant::now()).iter().for_each(|line| terminal::event(line));
        let of_file = servers.store.as_ref().and_then(|store| store.take_warning());
        failures.warn(of_file.into_iter().collect(), Instant::now());
    }
    gateway.drain();
    servers.admin.take().into_iter().for_each(Server::end);
    servers.store = None;
    terminal::say("draining; a second signal stops the gateway at once\n");
    loop {
        tokio::select! {
            () = gateway.ended() => break,
            signal = signals.next() => {
                let number = u8::try_from(signal.as_raw_value()).unwrap_or(0);
                return Ok(ExitCode::from(128 + number));
            }
            () = tokio::time::sleep(LOOK) => failures.look(&gateway, Instant::now()),
        }
    }
    failures.look(&gateway, Instant::now());
    match gateway.join() {
        true => Ok(ExitCode::SUCCESS),
        false => {
            Err(Failure::Runtime("a worker thread ended unexpectedly while draining".to_owned()))
        }
    }
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next signal to stop.
    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
        }
    }
}
