//! What was asked for, and the way back to whoever did.

use super::attempts::Wanted;
use titan_admin::history::{Author, History, Origin, Source};
use titan_admin::orders::{Applied, ConfigOrder, NotApplied, Safeguards};
use tokio::sync::oneshot;

/// What came of a request.
pub(super) type Outcome = Result<Applied, NotApplied>;

/// A change that was asked for.
pub(super) struct Request {
    pub(super) wanted: Wanted,
    /// Whether that is what was in force before the configuration that is when this begins.
    pub(super) goes_back: bool,
    /// Who asks; nobody where the gateway takes something back.
    pub(super) author: Option<Author>,
    /// What takes it back.
    pub(super) safeguards: Safeguards,
    /// The way back, where somebody waits for what comes of it.
    pub(super) done: Option<oneshot::Sender<Outcome>>,
}

impl Request {
    /// One that nobody waits for.
    pub(super) fn quiet(wanted: Wanted, author: Option<Author>) -> Request {
        let safeguards = Safeguards::default();
        Request { wanted, goes_back: false, author, safeguards, done: None }
    }

    /// Whether another configuration is asked for, and not only the files that it names.
    pub(super) fn is_change(&self) -> bool {
        !matches!(self.wanted, Wanted::NamedFiles)
    }

    /// Whether it takes a configuration back that was on trial.
    pub(super) fn ends_trial(&self) -> bool {
        matches!(self.wanted, Wanted::Before(_))
    }

    /// What the history says of it.
    pub(super) fn origin(&self, history: &History) -> Origin {
        let (source, repeats) = match (&self.wanted, &self.author) {
            (Wanted::Past(entry, _), _) => (Source::Rollback, Some(history.id(*entry))),
            (Wanted::Before(before), _) => {
                (Source::TakenBack, Some(history.id(before.former.entry)))
            }
            (_, Some(Author::Signal)) => (Source::Signal, None),
            (_, Some(Author::Watch)) => (Source::Watch, None),
            (_, Some(Author::Source(_))) => (Source::Delivery, None),
            (_, Some(Author::Peer { .. } | Author::Token(_)) | None) => (Source::Admin, None),
        };
        Origin { source, author: self.author.clone(), repeats }
    }

    /// Tells that it was not done. Where nobody waits any more the log has told it.
    pub(super) fn refuse(self, why: NotApplied) {
        let Some(done) = self.done else { return };
        let _ = done.send(Err(why));
    }
}

/// Refuses whatever is ordered of a gateway that has no file: what is in force cannot be told either.
pub(super) fn refuse_without_file(order: ConfigOrder) {
    const CHANGE: &str =
        "the demo has no configuration that could change: start the gateway with a file";
    const READ: &str = "the demo has no configuration file and no history that could be shown: start the gateway with a file";
    let refusal = |why: &str| NotApplied::Conflict(why.to_owned());
    match order {
        ConfigOrder::Change { done, .. } | ConfigOrder::Confirm { done, .. } => {
            drop(done.send(Err(refusal(CHANGE))));
        }
        ConfigOrder::Plan { done, .. } => drop(done.send(Err(refusal(CHANGE)))),
        ConfigOrder::Compare { done, .. } => drop(done.send(Err(refusal(READ)))),
        ConfigOrder::Explain { done, .. } => drop(done.send(Err(refusal(READ)))),
        ConfigOrder::InForce(shown) => drop(shown.send(Err(refusal(READ)))),
        ConfigOrder::History(told) => drop(told.send(Err(refusal(READ)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_says_why_it_shows_nothing() {
        let (shown, mut in_force) = oneshot::channel();
        let (told, mut history) = oneshot::channel();
        refuse_without_file(ConfigOrder::InForce(shown));
        refuse_without_file(ConfigOrder::History(told));
        for refused in [in_force.try_recv().unwrap().err(), history.try_recv().unwrap().err()] {
            let Some(NotApplied::Conflict(why)) = refused else { panic!("{refused:?}") };
            assert!(why.starts_with("the demo has no configuration file and no history"), "{why}");
        }
    }
}
