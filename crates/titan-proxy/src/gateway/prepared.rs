//! A configuration with everything that it needs to serve. All that can fail has happened, and nothing has changed yet.

use super::access_logs::{Collectors, open_logs};
use super::credentials::{bad_roots, client_tls};
use super::error::LoadError;
use super::inherited::Inherited;
use super::names::resolve_names;
use crate::fallback;
use crate::listener::{ListenerState, PreparedListener};
use crate::listener_id::ListenerId;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use titan_config::Config;
use titan_io::io::Phase;
use titan_io::registry::Registry;
use titan_io::tls::{ClientSettings, ClientTls, Files};
use titan_observe::observer::Subscriber;
use titan_policies::credentials::PolicyCredentials;
use titan_policies::jwt::Revocations;
use titan_store::stores::Stores;
use tokio::sync::watch;

/// How long keys of tokens may take to come.
const KEYS: Duration = Duration::from_secs(10);
/// Between two looks for them.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Prepared {
    pub(super) snapshot: Arc<Snapshot>,
    credentials: PolicyCredentials,
    listeners: Vec<PreparedListener>,
    /// By upstream.
    tls: Vec<Option<Arc<ClientSettings>>>,
    collectors: Collectors,
    logs: Vec<Box<dyn Subscriber>>,
    /// Bytes of records that are kept.
    recorded: usize,
}

impl Prepared {
    /// Reads and builds everything. `files` holds those that the configuration names, and `revoked` the tokens that its
    /// file of revoked tokens does.
    pub(super) fn new(
        config: &Config,
        files: &Files,
        revoked: Option<&Revocations>,
        around: (&Registry, usize),
        inherited: &Inherited,
    ) -> Result<Prepared, LoadError> {
        let listeners = config.listeners.iter().zip(ListenerId::all(&config.listeners));
        let listeners = listeners.map(|(it, id)| {
            let tickets = inherited.tickets(&id);
            let listener = PreparedListener::new(it, id, files, around.0)?;
            Ok(match tickets {
                Some(tickets) => listener.succeeding(tickets),
                None => listener,
            })
        });
        let listeners = listeners.collect::<Result<_, _>>().map_err(LoadError::Credentials)?;
        let tls = config.upstreams.iter().map(|upstream| client_tls(upstream, files));
        let tls: Vec<_> = tls.collect::<Result<_, _>>().map_err(LoadError::Credentials)?;
        let credentials = PolicyCredentials::read(config, files).map_err(LoadError::Credentials)?;
        if config.jwt_revocations.is_some() && revoked.is_none() {
            return Err(LoadError::Revocations);
        }
        let mut unusable = fallback::unreadable(config, files).chain(bad_roots(config, files));
        if let Some((_, bad)) = unusable.next() {
            return Err(LoadError::Credentials(bad));
        }
        let settings = tls.iter().map(|tls| tls.as_ref().map(ClientTls::settings)).collect();
        let stores = Stores::new(config, files, around).map_err(LoadError::Credentials)?;
        let kept = (revoked, &stores);
        let snapshot = Snapshot::build(config, around, tls, &credentials, files, kept);
        let snapshot = Arc::new(snapshot);
        let collectors = Collectors::new(config, files, around.0)?;
        let logs = open_logs(config, files, &collectors, (&snapshot, around.0))?;
        let recorded = config.recorder.as_ref().map_or(0, |it| it.memory.as_usize());
        let tls = settings;
        Ok(Prepared { snapshot, credentials, listeners, tls, collectors, logs, recorded })
    }

    /// Starts what it needs beside workers. Takes as long as name servers do, up to `resolver.timeout`.
    pub(super) fn begin(
        &self,
        config: &Config,
        phase: &watch::Receiver<Phase>,
    ) -> Result<(), LoadError> {
        let chains = &self.snapshot.chains;
        chains.fetch_keys(phase.clone()).map_err(LoadError::Thread)?;
        chains.check_passwords().map_err(LoadError::Thread)?;
        self.snapshot.stores.keep(phase).map_err(LoadError::Thread)?;
        resolve_names(config, &self.snapshot, phase.clone())
    }

    /// Waits until the keys of its tokens have come.
    pub(super) fn await_keys(&self) -> Result<(), LoadError> {
        let deadline = Instant::now() + KEYS;
        let chains = &self.snapshot.chains;
        while chains.lacks_keys() {
            if Instant::now() >= deadline {
                return Err(LoadError::Keys(chains.take_key_failures()));
            }
            thread::park_timeout(PAUSE);
        }
        Ok(())
    }

    /// The states that its listeners will have.
    pub(super) fn states(&self) -> impl Iterator<Item = &Arc<ListenerState>> {
        self.listeners.iter().map(PreparedListener::state)
    }

    /// Has everything that outlives a snapshot keep to this configuration from now on. With the snapshot come those who are to
    /// be told of exchanges once all workers serve from it.
    pub(super) fn take_effect(self) -> (Arc<Snapshot>, Vec<Box<dyn Subscriber>>) {
        let Prepared { snapshot, credentials, listeners, tls, collectors, logs, recorded } = self;
        snapshot.take_effect(credentials);
        snapshot.stores.take_effect();
        snapshot.recorder.limit(recorded);
        for (upstream, settings) in snapshot.upstreams.iter().zip(tls) {
            if let (Some(tls), Some(settings)) = (upstream.tls(), settings) {
                tls.replace(settings);
            }
        }
        collectors.take_effect();
        listeners.into_iter().for_each(PreparedListener::take_effect);
        (snapshot, logs)
    }
}
