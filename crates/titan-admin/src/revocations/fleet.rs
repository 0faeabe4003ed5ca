//! The other gateways: what they revoke is heard from a stream in a store, and what is revoked here is written there.
//!
//! ```text
//! connect -> what is its life? -> read to its end -> write what it lacks -> remove what nobody needs -> in sync
//!    ^             ^ another one: read it all, and see what it lacks                                      |
//!    |             +--------------------------- 100 ms later, or when something is revoked here -----------+
//!    +--- after an error
//! ```
//!
//! It does not matter in which order entries are read, how often, or whether their stream was lost in between: what two of them
//! come to is decided by what they say ([`Entry::merged`]).

#[cfg(test)]
mod tests;

use super::entry::Entry;
use super::log::Record;
use super::{Inner, RevocationStore, now};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use titan_config::{JwtRevocations, LogArea, LogLevel, Name, WithoutRevocations};
use titan_io::random::Random;
use titan_observe::events::{Event, Log, Repeat};
use titan_proxy::{Revocations, Status};
use titan_store::stream::{EntryId, FIRST, Life, MAX_REMOVED, MAX_WRITTEN, Stream, StreamLink};
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

/// What is known of telling and hearing, on all threads.
pub(super) struct Fleet {
    store: Name,
    /// Whether tokens are refused while others may have revoked them unheard.
    denies: bool,
    stale_after: Duration,
    /// Something was revoked here.
    changed: Notify,
    /// How often the file was opened: what was heard before may not be in it.
    openings: AtomicU64,
    /// Changes whenever something was heard.
    heard: watch::Sender<()>,
    started: Instant,
    /// When everything was heard and told last, in milliseconds since it was started; 0 for never.
    in_sync: AtomicU64,
    /// Whether something was heard for which there was no room.
    is_lacking: AtomicBool,
    received: AtomicU64,
    unreadable: AtomicU64,
    refills: AtomicU64,
}

/// How it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FleetStatus {
    /// Whether everything was heard and told lately.
    pub(crate) is_in_sync: bool,
    /// Entries that other gateways cannot know of.
    pub(crate) unpublished: usize,
    /// Entries that came from the stream and changed something.
    pub(crate) received: u64,
    /// Entries of the stream that no gateway of the fleet has written.
    pub(crate) unreadable: u64,
    /// How often the stream was lost, and filled again.
    pub(crate) refills: u64,
}

/// Follows the stream, on a thread of its own.
struct Follower {
    revoked: Arc<RevocationStore>,
    status: Status,
    log: Log,
    life: Option<Life>,
    /// The last entry that was heard.
    at: EntryId,
    openings: u64,
    /// When all of it was begun to be read.
    since: Instant,
    is_cut_off: bool,
}

/// The stream, by what its name in the store ends with.
const STREAM: &str = "revocations";
/// Between two looks. A call that waits for news would need a connection beside the one that writes, and could not tell a store
/// that hangs from one that has none.
const LOOK: Duration = Duration::from_millis(100);
/// Before the first attempt to connect again, and the longest before another one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));
/// How long a client waits until other gateways can know of what it has revoked.
const PUBLISHING: Duration = Duration::from_millis(500);
/// Before everything is read again because there was no room for it.
const READ_AGAIN: Duration = Duration::from_secs(10);
/// How often a stream is begun that does not stay.
const MAX_BEGUN: u32 = 3;

impl Fleet {
    /// The one of a configuration that has any.
    pub(super) fn of(config: &JwtRevocations) -> Option<Fleet> {
        let JwtRevocations { store, without_store, stale_after, .. } = config;
        Some(Fleet {
            store: store.clone()?,
            denies: *without_store == WithoutRevocations::Deny,
            stale_after: *stale_after,
            changed: Notify::new(),
            openings: AtomicU64::new(0),
            heard: watch::channel(()).0,
            started: Instant::now(),
            in_sync: AtomicU64::new(0),
            is_lacking: AtomicBool::new(false),
            received: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
            refills: AtomicU64::new(0),
        })
    }

    /// Until everything was heard, the table is not to be trusted.
    pub(super) fn distrust(&self, table: &Revocations) {
        if self.denies {
            table.distrust_after(Duration::ZERO);
        }
    }

    /// Everything is to be read again.
    pub(super) fn start_over(&self) {
        self.openings.fetch_add(1, Ordering::Relaxed);
        self.wake();
    }

