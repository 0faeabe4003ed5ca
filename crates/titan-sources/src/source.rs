//! A source of a configuration: made from what the configuration says of it, and asked on a thread of its own.

use crate::consul::Consul;
use crate::docker::Docker;
use crate::endpoints::{Endpoints, Keeper, Teller};
use crate::etcd::{Etcd, Store};
use crate::http::Http;
use crate::outlet::{Inlet, Outlet, outlet};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use titan_config::{
    ConsulSource, DockerSource, EtcdSource, HttpSource, KubernetesSource, RemoteKind, RemoteSource,
    Resolver,
};
use titan_io::registry::Registry;
use titan_io::tls::{BadCredentials, ClientTls, Files};
use titan_upstream::feeds::Feeds;
use titan_upstream::members::Upstream;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// A source that can be asked.
#[derive(Clone)]
pub struct Source {
    config: RemoteSource,
    resolver: Resolver,
    asked: Asked,
}

/// What is asked.
#[derive(Clone)]
enum Asked {
    Http(HttpSource, Arc<Upstream>),
    Kubernetes(KubernetesSource),
    Etcd(EtcdSource, Arc<Upstream>),
    Consul(ConsulSource, Arc<Upstream>),
    Docker(DockerSource, Arc<Upstream>),
}

/// What the program does for its sources.
pub trait Program: Send + Sync {
    /// Watches one for the source of this name, and delivers what is to be served, until nothing is taken any more.
    fn watch<'a>(
        &'a self,
        name: &'a str,
        cluster: &'a KubernetesSource,
        outlet: Outlet,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

    /// What keeps the endpoints that the source of this name knows of, where there is a place for them.
    fn keeper(&self, source: &str) -> Option<Arc<dyn Keeper>>;

    /// The endpoints that are kept of that source. It waits until they are read.
    fn kept(&self, source: &str) -> Endpoints;

    /// Why a process that takes over would begin without something that is known of them, where that is so.
    fn before_upgrade(&self) -> Option<String> {
        None
    }
}

impl Source {
    /// The source that a configuration describes; the files are those that it names.
    pub fn new(
        config: &RemoteSource,
        resolver: &Resolver,
        files: &Files,
    ) -> Result<Source, BadCredentials> {
        let config = config.without_locations();
        let asked = match &config.kind {
            RemoteKind::Http(http) => {
                Asked::Http(http.clone(), server(&http.upstream, resolver, files)?)
            }
            RemoteKind::Kubernetes(cluster) => Asked::Kubernetes(cluster.clone()),
            RemoteKind::Etcd(etcd) => {
                Asked::Etcd(etcd.clone(), server(&etcd.upstream, resolver, files)?)
            }
            RemoteKind::Consul(consul) => {
                Asked::Consul(consul.clone(), server(&consul.upstream, resolver, files)?)
            }
            RemoteKind::Docker(docker) => {
                Asked::Docker(docker.clone(), server(&docker.upstream, resolver, files)?)
            }
        };
        Ok(Source { config, resolver: resolver.clone(), asked })
    }

    /// What the configuration says of it.
    pub fn config(&self) -> &RemoteSource {
        &self.config
    }

    /// Whether the other one would be asked in the same way. Then that one's certificates are used from now on.
    pub fn takes_over(&self, other: &Source) -> bool {
        let is_same = self.config == other.config && self.resolver == other.resolver;
        let [tls, renewed] = [self, other].map(|it| match &it.asked {
            Asked::Http(_, upstream)
            | Asked::Etcd(_, upstream)
            | Asked::Consul(_, upstream)
            | Asked::Docker(_, upstream) => upstream.tls(),
            Asked::Kubernetes(_) => None,
        });
        if is_same && let Some((tls, renewed)) = tls.zip(renewed) {
            tls.replace(renewed.settings());
        }
        is_same
    }

    /// The documents of a source in etcd, to be written; `None` for another kind. It is used in a `LocalSet`.
    pub fn store(&self) -> Option<Store> {
        match &self.asked {
            Asked::Etcd(etcd, upstream) => {
                Some(Store::new(etcd.clone(), Arc::clone(upstream), self.resolver.clone()))
            }
            Asked::Http(..) | Asked::Kubernetes(_) | Asked::Consul(..) | Asked::Docker(..) => None,
        }
    }

    /// Begins to ask it, on a thread that ends with the inlet. What is in force of it already was signed then, in seconds since 1970.
    /// Endpoints that it knows of are told to `feeds`.
    pub fn start(
        &self,
        signed_at: Option<u64>,
        (program, feeds): (&Arc<dyn Program>, &Feeds),
    ) -> io::Result<Inlet> {
        let (outlet, inlet) = outlet(self.config.name.as_str());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (Source { config, resolver, asked }, program) = (self.clone(), Arc::clone(program));
        let feeds = feeds.clone();
        let run = move || {
            let asked = async {
                match asked {
                    Asked::Http(http, upstream) => {
                        Http::new(http, upstream, resolver, signed_at).run(outlet).await;
                    }
                    Asked::Kubernetes(cluster) => {
                        program.watch(config.name.as_str(), &cluster, outlet).await;
                    }
                    Asked::Etcd(etcd, upstream) => {
                        Etcd::new(etcd, upstream, resolver).run(outlet).await;
                    }
                    Asked::Consul(consul, upstream) => {
                        let name = config.name.as_str();
                        let teller = Teller::new(feeds, program.keeper(name));
                        let told = (name, teller);
                        Consul::new(&consul, (&upstream, &resolver), told).run(outlet).await;
                    }
                    Asked::Docker(docker, upstream) => {
                        let name = config.name.as_str();
                        let kept = program.kept(name);
                        let teller = Teller::new(feeds, program.keeper(name));
                        let told = (name, teller, kept);
                        Docker::new(&docker, (&upstream, &resolver), told).run(outlet).await;
                    }
                }
            };
            LocalSet::new().block_on(&runtime, asked);
        };
        thread::Builder::new().name("source".to_owned()).spawn(run)?;
        Ok(inlet)
    }
}

/// The server of a source, which connections are opened to.
fn server(
    config: &titan_config::Upstream,
    resolver: &Resolver,
    files: &Files,
) -> Result<Arc<Upstream>, BadCredentials> {
    let tls = config.tls.as_ref().map(|tls| ClientTls::new(tls, config.protocol, files));
    // Upstreams of the same name are no concern of its.
    let own = Registry::default();
    let upstream = Upstream::of(config, resolver, tls.transpose()?, (&own, 1));
    upstream.take_effect();
    Ok(upstream)
}
