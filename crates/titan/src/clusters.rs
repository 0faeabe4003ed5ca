//! Clusters that sources watch: what their objects say becomes documents, and where their pods listen becomes known to upstreams.

use crate::kept;
use crate::regular_file;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{Config, KubernetesSource, LogArea, LogLevel, RemoteKind, RemoteSource};
use titan_kubernetes::backends::Pods;
use titan_kubernetes::controller::{Connection, Controller};
use titan_kubernetes::settings::{Addressing, Network, Settings};
use titan_observe::events::{Event, Log};
use titan_proxy::{FedEndpoint, Feed, Feeds, Loader};
use titan_sources::outlet::Outlet;
use titan_sources::source;
use tokio::sync::watch;
use tokio::time::sleep;

/// What watches them.
pub(crate) struct Clusters {
    feeds: Feeds,
    log: Log,
    /// That of the configuration, to which its paths are relative.
    file: PathBuf,
    /// The state directory.
    state: Option<PathBuf>,
}

/// Our parts of the state directory.
const CERTIFICATES: &str = "certificates";
const PODS: &str = "pods";
/// Bytes of the file that says where pods listen.
const MAX_PODS: usize = 64 << 20;
/// After how long what could not begin is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// How long after one write of where pods listen the next one follows at the earliest.
const PAUSE: Duration = Duration::from_secs(5);

impl Clusters {
    pub(crate) fn new(loader: &Loader, file: &Path, state: Option<PathBuf>) -> Clusters {
        Clusters { feeds: loader.feeds(), log: loader.log().clone(), file: file.to_owned(), state }
    }

    async fn follow(&self, name: &str, cluster: &KubernetesSource, outlet: Outlet) {
        let mut followed = Followed { feeds: self.feeds.clone(), known: BTreeMap::new() };
        let kept = self.state.as_ref().map(|it| kept_pods(it, name));
        let Some(controller) = self.controller(name, cluster, &outlet).await else { return };
        let (told, to_keep) = watch::channel(Pods::new());
        let publish = |pods: &Pods| {
            followed.publish(pods);
            told.send_replace(pods.clone());
        };
        let log = self.log.clone();
        let complain = move |what| log.tell(event(what));
        tokio::select! {
            () = controller.run(outlet, publish, complain) => {}
            () = self.keep(to_keep, kept) => {}
        }
    }

    /// Keeps where pods listen, as long as it is told.
    async fn keep(&self, mut told: watch::Receiver<Pods>, file: Option<PathBuf>) {
        let Some(file) = file else { return std::future::pending().await };
        let mut has_failed = false;
        while told.changed().await.is_ok() {
            let text = serde_json::to_vec(&*told.borrow_and_update()).unwrap_or_default();
            let written = kept::replace(&file, &text);
            if let (Err(error), false) = (&written, has_failed) {
                let file = file.display();
                self.log.tell(event(format!("{file}: where pods listen is not kept: {error}")));
            }
            has_failed = written.is_err();
            sleep(PAUSE).await;
        }
    }

    /// What watches that cluster, as soon as it can begin; nothing where it is not to any more.
    async fn controller(
        &self,
        name: &str,
        cluster: &KubernetesSource,
        outlet: &Outlet,
    ) -> Option<Controller> {
        loop {
            let failure = match settings(self.state.as_deref(), name, cluster) {
                Ok(settings) => {
                    match Controller::new(&connection(cluster, &self.file), settings).await {
                        Ok(controller) => return Some(controller),
                        Err(unable) => unable.to_string(),
                    }
                }
                Err(failure) => failure,
            };
            outlet.failed(failure);
            tokio::select! {
                () = outlet.closed() => return None,
                () = sleep(RETRY) => {}
            }
        }
    }
}

/// How documents are made of a cluster, by a gateway with that state directory.
fn settings(
    state: Option<&Path>,
    name: &str,
    cluster: &KubernetesSource,
) -> Result<Settings, String> {
    let needed = "certificates and keys of a cluster are written to the state directory, and there is none: set \
        `state.directory`";
    let certificates = state.ok_or(needed)?.join(CERTIFICATES);
    let network = cluster.network.and_then(|it| Network::parse(&it.to_string()));
    let addressing = match network {
        Some(network) => Addressing::Own(network),
        None => Addressing::Shared(cluster.addresses.clone()),
    };
    let folder = std::path::absolute(certificates.join(name));
    let folder = folder.map_err(|error| format!("{}: {error}", certificates.display()))?;
    Ok(Settings { controller: cluster.controller_name.clone(), addressing, folder })
}

fn event(what: String) -> Event {
    Event::new((LogArea::Config, LogLevel::Warn), "kubernetes", what)
}

