//! How a worker on which a request waits gets the slots of connections that are idle on other workers.

use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Requests to each worker of a gateway to close idle connections.
pub struct Reclaim {
    workers: Box<[WorkerRequests]>,
}

/// The idle connections that one worker should close.
#[derive(Default)]
struct WorkerRequests {
    /// The endpoints whose idle connections are wanted, each once.
    endpoints: Mutex<Vec<u64>>,
    news: Notify,
}

impl Reclaim {
    /// For that many workers, without any request yet.
    pub fn new(workers: usize) -> Reclaim {
        Reclaim { workers: (0..workers).map(|_| WorkerRequests::default()).collect() }
    }

    /// Asks all workers to close their idle connections to that endpoint.
    pub fn ask(&self, endpoint: u64) {
        for asked in &self.workers {
            let mut endpoints = asked.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
                asked.news.notify_one();
            }
        }
    }

    /// Waits until that worker should close some.
    pub async fn asked(&self, worker: usize) {
        self.workers[worker].news.notified().await;
    }

    /// The endpoints whose idle connections that worker should close, since the last call.
    pub fn take(&self, worker: usize) -> Vec<u64> {
        let endpoints = &self.workers[worker].endpoints;
        std::mem::take(&mut *endpoints.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_worker_is_asked_once_for_an_endpoint() {
        let reclaim = Reclaim::new(2);
        [7, 8, 7].into_iter().for_each(|endpoint| reclaim.ask(endpoint));
        for worker in 0..2 {
            reclaim.asked(worker).await;
            assert_eq!(reclaim.take(worker), [7, 8]);
            assert!(reclaim.take(worker).is_empty());
        }
        reclaim.ask(7);
        reclaim.asked(1).await;
        assert_eq!(reclaim.take(1), [7]);
    }
}
