//! A store, as its users see it.

use crate::bounded::Replies;
use crate::connect::{Greeting, Opened, Place, told};
use crate::leaving::{Leaving, Owing};
use crate::link::Link;
use crate::place::fixed;
use crate::script::{Call, Numbers, Unavailable};
use arc_swap::ArcSwapOption;
use aws_lc_rs::hmac;
use rustls::ClientConfig;
use std::fmt::Write;
use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use titan_io::counter::{Counted, Counter, Durations, Histogram};
use titan_io::registry::Registry;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// A store that gateways have in common. It is connected to by each worker that has ticked.
pub struct Store {
    config: titan_config::Store,
    /// What it is connected to with, where there is TLS.
    tls: ArcSwapOption<ClientConfig>,
    /// Of the hashes of what requests are counted by.
    hash_key: hmac::Key,
    /// What tells the names of one fleet from those of another in the same store.
    fleet: String,
    /// By worker.
    links: Box<[Link]>,
    leaving: Arc<Leaving>,
    counted: Arc<Counted<StoreCells>>,
    /// Where it is, once that is known.
    pub(crate) places: watch::Sender<Vec<Place>>,
    /// Whether it may be somewhere else by now.
    pub(crate) is_sought: AtomicBool,
    pub(crate) sought: Arc<Notify>,
    /// Whether it has a keeper.
    pub(crate) is_kept: AtomicBool,
    /// How many gateways announce themselves there; 0 where that was never known.
    pub(crate) gateways: AtomicU32,
    /// How often a connection was lost, or not to be had.
    losses: AtomicU64,
    /// Why, the last time.
    reason: ArcSwapOption<String>,
}

/// What a worker counts of its calls.
#[derive(Default)]
pub struct StoreCells {
    /// Those that have got a reply.
    replied: Counter,
    /// Those that have got none, in the order of [`Unavailable::ALL`].
    failed: [Counter; Unavailable::ALL.len()],
    /// How long those took that have got a reply.
    pub took: Histogram<Durations>,
}

/// How a store is doing.
#[derive(Clone)]
pub struct StoreStatus {
    /// Its name.
    pub name: String,
    /// Whether no worker is without a connection.
    pub is_up: bool,
    /// How many gateways were seen there last; 0 where that was never known.
    pub gateways: u32,
    /// How often a worker has lost its connection, or could not connect.
    pub losses: u64,
    /// Why, the last time.
    pub reason: Option<Arc<String>>,
    /// What is counted of calls.
    pub counted: Arc<Counted<StoreCells>>,
}

/// A keyed hash of what a request is counted by. Whoever has not the key cannot find out what was hashed, nor try it.
pub struct KeyHasher(hmac::Context);

/// How long connecting may take. No request waits for it but those that come before the first connection.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The bytes of a keyed hash that names have: two keys are one by chance in no fleet.
const HASHED: usize = 16;
/// The bytes of the hash that tells fleets apart.
const FLEET: usize = 6;

impl Store {
    pub(crate) fn new(
        config: &titan_config::Store,
        tls: Option<Arc<ClientConfig>>,
        (registry, workers): (&Registry, usize),
    ) -> Store {
        let hash_key = hmac::Key::new(hmac::HMAC_SHA256, config.hash_key.bytes());
        let fleet = hex(&hmac::sign(&hash_key, b"titan fleet").as_ref()[..FLEET]);
        Store {
            config: config.clone(),
            tls: ArcSwapOption::new(tls),
            hash_key,
            fleet,
            links: std::iter::repeat_with(Link::default).take(workers).collect(),
            leaving: Arc::new(Leaving::new(workers)),
            counted: Counted::of(registry, config.name.as_str(), workers),
            places: watch::channel(fixed(config)).0,
            is_sought: AtomicBool::new(true),
            sought: Arc::default(),
            is_kept: AtomicBool::new(false),
            gateways: AtomicU32::new(0),
            losses: AtomicU64::new(0),
            reason: ArcSwapOption::empty(),
        }
    }

    /// What the file calls it.
    pub fn name(&self) -> &str {
        self.config.name.as_str()
    }

