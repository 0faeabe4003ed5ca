//! `titan kubernetes`: the gateway, with what Gateway API says.
//!
//! What the cluster says is written to a folder of its own, and read from there like any configuration.

use crate::cli::{KubernetesOptions, RunOptions};
use crate::failure::Failure;
use crate::run::{self, Source};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use titan_admin::history::Author;
use titan_admin::orders::{Change, Orders};
use titan_config::{LogArea, LogLevel};
use titan_kubernetes::backends::Pods;
use titan_kubernetes::controller::{Connection, Controller};
use titan_kubernetes::settings::{Addressing, Network, Settings};
use titan_observe::events::{Event, Log};
use titan_proxy::{FedEndpoint, Feed, Feeds};
use titan_sources::delivery::Delivery;
use titan_sources::outlet::{self, Inlet, Verdict};
use tokio::runtime::{Builder, Runtime};

/// Runs the gateway with what a cluster says.
pub(crate) fn run(options: &KubernetesOptions) -> Result<ExitCode, Failure> {
    let addressing = addressing(&options.address)?;
    let folder = Folder::make(options)?;
    let settings = Settings {
        controller: options.controller_name.clone(),
        addressing,
        folder: folder.path.join("certificates"),
    };
    let connection = Connection {
        kubeconfig: options.kubeconfig.clone(),
        namespaces: options.namespace.clone(),
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let controller = runtime.block_on(Controller::new(connection, settings));
    let controller = controller.map_err(|unable| Failure::BadInput(unable.to_string()))?;
    let source = Cluster { runtime, controller, documents: folder.path.join(DOCUMENTS) };
    run::run(&RunOptions::of(&folder.main()), Some(source))
}

/// The folder in the folder that has the documents.
const DOCUMENTS: &str = "cluster";

fn addressing(addresses: &[String]) -> Result<Addressing, Failure> {
    match addresses {
        [network] if network.contains('/') => match Network::parse(network) {
            Some(network) => Ok(Addressing::Own(network)),
            None => Err(Failure::BadInput(format!(
                "--address {network}: a network is an IPv4 address with a length of 16 to 31, as in 127.64.0.0/16"
            ))),
        },
        addresses => Ok(Addressing::Shared(addresses.to_vec())),
    }
}

/// What is written for the gateway to read. It is gone when this is dropped.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn make(options: &KubernetesOptions) -> Result<Folder, Failure> {
        let place = options.directory.clone().unwrap_or_else(std::env::temp_dir);
        let path =
            std::path::absolute(place)?.join(format!("titan-kubernetes-{}", std::process::id()));
        let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        let failed = |error: io::Error| {
            Failure::Runtime(format!("cannot make the directory {}: {error}", path.display()))
        };
        make(&path).map_err(failed)?;
        let folder = Folder { path: path.clone() };
        make(&path.join(DOCUMENTS)).map_err(failed)?;
        fs::write(folder.main(), main_document(options, &path)?).map_err(failed)?;
        Ok(folder)
    }

    /// The file that the gateway starts with.
    fn main(&self) -> PathBuf {
        self.path.join("titan.json")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What includes all the rest. A gateway has a listener and a route, be there no Gateway yet.
fn main_document(options: &KubernetesOptions, folder: &Path) -> Result<String, Failure> {
    let mut include = vec![format!("{DOCUMENTS}/*.json")];
    if let Some(config) = &options.config {
        include.push(std::path::absolute(config)?.display().to_string());
    }
    let socket = format!("unix:{}", folder.join("none.sock").display());
    let main = json!({
        "include": include,
        "listeners": [{ "name": "kubernetes", "address": socket }],
        "routes": [{ "name": "kubernetes", "listeners": ["kubernetes"], "respond": 404 }],
    });
    Ok(main.to_string())
}

/// A cluster that tells what is to be served.
pub(crate) struct Cluster {
    runtime: Runtime,
    controller: Controller,
    documents: PathBuf,
}

impl Source for Cluster {
    /// On a thread of its own.
    fn begin(self, orders: Orders, feeds: Feeds, log: Log) -> Result<(), Failure> {
        let Cluster { runtime, controller, documents } = self;
        let mut followed = Followed { feeds, known: BTreeMap::new() };
        let (outlet, inlet) = outlet::outlet("kubernetes");
        let complain = move |what: String| {
            log.tell(Event::new((LogArea::Config, LogLevel::Warn), "kubernetes", what));
        };
        let run = move || {
            runtime.block_on(async {
                let publish = |pods: &Pods| followed.publish(pods);
                tokio::join!(
                    controller.run(outlet, publish, complain),
                    take(inlet, orders, &documents)
                )
            })
        };
        thread::Builder::new().name("kubernetes".to_owned()).spawn(run)?;
        Ok(())
    }
}

/// The feeds of services, which upstreams follow.
struct Followed {
    feeds: Feeds,
    /// Those that are told of: what was told is kept as long as they are.
    known: BTreeMap<String, Arc<Feed>>,
}

impl Followed {
    /// Has these pods get the requests of their services. Pods of services that are not named get none.
    fn publish(&mut self, pods: &Pods) {
        for (name, pods) in pods {
            let fed = |address: &SocketAddr| FedEndpoint {
                address: *address,
                weight: NonZeroU16::MIN,
                is_remote: false,
                is_draining: false,
            };
            let feed = self.known.entry(name.clone()).or_insert_with(|| self.feeds.feed(name));
            feed.publish(pods.iter().map(fed).collect());
        }
        self.known.retain(|name, feed| {
            let is_named = pods.contains_key(name);
            if !is_named {
                feed.publish(Vec::new());
            }
            is_named
        });
    }
}

/// Puts what is delivered in force.
async fn take(mut inlet: Inlet, orders: Orders, documents: &Path) {
    while let Some(delivery) = inlet.next().await {
        let outcome = match write(&delivery, documents) {
            Ok(()) => orders.change(Change::Reload, Author::Watch).await.is_ok(),
            Err(_) => false,
        };
        let revision = delivery.revision().to_owned();
        inlet.judge(Verdict { revision, in_force: outcome, ..Verdict::default() });
    }
}

/// Writes the documents of a delivery, and removes those that it has not.
fn write(delivery: &Delivery, folder: &Path) -> io::Result<()> {
    let mut names = BTreeSet::new();
    for document in delivery.documents() {
        let name = format!("{}.json", document.name.replace('/', "_"));
        fs::write(folder.join(&name), &document.text)?;
        names.insert(name);
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(|name| names.contains(name)) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
