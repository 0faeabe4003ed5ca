//! Key sets from elsewhere: fetched in the background, by a thread of their own, and kept when the source fails.

mod fetch;

use super::Jwt;
use super::keys::KeySet;
use crate::tls::{self, BadCredentials, Files};
use crate::worker::Phase;
use arc_swap::ArcSwapOption;
use rustls::ClientConfig;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use titan_config::{JwksUrl, JwtAlgorithm, Protocol, UpstreamTls, Url};
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// Where the keys of a provider come from, and how that goes.
pub(super) struct Remote {
    config: JwksUrl,
    algorithms: Vec<JwtAlgorithm>,
    /// What TLS is spoken with; `None` for none at all, and for a gateway that connects to nobody.
    tls: ArcSwapOption<ClientConfig>,
    /// Whether keys have come.
    is_there: AtomicBool,
    /// Whether a token has named a key that is not known.
    is_wanted: AtomicBool,
    wake: Notify,
    /// Why fetching has failed last, until somebody takes it.
    failure: ArcSwapOption<String>,
}

/// How many sets are fetched at the same time.
const MAX_THREADS: usize = 4;
/// How soon it is tried again while there are no keys at all.
const IMPATIENT: Duration = Duration::from_secs(1);

impl Remote {
    pub(super) fn new(config: &JwksUrl, algorithms: &[JwtAlgorithm]) -> Remote {
        Remote {
            config: config.clone(),
            algorithms: algorithms.to_vec(),
            tls: ArcSwapOption::empty(),
            is_there: AtomicBool::new(false),
            is_wanted: AtomicBool::new(false),
            wake: Notify::new(),
            failure: ArcSwapOption::empty(),
        }
    }

    pub(super) fn set_tls(&self, tls: Option<ClientConfig>) {
        self.tls.store(tls.map(Arc::new));
    }

    /// Whether keys have come.
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    /// Has the keys fetched, as soon as they may be. However many ask, it is done once.
    pub(super) fn want(&self) {
        if !self.is_wanted.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    /// Why fetching has failed, if it has since this was asked last.
    pub(super) fn take_failure(&self) -> Option<Arc<String>> {
        self.failure.swap(None)
    }

    /// Fetches for ever what `jwt` has at that place.
    async fn keep_fresh(jwt: Arc<Jwt>, place: usize) {
        let Some(remote) = jwt.remote(place) else { return };
        let JwksUrl { url, ca: _, refresh, pause } = &remote.config;
        let mut known = Vec::new();
        loop {
            // Whoever asks from now on asks for what comes after this.
            remote.is_wanted.store(false, Ordering::Release);
            let fetched = fetch_apart(url, remote.tls.load_full()).await;
            let again =
                match fetched.and_then(|octets| remote.take(&jwt, place, &mut known, octets)) {
                    Ok(()) => *refresh,
                    Err(reason) => {
                        let reason = format!("no keys from {}: {reason}", url.text);
                        remote.failure.store(Some(Arc::new(reason)));
                        if remote.is_there() { *pause } else { IMPATIENT.min(*pause) }
                    }
                };
            tokio::time::sleep(again.min(*pause)).await;
            let rest = again.saturating_sub(*pause);
            let _ = tokio::time::timeout(rest, remote.wake.notified()).await;
        }
    }

    /// Uses a set from now on, unless it is the one in use.
    fn take(
        &self,
        jwt: &Jwt,
        place: usize,
        known: &mut Vec<u8>,
        octets: Vec<u8>,
    ) -> Result<(), String> {
        if *known == octets {
            return Ok(());
        }
        jwt.set_keys(place, KeySet::parse(&octets, &self.algorithms)?);
        self.is_there.store(true, Ordering::Release);
        *known = octets;
        Ok(())
    }
}

/// Fetches on a thread that may wait.
#[expect(clippy::disallowed_methods, reason = "its runtime serves no traffic")]
async fn fetch_apart(url: &Url, tls: Option<Arc<ClientConfig>>) -> Result<Vec<u8>, String> {
    let url = url.clone();
    let fetched = tokio::task::spawn_blocking(move || fetch::fetch(&url, tls)).await;
    fetched.unwrap_or_else(|_| Err("the thread has ended".to_owned()))
}

/// What TLS is spoken with to the source of a set.
pub(super) fn tls_for(
    config: &JwksUrl,
    files: &Files,
) -> Result<Option<ClientConfig>, BadCredentials> {
    if !config.url.is_https {
        return Ok(None);
    }
    let ca = config.ca.clone();
    let tls = UpstreamTls { ca, name: None, certificate: None, verify: true };
    tls::client_config(&tls, Protocol::H1, files).map(Some)
}

/// Fetches the sets of these policies on a thread of their own until the gateway drains.
pub(crate) fn start(policies: &[Arc<Jwt>], mut phase: watch::Receiver<Phase>) -> io::Result<()> {
    let sources = policies.iter().flat_map(|jwt| {
        let places = (0..jwt.config.providers.len()).filter(|&place| jwt.remote(place).is_some());
        places.map(|place| (Arc::clone(jwt), place))
    });
    let sources: Vec<_> = sources.collect();
    if sources.is_empty() {
        return Ok(());
    }
    let runtime =
        Builder::new_current_thread().enable_time().max_blocking_threads(MAX_THREADS).build()?;
    let run = move || {
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for (jwt, place) in sources {
                tasks.spawn(Remote::keep_fresh(jwt, place));
            }
            let _ = phase.wait_for(|phase| *phase == Phase::Drain).await;
        });
        // What is being fetched is of no use any more.
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("jwks".to_owned()).spawn(run).map(drop)
}
