//! What was asked for, and the way back to whoever did.

use super::attempts::Wanted;
use titan_admin::history::{Author, Source};
use titan_admin::orders::{Applied, NotApplied, Order};
use tokio::sync::oneshot;

/// What came of a request.
pub(super) type Outcome = Result<Applied, NotApplied>;

/// A change that was asked for.
pub(super) struct Request {
    pub(super) wanted: Wanted,
    pub(super) author: Author,
    /// The way back, where somebody waits for what comes of it.
    pub(super) done: Option<oneshot::Sender<Outcome>>,
}

impl Request {
    /// One that nobody waits for.
    pub(super) fn quiet(wanted: Wanted, author: Author) -> Request {
        Request { wanted, author, done: None }
    }

    /// What the history calls its origin.
    pub(super) fn source(&self) -> Source {
        match self.author {
            Author::Signal => Source::Signal,
            Author::Watch => Source::Watch,
            Author::Peer { .. } | Author::Token(_) => Source::Admin,
        }
    }

    /// Tells that it is in force.
    pub(super) fn accept(self, applied: impl FnOnce() -> Applied) {
        let Some(done) = self.done else { return };
        // Where nobody waits any more the log has told it.
        let _ = done.send(Ok(applied()));
    }

    /// Tells that it is not.
    pub(super) fn refuse(self, why: NotApplied) {
        let Some(done) = self.done else { return };
        let _ = done.send(Err(why));
    }
}

/// Refuses whatever is ordered of a gateway that has no file: what is in force cannot be told either.
pub(super) fn refuse_without_file(order: Order) {
    let why = "the demo has no configuration that could change: start the gateway with a file";
    let refused = Err(NotApplied::Conflict(why.to_owned()));
    match order {
        Order::Change { done, .. } | Order::Confirm { done, .. } => drop(done.send(refused)),
        // What is dropped here tells that nothing comes.
        Order::InForce(_) | Order::History(_) => {}
    }
}
