//! Remote key sets: fetched in the background, by their own thread, and kept for a while when the source fails.

mod fetch;

use super::Jwt;
use super::keys::KeySet;
use arc_swap::ArcSwapOption;
use rustls::ClientConfig;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use titan_config::{Cap, JwksUrl, JwtAlgorithm, Url};
use titan_io::io::Phase;
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// Where the keys of a provider come from, and how that goes.
pub(super) struct Remote {
    config: JwksUrl,
    algorithms: Vec<JwtAlgorithm>,
    /// What TLS is spoken with; `None` for none at all, and for a gateway that connects to nobody.
    tls: ArcSwapOption<ClientConfig>,
    /// Whether a set was ever fetched.
    has_come: AtomicBool,
    /// Whether the last set that was fetched is recent enough to be believed.
    is_current: AtomicBool,
    /// When a set was fetched last, in seconds since 1970.
    fetched_at: AtomicU64,
    /// How often fetching has failed.
    failed: AtomicU64,
    /// Whether a token has named a key that is not known.
    is_wanted: AtomicBool,
    wake: Notify,
    /// A set has been fetched.
    renewed: Notify,
    /// Why fetching has failed last, until somebody takes it.
    failure: ArcSwapOption<String>,
    /// Why there are no keys to check tokens with any more, until somebody takes it.
    loss: ArcSwapOption<String>,
}

/// How the key set of a provider is doing that is fetched from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySetStatus {
    /// The name of the policy.
    pub policy: String,
    /// The issuer that the provider is known by; empty where it is alone and has none.
    pub issuer: String,
    /// How many keys tokens can be checked with now.
    pub keys: usize,
    /// When it was fetched last, in seconds since 1970; 0 for never.
    pub fetched_at: u64,
    /// How often fetching it has failed.
    pub failed: u64,
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
            has_come: AtomicBool::new(false),
            is_current: AtomicBool::new(false),
            fetched_at: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            wake: Notify::new(),
            renewed: Notify::new(),
            failure: ArcSwapOption::empty(),
            loss: ArcSwapOption::empty(),
        }
    }

    pub(super) fn set_tls(&self, tls: Option<ClientConfig>) {
        self.tls.store(tls.map(Arc::new));
    }

    /// Whether a set was ever fetched.
    pub(super) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }

    /// Whether tokens can be judged: a set was fetched, and not too long ago.
    pub(super) fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Acquire)
    }

    /// How the set of that issuer is doing, of which so many keys are in use.
    pub(super) fn status(&self, policy: &str, issuer: &str, keys: usize) -> KeySetStatus {
        KeySetStatus {
            policy: policy.to_owned(),
            issuer: issuer.to_owned(),
            keys,
            fetched_at: self.fetched_at.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    /// Has the keys fetched, as soon as they may be. However many ask, it is done once.
    pub(super) fn want(&self) {
        if !self.is_wanted.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    /// What has gone wrong since this was asked last.
    pub(super) fn take_troubles(&self) -> impl Iterator<Item = Arc<String>> {
        [&self.failure, &self.loss].into_iter().filter_map(|trouble| trouble.swap(None))
    }

    /// Fetches for ever what `jwt` has at that place.
    async fn keep_fresh(jwt: Arc<Jwt>, place: usize) {
        let Some(remote) = jwt.remote(place) else { return };
        let JwksUrl { url, ca: _, refresh, pause, max_stale: _ } = &remote.config;
        let mut known = Vec::new();
        loop {
            // A request for a fetch from now on means the next one.
            remote.is_wanted.store(false, Ordering::Release);
            let fetched = fetch_apart(url, remote.tls.load_full()).await;
            let again = match fetched.and_then(|bytes| remote.take(&jwt, place, &mut known, bytes))
            {
                Ok(()) => *refresh,
                Err(reason) => {
                    let reason = format!("cannot get keys from {}: {reason}", url.text);
                    remote.failure.store(Some(Arc::new(reason)));
                    remote.failed.fetch_add(1, Ordering::Relaxed);
                    if remote.has_come() { *pause } else { IMPATIENT.min(*pause) }
                }
            };
            tokio::time::sleep(again.min(*pause)).await;
            let rest = again.saturating_sub(*pause);
            let _ = tokio::time::timeout(rest, remote.wake.notified()).await;
        }
    }

    /// Ends the use of keys, for ever, whenever no set was fetched for as long as it may be stale.
    async fn keep_from_staleness(jwt: Arc<Jwt>, place: usize) {
        let Some(remote) = jwt.remote(place) else { return };
        let Cap::AtMost(max_stale) = remote.config.max_stale else { return };
        loop {
            remote.renewed.notified().await;
            while tokio::time::timeout(max_stale, remote.renewed.notified()).await.is_ok() {}
            remote.is_current.store(false, Ordering::Release);
            jwt.set_keys(place, KeySet::default());
            let url = &remote.config.url.text;
            remote.lose(format!(
                "no keys from {url} for {max_stale:?} (`max_stale`): the previous keys are no longer used"
            ));
        }
    }

    /// Uses a set from now on, unless it is the one in use. One without keys withdraws all that were there.
    fn take(
        &self,
        jwt: &Jwt,
        place: usize,
        known: &mut Vec<u8>,
        bytes: Vec<u8>,
    ) -> Result<(), String> {
        let is_known = self.is_current() && *known == bytes;
        if !is_known {
            let keys = KeySet::parse(&bytes, &self.algorithms)?;
            if keys.is_empty() {
                let url = &self.config.url.text;
                self.lose(format!(
                    "the key set from {url} has no usable key; the previous keys are no longer used"
                ));
            }
            jwt.set_keys(place, keys);
            *known = bytes;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.fetched_at.store(now.as_secs(), Ordering::Relaxed);
        self.is_current.store(true, Ordering::Release);
        self.has_come.store(true, Ordering::Release);
        self.renewed.notify_one();
        Ok(())
    }

    fn lose(&self, why: String) {
        self.loss.store(Some(Arc::new(why)));
    }
}

/// Fetches on a thread that may wait.
#[expect(clippy::disallowed_methods, reason = "its runtime serves no traffic")]
async fn fetch_apart(url: &Url, tls: Option<Arc<ClientConfig>>) -> Result<Vec<u8>, String> {
    let url = url.clone();
    let fetched = tokio::task::spawn_blocking(move || fetch::fetch(&url, tls)).await;
    fetched.unwrap_or_else(|_| Err("the thread has ended".to_owned()))
}

/// Fetches the sets of these policies on a thread of their own until the gateway drains.
pub fn start(policies: &[Arc<Jwt>], mut phase: watch::Receiver<Phase>) -> io::Result<()> {
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
                tasks.spawn(Remote::keep_from_staleness(Arc::clone(&jwt), place));
                tasks.spawn(Remote::keep_fresh(jwt, place));
            }
            let _ = phase.wait_for(|phase| *phase == Phase::Drain).await;
        });
        // What is being fetched is of no use any more.
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("jwks".to_owned()).spawn(run).map(drop)
}