    /// There is something to tell.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    fn note_in_sync(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.in_sync.store(now.max(1), Ordering::Relaxed);
    }

    /// How long ago everything was heard and told.
    fn age(&self) -> Duration {
        self.started
            .elapsed()
            .saturating_sub(Duration::from_millis(self.in_sync.load(Ordering::Relaxed)))
    }

    fn is_in_sync(&self) -> bool {
        let was_ever = self.in_sync.load(Ordering::Relaxed) > 0;
        was_ever && self.age() < self.stale_after && !self.is_lacking.load(Ordering::Relaxed)
    }
}

impl RevocationStore {
    /// Tells other gateways what is revoked here, and hears of them what is revoked there, for as long as the process runs; where
    /// `jwt_revocations` names a store.
    pub fn follow(self: &Arc<Self>, status: Status, log: Log) -> io::Result<()> {
        if self.fleet.is_none() {
            return Ok(());
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let follower = Follower {
            revoked: Arc::clone(self),
            status,
            log,
            life: None,
            at: FIRST,
            openings: 0,
            since: Instant::now(),
            is_cut_off: false,
        };
        let follow = move || runtime.block_on(follower.run());
        thread::Builder::new().name("revocations".to_owned()).spawn(follow).map(drop)
    }

    /// Waits, not for long, until all gateways can know of an entry as it is here. Tells whether they can, where there are any.
    pub(super) async fn published(&self, id: u64) -> Option<bool> {
        let mut heard = self.fleet.as_ref()?.heard.subscribe();
        let is_told = || self.lock().entries.is_told(id) == Some(true);
        let told = timeout(PUBLISHING, async {
            while !is_told() {
                // An error would say that there is no sender.
                let _ = heard.changed().await;
            }
        });
        Some(told.await.is_ok())
    }

    /// Whether all gateways can know of an entry, where there are any.
    pub(super) fn is_published(&self, id: u64) -> Option<bool> {
        self.lock().entries.is_told(id)
    }

    /// How it is doing with other gateways, where there are any.
    pub(crate) fn fleet_status(&self) -> Option<FleetStatus> {
        let fleet = self.fleet.as_ref()?;
        Some(FleetStatus {
            is_in_sync: fleet.is_in_sync(),
            unpublished: self.lock().entries.untold(),
            received: fleet.received.load(Ordering::Relaxed),
            unreadable: fleet.unreadable.load(Ordering::Relaxed),
            refills: fleet.refills.load(Ordering::Relaxed),
        })
    }

    /// Puts in force what was heard. That is not undone if the disk does not take it: then it is heard again at the next start.
    /// Tells how many entries have changed something, and whether there was room for all.
    fn hear(&self, page: Vec<(EntryId, Entry)>, now: u64) -> (u64, bool) {
        let mut inner = self.lock();
        inner.evict(&self.table, now);
        let (mut records, mut had_room) = (Vec::new(), true);
        for (place, theirs) in page {
            match inner.hear(&self.table, (place, theirs), self.capacity, now) {
                Ok(news) => records.extend(news.map(Record::Add)),
                Err(NoRoom) => had_room = false,
            }
        }
        inner.keep(&records);
        (records.len() as u64, had_room)
    }

    /// Entries that other gateways cannot know of, as they are written for them, and how many there are in all.
    fn to_tell(&self, now: u64) -> (Vec<Vec<u8>>, usize) {
        let mut inner = self.lock();
        inner.evict(&self.table, now);
        // From somewhere in between: gateways that fill a stream again at once are to begin with different ones.
        let from = Random::default().next() % inner.entries.next.max(1);
        let entries = inner.entries.to_tell(from, MAX_WRITTEN);
        // Nothing that an entry has cannot be written.
        let written = entries.into_iter().filter_map(|entry| serde_json::to_vec(entry).ok());
        (written.collect(), inner.entries.untold())
    }
}

/// There are as many entries as may be.
struct NoRoom;

impl Inner {
    /// Puts in force what an entry of the stream and what is known come to. Tells what that is, if it is news.
    fn hear(
        &mut self,
        table: &Revocations,
        (place, theirs): (EntryId, Entry),
        capacity: usize,
        now: u64,
    ) -> Result<Option<Entry>, NoRoom> {
        if theirs.tokens.have_ended(now) {
            self.entries.discard(place);
            return Ok(None);
        }
        let ours = self.entries.with(&theirs.tokens.target()).cloned();
        let next = match &ours {
            None => Entry { id: self.entries.next, ..theirs.clone() },
            Some(ours) => ours.merged(&theirs),
        };
        let is_one_more = !next.is_withdrawn && ours.as_ref().is_none_or(|it| it.is_withdrawn);
        if is_one_more && self.entries.len() >= capacity {
            return Err(NoRoom);
        }
        let is_news = ours.as_ref() != Some(&next);
        if is_news {
            self.apply(table, next.clone());
        }
        match next.says(&theirs) {
            true => self.entries.note_told(next.id, place),
            false => self.entries.discard(place),
        }
        Ok(is_news.then_some(next))
    }

