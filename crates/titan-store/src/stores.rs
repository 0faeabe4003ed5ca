//! The stores of a configuration.

use crate::keeper::keep;
use crate::store::{Store, StoreStatus};
use rustls::ClientConfig;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::Arc;
use titan_config::{Config, Protocol};
use titan_io::io::Phase;
use titan_io::registry::Registry;
use titan_io::tls::{BadCredentials, Files, client_config};
use tokio::sync::watch;

/// The stores of a configuration, with what each is connected to with once that is in force.
#[derive(Clone, Default)]
pub struct Stores(Arc<[Configured]>);

/// A store, and what this configuration has it connected to with, where there is TLS.
type Configured = (Arc<Store>, Option<Arc<ClientConfig>>);

/// What makes a store count on with its connections: that its section is the same.
#[derive(PartialEq, Eq)]
struct StoreKey {
    store: titan_config::Store,
    workers: usize,
}

impl Hash for StoreKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.store.name.hash(state);
    }
}

impl Stores {
    /// Those of a configuration, for that many workers. Nothing is connected to before a worker ticks.
    pub fn new(
        config: &Config,
        files: &Files,
        (registry, workers): (&Registry, usize),
    ) -> Result<Stores, BadCredentials> {
        let stores = config.stores.iter().map(|store| {
            let tls = tls_of(store, files)?;
            let key = StoreKey { store: store.without_location(), workers };
            let shared =
                registry.shared(key, || Store::new(store, tls.clone(), (registry, workers)));
            Ok((shared, tls))
        });
        stores.collect::<Result<_, _>>().map(Stores)
    }

    /// Those of a gateway that makes no connections: they need no certificates.
    pub fn unconnected(config: &Config) -> Stores {
        let around = (&Registry::default(), 1);
        let stores = config.stores.iter().map(|it| (Arc::new(Store::new(it, None, around)), None));
        Stores(stores.collect())
    }

    /// The one of that name.
    pub fn named(&self, name: &str) -> Option<&Arc<Store>> {
        let mut stores = self.0.iter().map(|(store, _)| store);
        stores.find(|store| store.config().name.as_str() == name)
    }

    /// Finds them, and announces the gateway there, until nothing uses them or the gateway drains.
    pub fn keep(&self, phase: &watch::Receiver<Phase>) -> io::Result<()> {
        self.0.iter().try_for_each(|(store, _)| keep(store, phase.clone()))
    }

    /// Connects with these files from now on.
    pub fn take_effect(&self) {
        self.0.iter().for_each(|(store, tls)| store.set_tls(tls.clone()));
    }

    /// Has the worker connect to those that it is time to connect to. To be called now and then, on the runtime of that worker.
    pub fn tick(&self, worker: usize) {
        self.0.iter().for_each(|(store, _)| store.tick(worker));
    }

    /// The gateway drains: what it has taken ahead is given back, and nothing more is taken.
    pub fn leave(&self) {
        self.0.iter().for_each(|(store, _)| store.leave());
    }

    /// Waits until the worker has given back what it has taken ahead, a quarter of a second for each store at most. To be called
    /// on the runtime of that worker.
    pub async fn settle(&self, worker: usize) {
        for (store, _) in self.0.iter() {
            store.settle(worker).await;
        }
    }

    /// How each is doing.
    pub fn status(&self) -> Vec<StoreStatus> {
        self.0.iter().map(|(store, _)| store.status()).collect()
    }
}

/// What a store is connected to with, where there is TLS.
pub fn tls_of(
    store: &titan_config::Store,
    files: &Files,
) -> Result<Option<Arc<ClientConfig>>, BadCredentials> {
    let Some(tls) = &store.tls else { return Ok(None) };
    let mut config = client_config(tls, Protocol::H1, files)?;
    // A store is asked for no protocol: it has one.
    config.alpn_protocols.clear();
    Ok(Some(Arc::new(config)))
}
