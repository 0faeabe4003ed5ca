//! The thread of a store: it finds out where the store is, and announces the gateway there, so that each knows how many there are.

use crate::bounded::Replies;
use crate::connect::Driver;
use crate::place::find;
use crate::script::{Call, Script};
use crate::store::Store;
use redis::aio::MultiplexedConnection;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, Weak};
use std::thread;
use std::time::Duration;
use titan_io::io::Phase;
use titan_io::random::Random;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Announces a gateway, as long as it runs.
struct Keeper {
    /// What the gateway is called there: unlike any other.
    id: String,
    connection: Option<(MultiplexedConnection, Driver)>,
    /// How many gateways were seen, the last times.
    seen: [u32; SEEN],
    /// How often the store was looked for.
    turn: usize,
}

/// Between two announcements.
const BEAT: Duration = Duration::from_secs(1);
/// How long a gateway counts that has announced itself, in milliseconds. Some announcements may be late.
const LIFETIME: &str = "5000";
/// Of so many looks the most gateways count: those that were just cut off from the store come back one by one.
const SEEN: usize = 5;
/// How long an announcement may take, and connecting before it.
const MOST: Duration = Duration::from_secs(1);
/// Between two looks for the store.
const PAUSE: Duration = Duration::from_millis(100);

/// `KEYS[1]` has all gateways by the time of their last announcement, of the store's clock in milliseconds. `ARGV[1]` announces
/// itself if `ARGV[3]` is 1, and takes its leave otherwise; `ARGV[2]` is for how long it counts. Returns how many there are.
static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[3] == '1' then
  redis.call('ZADD', KEYS[1], now, ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {redis.call('ZCARD', KEYS[1])}",
    )
});

/// Keeps a store until nothing uses it any more, or the gateway drains. One that is kept already stays as it is.
pub(crate) fn keep(store: &Arc<Store>, phase: watch::Receiver<Phase>) -> io::Result<()> {
    if store.is_kept.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (name, store) = (store.config().name.to_string(), Arc::downgrade(store));
    let keep = move || runtime.block_on(Keeper::new().run(&store, phase));
    thread::Builder::new().name(format!("store-{name}")).spawn(keep).map(drop)
}

impl Keeper {
    fn new() -> Keeper {
        let half = || Random::default().next();
        Keeper {
            id: format!("{:016x}{:016x}", half(), half()),
            connection: None,
            seen: [0; SEEN],
            turn: 0,
        }
    }

    async fn run(mut self, store: &Weak<Store>, mut phase: watch::Receiver<Phase>) {
        loop {
            let Some(alive) = store.upgrade() else { return };
            if *phase.borrow_and_update() == Phase::Drain {
                let _ = timeout(MOST, self.announce(&alive, false)).await;
                return;
            }
            self.look(&alive).await;
            let sought = Arc::clone(&alive.sought);
            drop(alive);
            tokio::select! {
                () = sleep(BEAT) => {}
                () = sought.notified() => sleep(PAUSE).await,
                _ = phase.changed() => {}
            }
        }
    }

    /// Finds the store, if it may have moved, and announces the gateway there.
    async fn look(&mut self, store: &Store) {
        if store.is_sought.swap(false, Ordering::Relaxed) || store.is_partly_lost() {
            self.find(store).await;
        }
        if let Ok(Some(count)) = timeout(MOST, self.announce(store, true)).await {
            self.seen.rotate_right(1);
            self.seen[0] = count;
            store.gateways.store(self.seen.into_iter().max().unwrap_or(count), Ordering::Relaxed);
        } else {
            self.connection = None;
            // Another node of a cluster may have the key by now.
            store.is_sought.fetch_or(store.config().is_cluster, Ordering::Relaxed);
        }
    }

    async fn find(&mut self, store: &Store) {
        self.turn = self.turn.wrapping_add(1);
        match find(store.config(), (store.known_nodes(), self.turn), &store.greeting_others()).await
        {
            Ok(found) => {
                if store.take(found) {
                    self.connection = None;
                }
            }
            Err(reason) => store.note_unfound(reason),
        }
    }

    /// How many gateways there are now.
    async fn announce(&mut self, store: &Store, is_here: bool) -> Option<u32> {
        let key = format!("{}gateways", store.prefix());
        let (connection, _driver) = match &mut self.connection {
            Some(connection) => connection,
            None => self.connection.insert(connect(store, key.as_bytes()).await?),
        };
        let is_here: &[u8] = if is_here { b"1" } else { b"0" };
        let arguments: [&[u8]; 3] = [self.id.as_bytes(), LIFETIME.as_bytes(), is_here];
        let call = Call { script: &ANNOUNCE, key: key.as_bytes(), arguments: &arguments };
        let numbers = call.make(connection, false).await.ok()?;
        u32::try_from(*numbers.first()?).ok()
    }
}

/// A connection of the keeper's own.
async fn connect(store: &Store, key: &[u8]) -> Option<(MultiplexedConnection, Driver)> {
    let shard = store.shard_of(key).filter(|shard| !shard.places.borrow().is_empty())?;
    let (connection, driver) = store.connect(&shard, Replies::Short).await.ok()?;
    Some((connection, Driver::spawn(driver)))
}
