//! What goes wrong with an upstream: noted by those whom it happens to, for somebody who tells the operator.
//!
//! What is kept is bounded by the number of causes. Of each the first is described, and the others are counted until
//! somebody takes both: under a flood of failures a note costs a load and an addition.

use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use titan_io::error::Kind;

/// What has gone wrong since somebody asked last, by cause.
pub struct Troubles(Box<[Noted]>);

/// The same for one cause.
#[derive(Default)]
struct Noted {
    first: ArcSwapOption<Trouble>,
    count: AtomicU64,
}

/// Why something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An attempt has failed, or there was none.
    Failed(Kind),
    /// A name has not resolved.
    Name,
}

/// One time that it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The reason, with the endpoint or the name where there is one.
    pub what: String,
    /// The route of the request that met it.
    pub route: Option<String>,
    /// The id of that request.
    pub request: Option<String>,
}

/// What codes of failures have behind them.
const NAME: &str = "name";

impl Troubles {
    /// Counts one, which `describe` tells of where nobody has yet.
    pub fn note(&self, cause: Cause, describe: impl FnOnce() -> Trouble) {
        let Some(noted) = self.of(cause) else { return };
        noted.count.fetch_add(1, Ordering::Relaxed);
        if self.is_wanted(cause) {
            noted.first.store(Some(Arc::new(describe())));
        }
    }

    /// Whether the next one with this cause is described.
    pub fn is_wanted(&self, cause: Cause) -> bool {
        self.of(cause).is_some_and(|noted| noted.first.load().is_none())
    }

    /// What was noted of a cause; nothing of what policies refuse, which is no trouble of an upstream.
    fn of(&self, cause: Cause) -> Option<&Noted> {
        match cause {
            Cause::Failed(kind) => Some(&self.0[kind.index()?]),
            Cause::Name => self.0.last(),
        }
    }

    /// The code of each cause, what was noted of it, and how often that happened; from now on it is noted anew.
    pub fn take(&self) -> impl Iterator<Item = (&'static str, Arc<Trouble>, u64)> {
        let codes = Kind::CODES.iter().copied().chain([NAME]);
        codes.zip(&self.0).filter_map(|(code, noted)| {
            let first = noted.first.swap(None)?;
            Some((code, first, noted.count.swap(0, Ordering::Relaxed)))
        })
    }
}

impl Trouble {
    /// A name that has no address.
    pub fn of_name(name: &str, reason: &str) -> Trouble {
        let what = format!("{name} does not resolve: {reason}");
        Trouble { what, route: None, request: None }
    }
}

impl Default for Troubles {
    fn default() -> Troubles {
        let causes = Kind::CODES.len() + [NAME].len();
        Troubles(std::iter::repeat_with(Noted::default).take(causes).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(what: &str) -> Trouble {
        Trouble { what: what.to_owned(), route: None, request: None }
    }

    fn taken(troubles: &Troubles) -> Vec<(&'static str, String, u64)> {
        troubles.take().map(|(code, trouble, count)| (code, trouble.what.clone(), count)).collect()
    }

    #[test]
    fn the_first_of_each_cause_is_described_and_the_others_are_counted() {
        let troubles = Troubles::default();
        assert_eq!(taken(&troubles), []);
        troubles.note(Cause::Failed(Kind::Connect), || trouble("first"));
        for _ in 0..2 {
            let never = || panic!("it is described already");
            troubles.note(Cause::Failed(Kind::Connect), never);
        }
        troubles.note(Cause::Name, || trouble("a.test"));
        let told = [("connect", "first".to_owned(), 3), ("name", "a.test".to_owned(), 1)];
        assert_eq!(taken(&troubles), told);
        assert_eq!(taken(&troubles), []);
        troubles.note(Cause::Failed(Kind::Connect), || trouble("later"));
        assert_eq!(taken(&troubles), [("connect", "later".to_owned(), 1)]);
    }
}
