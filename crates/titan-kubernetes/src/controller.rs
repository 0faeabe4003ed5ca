//! The controller: what is watched is translated, delivered, and told of in statuses.
//!
//! ```text
//! API server -> Watched -> translate -> Outlet -> program
//!                 ^           |                     |
//!             statuses <------+<------ Standing <- Verdict
//!             (Election)
//! ```
//!
//! A burst of news is translated once. Pods that come and go are not translated, but for the first and the last one of a service. An API
//! server that cannot be reached leaves all as it is.

use crate::backends::{self, Pods};
use crate::credentials::Vault;
use crate::election::Election;
use crate::folder::Folder;
use crate::objects::Key;
use crate::room::fitting;
use crate::settings::Settings;
use crate::standing::Standing;
use crate::translate::{Translation, translate};
use crate::watch::{Followed, Watched};
use crate::writer;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use titan_sources::delivery::Delivery;
use titan_sources::outlet::{Outlet, Verdict};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How the API server is reached, and what is watched there.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// A kubeconfig; none: the variable `KUBECONFIG`, then `~/.kube/config`, then the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The namespaces; none: all of them.
    pub namespaces: Vec<String>,
}

/// Why there is no controller.
#[derive(Debug)]
pub enum Unable {
    /// It is not known how to reach the API server.
    Connection(String),
    /// The folder for certificates cannot be made.
    Folder(PathBuf, io::Error),
}

