//! The controller: what is watched is translated, delivered, and told of in statuses.
//!
//! ```text
//! API server -> Watched -> translate -> Outlet -> program
//!                 ^           |                     |
//!             statuses <------+<------ Standing <- Verdict
//!             (Election)
//! ```
//!
//! One delivery waits for its verdict at a time, so that each has one, and the disk has the files of what is in force and of that
//! one delivery. A burst of news is translated once. Pods that come and go are not translated, but for the first and the last one
//! of a service. An API server that cannot be reached leaves all as it is.

use crate::backends::{self, Pods};
use crate::credentials::{Vault, named_in};
use crate::deliveries::{Deliveries, Files, Sent};
use crate::election::Election;
use crate::folder::Folder;
use crate::objects::Key;
use crate::settings::Settings;
use crate::standing::Standing;
use crate::translate::{Judgements, Translation, translate};
use crate::watch::{Followed, Watched};
use crate::writer;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use titan_sources::delivery::{Delivery, Document};
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

/// After how long a route that was refused with its policies, and is closed, is tried again: what was in its way may have passed.
const CLOSED: Duration = Duration::from_secs(60);

/// A controller that is about to run.
pub struct Controller {
    client: Client,
    namespaces: Vec<String>,
    settings: Settings,
    folder: Folder,
    /// The files of documents that are in force from before.
    in_force: Files,
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
    /// Reads how the API server is reached, and makes the folder of the settings. Nothing is asked of the API server yet. `in_force` are
    /// the texts of the documents that are in force from before, by name.
    pub async fn new<'t>(
        connection: &Connection,
        settings: Settings,
        in_force: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<Controller, Unable> {
        let client = connection.client().await?;
        let folder = Folder::open(&settings.folder);
        let folder = folder.map_err(|error| Unable::Folder(settings.folder.clone(), error))?;
        let in_force = in_force.into_iter().map(|(name, text)| (name.to_owned(), named_in(text)));
        let (namespaces, in_force) = (connection.namespaces.clone(), in_force.collect());
        Ok(Controller { client, namespaces, settings, folder, in_force })
    }