    /// Writes to the file what is in force already, unless another process has it.
    fn keep(&mut self, records: &[Record]) {
        if self.log.is_none() || records.is_empty() {
            return;
        }
        match self.write(records) {
            Ok(()) => self.compact_if_worth_it(),
            // The next line that is written has the file written anew, with all entries.
            Err(error) => {
                let what = "what other gateways have revoked is not in the file of revoked tokens";
                self.warning = Some(format!("{what}: {error}"));
            }
        }
    }
}

impl Follower {
    async fn run(mut self) {
        let mut pause = PAUSES.0;
        let revoked = Arc::clone(&self.revoked);
        let Some(fleet) = &revoked.fleet else { return };
        loop {
            let before = fleet.in_sync.load(Ordering::Relaxed);
            let Err(why) = self.follow(&revoked, fleet).await;
            let was_in_sync = fleet.in_sync.load(Ordering::Relaxed) != before;
            pause = if was_in_sync { PAUSES.0 } else { (2 * pause).min(PAUSES.1) };
            self.tell_if_cut_off(fleet, &why);
            sleep(pause).await;
        }
    }

    /// From a connection to why it has ended.
    async fn follow(
        &mut self,
        revoked: &RevocationStore,
        fleet: &Fleet,
    ) -> Result<Infallible, String> {
        let store = || self.status.store(fleet.store.as_str());
        let store = store().ok_or("the configuration in force has no such store")?;
        let stream = Stream::new(store, STREAM).map_err(|_| "its entries cannot be encrypted")?;
        let mut link = stream.connect().await?;
        loop {
            self.catch_up(&mut link, revoked, fleet).await?;
            self.note_in_sync(revoked, fleet);
            let is_changed = fleet.changed.notified();
            tokio::select! { () = sleep(LOOK) => {}, () = is_changed => {} }
            // A reload may have changed its section.
            if !self.status.store(fleet.store.as_str()).is_some_and(|store| stream.is_in(&store)) {
                return Err("the configuration in force has another store of that name".to_owned());
            }
        }
    }

    /// Hears everything, and tells everything.
    async fn catch_up(
        &mut self,
        link: &mut StreamLink<'_>,
        revoked: &RevocationStore,
        fleet: &Fleet,
    ) -> Result<(), String> {
        let mut begun = 0;
        loop {
            let life = link.life().await?;
            self.look_for_losses(life.as_ref(), revoked, fleet);
            self.read_on(link, revoked, fleet).await?;
            match life {
                None if begun == MAX_BEGUN => return Err(does_not_keep()),
                None => {
                    begun += 1;
                    link.begin().await?;
                }
                Some(life) => {
                    if !self.tell(link, &life, revoked, fleet).await? {
                        return clean(link, revoked).await;
                    }
                }
            }
        }
    }

    /// Has everything read again where the stream is another one, or what was heard may be lost.
    fn look_for_losses(&mut self, life: Option<&Life>, revoked: &RevocationStore, fleet: &Fleet) {
        let openings = fleet.openings.load(Ordering::Relaxed);
        let is_another = life.is_none() || life != self.life.as_ref();
        let has_room = || {
            let (count, capacity) = revoked.count(now());
            count < capacity && self.since.elapsed() > READ_AGAIN
        };
        let is_lacking = fleet.is_lacking.load(Ordering::Relaxed);
        if !is_another && openings == self.openings && !(is_lacking && has_room()) {
            return;
        }
        if is_another && self.life.is_some() {
            fleet.refills.fetch_add(1, Ordering::Relaxed);
            let what = format!(
                "the store `{}` has lost the revoked tokens: this gateway writes again what it knows",
                fleet.store
            );
            self.log.tell(event(LogLevel::Warn, "revocations_lost", what));
        }
        if is_another {
            self.life = life.cloned();
        }
        (self.at, self.openings, self.since) = (FIRST, openings, Instant::now());
        fleet.is_lacking.store(false, Ordering::Relaxed);
        revoked.lock().entries.forget_told();
    }