    /// What makes it the same store.
    pub(crate) fn config(&self) -> &titan_config::Store {
        &self.config
    }

    /// Connects with that from now on.
    pub(crate) fn set_tls(&self, tls: Option<Arc<ClientConfig>>) {
        self.tls.store(tls);
    }

    /// Hashes what requests are counted by.
    pub fn hasher(&self) -> KeyHasher {
        KeyHasher(hmac::Context::with_key(&self.hash_key))
    }

    /// A key that only the fleet has, for what goes by that name.
    pub(crate) fn key_for(&self, name: &str) -> hmac::Tag {
        hmac::sign(&self.hash_key, format!("titan key {name}").as_bytes())
    }

    /// The beginning of all names that the fleet has in the store.
    pub fn prefix(&self) -> String {
        format!("titan:{}:", self.fleet)
    }

    /// How many gateways share what is counted, as far as is known: at least one.
    pub fn gateways(&self) -> u32 {
        self.gateways.load(Ordering::Relaxed).max(1)
    }

    /// Whether it is known how many gateways there are.
    pub fn knows_gateways(&self) -> bool {
        self.gateways.load(Ordering::Relaxed) > 0
    }

    /// Whether the gateway drains: then nothing is to be taken ahead any more.
    pub fn is_left(&self) -> bool {
        self.leaving.is_begun()
    }

    /// Ends when the gateway drains: what was taken ahead is to be given back then.
    pub async fn left(&self) {
        self.leaving.begins().await;
    }

    /// Has the end of that worker wait, within bounds, until what this returns is dropped.
    pub fn owe(&self, worker: usize) -> Owing {
        self.leaving.owe(worker)
    }

    /// Nothing is taken ahead any more.
    pub(crate) fn leave(&self) {
        self.leaving.begin();
    }

    /// Waits until the worker has given back what it has taken ahead.
    pub(crate) async fn settle(&self, worker: usize) {
        self.leaving.settle(worker).await;
    }

    /// Makes a call for a request of that worker. Never takes longer than the configuration says.
    pub async fn call(&self, worker: usize, call: &Call<'_>) -> Result<Numbers, Unavailable> {
        let link = &self.links[worker];
        let (began, generation) = (Instant::now(), link.generation());
        let outcome = match link.enter() {
            None => Err((Unavailable::Busy, None)),
            Some(_waits) => match timeout(self.config.timeout, link.ask(call)).await {
                Ok(outcome) => outcome,
                Err(_) => Err((Unavailable::Timeout, None)),
            },
        };
        match outcome {
            Ok(numbers) => {
                link.replied();
                let cells = self.counted.cells(worker);
                cells.replied.add(1);
                cells.took.record(began.elapsed());
                Ok(numbers)
            }
            Err((why, error)) => {
                self.note_failure(worker, generation, why, error.as_ref());
                Err(why)
            }
        }
    }

    /// A reply that was no answer to the call: what speaks there is not what it was taken for.
    pub fn misread(&self, worker: usize) -> Unavailable {
        let why = Unavailable::Failed;
        self.note_failure(worker, self.links[worker].generation(), why, None);
        why
    }

    /// How it is doing.
    pub fn status(&self) -> StoreStatus {
        StoreStatus {
            name: self.config.name.to_string(),
            is_up: !self.links.iter().any(Link::is_down),
            gateways: self.gateways.load(Ordering::Relaxed),
            losses: self.losses.load(Ordering::Relaxed),
            reason: self.reason.load_full(),
            counted: Arc::clone(&self.counted),
        }
    }

    /// Has the worker connect, if it is time for that. To be called on its runtime.
    pub(crate) fn tick(self: &Arc<Self>, worker: usize) {
        if self.links[worker].begin_attempt() {
            tokio::task::spawn_local(Arc::clone(self).attempt(worker));
        }
    }

