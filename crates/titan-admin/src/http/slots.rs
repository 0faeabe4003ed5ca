//! Who may be connected at the same moment, and who has to go for the next one.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of a server.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// How many connections have to go. Those that are idle queue here, and a semaphore is fair: the one
    /// that has been idle for longest goes.
    wanted: Semaphore,
}

impl Places {
    /// So many, all free.
    pub(super) fn new(count: usize) -> Places {
        Places { free: Arc::new(Semaphore::new(count)), wanted: Semaphore::new(0) }
    }

    /// Takes a place until what it returns is dropped.
    pub(super) async fn take(&self) -> OwnedSemaphorePermit {
        const OPEN: &str = "nobody closes the semaphore";
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return place;
        }
        self.wanted.add_permits(1);
        let place = Arc::clone(&self.free).acquire_owned().await.expect(OPEN);
        // Another one may have left on its own.
        self.wanted.forget_permits(1);
        place
    }

    /// Waits until whoever waits here has to leave.
    pub(super) async fn is_wanted(&self) {
        self.wanted.acquire().await.expect("nobody closes the semaphore").forget();
    }
}
