//! A store, as its users see it.

use crate::bounded::Replies;
use crate::connect::{Greeting, Opened, Place, told};
use crate::leaving::{Leaving, Owing};
use crate::place::Found;
use crate::script::{Call, Numbers, Unavailable};
use crate::shard::{Held, Shard, Shards};
use crate::slots::{Node, Redirect};
use arc_swap::ArcSwapOption;
use aws_lc_rs::hmac;
use redis::RedisError;
use rustls::ClientConfig;
use std::fmt::Write;
use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use titan_io::counter::{Counted, Counter, Durations, Histogram};
use titan_io::registry::Registry;
use tokio::sync::Notify;
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
    shards: Shards,
    workers: usize,
    leaving: Arc<Leaving>,
    counted: Arc<Counted<StoreCells>>,
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
            shards: Shards::unsought(config, workers),
            workers,
            leaving: Arc::new(Leaving::new(workers)),
            counted: Counted::of(registry, config.name.as_str(), workers),
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
        let Some(shard) = self.shards.with(call.key) else {
            self.count_failure(worker, Unavailable::Down);
            self.seek();
            return Err(Unavailable::Down);
        };
        // Who is asked in the end: what comes of it is that server's doing.
        let mut sent_on = None;
        let link = shard.link(worker);
        let (began, generation) = (Instant::now(), link.generation());
        let outcome = match link.enter() {
            None => Err((Unavailable::Busy, None)),
            Some(_waits) => {
                match timeout(self.config.timeout, self.ask(worker, &shard, call, &mut sent_on))
                    .await
                {
                    Ok(outcome) => outcome,
                    Err(_) => Err((Unavailable::Timeout, None)),
                }
            }
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
                let (shard, generation) = match &sent_on {
                    Some((other, generation)) => (other, *generation),
                    None => (&*shard, generation),
                };
                self.note_failure(worker, (shard, generation), why, error.as_ref());
                Err(why)
            }
        }
    }

    /// Asks a server, and where that sends the call to another one of the cluster, that one, once.
    async fn ask(
        &self,
        worker: usize,
        shard: &Shard,
        call: &Call<'_>,
        sent_on: &mut Option<(Arc<Shard>, u64)>,
    ) -> Result<Numbers, (Unavailable, Option<RedisError>)> {
        let outcome = shard.link(worker).ask(call, false).await;
        let (Err((_, Some(error))), Some(node)) = (&outcome, &shard.node) else { return outcome };
        let Some(Redirect { to, is_asking }) = Redirect::told(error, node) else { return outcome };
        if !is_asking {
            self.seek();
        }
        // One that is not known yet will be.
        let other = self.shards.named(&to).ok_or((Unavailable::Down, None))?;
        let generation = other.link(worker).generation();
        let (other, _) = sent_on.insert((other, generation));
        other.link(worker).ask(call, is_asking).await
    }

    /// A reply to a call for that key that was no answer to it: what speaks there is not what it was taken for.
    pub fn misread(&self, worker: usize, key: &[u8]) -> Unavailable {
        let why = Unavailable::Failed;
        if let Some(shard) = self.shards.with(key) {
            let generation = shard.link(worker).generation();
            self.note_failure(worker, (&shard, generation), why, None);
        }
        why
    }

    /// How it is doing.
    pub fn status(&self) -> StoreStatus {
        StoreStatus {
            name: self.config.name.to_string(),
            // One that nobody has looked for yet is not lost.
            is_up: self.shards.are_up() || self.is_nowhere() && self.reason.load().is_none(),
            gateways: self.gateways.load(Ordering::Relaxed),
            losses: self.losses.load(Ordering::Relaxed),
            reason: self.reason.load_full(),
            counted: Arc::clone(&self.counted),
        }
    }

    /// Whether it is a cluster of which no node is known.
    fn is_nowhere(&self) -> bool {
        matches!(&self.shards, Shards::Cluster(_)) && self.shards.all().is_empty()
    }

    /// The server that has a key, as far as is known.
    pub(crate) fn shard_of(&self, key: &[u8]) -> Option<Held<'_>> {
        self.shards.with(key)
    }

    /// Whether some nodes of a cluster are lost, or all: others may have taken their place.
    pub(crate) fn is_partly_lost(&self) -> bool {
        let is_lost = !self.shards.are_up() || self.shards.have_gaps();
        matches!(&self.shards, Shards::Cluster(_)) && is_lost
    }

    /// Where the nodes of a cluster are, as far as they are known.
    pub(crate) fn known_nodes(&self) -> Vec<Place> {
        let all = self.shards.all().into_iter().filter(|shard| shard.node.is_some());
        all.filter_map(|shard| shard.places.borrow().first().cloned()).collect()
    }

    /// Notes where it was found. Tells whether that is news.
    pub(crate) fn take(&self, found: Found) -> bool {
        self.shards.take(found, self.workers)
    }

    /// Has the worker connect, if it is time for that. To be called on its runtime.
    pub(crate) fn tick(self: &Arc<Self>, worker: usize) {
        match &self.shards {
            Shards::One(shard) => self.tick_of(shard, worker),
            Shards::Cluster(_) => {
                self.shards.all().iter().for_each(|shard| self.tick_of(shard, worker));
            }
        }
    }

    fn tick_of(self: &Arc<Self>, shard: &Arc<Shard>, worker: usize) {
        if shard.link(worker).begin_attempt() {
            tokio::task::spawn_local(Arc::clone(self).attempt(Arc::clone(shard), worker));
        }
    }

    async fn attempt(self: Arc<Self>, shard: Arc<Shard>, worker: usize) {
        let link = shard.link(worker);
        let attempt = timeout(ATTEMPT, self.connect(&shard, Replies::Short));
        let opened = attempt.await.unwrap_or_else(|_| Err(self.why_silent(&shard)));
        let (connection, driver) = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                link.not_connected();
                return self.note_loss(reason);
            }
        };
        link.connected(connection, |generation| {
            // The task must keep neither: it ends with the connection, which the store has.
            let of = (Arc::downgrade(&self), Arc::downgrade(&shard));
            tokio::task::spawn_local(follow(driver, of, worker, generation)).abort_handle()
        });
    }

    /// Why an attempt had no end.
    fn why_silent(&self, shard: &Shard) -> String {
        let is_found = !shard.places.borrow().is_empty();
        match self.reason.load_full().filter(|_| !is_found) {
            Some(reason) => String::clone(&reason),
            None => "it does not respond".to_owned(),
        }
    }

    /// Connects to the first of the places of a server that can be.
    pub(crate) async fn connect(&self, shard: &Shard, replies: Replies) -> Result<Opened, String> {
        let mut places = shard.places.subscribe();
        let known = places.wait_for(|places| !places.is_empty()).await;
        let places = known.map_err(|error| error.to_string())?.clone();
        let mut reason = "it is nowhere".to_owned();
        for place in places {
            match self.greeting(true, replies).connect(&place).await {
                Ok(opened) => return Ok(opened),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    /// The server that a cluster calls that.
    pub(crate) fn shard_named(&self, node: &Node) -> Option<Arc<Shard>> {
        self.shards.named(node)
    }

    fn greeting(&self, is_store: bool, replies: Replies) -> Greeting<'_> {
        Greeting { config: &self.config, tls: self.tls.load_full(), is_store, replies }
    }

    /// For whoever knows where it is: sentinels, and any node of a cluster.
    pub(crate) fn greeting_others(&self) -> Greeting<'_> {
        let is_long = self.config.is_cluster;
        self.greeting(false, if is_long { Replies::Pages } else { Replies::Short })
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
        if self.is_nowhere() {
            // No worker can tell: none has anything to connect to.
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn note_failure(
        &self,
        worker: usize,
        (shard, generation): (&Shard, u64),
        why: Unavailable,
        error: Option<&RedisError>,
    ) {
        self.count_failure(worker, why);
        let is_over = match why {
            Unavailable::Down | Unavailable::Busy => false,
            Unavailable::Failed => true,
            Unavailable::Timeout | Unavailable::Refused => shard.link(worker).missed(),
        };
        if is_over {
            self.lose(worker, (shard, generation), why, error);
        }
    }

    fn count_failure(&self, worker: usize, why: Unavailable) {
        let place = Unavailable::ALL.iter().position(|(_, it)| *it == why);
        place.into_iter().for_each(|place| self.counted.cells(worker).failed[place].add(1));
    }

    /// Gives a connection up, unless that was done.
    fn lose(
        &self,
        worker: usize,
        (shard, generation): (&Shard, u64),
        why: Unavailable,
        error: Option<&RedisError>,
    ) {
        if shard.link(worker).lose(generation) {
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
    (store, shard): (Weak<Store>, Weak<Shard>),
    worker: usize,
    generation: u64,
) {
    driver.await;
    let (Some(store), Some(shard)) = (store.upgrade(), shard.upgrade()) else { return };
    if shard.link(worker).lose(generation) {
        store.note_loss("it has closed the connection".to_owned());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
