//! Clusters that sources watch: what their objects say becomes documents, and where their pods listen becomes known to upstreams.

use crate::kept;
use crate::pods::{self, Keeper};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use titan_config::{Config, KubernetesSource, LogArea, LogLevel, RemoteKind, RemoteSource};
use titan_kubernetes::backends::Pods;
use titan_kubernetes::controller::{Connection, Controller};
use titan_kubernetes::settings::{Addressing, Network, Settings};
use titan_observe::events::{Event, Log};
use titan_proxy::{FedEndpoint, Feed, Feeds, Loader};
use titan_sources::outlet::Outlet;
use titan_sources::source;
use tokio::time::sleep;

/// What watches them.
pub(crate) struct Clusters {
    feeds: Feeds,
    log: Log,
    /// That of the configuration, to which its paths are relative.
    file: PathBuf,
    /// The state directory.
    state: Option<PathBuf>,
    /// What keeps where the pods of the source that is followed listen: a gateway has one cluster.
    keeper: Mutex<Weak<Keeper>>,
}

/// Our part of the state directory.
const CERTIFICATES: &str = "certificates";
/// After how long what could not begin is tried again.
const RETRY: Duration = Duration::from_secs(10);

impl Clusters {
    pub(crate) fn new(loader: &Loader, file: &Path, state: Option<PathBuf>) -> Clusters {
        let (feeds, log) = (loader.feeds(), loader.log().clone());
        Clusters { feeds, log, file: file.to_owned(), state, keeper: Mutex::default() }
    }

    async fn follow(&self, name: &str, cluster: &KubernetesSource, outlet: Outlet) {
        let mut followed = Followed { feeds: self.feeds.clone(), known: BTreeMap::new() };
        let Some(controller) = self.controller(name, cluster, &outlet).await else { return };
        let keeper = self.keeper(name);
        let publish = |pods: &Pods| {
            followed.publish(pods);
            if let Some(keeper) = &keeper {
                keeper.keep(pods.clone());
            }
        };
        let log = self.log.clone();
        let complain = move |what| log.tell(event(what));
        controller.run(outlet, publish, complain).await;
    }

    /// What keeps where the pods of that source listen.
    fn keeper(&self, name: &str) -> Option<Arc<Keeper>> {
        let file = pods::file_of(self.state.as_ref()?, name);
        match Keeper::start(file, self.log.clone()) {
            Ok(keeper) => {
                let keeper = Arc::new(keeper);
                *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) =
                    Arc::downgrade(&keeper);
                Some(keeper)
            }
            Err(error) => {
                self.log.tell(event(format!("where pods listen is not kept: {error}")));
                None
            }
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
        let file = pods::file_of(&state, source.name.as_str());
        match pods::read(&file) {
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

    fn before_upgrade(&self) -> Option<String> {
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let why = keeper?.fault()?;
        Some(format!(
            "where pods listen is not in the state directory, so that the next process would begin without it: {why}: try again \
                when the directory can be written"
        ))
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
}