    /// Reads to the end.
    async fn read_on(
        &mut self,
        link: &mut StreamLink<'_>,
        revoked: &RevocationStore,
        fleet: &Fleet,
    ) -> Result<(), String> {
        loop {
            let page = link.read(self.at).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            self.at = *last;
            let count = page.len();
            let parse = |(id, entry): (EntryId, Option<Vec<u8>>)| {
                Some((id, serde_json::from_slice::<Entry>(&entry?).ok()?))
            };
            let page: Vec<_> = page.into_iter().filter_map(parse).collect();
            self.note_unreadable(count - page.len(), fleet);
            let (changed, had_room) = revoked.hear(page, now());
            fleet.received.fetch_add(changed, Ordering::Relaxed);
            if !had_room {
                self.note_lack(fleet);
            }
            fleet.heard.send_replace(());
        }
    }

    /// Writes some of what the stream lacks, and reads it there. Tells whether there was anything.
    async fn tell(
        &mut self,
        link: &mut StreamLink<'_>,
        life: &Life,
        revoked: &RevocationStore,
        fleet: &Fleet,
    ) -> Result<bool, String> {
        let (entries, before) = revoked.to_tell(now());
        if entries.is_empty() {
            return Ok(false);
        }
        if link.write(life, &entries).await? {
            self.read_on(link, revoked, fleet).await?;
            let left = revoked.lock().entries.untold();
            // Something else may have been revoked meanwhile; then this is done again.
            return if left < before { Ok(true) } else { Err(does_not_keep()) };
        }
        Ok(true)
    }

    fn note_in_sync(&mut self, revoked: &RevocationStore, fleet: &Fleet) {
        fleet.note_in_sync();
        fleet.heard.send_replace(());
        if fleet.denies && !fleet.is_lacking.load(Ordering::Relaxed) {
            revoked.table.distrust_after(fleet.stale_after);
        }
        if std::mem::take(&mut self.is_cut_off) {
            let what = format!("hears again from the store `{}` what is revoked", fleet.store);
            self.log.tell(event(LogLevel::Info, "revocations_back", what));
        }
    }

    fn tell_if_cut_off(&mut self, fleet: &Fleet, why: &str) {
        if self.is_cut_off || fleet.age() < fleet.stale_after {
            return;
        }
        self.is_cut_off = true;
        let what = match fleet.denies {
            true => "tokens that could be revoked are refused",
            false => "what is known to be revoked stays in force",
        };
        let what = format!(
            "cut off from the store `{}` for {:?}, so that other gateways cannot say what they have revoked: {why}; {what}",
            fleet.store, fleet.stale_after
        );
        self.log.tell(event(LogLevel::Warn, "revocations_cut_off", what));
    }

    fn note_unreadable(&self, count: usize, fleet: &Fleet) {
        if count == 0 {
            return;
        }
        fleet.unreadable.fetch_add(count as u64, Ordering::Relaxed);
        let what = format!(
            "the store `{}` has entries of revoked tokens that no gateway of this fleet and version has written: they are ignored",
            fleet.store
        );
        let event = event(LogLevel::Warn, "revocations_unreadable", what);
        self.log.tell(event.once(Repeat::ByMinute));
    }

    fn note_lack(&self, fleet: &Fleet) {
        fleet.is_lacking.store(true, Ordering::Relaxed);
        let what = "other gateways have revoked tokens that are not refused here: \
            `jwt_revocations.capacity` is reached; make it as large as theirs";
        let event = event(LogLevel::Error, "revocations_full", what);
        self.log.tell(event.once(Repeat::ByMinute));
    }
}

/// Removes what nobody needs any more.
async fn clean(link: &mut StreamLink<'_>, revoked: &RevocationStore) -> Result<(), String> {
    loop {
        let garbage = revoked.lock().entries.take_garbage(MAX_REMOVED);
        if garbage.is_empty() {
            return Ok(());
        }
        link.remove(&garbage).await?;
    }
}

fn does_not_keep() -> String {
    "it does not keep what is written there".to_owned()
}

fn event(level: LogLevel, kind: &'static str, what: impl std::fmt::Display) -> Event {
    Event::new((LogArea::Policy, level), kind, what)
}
