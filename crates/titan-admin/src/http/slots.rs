//! How many connections may be open at once, and which idle one closes for the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The connections that a server may have open.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    count: u32,
    free: Arc<Semaphore>,
    /// How many idle connections have to close. They queue here, and a semaphore is fair: the one that has been
    /// idle for longest closes.
    wanted: Semaphore,
    /// Whether all have to close.
    is_closing: AtomicBool,
}

const OPEN: &str = "the semaphore is never closed";

impl ConnectionSlots {
    /// So many, all free.
    pub(super) fn new(count: u32) -> ConnectionSlots {
        let (free, wanted) = (Arc::new(Semaphore::new(count as usize)), Semaphore::new(0));
        ConnectionSlots { count, free, wanted, is_closing: AtomicBool::new(false) }
    }

    /// Takes a slot until the permit is dropped.
    pub(super) async fn take(&self) -> OwnedSemaphorePermit {
        if let Ok(slot) = Arc::clone(&self.free).try_acquire_owned() {
            return slot;
        }
        self.wanted.add_permits(1);
        let slot = Arc::clone(&self.free).acquire_owned().await.expect(OPEN);
        // Another one may have left on its own.
        self.wanted.forget_permits(1);
        slot
    }

    /// Waits until the connection that waits here has to close.
    pub(super) async fn is_wanted(&self) {
        // An error means that all have to.
        if let Ok(permit) = self.wanted.acquire().await {
            permit.forget();
        }
    }

    /// Has all connections close as soon as they are idle. No further one is there to come.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.wanted.close();
    }

    /// Waits until no connection is open.
    pub(super) async fn are_free(&self) {
        let _all = self.free.acquire_many(self.count).await.expect(OPEN);
    }

    /// Whether all connections have to close.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }
}