/// Tells upstreams where the pods of clusters listened that were in force last: requests find them before an API server has
/// responded.
pub(crate) fn recall_pods(config: &Config, file: &Path, feeds: &Feeds, log: &Log) {
    let Some(state) = kept::state_directory(&config.state, file) else { return };
    let is_cluster = |it: &&RemoteSource| matches!(it.kind, RemoteKind::Kubernetes(_));
    for source in config.sources.iter().filter(is_cluster) {
        let file = kept_pods(&state, source.name.as_str());
        match read_pods(&file) {
            Ok(None) => {}
            // Upstreams keep what they follow.
            Ok(Some(pods)) => {
                Followed { feeds: feeds.clone(), known: BTreeMap::new() }.publish(&pods);
            }
            Err(error) => {
                let file = file.display();
                log.tell(event(format!("{file}: it is not known where pods listened: {error}")));
            }
        }
    }
}

/// Nothing where there is no such file.
fn read_pods(file: &Path) -> io::Result<Option<Pods>> {
    match regular_file::read(file, MAX_PODS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => serde_json::from_slice(&read?).map_err(io::Error::other),
    }
}

/// Where it is kept where the pods of a source listen.
fn kept_pods(state: &Path, source: &str) -> PathBuf {
    state.join(PODS).join(format!("{source}.json"))
}

/// How the API server of a cluster is reached.
pub(crate) fn connection(cluster: &KubernetesSource, file: &Path) -> Connection {
    let beside = |named: &PathBuf| crate::config_file::beside(file, named);
    Connection {
        kubeconfig: cluster.kubeconfig.as_ref().map(beside),
        namespaces: cluster.namespaces.clone(),
    }
}

impl source::Clusters for Clusters {
    fn watch<'a>(
        &'a self,
        name: &'a str,
        cluster: &'a KubernetesSource,
        outlet: Outlet,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(self.follow(name, cluster, outlet))
    }
}

/// The feeds of services, which upstreams follow.
struct Followed {
    feeds: Feeds,
    /// Those that are told of: what was told is kept as long as they are.
    known: BTreeMap<String, Arc<Feed>>,
}

impl Followed {
    /// Has these pods get the requests of their services. An upstream of a service that is not named any more keeps its pods until
    /// it goes itself: the document that has it is in force until another one is.
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
        self.known.retain(|name, _| pods.contains_key(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cluster that such a source says.
    fn cluster(text: &str) -> KubernetesSource {
        let text = format!(
            "listeners: ':80'\nroutes: {{ respond: 404 }}\nsources: {{ s: {{ kubernetes: {text} }} }}"
        );
        let config = Config::parse("titan.yaml", &text).unwrap();
        let RemoteKind::Kubernetes(cluster) = config.sources[0].kind.clone() else {
            panic!("{text}");
        };
        cluster
    }

    // field: source.kubernetes, kubernetes_source.controller_name, kubernetes_source.addresses, kubernetes_source.network
    #[test]
    fn documents_are_made_as_the_source_says() {
        let made = |text: &str| settings(Some(Path::new("/state")), "s", &cluster(text)).unwrap();
        let plain = made("{}");
        assert_eq!(plain.controller, "titan.test/gateway");
        assert_eq!(plain.addressing, Addressing::Shared(Vec::new()));
        assert_eq!(plain.folder, Path::new("/state/certificates/s"));
        assert_eq!(made("{ controller_name: a.b/c }").controller, "a.b/c");
        let addresses = made("{ addresses: [a.b, '::1'] }").addressing;
        assert_eq!(addresses, Addressing::Shared(vec!["a.b".to_owned(), "::1".to_owned()]));
        let network = Network::parse("127.64.0.0/16").unwrap();
        assert_eq!(made("{ network: 127.64.0.0/16 }").addressing, Addressing::Own(network));
    }

    #[test]
    fn without_a_state_directory_there_is_no_place_for_keys() {
        let why = settings(None, "s", &cluster("{}")).unwrap_err();
        assert!(why.ends_with("set `state.directory`"), "{why}");
    }

    // field: kubernetes_source.kubeconfig, kubernetes_source.namespaces
    #[test]
    fn the_api_server_is_reached_as_the_source_says() {
        let file = Path::new("/etc/titan/titan.yaml");
        let connection = connection(&cluster("{ kubeconfig: k.yaml, namespaces: shop }"), file);
        assert_eq!(connection.kubeconfig.as_deref(), Some(Path::new("/etc/titan/k.yaml")));
        assert_eq!(connection.namespaces, ["shop"]);
    }

    #[test]
    fn where_pods_listened_is_read_again() {
        let state = std::env::temp_dir().join(format!("titan-clusters-{}", std::process::id()));
        let file = kept_pods(&state, "s");
        assert_eq!(read_pods(&file).unwrap(), None);
        let pods = Pods::from([("kubernetes/a/b/80".to_owned(), vec!["[::1]:8".parse().unwrap()])]);
        kept::replace(&file, &serde_json::to_vec(&pods).unwrap()).unwrap();
        assert_eq!(read_pods(&file).unwrap(), Some(pods));
        kept::replace(&file, b"{").unwrap();
        assert!(read_pods(&file).is_err());
        std::fs::remove_dir_all(state).unwrap();
    }
}
