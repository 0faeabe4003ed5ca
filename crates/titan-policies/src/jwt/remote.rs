//! Remote key sets: fetched in the background, by their own thread, and kept for a while when the source fails.

mod fetch;

use super::generation::Generation;
use super::keys::{KeySet, Source};
use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use rustls::ClientConfig;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use titan_config::{Cap, JwksUrl, JwtAlgorithm, JwtProvider, Url};
use titan_io::io::Phase;
use titan_io::registry::Registry;
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

/// A key set from elsewhere, for the policies that check tokens with it: a later one of the same name has the same set. It is
/// fetched as long as there is one of them.
pub(super) struct Fetched {
    remote: Arc<Remote>,
    /// Watched by the task that fetches it. Closed when nothing needs the keys any more.
    how: watch::Sender<How>,
}

/// A set for the task that fetches it.
pub(super) struct Followed {
    remote: Arc<Remote>,
    how: watch::Receiver<How>,
}

/// How a set is fetched.
#[derive(Clone)]
pub(super) struct How {
    config: JwksUrl,
    tls: Option<Arc<ClientConfig>>,
}

/// What makes it the same set for the same use.
#[derive(PartialEq, Eq, Hash)]
struct FetchedKey {
    policy: String,
    issuer: Option<String>,
    url: String,
    ca: Option<PathBuf>,
    algorithms: Vec<JwtAlgorithm>,
}

/// The keys that have come, and how fetching them goes.
pub(super) struct Remote {
    url: String,
    algorithms: Vec<JwtAlgorithm>,
    /// None before they have come.
    keys: ArcSwap<KeySet>,
    /// What changes with them.
    generations: Mutex<Vec<Weak<Generation>>>,
    /// Whether a set was ever fetched.
    has_come: AtomicBool,
    /// Whether the last set that was fetched is recent enough to be used.
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
    /// Why fetching failed last, until it is reported.
    failure: ArcSwapOption<String>,
    /// Why there are no keys to check tokens with any more, until it is reported.
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

impl Fetched {
    /// The set that a policy of that name has from there, with what has been fetched of it already.
    pub(super) fn of(
        (policy, provider): (&str, &JwtProvider),
        how: How,
        registry: &Registry,
    ) -> Arc<Fetched> {
        let JwtProvider { issuer, algorithms, .. } = provider;
        let key = FetchedKey {
            policy: policy.to_owned(),
            issuer: issuer.clone(),
            url: how.config.url.text.clone(),
            ca: how.config.ca.clone(),
            algorithms: algorithms.clone(),
        };
        registry.shared(key, || Fetched {
            remote: Arc::new(Remote::new(&how.config.url, algorithms)),
            how: watch::channel(how).0,
        })
    }

    /// The keys, and how fetching them goes.
    pub(super) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Fetches it like that from now on.
    pub(super) fn set(&self, how: How) {
        self.how.send_replace(how);
    }

    /// The set, for the caller to fetch from now on, unless it is being fetched already.
    fn follow(&self) -> Option<Followed> {
        let is_followed = self.how.receiver_count() > 0;
        let followed = || Followed { remote: Arc::clone(&self.remote), how: self.how.subscribe() };
        (!is_followed).then(followed)
    }
}

impl How {
    /// As a section says, with the contents of its files, if they were read.
    pub(super) fn new(config: &JwksUrl, source: Option<Source>) -> How {
        let tls = match source {
            Some(Source::Elsewhere(tls)) => tls,
            Some(Source::Here(_)) | None => None,
        };
        How { config: config.clone(), tls }
    }
}

impl Remote {
    fn new(url: &Url, algorithms: &[JwtAlgorithm]) -> Remote {
        Remote {
            url: url.text.clone(),
            algorithms: algorithms.to_vec(),
            keys: ArcSwap::default(),
            generations: Mutex::default(),
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

    /// The keys, if a set was fetched, and not too long ago.
    pub(super) fn current_keys(&self) -> Option<Guard<Arc<KeySet>>> {
        self.is_current().then(|| self.keys.load())
    }

    /// Makes a generation change with the keys.
    pub(super) fn tell(&self, generation: &Arc<Generation>) {
        let mut generations = self.generations();
        generations.retain(|other| other.strong_count() > 0);
        generations.push(Arc::downgrade(generation));
    }

    fn generations(&self) -> MutexGuard<'_, Vec<Weak<Generation>>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_keys(&self, keys: KeySet) {
        self.keys.store(Arc::new(keys));
        self.generations().iter().filter_map(Weak::upgrade).for_each(|it| it.change());
    }

    /// Whether a set was ever fetched.
    pub(super) fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }

    fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Acquire)
    }

    /// How the set of that issuer is doing.
    pub(super) fn status(&self, policy: &str, issuer: &str) -> KeySetStatus {
        KeySetStatus {
            policy: policy.to_owned(),
            issuer: issuer.to_owned(),
            keys: self.keys.load().len(),
            fetched_at: self.fetched_at.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    /// Requests a fetch of the keys, as soon as the pause allows. Several requests cause one fetch.
    pub(super) fn want(&self) {
        if !self.is_wanted.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    /// What has gone wrong since this was asked last.
    pub(super) fn take_failures(&self) -> impl Iterator<Item = Arc<String>> {
        [&self.failure, &self.loss].into_iter().filter_map(|failure| failure.swap(None))
    }

    /// Fetches for ever.
    async fn keep_fresh(&self, mut how: watch::Receiver<How>) -> Infallible {
        let mut known = Vec::new();
        loop {
            let How { config, tls } = how.borrow_and_update().clone();
            // A request for a fetch from now on means the next one.
            self.is_wanted.store(false, Ordering::Release);
            let fetched = fetch_apart(&config.url, tls).await;
            let taken = fetched.and_then(|bytes| self.take(&mut known, bytes));
            let has_failed = taken.is_err();
            if let Err(reason) = taken {
                let reason = format!("cannot get keys from {}: {reason}", self.url);
                self.failure.store(Some(Arc::new(reason)));
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
            self.pause(has_failed, &mut how).await;
        }
    }

    /// Waits until the set is due again, by times that may change meanwhile.
    async fn pause(&self, has_failed: bool, how: &mut watch::Receiver<How>) {
        let last = Instant::now();
        loop {
            let JwksUrl { refresh, pause, .. } = how.borrow_and_update().config;
            let again = match has_failed {
                false => refresh,
                true if self.has_come() => pause,
                true => IMPATIENT.min(pause),
            };
            let is_due = async {
                sleep_until(last + again.min(pause)).await;
                let _ = timeout_at(last + again, self.wake.notified()).await;
            };
            tokio::select! {
                () = is_due => return,
                Ok(()) = how.changed() => {}
            }
        }
    }

    /// Ends the use of keys, for ever, whenever no set was fetched for as long as it may be stale.
    async fn keep_from_staleness(&self, mut how: watch::Receiver<How>) -> Infallible {
        loop {
            self.renewed.notified().await;
            let max_stale = self.becomes_stale(&mut how).await;
            self.is_current.store(false, Ordering::Release);
            self.set_keys(KeySet::default());
            let url = &self.url;
            self.lose(format!(
                "no keys from {url} for {max_stale:?} (`max_stale`): the previous keys are no longer used"
            ));
        }
    }

    /// Waits until the set that has just come is too old, and no other one has come; says how old it may be.
    async fn becomes_stale(&self, how: &mut watch::Receiver<How>) -> Duration {
        let mut last = Instant::now();
        loop {
            let max_stale = how.borrow_and_update().config.max_stale;
            let is_stale = async {
                match max_stale {
                    Cap::AtMost(most) => {
                        sleep_until(last + most).await;
                        most
                    }
                    Cap::Unlimited => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.renewed.notified() => last = Instant::now(),
                Ok(()) = how.changed() => {}
                most = is_stale => return most,
            }
        }
    }

    /// Uses a set from now on, unless it is the one in use. One without keys withdraws all that were there.
    fn take(&self, known: &mut Vec<u8>, bytes: Vec<u8>) -> Result<(), String> {
        let is_known = self.is_current() && *known == bytes;
        if !is_known {
            let keys = KeySet::parse(&bytes, &self.algorithms)?;
            if keys.is_empty() {
                let url = &self.url;
                self.lose(format!(
                    "the key set from {url} has no usable key; the previous keys are no longer used"
                ));
            }
            self.set_keys(keys);
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

/// Fetches those of these sets that are not being fetched yet, on a thread of their own, each as long as it is needed
/// and until the gateway drains.
pub(super) fn follow<'f>(
    sets: impl Iterator<Item = &'f Arc<Fetched>>,
    mut phase: watch::Receiver<Phase>,
) -> io::Result<()> {
    let sets = unfollowed(sets);
    if sets.is_empty() {
        return Ok(());
    }
    let runtime =
        Builder::new_current_thread().enable_time().max_blocking_threads(MAX_THREADS).build()?;
    let run = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = phase.wait_for(|phase| *phase == Phase::Drain) => {}
                () = fetch_all(sets) => {}
            }
        });
        // The set that is being fetched is no longer needed.
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("jwks".to_owned()).spawn(run).map(drop)
}

/// Those of these sets that are not being fetched yet.
pub(super) fn unfollowed<'f>(sets: impl Iterator<Item = &'f Arc<Fetched>>) -> Vec<Followed> {
    sets.filter_map(|set| set.follow()).collect()
}

/// Fetches these sets, each as long as it is needed.
pub(super) async fn fetch_all(sets: Vec<Followed>) {
    let mut tasks = JoinSet::new();
    for Followed { remote, how } in sets {
        tasks.spawn(async move {
            let mut life = how.clone();
            tokio::select! {
                () = async { while life.changed().await.is_ok() {} } => {}
                never = remote.keep_fresh(how.clone()) => match never {},
                never = remote.keep_from_staleness(how) => match never {},
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}
