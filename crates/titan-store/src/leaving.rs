//! What a gateway has taken from a store and gives back before it ends: who waits for that, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Whether the gateway leaves, and what its workers still have to give back.
pub(crate) struct Leaving {
    is_leaving: watch::Sender<bool>,
    /// By worker.
    owed: Box<[Owed]>,
}

/// What one worker has to give back.
#[derive(Default)]
struct Owed {
    count: AtomicU32,
    settled: Notify,
}

/// Something that is given back when this is dropped, or is lost then.
pub struct Owing {
    leaving: Arc<Leaving>,
    worker: usize,
}

/// How long a worker waits at its end until everything is given back. What is not is lost for as long as it would have taken
/// to come back by itself.
const SETTLE: Duration = Duration::from_millis(250);

impl Leaving {
    pub(crate) fn new(workers: usize) -> Leaving {
        let owed = std::iter::repeat_with(Owed::default).take(workers).collect();
        Leaving { is_leaving: watch::channel(false).0, owed }
    }

    /// The gateway drains: nothing more is taken ahead, and what was is given back.
    pub(crate) fn begin(&self) {
        self.is_leaving.send_replace(true);
    }

    pub(crate) fn is_begun(&self) -> bool {
        *self.is_leaving.borrow()
    }

    /// Ends when the gateway drains.
    pub(crate) async fn begins(&self) {
        // An error would say that there is no sender.
        let _ = self.is_leaving.subscribe().wait_for(|it| *it).await;
    }

    /// Counts something that the worker has to give back.
    pub(crate) fn owe(self: &Arc<Self>, worker: usize) -> Owing {
        self.owed[worker].count.fetch_add(1, Ordering::Relaxed);
        Owing { leaving: Arc::clone(self), worker }
    }

    /// Waits until the worker has given everything back. To be called on its runtime.
    pub(crate) async fn settle(&self, worker: usize) {
        let Owed { count, settled } = &self.owed[worker];
        let _ = timeout(SETTLE, async {
            while count.load(Ordering::Relaxed) > 0 {
                settled.notified().await;
            }
        })
        .await;
    }
}

impl Drop for Owing {
    fn drop(&mut self) {
        let Owed { count, settled } = &self.leaving.owed[self.worker];
        if count.fetch_sub(1, Ordering::Relaxed) == 1 {
            settled.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_what_is_owed_and_no_longer_than_it_may() {
        let leaving = Arc::new(Leaving::new(2));
        let began = Instant::now();
        leaving.settle(0).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        let (ours, _theirs) = (leaving.owe(0), leaving.owe(1));
        tokio::spawn({
            let leaving = Arc::clone(&leaving);
            async move {
                leaving.begins().await;
                tokio::time::sleep(SETTLE / 2).await;
                drop(ours);
            }
        });
        leaving.begin();
        leaving.settle(0).await;
        assert_eq!(began.elapsed(), SETTLE / 2);
        leaving.settle(1).await;
        assert_eq!(began.elapsed(), SETTLE / 2 + SETTLE);
    }
}
