//! What the program does for its sources: it watches their clusters, whose objects become documents and whose pods endpoints, and
//! keeps the endpoints that they know of.

use crate::endpoints::{self, Keeper};
use crate::kept;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use titan_config::{Config, KubernetesSource, LogArea, LogLevel};
use titan_kubernetes::backends::Pods;
use titan_kubernetes::controller::{Connection, Controller};
use titan_kubernetes::settings::{Addressing, Network, Settings};
use titan_observe::events::{Event, Log};
use titan_proxy::{Feeds, Loader};
use titan_sources::endpoints::{self as told, Endpoint, Endpoints, Extent, Teller};
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
    /// What keeps the endpoints of sources, by their names.
    keepers: Mutex<BTreeMap<String, Weak<Keeper>>>,
}

/// Our part of the state directory.
const CERTIFICATES: &str = "certificates";
/// After how long what could not begin is tried again.
const RETRY: Duration = Duration::from_secs(10);

impl Clusters {
    pub(crate) fn new(loader: &Loader, file: &Path, state: Option<PathBuf>) -> Clusters {
        let (feeds, log) = (loader.feeds(), loader.log().clone());
        Clusters { feeds, log, file: file.to_owned(), state, keepers: Mutex::default() }
    }

    async fn follow(&self, name: &str, cluster: &KubernetesSource, outlet: Outlet) {
        let Some(controller) = self.controller(name, cluster, &outlet).await else { return };
        let mut teller = Teller::new(self.feeds.clone(), source::Program::keeper(self, name));
        let publish = |pods: &Pods| drop(teller.tell(&endpoints_of(pods), Extent::All));
        let log = self.log.clone();
        let complain = move |what| log.tell(event(what));
        controller.run(outlet, publish, complain).await;
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
                    let state = self.state.iter();
                    let kept: Vec<_> = state.flat_map(|it| kept::documents(it, name)).collect();
                    let kept = kept.iter().map(|it| (it.name.as_str(), it.text.as_str()));
                    let connection = connection(cluster, &self.file);
                    match Controller::new(&connection, settings, kept).await {
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

/// Tells upstreams of the endpoints that sources knew of last: requests find them before a source has responded.
pub(crate) fn recall_endpoints(config: &Config, file: &Path, feeds: &Feeds, log: &Log) {
    let Some(state) = kept::state_directory(&config.state, file) else { return };
    for source in config.sources.iter().filter(|it| it.kind.knows_endpoints()) {
        let file = endpoints::file_of(&state, source.name.as_str());
        match endpoints::read(&file) {
            Ok(None) => {}
            // Upstreams keep what they follow.
            Ok(Some(known)) => drop(Teller::new(feeds.clone(), None).tell(&known, Extent::All)),
            Err(error) => {
                let (name, file) = (&source.name, file.display());
                let what = format!(
                    "{file}: the endpoints that the source {name} knew of cannot be used: {error}"
                );
                log.tell(Event::new((LogArea::Config, LogLevel::Warn), "sources_restored", what));
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

impl source::Program for Clusters {
    fn watch<'a>(
        &'a self,
        name: &'a str,
        cluster: &'a KubernetesSource,
        outlet: Outlet,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(self.follow(name, cluster, outlet))
    }

    fn keeper(&self, source: &str) -> Option<Arc<dyn told::Keeper>> {
        let file = endpoints::file_of(self.state.as_ref()?, source);
        match Keeper::start(file, self.log.clone()) {
            Ok(keeper) => {
                let keeper = Arc::new(keeper);
                self.keepers().insert(source.to_owned(), Arc::downgrade(&keeper));
                Some(keeper)
            }
            Err(error) => {
                let what = format!("the endpoints of the source {source} are not kept: {error}");
                let area = (LogArea::Config, LogLevel::Warn);
                self.log.tell(Event::new(area, "source_not_kept", what));
                None
            }
        }
    }

    fn kept(&self, source: &str) -> Endpoints {
        let file = self.state.as_ref().map(|state| endpoints::file_of(state, source));
        // What cannot be read was told at the start.
        file.and_then(|file| endpoints::read(&file).ok().flatten()).unwrap_or_default()
    }

    fn before_upgrade(&self) -> Option<String> {
        let fault = |it: &Weak<Keeper>| it.upgrade().and_then(|keeper| keeper.fault());
        let why = self.keepers().values().find_map(fault)?;
        Some(format!(
            "the endpoints that sources know of are not in the state directory, so that the next process would begin without them: \
                {why}: try again when the directory can be written"
        ))
    }
}

impl Clusters {
    fn keepers(&self) -> MutexGuard<'_, BTreeMap<String, Weak<Keeper>>> {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pods of each service, which get equal shares.
fn endpoints_of(pods: &Pods) -> Endpoints {
    let endpoints = |pods: &Vec<_>| pods.iter().copied().map(Endpoint::at).collect();
    pods.iter().map(|(name, pods)| (name.clone(), endpoints(pods))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_config::RemoteKind;

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