    /// Runs until the program takes nothing more. `publish` is told where pods listen, before documents that need them are delivered;
    /// `complain` tells what goes wrong. Both are called from one thread.
    pub async fn run(
        self,
        outlet: Outlet,
        publish: impl FnMut(&Pods),
        complain: impl Fn(String) + Clone + 'static,
    ) {
        let Controller { client, namespaces, settings, folder, in_force } = self;
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
            judgements: Judgements::default(),
            delivered: Deliveries { in_force, ..Deliveries::default() },
            closed: BTreeMap::new(),
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
    judgements: Judgements,
    delivered: Deliveries,
    /// When documents are delivered again as the cluster says them whose routes are closed.
    closed: BTreeMap<String, Instant>,
    /// Why what there is now could not be delivered.
    undelivered: Option<String>,
    /// Where pods listen, as was told last.
    pods: Pods,
    /// What upstreams would follow that have no pods.
    waiting: BTreeSet<String>,
    /// The services whose pods have come or gone since, and when that is told.
    moved: BTreeSet<Key>,
    moving: Option<Instant>,
    /// What was warned of last.
    warnings: BTreeSet<String>,
    /// When news are translated: so long after the last, and after the first of them.
    due: Option<(Instant, Instant)>,
    statuses: watch::Sender<Vec<crate::statuses::StatusChange>>,
}

impl Running {
    async fn run(&mut self, mut publish: impl FnMut(&Pods), complain: &impl Fn(String)) {
        loop {
            let due = self
                .due
                .filter(|_| self.watched.is_complete())
                .map(|(quiet, late)| quiet.min(late));
            let moving = self.moving.filter(|_| self.watched.is_complete());
            let again = self.closed.values().min().copied();
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
                () = reach(again) => {
                    self.open_again();
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
        let late = self.due.map_or(now + PATIENCE, |(_, late)| late.min(now + PATIENCE));
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
        let known = (&self.standing, &mut self.judgements);
        let mut translation = translate(cluster, &self.settings, known, &now);
        let (warnings, statuses) =
            (std::mem::take(&mut translation.warnings), std::mem::take(&mut translation.statuses));
        warnings.difference(&self.warnings).for_each(|it| complain(it.clone()));
        self.warnings = warnings;
        self.waiting = std::mem::take(&mut translation.waiting);
        let pods = std::mem::take(&mut translation.pods);
        if pods != self.pods {
            publish(&pods);
            self.pods = pods;
        }
        self.undelivered = self.follow(translation);
        if let Some(why) = &self.undelivered {
            complain(why.clone());
            self.due = Some((Instant::now() + AGAIN, Instant::now() + AGAIN));
        }
        self.tell_health();
        self.statuses.send_if_modified(|before| {
            let is_other = *before != statuses;
            *before = statuses;
            is_other
        });
    }

    /// Delivers what there is now, unless that is what was delivered last, or that waits for its verdict. Returns why it cannot.
    fn follow(&mut self, translation: Translation) -> Option<String> {
        if !self.delivered.is_news(&translation.documents) {
            return None;
        }
        let now = Instant::now();
        match self.delivered.overdue().filter(|overdue| now < *overdue) {
            // Its verdict has all translated anew.
            Some(overdue) => {
                self.due = Some((overdue, overdue));
                None
            }
            None => self.deliver(translation).err(),
        }
    }

    fn deliver(&mut self, translation: Translation) -> Result<(), String> {
        let Translation { documents, vault, left_out, forms, .. } = translation;
        self.write(&vault).map_err(|error| {
            format!("cannot write certificates to {}: {error}", self.settings.folder.display())
        })?;
        let number = self.delivered.number + 1;
        let written = documents.iter();
        let written =
            written.map(|(name, text)| Document { name: name.clone(), text: text.clone() });
        let delivery = Delivery::new(number.to_string(), written.collect());
        let delivery =
            delivery.map_err(|bad| format!("what the cluster has cannot be served: {bad}"))?;
        let skipped = left_out.into_iter().map(|(name, why)| (name.into_bytes(), why));
        let delivery = delivery.without(skipped);
        let files = documents.iter().map(|(name, text)| (name.clone(), named_in(text)));
        let files = files.filter(|(_, files)| !files.is_empty()).collect();
        let at = Instant::now();
        let sent = Sent { number, documents, forms, files, at, is_judged: false };
        self.delivered.note_sent(sent);
        self.outlet.deliver(delivery);
        Ok(())
    }

    /// Writes the files of a delivery, where those of the last one were: what is in force of it stays.
    fn write(&mut self, vault: &Vault) -> io::Result<()> {
        let mut stay = self.delivered.files();
        if self.delivered.overdue().is_none() {
            stay = self.delivered.in_force.values().flatten().cloned().collect();
        }
        stay.extend(vault.files().keys().cloned());
        self.folder.keep(&stay)?;
        self.folder.write(vault)
    }

    fn note_verdict(&mut self, verdict: &Verdict, complain: &impl Fn(String)) {
        if !self.delivered.note_verdict(verdict, &mut self.standing) {
            return;
        }
        let again = Instant::now() + CLOSED;
        if let Some(judged) = self.delivered.sent.front() {
            for (document, why) in &verdict.refused {
                if let Some(form) = judged.forms.get(document) {
                    self.standing.note_refused_form(document, form.clone(), why);
                    self.closed.insert(document.clone(), again);
                }
            }
        }
        if let Err(error) = self.folder.keep(&self.delivered.files()) {
            complain(format!("cannot remove old certificates: {error}"));
        }
        self.note_change();
    }

    /// Has those tried again whose time has come.
    fn open_again(&mut self) {
        let now = Instant::now();
        let due = self.closed.iter().filter(|(_, at)| **at <= now);
        due.for_each(|(document, _)| self.standing.forget_refused_form(document));
        self.closed.retain(|_, at| *at > now);
        self.note_change();
    }
}

async fn reach(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