    async fn attempt(self: Arc<Self>, worker: usize) {
        let link = &self.links[worker];
        let attempt = timeout(ATTEMPT, self.connect());
        let opened = attempt.await.unwrap_or_else(|_| Err(self.why_silent()));
        let (connection, driver) = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                link.not_connected();
                return self.note_loss(reason);
            }
        };
        let generation = link.connected(connection);
        // The task must not keep the store: it ends with the connection, which the store has.
        tokio::task::spawn_local(follow(driver, Arc::downgrade(&self), worker, generation));
    }

    /// Why an attempt had no end.
    fn why_silent(&self) -> String {
        let is_found = !self.places.borrow().is_empty();
        match self.reason.load_full().filter(|_| !is_found) {
            Some(reason) => String::clone(&reason),
            None => "it does not respond".to_owned(),
        }
    }

    /// Connects to the first of its places that can be, for calls of scripts.
    pub(crate) async fn connect(&self) -> Result<Opened, String> {
        self.connect_for(Replies::Short).await
    }

    /// The same for replies of that length.
    pub(crate) async fn connect_for(&self, replies: Replies) -> Result<Opened, String> {
        let mut places = self.places.subscribe();
        let known = places.wait_for(|places| !places.is_empty()).await;
        let places = known.map_err(|error| error.to_string())?.clone();
        let mut reason = "it is nowhere".to_owned();
        for place in places {
            match (Greeting { replies, ..self.greeting(true) }).connect(&place).await {
                Ok(opened) => return Ok(opened),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    pub(crate) fn greeting(&self, is_store: bool) -> Greeting<'_> {
        let (config, tls) = (&self.config, self.tls.load_full());
        Greeting { config, tls, is_store, replies: Replies::Short }
    }

    /// Has the keeper look where the store is.
    pub(crate) fn seek(&self) {
        self.is_sought.store(true, Ordering::Relaxed);
        self.sought.notify_one();
    }

    /// Notes why there is no store, for those who ask.
    pub(crate) fn note_loss(&self, reason: String) {
        self.reason.store(Some(Arc::new(reason)));
        self.losses.fetch_add(1, Ordering::Relaxed);
        self.seek();
    }

    /// Notes why the store was not found.
    pub(crate) fn note_unfound(&self, reason: String) {
        self.reason.store(Some(Arc::new(reason)));
    }

    fn note_failure(
        &self,
        worker: usize,
        generation: u64,
        why: Unavailable,
        error: Option<&redis::RedisError>,
    ) {
        let link = &self.links[worker];
        let place = Unavailable::ALL.iter().position(|(_, it)| *it == why);
        place.into_iter().for_each(|place| self.counted.cells(worker).failed[place].add(1));
        let is_over = match why {
            Unavailable::Down | Unavailable::Busy => false,
            Unavailable::Failed => true,
            Unavailable::Timeout | Unavailable::Refused => link.missed(),
        };
        if is_over && link.lose(generation) {
            let reason = match (error, why) {
                (Some(error), _) => told(error),
                (None, Unavailable::Timeout) => "it does not respond in time".to_owned(),
                (None, _) => "it sends what is no reply to its calls".to_owned(),
            };
            self.note_loss(reason);
        }
    }
}

impl StoreCells {
    /// How many calls had each outcome.
    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let failed = Unavailable::ALL.iter().zip(&self.failed);
        let failed = failed.map(|((name, _), count)| (*name, count.get()));
        std::iter::once(("replied", self.replied.get())).chain(failed)
    }
}

impl KeyHasher {
    /// The hash, in hexadecimal.
    pub fn finished(self) -> String {
        hex(&self.0.sign().as_ref()[..HASHED])
    }
}

/// Numbers are written alike on all machines.
impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn write_u32(&mut self, number: u32) {
        self.write(&number.to_le_bytes());
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_u128(&mut self, number: u128) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    /// A part of the hash; [`KeyHasher::finished`] has all of it.
    fn finish(&self) -> u64 {
        let tag = self.0.clone().sign();
        tag.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// Moves the bytes of a connection until it ends.
async fn follow(
    driver: impl Future<Output = ()>,
    store: Weak<Store>,
    worker: usize,
    generation: u64,
) {
    driver.await;
    let Some(store) = store.upgrade() else { return };
    if store.links[worker].lose(generation) {
        store.note_loss("it has closed the connection".to_owned());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
