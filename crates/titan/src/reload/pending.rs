//! What another thread does, and whether that takes too long.

use std::future;
use std::io;
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Something that another thread does.
pub(super) struct Pending<A, T> {
    /// What it is about.
    pub(super) about: A,
    outcome: oneshot::Receiver<T>,
    patience: Patience,
}

/// Whether something takes too long.
#[derive(Clone, Copy)]
enum Patience {
    /// It will from then on.
    Until(Instant),
    /// It does, and that was told.
    Lost,
}

impl<A, T: Send + 'static> Pending<A, T> {
    /// What was begun just now, and takes too long after that time.
    pub(super) fn new(
        about: A,
        outcome: oneshot::Receiver<T>,
        patience: Duration,
    ) -> Pending<A, T> {
        Pending { about, outcome, patience: Patience::Until(Instant::now() + patience) }
    }

    /// Does something on a thread of its own. Where nobody waits for what comes of it any more the program is about to end.
    pub(super) fn spawn(
        about: A,
        job: impl FnOnce() -> T + Send + 'static,
        patience: Duration,
    ) -> Result<Pending<A, T>, (A, io::Error)> {
        let (done, outcome) = oneshot::channel();
        let job = move || drop(done.send(job()));
        match thread::Builder::new().name("reload".to_owned()).spawn(job) {
            Ok(_) => Ok(Pending::new(about, outcome, patience)),
            Err(error) => Err((about, error)),
        }
    }

    /// When it will take too long, unless it does already.
    pub(super) fn late_at(&self) -> Option<Instant> {
        match self.patience {
            Patience::Until(at) => Some(at),
            Patience::Lost => None,
        }
    }

    /// Whether it takes too long by `now`. That is told once.
    pub(super) fn becomes_late(&mut self, now: Instant) -> bool {
        let is_late = self.late_at().is_some_and(|at| now >= at);
        if is_late {
            self.patience = Patience::Lost;
        }
        is_late
    }

    /// Whether it takes too long, as was told.
    pub(super) fn is_late(&self) -> bool {
        matches!(self.patience, Patience::Lost)
    }
}

/// Waits for what is under way, for ever where nothing is. No outcome means that its thread has panicked, or never began.
pub(super) async fn ended<A, T>(pending: &mut Option<Pending<A, T>>) -> (A, Option<T>) {
    let outcome = match pending {
        Some(pending) => (&mut pending.outcome).await.ok(),
        None => future::pending().await,
    };
    match pending.take() {
        Some(Pending { about, .. }) => (about, outcome),
        None => future::pending().await,
    }
}
