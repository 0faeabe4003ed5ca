//! The other gateways: what they revoke is heard from a stream in a store, and what is revoked here is written there.
//!
//! It does not matter in which order entries are read, how often, or whether their stream was lost in between: what two of them
//! come to is decided by what they say ([`Entry::merged`]). How the stream is followed is in `follower`.

mod follower;

#[cfg(test)]
mod tests;

use super::entry::Entry;
use super::log::Record;
use super::{Inner, RevocationStore};
use follower::Follower;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use titan_config::{JwtRevocations, Name, WithoutRevocations};
use titan_io::random::Random;
use titan_observe::events::Log;
use titan_proxy::{Revocations, StoresInForce};
use titan_store::stream::{EntryId, MAX_WRITTEN};
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

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
    /// When everything was heard last, in milliseconds since it was started; 0 for never.
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
    /// Whether everything was heard lately.
    pub(crate) is_in_sync: bool,
    /// Entries that other gateways cannot know of.
    pub(crate) unpublished: usize,
    /// Entries that came from the stream and changed something.
    pub(crate) received: u64,
    /// Entries of the stream that no gateway of the fleet has written.
    pub(crate) unreadable: u64,
    /// How often some of the stream was lost, or all of it, and filled again.
    pub(crate) refills: u64,
}

/// How long a client waits until other gateways can know of what it has revoked.
const PUBLISHING: Duration = Duration::from_millis(500);
/// By how much, in seconds, clocks of gateways may differ. What has ended for so long, also by the clock of the store, has ended for
/// all of them.
const CLOCKS: u64 = 3600;
/// How long after its start a gateway is not ready at most because it has not read the stream.
const UNREADY: Duration = Duration::from_secs(60);
/// How long a start waits for the stream where tokens are refused until it was read.
const AT_START: Duration = Duration::from_secs(2);

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

    /// Everything was heard so long ago.
    fn note_in_sync(&self, ago: Duration) {
        let at = self.started.elapsed().saturating_sub(ago).as_millis();
        self.in_sync.store(u64::try_from(at).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
        self.heard.send_replace(());
    }

    /// Whether everything was heard since the start.
    fn was_ever_in_sync(&self) -> bool {
        self.in_sync.load(Ordering::Relaxed) > 0
    }

    /// How long ago everything was heard.
    fn age(&self) -> Duration {
        self.started
            .elapsed()
            .saturating_sub(Duration::from_millis(self.in_sync.load(Ordering::Relaxed)))
    }

    fn is_in_sync(&self) -> bool {
        self.was_ever_in_sync()
            && self.age() < self.stale_after
            && !self.is_lacking.load(Ordering::Relaxed)
    }
}

impl RevocationStore {
    /// Tells other gateways what is revoked here, and hears of them what is revoked there, for as long as the process runs; where
    /// `jwt_revocations` names a store.
    pub fn follow(self: &Arc<Self>, stores: StoresInForce, log: Log) -> io::Result<()> {
        if self.fleet.is_none() {
            return Ok(());
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let follower = Follower::new(Arc::clone(self), stores, log);
        let follow = move || runtime.block_on(follower.run());
        thread::Builder::new().name("revocations".to_owned()).spawn(follow).map(drop)
    }

    /// Waits, not for long, until what other gateways have revoked was heard, where tokens are refused until then. For one that is
    /// about to serve.
    pub async fn heard(&self) {
        let Some(fleet) = self.fleet.as_ref().filter(|fleet| fleet.denies) else { return };
        let mut heard = fleet.heard.subscribe();
        let in_sync = async { while !fleet.was_ever_in_sync() && heard.changed().await.is_ok() {} };
        let _ = timeout(AT_START, in_sync).await;
    }

    /// Whether tokens are refused because what other gateways have revoked was not heard since the start, a minute ago at most.
    pub(crate) fn awaits_fleet(&self) -> bool {
        let awaits = |fleet: &Fleet| fleet.denies && !fleet.was_ever_in_sync();
        // A store that is down must not keep all gateways of a fleet from the routes that need none.
        self.fleet.as_ref().is_some_and(|fleet| awaits(fleet) && fleet.started.elapsed() < UNREADY)
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
    /// Tells how many entries have changed something, and whether there was room for all. The time is that of this gateway, and that
    /// of the store.
    fn hear(&self, page: Vec<(EntryId, Entry)>, now: (u64, u64)) -> (u64, bool) {
        let mut inner = self.lock();
        inner.evict(&self.table, now.0);
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

    /// Some of the entries that other gateways cannot know of.
    fn to_tell(&self, now: u64) -> Vec<Telling> {
        let mut inner = self.lock();
        inner.evict(&self.table, now);
        // From somewhere in between: gateways that fill a stream again at once are to begin with different ones.
        let from = Random::default().next() % inner.entries.next.max(1);
        let entries = inner.entries.to_tell(from, MAX_WRITTEN);
        // Nothing that an entry has cannot be written.
        let telling = |entry: &Entry| {
            Some(Telling { of: (entry.id, entry.stamp), written: serde_json::to_vec(entry).ok()? })
        };
        entries.into_iter().filter_map(telling).collect()
    }

    /// Whether some of that was read back. What has become something else meanwhile need not be.
    fn has_told(&self, told: &[Telling]) -> bool {
        let inner = self.lock();
        told.iter().any(|telling| !inner.entries.lacks(telling.of))
    }
}

/// An entry that is written for other gateways.
struct Telling {
    /// Its id, and its stamp then.
    of: (u64, u64),
    written: Vec<u8>,
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
        (now, by_store): (u64, u64),
    ) -> Result<Option<Entry>, NoRoom> {
        if theirs.tokens.have_ended(now) {
            // Others may need it still, whose clocks are behind, or this one's is ahead.
            if theirs.tokens.have_ended(now.min(by_store).saturating_sub(CLOCKS)) {
                self.entries.discard(place);
            }
            return Ok(None);
        }
        let ours = self.entries.with(&theirs.tokens.target()).cloned();
        let next = match &ours {
            None => Entry { id: self.entries.next, ..theirs.clone() },
            Some(ours) => ours.merged(&theirs),
        };
        let is_one_more = !next.is_withdrawn() && ours.as_ref().is_none_or(Entry::is_withdrawn);
        if is_one_more && self.entries.len() >= capacity {
            // Others have this one instead of what is known here, which nobody has lost.
            ours.iter().for_each(|ours| drop(self.entries.forget(ours.id)));
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