impl fmt::Display for Unable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unable::Connection(why) => {
                write!(
                    f,
                    "it is not known how to reach the API server: {why}; `kubeconfig` names a file that says it"
                )
            }
            Unable::Folder(path, error) => {
                write!(f, "cannot use the directory {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for Unable {}

/// How long there have to be no news before they are translated.
const QUIET: Duration = Duration::from_millis(50);
/// How long news wait at most.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long pods that have come or gone wait for others.
const MOVING: Duration = Duration::from_millis(200);

/// After how long what could not be delivered is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// A controller that is about to run.
pub struct Controller {
    client: Client,
    namespaces: Vec<String>,
    settings: Settings,
    folder: Folder,
}

impl Connection {
    /// Reads how the API server is reached. Nothing is asked of it yet.
    pub async fn client(&self) -> Result<Client, Unable> {
        let config = match &self.kubeconfig {
            None => Config::infer().await.map_err(|error| error.to_string()),
            Some(file) => read(file).await,
        };
        let client = config.and_then(|it| Client::try_from(it).map_err(|error| error.to_string()));
        client.map_err(Unable::Connection)
    }
}

impl Controller {
    /// Reads how the API server is reached, and makes the folder of the settings. Nothing is asked of the API server yet.
    pub async fn new(connection: &Connection, settings: Settings) -> Result<Controller, Unable> {
        let client = connection.client().await?;
        let folder = Folder::open(&settings.folder);
        let folder = folder.map_err(|error| Unable::Folder(settings.folder.clone(), error))?;
        Ok(Controller { client, namespaces: connection.namespaces.clone(), settings, folder })
    }

    /// Runs until the program takes nothing more. `publish` is told where pods listen, before documents that need them are delivered;
    /// `complain` tells what goes wrong. Both are called from one thread.
    pub async fn run(
        self,
        outlet: Outlet,
        publish: impl FnMut(&Pods),
        complain: impl Fn(String) + Clone + 'static,
    ) {
        let Controller { client, namespaces, settings, folder } = self;
        let watched = Watched::new(&client, &namespaces);
        let (statuses, wanted) = watch::channel(Vec::new());
        let (leading, leads) = watch::channel(false);
        let mut election = Election::new(&client, &settings.controller, &namespaces);
        let mut running = Running {
            watched,
            settings,
            folder,
            outlet,
            standing: Standing::default(),
            delivered: Delivered::default(),
            undelivered: None,
            pods: Pods::new(),
            waiting: BTreeSet::new(),
            moved: BTreeSet::new(),
            moving: None,
            warnings: BTreeSet::new(),
            due: None,
            statuses,
        };
        tokio::select! {
            () = running.run(publish, &complain) => {}
            () = election.run(&leading, &complain) => {}
            () = writer::write(client, wanted, leads, complain.clone()) => {}
        }
        election.resign().await;
    }
}

async fn read(file: &std::path::Path) -> Result<Config, String> {
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| error.to_string())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.map_err(|error| error.to_string())
}

/// A controller that runs.
struct Running {
    watched: Watched,
    settings: Settings,
    folder: Folder,
    outlet: Outlet,
    standing: Standing,
    delivered: Delivered,
    /// Why what there is now could not be delivered.
    undelivered: Option<String>,
    /// Where pods listen, as was told last.
    pods: Pods,
    /// The services that routes name and that have no pods.
    waiting: BTreeSet<Key>,
    /// The services whose pods have come or gone since, and when that is told.
    moved: BTreeSet<Key>,
    moving: Option<Instant>,
    /// What was warned of last.
    warnings: BTreeSet<String>,
    /// When news are translated: so long after the last, and after the first of them.
    due: Option<(Instant, Instant)>,
    statuses: watch::Sender<Vec<crate::statuses::StatusChange>>,
}

/// What was delivered last.
#[derive(Default)]
struct Delivered {
    number: u64,
    documents: Arc<BTreeMap<String, String>>,
    /// Those that there was no room for, and why.
    left_out: BTreeMap<String, String>,
    vault: Vault,
}

impl Delivered {
    fn has(&self, document: &str) -> bool {
        self.documents.contains_key(document) && !self.left_out.contains_key(document)
    }
}

impl Running {
    async fn run(&mut self, mut publish: impl FnMut(&Pods), complain: &impl Fn(String)) {
        loop {
            let due = self
                .due
                .filter(|_| self.watched.is_complete())
                .map(|(quiet, late)| quiet.min(late));
            let moving = self.moving.filter(|_| self.watched.is_complete());
            tokio::select! {
                news = self.watched.next() => {
                    let Some(news) = news else { return };
                    match self.watched.note(news) {
                        Followed::Changed => self.note_change(),
                        Followed::Moved(service) => self.note_moved(service),
                        Followed::Nothing => {}
                        Followed::Trouble(text) => {
                            complain(text);
                            self.note_change();
                        }
                    }
                    self.tell_health();
                }
                verdict = self.outlet.verdicts() => {
                    let Some(verdict) = verdict else { return };
                    self.note_verdict(&verdict, complain);
                }
                () = reach(moving) => {
                    self.follow_pods(&mut publish);
                }
                () = reach(due) => {
                    self.due = None;
                    self.translate(&mut publish, complain);
                }
            }
        }
    }

    fn tell_health(&self) {
        match self.watched.trouble().or(self.undelivered.as_deref()) {
            Some(why) => self.outlet.failed(why.to_owned()),
            None => self.outlet.succeeded(),
        }
    }

    fn note_change(&mut self) {
        let now = Instant::now();
        let late = self.due.map_or(now + PATIENCE, |(_, late)| late);
        self.due = Some((now + QUIET, late));
    }

    fn note_moved(&mut self, service: Key) {
        self.moved.insert(service);
        self.moving.get_or_insert_with(|| Instant::now() + MOVING);
    }

    /// Tells where pods are now, or has all translated where documents depend on it.
    fn follow_pods(&mut self, publish: &mut impl FnMut(&Pods)) {
        self.moving = None;
        let mut has_moved = false;
        for service in std::mem::take(&mut self.moved) {
            let cluster = &self.watched.cluster;
            match backends::moved(cluster, &service, &self.pods, &self.waiting) {
                Some(moved) => {
                    has_moved |= !moved.is_empty();
                    self.pods.extend(moved);
                }
                None => self.note_change(),
            }
        }
        if has_moved {
            publish(&self.pods);
        }
    }

    fn translate(&mut self, publish: &mut impl FnMut(&Pods), complain: &impl Fn(String)) {
        let seconds = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
        let (cluster, now) = (&self.watched.cluster, seconds.to_string());
        let Translation { documents, pods, waiting, vault, statuses, warnings } =
            translate(cluster, &self.settings, &self.standing, &now);
        warnings.difference(&self.warnings).for_each(|it| complain(it.clone()));
        self.warnings = warnings;
        self.waiting = waiting;
        if pods != self.pods {
            publish(&pods);
            self.pods = pods;
        }
        let is_news = self.delivered.number == 0 || documents != *self.delivered.documents;
        let failure = if is_news { self.deliver(documents, vault).err() } else { None };
        if let Some(why) = &failure {
            complain(why.clone());
            self.due = Some((Instant::now() + AGAIN, Instant::now() + AGAIN));
        }
        self.undelivered = failure;
        self.tell_health();
        self.statuses.send_if_modified(|before| {
            let is_other = *before != statuses;
            *before = statuses;
            is_other
        });
    }

    fn deliver(&mut self, documents: BTreeMap<String, String>, vault: Vault) -> Result<(), String> {
        self.folder.write(&vault).map_err(|error| {
            format!("cannot write certificates to {}: {error}", self.settings.folder.display())
        })?;
        let number = self.delivered.number + 1;
        let (written, left_out) = fitting(&documents, |name| self.delivered.has(name));
        let delivery = Delivery::new(number.to_string(), written);
        let delivery =
            delivery.map_err(|bad| format!("what the cluster has cannot be served: {bad}"))?;
        let skipped = left_out.iter().map(|(name, why)| (name.clone().into_bytes(), why.clone()));
        let delivery = delivery.without(skipped);
        self.delivered = Delivered { number, documents: Arc::new(documents), left_out, vault };
        self.outlet.deliver(delivery);
        Ok(())
    }

    fn note_verdict(&mut self, verdict: &Verdict, complain: &impl Fn(String)) {
        // That on what was replaced meanwhile says nothing of what is there now.
        if verdict.revision != self.delivered.number.to_string() {
            return;
        }
        let documents = self.delivered.documents.keys().map(String::as_str);
        let mut refused = verdict.refused.clone();
        refused.extend(self.delivered.left_out.clone());
        self.standing.note(documents, &refused, verdict.in_force);
        // What a document said before may be in force in its place, with the files that it named.
        if verdict.in_force
            && verdict.refused.is_empty()
            && let Err(error) = self.folder.keep(&self.delivered.vault)
        {
            complain(format!("cannot remove old certificates: {error}"));
        }
        self.note_change();
    }
}

async fn reach(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
